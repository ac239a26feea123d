"""What runs in a worker process: a few candidates, one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.measure import Candidate, Result, measure
from autosched.records import version


@dataclass(frozen=True)
class Measured:
    """What a worker sends back.

    Args:
        results: one per candidate.
        seconds: how long they took together.
    """

    results: tuple[Result, ...]
    seconds: float


class VersionError(Exception):
    """A worker runs another version of lowering and simulator than the process that asks.

    Args:
        here: version of the asking process.
        there: version of the worker.
    """

    def __init__(self, here: str, there: str) -> None:
        super().__init__(here, there)
        self.here, self.there = here, there


def work(candidates: Sequence[Candidate], wanted: str) -> Measured:
    """Measures candidates in order.

    Args:
        candidates: what to measure.
        wanted: version of lowering and simulator in the process that asks.

    Raises:
        VersionError: this process has another version.
    """
    if version() != wanted:
        raise VersionError(wanted, version())
    begun = time.perf_counter()
    results = tuple(map(one, candidates))
    return Measured(results, time.perf_counter() - begun)


def one(candidate: Candidate) -> Result:
    """Measures a candidate; running out of memory says something about this machine, not about the candidate.

    Points of a space are legal, so a tenth of the work, which would only prove it, is left out: who is best is replayed with all
    checks and executed before anybody believes it. A rule of somebody else's may emit what is not: what then goes wrong here is
    for the checks to say.
    """
    try:
        try:
            return measure(candidate, check=False)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 (a step that should have been refused may go wrong anywhere)
            return measure(candidate)
    except MemoryError:
        return Result.failed("environment", "the worker's memory did not suffice")


def ready() -> None:
    """Nothing: that it ran says that the worker is up, with all that it needs imported."""
