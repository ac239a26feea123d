"""Zeros: whether the products that padding makes zero are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.nest import ACC
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
        return (Column("drop_zeros", (0, 1) if model.taps else (0,), 0, 1 if model.taps else 0),)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Marks the rows."""
        plan.drops = model.column(points, "drop_zeros") == 1

    def draft(self, model: Model, plan: Plan, terms: Terms) -> None:
        """Fewer products; all loops of a padded dimension but the longest unroll into instructions."""
        part = terms.part
        terms.products = np.where(plan.drops, terms.products * model.drop_share(part), terms.products)
        depth = np.full(len(plan), model.n_spatial, dtype=np.int64)
        for k, operand in enumerate(model.nest.operands):
            if operand.scope != ACC:
                depth = np.maximum(depth, plan.attach[k])
        ranges = model.ranges(plan, part, depth)
        found = np.ones(len(plan), dtype=np.int64)
        for group in model.taps:
            inner = ranges[:, list(group)]
            found = found * (inner.prod(axis=1) // inner.max(axis=1))
        terms.pieces = np.where(plan.drops, terms.pieces * found, terms.pieces)

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
