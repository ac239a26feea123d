"""``autosched explain``: where the cycles of a schedule go."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from autosched.cli.exit_codes import Exit
from autosched.cli.log_commands import best_of
from autosched.cli.options import Parser, add_format, add_log, add_target, named, positive
from autosched.cli.tables import number, percent, print_json, print_table, short, tell

if TYPE_CHECKING:
    from autosched.report import Account, Change


def _options(p: Parser) -> None:
    p.add_argument("workload", type=named, help="a workload; its best logged schedule is explained")
    add_target(p)
    add_log(p)
    p.add_argument("--schedule", type=named, metavar="FILE.py:FUNC",
                   help="a schedule of your own instead: a Schedule of the workload's program, or a function that returns one")
    p.add_argument("--alternatives", type=positive, default=4, metavar="N", help="simulated per decision (default 4)")
    p.add_argument("--jobs", type=positive, default=1, metavar="N", help="worker processes (default 1)")
    add_format(p)
    p.set_defaults(run=explain)


OPTIONS = {"explain": _options}


def explain(args: argparse.Namespace) -> int:
    """Takes the best schedule apart, or one of the user's own, and changes every decision alone."""
    from autosched.kernel import build, resolve
    from autosched.report import ablate, account, decided, placed
    from autosched.search.pool import MeasurePool
    from autosched.target import get_target
    from autosched.workloads.user_file import trace_from_file
    from space import Space

    if args.schedule:
        target = get_target(args.target)
        task, trace = resolve(args.workload, target), trace_from_file(args.schedule)
        kernel = build(task, target, trace)
        found = account(kernel)
        point, why = placed(Space(task.func, target), trace, kernel.hash)
    else:
        task, target, record, kernel = best_of(args)
        found = account(kernel)
        point, why = decided(Space(task.func, target), record)
    with MeasurePool(args.jobs) as pool:
        changes = ablate(task, target, point, found.cycles, args.alternatives, pool=pool) if point else []
    if args.format == "json":
        print_json({**found.as_json(), "decisions": [asdict(c) for c in changes], "point": list(point), "outside": why})
        return Exit.OK
    _print(found, changes, why)
    return Exit.OK


def _print(found: Account, changes: list[Change], why: str) -> None:
    tell(f"{found.workload} on {found.target}: {number(found.cycles)} cycles, machine bound {number(found.bound)}, "
         f"gap {percent(found.gap)}\n\nloops")
    for line in found.loops:
        tell(f"  {short(line)}")
    tell("\nbuffers")
    print_table([("buffer", False), ("memory", False), ("elements", True), ("banks", True), ("bytes", True), ("share", True),
                 ("fills", True), ("inside", False)],
                [[short(h.buffer), h.memory.removeprefix("local."), number(h.elements), str(h.banks), number(h.bytes),
                  percent(h.share), number(h.fills), ", ".join(h.loops) or "-"] for h in found.held])
    tell("\ntraffic")
    print_table([("tensor", False), ("memory", False), ("transfers", True), ("bytes", True), ("of the tensor", True)],
                [[t.tensor, t.memory, number(t.transfers or None), number(t.bytes), f"{t.times:.2f} x"] for t in found.traffic])
    tell("\nengines, in cycles")
    print_table([("engine", False), ("does", False), ("cycles", True), ("share", True)],
                [[name, kind, number(cycles), percent(cycles / found.cycles)] for name, unit in found.stats.units.items()
                 for kind, cycles in [*unit.busy_by.items(), *unit.stalled_by.items()]])
    tell(f"\nthe machine bound: the {found.binds} chain binds")
    print_table([("term", False), ("cycles", True)], [[name, number(value)] for name, value in found.terms.items()])
    tell(f"\nwhat keeps the schedule from it, on {found.unit}, which has least to spare")
    print_table([("cause", False), ("cycles", True), ("needed", True), ("more", True), ("what would have to be freer", False)],
                [[r.cause, number(r.cycles), number(r.needed), number(r.cycles - r.needed), r.freedom]
                 for r in found.rest if r.cycles > r.needed])
    if not changes:
        tell(f"\nno decision can be changed alone: {why or 'the space has no other schedule one step away'}")
        return
    tell("\nevery decision changed alone, the best of what was tried")
    print_table([("decision", False), ("is", True), ("tried", True), ("cycles", True), ("costs", True), ("with", False)],
                [[c.decision, str(c.value), "-" if c.other is None else str(c.other), number(c.cycles), number(c.difference),
                  ", ".join(c.others) or "-"] for c in changes])
