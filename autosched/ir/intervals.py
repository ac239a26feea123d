"""Intervals of integer expressions under what is known about their variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import gcd, inf

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Select, Var, is_int
from autosched.ir.functor import expr_children
from autosched.ir.linear import (
    EVERYTHING,
    Bound,
    Interval,
    Lin,
    Terms,
    common_factor,
    dtype_interval,
    floor_bound,
    put,
)


class Intervals(ABC):
    """What is known about variables, and the intervals that follow from it."""

    def __init__(self) -> None:
        self._bounds: dict[Expr, Interval] = {}
        self._values: dict[Var, Lin] = {}
        self._symbolic: dict[Var, tuple[Lin | None, Lin | None]] = {}
        self._facts: list[Lin] = []
        self._atoms: dict[Expr, Interval] = {}
        self._deep = False

    @abstractmethod
    def _lin(self, expr: Expr) -> Lin:
        """The linear form of an expression."""

    def _interval(self, terms: Terms, k: int) -> Interval:
        lo: Bound = k
        hi: Bound = k
        bounds = self._bounds
        for t, c in terms.items():
            b = bounds.get(t)
            if b is None:
                if type(t) is Var:
                    b = EVERYTHING
                else:
                    b = self._atoms.get(t) or self._new_atom(t)
            if c > 0:
                lo += c * b[0]
                hi += c * b[1]
            else:
                lo += c * b[1]
                hi += c * b[0]
        if self._facts and len(terms) > 0:
            lo = self._tighten(terms, k, lo, self._facts, 2)
            hi = -self._tighten({t: -c for t, c in terms.items()}, -k, -hi, self._facts, 2)
        return lo, hi

    def _plain_low(self, terms: Terms, k: int) -> Bound:
        lo: Bound = k
        for t, c in terms.items():
            b = self._bounds.get(t) or self._atoms.get(t)
            if b is None:
                b = EVERYTHING if type(t) is Var else self._new_atom(t)
            lo += c * (b[0] if c > 0 else b[1])
        return lo

    def _tighten(self, terms: Terms, k: int, best: Bound, facts: list[Lin], depth: int) -> Bound:
        """The best lower bound of a form after adding non-negative multiples of known non-negative forms."""
        for n, (ft, fk) in enumerate(facts):
            for t, f in ft.items():
                c = terms.get(t)
                if c is None or (c > 0) != (f > 0):
                    continue
                # terms * |f| - fact * |c| loses t; what is left bounds terms * |f| from below.
                p, q = abs(f), abs(c)
                g = gcd(p, q)
                p, q = p // g, q // g
                rest = {u: x * p for u, x in terms.items()}
                for u, x in ft.items():
                    put(rest, u, -x * q)
                rk = k * p - fk * q
                low = self._plain_low(rest, rk)
                if depth > 1 and len(facts) > 1 and rest:
                    low = self._tighten(rest, rk, low, facts[:n] + facts[n + 1:], depth - 1)
                if low > -inf and (bound := -(-int(low) // p)) > best:
                    best = bound
        return best

    def _new_atom(self, t: Expr) -> Interval:
        # A fact may mention the atom whose operands it bounds: until its own interval is known, it is unbounded.
        self._atoms[t] = EVERYTHING
        b = self._atoms[t] = self._atom_interval(t)
        return b

    def _atom_interval(self, t: Expr) -> Interval:
        cls = type(t)
        if cls is BinOp:
            assert isinstance(t, BinOp)
            op = t.op
            if op == "//" or op == "%":
                return self._division_interval(t)
            if op in ("truncdiv", "truncmod") and type(t.b) is IntImm and t.b.value:
                d = abs(t.b.value)
                if op == "truncmod":
                    return 1 - d, d - 1
                lo, hi = self._interval(*self._lin(t.a))
                size = max(-lo, hi)
                size = size if size == inf else int(size) // d
                return -size, size
            if op in ("min", "max"):
                a, b = self._interval(*self._lin(t.a)), self._interval(*self._lin(t.b))
                pick = min if op == "min" else max
                return pick(a[0], b[0]), pick(a[1], b[1])
            if op == "*":
                a, b = self._interval(*self._lin(t.a)), self._interval(*self._lin(t.b))
                ends = [0 if 0 in (x, y) else x * y for x in a for y in b]
                return min(ends), max(ends)
        if cls is Select or (cls is Call and t.op == "if_then_else"):  # type: ignore[attr-defined]
            _, x, y = expr_children(t)
            a, b = self._interval(*self._lin(x)), self._interval(*self._lin(y))
            return min(a[0], b[0]), max(a[1], b[1])
        if cls is Call:
            assert isinstance(t, Call)
            if t.op == "shift_right" and type(t.args[1]) is IntImm and t.args[1].value >= 0:
                lo, hi = self._interval(*self._lin(t.args[0]))
                s = 1 << t.args[1].value
                return floor_bound(lo, s), floor_bound(hi, s)
            if t.op == "bitwise_and" and type(t.args[1]) is IntImm and t.args[1].value >= 0:
                return 0, t.args[1].value
        if cls is Cast:
            assert isinstance(t, Cast)
            if is_int(t.value.dtype):
                lo, hi = self._interval(*self._lin(t.value))
                low, high = dtype_interval(t.dtype)
                return (lo, hi) if low <= lo and hi <= high else (low, high)
        return dtype_interval(t.dtype) if cls is BufferLoad or cls is Cast else EVERYTHING

    def _division_interval(self, t: BinOp) -> Interval:
        div = self._lin(t.b)
        if div[0] or div[1] <= 0:
            lo, hi = self._interval(*div)
            if t.op == "%" and lo > 0:
                return 0, hi - 1
            if t.op == "//" and lo > 0:
                a = self._interval(*self._lin(t.a))
                ends = [floor_bound(x, y) if y != inf else (-1 if x < 0 else 0) for x in a for y in (lo, hi)]
                return min(ends), max(ends)
            return EVERYTHING
        d = div[1]
        lo, hi = self._interval(*self._lin(t.a))
        if t.op == "//":
            return floor_bound(lo, d), floor_bound(hi, d)
        if lo > -inf and hi < inf and lo // d == hi // d:
            return int(lo) % d, int(hi) % d
        terms, k = self._lin(t.a)
        g = gcd(common_factor(terms), d)
        return (k % g, d - g + k % g) if g > 1 else (0, d - 1)
