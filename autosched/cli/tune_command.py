"""``autosched tune``: search, with a live panel, then a summary."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autosched.cli.exit_codes import Exit
from autosched.cli.live import Lines, Panel, drawable
from autosched.cli.network_commands import add_network, is_network, network_file, print_summary, summary_json
from autosched.cli.network_commands import load as load_network
from autosched.cli.options import Parser, add_fix, add_log, add_target, decisions, fraction, named, positive, seconds, seed
from autosched.cli.tables import number, percent, print_table, tell, tell_alike
from autosched.errors import BadArgumentError
from autosched.search.events import Event, Listener, as_json
from autosched.search.result import NetworkReport, TuneReport
from autosched.search.tuner import ONE
from autosched.search.wrong import is_wrong
from autosched.workloads import networks


def _options(p: Parser) -> None:
    p.add_argument("workload", type=named,
                   help="e.g. resnet18.c8, resnet18, dense:m=1,k=1024,n=1024, kernels.py:matmul, net.onnx")
    add_target(p)
    p.add_argument("--trials", type=positive, default=64, metavar="N", help="distinct points per workload (default 64)")
    p.add_argument("--jobs", type=positive, metavar="N", help="worker processes (default: one per core)")
    p.add_argument("--executor", type=named, metavar="NAME",
                   help="where candidates are measured: loky (processes of this machine; default for several jobs), serial "
                        "(this process; default for one job), dask")
    p.add_argument("--scheduler", type=named, metavar="ADDRESS",
                   help="a Dask scheduler, e.g. tcp://host:8786, whose workers measure")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="same seed, same trials (default 0)")
    add_log(p)
    p.add_argument("--cold", action="store_true", help="do not start from the best schedules in the log")
    p.add_argument("--sampler", default="cost-model", metavar="NAME",
                   help="cost-model (default), draft, tpe, nsgaii, qmc, random or grid")
    p.add_argument("--timeout", type=seconds, metavar="SECONDS",
                   help="end a workload after so long; a network's file as a whole, but for the first trial of each layer")
    p.add_argument("--gap", type=fraction, default=0.0, metavar="F",
                   help="stop within this fraction of the bound, from 0 to below 1, e.g. 0.01 or 1%%")
    p.add_argument("--patience", type=positive, metavar="N", help="stop after N trials without a better one")
    add_fix(p)
    p.add_argument("--enqueue", type=decisions, action="append", default=[], metavar="NAME=VALUE[,..]",
                   help="a schedule to try first, by its decisions; may be repeated")
    add_network(p)
    p.add_argument("--quiet", action="store_true", help="no progress and no remarks, the result only")
    p.add_argument("--format", choices=("table", "json"), default="table",
                   help="form of the output (default table); json is a stream: one object per event, the last one the result")
    p.set_defaults(run=run)


OPTIONS = {"tune": _options}


def run(args: argparse.Namespace) -> int:
    """Tunes and prints the summary."""
    from autosched.search import tune

    options: dict[str, Any] = {
        "trials": args.trials, "jobs": args.jobs, "seed": args.seed, "log": args.log, "cold": args.cold, "sampler": args.sampler,
        "timeout": args.timeout, "gap": args.gap, "executor": args.executor, "scheduler": args.scheduler,
        "patience": args.patience,
    }
    if (args.fix or args.enqueue) and (is_network(args.workload) or args.workload in networks()):
        raise BadArgumentError("--fix and --enqueue", args.workload, ONE)
    network = load_network(args.workload, args) if network_file(args.workload, args) else None
    with _listening(args) as listener:
        if network is not None:
            report: NetworkReport | TuneReport = network.tune(listener=listener, **options)
        else:
            options |= {"target": args.target, "fix": args.fix, "enqueue": args.enqueue}
            report = tune(args.workload, listener=listener, **options)
    tasks = list(report.tasks) if isinstance(report, NetworkReport) else [report]
    if tasks[0].damaged and not args.quiet:
        print(f"autosched: {tasks[0].damaged} damaged line(s) in the log were skipped", file=sys.stderr)
    if args.format != "json":
        _print(report, tasks)
    if args.fix and tasks[0].cycles is None and tasks[0].stop == "exhausted" and not tasks[0].lack:
        made = " ".join(f"{name}={value}" for name, value in args.fix.items())
        print(f"autosched: {tasks[0].workload}: no schedule is known that has the decisions {made}", file=sys.stderr)
    if network is not None:
        from autosched.networks.summary import summarize

        summary = summarize(network.compile(args.log))
        if args.format == "json":
            print(json.dumps({"event": "summary", **summary_json(summary)}), flush=True)
        else:
            print()
            print_summary(summary, args.target)
    return _verdict(tasks)


def _listening(args: argparse.Namespace) -> AbstractContextManager[Listener | None]:
    """Who is told of the run's events: nobody, a panel or lines on standard error, and a stream of JSON on standard output."""
    if args.format == "json" and (args.quiet or sys.stdout.isatty()):
        return nullcontext(_stream)
    if args.quiet:
        return nullcontext(None)
    also = _stream if args.format == "json" else None
    return Panel(_rules(args), also) if drawable() else nullcontext(Lines(also))


