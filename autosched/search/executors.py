"""Where candidates are measured: in this process, in worker processes of this machine (loky), or on a cluster (Dask).

An executor hands out futures of ``Measured``. What is retried, and how long an answer is waited for, is the pool's business.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import cache
from importlib import import_module
from multiprocessing import active_children
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Protocol
from weakref import WeakKeyDictionary

from autosched.child import (
    COPIES,
    MEMORY,
    YOUNG,
    begin_worker,
    deafen,
    descriptor,
    look_seldom,
    may_start,
    undisturbed,
)
from autosched.errors import ExecutorError, UnknownNameError
from autosched.measure import Candidate
from autosched.records import version
from autosched.search.worker import Measured, one, ready, work

NAMES = ("loky", "serial", "dask")
_NAMING = threading.RLock()  # one thread at a time has the library name its semaphores otherwise


class Fault(Enum):
    """What a future's error says."""

    CALL = "the call failed: a bug"
    WORKER = "its worker ended while it ran"
    START = "its worker ended before it ran"


class Executor(Protocol):
    """A place where candidates are measured, or several.

    Args:
        places: that can be told apart: what a process has measured helps it with what is alike.
        copies: whether its workers are copies of this process, which then had better have loaded what they need.
    """

    places: int
    copies: bool

    def start(self) -> None:
        """Gets ready; workers may still be on their way when it returns."""

    def slots(self) -> int:
        """How many calls it can run at once; 0 while it has no worker."""

    def vacant(self) -> int:
        """Which of its places the next call goes to, of those that are free."""

    def submit(self, candidates: Sequence[Candidate]) -> Future[Measured]:
        """Measures candidates; no more calls than ``slots()`` may be under way."""

    def fault(self, future: Future[Measured]) -> Fault:
        """Whose fault it is that a future has failed."""

    def abandon(self, future: Future[Measured]) -> None:
        """Gives up a call that is under way, with its worker where that is ours."""

    def stop(self) -> None:
        """Ends everything that ``start`` and ``submit`` began, now."""


def make_executor(name: str, jobs: int, scheduler: str | None = None) -> Executor:
    """The executor of a name.

    Args:
        name: ``loky``, ``serial`` or ``dask``.
        jobs: worker processes, where they are ours.
        scheduler: address of a Dask scheduler; None starts a cluster of ``jobs`` workers on this machine.

    Raises:
        UnknownNameError: no such executor.
        ExecutorError: ``dask`` is not installed, an address is given that nothing uses, or this process may start no others.
    """
    if name not in NAMES:
        raise UnknownNameError("executor", name, NAMES)
    if name != "serial" and scheduler is None and not may_start():
        raise ExecutorError(
            f"executor {name} starts processes, which a daemon (as a worker of multiprocessing.Pool) may not: serial has none"
        )
    if scheduler is not None and name != "dask":
        raise ExecutorError(f"--scheduler is for --executor dask, not for {name}")
    if name == "dask":
        from autosched.search.dask_executor import DaskExecutor

        return DaskExecutor(jobs, scheduler)
    return LokyExecutor(jobs) if name == "loky" else SerialExecutor()


class SerialExecutor:
    """In this process; nothing protects it from a candidate that takes its memory."""

    places = 1
    copies = False

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()

    def start(self) -> None:
        """Nothing to start; the collector of cyclic garbage looks less often until ``stop``, as in a worker."""
        if 0 < self._thresholds[0] < YOUNG:
            look_seldom()

    def slots(self) -> int:
        """One call at a time."""
        return 1

    def vacant(self) -> int:
        """There is one place."""
        return 0

    def submit(self, candidates: Sequence[Candidate]) -> Future[Measured]:
        """Measures before it returns."""
        future: Future[Measured] = Future()
        future.set_result(Measured(tuple(map(one, candidates)), 0.0))
        return future

    def fault(self, future: Future[Measured]) -> Fault:
        """There is no worker that could end."""
        return Fault.CALL

    def abandon(self, future: Future[Measured]) -> None:
        """Nothing is ever under way."""

    def stop(self) -> None:
        """The collector is as it was."""
        gc.set_threshold(*self._thresholds)


class _Worker:
    """One process, with the call that it runs.

    Args:
        context: how it begins; None for an interpreter of its own.
    """

    def __init__(self, context: BaseContext | None) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        with undisturbed(), ExitStack() as names:
            # What a copy shares with its original has no name that could outlive them.
            if context is None:
                _track_semaphores()
                names.enter_context(_semaphores_are_known_before_they_are())
            before = set(active_children())
            self.executor = ProcessPoolExecutor(
                max_workers=1, timeout=None, context=context, initializer=begin_worker, initargs=(os.getpid(), MEMORY)
            )
            self.ready: Future[None] = self.executor.submit(ready)
            self.processes = set(active_children()) - before
        self.call: Future[Measured] | None = None

    def end(self, wait: bool) -> None:
        with undisturbed():
            self.executor.shutdown(wait=wait, kill_workers=True)


