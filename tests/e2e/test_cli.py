"""The real command in a real process: what a user types and sees, good and bad."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.cli.commands import COMMANDS
from autosched.cli.exit_codes import Exit

ROOT = Path(__file__).resolve().parents[2]
SMALL = "dense:m=2,k=64,n=96"
Here = Callable[..., subprocess.CompletedProcess[str]]


def autosched(*args: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autosched", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    # Several jobs are tested where they are the subject.
    done = autosched("tune", SMALL, "--trials", "8", "--jobs", "1", "--sampler", "random", "--log", directory)
    assert done.returncode == 0, done.stderr
    assert "bit-equal" in done.stdout and "best schedule:" in done.stdout
    assert f"{SMALL}  8/8 trials" in done.stderr
    return directory


def test_best_show_apply_export_sim(log: Path, tmp_path: Path, here: Here) -> None:
    best = json.loads(here("best", SMALL, "--log", log, "--format", "json").stdout)
    assert best[0]["verified"] and best[0]["cycles"] >= best[0]["bound"]
    assert SMALL in here("best", "--log", log).stdout
    assert "T.sblock" in here("show", SMALL, "--log", log).stdout
    assert here("show", SMALL, "--log", log, "--as", "python").stdout.count("sch.") > 5
    assert "GEMM" in here("show", SMALL, "--log", log, "--as", "asm").stdout.upper()
    assert "COMPUTE |" in here("show", SMALL, "--log", log, "--as", "gantt").stdout
    applied = here("apply", SMALL, "--log", log, "--output", tmp_path / "y.npy")
    assert applied.returncode == 0 and "bit-equal to the reference" in applied.stdout
    assert np.load(tmp_path / "y.npy").dtype == np.int8
    program = tmp_path / "p.json"
    assert here("export", SMALL, "--log", log, "-o", program).returncode == 0
    data = json.loads(program.read_text())
    assert {"config", "programs"} <= set(data)
    assert {"name", "insns", "cycles", "insn_address", "memory", "outputs"} <= set(data["programs"][0])
    result = json.loads(here("sim", program, "--format", "json").stdout)
    assert result == [{"name": SMALL, "cycles": best[0]["cycles"], "outputs_match": True}]
    shown = here("sim", program, "--check", "--stats", "--gantt", "--timeline", tmp_path / "t.json")
    assert shown.returncode == 0 and "COMPUTE" in shown.stdout
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_sim_runs_recorded_programs_of_the_rtl(here: Here) -> None:
    path = ROOT / "tests" / "data" / "rtl_outputs.json"
    results = json.loads(here("sim", path, "--target", "vta-de10", "--format", "json").stdout)
    recorded = json.loads(path.read_text())["programs"]
    assert [r["cycles"] for r in results] == [p["cycles"] for p in recorded]
    assert all(r["outputs_match"] for r in results)


@pytest.mark.usefixtures("brief")
def test_an_example_of_ones_own_is_tuned(tmp_path: Path, here: Here) -> None:
    done = here("tune", ROOT / "examples/kernels.py:relu_add", "--trials", "4", "--jobs", "1", "--log", tmp_path)
    assert done.returncode == 0 and "bit-equal" in done.stdout, done.stderr


def test_a_damaged_line_is_counted_and_skipped(log: Path, tmp_path: Path, here: Here) -> None:
    for path in log.glob("*.jsonl"):
        (tmp_path / path.name).write_bytes(path.read_bytes() + b'{"kind":"trial","workl')
    (tmp_path / "junk.jsonl").write_text("not json\n")
    done = here("best", SMALL, "--log", tmp_path)
    assert done.returncode == 0 and SMALL in done.stdout
    assert "2 damaged line(s)" in done.stderr


def test_a_log_of_which_nothing_can_be_read_is_one_line(tmp_path: Path, here: Here) -> None:
    (tmp_path / "a.jsonl").write_text("garbage\nmore\n")
    done = here("best", "t2", "--log", str(tmp_path))
    (said,) = done.stderr.splitlines()
    assert done.returncode == Exit.NO_SCHEDULE and not done.stdout and f"{tmp_path / 'a.jsonl'}:1: no valid checksum" in said
    assert "nothing is logged for t2 on vta-de10: 2 damaged line(s)" in said
    done = here("best", "t2", "--log", str(tmp_path), "--format", "json")
    assert len(done.stderr.splitlines()) == 1 and json.loads(done.stdout)[0]["cycles"] is None


BAD = [
    (("tun", "t1"), "unknown command 'tun'; did you mean 'tune'"),
    (("tune", "resnet18.c99"), "unknown workload 'resnet18.c99'; did you mean"),
    (("tune", "t1", "--target", "vta-de1"), "unknown target 'vta-de1'; did you mean 'vta-de10'"),
    (("tune", "t1", "--trails", "3"), "unknown argument '--trails'; did you mean '--trials'?"),
    (("tune", "t1", "--trials", "0"), "expected a positive integer"),
    (("tune", "t1", "--sampler", "tpee"), "unknown sampler 'tpee'; did you mean 'tpe'"),
    (("tune", "dense:m=1,kk=3"), "unknown parameter of dense 'kk'; did you mean 'k'?"),
    (("tune", "dense:m=0,k=16,n=16"), "m"),
    (("tune", "conv2d:h=4,w=4,ci=16,co=16,k=5"), "k"),
    (("tune", "nowhere.py:f"), "nowhere.py"),
    (("show", "t1", "--format", "json"), "unknown argument '--format'"),
    (("show", "t1", "--as", "asmm"), "unknown --as 'asmm'; did you mean 'asm'?"),
    (("best", "t1", "--log", "no/such/dir"), "no/such/dir does not exist"),
    (("apply", SMALL, "--log", "LOG", "--input", "dat=x.npy"), "unknown input 'dat'; did you mean 'data'?"),
    (("apply", SMALL, "--log", "LOG", "--input", "data"), "expected name=value"),
    (("apply", SMALL, "--log", "LOG", "--input", "data=pyproject.toml"), "pyproject.toml is not a NumPy file"),
    (("apply", SMALL, "--log", "LOG", "--input", "data=a.npy", "--input", "data=b.npy"), "--input: data is given twice"),
    (("run", "x.onnx", "--shape", "x=1,2", "--shape", "x=1,3"), "--shape: x is given twice"),
    (("apply", SMALL, "--log", "LOG", "--input", "data=examples/digits_test.npz"), "is an archive of image, labels"),
    (("apply", SMALL, "--log", "LOG", "--input", "data=none.npy"), "no file none.npy"),
    (("compare", "none.json", "tests/data/rtl_cycles.json"), "no file none.json"),
    (("compare", "tests/data/rtl_cycle.json", "vta-de10"), "did you mean 'tests/data/rtl_cycles.json'"),
    (("space", "examples/digits_q.onnx"), "is a network, not one workload; tune, run, best, report and export take such files"),
    (("oracle", "net.ONNX"), "'net.ONNX' is a network, not one workload"),
    (("space", "denze:m=1,k=1,n=1"), "unknown operator 'denze'; did you mean 'dense'?"),
    (("space", "DENSE:m=1,k=1,n=1"), "unknown operator 'DENSE'; did you mean 'dense'?"),
    (("space", "T3"), "unknown workload 'T3'; did you mean 't3'?"),
    (("space", "dense:bias=0,m=1"), "dense: k, n missing; write dense:bias=0,m=1,k=,n="),
    (("oracle", SMALL, "--fix", "form=99"), "unknown decision 'form'; known: sketch, head, cut, cut_again, fall, tile_m"),
    (("oracle", SMALL, "--fix", "tile_z=9"), "unknown decision 'tile_z'; did you mean 'tile_"),
    (("oracle", SMALL, "--fix", "x" * 5000 + "=9"), "unknown decision 'xxx"),
    (("tune", "t2", "--scheduler", ""), "--scheduler: expected a name, got ''"),
    (("tune", "t2", "--executor", " "), "--executor: expected a name, got ' '"),
    (("help", "tune", "t2"), "unknown word 't2' behind 'autosched tune'; write autosched help tune"),
    (("help", "db", "fsck", "x"), "unknown word 'x' behind 'autosched db fsck'; write autosched help db fsck"),
    (("help", "db", "fsk"), "unknown ACTION 'fsk'; did you mean 'fsck'?"),
    (("sim", "no_such_file.json"), "no_such_file.json"),
    (("sim", "pyproject.toml"), "pyproject.toml"),
    (("sim", "tests/data/rtl_cycles.json", "--only", "unit00"), "unknown program 'unit00'; did you mean 'unit"),
    (("sim", "tests/data/rtl_cycles.json", "--timeline", "t.json"), "choose one with --only"),
    (("export", SMALL, "--log", "LOG", "-o", "no/dir/f.json"), "no/dir"),
    (("best", ""), "expected a name, got ''"),
    (("tune", "t1", "--log", ""), "expected a directory, got ''"),
]


@pytest.mark.parametrize(("args", "text"), BAD, ids=[" ".join(a)[:80] for a, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(args: tuple[str, ...], text: str, log: Path, here: Here) -> None:
    done = here(*[str(log) if a == "LOG" else a for a in args])
    assert done.returncode == 2, done.stdout + done.stderr
    assert text in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and len(done.stderr) < 600, done.stderr


def test_what_is_compared_with_a_machine_says_first_why_it_cannot_be_read(tmp_path: Path, here: Here) -> None:
    (tmp_path / "digits.json").write_text("{")
    (tmp_path / "p.json").write_text((ROOT / "tests/data/rtl_cycles.json").read_text())
    for name, said in (("digits.json", "digits.json: not JSON"), ("p.json", "vta-de10 is a target, the other one is none")):
        for words in ((name, "vta-de10"), ("vta-de10", name)):
            done = here("compare", *words, cwd=tmp_path)
            assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("words", [
    ("best",), ("show",), ("apply",), ("export", "-o", "p.json"), ("explain",), ("report", "-o", "r.html"),
], ids=" ".join)
def test_nothing_logged_is_exit_code_3(words: tuple[str, ...], tmp_path: Path, here: Here) -> None:
    # As a name comes out of a file; ``report`` takes folders as well.
    done = here(words[0], "t2" if words[0] == "report" else "t2\n", *words[1:], "--log", tmp_path, "--target", "vta-pynq")
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert "t2" in done.stderr and f"run: autosched tune t2 --target vta-pynq --log {tmp_path}" in done.stderr


def test_apply_and_export_speak_json(log: Path, tmp_path: Path, here: Here) -> None:
    applied = json.loads(here("apply", SMALL, "--log", log, "--format", "json").stdout)
    assert applied["bit_equal"] is True and applied["shape"][-1] == 16
    written = json.loads(here("export", SMALL, "--log", log, "-o", tmp_path / "p.json", "--format", "json").stdout)
    assert written["cycles"] == applied["cycles"] and Path(written["file"]).stat().st_size == written["bytes"]


def test_what_a_schedule_leaves_to_the_host_is_said(tmp_path: Path, here: Here) -> None:
    """Windows that the host gathers are in no cycle count, and are not called free; orders and zeros are."""
    programs = ROOT / "tests" / "data" / "programs"
    said = r"the host's own work, in no cycle count: \S+ makes P_reindex of P, [\d ]+ bytes in \d+\.\d ms of the interpreter"
    for fix, works in (("--fix", "sketch=5"), 1), (("--fix", "sketch=0"), 0):
        name, log = f"{programs / 'conv_odd.py'}:main", tmp_path / f"log{works}"
        tuned = here("tune", name, "--trials", "8", "--jobs", "1", "--log", log, *fix).stdout
        applied = here("apply", name, "--log", log).stdout
        for text in (tuned, applied):
            words = " ".join(text.split())
            assert len(re.findall(said, words)) == words.count("host's own work") == works
        listed = json.loads(here("apply", name, "--log", log, "--format", "json").stdout)["host_work"]
        assert [w["writes"] for w in listed] == [["P_reindex"]] * works and not any(w["free"] for w in listed)


@pytest.mark.parametrize(
    "words", [(name,) for name in COMMANDS] + [("db", name) for name in ("fsck", "merge", "import", "export")], ids=" ".join)
def test_help_fits_a_terminal_of_eighty_columns(words: tuple[str, ...], here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = here(*words, "--help")
    assert done.returncode == 0 and "usage:" in done.stdout
    assert not [line for line in done.stdout.splitlines() if len(line) > 80]
