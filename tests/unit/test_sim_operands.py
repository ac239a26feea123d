"""Comments of a listing: the SRAM elements that every instruction touches, against their enumeration one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.lower import lower_table
from autosched.workloads import workload
from sim import asm, isa
from sim.config import VTAConfig
from sim.dram import SPACE, Dram
from sim.errors import ExecutionError
from sim.operands import operands
from sim.program import Program
from sim.timeline import write_trace
from sim.trace import uops_of_image
from space import Space


def lowered(name: str, seed: int) -> Program:
    space = Space(workload(name).func, "vta-de10")
    point = space.sample(np.random.default_rng(seed), 1)[0]
    return lower_table(space.schedule(point).func, space.target).program()


def touched(program: Program) -> list[dict[str, set[int]]]:
    """Per instruction, elements by memory: what one after the other does, micro-ops read straight from the image."""
    image: dict[int, int] = {s.address + k: b for s in program.memory for k, b in enumerate(s.data)}
    uops: dict[int, tuple[int, int, int]] = {}
    bits = (11, 11, 10)
    found = []
    for insn in program.table.tolist():
        row = dict(zip(isa.COLUMN_NAMES, insn))
        mine: dict[str, set[int]] = {}
        if row["opcode"] in (isa.OP_LOAD, isa.OP_STORE) and row["x_size"]:
            wide = row["x_pad_0"] + row["x_size"] + row["x_pad_1"]
            high = row["y_pad_0"] + row["y_size"] + row["y_pad_1"]
            mine[isa.MEMORY_NAMES[row["mem"]].lower().replace("_8bit", "")] = {row["sram"] + k for k in range(wide * high)}
            if row["mem"] == isa.MEM_UOP:
                assert row["y_size"] == 1 and wide == row["x_size"]
                for k in range(row["x_size"]):
                    word = sum(image[4 * (row["dram"] + k) + n] << 8 * n for n in range(4))
                    high_part, dst = divmod(word, 2 ** bits[0])
                    uops[row["sram"] + k] = (dst, high_part % 2 ** bits[1], high_part // 2 ** bits[1])
        elif row["opcode"] in (isa.OP_GEMM, isa.OP_ALU):
            for i in range(row["iter_out"]):
                for j in range(row["iter_in"]):
                    for u in range(row["uop_bgn"], row["uop_end"]):
                        dst, src, wgt = uops[u]
                        mine.setdefault("dst", set()).add(dst + i * row["dst_out"] + j * row["dst_in"])
                        mine.setdefault("src", set()).add(src + i * row["src_out"] + j * row["src_in"])
                        mine.setdefault("wgt", set()).add(wgt + i * row["wgt_out"] + j * row["wgt_in"])
        found.append(mine)
    return found


def ends(text: str) -> list[tuple[str, int, int]]:
    return [(m, int(a), int(b or a)) for m, a, b in re.findall(r"(\w+)\[(\d+)(?:\.\.(\d+))?\]", text)]


@pytest.mark.parametrize("name", ["conv2d:n=1,h=6,w=6,ci=32,co=32,k=3,pad=1", "dense:m=4,k=64,n=32", "t1"])
@pytest.mark.parametrize("seed", range(3))
def test_ranges_span_what_is_touched(name: str, seed: int) -> None:
    program = lowered(name, seed)
    for row, remark, elements in zip(program.table, operands(program), touched(program)):
        got = ends(remark)
        if row[isa.OPCODE] in (isa.OP_GEMM, isa.OP_ALU):
            names = ["dst"]
            if row[isa.OPCODE] == isa.OP_GEMM and not row[isa.RESET]:
                names = ["dst", "src", "wgt"]
            elif row[isa.OPCODE] == isa.OP_ALU and (not row[isa.USE_IMM] or elements["src"] != elements["dst"]):
                # An immediate operation that reads elsewhere than it writes is a move, and says both.
                names = ["dst", "src"]
            assert [(a, b) for _, a, b in got] == [(min(elements[n]), max(elements[n])) for n in names]
        else:
            assert got == [(n, min(e), max(e)) for n, e in elements.items()]


def test_a_listing_with_comments_assembles_to_the_same_program() -> None:
    program = lowered("dense:m=4,k=64,n=32", 1)
    text = program.disassemble(sram=True)
    assert (asm.assemble(text, program.config) == program.table).all()
    assert [line.split("  # ")[0] for line in text.splitlines()] == program.disassemble().splitlines()
    assert "# fills wgt[" in text and "] += inp[" in text


def test_micro_ops_that_a_store_may_change_are_not_guessed() -> None:
    program = lowered("dense:m=4,k=64,n=32", 1)
    table = program.table.copy()
    uops = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_UOP), isa.DRAM][0]
    stores = table[:, isa.OPCODE] == isa.OP_STORE
    table[stores, isa.DRAM] = uops * program.config.uop_elem_bytes // program.config.out_elem_bytes
    remarks = operands(replace(program, table=table))
    looped = np.isin(table[:, isa.OPCODE], (isa.OP_GEMM, isa.OP_ALU))
    assert all((r == "") == bool(loop) for r, loop, row in zip(remarks, looped, table) if loop or row[isa.X_SIZE])
    assert all(r for r, loop in zip(operands(program), looped) if loop)


@pytest.mark.parametrize("rows", [1, 2])
def test_micro_ops_beyond_the_memory_are_not_read(rows: int, tmp_path: Path) -> None:
    """The second row of a LOAD is behind the last address; the first one may end there."""
    config = VTAConfig()
    last = (SPACE // config.uop_elem_bytes) - 1
    text = f"LOAD UOP dram={last} y_size={rows} x_size=1 x_stride=1\nGEMM uop_end=1 iter_out=1 iter_in=1\nFINISH"
    program = Program("beyond", config, asm.assemble(text, config))
    fills, gemm, _ = operands(program)
    assert fills == ("# fills uop[0]" if rows == 1 else "# fills uop[0..1]").removeprefix("# ") and bool(gemm) == (rows == 1)
    if rows == 1:
        write_trace(tmp_path / "t.json", program)
        return
    assert not uops_of_image(program.table, config, Dram(()), "chisel").words.any()
    with pytest.raises(ExecutionError, match="reaches address 0x100000004, outside the 32-bit DRAM"):
        write_trace(tmp_path / "t.json", program)
