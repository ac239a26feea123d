"""Looking after a log: taking out lines that say nothing, and keeping the best of a log that has grown large."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from autosched.errors import RecordError
from autosched.records.line import FORMAT, best_line, head_of, open_line, program_line, run_line, trial_line
from autosched.records.log import Log
from autosched.records.reading import AROUND, LogFile, salvage
from autosched.records.record import BestRecord, Run, TrialRecord
from autosched.records.writer import locked
from sim import files

BAD = ".bad"  # beside a repaired file: what was taken out of it


@dataclass(frozen=True)
class Repaired:
    """What was done to a file.

    Args:
        path: the file.
        moved: lines that went into the file beside it.
        kept: lines that this version cannot read and a newer one can; they stay.
    """

    path: Path
    moved: int
    kept: int


def repair(log: Log) -> list[Repaired]:
    """Moves what cannot be read out of the files of a log, each into a file of its name and ``.bad``; nothing is thrown away.

    Whole records inside a damaged line are put on lines of their own. Lines of a newer format stay where they are.

    Args:
        log: the log, as it was read; it is read again by whoever opens it next.

    Returns:
        The files that had damage.

    Raises:
        RecordError: a file is being written by a running command, or cannot be written.
    """
    return [_repaired(path) for path in dict.fromkeys(fault.path for fault in log.damage)]


def _repaired(path: Path) -> Repaired:
    try:
        # A log may have more than a memory holds: it is read line by line, and what becomes of it waits on the disk.
        with _unwritten(path), TemporaryFile(dir=path.parent) as good, TemporaryFile(dir=path.parent) as taken:
            bad, moved = _bad(path, _lines(path)), 0
            for number, raw in enumerate(_lines(path), 1):
                line = raw.strip(AROUND)
                whole = _records(line)
                damaged = number in bad and not (whole == [line] and _newer(line))
                # A line of which a part can be read goes whole into the other file; the part stays as well.
                good.write(_joined([] if damaged and whole == [line] else whole))
                if damaged:
                    taken.write(raw + b"\n")
                    moved += 1
            # Parts that say nothing by themselves (a trial whose run is damaged) are in the other file with their lines.
            bad = _bad(path, _again(good))
            newer = {number for number, line in enumerate(_again(good), 1) if number in bad and _newer(line)}
            if moved:
                _put_beside(path, taken)
            kept = (line + b"\n" for number, line in enumerate(_again(good), 1) if number not in bad - newer)
            files.write_pieces(path, kept)
    except OSError as error:
        raise RecordError(f"cannot repair {path}: {error.strerror}") from error
    except MemoryError:
        raise RecordError(f"cannot repair {path}: no memory holds a line of it") from None
    return Repaired(path, moved, len(newer))


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends."""
    with path.open("rb") as file:
        yield from _again(file)


def _again(file: BinaryIO) -> Iterator[bytes]:
    """``_lines`` of an open file, from its beginning."""
    file.seek(0)
    for raw in file:
        yield raw.removesuffix(b"\n")


def _bad(path: Path, lines: Iterable[bytes]) -> set[int]:
    """The numbers, from 1, of the lines of a file of which something cannot be read."""
    file = LogFile(path)
    for line in lines:
        file.take(line + b"\n")
    return {fault.line for fault in file.damage}


def _joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _put_beside(path: Path, taken: BinaryIO) -> None:
    """Puts lines at the end of the file beside another."""
    beside = path.with_name(path.name + BAD)
    if not beside.exists():
        taken.seek(0)
        files.write_pieces(beside, files.pieces(taken))
        return
    with beside.open("rb") as before:
        # A repair that was ended between its two files has put them there already.
        if not _ends(before, taken):
            for file in (before, taken):
                file.seek(0)
            files.write_pieces(beside, chain(files.pieces(before), files.pieces(taken)))


def _ends(file: BinaryIO, taken: BinaryIO) -> bool:
    """Whether the last lines of a file are those of another."""
    start = file.seek(0, os.SEEK_END) - taken.seek(0, os.SEEK_END)
    if start < 0:
        return False
    file.seek(max(start - 1, 0))
    if start and file.read(1) != b"\n":
        return False
    taken.seek(0)
    return all(file.read(len(piece)) == piece for piece in files.pieces(taken))


@contextmanager
def _unwritten(path: Path) -> Iterator[None]:
    with path.open("rb") as file:
        if not locked(file.fileno()):
            raise RecordError(f"{path} is being written by a running command; repair it afterwards")
        yield


