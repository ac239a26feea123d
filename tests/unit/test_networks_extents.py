"""Extents that a file computes are numbers as soon as those of its inputs are: its bytes are onnxruntime's, whatever its set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_networks import RNG, SMALL, Array, Net, X, expected, f32, images

from autosched.cli import main
from autosched.errors import ProgramError
from autosched.networks import load

onnx = pytest.importorskip("onnx")

SETS = (11, 13, 14, 17, 21)
FLOAT, INT, FLOAT16, BFLOAT16 = 1, 7, 10, 16
COARSE = np.sign(SMALL) * (np.abs(SMALL) // 8)  # sums that int8 holds: nothing is rounded, so all bytes are the file's own
Chain = Callable[[Net, str, str], str]


class Writer(Net):
    """Writes what exporters write around extents."""

    def ints(self, *values: int) -> str:
        return self.fixed(np.array(values, np.int64))

    def one(self, value: int) -> str:
        return self.fixed(np.array(value, np.int64))

    def list(self, *parts: str) -> str:
        """Numbers as extents."""
        listed = [self.op("Unsqueeze", p, self.ints(0)) if self.opset >= 13 else self.op("Unsqueeze", p, axes=[0]) for p in parts]
        return self.op("Concat", *listed, axis=0)

    def at(self, extents: str, k: int) -> str:
        return self.op("Gather", extents, self.one(k), axis=0)

    def resized(self, y: str, sizes: str) -> str:
        none = "" if self.opset >= 13 else self.fixed(np.zeros(0, np.float32))
        return self.op("Resize", y, none, none, sizes, mode="nearest", coordinate_transformation_mode="asymmetric",
                       nearest_mode="floor")

    def filled(self, extents: str, value: Any) -> str:
        return self.op("ConstantOfShape", extents, value=onnx.numpy_helper.from_array(np.array([value])))


def view(n: Writer, y: str, s: str) -> str:
    return n.op("Reshape", y, n.list(n.at(s, 0), n.one(-1)))


def shuffle(n: Writer, y: str, s: str) -> str:
    batch, c, h, w = (n.at(s, k) for k in range(4))
    apart = n.op("Reshape", y, n.list(batch, n.one(2), n.op("Div", c, n.one(2)), h, w))
    return n.op("Reshape", n.op("Transpose", apart, perm=[0, 2, 1, 3, 4]), n.list(batch, n.one(-1), h, w))


def larger(n: Writer, y: str, s: str) -> str:
    sizes = [n.op("Mul", n.at(s, k), n.one(2)) for k in (2, 3)]
    return n.resized(y, n.op("Concat", n.op("Slice", s, n.ints(0), n.ints(2), n.ints(0)), n.list(*sizes), axis=0))


def scaled(n: Writer, y: str, s: str) -> str:
    sizes = [n.op("Cast", n.op("Floor", n.op("Mul", n.op("Cast", n.at(s, k), to=FLOAT), f32(n, 1.6))), to=INT) for k in (2, 3)]
    return n.resized(y, n.op("Concat", n.op("Slice", s, n.ints(0), n.ints(2), n.ints(0)), n.list(*sizes), axis=0))


def pad(n: Writer, y: str, top: str) -> str:
    """As F.pad is exported."""
    ends = n.op("Concat", n.list(n.one(1), n.one(0), top, n.one(1)), n.filled(n.ints(4), np.int64(0)), axis=0)
    pairs = n.op("Slice", n.op("Reshape", ends, n.ints(-1, 2)), n.ints(-1), n.ints(-(2**63) + 1), n.ints(0), n.ints(-1))
    pads = n.op("Cast", n.op("Reshape", n.op("Transpose", pairs, perm=[1, 0]), n.ints(-1)), to=INT)
    return n.op("Pad", y, pads, f32(n, 0), mode="constant")


def padded(n: Writer, y: str, s: str) -> str:
    return pad(n, y, n.one(2))


def padded_by_extents(n: Writer, y: str, s: str) -> str:
    return pad(n, y, n.at(s, 0))


def half(n: Writer, y: str, s: str) -> str:
    return n.op("Slice", y, n.ints(0), n.list(n.op("Div", n.at(s, 1), n.one(2))), n.ints(1))


def expanded(n: Writer, y: str, s: str) -> str:
    wanted = n.list(n.at(s, 0), n.one(-1), n.one(-1), n.one(-1))
    ones = n.filled(n.ints(4), np.int64(1))
    extents = n.op("Where", n.op("Equal", wanted, n.op("Mul", ones, n.one(-1))), ones, wanted)
    row = n.op("Expand", n.fixed(np.arange(-8, 8, dtype=np.float32).reshape(1, 1, 4, 4)), extents)
    return n.op("Concat", y, row, axis=1)


def every_other(n: Writer, y: str, s: str) -> str:
    return n.op("Gather", y, n.op("Range", n.one(0), n.at(s, 2), n.one(2)), axis=2)


def backwards(n: Writer, y: str, s: str) -> str:
    """Divisions round towards zero: -4 / 3 is -1."""
    one = n.op("Mul", n.op("Div", n.op("Mul", n.at(s, 3), n.one(-1)), n.one(3)), n.one(-1))
    return n.op("Reshape", y, n.list(n.at(s, 0), one, n.one(-1)))


def two_in_a_row(n: Writer, y: str, s: str) -> str:
    flat = view(n, y, s)
    f = n.op("Shape", flat)
    return n.op("Reshape", flat, n.list(n.at(f, 0), n.one(4), n.op("Div", n.at(f, 1), n.one(4))))


CHAINS: dict[str, Callable[[Writer, str, str], str]] = {f.__name__: f for f in (
    view, shuffle, larger, scaled, padded, padded_by_extents, half, expanded, every_other, backwards, two_in_a_row)}
ARITHMETIC = {"Shape", "Size", "Div", "Floor", "Where", "Equal", "ConstantOfShape", "Range", "Unsqueeze"}


def written(path: Path, chain: str, opset: int, batch: int | str, moves: bool = False, quantized: bool = True) -> Path:
    """A convolution, and behind it what computes extents; if something moves, from what the image holds."""
    n = Writer(opset)
    if quantized:
        y = n.op("Relu", n.op("Conv", n.quantized("x", 2), n.weight(COARSE, 0)))
        y = n.quantized(y, 2)
    else:
        y = n.op("Relu", n.op("Conv", "x", n.fixed((0.2 * RNG.standard_normal((8, 3, 3, 3))).astype(np.float32))))
    s = n.op("Shape", y)
    if moves:
        s = n.op("Add", s, n.op("Cast", n.op("Mul", n.op("ReduceMax", y, keepdims=0), f32(n, 0)), to=INT))
    z = CHAINS[chain](n, y, s)
    z = n.quantized(z, 2) if quantized else n.op("Neg", z)
    return saved(n, z, path, (batch, *X[1:]))


def saved(n: Net, output: str, path: Path, extents: tuple[int | str, ...] = X) -> Path:
    info = onnx.helper.make_tensor_value_info
    constants = [onnx.numpy_helper.from_array(v, k) for k, v in n.constants.items()]
    graph = onnx.helper.make_graph(n.nodes, "net", [info("x", FLOAT, extents)], [info(output, FLOAT, None)], constants)
    sets = [onnx.helper.make_opsetid("", n.opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


@pytest.mark.parametrize("opset", SETS)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("batch", [1, "N"])
def test_extents_that_a_file_computes(chain: str, opset: int, batch: int | str, tmp_path: Path) -> None:
    path = written(tmp_path / "n.onnx", chain, opset, batch)
    network = load(path, shapes={"x": X} if batch == "N" else None)
    assert network.graph.share() == 1 and not ARITHMETIC & {x.op for p in network.graph.host_parts for x in p.nodes}
    image = images()
    want = expected(path, image)[0]
    assert len(np.unique(want)) > 8
    np.testing.assert_array_equal(network.compile()(image), want)


@pytest.mark.parametrize("opset", SETS)
@pytest.mark.parametrize("chain", sorted(CHAINS.keys() - {"padded"}))  # of constants alone
def test_extents_that_an_image_decides(chain: str, opset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "n.onnx", chain, opset, 1, moves=True)
    assert len(expected(path, images())[0])
    assert main(["run", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "cannot be inferred; export the model without it" in said
    path = written(tmp_path / "f.onnx", chain, opset, 1, moves=True, quantized=False)
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    assert main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "cannot be inferred; export the model without it" in said


@pytest.mark.parametrize("opset", SETS)
@pytest.mark.parametrize("chain", CHAINS)
def test_float_files_with_such_extents_are_quantized(chain: str, opset: int, tmp_path: Path) -> None:
    batch = "N" if opset % 2 else 1
    path = written(tmp_path / "f.onnx", chain, opset, batch, quantized=False)
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    words = [str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]
    assert main(["quantize", *words, *(["--shape", "x=1,3,6,6"] if batch == "N" else [])]) == 0
    image = images()
    a, b = (expected(p, image)[0] for p in (path, tmp_path / "q.onnx"))
    assert a.shape == b.shape and np.abs(a - b).max() < 0.1 * np.abs(a).max()
    assert load(tmp_path / "q.onnx").graph.share() == 1
    assert main(["run", str(tmp_path / "q.onnx"), "--check"]) == 0


def nothing(n: Writer, y: str, s: str) -> str:
    return n.op("Reshape", y, n.list(n.at(s, 0), n.op("Div", n.at(s, 1), n.op("Sub", n.at(s, 2), n.at(s, 3))), n.one(-1)))


def least(n: Writer, y: str, s: str) -> str:
    low = n.op("Sub", n.one(-(2**63) + 1), n.at(s, 0))
    return n.op("Reshape", y, n.list(n.op("Div", low, n.op("Sub", n.at(s, 0), n.one(2))), n.one(-1)))


def enormous(n: Writer, y: str, s: str) -> str:
    room = n.op("Size", n.filled(n.op("Mul", s, n.one(100_000)), np.float32(0)))
    return n.op("Reshape", y, n.list(n.op("Div", room, room), n.one(-1)))


def wide(n: Writer, y: str, s: str) -> str:
    many = n.filled(n.list(n.op("Mul", n.at(s, 1), n.one(1 << 20))), np.int64(0))
    return n.op("Reshape", y, n.list(n.op("ReduceMax", many, keepdims=0), n.one(-1)))


def by_chance(n: Writer, y: str, s: str) -> str:
    drawn = n.op("RandomUniformLike", n.op("Cast", s, to=FLOAT), high=0.5)
    return n.op("Reshape", y, n.op("Add", s, n.op("Cast", n.op("Floor", drawn), to=INT)))


def outside(n: Writer, y: str, s: str) -> str:
    return n.op("Reshape", y, n.list(n.at(s, 7), n.one(-1)))


def mixed(n: Writer, y: str, s: str) -> str:
    return n.op("Reshape", y, n.list(n.op("Div", n.op("Cast", n.at(s, 0), to=FLOAT), n.one(1)), n.one(-1)))


@pytest.mark.parametrize(("chain", "why"), [
    (nothing, "cannot be inferred"), (least, "cannot be inferred"), (wide, "cannot be inferred"),
    (mixed, "cannot be inferred"), (by_chance, "cannot be inferred"),
    (enormous, "would have 12800000000"), (outside, "shapes do not fit"),
])
def test_what_is_no_number_is_refused(chain: Any, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Divisions that end a process, data-sized work and what is drawn are left alone."""
    n = Writer()
    y = n.quantized(n.op("Conv", n.quantized("x", 2), n.weight(COARSE, 0)), 2)
    z = n.quantized(chain(n, y, n.op("Shape", y)), 2)
    path = saved(n, z, tmp_path / "n.onnx")
    assert main(["run", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and why in said


@pytest.mark.parametrize("ends", [{"end": 1}, {"start": 1, "end": -2}, {"start": -2, "end": 100}, {"start": -9, "end": 2},
                                  {"start": 3, "end": 1}])
def test_some_extents(ends: dict[str, int], tmp_path: Path) -> None:
    n = Writer()
    y = n.quantized(n.op("Relu", n.op("Conv", n.quantized("x", 2), n.weight(COARSE, 0))), 2)
    z = n.quantized(n.op("Reshape", y, n.op("Concat", n.op("Shape", y, **ends), n.ints(-1), axis=0)), 2)
    path, image = saved(n, z, tmp_path / "n.onnx"), images()
    network = load(path)
    assert [x.kind for x in network.graph.layers] == ["conv", "view", "view"]
    np.testing.assert_array_equal(network.compile()(image), expected(path, image)[0])


@pytest.mark.parametrize("halves", [FLOAT16, BFLOAT16])  # NumPy has not the latter
def test_numbers_that_extents_decide_are_constants(halves: int, tmp_path: Path) -> None:
    """As attention scales by a width: the product is the machine's."""
    n = Writer()
    y = n.op("MatMul", "x", n.fixed((0.2 * RNG.standard_normal((6, 4))).astype(np.float32)))
    width = n.op("Gather", n.op("Shape", y), n.one(-1), axis=0)
    width = n.op("Cast", n.op("Cast", width, to=halves), to=FLOAT)
    y = n.op("Relu", n.op("Mul", y, n.op("Reciprocal", width)))
    path = saved(n, y, tmp_path / "f.onnx", ("N", 6))
    rows = images((16, 6))
    np.savez(tmp_path / "cal.npz", x=rows)
    words = ["--shape", "x=2,6", "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]
    assert main(["quantize", str(path), *words]) == 0
    graph = load(tmp_path / "q.onnx").graph
    assert {x.op for p in graph.host_parts for x in p.nodes} == {"QuantizeLinear", "DequantizeLinear"}
    a, b = (expected(p, rows[:2])[0] for p in (path, tmp_path / "q.onnx"))
    assert np.abs(a - b).max() < 0.05 * np.abs(a).max()


def test_extents_are_outputs_too(tmp_path: Path) -> None:
    n = Writer()
    y = n.quantized(n.op("Relu", n.op("Conv", n.quantized("x", 2), n.weight(COARSE, 0))), 2)
    s = n.op("Shape", y)
    rows = n.op("Div", n.at(s, 2), n.one(2))
    z = n.quantized(n.op("Reshape", y, n.list(n.at(s, 0), rows, n.one(-1))), 2)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [z, s, rows])
    model = onnx.load(path)
    for out in model.graph.output[1:]:
        out.type.tensor_type.elem_type = INT
    onnx.save(model, path)
    image = images()
    made: tuple[Array, ...] = load(path).compile()(image)
    for got, want in zip(made, expected(path, image), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("opset", SETS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_quantizers_of_onnxruntimes_own(kind: type[np.generic], opset: int, tmp_path: Path) -> None:
    n = Net(opset)
    step = n.fixed(np.full(8, 1, np.float32)), n.fixed(np.zeros(8, np.int8))
    w = n.op("DequantizeLinear", n.fixed(COARSE), *step, axis=0)
    y = n.op("Relu", n.op("Conv", n.quantized("x", 2), w))
    y = n.quantized(n.op("MaxPool", n.quantized(y, 2, kind), kernel_shape=[2, 2]), 2, kind)
    for node in n.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    image = images()
    path = saved(n, y, tmp_path / "n.onnx")
    network = load(path)
    assert [x.kind for x in network.graph.layers] == ["conv", "max"]
    np.testing.assert_array_equal(network.compile()(image), expected(path, image)[0])
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    assert main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]) == 0
    assert main(["run", str(tmp_path / "q.onnx"), "--check"]) == 0


def test_wider_quantizers_of_onnxruntimes_own_are_refused(tmp_path: Path) -> None:
    n = Net()
    y = n.op("Conv", n.quantized("x", 12, np.uint16), n.weight(COARSE, 0))
    for node in n.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    path = saved(n, y, tmp_path / "n.onnx")
    assert len(expected(path, images())[0])
    with pytest.raises(ProgramError, match=r"\(Conv\)"):
        load(path)
