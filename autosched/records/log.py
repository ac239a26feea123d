"""The log: a directory of append-only files, one per writer, read as it is and as it grows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autosched.errors import RecordError
from autosched.records.line import UnknownRun, open_line, record_of
from autosched.records.record import BestRecord, ProgramRecord, Record, Run, TrialRecord, by_number
from autosched.records.writer import Writer

DEFAULT = Path("tuning_logs") / "runs"
KEPT = 16  # best schedules of a task and version that are kept; more than one, because one may fail its check
_SEAL = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_START = re.compile(rb'\{"kind":"')
_AROUND = b" \t\r\x00\xef\xbb\xbf"  # other systems' ends and marks, and what a crash leaves of an unwritten block
_SALVAGE = 1 << 26  # bytes whose checksum is computed to find whole lines in one that is none


@dataclass(frozen=True)
class Fault:
    """A line, or what is left of one, that says nothing.

    Args:
        path: its file.
        line: its number in the file, from 1.
        reason: what is wrong with it.
    """

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


@dataclass
class _File:
    """How far a file has been read."""

    offset: int = 0
    lines: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    # Trials whose run is not known: a best further down may tell.
    waiting: list[tuple[int, dict[str, Any], str]] = field(default_factory=list)
    torn: Fault | None = None


class Log:
    """Everything that a directory of writer files says.

    Args:
        directory: the directory; it need not exist yet.
        files: the files to read, in a fixed order; None for all of the directory, in the order of their names.
    """

    def __init__(self, directory: Path, files: Iterable[Path] | None = None) -> None:
        self.directory = directory
        self.faults: list[Fault] = []
        self.programs: dict[str, ProgramRecord] = {}
        self._only = None if files is None else tuple(files)
        self._files: dict[Path, _File] = {}
        self._own: set[Path] = set()
        self._lines = 0
        self._trials: dict[tuple[str, str, str], list[TrialRecord]] = {}
        self._bests: dict[tuple[str, str, str], list[BestRecord]] = {}
        self._withdrawn: set[tuple[str, str, str, int]] = set()
        self._digest = hashlib.sha256()
        self.refresh()

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
        return Log(directory)

    # -- reading --------------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Reads what other writers have added since the last time, whole lines only; whether there was anything."""
        before = self._lines
        for path in self._listed():
            if path not in self._own:
                self._read(path, self._files.setdefault(path, _File()))
        return self._lines != before

    def _listed(self) -> Iterable[Path]:
        if self._only is not None:
            return self._only
        # A pipe would wait for a writer for ever; a directory is none of ours.
        return sorted(p for p in self.directory.glob("*.jsonl") if p.is_file()) if self.directory.is_dir() else ()

    def _read(self, path: Path, state: _File) -> None:
        try:
            if path.stat().st_size <= state.offset:
                return
            with path.open("rb") as file:
                file.seek(state.offset)
                data = file.read()
        except FileNotFoundError:
            return  # removed since it was listed
        except OSError as error:
            state.torn = Fault(path, 0, f"cannot be read: {error.strerror}")
            return
        self._digest.update(data)
        state.torn = None
        *lines, tail = data.split(b"\n")
        state.offset += len(data) - len(tail)
        for raw in lines:
            state.lines += 1
            self._line(path, state, raw)
        if tail.strip():
            self._tail(path, state, tail)

    def _tail(self, path: Path, state: _File, tail: bytes) -> None:
        """What follows the last end of a line: a whole line of someone who cut its end off, or one that is not written yet."""
        try:
            open_line(tail.rstrip())
        except RecordError:
            state.torn = Fault(path, state.lines + 1, "the last line is not whole: its writer was killed, or is writing it")
            return
        state.offset += len(tail)
        state.lines += 1
        self._line(path, state, tail)

    def _line(self, path: Path, state: _File, raw: bytes) -> None:
        self._lines += 1
        raw = raw.strip(_AROUND)
        if not raw:
            return
        try:
            obj = open_line(raw)
        except RecordError as error:
            found, rest = salvage(raw)
            for part in found:
                self._object(path, state, open_line(part))
            if rest:
                self.faults.append(Fault(path, state.lines, str(error)))
            return
        self._object(path, state, obj)

    def _object(self, path: Path, state: _File, obj: dict[str, Any]) -> None:
        try:
            found = record_of(obj, state.runs)
        except UnknownRun as error:
            state.waiting.append((state.lines, obj, str(error)))
            return
        except RecordError as error:
            self.faults.append(Fault(path, state.lines, str(error)))
            return
        self._take(found)
        if isinstance(found, Run | BestRecord):
            head = obj["crc"] if isinstance(found, Run) else str(obj.get("head"))
            state.runs.setdefault(head, found if isinstance(found, Run) else found.of)
            waiting, state.waiting = state.waiting, []
            for n, later, reason in waiting:
                if later["head"] in state.runs:
                    self._take(record_of(later, state.runs))
                else:
                    state.waiting.append((n, later, reason))

    def _take(self, record: Run | Record) -> None:
        if isinstance(record, TrialRecord):
            self._trials.setdefault((record.workload, record.hardware, record.version), []).append(record)
        elif isinstance(record, ProgramRecord):
            self.programs.setdefault(record.workload, record)
        elif isinstance(record, BestRecord):
            task = record.workload, record.hardware, record.version
            if record.reason:
                self._withdrawn.add((record.workload, record.hardware, record.program, record.cycles))
                return
            kept = self._bests.setdefault(task, [])
            kept.append(record)
            if len(kept) > 4 * KEPT:
                kept[:] = self._ranked(kept)[:KEPT]

    def _ranked(self, records: Iterable[BestRecord]) -> list[BestRecord]:
        """Fewest cycles first, among equals what was checked, then the earliest; one record per program and cycles."""
        found: dict[tuple[str, int], BestRecord] = {}
        for r in sorted(records, key=rank):
            if (r.workload, r.hardware, r.program, r.cycles) not in self._withdrawn:
                found.setdefault((r.program, r.cycles), r)
        return list(found.values())

    # -- what it says ---------------------------------------------------------------------------------------------------

    @property
    def damage(self) -> list[Fault]:
        """What could not be read, with reasons."""
        torn = [s.torn for s in self._files.values() if s.torn is not None]
        orphans = [Fault(p, n, reason) for p, s in self._files.items() for n, _, reason in s.waiting]
        return [*self.faults, *orphans, *torn]

    @property
    def damaged(self) -> int:
        """How many lines could not be read."""
        return len(self.damage)

    def digest(self) -> str:
        """SHA-256 of all that was read, the first 16 digits."""
        return self._digest.hexdigest()[:16]

    def writer(self, run: Run) -> Writer:
        """A writer into this log; use it as a context manager. This log does not read what it writes."""
        return _OwnWriter(self.directory, run, self._own)

    def trials(
        self, workload: str, hardware: str, version: str, space: int | None = None
    ) -> dict[tuple[int, ...], TrialRecord]:
        """The known points of a task; the first record of a point counts (cycles are a function of the point).

        What failed for reasons of some machine (status ``environment``) is not known.

        Args:
            workload: key of the program.
            hardware: key of the machine.
            version: of lowering and simulator.
            space: version of the meaning of a point; None accepts any. The same numbers are another schedule in another one.
        """
        found: dict[tuple[int, ...], TrialRecord] = {}
        for r in self._trials.get((workload, hardware, version), ()):
            # What a machine did to a candidate (memory, time, a killed worker) is no property of the candidate.
            if r.point and r.status != "environment" and (space is None or r.space == space):
                found.setdefault(r.point, r)
        return found

    def bests(self, workload: str, hardware: str, version: str | None = None) -> list[BestRecord]:
        """The best schedules of a task, best first; programs that failed their check are not among them.

        Args:
            workload: key of the program.
            hardware: key of the machine.
            version: of lowering and simulator; its records come first (they are the comparable ones), then the newest. None: no
                version comes before newer ones.
        """
        versions = {v for w, h, v in self._bests if (w, h) == (workload, hardware)}
        order = sorted(versions, key=lambda v: (v == version, by_number(v)), reverse=True)
        return [r for v in order for r in self._ranked(self._bests[workload, hardware, v])]

    def best(self, workload: str, hardware: str, version: str | None = None) -> BestRecord | None:
        """The first of ``bests``; with a version, only of that version. None where there is none."""
        found = self.bests(workload, hardware, version)
        return found[0] if found and version in (None, found[0].version) else None

    def all_trials(self) -> Iterator[TrialRecord]:
        """Every trial that was read, task by task."""
        for records in self._trials.values():
            yield from records

    def all_bests(self) -> Iterator[BestRecord]:
        """The best schedules that are kept of every task and version, best first; what failed its check is not among them."""
        for records in self._bests.values():
            yield from self._ranked(records)

    def tasks(self) -> list[tuple[str, str, str]]:
        """(name, key of the program, key of the machine) of all that has a best schedule, by name."""
        return sorted({(r.name, r.workload, r.hardware) for records in self._bests.values() for r in self._ranked(records)})


