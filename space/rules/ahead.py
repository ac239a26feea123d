"""Ahead: in front of how many loops over tiles the sums' initial values are written, all at once.

Compute waits for the first tile's loads with nothing else to do. Initial values have to be written anyway, and what they are made
of is little: those of the next tiles too, written meanwhile, cost nothing. Elsewhere it is one instruction for several tiles. The
accumulators of all these tiles take their places at once, and each tile's must lie together among them: it is stored from there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan, columns, give_back, in_front
from space.rule import Column, NumericRule, Points
from space.rules.cuts import decoded, value_of
from space.rules.late import beyond_tiles
from space.rules.tiling import are_tiles, divisors, some_axes, tiled_axes


class Ahead(NumericRule):
    """``init`` for all parts, ``head_init`` for the first of several: loops of several tiles, counted from the innermost."""

    name = "ahead"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``init``, and where there are cuts ``head_init``; without a sum, or where it starts as it is loaded, without choice."""
        nest = model.nest
        written = nest.anchor is not None and (not model.starting or nest.init_ops != (0, 0))
        loops = sum(nest.axes[a].extent > 1 for a in nest.spatial) if written else 0
        names = ("init", "head_init") if model.cuts else ("init",)
        return tuple(Column(name, tuple(range(loops + 1)), 0, 0) for name in names)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """How many loops are left around the initial values of every part."""
        every, (init, first) = plan.stack, model.places(("init", "head_init")).tolist()
        asked = [first if n < plan.main else init for n in range(len(every.on))]
        in_front(plan, points, asked, model.n_spatial, every.out, every.init)  # as ``late`` has it

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """No more loops than there are of several tiles, and than leave every tile together."""
        every = plan.stack
        for name, own in (("init", slice(plan.main, None)), ("head_init", slice(plan.main))):
            if name not in model.index or not points[:, model.index[name]].any():
                continue
            if own.stop == 0:
                points[:, model.index[name]] = 0
                continue
            from space import _front_kernel

            extents, tiles, outer = (columns(of_all)[own] for of_all in (every.extents, every.tiles, every.outer))
            rows = columns(points)
            _front_kernel.ahead(
                every.on[own], extents, tiles, outer, columns(plan.position), every.out[own], model.n_spatial, rows,
                model.index[name],
            )
            give_back(points, rows)

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Other loops; as often, along one axis a first part of a few tiles whose values are all written first.

        It is what the other tiles and the last part leave, in tiles that divide it and are no longer than the others.
        """
        alone = rng.random(len(points)) < 0.5
        mine = points[alone]
        super().vary(model, mine, rng)
        points[alone] = mine
        axes = tiled_axes(model)
        if not axes or "head_init" not in model.index or not max(model.columns[model.index["head_init"]].choices):
            return
        rows = np.flatnonzero(~alone)
        n, at = len(rows), model.index
        axis, column = some_axes(model, axes, rng, n)
        extent, cut = model.extents[axis], [own[rows] for own in decoded(model, points, "cut")]
        kept = (cut[0] == axis) & (rng.random(n) < 0.5)
        last = np.where(kept, cut[1], rng.integers(0, 1 + extent // 8))
        tile = np.maximum(1, points[rows, column] + rng.integers(-2, 3, size=n))
        # As few of the others' tiles as leave a first part that is no longer than they are together, or more.
        most = (extent - last - 1) // tile
        first = extent - last - tile * rng.integers((most + 1) // 2, most + 1)
        head = value_of(model, axis, first)
        able = (head > 0) & are_tiles(model, column, tile)
        rows, axis, column = rows[able], axis[able], column[able]
        points[rows, column] = tile[able]
        points[rows, at["head"]] = head[able]
        points[rows, at["cut"]] = value_of(model, axis, last[able])
        points[rows, at["head_init"]] = max(model.columns[at["head_init"]].choices)
        if "head_tile" in at:
            sizes = [[d for d in divisors(long) if d <= its] for long, its in zip(first[able].tolist(), tile[able].tolist())]
            finer = [own[int(draw * len(own))] for own, draw in zip(sizes, rng.random(len(sizes)).tolist())]
            points[rows, at["head_tile"]] = value_of(model, axis, np.array(finer, dtype=np.int64))

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log elements that are written at once, of the main part and of the first."""
        first = plan.parts[0]
        head = np.where(first.on, np.log2(model.init_elements(plan, first)), 0.0) if plan.main else np.zeros(len(points))
        return [np.log2(model.init_elements(plan, plan.body)), head]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where it is not a tile's alone."""
        return beyond_tiles(model, plan, "init before", lambda part: part.init)
