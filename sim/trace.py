"""Element-exact use of every memory by a program, from indices alone: the ground of races and of portability.

Micro-ops are data, so the words that each LOAD UOP reads are needed: from the image, or recorded by an
execution where a STORE may have written them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.config import VTAConfig
from sim.dram import Dram
from sim.encoding import encoding_of
from sim.legality import UOP_SPAN, box_ends, boxes, leaves_space, moves, region
from sim.tokens import Flow

MAX_RACES = 256
MEMORY_NAMES: tuple[str, ...] = (*isa.MEMORY_NAMES, "DRAM")
KINDS: tuple[str, ...] = ("RAW", "WAR", "WAW")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class UopLoads:
    """Words that every LOAD UOP reads: instruction i's are ``words[offsets[i]:offsets[i + 1]]``, pads included."""

    offsets: Ints
    words: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Race:
    """Two instructions of different engines that no token orders, and what they share.

    ``first`` comes first in the order examined; ``memory`` is INP, WGT, ACC, OUT or DRAM; ``low`` to ``high``
    (inclusive) are elements of it, or byte addresses of DRAM; ``kind`` is RAW, WAR or WAW.
    """

    first: int
    second: int
    memory: str
    low: int
    high: int
    kind: str

    @property
    def range(self) -> tuple[int, int]:
        """First and last element, or byte address, of the span in common."""
        return (self.low, self.high)

    def __str__(self) -> str:
        what = f"{self.low:#x}..{self.high:#x}" if self.memory == "DRAM" else f"{self.low}..{self.high}"
        return f"{self.kind} on {self.memory} {what}: no token orders instructions {self.first} and {self.second}"


@dataclass(frozen=True)
class Trace:
    """Races, how many more pairs found no room, and per instruction the first element of each finding (-1: none)."""

    races: tuple[Race, ...]
    dropped: int
    found: Ints


def parameters(config: VTAConfig, mode: str, loops: str | None = None) -> Ints:
    """The parameter vector of the kernels.

    mode: by whose rule micro-ops are encoded. loops: by whose rule loop counts are read (``mode`` if absent).
    """
    from sim import _exec_kernel as k

    p = np.zeros(k.N_PARAMS, dtype=np.int64)
    p[k.P_CHISEL] = (loops or mode) == "chisel"
    p[k.P_UOP_SPAN] = UOP_SPAN
    p[k.P_DST_BITS], p[k.P_SRC_BITS], p[k.P_WGT_BITS] = encoding_of(config, mode).uop
    p[k.P_INP_LANE] = 1 << config.LOG_INP_WIDTH
    p[k.P_WGT_LANE] = 1 << config.LOG_WGT_WIDTH
    p[k.P_ACC_LANE] = 1 << config.LOG_ACC_WIDTH
    p[k.P_OUT_LANE] = 1 << config.LOG_OUT_WIDTH
    p[k.P_UOP_MASK] = config.uop_capacity - 1
    return p


def empty_uops(table: isa.Table) -> UopLoads:
    """Room for what every LOAD UOP of a table reads."""
    width, height = region(table)
    mine = moves(table, isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_UOP)
    offsets = np.concatenate([[0], np.cumsum(np.where(mine, width * height, 0))]).astype(np.int64)
    return UopLoads(offsets, np.zeros(int(offsets[-1]), dtype=np.uint32))


def uops_of_image(table: isa.Table, config: VTAConfig, dram: Dram, mode: str) -> UopLoads:
    """What every LOAD UOP reads, if no STORE changes it before; zeros where it leaves the address space."""
    from sim._exec_kernel import collect_uops

    loads = empty_uops(table)
    outside = leaves_space(table, config, mode)
    if outside.any():
        table = table.copy()
        table[outside, isa.X_SIZE] = 0
    collect_uops(table, loads.offsets, dram.data, dram.pages, loads.words)
    return loads


def stores_meet(table: isa.Table, config: VTAConfig, mode: str, low: int, high: int) -> Ints:
    """Stores whose bounding span of DRAM meets bytes low..high - 1."""
    box = boxes(table, config, mode)
    hit = moves(table, isa.OP_STORE) & (box[:, 0] < high) & (box_ends(table, box) > low)
    return np.flatnonzero(hit)


def uops_are_constant(table: isa.Table, config: VTAConfig, mode: str) -> bool:
    """Whether no STORE can touch what a LOAD UOP reads (by bounding spans)."""
    box = boxes(table, config, mode)
    end = box_ends(table, box)
    mine = (table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_UOP) & (end > 0)
    if not mine.any():
        return True
    for index in stores_meet(table, config, mode, int(box[mine, 0].min()), int(end[mine].max())):
        low, high = int(box[index, 0]), int(end[index])
        if bool(((box[mine, 0] < high) & (end[mine] > low)).any()):
            return False
    return True


def trace(
    table: isa.Table, config: VTAConfig, state: Flow, uops: UopLoads, mode: str, semantics: str = "portable",
    loops: str | None = None,
) -> Trace:  # fmt: skip
    """Walk a program in its token order and report what it does to elements.

    mode: whose encoding micro-ops have (chisel or fsim). semantics: which memory a STORE reads: OUT (chisel), ACC
    (fsim), or both (portable). loops: how loop counts are read (as ``mode`` does, if absent).
    """
    from sim import _trace_kernel as k

    n = len(table)
    ids = np.zeros((3, n + 1), dtype=np.int64)
    ids[state.engine[state.order], state.rank[state.order]] = state.order
    races = np.zeros((MAX_RACES, 6), dtype=np.int64)
    count = np.zeros(2, dtype=np.int64)
    found = k.scan(
        table, state.order, state.clocks, state.rank, ids, parameters(config, mode, loops),
        uops.offsets, uops.words, isa.depths(config).copy(), semantics != "fsim", semantics != "chisel", races, count,
    )  # fmt: skip
    box = boxes(table, config, loops or mode)
    ran = (state.rank > 0) & (box[:, 1] > 0)
    stores = np.flatnonzero(ran & moves(table, isa.OP_STORE))
    readers = np.flatnonzero(ran & moves(table, isa.OP_LOAD))
    if len(stores) and len(readers):
        end = box_ends(table, box)
        low, high = box[stores, 0].min(), end[stores].max()
        readers = readers[(box[readers, 0] < high) & (end[readers] > low)]
        k.dram_races(state.engine, state.clocks, state.rank, stores, readers, box, races, count)
    records = tuple(
        Race(int(r[0]), int(r[1]), MEMORY_NAMES[int(r[2])], int(r[3]), int(r[4]), KINDS[int(r[5])])
        for r in races[: int(count[0])]
    )
    return Trace(records, int(count[1]), found)
