"""Text, words and table say the same, for every valid table of every machine."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import asm, isa
from sim.config import VTAConfig
from sim.errors import AsmError, ConfigError, FieldError
from sim.isa import Table

DE10 = VTAConfig()


@st.composite
def machines(draw: st.DrawFn) -> VTAConfig:
    """Any machine whose instructions fit 128 bits."""
    try:
        return VTAConfig(
            LOG_BATCH=draw(st.integers(0, 3)),
            LOG_BLOCK=draw(st.integers(2, 6)),
            LOG_UOP_BUFF_SIZE=draw(st.integers(4, 17)),
            LOG_INP_BUFF_SIZE=draw(st.integers(8, 18)),
            LOG_WGT_BUFF_SIZE=draw(st.integers(10, 20)),
            LOG_ACC_BUFF_SIZE=draw(st.integers(10, 20)),
            uop_depth=None,
        )
    except ConfigError:
        return DE10


@st.composite
def tables(draw: st.DrawFn, config: VTAConfig) -> Table:
    """Rows with every field anywhere in its range, its ends more often than not."""
    low, high = isa.bounds(config)
    chance = random.Random(draw(st.integers(0, 2**32)))
    rows = []
    for opcode in draw(st.lists(st.integers(0, 4), max_size=12)):
        ends = [(int(a), int(b)) for a, b in zip(low[opcode], high[opcode], strict=True)]
        rows.append([chance.choice((a, b, max(a, 0), chance.randint(a, b))) for a, b in ends])
    return isa.as_table(rows)


@given(data=st.data())
@settings(max_examples=150)
def test_round_trips(data: st.DataObject) -> None:
    config = data.draw(machines())
    table = data.draw(tables(config))
    words = isa.encode(table, config)
    assert (isa.decode(words, config) == table).all()
    assert (isa.from_hex(isa.to_hex(words)) == words).all()
    assert (isa.table_of(isa.insns_of(table)) == table).all() and len(isa.insns_of(table)) == len(table)
    text = asm.disassemble(table, config)
    assert len(text.splitlines()) == len(table)
    assert (asm.assemble(text, config) == table).all()
    # Case, spacing and comments say nothing.
    loose = "\n".join(f"  {line.swapcase()}   # {i}\n" for i, line in enumerate(text.splitlines()))
    assert (asm.assemble(loose, config) == table).all()


@given(data=st.data())
@settings(max_examples=100)
def test_fields_do_not_touch_each_other(data: st.DataObject) -> None:
    """Changing one field changes only its own bits."""
    config = data.draw(machines())
    table = data.draw(tables(config).filter(len))
    row = data.draw(st.integers(0, len(table) - 1))
    low, high = isa.bounds(config)
    opcode = int(table[row, isa.OPCODE])
    layout = isa.layout_of(opcode, config)[1:]
    name, start, width = data.draw(st.sampled_from(layout))
    column = isa.COLUMN_OF[name]
    other = table.copy()
    other[row, column] = data.draw(st.integers(int(low[opcode, column]), int(high[opcode, column])))
    a, b = (int(w[0]) | int(w[1]) << 64 for w in (isa.encode(t, config)[row] for t in (table, other)))
    assert (a ^ b) & ~(((1 << width) - 1) << start) == 0
    assert (a == b) == (table[row, column] == other[row, column])


@given(data=st.data())
@settings(max_examples=150)
def test_one_step_out_of_range_is_refused(data: st.DataObject) -> None:
    table = data.draw(tables(DE10).filter(len))
    row = data.draw(st.integers(0, len(table) - 1))
    column = data.draw(st.integers(1, isa.NCOLS - 1))
    low, high = isa.bounds(DE10)
    opcode = int(table[row, isa.OPCODE])
    outside = data.draw(st.sampled_from((int(low[opcode, column]) - 1, int(high[opcode, column]) + 1)))
    table[row, column] = outside
    for use in (isa.encode, asm.disassemble):
        with pytest.raises(FieldError) as caught:
            use(table, DE10)
        found = (caught.value.index, caught.value.field, caught.value.value)
        assert found == (row, isa.COLUMN_NAMES[column], outside)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_micro_ops_round_trip(words: list[int]) -> None:
    assert isa.encode_uops(isa.decode_uops(words, DE10), DE10).tolist() == words
    assert isa.decode_uops(np.array(words, dtype=np.uint32), DE10).shape == (len(words), 3)


@given(st.text(max_size=60) | st.from_regex(r"(LOAD|STORE|GEMM|ALU|FINISH)( [A-Za-z_0-9]+(=[-0-9xa-f]*)?){0,4}"))
@settings(max_examples=80)
def test_any_text_is_read_or_refused_by_line(text: str) -> None:
    try:
        table = asm.assemble(text, DE10)
    except AsmError as error:
        assert 1 <= error.line <= max(1, len(text.splitlines()))
    else:
        assert (asm.assemble(asm.disassemble(table, DE10), DE10) == table).all()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("LOAD IMP x_size=3", 1, "'IMP' is not a memory; did you mean 'INP'?"),
        ("FINISH\n\n# nothing\nGEM uop_end=1", 4, "'GEM' is not an instruction; did you mean 'GEMM'?"),
        ("LOAD", 1, "LOAD needs a memory: UOP, WGT, INP, ACC, OUT, ACC_8BIT"),
        ("ALU", 1, "ALU needs an ALU operation: MIN, MAX, ADD, SHR, MUL"),
        ("LOAD INP xsize=3", 1, "LOAD has no field 'xsize'; did you mean 'x_size'?"),
        ("FINISH\nLOAD INP x_size=70000", 2, "x_size=70000: not in 0..65535"),
        ("ALU MAX imm=4x", 1, "'imm=4x': expected a decimal or 0x number after '='"),
        ("ALU MAX imm", 1, "field 'imm' needs a value: imm=NUMBER"),
        ("FINISH x_size=1", 1, "FINISH has no field 'x_size'"),
        ("LOAD INP x_size=1 x_size=2", 1, "field 'x_size' is given twice"),
        ("LOAD INP x_size=" + "9" * 5000, 1, "expected a decimal or 0x number"),
        ("GEMM pop_prev=2", 1, "pop_prev=2: not in 0..1"),
        ("GEMM opcode=3", 1, "GEMM has no field 'opcode'"),
    ],
)
def test_errors_name_line_expectation_and_nearest_name(text: str, line: int, what: str) -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble(text, DE10)
    assert caught.value.line == line
    assert what in str(caught.value)


def test_text_reads_as_documented() -> None:
    text = """# every form
