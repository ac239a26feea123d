"""Compiled walks over a program in order: who must wait for whom."""

from __future__ import annotations

import numpy as np
from numba import njit

LOAD, COMPUTE, STORE = 0, 1, 2
OP_LOAD, OP_STORE, OP_GEMM, OP_FINISH, OP_ALU = 0, 1, 2, 3, 4
MEM_UOP, MEM_WGT, MEM_INP, MEM_ACC = 0, 1, 2, 3


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
        op = table[i, 0]
        if op == OP_FINISH:
            continue
        if op == OP_LOAD:
            x, y = table[i, 9], table[i, 8]
            mem = table[i, 5]
            if x == 0 or mem == MEM_UOP:
                continue
            lo = table[i, 6]
            hi = lo + (table[i, 13] + x + table[i, 14]) * (table[i, 11] + y + table[i, 12])
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
            lo = table[i, 6]
            hi = lo + table[i, 8] * table[i, 9]
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
            count = table[i, 17] - table[i, 16]
            gemm = op == OP_GEMM and table[i, 15] == 0
            writes_out = 0 if (op == OP_GEMM and not gemm) else 1
            from_load = -1
            from_store = -1
            for o in range(table[i, 18]):
                for j in range(table[i, 19]):
                    d0 = o * table[i, 20] + j * table[i, 21]
                    s0 = o * table[i, 22] + j * table[i, 23]
                    w0 = o * table[i, 24] + j * table[i, 25]
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
    # Channels: load->compute, compute->load, compute->store, store->compute.
    acquired = np.full(4, -1, dtype=np.int64)
    for i in range(n):
        e = engine[i]
        if e == LOAD:
            p = need[i, COMPUTE]
            if p > acquired[1]:
                table[i, 2] = 1
                table[p, 3] = 1
                acquired[1] = p
        elif e == STORE:
            p = need[i, COMPUTE]
            if p > acquired[2]:
                table[i, 1] = 1
                table[p, 4] = 1
                acquired[2] = p
        else:
            p = need[i, LOAD]
            if p > acquired[0]:
                table[i, 1] = 1
                table[p, 4] = 1
                acquired[0] = p
            p = need[i, STORE]
            if p > acquired[3]:
                table[i, 2] = 1
                table[p, 3] = 1
                acquired[3] = p
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
    producer = (0, 1, 1, 2)
    consumer = (1, 0, 2, 1)
    push_column = (4, 3, 4, 3)
    pop_column = (1, 2, 1, 2)
    back = (1, 0, 3, 2)
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
