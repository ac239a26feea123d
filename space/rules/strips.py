"""Strips: how much of a tile's data comes at once where what windows read is made in the accumulator for a whole tile.

Windows want large tiles: what lies between two of them is made for both. Their sums are smaller than the data they are made of,
which would fill the memory, with no room for the next tile's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space import borders
from space.model import Model
from space.plan import Plan
from space.rule import Column, NumericRule, Points

CHOICES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32)


class Strips(NumericRule):
    """One column, where the sum that windows read has data of its own."""

    name = "strips"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``strip``: rows of the sums, fewer than there are; 0 for all of a tile's."""
        if model.cut is None:
            return ()
        most = int(borders.rows(model, model.neutral(1).body)[0])
        return (Column("strip", (0, *(n for n in CHOICES if n < most)), 0, min(1, most - 1)),)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """How many rows are wanted; a part has fewer where these do not divide its tiles'."""
        if model.cut is not None:
            plan.others[borders.ROWS] = model.column(points, "strip")

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """All where loads bring more than a tile's data, or several tiles use them; else the fewest that come to the same."""
        if model.cut is None or not (own := points[:, model.index["strip"]]).any():
            return
        own[~borders.divisible(model, plan)] = 0
        every = [(part.on, borders.rows(model, part)) for part in plan.parts]
        means = [borders.alike(model, rows, own.astype(np.int64)) for _, rows in every]
        for fewer in model.columns[model.index["strip"]].choices[::-1]:
            same = own > fewer
            for (on, rows), meant in zip(every, means):
                same &= ~on | (borders.alike(model, rows, fewer) == meant)
            own[same] = fewer

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log strips of a tile."""
        return [] if model.cut is None else [np.log2(borders.strips(model, plan, plan.body)).astype(np.float64)]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where there are several."""
        if model.cut is None or int(borders.strips(model, plan, plan.body)[0]) == 1:
            return ""
        return f"{model.nest.operands[model.cut.operand].label} in strips of {int(borders.thick(model, plan, plan.body)[0])}"
