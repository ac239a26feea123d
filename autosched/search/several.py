"""Several tasks under one budget: trials go where they gained last, weighted by how often the layer occurs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ldexp
from typing import Any

from autosched import arguments
from autosched.errors import BadArgumentError
from autosched.search.events import (
    Event,
    Listener,
    Remark,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
    TrialEvent,
    emit,
)
from autosched.search.pool import MeasurePool
from autosched.search.result import NetworkReport, TuneReport
from autosched.search.tuner import BATCH, ONE, tune, without_search
from autosched.target import Target, get_target
from autosched.workloads import Workload

DONE = ("certified", "exhausted", "gap", "patience")
HOPE = 0.02  # of the gap to the machine's bound: what another batch may gain where one gained nothing, and half after each more


def tune_tasks(
    name: str, tasks: Sequence[tuple[Workload, int]], target: str | Target = "vta-de10", trials: int = 64,
    timeout: float | None = None, whole: bool = True, layers: Sequence[Sequence[str]] = (), **options: Any,
) -> NetworkReport:
    """Tunes the distinct layers of a network with ``trials`` trials for each on average.

    Every task gets a first batch. Each further batch goes to the task whose weighted gain of its last batch, no more than its
    weighted gap to the machine's bound, is largest. The order depends on trials alone, so that ``timeout`` only cuts it: a task
    whose first turn comes too late is not searched, and gets the log's best, or what the estimate chooses of a sample.

    Args:
        name: of the network.
        tasks: pairs of workload and multiplicity.
        target: the machine.
        trials: distinct points per task, on average.
        timeout: seconds for all tasks together.
        whole: whether the tasks make up the network; otherwise some stand for several of the others.
        layers: of every task, the names of the layers that it is; by default they have none.
        options: further arguments of ``tune``; each holds for every task.

    Raises:
        UnknownNameError, ProgramError, BadArgumentError: as for ``tune``.
    """
    trials = arguments.integer("trials", trials)
    timeout = None if timeout is None else arguments.seconds("timeout", timeout)
    if options.get("fix") or options.get("enqueue"):
        raise BadArgumentError("fix and enqueue", name, ONE)
    machine = get_target(target)
    begun = time.monotonic()
    first = min(BATCH, trials)
    given = [first] * len(tasks)
    reports: list[TuneReport] = []
    outer = options.pop("listener", None)
    arguments.listener(outer)
    told = _Told(name, tasks, outer)
    jobs = options.get("jobs")
    jobs = (os.cpu_count() or 1) if jobs is None else arguments.integer("jobs", jobs)
    pool = MeasurePool(min(jobs, BATCH), options.get("executor"), options.get("scheduler"))
    gains: list[float] = []
    late: list[str] = []  # tasks whose first turn comes when time is up
    before: list[dict[str, float]] = [{"simulated": 0, "seconds": 0.0, "from_log": 0} for _ in tasks]

    def left() -> float | None:
        return None if timeout is None else timeout - (time.monotonic() - begun)

    def step(k: int, first_time: bool = False) -> TuneReport:
        rest = left()
        told.task = k
        # Trials of earlier steps come from the log, and a later step starts as cold as they did: what a task tries does not
        # depend on when it does.
        asked = options if first_time else {**options, "cold": True}
        report: NetworkReport | TuneReport | None = None
        if not first_time or rest is None or rest > 0:
            limit = None if rest is None else max(rest, 1e-3)
            report = tune(tasks[k][0], machine, given[k], timeout=limit, listener=told, pool=pool, **asked)
        if first_time and (report is None or (isinstance(report, TuneReport) and report.stop == "time" and not report.history)):
            late.append(tasks[k][0].name)
            report = without_search(
                tasks[k][0], machine, pool, options.get("seed", 0), options.get("log"), bool(options.get("cold")),
                None, told,
            )
        assert isinstance(report, TuneReport)
        before[k] = _account(before[k], report, first_time)
        return report

    with pool:
        for k in range(len(tasks)):
            reports.append(step(k, first_time=True))
            gains.append(float((reports[k].default_cycles or 0) - (reports[k].cycles or 0)))
        if late:
            emit(outer, Remark(
                f"time is up: {len(late)} of {len(tasks)} layers were not searched, and have the log's best schedule or the one "
                f"that the estimate chooses of a sample: {', '.join(late)}"))
        _spend(tasks, reports, gains, given, trials * len(tasks) - sum(given), step, left)
    named = layers or [()] * len(tasks)
    done = [_final(r, total, times, own) for r, total, (_, times), own in zip(reports, before, tasks, named, strict=True)]
    result = NetworkReport(name, tuple(done), whole)
    for report in done:
        emit(outer, TaskFinished(report))
    emit(outer, RunFinished(result))
    return result


def _spend(
    tasks: Sequence[tuple[Workload, int]], reports: list[TuneReport], gains: list[float], given: list[int], budget: int,
    step: Callable[[int], TuneReport], left: Callable[[], float | None],
) -> None:
    """Gives a budget of trials away, a batch at a time; what the tasks have and gained is brought up to date."""
    idle = [0] * len(tasks)
    while budget > 0 and (left() is None or (left() or 0) > 0):
        open_tasks = [k for k, r in enumerate(reports) if r.cycles is not None and r.stop not in DONE]
        if not open_tasks:
            break

        def promise(k: int) -> float:
            distance = (reports[k].cycles or 0) - reports[k].machine_bound
            return tasks[k][1] * min(max(gains[k], ldexp(HOPE * distance, -idle[k])), float(distance))

        k = max(open_tasks, key=lambda k: (promise(k), -k))
        more = min(BATCH, budget)
        given[k] += more
        budget -= more
        old, new = reports[k], step(k)
        # Nothing is what a step has found whose checks this machine ended.
        gained = (old.cycles or 0) - new.cycles if new.cycles is not None else -1
        gains[k] = float(max(gained, 0))
        idle[k] = 0 if gains[k] else idle[k] + 1
        # A start from the log may have been better than all that was tried since.
        faster = tuple(d for d in new.dropped if d[0] < (old.cycles or 0))
        reports[k] = new if gained >= 0 else replace(old, history=new.history, stop=new.stop, dropped=old.dropped + faster)


class _Told:
    """Makes one run of the events of many: what a task has tried before is not told again."""

    def __init__(self, name: str, tasks: Sequence[tuple[Workload, int]], listener: Listener | None) -> None:
        self.name, self.tasks, self.listener = name, tasks, listener
        self.task = 0
        self.tried = [0] * len(tasks)
        self.begun = False

    def __call__(self, event: Event) -> None:
        if self.listener is None or isinstance(event, TaskFinished | RunFinished):
            return
        if isinstance(event, RunStarted):
            if self.begun:
                return
            self.begun = True
            event = replace(event, name=self.name, tasks=tuple((t.name, n) for t, n in self.tasks))
        elif isinstance(event, TaskStarted):
            event = replace(event, number=self.task)
        elif isinstance(event, TrialEvent):
            if event.trial < self.tried[self.task]:
                return
            self.tried[self.task] = event.trial + 1
        self.listener(event)


def _account(total: dict[str, float], report: TuneReport, first_time: bool = False) -> dict[str, float]:
    """Simulations and seconds of all steps; what the log knew counts where it was known before the first."""
    return {
        "simulated": total["simulated"] + report.simulated, "seconds": total["seconds"] + report.seconds,
        "from_log": report.from_log if first_time else total["from_log"],
    }


def _final(report: TuneReport, total: dict[str, float], times: int, layers: Sequence[str]) -> TuneReport:
    return replace(
        report, simulated=int(total["simulated"]), seconds=float(total["seconds"]), from_log=int(total["from_log"]),
        multiplicity=times, layers=tuple(layers),
    )
