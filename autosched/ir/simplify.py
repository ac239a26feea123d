"""Simplification and proof over integer expressions: what is known about variables, and what follows from it.

Intervals are in ``intervals``, the arithmetic of linear forms in ``quasi_affine``, proofs in ``proofs``; the printed
order is in ``linear``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf

from autosched.ir.expr import (
    COMPARISON,
    BinOp,
    BufferLoad,
    Call,
    Cast,
    Expr,
    ExprLike,
    IntImm,
    Not,
    Ramp,
    Select,
    Var,
    as_expr,
    binary,
    cast,
    is_int,
    logical_not,
)
from autosched.ir.functor import expr_children, walk_expr
from autosched.ir.linear import (
    INDEX_TYPES,
    NEGATED,
    Terms,
    add_forms,
    build,
    common_factor,
    conjuncts,
    factors_of,
    monomial,
    relation,
)
from autosched.ir.numbered import Numbered, Numbers, numbered, unnumbered
from autosched.ir.proofs import Proofs
from autosched.ir.stmt import Range

__all__ = ["Analyzer", "conjuncts", "linear_form", "simplify"]

_ALIKE: dict[Numbered, Numbered] = {}  # what expressions in numbers, of variables with these names and ranges, become
_ALIKE_LIMIT = 8192
_TRUE, _FALSE = IntImm(1, "bool"), IntImm(0, "bool")


class Analyzer(Proofs):
    """What is known about variables, and what follows from it.

    Args:
        dom: initial ranges of variables.
    """

    def __init__(self, dom: Mapping[Var, Range] | None = None) -> None:
        super().__init__()
        self._memo: dict[Expr, Expr] = {}
        if dom:
            for var, r in dom.items():
                self.bind(var, r)

    # -- what is known ---------------------------------------------------------------------------------------------

    def bind(self, var: Var, value: Range | tuple[ExprLike, ExprLike] | ExprLike) -> None:
        """Declares what a variable is.

        Args:
            var: the variable.
            value: a ``Range`` or ``(min, extent)`` pair it runs over, or the expression it equals.
        """
        if isinstance(value, tuple):
            value = Range(as_expr(value[0], var.dtype), as_expr(value[1], var.dtype))
        if not isinstance(value, Range):
            self._values[var] = self._lin(as_expr(value, var.dtype))
            self._forget()
            return
        lo, extent = value.min, value.extent
        if type(lo) is IntImm and type(extent) is IntImm:
            if extent.value == 1:
                self._values[var] = ({}, lo.value)
            else:
                self._bounds[var] = (lo.value, lo.value + extent.value - 1)
                self._values.pop(var, None)
            self._symbolic.pop(var, None)
            self._forget()
            return
        low, size = self._lin(lo), self._lin(extent)
        high = add_forms(low, size, 1)
        if not size[0] and size[1] == 1:
            self._values[var] = low
        else:
            last = (high[0], high[1] - 1)
            # A loop variable exists only where the extent is at least 1.
            self._bounds[var] = (self._interval(*low)[0], self._interval(*last)[1])
            self._symbolic[var] = (low, last)
            self._values.pop(var, None)
        self._forget()

    def bind_bounds(self, var: Var, lo: int | None, hi: int | None) -> None:
        """Declares inclusive bounds of a variable, e.g. ``bind_bounds(n, 1, None)`` for a symbolic extent."""
        self._bounds[var] = (-inf if lo is None else lo, inf if hi is None else hi)
        self._forget()

    def assume(self, cond: Expr) -> None:
        """Adds a condition that holds from now on (conjunctions are taken apart; what is not understood is ignored)."""
        for part in conjuncts(cond):
            self._assume(part)
        self._forget()

    @contextmanager
    def with_constraint(self, cond: Expr) -> Iterator[Analyzer]:
        """A context in which ``cond`` also holds."""
        saved = (dict(self._bounds), list(self._facts), list(self._nonzero), self._atoms, self._memo)
        self._atoms, self._memo = {}, {}
        self.assume(cond)
        try:
            yield self
        finally:
            self._bounds, self._facts, self._nonzero, self._atoms, self._memo = saved

    def _forget(self) -> None:
        if self._atoms:
            self._atoms = {}
        if self._memo:
            self._memo = {}

    def _assume(self, cond: Expr) -> None:
        if type(cond) is Not:
            inner = cond.a
            if type(inner) is BinOp and inner.op in NEGATED:
                self._assume(BinOp(NEGATED[inner.op], inner.a, inner.b, "bool"))
            elif type(inner) is BinOp and inner.op == "or":
                self._assume(logical_not(inner.a))
                self._assume(logical_not(inner.b))
            return
        if type(cond) is Call and cond.op == "likely":
            for part in conjuncts(cond.args[0]):
                self._assume(part)
            return
        if type(cond) is not BinOp or cond.op not in COMPARISON or not is_int(cond.a.dtype):
            return
        op, a, b = cond.op, cond.a, cond.b
        if op in (">", ">="):
            op, a, b = ("<", b, a) if op == ">" else ("<=", b, a)
        terms, k = self._lin2(b, a, -1)
        if not terms:
            return
        if op == "!=":
            self._nonzero.append((terms, k))
            return
        self._fact(terms, k - 1 if op == "<" else k)
        if op == "==":
            self._fact({t: -c for t, c in terms.items()}, -k)

    def _fact(self, terms: Terms, k: int) -> None:
        if len(terms) == 1:
            (t, c), = terms.items()
            lo, hi = self._interval({t: 1}, 0)
            if c > 0:
                lo = max(lo, -(k // c))
            else:
                hi = min(hi, k // -c)
            self._bounds[t] = (lo, hi)
            if type(t) is Var or type(t) is BufferLoad:
                return
        self._facts.append((terms, k))

    # -- questions -------------------------------------------------------------------------------------------------

    def simplify(self, expr: Expr) -> Expr:
        """The normal form of an expression; the same object when it already is one.

        Args:
            expr: any expression; operands of calls and loads are simplified too.
        """
        cls = type(expr)
        if cls is IntImm:
            return expr
        if cls is Var and expr not in self._values:
            return expr
        hit = self._memo.get(expr)
        if hit is not None:
            return hit
        new = self._simplify(expr)
        if new == expr:
            new = expr
        self._memo[expr] = new
        return new

    def simplify_alike(self, expr: Expr) -> Expr:
        """``simplify``, worked out once for all that is written the same way, of variables of the same names and ranges.

        Args:
            expr: any expression; what is not of integers and variables alone, or of which more is known, is simplified anew.
        """
        # Where a range is symbolic, also another variable's, more is tried.
        if self._facts or self._nonzero or self._symbolic:
            return self.simplify(expr)
        numbers = Numbers()
        try:
            code = numbered(expr, numbers)
        except KeyError:
            return self.simplify(expr)
        variables = list(numbers)
        values = [self._values.get(v) for v in variables]
        if any(x and x[0] for x in values):
            return self.simplify(expr)
        known = [(v.name, v.dtype, self._bounds.get(v), None if x is None else x[1]) for v, x in zip(variables, values)]
        asked = code, *known
        found = _ALIKE.get(asked)
        if found is not None:
            return expr if found == code else unnumbered(found, variables)
        new = self.simplify(expr)
        if len(_ALIKE) >= _ALIKE_LIMIT:
            _ALIKE.clear()
        with suppress(KeyError):  # beyond sums and comparisons
            _ALIKE[asked] = numbered(new, {v: k for k, v in enumerate(variables)})  # no others are in it
        return new

    def simplify_range(self, r: Range) -> Range:
        """A range with both ends simplified; the same object when nothing changes."""
        lo, extent = self.simplify(r.min), self.simplify(r.extent)
        return r if lo is r.min and extent is r.extent else Range(lo, extent)

    def int_bounds(self, expr: Expr) -> tuple[int | None, int | None]:
        """The inclusive interval of an integer expression.

        Exact when every variable occurs once in its linear form (any affine expression over a box); otherwise it
        contains the true interval.

        Returns:
            (lowest, highest), None where unbounded.
        """
        terms, k = self._lin(expr)
        lo, hi = self._interval(terms, k)
        return (None if lo == -inf else int(lo)), (None if hi == inf else int(hi))

    def const_value(self, expr: Expr) -> int | None:
        """The one value that an integer expression can have, or None."""
        terms, k = self._lin(expr)
        if not terms:
            return k
        lo, hi = self._interval(terms, k)
        return int(lo) if lo == hi else None

    def can_prove(self, cond: Expr) -> bool:
        """Whether a condition holds for every value that the variables can take."""
        if type(cond) is IntImm:
            return bool(cond.value)
        if type(cond) is BinOp:
            op = cond.op
            if op == "and":
                return self.can_prove(cond.a) and self.can_prove(cond.b)
            if op == "or":
                return self.can_prove(cond.a) or self.can_prove(cond.b) or self._is_true(cond)
            if op in COMPARISON and is_int(cond.a.dtype):
                return self._compare(op, cond.a, cond.b) is True
        if type(cond) is Not and type(cond.a) is BinOp and cond.a.op in COMPARISON and is_int(cond.a.a.dtype):
            return self._compare(cond.a.op, cond.a.a, cond.a.b) is False
        return self._is_true(cond)

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether two integer expressions have the same value everywhere."""
        x = as_expr(a)
        y = as_expr(b, x.dtype)
        if x is y:
            return True
        return self._compare("==", x, y) is True

    def _is_true(self, cond: Expr) -> bool:
        new = self.simplify(cond)
        return type(new) is IntImm and new.value == 1

    # -- rebuilding ------------------------------------------------------------------------------------------------

    def _simplify(self, expr: Expr) -> Expr:
        if expr.dtype in INDEX_TYPES and type(expr) in (BinOp, Var):
            terms, k = self._lin(expr)
            if len(terms) > 1 and sum(1 for t in terms if type(t) is BinOp and t.op in ("//", "%")) > 1:
                deep = self._deepen(terms, k)
                if len(deep[0]) < len(terms):
                    terms, k = deep
            return build(terms, k, expr.dtype)
        return self._children(expr)

    def _children(self, e: Expr) -> Expr:
        """A node that is not linear, its operands simplified."""
        if isinstance(e, BinOp):
            if e.dtype == "bool":
                return self._logic(e)
            a, b = self.simplify(e.a), self.simplify(e.b)
            return e if a is e.a and b is e.b else binary(e.op, a, b)
        if isinstance(e, Not):
            inner = self.simplify(e.a)
            if type(inner) is BinOp and inner.op in NEGATED:
                return self.simplify(BinOp(NEGATED[inner.op], inner.a, inner.b, "bool"))
            return inner.a if type(inner) is Not else logical_not(inner)
        if isinstance(e, Select) or (isinstance(e, Call) and e.op == "if_then_else"):
            return self._conditional(e)
        if isinstance(e, Cast):
            return cast(e.dtype, self.simplify(e.value))
        if isinstance(e, BufferLoad):
            indices = tuple([self.simplify(i) for i in e.indices])
            return BufferLoad(e.buffer, indices, e.dtype)
        if isinstance(e, Call):
            args = tuple([self.simplify(a) for a in e.args])
            return Call(e.op, args, e.dtype)
        if isinstance(e, Ramp):
            return Ramp(self.simplify(e.base), self.simplify(e.stride), e.lanes, e.dtype)
        return e

    def _conditional(self, e: Select | Call) -> Expr:
        c, x, y = expr_children(e)
        cond = self.simplify(c)
        if type(cond) is IntImm:
            return self.simplify(x if cond.value else y)
        with self.with_constraint(cond):
            a = self.simplify(x)
        with self.with_constraint(logical_not(cond)):
            b = self.simplify(y)
        if a == b:
            return a
        return Select(cond, a, b, e.dtype) if isinstance(e, Select) else Call(e.op, (cond, a, b), e.dtype)

    def _logic(self, e: BinOp) -> Expr:
        op = e.op
        if op in COMPARISON:
            if e.a.dtype not in INDEX_TYPES:
                a, b = self.simplify(e.a), self.simplify(e.b)
                return binary(op, a, b)
            return self._comparison(op, e.a, e.b)
        a = self.simplify(e.a)
        if type(a) is IntImm:
            return self.simplify(e.b) if bool(a.value) == (op == "and") else a
        # The right side only matters where the left one did not decide.
        with self.with_constraint(a if op == "and" else logical_not(a)):
            b = self.simplify(e.b)
        if type(b) is IntImm:
            return a if bool(b.value) == (op == "and") else b
        return a if a == b else BinOp(op, a, b, "bool")

    def _comparison(self, op: str, a: Expr, b: Expr) -> Expr:
        if op in (">", ">="):
            op, a, b = ("<" if op == ">" else "<="), b, a
        left, right = self._lin(a), self._lin(b)
        terms, k = add_forms(right, left, -1)
        if len(terms) > 1:
            terms, k = self._settle(terms, k)
        answer = self._decide(op, terms, k, proof=bool(self._symbolic or self._facts or len(terms) > 1))
        if answer is not None:
            return _TRUE if answer else _FALSE
        strict = op == "<"
        g = common_factor(terms)
        if g > 1:
            # terms + k >= 0 over multiples of g: only the multiple below k counts.
            terms = {t: c // g for t, c in terms.items()}
            k = -(-k // g) if strict else k // g
        elif len(terms) > 1 and op != "==" and op != "!=":
            terms, k, strict = self._coarse(terms, k, strict)
        if len(terms) == 1 and op != "==" and op != "!=":
            (t, c), = terms.items()
            if type(t) is BinOp and t.op == "//" and type(t.b) is IntImm and t.b.value > 0 and abs(c) == 1:
                d = t.b.value
                inner, ik = self._lin(t.a)
                # q < m is x < m * d; q >= m is x >= m * d.
                if c < 0:
                    bound = k if strict else k + 1
                    return self._comparison("<", t.a, IntImm(bound * d, t.dtype))
                bound = -k + 1 if strict else -k
                return self._comparison("<=", IntImm(bound * d - ik, t.dtype), build(inner, 0, t.dtype))
        return relation(op, terms, k, left, right, a.dtype)

    def _coarse(self, terms: Terms, k: int, strict: bool) -> tuple[Terms, int, bool]:
        """``0 <= g * x + r`` is ``0 <= x + r // g``, worth writing where ``r // g`` has one value."""
        whole = k - 1 if strict else k
        for g in sorted({abs(c) for c in terms.values()}, reverse=True):
            if g == 1:
                break
            low = {t: c for t, c in terms.items() if c % g}
            lo, hi = self._interval(low, whole)
            if lo > -inf and hi < inf and (q := int(lo) // g) == int(hi) // g:
                rest = {t: c // g for t, c in terms.items() if not c % g}
                return rest, (q + 1 if strict else q), strict
        return terms, k, strict


def simplify(expr: Expr, dom: Mapping[Var, Range] | None = None) -> Expr:
    """The normal form of one expression; see ``Analyzer.simplify``.

    Args:
        expr: what to simplify.
        dom: ranges of variables.
    """
    return Analyzer(dom).simplify(expr)


def linear_form(expr: Expr, variables: Iterable[Var] | None = None) -> tuple[dict[Var, int | Expr], Expr] | None:
    """An affine expression as coefficients and a constant.

    Args:
        expr: an integer expression.
        variables: the variables whose coefficients are wanted; default all of ``expr``. Others belong to the constant.

    Returns:
        (coefficient per variable with a non-zero one, in order of appearance; rest), or None when ``expr`` is not
        affine in the variables. A coefficient is an int, or an Expr when it holds other variables.
    """
    terms, k = Analyzer()._lin(expr)
    wanted = None if variables is None else set(variables)
    coeffs: dict[Var, int | Expr] = {}
    rest: Terms = {}
    for t, c in terms.items():
        if type(t) is Var and (wanted is None or t in wanted):
            old = coeffs.get(t)
            coeffs[t] = c if old is None else binary("+", as_expr(old, expr.dtype), c)
            continue
        if not any(type(f) is Var and (wanted is None or f in wanted) for f in walk_expr(t)):
            rest[t] = c
            continue
        factors = factors_of(t)
        mine = [f for f in factors if type(f) is Var and (wanted is None or f in wanted)]
        others = [f for f in factors if f not in mine]
        if len(mine) != 1 or len(factors) < 2 or any(
            type(v) is Var and (wanted is None or v in wanted) for f in others for v in walk_expr(f)
        ):
            return None
        scale = build({monomial(others): c}, 0, expr.dtype)
        old = coeffs.get(mine[0])
        coeffs[mine[0]] = scale if old is None else binary("+", as_expr(old, expr.dtype), scale)
    return coeffs, build(rest, k, expr.dtype)
