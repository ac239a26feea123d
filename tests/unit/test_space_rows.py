"""Rows in use: of what a window strides over, a tile holds what it reads, and no gaps."""

from __future__ import annotations

import numpy as np
import pytest
from decided import run, within_bounds
from draws import accepted, task_of

from autosched.ir.scopes import INP
from autosched.lower import lower_table
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.normalise import normalised
from space.rules.rows import Rows

PATCHES = [
    "conv2d:h=8,w=8,ci=32,co=32,k=2,stride=2",  # all of it is read, window beside window
    "conv2d:h=9,w=6,ci=16,co=48,k=3,stride=3",
    "conv2d:h=8,w=12,ci=16,co=16,k=2,stride=4",  # a quarter is read
    "conv2d:h=16,w=16,ci=3,co=32,k=8,stride=8",
]
WITHOUT = "conv2d:h=224,w=224,ci=3,co=384,k=32,stride=32"


def forms(name: str, target: str = "vta-de10") -> tuple[Space, list[int]]:
    """The space of a convolution, and which of its forms hold rows in use alone."""
    space = Space(workload(name).func, target)
    return space, [k for k, sketch in enumerate(space.sketches) if "rows in use" in sketch.done]


def points_of(name: str, target: str, count: int, seed: int = 0) -> tuple[Space, np.ndarray]:
    space, own = forms(name, target)
    drawn = space.sample(np.random.default_rng(seed), count)
    return space, drawn[np.isin(drawn[:, 0], own)]


@pytest.mark.parametrize(("text", "split"), [
    ("h=8,w=8,k=2,stride=2", True), ("h=8,w=8,k=3,stride=2", False),  # boundary: windows overlap
    ("h=9,w=9,k=3,stride=3", True), ("h=10,w=10,k=3,stride=3", False),  # boundary: a row is left over
    ("h=9,w=10,k=3,stride=3", True),  # along one of the dimensions
    ("h=8,w=8,k=1,stride=2", True), ("h=8,w=8,k=1,stride=1", False), ("h=8,w=8,k=2,stride=4", True),
    ("h=2,w=2,k=2,stride=2", False),  # one window
])
def test_a_dimension_is_split_where_its_windows_do_not_overlap(text: str, split: bool) -> None:
    machine = get_target("vta-de10")
    sch = normalised(workload(f"conv2d:{text},ci=32,co=32").func, machine)
    found = Rows().apply(sch, machine)
    assert [what for what, _ in found] == ["rows in use"] * split


@pytest.mark.parametrize(("text", "shape"), [
    ("h=8,w=12,k=2,stride=2", [4, 2, 6, 2]), ("h=8,w=12,k=2,stride=4", [2, 4, 3, 4]), ("h=9,w=10,k=3,stride=3", [3, 3, 10]),
    ("h=8,w=12,k=1,stride=2", [4, 2, 12]),  # of the innermost a run of one costs as much as a burst
])
def test_which_dimensions_are_split(text: str, shape: list[int]) -> None:
    machine = get_target("vta-de10")
    sch = normalised(workload(f"conv2d:{text},ci=32,co=32").func, machine)
    ((_, other),) = Rows().apply(sch, machine)
    text = ", ".join(map(str, [1, 2, *shape, 1, 16]))
    assert f"data_global = T.sblock_alloc_buffer(({text}), \"int8\")" in str(other.func)


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
@pytest.mark.parametrize("name", PATCHES)
def test_every_point_computes_what_the_program_says(name: str, target: str) -> None:
    space, points = points_of(name, target, 160)
    assert len(points) > 20
    within_bounds(space, name, points, 12)
    tally, least = accepted(task_of(name, target), space, points[:40], 0.2, np.random.default_rng(1))
    assert not tally.faults and tally.drawn == 40 and tally.executed
    assert least >= space.machine_bound()


@pytest.mark.parametrize("name", PATCHES)
def test_a_tile_holds_what_the_model_says(name: str) -> None:
    """The largest load of the data, as lowering makes it, against the model's count of elements."""
    space, points = points_of(name, "vta-de10", 200, 3)
    met = 0
    for point in points:
        sketch, plan = space.meaning(point[None])
        model, parts = sketch.model, [part for part in plan.parts if part.on[0]]
        (data,) = (k for k, operand in enumerate(model.nest.operands) if operand.scope == INP)
        if plan.keep[data][0] or not plan.attach[data][0]:
            continue
        lowered = lower_table(space.schedule(point).func, "vta-de10")
        made = {storage.elements for storage in lowered.storages if storage.scope == INP}
        assert made == {int(model.footprint(plan, part, data)[0]) for part in parts}, space.explain(point)
        met += 1
    assert met > 10


def test_patches_of_an_image_are_at_their_products() -> None:
    """32 x 32 patches of 224 x 224: a window is half of the memory of data, a channel block's weights are all of that of weights.

    With what lies between windows a tile is one of them at a time, so that either data or weights come over and over. Rows in
    use are a few columns of all windows: every result stays in the accumulator, and data and weights come once.
    """
    space, own = forms(WITHOUT)
    tiles = {"tile_y": 7, "tile_x": 7, "tile_ky": 1, "tile_kx": 8}
    some = Space(space.func, "vta-de10", fixed={"sketch": own[0], **tiles})
    points = some.sample(np.random.default_rng(0), 200)
    found = run(some, WITHOUT, points[some.draft(points).argmin()])
    assert found.ok and found.cycles is not None
    assert space.machine_bound() < found.cycles < 1.05 * space.machine_bound()
    other = next(k for k in range(len(space.sketches)) if k not in own)
    assert not len(Space(space.func, "vta-de10", fixed={"sketch": other, **tiles}).sample(np.random.default_rng(0), 5))
