"""Candidates measured by the workers of a Dask cluster: one that exists, or one made here for the run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from autosched.child import undisturbed
from autosched.errors import ExecutorError
from autosched.measure import Candidate
from autosched.records import version
from autosched.search.executors import Fault
from autosched.search.worker import Measured, work

CONNECT_SECONDS = 10
STARTS = 3  # of a cluster of our own, whose workers may be killed before they are ready


class DaskExecutor:
    """Calls go to a scheduler, which gives those of a lost worker to another one.

    Args:
        jobs: workers of a cluster of our own.
        scheduler: address of a scheduler, e.g. ``tcp://host:8786``; None starts a cluster on this machine.

    Raises:
        ExecutorError: Dask is not installed.
    """

    places = 1
    copies = False

    def __init__(self, jobs: int, scheduler: str | None = None) -> None:
        try:
            import distributed
        except ImportError:
            raise ExecutorError("--executor dask needs the package distributed; run: pip install 'autosched[cluster]'") from None
        self._dask: Any = distributed
        self.jobs, self.scheduler = jobs, scheduler
        self._cluster: Any = None
        self._client: Any = None
        self._calls: Any = None

    def start(self) -> None:
        """Connects.

        Raises:
            ExecutorError: no scheduler answers, or no cluster starts.
        """
        # What the library says of lost workers is ours to say, where it is of use.
        for name in ("", ".client", ".nanny", ".worker", ".scheduler", ".core"):
            logging.getLogger(f"distributed{name}").setLevel(logging.CRITICAL)
        logging.getLogger("tornado.application").addFilter(_no_lost_connection)
        try:
            if self.scheduler is not None:
                # A client of an address that cannot be leaves threads behind.
                from distributed.comm.addressing import parse_address, parse_host_port
                from distributed.comm.registry import get_backend

                scheme, place = parse_address(self.scheduler)
                get_backend(scheme)
                if scheme != "inproc":
                    # A port that is no number is answered in Python's own words, and one that is too large with a wait.
                    _, mark, port = place.rpartition(":")
                    if mark and not (port.isdecimal() and 0 < int(port) < 1 << 16) and not port.endswith("]"):
                        raise ValueError(f"{port!r} is no port, as the 8786 of tcp://host:8786")
                    parse_host_port(place)
            else:
                with undisturbed():
                    self._cluster = self._local()
            self._client = self._dask.Client(self._cluster or self.scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            where = self.scheduler or "this machine"
            raise ExecutorError(f"no Dask scheduler answers at {where}: {_first_line(error)}") from error
        self._calls = self._client.get_executor(pure=False)

    def _local(self) -> Any:
        """A cluster of this machine. A worker that is killed while it starts takes it along; it is then started anew."""
        left = STARTS
        while True:
            left -= 1
            try:
                return self._dask.LocalCluster(
                    n_workers=self.jobs, threads_per_worker=1, processes=True, dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            except RuntimeError as error:
                if not left:
                    raise OSError(f"its workers do not start: {_first_line(error)}") from error

    def slots(self) -> int:
        """Threads of all workers that are there now.

        Raises:
            ExecutorError: the scheduler is gone.
        """
        try:
            threads = self._client.nthreads()
        except (OSError, TimeoutError, ValueError) as error:
            raise ExecutorError(f"the Dask scheduler {self._client.scheduler.address} is gone: {_first_line(error)}") from error
        return int(sum(threads.values()))

    def vacant(self) -> int:
        """The scheduler alone knows."""
        return 0

    def submit(self, candidates: Sequence[Candidate]) -> Future[Measured]:
        """Hands candidates to the scheduler."""
        with undisturbed():
            future: Future[Measured] = self._calls.submit(work, tuple(candidates), version())
        return future

    def fault(self, future: Future[Measured]) -> Fault:
        """The scheduler has tried a call on several workers before it gives up."""
        return Fault.WORKER if isinstance(future.exception(), self._dask.KilledWorker) else Fault.CALL

    def abandon(self, future: Future[Measured]) -> None:
        """Takes a call back; a worker that hangs in it belongs to the cluster."""
        with undisturbed():
            future.cancel()

    def stop(self) -> None:
        """Leaves the cluster, or ends it where it is ours."""
        for part in (self._client, self._cluster):
            if part is not None:
                part.close(timeout=5)
        self._client = self._cluster = None


def _no_lost_connection(record: logging.LogRecord) -> bool:
    """All but the end of a connection, which the loop below the library tells as well."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "CommClosedError"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
