"""What a file may hold, and the one line that refuses what it may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.errors import AutoschedError, ProgramError, UnknownNameError
from autosched.networks import load, reference
from autosched.networks.compare import differences
from autosched.networks.onnx_file import read
from autosched.networks.windows import Window, weight_sums
from sim.races import check_races

ONE_LINE = 400


def saved(model: Any, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def small(onnx_models: ModuleType, form: str = "qdq", unsigned: bool = False) -> Any:
    b = onnx_models.Builder(form, np.random.default_rng(0), (1, 16, 6, 6), unsigned)
    b.last = b.conv("x", 16, 3, pad=1)
    return b


Change = Callable[[Any, Any], None]


def open_batch(model: Any, b: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"


def unstated(model: Any, b: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("shape")


def number(model: Any, b: Any) -> None:
    model.graph.input.add(name="factor").type.CopyFrom(model.graph.input[0].type)
    del model.graph.input[1].type.tensor_type.shape.dim[:]


def functions(*bodies: str, opset: int = 17) -> Change:
    """The Relu as a function of the file's own, whose nodes may be functions again: ``f1`` is the second."""
    def change(model: Any, b: Any) -> None:
        from onnx import helper

        def node(op: str, x: str, y: str) -> Any:
            return helper.make_node(op, [x], [y], domain="own" if op.startswith("f") else "")

        sets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        for k, ops in enumerate(bodies):
            names = ["a", *(f"t{i}" for i in range(len(ops.split()) - 1)), "r"]
            nodes = [node(op, x, y) for op, x, y in zip(ops.split(), names, names[1:])]
            model.functions.append(helper.make_function("own", f"f{k}", ["a"], ["r"], nodes, sets))
        relu = next(x for x in model.graph.node if x.op_type == "Relu")
        relu.op_type, relu.domain = "f0", "own"
        model.opset_import.add(domain="own", version=1)

    return change


def branches(levels: int) -> Change:
    """``functions`` of which each calls the next in both branches of an If."""
    def change(model: Any, b: Any) -> None:
        from onnx import helper

        functions(*["Relu"] * levels)(model, b)
        for k, body in enumerate(model.functions[:-1]):
            call = helper.make_node(f"f{k + 1}", ["a"], ["r"], domain="own")
            graph = helper.make_graph([call], "branch", [], [helper.make_tensor_value_info("r", 1, None)])
            del body.node[:]
            body.node.append(helper.make_node("If", ["a"], ["r"], then_branch=graph, else_branch=graph))

    return change


def odd_scale(model: Any, b: Any) -> None:
    from onnx import numpy_helper

    for c in model.graph.initializer:
        if c.name.startswith("scale") and numpy_helper.to_array(c).reshape(-1)[0] == np.float32(2.0**-6):
            c.CopyFrom(numpy_helper.from_array(np.float32(0.0173), c.name))


def large_bias(model: Any, b: Any) -> None:
    from onnx import numpy_helper

    for c in model.graph.initializer:
        if numpy_helper.to_array(c).dtype == np.int32:
            c.CopyFrom(numpy_helper.from_array(np.full(16, 2**31 - 1, np.int32), c.name))


def external(place: str, at: int = 0) -> Change:
    def change(model: Any, b: Any) -> None:
        tensor = model.graph.initializer[at]
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", place
        tensor.data_location = 1
        tensor.ClearField("raw_data")

    return change


def without(name: str) -> Change:
    def change(model: Any, b: Any) -> None:
        node = next(node for node in model.graph.node if node.op_type == "DequantizeLinear" and len(node.input) > 2)
        next(c for c in model.graph.initializer if c.name == node.input[1 if name == "scale" else 2]).ClearField("raw_data")

    return change


def biased(model: Any, b: Any) -> None:
    """The constant of int32 is the bias."""
    next(c for c in model.graph.initializer if c.data_type == 6).ClearField("raw_data")


def odd_operator(model: Any, b: Any) -> None:
    model.graph.node.add(op_type="a\x1b[2Jb", domain="com.microsoft", input=["x"], output=["odd"], name="odd")


def old_opset(model: Any, b: Any) -> None:
    model.opset_import[0].version = 10


def future_opset(model: Any, b: Any) -> None:
    model.opset_import[0].version = 99


def loop(model: Any, b: Any) -> None:
    from onnx import helper

    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body, name="branch"))


def foreign(model: Any, b: Any) -> None:
    model.graph.node[1].domain = "qonnx.custom_op.general"


def cut(model: Any, b: Any) -> None:
    model.graph.node[1].input[0] = "nowhere"


