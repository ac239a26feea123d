"""What is measured and what comes of it: plain data that travels between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.ir.stmt import PrimFunc
from autosched.target import Target
from autosched.workloads import Workload

KINDS = ("illegal", "lowering", "simulation", "mismatch", "timeout", "environment")


@dataclass(frozen=True)
class Candidate:
    """A schedule of a workload on a target.

    Args:
        workload: the workload, its name, or a program. A named workload travels as its name.
        target: the machine or its name.
        trace: the schedule as JSON objects (``Trace.as_json``) or their text.
    """

    workload: str | Workload | PrimFunc
    target: str | Target
    trace: tuple[Mapping[str, Any], ...] | str


@dataclass(frozen=True)
class Result:
    """The outcome of one measurement.

    Args:
        status: ``ok``, or why there are no cycles: ``illegal`` (the schedule does not fit the program), ``lowering``
            (the target has no such program), ``simulation`` (the machine does not run it), ``mismatch`` (it computes
            something else), ``timeout`` (more cycles than the cap), ``environment`` (this machine failed, not the candidate:
            another time it may well be measured).
        cycles: cycles of a run, or None.
        program: SHA-256 of the lowered program, or None where there is none.
        stats: bytes by memory, micro-ops and instructions; empty where there is no program.
        reason: one line where it failed.
    """

    status: str
    cycles: int | None = None
    program: str | None = None
    stats: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether there are cycles."""
        return self.status == "ok"

    @staticmethod
    def success(cycles: int, program: str, stats: Mapping[str, int] | None = None) -> Result:
        """A measured candidate."""
        return Result("ok", cycles, program, dict(stats or {}))

    @staticmethod
    def failed(kind: str, reason: str, program: str | None = None) -> Result:
        """A candidate without cycles.

        Args:
            kind: one of ``KINDS``.
            reason: one line.
            program: hash of its program where it got that far.
        """
        assert kind in KINDS, kind
        return Result(kind, None, program, {}, reason)
