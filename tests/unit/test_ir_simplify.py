"""Normal forms as TVM prints them, proofs over symbolic extents, and what an analyzer does not claim."""

from __future__ import annotations

import pytest

from autosched.ir.expr import Cast, Expr, IntImm, Select, Var, const, eq, if_then_else, logical_and, logical_not
from autosched.ir.expr import maximum as mx
from autosched.ir.expr import minimum as mn
from autosched.ir.print_expr import expr_text
from autosched.ir.simplify import Analyzer, linear_form, simplify
from autosched.ir.stmt import Buffer, Range

i, j, k, n, m = (Var(name) for name in "ijknm")


@pytest.fixture
def ana() -> Analyzer:
    """i < 64, j < 4, k < 7; n and m are any integers."""
    return Analyzer({v: Range(IntImm(0), IntImm(e)) for v, e in ((i, 64), (j, 4), (k, 7))})


# What TVM prints for the same expressions and ranges.
FORMS: list[tuple[Expr, str]] = [
    (j + i * 4, "i * 4 + j"),
    (k + j * 7 + i * 28, "i * 28 + j * 7 + k"),
    (i + j * 4 + k * 16, "k * 16 + j * 4 + i"),
    (n + m * 4 + i * 2 - k * 4, "m * 4 + i * 2 + n - k * 4"),
    (n - m * 4 + k * 2, "k * 2 + n - m * 4"),
    (n + (i * 2 + k * 4), "k * 4 + i * 2 + n"),
    (i + k + j * 4, "j * 4 + i + k"),
    (i + n // 4, "n // 4 + i"),
    (n % 4 + n // 4 * 7, "n // 4 * 7 + n % 4"),
    (j + (i + 5) * 4, "i * 4 + j + 20"),
    (3 + i * 4, "i * 4 + 3"),
    (const(3) - n, "3 - n"),
    (n - i - 3, "n - i - 3"),
    (i * -1 + n, "n - i"),
    (i * 4 - j, "i * 4 - j"),
    ((n + 1) * m, "(n + 1) * m"),
    (2 * (n + m), "n * 2 + m * 2"),
    ((i + j) * 4 + i * 2, "i * 6 + j * 4"),
    ((i + 5) // 3, "(i + 5) // 3"),
    ((i - 1) // 3, "(i - 1) // 3"),
    ((i + 63) % 64, "(i + 63) % 64"),
    ((n + 63) // 64, "(n + 63) // 64"),
    ((i * 192 + n) % 128, "(i * 192 + n) % 128"),
    ((i * 192 + n) // 128, "(i * 192 + n) // 128"),
    (n // 2 % 4, "n % 8 // 2"),
    (n % 8 // 2, "n % 8 // 2"),
    ((n // 2 + 1) // 4, "(n + 2) // 8"),
    ((n // 2 + m) // 4, "(n // 2 + m) // 4"),
    ((i * 16 + j * 4 + k) // 16, "(j * 4 + k) // 16 + i"),
    ((i * 16 + j * 4 + k) % 16, "(j * 4 + k) % 16"),
    ((i * 4 + j) // 4, "i"),
    ((i * 4 + j) % 4, "j"),
    ((i * 4 + j) % 16, "i % 4 * 4 + j"),
    ((n * 4 + 2) % 8, "n % 2 * 4 + 2"),
    (n - n // 4 * 4, "n % 4"),
    (n % 4 * 2 + n // 4 * 8, "n * 2"),
    ((i * 4 + j) // 3 * 3 + (i * 4 + j) % 3, "i * 4 + j"),
    (n // 4 // 4, "n // 16"),
    (mn(n + 1, m + 1), "T.min(n, m) + 1"),
    (mn(mn(n, 3), 5), "T.min(n, 3)"),
    (mx(n + 1, 3), "T.max(n + 1, 3)"),
    (mn(i, 100), "i"),
    (mx(j + i * 4, 0), "i * 4 + j"),
    (i * 4 + j < 30, "i * 4 + j < 30"),
    (i * 4 < 30, "i < 8"),
    (i * 16 + j < 32, "i < 2"),
    (i - 1 >= 0, "1 <= i"),
    (i + j >= 1, "1 <= i + j"),
    (i + 3 < k, "i + 3 < k"),
    (i > k, "k < i"),
    (i - k > 3, "3 < i - k"),
    (i - k + 3 >= 0, "-3 <= i - k"),
    (n - 5 < m - 2, "n < m + 3"),
    (n + 5 < m + 2, "n + 3 < m"),
    (n * -1 < 3, "-3 < n"),
    (eq(n - m, 3), "n - m == 3"),
    (eq(i + 3, 5), "i == 2"),
    (eq(n % 4, 0), "n % 4 == 0"),
    (eq(i, j), "i == j"),
    (i // 4 < 3, "i < 12"),
    (n // 4 * 4 < 12, "n < 12"),
    (logical_not(i < 3), "3 <= i"),
    (logical_and(i < 5, logical_and(i >= 1, j < 4)), "i < 5 and 1 <= i"),
    (i < 100, "T.bool(True)"),
    (i >= 64, "T.bool(False)"),
    (Select(i < 100, n, m, "int32"), "n"),
]


@pytest.mark.parametrize(("expr", "text"), FORMS, ids=[t for _, t in FORMS])
def test_form(ana: Analyzer, expr: Expr, text: str) -> None:
    new = ana.simplify(expr)
    assert expr_text(new) == text
    # A normal form is its own normal form, and the very same object.
    assert ana.simplify(new) is new


def test_products_have_one_order() -> None:
    # TVM keeps the order of the first product; here it is alphabetical, whatever was written.
    assert simplify(n * m + m * n) == simplify(m * 2 * n) == m * n * 2
    assert simplify(n * m - m * n) == IntImm(0)


def test_known_values_are_put_in(ana: Analyzer) -> None:
    ana.bind(n, 8)
    ana.bind(m, i * 2)
    assert ana.simplify(n * 2 + m) == i * 2 + 16
    unit = Analyzer({i: Range(n, IntImm(1))})
    assert unit.simplify(i + 1) == n + 1


def test_constraints_hold_inside_only(ana: Analyzer) -> None:
    flat = i * 4 + j
    assert ana.int_bounds(flat) == (0, 255)
    with ana.with_constraint(logical_and(flat < 30, i >= 2)):
        assert ana.int_bounds(flat) == (8, 29)
        assert ana.int_bounds(flat * 2 + 1) == (17, 59)
        assert ana.int_bounds(i) == (2, 7)
        assert ana.can_prove(i < 8)
        assert not ana.can_prove(i < 7)
        assert ana.simplify(flat // 32) == IntImm(0)
    assert ana.int_bounds(flat) == (0, 255)
    assert not ana.can_prove(i < 8)
    with ana.with_constraint(logical_not(i < 10)):
        assert ana.can_prove(i > 9)
    with ana.with_constraint(logical_not(eq(n, m))):
        assert ana.can_prove(logical_not(eq(m, n)))
    assert not ana.can_prove(logical_not(eq(m, n)))


def test_two_facts_together(ana: Analyzer) -> None:
    with ana.with_constraint(logical_and(n <= m, m <= i)):
        assert ana.can_prove(n <= 63)
        assert not ana.can_prove(n <= 62)


def test_symbolic_extents() -> None:
    ana = Analyzer()
    ana.bind(i, (0, n))
    ana.bind(j, (0, m))
    ana.bind_bounds(m, 1, None)
    assert ana.can_prove(i < n) and not ana.can_prove(i < n - 1)
    assert ana.can_prove(i * m + j < n * m)
    assert not ana.can_prove(i * m + j < n * m - 1)
    assert ana.simplify((i * m + j) // m) == i
    assert ana.simplify((i * m + j) % m) == j
    assert ana.can_prove_equal((n * m) % m, 0)
    assert ana.can_prove_equal((i + 1) * m - m, i * m)
    assert ana.can_prove(mn(i, 5) <= i) and not ana.can_prove(mn(i, 5) >= 1)
    assert ana.can_prove(i * 4 + 3 < n * 4)
    # A loop tiled by 16 covers its extent.
    assert ana.can_prove((n + 15) // 16 * 16 >= n)
    assert not ana.can_prove((n + 14) // 16 * 16 >= n)


def test_what_is_not_index_arithmetic_stays(ana: Analyzer) -> None:
    a = Buffer("A", (IntImm(64),), "int8")
    load = a[j + i * 4]
    assert ana.simplify(load).indices == (i * 4 + j,)  # type: ignore[attr-defined]
    # int8 wraps: a sum of loads is no linear form.
    assert expr_text(ana.simplify(a[i] + a[i] - a[i])) == "A[i] + A[i] - A[i]"
    assert ana.int_bounds(Cast("int32", a[i])) == (-128, 127)
    assert expr_text(ana.simplify(Cast("int32", a[i]) >> 8)) == 'T.shift_right(T.Cast("int32", A[i]), 8)'
    guarded = if_then_else(i < 8, a[mn(i, 8)], const(0, "int8"))
    assert expr_text(ana.simplify(guarded)) == "T.if_then_else(i < 8, A[i], T.int8(0))"


def test_linear_form() -> None:
    assert linear_form(i * 4 + j + 3) == ({i: 4, j: 1}, IntImm(3))
    assert linear_form(i * 4 + j * n, [i]) == ({i: 4}, j * n)
    assert linear_form(i * n + 1, [i]) == ({i: n}, IntImm(1))
    assert linear_form(i // 2, [j]) == ({}, i // 2)
    assert linear_form(i // 2, [i]) is None
    assert linear_form(i * i) is None


def test_division_by_zero_is_named() -> None:
    with pytest.raises(ZeroDivisionError):
        simplify(IntImm(4) // (i - i))


def test_quotients_by_a_symbolic_extent() -> None:
    x = Var("x")
    ana = Analyzer()
    ana.bind_bounds(n, 1, None)
    ana.bind(x, Range(IntImm(0), n * 32))
    for cond in (x // n < 32, x % n < n, (x + 5) // n <= 36, (x - 5) // n >= -5, (0 - x) // n >= -32):
        assert ana.can_prove(cond)
    # Each is false for some n >= 1 and 0 <= x < 32 * n.
    for cond in (x // n < 31, x % n < n - 1, (x + 5) // n <= 35, (x - 5) // n >= -4, (0 - x) // n >= -31):
        assert not ana.can_prove(cond)
    # Nothing is known where n may be negative.
    free = Analyzer({x: Range(IntImm(0), n * 32)})
    assert not free.can_prove(x % n < n)


@pytest.mark.parametrize(("value", "text"), [
    (const(-2147483648) - n, "-2147483648 - n"), (n - const(-2147483648), "n + -2147483648"),
    (n + const(-2147483648), "n + -2147483648"),
    (m + n * const(-2147483648), "m + n * -2147483648"), (n - const(-2147483647), "n + 2147483647"),
])
def test_the_lowest_constant_has_no_negative_of_its_type(value: Expr, text: str) -> None:
    """It was written as 2147483648, which no int32 holds: what a program compares or adds so had points that were no programs."""
    assert expr_text(simplify(value)) == text
