"""What numeric rules do to rows, in NumPy and by brute force: the definition that their compiled forms are held against.

A rule here is one of the space's with its decisions about rows written out once more, as figures of parts that replace others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from space import borders
from space.model import Model
from space.plan import Mask, Part, Plan, along, times
from space.rule import Ints, NumericRule, Points
from space.rules import NUMERIC
from space.rules.banks import Banks
from space.rules.cuts import Cuts, decoded, table
from space.rules.fall import KINDS, Fall, _any, _asked
from space.rules.first import First
from space.rules.late import Late
from space.rules.lead import Lead
from space.rules.order import Order
from space.rules.ramp import Ramp
from space.rules.residency import Residency
from space.rules.rise import FROM_WHOLE, WHOLE, Rise
from space.rules.slices import final
from space.rules.taper import Taper
from space.rules.tiling import Tiling, known_to, nearest, sizes_of, tile_columns


def divides(model: Model, plan: Plan, part: Part) -> Mask:
    """Whether a part's tiles divide it along all spatial axes along which they have to, shape (n,)."""
    return np.asarray(_even(model, plan, part, part.tiles, model.n_spatial).all(axis=1), dtype=np.bool_)


def like_others(model: Model, plan: Plan, part: Part) -> Ints:
    """A part's tiles if it is tiled as the main part is; as they are where those tiles do not divide it; shape (n, axes)."""
    tiles = np.minimum(plan.body.tiles, part.extents)
    even_ = _even(model, plan, part, np.maximum(tiles, 1), len(model.extents))
    return np.asarray(np.where(even_, tiles, part.tiles), dtype=np.int64)


def like_others_along(model: Model, plan: Plan, part: Part, axis: Ints) -> Ints:
    """``like_others`` of each row along an axis of its own, shape (n,); 1 where that is negative."""
    every, at = np.arange(len(plan)), np.maximum(axis, 0)
    extents, others, own = part.extents[every, at], plan.body.extents[every, at], part.tiles[every, at]
    tiles, whole = np.minimum(plan.body.tiles[every, at], extents), model.extents[at]
    even_ = (extents % np.maximum(tiles, 1) == 0) | ((extents == whole) & (others == whole) & model.uneven[at])
    return np.asarray(np.where(axis < 0, 1, np.where(even_, tiles, own)), dtype=np.int64)


def behind(model: Model, tiles: Ints, extents: Ints) -> Ints:
    """The tiles of a part behind the main one: the others', or all of what cuts leave of an axis where those do not divide it.

    Args:
        model: of the sketch.
        tiles: the others', shape (n, axes).
        extents: of the part, shape (n, axes).
    """
    less = np.minimum(tiles, extents)
    whole = (extents % np.maximum(less, 1) > 0) & (extents < model.extents)
    return np.asarray(np.where(whole, extents, less), dtype=np.int64)


def _even(model: Model, plan: Plan, part: Part, tiles: Ints, axes: int) -> Mask:
    """Along which of the first axes tiles divide a part, or need not, since nothing is cut off the axis; shape (n, axes)."""
    extents, whole = part.extents[:, :axes], model.extents[:axes]
    uncut = (extents == whole) & (plan.body.extents[:, :axes] == whole) & model.uneven[:axes]
    return np.asarray((extents % tiles[:, :axes] == 0) | uncut, dtype=np.bool_)


def even(model: Model, plan: Plan) -> Mask:
    """Whether tiles divide every part that there is, along the axes along which they have to, shape (n,)."""
    ok = np.ones(len(plan), dtype=np.bool_)
    for part in plan.parts:
        ok &= ~part.on | divides(model, plan, part)
    return ok


