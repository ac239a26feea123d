"""Order: the permutation of the outer spatial loops."""

from __future__ import annotations

import numpy as np

from space.model import Ints, Model


class Order:
    """One column: an index into the permutations of the spatial axes (axes of extent 1 stay last)."""

    name = "order"

    def columns(self, model: Model) -> tuple[int, ...]:
        """The order column."""
        return (model.columns.order,)

    def choices(self, model: Model, column: int) -> Ints:
        """All permutations; a point's canonical form keeps one of those that only move unit loops."""
        return np.arange(len(model.orders), dtype=np.int64)
