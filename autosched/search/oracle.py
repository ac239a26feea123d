"""The oracle: what the best schedule of a space is, proven point by point, and how far every sampler stays from it.

All points are listed. Those whose bound is no less than the best cycles that are known need no simulation: none of them is
faster. The others are simulated, the most promising first, as far as the budget goes. What is left then is said: the optimum
lies between the least bound of it and the best that was found. The best is executed and compared with the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autosched import arguments
from autosched.errors import ProgramError, UnknownNameError
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.measure import Candidate
from autosched.records import Log
from autosched.search.pool import TRIES, MeasurePool
from autosched.search.proposer import Points
from autosched.search.result import TuneReport
from autosched.search.tuner import BATCH, CHECKS, numbers, search
from autosched.search.wrong import MISMATCH, differs, is_wrong, warn_of
from autosched.target import Target, get_target
from autosched.workloads import Workload
from space import Space
from space.lowerable import require_lowerable
from space.rule import Rule
from space.rules import NUMERIC, STRUCTURAL

SAMPLERS = ("draft", "cost-model", "tpe", "nsgaii", "qmc", "random")
MOST = 200_000  # points whose estimates and bounds are worked out; that takes seconds
WIDEST = 3  # decisions that are proposed where there are more points


@dataclass(frozen=True)
class Regret:
    """What a sampler found.

    Args:
        sampler: its name.
        seed: of its run.
        trials: points that it tried.
        cycles: of the best of them; None where all failed.
    """

    sampler: str
    seed: int
    trials: int
    cycles: int | None


@dataclass(frozen=True)
class OracleReport:
    """What is proven of a space.

    Args:
        workload: its name.
        target: the target's name.
        points: how many points were listed.
        whole: whether these are all that was asked about; else those whose output is not cut into parts.
        fixed: decisions of the caller.
        cycles: the fewest that were simulated, of a schedule that was executed and is bit-equal to the reference; None where
            there is none.
        low: no point that was listed takes fewer cycles; the optimum is known where this is ``cycles``. 0 where a bound was
            found to be wrong: nothing is proven then.
        machine_bound: proven lower bound of every program on the machine, in cycles.
        explain: the best point in words.
        point: its decisions, as of the space that was listed.
        simulated: points that were simulated: by the oracle itself, and the best of the samplers where that is the best.
        certified: points that were not, and whose bound says that they are no faster.
        open: points of which nothing is said: no cycles are known, and the bound is below ``cycles``.
        failed: simulated points that failed.
        unanswered: points whose worker died or gave no answer, or whose check did; they count as not simulated.
        regrets: what the samplers found.
        dropped: (cycles, reason) of schedules whose check failed, those of samplers where their bytes are wrong: what does not
            hold is never the best.
        violations: (point, cycles, bound) of schedules that were faster than what was proven of them: a fault of this project.
    """

    workload: str
    target: str
    points: int
    whole: bool
    fixed: dict[str, int]
    cycles: int | None
    low: int
    machine_bound: int
    explain: str
    point: tuple[int, ...]
    simulated: int
    certified: int
    open: int
    failed: int
    unanswered: int
    regrets: tuple[Regret, ...]
    dropped: tuple[tuple[int, str], ...] = ()
    violations: tuple[tuple[tuple[int, ...], int, int], ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the bytes of some schedule were wrong: a fault of this project."""
        return differs(self.dropped)

    @property
    def proven(self) -> bool:
        """Whether ``cycles`` is the optimum of what was listed."""
        return self.cycles is not None and self.low == self.cycles

    def regret(self, cycles: int) -> tuple[float, float | None]:
        """How far cycles are above the optimum, relatively: at least, and at most (None where nothing is proven)."""
        assert self.cycles is not None
        return cycles / self.cycles - 1, cycles / self.low - 1 if self.low else None

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        rows = []
        for r in self.regrets:
            least, most = self.regret(r.cycles) if r.cycles is not None else (None, None)
            rows.append({**asdict(r), "regret": least, "regret_at_most": most})
        return {**asdict(self), "proven": self.proven, "regrets": rows}


