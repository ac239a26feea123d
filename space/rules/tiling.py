"""Tiling: the inner extent of every axis: of one that is not cut the smallest for a number of tiles, else a divisor of it.

Of 14 rows, four tiles are of 4, 4, 4 and 2: the last one is guarded. Of what cuts leave tiles are all alike: it is cuts that make
the last one smaller there. What is left behind the main part may be longer than a tile, and is one if tiles do not divide it:
where parts fall in size little is left to do behind the last load, and those between need no tiles like the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, partial
from math import isqrt, prod

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Plan, columns, give_back
from space.rule import Column, Ints, NumericRule, Points, evenly

EVERY = 64  # tiles up to this may divide what a cut leaves; longer ones are divisors of the whole axis only
TABLES = 256  # extents up to this have all their nearest divisors in one table


@cache
def divisors(n: int) -> tuple[int, ...]:
    """All divisors of ``n``, ascending."""
    low = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return (*low, *(n // d for d in reversed(low) if d * d != n))


@cache
def balanced(n: int) -> tuple[int, ...]:
    """The smallest tile for every number of tiles that ``n`` iterations may have, ascending: all divisors are among them."""
    return tuple(sorted({-(-n // several) for several in range(1, n + 1)}))


def nearest(sizes: tuple[int, ...], choices: tuple[int, ...], tiles: npt.NDArray[np.integer]) -> Ints:
    """For every tile the largest of some sizes that is among the choices and no larger (1 for 0), shape as given."""
    found = np.array([1, *(d for d in sizes if d > 1 and d in choices)], dtype=np.int64)
    return np.asarray(found[np.searchsorted(found, np.maximum(tiles, 1), side="right") - 1], dtype=np.int64)


def tiled_axes(model: Model) -> list[int]:
    """The spatial axes that tiles can differ along."""
    axes = model.nest.axes
    return model.once("tiled axes", lambda: [
        a for a in model.nest.spatial if axes[a].extent > 1 and f"tile_{axes[a].name}" in model.index])


def tile_columns(model: Model, axes: Sequence[int]) -> Ints:
    """Where the tiles of some axes stand in a point, shape (axes,)."""
    return np.array([model.index[f"tile_{model.nest.axes[a].name}"] for a in axes], dtype=np.int64)


def some_axes(model: Model, axes: Sequence[int], rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
    """Axes drawn evenly from some that are tiled, and where their tiles stand in a point, shape (n,) each."""
    which = rng.integers(len(axes), size=n)
    own, columns_of = model.once(("axes", *axes), lambda: (np.array(axes, dtype=np.int64), tile_columns(model, axes)))
    return own[which], columns_of[which]


def are_tiles(model: Model, columns: Ints, sizes: Ints) -> Mask:
    """Whether each size is among the choices of its tile column, shape (n,) each."""
    found = np.zeros(len(sizes), dtype=np.bool_)
    for column in set(columns.tolist()):
        own = np.flatnonzero(columns == column)
        found[own] = known_to(model.values[column], sizes[own])
    return found


def known_to(values: Points, sizes: npt.NDArray[np.integer]) -> Mask:
    """Which sizes are among some values, which ascend, shape (n,)."""
    return np.asarray(values[np.minimum(np.searchsorted(values, sizes), len(values) - 1)] == sizes, dtype=np.bool_)


def even(model: Model, plan: Plan, tied: Sequence[int] = ()) -> Mask:
    """Whether tiles divide every part that there is, along the axes along which they have to, shape (n,).

    Args:
        model: of the sketch.
        plan: of the rows.
        tied: further ones, of the main part, where padding is loaded.
    """
    from space import _tiles_kernel

    every, found = plan.stack, np.zeros(len(plan), dtype=np.bool_)
    _tiles_kernel.allowed(
        every.on, columns(every.extents), columns(every.tiles), model.extents, model.uneven, plan.main, model.n_spatial,
        np.array(tied, dtype=np.int64), np.array(plan.drops), found,
    )
    return found


def sizes_of(n: int, extent: int, uneven: bool) -> tuple[int, ...]:
    """The tiles that ``n`` iterations of an axis may have, ascending: they divide them, but not all of an axis that is uneven."""
    return balanced(n) if uneven and n == extent else divisors(n)


@cache
def _nearest(extent: int, choices: tuple[int, ...], uneven: bool) -> Ints:
    """The nearest size of every tile of everything up to an extent, a row each; shape (extent + 1, extent + 1)."""
    table = np.ones((extent + 1, extent + 1), dtype=np.int64)
    for n in range(1, extent + 1):
        table[n] = nearest(sizes_of(n, extent, uneven), choices, np.arange(extent + 1))
    return table


def _suiting(model: Model, axis: int) -> Points:
    """Tiles that suit all of an axis, of a reduction its divisors."""
    own = model.nest.axes[axis]
    return np.array(sizes_of(own.extent, own.extent, bool(model.uneven[axis]) and not own.reduce), dtype=np.int32)


def _tables(model: Model, columns: Ints) -> tuple[Ints, npt.NDArray[np.int16], Ints, Ints]:
    """The tables of all axes but long ones, as ``_tiles_kernel.rounded`` takes them.

    Args:
        model: of the sketch.
        columns: of the axes' tiles, shape (axes,).
    """
    short = np.array([axis.extent <= TABLES for axis in model.nest.axes], dtype=np.bool_)
    tables = [_nearest(axis.extent, model.columns[column].choices, bool(uneven)) if own else np.zeros((0, 0), dtype=np.int64)
              for axis, column, uneven, own in zip(model.nest.axes, columns, model.uneven, short)]
    sizes = np.array([0, *(table.size for table in tables)], dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)  # of a nest without axes, one vector
    every = np.concatenate([none, *(table.ravel() for table in tables)]).astype(np.int16)  # of which every model has its own
    return np.where(short, columns, -1), every, sizes.cumsum()[:-1], np.array([len(table) for table in tables], dtype=np.int64)


def _rounded(model: Model, axis: int, uneven: bool, extents: Ints, tiles: Points) -> Ints:
    """The nearest sizes of tiles of what cuts leave of an axis, shape (n,) each."""
    own = model.nest.axes[axis]
    choices = model.columns[model.index[f"tile_{own.name}"]].choices
    if own.extent <= TABLES:
        return np.asarray(_nearest(own.extent, choices, uneven)[extents, tiles], dtype=np.int64)
    found = np.zeros(len(tiles), dtype=np.int64)
    for extent in np.unique(extents).tolist():
        rows = np.flatnonzero(extents == extent)
        # Tables of all that cuts may leave of a long axis would fill the memory.
        found[rows] = nearest(sizes_of(extent, own.extent, uneven), choices, tiles[rows])
    return found


def make_room(model: Model, before: Points, points: Points, rng: np.random.Generator) -> None:
    """Of half of the rows in which the tile of an axis has grown, that of another axis shrinks by as much, in place.

    Args:
        model: of the sketch.
        before: the rows as they were.
        points: the rows.
        rng: source of randomness.
    """
    tiles: list[int] = model.once("tiles", lambda: [model.index[f"tile_{axis.name}"] for axis in model.nest.axes])
    old, new = before[:, tiles], points[:, tiles]
    grown = np.flatnonzero((new > old).any(axis=1) & (rng.random(len(points)) < 0.5))
    # Row by row a few numbers, of which Python makes less ado.
    every = [(n, was, now, [a for a, (size, since) in enumerate(zip(now, was)) if 1 < size <= since])
             for n, was, now in zip(grown.tolist(), old[grown].tolist(), new[grown].tolist())]
    some = [row for row in every if row[3]]
    drawn = rng.integers(np.array([len(others) for _, _, _, others in some], dtype=np.int64))
    for (n, was, now, others), which in zip(some, drawn.tolist()):
        a = others[which]
        choices = model.columns[tiles[a]].choices
        points[n, tiles[a]] = choices[max(bisect_right(choices, now[a] * prod(was) // prod(now)) - 1, 0)]


class Tiling(NumericRule):
    """One column per axis: how many iterations stay inside the tile."""

    name = "tile"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``tile_<axis>``."""
        made = []
        for axis, uneven in zip(model.nest.axes, model.uneven):
            spread = range(1, min(axis.extent, EVERY) + 1) if model.cuts and not axis.reduce else ()
            sizes = sizes_of(axis.extent, axis.extent, bool(uneven))
            made.append(Column(f"tile_{axis.name}", tuple(sorted({*spread, *sizes})), axis.extent, 1))
        return tuple(made)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Every part has the tile, or less where it is smaller; a first part is one tile of the axis that it was cut from.

        So is one behind the main part that the tile does not divide.
        """
        from space import _tiles_kernel

        every = plan.stack
        extents, tiles, outer = (columns(figures) for figures in (every.extents, every.tiles, every.outer))
        at = model.owned_at(self)
        _tiles_kernel.tiled(columns(points), at, model.extents, extents, plan.main, plan.falls, tiles, outer)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """The largest tile that divides the main part, or that is the smallest for a number of tiles of an axis without cuts."""
        from space import _tiles_kernel

        rows, extents = columns(points), columns(plan.stack.extents)[plan.main]
        _tiles_kernel.rounded(rows, *model.once((self, "tables"), lambda: _tables(model, model.owned_at(self))), extents)
        give_back(points, rows)
        for a, (axis, column) in enumerate(zip(model.nest.axes, model.owned_at(self))):
            if axis.extent > TABLES:
                points[:, column] = _rounded(model, a, bool(model.uneven[a]), plan.body.extents[:, a], points[:, column])

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """A reduction is split only around a load: without one inside, the outer loop folds back into the instruction.

        Where padding is loaded tiles divide the axes that it lies along.
        """
        loaded = np.flatnonzero(~plan.drops)
        for a in (a for a in model.tied if model.uneven[a]):
            column = model.index[f"tile_{model.nest.axes[a].name}"]
            points[loaded, column] = _rounded(model, a, False, plan.body.extents[loaded, a], points[loaded, column])
        deepest = np.zeros(len(points), dtype=np.int64)
        for attach in plan.attach:
            deepest = np.maximum(deepest, attach)
        for a in model.nest.reduce:
            column = model.index[f"tile_{model.nest.axes[a].name}"]
            points[:, column] = np.where(deepest > plan.position[:, a], points[:, column], model.extents[a])

    def allows(self, model: Model, points: Points, plan: Plan) -> npt.NDArray[np.bool_]:
        """Tiles divide every part along the axes along which they have to.

        Those are cut ones, and where padding is loaded the ones that it lies along. What is left of a reduction is a smaller one.
        """
        return even(model, plan, model.tied)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log sizes of tiles and of what is outside."""
        body = plan.body
        inner, outer = np.log2(body.tiles), np.log2(body.outer)
        return [*inner.T, *outer.T]

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """A new tile along one axis, more often one that suits all of the axis; as often one that takes room from another.

        Of a reduction those are divisors: the others are many, and seldom better.
        """
        axes = [a for a, axis in enumerate(model.nest.axes) if axis.extent > 1]
        if not axes:
            return
        before = points.copy()
        which = rng.integers(len(axes), size=len(points))
        for k, a in enumerate(axes):
            rows = np.flatnonzero(which == k)
            column = model.columns[model.index[f"tile_{model.nest.axes[a].name}"]]
            sizes = model.once((self, a), partial(_suiting, model, a))
            drawn = evenly(sizes, rng, len(rows))
            odd = rng.random(len(rows)) < 0.3
            drawn[odd] = evenly(model.values[model.index[column.name]], rng, int(odd.sum()))
            points[rows, model.index[column.name]] = drawn
        make_room(model, before, points, rng)

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Tiles of axes longer than one."""
        tiles = plan.body.tiles[0]
        text = " ".join(f"{a.name}={tiles[i]}" for i, a in enumerate(model.nest.axes) if a.extent > 1)
        return f"tile {text or '1'}"
