"""The README is true: its example prints what it says, its files run as it says, and what ships is as good as its table."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tuning_logs
from autosched.measure import gap
from autosched.records import BestRecord, Log
from autosched.target import get_target
from autosched.workloads import workload
from space import Space

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^    ((?:python|autosched)\b[^\n]*\bexamples/[^\n]*)$", README, re.M)
ROWS = re.findall(
    r"^\| (\S+)(?: \([\dx]+\))? \| ([\d ]+) \| ([\d ]+) \| ([-+]?[\d.]+ %) \| ([\d ]+) \| ([\d.]+ %) \|$", README, re.M)


def shipped(name: str) -> BestRecord:
    path = tuning_logs.shipped("vta-de10")
    assert path is not None
    found = Log(path.parent, (path,)).bests(workload(name).key, get_target("vta-de10").key())
    assert found
    return found[0]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_runs_as_the_readme_says(
    command: str, tmp_path: Path, here: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    words = shlex.split(command)
    if words[0] == "autosched":
        done = here(*words[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown = done.stdout
    else:
        # As a script of its own name and words, in its folder; what it raises is the test's failure.
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", words[1:])
        runpy.run_path(words[1], run_name="__main__")
        shown = capsys.readouterr().out
    assert shown.strip()


def test_every_example_is_in_the_readme() -> None:
    assert len(COMMANDS) == 4
    for path in (ROOT / "examples").glob("*.py"):
        # One that needs more than autosched says so; its tests are those of its room.
        assert any(path.name in command for command in COMMANDS) or "Needs " in path.read_text(), path.name


def test_the_example_of_the_readme_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    said = re.findall(r"^print\(.*\) +# (.*)$", block, re.M)
    assert out.getvalue().splitlines() == said and len(said) == 1


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0])
def test_what_ships_is_as_good_as_the_table(row: tuple[str, ...]) -> None:
    name, theirs, ours, difference, bound, distance = row
    tvm, cycles, machine = (int(text.replace(" ", "")) for text in (theirs, ours, bound))
    record = shipped(name)
    assert record.verified and record.cycles <= cycles
    assert difference == f"{100 * (cycles / tvm - 1):+.1f} %"
    assert machine == Space(workload(name).func, "vta-de10").machine_bound()
    found = gap(cycles, machine)
    assert found is not None and distance == f"{100 * found:.2f} %"


def test_the_table_is_read() -> None:
    assert [row[0] for row in ROWS][:2] == ["resnet18.c2", "resnet18.c5"] and len(ROWS) == 7
