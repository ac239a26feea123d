"""Compiled walks over a program in order: who must wait for whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim import isa
from sim._kernels import ZERO, lean, refresh

refresh(__file__, isa)

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

LOAD, COMPUTE, STORE = isa.QUEUE_LOAD, isa.QUEUE_COMPUTE, isa.QUEUE_STORE
OP_LOAD, OP_STORE, OP_GEMM, OP_FINISH = isa.OP_LOAD, isa.OP_STORE, isa.OP_GEMM, isa.OP_FINISH
MEM_UOP, MEM_WGT, MEM_INP = isa.MEM_UOP, isa.MEM_WGT, isa.MEM_INP
OPCODE, MEM, SRAM, Y_SIZE, X_SIZE = isa.OPCODE, isa.MEM, isa.SRAM, isa.Y_SIZE, isa.X_SIZE
Y_PAD_0, Y_PAD_1, X_PAD_0, X_PAD_1 = isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1
RESET, UOP_BGN, UOP_END, ITER_OUT, ITER_IN = isa.RESET, isa.UOP_BGN, isa.UOP_END, isa.ITER_OUT, isa.ITER_IN
DST_OUT, DST_IN, SRC_OUT, SRC_IN, WGT_OUT, WGT_IN = isa.DST_OUT, isa.DST_IN, isa.SRC_OUT, isa.SRC_IN, isa.WGT_OUT, isa.WGT_IN
POP_PREV, POP_NEXT, PUSH_PREV, PUSH_NEXT = isa.POP_PREV, isa.POP_NEXT, isa.PUSH_PREV, isa.PUSH_NEXT
# Rows of what is known of each element of a memory.
WRITER, READER, BASE, FRESH = 0, 1, 2, 3
NONE: Any = np.int32(-1)  # no instruction yet, in these rows
SIDE_BY_SIDE = 8  # elements from which on they are gone through together
# Channels of tokens, in the order of sim.tokens.CHANNELS.
TO_COMPUTE, FROM_COMPUTE, TO_STORE, FROM_STORE = 0, 1, 2, 3


@lean
def _moving(trips: int, stride: int) -> int:
    """Iterations of a loop that tell for an operand: all, or one where it stands still."""
    return trips if stride != 0 else min(trips, 1)


@lean
def _latest(memory: I32, row: int, first: int, count: int, latest: int) -> int:
    """The latest instruction in a row of what is known, from one element on, or ``latest`` where that is later."""
    # Indices without a sign never count from the end, and all is as wide: the loop is compiled to take several elements at once.
    begin = np.uint64(first)
    found = NONE
    for k in range(begin, begin + np.uint64(count)):
        found = max(found, memory[row, k])
    return max(latest, int(found))


@lean
def _note(memory: I32, row: int, first: int, count: int, value: int) -> None:
    """Writes a value into a row of what is known, from one element on."""
    begin = np.uint64(first)
    narrow = np.int32(value)
    for k in range(begin, begin + np.uint64(count)):
        memory[row, k] = narrow


@lean
def _reads(
    triples: I64, column: int, bgn: int, end: int, outer: int, inner: int, out_stride: int, in_stride: int, memory: I32, i: int
) -> int:
    """The latest writer of what a GEMM's micro-ops read of a memory, by their column; it becomes their reader."""
    latest: int = ZERO - 1
    outer, inner = _moving(outer, out_stride), _moving(inner, in_stride)
    if out_stride == 1:
        outer, inner, out_stride, in_stride = inner, outer, in_stride, out_stride
    for u in range(bgn, end if outer * inner > 0 else bgn):
        base = triples[u, column]
        # Micro-ops with the same base read the same in all iterations.
        if memory[BASE, base] == i:
            continue
        memory[BASE, base] = i
        for o in range(outer):
            first = base + o * out_stride
            if in_stride == 1 and inner >= SIDE_BY_SIDE:
                latest = _latest(memory, ZERO + WRITER, first, inner, latest)
                _note(memory, ZERO + READER, first, inner, i)
                continue
            for j in range(inner):
                k = first + j * in_stride
                if memory[WRITER, k] > latest:
                    latest = memory[WRITER, k]
                memory[READER, k] = i
    return latest


