"""Choices by a comparison of two values that are what one expression makes of their minimum and their maximum."""

from __future__ import annotations

from collections.abc import Callable

from autosched.ir.expr import BinOp, Cast, Expr, IntImm, Not, bits, is_int
from autosched.ir.functor import Mutator, walk_expr
from autosched.ir.linear import MIRRORED
from autosched.ir.patterns import has_loads
from autosched.ir.value_bounds import Interval, dtype_bounds

_Bounds = Callable[[Expr], Interval]  # lowest and highest value of an expression


def exchanged(condition: Expr, yes: Expr, no: Expr, bounds: _Bounds) -> Expr | None:
    """A choice without one, where each side is the other one with the compared values exchanged; None for any other.

    What is chosen where ``a < b`` reads the lesser as a and the larger as b, and elsewhere the other way round: it is the same
    expression of ``min(a, b)`` and ``max(a, b)`` everywhere, also where both are equal.

    Args:
        condition: a comparison of two integers, or of their difference with 0.
        yes: what is chosen where it holds.
        no: and elsewhere.
        bounds: of values.
    """
    pair = _ordered(condition, bounds)
    if pair is None:
        return None
    a, b = (_unwidened(e, pair) for e in pair)
    if _Exchange(a, b, b, a).visit_expr(yes) != no:
        return None
    lesser, larger = (BinOp(op, a, b, a.dtype) for op in ("min", "max"))
    return _Exchange(a, b, lesser, larger).visit_expr(yes)


def by_difference(condition: Expr, *sides: Expr, bounds: _Bounds) -> Expr | None:
    """A comparison of two values as one with 0 of their difference, which a side computes and which does not wrap, or None.

    Args:
        condition: a comparison of integers.
        sides: what is chosen by it.
        bounds: of values.
    """
    if isinstance(condition, Not):
        found = by_difference(condition.a, *sides, bounds=bounds)
        return None if found is None else Not(found)
    if not _compares(condition) or not isinstance(condition, BinOp):
        return None
    pair = tuple(_unwidened(e, (condition.a, condition.b)) for e in (condition.a, condition.b))
    for e in (e for side in sides for e in walk_expr(side)):
        if isinstance(e, BinOp) and e.op == "-" and _exact(e, bounds):
            own = _unwidened(e.a, (e.a, e.b)), _unwidened(e.b, (e.a, e.b))
            if own in (pair, pair[::-1]):
                op = condition.op if own == pair else MIRRORED[condition.op]
                return BinOp(op, e, IntImm(0, e.dtype), "bool")
    return None


def in_other_types(condition: Expr, *sides: Expr) -> list[Expr]:
    """A comparison of a value with a constant as those of what sides have of it in wider and narrower types.

    Args:
        condition: any.
        sides: what is chosen by it.
    """
    if isinstance(condition, Not):
        return [Not(e) for e in in_other_types(condition.a, *sides)]
    if not (_compares(condition) and isinstance(condition, BinOp)):
        return []
    x, at = (condition.a, condition.b) if isinstance(condition.b, IntImm) else (condition.b, condition.a)
    if not isinstance(at, IntImm):
        return []
    plain = _narrowest(x)
    found = {e: None for side in sides for e in walk_expr(side) if e.dtype != x.dtype and _narrowest(e) == plain}
    op = condition.op if x is condition.a else MIRRORED[condition.op]
    return [BinOp(op, e, IntImm(at.value, "int32"), "bool") for e in found]


def _compares(condition: Expr) -> bool:
    return isinstance(condition, BinOp) and condition.op in MIRRORED and is_int(condition.a.dtype) and is_int(condition.b.dtype)


def _ordered(condition: Expr, bounds: _Bounds) -> tuple[Expr, Expr] | None:
    """(a, b) of a condition that holds wherever ``a < b`` and nowhere where ``b < a``, or None."""
    if isinstance(condition, Not):
        found = _ordered(condition.a, bounds)
        return None if found is None else found[::-1]
    if not _compares(condition) or not isinstance(condition, BinOp):
        return None
    a, b, op = condition.a, condition.b, condition.op
    if isinstance(a, IntImm):
        a, b, op = b, a, MIRRORED[op]
    if isinstance(b, IntImm):
        # x < 1 is x <= 0, and x > -1 is x >= 0.
        meets = b.value == 0 or (b.value, op) in ((1, "<"), (1, ">="), (-1, ">"), (-1, "<="))
        difference = a if isinstance(a, BinOp) and a.op == "-" and meets else None
        if difference is None or not _exact(difference, bounds):
            return None
        a, b = difference.a, difference.b
    if not (has_loads(a) and has_loads(b)):
        return None
    return (a, b) if op in ("<", "<=") else (b, a)


def _exact(difference: BinOp, bounds: _Bounds) -> bool:
    """Whether a difference never leaves its type."""
    (least, most), (low, high) = bounds(difference.a), bounds(difference.b)
    whole = dtype_bounds(difference.dtype)
    return whole[0] <= least - high and most - low <= whole[1]


def _widens(value: Expr) -> bool:
    """Whether a value is another one in a type that holds all of it."""
    if not isinstance(value, Cast) or not (is_int(value.dtype) and is_int(value.value.dtype)):
        return False
    return bits(value.value.dtype) < bits(value.dtype) and not value.value.dtype.startswith("uint")


def _unwidened(value: Expr, pair: tuple[Expr, ...]) -> Expr:
    """A value before it is widened, as long as all of some values are, from the same types."""
    while all(_widens(e) for e in pair) and len({e.value.dtype for e in pair if isinstance(e, Cast)}) == 1:
        assert isinstance(value, Cast)
        value, pair = value.value, tuple(e.value for e in pair if isinstance(e, Cast))
    return value


def _narrowest(value: Expr) -> Expr:
    while _widens(value) and isinstance(value, Cast):
        value = value.value
    return value


class _Exchange(Mutator):
    """Puts one value for each of two, from the outside in."""

    def __init__(self, a: Expr, b: Expr, for_a: Expr, for_b: Expr) -> None:
        self.table = {a: for_a, b: for_b}

    def visit_expr(self, expr: Expr) -> Expr:
        found = self.table.get(expr)
        return super().visit_expr(expr) if found is None else found


__all__ = ["by_difference", "exchanged", "in_other_types"]
