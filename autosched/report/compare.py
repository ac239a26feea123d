"""What differs between two schedules, and what each difference is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.report.account import Account
from sim.stats import Stats


@dataclass(frozen=True)
class Difference:
    """One figure of two schedules.

    Args:
        what: the figure, e.g. ``COMPUTE gemm``.
        first: of the first schedule.
        second: of the second.
    """

    what: str
    first: int
    second: int

    @property
    def change(self) -> int:
        """What the second has more."""
        return self.second - self.first


def compare(first: Mapping[str, int], second: Mapping[str, int]) -> list[Difference]:
    """The figures that differ.

    Args:
        first: figures of one schedule or program, by name.
        second: those of the other.
    """
    names = dict.fromkeys([*first, *second])
    return [Difference(n, first.get(n, 0), second.get(n, 0)) for n in names if first.get(n, 0) != second.get(n, 0)]


def figures(found: Account) -> dict[str, int]:
    """The figures of a schedule: those of its program, the machine's bound, and what it holds and moves."""
    moved = {f"bytes of {t.tensor} ({t.memory})": t.bytes for t in found.traffic}
    held = {f"elements of {h.buffer}": h.elements * h.banks for h in found.held}
    bound = {f"bound: {term}": cycles for term, cycles in found.terms.items()}
    return {**of_run(found.stats), "machine bound": found.bound, **bound, **moved, **held}


def of_run(stats: Stats) -> dict[str, int]:
    """The figures of a program: cycles, what every unit did and waited for, instructions and micro-ops."""
    units = {f"{name} {kind}": cycles for name, unit in stats.units.items()
             for kind, cycles in [*unit.busy_by.items(), *unit.stalled_by.items()]}
    return {"cycles": stats.cycles, "instructions": stats.instructions, "GEMM micro-ops": stats.gemm_uops,
            "ALU micro-ops": stats.alu_uops, **units, **{f"bytes read ({m})": n for m, n in stats.bytes_read.items()}}
