"""What is read is not believed and not run: hostile logs, kernels and program files, through the commands that a user types."""

import json
import os
import resource
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.errors import AutoschedError, ProgramError
from autosched.kernel import Kernel
from autosched.records import BestRecord, Known, Log, ProgramRecord, TrialRecord, compile, find_best
from autosched.records.line import seal, trial_line
from autosched.search import TuneReport, tune
from autosched.target import get_target
from autosched.workloads import workload
from sim import timing

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = f"{ROOT}/examples/kernels.py:relu_add"
SMALL = "dense:m=2,k=64,n=96"
Here = Callable[..., subprocess.CompletedProcess[str]]
Command = Callable[..., tuple[int, str, str]]


def tuned(name: str, log: Path, trials: int = 4) -> BestRecord:
    report = tune(name, log=log, jobs=1, trials=trials, cold=True, sampler="random")
    assert isinstance(report, TuneReport)
    target = get_target("vta-de10")
    best = find_best(report.task.func, target, log)
    assert best is not None
    return best


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BestRecord:
    return tuned(SMALL, tmp_path_factory.mktemp("log"))


def log_of(directory: Path, *records: BestRecord | ProgramRecord) -> Path:
    """A log with one writer per record."""
    for record in records:
        of = record.of if isinstance(record, BestRecord) else None
        with Log.open(directory).writer(of or next(r.of for r in records if isinstance(r, BestRecord))) as writer:
            writer.append(record)
    return directory


def trap(directory: Path) -> tuple[Path, Path]:
    """A Python file that leaves a mark when it is run, and the mark."""
    mark = directory / "ran"
    file = directory / "evil.py"
    file.write_text(f"open({str(mark)!r}, 'w').close()\nf = None\n")
    return file, mark


