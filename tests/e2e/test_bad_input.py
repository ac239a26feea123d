"""Whatever a person gets wrong is one line on standard error, and exit code 2; its twin at the boundary is accepted."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as at
from autosched.cli.commands import build_parser
from autosched.cli.exit_codes import Exit
from autosched.cli.network_commands import shapes
from autosched.errors import AutoschedError, BadArgumentError, NoScheduleError
from autosched.search.oracle import oracle
from autosched.workloads import network

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("brief")
SMALL = "dense:m=2,k=64,n=96"

PROGRAM = '''
from autosched.script import T

@T.prim_func
def add(A: T.Buffer((1, 4, 1, 16), "int32"), B: T.Buffer((1, 4, 1, 16), "int32"), out: T.Buffer((1, 4, 1, 16), "int8")):
    total = T.alloc_buffer((1, 4, 1, 16), "int32")
    for i, j, k, l in T.grid(1, 4, 1, 16):
        with T.block("total"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            total[vi, vj, vk, vl] = A[vi, vj, vk, vl] + B[vi, vj, vk, vl]
    for i, j, k, l in T.grid(1, 4, 1, 16):
        with T.block("out"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            out[vi, vj, vk, vl] = T.Cast("int8", total[vi, vj, vk, vl])
'''


Here = Callable[..., subprocess.CompletedProcess[str]]


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refusal."""
    assert done.returncode == Exit.BAD_INPUT, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("autosched")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("sampler", ["cost-model", "tpe", "nsgaii", "qmc", "random", "grid"])
def test_a_seed_has_32_bits_whatever_the_sampler(sampler: str, tmp_path: Path) -> None:
    for seed in (-1, 2**32):
        with pytest.raises(BadArgumentError, match=f"seed must be an integer from 0 to 4294967295, got {seed}"):
            at.tune(SMALL, trials=2, jobs=1, seed=seed, sampler=sampler, log=tmp_path)
    assert at.tune(SMALL, trials=2, jobs=1, seed=2**32 - 1, sampler=sampler, log=tmp_path).cycles


@pytest.mark.parametrize("args", [
    ("tune", SMALL, "--seed", "-1"), ("tune", SMALL, "--seed", "4294967296"), ("space", SMALL, "--seed", "-1"),
    ("apply", SMALL, "--seed", "1.5"), ("export", SMALL, "-o", "x.json", "--seed", "9" * 5000),
], ids=lambda a: a[0])
def test_a_seed_on_the_command_line(args: tuple[str, ...], here: Here) -> None:
    assert "--seed: expected an integer from 0 to 4294967295" in refused(here(*args))


FILES = [
    ("def f():\n    return 1 / 0\n", "file.py:2: ZeroDivisionError: division by zero"),
    ("raise ValueError\n", "file.py:1: ValueError"),
    ("import sys\n\ndef f():\n    sys.exit(0)\n", "file.py:4: the file ends the process (SystemExit: 0)"),
    ("x = 1\ndef f(m, n, k=1):\n    pass\n", "file.py:2: f needs arguments (m, n)"),
    ("def f():\n    return f()\n", "file.py:2: RecursionError"),
    ("x = 1\ny = [\n", "file.py:2: SyntaxError: '[' was never closed"),
    ("\x00", "null bytes"),
    ("def f():\n    import nothing_like_it\n", "file.py:2: ModuleNotFoundError: No module named 'nothing_like_it'"),
    ("def f():\n    import neighbour\n", "neighbour.py:2: KeyError: 'no'"),
    ("async def f():\n    pass\n", "file.py:f: expected a PrimFunc or a function that returns one, got coroutine"),
    ("def f():\n    raise RuntimeError('two\\nlines')\n", "file.py:2: RuntimeError: two"),
    (PROGRAM.replace("A[vi, vj, vk, vl] +", "A[vi, vj, vk, vl] + nobody +").replace("def add", "def f"),
     "file.py:10: name 'nobody' is not defined"),
    ("raise KeyboardInterrupt\n", "file.py:1: KeyboardInterrupt"),
    ("class Mine(BaseException):\n    pass\n\nraise Mine('[x]')\n", "file.py:4: Mine: [x]"),
    ("class Mine(Exception):\n    def __str__(self):\n        raise ValueError\n\nraise Mine\n",
     "file.py:5: Mine: its text raises ValueError"),
    ('from autosched import te\nx = te.placeholder((4,), "int8")\nf = te.compute((4,), lambda i: x[i] / 2)\n',
     "file.py:3: TypeError: '/' divides floats; for integers use '//' (rounds down) or truncdiv (rounds to zero)"),
    ("import os\nos.closerange(3, 99)\n", "file.py: f ends its process with code 1"),
    ("def g():\n    pass\n", "unknown function of file.py 'f'"),
]


