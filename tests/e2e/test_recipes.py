"""The recipes of docs/howto/recipes.md, followed literally in a copy of this repository: what they add is there, and works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "recipes.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
BLOCK = re.compile(r"^```(diff|sh)\n(.*?)^```$", re.M | re.S)
RECIPES = {m[1]: m[2] for m in SECTION.finditer(PAGE.read_text())}
# Programs and tests as they are, caches with them: nothing is compiled again that a recipe does not change.
COPIED = ("autosched", "space", "sim", "tuning_logs", "tests", "docs", "pyproject.toml")
LEFT = shutil.ignore_patterns("*.pyc.*", "*.tmp.*", "runs", "data", "golden", "peer", ".hypothesis", "notebooks", "mutation")


def changed(text: str, hunk: list[str]) -> str:
    """A file's text with one hunk applied, whose old lines stand in it exactly once."""
    old = "".join(line[1:] + "\n" for line in hunk if line[:1] in " -")
    new = "".join(line[1:] + "\n" for line in hunk if line[:1] in " +")
    assert old and text.count(old) == 1, f"these lines stand {text.count(old)} times in the file:\n{old}"
    return text.replace(old, new)


def apply(diff: str, root: Path) -> None:
    """Makes the changes of a diff without line numbers; hunks are parted by ``@@``."""
    for part in re.split(r"^--- ", diff, flags=re.M)[1:]:
        source, target, *lines = part.splitlines()
        path = root / target.removeprefix("+++ ")
        if source == "/dev/null":
            assert not path.exists() and all(line[:1] == "+" for line in lines), path
            path.write_text("".join(line[1:] + "\n" for line in lines))
            continue
        for hunk in "\n".join(lines).split("\n@@\n"):
            # A blank line of the file may have lost its one blank here.
            path.write_text(changed(path.read_text(), [line or " " for line in hunk.split("\n")]))


# What follows each other without a change in between runs in one process: each start costs more than what the command does.
TOGETHER = """
import contextlib, shlex, sys
from autosched.cli import main
for n, command in enumerate(sys.argv[1:]):
    with open(f"said{n}", "w") as said, contextlib.redirect_stdout(said):
        with contextlib.redirect_stderr(said if "2>&1" in command else sys.stderr):
            try:
                code = main(shlex.split(command.replace("2>&1", "")))
            except SystemExit as end:
                code = end.code
    print(int(code or 0))
"""


def environment(root: Path, compiled: bool) -> dict[str, str]:
    paths = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, **({} if compiled else {"NUMBA_DISABLE_JIT": "1"})}


def ours(commands: list[str], root: Path, compiled: bool) -> None:
    """Runs commands ``autosched``; in a pipe it is grep that must find something, alone the command must not fail."""
    parts = [command.removeprefix("autosched ").partition(" | ") for command in commands]
    done = subprocess.run([sys.executable, "-c", TOGETHER, *(own for own, _, _ in parts)], cwd=root, capture_output=True,
                          text=True, env=environment(root, compiled))
    assert done.returncode == 0 and "Traceback" not in done.stderr, f"$ {commands}\n{done.stdout}\n{done.stderr}"
    for n, (command, code, (_, pipe, rest)) in enumerate(zip(commands, done.stdout.split(), parts, strict=True)):
        if pipe:
            shell(f"cat said{n} | {rest}", root, compiled)
        else:
            assert code == "0", f"$ {command}\n{(root / f'said{n}').read_text()}\n{done.stderr}"


def shell(command: str, root: Path, compiled: bool) -> None:
    words = command.replace("python ", f"{sys.executable} ", 1) if command.startswith("python ") else command
    edited = root / command.split()[-1] if command.startswith("sed -i ") else None
    before = edited.read_text() if edited is not None else ""
    done = subprocess.run(["bash", "-c", words], cwd=root, capture_output=True, text=True, env=environment(root, compiled))
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    assert edited is None or edited.read_text() != before, f"$ {command}\nchanges nothing"


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("sed") is None, reason="recipes are for a shell")
def test_a_recipe_does_what_it_says(name: str, tmp_path: Path) -> None:
    for what in COPIED:
        if (ROOT / what).is_dir():
            shutil.copytree(ROOT / what, tmp_path / what, ignore=LEFT)
        else:
            shutil.copy2(ROOT / what, tmp_path / what)
    done = []
    # Kernels that a recipe changes run as they are: compiling them takes longer than all that is done with them here.
    compiled = not re.search(r"^\+\+\+ sim/_", RECIPES[name], re.M)
    for kind, text in BLOCK.findall(RECIPES[name]):
        if kind == "diff":
            apply(text, tmp_path)
        else:
            for is_ours, commands in groupby(text.splitlines(), lambda command: command.startswith("autosched ")):
                if is_ours:
                    ours(list(commands), tmp_path, compiled)
                else:
                    for command in commands:
                        shell(command, tmp_path, compiled)
        done.append(kind)
    assert set(done) == {"diff", "sh"}


def test_a_hunk_that_does_not_fit_is_no_change() -> None:
    assert changed("a\nb\nc\n", [" a", "-b", "+B"]) == "a\nB\nc\n"
    for text in ("a\nb\na\nb\n", "b\na\n", ""):
        with pytest.raises(AssertionError, match="times in the file"):
            changed(text, [" a", "-b", "+B"])


def test_every_kind_of_thing_has_a_recipe() -> None:
    assert {"A primitive", "A rule of the space", "A workload", "An ALU operation", "A target", "A command"} <= set(RECIPES)
