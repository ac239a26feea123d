"""add_negative and negate_sum: what is taken away is added."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((4, 6), "int8"), W: T.Buffer((5, 6), "int8"), b: T.Buffer((4, 5), "int32"), C: T.Buffer((4, 5), "int32"),
      D: T.Buffer((4, 5), "int32")):
    {ranges}
    S = T.alloc_buffer((4, 5), "int32")
    for i, j, k in T.grid(4, 5, 6):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = {start}
            S[vi, vj] = S[vi, vj] {op} {term}
    for i, j in T.grid(4, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {value}
    for i, j in T.grid(4, 5):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = {more}
'''
A, W = 'T.Cast("int32", A[vi, vk])', 'T.Cast("int32", W[vj, vk])'
PLAIN = {"ranges": "T.func_attr({})", "start": "0", "op": "+", "term": f"{A} * {W}", "value": "b[vi, vj] - S[vi, vj]",
         "more": "b[vi, vj]"}


def program(**changes: str) -> PrimFunc:
    return parse(TEXT.format(**{**PLAIN, **changes}))


def equal(func: PrimFunc, other: PrimFunc, low: int = -128) -> bool:
    """Of data in which every value of int8 from ``low`` on comes up, and int32 at both ends."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        a, w = (rng.choice(np.array([low, low, -1, 0, 1, 127, 5], dtype=np.int8), (n, 6)) for n in (4, 5))
        b = rng.choice(np.array([-2**31, -1, 0, 7, 2**31 - 1], dtype=np.int32), (4, 5))
        outs = [np.zeros((2, 4, 5), np.int32) for _ in range(2)]
        for f, out in zip((func, other), outs):
            run(f, a, w, b, out[0], out[1])
        if not np.array_equal(*outs):
            return False
    return True


@pytest.mark.parametrize("changes", [
    {}, {"term": f"{W} * {A}", "start": "7"}, {"start": "b[vi, vj]"},
    {"value": "5 - S[vi, vj]", "more": "b[vi, vj] * 3 - S[3 - vi, vj]"},
    {"value": "T.max(b[vi, vj] - S[vi, vj], 0) - S[vi, vj]"},
])
@pytest.mark.parametrize("factor", ["A", "W"])
def test_a_sum_is_made_negative_by_a_factor(changes: dict[str, str], factor: str, verify_trace_roundtrip: Verify) -> None:
    func = program(**changes)
    sch = Schedule(func)
    made = sch.negate_sum("S", factor)
    sch.host_stage(made)
    assert len(sch.get_loops("S")) == 4 and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("changes", [
    {"op": "-", "value": "S[vi, vj]"}, {"term": f"{A} * {W} * -1", "start": "b[vi, vj]", "more": "S[vi, vj] >> 1"},
    {"term": f"-1 * ({A} * {W})", "start": "7"},
])
@pytest.mark.parametrize("factor", ["A", "W"])
def test_a_sum_that_takes_products_away_adds_them(changes: dict[str, str], factor: str, verify_trace_roundtrip: Verify) -> None:
    func = program(**changes)
    sch = Schedule(func)
    made = sch.negate_sum("S", factor)
    sch.host_stage(made)
    assert "S[vi, vj] = S[vi, vj] + " in sch.script() and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("low", "loops"), [(-128, 4), (-127, 3)])
def test_a_range_without_its_least_value_needs_no_second_part(low: int, loops: int) -> None:
    func = program(ranges=f'T.func_attr({{"autosched.value_ranges": {{"W": [{low}, 127]}}}})')
    sch = Schedule(func)
    sch.negate_sum("S", "W")
    assert len(sch.get_loops("S")) == loops and equal(func, sch.func, low)


