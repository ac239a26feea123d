"""The loop: ask, measure, learn, record, stop."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autosched import arguments
from autosched.ir.stmt import PrimFunc
from autosched.ir.structural import structural_hash
from autosched.kernel import resolve
from autosched.measure import Candidate, Result, measure
from autosched.records import BestRecord, Log, TrialRecord, Writer, version
from autosched.search.pool import MeasurePool
from autosched.search.proposer import Point, Proposer
from autosched.search.result import Listener, NetworkReport, TrialEvent, TuneReport
from autosched.target import Target, get_target
from autosched.workloads import Workload, network, networks
from space import VERSION, Space

if TYPE_CHECKING:
    import optuna

    from autosched.search.samplers import SpaceSampler

BATCH = 16  # independent of the number of jobs, so that the list of trials is too


def tune(
    name: str | Workload | PrimFunc,
    target: str | Target = "vta-de10",
    trials: int = 64,
    jobs: int | None = None,
    seed: int = 0,
    log: str | Path | None = None,
    cold: bool = False,
    sampler: str = "cost-model",
    timeout: float | None = None,
    gap: float = 0.0,
    patience: int | None = None,
    listener: Listener | None = None,
) -> TuneReport | NetworkReport:
    """Searches for the best schedule of a workload, or of every layer of a network.

    Args:
        name: a workload's or a network's name, a ``Workload`` or a program.
        target: the machine.
        trials: distinct points to know the cycles of, per workload.
        jobs: worker processes; default one per core. The result does not depend on it.
        seed: same seed, same trials.
        log: directory of the log; default ``tuning_logs/runs`` of the working directory.
        cold: do not start from the best schedules of the log.
        sampler: ``cost-model`` or one of Optuna's: ``tpe``, ``nsgaii``, ``qmc``, ``random``, ``grid``.
        timeout: seconds after which a task ends.
        gap: stop when the best is within this fraction of the lower bound.
        patience: stop after so many trials without a better one.
        listener: called after every trial.

    Raises:
        UnknownNameError: an unknown workload, target or sampler.
        ProgramError: a program that no space fits.
        BadArgumentError: a number that is out of bounds.
    """
    trials, seed = arguments.integer("trials", trials), arguments.seed(seed)
    jobs = (os.cpu_count() or 1) if jobs is None else arguments.integer("jobs", jobs)
    patience = None if patience is None else arguments.integer("patience", patience)
    timeout = None if timeout is None else arguments.seconds("timeout", timeout)
    gap = arguments.fraction("gap", gap)
    machine = get_target(target)
    lanes = machine.config.batch, machine.config.block_in
    tasks = network(name, *lanes).tasks if isinstance(name, str) else ((resolve(name, machine), 1),)
    reports = []
    known = Log.open(log)
    with MeasurePool(jobs) as pool:
        for task, multiplicity in tasks:
            run = _Run(task, machine, trials, seed, known, cold, sampler, timeout, gap, patience, listener)
            reports.append(run.search(pool, multiplicity))
    is_network = isinstance(name, str) and name.strip() in networks()
    return NetworkReport(str(name), tuple(reports)) if is_network else reports[0]


class _Run:
    """One task."""

    def __init__(
        self, task: Workload, target: Target, trials: int, seed: int, log: Log, cold: bool, sampler: str,
        timeout: float | None, gap: float, patience: int | None, listener: Listener | None,
    ) -> None:
        from autosched.search.samplers import make_sampler

        self.begun = time.monotonic()
        self.task, self.target, self.trials, self.seed, self.log = task, target, trials, seed, log
        self.timeout, self.gap, self.patience, self.listener = timeout, gap, patience, listener
        self.space = Space(task.func, target)
        self.workload_key = structural_hash(task.func)
        self.hardware_key = target.key()
        self.version = version()
        self.known = log.trials(self.workload_key, self.hardware_key, self.version, VERSION)
        self.digest = log.digest()
        self.proposer = Proposer(self.space, seed)
        self.sampler: SpaceSampler = make_sampler(sampler, self.proposer, seed, BATCH)
        self.floor = self.space.floor()
        self.history: list[int | None] = []
        self.failed: dict[str, int] = {}
        self.simulated = self.from_log = 0
        self.best: tuple[int, Point, str] | None = None
        self.best_at = 0
        self.warm = [] if cold else self._warm_points()
        self.header = {
            "workload": task.name, "target": target.name, "trials": trials, "seed": seed, "sampler": sampler, "cold": cold,
            "space": VERSION, "version": self.version, "log_digest": self.digest, "batch": BATCH,
        }

    def _warm_points(self) -> list[Point]:
        """Points that start the search because the log's best schedule of this very task was one of them."""
        best = self.log.best(self.workload_key, self.hardware_key, self.version)
        if best is None or best.space != VERSION or len(best.point) != self.space.width:
            return []
        point = np.array(best.point, dtype=np.int32)
        return [point] if self.space.valid(point[None])[0] else []

    def search(self, pool: MeasurePool, multiplicity: int) -> TuneReport:
        """Runs to a stop rule and returns the report."""
        with self.log.writer(self.header) as writer:
            try:
                stop = self._loop(pool, writer)
            except (KeyboardInterrupt, SystemExit):
                # What was found is of use although nobody has checked its bytes.
                self._write_best(writer, False)
                raise
            verified = self.best is not None and self._verify(self.best[1])
            self._write_best(writer, verified)
        return self._report(stop, verified, multiplicity)

    def _loop(self, pool: MeasurePool, writer: Writer) -> str:
        """Batch after batch, to the stop rule that is returned."""
        study = self._study()
        stop = ""
        while not stop:
            batch = self._ask(study, min(BATCH, self.trials - len(self.history)))
            if not batch:
                return "exhausted"
            for (trial, point), (result, cached) in zip(batch, self._results(pool, [point for _, point in batch])):
                if stop:
                    # The workers are on their way through this batch; the pool is free again only after it.
                    continue
                self._commit(point, result, None if cached else writer)
                self._tell(study, trial, result)
                stop = self._stop()
            # Between batches only: what is known then does not depend on when a result arrives.
            self.floor = max(self.floor, self.proposer.floor())
            stop = stop or self._stop()
        return stop

    def _study(self) -> optuna.Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.create_study(sampler=self.sampler, direction="minimize")

    def _ask(self, study: optuna.Study, n: int) -> list[tuple[optuna.Trial | None, Point]]:
        import optuna

        from autosched.search.samplers import distributions, to_point

        batch: list[tuple[optuna.Trial | None, Point]] = []
        while self.warm and len(batch) < n:
            point = self.warm.pop(0)
            self.proposer.mark(point)
            batch.append((None, point))
        dists = distributions(self.space)
        for _ in range(n - len(batch)):
            if self.sampler.inner is None and self.sampler.exhausted():
                break
            try:
                trial = study.ask(dists)
            except optuna.TrialPruned:
                break
            batch.append((trial, to_point(self.space, trial.params)))
        return batch

    def _results(self, pool: MeasurePool, points: Sequence[Point]) -> Iterator[tuple[Result, bool]]:
        """(result, whether from the log) per point, as they come; what the log knows is not simulated again."""
        cached = {i: r for i, p in enumerate(points) if (r := self.known.get(tuple(int(x) for x in p))) is not None}
        missing = [i for i in range(len(points)) if i not in cached]
        fresh = iter(pool.run([self._candidate(points[i]) for i in missing]))
        for i in range(len(points)):
            record = cached.get(i)
            if record is None:
                yield next(fresh), False
            elif record.cycles is not None:
                yield Result.success(record.cycles, record.program or ""), True
            else:
                yield Result.failed(record.status, record.reason), True

    def _candidate(self, point: Point) -> Candidate:
        return Candidate(self.task, self.target, tuple(self.space.trace(point).as_json()))

    def _commit(self, point: Point, result: Result, writer: Writer | None) -> None:
        """Takes a trial in: into the log first (unless it came from there), then to the model and to whoever listens."""
        if writer is not None:
            writer.append(self._trial_record(point, result))
            self.simulated += 1
        else:
            self.from_log += 1
        cycles = result.cycles
        self.history.append(cycles)
        self.proposer.add(point, cycles)
        if cycles is None:
            self.failed[result.status] = self.failed.get(result.status, 0) + 1
        elif self.best is None or cycles < self.best[0]:
            self.best = (cycles, point, result.program or "")
            self.best_at = len(self.history)
        if self.listener is not None:
            best = self.best
            self.listener(TrialEvent(
                self.task.name, len(self.history) - 1, self.trials, cycles, best[0] if best else None, self.floor, writer is None,
                time.monotonic() - self.begun, self.space.explain(best[1]) if best else "", self.proposer.engine,
            ))

    def _trial_record(self, point: Point, result: Result) -> TrialRecord:
        row = point[None]
        return TrialRecord(
            workload=self.workload_key, hardware=self.hardware_key, version=self.version, name=self.task.name,
            target=self.target.name, space=VERSION, point=tuple(int(x) for x in point), program=result.program,
            cycles=result.cycles, bound=int(self.space.bound(row)[0]), draft=int(self.space.draft(row)[0]), status=result.status,
            reason=result.reason, run="", trial=len(self.history), seed=self.seed,
        )

    def _tell(self, study: optuna.Study, trial: optuna.Trial | None, result: Result) -> None:
        import optuna

        if trial is None:
            return
        if result.cycles is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, float(result.cycles))

    def _stop(self) -> str:
        best = self.best[0] if self.best else None
        if best is not None and best <= self.floor:
            return "certified"
        if best is not None and self.gap > 0 and (best - self.floor) / best <= self.gap:
            return "gap"
        if len(self.history) >= self.trials:
            return "trials"
        if self.patience and best is not None and len(self.history) - self.best_at >= self.patience:
            return "patience"
        if self.timeout is not None and time.monotonic() - self.begun >= self.timeout:
            return "time"
        return ""

    def _verify(self, point: Point) -> bool:
        """Executes the best program bit-exactly and compares it with the reference."""
        result = measure(self._candidate(point), execute=True)
        if result.status == "mismatch":
            raise AssertionError(f"the best schedule of {self.task.name} computes something else: {result.reason}")
        return result.status == "ok"

    def _write_best(self, writer: Writer, verified: bool) -> None:
        if self.best is None:
            return
        cycles, point, program = self.best
        writer.append(BestRecord(
            workload=self.workload_key, hardware=self.hardware_key, version=self.version, name=self.task.name,
            target=self.target.name, space=VERSION, point=tuple(int(x) for x in point), program=program, cycles=cycles,
            bound=self.floor, trace=tuple(self.space.trace(point).as_json()), verified=verified, run="",
            trial=self.best_at - 1, seed=self.seed,
        ))

    def _report(self, stop: str, verified: bool, multiplicity: int) -> TuneReport:
        cycles, point = (self.best[0], self.best[1]) if self.best else (None, None)
        return TuneReport(
            workload=self.task.name, target=self.target.name, cycles=cycles, floor=self.floor,
            default_cycles=self.history[0] if self.history else None,
            point=() if point is None else tuple(int(x) for x in point),
            explain="" if point is None else self.space.explain(point),
            trace=() if point is None else tuple(self.space.trace(point).as_json()),
            simulated=self.simulated, from_log=self.from_log, failed=self.failed, verified=verified,
            seconds=time.monotonic() - self.begun, stop=stop, engine=self.proposer.engine, size=self.proposer.size,
            history=tuple(self.history), task=self.task, machine=self.target, multiplicity=multiplicity,
            damaged=self.log.damaged,
        )
