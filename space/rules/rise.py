"""Rise: whether the first part is of two kinds of tiles, a few fine ones and then larger ones, all initial values in front.

Compute waits for the first loads, and writes initial values meanwhile: of all tiles of a first part, if these stand in front.
With so much done ahead the loads of the next tiles are soon there, and finer ones only cost instructions. Those behind the first
few may be larger, then, if their initial values are written as early: it is a part of its own, and both write theirs together.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.model import Model
from space.plan import Plan, columns
from space.rule import Column, Ints, NumericRule, Points
from space.rules.cuts import NAMES as CUTS
from space.rules.cuts import table, values

if TYPE_CHECKING:
    from space.build import Build

TILES = 4  # that go on as they are, along the axis that the first part is cut from
NAMES = ("head_rise", "rise_kind")
ASKED = ("head", *NAMES)  # what says whether there are two kinds
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
        kinds = self._kinds(model, points, plan, 1)
        if kinds is None or not (kinds >= 0).any():
            return
        from space import _rise_kernel

        plan.repeat(0)
        plan.main += 1
        every = plan.stack
        extents, tiles, outer, lows = map(columns, (every.extents, every.tiles, every.outer, every.lows))
        _rise_kernel.split(
            columns(points), model.places(ASKED), table(model), kinds, every.on, extents, tiles, outer, lows,
            columns(plan.position), every.slices, every.thick, every.init, every.out, model.n_spatial, plan.main,
            np.zeros((4, len(model.extents)), dtype=np.int64),
        )

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """There are such tiles and larger ones behind them, and initial values of both can be written in front of the first.

        Where they are not of the kinds that were asked for they are of others, if any.
        """
        if "head_rise" not in model.index:
            return
        kinds = self._kinds(model, points, plan, FROM_WHOLE + 1)
        number, kind = model.owned_at(self)
        if kinds is None:
            points[:, [number, kind]] = 0
            return
        points[kinds < 0, number] = 0
        points[:, kind] = np.maximum(kinds, 0)

    def _kinds(self, model: Model, points: Points, plan: Plan, tried: int) -> Ints | None:
        """As ``_rise_kernel.risen`` finds them, -1 without, shape (n,); None where no row asks for any."""
        if not plan.main or "head_rise" not in model.index or not points[:, model.index["head_rise"]].any():
            return None
        from space import _rise_kernel

        every, found = plan.stack, np.zeros(len(points), dtype=np.int64)
        _, keep, *_ = model.placed(plan, every)
        extents, tiles, outer = map(columns, (every.extents, every.tiles, every.outer))
        _rise_kernel.risen(
            columns(points), model.places(ASKED), table(model), every.on, extents, tiles, outer, columns(plan.position),
            every.slices, every.thick, every.init, every.out, keep, model.n_spatial, plan.main, tried,
            np.zeros((4, len(model.extents)), dtype=np.int64), found,
        )
        return found

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
