"""Compiled walks over a program in order: who must wait for whom."""

from __future__ import annotations

import numpy as np
from numba import njit

from sim import isa
from sim._kernels import refresh

refresh(__file__, isa)

LOAD, COMPUTE, STORE = isa.QUEUE_LOAD, isa.QUEUE_COMPUTE, isa.QUEUE_STORE
OP_LOAD, OP_STORE, OP_GEMM, OP_FINISH = isa.OP_LOAD, isa.OP_STORE, isa.OP_GEMM, isa.OP_FINISH
MEM_UOP, MEM_WGT, MEM_INP = isa.MEM_UOP, isa.MEM_WGT, isa.MEM_INP
OPCODE, MEM, SRAM, Y_SIZE, X_SIZE = isa.OPCODE, isa.MEM, isa.SRAM, isa.Y_SIZE, isa.X_SIZE
Y_PAD_0, Y_PAD_1, X_PAD_0, X_PAD_1 = isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1
RESET, UOP_BGN, UOP_END, ITER_OUT, ITER_IN = isa.RESET, isa.UOP_BGN, isa.UOP_END, isa.ITER_OUT, isa.ITER_IN
DST_OUT, DST_IN, SRC_OUT, SRC_IN, WGT_OUT, WGT_IN = isa.DST_OUT, isa.DST_IN, isa.SRC_OUT, isa.SRC_IN, isa.WGT_OUT, isa.WGT_IN
POP_PREV, POP_NEXT, PUSH_PREV, PUSH_NEXT = isa.POP_PREV, isa.POP_NEXT, isa.PUSH_PREV, isa.PUSH_NEXT
# Channels of tokens, in the order of sim.tokens.CHANNELS.
TO_COMPUTE, FROM_COMPUTE, TO_STORE, FROM_STORE = 0, 1, 2, 3


@njit(cache=True)
def needs(table, engine, uop_at, triples, inp_depth, wgt_depth, acc_depth, split_out):  # type: ignore[no-untyped-def]
    """Per instruction: the latest load, compute and store instruction that it must wait for (-1: none), and the stale STOREs.

    A walk in program order over every element of INP, WGT and ACC/OUT. ``need[i, e]`` is filled for engines other than i's own.
    ``split_out``: STORE reads a memory of its own, which resets and loads of ACC leave alone (the RTL), not ACC.
    Returns need, and the first STORE that reads an OUT element which no GEMM or ALU wrote last (-1: none).
    """
    n = table.shape[0]
    need = np.full((n, 3), -1, dtype=np.int64)
    inp_writer = np.full(inp_depth, -1, dtype=np.int64)
    inp_reader = np.full(inp_depth, -1, dtype=np.int64)
    wgt_writer = np.full(wgt_depth, -1, dtype=np.int64)
    wgt_reader = np.full(wgt_depth, -1, dtype=np.int64)
    acc_writer = np.full(acc_depth, -1, dtype=np.int64)
    out_reader = np.full(acc_depth, -1, dtype=np.int64)
    fresh = np.zeros(acc_depth, dtype=np.uint8)
    stale = -1
    for i in range(n):
        op = table[i, OPCODE]
        if op == OP_FINISH:
            continue
        if op == OP_LOAD:
            x, y = table[i, X_SIZE], table[i, Y_SIZE]
            mem = table[i, MEM]
            if x == 0 or mem == MEM_UOP:
                continue
            lo = table[i, SRAM]
            hi = lo + (table[i, X_PAD_0] + x + table[i, X_PAD_1]) * (table[i, Y_PAD_0] + y + table[i, Y_PAD_1])
            latest = -1
            if mem == MEM_INP:
                for k in range(lo, hi):
                    if inp_reader[k] > latest:
                        latest = inp_reader[k]
                    inp_writer[k] = i
                need[i, COMPUTE] = latest
            elif mem == MEM_WGT:
                for k in range(lo, hi):
                    if wgt_reader[k] > latest:
                        latest = wgt_reader[k]
                    wgt_writer[k] = i
                need[i, COMPUTE] = latest
            else:
                for k in range(lo, hi):
                    if split_out == 0 and out_reader[k] > latest:
                        latest = out_reader[k]
                    acc_writer[k] = i
                    fresh[k] = 0
                need[i, STORE] = latest
        elif op == OP_STORE:
            lo = table[i, SRAM]
            hi = lo + table[i, Y_SIZE] * table[i, X_SIZE]
            latest = -1
            for k in range(lo, hi):
                if acc_writer[k] > latest:
                    latest = acc_writer[k]
                if fresh[k] == 0 and stale < 0:
                    stale = i
                out_reader[k] = i
            need[i, COMPUTE] = latest
        else:
            bgn = uop_at[i]
            count = table[i, UOP_END] - table[i, UOP_BGN]
            gemm = op == OP_GEMM and table[i, RESET] == 0
            writes_out = 0 if (op == OP_GEMM and not gemm) else 1
            from_load = -1
            from_store = -1
            for o in range(table[i, ITER_OUT]):
                for j in range(table[i, ITER_IN]):
                    d0 = o * table[i, DST_OUT] + j * table[i, DST_IN]
                    s0 = o * table[i, SRC_OUT] + j * table[i, SRC_IN]
                    w0 = o * table[i, WGT_OUT] + j * table[i, WGT_IN]
                    for u in range(bgn, bgn + count):
                        d = triples[u, 0] + d0
                        if (writes_out == 1 or split_out == 0) and out_reader[d] > from_store:
                            from_store = out_reader[d]
                        acc_writer[d] = i
                        fresh[d] = writes_out
                        if gemm:
                            s = triples[u, 1] + s0
                            w = triples[u, 2] + w0
                            if inp_writer[s] > from_load:
                                from_load = inp_writer[s]
                            if wgt_writer[w] > from_load:
                                from_load = wgt_writer[w]
                            inp_reader[s] = i
                            wgt_reader[w] = i
            need[i, LOAD] = from_load
            need[i, STORE] = from_store
    return need, stale


