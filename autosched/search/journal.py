"""What a run writes into the log, and what it takes from there, also from runs that are under way elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

from autosched.ir.structural import structural_hash
from autosched.measure import Result
from autosched.records import BestRecord, Log, ProgramRecord, Run, TrialRecord, Writer, version
from autosched.target import Target
from autosched.workloads import Workload

LIBRARIES = ("numpy", "optuna", "xgboost", "xgboost-cpu")
PATIENCE = 10  # looking for what others wrote takes at most one part in so many of a run's time


class Journal:
    """The log of one task's search.

    Args:
        log: where it is kept.
        task: what is tuned.
        target: the machine.
        space: version of the meaning of points.
        seed: seed of the run.
        space_bound: lower bound of the space, in cycles.
        machine_bound: lower bound of the machine, in cycles.
        asked: what else the run was asked for.
    """

    def __init__(
        self, log: Log, task: Workload, target: Target, space: int, seed: int, space_bound: int, machine_bound: int,
        asked: Mapping[str, Any],
    ) -> None:
        self.log = log
        self.task = task
        self.run = Run(
            workload=structural_hash(task.func), hardware=target.key(), version=version(), name=task.name, target=target.name,
            space=space, seed=seed, space_bound=space_bound, machine_bound=machine_bound,
            asked={**asked, "log_digest": log.digest()}, libraries=_libraries(),
        )
        self._writer: Writer | None = None
        self._look_at = 0.0
        self._begun = time.monotonic()
        self._known = self._trials()

    def __enter__(self) -> Journal:
        self._writer = self.log.writer(self.run).__enter__()
        self.run = self._writer.run
        if self.task.recipe is None:
            # No name gives this program to whoever reads the log.
            self._writer.append(ProgramRecord(self.run.workload, self.task.name, self.task.func.script()))
        return self

    def __exit__(self, *raised: Any) -> None:
        assert self._writer is not None
        self._writer.__exit__(*raised)

    def _trials(self) -> dict[tuple[int, ...], TrialRecord]:
        return self.log.trials(self.run.workload, self.run.hardware, self.run.version, self.run.space)

    # -- reading --------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Takes in what other runs have simulated since; it decides what is simulated again, never which points are tried."""
        begun = time.monotonic()
        if begun < self._look_at:
            return
        if self.log.refresh():
            self._known = self._trials()
        now = time.monotonic()
        self._look_at = now + PATIENCE * (now - begun)

    def known(self, point: tuple[int, ...], bound: int) -> Result | None:
        """The result of a point that some run has measured.

        Args:
            point: its decisions.
            bound: its lower bound, in cycles. A record below it is not believed: the point is simulated again.
        """
        record = self._known.get(point)
        if record is None:
            return None
        if record.cycles is None:
            return Result.failed(record.status, record.reason, record.program)
        if record.cycles < bound:
            return None
        counts = {"moved": record.moved, "macs": record.macs}
        return Result.success(record.cycles, record.program or "", {k: v for k, v in counts.items() if v is not None})

    def best(self) -> BestRecord | None:
        """The best schedule that earlier runs found, of this version or else the newest."""
        return self.log.first(self.run.workload, self.run.hardware, self.run.version)

    # -- writing --------------------------------------------------------------------------------------------------------

    def trial(self, number: int, point: tuple[int, ...], result: Result, bound: int, draft: int) -> None:
        """Writes a trial; it is in the file when this returns.

        Args:
            number: in the run, from 0.
            point: its decisions; empty for a schedule that came as a trace.
            result: what came of it.
            bound: its lower bound, in cycles.
            draft: its estimate, in cycles.
        """
        ms = int(1000 * (time.monotonic() - self._begun))
        self._append(TrialRecord(
            self.run, number, point, result.program, result.cycles, bound, draft, result.status, result.reason, ms,
            result.stats.get("moved"), result.stats.get("macs"),
        ))

    def incumbent(
        self, number: int, point: tuple[int, ...], program: str, cycles: int, space_bound: int, trace: tuple[dict[str, Any], ...],
        verified: bool = False, reason: str = "",
    ) -> None:
        """Writes a best schedule, so that the run's end, whatever it is, leaves it.

        Args:
            number: of its trial.
            point: its decisions; empty for a schedule that came as a trace.
            program: hash of its program.
            cycles: its cycles.
            space_bound: what is proven of the space by now.
            trace: the schedule.
            verified: whether it was executed and compared.
            reason: why that failed, or empty.
        """
        self._append(BestRecord(
            self.run, number, point, program, cycles, space_bound, self.run.machine_bound, trace, verified, reason,
        ))

    def _append(self, record: TrialRecord | BestRecord) -> None:
        assert self._writer is not None
        self._writer.append(record)


def _libraries() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = installed(name)
        except PackageNotFoundError:
            continue
    return found

