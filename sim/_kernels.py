"""Keeps numba's on-disk cache honest.

numba recompiles a cached kernel when its own source file changes, but not when a kernel that it calls, or a
constant that it froze, lives in another file that changed: after an upgrade it would run the old one. Here the
stamp of a kernel module takes its dependencies in.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from sim._numba import DefaultOptions, caching, event, njit, rtsys
from sim._numba import config as numba_config
from sim.deferral import deferred
from sim.errors import SimError
from sim.notices import tell

F = TypeVar("F", bound=Callable[..., Any])

config: Any = numba_config
# Digest of a kernel module's dependencies, by the path that numba knows it under.
_DIGESTS: dict[str, str] = {}


# A number with a type, for what kernels hand each other: of a literal, also of a variable that begins as one, numba compiles the
# kernel that gets it once more for each.
ZERO: Any = np.int64(0)


def refresh(source: str, *dependencies: str | ModuleType) -> None:
    """Make the kernels of ``source``, a module's ``__file__``, depend on ``dependencies`` too: siblings' names, or modules.

    And on this file, which says how they are compiled.

    To be called before the module's first kernel is defined.
    """
    digest = hashlib.sha256()
    files = [Path(source).with_name(f"{d}.py") if isinstance(d, str) else Path(str(d.__file__)) for d in dependencies]
    for file in sorted([*files, Path(__file__)]):
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


def kernel(function: F | None = None, **options: Any) -> Any:
    """A kernel that numba compiles once for a machine, and loads from its cache afterwards; with options, a decorator.

    Args:
        function: what to compile.
        options: of ``numba.njit``.
    """
    if function is None:
        return partial(kernel, **options)
    compiled = njit(cache=True, **options)(function)
    cache: Any = getattr(compiled, "_cache", None)
    if all(hasattr(cache, name) for name in ("load_overload", "_load_overload", "_guard_against_spurious_io_errors")):
        cache.load_overload = partial(_loaded, cache)
    return compiled


def _loaded(cache: Any, signature: Any, context: Any) -> Any:
    """What a cache has of a kernel, or None.

    Before it looks, numba's own loads all that it has for compiling: a third of a second in every process. What is compiled
    already needs only the runtime, for its arrays; and who compiles loads the rest. Signals wait meanwhile: an interrupt in what
    LLVM calls back is dropped there, and a kernel that is there by half ends the process when it runs.
    """
    rtsys.initialize(context)
    with deferred(), cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, context)


def lean(function: F) -> F:
    """A kernel that allocates nothing: it gets its arrays without counting references to them.

    Counting is atomic, at every call and for every view, and takes many times what such a kernel does: the event model runs ten
    times slower with it. The option is numba's own and not documented: where there is none, references are counted.
    """
    compiled: F = kernel(function, **({"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}))
    return compiled


class _Compiling(event.Listener):  # type: ignore[misc]
    """Says once that kernels are compiled, when the first of ours is."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        """A function is compiled; not when it comes from the cache."""
        ours = event.data["dispatcher"].py_func.__module__.split(".")[0] in ("sim", "autosched", "space")
        if ours and not self.said:
            self.said = True
            tell("compiling kernels, once for this version on this machine; up to a minute" + _UNKEPT)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def _probe() -> None:
    """What numba is asked about: can it keep compiled code?"""


def _keep() -> str:
    """Where neither the package nor the user's cache folder can be written, compiled code lives as long as this process.

    Returns:
        What to say about that, or nothing.
    """
    if config.CACHE_DIR:
        return ""
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        pass
    else:
        return ""
    try:
        folder = tempfile.mkdtemp(prefix="autosched-kernels-")
    except OSError as error:
        raise SimError(f"no folder for compiled kernels can be written ({error}); name one in NUMBA_CACHE_DIR") from None
    # Worker processes inherit it.
    config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = folder
    atexit.register(_remove, folder, os.getpid())
    return " (again in every run: no folder to keep them in can be written; name one in NUMBA_CACHE_DIR)"


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


_UNKEPT = _keep()
COMPILING = _Compiling()
event.register("numba:compile", COMPILING)