@pytest.mark.parametrize(("text", "said"), FILES, ids=[s[:40] for _, s in FILES])
def test_a_users_file_that_goes_wrong_is_named_with_its_line(text: str, said: str, tmp_path: Path, here: Here) -> None:
    (tmp_path / "file.py").write_text(text)
    (tmp_path / "neighbour.py").write_text("d = {}\nd['no']\n")
    assert said in refused(here("space", "file.py:f", cwd=tmp_path))


def test_what_a_users_file_prints_does_not_mix_with_data(tmp_path: Path, here: Here) -> None:
    (tmp_path / "part.py").write_text(PROGRAM)
    (tmp_path / "file.py").write_text(
        "print('noise')\nimport os\ndef f():\n    print('more')\n    import part\n    return part.add\n")
    done = here("space", "file.py:f", "--format", "json", cwd=tmp_path)
    assert done.returncode == Exit.OK, done.stderr
    assert json.loads(done.stdout)["workload"] == "file.py:f"
    assert "noise\nmore" in done.stderr


@pytest.mark.parametrize("where", ["a string", "a closed one", "nowhere"])
def test_what_a_users_file_prints_goes_where_errors_go(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python's own standard error is no file, as in a notebook, or nothing at all."""
    (tmp_path / "file.py").write_text(f"print('noise')\n{PROGRAM}")
    stream = None if where == "nowhere" else io.StringIO()
    if stream is not None and where == "a closed one":
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    found = at.workload(f"{tmp_path / 'file.py'}:add")
    assert found.func.buffers
    if stream is not None and not stream.closed:
        assert stream.getvalue() == "noise\n"


MACHINES = [
    ("[" * 100_000, "nested too deep"),
    ('{"a":' * 100_000, "nested too deep"),
    ("{", "not JSON"),
    ("[]", "expected a JSON object, got list"),
    ('{"LOG_BATCH": ' + "9" * 5000 + "}", "machine.json"),
    ('{"semantics": ["chisel"]}', "is none of"),
    ('{"LOG_BATCH": "x"}', "LOG_BATCH"),
]


@pytest.mark.parametrize(("text", "said"), MACHINES, ids=[t[:12] for t, _ in MACHINES])
def test_a_machine_that_cannot_be_read(text: str, said: str, tmp_path: Path, here: Here) -> None:
    (tmp_path / "machine.json").write_text(text)
    line = refused(here("space", "t2", "--target", "machine.json", cwd=tmp_path))
    assert "target file machine.json" in line and said in line


@pytest.mark.parametrize(("text", "said"), [('{"programs": []}', "programs: empty"), ("[" * 100_000, "nested too deep")])
def test_a_program_file_without_programs(text: str, said: str, tmp_path: Path, here: Here) -> None:
    (tmp_path / "p.json").write_text(text)
    assert said in refused(here("sim", "p.json", cwd=tmp_path))


def test_files_that_no_memory_holds_are_one_line(tmp_path: Path, here: Here) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 43)
    (tmp_path / "huge.onnx").symlink_to("huge.json")
    (tmp_path / "p.json").write_text("{}")
    for words, said in (
        ("space t2 --target huge.json", "target file huge.json: more than 1048576 bytes"),
        ("sim huge.json", "huge.json: more than 536870912 bytes"), ("compare huge.json p.json", "more than 536870912 bytes"),
        ("db import huge.json --log log", "huge.json cannot be read: more than 536870912 bytes"),
        ("run huge.onnx", "huge.onnx: more than 536870912 bytes"),
    ):
        assert said in refused(here(*words.split(), cwd=tmp_path)), words


