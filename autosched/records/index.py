"""What was found in a large log, kept in the user's cache folder so that the next command need not read all of it.

The index is never the truth: a file whose size, time or last bytes differ is read again, a line's checksum is checked when it is
used, and the whole folder may be deleted at any time. It is never kept beside the log, which may be a network drive or read-only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from autosched.records.reading import TAIL, BestAt, Fault, LogFile, ProgramAt, digest
from sim.files import write_text

FORMAT = 4  # 3 told no schedules
WORTH = 2000  # lines that a command had to read before an index is written
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)


def cache_folder() -> Path:
    """Where caches of this user belong, by the custom of the system."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and os.path.isabs(given):
        return Path(given) / "autosched"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "autosched"
    local = os.environ.get("LOCALAPPDATA")
    if sys.platform == "win32" and local:
        return Path(local) / "autosched" / "Cache"
    return Path.home() / ".cache" / "autosched"


def index_path(directory: Path) -> Path:
    """The index of a log."""
    name = hashlib.sha256(os.path.realpath(directory).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return cache_folder() / "logs" / f"{name}.json"


class Index:
    """What is known of the files of a log from an earlier command.

    Args:
        directory: the log.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files: dict[str, list[Any]] = {}
        self._tasks: list[tuple[str, str, str]] = []
        self._names: list[str] = []
        try:
            data = json.loads(index_path(directory).read_text(encoding="utf-8"))
            if data["format"] == FORMAT and data["directory"] == os.path.realpath(directory):
                self._tasks = [(w, h, v) for w, h, v in data["tasks"]]
                self._names = [str(name) for name in data["names"]]
                self._files = dict(data["files"])
        except (OSError, ValueError, TypeError, KeyError, RuntimeError):
            return  # none, or not one that this version wrote: everything is read

    def file(self, path: Path) -> LogFile | None:
        """A file as it was found before, if it is still the same."""
        known = self._files.get(path.name)
        if known is None:
            return None
        try:
            size, time, tail, offset, lines, faults, torn, bests, programs, counts = known
            fd = os.open(path, _READ)
            try:
                state = os.fstat(fd)
                if state.st_mtime_ns != time or state.st_size != size:
                    return None
                os.lseek(fd, max(0, offset - TAIL), os.SEEK_SET)
                end = os.read(fd, min(TAIL, offset))
            finally:
                os.close(fd)
            if digest(end) != tail:
                return None
            found = LogFile(path, False, offset, lines, end, (size, time), [Fault(path, n, r) for n, r in faults],
                            None if torn is None else Fault(path, *torn))
            found.indexed = True
            tasks, names = self._tasks, self._names
            found.bests = [BestAt(tasks[t], names[w], c, v, p, s, x, b, path, o, n) for t, w, c, v, p, s, x, b, o, n in bests]
            found.programs = [ProgramAt(w, name, path, o, n) for w, name, o, n in programs]
            found.counts = {tasks[t]: n for t, n in counts}
            return found
        except (OSError, ValueError, TypeError, IndexError, OverflowError):
            return None

    def write(self, files: Iterable[LogFile]) -> None:
        """Keeps what was found; where that cannot be, the next command reads the log again."""
        numbers: dict[tuple[str, str, str], int] = {}
        names: dict[str, int] = {}

        def number(task: tuple[str, str, str]) -> int:
            return numbers.setdefault(task, len(numbers))

        def named(name: str) -> int:
            return names.setdefault(name, len(names))

        table = {
            f.path.name: [
                *f.stamp, digest(f.tail), f.offset, f.lines, [(x.line, x.reason) for x in f.damage if x is not f.torn],
                None if f.torn is None else (f.torn.line, f.torn.reason),
                [(number(b.task), named(b.name), b.cycles, b.verified, b.program, b.schedule, b.withdrawn, b.began, b.offset,
                  b.length) for b in f.bests],
                [(p.workload, p.name, p.offset, p.length) for p in f.programs], [(number(t), n) for t, n in f.counts.items()],
            ]
            for f in files if f.stamp != (-1, -1)
        }
        data = {"format": FORMAT, "directory": os.path.realpath(self.directory), "tasks": list(numbers),
                "names": list(names), "files": table}
        with suppress(OSError, ValueError, RuntimeError):
            path = index_path(self.directory)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(data, separators=(",", ":")))