class NumpyTiling(Tiling):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Every part has the tile, or less where it is smaller; a first part is one tile of the axis that it was cut from.

        So is one behind the main part that the tile does not divide.
        """
        # A column's figures stand side by side.
        tiles = points.T.take(tile_columns(model, range(len(model.nest.axes))), axis=0).astype(np.int64).T
        for n, part in enumerate(plan.parts):
            own = part.tiles
            part.tiles = behind(model, tiles, part.extents) if n > plan.main else np.minimum(tiles, part.extents)
            if plan.falls and n == plan.main + 1:
                part.tiles = np.where(own < part.extents, own, part.tiles)
            if n < plan.main:
                part.tiles = np.where(part.extents < model.extents[None, :], part.extents, part.tiles)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        for a, column in enumerate(tile_columns(model, range(len(model.extents))).tolist()):
            for row, extent in zip(points, plan.body.extents[:, a].tolist()):
                sizes = sizes_of(extent, int(model.extents[a]), bool(model.uneven[a]))
                row[column] = nearest(sizes, model.columns[column].choices, row[column])

    def allows(self, model: Model, points: Points, plan: Plan) -> npt.NDArray[np.bool_]:
        """Tiles divide every part along the axes along which they have to.

        Those are cut ones, and where padding is loaded the ones that it lies along. What is left of a reduction is a smaller one.
        """
        body, tied = plan.body, model.tied
        whole = (body.extents[:, tied] % body.tiles[:, tied] == 0).all(axis=1)
        return np.asarray(even(model, plan) & (plan.drops | whole), dtype=np.bool_)


class NumpyCuts(Cuts):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        whole, n, every = plan.body, len(points), np.arange(len(points))
        extents, lows = (np.repeat(figures[None], 4, axis=0) for figures in (whole.extents, whole.lows))
        on = np.zeros((4, n), dtype=np.bool_)
        on[1] = True
        for p, name in ((0, "head"), (2, "cut"), (3, "cut_again")):
            axis, size = decoded(model, points, name)
            on[p] = axis >= 0
            rows, a, its = every[on[p]], axis[on[p]], size[on[p]]
            if p == 0:
                extents[0, rows, a] = its
                extents[1:, rows, a] -= its
                lows[1:, rows, a] += its
            else:
                extents[p - 1, rows, a] -= its
                extents[p:, rows, a] = its
                lows[p:, rows, a] += extents[p - 1, rows, a]
        plan.main = int(on[0].any())
        there = [bool(plan.main), True, on[2].any(), on[2].any() and on[3].any()]
        plan.parts = [replace(whole, extents=extents[p], tiles=extents[p].copy(), on=on[p], lows=lows[p])
                      for p in range(4) if there[p]]

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        for row in points:
            left = model.extents.copy()
            taken: dict[str, bool] = {}
            for name in ("head", "cut", "cut_again"):
                axis, size = table(model)[row[model.index[name]]].tolist()
                taken[name] = axis >= 0 and int(left[axis]) > size and (name != "cut_again" or taken["cut"])
                if not taken[name]:
                    row[model.index[name]] = 0
                else:
                    left[axis] = left[axis] - size if name == "head" else size

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


class NumpyFall(Fall):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Cuts what these tiles take off the main part."""
        if not _any(model, points):
            return
        on, axis = _asked(model, points, plan)
        if not on.any():
            return
        whole, rows = plan.body, np.flatnonzero(on)
        left, taken = (replace(whole, extents=whole.extents.copy("K"), lows=whole.lows.copy("K")) for _ in range(2))
        number, size = KINDS[model.column(points, "fall")[rows]].T
        left.extents[rows, axis[rows]] -= number * size
        taken.extents[rows, axis[rows]] = number * size
        taken.lows[rows, axis[rows]] += left.extents[rows, axis[rows]]
        left.tiles, taken.tiles = left.extents.copy("K"), taken.extents.copy("K")
        taken.tiles[rows, axis[rows]] = size
        taken.on = on
        plan.parts[plan.main : plan.main + 1] = [left, taken]
        plan.falls = True


