"""sum_by_matrix: a sum of int8 elements as a product with a matrix of how often each counts."""

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
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, {wide}), "int8"), U: T.Buffer((6, {wide}), "uint8"), W: T.Buffer((6, {wide}), "int32"),
      C: T.Buffer((6, {rows}), "int32")):
    for i, j, k, l in T.grid(6, {rows}, {steps}, {inner}):
        with T.block("C"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            {where}
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] = C[vi, vj] + {value}
'''
PLAIN = {"wide": 12, "rows": 12, "steps": 12, "inner": 1, "init": "0", "where": "T.reads()"}


def program(value: str, **changes: object) -> PrimFunc:
    text = TEXT.format(**{**PLAIN, "value": value, **changes})
    return parse("\n".join(line for line in text.splitlines() if line.strip() not in ("T.reads()", "")))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    return all(np.array_equal(a, b) for seed in (0, 1) for a, b in zip(run(func, *random_inputs(func, seed)),
                                                                    run(other, *random_inputs(func, seed)), strict=True))


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 4),
       st.sampled_from(["0", "W[vi, vj % 5]"]))
def test_what_counts_is_counted(
    rows: int, steps: int, inner: int, by: int, stride: int, last: int, init: str
) -> None:
    """Groups, windows, and everything, with elements that count several times or never: as the program is counted by hand."""
    wide = max((rows - 1) // 2 * by + (steps - 1) * stride + inner - 1 + 1 + last, 5)
    func = program(f'T.Cast("int32", A[vi, vj // 2 * {by} + vk * {stride} + vl])', wide=wide, rows=rows, steps=steps, inner=inner,
                   init=init)
    sch = Schedule(func)
    sch.sum_by_matrix("C", 1, 1)
    assert equal(func, sch.func)
    counts = np.zeros((rows, wide), int)
    for j, k, n in np.ndindex(rows, steps, inner):
        counts[j, j // 2 * by + k * stride + n] += 1
    (made,) = sch.func.constants
    assert np.array_equal(values(made), counts)


def test_steps_are_those_of_the_dimension(verify_trace_roundtrip: Verify) -> None:
    func = program('T.Cast("int32", A[vi, vj // 4 * 4 + vk])', steps=4, inner=2)
    sch = Schedule(func)
    sch.sum_by_matrix("C", 1, 1)
    block = sch.get(sch.get_sblock("C"))
    # What moves nothing is gone over as before.
    assert [int_value(iv.dom.extent) for iv in block.iter_vars] == [6, 12, 12, 2]  # type: ignore[union-attr]
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("steps", "fits"), [(127, True), (128, False)])
def test_an_element_counts_as_often_as_int8_holds(steps: int, fits: bool) -> None:
    func = program('T.Cast("int32", A[vi, vk * 0 + vl + vk // 200])', steps=steps, inner=2)
    sch = Schedule(func)
    if fits:
        sch.sum_by_matrix("C", 1, 1)
        assert equal(func, sch.func)
        return
    with refused(ScheduleError, "range"):
        sch.sum_by_matrix("C", 1, 1)
    assert sch.func == func


@pytest.mark.parametrize(("value", "changes", "axis", "dim", "code"), [
    ("W[vi, vk]", {}, 1, 1, "form"), ('T.Cast("int32", U[vi, vk])', {}, 1, 1, "form"),
    ('T.Cast("int32", A[vi, vk]) * 2', {}, 1, 1, "form"),
    ('T.Cast("int32", A[vi, vk])', {"where": "T.where(k < 11)"}, 1, 1, "form"),
    ('T.Cast("int32", A[vi, vk])', {}, 2, 1, "argument"), ('T.Cast("int32", A[vi, vk])', {}, 4, 1, "argument"),
    ('T.Cast("int32", A[vi, vk])', {}, 1, 2, "argument"),
    ('T.Cast("int32", A[vi, vk])', {}, 1, 0, "index"),  # moved by no step
    ('T.Cast("int32", A[vi, (vi + vk) % 12])', {}, 1, 1, "index"), ('T.Cast("int32", A[vk % 6, vk])', {}, 1, 1, "index"),
    ('T.Cast("int32", A[vi, vj + vk])', {"steps": 2}, 1, 1, "domain"), ('T.Cast("int32", A[vi, vk - 1])', {}, 1, 1, "domain"),
    ('T.Cast("int32", A[vi, vj + vk])', {"steps": 300}, 1, 1, "domain"),
    ('T.Cast("int32", A[vi, vk % 12])', {"steps": 1 << 17}, 1, 1, "range"),
])
def test_what_is_no_such_sum(value: str, changes: dict[str, object], axis: int, dim: int, code: str) -> None:
    func = program(value, **changes)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.sum_by_matrix("C", axis, dim)
    assert sch.func == func


@pytest.mark.parametrize(("value", "times"), [
    ('T.Cast("int32", A[vi, vj + vk * 2 + vl])', 1), ('T.Cast("int32", A[vi, vj + vk]) * 57', 57),
    ('-128 * T.Cast("int32", A[vi, vk])', -128),
])
def test_what_is_summed_up_is_multiplied_by_a_constant(value: str, times: int, verify_trace_roundtrip: Verify) -> None:
    func = program(value, wide=12, rows=4, steps=3, inner=2)
    sch = Schedule(func)
    sch.multiply_by_ones("C")
    assert equal(func, sch.func)
    made, = sch.func.constants
    assert values(made).shape == (3, 2) and (values(made) == times).all()
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("value", [
    'T.Cast("int32", A[vi, vk]) * 128', 'T.Cast("int32", U[vi, vk])', "W[vi, vk]", 'T.Cast("int32", A[vi, vk]) + 1',
    'T.Cast("int32", A[vi, vk]) * T.Cast("int32", A[vi, vl])', 'T.Cast("int32", A[vi, vk]) * 0',
])
def test_other_terms_are_not(value: str) -> None:
    with refused(ScheduleError, "form"):
        Schedule(program(value, rows=4, steps=3)).multiply_by_ones("C")
