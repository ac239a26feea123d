"""The design space: sketches and their columns, points, their enumeration, and what each becomes. It composes; rules decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError, UnknownNameError
from autosched.ir.stmt import PrimFunc
from autosched.target import Target, get_target
from sim.markup import number, table, text
from space.around import around
from space.bound import bound
from space.build import Build
from space.distinct import distinct, fresh_of, keys
from space.draft import draft
from space.formed import deep
from space.lanes import masked
from space.machine_bound import MachineBound, machine_bound
from space.normalise import trait_of
from space.plan import Plan
from space.rule import Ints, NumericRule, Points, Rule, StructuralRule, product
from space.rules import NUMERIC, STRUCTURAL
from space.rules.tiling import even
from space.sketch import Sketch, sketches
from space.visits import told_apart, visits

if TYPE_CHECKING:
    from autosched.schedule import Schedule, Trace

VERSION = 28  # of the meaning of a point; part of every record
CHUNK = 1 << 15  # rows expanded at once where all are wanted: a few MB per array
SHOWN = 12  # values of a decision that are listed for people
CROSSED = 0.5  # share of children with decisions of two parents
VARIED = (1.0, 0.5, 0.25)  # chances that a first, a second, a third rule decides anew
PASSES = 4  # repairs until nothing changes; a row that still does is no point
ROUNDS, IDLE = 60, 4  # of draws for a sample at most, and of such that bring nothing new
DRAWN = 256  # rows of a round, at least
LISTED = 1e8  # combinations of decisions up to which points are listed until there are some, where no draw is one
LEAST = 4096  # draws of a form that stand for its size where none of very many is a point

Mask = npt.NDArray[np.bool_]


class Space:
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

    # -- rows of one sketch ---------------------------------------------------------------------------------------------

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

    # -- membership and enumeration -------------------------------------------------------------------------------------

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
        return np.concatenate(fixed, axis=1), np.asarray(np.all(stays, axis=0)), list(plans)

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

    def blocks(self, rows: int = CHUNK) -> Iterator[Points]:
        """All points, sketch by sketch, in lexicographic order, in blocks, some empty: of few ``rows`` at once they come soon."""
        for k in self._open:
            for block in self._expand(k, self.sketches[k].loosest[None], 0, rows):
                yield self.wide(k, block)

    def _expand(self, sketch: int, points: Points, column: int, rows: int) -> Iterator[Points]:
        columns = self.sketches[sketch].columns
        if column == len(columns):
            yield points[self.valid(self.wide(sketch, points))]
            return
        value = self._fixed.get(int(self._places[sketch][column]))
        choices = columns[column].choices if value is None else (value,)
        step = max(1, rows // len(choices))
        for first in range(0, len(points), step):
            wider = product(points[first : first + step], column, choices)
            yield from self._expand(sketch, wider[self._possible(sketch, wider, column)], column + 1, rows)

    def _possible(self, sketch: int, points: Points, column: int) -> Mask:
        """Drops what no later column can save: later ones hold what needs the least memory."""
        starts = self.sketches[sketch].starts
        nest = int(np.searchsorted(starts, column, side="right")) - 1
        model, points = list(self.sketches[sketch].split(points))[nest]
        column -= starts[nest]
        owners = [rule for rule in model.rules for _ in model.owned(rule)]
        fixed = points.copy()
        plan = model.neutral(len(points))
        for rule in model.rules:
            rule.repair(model, fixed, plan)
            rule.plan(model, fixed, plan)
            if rule is owners[column]:
                break
        mine = [n for n, owner in enumerate(owners) if model.rules.index(owner) < model.rules.index(owners[column])]
        mine = [*mine, *(n for n, owner in enumerate(owners) if owner is owners[column] and n <= column)]
        ok = np.asarray((fixed[:, mine] == points[:, mine]).all(axis=1), dtype=np.bool_)
        whole = model.plan(points[ok])
        # Tiles not decided yet are 1, the least; what does not divide yet is asked again later.
        ok[ok] = ~even(model, whole) | model.capacity(whole)
        return ok

    def enumerate(self) -> Iterator[Points]:
        """All points, block by block (non-empty)."""
        return (block for block in self.blocks() if len(block))

    def count(self, limit: int = 200_000) -> tuple[int, bool]:
        """(number of points, whether it is exact): above a number of raw combinations it is an estimate from a sample; 0 where no
        point is known.

        Args:
            limit: of points to list; a larger space is estimated, which costs less than tuning.
        """
        if self.raw() <= 160 * limit:
            total = 0
            for block in self.enumerate():
                total += len(block)
                if total >= limit:
                    break
            else:
                return total, True
        # Every form in its own right: what one form's draws say holds for its own combinations only.
        rng, each = np.random.default_rng(0), max(1 << 12, (1 << 15) // len(self._open))
        about = 0.0
        for k in self._open:
            drawn = self._pinned(self.wide(k, self._drawn(k, rng, each)))
            share = float(self.valid(drawn).mean())
            # Where a hit is too rare for a guess those that draws become by repair are some that there are.
            about += self._raw(k) * share if share else len(self._repairs(drawn[:LEAST]))
        return round(about) or len(self.sample(rng, 1)), False

    def _repairs(self, drawn: Points) -> Points:
        """The distinct points that rows become by repair."""
        rows, inside = self.repair(drawn)
        return fresh_of(rows[inside], set(), set())

    def raw(self) -> float:
        """Combinations of all columns' values, most of them no points."""
        return float(sum(self._raw(k) for k in self._open))

    def _raw(self, sketch: int) -> float:
        columns, places = self.sketches[sketch].columns, self._places[sketch]
        return float(np.prod([float(len(c.choices)) for c, at in zip(columns, places) if int(at) not in self._fixed]))

    def draws(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` rows with every column drawn evenly from its choices, half of those of as many nests from sketches by their size.

        How many nests is drawn evenly, and so is the sketch of the other half: the largest would leave no draws for the others.
        """
        sizes = np.array([self._raw(k) if k in self._open else 0.0 for k in range(len(self.sketches))])
        for count in np.unique(self.nests):
            alike = (self.nests == count) & (sizes > 0)
            sizes[alike] = sizes[alike] / sizes[alike].sum() + 1 / max(int(alike.sum()), 1)
        which = rng.choice(len(self.sketches), size=n, p=sizes / sizes.sum())
        out = np.zeros((n, self.width), dtype=np.int32)
        for k in range(len(self.sketches)):
            rows = np.flatnonzero(which == k)
            out[rows] = self.wide(k, self._drawn(k, rng, len(rows)))
        return self._pinned(out)

    def _drawn(self, sketch: int, rng: np.random.Generator, n: int) -> Points:
        """Rows of a sketch's own columns, each drawn evenly from its choices."""
        return np.stack([rng.choice(np.array(c.choices), size=n) for c in self.sketches[sketch].columns], axis=1).astype(np.int32)

    def sample(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` distinct points (fewer where the space is smaller), drawn at random and repaired.

        Args:
            rng: source of randomness; the same state gives the same points.
            n: how many.
        """
        found: dict[bytes, npt.NDArray[np.int32]] = {}
        rounds = idle = 0
        while rounds < ROUNDS and idle < IDLE:
            before = len(found)
            drawn = self.draws(rng, max(2 * n, DRAWN))
            if rounds % 2:
                # Every other round starts from whole tiles, with some columns drawn: small spaces have few points elsewhere.
                drawn = self._near(drawn, [sketch.default for sketch in self.sketches], rng.random(drawn.shape) < 0.5)
            rows, inside = self.repair(drawn)
            for row in rows[inside]:
                found.setdefault(row.tobytes(), row)
                if len(found) >= n:
                    return np.stack(list(found.values()))
            rounds, idle = rounds + 1, idle + 1 if len(found) == before else 0
        if found:
            return np.stack(list(found.values()))
        # Hardly any tile fits: the smallest do, or nothing does.
        drawn = self.draws(rng, max(2 * n, DRAWN))
        kept = rng.random(drawn.shape) >= rng.choice((1.0, 0.9, 0.75, 0.5), len(drawn))[:, None]
        near = self._repairs(self._near(drawn, [sketch.loosest for sketch in self.sketches], kept))
        if len(near):
            return near[:n]
        first = next(self.enumerate(), None) if self.raw() < LISTED else None
        return first[:n] if first is not None else np.zeros((0, self.width), dtype=np.int32)

    def eager(self, rng: np.random.Generator, n: int) -> Points:
        """Points from ``n`` rows of ``hungry``; those that do not fit the memories are dropped."""
        return self.mutate(self.hungry(rng, n), rng)

    def hungry(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` draws in which most decisions let the engines run as far ahead of each other as they can."""
        drawn = self.draws(rng, n)
        for k, (sketch, places) in enumerate(zip(self.sketches, self._places)):
            rows = np.flatnonzero(drawn[:, 0] == k)
            for column, at in zip(sketch.columns, places):
                if column.eager is not None:
                    drawn[rows[rng.random(len(rows)) < 0.75], at] = column.eager
        return drawn

    def _near(self, drawn: Points, centres: Sequence[npt.NDArray[np.int32]], kept: Mask) -> Points:
        """Rows that keep some of what was drawn, the rest as in a row of their form; of each form its own columns are given."""
        base = np.concatenate([self.wide(k, own[None]) for k, own in enumerate(centres)])[drawn[:, 0]]
        return self._pinned(np.where(kept, drawn, base))

    def mutate(self, parents: Points, rng: np.random.Generator) -> Points:
        """Points made from others: half of them take decisions over from another, then one to three rules decide anew.

        Args:
            parents: points, shape (n, width).
            rng: source of randomness.

        Returns:
            The points; rows that are none, also after repair, are dropped.
        """
        repaired, inside = self.repair(self.varied(parents, rng))
        return repaired[inside]

    def varied(self, parents: Points, rng: np.random.Generator) -> Points:
        """Rows made from points as ``mutate`` says, not repaired."""
        children = parents.copy()
        for k, rows, own in self.groups(parents):
            self._cross(k, own, rng)
            self._vary(k, own, rng)
            children[rows] = self.wide(k, own)
        return self._pinned(children)

    def _cross(self, sketch: int, own: Points, rng: np.random.Generator) -> None:
        """Half of the rows take every other rule's columns from another row."""
        mates = own[rng.permutation(len(own))]
        crossed = rng.random(len(own)) < CROSSED
        for _, _, columns, _ in self.sketches[sketch].deciding:
            taken = crossed & (rng.random(len(own)) < 0.5)
            own[taken, columns] = mates[taken, columns]

    def _vary(self, sketch: int, own: Points, rng: np.random.Generator) -> None:
        """One to three rules of every row decide anew."""
        deciding = self.sketches[sketch].deciding
        if not deciding:
            return
        which = rng.choice(len(deciding), size=(len(own), len(VARIED)), p=self.sketches[sketch].weights)
        which[rng.random(which.shape) >= VARIED] = -1
        decides = np.zeros((len(deciding) + 1, len(own)), dtype=np.bool_)  # the last: no rule
        decides[which.T, np.arange(len(own))] = True
        for n, (model, nest, _, rule) in enumerate(deciding):
            rows = np.flatnonzero(decides[n])
            if len(rows):
                # A rule may change what others decide, so that its own makes sense.
                part = np.ascontiguousarray(own[rows, nest])
                rule.vary(model, part, rng)
                own[rows, nest] = part

    def moved(self, points: Points, sketch: int) -> Points:
        """Rows of another sketch with the decisions of points; a value that it does not have becomes its default."""
        own = np.ascontiguousarray(points[:, self._places[sketch]])
        for n, column in enumerate(self.sketches[sketch].columns):
            # A few rows: asking one by one costs less than asking NumPy.
            known = self.sketches[sketch].known[n]
            for row in own:
                if int(row[n]) not in known:
                    row[n] = column.default
        return self.wide(sketch, own)

    def neighbours(self, point: npt.NDArray[np.int32]) -> Points:
        """The points that differ from ``point`` in one column, or in a tile, an order or a cut and in where something is done."""
        return self.neighbours_of(point[None])

    def neighbours_of(self, points: Points) -> Points:
        """The distinct neighbours of several points, these left out."""
        rows = [self.wide(k, around(self.sketches[k], own)) for k, _, own in self.groups(points)]
        near, inside = self.repair(fresh_of(np.concatenate(rows), set(), set()))
        found = fresh_of(near[inside], set(keys(points)), set())
        return np.asarray(found[np.lexsort(found.T[::-1])], dtype=np.int32)

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
        return np.asarray(sum(drafts), dtype=np.float64)  # one after the other: of whatever rows, the same

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
        least = min(filter(None, (deep(s.models, masks) for s in plain)), default=0)
        found = (machine_bound(s.models, visited, given, least, trait_of(s.done).fuller, a) for s in plain for a in ways)
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
            kind = np.zeros_like(own)
            for n, column in enumerate(self.sketches[k].columns):
                name = column.name.rpartition(".")[2]
                if name == "order" or name.startswith("keep_"):
                    kind[:, n] = own[:, n]
                elif name.startswith("tile_"):
                    kind[:, n] = own[:, n] < column.default
            out[rows] = self.wide(k, kind)
        return out

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
        k = int(point[0])
        trace = self.sketches[k].prefix.copy()
        for model, own in self.sketches[k].split(point[None, self._places[k]]):
            Build(model, self.target, own[0], trace).emit()
        return trace

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

    def places(self, sketch: int) -> Ints:
        """Where the columns of a sketch stand in a point."""
        return self._places[sketch]

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