class NumpyLead(Lead):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The first part's tiles."""
        axis, size = decoded(model, points, "head_tile")
        own = np.flatnonzero(axis >= 0)
        if not plan.main or not len(own):
            return
        first = plan.parts[0]
        tiles = first.tiles.copy("K")
        tiles[own] = like_others(model, plan, first)[own]
        tiles[own, axis[own]] = np.minimum(tiles[own, axis[own]], size[own])
        first.tiles = tiles

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only a first part has tiles of its own; they divide it, and are finer than the others', or as they are and several."""
        if "head_tile" not in model.index:
            return
        own = points[:, model.index["head_tile"]]
        if not plan.main:
            own[:] = 0
        if not own.any():
            return
        axis, size = decoded(model, points, "head_tile")
        first = plan.parts[0]
        finer = (size < like_others_along(model, plan, first, axis)) | _alike(model, points, plan)
        own[~(first.on & (axis >= 0) & finer) | (along(first.extents, axis) % np.maximum(size, 1) > 0)] = 0

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """Tiles as long as the others' make a part of its own only where their initial values, or all stages, stand apart."""
        if "head_tile" in model.index and plan.main:
            points[_alike(model, points, plan) & (plan.parts[0].init == model.n_spatial), model.index["head_tile"]] = 0


def _alike(model: Model, points: Points, plan: Plan) -> Mask:
    """Whether the first part is of several tiles such as the others', which is said by that along the axis it was cut from."""
    (axis, size), (cut, _), first = decoded(model, points, "head_tile"), decoded(model, points, "head"), plan.parts[0]
    same = (axis == cut) & (size == like_others_along(model, plan, first, axis)) & (size < along(first.extents, axis))
    return np.asarray(first.on & (axis >= 0) & same, dtype=np.bool_)


class NumpyRamp(Ramp):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The first part's tiles."""
        if not plan.main:
            return
        tiles = plan.parts[0].tiles.copy("K")
        for a, column in self._columns(model):
            tiles[:, a] = np.minimum(tiles[:, a], points[:, column])
        plan.parts[0].tiles = tiles

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """A reduction is split only around a load: what only the first part loads there splits only the first part's."""
        deepest, others = np.zeros((2, len(points)), dtype=np.int64)
        on = plan.parts[0].on if plan.main else np.zeros(len(points), dtype=np.bool_)
        for attach, keep in zip(plan.attach, plan.keep):
            deepest = np.maximum(deepest, attach)
            others = np.maximum(others, np.where(on & keep, 0, attach))
        for a, column in self._columns(model):
            position, tile = plan.position[:, a], model.index.get(f"tile_{model.nest.axes[a].name}")
            if tile is not None:
                pieces = np.minimum(points[:, column], points[:, tile])
                # Of pieces that leave a smaller one there is no telling but as the others': the column has none.
                alone = (others <= position) & (position < deepest) & known_to(model.values[column], pieces)
                points[alone, column], points[alone, tile] = pieces[alone], model.extents[a]
            points[deepest <= position, column] = model.extents[a]


class NumpyTaper(Taper):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """The last part's tiles."""
        columns, since = self._columns(model), plan.main + 1
        for part, last in zip(plan.parts[since:], final(plan)[since:]):
            rows = np.flatnonzero(last)
            if not len(rows) or not columns:
                continue
            tiles = part.tiles.copy("K")
            for a, column in columns:
                own = points[rows, column]
                tiles[rows, a] = np.where(own > 0, own, tiles[rows, a])
            part.tiles = tiles


