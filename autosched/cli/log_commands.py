"""``autosched best | show | apply | export``: what the log knows, and using it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autosched.cli.commands import tune_hint
from autosched.cli.exit_codes import Exit
from autosched.cli.host_work import host_work, tell_host_work
from autosched.cli.network_commands import add_network, is_network, network_file, read_arrays, require_archive, store_arrays
from autosched.cli.network_commands import export as export_network
from autosched.cli.network_commands import load as load_network
from autosched.cli.options import Parser, add_format, add_log, add_target, file, named, parse_pairs, seed
from autosched.cli.outputs import require_outputs
from autosched.cli.tables import number, percent, print_json, print_table, tell, tell_alike
from autosched.errors import NoScheduleError, ProgramError, UnknownNameError
from autosched.ir.interp import written
from autosched.kernel import Kernel
from autosched.measure import gap
from autosched.records import BestRecord, Known, best_or_fail, version
from autosched.target import Target, get_target
from autosched.workloads import Workload, network, networks, workload
from sim.markup import plain

VIEWS = ("script", "trace", "python", "asm", "gantt")


def _best_options(p: Parser) -> None:
    p.add_argument("workload", type=named, nargs="?", help="a workload or network; default: every workload in the log")
    add_target(p)
    add_log(p)
    add_network(p)
    p.add_argument("--verbose", action="store_true", help="say why lines of the log were skipped")
    add_format(p)
    p.set_defaults(run=best)


def _show_options(p: Parser) -> None:
    p.add_argument("workload", type=named)
    add_target(p)
    add_log(p)
    p.add_argument("--as", dest="view", choices=VIEWS, default="script", help="what to show (default script)")
    p.set_defaults(run=show)


def _apply_options(p: Parser) -> None:
    p.add_argument("workload", type=named)
    add_target(p)
    add_log(p)
    p.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input tensor; default random")
    p.add_argument("--output", type=file, metavar="FILE.npy", help="where to write the result (.npz for several)")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="of the random inputs (default 0)")
    add_format(p)
    p.set_defaults(run=apply)


def _export_options(p: Parser) -> None:
    p.add_argument("workload", type=named)
    add_target(p)
    add_log(p)
    add_network(p)
    p.add_argument("-o", "--output", type=file, required=True, metavar="FILE", help="the program file to write")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="of the random inputs (default 0)")
    add_format(p)
    p.set_defaults(run=export)


OPTIONS = {"best": _best_options, "show": _show_options, "apply": _apply_options, "export": _export_options}


def logged_workload(name: str, args: argparse.Namespace, target: Target, known: Known) -> Workload:
    """What an argument names; for a network's layer, or where a file is gone, the program that the log keeps under its name.

    Args:
        name: the argument.
        args: the command's, whose flags a hint repeats.
        target: the machine.
        known: the log.
    """
    file, mark, _ = name.rpartition(".py:")
    if mark and not Path(f"{file}.py").expanduser().exists() and (stored := known.stored(name)) is not None:
        return stored
    logged = [n for n, _ in known.tasks(target)]
    if is_network(name):
        layers = [n for n in logged if n.startswith(f"{Path(name.strip()).stem}.")]
        do = f"name one of its layers: {', '.join(layers)}"
        if not layers:
            do = f"none of its layers is logged; run: {tune_hint(args, name)}"
        raise ProgramError(f"{name!r} is a network, not one workload; {do}")
    try:
        return workload(name, target.config.batch, target.config.block_in)
    except UnknownNameError as error:
        if (stored := known.stored(name)) is not None:
            return stored
        near = {n for n in logged if n.partition(".")[0] == name.partition(".")[0]}
        if not near:
            raise
        raise UnknownNameError("workload", name, sorted(near)) from error


def tasks_of(
    name: str, args: argparse.Namespace, target: Target, known: Known
) -> list[tuple[Workload, int, tuple[str, ...]]]:
    """The workloads of an argument with their multiplicities, and the layers of its file that they are: those of a network or of
    its file, or the one that it names.

    Args:
        name: the argument.
        args: the command's, for ``--rounding`` and ``--shape`` where it has them, and for hints.
        target: the machine.
        known: the log.
    """
    if is_network(name):
        return [(t.workload, len(t.layers), t.layers) for t in load_network(name, args).tasks]
    if name in networks():
        return [(task, n, ()) for task, n in network(name, target.config.batch, target.config.block_in).tasks]
    return [(logged_workload(name, args, target, known), 1, ())]


def best_of(args: argparse.Namespace) -> tuple[Workload, Target, BestRecord, Kernel]:
    """What a command works on: the workload, the machine, and the best schedule that holds."""
    target = get_target(args.target)
    known = Known.open(target, args.log)
    task = logged_workload(args.workload, args, target, known)
    try:
        return task, target, *best_or_fail(task, target, known)
    except NoScheduleError as error:
        # The hint repeats the flags that found nothing.
        raise NoScheduleError(error.what, error.workload, error.target, tune_hint(args, args.workload)) from error


def best(args: argparse.Namespace) -> int:
    """Prints the best records."""
    network_file(args.workload or "", args)
    target = get_target(args.target)
    known = Known.open(target, args.log)
    asked = tasks_of(args.workload, args, target, known) if args.workload else []
    layers = {t.name: own for t, _, own in asked}
    tasks = [(t.name, t.key, n) for t, n, _ in asked] if args.workload else [(name, key, 1) for name, key in known.tasks(target)]
    found = [(name, n, known.best(key, target.key())) for name, key, n in tasks]
    missing = sum(r is None for _, _, r in found)
    spoilt = [(place, place.damage) for place in known.places if place.damage] if missing and missing == len(found) else []
    if spoilt and not args.verbose:
        # What was asked for may be in what cannot be read: that is all there is to say.
        names = args.workload or ", ".join(name for name, *_ in found) or "anything"
        said = "; ".join(f"{len(faults)} damaged line(s) were skipped, the first of them {faults[0]}" for _, faults in spoilt)
        print(plain(f"autosched: nothing is logged for {names} on {target.name}: {said}"), file=sys.stderr)
        if args.format == "json":
            print_json([_best_json(name, n, layers.get(name, ()), r) for name, n, r in found])
        return Exit.NO_SCHEDULE
    _print_damage(known, args.verbose)
    if args.format == "json":
        print_json([_best_json(name, n, layers.get(name, ()), r) for name, n, r in found])
    else:
        # A file's layers stand beside those that do the work of two: their sum is nothing's.
        _print_best(found, target, total=not is_network(args.workload or ""))
        tell_alike(layers.items())
    if missing and missing == len(found):
        # Where none is asked for, each of these has a schedule that was withdrawn.
        names = args.workload or ", ".join(name for name, *_ in found)
        what = "nothing" if args.workload else "nothing that holds"
        hint = tune_hint(args, args.workload or found[0][0])
        print(plain(f"autosched: {what} is logged for {names} on {target.name}; run: {hint}"), file=sys.stderr)
        return Exit.NO_SCHEDULE
    return Exit.PARTIAL if missing else Exit.OK


def _print_damage(known: Known, verbose: bool) -> None:
    damage = [(place, place.damage) for place in known.places]
    for place, faults in damage:
        if faults:
            hint = "" if verbose else " (--verbose says why)"
            print(plain(f"autosched: {len(faults)} damaged line(s) in {place.directory} were skipped{hint}"), file=sys.stderr)
        for fault in faults if verbose else ():
            print(plain(f"  {fault}"), file=sys.stderr)


def _best_json(name: str, multiplicity: int, layers: Sequence[str], record: BestRecord | None) -> dict[str, Any]:
    base: dict[str, Any] = {"workload": name, "multiplicity": multiplicity, **({"layers": list(layers)} if layers else {})}
    if record is None:
        return {**base, "cycles": None}
    return {**base, "target": record.target, "cycles": record.cycles, "bound": record.bound, "gap": record.gap,
            "space_bound": record.space_bound, "machine_bound": record.machine_bound, "version": record.version,
            "verified": record.checked == "yes", "run": record.run, "point": list(record.point), "trace": list(record.trace)}


def _checked(record: BestRecord) -> str:
    if record.version != version():
        return f"by version {record.version}"
    return record.checked


def _print_best(found: list[tuple[str, int, BestRecord | None]], target: Target, total: bool) -> None:
    rows, cycles, floor = [], 0, 0
    for task, n, r in found:
        name = task + (f" x{n}" if n > 1 else "")
        if r is None:
            rows.append([name, "-", "-", "-", "-", "-", "-"])
            continue
        cycles, floor = cycles + r.cycles * n, floor + r.bound * n
        ms = r.cycles / (target.config.clock_mhz * 1e3)
        rows.append([name, number(r.cycles), number(r.bound), percent(r.gap), f"{ms:.3f}", _checked(r), r.run])
    footer = []
    if total and len(found) > 1 and all(r is not None for _, _, r in found):
        footer = ["total", number(cycles), number(floor), percent(gap(cycles, floor)),
                  f"{cycles / (target.config.clock_mhz * 1e3):.3f}", "", ""]
    print_table([("workload", False), ("cycles", True), ("bound", True), ("gap", True),
                 (f"ms at {target.config.clock_mhz} MHz", True), ("checked", False), ("run", False)], rows, footer)


def show(args: argparse.Namespace) -> int:
    """Prints one view of the best schedule."""
    from autosched.schedule import Trace

    _, _, record, kernel = best_of(args)
    if args.view == "trace":
        print(json.dumps(list(record.trace), indent=1))
    elif args.view == "python":
        print("\n".join(Trace.from_json(list(record.trace)).as_python()))
    elif args.view == "script":
        print(kernel.schedule.script())
    elif args.view == "asm":
        print(kernel.program.disassemble(sram=True))
    else:
        from autosched.cli.sim_command import print_program_chart

        print_program_chart(kernel.program)
    return Exit.OK


def apply(args: argparse.Namespace) -> int:
    """Runs the best schedule and compares with the reference."""
    import numpy as np

    require_outputs(args, "output")
    task, target, _, kernel = best_of(args)
    outputs = [b.name for b in written(task.func)]
    require_archive(args.output, outputs)
    inputs = list(task.inputs(args.seed))
    names = [b.name for b in kernel.inputs]
    for name, path in parse_pairs(args.input, "--input").items():
        if name not in names:
            raise UnknownNameError("input", name, names)
        data = read_arrays(path)
        if isinstance(data, dict):
            held = ", ".join(data) or "nothing"
            raise ProgramError(f"input {name}: {path} is an archive of {held}; give one array, a .npy file")
        inputs[names.index(name)] = data
    made = kernel(*inputs)
    results = dict(zip(outputs, made if isinstance(made, tuple) else (made,), strict=True))
    packed = all(np.ndim(a) == b.ndim for a, b in zip(inputs, kernel.inputs))
    expected = task.results(*inputs) if packed else {}
    equal = all(np.array_equal(results[name], expected[name]) for name in outputs) if packed else None
    if args.output:
        store_arrays(args.output, results)
    if args.format == "json":
        only = results[outputs[0]] if len(outputs) == 1 else None
        print_json({"workload": task.name, "target": target.name, "cycles": kernel.cycles,
                    "dtype": None if only is None else str(only.dtype), "shape": None if only is None else list(only.shape),
                    "outputs": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in results.items()},
                    "bit_equal": equal, "host_work": [asdict(w) for w in host_work(kernel, inputs)]})
        return _agreed(equal)
    verdict = {True: ", bit-equal to the reference", False: ", NOT equal to the reference", None: ""}[equal]
    types = {name: f"{a.dtype}{list(a.shape)}" for name, a in results.items()}
    told = f"output {types[outputs[0]]}" if len(types) == 1 else "outputs " + ", ".join(f"{n} {t}" for n, t in types.items())
    tell(f"{task.name} on {target.name}: {number(kernel.cycles)} cycles, {told}{verdict}")
    tell_host_work(kernel, inputs)
    return _agreed(equal)


def _agreed(equal: bool | None) -> Exit:
    return Exit.DIFFERS if equal is False else Exit.OK


def export(args: argparse.Namespace) -> int:
    """Writes the program file of the best schedule, with inputs and expected outputs."""
    from sim.program import dump_file

    is_file = network_file(args.workload, args)
    require_outputs(args, "output")
    if is_file:
        return export_network(args)
    task, target, _, kernel = best_of(args)
    inputs = task.inputs(args.seed)
    expected = task.results(*inputs)
    named = {b.name: a for b, a in zip(kernel.inputs, inputs)}
    program = kernel.lowered.program(named, expected, kernel.cycles)
    path = Path(args.output)
    dump_file(path, [replace(program, name=task.name)])
    size = path.stat().st_size
    if args.format == "json":
        print_json({"file": str(path), "workload": task.name, "target": target.name, "instructions": len(program.table),
                    "cycles": kernel.cycles, "bytes": size})
        return Exit.OK
    tell(f"{path}: {task.name} for {target.name}, {len(program.table)} instructions, {number(kernel.cycles)} cycles, "
          f"{number(size)} bytes")
    return Exit.OK
