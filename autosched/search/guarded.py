"""A measurement in a process of its own, also where candidates are measured in this one: what harms it costs only that."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from autosched.child import COPIES, begin, may_start, undisturbed
from autosched.measure import Candidate, Result, measure


def check(candidate: Candidate, patience: float) -> Result | None:
    """Measures a candidate, executes its program and compares what it computes with the reference.

    Args:
        candidate: what to check.
        patience: seconds that it may take.

    Returns:
        The result, with status ``environment`` where there was none in time; None where the process ended without one. Who may
        start no other process, and cannot be copied, checks in this one, however long that takes.
    """
    found = _found(candidate) if not COPIES and not may_start() else _apart(candidate, patience)
    if isinstance(found, Exception):
        raise found
    return found


def _apart(candidate: Candidate, patience: float) -> Result | Exception | None:
    here, there = multiprocessing.Pipe(duplex=False)
    try:
        with undisturbed():
            end = _started(there, candidate)
            there.close()
        try:
            if not here.poll(patience):
                return Result.failed("environment", f"no result after {patience:g} seconds")
            found: Result | Exception = here.recv()
        except (EOFError, OSError):
            return None
        finally:
            with undisturbed():
                end()
    finally:
        here.close()
    return found


def _started(pipe: Connection, candidate: Candidate) -> Callable[[], None]:
    """Begins a check; returns what ends it. Signals must not disturb."""
    parent = os.getpid()
    if COPIES:
        child = os.fork()
        if not child:
            _answer(pipe, candidate, parent)

        def end() -> None:
            # Where SIGCHLD is ignored, nothing is left of it to be waited for.
            with suppress(ChildProcessError, ProcessLookupError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

        return end
    process = multiprocessing.get_context("spawn").Process(target=_answer, args=(pipe, candidate, parent))
    process.start()

    def stop() -> None:
        process.kill()
        process.join()

    return stop


def _answer(pipe: Connection, candidate: Candidate, parent: int) -> None:
    """In the child: never returns, for in a copy the way back leads into what the original does next."""
    try:
        begin(parent)
        pipe.send(_found(candidate))
    finally:
        os._exit(0)


def _found(candidate: Candidate) -> Result | Exception:
    try:
        return measure(candidate, execute=True, wide=True)
    except MemoryError:
        return Result.failed("environment", "the worker's memory did not suffice")
    except Exception as error:  # noqa: BLE001 - a bug, or a mistake of the caller: raised where it can be told
        return error
