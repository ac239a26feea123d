"""Epilogues that may act on every partial result of a reduction are fused; those that change the result are refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((6, 8), "{dtype}"), b: T.Buffer((6,), "int32"), D: T.Buffer((6,), "int32")):
    T.func_attr({{"autosched.value_ranges": {{"A": {a}, "b": {b}}}}})
    C = T.sblock_alloc_buffer((6,), "int32")
    for i, k in T.grid(6, 8):
        with T.sblock("C"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = {init}
            C[v] = {step}
    for i in range(6):
        with T.sblock("D"):
            v = T.axis.spatial(6, i)
            D[v] = {value}
"""
TERM = 'T.Cast("int32", A[v, w])'
SUM, MOST, LEAST = f"C[v] + {TERM}", f"T.max(C[v], {TERM})", f"T.min({TERM}, C[v])"


def program(step: str, value: str, init: int = 0, a: tuple[int, int] = (-9, 9), b: tuple[int, int] = (-9, 9)) -> PrimFunc:
    func = parse(TEXT.format(step=step, value=value, init=init, a=list(a), b=list(b), dtype="int8"))
    assert isinstance(func, PrimFunc)
    return func


def fused(func: PrimFunc, a: tuple[int, int] = (-9, 9), b: tuple[int, int] = (-9, 9)) -> Schedule:
    sch = Schedule(func)
    sch.fuse_reduction_epilogue(sch.get_block("C"), sch.get_block("D"))
    rng = np.random.default_rng(1)
    for _ in range(5):
        inputs = []
        for buffer, (low, high) in zip(func.buffers, (a, b)):
            shape = [int_value(e) or 0 for e in buffer.shape]
            inputs.append(rng.integers(low, high + 1, shape).astype(buffer.dtype))
        want, got = np.full(6, 77, np.int32), np.full(6, 77, np.int32)
        run(func, *inputs, want)
        run(sch.func, *inputs, got)
        assert np.array_equal(want, got)
    assert "C[" not in sch.script().split("for i", 1)[1]
    return sch


@pytest.mark.parametrize("step", [SUM, MOST, LEAST, f"C[v] * 3 + {TERM}", f"{TERM} + C[v]"])
@pytest.mark.parametrize("init", [0, 5])
def test_a_copy_goes_into_any_reduction(step: str, init: int) -> None:
    fused(program(step, "C[v]", init))


@pytest.mark.parametrize("value", ["C[v] + b[v]", "b[v] * 2 + C[v]"])
@pytest.mark.parametrize("init", [0, 5])
def test_an_addend_goes_into_a_sum_only(value: str, init: int) -> None:
    fused(program(SUM, value, init))
    with refused(ScheduleError, "reduction"):
        fused(program(MOST, value, init))
    with refused(ScheduleError, "reduction"):
        fused(program(f"C[v] * 3 + {TERM}", value, init))


@pytest.mark.parametrize("value", [
    "T.max(C[v], 0)", "T.min(T.max(C[v], -3), 4)", "T.max(T.min(4, C[v]), b[v])", "T.min(b[v], T.max(-3, C[v]))",
])
@pytest.mark.parametrize("step, init", [(MOST, -100), (LEAST, 100), (MOST, 2)])
def test_a_clip_goes_into_a_min_or_max(value: str, step: str, init: int) -> None:
    fused(program(step, value, init))
    with refused(ScheduleError, "reduction"):
        fused(program(SUM, value))
    with refused(ScheduleError, "reduction"):
        fused(program(f"C[v] * 3 + {TERM}", value, init))


@pytest.mark.parametrize("value, a, b, fits", [
    ("T.min(C[v], 20)", (0, 9), (-9, 9), True),  # saturates
    ("T.min(C[v], 20)", (-1, 9), (-9, 9), False),
    ("T.max(C[v], -20)", (-9, 0), (-9, 9), True),
    ("T.max(C[v], -20)", (-9, 1), (-9, 9), False),
    ("T.min(T.max(C[v], -72), 72)", (-9, 9), (-9, 9), True),  # never reached
    ("T.min(T.max(C[v], -71), 72)", (-9, 9), (-9, 9), False),
    ("T.max(C[v], 0)", (0, 9), (-9, 9), True),
    ("T.max(C[v] + b[v], 0)", (0, 9), (0, 9), True),
    ("T.max(C[v] + b[v], 0)", (0, 9), (-1, 9), False),  # starts below, and clipped would start higher
    ("T.min(T.max(b[v] + C[v], 0), 20)", (0, 9), (0, 9), True),
    ("T.max(T.min(20, b[v] + C[v]), 0)", (0, 9), (0, 9), True),
    ("T.min(T.max(b[v] + C[v], 30), 20)", (0, 9), (0, 9), False),
    ("T.min(C[v], b[v])", (0, 9), (-9, 9), True),
])
def test_a_clip_goes_into_a_sum_that_stays_where_it_is_clipped(
    value: str, a: tuple[int, int], b: tuple[int, int], fits: bool
) -> None:
    func = program(SUM, value, 0, a, b)
    if fits:
        fused(func, a, b)
    else:
        with refused(ScheduleError, "reduction") as failed:
            fused(func, a, b)
        assert 'sch.reverse_compute_at("D"' in str(failed.value)


def test_other_functions_are_refused() -> None:
    for value in ("C[v] * 2", "C[v] - b[v]", "C[v] + C[v]", "b[v]"):
        with pytest.raises(ScheduleError, match=r"neither a copy nor an addition|not the only reader"):
            fused(program(SUM, value))


def test_the_addend_must_be_there_when_the_sum_starts() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), D: T.Buffer((6,), "int32")):
    B = T.sblock_alloc_buffer((6,), "int32")
    C = T.sblock_alloc_buffer((6,), "int32")
    for i in range(6):
        with T.sblock("B"):
            v = T.axis.spatial(6, i)
            B[v] = A[v, 0]
        for k in range(8):
            with T.sblock("C"):
                v, w = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = 0
                C[v] = C[v] + A[v, w]
    for i in range(6):
        with T.sblock("D"):
            v = T.axis.spatial(6, i)
            D[v] = C[v] + B[{}]
"""
    func = parse(text.format("5 - v"))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    with refused(ScheduleError, "order"):
        sch.fuse_reduction_epilogue(sch.get_block("C"), sch.get_block("D"))
    func = parse(text.format("v"))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    sch.fuse_reduction_epilogue(sch.get_block("C"), sch.get_block("D"))
    a = np.arange(48, dtype=np.int32).reshape(6, 8)
    assert np.array_equal(run(sch.func, a)["D"], a.sum(axis=1) + a[:, 0])
