"""What a rule is: one kind of decision, which enumerates its own legal instances for a program."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from space.model import Ints, Model, Points


class Rule(Protocol):
    """One kind of decision.

    A rule fills its own columns of points whose earlier columns are decided, and drops what cannot be completed.
    """

    name: str

    def columns(self, model: Model) -> tuple[int, ...]:
        """The columns of a point that this rule decides."""
        ...

    def choices(self, model: Model, column: int) -> Ints:
        """Every value that a column may ever take, ascending."""
        ...


def product(points: Points, column: int, values: Ints) -> Points:
    """Every point with every value in one column, in point order."""
    out = np.repeat(points, len(values), axis=0)
    out[:, column] = np.tile(values.astype(np.int32), len(points))
    return out
