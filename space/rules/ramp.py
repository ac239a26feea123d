"""Ramp: in how fine pieces the first part's sums load, so that the first product need not wait for all of a tile's operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Plan, columns, give_back
from space.rule import Column, Ints, NumericRule, Points, evenly
from space.rules.tiling import divisors


class Ramp(NumericRule):
    """One column per reduction axis: the first part's tile along it, where that is smaller than the others'."""

    name = "ramp"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``head_<axis>``, where there are cuts; the axis' extent where the first part is like the others."""
        if not model.cuts:
            return ()
        axes = (model.nest.axes[a] for a in model.nest.reduce)
        return tuple(Column(f"head_{axis.name}", tuple(divisors(axis.extent)), axis.extent, 1) for axis in axes)

    def _columns(self, model: Model) -> list[tuple[int, int]]:
        """(axis, column) of every column."""
        names = ((a, f"head_{model.nest.axes[a].name}") for a in model.nest.reduce)
        return [(a, model.index[name]) for a, name in names if name in model.index]

    def _where(self, model: Model) -> tuple[Ints, Ints, Ints]:
        """The axes, their columns, and those of the others' tiles; without columns none; shape (columns,) each."""
        return model.once((self, "where"), lambda: self._found(model))

    def _found(self, model: Model) -> tuple[Ints, Ints, Ints]:
        axes = [model.nest.axes[a].name for a in model.nest.reduce]
        own, others = (model.places(tuple([kind + name for name in axes])) for kind in ("head_", "tile_"))
        return np.array(model.nest.reduce, dtype=np.int64)[own >= 0], own[own >= 0], others[own >= 0]

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The first part's tiles."""
        axes, own, _ = self._where(model)
        if not plan.main or not len(axes):
            return
        from space import _tiles_kernel

        every = plan.stack
        extents, tiles, outer = (columns(figures) for figures in (every.extents, every.tiles, every.outer))
        _tiles_kernel.ramped(columns(points), axes, own, extents, tiles, outer)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only a first part has finer pieces, and only of what the others take at once."""
        on = plan.parts[0].on if plan.main else np.zeros(len(points), dtype=np.bool_)
        for a, column in self._columns(model):
            idle = ~on | (points[:, column] >= plan.body.tiles[:, a])
            points[idle, column] = model.extents[a]

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """A reduction is split only around a load: what only the first part loads there splits only the first part's."""
        axes, own, others = self._where(model)
        if not len(axes):
            return
        from space import _tiles_kernel

        rows, (attach, keep, *_) = columns(points), model.placed(plan, plan.stack)
        _tiles_kernel.settled(
            rows, axes, own, others, plan.stack.on, plan.main > 0, columns(plan.position), attach, keep, model.extents,
            model.once((self, "known"), lambda: _known([model.columns[column].choices for column in own.tolist()])),
        )
        give_back(points, rows)

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Another piece for the first part; as often, all others get a larger one, and the first part keeps what they had."""
        mine = [(a, column) for a, column in self._columns(model) if model.extents[a] > 1]
        if not mine:
            return
        which = rng.integers(len(mine), size=len(points))
        for k, (a, column) in enumerate(mine):
            rows = np.flatnonzero(which == k)
            tile = model.index.get(f"tile_{model.nest.axes[a].name}")
            drawn = evenly(model.values[column], rng, len(rows))
            if tile is None:
                points[rows, column] = drawn
                continue
            swap = (rng.random(len(rows)) < 0.5) & (drawn > points[rows, tile])
            points[rows, column] = np.where(swap, points[rows, tile], drawn)
            points[rows[swap], tile] = drawn[swap]

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log sizes of the first part's tiles; 0 where there is none."""
        first = plan.parts[0]
        on = first.on if plan.main else np.zeros(len(points), dtype=np.bool_)
        return [np.where(on, np.log2(first.tiles[:, a]), 0.0) for a, _ in self._columns(model)]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """The sizes that differ."""
        said = [f"{model.nest.axes[a].name}={point[c]}" for a, c in self._columns(model) if point[c] < model.extents[a]]
        return "first by " + " ".join(said) if said else ""


def _known(choices: Sequence[tuple[int, ...]]) -> Mask:
    """Of the values of some columns which there are, shape (columns, most + 1)."""
    found = np.zeros((len(choices), 1 + max(map(max, choices))), dtype=np.bool_)
    for own, values in zip(found, choices):
        own[list(values)] = True
    return found
