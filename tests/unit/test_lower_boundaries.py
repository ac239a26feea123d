"""Comparisons of lowering at their very boundary: the last case that passes, and its twin one step beyond."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from refusals import refused

from autosched.errors import LoweringError
from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table, tokens
from autosched.script import parse
from sim import isa
from sim.config import TOKEN_LIMIT, VTAConfig
from sim.program import Program, Segment
from sim.races import check_races

DE10 = VTAConfig()
UOPS, TENSOR = 0x2000, 0x4000


def meeting(n: int, apart: bool) -> PrimFunc:
    """``y`` is made of ``x`` (their lives meet in one statement), or ``x`` is done with before ``y`` begins."""
    both = '''
    for i, l in T.grid({n}, 16):
        with T.block("make"):
            vi, vl = T.axis.remap("SS", [i, l])
            y[vi, vl] = x[vi, vl] + T.max(x[vi // 2, vl], 7)
'''
    first = '''
    for i, l in T.grid({n}, 16):
        with T.block("store_x"):
            vi, vl = T.axis.remap("SS", [i, l])
            first[vi, vl] = T.cast(x[vi, vl], "int8")
    for i, l in T.grid({n}, 16):
        with T.block("make"):
            vi, vl = T.axis.remap("SS", [i, l])
            y[vi, vl] = b[vi, vl]
'''
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({n}, 16), "int32"), b: T.Buffer(({n}, 16), "int32"), first: T.Buffer(({n}, 16), "int8"),
         out: T.Buffer(({n}, 16), "int8")):
    x = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid({n}, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = a[vi, vl]
{(first if apart else both).format(n=n)}
    for i, l in T.grid({n}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(y[vi, vl], "int8")
''')


def test_two_lives_that_meet_in_one_statement_need_room_for_both(vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(meeting(1024, apart=False), "vta-de10")
    assert sorted((s.buffer, s.address) for s in low.storages) == [("x", 0), ("y", 1024)]
    with pytest.raises(LoweringError, match="holds 2048 elements and the program needs 2050"):
        lower_table(meeting(1025, apart=False), "vta-de10")
    # One after the other they share, however large.
    low = vta_schedules.verify(meeting(2048, apart=True), "vta-de10")
    assert sorted((s.buffer, s.address) for s in low.storages) == [("x", 0), ("y", 0)]
    with pytest.raises(LoweringError, match="needs 2049"):
        lower_table(meeting(2049, apart=True), "vta-de10")


def grown(n: int) -> PrimFunc:
    """``y``, twice the size, is made of ``x``: the larger one is placed first."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({n}, 16), "int32"), out: T.Buffer(({2 * n}, 16), "int8")):
    x = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({2 * n}, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid({n}, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = a[vi, vl]
    for i, l in T.grid({2 * n}, 16):
        with T.block("make"):
            vi, vl = T.axis.remap("SS", [i, l])
            y[vi, vl] = T.max(x[vi // 2, vl], 7)
    for i, l in T.grid({2 * n}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(y[vi, vl], "int8")
''')


def test_the_smaller_of_two_that_meet_finds_no_room_in_the_larger(vta_schedules: ModuleType) -> None:
    vta_schedules.verify(grown(682), "vta-de10")
    with pytest.raises(LoweringError, match="holds 2048 elements and the program needs 2049"):
        lower_table(grown(683), "vta-de10")


def threaded(step: int) -> PrimFunc:
    """Two threads that each write four elements of one buffer that outlives them, ``step`` apart."""
    size = 4 + step
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((8, 16), "int32"), out: T.Buffer(({size}, 16), "int8")):
    x = T.alloc_buffer(({size}, 16), "int32", scope="local.acc_buffer")
    for t in T.thread_binding(2, thread="vthread"):
        for i, l in T.grid(4, 16):
            with T.block("load"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                T.reads(a[vt * 4 + vi, vl])
                T.writes(x[vt * {step} + vi, vl])
                x[vt * {step} + vi, vl] = a[vt * 4 + vi, vl]
    for i, l in T.grid({size}, 16):
        with T.block("scale"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = x[vi, vl] + 1
    for i, l in T.grid({size}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(x[vi, vl], "int8")
''')


def test_threads_write_apart_or_not_at_all(vta_schedules: ModuleType) -> None:
    vta_schedules.verify(threaded(4), "vta-de10")
    with refused(LoweringError, "thread"):
        lower_table(threaded(3), "vta-de10")


def glued(first: int) -> PrimFunc:
    """Each turn loads rows 0 to ``first`` - 1 and 4 to 7, and uses all eight; the rest is there since the first turn."""
    rest = "" if first == 4 else f'''
        for i, l in T.grid({4 - first}, 16):
            with T.block("once"):
                vt = T.axis.spatial(3, t)
                vi = T.axis.spatial(8, {first} + i)
                vl = T.axis.spatial(16, l)
                T.where(t < 1)
                x[vi, vl] = a[vi, vl]
'''
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((24, 16), "int32"), out: T.Buffer((24, 16), "int8")):
    x = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    for t in range(3):
{rest}
        for i, l in T.grid({first}, 16):
            with T.block("low"):
                vt = T.axis.spatial(3, t)
                vi = T.axis.spatial(8, i)
                vl = T.axis.spatial(16, l)
                T.block_attr({{"double_buffer_scope": 0}})
                x[vi, vl] = a[vt * 8 + vi, vl]
        for i, l in T.grid(4, 16):
            with T.block("high"):
                vt = T.axis.spatial(3, t)
                vi = T.axis.spatial(8, 4 + i)
                vl = T.axis.spatial(16, l)
                x[vi, vl] = a[vt * 8 + vi, vl]
        for i, l in T.grid(8, 16):
            with T.block("scale"):
                vi, vl = T.axis.remap("SS", [i, l])
                y[vi, vl] = T.shift_right(x[vi, vl], 2)
        for i, l in T.grid(8, 16):
            with T.block("store"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                out[vt * 8 + vi, vl] = T.cast(y[vi, vl], "int8")
''')


@pytest.mark.filterwarnings("ignore:double_buffer of x has no effect")
def test_a_gap_of_one_row_is_no_whole_buffer(vta_schedules: ModuleType) -> None:
    """Two writers that touch fill a buffer anew in every turn; with a row between them it must keep what it has."""
    copies = {s.buffer: s.copies for s in vta_schedules.verify(glued(4), "vta-de10-portable").storages}
    assert copies["x"] == 2
    for first in (3, 2):
        copies = {s.buffer: s.copies for s in vta_schedules.verify(glued(first), "vta-de10-portable").storages}
        assert copies["x"] == 1


def waiting(count: int) -> isa.Table:
    """``count`` loads that each give a token before the first is taken."""
    loads = [isa.Load(mem=isa.MEM_INP, y_size=1, x_size=1, x_stride=1, push_next=1) for _ in range(count)]
    return isa.table_of([*loads, *[isa.Load(mem=isa.MEM_UOP, pop_prev=1)] * count, isa.Finish()])


def test_as_many_tokens_wait_as_a_counter_counts() -> None:
    assert TOKEN_LIMIT == 255
    tokens._check_waiting(waiting(255), DE10)
    with pytest.raises(LoweringError, match="up to 256 tokens wait on LOAD->COMPUTE at instruction 255"):
        tokens._check_waiting(waiting(256), DE10)


def finished(insns: list[isa.Insn], uops: list[tuple[int, int, int]], shared: tuple[int, int] | None = None) -> Program:
    """Instructions with the tokens that lowering gives them."""
    stream = tokens.Stream.empty(len(insns), np.array(uops, dtype=np.int64).reshape(-1, 3))
    stream.table[: len(insns)] = isa.table_of(insns)
    stream.uop_at[: len(insns)] = stream.table[: len(insns), isa.UOP_BGN]
    table = tokens.finish(stream, DE10, "chisel", shared)
    words = isa.encode_uops(uops, DE10).astype("<u4").tobytes()
    return Program("boundary", DE10, table, 0x8000, (Segment(UOPS, words),))


TWO = {"uop_end": 1, "iter_out": 1, "iter_in": 2, "dst_in": 1, "src_in": 1}
LOAD_UOP = isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=1, x_stride=1)


def moved(store: bool, sram: int, dram: int) -> isa.Insn:
    sizes = {"y_size": 1, "x_size": 1, "x_stride": 1, "sram": sram, "dram": TENSOR // 16 + dram}
    return isa.Store(**sizes) if store else isa.Load(mem=isa.MEM_INP, **sizes)


def test_a_load_waits_for_the_store_before_it_and_the_next_for_the_next() -> None:
    """Two stores side by side, each read back, wait once; a store between the loads is waited for by itself."""
    clear, use = isa.Gemm(reset=1, **TWO), isa.Alu(alu_op=isa.ALU_ADD, use_imm=1, imm=1, **TWO)
    stores, loads = [moved(True, k, k) for k in range(2)], [moved(False, k, k) for k in range(2)]
    program = finished([LOAD_UOP, clear, use, *stores, *loads], [(0, 0, 0)], (TENSOR, 64))
    assert check_races(program) == []
    assert int(program.table[:, isa.PUSH_PREV].sum()) == 2
    program = finished([LOAD_UOP, clear, use, stores[0], loads[0], stores[1], loads[1]], [(0, 0, 0)], (TENSOR, 64))
    assert check_races(program) == []
    assert int(program.table[:, isa.PUSH_PREV].sum()) == 4
    # And the other way round: what is read must be read before it is overwritten.
    assert check_races(finished([LOAD_UOP, clear, use, *loads, *stores], [(0, 0, 0)], (TENSOR, 64))) == []
    # Without saying that DRAM is shared nothing orders them, and the checker sees both.
    assert {(r.memory, r.kind) for r in check_races(finished([LOAD_UOP, clear, use, *stores, *loads], [(0, 0, 0)]))} == {
        ("DRAM", "RAW")
    }


def test_what_only_a_reset_wrote_cannot_be_stored() -> None:
    reset, add = isa.Gemm(reset=1, **TWO), isa.Alu(alu_op=isa.ALU_ADD, use_imm=1, imm=0, **TWO)
    assert check_races(finished([LOAD_UOP, reset, add, moved(True, 1, 0)], [(0, 0, 0)])) == []
    for order in ([reset], [add, reset]):
        with refused(LoweringError, "store"):
            finished([LOAD_UOP, *order, moved(True, 1, 0)], [(0, 0, 0)])
    # One element further nothing was written at all.
    finished([LOAD_UOP, reset, add, moved(True, 1, 0)], [(0, 0, 0)])
    with refused(LoweringError, "store"):
        finished([LOAD_UOP, reset, add, moved(True, 2, 0)], [(0, 0, 0)])