def wrong_shape(model: Any, b: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 17


@pytest.mark.parametrize(("change", "words"), [
    (open_batch, ("'x'", "open shape [N,16,6,6]", "--shape x=1,16,6,6")),
    (unstated, ("'x'", "open shape [...]", "--shape x=")),
    (number, ("'factor' is one number", "export it as a constant")),
    (odd_scale, ("node 'Conv", "0.0173", "no power of two", "autosched quantize")),
    (large_bias, ("node 'Conv", "accumulator of channel", "2^31")),
    (external("good.onnx"), ("another file", "onnx.save")),
    (external("data/w.bin"), ("another file", "onnx.save")),
    (external("../elsewhere/good.onnx"), ("another file, '../elsewhere/good.onnx'", "outside of its folder")),
    (external("/good.onnx"), ("another file, '/good.onnx'", "outside of its folder")),
    (external("data/none.bin", 1), ("the scale", "has its data in 'data/none.bin', which is missing; store its data in")),
    (external("n" * 260, 1), ("the scale", "which is missing")),
    (without("scale"), ("the scale", "has a shape and no data; store its data in the file")),
    (without("zero"), ("the zero point", "has a shape and no data; store its data in the file")),
    (biased, ("its bias", "has a shape and no data; store its data in the file")),
    (odd_operator, ("node 'odd' ('a\\x1b[2Jb')", "cannot be inferred")),
    (old_opset, ("operator set 10", "11 to", "convert_version")),
    (future_opset, ("operator set 99", "convert_version")),
    (loop, ("'branch'", "unroll")),
    (foreign, ("qonnx.custom_op.general", "QDQ")),
    (functions("Relu f1", "f0"), ("function 'f0' calls itself", "export the model without functions")),
    (functions(*[f"f{k + 1}" for k in range(50)], "Relu"), ("function 'f50' is called by 50 others",)),
    (functions(*[f"f{k + 1} f{k + 1}" for k in range(15)], "Relu"), ("32773 nodes, with those of its functions", "at most")),
    (branches(30), ("nodes, with those of its functions; at most",)),
    (cut, ("damaged", "nowhere")),
    (wrong_shape, ("shapes do not fit",)),
])
def test_a_file_that_cannot_be_read_is_refused_in_one_line(
    change: Change, words: tuple[str, ...], onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = small(onnx_models)
    model = b.model(b.last)
    load(saved(model, tmp_path / "good.onnx"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"")
    change(model, b)
    with pytest.raises(ProgramError) as caught:
        load(saved(model, tmp_path / "bad.onnx"))
    text = str(caught.value)
    assert "\n" not in text and len(text) < ONE_LINE, text
    assert all(w in text for w in words), text


def test_an_open_shape_is_given_and_checked(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = small(onnx_models)
    model = b.model(b.last)
    open_batch(model, b)
    path = saved(model, tmp_path / "open.onnx")
    assert load(path, shapes={"x": (2, 16, 6, 6)}).graph.tensors[b.last].shape == (2, 16, 6, 6)
    with pytest.raises(ProgramError, match=r"input 'x' is \[N,16,6,6\], not 1,16,7,6"):
        load(path, shapes={"x": (1, 16, 7, 6)})
    with pytest.raises(ProgramError, match="no input 'y'"):
        load(path, shapes={"y": (1, 16, 6, 6)})
    unstated(model, b)
    assert load(saved(model, path), shapes={"x": (1, 16, 6, 6)}).graph.tensors[b.last].shape == (1, 16, 6, 6)


@pytest.mark.parametrize("change", [
    functions("f1 f1", "Relu"), functions("Relu", opset=14), functions(*[f"f{k + 1}" for k in range(49)], "Relu"),
])
def test_functions_of_the_files_own_are_written_out(change: Change, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = small(onnx_models)
    model = b.model(b.last)
    change(model, b)
    (layer,) = load(saved(model, tmp_path / "n.onnx")).graph.layers
    assert layer.requant is not None and layer.requant.low == 0


@pytest.mark.parametrize("lacks", ["shape", "type"])
def test_outputs_are_inferred(lacks: str, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = small(onnx_models)
    model = b.model(b.last)
    out = model.graph.output[0]
    if lacks == "type":
        out.ClearField("type")
    else:
        out.type.tensor_type.ClearField("shape")
    known = load(saved(model, tmp_path / "n.onnx")).graph.tensors[b.last]
    assert (known.shape, known.dtype) == ((1, 16, 6, 6), "int8")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "deep.onnx").write_bytes(b"\x3a\x0a" * 5000)
    for name in ("net", "text", "deep"):
        with pytest.raises(ProgramError, match="not an ONNX file, or damaged"):
            load(tmp_path / f"{name}.onnx")
    with pytest.raises(ProgramError, match="did you mean"):
        load(tmp_path / "nett.onnx")
    with pytest.raises(UnknownNameError, match="floor"):
        load(tmp_path / "net.onnx", rounding="flor")


def test_every_truncation_of_a_file_is_refused_or_read(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = small(onnx_models)
    data = b.model(b.last).SerializeToString()
    rng = np.random.default_rng(0)
    for _ in range(60):
        bad = bytearray(data[: int(rng.integers(1, len(data)))])
        for at in rng.integers(0, len(bad), int(rng.integers(0, 4))):
            bad[at] = int(rng.integers(0, 256))
        path = tmp_path / "cut.onnx"
        path.write_bytes(bytes(bad))
        try:
            load(path)
        except ProgramError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["Relu", "Conv_q1", "com.microsoft", "kernel_shape", "scale2", "graph"])
def test_names_that_are_no_text_are_refused(text: str, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = small(onnx_models)
    model = b.model(b.last)
    model.graph.name, model.graph.node[-1].name = "graph", "Conv_q1"
    data = saved(model, tmp_path / "n.onnx").read_bytes()
    assert text.encode() in data and load(tmp_path / "n.onnx").graph.layers
    (tmp_path / "n.onnx").write_bytes(data.replace(text.encode(), text[:-1].encode() + b"\xe9"))
    with pytest.raises(ProgramError, match=r"damaged \(b'.*\\xe9.* is no text\)"):
        load(tmp_path / "n.onnx")


def test_a_float_network_is_refused_by_the_name_of_its_first_layer(onnx_models: ModuleType, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], np.zeros(108, np.float32))
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="stem")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])], [w],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ProgramError, match=r"node 'stem' \(Conv\): its input is float; quantize it: autosched quantize float"):
        load(saved(model, tmp_path / "float.onnx"))


