"""The first run on a machine, and one that may write nowhere: on a copy of the packages that numba can keep nothing in."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("autosched", "space", "sim", "tuning_logs")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages in a folder in which no cache can be made: its place is taken (permissions do not stop an administrator)."""
    home = tmp_path_factory.mktemp("installed")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, home / package, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    for folder in {path.parent for path in home.rglob("*.py")}:
        (folder / "__pycache__").write_text("")
    return home


# Most kernels stay Python: what becomes of compiled code is the same for each, and compiling all takes twelve seconds.
PLAIN = "\n\ndef lean(function: F) -> F:\n    return function\n"


@pytest.fixture(scope="module")
def with_few_kernels(locked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, of whose kernels those are left that every simulation needs and that are small."""
    home = tmp_path_factory.mktemp("few") / "kernels"
    shutil.copytree(locked, home)
    with (home / "sim" / "_kernels.py").open("a") as file:
        file.write(PLAIN)
    return home


def run(locked: Path, cwd: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    temporary = cwd / "temporary"
    temporary.mkdir(exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH")}
    env |= {"PYTHONPATH": str(locked), "HOME": "/dev/null/nobody", "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-m", "autosched", *map(str, args)], cwd=cwd, env=env, capture_output=True, text=True,
                          timeout=1200, check=False)


def test_a_working_folder_that_cannot_be_written_is_said_before_anything_is_compiled(locked: Path, tmp_path: Path) -> None:
    (tmp_path / "tuning_logs").write_text("in the way\n")
    done = run(locked, tmp_path, "tune", "t2", "--trials", "4")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines() == [
        "autosched: cannot write a log in tuning_logs/runs: Not a directory; name another directory with --log"
    ]


def test_nowhere_to_keep_kernels_is_one_line_and_works(with_few_kernels: Path, tmp_path: Path) -> None:
    # The slow twin below has all of them, and workers.
    words = ("sim", ROOT / "tests" / "data" / "rtl_cycles.json", "--only", "unit000", "--format", "json")
    done = run(with_few_kernels, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (said,) = done.stderr.splitlines()
    assert "compiling" in said and "name one in NUMBA_CACHE_DIR" in said
    assert [r["name"] for r in json.loads(done.stdout)] == ["unit000"]
    assert not list((tmp_path / "temporary").glob("autosched-*"))


@pytest.mark.slow
def test_nowhere_to_keep_kernels_is_one_line_for_all_workers(locked: Path, tmp_path: Path) -> None:
    words = ("tune", "t2", "--trials", "4", "--jobs", "2", "--sampler", "random", "--format", "json")
    done = run(locked, tmp_path, *words, "--log", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "compiling" in line]
    assert len(said) == 1 and "name one in NUMBA_CACHE_DIR" in said[0], done.stderr
    assert done.stderr.splitlines().index(said[0]) < next(k for k, x in enumerate(done.stderr.splitlines()) if "4/4 trials" in x)
    finished = [json.loads(line) for line in done.stdout.splitlines()][-1]
    assert "seconds" in json.dumps(finished)
    assert not list((tmp_path / "temporary").glob("autosched-*"))


def test_a_later_run_says_nothing_of_it(tmp_path: Path, here: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    words = ["tune", "t2", "--trials", "4", "--sampler", "random", "--log", str(tmp_path)]
    assert here(*words, "--jobs", "1").returncode == 0
    args = [sys.executable, "-m", "autosched", *words, "--jobs", "2"]
    done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    assert "compiling" not in done.stderr
