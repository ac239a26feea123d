"""Corners of the semantics, one by one, under both implementations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sim import isa
from sim.config import VTAConfig
from sim.errors import ConfigError, DeadlockError, ExecutionError, FieldError, LimitError, ProgramError
from sim.machine import run
from sim.portable import check
from sim.presets import TARGETS
from sim.program import Output, Program, Segment
from sim.races import check_races
from sim.semantics import execute

DE10 = TARGETS["vta-de10"].config
FSIM = TARGETS["vta-fsim"].config
UOPS, INP, WGT, ACC, OUT = 0x10000, 0x20000, 0x40000, 0x80000, 0xC0000


def acc_bytes(values, dtype="<i4"):
    """One ACC element per value, all lanes equal."""
    return np.repeat(np.asarray(values, dtype=dtype), 16).tobytes()


def program(*insns, config=DE10, uops=((0, 0, 0),), acc=(), inp=b"", wgt=b"", **more):
    memory = [Segment(UOPS, isa.encode_uops(uops, config).tobytes())]
    for address, data in ((ACC, acc if isinstance(acc, bytes) else acc_bytes(acc)), (INP, inp), (WGT, wgt)):
        if data:
            memory.append(Segment(address, data))
    head = [isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=len(uops), x_stride=len(uops))]
    return Program("corner", config, isa.table_of([*head, *insns, isa.Finish()]), 0x1000, tuple(memory), **more)


def load_acc(count, sram=0, **more):
    return isa.Load(mem=isa.MEM_ACC, sram=sram, dram=ACC // 64, y_size=1, x_size=count, x_stride=count, **more)


def alu(op, **more):
    return isa.Alu(alu_op=op, **({"uop_end": 1, "iter_out": 1, "iter_in": 1} | more))


def acc_of(prog, mode, index=0):
    return int(execute(prog, mode).sram["ACC"][index, 0, 0])


def out_of(prog, mode, index=0):
    return int(execute(prog, mode).sram["OUT"][index, 0, 0])


STORED = (
    alu(isa.ALU_ADD, use_imm=1, imm=0, push_next=1),
    isa.Store(dram=OUT // 16, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1),
    isa.Load(pop_next=1),
)


# OUT.


@pytest.mark.parametrize(("mode", "byte"), [("chisel", 5), ("fsim", 9)])
def test_a_load_of_acc_leaves_out_as_it_was(mode, byte):
    store = isa.Store(dram=OUT // 16, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1)
    prog = program(
        load_acc(1), alu(isa.ALU_ADD, use_imm=1),
        isa.Load(mem=isa.MEM_ACC, dram=ACC // 64 + 1, y_size=1, x_size=1, x_stride=1, push_next=1),
        store, isa.Load(pop_next=1), acc=[5, 9],
    )  # fmt: skip
    assert execute(prog, mode).read(OUT, 16) == bytes([byte]) * 16


@pytest.mark.parametrize(("mode", "byte"), [("chisel", 5), ("fsim", 0)])
def test_a_reset_clears_acc_and_leaves_out(mode, byte):
    reset = isa.Gemm(reset=1, uop_end=1, iter_out=1, iter_in=1, push_next=1)
    store = isa.Store(dram=OUT // 16, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1)
    prog = program(load_acc(1), alu(isa.ALU_ADD, use_imm=1), reset, store, isa.Load(pop_next=1), acc=[5])
    assert execute(prog, mode).read(OUT, 16) == bytes([byte]) * 16
    assert acc_of(prog, mode) == 0


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
def test_narrowing_truncates(mode):
    prog = program(load_acc(1), *STORED, acc=[0x1234_5681])
    assert execute(prog, mode).read(OUT, 16) == b"\x81" * 16


# ALU.


@pytest.mark.parametrize(("mode", "expected"), [("chisel", 107), ("fsim", 7)])
def test_the_first_operand_of_an_immediate_form(mode, expected):
    prog = program(load_acc(2), alu(isa.ALU_ADD, use_imm=1, imm=7), uops=((0, 1, 0),), acc=[0, 100])
    assert acc_of(prog, mode) == expected


SHIFTS = [
    # value, amount, RTL, functional simulator
    (-100, 3, -13, -13),
    (100, 0, 100, 100),
    (1 << 20, 31, 0, 0),
    (-1, 31, -1, -1),
    (3, -4, 48, 48),
    (3, -31, -(1 << 31), -(1 << 31)),
    (1 << 30, -2, 0, 0),
    (3, -32, 3, 3),
    (64, 33, 32, 32),
]


@pytest.mark.parametrize(("value", "amount", "rtl", "fsim"), SHIFTS)
def test_shift_by_an_immediate(value, amount, rtl, fsim):
    prog = program(load_acc(1), alu(isa.ALU_SHR, use_imm=1, imm=amount), acc=[value])
    assert (acc_of(prog, "chisel"), acc_of(prog, "fsim")) == (rtl, fsim)


@pytest.mark.parametrize(
    ("value", "amount", "imm", "rtl", "fsim"),
    [
        (-100, 3, 0, -13, -13),
        (3, -4, 0, 0, 48),  # the RTL shifts right by 28
        (-3, -32, 0, -3, -3),
        (3, -4, -1, 48, 48),  # bit 15 of the immediate field turns it
        (3, 4, -1, 3 << 28 & 0xFFFFFFFF, 0),  # and turns right shifts too
    ],
)
def test_shift_by_a_tensor(value, amount, imm, rtl, fsim):
    prog = program(load_acc(2), alu(isa.ALU_SHR, imm=imm), uops=((0, 1, 0),), acc=[value, amount])
    rtl = rtl - (1 << 32) if rtl >= 1 << 31 else rtl
    assert (acc_of(prog, "chisel"), acc_of(prog, "fsim")) == (rtl, fsim)


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
@pytest.mark.parametrize(
    ("op", "x", "y", "z"),
    [
        (isa.ALU_MIN, -5, 3, -5),
        (isa.ALU_MAX, -5, 3, 3),
        (isa.ALU_ADD, (1 << 31) - 1, 1, -(1 << 31)),
        (isa.ALU_ADD, -5, 3, -2),
    ],
)
def test_tensor_operations(mode, op, x, y, z):
    assert acc_of(program(load_acc(2), alu(op), uops=((0, 1, 0),), acc=[x, y]), mode) == z


def test_mul_is_the_functional_simulators_alone():
    prog = program(load_acc(2), alu(isa.ALU_MUL), uops=((0, 1, 0),), acc=[1 << 20, -4097])
    assert acc_of(prog, "fsim") == np.int64((1 << 20) * -4097).astype(np.int32)
    with pytest.raises(ExecutionError, match=r"instruction 2: alu_op: .*MUL"):
        execute(prog, "chisel")


# Loops and indices.


def test_zero_trip_counts():
    for field in ("iter_out", "iter_in", "uop_end"):
        prog = program(load_acc(1), alu(isa.ALU_ADD, use_imm=1, imm=1, **{field: 0}), acc=[0])
        assert acc_of(prog, "fsim") == 0
        # An empty range of micro-ops wraps around a 14-bit counter; the micro-op memory holds 2048, one of them ours.
        assert execute(prog, "chisel").counters["alu_counter"] == 16384
        assert execute(prog, "fsim").counters["alu_counter"] == 0
        if field != "uop_end":
            assert acc_of(prog, "chisel") == 16384


def test_a_reversed_range_of_uops_wraps_on_the_rtl():
    prog = program(alu(isa.ALU_ADD, use_imm=1, imm=1, uop_bgn=3, uop_end=1))
    assert execute(prog, "chisel").counters["alu_counter"] == 16382
    assert execute(prog, "fsim").counters["alu_counter"] == 0


@pytest.mark.parametrize(("field", "value"), [("dst_in", 2047), ("src_in", 2047)])
def test_indices_wrap_on_the_rtl_and_are_refused_by_the_simulator(field, value):
    insn = alu(isa.ALU_ADD, iter_in=2, **{field: value})
    prog = program(load_acc(2), insn, uops=((1, 1, 0),), acc=[3, 50])
    execute(prog, "chisel")
    with pytest.raises(ExecutionError, match=f"instruction 2: {field[:3]}: .*index 2048 is out of range"):
        execute(prog, "fsim")
    # (1 + 2047) % 2048 = 0
    expected = {"dst_in": (3 + 100, 100), "src_in": (3, 50 + 50 + 3)}[field]
    assert (acc_of(prog, "chisel", 0), acc_of(prog, "chisel", 1)) == expected


def test_uop_indices_wrap_at_the_real_depth():
    prog = program(load_acc(1), alu(isa.ALU_ADD, use_imm=1, imm=1, uop_bgn=2048, uop_end=2049), acc=[4])
    assert acc_of(prog, "chisel") == 5
    with pytest.raises(ExecutionError, match="instruction 2: uop_end: micro-op index 2048"):
        execute(prog, "fsim")
    deep = program(load_acc(1), alu(isa.ALU_ADD, use_imm=1, imm=1, uop_bgn=2048, uop_end=2049), acc=[4], config=FSIM)
    assert acc_of(deep, "fsim") == 5


def test_a_load_past_the_end_wraps_on_the_rtl():
    prog = program(load_acc(2, sram=2047), acc=[8, 9])
    assert acc_of(prog, "chisel", 2047) == 8
    assert acc_of(prog, "chisel", 0) == 9
    with pytest.raises(ExecutionError, match="instruction 1: sram: "):
        execute(prog, "fsim")


# LOAD and STORE.


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
def test_pads_strides_and_rows(mode):
    load = isa.Load(
        mem=isa.MEM_ACC, sram=3, dram=ACC // 64 + 1, y_size=2, x_size=2, x_stride=4,
        y_pad_0=1, y_pad_1=2, x_pad_0=1, x_pad_1=3,
    )  # fmt: skip
    prog = program(load_acc(64), load, acc=range(1, 65))
    acc = execute(prog, mode).sram["ACC"][:, 0, 0]
    assert acc[:3].tolist() == [1, 2, 3]
    rows = [[0] * 6, [0, 2, 3, 0, 0, 0], [0, 6, 7, 0, 0, 0], [0] * 6, [0] * 6]
    assert acc[3:33].reshape(5, 6).tolist() == rows
    assert acc[33] == 34


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
def test_a_transfer_of_no_columns_is_only_tokens(mode):
    prog = program(load_acc(1), isa.Load(mem=isa.MEM_ACC, y_size=5, y_pad_0=3, x_pad_0=2), acc=[7])
    assert acc_of(prog, mode) == 7


def test_a_load_of_no_rows():
    prog = program(load_acc(2), isa.Load(mem=isa.MEM_ACC, dram=ACC // 64, x_size=1, y_pad_1=2), acc=[7, 8])
    with pytest.raises(ExecutionError, match="instruction 2: y_size: the RTL hangs"):
        execute(prog, "chisel")
    assert [acc_of(prog, "fsim", i) for i in (0, 1)] == [0, 0]


@pytest.mark.parametrize("ask", [execute, check_races])
def test_what_has_no_rows_leaves_no_address_space(ask):
    """Portability, races and execution ask at one place: one row is behind the end, no row is."""
    far, outside = (1 << 32) // 64, "instruction 2: dram: reaches address 0x100000040"
    none, one = (program(load_acc(2), isa.Load(mem=isa.MEM_ACC, dram=far, y_size=rows, x_size=1, y_pad_1=2), acc=[7, 8],
                         semantics="fsim") for rows in (0, 1))
    assert "dram-range" not in {d.kind for d in check(none)}
    ask(none, "fsim")
    assert "dram-range" in {d.kind for d in check(one)}
    with pytest.raises(ExecutionError, match=outside):
        ask(one, "fsim")


def test_a_store_of_no_rows_reaches_as_far_as_the_rtl_writes():
    store = isa.Store(dram=(1 << 32) // 16 - 1, y_size=0, x_size=1, x_stride=1, pop_prev=1, push_prev=1)
    prog = program(load_acc(1), STORED[0], store, isa.Load(pop_next=1), acc=[7])
    with pytest.raises(ExecutionError, match="instruction 3: dram: reaches address 0x1000ffff0"):
        execute(prog, "chisel")


def test_a_store_of_no_rows_writes_65536_on_the_rtl():
    store = isa.Store(dram=OUT // 16, y_size=0, x_size=1, x_stride=1, pop_prev=1, push_prev=1)
    prog = program(load_acc(1), STORED[0], store, isa.Load(pop_next=1), acc=[7])
    ran = execute(prog, "chisel")
    assert ran.read(OUT, 16) == b"\x07" * 16
    assert ran.read(OUT + 2048 * 16, 16) == b"\x07" * 16  # the source wraps
    assert ran.read(OUT + 31 * 2048 * 16, 16) == b"\x07" * 16
    assert ran.read(OUT + 65536 * 16, 16) == bytes(16)
    assert execute(prog, "fsim").read(OUT, 16) == bytes(16)


def test_acc_8bit_is_the_functional_simulators_alone():
    load = isa.Load(mem=isa.MEM_ACC_8BIT, dram=ACC // 16, y_size=2, x_size=1, x_stride=2, x_pad_0=1)
    prog = program(load, acc=np.arange(-24, 24, dtype=np.int8).tobytes())
    ran = execute(prog, "fsim")
    assert ran.sram["ACC"][:4, 0].tolist() == [[0] * 16, list(range(-24, -8)), [0] * 16, list(range(8, 24))]
    assert ran.counters["acc_load_nbytes"] == 128
    with pytest.raises(ExecutionError, match=r"instruction 1: mem: .*hangs"):
        execute(prog, "chisel")


def test_a_segment_over_a_page_boundary_is_one_piece():
    data = bytes(range(256)) * 40
    memory = (Segment(0x5FF0, data), Segment(0x6000, b"\xff"))
    prog = Program("pages", DE10, isa.table_of([isa.Finish()]), 0x1000, memory)
    ran = execute(prog)
    assert ran.read(0x5FF0, 16) == data[:16]
    assert ran.read(0x6000, 2) == b"\xff" + data[17:18]
    assert ran.read(0x6001, 9000) == data[17:9017]
    assert ran.read(0, 8) == bytes(8)
    with pytest.raises(ProgramError, match="outside the 32-bit"):
        ran.read(0xFFFF_FFFF, 2)


# GEMM.


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
@pytest.mark.parametrize(
    ("config", "modes"),
    [
        (VTAConfig(), ("chisel", "fsim")),
        (VTAConfig(LOG_BLOCK=5), ("chisel", "fsim")),
        (VTAConfig(LOG_BATCH=1), ("fsim",)),
        (VTAConfig(LOG_BATCH=2, LOG_BLOCK=3), ("fsim",)),
        (VTAConfig(LOG_WGT_WIDTH=1, LOG_WGT_BUFF_SIZE=16), ("chisel", "fsim")),
        (VTAConfig(LOG_INP_WIDTH=4, LOG_WGT_WIDTH=4), ("chisel", "fsim")),
    ],
)
def test_gemm_is_a_matrix_product(config, modes, mode):
    b, n = config.batch, config.block_in
    rng = np.random.default_rng(1)
    limit = {w: 1 << ((1 << w) - 1) for w in (config.LOG_INP_WIDTH, config.LOG_WGT_WIDTH)}
    x = rng.integers(-limit[config.LOG_INP_WIDTH], limit[config.LOG_INP_WIDTH], (b, n))
    w = rng.integers(-limit[config.LOG_WGT_WIDTH], limit[config.LOG_WGT_WIDTH], (n, n))

    def packed(values, log_width):
        if log_width >= 3:
            return values.astype(f"<i{(1 << log_width) // 8}").tobytes()
        lanes = (values.ravel() & ((1 << (1 << log_width)) - 1)).reshape(-1, 8 >> log_width)
        shifts = np.arange(8 >> log_width) << log_width
        return (lanes << shifts).sum(1).astype(np.uint8).tobytes()

    loads = (
        isa.Load(mem=isa.MEM_INP, dram=INP // config.inp_elem_bytes, y_size=1, x_size=1, x_stride=1),
        isa.Load(mem=isa.MEM_WGT, dram=WGT // config.wgt_elem_bytes, y_size=1, x_size=1, x_stride=1, push_next=1),
    )
    gemm = isa.Gemm(uop_end=1, iter_out=1, iter_in=1, pop_prev=1)
    prog = program(
        *loads, gemm, config=config, inp=packed(x, config.LOG_INP_WIDTH), wgt=packed(w, config.LOG_WGT_WIDTH)
    )
    if mode not in modes:
        with pytest.raises(ConfigError, match="LOG_BATCH"):
            execute(prog, mode)
        return
    product = (x @ w.T).astype(np.int64)
    acc = execute(prog, mode).sram["ACC"][0]
    assert acc.tolist() == product.astype(np.int32).tolist()
    low = product & ((1 << (1 << config.LOG_OUT_WIDTH)) - 1)
    if mode == "chisel":
        out = execute(prog, mode).sram["OUT"][0]
        assert (out & ((1 << (1 << config.LOG_OUT_WIDTH)) - 1)).tolist() == low.tolist()


# Refusals.


@pytest.mark.parametrize(
    ("insn", "field"),
    [
        (isa.Store(mem=isa.MEM_ACC, dram=OUT // 16, y_size=1, x_size=1), "mem"),
        (isa.Store(dram=OUT // 16, y_size=1, x_size=1, x_pad_0=1), "x_pad_0"),
        (isa.Store(sram=2047, dram=OUT // 16, y_size=1, x_size=2), "sram"),
        (isa.Load(mem=isa.MEM_INP, push_prev=1), "push_prev"),
        (isa.Store(pop_next=1), "pop_next"),
        (isa.Load(mem=isa.MEM_OUT, dram=1, y_size=1, x_size=1), "mem"),
    ],
)
def test_what_the_functional_simulator_refuses(insn, field):
    with pytest.raises(ExecutionError) as caught:
        execute(program(insn), "fsim")
    assert (caught.value.index, caught.value.field) == (1, field)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    if insn.mem != isa.MEM_OUT or isinstance(insn, isa.Store):
        execute(program(insn), "chisel")


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
def test_addresses_outside_dram(mode):
    top = (1 << 32) // 256
    fits = isa.Load(mem=isa.MEM_WGT, dram=top - 1, y_size=1, x_size=1, x_stride=1)
    execute(program(fits), mode)
    for more in ({"x_size": 2}, {"y_size": 2}, {"dram": top}):
        values = {"mem": isa.MEM_WGT, "dram": top - 1, "y_size": 1, "x_size": 1, "x_stride": 1} | more
        with pytest.raises(ExecutionError, match=r"instruction 1: dram: .*outside the 32-bit DRAM"):
            execute(program(isa.Load(**values)), mode)


def test_gigantic_counts_are_refused_at_once():
    huge = isa.Gemm(uop_end=8191, iter_out=16383, iter_in=16383)
    with pytest.raises(LimitError, match=r"instruction 1: iter_out \* iter_in \* uops"):
        execute(program(huge))
    # Under the RTL's rules a store of no rows has as many as a counter counts.
    for wide in (isa.Load(mem=isa.MEM_INP, y_size=65535, x_size=65535), isa.Store(y_size=65535, x_size=65535),
                 isa.Store(y_size=0, x_size=65535)):
        with pytest.raises(LimitError, match=r"instruction 1: x_size \* y_size"):
            execute(program(wide))
    spread = [isa.Store(dram=k << 8, y_size=65535, x_size=1, x_stride=4095) for k in range(8)]
    with pytest.raises(LimitError, match="x_stride = 4095"):
        execute(program(*spread))


def test_a_value_outside_its_field_is_refused():
    prog = program(load_acc(1))
    prog.table[1, isa.SRAM] = -1
    with pytest.raises(FieldError, match="instruction 1: sram = -1"):
        execute(prog)


def test_of_two_tokens_only_the_one_that_lacks_is_waited_for():
    prog = program(isa.Load(mem=isa.MEM_INP, push_next=1), isa.Gemm(pop_prev=1, pop_next=1, uop_end=1, iter_out=1, iter_in=1))
    with pytest.raises(DeadlockError) as caught:
        execute(prog)
    (waiter,) = caught.value.waiters
    assert (waiter.unit, waiter.index) == ("COMPUTE", 2) and "STORE" in str(waiter) and "LOAD" not in str(waiter)


def test_deadlock_is_reported_with_instruction_token_and_time():
    prog = program(isa.Store(pop_prev=1, push_prev=1), isa.Gemm(pop_next=1, uop_end=1, iter_out=1, iter_in=1))
    with pytest.raises(DeadlockError) as caught:
        execute(prog)
    assert [(w.unit, w.index) for w in caught.value.waiters] == [("COMPUTE", 2), ("STORE", 1)]
    assert "token from COMPUTE (pop_prev)" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(DeadlockError, match=r"STORE at instruction 1 waits for .* since cycle \d+"):
        run(prog)


def test_a_queue_too_short_for_the_look_ahead():
    """LOAD waits for a token whose producer lies behind more loads than the queue holds."""
    insns = [isa.Load(mem=isa.MEM_INP, pop_next=1), *[isa.Load(mem=isa.MEM_INP)] * 512, isa.Gemm(
        push_prev=1, uop_end=1, iter_out=1, iter_in=1)]  # fmt: skip
    with pytest.raises(DeadlockError, match=r"room in the LOAD queue \(512 entries\)"):
        execute(program(*insns), "chisel")
    execute(program(*insns), "fsim")
    execute(program(insns[0], *insns[2:]), "chisel")


def test_no_finish():
    prog = Program("none", DE10, isa.table_of([isa.Load()]), 0x1000)
    with pytest.raises(DeadlockError, match="a FINISH, which the program does not have"):
        execute(prog)


def test_unknown_mode():
    with pytest.raises(ProgramError, match="'hls' is none of chisel, fsim"):
        execute(program(), "hls")


def test_memory_can_be_laid_over():
    prog = program(load_acc(1), *STORED, acc=[3], outputs=(Output("y", OUT, 16),))
    assert run(prog).outputs["y"] == b"\x03" * 16
    assert run(prog, memory={ACC: acc_bytes([4])}).outputs["y"] == b"\x04" * 16
    assert run(prog, memory=(Segment(ACC, acc_bytes([5])),)).outputs["y"] == b"\x05" * 16


def test_counters_count_bytes_without_pads():
    loads = (
        isa.Load(mem=isa.MEM_INP, dram=INP // 16, y_size=2, x_size=3, x_stride=3, x_pad_0=1, y_pad_1=4),
        isa.Load(mem=isa.MEM_WGT, dram=WGT // 256, y_size=1, x_size=2, x_stride=2, push_next=1),
    )
    loop = {"uop_end": 1, "iter_out": 2, "iter_in": 3}
    prog = program(*loads, isa.Gemm(**loop, pop_prev=1), isa.Gemm(**loop, reset=1), alu(isa.ALU_MAX), *STORED)
    for mode in ("chisel", "fsim"):
        assert execute(prog, mode).counters == {
            "inp_load_nbytes": 96, "wgt_load_nbytes": 512, "acc_load_nbytes": 0, "uop_load_nbytes": 4,
            "out_store_nbytes": 16, "gemm_counter": 6, "alu_counter": 2,
        }  # fmt: skip


def test_diagnostics_are_those_of_the_implementation_that_ran():
    prog = program(load_acc(2), alu(isa.ALU_ADD, use_imm=1, imm=7), uops=((0, 1, 0),), acc=[0, 100])
    assert [(d.index, d.kind) for d in execute(prog, "fsim").diagnostics] == [(2, "imm-source")]
    assert execute(prog, "chisel").diagnostics == []
