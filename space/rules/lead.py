"""Lead: whether the first part is of several tiles, mostly finer than the others' along one axis.

Compute waits for the first tile's loads with nothing else to do, so that one is best small. But then it waits again, for those of
a whole tile, which take longer than what it computes meanwhile. Several small tiles take that time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Plan, columns, give_back
from space.rule import Column, Ints, NumericRule, Points
from space.rules.cuts import decoded, table, value_of
from space.rules.tiling import divisors, some_axes, tiled_axes

TILES = 3  # that a first part has at most along the axis that it is cut from, where it gets tiles of its own


class Lead(NumericRule):
    """One column, whose values mean what those of a cut do: an axis, and the first part's own tile along it; 0 without one.

    Along the other axes it is tiled as the others are, also along the one that it was cut from.
    """

    name = "lead"
    cuts = True

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``head_tile``, where there are cuts."""
        return (Column("head_tile", tuple(range(len(table(model))))),) if model.cuts else ()

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The first part's tiles."""
        if not plan.main or "head_tile" not in model.index:
            return
        from space import _tiles_kernel

        every = plan.stack
        extents, tiles, outer = (columns(figures) for figures in (every.extents, every.tiles, every.outer))
        _tiles_kernel.led(columns(points), table(model), model.index["head_tile"], extents, model.extents, model.uneven,
                          plan.main, tiles, outer)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only a first part has tiles of its own; they divide it, and are finer than the others', or as they are and several."""
        if "head_tile" not in model.index:
            return
        if not plan.main:
            points[:, model.index["head_tile"]] = 0
            return
        from space import _tiles_kernel

        rows = columns(points)
        _tiles_kernel.leading(rows, *_asked(model, plan))
        give_back(points, rows)

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """Tiles as long as the others' make a part of its own only where their initial values, or all stages, stand apart."""
        if "head_tile" in model.index and plan.main:
            from space import _tiles_kernel

            rows = columns(points)
            _tiles_kernel.follows(rows, *_asked(model, plan), plan.stack.init, model.n_spatial)
            give_back(points, rows)

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Other tiles of the first part; as often, the others get longer ones, and it keeps what they had. It is there then."""
        axes = tiled_axes(model)
        if not axes or "head_tile" not in model.index:
            return
        n, at, every = len(points), model.index, np.arange(len(points))
        axis, column = some_axes(model, axes, rng, n)
        sizes = map(divisors, model.extents[axis].tolist())
        size = np.array([own[int(draw * len(own))] for own, draw in zip(sizes, rng.random(n).tolist())], dtype=np.int64)
        was = points[every, column].astype(np.int64)
        swap = (rng.random(n) < 0.5) & (size > was)
        points[every[swap], column[swap]] = size[swap]
        size = np.where(swap, was, size)
        points[:, at["head_tile"]] = value_of(model, axis, size)
        if "head" not in at:
            return
        # A few tiles along one axis: of its own, or as long as the others', where these leave something.
        there = (points[:, at["head"]] == 0) | (rng.random(n) < 0.5)
        cut, beside = some_axes(model, axes, rng, n)
        long = np.where(cut == axis, size, points[every, beside])
        long = np.where(value_of(model, cut, long) > 0, long, 1)
        first = value_of(model, cut, long * rng.integers(1, 1 + TILES, size=n))
        points[there, at["head"]] = first[there]

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log tiles of the first part; 0 where there is none."""
        first = plan.parts[0]
        several = model.tiles_run(plan, first) if plan.main else np.zeros(len(points))
        return [np.log2(np.maximum(several, 1)).astype(np.float64)]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where it has a tile of its own."""
        axis, size = decoded(model, point[None], "head_tile")
        return f"first in tiles of {model.nest.axes[axis[0]].name}={size[0]}" if axis[0] >= 0 else ""


def _asked(model: Model, plan: Plan) -> tuple[Ints, int, int, Mask, Ints, Ints, Ints, Mask, int]:
    """What compiled code asks: what cuts mean, the first part's columns, which parts there are, and how they are tiled."""
    head, own = model.places(("head", "head_tile")).tolist()
    every = plan.stack
    return (table(model), head, own, every.on, columns(every.extents), columns(every.tiles), model.extents, model.uneven,
            plan.main)
