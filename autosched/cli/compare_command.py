"""``autosched compare A B``: what differs between two schedules, program files, machines or logs, and what it is worth."""

from __future__ import annotations

import argparse
import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.cli.exit_codes import Exit
from autosched.cli.log_commands import best_of
from autosched.cli.options import Parser, add_format, add_log, add_target, named
from autosched.cli.tables import number, percent, print_json, print_table, tell
from autosched.errors import ProgramError, UnknownNameError, suggest

if TYPE_CHECKING:
    from autosched.kernel import Kernel
    from autosched.records import BestRecord
    from autosched.report.worth import Step
    from autosched.target import Target
    from autosched.workloads import Workload
    from sim.program import Program
    from space import Space


def _options(p: Parser) -> None:
    p.add_argument("first", type=named, metavar="A",
                   help="WORKLOAD[@TARGET][@LOGDIR], a program file, a target, or the directory of a log")
    p.add_argument("second", type=named, metavar="B", help="likewise, of the same kind")
    add_target(p)
    add_log(p)
    add_format(p)
    p.set_defaults(run=compare)


OPTIONS = {"compare": _options}


@dataclass(frozen=True)
class Side:
    """What an argument names.

    Args:
        title: how it is called.
        figures: its figures by name.
        run: those of its instructions alone.
        schedule: (workload, target, best record), where it is the best schedule of a workload.
    """

    title: str
    figures: dict[str, int]
    run: dict[str, int]
    schedule: tuple[Workload, Target, BestRecord] | None = field(default=None)


def compare(args: argparse.Namespace) -> int:
    """Prints what differs."""
    kinds = _kind(args.first), _kind(args.second)
    if "log" in kinds and kinds[0] == kinds[1]:
        return _logs(args)
    if "target" in kinds and kinds[0] == kinds[1]:
        return _machines(args)
    for text, kind in zip((args.first, args.second), kinds):
        if kind in ("log", "target"):
            for other, form in zip((args.first, args.second), kinds):
                if form == "program":
                    # One that cannot be read says so, whatever it was meant to be.
                    _programs(other)
            raise ProgramError(f"{text} is a {kind}, the other one is none; compare two of a kind")
    return _schedules(args)


def _kind(text: str) -> str:
    """Whether an argument is a log, a target, a program file, or a schedule."""
    from sim.files import read_bytes
    from sim.presets import TARGETS

    path = Path(text)
    if path.is_dir():
        return "log"
    if text in TARGETS:
        return "target"
    if path.suffix != ".json":
        return "schedule"
    if not path.exists():
        name, places = _places(text)
        if places and (".py:" in name or not set(name) & set("/\\")):
            return "schedule"  # on the target of a file
        near = [str(p) for p in path.parent.glob("*.json")] if path.parent.is_dir() else []
        raise ProgramError(f"no file {text}{suggest(text, near)}")
    if not path.is_file():
        return "target"  # a pipe, say, which is refused as one
    try:
        data = json.loads(read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError):
        return "program"
    return "program" if not isinstance(data, dict) or "programs" in data else "target"


# -- schedules and program files ----------------------------------------------------------------------------------------


def _schedules(args: argparse.Namespace) -> int:
    from autosched.report import compare as differences

    one, two = _side(args.first, args), _side(args.second, args)
    # A program file says nothing of buffers, tensors and bounds.
    common = {n for side in (one, two) if side.schedule is None for n in (*one.run, *two.run)}
    found = [d for d in differences(one.figures, two.figures) if not common or d.what in common]
    steps = _decisions(one, two)
    if args.format == "json":
        print_json({"first": one.title, "second": two.title, "differences": [{**asdict(d), "change": d.change} for d in found],
                    "decisions": [asdict(s) for s in steps]})
        return Exit.OK
    if not found and not steps:
        tell(f"{one.title} and {two.title}: no figure differs")
        return Exit.OK
    print_table([("figure", False), ("A", True), ("B", True), ("B - A", True)],
                [[d.what, number(d.first), number(d.second), number(d.change)] for d in found])
    if steps:
        tell("\nA with one decision of B at a time")
        _print_steps("decision", steps)
    tell(f"\nA: {one.title}\nB: {two.title}")
    return Exit.OK


def _side(text: str, args: argparse.Namespace) -> Side:
    from autosched.report import account, figures, of_run

    if _kind(text) == "program":
        from autosched.cli.sim_command import record
        from sim.stats import summarize

        programs = _programs(text)
        if len(programs) != 1:
            raise ProgramError(f"{text} has {len(programs)} programs; compare takes files of one")
        program = programs[0]
        ran = of_run(summarize(record(program), program.semantics))
        return Side(f"{text}: {program.name}", ran, ran)
    name, places = _places(text)
    if not all(part.strip() for part in (name, *places)):
        raise ProgramError(f"{text!r}: expected WORKLOAD[@TARGET][@LOGDIR], and nothing stands on a side of an @")
    name, chosen, (task, target, best, kernel) = _best(text, name, places, args)
    title = f"{name} on {target.name}" + (f", log {chosen.log}" if chosen.log else "")
    found = account(kernel)
    return Side(title, figures(found), of_run(found.stats), (task, target, best))