class NumpyOrder(Order):
    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Axes of one tile go last, in axis order: moving them changes nothing."""
        spatial = model.n_spatial
        position = model.position[model.column(points, "order")][:, :spatial]
        outer = plan.body.outer[:, :spatial]
        fixed = model.extents[None, :spatial] == 1
        rank = np.where(outer > 1, position, spatial + np.arange(spatial)[None, :] + np.where(fixed, spatial, 0))
        place = np.argsort(np.argsort(rank, axis=1, kind="stable"), axis=1, kind="stable")
        weights, keys, by_key = model.order_keys
        points[:, model.index["order"]] = by_key[np.searchsorted(keys, place @ weights)]


class NumpyResidency(Residency):
    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only a first part that needs all of an operand, and loads it inside its loops, can load it for others."""
        first = plan.parts[0]
        on = first.on if plan.main else np.zeros(len(points), dtype=np.bool_)
        several = np.zeros(len(points), dtype=np.bool_)
        for n, part in enumerate(plan.parts):
            several |= part.on & (n != plan.main)
        for k, operand in enumerate(model.nest.operands):
            name = f"keep_{operand.label}"
            if name not in model.index:
                continue
            kept = points[:, model.index[name]]
            if not kept.any():
                continue
            whole = needs_all(model, plan, k)
            whole &= _gapless(model, plan, np.where(on[:, None], first.tiles, plan.body.tiles), k)
            kept[~(several & whole & (plan.attach[k] > 0))] = 0


def needs_all(model: Model, plan: Plan, operand: int) -> Mask:
    """Whether the first part that there is reads all that any part does of an operand, shape (n,)."""
    first = plan.parts[0]
    extents = np.where(first.on[:, None], first.extents, plan.body.extents)
    return np.asarray(((extents == model.extents) | ~model.uses[operand]).all(axis=1), dtype=np.bool_)


def _gapless(model: Model, plan: Plan, tiles: Ints, operand: int) -> npt.NDArray[np.bool_]:
    """Whether the pieces of an operand leave no holes between them: a stride over more than a piece would."""
    ok = np.ones(len(plan), dtype=np.bool_)
    # An axis that moves a dimension alone, step by step, leaves none.
    steps = [c for c in model.shapes[operand].coeffs.T if c.sum() > 1 or (c < 0).any()]
    if not steps:
        return ok
    inside = plan.position >= plan.attach[operand][:, None]
    ranges = np.where(inside, model.extents[None, :], tiles)
    partial = ranges < model.extents[None, :]
    for c in steps:
        span = (ranges - 1) @ c + 1
        ok &= (~(partial & (c > 0)) | (ranges * c <= span[:, None])).all(axis=1)
    return ok


def several(part: Part, spatial: int) -> Mask:
    """Along which spatial axes a part has several tiles, shape (n, spatial axes)."""
    return np.asarray(part.outer[:, :spatial] > 1, dtype=np.bool_)


def in_front(plan: Plan, part: Part, count: Ints, spatial: int) -> Ints:
    """Loops around what stands in front of some loops of several tiles, counted from the innermost; shape (n,)."""
    found = []
    for position, outer, left in zip(plan.position.tolist(), part.outer.tolist(), count.tolist()):
        places = sorted([p for p, its in zip(position[:spatial], outer) if its > 1], reverse=True)[: max(left, 0)]
        found.append(places[-1] if places else spatial)
    return np.array(found, dtype=np.int64)


class NumpyLate(Late):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """How many loops are left around the stages of the main part, and of the first."""
        for name, part in (("late", plan.body), ("head_late", plan.parts[0])):
            if name == "late" or plan.main:
                part.out = in_front(plan, part, model.column(points, name), model.n_spatial)
                # What stages take at once begins at once.
                part.init = np.minimum(part.init, part.out)

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """No more loops than there are of several tiles, and none without a load inside: that is a tile.

        What stages find where the first part has left it is loaded outside.
        """
        for name, part in (("late", plan.body), ("head_late", plan.parts[0])):
            if name not in model.index:
                continue
            column = model.index[name]
            if not points[:, column].any():
                continue
            there = part.on if name == "late" or plan.main else np.zeros(len(points), dtype=np.bool_)
            most = np.minimum(points[:, column], np.where(there, several(part, model.n_spatial).sum(axis=1), 0))
            out = in_front(plan, part, most, model.n_spatial)
            innermost = in_front(plan, part, np.ones(len(points), dtype=np.int64), model.n_spatial)
            deepest = np.zeros(len(points), dtype=np.int64)
            for k in range(len(model.nest.operands)):
                if k in model.behind:
                    most[plan.keep[k] & (plan.attach[k] > out)] = 0
                elif k not in model.starting:
                    left = plan.keep[k] if name == "late" else np.zeros(len(points), dtype=np.bool_)
                    deepest = np.maximum(deepest, np.where(left, 0, plan.attach[k]))
            most[deepest <= innermost] = 0
            points[:, column] = most


