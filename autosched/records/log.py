"""The log: a directory of append-only files, one per writer, read as it is and as it grows."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from autosched import arguments
from autosched.errors import RecordError
from autosched.measure import KINDS
from autosched.records.index import WORTH, Index
from autosched.records.line import record_of
from autosched.records.reading import BestAt, Fault, LogFile, ProgramAt, digest, line_at
from autosched.records.record import BestRecord, ProgramRecord, Run, TrialRecord, by_number
from autosched.records.writer import Writer

DEFAULT = Path("tuning_logs") / "runs"
Claim = tuple[str, str, str, str, int]  # keys of program and machine, schedule, what it becomes and its cycles

SAID = {"ok", *KINDS} - {"environment"}  # what a record says of a candidate, and not of the machine that ran it
KEPT = 16  # best schedules of a task and version that are offered; more than one, because one may fail its check


class Log:
    """Everything that a directory of writer files says.

    Args:
        directory: the directory; it need not exist yet.
        files: the files to read, in a fixed order; None for all of the directory, in the order of their names.
    """

    def __init__(self, directory: Path, files: Iterable[Path] | None = None) -> None:
        self.directory = directory
        self._only = None if files is None else tuple(files)
        self._files: dict[Path, LogFile] = {}
        self._own: set[Path] = set()
        self._bests: dict[tuple[str, str], list[BestAt]] = {}
        self._withdrawn: dict[Claim, tuple[tuple[int, ...], str]] = {}
        self._programs: dict[str, list[ProgramAt]] = {}
        index = Index(directory) if files is None else None
        read = self._refresh(index)
        if index is not None and read >= WORTH:
            index.write(self._files.values())

    @staticmethod
    def open(path: str | Path | None = None, must_exist: bool = False) -> Log:
        """The log in a directory.

        Args:
            path: the directory; None for ``tuning_logs/runs`` of the working directory.
            must_exist: whether a missing directory is an error (it is for commands that only read).

        Raises:
            BadArgumentError: no path.
            RecordError: not a directory, or missing though it must exist.
        """
        return Log(Log.place(path, must_exist))

    @staticmethod
    def place(path: str | Path | None = None, must_exist: bool = False) -> Path:
        """The directory of a log, which is not read; arguments and errors as of ``open``."""
        directory = DEFAULT if path is None else arguments.folder("log", path)
        if directory.exists() and not directory.is_dir():
            raise RecordError(f"the log {directory} is a file; a log is a directory of writer files")
        if must_exist and path is not None and not directory.exists():
            raise RecordError(f"the log {directory} does not exist")
        return directory

    # -- reading --------------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Reads what other writers have added since the last time, whole lines only; whether there was anything."""
        return self._refresh(None) > 0

    def _refresh(self, index: Index | None) -> int:
        """How many lines were read."""
        total = 0
        for path in self._listed():
            if path in self._own:
                continue
            file = self._files.get(path)
            if file is None:
                known = None if index is None else index.file(path)
                if known is not None:
                    self._files[path] = known
                    self._take(known, 0, 0)
                    continue
                file = self._files[path] = LogFile(path)
            lines, bests, programs = file.lines, len(file.bests), len(file.programs)
            if file.indexed and file.grown():
                # What was added may need what stands before it and the index does not tell: the file is read anew.
                file = self._files[path] = LogFile(path)
            file.read()
            self._take(file, bests, programs)
            total += max(0, file.lines - lines)
        return total

    def _listed(self) -> Iterable[Path]:
        if self._only is not None:
            return self._only
        # A pipe would wait for a writer for ever; a directory is none of ours.
        try:
            with os.scandir(self.directory) as entries:
                names = sorted(e.name for e in entries if e.name.endswith(".jsonl") and _is_file(e))
        except (FileNotFoundError, NotADirectoryError):  # a writer says what is in the way
            return ()
        return [self.directory / name for name in names]

    def _take(self, file: LogFile, bests: int, programs: int) -> None:
        """Takes in what a file has found, from these positions on."""
        for best in file.bests[bests:]:
            if best.withdrawn:
                claim = _claim(best)
                self._withdrawn[claim] = max(_age(best), self._withdrawn.get(claim, ((), "")))
            else:
                self._bests.setdefault(best.task[:2], []).append(best)
        for program in file.programs[programs:]:
            self._programs.setdefault(program.workload, []).append(program)

    def _ranked(self, places: Iterable[BestAt]) -> list[BestAt]:
        """Fewest cycles first, among equals what was checked, then the earliest; one that says the same of a schedule."""
        found: dict[Claim, BestAt] = {}
        for b in sorted(places, key=lambda b: (b.cycles, not b.verified)):
            if not self._hidden(b):
                found.setdefault(_claim(b), b)
        return list(found.values())

    def _hidden(self, best: BestAt) -> bool:
        """Whether what a record says was withdrawn, and not found good again since: by a newer version, or in a later run."""
        withdrawn = self._withdrawn.get(_claim(best))
        return withdrawn is not None and not (best.verified and _age(best) > withdrawn)

    # -- what it says ---------------------------------------------------------------------------------------------------

    @property
    def damage(self) -> list[Fault]:
        """What could not be read, with reasons."""
        return [fault for file in self._files.values() for fault in file.damage]

    @property
    def damaged(self) -> int:
        """How many lines could not be read."""
        return len(self.damage)

    @property
    def programs(self) -> dict[str, ProgramRecord]:
        """The programs that no name gives, by their keys."""
        return {key: p for key in self._programs if (p := self.program(key)) is not None}

    def program(self, workload: str) -> ProgramRecord | None:
        """The program of a key, as text; None where the log has none."""
        for at in self._programs.get(workload, ()):
            try:
                found = record_of(line_at(at.path, at.offset, at.length), {})
            except RecordError:
                continue
            if isinstance(found, ProgramRecord) and found.workload == workload:
                return found
        return None

    def named(self, name: str) -> list[str]:
        """The keys of the programs that the log keeps under a name."""
        return [key for key, places in self._programs.items() if any(at.name == name for at in places)]

    def digest(self) -> str:
        """What tells this state of the log from another, 16 digits."""
        states = [f"{path.name} {file.offset} {digest(file.tail)}" for path, file in self._files.items()]
        return hashlib.sha256("\n".join(states).encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def prepare(self) -> None:
        """Makes the directory, if need be, and sees that it can be written.

        Raises:
            RecordError: it cannot.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.directory).close()
        except OSError as error:
            raise RecordError(
                f"cannot write a log in {self.directory}: {error.strerror}; name another directory with --log"
            ) from error

    def writer(self, run: Run) -> Writer:
        """A writer into this log; use it as a context manager. This log does not read what it writes."""
        task = run.workload, run.hardware
        # Whoever has read what somebody says of a schedule has the last word on it: to find it good again, or to withdraw it.
        said = [began for claim, (_, began) in self._withdrawn.items() if claim[:2] == task]
        behind = max([*said, *(best.began for best in self._bests.get(task, ()))], default="")
        return _OwnWriter(self.directory, run, self._own, behind)

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
        task = workload, hardware, version
        found: dict[tuple[int, ...], TrialRecord] = {}
        for path, file in list(self._files.items()):
            if task not in file.counts:
                continue
            for r in self._kept(path).trials.get(task, ()):
                # What a machine did to a candidate (memory, time, a killed worker) is no property of the candidate, and a
                # status that this version has no word for tells it nothing: the point is simulated again.
                if r.point and r.status in SAID and (space is None or r.space == space):
                    found.setdefault(r.point, r)
        return found

    def _kept(self, path: Path) -> LogFile:
        """A file with the records of its trials, which are not kept before somebody asks for them."""
        file = self._files[path]
        if not file.keep:
            again = self._files[path] = LogFile(path, keep=True)
            again.read()
            self._take(again, len(file.bests), len(file.programs))
            return again
        return file

    def bests(self, workload: str, hardware: str, version: str | None = None, most: int = KEPT) -> list[BestRecord]:
        """The best schedules of a task, best first; programs that failed their check are not among them.

        Args:
            workload: key of the program.
            hardware: key of the machine.
            version: of lowering and simulator; its records come first (they are the comparable ones), then the newest. None: no
                version comes before newer ones.
            most: schedules of each version.
        """
        return list(self._in_order(workload, hardware, version, most))

    def _in_order(self, workload: str, hardware: str, version: str | None, most: int = KEPT) -> Iterator[BestRecord]:
        mine = self._bests.get((workload, hardware), ())
        for v in sorted({b.task[2] for b in mine}, key=lambda v: (v == version, by_number(v)), reverse=True):
            for place in self._ranked(b for b in mine if b.task[2] == v)[:most]:
                record = self._record(place)
                if record is not None:
                    yield record

    def _record(self, at: BestAt) -> BestRecord | None:
        """What stands at a place, if it still does: a file may be moved away at any time."""
        try:
            found = record_of(line_at(at.path, at.offset, at.length), {})
        except RecordError:
            return None
        if not isinstance(found, BestRecord):
            return None
        same = (found.workload, found.hardware, found.version, found.cycles) == (*at.task, at.cycles)
        return found if same else None

    def best(self, workload: str, hardware: str, version: str | None = None) -> BestRecord | None:
        """The first of ``bests``; with a version, only of that version. None where there is none."""
        found = self.first(workload, hardware, version)
        return found if found is not None and version in (None, found.version) else None

    def first(self, workload: str, hardware: str, version: str | None = None) -> BestRecord | None:
        """The first of ``bests``, of whatever version; None where there is none."""
        return next(self._in_order(workload, hardware, version), None)

    def all_trials(self) -> Iterator[TrialRecord]:
        """Every trial, file by file."""
        for path in list(self._files):
            for records in self._kept(path).trials.values():
                yield from records

    def all_bests(self) -> Iterator[BestRecord]:
        """What every run says of its best schedules, though others say the same; what was withdrawn is not among them."""
        for places in list(self._bests.values()):
            for place in places:
                record = None if self._hidden(place) else self._record(place)
                if record is not None:
                    yield record

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many trials there are of every (key of the program, key of the machine, version)."""
        found: dict[tuple[str, str, str], int] = {}
        for file in self._files.values():
            for task, n in file.counts.items():
                found[task] = found.get(task, 0) + n
        return found

    def tasks(self) -> list[tuple[str, str, str]]:
        """(name, key of the program, key of the machine) of all that has a best schedule, by name."""
        return sorted((name, *key) for key, places in self._bests.items() for name in {b.name for b in places})


def _claim(best: BestAt) -> Claim:
    """What a record says of a schedule: another trace of the same program may be wrong, and the same with other cycles."""
    return *best.task[:2], best.schedule, best.program, best.cycles


def _age(best: BestAt) -> tuple[tuple[int, ...], str]:
    """Which of two records knows more: that of the newer version, then of the later run."""
    return by_number(best.task[2]), best.began


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


class _OwnWriter(Writer):
    """A writer whose file its log does not read back."""

    def __init__(self, directory: Path, run: Run, own: set[Path], behind: str) -> None:
        super().__init__(directory, run, behind)
        self._files = own

    def __enter__(self) -> Writer:
        super().__enter__()
        self._files.add(self.path)
        return self
