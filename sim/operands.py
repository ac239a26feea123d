"""Which elements of which SRAM every instruction touches, as comments for assembler text.

A bank of a double-buffered memory is a range of its elements, and a GEMM names none in its fields: its addresses are in its
micro-ops. Here they are put together: ``LOAD WGT ... # fills wgt[64..127]`` beside
``GEMM ... # acc[0..511] += inp[0..127] * wgt[0..63]``.
"""

from __future__ import annotations

import numpy as np

from sim import isa
from sim.config import mode_of
from sim.dram import Dram
from sim.legality import MAX_WORK, leaves_space, moves, region
from sim.program import Program
from sim.trace import uops_are_constant, uops_of_image

_MEMORY = {isa.MEM_ACC_8BIT: "acc"}


def operands(program: Program) -> list[str]:
    """One remark per instruction, "" where there is nothing to say.

    Ranges are inclusive and span what is touched; an instruction with strides may leave elements between them alone. Micro-ops
    are those of the program's memory image. Where a STORE of the program may overwrite micro-ops, or a LOAD of them leaves the
    address space, GEMM and ALU have no remark.

    Args:
        program: a program with its micro-ops in memory.
    """
    table, config = program.table, program.config
    mode = mode_of(program.semantics)
    uop_loads = moves(table, isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_UOP)
    width, height = region(table)
    known = int((width * height)[uop_loads].sum()) <= MAX_WORK and uops_are_constant(table, config, mode)
    known = known and not bool((leaves_space(table, config, mode) & uop_loads).any())
    loads = uops_of_image(table, config, Dram(program.memory), mode) if known else None
    uops: isa.Table = np.zeros((config.uop_capacity, 3), dtype=np.int64)
    moving = moves(table, isa.OP_LOAD) | moves(table, isa.OP_STORE)
    remarks = []
    for n, row in enumerate(table):
        op, remark = int(row[isa.OPCODE]), ""
        if op in (isa.OP_LOAD, isa.OP_STORE):
            count = int(width[n] * height[n])
            if moving[n] and count:
                memory = int(row[isa.MEM])
                name = _MEMORY.get(memory) or isa.MEMORY_NAMES[memory].lower()
                first = int(row[isa.SRAM])
                remark = f"{'fills' if op == isa.OP_LOAD else 'reads'} {_span(name, first, first + count - 1)}"
                if memory == isa.MEM_UOP and op == isa.OP_LOAD and loads is not None:
                    words = loads.words[loads.offsets[n]:loads.offsets[n + 1]]
                    at = (first + np.arange(len(words))) % len(uops)
                    uops[at] = isa.decode_uops(words, config, mode)
        elif op in (isa.OP_GEMM, isa.OP_ALU) and known:
            remark = _looped(row, uops[int(row[isa.UOP_BGN]):int(row[isa.UOP_END])], mode)
        remarks.append(remark)
    return remarks


def _looped(row: isa.Table, uops: isa.Table, mode: str) -> str:
    """What a GEMM or ALU touches, of the micro-ops that it runs; implementations disagree about a loop of none."""
    outer, inner = int(row[isa.ITER_OUT]), int(row[isa.ITER_IN])
    if not len(uops) or not outer or not inner:
        return ""

    def span(name: str, column: int, by_outer: int, by_inner: int) -> str:
        first = int(uops[:, column].min())
        last = int(uops[:, column].max()) + (outer - 1) * int(row[by_outer]) + (inner - 1) * int(row[by_inner])
        return _span(name, first, last)

    dst = span("acc", 0, isa.DST_OUT, isa.DST_IN)
    if int(row[isa.OPCODE]) == isa.OP_ALU:
        source = span("acc", 1, isa.SRC_OUT, isa.SRC_IN)
        if row[isa.USE_IMM]:
            # Only the RTL reads the source index of an immediate form.
            return f"sets {dst} from {source}" if mode == "chisel" and source != dst else f"updates {dst}"
        return f"updates {dst} with {source}"
    if row[isa.RESET]:
        return f"zeroes {dst}"
    return f"{dst} += {span('inp', 1, isa.SRC_OUT, isa.SRC_IN)} * {span('wgt', 2, isa.WGT_OUT, isa.WGT_IN)}"


def _span(name: str, first: int, last: int) -> str:
    return f"{name}[{first}]" if first == last else f"{name}[{first}..{last}]"
