"""Pools by maxima that join the convolution in front of them: the same bytes, with and without what the host gathers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from written_networks import Net, X, beside

from autosched.cli import main
from autosched.networks import CompiledNetwork, load, network, reference
from autosched.networks.graph import Layer
from autosched.networks.programs import Spec, program
from autosched.networks.repack import gathered, with_packings
from autosched.networks.residuals import candidates, fused
from autosched.networks.tasks import gathered_calls
from autosched.target import Target
from sim.races import check_races
from space import Space
from space.normalise import FUSED


def saved(model: object, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())  # type: ignore[attr-defined]
    return path


def joined(net: CompiledNetwork) -> list[str]:
    return [x.name for s in net.streams for x in s.layers if " + " in x.name]


def pooled(onnx_models: ModuleType, shape: tuple[int, ...], conv: dict[str, Any], pool: dict[str, Any], form: str = "qdq") -> Any:
    b = onnx_models.Builder(form, np.random.default_rng(5), shape, unsigned=form == "qdq")
    return b, b.maxpool(b.conv("x", **conv), **pool)


CASES = [
    # (form, image, convolution, pool, whether it joins without and with what the host gathers)
    ("qdq", (1, 16, 8, 8), {"co": 16, "k": 3, "pad": 1}, {"k": 2}, True, True),
    ("integer", (2, 20, 9, 11), {"co": 24, "k": 3, "stride": 2, "pad": 1, "relu": False}, {"k": 2, "stride": 1}, True, True),
    ("integer", (1, 16, 9, 9), {"co": 16, "k": 1, "per_channel": True}, {"k": 3, "stride": 2}, True, True),
    ("integer", (2, 3, 31, 33), {"co": 32, "k": 7, "stride": 2, "pad": 2}, {"k": 3, "stride": 2, "pad": 1}, False, True),
    ("integer", (1, 3, 15, 15), {"co": 8, "k": 3, "pad": 1}, {"k": 2, "stride": 2}, True, True),
    # Nobody makes a border, and the one that the host writes goes around what it gathers in both directions alone.
    ("integer", (1, 16, 8, 8), {"co": 16, "k": 3, "pad": 1}, {"k": 3, "stride": 2, "pad": 1}, False, False),
    ("integer", (1, 3, 15, 17), {"co": 20, "k": 5, "stride": 2, "pad": 1}, {"k": 3, "stride": 2, "pad": 1}, False, False),
    ("integer", (1, 16, 8, 8), {"co": 32, "k": 1}, {"k": 5, "stride": 1}, False, False),  # 25 elements
]


@pytest.mark.parametrize("case", [pytest.param(n, marks=[pytest.mark.slow] if n in (2, 4) else []) for n in range(len(CASES))])
def test_a_pool_joins_its_convolution(case: int, onnx_models: ModuleType, tmp_path: Path) -> None:
    form, shape, conv, pool, plain, packed = CASES[case]
    b, last = pooled(onnx_models, shape, conv, pool, form)
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    assert not net.graph.host_parts
    images = b.image(2)
    n = shape[0]
    want = np.concatenate([reference.run(net.graph, {"x": images[k : k + n]})[last] for k in range(0, len(images), n)])
    assert len(np.unique(want)) > 8  # not a row of clipped values
    for gather, may in ((False, plain), (True, packed)):
        made = net.compile(tmp_path, fuse=True, gather=gather)
        assert bool(joined(made)) == may
        assert np.array_equal(made(images), want) and all(check_races(s.program) == [] for s in made.streams)
        assert set(joined(made)) <= {n for t in net.tasks for n in t.layers}, "each is tuned by itself"
        apart = net.compile(tmp_path, fuse=False, gather=gather)
        assert not joined(apart) and np.array_equal(apart(images), want)
        if may:
            costs = {x.name: x.alone for s in apart.streams for x in s.layers}
            own = next(x for s in made.streams for x in s.layers if x.name in joined(made))
            assert own.apart == sum(costs[part] for part in own.name.split(" + "))
        made.save(tmp_path / "net.zip")
        assert np.array_equal(CompiledNetwork.load(tmp_path / "net.zip")(images), want)


@pytest.mark.parametrize("form", [0, 3, 4])
def test_a_joined_layer_may_have_any_schedule_of_its_program(
    form: int, onnx_models: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own search may store between the two, as layers apart do: streams hold that, too."""
    b, last = pooled(onnx_models, (1, 16, 8, 8), {"co": 16, "k": 3, "pad": 1}, {"k": 2}, "integer")
    net = load(saved(b.model(last), tmp_path / "net.onnx"))

    def chosen(spec: Spec, target: Target) -> Any:
        space = Space(program(spec, target.config.batch, target.config.block_in), target)
        points = space.sample(np.random.default_rng(0), 256)
        if spec.pool is not None:
            assert [FUSED in s.done for s in space.sketches] == [False] * 4 + [True]
            points = points[points[:, 0] == form]
        return tuple(space.trace(points[np.argmin(space.draft(points))]).as_json())

    monkeypatch.setattr(network, "draft", chosen)
    made = net.compile(tmp_path, fuse=True)
    images = b.image(2)
    want = np.concatenate([reference.run(net.graph, {"x": images[k : k + 1]})[last] for k in range(2)])
    assert len(joined(made)) == 1 and np.array_equal(made(images), want)


