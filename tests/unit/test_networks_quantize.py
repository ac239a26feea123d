"""From float to powers of two, and the digits network whole: 300 images, the same bytes, the accuracy of float."""

from __future__ import annotations

import cProfile
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError, UnknownNameError
from autosched.networks import load, reference
from autosched.networks.compare import differences
from autosched.networks.onnx_file import read
from autosched.networks.quantize import Report, quantize

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
IMAGES = 300


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory, onnx_models: ModuleType) -> tuple[Path, Report, dict[str, Any]]:
    data = np.load(EXAMPLES / "digits_calibration.npz")
    test = dict(np.load(EXAMPLES / "digits_test.npz"))
    path = tmp_path_factory.mktemp("digits") / "q.onnx"
    return path, quantize(EXAMPLES / "digits.onnx", {"image": data["image"]}, path), test


def test_digits_run_whole(digits: tuple[Path, Report, dict[str, Any]]) -> None:
    path, report, test = digits
    x, labels = test["image"][:IMAGES], test["labels"][:IMAGES]
    net = load(path)
    assert [n.op for p in net.graph.host_parts for n in p.nodes] == ["QuantizeLinear", "DequantizeLinear"]
    ready = net.compile(path.parent)
    assert len(ready.streams) == 1
    got = ready(x)
    checked = reference.session(reference.build(net.graph))
    want = np.concatenate([checked.run(None, {"image": x[k : k + 1]})[0] for k in range(IMAGES)])
    assert got.tobytes() == want.tobytes()
    before = reference.session((EXAMPLES / "digits.onnx").read_bytes())
    floats = np.concatenate([before.run(None, {"image": x[k : k + 1]})[0] for k in range(IMAGES)])
    right, right_float = (float((y.argmax(axis=1) == labels).mean()) for y in (got, floats))
    assert right_float > 0.97
    assert right >= right_float - 0.01
    assert all(f.inside >= 0.3 and f.snr > 20 for f in report.layers), report.layers
    assert len({f.tensor for f in report.layers}) == 11


