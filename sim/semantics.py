"""Bit-exact execution of a program, as the RTL (``chisel``) or as VTA's functional simulator (``fsim``).

The two differ where vta.md section 8 says: OUT is a memory of its own under ``chisel`` (a LOAD ACC or a reset
leaves it stale), immediate ALU forms read their operand through the source index there, indices wrap, and loop
counts of 0 mean 16384; ``fsim`` truncates ACC at the STORE, refuses indices out of range, and has MUL and ACC_8BIT.
Instructions run in an order that their tokens allow, so the result holds for any timing if
:func:`sim.races.check_races` finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sim import isa, legality, tokens
from sim.config import MODES, PAGE_BYTES, VTAConfig
from sim.dram import SPACE, Dram
from sim.errors import ExecutionError, LimitError, ProgramError
from sim.program import Program, Segment
from sim.trace import Ints, UopLoads, empty_uops, parameters

if TYPE_CHECKING:
    from sim.portable import Diagnostic

MAX_WRITTEN_BYTES = 1 << 28

COUNTERS: tuple[str, ...] = (
    "inp_load_nbytes", "wgt_load_nbytes", "acc_load_nbytes", "uop_load_nbytes", "out_store_nbytes",
    "gemm_counter", "alu_counter",
)  # fmt: skip

_BAD_INDEX = {
    1: ("uop_end", "micro-op"),
    2: ("dst", "ACC"),
    3: ("src", "source"),
    4: ("wgt", "WGT"),
}


@dataclass(frozen=True)
class Execution:
    """The state after a run of ``program``.

    dram: memory. counters: the functional simulator's seven. flow: the order of execution and what orders it.
    uops: the words that each LOAD UOP read. amounts: int64[n, 2], least and greatest amount that each tensor SHR
    met (least > greatest: none). sram: INP [depth, batch, block], WGT [depth, out, in], ACC and OUT
    [depth, batch, block] as int32, and UOP as uint32.
    """

    program: Program = field(repr=False)
    mode: str
    dram: Dram = field(repr=False)
    counters: Mapping[str, int]
    flow: tokens.Flow = field(repr=False)
    uops: UopLoads = field(repr=False)
    amounts: Ints = field(repr=False)
    sram: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = field(repr=False)

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes of DRAM from ``address``; ProgramError outside the address space."""
        return self.dram.read(address, size)

    @cached_property
    def diagnostics(self) -> list[Diagnostic]:
        """Where the implementation that was executed deviates from the others (:func:`sim.portable.check`)."""
        from sim.portable import check

        return check(self.program, (self.mode,))


def count(table: isa.Table, config: VTAConfig, order: Ints | None = None, mode: str = "fsim") -> dict[str, int]:
    """The functional simulator's counters over the instructions in ``order``, each once where none is given.

    Bytes count x_size * y_size elements without pads, an ACC_8BIT element as a full one; micro-ops of a reset
    GEMM are not counted (vta.md 3.6).
    """
    sizes = isa.element_bytes(config).tolist()
    loaded, (stored, multiplied, computed) = legality.totals(table if order is None else table[order], mode)
    wide = loaded[isa.MEM_ACC] + loaded[isa.MEM_ACC_8BIT]
    return {
        "inp_load_nbytes": loaded[isa.MEM_INP] * sizes[isa.MEM_INP],
        "wgt_load_nbytes": loaded[isa.MEM_WGT] * sizes[isa.MEM_WGT],
        "acc_load_nbytes": wide * sizes[isa.MEM_ACC],
        "uop_load_nbytes": loaded[isa.MEM_UOP] * sizes[isa.MEM_UOP],
        "out_store_nbytes": stored * sizes[isa.MEM_OUT],
        "gemm_counter": multiplied,
        "alu_counter": computed,
    }


