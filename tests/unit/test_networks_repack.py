"""What the host packs for a convolution: every way gives the same sums."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.networks.graph import Array, Graph, Layer, Tensor
from autosched.networks.repack import free, gathered, pack, repeats, with_packings


def network(shape: tuple[int, int, int], out: int, kernel: tuple[int, int], stride: tuple[int, int], pads: Any) -> Graph:
    """One convolution of what the host hands over."""
    rng = np.random.default_rng(0)
    c, h, w = shape
    size = [(n + pads[k] + pads[k + 2] - kernel[k]) // stride[k] + 1 for k, n in enumerate((h, w))]
    weight = rng.integers(-8, 8, (out, c, *kernel), dtype=np.int8)
    layer = Layer("conv", "conv", ("x",), "y", weight=weight, kernel=kernel, stride=stride, pads=pads)
    tensors = {"x": Tensor("x", (1, c, h, w), "int8"), "y": Tensor("y", (1, out, *size), "int8")}
    return Graph("net", tensors, ("x",), ("y",), (layer,))


def convolved(x: Array, layer: Layer) -> Array:
    """Its sums, by the definition."""
    assert layer.weight is not None
    top, left, bottom, right = layer.pads
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, layer.kernel, axis=(2, 3))
    windows = windows[:, :, :: layer.stride[0], :: layer.stride[1]]
    return np.einsum("ncyxij,ocij->noyx", windows, layer.weight.astype(np.int64))


sides = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(5, 9))


@given(st.integers(1, 20), sides, sides)
def test_every_way_gives_the_same_sums_with_fewer_products(channels: int, down: Any, across: Any) -> None:
    (kh, s, top, bottom, h), (kw, t, left, right, w) = down, across
    graph = network((channels, h, w), 5, (kh, kw), (s, t), (top, left, bottom, right))
    layer = graph.layers[0]
    x = np.random.default_rng(1).integers(-128, 128, (1, channels, h, w), dtype=np.int8)
    want = convolved(x, layer)
    plain = kh * kw * -(-channels // 16)
    least = free(graph, 16).get("conv")
    more = gathered(graph, 16).get("conv", ())
    for p in (*more, *([least] if least else [])):
        made = pack(x, p.pack, p.tensor.shape)
        assert np.array_equal(convolved(made, p.conv), want)
        ci, (rows, columns) = p.conv.weight.shape[1], p.conv.kernel  # type: ignore[union-attr]
        assert p.products == rows * columns * -(-ci // 16) < plain and p.bytes == made.size
        steps = with_packings(graph, {"conv": p}).steps
        assert [s.name for s in steps] == ["pack x", p.conv.name]
    if least:
        # Only the order changes: no pixel is there twice.
        numbered = np.arange(1, x.size + 1, dtype=np.int64).reshape(x.shape)
        made = pack(numbered, least.pack, least.tensor.shape)
        assert not repeats(least.pack) and len(np.unique(made[made > 0])) == (made > 0).sum()
    assert all(repeats(p.pack) and (least is None or p.products < least.products) for p in more)
    # Each is less work of the host than the next, which is fewer products.
    assert all(p.bytes <= q.bytes and p.products > q.products for p, q in pairwise(more))


@pytest.mark.parametrize("change", [{"group": 2}, {"kind": "deconv"}, {"kernel": (1, 1)}])
def test_what_is_left_as_it_is(change: dict[str, Any]) -> None:
    graph = network((2, 8, 8), 4, (3, 3), (2, 2), (1, 1, 1, 1))
    assert free(graph, 16) and gathered(graph, 16)
    layer = graph.layers[0]
    assert layer.weight is not None
    weight = layer.weight[:, :, :1, :1] if "kernel" in change else layer.weight
    other = replace(graph, steps=(replace(layer, weight=weight, **change),))
    assert not free(other, 16) and not gathered(other, 16)


def test_what_the_machine_has_made_is_not_the_hosts_to_pack() -> None:
    graph = network((2, 8, 8), 2, (3, 3), (1, 1), (1, 1, 1, 1))
    again = replace(graph.layers[0], name="again", inputs=("y",), output="z")
    tensors = {**graph.tensors, "z": replace(graph.tensors["y"], name="z")}
    both = replace(graph, tensors=tensors, steps=(*graph.steps, again))
    assert set(gathered(both, 16)) == {"conv"}
