"""A user's file that never ends, takes all memory or kills its process costs only itself: one line, and soon."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import of_a_copy, wait_for

from autosched.workloads import workload


@pytest.mark.parametrize(("body", "more", "said"), [
    ("while True: pass", ["--timeout", "2"], "f is not loaded after 2 seconds"),
    ("x = bytearray(1 << 45)", [], "f takes more memory than a file may"),
    ("import os; os.kill(os.getpid(), 9)", [], "f ends its process by signal 9"),
    ("import os; os._exit(0)", [], "f ends its process with code 0"),
    ("import sys; sys.stdout.close(); print(1)", [], "mine.py:2: ValueError: I/O operation on closed file"),
    ("import os; [os.write(n, b'{') for n in range(3, 9) if os.path.exists(f'/proc/self/fd/{n}')]", [],
     "f gives an answer that cannot be read"),
])
def test_a_harmful_file_is_one_line(body: str, more: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"def f():\n    {body}\n")
    name = str(tmp_path / "mine.py") + ":f"
    code, _, err = of_a_copy(["tune", name, "--trials", "4", "--jobs", "1", "--log", tmp_path, *more], tmp_path)
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1, err


def test_what_a_file_starts_and_leaves_ends_with_it(tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    text = "import pathlib, subprocess, sys\nleft = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    text += "pathlib.Path(__file__).with_name('left').write_text(str(left.pid))\nf = 1\n"
    (tmp_path / "mine.py").write_text(text)
    assert command("space", str(tmp_path / "mine.py") + ":f")[0] == 2
    left = Path("/proc") / (tmp_path / "left").read_text() / "stat"
    wait_for(lambda: not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z")


def test_a_file_that_asks_for_its_own_program_does_not_do_so_for_ever(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    file = tmp_path / "mine.py"
    asks = "import autosched as at\n{}if {}:\n    at.workload(__file__ + ':f')\n"
    file.write_text(asks.format(PROGRAM, "True"))
    code, _, err = command("space", f"{file}:f")
    said = f"autosched: {file}:5: {file} asks for f while it is loaded for it: put what uses its programs below"
    assert code == 2 and err == f"{said} `if __name__ == '__main__':`\n", err
    # What it says helps, and so does asking for another of its programs.
    file.write_text(asks.format(PROGRAM, "__name__ == '__main__'"))
    assert command("space", f"{file}:f")[0] == 0
    file.write_text(f"import autosched as at\n{PROGRAM}\ndef g():\n    return at.workload(__file__ + ':f').func\n")
    assert command("space", f"{file}:g")[0] == 0


PROGRAM = "from autosched.workloads import workload\nf = workload('dense:m=2,k=64,n=96').func\n"


def test_a_copy_that_a_file_makes_of_its_process_says_nothing(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "mine.py").write_text(f"import os\nif (copy := os.fork()):\n    os.waitpid(copy, 0)\n{PROGRAM}")
    code, out, err = command("space", str(tmp_path / "mine.py") + ":f")
    assert code == 0 and "schedules, none faster than" in out and not err


def test_a_warning_of_a_file_is_one_line_that_steers_no_terminal(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "mine.py").write_text(f"import warnings\n{PROGRAM}warnings.warn('over\\nthere \\x1b[31m')\n")
    code, _, err = command("space", str(tmp_path / "mine.py") + ":f")
    assert code == 0 and err == "autosched: over there \\x1b[31m\n"


FICKLE = """
import os, pathlib
from autosched.workloads import workload
mark = pathlib.Path(__file__).with_name("mark")
mark.write_text(mark.read_text() + "x" if mark.exists() else "x")
if len(mark.read_text()) > 1:
    os._exit(7)
print("noise")
os.write(1, b"more\\n")
f = workload("dense:m=2,k=64,n=96").func
"""


def test_a_file_runs_once_and_not_in_this_process(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    """What it does the second time would end the run."""
    (tmp_path / "mine.py").write_text(FICKLE)
    name = str(tmp_path / "mine.py") + ":f"
    code, out, err = command("tune", name, "--trials", "2", "--jobs", "1", "--sampler", "random", "--log", str(tmp_path))
    assert code == 0 and "bit-equal" in out and "noise" not in out and "noise" in err and "more" in err, err
    assert (tmp_path / "mark").read_text() == "x"
    # Nothing of it is left in this process, and its program is the one that has a name.
    assert not [m for m in sys.modules if m.startswith("_autosched_user_mine")]
    assert workload("dense:m=2,k=64,n=96").key in next(tmp_path.glob("*.jsonl")).read_text()
