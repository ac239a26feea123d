"""Micro-op kernels: equal ones shared, each at a fixed DRAM slot, and the LOAD UOPs that bring them in.

Kernels follow each other in DRAM in the order of their first use. When all of them fit the micro-op memory, slot and SRAM
index are the same, and one LOAD at the start of the program brings in all. (Measured: later or several LOADs cost the same or
up to 3 % more, since each stops the compute engine, and reads behind a weight stream.) Else a ring of the memory's size is
filled in order of use, and a kernel that was pushed out is loaded again before its next use.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from autosched.errors import LoweringError
from autosched.lower.affine import Ints
from autosched.lower.compute import Kernels
from autosched.lower.limits import check_uops
from sim import isa

# A LOAD UOP of a ring also brings in kernels that follow in DRAM and are used within so many instructions, but no more than this
# share of the memory.
AHEAD_USES = 64
AHEAD_SHARE = 4


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
    from autosched.lower._uop_kernel import distinct

    pattern, base = kernels.pattern, kernels.base
    lengths = np.array([len(p) for p in kernels.patterns], dtype=np.int64)
    ends = np.cumsum(lengths)
    flat = np.concatenate([*kernels.patterns, np.zeros((0, 3), dtype=np.int64)])
    kernel_of, first = np.zeros((2, len(pattern)), dtype=np.int64)
    known, table = np.full((2, 1 << len(pattern).bit_length() + 1), -1, dtype=np.int64)
    rows = first[: distinct(pattern, base, order, flat, ends, known, table, kernel_of, first)]
    own = pattern[rows]
    length = lengths[own]
    total = int(length.sum())
    check_uops(total)
    slot = np.cumsum(length) - length
    where = np.repeat(ends[own] - length - slot, length) + np.arange(total)
    return Uops(flat[where] + np.repeat(base[rows], length, axis=0), slot, length), kernel_of


def warm() -> None:
    """Compiles the kernel, or loads it from numba's cache."""
    from autosched.lower._uop_kernel import distinct

    zero, three = np.zeros(1, dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
    distinct(zero, three, zero, three, zero + 1, zero - 1, zero - 1, zero.copy(), zero.copy())


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


def place(uops: Uops, used: Ints, capacity: int) -> Placement:
    """Decides residency.

    Args:
        uops: all micro-ops.
        used: kernel of each using instruction, in program order.
        capacity: micro-ops that the machine holds and can name.

    Raises:
        LoweringError: kind ``capacity``: one kernel alone exceeds the memory.
    """
    if len(uops.length) and int(uops.length.max()) > capacity:
        raise LoweringError("capacity", f"a list of {int(uops.length.max())} micro-ops exceeds the {capacity} of the memory")
    if len(uops.triples) <= capacity:
        return _resident(uops, used)
    return _ring(uops, used, capacity)


def _resident(uops: Uops, used: Ints) -> Placement:
    """All fit: one load of everything before the first use."""
    count = min(len(used), 1)
    first = np.zeros(count, dtype=np.int64)
    size = np.full(count, len(uops.triples), dtype=np.int64)
    return Placement(uops.slot[used], first, first, first, size)


def _ring(uops: Uops, used: Ints, capacity: int) -> Placement:
    at = np.full(len(uops.length), -1, dtype=np.int64)
    begin = np.zeros(len(used), dtype=np.int64)
    loads: list[tuple[int, int, int, int]] = []
    live: deque[tuple[int, int, int]] = deque()  # (first, end, kernel), oldest first
    order = np.argsort(used, kind="stable")
    uses = np.split(order, np.cumsum(np.bincount(used, minlength=len(uops.length)))[:-1])
    head = 0
    for use, kernel in enumerate(used.tolist()):
        if at[kernel] < 0:
            last, size = kernel, int(uops.length[kernel])
            while last + 1 < len(at) and at[last + 1] < 0 and _soon(uses[last + 1], use):
                more = int(uops.length[last + 1])
                if size + more > capacity // AHEAD_SHARE:
                    break
                last, size = last + 1, size + more
            # The oldest are first in the queue, and first in the memory behind ``head``.
            if head + size > capacity:
                while live and live[0][0] >= head:
                    at[live.popleft()[2]] = -1
                head = 0
            while live and live[0][0] < head + size and head < live[0][1]:
                at[live.popleft()[2]] = -1
            loads.append((use, head, int(uops.slot[kernel]), size))
            for k in range(kernel, last + 1):
                at[k] = head
                head += int(uops.length[k])
                live.append((int(at[k]), head, k))
        begin[use] = at[kernel]
    table = np.array(loads, dtype=np.int64).reshape(-1, 4)
    return Placement(begin, table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def _soon(uses: Ints, now: int) -> bool:
    """Whether one of a kernel's (sorted) uses comes within AHEAD_USES."""
    k = int(np.searchsorted(uses, now))
    return k < len(uses) and int(uses[k]) - now <= AHEAD_USES


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
