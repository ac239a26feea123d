"""``autosched explain | compare``: where the cycles of a schedule go, and what another one does with them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.exit_codes import Exit
from autosched.cli.log_commands import best_of
from autosched.cli.options import Parser, add_format, add_log, add_target, positive
from autosched.cli.tables import number, percent, print_json, print_table, tell
from autosched.errors import ProgramError

if TYPE_CHECKING:
    from autosched.report import Account, Change


def _explain_options(p: Parser) -> None:
    p.add_argument("workload", help="a workload; its best logged schedule is explained")
    add_target(p)
    add_log(p)
    p.add_argument("--alternatives", type=positive, default=4, metavar="N", help="simulated per decision (default 4)")
    add_format(p)
    p.set_defaults(run=explain)


def _compare_options(p: Parser) -> None:
    p.add_argument("first", metavar="A", help="WORKLOAD[@TARGET][@LOGDIR], or a program file")
    p.add_argument("second", metavar="B", help="likewise")
    add_target(p)
    add_log(p)
    add_format(p)
    p.set_defaults(run=compare)


OPTIONS = {"explain": _explain_options, "compare": _compare_options}


def explain(args: argparse.Namespace) -> int:
    """Takes the best schedule apart, and changes every decision alone."""
    from autosched.report import ablate, account
    from space import VERSION

    task, target, record, kernel = best_of(args)
    found = account(kernel)
    # The numbers of another version of the space mean something else.
    known = record.space == VERSION and len(record.point) > 0
    changes = ablate(task, target, record.point, found.cycles, args.alternatives) if known else []
    if args.format == "json":
        print_json({**found.as_json(), "decisions": [asdict(c) for c in changes]})
        return Exit.OK
    _print(found, changes)
    return Exit.OK


def _print(found: Account, changes: list[Change]) -> None:
    tell(f"{found.workload} on {found.target}: {number(found.cycles)} cycles, machine bound {number(found.bound)}, "
         f"gap {percent(found.gap)}\n\nloops")
    for line in found.loops:
        tell(f"  {line}")
    tell("\nbuffers")
    print_table([("buffer", False), ("memory", False), ("elements", True), ("banks", True), ("share", True), ("inside", False)],
                [[h.buffer, h.memory.removeprefix("local."), number(h.elements), str(h.banks), percent(h.share),
                  ", ".join(h.loops) or "-"] for h in found.held])
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
        tell("\nThe schedule is no point of this version of the space: decisions cannot be changed one by one.")
        return
    tell("\nevery decision changed alone, the best of what was tried")
    print_table([("decision", False), ("is", True), ("tried", True), ("cycles", True), ("costs", True), ("with", False)],
                [[c.decision, str(c.value), "-" if c.other is None else str(c.other), number(c.cycles), number(c.difference),
                  ", ".join(c.others) or "-"] for c in changes])


def compare(args: argparse.Namespace) -> int:
    """Prints the figures that differ."""
    from autosched.report import compare as differences

    (one, first), (two, second) = _figures(args.first, args), _figures(args.second, args)
    found = differences(first, second)
    if args.format == "json":
        print_json({"first": one, "second": two, "differences": [{**asdict(d), "change": d.change} for d in found]})
        return Exit.OK
    if not found:
        tell(f"{one} and {two}: no figure differs")
        return Exit.OK
    print_table([("figure", False), ("A", True), ("B", True), ("B - A", True)],
                [[d.what, number(d.first), number(d.second), number(d.change)] for d in found])
    tell(f"\nA: {one}\nB: {two}")
    return Exit.OK


def _figures(text: str, args: argparse.Namespace) -> tuple[str, dict[str, int]]:
    """What an argument names, and its figures."""
    from autosched.report import account, figures, of_run

    if text.endswith(".json") and Path(text).exists():
        from autosched.cli.sim_command import load, record
        from sim.stats import summarize

        programs = load(text, None, None)
        if len(programs) != 1:
            raise ProgramError(f"{text} has {len(programs)} programs; compare takes files of one")
        program, semantics = programs[0]
        return f"{text}: {program.name}", of_run(summarize(record(program, semantics), semantics))
    name, *places = text.split("@")
    # A flag holds for both; what follows an @ holds for one.
    chosen = argparse.Namespace(**{**vars(args), "workload": name})
    for place in places:
        if Path(place).is_dir():
            chosen.log = place
        else:
            chosen.target = place
    _, target, _, kernel = best_of(chosen)
    return f"{name} on {target.name}" + (f", log {chosen.log}" if chosen.log else ""), figures(account(kernel))
