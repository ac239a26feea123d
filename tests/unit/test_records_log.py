"""The log: round trips, torn tails, damaged lines."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.errors import RecordError
from autosched.records import BestRecord, Log, TrialRecord
from autosched.records.record import from_line, to_line

TRIAL = TrialRecord("w" * 64, "h" * 64, "1.1", "resnet18.c8", "vta-de10", 1, (1, 4, 14, 14, 1, 3, 3, 0, 2, 2, 0, 2, 1, 1, 0, 1),
                    "p" * 64, 473_000, 470_400, 474_100, "ok", "", "run", 7, 0)
BEST = BestRecord("w" * 64, "h" * 64, "1.1", "resnet18.c8", "vta-de10", 1, TRIAL.point, "p" * 64, 473_000, 470_400,
                  ({"op": "split", "in": {"loop": "l0"}, "args": {"factors": [None, 4]}, "out": ["l1", "l2"]},),
                  True, "run", 7, 0)


def write(directory: Path, *records: TrialRecord | BestRecord) -> Path:
    with Log.open(directory).writer({"seed": 0}) as writer:
        for record in records:
            writer.append(record)
    return directory / f"{writer.run}.jsonl"


def test_lines_round_trip() -> None:
    for record in (TRIAL, BEST, replace(TRIAL, cycles=None, program=None, status="lowering", reason='a "b" \n c')):
        line = to_line(record)
        assert line.count("\n") == 1 and from_line(line) == record
    assert len(to_line(TRIAL)) <= 600


def test_log_reads_what_was_written(tmp_path: Path) -> None:
    write(tmp_path, TRIAL, BEST)
    write(tmp_path, replace(TRIAL, point=(1, 2)), replace(BEST, cycles=472_000))
    log = Log.open(tmp_path)
    assert log.damaged == 0
    assert set(log.trials("w" * 64, "h" * 64, "1.1")) == {TRIAL.point, (1, 2)}
    best = log.best("w" * 64, "h" * 64, "1.1")
    assert best is not None and best.cycles == 472_000
    assert log.best("x" * 64, "h" * 64) is None
    assert log.best("w" * 64, "h" * 64, "0.9") is None


@given(cut=st.integers(min_value=1, max_value=2000))
def test_a_torn_tail_costs_one_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    directory = tmp_path_factory.mktemp("log")
    path = write(directory, TRIAL, replace(TRIAL, trial=8, point=(8,)), replace(TRIAL, trial=9, point=(9,)))
    data = path.read_bytes()
    whole = data[: max(0, len(data) - cut)]
    path.write_bytes(whole)
    log = Log.open(directory)
    complete = whole.count(b"\n")
    assert len(log.trials("w" * 64, "h" * 64, "1.1")) == max(0, complete - 1)
    assert log.damaged == (0 if whole.endswith(b"\n") or not whole else 1)


@given(at=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_a_flipped_byte_is_counted_and_skipped(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int) -> None:
    directory = tmp_path_factory.mktemp("log")
    path = write(directory, TRIAL, replace(TRIAL, trial=8, point=(8,)))
    data = bytearray(path.read_bytes())
    first = data.index(b"\n") + 1
    at = first + at % (len(data) - first - 1)
    data[at] ^= flip
    path.write_bytes(bytes(data))
    log = Log.open(directory)
    found = log.trials("w" * 64, "h" * 64, "1.1")
    assert log.damaged >= 1 and len(found) <= 1
    assert all(record in (TRIAL, replace(TRIAL, trial=8, point=(8,)))
               or replace(record, run="run") in (TRIAL, replace(TRIAL, trial=8, point=(8,))) for record in found.values())


def test_a_log_that_is_a_file_or_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(RecordError, match="is a file"):
        Log.open(tmp_path / "f")
    with pytest.raises(RecordError, match="does not exist"):
        Log.open(tmp_path / "nope", must_exist=True)


def test_a_directory_among_the_files_is_no_file(tmp_path: Path) -> None:
    write(tmp_path, TRIAL)
    (tmp_path / "old.jsonl").mkdir()
    assert len(Log.open(tmp_path).trials("w" * 64, "h" * 64, "1.1")) == 1


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    with log.writer({"seed": 0}) as a, log.writer({"seed": 1}) as b:
        assert a.run != b.run
        for n in range(20):
            (a, b)[n % 2].append(replace(TRIAL, point=(n,)))
    found = Log.open(tmp_path)
    assert found.damaged == 0 and len(found.trials("w" * 64, "h" * 64, "1.1")) == 20


def test_another_version_is_another_key(tmp_path: Path) -> None:
    write(tmp_path, TRIAL, replace(TRIAL, version="9.9", cycles=1), replace(TRIAL, space=TRIAL.space + 1, cycles=2))
    log = Log.open(tmp_path)
    assert log.trials("w" * 64, "h" * 64, "1.1", TRIAL.space)[TRIAL.point].cycles == TRIAL.cycles
    assert log.trials("w" * 64, "h" * 64, "1.1", TRIAL.space + 1)[TRIAL.point].cycles == 2
    assert log.trials("w" * 64, "h" * 64, "9.9")[TRIAL.point].cycles == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot write .*\.jsonl: No space left"), Log.open(tmp_path).writer({}) as writer:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, writer._fd)
        os.close(full)
        writer.append(TRIAL)
    assert Log.open(tmp_path).damaged == 0
