"""One file of the log: which of its lines say something, and where they stand. Records are read when they are asked for."""

from __future__ import annotations

import os
import re
import zlib
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from autosched.errors import RecordError
from autosched.records.line import UnknownRun, open_line, record_of
from autosched.records.record import BestRecord, ProgramRecord, Run, TrialRecord

Task = tuple[str, str, str]  # keys of program and machine, version of lowering and simulator

TAIL = 256  # bytes before the end of what was read that tell whether a file is still the same
_SEAL = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_START = re.compile(rb'\{"kind":"')
AROUND = b" \t\r\x00\xef\xbb\xbf"  # other systems' ends and marks, and what a crash leaves of an unwritten block
_PIECE = 1 << 24  # bytes that are read at a time
LONGEST = 1 << 26  # bytes of a line, of which a real one has some thousand; beyond it nothing is looked for
TOO_LONG = f"a line of more than {LONGEST} bytes"
_SALVAGE = 1 << 26  # bytes whose checksum is computed to find whole lines in one that is none


@dataclass(frozen=True)
class Fault:
    """A line, or what is left of one, that says nothing.

    Args:
        path: its file.
        line: its number in the file, from 1; 0 for the file itself.
        reason: what is wrong with it.
    """

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class BestAt(NamedTuple):  # cheaper to make than a dataclass, and a large log has ten thousands
    """Where a best schedule stands, and what decides whether it is the best.

    Args:
        task: what it is a schedule of.
        name: as its writer called the program.
        cycles: its cycles.
        verified: whether it says that it was checked.
        program: first digits of the hash of its program.
        schedule: what tells its trace from another.
        withdrawn: whether it says that its check failed.
        began: when its run began.
        path: its file.
        offset: where its line begins in there.
        length: of its line, in bytes.
    """

    task: Task
    name: str
    cycles: int
    verified: bool
    program: str
    schedule: str
    withdrawn: bool
    began: str
    path: Path
    offset: int
    length: int


class ProgramAt(NamedTuple):
    """Where a program stands that no name gives; as ``BestAt``."""

    workload: str
    name: str
    path: Path
    offset: int
    length: int


