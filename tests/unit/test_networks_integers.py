"""Files that compute on a quantizer's integers: ``quantize`` goes on in float where that is the same, else makes them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_networks import RNG, Array, Net, Shape, expected

from autosched.errors import ProgramError
from autosched.networks import load, reference
from autosched.networks.quantize import quantize

X = (4, 8, 6, 6)
WEIGHTS = (0.2 * np.random.default_rng(3).standard_normal((8, 8, 3, 3))).astype(np.float32)
SCALE, ZERO = np.float32(0.05), np.uint8(100)
Middle = Callable[[Net, str], str]


def fill(n: Net, value: Any) -> tuple[str, str]:
    return n.fixed(np.array([0, 0, 1, 0, 0, 0, 0, 1])), n.fixed(value)


def channels(n: Net, x: str, first: int, last: int) -> str:
    return n.op("Slice", x, *(n.fixed(np.array([k])) for k in (first, last, 1)))


def beside(n: Net, x: str) -> str:
    """A channel of a constant in front of the others."""
    return channels(n, n.op("Concat", n.fixed(np.full((1, 1, 6, 6), 90, np.uint8)), x, axis=1), 0, 8)


FLOATS: dict[str, Middle] = {
    "padded with the zero point": lambda n, x: n.op("Pad", x, *fill(n, ZERO)),
    "padded with another number": lambda n, x: n.op("Pad", x, *fill(n, np.uint8(120))),
    "a constant beside it": beside,
    "the greater": lambda n, x: n.op("Max", x, n.fixed(ZERO)),
    "one end": lambda n, x: n.op("Clip", x, n.fixed(np.uint8(95))),
    "halves": lambda n, x: n.op("Concat", channels(n, x, 4, 8), channels(n, x, 0, 4), axis=1),
}
INTEGERS: dict[str, Middle] = {
    "padded with nothing": lambda n, x: n.op("Pad", x, fill(n, ZERO)[0]),
    "there and back": lambda n, x: n.op("Cast", n.op("Cast", x, to=6), to=2),
    "half of it": lambda n, x: n.op("Cast", n.op("Div", n.op("Cast", x, to=6), n.fixed(np.int32(2))), to=2),
}


def one(tmp_path: Path, n: Net, y: str, kind: Any = np.float32, shape: Shape = X, images: Array | None = None) -> list[str]:
    """Quantizes a network with a convolution behind ``y``; operators of the host that are no quantizers."""
    out = n.op("Conv", y, n.fixed(WEIGHTS))
    path = n.save(tmp_path / "f.onnx", {"i": (kind, (1, *shape[1:]))}, [out])
    images = RNG.standard_normal(shape).astype(np.float32) if images is None else images
    quantize(path, {"i": images}, tmp_path / "q.onnx")
    want, got = (expected(p, images[:1])[0] for p in (path, tmp_path / "q.onnx"))
    assert np.abs(want - got).max() < 0.05 * np.abs(want).max()
    graph = load(tmp_path / "q.onnx").graph
    assert "conv" in [x.kind for x in graph.layers]
    found = reference.run(graph, {"i": images[:1]})[out]
    assert np.abs(want - found).max() < 0.05 * np.abs(want).max()
    return [x.op for part in graph.host_parts for x in part.nodes if "Linear" not in x.op]


@pytest.mark.parametrize(("name", "middle", "scale"), [  # the scale of what reads it last
    *((k, f, SCALE) for k, f in (FLOATS | INTEGERS).items()), ("another scale", lambda n, x: n.op("Identity", x), 2 * SCALE),
])
def test_whatever_reads_integers_gives_what_it_gave(name: str, middle: Middle, scale: Any, tmp_path: Path) -> None:
    n = Net()
    x = n.op("QuantizeLinear", "i", n.fixed(SCALE), n.fixed(ZERO))
    host = one(tmp_path, n, n.op("DequantizeLinear", middle(n, x), n.fixed(scale), n.fixed(ZERO)))
    # What only picks keeps floats, which layers may go on with; all else needs the integers.
    assert ("Round" in host) == (name not in FLOATS), host


def test_operators_of_onnxruntimes_own_read_integers_at_their_scale(tmp_path: Path) -> None:
    n = Net()
    x = n.op("QuantizeLinear", "i", n.fixed(SCALE), n.fixed(ZERO))
    twice = (n.fixed(2 * SCALE), n.fixed(ZERO))
    x = n.op("QLinearSigmoid", x, *twice, n.fixed(np.float32(2.0**-8)), n.fixed(np.uint8(0)), domain="com.microsoft")
    padded = n.op("Pad", x, *fill(n, np.uint8(64)))
    host = one(tmp_path, n, n.op("DequantizeLinear", padded, n.fixed(np.float32(2.0**-8)), n.fixed(np.uint8(0))))
    assert host.count("Round") == 1  # in front of the first, whose scale is another one


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_integers_that_no_quantizer_made_are_dequantized(kind: Any, tmp_path: Path) -> None:
    n = Net()
    ends = np.iinfo(kind)
    images = RNG.integers(ends.min, ends.max, X, endpoint=True).astype(kind)
    host = one(tmp_path, n, n.op("DequantizeLinear", "i", n.fixed(SCALE), n.fixed(kind(7))), kind, images=images)
    assert host == ["Cast", "Sub", "Mul"]


def test_a_table_of_integers_is_dequantized_where_it_is_read(tmp_path: Path) -> None:
    n = Net()
    table = n.fixed(RNG.integers(-128, 128, (20, 8, 6, 6)).astype(np.int8))
    picked = n.op("Gather", table, "i", axis=0)
    images = RNG.integers(0, 20, (8, 1))
    pair = (n.fixed(np.full(8, SCALE)), n.fixed(np.zeros(8, np.int8)))
    picked = n.op("Squeeze", picked, n.fixed(np.array([0])))
    host = one(tmp_path, n, n.op("DequantizeLinear", picked, *pair, axis=1), np.int64, images.shape, images)
    assert host[:2] == ["Gather", "Squeeze"]


def test_a_scale_that_is_computed_makes_no_integers(tmp_path: Path) -> None:
    n = Net()
    most = n.op("Div", n.op("ReduceMax", "i", keepdims=0), n.fixed(np.float32(127)))
    x = n.op("QuantizeLinear", "i", most, n.fixed(np.int8(0)))
    y = n.op("DequantizeLinear", x, most, n.fixed(np.int8(0)))
    images = RNG.standard_normal(X).astype(np.float32)
    images[0, 0] = -4  # behind where it saturates
    host = one(tmp_path, n, y, images=images)
    assert "Round" not in host
    assert host.count("Max") == host.count("Min") == 1
    again = n.op("DequantizeLinear", n.op("Relu", x), most, n.fixed(np.int8(0)))
    with pytest.raises(ProgramError, match=f"'{most}' is computed while it runs; quantize the float network"):
        one(tmp_path, n, again)


@pytest.mark.parametrize("computed", [(), (0,), (1,), (0, 1)])
def test_a_quantizer_that_saturates_where_no_number_says_is_a_clip(computed: tuple[int, ...], tmp_path: Path) -> None:
    n = Net()
    pair = [n.fixed(np.float32(0.02)), n.fixed(np.int8(20))]
    nothing = n.op("ReduceSum", n.op("Mul", "i", n.fixed(np.float32(0))), keepdims=0)
    for k in computed:
        as_wide = nothing if k == 0 else n.op("Cast", nothing, to=3)
        pair[k] = n.op("Add", pair[k], as_wide)
    x = n.op("QuantizeLinear", "i", *pair)
    if not computed:  # of each channel
        pair = [n.fixed(np.linspace(0.01, 0.03, 8).astype(np.float32)), n.fixed(np.arange(-20, 20, 5).astype(np.int8))]
        x = n.op("QuantizeLinear", "i", *pair, axis=1)
    host = one(tmp_path, n, n.op("DequantizeLinear", x, *pair, axis=1))
    assert host.count("Max") == host.count("Min") == 1
    assert "Round" not in host


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_ends_that_are_computed_for_each_channel(zeros: bool, weight: bool, tmp_path: Path) -> None:
    n = Net()
    source, axis, size = (n.fixed(WEIGHTS), 0, 8) if weight else ("i", 1, 8)
    axes = [d for d in range(4) if d != axis]
    most = n.op("ReduceMax", n.op("Abs", source), axes=axes, keepdims=0)
    scales, zero = n.op("Div", most, n.fixed(np.float32(200))), n.fixed(np.arange(size).astype(np.int8))
    if zeros:
        zero = n.op("Cast", n.op("Round", n.op("Div", most, n.op("Mul", scales, n.fixed(np.float32(20))))), to=3)
    x = n.op("DequantizeLinear", n.op("QuantizeLinear", source, scales, zero, axis=axis), scales, zero, axis=axis)
    if weight:
        x = n.op("Conv", "i", x)
    assert ("Max" in one(tmp_path, n, x)) is not weight


def test_zero_points_that_a_quantizer_makes_are_integers(tmp_path: Path) -> None:
    n = Net()
    least = n.op("ReduceMin", "i", keepdims=0)
    scale = n.op("Div", n.op("Sub", n.op("ReduceMax", "i", keepdims=0), least), n.fixed(np.float32(300)))
    far = n.op("Div", n.op("Neg", least), n.op("Mul", scale, n.fixed(np.float32(2))))
    pair = scale, n.op("QuantizeLinear", far, n.fixed(np.float32(0.5)), n.fixed(np.uint8(0)))
    assert "Round" in one(tmp_path, n, n.op("DequantizeLinear", n.op("QuantizeLinear", "i", *pair), *pair))


@pytest.mark.parametrize("scales", [np.float32(0.2), np.linspace(0.1, 0.2, 8).astype(np.float32)])
def test_quantizers_of_four_bits_saturate(scales: Array, tmp_path: Path) -> None:
    n = Net(21)
    pair = n.fixed(scales), n.op("Cast", n.fixed(np.zeros(scales.shape, np.int8)), to=22)
    # Seven steps are less than what there is.
    middle = n.op("DequantizeLinear", n.op("QuantizeLinear", "i", *pair, axis=1), *pair, axis=1)
    out = n.op("Conv", middle, n.fixed(WEIGHTS))
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, (1, *X[1:]))}, [out])
    images = 2 * RNG.standard_normal(X).astype(np.float32)
    quantize(path, {"i": images}, tmp_path / "q.onnx")
    want, got = (expected(p, images[:1])[0] for p in (path, tmp_path / "q.onnx"))
    assert np.abs(want - got).max() < 0.15 * np.abs(want).max()  # a step is much
