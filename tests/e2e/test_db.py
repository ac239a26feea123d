"""``autosched db``: what is damaged, what moved, several logs into one, a large log made small, and trials in other formats."""

from __future__ import annotations

import csv
import json
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.records import Log, version
from autosched.records.line import FORMAT, best_line, run_line, seal
from autosched.records.upkeep import repair
from autosched.search import tune
from autosched.workloads import workload
from space import Space

NAME = "dense:m=2,k=64,n=96"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    tune(NAME, trials=5, jobs=1, log=directory, sampler="random")
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
    # An empty file, as of a run that has not begun, says nothing that its copy does not.
    (into / "empty.jsonl").touch()
    assert "0 files copied" in said(capsys, "merge", into, "--log", into)[1]
    shutil.rmtree(into)
    assert said(capsys, "merge", log, tmp_path / "none", "--log", into)[0] == Exit.BAD_INPUT and not into.exists()
    (tmp_path / "file").touch()
    for words in ((tmp_path / "file", "--log", into), (log, "--log", tmp_path / "file")):
        code, _, err = said(capsys, "merge", *words)
        assert code == Exit.BAD_INPUT and f"the log {tmp_path / 'file'} is a file; a log is a directory" in err


def test_files_that_were_repaired_are_merged_and_two_of_one_name_stop_no_other(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (whole,) = log.glob("*.jsonl")
    data, into, other = whole.read_bytes(), tmp_path / "into", tmp_path / "other"
    lines = data.splitlines(keepends=True)
    damaged = b"".join([*lines[:2], b"noise\n", *lines[2:4], b"x" + lines[4], *lines[5:]])
    for folder in (into, other):
        folder.mkdir()
        (folder / "a.jsonl").write_bytes(damaged)
    assert said(capsys, "fsck", "--log", into, "--repair")[0] == Exit.OK
    repaired = (into / "a.jsonl").read_bytes()
    # The same records, whichever of the two was repaired, or one that has grown since, or one that is not.
    for theirs, copied, left in (
        (damaged, 0, repaired), (repaired, 0, repaired), (lines[1].replace(b"0", b"1") + repaired, 0, repaired),
        (b"".join(lines[:4]), 0, repaired), (damaged + seal("future", {}, FORMAT + 1).encode(), 1, b""),
    ):
        (other / "a.jsonl").write_bytes(theirs)
        code, out, _ = said(capsys, "merge", other, "--log", into)
        assert code == Exit.OK and f"{copied} file" in out and (into / "a.jsonl").read_bytes() == (left or theirs)
    # What said nothing in the file that was there is beside it.
    (into / "a.jsonl").write_bytes(b"more noise\n" + b"".join(lines[:3]) + b"\n")
    (other / "a.jsonl").write_bytes(data)
    assert "1 file copied" in said(capsys, "merge", other, "--log", into)[1]
    assert (into / "a.jsonl").read_bytes() == data and (into / "a.jsonl.bad").read_bytes().endswith(b"more noise\n")
    for name in "abc":
        (other / f"{name}.jsonl").write_bytes(data)
    more = seal("future", {}, FORMAT + 1).encode()
    apart = {name: b"".join([*lines[:n], *lines[n + 1 :], more]) for n, name in enumerate("ab", 1)}
    for name, contents in apart.items():
        (into / f"{name}.jsonl").write_bytes(contents)
    code, out, err = said(capsys, "merge", other, "--log", into)
    assert code == Exit.BAD_INPUT and "1 file copied" in out and (into / "c.jsonl").read_bytes() == data
    assert err.count("\n") == 1 and err.count("two files of one name") == 2
    assert f"{other / 'b.jsonl'} and {into / 'b.jsonl'}" in err
    assert {name: (into / f"{name}.jsonl").read_bytes() for name in apart} == apart


def test_trials_as_csv(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "5 trials" in said(capsys, "export", "--log", log, "-o", tmp_path / "t.csv")[1]
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    trials = list(Log.open(log).all_trials())
    assert [(int(r["trial"]), r["cycles"], r["workload"]) for r in rows] == [
        (t.trial, "" if t.cycles is None else str(t.cycles), NAME) for t in trials]
    assert [tuple(map(int, r["point"].split())) for r in rows] == [t.point for t in trials]
    assert said(capsys, "export", "--log", log, "-o", tmp_path / "no" / "t.csv")[0] == Exit.BAD_INPUT


@pytest.mark.parametrize("name", ["t.csv", "t.journal"])
def test_an_export_is_of_the_target_and_the_fastest_that_were_asked_for(
    name: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def exported(*words: str) -> int:
        (tmp_path / name).unlink(missing_ok=True)
        code, _, err = said(capsys, "export", "--log", log, "-o", tmp_path / name, *words)
        assert code == Exit.OK, err
        if name == "t.csv":
            with (tmp_path / name).open(newline="") as file:
                return len(list(csv.DictReader(file)))
        return (tmp_path / name).read_text().count('"op_code":4') if (tmp_path / name).exists() else 0

    whole = exported()
    assert exported("--target", "vta-de10") == whole == 5
    assert exported("--target", "vta-pynq") == 0
    assert exported("--top", "2") == exported("--top", "2", "--target", "vta-de10") == 2
    (tmp_path / name).unlink()
    code, _, err = said(capsys, "export", "--log", log, "-o", tmp_path / name, "--target", "vta-de11")
    assert code == Exit.BAD_INPUT and "unknown target 'vta-de11'; did you mean 'vta-de10'" in err
    assert not (tmp_path / name).exists()


def test_repair_moves_what_says_nothing_and_keeps_the_rest(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = log.glob("*.jsonl")
    lines = path.read_bytes().splitlines()
    newer = seal("trial", {"head": "0" * 8, "decisions": "of another time"}, format=FORMAT + 1).encode().rstrip()
    forged = lines[3].replace(b'"trial":', b'"trial":9', 1)
    glued = lines[1] + lines[2]
    (tmp_path / path.name).write_bytes(b"\n".join([lines[0], glued, forged, newer, b"\xff noise", *lines[4:], lines[1][:40]]))
    code, out, _ = said(capsys, "fsck", "--log", tmp_path, "--repair")
    beside = tmp_path / (path.name + ".bad")
    # What a newer version wrote is no damage of the file, and is still said.
    assert code == Exit.PARTIAL and "1 damaged lines left" in out
    assert f"3 lines moved to {beside.name}, 1 of a newer format left" in out
    assert beside.read_bytes().splitlines() == [forged, b"\xff noise", lines[1][:40]]
    assert (tmp_path / path.name).read_bytes().splitlines() == [*lines[:3], newer, *lines[4:]]
    code, out, _ = said(capsys, "fsck", "--log", tmp_path, "--repair")
    assert beside.read_bytes().count(b"\n") == 3 and "0 lines moved" in out
    (tmp_path / path.name).write_bytes(b"\n".join([*lines, b"more noise"]))
    assert said(capsys, "fsck", "--log", tmp_path, "--repair")[0] == Exit.OK
    assert (tmp_path / path.name).read_bytes() == path.read_bytes() and beside.read_bytes().endswith(b"more noise\n")
    assert said(capsys, "fsck", "--log", tmp_path)[0] == Exit.OK


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("junk", ["junk", '{"kind":"tri'])
def test_repair_leaves_nothing_for_a_second_one(
    junk: str, end: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a trial that is whole stands in a damaged line and its run is damaged, too."""
    head, _, trial = next(log.glob("*.jsonl")).read_bytes().splitlines()[:3]
    path, lost = tmp_path / "a.jsonl", head.replace(b'"seed":0', b'"seed":1')
    beside = tmp_path / "a.jsonl.bad"
    for lines, kept, taken in (
        ([lost, trial + junk.encode()], b"", [lost, trial + junk.encode()]),
        ([head, trial + junk.encode()], head + b"\n" + trial + b"\n", [trial + junk.encode()]),
    ):
        beside.unlink(missing_ok=True)
        path.write_bytes(b"\n".join(lines) + end.encode())
        code, out, _ = said(capsys, "fsck", "--log", tmp_path, "--repair")
        assert code == Exit.OK and "0 damaged lines left" in out and f"{len(taken)} lines moved" in out
        for _ in range(2):
            assert path.read_bytes() == kept and beside.read_bytes().splitlines() == taken
            assert said(capsys, "fsck", "--log", tmp_path, "--repair")[0] == Exit.OK
        # A repair that was ended between its two files is done again.
        path.write_bytes(b"\n".join(lines) + end.encode())
        assert said(capsys, "fsck", "--log", tmp_path, "--repair")[0] == Exit.OK
        assert path.read_bytes() == kept and beside.read_bytes().splitlines() == taken


def test_a_file_is_repaired_line_by_line(log: Path, tmp_path: Path) -> None:
    whole, junk = next(log.glob("*.jsonl")).read_bytes(), b"x" * 50_000
    path = tmp_path / "a.jsonl"
    path.write_bytes(whole + 100 * (junk + b"\n") + b"the last")
    damaged = Log.open(tmp_path)
    tracemalloc.start()
    (done,) = repair(damaged)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.moved == 101 and path.read_bytes() == whole and peak < 2_000_000, peak
    beside = tmp_path / "a.jsonl.bad"
    assert beside.read_bytes() == 100 * (junk + b"\n") + b"the last\n"
    path.write_bytes(whole + b"last")  # the end of what is there, and no line of it
    assert repair(Log.open(tmp_path))[0].moved == 1 and beside.read_bytes().endswith(b"the last\nlast\n")
    assert {p.name for p in tmp_path.iterdir()} == {path.name, beside.name}


def test_repair_leaves_a_file_that_is_being_written(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next(Log.open(log).all_bests()).of
    with Log(tmp_path).writer(run) as writer:
        with writer.path.open("ab") as file:
            file.write(b"noise\n")
        before = writer.path.read_bytes()
        code, _, err = said(capsys, "fsck", "--log", tmp_path, "--repair")
        assert code == Exit.BAD_INPUT and "is being written by a running command" in err and err.count("\n") == 1
        assert writer.path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    assert said(capsys, "fsck", "--log", tmp_path, "--repair")[0] == Exit.OK


def test_compact_keeps_the_best(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = tmp_path / "into"
    for top in (100, 2):
        code, out, _ = said(capsys, "compact", "--log", log, "-o", into, "--top", str(top))
        assert code == Exit.OK
    old, new = Log.open(log), Log.open(into)
    assert not new.damage and new.tasks() == old.tasks()
    (_, workload, hardware) = old.tasks()[0]
    now = version()
    assert new.bests(workload, hardware, now) == old.bests(workload, hardware, now)
    assert new.trials(workload, hardware, now) == {p: t for p, t in old.trials(workload, hardware, now).items() if t.cycles}
    small = Log(into, [p for p in into.glob("*.jsonl") if p.name in out])
    fastest = sorted(t.cycles for t in old.all_trials() if t.cycles is not None)
    assert sorted(t.cycles for t in small.all_trials() if t.cycles is not None) == fastest[:2]
    assert small.first(workload, hardware, now) == old.first(workload, hardware, now)
    code, _, err = said(capsys, "compact", "--log", log, "-o", log)
    assert code == Exit.BAD_INPUT and "is the log itself" in err


def test_compact_keeps_as_many_as_were_asked_for(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = next(Log.open(log).all_bests())
    many = [replace(best, cycles=best.cycles + n, of=replace(best.of, version=v)) for v in ("0.8", "0.9") for n in range(40)]
    for record in many:
        with (tmp_path / f"{record.version}.jsonl").open("a") as file:
            file.write(best_line(record, "0" * 8))
    for top in (3, 30, 100):
        code, out, _ = said(capsys, "compact", "--log", tmp_path, "-o", tmp_path / str(top), "--top", str(top))
        assert code == Exit.OK and f": {2 * min(top, 40)} best schedules" in out
        (path,) = (tmp_path / str(top)).iterdir()
        kept = [json.loads(line)["cycles"] for line in path.read_text().splitlines()]
        assert kept == 2 * [r.cycles for r in many[: min(top, 40)]]


def test_what_is_held(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "list", "--log", log, "--format", "json")
    (row,) = json.loads(out)
    best = min(Log.open(log).all_bests(), key=lambda b: (b.cycles, not b.verified))
    assert (row["workload"], row["target"], row["cycles"], row["trials"]) == (NAME, "vta-de10", best.cycles, 5)
    # The same command under both of its names.
    assert said(capsys, "best", NAME, "--log", log) == (main(["best", NAME, "--log", str(log)]), *capsys.readouterr())
    assert "resnet18.c2" in said(capsys, "list", "--shipped")[1]
    code, _, err = said(capsys, "list", "--shipped", "--log", log)
    assert code == Exit.BAD_INPUT and "two places" in err
    code, _, err = said(capsys, "verify", "dense:m=2,k=64", "--log", log)
    assert code == Exit.BAD_INPUT and f"did you mean '{NAME}'?" in err


@pytest.mark.parametrize("name", ["o.db", "o.journal", "a log.journal"])
def test_trials_as_studies_that_optuna_opens(name: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optuna = pytest.importorskip("optuna")
    path = tmp_path / name
    code, out, _ = said(capsys, "export", "--log", log, "-o", path)
    shown = f"'{path}'" if " " in name else f"{'sqlite:///' * (name == 'o.db')}{path}"
    assert code == Exit.OK and f"optuna-dashboard {shown}\n" in out and [p.name for p in tmp_path.iterdir()] == [name]
    if name == "o.db":
        storage = f"sqlite:///{path}"
    else:
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    (summary,) = optuna.get_all_study_summaries(storage)
    study = optuna.load_study(study_name=summary.study_name, storage=storage)
    trials = list(Log.open(log).all_trials())
    assert [t.user_attrs["point"] for t in study.trials] == [" ".join(map(str, t.point)) for t in trials]
    assert [t.value for t in study.trials] == [t.cycles for t in trials]
    names = Space(workload(NAME).func, "vta-de10").names
    for shown, t in zip(study.trials, trials):
        assert shown.params and all(t.point[names.index(k)] == v for k, v in shown.params.items())
    code, _, err = said(capsys, "export", "--log", log, "-o", path)
    assert code == Exit.BAD_INPUT and "exists already" in err


@pytest.mark.usefixtures("brief")
def test_a_study_says_why_its_decisions_have_no_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "mine.json").write_text('{"read_delay": 17}')
    tune(NAME, tmp_path / "mine.json", trials=2, jobs=1, log=tmp_path / "log", sampler="random")
    for words, said_so in (((), "another machine than mine is here; name its file with --target"),
                           (("--target", tmp_path / "mine.json"), "named")):
        code, out, _ = said(capsys, "export", "--log", tmp_path / "log", "-o", tmp_path / f"{len(words)}.journal", *words)
        assert code == Exit.OK and out.splitlines()[1].rstrip().split(None, 4) == [NAME, "on", "mine", "2", said_so]


@pytest.mark.parametrize("text", [b"", b"# a remark\n", b"{\nnot json\n", bytes(range(256)) * 64, b"[1, 2]\n{}\n"])
def test_what_holds_no_record_is_one_line(text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(text)
    for words in ((), ("--format", "json")):
        code, out, err = said(capsys, "import", tmp_path / "a.log", "--log", tmp_path / "log", *words)
        assert (code, out) == (Exit.BAD_INPUT, "") and err.count("\n") == 1
        assert f"{tmp_path / 'a.log'} holds no record of AutoTVM, version 0.2" in err and not (tmp_path / "log").exists()


@pytest.mark.usefixtures("brief")
def test_an_import_is_a_table_of_theirs_and_ours(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "ext_dev -device=vta -keys=cpu -model=pynq_1x16_i8w8a32_15_15_18_17"
    args = [["TENSOR", [2, 4, 1, 16], "int8"], ["TENSOR", [6, 4, 16, 16], "int8"], None, "int32"]
    record = {"input": [target, "dense_packed.vta", args, {}], "result": [[1e-4], 0, 1.0, 1.6e9], "version": 0.2,
              "config": {"entity": [["tile_ci", "sp", [1, 4]], ["tile_co", "sp", [6, 1]], ["oc_nthread", "ot", 1]]}}
    lines = [json.dumps(record), json.dumps({**record, "input": [target.replace("1x16", "4x8"), *record["input"][1:]]})]
    (tmp_path / "a.log").write_text("\n".join(lines))
    into = tmp_path / "log"
    shutil.copytree(log, into)
    code, out, _ = said(capsys, "import", tmp_path / "a.log", "--log", into)
    assert code == Exit.OK and "1 record for a VTA of 4x8" in out and "1 of 1 records for this machine became schedules" in out
    (tmp_path / "mixed.log").write_text("\n".join(["{", lines[1], "[", "[]", *(f'{{"a": {k}}}' for k in range(9)), "{"]))
    code, out, _ = said(capsys, "import", tmp_path / "mixed.log", "--log", into)
    assert code == Exit.OK and f"3 lines skipped: not JSON (the first is {tmp_path / 'mixed.log'}:1)\n" in out
    assert "10 lines skipped: not a record of AutoTVM" in out and "1 record for a VTA of 4x8" in out and out.count("\n") == 4
    search = ("--log", tmp_path / "other", "--tune", "3", "--jobs", "1")
    code, out, _ = said(capsys, "import", tmp_path / "a.log", *search, "--format", "json")
    first, second = json.loads(out)
    assert first["workload"] == NAME and first["bound"] <= first["ours"] <= first["theirs"] and second["theirs"] is None
    (tmp_path / "a.log").write_text(lines[0].replace("tile_co", "tile_qo"))
    code, out, _ = said(capsys, "import", tmp_path / "a.log", "--log", into, "--format", "json")
    assert code == Exit.PARTIAL and "knob tile_qo is none of" in json.loads(out)[0]["reason"]
