"""Channels that are joined and cut: they lie where their makers put them, and the bytes are onnxruntime's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.networks import CompiledNetwork, load, reference
from autosched.networks.compare import differences
from autosched.networks.graph import Layer, Tensor
from autosched.networks.matcher import Found
from autosched.networks.onnx_file import read
from autosched.networks.quantize import quantize
from sim.races import check_races


def saved(model: Any, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def concat(b: Any, parts: list[str], exponent: int | None = None) -> str:
    """The channels of some tensors behind each other, in the builder's form."""
    n, _, h, w = b.shapes[parts[0]]
    shape = (n, sum(b.shapes[t][1] for t in parts), h, w)
    if b.form == "integer":
        return str(b.quantized(b.node("Concat", parts, b.name("q"), axis=1), shape, 0, 0))
    exponent = b.exponents[parts[0]] if exponent is None else exponent
    if b.form == "qlinear":
        given = [x for t in parts for x in (t, b.scale(b.exponents[t]), b.zero(b.zeros[t]))]
        made = b.node("QLinearConcat", [b.scale(exponent), b.zero(0), *given], b.name("q"), axis=1)
        return str(b.quantized(made, shape, exponent, 0))
    made = b.node("Concat", [b.floats(t) for t in parts], axis=1)
    return str(b.quantize(made, shape, exponent))


def split(b: Any, x: str, sizes: list[int]) -> list[str]:
    """A tensor's channels apart."""
    n, _, h, w = b.shapes[x]
    names = [b.name("q" if b.form == "integer" else "s") for _ in sizes]
    source = x if b.form == "integer" else b.floats(x)
    b.nodes.append(b.split(source, b.const(np.array(sizes, np.int64)), names))
    if b.form == "integer":
        return [str(b.quantized(t, (n, c, h, w), 0, 0)) for t, c in zip(names, sizes)]
    return [str(b.quantize(t, (n, c, h, w), b.exponents[x])) for t, c in zip(names, sizes)]


def checked(b: Any, outputs: list[str], folder: Path, target: str = "vta-de10", values: int = 8) -> CompiledNetwork:
    """The network as it runs: its bytes are those of its integer form, and no instructions race."""
    path = saved(b.model(*outputs), folder / "net.onnx")
    net = load(path, target)
    ready = net.compile(folder)
    images = b.image(2)
    n = b.shape[0]
    made = ready.run(images)
    session = reference.session(reference.build(net.graph))
    want = [np.concatenate(w) for w in zip(*[session.run(list(ready.outputs), {"x": p}) for p in (images[:n], images[n:])])]
    for name, got, right in zip(ready.outputs, made.outputs, want):
        assert got.dtype == right.dtype and np.array_equal(got, right), name
        assert len(np.unique(right)) > values, name
    if b.form == "integer":
        direct = reference.session(b.model(*outputs)).run(list(ready.outputs), {"x": images[:n]})
        assert all(np.array_equal(g[:n], w) for g, w in zip(made.outputs, direct))
    else:
        assert all(d.unexplained == 0 for d in differences(net.graph, read(path), {"x": images[:n]}))
    assert all(check_races(s.program) == [] for s in ready.streams)
    again = folder / "net.zip"
    ready.save(again)
    assert all(np.array_equal(a, w) for a, w in zip(CompiledNetwork.load(again).run(images).outputs, want))
    return ready


def cycles(ready: CompiledNetwork) -> list[str]:
    return [x.name for s in ready.streams for x in s.layers]


def branches(b: Any, sizes: tuple[int, ...] = (16, 32)) -> list[str]:
    first = b.conv("x", 16, 1)
    return [b.conv(first, c, 3, pad=1, relu=k == 0, exponent=b.exponents[first] - 3) for k, c in enumerate(sizes)]


