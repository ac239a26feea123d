"""From a record to a program that runs; none of the search's libraries are needed."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autosched.errors import AutoschedError, NoScheduleError, RecordError
from autosched.ir.stmt import PrimFunc
from autosched.ir.structural import structural_hash
from autosched.kernel import Kernel, build, resolve
from autosched.measure import Candidate, measure
from autosched.records.log import Log
from autosched.records.record import BestRecord, ProgramRecord, by_number
from autosched.target import Target, get_target
from autosched.workloads import Workload, named_workload, of_func
from tuning_logs import shipped

DEFAULT = "vta-de10"  # the machine where none is named

def version() -> str:
    """Version of lowering and simulator; cycles are comparable only within one."""
    import sim
    from autosched import lower

    return f"{lower.VERSION}.{sim.VERSION}"


class Known:
    """What is known of schedules for a target: a log, and the shipped records where no log was named.

    Args:
        places: where to look, the first is the user's own log.
    """

    def __init__(self, places: tuple[Log, ...]) -> None:
        self.places = places

    @staticmethod
    def open(target: Target, log: str | Path | Log | None = None) -> Known:
        """Reads everything once.

        Args:
            target: the machine.
            log: the only place to look when given; else the default log and the shipped records.

        Raises:
            RecordError: ``log`` does not exist.
        """
        places = [log if isinstance(log, Log) else Log.open(log, must_exist=True)]
        path = shipped(target.name)
        if log is None and path is not None:
            places.append(Log(path.parent, (path,)))
        return Known(tuple(places))

    def best(self, workload: str, hardware: str) -> BestRecord | None:
        """The first of ``bests``, or None where there is none."""
        now = version()
        found = [r for place in self.places if (r := place.first(workload, hardware, now)) is not None]
        return min(found, key=_order(now), default=None)

    def bests(self, workload: str, hardware: str) -> list[BestRecord]:
        """The best schedules of a task: those of this version, then the newest; fewest cycles first; checked before unchecked."""
        now = version()
        found = [r for place in self.places for r in place.bests(workload, hardware, now)]
        return sorted(found, key=_order(now))

    def tasks(self, target: Target) -> list[tuple[str, str]]:
        """(name, key of the program) of all that has a best schedule on a target, by name.

        A name is what a writer called its program. Where it stands for another program, or for none without somebody's file,
        the key's first digits follow it.
        """
        found: dict[str, str] = {}
        for place in self.places:
            for name, key, hardware in place.tasks():
                if hardware == target.key():
                    found.setdefault(key, name)
        return sorted((self._label(name, key, target), key) for key, name in found.items())

    def _label(self, name: str, key: str, target: Target) -> str:
        task = self.workload(name, key, target)
        return name if task is not None else f"{name} ({key[:8]})"

    def workload(self, name: str, key: str, target: Target) -> Workload | None:
        """A logged workload: the one of its name, or its program as the log has it; nobody's file is opened.

        Args:
            name: as logged.
            key: of its program; whatever the name gives must have it.
            target: the machine whose layout counts.
        """
        try:
            task = named_workload(name, target.config.batch, target.config.block_in)
        except AutoschedError:
            task = None
        if task is not None and task.key == key:
            return task
        stored = [p for place in self.places if (p := place.program(key)) is not None]
        for record in stored:
            try:
                return parsed(record)
            except RecordError:
                continue
        return None


    def stored(self, name: str) -> Workload | None:
        """The program that the log keeps under a name, e.g. because the user's file is gone; None where it keeps none."""
        for place in self.places:
            for key in place.named(name.strip()):
                if (record := place.program(key)) is not None:
                    return parsed(record)
        return None


def _order(now: str) -> Callable[[BestRecord], tuple[object, ...]]:
    """What comes first among records of a task: this version, then the newest; fewest cycles; what was checked."""
    return lambda r: (r.version != now, [-n for n in by_number(r.version)], r.cycles, not r.verified)


def parsed(record: ProgramRecord) -> Workload:
    """The workload of a stored program; its script is parsed, nothing is run.

    Raises:
        RecordError: the script is none, or is another program than it says.
    """
    from autosched.script import parse

    try:
        func = parse(record.script)
    except AutoschedError as error:
        raise RecordError(f"the stored program of {record.name}: {error}") from error
    if not isinstance(func, PrimFunc) or structural_hash(func) != record.workload:
        raise RecordError(f"the stored program of {record.name} is not the one that it says")
    return of_func(func, record.name)


def find_best(func: PrimFunc, target: Target, log: str | Path | Log | Known | None = None) -> BestRecord | None:
    """The best record of a program on a target, as it stands in the log.

    Args:
        func: the program.
        target: the machine.
        log: the only place to look when given; else the default log and the shipped records, the best wins.

    Raises:
        RecordError: ``log`` does not exist.
    """
    known = log if isinstance(log, Known) else Known.open(target, log)
    return known.best(structural_hash(func), target.key())


