"""Bytes and cycles that the RTL gave, and bytes that VTA's functional simulator gave.

``fsim_outputs_*.json`` hold random programs run by the functional simulator of apache/tvm-vta (d4a15f6), built for two
small machines with its SRAM cleared first; their cycles are this project's, the bytes are that simulator's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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