def test_a_machine_that_is_a_pipe_or_leads_nowhere_is_called_so(tmp_path: Path, here: Here) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "loop").symlink_to("loop")
    for name, said in (("pipe.json", "no regular file (a pipe or a device)"), ("/dev/null", "no regular file"),
                       ("./loop", "a link that leads nowhere"), ("./none", "no such file")):
        assert f"target file {name}: {said}" in refused(here("space", "t2", "--target", name, cwd=tmp_path))
    (tmp_path / "m").write_text("{}")
    (tmp_path / "link").symlink_to("m")
    assert here("list", "targets", cwd=tmp_path).returncode == Exit.OK
    assert here("space", "t2", "--top", "1", "--sample", "8", "--target", "./link", cwd=tmp_path).returncode == Exit.OK


def test_a_machine_that_is_a_folder_is_called_one(tmp_path: Path, here: Here) -> None:
    (tmp_path / "m.json").mkdir()
    assert "m.json: a directory, expected a JSON file" in refused(here("space", "t2", "--target", "m.json", cwd=tmp_path))
    assert "n.json: no such file" in refused(here("space", "t2", "--target", "n.json", cwd=tmp_path))


LARGE = "expected an integer from 1 to "


@pytest.mark.parametrize(("words", "most"), [(("space", "t2", "--sample"), 100_000), (("oracle", "t2", "--seeds"), 10_000)],
                         ids=str)
def test_what_no_memory_holds_is_not_asked_for(words: tuple[str, ...], most: int, here: Here) -> None:
    for number in (most + 1, 3_000_000_000, 99999999999999999999):
        line = refused(here(*words, str(number)))
        assert f"{words[-1]}: {LARGE}{most}, got '{number}'" in line
    assert getattr(build_parser(words).parse_args([*words, str(most)]), words[-1][2:]) == most


def test_a_number_has_any_number_of_digits(here: Here) -> None:
    """Python converts some thousand of them."""
    many = "9" * 5000
    for words, said in (
        (("space", f"dense:m={many},k=1,n=1"), "dense: m must be an integer from 1 to 1048576, got '9999"),
        (("run", "x.onnx", "--shape", f"x={many}"), "--shape x=9999"),
        (("tune", "t2", "--fix", f"tile_n={many}"), "got 'tile_n=999"),
        (("tune", "t2", "--trials", many), "expected a positive integer, got '999"),
        (("space", "dense:m=1048577,k=1,n=1"), "got '1048577'"),
        (("space", "dense:m=\N{SUPERSCRIPT TWO},k=1,n=1"), "must be an integer"),
        (("tune", "t2", "--fix", "tile_n=\N{SUPERSCRIPT TWO}"), "expected decisions such as"),
    ):
        line = refused(here(*words))
        assert said in line and len(line) < 200, line
    zeros = "0" * 5000
    assert here("space", f"dense:m={zeros}2,k=64,n=16,tail=cast,bias={zeros}", "--sample", "8").returncode == Exit.OK
    assert shapes([f"x={zeros}1, 1048575"]) == {"x": (1, 1048575)}


def test_the_runs_of_a_sampler_have_a_bound_in_python_too() -> None:
    with pytest.raises(BadArgumentError, match="seeds must be an integer from 0 to 10000"):
        oracle("t2", seeds=10_001)


