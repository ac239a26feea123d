"""Slices: along which axis the stages after the reduction and the store go slice by slice over a tile."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Part, Plan, along
from space.rule import Column, Ints, NumericRule, Points


class Slices(NumericRule):
    """``tail`` for all parts, ``tail_last`` for the last of several: 0, or 1 + the spatial axis of the slices."""

    name = "slices"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``tail``, and where there are cuts ``tail_last``."""
        # Without stages there is only the store to slice, whose loops lowering orders itself.
        values = (0, *(1 + i for i in model.nest.spatial if model.nest.axes[i].extent > 1 and model.nest.stages))
        last = (Column("tail_last", values),) if model.cuts else ()
        return (Column("tail", values), *last)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The axis of every part; one that has a single slice there goes whole."""
        tail, last = model.column(points, "tail"), model.column(points, "tail_last")
        for part, ends in zip(plan.parts, final(plan)):
            axis = np.where(ends, last, tail)
            part.slices = np.where(along(part.tiles, axis - 1) > 1, axis, 0)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """A slice axis has more than one slice."""
        masks = final(plan)
        for name, parts in (("tail", [plan.body]), ("tail_last", plan.parts)):
            if name not in model.index:
                continue
            axis = points[:, model.index[name]].astype(np.int64)
            busy = np.zeros(len(points), dtype=np.bool_)
            for n, part in enumerate(parts):
                here = _sliced(part, axis)
                busy |= here & masks[n] if name == "tail_last" else here
            points[:, model.index[name]] = np.where(busy, axis, 0)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """The axis, and log numbers of slices, tiles and elements of a tile."""
        body = plan.body
        return [body.slices.astype(np.float64), np.log2(model.slices(plan, body)), np.log2(model.tile_elements(body)),
                np.log2(np.maximum(model.tiles_run(plan, body), 1))]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said when there are slices."""
        names = [model.nest.axes[int(p.slices[0]) - 1].name if p.slices[0] else "" for p in (plan.body, plan.parts[-1])]
        said = [f"store by {names[0]}"] if names[0] else []
        return ", ".join([*said, f"the last by {names[1]}"] if names[1] and len(plan.parts) > plan.main + 1 else said)


def final(plan: Plan) -> list[Mask]:
    """Per part, in which rows it is the last of several."""
    taken = np.zeros(len(plan), dtype=np.bool_)
    found = []
    for n, part in reversed(list(enumerate(plan.parts))):
        found.append(part.on & ~taken if n > plan.main else np.zeros(len(plan), dtype=np.bool_))
        taken = taken | part.on
    return found[::-1]


def _sliced(part: Part, axis: Ints) -> Mask:
    """Whether an axis gives a part's tile more than one slice."""
    return np.asarray((axis > 0) & (along(part.tiles, axis - 1) > 1), dtype=np.bool_)
