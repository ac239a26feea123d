"""Indices relaxed over some variables: their lowest and highest value over the ranges of these.

The ends stay expressions of all other variables. For an index that is affine in the relaxed variables they are those of the exact
bounding interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Select, Var, cast
from autosched.ir.functor import expr_children, walk_expr
from autosched.ir.linear import Lin, Terms, add_forms, build, factors_of
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Range

Ends = tuple[Expr | None, Expr | None]


class Relaxer:
    """Relaxes indices over a set of variables.

    Args:
        dom: ranges of the variables to eliminate; a range may name variables that are not eliminated.
        analyzer: what is known about all other variables; gains ``dom`` and ``predicate``. Default: a new one.
        predicate: a condition under which the accesses happen; tightens constant bounds where it is understood.
    """

    def __init__(
        self, dom: Mapping[Var, Range], analyzer: Analyzer | None = None, predicate: Expr = TRUE
    ) -> None:
        self.dom = dict(dom)
        self.analyzer = ana = Analyzer() if analyzer is None else analyzer
        for var, r in dom.items():
            ana.bind(var, r)
        if predicate is not TRUE:
            ana.assume(predicate)

    def forms(self, expr: Expr) -> tuple[Lin | None, Lin | None]:
        """The lowest and highest value of an index as linear forms; None for an end that is not known."""
        return self._relax(*self.analyzer._lin(expr))

    def ends(self, expr: Expr) -> Ends:
        """The lowest and highest value of an index; None for an end that is not known."""
        lo, hi = self.forms(expr)
        if lo is not None and lo is hi:
            low = build(*lo, expr.dtype)
            return low, low
        return (
            None if lo is None else build(*lo, expr.dtype),
            None if hi is None else build(*hi, expr.dtype),
        )

    def interval(self, r: Range, whole: Range | None = None) -> Range:
        """The range that ``r`` sweeps; ``whole`` where it is not known.

        Raises:
            ValueError: an end is not known, and there is no ``whole``.
        """
        ana = self.analyzer
        size = ana._lin(r.extent)
        lo, hi = self._relax(*ana._lin(r.min))
        if lo is not None and hi is not None:
            if size[0] and any(self._mentions(t) for t in size[0]):
                top = self._relax(*ana._lin2(r.min, r.extent, 1))[1]
            else:
                top = add_forms(hi, size, 1)
            if top is not None:
                if lo is hi and not size[0]:
                    return Range(build(*lo, r.min.dtype), IntImm(size[1], r.min.dtype))
                span = ana._settle(*add_forms(top, lo, -1))
                return Range(build(*lo, r.min.dtype), build(*span, r.min.dtype))
        if whole is None:
            raise ValueError("an index has no bounds over the variables it is relaxed over")
        return whole

    def moves(self, r: Range) -> bool:
        """Whether a range depends on an eliminated variable."""
        return bool(self.dom) and (self._mentions(r.min) or self._mentions(r.extent))

    def _mentions(self, t: Expr) -> bool:
        if type(t) is Var:
            return t in self.dom
        return any(e in self.dom for e in walk_expr(t) if type(e) is Var)

    def _only(self, t: Expr) -> bool:
        """Whether an atom depends on eliminated variables of constant range alone."""
        ana = self.analyzer
        for e in walk_expr(t):
            if type(e) is Var and (e not in self.dom or e in ana._symbolic):
                return False
            if type(e) is BufferLoad:
                return False
        return True

    def _relax(self, terms: Terms, k: int, depth: int = 0) -> tuple[Lin | None, Lin | None]:
        dom = self.dom
        ana = self.analyzer
        kept: Terms = {}
        closed: Terms = {}
        mixed: list[tuple[Expr, int]] = []
        for t, c in terms.items():
            if type(t) is Var:
                if t not in dom:
                    kept[t] = c
                elif t in ana._symbolic:
                    mixed.append((t, c))
                else:
                    closed[t] = c
            elif not self._mentions(t):
                kept[t] = c
            elif self._only(t):
                closed[t] = c
            else:
                mixed.append((t, c))
        if not closed and not mixed:
            return (form := (terms, k)), form
        lo: Lin | None
        hi: Lin | None
        low, high = ana._interval(closed, k)
        lo = None if low == -inf else (kept, int(low))
        hi = None if high == inf else (dict(kept), int(high))
        again = False
        for t, c in mixed:
            a, b = self._atom(t, depth)
            if c < 0:
                a, b = b, a
            lo = None if lo is None or a is None else add_forms(lo, a, c)
            hi = None if hi is None or b is None else add_forms(hi, b, c)
            again = again or type(t) is Var
        if mixed:
            lo = lo and ana._settle(*lo)
            hi = hi and ana._settle(*hi)
            if again and depth < 2 * len(dom):
                # The range of a relaxed variable may name another relaxed variable.
                lo = lo and self._relax(*lo, depth + 1)[0]
                hi = hi and self._relax(*hi, depth + 1)[1]
        return lo, hi

    def _atom(self, t: Expr, depth: int) -> tuple[Lin | None, Lin | None]:
        ana = self.analyzer
        if type(t) is Var:
            return ana._symbolic[t]
        if isinstance(t, BinOp):
            if t.op in ("//", "%") and type(t.b) is IntImm and t.b.value > 0:
                lo, hi = self._relax(*ana._lin(t.a), depth)
                d = t.b.value
                if t.op == "//":
                    return self._quotient(lo, d, t.dtype), self._quotient(hi, d, t.dtype)
                if lo is not None and hi is not None:
                    q, p = self._quotient(lo, d, t.dtype), self._quotient(hi, d, t.dtype)
                    assert q is not None and p is not None
                    if q == p or ana._settle(*add_forms(q, p, -1)) == ({}, 0):
                        return add_forms(lo, q, -d), add_forms(hi, q, -d)
            elif t.op in ("min", "max"):
                x, y = self._relax(*ana._lin(t.a), depth), self._relax(*ana._lin(t.b), depth)
                return self._pick(t.op, x[0], y[0], t.dtype), self._pick(t.op, x[1], y[1], t.dtype)
            elif t.op == "*":
                factors = factors_of(t)
                inside = [f for f in factors if self._mentions(f)]
                if len(inside) == 1:
                    outside = [f for f in factors if f is not inside[0]]
                    sign = self._sign(outside)
                    lo, hi = self._relax(*ana._lin(inside[0]), depth)
                    if sign:
                        lo, hi = (hi, lo) if sign < 0 else (lo, hi)
                        return self._times(lo, outside, t.dtype), self._times(hi, outside, t.dtype)
        if isinstance(t, Select) or (isinstance(t, Call) and t.op == "if_then_else"):
            _, a, b = expr_children(t)
            x, y = self._relax(*ana._lin(a), depth), self._relax(*ana._lin(b), depth)
            return self._pick("min", x[0], y[0], t.dtype), self._pick("max", x[1], y[1], t.dtype)
        if isinstance(t, Cast):
            lo, hi = self._relax(*ana._lin(t.value), depth)
            inner = t.value.dtype
            return (
                lo and ana._lin(cast(t.dtype, build(*lo, inner))),
                hi and ana._lin(cast(t.dtype, build(*hi, inner))),
            )
        low, high = ana._interval({t: 1}, 0)
        return (None if low == -inf else ({}, int(low))), (None if high == inf else ({}, int(high)))

    def _quotient(self, form: Lin | None, d: int, dtype: str) -> Lin | None:
        if form is None:
            return None
        out: Terms = {}
        k = self.analyzer._div(*form, d, 1, out, dtype)
        return self.analyzer._settle(out, k)

    def _pick(self, op: str, a: Lin | None, b: Lin | None, dtype: str) -> Lin | None:
        if a is None or b is None:
            return None
        return self.analyzer._lin(BinOp(op, build(*a, dtype), build(*b, dtype), dtype))

    def _sign(self, factors: list[Expr]) -> int:
        sign = 1
        for f in factors:
            lo, hi = self.analyzer._interval({f: 1}, 0)
            if hi <= 0:
                sign = -sign
            elif lo < 0:
                return 0
        return sign

    def _times(self, form: Lin | None, factors: list[Expr], dtype: str) -> Lin | None:
        if form is None:
            return None
        product: Expr = build(*form, dtype)
        for f in factors:
            product = BinOp("*", product, f, dtype)
        return self.analyzer._lin(product)
