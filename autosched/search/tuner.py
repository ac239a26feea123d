"""The loop: ask, measure, learn, record, stop."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched import arguments
from autosched.errors import BadArgumentError
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.measure import Candidate, Result
from autosched.measure import gap as relative_gap
from autosched.records import BestRecord, Log
from autosched.search.events import Listener, Remark, RunFinished, RunStarted, TaskFinished, TaskStarted, TrialEvent, emit
from autosched.search.journal import Journal
from autosched.search.pool import TRIES, MeasurePool
from autosched.search.proposer import Point, Proposer
from autosched.search.result import Interrupted, NetworkReport, TuneReport
from autosched.search.samplers import Sampler, make_sampler
from autosched.search.wrong import MISMATCH, warn_of
from autosched.target import Target, get_target
from autosched.workloads import Workload, network, networks
from autosched.workloads.apart import at_most
from sim import markup
from sim.notices import told_to
from space import VERSION, Space
from space.lowerable import require_lowerable
from space.shortage import shortage

if TYPE_CHECKING:
    import optuna

    from autosched.search.space_sampler import SpaceSampler

FIRST_RESULT = 30.0  # seconds that a time stop grants to the first candidate
ONE = "one workload, whose decisions they name"  # what is refused where there are several
CHECKS = 8  # schedules whose check may fail before the run says that it has none
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
    executor: str | None = None,
    scheduler: str | None = None,
    pool: MeasurePool | None = None,
    fix: Mapping[str, int] | None = None,
    enqueue: Sequence[Mapping[str, int]] = (),
) -> TuneReport | NetworkReport:
    """Searches for the best schedule of a workload, or of every layer of a network.

    Args:
        name: a workload's or a network's name, a ``Workload`` or a program.
        target: the machine.
        trials: distinct points to know the cycles of, per workload.
        jobs: worker processes; default one per core. The result does not depend on it. A process that may start none (a daemon,
            as a worker of ``multiprocessing.Pool`` is) measures itself.
        seed: same seed, same trials.
        log: directory of the log; default ``tuning_logs/runs`` of the working directory.
        cold: do not start from the best schedules of the log; nor does a run with decisions that are made already (``fix``).
        sampler: ``cost-model``, ``draft`` (the estimate alone), ``grid`` (all points in order) or one of Optuna's: ``tpe``,
            ``nsgaii``, ``qmc``, ``random``.
        timeout: seconds after which a task ends; a candidate that has no result by then is given up.
        gap: stop when the best is within this fraction of the lower bound.
        patience: stop after so many trials without a better one.
        listener: called with every event of the run, see ``autosched.search.events``; logger ``autosched`` gets them too.
        executor: where candidates are measured: ``loky`` (processes of this machine; the default for several jobs), ``serial``
            (this process; the default for one job), ``dask`` (a cluster). The result does not depend on it.
        scheduler: address of a Dask scheduler, e.g. ``tcp://host:8786``; ``dask`` without one starts ``jobs`` workers here.
        pool: workers that are there already, in place of those; they stay.
        fix: decisions that are made already, by name (``Space.names`` lists them), e.g. ``{"tile_y": 7, "banks_acc": 2}``.
        enqueue: schedules to try first, each as the decisions that ``Space.point`` takes.

    Raises:
        ExecutorError: no worker can be had.
        UnknownNameError: an unknown workload, target or sampler.
        ProgramError: a program that no space fits.
        BadArgumentError: a number that is out of bounds, or an argument of another type.
    """
    trials, seed = arguments.integer("trials", trials), arguments.seed(seed)
    jobs = (os.cpu_count() or 1) if jobs is None else arguments.integer("jobs", jobs)
    patience = None if patience is None else arguments.integer("patience", patience)
    timeout = None if timeout is None else arguments.seconds("timeout", timeout)
    gap = arguments.fraction("gap", gap)
    arguments.listener(listener)
    fix = None if fix is None else arguments.decisions("fix", fix)
    enqueue = [arguments.decisions("enqueue", one) for one in enqueue]
    is_network = isinstance(name, str) and name.strip() in networks()
    if is_network and (fix or enqueue):
        raise BadArgumentError("fix and enqueue", str(name), ONE)
    machine = get_target(target)
    lanes = machine.config.batch, machine.config.block_in
    with at_most(timeout):
        tasks = network(name, *lanes).tasks if isinstance(name, str) else ((resolve(name, machine), 1),)
    reports = []
    begun, known = time.monotonic(), Log.open(log)
    emit(listener, RunStarted(
        name if isinstance(name, str) else tasks[0][0].name, machine.name, tuple((t.name, n) for t, n in tasks), trials, jobs,
        seed, sampler, str(known.directory), known.damaged,
    ))
    # What cannot be written is said before anything is compiled.
    known.prepare()
    # A batch is all that is ever under way.
    own = nullcontext(pool) if pool is not None else MeasurePool(min(jobs, BATCH), executor, scheduler)
    with told_to(lambda text: emit(listener, Remark(text))), own as pool:
        for number, (task, multiplicity) in enumerate(tasks):
            run = _Run(
                task, machine, known, trials=trials, seed=seed, sampler=sampler, cold=cold, timeout=timeout, gap=gap,
                patience=patience, listener=listener, fixed=fix, enqueue=enqueue,
            )
            # Kernels and workers are part of what a person waits for: the first task's.
            run.since = begun
            emit(listener, run.started(number))
            reports.append(run.search(pool, multiplicity))
            begun = time.monotonic()
            emit(listener, TaskFinished(reports[-1]))
    report = NetworkReport(str(name), tuple(reports)) if is_network else reports[0]
    emit(listener, RunFinished(report))
    return report


@dataclass(frozen=True)
class _Ask:
    """What is to be measured: a point, or a schedule of the log whose point belongs to another version of the space."""

    point: Point
    trial: optuna.Trial | None = None
    record: BestRecord | None = None
    bound: int = 0
    draft: int = 0


def search(
    task: Workload, target: Target, space: Space, pool: MeasurePool, trials: int, seed: int, log: Log, sampler: str
) -> TuneReport:
    """One cold run of a sampler in a space of the caller's.

    Args:
        task: the workload.
        target: the machine.
        space: what is searched: all schedules of the task, or some.
        pool: workers.
        trials: distinct points to know the cycles of.
        seed: of the run.
        log: serves as a cache of cycles; it must hold no points of other spaces.
        sampler: its name, as of ``tune``.
    """
    log.prepare()
    run = _Run(task, target, log, trials=trials, seed=seed, sampler=sampler, cold=True, space=space)
    run.kept = False
    return run.search(pool, 1)


def without_search(
    task: Workload, target: Target, pool: MeasurePool, seed: int, log: str | Path | None, cold: bool,
    fix: Mapping[str, int] | None, listener: Listener | None,
) -> TuneReport:
    """A schedule where there is no time to search: the log's best, else what the estimate chooses of a sample.

    Args:
        task: the workload.
        target: the machine.
        pool: workers.
        seed: of the sample.
        log: where the schedule goes.
        cold: whether the log's best is left out.
        fix: decisions that are made already.
        listener: hears of it.

    Returns:
        The report, with no trials in it.
    """
    run = _Run(
        task, target, Log.open(log), trials=1, seed=seed, sampler="draft", cold=cold, listener=listener, fixed=fix, hasty=True,
    )
    emit(listener, run.started(0))
    # No trial: those of a search are others.
    return replace(run.search(pool, 1), stop="time", history=())


class _Run:
    """One task."""

    def __init__(
        self, task: Workload, target: Target, log: Log, *, trials: int, seed: int, sampler: str, cold: bool,
        timeout: float | None = None, gap: float = 0.0, patience: int | None = None, listener: Listener | None = None,
        space: Space | None = None, fixed: Mapping[str, int] | None = None, enqueue: Sequence[Mapping[str, int]] = (),
        hasty: bool = False,
    ) -> None:
        self.begun = self.since = time.monotonic()
        self.task, self.target, self.trials, self.log = task, target, trials, log
        self.kept = True  # whether the log outlives the run
        self.timeout, self.gap, self.patience, self.listener = timeout, gap, patience, listener
        self.space = Space(task.func, target, fixed=fixed) if space is None else space
        require_lowerable(self.space)
        self.proposer = Proposer(self.space, seed, hasty)
        self.sampler: Sampler | SpaceSampler = make_sampler(sampler, self.proposer, seed, BATCH)
        self.machine_bound = self.space.machine_bound()
        # What no program of the machine can beat, no schedule of the space can.
        self.space_bound = max(self.space.floor(), self.machine_bound)
        self.journal = Journal(
            log, task, target, VERSION, seed, self.space_bound, self.machine_bound,
            {"trials": trials, "sampler": sampler, "cold": cold, "batch": BATCH},
        )
        self.history: list[int | None] = []
        self.failed: dict[str, int] = {}
        self.violations: list[tuple[tuple[int, ...], int, int]] = []
        self.simulated = self.from_log = 0
        self.said = ""  # what the best does
        self.found: list[tuple[int, int, _Ask, str]] = []  # cycles, trial, what it was, program
        self.logged: set[int] = set()  # trials whose schedules are in the log
        self.dropped: list[tuple[int, str]] = []
        self.best_at = 0
        asked = [_Ask(self.space.point(**decisions)) for decisions in enqueue]
        # What the log has may have other decisions than those that are made already.
        asked += [] if cold or self.space.fixed else self._warm()
        once: dict[bytes, _Ask] = {}  # what is given twice, or by the log as well, is one trial
        for ask in asked:
            once.setdefault(ask.point.tobytes(), ask)
        self.warm = list(once.values())

    @property
    def best(self) -> tuple[int, int, _Ask, str] | None:
        """The incumbent; among equals the first."""
        return min(self.found, key=lambda f: f[:2], default=None)

    def _warm(self) -> list[_Ask]:
        """What starts the search because it is the log's best schedule of this very task."""
        best = self.journal.best()
        if best is None:
            return []
        if best.space == VERSION and len(best.point) == self.space.width:
            point = np.array(best.point, dtype=np.int32)
            if self.space.valid(point[None])[0]:
                return [_Ask(point)]
        # The same numbers are another schedule in another space; the trace is what it was.
        return [_Ask(np.zeros(0, np.int32), record=best)]

    def started(self, number: int) -> TaskStarted:
        """What is known before the first trial."""
        return TaskStarted(
            self.task.name, number, self.trials, self.space_bound, self.machine_bound, self.space.machine.terms["products"],
            self.proposer.engine, self.proposer.size,
        )

    def search(self, pool: MeasurePool, multiplicity: int) -> TuneReport:
        """Runs to a stop rule and returns the report."""
        try:
            with self.journal:
                stop = self._loop(pool)
                verified = self._settle(pool)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(self._so_far()) from interrupt
        except Exception as error:
            # Whatever ended the run, what it has found is there.
            error.add_note(self._so_far())
            raise
        return self._report(stop, verified, multiplicity)

    def _so_far(self) -> str:
        best = f"its best so far has {markup.number(self.best[0])} cycles" if self.best else "nothing was found so far"
        where = f"; the log is {self.log.directory}" if self.kept else ""
        if self.kept and self.best and self.best[1] not in self.logged:
            # The disk was full when it was found.
            known = min((cycles for cycles, trial, *_ in self.found if trial in self.logged), default=None)
            best += ", which is not in the log" + (f"; one of {markup.number(known)} is" if known is not None else "")
        return f"{self.task.name}: {len(self.history)} of {self.trials} trials, {best}{where}"

    def _loop(self, pool: MeasurePool) -> str:
        """Batch after batch, to the stop rule that is returned."""
        asked = self._asked()
        stop = ""
        while not stop:
            batch = self._ask(asked, min(BATCH, self.trials - len(self.history)))
            if not batch:
                return "exhausted"
            results = self._results(pool, batch)
            for ask in batch:
                answer = next(results, None)
                if answer is None:
                    stop = "time"
                    break
                result, cached = answer
                self._commit(ask, result, cached)
                self._tell(asked, ask.trial, result)
                stop = self._stop()
                if stop:
                    break
            # Workers may still be on their way through this batch; the pool knows.
            results.close()
            # Between batches only: what is known then does not depend on when a result arrives.
            self.space_bound = max(self.space_bound, self.proposer.floor())
            stop = stop or self._stop()
        return stop

    def _asked(self) -> Sampler | optuna.Study:
        """Who is asked: ours look at the proposer alone, and a study, from which Optuna's learn, costs as much as they do."""
        if isinstance(self.sampler, Sampler):
            return self.sampler
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.create_study(sampler=self.sampler, direction="minimize")

    def _ask(self, asked: Sampler | optuna.Study, n: int) -> list[_Ask]:
        batch: list[_Ask] = []
        while self.warm and len(batch) < n:
            batch.append(self.warm.pop(0))
            self.proposer.mark(batch[-1].point)
        while len(batch) < n:
            ask = self._next(asked)
            if ask is None:
                break
            batch.append(ask)
        return self._judged(batch)

    def _next(self, asked: Sampler | optuna.Study) -> _Ask | None:
        if isinstance(asked, Sampler):
            point = asked.next()
            return None if point is None else _Ask(point)
        import optuna

        from autosched.search.space_sampler import distributions, to_point

        try:
            trial = asked.ask(distributions(self.space))
        except optuna.TrialPruned:
            return None
        return _Ask(to_point(self.space, trial.params), trial)

    def _judged(self, batch: list[_Ask]) -> list[_Ask]:
        """With bounds and drafts; the schedules of other versions of the space have none."""
        own = [ask.point for ask in batch if ask.record is None]
        if not own:
            return batch
        points = np.stack(own)
        known = zip(self.space.bound(points).tolist(), self.space.draft(points).tolist())
        judged: list[_Ask] = []
        for ask in batch:
            bound, draft = next(known) if ask.record is None else (0, 0.0)
            judged.append(replace(ask, bound=bound, draft=int(draft)))
        return judged

    def _results(self, pool: MeasurePool, asks: Sequence[_Ask]) -> Generator[tuple[Result, bool], None, None]:
        """(result, whether from the log) per ask, as they come; what the log knows is not simulated again."""
        self.journal.refresh()
        cached = [self._cached(ask) for ask in asks]
        until = None
        if self.timeout is not None:
            # Something is to come of every run: the first result is waited for, as long as workers need to load at worst.
            until = self.begun + (self.timeout if self.history else max(self.timeout, FIRST_RESULT))
        fresh = pool.run(self._candidates([ask for ask, result in zip(asks, cached) if result is None]), until)
        for result in cached:
            if result is not None:
                yield result, True
            elif (measured := next(fresh, None)) is not None:
                yield measured, False
            else:
                # Time is up.
                return

    def _cached(self, ask: _Ask) -> Result | None:
        if ask.record is None:
            return self.journal.known(numbers(ask.point), self._bound(ask))
        record = ask.record
        same = record.version == self.journal.run.version and record.cycles >= self.machine_bound
        return Result.success(record.cycles, record.program) if same else None

    def _bound(self, ask: _Ask) -> int:
        return max(ask.bound, self.machine_bound)

    def _candidates(self, asks: Sequence[_Ask]) -> list[Candidate]:
        return [Candidate(self.task, self.target, trace) for trace in self._traces(asks)]

    def _traces(self, asks: Sequence[_Ask]) -> list[tuple[dict[str, Any], ...]]:
        """Their schedules, those of points made together; the schedules of the log are what they are."""
        own = [ask.point for ask in asks if ask.record is None]
        made = iter(self.space.traces(np.stack(own)) if own else ())
        return [tuple(next(made).as_json()) if ask.record is None else ask.record.trace for ask in asks]

    def _trace(self, ask: _Ask) -> tuple[dict[str, Any], ...]:
        return self._traces([ask])[0]

    def _commit(self, ask: _Ask, result: Result, cached: bool) -> None:
        """Takes a trial in: into the log first (unless it came from there), then to the model and to whoever listens."""
        number, cycles, bound = len(self.history), result.cycles, self._bound(ask)
        before = self.best
        better = cycles is not None and (before is None or cycles < before[0])
        if cycles is not None:
            # What cannot be written is still what was found: a run that ends so says it.
            self.found.append((cycles, number, ask, result.program or ""))
        if better:
            # Before the trial: whatever ends the run, the best trial of the log has its schedule there.
            self._write_best(cycles or 0, number, ask, result.program or "")
        if cached:
            self.from_log += 1
        else:
            self.journal.trial(number, numbers(ask.point), result, bound, ask.draft)
            self.simulated += 1
        self.history.append(cycles)
        if result.status == "environment":
            # This machine failed, not the point: it is not asked for again, and nothing is learnt from it.
            self.proposer.mark(ask.point)
        elif ask.record is None:
            self.proposer.add(ask.point, cycles)
        if cycles is None:
            self.failed[result.status] = self.failed.get(result.status, 0) + 1
        elif cycles < bound:
            self.violations.append((numbers(ask.point), cycles, bound))
        if better:
            self.best_at = len(self.history)
            self.said = self._explain(ask)
        best = self.best
        emit(self.listener, TrialEvent(
            self.task.name, number, self.trials, cycles, best[0] if best else None, self.space_bound, self.machine_bound, cached,
            time.monotonic() - self.since, self.said, self.proposer.engine, result.status,
            result.reason,
        ))

    def _explain(self, ask: _Ask) -> str:
        if ask.record is None:
            return self.space.explain(ask.point)
        return f"a schedule of the log, from version {ask.record.space} of the space"

    def _tell(self, asked: Sampler | optuna.Study, trial: optuna.Trial | None, result: Result) -> None:
        if isinstance(asked, Sampler) or trial is None:
            return
        import optuna

        if result.cycles is None:
            asked.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            asked.tell(trial, float(result.cycles))

    def _stop(self) -> str:
        best = self.best[0] if self.best else None
        if best is not None and best <= self.space_bound:
            return "certified"
        distance = relative_gap(best, self.machine_bound)
        if distance is not None and self.gap > 0 and distance <= self.gap:
            return "gap"
        if len(self.history) >= self.trials:
            return "trials"
        if self.patience and best is not None and len(self.history) - self.best_at >= self.patience:
            return "patience"
        if self.timeout is not None and time.monotonic() - self.begun >= self.timeout:
            return "time"
        return ""

    def _settle(self, pool: MeasurePool) -> bool:
        """Executes the best program and compares it with the reference; one that does not hold is dropped for the next."""
        while (best := self.best) is not None:
            if len(self.dropped) == CHECKS:
                # Nothing of this space holds on this machine: the reason is the same for all, and was given.
                self.found.clear()
                break
            cycles, number, ask, program = best
            result = pool.check(self._candidates([ask])[0])
            if result.cycles is not None and result.cycles != cycles:
                # The log said so; its writer was wrong, or it is not what its writer wrote.
                said = f"it was logged as {cycles} cycles and takes {result.cycles}"
                self._write_best(cycles, number, ask, program, reason=said)
                self.found.remove(best)
                self.found.append((result.cycles, number, ask, result.program or ""))
                self.history[number] = result.cycles
                continue
            # A machine that failed says nothing of the schedule: it stays as not yet checked, and who uses it checks it again.
            reason = "" if result.status == "environment" else result.reason
            self._write_best(cycles, number, ask, program, result.ok, reason)
            if result.ok:
                return True
            if result.status == MISMATCH:
                warn_of(self.task.name, cycles, result.reason)
            self.found.remove(best)
            self.dropped.append((cycles, f"{result.status}: {result.reason}"))
            if sum(said.startswith("environment: ") for _, said in self.dropped) == TRIES:
                # It is not the schedule that harms its process.
                self.found.clear()
                break
        return False

    def _write_best(self, cycles: int, number: int, ask: _Ask, program: str, verified: bool = False, reason: str = "") -> None:
        self.journal.incumbent(number, numbers(ask.point), program, cycles, self.space_bound, self._trace(ask), verified, reason)
        self.logged.add(number)

    def _report(self, stop: str, verified: bool, multiplicity: int) -> TuneReport:
        best = self.best
        return TuneReport(
            workload=self.task.name, target=self.target.name, cycles=best[0] if best else None, space_bound=self.space_bound,
            machine_bound=self.machine_bound, default_cycles=self.history[0] if self.history else None,
            point=numbers(best[2].point) if best else (), explain=self._explain(best[2]) if best else "",
            trace=self._trace(best[2]) if best else (), simulated=self.simulated, from_log=self.from_log, failed=self.failed,
            verified=verified, seconds=time.monotonic() - self.since, stop=stop, engine=self.proposer.engine,
            size=self.proposer.size, history=tuple(self.history), task=self.task, machine=self.target,
            multiplicity=multiplicity, damaged=self.log.damaged, violations=tuple(self.violations),
            dropped=tuple(self.dropped), lack="" if self.history or stop != "exhausted" else shortage(self.space),
        )


def numbers(point: Point) -> tuple[int, ...]:
    """A point as plain numbers."""
    return tuple(int(x) for x in point)
