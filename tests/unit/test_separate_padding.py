"""separate_padding: zeros at the ends of a tensor are made by a stage behind what stores it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.expr import int_value
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc], Schedule]

ROWS = '''
@T.prim_func
def f(A: T.Buffer((18,), "int32"), B: T.Buffer((6, 4), "int32")):
    P = T.alloc_buffer((24,), "int32")
    Z = T.alloc_buffer((6, 4), "int32")
    for i in range(24):
        with T.block("P"):
            vi = T.axis.spatial(24, i)
            P[vi] = T.if_then_else({low} <= vi and vi < {high}, A[vi - {low}], {zero})
    for i, j in T.grid(6, 4):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[{at}] = P[vi * 4 + vj]
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = Z[vi, vj] + 1
'''


def rows(low: int = 5, high: int = 20, zero: int = 0, at: str = "vi, vj") -> PrimFunc:
    return parse(ROWS.format(low=low, high=high, zero=zero, at=at))


def block(sch: Schedule, name: str) -> Any:
    return sch.get(sch.get_sblock(name))


def inner(sch: Schedule, name: str) -> Any:
    return next(b for b in block(sch, "root").alloc_buffers if b.name == name)


@pytest.mark.parametrize(("low", "high", "kept"), [
    (5, 20, 4), (4, 20, 4), (3, 20, 5), (7, 20, 4), (8, 20, 3), (4, 21, 5), (0, 16, 4), (5, 22, 5),
])
def test_rows_of_zeros_at_both_ends_are_a_stage(
    low: int, high: int, kept: int, same: Same, verify_trace_roundtrip: Verify
) -> None:
    """What of a row is no zero keeps it; the condition stands in the stage that is read."""
    func = rows(low, high)
    sch = Schedule(func)
    before = sch.get_sblock("Z")
    made: Any = sch.get(sch.separate_padding("Z"))
    rest: Any = sch.get(before)
    assert [int_value(n) for n in inner(sch, "Z_inner").shape] == [kept, 4]
    assert made.name == "Z_padding" and rest.name == "Z" and rest.writes[0].buffer is inner(sch, "Z_inner")
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_a_stage_of_the_host_stays_one_and_what_pads_is_none(same: Same) -> None:
    func = rows()
    sch = Schedule(func)
    for name in ("P", "Z"):
        sch.host_stage(name)
    made: Any = sch.get(sch.separate_padding("Z"))
    assert "host_stage" in block(sch, "Z").annotations and not made.annotations
    same(func, sch)


@pytest.mark.parametrize(("low", "high", "zero", "at", "code"), [
    (3, 21, 0, "vi, vj", "form"),  # a row at each end has an element
    (8, 16, 7, "vi, vj", "form"),  # not with zeros
    (8, 16, 0, "vi, 3 - vj", "form"),  # not at plain iterators
])
def test_others_stay(low: int, high: int, zero: int, at: str, code: str) -> None:
    with refused(ScheduleError, code):
        Schedule(rows(low, high, zero, at)).separate_padding("Z")


def test_nothing_but_zeros_is_no_padding() -> None:
    func = parse(ROWS.format(low=0, high=24, zero=0, at="vi, vj").replace("= P[vi * 4 + vj]", "= 0"))
    with refused(ScheduleError, "form"):
        Schedule(func).separate_padding("Z")


def test_results_and_what_several_write_stay() -> None:
    func = rows()
    with refused(ScheduleError, "form"):
        Schedule(func).separate_padding("B")
    twice = parse(ROWS.format(low=5, high=20, zero=0, at="vi, vj").replace("B[vi, vj] = Z[vi, vj] + 1", "Z[vi, vj] = 1"))
    with refused(ScheduleError, "writer"):
        Schedule(twice).separate_padding("Z")


def test_all_dimensions_are_looked_at(same: Same) -> None:
    func = parse('''
@T.prim_func
def f(A: T.Buffer((4, 4), "int8"), B: T.Buffer((8, 8), "int8")):
    P = T.alloc_buffer((8, 8), "int8")
    for i, j in T.grid(8, 8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(3 <= vi and vi < 7 and vj < 4, A[vi - 3, vj], T.int8(0))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = P[vi, vj]
''')
    sch = Schedule(func)
    sch.separate_padding("P")
    assert prod(int_value(n) or 0 for n in inner(sch, "P_inner").shape) == 16
    assert "3 <= v0 and v0 < 7 and v1 < 4" in sch.script()
    same(func, sch)
