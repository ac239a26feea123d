"""What a person sees on a terminal of 40 to 120 columns: real commands under a pseudo-terminal, their screen as pyte draws it.

Each runs in a copy of this process: starting an interpreter is no part of what is seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyte
import pytest
from running import in_a_copy

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.search import tune

# Checks that are not in this process have tests of their own.
pytestmark = pytest.mark.usefixtures("unguarded")
ROOT = Path(__file__).resolve().parents[2]
SMALL = "dense:m=2,k=256,n=256"
LONG = "dense:m=2,k=256,n=256,bias=0,tail=cast"
WIDTHS = [40, 60, 80, 100, 120]
TALL = 200
TRIALS = 10
RUN = ("tune", SMALL, "--trials", str(TRIALS), "--jobs", "1", "--sampler", "random")


class Seen:
    """A command's run: exit code, what was written, and the screens it drew on the way.

    Args:
        width: columns of the terminal.
        args: the words of the command.
        cwd: where it runs.
        columns: what its environment says of the terminal's width.
    """

    def __init__(self, width: int, args: Sequence[str | Path], cwd: Path, columns: str | None = None) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", TALL, width, 0, 0))
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            env.pop(name, None)
        if columns is not None:
            env["COLUMNS"] = columns
        process = in_a_copy(args, (slave, slave, slave), cwd, env)
        os.close(slave)
        self.width = width
        self.screen = pyte.Screen(width, TALL)
        self.frames: list[list[str]] = []
        stream = pyte.ByteStream(self.screen)
        while True:
            try:
                data = os.read(master, 1 << 16)
            except OSError:
                break
            if not data:
                break
            # What is drawn is looked at before it is drawn over: how much one read brings is the clock's affair.
            for piece in re.split(rb"(?=\r\x1b\[)", data):
                stream.feed(piece)
                self.frames.append([line.rstrip() for line in self.screen.display])
        os.close(master)
        self.code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        self.lines = [line.rstrip() for line in self.screen.display]
        self.text = "\n".join(self.lines).strip("\n")


def autosched(width: int, *args: str | Path, cwd: Path = ROOT, columns: str | None = None) -> Seen:
    return Seen(width, args, cwd, columns)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    for name in (SMALL, LONG):
        tune(name, trials=3, jobs=1, log=directory, sampler="random")
    return directory


@pytest.fixture(scope="module")
def records(log: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(piped("best", "--log", log, "--format", "json"))
    assert {r["workload"] for r in found} == {SMALL, LONG}
    return found


def grouped(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def whole(text: str, number: str) -> bool:
    """Whether a number stands in a text with nothing cut off and nothing glued to it."""
    return re.search(rf"(?<![\d]){re.escape(number)}(?!\d)(?! \d{{3}}\b)", text) is not None


def piped(*args: str | Path) -> str:
    """Standard output of a command that writes to a pipe."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(a) for a in args]) == Exit.OK
    return out.getvalue()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The last event of the run that the next test shows on every width."""
    log = tmp_path_factory.mktemp("o")
    words = (*RUN, "--log", log, "--format", "json", "--quiet")
    events = [json.loads(line) for line in piped(*words).splitlines()]
    # Kernels that this machine has not compiled yet are a remark of their own.
    said = [e["event"] for e in events if e["event"] != "remark"]
    assert said == ["run", "task", *["trial"] * TRIALS, "task_finished", "finished"]
    found: dict[str, Any] = events[-1]
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_is_shown_without_cutting_a_number(width: int, outcome: dict[str, Any], tmp_path: Path) -> None:
    seen = autosched(width, *RUN, "--log", tmp_path)
    assert seen.code == Exit.OK, seen.text
    for key in ("cycles", "bound", "default_cycles"):
        assert whole(seen.text, grouped(outcome[key])), (key, seen.text)
    assert whole(seen.text, f"{100 * outcome['gap']:.2f} %"), seen.text
    for title in ("workload", "cycles", "bound", "gap", "first draft", "trials", "from log", "failed", "seconds", "stopped by",
                  "checked", "best schedule:"):
        assert title in seen.text, seen.text
    assert SMALL in seen.text and "bit-equal" in seen.text and "…" not in seen.text
    panels = [frame for frame in seen.frames if any(f"/{TRIALS} trials" in line for line in frame)]
    assert panels, seen.frames[:3]
    bests = []
    for frame in panels:
        shown = [line for line in frame if line]
        # Title, pace, figures, bars, schedule: nothing was wrapped, and nothing is left over from the panel before.
        assert len(shown) <= 5 and sum(f"/{TRIALS} trials" in line for line in shown) == 1, shown
        assert all(len(line) < width for line in shown)
        for line in shown:
            bests += [int(best.replace(" ", "")) for best in re.findall(r"best ([\d ]+) cycles", line)]
    # Which of the trials a panel was drawn after is the clock's affair, but for the last; a number that is cut is below them all.
    assert any(f"{TRIALS}/{TRIALS} trials" in line for line in panels[-1]), panels[-1]
    assert bests[-1] == outcome["cycles"] == min(bests) and bests == sorted(bests, reverse=True), bests
    assert f"/{TRIALS} trials" not in seen.text, "the panel is still there"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_best_of_a_log_has_every_number_in_full(width: int, log: Path, records: list[dict[str, Any]]) -> None:
    seen = autosched(width, "best", "--log", log)
    assert seen.code == Exit.OK
    joined = re.sub(r"\s+", "", seen.text)
    for record in records:
        assert whole(seen.text, grouped(record["cycles"])), seen.text
        assert whole(seen.text, grouped(record["bound"])), seen.text
        assert whole(seen.text, f"{100 * record['gap']:.2f} %"), seen.text
        assert record["workload"] in joined and record["run"] in joined


@pytest.mark.parametrize("columns", ["0", "1", "-5", "wide"])
def test_columns_that_are_none_hide_no_number(columns: str, log: Path, records: list[dict[str, Any]]) -> None:
    seen = autosched(80, "best", "--log", log, columns=columns)
    assert seen.code == Exit.OK
    assert all(whole(seen.text, grouped(r[key])) for r in records for key in ("cycles", "bound")), seen.text


@pytest.mark.parametrize(("width", "columns"), [(80, "0"), (1, None)])
def test_a_run_and_its_account_end_well_where_there_is_said_to_be_no_room(
    width: int, columns: str | None, log: Path, tmp_path: Path
) -> None:
    for words in ((*RUN, "--log", tmp_path), ("explain", SMALL, "--log", log)):
        assert autosched(width, *words, columns=columns).code == Exit.OK


@pytest.mark.parametrize("args", [("space", SMALL, "--top", "2"), ("apply", SMALL, "--log", "LOG")], ids=lambda a: a[0])
def test_sentences_break_between_words(args: tuple[str, ...], log: Path) -> None:
    words = [str(log) if a == "LOG" else a for a in args]
    wide, seen = piped(*words), autosched(40, *words)
    numbers = re.findall(r"\d{1,3}(?: \d{3})+(?= cycles)", wide)
    assert numbers
    for number in numbers:
        assert whole(seen.text, number), seen.text
    assert wide.split("\n")[0].split() == seen.text.split("\n\n")[0].split()[:len(wide.split("\n")[0].split())]


@pytest.mark.parametrize("width", [40, 80])
def test_a_chart_fits_the_terminal(width: int, log: Path) -> None:
    seen = autosched(width, "show", SMALL, "--log", log, "--as", "gantt")
    rows = [line for line in seen.lines if line.endswith("|") and "|" in line[:-1]]
    # Four units, each on a line of its own; a line that wraps would have only one bar on it.
    assert [row.split()[0] for row in rows] == ["FETCH", "LOAD", "COMPUTE", "STORE"], seen.text
    assert {len(row) for row in rows} == {width}
    # What the signs mean breaks between two of them.
    below = [re.split(" {2,}", line) for line in seen.lines[seen.lines.index(rows[-1]) + 1 :] if line]
    legend = piped("show", SMALL, "--log", log, "--as", "gantt").strip().splitlines()[-1].split("  ")
    # Of whatever is most of a column's cycles, which differs with their number.
    assert all(re.fullmatch(r"\S \w+( \w+)*", sign) for line in below for sign in line), below
    assert set(legend) & {sign for line in below for sign in line} and (len(below) > 1 or width == 80)


@pytest.mark.slow
def test_a_network_has_a_line_per_layer(tmp_path: Path) -> None:
    seen = autosched(80, "tune", "resnet18", "--trials", "1", "--jobs", "1", "--log", tmp_path, "--cold")
    assert seen.code == Exit.OK
    late = [frame for frame in seen.frames if any("/10 layers" in line for line in frame)][-1]
    for layer in range(2, 12):
        assert sum(bool(re.match(rf"resnet18\.c{layer}\b", line)) for line in late) == 1, late
    assert all(len(line) < 80 for line in late)
    for layer in range(2, 12):
        assert re.search(rf"^resnet18\.c{layer} x?\d? +", seen.text, re.M)
    total = next(line for line in seen.lines if line.startswith("resnet18 "))
    assert re.search(r"\d{1,3}( \d{3}){2}", total), seen.text


def test_the_panel_of_a_network() -> None:
    from autosched.cli.live import Progress, lines
    from autosched.search.events import RunStarted, TaskStarted, TrialEvent

    progress = Progress()
    layers = tuple((f"net.c{k}", 1) for k in range(3))
    progress.take(RunStarted("net", "m", layers, 4, 1, 0, "random", "log", 0))
    for k in range(2):
        progress.take(TaskStarted(f"net.c{k}", k, 4, 100, 80, 50, "scan", 9))
        for t, cycles in enumerate((2_000_000, 1_160_000)):
            progress.take(TrialEvent(f"net.c{k}", t, 4, cycles, cycles, 100, 1_000_000, t == 1, 1.0, "tile", "scan"))
    assert list(lines(progress, 100, 2.0)) == [
        "net  on m  0/3 layers", "2.0 s  4 s left  1.0 simulations/s  2 from the log",
        "net.c0  2/4  1 160 000  16.00 %  0.00 % of peak  paused  █▁",
        "net.c1  2/4  1 160 000  16.00 %  0.00 % of peak  running  █▁",
        "net.c2  waiting"]
    progress.take(TrialEvent("net.c0", 2, 4, 1_160_000, 1_160_000, 100, 1_000_000, False, 1.0, "tile", "scan"))
    assert [line.split("  ")[5] for line in list(lines(progress, 100, 2.0))[2:4]] == ["running", "paused"]
    for width in range(20, 100):
        shown = list(lines(progress, width, 2.0))
        assert all(len(line) <= width for line in shown) and "1 160 000" in shown[2] and "1 160 000" in shown[3]


def test_a_terminal_without_unicode_gets_no_bars(tmp_path: Path) -> None:
    from autosched.cli.live import BARS, Progress, lines
    from autosched.search.events import RunStarted, TaskStarted, TrialEvent

    progress = Progress(["3 trials"])
    progress.take(RunStarted("w", "m", (("w", 1),), 3, 1, 0, "random", "log", 0))
    progress.take(TaskStarted("w", 0, 3, 100, 80, 50, "scan", 9))
    for k, cycles in enumerate((200, 160, 100)):
        progress.take(TrialEvent("w", k, 3, cycles, cycles, 100, 80, False, 1.0, "tile", "scan"))
    with_bars, without = list(lines(progress, 79, 2.0)), list(lines(progress, 79, 2.0, unicode=False))
    assert with_bars == ["w  on m  3/3 trials", "2.0 s  0 s left  1.5 simulations/s  stops at 3 trials",
                         "best 100 cycles  gap 25.00 %  50.00 % of peak  bound 80", "█▅▁", "tile"]
    assert [line for line in with_bars if not set(line) & set(BARS)] == without
    assert list(lines(progress, 30, 2.0))[:3] == ["w  on m  3/3 trials", "2.0 s  0 s left", "best 100 cycles  gap 25.00 %"]


@pytest.mark.parametrize(("term", "drawn"), [("xterm", True), ("dumb", False)])
def test_a_terminal_that_draws_nothing_anew_gets_lines(term: str, drawn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.cli.commands import build_parser
    from autosched.cli.live import Panel
    from autosched.cli.tune_command import _listening

    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", term)
    for name in ("TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with os.fdopen(master, "rb"), os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        words = ["tune", SMALL]
        assert isinstance(_listening(build_parser(words).parse_args(words)), Panel) == drawn
