"""From a record to a program that runs; none of the search's libraries are needed."""

from __future__ import annotations

from pathlib import Path

from autosched.errors import RecordError
from autosched.ir.stmt import PrimFunc
from autosched.ir.structural import structural_hash
from autosched.kernel import Kernel, build, resolve
from autosched.records.log import Log
from autosched.records.record import BestRecord
from autosched.target import Target, get_target
from autosched.workloads import Workload
from tuning_logs import shipped


def version() -> str:
    """Version of lowering and simulator; cycles are comparable only within one."""
    import sim
    from autosched import lower

    return f"{lower.VERSION}.{sim.VERSION}"


def find_best(func: PrimFunc, target: Target, log: str | Path | None = None) -> BestRecord | None:
    """The best record of a program on a target.

    Args:
        func: the program.
        target: the machine.
        log: the only place to look when given; else the default log and the shipped records, the best wins.

    Raises:
        RecordError: ``log`` does not exist.
    """
    keys = structural_hash(func), target.key()
    places = [Log.open(log, must_exist=True)]
    if log is None:
        path = shipped(target.name)
        places += [Log(path.parent, (path,))] if path is not None else []
    for wanted in (version(), None):
        found = [r for place in places if (r := place.best(*keys, wanted)) is not None]
        if found:
            return min(found, key=lambda r: r.cycles)
    return None


def best_or_fail(task: Workload, target: Target, log: str | Path | None = None) -> BestRecord:
    """``find_best``, or an error that says what to run.

    Raises:
        RecordError: nothing is known of this workload on this target.
    """
    record = find_best(task.func, target, log)
    if record is None:
        where = f"in {log}" if log is not None else "in the default log or among the shipped records"
        raise RecordError(f"no schedule of {task.name} for {target.name} {where}; run: autosched tune {task.name} "
                          f"--target {target.name}")
    return record


def compile(  # the name users expect
    name: str | Workload | PrimFunc, target: str | Target = "vta-de10", log: str | Path | None = None
) -> Kernel:
    """The best logged schedule of a workload as a callable.

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
    task = resolve(name, machine)
    record = best_or_fail(task, machine, log)
    return build(task, machine, record.trace)
