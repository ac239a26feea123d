"""The instruction set: a decoded table, exact 128-bit words both ways, and instruction records for people.

A program is a *table*: an int64 array of shape (n, NCOLS), one row per instruction, C-contiguous. Columns
that an instruction does not have are 0. Positions of bits come from :mod:`sim.encoding`, by machine and semantics,
never from constants here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sim.config import ITER_BITS, VTAConfig, mode_of
from sim.encoding import Layout, encoding_of
from sim.errors import DecodeError, FieldError

Table = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

OPCODE = 0
POP_PREV = 1
POP_NEXT = 2
PUSH_PREV = 3
PUSH_NEXT = 4
MEM = 5
SRAM = 6
DRAM = 7
Y_SIZE = 8
X_SIZE = 9
X_STRIDE = 10
Y_PAD_0 = 11
Y_PAD_1 = 12
X_PAD_0 = 13
X_PAD_1 = 14
RESET = 15
UOP_BGN = 16
UOP_END = 17
ITER_OUT = 18
ITER_IN = 19
DST_OUT = 20
DST_IN = 21
SRC_OUT = 22
SRC_IN = 23
WGT_OUT = 24
WGT_IN = 25
ALU_OP = 26
USE_IMM = 27
IMM = 28
NCOLS = 29

COLUMN_NAMES: tuple[str, ...] = (
    "opcode", "pop_prev", "pop_next", "push_prev", "push_next",
    "mem", "sram", "dram", "y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1",
    "reset", "uop_bgn", "uop_end", "iter_out", "iter_in",
    "dst_out", "dst_in", "src_out", "src_in", "wgt_out", "wgt_in", "alu_op", "use_imm", "imm",
)  # fmt: skip
COLUMN_OF: dict[str, int] = {name: i for i, name in enumerate(COLUMN_NAMES)}

OP_LOAD = 0
OP_STORE = 1
OP_GEMM = 2
OP_FINISH = 3
OP_ALU = 4
OPCODE_NAMES: tuple[str, ...] = ("LOAD", "STORE", "GEMM", "FINISH", "ALU")

MEM_UOP = 0
MEM_WGT = 1
MEM_INP = 2
MEM_ACC = 3
MEM_OUT = 4
MEM_ACC_8BIT = 5
MEMORY_NAMES: tuple[str, ...] = ("UOP", "WGT", "INP", "ACC", "OUT", "ACC_8BIT")

ALU_MIN = 0
ALU_MAX = 1
ALU_ADD = 2
ALU_SHR = 3
ALU_MUL = 4
ALU_NAMES: tuple[str, ...] = ("MIN", "MAX", "ADD", "SHR", "MUL")



@lru_cache(maxsize=64)
def element_bytes(config: VTAConfig) -> npt.NDArray[np.int64]:
    """Return the bytes of one element in DRAM of each memory type, indexed by MEM_*; an ACC_8BIT lane has 8 bits."""
    eight = max(1, config.acc_elem_bytes >> (config.LOG_ACC_WIDTH - 3))
    sizes = np.array([
        config.uop_elem_bytes, config.wgt_elem_bytes, config.inp_elem_bytes, config.acc_elem_bytes, config.out_elem_bytes, eight,
    ], dtype=np.int64)  # fmt: skip
    sizes.setflags(write=False)
    return sizes


@lru_cache(maxsize=64)
def depths(config: VTAConfig) -> npt.NDArray[np.int64]:
    """Return the elements that each memory type has room for on the chip, indexed by MEM_*."""
    found = np.array([
        config.uop_capacity, config.wgt_depth, config.inp_depth, config.acc_depth, config.out_depth, config.acc_depth,
    ], dtype=np.int64)  # fmt: skip
    found.setflags(write=False)
    return found


# Which queue executes what (vta.md 2.7): LOAD of INP and WGT, STORE, and all the rest.
QUEUE_LOAD = 0
QUEUE_COMPUTE = 1
QUEUE_STORE = 2
QUEUE_NAMES: tuple[str, ...] = ("LOAD", "COMPUTE", "STORE")

def layout_of(opcode: int, config: VTAConfig, semantics: str = "chisel") -> Layout:
    """Return the (field, lowest bit, width) of every field of an opcode, prefix first."""
    encoding = encoding_of(config, semantics)
    if opcode in (OP_LOAD, OP_STORE):
        return encoding.mem
    if opcode == OP_GEMM:
        return encoding.gemm
    return encoding.alu if opcode == OP_ALU else encoding.prefix


def as_table(rows: npt.ArrayLike) -> Table:
    """Return ``rows`` as an int64 table of shape (n, NCOLS), C-contiguous; ValueError for another shape."""
    table: Table = np.ascontiguousarray(rows, dtype=np.int64)
    if table.size == 0:
        table = table.reshape(0, NCOLS)
    if table.ndim != 2 or table.shape[1] != NCOLS:
        raise ValueError(f"an instruction table has shape (n, {NCOLS}), not {table.shape}")
    return table


def kernel_table(rows: npt.ArrayLike) -> Table:
    """``as_table``, and writable: kernels are compiled once, for such tables; a second signature would cost seconds."""
    table = as_table(rows)
    return table if table.flags.writeable else table.copy()


def queue_of(table: Table) -> npt.NDArray[np.int64]:
    """Return the queue (QUEUE_LOAD, QUEUE_COMPUTE or QUEUE_STORE) that executes each row."""
    op, mem = table[:, OPCODE].copy(), table[:, MEM].copy()  # a column lies far apart, and is gone through several times
    is_load = (op == OP_LOAD) & ((mem == MEM_INP) | (mem == MEM_WGT))
    queues = np.where(is_load, QUEUE_LOAD, np.where(op == OP_STORE, QUEUE_STORE, QUEUE_COMPUTE))
    return queues.astype(np.int64, copy=False)


def bounds(config: VTAConfig, semantics: str = "chisel") -> tuple[Table, Table]:
    """Return the least and greatest value of every column, per opcode: two arrays of shape (5, NCOLS).

    A column that an opcode does not have holds 0 and nothing else.
    """
    return _bounds(config, mode_of(semantics))


@lru_cache(maxsize=64)
def _bounds(config: VTAConfig, mode: str) -> tuple[Table, Table]:
    low: Table = np.zeros((len(OPCODE_NAMES), NCOLS), dtype=np.int64)
    high: Table = np.zeros((len(OPCODE_NAMES), NCOLS), dtype=np.int64)
    for opcode in range(len(OPCODE_NAMES)):
        for name, _, width in layout_of(opcode, config, mode):
            column = COLUMN_OF[name]
            if column == IMM:
                low[opcode, column] = -(1 << (width - 1))
                high[opcode, column] = (1 << (width - 1)) - 1
            else:
                high[opcode, column] = (1 << width) - 1
        if opcode in (OP_LOAD, OP_STORE):
            high[opcode, MEM] = len(MEMORY_NAMES) - 1
        if opcode == OP_ALU:
            high[opcode, ALU_OP] = len(ALU_NAMES) - 1
        low[opcode, OPCODE] = high[opcode, OPCODE] = opcode
    low.setflags(write=False)
    high.setflags(write=False)
    return low, high


def check_table(table: Table, config: VTAConfig, semantics: str = "chisel") -> None:
    """Raise FieldError for the first instruction, and in it the first field, that the encoding cannot hold."""
    table = as_table(table)
    low, high = bounds(config, semantics)
    opcodes = table[:, OPCODE]
    known = (opcodes >= 0) & (opcodes < len(OPCODE_NAMES))
    # An unknown opcode is compared with LOAD's bounds, and refused by them.
    opcodes = np.where(known, opcodes, OP_LOAD)
    bad = (table < low[opcodes]) | (table > high[opcodes])
    if not bad.any():
        return
    index, column = (int(v) for v in np.argwhere(bad)[0])
    value = int(table[index, column])
    if column == OPCODE:
        raise FieldError(index, "opcode", value, f"no such opcode (0..{len(OPCODE_NAMES) - 1})")
    opcode = int(opcodes[index])
    least, most = int(low[opcode, column]), int(high[opcode, column])
    reason = f"not in {least}..{most}"
    if least == most == 0:
        reason = f"{OPCODE_NAMES[opcode]} has no such field: it must be 0"
    raise FieldError(index, COLUMN_NAMES[column], value, reason)


def encode(table: Table, config: VTAConfig, semantics: str = "chisel") -> Words:
    """Encode a table into words of shape (n, 2), uint64; ``words[:, 0]`` holds bits 0..63.

    Raises FieldError, with the instruction's index and the field, for a value that does not fit.
    """
    table = as_table(table)
    check_table(table, config, semantics)
    words: Words = np.zeros((len(table), 2), dtype=np.uint64)
    for opcode in range(len(OPCODE_NAMES)):
        rows = np.flatnonzero(table[:, OPCODE] == opcode)
        for name, low, width in layout_of(opcode, config, semantics):
            mask = np.uint64((1 << width) - 1)
            values = table[rows, COLUMN_OF[name]].astype(np.uint64) & mask
            words[rows, low // 64] |= values << np.uint64(low % 64)
    return words


def decode(words: Words, config: VTAConfig, semantics: str = "chisel") -> Table:
    """Decode words of shape (n, 2) into a table; bits that no field covers are ignored.

    Raises DecodeError, with the instruction's index, for an opcode, memory or ALU operation that does
    not exist.
    """
    words = np.ascontiguousarray(words, dtype=np.uint64)
    if words.size == 0:
        words = words.reshape(0, 2)
    if words.ndim != 2 or words.shape[1] != 2:
        raise ValueError(f"instruction words have shape (n, 2), not {words.shape}")
    opcodes = (words[:, 0] & np.uint64(7)).astype(np.int64)
    _refuse_codes(opcodes, np.arange(len(words)), len(OPCODE_NAMES), "opcode")
    table: Table = np.zeros((len(words), NCOLS), dtype=np.int64)
    for opcode in range(len(OPCODE_NAMES)):
        rows = np.flatnonzero(opcodes == opcode)
        for name, low, width in layout_of(opcode, config, semantics):
            mask = np.uint64((1 << width) - 1)
            values = ((words[rows, low // 64] >> np.uint64(low % 64)) & mask).astype(np.int64)
            if name == "imm":
                values -= (values >> (width - 1)) << width
            table[rows, COLUMN_OF[name]] = values
        if opcode in (OP_LOAD, OP_STORE):
            _refuse_codes(table[rows, MEM], rows, len(MEMORY_NAMES), "memory type")
        elif opcode == OP_ALU:
            _refuse_codes(table[rows, ALU_OP], rows, len(ALU_NAMES), "ALU operation")
    return table


def _refuse_codes(codes: npt.NDArray[np.int64], rows: npt.NDArray[np.intp], count: int, what: str) -> None:
    bad = codes >= count
    if bad.any():
        at = int(np.argmax(bad))
        raise DecodeError(int(rows[at]), f"{what} {int(codes[at])} does not exist (0..{count - 1})")


def to_hex(words: Words) -> list[str]:
    """Write each instruction as 32 hex digits, most significant first."""
    pairs = np.asarray(words, dtype=np.uint64).reshape(-1, 2)
    return [f"{int(high):016x}{int(low):016x}" for low, high in pairs]


def from_hex(lines: Sequence[str]) -> Words:
    """Read what :func:`to_hex` writes; DecodeError for a line that is not 32 hex digits."""
    words: Words = np.zeros((len(lines), 2), dtype=np.uint64)
    for i, line in enumerate(lines):
        if not isinstance(line, str) or len(line) != 32 or not set(line) <= set("0123456789abcdefABCDEF"):
            raise DecodeError(i, f"{line!r} is not 32 hex digits")
        words[i, 0] = int(line[16:], 16)
        words[i, 1] = int(line[:16], 16)
    return words


UOP_FIELDS = ("acc", "inp", "wgt")


def encode_uops(uops: npt.ArrayLike, config: VTAConfig, semantics: str = "chisel") -> npt.NDArray[np.uint32]:
    """Encode micro-ops, shape (n, 3) of [acc or dst, inp or src, wgt] indices, into uint32 words.

    Raises FieldError, with the micro-op's index, for an index that does not fit.
    """
    array = np.asarray(uops, dtype=np.int64).reshape(-1, 3)
    words = np.zeros(len(array), dtype=np.uint32)
    low = 0
    for column, width in enumerate(encoding_of(config, semantics).uop):
        values = array[:, column]
        bad = (values < 0) | (values >= 1 << width)
        if bad.any():
            at = int(np.argmax(bad))
            reason = f"micro-op index does not fit {width} bits (0..{(1 << width) - 1})"
            raise FieldError(at, UOP_FIELDS[column], int(values[at]), reason)
        words |= values.astype(np.uint32) << np.uint32(low)
        low += width
    return words


def decode_uops(words: npt.ArrayLike, config: VTAConfig, semantics: str = "chisel") -> Table:
    """Decode micro-op words into an int64 array of shape (n, 3)."""
    array = np.asarray(words, dtype=np.uint32).reshape(-1)
    uops = np.zeros((len(array), 3), dtype=np.int64)
    low = 0
    for column, width in enumerate(encoding_of(config, semantics).uop):
        uops[:, column] = (array >> np.uint32(low)) & np.uint32((1 << width) - 1)
        low += width
    return uops


@dataclass(frozen=True, kw_only=True)
class _Insn:
    """What every instruction has: its four dependence flags, and a row of the table."""

    opcode: ClassVar[int]

    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0

    def row(self) -> Table:
        """Return the instruction as one row, shape (NCOLS,)."""
        row: Table = np.zeros(NCOLS, dtype=np.int64)
        row[OPCODE] = self.opcode
        for f in fields(self):
            row[COLUMN_OF[f.name]] = getattr(self, f.name)
        return row


@dataclass(frozen=True, kw_only=True)
class _Transfer(_Insn):
    """A 2-D copy; sizes, stride and pads in elements of the memory, ``dram`` too."""

    mem: int = MEM_UOP
    sram: int = 0
    dram: int = 0
    y_size: int = 0
    x_size: int = 0
    x_stride: int = 0
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0


@dataclass(frozen=True, kw_only=True)
class Load(_Transfer):
    """DRAM to SRAM, zero-padded."""

    opcode: ClassVar[int] = OP_LOAD


@dataclass(frozen=True, kw_only=True)
class Store(_Transfer):
    """OUT to DRAM."""

    opcode: ClassVar[int] = OP_STORE

    mem: int = MEM_OUT


@dataclass(frozen=True, kw_only=True)
class _Looped(_Insn):
    """Micro-ops [uop_bgn, uop_end) under two loops."""

    reset: int = 0
    uop_bgn: int = 0
    uop_end: int = 0
    iter_out: int = 0
    iter_in: int = 0
    dst_out: int = 0
    dst_in: int = 0
    src_out: int = 0
    src_in: int = 0


@dataclass(frozen=True, kw_only=True)
class Gemm(_Looped):
    """ACC += INP x WGT per micro-op, or ACC = 0 under ``reset``."""

    opcode: ClassVar[int] = OP_GEMM

    wgt_out: int = 0
    wgt_in: int = 0


@dataclass(frozen=True, kw_only=True)
class Alu(_Looped):
    """ACC = op(ACC, imm or ACC) per micro-op."""

    opcode: ClassVar[int] = OP_ALU

    alu_op: int = ALU_MIN
    use_imm: int = 0
    imm: int = 0


@dataclass(frozen=True, kw_only=True)
class Finish(_Insn):
    """The end of the run."""

    opcode: ClassVar[int] = OP_FINISH


Insn = Load | Store | Gemm | Alu | Finish
_CLASSES: dict[int, type[Load | Store | Gemm | Alu | Finish]] = {
    OP_LOAD: Load, OP_STORE: Store, OP_GEMM: Gemm, OP_FINISH: Finish, OP_ALU: Alu,
}  # fmt: skip


def insns_of(table: Table) -> list[Insn]:
    """Return the rows of a table as instruction records."""
    insns: list[Insn] = []
    for i, row in enumerate(as_table(table)):
        cls = _CLASSES.get(int(row[OPCODE]))
        if cls is None:
            raise DecodeError(i, f"opcode {int(row[OPCODE])} does not exist (0..{len(OPCODE_NAMES) - 1})")
        insns.append(cls(**{f.name: int(row[COLUMN_OF[f.name]]) for f in fields(cls)}))
    return insns


def table_of(insns: Iterable[Insn]) -> Table:
    """Return instruction records as a table."""
    return as_table([insn.row() for insn in insns])


MAX_ITER = (1 << ITER_BITS) - 1
