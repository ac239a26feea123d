"""Kernels: called with packed and plain arrays, saved and loaded."""

from __future__ import annotations

import dataclasses
import json
import random
import re

import numpy as np
import pytest

from autosched.errors import LoweringError, ProgramError, ScheduleError, UnknownNameError
from autosched.kernel import Kernel, build, of_schedule
from autosched.schedule import Schedule
from autosched.workloads import of_func, workload

DENSE = "dense:m=1,k=64,n=40,bias=1"
CONV = "conv2d:h=6,w=6,ci=32,co=20,k=3,pad=1"


@pytest.fixture(scope="module")
def dense(vta_schedules) -> Kernel:
    return of_schedule(DENSE, "vta-de10", vta_schedules.dense(random.Random(1).choice, DENSE))


@pytest.fixture(scope="module")
def conv(vta_schedules) -> Kernel:
    return of_schedule(CONV, "vta-de10", vta_schedules.conv2d(random.Random(3).choice, CONV))


def plain_inputs(kernel: Kernel, seed: int = 0):
    packed = kernel.workload.inputs(seed)
    return [layout.unpack(a) for layout, a in zip(kernel.workload.layouts, packed)]


def test_packed_in_packed_out(dense, conv) -> None:
    for kernel in (dense, conv):
        inputs = kernel.workload.inputs(4)
        got = kernel(*inputs)
        np.testing.assert_array_equal(got, kernel.workload.reference(*inputs))
        assert got.dtype == np.int8


def test_plain_in_plain_out(dense, conv) -> None:
    x, w, b = plain_inputs(dense)
    want = np.clip(((x.astype(np.int32) @ w.T.astype(np.int32)) >> 8) + b, 0, 127).astype(np.int8)
    np.testing.assert_array_equal(dense(x, w, b), want)
    x, w, b = plain_inputs(conv)
    got = conv(x, w, b)
    assert got.shape == (1, 20, 6, 6)
    padded = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    want = np.zeros((1, 20, 6, 6), np.int64)
    for o, i, j in np.ndindex(20, 6, 6):
        want[0, o, i, j] = (padded[0, :, i : i + 3, j : j + 3] * w[o]).sum()
    np.testing.assert_array_equal(got, np.clip((want >> 8) + b.reshape(1, -1, 1, 1), 0, 127))


def test_the_layout_of_data_decides_and_arguments_may_be_named(dense) -> None:
    x, w, b = plain_inputs(dense)
    packed_x = dense.workload.layouts[0].pack(x)
    plain = dense(x, bias=b.reshape(1, 40), weight=dense.workload.layouts[1].pack(w))
    assert plain.shape == (1, 40)
    packed = dense(packed_x, w, b)
    assert packed.shape == (1, 3, 1, 16)
    np.testing.assert_array_equal(dense.workload.layouts[-1].unpack(packed), plain)


def test_bad_arguments_get_one_line(dense) -> None:
    x, w, b = plain_inputs(dense)
    cases = [
        ((x, w), {}, ProgramError, "bias missing"),
        ((x, w, b, b), {}, ProgramError, "takes 3 arrays"),
        ((x.astype(np.int32), w, b), {}, ProgramError, "data: expected int8, got int32"),
        ((x[:, :-1], w, b), {}, ProgramError, "data: expected shape"),
        ((x, w, b + np.int32(1 << 20)), {}, ProgramError, "bias: value .* outside its declared range -16384..16384"),
        ((x, w), {"biass": b}, UnknownNameError, "did you mean 'bias'"),
        ((x, w, b), {"data": x}, ProgramError, "data is given twice"),
    ]
    for arrays, named, error, message in cases:
        with pytest.raises(error, match=message) as caught:
            dense(*arrays, **named)
        assert "\n" not in str(caught.value)


def test_cycles_program_and_schedule_are_at_hand(dense) -> None:
    assert dense.cycles == dense.lowered.cycles() > 0
    assert "GEMM" in dense.program.disassemble().upper()
    assert "call_extern" in dense.schedule.script()
    assert dense.program.outputs[0].size == 48
    assert len(dense.hash) == 64


def test_saved_and_loaded(dense, tmp_path) -> None:
    path = tmp_path / "dense.kernel.json"
    dense.save(path)
    again = Kernel.load(path)
    assert (again.hash, again.cycles, again.workload.name) == (dense.hash, dense.cycles, DENSE)
    inputs = dense.workload.inputs(9)
    np.testing.assert_array_equal(again(*inputs), dense(*inputs))


