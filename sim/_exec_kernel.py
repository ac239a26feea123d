"""Numba kernels of :mod:`sim.semantics`: what instructions do to SRAM and DRAM.

Lanes live unpacked: INP, WGT, ACC and OUT are int32 arrays whatever their width is, so that one compiled
version serves every configuration. ACC and OUT are kept sign-wrapped to their widths. WGT is kept transposed,
[element][input][output], because then the innermost loop of a GEMM runs over adjacent outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import isa
from sim._kernels import ZERO, lean, refresh
from sim.config import ITER_BITS, PAGE_BITS, PAGE_BYTES

refresh(__file__, "isa", "config")

# Positions in the parameter vector.
P_CHISEL, P_UOP_SPAN, P_DST_BITS, P_SRC_BITS, P_WGT_BITS = 0, 1, 2, 3, 4
P_INP_LANE, P_WGT_LANE, P_ACC_LANE, P_OUT_LANE = 5, 6, 7, 8
P_UOP_MASK = 9
N_PARAMS = 10

# Status codes: an index that the functional simulator refuses.
OK, BAD_UOP, BAD_DST, BAD_SRC, BAD_WGT = 0, 1, 2, 3, 4

_PAGE_BITS, _PAGE_MASK = PAGE_BITS, PAGE_BYTES - 1
_CHISEL_LOOPS = 1 << ITER_BITS

_OPCODE, _MEM, _SRAM, _DRAM = isa.OPCODE, isa.MEM, isa.SRAM, isa.DRAM
_Y, _X, _STRIDE = isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE
_YP0, _YP1, _XP0, _XP1 = isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1
_RESET, _BGN, _END, _OUT, _IN = isa.RESET, isa.UOP_BGN, isa.UOP_END, isa.ITER_OUT, isa.ITER_IN
_DO, _DI, _SO, _SI, _WO, _WI = isa.DST_OUT, isa.DST_IN, isa.SRC_OUT, isa.SRC_IN, isa.WGT_OUT, isa.WGT_IN
_ALU_OP, _USE_IMM, _IMM = isa.ALU_OP, isa.USE_IMM, isa.IMM
_LOAD, _STORE, _GEMM, _ALU = isa.OP_LOAD, isa.OP_STORE, isa.OP_GEMM, isa.OP_ALU
_MUOP, _MWGT, _MINP, _MACC, _MACC8 = isa.MEM_UOP, isa.MEM_WGT, isa.MEM_INP, isa.MEM_ACC, isa.MEM_ACC_8BIT
_MIN, _MAX, _ADD, _SHR = isa.ALU_MIN, isa.ALU_MAX, isa.ALU_ADD, isa.ALU_SHR


@lean
def trips(row: Any, chisel: Any, span: Any) -> Any:
    """Return (iter_out, iter_in, uops) as executed: the RTL compares with count - 1, so 0 means all of it."""
    if chisel:
        outer = row[_OUT] if row[_OUT] else _CHISEL_LOOPS
        inner = row[_IN] if row[_IN] else _CHISEL_LOOPS
        return outer, inner, (row[_END] - row[_BGN] - 1) % span + 1
    return row[_OUT], row[_IN], max(row[_END] - row[_BGN], 0)


@lean
def _physical(pages: Any, address: Any) -> Any:
    return (np.int64(pages[address >> _PAGE_BITS]) << _PAGE_BITS) + (address & _PAGE_MASK)


@lean
def _wrap(value: Any, bits: Any) -> Any:
    """Keep the low ``bits`` of an integer, read as signed."""
    shift = 64 - bits
    return np.int32((np.int64(value) << shift) >> shift)


@lean
def _lane(data: Any, start: Any, lane: Any, bits: Any) -> Any:
    """Return signed lane number ``lane`` of an element that begins at byte ``start``."""
    if bits == 8:
        return np.int32(np.int8(data[start + lane]))
    if bits < 8:
        bit = lane * bits
        return _wrap(np.int64(data[start + (bit >> 3)]) >> (bit & 7), bits)
    size = bits >> 3
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(data[start + lane * size + k]) << (8 * k)
    return _wrap(value, bits)


@lean
def _put_lane(data: Any, start: Any, lane: Any, bits: Any, value: Any) -> None:
    if bits >= 8:
        size = bits >> 3
        for k in range(size):
            data[start + lane * size + k] = (np.int64(value) >> (8 * k)) & 255
        return
    bit = lane * bits
    at = start + (bit >> 3)
    mask = ((1 << bits) - 1) << (bit & 7)
    data[at] = (np.int64(data[at]) & ~mask) | ((np.int64(value) << (bit & 7)) & mask)


@lean
def load_uops(row: Any, data: Any, pages: Any, words: Any) -> Any:
    """Fill ``words``, uint32[H * W], with what a LOAD UOP reads: rows, and zeros for pads."""
    width = row[_XP0] + row[_X] + row[_XP1]
    for y in range(row[_Y]):
        for x in range(row[_X]):
            start = _physical(pages, (row[_DRAM] + y * row[_STRIDE] + x) * 4)
            word = np.int64(0)
            for k in range(4):
                word |= np.int64(data[start + k]) << (8 * k)
            words[(row[_YP0] + y) * width + row[_XP0] + x] = word


@lean
def collect_uops(table: Any, offsets: Any, data: Any, pages: Any, words: Any) -> None:
    """Fill ``words`` with what every LOAD UOP reads from an image; ``offsets[i]`` is where instruction i's begin."""
    for i in range(table.shape[0]):
        row = table[i]
        if row[_OPCODE] == _LOAD and row[_MEM] == _MUOP and row[_X] > 0:
            load_uops(row, data, pages, words[offsets[i] : offsets[i + 1]])


