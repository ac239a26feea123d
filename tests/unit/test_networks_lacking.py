"""Files that lack something: inputs, data, names, types and extents. What is missing is said in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_networks import RNG, SMALL, Net, X, beside, check, f32, images

from autosched.cli import main
from autosched.errors import ProgramError
from autosched.networks import load
from autosched.networks.quantize import quantize

# Of operators of onnxruntime's own: tensors, scales and zero points in order, and how many they need at least.
OWN = {
    "QLinearAdd": ("xszxszsz", 7), "QLinearMul": ("xszxszsz", 7), "QGemm": ("mszwszbsz", 6), "QLinearConcat": ("szxszxsz", 5),
    "QLinearGlobalAveragePool": ("xszsz", 4), "QLinearSigmoid": ("xszsz", 4), "QLinearLeakyRelu": ("xszsz", 4),
    "QLinearSoftmax": ("xszsz", 4),
}


@pytest.mark.parametrize("op", OWN)
def test_operators_of_onnxruntimes_own_need_their_inputs(op: str, tmp_path: Path) -> None:
    letters, least = OWN[op]

    def made(count: int) -> Path:
        n = Net()
        q = n.op("QuantizeLinear", "i", f32(n, 1 / 16), n.fixed(np.int8(0)))
        of = {"x": q, "m": n.op("Flatten", q), "f": "i", "s": f32(n, 1 / 16), "z": n.fixed(np.int8(0)), "w": n.fixed(
            np.ones((108, 4), np.int8)), "b": n.fixed(np.zeros(4, np.int32))}
        axis = {"axis": 1} if op == "QLinearConcat" else {}
        n.op(op, *[of[letter] for letter in letters[:count]], domain="com.microsoft", **axis)
        return n.save(tmp_path / "n.onnx", {"i": (np.float32, X)}, [beside(n)])

    load(made(len(letters)))
    load(made(least))
    for count in range(1, len(letters) if op == "QLinearConcat" else least):
        if count != least:
            with pytest.raises(ProgramError, match=rf"\({op}\): its input \d is missing"):
                load(made(count))


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("names", [(), ("f",), ("f", "", "z"), ("f", "s", "z")])
def test_constants_are_quantized_by_whole_nodes(names: tuple[str, ...], blank: bool, tmp_path: Path) -> None:
    """Also where the file has tensors without data."""
    import onnx

    n = Net()
    last = beside(n)
    of = {"": "", "f": f32(n, 1), "s": f32(n, 1), "z": n.fixed(np.int8(0))}
    n.op("QuantizeLinear", *[of[name] for name in names])
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, X)}, [last])
    if blank:
        model = onnx.load(path)
        next(w for w in model.graph.initializer if len(w.dims) == 4).ClearField("raw_data")
        onnx.save(model, path)
    if len(names) == 3 and all(names):
        load(path)
    else:
        with pytest.raises(ProgramError, match="damaged: Node"):
            load(path)


@pytest.mark.parametrize("kind, name, said", [
    (0, "", "tensor '' has no type"), (99, "u", "tensor 'u' has no type"), (1, "", "damaged: .*'name'"), (1, "u", "")])
def test_tensors_without_data_have_a_name_and_a_type(kind: int, name: str, said: str, tmp_path: Path) -> None:
    import onnx

    n = Net()
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, X)}, [beside(n)])
    model = onnx.load(path)
    model.graph.initializer.add(data_type=kind, name=name, dims=[2])
    onnx.save(model, path)
    if said:
        with pytest.raises(ProgramError, match=said):
            load(path)
    else:
        assert load(path).graph.blank == "u"


@pytest.mark.parametrize("op", ["GroupNormalization", "MeanVarianceNormalization"])
@pytest.mark.parametrize("form", ["quantized", "read in float"])
def test_norms_of_which_onnx_infers_nothing_are_the_hosts(op: str, form: str, tmp_path: Path) -> None:
    n = Net(opset=21)
    y = n.quantized(n.op("Conv", n.quantized("x", 4), n.weight(SMALL, 6)), 3)
    rest, attrs = ([n.fixed(np.ones(8, np.float32))] * 2, {"num_groups": 2}) if op == "GroupNormalization" else ([], {})
    y = n.op(op, y, *rest, **attrs)
    y = n.quantized(y if form == "quantized" else n.op("Neg", y), 5)
    last = n.quantized(n.op("Conv", y, n.weight(RNG.integers(-20, 20, (4, 8, 1, 1)).astype(np.int8), 6)), 3)
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [last])
    check(path, images(), layers=2, exact=False)
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    made = tmp_path / "q.onnx"
    assert main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(made)]) == 0
    check(made, images(), layers=2, exact=False)


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("op", ["Gelu", "Reshape"])
def test_extents_that_only_the_file_states(op: str, stated: bool, tmp_path: Path) -> None:
    import onnx

    n = Net()
    conv = n.op("Conv", "x", n.fixed(SMALL.astype(np.float32) / 64))
    if op == "Gelu":
        y = n.op("Gelu", conv, domain="com.microsoft")
    else:
        none = n.op("Mul", n.op("ReduceMax", conv, keepdims=0), f32(n, 0))  # what an image decides
        y = n.op("Reshape", conv, n.op("Cast", n.op("Add", none, n.fixed(np.array([1, 8, 4, 4], np.float32))), to=7))
    last = n.op("Conv", n.op("Neg", y), n.fixed(np.ones((4, 8, 1, 1), np.float32)))
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [last])
    model = onnx.load(path)
    if stated:
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(y, 1, [1, 8, 4, 4]))
    onnx.save(model, path)
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    words = [str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]
    assert main(["quantize", *words]) == (0 if stated else 2)
    if stated:
        check(tmp_path / "q.onnx", images(), layers=2, exact=False)
    else:
        with pytest.raises(ProgramError, match=rf"\({op}\): the shape of '{y}' cannot be inferred; .* in its value_info"):
            load(path)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("inside", [False, True])
def test_what_is_quantized_is_float32(kind: Any, inside: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n = Net()
    to = {np.float32: 1, np.float16: 10, np.float64: 11}[kind]
    y = n.op("MatMul", n.op("Cast", n.op("Abs", "x"), to=to) if inside else "x", n.fixed(np.ones((6, 4), kind)))
    taken = np.float32 if inside else kind
    path = n.save(tmp_path / "n.onnx", {"x": (taken, (4, 6))}, [n.op("Cast", y, to=1) if inside else y], taken)
    np.savez(tmp_path / "cal.npz", x=images((8, 6)).astype(taken))
    made = tmp_path / "q.onnx"
    code = main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(made)])
    said = capsys.readouterr().err
    if kind == np.float32:
        assert code == 0
        check(made, images((4, 6)), exact=False)
    else:
        assert code == 2 and not made.exists()
        assert f"(MatMul): its input is {np.dtype(kind)}; float32 is what can be quantized" in said
        with pytest.raises(ProgramError, match="float32 is what can be quantized"):
            load(path)


def test_a_network_of_which_nothing_can_be_quantized(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n = Net()
    path = n.save(tmp_path / "n.onnx", {"x": (np.float32, X)}, [n.op("Sigmoid", "x")])
    np.savez(tmp_path / "cal.npz", x=images((4, *X[1:])))
    assert main(["quantize", str(path), "--calibrate", str(tmp_path / "cal.npz"), "-o", str(tmp_path / "q.onnx")]) == 2
    assert capsys.readouterr().err.endswith("none of its 1 nodes can be quantized; run it with onnxruntime\n")


@pytest.mark.parametrize("kind", ["sequence", "optional", "tensor"])
def test_inputs_are_tensors(kind: str, tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    n = Net()
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, X)}, [beside(n)])
    model = onnx.load(path)
    tensor = helper.make_tensor_type_proto(1, [2])
    more = {"sequence": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto, "tensor": lambda t: t}
    model.graph.input.append(helper.make_value_info("s", more[kind](tensor)))
    onnx.save(model, path)
    if kind == "tensor":
        assert load(path).graph.inputs == ("i", "s")
    else:
        with pytest.raises(ProgramError, match=f"input 's' is a {kind}, not a tensor; export the model with tensors alone"):
            load(path)


@pytest.mark.parametrize("words", [("run",), ("tune", "--trials", "1", "--jobs", "1"), ("export", "-o", "p.json")])
def test_layers_whose_results_nobody_wants_are_no_network(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    n = Net()
    dead, live = beside(n), n.op("Sigmoid", "i")
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, X)}, [live])
    assert main([words[0], str(path), *words[1:]]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err == (
        "autosched: n: no output depends on what the machine computes ('Conv_3'); "
        "nothing is left for the machine: run it with onnxruntime\n")
    assert len(load(n.save(path, {"i": (np.float32, X)}, [live, dead])).graph.layers) == 1


def _transposed(n: Net) -> str:
    return n.op("Gemm", "i", n.fixed(RNG.standard_normal((6, 8)).astype(np.float32)), transA=1)


def _plain(n: Net) -> str:
    return n.op("Gemm", "i", n.fixed(RNG.standard_normal((6, 8)).astype(np.float32)))


def _signed(n: Net) -> str:
    return n.op("MaxPool", "i", kernel_shape=[2, 2], pads=[1, 1, 1, 1])


def _positive(n: Net) -> str:
    return n.op("MaxPool", n.op("Relu", "i"), kernel_shape=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize(("make", "shape", "layer"), [
    (_transposed, (6, 6), False), (_plain, (6, 6), True), (_signed, (1, 8, 6, 6), False), (_positive, (1, 8, 6, 6), True),
])
def test_what_gives_no_layer_is_not_quantized(make: Any, shape: tuple[int, ...], layer: bool, tmp_path: Path) -> None:
    n = Net()
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, shape)}, [make(n)])
    data = {"i": RNG.standard_normal(shape).astype(np.float32)}
    if layer:
        quantize(path, data, tmp_path / "q.onnx")
        load(tmp_path / "q.onnx")
    else:
        with pytest.raises(ProgramError, match=r"nothing is left for the machine: run it with onnxruntime$"):
            quantize(path, data, tmp_path / "q.onnx")
        assert not (tmp_path / "q.onnx").exists()


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_file_with_some_quantizers_is_sent_to_quantize_where_that_helps(transposed: bool, opset: int, tmp_path: Path) -> None:
    n = Net(opset)
    weight = RNG.standard_normal((6, 8)).astype(np.float32)
    out = n.op("Gemm", n.quantized("i", 4), n.fixed(weight), n.fixed(weight[0]), **({"transA": 1} if transposed else {}))
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, (6, 6))}, [out])
    with pytest.raises(ProgramError) as refused:
        load(path)
    way = "quantize it: autosched quantize n.onnx --calibrate data.npz -o q.onnx"
    assert str(refused.value).endswith("run it with onnxruntime" if transposed else way)
    data = {"i": RNG.standard_normal((6, 6)).astype(np.float32)}
    if transposed:
        with pytest.raises(ProgramError, match="nothing is left for the machine"):
            quantize(path, data, tmp_path / "q.onnx")
    else:
        quantize(path, data, tmp_path / "q.onnx")
        assert load(tmp_path / "q.onnx").graph.layers
