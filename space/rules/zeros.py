"""Zeros: whether the products that padding makes zero are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan
from space.rule import Column, NumericRule, Points

if TYPE_CHECKING:
    from autosched.schedule.kit.base import BlockRV
    from space.build import Build
    from space.draft import Terms


class Zeros(NumericRule):
    """One column: 1 leaves out every product with padding, loads no padding, and gives every tap loop bounds of its own."""

    name = "zeros"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``drop_zeros``; only programs with a padded operand have the choice."""
        some = int(bool(model.padding.taps))
        return (Column("drop_zeros", tuple(range(1 + some)), 0, some, some),)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Marks the rows."""
        plan.drops = model.column(points, "drop_zeros") == 1

    def allows(self, model: Model, points: Points, plan: Plan) -> npt.NDArray[np.bool_]:
        """A part without any padding has nothing to leave out (``drop_zero_terms`` says so), one of padding alone all."""
        if not plan.drops.any():
            return np.ones(len(points), dtype=np.bool_)
        part = plan.stack
        share = model.padding.shares_in(plan, part).prod(axis=0)
        return np.asarray((~(part.on & plan.drops) | ((share > 0) & (share < 1))).all(axis=0), dtype=np.bool_)

    def draft(self, model: Model, plan: Plan, terms: Terms) -> None:
        """Taps that a border cuts differently are instructions of their own, unless its loop is written out in the list."""
        terms.pieces = np.where(plan.drops, np.maximum(terms.pieces, terms.kinds), terms.pieces)

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said when it is done."""
        return "no zeros" if plan.drops[0] else ""

    def before(self, build: Build) -> None:
        """Says which operands are loaded without their padding."""
        if build.plan.drops[0]:
            build.padded = {k for k, operand in enumerate(build.nest.operands) if operand.producer is not None}

    def scoped(self, build: Build, anchor: BlockRV | None, pads: dict[int, BlockRV]) -> None:
        """The padding becomes part of the product."""
        for k in sorted(build.padded):
            build.compute_inline(pads[k])

    def nested(self, build: Build) -> None:
        """Leaves out what the padding makes zero, in the part at hand."""
        if build.padded and build.piece.anchor is not None:
            build.record("drop_zero_terms", (), block=build.piece.anchor)
