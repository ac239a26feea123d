"""A user's file that never ends, takes all memory or kills its process costs only itself: one line, and soon."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("body", "more", "said"), [
    ("while True: pass", ["--timeout", "2"], "f is not loaded after 2 seconds"),
    ("x = bytearray(1 << 45)", [], "f takes more memory than a file may"),
    ("import os; os.kill(os.getpid(), 9)", [], "f ends its process by signal 9"),
])
def test_a_harmful_file_is_one_line(body: str, more: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"def f():\n    {body}\n")
    name = str(tmp_path / "mine.py") + ":f"
    args = [sys.executable, "-m", "autosched", "tune", name, "--trials", "4", "--log", str(tmp_path), *more]
    done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_file_that_behaves_is_loaded(tmp_path: Path) -> None:
    name = str(ROOT / "examples/kernels.py") + ":relu_add"
    args = [sys.executable, "-m", "autosched", "tune", name, "--trials", "2", "--jobs", "1", "--log", str(tmp_path)]
    done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
