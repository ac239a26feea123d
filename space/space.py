"""The design space: points, their enumeration, and what each becomes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError
from autosched.ir.stmt import PrimFunc
from autosched.target import Target, get_target
from space.attach import Attach, Tail
from space.buffering import Buffering
from space.emit import emit
from space.length import short
from space.model import Ints, Model, Points
from space.nest import analyse
from space.order import Order
from space.rule import Rule, product
from space.tiling import Tiling
from space.zeros import Zeros

if TYPE_CHECKING:
    from autosched.schedule import Schedule, Trace

VERSION = 3  # of the meaning of a point; part of every record
CHUNK = 1 << 15  # rows expanded at once: a few MB per array


class Space:
    """All schedules of a program that the rules compose, every one of them legal.

    Args:
        func: an unscheduled program.
        target: a target or its name.

    Raises:
        ProgramError: the program is outside what the rules can tile; the message says why.
    """

    def __init__(self, func: PrimFunc, target: Target | str) -> None:
        self.func = func
        self.target = get_target(target)
        self.nest = analyse(func, self.target)
        self.model = Model(self.nest, self.target)
        self.rules: tuple[Rule, ...] = (Tiling(), Zeros(), Order(), Attach(), Tail(), Buffering())

    @property
    def width(self) -> int:
        """Columns of a point."""
        return self.model.columns.width

    @cached_property
    def choices(self) -> tuple[Ints, ...]:
        """Per column, every value it may take."""
        table: dict[int, Ints] = {}
        for rule in self.rules:
            for column in rule.columns(self.model):
                table[column] = rule.choices(self.model, column)
        return tuple(table[c] for c in range(self.width))

    # -- membership and enumeration -------------------------------------------------------------------------------------

    def valid(self, points: Points) -> npt.NDArray[np.bool_]:
        """Whether each point is in the space: legal, not too long a program, the representative of its twins; shape (n,)."""
        inside = self.model.capacity(points) & self.model.canonical(points)
        if inside.any():
            inside[inside] = short(self.model, points[inside])
        return inside

    def blocks(self) -> Iterator[Points]:
        """All points in lexicographic order of the columns, a block at a time; blocks may be empty."""
        start = np.zeros((1, self.width), dtype=np.int32)
        start[:, : self.model.columns.axes] = 1
        tiles = start
        for column in range(self.model.columns.axes):
            tiles = product(tiles, column, self.choices[column])
        tiles = tiles[self._fits_unbanked(tiles)]
        yield from self._expand(tiles, self.model.columns.axes)

    def _fits_unbanked(self, tiles: Points) -> npt.NDArray[np.bool_]:
        """A necessary condition on tiles alone: every operand loaded as deep as possible, one bank each."""
        deepest = tiles.copy()
        deepest[:, self.model.columns.zeros] = self.choices[self.model.columns.zeros][-1]
        for k in range(len(self.nest.operands)):
            column = self.model.columns.attach(k)
            deepest[:, column] = self.choices[column][-1]
        return self.model.capacity(deepest)

    def _expand(self, points: Points, column: int) -> Iterator[Points]:
        if column == self.width:
            yield points[self.valid(points)]
            return
        step = max(1, CHUNK // len(self.choices[column]))
        for first in range(0, len(points), step):
            wider = product(points[first : first + step], column, self.choices[column])
            yield from self._expand(wider[self._possible(wider, column)], column + 1)

    def _possible(self, points: Points, column: int) -> npt.NDArray[np.bool_]:
        """Drops what no later column can save: later loads as deep as possible, later buffers with one bank."""
        probe = points.copy()
        if column < self.model.columns.zeros:
            probe[:, self.model.columns.zeros] = self.choices[self.model.columns.zeros][-1]
        for k in range(len(self.nest.operands)):
            later = self.model.columns.attach(k)
            if later > column:
                probe[:, later] = self.choices[later][-1]
        fits = self.model.capacity(probe)
        if column < self.model.columns.order:
            # Which outer loops come last is a question to the order.
            return fits
        if column < self.model.columns.attach(len(self.nest.operands) - 1):
            # Whether a split reduction is canonical depends on loads that are not placed yet.
            return fits & self.model.canonical(points, placed=False)
        return fits & self.model.canonical(points)

    def enumerate(self) -> Iterator[Points]:
        """All points, block by block (non-empty)."""
        return (block for block in self.blocks() if len(block))

    def count(self, limit: int = 2_000_000) -> tuple[int, bool]:
        """(number of points, whether it is exact): counting stops at ``limit``."""
        total = 0
        for block in self.enumerate():
            total += len(block)
            if total >= limit:
                return total, False
        return total, True

    def sample(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` distinct valid points (fewer where the space is smaller), drawn at random.

        Args:
            rng: source of randomness; the same state gives the same points.
            n: how many.
        """
        found: dict[bytes, npt.NDArray[np.int32]] = {}
        axes = self.model.columns.axes
        rounds = idle = 0
        while rounds < 50 and idle < 3:
            before = len(found)
            tiles = np.zeros((max(2 * n, 256), self.width), dtype=np.int32)
            for column in range(axes):
                tiles[:, column] = rng.choice(self.choices[column], size=len(tiles))
            for row in self._completed(tiles[self._fits_unbanked(tiles)], rng):
                found.setdefault(row.tobytes(), row)
                if len(found) >= n:
                    return np.stack(list(found.values()))
            rounds, idle = rounds + 1, idle + 1 if len(found) == before else 0
        if found:
            return np.stack(list(found.values()))
        first = next(self.enumerate(), None)
        return first[:n] if first is not None else np.zeros((0, self.width), dtype=np.int32)

    def _completed(self, points: Points, rng: np.random.Generator) -> Points:
        """Decides what comes after the tiles, each column at random among what is possible; drops rows that end nowhere."""
        for column in range(self.model.columns.axes, self.width):
            wider = product(points, column, self.choices[column])
            row = np.repeat(np.arange(len(points)), len(self.choices[column]))
            keep = self._possible(wider, column)
            wider, row = wider[keep], row[keep]
            shuffled = np.lexsort((rng.random(len(wider)), row))
            points = wider[shuffled[np.unique(row[shuffled], return_index=True)[1]]]
        return points[self.valid(points)]

    def neighbours(self, point: npt.NDArray[np.int32]) -> Points:
        """The valid points that differ from ``point`` in one column by one step, or in two columns by a swap of tile sizes."""
        rows = []
        for column, values in enumerate(self.choices):
            at = int(np.searchsorted(values, point[column]))
            near = (at - 1, at + 1) if len(values) > 4 and column != self.model.columns.order else range(len(values))
            for other in near:
                if 0 <= other < len(values) and values[other] != point[column]:
                    row = point.copy()
                    row[column] = values[other]
                    rows.append(row)
        base = len(rows)
        # A tile that changes often needs its load or its bank to change with it: try the flags of each neighbour too.
        flags = [c for rule in self.rules if rule.name in ("attach", "banks") for c in rule.columns(self.model)]
        for row in rows[:base]:
            for column in flags:
                for value in self.choices[column]:
                    if value != row[column]:
                        twin = row.copy()
                        twin[column] = value
                        rows.append(twin)
        candidates = np.unique(np.stack(rows), axis=0)
        inside: Points = candidates[self.valid(candidates) & (candidates != point).any(axis=1)]
        return inside

    def neighbours_of(self, points: Points) -> Points:
        """The distinct neighbours of several points."""
        return np.unique(np.concatenate([self.neighbours(p) for p in points]), axis=0)

    # -- judgement ------------------------------------------------------------------------------------------------------

    def draft(self, points: Points) -> npt.NDArray[np.float64]:
        """Estimated cycles, shape (n,)."""
        return self.model.draft(points)

    def bound(self, points: Points) -> Ints:
        """Proven lower bound of the cycles, shape (n,)."""
        return self.model.bound(points)

    def floor(self) -> int:
        """A lower bound over the whole space, in cycles."""
        return self.model.floor()

    def features(self, points: Points) -> npt.NDArray[np.float32]:
        """What the cost model sees, shape (n, f): log sizes, the decisions, and the parts of the draft."""
        return self.model.features(points)

    # -- meaning --------------------------------------------------------------------------------------------------------

    def trace(self, point: npt.NDArray[np.int32]) -> Trace:
        """The schedule of a point as a trace, without applying it."""
        return emit(self.nest, self.model, self.target, point)

    def schedule(self, point: npt.NDArray[np.int32]) -> Schedule:
        """The schedule of a point, applied."""
        from autosched.schedule import Schedule

        sch = Schedule(self.func)
        self.trace(point).apply_to_schedule(sch, remove_postproc=False)
        return sch

    def point(self, **decisions: int) -> npt.NDArray[np.int32]:
        """A point from named decisions (``explain`` prints the names); what is not given is whole, first, outermost, one bank.

        Raises:
            ProgramError: a name or a value that the space does not have, or a point that is not in it.
        """
        names = self.names
        row = np.zeros(self.width, dtype=np.int32)
        for column, axis in enumerate(self.nest.axes):
            row[column] = axis.extent
        for name, value in decisions.items():
            if name not in names:
                from autosched.errors import UnknownNameError

                raise UnknownNameError("decision", name, names)
            column = names.index(name)
            if value not in self.choices[column]:
                raise ProgramError(f"decision {name}={value}: choose one of {', '.join(map(str, self.choices[column]))}")
            row[column] = value
        if not self.valid(row[None])[0]:
            raise ProgramError(f"{self.explain(row)} is not in the space: it does not fit the memories, or has a simpler twin")
        return row

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name per column."""
        axes = [f"tile_{a.name}" for a in self.nest.axes]
        loads = [f"load_{o.name}" for o in self.nest.operands]
        banks = [f"banks_{o.name}" for o in self.nest.operands]
        return (*axes, "drop_zeros", "order", *loads, "tail", *banks, "banks_acc")

    def explain(self, point: npt.NDArray[np.int32]) -> str:
        """The decisions of a point in one line."""
        model = self.model
        axes = self.nest.axes
        tiles = " ".join(f"{a.name}={point[i]}" for i, a in enumerate(axes) if a.extent > 1)
        sequence = [axes[i].name for i in (*model.orders[point[model.columns.order]], *self.nest.reduce)
                    if axes[i].extent > point[i]]
        at = {0: "root"}
        for i, axis in enumerate((*model.orders[point[model.columns.order]], *self.nest.reduce)):
            at[i + 1] = axes[axis].name
        loads = []
        for k, operand in enumerate(self.nest.operands):
            twice = " x2" if point[model.columns.banks(k)] else ""
            loads.append(f"{operand.name}@{at[int(point[model.columns.attach(k)])]}{twice}")
        tail = int(point[model.columns.tail])
        out = "acc x2" if point[model.columns.acc_banks] else "acc"
        return (f"tile {tiles or '1'} | order {','.join(sequence) or '-'} | load {' '.join(loads)} | {out}"
                + (f" | store by {axes[tail - 1].name}" if tail else "")
                + (" | no zeros" if point[model.columns.zeros] else ""))
