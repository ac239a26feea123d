"""What a command writes: looked at before there is anything to write, never what the command reads, never two results in one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.cli.exit_codes import Exit

pytestmark = pytest.mark.usefixtures("brief", "unguarded")
D = "dense:m=2,k=64,n=16,tail=cast,bias=0"
Here = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that are there; none of them is read before the outputs are looked at."""
    for name in ("p.json", "m.json", "q.onnx", "cal.npz", "x.npy", "k.py", "net"):
        (tmp_path / name).write_text(f"contents of {name}")
    (tmp_path / "link").symlink_to("p.json")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.jsonl").write_text("")
    return tmp_path


def state(folder: Path) -> dict[str, str]:
    return {str(p): p.read_text() if p.is_file() else "link" * p.is_symlink() for p in sorted(folder.rglob("*"))}


OWN = "--output and the workload are one file"
REFUSED = [
    ("sim p.json --timeline p.json", "cannot write p.json: --timeline and the program file are one file"),
    ("sim p.json --timeline ./link", "--timeline and the program file are one file"),
    ("sim link --timeline p.json --format json", "--timeline and the program file are one file"),
    ("sim p.json --target m.json --timeline m.json", "--timeline and --target are one file"),
    ("sim p.json --timeline none/t.json", "cannot write none/t.json: none is no directory"),
    ("quantize q.onnx --calibrate cal.npz -o q.onnx", "--output and the network are one file"),
    ("quantize q.onnx --calibrate cal.npz -o cal.npz", "--output and --calibrate are one file"),
    ("run q.onnx --save q.onnx", "--save and the network are one file"),
    ("run net --output net", "--output and the network are one file"),
    ("run q.onnx --input x.npy -o x.npy", "--output and --input are one file"),
    ("run q.onnx --input image=x.npy -o x.npy", "--output and --input are one file"),
    ("run q.onnx -o o.npy --save ./o.npy", "cannot write o.npy: --output and --save are one file"),
    (f"export {D} --target m.json -o m.json", "cannot write m.json: --output and --target are one file"),
    ("export k.py:main -o k.py", OWN), ("export q.onnx -o ./q.onnx", OWN), ("report q.onnx -o q.onnx", OWN),
    ("export t2 -o loop", "cannot write loop: it is a link that leads to itself"),
    ("export t2 --log log -o log/a.jsonl", "cannot write log/a.jsonl: it is a file of the log"),
    ("report log -o log/a.jsonl", "it is a file of the log"),
    ("report t2 -o none/r.html", "cannot write none/r.html: none is no directory"),
    ("report t2 --target m.json -o m.json", "--output and --target are one file"),
    ("apply t2 --input data=x.npy --output x.npy", "--output and --input are one file"),
    ("apply t2 --output none/y.npy", "cannot write none/y.npy: none is no directory"),
    ("apply t2 --output loop", "cannot write loop: it is a link that leads to itself"),
    ("db export --target m.json -o m.json", "--output and --target are one file"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_a_command_reads_is_not_written(words: str, said: str, folder: Path, here: Here) -> None:
    before = state(folder)
    done = here(*words.split(), cwd=folder)
    assert done.returncode == Exit.BAD_INPUT and done.stdout == "" and done.stderr.count("\n") == 1, done
    assert said in done.stderr and state(folder) == before


def test_what_it_does_not_read_is(tmp_path: Path, here: Here) -> None:
    """Results of before are replaced, also those that are called as a workload or a target, and through a link."""
    assert here("tune", D, "--trials", "2", "--jobs", "1", "--log", "log", "--quiet", cwd=tmp_path).returncode == Exit.OK
    (tmp_path / "real.json").write_text("before")
    (tmp_path / "link").symlink_to("real.json")
    for name in ("vta-de10", D, "link"):
        for _ in range(2):
            assert here("export", D, "--log", "log", "-o", name, cwd=tmp_path).returncode == Exit.OK
    assert (tmp_path / "link").is_symlink() and len(json.loads((tmp_path / "real.json").read_text())["programs"]) == 1
    for _ in range(2):
        done = here("sim", "link", "--timeline", "t.json", cwd=tmp_path)
        assert done.returncode == Exit.OK and json.loads((tmp_path / "t.json").read_text())
    assert here("sim", "link", "--timeline", "/dev/null", cwd=tmp_path).returncode == Exit.OK
    for _ in range(2):
        assert here("apply", D, "--log", "log", "--output", "y.npy", cwd=tmp_path).returncode == Exit.OK
    assert np.load(tmp_path / "y.npy").dtype == np.int8


TWO = """from autosched.script import T

@T.prim_func
def main(small: T.Buffer((16,), "int8"), X: T.Buffer((4, 16), "int8"), Y: T.Buffer((4, 16), "int32"),
         wide: T.Buffer((4, 16), "int32")):
    for j in T.grid(16):
        with T.block("small"):
            vj = T.axis.remap("S", [j])
            small[vj] = T.Cast("int8", T.max(T.Cast("int32", X[0, vj]), 0))
    for i, j in T.grid(4, 16):
        with T.block("wide"):
            vi, vj = T.axis.remap("SS", [i, j])
            wide[vi, vj] = Y[vi, vj] + 1
"""


def test_apply_takes_results_of_several_shapes_and_types_wherever_they_stand(tmp_path: Path, here: Here) -> None:
    (tmp_path / "two.py").write_text(TWO)
    log = ("two.py:main", "--log", "log")
    assert here("tune", *log, "--trials", "1", "--jobs", "1", "--quiet", cwd=tmp_path).returncode == Exit.OK
    y = np.arange(64, dtype=np.int32).reshape(4, 16)
    np.save(tmp_path / "given.npy", y)
    done = here("apply", *log, "--input", "Y=given.npy", "--output", "results.npz", cwd=tmp_path)
    assert done.returncode == Exit.OK and "outputs small int8[16], wide int32[4, 16], bit-equal" in done.stdout
    held = np.load(tmp_path / "results.npz")
    assert {name: held[name].dtype for name in held.files} == {"small": np.int8, "wide": np.int32}
    assert np.array_equal(held["wide"], y + 1)
    told = json.loads(here("apply", *log, "--format", "json", cwd=tmp_path).stdout)
    assert told["outputs"] == {"small": {"dtype": "int8", "shape": [16]}, "wide": {"dtype": "int32", "shape": [4, 16]}}
    assert (told["dtype"], told["bit_equal"]) == (None, True)
    done = here("apply", *log, "--output", "results.npy", cwd=tmp_path)
    assert done.returncode == Exit.BAD_INPUT and "2 outputs need an .npz file, not results.npy" in done.stderr
    assert not (tmp_path / "results.npy").exists()
