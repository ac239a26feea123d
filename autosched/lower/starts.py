"""Sums that start by a MAX or a MIN: where what stands in the accumulator is proven to be on one side of what they start with.

Only the RTL moves an accumulator in one operation. Elsewhere ``y = x`` is a reset and an ADD of a tensor, three cycles a vector;
where every lane of ``y`` is known to be at most every lane of ``x``, ``y = max(y, x)`` does it in two, and where it is at least
that, ``y = min(y, x)``. So does a constant, in one cycle instead of two: 128, of which ``y`` is at most 127 since it has been
clipped. What stands in ``y`` is followed through the whole instruction stream, as an interval per element, from the declared
ranges of what is loaded: nothing is known at the start, behind a product, and where another buffer had the place, so that the
reset stays there. ``raise_epilogue`` and ``offset_epilogue`` make programs in which it may go everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autosched.ir.value_bounds import dtype_bounds
from autosched.lower.affine import Ints
from autosched.lower.tokens import Stream
from sim import isa
from sim.config import VTAConfig

LEAST, MOST = -(1 << 31), (1 << 31) - 1


def start_by_extremum(
    stream: Stream, config: VTAConfig, declared: Iterable[tuple[int, int, tuple[int, int]]]
) -> tuple[Stream, Ints]:
    """The stream with a MAX or a MIN for a reset and an ADD wherever that is the same, and which rows of the old one it keeps.

    Args:
        stream: instructions in program order, with their micro-ops.
        config: the machine.
        declared: (first byte, bytes, (least, most)) of what in DRAM has a range and is never stored to.
    """
    table = stream.table
    adds = (table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.ALU_OP] == isa.ALU_ADD)
    resets = (table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] != 0)
    if not bool(adds.any() and resets.any()):
        return stream, np.arange(len(table))
    from autosched.lower._start_kernel import BY_MAX, BY_MIN, GOES, STATE_ROWS, by_extremum

    low, high = ranges(table, config, declared)
    found, state = np.zeros(len(table), dtype=np.int64), np.zeros((STATE_ROWS, config.acc_depth), dtype=np.int64)
    by_extremum(table, stream.uop_at, stream.triples, low, high, state, found)
    table = table.copy()
    table[found == BY_MAX, isa.ALU_OP] = isa.ALU_MAX
    table[found == BY_MIN, isa.ALU_OP] = isa.ALU_MIN
    kept = np.flatnonzero(found != GOES)
    return Stream(np.ascontiguousarray(table[kept]), stream.uop_at[kept], stream.triples), kept


def ranges(table: isa.Table, config: VTAConfig, declared: Iterable[tuple[int, int, tuple[int, int]]]) -> tuple[Ints, Ints]:
    """Per instruction, between what the elements lie that it loads into ACC, where it does."""
    low, high = np.full(len(table), LEAST, dtype=np.int64), np.full(len(table), MOST, dtype=np.int64)
    at = table[:, isa.DRAM] * isa.element_bytes(config)[isa.MEM_ACC]
    loads = (table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_ACC)
    for first, size, (least, most) in declared:
        here = loads & (at >= first) & (at < first + size)
        low[here], high[here] = least, most
    widened = (table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_ACC_8BIT)
    low[widened], high[widened] = dtype_bounds("int8")
    return low, high


def warm() -> None:
    """Compiles the kernel, or loads it from numba's cache."""
    from autosched.lower._start_kernel import STATE_ROWS, by_extremum

    none, state = np.zeros(0, dtype=np.int64), np.zeros((STATE_ROWS, 1), dtype=np.int64)
    by_extremum(np.zeros((0, isa.NCOLS), dtype=np.int64), none, np.zeros((0, 3), dtype=np.int64), none, none, state, none)