def test_digits_differ_from_their_file_in_ties_alone(digits: tuple[Path, Report, dict[str, Any]]) -> None:
    path, _, test = digits
    file, graph = read(path), load(path).graph
    found = [d for k in range(20) for d in differences(graph, file, {"image": test["image"][k : k + 1]})]
    assert sum(d.ties for d in found) > 0
    assert all(d.unexplained == 0 and d.mean == 0 and d.beyond == 0 for d in found)


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_every_calibrator_gives_a_network_that_runs(
    method: str, per_channel: bool, onnx_models: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = np.load(EXAMPLES / "digits_test.npz")
    data = {"image": np.load(EXAMPLES / "digits_calibration.npz")["image"][:40]}
    report = quantize(
        EXAMPLES / "digits.onnx", data, tmp_path / "q.onnx", method=method, per_channel=per_channel,
    )
    assert report.images == 40 and report.accuracy is None
    assert capsys.readouterr().out == "", "what histograms announce is no line of ours"
    net = load(tmp_path / "q.onnx")
    shifts = {len(x.requant.shift) for x in net.graph.layers if x.requant is not None}
    assert (max(shifts) > 1) == per_channel
    again = quantize(tmp_path / "q.onnx", data, tmp_path / "r.onnx", method=method, per_channel=per_channel)
    assert min(f.snr for f in again.layers if f.tensor != "image") > 20
    if method == "minmax":
        x = test["image"][:2]
        want = np.concatenate([reference.run(net.graph, {"image": v[None]})["logits"] for v in x])
        assert np.array_equal(net.compile(tmp_path)(x), want)


def test_what_a_clip_cuts_off_is_inside_at_no_scale(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(16, 16, 1, 1)).astype(np.float32), np.full(16, -3.0, np.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Clip", ["c", "zero", "two"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 6, 6]) for name in ("x", "y")]
    limits = (("zero", 0.0), ("two", 2.0))
    held = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b"),
            *(numpy_helper.from_array(np.array(value, np.float32), name) for name, value in limits)]
    graph = helper.make_graph(nodes, "one", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    x = rng.normal(size=(8, 16, 6, 6)).astype(np.float32)
    report = quantize(tmp_path / "net.onnx", {"x": x}, tmp_path / "q.onnx")
    sums = np.einsum("oi,nihw->nohw", w[:, :, 0, 0], x) + b[:, None, None]
    between = float(((sums > 0) & (sums < 2)).mean())
    image, layer = report.layers
    assert image.inside_float == 1.0 and layer.inside_float == pytest.approx(between, abs=1e-3) and between < 0.2
    assert between - 0.03 < layer.inside < between + 0.01 < float((sums > 0).mean()) - 0.03


def test_labels_give_accuracies(onnx_models: ModuleType, tmp_path: Path) -> None:
    test = np.load(EXAMPLES / "digits_test.npz")
    report = quantize(
        EXAMPLES / "digits.onnx", {"image": test["image"][:100]}, tmp_path / "q.onnx", labels=test["labels"][:100],
    )
    assert report.accuracy is not None and report.float_accuracy is not None
    assert report.accuracy > 0.95 and report.images == 100


def test_a_network_with_other_scales_gets_a_way_out(onnx_models: ModuleType, tmp_path: Path) -> None:
    from onnx import numpy_helper

    b = onnx_models.residual("qdq", np.random.default_rng(0), channels=8)
    model = b.model(b.last)
    for c in model.graph.initializer:
        if c.name.startswith("scale"):
            c.CopyFrom(numpy_helper.from_array((numpy_helper.to_array(c) * 1.1).astype(np.float32), c.name))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ProgramError, match=r"no power of two; make one that is: autosched quantize net\.onnx"):
        load(tmp_path / "net.onnx")


@pytest.mark.parametrize(("data", "words"), [
    ({"image": np.zeros((0, 1, 8, 8), np.float32)}, "holds no image"),
    ({"image": np.zeros((4, 1, 8, 9), np.float32)}, "expected images of shape"),
    ({"image": np.zeros((4, 1, 8, 8))}, "expected float32, got float64"),
    ({"image": np.full((4, 1, 8, 8), np.nan, np.float32)}, "not finite"),
    ({"a": np.zeros((4, 1, 8, 8), np.float32), "b": np.zeros(3)}, "the network takes image"),
    ({}, "holds nothing"),
])
def test_a_calibration_set_that_does_not_fit_is_refused(
    data: dict[str, Any], words: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(ProgramError, match=words):
        quantize(EXAMPLES / "digits.onnx", data, tmp_path / "q.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("labels", "words"), [
    (np.zeros(3), "3 labels for 2 images"), (np.zeros(1, np.int64), "1 labels for 2 images"), (np.array(["a", "b"]), "got <U1"),
    (np.array([0.5, 1]), "the numbers of classes, got float64"),
])
def test_labels_that_do_not_fit_are_refused(labels: Any, words: str, tmp_path: Path) -> None:
    images = np.load(EXAMPLES / "digits_test.npz")["image"][:2]
    with pytest.raises(ProgramError, match=words):
        quantize(EXAMPLES / "digits.onnx", {"image": images}, tmp_path / "q.onnx", labels=labels)
    assert list(tmp_path.iterdir()) == []
    assert quantize(EXAMPLES / "digits.onnx", {"image": images}, tmp_path / "q.onnx", labels=np.zeros((2, 1))).images == 2


def test_an_unknown_calibrator_is_refused(onnx_models: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="minmax"):
        quantize(EXAMPLES / "digits.onnx", {}, tmp_path / "q.onnx", method="minmix")


def float_net(opset: int, blank: bool = False) -> Any:
    """A float network as older exporters write them: constants reshaped in the graph, biases as sums, a pool, a mean."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    init = {
        "w": rng.normal(0, 0.3, (16, 3, 3, 3)), "b": rng.normal(0, 0.1, (16, 1, 1)), "flat": rng.normal(0, 0.2, 160),
        "gamma": rng.uniform(0.5, 1.5, 16), "beta": rng.normal(0, 0.1, 16), "mean": rng.normal(0, 0.1, 16),
        "var": rng.uniform(0.5, 1.5, 16), "w2": rng.normal(0, 0.2, (16, 16, 3, 3)), "c": rng.normal(0, 0.1, (1, 10)),
    }
    shapes = {"to": np.array([16, 10], np.int64), "row": np.array([1, 16], np.int64)}
    constants = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in init.items()]
    constants += [numpy_helper.from_array(v, k) for k, v in shapes.items()]
    if blank:
        for c in constants[:9]:
            c.ClearField("raw_data")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]), helper.make_node("Add", ["a", "b"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]), helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["f", "w2"], ["g"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["g", "gamma", "beta", "mean", "var"], ["h"]),
        helper.make_node("Add", ["h", "f"], ["i"]), helper.make_node("GlobalAveragePool", ["i"], ["j"]),
        helper.make_node("Reshape", ["j", "row"], ["k"]), helper.make_node("Reshape", ["flat", "to"], ["m"]),
        helper.make_node("MatMul", ["k", "m"], ["n"]), helper.make_node("Add", ["n", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "old", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])], constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def newest() -> int:
    """The newest operator set that onnx and onnxruntime both know."""
    import onnx
    from onnx import TensorProto, helper

    for opset in range(onnx.defs.onnx_opset_version(), 21, -1):
        # onnxruntime takes sets in steps: the operators of quantization are among the last.
        graph = helper.make_graph(
            [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
            "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
            [helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]), helper.make_tensor("z", TensorProto.INT8, [], [0])],
        )
        try:
            reference.session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))
        except ProgramError:
            continue
        return opset
    return 21


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 21, None])
def test_networks_of_all_ages_run_after_quantize(opset: int | None, onnx_models: ModuleType, tmp_path: Path) -> None:
    if opset is None:
        opset = newest()
    (tmp_path / "old.onnx").write_bytes(float_net(opset).SerializeToString())
    x = np.random.default_rng(1).normal(size=(6, 3, 12, 12)).astype(np.float32)
    report = quantize(tmp_path / "old.onnx", {"x": x}, tmp_path / "q.onnx")
    assert min(f.snr for f in report.layers) > 15, report.layers
    net = load(tmp_path / "q.onnx")
    assert net.graph.share() == 1.0
    assert [n.op for p in net.graph.host_parts for n in p.nodes] == ["QuantizeLinear", "DequantizeLinear"]
    ready = net.compile(tmp_path)
    want = np.concatenate([reference.run(net.graph, {"x": v[None]})["y"] for v in x[:2]])
    assert np.array_equal(ready(x[:2]), want)


def test_shapes_alone_can_be_tuned_and_not_run(onnx_models: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "full.onnx").write_bytes(float_net(17).SerializeToString())
    (tmp_path / "shapes.onnx").write_bytes(float_net(17, blank=True).SerializeToString())
    net = load(tmp_path / "shapes.onnx")
    # A sum or pool and the convolution in front of it are a task together as well, and a stem is one for every way to gather.
    gathered = [n for t in net.tasks for n in t.layers if " by " in n]
    assert net.graph.blank == "w" and len(net.tasks) == 7 + len(gathered) == 11
    ready = net.compile(tmp_path)
    assert ready.cycles > 0
    with pytest.raises(ProgramError, match="shapes: 'w' has a shape and no data, so the network can be tuned and not run"):
        ready(np.zeros((1, 3, 12, 12), np.float32))
    with pytest.raises(ProgramError, match="'w' has a shape and no data"):
        quantize(tmp_path / "shapes.onnx", {"x": np.zeros((1, 3, 12, 12), np.float32)}, tmp_path / "q.onnx")
    ready.save(tmp_path / "s.zip")
    from autosched.networks import CompiledNetwork

    with pytest.raises(ProgramError, match="no data"):
        CompiledNetwork.load(tmp_path / "s.zip")(np.zeros((1, 3, 12, 12), np.float32))


def test_what_the_machine_cannot_do_splits_a_network_and_keeps_its_layers(tmp_path: Path) -> None:
    """A product of two tensors is the host's; the convolution behind it is quantized all the same, and zeros join one."""
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, rng.normal(0, 0.2, shape).astype(np.float32).ravel())
        for name, shape in (("w", (8, 3, 3, 3)), ("v", (5, 8, 3, 3)))
    ]
    pads = helper.make_tensor("p", TensorProto.INT64, [8], [0, 0, 1, 0, 0, 0, 1, 2])
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], name="first"), helper.make_node("Sigmoid", ["a"], ["s"], name="gate"),
            helper.make_node("Mul", ["a", "s"], ["m"], name="gated"), helper.make_node("Pad", ["m", "p"], ["z"], name="zeros"),
            helper.make_node("Conv", ["z", "v"], ["y"], name="second"),
        ], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 4, 4])], [*weights, pads],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "f.onnx").write_bytes(model.SerializeToString())
    x = rng.normal(0, 1, (4, 3, 6, 6)).astype(np.float32)
    report = quantize(tmp_path / "f.onnx", {"x": x}, tmp_path / "q.onnx")
    assert min(f.snr for f in report.layers) > 20
    net = load(tmp_path / "q.onnx")
    assert [(k.name, k.kind, k.pads) for k in net.graph.layers] == [
        ("first", "conv", (0, 0, 0, 0)), ("second", "conv", (1, 0, 1, 2)),
    ]
    assert [n.name for p in net.graph.host_parts for n in p.nodes if n.op in ("Sigmoid", "Mul", "Pad")] == ["gate", "gated"]
    ready = net.compile(tmp_path)
    want = np.concatenate([reference.run(net.graph, {"x": v[None]})["y"] for v in x])
    made = ready.run(x)
    assert np.array_equal(made.outputs[0], want)
    # Packing and what onnxruntime does, per image: bytes are those of the arrays.
    sizes = {(w.what, w.name): w.bytes for w in made.host}
    assert sizes["pack", "x:q"] == 16 * 36 and sizes["unpack", "second:q" if "second:q" in ready.tensors else "y:q"] == 5 * 16
    assert sizes["onnxruntime", "host0"] == 3 * 36 and all(w.seconds >= 0 for w in made.host)
    with pytest.raises(ProgramError, match="100 % of it is outside of"):
        ready(x + 100)
    assert ready(np.where(x > 1, 100, x).astype(np.float32)).shape == (4, 5, 4, 4)  # some are clipped


