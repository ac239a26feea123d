"""The parts of iteration maps: iterators, their digits, sums of digits, and the arithmetic of constant factors.

An *iterator* (``IterMark``) runs over ``[0, extent)``: a loop variable, or a sum of digits of other iterators that is
known to count without gaps. A *digit* (``IterSplit``) of it is ``(mark // lower) % extent * scale``. An index is a sum
of digits plus a base that no loop moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.ir.expr import BinOp, Expr, IntImm, as_expr, binary
from autosched.ir.quick import quick
from autosched.ir.simplify import Analyzer

Factor = int | Expr


class Unresolved(Exception):
    """An expression is not an iteration map; the text says why. Never leaves this package."""


@quick
@dataclass(frozen=True, eq=False, slots=True)
class IterMark:
    """An iterator over ``[0, extent)``; its identity is what it is.

    Args:
        source: a variable (less its minimum), or the sum that is the iterator.
        extent: number of values.
    """

    source: Expr | IterSum
    extent: Factor


@quick
@dataclass(frozen=True, slots=True)
class IterSplit:
    """``(mark // lower) % extent * scale``."""

    mark: IterMark
    lower: Factor
    extent: Factor
    scale: Factor


@quick
@dataclass(frozen=True, slots=True)
class IterSum:
    """The sum of some digits and a base."""

    args: tuple[IterSplit, ...]
    base: Factor


@dataclass(slots=True)
class Padding:
    """What the divisions of one iterator need to be exact."""

    factor: Factor = 1
    offset: Factor | None = None
    provisional: IterMark | None = None
    padded: IterMark | None = None
    left: Factor = 0


@dataclass(slots=True)
class Constraint:
    """Bounds of an iterator expression: ``lower <= expr < upper``."""

    expr: Expr
    lower: Factor | None
    upper: Factor | None


@dataclass(slots=True)
class Fused:
    """A fused iterator, the offset that a lower bound added, and its digits from outermost to innermost."""

    mark: IterMark
    offset: Factor
    flat: tuple[IterSplit, ...] = field(default_factory=tuple)


class Factors:
    """Arithmetic of factors: Python ints where they are constant, expressions otherwise.

    Args:
        analyzer: what is known about the variables in them.
        dtype: type of new constants.
    """

    def __init__(self, analyzer: Analyzer, dtype: str) -> None:
        self.ana = analyzer
        self.dtype = dtype

    def factor(self, e: Expr) -> Factor:
        """An expression as an int where it is one."""
        if type(e) is IntImm:
            return e.value
        value = self.ana.const_value(e)
        return self.ana.simplify(e) if value is None else value

    def expr(self, f: Factor) -> Expr:
        """A factor as an expression."""
        return IntImm(f, self.dtype) if isinstance(f, int) else f

    def _op(self, op: str, a: Factor, b: Factor) -> Factor:
        return self.factor(binary(op, self.expr(a), self.expr(b)))

    def mul(self, a: Factor, b: Factor) -> Factor:
        """Product."""
        return a * b if isinstance(a, int) and isinstance(b, int) else self._op("*", a, b)

    def add(self, a: Factor, b: Factor) -> Factor:
        """Sum."""
        return a + b if isinstance(a, int) and isinstance(b, int) else self._op("+", a, b)

    def sub(self, a: Factor, b: Factor) -> Factor:
        """Difference."""
        return a - b if isinstance(a, int) and isinstance(b, int) else self._op("-", a, b)

    def div(self, a: Factor, b: Factor) -> Factor:
        """Floor of the quotient."""
        return a // b if isinstance(a, int) and isinstance(b, int) else self._op("//", a, b)

    def mod(self, a: Factor, b: Factor) -> Factor:
        """Remainder."""
        return a % b if isinstance(a, int) and isinstance(b, int) else self._op("%", a, b)

    def same(self, a: Factor, b: Factor) -> bool:
        """Whether two factors are known to be equal."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return a is b or self.ana.can_prove_equal(self.expr(a), self.expr(b))

    def divides(self, b: Factor, a: Factor) -> bool:
        """Whether ``b`` is known to divide ``a``."""
        if isinstance(a, int) and isinstance(b, int):
            return b != 0 and a % b == 0
        if b == 0:
            return False
        if b == 1 or a == 0 or self.same(a, b) or self.same(self.mod(a, b), 0):
            return True
        if isinstance(a, int) or isinstance(b, int):
            return False
        rest = self.factor(_without_remainders(a, b))
        return rest == 0 or self.same(self.mod(rest, b), 0)

    def at_least(self, a: Factor, b: Factor) -> bool:
        """Whether ``a >= b`` is known."""
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        return self.ana.can_prove(self.expr(a) >= self.expr(b))


def _without_remainders(e: Expr, d: Expr) -> Expr:
    """A sum that differs from ``e`` by a multiple of ``d``: remainders of divisions by it are what was divided."""
    if type(e) is BinOp and e.op in ("+", "-"):
        return binary(e.op, _without_remainders(e.a, d), _without_remainders(e.b, d))
    if type(e) is BinOp and e.op == "*" and (type(e.a) is IntImm or type(e.b) is IntImm):
        return binary(e.op, _without_remainders(e.a, d), _without_remainders(e.b, d))
    if type(e) is BinOp and e.op == "%" and e.b == d:
        return _without_remainders(e.a, d)
    return e


def to_expr(s: IterSum | IterSplit, analyzer: Analyzer | None = None, dtype: str = "int32") -> Expr:
    """The index expression of a sum or a digit, in the variables of the iterators (unit factors left out)."""
    ana = analyzer or Analyzer()

    def lift(f: Factor) -> Expr:
        return IntImm(f, dtype) if isinstance(f, int) else f

    if isinstance(s, IterSum):
        total: Expr | None = None
        for arg in s.args:
            term = to_expr(arg, ana, dtype)
            total = term if total is None else total + term
        return lift(s.base) if total is None else total if s.base == 0 else total + lift(s.base)
    mark = s.mark
    source = mark.source if isinstance(mark.source, Expr) else to_expr(mark.source, ana, dtype)
    whole, lower, extent = lift(mark.extent), lift(s.lower), lift(s.extent)
    if s.lower == 1 and (s.extent == mark.extent or ana.can_prove_equal(extent, whole)):
        return source * lift(s.scale)
    if s.lower * s.extent == mark.extent if _ints(s, mark) else ana.can_prove_equal(lower * extent, whole):
        if s.extent == 1 and mark.extent != 1:
            return IntImm(0, dtype)
        return source // lower * lift(s.scale)
    return source % ana.simplify(lower * extent) // lower * as_expr(lift(s.scale))


def _ints(s: IterSplit, mark: IterMark) -> bool:
    return isinstance(s.lower, int) and isinstance(s.extent, int) and isinstance(mark.extent, int)
