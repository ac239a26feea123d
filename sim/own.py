"""Processes that are ours: in them a library need not load what it has for others and can do without.

When it is imported, numba looks whether lines of kernels are to be counted, and XGBoost loads what draws trees and what fits
another library's classes: a twentieth of a second each, and we use none of it. In a program that uses us as a library that stays
as it is: it may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_claimed = False


def claim() -> None:
    """Says that this process runs nothing but our own code; to be called before any kernel of ours is imported."""
    global _claimed
    _claimed = True


@contextmanager
def without(*unused: str) -> Iterator[None]:
    """For loading a library: in a process of ours, what is there for others is not to be had within the block.

    Args:
        unused: names of modules that the library does without.
    """
    hidden = [name for name in unused if _claimed and name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python says that there is no such module
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)  # another thread may have been first
