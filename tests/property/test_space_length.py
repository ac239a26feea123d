"""The bound on a program's length against what lowering makes; programs beyond the limit are not in the space."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.lower import lower_table
from autosched.lower.limits import LIMITS
from autosched.workloads import workload
from space import Space
from space.rules.length import LIMIT, instructions

NAMES = [
    "t1",
    "dense:m=3,k=64,n=96,bias=1",
    "conv2d:n=2,h=8,w=6,ci=48,co=64,k=3,pad=1,tail=cast",
    "conv2d:h=9,w=11,ci=48,co=64,k=3,pad=1,bias=1,tail=cast",
    "conv2d:h=9,w=8,ci=32,co=16,k=5,stride=2,pad=2",
    "resnet18.c11",
]


@pytest.mark.parametrize(("name", "target"), [
    *((name, "vta-de10") for name in NAMES), *((name, "vta-de10-portable") for name in NAMES[:-1]),
    pytest.param(NAMES[-1], "vta-de10-portable", marks=pytest.mark.slow),
])
def test_no_program_is_longer_than_its_bound(name: str, target: str) -> None:
    space = Space(workload(name).func, target)
    points = space.sample(np.random.default_rng(0), 40)
    found = [share(space, point, target) for point in points]
    assert max(found) <= 1, space.explain(points[int(np.argmax(found))])
    # Nor much shorter: what is refused for its length is long. Of smaller last tiles less is known.
    alike = [n for n, point in enumerate(points) if not space.meaning(point[None])[1].stack.short.any()]
    assert len(alike) > 8 and np.median(np.array(found)[alike]) > 0.2 and np.median(found) > 0.1


def share(space: Space, point: np.ndarray, target: str) -> float:
    """The length of a point's program by what the rule says it is at most."""
    sketch, plan = space.meaning(point[None])
    return len(lower_table(space.schedule(point).func, target).table) / int(instructions(sketch.model, plan)[0])


def test_pieces_that_stay_are_counted_as_they_lie() -> None:
    space = Space(workload("conv2d:h=8,w=9,ci=64,co=32,k=5,stride=2,pad=2").func, "vta-de10")
    points = space.eager(np.random.default_rng(1), 9000)
    column = {name: points[:, n] for n, name in enumerate(space.names)}
    # Of many taps that lie in a row a piece has one: the rows of a piece are apart, and DMAs of their own.
    apart = points[(column["keep_data"] == 1) & (column["load_data"] == max(column["load_data"])) & (column["head_kx"] == 1)]
    assert len(apart) >= 8
    for point in apart[:5]:
        assert share(space, point, "vta-de10") <= 1, space.explain(point)


def test_points_whose_program_cannot_be_held_are_outside() -> None:
    """A layer of VGG's size, element by element: millions of instructions; larger tiles of it are inside."""
    space = Space(workload("conv2d:h=56,w=56,ci=256,co=256,k=3,pad=1").func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 50)
    assert len(points) == 50
    for point in points:
        sketch, plan = space.meaning(point[None])
        assert (instructions(sketch.model, plan) <= LIMIT).all()
    single = points[0].copy()
    for n, name in enumerate(space.names):
        if name.startswith("tile_"):
            single[n] = 1
    sketch, plan = space.meaning(single[None])
    assert instructions(sketch.model, plan)[0] > LIMITS.instructions > LIMIT
    assert not space.valid(space.repair(single[None])[0])[0]


def test_rows_of_a_whole_tile_are_one_dma() -> None:
    bounds = set()
    for h in (8, 24):
        space = Space(workload(f"conv2d:h={h},w=8,ci=16,co=16,k=1").func, "vta-de10")
        sketch, plan = space.meaning(space.point()[None])
        bounds.add(int(instructions(sketch.model, plan)[0]))
    assert len(bounds) == 1