def rank(record: BestRecord) -> tuple[int, bool]:
    """What makes a record better than another of its task and version."""
    return record.cycles, not record.verified


def salvage(raw: bytes) -> tuple[list[bytes], bool]:
    """The whole lines in one that is none, e.g. because the end between two was lost.

    Args:
        raw: the line.

    Returns:
        The parts whose checksums are right, in order, and whether anything else is left.
    """
    starts = [m.start() for m in _START.finditer(raw)]
    found: list[bytes] = []
    rest, at, left = False, 0, _SALVAGE
    for seal in _SEAL.finditer(raw):
        for start in reversed([s for s in starts if at <= s < seal.start()]):
            left -= seal.end() - start
            if left < 0:
                return found, True
            part = raw[start : seal.end()]
            try:
                open_line(part)
            except RecordError:
                continue
            rest |= bool(raw[at:start].strip(_AROUND))
            found.append(part)
            at = seal.end()
            break
    return found, rest or bool(raw[at:].strip(_AROUND))


class _OwnWriter(Writer):
    """A writer whose file its log does not read back."""

    def __init__(self, directory: Path, run: Run, own: set[Path]) -> None:
        super().__init__(directory, run)
        self._files = own

    def __enter__(self) -> Writer:
        super().__enter__()
        self._files.add(self.path)
        return self
