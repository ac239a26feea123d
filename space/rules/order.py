"""Order: the permutation of the outer spatial loops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan
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
        spatial = model.n_spatial
        position = model.position[model.column(points, "order")][:, :spatial]
        outer = plan.body.outer[:, :spatial]
        fixed = model.extents[None, :spatial] == 1
        rank = np.where(outer > 1, position, spatial + np.arange(spatial)[None, :] + np.where(fixed, spatial, 0))
        place = np.argsort(np.argsort(rank, axis=1, kind="stable"), axis=1, kind="stable")
        weights, keys, by_key = model.order_keys
        points[:, model.index["order"]] = by_key[np.searchsorted(keys, place @ weights)]

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """The place of every axis."""
        return list(plan.position[:, : model.n_spatial].T.astype(np.float64))

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Axes with more than one tile, outermost first."""
        outer = plan.body.outer[0]
        sequence = np.argsort(plan.position[0], kind="stable")
        return "order " + (",".join(model.nest.axes[a].name for a in sequence if outer[a] > 1) or "-")