class NumpyFirst(First):
    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only what stands in front of all loops can come first."""
        own = points[:, model.index["addend_first"]]
        if not model.nest.addends or not own.any():
            return
        every = [~(first & model.leads(plan, part)) for part, first in zip(plan.parts, plan.firsts) if first.any()]
        behind = np.logical_and.reduce(every)
        for k in model.nest.addends:
            own[(plan.attach[k] > 0) & behind] = 0


class NumpyBanks(Banks):
    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        for n, label in enumerate([*(o.label for o in model.nest.operands), "acc"]):
            most = np.ones(len(points), dtype=np.int64)
            for part, first in zip(plan.parts, plan.firsts):
                if n < len(model.nest.operands):
                    once = plan.keep[n] | (~first & (plan.attach[n] == 0))
                    times_ = np.where(once, 1, model.trips(plan, part, model.depth(plan, part, n)))
                else:
                    times_ = model.trips(plan, part, part.init)
                most = np.where(part.on, np.maximum(most, times_), most)
            if model.cut is not None and n == model.cut.operand:
                most *= np.max([np.where(p.on, borders.strips(model, plan, p), 1) for p in plan.parts], axis=0)
            column = model.index[f"banks_{label}"]
            points[:, column] = np.minimum(points[:, column], most)


class NumpyRise(Rise):
    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Cuts what is behind these tiles off the first part."""
        rows = _asking(model, points, plan)
        if not len(rows):
            return
        first, found = plan.parts[0], _Two(model, points[rows], plan, rows, model.column(points, "rise_kind")[rows])
        rows, kept = rows[found.on], found.on
        if not len(rows):
            return
        begins, behind = (replace(first, extents=first.extents.copy("K"), tiles=first.tiles.copy("K"), lows=first.lows.copy("K"),
                                  on=first.on.copy(), init=first.init.copy(), out=first.out.copy()) for _ in range(2))
        begins.extents[rows], begins.tiles[rows] = found.begins[kept], found.fine[kept]
        behind.extents[rows], behind.tiles[rows], behind.lows[rows] = found.extents[kept], found.tiles[kept], found.lows[kept]
        behind.on[:] = False
        behind.on[rows], behind.init[rows], behind.out[rows] = True, 0, found.out[kept]
        plan.parts[:1] = [begins, behind]
        plan.main += 1

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """There are such tiles and larger ones behind them, and initial values of both can be written in front of the first.

        Where they are not of the kinds that were asked for they are of others, if any.
        """
        if "head_rise" not in model.index:
            return
        at = [model.index[name] for name in ("head_rise", "rise_kind")]
        rows = _asking(model, points, plan)
        asked = points[rows, at[1]].astype(np.int64)
        found = np.full(len(rows), -1, dtype=np.int64)
        for more in range(3):
            left = np.flatnonzero(found < 0)
            if not len(left):
                break
            kind = (asked[left] + more) % 3
            on = _Two(model, points[rows[left]], plan, rows[left], kind).on
            found[left[on]] = kind[on]
        number = points[rows[found >= 0], at[0]]
        points[:, at] = 0
        points[rows[found >= 0], at[0]], points[rows[found >= 0], at[1]] = number, found[found >= 0]