@pytest.mark.parametrize(("form", "kind", "per_channel"), [("QDQ", "QInt8", True), ("QOperator", "QUInt8", False)])
def test_what_onnxruntime_quantized_keeps_its_accuracy(form: str, kind: str, per_channel: bool, tmp_path: Path) -> None:
    """Its quantizer drops every Relu whose quantization says the same: the saturation is a clip then."""
    import onnxruntime.quantization as ort

    class Reader(ort.CalibrationDataReader):  # type: ignore[misc]
        left = iter([{"image": x[None]} for x in np.load(EXAMPLES / "digits_calibration.npz")["image"][:30]])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.left, None)

    ort.quantize_static(
        EXAMPLES / "digits.onnx", tmp_path / "theirs.onnx", Reader(), quant_format=ort.QuantFormat[form],
        activation_type=ort.QuantType[kind], weight_type=ort.QuantType.QInt8, per_channel=per_channel,
    )
    with pytest.raises(ProgramError, match=r"no power of two; make one that is: autosched quantize theirs\.onnx"):
        load(tmp_path / "theirs.onnx")
    test = np.load(EXAMPLES / "digits_test.npz")
    images, labels = test["image"][:200], test["labels"][:200]
    report = quantize(tmp_path / "theirs.onnx", {"image": images}, tmp_path / "q.onnx", labels=labels)
    theirs = reference.session((tmp_path / "theirs.onnx").read_bytes())
    got = np.concatenate([theirs.run(None, {"image": x[None]})[0] for x in images])
    right = float((got.argmax(axis=1) == labels).mean())
    # Where a processor adds up pairs of products in 16 bits, onnxruntime's own integers saturate: two images of 200 are lost.
    assert report.float_accuracy is not None and abs(report.float_accuracy - right) < 0.015 and right > 0.97
    assert report.accuracy is not None and report.accuracy >= right - 0.01
    # The clips are those of the layers: none became a layer of its own.
    assert [x.kind for x in load(tmp_path / "q.onnx").graph.layers].count("add") == 2


