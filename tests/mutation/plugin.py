"""pytest plugin of the mutation run: a test that takes longer than SECONDS does not take part."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

SECONDS = int(os.environ.get("MUTATION_SECONDS", "5"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skips a test that runs too long."""

    def late(number: int, frame: FrameType | None) -> None:
        pytest.skip("too slow for the mutation run")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
