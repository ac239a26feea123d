"""Whole networks against onnxruntime: the same bytes, in every form that exporters write."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.ir import PrimFunc
from autosched.networks import CompiledNetwork, load, network, reference
from autosched.networks import archive as network_archive
from autosched.networks.compare import differences
from autosched.networks.graph import Layer, Requant
from autosched.networks.onnx_file import read
from autosched.networks.programs import spec_of
from autosched.networks.ranges import least
from autosched.networks.repack import gathered
from autosched.networks.residuals import candidates, fused
from autosched.target import Target
from sim.races import check_races
from space import Space

FORMS = ("qdq", "qlinear", "integer")


def saved(model: object, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())  # type: ignore[attr-defined]
    return path


@pytest.mark.parametrize(("form", "rounding"), [
    ("qdq", "floor"), *(pytest.param(form, "half-up", marks=pytest.mark.slow) for form in ("integer", "qlinear")),
])
def test_a_residual_network_gives_the_bytes_of_its_integer_form(
    form: str, rounding: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.residual(form, np.random.default_rng(0))
    net = load(saved(b.model(b.last), tmp_path / "net.onnx"), rounding=rounding)
    assert not net.graph.host_parts
    ready = net.compile(tmp_path)
    assert len(ready.streams) == 1
    images = b.image(3)
    want = np.concatenate([reference.run(net.graph, {"x": x[None]})[b.last] for x in images])
    got = ready(images)
    assert np.array_equal(got, want)
    # Both sums stay in the accumulator if that is asked for, and are tasks of their own; untuned they stay apart.
    joined = net.compile(tmp_path, fuse=True)
    names = [x.name for x in joined.streams[0].layers if " + " in x.name]
    assert len(names) == 2 and set(names) <= {n for t in net.tasks for n in t.layers}
    assert not any(" + " in x.name for x in ready.streams[0].layers)
    assert np.array_equal(joined(images), want) and check_races(joined.streams[0].program) == []
    # What they are added to is known never to be negative where a relu made it, and then has a schedule of its own.
    told = {n: t.workload.func.value_ranges[-2] for t in net.tasks for n in t.layers if n in names}
    assert set(told.values()) == {None if least(net.graph.layers, x.inputs[-1]) < 0 else (0, 127)
                                  for x in fused(net.packed, candidates(net.packed)).layers if x.residual is not None}
    # What the operand makes due is not counted: the layer that makes it may spare that.
    counted = ("products", "initial", "stages", "addends")
    terms = {n: own for t in net.tasks for own in [Space(t.workload.func, net.target).machine.terms] for n in t.layers}
    work = {n: sum(own[k] for k in counted) - own["joined"] for n, own in terms.items()}
    assert all(x.work == work[x.name] for x in joined.streams[0].layers) and max(terms[n]["joined"] for n in names) > 0
    apart = {x.name: x.alone for x in ready.streams[0].layers}
    assert all(x.apart == sum(apart[n] for n in x.name.split(" + ")) for x in joined.streams[0].layers)
    assert len(np.unique(want)) > 8  # not a row of clipped values
    if form == "integer":
        # The file is itself in integer form: it is a second reference, in which nothing of ours was rewritten.
        direct = reference.session(b.model(b.last))
        assert np.array_equal(got, np.concatenate([direct.run(None, {"x": x[None]})[0] for x in images]))


def random_net(seed: int, onnx_models: ModuleType, random_networks: ModuleType) -> Any:
    rng = np.random.default_rng(seed)
    form = FORMS[seed % 3]
    shape = (int(rng.integers(1, 3)), int(rng.choice([1, 3, 8, 16, 24])), int(rng.integers(3, 9)), int(rng.integers(3, 9)))
    b = onnx_models.Builder(form, rng, shape, unsigned=form != "integer" and bool(rng.integers(2)))
    return random_networks.random_network(b, rng, int(rng.integers(1, 7)))


def check_random(seed: int, onnx_models: ModuleType, random_networks: ModuleType, folder: Path) -> None:
    """Two batches of images: 0 bytes differ from the integer form, no races, and only ties from the file itself."""
    b = random_net(seed, onnx_models, random_networks)
    path = saved(b.model(*b.outputs), folder / "net.onnx")
    net = load(path)
    ready = net.compile(folder)
    images, n = b.image(2), b.shape[0]
    parts = [images[:n], images[n:]]
    made = ready.run(images)
    assert made.images == 2
    sessions = [reference.session(reference.build(net.graph))]
    if b.form == "integer":
        sessions.append(reference.session(b.model(*b.outputs)))  # the file itself, in which nothing of ours was rewritten
    else:
        found = differences(net.graph, read(path), {"x": parts[0]})
        assert all(d.unexplained == 0 for d in found), found
    for checked in sessions:
        want = [np.concatenate(w) for w in zip(*[checked.run(list(ready.outputs), {"x": p}) for p in parts])]
        assert [w.tobytes() for w in want] == [np.ascontiguousarray(g).tobytes() for g in made.outputs]
    assert all(check_races(s.program) == [] for s in ready.streams)


@pytest.mark.parametrize("seed", [6002, 6005, 6009, 6012, 6016, 6024])
def test_random_networks_give_the_bytes_of_onnxruntime(
    seed: int, onnx_models: ModuleType, random_networks: ModuleType, tmp_path: Path
) -> None:
    check_random(seed, onnx_models, random_networks, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1300, 20))
def test_many_random_networks(first: int, onnx_models: ModuleType, random_networks: ModuleType, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        check_random(seed, onnx_models, random_networks, tmp_path)


@pytest.mark.parametrize("form", ["qdq", "qlinear"])
def test_against_the_file_itself_every_difference_is_a_tie(form: str, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.residual(form, np.random.default_rng(1))
    path = saved(b.model(b.last), tmp_path / "net.onnx")
    graph = load(path).graph
    found = differences(graph, read(path), {"x": b.image()})
    assert len(found) == len([x for x in graph.layers if x.requant is not None])
    assert all(d.unexplained == 0 for d in found), found
    assert sum(d.ties for d in found) > 0
    floor = load(path, rounding="floor").graph
    assert sum(d.different for d in differences(floor, read(path), {"x": b.image()})) > 100


def test_one_stream_has_no_race_and_runs_without_onnx(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.residual("integer", np.random.default_rng(2))
    net = load(saved(b.model(b.last), tmp_path / "net.onnx"))
    ready = net.compile(tmp_path)
    program = ready.streams[0].program
    assert check_races(program) == []
    ready.save(tmp_path / "net.zip")
    again = CompiledNetwork.load(tmp_path / "net.zip")
    x = b.image()
    assert np.array_equal(ready(x), again(x))
    assert again.cycles == ready.cycles


STEMS = [  # with the window that is left where pixels are dealt, and the products of every way that gathers
    (12, 7, 2, 3, 3, (4, 4), {"rows": 14, "dealt rows": 12, "patches": 10}),
    (11, 3, 2, 1, 4, (2, 2), {"rows": 3}),
    (9, 3, 3, 0, 1, (1, 1), {}),
    (10, 5, 2, 2, 4, (3, 3), {"patches": 7}),
    (13, 4, 3, 1, 1, (2, 2), {"dealt rows": 2, "patches": 1}),
    (8, 2, 2, 0, 3, (1, 1), {}),
    (8, 3, 2, 1, 5, (3, 2), {"rows": 3}),
    (8, 3, 2, 1, 16, None, {}),
    (6, 3, 1, 1, 1, None, {"rows": 3, "patches": 1}),
]


@pytest.mark.parametrize(("size", "k", "stride", "pad", "channels", "window", "ways"), STEMS)
def test_a_stem_of_few_channels_is_packed_into_lanes(
    size: int, k: int, stride: int, pad: int, channels: int, window: tuple[int, int] | None, ways: dict[str, int],
    onnx_models: ModuleType, tmp_path: Path,
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, channels, size, size))
    last = b.conv("x", 20, k, stride=stride, pad=pad)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    dealt = {x.kind: x for x in net.packed.layers}
    assert (dealt["conv"].kernel if "pack" in dealt else None) == window
    found = {p.way.name: p.products for mine in gathered(net.graph, 16).values() for p in mine}
    assert found == ways
    images = b.image(3)
    want = np.concatenate([reference.run(net.graph, {"x": x[None]})[last] for x in images])
    for gather in (None, True):
        ready = net.compile(tmp_path, gather=gather)
        assert np.array_equal(ready(images), want), gather
        steps = {step.what for step in ready.run(images).host}
        assert ("gather" in steps, "deal" in steps) == ((True, False) if gather and ways else (False, window is not None))
        ready.save(tmp_path / "net.zip")
        assert np.array_equal(CompiledNetwork.load(tmp_path / "net.zip")(images), want)


def test_a_file_from_before_windows_were_gathered_is_read(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 3, 12, 12))
    last = b.conv("x", 20, 7, stride=2, pad=3)
    ready = load(saved(b.model(last), tmp_path / "net.onnx")).compile(tmp_path)
    ready.save(tmp_path / "net.zip")
    with zipfile.ZipFile(tmp_path / "net.zip") as new, zipfile.ZipFile(tmp_path / "old.zip", "w") as old:
        for name in new.namelist():
            old.writestr(name, re.sub(rb',\s*"kernel": \[[^]]*\]', b"", new.read(name)))
    with zipfile.ZipFile(tmp_path / "old.zip") as old:
        assert b"kernel" not in old.read("network.json")
    images = b.image(2)
    assert np.array_equal(CompiledNetwork.load(tmp_path / "old.zip")(images), ready(images))


def test_tensors_that_are_never_alive_together_share_dram(onnx_models: ModuleType, tmp_path: Path) -> None:
    ends = []
    for count in (3, 8):
        b = onnx_models.Builder("integer", np.random.default_rng(0), (1, 16, 40, 40))
        last = "x"
        for _ in range(count):
            last = b.conv(last, 16, 1)
        net = load(saved(b.model(last), tmp_path / "net.onnx"))
        ready = net.compile(tmp_path)
        ends.append(ready.streams[0].program.insn_address)
        x = b.image()
        assert np.array_equal(ready(x), reference.run(net.graph, {"x": x})[last])
        assert check_races(ready.streams[0].program) == []
    # Five layers more, each with a page of weights and one of bias; their tensors of 25 600 bytes take no place of their own.
    assert 5 * 2 * 4096 <= ends[1] - ends[0] <= 5 * 2 * 4096 + 2 * 4096


def test_what_nobody_tuned_is_drafted_once_for_each_machine(
    onnx_models: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(func: PrimFunc, target: Target) -> Space:
        made.append(target.name)
        return Space(func, target)

    monkeypatch.setattr("space.Space", counted)
    for known in (network.draft, network.bound):
        known.cache_clear()
    b = onnx_models.Builder("integer", np.random.default_rng(0), (1, 16, 6, 5))
    file = saved(b.model(b.conv("x", 16, 1)), tmp_path / "net.onnx")
    x, ready = b.image(), []
    for machine, more in (("vta-de10", 2), ("vta-de10", 0), ("vta-pynq", 2), ("vta-de10", 0)):
        before = len(made)
        ready.append(load(file, machine).compile(tmp_path))
        # One for the schedule, one for what no schedule can do without.
        assert made[before:] == [machine] * more
        assert np.array_equal(ready[-1](x), ready[0](x))
    programs = [r.streams[0].program for r in ready]
    for again in (programs[1], programs[3]):
        assert np.array_equal(again.table, programs[0].table) and again.cycles == programs[0].cycles
    assert programs[0].cycles != programs[2].cycles
    assert ready[1].streams[0].layers == ready[0].streams[0].layers


@pytest.mark.parametrize(("groups", "ci", "co", "kind", "left"), [
    (4, 8, 16, "conv", 2),  # two are 16 and 32 channels
    (4, 24, 24, "conv", 2),
    (8, 6, 12, "conv", 1),  # eight are 48 and 96
    (16, 6, 6, "conv", 2),
    (3, 8, 16, "conv", 1),  # two are whole, and one is left
    (4, 16, 32, "conv", 4),
    (8, 4, 4, "depthwise", 1),
    (2, 8, 8, "depthwise", 1),
])
def test_groups_that_are_no_blocks_are_together_in_blocks(
    groups: int, ci: int, co: int, kind: str, left: int, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, groups * ci, 4, 4))
    last = b.conv("x", groups * co, 3, pad=1, group=groups, per_channel=True)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    (layer,) = net.graph.layers
    spec = spec_of(net.graph, layer, (1, groups * ci, 4, 4), 16)
    assert (spec.kind, spec.groups) == (kind, left)
    if kind == "conv":
        assert (spec.ci, spec.co) == (groups * ci // left, groups * co // left)
    x = b.image()
    assert np.array_equal(net.compile(tmp_path)(x), reference.run(net.graph, {"x": x})[last])


@pytest.mark.parametrize("alike", [False, True])
def test_the_bound_knows_what_constants_take_of_the_bus(
    alike: bool, onnx_models: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = onnx_models.Builder("integer", np.random.default_rng(0), (1, 128, 1, 1))
    if alike:
        same = b.weight((128, 128, 1, 1))
        monkeypatch.setattr(b, "weight", lambda shape, spread=40: same)
    net = load(saved(b.model(b.conv(b.conv("x", 128, 1), 128, 1)), tmp_path / "net.onnx")).compile(tmp_path)
    (stream,) = net.streams
    # 8 bytes a cycle; equal constants might be loaded once, and biases differ.
    assert stream.words == ((1 if alike else 2) * 128 * 128 + 2 * 128 * 4) // 8
    assert sum(x.work for x in stream.layers) < stream.words < stream.bound < stream.cycles
    net.save(tmp_path / "net.zip")
    assert network_archive.load(tmp_path / "net.zip").streams[0].bound == stream.bound


@pytest.mark.parametrize(("kind", "told"), [
    ("autosched-network-3", "saved by another version of autosched, as autosched-network-3, and autosched-network-5 is read"),
    ("autosched-network-x", "not a network saved by autosched"), (None, "not a network saved by autosched"),
])
def test_what_another_version_saved_is_told_apart(kind: str | None, told: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        archive.writestr("network.json", json.dumps({"format": kind}))
    with pytest.raises(ProgramError, match=told):
        CompiledNetwork.load(tmp_path / "net.zip")


def test_a_sum_joins_a_convolution_that_nobody_else_reads(onnx_models: ModuleType, tmp_path: Path) -> None:
    """A sum of a tensor with itself, a result that others read or that leaves the network: each keeps a layer of its own."""
    from autosched.networks.residuals import candidates

    def found(build: Any) -> list[str]:
        b = onnx_models.Builder("integer", np.random.default_rng(0), (1, 16, 4, 4))
        outputs = build(b)
        net = load(saved(b.model(*outputs), tmp_path / "net.onnx"))
        return [conv.name for conv, _ in candidates(net.packed).values()]

    def conv(b: Any) -> str:
        return str(b.conv("x", 16, 1))

    assert len(found(lambda b: [b.add(conv(b), "x")])) == 1
    assert len(found(lambda b: [b.add("x", conv(b))])) == 1
    assert len(found(lambda b: [b.add(conv(b), conv(b))])) == 1
    assert found(lambda b: [b.add("x", "x")]) == []
    assert found(lambda b: [b.add(t := conv(b), "x"), t]) == []
    assert found(lambda b: [b.add(t := conv(b), "x"), b.conv(t, 16, 1)]) == []
    assert found(lambda b: [b.add(b.conv("x", 16, 1, group=2), "x")]) == []


@pytest.mark.parametrize("transposed", [False, True])
def test_a_dense_layer_as_onnxruntime_writes_it(transposed: bool, onnx_models: ModuleType, tmp_path: Path) -> None:
    from onnx import helper, numpy_helper

    b = onnx_models.residual("qlinear", np.random.default_rng(3))
    model, x = b.model(b.last), b.image(2)
    plain = load(saved(model, tmp_path / "plain.onnx")).compile(tmp_path)(x)
    node = next(n for n in model.graph.node if n.op_type == "QLinearMatMul")
    *operands, scale, zero = node.input
    if transposed:
        weight = next(c for c in model.graph.initializer if c.name == node.input[3])
        weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(numpy_helper.to_array(weight).T), weight.name))
    node.CopyFrom(helper.make_node(
        "QGemm", [*operands, "", scale, zero], list(node.output), name="dense", domain="com.microsoft", transB=int(transposed)))
    net = load(saved(model, tmp_path / "net.onnx"))
    assert net.graph.share() == 1.0 and net.graph.layers[-1].name == "dense"
    assert np.array_equal(net.compile(tmp_path)(x), plain)
    node.attribute.append(helper.make_attribute("alpha", 2.0))
    left = load(saved(model, tmp_path / "net.onnx")).graph.host_parts[-1].nodes
    assert [(n.op, n.reason) for n in left] == [("QGemm", "alpha and beta other than 1 are not on the machine")]


def test_what_is_never_negative_is_known_through_views_and_maxima() -> None:
    """Padding of a pool is 0 on the machine."""
    for low, top, known in ((0, 1, 0), (-5, 1, -5), (3, 1, 0), (3, 0, 3)):
        requant = Requant(np.zeros(1, np.int64), np.zeros(1, np.int64), low, 127)
        layers = (Layer("c", "conv", ("x",), "c", requant, np.zeros((16, 16, 1, 1), np.int8)),
                  Layer("m", "max", ("c",), "m", kernel=(3, 3), pads=(top, 0, 0, 0)), Layer("v", "view", ("m",), "v"))
        assert least(layers, "v") == known
    assert least(layers, "x") == -128


def test_programs_of_one_structure_promise_the_same(onnx_models: ModuleType, tmp_path: Path) -> None:
    """Of a residual's other operand the sign alone: a range of its own would give a program another form than its structure's."""
    b = onnx_models.residual("integer", np.random.default_rng(0))
    graph = load(saved(b.model(b.last), tmp_path / "net.onnx")).packed
    graph = fused(graph, candidates(graph))
    layer = next(x for x in graph.layers if x.residual is not None and any(y.output == x.inputs[-1] for y in graph.layers))
    for low, promised in ((-128, -128), (-7, -128), (0, 0), (5, 0)):
        steps = tuple([replace(x, requant=replace(x.requant, low=low), residual=None) if isinstance(x, Layer) and x.requant
                       and x.output == layer.inputs[-1] else x for x in graph.steps])
        spec = spec_of(replace(graph, steps=steps), layer, graph.tensors[layer.inputs[0]].shape, 16)
        assert spec.residual is not None and spec.residual.least == promised
        assert spec.structure().residual == spec.residual


@pytest.mark.parametrize(("channels", "fits"), [(512, False), (256, True)])
def test_a_pool_joins_a_convolution_where_the_memories_have_room(
    channels: int, fits: bool, onnx_models: ModuleType, tmp_path: Path, brief: None
) -> None:
    """Both in one hold all of a weight at once; what has no room stays apart, in what is compiled and in what is tuned."""
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, channels, 3, 3))
    last = b.maxpool(b.conv("x", 16, 7, pad=3, relu=False))
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    x = b.image()
    want = reference.run(net.graph, {"x": x})[last]
    for fuse in (None, True):
        ready = net.compile(tmp_path, fuse=fuse)
        assert [layer.kind for layer in ready.streams[0].layers] == (["conv"] if fuse and fits else ["conv", "max"])
        assert np.array_equal(ready(x), want)
    report = net.tune(trials=1, jobs=1, log=tmp_path / "log", sampler="random")
    assert len([t for t in report.tasks if " + " in t.workload]) == fits and len(report.tasks) == 2 + fits
    assert all(t.verified for t in report.tasks)
    assert np.array_equal(net.compile(tmp_path / "log")(x), want)