@pytest.mark.parametrize(("changes", "factor", "reason", "code"), [
    ({"value": "b[vi, vj] + S[vi, vj]"}, "W", "does more with S than to take it away", "reader"),
    ({"value": "b[vi, vj] - (S[vi, vj] >> 1)"}, "W", "does more with S than to take it away", "reader"),
    ({"more": "S[vi, vj]"}, "W", "block D does more with S than", "reader"),
    ({"term": f"T.max({A}, 0) * {W}"}, "A", "not one of two int8 factors", "form"),
    ({"term": f'{A} * T.Cast("int32", A[vi, vk])'}, "A", "not one of two int8 factors", "form"),
    ({"start": "b[vi, vj]"}, "b", "b is int32, and not int8", "form"),
    ({"op": "-", "term": f"T.max({A} * {W}, 0)"}, "W", "not one of two int8 factors", "form"),
    ({"term": f"{A} * {W} * -2"}, "W", "not one of two int8 factors", "form"),
])
def test_what_is_not_made_negative(changes: dict[str, str], factor: str, reason: str, code: str) -> None:
    func = program(**changes)
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=reason) as caught:
        sch.negate_sum("S", factor)
    assert caught.value.code == code and sch.func == func
    sch.cache_read("S", "A", "global")
    with refused(ScheduleError, "writer"):
        sch.negate_sum("S", "A_global")


@pytest.mark.parametrize(("block", "changes"), [
    ("C", {"value": "S[vi, vj] - b[vi, vj]"}), ("C", {"value": "0 - b[vi, vj]"}),
    ("C", {"value": "T.max(S[vi, vj] - b[vi, vj], 3) - b[3 - vi, vj]"}),
    ("C", {"value": "b[vi, vj] - b[vj % 4, vi]"}), ("C", {"value": "T.max(b[vi, vj], 0 - b[vi, vj])"}),
    ("S", {"start": "5 - b[vi, vj]"}), ("S", {"start": "0 - b[vi, vj]", "term": f"{A} * {W} - b[vk % 4, vj]"}),
])
def test_the_negative_of_a_parameter_is_added(block: str, changes: dict[str, str], verify_trace_roundtrip: Verify) -> None:
    """Also of the least int32, which is its own negative, and where a sum starts."""
    func = program(**changes)
    sch = Schedule(func)
    sch.host_stage(sch.add_negative(block, "b"))
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_the_negative_of_int8_is_int32() -> None:
    """Also of -128."""
    func = program(value='T.max(T.Cast("int32", A[vi, vj]), 3 - T.Cast("int32", A[vi, vj]))')
    sch = Schedule(func)
    sch.host_stage(sch.add_negative("C", "A"))
    assert equal(func, sch.func) and 'T.max(T.Cast("int32", A[vi, vj]), 3 + A_negative[vi, vj])' in sch.script()


@pytest.mark.parametrize(("value", "operand", "reason", "code"), [
    ("S[vi, vj] - T.max(b[vi, vj], 0)", "b", "does something else with b", "reader"),
    ("b[vi, vj] - 3", "b", "does something else with b", "reader"),
    ('3 - T.Cast("int32", A[vi, vj]) * 2', "A", "does something else with A", "reader"),
    ("3 - S[vi, vj]", "S", "not a parameter that the program only reads", "writer"),
])
def test_what_is_not_added(value: str, operand: str, reason: str, code: str) -> None:
    func = program(value=value)
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=reason) as caught:
        sch.add_negative("C", operand)
    assert caught.value.code == code and sch.func == func


def test_a_sum_that_is_read_outside_of_blocks_stays_as_it_is() -> None:
    outside = '\n'.join(('    for i, j in T.grid(4, 5):', '        D[i, j] = b[i, j] - S[i, j]'))
    text = TEXT.format(**PLAIN)
    func = parse(text[: text.index("    for i, j in T.grid(4, 5):\n        with T.block(\"D\")")] + outside + "\n")
    sch = Schedule(func)
    with refused(ScheduleError, "order"):
        sch.negate_sum("S", "W")
    sch.blockize_stores("root")
    sch.negate_sum("S", "W")
    assert equal(func, sch.func)