def _best(
    text: str, name: str, places: list[str], args: argparse.Namespace
) -> tuple[str, argparse.Namespace, tuple[Workload, Target, BestRecord, Kernel]]:
    """The workload that an argument names, the flags that hold for it, and its best schedule.

    A layer has the name of its network's file, which may have an @: where one that is shorter names nothing, what follows belongs
    to it.
    """
    from autosched.target import get_target

    # A flag holds for both; what follows an @ holds for one.
    chosen = argparse.Namespace(**{**vars(args), "workload": name})
    folders = [place for place in places if Path(place).is_dir()]
    targets = [place for place in places if place not in folders]
    chosen.log, chosen.target = [args.log, *folders][-1], [args.target, *targets][-1]
    try:
        if len(targets) > 1 or len(folders) > 1:
            for place in targets:
                get_target(place)
            raise ProgramError(f"{text!r}: expected WORKLOAD[@TARGET][@LOGDIR], and two are named of one")
        return name, chosen, best_of(chosen)
    except UnknownNameError:
        if not places:
            raise
        with suppress(UnknownNameError):  # what the shortest lacks is said
            return _best(text, f"{name}@{places[0]}", places[1:], args)
        raise


def _places(text: str) -> tuple[str, list[str]]:
    """The name of a workload, and what follows it behind an @ each."""
    # A path may have an @, which no name of a function has.
    own = re.match(r".*\.py:[^:/\\@]*", text)
    name, *places = [own[0], *text[own.end():].split("@")[1:]] if own else text.split("@")
    return name, places


def _programs(path: str) -> list[Program]:
    from autosched.cli.sim_command import load

    return load(path, None, None)


def _decisions(one: Side, two: Side) -> list[Step]:
    """What the decisions that differ are worth, where both are points of the same space."""
    from autosched.report.ablation import decided
    from autosched.report.worth import decisions
    from space import Space

    if one.schedule is None or two.schedule is None:
        return []
    (task, target, first), (other, machine, second) = one.schedule, two.schedule
    if task.key != other.key:
        return []
    space = Space(task.func, target)
    theirs = space if machine == target else Space(other.func, machine)
    # What fits the second machine need not fit the first, and has decisions that are worth something there all the same.
    alike = space.names == theirs.names and _forms(space) == _forms(theirs)
    here, there = decided(space, first)[0], decided(theirs if alike else space, second)[0]
    if not here or len(here) != len(there):
        return []
    return decisions(task, target, here, there, first.cycles)


def _forms(space: Space) -> list[list[dict[str, Any]]]:
    """The forms of a space's program, in the order of their numbers."""
    return [sketch.prefix.as_json() for sketch in space.sketches]


def _print_steps(what: str, steps: list[Step]) -> None:
    print_table(
        [(what, False), ("A", False), ("B", False), ("cycles", True), ("worth", True), ("with it", False)],
        [[s.what, _cell(s.first), _cell(s.second), number(s.cycles), number(s.difference), ", ".join(s.others) or s.why or "-"]
         for s in steps])


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


# -- machines -----------------------------------------------------------------------------------------------------------


def _machines(args: argparse.Namespace) -> int:
    from autosched.records import Known
    from autosched.report.worth import machines
    from autosched.target import get_target

    first, second = get_target(args.first), get_target(args.second)
    known = Known.open(first, args.log)
    tasks = []
    for name, key in known.tasks(first):
        task, best = known.workload(name, key, first), known.best(key, first.key())
        if task is not None and best is not None:
            tasks.append((task, best.trace, best.cycles))
    steps = machines(first, second, tasks)
    if args.format == "json":
        print_json({"first": first.name, "second": second.name, "workloads": [task.name for task, *_ in tasks],
                    "fields": [asdict(s) for s in steps]})
        return Exit.OK
    if not steps:
        tell(f"{first.name} and {second.name}: no field differs")
        return Exit.OK
    total = sum(cycles for *_, cycles in tasks)
    tell(f"{first.name} with one field of {second.name} at a time, on the best schedules of {len(tasks)} workloads, "
         f"{number(total)} cycles together")
    _print_steps("field", steps)
    return Exit.OK


# -- logs ---------------------------------------------------------------------------------------------------------------


def _logs(args: argparse.Namespace) -> int:
    from autosched.records import Log, version

    logs = [Log.open(path, must_exist=True) for path in (args.first, args.second)]
    names = {(key, hardware): name for log in logs for name, key, hardware in log.tasks()}
    counts = [log.counts() for log in logs]
    rows: list[dict[str, Any]] = []
    for task, name in sorted(names.items(), key=lambda item: item[1]):
        bests = [log.first(*task, version()) for log in logs]
        trials = [sum(n for (*of, _), n in count.items() if tuple(of) == task) for count in counts]
        known = next(b for b in bests if b is not None)
        a, b = (None if best is None else best.cycles for best in bests)
        change = None if a is None or b is None else b - a
        rows.append({"workload": name, "target": known.target, "first": a, "second": b, "change": change,
                     "relative": None if change is None or not a else change / a, "trials": trials})
    if args.format == "json":
        print_json({"first": args.first, "second": args.second, "workloads": rows})
        return Exit.OK
    if not rows:
        tell("nothing is logged")
        return Exit.OK
    print_table(
        [("workload", False), ("target", False), ("A", True), ("B", True), ("B - A", True), ("of A", True), ("trials A", True),
         ("trials B", True)],
        [[str(r["workload"]), str(r["target"]), number(r["first"]), number(r["second"]), number(r["change"]),
          percent(r["relative"]), *(number(n) for n in r["trials"])] for r in rows])
    both = [r for r in rows if r["change"] is not None]
    if both:
        totals = [sum(r[side] for r in both) for side in ("first", "second")]
        tell(f"\n{len(both)} workloads in both: {number(totals[0])} cycles in A, {number(totals[1])} in B")
    return Exit.OK
