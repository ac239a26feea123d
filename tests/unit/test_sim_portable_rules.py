"""Every rule of the portability check, with the twin that passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim import isa
from sim.config import VTAConfig
from sim.errors import FieldError, LimitError, ProgramError
from sim.machine import run
from sim.portable import PROGRAM, check, summary
from sim.presets import TARGETS
from sim.program import Program, Segment

DE10 = TARGETS["vta-de10"].config
UOPS, INP, WGT, ACC, OUT = 0x10000, 0x20000, 0x40000, 0x80000, 0xC0000
LOOP = {"uop_end": 1, "iter_out": 1, "iter_in": 4, "dst_in": 1, "src_in": 1}
RELU = isa.Alu(alu_op=isa.ALU_MAX, use_imm=1, imm=0, push_next=1, **LOOP)
STORE = isa.Store(dram=OUT // 16, y_size=1, x_size=4, x_stride=4, pop_prev=1, push_prev=1)


def base() -> list[isa.Insn]:
    """A program that is the same everywhere: load all, GEMM, ReLU, store, finish."""
    return [
        isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=4, x_stride=4),
        isa.Load(mem=isa.MEM_ACC, dram=ACC // 64, y_size=1, x_size=16, x_stride=16),
        isa.Load(mem=isa.MEM_INP, dram=INP // 16, y_size=2, x_size=8, x_stride=8, x_pad_0=1, y_pad_1=1),
        isa.Load(mem=isa.MEM_WGT, dram=WGT // 256, y_size=1, x_size=4, x_stride=4, push_next=1),
        isa.Gemm(**LOOP, wgt_in=1, pop_prev=1),
        RELU,
        STORE,
        isa.Load(mem=isa.MEM_UOP, pop_next=1),
        isa.Finish(),
    ]


def program(insns, uops=((0, 0, 0), (1, 5, 0), (0, 0, 1), (2, 2, 0)), config=DE10, acc=b"\x03\0\0\0" * 256):
    memory = (Segment(UOPS, isa.encode_uops(uops, config).tobytes()), Segment(ACC, acc))
    return Program("rules", config, isa.table_of(insns), 0x1000, memory)


def changed(index, **fields):
    insns = base()
    insns[index] = replace(insns[index], **fields)
    return program(insns)


def inserted(index, *more):
    insns = base()
    insns[index:index] = more
    return program(insns)


def test_the_base_passes():
    assert check(program(base())) == []
    result = run(program(base()), "portable", check=True)
    assert (result.diagnostics, result.races) == ((), ())


CASES = [
    # kind, program, index, field, who
    ("y-size-0", changed(2, y_size=0), 2, "y_size", ("chisel", "hls")),
    ("y-size-0", changed(6, y_size=0), 6, "y_size", ("chisel",)),
    ("wgt-pad", changed(3, x_pad_1=1), 3, "x_pad_1", ("hls",)),
    ("uop-2d", changed(0, y_size=2), 0, "y_size", ("hls",)),
    ("uop-2d", changed(0, y_pad_0=1), 0, "y_pad_0", ("hls",)),
    ("empty-pad", inserted(2, isa.Load(mem=isa.MEM_INP, y_size=1, x_pad_0=1)), 2, "x_size", ("hls",)),
    ("store-mem", changed(6, mem=isa.MEM_ACC), 6, "mem", ("fsim",)),
    ("store-pad", changed(6, y_pad_0=1), 6, "y_pad_0", ("fsim",)),
    ("acc-8bit", changed(1, mem=isa.MEM_ACC_8BIT), 1, "mem", ("chisel", "hls")),
    ("load-out", changed(1, mem=isa.MEM_OUT), 1, "mem", ("chisel", "hls", "fsim")),
    ("sram-wrap", changed(2, sram=2040), 2, "sram", ("chisel", "hls", "fsim")),
    ("dram-range", changed(3, dram=(1 << 24) - 2), 3, "dram", ("chisel", "hls", "fsim")),
    ("page-0", changed(3, dram=3), 3, "dram", ("chisel", "fsim")),
    ("self-modifying", changed(6, dram=0x1010 // 16), 6, "dram", ("chisel", "hls", "fsim")),
    ("zero-trips", changed(5, iter_out=0), 5, "iter_out", ("chisel",)),
    ("zero-trips", changed(5, iter_in=0), 5, "iter_in", ("chisel",)),
    ("zero-trips", changed(5, uop_end=0), 5, "uop_end", ("chisel",)),
    ("zero-trips", changed(5, uop_bgn=2), 5, "uop_end", ("chisel",)),
    ("mul", changed(5, alu_op=isa.ALU_MUL), 5, "alu_op", ("chisel", "hls")),
    ("shift-range", changed(5, alu_op=isa.ALU_SHR, imm=16), 5, "imm", ("hls",)),
    ("shift-range", changed(5, alu_op=isa.ALU_SHR, imm=-17), 5, "imm", ("hls",)),
    ("shift-range", changed(5, alu_op=isa.ALU_SHR, imm=32), 5, "imm", ("chisel", "hls", "fsim")),
    ("shift-direction", changed(5, alu_op=isa.ALU_SHR, use_imm=0, imm=-1), 5, "imm", ("chisel",)),
    ("imm-source", changed(5, src_in=2), 5, "src", ("hls", "fsim")),
    ("imm-source", changed(5, uop_bgn=1, uop_end=2), 5, "src", ("hls", "fsim")),
    ("uninitialised", changed(5, src_in=300), 5, "src", ("chisel",)),
    ("uninitialised", changed(5, dst_in=300), 5, "dst", ("hls", "fsim")),
    ("index-wrap", changed(4, dst_in=1023), 4, "dst", ("chisel", "hls", "fsim")),
    ("index-wrap", changed(4, src_in=1024), 4, "src", ("chisel", "hls", "fsim")),
    ("index-wrap", changed(4, wgt_in=512), 4, "wgt", ("chisel", "hls", "fsim")),
    ("index-wrap", changed(4, uop_bgn=2048, uop_end=2049), 4, "uop_end", ("chisel", "hls", "fsim")),
    ("uninitialised", changed(4, src_in=20), 4, "src", ("chisel", "hls", "fsim")),
    ("uninitialised", changed(4, wgt_in=2), 4, "wgt", ("chisel", "hls", "fsim")),
    ("uninitialised", changed(4, dst_in=8), 4, "dst", ("chisel", "hls", "fsim")),
    ("uninitialised", changed(4, uop_bgn=4, uop_end=5), 4, "uop_bgn", ("chisel", "hls", "fsim")),
    ("alu-hazard", changed(5, dst_in=0, src_in=0), 5, "dst", ("chisel", "hls")),
    ("uop-distance", changed(4, dst_in=0), 4, "dst", ("hls",)),
    ("flag", changed(2, pop_prev=1), 2, "pop_prev", ("fsim",)),
    ("flag", changed(6, push_next=1), 6, "push_next", ("fsim",)),
    ("token-leak", changed(2, push_next=1), 3, "push_next", ("chisel", "hls", "fsim")),
    ("finish-early", changed(7, pop_next=0), 8, "pop_next", ("chisel", "hls", "fsim")),
    ("finish-early", inserted(8, isa.Load(mem=isa.MEM_INP)), 9, "pop_prev", ("chisel", "hls", "fsim")),
    ("after-finish", program([*base(), isa.Load()]), 9, "opcode", ("chisel", "hls", "fsim")),
    ("deadlock", changed(4, pop_next=1), 4, "pop", ("chisel", "hls", "fsim")),
    ("race", changed(4, pop_prev=0), 4, "pop_prev", ("chisel", "hls", "fsim")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "prog", "index", "field", "who"), CASES)
def test_each_rule_names_instruction_and_field(kind, prog, index, field, who):
    found = [d for d in check(prog) if d.kind == kind]
    assert (index, field, who) in {(d.index, d.field, d.who) for d in found}
    for name in ("chisel", "hls", "fsim"):
        assert bool([d for d in check(prog, among=(name,)) if d.kind == kind]) == (name in who)


@pytest.mark.parametrize(
    ("imm", "who"),
    [
        (-32, {"chisel", "hls", "fsim"}), (-31, {"hls"}), (-17, {"hls"}), (-16, set()), (-15, set()), (0, set()), (15, set()),
        (16, {"hls"}), (31, {"hls"}), (32, {"chisel", "hls", "fsim"}),
    ],
)  # fmt: skip
def test_shift_counts_at_their_ends(imm, who):
    found = [d for d in check(changed(5, alu_op=isa.ALU_SHR, imm=imm)) if d.kind == "shift-range"]
    assert set().union(*[d.who for d in found]) == who


def test_reset_between_gemm_and_store_only_matters_if_nothing_follows():
    reset = isa.Gemm(reset=1, **LOOP)
    assert check(inserted(5, reset)) == []  # the ReLU behind it writes OUT
    late = base()
    late[5:6] = [replace(RELU, push_next=0), replace(reset, push_next=1)]
    (found,) = check(program(late))
    assert (found.index, found.field, found.kind) == (7, "sram", "stale-out")
    assert "OUT[0] is older than ACC[0]" in str(found)


def test_a_store_of_what_nothing_wrote():
    found = check(changed(6, sram=100))
    assert [(d.index, d.kind) for d in found] == [(6, "stale-out")]
    assert "nothing has written it" in found[0].reason


@pytest.mark.parametrize(
    ("amounts", "kinds"),
    [
        ([1, 0, 15], []),
        ([1, 16], [("shift-range", ("hls",))]),
        ([1, -1], [("shift-direction", ("chisel",))]),
        ([1, -16], [("shift-direction", ("chisel",))]),
        ([1, -17], [("shift-direction", ("chisel",)), ("shift-range", ("hls",))]),
        ([40], [("shift-range", ("chisel", "hls", "fsim"))]),
    ],
)
def test_amounts_of_a_tensor_shift_are_those_of_the_programs_memory(amounts, kinds):
    values = np.zeros((16, 16), dtype="<i4")
    values[8 : 8 + len(amounts), 0] = amounts
    insns = base()
    shift = isa.Alu(alu_op=isa.ALU_SHR, push_next=1, **LOOP)
    insns[5:6] = [replace(RELU, push_next=0), replace(shift, uop_bgn=3, uop_end=4)]
    prog = program(insns, uops=((0, 0, 0), (1, 5, 0), (0, 0, 1), (0, 8, 0)), acc=values.tobytes())
    assert [(d.kind, d.who) for d in check(prog) if d.index == 6] == kinds


@pytest.mark.parametrize(("distance", "hls"), [(1, True), (2, True), (3, False)])
def test_hazards_across_loop_wraps(distance, hls):
    """As many micro-ops as ``distance``; only the inner loop comes back to the same elements."""
    uops = ((0, 0, 0), (1, 1, 0), (2, 2, 0), (0, 0, 0))
    insns = base()
    insns[5] = replace(RELU, uop_end=distance, iter_in=2, dst_in=0, src_in=0)
    kinds = {d.kind for d in check(program(insns, uops=uops)) if d.index == 5}
    assert ("alu-hazard" in kinds) == (distance == 1)
    assert ("uop-distance" in kinds) == hls


def test_a_tensor_hazard_is_the_source_one_step_before():
    """II = 2: the destination written one micro-op before is seen, the source is not."""
    insns = base()
    insns[5] = replace(RELU, alu_op=isa.ALU_ADD, use_imm=0, dst_in=0, src_in=1)
    assert not any(d.kind == "alu-hazard" for d in check(program(insns, uops=((0, 4, 0),) * 4)))
    insns[5] = replace(RELU, alu_op=isa.ALU_ADD, use_imm=0, dst_in=1, src_in=1)
    assert any(d.kind == "alu-hazard" for d in check(program(insns, uops=((1, 0, 0),) * 4)))


def test_token_overflow():
    def pushing(count):
        insns = base()
        insns[2:2] = [isa.Load(mem=isa.MEM_INP, push_next=1)] * count
        insns[-2:-2] = [isa.Load(mem=isa.MEM_UOP, pop_prev=1)] * count
        return program(insns)

    # The base program's own token makes one more.
    assert "token-overflow" not in summary(check(pushing(254)))
    (found,) = [d for d in check(pushing(255)) if d.kind == "token-overflow"]
    assert (found.field, found.who) == ("push_next", ("chisel",))
    assert "256 tokens wait on LOAD->COMPUTE" in found.reason


def test_queue_look_ahead():
    def waiting(loads):
        insns = base()
        insns[2] = replace(insns[2], pop_next=1)
        insns[4:4] = [isa.Load(mem=isa.MEM_INP)] * loads
        insns[4 + loads : 4 + loads] = [isa.Load(mem=isa.MEM_UOP, push_prev=1)]
        insns[-1:-1] = [isa.Load(mem=isa.MEM_INP, push_next=1), isa.Load(mem=isa.MEM_UOP, pop_prev=1)]
        return program(insns)

    assert check(waiting(510)) == []
    found = check(waiting(511))
    assert {d.kind for d in found} == {"look-ahead"}
    assert {d.who for d in found} == {("chisel", "hls")}
    assert "room in the LOAD queue (512 entries)" in found[-1].reason


def test_machines_on_which_they_disagree_altogether():
    assert [d.index for d in check(program(base(), config=VTAConfig(LOG_BATCH=1))) if d.kind == "batch"] == [PROGRAM]
    kinds = {d.kind for d in check(program(base(), config=VTAConfig(LOG_UOP_BUFF_SIZE=14)))}
    assert kinds == {"field-widths"}
    kinds = {d.kind for d in check(program(base(), config=VTAConfig(LOG_INP_BUFF_SIZE=14)))}
    assert kinds == {"field-widths", "uop-source-width"}
    assert check(program(base(), config=VTAConfig(queue_depth=8, burst_beats=256))) == []


@pytest.mark.parametrize(("semantics", "deviates"), [("chisel", ("hls", "fsim")), ("fsim", ("chisel",))])
def test_field_positions_concern_those_that_read_others(semantics, deviates):
    """Encoded by the RTL's rule, a machine of other sizes is strange to the C++ side only, and the reverse."""
    config = VTAConfig(LOG_UOP_BUFF_SIZE=14)
    uops = isa.encode_uops([(0, 0, 0), (1, 5, 0), (0, 0, 1), (2, 2, 0)], config, semantics)
    there = replace(program(base(), config=config), semantics=semantics)
    there = there.with_memory({UOPS: uops.astype("<u4").tobytes()})
    (found,) = check(there)
    assert (found.kind, found.index, found.who) == ("field-widths", PROGRAM, deviates)
    assert check(there, among=[semantics]) == []
    assert run(there, semantics, check=True).diagnostics == ()