@pytest.mark.parametrize("form", ["qdq", "integer", "qlinear"])
@pytest.mark.parametrize("batch", [1, 2])
def test_parts_lie_in_the_whole_as_they_are_made(form: str, batch: int, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder(form, np.random.default_rng(0), (batch, 16, 4, 5))
    joined = concat(b, branches(b))
    ready = checked(b, [b.conv(joined, 16, 1)], tmp_path)
    assert len(ready.stages) == 1 and len(cycles(ready)) == 4, "no host, and no layer for the concat"


@pytest.mark.parametrize("form", ["qdq", "integer"])
@pytest.mark.parametrize("batch", [1, 2])
def test_parts_are_cut_off_where_they_are_read(form: str, batch: int, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder(form, np.random.default_rng(1), (batch, 16, 4, 5))
    low, high = split(b, b.conv("x", 48, 1), [32, 16])
    again = concat(b, [high, b.conv(high, 16, 1, exponent=b.exponents[high]), low])
    ready = checked(b, [b.conv(low, 16, 3, pad=1), again], tmp_path)
    assert len(ready.stages) == 1
    assert sum("copy" in name for name in cycles(ready)) == 1, "what is cut off lies in another whole as well"


@pytest.mark.parametrize(("sizes", "kinds"), [((16, 8), 1), ((8, 16), 3), ((16, 8, 16), 3)])
def test_blocks_with_lanes_of_two_parts_are_joined_by_the_host(
    sizes: tuple[int, ...], kinds: int, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(2), (1, 16, 4, 4))
    ready = checked(b, [b.conv(concat(b, branches(b, sizes)), 16, 1)], tmp_path)
    assert len(ready.stages) == kinds
    assert any(step.what == "join" for step in ready.run(b.image()).host) == (kinds == 3)


@pytest.mark.parametrize(("sizes", "cut"), [([16, 8], False), ([8, 16], True)])
def test_blocks_of_which_lanes_are_read_are_cut_by_the_host(
    sizes: list[int], cut: bool, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("integer", np.random.default_rng(3), (1, 16, 4, 4))
    ready = checked(b, [b.conv(t, 16, 1, relu=False) for t in split(b, b.conv("x", 24, 1, relu=False), sizes)], tmp_path)
    assert any(step.what == "cut" for step in ready.run(b.image()).host) == cut


def test_a_dense_block_lies_as_one_tensor(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(4), (1, 16, 4, 4))
    parts = [b.conv("x", 32, 1, exponent=3)]
    for _ in range(3):
        whole = concat(b, parts) if len(parts) > 1 else parts[0]
        parts.append(b.conv(whole, 16, 1, exponent=3))
    ready = checked(b, [b.conv(concat(b, parts), 16, 1)], tmp_path)
    assert len(ready.stages) == 1 and not any("copy" in name for name in cycles(ready))


@pytest.mark.parametrize("form", ["qdq", "qlinear"])
def test_parts_of_other_scales_are_brought_to_the_wholes(form: str, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder(form, np.random.default_rng(5), (1, 16, 4, 4))
    first = b.conv("x", 16, 1)
    parts = [b.conv(first, 16, 1, exponent=e) for e in (2, 1, 2)]
    ready = checked(b, [b.conv(concat(b, parts, 1), 16, 1)], tmp_path)
    assert len(ready.stages) == 1 and len(cycles(ready)) == 4 + 1 + 2


@pytest.mark.parametrize("batch", [1, 2])
def test_sums_of_parts_and_of_wholes(batch: int, onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(6), (batch, 16, 4, 4))
    a, c = branches(b, (16, 16))
    whole = concat(b, [a, c])
    inner = b.add(a, c)
    outer = b.add(whole, b.conv(whole, 32, 1, relu=False))
    ready = checked(b, [b.conv(inner, 16, 1), outer, whole], tmp_path)
    assert len(ready.stages) == 1


def test_two_wholes_may_share_a_part(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("integer", np.random.default_rng(13), (1, 16, 4, 4))
    a, c, d = (b.conv("x", 16, 1, relu=False) for _ in range(3))
    ready = checked(b, [b.conv(concat(b, [a, c]), 16, 1, relu=False), concat(b, [c, d]), b.conv(a, 16, 1, relu=False)], tmp_path)
    assert not any("copy" in name for name in cycles(ready)), "one ends where the other begins"


def test_the_host_hands_a_part_and_its_whole_to_one_stream(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(15), (1, 16, 2, 2))
    a, c = (b.conv("x", 16, 1, relu=False, exponent=3) for _ in range(2))
    whole = concat(b, [a, c])
    curved = b.quantize(b.node("Sigmoid", [b.floats(b.conv(whole, 16, 1, exponent=3))]), b.shapes[a], 3)
    d, f = (b.conv(curved, 16, 1, relu=False, exponent=3) for _ in range(2))
    inner, outer = concat(b, [d, whole]), concat(b, [c, f])
    ready = checked(b, [outer, concat(b, [inner, f])], tmp_path)
    # d, a, c and f lie behind each other: nothing is copied, and the second stream is told so although the first joined a and c.
    assert len(ready.streams) == 2 and not any("copy" in name for name in cycles(ready))


@pytest.mark.parametrize(("relu", "host"), [(True, False), (False, True)])
def test_what_is_cut_and_joined_again_and_again_is_followed_once(
    relu: bool, host: bool, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(16), (1, 16, 3, 3))
    x = b.conv("x", 32, 1, relu=relu)
    for _ in range(40):
        low, high = split(b, x, [16, 16])
        x = concat(b, [high, low])
    # A pool that pads asks what its image's least value is: there are 2^40 ways to where it is made.
    net = load(saved(b.model(b.conv(b.maxpool(x, 3, 1, pad=1), 16, 1)), tmp_path / "net.onnx"))
    assert ("MaxPool" in {n.op for p in net.graph.host_parts for n in p.nodes}) == host


def test_summands_of_several_rows_are_packed_and_unpacked_where_they_lie(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(14), (3, 16, 2, 4))
    a = b.conv("x", 16, 1, relu=False, exponent=b.exponents["x"])
    checked(b, [b.add("x", a, relu=False), a], tmp_path)


def test_what_the_host_makes_is_packed_at_its_place(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(7), (2, 16, 3, 3))
    a = b.conv("x", 16, 1)
    curved = b.quantize(b.node("Sigmoid", [b.floats(a)]), b.shapes[a], b.exponents[a])
    whole = concat(b, ["x", a], 5)
    ready = checked(b, [b.conv(concat(b, [curved, a, b.conv(curved, 16, 1, exponent=b.exponents[a])]), 16, 1), whole], tmp_path)
    assert len(ready.streams) == 2


def test_outputs_that_only_move_channels(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("integer", np.random.default_rng(8), (1, 32, 3, 3))
    low, high = split(b, "x", [16, 16])
    made = b.conv(low, 16, 1)
    checked(b, [concat(b, [high, low]), made, concat(b, [made, high])], tmp_path)


def resized(b: Any, x: str, down: int, across: int, exponent: int | None = None, **attrs: Any) -> str:
    """An image with every row and column several times."""
    n, c, h, w = b.shapes[x]
    shape, scales = (n, c, h * down, w * across), b.const(np.array([1, 1, down, across], np.float32))
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} | attrs
    if b.form == "integer":
        return str(b.quantized(b.node("Resize", [x, "", scales], b.name("q"), **attrs), shape, 0, 0))
    made = b.node("Resize", [b.floats(x), "", scales], **attrs)
    return str(b.quantize(made, shape, b.exponents[x] if exponent is None else exponent))


@pytest.mark.parametrize("form", ["qdq", "integer"])
@pytest.mark.parametrize(("down", "across", "batch"), [(2, 2, 1), (3, 1, 2), (1, 4, 1)])
def test_an_image_is_resized_by_its_nearest_pixels(
    down: int, across: int, batch: int, form: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder(form, np.random.default_rng(9), (batch, 16, 3, 4))
    small = b.conv("x", 16, 1, relu=False)
    large = resized(b, small, down, across)
    skip = b.conv(resized(b, "x", down, across), 32, 1, exponent=b.exponents[large])
    ready = checked(b, [large, b.conv(concat(b, [large, skip]), 16, 1, relu=False)], tmp_path)
    assert len(ready.stages) == 1


@pytest.mark.parametrize(("attrs", "times", "known"), [
    ({"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}, 2, True),
    ({"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}, 3, True),
    ({"coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"}, 2, False),
    ({"nearest_mode": "ceil"}, 2, False), ({"coordinate_transformation_mode": "align_corners"}, 2, False),
    ({"mode": "linear"}, 2, False),
])
def test_the_nearest_pixel_is_as_the_file_says(
    attrs: dict[str, Any], times: int, known: bool, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(10), (1, 16, 3, 4))
    large = resized(b, b.conv("x", 16, 1, relu=False), times, times, **attrs)
    ready = checked(b, [b.conv(large, 16, 1, relu=False)], tmp_path)
    assert (len(ready.stages) == 1) == known


def test_fewer_pixels_are_brought_to_another_scale(onnx_models: ModuleType, tmp_path: Path) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(11), (1, 16, 3, 4))
    small = b.conv("x", 16, 1, relu=False)
    ready = checked(b, [resized(b, small, 2, 2, b.exponents[small] - 1)], tmp_path)
    made = load(tmp_path / "net.onnx").graph
    assert len(ready.stages) == 1 and [made.tensors[x.output].shape[2] for x in made.layers] == [3, 3, 6]


@pytest.mark.parametrize(("seed", "target"), [
    (0, "vta-de10-portable"), (1, "vta-de10"), (2, "vta-de10"), (3, "vta-de10-portable"),
    *(pytest.param(seed, "vta-de10", marks=pytest.mark.slow) for seed in range(4, 60)),
])
def test_random_networks_of_parts(seed: int, target: str, onnx_models: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    form = ("qdq", "integer")[seed % 2]
    b = onnx_models.Builder(form, rng, (int(rng.integers(1, 3)), 16, 3, 3))
    images = [b.conv("x", 32, 1, exponent=3)]
    for _ in range(7):
        x = images[int(rng.integers(len(images)))]
        kind = rng.choice(["conv", "concat", "concat", "split", "add", "resize"])
        channels = b.shapes[x][1]
        if kind == "conv" or (kind == "split" and channels < 32):
            images.append(b.conv(x, int(rng.choice([16, 32])), 1, relu=bool(rng.integers(2)), exponent=3))
        elif kind == "concat":
            same = [t for t in images if b.shapes[t][2:] == b.shapes[x][2:]]
            parts = [x, *(same[int(k)] for k in rng.integers(len(same), size=int(rng.integers(1, 3))))]
            if sum(b.shapes[t][1] for t in parts) <= 112 and len({b.exponents[t] for t in parts}) == 1:
                images.append(concat(b, parts))
        elif kind == "resize" and b.shapes[x][2] < 6:
            images.append(resized(b, x, 2, int(rng.integers(1, 3))))
        elif kind == "split":
            first = int(rng.choice([8, 16, channels - 16]))
            images += split(b, x, [first, channels - first])
        elif kind == "add":
            same = [t for t in images if b.shapes[t] == b.shapes[x] and b.exponents[t] == b.exponents[x]]
            images.append(b.add(x, same[int(rng.integers(len(same)))]))
    checked(b, [b.conv(images[-1], 16, 1, relu=False), *rng.choice(images, 2, replace=False)], tmp_path, target, 2)


def unet(parts: float) -> Any:
    """A float network: a dense block of normalizations and joined channels, a step down, one up beside a skip, and halves apart.

    Args:
        parts: what the skip's range is larger by.
    """
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    held: list[Any] = []

    def fixed(value: Any) -> str:
        held.append(numpy_helper.from_array(np.asarray(value), f"c{len(held)}"))
        return str(held[-1].name)

    def op(kind: str, *inputs: str, **attrs: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"t{len(nodes)}"], name=f"{kind}{len(nodes)}", **attrs))
        return f"t{len(nodes) - 1}"

    def conv(x: str, ci: int, co: int, scale: float = 1.0) -> str:
        weight = (scale * rng.normal(0, (2 / ci) ** 0.5, (co, ci, 1, 1))).astype(np.float32)
        return op("Conv", x, fixed(weight), kernel_shape=[1, 1])

    def norm(x: str, c: int) -> str:
        ends = [rng.uniform(0.6, 0.9, c), rng.normal(0, 0.1, c), rng.normal(0, 0.05, c), rng.uniform(0.8, 1.2, c)]
        return op("BatchNormalization", x, *(fixed(e.astype(np.float32)) for e in ends))

    x = op("Relu", conv("x", 3, 16))
    whole = op("Concat", x, conv(op("Relu", norm(x, 16)), 16, 16), axis=1)
    whole = op("Concat", whole, conv(op("Relu", norm(whole, 32)), 32, 16), axis=1)
    skip = op("Relu", conv(whole, 48, 16, parts))
    down = op("MaxPool", op("Relu", conv(whole, 48, 32)), kernel_shape=[2, 2], strides=[2, 2])
    up = op("Resize", down, "", fixed(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    both = op("Concat", up, skip, axis=1)
    nodes.append(helper.make_node("Split", [both, fixed(np.array([16, 32]))], ["low", "high"], name="halves", axis=1))
    y = op("Add", conv("low", 16, 8), conv("high", 32, 8))
    graph = helper.make_graph(
        nodes, "unet", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 8, 6, 6])], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("parts", "brought"), [(1.0, 0), (3.0, 0), (4.0, 1)])
def test_a_float_network_of_joined_parts_is_one_stream(parts: float, brought: int, tmp_path: Path) -> None:
    (tmp_path / "f.onnx").write_bytes(unet(parts).SerializeToString())
    images = np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)
    report = quantize(tmp_path / "f.onnx", {"x": images}, tmp_path / "q.onnx")
    # What lies beside a part of a larger range has its scale: that is what one tensor of both means.
    assert min(f.snr for f in report.layers) > 15, report.layers
    net = load(tmp_path / "q.onnx")
    assert [n.op for p in net.graph.host_parts for n in p.nodes] == ["QuantizeLinear", "DequantizeLinear"]
    # A part gives up two bits for the whole's scale, and no more: then a layer brings it there.
    assert sum(x.kind == "add" for x in net.graph.layers) == 1 + brought
    ready = net.compile(tmp_path)
    want = np.concatenate([next(iter(reference.run(net.graph, {"x": x[None]}).values())) for x in images[:2]])
    assert len(ready.streams) == 1 and np.array_equal(ready(images[:2]), want) and len(np.unique(want)) > 50


@pytest.mark.parametrize("growth", [1.0, 2.0, 4.0])
def test_wholes_in_a_row_do_not_hand_on_bit_after_bit(growth: float, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, held, x = [], [], "x"
    for k in range(6):
        ci = 16 * (k + 1)
        weight = (growth * rng.normal(0, (2 / ci) ** 0.5, (16, ci, 1, 1))).astype(np.float32)
        held.append(numpy_helper.from_array(weight, f"w{k}"))
        nodes += [helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], name=f"c{k}"),
                  helper.make_node("Concat", [x, f"c{k}"], [f"t{k}"], name=f"t{k}", axis=1)]
        x = f"t{k}"
    graph = helper.make_graph(
        nodes, "dense", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 4, 4])],
        [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 16, 4, 4]) for t in ("c1", "c5")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "f.onnx").write_bytes(model.SerializeToString())
    images = np.random.default_rng(1).normal(size=(4, 16, 4, 4)).astype(np.float32)
    report = quantize(tmp_path / "f.onnx", {"x": images}, tmp_path / "q.onnx")
    # Each part gives up two bits at most, however many wholes lie behind its own: c1's would be six bits for the last one's.
    assert min(f.snr for f in report.layers) > 15, report.layers


@pytest.mark.parametrize(("op", "attrs", "more", "why"), [
    ("Concat", {"axis": 2}, ["again"], "only channels are joined and cut on the machine"),
    ("Split", {"axis": 3}, [np.array([2, 2])], "only channels are joined and cut on the machine"),
    ("Slice", {}, [np.array([0]), np.array([8]), np.array([1]), np.array([2])], "it leaves out channels between others"),
    ("Slice", {}, [np.array([0, 1]), np.array([8, 3]), np.array([1, 2])], "only channels are joined and cut on the machine"),
    ("Concat", {"axis": 1}, ["float"], "an operand is float"),
    ("Resize", {"mode": "nearest"}, ["", np.array([1, 1, 1.5, 2], np.float32)],
     "only whole multiples of an image are on the machine"),
])
def test_why_the_host_moves_elements(
    op: str, attrs: dict[str, Any], more: list[Any], why: str, onnx_models: ModuleType, tmp_path: Path
) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(12), (1, 16, 4, 4))
    x = b.conv("x", 16, 1)
    given = {"again": b.floats(x), "float": b.node("Sigmoid", [b.floats(x)]), "": ""}
    inputs = [b.floats(x), *(given[m] if isinstance(m, str) else b.const(m) for m in more)]
    joined = (1, 16, 8, 4) if attrs.get("axis") == 2 else (1, 32, 4, 4)
    cut = (1, 4, 4, 4) if len(more) == 4 else (1, 8, 2, 4)
    shapes = {"Concat": joined, "Split": (1, 16, 4, 2), "Resize": (1, 16, 6, 8), "Slice": cut}
    if op == "Split":
        out = b.name("s")
        b.nodes.append(b.split(*inputs, [out, b.name("s")], **attrs))
    else:
        out = b.node(op, inputs, **attrs)
    last = b.conv(b.quantize(out, shapes[op], b.exponents[x]), 16, 1)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    assert why in {n.reason for p in net.graph.host_parts for n in p.nodes}


@pytest.mark.parametrize(("kind", "inputs", "out", "start", "fits"), [
    ("concat", ("a", "b"), 48, 0, True), ("concat", ("a", "b"), 32, 0, False), ("concat", ("a", "wide"), 32, 0, False),
    ("slice", ("b",), 16, 16, True), ("slice", ("b",), 16, 17, False),
])
def test_files_whose_extents_contradict_each_other(kind: str, inputs: tuple[str, ...], out: int, start: int, fits: bool) -> None:
    found = Found(None, "floor")  # type: ignore[arg-type]
    shapes = {"a": (1, 16, 3, 3), "b": (1, 32, 3, 3), "wide": (1, 16, 3, 4), "out": (1, out, 3, 3)}
    found.tensors = {name: Tensor(name, shape) for name, shape in shapes.items()}
    layer = Layer("moved", kind, inputs, "out", start=start)
    if fits:
        found.add(layer)
        return
    with pytest.raises(ProgramError, match=r"node 'moved': .* cannot become .*; export the model again"):
        found.add(layer)
