"""Zeros: whether the products that padding makes zero are left out."""

from __future__ import annotations

import numpy as np

from space.model import Ints, Model


class Zeros:
    """One column: 1 leaves out every product with padding; only programs with a padded operand have the choice."""

    name = "zeros"

    def columns(self, model: Model) -> tuple[int, ...]:
        """The zeros column."""
        return (model.columns.zeros,)

    def choices(self, model: Model, column: int) -> Ints:
        """Keep them, or leave them out."""
        return np.arange(2 if model.taps else 1, dtype=np.int64)