@pytest.mark.parametrize(("zero", "form"), [(0, "qdq"), (128, "qdq"), (100, "qdq"), (100, "qlinear")])
def test_zero_points_are_folded_and_count_less_where_padding_is_read(
    zero: int, form: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    for pad, stride, group in ((0, 1, 1), (1, 1, 1), (1, 2, 1), (2, 1, 2), (1, 1, 32)):
        b = onnx_models.Builder(form, np.random.default_rng(0), (1, 16, 6, 6), unsigned=True)
        first = b.conv("x", 32, 1, zero=zero)
        last = b.conv(first, 32, 3, stride, pad=pad, group=group, zero=zero)
        path = saved(b.model(last), tmp_path / "net.onnx")
        net = load(path)
        done = net.graph.layers[-1].requant
        assert done is not None and done.bias.ndim == (3 if pad and zero != 128 else 1)
        x = b.image()
        got = net.compile(tmp_path)(x)
        assert np.array_equal(got, reference.run(net.graph, {"x": x})[last])
        if form == "qdq":
            assert all(d.unexplained == 0 for d in differences(net.graph, read(path), {"x": x}))
        far = np.abs(got.astype(int) - reference.session(b.model(last)).run(None, {"x": x})[0].astype(int))
        # onnxruntime rounds ties to even, the machine upwards.
        assert far.max() <= 1 and (far > 0).mean() < 0.05


@pytest.mark.parametrize(("stride", "pads", "apart"), [
    ((1, 1), (1, 1, 1, 1), (1, 1)), ((2, 1), (1, 0, 2, 1), (1, 1)), ((1, 3), (0, 2, 0, 0), (1, 1)),
    ((2, 1), (3, 4, 2, 4), (2, 4)),
])
def test_weights_outside_of_the_image_do_not_count(
    stride: tuple[int, int], pads: tuple[int, int, int, int], apart: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (3, 4, 3, 2)).astype(np.int8)
    inside = np.pad(np.ones((5, 7), np.int64), [(pads[0], pads[2]), (pads[1], pads[3])])
    windows = np.lib.stride_tricks.sliding_window_view(inside, (2 * apart[0] + 1, apart[1] + 1))
    windows = windows[:: stride[0], :: stride[1], :: apart[0], :: apart[1]]
    want = np.einsum("yxrs,ocrs->oyx", windows, weight.astype(np.int64))
    sizes = Window(stride, pads, apart)
    assert np.array_equal(weight_sums(weight, 5, (1, 4, 5, 7), sizes), want)
    assert np.array_equal(weight_sums(weight, 0, (1, 4, 5, 7), sizes), weight.astype(np.int64).sum(axis=(1, 2, 3)))


def test_integer_files_are_not_padded_with_a_zero_point(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("integer", np.random.default_rng(0), (1, 16, 6, 6), unsigned=True)
    path = saved(b.model(b.conv("x", 16, 3, pad=1)), tmp_path / "net.onnx")
    with pytest.raises(ProgramError, match=r"\(ConvInteger\): its input is padded and has zero point -128 \(uint8: 0\)"):
        load(path)


@pytest.mark.parametrize(("form", "sizes", "group", "zero"), [
    ("qdq", (3, 1, 2, 2), 1, 0), ("integer", (3, 2, 3, 3), 1, 0), ("qlinear", (2, 1, 2, 4), 1, 100), ("qdq", (3, 1, 2, 2), 16, 0),
])
def test_dilated_convolutions(
    form: str, sizes: tuple[int, int, int, int], group: int, zero: int, onnx_models: ModuleType, tmp_path: Path
) -> None:
    k, stride, pad, apart = sizes
    b = onnx_models.Builder(form, np.random.default_rng(0), (1, 16, 7, 7), unsigned=zero > 0)
    last = b.conv(b.conv("x", 16, 1, zero=zero), 16, k, stride, pad, group, apart=apart)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    assert net.graph.share() == 1.0
    x = b.image()
    got = net.compile(tmp_path)(x)
    assert np.array_equal(got, reference.run(net.graph, {"x": x})[last])
    # Ties alone round otherwise.
    assert np.abs(got.astype(int) - reference.session(b.model(last)).run(None, {"x": x})[0].astype(int)).max() <= 1


@pytest.mark.parametrize(("size", "sizes", "over"), [
    (7, (3, 2, 0), 0), (8, (3, 2, 0), 1), (6, (3, 3, 1), 1), (5, (2, 3, 1), None),
])
def test_windows_that_hang_over_the_edge(
    size: int, sizes: tuple[int, int, int], over: int | None, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 3, size, size))
    last = b.maxpool(b.conv("x", 16, 1), *sizes, over or 0, ceil_mode=1)
    model = b.model(last)
    if over is None:
        infer_shapes = pytest.importorskip("onnx").shape_inference.infer_shapes
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.ClearField("shape")
        model = infer_shapes(model)  # which states what onnx thinks
    net = load(saved(model, tmp_path / "net.onnx"))
    assert net.graph.layers[-1].kind == "max" and net.graph.tensors[last].shape == b.shapes[last]
    x = b.image()
    # The file itself says how windows are counted.
    want = reference.session(b.model(last)).run(None, {"x": x})[0].astype(int)
    assert np.abs(reference.run(net.graph, {"x": x})[last] - want).max() <= 1


@pytest.mark.parametrize(("op", "size", "window"), [
    ("MaxPool", (5, 5), (2, 3, 1)), ("AveragePool", (5, 5), (2, 3, 1)), ("MaxPool", (5, 8), (2, 3, 1)),
])
def test_onnxruntime_is_given_pools_whose_extents_it_knows(
    op: str, size: tuple[int, int], window: tuple[int, int, int], onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 16, *size))
    (k, stride, pad), first = window, b.conv("x", 16, 1, relu=False, zero=9)
    attrs = {"kernel_shape": [k] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": 1}
    # Windows that begin behind the image are none; that of the eight columns hangs over.
    made = b.quantize(b.node(op, [b.floats(first)], **attrs), (1, 16, *(-(-(e + 2 * pad - k + 1) // stride) for e in size)), 5, 9)
    last = b.conv(made, 16, 3, pad=1)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    assert [n.op for part in net.graph.host_parts for n in part.nodes if n.op == op] == [op]
    x = b.image()
    assert np.array_equal(net.compile(tmp_path)(x), reference.run(net.graph, {"x": x})[last])
    with pytest.raises(ProgramError, match="onnxruntime refuses it"):
        reference.run(net.graph, {"x": x[:, :1]})


@pytest.mark.parametrize("relu", [True, False])
def test_what_the_machine_cannot_do_is_listed_with_its_reason(relu: bool, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 16, 8, 8))
    first = b.conv("x", 32, 3, pad=1, relu=relu)
    a = b.maxpool(first, 3, 2, 1)
    last = b.dense(b.flatten(b.conv(a, 16, 3)), 7)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    kept = [n for part in net.graph.host_parts for n in part.nodes if n.reason != "feeds the host"]
    # Behind a Relu nothing is below the zeros that the machine pads with.
    assert [n.op for n in kept] == ([] if relu else ["MaxPool", "QuantizeLinear"])
    assert relu or "may be below zero" in kept[0].reason
    assert net.graph.share() == 1.0
    ready = net.compile(tmp_path)
    assert len(ready.streams) == (1 if relu else 2)
    assert all(check_races(s.program) == [] for s in ready.streams)
    x = b.image()
    assert np.array_equal(ready(x), reference.run(net.graph, {"x": x})[last])


@pytest.mark.parametrize("wrong", [
    (lambda x: x[:, :8], "expected shape"), (lambda x: x.astype(np.float32), "expected int8"),
    (lambda x: x[0], "expected shape"), (lambda x: x[:0], "expected shape"), (lambda x: [[1], [2, 3]], "not an array"),
])
def test_a_wrong_image_is_refused(wrong: Any, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = small(onnx_models)
    ready = load(saved(b.model(b.last), tmp_path / "net.onnx")).compile(tmp_path)
    change, words = wrong
    with pytest.raises(ProgramError, match=words):
        ready(change(b.image()))
    with pytest.raises(ProgramError, match="takes 1 arrays"):
        ready(b.image(), b.image())
    with pytest.raises(ProgramError, match="no input 'y'"):
        ready(y=b.image())


def test_running_and_importing_load_no_search_library(onnx_models: ModuleType, tmp_path: Path) -> None:
    import subprocess
    import sys

    b = small(onnx_models)
    path = saved(b.model(b.last), tmp_path / "net.onnx")
    ready = load(path).compile(tmp_path)
    ready.save(tmp_path / "net.zip")
    np.save(tmp_path / "x.npy", b.image())
    code = (
        "import sys, numpy as np\n"
        "from autosched.networks import CompiledNetwork, load\n"
        f"net = CompiledNetwork.load({str(tmp_path / 'net.zip')!r}); net(np.load({str(tmp_path / 'x.npy')!r}))\n"
        "assert 'onnx' not in sys.modules and 'onnxruntime' not in sys.modules\n"
        f"load({str(path)!r}).compile({str(tmp_path)!r})\n"
        "bad = {'optuna', 'xgboost', 'joblib'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("form", ["qdq", "qlinear", "integer", "trained"])
def test_a_file_damaged_anywhere_is_read_or_refused_in_one_line(
    form: str, onnx_models: ModuleType, damaged_networks: ModuleType, tmp_path: Path
) -> None:
    from autosched.networks.quantize import quantize

    rng = np.random.default_rng(0)
    whole = onnx_models.residual(form, rng) if form != "trained" else None
    model = onnx_models.trained(4, 2.0**-5) if whole is None else whole.model(whole.last)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    image = rng.normal(size=shape).astype(np.float32) if whole is None else whole.image()
    path, read_ = tmp_path / "net.onnx", 0
    for seed in range(50):
        path.write_bytes(damaged_networks.damaged(model, seed).SerializeToString())
        for use in (lambda: load(path), lambda: quantize(path, {"x": image}, tmp_path / "q.onnx")):
            try:
                use()
                read_ += 1
            except AutoschedError as error:
                assert "\n" not in str(error), (seed, error)
    assert 5 <= read_ <= 60


@pytest.mark.parametrize(("op", "axis", "kept"), [
    ("Conv", 0, True), ("Conv", 1, False), ("MatMul", 1, True), ("MatMul", 0, False),
])
def test_scales_of_a_weight_are_those_of_its_outputs(op: str, axis: int, kept: bool, tmp_path: Path) -> None:
    """As many inputs as outputs: only the axis tells whose scales they are."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    image = [1, 8] if op == "MatMul" else [1, 8, 4, 4]
    constants = {
        "w": rng.integers(-9, 9, (8, 8) if op == "MatMul" else (8, 8, 1, 1)).astype(np.int8), "z": np.int8(0),
        "ws": (2.0 ** -rng.permutation(8)).astype(np.float32), "wz": np.zeros(8, np.int8), "s": np.float32(0.5),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=axis),
        helper.make_node(op, ["xd", "wd"], ["y"], name="layer"),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["qd"]), helper.make_node("Relu", ["qd"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["out"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.INT8, image)],
        [helper.make_tensor_value_info("out", TensorProto.INT8, image)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    net = load(tmp_path / "net.onnx").graph
    assert ("layer" in [x.name for x in net.layers]) == kept
    left = {n.name: n.reason for p in net.host_parts for n in p.nodes}
    assert left.get("layer") == (None if kept else "its weight has no scale per output channel")