@lean
def _load_lanes(row: Any, data: Any, pages: Any, sram: Any, bits: Any, bytes_: Any, transposed: Any) -> None:
    """LOAD into a memory of shape [depth][a][b]; a power-of-two depth wraps."""
    mask = sram.shape[0] - 1
    a, b = sram.shape[1], sram.shape[2]
    width = row[_XP0] + row[_X] + row[_XP1]
    height = row[_YP0] + row[_Y] + row[_YP1]
    at = row[_SRAM]
    for y in range(height):
        inside = row[_YP0] <= y < row[_YP0] + row[_Y]
        for x in range(width):
            element = sram[at & mask]
            at += 1
            if inside and row[_XP0] <= x < row[_XP0] + row[_X]:
                address = (row[_DRAM] + (y - row[_YP0]) * row[_STRIDE] + x - row[_XP0]) * bytes_
                start = _physical(pages, address)
                if transposed:
                    for j in range(b):
                        for k in range(a):
                            element[k, j] = _lane(data, start, j * a + k, bits)
                else:
                    for j in range(a):
                        for k in range(b):
                            element[j, k] = _lane(data, start, j * b + k, bits)
            else:
                element[:, :] = 0


@lean
def _store(row: Any, data: Any, pages: Any, sram: Any, bits: Any, bytes_: Any, chisel: Any) -> None:
    mask = sram.shape[0] - 1
    a, b = sram.shape[1], sram.shape[2]
    rows = row[_Y]
    if rows == 0 and chisel:
        rows = 65536
    for y in range(rows):
        for x in range(row[_X]):
            element = sram[(row[_SRAM] + y * row[_X] + x) & mask]
            start = _physical(pages, (row[_DRAM] + y * row[_STRIDE] + x) * bytes_)
            for j in range(a):
                for k in range(b):
                    _put_lane(data, start, j * b + k, bits, element[j, k])


@lean
def _tile(acc: Any, inp: Any, wgt: Any) -> None:
    """acc[b][j] += sum_k inp[b][k] * wgt[k][j], modulo 2^32."""
    for b in range(acc.shape[0]):
        for k in range(inp.shape[1]):
            x = inp[b, k]
            for j in range(acc.shape[1]):
                acc[b, j] = np.int32(acc[b, j] + np.int32(x * wgt[k, j]))


