"""Writing the log: one file per writer, one system call per line."""

from __future__ import annotations

import os
import re
import socket
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from autosched.errors import RecordError
from autosched.records.line import best_line, head_of, program_line, run_line, trial_line
from autosched.records.record import BestRecord, ProgramRecord, Record, Run

MOST = 9_999  # of the numbers that tell runs of one second and process apart


def host_name() -> str:
    """The machine's name as it may stand in a file's name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname().split(".")[0])[:32].strip("-") or "host"


def locked(fd: int) -> bool:
    """Takes the lock of an open file, which lasts until it is closed; whether nobody else has it.

    Where there are no locks (Windows, some network drives) nobody ever has it.

    Args:
        fd: descriptor of the file.
    """
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def _unlock(fd: int) -> None:
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)
    except (ImportError, OSError):
        return


def _later(now: str, behind: str) -> tuple[str, int]:
    """Time and number of an id that is later than a run which is known, as far as the digits of an id can say so."""
    stamp, _, number = behind.partition("-")
    if stamp < now or not number or int(number) >= MOST:
        return now, 0
    return stamp, int(number) + 1


class Writer:
    """Appends lines to a file of its own.

    Every line is handed to the system at once and whole, before ``append`` returns: it is acknowledged, and survives a process
    that is killed. ``sync`` and closing force it to the disk: after them it survives a machine that is lost.

    Args:
        directory: where the file is made.
        run: what holds for all lines; its id and host are filled in.
        behind: when runs began that this one knows of and is later than, whatever the clocks of two machines say; as ``began``
            of their records, empty for none.
    """

    def __init__(self, directory: Path, run: Run, behind: str = "") -> None:
        self.directory = directory
        self.run = run
        self.behind = behind
        self.head = ""
        self._fd = -1
        self._end = 0

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / f"{self.run.run}.jsonl"

    def __enter__(self) -> Writer:
        host = host_name()
        stamp, first = _later(time.strftime("%Y%m%dT%H%M%S", time.gmtime()), self.behind)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for n in range(first, MOST + 1):
                self.run = replace(self.run, run=f"{stamp}-{host}-{os.getpid()}-{n}", host=host)
                try:
                    # What appends is never in the way of what another writer of the same name did on a drive that both share.
                    self._fd = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o644)
                    locked(self._fd)  # tells `db fsck --repair` to leave the file alone
                    break
                except FileExistsError:
                    continue
        except OSError as error:
            raise RecordError(f"cannot write a log in {self.directory}: {error.strerror}") from error
        line = run_line(self.run)
        self.head = head_of(line)
        self._write(line)
        return self

    def append(self, record: Record) -> None:
        """Adds a record; it is in the file when this returns.

        Args:
            record: of this writer's run; its id is filled in.

        Raises:
            RecordError: the system refuses, e.g. because the disk is full.
        """
        if isinstance(record, ProgramRecord):
            self._write(program_line(record))
        elif isinstance(record, BestRecord):
            self._write(best_line(replace(record, of=self.run), self.head))
        else:
            self._write(trial_line(record, self.head))

    def _write(self, line: str) -> None:
        data = line.encode()
        left = data
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            # A half line would hide the next one; where it cannot be taken back, readers find what follows by its checksum.
            self._take_back()
            raise RecordError(f"cannot write {self.path}: {error.strerror}") from error
        self._end += len(data)

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._end)
        except OSError:
            return

    def sync(self) -> None:
        """Forces what was written to the disk."""
        os.fsync(self._fd)

    def _lost(self) -> str:
        """What somebody did to the file while it was written, or nothing; a system does not say so of its own."""
        try:
            there, own = os.stat(self.path), os.fstat(self._fd)
        except (FileNotFoundError, NotADirectoryError):
            there = None
        except OSError:
            return ""
        if there is None or not os.path.samestat(there, own):
            return "is not there any more: what this run found is in no log"
        return "was cut while it was written: a part of what this run found is in no log" if there.st_size < self._end else ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.sync()
        except OSError as failure:
            if error is None:
                raise RecordError(f"cannot write {self.path}: {failure.strerror}") from failure
        finally:
            if error is None and (lost := self._lost()):
                warnings.warn(f"{self.path} {lost}", stacklevel=2)
            # Copies of this process may have the file open still: the lock is not theirs.
            _unlock(self._fd)
            os.close(self._fd)
