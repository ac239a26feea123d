"""Compiled networks as files: what is damaged is refused in one line when it is read, and nothing that was saved is."""

from __future__ import annotations

import copy
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.networks import CompiledNetwork, load
from autosched.networks.quantize import quantize

Files = dict[str, bytes]


def kept(net: Path, images: Any, *kinds: str) -> tuple[Path, Files, Any]:
    """A network as it is saved, its parts, and images; ``kinds`` are those of its stages."""
    path = net.with_suffix(".zip")
    load(net).compile(net.parent).save(path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert {s["kind"] for s in json.loads(files["network.json"])["stages"]} == {*kinds}
    return path, files, images


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Files, Any]:
    """A float network: parts of the host, a stem that it packs for, streams."""
    from onnx import TensorProto, helper, numpy_helper

    folder = tmp_path_factory.mktemp("saved")
    rng = np.random.default_rng(0)
    held = {"w": rng.normal(size=(20, 3, 3, 3)), "v": rng.normal(size=(192, 5))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1] * 4), helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, s) for t, s in
            (("x", [1, 3, 8, 8]), ("c", [1, 20, 4, 4]), ("y", [1, 5]))]
    graph = helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(v.astype(np.float32), k) for k, v in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "f.onnx").write_bytes(model.SerializeToString())
    images = rng.normal(size=(2, 3, 8, 8)).astype(np.float32)
    quantize(folder / "f.onnx", {"x": images}, folder / "net.onnx")
    return kept(folder / "net.onnx", images, "host", "pack", "stream")


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory, onnx_models: ModuleType) -> tuple[Path, Files, Any]:
    """A network of integers that gives an image as a row."""
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 16, 4, 4))
    last = b.flatten(b.conv("x", 20, 3))
    path = tmp_path_factory.mktemp("viewed") / "net.onnx"
    path.write_bytes(b.model(last).SerializeToString())
    return kept(path, b.image(2), "stream", "view")


def written(folder: Path, files: Files, manifest: Any) -> Path:
    path = folder / "damaged.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, json.dumps(manifest) if name == "network.json" else data)
    return path


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all parts of a manifest."""
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in found:
        yield (*at, key)
        yield from places(part, (*at, key))


def changed(manifest: Any, at: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(manifest)
    part = made
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    return made


def stage(manifest: Any, kind: str) -> Any:
    return next(s for s in manifest["stages"] if s["kind"] == kind)


def test_what_was_saved_is_read(split: tuple[Path, Files, Any], tmp_path: Path) -> None:
    path, files, images = split
    manifest = json.loads(files["network.json"])
    again = CompiledNetwork.load(written(tmp_path, files, manifest))(images)
    assert all(np.array_equal(a, b) for a, b in zip(again, CompiledNetwork.load(path)(images)))


@pytest.mark.parametrize("net", ["split", "viewed"])
def test_a_manifest_of_other_types_sizes_or_names_is_one_line_or_runs(
    net: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    _, files, images = request.getfixturevalue(net)
    manifest = json.loads(files["network.json"])
    draw = random.Random(0)
    values = [None, -1, 0, 1, 1.5, True, "q", [], {}, 10**12, 10**30, float("nan"), manifest["tensors"][0][0]]
    refused = 0
    for at in draw.sample(list(places(manifest)), 150):
        for value in draw.sample(values, 4):
            path = written(tmp_path, files, changed(manifest, at, value))
            try:
                CompiledNetwork.load(path)(images)
            except ProgramError as error:
                refused += 1
                assert "\n" not in str(error), (at, value)
    assert refused > 400


@pytest.mark.parametrize(("change", "words"), [
    (lambda m: stage(m, "pack").update(input="c:q"), "is read before it is made|cannot become"),
    (lambda m: stage(m, "host")["inputs"].append(m["outputs"][0]), "part 'host0' takes"),
    (lambda m: m["stages"].pop(), "an output that no stage makes"),
    (lambda m: m["inputs"].append(m["inputs"][0]), "two inputs or two parts of one name"),
    (lambda m: stage(m, "stream").update(kind="river"), "a stage of kind 'river'"),
    (lambda m: stage(m, "stream")["regions"][0].__setitem__(3, 7), "does not hold"),
    (lambda m: stage(m, "host")["inputs"].clear(), "takes"),
    (lambda m: m["tensors"].__setitem__(0, [*m["tensors"][0][:3], 10**6, 0]), "is no number from -1000 to 1000"),
    (lambda m: m.update(name=["net"]), "is no name"),
])
def test_a_manifest_whose_parts_do_not_fit_is_refused(
    change: Callable[[Any], None], words: str, split: tuple[Path, Files, Any], tmp_path: Path
) -> None:
    _, files, _ = split
    manifest = json.loads(files["network.json"])
    change(manifest)
    with pytest.raises(ProgramError, match=words):
        CompiledNetwork.load(written(tmp_path, files, manifest))


def test_a_view_keeps_its_elements(viewed: tuple[Path, Files, Any], tmp_path: Path) -> None:
    _, files, _ = viewed
    manifest = json.loads(files["network.json"])
    stage(manifest, "view")["input"] = manifest["inputs"][0]
    with pytest.raises(ProgramError, match="cannot become"):
        CompiledNetwork.load(written(tmp_path, files, manifest))


def test_a_file_with_other_bytes_is_one_line(split: tuple[Path, Files, Any], tmp_path: Path) -> None:
    path, _, images = split
    whole = path.read_bytes()
    draw = random.Random(0)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 2, 5))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / "d.zip").write_bytes(data if draw.random() < 0.8 else data[: draw.randrange(len(data))])
        try:
            CompiledNetwork.load(tmp_path / "d.zip")(images)
        except ProgramError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("name", [".", "/", "no/net.zip"])
def test_a_network_is_saved_at_the_path_of_a_file(
    name: str, split: tuple[Path, Files, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ready = CompiledNetwork.load(split[0])
    with pytest.raises(ProgramError, match="cannot write"):
        ready.save(name)
    assert list(tmp_path.iterdir()) == []
    ready.save("net.zip")
    assert (tmp_path / "net.zip").read_bytes() == split[0].read_bytes()


def test_a_network_is_not_saved_over_the_file_that_it_was_compiled_from(
    split: tuple[Path, Files, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even from another folder; one that was saved may be saved again where it was."""
    held = split[0].with_suffix(".onnx").read_bytes()
    (tmp_path / "net.onnx").write_bytes(held)
    monkeypatch.chdir(tmp_path)
    ready = load("net.onnx").compile(split[0].parent)
    monkeypatch.chdir("/")
    with pytest.raises(ProgramError, match="it is the network that was compiled"):
        ready.save(tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").read_bytes() == held
    ready.save(tmp_path / "net.zip")
    CompiledNetwork.load(tmp_path / "net.zip").save(tmp_path / "net.zip")
    assert (tmp_path / "net.zip").read_bytes() == split[0].read_bytes()
