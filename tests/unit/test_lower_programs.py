"""Whole programs: SRAM allocation, banks and threads, tokens, DRAM layout, images, and forms that schedules leave behind."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import pytest
from refusals import refused

from autosched.errors import LoweringError, ProgramError, UnknownNameError
from autosched.ir.stmt import IRModule, PrimFunc
from autosched.lower import Lowered, flatten, lower, lower_table
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import Target
from autosched.workloads import workload
from sim import isa, tokens
from sim.config import VTAConfig
from sim.machine import run

ACC = "local.acc_buffer"


def streamed(tiles: int, note: str = "", loop: str = "T.serial({tiles})", shared: bool = False) -> PrimFunc:
    """``tiles`` tiles of four elements: load, scale, store."""
    loop = loop.format(tiles=tiles)
    note = f"T.block_attr({note})" if note else "T.block_attr({})"
    where = "i" if shared else "t * 4 + i"
    size = 4 if shared else 4 * tiles
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({4 * tiles}, 16), "int32"), out: T.Buffer(({4 * tiles}, 16), "int8")):
    x = T.alloc_buffer(({size}, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({size}, 16), "int32", scope="local.acc_buffer")
    for t in {loop}:
        for i, l in T.grid(4, 16):
            with T.block("load"):
                vt = T.axis.spatial({tiles}, t)
                vi = T.axis.spatial(4, i)
                vl = T.axis.spatial(16, l)
                {note}
                T.reads(a[vt * 4 + vi, vl])
                T.writes(x[{where.replace("t *", "vt *").replace("i", "vi")}, vl])
                x[{where.replace("t *", "vt *").replace("i", "vi")}, vl] = a[vt * 4 + vi, vl]
        for i, l in T.grid(4, 16):
            with T.block("scale"):
                vi = T.axis.spatial({size}, {where})
                vl = T.axis.spatial(16, l)
                y[vi, vl] = T.shift_right(x[vi, vl], 3)
        for i, l in T.grid(4, 16):
            with T.block("store"):
                vt = T.axis.spatial({tiles}, t)
                vi = T.axis.spatial(4, i)
                vl = T.axis.spatial(16, l)
                out[vt * 4 + vi, vl] = T.cast(y[{where.replace("t *", "vt *").replace("i", "vi")}, vl], "int8")
''')


def bases(low: Lowered) -> list[int]:
    """SRAM bases of the loads of ACC, in order."""
    table = low.table
    return table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_ACC), isa.SRAM].tolist()


def test_a_tile_holds_only_itself(vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(streamed(5), "vta-de10")
    assert [(s.buffer, s.elements, s.copies) for s in low.storages] == [("x", 4, 1)]
    assert bases(low) == [0] * 5


def test_banks_take_turns(vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(streamed(5, '{"double_buffer_scope": 0}'), "vta-de10")
    assert bases(low) == [0, 4, 0, 4, 0]
    # HLS and the functional simulator store from ACC itself: there, only a second bank lets the next load begin.
    low = vta_schedules.verify(streamed(5, '{"double_buffer_scope": 0}'), "vta-de10-portable")
    assert low.cycles() < lower_table(streamed(5), "vta-de10-portable").cycles()


def test_a_buffer_filled_once_has_one_bank(vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(streamed(1, '{"double_buffer_scope": 0}'), "vta-de10")
    assert low.storages[0].copies == 1


def test_pipeline_stages_make_banks(vta_schedules: ModuleType) -> None:
    def pipelined(stages: str) -> PrimFunc:
        note = f'annotations={{"software_pipeline_stage": {stages}, "software_pipeline_order": [0, 1, 2]}}'
        return streamed(5, loop="T.serial({tiles}, NOTE)".replace("NOTE", note.replace("{", "{{").replace("}", "}}")))

    assert bases(vta_schedules.verify(pipelined("[0, 0, 0]"), "vta-de10")) == [0] * 5
    assert bases(vta_schedules.verify(pipelined("[0, 1, 1]"), "vta-de10")) == [0, 4, 0, 4, 0]
    assert bases(vta_schedules.verify(pipelined("[0, 2, 2]"), "vta-de10")) == [0, 4, 8, 0, 4]
    with pytest.raises(LoweringError, match="software_pipeline_stage of loop t has 2 stages for 3 statements"):
        lower_table(pipelined("[0, 1]"), "vta-de10")


def test_any_number_of_banks(vta_schedules: ModuleType) -> None:
    def noted(banks: str) -> PrimFunc:
        return streamed(5, f'{{"double_buffer_scope": 0, "vta.banks": {banks}}}')

    assert bases(vta_schedules.verify(noted("3"), "vta-de10")) == [0, 4, 8, 0, 4]
    assert bases(vta_schedules.verify(noted("2"), "vta-de10")) == [0, 4, 0, 4, 0]
    assert bases(vta_schedules.verify(noted("64"), "vta-de10-portable")) == [0, 4, 8, 12, 16]
    for bad in ("1", "65", '"two"'):
        with pytest.raises(LoweringError, match=r"vta.banks of block load is .*an integer from 2 to 64"):
            lower_table(noted(bad), "vta-de10")
    with pytest.raises(LoweringError, match="counts the banks of a double_buffer, and it has none"):
        lower_table(streamed(5, '{"vta.banks": 3}'), "vta-de10")


@pytest.mark.parametrize(("tiles", "second"), [(3, 700), (4, 0)])
def test_what_follows_begins_in_a_copy_that_is_not_under_way(tiles: int, second: int, vta_schedules: ModuleType) -> None:
    # Two banks of 700 and then one buffer of 700 do not fit 2048 side by side: it takes the bank that was not used last.
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({700 * tiles}, 16), "int32"), b: T.Buffer((700, 16), "int32"),
         out: T.Buffer(({700 * tiles}, 16), "int8"), last: T.Buffer((700, 16), "int8")):
    x = T.alloc_buffer((700, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((700, 16), "int32", scope="local.acc_buffer")
    for t in range({tiles}):
        for i, l in T.grid(700, 16):
            with T.block("load"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                T.block_attr({{"double_buffer_scope": 0}})
                x[vi, vl] = a[vt * 700 + vi, vl]
        for i, l in T.grid(700, 16):
            with T.block("store"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                out[vt * 700 + vi, vl] = T.cast(x[vi, vl], "int8")
    for i, l in T.grid(700, 16):
        with T.block("load_z"):
            vi, vl = T.axis.remap("SS", [i, l])
            z[vi, vl] = b[vi, vl]
    for i, l in T.grid(700, 16):
        with T.block("store_z"):
            vi, vl = T.axis.remap("SS", [i, l])
            last[vi, vl] = T.cast(z[vi, vl], "int8")
''')
    low = vta_schedules.verify(func, "vta-de10")
    assert {s.buffer: s.address for s in low.storages} == {"x": 0, "z": second}


def test_bad_bank_note() -> None:
    with pytest.raises(LoweringError, match="double_buffer_scope 3 of block load: it writes 1 buffers"):
        lower_table(streamed(2, '{"double_buffer_scope": 3}'), "vta-de10")


@pytest.mark.parametrize("bad", ["None", '"1"', '"one"', "1.5", "[1]", '{"a": 1}'])
def test_notes_that_are_no_numbers_are_named(bad: str) -> None:
    staged = f'T.serial({{tiles}}, annotations={{{{"software_pipeline_stage": {bad.replace("{", "{{").replace("}", "}}")}}}}})'
    for func, said in (
        (streamed(2, f'{{"vta.first": {bad}}}'), "vta.first of block load is .*; 1, or 0"),
        (streamed(2, f'{{"double_buffer_scope": {bad}}}'), "double_buffer_scope .* of block load"),
        (streamed(2, f'{{"double_buffer_scope": 0, "vta.banks": {bad}}}'), "vta.banks of block load is .*an integer"),
        (streamed(2, loop=staged), "software_pipeline_stage of loop t "),
    ):
        with pytest.raises(LoweringError, match=said):
            lower_table(func, "vta-de10")
    with pytest.raises(LoweringError, match=r"double_buffer_scope .* of block load"):
        flatten(streamed(2, f'{{"double_buffer_scope": {bad}}}'))


@pytest.mark.parametrize("good", ["0", "1", "True"])
def test_notes_that_are_numbers_are_taken(good: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(streamed(2, f'{{"vta.first": {good}}}'), "vta-de10")


@pytest.mark.parametrize("tag", ["vthread", "cthread", "vthread.x"])
def test_virtual_threads_interleave(tag: str, vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(streamed(3, loop=f'T.thread_binding({{tiles}}, thread="{tag}")'), "vta-de10")
    assert bases(low) == [0, 4, 8]
    moves = [int(op) for op in low.table[1:-2, isa.OPCODE]]
    assert moves == [isa.OP_LOAD] * 3 + [isa.OP_ALU] * 3 + [isa.OP_STORE] * 3


def test_threads_that_share_are_copied(vta_schedules: ModuleType) -> None:
    func = streamed(2, loop='T.thread_binding({tiles}, thread="vthread")', shared=True)
    assert bases(vta_schedules.verify(func, "vta-de10")) == [0, 4]


def test_hardware_threads_are_refused() -> None:
    with pytest.raises(LoweringError, match=r"bound to threadIdx\.x; VTA has vthread and cthread"):
        lower_table(streamed(2, loop='T.thread_binding({tiles}, thread="threadIdx.x")'), "vta-de10")


def two_phases(elements: int) -> PrimFunc:
    """Two copies, one after the other, that are never alive together."""
    phase = '''
    for i, l in T.grid({n}, 16):
        with T.block("load_{k}"):
            vi, vl = T.axis.remap("SS", [i, l])
            {k}[vi, vl] = a[vi, vl]
    for i, l in T.grid({n}, 16):
        with T.block("store_{k}"):
            vi, vl = T.axis.remap("SS", [i, l])
            {dst}[vi, vl] = T.cast({k}[vi, vl], "int8")
'''
    n = elements
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({n}, 16), "int32"), b: T.Buffer(({n}, 16), "int8"), c: T.Buffer(({n}, 16), "int8")):
    x = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
{phase.format(n=n, k="x", dst="b")}{phase.format(n=n, k="y", dst="c")}''')


def test_memory_is_shared_only_where_it_must_be(vta_schedules: ModuleType) -> None:
    apart = vta_schedules.verify(two_phases(1000), "vta-de10")
    assert [s.address for s in apart.storages] == [0, 1000]
    shared = vta_schedules.verify(two_phases(1500), "vta-de10")
    # The second waits for what of the first lies under it: as little as can be, and what is stored first.
    assert [s.address for s in shared.storages] == [548, 0]
    with pytest.raises(LoweringError, match=r"local\.acc_buffer holds 2048 elements and the program needs 2100: x 2100, y 2100"):
        lower_table(two_phases(2100), "vta-de10")


def test_drain_and_balance(vta_schedules: ModuleType) -> None:
    """FINISH comes after the last load and the last store, and every token is taken."""
    from sim import tokens

    for seed in range(8):
        func = vta_schedules.dense(random.Random(seed).choice, "dense:m=4,k=64,n=48").mod["main"]
        low = lower_table(func, "vta-de10")
        assert low.table[-1, isa.OPCODE] == isa.OP_FINISH
        flow = tokens.flow(low.table, low.config.queue_depth)
        assert flow.finish == len(low.table) - 1
        assert flow.tokens == (0, 0, 0, 0)
        for engine in (isa.QUEUE_LOAD, isa.QUEUE_STORE):
            last = int(np.flatnonzero(isa.queue_of(low.table) == engine)[-1])
            assert flow.before(last, flow.finish)


def test_fewer_tokens_break_the_order(vta_schedules: ModuleType) -> None:
    """Every token counts: without any one pair, some conflict has no order (or the program gets stuck)."""
    from dataclasses import replace

    from sim.errors import SimError
    from sim.races import check_races

    func = vta_schedules.dense(random.Random(4).choice, "dense:m=4,k=32,n=32").mod["main"]
    low = lower_table(func, "vta-de10")
    program = low.program()
    pushers = np.flatnonzero((low.table[:, isa.OPCODE] == isa.OP_LOAD) & (low.table[:, isa.PUSH_NEXT] != 0))
    poppers = np.flatnonzero((isa.queue_of(low.table) == isa.QUEUE_COMPUTE) & (low.table[:, isa.POP_PREV] != 0))
    assert len(pushers) == len(poppers) > 0
    for push, pop in zip(pushers, poppers):
        table = low.table.copy()
        table[push, isa.PUSH_NEXT] = table[pop, isa.POP_PREV] = 0
        try:
            broken = bool(check_races(replace(program, table=table)))
        except SimError:
            broken = True
        assert broken


def waiting_loads(many: int) -> PrimFunc:
    """So many one-element loads, each taken by a product of its own."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({many}, 16), "int8"), w: T.Buffer((16, 16), "int8"), out: T.Buffer((16,), "int8")):
    inp = T.alloc_buffer(({many}, 16), "int8", scope="local.inp_buffer")
    wgt = T.alloc_buffer((16, 16), "int8", scope="local.wgt_buffer")
    acc = T.alloc_buffer((16,), "int32", scope="local.acc_buffer")
    for o, l in T.grid(16, 16):
        with T.block("load_w"):
            vo, vl = T.axis.remap("SS", [o, l])
            wgt[vo, vl] = w[vo, vl]
    for l in range(16):
        with T.block("init"):
            vl = T.axis.spatial(16, l)
            acc[vl] = 0
    for i in range({many}):
        for l in range(16):
            with T.block("load"):
                vi, vl = T.axis.remap("SS", [i, l])
                inp[vi, vl] = a[vi, vl]
        for z in T.serial(1):
            with T.block("gemm"):
                vi = T.axis.reduce({many}, i)
                T.reads(acc[0:16], inp[vi, 0:16], wgt[0:16, 0:16])
                T.writes(acc[0:16])
                A = T.match_buffer(acc[0:16], (16,), "int32", scope="local.acc_buffer", offset_factor=16)
                I = T.match_buffer(inp[vi, 0:16], (16,), "int8", scope="local.inp_buffer", offset_factor=16)
                W = T.match_buffer(wgt[0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer", offset_factor=256)
                T.evaluate(T.call_extern("int32", "vta.gemm", A.data, I.data, W.data))
    for i in range({many}):
        for z in T.serial(1):
            with T.block("again"):
                vi = T.axis.reduce({many}, i)
                T.reads(acc[0:16], inp[vi, 0:16], wgt[0:16, 0:16])
                T.writes(acc[0:16])
                A = T.match_buffer(acc[0:16], (16,), "int32", scope="local.acc_buffer", offset_factor=16)
                I = T.match_buffer(inp[vi, 0:16], (16,), "int8", scope="local.inp_buffer", offset_factor=16)
                W = T.match_buffer(wgt[0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer", offset_factor=256)
                T.evaluate(T.call_extern("int32", "vta.gemm", A.data, I.data, W.data))
    for l in range(16):
        with T.block("store"):
            vl = T.axis.spatial(16, l)
            out[vl] = T.cast(acc[vl], "int8")
''')


@pytest.mark.parametrize(("many", "held"), [(255, 0), (256, 1), (287, 1), (288, 2), (700, 14)])
def test_loads_are_held_back_before_more_tokens_wait_than_are_counted(vta_schedules: ModuleType, many: int, held: int) -> None:
    """One in 32 of those beyond waits for a product; so few do not wait in their turn."""
    low = vta_schedules.verify(waiting_loads(many), "vta-de10")
    assert int(low.table[isa.queue_of(low.table) == isa.QUEUE_COMPUTE, isa.PUSH_PREV].sum()) == held
    assert tokens.flow(low.table, 512).outstanding()[0][0] == min(many, 255)


def test_dram_layout() -> None:
    low = lower_table(streamed(3), "vta-de10")
    assert low.dram.names == {"a": 0x1000, "out": 0x2000, "uops": 0x3000, "insns": 0x4000}
    program = low.program({"a": np.zeros((12, 16), np.int32)})
    assert [s.address for s in program.memory] == [0x1000, 0x3000]
    assert [(o.name, o.address, o.size) for o in program.outputs] == [("out", 0x2000, 192)]
    assert program.insn_address == 0x4000
    assert lower(streamed(3), "vta-de10").table.tobytes() == low.table.tobytes()


def test_modules() -> None:
    one = IRModule({"main": streamed(3)})
    assert lower_table(one, "vta-de10").table.tobytes() == lower_table(streamed(3), "vta-de10").table.tobytes()
    with pytest.raises(ProgramError, match=r"a module of 2 functions \(f, g\): lower one of them"):
        lower_table(IRModule({"f": streamed(3), "g": streamed(2)}), "vta-de10")


def test_images_are_checked() -> None:
    low = lower_table(streamed(3), "vta-de10")
    with pytest.raises(ProgramError, match=r"parameter a is int32\[12, 16\], got int32\[3\]"):
        low.program({"a": np.zeros(3, np.int32)})
    with pytest.raises(ProgramError, match="got int64"):
        low.program({"a": np.zeros((12, 16), np.int64)})
    with pytest.raises(UnknownNameError, match="unknown parameter 'A'"):
        low.program({"A": np.zeros((12, 16), np.int32)})


def test_expected_outputs_are_compared() -> None:
    low = lower_table(streamed(3), "vta-de10")
    a = np.arange(192, dtype=np.int32).reshape(12, 16)
    right = (a >> 3).astype(np.int8)
    assert run(low.program({"a": a}, {"out": right})).outputs_match is True
    assert run(low.program({"a": a}, {"out": right + np.int8(1)})).outputs_match is False


def scheduled_dense() -> Schedule:
    """A matrix product at its simplest."""
    sch = Schedule(workload("dense:m=4,k=32,n=32,bias=1").func)
    for block in ("dense", "requant"):
        sch.set_scope(block, 0, ACC)
    sch.cache_read("dense", 0, "local.inp_buffer")
    sch.cache_read("dense", 1, "local.wgt_buffer")
    sch.cache_read("requant", 1, ACC)
    loops = sch.get_loops("dense")
    sch.reorder(loops[4], loops[2], loops[3], loops[5])
    sch.decompose_reduction("dense", sch.get_loops("dense")[0])
    sch.tensorize(sch.get_loops("dense_update")[3], "vta.gemm.1x16x16")
    return sch


def test_fused_and_split_loops(vta_schedules: ModuleType) -> None:
    sch = scheduled_dense()
    sch.fuse(*sch.get_loops("out"))
    sch.split(sch.get_loops("requant")[0], [2, None])
    fused = sch.fuse(*sch.get_loops("requant")[1:])
    sch.split(fused, [None, 8])
    low = vta_schedules.verify(sch.mod["main"], "vta-de10")
    assert {s.block: s.instructions for s in low.sites}["out"] == 1


def test_partitioned_loops(vta_schedules: ModuleType) -> None:
    sch = scheduled_dense()
    sch.loop_partition(sch.get_loops("out")[0], [1, None])
    vta_schedules.verify(sch.mod["main"], "vta-de10")


def test_int8_buffer_in_the_accumulator(vta_schedules: ModuleType) -> None:
    sch = scheduled_dense()
    sch.cache_write("out", 0, ACC)
    low = vta_schedules.verify(sch.mod["main"], "vta-de10")
    assert len([s for s in low.storages if s.scope == ACC]) == 2  # the product (all stages in place) and the bias


def test_init_inside_the_reduction(vta_schedules: ModuleType) -> None:
    """A reset under a condition on reduction loops: the first pass only."""
    sch = Schedule(workload("dense:m=4,k=64,n=32,tail=cast,bias=0").func)
    sch.set_scope("dense", 0, ACC)
    inp, wgt = sch.cache_read("dense", 0, "local.inp_buffer"), sch.cache_read("dense", 1, "local.wgt_buffer")
    m, n, nb, cb, k, ib = sch.get_loops("dense")
    sch.reorder(k, m, n, nb, cb, ib)
    sch.compute_at(inp, k)
    sch.compute_at(wgt, k)
    sch.decompose_reduction("dense", k)
    sch.tensorize(nb, "vta.gemm.1x16x16")
    vta_schedules.verify(sch.mod["main"], "vta-de10")


def test_no_endless_programs() -> None:
    func = streamed(1 << 22)
    with pytest.raises(LoweringError, match=r"block load becomes 4194304 instructions; a program has at most 2097152"):
        lower_table(func, "vta-de10")


def test_symbolic_extents_are_refused_by_name() -> None:
    func = parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "int32")
    B = T.match_buffer(b, (n, 16), "int8")
    for i, l in T.grid(n, 16):
        with T.block("copy"):
            vi, vl = T.axis.remap("SS", [i, l])
            B[vi, vl] = T.cast(A[vi, vl], "int8")
''')
    with refused(LoweringError, "symbolic"):
        lower_table(func, "vta-de10")


def test_unscheduled_program_says_what_is_missing() -> None:
    with pytest.raises(LoweringError, match="STORE narrows to int8, so wider results stay in the accumulator"):
        lower_table(workload("t3").func, "vta-de10")


def test_errors_survive_pickling() -> None:
    import pickle

    error = LoweringError("capacity", "too much")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "capacity: too much"


def test_wide_bus_and_deep_memories(vta_schedules: ModuleType) -> None:
    func = vta_schedules.dense(random.Random(7).choice, "dense:m=6,k=64,n=64").mod["main"]
    vta_schedules.verify(func, "vta-zcu104")
    vta_schedules.verify(func, Target("own", VTAConfig(bus_bytes=16, uop_depth=None), "chisel"))
