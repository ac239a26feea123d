"""Program files: what is read, what is written, and how damage is named."""

from __future__ import annotations

import base64
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import files, isa
from sim.config import VTAConfig
from sim.errors import ProgramError, UnknownTargetError
from sim.machine import run
from sim.presets import TARGETS
from sim.program import Output, Program, Segment, dump_file, dumps, load_file, loads

DATA = Path(__file__).resolve().parents[1] / "data"
DE10 = TARGETS["vta-de10"].config
FINISH = "00000000000000000000000000000003"


def text(config="vta-de10", **fields):
    return json.dumps({"config": config, "programs": [{"name": "p", "insns": [FINISH]} | fields]})


def same(a: Program, b: Program) -> bool:
    plain = [replace(p, table=isa.as_table([])) for p in (a, b)]
    fields = [(p.name, p.config, p.insn_address, p.memory, p.outputs, p.cycles, p.semantics) for p in plain]
    return fields[0] == fields[1] and np.array_equal(a.table, b.table)


def test_both_fixtures_are_program_files_with_a_remark():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cycles, outputs = (load_file(DATA / f"rtl_{name}.json") for name in ("cycles", "outputs"))
    assert (len(cycles), len(outputs)) == (177, 40)
    assert {p.config for p in cycles + outputs} == {DE10}
    assert {p.semantics for p in cycles + outputs} == {"chisel"}
    assert cycles[0].cycles == 25
    assert cycles[0].insn_address == 0x10000
    assert len(outputs[0].memory) == 5
    assert outputs[0].outputs[0].name == "OUT"


def test_the_target_decides_where_the_config_is_a_remark():
    spec = TARGETS["vta-fsim"]
    (found,) = loads(text("as run on a board"), config=spec.config)
    assert (found.config, found.semantics) == (spec.config, "fsim")
    (found,) = loads(text("vta-pynq-portable"))
    assert (found.config, found.semantics) == (TARGETS["vta-pynq"].config, "portable")
    (found,) = loads(text({"LOG_BLOCK": 5}))
    assert found.config == VTAConfig(LOG_BLOCK=5)
    (found,) = loads(json.dumps({"programs": [{"name": "p", "insns": [FINISH]}]}))
    assert found.config == DE10


@pytest.mark.parametrize(("own", "asked", "semantics"), [
    ("vta-de10", "vta-pynq", "chisel"),  # longer bursts
    ("vta-de10-portable", "vta-de10", "chisel"),
    ("vta-de10", "vta-de10-portable", "portable"),
    ("vta-pynq", "vta-ultra96", "portable"),  # another bus, and more micro-ops
    ("vta-de10", "vta-fsim", "fsim"),  # with these sizes it reads the same instructions
    ({"read_delay": 99}, "vta-de10", "chisel"),
    ({"LOG_ACC_BUFF_SIZE": 16, "semantics": "chisel"}, VTAConfig(LOG_ACC_BUFF_SIZE=16, bus_bytes=16), None),
])
def test_another_machine_of_the_same_sizes_is_run_on(own, asked, semantics):
    config = asked if isinstance(asked, VTAConfig) else TARGETS[asked].config
    (found,) = loads(text(own), config=config, semantics=None if isinstance(asked, VTAConfig) else TARGETS[asked].semantics)
    assert (found.config, found.semantics) == (config, semantics or "chisel")
    (found,) = loads(text(own, delay=40), config=config)
    assert found.config == replace(config, read_delay=40)  # what a program says of itself stays


@pytest.mark.parametrize(("own", "asked", "semantics", "reason"), [
    ("vta-de10", VTAConfig(LOG_BLOCK=5), "chisel", "its programs are for LOG_BLOCK 4, the machine asked for has 5"),
    ({"LOG_INP_BUFF_SIZE": 14}, DE10, "chisel", "its programs are for LOG_INP_BUFF_SIZE 14, the machine asked for has 15"),
    ("vta-ultra96", DE10, "portable", "its programs may hold 8192 micro-ops, the machine asked for 2048"),
    ({"LOG_ACC_BUFF_SIZE": 16, "semantics": "chisel"}, VTAConfig(LOG_ACC_BUFF_SIZE=16), "fsim",
     "its instructions are laid out as chisel has them, not as fsim does"),
])
def test_a_machine_of_other_sizes_does_not_run_what_was_encoded_for_one(own, asked, semantics, reason):
    with pytest.raises(ProgramError) as caught:
        loads(text(own), "f.json", config=asked, semantics=semantics)
    assert str(caught.value).startswith("f.json: config: ") and reason in str(caught.value)


