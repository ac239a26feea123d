"""What a search says while it runs, to a Python callback, to ``logging`` and to the command line: the only place of its events.

The order is: ``RunStarted``; per task ``TaskStarted``, ``TrialEvent`` for every trial in their order, ``TaskFinished``; at last
``RunFinished``. A ``Remark`` may come at any time. Names and fields are kept by later versions; fields may be added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from autosched.measure import gap

if TYPE_CHECKING:
    from autosched.search.result import NetworkReport, TuneReport

LOGGER = logging.getLogger("autosched")
LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class RunStarted:
    """A run begins.

    Args:
        name: what is tuned, as it was asked for.
        target: the target's name.
        tasks: its workloads with their multiplicities.
        trials: how many each may have.
        jobs: worker processes.
        seed: seed of the run.
        sampler: how points are chosen.
        log: directory of the log.
        damaged: lines of the log that could not be read.
    """

    name: str
    target: str
    tasks: tuple[tuple[str, int], ...]
    trials: int
    jobs: int
    seed: int
    sampler: str
    log: str
    damaged: int


@dataclass(frozen=True)
class Remark:
    """Something that a person should know while waiting, e.g. that kernels are compiled once on this machine.

    Args:
        text: one line.
    """

    text: str


@dataclass(frozen=True)
class TaskStarted:
    """The search of one workload begins; its space is known.

    Args:
        workload: its name.
        number: 0-based, among the tasks of the run.
        trials: how many it may have.
        space_bound: proven lower bound of what the space holds, in cycles.
        machine_bound: proven lower bound of every program on the machine, in cycles.
        peak: cycles that its products alone (none with zeros of padding) would take on a GEMM unit that never waits; 0 without
            products.
        engine: how candidates are chosen.
        size: points of the space where they were listed, else None.
    """

    workload: str
    number: int
    trials: int
    space_bound: int
    machine_bound: int
    peak: int
    engine: str
    size: int | None


@dataclass(frozen=True)
class TrialEvent:
    """One trial is known.

    Args:
        workload: name of the task.
        trial: 0-based number in the task.
        trials: how many the task may have.
        cycles: its cycles, or None where it failed.
        best: lowest cycles so far, or None.
        space_bound: proven lower bound of what the space still holds, in cycles.
        machine_bound: proven lower bound of every program on the machine, in cycles.
        from_log: whether the cycles came from the log.
        seconds: since the task began.
        explain: the best point so far in one line.
        engine: how candidates are chosen.
        status: ``ok`` or the kind of failure.
        reason: why it failed, or empty.
    """

    workload: str
    trial: int
    trials: int
    cycles: int | None
    best: int | None
    space_bound: int
    machine_bound: int
    from_log: bool
    seconds: float
    explain: str
    engine: str
    status: str = "ok"
    reason: str = ""

    @property
    def gap(self) -> float | None:
        """Relative distance of the best to the machine's bound."""
        return gap(self.best, self.machine_bound)


@dataclass(frozen=True)
class TaskFinished:
    """The search of one workload has ended.

    Args:
        report: its outcome.
    """

    report: TuneReport


@dataclass(frozen=True)
class RunFinished:
    """The run has ended.

    Args:
        report: what ``tune`` returns.
    """

    report: TuneReport | NetworkReport


Event = RunStarted | Remark | TaskStarted | TrialEvent | TaskFinished | RunFinished
Listener = Callable[[Event], None]

_NAMES: dict[type[Event], str] = {
    RunStarted: "run", Remark: "remark", TaskStarted: "task", TrialEvent: "trial", TaskFinished: "task_finished",
    RunFinished: "finished",
}


def as_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object; ``event`` is its kind, the other keys are its fields, or those of its report."""
    kind = {"event": _NAMES[type(event)]}
    if isinstance(event, TaskFinished | RunFinished):
        return {**kind, **event.report.as_json()}
    return {**kind, **{f.name: getattr(event, f.name) for f in fields(event)}}


def emit(listener: Listener | None, event: Event) -> None:
    """Tells ``logging`` (logger ``autosched``: trials at DEBUG, the rest at INFO) and whoever listens."""
    level = logging.DEBUG if isinstance(event, TrialEvent) else logging.INFO
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", _line(event))
    if listener is not None:
        listener(event)


def _line(event: Event) -> str:
    if isinstance(event, RunStarted):
        text = f"{event.name} on {event.target}: {len(event.tasks)} tasks, {event.trials} trials each, seed {event.seed}"
        return f"{text}, {event.jobs} jobs, log {event.log}"
    if isinstance(event, Remark):
        return event.text
    if isinstance(event, TaskStarted):
        return f"{event.workload}: search by {event.engine}, bound {event.machine_bound} cycles"
    if isinstance(event, TrialEvent):
        cycles = f"{event.cycles} cycles" if event.cycles is not None else f"{event.status}: {event.reason}"
        return f"{event.workload}: trial {event.trial}: {cycles}, best {event.best}"
    if isinstance(event, TaskFinished):
        report = event.report
        return f"{report.workload}: {report.cycles} cycles, stopped by {report.stop}, verified: {report.verified}"
    cycles = "" if event.report.cycles is None else f": {event.report.cycles} cycles"
    return f"done in {event.report.seconds:.1f} s{cycles}"