EMPTY = [
    ("db", "compact", "--output", ""), ("db", "merge", ""), ("db", "merge", " ", "x"), ("db", "export", "-o", ""),
    ("db", "import", ""),
    ("apply", "t2", "--output", ""), ("apply", "t2", "--input", "data="), ("apply", "t2", "--input", " =x"),
    ("compare", "t2@", "t2"),
    ("compare", "t2", "@vta-de10"), ("compare", "", "t2"), ("report", "", "-o", "x"), ("report", "t2", "-o", " "), ("sim", ""),
    ("sim", "x", "--timeline", ""), ("sim", "x", "--target", ""), ("export", "t2", "-o", ""), ("run", ""),
    ("run", "x.onnx", "--save", ""),
    ("explain", "t2", "--schedule", ""),
]


@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
def test_an_empty_argument_is_not_the_working_folder(words: tuple[str, ...], tmp_path: Path, here: Here) -> None:
    (tmp_path / "a.jsonl").write_text("junk\n")
    line = refused(here(*words, cwd=tmp_path))
    assert "expected" in line and [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("words", [("tune", "t2"), ("best", "t2"), ("best",), ("export", "t2", "-o", "x"),
                                   ("report", "t2", "-o", "x"), ("run", "x.json")], ids=" ".join)
def test_what_is_of_onnx_files_is_refused_elsewhere(words: tuple[str, ...], tmp_path: Path, here: Here) -> None:
    for option in (("--rounding", "floor"), ("--shape", "x=1,3,6,6")):
        assert f"{option[0]} is of ONNX files, and " in refused(here(*words, *option, cwd=tmp_path))
    assert "unknown --rounding 'flor'; did you mean 'floor'?" in refused(here(*words, "--rounding", "flor", cwd=tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_name_of_a_file_does_nothing_to_a_terminal_with_its_damage(tmp_path: Path, here: Here) -> None:
    log = tmp_path / "l\x1b[31mog"
    log.mkdir()
    (log / "a\x1b[2J.jsonl").write_text("junk\n")
    said = here("best", "--verbose", "--log", log).stderr
    assert "\x1b" not in said and r"l\x1b[31mog" in said and r"a\x1b[2J.jsonl:1: no valid checksum" in said


def test_a_file_may_be_called_as_people_like(tmp_path: Path, here: Here) -> None:
    """With what steers a terminal, and with an @ where others have a log behind it."""
    folder = tmp_path / "a@b"
    folder.mkdir()
    (folder / "k\x1b[2J.py").write_text(PROGRAM)
    name = "a@b/k\x1b[2J.py:add"
    assert here("tune", name, "--trials", "2", "--jobs", "1", "--log", "log", "--quiet", cwd=tmp_path).returncode == Exit.OK
    assert here("export", name, "--log", "log", "-o", "p.json", cwd=tmp_path).returncode == Exit.OK
    (ran,) = json.loads(here("sim", "p.json", "--format", "json", cwd=tmp_path).stdout)
    assert ran["name"] == r"a@b/k\x1b[2J.py:add" and ran["outputs_match"]
    for words in ((name, f"{name}@vta-de10@log", "--log", "log"), (f"{name}@log", f"{name}@log@vta-de10")):
        done = here("compare", *words, cwd=tmp_path)
        assert done.returncode == Exit.OK and "no figure differs" in done.stdout, done.stderr
    assert "nothing stands on a side of an @" in refused(here("compare", f"{name}@", name, cwd=tmp_path))


def test_names_in_brackets_are_shown_as_they_are(tmp_path: Path, here: Here) -> None:
    folder = tmp_path / "[red]x[/red]"
    folder.mkdir(parents=True)
    (folder / "[b].py").write_text(PROGRAM)
    name = "[red]x[/red]/[b].py:add"
    done = here("tune", name, "--trials", "2", "--jobs", "1", "--log", "[log]", cwd=tmp_path)
    assert done.returncode == Exit.OK, done.stderr
    assert name in done.stdout and name in done.stderr and (tmp_path / "[log]").is_dir()
    assert "[red]x[/red]/[c].py" in refused(here("tune", "[red]x[/red]/[c].py:add", cwd=tmp_path))
    assert "[/nope]" in refused(here("best", "--log", "[/nope]", cwd=tmp_path))


@pytest.mark.parametrize(("arguments", "said"), [
    ({"trials": 0}, "trials must be a positive integer, got 0"), ({"trials": -1}, "trials must be a positive integer, got -1"),
    ({"trials": "x"}, "trials must be a positive integer, got 'x'"), ({"trials": 1.5}, "trials must be a positive integer"),
    ({"trials": True}, "trials must be a positive integer, got True"), ({"jobs": 0}, "jobs must be a positive integer"),
    ({"jobs": -3}, "jobs must be a positive integer, got -3"), ({"gap": 5}, "gap must be a fraction"),
    ({"gap": 1.0}, "gap must be a fraction"), ({"gap": -0.01}, "gap must be a fraction"),
    ({"gap": "1%"}, "gap must be a fraction"),
    ({"gap": float("nan")}, "gap must be a fraction"), ({"patience": 0}, "patience must be a positive integer"),
    ({"timeout": 0}, "timeout must be a positive number"), ({"timeout": float("nan")}, "timeout must be"),
    ({"name": 5}, "the workload must be a name, a Workload or a PrimFunc, got 5"), ({"seed": None}, "seed must be an integer"),
    ({"log": 5}, "log must be the path of a directory, got 5"), ({"log": b"x"}, "log must be the path of a directory, got b'x'"),
    ({"log": ""}, "log must be the path of a directory, got ''"),
    ({"target": None}, "target must be a preset (vta-de10, "), ({"target": b"vta-de10"}, "or a Target, got b'vta-de10'"),
    ({"listener": 3}, "listener must be a function that takes an event, got 3"),
], ids=str)
def test_arguments_of_tune(arguments: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(AutoschedError) as refusal:
        at.tune(**{"name": SMALL, "trials": 2, "jobs": 1, "log": tmp_path, **arguments})
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_arguments_at_their_bounds(tmp_path: Path) -> None:
    report = at.tune(SMALL, trials=np.int64(1), jobs=1, seed=0, gap=0.999, patience=1, timeout=1e-9, log=tmp_path)
    assert report.cycles and report.stop == "gap"


@pytest.mark.parametrize("name", [5, None, b"t2"])
def test_a_workload_has_a_name(name: Any) -> None:
    for what, ask in (("workload", at.workload), ("network", network)):
        with pytest.raises(BadArgumentError, match=f"the {what} must be a name, got {name!r}"):
            ask(name)
    assert at.workload(" t2 ").name == "t2" and network("t2").tasks[0][0].name == "t2"


def test_what_is_compiled_and_called(tmp_path: Path) -> None:
    with pytest.raises(AutoschedError, match="log must be the path of a directory, got 5"):
        at.compile("t2", log=5)
    with pytest.raises(AutoschedError, match="the workload must be a name, a Workload or a PrimFunc, got 5"):
        at.compile(5)
    # What is said to be run finds a schedule where it was looked for, as of the command line.
    machine = tmp_path / "a machine.json"
    machine.write_text("{}")
    for asked, run in (
        ({"name": "t2"}, "autosched tune t2"), ({"name": "t2", "target": "vta-pynq"}, "autosched tune t2 --target vta-pynq"),
        ({"name": "t2", "target": str(machine)}, f"autosched tune t2 --target '{machine}'"),
        ({"name": at.workload("t2").func}, "autosched.tune(...)"),
        ({"name": at.workload("t2").func, "target": "vta-pynq"}, "autosched.tune(..., target=...)"),
    ):
        with pytest.raises(NoScheduleError) as none:
            at.compile(**asked, log=tmp_path)
        where = f", log={str(tmp_path)!r})" if run.endswith(")") else f" --log {tmp_path}"
        assert str(none.value).endswith("; run: " + run.removesuffix(")") + where), none.value
    kernel = at.tune("dense:m=1,k=16,n=16,bias=0,tail=cast", trials=2, jobs=1, log=tmp_path).kernel()
    with pytest.raises(AutoschedError, match="data: expected int8, got lists that are no array"):
        kernel([[1, 2], [3]], np.zeros((16, 16), np.int8))
    assert kernel(np.ones((1, 16), np.int8), np.eye(16, dtype=np.int8)).tolist() == [[1] * 16]


def test_sim_says_with_its_exit_code_that_bytes_differ(tmp_path: Path, here: Here) -> None:
    data = json.loads((ROOT / "tests/data/rtl_outputs.json").read_text())
    data["programs"] = data["programs"][:2]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    assert here("sim", path, "--target", "vta-de10").returncode == Exit.OK
    output = data["programs"][1]["outputs"][0]
    output["expected"] = ("B" if output["expected"][0] == "A" else "A") + output["expected"][1:]
    path.write_text(json.dumps(data))
    done = here("sim", path, "--target", "vta-de10", "--format", "json")
    assert done.returncode == Exit.DIFFERS
    assert [p["outputs_match"] for p in json.loads(done.stdout)] == [True, False]


def test_sim_runs_on_the_machine_that_is_asked_for_or_says_why_not(tmp_path: Path, here: Here) -> None:
    """A file names the machine that it is for: longer bursts change its cycles, larger elements refuse it."""
    data = json.loads((ROOT / "tests/data/rtl_outputs.json").read_text())
    path, larger = tmp_path / "p.json", tmp_path / "larger.json"
    path.write_text(json.dumps({**data, "config": "vta-de10", "programs": data["programs"][:1]}))
    larger.write_text(json.dumps({"LOG_BLOCK": 5}))
    own, other = (here("sim", path, *words, "--format", "json") for words in ((), ("--target", "vta-pynq")))
    assert own.returncode == other.returncode == Exit.OK and own.stdout != other.stdout
    said = refused(here("sim", path, "--target", larger))
    assert "its programs are for LOG_BLOCK 4, the machine asked for has 5" in said


def test_the_pages_list_every_exit_code() -> None:
    page = (ROOT / "docs/cli.md").read_text()
    for code in Exit:
        assert re.search(rf"^\| (\d+, )?{code.value}(, \d+)? \|", page, re.M), code


def test_a_space_without_a_known_schedule_says_so(here: Here, tmp_path: Path) -> None:
    """Two elements of the accumulator hold no turned tile and another one; the machine with twice as many has schedules."""
    (tmp_path / "p.py").write_text(TURNED)
    for size, code in ((4, Exit.NO_SCHEDULE), (8, Exit.OK)):
        (tmp_path / "small.json").write_text(json.dumps({"LOG_BLOCK": 1, "LOG_INP_BUFF_SIZE": 9, "LOG_ACC_BUFF_SIZE": size}))
        done = here("space", "p.py:main", "--target", "small.json", "--sample", "64", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        said = "no schedule is known that fits its memories: the accumulator holds 2 elements, and the smallest tiles need 3: "
        assert (said in done.stderr) == (code != Exit.OK), done.stderr


TURNED = '''
from autosched import te


def main():
    x, y = (te.placeholder(s, "int8", name=n) for s, n in (((2, 5, 9, 16), "x"), ((5, 16, 9, 2), "y")))
    t = te.compute((5, 16, 9, 2), lambda a, b, c, d: x[d, a, c, b], name="t")
    wide = lambda e: e.astype("int32")
    o = te.compute((5, 16, 9, 2), lambda *i: (te.max(wide(t[i]), wide(y[i])) + 149).astype("int8"), name="o")
    return te.create_prim_func([x, y, t, o])
'''
