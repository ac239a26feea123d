"""Field positions by semantics: constants under the RTL's rule, depths under that of C++.

The bits of the RTL stand here once more, as they were measured on the RTL of a 32x32 machine, one bit set at a time.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import isa
from sim.config import SEMANTICS, VTAConfig, mode_of
from sim.encoding import agree, check_encoding, encoding_of, usable
from sim.errors import ConfigError, FieldError
from sim.presets import TARGETS, TargetSpec

DE10 = VTAConfig()
B32 = VTAConfig(
    LOG_BLOCK=5, LOG_UOP_BUFF_SIZE=9, LOG_INP_BUFF_SIZE=12, LOG_WGT_BUFF_SIZE=16, LOG_ACC_BUFF_SIZE=14, uop_depth=128,
    queue_depth=32,
)  # fmt: skip
INP14 = VTAConfig(LOG_INP_BUFF_SIZE=14)

# (field, lowest bit, highest bit)
LOOPS = [
    ("opcode", 0, 2), ("pop_prev", 3, 3), ("pop_next", 4, 4), ("push_prev", 5, 5), ("push_next", 6, 6), ("reset", 7, 7),
    ("uop_bgn", 8, 20), ("uop_end", 21, 34), ("iter_out", 35, 48), ("iter_in", 49, 62), ("dst_out", 64, 74),
    ("dst_in", 75, 85), ("src_out", 86, 96), ("src_in", 97, 107),
]  # fmt: skip
RTL = {
    isa.OP_LOAD: [
        *LOOPS[:5], ("mem", 7, 9), ("sram", 10, 25), ("dram", 26, 57), ("y_size", 64, 79), ("x_size", 80, 95),
        ("x_stride", 96, 111), ("y_pad_0", 112, 115), ("y_pad_1", 116, 119), ("x_pad_0", 120, 123), ("x_pad_1", 124, 127),
    ],
    isa.OP_GEMM: [*LOOPS, ("wgt_out", 108, 117), ("wgt_in", 118, 127)],
    isa.OP_ALU: [*LOOPS, ("alu_op", 108, 110), ("use_imm", 111, 111), ("imm", 112, 127)],
    isa.OP_FINISH: LOOPS[:5],
}  # fmt: skip
RTL[isa.OP_STORE] = RTL[isa.OP_LOAD]
SIZES = {"uop": "LOG_UOP_BUFF_SIZE", "inp": "LOG_INP_BUFF_SIZE", "wgt": "LOG_WGT_BUFF_SIZE", "acc": "LOG_ACC_BUFF_SIZE"}


@pytest.mark.parametrize("config", [DE10, B32, INP14, VTAConfig(LOG_BLOCK=3), VTAConfig(LOG_ACC_BUFF_SIZE=19)])
@pytest.mark.parametrize("opcode", RTL)
def test_the_rtl_reads_the_same_bits_whatever_the_sizes(config: VTAConfig, opcode: int) -> None:
    layout = isa.layout_of(opcode, config, "chisel")
    assert [(name, low, low + width - 1) for name, low, width in layout] == RTL[opcode]
    for name, low, high in RTL[opcode][1:]:
        row = isa.as_table([[opcode if c == isa.OPCODE else 0 for c in range(isa.NCOLS)]])
        row[0, isa.COLUMN_OF[name]] = -(1 << (high - low)) if name == "imm" else 1 << (high - low)
        if name in ("mem", "alu_op"):
            row[0, isa.COLUMN_OF[name]] = high = low + 2  # 4: the only bit that is a code of its own
            row[0, isa.COLUMN_OF[name]] = 4
        (pair,) = isa.encode(row, config, "chisel")
        assert int(pair[0]) | int(pair[1]) << 64 == opcode | 1 << high


def test_micro_ops_of_the_rtl_have_11_11_and_10_bits_whatever_the_sizes() -> None:
    for config in (DE10, B32, INP14):
        assert isa.encode_uops([[2047, 0, 0], [0, 2047, 0], [0, 0, 1023]], config).tolist() == [0x7FF, 0x3FF800, 0xFFC00000]
        for too_far in ([2048, 0, 0], [0, 2048, 0], [0, 0, 1024]):
            with pytest.raises(FieldError):
                isa.encode_uops([too_far], config)
    assert isa.encode_uops([[127, 127, 63]], B32, "fsim").tolist() == [(1 << 20) - 1]
    with pytest.raises(FieldError, match="7 bits"):
        isa.encode_uops([[128, 0, 0]], B32, "fsim")


def test_a_field_of_cpp_never_crosses_bit_64() -> None:
    assert {n: low for n, low, _ in encoding_of(DE10, "fsim").gemm}["dst_out"] == 64
    # With 2^8 micro-ops the first word has room for an accumulator factor, and everything after it moves.
    small = VTAConfig(LOG_UOP_BUFF_SIZE=10, uop_depth=None)
    layout = {name: (low, width) for name, low, width in encoding_of(small, "fsim").gemm}
    assert (layout["uop_bgn"], layout["uop_end"]) == ((8, 8), (16, 9))
    assert (layout["dst_out"], layout["dst_in"]) == ((53, 11), (64, 11))
    insn = isa.Gemm(uop_end=3, iter_out=5, iter_in=7, dst_out=1, dst_in=2, src_out=3, src_in=4, wgt_out=5, wgt_in=6)
    (word,) = isa.encode(isa.table_of([insn]), small, "fsim")
    value = int(word[0]) | int(word[1]) << 64
    for name, low, width in encoding_of(small, "fsim").gemm:
        assert value >> low & ((1 << width) - 1) == getattr(insn, name)
    for config in (DE10, small, B32, VTAConfig(LOG_BLOCK=5), VTAConfig(LOG_BATCH=2, LOG_BLOCK=5)):
        found = encoding_of(config, "fsim")
        for layout_ in (found.mem, found.gemm, found.alu):
            spans = [(low, low + width) for _, low, width in layout_]
            assert all(low // 64 == (high - 1) // 64 for low, high in spans)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)) and spans[-1][1] <= 128


@settings(max_examples=200)
@given(step=st.integers(-2, 2), which=st.sampled_from(sorted(SIZES)))
def test_the_two_rules_agree_at_the_default_sizes_alone(step: int, which: str) -> None:
    config = replace(DE10, **{SIZES[which]: getattr(DE10, SIZES[which]) + step}, uop_depth=None)
    same = step == 0
    assert agree(config) == same
    assert all(
        isa.layout_of(op, config, "chisel") == isa.layout_of(op, config, "fsim") for op in range(5)
    ) or not same  # fmt: skip
    if same:
        TargetSpec("x", config, "portable", "", "")
    else:
        with pytest.raises(ConfigError, match="no program of this machine is portable"):
            TargetSpec("x", config, "portable", "", "")


def test_presets_are_machines_of_their_semantics() -> None:
    for spec in TARGETS.values():
        check_encoding(spec.config, spec.semantics)
        assert agree(spec.config)
    assert [mode_of(s) for s in SEMANTICS] == ["chisel", "fsim", "chisel"]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"LOG_BLOCK": 3}, "LOG_ACC_BUFF_SIZE"), ({"LOG_UOP_BUFF_SIZE": 16, "uop_depth": None}, "LOG_UOP_BUFF_SIZE")],
)
def test_fields_that_are_too_wide_for_cpp_are_no_matter_to_the_rtl(change: dict[str, int | None], field: str) -> None:
    config = replace(DE10, **change)
    TargetSpec("x", config, "chisel", "", "")
    with pytest.raises(ConfigError) as caught:
        TargetSpec("x", config, "fsim", "", "")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("change", "memory", "reach", "whole"),
    [
        ({"LOG_ACC_BUFF_SIZE": 18}, "acc", 2048, 4096), ({"LOG_INP_BUFF_SIZE": 16}, "inp", 2048, 4096),
        ({"LOG_WGT_BUFF_SIZE": 19}, "wgt", 1024, 2048), ({"LOG_UOP_BUFF_SIZE": 16, "uop_depth": None}, "uop", 8192, 16384),
        ({"LOG_ACC_BUFF_SIZE": 16}, "acc", 1024, 1024), ({"LOG_INP_BUFF_SIZE": 14}, "inp", 1024, 1024),
        ({"LOG_UOP_BUFF_SIZE": 15, "uop_depth": None}, "uop", 8192, 8192), ({"uop_depth": 1024}, "uop", 1024, 1024),
    ],
)  # fmt: skip
def test_a_program_can_use_what_fields_can_name(change: dict[str, int | None], memory: str, reach: int, whole: int) -> None:
    config = replace(DE10, **change)
    depth = {"uop": config.uop_capacity, "inp": config.inp_depth, "wgt": config.wgt_depth, "acc": config.acc_depth}
    assert (getattr(usable(config, "chisel"), memory), depth[memory]) == (reach, whole)
    for other in {"uop", "inp", "wgt", "acc"} - {memory}:
        assert getattr(usable(config, "chisel"), other) == depth[other] == getattr(usable(config, "fsim"), other)
    # C++ has fields for all of it, or refuses the machine.
    assert getattr(usable(config, "fsim"), memory) == whole


def test_a_load_begins_within_16_bits() -> None:
    deep = VTAConfig(LOG_BLOCK=0, LOG_INP_BUFF_SIZE=17, LOG_WGT_BUFF_SIZE=7, LOG_ACC_BUFF_SIZE=9)
    check_encoding(deep, "fsim")
    assert (deep.inp_depth, usable(deep, "fsim").inp, usable(deep, "chisel").inp) == (1 << 17, 1 << 16, 2048)


@pytest.mark.parametrize("semantics", ["chisel", "fsim"])
@pytest.mark.parametrize("config", [VTAConfig(), VTAConfig(LOG_INP_BUFF_SIZE=13), VTAConfig(LOG_ACC_BUFF_SIZE=15)])
def test_the_ends_of_every_field_come_back(config: VTAConfig, semantics: str) -> None:
    """Also where operands of the GEMM and of the ALU have fields of other widths."""
    for table in isa.bounds(config, semantics):
        table = table.copy()
        table[:, isa.OPCODE] = range(len(table))
        assert isa.decode(isa.encode(table, config, semantics), config, semantics).tolist() == table.tolist()


@pytest.mark.parametrize(("log", "fits"), [(18, True), (19, False)])
def test_a_micro_op_has_32_bits(log: int, fits: bool) -> None:
    config = VTAConfig(LOG_WGT_BUFF_SIZE=log)
    assert sum(encoding_of(config, "fsim").uop) == (32 if fits else 33)
    if fits:
        check_encoding(config, "fsim")
    else:
        with pytest.raises(ConfigError, match="more than 32"):
            check_encoding(config, "fsim")
