"""Linear forms of quasi-affine expressions: the part of the analyzer that divides.

Sums cancel in a linear form, divisions split into the part that is divisible and the part whose interval decides
the quotient, and a quotient meets its remainder again (``x // 4 * 4 + x % 4`` is ``x``).

A second, *deep* form writes every remainder by its quotient, reduces coefficients modulo the divisor and expands
products. It is not what a reader wants to see, but two equal expressions meet there more often, so proofs use it when
the first fails.
"""

from __future__ import annotations

from abc import abstractmethod
from math import gcd, inf

from autosched.ir.expr import BinOp, Expr, IntImm, Var, binary
from autosched.ir.intervals import Intervals
from autosched.ir.linear import (
    INDEX_TYPES,
    Lin,
    Terms,
    add_forms,
    atom_order,
    build,
    digit,
    factors_of,
    monomial,
    put,
)


class QuasiAffine(Intervals):
    """Linear forms under what is known about variables."""

    @abstractmethod
    def _children(self, e: Expr) -> Expr:
        """A node that is not linear, its operands simplified."""

    @abstractmethod
    def _prove_ge0(self, terms: Terms, k: int, depth: int = 6) -> bool:
        """Whether a linear form is never negative."""

    # -- linear forms ----------------------------------------------------------------------------------------------

    def _lin(self, expr: Expr) -> Lin:
        if type(expr) is Var and expr not in self._values:
            return {expr: 1}, 0
        out: Terms = {}
        k = self._acc(expr, 1, out)
        return self._settle(out, k)

    def _lin2(self, a: Expr, b: Expr, scale: int) -> Lin:
        """The linear form of ``a + scale * b``."""
        out: Terms = {}
        k = self._acc(a, 1, out) + self._acc(b, scale, out)
        return self._settle(out, k)

    def _settle(self, out: Terms, k: int) -> Lin:
        if len(out) > 1:
            for t in out:
                if type(t) is BinOp and (t.op == "%" or t.op == "//"):
                    return self._merge(out, k)
        return out, k

    def _acc(self, e: Expr, scale: int, out: Terms) -> int:
        """Adds ``scale * e`` to ``out``; returns what goes to the constant."""
        cls = type(e)
        if cls is IntImm:
            return e.value * scale  # type: ignore[attr-defined, no-any-return]
        if cls is Var:
            value = self._values.get(e)  # type: ignore[call-overload]
            if value is None:
                c = out.get(e, 0) + scale
                if c:
                    out[e] = c
                else:
                    del out[e]
                return 0
            for t, x in value[0].items():
                put(out, t, x * scale)
            return value[1] * scale  # type: ignore[no-any-return]
        if cls is BinOp:
            assert isinstance(e, BinOp)
            op, a, b = e.op, e.a, e.b
            if e.dtype not in INDEX_TYPES:
                return self._atom(e, scale, out)
            if op == "+":
                return self._acc(a, scale, out) + self._acc(b, scale, out)
            if op == "-":
                return self._acc(a, scale, out) + self._acc(b, -scale, out)
            if op == "*":
                if type(b) is IntImm:
                    return self._acc(a, scale * b.value, out) if b.value else 0
                if type(a) is IntImm:
                    return self._acc(b, scale * a.value, out) if a.value else 0
                return self._product(e, scale, out)
            if op == "//" or op == "%" or op == "truncdiv" or op == "truncmod":
                return self._division(e, scale, out)
            if op == "min" or op == "max":
                return self._minmax(e, scale, out)
        return self._atom(e, scale, out)

    def _atom(self, e: Expr, scale: int, out: Terms) -> int:
        new = self._children(e)
        if type(new) is not type(e):
            return self._acc(new, scale, out)
        put(out, new, scale)
        return 0

    def _product(self, e: BinOp, scale: int, out: Terms) -> int:
        a, b = self._lin(e.a), self._lin(e.b)
        for x, y in ((a, b), (b, a)):
            if not x[0]:
                for t, c in y[0].items():
                    if x[1]:
                        put(out, t, c * x[1] * scale)
                return x[1] * y[1] * scale
        single = len(a[0]) == len(b[0]) == 1 and not a[1] and not b[1]
        if single or self._deep:
            total = a[1] * b[1] * scale
            for t, c in a[0].items():
                for u, d in b[0].items():
                    put(out, monomial([*factors_of(t), *factors_of(u)]), c * d * scale)
                if b[1]:
                    put(out, t, c * b[1] * scale)
            if a[1]:
                for u, d in b[0].items():
                    put(out, u, d * a[1] * scale)
            return total
        put(out, BinOp("*", build(*a, e.dtype), build(*b, e.dtype), e.dtype), scale)
        return 0

    def _division(self, e: BinOp, scale: int, out: Terms) -> int:
        num, op = e.a, e.op
        dterms, d = self._lin(e.b)
        while op == "//" and d > 0 and not dterms and isinstance(num, BinOp) and num.op == "//":
            inner = num.b
            if not isinstance(inner, IntImm) or inner.value <= 0:
                break
            # Before the inner quotient is simplified beyond recognition.
            num, d = num.a, d * inner.value
        terms, k = self._lin(num)
        if op[0] == "t":
            if self._interval(terms, k)[0] >= 0 and self._interval(dterms, d)[0] > 0:
                op = "//" if op == "truncdiv" else "%"
            else:
                x, y = build(terms, k, e.dtype), build(dterms, d, e.dtype)
                return self._fresh(binary(op, x, y), scale, out)
        if dterms or d <= 0:
            return self._symbolic_division(op, (terms, k), (dterms, d), e.dtype, scale, out)
        if op == "//":
            return self._div(terms, k, d, scale, out, e.dtype)
        if self._deep:
            k1 = self._div(terms, k, d, -scale * d, out, e.dtype)
            for t, c in terms.items():
                put(out, t, c * scale)
            return k1 + k * scale
        return self._mod(terms, k, d, scale, out, e.dtype)

    def _fresh(self, e: Expr, scale: int, out: Terms) -> int:
        if type(e) is IntImm:
            return e.value * scale
        put(out, e, scale)
        return 0

    def _symbolic_division(self, op: str, num: Lin, den: Lin, dtype: str, scale: int, out: Terms) -> int:
        """Divides by a variable or a product: multiples of it come out, and a remainder below it vanishes."""
        if len(den[0]) == 1 and not den[1]:
            (t, c), = den[0].items()
            want = factors_of(t)
            quotient: Terms = {}
            rest: Terms = {}
            qk = 0
            for u, x in num[0].items():
                left = factors_of(u)
                for f in want:
                    if f in left:
                        left.remove(f)
                    else:
                        break
                else:
                    if x % c == 0:
                        if left:
                            put(quotient, monomial(left), x // c)
                        else:
                            qk += x // c
                        continue
                rest[u] = x
            low = self._prove_ge0(rest, num[1])
            if low:
                room = dict(den[0])
                for u, x in rest.items():
                    put(room, u, -x)
                if self._prove_ge0(room, -num[1] - 1):
                    if op == "//":
                        for u, x in quotient.items():
                            put(out, u, x * scale)
                        return qk * scale
                    for u, x in rest.items():
                        put(out, u, x * scale)
                    return num[1] * scale
            if quotient or qk:
                # floor((c * q + r) / c) is q + floor(r / c) for every c but 0.
                if rest or num[1]:
                    put(out, BinOp(op, build(rest, num[1], dtype), build(*den, dtype), dtype), scale)
                if op == "//":
                    for u, x in quotient.items():
                        put(out, u, x * scale)
                    return qk * scale
                return 0
        return self._fresh(binary(op, build(*num, dtype), build(*den, dtype)), scale, out)

    def _div(self, terms: Terms, k: int, d: int, scale: int, out: Terms, dtype: str) -> int:
        """Adds ``scale * ((terms + k) // d)`` for a constant d > 0."""
        if d == 1:
            for t, c in terms.items():
                put(out, t, c * scale)
            return k * scale
        rest: Terms = {}
        for t, c in terms.items():
            if c % d:
                rest[t] = c
            else:
                put(out, t, c // d * scale)
        const = 0
        if k % d == 0 or self._deep:
            const, k = k // d * scale, k % d
        if not rest:
            return const + k // d * scale
        if self._deep:
            for t, c in rest.items():
                if c < 0 or c >= d:
                    put(out, t, c // d * scale)
                    rest[t] = c % d
        lo, hi = self._interval(rest, k)
        if lo > -inf and hi < inf and (q := int(lo) // d) == int(hi) // d:
            return const + q * scale
        if not self._deep and (near := self._near(rest, k, d)) is not None:
            small, q = near
            for t, c in rest.items():
                put(out, t, (c - small.get(t, 0)) // d * scale)
            return const + q * scale
        rest, k, d, _, _ = self._shrink(rest, k, d)
        if len(rest) == 1:
            (t, c), = rest.items()
            if c == 1 and type(t) is BinOp and type(t.b) is IntImm and t.b.value > 0:
                if t.op == "//":
                    inner, ik = self._lin(t.a)
                    return const + self._div(inner, ik + k * t.b.value, d * t.b.value, scale, out, dtype)
                if t.op == "%" and k == 0 and d >= t.b.value:
                    return const
        elif self._deep:
            # (x // a + y) // b is (x + a * y) // (a * b), whatever y is.
            for t, c in rest.items():
                if c == 1 and type(t) is BinOp and t.op == "//" and type(t.b) is IntImm and t.b.value > 0:
                    a = t.b.value
                    inner, ik = self._lin(t.a)
                    flat = dict(inner)
                    for u, x in rest.items():
                        if u is not t:
                            put(flat, u, x * a)
                    return const + self._div(flat, ik + k * a, d * a, scale, out, dtype)
        if self._deep and len(rest) > 1:
            # Equal sums must be equal atoms, whatever order their terms came in.
            rest = dict(sorted(rest.items(), key=atom_order))
        put(out, BinOp("//", build(rest, k, dtype), IntImm(d, dtype), dtype), scale)
        return const

    def _mod(self, terms: Terms, k: int, d: int, scale: int, out: Terms, dtype: str) -> int:
        """Adds ``scale * ((terms + k) % d)`` for a constant d > 0."""
        rest = {t: c for t, c in terms.items() if c % d}
        k %= d
        if not rest:
            return k * scale
        lo, hi = self._interval(rest, k)
        if lo > -inf and hi < inf and (q := int(lo) // d) == int(hi) // d:
            for t, c in rest.items():
                put(out, t, c * scale)
            return (k - q * d) * scale
        if (near := self._near(rest, k, d)) is not None:
            small, q = near
            for t, c in small.items():
                put(out, t, c * scale)
            return (k - q * d) * scale
        rest, k, d, low, factor = self._shrink(rest, k, d)
        const = low[1] * scale
        for t, c in low[0].items():
            put(out, t, c * scale)
        scale *= factor
        k %= d
        if len(rest) == 1:
            (t, c), = rest.items()
            if type(t) is BinOp and type(t.b) is IntImm and t.b.value > 0:
                b = t.b.value
                if t.op == "%" and b % d == 0:
                    inner, ik = self._lin(t.a)
                    flat = {u: x * c for u, x in inner.items()}
                    return const + self._mod(flat, ik * c + k, d, scale, out, dtype)
                if t.op == "//" and k == 0 and c == 1:
                    inner, ik = self._lin(t.a)
                    wide: Terms = {}
                    wk = self._mod(inner, ik, b * d, 1, wide, dtype)
                    return const + self._div(wide, wk, b, scale, out, dtype)
            elif c > d:
                rest = {t: c % d}
        put(out, BinOp("%", build(rest, k, dtype), IntImm(d, dtype), dtype), scale)
        return const

    def _near(self, rest: Terms, k: int, d: int) -> tuple[Terms, int] | None:
        """The terms with coefficients reduced modulo ``d``, and their one quotient, where they have one.

        ``9 * j // 8`` with ``j < 4`` is ``j``: of ``9 * j`` only ``j`` itself could carry, and it does not.
        """
        if all(-d < c < d for c in rest.values()):
            return None
        small = {t: c % d for t, c in rest.items()}
        lo, hi = self._interval(small, k)
        if lo > -inf and hi < inf and (q := int(lo) // d) == int(hi) // d:
            return small, q
        return None

    def _shrink(self, rest: Terms, k: int, d: int) -> tuple[Terms, int, int, Lin, int]:
        """Takes common factors out of a division.

        Returns:
            (rest', k', d', low, g) with ``x // d == x' // d'`` and ``x % d == x' % d' * g + low``.
        """
        low: Terms = {}
        low_k = 0
        total = 1
        while True:
            factors = sorted({gcd(c, d) for c in rest.values()}, reverse=True)
            for g in factors:
                if g == 1:
                    return rest, k, d, (low, low_k), total
                # What is below g may be a term, or (in the deep form) the odd part of a coefficient.
                small = {t: c % g if self._deep else c for t, c in rest.items() if c % g}
                ks = k % g
                lo, hi = self._interval(small, ks) if small else (ks, ks)
                if lo > -inf and hi < inf and (m := int(lo) // g) == int(hi) // g:
                    for t, c in small.items():
                        put(low, t, c * total)
                    low_k += (ks - m * g) * total
                    rest = {t: x for t, c in rest.items() if (x := (c - small.get(t, 0)) // g)}
                    k, d, total = k // g + m, d // g, total * g
                    break
            else:
                return rest, k, d, (low, low_k), total

    def _minmax(self, e: BinOp, scale: int, out: Terms) -> int:
        a, b = self._lin(e.a), self._lin(e.b)
        diff, k = add_forms(a, b, -1)
        lo, hi = self._interval(diff, k)
        if lo < 0 < hi and (self._symbolic or self._facts or any(type(t) is BinOp and t.op == "//" for t in diff)):
            if self._prove_ge0(diff, k):
                lo = 0
            elif self._prove_ge0({t: -c for t, c in diff.items()}, -k):
                hi = 0
        pick: Lin | None = None
        if hi <= 0:
            pick = a if e.op == "min" else b
        elif lo >= 0:
            pick = b if e.op == "min" else a
        if pick is not None:
            for t, c in pick[0].items():
                put(out, t, c * scale)
            return pick[1] * scale
        x, y = dict(a[0]), dict(b[0])
        shared = [t for t, c in x.items() if y.get(t) == c]
        for t in shared:
            put(out, t, x.pop(t) * scale)
            del y[t]
        ka, kb, const = a[1], b[1], 0
        if shared and (not x or not y):
            const = kb if not y else ka
        elif x and y and ka == kb:
            const = ka
        ka, kb = ka - const, kb - const
        new: Expr
        if not x and y:
            x, ka, y, kb = y, kb, x, ka
        left, right = build(x, ka, e.dtype), build(y, kb, e.dtype)
        if type(right) is IntImm and type(left) is BinOp and left.op == e.op and type(left.b) is IntImm:
            # min(min(x, 3), 5): one constant is enough.
            new = binary(e.op, left.a, binary(e.op, left.b, right))
        elif type(left) is BinOp and left.op in ("min", "max") and right in (left.a, left.b):
            new = left if left.op == e.op else right  # max(min(x, y), x) is x
        elif type(right) is BinOp and right.op in ("min", "max") and left in (right.a, right.b):
            new = right if right.op == e.op else left
        else:
            new = BinOp(e.op, left, right, e.dtype)
            if BinOp(e.op, right, left, e.dtype) in out:
                new = BinOp(e.op, right, left, e.dtype)
        return const * scale + self._fresh(new, scale, out)

    # -- quotients meet remainders ---------------------------------------------------------------------------------

    def _merge(self, out: Terms, k: int) -> Lin:
        changed = True
        while changed and len(out) > 1:
            changed = False
            for t in out:
                if type(t) is BinOp and (t.op == "%" or t.op == "//"):
                    step = self._meet(t, out)
                    if step is not None:
                        k += step
                        changed = True
                        break
        return out, k

    def _meet(self, t: BinOp, out: Terms) -> int | None:
        """Joins the digit ``t`` with a neighbouring digit of the same index, or with the index itself."""
        if type(t.b) is not IntImm:
            return None
        s = out[t]
        x, lower, upper = digit(t)
        if upper is None:
            # x - x // d * d is x % d.
            return self._remainder(t, x, lower, s, out)
        for u, r in out.items():
            if u is t or type(u) is not BinOp or u.op not in ("//", "%") or type(u.b) is not IntImm:
                continue
            y, low2, up2 = digit(u)
            if low2 != upper or r * lower != s * upper or (u.op == "%"):
                continue
            if x != y:
                gap, gk = self._lin2(y, x, -1)
                if gk % upper or any(c % upper for c in gap.values()):
                    continue
            terms, k = self._lin(y)
            del out[t], out[u]
            if up2 is not None:
                wide: Terms = {}
                wk = self._mod(terms, k, up2, 1, wide, t.dtype)
                return self._div(wide, wk, lower, s, out, t.dtype)
            return self._div(terms, k, lower, s, out, t.dtype)
        if lower == 1:
            # x - x % d is x // d * d.
            terms, k = self._lin(x)
            if terms and all(out.get(u, 0) == -s * c for u, c in terms.items()) and t not in terms:
                del out[t]
                for u in terms:
                    del out[u]
                return s * k + self._div(terms, k, upper, -s * upper, out, t.dtype)
        return None

    def _remainder(self, t: BinOp, x: Expr, d: int, s: int, out: Terms) -> int | None:
        if s % d or self._deep:
            return None
        terms, k = self._lin(x)
        scale = -(s // d)
        if not terms or any(out.get(u, 0) != scale * c for u, c in terms.items()) or t in terms:
            return None
        del out[t]
        for u in terms:
            del out[u]
        return -scale * k + self._mod(terms, k, d, scale, out, t.dtype)
