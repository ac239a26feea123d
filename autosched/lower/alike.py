"""Sites that ask for the same instructions, in one program or in the next.

Candidates of a search differ in a few loops, so that most of their copies, products and chains have been lowered before. What is
emitted for a site hangs on the loops around it (extents, notes, weights in the program's order), on the conditions, and on the
elements that it touches: as a question in numbers alone, loops are told by their place on the path. Where it begins in the
program's order, in SRAM and in DRAM is no part of the question: the answer is moved there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from autosched.lower.affine import Lin, Loop
from autosched.lower.compute import Kernels
from autosched.lower.dma import Rows
from autosched.lower.elements import Place
from autosched.lower.order import Key
from autosched.lower.tree import Site
from sim import isa

MOST = 16 << 20  # bytes of answers that are kept, the least recently used go

Question = tuple[object, ...]
Origin = tuple[int, ...]

_ANSWERS: OrderedDict[Question, tuple[Origin, Kernels | Rows, int]] = OrderedDict()
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


def question(site: Site, own: Sequence[Loop], places: Sequence[Place | None], key: Key) -> Question | None:
    """What decides the instructions of a site besides the machine, without where they begin; None where it is no matter of
    numbers (a value that is not linear).

    Args:
        site: the site.
        own: its own loops that instructions run over.
        places: its operands in elements.
        key: its program order.
    """
    at = {loop: k for k, loop in enumerate(site.path)}
    try:
        return (
            site.kind,
            tuple([(loop.extent, key.strides[loop]) for loop in site.outer]),
            tuple([(loop.extent, str(loop.notes.get("vta.loop")) if loop.notes else "") for loop in site.inner]),
            tuple([at[loop] for loop in own]),
            tuple([_of_place(place, at) for place in places]),
            tuple([_of_form(c, at) for c in site.conds]),
            tuple([_of_form(c, at) for c in site.pads]),
        )
    except KeyError:
        return None


def _of_form(form: Lin, at: Mapping[Any, int]) -> Question:
    return (form.const, *[(at[term], c) for term, c in form.terms.items()])


def _of_place(place: Place | None, at: Mapping[Any, int]) -> Question | None:
    if place is None:
        return None
    held = place.storage
    if held is None or (held.banks == 1 and not held.threads):
        return _of_form(place.offset, at)
    path, threads = [tuple([(at[loop], loop.thread) for loop in loops]) for loops in (held.path, held.threads)]
    return _of_form(place.offset, at), held.size, held.banks, held.turned, path, threads


def answered(asked: Question | None, origin: Origin, make: Callable[[], Kernels | Rows]) -> Kernels | Rows:
    """The instructions of a site, moved from where they were made for another one that asked the same; for reading only.

    Args:
        asked: its question, with all else that decides; None asks anew.
        origin: where it begins: in the program's order, then in the memory of each operand whose address is not in the question.
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
        return _moved(known[1], [a - b for a, b in zip(origin, known[0])])
    made = make()
    arrays = _arrays(made)
    for array in arrays:
        array.flags.writeable = False
    size = sum(a.nbytes for a in arrays)
    with _LOCK:
        if asked not in _ANSWERS:
            _ANSWERS[asked] = origin, made, size
            _held += size
        while _held > MOST:
            _held -= _ANSWERS.popitem(last=False)[1][2]
    return made


def _arrays(made: Kernels | Rows) -> list[Any]:
    if isinstance(made, Kernels):
        return [made.table, made.position, made.step, made.pattern, made.base, *made.patterns]
    return [a for a in (made.table, made.position, made.step, made.zeros) if a is not None]


def _moved(made: Kernels | Rows, by: Sequence[int]) -> Kernels | Rows:
    position = made.position + by[0] if by[0] else made.position
    if isinstance(made, Kernels):
        base = made.base + np.array(by[1:], dtype=np.int64) if any(by[1:]) else made.base
        return Kernels(made.table, position, made.step, made.pattern, base, made.patterns)
    table = made.table
    if any(by[1:]):
        table = table.copy()
        table[:, isa.SRAM] += by[1]
        table[:, isa.DRAM] += by[2]  # also of what reads the page of zeros: that is still to be told its address
    return Rows(table, position, made.step, made.zeros)