def best_or_fail(
    task: Workload, target: Target, log: str | Path | Log | Known | None = None
) -> tuple[BestRecord, Kernel]:
    """The best schedule that holds what its record says, and its kernel.

    A record that says it was checked, by this version, is built and must give its program and its cycles. Any other is executed
    and compared with the reference first; what comes of it is added to the log that it came from. A record that does not hold is
    passed over with a warning.

    Args:
        task: the workload.
        target: the machine.
        log: as in ``find_best``.

    Raises:
        NoScheduleError: nothing is known of this workload on this target; says what to run.
    """
    known = log if isinstance(log, Known) else Known.open(target, log)
    records = known.bests(task.key, target.key())
    for record in records:
        try:
            if record.version != version() or not record.verified:
                record = _checked(task, target, record, known)
            return record, _built(task, target, record, known)
        except RecordError as error:
            warnings.warn(f"a logged schedule of {task.name} was passed over: {error}", stacklevel=2)
    where = f"in {known.places[0].directory}" if len(known.places) == 1 else "in the default log or among the shipped records"
    what = f"no schedule of {task.name} for {target.name} {where}" + (" that holds" if records else "")
    raise NoScheduleError(what, task.name, target.name)


def _built(task: Workload, target: Target, record: BestRecord, known: Known) -> Kernel:
    """The kernel of a checked record.

    Raises:
        RecordError: this version refuses its trace, or it gives another program or other cycles than it says.
    """
    try:
        kernel = build(task, target, record.trace)
    except AutoschedError as error:
        said = " ".join(str(error).split("\n")[0].split())
        _tell(known, record, replace(record, verified=False, reason=said))
        raise RecordError(said) from error
    if (kernel.hash, kernel.cycles) != (record.program, record.cycles):
        said = f"it says {record.cycles} cycles, its trace gives {kernel.cycles}"
        if kernel.hash != record.program:
            said += " and another program"
        _tell(known, record, replace(record, verified=False, reason=said))
        raise RecordError(said)
    return kernel


def _checked(task: Workload, target: Target, record: BestRecord, known: Known) -> BestRecord:
    """A record after its check by this version, which its log is told of.

    Raises:
        RecordError: its program fails, or computes something else.
    """
    result = measure(Candidate(task, target, record.trace), execute=True, wide=True)
    of = replace(record.of, version=version())
    if result.cycles is None or result.program is None:
        if result.status != "environment":
            _tell(known, record, replace(record, of=of, verified=False, reason=f"{result.status}: {result.reason}"))
        raise RecordError(f"{result.status}: {result.reason}")
    checked = replace(record, of=of, verified=True, cycles=result.cycles, program=result.program)
    _tell(known, record, checked)
    return checked


def _tell(known: Known, record: BestRecord, checked: BestRecord) -> None:
    """Adds the outcome of a check to the log that the record is in; where that cannot be written, the next use checks again."""
    place = known.places[0]
    if record not in place.bests(record.workload, record.hardware):
        return  # a shipped one
    try:
        with place.writer(replace(checked.of, asked={"check": record.run})) as writer:
            writer.append(checked)
    except RecordError:
        return


def compile(  # the name users expect
    name: str | Workload | PrimFunc, target: str | Target = DEFAULT, log: str | Path | Log | None = None
) -> Kernel:
    """The best logged schedule of a workload as a callable; a schedule that nobody has checked yet is checked first.

    Args:
        name: the workload, its name, or a program.
        target: the machine.
        log: as in ``find_best``.

    Raises:
        RecordError: nothing is logged for it.
        UnknownNameError: an unknown workload or target.
        BadArgumentError: something else than a workload.
    """
    machine = get_target(target)
    try:
        return best_or_fail(resolve(name, machine), machine, log)[1]
    except NoScheduleError as error:
        raise NoScheduleError(error.what, error.workload, error.target, _tune(name, target, log)) from error


def _tune(name: str | Workload | PrimFunc, target: str | Target, log: str | Path | Log | None) -> str:
    """What finds a schedule where ``compile`` will look for it: a command, or for what has no name a call."""
    directory = log.directory if isinstance(log, Log) else log
    if not isinstance(name, str):
        given = [] if str(target) == DEFAULT else ["target=..."]
        return f"autosched.tune({', '.join(['...', *given, *([] if directory is None else [f'log={str(directory)!r}'])])})"
    words = ["autosched", "tune", name] + (["--target", str(target)] if str(target) != DEFAULT else [])
    return shlex.join(words + ([] if directory is None else ["--log", str(directory)]))
