"""Exact boxes of affine accesses: what some loops touch of a buffer, whether they leave holes, and whether one box holds another.

Integers only: an index is affine in loops of constant ranges, and what else it depends on stands still. What does not fit gives
None, and is for the general machinery (``region``, ``itermap``), which says the same where both can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from autosched.ir.expr import BinOp, Expr, IntImm, Var
from autosched.ir.stmt import BufferRegion

Form = tuple[dict[Var, int], int]
"""Integer coefficients of variables, and a constant."""

Span = tuple[int, int]
"""The first value of a variable, and how many it takes."""

Side = tuple[dict[Var, int], int, int, bool]
"""One dimension of a box: what stands still in it, its lowest and highest element beyond that, and whether it has no holes."""

NO_TERMS: dict[Var, int] = {}


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
    sign = 1 if op == "+" else -1
    if not b[0]:
        return a[0], a[1] + sign * b[1]
    terms = dict(a[0])
    for v, k in b[0].items():
        total = terms.get(v, 0) + sign * k
        if total:
            terms[v] = total
        else:
            del terms[v]
    return terms, a[1] + sign * b[1]


def gapless(steps: Iterable[tuple[int, int]], reach: int) -> bool:
    """Whether the sums of ``c * i`` with ``0 <= i < n``, each ``reach`` wide, are consecutive.

    Args:
        steps: pairs (c, n), c not negative.
        reach: elements from each sum on.
    """
    for c, n in sorted(steps):
        if n > 1 and c > reach:
            return False
        reach += c * (n - 1)
    return True


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


def keeps_inside(cond: Expr, indices: Sequence[tuple[Form, int]], shape: Sequence[Expr]) -> bool:
    """Whether a condition only keeps an index inside its buffer; False where that is not plain.

    Args:
        cond: in terms of the variables of the forms.
        indices: as ``index_forms`` gives them.
        shape: the buffer's extents.
    """
    if type(cond) is not BinOp or cond.op not in _ORDER:
        return False
    flip, strict = _ORDER[cond.op]
    a, b = affine(cond.a, {}), affine(cond.b, {})
    if a is None or b is None:
        return False
    if flip:
        a, b = b, a
    terms, gap = dict(b[0]), b[1] - a[1] - strict  # the condition is terms + gap >= 0
    for v, c in a[0].items():
        terms[v] = terms.get(v, 0) - c
    terms = {v: c for v, c in terms.items() if c}
    against = {v: -c for v, c in terms.items()}
    for ((index, k), _), size in zip(indices, shape):
        if index == terms and gap >= k:
            return True
        if index == against and type(size) is IntImm and gap >= size.value - 1 - k:
            return True
    return False


_ORDER = {"<": (False, 1), "<=": (False, 0), ">": (True, 1), ">=": (True, 0)}


def affine_box(indices: Sequence[tuple[Form, int]], inner: Mapping[Var, Span]) -> list[Side]:
    """The box that a region sweeps while loops run.

    Args:
        indices: as ``index_forms`` gives them.
        inner: ranges of the loops that run; all of them run at least once.
    """
    box: list[Side] = []
    seen: set[Var] = set()
    for (terms, const), width in indices:
        lo = hi = const
        still: dict[Var, int] | None = None
        steps: list[tuple[int, int]] = []
        whole = True
        for v, c in terms.items():
            span = inner.get(v)
            if span is None:
                still = {} if still is None else still
                still[v] = c
                continue
            start, n = span
            if c > 0:
                lo += c * start
                hi += c * (start + n - 1)
                steps.append((c, n))
            else:
                lo += c * (start + n - 1)
                hi += c * start
                steps.append((-c, n))
            # A loop that drives two dimensions moves along a diagonal.
            whole = whole and v not in seen
            seen.add(v)
        if whole and steps:
            whole = gapless(steps, width)
        box.append((still or NO_TERMS, lo, hi + width - 1, whole))
    return box


def holds(have: Sequence[Side], need: Sequence[Side], shape: Sequence[Expr], outer: Mapping[Var, Span]) -> bool:
    """Whether a box without holes contains all of another that lies inside a buffer; False where that is not plain.

    Args:
        have: the box that may contain.
        need: the other; its holes do not matter.
        shape: the buffer's extents.
        outer: ranges of what stands still, where they are known.
    """
    for (a, alo, ahi, whole), (b, blo, bhi, _), size in zip(have, need, shape):
        if not whole:
            return False
        if a == b:
            low: float = blo - alo
            high: float = ahi - bhi
        else:
            low, high = blo - alo + least(b, a, outer), ahi - bhi + least(a, b, outer)
        if low < 0 and least(NO_TERMS, a, outer) < alo:
            return False
        if high < 0 and (type(size) is not IntImm or ahi + least(a, NO_TERMS, outer) < size.value - 1):
            return False
    return True


def least(a: Mapping[Var, int], b: Mapping[Var, int], outer: Mapping[Var, Span]) -> float:
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
