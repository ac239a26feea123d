"""``autosched list workloads | targets | runs``: what there is to name, and what was run."""

from __future__ import annotations

import argparse

from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_format, add_log
from autosched.cli.tables import number, percent, print_json, print_table, tell


def _options(p: Parser) -> None:
    p.add_argument("what", choices=("workloads", "targets", "runs"), help="what to list")
    add_log(p)
    add_format(p)
    p.set_defaults(run=run)


OPTIONS = {"list": _options}


def run(args: argparse.Namespace) -> int:
    """Lists."""
    rows = {"workloads": _workloads, "targets": _targets}[args.what]() if args.what != "runs" else _runs(args.log)
    if args.format == "json":
        print_json(rows)
        return Exit.OK
    if not rows:
        tell("no runs")
        return Exit.OK
    shown = [[_cell(key, value) for key, value in row.items()] for row in rows]
    print_table([(key.replace("_", " "), isinstance(value, int | float) and not isinstance(value, bool))
                 for key, value in _typical(rows).items()], shown)
    if args.what == "workloads":
        tell("\nalso any size: dense:m=,k=,n=  conv2d:h=,w=,ci=,co=,k=[,stride=,pad=]  and a program of yours: FILE.py:FUNC")
    return Exit.OK


def _typical(rows: list[dict[str, object]]) -> dict[str, object]:
    """Per column a value that is there, for its kind."""
    return {key: next((row[key] for row in rows if row[key] is not None), None) for key in rows[0]}


def _cell(key: str, value: object) -> str:
    if key == "gap":
        return percent(value if isinstance(value, float) else None)
    if key == "seed":
        return str(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, int):
        return number(value)
    return str(value)


def _workloads() -> list[dict[str, object]]:
    from autosched.workloads import names, network, networks, workload

    rows: list[dict[str, object]] = [
        {"workload": n, "what": (task := workload(n)).spec, "products": task.macs} for n in names()]
    for name in networks():
        tasks = network(name).tasks
        rows.append({"workload": name, "what": f"network of {sum(n for _, n in tasks)} layers, {len(tasks)} of them different",
                     "products": sum(task.macs * n for task, n in tasks)})
    return rows


def _targets() -> list[dict[str, object]]:
    from sim.presets import TARGETS

    return [{"target": t.name, "semantics": t.semantics, "bus_bytes": t.config.bus_bytes, "burst": t.config.burst_beats,
             "clock_MHz": t.config.clock_mhz, "verified": t.verified, "extrapolated": t.extrapolated} for t in TARGETS.values()]


def _runs(log: str | None) -> list[dict[str, object]]:
    from autosched.records import Log, history

    return [{"run": d.run.run, "workload": d.run.name, "target": d.run.target, "seed": d.run.seed, "simulated": d.trials,
             "failed": d.failed, "cycles": d.cycles, "bound": d.bound, "gap": d.gap, "checked": d.verified}
            for d in history(Log.open(log, must_exist=True))]
