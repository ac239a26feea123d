"""Tensors in between that are flat: the dimensions that they get, the same results, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space.normalise import flat, why_unpacked
from space.normalise.blocks import device_blocks, store_of

HEAD = '''
@T.prim_func
def f(X: T.Buffer((6, 12), "int32"), out: T.Buffer(({0},), "int32")):
    t = T.alloc_buffer(({1}), "int32")
    for i, j in T.grid({2}):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[{3}] = X[{4}] + 1
    for {5} in {6}:
        with T.block("out"):
            {7}
            {8}
'''


def program(size: int, shape: str, grid: str, store: str, read: str, last: tuple[str, str, str]) -> PrimFunc:
    loops, extents, body = last
    names = loops.split(", ")
    if len(names) == 1:
        axes = f"v{loops} = T.axis.spatial({extents}, {loops})"
        return parse(HEAD.format(size, shape, grid, store, read, loops, f"range({extents})", axes, body))
    axes = f'{", ".join("v" + n for n in names)} = T.axis.remap("{"S" * len(names)}", [{loops}])'
    return parse(HEAD.format(size, shape, grid, store, read, loops, f"T.grid({extents})", axes, body))


PLAIN = ("i, j", "6, 12", "out[vi * 12 + vj] = t[vi * 12 + vj]")
# With the shape of t afterwards.
FLAT = {
    "as it is stored": ((72, "72", "6, 12", "vi * 12 + vj", "vi, vj", PLAIN), (6, 12)),
    "with a stage over all": ((72, "72", "6, 12", "vi * 12 + vj", "vi, vj", ("f", "72", "out[vf] = t[vf]")), (6, 12)),
    "as it is read": ((72, "72", "2, 36", "vi * 36 + vj", "vi * 3 + vj // 12, vj % 12", PLAIN), (2, 36)),
    "in one dimension": ((72, "1, 72", "6, 12", "0, vi * 12 + vj", "vi, vj",
                          ("i, j", "6, 12", "out[vi * 12 + vj] = t[0, vi * 12 + vj]")), (1, 6, 12)),
    "with windows": ((40, "72", "6, 12", "vi * 12 + vj", "vi, vj",
                      ("i, j, k", "4, 10, 1", "out[vi * 10 + vj] = t[(vi * 1 + 2) * 12 + vj + vk + 2]")), (6, 12)),
}


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_tensor_gets_dimensions(name: str) -> None:
    args, shape = FLAT[name]
    func = program(*args)
    sch = flat.apart(Schedule(func, seed=0), get_target("vta-de10"))
    assert sch is not None
    made = next(store_of(b).buffer for b in device_blocks(sch.func) if store_of(b).buffer.name == "t")
    assert tuple(int_value(e) for e in made.shape) == shape
    inputs = random_inputs(func, 2)
    for got, wanted in zip(run(sch.func, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    assert "//" not in sch.script().partition("out[")[2] and flat.apart(sch, get_target("vta-de10")) is None


@pytest.mark.parametrize("args", [
    (72, "6, 12", "6, 12", "vi, vj", "vi, vj", ("i, j", "6, 12", "out[vi * 12 + vj] = t[vi, vj]")),
    (72, "72", "6, 12", "vi * 12 + vj", "vi, vj", ("i, j", "9, 8", "out[vi * 8 + vj] = t[vi * 8 + vj]")),
    (24, "78", "6, 12", "vi * 13 + vj", "vi, vj", ("i, j", "2, 12", "out[vi * 12 + vj] = t[vi * 13 + vj + 5]")),
])
def test_what_has_no_other_dimensions_stays(args) -> None:
    func = program(*args)
    begun = Schedule(func, seed=0)
    assert flat.apart(begun, get_target("vta-de10")) is None and begun.func is func and not begun.trace.insts


def test_what_is_in_the_way_is_said_of_what_the_dimensions_leave(user_programs) -> None:
    assert why_unpacked(user_programs.program("flat_reshaped"), get_target("vta-de10")).startswith("block E sums up")
