"""``autosched sim``: run a program file, count its cycles, check it, and say where the cycles went."""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_format, add_target, file, named, positive
from autosched.cli.outputs import require_outputs
from autosched.cli.tables import console, number, print_json, print_table, tell
from autosched.errors import ProgramError
from autosched.target import get_target

if TYPE_CHECKING:
    from sim.machine import RunResult
    from sim.program import Program
    from sim.timing import Timing


def _options(p: Parser) -> None:
    p.add_argument("file", type=file, help="a program file, as `autosched export` writes it")
    add_target(p, default=None, text="machine to run on: a preset or a JSON file, of the sizes that programs of the file are for "
               "(default the file's own)")
    p.add_argument("--only", type=named, metavar="NAME", help="run only the program of this name")
    p.add_argument("--check", action="store_true", help="also look for data races and for instructions on which VTAs disagree")
    p.add_argument("--stats", action="store_true", help="print what every unit did, and why it waited")
    p.add_argument("--gantt", action="store_true", help="print a Gantt chart")
    p.add_argument("--width", type=positive, metavar="N", help="columns of the chart (default 100, fewer on a narrow terminal)")
    p.add_argument("--timeline", type=file, metavar="FILE", help="write a Chrome trace (open it in Perfetto); one program only")
    p.add_argument("--asm", action="store_true", help="print the instructions")
    add_format(p)
    p.set_defaults(run=run)


OPTIONS = {"sim": _options}


def load(path: str, target: str | None, only: str | None) -> list[Program]:
    """The programs of a file, for the machine they name or the one that is asked for.

    Raises:
        ProgramError: a file that cannot be read, or whose programs the machine asked for does not run.
        UnknownNameError: no program of the asked name.
    """
    from sim.program import load_file

    machine = get_target(target) if target else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        programs = load_file(path, *((machine.config, machine.semantics) if machine else ()))
    for warning in caught:
        import sys

        print(f"autosched: {warning.message}", file=sys.stderr)
    if only is not None:
        names = [p.name for p in programs]
        programs = [p for p in programs if p.name == only]
        if not programs:
            from autosched.errors import UnknownNameError

            raise UnknownNameError("program", only, names)
    return programs


def run(args: argparse.Namespace) -> int:
    """Runs every program of the file."""
    from sim import machine

    require_outputs(args, "timeline")
    programs = load(args.file, args.target, args.only)
    if args.timeline and len(programs) != 1:
        raise ProgramError(f"--timeline shows one program, {args.file} has {len(programs)}; choose one with --only NAME")
    results = [machine.run(p, semantics=p.semantics, check=args.check) for p in programs]
    if args.format == "json":
        print_json([r.to_json() for r in results])
    else:
        _print(results, programs, args.check)
        for program in programs:
            _explain(program, args)
    if args.timeline:
        from sim.timeline import write_trace

        write_trace(Path(args.timeline), programs[0])
    return Exit.DIFFERS if any(r.outputs_match is False for r in results) else Exit.OK


def _print(results: list[RunResult], programs: list[Program], check: bool) -> None:
    match = {True: "match", False: "DIFFER", None: "-"}
    rows = []
    for r, p in zip(results, programs):
        claim = "-" if p.cycles is None else "equal" if p.cycles == r.cycles else f"file says {number(p.cycles)}"
        rows.append([r.name, number(len(p.table)), number(r.cycles), claim, match[r.outputs_match]]
                    + ([str(len(r.races)), str(len(r.diagnostics))] if check else []))
    columns = [("program", False), ("instructions", True), ("cycles", True), ("recorded", False), ("outputs", False)]
    print_table(columns + ([("races", True), ("findings", True)] if check else []), rows)
    for r in results:
        for race in r.races[:10]:
            print(f"{r.name}: race: {race}")
        for finding in r.diagnostics[:10]:
            print(f"{r.name}: {finding}")
        hidden = max(0, len(r.races) - 10) + max(0, len(r.diagnostics) - 10)
        if hidden:
            print(f"{r.name}: and {hidden} more")


def _explain(program: Program, args: argparse.Namespace) -> None:
    from sim import stats

    if args.asm:
        print(f"\n{program.name}:\n{program.disassemble(sram=True)}")
    if args.stats or args.gantt:
        timing = record(program)
        if args.stats:
            tell(f"\n{program.name}: {stats.summarize(timing, program.semantics).table()}")
        if args.gantt:
            print_chart(timing, args.width)


def record(program: Program) -> Timing:
    """The recorded timing of a program."""
    from sim import timing

    return timing.simulate(program.table, program.config, program.insn_address, semantics=program.semantics)


def print_chart(timing: Timing, width: int | None = None) -> None:
    """Prints the Gantt chart of a run, by default as wide as the terminal allows; the last line breaks between two signs."""
    from sim.timeline import gantt

    head, *rows, legend, _ = gantt(timing, width or _chart_width()).split("\n")
    tell(head)
    print("\n".join(rows))
    short = len(legend) <= console().width
    tell(legend if short else re.sub(r"(?<! ) (?! )", "\N{NO-BREAK SPACE}", legend))
    print()


def print_program_chart(program: Program) -> None:
    """``print_chart`` of a program by itself."""
    print_chart(record(program))


def _chart_width() -> int:
    """Columns that a chart may take so that no row of it wraps."""
    return max(10, min(100, console().width - 10))
