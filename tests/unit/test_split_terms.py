"""split_terms: a sum of several products, as a sum for each of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 9), "int8"), U: T.Buffer((6, 9), "uint8"), W: T.Buffer((5, 9), "int8"), b: T.Buffer((5,), "int32"),
      C: T.Buffer((6, 5), "int32")):
    for i, j, k in T.grid(6, 5, {steps}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] = C[vi, vj] + {value}
'''
A, W = 'T.Cast("int32", A[vi, vk])', 'T.Cast("int32", W[vj, vk])'


def program(value: str, init: str = "0", steps: int = 9) -> PrimFunc:
    return parse(TEXT.format(value=value, init=init, steps=steps))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    return all(np.array_equal(a, b) for seed in (0, 1) for a, b in zip(run(func, *random_inputs(func, seed)),
                                                                    run(other, *random_inputs(func, seed)), strict=True))


@pytest.mark.parametrize(("value", "sums"), [
    (f"({A} * {W} + {W} * {W})", 2), (f"({A} * {W} - {A} * {A})", 2), (f"({A} - {W}) * ({A} - {W})", 4),
    (f"({A} - 3) * ({W} + 7)", 3),  # and a constant
    (f"({A} + 128) * {W} * -1", 2), (f"(-128 - {A}) * {W}", 2), (f"({A} + 5) * ({W} - 0)", 2),
])
def test_every_term_has_a_sum(value: str, sums: int, verify_trace_roundtrip: Verify) -> None:
    for init, steps in (("0", 9), ("1", 9), ("b[vj] + 1", 4)):
        func = program(value, init, steps)
        sch = Schedule(func)
        assert len(sch.split_terms("C")) == sums and equal(func, sch.func)
        verify_trace_roundtrip(sch, func)
        with refused(ScheduleError, "form"):
            sch.split_terms("C")


@pytest.mark.filterwarnings("ignore:.*inside the sum")
@pytest.mark.parametrize("number", ["+ 2000000000", "- 2000000000"])
def test_a_constant_that_is_added_often_wraps_round(number: str) -> None:
    func = program(f"({A} * {W} + {W} * {W} {number})")
    sch = Schedule(func)
    assert len(sch.split_terms("C")) == 2 and equal(func, sch.func)


@settings(max_examples=25, deadline=None)
@given(st.integers(-128, 127), st.integers(-128, 127))
def test_zero_points_of_both_factors(one: int, other: int) -> None:
    func = program(f"({A} + {one}) * ({W} - {other})")
    sch = Schedule(func)
    try:
        sch.split_terms("C")
    except ScheduleError as error:
        # The constants as they are multiplied have to fit int8.
        assert error.code == "form" and (one == 0 == other or other == -128)
        return
    assert equal(func, sch.func)


@pytest.mark.parametrize("value", [
    f"{A} * {W}", f"({A} + 129) * {W}", f"{A} * {W} * {A}", f"({A} * 2 + {W})", f"({A} * {W} * 2 + {A} * {A})",
    f"T.max({A} * {W} + {W} * {W}, 0)", f"({A} + vi) * {W}", f'({A} + T.Cast("int32", U[vi, vk])) * {W}',
])
def test_other_terms_are_refused(value: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.split_terms("C")
    assert sch.func == func


def test_what_is_no_sum_and_what_does_not_begin_at_zero_is_refused() -> None:
    text = TEXT.format(value=f"({A} * {W} + {W} * {W})", init="0", steps=9)
    for old, new, code in (("C[vi, vj] + (", "(", "form"), ("C[vi, vj] + (", "C[vi, vj] - (", "form"),
                           ('T.axis.remap("SSR", [i, j, k])', "T.axis.spatial(6, i), T.axis.spatial(5, j), "
                            "T.axis.reduce((1, 10), k + 1)", "index")):
        func = parse(text.replace(old, new).replace("vk]", "vk - 1]" if code == "index" else "vk]"))
        with refused(ScheduleError, code):
            Schedule(func).split_terms("C")
    # Once more for each of another loop's iterations, and from what is there already.
    with refused(ScheduleError, "domain"):
        Schedule(parse(text.replace("for i, j, k in T.grid(", "for r, i, j, k in T.grid(2, "))).split_terms("C")
    with refused(ScheduleError, "index"):
        Schedule(program(f"({A} * {W} + {W} * {W})", "C[vi, vj] + 1")).split_terms("C")


def test_a_constant_has_the_iterators_that_its_element_lacks() -> None:
    """So that the two are a product with lanes of its own: what neither moves, or both, is no index of a weight."""
    sch = Schedule(program(f"({A} - 3) * ({W} + 7)"))
    sch.split_terms("C")
    shapes = [tuple(int_value(s) for s in c.buffer.shape) for c in sch.func.constants]
    assert sorted(shapes) == [(5, 9), (6, 9)]
