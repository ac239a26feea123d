"""Signals as images of one row, and products of many dimensions as those of a matrix: on the machine, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.networks import load, reference
from autosched.networks.onnx_file import read
from autosched.networks.qdq_writer import write_model
from autosched.networks.quantize import quantize
from autosched.networks.ranks import ranked
from autosched.networks.unquantized import float_net

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


class Writer:
    """Writes a float network node by node."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng, self.shape = np.random.default_rng(0), shape
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def const(self, *shape: int) -> str:
        return self.given(self.rng.normal(0, 0.4, shape).astype(np.float32))

    def given(self, value: np.ndarray) -> str:
        self.constants.append(onnx.numpy_helper.from_array(value, f"c{len(self.constants)}"))
        return f"c{len(self.constants) - 1}"

    def __call__(self, op: str, *inputs: str, **attrs: Any) -> str:
        self.nodes.append(onnx.helper.make_node(op, inputs, [f"t{len(self.nodes)}"], **attrs))
        return f"t{len(self.nodes) - 1}"

    def save(self, folder: Path, *outputs: str) -> Path:
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes, "net", [info("x", 1, self.shape)], [info(o, 1, None) for o in outputs], self.constants,
        )
        made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(made), folder / "net.onnx")
        return folder / "net.onnx"


def signals(w: Writer) -> tuple[str, ...]:
    a = w("Relu", w("Conv", "x", w.const(16, 4, 5), w.const(16), strides=[2], pads=[3, 1], kernel_shape=[5]))
    b = w("Pad", a, w.given(np.array([0, 0, 4, 0, 0, 0])))
    b = w("BatchNormalization", w("Conv", b, w.const(16, 16, 3), dilations=[2]), *[w.given(np.full(16, 0.5, np.float32))] * 4)
    c = w("MaxPool", w("Relu", w("Add", b, a)), kernel_shape=[3], strides=[2], pads=[1, 1])
    d = w("Add", w("Conv", c, w.const(16, 1, 3), group=16, auto_pad="SAME_UPPER"), w.const(16, 1))
    e = w("Conv", w("Conv", "x", w.const(8, 4, 3)), w.const(8, 8, 2))
    return w("Gemm", w("Flatten", w("GlobalAveragePool", d)), w.const(16, 5)), w("Identity", e)


def rows(w: Writer) -> tuple[str, ...]:
    a = w("Relu", w("Add", w("MatMul", "x", w.const(8, 32)), w.const(32)))
    b = w("Add", w.const(1, 8), w("MatMul", a, w.const(32, 8)))
    return (w("Softmax", w("Add", "x", b), axis=1),)


def views(w: Writer) -> tuple[str, ...]:
    """As TensorFlow writes signals and products of many dimensions."""
    a = w("Squeeze", w("Conv", w("Unsqueeze", "x", w.given(np.array([2]))), w.const(8, 4, 1, 3)), w.given(np.array([2])))
    a = w("Relu", w("Add", a, w.const(1, 8, 1)))
    b = w("Squeeze", w("Conv", w("Unsqueeze", a, w.given(np.array([2]))), w.const(6, 8, 1, 2)), w.given(np.array([2])))
    c = w("Reshape", w("MatMul", w("Reshape", b, w.given(np.array([6, 6]))), w.const(6, 5)), w.given(np.array([1, 6, 5])))
    d = w("Relu", w("Add", c, w.const(5)))
    return w("MatMul", w("Reshape", d, w.given(np.array([-1, 5]))), w.const(5, 3)), w("Softmax", d, axis=1)


def means(w: Writer) -> tuple[str, ...]:
    a = w("Relu", w("Conv", "x", w.const(16, 4, 3, 3)))
    b = w("Conv", w("ReduceMean", a, axes=[-1, 2]), w.const(16, 16, 1, 1))
    return w("Gemm", w("ReduceMean", a, axes=[2, 3], keepdims=0), w.const(16, 5)), w("ReduceMean", b, axes=[-2, -1])


