"""What a value adds and takes away as well is no part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.ir.expr import (
    BinOp,
    BufferLoad,
    Call,
    Expr,
    binary,
    cast,
    const,
    int_value,
    intrin,
    is_int,
    maximum,
    minimum,
    wrap,
)
from autosched.ir.functor import Mutator, expr_children
from autosched.ir.patterns import choice_of, has_loads, loads_in
from autosched.ir.scopes import HELD
from autosched.ir.stmt import Buffer

BITS = 32  # fewer than these a shift counts


def without_cancelled(value: Expr, own: Buffer | None = None) -> Expr:
    """A value without terms that it adds and takes away in one chain of sums and differences; the value itself without any.

    Integers of a type wrap around alike, whichever of them come first. Where a constant alone is left, the value is an element
    that is limited to it from both sides: the machine stores what it has loaded.

    Args:
        value: of integers, or it stays as it is.
        own: a tensor whose elements stay where they are: a reduction is made of what it has so far.
    """
    left = _Cancelling(own).visit_expr(value)
    constant = int_value(left)
    if left is value or has_loads(left):
        return left
    if constant is None:  # numbers of places alone are nothing that the machine has
        return value
    read = _read(value)
    limit = const(constant)
    return value if read is None else cast(left.dtype, minimum(maximum(cast("int32", read), limit), limit))


def _read(value: Expr) -> BufferLoad | None:
    """An element that a value reads whatever holds: one under a condition may not be there."""
    if choice_of(value) is not None:
        return None
    if isinstance(value, BufferLoad):
        return value if value.dtype in HELD else None
    return next((x for part in expr_children(value) if (x := _read(part)) is not None), None)


@dataclass
class _Cancelling(Mutator):
    own: Buffer | None

    def visit_load(self, load: BufferLoad) -> Expr:
        return load

    def visit_expr(self, expr: Expr) -> Expr:
        if _is_sum(expr):
            return self._sum(expr)
        try:
            made = super().visit_expr(expr)
        except ZeroDivisionError:
            return expr  # a division by what is always zero stays what it is, and so does a shift by what is no count
        return _folded(made, expr) if isinstance(made, Call) and made is not expr and is_int(made.dtype) else made

    def _sum(self, expr: Expr) -> Expr:
        """A whole chain of sums and differences without terms that cancel; each term is gone through once."""
        terms = [(term, self.visit_expr(term), away) for term, away in _terms(expr, False)]
        left: list[tuple[Expr, bool]] = []
        for _, term, away in terms:
            pair = (term, not away)
            if pair in left and has_loads(term) and not any(x.buffer is self.own for x in loads_in(term)):
                left.remove(pair)
            else:
                left.append((term, away))
        if len(left) == len(terms):
            return _again(expr, {id(term): made for term, made, _ in terms})
        # What is added comes first, so that nothing is taken away from zero that need not be.
        total: Expr = const(0, expr.dtype)
        for term, away in sorted(left, key=lambda t: t[1]):
            total = binary("-" if away else "+", total, term)
        return total


def _again(value: Expr, made: Mapping[int, Expr]) -> Expr:
    """The same chain of what has been made of its terms, by their identity."""
    if isinstance(value, BinOp) and _is_sum(value):
        a, b = _again(value.a, made), _again(value.b, made)
        return value if a is value.a and b is value.b else binary(value.op, a, b)
    return made.get(id(value), value)


def _folded(made: Call, before: Expr) -> Expr:
    """Of constants a constant; what it was before where a shift's count then is none."""
    if len(made.args) == 2:
        count = int_value(made.args[1])
        if made.op in ("shift_left", "shift_right") and count is not None and not 0 <= count < BITS:
            return before
        return intrin(made.op, *made.args, dtype=made.dtype)
    known = int_value(made.args[0]) if len(made.args) == 1 else None
    if known is not None and made.op == "bitwise_not":
        return const(wrap(~known, made.dtype), made.dtype)
    return const(wrap(abs(known), made.dtype), made.dtype) if known is not None and made.op == "abs" else made


def _terms(value: Expr, away: bool) -> list[tuple[Expr, bool]]:
    """What a chain of sums and differences is made of, each with whether it is taken away."""
    if isinstance(value, BinOp) and _is_sum(value):
        return [*_terms(value.a, away), *_terms(value.b, away != (value.op == "-"))]
    return [(value, away)] if int_value(value) != 0 else []


def _is_sum(value: Expr) -> bool:
    return isinstance(value, BinOp) and value.op in ("+", "-") and is_int(value.dtype)


__all__ = ["without_cancelled"]
