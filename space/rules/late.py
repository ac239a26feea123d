"""Late: behind how many loops over tiles the stages and the store stand, which then take several tiles at once.

An instruction costs a few cycles besides its micro-ops, and stages are several instructions for a tile. What is loaded at once
may be less than what they go through: the loops in between are the sum's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Part, Plan, columns, give_back, in_front
from space.rule import Column, Ints, NumericRule, Points

UNASKED = -2  # column of parts that another rule decides of


class Late(NumericRule):
    """``late`` for the main part, ``head_late`` for the first of several: loops of several tiles, counted from the innermost."""

    name = "late"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``late``, and where there are cuts ``head_late``; without a product and stages behind it they have no choice."""
        nest = model.nest
        some = nest.anchor is not None and nest.tensorized and nest.stages and not nest.wides and not nest.halos
        loops = sum(nest.axes[a].extent > 1 for a in nest.spatial) if some else 0
        return tuple(Column(name, tuple(range(loops + 1)), 0, 0) for name in (("late", "head_late") if model.cuts else ("late",)))

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """How many loops are left around the stages of the main part, and of the first."""
        every, (late, first) = plan.stack, model.places(("late", "head_late")).tolist()
        asked = [late if n == plan.main else first if n == 0 else UNASKED for n in range(len(every.on))]
        in_front(plan, points, asked, model.n_spatial, np.full_like(every.out, model.n_spatial), every.out)
        # What stages take at once begins at once.
        for n in {0, plan.main}:
            np.minimum(every.init[n], every.out[n], out=every.init[n])

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """No more loops than there are of several tiles, and none without a load inside: that is a tile.

        What stages find where the first part has left it is loaded outside.
        """
        for name, part in (("late", plan.main), ("head_late", 0)):
            if name in model.index and points[:, model.index[name]].any():
                from space import _front_kernel

                rows, (outer, on, position) = columns(points), model.around_parts(plan)
                attach, keep, outside, _, _ = model.placed(plan, plan.stack)
                _front_kernel.late(
                    rows, model.index[name], part, name == "late" or plan.main > 0, name != "late", on, position, outer,
                    model.n_spatial, attach, keep, outside,
                )
                give_back(points, rows)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log elements that stages take at once, of the main part and of the first."""
        first, body = plan.parts[0], plan.body
        sizes = [np.log2(model.out_tiles(plan, part).prod(axis=1)) for part in (body, first)]
        return [sizes[0], np.where(first.on, sizes[1], 0.0) if plan.main else np.zeros(len(points))]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where it is not a tile's alone."""
        return beyond_tiles(model, plan, "stages behind", lambda part: part.out)


def beyond_tiles(model: Model, plan: Plan, words: str, depth: Callable[[Part], Ints]) -> str:
    """Of a single point, the outermost loop that something stands in front of or behind, where these are several tiles.

    Args:
        model: of the sketch.
        plan: of the point.
        words: what stands where.
        depth: the loops around it in a part, shape (1,).
    """
    axes = [model.nest.axes[a].name for a in np.argsort(plan.position[0], kind="stable")[: model.n_spatial]]
    parts = [("first ", plan.parts[0])] * bool(plan.main and plan.parts[0].on[0]) + [("", plan.body)]
    return ", ".join(f"{name}{words} {axes[int(depth(part)[0])]}" for name, part in parts
                     if model.trips(plan, part, depth(part))[0] < model.tiles_run(plan, part)[0])
