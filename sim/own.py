"""Processes that are ours: in them numba need not load what it has for the kernels of others.

When it loads its first kernel, numba looks whether scipy has a BLAS for it, and when it is imported, whether lines of kernels
are to be counted. Together that takes a fifth of a second of a process, and no kernel of ours uses either. In a program that uses
us as a library both stay as they are: its own kernels may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_UNUSED = ("coverage", "scipy.linalg")
_claimed = False


def claim() -> None:
    """Says that this process runs no kernels but ours; to be called before any of them is imported."""
    global _claimed
    _claimed = True


@contextmanager
def without_others() -> Iterator[bool]:
    """For loading numba: in a process of ours, what is there for others is not to be had within the block. Gives whose it is."""
    hidden = [name for name in _UNUSED if _claimed and name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python says that there is no such module
    try:
        yield _claimed
    finally:
        for name in hidden:
            del sys.modules[name]
