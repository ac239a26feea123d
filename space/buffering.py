"""Buffering: which on-chip buffers have two banks, so that one fills while the other is used."""

from __future__ import annotations

import numpy as np

from space.model import Ints, Model


class Buffering:
    """One column per operand, and one for the accumulator: 1 for two banks."""

    name = "banks"

    def columns(self, model: Model) -> tuple[int, ...]:
        """The bank columns, the accumulator's last."""
        return (*(model.columns.banks(k) for k in range(len(model.nest.operands))), model.columns.acc_banks)

    def choices(self, model: Model, column: int) -> Ints:
        """One bank or two."""
        return np.arange(2, dtype=np.int64)
