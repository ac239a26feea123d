"""Forms in which files say clips, biases, ranks and constants: a layer gives onnxruntime's bytes, all else is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_networks import RNG, SMALL, Array, Net, Shape, X, beside, check, clip, expected, f32, images

from autosched.cli import main
from autosched.errors import ProgramError
from autosched.networks import load, reference
from autosched.networks.importer import NO_WORK

# -- integers ----------------------------------------------------------------------------------------------------------------

Tail = Callable[[Net, str], str]


def scaled(n: Net, x: str, shift: int) -> str:
    return n.op("Floor", n.op("Mul", x, f32(n, 2.0**-shift)))


def real(n: Net, x: str) -> str:
    return n.op("Cast", x, to=1)


LAST = (-128, 127)
EXACT: dict[str, Tail] = {
    "clip, scale": lambda n, x: clip(n, scaled(n, clip(n, real(n, x), -1000, 1000), 4), *LAST),
    "clip, scale down to less than int8": lambda n, x: clip(n, scaled(n, clip(n, real(n, x), -1000, 1000), 7), *LAST),
    "odd ends": lambda n, x: clip(n, scaled(n, clip(n, real(n, x), -37, 61), 2), *LAST),
    "scale, clip, scale": lambda n, x: clip(n, scaled(n, clip(n, n.op("Mul", real(n, x), f32(n, 1 / 64)), -16, 16), 1), *LAST),
    "relu, add": lambda n, x: clip(n, scaled(n, n.op("Add", n.op("Relu", real(n, x)), f32(n, -200)), 3), *LAST),
    "the last clip has the last word": lambda n, x: clip(n, clip(n, scaled(n, real(n, x), 4), -128, -20), -10, 127),
    "relu of a clip below it": lambda n, x: n.op("Relu", clip(n, scaled(n, real(n, x), 4), -128, -20)),
    "max and min": lambda n, x: n.op("Min", n.op("Max", scaled(n, real(n, x), 3), f32(n, -100)), f32(n, 90)),
    "floor, int32": lambda n, x: n.op("Cast", clip(n, scaled(n, real(n, x), 4), *LAST), to=6),
}
REFUSED: dict[str, tuple[Tail, str]] = {
    "integer division": (lambda n, x: clip(n, real(n, n.op("Div", x, n.fixed(np.int32(128)))), *LAST), "rounds towards zero"),
    "cut off": (lambda n, x: clip(n, n.op("Floor", real(n, n.op("Cast", n.op("Mul", real(n, x), f32(n, 1 / 64)), to=6))), *LAST),
                "rounds towards zero"),
    "a bias per channel behind a clip": (lambda n, x: clip(n, scaled(n, n.op(
        "Add", n.op("Relu", real(n, x)), n.fixed(np.arange(8, dtype=np.float32).reshape(8, 1, 1))), 4), *LAST), "behind a clip"),
    "a scale per channel behind a clip": (lambda n, x: clip(n, n.op("Floor", n.op("Mul", clip(n, real(n, x), -99, 99), n.fixed(
        np.array([0.5] * 4 + [0.25] * 4, np.float32).reshape(8, 1, 1)))), *LAST), "behind a clip"),
    "a constant divided": (lambda n, x: clip(n, n.op("Floor", n.op("Div", f32(n, 64), real(n, x))), *LAST), "go into node"),
    "integers that may wrap around": (lambda n, x: clip(n, scaled(n, real(n, n.op(
        "Mul", x, n.fixed(np.int32(1 << 20)))), 24), *LAST), "may wrap around"),
    "constants of more dimensions": (lambda n, x: clip(n, scaled(n, n.op(
        "Mul", real(n, x), n.fixed(np.ones((1,) * 5, np.float32))), 4), *LAST), "not one constant per channel"),
    "more than an int32 holds": (lambda n, x: clip(n, scaled(n, n.op("Add", real(n, x), f32(n, 1e30)), 4), *LAST), "int32"),
}


def integer(path: Path, tail: Tail) -> Path:
    n = Net()
    sums = n.op("ConvInteger", "x", n.fixed(SMALL))
    n.op("Cast", tail(n, sums), to=3)
    return n.save(path, {"x": (np.int8, X)}, [n.nodes[-1].output[0]], np.int8)


@pytest.mark.parametrize("tail", EXACT)
def test_clips_move_with_the_scale(tail: str, tmp_path: Path) -> None:
    path = integer(tmp_path / "n.onnx", EXACT[tail])
    network = load(path)
    assert len(network.graph.layers) == 1 and not network.graph.host_parts
    x = RNG.integers(-128, 128, X).astype(np.int8)
    want = expected(path, x)[0]
    np.testing.assert_array_equal(network.compile()(x), want)


@pytest.mark.parametrize("tail", REFUSED)
def test_roundings_and_clips_that_are_not_the_machines(tail: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=REFUSED[tail][1]):
        load(integer(tmp_path / "n.onnx", REFUSED[tail][0]))


# -- quantizers ----------------------------------------------------------------------------------------------------------------


def test_a_bias_for_every_row_is_none_for_every_output(tmp_path: Path) -> None:
    def gemm(bias: Array, rows: int = 4) -> Path:
        n = Net()
        x = n.quantized("x", 4)
        y = n.op("Gemm", x, n.weight(np.zeros((6, 4), np.int8), 6), n.weight(bias, 10))
        return n.save(tmp_path / "g.onnx", {"x": (np.float32, (rows, 6))}, [n.quantized(y, 3)])

    x = images((4, 6))
    ladder = np.arange(4, dtype=np.int32) * 1024
    check(gemm(ladder), x)
    check(gemm(ladder[None]), x)
    check(gemm(np.int32([[2048]])), x)  # type: ignore[arg-type]
    for bias, rows in ((ladder[:, None], 4), (np.int32([[1024], [2048]]), 2), (np.tile(ladder, (4, 1)), 4)):  # type: ignore[arg-type]
        with pytest.raises(ProgramError, match="differs from row to row"):
            load(gemm(bias, rows))
    with pytest.raises(ProgramError, match="extents"):
        load(gemm(np.zeros((1, 3), np.int32)))


@pytest.mark.parametrize("bias, good", [(2.0**20, True), (2.0**21, False), (np.inf, False), (1e30, False), (np.nan, False)])
def test_a_bias_that_no_accumulator_holds(bias: float, good: bool, tmp_path: Path) -> None:
    n = Net()
    y = n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6), n.fixed(np.full(8, bias, np.float32)))
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.quantized(y, 3)])
    if good:
        check(path, images())
    else:
        with pytest.raises(ProgramError, match=r"more than an int32 holds|not less than"):
            load(path)


@pytest.mark.parametrize("low, high", [(None, -10.0), (-30.0, -20.0), (20.0, None), (-1.0, 2.0)])
def test_clips_beyond_the_range_of_int8(low: float | None, high: float | None, tmp_path: Path) -> None:
    n = Net()
    y = clip(n, n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), low, high)
    network = check(n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.quantized(y, 4)]), images(), exact=False)
    x = images()
    ends = np.clip([-8.0 if low is None else low, 7.9375 if high is None else high], -8, 7.9375)
    made = network.compile()(x)
    assert ends[0] <= made.min() and made.max() <= ends[1]
    assert np.abs(made - expected(tmp_path / "n.onnx", x)[0]).max() <= 2.0**-4  # ties go to even there


def test_a_clip_alone_is_a_layer(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(clip(n, n.quantized("x", 4), 0, 3), 4)
    check(n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [y]), images())


@pytest.mark.parametrize("shape, layers", [((4, 8), 1), ((1, 4, 8), 0), ((1, 2, 3, 4), 1), ((1, 2, 3, 4, 5), 0)])
@pytest.mark.parametrize("op", ["Relu", "Add", "Mul", "again"])
def test_elementwise_layers_of_any_rank(op: str, shape: Shape, layers: int, tmp_path: Path) -> None:
    n = Net()
    x = n.quantized("x", 4)
    conv = n.quantized(n.op("Conv", n.quantized("i", 4), n.weight(SMALL, 6)), 3)
    others = {"Relu": [x], "Add": [x, x], "Mul": [x, n.fixed(np.float32(0.5))]}
    made = n.quantized(x if op == "again" else n.op(op, *others[op]), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, shape), "i": (np.float32, X)}, [made, conv])
    network = load(path)
    assert len(network.graph.layers) == 1 + layers
    if not layers:
        reasons = [node.reason for part in network.graph.host_parts for node in part.nodes]
        assert "only images and matrices are on the machine" in reasons
    x_, i = images(shape), images()
    np.testing.assert_array_equal(network.compile()(x_, i)[1], reference.run(network.graph, {"x": x_, "i": i})[conv])


def whole(path: Path, given: dict[str, Array], layers: int) -> Any:
    """The network of a file, which gives what its integer form does."""
    network = load(path)
    assert len([x for x in network.graph.layers if x.kind not in NO_WORK]) == layers
    made, want = network.compile()(**given), reference.run(network.graph, given)
    for a, b in zip(made, want.values()):
        np.testing.assert_array_equal(a, b)
    return network


def reasons(network: Any) -> list[str]:
    return [node.reason for part in network.graph.host_parts for node in part.nodes]


@pytest.mark.parametrize("shape, rank, layers", [
    ((1, 2, 3, 4), 4, 1), ((1, 2, 3, 4), 5, 0), ((4, 8), 2, 1), ((4, 8), 3, 0), ((4, 8), 4, 0), ((4, 8), 0, 1)])
def test_a_factor_of_more_dimensions_is_the_hosts(shape: Shape, rank: int, layers: int, tmp_path: Path) -> None:
    n = Net()
    half = n.quantized(n.op("Mul", n.quantized("x", 4), n.fixed(np.full((1,) * rank, 0.5, np.float32))), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, shape), "i": (np.float32, X)}, [half, beside(n)])
    network = whole(path, {"x": images(shape), "i": images()}, 1 + layers)
    assert ("its result has other extents than its operand" in reasons(network)) == (not layers)


@pytest.mark.parametrize("rank, layers", [(4, 1), (5, 0)])
def test_a_sum_of_widened_tensors_has_their_extents(rank: int, layers: int, tmp_path: Path) -> None:
    n = Net()
    a, b = (n.op("Mul", n.op("Cast", "x", to=6), n.fixed(np.full((1,) * rank, f, np.int32))) for f in (2, 1))
    sums = clip(n, scaled(n, real(n, n.op("Add", a, b)), 2), *LAST)
    path = n.save(tmp_path / "n.onnx", {"x": (np.int8, X), "i": (np.float32, X)}, [
        n.op("Cast", n.op("Cast", sums, to=3), to=1), beside(n)])
    network = whole(path, {"x": RNG.integers(-128, 128, X).astype(np.int8), "i": images()}, 1 + layers)
    assert ("its result has other extents than its operands" in reasons(network)) == (not layers)


CLIPPED: dict[str, Callable[[Net, str], str]] = {
    "float": lambda n, low: n.quantized(n.op("Clip", n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), low), 4),
    "fewer bits": lambda n, low: n.op("DequantizeLinear", n.op("Clip", n.op(
        "QuantizeLinear", n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), f32(n, 1), n.fixed(np.int8(0))), low, n.fixed(
            np.int8(7))), f32(n, 1), n.fixed(np.int8(0))),
    "weight": lambda n, low: n.quantized(n.op("Conv", n.quantized("x", 4), n.op("DequantizeLinear", n.op(
        "Clip", n.fixed(SMALL), low, n.fixed(np.int8(7))), f32(n, 1 / 64))), 4),
    "integers": lambda n, low: real(n, n.op("Cast", clip(n, scaled(n, n.op("Clip", real(n, n.op(
        "ConvInteger", n.op("Cast", "x", to=3), n.fixed(SMALL))), low), 4), *LAST), to=3)),
}


@pytest.mark.parametrize("form", CLIPPED)
def test_the_end_of_a_clip_is_one_number(form: str, tmp_path: Path) -> None:
    def made(shape: Shape) -> Path:
        n = Net()
        low = n.fixed(np.full(shape, -8, np.int8 if form in ("fewer bits", "weight") else np.float32))
        return n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [CLIPPED[form](n, low)])

    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    for shape in ((), (1,)):
        check(made(shape), images(), exact=False)
    for shape in ((0,), (2,), (1, 1)):
        with pytest.raises(ProgramError, match=r"node 'Clip_\d+' \(Clip\): it clips at 'k\d+', which has extents"):
            load(made(shape))
        assert main(["quantize", str(made(shape)), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]) == 2


def test_constant_weights_take_the_type_that_their_quantizer_states(tmp_path: Path) -> None:
    def conv(**attrs: Any) -> Path:
        n = Net(opset=21)
        scale = n.fixed(np.float32(2.0**-6))
        stored = n.op("QuantizeLinear", n.fixed(SMALL.astype(np.float32) / 64), scale, **attrs)
        y = n.op("Conv", n.quantized("x", 4), n.op("DequantizeLinear", stored, scale))
        return n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.quantized(y, 0)])

    signed = load(conv(output_dtype=3)).graph.layers[0].weight
    assert signed is not None and (signed == SMALL).all()
    unsigned = load(conv()).graph.layers[0].weight
    assert unsigned is not None and (unsigned == np.maximum(SMALL, 0)).all()


# -- constants, shapes, names ----------------------------------------------------------------------------------------------------


def test_operands_that_are_constants_stay_on_the_host(tmp_path: Path) -> None:
    n = Net()
    scale, zero = n.fixed(np.float32(2.0**-4)), n.fixed(np.int8(0))
    conv = n.op("QLinearConv", "x", scale, zero, n.fixed(SMALL), scale, zero, n.fixed(np.float32(0.25)), zero)
    other = n.fixed(RNG.integers(-9, 9, (1, 8, 4, 4)).astype(np.int8))
    added = n.op("QLinearAdd", conv, n.fixed(np.float32(0.25)), zero, other, n.fixed(np.float32(0.25)), zero,
                 n.fixed(np.float32(0.5)), zero, domain="com.microsoft")
    fixed = n.op("QLinearConv", n.fixed(RNG.integers(-9, 9, X).astype(np.int8)), scale, zero, n.fixed(SMALL), scale, zero, scale,
                 zero)
    path = n.save(tmp_path / "n.onnx", {"x": (np.int8, X)}, [conv, fixed], np.int8)
    network = load(path)
    assert [x.kind for x in network.graph.layers] == ["conv"]
    network.compile()(RNG.integers(-128, 128, X).astype(np.int8))
    assert added


def test_a_constant_output_is_refused(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    kept = n.op("Identity", n.fixed(np.float32([1, 2])))  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=f"output '{kept}' is a constant"):
        load(n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [y, kept]))


def test_vectors_and_numbers_from_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 0)
    vector = n.op("MatMul", n.op("Reshape", y, n.fixed(np.int64([8, 16]))), n.fixed(np.ones(16, np.float32)))  # type: ignore[arg-type]
    number = n.op("ReduceSum", y, keepdims=0)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [number, vector])
    compiled = load(path).compile()
    two = images((2, *X[1:]))
    sums, rows = compiled(two)
    apart = [compiled(two[k : k + 1]) for k in range(2)]
    assert sums.shape == (2,) and rows.shape == (16,)
    np.testing.assert_array_equal(sums, [a for a, _ in apart])
    np.testing.assert_array_equal(rows, np.concatenate([b for _, b in apart]))
    np.savez(tmp_path / "two.npz", x=two)
    assert main(["run", str(path), "--input", str(tmp_path / "two.npz"), "--check"]) == 0
    assert "all equal to" in capsys.readouterr().out
    np.savez(tmp_path / "named.npz", x=two, labels=np.zeros(2, np.int64))
    assert main(["run", str(path), "--input", str(tmp_path / "named.npz")]) == 2
    assert "not a class or a row of classes for each image" in capsys.readouterr().err
    assert main(["run", str(path), "-o", str(tmp_path)]) == 2
    assert "it is a directory" in capsys.readouterr().err


def test_results_keep_the_name_they_are_given(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [y])
    assert main(["run", str(path), "-o", str(tmp_path / "out.txt"), "--check"]) == 0
    assert np.load(tmp_path / "out.txt").shape == (1, 8, 4, 4)


def test_names_that_a_file_has_itself(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    flat = n.op("Flatten", y)
    other = n.op("Neg", y)
    last = n.quantized(n.op("Gemm", flat, n.weight(RNG.integers(-9, 9, (128, 4)).astype(np.int8), 6)), 0)
    for node in n.nodes:
        for names in (node.input, node.output):
            for k, name in enumerate(names):
                names[k] = {other: f"{flat}:view"}.get(name, {y: "reference:t1"}.get(name, name))
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [f"{flat}:view", last])
    network = load(path)
    x = images()
    made, want = network.compile()(x), reference.run(network.graph, {"x": x})
    for a, b in zip(made, want.values()):
        np.testing.assert_array_equal(a, b)


def renamed(n: Net, names: dict[str, str]) -> None:
    """Other names for tensors."""
    for node in n.nodes:
        for places in (node.input, node.output):
            places[:] = [names.get(name, name) for name in places]


def test_outputs_and_inputs_may_have_any_name(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    other = n.op("Neg", y)
    more = n.op("Abs", y)
    renamed(n, {"x": "self", y: "file", other: "allow_pickle", more: "a/b.npy"})
    path = n.save(tmp_path / "n.onnx", {"self": (np.float32, X)}, ["file", "allow_pickle", "a/b.npy"])
    x = images()
    np.save(tmp_path / "x.npy", x)
    assert main(["run", str(path), "--input", f"self={tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npz"), "--check"]) == 0
    want = load(path).compile()(self=x)
    with np.load(tmp_path / "y.npz") as stored:
        assert set(stored.files) == {"file", "allow_pickle", "a/b.npy"}
        for name, array in zip(("file", "allow_pickle", "a/b.npy"), want):
            np.testing.assert_array_equal(stored[name], array)


@pytest.mark.parametrize("kind, known", [(10, True), (16, False), (19, False), (22, False)])
def test_outputs_are_of_types_that_numpy_has(kind: int, known: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnx import helper

    n = Net(opset=21)
    last = n.op("Cast", n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3), to=kind)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [last], dtype)
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    for words in (["run"], ["quantize", "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]):
        assert main([words[0], str(path), *words[1:]]) == (0 if known else 2)
        said = capsys.readouterr().err
        assert said == ("" if known else f"autosched: node 'Cast_6' (Cast): output {last!r} is {dtype}, which NumPy has not; "
                        "cast it to another type\n")


@pytest.mark.parametrize("kind, known", [(10, True), (16, False), (19, False)])
def test_inputs_are_of_types_that_numpy_has(kind: int, known: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnx import helper

    n = Net(opset=21)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, X), "x": (dtype, (2,))}, [beside(n), n.op("Cast", "x", to=1)])
    assert main(["run", str(path)]) == (0 if known else 2)
    assert capsys.readouterr().err == ("" if known else f"autosched: x: {dtype} is no type of numbers that is read; export the "
                                       "model with another input\n")


@pytest.mark.parametrize("kind, known", [(10, True), (16, False)])
def test_parts_of_the_host_hand_on_types_that_numpy_has(kind: int, known: bool, tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    between = n.op("Cast", y, to=kind)
    z = n.quantized(n.op("Relu", n.quantized(n.op("Sigmoid", y), 7)), 6)
    last = n.op("Cast", n.op("Mul", between, n.op("Cast", z, to=kind)), to=1)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [last])
    if known:
        assert len(load(path).graph.host_parts) == 3
    else:
        with pytest.raises(ProgramError, match=f"its result '{between}' is bfloat16, which NumPy has not"):
            load(path)


def test_older_operator_sets_are_checked_too(tmp_path: Path) -> None:
    for opset in (11, 12):
        n = Net(opset=opset)
        y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
        path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.op("Neg", y)])
        assert main(["run", str(path), "--check"]) == 0


def test_softmax_of_an_older_set_keeps_its_meaning(tmp_path: Path) -> None:
    for opset in (12, 13):
        n = Net(opset=opset)
        pooled = n.op("GlobalAveragePool", n.op("Conv", "x", n.fixed(SMALL.astype(np.float32) / 64)))
        last = n.op("Softmax", pooled, **({} if opset < 13 else {"axis": 1}))
        path = n.save(tmp_path / "f.onnx", {"x": (np.float32, X)}, [last])
        cal = images((6, *X[1:]))
        np.savez(tmp_path / "cal.npz", x=cal)
        made = tmp_path / "q.onnx"
        assert main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(made)]) == 0
        np.testing.assert_allclose(expected(made, cal[:1])[0], expected(path, cal[:1])[0], atol=0.05)


def test_white_images(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 8, np.uint8), n.weight(SMALL, 6)), 3)
    compiled = load(n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [y])).compile()
    compiled(np.ones(X, np.float32))
    with pytest.raises(ProgramError, match="outside of 0 to"):
        compiled(np.full(X, 1.005, np.float32))


def test_a_product_with_a_float_result_stays_on_the_host(tmp_path: Path) -> None:
    n = Net()
    scale, zero = n.fixed(np.float32(2.0**-4)), n.fixed(np.int8(0))
    conv = n.op("QLinearConv", "x", scale, zero, n.fixed(SMALL), scale, zero, n.fixed(np.float32(0.25)), zero)
    weight = n.fixed(RNG.integers(-9, 9, (128, 4)).astype(np.int8))
    given = (n.op("Flatten", conv), n.fixed(np.float32(0.25)), zero, weight, scale, zero)
    path = n.save(tmp_path / "n.onnx", {"x": (np.int8, X)}, [n.op("QGemm", *given, domain="com.microsoft")])
    network = load(path)
    reasons = {node.op: node.reason for part in network.graph.host_parts for node in part.nodes}
    assert reasons["QGemm"] == "its result is float"
    x = RNG.integers(-128, 128, X).astype(np.int8)
    np.testing.assert_array_equal(network.compile()(x), reference.run(network.graph, {"x": x})[network.graph.outputs[0]])


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [y])
    import onnx

    model = onnx.load(path)
    model.graph.output.append(model.graph.input[0])
    onnx.save(model, path)
    x = images()
    np.testing.assert_array_equal(load(path).compile()(x)[1], x)


def test_what_the_host_refuses_while_it_runs_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n = Net()
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X), "at": (np.int64, (1,))}, [n.op("Gather", y, "at", axis=1)])
    compiled, x = load(path).compile(), images()
    assert compiled(x, np.array([7])).shape == (1, 1, 4, 4)
    with pytest.raises(ProgramError, match=r"onnxruntime refuses it: .*out of"):
        compiled(x, np.array([99]))
    # What is drawn for a place in a table is one that every table has.
    assert main(["export", str(path), "-o", str(tmp_path / "n.json")]) == 0
    assert main(["run", str(path), "--check"]) == 0 and "all equal to" in capsys.readouterr().out


@pytest.mark.parametrize(("attrs", "reason"), [
    ({"alpha": 0.5}, "alpha and beta"), ({"transA": 1}, "its data are transposed"), ({}, "its weight is no quantized constant"),
])
def test_why_a_product_is_the_hosts(attrs: dict[str, Any], reason: str, tmp_path: Path) -> None:
    n = Net()
    y = n.op("Gemm", n.quantized("j", 4), n.fixed(np.ones((4, 4), np.float32)), **attrs)
    path = n.save(tmp_path / "n.onnx", {"j": (np.float32, (4, 4)), "i": (np.float32, X)}, [y, beside(n)])
    assert next(x.reason for p in load(path).graph.host_parts for x in p.nodes if x.op == "Gemm").startswith(reason)


def test_classes_that_a_network_says_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n = Net()
    y = n.quantized(n.op("GlobalAveragePool", n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.op("ArgMax", y, axis=1, keepdims=0)], np.int64)
    x = images((6, *X[1:]))
    right = load(path).compile()(x).reshape(-1)
    np.savez(tmp_path / "i.npz", x=x, labels=np.where(np.arange(6) < 4, right, right + 1))
    assert main(["run", str(path), "--input", str(tmp_path / "i.npz")]) == 0
    assert "accuracy 66.67 %" in capsys.readouterr().out


@pytest.mark.parametrize("opset", [11, 13])
def test_files_without_data_may_be_of_an_older_set(opset: int, tmp_path: Path) -> None:
    import onnx

    n = Net(opset=opset)
    conv = n.op("Conv", "x", n.fixed(SMALL.astype(np.float32)))
    axes = {"axes": [2, 3]} if opset < 13 else {}
    flat = n.op("Squeeze", n.op("GlobalAveragePool", conv), *([n.fixed(np.array([2, 3]))] if opset > 11 else []), **axes)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.op("Gemm", flat, n.fixed(np.ones((8, 4), np.float32)))])
    model = onnx.load(path)
    for weight in model.graph.initializer:
        if len(weight.dims) > 1:
            weight.ClearField("raw_data")
    onnx.save(model, path)
    assert [layer.kind for layer in load(path).graph.layers if layer.kind != "view"] == ["conv", "average", "dense"]


def test_a_quantized_file_is_not_told_to_be_quantized(tmp_path: Path) -> None:
    n = Net()
    y = n.op("Gemm", n.quantized("x", 4), n.fixed(np.ones((4, 4), np.float32)), transA=1)
    with pytest.raises(ProgramError, match="nothing is left for the machine") as refusal:
        load(n.save(tmp_path / "n.onnx", {"x": (np.float32, (4, 6))}, [n.quantized(y, 3)]))
    assert "autosched quantize" not in str(refusal.value)


def test_all_results_of_a_node_have_their_int8_form(tmp_path: Path) -> None:
    n = Net()
    conv = n.op("Conv", "x", n.fixed(SMALL.astype(np.float32) / 64))
    halves = [n.op("Split", n.op("Sigmoid", conv), axis=1), "other"]
    n.nodes[-1].output.append("other")
    n.nodes[-1].input.append(n.fixed(np.array([3, 5])))
    lasts = [n.op("Conv", half, n.fixed(np.ones((4, c, 1, 1), np.float32) / 8)) for half, c in zip(halves, (3, 5))]
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, lasts)
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    made = tmp_path / "q.onnx"
    assert main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(made)]) == 0
    x = images()
    network = whole(made, {"x": x}, 3)
    for a, b in zip(network.compile()(x), expected(path, x)):
        np.testing.assert_allclose(a, b, atol=0.05)


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-ultra96"])
@pytest.mark.parametrize("apart", [True, False])
def test_shifts_per_channel_are_not_of_every_machine(
    target: str, apart: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = Net()
    scales = n.fixed((2.0 ** -np.array([6, 7 if apart else 6] * 4)).astype(np.float32))
    weight = n.op("DequantizeLinear", n.fixed(SMALL), scales, n.fixed(np.zeros(8, np.int8)), axis=0)
    y = n.quantized(n.op("Conv", n.quantized("x", 4), weight), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [y])
    code = main(["run", str(path), "--target", target, "--check"])
    said = capsys.readouterr().err
    if apart and target != "vta-de10":
        why = f"its channels shift by different numbers, which {target} does not"
        assert code == 2 and f"autosched: node 'Conv_3': {why}; quantize it without --per-channel\n" == said
        assert main(["tune", str(path), "--target", target, "--trials", "1", "--log", str(tmp_path / "log")]) == 2
        assert why in capsys.readouterr().err
    else:
        assert code == 0 and said == ""
