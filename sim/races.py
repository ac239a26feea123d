"""Proof that tokens order every conflict between engines, or the pairs of instructions that race.

Vector clocks over the four token channels (the n-th pop takes the n-th push) and in-order engines say which
instructions are ordered whatever the timing; every element of INP, WGT, ACC and OUT that an instruction touches,
and every byte range of DRAM, is then compared with the last access of the other engine.
"""

from __future__ import annotations

from sim import legality, tokens
from sim.config import SEMANTICS, mode_of
from sim.dram import Dram
from sim.errors import ProgramError
from sim.program import Program
from sim.trace import MAX_RACES, Race, Trace, UopLoads, trace, uops_are_constant, uops_of_image

__all__ = ["MAX_RACES", "Race", "check_races", "trace_program"]


def check_races(program: Program, semantics: str = "chisel", max_work: int = legality.MAX_WORK) -> list[Race]:
    """Return the races of a program, at most MAX_RACES of them; empty means that none exists.

    semantics: which memory a STORE reads: OUT (chisel), ACC (fsim), either (portable). A race on DRAM or INP is
    the same under all. Raises as :func:`sim.semantics.execute` does for a program that cannot run, StuckError
    for one that never reaches FINISH.
    """
    if semantics not in SEMANTICS:
        raise ProgramError("semantics", f"{semantics!r} is none of {', '.join(SEMANTICS)}")
    mode = mode_of(semantics)
    legality.check_executable(program.table, program.config, mode)
    legality.check_work(program.table, program.config, mode, max_work)
    depth = program.config.queue_depth if mode == "chisel" else None
    state = tokens.flow(program.table, depth)
    tokens.require_finish(state, depth)
    return list(trace_program(program, state, mode, semantics).races)


def trace_program(program: Program, state: tokens.Flow, mode: str, semantics: str) -> Trace:
    """Trace a program; where a STORE may write micro-ops in DRAM, what they become is found by execution."""
    return trace(program.table, program.config, state, uop_loads(program, mode), mode, semantics)


def uop_loads(program: Program, mode: str) -> UopLoads:
    """The words that every LOAD UOP reads.

    Raises:
        ExecutionError: a transfer leaves the address space.
    """
    legality.check_space(program.table, program.config, mode)
    if uops_are_constant(program.table, program.config, mode):
        return uops_of_image(program.table, program.config, Dram(program.memory), mode)
    from sim.semantics import execute

    return execute(program, mode).uops
