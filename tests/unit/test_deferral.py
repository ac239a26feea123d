"""What ends a process waits for work that an interrupt would leave half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from sim.deferral import deferred


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """A process that was begun behind others may ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupt_waits_until_the_work_is_done(times: int) -> None:
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt):
        with deferred():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            done.append("work")
        done.append("behind it")
    assert done == ["work"] and signal.getsignal(signal.SIGINT) is before


def test_what_is_ignored_stays_so_and_other_threads_have_no_signals() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def elsewhere() -> None:
        with deferred():
            seen.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [True]
