"""The pages under docs/ are programs: every block runs, and what it prints is what the page shows.

On a page, blocks marked ``python`` run one after another in one namespace; a block marked ``text`` that follows one directly is
its output. Blocks marked ``console`` hold ``$ autosched ...`` commands with their standard output, run in an empty directory per
page; ``$ echo $?`` shows the exit code of the command before it. ``...`` stands for anything. A page that no longer fits is
rewritten by

    python tests/e2e/test_docs.py docs/howto/named_split.md
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import inspect
import io
import itertools
import linecache
import math
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_files = itertools.count()


@dataclass(frozen=True)
class Fence:
    """A fenced block: language, text, where the text starts and ends, and whether the one before it stands directly above."""

    lang: str
    text: str
    start: int
    end: int
    adjacent: bool


def fences(page: str) -> list[Fence]:
    found = []
    last = 0
    for m in FENCE.finditer(page):
        found.append(Fence(m[1], m[2], m.start(2), m.end(2), not page[last : m.start()].strip() and last > 0))
        last = m.end()
    return found


# What differs from run to run: ids of runs, seconds.
VOLATILE = (
    (re.compile(r"\d{8}T\d{6}-\d+-\d+"), "..."),
    (re.compile(r" +\d+\.\d(?=  (?:trials|certified|gap|patience|time|exhausted)\b)"), "  ..."),
)


def plain(text: str) -> str:
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n" if text.strip() else ""


def execute(code: str, name: str, line: int, names: dict[str, Any]) -> str:
    """The standard output of a block; its source can be looked up, as the decorators of programs do."""
    file = f"<{name} {next(_files)}>"
    padded = "\n" * (line - 1) + code
    linecache.cache[file] = (len(padded), None, padded.splitlines(keepends=True), file)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(padded, file, "exec"), names)
    return plain(out.getvalue())


def commands(fence: Fence) -> Iterator[tuple[str, int, int]]:
    """(command, start and end of its shown output) of a console block."""
    starts = [m.start() for m in re.finditer(r"^\$ ", fence.text, re.M)] + [len(fence.text)]
    for begin, end in itertools.pairwise(starts):
        line = fence.text.index("\n", begin) + 1
        yield fence.text[begin + 2 : line].strip(), fence.start + line, fence.start + end


class Shell:
    """Runs ``autosched`` commands in this process, and remembers the exit code."""

    code = 0

    def run(self, command: str) -> str:
        from autosched.cli import main

        words = shlex.split(command)
        if words == ["echo", "$?"]:
            return f"{self.code}\n"
        assert words[0] == "autosched", f"a page may only run autosched, not {words[0]}"
        both = "2>&1" in words
        words = [w for w in words if w != "2>&1"]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out if both else err):
            try:
                self.code = main(words[1:])
            except SystemExit as stop:
                self.code = int(stop.code or 0)
        return plain(out.getvalue())


def outputs(page: str, name: str) -> list[tuple[int, int, str, str, str]]:
    """Everything a page shows as output: (start, end, shown, real, what made it)."""
    found = []
    names: dict[str, Any] = {"__name__": name}
    shell = Shell()
    blocks = fences(page)
    for k, fence in enumerate(blocks):
        line = page.count("\n", 0, fence.start) + 1
        if fence.lang == "python":
            real = execute(fence.text, name, line, names)
            shown = blocks[k + 1] if k + 1 < len(blocks) else None
            if shown is not None and shown.lang == "text" and shown.adjacent:
                found.append((shown.start, shown.end, shown.text, real, f"the block at line {line}"))
            else:
                found.append((fence.end + 4, fence.end + 4, "", f"\n```text\n{real}```\n" if real else "", f"line {line}"))
        elif fence.lang == "console":
            for command, start, end in commands(fence):
                found.append((start, end, page[start:end], shell.run(command), f"$ {command}"))
    return found


def same(shown: str, real: str) -> bool:
    checker = doctest.OutputChecker()
    return checker.check_output(plain(shown), plain(real), doctest.ELLIPSIS)


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("path", pages(), ids=lambda p: p.relative_to(DOCS).as_posix())
def test_page(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.schedule.primitives.tensorize import intrin

    monkeypatch.chdir(tmp_path)
    # What a page registers stays on the page.
    monkeypatch.setattr(intrin, "_INTRINS", dict(intrin._INTRINS))
    for _, _, shown, real, what in outputs(path.read_text(), path.stem):
        if not same(shown, real):
            diff = "\n".join(difflib.unified_diff(plain(shown).splitlines(), real.splitlines(), "shown", "real", lineterm=""))
            pytest.fail(f"{path.relative_to(ROOT)}: {what}; rewrite it with\n"
                        f"python tests/e2e/test_docs.py {path.relative_to(ROOT)}\n{diff}", pytrace=False)


def test_the_runner_sees_a_difference() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    ((_, _, shown, real, _),) = outputs(page, "page")
    assert not same(shown, real)
    assert same("2\n", real)


def test_a_print_that_is_not_shown_is_a_difference() -> None:
    ((_, _, shown, real, _),) = outputs("```python\nprint(7)\n```\n\nsome text\n", "page")
    assert not same(shown, real)


def anchors(page: str) -> set[str]:
    """What a page's headings are called in links."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    """Links of a page that lead to no file, or to no heading of one."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text())):
        file, _, anchor = target.partition("#")
        to = path.parent / file if file else path
        if "://" not in target and not (to.exists() and (not anchor or anchor in anchors(to.read_text()))):
            broken.append(f"{path.name}: {target}")
    return broken


