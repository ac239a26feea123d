"""Simplification and proofs against evaluation at every point of small boxes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest

from autosched.ir.expr import BinOp, Expr, IntImm, Not, Select, Var, binary, if_then_else, logical_not
from autosched.ir.simplify import Analyzer, linear_form, simplify
from autosched.ir.stmt import Range

VARS = tuple(Var(n) for n in "ijk")


def evaluate(e: Expr, env: Mapping[Var, int]) -> int:
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, Not):
        return int(not evaluate(e.a, env))
    if isinstance(e, Select):
        return evaluate(e.true_value if evaluate(e.condition, env) else e.false_value, env)
    if hasattr(e, "args"):
        c, x, y = e.args
        return evaluate(x if evaluate(c, env) else y, env)
    assert isinstance(e, BinOp)
    a, b = evaluate(e.a, env), evaluate(e.b, env)
    table = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b,
        "min": lambda: min(a, b), "max": lambda: max(a, b), "<": lambda: int(a < b), "<=": lambda: int(a <= b),
        ">": lambda: int(a > b), ">=": lambda: int(a >= b), "==": lambda: int(a == b), "!=": lambda: int(a != b),
        "and": lambda: int(a and b), "or": lambda: int(a or b),
        "truncdiv": lambda: int(a / b), "truncmod": lambda: a - int(a / b) * b,
    }
    return table[e.op]()


def random_expr(rng: random.Random, depth: int, quasi: bool = True) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(VARS) if rng.random() < 0.75 else IntImm(rng.randint(-9, 9))
    op = rng.choice(["+", "+", "+", "-", "*", "*"] + (["//", "//", "%", "%", "min", "max", "if"] if quasi else []))
    a = random_expr(rng, depth - 1, quasi)
    if op in ("//", "%"):
        rare = "truncdiv" if op == "//" else "truncmod"
        return binary(rng.choice([op] * 6 + [rare]), a, rng.choice([2, 3, 4, 6, 8, 12]))
    if op == "*":
        return binary(op, a, rng.choice([-3, -1, 2, 2, 3, 4, 4, 6, 8, 16]))
    b = random_expr(rng, depth - 1, quasi)
    if op == "if":
        return if_then_else(random_cond(rng, 1), a, b)
    return binary(op, a, b)


def random_cond(rng: random.Random, depth: int) -> Expr:
    if depth > 1 and rng.random() < 0.5:
        if rng.random() < 0.2:
            return logical_not(random_cond(rng, depth - 1))
        return binary(rng.choice(["and", "or"]), random_cond(rng, depth - 1), random_cond(rng, depth - 1))
    op = rng.choice(["<", "<=", ">", ">=", "==", "!="])
    right = random_expr(rng, 1) if rng.random() < 0.5 else IntImm(rng.randint(-4, 20))
    return binary(op, random_expr(rng, depth), right)


def random_box(rng: random.Random) -> dict[Var, Range]:
    return {v: Range(IntImm(rng.choice([0, 0, 0, -3, 2])), IntImm(rng.choice([1, 2, 3, 4, 5, 8]))) for v in VARS}


def points(dom: Mapping[Var, Range]) -> list[dict[Var, int]]:
    axes = [range(r.min.value, r.min.value + r.extent.value) for r in dom.values()]  # type: ignore[attr-defined]
    return [dict(zip(dom, p)) for p in itertools.product(*axes)]


@pytest.mark.parametrize("seed", range(8))
def test_simplify_keeps_the_value(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(80):
        dom = random_box(rng)
        e = random_expr(rng, rng.randint(1, 5))
        new = simplify(e, dom)
        analyzer = Analyzer(dom)
        assert analyzer.simplify(new) == new or evaluate_all(analyzer.simplify(new), dom) == evaluate_all(e, dom)
        assert evaluate_all(new, dom) == evaluate_all(e, dom), (e, new)


def evaluate_all(e: Expr, dom: Mapping[Var, Range]) -> list[int]:
    return [evaluate(e, p) for p in points(dom)]


@pytest.mark.parametrize("seed", range(6))
def test_conditions_keep_their_value_and_proofs_are_true(seed: int) -> None:
    rng = random.Random(100 + seed)
    proved = 0
    for _ in range(80):
        dom = random_box(rng)
        cond = random_cond(rng, rng.randint(1, 4))
        analyzer = Analyzer(dom)
        truth = evaluate_all(cond, dom)
        assert [bool(x) for x in evaluate_all(analyzer.simplify(cond), dom)] == [bool(x) for x in truth], cond
        if analyzer.can_prove(cond):
            proved += 1
            assert all(truth), cond
    assert proved > 10


@pytest.mark.parametrize("seed", range(6))
def test_bounds_contain_and_are_exact_for_affine(seed: int) -> None:
    rng = random.Random(200 + seed)
    for n in range(80):
        dom = random_box(rng)
        affine = n % 2 == 0
        e = random_expr(rng, rng.randint(1, 4), quasi=not affine)
        values = evaluate_all(e, dom)
        lo, hi = Analyzer(dom).int_bounds(e)
        assert lo is not None and hi is not None
        if affine:
            assert (lo, hi) == (min(values), max(values)), e
        else:
            assert lo <= min(values) and max(values) <= hi, e


@pytest.mark.parametrize("seed", range(6))
def test_facts_only_hold_where_their_condition_does(seed: int) -> None:
    rng = random.Random(300 + seed)
    used = 0
    for _ in range(120):
        dom = random_box(rng)
        cond, e, goal = random_cond(rng, 2), random_expr(rng, 3), random_cond(rng, 2)
        where = [p for p in points(dom) if evaluate(cond, p)]
        if not where:
            continue
        analyzer = Analyzer(dom)
        with analyzer.with_constraint(cond):
            new = analyzer.simplify(e)
            lo, hi = analyzer.int_bounds(e)
            proved = analyzer.can_prove(goal)
        values = [evaluate(e, p) for p in where]
        assert [evaluate(new, p) for p in where] == values, (cond, e, new)
        assert lo is not None and hi is not None and lo <= min(values) and max(values) <= hi, (cond, e)
        assert not proved or all(evaluate(goal, p) for p in where), (cond, goal)
        used += proved
        outside = analyzer.simplify(e)
        assert evaluate_all(outside, dom) == evaluate_all(e, dom)
    assert used


@pytest.mark.parametrize("seed", range(3))
def test_equal_quotients_are_recognised(seed: int) -> None:
    """A value rebuilt from its digits in any mixed radix is proved equal to itself, and not to its neighbour."""
    rng = random.Random(400 + seed)
    for _ in range(60):
        i, j, k = VARS
        dom = {v: Range(IntImm(0), IntImm(rng.choice([2, 3, 4, 8, 12]))) for v in VARS}
        e = i * rng.randint(1, 30) + j * rng.randint(1, 12) + k + rng.randint(0, 9)
        d, f = rng.choice([2, 3, 4, 5, 8]), rng.choice([2, 3, 4])
        rebuilt = e // (d * f) * (d * f) + e % (d * f) // d * d + e % d
        analyzer = Analyzer(dom)
        assert analyzer.can_prove_equal(rebuilt, e)
        assert not analyzer.can_prove_equal(rebuilt, e + 1)
        assert analyzer.can_prove_equal(e // d // f, e // (d * f))


@pytest.mark.parametrize("seed", range(2))
def test_quotients_that_vary_together_differ_by_little(seed: int) -> None:
    """Of two by one divisor, whichever sign each has: what is said to be the largest value is never exceeded, and mostly met."""
    rng = random.Random(600 + seed)
    met = 0
    for _ in range(50):
        i, j, k = VARS
        width = rng.choice([1, 4])
        dom = {i: Range(IntImm(0), IntImm(7)), j: Range(IntImm(0), IntImm(width))}
        d, step = rng.choice([2, 3, 4]), rng.choice([1, 1, 1, 2, -1, -1])
        moving = k * rng.choice([1, 2]) + i  # of k nothing is known
        one, other = (moving + rng.randint(-4, 9)) // d, (moving * step + rng.randint(-4, 9) + j) // d
        e = one * (c := rng.choice([1, -1, 2])) - other * (c * step) + j
        points = [{i: a, j: b, k: c} for a in range(7) for b in range(width) for c in range(-9, 9)]
        true = max(evaluate(e, p) for p in points)
        analyzer = Analyzer(dom)
        found = analyzer.largest(e)
        if found is not None:
            assert true <= found and not analyzer.can_prove(e < true), (e, found, true)
            assert analyzer.can_prove(e <= found)
            met += found == true
    assert met > 8
    assert Analyzer().largest(VARS[0] // 2 + VARS[0] // 2) is None and Analyzer().largest(IntImm(3)) == 3


def test_linear_form_rebuilds_the_expression() -> None:
    rng = random.Random(5)
    for _ in range(200):
        e = random_expr(rng, 4, quasi=False)
        form = linear_form(e)
        assert form is not None
        coeffs, const = form
        for _ in range(5):
            env = {v: rng.randint(-20, 20) for v in VARS}
            assert sum(c * env[v] for v, c in coeffs.items()) + evaluate(const, env) == evaluate(e, env)  # type: ignore[operator]
    i, j, _ = VARS
    assert linear_form(i * j) is None
    assert linear_form(i // 4 + j) is None
    assert linear_form(i * j + j * 2, [i]) is not None
