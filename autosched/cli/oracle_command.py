"""``autosched oracle``: the optimum of a space that can be listed, and how far every sampler stays from it."""

from __future__ import annotations

import argparse
import sys

from autosched import arguments
from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_fix, add_format, add_target, at_most, named, positive
from autosched.cli.tables import number, percent, print_json, print_table, tell


def _options(p: Parser) -> None:
    p.add_argument("workload", type=named)
    add_target(p)
    p.add_argument("--simulations", type=positive, default=256, metavar="N",
                   help="schedules that may be simulated where no bound excludes them (default 256)")
    p.add_argument("--sampler", action="append", metavar="NAME",
                   help="a sampler to compare: draft, cost-model, tpe, nsgaii, qmc, random (default all); may be repeated")
    p.add_argument("--trials", type=positive, default=32, metavar="N", help="of every sampler (default 32)")
    p.add_argument("--seeds", type=at_most(arguments.RUNS), default=1, metavar="N",
                   help="runs of every sampler, seed 0 and up (default 1)")
    p.add_argument("--jobs", type=positive, default=1, metavar="N", help="worker processes (default 1)")
    add_fix(p)
    add_format(p)
    p.set_defaults(run=run)


OPTIONS = {"oracle": _options}


def run(args: argparse.Namespace) -> int:
    """Lists, bounds, simulates, and prints what that proves."""
    from autosched.search.oracle import SAMPLERS, oracle
    from autosched.search.wrong import is_wrong

    report = oracle(
        args.workload, args.target, args.simulations, args.sampler or SAMPLERS, args.trials, args.seeds, args.jobs, args.fix
    )
    verdict = Exit.DIFFERS if report.differs else Exit.OK if report.cycles is not None else Exit.NO_SCHEDULE
    if args.format == "json":
        print_json(report.as_json())
        return verdict
    where = " with " + " ".join(f"{name}={value}" for name, value in report.fixed.items()) if report.fixed else ""
    tell(f"{report.workload} on {report.target}: {number(report.points)} schedules{where}")
    if not report.whole:
        tell("the space has too many to list: nothing is said of schedules whose output is cut into parts")
    tell(f"{number(report.simulated)} simulated, {number(report.certified)} no faster by their bound, {number(report.open)} open"
         + (f", {number(report.failed)} failed" if report.failed else "")
         + (f", {number(report.unanswered)} without an answer" if report.unanswered else ""))
    for cycles, reason in report.dropped:
        if is_wrong(reason):
            continue  # it was said when it was found
        print(f"autosched: {report.workload}: a schedule of {number(cycles)} cycles was not taken, its check failed: {reason}",
              file=sys.stderr)
    for point, cycles, bound in report.violations:
        print(f"autosched: {report.workload}: {cycles} cycles at {list(point)} are below the proven bound of {bound}: "
              "a fault of autosched, please report it", file=sys.stderr)
    if report.cycles is None:
        tell("no schedule was found that the machine takes")
        return verdict
    if report.proven:
        tell(f"the optimum is {number(report.cycles)} cycles: {report.explain}")
    elif report.violations:
        tell(f"nothing is proven, a bound is wrong; the best is {number(report.cycles)} cycles: {report.explain}")
    else:
        tell(f"the optimum is between {number(report.low)} and {number(report.cycles)} cycles: {report.explain}")
    tell("checked: bit-equal")
    print()
    columns = [("sampler", False), ("seed", True), ("trials", True), ("cycles", True), ("regret", True)]
    rows = []
    for r in report.regrets:
        least, most = report.regret(r.cycles) if r.cycles is not None else (None, None)
        rows.append([r.sampler, str(r.seed), str(r.trials), number(r.cycles), percent(least),
                     *([] if report.proven else [percent(most)])])
    print_table(columns if report.proven else [*columns, ("at most", True)], rows)
    return verdict
