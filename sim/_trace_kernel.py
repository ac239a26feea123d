"""Numba kernels of :mod:`sim.trace`: which elements every instruction touches, without any data."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import isa
from sim._exec_kernel import (
    P_CHISEL,
    P_DST_BITS,
    P_SRC_BITS,
    P_UOP_MASK,
    P_UOP_SPAN,
    P_WGT_BITS,
    trips,
)
from sim._kernels import kernel, lean, refresh

refresh(__file__, "isa", "config", "_exec_kernel")

# What may be found at an instruction; the value kept is the first SRAM element concerned. These, memories and kinds of races have
# a type as ``ZERO`` has.
STALE, UNWRITTEN = map(np.int64, (0, 1))
RTL_HAZARD, HLS_HAZARD = map(np.int64, (2, 3))
UOP_WRAP, DST_WRAP, SRC_WRAP, WGT_WRAP = map(np.int64, (4, 5, 6, 7))
IMM_SRC, EXTRA_FIELD = map(np.int64, (8, 9))
UOP_VOID, INP_VOID, WGT_VOID, ACC_VOID = map(np.int64, (10, 11, 12, 13))
# Of an immediate form that names two places: each is read by some implementations only.
IMM_SRC_VOID, IMM_DST_VOID = map(np.int64, (14, 15))
N_FINDINGS = 16

RAW, WAR, WAW = map(np.int64, (0, 1, 2))
DRAM_RACE = np.int64(6)  # memory number of DRAM in a race record; the others are isa.MEM_*
# Columns of a race record.
R_FIRST, R_SECOND, R_MEM, R_LOW, R_HIGH, R_KIND = 0, 1, 2, 3, 4, 5

_L, _C, _S = 0, 1, 2
_OPCODE, _MEM, _SRAM, _DRAM = isa.OPCODE, isa.MEM, isa.SRAM, isa.DRAM
_Y, _X, _STRIDE = isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE
_YP0, _YP1, _XP0, _XP1 = isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1
_RESET, _BGN, _USE_IMM = isa.RESET, isa.UOP_BGN, isa.USE_IMM
_DO, _DI, _SO, _SI, _WO, _WI = isa.DST_OUT, isa.DST_IN, isa.SRC_OUT, isa.SRC_IN, isa.WGT_OUT, isa.WGT_IN
_LOAD, _STORE, _GEMM, _ALU = isa.OP_LOAD, isa.OP_STORE, isa.OP_GEMM, isa.OP_ALU
_MUOP, _MWGT, _MINP, _MACC, _MOUT = map(
    np.int64, (isa.MEM_UOP, isa.MEM_WGT, isa.MEM_INP, isa.MEM_ACC, isa.MEM_OUT)
)


@lean
def _note(found: Any, index: Any, kind: Any, element: Any) -> None:
    if found[index, kind] < 0:
        found[index, kind] = element


@lean
def _race(races: Any, count: Any, first: Any, second: Any, mem: Any, low: Any, high: Any, kind: Any) -> None:
    """Add to the record of this pair, or start one; ``count`` is (records, pairs that found no room)."""
    k = count[0] - 1
    while k >= 0 and races[k, R_SECOND] == second:
        if races[k, R_FIRST] == first and races[k, R_MEM] == mem and races[k, R_KIND] == kind:
            races[k, R_LOW] = min(races[k, R_LOW], low)
            races[k, R_HIGH] = max(races[k, R_HIGH], high)
            return
        k -= 1
    if count[0] == races.shape[0]:
        count[1] += 1
        return
    races[count[0], R_FIRST] = first
    races[count[0], R_SECOND] = second
    races[count[0], R_MEM] = mem
    races[count[0], R_LOW] = low
    races[count[0], R_HIGH] = high
    races[count[0], R_KIND] = kind
    count[0] += 1


@kernel
def scan(
    table: Any, order: Any, clocks: Any, rank: Any, ids: Any, p: Any,
    offsets: Any, words: Any, depth: Any, out_races: bool, acc_races: bool, races: Any, count: Any,
) -> Any:  # fmt: skip
    """Walk a program in an order that its tokens allow.

    ids: int64[3, n + 1], the instruction of each rank of each engine. depth: elements per MEM_*.
    For every element the last writer and, on the other side, the last reader are kept as ranks within their
    engine; engines are in order, so knowing the last one is knowing all. Returns int64[n, N_FINDINGS], -1
    where nothing was found; fills ``races`` and ``count``.
    """
    n = table.shape[0]
    found = np.full((n, N_FINDINGS), -1, np.int64)
    chisel = p[P_CHISEL] != 0
    uop = np.zeros(depth[_MUOP], np.uint32)
    uop_seen = np.zeros(depth[_MUOP], np.uint8)
    inp_w = np.zeros(depth[_MINP], np.int64)
    inp_r = np.zeros(depth[_MINP], np.int64)
    wgt_w = np.zeros(depth[_MWGT], np.int64)
    wgt_r = np.zeros(depth[_MWGT], np.int64)
    acc_w = np.zeros(depth[_MACC], np.int64)
    out_w = np.zeros(depth[_MACC], np.int64)
    out_r = np.zeros(depth[_MACC], np.int64)
    # 0: OUT equals ACC; 1: ACC changed without OUT.
    stale = np.zeros(depth[_MACC], np.uint8)
    inp_mask, wgt_mask, acc_mask = depth[_MINP] - 1, depth[_MWGT] - 1, depth[_MACC] - 1
    uop_mask = p[P_UOP_MASK]
    src_shift, wgt_shift = p[P_DST_BITS], p[P_DST_BITS] + p[P_SRC_BITS]
    dst_field, src_field = (1 << p[P_DST_BITS]) - 1, (1 << p[P_SRC_BITS]) - 1
    wgt_field = (1 << p[P_WGT_BITS]) - 1

    for step in range(order.shape[0]):
        index = order[step]
        row = table[index]
        op = row[_OPCODE]
        me = rank[index]
        saw_load, saw_compute, saw_store = clocks[index, _L], clocks[index, _C], clocks[index, _S]

        if op == _LOAD and row[_X] > 0:
            area = (row[_XP0] + row[_X] + row[_XP1]) * (row[_YP0] + row[_Y] + row[_YP1])
            mem = row[_MEM]
            for k in range(area):
                at = row[_SRAM] + k
                if mem == _MUOP:
                    uop[at & uop_mask] = words[offsets[index] + k]
                    uop_seen[at & uop_mask] = 1
                elif mem == _MINP:
                    at &= inp_mask
                    if inp_r[at] > saw_compute:
                        _race(races, count, ids[_C, inp_r[at]], index, mem, at, at, WAR)
                    inp_w[at] = me
                elif mem == _MWGT:
                    at &= wgt_mask
                    if wgt_r[at] > saw_compute:
                        _race(races, count, ids[_C, wgt_r[at]], index, mem, at, at, WAR)
                    wgt_w[at] = me
                else:
                    at &= acc_mask
                    if acc_races and out_r[at] > saw_store:
                        _race(races, count, ids[_S, out_r[at]], index, _MACC, at, at, WAR)
                    acc_w[at] = me
                    stale[at] = 1

        elif op == _STORE and row[_X] > 0:
            rows = row[_Y]
            if rows == 0 and chisel:
                rows = 65536
            for k in range(rows * row[_X]):
                at = (row[_SRAM] + k) & acc_mask
                if acc_w[at] == 0:
                    _note(found, index, UNWRITTEN, at)
                elif stale[at]:
                    _note(found, index, STALE, at)
                if out_races and out_w[at] > saw_compute:
                    _race(races, count, ids[_C, out_w[at]], index, _MOUT, at, at, RAW)
                if acc_races and acc_w[at] > saw_compute:
                    _race(races, count, ids[_C, acc_w[at]], index, _MACC, at, at, RAW)
                out_r[at] = me

        elif op in (_GEMM, _ALU):
            outer, inner, uops = trips(row, chisel, p[P_UOP_SPAN])
            gemm = op == _GEMM
            reset = gemm and row[_RESET] != 0
            immediate = (not gemm) and row[_USE_IMM] != 0
            one, two = np.int64(-1), np.int64(-1)
            for o in range(outer):
                for i in range(inner):
                    dst_base = o * row[_DO] + i * row[_DI]
                    src_base = o * row[_SO] + i * row[_SI]
                    wgt_base = o * row[_WO] + i * row[_WI]
                    for u in range(uops):
                        at = row[_BGN] + u
                        if at > uop_mask:
                            _note(found, index, UOP_WRAP, at)
                            at &= uop_mask
                        if not uop_seen[at]:
                            _note(found, index, UOP_VOID, at)
                        word = np.int64(uop[at])
                        d = (word & dst_field) + dst_base
                        if d > acc_mask:
                            _note(found, index, DST_WRAP, d)
                            d &= acc_mask
                        s = ((word >> src_shift) & src_field) + src_base
                        if gemm and not reset:
                            if s > inp_mask:
                                _note(found, index, SRC_WRAP, s)
                                s &= inp_mask
                            w = ((word >> wgt_shift) & wgt_field) + wgt_base
                            if w > wgt_mask:
                                _note(found, index, WGT_WRAP, w)
                                w &= wgt_mask
                            if inp_w[s] == 0:
                                _note(found, index, INP_VOID, s)
                            elif inp_w[s] > saw_load:
                                _race(races, count, ids[_L, inp_w[s]], index, _MINP, s, s, RAW)
                            inp_r[s] = me
                            if wgt_w[w] == 0:
                                _note(found, index, WGT_VOID, w)
                            elif wgt_w[w] > saw_load:
                                _race(races, count, ids[_L, wgt_w[w]], index, _MWGT, w, w, RAW)
                            wgt_r[w] = me
                            if d in (one, two):
                                _note(found, index, HLS_HAZARD, d)
                        elif not gemm:
                            if s > acc_mask:
                                _note(found, index, SRC_WRAP, s)
                                s &= acc_mask
                            if (word >> wgt_shift) & wgt_field:
                                _note(found, index, EXTRA_FIELD, at)
                            if acc_w[s] == 0:
                                _note(found, index, IMM_SRC_VOID if immediate and s != d else ACC_VOID, s)
                            if immediate:
                                if s != d:
                                    _note(found, index, IMM_SRC, s)
                                if one in (d, s):
                                    _note(found, index, RTL_HAZARD, one)
                                if d in (one, two):
                                    _note(found, index, HLS_HAZARD, d)
                            else:
                                if s == one:
                                    _note(found, index, RTL_HAZARD, s)
                                if d in (one, two):
                                    _note(found, index, HLS_HAZARD, d)
                                if s in (one, two):
                                    _note(found, index, HLS_HAZARD, s)
                        two = one
                        one = d
                        if not reset and acc_w[d] == 0:
                            _note(found, index, IMM_DST_VOID if not gemm and immediate and s != d else ACC_VOID, d)
                        if out_r[d] > saw_store:
                            if out_races and not reset:
                                _race(races, count, ids[_S, out_r[d]], index, _MOUT, d, d, WAR)
                            if acc_races:
                                _race(races, count, ids[_S, out_r[d]], index, _MACC, d, d, WAR)
                        acc_w[d] = me
                        if reset:
                            stale[d] = 1
                        else:
                            out_w[d] = me
                            stale[d] = 0
    return found


@lean
def _row_overlap(a: Any, b: Any, low_high: Any) -> bool:
    """Whether two 2-D byte ranges (base, rows, length, stride) share a byte; the shared span goes to low_high."""
    hit = False
    for r in range(a[1]):
        start = a[0] + r * a[3]
        end = start + a[2]
        if b[3] == 0:
            first, last = 0, 0
        else:
            first = -((b[0] + b[2] - 1 - start) // b[3])
            last = (end - 1 - b[0]) // b[3]
            first = max(first, 0)
            last = min(last, b[1] - 1)
        if first > last:
            continue
        for at in (first, last):
            low = max(start, b[0] + at * b[3])
            high = min(end, b[0] + at * b[3] + b[2]) - 1
            if low <= high:
                hit = True
                low_high[0] = min(low_high[0], low)
                low_high[1] = max(low_high[1], high)
    return hit


@kernel
def dram_races(
    engine: Any, clocks: Any, rank: Any, stores: Any, readers: Any, boxes: Any, races: Any, count: Any
) -> None:
    """Find pairs of a STORE and a LOAD that share bytes of DRAM and that nothing orders.

    stores, readers: instruction indices that ran. boxes: int64[n, 4], (base, rows, row bytes, stride) of each.
    """
    span = np.empty(2, np.int64)
    for a in range(stores.shape[0]):
        s = stores[a]
        low = boxes[s, 0]
        high = low + (boxes[s, 1] - 1) * boxes[s, 3] + boxes[s, 2]
        for b in range(readers.shape[0]):
            r = readers[b]
            if boxes[r, 0] >= high or boxes[r, 0] + (boxes[r, 1] - 1) * boxes[r, 3] + boxes[r, 2] <= low:
                continue
            if rank[s] <= clocks[r, _S] or rank[r] <= clocks[s, engine[r]]:
                continue
            span[0] = np.int64(1) << 62
            span[1] = -1
            if _row_overlap(boxes[s], boxes[r], span):
                if s < r:
                    _race(races, count, s, r, DRAM_RACE, span[0], span[1], RAW)
                else:
                    _race(races, count, r, s, DRAM_RACE, span[0], span[1], WAR)