@pytest.mark.parametrize("bits", [4, 8])
def test_networks_trained_with_quantizers_run(bits: int, onnx_models: ModuleType, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(0, 0.8, (3, 3, 9, 9)).astype(np.float32)
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_models.trained(bits, 2.0**-5).SerializeToString())
    net = load(path)
    ends = [(k.requant.low, k.requant.high) for k in net.graph.layers if k.requant is not None]
    assert ends == ([(0, 15), (-8, 7)] if bits == 4 else [(0, 127), (-128, 127)])
    found = differences(net.graph, read(path), {"x": x[:1]})
    assert len(found) == 2 and all(d.unexplained == 0 for d in found), found
    (out,) = net.graph.outputs
    want = np.concatenate([reference.run(net.graph, {"x": v[None]})[out] for v in x])
    assert np.array_equal(net.compile(tmp_path)(x), want)
    # The same with other scales, and with a zero that padding does not have.
    path.write_bytes(onnx_models.trained(bits, 0.04, signed=False).SerializeToString())
    report = quantize(path, {"x": x}, tmp_path / "q.onnx")
    assert min(f.snr for f in report.layers) > 25, report.layers
    path.write_bytes(onnx_models.trained(bits, 2.0**-5, signed=False).SerializeToString())
    net = load(path)
    assert [k.requant.bias.ndim for k in net.graph.layers if k.requant is not None] == [1, 3]
    assert all(d.unexplained == 0 for d in differences(net.graph, read(path), {"x": x[:1]}))
    want = np.concatenate([reference.run(net.graph, {"x": v[None]})[out] for v in x])
    assert np.array_equal(net.compile(tmp_path)(x), want)


def draw(*shape: int, spread: float = 0.2) -> Any:
    return (spread * np.random.default_rng([7, *shape]).normal(size=shape)).astype(np.float32)


IMAGES_OF_3 = draw(6, 3, 6, 6, spread=1)


