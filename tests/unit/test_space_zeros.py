"""How much of a part is padding, by brute force: rows and phases of rows may both be cut; a part of padding alone is no point."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.ir.scopes import WGT
from autosched.lower import lower_table
from autosched.workloads import workload
from space import Space

# Its last row and column of phases lie behind the result: they read padding only.
BEHIND = "conv2d_transpose:h=5,w=4,ci=16,co=16,k=4,stride=2,pad=1,opad=1,bias=1"


@pytest.mark.parametrize("name", [
    BEHIND, "conv2d_transpose:h=4,w=3,ci=16,co=16,k=5,stride=2,pad=1", "conv2d:h=7,w=6,ci=16,co=16,k=3,stride=2,pad=1",
    "conv2d:h=3,w=2,ci=16,co=16,k=3,stride=2,pad=1", "conv2d:h=1,w=5,ci=16,co=16,k=3,pad=1",
])
def test_the_share_of_a_box_that_is_no_padding(name: str) -> None:
    space = Space(workload(name).func, "vta-de10")
    model = next(sketch.model for sketch in space.sketches if sketch.model.padding.dims)
    extents, spatial, dims = model.extents, model.n_spatial, model.padding.dims
    rng = np.random.default_rng(0)
    body = model.neutral(40).body
    lows, ends = np.zeros_like(body.extents), body.extents.copy()
    for a in range(spatial):
        lows[:, a] = rng.integers(0, extents[a], size=40)
        ends[:, a] = rng.integers(lows[:, a] + 1, extents[a] + 1)
    shares = model.padding.share(replace(body, lows=lows, extents=ends - lows))
    for low, end, share in zip(lows.tolist(), ends.tolist(), shares):
        useful = 0
        steps = [range(a, b) for a, b in zip(low, end)]
        for at in product(*steps):
            useful += all(dim.inside[sum(c * i for c, i in zip(dim.coeffs, at))] for dim in dims)
        assert share == pytest.approx(useful / prod(map(len, steps)))
    assert (shares == 0).any() or name != BEHIND


@pytest.mark.parametrize("name", [
    BEHIND, "conv2d_transpose:h=1,w=3,ci=16,co=16,k=4,stride=2,pad=1",
    "conv2d_transpose:h=2,w=1,ci=32,co=16,k=4,stride=2,pad=1,bias=1",
    "conv2d:h=2,w=3,ci=16,co=16,k=5,pad=2", "conv2d:h=3,w=3,ci=16,co=16,k=3,pad=1",
])
def test_the_weights_that_some_product_reads(name: str) -> None:
    space = Space(workload(name).func, "vta-de10")
    model = next(sketch.model for sketch in space.sketches if sketch.model.padding.dims)
    kernel = next(o for o in model.nest.operands if o.scope == WGT and o.readers == (model.nest.anchor,))
    every, read = set(), set()
    for at in product(*map(range, model.extents)):
        place = tuple(sum(c * i for c, i in zip(coeffs, at)) for coeffs, _ in kernel.dims)
        every.add(place)
        if all(dim.inside[sum(c * i for c, i in zip(dim.coeffs, at))] for dim in model.padding.dims):
            read.add(place)
    assert model.padding.read(kernel, len(every)) == len(read)
    # A tap that reads padding alone is cut off, unless another phase of the result uses it.
    assert (read == every) == (name == BEHIND or "transpose" not in name)


@pytest.mark.parametrize(("padded", "same"), [
    ("h=1,w=1,k=3,pad=1", "h=1,w=1,k=1"), ("h=1,w=1,k=5,pad=2", "h=1,w=1,k=1"), ("h=2,w=2,k=3,stride=2,pad=1", "h=2,w=2,k=2"),
    ("h=1,w=2,k=3,stride=2,pad=1", None),
])
def test_nobody_needs_the_weights_of_taps_that_read_padding_alone(padded: str, same: str | None) -> None:
    """A program of the other taps is as good; of what every tap reads some of, all of them count."""
    layer = "conv2d:ci=64,co=64,"
    bound = Space(workload(layer + padded).func, "vta-de10").machine_bound()
    if same is not None:
        assert bound == Space(workload(layer + same).func, "vta-de10").machine_bound()
    else:
        assert bound > 2 * 16 * 32, "two taps"


def test_a_part_of_padding_alone_is_no_point() -> None:
    space = Space(workload(BEHIND).func, "vta-de10")
    decisions = {"sketch": 1, "cut": 1, "tile_y": 1, "tile_r": 2, "tile_x": 1, "tile_s": 2, "order": 2, "tail_last": 6}
    with pytest.raises(ProgramError, match="is not in the space"):
        space.point(**decisions, cut_again=4, drop_zeros=1)
    lower_table(space.schedule(space.point(**decisions, cut_again=4, drop_zeros=0)).func, space.target)
    for point in space.sample(np.random.default_rng(0), 60):
        lower_table(space.schedule(point).func, space.target)
