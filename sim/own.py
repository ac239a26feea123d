"""Processes that are ours: in them numba need not load what it has for the kernels of others.

When it is imported, numba looks whether lines of kernels are to be counted, which takes a twentieth of a second, and no kernel of
ours uses it. In a program that uses us as a library that stays as it is: its own kernels may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_UNUSED = ("coverage",)
_claimed = False


def claim() -> None:
    """Says that this process runs no kernels but ours; to be called before any of them is imported."""
    global _claimed
    _claimed = True


@contextmanager
def without_others() -> Iterator[None]:
    """For loading numba: in a process of ours, what is there for others is not to be had within the block."""
    hidden = [name for name in _UNUSED if _claimed and name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python says that there is no such module
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
