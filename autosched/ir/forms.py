"""Integer forms: a constant and integer multiples of terms, whatever the terms are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd, inf
from typing import Any

from autosched.ir.expr import BinOp, Expr, IntImm, Var
from autosched.ir.stmt import BufferRegion

Terms = Mapping[Any, int]
"""Integer coefficients of terms, none of them zero."""

Form = tuple[Terms, int]
"""Terms and a constant."""

Span = tuple[int, int]
"""The first value of a term, and how many it takes."""

Known = Callable[[Terms, int], bool]
"""What is known about terms: whether a form is never negative."""

NO_TERMS: dict[Any, int] = {}


def nothing(terms: Terms, const: int) -> bool:
    """Knowledge of no term."""
    return not terms and const >= 0


def ranging(spans: Mapping[Any, Span]) -> Known:
    """The knowledge that some terms range over intervals."""

    def known(terms: Terms, const: int) -> bool:
        return const + least(terms, NO_TERMS, spans) >= 0

    return known


def affine(expr: Expr, values: Mapping[Var, Form | None]) -> Form | None:
    """An index as a form in variables, or None where it is not plainly affine.

    Args:
        expr: the index.
        values: what some of its variables stand for; None: no form.
    """
    kind = type(expr)
    if kind is Var:
        return values.get(expr, ({expr: 1}, 0))  # type: ignore[call-overload, no-any-return]
    if kind is IntImm:
        return NO_TERMS, expr.value  # type: ignore[attr-defined]
    if kind is not BinOp:
        return None
    assert isinstance(expr, BinOp)
    op = expr.op
    if op == "*":
        by = expr.b
        inner = affine(expr.a, values) if type(by) is IntImm else None
        if inner is None:
            return None
        c = by.value  # type: ignore[attr-defined]
        return ({v: k * c for v, k in inner[0].items()} if c else {}), inner[1] * c
    if op != "+" and op != "-":
        return None
    a, b = affine(expr.a, values), affine(expr.b, values)
    if a is None or b is None:
        return None
    return plus(a, b, 1 if op == "+" else -1)


def plus(a: Form, b: Form, scale: int) -> Form:
    """``a + scale * b``."""
    if not b[0]:
        return a[0], a[1] + scale * b[1]
    terms = dict(a[0])
    for t, c in b[0].items():
        total = terms.get(t, 0) + scale * c
        if total:
            terms[t] = total
        else:
            del terms[t]
    return terms, a[1] + scale * b[1]


def tight(form: Form) -> Form:
    """What ``form >= 0`` says with coprime coefficients: ``2 * i - 1 >= 0`` is ``i - 1 >= 0``."""
    terms, const = form
    divisor = gcd(*terms.values())
    if divisor <= 1:
        return form
    return {t: c // divisor for t, c in terms.items()}, const // divisor


def least(a: Terms, b: Terms, outer: Mapping[Any, Span]) -> float:
    """The lowest value of a difference of forms; minus infinity where it has no known one."""
    total = 0
    for v in (*a, *(v for v in b if v not in a)):
        c = a.get(v, 0) - b.get(v, 0)
        if not c:
            continue
        span = outer.get(v)
        if span is None:
            return -inf
        total += c * (span[0] if c > 0 else span[0] + span[1] - 1)
    return total


def together(
    terms: Terms, const: int, quotient: Callable[[Any], tuple[Any, int] | None],
    ends: Callable[[Any, Any, int], tuple[float, float]],
) -> Iterator[tuple[dict[Any, int], int]]:
    """A form with two quotients by the same divisor, which vary together, replaced by how much they are at least.

    Of quotients by d of a and b, the difference is no less than ``(a - b) // d``, the sum no less than
    ``(a + b - d + 1) // d``, and no more than ``(a + b) // d``.

    Args:
        terms: of the form.
        const: of it.
        quotient: of a term that is one, its dividend and its constant divisor.
        ends: the interval of the sum (1) or the difference (-1) of two dividends.
    """
    parts = [(t, c, *found) for t, c in terms.items() if (found := quotient(t)) is not None]
    for n, (t, c, a, d) in enumerate(parts):
        for u, x, b, by in parts[n + 1:]:
            if d != by:
                continue
            if (c > 0) != (x > 0):
                low = ends(a, b, -1)[0] if c > 0 else ends(b, a, -1)[0]
            else:
                least, most = ends(a, b, 1)
                low = least - d + 1 if c > 0 else -(most // d) * d
            if low > -inf:
                pairs = min(abs(c), abs(x))
                rest = dict(terms)
                for term, k in ((t, c), (u, x)):
                    left = abs(k) - pairs
                    if left:
                        rest[term] = left if k > 0 else -left
                    else:
                        del rest[term]
                yield rest, const + pairs * (int(low) // d)


def index_forms(region: BufferRegion, values: Mapping[Var, Form | None]) -> list[tuple[Form, int]] | None:
    """The first index and the constant length per dimension of a region, or None where one is not plainly affine.

    Args:
        region: in terms of variables.
        values: what some variables stand for.
    """
    found: list[tuple[Form, int]] = []
    for r in region.region:
        form = affine(r.min, values)
        if form is None or type(r.extent) is not IntImm:
            return None
        found.append((form, r.extent.value))
    return found


def last_of(size: Expr | int) -> Form:
    """The last index of a dimension."""
    if isinstance(size, int):
        return NO_TERMS, size - 1
    if type(size) is IntImm:
        return NO_TERMS, size.value - 1
    plain = affine(size, {})
    return ({size: 1}, -1) if plain is None else (plain[0], plain[1] - 1)


def conditions(cond: Expr, values: Mapping[Var, Form | None]) -> list[Form] | None:
    """The forms none of which is negative where a comparison holds, or None where its sides are not plainly affine."""
    if type(cond) is not BinOp or cond.op not in COMPARED:
        return None
    a, b = affine(cond.a, values), affine(cond.b, values)
    return None if a is None or b is None else compared(cond.op, a, b)


def compared(op: str, a: Form, b: Form) -> list[Form]:
    """The forms none of which is negative where ``a op b`` holds."""
    flip, strict = COMPARED[op]
    low, high = (b, a) if flip else (a, b)
    gap = plus(high, low, -1)
    if op == "==":
        return [gap, plus(low, high, -1)]
    return [(gap[0], gap[1] - strict)]


COMPARED = {"<": (False, 1), "<=": (False, 0), ">": (True, 1), ">=": (True, 0), "==": (False, 0)}
"""Comparisons that forms say: whether their sides change places, and by how much they are strict."""
