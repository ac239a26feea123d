"""Slopes below zero: a LeakyRelu is part of the layer in front of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.networks import load, reference
from autosched.networks.compare import differences
from autosched.networks.graph import Leak
from autosched.networks.onnx_file import read
from autosched.networks.quantize import quantize
from autosched.networks.scales import SLOPE_ERROR, nearest_slope, slope_of
from sim.races import check_races


def leaky(b: Any, x: str, co: int, alpha: float, kind: str = "conv", **more: Any) -> str:
    """A convolution or dense layer whose tail is a LeakyRelu; written by the builder, and the operator put in front of the Q."""
    out = str(b.conv(x, co, 3, pad=1, relu=False, **more) if kind == "conv" else b.dense(x, co))
    last = b.nodes[-1]
    assert last.op_type == "QuantizeLinear"
    b.nodes.pop()
    last.input[0] = b.node("LeakyRelu", [last.input[0]], alpha=alpha)
    b.nodes.append(last)
    return out


@pytest.mark.parametrize(("alpha", "slope"), [
    (0.125, (1, 3)), (0.5, (1, 1)), (3 / 32, (3, 5)), (13 / 128, (13, 7)), (15 / 16, (15, 4)), (2.0**-12, (1, 12)), (0.1, None),
    (17 / 128, (17, 7)), (31 / 64, (31, 6)), (33 / 128, None), (2.0**-13, None), (0.0, None), (1.0, None), (-0.125, None),
])
def test_slopes_are_numbers_of_few_bits(alpha: float, slope: tuple[int, int] | None) -> None:
    assert slope_of(float(np.float32(alpha))) == slope


@pytest.mark.parametrize(("alpha", "made"), [(0.1, 13 / 128), (0.125, 0.125), (0.2, 13 / 64), (0.01, 5 / 512), (0.3, 19 / 64)])
def test_the_nearest_slope_has_few_bits(alpha: float, made: float) -> None:
    found = nearest_slope(alpha)
    assert abs(found - alpha) <= SLOPE_ERROR * alpha
    assert found == made


def test_a_slope_that_has_none_near_stays() -> None:
    assert nearest_slope(-0.3) == -0.3 and nearest_slope(2.0**-20) == 2.0**-20


@pytest.mark.parametrize(("kind", "alpha", "rounding"), [
    ("conv", 0.125, "floor"), ("conv", 13 / 128, "half-up"), ("dense", 3 / 32, "half-up"),
    *(pytest.param(k, a, r, marks=pytest.mark.slow) for k, a, r in product(
        ("conv", "dense"), (0.125, 3 / 32, 13 / 128), ("half-up", "floor"))),
])
def test_a_leaky_layer_gives_the_bytes_of_its_integer_form(
    kind: str, alpha: float, rounding: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 16, 4, 4) if kind == "conv" else (1, 32))
    last = leaky(b, leaky(b, "x", 16, alpha, kind), 16, alpha, kind)
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model(last).SerializeToString())
    net = load(path, rounding=rounding)
    assert not net.graph.host_parts and all(x.requant is not None and x.requant.leak is not None for x in net.graph.layers)
    ready, images = net.compile(tmp_path), b.image(2)
    want = np.concatenate([reference.run(net.graph, {"x": x[None]})[last] for x in images])
    assert np.array_equal(ready(images), want) and len(np.unique(want[want < 0])) > 2 and len(np.unique(want[want > 0])) > 8
    assert check_races(ready.streams[0].program) == []
    found = differences(net.graph, read(path), {"x": images[:1]})
    if rounding == "half-up":
        # Nothing but ties differs from what the file says of floats: both sides are rounded as it rounds them.
        assert all(d.unexplained == 0 for d in found), found
    else:
        assert sum(d.different for d in found) > 5


def test_what_is_below_zero_is_the_larger() -> None:
    sums = np.arange(-300, 300, dtype=np.int64)
    exact = np.where(sums < 0, np.floor(sums * 13 / 128 / 8 + 0.5), np.floor(sums / 8 + 0.5))
    # The rounding of the sums is in their bias.
    assert np.array_equal(Leak(13, 7, (1 << 9) - 13 * 4).of(sums + 4, 3), exact)


@pytest.mark.parametrize(("alpha", "more", "why"), [
    (0.1, {}, "its slope below zero, 0.1, is no number of few bits: autosched quantize makes it one"),
    (0.125, {"zero": 3}, "its result has a slope below zero and a zero point"),
    (0.125, {"per_channel": True},
     "its result has a slope below zero, and channels shift by different numbers or by more than 31"),
])
def test_why_a_leaky_layer_is_the_hosts(
    alpha: float, more: dict[str, Any], why: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(1), (1, 16, 4, 4))
    first = b.conv("x", 16, 1)
    last = b.conv(leaky(b, first, 16, alpha, **more), 16, 1)
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model(last).SerializeToString())
    assert why in {n.reason for p in load(path).graph.host_parts for n in p.nodes}


@pytest.mark.parametrize(("k", "weight", "machine"), [(10100, 127, True), (10200, 127, False), (25000, 40, True)])
def test_sums_times_the_slope_stay_in_int32_by_the_weights_there_are(
    k: int, weight: int, machine: bool, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(3), (1, k))
    b.weight = lambda shape: np.full(shape, weight, np.int8)
    last = b.dense(leaky(b, "x", 2, 13 / 128, "dense"), 16)
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model(last).SerializeToString())
    reasons = {n.reason for p in load(path).graph.host_parts for n in p.nodes}
    assert reasons == set() if machine else "its sums times the slope below zero may leave int32" in reasons


def quantized_slope(alpha: float, folder: Path) -> list[str]:
    """What of a float convolution with a slope behind it stays on the host once it is quantized."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(4)
    held = [numpy_helper.from_array(rng.normal(0, 0.3, (16, 16, 1, 1)).astype(np.float32), n) for n in "wv"]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="a"), helper.make_node("LeakyRelu", ["a"], ["b"], alpha=alpha),
        helper.make_node("Conv", ["b", "v"], ["y"], name="y"),
    ]
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 16, 4, 4]) for t in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "f.onnx").write_bytes(model.SerializeToString())
    quantize(folder / "f.onnx", {"x": rng.normal(size=(4, 16, 4, 4)).astype(np.float32)}, folder / "q.onnx")
    parts = load(folder / "q.onnx").graph.host_parts
    return [n.op for p in parts for n in p.nodes if n.op not in ("QuantizeLinear", "DequantizeLinear")]