@dataclass
class LogFile:
    """How far a file has been read, and what was found.

    Args:
        path: the file.
        keep: whether the records of trials are kept, and not only counted.
    """

    path: Path
    keep: bool = False
    offset: int = 0
    lines: int = 0
    tail: bytes = b""
    stamp: tuple[int, int] = (-1, -1)  # size and time of the last change, when it was looked at
    faults: list[Fault] = field(default_factory=list)
    torn: Fault | None = None
    indexed: bool = False  # whether an index told what is here; it tells no runs, which lines that are added may need
    bests: list[BestAt] = field(default_factory=list)
    programs: list[ProgramAt] = field(default_factory=list)
    counts: dict[Task, int] = field(default_factory=dict)
    trials: dict[Task, list[TrialRecord]] = field(default_factory=dict)
    _runs: dict[str, Run] = field(default_factory=dict)
    # Trials whose run is not known: a best further down may tell.
    _waiting: list[tuple[int, dict[str, Any], str]] = field(default_factory=list)

    @property
    def damage(self) -> list[Fault]:
        """What could not be read."""
        orphans = [Fault(self.path, n, reason) for n, _, reason in self._waiting]
        return [*self.faults, *orphans, *([] if self.torn is None else [self.torn])]

    def read(self) -> bool:
        """Reads what was added since the last time, whole lines only; whether there was anything."""
        try:
            state = self._changed()
            if state is None:
                return False
            before = self.lines
            with self.path.open("rb") as file:
                file.seek(self.offset)
                self._pieces(file)
        except FileNotFoundError:
            return False  # removed since it was listed
        except OSError as error:
            self.torn = Fault(self.path, 0, f"cannot be read: {error.strerror}")
            return False
        self.stamp = state.st_size, state.st_mtime_ns
        return self.lines != before

    def grown(self) -> bool:
        """Whether something was added since the last time."""
        try:
            return self._changed() is not None
        except OSError:
            return False  # who reads it says so

    def _changed(self) -> os.stat_result | None:
        state = self.path.stat()
        same = (state.st_size, state.st_mtime_ns) == self.stamp or state.st_size < self.offset
        return None if same else state

    def _pieces(self, file: BinaryIO) -> None:
        """Takes in what follows in the open file piece by piece: it may have more than a memory holds, and a line may."""
        rest = b""
        while piece := file.read(_PIECE):
            rest += piece
            end = rest.rfind(b"\n") + 1
            self._whole(rest[:end])
            rest = rest[end:]
            if len(rest) > LONGEST:
                if not self._too_long(file, rest):
                    return
                rest = b""
        self.take(rest)

    def _too_long(self, file: BinaryIO, start: bytes) -> bool:
        """Passes over a line that begins like this; whether it ends, which what somebody still writes does not."""
        size, last = len(start), start[-TAIL:]
        while piece := file.readline(_PIECE):
            size, last = size + len(piece), (last + piece)[-TAIL:]
            if last.endswith(b"\n"):
                self.lines += 1
                self.faults.append(Fault(self.path, self.lines, TOO_LONG))
                self.tail = last
                self.offset += size
                return True
        self.torn = Fault(self.path, self.lines + 1, TOO_LONG)
        return False

    def take(self, data: bytes) -> None:
        """Takes in what follows in the file, whole lines only."""
        start = self._whole(data)
        end = self._last(data[start:], self.offset)
        self.tail = (self.tail + data[start : start + end])[-TAIL:]
        self.offset += end

    def _whole(self, data: bytes) -> int:
        """Takes in the lines that have an end; how many bytes they are."""
        self.torn = None
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._line(data[start:end], self.offset + start)
            start = end + 1
        self.tail = (self.tail + data[:start])[-TAIL:]
        self.offset += start
        return start

    def _last(self, tail: bytes, offset: int) -> int:
        """Reads what follows the last end of a line, as far as it is whole lines whose ends somebody cut off; how many bytes."""
        parts, rest = salvage(tail)
        if not rest:
            end = len(tail)
        elif parts:
            end = parts[-1][1]
        else:
            end = 0
        if end and tail.strip(AROUND):
            self._line(tail[:end], offset)
        if tail[end:].strip(AROUND):
            said = "the last line is not whole: its writer was killed, or is writing it"
            self.torn = Fault(self.path, self.lines + 1, said)
        return end

    def _line(self, raw: bytes, offset: int) -> None:
        self.lines += 1
        offset += len(raw) - len(raw.lstrip(AROUND))
        raw = raw.strip(AROUND)
        if not raw:
            return
        if len(raw) > LONGEST:
            self.faults.append(Fault(self.path, self.lines, TOO_LONG))
            return
        try:
            obj = open_line(raw)
        except RecordError as error:
            parts, rest = salvage(raw)
            for start, end in parts:
                self._object(open_line(raw[start:end]), offset + start, end - start)
            if rest:
                self.faults.append(Fault(self.path, self.lines, str(error)))
            return
        self._object(obj, offset, len(raw))

    def _object(self, obj: dict[str, Any], offset: int, length: int) -> None:
        try:
            found = record_of(obj, self._runs)
        except UnknownRun as error:
            self._waiting.append((self.lines, obj, str(error)))
            return
        except RecordError as error:
            self.faults.append(Fault(self.path, self.lines, str(error)))
            return
        if isinstance(found, TrialRecord):
            self._trial(found)
        elif isinstance(found, ProgramRecord):
            self.programs.append(ProgramAt(found.workload, found.name, self.path, offset, length))
        elif isinstance(found, BestRecord):
            task = found.workload, found.hardware, found.version
            self.bests.append(BestAt(task, found.name, found.cycles, found.verified, found.program[:16], found.schedule,
                                     bool(found.reason), found.began, self.path, offset, length))
            self._run(str(obj.get("head")), found.of)
        else:
            self._run(obj["crc"], found)

    def _trial(self, record: TrialRecord) -> None:
        task = record.workload, record.hardware, record.version
        self.counts[task] = self.counts.get(task, 0) + 1
        if self.keep:
            self.trials.setdefault(task, []).append(record)

    def _run(self, head: str, run: Run) -> None:
        self._runs.setdefault(head, run)
        waiting, self._waiting = self._waiting, []
        for n, later, reason in waiting:
            if later["head"] in self._runs:
                found = record_of(later, self._runs)
                assert isinstance(found, TrialRecord)
                self._trial(found)
            else:
                self._waiting.append((n, later, reason))


def digest(tail: bytes) -> str:
    """What tells whether the end of a file is still the same."""
    return f"{zlib.crc32(tail):08x}"


def line_at(path: Path, offset: int, length: int) -> dict[str, Any]:
    """The object of a line that was found before.

    Raises:
        RecordError: it is no longer there.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return open_line(file.read(length))
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def salvage(raw: bytes) -> tuple[list[tuple[int, int]], bool]:
    """The whole lines in one that is none, e.g. because the end between two was lost.

    Args:
        raw: the line.

    Returns:
        First and last position of the parts whose checksums are right, in order, and whether anything else is left.
    """
    starts = [m.start() for m in _START.finditer(raw)]
    found: list[tuple[int, int]] = []
    rest, at, left = False, 0, _SALVAGE
    for seal in _SEAL.finditer(raw):
        # Of hundreds of thousands of lines in one, only those between the last whole one and here are looked at.
        for start in reversed(starts[bisect_left(starts, at) : bisect_left(starts, seal.start())]):
            left -= seal.end() - start
            if left < 0:
                return found, True
            try:
                open_line(raw[start : seal.end()])
            except RecordError:
                continue
            rest |= bool(raw[at:start].strip(AROUND))
            found.append((start, seal.end()))
            at = seal.end()
            break
    return found, rest or bool(raw[at:].strip(AROUND))