def _asking(model: Model, points: Points, plan: Plan) -> Ints:
    """The rows that ask for two kinds of tiles in a first part whose initial values stand in front of several, shape (m,)."""
    if not plan.main or "head_rise" not in model.index or not points[:, model.index["head_rise"]].any():
        return np.zeros(0, dtype=np.int64)
    asked = (points[:, model.index["head_rise"]] > 0) & plan.parts[0].on
    for keep in plan.keep:
        asked &= ~keep
    return np.flatnonzero(asked & model.leads(plan, plan.parts[0]))


class _Two:
    """The first part up to so many tiles along its axis, and what is behind them.

    Args:
        model: of the sketch.
        points: some rows.
        plan: of all rows, with a first part of one kind.
        rows: which of them.
        kind: of these, shape (m,).

    Attributes:
        begins: extents of the former, shape (m, axes), like the following four.
        fine: its tiles.
        extents: those of the latter.
        tiles: its tiles.
        lows: its first indices.
        out: outer loops around the latter's stages, shape (m,).
        on: in which rows both are as they have to be, shape (m,).
    """

    def __init__(self, model: Model, points: Points, plan: Plan, rows: Ints, kind: Ints) -> None:
        first, body, position = plan.parts[0].of(rows), plan.body.of(rows), plan.position[rows]
        spatial, every, like = model.n_spatial, np.arange(len(rows)), (kind != WHOLE)[:, None]
        axis = decoded(model, points, "head")[0]
        tile = first.tiles[every, axis]
        kept = model.column(points, "head_rise") * tile
        left = first.extents[every, axis] - kept
        on: Mask = left > 0
        kept, left = np.where(on, kept, tile), np.where(on, left, tile)
        self.begins, self.extents, self.lows = (figures.copy() for figures in (first.extents, first.extents, first.lows))
        self.begins[every, axis], self.extents[every, axis] = kept, left
        self.lows[every, axis] += kept
        tiles = np.where(like, np.minimum(body.tiles, self.extents), self.extents)
        tiles[:, spatial:] = body.tiles[:, spatial:]
        tiles[every, axis] = np.where(like[:, 0], tiles[every, axis], tile)
        fine = np.where((kind == FROM_WHOLE)[:, None], self.begins, first.tiles)
        fine[:, spatial:] = first.tiles[:, spatial:]
        fine[every, axis] = tile
        on &= (self.extents % tiles == 0)[:, :spatial].all(axis=1) | ~like[:, 0]
        # Those behind are larger along some axis, or their sums load in larger pieces; what is whole already is that.
        on &= (fine < tiles).any(axis=1) & ((kind != FROM_WHOLE) | (fine != first.tiles).any(axis=1))
        # Both are several, around their stages as well: values in front of a single one are that one's.
        self.out = np.where(like[:, 0], body.out, spatial)
        for box, its, depth in ((self.begins, fine, first.out), (self.extents, tiles, self.out)):
            on &= ((box > its)[:, :spatial] & (position[:, :spatial] < depth[:, None])).any(axis=1)
            # What is stored at once lies together among the values of all: whole rows of them, or a part of one.
            stored, outside = np.where(position >= depth[:, None], box, its), np.ones(len(rows), dtype=np.bool_)
            for a in range(spatial):
                on &= outside | (stored[:, a] == box[:, a])
                outside &= stored[:, a] == 1
            # Slices are as thick as the others', and leave nothing.
            on &= (first.slices == 0) | (along(stored, first.slices - 1) % first.thick == 0)
        self.fine, self.tiles, self.on = fine, tiles, on


OWN: tuple[NumericRule, ...] = (
    NumpyTiling(), NumpyCuts(), NumpyFall(), NumpyLead(), NumpyRamp(), NumpyTaper(), NumpyOrder(), NumpyResidency(), NumpyLate(),
    NumpyFirst(), NumpyBanks(), NumpyRise(),
)
WRITTEN_OUT: tuple[NumericRule, ...] = tuple([next((own for own in OWN if own.name == rule.name), rule) for rule in NUMERIC])