def oracle(
    name: str | Workload | PrimFunc,
    target: str | Target = "vta-de10",
    simulations: int = 256,
    samplers: Sequence[str] = SAMPLERS,
    trials: int = 32,
    seeds: int = 1,
    jobs: int = 1,
    fix: Mapping[str, int] | None = None,
) -> OracleReport:
    """Finds the optimum of a space that can be listed, and compares the samplers with it.

    A space that is too large to list is asked about without the rules that cut the output into parts; what is listed is said.
    The best schedule is executed and compared with the reference; one that does not hold is dropped for the next.

    Args:
        name: a workload's name, a ``Workload`` or a program.
        target: the machine.
        simulations: points that may be simulated to find the optimum; what they do not settle stays open.
        samplers: names as of ``tune``; each searches the points that were listed.
        trials: of a sampler.
        seeds: runs of each, with seed 0 and up.
        jobs: worker processes; the result does not depend on it.
        fix: decisions that are made already, by name.

    Raises:
        ProgramError: a program that no space fits, or too many points even so; the message says what to fix.
        UnknownNameError: an unknown workload, target, sampler or decision.
        BadArgumentError: a number that is out of bounds.
    """
    simulations, trials = arguments.integer("simulations", simulations), arguments.integer("trials", trials)
    seeds, jobs = arguments.integer("seeds", seeds, 0, arguments.RUNS), arguments.integer("jobs", jobs)
    for sampler in samplers:
        if sampler not in SAMPLERS:
            raise UnknownNameError("sampler", sampler, SAMPLERS)
    machine = get_target(target)
    task = resolve(name, machine)
    space, whole = _listable(task, machine, arguments.decisions("fix", fix or {}))
    require_lowerable(space)
    points = np.concatenate([*space.enumerate(), np.zeros((0, space.width), np.int32)])
    if not len(points):
        raise ProgramError(f"{task.name}: no schedule has the decisions {_words(space.fixed)}")
    with MeasurePool(min(jobs, BATCH)) as pool:
        found = _Search(task, machine, space, points)
        found.run(pool, simulations)
        asked = [(sampler, seed) for sampler in samplers for seed in range(seeds)]
        runs = _runs(task, machine, space, pool, asked, trials)
    best = found.best
    cycles, point = (None, ()) if best is None else (found.cycles[best], numbers(points[best]))
    for r in runs:
        # What a sampler found among the open points, and had checked, is as good as what the oracle simulated itself.
        if r.cycles is not None and (cycles is None or r.cycles < cycles):
            cycles, point = r.cycles, r.point
    violations = dict.fromkeys((*found.violations, *(v for r in runs for v in r.violations)))
    wrong = dict.fromkeys(d for r in runs for d in r.dropped if is_wrong(d[1]))
    unknown = np.ones(len(points), dtype=np.bool_)
    unknown[list(found.tried)] = False
    if point:
        unknown &= (points != np.array(point)).any(axis=1)
    bounds = found.bounds[unknown]
    left = bounds if cycles is None or violations else bounds[bounds < cycles]
    least = int(left.min()) if len(left) else cycles if cycles is not None else int(found.bounds.min())
    return OracleReport(
        task.name, machine.name, len(points), whole, space.fixed, cycles, 0 if violations else least, space.machine_bound(),
        space.explain(np.array(point, dtype=np.int32)) if point else "", point, len(points) - len(bounds),
        len(bounds) - len(left), len(left), len(found.tried) - len(found.cycles), int(unknown[list(found.unanswered)].sum()),
        tuple(Regret(sampler, seed, len(r.history), r.cycles) for (sampler, seed), r in zip(asked, runs)),
        (*found.dropped, *(d for d in wrong if d not in found.dropped)), tuple(violations),
    )