def test_links_lead_somewhere(tmp_path: Path) -> None:
    assert [link for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages()) for link in broken_links(path)] == []
    page = tmp_path / "page.md"
    page.write_text("# A heading, say\n[a](#a-heading-say) [b](#a-heading) [c](page.md#c) [d](d.md) [e](https://e.org/#e)\n")
    assert broken_links(page) == ["page.md: #a-heading", "page.md: page.md#c", "page.md: d.md"]


def test_pages_of_the_bound_are_listed_and_say_what_checks_them() -> None:
    core = (DOCS / "bound.md").read_text()
    for path in sorted((DOCS / "bound").glob("*.md")):
        text = path.read_text()
        assert f"](bound/{path.name})" in core, path.name
        assert path.name == "checks.md" or re.search(r"^\*Checked by\* `tests/", text, re.M), path.name


SUM = re.compile(r"<!-- bound of (\S+) on (\S+) -->\n\n((?:\|.*\n)+)")


def added_up(table: str) -> int:
    """The sum of a table of a bound's terms, each worked out anew.

    Raises:
        ValueError: a row, or the sum, is not what it says.
    """
    total = 0
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]
    for what, how, shown in rows:
        value = int(shown.replace(" ", "").strip("*"))
        made = eval(how.strip("`"), {"ceil": math.ceil}) if how else total
        if made != value:
            raise ValueError(f"{what}: {made}, not {value}")
        total += value if how else 0
    return total


def test_the_terms_of_a_bound_add_up_to_it() -> None:
    from autosched.workloads import workload
    from space import Space

    page = (DOCS / "bound.md").read_text()
    found = SUM.findall(page)
    assert [(name, target) for name, target, _ in found] == [("resnet18.c2", "vta-de10"), ("mobilenet.d8", "vta-de10")]
    for name, target, table in found:
        bound = Space(workload(name).func, target).machine
        assert added_up(table) == bound.cycles
        # Of the other three chains the text behind the table says how long they are.
        others = page[page.index(table) + len(table) :].partition(".\n")[0].partition("`vta-de10-portable`")[0]
        shown = dict(re.findall(r"(compute|load|bus|store) (\d[\d ]*\d)", " ".join(others.split())))
        chains = {c: bound.terms[f"{c} chain"] for c in ("compute", "load", "bus", "store") if c != bound.binds}
        assert {c: int(n.replace(" ", "")) for c, n in shown.items()} == chains
    portable = Space(workload("resnet18.c2").func, "vta-de10-portable").machine.cycles
    assert f"a product for each of 12 544 vectors: {portable:,}.".replace(",", " ") in " ".join(page.split())


@pytest.mark.parametrize(("cell", "instead"), [("`2 * 3`", "`2 * 4`"), ("| 6 |", "| 7 |"), ("**7**", "**8**")])
def test_a_term_that_is_not_what_it_says_is_seen(cell: str, instead: str) -> None:
    table = "| what | as | cycles |\n|---|---|---|\n| a | `2 * 3` | 6 |\n| b | `ceil(1 / 2)` | 1 |\n| **sum** | | **7** |\n"
    assert added_up(table) == 7
    with pytest.raises(ValueError, match="not"):
        added_up(table.replace(cell, instead))


