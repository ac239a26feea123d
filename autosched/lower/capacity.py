"""Whether buffers fit a memory: one answer for the storages of a program and for many points of a space at once.

A buffer takes all its copies for as long as it lives. What lives at once lies side by side, and what does not may share memory:
a memory must hold what its fullest moment holds. Where any two lives are apart or one inside the other, as those of a nest's
parts and of what stays for all of them, that is enough: placed by length of life, each buffer lies on those around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.ir.scopes import ACC, INP, WGT
from autosched.target import Target

Ints = npt.NDArray[np.int64]
Figure = int | Ints


@dataclass(frozen=True, slots=True)
class Held:
    """What a buffer takes of a memory; figures are those of one program, or of ``n`` points, shape (n,).

    Args:
        scope: the memory.
        size: elements of one copy.
        copies: of it, all held for the whole of its life (``copies_of``).
        first: the moment from which it lives; moments are numbers in the order of execution.
        last: the moment until which it lives.
        what: whose it is, where that is said.
    """

    scope: str
    size: Figure
    copies: Figure
    first: int
    last: int
    what: str = ""


def copies_of(wanted: Figure, turns: Figure) -> Any:
    """Copies that a buffer has: those it asks for, but none that its fills would never come to.

    Args:
        wanted: copies to be used in turn, as figures of ``Held``.
        turns: how often it is filled.
    """
    return np.minimum(wanted, turns)


def needed(held: Sequence[Held]) -> Any:
    """Elements that buffers of one memory take at the fullest moment, as figures of ``Held``; 0 without any."""
    taken = [(h.first, h.last, h.size * h.copies) for h in held]
    sums: list[Any] = [sum(own for first, last, own in taken if first <= at <= last) for at in {h.first for h in held}]
    return reduce(np.maximum, sums, 0)


def fits(held: Sequence[Held], target: Target) -> Any:
    """Whether every memory holds its buffers, as figures of ``Held``."""
    fit: Any = True
    for scope in (INP, WGT, ACC):
        fit = fit & (needed([h for h in held if h.scope == scope]) <= target.capacity(scope))
    return fit
