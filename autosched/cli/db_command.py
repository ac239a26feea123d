"""``autosched db``: looking after a log. What goes in and out of one as another format is in ``db_files.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.cli import db_files
from autosched.cli.exit_codes import Exit
from autosched.cli.log_commands import OPTIONS as LOG_OPTIONS
from autosched.cli.options import Parser, add_format, add_log, add_target, folder, named, positive
from autosched.cli.tables import Screen, number, percent, print_json, print_table, tell
from autosched.errors import RecordError, UnknownNameError

if TYPE_CHECKING:
    from autosched.records import BestRecord, Known, Log
    from autosched.target import Target


def _options(p: Parser) -> None:
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    q = actions.add_parser("best", help="the best logged schedules, as `autosched best`")
    LOG_OPTIONS["best"](q)
    q = actions.add_parser("list", help="what a log holds: every workload on every target")
    _add_source(q)
    add_format(q)
    q.set_defaults(run=listing)
    q = actions.add_parser("merge", help="copy the writer files of other logs into one")
    q.add_argument("sources", type=folder, nargs="+", metavar="DIR", help="logs to copy from; they stay as they are")
    add_log(q)
    q.set_defaults(run=merge)
    q = actions.add_parser("fsck", help="name every line that cannot be read, with its reason")
    add_log(q)
    q.add_argument("--repair", action="store_true", help="move such lines into files beside the log's own, named *.bad")
    add_format(q)
    q.set_defaults(run=fsck)
    q = actions.add_parser("compact", help="write the best of a log into another one; the log stays as it is")
    add_log(q)
    q.add_argument("-o", "--output", type=folder, required=True, metavar="DIR", help="the other log; made where it is missing")
    q.add_argument("--top", type=positive, default=10, metavar="N",
                   help="schedules and trials that are kept of every workload, target and version (default 10)")
    q.set_defaults(run=compact)
    q = actions.add_parser("verify", help="simulate and execute the best schedules again, and say what moved")
    q.add_argument("workload", type=named, nargs="*", help="as logged (default: all)")
    add_target(q, default=None)
    _add_source(q)
    add_format(q)
    q.set_defaults(run=verify)
    db_files.add_export(actions.add_parser("export", help="write all trials as CSV, or as studies that Optuna's dashboard opens"))
    db_files.add_import(actions.add_parser("import", help="bring in AutoTVM's log: theirs, ours, and the bound"))


OPTIONS = {"db": _options}


def _add_source(parser: argparse.ArgumentParser) -> None:
    add_log(parser)
    parser.add_argument("--shipped", action="store_true", help="look at the schedules that come with autosched")


def _logs(args: argparse.Namespace) -> list[Log]:
    """The log that was asked for, or the shipped ones, a log per target."""
    from autosched.records import Log
    from tuning_logs import shipped, targets

    if not args.shipped:
        return [Log.open(args.log, must_exist=True)]
    if args.log is not None:
        raise RecordError("--shipped and --log name two places; give one of them")
    return [Log(path.parent, (path,)) for name in targets() if (path := shipped(name)) is not None]


def listing(args: argparse.Namespace) -> int:
    """Lists what a log holds."""
    rows = [row for log in _logs(args) for row in _held(log)]
    if args.format == "json":
        print_json(rows)
        return Exit.OK
    if not rows:
        tell("nothing is logged")
        return Exit.OK
    print_table(
        [("workload", False), ("target", False), ("cycles", True), ("bound", True), ("gap", True), ("checked", False),
         ("version", False), ("trials", True)],
        [[str(r["workload"]), str(r["target"]), number(r["cycles"]), number(r["bound"]), percent(r["gap"]),
          str(r["checked"]), str(r["version"]), number(r["trials"])] for r in rows])
    return Exit.OK


def _held(log: Log) -> Iterator[dict[str, Any]]:
    """A row per workload, target and version; the best of this version, or of the newest."""
    from autosched.records import version

    trials = log.counts()
    for name, workload, hardware in _once(log):
        best = log.first(workload, hardware, version())
        if best is not None:
            count = sum(n for (w, h, _), n in trials.items() if (w, h) == (workload, hardware))
            yield {"workload": name, "target": best.target, "cycles": best.cycles, "bound": best.bound, "gap": best.gap,
                   "verified": best.checked == "yes", "checked": best.checked, "version": best.version, "trials": count,
                   "key": workload, "hardware": hardware}


def _once(log: Log) -> list[tuple[str, str, str]]:
    """Every task under one of its names."""
    return list({(key, hardware): (name, key, hardware) for name, key, hardware in reversed(log.tasks())}.values())[::-1]


def fsck(args: argparse.Namespace) -> int:
    """Lists damaged lines, and moves them away where that was asked for."""
    from autosched.records import Log
    from autosched.records.upkeep import BAD, repair

    log = Log.open(args.log, must_exist=True)
    faults = log.damage
    repaired = repair(log) if args.repair else []
    left = Log.open(args.log).damage if args.repair else faults
    if args.format == "json":
        print_json([{"file": str(f.path), "line": f.line, "reason": f.reason} for f in faults])
        return Exit.PARTIAL if left else Exit.OK
    for fault in faults:
        tell(str(fault))
    for done in repaired:
        tell(f"{done.path}: {number(done.moved)} lines moved to {done.path.name}{BAD}"
             + (f", {number(done.kept)} of a newer format left as they are" if done.kept else ""))
    trials = sum(log.counts().values())
    tell(f"{log.directory}: {number(trials)} trials, {len(_once(log))} tasks with a best schedule, "
         f"{number(len(left))} damaged lines" + (" left" if repaired else ""))
    return Exit.PARTIAL if left else Exit.OK


def compact(args: argparse.Namespace) -> int:
    """Writes the best of a log into another one."""
    from autosched.records import Log, upkeep

    log = Log.open(args.log, must_exist=True)
    path, bests, trials = upkeep.compact(log, Path(args.output), args.top)
    tell(f"{path}: {number(bests)} best schedules and {number(trials)} trials, {number(path.stat().st_size)} bytes")
    return Exit.OK


def verify(args: argparse.Namespace) -> int:
    """Measures the best schedule of every task again."""
    from autosched.records import Known, version
    from autosched.target import get_target

    only = None if args.target is None else get_target(args.target)
    todo: list[tuple[Known, BestRecord]] = []
    for log in _logs(args):
        for _, workload, hardware in _once(log):
            best = log.first(workload, hardware, version())
            if best is not None and (only is None or only.key() == hardware):
                todo.append((Known((log,)), best))
    if args.workload:
        names = {record.name for _, record in todo}
        for name in args.workload:
            if name not in names:
                raise UnknownNameError("workload of the log", name, sorted(names))
        todo = [(known, record) for known, record in todo if record.name in args.workload]
    rows = []
    with _counting(len(todo)) as step:
        for known, record in todo:
            step(f"{record.name} on {record.target}")
            rows.append(_verified(known, record, only))
    if args.format == "json":
        print_json(rows)
    elif rows:
        several = len({r["target"] for r in rows}) > 1
        columns = [("workload", False), *([("target", False)] if several else []), ("logged", True), ("now", True),
                   ("moved", True), ("bytes", False)]
        print_table(columns, [[r["workload"], *([r["target"]] if several else []),
                               *(number(r[k]) for k in ("logged", "now", "moved")), r["bytes"]] for r in rows])
    good = sum(r["moved"] == 0 for r in rows)
    if args.format != "json" and len(rows) != 1:
        tell(f"{number(good)} of {number(len(rows))} schedules hold what the log says")
    return Exit.OK if good == len(rows) else Exit.DIFFERS


def _verified(known: Known, record: BestRecord, only: Target | None) -> dict[str, Any]:
    from autosched.errors import AutoschedError
    from autosched.measure import Candidate, measure
    from autosched.target import get_target

    row: dict[str, Any] = {"workload": record.name, "target": record.target, "logged": record.cycles, "now": None, "moved": None}
    try:
        target = only or get_target(record.target)
    except AutoschedError:
        target = None
    if target is None or target.key() != record.hardware:
        return {**row, "bytes": f"another machine than {record.target} is here; name its file with --target"}
    task = known.workload(record.name, record.workload, target)
    if task is None:
        return {**row, "bytes": "the program is not in the log"}
    result = measure(Candidate(task, target, record.trace), execute=True)
    if result.cycles is None:
        return {**row, "bytes": f"{result.status}: {result.reason}"}
    same = result.program == record.program
    return {**row, "now": result.cycles, "moved": result.cycles - record.cycles,
            "bytes": "equal" if same else "equal, but the program is another one"}


@contextmanager
def _counting(total: int) -> Iterator[Any]:
    """Shows on a terminal how far a long command is; called with what comes next."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    if not sys.stderr.isatty() or total < 2:
        yield lambda text: None
        return
    bar = Progress(MofNCompleteColumn(), BarColumn(bar_width=20), TextColumn("{task.description}", markup=False),
                   console=Screen(stderr=True), transient=True)
    with bar:
        task = bar.add_task("", total=total, completed=-1)

        def step(text: str) -> None:
            bar.update(task, description=text, advance=1)

        yield step


def merge(args: argparse.Namespace) -> int:
    """Copies writer files; of two of one name one must say all that the other does."""
    from autosched.records import Log
    from autosched.records.upkeep import copied

    into = Log.place(args.log)
    sources = [Log.place(source, must_exist=True) for source in args.sources]
    count, refused = 0, []
    for source in sources:
        for path in sorted(p for p in source.glob("*.jsonl") if p.is_file()):
            try:
                count += copied(path, into)
            except RecordError as error:
                refused.append(str(error))
    tell(f"{into}: {count} file{'s' if count != 1 else ''} copied")
    if refused:
        raise RecordError("; ".join(refused))
    return Exit.OK