@lean
def _gemm(row: Any, p: Any, uop: Any, inp: Any, wgt: Any, acc: Any, out: Any) -> Any:
    chisel = p[P_CHISEL] != 0
    outer, inner, uops = trips(row, chisel, p[P_UOP_SPAN])
    dst_mask, src_mask, wgt_mask = acc.shape[0] - 1, inp.shape[0] - 1, wgt.shape[0] - 1
    src_shift, wgt_shift = p[P_DST_BITS], p[P_DST_BITS] + p[P_SRC_BITS]
    dst_field, src_field = (1 << p[P_DST_BITS]) - 1, (1 << p[P_SRC_BITS]) - 1
    wgt_field = (1 << p[P_WGT_BITS]) - 1
    reset = row[_RESET] != 0
    acc_bits, out_bits = p[P_ACC_LANE], p[P_OUT_LANE]
    lanes = acc.shape[2]
    for o in range(outer):
        for i in range(inner):
            for u in range(uops):
                at = row[_BGN] + u
                if not chisel and at > p[P_UOP_MASK]:
                    return BAD_UOP, at
                word = np.int64(uop[at & p[P_UOP_MASK]])
                d = (word & dst_field) + o * row[_DO] + i * row[_DI]
                if not chisel and d > dst_mask:
                    return BAD_DST, d
                target = acc[d & dst_mask]
                if reset:
                    target[:, :] = 0
                    continue
                s = ((word >> src_shift) & src_field) + o * row[_SO] + i * row[_SI]
                w = ((word >> wgt_shift) & wgt_field) + o * row[_WO] + i * row[_WI]
                if not chisel:
                    if s > src_mask:
                        return BAD_SRC, s
                    if w > wgt_mask:
                        return BAD_WGT, w
                _tile(target, inp[s & src_mask], wgt[w & wgt_mask])
                narrow = out[d & dst_mask]
                for b in range(target.shape[0]):
                    if acc_bits < 32:
                        for j in range(lanes):
                            target[b, j] = _wrap(target[b, j], acc_bits)
                    shift = 32 - out_bits
                    for j in range(lanes):
                        narrow[b, j] = np.int32(np.int32(target[b, j] << shift) >> shift)
    return OK, 0


@lean
def _shift(x: Any, y: Any, chisel: Any, left: Any, acc_bits: Any) -> Any:
    """SHR; ``left`` is bit 15 of the immediate field, which alone decides the direction on the RTL."""
    if chisel:
        if left:
            return np.int64(x) << ((-y) & (acc_bits - 1))
        return np.int64(x) >> (y & (acc_bits - 1))
    # Amounts above 31 have no meaning in C++; x86 takes the low five bits.
    if y >= 0:
        return np.int64(x) >> (y & 31)
    return np.int64(x) << ((-y) & 31)


@lean
def _alu(row: Any, p: Any, uop: Any, acc: Any, out: Any, amounts: Any) -> Any:
    chisel = p[P_CHISEL] != 0
    outer, inner, uops = trips(row, chisel, p[P_UOP_SPAN])
    mask = acc.shape[0] - 1
    src_shift = p[P_DST_BITS]
    # The RTL puts the field that a GEMM calls WGT on top of the source index of an ALU micro-op.
    src_bits = p[P_SRC_BITS] + (p[P_WGT_BITS] if chisel else 0)
    dst_field, src_field = (1 << p[P_DST_BITS]) - 1, (1 << src_bits) - 1
    op, immediate, imm = row[_ALU_OP], row[_USE_IMM] != 0, row[_IMM]
    acc_bits, out_bits = p[P_ACC_LANE], p[P_OUT_LANE]
    for o in range(outer):
        for i in range(inner):
            for u in range(uops):
                at = row[_BGN] + u
                if not chisel and at > p[P_UOP_MASK]:
                    return BAD_UOP, at
                word = np.int64(uop[at & p[P_UOP_MASK]])
                d = (word & dst_field) + o * row[_DO] + i * row[_DI]
                s = ((word >> src_shift) & src_field) + o * row[_SO] + i * row[_SI]
                if not chisel:
                    if d > mask:
                        return BAD_DST, d
                    if s > mask:
                        return BAD_SRC, s
                target = acc[d & mask]
                source = acc[s & mask]
                # The RTL reads the first operand of an immediate form through the source index.
                first = source if immediate and chisel else target
                narrow = out[d & mask]
                for b in range(target.shape[0]):
                    for j in range(target.shape[1]):
                        x = np.int64(first[b, j])
                        y = imm if immediate else np.int64(source[b, j])
                        if op == _MIN:
                            z = min(x, y)
                        elif op == _MAX:
                            z = max(x, y)
                        elif op == _ADD:
                            z = x + y
                        elif op == _SHR:
                            if not immediate:
                                amounts[0] = min(amounts[0], y)
                                amounts[1] = max(amounts[1], y)
                            z = _shift(x, y, chisel, imm < 0, acc_bits)
                        else:
                            z = x * y
                        target[b, j] = _wrap(z, acc_bits)
                        narrow[b, j] = _wrap(z, out_bits)
    return OK, 0


