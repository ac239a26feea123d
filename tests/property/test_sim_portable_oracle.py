"""The portability check against brute force, and against what the two executable implementations really do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.config import VTAConfig
from sim.errors import SimError
from sim.isa import as_table, decode_uops, encode_uops
from sim.portable import check
from sim.program import Program, Segment
from sim.semantics import execute

CONFIG = VTAConfig(
    LOG_BLOCK=2, LOG_UOP_BUFF_SIZE=7, LOG_INP_BUFF_SIZE=7, LOG_WGT_BUFF_SIZE=8, LOG_ACC_BUFF_SIZE=9, uop_depth=None
)
ELEMENT_KINDS = {"stale-out", "alu-hazard", "uop-distance", "imm-source", "index-wrap", "uninitialised"}


def program_of(writer, semantics: str = "chisel") -> Program:
    segments = tuple(Segment(a, d) for a, d in writer.segments)
    return Program("random", writer.config, as_table(writer.table()), 0x1000, segments, semantics=semantics)


def recoded(program: Program, address: int) -> Program:
    """A program of the functional simulator for the RTL: the same micro-ops, in the RTL's fields."""
    (words,) = [s for s in program.memory if s.address == address]
    triples = decode_uops(np.frombuffer(words.data, "<u4"), program.config, "fsim")
    there = Segment(address, encode_uops(triples, program.config, "chisel").astype("<u4").tobytes())
    return replace(program, memory=(*program.memory, there), semantics="chisel")


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_element_findings_equal_brute_force(plain_vta, seed, size):
    writer = plain_vta.Writer(CONFIG, "chisel", seed, size)
    program = program_of(writer)
    found = {(d.index, d.kind) for d in check(program) if d.kind in ELEMENT_KINDS}
    assert found == plain_vta.element_findings(program.table, CONFIG, writer.segments)


IRRELEVANT = {"alu-hazard", "uop-distance", "field-widths", "uop-source-width"}


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 12))
def test_what_passes_gives_the_same_bytes_on_rtl_and_functional_simulator(plain_vta, seed, size):
    writer = plain_vta.Writer(CONFIG, "fsim", seed, size, tame=True)
    program = program_of(writer, "fsim")
    found = [d for d in check(program, among=("chisel", "fsim")) if d.kind not in IRRELEVANT]
    runs = []
    for mode, mine in (("chisel", recoded(program, writer.base[plain_vta.UOP])), ("fsim", program)):
        try:
            runs.append(execute(mine, mode))
        except SimError:
            runs.append(None)
    if not found:
        assert runs[0] is not None
        assert runs[1] is not None
        for address in range(0x80000, 0x80400, 4096):
            assert runs[0].read(address, 4096) == runs[1].read(address, 4096)
