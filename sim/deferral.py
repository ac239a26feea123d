"""Signals that wait: for work that an interrupt in its midst would leave half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]  # what ends a process


@contextmanager
def deferred() -> Iterator[None]:
    """Lets what ends a process wait until the block is over; nothing outside the main thread, which has the signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {}
    for number in ENDING:
        handler = signal.getsignal(number)
        if handler is not None and handler is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        # The last first: once SIGINT has its handler back, it may end this very block.
        for number, handler in reversed(before.items()):
            signal.signal(number, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)
