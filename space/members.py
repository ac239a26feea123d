"""The rows of a design space: what their columns are, which rows are points, and what others become by repair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError, UnknownNameError
from autosched.ir.stmt import PrimFunc
from autosched.target import Target, get_target
from space.distinct import distinct
from space.plan import Mask, Plan
from space.rule import Ints, NumericRule, Points, Rule, StructuralRule
from space.rules import NUMERIC, STRUCTURAL
from space.sketch import Sketch, sketches

PASSES = 4  # repairs until nothing changes; a row that still does is no point



class Members:
    """Sketches and their columns side by side, and which rows of values are points. Arguments are those of ``Space``."""

    def __init__(
        self, func: PrimFunc, target: Target | str, rules: Sequence[Rule] | None = None, fixed: Mapping[str, int] | None = None
    ) -> None:
        self.func = func
        self.target = get_target(target)
        self.rules: tuple[Rule, ...] = (*STRUCTURAL, *NUMERIC) if rules is None else tuple(rules)
        self.sketches: tuple[Sketch, ...] = sketches(
            func, self.target,
            [r for r in self.rules if isinstance(r, StructuralRule)], [r for r in self.rules if isinstance(r, NumericRule)],
        )
        self.names = tuple(dict.fromkeys(["sketch", *(name for sketch in self.sketches for name in sketch.names)]))
        place = {name: n for n, name in enumerate(self.names)}
        self._places = [np.array([place[name] for name in s.names], dtype=np.int64) for s in self.sketches]
        self._fixed: dict[int, int] = {}
        self._open = list(range(len(self.sketches)))
        self._fix(fixed or {})

    def _fix(self, fixed: Mapping[str, int]) -> None:
        """Takes the decisions that are made already."""
        for name, value in fixed.items():
            if name not in self.names:
                raise UnknownNameError("decision", name, self.names, self.width)
            at = self.names.index(name)
            values = self.choices[at].tolist()
            if value not in values:
                raise ProgramError(f"decision {name}={value}: choose one of {', '.join(map(str, values))}")
            self._fixed[at] = value
        self.__dict__.pop("choices", None)
        every = range(len(self.sketches))
        self._open = [k for k in every if all(self._has(k, at, value) for at, value in self._fixed.items())]
        if not self._open:
            raise ProgramError(f"no form of the program has the decisions {', '.join(fixed)} together")

    def _has(self, sketch: int, at: int, value: int) -> bool:
        """Whether a form has a value among its choices of a column; of the first column it has its own number."""
        if not at:
            return value == sketch
        own = np.flatnonzero(self._places[sketch] == at)
        return bool(len(own)) and value in self.sketches[sketch].known[int(own[0])]

    @property
    def fixed(self) -> dict[str, int]:
        """The decisions that are made already, by name."""
        return {self.names[at]: value for at, value in sorted(self._fixed.items())}

    @property
    def identity(self) -> tuple[object, ...]:
        """What the space is of, for tables that remember: they keep ``func`` and ``rules`` too, whose addresses it has."""
        return (id(self.func), self.target.key(), *map(id, self.rules), *sorted(self.fixed.items()))

    def _pinned(self, points: Points) -> Points:
        """Rows with the decisions that are fixed, in place."""
        for at, value in self._fixed.items():
            points[:, at] = value
        return points

    def as_fixed(self, points: Points) -> Mask:
        """Which rows have the decisions that are fixed, shape (n,)."""
        ok = [points[:, at] == value for at, value in self._fixed.items()]
        return np.asarray(np.logical_and.reduce([np.isin(points[:, 0], self._open), *ok]), dtype=np.bool_)

    @cached_property
    def nests(self) -> Ints:
        """How many nests each sketch has, shape (sketches,)."""
        return np.array([len(sketch.models) for sketch in self.sketches], dtype=np.int64)

    @property
    def width(self) -> int:
        """Columns of a point: the sketch, then every sketch's columns by name; one that a sketch does not have holds 0."""
        return len(self.names)

    @cached_property
    def choices(self) -> tuple[Ints, ...]:
        """Per column, every value it may take in some sketch."""
        table: list[set[int]] = [set(self._open), *(set() for _ in self.names[1:])]
        for sketch, places in zip(self.sketches, self._places):
            for n in set(range(1, self.width)) - set(places.tolist()):
                table[n].add(0)
            for at, column in zip(places, sketch.columns):
                table[at].update(column.choices)
        for n, value in self._fixed.items():
            table[n] = {value}
        return tuple(np.array(sorted(values), dtype=np.int64) for values in table)

    # -- rows of one sketch ---------------------------------------------------------------------------------------------

    def places(self, sketch: int) -> Ints:
        """Where the columns of a sketch stand in a point."""
        return self._places[sketch]

    def groups(self, points: Points) -> Iterator[tuple[int, npt.NDArray[np.int64], Points]]:
        """(sketch, rows, their columns) for every sketch that occurs."""
        for k in range(len(self.sketches)):
            rows = np.flatnonzero(points[:, 0] == k)
            if len(rows):
                yield k, rows, np.ascontiguousarray(points[rows][:, self._places[k]])

    def wide(self, sketch: int, rows: Points) -> Points:
        """Points of rows of a sketch's columns."""
        wide = np.zeros((len(rows), self.width), dtype=np.int32)
        wide[:, 0] = sketch
        wide[:, self._places[sketch]] = rows
        return wide

    def grown(self, point: Sequence[int], version: int) -> tuple[int, ...]:
        """The numbers of an earlier version's point, and the defaults of what rules have got to decide since, each in its place.

        Args:
            point: the numbers; those of forms that the program has got since stand behind all others, and may be missing.
            version: of the space that they are of.

        Returns:
            Such a row, or nothing if there are too many numbers. What they mean may have changed all the same.
        """
        later = {int(at) for sketch, places in zip(self.sketches, self._places)
                 for at, column in zip(places, sketch.columns) if column.since > version}
        if not point or not 0 <= point[0] < len(self.sketches) or len(point) + len(later) > self.width:
            return ()
        own = self.wide(point[0], self.sketches[point[0]].default[None])[0].tolist()
        left = iter(point)
        return tuple(own[at] if at in later else next(left, 0) for at in range(self.width))

    # -- membership -----------------------------------------------------------------------------------------------------

    def valid(self, points: Points) -> Mask:
        """Whether each point is in the space: legal, not too long a program, the representative of its twins; shape (n,)."""
        inside = np.zeros(len(points), dtype=np.bool_)
        for k, rows, own in self.groups(points):
            known = np.ones(len(rows), dtype=np.bool_)
            for n, column in enumerate(self.sketches[k].columns):
                known &= np.isin(own[:, n], column.choices)
            rows, own = rows[known], own[known]
            ok = (self.repaired(k, own)[0] == own).all(axis=1) & (points[rows] == self.wide(k, own)).all(axis=1)
            ok[ok] = self.sketches[k].allowed(own[ok])
            inside[rows] = ok
        return inside & self.as_fixed(points)

    def repaired(self, sketch: int, own: Points) -> tuple[Points, Mask, list[Plan]]:
        """Rows repaired once; which of them settling has left alone; plans, nest by nest, which say what those mean."""
        fixed, stays, plans = zip(*(model.repaired(mine) for model, mine in self.sketches[sketch].split(own)))
        return np.ascontiguousarray(np.concatenate(fixed, axis=1)), np.asarray(np.all(stays, axis=0)), list(plans)

    def repair(self, points: Points, passes: int = PASSES) -> tuple[Points, Mask]:
        """The nearest canonical rows, and which of them are in the space; deterministic.

        Args:
            points: any values of the columns' choices, shape (n, width).
            passes: repairs until nothing changes; a row that still does counts as not in the space.
        """
        out, inside = points.copy(), np.zeros(len(points), dtype=np.bool_)
        for k, rows, own in self.groups(points):
            once, stays, _ = self.repaired(k, own)
            # Neighbours are twins of each other more often than not.
            first, which = distinct(once)
            mine = once[first]
            settled = np.zeros(len(mine), dtype=np.bool_)
            settled[which[stays | (once == own).all(axis=1)]] = True
            for _ in range(passes - 1):
                if not len(open_ := np.flatnonzero(~settled)):
                    break
                again, stays, _ = self.repaired(k, mine[open_])
                settled[open_] = stays | (again == mine[open_]).all(axis=1)
                mine[open_] = again
            settled[settled] = self.sketches[k].allowed(mine[settled])
            out[rows] = self.wide(k, mine)[which]
            inside[rows] = settled[which]
        return out, inside & self.as_fixed(out)
