"""What only stages read, of a convolution with the sum that its result goes into: parts load their own, behind their products."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, off, run, settled

from autosched.ir import PrimFunc
from autosched.lower import lower_table
from autosched.networks.graph import Residual
from autosched.networks.programs import Spec, program
from autosched.script import T
from sim import isa
from space import Space


def summed(ci: int, rows: int) -> PrimFunc:
    """A 1x1 convolution and its sum with another tensor."""
    return program(Spec("conv", 1, ci, rows, 14, 48, rows, 14, shift=7, residual=Residual(0, 0, 0, 0, -128, 127)), 1, 16)


def inputs(space: Space, point: np.ndarray) -> list[int]:
    """Elements of every load of inputs, in order."""
    table = lower_table(space.schedule(point).func, space.target).table
    rows = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_INP)]
    return [int(n) for n in rows[:, isa.Y_SIZE] * rows[:, isa.X_SIZE]]


@pytest.mark.parametrize(("axis", "size", "loads"), [
    # Four steps of the first part's sum, then what is added to it; the same of the last part.
    ("y", 1, [182, 182, 182, 182, 546, 14, 14, 14, 14, 42]), ("x", 3, [154, 154, 154, 154, 462, 42, 42, 42, 42, 126]),
    ("co", 1, [196, 196, 196, 196, 392, 196, 196, 196, 196, 196]), ("y", 0, [196, 196, 196, 196, 588]),
])
def test_every_part_loads_its_own_behind_its_products(axis: str, size: int, loads: list[int]) -> None:
    func = summed(64, 14)
    space = Space(func, "vta-de10")
    last = cut(space, axis, size) if size else 0
    point = settled(space, cut=last, tile_ci=1, load_data=9, load_weight=9, banks_data=2, banks_weight=2)
    assert (f"cut last {axis}={size}" in space.explain(point)) == bool(size) and "res@root" in space.explain(point)
    assert inputs(space, point) == loads
    assert run(space, func, point, execute=True).ok


def test_the_estimate_knows_it() -> None:
    func = summed(240, 14)
    space = Space(func, "vta-de10")
    point = settled(space, cut=cut(space, "y", 1), tile_ci=1, load_data=9, load_weight=9, banks_data=3, banks_weight=3)
    assert abs(off(space, func, point[None])[0]) < 0.02


@T.prim_func
def slice_added(
    data: T.Buffer((1, 2, 14, 14, 1, 16), "int8"), weight: T.Buffer((3, 2, 16, 16), "int8"),
    res: T.Buffer((1, 8, 14, 14, 1, 16), "int8"), out: T.Buffer((1, 3, 14, 14, 1, 16), "int8"),
):
    C = T.alloc_buffer((1, 3, 14, 14, 1, 16), "int32")
    S = T.alloc_buffer((1, 3, 14, 14, 1, 16), "int32")
    for n, c, y, x, b, l, i, j in T.grid(1, 3, 14, 14, 1, 16, 2, 16):  # noqa: E741
        with T.block("C"):
            vn, vc, vy, vx, vb, vl, vi, vj = T.axis.remap("SSSSSSRR", [n, c, y, x, b, l, i, j])
            with T.init():
                C[vn, vc, vy, vx, vb, vl] = 0
            C[vn, vc, vy, vx, vb, vl] = C[vn, vc, vy, vx, vb, vl] + T.Cast("int32", data[vn, vi, vy, vx, vb, vj]) * T.Cast(
                "int32", weight[vc, vi, vl, vj])
    for n, c, y, x, b, l in T.grid(1, 3, 14, 14, 1, 16):  # noqa: E741
        with T.block("S"):
            vn, vc, vy, vx, vb, vl = T.axis.remap("SSSSSS", [n, c, y, x, b, l])
            S[vn, vc, vy, vx, vb, vl] = T.shift_right(C[vn, vc, vy, vx, vb, vl], 8) + T.Cast(
                "int32", res[vn, vc + 4, vy, vx, vb, vl])
    for n, c, y, x, b, l in T.grid(1, 3, 14, 14, 1, 16):  # noqa: E741
        with T.block("out"):
            vn, vc, vy, vx, vb, vl = T.axis.remap("SSSSSS", [n, c, y, x, b, l])
            out[vn, vc, vy, vx, vb, vl] = T.Cast("int8", T.max(T.min(S[vn, vc, vy, vx, vb, vl], 127), -128))


@pytest.mark.parametrize("size", [5, 0])
def test_the_estimate_knows_what_each_part_reads_of_a_larger_tensor(size: int) -> None:
    # Nobody needs most of it, which no load brings: neither that of a part nor that of a program of one part.
    func: PrimFunc = slice_added
    space = Space(func, "vta-de10")
    point = settled(space, cut=cut(space, "vy", size) if size else 0)
    assert run(space, func, point, execute=True).ok
    assert abs(off(space, func, point[None])[0]) < 0.05
