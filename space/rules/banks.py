"""Banks: how many banks every on-chip buffer has, so that some fill while another is used.

Two let the engines overlap. Where pieces take unequal time to load and to use, as small ones do between large ones, a third
one lets the loads run further ahead. A fourth was never found to be worth its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space import borders
from space.model import Model
from space.plan import Plan, columns, give_back
from space.rule import Column, NumericRule, Points

if TYPE_CHECKING:
    from space.build import Build

MOST = 3  # banks of a buffer


class Banks(NumericRule):
    """One column per operand, and one for the accumulator."""

    name = "banks"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``banks_<operand>``, ``banks_acc``."""
        names = [*(o.label for o in model.nest.operands), "acc"]
        # Two for eager points: a third one mostly takes room that larger tiles make more of.
        return tuple(Column(f"banks_{name}", tuple(range(1, MOST + 1)), 1, 1, 2) for name in names)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Further banks of every buffer."""
        *plan.banks, plan.acc_banks = points.T[model.owned_at(self)].astype(np.int64) - 1

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """A buffer has no more banks than it is filled times."""
        from space._loads_kernel import refilled

        cut, strips = -1, np.zeros(0, dtype=np.int64)
        if model.cut is not None:
            cut, every = model.cut.operand, plan.stack
            strips = np.where(every.on, borders.strips(model, plan, every), 1).max(axis=0)
        rows = columns(points)
        refilled(*model.loops(plan), cut, strips, rows, model.owned_at(self))
        give_back(points, rows)

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """The accumulator's; the loads name their own."""
        return f"acc x{1 + plan.acc_banks[0]}" if plan.acc_banks[0] else "acc"

    def after(self, build: Build) -> None:
        """Marks every buffer's writers."""
        piece = build.piece
        for k, copy in enumerate(piece.copies):
            banks = int(build.model.copies(build.plan, piece.part, k)[0])
            if copy is not None and banks > 1:
                build.double_buffer(copy, banks)
        banks = int(build.model.tile_copies(build.plan, piece.part)[0])
        if banks > 1:
            # What stands in the place of a halo has as many as that: one, unless it is what is stored.
            nest = build.nest
            first = 0 if nest.stands else nest.within
            if nest.stands:
                halo = nest.halos[nest.place]
                name = halo.stages[halo.within].block
                build.double_buffer(piece.begins.get(name, piece.halos[name]), banks)
            stages = [piece.starts.get(n, stage) for n, stage in enumerate(piece.stages) if n >= first]
            for block in ([piece.init] if piece.init is not None else []) + stages:
                build.double_buffer(block, banks)
