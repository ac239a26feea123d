"""The index of a large log: what it says is what reading says, it is never believed over the log, and may vanish."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.records import BestRecord, Log, ProgramRecord, Run, TrialRecord, index
from autosched.records.reading import LogFile

W, H = "ab" * 32, "cd" * 32
RUN = Run(W, H, "1.1", "kernels.py:f", "vta-de10", 3, 0)
STEP = {"op": "get_sblock", "in": {}, "args": {"name": "b"}, "out": ["b0"]}


def best(cycles: int, **changed: Any) -> BestRecord:
    program = f"{cycles:064x}"
    return BestRecord(RUN, 0, (cycles,), program, cycles, 5, 5, (STEP,), True, **changed)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("autosched.records.log.WORTH", 1)
    directory = tmp_path / "log"
    for n in range(3):
        with Log(directory).writer(RUN) as writer:
            writer.append(ProgramRecord(W, "kernels.py:f", "text"))
            writer.append(best(100 - n))
            for k in range(4):
                writer.append(TrialRecord(RUN, k, (n, k), "ef" * 32, 200 + k, 5, 9))
        with writer.path.open("a") as file:
            file.write("junk\nhalf")
    with Log(directory).writer(RUN) as writer:
        writer.append(replace(best(97), verified=False, reason="mismatch"))
        writer.append(best(97))
    return directory


def said(log: Log) -> tuple[Any, ...]:
    return (log.bests(W, H), log.tasks(), [str(f) for f in log.damage], log.programs, log.trials(W, H, "1.1"), log.digest())


def lines_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    really = LogFile._line
    monkeypatch.setattr(LogFile, "_line", lambda self, raw, at: (names.append(self.path.name), really(self, raw, at))[1])
    return names


def test_the_index_says_what_reading_says(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = said(Log(log))
    assert index.index_path(log).is_file() and not str(index.index_path(log)).startswith(str(log))
    names = lines_read(monkeypatch)
    again = Log(log)
    assert (again.bests(W, H), again.tasks(), [str(f) for f in again.damage], again.programs) == first[:4]
    assert not names  # nothing was read but the lines that were asked for
    assert said(again) == first and [b.cycles for b in again.bests(W, H)] == [98, 99, 100]
    assert len(first[4]) == 12 and len(first[2]) == 6


def test_a_file_that_grew_is_read_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Log(log)
    path = sorted(log.iterdir())[0]
    with path.open("a") as file:
        file.write("\n" + path.read_text().splitlines()[2].replace("x", "x") + "\n")
    names = lines_read(monkeypatch)
    again = Log(log)
    assert set(names) == {path.name}
    assert [b.cycles for b in again.bests(W, H)] == [98, 99, 100]
    with again.writer(RUN) as writer:
        writer.append(best(50))
    assert Log(log).best(W, H) == best(50).__class__(**{**vars(best(50)), "of": Log(log).bests(W, H)[0].of})


def test_a_run_that_goes_on_behind_the_index_is_no_damage(log: Path) -> None:
    with Log(log).writer(RUN) as writer:
        writer.append(TrialRecord(RUN, 0, (7,), "ef" * 32, 200, 5, 9))
        Log(log)
        indexed, faults = Log(log), len(Log(log).damage)
        assert not indexed.refresh() and len(indexed.damage) == faults
        for n in (8, 9):  # its first line is in the index, and what it added is read twice
            writer.append(TrialRecord(RUN, n, (n,), "ef" * 32, 200, 5, 9))
            # No best of the run tells what its first line says.
            assert indexed.refresh() and len(indexed.damage) == faults and (n,) in indexed.trials(W, H, "1.1")
        for n in (8, 9):
            writer.append(best(10 + n))
            assert indexed.refresh() and len(indexed.damage) == faults
            assert (n,) in indexed.trials(W, H, "1.1") and indexed.counts()[W, H, "1.1"] == len(indexed.trials(W, H, "1.1"))
            assert [b.cycles for b in indexed.bests(W, H)].count(10 + n) == 1
        assert said(indexed) == said(Log(log))


def test_what_changed_behind_the_index_is_noticed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Log(log)
    path = sorted(log.iterdir())[2]
    data, state = path.read_bytes(), path.stat()

    def put(contents: bytes) -> None:
        path.write_bytes(contents)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    # The end differs, size and time do not: the file is read again.
    put(data.replace(b"half", b"hemi"))
    names = lines_read(monkeypatch)
    Log(log)
    assert not names  # a line that is not whole yet says nothing, and was not part of what was read
    put(data[:-9] + b"jonk\nhalf")
    Log(log)
    assert set(names) == {path.name}
    # A line in the middle differs: its checksum is wrong when it is used.
    put(data)
    Log(log)
    put(data.replace(b'"cycles":98', b'"cycles":11'))
    assert [b.cycles for b in Log(log).bests(W, H)] == [99, 100]
    path.unlink()
    assert [b.cycles for b in Log(log).bests(W, H)] == [99, 100]


@pytest.mark.parametrize("junk", ["", "null", "[]", "{}", '{"format": 1}', "[" * 100_000, '{"format": 9}'])
def test_an_index_that_is_none_is_not_used(log: Path, junk: str) -> None:
    first = said(Log(log))
    index.index_path(log).write_text(junk)
    assert said(Log(log)) == first
    assert json.loads(index.index_path(log).read_text())["format"] == index.FORMAT


def test_an_index_with_wrong_entries_is_not_used(log: Path) -> None:
    first = said(Log(log))
    whole = json.loads(index.index_path(log).read_text())
    for column in range(10):
        for value in (None, -1, "x", [[1]], 10**30):
            data = json.loads(json.dumps(whole))
            for entry in data["files"].values():
                entry[column] = value
            index.index_path(log).write_text(json.dumps(data))
            assert said(Log(log))[0] == first[0], (column, value)


def test_a_log_that_cannot_be_indexed_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = said(Log(log))
    blocked = log.parent / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert said(Log(log)) == first


def test_a_small_log_has_no_index(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index.index_path(log).unlink(missing_ok=True)
    monkeypatch.setattr("autosched.records.log.WORTH", 27)
    Log(log)
    assert index.index_path(log).exists()
    index.index_path(log).unlink()
    monkeypatch.setattr("autosched.records.log.WORTH", 28)
    Log(log)
    assert not index.index_path(log).exists()


def test_schedules_in_merged_and_indented_lines_are_found_again(log: Path) -> None:
    with Log(log).writer(RUN) as writer:
        writer.append(best(40))
        writer.append(best(41))
        writer.append(best(42))
    head, first, second, third = writer.path.read_text().splitlines()
    writer.path.write_text(f"{head}\n{first}{second}\n  \t{third}\r\n")
    for _ in range(2):  # read, then from the index
        assert [b.cycles for b in Log(log).bests(W, H)][:3] == [40, 41, 42]


def test_trials_without_a_run_are_damage_in_the_index_too(log: Path) -> None:
    with Log(log).writer(RUN) as writer:
        writer.append(TrialRecord(RUN, 0, (7,), "ef" * 32, 200, 5, 9))
    writer.path.write_text(writer.path.read_text().replace('"kind":"run"', '"kind":"rum"'))
    first = [str(f) for f in Log(log).damage]
    assert [str(f) for f in Log(log).damage] == first and any("its run" in f for f in first)


@pytest.mark.parametrize(("system", "folder"), [
    ("linux", "home/.cache/autosched"), ("darwin", "home/Library/Caches/autosched"), ("win32", "local/autosched/Cache"),
])
def test_caches_lie_where_the_system_keeps_them(
    system: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert index.cache_folder() == tmp_path / folder
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert index.cache_folder() == tmp_path / "autosched"
