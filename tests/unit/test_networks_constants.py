"""Weights that a float file computes from constants are constants; what else it computes stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from written_networks import RNG, Array, Net, expected, f32

from autosched.networks import load
from autosched.networks.importer import NO_WORK
from autosched.networks.quantize import quantize

X = (1, 8, 6, 6)
MANY = np.random.default_rng(5).standard_normal((4, 8, 6, 6)).astype(np.float32)


def draw(*shape: int) -> Array:
    return (0.2 * RNG.standard_normal(shape)).astype(np.float32)


WRITTEN: dict[str, Callable[[Net], str]] = {
    "scaled": lambda n: n.op("Mul", n.fixed(draw(8, 8, 3, 3)), n.fixed(np.full((8, 1, 1, 1), 0.5, np.float32))),
    "half as long": lambda n: n.op("Cast", n.fixed(draw(8, 8, 3, 3).astype(np.float16)), to=1),
    "in two parts": lambda n: n.op("Concat", n.fixed(draw(4, 8, 3, 3)), n.fixed(draw(4, 8, 3, 3)), axis=0),
    "without its ones": lambda n: n.op("Unsqueeze", n.op("Abs", n.fixed(draw(8, 8))), n.fixed(np.array([2, 3]))),
    "all the same": lambda n: n.op("Add", n.op("ConstantOfShape", n.fixed(np.array([8, 8, 3, 3]))), f32(n, 0.1)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_weights_of_constants_are_on_the_machine(name: str, tmp_path: Path) -> None:
    n = Net()
    bias = n.op("Sqrt", n.fixed(np.abs(draw(8))))
    conv = n.op("Conv", "i", WRITTEN[name](n), bias)
    ones = n.op("Abs", n.fixed(np.ones(8, np.float32)))
    y = n.op("BatchNormalization", conv, ones, bias, bias, ones)
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, X)}, [y])
    quantize(path, {"i": MANY}, tmp_path / "q.onnx")
    a, b = (expected(p, MANY[:1])[0] for p in (path, tmp_path / "q.onnx"))
    assert np.abs(a - b).max() < 0.05 * np.abs(a).max()
    graph = load(tmp_path / "q.onnx").graph
    assert [x.kind for x in graph.layers] == ["conv"]
    assert {x.op for p in graph.host_parts for x in p.nodes} == {"QuantizeLinear", "DequantizeLinear"}


def test_outputs_chance_and_images_are_no_constants(tmp_path: Path) -> None:
    n = Net()
    first = n.op("Conv", "i", n.fixed(draw(8, 8, 1, 1)))
    kernel = n.op("Abs", n.fixed(draw(8, 8, 1, 1)))  # an output, too
    noisy = n.op("Add", n.fixed(draw(8, 8, 1, 1)), n.op("RandomNormalLike", n.fixed(draw(8, 8, 1, 1)), scale=1e-6, seed=1.0))
    own = n.op("Reshape", n.op("Slice", "i", *(n.fixed(np.array([k])) for k in (0, 1, 1))), n.fixed(np.array([1, 6, 6])))
    parts = [n.op("Conv", first, kernel), n.op("Conv", first, noisy), n.op("Add", first, own)]
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, X)}, [*parts, kernel])
    quantize(path, {"i": MANY}, tmp_path / "q.onnx")
    for a, b in zip(expected(path, MANY[:1]), expected(tmp_path / "q.onnx", MANY[:1])):
        assert np.abs(a - b).max() < 0.05 * np.abs(a).max()
    assert [x.kind for x in load(tmp_path / "q.onnx").graph.layers if x.kind not in NO_WORK] == ["conv"]
