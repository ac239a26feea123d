"""pytest plugin of the mutation run: tells coverage which test is running, and the run how far it is and what a test costs.

What is covered is written down after every test: whoever watches may end this process at any moment. Random tests draw few
examples: kernels run uncompiled.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import coverage
import pytest
from hypothesis import settings

EXAMPLES = 8
LIMITS: dict[str, float] = json.loads(os.environ.get("MUTATION_LIMITS", "{}"))  # seconds of a processor, by test


def _tell(*words: object) -> None:
    with open(os.environ["MUTATION_PROGRESS"], "a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cuts the number of examples."""
    for item in items:
        function = getattr(item, "obj", None)
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > EXAMPLES:
            target = getattr(function, "__func__", function)
            target._hypothesis_internal_use_settings = settings(own, max_examples=EXAMPLES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Names the context after the test."""
    running = coverage.Coverage.current()
    if running is None:
        _tell("begins", 0, item.nodeid)
        # This ends the process.
        signal.setitimer(signal.ITIMER_PROF, LIMITS.get(item.nodeid, 0.0))
        return (yield)
    _tell("begins", 0, item.nodeid)
    running.switch_context(item.nodeid)
    begun = time.process_time()
    try:
        return (yield)
    finally:
        running.switch_context("")
        running.save()
        _tell("ends", time.process_time() - begun, item.nodeid)
