"""Order: the permutation of the outer spatial loops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan, columns, give_back
from space.rule import Column, NumericRule, Points


class Order(NumericRule):
    """One column: an index into the permutations of the spatial axes (axes of extent 1 stay last)."""

    name = "order"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``order``."""
        return (Column("order", tuple(range(len(model.orders)))),)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Places of all outer loops."""
        plan.position = np.take(model.position.T, model.column(points, "order"), axis=1).T

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Axes of one tile go last, in axis order: moving them changes nothing."""
        from space import _order_kernel

        rows = columns(points)
        _order_kernel.ordered(
            rows, model.index["order"], model.position, model.extents, columns(plan.stack.outer)[plan.main], *model.order_keys,
            np.zeros(model.n_spatial, dtype=np.int64),
        )
        give_back(points, rows)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """The place of every axis."""
        return list(plan.position[:, : model.n_spatial].T.astype(np.float64))

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Axes with more than one tile, outermost first."""
        outer = plan.body.outer[0]
        sequence = np.argsort(plan.position[0], kind="stable")
        return "order " + (",".join(model.nest.axes[a].name for a in sequence if outer[a] > 1) or "-")
