"""Comparisons of lowering at their very boundary: the last case that passes, and its twin one step beyond."""

from __future__ import annotations

import pickle
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
from sim.tokens import flow

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


def three(x: int, w: int) -> PrimFunc:
    """``y``, twice the size of ``x``, is made of it, and ``w`` of its end: any two that meet fit, not all three."""
    y = 2 * x
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({x}, 16), "int32"), out: T.Buffer(({w}, 16), "int8")):
    x = T.alloc_buffer(({x}, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({y}, 16), "int32", scope="local.acc_buffer")
    w = T.alloc_buffer(({w}, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid({x}, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = a[vi, vl]
    for i, l in T.grid({y}, 16):
        with T.block("make"):
            vi, vl = T.axis.remap("SS", [i, l])
            y[vi, vl] = T.max(x[vi // 2, vl], 7)
    for i, l in T.grid({w}, 16):
        with T.block("part"):
            vi, vl = T.axis.remap("SS", [i, l])
            w[vi, vl] = y[vi + {y - w}, vl] + 1
    for i, l in T.grid({w}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(w[vi, vl], "int8")
''')


@pytest.mark.parametrize(("x", "w", "first"), [(500, 900, 2048 - 500), (600, 500, 2048 - 600)])
def test_the_last_of_three_finds_room_beside_the_one_that_it_meets(x: int, w: int, first: int, vta_schedules: ModuleType) -> None:
    """Placed by size: beside the largest, on top of the other, which is done or has not begun, and as little of it as can be."""
    low = vta_schedules.verify(three(x, w), "vta-de10")
    assert {s.buffer: s.address for s in low.storages} == {"x": first, "y": 0, "w": 2 * x}


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


def in_turns(body: str) -> PrimFunc:
    """A program whose three turns each fill ``x``, and store of it eight rows of the result."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((24, 16), "int32"), out: T.Buffer((24, 16), "int8")):
    x = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    for t in range(3):
{body}
''')


STORED = '''
        for i, l in T.grid(8, 16):
            with T.block("scale"):
                vi, vl = T.axis.remap("SS", [i, l])
                y[vi, vl] = T.shift_right(x[vi, vl], 2)
        for i, l in T.grid(8, 16):
            with T.block("store"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                out[vt * 8 + vi, vl] = T.cast(y[vi, vl], "int8")
'''


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
    return in_turns(f'''
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
{STORED}''')


@pytest.mark.filterwarnings("ignore:double_buffer of x has no effect")
def test_a_gap_of_one_row_is_no_whole_buffer(vta_schedules: ModuleType) -> None:
    """Two writers that touch fill a buffer anew in every turn; with a row between them it must keep what it has."""
    copies = {s.buffer: s.copies for s in vta_schedules.verify(glued(4), "vta-de10-portable").storages}
    assert copies["x"] == 2
    for first in (3, 2):
        copies = {s.buffer: s.copies for s in vta_schedules.verify(glued(first), "vta-de10-portable").storages}
        assert copies["x"] == 1


def refilled(fill: str) -> PrimFunc:
    """A buffer that is loaded whole before the first turn and, with two banks asked for, by ``fill`` in every turn."""
    return in_turns(f'''
        for i, l in T.grid(8, 16):
            with T.block("once"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                T.where(t < 1)
                x[vi, vl] = a[vi, vl]
{fill}
''')


PARTS = '''
        for r, i, l in T.grid(4, {rows}, 16):
            with T.block("some"):
                vt = T.axis.spatial(3, t)
                vi = T.axis.spatial(8, {row})
                vl = T.axis.spatial(16, l)
                T.where({cond})
                T.block_attr({{"double_buffer_scope": 0}})
                x[vi, vl] = a[vt * 8 + vi, vl]
''' + STORED


@pytest.mark.filterwarnings("ignore:double_buffer of x has no effect")
@pytest.mark.parametrize(
    ("rows", "row", "cond", "copies"),
    [
        (8, "i", "r >= 3", 2), (8, "i", "r * 2 + 1 >= 7", 2), (8, "7 - i", "r < 1", 2), (8, "i", "r >= 1 and r < 2", 2),
        (2, "i * 7", "r < 1", 1),  # the rows between are those of the turn before
        (8, "i", "r < 1 and r >= 2", 1), (8, "i", "r < 1 and i < 7", 1), (8, "i", "r < t", 1),
    ],
)
def test_a_buffer_changes_banks_if_every_turn_fills_it(
    rows: int, row: str, cond: str, copies: int, vta_schedules: ModuleType
) -> None:
    func = refilled(PARTS.format(rows=rows, row=row, cond=cond))
    found = {s.buffer: s.copies for s in vta_schedules.verify(func, "vta-de10-portable").storages}
    assert found["x"] == copies


@pytest.mark.filterwarnings("ignore:double_buffer of x has no effect")
@pytest.mark.parametrize(("row", "copies"), [("vi", 2), ("7 - vi", 1)])
def test_rows_that_a_later_step_fills_are_those_of_the_turn_before(row: str, copies: int, vta_schedules: ModuleType) -> None:
    func = refilled(f'''
        for i in range(8):
            for l in range(16):
                with T.block("some"):
                    vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                    T.block_attr({{"double_buffer_scope": 0}})
                    x[vi, vl] = a[vt * 8 + vi, vl]
            for l in range(16):
                with T.block("scale"):
                    vi, vl = T.axis.remap("SS", [i, l])
                    y[vi, vl] = T.shift_right(x[{row}, vl], 2)
            for l in range(16):
                with T.block("store"):
                    vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                    out[vt * 8 + vi, vl] = T.cast(y[vi, vl], "int8")
''')
    found = {s.buffer: s.copies for s in vta_schedules.verify(func, "vta-de10-portable").storages}
    assert found["x"] == copies


def waiting(count: int) -> isa.Table:
    """``count`` loads that each give a token before the first is taken."""
    loads = [isa.Load(mem=isa.MEM_INP, y_size=1, x_size=1, x_stride=1, push_next=1) for _ in range(count)]
    return isa.table_of([*loads, *[isa.Load(mem=isa.MEM_UOP, pop_prev=1)] * count, isa.Finish()])


def test_as_many_tokens_wait_as_a_counter_counts() -> None:
    assert TOKEN_LIMIT == 255
    tokens._check_waiting(waiting(255), DE10)
    with pytest.raises(LoweringError, match="up to 256 tokens wait on LOAD->COMPUTE at instruction 255"):
        tokens._check_waiting(waiting(256), DE10)


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_tokens_that_are_given_back_do_not_wait(ahead: int) -> None:
    """A load gives a token for each one that it got back, ``ahead`` of who takes them."""
    load = {"mem": isa.MEM_INP, "y_size": 1, "x_size": 1, "x_stride": 1, "push_next": 1}
    take = isa.Load(mem=isa.MEM_UOP, pop_prev=1, push_prev=1)
    rounds = [insn for _ in range(40) for insn in (take, isa.Load(**load, pop_next=1))]
    table = isa.table_of([*[isa.Load(**load)] * ahead, *rounds, *[isa.Load(mem=isa.MEM_UOP, pop_prev=1)] * ahead, isa.Finish()])
    assert tokens._waiting(table) == ahead
    assert tokens._waiting(waiting(40 + ahead)) == 40 + ahead


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


@pytest.mark.parametrize("count", [255, 256, 287, 288, 600])
def test_what_is_loaded_before_anyone_takes_it_is_taken_together(count: int) -> None:
    """All loads come before the first product in the stream: none can wait for it, so it waits for as many as are too many."""
    loads = [isa.Load(mem=isa.MEM_INP, y_size=1, x_size=1, x_stride=1, sram=k) for k in range(count)]
    uses = [isa.Gemm(uop_bgn=k, uop_end=k + 1, iter_out=1, iter_in=1) for k in range(count)]
    uops = isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=count, x_stride=count)
    program = finished([uops, *loads, *uses], [(0, k, 0) for k in range(count)])
    assert [r for r in check_races(program) if r.memory == "INP"] == []
    assert int((program.table[:, isa.PUSH_NEXT] != 0).sum()) == 255
    assert max(most for most, _ in flow(program.table, DE10.queue_depth).outstanding()) <= TOKEN_LIMIT


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


def test_what_lies_right_before_shared_memory_waits_for_no_store() -> None:
    """Four elements are shared: one before the first is not the last, and is nobody's."""
    use = [LOAD_UOP, isa.Gemm(reset=1, **TWO), isa.Alu(alu_op=isa.ALU_ADD, use_imm=1, imm=1, **TWO)]
    waits = {}
    for at in (-1, 0, 2, 3, 4):
        program = finished([*use, moved(True, 0, 3), moved(False, 0, at)], [(0, 0, 0)], (TENSOR, 64))
        assert check_races(program) == []
        waits[at] = int(program.table[program.table[:, isa.OPCODE] == isa.OP_STORE, isa.PUSH_PREV].sum()), len(program.table)
    assert waits == {-1: (1, 7), 0: (1, 7), 2: (1, 7), 3: (1, 8), 4: (1, 7)}


@pytest.mark.parametrize(("at", "meet"), [(0, True), (99, True), (100, False)])
def test_a_store_of_many_rows_at_the_beginning_of_dram_meets_a_load_of_one(at: int, meet: bool) -> None:
    """A hundred rows from byte 0 on, and nothing that orders a load behind them."""
    rows = {**TWO, "iter_in": 100}
    use = [LOAD_UOP, isa.Gemm(reset=1, **rows), isa.Alu(alu_op=isa.ALU_ADD, use_imm=1, imm=1, **rows)]
    load = isa.Load(mem=isa.MEM_INP, y_size=1, x_size=1, x_stride=1, dram=at)
    program = finished([*use, isa.Store(y_size=100, x_size=1, x_stride=1), load], [(0, 0, 0)])
    assert [(r.memory, r.kind) for r in check_races(program)] == [("DRAM", "RAW")] * meet


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


def rows(changes: str, shape: str = "4, 4") -> PrimFunc:
    """``a`` loaded into ``x``, changed in the accumulator and stored."""
    m, n = shape.split(", ")
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({shape}, 16), "int32"), out: T.Buffer(({shape}, 16), "int8")):
    x = T.alloc_buffer(({shape}, 16), "int32", scope="local.acc_buffer")
    for i, j, l in T.grid({m}, {n}, 16):
        with T.block("load"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            x[vi, vj, vl] = a[vi, vj, vl]
{changes}
    for i, j, l in T.grid({m}, {n}, 16):
        with T.block("store"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            out[vi, vj, vl] = T.cast(x[vi, vj, vl], "int8")
''')


@pytest.mark.parametrize("extent", ["i + 1", "4 - i", "i", "T.min(i + 2, 4)"])
def test_a_loop_runs_as_often_as_another_says(extent: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(rows(f'''
    for i, j, l in T.grid(4, 4, 16):
        with T.block("all"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            x[vi, vj, vl] = x[vi, vj, vl] + 1
    for i in range(4):
        for j in range({extent}):
            for l in range(16):
                with T.block("some"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    x[vi, vj, vl] = x[vi, vj, vl] + 5
'''), "vta-de10")


@pytest.mark.parametrize("note", ["", "hw", "uop", "unroll"])
def test_all_of_a_chain_is_done_before_its_next_turn(note: str, vta_schedules: ModuleType) -> None:
    marked = f'T.serial(3, annotations={{"vta.loop": "{note}"}})' if note else "range(3)"
    vta_schedules.verify(rows(f'''
    for r in {marked}:
        for i, j, l in T.grid(4, 4, 16):
            with T.block("again"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                x[vi, vj, vl] = T.max(x[vi, vj, vl] + 9, 50)
'''), "vta-de10")


def test_all_that_a_list_of_micro_ops_writes_is_written(vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(rows('''
    for i in T.serial(4, annotations={"vta.loop": "uop"}):
        for j in T.serial(4, annotations={"vta.loop": "uop"}):
            for l in range(16):
                with T.block("add"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    x[vi, vj, vl] = x[vi, vj, vl] + 9
'''), "vta-de10")
    (alu,) = low.table[low.table[:, isa.OPCODE] == isa.OP_ALU]
    assert alu[isa.UOP_END] - alu[isa.UOP_BGN] == 16


def test_what_never_runs_is_no_instruction(vta_schedules: ModuleType) -> None:
    block = '''
    for i, j, l in T.grid(4, 4, 16):
        with T.block("{name}"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            T.where({where})
            x[vi, vj, vl] = x[vi, vj, vl] + 1
'''
    first = block.format(name="first", where="i < 4")
    never = block.format(name="never", where="i * 2 == 3")
    wanted, found = (vta_schedules.verify(rows(changes), "vta-de10").table for changes in (first, first + never))
    assert np.array_equal(wanted, found)
    # Nor where nothing else is computed: a copy in, and the end.
    text = rows(never).script()
    assert len(lower_table(parse(text[: text.rindex("    for i, j, l in")]), "vta-de10").table) == 2


def test_what_is_likely_is_so_in_a_pickled_program_too() -> None:
    """Its names are other objects."""
    func = rows('''
    for i, j, l in T.grid(4, 4, 16):
        with T.block("some"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            T.where(T.likely(i < 3))
            x[vi, vj, vl] = T.max(x[vi, vj, vl], 2)
''')
    again = pickle.loads(pickle.dumps(func))
    assert np.array_equal(lower_table(again, "vta-de10").table, lower_table(func, "vta-de10").table)


def test_a_load_that_would_overshoot_fills_its_buffer_and_no_more(vta_schedules: ModuleType) -> None:
    """So what is made of it takes its place."""
    low = vta_schedules.verify(parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((8, 16), "int32"), out: T.Buffer((8, 16), "int8")):
    x = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    for i0, i1, l in T.grid(3, 3, 16):
        with T.block("load"):
            vi = T.axis.spatial(8, i0 * 3 + i1)
            vl = T.axis.spatial(16, l)
            T.where(i0 * 3 + i1 < 8)
            x[vi, vl] = a[vi, vl]
    for i, l in T.grid(8, 16):
        with T.block("make"):
            vi, vl = T.axis.remap("SS", [i, l])
            z[vi, vl] = x[vi, vl] + 1
    for i, l in T.grid(8, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(z[vi, vl], "int8")
'''), "vta-de10")
    assert [(s.buffer, s.elements) for s in low.storages] == [("x", 8)]


@pytest.mark.parametrize(("rows", "held"), [(4, 4), (5, 4), (3, 3)])
def test_a_window_wider_than_its_buffer_is_the_buffer(rows: int, held: int, vta_schedules: ModuleType) -> None:
    """It moves with a loop, and what sticks out on either side is left out."""
    blocks = "".join(f'''
        for j, l in T.grid({rows}, 16):
            with T.block("{name}"):
                vt = T.axis.spatial(2, t)
                vi = T.axis.spatial(4, t + j - 1)
                vl = T.axis.spatial(16, l)
                T.where(1 <= t + j and t + j < 5)
                {store}
''' for name, store in (("load", "x[vi, vl] = a[vt, vi, vl]"), ("add", "x[vi, vl] = x[vi, vl] + 1"),
                       ("store", 'out[vt, vi, vl] = T.cast(x[vi, vl], "int8")')))
    low = vta_schedules.verify(parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, 4, 16), "int32"), out: T.Buffer((2, 4, 16), "int8")):
    x = T.alloc_buffer((4, 16), "int32", scope="local.acc_buffer")
    for t in range(2):
{blocks}
'''), "vta-de10")
    assert [s.elements for s in low.storages] == [held]


def test_a_sum_begins_where_its_repetition_does(vta_schedules: ModuleType) -> None:
    """Inside of what stands around it and of its own place."""
    vta_schedules.verify(parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, 3, 4, 16), "int32"), out: T.Buffer((2, 3, 16), "int8")):
    x = T.alloc_buffer((3, 4, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer((3, 16), "int32", scope="local.acc_buffer")
    for t in range(2):
        for i, k, l in T.grid(3, 4, 16):
            with T.block("load"):
                vt, vi, vk, vl = T.axis.remap("SSSS", [t, i, k, l])
                x[vi, vk, vl] = a[vt, vi, vk, vl]
        for i, k, l in T.grid(3, 4, 16):
            with T.block("sum"):
                vi, vk, vl = T.axis.remap("SRS", [i, k, l])
                with T.init():
                    y[vi, vl] = 0
                y[vi, vl] = y[vi, vl] + x[vi, vk, vl]
        for i, l in T.grid(3, 16):
            with T.block("store"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                out[vt, vi, vl] = T.cast(y[vi, vl], "int8")
'''), "vta-de10")


@pytest.mark.parametrize("columns", [16, 32])
def test_an_operand_is_one_element_without_gaps(columns: int, vta_schedules: ModuleType) -> None:
    """As many weights in rows of the tensor that are twice as long are as many lanes, and no element."""
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((4, 16), "int8"), w: T.Buffer((16, {columns}), "int8"), out: T.Buffer((4, 16), "int8")):
    inp = T.alloc_buffer((4, 16), "int8", scope="local.inp_buffer")
    wgt = T.alloc_buffer((16, {columns}), "int8", scope="local.wgt_buffer")
    acc = T.alloc_buffer((4, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid(4, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            inp[vi, vl] = a[vi, vl]
    for o, l in T.grid(16, {columns}):
        with T.block("load_w"):
            vo, vl = T.axis.remap("SS", [o, l])
            wgt[vo, vl] = w[vo, vl]
    for i, l in T.grid(4, 16):
        with T.block("init"):
            vi, vl = T.axis.remap("SS", [i, l])
            acc[vi, vl] = 0
    for i in T.serial(4):
        with T.block("gemm"):
            vi = T.axis.spatial(4, i)
            T.reads(acc[vi, 0:16], inp[vi, 0:16], wgt[0:16, 0:16])
            T.writes(acc[vi, 0:16])
            A = T.match_buffer(acc[vi, 0:16], (1, 16), "int32", scope="local.acc_buffer", offset_factor=16)
            I = T.match_buffer(inp[vi, 0:16], (1, 16), "int8", scope="local.inp_buffer", offset_factor=16)
            W = T.match_buffer(wgt[0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer", offset_factor=256)
            T.evaluate(T.call_extern("int32", "vta.gemm", A.data, I.data, W.data))
    for i, l in T.grid(4, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(acc[vi, vl], "int8")
''')
    if columns == 16:
        vta_schedules.verify(func, "vta-de10")
    else:
        with refused(LoweringError, "element") as caught:
            lower_table(func, "vta-de10")
        assert "the view (16, 16) of wgt is not one element of 256 lanes" in str(caught.value)


@pytest.mark.parametrize("seed", range(8))
def test_no_program_lets_more_tokens_wait_than_a_counter_counts(seed: int) -> None:
    """Loads, products, additions and stores in long and short turns: each program ends, and nothing in it races."""
    rng = np.random.default_rng(seed)
    many, inputs, sums = 1500, *((350, 1500) if seed % 2 else (1500, 350))
    uops = isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=many, x_stride=many)
    insns: list[isa.Insn] = [uops]
    loaded = made = stored = 0
    ready: list[int] = []
    for _ in range(50):
        kind, turn = rng.choice(3), int(rng.choice([1, 2, 30, 200, 340, 600]))
        for _ in range(turn):
            one = {"uop_bgn": made % many, "uop_end": made % many + 1, "iter_out": 1, "iter_in": 1}
            if kind == 0:
                insns.append(isa.Load(mem=isa.MEM_INP, y_size=1, x_size=1, x_stride=1, sram=loaded % inputs))
                loaded += 1
            elif kind == 2 and ready:
                insns.append(moved(True, ready.pop(0), stored))
                stored += 1
            elif kind == 1:
                adds = rng.random() < 0.5
                ready += [made % many % sums] * adds
                insns.append(isa.Alu(alu_op=isa.ALU_ADD, use_imm=1, imm=1, **one) if adds else isa.Gemm(**one))
                made += 1
    program = finished(insns, [(k % sums, k % inputs, 0) for k in range(many)])
    found = flow(program.table, DE10.queue_depth)
    assert found.finish >= 0
    assert max(most for most, _ in found.outstanding()) <= TOKEN_LIMIT
    assert [r for r in check_races(program) if r.memory != "DRAM"] == []