def _written_pages(table: isa.Table, config: VTAConfig, mode: str) -> Ints:
    from sim._exec_kernel import mark_pages

    marks = np.zeros(SPACE // PAGE_BYTES, dtype=np.uint8)
    limit = MAX_WRITTEN_BYTES // PAGE_BYTES
    index = int(mark_pages(table, mode == "chisel", config.out_elem_bytes, marks, limit))
    if index >= 0:
        stride = int(table[index, isa.X_STRIDE])
        reason = "stores touch more bytes of DRAM pages than are kept"
        raise LimitError(index, "x_stride", stride, MAX_WRITTEN_BYTES, reason)
    # A million marks, nearly all 0: look at eight at a time.
    cells = (np.flatnonzero(marks.view(np.uint64))[:, None] * 8 + np.arange(8)).ravel()
    return np.asarray(cells[marks[cells] != 0], dtype=np.int64)


def execute(
    program: Program,
    mode: str = "chisel",
    memory: Iterable[Segment] | Mapping[int, bytes] | None = None,
    max_work: int = legality.MAX_WORK,
) -> Execution:
    """Run a program to its end and return the state.

    mode: "chisel" or "fsim". memory: laid over the program's own. max_work: elements and micro-ops at most.
    SRAM starts as zeros. Raises ExecutionError (index, field) for what the implementation cannot do or refuses,
    LimitError for a program too large, tokens.StuckError (a DeadlockError) if FINISH is never reached,
    ConfigError for a machine without such semantics, FieldError for a value outside its field.
    """
    from sim import _exec_kernel as k

    if mode not in MODES:
        raise ProgramError("semantics", f"{mode!r} is none of {', '.join(MODES)}")
    table, config = program.table, program.config
    legality.check_executable(table, config, mode)
    legality.check_work(table, config, mode, max_work)
    depth = config.queue_depth if mode == "chisel" else None
    state = tokens.flow(table, depth)
    tokens.require_finish(state, depth)
    full = program if memory is None else program.with_memory(memory)
    dram = Dram(full.memory, _written_pages(table, config, mode))
    uops = empty_uops(table)
    amounts = np.empty((len(table), 2), dtype=np.int64)
    amounts[:] = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    block, batch = config.block_in, config.batch
    uop = np.zeros(config.uop_capacity, dtype=np.uint32)
    inp = np.zeros((config.inp_depth, batch, block), dtype=np.int32)
    wgt = np.zeros((config.wgt_depth, block, block), dtype=np.int32)
    acc = np.zeros((config.acc_depth, batch, block), dtype=np.int32)
    out = np.zeros((config.out_depth, batch, block), dtype=np.int32)
    sizes = isa.element_bytes(config)[[isa.MEM_INP, isa.MEM_WGT, isa.MEM_ACC, isa.MEM_OUT]]
    code, index, value = k.run(
        table, state.order, parameters(config, mode), dram.data, dram.pages, sizes,
        uop, inp, wgt, acc, out, uops.offsets, uops.words, amounts,
    )  # fmt: skip
    if code != k.OK:
        column, memory_name = _BAD_INDEX[int(code)]
        reason = f"{memory_name} index {int(value)} is out of range, which the functional simulator refuses"
        raise ExecutionError(int(index), column, reason)
    return Execution(
        program=full,
        mode=mode,
        dram=dram,
        counters=count(table, config, state.order, mode),
        flow=state,
        uops=uops,
        amounts=amounts,
        sram={"UOP": uop, "INP": inp, "WGT": wgt.transpose(0, 2, 1), "ACC": acc, "OUT": out},
    )


def warm() -> None:
    """Compile every kernel of execution, tracing and token analysis, or load it from numba's cache."""
    from sim import portable, races

    config = VTAConfig()
    rows: list[isa.Insn] = [
        isa.Load(mem=isa.MEM_UOP, dram=1024, y_size=1, x_size=1, x_stride=1),
        isa.Gemm(reset=1, uop_end=1, iter_out=1, iter_in=1),
        isa.Alu(alu_op=isa.ALU_ADD, use_imm=1, uop_end=1, iter_out=1, iter_in=1, push_next=1),
        isa.Store(dram=512, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1),
        isa.Finish(pop_next=1),
    ]
    program = Program("warm", config, isa.table_of(rows))
    for mode in MODES:
        execute(program, mode)
    portable.check(program)
    races.check_races(program)
