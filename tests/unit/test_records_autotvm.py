"""Records of AutoTVM, as TopHub publishes them: read, brought into our space, simulated, and refused where they are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import NotSupportedError, RecordError
from autosched.kernel import build
from autosched.records import Known, Log
from autosched.records.autotvm import Hardware, Tuned, read, spec_of
from autosched.records.reading import Fault
from autosched.report import account
from autosched.report.imported import Imported, bring_in
from autosched.target import get_target
from autosched.workloads import workload
from space import Space

PYNQ = "ext_dev -device=vta -keys=cpu -model=pynq_1x16_i8w8a32_15_15_18_17"
DE10 = get_target("vta-de10")


def record(template: str = "conv2d_packed.vta", target: str = PYNQ, args: list[Any] | None = None, version: float = 0.2,
           seconds: float = 1e-3, error: int = 0, **knobs: Any) -> str:
    """A line as AutoTVM writes it; an integer is a split's inner factor, or a number of threads."""
    entity = [[n, "ot", v] if n.endswith("thread") else [n, "sp", [-1, v]] for n, v in knobs.items()]
    return json.dumps({
        "input": [target, template, conv(56, 4, 4) if args is None else args, {}],
        "config": {"index": 1, "code_hash": None, "entity": entity}, "result": [[seconds], error, 1.5, 1.6e9],
        "version": version, "tvm_version": "0.7.dev0"})


