"""Micro-op kernels: equal ones shared, each at a fixed DRAM slot, and the LOAD UOPs that bring them in.

Kernels follow each other in DRAM in the order of their first use. When all of them fit the micro-op memory, slot and SRAM index are
the same, and each is loaded once; else a ring of the memory's size is filled in order of use, and a kernel that was pushed out is
loaded again before its next use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.errors import LoweringError
from autosched.lower.affine import Ints
from autosched.lower.compute import Kernels
from sim import isa
from sim.config import VTAConfig

# One LOAD brings in all kernels first used within so many instructions of each other.
BATCH_DISTANCE = 1 << 30


@dataclass(eq=False, slots=True)
class Uops:
    """All micro-ops of a program.

    Args:
        triples: int64[n, 3] of (acc, inp or src, wgt), in DRAM order.
        slot: per kernel, its first micro-op in DRAM.
        length: per kernel, its micro-ops.
    """

    triples: Ints
    slot: Ints
    length: Ints


def collect(kernels: Kernels, order: Ints) -> tuple[Uops, Ints]:
    """Distinct kernels in order of first use.

    Args:
        kernels: instructions with patterns and bases.
        order: the rows in program order.

    Returns:
        the micro-ops, and per row (unsorted) the number of its kernel.
    """
    n = len(kernels.pattern)
    kernel_of = np.zeros(n, dtype=np.int64)
    # A row is known by its pattern and three bases below 2^16.
    code = ((kernels.pattern << 16 | kernels.base[:, 0]) << 16 | kernels.base[:, 1]) << 16 | kernels.base[:, 2]
    distinct, first, inverse = np.unique(code[order], return_index=True, return_inverse=True)
    seen: dict[bytes, int] = {}
    content: list[Ints] = []
    number = np.zeros(len(distinct), dtype=np.int64)
    for k in np.argsort(first, kind="stable"):
        row = order[first[k]]
        uops = kernels.patterns[kernels.pattern[row]] + kernels.base[row]
        mark = uops.tobytes()
        found = seen.get(mark)
        if found is None:
            found = seen[mark] = len(content)
            content.append(uops)
        number[k] = found
    kernel_of[order] = number[inverse]
    length = np.array([len(c) for c in content], dtype=np.int64)
    slot = np.cumsum(length) - length
    triples = np.concatenate(content) if content else np.zeros((0, 3), dtype=np.int64)
    return Uops(triples, slot, length), kernel_of


@dataclass(eq=False, slots=True)
class Placement:
    """Where kernels are when they are used, and what is loaded when.

    Args:
        begin: per use, in program order, the SRAM index of its kernel.
        before: per LOAD UOP, the number of the use that it precedes.
        sram: its SRAM index.
        slot: its first micro-op in DRAM.
        count: its micro-ops.
    """

    begin: Ints
    before: Ints
    sram: Ints
    slot: Ints
    count: Ints


def place(uops: Uops, used: Ints, config: VTAConfig) -> Placement:
    """Decides residency.

    Args:
        uops: all micro-ops.
        used: kernel of each using instruction, in program order.
        config: the machine.

    Raises:
        LoweringError: kind ``capacity``: one kernel alone exceeds the memory.
    """
    capacity = config.uop_capacity
    if len(uops.length) and int(uops.length.max()) > capacity:
        raise LoweringError("capacity", f"a list of {int(uops.length.max())} micro-ops exceeds the {capacity} of the memory")
    if len(uops.triples) <= capacity:
        return _resident(uops, used)
    return _ring(uops, used, capacity)


def _resident(uops: Uops, used: Ints) -> Placement:
    """All fit: kernels are numbered by first use, so every load is one run of slots."""
    if not len(used):
        none = np.zeros(0, dtype=np.int64)
        return Placement(none, none, none, none, none)
    first = np.full(len(uops.length), len(used), dtype=np.int64)
    np.minimum.at(first, used, np.arange(len(used)))
    groups = [0]
    for k in range(1, len(first)):
        if first[k] - first[k - 1] > BATCH_DISTANCE:
            groups.append(k)
    starts = np.array(groups, dtype=np.int64)
    ends = np.append(starts[1:], len(first))
    slot = uops.slot[starts]
    count = np.append(uops.slot, len(uops.triples))[ends] - slot
    return Placement(uops.slot[used], first[starts], slot, slot, count)


def _ring(uops: Uops, used: Ints, capacity: int) -> Placement:
    at = np.full(len(uops.length), -1, dtype=np.int64)
    begin = np.zeros(len(used), dtype=np.int64)
    loads: list[tuple[int, int, int, int]] = []
    live: list[tuple[int, int, int]] = []  # (first, end, kernel), oldest first
    head = 0
    for use, kernel in enumerate(used.tolist()):
        if at[kernel] < 0:
            size = int(uops.length[kernel])
            if head + size > capacity:
                head = 0
            while live and any(a < head + size and head < b for a, b, _ in live):
                a, b, old = live.pop(0)
                at[old] = -1
            at[kernel] = head
            live.append((head, head + size, kernel))
            slot = int(uops.slot[kernel])
            if loads and loads[-1][0] == use and loads[-1][1] + loads[-1][3] == head and loads[-1][2] + loads[-1][3] == slot:
                loads[-1] = (use, loads[-1][1], loads[-1][2], loads[-1][3] + size)
            else:
                loads.append((use, head, slot, size))
            head += size
        begin[use] = at[kernel]
    table = np.array(loads, dtype=np.int64).reshape(-1, 4)
    return Placement(begin, table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def load_rows(placement: Placement, dram_base: int) -> isa.Table:
    """The LOAD UOP instructions."""
    table = np.zeros((len(placement.before), isa.NCOLS), dtype=np.int64)
    table[:, isa.OPCODE] = isa.OP_LOAD
    table[:, isa.MEM] = isa.MEM_UOP
    table[:, isa.SRAM] = placement.sram
    table[:, isa.DRAM] = dram_base + placement.slot
    table[:, isa.Y_SIZE] = 1
    table[:, isa.X_SIZE] = table[:, isa.X_STRIDE] = placement.count
    return table