@lean
def run(
    table: Any, order: Any, p: Any, data: Any, pages: Any, sizes: Any,
    uop: Any, inp: Any, wgt: Any, acc: Any, out: Any,
    offsets: Any, words: Any, amounts: Any,
) -> Any:  # fmt: skip
    """Execute instructions in the given order.

    sizes: bytes of an INP, WGT, ACC, OUT element. words, offsets: as in :func:`collect_uops`, filled here.
    amounts: int64[n, 2], least and greatest shift amount that a tensor SHR met.
    Returns (code, instruction, value); code OK, or which index is out of range.
    """
    chisel = p[P_CHISEL] != 0
    yes, no = ZERO == 0, ZERO != 0
    for k in range(order.shape[0]):
        index = order[k]
        row = table[index]
        op = row[_OPCODE]
        code, value = OK, np.int64(0)
        if op == _LOAD:
            if row[_X] == 0:
                continue
            mem = row[_MEM]
            if mem == _MUOP:
                mine = words[offsets[index] : offsets[index + 1]]
                load_uops(row, data, pages, mine)
                for e in range(mine.shape[0]):
                    uop[(row[_SRAM] + e) & p[P_UOP_MASK]] = mine[e]
            elif mem == _MWGT:
                _load_lanes(row, data, pages, wgt, p[P_WGT_LANE], sizes[1], yes)
            elif mem == _MINP:
                _load_lanes(row, data, pages, inp, p[P_INP_LANE], sizes[0], no)
            elif mem == _MACC8:
                _load_lanes(row, data, pages, acc, ZERO + 8, sizes[2] // 4, no)
            else:
                _load_lanes(row, data, pages, acc, p[P_ACC_LANE], sizes[2], no)
        elif op == _STORE:
            if row[_X] > 0:
                if chisel:
                    _store(row, data, pages, out, p[P_OUT_LANE], sizes[3], yes)
                else:
                    _store(row, data, pages, acc, p[P_OUT_LANE], sizes[3], no)
        elif op == _GEMM:
            code, value = _gemm(row, p, uop, inp, wgt, acc, out)
        elif op == _ALU:
            code, value = _alu(row, p, uop, acc, out, amounts[index])
        if code != OK:
            return code, index, value
    return OK, -1, 0


@lean
def mark_pages(table: Any, chisel: Any, bytes_: Any, marks: Any, limit: int) -> Any:
    """Mark, in uint8[2^20], the pages that the stores of a table write.

    Returns the first instruction whose pages make more than ``limit`` of them, or -1.
    """
    count = 0
    for index in range(table.shape[0]):
        row = table[index]
        if row[_OPCODE] != _STORE or row[_X] == 0:
            continue
        rows = row[_Y]
        if rows == 0 and chisel:
            rows = 65536
        for y in range(rows):
            start = (row[_DRAM] + y * row[_STRIDE]) * bytes_
            end = start + row[_X] * bytes_ - 1
            for page in range(start >> _PAGE_BITS, (end >> _PAGE_BITS) + 1):
                if not marks[page]:
                    marks[page] = 1
                    count += 1
                    if count > limit:
                        return index
    return -1
