"""Bytes and cycles that the RTL gave, and bytes that VTA's functional simulator gave.

``rtl_b32`` holds programs of the 32x32 RTL, ``rtl_inp14`` programs for half the input memory, ``hand_programs`` hand-written
ones that beat generated schedules. ``fsim_outputs_*.json`` hold random programs run by the functional simulator of
apache/tvm-vta (d4a15f6), built for two small machines with its SRAM cleared first; their cycles are this project's, the
bytes are that simulator's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sim import isa
from sim.errors import DecodeError
from sim.machine import run
from sim.program import Program, load_file
from sim.semantics import execute

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {p.name: p for p in load_file(DATA / "rtl_outputs.json")}


def test_there_are_forty(programs):
    assert len(programs) == 40
    assert all(o.expected for p in programs.values() for o in p.outputs)


@pytest.mark.parametrize("number", range(40))
def test_bytes_and_cycles_are_those_of_the_rtl(programs, number):
    program = list(programs.values())[number]
    result = run(program, check=True)
    for output in program.outputs:
        assert result.outputs[output.name] == output.expected
    assert result.outputs_match is True
    assert result.cycles == program.cycles
    assert result.races == ()


def test_one_wrong_byte_is_a_mismatch(programs):
    program = programs["func1000"]
    (output,) = program.outputs
    wrong = bytes([output.expected[0] ^ 1]) + output.expected[1:]
    assert run(replace(program, outputs=(replace(output, expected=wrong),))).outputs_match is False
    assert run(replace(program, outputs=(replace(output, expected=None),))).outputs_match is None
    assert run(replace(program, outputs=())).outputs_match is None


def test_the_functional_simulator_differs_on_some(programs):
    """The fixtures use what only the RTL does, so agreement under both modes would mean that modes do nothing."""
    differ = 0
    for program in programs.values():
        (output,) = program.outputs
        differ += execute(program, "fsim").read(output.address, output.size) != output.expected
    assert differ > 10


@pytest.mark.parametrize("machine", ["small", "batch2"])
def test_bytes_are_those_of_the_functional_simulator(machine):
    programs = load_file(DATA / f"fsim_outputs_{machine}.json")
    assert len(programs) == 16
    for program in programs:
        assert program.semantics == "fsim"
        result = run(program, "fsim", check=True)
        assert result.outputs_match is True, program.name
        assert result.cycles == program.cycles
        assert result.races == ()


RECORDED = [("rtl_b32", n) for n in range(30)] + [("rtl_inp14", n) for n in range(10)] + [("hand_programs", n) for n in range(10)]


@pytest.mark.parametrize(("file", "number"), RECORDED)
def test_machines_of_other_sizes_and_programs_by_hand_are_equal_too(recorded, file, number):
    program = recorded(file)[number]
    assert program.semantics == "chisel"
    assert all(o.expected for o in program.outputs)
    result = run(program, check=True)
    assert result.outputs_match is True
    assert result.cycles == program.cycles
    assert result.races == ()
    # Random programs store OUT as an earlier operation left it and shift by more than HLS can; written ones do nothing odd.
    odd = {d.kind for d in result.diagnostics}
    allowed = {"stale-out", "shift-range", *(("index-wrap", "sram-wrap") if "wrap" in program.name else ())}
    assert odd <= (allowed if program.name.startswith(("b32_", "inp14_")) else set())


def test_none_is_missing(recorded):
    assert [len(recorded(name)) for name in ("rtl_b32", "rtl_inp14", "hand_programs")] == [30, 10, 10]
    assert {p.config.read_delay for p in recorded("rtl_b32")} == {1, 16, 40}
    assert {p.config.block_in for p in recorded("rtl_b32")} == {32}
    assert {p.config.inp_depth for p in recorded("rtl_inp14")} == {1024}


@pytest.mark.parametrize("file", ["rtl_b32", "rtl_inp14"])
def test_read_by_the_rule_of_cpp_the_same_words_are_another_program(recorded, file):
    """The twin: these programs are those of the RTL because fields stand where the RTL has them."""
    for program in recorded(file):
        words = isa.encode(program.table, program.config, "chisel")
        try:
            other = isa.decode(words, program.config, "fsim")
        except DecodeError:
            continue
        assert (other != program.table).any()