class LokyExecutor:
    """Worker processes of this machine, each an executor of its own.

    A pool of several workers is broken as a whole when one of them dies. Alone, a dead worker takes nothing with it but its own
    call, and it is known whose fault that was.

    On Linux they are copies of this process, as the check of the best is: loading what it has in memory already would take each a
    second. What they run needs no thread and no lock of the original's; one that waits for such a lock all the same is given up
    with its call.

    Args:
        jobs: worker processes.
    """

    copies = COPIES

    def __init__(self, jobs: int) -> None:
        self.jobs = self.places = jobs
        self._workers: list[_Worker] = []
        self._processes: set[BaseProcess] = set()
        # Of calls whose worker has been replaced since, whether it had begun: who asks for the fault may come later.
        self._replaced: WeakKeyDictionary[Future[Measured], Future[None]] = WeakKeyDictionary()

    def start(self) -> None:
        """Starts all workers; those that are no copies load what they need while this process goes on."""
        with undisturbed():
            for _ in range(self.jobs):
                self._workers.append(self._begun())

    def _begun(self) -> _Worker:
        return _Worker(_copies() if self.copies else None)

    def slots(self) -> int:
        """One call per worker."""
        return self.jobs

    def vacant(self) -> int:
        """The first worker without a call."""
        return next(k for k, w in enumerate(self._workers) if w.call is None or w.call.done())

    def submit(self, candidates: Sequence[Candidate]) -> Future[Measured]:
        """Hands candidates to a worker that is free, or to a new one in the place of one that died."""
        from joblib.externals.loky import BrokenProcessPool

        arguments = tuple(candidates), version()
        # An interrupt inside a library's queue would leave its lock locked, and the threads that need it waiting for ever.
        with undisturbed():
            spot = self.vacant()
            try:
                future: Future[Measured] = self._workers[spot].executor.submit(work, *arguments)
            except BrokenProcessPool:
                self._replace(spot)
                future = self._workers[spot].executor.submit(work, *arguments)
            self._workers[spot].call = future
            return future

    def fault(self, future: Future[Measured]) -> Fault:
        """A worker's end breaks its executor."""
        from joblib.externals.loky import BrokenProcessPool

        if not isinstance(future.exception(), BrokenProcessPool):
            return Fault.CALL
        begun = next((w.ready for w in self._workers if w.call is future), self._replaced.get(future))
        return Fault.WORKER if begun is not None and begun.exception() is None else Fault.START

    def abandon(self, future: Future[Measured]) -> None:
        """Kills the worker that runs a call, and starts another."""
        for spot, worker in enumerate(self._workers):
            if worker.call is future:
                self._replace(spot)

    def _replace(self, spot: int) -> None:
        with undisturbed():
            worker = self._workers[spot]
            if worker.call is not None:
                self._replaced[worker.call] = worker.ready
            self._processes |= worker.processes
            worker.end(wait=False)
            self._workers[spot] = self._begun()

    def stop(self) -> None:
        """Kills all workers: none of them holds anything that is worth waiting for."""
        with undisturbed(), _managers_end_quietly():
            for worker in self._workers:
                self._processes |= worker.processes
                worker.end(wait=True)
            # Whatever the library has made of it: a worker that is left would be waited for when this process ends.
            for process in self._processes:
                if process.is_alive():
                    process.terminate()
            self._workers, self._processes = [], set()


@cache
def _copies() -> BaseContext:
    """Begins processes that are copies of this one."""
    # Made here: where there is no fork there are no such classes.
    from multiprocessing.context import ForkContext, ForkProcess

    class Copy(ForkProcess):
        def run(self) -> None:
            # A worker that cannot say what it dies of ends at once, and a notebook's cell or a string is no file to say it to.
            with open(os.devnull, "w") as nowhere:
                if descriptor(sys.stderr) is None:
                    sys.stderr = nowhere if descriptor(sys.__stderr__) is None else sys.__stderr__
                super().run()

    class Copies(ForkContext):
        Process = Copy

    return Copies()


def _track_semaphores() -> None:
    """Starts what removes the semaphores of a process that is killed, and says nothing of it: nobody could do better."""
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    before = list(sys.warnoptions)
    sys.warnoptions.append("ignore:resource_tracker")
    try:
        loky_tracker.ensure_running()
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions[:] = before
    # Their first start unblocks SIGINT for those that follow.
    deafen()


@contextmanager
def _semaphores_are_known_before_they_are() -> Iterator[None]:
    """The library makes a semaphore, and then tells its tracker of it: killed in between, this process would leave it behind."""
    from joblib.externals.loky.backend import resource_tracker

    semaphores = import_module("joblib.externals.loky.backend.synchronize").SemLock
    with _NAMING:
        make = getattr(semaphores, "_make_name", None)
        if make is None:
            # Another version of the library: a kill within a few microseconds is then as it always was.
            yield
            return

        def told() -> str:
            name: str = make()
            # Told again by the library, and forgotten in one go.
            resource_tracker.register(name, "semlock")
            return name

        semaphores._make_name = staticmethod(told)
        try:
            yield
        finally:
            semaphores._make_name = staticmethod(make)


@contextmanager
def _managers_end_quietly() -> Iterator[None]:
    """A thread of loky's that is told to end while a call is on its way to it may trip over that; nobody waits for it then."""
    outer = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or args.thread.name != "ExecutorManagerThread":
            outer(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = outer
