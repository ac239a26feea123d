"""What every child process of ours does first: it dies with its parent, is deaf to Ctrl-C, and has a limit on its memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOOK = 0.5  # seconds between two looks at the parent, where the system does not tell
MEMORY = 4 << 30  # bytes that a child may take on top of what it has when it starts
_PR_SET_PDEATHSIG = 1


@contextmanager
def deaf() -> Iterator[None]:
    """Children started inside are deaf to Ctrl-C from their first instruction on; it reaches this process all the same.

    A terminal sends SIGINT to every process of its foreground group. A blocked signal stays blocked in a child, also before its
    Python has begun.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(parent: int, memory: int = MEMORY) -> None:
    """Ties this process to its parent and limits its memory; to be called in the main thread.

    Args:
        parent: process id of the parent, which may be gone already.
        memory: bytes that may be allocated from now on; more raises MemoryError, or ends the process where a library
            cannot go on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    limit_memory(memory)


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
