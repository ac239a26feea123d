"""How full the scratchpads are over time.

An element counts from the start of the instruction that writes what it holds to the end of the last that uses
it. Values never used are not counted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.encoding import encoding_of
from sim.stats import uops_of
from sim.timing import Timing

I64 = npt.NDArray[np.int64]

# Accesses beyond which a program is not followed: the answer would take longer than anybody waits.
MAX_ACCESSES = 200_000_000
_MEMORIES = (isa.MEM_UOP, isa.MEM_WGT, isa.MEM_INP, isa.MEM_ACC, isa.MEM_OUT)


def accesses(timing: Timing, semantics: str = "chisel") -> int:
    """Return about how many element accesses a run makes."""
    table = timing.table
    width = table[:, isa.X_PAD_0] + table[:, isa.X_SIZE] + table[:, isa.X_PAD_1]
    height = table[:, isa.Y_PAD_0] + table[:, isa.Y_SIZE] + table[:, isa.Y_PAD_1]
    per_row = (width * height).astype(np.float64) + 4.0 * uops_of(table, semantics)
    return int(per_row[timing.start >= 0].sum())


def occupancy(
    timing: Timing, offsets: npt.ArrayLike, words: npt.ArrayLike, semantics: str = "chisel"
) -> dict[str, tuple[I64, I64]]:
    """Return (cycles, elements in use from that cycle on) for every memory that is used.

    offsets, words: the micro-op words that each LOAD UOP reads, instruction i's being
        ``words[offsets[i]:offsets[i + 1]]``.

    Raises ValueError for a program of more than MAX_ACCESSES accesses.
    """
    from sim._occupancy_kernel import lifetimes

    count = accesses(timing, semantics)
    if count > MAX_ACCESSES:
        raise ValueError(f"{count} element accesses are too many to follow ({MAX_ACCESSES})")
    config, n = timing.config, len(timing.table)
    depths: I64 = isa.depths(config)[: len(_MEMORIES)].copy()
    ran = np.flatnonzero(timing.start >= 0)
    order = ran[np.argsort(timing.start[ran], kind="stable")]
    begins: I64 = np.zeros((5, n), dtype=np.int64)
    ends: I64 = np.zeros((5, n), dtype=np.int64)
    table = timing.table.copy()
    shifts: I64 = np.array(encoding_of(config, semantics).uop, dtype=np.int64)
    lifetimes(
        table, order, depths, np.array(offsets, dtype=np.int64), np.array(words, dtype=np.int64), shifts,
        int(semantics == "fsim"), begins, ends,
    )  # fmt: skip
    done = np.where(timing.done >= 0, np.minimum(timing.done, timing.cycles), timing.cycles)
    curves = {}
    for memory in _MEMORIES:
        up, down = np.flatnonzero(begins[memory]), np.flatnonzero(ends[memory])
        times = np.concatenate([timing.start[up], done[down] + 1])
        steps = np.concatenate([begins[memory][up], -ends[memory][down]])
        if len(times):
            at, which = np.unique(times, return_inverse=True)
            levels = np.cumsum(np.bincount(which, weights=steps, minlength=len(at))).astype(np.int64)
            curves[isa.MEMORY_NAMES[memory]] = (at.astype(np.int64), levels)
    return curves
