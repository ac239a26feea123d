"""Schedules that compute something else than their program: bugs, of which whoever runs a search hears whatever becomes of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from sim.markup import number

MISMATCH = "mismatch"  # the status of a check that compared bytes, and found others


def warn_of(workload: str, cycles: int, reason: str) -> None:
    """Says that a schedule was left because its bytes are wrong; the search goes on with the next one.

    Args:
        workload: its name.
        cycles: the schedule's.
        reason: what differs.
    """
    warnings.warn(
        f"{workload}: a schedule of {number(cycles)} cycles computes something else and was not taken: {reason}; unless a "
        "reference of your own is wrong, this is a fault of autosched, please report it", UserWarning,
        stacklevel=1,  # of one place, so that what several searches find is said once
    )


def differs(dropped: Iterable[tuple[int, str]]) -> bool:
    """Whether the bytes of some schedule that was dropped are wrong.

    Args:
        dropped: (cycles, reason) as of a report.
    """
    return any(is_wrong(reason) for _, reason in dropped)


def is_wrong(reason: str) -> bool:
    """Whether a reason for which a schedule was dropped is that its bytes are wrong."""
    return reason.startswith(f"{MISMATCH}: ")