def conv(size: int, ci: int, co: int, k: int = 3, stride: int = 1, pad: int = 1, groups: int = 0) -> list[Any]:
    data, kernel = ["TENSOR", [1, ci, size, size, 1, 16], "int8"], ["TENSOR", [co, ci // (groups or 1), k, k, 16, 16], "int8"]
    tail = [groups, "int32"] if groups else ["NCHW1n16c", "int32"]
    return [data, kernel, [stride, stride], [pad] * 4, [1, 1], *tail]


def brought(tmp_path: Path, *lines: str) -> list[Imported]:
    path = tmp_path / "tuned.log"
    path.write_text("# a remark\n" + "\n".join(lines) + "\n")
    log = Log.open(tmp_path / "log")
    return list(bring_in(path, DE10, log, Known((Log.open(tmp_path / "none"),))))


def test_resnets_second_layer_moves_the_bytes_that_tvm_moved(tmp_path: Path) -> None:
    # Counted by the functional simulator under TVM's own program of this record.
    (found,) = brought(tmp_path, record(tile_b=1, tile_h=8, tile_w=56, tile_ci=1, tile_co=2, oc_nthread=2, h_nthread=1))
    assert found.workload == "resnet18.c2" and found.bound is not None and found.theirs is not None
    assert found.bound < found.theirs
    task = workload("resnet18.c2")
    space = Space(task.func, DE10)
    assert list(found.point) == space.point(
        sketch=int(found.point[0]), tile_co=2, tile_y=8, tile_ci=1, order=2, load_data=5, load_kernel=5, load_bias=2,
        banks_data=2, banks_kernel=2, banks_bias=2, banks_acc=2).tolist()
    kernel = build(task, DE10, space.trace(space.point(**dict(zip(space.names, found.point)))))
    assert kernel.cycles == found.theirs
    moved = {t.tensor: t.bytes for t in account(kernel).traffic}
    assert moved["data"] == 487_424 and moved["kernel"] == 258_048
    # The log has it, as a schedule that nobody has checked yet.
    known = Known((Log.open(tmp_path / "log"),))
    best = known.best(task.key, DE10.key())
    assert best is not None and best.cycles == found.theirs and not best.verified and best.point == found.point


def tensor(*shape: int) -> list[Any]:
    return ["TENSOR", list(shape), "int8"]


DENSE = [tensor(1, 16, 1, 16), tensor(8, 16, 16, 16), None, "int32"]
TRANSPOSED = [tensor(1, 2, 4, 4, 1, 16), tensor(2, 2, 4, 4, 16, 16), [2, 2], [1] * 4, "int32", [0, 0]]
WIDE = {"tile_h": 14, "tile_w": 14, "tile_ci": 1, "tile_co": 1, "oc_nthread": 2}


@pytest.mark.parametrize(("line", "name"), [
    (record(args=conv(14, 16, 32, k=1, stride=2, pad=0), tile_h=7, tile_ci=1, tile_co=16, oc_nthread=2), "resnet18.c10"),
    (record("group_conv2d_packed.vta", args=conv(14, 32, 32, groups=32), **WIDE), "mobilenet.d7"),
    (record("dense_packed.vta", args=DENSE, tile_b=1, tile_ci=16, tile_co=1, oc_nthread=1), "dense:m=1,k=256,n=128"),
    (record("conv2d_transpose_packed.vta", args=TRANSPOSED, tile_h=4, tile_w=8, tile_ci=1, tile_co=1, h_nthread=2),
     "conv2d_transpose:h=4,w=4,ci=32,co=32,k=4,stride=2,pad=1"),
])
def test_every_template_becomes_a_point(line: str, name: str, tmp_path: Path) -> None:
    (found,) = brought(tmp_path, line)
    assert (found.workload, found.mine) == (name, True)
    assert found.theirs is not None and found.bound is not None and 0 < found.bound <= found.theirs
    knobs = {n: (v[-1] if isinstance(v, list) else v) for n, _, v in json.loads(line)["config"]["entity"]}
    tiles = {"tile_ci": "ci", "tile_h": "y"} if not name.startswith("dense") else {"tile_ci": "k", "tile_co": "n"}
    half = 2 if name.startswith("conv2d_transpose") else 1
    for knob, axis in tiles.items():
        if knob in knobs and f"{axis}=" in found.explain:
            assert f"{axis}={knobs[knob] // (half if knob == 'tile_h' else 1)}" in found.explain.split("|")[0].split()
    assert (" x2" in found.explain) == (max(knobs.get("oc_nthread", 1), knobs.get("h_nthread", 1)) == 2)


@pytest.mark.parametrize(("line", "why"), [
    (record("conv2d_winograd.vta"), "template conv2d_winograd.vta has no workload here"),
    (record(args=[]), "arguments of conv2d_packed.vta are not those of that template"),
    (record(args=[*conv(14, 1, 1)[:4], [2, 2], "NCHW1n16c", "int32"]), "a dilation of 2"),
    (record(args=[*conv(14, 1, 1)[:3], [0, 1, 0, 1], [1, 1], "NCHW1n16c", "int32"]), "a padding that differs from side to side"),
    (record(tile_q=2), "knob tile_q is none of tile_b"),
    (record(tile_h=57), "tile y of 57 is none of 1, 2"),
    (record(tile_h=56, tile_w=56, tile_ci=4, tile_co=4), "its tiles do not fit the memories"),
])
def test_what_has_no_point_says_why(line: str, why: str, tmp_path: Path) -> None:
    (found,) = brought(tmp_path, line)
    assert found.mine and found.theirs is None and why in found.explain and not found.point


@pytest.mark.parametrize("strides", [[1, 1], [1], []])
def test_one_number_for_all_sides_is_enough(strides: list[int], tmp_path: Path) -> None:
    args = [*conv(14, 1, 1)[:2], strides, *conv(14, 1, 1)[3:]]
    (tmp_path / "a.log").write_text(record(args=args))
    (tuned,) = read(tmp_path / "a.log")
    assert isinstance(tuned, Tuned)
    if strides:
        assert workload(spec_of(tuned)).key == workload("conv2d:h=14,w=14,ci=16,co=16,k=3,pad=1").key
    else:
        with pytest.raises(RecordError, match="a list of at least 1"):
            spec_of(tuned)


def test_other_machines_records_are_named_and_left(tmp_path: Path) -> None:
    found = brought(tmp_path, record(target=PYNQ.replace("1x16", "4x8")), record(target="llvm -device=arm_cpu -model=pynq"))
    assert [i.mine for i in found] == [False, False] and not (tmp_path / "log").exists()
    assert "for a VTA of 4x8" in found[0].explain and "another kind of machine" in found[1].explain


@pytest.mark.parametrize(("line", "why"), [
    ("{", "not JSON"), ("[" * 5000, "not JSON"), ("[]", "not a record of AutoTVM"), ("{}", "not a record of AutoTVM"),
    (record(version=0.1), "version 0.1"), (record(oc_nthread=True), "knob oc_nthread is 'True'"),
    (record(tile_h=0), "knob tile_h is '0'"), (record(tile_h=1 << 63), "knob tile_h"), (record(tile_h="8"), "knob tile_h"),
])
def test_what_is_no_record_is_named_with_its_line(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"{record()}\n\n{line}\n{record()}\n")
    first, broken, last = read(tmp_path / "a.log")
    assert isinstance(first, Tuned) and isinstance(last, Tuned) and (first.line, last.line) == (1, 4)
    assert isinstance(broken, Fault) and f"a.log:3: {why}" in str(broken)


def test_what_a_record_says(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join([record(seconds=2e-3), record(seconds=1e9), record(error=4)]))
    found = [r for r in read(tmp_path / "a.log") if isinstance(r, Tuned)]
    assert [r.seconds for r in found] == [2e-3, None, None]
    huge = [json.dumps({**json.loads(record()), "result": [costs, 0, 1.0, 1.0]})
            for costs in ([10**400], [10**400, 0.5], [-(10**400), 1], [float("inf")], [2e-3, 4e-3])]
    (tmp_path / "b.log").write_text("\n".join(huge))
    assert [r.seconds for r in read(tmp_path / "b.log") if isinstance(r, Tuned)] == [None, None, None, None, 3e-3]
    assert found[0].hardware == Hardware(1, 16, (8, 8, 32), (15, 15, 18, 17))
    assert spec_of(found[0]) == "conv2d:h=56,w=56,ci=64,co=64,k=3,pad=1"
    with pytest.raises(RecordError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(NotSupportedError, match="int8"):
        spec_of(Tuned(1, found[0].hardware, "", "conv2d_packed.vta", (["TENSOR", [1] * 6, "float32"],), {}, None))