load inp sram=5 dram=0x8003 Y_SIZE=14 x_size=14 x_stride=32 y_pad_0=1 Y_PAD_1=1 x_pad_0=1 x_pad_1=1 pop_next push_next=1
    ALU MAX uop_end=1 iter_out=1 iter_in=16 dst_in=1 src_in=1 use_imm imm=-128 push_next   # clip
    STORE dram=65536 y_size=2 x_size=8 x_stride=16 pop_prev push_prev
    STORE UOP push_prev=1 pop_prev=0
    FINISH
    """
    words = isa.to_hex(isa.encode(asm.assemble(text, DE10), DE10))
    assert words == [
        "11110020000e000e000002000c001550",
        "ff809002000008000020000800200044",
        "00000010000800020000040000000229",
        "00000000000000000000000000000021",
        "00000000000000000000000000000003",
    ]
    assert asm.disassemble(asm.assemble(text, DE10), DE10).splitlines()[1:4] == [
        "ALU MAX uop_end=1 iter_out=1 iter_in=16 dst_in=1 src_in=1 use_imm imm=-128 push_next",
        "STORE dram=65536 y_size=2 x_size=8 x_stride=16 pop_prev push_prev",
        "STORE UOP push_prev",
    ]
    assert asm.assemble("", DE10).shape == (0, isa.NCOLS) and asm.disassemble(asm.assemble("", DE10), DE10) == ""
