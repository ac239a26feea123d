"""What points mean: loops, tiles, places and banks of many points at once.

A point tiles every axis once. The loops over tiles stand in one order, spatial ones first; a load at depth ``d`` stands inside
the first ``d`` of them. The output may be cut into parts (boxes that follow each other), which share the order and the places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from space.rule import Ints

Mask = npt.NDArray[np.bool_]


@dataclass
class Part:
    """A box of the axes with its own tiles.

    Args:
        extents: iterations of every axis, shape (n, axes).
        tiles: iterations inside a tile, shape (n, axes).
        on: in which rows the part exists, shape (n,).
        lows: first index of every axis, shape (n, axes).
        slices: 0, or 1 + the spatial axis along which the last stages and the store go slice by slice, shape (n,).
    """

    extents: Ints
    tiles: Ints
    on: Mask
    lows: Ints
    slices: Ints
    _outer: tuple[Ints, Ints, Ints] | None = field(default=None, repr=False)

    @property
    def outer(self) -> Ints:
        """Tiles along every axis, the last of which may be smaller, shape (n, axes)."""
        known = self._outer
        if known is None or known[0] is not self.extents or known[1] is not self.tiles:
            known = self._outer = self.extents, self.tiles, -(-self.extents // self.tiles)
        return known[2]

    @property
    def rest(self) -> Ints:
        """Iterations of the last tile along every axis, shape (n, axes)."""
        return np.asarray(self.extents - (self.outer - 1) * self.tiles, dtype=np.int64)


@dataclass
class Plan:
    """The meaning of ``n`` points of one sketch; rules fill it in.

    Args:
        parts: in the order of execution; the main one, from which the others are cut, is ``parts[main]``.
        position: place of every axis' outer loop, shape (n, axes).
        attach: per operand, the number of outer loops around its load, shape (n,).
        banks: per operand, further banks (0 or 1), shape (n,).
        acc_banks: further banks of the accumulator, shape (n,).
        drops: whether products with padding are left out, shape (n,).
        first: whether addends are loaded before all else, shape (n,).
        keep: per operand, whether the first part loads it for all parts, shape (n,).
        main: index of the main part.
        memo: what the model has worked out of a plan that is complete, by (what, part, operand); None while rules fill it in.
    """

    parts: list[Part]
    position: Ints
    attach: list[Ints]
    banks: list[Ints]
    acc_banks: Ints
    drops: Mask
    first: Mask
    keep: list[Mask]
    main: int = 0
    memo: dict[tuple[str, int, int], Ints] | None = None

    @property
    def body(self) -> Part:
        """The main part."""
        return self.parts[self.main]

    def __len__(self) -> int:
        return len(self.position)

    def once(self, what: str, part: Part, operand: int, work_out: Callable[[], Ints]) -> Ints:
        """A figure of one operand in one part, worked out once of a complete plan."""
        at = next((n for n, own in enumerate(self.parts) if own is part), None)
        if self.memo is None or at is None:
            return work_out()
        key = what, at, operand
        if key not in self.memo:
            self.memo[key] = work_out()
        return self.memo[key]


def along(values: Ints, axis: Ints) -> Ints:
    """What each row has for its own axis, shape (n,); 1 where that is negative.

    Args:
        values: a figure of every axis, shape (n, axes); a single vector has no axes.
        axis: shape (n,).
    """
    one = np.ones((len(values), 1), dtype=values.dtype)
    return np.asarray(np.concatenate([values, one], axis=1)[np.arange(len(values)), np.maximum(axis, -1)])