def written(
    folder: Path, nodes: Sequence[Any], outputs: Mapping[str, Any], constants: Mapping[str, Any], domains: Sequence[str] = (),
    known: Mapping[str, Any] | None = None,
) -> Path:
    """A float network on images of 3 channels, 6x6; outputs and known tensors by name, float32 of extents or (type, extents)."""
    from onnx import TensorProto, helper, numpy_helper

    def info(name: str, kind: Any) -> Any:
        return helper.make_tensor_value_info(name, *(kind if isinstance(kind, tuple) else (TensorProto.FLOAT, kind)))

    graph = helper.make_graph(
        list(nodes), "g", [info("x", [1, 3, 6, 6])], [info(n, k) for n, k in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
        value_info=[info(n, k) for n, k in (known or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    path = folder / "f.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def n(op: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    from onnx import helper

    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def near(path: Path, per_channel: bool = False, images: Any = IMAGES_OF_3, most: float = 0.08) -> Report:
    """Quantizes, compares what onnxruntime makes of both files, relative to the greatest output, and imports the result."""
    made = path.with_name("q.onnx")
    report = quantize(path, {"x": images}, made, per_channel=per_channel)
    before, after = (reference.session(p.read_bytes()).run(None, {"x": images[:1]}) for p in (path, made))
    for a, b in zip(before, after):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind == "f":
            assert np.abs(a - b).max() <= most * max(np.abs(a).max(), 1e-6), (a, b)
    graph = load(made).graph
    found = reference.run(graph, {"x": images[:1]})
    assert all(found[name].shape == b.shape for name, b in zip(graph.outputs, after))
    return report


CONV = ("Conv", "x w", "c")
WEIGHTS = draw(8, 3, 3, 3)
NORM = {"gamma": np.abs(draw(8)) + 0.5, "beta": draw(8), "mean": draw(8), "var": np.abs(draw(8)) + 0.2}


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_gemm_takes_in_a_bias_whatever_its_beta(has_bias: bool, tmp_path: Path) -> None:
    """Without a bias of its own beta means nothing; with one, an Add behind it stays an Add."""
    held = {"w": draw(108, 5, spread=0.05), "b": draw(5, spread=20), "own": draw(5)}
    nodes = [n("Flatten", "x", "f"), n("Gemm", "f w own" if has_bias else "f w", "m", beta=0.5), n("Add", "m b", "y")]
    # What is not plain is the host's: a bias of which a part counts is not to be cut where a whole one would saturate.
    nodes.append(n("Gemm", "f w", "z"))  # something for the machine anyhow
    near(written(tmp_path, nodes, {"y": [1, 5], "z": [1, 5]}, {**held, "own": held["own"] * 1000}))
    ops = [k.op for k in read(tmp_path / "q.onnx").nodes if "Linear" not in k.op]
    assert ops == ["Flatten", "Gemm", "Add", "Gemm"] if has_bias else ops == ["Flatten", "Gemm", "Gemm"]


@pytest.mark.parametrize(("training", "outputs"), [(0, "y"), (1, "y m2 v2")])
def test_a_norm_that_trains_is_not_folded(training: int, outputs: str, tmp_path: Path) -> None:
    norm = n("BatchNormalization", "c gamma beta mean var", outputs, training_mode=training)
    results = {"y": [1, 8, 4, 4], **({"m2": [8]} if training else {})}
    near(written(tmp_path, [n(*CONV), norm], results, {"w": WEIGHTS, **NORM}))
    assert bool(training) == any(k.op == "BatchNormalization" for k in read(tmp_path / "q.onnx").nodes)


def test_what_is_added_to_a_volume_is_no_bias(tmp_path: Path) -> None:
    """One number per depth looks like one per channel of an image where there are as many."""
    nodes = [n("Reshape", "x to", "v"), n("Conv", "v w", "c"), n("Add", "c k", "y")]
    held = {"to": np.array([1, 3, 4, 3, 3]), "w": draw(4, 3, 1, 1, 1), "k": draw(4, 1, 1, spread=2)}
    nodes.append(n("Conv", "x other", "z"))  # something for the machine anyhow
    near(written(tmp_path, nodes, {"y": [1, 4, 4, 3, 3], "z": [1, 8, 4, 4]}, {**held, "other": WEIGHTS}))
    assert [k.op for k in read(tmp_path / "q.onnx").nodes].count("Add") == 1
    for added in ("c k", "k c"):
        near(written(tmp_path, [n(*CONV), n("Add", added, "y")], {"y": [1, 8, 4, 4]}, {"w": WEIGHTS, "k": draw(8, 1, 1)}))
        assert [k.op for k in read(tmp_path / "q.onnx").nodes].count("Add") == 0


@pytest.mark.parametrize(("rows", "bias", "op"), [
    ([12, 9], (5,), "Gemm"), ([1, 12, 9], (5,), "Gemm"), ([12, 9], (1, 1, 5), "MatMul"),
])
@pytest.mark.parametrize("added", ["m b", "b m"])
def test_products_of_matrices_become_a_gemm(
    rows: list[int], bias: tuple[int, ...], op: str, added: str, tmp_path: Path
) -> None:
    nodes = [n("Reshape", "x to", "f"), n("MatMul", "f w", "m"), n("Add", added, "y")]
    held = {"to": np.array(rows), "w": draw(9, 5), "b": draw(*bias)}
    shape = [*rows[:-1], 5] if len(bias) <= len(rows) else [1, *rows[:-1], 5]
    near(written(tmp_path, nodes, {"y": shape}, held))
    assert [k.op for k in read(tmp_path / "q.onnx").nodes if k.op in ("Gemm", "MatMul")] == [op]


@pytest.mark.parametrize("fill", [0.0, 50.0, None])
def test_a_pad_of_what_is_not_zero_has_a_scale_of_its_own(fill: float | None, tmp_path: Path) -> None:
    """None: an edge that is repeated, which makes no new values."""
    pads = {"p": np.array([0, 0, 1, 2, 0, 0, 0, 1]), **({} if fill is None else {"fill": np.float32(fill)})}
    mode = {} if fill is not None else {"mode": "edge"}
    nodes = [n(*CONV), n("Pad", "c p" if fill is None else "c p fill", "z", **mode), n("Conv", "z v", "y")]
    report = near(written(tmp_path, nodes, {"y": [1, 4, 5, 7]}, {"w": WEIGHTS, "v": draw(4, 8, 1, 1), **pads}))
    assert min(f.snr for f in report.layers) > 25
    q = read(tmp_path / "q.onnx")
    steps = {t: float(q.constants[node.inputs[1]]) for t in ("c", "z") for node in q.nodes if node.name == f"{t}:quantize"}
    assert (steps["c"] == steps["z"]) == (not fill)


def test_an_operator_with_a_computed_bias_stays_in_float(tmp_path: Path) -> None:
    nodes = [n("ReduceMean", "x", "m", axes=[0, 2, 3], keepdims=0), n("Conv", "x w m", "c"), n("Conv", "c v", "y")]
    near(written(tmp_path, nodes, {"y": [1, 4, 4, 4]}, {"w": draw(3, 3, 3, 3), "v": draw(4, 3, 1, 1)}))
    assert [k.name for k in load(tmp_path / "q.onnx").graph.layers] == ["Conv_2"]


def test_attributes_are_written_as_the_file_has_them(tmp_path: Path) -> None:
    from onnx import AttributeProto

    mean = n("ReduceMean", "c", "y", keepdims=1)
    mean.attribute.add(name="axes", type=AttributeProto.INTS)  # of no element: all
    near(written(tmp_path, [n(*CONV), mean], {"y": [1, 1, 1, 1]}, {"w": WEIGHTS}), most=0.2)


@pytest.mark.parametrize(("tail", "outputs"), [
    ([("ArgMax", "f", "y", {"axis": 1})], {"y": (7, [1, 1])}), ([("TopK", "f k", "v i", {})], {"v": [1, 2], "i": (7, [1, 2])}),
    ([("Greater", "f half", "y", {})], {"y": (9, [1, 8])}),
])
def test_outputs_keep_their_types(tail: Sequence[Any], outputs: Mapping[str, Any], tmp_path: Path) -> None:
    nodes = [n(*CONV), n("GlobalAveragePool", "c", "g"), n("Flatten", "g", "f"), *(n(o, i, r, **a) for o, i, r, a in tail)]
    path = written(tmp_path, nodes, outputs, {"w": WEIGHTS, "k": np.array([2]), "half": np.float32(0.01)})
    near(path)
    if "ArgMax" in tail[0]:
        # A network that names the class itself is asked for it.
        labels = np.concatenate([reference.session(path.read_bytes()).run(None, {"x": x[None]})[0] for x in IMAGES_OF_3])
        report = quantize(path, {"x": IMAGES_OF_3}, tmp_path / "q.onnx", labels=labels)
        assert report.float_accuracy == 1.0 and report.accuracy is not None and report.accuracy > 0.6


def test_outputs_of_quantizers_are_given_in_float_and_other_integers_as_they_are(tmp_path: Path) -> None:
    nodes = [
        n("QuantizeLinear", "x s z", "xq"), n("DequantizeLinear", "xq s z", "xd"), n("Conv", "xd w", "c"),
        n("QuantizeLinear", "c s z", "cq"), n("MaxPool", "cq", "p", kernel_shape=[2, 2]), n("ArgMax", "cq", "best", axis=1),
        n("Cast", "x", "own", to=3),
    ]
    outputs = {"cq": (3, [1, 8, 4, 4]), "p": (3, [1, 8, 3, 3]), "best": (7, [1, 1, 4, 4]), "own": (3, [1, 3, 6, 6])}
    held = {"w": WEIGHTS, "s": np.float32(0.03), "z": np.int8(0)}
    quantize(written(tmp_path, nodes, outputs, held), {"x": IMAGES_OF_3}, tmp_path / "q.onnx")
    found = read(tmp_path / "q.onnx")
    assert [found.dtypes[t] for t in found.outputs] == ["float32", "float32", "int64", "int8"]
    assert load(tmp_path / "q.onnx").graph.share() == 1.0


def test_operators_of_other_sets_stay_in_theirs(tmp_path: Path) -> None:
    nodes = [n(*CONV), n("Gelu", "c", "g", domain="com.microsoft"), n("Conv", "g v", "y")]
    held = {"w": WEIGHTS, "v": draw(8, 8, 1, 1)}
    near(written(tmp_path, nodes, {"y": [1, 8, 4, 4]}, held, ["com.microsoft"], {"g": [1, 8, 4, 4]}))
    assert len(load(tmp_path / "q.onnx").graph.layers) == 2


@pytest.mark.parametrize("middle", ["x:q", "x:dq", "scale:5", "Conv_0:w:q", "zero:int8:1", "y:float", "Conv_0:bias"])
def test_names_that_the_file_has_are_left_to_it(middle: str, tmp_path: Path) -> None:
    nodes = [n(*CONV), n("Add", "c k", "b"), n("Add", "b b", middle), n("Conv", f"{middle} v", "y", name="x:quantize")]
    held = {"w": WEIGHTS, "k": draw(8, 1, 1), "v": draw(4, 8, 1, 1)}
    near(written(tmp_path, nodes, {"y": [1, 4, 4, 4]}, held))
    assert len(load(tmp_path / "q.onnx").graph.layers) == 3


def dead(weight: float, others: float, bias: float) -> dict[str, Any]:
    """A convolution one of whose channels has hardly a weight, and biases."""
    w = np.abs(WEIGHTS) * np.float32(others)
    w[2] = weight
    return {"w": w, "b": np.full(8, bias, np.float32)}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("weight", "others", "bias"), [
    (1e-10, 1, 2), (1e-10, 1, 30), (1e-10, 3000, 0.5), (1e-7, 1e-6, 50), (0, 1, -1e9), (1e-10, 1, 1e-5), (1, 1, 4e4),
])
def test_scales_are_no_finer_than_the_machine_can_add_up(
    weight: float, others: float, bias: float, per_channel: bool, tmp_path: Path
) -> None:
    path = written(tmp_path, [n("Conv", "x w b", "c"), n("Relu", "c", "y")], {"y": [1, 8, 4, 4]}, dead(weight, others, bias))
    images = np.abs(IMAGES_OF_3)
    report = near(path, per_channel, images)
    assert all(f.snr > 25 for f in report.layers)
    (layer,) = [k for k in load(tmp_path / "q.onnx").graph.layers if k.kind == "conv"]
    assert layer.requant is not None and layer.requant.shift.min() >= 0 and layer.requant.shift.max() <= 31


def test_a_layer_that_a_clip_leaves_little_of_is_no_finer_than_its_sums(tmp_path: Path) -> None:
    held = {"w": WEIGHTS * np.float32(100), "b": np.full(8, -400, np.float32), "low": np.float32(0), "high": np.float32(1e-4)}
    near(written(tmp_path, [n("Conv", "x w b", "c"), n("Clip", "c low high", "y")], {"y": [1, 8, 4, 4]}, held), most=1)
    assert len(load(tmp_path / "q.onnx").graph.layers) == 1


def test_a_bias_that_saturates_its_channel_costs_the_others_nothing(tmp_path: Path) -> None:
    """What is below the clip whatever the image is need not be said to the last bit; one step less would be wrong."""
    held = dead(1, 1, 0)
    held["b"][5] = -1e9
    nodes, shape = [n("Conv", "x w b", "c"), n("Relu", "c", "y")], {"y": [1, 8, 4, 4]}
    with_it = near(written(tmp_path, nodes, shape, held), True, np.abs(IMAGES_OF_3))
    held["b"][5] = 0
    held["w"][5] = 0
    without = near(written(tmp_path, nodes, shape, held), True, np.abs(IMAGES_OF_3))
    assert with_it.layers[-1].snr == pytest.approx(without.layers[-1].snr, abs=0.5)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (1, 1), ()])
@pytest.mark.parametrize("per_channel", [False, True])
def test_biases_of_every_form_have_a_scale_per_channel(shape: tuple[int, ...], per_channel: bool, tmp_path: Path) -> None:
    held = {"w": draw(108, 5, spread=0.05) * np.array([1, 8, 1, 0.1, 1], np.float32), "b": np.float32(2) + draw(*shape)}
    near(written(tmp_path, [n("Flatten", "x", "f"), n("Gemm", "f w b", "y")], {"y": [1, 5]}, held), per_channel)
    assert [k.kind for k in load(tmp_path / "q.onnx").graph.layers if k.kind != "view"] == ["dense"]


@pytest.mark.parametrize(("outputs", "kinds"), [
    ({"c": [1, 8, 4, 4], "y": [1, 4, 4, 4]}, ["conv", "add", "conv"]), ({"y": [1, 4, 4, 4]}, ["conv", "conv"]),
    ({"c": [1, 8, 4, 4]}, ["conv"]),
])
def test_an_output_that_a_relu_reads_is_a_tensor_of_the_machine(
    outputs: Mapping[str, Any], kinds: list[str], tmp_path: Path
) -> None:
    """The Relu is a layer of its own, or nobody's; where nobody sees what it clips it is the convolution's clip."""
    nodes = [n(*CONV), n("Relu", "c", "r"), n("Conv", "r v", "y")]
    near(written(tmp_path, nodes, outputs, {"w": WEIGHTS, "v": draw(4, 8, 1, 1)}))
    graph = load(tmp_path / "q.onnx").graph
    assert [k.kind for k in graph.layers if k.kind != "view"] == kinds and graph.share() == 1.0


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
@pytest.mark.parametrize(("value", "where"), [(np.nan, "w"), (np.inf, "b"), (-np.inf, "gamma"), (-1.0, "var")])
def test_weights_that_are_no_numbers_are_refused_by_name(value: float, where: str, method: str, tmp_path: Path) -> None:
    held = {"w": WEIGHTS.copy(), "b": draw(8), **{k: v.copy() for k, v in NORM.items()}}
    held[where].flat[1] = value
    nodes = [n("Conv", "x w b", "c"), n("BatchNormalization", "c gamma beta mean var", "y")]
    path = written(tmp_path, nodes, {"y": [1, 8, 4, 4]}, held)
    # A variance below zero is one no more in the weight that the norm is folded into.
    name = "Conv_0:weight" if where == "var" else where
    with pytest.raises(ProgramError, match=f"'{name}' holds values that are not finite; export the model again"):
        quantize(path, {"x": IMAGES_OF_3}, tmp_path / "q.onnx", method=method)
    assert [p.name for p in tmp_path.iterdir()] == ["f.onnx"]


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_values_that_are_no_numbers_are_refused_by_name(method: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [n("Log", "x", "l"), n("Conv", "l w", "y")], {"y": [1, 8, 4, 4]}, {"w": WEIGHTS})
    with pytest.raises(ProgramError, match="'l' takes values that are not finite on the calibration data"):
        quantize(path, {"x": IMAGES_OF_3}, tmp_path / "q.onnx", method=method)
    with pytest.raises(ProgramError, match="'c' takes values that are not finite"):
        quantize(written(tmp_path, [n(*CONV)], {"c": [1, 8, 4, 4]}, {"w": WEIGHTS}), {"x": np.full_like(IMAGES_OF_3, 3e38)},
                 tmp_path / "q.onnx", method=method)
    assert capfd.readouterr().err == ""
    # A mask is none of the machine's tensors.
    nodes = [n(*CONV), n("Add", "c mask", "s"), n("Softmax", "s", "t"), n("Conv", "t v", "y")]
    mask = np.where(np.arange(4) > 2, -np.inf, 0).astype(np.float32)
    near(written(tmp_path, nodes, {"y": [1, 4, 4, 4]}, {"w": WEIGHTS, "v": draw(4, 8, 1, 1), "mask": mask}))


def test_work_grows_with_the_number_of_nodes(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        nodes, held, at = [], {}, "x"
        for k in range(count):
            held |= {f"w{k}": draw(3, 3, 1, 1, spread=0.6), **{f"{t}{k}": v[:3] for t, v in NORM.items()}}
            norm = n("BatchNormalization", f"c{k} gamma{k} beta{k} mean{k} var{k}", f"n{k}")
            nodes += [n("Conv", f"{at} w{k}", f"c{k}"), norm, n("Relu", f"n{k}", f"r{k}")]
            at = f"r{k}"
        path = written(tmp_path, nodes, {at: [1, 3, 6, 6]}, held)
        profile = cProfile.Profile()
        profile.runcall(quantize, path, {"x": IMAGES_OF_3[:1]}, tmp_path / "q.onnx")
        return sum(entry.callcount for entry in profile.getstats())

    calls(4)  # what is loaded once
    few, many = calls(30), calls(120)
    # Four times as many: by the square it would be 16 times as much, and it was more.
    assert many < 6 * few, (few, many)


@pytest.mark.parametrize("word", [".", "", "/", "no/q.onnx"])
def test_a_path_that_names_no_file_is_refused_before_the_work(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {"": "cannot write '': it names no file", "no/q.onnx": "cannot write no/q.onnx: no is no directory"}
    line = said.get(word, f"cannot write {word}: it is a directory")
    with pytest.raises(ProgramError, match=line.replace(".", r"\.")):
        quantize(EXAMPLES / "digits.onnx", {}, word)
    words = (EXAMPLES / "digits.onnx", "--calibrate", EXAMPLES / "digits_calibration.npz", "-o", word)
    commands = [("quantize", *words), *(("run", EXAMPLES / "digits_q.onnx", option, word) for option in ("--save", "-o"))]
    for given in commands:
        if word:
            assert command(*given) == (2, "", f"autosched: {line}\n")
        else:
            with pytest.raises(SystemExit, match="2"):
                command(*given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["digits.onnx", "./digits.onnx", "link.onnx"])
def test_the_network_that_is_read_is_not_written(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called; and nothing is calibrated first."""
    held = (EXAMPLES / "digits.onnx").read_bytes()
    (tmp_path / "digits.onnx").write_bytes(held)
    (tmp_path / "link.onnx").symlink_to("digits.onnx")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProgramError, match=f"cannot write {re.escape(word)}: it is the network that is quantized"):
        quantize("digits.onnx", {}, word)
    assert (tmp_path / "digits.onnx").read_bytes() == held
