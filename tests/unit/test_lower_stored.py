"""Results of what has been stored: in a storage of their own they need not wait for the store, where that costs nothing."""

from __future__ import annotations

from types import ModuleType

import pytest

from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.schedule import Schedule
from autosched.script import parse
from sim import timing


def program(second: str, tile: int = 32, first: bool = True, tiles: int = 3) -> PrimFunc:
    """``y = x + 1``, and ``z`` of it; ``first``: ``y`` is a result, too, stored before ``z`` is made."""
    stored = """
            for j, l in T.grid({tile}, 16):
                with T.block("low"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    low[vi, vj, 0, vl] = T.cast(y[vi, vj, 0, vl], "int8")"""
    text = f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({tiles}, {{tile}}, 1, 16), "int32"), low: T.Buffer(({tiles}, {{tile}}, 1, 16), "int8"),
         high: T.Buffer(({tiles}, {{tile}}, 1, 16), "int8")):
    x = T.alloc_buffer(({tiles}, {{tile}}, 1, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({tiles}, {{tile}}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({tiles}, {{tile}}, 1, 16), "int32", scope="local.acc_buffer")
    for u in range(1):
        for i in range({tiles}):
            for j, l in T.grid({{tile}}, 16):
                with T.block("load"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    x[vi, vj, 0, vl] = a[vi, vj, 0, vl]
            for j, l in T.grid({{tile}}, 16):
                with T.block("y"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    y[vi, vj, 0, vl] = x[vi, vj, 0, vl] + 1{stored if first else ""}
            for j, l in T.grid({{tile}}, 16):
                with T.block("z"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    z[vi, vj, 0, vl] = {second}
            for j, l in T.grid({{tile}}, 16):
                with T.block("high"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    high[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl], "int8")
'''
    if not first:
        text = text.replace('low: T.Buffer((3, {tile}, 1, 16), "int8"),\n         ', "")
    func = parse(text.replace("{tile}", str(tile)))
    assert isinstance(func, PrimFunc)
    return func


SHIFTED = "T.shift_right(y[vi, vj, 0, vl], 8)"


def places(func: PrimFunc, target: str = "vta-de10") -> set[str]:
    return {s.buffer for s in lower_table(func, target).storages if s.scope == "local.acc_buffer"}


@pytest.mark.parametrize(("second", "first", "target", "own"), [
    (SHIFTED, True, "vta-de10", True),
    ("T.max(y[vi, vj, 0, vl], 0)", True, "vta-de10", True),
    ("T.shift_right(y[vi, vj, 0, vl] + y[vi, vj, 0, vl], 8)", True, "vta-de10", False),  # two tensors: it would be a move more
    (SHIFTED, False, "vta-de10", False),  # nothing is stored that it would wait for
    (SHIFTED, True, "vta-de10-portable", False),  # a move would be a reset and a sum
    (SHIFTED, True, "vta-fsim", False),
])
def test_what_begins_with_a_constant_has_a_storage_of_its_own(
    second: str, first: bool, target: str, own: bool, vta_schedules: ModuleType
) -> None:
    func = program(second, first=first)
    vta_schedules.verify(func, target)
    assert ("z" in places(func, target)) == own


@pytest.mark.parametrize(("tile", "own"), [(1024, True), (1025, False)])  # boundary: of 2048 elements
def test_without_room_it_stands_where_the_operand_was(tile: int, own: bool, vta_schedules: ModuleType) -> None:
    func = program(SHIFTED, tile, tiles=1)
    vta_schedules.verify(func, "vta-de10")
    assert ("z" in places(func)) == own


def test_it_does_not_wait_for_the_store() -> None:
    """What else differs are two cycles for each of 256 elements; a store takes longer."""
    def cycles(second: str) -> int:
        low = lower_table(program(second, 256, tiles=1), "vta-de10")
        return timing.simulate(low.table, low.target.config).cycles

    twice = "T.shift_right(T.max(y[vi, vj, 0, vl], y[vi, vj, 0, vl]), 8)"
    assert cycles(SHIFTED) + 2 * 256 + 256 < cycles(twice)


@pytest.mark.parametrize("banks", [1, 2])
def test_it_has_as_many_copies_as_the_operand(banks: int, vta_schedules: ModuleType) -> None:
    """The next tile's goes to another place while this one is stored."""
    sch = Schedule(program(SHIFTED))
    if banks > 1:
        sch.double_buffer("y")
    vta_schedules.verify(sch.func, "vta-de10")
    copies = {s.buffer: s.copies for s in lower_table(sch.func, "vta-de10").storages if s.scope == "local.acc_buffer"}
    assert copies["z"] == banks == max(copies.values())
