"""A compiled walk: between what each accumulator element lies, and where a MAX or a MIN may stand for reset and ADD."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim import isa
from sim._kernels import lean, refresh

refresh(__file__, isa)

I64 = npt.NDArray[np.int64]

OP_LOAD, OP_GEMM, OP_ALU = isa.OP_LOAD, isa.OP_GEMM, isa.OP_ALU
MEM_ACC, MEM_ACC_8BIT = isa.MEM_ACC, isa.MEM_ACC_8BIT
ALU_ADD, ALU_MAX, ALU_MIN, ALU_MUL, ALU_SHR = isa.ALU_ADD, isa.ALU_MAX, isa.ALU_MIN, isa.ALU_MUL, isa.ALU_SHR
OPCODE, MEM, SRAM, Y_SIZE, X_SIZE = isa.OPCODE, isa.MEM, isa.SRAM, isa.Y_SIZE, isa.X_SIZE
Y_PAD_0, Y_PAD_1, X_PAD_0, X_PAD_1 = isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1
RESET, UOP_BGN, UOP_END, ITER_OUT, ITER_IN = isa.RESET, isa.UOP_BGN, isa.UOP_END, isa.ITER_OUT, isa.ITER_IN
DST_OUT, DST_IN, SRC_OUT, SRC_IN = isa.DST_OUT, isa.DST_IN, isa.SRC_OUT, isa.SRC_IN
ALU_OP, USE_IMM, IMM = isa.ALU_OP, isa.USE_IMM, isa.IMM

LEAST, MOST = -(1 << 31), (1 << 31) - 1
STATE_ROWS = 6
GOES, BY_MAX, BY_MIN = 1, 2, 3


@lean
def by_extremum(table: I64, uop_at: I64, triples: I64, low: I64, high: I64, state: I64, found: I64) -> None:
    """Which resets may go because the ADD behind them, of a tensor or a constant, may be a MAX or a MIN.

    An interval per accumulator element, over all its lanes: what a LOAD brings (``low`` and ``high`` per instruction), what the
    ALU makes of it; a product may leave anything. ``found`` gets, per instruction, GOES where a reset goes, and what its
    ADD becomes, BY_MAX or BY_MIN; zeros before. ``state``: room to work in, (STATE_ROWS, elements of the accumulator).
    """
    n = table.shape[0]
    lo, hi = state[0], state[1]
    bottom, top = state[2], state[3]  # the ends that the last reset found
    reset_by, seen_by = state[4], state[5]
    for d in range(len(lo)):
        lo[d], hi[d], bottom[d], top[d] = LEAST, MOST, LEAST, MOST
        reset_by[d] = seen_by[d] = -1
    last, cleared = -1, 0  # the reset right before, and how many elements it cleared
    for i in range(n):
        op = table[i, OPCODE]
        if op == OP_LOAD:
            if (table[i, MEM] != MEM_ACC and table[i, MEM] != MEM_ACC_8BIT) or table[i, X_SIZE] == 0:
                continue
            first = table[i, SRAM]
            width = table[i, X_PAD_0] + table[i, X_SIZE] + table[i, X_PAD_1]
            height = table[i, Y_PAD_0] + table[i, Y_SIZE] + table[i, Y_PAD_1]
            padded = width > table[i, X_SIZE] or height > table[i, Y_SIZE]
            for k in range(first, first + width * height):
                lo[k] = min(low[i], 0) if padded else low[i]
                hi[k] = max(high[i], 0) if padded else high[i]
            last = -1
            continue
        if op not in (OP_GEMM, OP_ALU):
            continue
        bgn = uop_at[i]
        end = bgn + table[i, UOP_END] - table[i, UOP_BGN]
        alu, imm, use_imm = table[i, ALU_OP], table[i, IMM], table[i, USE_IMM]
        if op == OP_ALU and last >= 0 and alu == ALU_ADD:
            above, below, count = True, True, 0  # all that stood there
            for o in range(table[i, ITER_OUT]):
                for j in range(table[i, ITER_IN]):
                    for u in range(bgn, end):
                        d = triples[u, 0] + o * table[i, DST_OUT] + j * table[i, DST_IN]
                        s = triples[u, 1] + o * table[i, SRC_OUT] + j * table[i, SRC_IN]
                        least, most = (imm, imm) if use_imm != 0 else (lo[s], hi[s])
                        if reset_by[d] != last or seen_by[d] == i or (use_imm == 0 and reset_by[s] == last):
                            above = below = False
                        above = above and top[d] <= least
                        below = below and most <= bottom[d]
                        seen_by[d] = i
                        count += 1
            if (above or below) and count == cleared:
                found[last], found[i] = GOES, BY_MAX if above else BY_MIN
        resets = op == OP_GEMM and table[i, RESET] != 0
        cleared = 0
        for o in range(table[i, ITER_OUT]):
            for j in range(table[i, ITER_IN]):
                for u in range(bgn, end):
                    d = triples[u, 0] + o * table[i, DST_OUT] + j * table[i, DST_IN]
                    if resets:
                        if reset_by[d] != i:
                            cleared += 1
                            bottom[d], top[d] = lo[d], hi[d]
                            reset_by[d] = i
                        lo[d], hi[d] = 0, 0
                        continue
                    a, b = LEAST, MOST
                    if op == OP_ALU and alu != ALU_MUL:
                        s = triples[u, 1] + o * table[i, SRC_OUT] + j * table[i, SRC_IN]
                        x, y = (imm, imm) if use_imm != 0 else (lo[s], hi[s])
                        if alu == ALU_ADD:
                            a, b = lo[d] + x, hi[d] + y
                        elif alu == ALU_MAX:
                            a, b = max(lo[d], x), max(hi[d], y)
                        elif alu == ALU_MIN:
                            a, b = min(lo[d], x), min(hi[d], y)
                        elif alu == ALU_SHR and use_imm != 0 and 0 <= imm < 32:
                            a, b = lo[d] >> imm, hi[d] >> imm
                        elif alu == ALU_SHR and use_imm != 0 and -32 < imm < 0:
                            a, b = lo[d] << -imm, hi[d] << -imm
                        if a < LEAST or b > MOST:
                            a, b = LEAST, MOST
                    lo[d], hi[d] = a, b
                    reset_by[d] = -1
        last = i if resets else -1
