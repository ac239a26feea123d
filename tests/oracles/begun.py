"""Processes of the command ``autosched`` that have begun: copies of an interpreter that has imported it and done nothing else.

What such a process is to others (its session, its signals, its workers, how it ends and what it leaves) is that of ``python -m
autosched``; only what that imports first, a second of processor time, is done once for all of them.
"""

from __future__ import annotations

import array
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

MINUTES = 600.0


class Interpreter:
    """Where commands begin. It is started when the first one is asked for, and ends with whoever started it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.line: socket.socket | None = None

    def begin(self, args: Sequence[str | Path], cwd: Path) -> Begun:
        """Starts the command in a session of its own.

        Args:
            args: its words.
            cwd: its folder.
        """
        if self.line is None:
            self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # In a session of its own, since Ctrl-C is for the tests.
            self.process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                                            stdin=subprocess.DEVNULL, start_new_session=True)
            theirs.close()
        return Begun(self.line, [str(a) for a in args], cwd)

    def end(self) -> None:
        """Ends it; commands that still run are left alone."""
        if self.process is not None and self.line is not None:
            # Copies of this process may hold the line as well, and it would not be closed.
            self.line.send(b"[]")
            self.line.close()
            self.process.wait()


class Begun:
    """A command under way, with what tests ask of ``subprocess.Popen``."""

    def __init__(self, line: socket.socket, args: Sequence[str], cwd: Path) -> None:
        self.returncode: int | None = None
        # What arrives is one message at a time: the process id, and later how it ended.
        self.state, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes = [os.pipe(), os.pipe()]
        self.streams = [read for read, _ in pipes]
        given = [*[write for _, write in pipes], theirs.fileno()]
        line.sendmsg([json.dumps([str(cwd), *args]).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
        theirs.close()
        for _, write in pipes:
            os.close(write)
        self.pid = int(self.state.recv(16))

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self.returncode is None:
            self.state.setblocking(False)
            with suppress(BlockingIOError):
                self.returncode = os.waitstatus_to_exitcode(int(self.state.recv(16)))
        return self.returncode

    def communicate(self, timeout: float = MINUTES) -> tuple[str, str]:
        """What it and its workers printed, to standard output and to standard error, when all of them have closed them.

        Args:
            timeout: seconds.
        """
        until = time.monotonic() + timeout
        texts = dict.fromkeys(self.streams, b"")
        with selectors.DefaultSelector() as ready:
            for fd in self.streams:
                ready.register(fd, selectors.EVENT_READ)
            while ready.get_map() and time.monotonic() < until:
                for key, _ in ready.select(1):
                    if more := os.read(key.fd, 1 << 16):
                        texts[key.fd] += more
                    else:
                        ready.unregister(key.fd)
                        os.close(key.fd)
        while self.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("autosched", timeout)
        out, err = (text.decode() for text in texts.values())
        return out, err

    def send_signal(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


def _asked(line: socket.socket) -> list[str]:
    """Returns in every copy that is to be a command, with its words."""
    while True:
        text, given, _, _ = socket.recv_fds(line, 1 << 16, 3)
        while _one_has_ended():
            pass
        if not given:
            os._exit(0)
        if not os.fork():
            # Whoever waits for the command, and says how it ended.
            line.close()
            out, err, state = given
            command = os.fork()
            if not command:
                os.setsid()
                cwd, *words = json.loads(text)
                os.chdir(cwd)
                os.dup2(out, 1)
                os.dup2(err, 2)
                for fd in given:
                    os.close(fd)
                return words
            os.close(out)
            os.close(err)
            os.write(state, str(command).encode())
            os.write(state, str(os.waitpid(command, 0)[1]).encode())
            os._exit(0)
        for fd in given:
            os.close(fd)


def _one_has_ended() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


if __name__ == "__main__":
    # As ``python -m`` has it, and as tests find what this one needs itself.
    sys.path[0] = ""
    sys.path.append(str(Path(__file__).parent))
    from sim.own import claim

    claim()
    from kernels import load

    import autosched.search.executors
    import autosched.search.samplers  # noqa: F401
    from autosched.cli import live, main, tune_command  # noqa: F401

    load(backwards=False)
    sys.argv[1:] = _asked(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
