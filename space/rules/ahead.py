"""Ahead: in front of how many loops over tiles the sums' initial values are written, all at once.

Compute waits for the first tile's loads with nothing else to do. Initial values have to be written anyway, and what they are made
of is little: those of the next tiles too, written meanwhile, cost nothing. Elsewhere it is one instruction for several tiles. The
accumulators of all these tiles take their places at once, and each tile's must lie together among them: it is stored from there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan, columns, in_front
from space.rule import Column, NumericRule, Points
from space.rules.cuts import decoded, values
from space.rules.late import beyond_tiles
from space.rules.tiling import divisors, tiled_axes


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
        count, first = model.column(points, "init"), model.column(points, "head_init")
        for n, part in enumerate(plan.parts):
            around = in_front(plan, part, first if n < plan.main else count, model.n_spatial)
            part.init = np.minimum(around, part.out)  # as ``late`` has it

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """No more loops than there are of several tiles, and than leave every tile together."""
        for name, parts in (("init", plan.parts[plan.main :]), ("head_init", plan.parts[: plan.main])):
            if name not in model.index:
                continue
            given = points[:, model.index[name]].astype(np.int64)
            if given.any() and parts:
                from space import _front_kernel

                extents = np.stack([columns(p.extents) for p in parts])
                tiles, outer = np.stack([columns(p.tiles) for p in parts]), np.stack([columns(p.outer) for p in parts])
                _front_kernel.ahead(
                    np.array([p.on for p in parts]), extents, tiles, outer, columns(plan.position),
                    np.array([p.out for p in parts]), model.n_spatial, given.copy(), given,
                )
            points[:, model.index[name]] = given if parts else 0

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
        known, cuts = values(model), decoded(model, points, "cut")
        for n in np.flatnonzero(~alone):
            a = axes[rng.integers(len(axes))]
            extent, column = model.nest.axes[a].extent, model.index[f"tile_{model.nest.axes[a].name}"]
            last = int(cuts[1][n]) if cuts[0][n] == a and rng.random() < 0.5 else int(rng.integers(0, 1 + extent // 8))
            tile = max(1, int(points[n, column]) + int(rng.integers(-2, 3)))
            # As few of the others' tiles as leave a first part that is no longer than they are together, or more.
            most = (extent - last - 1) // tile
            first = extent - last - tile * int(rng.integers((most + 1) // 2, most + 1))
            if tile not in model.columns[column].choices or (a, first) not in known:
                continue
            points[n, column] = tile
            points[n, model.index["head"]] = known[a, first]
            points[n, model.index["cut"]] = known.get((a, last), 0)
            points[n, model.index["head_init"]] = max(model.columns[model.index["head_init"]].choices)
            if "head_tile" in model.index:
                finer = [d for d in divisors(first) if d <= tile]
                points[n, model.index["head_tile"]] = known.get((a, finer[rng.integers(len(finer))]), 0) if finer else 0

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log elements that are written at once, of the main part and of the first."""
        first = plan.parts[0]
        head = np.where(first.on, np.log2(model.init_elements(plan, first)), 0.0) if plan.main else np.zeros(len(points))
        return [np.log2(model.init_elements(plan, plan.body)), head]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where it is not a tile's alone."""
        return beyond_tiles(model, plan, "init before", lambda part: part.init)
