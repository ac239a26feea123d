"""Measuring batches of candidates: what goes where, what is tried again, and when no answer is waited for any more."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from itertools import pairwise
from queue import Empty, SimpleQueue
from types import TracebackType

from autosched.child import COPIES, may_start, undisturbed
from autosched.errors import ExecutorError
from autosched.measure import Candidate, Result
from autosched.search.beside import Beside
from autosched.search.executors import Executor, Fault, make_executor
from autosched.search.guarded import check
from autosched.search.worker import Measured, VersionError

CALL_SECONDS = 0.05  # of work that a call should hold: below, sending it costs more than doing it
PATIENCE_SECONDS = 120.0  # for one candidate; far above what counted work allows, so it speaks of the machine only
LOOK_SECONDS = 1.0  # between two looks at a cluster without workers
CHECK_SECONDS = 600.0  # for the check of one schedule, which executes its program bit by bit
TRIES = 2  # times that a candidate's worker, or the process of its check, may end
FALSE_STARTS = 6  # workers that end before their first call, one after another, until no more are started


class MeasurePool:
    """Measures batches of candidates, in the order asked for.

    A worker that dies costs a retry of the candidates it held, each alone; so does one that gives no answer in time. A candidate
    to which that happens again becomes a result with status ``environment``: it says something about this machine only.

    Args:
        jobs: worker processes, where the executor starts its own.
        executor: ``loky`` (processes of this machine), ``serial`` (this process) or ``dask``; None for ``loky``, or ``serial``
            for one job.
        scheduler: address of the Dask scheduler whose workers are to be used.
        patience: seconds that a candidate may take.

    Raises:
        UnknownNameError: no such executor.
        ExecutorError: the executor cannot be had.
    """

    def __init__(
        self, jobs: int = 1, executor: str | None = None, scheduler: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> None:
        name = executor or ("dask" if scheduler else "loky" if jobs > 1 and may_start() else "serial")
        self.executor: Executor = make_executor(name, max(1, jobs), scheduler)
        self.patience = patience
        self.checks, self.drafts = Beside("sim.semantics"), Beside("space")
        self.loaded = False  # whether this process has what checks run
        self.each = CALL_SECONDS  # seconds per candidate, as measured lately
        # Calls that nobody waits for any more, and when their workers are given up; until then these are not free.
        self.strays: dict[Future[Measured], float] = {}
        # Calls that have ended, in that order. Its ``get`` holds no lock of Python's that an interrupt could leave locked.
        self.ended: SimpleQueue[Future[Measured]] = SimpleQueue()

    def __enter__(self) -> MeasurePool:
        from autosched import lower

        # Before any worker starts: where no cache can be written it makes a place for one, which they are to inherit.
        from sim import _kernels, notices, timing  # noqa: F401

        try:
            if not self.executor.copies:
                # Workers load while this process does; none of them compiles, since they wait for their first call.
                self.executor.start()
            outer = notices.listener()

            def compiling(text: str) -> None:
                # Estimates run many kernels of their own: what is compiled here takes another process less than both.
                self.drafts.start()
                outer(text)

            with notices.told_to(compiling):
                timing.warm()
                lower.warm()
            if self.drafts.started:
                # What checks need at the end of the search is compiled while there is nothing else to do, and beside it.
                self.checks.start()
            self.drafts.wait()
            if self.executor.copies:
                self.executor.start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        with undisturbed():
            self.drafts.stop()
            self.checks.stop()
            self.executor.stop()

    def check(self, candidate: Candidate) -> Result:
        """Measures a candidate, executes its program and compares what it computes, in a process of its own.

        As for workers: one that dies costs a retry, and nothing is said of the candidate until that dies as well.
        """
        self.checks.wait()
        if COPIES and not self.loaded:
            # What checks run is loaded once, and not by each of their processes, which are copies of this one.
            from sim import legality, machine, semantics  # noqa: F401

            semantics.warm()
            self.loaded = True
        for _ in range(TRIES):
            if (result := check(candidate, CHECK_SECONDS)) is not None:
                return result
        return Result.failed("environment", f"its process died, {TRIES} times")

    def run(self, candidates: Sequence[Candidate], until: float | None = None) -> Generator[Result, None, None]:
        """The results, in the order of the candidates, as they come.

        Args:
            candidates: what to measure.
            until: ``time.monotonic()`` at which to give up: what has no result by then is never given.

        Raises:
            ExecutorError: no worker can be had.
        """
        batch = _Batch(self, candidates, until)
        try:
            yield from batch.results()
        finally:
            batch.abandon()


def shares(candidates: Sequence[Candidate], places: int) -> list[tuple[int, ...]]:
    """Which candidates each of several processes is to measure: those whose traces begin alike come to one process.

    A process that replays a trace keeps the programs on the way, and takes them for the next trace that begins so.

    Args:
        candidates: of one batch.
        places: processes.

    Returns:
        Their positions, for each process in ascending order.
    """
    order = list(range(len(candidates)))
    if places > 1:
        order.sort(key=lambda k: repr(candidates[k].trace))
    ends = [len(order) * n // places for n in range(places + 1)]
    return [tuple(sorted(order[a:b])) for a, b in pairwise(ends)]


class _Batch:
    """One batch on its way."""

    def __init__(self, pool: MeasurePool, candidates: Sequence[Candidate], until: float | None) -> None:
        self.pool, self.executor, self.candidates, self.until = pool, pool.executor, candidates, until
        self.again: deque[tuple[int, ...]] = deque()  # what is tried once more, first of all
        self.running: dict[Future[Measured], tuple[tuple[int, ...], float]] = {}
        self.found: dict[int, Result] = {}
        self.deaths = [0] * len(candidates)
        self.false_starts = 0
        size = max(1, min(int(CALL_SECONDS / max(pool.each, 1e-6)), -(-len(candidates) // max(1, self.executor.slots()))))
        self.shares = [deque(own[k : k + size] for k in range(0, len(own), size))
                       for own in shares(candidates, self.executor.places)]

    def results(self) -> Iterator[Result]:
        for k in range(len(self.candidates)):
            while k not in self.found:
                if self.until is not None and time.monotonic() >= self.until:
                    return
                self._fill()
                self._wait()
            yield self.found.pop(k)

    def abandon(self) -> None:
        """Whoever asked has gone; what is under way has nobody to go to."""
        self.pool.strays.update({future: end for future, (_, end) in self.running.items()})
        self.running.clear()

    def _fill(self) -> None:
        while len(self.running) + len(self.pool.strays) < self.executor.slots():
            call = self._next()
            if call is None:
                return
            future = self.executor.submit([self.candidates[i] for i in call])
            self.running[future] = (call, time.monotonic() + self.pool.patience * len(call))
            # The thread that ends a call takes the same lock: it must not be left locked.
            with undisturbed():
                future.add_done_callback(self.pool.ended.put)

    def _next(self) -> tuple[int, ...] | None:
        """The call for the place that is free: of its own share, or the last that another has to do."""
        if self.again:
            return self.again.popleft()
        own = self.shares[self.executor.vacant()]
        if own:
            return own.popleft()
        most = max(self.shares, key=len)
        return most.pop() if most else None

    def _wait(self) -> None:
        strays = self.pool.strays
        now = time.monotonic()
        ends = [*strays.values(), *(end for _, end in self.running.values()), *([] if self.until is None else [self.until])]
        seconds = min([LOOK_SECONDS, *(max(0.0, end - now) for end in ends)])
        try:
            future = self.pool.ended.get(timeout=seconds)
            while True:
                if strays.pop(future, None) is None and future in self.running:
                    self._take(future)
                future = self.pool.ended.get_nowait()
        except Empty:
            pass
        now = time.monotonic()
        for future in [f for f, end in strays.items() if now >= end]:
            del strays[future]
            self.executor.abandon(future)
        for future, (call, end) in list(self.running.items()):
            if now < end:
                continue
            del self.running[future]
            lost = not self.executor.slots()
            self.executor.abandon(future)
            if lost:
                # No worker was there to try it: nothing is known of the candidate.
                self.again.appendleft(call)
            else:
                self._again(call, f"no result after {self.pool.patience:g} seconds")

    def _take(self, future: Future[Measured]) -> None:
        call, _ = self.running.pop(future)
        if future.cancelled():
            # Not by this process, which asks no more for what it takes back: a scheduler that has gone takes its calls along, and
            # is missed here. One that has come back is asked again.
            self.executor.slots()
            self.again.appendleft(call)
            return
        error = future.exception()
        if error is None:
            measured = future.result()
            self.found.update(zip(call, measured.results, strict=True))
            if measured.seconds:
                self.pool.each = 0.5 * self.pool.each + 0.5 * measured.seconds / len(call)
            self.false_starts = 0
        elif isinstance(error, VersionError):
            raise ExecutorError(
                f"a worker computes cycles of version {error.there}, this process of {error.here}; install the same autosched "
                "on both"
            ) from error
        elif (fault := self.executor.fault(future)) is Fault.START:
            self.false_starts += 1
            if self.false_starts > FALSE_STARTS:
                begun = f"{self.false_starts} worker processes ended before they could begin{_codes(error)}"
                raise ExecutorError(begun) from error
            self.again.appendleft(call)
        elif fault is Fault.WORKER:
            self._again(call, "its worker process died")
        else:
            raise error

    def _again(self, call: tuple[int, ...], reason: str) -> None:
        """Each candidate of a lost call alone, so that the one at fault is known by it; none more than ``TRIES`` times."""
        for k in reversed(call):
            self.deaths[k] += 1
            if self.deaths[k] < TRIES:
                self.again.appendleft((k,))
            else:
                self.found[k] = Result.failed("environment", f"{reason}, {self.deaths[k]} times")


def _codes(error: BaseException) -> str:
    """The one fact in what the library says of a worker's end, which has guesses, too, and many lines."""
    found = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
    return f", with {found[1]}" if found else ""