def test_a_name_in_a_log_runs_nothing(tmp_path: Path, small: BestRecord, here: Here) -> None:
    file, mark = trap(tmp_path)
    evil = replace(small, of=replace(small.of, name=f"{file}:f", workload="ab" * 32))
    log = log_of(tmp_path / "log", small, evil)
    done = here("best", "--log", log, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Its name stands for nothing that the log can show: it is listed with the key, and does not stop the others.
    assert sorted(r["workload"] for r in json.loads(done.stdout)) == sorted([f"{file}:f ({'ab' * 4})", SMALL])
    assert Known.open(get_target("vta-de10"), log).workload(f"{file}:f", "ab" * 32, get_target("vta-de10")) is None
    assert not mark.exists()


def test_a_kernel_file_runs_nothing(tmp_path: Path, small: BestRecord) -> None:
    file, mark = trap(tmp_path)
    compile(SMALL, log=log_of(tmp_path / "log", small)).save(tmp_path / "k.json")
    data = json.loads((tmp_path / "k.json").read_text())
    whole = data["workload"]["recipe"]
    for recipe in ([f"{file}:f", 1, 16], [f" {file}:f", 1, 16], None, [str(file), 1, 16], "x", [1, 2, 3], [SMALL, 0, 0]):
        data["workload"]["recipe"] = recipe
        (tmp_path / "k.json").write_text(json.dumps(data))
        # The script says what the program is.
        assert Kernel.load(tmp_path / "k.json").workload.key == small.workload
    data["workload"].update(recipe=whole, script="import os\nos.system('touch ran')\n", key="0" * 64)
    (tmp_path / "k.json").write_text(json.dumps(data))
    with pytest.raises(ProgramError):
        Kernel.load(tmp_path / "k.json")
    assert not mark.exists()


@pytest.mark.parametrize(("change", "said"), [
    ({"cycles": "5"}, "field 'cycles' is a str, expected a int"), ({"cycles": True}, "'cycles'"), ({"trace": {}}, "'trace'"),
    ({"workload": 5}, "'workload'"), ({"target": []}, "'target'"), ({"program": None}, "'program'"),
    ({"format": "x"}, "not a kernel"), ({"trace": [[1]]}, "instruction 0"), ({"trace": [{"op": "nope"}]}, "nope"),
    ({"trace": [{"op": "split", "in": 5}]}, "instruction 0"),
])
def test_a_damaged_kernel_file_is_one_line(tmp_path: Path, small: BestRecord, change: dict[str, object], said: str) -> None:
    compile(SMALL, log=log_of(tmp_path / "log", small)).save(tmp_path / "k.json")
    data = json.loads((tmp_path / "k.json").read_text())
    (tmp_path / "k.json").write_text(json.dumps({**data, **change}))
    with pytest.raises(AutoschedError, match=said):
        Kernel.load(tmp_path / "k.json")


def test_a_kernel_file_of_a_machine_that_is_none_is_one_line(tmp_path: Path, small: BestRecord) -> None:
    compile(SMALL, log=log_of(tmp_path / "log", small)).save(tmp_path / "k.json")
    data = json.loads((tmp_path / "k.json").read_text())
    data["target"]["config"]["LOG_ACC_WIDTH"] = 6
    (tmp_path / "k.json").write_text(json.dumps(data))
    with pytest.raises(ProgramError, match="damaged: config: LOG_ACC_WIDTH"):
        Kernel.load(tmp_path / "k.json")


@pytest.mark.parametrize(("name", "shown"), [
    ("\ud800x", r"\ud800x"), ("\x1b[2Jx", r"\x1b[2Jx"), ("a\nb", r"a\nb"), ("\N{RIGHT-TO-LEFT OVERRIDE}x", r"\u202ex"),
])
def test_a_name_in_a_log_does_nothing_to_a_terminal(
    name: str, shown: str, tmp_path: Path, small: BestRecord, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = log_of(tmp_path / "log", replace(small, of=replace(small.of, name=name, workload="ab" * 32, run=name)))
    for words in (["best"], ["list", "runs"], ["db", "list"], ["db", "verify"]):
        assert main([*words, "--log", str(log)]) in (Exit.OK, Exit.DIFFERS), words
        out = capfdbinary.readouterr().out.decode("utf-8")
        assert shown in out and name not in out, (words, out)


def test_a_point_that_is_none_of_the_space_stops_no_command(tmp_path: Path, small: BestRecord, here: Here) -> None:
    lie = replace(small, point=(99, *small.point[1:]))
    log = log_of(tmp_path / "log", lie)
    both, page = f"{SMALL}@{log}", tmp_path / "page.html"
    for words in (["explain", SMALL, "--log", log], ["report", SMALL, "--log", log, "-o", page], ["compare", both, both]):
        done = here(*words)
        assert done.returncode == 0 and "Traceback" not in done.stderr, (words, done.stderr)


@pytest.mark.parametrize("point", [(2**31 - 1,) * 28, (-1,) * 28, (1,) * 400, (5,)], ids=["most", "negative", "long", "short"])
def test_a_trial_that_is_no_point_of_the_space_is_none_of_the_page(
    point: tuple[int, ...], tmp_path: Path, small: BestRecord, here: Here
) -> None:
    page, sound = tmp_path / "page.html", TrialRecord(small.of, 1, small.point, small.program, small.cycles, small.bound, 1)
    with Log.open(log := tmp_path / "log").writer(small.of) as writer:
        for record in (small, replace(sound, trial=0, point=point, cycles=small.cycles + 1), sound):
            writer.append(record)
    done = here("report", SMALL, "--log", log, "-o", page)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "The best 1 trials" in page.read_text()


def test_half_a_character_in_a_log_is_damage_and_stops_no_command(tmp_path: Path, small: BestRecord, here: Here) -> None:
    log = log_of(tmp_path / "log", small)
    (path,) = log.iterdir()
    trial = TrialRecord(small.of, 0, small.point, small.program, small.cycles, small.bound, 1)
    head, best = path.read_text().splitlines()
    lines = [sealed_anew(line.replace(SMALL, "\\ud800x")) for line in (head, best)]
    (log / "half.jsonl").write_text(f"{lines[0]}\n{trial_line(trial, lines[0][-10:-2])}{lines[1]}\n")
    for words in (["best"], ["report", log, "-o", tmp_path / "x.html"], ["db", "export", "-o", tmp_path / "x.csv"],
                  ["db", "export", "-o", tmp_path / "x.journal"], ["db", "list"]):
        done = here(*words, *([] if words[0] == "report" else ["--log", log]))
        assert done.returncode == 0 and "Traceback" not in done.stderr, (words, done.stderr)
    done = here("db", "fsck", "--log", log)
    assert done.returncode == Exit.PARTIAL and r"half.jsonl:1: field 'name' is '\ud800x', expected characters" in done.stdout


def sealed_anew(line: str) -> str:
    """A line that somebody changed, with the checksum that fits."""
    text = line.rpartition(',"crc":"')[0] + "}"
    return f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}'


def test_an_array_that_no_memory_holds_is_one_line(tmp_path: Path, small: BestRecord, here: Here) -> None:
    head = b"{'descr': '|i1', 'fortran_order': False, 'shape': (1000000000000, 1000), }".ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    done = here("apply", SMALL, "--log", log_of(tmp_path / "log", small), "--input", f"data={tmp_path / 'x.npy'}")
    assert done.returncode == 2 and "x.npy is not a NumPy file of numbers" in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 10, "null", "", '{"cycles": ' + "9" * 5000 + "}", "\udcff"])
