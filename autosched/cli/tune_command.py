"""``autosched tune``: search, with one live line, then a summary."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from dataclasses import fields
from types import FrameType, TracebackType
from typing import Any

from autosched.cli.exit_codes import Exit
from autosched.cli.options import Commands, add_format, add_log, add_target, fraction, positive, seconds, seed
from autosched.cli.tables import number, percent, print_json, print_table
from autosched.search.result import NetworkReport, TrialEvent, TuneReport


def register(commands: Commands) -> None:
    """Adds the command."""
    p = commands.add_parser("tune")
    p.add_argument("workload", help="e.g. resnet18.c8, resnet18, dense:m=1,k=1024,n=1024, kernels.py:matmul")
    add_target(p)
    p.add_argument("--trials", type=positive, default=64, metavar="N", help="distinct points per workload (default 64)")
    p.add_argument("--jobs", type=positive, metavar="N", help="worker processes (default: one per core)")
    p.add_argument("--executor", metavar="NAME",
                   help="where candidates are measured: loky (processes of this machine; default for several jobs), serial "
                        "(this process; default for one job), dask")
    p.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, e.g. tcp://host:8786, whose workers measure")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="same seed, same trials (default 0)")
    add_log(p)
    p.add_argument("--cold", action="store_true", help="do not start from the best schedules in the log")
    p.add_argument("--sampler", default="cost-model", metavar="NAME",
                   help="cost-model (default), tpe, nsgaii, qmc, random or grid")
    p.add_argument("--timeout", type=seconds, metavar="SECONDS", help="end a task after so long")
    p.add_argument("--gap", type=fraction, default=0.0, metavar="F", help="stop within this fraction of the lower bound")
    p.add_argument("--patience", type=positive, metavar="N", help="stop after N trials without a better one")
    add_format(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tunes and prints the summary."""
    from autosched.search import tune

    if threading.current_thread() is threading.main_thread():
        # Ended from outside, it leaves as Ctrl-C does: the best found is logged and no worker stays behind.
        signal.signal(signal.SIGTERM, _terminate)
    with _Live() as live:
        report = tune(
            args.workload, target=args.target, trials=args.trials, jobs=args.jobs, seed=args.seed, log=args.log,
            cold=args.cold, sampler=args.sampler, timeout=args.timeout, gap=args.gap, patience=args.patience,
            listener=live, executor=args.executor, scheduler=args.scheduler,
        )
    tasks = list(report.tasks) if isinstance(report, NetworkReport) else [report]
    if tasks[0].damaged:
        print(f"autosched: {tasks[0].damaged} damaged line(s) in the log were skipped", file=sys.stderr)
    if args.format == "json":
        print_json(_json(report))
    else:
        _print(report, tasks)
    return _verdict(tasks)


def _verdict(tasks: list[TuneReport]) -> Exit:
    missing = sum(t.cycles is None for t in tasks)
    if missing:
        return Exit.NO_SCHEDULE if missing == len(tasks) else Exit.PARTIAL
    return Exit.OK if all(t.verified for t in tasks) else Exit.DIFFERS


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class _Live:
    """One line that rewrites itself on a terminal; elsewhere a plain line per better schedule and per 16 trials."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.status: Any = None
        self.best: int | None = None

    def __enter__(self) -> _Live:
        if self.terminal:
            from rich.console import Console

            self.status = Console(stderr=True).status("starting: loading kernels and workers")
            self.status.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.status.__exit__(kind, error, trace)

    def __call__(self, event: TrialEvent) -> None:
        gap = None if not event.best or not event.machine_bound else (event.best - event.machine_bound) / event.machine_bound
        text = (
            f"{event.workload}  {event.trial + 1}/{event.trials} trials  {event.seconds:.1f} s  "
            f"best {number(event.best)} cycles, {percent(gap)} above the bound  {event.explain}"
        )
        if self.status is not None:
            from rich.text import Text

            self.status.update(Text(text, no_wrap=True, overflow="ellipsis"))
        elif event.best != self.best or event.trial + 1 == event.trials or (event.trial + 1) % 16 == 0:
            print(text, file=sys.stderr, flush=True)
        self.best = event.best


def _print(report: TuneReport | NetworkReport, tasks: list[TuneReport]) -> None:
    columns = [("workload", False), ("cycles", True), ("bound", True), ("gap", True), ("first draft", True),
               ("trials", True), ("from log", True), ("failed", True), ("seconds", True), ("stopped by", False),
               ("checked", False)]
    rows = [
        [t.workload + (f" x{t.multiplicity}" if t.multiplicity > 1 else ""), number(t.cycles), number(t.machine_bound),
         percent(t.gap), number(t.default_cycles), str(t.simulated), str(t.from_log), str(sum(t.failed.values())),
         f"{t.seconds:.1f}", t.stop, "bit-equal" if t.verified else "no"]
        for t in tasks
    ]
    footer: list[str] = []
    if isinstance(report, NetworkReport):
        footer = [report.network, number(report.cycles), number(report.machine_bound), percent(report.gap), "",
                  str(sum(t.simulated for t in tasks)), str(sum(t.from_log for t in tasks)),
                  str(sum(sum(t.failed.values()) for t in tasks)), f"{report.seconds:.1f}", "", ""]
    print_table(columns, rows, footer)
    if isinstance(report, TuneReport) and report.cycles is not None:
        print(f"\nbest schedule: {report.explain}")
    failed: dict[str, int] = {}
    for t in tasks:
        for kind, n in t.failed.items():
            failed[kind] = failed.get(kind, 0) + n
    for t in tasks:
        for point, cycles, bound in t.violations:
            print(f"autosched: {t.workload}: {cycles} cycles at {list(point)} are below the proven bound of {bound}: "
                  "a fault of autosched, please report it", file=sys.stderr)
    if failed:
        print("failed candidates: " + ", ".join(f"{n} {kind}" for kind, n in sorted(failed.items())))
    if "environment" in failed:
        print("environment: this machine failed, not the candidates; another run may have another list of trials")


def _json(report: TuneReport | NetworkReport) -> Any:
    if isinstance(report, NetworkReport):
        return {"network": report.network, "cycles": report.cycles, "space_bound": report.space_bound,
                "machine_bound": report.machine_bound, "bound": report.machine_bound, "gap": report.gap,
                "seconds": report.seconds, "tasks": [_json(t) for t in report.tasks]}
    data = {f.name: getattr(report, f.name) for f in fields(report) if f.name not in ("task", "machine")}
    data["bound"], data["gap"] = report.machine_bound, report.gap
    data["finished"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return data
