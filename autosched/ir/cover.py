"""Boxes of buffers: what an access touches while loops run, whether it leaves holes there, and whether one box holds another.

Whoever asks whether a write covers a read asks here, be it for a primitive or for the lowering. The answer has four parts: the
box that each of the two has ``swept``, what conditions on the write leave out of it (``left_out``), whether one box ``covers``
the other, and what several cover that are ``joined``.

Numbers are forms: a constant, and integer multiples of terms. A term is a variable, a loop of the lowering, or anything else
that stands still; what it is does not matter here. What is not plainly affine is taken apart in ``swept``, a file of this room,
by iteration maps, and comes back as boxes of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import gcd
from typing import Any

from autosched.ir.expr import Expr
from autosched.ir.forms import NO_TERMS, Form, Known, Span, Terms, last_of, nothing, plus, tight

Side = tuple[Form, Form, bool]
"""One dimension of a box: its lowest and its highest element, and whether all in between are touched."""

Box = list[Side]
"""Elements of a buffer; without holes if none of its sides has any."""

Limits = Sequence[tuple[int | None, int | None]]
"""Constant inclusive bounds per dimension, None where there is none."""

# -- the box of an access ----------------------------------------------------------------------------------------------


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


def swept(indices: Sequence[tuple[Form, int]], inner: Mapping[Any, Span], bounded: Collection[Any] = ()) -> Box:
    """The box that an access sweeps while loops run.

    Args:
        indices: the first index and the length per dimension.
        inner: ranges of the terms that move; each takes all of its values, whatever the others have.
        bounded: of these, those of which no more is known than that they stay inside.
    """
    box: Box = []
    seen: set[Any] = set()
    for (terms, const), width in indices:
        lo = hi = const
        still: dict[Any, int] | None = None
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
            if n > 1:
                # A loop that drives two dimensions moves along a diagonal.
                whole = whole and v not in seen and v not in bounded
                seen.add(v)
        if whole and steps:
            whole = gapless(steps, width)
        base = still or NO_TERMS
        box.append(((base, lo), (base, hi + width - 1), whole))
    return box


def within(box: Box, shape: Sequence[Expr | int]) -> Box:
    """A box cut to the buffer where its ends are constants: instances that a condition leaves out would overshoot."""
    cut: Box = []
    for side, size in zip(box, shape):
        (low, lo), (high, hi), whole = side
        last = last_of(size)
        if not low and not high and not last[0]:
            side = (low, max(lo, 0)), (high, min(hi, last[1])), whole
        cut.append(side)
    return cut


# -- conditions on an access -------------------------------------------------------------------------------------------


def keeps_inside(cond: Form, indices: Sequence[tuple[Form, int]], shape: Sequence[Expr | int], limits: Limits = ()) -> bool:
    """Whether ``cond >= 0`` only keeps an access from what lies outside of its buffer; False where that is not plain.

    Args:
        cond: the condition.
        indices: the first index and the length per dimension.
        shape: the buffer's extents.
        limits: per dimension, constants that bound the elements of interest.
    """
    terms, gap = tight(cond)
    if not terms:
        return gap >= 0
    against: Terms | None = None
    for d, ((index, k), width) in enumerate(indices):
        low, high = limits[d] if d < len(limits) else (None, None)
        last = last_of(shape[d]) if high is None else (NO_TERMS, high)
        if last[0]:
            # The condition follows from what it is compared with where that is less by a constant.
            if _follows(terms, gap, plus(last, (index, k), -1)):
                return True
        elif len(index) == len(terms):
            if against is None:
                against = {t: -c for t, c in terms.items()}
            # All of the access lies behind the last element where its first one does.
            if _follows(against, gap, (index, k), last[1]):
                return True
        if _follows(terms, gap, (index, k + width - 1 - max(low or 0, 0))):
            return True
    return False


def _follows(terms: Terms, gap: int, inside: Form, last: int | None = None) -> bool:
    """Whether ``terms + gap >= 0``, its coefficients coprime, follows from ``inside >= 0``.

    Args:
        terms: of the condition; with ``last``, turned around.
        gap: its constant.
        inside: what is known not to be negative.
        last: what is known is ``last - inside`` instead.
    """
    index, k = inside
    if len(index) != len(terms):
        return False
    const = k if last is None else last - k
    if index == terms:
        return gap >= const
    divisor = gcd(*index.values())
    return divisor > 1 and {t: c // divisor for t, c in index.items()} == terms and gap >= const // divisor


def left_out(
    conds: Sequence[Form], indices: Sequence[tuple[Form, int]], shape: Sequence[Expr | int], idle: Mapping[Any, Span],
    limits: Limits = (), known: Known = nothing,
) -> list[Form]:
    """Of the conditions under which an access happens, those that may leave out something of interest while loops run.

    A condition leaves out nothing where it keeps the access inside the buffer, and where it only picks iterations of loops
    that repeat the access at the same place, if it picks any.

    Args:
        conds: forms, none of which is negative where the access happens.
        indices: the first index and the length per dimension.
        shape: the buffer's extents.
        idle: ranges of the loops that run and drive no index, nor anything but multiples of them in the conditions.
        limits: per dimension, constants that bound the elements of interest.
        known: what is known about the other terms of the conditions, whatever loops run.
    """
    left = [c for c in conds if not keeps_inside(c, indices, shape, limits)]
    tied = [c for c in left if not idle.keys().isdisjoint(c[0])]
    if not tied:
        return left
    # Of elements of interest the other conditions hold: the last tile ends with the buffer, whichever taps it has.
    inside = [c for c in conds if c not in left]

    def told(terms: Terms, const: int) -> bool:
        return known(terms, const) or any(known(*plus((terms, const), c, -1)) for c in inside)

    return [c for c in left if c not in tied] if some_run(tied, idle, told) else left


def some_run(conds: Sequence[Form], loops: Mapping[Any, Span], known: Known = nothing) -> bool:
    """Whether conditions hold together in one iteration of some loops; False where none is found.

    Tried is the first iteration, moved as far as each condition asks for.

    Args:
        conds: forms, none of which is negative where they hold.
        loops: ranges of the loops.
        known: what is known about the other terms, whatever loops run.
    """
    ends = {t: (lo, lo + n - 1) for t, (lo, n) in loops.items()}
    for terms, k in conds:
        if len(terms) == 1:
            (t, c), = terms.items()
            if t in ends:
                lo, hi = ends[t]
                ends[t] = (max(lo, -(k // c)), hi) if c > 0 else (lo, min(hi, k // -c))
    if any(lo > hi for lo, hi in ends.values()):
        return False
    point = {t: lo for t, (lo, _) in ends.items()}
    for terms, k in conds:
        lack = -k - sum(c * point[t] for t, c in terms.items() if t in point)
        for t, c in terms.items():
            if lack > 0 and t in point:
                lo, hi = ends[t]
                steps = min(-(-lack // abs(c)), hi - point[t] if c > 0 else point[t] - lo)
                point[t] += steps if c > 0 else -steps
                lack -= steps * abs(c)
    return all(
        known({t: c for t, c in terms.items() if t not in point}, k + sum(c * point[t] for t, c in terms.items() if t in point))
        for terms, k in conds
    )


def limits_of(indices: Sequence[tuple[Form, int]], conds: Sequence[Form]) -> Limits:
    """Per dimension, the constants between which conditions keep the elements of an access; None where they say nothing."""
    found: list[tuple[int | None, int | None]] = []
    for (index, k), width in indices:
        low: int | None = None
        high: int | None = None
        against = {t: -c for t, c in index.items()}
        for terms, gap in conds if index and width == 1 else ():
            if terms == against:
                high = k + gap if high is None else min(high, k + gap)
            elif terms == index:
                low = k - gap if low is None else max(low, k - gap)
        found.append((low, high))
    return found


Cut = tuple[int, bool, Form]
"""A dimension, and its last element of interest (or else the first)."""


def cuts_of(conds: Sequence[Form], indices: Sequence[tuple[Form, int]], moves: Callable[[Any], bool]) -> list[Cut] | None:
    """Conditions that say how far single indices go, whichever loops these move by; None if one says anything else.

    Args:
        conds: forms none of which is negative where the access happens.
        indices: the first index and the length per dimension.
        moves: whether a term moves while loops run.
    """
    cuts: list[Cut] = []
    moving = [(d, index) for d, (index, width) in enumerate(indices) if width == 1 and any(map(moves, index[0]))]
    for cond in conds:
        said = ((d, above, plus(cond, i, 1) if above else plus(i, cond, -1)) for d, i in moving for above in (True, False))
        cut = next((cut for cut in said if not any(map(moves, cut[2][0]))), None)
        if cut is None:
            return None
        cuts.append(cut)
    return cuts


def cut_off(
    box: Box, cuts: Sequence[Cut], known: Known = nothing, either: Callable[[bool, Form, Form], Form] | None = None
) -> Box | None:
    """A box without what is beyond some last, or before some first elements; None where all of it may be.

    Args:
        box: without holes.
        cuts: where it ends.
        known: what is known about the terms of both.
        either: the smaller of two ends, or the larger, as one form, where neither is known to be; without it None as well.
    """
    cut = list(box)
    for d, above, end in cuts:
        low, high, whole = cut[d]
        old = high if above else low
        smaller = old if at_most(old, end, known) else end if at_most(end, old, known) else None
        if smaller is not None:
            new = smaller if above else end if smaller is old else old
        elif either is not None:
            new = either(above, old, end)
        else:
            return None
        cut[d] = (low, new, whole) if above else (new, high, whole)
    return cut if all(at_most(*cut[d][:2], known) for d, _, _ in cuts) else None


# -- boxes -------------------------------------------------------------------------------------------------------------


def covers(have: Box, need: Box, shape: Sequence[Expr | int], known: Known = nothing) -> bool:
    """Whether a box without holes contains all of another that lies inside a buffer; False where that is not plain.

    Args:
        have: the box that may contain.
        need: the other; its holes do not matter.
        shape: the buffer's extents.
        known: what is known about the terms of both.
    """
    for (alow, ahigh, whole), (blow, bhigh, _), size in zip(have, need, shape):
        if not whole:
            return False
        if not (at_most(alow, blow, known) or at_most(alow, (NO_TERMS, 0), known)):
            return False
        if not (at_most(bhigh, ahigh, known) or at_most(last_of(size), ahigh, known)):
            return False
    return True


def encloses(a: Box, b: Box, known: Known = nothing) -> bool:
    """Whether the ends of one box lie around those of another, whatever holes both have."""
    return all(at_most(x[0], y[0], known) and at_most(y[1], x[1], known) for x, y in zip(a, b))


def apart(a: Box, b: Box, known: Known = nothing) -> bool:
    """Whether two boxes are known to have no element in common."""
    return any(
        at_most((high[0], high[1] + 1), low, known) for x, y in zip(a, b) for high, low in ((x[1], y[0]), (y[1], x[0]))
    )


def at_most(a: Form, b: Form, known: Known = nothing) -> bool:
    """Whether one form is known not to exceed another."""
    if a[0] is b[0] or a[0] == b[0]:
        return a[1] <= b[1]
    return known(*plus(b, a, -1))


def joined(boxes: Sequence[Box], known: Known = nothing) -> list[Box]:
    """Boxes without holes, merged where two of them differ in one dimension and touch there; others are left out."""
    merged = [box for box in boxes if all(whole for _, _, whole in box)]
    changed = True
    while changed and len(merged) > 1:
        changed = False
        for i, j in ((i, j) for i in range(len(merged)) for j in range(len(merged)) if i != j):
            both = _glued(merged[i], merged[j], known)
            if both is not None:
                merged = [b for k, b in enumerate(merged) if k not in (i, j)] + [both]
                changed = True
                break
    return merged


def _glued(a: Box, b: Box, known: Known) -> Box | None:
    """Two boxes without holes as one, where the second one begins no earlier than the first and no later than behind its end."""
    differ = [
        d for d, (x, y) in enumerate(zip(a, b))
        if not all(at_most(p, q, known) and at_most(q, p, known) for p, q in zip(x[:2], y[:2]))
    ]
    if not differ:
        return a
    if len(differ) > 1:
        return None
    d = differ[0]
    (alow, ahigh, _), (blow, bhigh, _) = a[d], b[d]
    if not (at_most(alow, blow, known) and at_most(blow, (ahigh[0], ahigh[1] + 1), known)):
        return None
    return [*a[:d], (alow, bhigh if at_most(ahigh, bhigh, known) else ahigh, True), *a[d + 1:]]


def hull(a: Box, b: Box, known: Known = nothing) -> Box | None:
    """The smallest box around both, or None where nobody knows which of two ends is the outer one."""
    found: Box = []
    for (alow, ahigh, _), (blow, bhigh, _) in zip(a, b):
        low = alow if at_most(alow, blow, known) else blow if at_most(blow, alow, known) else None
        high = bhigh if at_most(ahigh, bhigh, known) else ahigh if at_most(bhigh, ahigh, known) else None
        if low is None or high is None:
            return None
        found.append((low, high, False))
    return found


def separates(box: Box, term: Any) -> bool:
    """Whether a box is never twice at the same element while a term that stands still in it takes different values."""
    return any(
        low == high and abs(low.get(term, 0)) > hi - lo for (low, lo), (high, hi), _ in box
    )
