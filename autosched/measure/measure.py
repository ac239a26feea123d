"""One candidate to one result, in this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.errors import AutoschedError, LoweringError, ScheduleError
from autosched.ir.interp import written
from autosched.kernel import program_hash, resolve, scheduled
from autosched.lower import Lowered, lower_table
from autosched.measure.candidate import Candidate, Result
from autosched.target import Target, get_target
from autosched.workloads import Workload
from sim.errors import SimError

Array = np.ndarray[Any, Any]


def measure(
    candidate: Candidate, cap: int | None = None, execute: bool = False, seed: int = 0, wide: bool = False, check: bool = True
) -> Result:
    """Replays, lowers and times a candidate.

    Args:
        candidate: what to measure.
        cap: give up above so many cycles.
        execute: also run it bit-exactly on inputs that tell (``Workload.inputs``), and compare with the workload's reference;
            look for races, and for what the target's implementations disagree on.
        seed: of the random inputs.
        wide: when executing, then once more on inputs over their whole ranges.
        check: whether every step of its schedule is checked in full; without, it must be known to be legal.

    Returns:
        The cycles, or why there are none. A fault of the candidate is a result, never an exception.

    Raises:
        UnknownNameError: an unknown workload or target.
        ProgramError: a target or workload that cannot be.
    """
    target = get_target(candidate.target)
    task = resolve(candidate.workload, target)
    try:
        trace = candidate.trace if isinstance(candidate.trace, str) else list(candidate.trace)
        func = scheduled(task.func, trace, "fast", check)
    except AutoschedError as error:
        return Result.failed("illegal", _line(error))
    try:
        lowered = lower_table(func, target)
    except AutoschedError as error:
        return Result.failed("lowering", _line(error))
    except SimError as error:
        return Result.failed("lowering", _line(error))
    program = program_hash(lowered)
    try:
        cycles = lowered.cycles(cap)
        if cycles < 0:
            return Result.failed("timeout", f"more than {cap} cycles", program)
        fault = _execute(task, target, lowered, task.inputs(seed)) if execute else None
        if execute and wide and fault is None:
            fault = _execute(task, target, lowered, task.inputs(seed, wide=True))
    except SimError as error:
        return Result.failed("simulation", _line(error), program)
    return fault or Result.success(cycles, program, statistics(lowered))


def statistics(lowered: Lowered) -> dict[str, int]:
    """The functional simulator's counters of a program (bytes by memory, micro-ops), and what they come to.

    Args:
        lowered: the program.

    Returns:
        The counters; ``instructions``; ``moved``, all bytes over the bus, instructions among them; ``macs``, the
        multiply-accumulates of all GEMM instructions.
    """
    from sim.config import INSN_BYTES
    from sim.semantics import count

    c, table = lowered.config, lowered.table
    found = count(table, c, mode=lowered.target.mode)
    data = sum(size for name, size in found.items() if name.endswith("_nbytes"))
    return {**found, "instructions": len(table), "moved": data + INSN_BYTES * len(table),
            "macs": found["gemm_counter"] * c.batch * c.block_in * c.block_out}


def _execute(task: Workload, target: Target, lowered: Lowered, inputs: tuple[Array, ...]) -> Result | None:
    """What is wrong with a program's execution, or None."""
    from sim.legality import disagreements
    from sim.machine import run

    program = program_hash(lowered)
    outputs = written(task.func)
    names = [b.name for b in task.func.buffers if b not in outputs]
    given = dict(zip(names, inputs))
    ran = run(lowered.program(given), target.semantics, check=True)
    # What is true of every program of a machine (its fields are not where the RTL's defaults are) is no fault of this one.
    facts = {kind for kind, *_ in disagreements(target.config)}
    for faults in (ran.races, [d for d in ran.diagnostics if d.kind not in facts]):
        if faults:
            return Result.failed("simulation", f"{faults[0]}" + (f" and {len(faults) - 1} more" if faults[1:] else ""), program)
    results = lowered.unpacked({n: lowered.stored_array(n, data) for n, data in ran.outputs.items()}, given)
    missing = [b.name for b in outputs if b.name not in results]
    if missing:
        return Result.failed("mismatch", f"{missing[0]} is never stored", program)
    for name, wanted in task.results(*inputs).items():
        got = results[name]
        if np.array_equal(got, wanted):
            continue
        wrong = np.argwhere(got != wanted)
        at = tuple(int(i) for i in wrong[0])
        return Result.failed(
            "mismatch",
            f"{name}: {len(wrong)} of {wanted.size} elements differ, first at {at}: {wanted[at]} expected, {got[at]} stored",
            program,
        )
    return None


def _line(error: Exception) -> str:
    if isinstance(error, ScheduleError):
        text = f"{error.primitive} ({error.code}): {error.reason}"
    elif isinstance(error, LoweringError):
        text = f"{error.kind}: {error.message}"
    else:
        text = str(error)
    return " ".join(text.split())