MARK = re.compile(r"(<!-- primitives of: ([\w *]+) -->\n\n)((?:\|.*\n)*)")


def with_primitives(page: str) -> str:
    """A page with its tables of primitives made anew from the docstrings; ``*`` stands for all modules not named elsewhere."""
    import autosched.schedule  # noqa: F401  it registers all families
    from autosched.schedule.kit.primitive import PRIMITIVES

    named = {word for m in MARK.finditer(page) for word in m[2].split()}

    def table(m: re.Match[str]) -> str:
        rows = ["| primitive | what it does |", "|---|---|"]
        for word in m[2].split():
            for name, p in PRIMITIVES.items():
                module = p.method.__module__.rpartition(".")[2]
                if module == word or (word == "*" and module not in named):
                    text = " ".join((inspect.getdoc(p.method) or "").partition("\n\n")[0].split())
                    rows.append(f"| `{name}` | {text.replace('``', '`').replace('|', chr(92) + '|')} |")
        return m[1] + "\n".join(rows) + "\n"

    return MARK.sub(table, page)


def test_whoever_calls_the_bound_proven_says_of_which_programs() -> None:
    words = "forms the workload's products on the GEMM and loads tensors in their own type"
    pages = {path.name: " ".join(path.read_text().replace("*", "").split()) for path in (ROOT / "README.md", *DOCS.rglob("*.md"))}
    claiming = {name for name, text in pages.items() if "proven for every program" in text}
    assert {"README.md", "tutorial.md"} <= claiming and words in pages["bound.md"]
    assert [name for name in claiming if f"proven for every program of the machine that {words}" not in pages[name].replace(
        "of this machine", "of the machine")] == []


def test_every_primitive_has_its_line() -> None:
    page = (DOCS / "primitives.md").read_text()
    from autosched.schedule import Schedule
    from autosched.schedule.kit.primitive import PRIMITIVES

    listed = re.findall(r"^\| `(\w+)` \|", page, re.M)
    hint = "rewrite it with: python tests/e2e/test_docs.py docs/primitives.md"
    assert sorted(listed) == sorted(PRIMITIVES), hint
    assert all(hasattr(Schedule, name) for name in listed)
    assert with_primitives(page) == page, hint


def test_every_command_is_on_its_page() -> None:
    from autosched.cli.commands import build_parser

    actions = [a for a in build_parser()._actions if a.dest == "command"]
    page = (DOCS / "cli.md").read_text()
    missing = [name for name in actions[0].choices or () if f"| `{name}` |" not in page]
    assert not missing, f"docs/cli.md has no row for {missing}"


def test_every_room_has_its_paragraph() -> None:
    page = (DOCS / "architecture.md").read_text()
    rooms = [p.parent for p in (ROOT / "autosched").glob("*/__init__.py")] + [ROOT / n for n in ("space", "sim", "tuning_logs")]
    missing = [name for name in (p.relative_to(ROOT).as_posix() for p in rooms) if f"`{name}/`" not in page]
    assert not missing, f"docs/architecture.md does not say what is in {missing}"
    # Of the space, where the most is decided, every file.
    files = [p.name for p in (ROOT / "space").rglob("*.py") if not p.name.startswith("_")]
    unnamed = [name for name in files if f"`{name}`" not in page]
    assert not unnamed, f"docs/architecture.md does not say what {unnamed} are for"


def test_files_that_pages_name_exist() -> None:
    missing = []
    for path in pages():
        for name in re.findall(r"`((?:autosched|space|sim|tests|tuning_logs|examples|docs)/[\w./*]*)`", path.read_text()):
            made_by_a_run = name.rstrip("/") == "tuning_logs/runs"
            if not made_by_a_run and not (ROOT / name).exists() and not list(ROOT.glob(name)):
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert not missing, missing


def rewrite(path: Path) -> bool:
    """Puts the real outputs into a page; tells whether anything changed."""
    page = path.read_text()
    new = page
    for start, end, shown, real, _ in reversed(outputs(page, path.stem)):
        if not same(shown, real):
            new = new[:start] + real + new[end:]
    new = with_primitives(new)
    path.write_text(new)
    return new != page


if __name__ == "__main__":
    import os
    import tempfile

    sys.path.insert(0, str(ROOT))
    wanted = [Path(p).resolve() for p in sys.argv[1:]] or pages()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        for one in wanted:
            print(f"{one.relative_to(ROOT)}: {'rewritten' if rewrite(one) else 'as it was'}")
