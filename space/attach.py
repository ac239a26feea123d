"""Attach: around which outer loops every operand's load stands, and along which axis the output leaves in slices."""

from __future__ import annotations

import numpy as np

from space.model import Ints, Model
from space.nest import ACC


class Attach:
    """One column per operand: the number of outer loops around its load."""

    name = "attach"

    def columns(self, model: Model) -> tuple[int, ...]:
        """The attach columns, in operand order."""
        return tuple(model.columns.attach(k) for k in range(len(model.nest.operands)))

    def choices(self, model: Model, column: int) -> Ints:
        """0 (before all loops) up to the number of outer loops that can move the operand."""
        operand = model.nest.operands[column - model.columns.attach(0)]
        most = model.n_spatial if operand.scope == ACC else len(model.nest.axes)
        return np.arange(most + 1, dtype=np.int64)


class Tail:
    """One column: 0, or 1 + the spatial axis along which the last stages and the store go slice by slice."""

    name = "tail"

    def columns(self, model: Model) -> tuple[int, ...]:
        """The tail column."""
        return (model.columns.tail,)

    def choices(self, model: Model, column: int) -> Ints:
        """Whole tiles, or slices along any spatial axis."""
        return np.array([0, *(1 + i for i in model.nest.spatial if model.nest.axes[i].extent > 1)], dtype=np.int64)