@pytest.mark.parametrize(("alpha", "left"), [
    (0.2, []), (0.3, []), (0.0, ["LeakyRelu"]), (1.5, ["LeakyRelu"]), (-0.3, ["LeakyRelu"]), (1e-5, ["LeakyRelu"]),
])
def test_a_slope_that_the_machine_has_not_leaves_it_the_convolution(alpha: float, left: list[str], tmp_path: Path) -> None:
    assert quantized_slope(alpha, tmp_path) == left


@pytest.mark.parametrize("per_channel", [False, True])
def test_quantize_gives_the_machine_a_slope(per_channel: bool, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(2)
    held = [numpy_helper.from_array(rng.normal(0, 0.3, s).astype(np.float32), n) for n, s in
            (("w", (16, 3, 3, 3)), ("v", (16, 16, 1, 1)))]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="a", pads=[1] * 4),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.1),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "v"], ["d"], name="d"), helper.make_node("LeakyRelu", ["d"], ["y"], alpha=0.1),
    ]
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, s) for t, s in (("x", [1, 3, 6, 6]), ("y", [1, 16, 3, 3]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "f.onnx").write_bytes(model.SerializeToString())
    images = rng.normal(size=(4, 3, 6, 6)).astype(np.float32)
    report = quantize(tmp_path / "f.onnx", {"x": images}, tmp_path / "q.onnx", per_channel=per_channel)
    assert min(f.snr for f in report.layers) > 20, report.layers
    net = load(tmp_path / "q.onnx")
    assert [n.op for p in net.graph.host_parts for n in p.nodes] == ["QuantizeLinear", "DequantizeLinear"]
    leaks = [x.requant.leak for x in net.graph.layers if x.requant is not None]
    assert [(k.times, k.shift) for k in leaks if k is not None] == [(13, 7)] * 2
    want = np.concatenate([reference.run(net.graph, {"x": x[None]})["y"] for x in images[:2]])
    assert np.array_equal(net.compile(tmp_path)(images[:2]), want)
    assert np.array_equal(net.compile(tmp_path, fuse=True)(images[:2]), want), "the pool compares what the slope has made"
