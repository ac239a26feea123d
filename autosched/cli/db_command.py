"""``autosched db fsck | verify | merge | export``: looking after a log."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_format, add_log, add_target
from autosched.cli.tables import number, print_json, print_table, tell
from autosched.errors import ProgramError, RecordError


def _options(p: Parser) -> None:
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    q = actions.add_parser("fsck", help="name every line that cannot be read, with its reason")
    add_log(q)
    add_format(q)
    q.set_defaults(run=fsck)
    q = actions.add_parser("verify", help="simulate and execute the best schedules again, and say what moved")
    add_target(q)
    add_log(q)
    add_format(q)
    q.set_defaults(run=verify)
    q = actions.add_parser("merge", help="copy the writer files of other logs into one")
    q.add_argument("sources", nargs="+", metavar="DIR", help="logs to copy from; they stay as they are")
    add_log(q)
    q.set_defaults(run=merge)
    q = actions.add_parser("export", help="write all trials as CSV")
    add_log(q)
    q.add_argument("-o", "--output", required=True, metavar="FILE.csv")
    q.set_defaults(run=export)


OPTIONS = {"db": _options}


def fsck(args: argparse.Namespace) -> int:
    """Lists damaged lines."""
    from autosched.records import Log

    log = Log.open(args.log, must_exist=True)
    faults = log.damage
    if args.format == "json":
        print_json([{"file": str(f.path), "line": f.line, "reason": f.reason} for f in faults])
    else:
        for fault in faults:
            tell(str(fault))
        trials = sum(1 for _ in log.all_trials())
        tell(f"{log.directory}: {number(trials)} trials, {len(log.tasks())} tasks with a best schedule, "
             f"{number(len(faults))} damaged lines")
    return Exit.PARTIAL if faults else Exit.OK


def verify(args: argparse.Namespace) -> int:
    """Measures the best schedule of every task again."""
    from autosched.measure import Candidate, measure
    from autosched.records import Known, Log
    from autosched.target import get_target

    target = get_target(args.target)
    known = Known((Log.open(args.log, must_exist=True),))
    rows: list[dict[str, Any]] = []
    for name, key in known.tasks(target):
        record = known.bests(key, target.key())[0]
        task = known.workload(name, key, target)
        if task is None:
            rows.append({"workload": name, "logged": record.cycles, "now": None, "moved": None,
                         "bytes": "the program is not in the log"})
            continue
        result = measure(Candidate(task, target, record.trace), execute=True)
        moved = None if result.cycles is None else result.cycles - record.cycles
        rows.append({"workload": name, "logged": record.cycles, "now": result.cycles, "moved": moved,
                     "bytes": "equal" if result.cycles is not None else f"{result.status}: {result.reason}"})
    if args.format == "json":
        print_json(rows)
    else:
        print_table([("workload", False), ("logged", True), ("now", True), ("moved", True), ("bytes", False)],
                    [[r["workload"], *(number(r[k]) for k in ("logged", "now", "moved")), r["bytes"]] for r in rows])
    return Exit.OK if all(r["moved"] == 0 for r in rows) else Exit.DIFFERS


def merge(args: argparse.Namespace) -> int:
    """Copies writer files; a file of the same name must have the same contents, or be the longer one."""
    from autosched.records.log import DEFAULT
    from sim.files import write_bytes

    into = Path(args.log) if args.log is not None else DEFAULT
    copied = 0
    for source in args.sources:
        if not Path(source).is_dir():
            raise RecordError(f"the log {source} does not exist")
        for path in sorted(p for p in Path(source).glob("*.jsonl") if p.is_file()):
            data, there = path.read_bytes(), into / path.name
            old = there.read_bytes() if there.is_file() else b""
            if old.startswith(data) and old:
                continue
            if not data.startswith(old):
                raise RecordError(f"{path} and {there} are two files of one name")
            into.mkdir(parents=True, exist_ok=True)
            write_bytes(there, data)
            copied += 1
    tell(f"{into}: {copied} file{'s' if copied != 1 else ''} copied")
    return Exit.OK


def export(args: argparse.Namespace) -> int:
    """Writes the trials as CSV."""
    from autosched.records import Log
    from sim.files import write_text

    if not Path(args.output).parent.is_dir():
        raise ProgramError(f"cannot write {args.output}: {Path(args.output).parent} is no directory")
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["run", "workload", "target", "version", "space", "seed", "trial", "status", "cycles", "bound", "draft",
                   "point", "program", "reason"])
    count = 0
    for t in Log.open(args.log, must_exist=True).all_trials():
        cycles = "" if t.cycles is None else t.cycles
        rows.writerow([t.run, t.name, t.target, t.version, t.space, t.seed, t.trial, t.status, cycles, t.bound, t.draft,
                       " ".join(map(str, t.point)), t.program or "", t.reason])
        count += 1
    write_text(args.output, out.getvalue())
    tell(f"{args.output}: {number(count)} trials")
    return Exit.OK
