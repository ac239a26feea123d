"""The log: a directory of append-only files, one per writer."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from autosched.errors import RecordError
from autosched.records.record import BestRecord, Record, TrialRecord, from_line, to_line

DEFAULT = Path("tuning_logs") / "runs"


class Writer:
    """Appends lines to a file of its own.

    Every line is handed to the system at once, so a killed process loses at most the line it was writing; ``sync`` and closing
    force it to the disk.

    Args:
        directory: where the file is made.
        header: what the run was asked for; the first line.
    """

    def __init__(self, directory: Path, header: Mapping[str, Any]) -> None:
        self.directory = directory
        self.header = dict(header)
        self.run = ""
        self._fd = -1

    def __enter__(self) -> Writer:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            for n in range(10_000):
                self.run = f"{stamp}-{os.getpid()}-{n}"
                try:
                    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
                    self._fd = os.open(self.directory / f"{self.run}.jsonl", flags, 0o644)
                    break
                except FileExistsError:
                    continue
        except OSError as error:
            raise RecordError(f"cannot write a log in {self.directory}: {error.strerror}") from error
        self._write(to_line({"run": self.run, **self.header}))
        return self

    def append(self, record: Record) -> None:
        """Adds a record; it is in the file when this returns."""
        self._write(to_line(replace(record, run=self.run)))

    def _write(self, line: str) -> None:
        data = line.encode()
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            # What was cut off is a torn tail to every reader; the lines before it are whole.
            raise RecordError(f"cannot write {self.directory / self.run}.jsonl: {error.strerror}") from error

    def sync(self) -> None:
        """Forces what was written to the disk."""
        os.fsync(self._fd)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.sync()
        except OSError as failure:
            if error is None:
                raise RecordError(f"cannot write {self.directory / self.run}.jsonl: {failure.strerror}") from failure
        finally:
            os.close(self._fd)


class Log:
    """Everything that a directory of writer files says.

    Args:
        directory: the directory; it need not exist yet.
        files: the files to read, in a fixed order.
    """

    def __init__(self, directory: Path, files: Iterable[Path]) -> None:
        self.directory = directory
        self.damaged = 0
        self._records: list[Record] = []
        self._digest = hashlib.sha256()
        for path in files:
            self._read(path)

    @staticmethod
    def open(path: str | Path | None = None, must_exist: bool = False) -> Log:
        """The log in a directory.

        Args:
            path: the directory; None for ``tuning_logs/runs`` of the working directory.
            must_exist: whether a missing directory is an error (it is for commands that only read).

        Raises:
            RecordError: not a directory, or missing though it must exist.
        """
        directory = DEFAULT if path is None else Path(path)
        if directory.exists() and not directory.is_dir():
            raise RecordError(f"the log {directory} is a file; a log is a directory of writer files")
        if must_exist and path is not None and not directory.exists():
            raise RecordError(f"the log {directory} does not exist")
        return Log(directory, sorted(p for p in directory.glob("*.jsonl") if not p.is_dir()) if directory.is_dir() else ())

    def _read(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RecordError(f"cannot read {path}: {error.strerror}") from error
        self._digest.update(data)
        lines = data.split(b"\n")
        # What follows the last newline is a line that a killed writer did not finish.
        self.damaged += bool(lines.pop())
        for raw in lines:
            try:
                record = from_line(raw.decode("utf-8", "replace"))
            except RecordError:
                self.damaged += bool(raw.strip())
                continue
            if isinstance(record, TrialRecord | BestRecord):
                self._records.append(record)

    def writer(self, header: Mapping[str, Any]) -> Writer:
        """A writer into this log; use it as a context manager."""
        return Writer(self.directory, header)

    def digest(self) -> str:
        """SHA-256 of all that was read, the first 16 digits."""
        return self._digest.hexdigest()[:16]

    def trials(
        self, workload: str, hardware: str, version: str, space: int | None = None
    ) -> dict[tuple[int, ...], TrialRecord]:
        """The known points of a task; the first record of a point counts (cycles are a function of the point).

        Args:
            workload: key of the program.
            hardware: key of the machine.
            version: of lowering and simulator.
            space: version of the meaning of a point; None accepts any. The same numbers are another schedule in another one.
        """
        found: dict[tuple[int, ...], TrialRecord] = {}
        for r in self._records:
            if isinstance(r, TrialRecord) and (r.workload, r.hardware, r.version) == (workload, hardware, version):
                if space is None or r.space == space:
                    found.setdefault(r.point, r)
        return found

    def best(self, workload: str, hardware: str, version: str | None = None) -> BestRecord | None:
        """The best schedule of a task, or None; ties go to the earliest.

        Args:
            workload: key of the program.
            hardware: key of the machine.
            version: of lowering and simulator; None accepts any, the newest first.
        """
        mine = [r for r in self._records if isinstance(r, BestRecord) and (r.workload, r.hardware) == (workload, hardware)]
        if version is not None:
            mine = [r for r in mine if r.version == version]
        elif mine:
            newest = max(r.version for r in mine)
            mine = [r for r in mine if r.version == newest]
        return min(mine, key=lambda r: r.cycles, default=None)

    def names(self) -> list[str]:
        """Names of all workloads with a best record."""
        return sorted({r.name for r in self._records if isinstance(r, BestRecord)})
