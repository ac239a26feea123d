"""Encoding: published words, the packing rule, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sim import isa
from sim.config import VTAConfig
from sim.errors import DecodeError, FieldError

DE10 = VTAConfig()
ONCE = {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 16, "dst_in": 1, "src_in": 1}

# Words of the default configuration: (instruction, high 64 bits, low 64 bits).
VECTORS: list[tuple[isa.Insn, str, str]] = [
    (isa.Finish(), "0000000000000000", "0000000000000003"),
    (isa.Load(mem=isa.MEM_UOP, dram=0x8000, y_size=1, x_size=4, x_stride=4), "0000000400040001", "0000020000000000"),
    (
        isa.Load(
            mem=isa.MEM_INP, sram=5, dram=0x8003, y_size=14, x_size=14, x_stride=32,
            y_pad_0=1, y_pad_1=1, x_pad_0=1, x_pad_1=1, pop_next=1, push_next=1,
        ),
        "11110020000e000e",
        "000002000c001550",
    ),
    (
        isa.Load(mem=isa.MEM_WGT, sram=2, dram=0x801, y_size=1, x_size=16, x_stride=16, push_next=1),
        "0000001000100001",
        "00000020040008c0",
    ),
    (
        isa.Gemm(
            uop_end=3, iter_out=5, iter_in=7, dst_out=1, dst_in=2, src_out=3, src_in=4, wgt_out=5, wgt_in=6,
            pop_prev=1, push_prev=1,
        ),
        "0180500800c01001",
        "000e00280060002a",
    ),
    (
        isa.Gemm(reset=1, uop_bgn=1, uop_end=2, iter_out=1, iter_in=16, dst_in=1, pop_next=1),
        "0000000000000800",
        "0020000800400192",
    ),
    (isa.Alu(**ONCE, alu_op=isa.ALU_SHR, use_imm=1, imm=8), "0008b00200000800", "0020000800200004"),
    (isa.Alu(**ONCE, alu_op=isa.ALU_MAX, use_imm=1, imm=-128, push_next=1), "ff80900200000800", "0020000800200044"),
    (
        isa.Alu(
            alu_op=isa.ALU_ADD, uop_bgn=2, uop_end=4, iter_out=3, iter_in=5, dst_out=9, dst_in=1, src_out=8, src_in=2
        ),
        "0000200402000809",
        "000a001800800204",
    ),
    (
        isa.Store(dram=0x10000, y_size=2, x_size=8, x_stride=16, pop_prev=1, push_prev=1),
        "0000001000080002",
        "0000040000000229",
    ),
    (isa.Load(mem=isa.MEM_UOP, pop_prev=1, pop_next=1), "0000000000000000", "0000000000000018"),
    (isa.Load(mem=isa.MEM_INP, push_next=1), "0000000000000000", "0000000000000140"),
    (isa.Store(mem=isa.MEM_UOP, push_prev=1), "0000000000000000", "0000000000000021"),
    (isa.Store(push_prev=1), "0000000000000000", "0000000000000221"),
]


def test_published_words() -> None:
    table = isa.table_of([insn for insn, _, _ in VECTORS])
    lines = [high + low for _, high, low in VECTORS]
    assert isa.to_hex(isa.encode(table, DE10)) == lines
    assert (isa.decode(isa.from_hex(lines), DE10) == table).all()
    assert isa.insns_of(table) == [insn for insn, _, _ in VECTORS]
    assert isa.encode_uops([[3, 5, 7]], DE10).tolist() == [0x01C02803]
    assert isa.decode_uops([0x01C02803], DE10).tolist() == [[3, 5, 7]]


def test_bits_that_no_field_covers_are_ignored() -> None:
    words = isa.from_hex(["0000000000000000fc00000000000000", "00000000000000008000000000000002"])
    table = isa.decode(words, DE10)
    assert (table[0] == isa.Load().row()).all() and (table[1] == isa.Gemm().row()).all()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (isa.X_SIZE, 1 << 16), (isa.Y_PAD_0, 16), (isa.DRAM, 1 << 32), (isa.SRAM, -1), (isa.MEM, 6), (isa.POP_PREV, 2),
        (isa.IMM, 1), (isa.UOP_END, 1), (isa.OPCODE, 5), (isa.OPCODE, -1),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(column: int, value: int) -> None:
    table = isa.table_of([isa.Finish(), isa.Load(x_size=0xFFFF, y_pad_0=15, dram=0xFFFFFFFF), isa.Finish()])
    isa.encode(table, DE10)
    table[1, column] = value
    with pytest.raises(FieldError) as caught:
        isa.encode(table, DE10)
    assert (caught.value.index, caught.value.field, caught.value.value) == (1, isa.COLUMN_NAMES[column], value)


@pytest.mark.parametrize(
    ("field", "most"),
    [("uop_bgn", 8191), ("uop_end", 16383), ("iter_in", 16383), ("dst_out", 2047), ("wgt_in", 1023)],
)
def test_loop_fields_end_where_the_layout_says(field: str, most: int) -> None:
    isa.encode(isa.table_of([isa.Gemm(**{field: most})]), DE10)
    with pytest.raises(FieldError, match=field):
        isa.encode(isa.table_of([isa.Gemm(**{field: most + 1})]), DE10)


def test_immediates_are_signed() -> None:
    for value in (-32768, -1, 0, 32767):
        words = isa.encode(isa.table_of([isa.Alu(imm=value)]), DE10)
        assert isa.decode(words, DE10)[0, isa.IMM] == value
    for value in (-32769, 32768):
        with pytest.raises(FieldError):
            isa.encode(isa.table_of([isa.Alu(imm=value)]), DE10)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("0" * 31 + "5", "opcode 5 does not exist (0..4)"),
        ("0" * 31 + "7", "opcode 7 does not exist (0..4)"),
        ("0" * 29 + "300", "memory type 6 does not exist (0..5)"),
        ("0000700000000000" + "0" * 15 + "4", "ALU operation 7 does not exist (0..4)"),
    ],
)
def test_words_that_mean_nothing_are_refused(line: str, what: str) -> None:
    good = "0" * 31 + "3"
    with pytest.raises(DecodeError, match=re.escape(what)) as caught:
        isa.decode(isa.from_hex([good, line]), DE10)
    assert caught.value.index == 1


@pytest.mark.parametrize("line", ["0" * 31, "0" * 33, "0" * 31 + "g", "0x" + "0" * 30, "-" + "0" * 31, "1_" + "0" * 30])
def test_hex_that_is_none_is_refused(line: str) -> None:
    isa.from_hex(["0" * 32])
    with pytest.raises(DecodeError, match="32 hex digits"):
        isa.from_hex([line])


def test_micro_op_indices_are_checked() -> None:
    assert isa.encode_uops([[2047, 2047, 1023]], DE10).tolist() == [0xFFFFFFFF]
    with pytest.raises(FieldError) as caught:
        isa.encode_uops([[0, 0, 0], [0, 2048, 0]], DE10)
    assert (caught.value.index, caught.value.field) == (1, "inp")


def test_queues() -> None:
    insns = [isa.Load(mem=m) for m in range(4)] + [isa.Store(), isa.Gemm(), isa.Alu(), isa.Finish()]
    assert isa.queue_of(isa.table_of(insns)).tolist() == [1, 0, 0, 1, 2, 1, 1, 1]
    assert isa.as_table([]).shape == (0, isa.NCOLS)
    with pytest.raises(ValueError, match="shape"):
        isa.as_table(np.zeros((2, 5)))


def test_every_column_has_its_name_and_place() -> None:
    assert [getattr(isa, name.upper()) for name in isa.COLUMN_NAMES] == list(range(isa.NCOLS))
