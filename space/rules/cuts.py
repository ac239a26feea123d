"""Cuts: the last part of the output, smaller than a tile or done in smaller steps, and a first part that is finer.

After the last matrix product the machine still has to finish and store a tile, and before the first one it has to load one. Both
shrink with the part: the output is cut into boxes that run one after another, each tiled and loaded on its own.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Part, Plan, columns, give_back
from space.rule import Column, Ints, NumericRule, Points, evenly
from space.rules.tiling import are_tiles, make_room, some_axes, tiled_axes

NAMES = ("head", "cut", "cut_again")
EVERY = 32  # up to so many iterations any number may be cut off an axis; more than that by powers of two
WHOLE = 0.3  # chance that a tile with its first and last part is whole along another axis


def table(model: Model) -> Ints:
    """What a cut column's values mean: (axis, iterations cut off), shape (values, 2); 0 cuts nothing."""
    return model.once("cuts", lambda: _table(_axes(model)))


def values(model: Model) -> dict[tuple[int, int], int]:
    """By what it means, the value of a cut column."""
    return _values(_axes(model))


def value_of(model: Model, axis: Ints, size: Ints) -> Ints:
    """The value of a cut column that takes so many iterations off an axis; 0, which cuts nothing, where there is none.

    Args:
        model: of the sketch.
        axis: shape (n,).
        size: iterations, shape (n,).
    """
    known = model.once("cuts by size", lambda: _by_size(_axes(model), len(model.extents)))
    there = (size >= 0) & (size < known.shape[1])
    return np.asarray(np.where(there, known[axis, np.where(there, size, 0)], 0), dtype=np.int64)


def _axes(model: Model) -> tuple[tuple[int, int], ...]:
    return tuple((a, model.nest.axes[a].extent) for a in model.nest.spatial)


@cache
def _values(axes: tuple[tuple[int, int], ...]) -> dict[tuple[int, int], int]:
    return {(int(axis), int(size)): n for n, (axis, size) in enumerate(_table(axes))}


@cache
def _by_size(axes: tuple[tuple[int, int], ...], count: int) -> Ints:
    """The values of a cut column by axis and iterations, shape (axes, longest + 1); 0 where there is none."""
    rows = _table(axes)
    found = np.zeros((count, 1 + int(rows[:, 1].max())), dtype=np.int64)
    found[rows[1:, 0], rows[1:, 1]] = np.arange(1, len(rows))
    return found


@cache
def _table(axes: tuple[tuple[int, int], ...]) -> Ints:
    found = [(-1, 0)]
    for a, extent in axes:
        most = extent // 2
        sizes = {*range(1, min(most, EVERY) + 1), *(1 << i for i in range(extent.bit_length()) if 1 << i <= most)}
        found += [(a, s) for s in sorted(sizes)]
    return np.array(found, dtype=np.int64)


def decoded(model: Model, points: Points, name: str) -> tuple[Ints, Ints]:
    """What a column of cuts says: the axis, -1 without, and the indices of it that are meant, shape (n,) each."""
    row = table(model)[model.column(points, name)]
    return row[:, 0], row[:, 1]