def test_the_destination_of_a_copy_is_read_by_the_cpp_side_alone():
    """The RTL's immediate operation reads its source index, so ``acc = src >> imm`` needs nothing in the destination."""
    copy = isa.Alu(alu_op=isa.ALU_SHR, use_imm=1, imm=-8, uop_bgn=1, uop_end=2, iter_out=1, iter_in=1)
    for uop, who in (((100, 3, 0), {"hls", "fsim"}), ((3, 100, 0), {"chisel"}), ((100, 100, 0), {"chisel", "hls", "fsim"})):
        one = program([*base()[:5], copy, *base()[5:]], uops=((0, 0, 0), uop, (0, 0, 1), (2, 2, 0)))
        void = [d for d in check(one) if d.kind == "uninitialised"]
        assert [(d.index, set(d.who)) for d in void] == [(5, who)]
        assert "ACC[100] was never loaded" in void[0].reason
        assert bool([d for d in run(one, check=True).diagnostics if d.kind == "uninitialised"]) == ("chisel" in who)


def test_a_race_concerns_those_whose_store_reads_that_memory():
    insns = base()
    insns[7:7] = [isa.Load(mem=isa.MEM_ACC, dram=ACC // 64, y_size=1, x_size=4, x_stride=4)]
    (found,) = check(program(insns))
    assert (found.index, found.kind, found.who) == (7, "race", ("fsim",))
    assert check(program(insns), among=("chisel", "hls")) == []


def test_empty_loops_that_would_run_for_ever_are_findings_and_no_limit():
    found = check(changed(4, iter_out=0, iter_in=0, uop_end=0))
    assert {d.field for d in found if d.index == 4} == {"iter_out", "iter_in", "uop_end"}
    with pytest.raises(LimitError):
        run(changed(4, iter_out=0, iter_in=0, uop_end=0))


def test_refusals():
    with pytest.raises(ProgramError, match="'verilator' is none of"):
        check(program(base()), among=("verilator",))
    with pytest.raises(LimitError, match="instruction 4: "):
        check(changed(4, iter_out=16383, iter_in=16383, uop_end=4))
    bad = program(base())
    bad.table[2, isa.SRAM] = 1 << 20
    with pytest.raises(FieldError, match="instruction 2: sram"):
        check(bad)
