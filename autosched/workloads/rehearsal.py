"""A user's file is run in a process of its own first: one that never ends, or takes all memory, costs only that process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from autosched.child import undisturbed
from autosched.errors import ProgramError

SECONDS = 60.0  # that a file may take to be loaded, where nobody says less
# Exit code of the child where memory did not suffice; anything else that it finds is found again, and told, by the parent.
_LOST = 3
_CODE = f"""
import sys
from autosched.child import begin
begin(int(sys.argv[1]))
from pathlib import Path
from autosched.workloads.user_file import load
sys.path.insert(0, str(Path(sys.argv[2]).parent))
try:
    load(Path(sys.argv[2]), sys.argv[3])
except MemoryError:
    sys.exit({_LOST})
except (Exception, SystemExit):
    pass
"""
_seconds: ContextVar[float] = ContextVar("_seconds", default=SECONDS)
# What went well is not tried again: files by path, time of change and attribute.
_good: set[tuple[Path, int, str]] = set()


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Within the block a file may take so many seconds to be loaded; None leaves it at what it was."""
    token = _seconds.set(min(SECONDS, seconds) if seconds is not None else _seconds.get())
    try:
        yield
    finally:
        _seconds.reset(token)


def rehearse(file: str, path: Path, attribute: str) -> None:
    """Runs a file and its function in a child process, with limits on time and memory.

    Args:
        file: the file as the user typed it.
        path: the same, absolute.
        attribute: what is wanted of it.

    Raises:
        ProgramError: it does not end in time, takes too much memory, or kills its process.
    """
    mark = path, path.stat().st_mtime_ns, attribute
    if mark in _good:
        return
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with undisturbed():
        child = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(os.getpid()), str(path), attribute], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    try:
        code = child.wait(_seconds.get())
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{file}: {attribute} is not loaded after {_seconds.get():g} seconds") from None
    finally:
        child.kill()
        child.wait()
    if code == _LOST:
        raise ProgramError(f"{file}: {attribute} takes more memory than a file may")
    if code < 0:
        raise ProgramError(f"{file}: {attribute} ends its process by signal {-code}")
    _good.add(mark)