class Cuts(NumericRule):
    """``cut`` and ``cut_again`` take the last part off, one after the other; ``head`` the first."""

    name = "cuts"
    cuts = True

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``head``, ``cut``, ``cut_again``; without an axis to cut they have no choice."""
        every = tuple(range(len(table(model))))
        return tuple(Column(name, every) for name in NAMES)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The head, the main part, the part after the first cut, the last."""
        from space import _cuts_kernel

        whole, n = plan.body, len(points)
        extents, lows = np.empty((2, 4, len(model.extents), n), dtype=np.int64)
        on: Mask = np.zeros((4, n), dtype=np.bool_)
        at = model.places(NAMES)
        _cuts_kernel.boxes(table(model), columns(points), at, columns(whole.extents), columns(whole.lows), extents, lows, on)
        plan.main = int(on[0].any())
        there = [bool(plan.main), True, bool(on[2].any()), bool(on[2].any() and on[3].any())]
        if not all(there):
            extents, lows, on = extents[there], lows[there], on[there]
        slices, thick, init, out = (np.array([own] * len(on)) for own in (whole.slices, whole.thick, whole.init, whole.out))
        tiles = extents.copy().swapaxes(1, 2)
        every = Part(extents.swapaxes(1, 2), tiles, on, lows.swapaxes(1, 2), slices, thick, init, out)
        every.take_outer(np.ones_like(extents).swapaxes(1, 2))
        plan.take(every)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """A cut leaves something of its axis, and a second one follows a first."""
        from space import _cuts_kernel

        rows = columns(points)
        _cuts_kernel.possible(table(model), rows, model.places(NAMES), model.extents, np.zeros_like(model.extents))
        give_back(points, rows)

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """Tiles divide the last part, which is smaller than a tile, or stored or summed otherwise; else the cut is taken back.

        What is left behind must be tiled evenly without the cut as well: else the row is no point.
        """
        from space import _cuts_kernel

        every, rows, (_, keep, *_) = plan.stack, columns(points), model.placed(plan, plan.stack)
        _cuts_kernel.settled(
            rows, model.places(NAMES), table(model), every.on, columns(every.extents), columns(every.lows), columns(every.tiles),
            columns(every.outer), every.slices, every.thick, every.init, keep, model.extents, model.uneven, plan.main,
            plan.main + 1 + plan.falls, model.n_spatial,
        )
        give_back(points, rows)

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Another cut; as often, a tile along one axis with the first and the last part that make it come out even.

        Then another axis may be whole: a smaller tile along one is no better unless it is longer along another.
        """
        whole = rng.random(len(points)) < 0.5
        mine = points[~whole]
        super().vary(model, mine, rng)
        points[~whole] = mine
        axes = tiled_axes(model)
        if not axes or "head" not in model.index:
            return
        before, rows = points.copy("K"), np.flatnonzero(whole)
        n = len(rows)
        axis, column = some_axes(model, axes, rng, n)
        extent = model.extents[axis]
        # Many small tiles or a few large ones: how many is drawn evenly by its logarithm.
        few = (extent ** rng.random(n)).astype(np.int64)
        tile = np.where(rng.random(n) < 0.3, points[rows, column], rng.integers(1, extent // 2 + 1))
        last = np.stack([np.zeros_like(tile), np.ones_like(tile), np.full_like(tile, 2), tile // 2, tile])[
            rng.integers(5, size=n), np.arange(n)]
        tile = np.where(rng.random(n) < 0.5, np.maximum(1, (extent - last) // few), tile)
        first = (extent - last) % tile
        first = np.where((first == 0) & (rng.random(n) < 0.5), tile, first)
        # More than a tile only where it loads for the others: it is taken back elsewhere.
        first += np.where(rng.random(n) < 0.3, tile * rng.integers(0, 3, size=n), 0)
        apart = last == tile
        last = np.where(apart, last + tile * rng.integers(0, 3, size=n), last)
        longer = rng.random(n) < WHOLE
        other, beside = some_axes(model, axes, rng, n)
        able = are_tiles(model, column, tile)
        points[rows[able], column[able]] = tile[able]
        points[rows[able], model.index["head"]] = value_of(model, axis, first)[able]
        points[rows[able], model.index["cut"]] = value_of(model, axis, last)[able]
        _apart(model, points, rows[able & apart], rng)
        able &= longer & (other != axis)
        points[rows[able], beside[able]] = model.extents[other[able]]
        make_room(model, before, points, rng)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log elements of the first and the last part's tile."""
        n = len(points)
        last = np.log2(model.tile_elements(plan.body)).astype(np.float64)
        for part in plan.parts[plan.main + 1 :]:
            last = np.where(part.on, np.log2(model.tile_elements(part)), last)
        head = plan.parts[0]
        first = np.where(head.on, np.log2(model.tile_elements(head)), 0.0) if plan.main else np.zeros(n)
        return [first, last]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Sizes of the first and the last parts."""
        row = point[None]
        said = []
        for name, word in (("head", "first"), ("cut", "last"), ("cut_again", "then")):
            axis, size = decoded(model, row, name)
            if axis[0] >= 0:
                said.append(f"{word} {model.nest.axes[axis[0]].name}={size[0]}")
        return "cut " + " ".join(said) if said else ""


def _apart(model: Model, points: Points, rows: Ints, rng: np.random.Generator) -> None:
    """Has some points' last part go over its tiles in slices of its own, or over its sums in pieces of its own, in place."""
    ways = model.once("apart", lambda: [
        n for n, c in enumerate(model.columns) if c.name.startswith(("last_", "tail_last")) and len(c.choices) > 1])
    two = rng.random((len(rows), len(ways))).argsort(axis=1)[:, :2]
    for n, column in enumerate(ways):
        own = rows[(two == n).any(axis=1)]
        points[own, column] = evenly(model.values[column], rng, len(own))
