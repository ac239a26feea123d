"""Fall: whether in front of the last parts stands one of smaller tiles, so that parts fall in size to the end.

Behind the last load its products are still to be summed up, and behind these their results stored: both take less for less. But
small tiles take long for what they do, and they are done before the next ones have come. What is smaller than the others' tiles
and larger than what comes last leaves neither engine waiting.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Plan, along
from space.rule import Column, Ints, NumericRule, Points
from space.rules.cuts import decoded, value_of
from space.rules.tiling import are_tiles, tile_columns, tiled_axes

TILES, LONG = 4, 7  # such tiles, and iterations that they have together, at most
AROUND, LONGER = 2, 4  # by so many iterations tiles and cuts are shorter or longer that are tried around points; tiles longer
SINCE = 30  # the version of the space that has brought it
KINDS: Ints = np.array([(0, 0), *((n, m) for n in range(1, TILES + 1) for m in range(1, LONG // n + 1))], dtype=np.int64)


def kinds_of(iterations: int) -> list[int]:
    """The values of the column that take so many iterations off; 0 is none of them."""
    return [kind for kind, taken in enumerate(KINDS.prod(axis=1).tolist()) if kind and taken == iterations]


class Fall(NumericRule):
    """``fall``: how many tiles of how many iterations along the axis of the first cut stand in front of it (``KINDS``); 0: none.

    Along the other axes they are tiled as the others are. A single one with a single cut behind it is what two cuts say.
    """

    name = "fall"
    cuts = True
    bred = False  # most of what it says makes no sense with most of what else is drawn: around what is good it is tried

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``fall``, where there are cuts."""
        return (Column("fall", tuple(range(len(KINDS))), since=SINCE),) if model.cuts else ()

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Cuts what these tiles take off the main part."""
        if not _any(model, points):
            return
        on, axis = _asked(model, points, plan)
        if not on.any():
            return
        plan.repeat(plan.main)
        (left, taken), rows = plan.parts[plan.main : plan.main + 2], np.flatnonzero(on)
        number, size = KINDS[model.column(points, "fall")[rows]].T
        left.extents[rows, axis[rows]] -= number * size
        taken.extents[rows, axis[rows]] = number * size
        taken.lows[rows, axis[rows]] += left.extents[rows, axis[rows]]
        for part in (left, taken):
            part.tiles[...], part.outer[...] = part.extents, 1
        taken.tiles[rows, axis[rows]], taken.outer[rows, axis[rows]] = size, number
        taken.on[...] = on
        plan.falls = True

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """There is a cut behind them, two behind a single one, and the main part keeps something."""
        if _any(model, points):
            points[~_asked(model, points, plan)[0], model.index["fall"]] = 0

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """They are smaller than the others, and no smaller than what they stand in front of, which is there.

        Behind a single other tile, whose values are written in front of several along another axis, they are the main part.
        """
        if not plan.falls:
            return
        axis, size = decoded(model, points, "cut")[0], KINDS[model.column(points, "fall")][:, 1]
        falling = (size < along(plan.body.tiles, axis)) & (size >= along(plan.last[0].extents, axis))
        idle = ~falling | ~_asked(model, points, plan)[0] | _is_first(model, plan, axis)
        points[idle, model.index["fall"]] = 0

    def beside(self, model: Model, points: Points) -> tuple[Ints, Points]:
        """Such tiles with the others' tiles and the cut: those divide what all of these and the first part leave."""
        axis, size = decoded(model, points, "cut")
        able = np.isin(axis, tiled_axes(model))
        if "fall" not in model.index or not able.any():
            return super().beside(model, points)
        (head, first), (again, end) = (decoded(model, points, name) for name in ("head", "cut_again"))
        first, end = np.where(head == axis, first, 0), np.where(again == axis, end, 0)
        of, found = [], []
        for n in np.flatnonzero(able).tolist():
            own, a = points[n], axis[n]
            column = tile_columns(model, [a])[0]
            tiles = np.arange(max(2, own[column] - AROUND), own[column] + LONGER + 1)
            cuts = np.arange(max(1, size[n] - AROUND), size[n] + AROUND + 1)
            tile, last, kind = (grid.ravel() for grid in np.meshgrid(tiles, cuts, np.arange(1, len(KINDS)), indexing="ij"))
            number, its = KINDS[kind].T
            left = model.extents[a] - first[n] - last - number * its
            # Elsewhere they would be rounded to others, or taken back.
            good = (its < tile) & (its >= last - end[n]) & (last > end[n]) & (left >= tile) & (left % tile == 0)
            good &= (again[n] >= 0) | (number > 1)
            good &= are_tiles(model, np.full(len(tile), column), tile)
            rows = np.repeat(own[None], int(good.sum()), axis=0)
            rows[:, column], rows[:, model.index["fall"]] = tile[good], kind[good]
            rows[:, model.index["cut"]] = value_of(model, np.full(len(rows), a), last[good])
            found.append(rows)
            of.append(np.full(len(rows), n))
        return np.concatenate(of), np.concatenate(found)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """None: what they are worth the estimate says."""
        return []

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where there are such tiles."""
        if not plan.falls:
            return ""
        axis = model.nest.axes[int(decoded(model, point[None], "cut")[0][0])].name
        number, size = KINDS[int(point[model.index["fall"]])]
        return f"before these {f'{number} of ' if number > 1 else ''}{axis}={size}"


def _any(model: Model, points: Points) -> bool:
    """Whether some row has the decision at all: few have."""
    return "fall" in model.index and bool(points[:, model.index["fall"]].any())


def _asked(model: Model, points: Points, plan: Plan) -> tuple[Mask, Ints]:
    """Which rows ask for such tiles and can have them, and the axis of their first cut, shape (n,) each."""
    axis = decoded(model, points, "cut")[0]
    number, size = KINDS[model.column(points, "fall")].T
    extents = along(plan.body.extents, axis)
    again = decoded(model, points, "cut_again")[0] >= 0
    on = (number > 0) & (axis >= 0) & (again | (number > 1))
    # What the main part has left of its axis is known only once: where they are in the plan already, it is less by them.
    taken = np.where(plan.parts[plan.main + 1].on, number * size, 0) if plan.falls else 0
    return np.asarray(on & (extents + taken > number * size), dtype=np.bool_), axis


def _is_first(model: Model, plan: Plan, axis: Ints) -> Mask:
    """Whether there is no first part and the main one would be one: longer than a tile, which its initial values let it be."""
    body, whole = plan.body, along(plan.body.extents, axis)
    there = plan.parts[0].on if plan.main else np.zeros(len(plan), dtype=np.bool_)
    alone = (along(body.outer, axis) == 1) & (body.init < model.n_spatial) & (value_of(model, axis, whole) > 0)
    return np.asarray(~there & alone, dtype=np.bool_)
