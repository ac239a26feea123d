"""One call for a program: cycles, bytes, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sim import legality, portable, races, timing
from sim.config import SEMANTICS, mode_of
from sim.errors import ProgramError
from sim.portable import Diagnostic
from sim.program import Program, Segment
from sim.races import Race
from sim.semantics import execute

# Whose deviations matter to a program written for each semantics.
_AMONG: Mapping[str, tuple[str, ...]] = {
    "chisel": ("chisel",),
    "fsim": ("fsim",),
    "portable": portable.IMPLEMENTATIONS,
}


@dataclass(frozen=True)
class RunResult:
    """What a run gave.

    outputs: bytes of each output range, by name. outputs_match: whether all that have expected bytes equal them;
    None if none has. counters: the functional simulator's. diagnostics and races: empty unless checked.
    """

    name: str
    cycles: int
    outputs: Mapping[str, bytes] = field(repr=False)
    outputs_match: bool | None
    counters: Mapping[str, int] = field(default_factory=dict, repr=False)
    diagnostics: tuple[Diagnostic, ...] = ()
    races: tuple[Race, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The record that ``autosched sim --format json`` prints."""
        return {"name": self.name, "cycles": self.cycles, "outputs_match": self.outputs_match}


def run(
    program: Program,
    semantics: str = "chisel",
    check: bool = False,
    memory: Iterable[Segment] | Mapping[int, bytes] | None = None,
    max_work: int = legality.MAX_WORK,
) -> RunResult:
    """Time and execute a program.

    semantics: "chisel", "fsim", or "portable": executed as the RTL does it, and checked against all three
    implementations. check: also look for disagreements (of this semantics' implementations) and races.
    memory: laid over the program's own. max_work: elements and micro-ops at most.

    Raises DeadlockError, naming each waiting unit, its instruction, its token and since which cycle; ExecutionError,
    LimitError, ConfigError and FieldError as :func:`sim.semantics.execute`.
    """
    if semantics not in SEMANTICS:
        raise ProgramError("semantics", f"{semantics!r} is none of {', '.join(SEMANTICS)}")
    mode = mode_of(semantics)
    # Limits and refusals first: they cost nothing, and name an instruction and its field.
    legality.check_executable(program.table, program.config, mode)
    legality.check_work(program.table, program.config, mode, max_work)
    # Timing before execution: its deadlock report knows since when each unit waits.
    cycles = timing.cycles(program.table, program.config, program.insn_address, semantics=mode)
    ran = execute(program, mode, memory, max_work)
    outputs = {o.name: ran.read(o.address, o.size) for o in program.outputs}
    known = [ran.read(o.address, o.size) == o.expected for o in program.outputs if o.expected is not None]
    diagnostics: tuple[Diagnostic, ...] = ()
    found: tuple[Race, ...] = ()
    if check:
        full = program if memory is None else program.with_memory(memory)
        diagnostics = tuple(portable.check(full, _AMONG[semantics], races=False, max_work=max_work))
        found = tuple(races.check_races(full, semantics, max_work))
    return RunResult(program.name, cycles, outputs, all(known) if known else None, ran.counters, diagnostics, found)
