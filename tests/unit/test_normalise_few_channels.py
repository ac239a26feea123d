"""Filters of one channel behind stages, where channels are so few that images and taps would fill more lanes."""

from __future__ import annotations

import numpy as np
import pytest
from spaces import computes

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.stmt import PrimFunc
from autosched.measure import Candidate, measure
from space import Space


def int8(s: te.Tensor, shift: int, name: str) -> te.Tensor:
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), -128).astype("int8"), name=name)


def filters(shape: tuple[int, int, int, int], k: int, stride: int, stage: str) -> PrimFunc:
    """A stage, then a filter of k x k for each channel."""
    n, c, h, w = shape
    x, v = te.placeholder(shape, "int8", name="x"), te.placeholder((c, k, k), "int8", name="v")
    b = te.placeholder((c,), "int32", name="b")
    if stage == "relu":
        y = te.compute(shape, lambda *i: te.max(x(*i), te.const(0, "int8")), name="y")
    else:
        y = int8(te.compute(shape, lambda n, k, y, z: x[n, k, y, z].astype("int32") + b[k], name="biased"), 1, "y")
    i, j = te.reduce_axis((0, k), name="i"), te.reduce_axis((0, k), name="j")
    s = te.compute((n, c, (h - k) // stride + 1, (w - k) // stride + 1), lambda n, o, p, q: te.sum(
        y[n, o, p * stride + i, q * stride + j].astype("int32") * v[o, i, j].astype("int32"), axis=[i, j]), name="s")
    return te.create_prim_func([x, v, *([b] if stage == "bias" else []), int8(s, 4, "out")])


@pytest.mark.parametrize(("shape", "k", "stride", "stage"), [
    ((1, 3, 8, 3), 3, 1, "relu"), ((2, 4, 2, 2), 2, 1, "relu"), ((1, 1, 8, 2), 2, 1, "bias"), ((1, 3, 9, 3), 3, 2, "bias"),
])
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_what_a_stage_makes_is_no_weight(shape: tuple[int, int, int, int], k: int, stride: int, stage: str, target: str) -> None:
    """It was refused: rows of an image as a weight's would fill more lanes than its channels, and the machine stores vectors."""
    func = filters(shape, k, stride, stage)
    space = Space(func, target)
    computes(func, target)
    for point in space.sample(np.random.default_rng(1), 2):
        result = measure(Candidate(func, space.target, tuple(space.trace(point).as_json())))
        assert result.cycles is not None and result.cycles >= max(space.machine_bound(), int(space.bound(point[None])[0]))


def test_of_two_factors_that_stages_make_none_is_a_weight() -> None:
    x, a = te.placeholder((1, 3, 8, 3), "int8", name="x"), te.placeholder((3, 3, 3), "int8", name="a")
    y, v = (te.compute(t.shape, lambda *i, t=t: te.max(t(*i), te.const(0, "int8")), name=f"{t.name}_up") for t in (x, a))
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="j")
    s = te.compute((1, 3, 6, 1), lambda n, o, p, q: te.sum(
        y[n, o, p + i, q + j].astype("int32") * v[o, i, j].astype("int32"), axis=[i, j]), name="s")
    with pytest.raises(SpaceError, match="block 's' reduces what block 'x_up' computes"):
        Space(te.create_prim_func([x, a, int8(s, 4, "out")]), "vta-de10")
