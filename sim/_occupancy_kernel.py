"""Kernel of :mod:`sim.occupancy`: lifetimes of SRAM elements."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim._kernels import kernel, lean, refresh
from sim._timing_cost import loop_trips
from sim.isa import (
    DST_IN,
    DST_OUT,
    ITER_IN,
    ITER_OUT,
    MEM,
    MEM_ACC,
    MEM_ACC_8BIT,
    MEM_INP,
    MEM_OUT,
    MEM_UOP,
    MEM_WGT,
    OP_ALU,
    OP_GEMM,
    OP_LOAD,
    OP_STORE,
    OPCODE,
    RESET,
    SRAM,
    SRC_IN,
    SRC_OUT,
    UOP_BGN,
    UOP_END,
    USE_IMM,
    WGT_IN,
    WGT_OUT,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

refresh(__file__, "_timing_cost", "config", "costs", "isa")

I64 = npt.NDArray[np.int64]


@lean
def _write(born: I64, used: I64, at: int, insn: int, begins: I64, ends: I64) -> None:
    """Start a new life of element ``at``; the old one counts if something used it."""
    if used[at] >= 0:
        begins[born[at]] += 1
        ends[used[at]] += 1
    born[at] = insn
    used[at] = -1


@lean
def _use(born: I64, used: I64, at: int, insn: int) -> None:
    """Extend the life of element ``at`` to the end of ``insn``."""
    if born[at] >= 0:
        used[at] = insn


@kernel
def lifetimes(
    table: I64, order: I64, depths: I64, offsets: I64, words: I64, shifts: I64, fsim: int, begins: I64, ends: I64
) -> None:
    """Count, per memory and instruction, elements whose life begins and ends with it.

    ``order`` lists instructions by start; an element lives from the write of what it holds to the last use of that.
    Results of GEMM and ALU update ACC in place, and start a new life of OUT.
    """
    widest = depths.max()
    born = np.full((5, widest), -1, dtype=np.int64)
    used = np.full((5, widest), -1, dtype=np.int64)
    content = np.zeros(depths[MEM_UOP], dtype=np.int64)
    for i in order:
        row = table[i]
        op, mem = row[OPCODE], row[MEM]
        if op == OP_LOAD and row[X_SIZE] > 0:
            if mem == MEM_ACC_8BIT:
                mem = MEM_ACC
            size = (row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]) * (row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1])
            for k in range(size):
                at = (row[SRAM] + k) % depths[mem]
                _write(born[mem], used[mem], at, i, begins[mem], ends[mem])
                if mem == MEM_UOP and offsets[i] + k < offsets[i + 1]:
                    content[at] = words[offsets[i] + k]
        elif op == OP_STORE:
            for k in range(row[X_SIZE] * row[Y_SIZE]):
                _use(born[MEM_OUT], used[MEM_OUT], (row[SRAM] + k) % depths[MEM_OUT], i)
        elif op in (OP_GEMM, OP_ALU):
            span = loop_trips(row[UOP_END] - row[UOP_BGN], fsim)
            outer, inner = loop_trips(row[ITER_OUT], fsim), loop_trips(row[ITER_IN], fsim)
            reset = op == OP_GEMM and row[RESET] != 0
            for u in range(row[UOP_BGN], row[UOP_BGN] + span):
                slot = u % depths[MEM_UOP]
                _use(born[MEM_UOP], used[MEM_UOP], slot, i)
                word = content[slot]
                dst0 = word & ((1 << shifts[0]) - 1)
                src0 = (word >> shifts[0]) & ((1 << shifts[1]) - 1)
                wgt0 = word >> (shifts[0] + shifts[1])
                for o in range(outer):
                    for n in range(inner):
                        dst = (dst0 + o * row[DST_OUT] + n * row[DST_IN]) % depths[MEM_ACC]
                        src = src0 + o * row[SRC_OUT] + n * row[SRC_IN]
                        if reset:
                            _write(born[MEM_ACC], used[MEM_ACC], dst, i, begins[MEM_ACC], ends[MEM_ACC])
                            continue
                        if op == OP_GEMM:
                            wgt = (wgt0 + o * row[WGT_OUT] + n * row[WGT_IN]) % depths[MEM_WGT]
                            _use(born[MEM_INP], used[MEM_INP], src % depths[MEM_INP], i)
                            _use(born[MEM_WGT], used[MEM_WGT], wgt, i)
                        elif row[USE_IMM] == 0:
                            _use(born[MEM_ACC], used[MEM_ACC], src % depths[MEM_ACC], i)
                        _use(born[MEM_ACC], used[MEM_ACC], dst, i)
                        _write(born[MEM_OUT], used[MEM_OUT], dst, i, begins[MEM_OUT], ends[MEM_OUT])
    for mem in range(5):
        for at in range(depths[mem]):
            if used[mem, at] >= 0:
                begins[mem][born[mem, at]] += 1
                ends[mem][used[mem, at]] += 1
