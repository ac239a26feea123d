"""What the log knows: what holds for a run, its trials, the best schedules, the programs without a name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.measure import gap

_RUN = re.compile(r"([0-9]{8}T[0-9]{6})-.*-([0-9]{1,4})", re.ASCII | re.DOTALL).fullmatch


@dataclass(frozen=True)
class Run:
    """What holds for all that one writer writes; the first line of its file.

    Args:
        workload: SHA-256 of the unscheduled program's canonical JSON.
        hardware: SHA-256 of machine and semantics.
        version: of lowering and simulator, ``L.S``; cycles of another version are not comparable.
        name: the workload as the user named it.
        target: the target's name.
        space: version of the meaning of a point.
        seed: seed of the run.
        run: id of the run: UTC time, host, process, number; the file's name.
        host: name of the machine that the run was on.
        space_bound: proven lower bound of the space when the run began, in cycles; None where nobody wrote one.
        machine_bound: proven lower bound of every program on the machine, in cycles; None likewise.
        asked: what else the run was asked for (trials, sampler...), and what the log was when it began.
        libraries: versions of the libraries that choose points.
    """

    workload: str
    hardware: str
    version: str
    name: str
    target: str
    space: int
    seed: int
    run: str = ""
    host: str = ""
    space_bound: int | None = None
    machine_bound: int | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)


class _OfRun:
    """A record's run, asked for what holds for all of its records."""

    of: Run

    @property
    def workload(self) -> str:
        """Key of the program."""
        return self.of.workload

    @property
    def hardware(self) -> str:
        """Key of the machine."""
        return self.of.hardware

    @property
    def version(self) -> str:
        """Version of lowering and simulator."""
        return self.of.version

    @property
    def name(self) -> str:
        """The workload as the user named it."""
        return self.of.name

    @property
    def target(self) -> str:
        """The target's name."""
        return self.of.target

    @property
    def space(self) -> int:
        """Version of the meaning of ``point``."""
        return self.of.space

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.of.seed

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.of.run

    @property
    def began(self) -> str:
        """When the run began, as its id says: later ones are greater; empty where the id says nothing."""
        found = _RUN(self.run)
        # Of the runs that a process begins in one second the number tells which was first.
        return f"{found[1]}-{found[2]:>04}" if found else ""


@dataclass(frozen=True)
class TrialRecord(_OfRun):
    """What is known of one point.

    Args:
        of: the run.
        trial: number in the run, from 0.
        point: the decisions; empty for a schedule that came as a trace.
        program: hash of the lowered program, or None where lowering failed.
        cycles: simulated cycles, or None where the candidate failed.
        bound: proven lower bound of the point, in cycles.
        draft: estimated cycles.
        status: ``ok`` or the kind of failure.
        reason: why it failed, or empty.
        ms: milliseconds from the run's begin until this was known. It, ``moved`` and ``macs`` are None where nobody wrote
            them, and make no two records different.
        moved: bytes that the program moves over the bus, instructions and micro-ops among them.
        macs: multiply-accumulates of its GEMM instructions.
    """

    of: Run
    trial: int
    point: tuple[int, ...]
    program: str | None
    cycles: int | None
    bound: int
    draft: int
    status: str = "ok"
    reason: str = ""
    ms: int | None = field(default=None, compare=False)
    moved: int | None = field(default=None, compare=False)
    macs: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class BestRecord(_OfRun):
    """The best schedule that a run knew at some time, with all that is needed to apply it.

    Args:
        of: the run.
        trial: number of the trial that found it.
        point: its decisions, in the run's version of the space; empty for a schedule that came as a trace.
        program: hash of the lowered program.
        cycles: simulated cycles.
        space_bound: proven lower bound of what the space still held then, in cycles.
        machine_bound: proven lower bound of every program on the machine, in cycles; None where nobody wrote one.
        trace: the schedule, as the objects of ``Trace.as_json``.
        verified: whether its program was executed and gave the reference's bytes. A schedule that is not, without a reason,
            has not been checked yet.
        reason: why the check failed, or empty. Such a record withdraws all that say the same cycles and the same program of the
            same schedule, but for those that were found good by a newer version, or by the same one in a run that began later.
    """

    of: Run
    trial: int
    point: tuple[int, ...]
    program: str
    cycles: int
    space_bound: int
    machine_bound: int | None
    trace: tuple[dict[str, Any], ...]
    verified: bool
    reason: str = ""

    @property
    def bound(self) -> int:
        """The machine's bound, or the space's where that is all that is known; in cycles."""
        return self.space_bound if self.machine_bound is None else self.machine_bound

    @property
    def gap(self) -> float | None:
        """Relative distance to the bound."""
        return gap(self.cycles, self.bound)

    @property
    def schedule(self) -> str:
        """What tells the schedule from another, 16 digits."""
        return hashlib.sha256(json.dumps(self.trace, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def checked(self) -> str:
        """What a listing, which simulates nothing, says of its check: fewer cycles than its own bound are not believed."""
        return "below its bound" if self.cycles < self.bound else "yes" if self.verified else "not yet"


@dataclass(frozen=True)
class ProgramRecord:
    """A program that no name gives, as text; it is parsed, never run.

    Args:
        workload: SHA-256 of its canonical JSON; what the script parses to must have it.
        name: as the user named it.
        script: TVMScript.
    """

    workload: str
    name: str
    script: str


Record = TrialRecord | BestRecord | ProgramRecord


def by_number(version: str) -> tuple[int, ...]:
    """A version ``1.10`` as numbers, for comparing: 9.1 is older than 10.1."""
    return tuple(int(part) for part in version.split("."))
