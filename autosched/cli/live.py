"""What ``tune`` shows while it runs: a panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.text import Text

from autosched.cli.tables import Screen, number, percent
from autosched.errors import shortened
from autosched.measure import gap
from autosched.search.events import Event, Listener, Remark, RunStarted, TaskFinished, TaskStarted, TrialEvent

if TYPE_CHECKING:
    from autosched.search import TuneReport

BARS = "▁▂▃▄▅▆▇█"
CHART = 24  # columns of a sparkline
REFRESH = 5.0  # per second


@dataclass
class Task:
    """What is known of one workload of the run."""

    name: str
    multiplicity: int
    started: TaskStarted | None = None
    last: TrialEvent | None = None
    report: TuneReport | None = None
    simulated: int = 0
    from_log: int = 0
    bests: list[int] = field(default_factory=list)

    @property
    def trials(self) -> int:
        """Trials done."""
        return self.simulated + self.from_log


class Progress:
    """What events said so far, and how much of the run is left.

    Args:
        rules: the stop rules that the user set, in words.
    """

    def __init__(self, rules: Sequence[str] = ()) -> None:
        self.rules = tuple(rules)
        self.begun = time.monotonic()
        self.name, self.target = "", ""
        self.limit = 0
        self.remark = ""
        self.tasks: list[Task] = []
        self.current: Task | None = None

    def take(self, event: Event) -> None:
        """Adds an event."""
        if isinstance(event, RunStarted):
            self.name, self.target, self.limit = event.name, event.target, event.trials
            self.tasks = [Task(name, times) for name, times in event.tasks]
        elif isinstance(event, Remark):
            self.remark = event.text
        elif isinstance(event, TaskStarted):
            self.current = self.tasks[event.number]
            self.current.started = event
            self.remark = ""
        elif isinstance(event, TrialEvent) and self.current is not None:
            # Tasks of a network take turns.
            task = self.current = self._named(event.workload)
            task.last = event
            task.from_log += event.from_log
            task.simulated += not event.from_log
            if event.best is not None:
                task.bests.append(event.best)
        elif isinstance(event, TaskFinished) and self.current is not None:
            self._named(event.report.workload).report = event.report

    def _named(self, workload: str) -> Task:
        return next((t for t in self.tasks if t.name == workload), self.tasks[-1])

    def seconds_left(self, elapsed: float) -> float | None:
        """Seconds until every task has had all its trials, at the pace so far; None before the first trial."""
        done = sum(t.trials for t in self.tasks)
        if not done:
            return None
        left = sum(self.limit - t.trials for t in self.tasks if t.report is None)
        return elapsed / done * left


def sparkline(values: Sequence[int], width: int = CHART) -> str:
    """The course of the best cycles as bars, the first value highest; empty for fewer than two values."""
    if len(values) < 2:
        return ""
    picked = [values[round(k * (len(values) - 1) / (width - 1))] for k in range(width)] if len(values) > width else list(values)
    low, span = min(picked), max(picked) - min(picked)
    return "".join(BARS[round((v - low) / span * (len(BARS) - 1))] if span else BARS[0] for v in picked)


def fitting(fields: Sequence[tuple[int, str]], width: int) -> str:
    """Fields side by side, as many as fit: the highest ranks go first, none is cut.

    Args:
        fields: (rank, text); empty texts are left out.
        width: columns.
    """
    kept = [f for f in fields if f[1]]
    while len(kept) > 1 and cell_len("  ".join(text for _, text in kept)) > width:
        kept.remove(max(kept, key=lambda f: f[0]))
    text = "  ".join(text for _, text in kept)
    return shortened(text, width)


def lines(progress: Progress, width: int, elapsed: float, unicode: bool = True) -> Iterator[str]:
    """The panel, line by line; none is longer than ``width``.

    Args:
        progress: what is known.
        width: columns of the terminal.
        elapsed: seconds since the run began.
        unicode: whether bars can be shown.
    """
    clock = f"{elapsed:.1f} s"
    if not progress.tasks or progress.current is None:
        yield fitting([(1, progress.remark or "starting: loading kernels and workers"), (2, clock)], width)
        return
    simulated, known = sum(t.simulated for t in progress.tasks), sum(t.from_log for t in progress.tasks)
    left = progress.seconds_left(elapsed)
    pace = [(3, "" if left is None else f"{left:.0f} s left"),
            (4, f"{simulated / elapsed:.1f} simulations/s" if elapsed > 0 and simulated else ""),
            (5, f"{known} from the log" if known else ""), (6, "stops at " + ", ".join(progress.rules) if progress.rules else "")]
    task = progress.current
    if len(progress.tasks) == 1:
        yield fitting([(1, task.name), (5, f"on {progress.target}"), (2, f"{task.trials}/{progress.limit} trials")], width)
    else:
        done = sum(t.report is not None for t in progress.tasks)
        yield fitting([(1, progress.name), (5, f"on {progress.target}"), (2, f"{done}/{len(progress.tasks)} layers")], width)
    yield fitting([(1, clock), *pace], width)
    if len(progress.tasks) == 1:
        yield fitting(_figures(task), width)
        chart = sparkline(task.bests, min(CHART, width)) if unicode else ""
        if chart:
            yield chart
        if task.last is not None and task.last.explain:
            yield shortened(task.last.explain, width)
    else:
        names = max(cell_len(t.name) for t in progress.tasks)
        for t in progress.tasks:
            yield fitting([(0, t.name.ljust(names)), *_layer(t, progress.limit, unicode, t is task)], width)
    if progress.remark:
        yield shortened(progress.remark, width)


def _figures(task: Task) -> list[tuple[int, str]]:
    best = task.bests[-1] if task.bests else None
    if best is None or task.started is None or task.last is None:
        return [(1, "nothing measured yet"), (2, "looking for the first schedules")]
    distance = gap(best, task.last.machine_bound)
    peak = percent(task.started.peak / best) if task.started.peak else ""
    return [(1, f"best {number(best)} cycles"), (2, f"gap {percent(distance)}"), (3, peak and f"{peak} of peak"),
            (4, f"bound {number(task.last.machine_bound)}")]


def _layer(task: Task, limit: int, unicode: bool, current: bool) -> list[tuple[int, str]]:
    if task.started is None:
        return [(1, "waiting")]
    best = task.bests[-1] if task.bests else None
    chart = sparkline(task.bests, 8) if unicode else ""
    peak = percent(task.started.peak / best) if task.started.peak and best else ""
    bound = task.last.machine_bound if task.last else task.started.machine_bound
    return [(3, f"{task.trials:>{len(str(limit))}}/{limit}"), (1, number(best).rjust(9)), (2, percent(gap(best, bound)).rjust(7)),
            (5, peak and f"{peak} of peak"),
            (4, task.report.stop if task.report else "running" if current else "paused"), (6, chart)]


def drawable() -> bool:
    """Whether standard error is a terminal on which a panel can be drawn anew; a dumb one would show none of it."""
    return sys.stderr.isatty() and Screen(stderr=True).is_interactive


class Panel:
    """Shows the progress on standard error; it disappears when the run ends.

    Args:
        rules: the stop rules that the user set, in words.
        also: another listener.
    """

    def __init__(self, rules: Sequence[str] = (), also: Listener | None = None) -> None:
        self.progress, self.also = Progress(rules), also
        self.console = Screen(stderr=True, highlight=False)
        self.live = Live(console=self.console, get_renderable=self._render, refresh_per_second=REFRESH, transient=True,
                         redirect_stdout=False, redirect_stderr=False)

    def _render(self) -> Group:
        width = self.console.width - 1
        elapsed = time.monotonic() - self.progress.begun
        unicode = self.console.encoding.lower().startswith("utf")
        return Group(*(Text(line, no_wrap=True, overflow="crop") for line in lines(self.progress, width, elapsed, unicode)))

    def __enter__(self) -> Panel:
        self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        self.progress.take(event)
        if self.also is not None:
            self.also(event)


class Lines:
    """Plain lines on standard error: one per better schedule, one per 16 trials and one at the end of a task.

    Args:
        also: another listener.
    """

    def __init__(self, also: Listener | None = None) -> None:
        self.also = also
        self.best: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Remark):
            print(f"autosched: {event.text}", file=sys.stderr, flush=True)
        elif isinstance(event, TaskStarted):
            self.best = None
        elif isinstance(event, TrialEvent):
            done = event.trial + 1
            if event.best != self.best or done == event.trials or done % 16 == 0:
                print(f"{event.workload}  {done}/{event.trials} trials  {event.seconds:.1f} s  best {number(event.best)} cycles, "
                      f"{percent(event.gap)} above the bound  {event.explain}", file=sys.stderr, flush=True)
            self.best = event.best
        if self.also is not None:
            self.also(event)
