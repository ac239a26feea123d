"""cross_rows: a sum of products along rows, picked from products of rows with each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.constant import values
from autosched.ir.interp import random_inputs, run
from autosched.ir.verify import verify
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.crossing import FAR, MOST_STEPS
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer(({rows}, {steps}), "{type}"), B: T.Buffer(({rows}, {steps}), "int8"),
      W: T.Buffer((64,), "int32"), C: T.Buffer(({rows}, {more}), "int32")):
    for i, j, k in T.grid({rows}, {more}, {steps}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            {where}
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] = C[vi, vj] + {value}
'''
PRODUCT = 'T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vi, vk])'


def program(value: str = PRODUCT, rows: int = 12, more: int = 1, steps: int = 5, **changes: str) -> PrimFunc:
    names = {"type": "int8", "init": "0", "where": "T.reads()", **changes}
    text = TEXT.format(value=value, rows=rows, more=more, steps=steps, **names)
    func = parse("\n".join(line for line in text.splitlines() if line.strip() not in ("T.reads()", "")))
    assert isinstance(func, PrimFunc)
    return func


def equal(func: PrimFunc, other: PrimFunc, extreme: bool = False) -> bool:
    """Whether two programs make the same of drawn operands, or of such that are -128 or 127 alone."""
    for seed in (0, 1):
        inputs = random_inputs(func, seed)
        if extreme:
            inputs = tuple([np.where(x < 0, -128, 127).astype(x.dtype) if x.dtype == np.int8 else x for x in inputs])
        if not all(np.array_equal(x, y) for x, y in zip(run(func, *inputs), run(other, *inputs), strict=True)):
            return False
    return True


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(2, 8), st.integers(1, 3), st.integers(1, 9), st.sampled_from([
    PRODUCT, 'T.Cast("int32", A[vi, vk]) * T.Cast("int32", A[vi, vk])', 'T.Cast("int32", B[0, vk]) * T.Cast("int32", A[vi, vk])',
    'T.Cast("int32", B[vi, vk]) * T.Cast("int32", A[vi // 2, vk])',
]))
def test_the_sum_of_a_row_with_itself_is_the_largest(groups: int, size: int, more: int, steps: int, value: str) -> None:
    func = program(value, groups * size, more, steps)
    sch = Schedule(func)
    made = sch.cross_rows("C", 0, size)
    assert equal(func, sch.func) and equal(func, sch.func, True)
    assert not verify(sch.func)
    assert sch.get(made).name == "C_rows"  # type: ignore[union-attr]
    assert np.array_equal(values(sch.func.constants[0]), np.where(np.eye(size, dtype=bool), 0, FAR))


def test_rows_may_be_far_apart_in_what_they_make() -> None:
    """A row whose sum is the lowest there is, beside one whose products with it are the largest."""
    func = program(rows=2, steps=MOST_STEPS)
    sch = Schedule(func)
    sch.cross_rows("C", 0, 2)
    a = np.stack([np.full(MOST_STEPS, 127, "int8"), np.full(MOST_STEPS, -128, "int8")])
    b = np.full((2, MOST_STEPS), -128, "int8")
    for left in (a, a[::-1].copy()):
        inputs = (left, b, np.zeros(64, "int32"))
        (wanted,), (got,) = (run(f, *inputs) for f in (func, sch.func))
        assert np.array_equal(wanted, got)
        assert {*wanted[:, 0].tolist()} == {-128 * 127 * MOST_STEPS, 128 * 128 * MOST_STEPS}


def test_a_trace_replays(verify_trace_roundtrip: Verify) -> None:
    func = program(rows=16, more=2)
    sch = Schedule(func)
    sch.cross_rows("C", 0, 8)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("changes", "axis", "size", "code"), [
    ({"value": 'T.Cast("int32", A[vi, vk])'}, 0, 4, "form"),
    ({"value": 'T.Cast("int32", A[vi, vk]) * W[vk]'}, 0, 4, "form"),
    ({"type": "uint8"}, 0, 4, "form"), ({"init": "1"}, 0, 4, "form"), ({"init": "W[vi]"}, 0, 4, "form"),
    ({"where": "T.where(k < 4)"}, 0, 4, "form"),
    ({}, 0, 5, "argument"), ({}, 0, 1, "argument"), ({}, 0, 24, "argument"), ({"rows": 512}, 0, 512, "argument"),
    ({}, 2, 4, "argument"), ({}, 3, 4, "argument"), ({}, 1, 4, "index"),
    ({"value": 'T.Cast("int32", A[vi // 2, vk]) * T.Cast("int32", B[11 - vi, vk])'}, 0, 4, "index"),
    ({"value": 'T.Cast("int32", A[vi, vi % 5]) * T.Cast("int32", B[vk, 0])'}, 0, 4, "index"),
    ({"steps": MOST_STEPS + 1}, 0, 4, "range"),
])
def test_what_is_no_such_sum(changes: dict[str, object], axis: int, size: int, code: str) -> None:
    func = program(**changes)  # type: ignore[arg-type]
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.cross_rows("C", axis, size)
    assert sch.func == func