@pytest.mark.parametrize(("make", "shape", "host"), [
    (means, (1, 4, 6, 6), []), (views, (1, 4, 9), ["Softmax"]), (signals, (1, 4, 19), []),
    (rows, (2, 3, 8), ["Softmax"]), (rows, (2, 2, 3, 8), ["Softmax"]),
])
def test_other_ranks_are_on_the_machine(
    make: Callable[[Writer], tuple[str, ...]], shape: tuple[int, ...], host: list[str], tmp_path: Path
) -> None:
    w = Writer(shape)
    outputs = make(w)
    path = w.save(tmp_path, *outputs)
    x = w.rng.normal(0, 1, (6, *shape[1:])).astype(np.float32)
    one = {"x": x[: shape[0]]}
    want = reference.session(path.read_bytes()).run(list(outputs), one)
    turned = write_model(ranked(float_net(read(path)), read(path).dtypes), read(path), None).model
    for got, floats in zip(reference.session(turned).run(list(outputs), one), want):
        assert got.shape == floats.shape and np.allclose(got, floats, atol=1e-5)
    quantize(path, {"x": x}, tmp_path / "q.onnx")
    net = load(tmp_path / "q.onnx")
    kept = [n.op for part in net.graph.host_parts for n in part.nodes]
    assert net.graph.share() == 1.0
    assert [op for op in kept if op not in ("QuantizeLinear", "DequantizeLinear", "Reshape", "Identity")] == host
    made = reference.run(net.graph, one)
    assert all(np.abs(made[o] - floats).max() < 0.1 * np.abs(floats).max() for o, floats in zip(outputs, want))


def whole_numbers(w: Writer) -> str:
    a = w("Reshape", w("Reshape", w("Cast", "x", to=6), w.given(np.array([6, 8]))), w.given(np.array([2, 3, 8])))
    return w("Cast", w("Add", a, w.given(np.arange(8, dtype=np.int32))), to=1)


@pytest.mark.parametrize("make", [
    lambda w: w("MatMul", "x", w("Transpose", "x", perm=[0, 2, 1])),
    lambda w: w("MatMul", "x", w.const(2, 8, 4)),
    lambda w: w("Conv", "x", w("Relu", w("Slice", "x", *(w.given(np.array([k])) for k in (0, 1, 2))))),
    lambda w: w("Cast", w("MatMul", w("Cast", "x", to=6), w.given(np.ones((8, 4), np.int32))), to=1),
    lambda w: w("Relu", w("MaxPool", "x", kernel_shape=[2])),
    lambda w: w("ReduceMean", "x", axes=[1]),
    whole_numbers,
    lambda w: w("Cast", w("ReduceMean", w("Cast", "x", to=6), axes=[2]), to=1),
])
def test_what_is_no_layer_in_any_rank_stays_as_it_is(make: Callable[[Writer], str], tmp_path: Path) -> None:
    w = Writer((2, 3, 8))
    file = read(w.save(tmp_path, make(w)))
    net = float_net(file)
    assert ranked(net, file.dtypes) is net


@pytest.mark.parametrize("signal", [True, False])
def test_means_are_pools_where_they_are_layers(signal: bool, tmp_path: Path) -> None:
    """A signal's becomes one; that of a norm written out in parts stays in float, where int8 would leave nothing of it."""
    w = Writer((1, 8, 32))
    if signal:
        out = w("Gemm", w("ReduceMean", w("Relu", w("Conv", "x", w.const(16, 8, 3))), axes=[-1], keepdims=0), w.const(16, 5))
    else:
        tokens = w("Exp", "x")  # in float, and some of them many times as large as others
        mean = w("ReduceMean", w("Mul", tokens, tokens), axes=[-1])
        out = w("MatMul", w("Div", tokens, w("Sqrt", w("Add", mean, w.given(np.float32(1e-6))))), w.const(32, 16))
    path = w.save(tmp_path, out)
    x = w.rng.normal(0, 1, (8, 8, 32)).astype(np.float32)
    x += w.rng.uniform(-3, 3, (8, 8, 1)).astype(np.float32)
    quantize(path, {"x": x}, tmp_path / "q.onnx")
    graph = load(tmp_path / "q.onnx").graph
    kinds = [layer.kind for layer in graph.layers if layer.kind != "view"]
    assert kinds == (["conv", "average", "dense"] if signal else ["dense"])
    assert ("ReduceMean" in [n.op for part in graph.host_parts for n in part.nodes]) == (not signal)
    floats = reference.session(path.read_bytes())
    want = np.concatenate([floats.run([out], {"x": image[None]})[0] for image in x])
    noise = np.concatenate([reference.run(graph, {"x": image[None]})[out] for image in x]) - want
    assert 10 * np.log10((want**2).sum() / (noise**2).sum()) > 20
