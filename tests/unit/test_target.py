"""Targets: presets, files, memories, keys, and their tensor intrinsics."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ProgramError, UnknownNameError
from autosched.ir import interp
from autosched.schedule import TensorIntrin
from autosched.target import SCOPES, Target, get_target, names
from sim.presets import TARGETS


def test_presets() -> None:
    assert set(names()) == set(TARGETS)
    target = get_target("vta-de10")
    assert (target.name, target.semantics) == ("vta-de10", "chisel")
    assert get_target(target) is target
    assert pickle.loads(pickle.dumps(target)) == target


def test_unknown_name_proposes_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown target 'vta-de1'; did you mean 'vta-de10'"):
        get_target("vta-de1")


def test_memories() -> None:
    target = get_target("vta-de10")
    assert {s: target.capacity(s) for s in SCOPES} == {
        "local.inp_buffer": 2048, "local.wgt_buffer": 1024, "local.acc_buffer": 2048,
    }
    assert target.memories["local.wgt_buffer"].lanes == (16, 16)
    assert target.memories["local.acc_buffer"].element_bytes == 64
    with pytest.raises(UnknownNameError, match="unknown scope 'shared'"):
        target.capacity("shared")


def test_key_is_the_machine_and_its_semantics(tmp_path: Path) -> None:
    de10, portable = get_target("vta-de10"), get_target("vta-de10-portable")
    assert de10.key() != portable.key()
    assert Target("other name", de10.config, de10.semantics).key() == de10.key()
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", **de10.config.to_json()}))
    mine = get_target(path)
    assert mine.name == "mine"
    assert mine.key() == de10.key()
    path.write_text(json.dumps({"read_delay": 40}))
    assert get_target(str(path)).key() != de10.key()
    assert get_target(str(path)).name == "mine"


@pytest.mark.parametrize(("text", "word"), [
    ("[1]", "expected a JSON object, got list"),
    ("{", "target file"),
    ('{"semantics": "rtl"}', "'rtl' is none of chisel, fsim, portable"),
    ('{"LOG_BLOK": 4}', "did you mean 'LOG_BLOCK'"),
    ('{"LOG_BATCH": 1}', "batch 2"),
    ('{"read_delay": 17, "read_delay": 18}', "bad.json: config: read_delay: given twice"),
    ('{"bus_bytes": 12}', "not a power of two"),
    ('{"name": 5}', "name must be a string that says something, not 5"),
    ('{"name": ""}', "name must be a string that says something, not ''"),
    ('{"name": " "}', "name must be a string that says something, not ' '"),
    ('{"LOG_INP_WIDTH": 4}', "LOG_INP_WIDTH: programs compute with int8 there, and 16 bits are given"),
    ('{"LOG_WGT_WIDTH": 2}', "LOG_WGT_WIDTH: programs compute with int8 there, and 4 bits are given"),
    ('{"LOG_ACC_WIDTH": 4}', "LOG_ACC_WIDTH: programs compute with int32 there, and 16 bits are given"),
    ('{"LOG_ACC_WIDTH": 6}', "LOG_ACC_WIDTH: programs compute with int32 there, and 64 bits are given"),
    ('{"LOG_WGT_BUFF_SIZE": 30}', "bytes of SRAM are more than are simulated"),
])
def test_bad_files(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ProgramError, match=word):
        get_target(path)


def test_missing_file() -> None:
    with pytest.raises(ProgramError, match="no such file"):
        get_target("nowhere/machine.json")


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (0, 3)])
def test_intrinsic_computes_a_block_product(shape: tuple[int, int], tmp_path: Path) -> None:
    batch, block = 1 << shape[0], 1 << shape[1]
    path = tmp_path / "machine.json"
    small = {"LOG_INP_BUFF_SIZE": 13, "LOG_ACC_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 14} if block == 8 else {}
    keys = {"LOG_BATCH": shape[0], "LOG_BLOCK": shape[1], "uop_depth": None, "semantics": "fsim"}
    path.write_text(json.dumps({**keys, **small}))
    target = get_target(path)
    assert target.gemm_intrin == f"vta.gemm.{batch}x{block}x{block}"
    intrin = TensorIntrin.get(target.gemm_intrin)
    rng = np.random.default_rng(0)
    out = rng.integers(-1000, 1000, (batch, block)).astype(np.int32)
    inp, wgt = (rng.integers(-128, 128, s).astype(np.int8) for s in ((batch, block), (block, block)))
    wanted = out + inp.astype(np.int32) @ wgt.astype(np.int32).T
    for func in (intrin.desc, intrin.impl):
        (got,) = interp.run(func, out.copy(), inp, wgt)
        np.testing.assert_array_equal(got, wanted)
