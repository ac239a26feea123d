"""Tiling: the inner extent of every axis, a divisor of the axis."""

from __future__ import annotations

import numpy as np

from space.model import Ints, Model


def divisors(n: int) -> list[int]:
    """All divisors of ``n``, ascending."""
    return [d for d in range(1, n + 1) if n % d == 0]


class Tiling:
    """One column per axis: how many iterations stay inside the tile."""

    name = "tile"

    def columns(self, model: Model) -> tuple[int, ...]:
        """The first columns, one per axis."""
        return tuple(range(model.columns.axes))

    def choices(self, model: Model, column: int) -> Ints:
        """The divisors of the axis' extent."""
        return np.array(divisors(model.nest.axes[column].extent), dtype=np.int64)