@pytest.mark.parametrize("target", [None, "vta-de10"])
def test_round_trip(tmp_path, target):
    programs = load_file(DATA / "rtl_outputs.json")[:3]
    programs[1] = replace(programs[1], config=replace(DE10, read_delay=40), cycles=None, insn_address=0x2000)
    path = tmp_path / "out.json"
    dump_file(path, programs, target)
    raw = json.loads(path.read_text())
    assert raw["config"] == "vta-de10"
    assert raw["programs"][1]["delay"] == 40
    for entry in raw["programs"]:
        assert {"cycles", "insn_address", "memory", "outputs"} <= set(entry)
    back = load_file(path)
    assert back[1].cycles == run(programs[1]).cycles
    programs[1] = replace(programs[1], cycles=back[1].cycles)
    assert all(same(a, b) for a, b in zip(programs, back, strict=True))


def test_a_machine_without_a_name_is_written_in_full():
    config = VTAConfig(LOG_BLOCK=5, bus_bytes=16)
    one = Program("p", config, isa.table_of([isa.Finish()]), 0x1000, outputs=(Output("y", 0x2000, 4),))
    (back,) = loads(dumps([one]))
    assert back.config == config
    assert back.outputs == one.outputs
    assert back.outputs[0].expected is None


def test_semantics_of_a_machine_without_a_name_are_kept():
    config = VTAConfig(LOG_BLOCK=5)
    one = Program("p", config, isa.table_of([isa.Load(mem=isa.MEM_ACC_8BIT), isa.Finish()]), semantics="fsim")
    (back,) = loads(dumps([one]))
    assert (back.config, back.semantics) == (config, "fsim")
    assert back.cycles is not None  # counted as the functional simulator takes it: the RTL would hang
    (back,) = loads(text({"LOG_BATCH": 1}))
    assert back.semantics == "fsim"
    with pytest.raises(ProgramError, match="program 'q': has other semantics"):
        dumps([one, replace(one, name="q", semantics="chisel")])
    with pytest.raises(ProgramError, match=r"config\.semantics: 'hls' is none of chisel, fsim, portable"):
        loads(text({"semantics": "hls"}))


def test_what_cannot_be_written():
    one = Program("a", DE10, isa.table_of([isa.Finish()]), 0x1000)
    other = replace(one, name="b", config=VTAConfig(LOG_BLOCK=5))
    with pytest.raises(ProgramError, match="program 'b': has another machine"):
        dumps([one, other])
    with pytest.raises(ProgramError, match="program 'a': has another machine"):
        dumps([one], "vta-pynq")
    with pytest.raises(UnknownTargetError, match="did you mean 'vta-de10'"):
        dumps([one], "vta-de1")
    with pytest.raises(ProgramError, match="nothing to write"):
        dumps([])
    endless = replace(one, table=isa.table_of([isa.Load()]))
    assert "cycles" not in json.loads(dumps([endless]))["programs"][0]


def test_unknown_fields_are_one_warning():
    raw = json.loads(text(memory=[{"address": 4096, "bytes": "", "note": 1}], comment="x"))
    raw["author"] = "y"
    with pytest.warns(UserWarning) as caught:
        (found,) = loads(json.dumps(raw), "f.json")
    assert [str(w.message) for w in caught] == ["f.json: unknown fields ignored: author, comment, note"]
    assert found.memory == (Segment(4096, b""),)


