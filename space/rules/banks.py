"""Banks: which on-chip buffers have two banks, so that one fills while the other is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan
from space.rule import Column, NumericRule, Points

if TYPE_CHECKING:
    from space.build import Build


class Banks(NumericRule):
    """One column per operand, and one for the accumulator: 1 for two banks."""

    name = "banks"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``banks_<operand>``, ``banks_acc``."""
        names = [*(o.label for o in model.nest.operands), "acc"]
        return tuple(Column(f"banks_{name}", (0, 1), 0, 0, 1) for name in names)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Further banks of every buffer."""
        plan.banks = [model.column(points, f"banks_{o.label}") for o in model.nest.operands]
        plan.acc_banks = model.column(points, "banks_acc")

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """A buffer that is filled once has one bank."""
        for label, again in zip([*(o.label for o in model.nest.operands), "acc"], model.refilled(plan)):
            points[~again, model.index[f"banks_{label}"]] = 0

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """The accumulator's; the loads name their own."""
        return "acc x2" if plan.acc_banks[0] else "acc"

    def after(self, build: Build) -> None:
        """Marks every buffer's writers."""
        piece = build.piece
        for k, copy in enumerate(piece.copies):
            if copy is not None and build.model.copies(build.plan, piece.part, k)[0] > 1:
                build.double_buffer(copy)
        if build.model.tile_copies(build.plan, piece.part)[0] > 1:
            # What stands in the place of a halo has as many as that: one, unless it is what is stored.
            nest = build.nest
            first = 0 if nest.stands else nest.within
            if nest.stands:
                halo = nest.halos[nest.place]
                name = halo.stages[halo.within].block
                build.double_buffer(piece.begins.get(name, piece.halos[name]))
            stages = [piece.starts.get(n, stage) for n, stage in enumerate(piece.stages) if n >= first]
            for block in ([piece.init] if piece.init is not None else []) + stages:
                build.double_buffer(block)
