"""complement_factor: parameters that are taken away within products, and added as their complements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 4), "int8"), W: T.Buffer((5, 4), "int8"), V: T.Buffer((5, 4), "int8"), z: T.Buffer((5,), "int32"),
      C: T.Buffer((6, 5), "int32")):
    {before}
    for i, j, k in T.grid(6, 5, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] = C[vi, vj] + {value}
'''
A, W = 'T.Cast("int32", A[vi, vk])', 'T.Cast("int32", W[vj, vk])'


def program(value: str, init: str = "0", before: str = "") -> PrimFunc:
    return parse(TEXT.format(value=value, init=init, before=before))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    """Of drawn elements, and where all are as low as they can be: there is no int8 that is the negative of -128."""
    for seed in (0, 1):
        inputs = random_inputs(func, seed)
        for given_arrays in (inputs, tuple(np.full_like(a, np.iinfo(a.dtype).min) for a in inputs)):
            if any(not np.array_equal(a, b) for a, b in zip(run(func, *given_arrays), run(other, *given_arrays), strict=True)):
                return False
    return True


@pytest.mark.parametrize("value", [
    f"{A} * (z[vj] - {W})", f"(3 - {W}) * {A}", f"(z[vk] * 2 - {W}) * {A}", f"(z[vj] - {W}) * ({A} - 5)",
    f"(2147483647 - {W}) * {A}", f"({A} - {W}) * {A}",
])
@pytest.mark.parametrize("init", ["0", "z[vj] + 1"])
def test_the_complement_is_added(value: str, init: str, verify_trace_roundtrip: Verify) -> None:
    func = program(value, init)
    sch = Schedule(func)
    made = sch.get(sch.complement_factor("C", "W"))
    assert made.name == made.writes[0].buffer.name == "W_complement" and made.writes[0].buffer.dtype == "int8"
    assert "W[" not in sch.script().split('T.sblock("C")')[1] and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "name"):
        sch.complement_factor("C", "W")  # nothing reads it any more


MADE = '''W2 = T.alloc_buffer((5, 4), "int8")
    for i, j in T.grid(5, 4):
        with T.block("W2"):
            vi, vj = T.axis.remap("SS", [i, j])
            W2[vi, vj] = V[vi, vj]'''


@pytest.mark.parametrize(("value", "operand", "before", "code"), [
    (f"{A} * ({W} - z[vj])", "W", "", "form"),
    (f"{A} * (0 - {W})", "W", "", "form"),  # no offset: its products are taken away
    (f"{A} + (z[vj] - {W})", "W", "", "form"),
    (f"(z[vj] - {W}) * (z[vj] - {W})", "W", "", "form"),
    (f'{A} * (z[vj] - {W} * T.Cast("int32", V[vj, vk]))', "W", "", "form"),
    (f'({A} + T.Cast("int32", W[0, vk])) * (z[vj] - {W})', "W", "", "form"),
    (f'{A} * (z[vj] - T.Cast("int32", W2[vj, vk]))', "W2", MADE, "writer"),
    (f"{A} * (z[vj] - {W})", "z", "", "form"),
])
def test_what_takes_no_parameter_away(value: str, operand: str, before: str, code: str) -> None:
    func = program(value, before=before)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.complement_factor("C", operand)
    assert sch.func == func


def test_a_start_that_reads_it_keeps_it() -> None:
    sch = Schedule(program(f"{A} * (z[vj] - {W})", 'T.Cast("int32", W[vj, 0])'))
    with refused(ScheduleError, "form"):
        sch.complement_factor("C", "W")


@settings(max_examples=30)
@given(st.data())
def test_whatever_is_complemented_computes_the_same(data: st.DataObject) -> None:
    draw = data.draw
    start = draw(st.sampled_from(["z[vj]", "z[vk] + 3", "z[vi % 5] * vj", "7", "-128", f"{A}"]))
    factor = f"{start} - " + draw(st.sampled_from([W, 'T.Cast("int32", W[vj, 3 - vk])', 'T.Cast("int32", W[vi % 5, vk])']))
    other = draw(st.sampled_from([A, f"({A} + 9)", 'T.Cast("int32", V[vj, vk])', f"(z[vj] - {A})"]))
    func = program(f"{other} * ({factor})" if draw(st.booleans()) else f"({factor}) * {other}")
    sch = Schedule(func, error_render_level="fast")
    sch.complement_factor("C", "W")
    assert equal(func, sch.func), func.script()
