"""What one implementation cannot execute at all, found before execution, vectorised over a table.

Modes: ``chisel`` is the RTL, ``fsim`` VTA's functional simulator. Rules: vta.md sections 3, 4 and 8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim import encoding, isa
from sim.config import VTAConfig, mode_of
from sim.dram import SPACE
from sim.errors import ConfigError, ExecutionError, LimitError

UOP_SPAN = 2 << encoding.CHISEL.uop_index  # values of its micro-op counter
ZERO_ROWS = 1 << 16  # and of a STORE with y_size 0
MAX_SRAM_BYTES = 1 << 30
MAX_WORK = 1 << 29  # element transfers and micro-ops (of 16x16 tiles, or their like) of one program

# Flags towards a neighbour that a queue does not have.
MEANINGLESS_FLAGS: tuple[tuple[int, int], ...] = (
    (isa.POP_PREV, isa.QUEUE_LOAD),
    (isa.PUSH_PREV, isa.QUEUE_LOAD),
    (isa.POP_NEXT, isa.QUEUE_STORE),
    (isa.PUSH_NEXT, isa.QUEUE_STORE),
)

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def disagreements(config: VTAConfig, semantics: str = "portable") -> list[tuple[str, str, tuple[str, ...], str]]:
    """What makes implementations disagree on every program of a machine: (kind, field, who deviates, reason) each.

    semantics: by whose rule programs are encoded.
    """
    found: list[tuple[str, str, tuple[str, ...], str]] = []
    if config.LOG_BATCH:
        found.append(("batch", "LOG_BATCH", ("chisel",), "the RTL's ALU computes one row of a batch"))
    if not encoding.agree(config):
        who = ("chisel",) if mode_of(semantics) == "fsim" else ("hls", "fsim")
        reason = "field positions follow the buffer sizes in C++; the RTL keeps those of the default sizes"
        found.append(("field-widths", "config", who, reason))
    if config.log_inp_depth != config.log_acc_depth:
        reason = "HLS reads a micro-op's source field with the width of INP, C++ with the wider of INP and ACC"
        found.append(("uop-source-width", "config", ("hls",), reason))
    return found


def moves(table: isa.Table, opcode: int) -> Mask:
    """Which rows are transfers of this opcode that move anything (x_size 0 is only tokens)."""
    return np.asarray((table[:, isa.OPCODE] == opcode) & (table[:, isa.X_SIZE] > 0))


def region(table: isa.Table) -> tuple[Ints, Ints]:
    """Width and height, with pads, of the SRAM region of each transfer."""
    width = table[:, isa.X_PAD_0] + table[:, isa.X_SIZE] + table[:, isa.X_PAD_1]
    height = table[:, isa.Y_PAD_0] + table[:, isa.Y_SIZE] + table[:, isa.Y_PAD_1]
    return width, height


def work(table: isa.Table, config: VTAConfig, mode: str) -> Ints:
    """Element transfers or micro-op executions of each instruction; a large GEMM tile counts as its 16x16 parts."""
    from sim._timing_batch import work_of
    from sim.costs import INSN_ADDRESS, parameters

    out: Ints = np.empty(len(table), dtype=np.int64)
    tile = max(1, config.batch * config.block_in * config.block_out // 256)
    work_of(isa.kernel_table(table), parameters(config, INSN_ADDRESS, mode), tile, out)
    return out


def totals(table: isa.Table, mode: str) -> tuple[list[int], list[int]]:
    """Elements that all loads move, by memory type; and those stored, micro-ops of GEMMs but resets, and of the ALU."""
    from sim._timing_batch import totals_of

    loaded: Ints = np.zeros(len(isa.MEMORY_NAMES), dtype=np.int64)
    rest: Ints = np.zeros(3, dtype=np.int64)
    totals_of(isa.kernel_table(table), int(mode == "fsim"), loaded, rest)
    return loaded.tolist(), rest.tolist()


def check_work(table: isa.Table, config: VTAConfig, mode: str, max_work: int = MAX_WORK) -> None:
    """Raise LimitError for the instruction with which a program exceeds ``max_work`` elements and micro-ops."""
    amount = work(table, config, mode)
    if amount.sum(dtype=np.float64) <= max_work / 2:
        return  # in sight of the limit it is counted exactly
    total = np.cumsum(np.minimum(amount, 1 << 40))
    over = np.flatnonzero(total > max_work)
    if not len(over):
        return
    index = int(over[0])
    row = table[index]
    if row[isa.OPCODE] in (isa.OP_LOAD, isa.OP_STORE):
        field = "x_size * y_size"
    else:
        field = "iter_out * iter_in * uops"
    reason = "the program executes more elements and micro-ops than are simulated"
    raise LimitError(index, field, int(amount[index]), max_work, reason)


def _refuse(bad: Mask, field: str, reason: str) -> None:
    found = np.flatnonzero(bad)
    if len(found):
        raise ExecutionError(int(found[0]), field, reason)


def boxes(table: isa.Table, config: VTAConfig, mode: str) -> Ints:
    """(base, rows, bytes per row, bytes between rows) of every transfer's DRAM side, int64[n, 4]."""
    bytes_of = isa.element_bytes(config)
    store = table[:, isa.OPCODE] == isa.OP_STORE
    size = np.where(store, bytes_of[isa.MEM_OUT], bytes_of[np.minimum(table[:, isa.MEM], len(bytes_of) - 1)])
    y = table[:, isa.Y_SIZE]
    rows = np.where(store & (y == 0), ZERO_ROWS, y) if mode == "chisel" else y
    columns = (table[:, isa.DRAM] * size, rows, table[:, isa.X_SIZE] * size, table[:, isa.X_STRIDE] * size)
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int64)


