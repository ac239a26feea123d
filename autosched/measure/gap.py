"""How far cycles are from what is proven to be needed: the one definition of a gap."""

from __future__ import annotations


def gap(cycles: int | None, bound: int) -> float | None:
    """Relative distance to a lower bound: (cycles - bound) / bound.

    Args:
        cycles: cycles of a schedule, or None where there is none.
        bound: a proven lower bound, in cycles; 0 where nothing is proven.

    Returns:
        The gap as a fraction, or None where either is missing.
    """
    return None if cycles is None or bound <= 0 else (cycles - bound) / bound
