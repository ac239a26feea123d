"""A division that was worked out for other loops is the one that would be worked out for these."""

from __future__ import annotations

import random
from typing import Any

from autosched.ir.expr import BinOp, IntImm, Not, Var, eq, logical_and
from autosched.ir.numbered import numbered, unnumbered
from autosched.ir.stmt import TRUE, Block, BlockRealize, Evaluate, For, IterVar, Range
from autosched.schedule.primitives.tensorize import division

HOLE = Evaluate(IntImm(0))


def nest(rng: random.Random) -> tuple[BlockRealize, list[For], list[For]]:
    """A block in a few loops, from few choices, so that nests differ in one thing only."""
    loops = [
        For(Var(name), IntImm(rng.choice(first)), IntImm(rng.choice(count)), "serial", HOLE)
        for name, first, count in (("i", (0, 0, 1), (2, 4)), ("j", (0,), (2, 4)), ("k", (0,), (1, 2)))
    ]
    a, b, c = (n.var for n in loops)
    value = rng.choice([a, b, c, a * 2 + b, b * 4 + c, IntImm(0), c + 1, a * 4 + b * 2 + c, a + b])
    predicate = rng.choice([TRUE, a * 2 + b < 3, logical_and(b >= 1, c < 1), logical_and(eq(a, 0), a + c < 4), Not(eq(b, 1))])
    iters = (IterVar(Var("v"), Range(IntImm(rng.choice((0, 0, 1))), IntImm(rng.choice((4, 8)))), "spatial"),)
    cut = rng.randrange(4)
    return BlockRealize((value,), predicate, Block("b", iters, (), (), HOLE)), loops[cut:], loops[:cut]


def test_as_worked_out() -> None:
    division._DIVISIONS.clear()
    found = 0
    for seed in range(1200):
        realize, inner, outer = nest(random.Random(seed))
        wanted = [division._worked_out(realize, inner, outer, unit) for unit in (False, True)]
        for unit in (False, True, False, True):  # the second time for certain from what is kept
            assert division.divide(realize, inner, outer, unit) == wanted[unit]
        found += wanted[0] is not None
    assert found > 200 and len(division._DIVISIONS) <= division._DIVISIONS_LIMIT
    assert len(division._DIVISIONS) < 2350, "no two nests were the same"
    symbolic = Var("n")
    realize, _, _ = nest(random.Random(0))
    loop = For(Var("i"), IntImm(0), symbolic, "serial", HOLE)
    before = len(division._DIVISIONS)
    assert division.divide(realize, [loop], [], True) == division._worked_out(realize, [loop], [], True)
    assert len(division._DIVISIONS) == before


def test_the_order_of_loops_decides_nothing() -> None:
    division._DIVISIONS.clear()
    found = 0
    for seed in range(400):
        realize, inner, outer = nest(random.Random(seed))
        first = division.divide(realize, inner, outer, True)
        known = len(division._DIVISIONS)
        again = division.divide(realize, inner[::-1], outer[::-1], True)
        assert again == first == division._worked_out(realize, inner[::-1], outer[::-1], True)
        assert len(division._DIVISIONS) == known
        found += first is not None
    assert found > 60


def test_whatever_decides_is_asked() -> None:
    """Names (the order of factors), where loops begin, also those that move nothing, and on which side a loop is."""

    def asked(names: str = "ijk", first: int = 1, idle: int = 0, cut: int = 1) -> None:
        loops = [For(Var(n), IntImm(at), IntImm(4), "serial", HOLE) for n, at in zip(names, (first, 0, idle))]
        a, b, _ = (n.var for n in loops)
        iters = (IterVar(Var("v"), Range(IntImm(0), IntImm(24)), "spatial"),)
        realize = BlockRealize((a * 4 + b,), TRUE, Block("b", iters, (), (), HOLE))
        assert division.divide(realize, loops[cut:], loops[:cut], True) == division._worked_out(
            realize, loops[cut:], loops[:cut], True)

    division._DIVISIONS.clear()
    choices: tuple[dict[str, Any], ...] = (
        {}, {"names": "xjk"}, {"first": 2}, {"first": 0}, {"first": 0, "idle": 1}, {"cut": 2}, {}
    )
    for choice in choices:
        asked(**choice)
    assert len(division._DIVISIONS) == len(choices) - 1


def test_numbers_say_what_is_written() -> None:
    a, b, c = Var("a"), Var("b"), Var("c", "int64")
    raw = BinOp("<=", IntImm(0), BinOp("+", a, IntImm(0), "int32"), "bool")  # not as a builder would fold it
    for expr in (raw, Not(raw), a * 3 + b // 2, IntImm(1, "bool"), c % 4, logical_and(a < b, raw)):
        assert unnumbered(numbered(expr, {a: 0, b: 1, c: 2}), [a, b, c]) == expr
    assert numbered(a, {a: 0}) != numbered(IntImm(0), {})
    assert unnumbered(numbered(a - b, {a: 0, b: 1}), [b, a]) == b - a
