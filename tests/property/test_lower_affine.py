"""Index arithmetic of the lowering against the same expressions in plain Python, over every iteration of their loops."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autosched.ir.expr import BinOp, Call, Expr, IntImm, Not, Var
from autosched.lower.affine import Lin, Loop, constraints, linear, negation

EXTENTS = (12, 3, 2)
VARS = tuple(Var(name) for name in "ijk")
LOOPS = tuple(Loop(v.name, n) for v, n in zip(VARS, EXTENTS))
ENV = {v: Lin({loop: 1}) for v, loop in zip(VARS, LOOPS)}
GRID = tuple(itertools.product(*map(range, EXTENTS)))
VALUES = {loop: np.array([point[k] for point in GRID]) for k, loop in enumerate(LOOPS)}
OPS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "shift_left": operator.lshift, "shift_right": operator.rshift,
    "if_then_else": lambda holds, yes, no: yes if holds else no, "abs": abs,
}


def value(expr: Expr, point: Mapping[Var, int]) -> Any:
    if isinstance(expr, Var):
        return point[expr]
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Not):
        return not value(expr.a, point)
    if isinstance(expr, Call):
        return OPS[expr.op](*[value(a, point) for a in expr.args])
    assert isinstance(expr, BinOp)
    return OPS[expr.op](value(expr.a, point), value(expr.b, point))


def everywhere(expr: Expr) -> np.ndarray:
    return np.array([value(expr, dict(zip(VARS, point))) for point in GRID])


def by_constant(parts: tuple[Expr, str, int]) -> Expr:
    a, op, c = parts
    return BinOp(op, a, IntImm(c, "int32"), "int32")


def shifted(parts: tuple[Expr, str, int]) -> Expr:
    a, op, c = parts
    return Call(op, (a, IntImm(c, "int32")), "int32")


INDEX = st.recursive(
    st.sampled_from(VARS) | st.integers(-9, 9).map(lambda c: IntImm(c, "int32")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["//", "%"]), st.sampled_from([1, 2, 3, 4, 6, 8, 12])).map(by_constant),
        st.tuples(inner, st.sampled_from(["shift_left", "shift_right"]), st.integers(0, 3)).map(shifted),
        st.tuples(inner, st.just("*"), st.sampled_from([-6, -2, 2, 3, 4, 8])).map(by_constant),
        st.builds(lambda op, a, b: BinOp(op, a, b, "int32"), st.sampled_from(["+", "-", "min", "max"]), inner, inner),
    ),
    max_leaves=8,
)
CONDITION = st.recursive(
    st.builds(lambda op, a, b: BinOp(op, a, b, "bool"), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), INDEX, INDEX),
    lambda inner: inner.map(Not)
    | st.builds(lambda op, a, b: BinOp(op, a, b, "bool"), st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=3,
)


CHOICE = st.one_of(
    st.builds(lambda c, a, b: Call("if_then_else", (c, a, b), "int32"), CONDITION, INDEX, INDEX),
    INDEX.map(lambda a: Call("abs", (a,), "int32")),
)
MIRRORED = Call("if_then_else", (BinOp("<", VARS[0], IntImm(1, "int32"), "bool"), 1 - VARS[0], VARS[0] - 1), "int32")
# A part of it is below 2, and what is left is divided once more.
FUSED = by_constant((BinOp("+", by_constant((VARS[0], "*", 2)), VARS[2], "int32"), "//", 8))


@given(INDEX | CHOICE)
@example(FUSED)
@example(MIRRORED)
@example(by_constant((VARS[0], "//", 1)))
@example(by_constant((BinOp("-", by_constant((VARS[0], "*", 4)), VARS[2], "int32"), "//", 4)))
@example(shifted((VARS[0], "shift_right", 1)))
@settings(max_examples=300)
def test_an_index_keeps_its_value_and_stays_within_its_bounds(expr: Expr) -> None:
    lin, wanted = linear(expr, ENV), everywhere(expr)
    assert np.array_equal(np.broadcast_to(lin.evaluate(VALUES), wanted.shape), wanted)
    low, high = lin.bounds()
    assert low <= wanted.min() and wanted.max() <= high
    part, least, most = lin.restrict(LOOPS[:1])
    rest = wanted - part.evaluate(VALUES)
    assert part.loops() <= set(LOOPS[:1]) and least <= rest.min() and rest.max() <= most


def test_a_choice_is_within_the_bounds_of_what_is_chosen() -> None:
    assert linear(MIRRORED, ENV).bounds() == (-10, 10)


@given(CONDITION)
@settings(max_examples=300)
def test_constraints_hold_where_the_condition_does_and_their_negation_elsewhere(expr: Expr) -> None:
    wanted = everywhere(expr).astype(bool)
    found = constraints(expr, ENV)
    for lins, where in ((found, wanted), *([(negation(found), ~wanted)] if found else [])):
        holds = np.ones(len(GRID), dtype=bool)
        for lin in lins:
            holds &= np.broadcast_to(lin.evaluate(VALUES), holds.shape) >= 0
            assert np.array_equal(np.broadcast_to(lin.tight().evaluate(VALUES), holds.shape) >= 0,
                                  np.broadcast_to(lin.evaluate(VALUES), holds.shape) >= 0)
        assert np.array_equal(holds, where)


@given(INDEX, INDEX)
def test_a_loop_is_replaced_by_what_it_stands_for(expr: Expr, other: Expr) -> None:
    lin, new = linear(expr, ENV), linear(other, ENV)
    changed = lin.substitute({LOOPS[0]: new})
    before = new.evaluate(VALUES)
    wanted = lin.evaluate({**VALUES, LOOPS[0]: np.broadcast_to(before, len(GRID))})
    assert np.array_equal(np.broadcast_to(changed.evaluate(VALUES), len(GRID)), np.broadcast_to(wanted, len(GRID)))


@pytest.mark.parametrize(("extent", "plain"), [(4, True), (5, False)])
def test_what_a_split_made_is_linear_again_as_long_as_it_fits(extent: int, plain: bool) -> None:
    outer, inner = Loop("o", 6), Loop("i", extent)
    env = {VARS[0]: Lin({outer: 1}), VARS[1]: Lin({inner: 1})}
    index = BinOp("+", by_constant((VARS[0], "*", 4)), VARS[1], "int32")
    quotient, remainder = (linear(by_constant((index, op, 4)), env) for op in ("//", "%"))
    assert (quotient == Lin({outer: 1})) is plain and (remainder == Lin({inner: 1})) is plain
    assert bool(quotient.opaque_loops()) is not plain


@pytest.mark.parametrize("first", ["//", "%"])
def test_a_quotient_and_its_remainder_are_the_value_again(first: str) -> None:
    parts = by_constant((by_constant((VARS[0], "//", 4)), "*", 4)), by_constant((VARS[0], "%", 4))
    assert linear(BinOp("+", *(parts if first == "//" else parts[::-1]), "int32"), ENV) == ENV[VARS[0]]
    assert linear(BinOp("+", parts[0], by_constant((VARS[0], "%", 3)), "int32"), ENV).opaque_loops() == {LOOPS[0]}