class _Search:
    """Simulates what may be the optimum, and executes what is."""

    def __init__(self, task: Workload, target: Target, space: Space, points: Points) -> None:
        self.task, self.target, self.space, self.points = task, target, space, points
        self.bounds = np.maximum(space.bound(points), space.machine_bound())
        self.order = np.argsort(space.draft(points), kind="stable")
        self.tried: set[int] = set()
        self.unanswered: set[int] = set()  # of these nothing is known; they are not asked for again
        self.cycles: dict[int, int] = {}
        self.dropped: list[tuple[int, str]] = []
        self.violations: list[tuple[tuple[int, ...], int, int]] = []

    @property
    def best(self) -> int | None:
        """The row with the fewest cycles; among equals the first."""
        return min(self.cycles, key=lambda n: (self.cycles[n], n), default=None)

    def run(self, pool: MeasurePool, budget: int) -> None:
        """Simulates, and checks the best; where that does not hold, what it excluded is simulated too."""
        while True:
            budget = self._simulate(pool, budget)
            if self._settled(pool):
                return

    def _candidate(self, n: int) -> Candidate:
        return Candidate(self.task, self.target, tuple(self.space.trace(self.points[n]).as_json()))

    def _settled(self, pool: MeasurePool) -> bool:
        """Executes the best program and compares it with the reference; one that does not hold is dropped."""
        best = self.best
        if best is None:
            return True
        result, cycles = pool.check(self._candidate(best)), self.cycles[best]
        assert result.cycles in (None, cycles), f"{self.task.name}: {cycles} cycles, and {result.cycles} when executed"
        if result.ok:
            return True
        if result.status == MISMATCH:
            warn_of(self.task.name, cycles, result.reason)
        self.dropped.append((cycles, f"{result.status}: {result.reason}"))
        harmed = sum(said.startswith("environment: ") for _, said in self.dropped)
        if len(self.dropped) == CHECKS or harmed == TRIES:
            # Nothing of this space can be checked on this machine: no schedule is known that holds.
            self._forget(*self.cycles)
            return True
        if result.status == "environment":
            self._forget(best)
        else:
            del self.cycles[best]
        return False

    def _forget(self, *rows: int) -> None:
        """Makes rows open again: this machine could not check them, which says nothing of them."""
        self.unanswered.update(rows)
        self.tried.difference_update(rows)
        for n in rows:
            del self.cycles[n]

    def _simulate(self, pool: MeasurePool, budget: int) -> int:
        """Batch after batch of the lowest estimates that no bound excludes; returns what is left of the budget."""
        while budget:
            best = self.best
            limit = np.inf if best is None else self.cycles[best]
            asked = self.tried | self.unanswered
            batch = [int(n) for n in self.order if n not in asked and self.bounds[n] < limit][: min(BATCH, budget)]
            if not batch:
                break
            budget -= len(batch)
            for n, result in zip(batch, pool.run([self._candidate(n) for n in batch])):
                if result.status == "environment":
                    self.unanswered.add(n)
                    continue
                self.tried.add(n)
                if result.cycles is not None:
                    self.cycles[n] = result.cycles
                    if result.cycles < self.bounds[n]:
                        self.violations.append((numbers(self.points[n]), result.cycles, int(self.bounds[n])))
        return budget


def _runs(
    task: Workload, target: Target, space: Space, pool: MeasurePool, asked: Sequence[tuple[str, int]], trials: int
) -> list[TuneReport]:
    """What every (sampler, seed) finds, cold; one log serves all as a cache of cycles, which changes no list of trials."""
    with tempfile.TemporaryDirectory() as log:
        return [search(task, target, space, pool, trials, seed, Log.open(log), sampler) for sampler, seed in asked]


def _listable(task: Workload, target: Target, fix: dict[str, int]) -> tuple[Space, bool]:
    """A space that can be listed, and whether it is all that was asked about.

    Raises:
        ProgramError: there are too many points.
    """
    whole = Space(task.func, target, fixed=fix)
    if _few(whole):
        return whole, True
    # Without parts: all forms, without the decisions that only parts bring. One of theirs that is asked for forbids that.
    least, even = whole, ""
    rules: list[Rule] = [*STRUCTURAL, *(r for r in NUMERIC if not r.cuts)]
    plain = Space(task.func, target, rules)
    values = dict(zip(plain.names, plain.choices))
    if all(value in values.get(name, ()) for name, value in fix.items()):
        least, even = Space(task.func, target, rules, fix), " even if the output is not cut into parts"
        if _few(least):
            return least, False
    count = least.count(MOST)[0]
    # A sample that met next to none says nothing; what it was drawn from takes too long to go through all the same.
    many = f"{count if count > MOST else round(least.raw()):,}".replace(",", " ")
    listed = "schedules to list, about" if count > MOST else "combinations of decisions to list,"
    found = {**fix, **_further(least, fix)}
    raise ProgramError(
        f"{task.name} has too many {listed} {many}{even}; make some decisions, such as --fix "
        + ",".join(f"{name}={value}" for name, value in found.items())
    )


def _further(space: Space, fix: Mapping[str, int]) -> dict[str, int]:
    """Decisions that leave fewer points beside those that are made: the widest of a form, as a schedule has them together."""
    drawn = space.sample(np.random.default_rng(0), 1)
    made = dict(zip(space.names, drawn[0].tolist())) if len(drawn) else {}
    form = space.sketches[made.get(space.names[0], 0)]
    left = [x for x in zip(space.names, space.choices) if x[0] in form.names and x[0] not in fix]
    wide = sorted(left, key=lambda x: -len(x[1]))
    return {name: made.get(name, choices[-1]) for name, choices in wide[:WIDEST]}


def _few(space: Space) -> bool:
    """Whether a space can be listed in seconds."""
    return space.count(MOST)[1]


def _words(decisions: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in decisions.items()) or "of none"