def _records(line: bytes) -> list[bytes]:
    """The whole records of a line."""
    if not line:
        return []
    try:
        open_line(line)
    except RecordError:
        return [line[start:end] for start, end in salvage(line)[0]]
    return [line]


def _newer(line: bytes) -> bool:
    form = open_line(line).get("format")
    return type(form) is int and form > FORMAT


def copied(path: Path, into: Path) -> bool:
    """Copies a writer's file into a log, unless a file of its name there says all that it does.

    Args:
        path: the file.
        into: directory of the log; made where it is missing.

    Returns:
        Whether it was copied. Lines of the file in its place that say nothing are then in the file beside it, as of ``repair``.

    Raises:
        RecordError: each of the two says something that the other does not.
        OSError: one of them cannot be read, or has to be looked at as a whole and no memory holds it.
    """
    there = into / path.name
    old = there.is_file()
    if old and files.begins(path, there):
        return False
    if old and not files.begins(there, path):
        # One of them was repaired, or is damaged.
        data, held = files.read_bytes(path), files.read_bytes(there)
        new, known = _all_records(data), _all_records(held)
        if new <= known:
            return False
        if not known <= new:
            raise RecordError(f"{path} and {there} are two files of one name")
        lines = {b"", *data.split(b"\n")}
        if lost := [raw for raw in held.split(b"\n") if raw not in lines and _records(raw.strip(AROUND)) != [raw.strip(AROUND)]]:
            _put_beside(there, io.BytesIO(_joined(lost)))
    into.mkdir(parents=True, exist_ok=True)
    files.copy(path, there)
    return True


def _all_records(data: bytes) -> set[bytes]:
    """The whole records of a file."""
    return {record for raw in data.split(b"\n") for record in _records(raw.strip(AROUND))}


def compact(log: Log, into: Path, top: int) -> tuple[Path, int, int]:
    """Writes the best of a log as one file of another log.

    Kept are, of every task and version of lowering and simulator, the best schedules and the fastest trials, with their runs and
    programs. What was withdrawn because its check failed is left out, and so is its withdrawal.

    Args:
        log: the log; it stays as it is.
        into: directory of the other log; made where it is missing.
        top: schedules and trials of a task that are kept.

    Returns:
        The file, and how many schedules and trials it has.

    Raises:
        RecordError: the other log is the same one, or cannot be written.
    """
    if into.exists() and log.directory.exists() and into.samefile(log.directory):
        raise RecordError(f"{into} is the log itself; name another directory")
    bests = list(_bests(log, top))
    trials = list(fastest(log, top))
    lines: list[str] = [program_line(p) for p in log.programs.values()]
    heads: dict[str, str] = {}
    for run in [t.of for t in trials]:
        if _identity(run) not in heads:
            lines.append(run_line(run))
            heads[_identity(run)] = head_of(lines[-1])
    lines += [trial_line(t, heads[_identity(t.of)]) for t in trials]
    # A best stands alone: its run is named in full, and no trial may take it for another run of that name.
    lines += [best_line(b, "0" * 8) for b in bests]
    text = "".join(lines).encode()
    path = into / f"compact-{hashlib.sha256(text).hexdigest()[:16]}.jsonl"
    try:
        into.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, text)
    except OSError as error:
        raise RecordError(f"cannot write a log in {into}: {error.strerror}") from error
    return path, len(bests), len(trials)


def _identity(run: Run) -> str:
    return json.dumps(vars(run), default=dict, sort_keys=True)


def _bests(log: Log, top: int) -> Iterator[BestRecord]:
    for _, workload, hardware in _tasks(log.tasks()):
        yield from log.bests(workload, hardware, most=top)


def _tasks(tasks: Iterable[tuple[str, str, str]]) -> Iterable[tuple[str, str, str]]:
    """Each once, whatever its writers called it."""
    return {(workload, hardware): (name, workload, hardware) for name, workload, hardware in tasks}.values()


def fastest(log: Log, top: int) -> Iterator[TrialRecord]:
    """The fastest trials of every task, version and space; among equals the first; points once.

    Args:
        log: the log.
        top: how many of each.
    """
    by_task: dict[tuple[str, str, str, int], dict[tuple[int, ...], TrialRecord]] = {}
    for t in log.all_trials():
        if t.cycles is not None and t.point:
            by_task.setdefault((t.workload, t.hardware, t.version, t.space), {}).setdefault(t.point, t)
    for found in by_task.values():
        yield from sorted(found.values(), key=lambda t: (t.cycles or 0, t.trial))[:top]
