"""``autosched report``: one offline HTML page about a workload, a network or a log."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosched.cli.commands import tune_hint
from autosched.cli.exit_codes import Exit
from autosched.cli.log_commands import logged_workload
from autosched.cli.options import Parser, add_log, add_target
from autosched.cli.tables import number, tell
from autosched.errors import RecordError


def _options(p: Parser) -> None:
    p.add_argument("what", help="a workload, a network, or the directory of a log")
    add_target(p)
    add_log(p)
    p.add_argument("-o", "--output", required=True, metavar="FILE.html", help="the page to write")
    p.set_defaults(run=run)


OPTIONS = {"report": _options}


def run(args: argparse.Namespace) -> int:
    """Writes the page."""
    from autosched.records import Known
    from autosched.report.page import page
    from autosched.target import get_target
    from autosched.workloads import network, networks
    from sim.files import write_bytes

    target = get_target(args.target)
    whole_log = Path(args.what).is_dir()
    known = Known.open(target, args.what if whole_log else args.log)
    if whole_log:
        tasks = [(task, 1) for name, key in known.tasks(target) if (task := known.workload(name, key, target)) is not None]
    elif args.what in networks():
        tasks = list(network(args.what, target.config.batch, target.config.block_in).tasks)
    else:
        tasks = [(logged_workload(args.what, target, known), 1)]
    if not any(known.bests(task.key, target.key()) for task, _ in tasks):
        hint = "" if whole_log else f"; run: {tune_hint(args, args.what)}"
        raise RecordError(f"no schedule of {args.what} for {target.name}{hint}")
    text = page(args.what, target, tasks, known).encode()
    write_bytes(Path(args.output), text)
    tell(f"{args.output}: {len(tasks)} workload{'s' if len(tasks) > 1 else ''}, {number(len(text))} bytes")
    return Exit.OK