def test_which_pools_join(onnx_models: ModuleType, tmp_path: Path) -> None:
    def found(build: Any, shape: tuple[int, ...] = (1, 16, 8, 8)) -> list[str]:
        b = onnx_models.Builder("integer", np.random.default_rng(0), shape)
        net = load(saved(b.model(*build(b)), tmp_path / "net.onnx"))
        return [conv.name for conv, _ in candidates(net.packed).values()]

    assert len(found(lambda b: [b.maxpool(b.conv("x", 16, 1))])) == 1
    assert found(lambda b: [b.maxpool("x")]) == []
    assert found(lambda b: [b.maxpool(t := b.conv("x", 16, 1)), t]) == []
    assert found(lambda b: [b.maxpool(t := b.conv("x", 16, 1)), b.conv(t, 16, 1)]) == []
    assert found(lambda b: [b.maxpool(b.conv("x", 16, 1, group=2))]) == []
    assert len(found(lambda b: [b.maxpool(b.conv("x", 16, 1), 4, 4)])) == 1
    assert found(lambda b: [b.maxpool(b.conv("x", 16, 1), 5, 1)]) == []
    # A sum that has joined has no place for a pool, nor a pool for another one.
    chain = found(lambda b: [b.maxpool(b.add(b.conv("x", 16, 1), "x"))])
    assert len(chain) == 1
    assert len(found(lambda b: [b.maxpool(b.maxpool(b.conv("x", 16, 1)))])) == 1


def test_a_border_is_written_for_windows_that_have_its_edge(onnx_models: ModuleType, tmp_path: Path) -> None:
    b, last = pooled(onnx_models, (1, 3, 16, 16), {"co": 8, "k": 7, "stride": 2, "pad": 3}, {"k": 3, "stride": 2, "pad": 1},
                     "integer")
    net = load(saved(b.model(last), tmp_path / "net.onnx"))
    (name, packings), = gathered(net.graph, 16).items()
    whole = next(p for p in packings if p.conv.kernel == (1, 1))
    graph = with_packings(net.graph, {name: whole})
    (pool, (conv, behind)), = candidates(graph).items()
    both = fused(graph, [pool])
    pack, layer = both.layers
    # 8 rows, and one above that the first windows read: the last ones end at the image's end.
    assert pack.edge == (1, 1, 0, 0) and both.tensors[pack.output].shape[2:] == (9, 9)
    assert layer.pool is not None and layer.pool.pooled(9, 9) == (4, 4)
    assert f"{conv.name} + {behind.name}" in gathered_calls(net.graph, net.target)
    # What may be below zero loses against the padding, and a border of what somebody else reads is none of ours.
    assert conv.requant is not None
    signed = replace(conv, requant=replace(conv.requant, low=-1))
    steps = tuple(signed if x is conv else x for x in graph.steps)
    assert candidates(replace(graph, steps=steps)) == {}
    other = Layer("other", "view", (pack.output,), "other")
    tensors = {**graph.tensors, "other": graph.tensors[pack.output]}
    assert candidates(replace(graph, steps=(*graph.steps, other), tensors=tensors)) == {}
    wide = replace(behind, pads=(3, 0, 0, 0))
    assert candidates(replace(graph, steps=tuple(wide if x is behind else x for x in graph.steps))) == {}


@pytest.mark.parametrize("opset", [11, 12])
def test_pools_are_checked_beside_host_parts_of_old_operator_sets(
    opset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only from 12 on there is a MaxPool of int8."""
    n = Net(opset)
    out = n.quantized(n.op("MaxPool", beside(n), kernel_shape=[2, 2], strides=[2, 2]), 3)
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, X)}, [out])
    (tmp_path / "log").mkdir()
    assert main(["run", str(path), "--log", str(tmp_path / "log"), "--check"]) == 0
    assert "bytes compared, all equal to onnxruntime's" in capsys.readouterr().out
