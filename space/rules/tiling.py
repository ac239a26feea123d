"""Tiling: the inner extent of every axis, a divisor of what the cuts leave of the axis."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from math import isqrt, prod

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Part, Plan
from space.rule import Column, Ints, NumericRule, Points

EVERY = 64  # tiles up to this may divide what a cut leaves; longer ones are divisors of the whole axis only
TABLES = 256  # extents up to this have all their nearest divisors in one table


@cache
def divisors(n: int) -> tuple[int, ...]:
    """All divisors of ``n``, ascending."""
    low = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return (*low, *(n // d for d in reversed(low) if d * d != n))


def nearest_divisors(n: int, choices: tuple[int, ...], tiles: npt.NDArray[np.integer]) -> Ints:
    """For every tile the largest divisor of ``n`` among the choices that is no larger (1 for 0), shape as given."""
    found = np.array([1, *(d for d in divisors(n) if d > 1 and d in choices)], dtype=np.int64)
    return np.asarray(found[np.searchsorted(found, np.maximum(tiles, 1), side="right") - 1], dtype=np.int64)


def tiled_axes(model: Model) -> list[int]:
    """The spatial axes that tiles can differ along."""
    axes = model.nest.axes
    return [a for a in model.nest.spatial if axes[a].extent > 1 and f"tile_{axes[a].name}" in model.index]


def divides(model: Model, part: Part) -> Mask:
    """Whether a part's tiles divide it along all spatial axes, shape (n,)."""
    spatial = slice(model.n_spatial)
    return np.asarray((part.extents[:, spatial] % part.tiles[:, spatial] == 0).all(axis=1), dtype=np.bool_)


def even(model: Model, plan: Plan) -> Mask:
    """Whether tiles divide every part that there is, shape (n,)."""
    ok = np.ones(len(plan), dtype=np.bool_)
    for part in plan.parts:
        ok &= ~part.on | divides(model, part)
    return ok


@cache
def _nearest(extent: int, choices: tuple[int, ...]) -> Ints:
    """``nearest_divisors`` of every tile of everything up to an extent, a row each; shape (extent + 1, extent + 1)."""
    table = np.ones((extent + 1, extent + 1), dtype=np.int64)
    for n in range(1, extent + 1):
        table[n] = nearest_divisors(n, choices, np.arange(extent + 1))
    return table


def make_room(model: Model, before: Points, points: Points, rng: np.random.Generator) -> None:
    """Of half of the rows in which the tile of an axis has grown, that of another axis shrinks by as much, in place.

    Args:
        model: of the sketch.
        before: the rows as they were.
        points: the rows.
        rng: source of randomness.
    """
    tiles = [model.index[f"tile_{axis.name}"] for axis in model.nest.axes]
    old, new = before[:, tiles], points[:, tiles]
    grown = np.flatnonzero((new > old).any(axis=1) & (rng.random(len(points)) < 0.5))
    # Row by row a few numbers, of which Python makes less ado.
    for n, was, now in zip(grown.tolist(), old[grown].tolist(), new[grown].tolist()):
        others = [a for a, (size, since) in enumerate(zip(now, was)) if 1 < size <= since]
        if others:
            a = others[rng.integers(len(others))]
            choices = model.columns[tiles[a]].choices
            points[n, tiles[a]] = choices[max(bisect_right(choices, now[a] * prod(was) // prod(now)) - 1, 0)]


class Tiling(NumericRule):
    """One column per axis: how many iterations stay inside the tile."""

    name = "tile"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``tile_<axis>``."""
        made = []
        for axis in model.nest.axes:
            spread = range(1, min(axis.extent, EVERY) + 1) if model.cuts and not axis.reduce else ()
            made.append(Column(f"tile_{axis.name}", tuple(sorted({*spread, *divisors(axis.extent)})), axis.extent, 1))
        return tuple(made)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Every part has the tile, or less where it is smaller; a first part is one tile of the axis that it was cut from."""
        tiles = model.extents[:, None].repeat(len(points), axis=1).T
        for a, axis in enumerate(model.nest.axes):
            tiles[:, a] = model.column(points, f"tile_{axis.name}", axis.extent)
        for n, part in enumerate(plan.parts):
            part.tiles = np.minimum(tiles, part.extents)
            if n < plan.main:
                part.tiles = np.where(part.extents < model.extents[None, :], part.extents, part.tiles)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """The largest tile that divides the main part."""
        for a, axis in enumerate(model.nest.axes):
            column = model.index[f"tile_{axis.name}"]
            extents, choices = plan.body.extents[:, a], model.columns[column].choices
            if axis.extent <= TABLES:
                points[:, column] = _nearest(axis.extent, choices)[extents, points[:, column]]
                continue
            for extent in np.unique(extents):
                rows = np.flatnonzero(extents == extent)
                # Tables of all that cuts may leave of a long axis would fill the memory.
                points[rows, column] = nearest_divisors(int(extent), choices, points[rows, column])

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """A reduction is split only around a load: without one inside, the outer loop folds back into the instruction."""
        deepest = np.zeros(len(points), dtype=np.int64)
        for attach in plan.attach:
            deepest = np.maximum(deepest, attach)
        for a in model.nest.reduce:
            column = model.index[f"tile_{model.nest.axes[a].name}"]
            points[:, column] = np.where(deepest > plan.position[:, a], points[:, column], model.extents[a])

    def allows(self, model: Model, points: Points, plan: Plan) -> npt.NDArray[np.bool_]:
        """Tiles divide every part; what they leave of a reduction is summed up in a smaller one."""
        return even(model, plan)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log sizes of tiles and of what is outside."""
        body = plan.body
        inner, outer = np.log2(body.tiles), np.log2(body.outer)
        return [*inner.T, *outer.T]

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """A new tile along one axis, more often a divisor of the axis than not; as often one that takes room from another."""
        axes = [a for a, axis in enumerate(model.nest.axes) if axis.extent > 1]
        if not axes:
            return
        before = points.copy()
        which = rng.integers(len(axes), size=len(points))
        for k, a in enumerate(axes):
            rows = np.flatnonzero(which == k)
            column = model.columns[model.index[f"tile_{model.nest.axes[a].name}"]]
            drawn = rng.choice(np.array(divisors(model.nest.axes[a].extent)), size=len(rows))
            odd = rng.random(len(rows)) < 0.3
            drawn[odd] = rng.choice(np.array(column.choices), size=int(odd.sum()))
            points[rows, model.index[column.name]] = drawn
        make_room(model, before, points, rng)

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Tiles of axes longer than one."""
        tiles = plan.body.tiles[0]
        text = " ".join(f"{a.name}={tiles[i]}" for i, a in enumerate(model.nest.axes) if a.extent > 1)
        return f"tile {text or '1'}"
