"""Taper: in what pieces the last part's sums load, so that little is left to compute when the last operand has come.

Where loads are what takes long, all but the last should be as large as the memories allow: every one costs a latency. What the
last one brings is multiplied when nothing else runs any more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space import tails
from space.model import Model
from space.plan import Mask, Plan, columns
from space.rule import Column, Ints, NumericRule, Points
from space.rules.slices import final
from space.rules.tiling import divisors

# Of a reduction of so many iterations, or of so many words of weights for a result, the last piece may be smaller; of shorter
# ones an even piece is little already.
LONG, WORDS = 16, 512


class Taper(NumericRule):
    """One column per reduction axis: the last part's tile along it, finer or coarser than the others'.

    It may leave a rest: then two loads do, and the last one is small.
    """

    name = "taper"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``last_<axis>``, where there are cuts; 0 where the last part is like the others."""
        if not model.cuts:
            return ()
        made = []
        for a in model.nest.reduce:
            axis = model.nest.axes[a]
            values = {0, *divisors(axis.extent)}
            if tails.alone(model, a) and _is_long(model, axis.extent):
                values |= {*_uneven(axis.extent)}
            if axis.extent > 1:
                made.append(Column(f"last_{axis.name}", tuple(sorted(values)), 0, 1))
        return tuple(made)

    def _columns(self, model: Model) -> list[tuple[int, int]]:
        """(axis, column) of every column."""
        names = ((a, f"last_{model.nest.axes[a].name}") for a in model.nest.reduce)
        return [(a, model.index[name]) for a, name in names if name in model.index]

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The last part's tiles."""
        axes, own = model.once(self, lambda: np.array(self._columns(model), dtype=np.int64).reshape(-1, 2).T.copy())
        if not len(axes) or len(plan.parts) == plan.main + 1:
            return
        from space import _tiles_kernel

        every = plan.stack
        extents, tiles, outer = (columns(figures) for figures in (every.extents, every.tiles, every.outer))
        _tiles_kernel.tapered(columns(points), axes, own, every.on, plan.main, extents, tiles, outer)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only a last part has pieces of its own."""
        alone = ~_any(plan)
        for a, column in self._columns(model):
            points[alone | (points[:, column] == plan.body.tiles[:, a]), column] = 0

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """A reduction is split only around a load of the last part."""
        deepest: Ints = np.zeros(len(points), dtype=np.int64)
        for attach, keep in zip(plan.attach, plan.keep):
            deepest = np.maximum(deepest, np.where(keep, 0, attach))
        for a, column in self._columns(model):
            points[deepest <= plan.position[:, a], column] = 0

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log sizes of the last part's tiles; 0 where there is none."""
        found = []
        for a, _ in self._columns(model):
            size = np.zeros(len(points))
            for part, last in zip(plan.parts, final(plan)):
                size = np.where(last, np.log2(part.tiles[:, a]), size)
            found.append(size)
        return found

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """The sizes that differ."""
        said = [f"{model.nest.axes[a].name}={point[c]}" for a, c in self._columns(model) if point[c]]
        return "last by " + " ".join(said) if said else ""


def _is_long(model: Model, extent: int) -> bool:
    """Whether so many iterations of a reduction are long."""
    words = -(-model.config.wgt_elem_bytes // model.config.bus_bytes)
    return extent >= LONG or extent * words >= WORDS


def _uneven(extent: int) -> list[int]:
    """Tiles of more than half that leave 1, 2, 4, .. iterations."""
    return [extent - rest for rest in (1 << n for n in range(extent.bit_length())) if 2 * rest < extent]


def _any(plan: Plan) -> Mask:
    """In which rows there is a last of several parts."""
    found = np.zeros(len(plan), dtype=np.bool_)
    for last in final(plan):
        found |= last
    return found
