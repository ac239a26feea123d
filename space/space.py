"""The design space: what its points cost, what the model sees of them, and what each becomes. It composes; rules decide."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError, UnknownNameError
from sim.markup import number, table, text
from space.bound import bound
from space.build import Build
from space.draft import begins, draft
from space.formed import deep
from space.lanes import masked
from space.machine_bound import MachineBound, machine_bound
from space.normalise import trait_of
from space.plan import Plan
from space.rule import Ints, Points
from space.rules.cuts import decoded
from space.sampling import Sampled
from space.sketch import Sketch
from space.visits import different, told_apart, visits

if TYPE_CHECKING:
    from autosched.schedule import Schedule, Trace

VERSION = 33  # of the meaning of a point; part of every record
SHOWN = 12  # values of a decision that are listed for people


class Space(Sampled):
    """All schedules of a program that the rules compose, every one of them legal.

    Args:
        func: an unscheduled program.
        target: a target or its name.
        rules: the rules to compose; all of ours when not given.
        fixed: decisions by name (``names`` lists them) that are made already: the space holds only the points that have them.

    Raises:
        ProgramError: the program is outside what the rules can tile; the message says why. A fixed decision that no point has.
        UnknownNameError: a fixed decision that there is not.
    """

    def listed(self) -> list[tuple[str, int, str]]:
        """The decisions that are open, for people: name, how many values, and which."""
        return [(name, len(v), ", ".join(map(str, v[:SHOWN])) + (f" ... {v[-1]}" if len(v) > SHOWN else ""))
                for name, v in zip(self.names, self.choices) if len(v) > 1]

    def _repr_html_(self) -> str:
        """The decisions and what each may be, for notebooks."""
        done = "; ".join(text(" | ".join(s.done) or "as it is") for s in self.sketches)
        said = (f"<p>No schedule is faster than {number(self.floor())} cycles; {number(self.machine_bound())} are the least of "
                f"any program on {text(self.target.name)}. Sketches: {done}.</p>")
        return said + table(["decision", "values", "which"], self.listed(), {1})

    # -- judgement ------------------------------------------------------------------------------------------------------

    def draft(self, points: Points, enough: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
        """Estimated cycles, shape (n,); several nests one after the other.

        Args:
            points: shape (n, width).
            enough: estimates above these need not be worked out to their end, shape (n,): what is returned is above them, too.
        """
        out = np.zeros(len(points))
        for k, rows, own in self.groups(points):
            plans = (model.plan(mine) for model, mine in self.sketches[k].split(own))
            out[rows] = self.estimated(k, plans, None if enough is None else enough[rows])
        return out

    def estimated(self, sketch: int, plans: Iterable[Plan], enough: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
        """That of rows of a sketch, by what they mean, nest by nest; ``enough`` as for ``draft``."""
        drafts = [draft(model, plan, enough) for model, plan in zip(self.sketches[sketch].models, plans)]
        # One after the other: of whatever rows, the same. The program is launched, and ends, once.
        return np.asarray(sum(drafts) - (len(drafts) - 1) * begins(self.target.config), dtype=np.float64)

    def bound(self, points: Points) -> Ints:
        """Proven lower bound of the cycles, shape (n,)."""
        out = np.zeros(len(points), dtype=np.int64)
        for k, rows, own in self.groups(points):
            out[rows] = bound([(model, model.plan(mine)) for model, mine in self.sketches[k].split(own)])
        return out

    def floor(self) -> int:
        """A lower bound over the whole space, in cycles: every operand crosses the bus at least once, whatever the tiles."""
        least = []
        for sketch in self.sketches:
            nests = [(model, model.neutral(1)) for model in sketch.models]
            for model, plan in nests:
                plan.drops[:] = bool(model.padding.taps)
            least.append(int(bound(nests)[0]))
        return min(least)

    @cached_property
    def machine(self) -> MachineBound:
        """The bound of the machine, term by term: of every form of the program the least.

        Forms that store between nests, or take away what they add again, count where there are no others; shared loads make none.
        """
        ranks = [trait_of(s.done).apart for s in self.sketches]
        plain = [s for s, rank in zip(self.sketches, ranks) if rank == min(ranks)]
        visited = visits(self.func, self.target) if any(s.models[0].origins for s in plain) else 0
        given = {b.name for b in self.func.buffers}
        masks = masked(self.func)
        # What is the same the text says, and draws do, of what each of them sees: no program needs more than the less of both.
        ways = (True,) if told_apart(self.func, self.target) else (True, False)
        apart = different(self.func, self.target)
        least = min(filter(None, (deep(s.models, masks) for s in plain)), default=0)
        found = (machine_bound(s.models, visited, given, least, trait_of(s.done).fuller, a, apart) for s in plain for a in ways)
        return min(found, key=lambda b: b.cycles)

    def machine_bound(self) -> int:
        """Cycles that no program of the machine can beat which forms the workload's products on the GEMM."""
        return self.machine.cycles

    def features(self, points: Points, drafts: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float32]:
        """What the cost model sees, shape (n, f): what every rule says of its decision, the draft and the sketch.

        ``f`` is that of the sketch with the most, whichever sketches the points are of.

        Args:
            points: shape (n, width).
            drafts: of these points, where they are known; worked out otherwise. Shape (n,).
        """
        out = np.zeros((len(points), self._features_each + 2), dtype=np.float32)
        for k, rows, own in self.groups(points):
            values = self._features(k, own)
            out[rows, 2 : 2 + values.shape[1]] = values
        out[:, 0] = points[:, 0]
        out[:, 1] = np.log2(self.draft(points) if drafts is None else drafts)
        return out

    @cached_property
    def _features_each(self) -> int:
        """What rules say of a point of the sketch with the most."""
        return max(len(self._features(k, sketch.default[None])[0]) for k, sketch in enumerate(self.sketches))

    def _features(self, sketch: int, own: Points) -> npt.NDArray[np.float64]:
        parts = [(model, mine, model.plan(mine)) for model, mine in self.sketches[sketch].split(own)]
        found = [f for model, mine, plan in parts for rule in model.rules for f in rule.features(model, mine, plan)]
        return np.asarray(np.stack(found, axis=1), dtype=np.float64)

    def same_tiles(self, points: Points) -> Points:
        """The columns that say what a point's tiles are: points equal in them tell the model little more than one of them."""
        places = [0, *(n for n, name in enumerate(self.names) if name.rpartition(".")[2].startswith("tile_"))]
        return points[:, places]

    def same_loads(self, points: Points) -> Points:
        """The columns that say inside of how many loops it is loaded what products read."""
        return points[:, self._loads]

    @cached_property
    def _loads(self) -> list[int]:
        return sorted({int(places[n]) for sketch, places in zip(self.sketches, self._places) for n in sketch.loads})

    def same_loops(self, points: Points) -> Points:
        """What of points says which loops there are, in which order, and what stays on chip; equal for points of one kind."""
        out = np.zeros_like(points)
        out[:, 0] = points[:, 0]
        for k, rows, own in self.groups(points):
            kind, (kept, tiles, whole) = np.zeros_like(own), self.sketches[k].looping
            kind[:, kept] = own[:, kept]
            kind[:, tiles] = own[:, tiles] < whole
            out[rows] = self.wide(k, kind)
        return out

    def same_beginnings(self, points: Points) -> Points:
        """The forms of points, and which axis each nest's first part is cut from: 1 + the axis, 0 without such a part."""
        found = np.zeros((len(points), 1 + max(len(sketch.models) for sketch in self.sketches)), dtype=np.int32)
        found[:, 0] = points[:, 0]
        for k, rows, own in self.groups(points):
            for n, (model, mine) in enumerate(self.sketches[k].split(own)):
                if "head" in model.index:
                    found[rows, 1 + n] = 1 + decoded(model, mine, "head")[0]
        return found

    # -- meaning --------------------------------------------------------------------------------------------------------

    def meaning(self, points: Points) -> tuple[Sketch, Plan]:
        """The sketch and the plan of points that share a sketch of one nest; points of shape (n, width), at least one.

        Raises:
            ValueError: points of several sketches, or of one with several nests.
        """
        if len(set(points[:, 0].tolist())) != 1:
            raise ValueError("points of several sketches have no common plan")
        k = int(points[0, 0])
        if len(self.sketches[k].models) > 1:
            raise ValueError("points of several nests have a plan for each")
        return self.sketches[k], self.sketches[k].model.plan(np.ascontiguousarray(points[:, self._places[k]]))

    def trace(self, point: npt.NDArray[np.int32]) -> Trace:
        """The schedule of a point as a trace, without applying it."""
        return self.traces(point[None])[0]

    def traces(self, points: Points) -> list[Trace]:
        """Those of points, in order; what all of a sketch's mean is worked out together.

        Args:
            points: shape (n, width).
        """
        found: dict[int, Trace] = {}
        for k, rows, own in self.groups(points):
            nests = [(model, mine, model.plan(mine)) for model, mine in self.sketches[k].split(own)]
            for n, row in enumerate(rows.tolist()):
                found[row] = self.sketches[k].prefix.copy()
                for model, mine, plan in nests:
                    Build(model, self.target, mine[n], plan if len(rows) == 1 else plan.of(np.array([n])), found[row]).emit()
        return [found[row] for row in range(len(points))]

    def schedule(self, point: npt.NDArray[np.int32]) -> Schedule:
        """The schedule of a point, applied."""
        from autosched.schedule import Schedule

        sch = Schedule(self.func)
        self.trace(point).apply_to_schedule(sch, remove_postproc=False)
        return sch

    def point_of(self, sch: Schedule | Trace, anyhow: bool = False) -> npt.NDArray[np.int32]:
        """The point with the very trace of a schedule, or with its program.

        Args:
            sch: a schedule of the program, or its trace, e.g. of a logged record.
            anyhow: another version may have brought the program into its form by other steps: only those behind them are
                compared, and whether the point's program is the schedule's is for the caller to see.

        Raises:
            ProgramError: none was found; the first step that is in the way, and the nearest point.
        """
        from autosched.schedule import Trace
        from space.inverse import point_of

        return point_of(self, sch if isinstance(sch, Trace) else sch.trace, anyhow)

    def point(self, **decisions: int) -> npt.NDArray[np.int32]:
        """A point from named decisions (``names`` lists them); others are as ``fixed``, or whole, first, outermost, one bank.

        Raises:
            ProgramError: a name or a value that the space does not have, one that is fixed otherwise, a point that is not in it.
        """
        against = next((name for name, value in decisions.items() if self.fixed.get(name, value) != value), None)
        if against is not None:
            raise ProgramError(f"decision {against}={decisions[against]}: it is fixed, {against}={self.fixed[against]}")
        decisions = {**self.fixed, **decisions}
        k = decisions.get("sketch", self._open[0])
        if k not in self.choices[0]:
            raise ProgramError(f"decision sketch={k}: choose one of {', '.join(map(str, self.choices[0]))}")
        columns, names = self.sketches[k].columns, self.sketches[k].names
        row = self.sketches[k].default
        for name, value in decisions.items():
            if name == "sketch":
                continue
            if name not in names:
                raise UnknownNameError("decision", name, ["sketch", *names], self.width)
            column = names.index(name)
            choices = columns[column].choices
            if value not in choices:
                raise ProgramError(f"decision {name}={value}: choose one of {', '.join(map(str, choices))}")
            row[column] = value
        wide = self.wide(k, row[None])
        if not self.valid(wide)[0]:
            raise ProgramError(
                f"{self.explain(wide[0])} is not in the space: it does not fit the memories, or has a simpler twin"
            )
        return np.asarray(wide[0], dtype=np.int32)

    def explain(self, point: npt.NDArray[np.int32]) -> str:
        """The decisions of a point in one line."""
        sketch = self.sketches[int(point[0])]
        own = point[self._places[int(point[0])]]
        said = [*sketch.done]
        for model, mine in sketch.split(own[None]):
            plan = model.plan(mine)
            texts = [text for rule in model.rules if (text := rule.explain(model, mine[0], plan))]
            if len(sketch.models) > 1 and texts:
                texts[0] = f"{model.nest.out}: {texts[0]}"
            said += texts
        return " | ".join(said)
