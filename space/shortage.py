"""Why nothing of a space fits the memories: what the smallest tiles of the form that lacks least would take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from autosched.errors import together
from autosched.ir.scopes import ACC, INP, WGT
from autosched.lower.capacity import Held, needed
from space.words import in_users_words

if TYPE_CHECKING:
    from space.space import Space

_MEMORIES = {INP: "the input memory", WGT: "the weight memory", ACC: "the accumulator"}


def shortage(space: Space) -> str:
    """Which memory is too small for the smallest tiles, by how much, and for what; "" where these fit.

    Args:
        space: one of which no point is known.
    """
    found: list[tuple[int, str]] = []
    for k, sketch in enumerate(space.sketches):
        row = space.wide(k, sketch.loosest[None])
        for name, value in space.fixed.items():
            row[:, space.names.index(name)] = value
        row, _ = space.repair(row)
        if not space.as_fixed(row).all():
            continue
        ((_, _, own),) = space.groups(row)
        held = sketch.held([model.plan(mine) for model, mine in sketch.split(own)])
        lacking: list[tuple[int, str]] = []
        for scope, memory in _MEMORIES.items():
            mine, room = [h for h in held if h.scope == scope], space.target.capacity(scope)
            if (need := int(np.max(needed(mine)))) > room:
                said = f"{memory} holds {room} elements, and the smallest tiles need {need}: {_listed(mine)}"
                lacking.append((need - room, said))
        if not lacking:
            return ""
        found.append((sum(lack for lack, _ in lacking), max(lacking)[1]))
    return in_users_words(min(found)[1], space.func) if found else ""


def _listed(held: Sequence[Held]) -> str:
    """What lives at the fullest moment."""
    def alive(at: int) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for h in held:
            if h.first <= at <= h.last and (size := int(np.max(h.size * h.copies))):
                sizes[h.what] = sizes.get(h.what, 0) + size
        return sizes

    fullest = max((alive(h.first) for h in held), key=lambda sizes: sum(sizes.values()))
    return together([f"{size} for {name}" for name, size in fullest.items()])