@pytest.mark.parametrize(("name", "why"), [
    ("no/k.json", "no is no directory"), ("", "it names no file"), (".", "it is a directory"),
])
def test_a_kernel_is_saved_at_the_path_of_a_file(dense, name: str, why: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProgramError, match=f"^cannot write {re.escape(name or repr(name))}: {re.escape(why)}$"):
        dense.save(name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "no").mkdir()
    dense.save("no/k.json")
    assert Kernel.load(tmp_path / "no" / "k.json").hash == dense.hash


def test_a_users_program_is_saved_with_its_text(dense, tmp_path) -> None:
    mine = of_func(dense.func, "mine")
    kernel = build(mine, "vta-de10", dense.schedule.trace)
    path = tmp_path / "mine.json"
    kernel.save(path)
    again = Kernel.load(path)
    assert (again.hash, again.workload.name, again.workload.key) == (dense.hash, "mine", dense.workload.key)
    inputs = mine.inputs(2)
    np.testing.assert_array_equal(again(*inputs), dense.workload.reference(*inputs))
    with pytest.raises(ProgramError, match="expected shape"):
        kernel(*plain_inputs(dense))


def test_damaged_files_are_refused(dense, tmp_path) -> None:
    path = tmp_path / "k.json"
    dense.save(path)
    good = json.loads(path.read_text())
    for change, message in (
        ({"format": "other"}, "not a kernel"), ({"workload": {}}, "damaged"),
        ({"workload": {**good["workload"], "key": "0" * 64}}, "not the one that was saved"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(ProgramError, match=message):
            Kernel.load(path)
    path.write_text("{")
    with pytest.raises(ProgramError, match="kernel file"):
        Kernel.load(path)
    with pytest.raises(ProgramError, match="kernel file"):
        Kernel.load(tmp_path / "absent.json")
    path.write_text(json.dumps({**good, "program": "0" * 64}))
    with pytest.warns(UserWarning, match="another version"):
        Kernel.load(path)


def test_build_refuses_what_cannot_be_lowered_or_replayed(dense) -> None:
    with pytest.raises(LoweringError):
        of_schedule("t2", "vta-de10", Schedule(workload("t2").func))
    with pytest.raises((ScheduleError, UnknownNameError, ProgramError)):
        build("t1", "vta-de10", dense.schedule.trace)
    with pytest.raises(ProgramError, match="trace"):
        build("t2", "vta-de10", '{"not": "a trace"}')
    with pytest.raises(UnknownNameError, match="vta-de10"):
        build(DENSE, "vta-de11", dense.schedule.trace)


def test_wrong_bytes_would_be_seen(dense) -> None:
    # The twin of the equalities above: another shift gives another result on the same inputs.
    inputs = dense.workload.inputs(4)
    other = dataclasses.replace(workload("dense:m=1,k=64,n=40,bias=1,tail=cast"))
    assert (dense(*inputs) != other.reference(*inputs)).any()


@pytest.mark.parametrize("target", ["vta-fsim", "vta-de10-portable", "vta-ultra96"])
def test_other_targets_give_the_same_bytes(dense, target) -> None:
    kernel = build(DENSE, target, dense.schedule.trace)
    inputs = kernel.workload.inputs(5)
    np.testing.assert_array_equal(kernel(*inputs), dense(*inputs))
    assert kernel.hash != dense.hash


def test_a_name_is_packed_for_the_target(tmp_path, vta_schedules) -> None:
    config = {"LOG_BATCH": 1, "LOG_BLOCK": 4, "semantics": "fsim"}
    (tmp_path / "wide.json").write_text(json.dumps(config))
    name = "conv2d:n=2,h=4,w=4,ci=16,co=16,k=1"
    from autosched.target import get_target

    target = get_target(tmp_path / "wide.json")
    sch = vta_schedules.conv2d(random.Random(0).choice, name, batch=2)
    kernel = of_schedule(name, target, sch)
    assert kernel.workload.layouts[0].packed_shape == (1, 1, 4, 4, 2, 16)
    inputs = kernel.workload.inputs(1)
    np.testing.assert_array_equal(kernel(*inputs), kernel.workload.reference(*inputs))