def _stream(event: Event) -> None:
    """One JSON object per event; the last one is the outcome."""
    print(json.dumps(as_json(event)), flush=True)


def _rules(args: argparse.Namespace) -> list[str]:
    """The stop rules that were asked for, in words."""
    found = [f"{args.trials} trials"]
    if args.gap:
        found.append(f"gap {percent(args.gap)}")
    if args.patience:
        found.append(f"{args.patience} without a better one")
    if args.timeout:
        found.append(f"{args.timeout:g} s")
    return found


def _verdict(tasks: list[TuneReport]) -> Exit:
    missing = sum(t.cycles is None for t in tasks)
    if any(t.differs for t in tasks):
        # Whatever was found instead, that some schedule computed something else is for whoever looks at nothing but this.
        return Exit.DIFFERS
    if missing:
        return Exit.NO_SCHEDULE if missing == len(tasks) else Exit.PARTIAL
    return Exit.OK if all(t.verified for t in tasks) else Exit.DIFFERS




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
        footer = [report.network, number(report.cycles), number(report.machine_bound if report.whole else None),
                  percent(report.gap), "",
                  str(sum(t.simulated for t in tasks)), str(sum(t.from_log for t in tasks)),
                  str(sum(sum(t.failed.values()) for t in tasks)), f"{report.seconds:.1f}", "", ""]
    print_table(columns, rows, footer)
    tell_alike((t.workload, t.layers) for t in tasks)
    if isinstance(report, TuneReport) and report.cycles is not None:
        tell(f"\nbest schedule: {report.explain}")
        if report.verified:
            from autosched.cli.host_work import leaves_work, tell_host_work

            if leaves_work(report.task.func, list(report.trace)):
                tell_host_work(report.kernel(), report.task.inputs(0))
    failed: dict[str, int] = {}
    for t in tasks:
        for kind, n in t.failed.items():
            failed[kind] = failed.get(kind, 0) + n
    for t in tasks:
        if t.lack:
            print(f"autosched: {t.workload}: no schedule is known that fits the memories: {t.lack}", file=sys.stderr)
        for cycles, reason in t.dropped:
            if is_wrong(reason):
                continue  # it was said when it was found
            print(f"autosched: {t.workload}: a schedule of {number(cycles)} cycles was not taken, its check failed: {reason}",
                  file=sys.stderr)
        for point, cycles, bound in t.violations:
            print(f"autosched: {t.workload}: {cycles} cycles at {list(point)} are below the proven bound of {bound}: "
                  "a fault of autosched, please report it", file=sys.stderr)
    if failed:
        tell("failed candidates: " + ", ".join(f"{n} {kind}" for kind, n in sorted(failed.items())))
    if "environment" in failed:
        tell("environment: this machine failed, not the candidates; another run may have another list of trials")
