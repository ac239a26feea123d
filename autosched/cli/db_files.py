"""``autosched db export | import``: a log as CSV or as Optuna's studies, and AutoTVM's log as a log of ours."""

from __future__ import annotations

import argparse
import csv
import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_format, add_log, add_target, file, positive
from autosched.cli.outputs import require_outputs
from autosched.cli.tables import number, percent, print_json, print_table, tell
from autosched.errors import ProgramError

REASONS = 10  # that are told why records are left out

if TYPE_CHECKING:
    from autosched.records import Log
    from autosched.report.imported import Imported
    from autosched.target import Target
    from autosched.workloads import Workload


def add_export(p: Parser) -> None:
    """Adds the options of ``db export``."""
    add_log(p)
    p.add_argument("-o", "--output", type=file, required=True, metavar="FILE",
                   help="FILE.csv; FILE.db (SQLite) or FILE.journal (faster) for Optuna and optuna-dashboard")
    p.add_argument("--top", type=positive, metavar="N",
                   help="only the N fastest trials of each workload, target and version (default all)")
    add_target(p, default=None)
    p.set_defaults(run=export)


def add_import(p: Parser) -> None:
    """Adds the options of ``db import``."""
    p.add_argument("file", type=file, metavar="FILE", help="a log of AutoTVM, version 0.2, e.g. TopHub's")
    add_target(p)
    add_log(p)
    p.add_argument("--tune", type=positive, metavar="N", help="tune with N trials what nothing is known of")
    p.add_argument("--jobs", type=positive, metavar="N", help="worker processes of --tune (default: one per core)")
    add_format(p)
    p.set_defaults(run=bring_in)


def export(args: argparse.Namespace) -> int:
    """Writes the trials."""
    from autosched.records import Log
    from autosched.target import get_target

    path = Path(args.output)
    require_outputs(args, "output")
    only = None if args.target is None else get_target(args.target)
    log = Log.open(args.log, must_exist=True)
    if path.suffix == ".csv":
        return _csv(log, path, only, args.top)
    from autosched.search.studies import SUFFIXES, export
    from sim.presets import TARGETS

    if path.suffix not in SUFFIXES:
        raise ProgramError(f"{path}: expected a name that ends with .csv, {', '.join(SUFFIXES)}")
    targets = [get_target(name) for name in TARGETS] if only is None else [only]
    done = export(log, path, targets, args.top, None if only is None else only.key())
    print_table([("study", False), ("trials", True), ("decisions", False)],
                [[name, number(n), why or "named"] for name, n, why in done])
    where = f"sqlite:///{path}" if path.suffix != SUFFIXES[0] else str(path)
    tell(f"\n{path}: open it with: optuna-dashboard {shlex.quote(where)}")
    return Exit.OK


def _csv(log: Log, path: Path, only: Target | None, top: int | None) -> int:
    from autosched.records.upkeep import fastest
    from sim.files import write_text

    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["run", "workload", "target", "version", "space", "seed", "trial", "status", "cycles", "bound", "draft",
                   "point", "program", "reason"])
    count = 0
    for t in log.all_trials() if top is None else fastest(log, top):
        if only is not None and t.hardware != only.key():
            continue
        cycles = "" if t.cycles is None else t.cycles
        rows.writerow([t.run, t.name, t.target, t.version, t.space, t.seed, t.trial, t.status, cycles, t.bound, t.draft,
                       " ".join(map(str, t.point)), t.program or "", t.reason])
        count += 1
    write_text(path, out.getvalue())
    tell(f"{path}: {number(count)} trials")
    return Exit.OK


def bring_in(args: argparse.Namespace) -> int:
    """Simulates AutoTVM's schedules, logs them, and compares them with ours and with the bound."""
    from autosched.records import Known, Log
    from autosched.report.imported import as_json, bring_in
    from autosched.target import get_target

    target = get_target(args.target)
    log = Log.open(args.log)
    rows = bring_in(args.file, target, log, Known.open(target, log if args.log is not None else None), _tuning(args))
    log.prepare()
    found = list(rows)
    if args.format == "json":
        print_json(as_json(found))
    else:
        _print(found, args.file)
    return Exit.PARTIAL if any(i.mine and i.theirs is None for i in found) else Exit.OK


def _tuning(args: argparse.Namespace) -> Callable[[Workload], int | None] | None:
    """What finds a schedule of ours where nothing is known."""
    if args.tune is None:
        return None

    def search(task: Workload) -> int | None:
        from autosched.search import TuneReport, tune

        print(f"autosched: tuning {task.name}, {args.tune} trials", file=sys.stderr, flush=True)
        # Cold: what theirs is compared with does not start from theirs.
        report = tune(task, target=args.target, trials=args.tune, jobs=args.jobs, log=args.log, cold=True)
        assert isinstance(report, TuneReport)
        return report.cycles

    return search


def _print(found: list[Imported], path: str) -> None:
    from autosched.report.imported import NONE

    shown = [i for i in found if i.mine]
    if shown:
        print_table(
            [("line", True), ("workload", False), ("theirs", True), ("ours", True), ("bound", True), ("theirs above it", True),
             ("ours above it", True), ("schedule, or why there is none", False)],
            [[str(i.line), i.workload, number(i.theirs), number(i.ours), number(i.bound), percent(i.gap), percent(i.our_gap),
              i.explain] for i in shown])
        print()
    others: dict[tuple[bool, str], list[int]] = {}
    for i in found:
        if not i.mine:
            others.setdefault((i.workload == NONE, i.explain), []).append(i.line)
    for (broken, reason), lines in list(others.items())[:REASONS]:
        s = "s" if len(lines) > 1 else ""
        if broken:
            tell(f"{number(len(lines))} line{s} skipped: {reason} ({'the first is ' if s else ''}{path}:{lines[0]})")
        else:
            tell(f"{number(len(lines))} record{s} {reason}")
    if rest := sum(len(lines) for lines in list(others.values())[REASONS:]):
        tell(f"and {number(rest)} more, for other reasons")
    made = sum(i.theirs is not None for i in shown)
    both = [(i.theirs, i.ours) for i in shown if i.theirs is not None and i.ours is not None]
    tell(f"{number(made)} of {number(len(shown))} records for this machine became schedules"
         + (f"; where both are known, ours need {percent(sum(o for _, o in both) / sum(t for t, _ in both))} of their cycles"
            if both else "; nothing of ours is known of them (--tune N searches)" if made else ""))
