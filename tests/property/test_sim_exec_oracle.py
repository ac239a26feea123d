"""Execution against a plain interpreter, on random programs whose tokens order what must be ordered."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.config import VTAConfig
from sim.isa import as_table
from sim.program import Program, Segment
from sim.races import check_races
from sim.semantics import execute

SMALL = {
    "LOG_BLOCK": 2, "LOG_UOP_BUFF_SIZE": 7, "LOG_INP_BUFF_SIZE": 7, "LOG_WGT_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 9,
    "uop_depth": None,
}  # fmt: skip
MACHINES = {
    "small": SMALL,
    "shallow uops": SMALL | {"uop_depth": 16},
    "4-bit inputs, 2-bit weights": SMALL | {"LOG_INP_WIDTH": 2, "LOG_WGT_WIDTH": 1},
    "16-bit inputs": SMALL | {"LOG_INP_WIDTH": 4, "LOG_INP_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 10},
    "16-bit accumulators": SMALL | {"LOG_ACC_WIDTH": 4, "LOG_ACC_BUFF_SIZE": 8},
    "block 8": SMALL | {"LOG_BLOCK": 3, "LOG_INP_BUFF_SIZE": 8, "LOG_WGT_BUFF_SIZE": 10, "LOG_ACC_BUFF_SIZE": 10},
}
BATCHED = {
    "batch 2": SMALL | {"LOG_BATCH": 1, "LOG_INP_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 10},
    "batch 4, 16-bit weights": SMALL | {"LOG_BATCH": 2, "LOG_WGT_WIDTH": 4, "LOG_INP_BUFF_SIZE": 9,
                                        "LOG_WGT_BUFF_SIZE": 9, "LOG_ACC_BUFF_SIZE": 11},
}  # fmt: skip
CASES = [(name, "chisel") for name in MACHINES] + [(name, "fsim") for name in (*MACHINES, *BATCHED)]


def config_of(name: str) -> VTAConfig:
    return VTAConfig.from_json((MACHINES | BATCHED)[name])


def program_of(writer) -> Program:
    segments = tuple(Segment(a, d) for a, d in writer.segments)
    return Program("random", writer.config, as_table(writer.table()), 0x1000, segments)


@pytest.mark.parametrize(("name", "mode"), CASES)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_bytes_sram_and_counters_equal_the_plain_interpreter(plain_vta, name, mode, seed, size):
    writer = plain_vta.Writer(config_of(name), mode, seed, size)
    program = program_of(writer)
    ran = execute(program, mode)
    plain = plain_vta.execute(program.table, program.config, writer.segments, mode, seed)
    assert ran.sram["UOP"].tolist() == plain.uop
    config = program.config
    for memory, expected in (("INP", plain.inp), ("WGT", plain.wgt), ("ACC", plain.acc)):
        assert ran.sram[memory].reshape(len(expected), -1).tolist() == expected, memory
    if mode == "chisel":
        assert ran.sram["OUT"].reshape(config.acc_depth, -1).tolist() == plain.out
    for page in {address >> 12 for address in plain.memory}:
        assert ran.read(page << 12, 4096) == plain.peek(page << 12, 4096)
    trips = {"gemm_counter": plain.gemm_counter, "alu_counter": plain.alu_counter}
    names = {"inp": 2, "wgt": 1, "acc": 3, "uop": 0}
    assert ran.counters == trips | {
        **{f"{memory}_load_nbytes": plain.bytes[code] for memory, code in names.items()},
        "out_store_nbytes": plain.bytes[4],
    }


@pytest.mark.parametrize(("name", "mode"), [("small", "chisel"), ("small", "fsim"), ("batch 2", "fsim")])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_derived_tokens_leave_no_race(plain_vta, name, mode, seed, size):
    program = program_of(plain_vta.Writer(config_of(name), mode, seed, size))
    assert check_races(program, mode) == []


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(4, 30), semantics=st.sampled_from(["chisel", "fsim"]),
       drops=st.integers(1, 6))  # fmt: skip
def test_races_are_those_of_the_transitive_closure(plain_vta, seed, size, semantics, drops):
    """With tokens taken out in pairs, a race is reported exactly when two unordered instructions conflict."""
    writer = plain_vta.Writer(config_of("small"), semantics, seed, size)
    program = program_of(writer)
    rng = np.random.default_rng(seed)
    table = program.table.copy()
    _, edges = plain_vta.interleave(plain_vta.rows_of(table), random.Random(seed))
    for at in rng.permutation(len(edges))[:drops]:
        producer, consumer = edges[at]
        sides = {"load": 0, "compute": 1, "store": 2}
        rows = plain_vta.rows_of(table)
        forward = sides[plain_vta.engine_of(rows[producer])] < sides[plain_vta.engine_of(rows[consumer])]
        table[producer, 4 if forward else 3] = 0
        table[consumer, 1 if forward else 2] = 0
    thinned = Program("thinned", program.config, table, 0x1000, program.memory)
    expected = plain_vta.conflicts(table, program.config, writer.segments, semantics)
    found = check_races(thinned, semantics)
    assert bool(found) == bool(expected)
    for race in found:
        pair = (min(race.first, race.second), max(race.first, race.second))
        assert pair in expected, race
        names = {memory for memory, _ in expected[pair]}
        assert race.memory in names
        elements = {e for memory, e in expected[pair] if memory == race.memory}
        assert race.low in elements
        assert race.high in elements
