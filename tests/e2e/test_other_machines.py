"""A machine of other sizes, through the commands: what is exported for it is what its hardware decodes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autosched.errors import LoweringError
from autosched.lower import lower_table
from autosched.script import parse
from autosched.target import get_target
from sim import isa
from sim.config import VTAConfig

B32 = {
    "LOG_BLOCK": 5, "LOG_UOP_BUFF_SIZE": 9, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 16, "LOG_ACC_BUFF_SIZE": 14,
    "uop_depth": 128, "queue_depth": 32,
}  # fmt: skip
INP14 = {"LOG_INP_BUFF_SIZE": 14}
# (field, lowest bit, bits) as the RTL decodes them; not taken from the code under test.
# Checks that are not in this process have tests of their own.
pytestmark = pytest.mark.usefixtures("unguarded")
TOKENS = [("pop_prev", 3, 1), ("pop_next", 4, 1), ("push_prev", 5, 1), ("push_next", 6, 1)]
MOVE = [
    ("mem", 7, 3), ("sram", 10, 16), ("dram", 26, 32), ("y_size", 64, 16), ("x_size", 80, 16), ("x_stride", 96, 16),
    ("y_pad_0", 112, 4), ("y_pad_1", 116, 4), ("x_pad_0", 120, 4), ("x_pad_1", 124, 4),
]  # fmt: skip
LOOP = [
    ("reset", 7, 1), ("uop_bgn", 8, 13), ("uop_end", 21, 14), ("iter_out", 35, 14), ("iter_in", 49, 14), ("dst_out", 64, 11),
    ("dst_in", 75, 11), ("src_out", 86, 11), ("src_in", 97, 11),
]  # fmt: skip
GEMM = [*LOOP, ("wgt_out", 108, 10), ("wgt_in", 118, 10)]
ALU = [*LOOP, ("alu_op", 108, 3), ("use_imm", 111, 1), ("imm", 112, 16)]
FIELDS = {0: MOVE, 1: MOVE, 2: GEMM, 3: [], 4: ALU}


def as_hardware_reads(line: str) -> list[int]:
    word = int(line, 16)
    row = dict.fromkeys(isa.COLUMN_NAMES, 0) | {"opcode": word & 7}
    for name, low, bits in [*TOKENS, *FIELDS[word & 7]]:
        row[name] = word >> low & ((1 << bits) - 1)
    row["imm"] -= (row["imm"] >> 15) << 16
    return [row[name] for name in isa.COLUMN_NAMES]


@pytest.mark.parametrize(("keys", "name"), [(B32, "dense:m=3,k=128,n=64,bias=1"), (INP14, "dense:m=5,k=64,n=48,bias=1")])
def test_what_is_exported_is_what_the_hardware_decodes(
    keys: dict, name: str, tmp_path: Path, plain_vta: ModuleType, command
) -> None:
    machine, out = tmp_path / "machine.json", tmp_path / "program.json"
    machine.write_text(json.dumps(keys))
    log = ("--target", machine, "--log", tmp_path / "log")
    def tuned() -> dict:
        code, _, err = command("tune", name, "--trials", "4", "--jobs", "1", "--sampler", "random", *log)
        assert code == 0, err
        assert command("export", name, *log, "-o", out)[0] == 0
        return json.loads(out.read_text())["programs"][0]

    def simulated() -> list[dict]:
        code, text, err = command("sim", out, "--format", "json")
        assert code == 0, err
        return json.loads(text)

    entry = tuned()
    table = isa.as_table([as_hardware_reads(line) for line in entry["insns"]])
    config = VTAConfig.from_json(keys)
    memory = [(s["address"], base64.b64decode(s["bytes"])) for s in entry["memory"]]
    ran = plain_vta.execute(table, config, memory, "chisel", depth=config.queue_depth)
    for wanted in entry["outputs"]:
        expected = base64.b64decode(wanted["expected"])
        assert ran.peek(wanted["address"], wanted["size"]) == expected
        assert len(set(expected)) > 8
    assert simulated() == [{"name": name, "cycles": entry["cycles"], "outputs_match": True}]
    # The functional simulator of that machine reads other fields, so its programs have other words.
    machine.write_text(json.dumps(keys | {"semantics": "fsim"}))
    assert [as_hardware_reads(line) for line in tuned()["insns"]] != table.tolist()
    assert simulated()[0]["outputs_match"] is True
    machine.write_text(json.dumps(keys | {"semantics": "portable"}))
    code, _, err = command("tune", name, "--trials", "4", *log)
    assert code == 2
    assert "no program of this machine is portable: field positions follow the buffer sizes" in err


def vectors(count: int):
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({count}, 1, 16), "int32"), out: T.Buffer(({count}, 1, 16), "int8")):
    x = T.alloc_buffer(({count}, 1, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid({count}, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = a[vi, 0, vl] + 0
    for i, l in T.grid({count}, 16):
        with T.block("add"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = x[vi, 0, vl] + 3
    for i, l in T.grid({count}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, 0, vl] = T.cast(x[vi, 0, vl], "int8")
''')


@pytest.mark.parametrize(("size", "count"), [(17, 2048), (18, 2048), (16, 1024)])
def test_capacity_is_what_fields_can_name(size: int, count: int, tmp_path: Path, vta_schedules: ModuleType) -> None:
    """An accumulator of 4096 elements, of which the RTL's 11-bit fields name 2048."""
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({"LOG_ACC_BUFF_SIZE": size}))
    target = get_target(machine)
    assert target.capacity("local.acc_buffer") == count
    program = lower_table(vectors(count), target)
    values = np.arange(count * 16, dtype=np.int32).reshape(count, 1, 16)
    from sim.semantics import execute

    ran = execute(program.program({"a": values}), "chisel")
    (out,) = program.program().outputs
    assert ran.read(out.address, out.size) == (values + 3).astype(np.int8).tobytes()
    with pytest.raises(LoweringError, match=f"holds {count} elements and the program needs {count + 1}"):
        lower_table(vectors(count + 1), target)
