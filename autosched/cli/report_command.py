"""``autosched report``: one offline HTML page about a workload, a network or a log."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosched.cli.commands import tune_hint
from autosched.cli.exit_codes import Exit
from autosched.cli.log_commands import tasks_of
from autosched.cli.network_commands import add_network, load, network_file
from autosched.cli.options import Parser, add_log, add_target, file, named, positive
from autosched.cli.outputs import require_outputs
from autosched.cli.tables import number, tell
from autosched.errors import NoScheduleError


def _options(p: Parser) -> None:
    p.add_argument("what", type=named, help="a workload, a network or its ONNX file, or the directory of a log")
    add_target(p)
    add_log(p)
    add_network(p)
    p.add_argument("--alternatives", type=positive, metavar="N",
                   help="simulated per decision (default 4; 2 where there are several workloads)")
    p.add_argument("--jobs", type=positive, metavar="N",
                   help="worker processes (default: one per core; 1 where there is one workload)")
    p.add_argument("-o", "--output", type=file, required=True, metavar="FILE.html", help="the page to write")
    p.set_defaults(run=run)


OPTIONS = {"report": _options}


def run(args: argparse.Namespace) -> int:
    """Writes the page."""
    from autosched.records import Known
    from autosched.report.page import page
    from autosched.target import get_target
    from sim.files import write_bytes

    network = network_file(args.what, args)
    require_outputs(args, "output")
    target = get_target(args.target)
    whole_log = Path(args.what).is_dir()
    known = Known.open(target, args.what if whole_log else args.log)
    if whole_log:
        tasks = [(task, 1) for name, key in known.tasks(target) if (task := known.workload(name, key, target)) is not None]
    else:
        tasks = [(task, n) for task, n, _ in tasks_of(args.what, args, target, known)]
    if not any(known.bests(task.key, target.key()) for task, _ in tasks):
        command = "" if whole_log else tune_hint(args, args.what)
        raise NoScheduleError(f"no schedule of {args.what} for {target.name}", args.what, target.name, command)
    whole = None
    if not whole_log and network:
        from autosched.networks.summary import summarize

        whole = summarize(load(args.what, args).compile(args.log))
    title = args.what if whole is None else whole.name
    text = page(title, target, tasks, known, whole, args.alternatives, args.jobs).encode()
    write_bytes(Path(args.output), text)
    tell(f"{args.output}: {len(tasks)} workload{'s' if len(tasks) > 1 else ''}, {number(len(text))} bytes")
    return Exit.OK
