"""What every child process of ours does first: it dies with its parent, is deaf to Ctrl-C, has a limit on its memory, looks for
cyclic garbage seldom, and keeps what it has freed. The last two are for commands as well."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from sim.deferral import ENDING, deferred
from sim.own import claim

LOOK = 0.5  # seconds between two looks at the parent, where the system does not tell
COPIES = sys.platform == "linux"  # whether children that we start are copies (fork), with all loaded that this process has
MEMORY = 4 << 30  # bytes that a child may take on top of what it has when it starts
# Trees have no cycles, and looking for cyclic garbage took a fifth of a replay. Objects made between two looks at the youngest,
# few enough to be in the processor's cache; and such looks between two at what has outlived them, which mostly is to be kept.
YOUNG, OLDER = 5_000, 1_000
# Arrays of a megabyte come and go thousands of times. Given back to the system, each gets pages anew, which the system clears: a
# twentieth of a run. Bytes that are kept in one piece, and the largest array that comes from there, the most that glibc takes.
KEPT, LARGEST = 256 << 20, 32 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_PR_SET_PDEATHSIG = 1


@contextmanager
def undisturbed() -> Iterator[None]:
    """For starting and ending children: signals wait until the block is over, and children begin deaf to Ctrl-C.

    An interrupt between the making of a process or a semaphore and its being known would leave it behind. And a terminal sends
    SIGINT to every process of its foreground group; a blocked signal stays blocked in a child, also before its Python has begun.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with deferred():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if hasattr(signal, "pthread_sigmask") else None
        deafen()
        try:
            yield
        finally:
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def may_start() -> bool:
    """Whether Python lets this process have children of its own: it does not let a daemon, as workers of its pools are."""
    # Here, for most commands start none and ask for nothing of it.
    from multiprocessing import current_process

    return not current_process().daemon


def descriptor(stream: TextIO | None) -> int | None:
    """Where a stream writes, as the system knows it; None where that is no file: a notebook's cell, a string, nothing."""
    try:
        found = -1 if stream is None else stream.fileno()
        return found if found >= 0 else None
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError):
        return None  # it has none, is closed, or is hardly a stream


def deafen() -> None:
    """Blocks SIGINT in this thread and in the children that it starts, once more where a library has unblocked it."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def begin(parent: int, memory: int = MEMORY) -> None:
    """Ties this process to its parent and limits its memory; to be called in the main thread.

    Args:
        parent: process id of the parent, which may be gone already.
        memory: bytes that may be allocated from now on; more raises MemoryError, or ends the process where a library
            cannot go on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in ENDING:
        # A copy has its parent's answers to what ends it, which are the parent's affair. What is ignored (nohup) stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    _die_with(parent)
    limit_memory(memory)
    look_seldom()
    keep_memory()
    # What is there lives as long as this process: not to be looked through, and in a copy not to be written to.
    gc.freeze()


def begin_worker(parent: int, memory: int = MEMORY) -> None:
    """``begin`` for a process that runs nothing but our own code; arguments as there."""
    begin(parent, memory)
    claim()


def look_seldom() -> None:
    """Has Python look for cyclic garbage as seldom as is good for trees."""
    gc.set_threshold(YOUNG, OLDER, gc.get_threshold()[2])


def keep_memory() -> None:
    """Has the C library keep what is freed for what is asked for next; no effect without glibc."""
    if sys.platform == "linux":
        import ctypes

        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_TRIM_THRESHOLD, KEPT)
            mallopt(_M_MMAP_THRESHOLD, LARGEST)


def limit_memory(more: int) -> None:
    """Limits what this process may still allocate to ``more`` bytes; no effect where the system has no such limit."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = now + more
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    except (ImportError, OSError, ValueError):
        return


def _die_with(parent: int) -> None:
    """Ends this process soon after its parent, however that ended."""
    if sys.platform == "linux":
        # The kernel tells at once, also while a compiled kernel runs.
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    if hasattr(os, "getppid"):
        threading.Thread(target=watch, name="parent", daemon=True).start()
