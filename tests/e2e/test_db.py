"""``autosched db``: what is damaged, what moved, several logs into one, and trials as CSV."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.records import Log
from autosched.records.line import best_line, run_line
from autosched.search import tune

NAME = "dense:m=2,k=64,n=96"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    tune(NAME, trials=5, jobs=1, log=directory)
    return directory


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main(["db", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_fsck_names_what_is_damaged(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "fsck", "--log", log)[0] == Exit.OK
    (path,) = log.glob("*.jsonl")
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"trial":', b'"trial":9', 1)
    (tmp_path / path.name).write_bytes(b"\n".join(lines))
    code, out, _ = said(capsys, "fsck", "--log", tmp_path)
    assert code == Exit.PARTIAL and f"{tmp_path / path.name}:3: no valid checksum" in out and "1 damaged lines" in out
    code, out, _ = said(capsys, "fsck", "--log", tmp_path, "--format", "json")
    assert json.loads(out) == [{"file": str(tmp_path / path.name), "line": 3, "reason": "no valid checksum"}]


def test_verify_says_what_moved(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "verify", "--log", log, "--format", "json")
    (row,) = json.loads(out)
    assert code == Exit.OK and row["moved"] == 0 and row["now"] == row["logged"] and row["bytes"] == "equal"
    best = next(Log.open(log).all_bests())
    (tmp_path / "f.jsonl").write_text(run_line(best.of) + best_line(replace(best, cycles=best.cycles - 7), "0" * 8))
    code, out, _ = said(capsys, "verify", "--log", tmp_path, "--format", "json")
    assert code == Exit.DIFFERS and json.loads(out)[0]["moved"] == 7
    # Nothing is written by looking.
    assert len(list(tmp_path.iterdir())) == 1


def test_logs_are_merged_once(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = tmp_path / "into"
    assert "1 file copied" in said(capsys, "merge", log, "--log", into)[1]
    assert "0 files copied" in said(capsys, "merge", log, "--log", into)[1]
    assert Log.open(into).digest() == Log.open(log).digest()
    (path,) = into.glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    # The shorter copy of a file that has grown is brought up to date, and never the other way.
    assert "1 file copied" in said(capsys, "merge", log, "--log", into)[1] and path.read_bytes() == whole
    path.write_bytes(b"x" + whole)
    code, _, err = said(capsys, "merge", log, "--log", into)
    assert code == Exit.BAD_INPUT and "two files of one name" in err and path.read_bytes() == b"x" + whole
    shutil.rmtree(into)
    assert said(capsys, "merge", tmp_path / "none", "--log", into)[0] == Exit.BAD_INPUT and not into.exists()


def test_trials_as_csv(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "5 trials" in said(capsys, "export", "--log", log, "-o", tmp_path / "t.csv")[1]
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    trials = list(Log.open(log).all_trials())
    assert [(int(r["trial"]), r["cycles"], r["workload"]) for r in rows] == [
        (t.trial, "" if t.cycles is None else str(t.cycles), NAME) for t in trials]
    assert [tuple(map(int, r["point"].split())) for r in rows] == [t.point for t in trials]
    assert said(capsys, "export", "--log", log, "-o", tmp_path / "no" / "t.csv")[0] == Exit.BAD_INPUT
