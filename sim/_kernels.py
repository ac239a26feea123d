"""Keeps numba's on-disk cache honest.

numba recompiles a cached kernel when its own source file changes, but not when a kernel that it calls, or a
constant that it froze, lives in another file that changed: after an upgrade it would run the old one. Here the
stamp of a kernel module takes its dependencies in.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from numba.core import caching

# Digest of a kernel module's dependencies, by the path that numba knows it under.
_DIGESTS: dict[str, str] = {}


def refresh(source: str, *dependencies: str | ModuleType) -> None:
    """Make the kernels of ``source``, a module's ``__file__``, depend on ``dependencies`` too: siblings' names, or modules.

    To be called before the module's first kernel is defined.
    """
    digest = hashlib.sha256()
    files = [Path(source).with_name(f"{d}.py") if isinstance(d, str) else Path(str(d.__file__)) for d in dependencies]
    for file in sorted(files):
        digest.update(file.read_bytes())
    _DIGESTS[os.path.abspath(source)] = digest.hexdigest()


def _stamp_dependencies() -> None:
    # No public hook exists. The mixin is what every locator of plain source files inherits.
    mixin: Any = caching._SourceFileBackedLocatorMixin
    if getattr(mixin.get_source_stamp, "of_sim", False):
        return
    own_stamp = mixin.get_source_stamp

    def get_source_stamp(self: Any) -> Any:
        stamp = own_stamp(self)
        digest = _DIGESTS.get(os.path.abspath(getattr(self, "_py_file", "")))
        return stamp if digest is None else (stamp, digest)

    get_source_stamp.of_sim = True  # type: ignore[attr-defined]
    mixin.get_source_stamp = get_source_stamp


_stamp_dependencies()
