"""First: whether the load engine waits until the addends of the initial values are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan
from space.rule import Column, NumericRule, Points

if TYPE_CHECKING:
    from space.build import Build
    from space.draft import Terms


class First(NumericRule):
    """One column: 1 loads the addends before inputs and weights, which go before them at the memory and would hold them up.

    These are all addends, where they are loaded once, or what the first part's are made of.
    """

    name = "first"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``addend_first``, where a sum starts with an addend."""
        return (Column("addend_first", (0, 1) if model.nest.addends else (0,), eager=int(bool(model.nest.addends))),)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Marks the rows."""
        plan.first = model.column(points, "addend_first") == 1

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only what stands in front of all loops can come first."""
        own = points[:, model.index["addend_first"]]
        if not model.nest.addends or not own.any():
            return
        from space import _front_kernel

        leads = np.zeros(len(points), dtype=np.bool_)
        outer, on, position = model.around_parts(plan)
        _front_kernel.leads(on, position, outer, plan.stack.init, model.n_spatial, leads)
        for k in model.nest.addends:
            own[(plan.attach[k] > 0) & ~leads] = 0

    def draft(self, model: Model, plan: Plan, terms: Terms) -> None:
        """First, the load engine starts later; otherwise the addends come when it has nothing to do."""
        addends = [terms.load(k, model.config) for k in model.nest.addends if terms.fills[k].any()]
        if addends:
            terms.addends_first = np.where(plan.first, np.sum(addends, axis=0), 0.0)

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said when it is so."""
        return "addends first" if plan.first[0] else ""

    def after(self, build: Build) -> None:
        """Marks the copies, once."""
        if build.plan.first[0] and build.piece is build.pieces[0]:
            for k in build.nest.addends:
                copy = build.shared.get(k) or build.piece.copies[k]
                if copy is not None:
                    build.annotate(copy, "vta.first", 1)
