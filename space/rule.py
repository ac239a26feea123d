"""What a rule is: one file that owns one decision, from its columns to the primitives it emits.

A *structural* rule changes the program before it is tiled and so makes sketches; a *numeric* rule makes the columns of a sketch.
A point is a row ``(sketch, columns)``; what a numeric rule's columns mean is written into a :class:`~space.plan.Plan`, which all
arithmetic reads. Leaving a rule out leaves the plan's neutral default: the rest of the space works without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from autosched.schedule import Schedule
    from autosched.schedule.kit.base import BlockRV
    from autosched.target import Target
    from space.build import Build
    from space.draft import Terms
    from space.model import Model
    from space.plan import Plan

PROTOCOL = 2  # of what this file declares; rules written outside this folder may check it

Ints = npt.NDArray[np.int64]
Points = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Column:
    """One decision.

    Args:
        name: under which ``Space.point`` takes it, and ``Space.names`` lists it.
        choices: every value it may take, ascending.
        default: the value when nothing is said: whole, outermost, one bank.
        loosest: the value that needs the least memory, while the others are not known; None where memory does not depend on it.
        eager: the value that lets the engines run furthest ahead of each other, where there is memory for it; None where that
            cannot be said.
        since: the version of the space that has brought it: points of earlier ones have no number for it.
    """

    name: str
    choices: tuple[int, ...]
    default: int = 0
    loosest: int | None = None
    eager: int | None = None
    since: int = 0


class StructuralRule:
    """Changes a program before it is tiled; every way that works is a sketch of its own."""

    name: str = ""

    def apply(self, sch: Schedule, target: Target) -> Sequence[tuple[str, Schedule]]:
        """The alternatives to leaving ``sch`` as it is.

        Args:
            sch: a schedule of the program, with what earlier structural rules did; not to be changed, ``copy()`` it.
            target: the machine.

        Returns:
            (what was done, the schedule) of each; nothing where the rule does not apply.
        """
        raise NotImplementedError


class NumericRule:
    """Makes columns. All methods but ``columns`` and ``plan`` have a neutral default.

    Methods get the rows of one sketch: ``points`` of shape (n, columns of the sketch), read with ``model.column(points, name)``.
    """

    name: str = ""
    cuts: bool = False  # whether it cuts the output's stage, which then nothing in the program may read
    bred: bool = True  # whether points are bred by deciding anew here; else other decisions are only tried around points

    def columns(self, model: Model) -> tuple[Column, ...]:
        """The decisions, in the order in which they are taken."""
        raise NotImplementedError

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Writes what the columns mean into the plan, which others may be shown for some of the rows only.

        So a rule keeps nothing itself between two calls; what has no place in the plan goes to ``plan.others``. It looks at its
        own columns alone, like ``repair``: those of later rules are not repaired yet. A part gets other figures; those that it
        has are not written into, but by compiled rules, which count its tiles anew.
        """
        raise NotImplementedError

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Rewrites own columns of ``points`` in place to the one representative of their twins; earlier rules have done so.

        What it does twice is done by the first time: it looks at its own columns and at the plan, never at later rules' columns.

        Args:
            model: of the sketch.
            points: the rows.
            plan: of the rows, with the repaired columns of earlier rules; not updated here.
        """

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """Like ``repair``, for what only later rules' columns decide."""

    def allows(self, model: Model, points: Points, plan: Plan) -> npt.NDArray[np.bool_]:
        """Which rows are legal as far as this decision goes, shape (n,); never what another value of a later column changes."""
        return np.ones(len(points), dtype=np.bool_)

    def draft(self, model: Model, plan: Plan, terms: Terms) -> None:
        """Corrects the terms of the estimate: once for every part, also of rows that have no such part."""

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Columns for the cost model, each of shape (n,); by default the decisions as they are."""
        return [model.column(points, c.name).astype(np.float64) for c in model.owned(self) if len(c.choices) > 1]

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Changes one own decision of every row, in place, at random; repaired afterwards."""
        columns, counts, first, values = model.drawn(self)
        if not len(columns):
            return
        which = rng.integers(len(columns), size=len(points))
        # Column after column, and drawn at once: what is asked for one by one costs more than all that is drawn.
        rows = np.argsort(which, kind="stable")
        which = which[rows]
        points[rows, columns[which]] = values[first[which] + rng.integers(counts[which])]

    def beside(self, model: Model, points: Points) -> tuple[Ints, Points]:
        """Further rows to be tried around points, with several decisions changed that go together; not repaired.

        Args:
            model: of the sketch.
            points: the rows.

        Returns:
            Of which of them each is a neighbour, shape (m,), and the neighbours, shape (m, columns of the sketch).
        """
        return np.zeros(0, dtype=np.int64), points[:0]

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """The decision of one point (a plan of one row) in a few words; empty where there is nothing to say."""
        return ""

    def before(self, build: Build) -> None:
        """Emits primitives before the output is tiled."""

    def scoped(self, build: Build, anchor: BlockRV | None, pads: dict[int, BlockRV]) -> None:
        """Emits primitives on the whole program, once stages have their memories and before it is cut into parts.

        Args:
            build: the trace.
            anchor: the sum.
            pads: per operand that a block pads, that block.
        """

    def nested(self, build: Build) -> None:
        """Emits primitives once ``build.piece``'s reduction is tiled and its initial value separate, before its loads."""

    def after(self, build: Build) -> None:
        """Emits primitives at the end of ``build.piece``: annotations."""


def evenly(values: npt.NDArray[np.int32], rng: np.random.Generator, n: int) -> npt.NDArray[np.int32]:
    """Some values, each of them drawn evenly, shape (n,): those of ``rng.choice``, which asks for longer than it draws."""
    return values[rng.integers(len(values), size=n)]


Rule = StructuralRule | NumericRule


def product(points: Points, column: int, values: Sequence[int]) -> Points:
    """Every point with every value in one column, in point order."""
    out = np.repeat(points, len(values), axis=0)
    out[:, column] = np.tile(np.asarray(values, dtype=np.int32), len(points))
    return out
