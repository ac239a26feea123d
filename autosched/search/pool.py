"""The worker processes that measure candidates: loky through joblib, results in the order they were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from autosched.measure import Candidate, Result, measure


class MeasurePool:
    """Measures batches of candidates in this process (one job) or in worker processes.

    Workers are started once and kept. A worker that dies takes its batch with it; every candidate of that batch is then measured
    again alone, and one that kills its worker again becomes a failed result.

    Args:
        jobs: number of processes.
    """

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = max(1, jobs)
        self._parallel: Any = None

    def __enter__(self) -> MeasurePool:
        import sim
        from autosched import lower

        # Compiled and cached here, so that no worker compiles.
        sim.warm()
        lower.warm()
        if self.jobs > 1:
            self._start()
        return self

    def _start(self) -> None:
        from joblib import Parallel

        self._parallel = Parallel(n_jobs=self.jobs, backend="loky", return_as="generator", batch_size=1)
        self._parallel.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._parallel is not None:
            self._parallel.__exit__(None, None, None)
            self._parallel = None

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """The results, in the order of the candidates, as they come."""
        if self.jobs == 1 or len(candidates) == 1:
            yield from map(measure, candidates)
            return
        from joblib import delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        done = 0
        try:
            for result in self._parallel(delayed(measure)(c) for c in candidates):
                done += 1
                yield result
        except TerminatedWorkerError:
            yield from self._singly(candidates[done:])

    def _singly(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Each candidate in a fresh pool of its own: the one that kills its worker is known by it."""
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        self._stop()
        for candidate in candidates:
            try:
                yield Parallel(n_jobs=2, backend="loky", batch_size=1)([delayed(measure)(candidate)])[0]
            except TerminatedWorkerError:
                yield Result.failed("simulation", "the worker process died while measuring this candidate, twice")
        self._start()