@njit(cache=True)
def tokens(table, engine, need):  # type: ignore[no-untyped-def]
    """Writes the four flags of every instruction: the fewest tokens that order what ``need`` orders.

    Engines are in order, so a token from an instruction also speaks for all earlier ones of its engine. Returns the latest
    acquired instruction per channel, and per channel the most tokens that may wait at once (an upper bound).
    """
    n = table.shape[0]
    acquired = np.full(4, -1, dtype=np.int64)
    for i in range(n):
        e = engine[i]
        if e == LOAD:
            p = need[i, COMPUTE]
            if p > acquired[FROM_COMPUTE]:
                table[i, POP_NEXT] = 1
                table[p, PUSH_PREV] = 1
                acquired[FROM_COMPUTE] = p
        elif e == STORE:
            p = need[i, COMPUTE]
            if p > acquired[TO_STORE]:
                table[i, POP_PREV] = 1
                table[p, PUSH_NEXT] = 1
                acquired[TO_STORE] = p
        else:
            p = need[i, LOAD]
            if p > acquired[TO_COMPUTE]:
                table[i, POP_PREV] = 1
                table[p, PUSH_NEXT] = 1
                acquired[TO_COMPUTE] = p
            p = need[i, STORE]
            if p > acquired[FROM_STORE]:
                table[i, POP_NEXT] = 1
                table[p, PUSH_PREV] = 1
                acquired[FROM_STORE] = p
    return acquired


@njit(cache=True)
def dram_needs(boxes, is_store, engine, size):  # type: ignore[no-untyped-def]
    """Per instruction: the latest STORE whose bytes it loads, and for a STORE the latest loads whose bytes it overwrites.

    ``boxes`` are (start, rows, row size, stride) in granules, from the first of ``size`` granules that count.
    """
    n = boxes.shape[0]
    writer = np.full(size, -1, dtype=np.int64)
    reader = np.full((2, size), -1, dtype=np.int64)
    need = np.full((n, 3), -1, dtype=np.int64)
    for i in range(n):
        for r in range(boxes[i, 1]):
            start = boxes[i, 0] + r * boxes[i, 3]
            for k in range(max(start, 0), min(start + boxes[i, 2], size)):
                if is_store[i] == 1:
                    need[i, LOAD] = max(need[i, LOAD], reader[LOAD, k])
                    need[i, COMPUTE] = max(need[i, COMPUTE], reader[COMPUTE, k])
                    writer[k] = i
                else:
                    need[i, STORE] = max(need[i, STORE], writer[k])
                    reader[engine[i], k] = i
    return need


@njit(cache=True)
def waiting(table, engine):  # type: ignore[no-untyped-def]
    """Per channel, an upper bound of the tokens that wait at once.

    When a producer pushes, every consumer has taken its token that precedes the instruction whose token the producer's engine
    took last on the channel back.
    """
    n = table.shape[0]
    producer = (LOAD, COMPUTE, COMPUTE, STORE)
    consumer = (COMPUTE, LOAD, STORE, COMPUTE)
    push_column = (PUSH_NEXT, PUSH_PREV, PUSH_NEXT, PUSH_PREV)
    pop_column = (POP_PREV, POP_NEXT, POP_PREV, POP_NEXT)
    back = (FROM_COMPUTE, TO_COMPUTE, FROM_STORE, TO_STORE)
    most = np.zeros(4, dtype=np.int64)
    pushes = np.zeros((4, n), dtype=np.int64)
    pops = np.zeros((4, n), dtype=np.int64)
    n_push = np.zeros(4, dtype=np.int64)
    n_pop = np.zeros(4, dtype=np.int64)
    for i in range(n):
        for c in range(4):
            if engine[i] == producer[c] and table[i, push_column[c]] != 0:
                pushes[c, n_push[c]] = i
                n_push[c] += 1
            if engine[i] == consumer[c] and table[i, pop_column[c]] != 0:
                pops[c, n_pop[c]] = i
                n_pop[c] += 1
    for c in range(4):
        b = back[c]
        taken = 0  # pops of the channel back by the producing engine so far
        gone = 0
        for k in range(n_push[c]):
            i = pushes[c, k]
            while taken < n_pop[b] and pops[b, taken] <= i:
                taken += 1
            if taken > 0:
                known = pushes[b, taken - 1]
                while gone < n_pop[c] and pops[c, gone] <= known:
                    gone += 1
            most[c] = max(most[c], k + 1 - gone)
    return most