def test_what_is_no_kernel_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ProgramError, match="kernel file"):
        Kernel.load(tmp_path / "k.json")


def test_a_program_of_ones_own_is_in_the_log(tmp_path: Path, here: Here) -> None:
    example = tmp_path / "mine.py"
    example.write_text((ROOT / "examples/kernels.py").read_text())
    name = f"{example}:relu_add"
    best = tuned(name, tmp_path / "log")
    task = workload(name)
    text = example.read_text()
    example.unlink()
    target = get_target("vta-de10")
    stored = Known.open(target, tmp_path / "log").workload(name, best.workload, target)
    assert stored is not None and stored.func == task.func and stored.name == name
    commands = ["best", name], ["best"], ["show", name, "--as", "python"], ["apply", name], ["export", name, "-o", "p.json"]
    for command in commands:
        done = here(*command, "--log", tmp_path / "log", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert name in done.stdout or command[0] == "show"
    # A script that is another program than its key says is no program at all.
    other = ProgramRecord(best.workload, name, task.func.script().replace("T.max", "T.min"))
    lie = log_of(tmp_path / "lie", best, other)
    assert Known.open(target, lie).workload(name, best.workload, target) is None
    shown = here("best", "--log", lie, cwd=tmp_path)
    assert shown.returncode == 0 and f"{name} ({best.workload[:8]})" in " ".join(shown.stdout.split())
    assert "relu_add" in text


def test_an_unchecked_schedule_is_checked_on_first_use(tmp_path: Path, small: BestRecord, here: Here) -> None:
    log = log_of(tmp_path / "log", replace(small, verified=False))
    listed = here("best", "--log", log, cwd=tmp_path)
    assert "not yet" in listed.stdout
    assert here("show", SMALL, "--log", log, cwd=tmp_path).returncode == 0
    best = find_best(workload(SMALL).func, get_target("vta-de10"), log)
    assert best is not None and best.verified and best.cycles == small.cycles
    assert len(list(log.iterdir())) == 2
    compile(SMALL, log=log)
    assert len(list(log.iterdir())) == 2


def test_a_record_that_lies_is_passed_over(tmp_path: Path, small: BestRecord, here: Here) -> None:
    cheap = replace(small, cycles=1, program="0" * 64)
    faster = replace(small, cycles=small.cycles - 1)
    broken = replace(small, cycles=2, program="1" * 64, trace=({"op": "nope", "in": {}, "args": {}, "out": []},))
    unchecked = replace(broken, cycles=3, program="2" * 64, verified=False)
    log = log_of(tmp_path / "log", small, cheap, faster, broken, unchecked)
    done = here("apply", SMALL, "--log", log, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cycles"] == small.cycles and "passed over" in done.stderr and "Traceback" not in done.stderr
    again = find_best(workload(SMALL).func, get_target("vta-de10"), log)
    assert again is not None and again.cycles == small.cycles
    only = log_of(tmp_path / "only", cheap)
    failed = here("show", SMALL, "--log", only, cwd=tmp_path)
    assert failed.returncode in (2, 3) and "that holds" in failed.stderr.splitlines()[-1] and "Traceback" not in failed.stderr


def test_a_schedule_that_takes_anothers_cycles_does_not_hide_it(tmp_path: Path, small: BestRecord, command: Command) -> None:
    thief = replace(small, trace=({"op": "nope", "in": {}, "args": {}, "out": []},))
    log = log_of(tmp_path / "log", thief, small)
    for turn in range(2):
        code, out, err = command("apply", SMALL, "--log", log, "--format", "json")
        assert code == Exit.OK and json.loads(out)["cycles"] == small.cycles
        assert err.count("passed over") == (turn == 0)


def test_a_trace_that_no_program_follows_stops_no_command(tmp_path: Path, small: BestRecord, command: Command) -> None:
    """Annotations of the wrong kind, and results under the name of something else, in front of all other schedules."""
    at, copy = next((k, step) for k, step in enumerate(small.trace) if step["op"] == "cache_read")
    (made,) = copy["out"]
    note = {"op": "annotate", "in": {"block_or_loop": made}, "args": {"ann_key": "vta.first", "ann_val": "None"}, "out": []}
    traces = [(*small.trace, note), (*small.trace[:at], {**copy, "out": ["l" + made[1:]]})] * 2
    bad = [replace(small, cycles=small.cycles - n, program=f"{n}" * 64, verified=n > 2, trace=t) for n, t in enumerate(traces, 1)]
    log = log_of(tmp_path / "log", *bad, small)
    other = log_of(log, tuned("dense:m=1,k=64,n=64", tmp_path / "other"))
    code, out, err = command("db", "verify", "--log", other, "--format", "json")
    assert code == Exit.DIFFERS and "Traceback" not in err
    assert sorted(str(row["moved"]) for row in json.loads(out)) == ["0", "None"]
    for words in (("explain", SMALL), ("show", SMALL), ("apply", SMALL)):
        code, _, err = command(*words, "--log", log)
        assert code == Exit.OK and "Traceback" not in err, words
    code, _, err = command("tune", SMALL, "--trials", "4", "--jobs", "1", "--sampler", "random", "--quiet",
                           "--log", log_of(tmp_path / "again", *bad))
    assert code == Exit.OK and "Traceback" not in err


@pytest.mark.usefixtures("brief")
def test_a_schedule_that_was_withdrawn_is_offered_when_a_run_finds_it_good(
    tmp_path: Path, small: BestRecord, command: Command
) -> None:
    older = replace(small.of, version="0.9")
    for of, offered in ((older, True), (small.of, False)):
        log = log_of(tmp_path / of.version, small, replace(small, of=of, verified=False, reason="simulation: a fault"))
        assert command("apply", SMALL, "--log", log)[0] == (Exit.OK if offered else Exit.NO_SCHEDULE)
        if not offered:
            said = f"nothing that holds is logged for {SMALL} on vta-de10; run: autosched tune {SMALL} --log"
            assert said in command("best", "--log", log)[2]
        words = ("tune", SMALL, "--trials", "4", "--jobs", "1", "--cold", "--sampler", "random", "--quiet", "--log", log)
        assert command(*words)[0] == Exit.OK
        for known in (log, tmp_path / f"compact-{of.version}"):
            (best,) = json.loads(command("best", SMALL, "--log", known, "--format", "json")[1])
            assert (best["cycles"], best["verified"]) == (small.cycles, True)
            code, _, err = command("apply", SMALL, "--log", known)
            assert code == Exit.OK and "passed over" not in err
            assert known != log or command("db", "compact", "--log", log, "-o", tmp_path / f"compact-{of.version}")[0] == Exit.OK


def test_fewer_cycles_than_the_bound_are_not_called_checked(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, small: BestRecord
) -> None:
    for cycles, said in ((small.bound - 1, "below its bound"), (small.bound, "yes")):
        log = log_of(tmp_path / str(cycles), replace(small, cycles=cycles))
        assert said in command("best", "--log", log)[1].splitlines()[1]
        assert said in command("db", "list", "--log", log)[1].splitlines()[1]
        assert json.loads(command("best", "--log", log, "--format", "json")[1])[0]["verified"] == (said == "yes")


def test_a_record_of_another_version_is_marked_and_checked(tmp_path: Path, small: BestRecord, here: Here) -> None:
    old = replace(small, of=replace(small.of, version="0.9"), cycles=7)
    older = replace(old, of=replace(old.of, version="0.10"), cycles=8)
    log = log_of(tmp_path / "log", old, older)
    target = get_target("vta-de10")
    assert [r.version for r in Known.open(target, log).bests(small.workload, target.key())] == ["0.10", "0.9"]
    (listed,) = json.loads(here("best", "--log", log, "--format", "json", cwd=tmp_path).stdout)
    assert (listed["version"], listed["cycles"]) == ("0.10", 8)
    assert "by version 0.10" in here("best", "--log", log, cwd=tmp_path).stdout
    assert compile(SMALL, log=log).cycles == small.cycles
    assert "yes" in here("best", "--log", log, cwd=tmp_path).stdout


def test_lines_that_cannot_be_do_not_stop_a_command(tmp_path: Path, small: BestRecord, here: Here) -> None:
    log = log_of(tmp_path / "log", small)
    (log / "junk.jsonl").write_bytes(
        b"junk\n" + seal("best", {"cycles": 2**70}).encode() + b'{"kind":"trial"' + b"[" * 10_000 + b"\n\xff\xfe\n"
        + seal("future", {}, 3).encode()
    )
    os.mkfifo(log / "pipe.jsonl")
    done = here("best", SMALL, "--log", log, "--verbose", cwd=tmp_path)
    assert done.returncode == 0 and SMALL in done.stdout
    assert "5 damaged line(s)" in done.stderr and "Traceback" not in done.stderr
    for reason in ("junk.jsonl:1: no valid checksum", "junk.jsonl:2: field", "junk.jsonl:5: format 3"):
        assert reason in done.stderr


def test_a_number_that_cannot_be_written_again_is_damage(tmp_path: Path, small: BestRecord, command: Command) -> None:
    faster = replace(small, cycles=small.cycles - 1, trace=({**small.trace[0], "decision": 1.5}, *small.trace[1:]))
    log = log_of(tmp_path / "log", small, faster)
    last = sorted(log.iterdir())[-1]
    lines = last.read_text().replace('"decision":1.5', '"decision":1e999').splitlines()
    last.write_text("".join(f"{sealed_anew(line)}\n" for line in lines))
    into = tmp_path / "into"
    for words in (("apply", SMALL), ("show", SMALL, "--as", "trace"), ("db", "compact", "-o", into), ("db", "verify")):
        code, _, err = command(*words, "--log", log)
        assert code == Exit.OK and "Traceback" not in err, words
    code, out, _ = command("db", "fsck", "--log", log)
    assert code == Exit.PARTIAL and f"{last}:2: a number beyond all floats" in out and "1 damaged lines" in out


def test_a_file_that_cannot_be_written_whole_keeps_what_it_was(tmp_path: Path, small: BestRecord, here: Here) -> None:
    log = log_of(tmp_path / "log", small)
    kernel = compile(SMALL, log=log)
    path = tmp_path / "k.json"
    kernel.save(path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            kernel.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(path) and path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.json", "log"]
    for command in (["export", SMALL, "-o"], ["apply", SMALL, "--output"]):
        done = here(*command, tmp_path / "nowhere" / "f", "--log", log, cwd=tmp_path)
        assert done.returncode == 2 and f"{tmp_path}/nowhere" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [("export", SMALL, "-o", "f"), ("apply", SMALL, "--output", "f")], ids="-".join)
def test_where_the_working_folder_has_gone_the_file_is_named(
    words: tuple[str, ...], tmp_path: Path, small: BestRecord, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path / "log", small)
    timing.warm()  # what is loaded for the first time may ask where it is
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert command(*words, "--log", log) == (2, "", "autosched: f: No such file or directory\n")