SEGMENT = {"address": 4096, "bytes": base64.b64encode(b"ab").decode()}
OUTPUT = {"name": "y", "address": 4096, "size": 2}


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ("", "f.json: not JSON: Expecting value at line 1 column 1"),
        ("[1]", "f.json: must be an object, not a list"),
        ("{}", "f.json: programs: missing"),
        ('{"programs": 3}', "f.json: programs: must be a list, not a number"),
        ('{"programs": [3]}', "f.json: programs[0]: must be an object, not a number"),
        ("[" * 100_000, "f.json: not "),
        ('{"programs": ' + "1" * 5000 + "}", "f.json: not readable JSON"),
        (text(3), "f.json: config: must be a preset's name, a remark or an object, not a number"),
        (text({"LOG_BLOK": 4}), "f.json: config: LOG_BLOK: unknown key; did you mean 'LOG_BLOCK'?"),
        (text({"LOG_BLOCK": 99}), "f.json: config: LOG_BLOCK: 99 is outside"),
        (text({"LOG_BLOCK": "4"}), "f.json: config: LOG_BLOCK: must be an integer"),
        (text(name="a\nb"), "f.json: programs[0].name: must be printable text, not 'a\\nb'"),
        (text(name="\ud800"), "f.json: programs[0].name: must be printable text, not '\\ud800'"),
        (text(outputs=[OUTPUT | {"name": "\x1b[2J"}]), "f.json: program 'p': outputs[0].name: must be printable text"),
        (text({"LOG_BLOCK": "4" * 9999}), "f.json: config: LOG_BLOCK: must be an integer, not '444"),
        (text({"LOG\nBLOCK": 4}), "f.json: config: LOG\\nBLOCK: unknown key"),
        (text(name=5), "f.json: programs[0].name: must be a string, not a number"),
        (text(insns=None), "f.json: program 'p': insns: must be a list, not null"),
        (text(insns=[]), "f.json: program 'p': insns: empty"),
        (text(insns=[FINISH, "00"]), "f.json: program 'p': insns: instruction 1: '00' is not 32 hex digits"),
        (text(insns=[FINISH, 7]), "f.json: program 'p': insns: instruction 1: 7 is not 32 hex digits"),
        (text(insns=[FINISH[:-1] + "7"]), "f.json: program 'p': insns: instruction 0: opcode 7 does not exist"),
        (text(insns=["x" * 9999]), "f.json: program 'p': insns: instruction 0: 'xxx"),
        (text(delay=0), "f.json: program 'p': delay: 0 is outside 1..100000"),
        (text(delay=1.5), "f.json: program 'p': delay: must be an integer, not a number"),
        (text(delay=True), "f.json: program 'p': delay: must be an integer, not a boolean"),
        (text(cycles=-1), "f.json: program 'p': cycles: -1 is outside"),
        (text(insn_address=3), "f.json: program 'p': insn_address 3: not 8-byte aligned"),
        (text(insn_address=1 << 40), "f.json: program 'p': insn_address: 1099511627776 is outside"),
        (text(memory={}), "f.json: program 'p': memory: must be a list, not an object"),
        (text(memory=[SEGMENT, {"address": 1}]), "f.json: program 'p': memory[1].bytes: missing"),
        (text(memory=[SEGMENT | {"bytes": "a$"}]), "f.json: program 'p': memory[0].bytes: not base64"),
        (text(memory=[SEGMENT | {"bytes": "ä"}]), "f.json: program 'p': memory[0].bytes: not base64"),
        (text(memory=[SEGMENT | {"address": -1}]), "f.json: program 'p': memory[0].address: -1 is outside"),
        (text(memory=[SEGMENT | {"address": (1 << 32) - 1}]), "f.json: program 'p': memory[0]: 2 bytes at 0xffffffff"),
        (text(outputs=[{"address": 1}]), "f.json: program 'p': outputs[0].size: missing"),
        (text(outputs=[OUTPUT | {"size": 1 << 33}]), "f.json: program 'p': outputs[0].size: 8589934592 is outside"),
        (text(outputs=[OUTPUT | {"expected": "AAAA"}]), "f.json: program 'p': outputs[0].expected: 3 bytes, but size"),
        (text(outputs=[OUTPUT, OUTPUT]), "f.json: program 'p': two outputs are called 'y'"),
        (text(outputs=[OUTPUT | {"size": 1 << 29}]), "f.json: program 'p': outputs have 536870912 bytes"),
    ],
)
def test_damage_is_one_line_with_file_program_and_field(damaged, message):
    with pytest.raises(ProgramError) as caught:
        loads(damaged, "f.json")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_a_name_is_written_as_it_is_read():
    """Names come from those of files, and files are called as people like."""
    (program,) = loads(text())
    output = Output("o\n", 64, 1, b"a")
    (made,) = loads(dumps([replace(program, name="a\x1b[2J\u00a0é\udc80", outputs=(output,))]))
    assert (made.name, made.outputs[0].name) == (r"a\x1b[2J\xa0é\udc80", r"o\n")
    assert same(loads(dumps([made]))[0], made)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(ProgramError, match=r"absent\.json: No such file"):
        load_file(tmp_path / "absent.json")
    (tmp_path / "latin.json").write_bytes(b'{"config": "\xe4"}')
    with pytest.raises(ProgramError, match="not UTF-8 text at byte 12"):
        load_file(tmp_path / "latin.json")
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 4)
    with pytest.raises(ProgramError, match=r"latin\.json: more than 4 bytes"):
        load_file(tmp_path / "latin.json")


def test_records_refuse_what_lies_outside_memory():
    Segment((1 << 32) - 1, b"a")
    with pytest.raises(ProgramError, match="memory segment at 0xffffffff"):
        Segment((1 << 32) - 1, b"ab")
    with pytest.raises(ProgramError, match="output 'y': 1 expected bytes, but size 2"):
        Output("y", 0, 2, b"a")
    with pytest.raises(ProgramError, match="output 'y'"):
        Output("y", (1 << 32) - 1, 2)


def test_large_outputs_that_nothing_wrote_read_as_zeros():
    (found,) = loads(text(outputs=[{"name": "y", "address": 4096, "size": 1 << 20}]))
    assert run(found).outputs["y"] == bytes(1 << 20)
