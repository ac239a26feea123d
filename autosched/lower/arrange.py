"""Where in a memory storages come to stand: side by side where they fit, else where those stood that are dead by then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autosched.errors import LoweringError
from autosched.ir.scopes import ACC
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Loop
from autosched.lower.capacity import Held, needed
from autosched.lower.regions import common
from autosched.lower.storage import Storage

Spans = Mapping[int, tuple[int, int]]  # by a storage's identity, the first and the last site that uses it


@lru_cache(maxsize=4096)
def arranged(
    needs: tuple[tuple[int, int, int, tuple[int, int]], ...], scope: str, depth: int, semantics: str
) -> tuple[tuple[int, int, int], ...]:
    """Where storages of a memory come to stand: of each the address, and the copies that its first and its last pass use.

    Args:
        needs: of each, in the order in which they are used first: elements of a copy, copies, passes, and the first and the last
            site of its life.
        scope: the memory.
        depth: its elements.
        semantics: of the target.
    """
    any_ = Buffer("", ())
    storages = [Storage(any_, (Loop("", passes),), (), (), 1, size, copies, (), life) for size, copies, passes, life in needs]
    spans = {id(s): s.life for s in storages}
    _arrange(storages, scope, depth, spans, scope == ACC and semantics != "chisel")
    return tuple([(s.address, s.turned, s.last) for s in storages])


def place(storages: list[Storage], scope: str, depth: int, spans: Spans, again: bool) -> None:
    """Gives every storage of a memory its address; ``again``: rather where another has been, where nothing waits for that."""
    need = _arrange(storages, scope, depth, spans, again)
    if need > depth:
        parts = ", ".join(
            f"{s.buffer.name} {s.size}" + (f" x {s.total // s.size} copies" if s.total != s.size else "") for s in storages
        )
        raise LoweringError("capacity", f"{scope} holds {depth} elements and the program needs {need}: {parts}")


def _arrange(storages: list[Storage], scope: str, depth: int, spans: Spans, again: bool) -> int:
    """As ``place``; how many elements they need, and where these are too many their addresses mean nothing."""
    if not again and (total := sum(s.total for s in storages)) <= depth:
        at = 0
        for s in storages:
            s.address = at
            at += s.total
        return total
    need = int(needed([Held(scope, s.size, s.total // s.size, *s.life) for s in storages]))
    if need <= depth:
        large = sorted(storages, key=lambda s: -s.total)
        # Placed by length of life, those around others do not come to lie on top of them.
        long = sorted(storages, key=lambda s: s.life[0] - s.life[1])
        # Placed as they come, each sees the one before it: of many, as networks have, the large ones leave the others no room.
        early = sorted(storages, key=lambda s: s.life)
        # By preference where storages that follow each other do not meet, else as tight as it goes.
        found: list[Packing] = []
        for order, careful in ((large, True), (long, True), (early, True), (large, False), (long, False)):
            if not careful and found:
                break
            packing = _packed(order, depth, spans, careful, again)
            found += [packing] if packing.high <= depth else []
            if found and not found[-1].meeting[0]:
                break
        best = min(found, key=lambda packing: packing.meeting, default=packing)
        best.take()
        need = best.high
    return need


@dataclass(frozen=True, slots=True)
class Packing:
    """Places of all storages of a memory.

    Args:
        high: the end of what they take.
        meeting: elements in which storages meet that follow each other, as far as was looked: at once, later on, and one pass
            further than at once.
        places: each with its address and the copy that its first pass uses.
    """

    high: int
    meeting: tuple[int, int, int]
    places: tuple[tuple[Storage, int, int], ...]

    def take(self) -> None:
        """Gives every storage its place."""
        for s, at, turned in self.places:
            s.address, s.turned = at, turned


def _packed(storages: Sequence[Storage], depth: int, spans: Spans, careful: bool, again: bool) -> Packing:
    """Places storages one after the other, sharing memory between those that are never alive together.

    Args:
        storages: of one memory, in the order in which they are placed.
        depth: its elements.
        spans: who uses each, from when to when.
        careful: let the first copy of a storage stay clear of the copy that the one before it used last, whose STORE or
            product may still be under way.
        again: what its other copies wait for matters less than that they stand where others have been.
    """
    placed: list[Storage] = []

    def apart(s: Storage, p: Storage) -> bool:
        return s.life[1] < p.life[0] or p.life[1] < s.life[0]

    def place(s: Storage, beside: Sequence[Storage]) -> None:
        rivals = sorted((p for p in beside if not apart(s, p)), key=lambda p: p.address)
        others = [p for p in beside if apart(s, p) and not _between(s, p, spans)] if careful else []
        spots = {0, *[p.address + p.total for p in rivals]}
        spots |= {p.address + k * p.size for p in others for k in range(1, p.total // p.size + 1)}
        if others:
            spots.add(max(0, depth - s.total))
        free = [
            at for at in sorted(spots)
            if all(at + s.total <= p.address or p.address + p.total <= at for p in rivals)
        ]
        fits = [at for at in free if at + s.total <= depth] or free[:1]
        turns = range(s.banks if others and not s.threads else 1)
        *_, s.address, s.turned = min(
            (*_met([_meeting(s, at, turned, p, spans, again) for p in others]), at, turned) for at in fits for turned in turns
        )

    def packing() -> Packing:
        met = _met([
            _meeting(s, s.address, s.turned, p, spans, again) for n, s in enumerate(placed) for p in placed[:n]
            if careful and apart(s, p) and not _between(s, p, spans)
        ])
        return Packing(max(s.address + s.total for s in placed), met, tuple([(s, s.address, s.turned) for s in placed]))

    for s in storages:
        place(s, placed)
        placed.append(s)
    found = packing()
    if found.meeting[0]:
        # Who came first did not know where the others would stand.
        for s in placed:
            place(s, [p for p in placed if p is not s])
        second = packing()
        found = second if second.high <= depth and second.meeting < found.meeting else found
    found.take()
    return found


def _between(a: Storage, b: Storage, spans: Spans) -> bool:
    """Whether a third storage of the same memory lives wholly between two: then the work of the earlier one is long done."""
    first, last = sorted((spans[id(a)], spans[id(b)]))
    return any(first[1] < low and high < last[0] for low, high in spans.values())


def _met(meetings: Iterable[tuple[int, int, int]]) -> tuple[int, int, int]:
    """All meetings together."""
    at_once = later = soon = 0
    for now, then, next_ in meetings:
        at_once, later, soon = at_once + now, later + then, soon + next_
    return at_once, later, soon


def _meeting(s: Storage, at: int, turned: int, p: Storage, spans: Spans, once: bool) -> tuple[int, int, int]:
    """Elements of an earlier storage's work that a later one waits for: its first copy, any of its copies, and those that are a
    pass apart.

    The work is on the copy which the earlier one used last, and goes through it from its first element on. In a loop that holds
    both they take turns: all that they share counts. Of several copies whoever fills them is further ahead the more passes lie
    between the earlier one's and the later one's: where these meet a pass later than they could at once, it is one pass ahead.

    Args:
        s: one of the two.
        at: where it is to stand.
        turned: which of its copies its first pass is to use.
        p: the other one, which has its place.
        spans: who uses each, from when to when.
        once: the first copy alone is looked at.
    """
    if any(loop.extent > 1 for loop in common([s.path, p.path])):
        both = max(0, min(at + s.total, p.address + p.total) - max(at, p.address))
        return both, both, 0
    if spans[id(s)][0] < spans[id(p)][0]:
        earlier, later, start = s, p, p.address
        ends, begins = (at, s.last - s.turned + turned), (p.address, p.turned)
    else:
        earlier, later, start = p, s, at
        ends, begins = (p.address, p.last), (at, turned)

    def before(passes: int) -> int:
        return ends[0] + (ends[1] - passes) % earlier.banks * earlier.size

    def after(passes: int) -> int:
        return begins[0] + (begins[1] + passes) % later.banks * later.size

    last, first = before(0), after(0)
    waits = _until(last, earlier.size, first, later.size)
    if once:
        return waits, 0, 0
    soon = 0
    if later.banks > 1:
        soon += _until(last, earlier.size, after(1), later.size)
    if earlier.banks > 1:
        soon += _until(before(1), earlier.size, first, later.size)
    return waits, _until(last, earlier.size, start, later.total), soon


def _until(start: int, size: int, other: int, span: int) -> int:
    """How many of ``size`` elements from ``start`` on it takes until the last that is among ``span`` from ``other`` on, or 0."""
    end = min(start + size, other + span)
    return end - start if end > max(start, other) else 0
