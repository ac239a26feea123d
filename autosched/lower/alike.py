"""Sites that ask for the same instructions, in one program or in the next.

Candidates of a search differ in a few loops, so that most of their copies, products and chains have been lowered before. What is
emitted for a site hangs on the loops around it, on the conditions, and on the elements that it touches: as a question in numbers
alone, loops are told by what they do. Where it begins in the program's order, in SRAM and in DRAM, in which order the loops
around it run, and what else stands in them is no part of the question: what is emitted for an iteration of all of them is the
same, and the answer is moved to where the iteration is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from autosched.lower.affine import Ints, Lin, Loop
from autosched.lower.compute import Kernels
from autosched.lower.dma import Rows
from autosched.lower.elements import Place
from autosched.lower.order import Key
from autosched.lower.tree import Site
from sim import isa

MOST = 64 << 20  # bytes of answers that are kept, the least recently used go

Question = tuple[object, ...]
Origin = tuple[int, ...]
Weights = tuple[int, ...]  # of loops in a program's order (``order.py``)

_ANSWERS: OrderedDict[Question, tuple[Origin, Weights, Kernels | Rows, int]] = OrderedDict()
_LOCK = Lock()
_held = 0


def forget() -> None:
    """Drops all that was kept."""
    global _held
    with _LOCK:
        _ANSWERS.clear()
        _held = 0


def held() -> int:
    """Bytes of the answers that are kept."""
    return _held


def question(site: Site, own: Sequence[Loop], places: Sequence[Place | None], key: Key) -> tuple[Question | None, Weights]:
    """What decides the instructions of a site besides the machine, without where they begin and how the loops around it follow
    each other, which are told by what they do.

    Args:
        site: the site.
        own: its own loops that instructions run over.
        places: its operands in elements.
        key: its program order.

    Returns:
        What decides, None where it is no matter of numbers (a value that is not linear); and the weights of the loops around it
        that have several iterations, in the order in which the question names these: their values are the digits of its keys.
    """
    tables: list[Mapping[Any, int]] = [c.terms for c in (*site.conds, *site.pads)]
    for place in places:
        if place is not None:
            tables.append(place.offset.terms)
            if place.storage is not None:
                tables += place.storage.copy_steps()
    outer = sorted(site.outer, key=lambda loop: (loop.extent, *[terms.get(loop, 0) for terms in tables]))
    inner = site.inner
    at = {loop: k for k, loop in enumerate((*outer, *inner))}
    weights = tuple([key.strides[loop] for loop in outer if loop.extent > 1])
    try:
        return (
            site.kind,
            tuple([loop.extent for loop in outer]),
            tuple([(loop.extent, str(loop.notes.get("vta.loop")) if loop.notes else "") for loop in inner]),
            tuple([at[loop] for loop in own]),
            tuple([_of_place(place, at) for place in places]),
            tuple([_of_form(c, at) for c in site.conds]),
            tuple([_of_form(c, at) for c in site.pads]),
        ), weights
    except KeyError:
        return None, weights


def _of_form(form: Lin, at: Mapping[Any, int]) -> Question:
    return (form.const, *sorted([(at[term], c) for term, c in form.terms.items()]))


def _of_place(place: Place | None, at: Mapping[Any, int]) -> Question | None:
    if place is None:
        return None
    held = place.storage
    if held is None or (held.banks == 1 and not held.threads):
        return _of_form(place.offset, at)
    turns, apart = [tuple(sorted([(at[loop], c) for loop, c in table.items()])) for table in held.copy_steps()]
    return _of_form(place.offset, at), held.size, held.banks, held.turned, turns, apart


def answered(
    asked: Question | None, origin: Origin, weighed: Weights, make: Callable[[], Kernels | Rows]
) -> Kernels | Rows:
    """The instructions of a site, moved from where they were made for another one that asked the same; for reading only.

    Args:
        asked: its question, with all else that decides; None asks anew.
        origin: where it begins: in the program's order, then in the memory of each operand whose address is not in the question.
        weighed: the weights of its loops (``question``).
        make: emits them.
    """
    global _held
    if asked is None:
        return make()
    with _LOCK:
        known = _ANSWERS.get(asked)
        if known is not None:
            _ANSWERS.move_to_end(asked)
    if known is not None:
        position = _positions(known[2].position, known[0][0], known[1], origin[0], weighed)
        return _moved(known[2], position, [a - b for a, b in zip(origin[1:], known[0][1:])])
    made = make()
    arrays = _arrays(made)
    for array in arrays:
        array.flags.writeable = False
    size = sum(a.nbytes for a in arrays)
    with _LOCK:
        if asked not in _ANSWERS:
            _ANSWERS[asked] = origin, weighed, made, size
            _held += size
        while _held > MOST:
            _held -= _ANSWERS.popitem(last=False)[1][3]
    return made


def _arrays(made: Kernels | Rows) -> list[Any]:
    if isinstance(made, Kernels):
        return [made.table, made.position, made.step, made.pattern, made.base, *made.patterns]
    return [a for a in (made.table, made.position, made.step, made.zeros) if a is not None]


def _positions(position: Ints, start: int, old: Weights, now: int, new: Weights) -> Ints:
    """Keys that begin at ``start`` and weigh loops by ``old``, as those of these iterations from ``now`` on by ``new``."""
    if old == new:
        return position + (now - start) if now != start else position
    rest = position - start
    found = np.full(len(position), now, dtype=np.int64)
    for before, weight in sorted(zip(old, new), reverse=True):
        digit = rest // before
        rest -= digit * before
        found += digit * weight
    return found


def _moved(made: Kernels | Rows, position: Ints, by: Sequence[int]) -> Kernels | Rows:
    if isinstance(made, Kernels):
        base = made.base + np.array(by, dtype=np.int64) if any(by) else made.base
        return Kernels(made.table, position, made.step, made.pattern, base, made.patterns)
    table = made.table
    if any(by):
        table = table.copy()
        table[:, isa.SRAM] += by[0]
        table[:, isa.DRAM] += by[1]  # also of what reads the page of zeros: that is still to be told its address
    return Rows(table, position, made.step, made.zeros)
