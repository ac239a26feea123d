"""Extrema of windows that take in a constant around their tensor: it is left out where it changes nothing, and there alone."""

from __future__ import annotations

import numpy as np
import pytest
from spaces import computes

from autosched import te
from autosched.errors import SpaceError
from autosched.ir import PrimFunc
from space import Space


def windows(least: bool, around: int, apart: bool = False, dtype: str = "int8") -> PrimFunc:
    x = te.placeholder((6, 6, 16), "int8", name="x")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")

    def padded(i: te.Expr, j: te.Expr, c: te.Expr) -> te.Expr:
        inside = te.all(i >= 1, i < 7, j >= 1, j < 7)
        element = x[i - 1, j - 1, c]
        return te.if_then_else(inside, element if dtype == "int8" else element.astype(dtype), te.const(around, dtype))

    p = te.compute((8, 8, 16), padded, name="p")
    op = te.min if least else te.max
    return te.create_prim_func([x, te.compute((6, 6, 16), lambda i, j, c: op(
        p[i + ry, j + rx, c] if apart else padded(i + ry, j + rx, c), axis=[ry, rx]), name="y")])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("least", "around", "plain"), [
    (False, -128, True), (False, -127, False), (False, 5, False), (True, 127, True), (True, 126, False),
])
def test_what_may_change_an_extremum_is_taken_in(least: bool, around: int, plain: bool, apart: bool) -> None:
    func = windows(least, around, apart)
    space = Space(func, "vta-de10")
    # As it is a form only leaves the constant out.
    assert (() in [sketch.done for sketch in space.sketches]) == plain
    for point in space.sample(np.random.default_rng(0), 12):
        space.schedule(point)
    computes(func, "vta-de10", 3)


@pytest.mark.parametrize(("least", "around"), [(False, -128), (False, 5), (True, 127)])
def test_of_widened_elements_it_is_refused(least: bool, around: int) -> None:
    with pytest.raises(SpaceError, match=f"takes in {around} around a part of x, and starts with ") as caught:
        Space(windows(least, around, dtype="int32"), "vta-de10")
    assert caught.value.code == "pad"


def test_zero_is_what_a_load_pads_with() -> None:
    computes(windows(False, 0, dtype="int32"), "vta-de10", 3)
