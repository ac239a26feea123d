"""An immediate ALU operation that reads another place: one instruction on the RTL, and what stands for it elsewhere."""

from __future__ import annotations

from types import ModuleType

import pytest

from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa
from sim.isa import ALU_ADD, ALU_MAX, ALU_MIN, ALU_SHR
from sim.machine import run

INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
RESET = -1


def moved(expr: str, tiles: int = 1) -> PrimFunc:
    """``z = expr`` of a ``b`` that stays (it is read again by the next tile), ``tiles`` times, each stored."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((6, 1, 16), "int32"), b: T.Buffer((6, 1, 16), "int32"), out: T.Buffer(({tiles}, 6, 1, 16), "int8")):
    x = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({tiles}, 6, 1, 16), "int32", scope="local.acc_buffer")
    last = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    for j, l in T.grid(6, 16):
        with T.block("load_x"):
            vj, vl = T.axis.remap("SS", [j, l])
            x[vj, 0, vl] = a[vj, 0, vl]
    for j, l in T.grid(6, 16):
        with T.block("load_y"):
            vj, vl = T.axis.remap("SS", [j, l])
            y[vj, 0, vl] = b[vj, 0, vl]
    for i in range({tiles}):
        for j, l in T.grid(6, 16):
            with T.block("move"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj, 0, vl] = {expr}
        for j, l in T.grid(6, 16):
            with T.block("store"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                out[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl], "int8")
    for j, l in T.grid(6, 16):
        with T.block("last"):
            vj, vl = T.axis.remap("SS", [j, l])
            last[vj, 0, vl] = x[vj, 0, vl] + y[vj, 0, vl]
    for j, l in T.grid(6, 16):
        with T.block("store_last"):
            vj, vl = T.axis.remap("SS", [j, l])
            out[{tiles} - 1, vj, 0, vl] = T.cast(last[vj, 0, vl], "int8")
''')


X, Y = "x[vj, 0, vl]", "y[vj, 0, vl]"


def chain(func: PrimFunc, target: str) -> list[tuple[int, int, bool]]:
    """(operation, immediate, whether another place is read) of the first computation."""
    low = lower_table(func, target)
    found = []
    for row in low.table:
        if row[isa.OPCODE] == isa.OP_STORE:
            break
        if row[isa.OPCODE] == isa.OP_GEMM:
            assert row[isa.RESET]
            found.append((RESET, 0, False))
        elif row[isa.OPCODE] == isa.OP_ALU:
            dst, src, _ = low.triples[int(row[isa.UOP_BGN])]
            found.append((int(row[isa.ALU_OP]), int(row[isa.IMM]) if row[isa.USE_IMM] else 0, bool(dst != src)))
    return found


CASES = [
    (X, [(ALU_SHR, 0, True)]),
    (f"T.shift_left({X}, 8)", [(ALU_SHR, -8, True)]),
    (f"T.shift_right({X}, 31)", [(ALU_SHR, 31, True)]),
    (f"{X} + 5", [(ALU_ADD, 5, True)]),
    (f"{X} + 40000", [(ALU_ADD, 20000, True), (ALU_ADD, 20000, False)]),
    (f"T.min(T.max({X}, -9), 9)", [(ALU_MAX, -9, True), (ALU_MIN, 9, False)]),
    (f'T.cast(T.cast({X}, "int8"), "int32")', [(ALU_SHR, -24, True), (ALU_SHR, 24, False)]),
    (f"{X} + {Y}", [(ALU_SHR, 0, True), (ALU_ADD, 0, True)]),
    (f"T.max(T.shift_right({X}, 2), {Y})", [(ALU_SHR, 2, True), (ALU_MAX, 0, True)]),
]


@pytest.mark.parametrize(("expr", "wanted"), CASES)
def test_the_first_operation_moves(expr: str, wanted: list[tuple[int, int, bool]], vta_schedules: ModuleType) -> None:
    func = moved(expr)
    vta_schedules.verify(func, "vta-de10")
    assert chain(func, "vta-de10") == wanted
    # Elsewhere the destination is the first operand: 0 + x first, then the operations in place.
    op, imm, _ = wanted[0]
    rest = ([] if (op, imm) == (ALU_SHR, 0) else [(op, imm, False)]) + wanted[1:]
    for target in ("vta-fsim", "vta-de10-portable"):
        vta_schedules.verify(func, target)
        plain = chain(func, target)
        assert plain[:2] == [(RESET, 0, False), (ALU_ADD, 0, True)]
        assert target != "vta-fsim" or plain[2:] == rest


def test_a_move_waits_for_the_store_of_what_it_overwrites_in_out(vta_schedules: ModuleType) -> None:
    # One place for all tiles: the move writes OUT where the store before it still reads. A reset leaves OUT alone.
    low = vta_schedules.verify(moved(f"T.shift_left({X}, 8)", tiles=4), "vta-de10")
    moves = [r for r in low.table if r[isa.OPCODE] == isa.OP_ALU and r[isa.IMM] == -8]
    assert [int(r[isa.POP_NEXT]) for r in moves] == [0, 1, 1, 1]
    stores = [r for r in low.table if r[isa.OPCODE] == isa.OP_STORE]
    assert [int(r[isa.PUSH_PREV]) for r in stores[:3]] == [1, 1, 1]
    table = low.table.copy()
    at = next(k for k in range(len(table)) if table[k, isa.OPCODE] == isa.OP_ALU and table[k, isa.POP_NEXT])
    first = next(k for k in range(len(table)) if table[k, isa.OPCODE] == isa.OP_STORE)
    table[at, isa.POP_NEXT] = table[first, isa.PUSH_PREV] = 0
    program = low.program()
    broken = type(program)(program.name, program.config, table, program.insn_address, program.memory, program.outputs)
    assert any(race.memory == "OUT" for race in run(broken, check=True).races)


def convolution(name: str, form: str) -> Schedule:
    """8 rows of 28, one tap and two input blocks a load, everything twice.

    The bias is added behind the sum (``added``), or is where it starts (``folded``), raised to start it by a MAX (``raised``).
    """
    get_target("vta-de10")  # registers the intrinsic
    sch = Schedule(workload(name).func)
    out, requant, conv = (sch.get_block(n) for n in ("out", "requant", "conv"))
    if form != "added":
        sch.fold_epilogue(requant)
    if form == "raised":
        raised = sch.raise_epilogue(requant)
        sch.set_scope(raised, 0, ACC)
        sch.cache_read(raised, "bias", ACC)
    for block in (conv, requant):
        sch.set_scope(block, 0, ACC)
    wgt = sch.cache_read(conv, "kernel", WGT)
    if form == "added":
        sch.cache_read(requant, "bias", ACC)
    n, co, y, x, nb, cb = sch.get_loops(out)
    (y0, y1), (x0, x1) = sch.split(y, [None, 8]), sch.split(x, [None, 28])
    sch.reorder(x0, y0, co, n, y1, x1, nb, cb)
    sch.compute_at(requant, co, preserve_unit_loops=True)
    sch.compute_at(conv, y0, preserve_unit_loops=True)
    loops = sch.get_loops(conv)[2:]
    ci, ky, kx, cib = loops[6:]
    ci0, ci1 = sch.split(ci, [None, 2])
    sch.reorder(ci0, ky, kx, ci1, *loops[:6], cib)
    init = sch.decompose_reduction(conv, ci0)
    if form == "folded":
        sch.cache_read(init, "bias", ACC)
    sch.compute_inline("pad")
    sch.drop_zero_terms(conv)
    inp = sch.cache_read(conv, "data", INP)
    sch.compute_at(inp, kx, preserve_unit_loops=True)
    sch.compute_at(wgt, kx, preserve_unit_loops=True)
    sch.tensorize(loops[4], "vta.gemm.1x16x16")
    for block in (inp, wgt, init, requant):
        sch.double_buffer(block, 0)
    return sch


@pytest.mark.parametrize(("target", "form", "cycles"), [
    ("vta-de10", "added", 521_065), ("vta-de10", "folded", 495_826), ("vta-de10", "raised", 495_827),
    ("vta-de10-portable", "added", 521_073), ("vta-de10-portable", "folded", 533_223), ("vta-de10-portable", "raised", 509_810),
])
def test_what_the_start_of_a_sum_costs(target: str, form: str, cycles: int) -> None:
    trace = tuple(convolution("resnet18.c2", form).trace.as_json())
    result = measure(Candidate("resnet18.c2", target, trace), execute=True)
    assert (result.status, result.cycles) == ("ok", cycles), result.reason


@pytest.mark.parametrize("form", ["folded", "raised"])
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
def test_it_is_right_everywhere(target: str, form: str) -> None:
    name = "conv2d:h=9,w=29,ci=32,co=32,k=3,pad=1"
    trace = tuple(convolution(name, form).trace.as_json())
    result = measure(Candidate(name, target, trace), execute=True)
    assert result.status == "ok", result.reason
