"""The oracle: what the best schedule of a space is, proven point by point, and how far every sampler stays from it.

All points are listed. Those whose bound is no less than the best cycles that are known need no simulation: none of them is
faster. The others are simulated, the most promising first, as far as the budget goes. What is left then is said: the optimum
lies between the least bound of it and the best that was found.
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
from autosched.search.pool import MeasurePool
from autosched.search.proposer import Points
from autosched.search.result import TuneReport
from autosched.search.tuner import BATCH, tune
from autosched.target import Target, get_target
from autosched.workloads import Workload
from space import Space
from space.lowerable import require_lowerable
from space.rules import NUMERIC, STRUCTURAL

SAMPLERS = ("draft", "cost-model", "tpe", "nsgaii", "qmc", "random")
MOST = 200_000  # points whose estimates and bounds are worked out; that takes seconds


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
        whole: whether these are all of the space; else those with the decisions ``fixed``.
        fixed: decisions that were made so that the points could be listed, those of the caller included.
        cycles: the fewest that were simulated; None where every point failed.
        low: no point that was listed takes fewer cycles; the optimum is known where this is ``cycles``.
        machine_bound: proven lower bound of every program on the machine, in cycles.
        explain: the best point in words.
        point: its decisions.
        simulated: points that were simulated, by the oracle itself.
        certified: points that were not, and whose bound says that they are no faster.
        open: points of which nothing is said: not simulated, with a bound below ``cycles``.
        failed: simulated points that failed.
        regrets: what the samplers found.
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
    regrets: tuple[Regret, ...]

    @property
    def proven(self) -> bool:
        """Whether ``cycles`` is the optimum of what was listed."""
        return self.cycles is not None and self.low == self.cycles

    def regret(self, cycles: int) -> tuple[float, float]:
        """How far cycles are above the optimum, relatively: at least, and at most."""
        assert self.cycles is not None
        return cycles / self.cycles - 1, cycles / self.low - 1

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
    seeds, jobs = arguments.integer("seeds", seeds, 0), arguments.integer("jobs", jobs)
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
        runs = _runs(task, machine, pool, asked, trials, space.fixed)
    # What a sampler found among the open points is as good as what the oracle simulated itself.
    cycles, point = min(
        [(found.cycles[n], tuple(map(int, points[n]))) for n in found.cycles]
        + [(r.cycles, r.point) for r in runs if r.cycles is not None], default=(None, ()),
    )
    rest = np.array([n for n in range(len(points)) if n not in found.tried], dtype=np.int64)
    bounds = found.bounds[rest]
    left = bounds[bounds < cycles] if cycles is not None else bounds
    least = int(left.min()) if len(left) else cycles if cycles is not None else int(found.bounds.min())
    return OracleReport(
        task.name, machine.name, len(points), whole, space.fixed, cycles, least, space.machine_bound(),
        space.explain(np.array(point, dtype=np.int32)) if point else "", point, len(found.tried), len(bounds) - len(left),
        len(left), len(found.tried) - len(found.cycles),
        tuple(Regret(sampler, seed, len(r.history), r.cycles) for (sampler, seed), r in zip(asked, runs)),
    )


class _Search:
    """Simulates what may be the optimum."""

    def __init__(self, task: Workload, target: Target, space: Space, points: Points) -> None:
        self.task, self.target, self.space, self.points = task, target, space, points
        self.bounds = np.maximum(space.bound(points), space.machine_bound())
        self.order = np.argsort(space.draft(points), kind="stable")
        self.tried: set[int] = set()
        self.cycles: dict[int, int] = {}

    @property
    def best(self) -> int | None:
        """The row with the fewest cycles; among equals the first."""
        return min(self.cycles, key=lambda n: (self.cycles[n], n), default=None)

    def run(self, pool: MeasurePool, budget: int) -> None:
        """Batch after batch of the lowest estimates that no bound excludes."""
        while budget:
            best = self.best
            limit = np.inf if best is None else self.cycles[best]
            batch = [int(n) for n in self.order if n not in self.tried and self.bounds[n] < limit][: min(BATCH, budget)]
            if not batch:
                return
            budget -= len(batch)
            candidates = [Candidate(self.task, self.target, tuple(self.space.trace(self.points[n]).as_json())) for n in batch]
            for n, result in zip(batch, pool.run(candidates)):
                self.tried.add(n)
                if result.cycles is not None:
                    self.cycles[n] = result.cycles


def _runs(
    task: Workload, target: Target, pool: MeasurePool, asked: Sequence[tuple[str, int]], trials: int, fix: dict[str, int]
) -> list[TuneReport]:
    """What every (sampler, seed) finds, cold; one log serves all as a cache of cycles, which changes no list of trials."""
    found = []
    with tempfile.TemporaryDirectory() as log:
        for sampler, seed in asked:
            report = tune(task, target, trials, seed=seed, log=log, cold=True, sampler=sampler, fix=fix or None, pool=pool)
            assert isinstance(report, TuneReport)
            found.append(report)
    return found


def _listable(task: Workload, target: Target, fix: dict[str, int]) -> tuple[Space, bool]:
    """A space that can be listed, and whether it is all that was asked about.

    Raises:
        ProgramError: there are too many points.
    """
    whole = Space(task.func, target, fixed=fix)
    if _few(whole):
        return whole, True
    # Without parts: what only they bring has its default. A decision of theirs that is asked for stays as it is asked for.
    plain = Space(task.func, target, [*STRUCTURAL, *(r for r in NUMERIC if not r.cuts)])
    parts = {c.name: c.default for s in whole.sketches for c in s.columns if c.name not in plain.names}
    less = Space(task.func, target, fixed={**parts, **fix})
    if parts.keys() - fix.keys() and _few(less):
        return less, False
    about = f"{less.count(MOST)[0]:,}".replace(",", " ")
    wide = sorted(zip(less.names, less.choices), key=lambda x: -len(x[1]))[:3]
    raise ProgramError(
        f"{task.name} has too many schedules to list, about {about} even if the output is not cut into parts; make some "
        "decisions, such as --fix " + ",".join(f"{name}={values[-1]}" for name, values in wide)
    )


def _few(space: Space) -> bool:
    """Whether a space can be listed in seconds."""
    return space.count(MOST)[1]


def _words(decisions: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in decisions.items()) or "of none"
