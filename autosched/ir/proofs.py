"""Proofs about linear forms: comparisons that follow from what is known about variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from autosched.ir.expr import BinOp, Expr, IntImm, Var
from autosched.ir.forms import together
from autosched.ir.linear import Bound, Lin, Terms, add_forms, common_factor, factors_of, monomial, put
from autosched.ir.quasi_affine import QuasiAffine


class Proofs(QuasiAffine):
    """What follows from the intervals and forms: by bounds, by cases of ``min``/``max``, by worst ends of symbols."""

    def __init__(self) -> None:
        super().__init__()
        self._nonzero: list[Lin] = []

    def never_negative(self, terms: Mapping[Expr, int], const: int) -> bool:
        """Whether a linear form is known not to be negative, whoever took it apart and whatever was known then."""
        out: Terms = {}
        for t, c in terms.items():
            const += self._acc(t, c, out)
        return self._decide("<=", *self._settle(out, const)) is True

    def largest(self, expr: Expr) -> int | None:
        """A value that an integer expression never exceeds, the lowest that is seen; None where none is."""
        terms, k = self._lin(expr)
        least = self._least({t: -c for t, c in terms.items()}, -k)
        return None if least == -inf else -int(least)

    def _least(self, terms: Terms, k: int) -> Bound:
        return max([self._interval(terms, k)[0], *(self._least(*form) for form in self._quotients(terms, k))])

    def _compare(self, op: str, a: Expr, b: Expr) -> bool | None:
        """Decides an integer comparison, or None."""
        if op in (">", ">="):
            op, a, b = ("<" if op == ">" else "<="), b, a
        terms, k = self._lin2(b, a, -1)  # b - a
        answer = self._decide(op, terms, k)
        if answer is None and op in ("==", "!=") and not self._deep:
            # Afresh from what was written: the first form may have divided the two sides in different ways.
            self._deep = True
            try:
                terms, k = self._lin2(b, a, -1)
            finally:
                self._deep = False
            if not terms:
                return (k == 0) == (op == "==")
        return answer

    def _decide(self, op: str, terms: Terms, k: int, proof: bool = True) -> bool | None:
        if not terms:
            return k == 0 if op == "==" else k != 0 if op == "!=" else k > 0 if op == "<" else k >= 0
        if op in ("==", "!="):
            lo, hi = self._interval(terms, k)
            if lo > 0 or hi < 0 or k % common_factor(terms):
                return op == "!="
            if lo == hi == 0:
                return op == "=="
            if (terms, k) in self._nonzero or ({t: -c for t, c in terms.items()}, -k) in self._nonzero:
                return op == "!="
            if proof:
                deep = self._deepen(terms, k)
                if not deep[0]:
                    return (deep[1] == 0) == (op == "==")
                neg = {t: -c for t, c in terms.items()}
                if self._prove_ge0(terms, k - 1) or self._prove_ge0(neg, -k - 1):
                    return op == "!="
                if self._prove_ge0(terms, k) and self._prove_ge0(neg, -k):
                    return op == "=="
            return None
        if op == "<":
            k -= 1
        lo, hi = self._interval(terms, k)
        if lo >= 0:
            return True
        if hi < 0:
            return False
        if proof:
            if self._prove_ge0(terms, k):
                return True
            if self._prove_ge0({t: -c for t, c in terms.items()}, -k - 1):
                return False
        return None

    def _prove_ge0(self, terms: Terms, k: int, depth: int = 6) -> bool:
        if self._interval(terms, k)[0] >= 0:
            return True
        if any(type(t) is not Var for t in terms):
            deep = self._deepen(terms, k)
            if self._interval(*deep)[0] >= 0:
                return True
            if self._split_minmax(terms, k, depth):
                return True
            if depth and any(self._prove_ge0(*form, depth - 1) for form in self._quotients(terms, k)):
                return True
        if depth and self._symbolic:
            for form in self._eliminate(terms, k):
                if self._prove_ge0(*form, depth - 1):
                    return True
        return False

    def _split_minmax(self, terms: Terms, k: int, depth: int) -> bool:
        """A difference with a ``min``/``max`` in it holds when it holds for both (or one) of its operands."""
        if not depth:
            return False
        for t, c in terms.items():
            if type(t) is BinOp and t.op in ("min", "max"):
                rest = {u: x for u, x in terms.items() if u is not t}
                sides = [add_forms((rest, k), self._lin(s), c) for s in (t.a, t.b)]
                need = all if (t.op == "min") == (c > 0) else any
                return need(self._prove_ge0(*s, depth - 1) for s in sides)
        return False

    def _quotients(self, terms: Terms, k: int) -> Iterator[Lin]:
        """The form with two of its quotients that vary together replaced by how much they are at least."""

        def quotient(t: Expr) -> tuple[Expr, int] | None:
            return (t.a, t.b.value) if type(t) is BinOp and t.op == "//" and type(t.b) is IntImm else None

        yield from together(terms, k, quotient, lambda a, b, sign: self._interval(*self._lin2(a, b, sign)))

    def _eliminate(self, terms: Terms, k: int) -> Iterator[Lin]:
        """The form with one variable of symbolic range replaced by its worst end."""
        for t, c in terms.items():
            if type(t) is Var and t in self._symbolic:
                low, high = self._symbolic[t]
                end = low if c > 0 else high
                if end is not None:
                    rest = {u: x for u, x in terms.items() if u is not t}
                    yield add_forms((rest, k), end, c)
            elif type(t) is BinOp and t.op == "*":
                factors = factors_of(t)
                for n, f in enumerate(factors):
                    if type(f) is not Var or f not in self._symbolic:
                        continue
                    others = factors[:n] + factors[n + 1:]
                    if any(self._interval({o: 1}, 0)[0] < 0 for o in others):
                        continue
                    low, high = self._symbolic[f]
                    end = low if c > 0 else high
                    if end is None:
                        continue
                    out: Terms = {u: x for u, x in terms.items() if u is not t}
                    total = k
                    for u, x in end[0].items():
                        put(out, monomial([u, *others]), x * c)
                    if end[1]:
                        put(out, monomial(others), end[1] * c)
                    yield out, total
            elif type(t) is BinOp and t.op in ("//", "%") and type(t.b) is not IntImm:
                rest = {u: x for u, x in terms.items() if u is not t}
                for worst in self._worst_division(t, c > 0):
                    yield add_forms((rest, k), worst, c)

    def _worst_division(self, t: BinOp, least: bool) -> Iterator[Lin]:
        """Bounds of a quotient or remainder by a positive divisor that is no constant."""
        den = self._lin(t.b)
        smallest = self._interval(*den)[0]
        if smallest <= 0:
            return
        if t.op == "%":
            yield ({}, 0) if least else (den[0], den[1] - 1)
            return
        if len(den[0]) != 1 or den[1]:
            return
        (unit, step), = den[0].items()
        sign = 1 if least else -1
        terms, k = self._lin(t.a)
        for ends, ek in self._eliminate({u: x * sign for u, x in terms.items()}, k * sign):
            # The end of the numerator is quotient * divisor + r; r // divisor is at worst r // smallest, or at best 0 or -1.
            r = ek * sign
            quotient: Terms = {}
            const = 0
            for u, x in ends.items():
                left, missing = factors_of(u), 0
                for f in factors_of(unit):
                    if f in left:
                        left.remove(f)
                    else:
                        missing += 1
                if missing or x % step:
                    break
                if left:
                    put(quotient, monomial(left), x * sign // step)
                else:
                    const += x * sign // step
            else:
                low, high = (r // int(smallest), -1) if r < 0 else (0, r // int(smallest))
                yield quotient, const + (low if least else high)

    def _deepen(self, terms: Terms, k: int) -> Lin:
        if self._deep or all(type(t) is Var for t in terms):
            return terms, k
        self._deep = True
        try:
            out: Terms = {}
            for t, c in terms.items():
                k += self._acc(t, c, out)
            return self._settle(out, k)
        finally:
            self._deep = False
