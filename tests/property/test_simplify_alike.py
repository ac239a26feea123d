"""What is simplified once for expressions that are written alike is what each of them is simplified to."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from autosched.ir import simplify
from autosched.ir.expr import BinOp, BufferLoad, Expr, IntImm, Var, logical_and, minimum
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, Range


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    simplify._ALIKE.clear()
    yield
    simplify._ALIKE.clear()


def bounds(rng: random.Random, variables: list[Var]) -> Expr:
    """A few bounds of sums of the variables, some of them always true."""
    conds = []
    for _ in range(rng.randint(1, 3)):
        value: Expr = IntImm(rng.randint(-3, 3))
        for v in rng.sample(variables, rng.randint(1, 3)):
            value = value + v * rng.randint(1, 4)
        conds.append(BinOp(rng.choice(("<", "<=", ">", ">=")), value // rng.randint(1, 3), IntImm(rng.randint(-4, 30)), "bool"))
    return logical_and(*conds)


def ranges(rng: random.Random) -> list[Range]:
    return [Range(IntImm(rng.randint(0, 2)), IntImm(rng.choice((1, 2, 5, 9)))) for _ in range(3)]


@pytest.mark.parametrize("seed", range(40))
def test_expressions_that_are_written_alike_are_simplified_alike(seed: int) -> None:
    """With other variables of these names and ranges it is known; other names and ranges are asked for themselves."""
    rng = random.Random(seed)
    doms, others = ranges(rng), ranges(rng)
    for kept, (dom, names) in enumerate(((doms, "xyz"), (doms, "xyz"), (others, "xyz"), (doms, "zxy"))):
        state = random.Random(seed)
        variables = [Var(name, "int32") for name in names]
        expr = bounds(state, variables)
        found = Analyzer(dict(zip(variables, dom))).simplify_alike(expr)
        assert found == Analyzer(dict(zip(variables, dom))).simplify(expr)
        if kept == 1:
            assert len(simplify._ALIKE) <= 1


def test_what_more_is_known_of_is_simplified_anew() -> None:
    """A condition that holds, a variable that is a sum, and what is more than variables and integers."""
    x, y, n = Var("x", "int32"), Var("y", "int32"), Var("n", "int32")
    less = BinOp("<", x + y, IntImm(12), "bool")
    plain = {x: Range(IntImm(0), IntImm(9)), y: Range(IntImm(0), IntImm(9))}
    assert Analyzer(plain).simplify_alike(less) == less and len(simplify._ALIKE) == 1
    assumed = Analyzer(plain)
    assumed.assume(BinOp("<", x + y, IntImm(11), "bool"))
    assert assumed.simplify_alike(less) == IntImm(1, "bool")
    unequal = Analyzer(plain)
    unequal.assume(BinOp("!=", x + y, IntImm(12), "bool"))
    same = BinOp("!=", x + y, IntImm(12), "bool")
    assert unequal.simplify_alike(same) == unequal.simplify(same)
    summed = Analyzer({y: Range(IntImm(0), IntImm(2))})
    summed.bind(x, y * 3)
    assert summed.simplify_alike(less) == IntImm(1, "bool")
    for value in (5, 6):
        fixed = Analyzer({**plain, x: Range(IntImm(value), IntImm(1))})
        assert fixed.simplify_alike(less) == BinOp("<", y, IntImm(12 - value), "bool")
    symbolic = Analyzer({**plain, x: Range(IntImm(0), n)})
    assert symbolic.simplify_alike(BinOp("<", x, n, "bool")) == IntImm(1, "bool")
    loaded = BinOp("<", BufferLoad(Buffer("b", (IntImm(9),)), (x,), "int32"), IntImm(3), "bool")
    assert Analyzer(plain).simplify_alike(loaded) == loaded
    assert len(simplify._ALIKE) == 3, "the plain one, and those of a variable with one value"


def test_ranges_of_other_variables_do_not_decide_what_is_known() -> None:
    """Where any range is symbolic proofs are tried that are left out elsewhere: what they find is nobody else's."""
    x, y, n = Var("x", "int32"), Var("y", "int32"), Var("n", "int32")
    plain = {x: Range(IntImm(0), IntImm(17))}
    least = BinOp("<", minimum(x % 6, x), x, "bool")
    tried = Analyzer({**plain, y: Range(IntImm(0), n)})
    assert tried.simplify_alike(least) == tried.simplify(least) != least
    assert Analyzer(plain).simplify_alike(least) == Analyzer(plain).simplify(least) == least


def test_factors_stand_in_the_order_of_their_names() -> None:
    for names in ("xy", "yx"):
        a, b = (Var(name, "int32") for name in names)
        analyzer = Analyzer({v: Range(IntImm(0), IntImm(9)) for v in (a, b)})
        product = BinOp("<", BinOp("*", a, b, "int32"), IntImm(12), "bool")
        found = analyzer.simplify_alike(product)
        assert isinstance(found, BinOp) and isinstance(found.a, BinOp)
        assert [found.a.a, found.a.b] == sorted([a, b], key=lambda v: v.name)


def test_no_more_than_the_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplify, "_ALIKE_LIMIT", 3)
    x = Var("x", "int32")
    for k in range(9):
        Analyzer({x: Range(IntImm(0), IntImm(20))}).simplify_alike(BinOp("<", x + k, IntImm(12), "bool"))
        assert len(simplify._ALIKE) <= 3