@lean
def needs(table: I64, engine: I64, uop_at: I64, triples: I64, inp: I32, wgt: I32, acc: I32, split_out: int, need: I64) -> int:
    """Per instruction: the latest load, compute and store instruction that it must wait for (-1: none), and the stale STOREs.

    A walk in program order over every element of INP, WGT and ACC/OUT. ``need[i, e]`` is filled for engines other than i's own.
    ``inp``, ``wgt``, ``acc``: per element its last writer, its last reader, the last instruction with micro-ops that begin there
    and, of ``acc``, whether GEMM or ALU wrote it last; -1 throughout at first, as ``need``.
    ``split_out``: STORE reads a memory of its own, which resets and loads of ACC leave alone (the RTL), not ACC.
    Returns the first STORE that reads an OUT element which no GEMM or ALU wrote last (-1: none).
    """
    n = table.shape[0]
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
            count = hi - lo
            if mem == MEM_INP:
                need[i, COMPUTE] = _latest(inp, ZERO + READER, lo, count, ZERO - 1)
                _note(inp, ZERO + WRITER, lo, count, i)
            elif mem == MEM_WGT:
                need[i, COMPUTE] = _latest(wgt, ZERO + READER, lo, count, ZERO - 1)
                _note(wgt, ZERO + WRITER, lo, count, i)
            else:
                if split_out == 0:
                    need[i, STORE] = _latest(acc, ZERO + READER, lo, count, ZERO - 1)
                _note(acc, ZERO + WRITER, lo, count, i)
                _note(acc, ZERO + FRESH, lo, count, ZERO)
        elif op == OP_STORE:
            lo = table[i, SRAM]
            hi = lo + table[i, Y_SIZE] * table[i, X_SIZE]
            count = hi - lo
            need[i, COMPUTE] = _latest(acc, ZERO + WRITER, lo, count, ZERO - 1)
            if stale < 0:
                for k in range(lo, hi):
                    if acc[FRESH, k] != 1:
                        stale = i
            _note(acc, ZERO + READER, lo, count, i)
        else:
            bgn = uop_at[i]
            end = bgn + table[i, UOP_END] - table[i, UOP_BGN]
            gemm = op == OP_GEMM and table[i, RESET] == 0
            writes_out = ZERO if (op == OP_GEMM and not gemm) else ZERO + 1
            from_load = -1
            from_store = ZERO - 1
            # A loop that does not move an operand is gone through once for it, and so are micro-ops with the same base.
            out_stride, in_stride = table[i, DST_OUT], table[i, DST_IN]
            outer, inner = _moving(table[i, ITER_OUT], out_stride), _moving(table[i, ITER_IN], in_stride)
            if out_stride == 1:
                outer, inner, out_stride, in_stride = inner, outer, in_stride, out_stride
            waits = writes_out == 1 or split_out == 0
            for u in range(bgn, end if outer * inner > 0 else bgn):
                base = triples[u, 0]
                if acc[BASE, base] == i:
                    continue
                acc[BASE, base] = i
                for o in range(outer):
                    first = base + o * out_stride
                    if in_stride == 1 and inner >= SIDE_BY_SIDE:
                        if waits:
                            from_store = _latest(acc, ZERO + READER, first, inner, from_store)
                        _note(acc, ZERO + WRITER, first, inner, i)
                        _note(acc, ZERO + FRESH, first, inner, writes_out)
                        continue
                    for j in range(inner):
                        d = first + j * in_stride
                        if waits and acc[READER, d] > from_store:
                            from_store = acc[READER, d]
                        acc[WRITER, d] = i
                        acc[FRESH, d] = writes_out
            if gemm:
                outer, inner = table[i, ITER_OUT], table[i, ITER_IN]
                from_inp = _reads(triples, ZERO + 1, bgn, end, outer, inner, table[i, SRC_OUT], table[i, SRC_IN], inp, i)
                from_wgt = _reads(triples, ZERO + 2, bgn, end, outer, inner, table[i, WGT_OUT], table[i, WGT_IN], wgt, i)
                from_load = max(from_inp, from_wgt)
            need[i, LOAD] = from_load
            need[i, STORE] = from_store
    return stale


@lean
def tokens(table: I64, engine: I64, need: I64, acquired: I64, given: I64) -> None:
    """Writes the four flags of every instruction: the fewest tokens that order what ``need`` orders.

    Engines are in order, so a token from an instruction also speaks for all earlier ones of its engine. ``acquired``: the latest
    acquired instruction per channel, -1 at first. ``given``: how many tokens there are per channel, 0 at first.
    """
    n = table.shape[0]
    for i in range(n):
        e = engine[i]
        if e == LOAD:
            p = need[i, COMPUTE]
            if p > acquired[FROM_COMPUTE]:
                table[i, POP_NEXT] = 1
                table[p, PUSH_PREV] = 1
                acquired[FROM_COMPUTE] = p
                given[FROM_COMPUTE] += 1
        elif e == STORE:
            p = need[i, COMPUTE]
            if p > acquired[TO_STORE]:
                table[i, POP_PREV] = 1
                table[p, PUSH_NEXT] = 1
                acquired[TO_STORE] = p
                given[TO_STORE] += 1
        else:
            p = need[i, LOAD]
            if p > acquired[TO_COMPUTE]:
                table[i, POP_PREV] = 1
                table[p, PUSH_NEXT] = 1
                acquired[TO_COMPUTE] = p
                given[TO_COMPUTE] += 1
            p = need[i, STORE]
            if p > acquired[FROM_STORE]:
                table[i, POP_NEXT] = 1
                table[p, PUSH_PREV] = 1
                acquired[FROM_STORE] = p
                given[FROM_STORE] += 1


@lean
def dram_needs(boxes: I64, is_store: I64, engine: I64, writer: I64, reader: I64, need: I64) -> None:
    """Per instruction: the latest STORE whose bytes it loads, and for a STORE the latest loads whose bytes it overwrites.

    ``boxes`` are (start, rows, row size, stride) in granules, from the first that counts. ``writer`` of every granule, its
    ``reader`` by engine and ``need`` are -1 at first.
    """
    size = len(writer)
    for i in range(boxes.shape[0]):
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


@lean
def waiting(table: I64, engine: I64, pushes: I64, pops: I64, counts: I64) -> None:
    """Per channel, in the first row of ``counts``, an upper bound of the tokens that wait at once.

    When a producer pushes, every consumer has taken its token that precedes the instruction whose token the producer's engine
    took last on the channel back. Room to work in, zeros: ``pushes`` and ``pops`` (4, tokens of a channel), ``counts`` (3, 4).
    """
    n = table.shape[0]
    producer = (LOAD, COMPUTE, COMPUTE, STORE)
    consumer = (COMPUTE, LOAD, STORE, COMPUTE)
    push_column = (PUSH_NEXT, PUSH_PREV, PUSH_NEXT, PUSH_PREV)
    pop_column = (POP_PREV, POP_NEXT, POP_PREV, POP_NEXT)
    back = (FROM_COMPUTE, TO_COMPUTE, FROM_STORE, TO_STORE)
    most, n_push, n_pop = counts[0], counts[1], counts[2]
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
