"""Cuts: the last part of the output, smaller than a tile or done in smaller steps, and a first part that is finer.

After the last matrix product the machine still has to finish and store a tile, and before the first one it has to load one. Both
shrink with the part: the output is cut into boxes that run one after another, each tiled and loaded on its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Part, Plan, along, columns, times
from space.rule import Column, Ints, NumericRule, Points, evenly
from space.rules.tiling import are_tiles, behind, divides, make_room, some_axes, tiled_axes

NAMES = ("head", "cut", "cut_again")
EVERY = 32  # up to so many iterations any number may be cut off an axis; more than that by powers of two
WHOLE = 0.3  # chance that a tile with its first and last part is whole along another axis


def table(model: Model) -> Ints:
    """What a cut column's values mean: (axis, iterations cut off), shape (values, 2); 0 cuts nothing."""
    return _table(_axes(model))


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
    known = _by_size(_axes(model), len(model.extents))
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


def _given(model: Model, points: Points) -> Ints:
    """The values of all columns of cuts, as compiled code takes them, shape (3, n)."""
    return np.array([model.column(points, name) for name in NAMES])


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

        whole = plan.body
        extents, lows = (np.array([columns(figures)] * 4) for figures in (whole.extents, whole.lows))
        on = np.zeros((4, len(points)), dtype=np.bool_)
        _cuts_kernel.boxes(table(model), _given(model, points), extents, lows, on)
        plan.main = int(on[0].any())
        there = [bool(plan.main), True, on[2].any(), on[2].any() and on[3].any()]
        plan.parts = [
            replace(whole, extents=extents[p].T, tiles=extents[p].T.copy("K"), on=on[p], lows=lows[p].T)
            for p in range(4) if there[p]
        ]

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """A cut leaves something of its axis, and a second one follows a first."""
        from space import _cuts_kernel

        good = np.zeros((len(NAMES), len(points)), dtype=np.bool_)
        _cuts_kernel.possible(table(model), _given(model, points), model.extents, np.zeros_like(model.extents), good)
        for name, own in zip(NAMES, good):
            points[~own, model.index[name]] = 0

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """Tiles divide the last part, which is smaller than a tile, or stored or summed otherwise; else the cut is taken back."""
        again = plan.last[1] if len(plan.last) > 1 else None
        if again is not None:
            before = plan.last[0]
            own = _smaller(again, before) | _otherwise(again, before)
            idle = again.on & ~(divides(model, plan, again) & divides(model, plan, before) & own)
            points[idle, model.index["cut_again"]] = 0
        if plan.last:
            axis, size = decoded(model, points, "cut")
            last = plan.last[0]
            alone = last.on & (points[:, model.index["cut_again"]] == 0)
            rest = _joined(model, plan, again, last) if again is not None else last
            tile = along(plan.body.tiles, axis)
            idle = alone & ~(divides(model, plan, rest) & ((size < tile) | (_otherwise(last, plan.body) & ~_lone(model, plan))))
            # What is left behind must be tiled evenly without the cut as well: else the row is no point.
            points[idle, model.index["cut"]] = 0
        none = (points[:, model.index["cut"]] == 0)
        points[none, model.index["cut_again"]] = 0
        if plan.main:
            head = plan.parts[0]
            axis, size = decoded(model, points, "head")
            tile = along(plan.body.tiles, axis)
            # A first part as large as a tile is a tile, unless it has finer tiles or sums, initial values in front of them (as
            # where stages stand behind them), or loads something for all the others: then it may be larger too, so that the
            # engine that computes is not done before these loads are.
            kept = (head.tiles < np.minimum(plan.body.tiles, head.extents)).any(axis=1)
            kept |= head.init < model.n_spatial
            for keep in plan.keep:
                kept |= keep
            small = (size < tile) | kept
            points[head.on & ~(divides(model, plan, head) & small), model.index["head"]] = 0

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
    ways = [n for n, c in enumerate(model.columns) if c.name.startswith(("last_", "tail_last")) and len(c.choices) > 1]
    two = rng.random((len(rows), len(ways))).argsort(axis=1)[:, :2]
    for n, column in enumerate(ways):
        own = rows[(two == n).any(axis=1)]
        points[own, column] = evenly(model.values[column], rng, len(own))


def _smaller(last: Part, before: Part) -> Mask:
    """Whether the last part's tile is smaller than that of the part it was cut from."""
    return np.asarray(times(last.tiles) < times(before.tiles), dtype=np.bool_)


def _lone(model: Model, plan: Plan) -> Mask:
    """Whether the main part is one tile behind a first part of such tiles: they are the main part, and it is cut off twice."""
    if not plan.main:
        return np.zeros(len(plan), dtype=np.bool_)
    head, body = plan.parts[0], plan.body
    alike = (head.tiles == np.minimum(body.tiles, head.extents)).all(axis=1)
    return np.asarray(head.on & alike & (body.outer[:, : model.n_spatial] == 1).all(axis=1), dtype=np.bool_)


def _otherwise(last: Part, before: Part) -> Mask:
    """Whether the last part goes over its tiles in other slices, or its sums in finer pieces: it is no tile like the others.

    In coarser ones it is not: that is the program of a first part that is finer and as long as all the others, up to half of an
    axis; and what comes last is better fine.
    """
    others = np.minimum(before.tiles, last.extents)
    finer = (last.tiles < others).any(axis=1) & (last.tiles <= others).all(axis=1)
    return np.asarray(finer | (last.slices != before.slices) | (last.thick != before.thick), dtype=np.bool_)


def _joined(model: Model, plan: Plan, again: Part, last: Part) -> Part:
    """The part after the first cut with what the second one took from it."""
    extents = np.where(again.on[:, None], np.maximum(last.extents, 0), last.extents).copy("K")
    differ = again.on[:, None] & (again.lows != last.lows)
    extents = np.where(differ, last.extents + again.extents, extents)
    return replace(last, extents=extents, tiles=behind(model, plan.body.tiles, extents))
