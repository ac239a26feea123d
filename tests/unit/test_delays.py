"""Shifts behind what is added to what they shift: equal results, or a refusal; and what that saves a leaky ReLU."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from spaces import computes, formed

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import Expr
from autosched.ir.interp import run
from autosched.ir.printer import expr_text
from autosched.ir.stmt import Block, BufferStore
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space.normalise import DIFFERENCES, PLAIN, normal_forms, normalise, wanted_of
from space.normalise.blocks import device_blocks, product_of
from space.normalise.estimate import estimate

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
FUNC = """from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((16,), "int8"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = {value}
"""
MOST = 2**31 - 1
X, B = 'T.Cast("int32", A[vi])', "B[vi]"


def program(value: str, low: int = -5000, high: int = 5000) -> PrimFunc:
    """A program of one value of ``x``, an element of int8, and ``b``, one of int32 between two ends."""
    func = parse(FUNC.format(value=re.sub(r"\bb\b", B, re.sub(r"\bx\b", X, value))))
    return replace(func, value_ranges=tuple({"B": (low, high)}.get(b.name) for b in func.buffers))


def delayed(func: PrimFunc) -> tuple[Schedule, str]:
    sch = Schedule(func)
    sch.delay_shift("C")
    block = sch.get(sch.get_sblock("C"))
    assert isinstance(block, Block) and isinstance(block.body, BufferStore)
    return sch, expr_text(block.body.value).replace(X, "x").replace(B, "b")


def require_equal(func: PrimFunc, sch: Schedule, seed: int) -> None:
    """Both compute the same of values in the ranges that the programs declare, their ends included."""
    rng = np.random.default_rng(seed)
    low, high = func.value_ranges[1] or (0, 0)
    x, b = rng.integers(-128, 128, 16), rng.integers(low, high, 16, endpoint=True)
    x[:4], b[:4] = (-128, -128, 127, 127), (low, high, low, high)
    arrays = [x.astype("int8"), b.astype("int32"), np.zeros(16, "int32")]
    wanted = run(func, *[a.copy() for a in arrays])["C"]
    assert np.array_equal(run(sch.func, *arrays)["C"], wanted)


@pytest.mark.parametrize(("value", "expected"), [
    ("(x * 13 >> 7) - x", "T.shift_right(x * -115, 7)"),
    ("(13 * x >> 7) + x", "T.shift_right(x * 141, 7)"),
    ("(x * 128 + 1000 >> 7) - x - 2", "5"),
    ("x - (0 - (x >> 3))", "T.shift_right(x * 9, 3)"),
    ("(x * 128 >> 7) - x", "0"),
    ("(x * 5 - x >> 2) + 3", "T.shift_right(x * 4 + 12, 2)"),
    ("(x + 64 >> 7) + b * 3 - 2", "T.shift_right(x + b * 384 + -192, 7)"),
    ("T.shift_left(x, 2) + (b >> 1)", "T.shift_right(b + x * 8, 1)"),
    ("T.max((x * 13 >> 7) - x, 0) + x", "T.max(T.shift_right(x * -115, 7), 0) + x"),
    ("(T.max(x * 3 >> 2, 0) >> 1) + x", "T.shift_right(T.max(T.shift_right(x * 3, 2), 0) + x * 2, 1)"),
    ("(x >> 3) * 2 + (x >> 1)", "T.shift_right(x + T.shift_right(x, 3) * 4, 1)"),  # a multiple of a shift stays
    ("(x >> 1) + (b >> 2)", "T.shift_right(x + T.shift_right(b, 2) * 2, 1)"),  # the first of two
    ("(x + b >> 1) + x + b", "T.shift_right(x * 3 + b * 3, 1)"),
    ("((x >> 1) + x >> 2) + x", "T.shift_right(T.shift_right(x, 1) + x * 5, 2)"),  # the outermost first
    ("((x >> 1) + x) * 3 + b", "T.shift_right(x * 3, 1) * 3 + b"),
    ("((x >> 1) + x) * b", "T.shift_right(x * 3, 1) * b"),
])
def test_a_shift_is_done_at_last(value: str, expected: str, same: Same, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch, text = delayed(func)
    assert text == expected
    for seed in range(3):
        same(func, sch, seed)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("value", [
    "x + b", "x >> 3", "(x >> 3) * 2 + x", "x - (x >> 3)", "(x >> 3) + 0", "(x >> 3) + b - b", "(x >> b) + x", "(x >> 0) + x",
    "(x >> 3) + (x >> 3)", "T.max(x >> 3, x)", "B[(vi >> 1) + 3] + x", "(x * 0 + x >> 1) * b",
])
def test_nothing_to_delay(value: str) -> None:
    with refused(ScheduleError, "form"):
        delayed(program(value, 0, 31))


def test_only_the_value_of_a_plain_block() -> None:
    func = parse(FUNC.format(value="T.shift_right(B[vi], 1) + B[vi]").replace(
        "            C[vi] =", "            with T.init():\n                C[vi] = 0\n            C[vi] ="))
    with refused(ScheduleError, "form"):
        Schedule(func).delay_shift("C")


@pytest.mark.parametrize(("value", "low", "high", "fits"), [
    ("(x >> 4) + b", -(2**27 - 8), 2**27 - 8, True),  # 127 and sixteen times as much
    ("(x >> 4) + b", -(2**27 - 8), 2**27 - 7, False),
    ("(x >> 4) - b", -(2**27 - 8), 2**27 - 8, True),
    ("(x >> 4) + b", -(2**27 - 7), 0, False),  # -128, and as much below
    ("(b >> 4) + b * 15", -(MOST // 241), MOST // 241, True),  # together, 241 times as much
    ("(b >> 4) + b * 15", -(MOST // 241), MOST // 241 + 1, False),
    ("(b >> 4) - b", -(MOST // 15), MOST // 15, True),  # 15 times, where both by themselves are more than int32 holds
    ("(b >> 4) - b", -(MOST // 15) - 1, 0, False),
    ("(b * 16 >> 4) - b", -(2**27), 2**27 - 1, True),
    ("(b * 16 >> 4) - b", -(2**27), 2**27, False),  # what is shifted now wraps around
    ("(x >> 1) + b", 0, 2**30, False),
    ("(x >> 31) + b * 3", 0, 0, True),  # the factor is more than int32 holds
    ("(b >> 1) - 1073741825", MOST - 5, MOST, True),  # and so is the constant
])
def test_nothing_wraps_around(value: str, low: int, high: int, fits: bool) -> None:
    func = program(value, low, high)
    if fits:
        require_equal(func, delayed(func)[0], 0)
    else:
        with refused(ScheduleError, "range"):
            delayed(func)


FACTORS = st.integers(-300, 300)


@given(FACTORS.filter(bool), FACTORS, st.integers(-9000, 9000), st.integers(1, 12), FACTORS, FACTORS, st.integers(-900, 900),
       st.booleans(), st.integers(0, 2**16), st.integers(0, 2**32 - 1))
def test_any_sum(a: int, b: int, c: int, by: int, k: int, m: int, more: int, away: bool, most: int, seed: int) -> None:
    """What is refused would overflow, as far as ranges say, or adds nothing."""
    sign = "-" if away else "+"
    func = program(f"T.min((x * {a} + b * {b} + {c} >> {by}) {sign} (x * {k} + b * {m} + {more}), 70)", -most, most)
    k, m, more = (-v if away else v for v in (k, m, more))
    exact = [a + (k << by), b + (m << by), c + (more << by)]

    def held(x: int, b: int, c: int) -> bool:
        ends = [sorted((x * -128, x * 127)), sorted((b * -most, b * most))]
        low, high = (sum(e[n] for e in ends) + c for n in (0, 1))
        return low >= -MOST - 1 and high <= MOST

    adds = bool(k or m or more)
    if adds and held(a, b, c) and held(*exact):
        require_equal(func, delayed(func)[0], seed)
    else:
        with refused(ScheduleError, "range" if adds else "form"):
            delayed(func)


# -- forms ---------------------------------------------------------------------------------------------------------------


def wide(x: Expr) -> Expr:
    return x.astype("int32")


def elements(value: Callable[[Expr], Expr], rows: int = 12) -> PrimFunc:
    x = te.placeholder((rows, 32), "int8", name="x")
    y = te.compute((rows, 32), lambda *i: te.max(te.min(value(wide(x(*i))), 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, y])


def products(func: PrimFunc) -> int:
    return sum(product_of(b) is not None for b in device_blocks(func))


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
@pytest.mark.parametrize(("value", "differences", "least"), [
    (lambda x: te.max(x, (x * 13) >> 7), True, 2),  # a leaky ReLU: -115 in place of 13 and -1
    (lambda x: te.max(x, (x * 13 + 64) >> 7), True, 2),
    (lambda x: te.min(x, (x * -5) >> 3), True, 2),
    (lambda x: te.max(x, (x * 13) >> 8), True, 3),  # 13 - 256 is no factor that an identity holds
    (lambda x: ((x * 13) >> 7) - x, False, 1),
    (lambda x: ((x * 100) >> 7) - x * 2 + 3, False, 2),  # 100 - 256
    (lambda x: ((x * 100) >> 5) - x * 2, False, 1),
    (lambda x: ((x * 100 + 16) >> 5) + x * 2, False, 2),  # 164
])
def test_products_are_spared(value: Callable[[Expr], Expr], differences: bool, least: int, target: str) -> None:
    func = elements(value)
    wanted = wanted_of((DIFFERENCES,)) if differences else PLAIN
    form, steps = normalise(func, get_target(target), wanted)
    assert products(form) == least
    assert ("delay_shift" in {step.op for step in steps}) == (least < 2 + differences)
    formed(func, target, wanted)


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_a_leaky_relu_is_a_product_less(target: str) -> None:
    """A reset, a product, a shift, a comparison with zero, and a product, where widened operands are compared in place."""
    func, machine = elements(lambda x: te.max(x, (x * 13) >> 7)), get_target(target)
    computes(func, target, 3)
    forms = {done: estimate(sch.func, machine).longest for done, sch in normal_forms(func, machine)}
    assert forms[(DIFFERENCES,)] < forms[()]


def test_where_no_operand_is_spared_a_shift_stays() -> None:
    for value in (lambda x: (x >> 3) + 5, lambda x: te.max(x >> 3, 0) + x):
        _, steps = normalise(elements(value), get_target("vta-de10"))
        assert "delay_shift" not in {step.op for step in steps}


def test_a_constant_that_no_instruction_holds_stays_behind() -> None:
    """Before the shift 300 is 38 400."""
    for constant, there in ((255, True), (300, False)):
        _, steps = normalise(elements(lambda x, c=constant: ((x * 13) >> 7) - x + c), get_target("vta-de10"))
        assert ("delay_shift" in {step.op for step in steps}) == there
