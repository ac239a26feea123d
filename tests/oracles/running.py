"""What tests of a run from outside need: to start it, to wait for a moment of it, and to read what it has logged."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

MINUTES = 600.0  # generous: no test may depend on how busy the machine is


def in_a_copy(args: Sequence[str | Path], streams: Sequence[int], cwd: Path, env: Mapping[str, str]) -> int:
    """Runs the command ``autosched`` in a copy of this process, which has everything loaded that an interpreter would load first.

    For commands with one job: workers and what looks after them would be those of this process.

    Args:
        args: the words of the command.
        streams: descriptors that become its standard input, output and error.
        cwd: its folder.
        env: all of its environment.

    Returns:
        The copy's process id; its exit code is the command's.
    """
    from autosched.cli import main

    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        # What asks for the width of the terminal looks at the second of each pair.
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, buffering=1) for n, mode in enumerate("rww"))
        vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
        try:
            code = main([str(a) for a in args])
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def ended(pid: int) -> bool:
    """Whether a child has ended; it can still be asked how."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def of_a_copy(args: Sequence[str | Path], cwd: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of the command in a copy of this process, which it can neither end nor hold up.

    Args:
        args: the words of the command; it has one job.
        cwd: its folder.
    """
    with open(os.devnull) as nothing, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        pid = in_a_copy(args, [nothing.fileno(), out.fileno(), err.fileno()], cwd, os.environ)
        try:
            wait_for(lambda: ended(pid))
        finally:
            os.kill(pid, signal.SIGKILL)  # of one that has ended, nothing
            status = os.waitpid(pid, 0)[1]
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
        return os.waitstatus_to_exitcode(status), texts[0], texts[1]


def wait_for(what: Callable[[], Any]) -> Any:
    """The first true value of ``what()``."""
    until = time.monotonic() + MINUTES
    while time.monotonic() < until:
        value = what()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} never came true")


def lines(log: Path) -> list[dict[str, Any]]:
    """All whole lines of a log, of one writer after the other."""
    texts = [path.read_text() for path in sorted(log.glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.endswith("}")]


def trials(log: Path) -> list[tuple[Any, ...]]:
    """Point, cycles and status of every trial, in order."""
    return [(tuple(t["point"]), t.get("cycles"), t["status"]) for t in lines(log) if t.get("kind") == "trial"]
