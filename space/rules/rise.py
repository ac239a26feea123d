"""Rise: whether the first part is of two kinds of tiles, a few fine ones and then larger ones, all initial values in front.

Compute waits for the first loads, and writes initial values meanwhile: of all tiles of a first part, if these stand in front.
With so much done ahead the loads of the next tiles are soon there, and finer ones only cost instructions. Those behind the first
few may be larger, then, if their initial values are written as early: it is a part of its own, and both write theirs together.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Mask, Plan, along
from space.rule import Column, Ints, NumericRule, Points
from space.rules.cuts import NAMES as CUTS
from space.rules.cuts import decoded, table, values

if TYPE_CHECKING:
    from space.build import Build

TILES = 4  # that go on as they are, along the axis that the first part is cut from
NAMES = ("head_rise", "rise_kind")
SHIFTS = (-2, -1, 1, 2)  # indices that go from one part to another, where points are tried around one
SINCE = 29  # the version of the space that has brought them
WHOLE, OTHERS, FROM_WHOLE = range(3)  # what follows: whole tiles, the others'; these behind whole ones


class Rise(NumericRule):
    """``head_rise``: with how many tiles along its axis the first part begins, 0 if all are alike; ``rise_kind``: of what kinds.

    Fine ones are as the first part's are otherwise; whole ones are as long along that axis, and whole along the others. Behind
    fine ones are whole ones (0) or such as the main part's (1); or these stand behind whole ones (2).
    """

    name = "rise"
    cuts = True
    bred = False  # most of what it says makes no sense with most of what else is drawn: around what is good it is tried

    def columns(self, model: Model) -> tuple[Column, ...]:
        """Both, where there are cuts; without a sum whose initial values are written, or other axes, without choice."""
        nest = model.nest
        written = nest.anchor is not None and (not model.starting or nest.init_ops != (0, 0))
        able = written and sum(nest.axes[a].extent > 1 for a in nest.spatial) > 1
        counts, kinds = (TILES + 1, 3) if able else (1, 1)
        made = (Column(NAMES[0], tuple(range(counts)), since=SINCE),
                Column(NAMES[1], tuple(range(kinds)), 0, OTHERS if able else 0, since=SINCE))
        return made if model.cuts else ()

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Cuts what is behind these tiles off the first part."""
        rows = _asked(model, points, plan)
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
        at = [model.index[name] for name in NAMES]
        rows = _asked(model, points, plan)
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

    def beside(self, model: Model, points: Points) -> tuple[Ints, Points]:
        """Of two cuts along an axis one takes more by what the other takes less, with any tiles of either kind in front.

        With a first and a last part the main one is as long as it was. Each change by itself may be worse than all together.
        """
        if "head_rise" not in model.index:
            return super().beside(model, points)
        known, row_of = table(model), values(model)
        cuts, risen = ([model.index[name] for name in names] for names in (CUTS, NAMES))
        numbers, kinds = (model.values[at].tolist() for at in risen)
        begins = [(number, kind) for number in numbers for kind in kinds if number or not kind]
        of, found = [], [points[:0]]
        for k, own in enumerate(points):
            for one, other in combinations(cuts, 2):
                (axis, size), (beside, rest) = known[own[one]].tolist(), known[own[other]].tolist()
                for step in SHIFTS if axis == beside >= 0 else ():
                    pair = [row_of.get((axis, left), -1) if left else 0 for left in (size + step, rest - step)]
                    if min(pair) < 0:
                        continue
                    rows = np.repeat(own[None], len(begins), axis=0)
                    rows[:, [one, other]], rows[:, risen] = pair, begins
                    found.append(rows)
                    of += [k] * len(rows)
        return np.array(of, dtype=np.int64), np.concatenate(found)

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Log tiles of the second kind, and of a tile of it; 0 where there is none."""
        if "head_rise" not in model.index or len(model.values[model.index["head_rise"]]) == 1:
            return []
        if plan.main < 2:
            return [np.zeros(len(points))] * 2
        behind = plan.parts[1]
        sizes = np.maximum(model.tiles_run(plan, behind), 1), np.where(behind.on, model.tile_elements(behind), 1)
        return [np.log2(size).astype(np.float64) for size in sizes]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Only said where there are two kinds."""
        if plan.main < 2:
            return ""
        number, kind = (int(point[model.index[name]]) for name in NAMES)
        said = "whole ones" if kind == WHOLE else "the others"
        return f"behind {number} {'whole ones' if kind == FROM_WHOLE else 'of these'} {said}, init together"

    def nested(self, build: Build) -> None:
        """Writes the initial values of both kinds together."""
        if build.plan.main < 2 or build.piece is not build.pieces[1]:
            return
        both, loops = build.pieces[:2], []
        for piece in both:
            assert piece.init is not None and piece.starting
            loops.append(build.add_unit_loop(build.loops(piece.init, piece.starting)[0]))
        together = build.merge(loops)
        for piece in both:
            piece.front = together  # what these are made of is loaded there


def _asked(model: Model, points: Points, plan: Plan) -> Ints:
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
