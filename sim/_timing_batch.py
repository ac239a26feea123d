"""Kernels over many rows at once: each instruction by itself, memory and tokens at hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim._kernels import lean, refresh
from sim._timing_cost import (
    K_HANG,
    K_LOAD,
    K_UNKNOWN,
    P_BUS,
    P_ELEM,
    P_FSIM,
    ROW_WRAP,
    closed_busy,
    kind_of,
    load_alone,
    row_fits,
    uop_count,
)
from sim.isa import (
    DRAM,
    MEM,
    OP_ALU,
    OP_GEMM,
    OP_LOAD,
    OP_STORE,
    OPCODE,
    RESET,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

refresh(__file__, "_timing_cost", "config", "costs", "isa")

I64 = npt.NDArray[np.int64]


@lean
def busy_of(rows: I64, par: I64, loader: I64, ring: I64, out: I64) -> None:
    """Fill ``out`` with the busy cycles of each row; -1 for one that never ends or that fetch refuses.

    Room to work in: ``loader`` (L_COUNT), ``ring`` (P_OUTSTANDING).
    """
    for i in range(len(rows)):
        kind = kind_of(rows[i], par)
        if kind in (K_HANG, K_UNKNOWN):
            out[i] = -1
        elif kind == K_LOAD:
            out[i] = load_alone(loader, ring, rows[i], par)
        else:
            out[i] = closed_busy(rows[i], par)


@lean
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


@lean
def fits(table: I64, low: I64, high: I64) -> bool:
    """Whether every value is inside the bounds of its opcode's column."""
    good = True
    for i in range(len(table)):
        good = good and row_fits(table[i], low, high)
    return good


@lean
def work_of(table: I64, par: I64, tile: int, out: I64) -> None:
    """Fill ``out`` with the elements that each row moves, or its micro-ops; one of a GEMM counts as ``tile``."""
    for i in range(len(table)):
        row = table[i]
        op, x, y = row[OPCODE], row[X_SIZE], row[Y_SIZE]
        out[i] = 0
        if op == OP_LOAD and x > 0:
            out[i] = (row[X_PAD_0] + x + row[X_PAD_1]) * (row[Y_PAD_0] + y + row[Y_PAD_1])
        elif op == OP_STORE and x > 0:
            out[i] = x * (y if y != 0 or par[P_FSIM] == 1 else ROW_WRAP)
        elif op == OP_GEMM:
            out[i] = uop_count(row, par[P_FSIM]) * tile
        elif op == OP_ALU:
            out[i] = uop_count(row, par[P_FSIM])


@lean
def totals_of(table: I64, fsim: int, loaded: I64, rest: I64) -> None:
    """Add up elements and micro-ops of all rows: ``loaded`` by memory type, ``rest`` stored, of GEMMs but resets, of the ALU."""
    for i in range(len(table)):
        row = table[i]
        op = row[OPCODE]
        if op == OP_LOAD:
            if 0 <= row[MEM] < len(loaded):
                loaded[row[MEM]] += row[X_SIZE] * row[Y_SIZE]
        elif op == OP_STORE:
            rest[0] += row[X_SIZE] * row[Y_SIZE]
        elif op == OP_GEMM and row[RESET] == 0:
            rest[1] += uop_count(row, fsim)
        elif op == OP_ALU:
            rest[2] += uop_count(row, fsim)