def box_ends(table: isa.Table, box: Ints) -> Ints:
    """First byte of DRAM behind the last row of each transfer; 0 for what moves nothing: no columns, or no rows.

    box: of each, by :func:`boxes`.
    """
    moved = (moves(table, isa.OP_LOAD) | moves(table, isa.OP_STORE)) & (box[:, 1] > 0)
    return np.where(moved, box[:, 0] + (box[:, 1] - 1) * box[:, 3] + box[:, 2], 0)


def leaves_space(table: isa.Table, config: VTAConfig, mode: str) -> Mask:
    """Which transfers leave the 32-bit address space."""
    return np.asarray(box_ends(table, boxes(table, config, mode)) > SPACE)


def check_space(table: isa.Table, config: VTAConfig, mode: str) -> None:
    """Raise ExecutionError for the first transfer that leaves the 32-bit address space."""
    found = np.flatnonzero(leaves_space(table, config, mode))
    if len(found):
        index = int(found[0])
        last = int(box_ends(table, boxes(table, config, mode))[index])
        raise ExecutionError(index, "dram", f"reaches address {last:#x}, outside the 32-bit DRAM")


def check_semantics(config: VTAConfig, semantics: str) -> None:
    """Raise ConfigError for a machine that has no programs of these semantics.

    Batch above 1 under ``chisel``, whose ALU has one row; fields too wide under ``fsim``; a machine on which the
    implementations disagree whatever the program, under ``portable``.
    """
    if semantics == "chisel" and config.LOG_BATCH:
        raise ConfigError("LOG_BATCH", f"batch {config.batch}: the Chisel ALU has one row; use batch 1, or fsim")
    encoding.check_encoding(config, semantics)
    if semantics == "portable" and (found := disagreements(config)):
        reason = f"no program of this machine is portable: {found[0][3]}; choose the semantics of one implementation"
        raise ConfigError("semantics", reason)


def check_size(config: VTAConfig) -> None:
    """Raise ConfigError for a machine that is not simulated: accumulators beyond 32 bits, more than 1 GiB of SRAM."""
    if config.LOG_ACC_WIDTH > 5:
        raise ConfigError("LOG_ACC_WIDTH", "accumulators beyond 32 bits have no reference implementation")
    total = int((isa.depths(config) * isa.element_bytes(config))[:5].sum())
    if total > MAX_SRAM_BYTES:
        raise ConfigError("LOG_WGT_BUFF_SIZE", f"{total} bytes of SRAM are more than are simulated ({MAX_SRAM_BYTES})")


def check_machine(config: VTAConfig, mode: str) -> None:
    """Raise what :func:`check_size` and, for a mode, :func:`check_semantics` raise."""
    check_size(config)
    check_semantics(config, mode)


def check_executable(table: isa.Table, config: VTAConfig, mode: str) -> None:
    """Raise ExecutionError, with index and field, for the first instruction that breaks a rule of ``mode``.

    Also what :func:`check_machine` raises, and FieldError for a value outside its field.
    """
    check_machine(config, mode)
    isa.check_table(table, config, mode)
    load, store, mem = moves(table, isa.OP_LOAD), moves(table, isa.OP_STORE), table[:, isa.MEM]
    opcode = table[:, isa.OPCODE]
    if mode == "chisel":
        unknown = (opcode == isa.OP_LOAD) & (mem > isa.MEM_ACC)
        _refuse(unknown, "mem", "the RTL's fetch does not know this memory type in a LOAD and hangs")
        mul = (opcode == isa.OP_ALU) & (table[:, isa.ALU_OP] == isa.ALU_MUL)
        _refuse(mul, "alu_op", "the RTL's fetch does not know MUL and hangs")
        _refuse(load & (table[:, isa.Y_SIZE] == 0), "y_size", "the RTL hangs on a LOAD with y_size 0 and x_size > 0")
    else:
        _refuse(load & (mem == isa.MEM_OUT), "mem", "the functional simulator does not load memory type OUT")
        eight = load & (mem == isa.MEM_ACC_8BIT)
        if (config.LOG_ACC_WIDTH, config.LOG_INP_WIDTH) != (5, 3):
            _refuse(eight, "mem", "ACC_8BIT needs 32-bit accumulators and 8-bit inputs")
        _refuse(store & (mem != isa.MEM_OUT), "mem", "the functional simulator stores memory type OUT only")
        for column in (isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1):
            name = isa.COLUMN_NAMES[column]
            _refuse(store & (table[:, column] > 0), name, "the functional simulator refuses pads on a STORE")
        _check_flags(table)
        width, height = region(table)
        area = np.where(load, width * height, table[:, isa.X_SIZE] * table[:, isa.Y_SIZE])
        deep = isa.depths(config)[np.where(store, isa.MEM_ACC, np.minimum(mem, isa.MEM_ACC_8BIT))]
        over = (load | store) & (table[:, isa.SRAM] + area > deep)
        _refuse(over, "sram", "the region runs past the end of its memory, which the functional simulator refuses")
    check_space(table, config, mode)


def _check_flags(table: isa.Table) -> None:
    engine = isa.queue_of(table)
    for column, queue in MEANINGLESS_FLAGS:
        bad = (engine == queue) & (table[:, column] != 0)
        name = isa.COLUMN_NAMES[column]
        reason = f"{isa.QUEUE_NAMES[queue]} has no such neighbour, and the functional simulator crashes"
        _refuse(bad, name, reason)
