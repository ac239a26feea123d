"""A kernel of a file. It is not believed, and nothing in it is run: the name of a built-in workload, or a script to parse."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, TypeVar

from autosched.errors import AutoschedError, ProgramError
from autosched.ir.stmt import PrimFunc
from autosched.ir.structural import structural_hash
from autosched.kernel.kernel import FORMAT, Kernel, build
from autosched.target import Target
from autosched.target.target import check_machine
from autosched.workloads import Workload, named_workload, of_func
from sim.config import SEMANTICS, VTAConfig
from sim.errors import SimError

T = TypeVar("T")


def load(path: Path) -> Kernel:
    """A kernel that ``Kernel.save`` wrote.

    Raises:
        ProgramError: not such a file, or damaged; the line names the field.
        ScheduleError, LoweringError: this version refuses the schedule.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProgramError(f"kernel file {path}: {error.strerror}") from error
    except RecursionError:
        raise ProgramError(f"kernel file {path}: nested too deep") from None
    except ValueError as error:
        raise ProgramError(f"kernel file {path}: not JSON: {str(error).split(';')[0]}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ProgramError(f"kernel file {path}: not a kernel saved by autosched")
    try:
        task, target = _workload(_field(data, "workload", dict)), _target(_field(data, "target", dict))
        trace, cycles, program = _field(data, "trace", list), _field(data, "cycles", int), _field(data, "program", str)
    except (AutoschedError, SimError) as error:
        raise ProgramError(f"kernel file {path}: damaged: {error}") from error
    kernel = build(task, target, trace)
    if kernel.hash != program:
        warnings.warn(f"kernel {path} was compiled by another version: {cycles} cycles then, {kernel.cycles} now", stacklevel=4)
    return kernel


def _field(obj: dict[str, Any], name: str, kind: type[T]) -> T:
    value = obj.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        found = "missing" if name not in obj else f"a {type(value).__name__}"
        raise ProgramError(f"field {name!r} is {found}, expected a {kind.__name__}")
    return value


def _target(saved: dict[str, Any]) -> Target:
    name, semantics = _field(saved, "name", str), _field(saved, "semantics", str)
    if semantics not in SEMANTICS:
        raise ProgramError(f"semantics {semantics[:40]!r} is none of {', '.join(SEMANTICS)}")
    config = VTAConfig.from_json(_field(saved, "config", dict))
    check_machine(config, semantics)
    return Target(name, config, semantics)


def _workload(saved: dict[str, Any]) -> Workload:
    """The built-in workload of the file, if its key is the saved one; else the program of its script, which must have the key."""
    name, key, script = _field(saved, "name", str), _field(saved, "key", str), _field(saved, "script", str)
    match saved.get("recipe"):
        case [str(given), int(batch), int(block)]:
            try:
                task = named_workload(given, batch, block)
            except AutoschedError:
                task = None
            if task is not None and task.key == key:
                return task
    from autosched.script import parse

    func = parse(script)
    if not isinstance(func, PrimFunc) or structural_hash(func) != key:
        raise ProgramError("its program is not the one that was saved")
    return of_func(func, name)
