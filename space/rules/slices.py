"""Slices: along which axis the stages after the reduction and the store go over a tile, and how much of it at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Part, Plan, columns, give_back, times
from space.rule import Column, Ints, NumericRule, Points, evenly
from space.rules.cuts import table, value_of
from space.rules.tiling import some_axes, tiled_axes

THICK = 32  # indices of a slice at most
NAMES = ("tail", "tail_size", "tail_last", "tail_last_size")


class Slices(NumericRule):
    """``tail`` for all parts, ``tail_last`` for the last of several: 0, or 1 + the spatial axis of slices; and their thickness.

    A result is stored while the next is computed: slices want to be about as many as hide that, and not more, since each is an
    instruction for every operation. Of a part that is a single tile the last slice takes what is left; else slices divide a
    whole tile, and the thickness is the most that may be.
    """

    name = "slices"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``tail`` and ``tail_size``, and where there are cuts ``tail_last`` and ``tail_last_size``."""
        # Without stages there is only the store to slice, whose loops lowering orders itself. What stands in the place of a halo
        # is made when all of that is.
        able = model.nest.stages and not model.nest.within
        long = [i for i in model.nest.spatial if model.nest.axes[i].extent > 1 and able]
        sizes = tuple(range(1, min(max((model.nest.axes[i].extent for i in long), default=2), THICK + 1)))
        return tuple(
            column for name in (("tail", "tail_last") if model.cuts else ("tail",))
            for column in (Column(name, (0, *(1 + i for i in long))), Column(f"{name}_size", sizes, 1))
        )

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The axis of every part; one that has a single slice there goes whole."""
        from space import _slices_kernel

        every = plan.stack
        _slices_kernel.slices(*_parts(model, plan), columns(points), model.places(NAMES), every.slices, every.thick)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """There is more than one slice somewhere; no thickness is more than what is done. What is not sliced has none."""
        from space import _slices_kernel

        rows = columns(points)
        _slices_kernel.sliced(*_parts(model, plan), rows, model.places(NAMES))
        give_back(points, rows)

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Other slices; as often, the last tile along one axis is a part of its own, for slices of its own."""
        alone = rng.random(len(points)) < 0.5
        mine = points[alone]
        super().vary(model, mine, rng)
        points[alone] = mine
        axes = tiled_axes(model)
        if not axes or "tail_last" not in model.index or len(model.columns[model.index["tail_last"]].choices) < 2:
            return
        rows, at = np.flatnonzero(~alone), model.index
        axis, own = some_axes(model, axes, rng, len(rows))
        tile = points[rows, own]
        cut, size = table(model)[points[rows, at["cut"]]].T
        # A last part that is there already is cut once more.
        column = np.where(cut >= 0, at["cut_again"], at["cut"])
        points[rows, column] = value_of(model, axis, np.where(cut == axis, np.minimum(tile, size), tile))
        points[rows, at["tail_last"]] = evenly(model.values[at["tail_last"]][1:], rng, len(rows))
        points[rows, at["tail_last_size"]] = evenly(model.values[at["tail_last_size"]], rng, len(rows))

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """The axis, and log numbers of slices, tiles and elements of a tile; log elements of a slice of the last part."""
        body = plan.body
        last = np.zeros(len(plan))
        for part, ends in zip(plan.parts, final(plan)):
            last = np.where(ends, np.log2(times(model.out_tiles(plan, part)) / model.slices(plan, part)), last)
        return [body.slices.astype(np.float64), np.log2(model.slices(plan, body)), np.log2(model.tile_elements(body)),
                np.log2(np.maximum(model.tiles_run(plan, body), 1)), last]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said when there are slices."""
        names = [_said(model, part) for part in (plan.body, plan.parts[-1])]
        said = [f"store by {names[0]}"] if names[0] else []
        return ", ".join([*said, f"the last by {names[1]}"] if names[1] and len(plan.parts) > plan.main + 1 else said)


def _said(model: Model, part: Part) -> str:
    """The axis of a part's slices, and how thick they are."""
    axis, thick = int(part.slices[0]), int(part.thick[0])
    name = model.nest.axes[axis - 1].name if axis else ""
    return f"{thick} {name}" if thick > 1 else name


def final(plan: Plan) -> list[Mask]:
    """Per part, in which rows it is the last of several."""
    taken = np.zeros(len(plan), dtype=np.bool_)
    found = []
    for n, part in reversed(list(enumerate(plan.parts))):
        found.append(part.on & ~taken if n > plan.main else np.zeros(len(plan), dtype=np.bool_))
        taken = taken | part.on
    return found[::-1]


def _parts(model: Model, plan: Plan) -> tuple[Mask, Ints, Ints, int, int, bool]:
    """What compiled code asks of a plan's parts: which exist, their extents and tiles, which one is the main one; of all points
    how many axes the output has, and whether slices may leave a rest.
    """
    every = plan.stack
    return every.on, columns(every.extents), columns(every.tiles), plan.main, model.n_spatial, model.slices_leave
