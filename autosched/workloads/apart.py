"""A user's file is run in a process of its own: one that never ends, or takes all memory, costs only that process.

What the file gives comes back as text, once: a program as its script, anything that is wrong as the line that says so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from autosched.child import descriptor, undisturbed
from autosched.errors import ProgramError

SECONDS = 60.0  # that a file may take to be loaded, where nobody says less
LOOK = 0.1  # seconds between two looks whether it has ended
LOADED = "AUTOSCHED_LOADED"  # in a child's environment: what is being loaded, of which file, a line each
LOST = 3  # exit code of the child where memory did not suffice
_CODE = """
import sys
from autosched.child import begin
begin(int(sys.argv[1]))
from autosched.workloads.user_file import tell
tell(*sys.argv[2:])
"""
_seconds: ContextVar[float] = ContextVar("_seconds", default=SECONDS)


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Within the block a file may take so many seconds to be loaded; None leaves it at what it was."""
    token = _seconds.set(min(SECONDS, seconds) if seconds is not None else _seconds.get())
    try:
        yield
    finally:
        _seconds.reset(token)


def told(file: str, path: Path, attribute: str) -> dict[str, Any]:
    """What a file says in a child process, with limits on time and memory; see ``autosched.workloads.user_file.tell``.

    Args:
        file: the file as the user typed it.
        path: the same, absolute.
        attribute: what is wanted of it.

    Raises:
        ProgramError: it does not end in time, takes too much memory, or ends its process; or it is being loaded for
            this already, and would ask for itself for ever.
    """
    wanted = f"{path}:{attribute}"
    loaded = os.environ.get(LOADED, "").split("\n")
    if wanted in loaded:
        raise ProgramError(f"{file} asks for {attribute} while it is loaded for it: put what uses its programs "
                           "below `if __name__ == '__main__':`")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), LOADED: "\n".join((*loaded, wanted))}
    # What the file prints goes to standard error, for standard output is data.
    chatter = descriptor(sys.stderr)
    if chatter is None:
        chatter = subprocess.PIPE
    else:
        sys.stderr.flush()
    with undisturbed():
        child = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(os.getpid()), file, str(path), attribute], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=chatter, start_new_session=True,
        )
    try:
        said = _said(child, _seconds.get())
    finally:
        _end(child)
    if said is None:
        raise ProgramError(f"{file}: {attribute} is not loaded after {_seconds.get():g} seconds")
    answer, printed = said
    if printed and sys.stderr is not None and not getattr(sys.stderr, "closed", False):
        sys.stderr.write(printed.decode(errors="replace"))
    if child.returncode == LOST:
        raise ProgramError(f"{file}: {attribute} takes more memory than a file may")
    if child.returncode < 0:
        raise ProgramError(f"{file}: {attribute} ends its process by signal {-child.returncode}")
    if not answer:
        raise ProgramError(f"{file}: {attribute} ends its process with code {child.returncode}")
    try:
        found: dict[str, Any] = json.loads(answer)
    except ValueError:  # the file has written into a pipe that is not its own
        raise ProgramError(f"{file}: {attribute} gives an answer that cannot be read") from None
    return found


def _said(child: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes] | None:
    """What a child has written to its pipes when it ends; None where it does not end in time."""
    until = time.monotonic() + seconds
    while True:
        try:
            return child.communicate(timeout=LOOK)
        except subprocess.TimeoutExpired as waited:
            if child.poll() is None:
                if time.monotonic() >= until:
                    return None
                continue
            # It is over; what it has started and left may hold its pipes for ever.
            _end(child)
            try:
                return child.communicate(timeout=LOOK)
            except subprocess.TimeoutExpired:  # held by one that left the group too
                return waited.output or b"", waited.stderr or b""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a file's process, and those that it has started and left."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()
