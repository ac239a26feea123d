"""Kernels over many rows at once: each instruction by itself, memory and tokens at hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from sim._kernels import refresh
from sim._timing_cost import (
    K_HANG,
    K_LOAD,
    K_UNKNOWN,
    L_COUNT,
    P_BUS,
    P_ELEM,
    P_OUTSTANDING,
    closed_busy,
    kind_of,
    load_alone,
)
from sim.isa import DRAM, MEM, X_SIZE, X_STRIDE, Y_SIZE

refresh(__file__, "_kernels", "_timing_cost", "config", "isa")

I64 = npt.NDArray[np.int64]


@njit(cache=True)
def busy_of(rows: I64, par: I64, out: I64) -> None:
    """Fill ``out`` with the busy cycles of each row; -1 for one that never ends or that fetch refuses."""
    loader = np.zeros(L_COUNT, dtype=np.int64)
    ring = np.zeros(par[P_OUTSTANDING], dtype=np.int64)
    for i in range(len(rows)):
        kind = kind_of(rows[i], par)
        if kind in (K_HANG, K_UNKNOWN):
            out[i] = -1
        elif kind == K_LOAD:
            out[i] = load_alone(loader, ring, rows[i], par)
        else:
            out[i] = closed_busy(rows[i], par)


@njit(cache=True)
def words_of(rows: I64, par: I64, out: I64) -> None:
    """Fill ``out`` with the bus words that each LOAD reads."""
    bus = par[P_BUS]
    for i in range(len(rows)):
        row = rows[i]
        elem = par[P_ELEM + row[MEM]]
        size = row[X_SIZE] * elem
        if elem > bus or size == 0:
            out[i] = row[Y_SIZE] * (size // bus)
            continue
        stride = row[X_STRIDE] * elem
        # How a row straddles bus words repeats.
        period = 1
        while (period * stride) % bus != 0:
            period += 1
        words = 0
        for r in range(min(period, row[Y_SIZE])):
            start = row[DRAM] * elem + r * stride
            skew = start % bus
            words += ((row[Y_SIZE] - r + period - 1) // period) * ((skew + size + bus - 1) // bus)
        out[i] = words
