"""Keeps numba's on-disk cache honest.

numba recompiles a cached kernel when its own source file changes, but not when a kernel that it calls, or a
constant that it froze, lives in another file that changed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def refresh(source: str, *dependencies: str) -> None:
    """Make ``source``, a kernel module's ``__file__``, as new as the newest of its sibling ``dependencies``.

    To be called before the module's first kernel is defined. Does nothing where the files cannot be written:
    an installed package has them all of one age.
    """
    own = Path(source)
    with contextlib.suppress(OSError):
        newest = max(own.with_name(f"{name}.py").stat().st_mtime_ns for name in dependencies)
        if newest > own.stat().st_mtime_ns:
            os.utime(own, ns=(newest, newest))
