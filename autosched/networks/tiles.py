"""Constants of layers as the machine reads them: weight tiles, and int32 vectors of biases and shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autosched.networks.graph import Array, Layer
from autosched.networks.transposed import by_class
from autosched.workloads.layout import whole

if TYPE_CHECKING:
    from autosched.networks.programs import Spec


def weight_tiles(layer: Layer, spec: Spec, source: tuple[int, ...], block: int) -> npt.NDArray[np.int8]:
    """The weight tiles of a layer.

    Args:
        layer: a layer with sums.
        spec: of its program.
        source: shape of its first input as it lies in memory.
        block: channel lanes.
    """
    eye = np.eye(block, dtype=np.int8)
    if layer.kind in ("add", "average"):
        return np.stack([eye * np.int8(f) for f in layer.factors])
    assert layer.weight is not None
    w = layer.weight
    if layer.kind == "dense":
        _, c, h, width = image_of(source)
        w = w.reshape(len(w), c, h, width)
        w = np.pad(w, [(0, whole(len(w), block) - len(w)), (0, whole(c, block) - c), (0, 0), (0, 0)])
        w = w.reshape(len(w) // block, block, -1, block, h, width).transpose(0, 2, 4, 5, 1, 3)
        return np.ascontiguousarray(w.reshape(w.shape[0], -1, 1, 1, block, block))
    if layer.kind == "deconv":
        w = by_class(w, *spec.directions)
        w = np.pad(w, [(0, whole(e, block) - e) for e in w.shape[:2]] + [(0, 0)] * 4)
        w = w.reshape(w.shape[0] // block, block, w.shape[1] // block, block, *w.shape[2:]).transpose(0, 2, 4, 5, 6, 7, 1, 3)
        return np.ascontiguousarray(w)
    cig, cog = w.shape[1], w.shape[0] // layer.group
    if spec.kind == "depthwise":
        blocks = whole(w.shape[0], block) // block
        tiles = np.zeros((blocks, *w.shape[2:], block, block), dtype=np.int8)
        for o in range(w.shape[0]):
            first = o // cig * cig % block
            tiles[o // block, :, :, o % block, first : first + cig] = w[o].transpose(1, 2, 0)
        return tiles
    each = layer.group // spec.groups
    if each > 1:
        full = np.zeros((w.shape[0], cig * each, *w.shape[2:]), dtype=np.int8)
        for g in range(layer.group):
            first = g % each * cig
            full[g * cog : (g + 1) * cog, first : first + cig] = w[g * cog : (g + 1) * cog]
        w, cog, cig = full, cog * each, cig * each
    w = w.reshape(spec.groups, cog, cig, *w.shape[2:])
    w = np.pad(w, [(0, 0), (0, whole(cog, block) - cog), (0, whole(cig, block) - cig), (0, 0), (0, 0)])
    g, o, i, kh, kw = w.shape
    w = w.reshape(g, o // block, block, i // block, block, kh, kw).transpose(0, 1, 3, 5, 6, 2, 4)
    return np.ascontiguousarray(w if spec.groups > 1 else w[0])


def per_channel(values: Array, spec: Spec, batch: int, block: int) -> npt.NDArray[np.int32]:
    """One int32 per channel, or for each place of a channel, the same for every batch lane.

    Args:
        values: one per channel, one for all, or [channels, height, width].
        spec: of the layer's program.
        batch: batch lanes.
        block: channel lanes.
    """
    lead = (1, spec.groups) if spec.groups > 1 else (1,)
    if values.ndim > 1:
        image = values.reshape(spec.groups, spec.co, *values.shape[1:])
        image = np.pad(image, [(0, 0), (0, whole(spec.co, block) - spec.co), (0, 0), (0, 0)])
        lanes = image.reshape(*lead, -1, block, *values.shape[1:])
        last = np.moveaxis(lanes, -3, -1)[..., None, :]
        return np.ascontiguousarray(np.broadcast_to(last, (*last.shape[:-2], batch, block)), dtype=np.int32)
    if spec.bias == "one" and len(values) == 1:
        blocks = np.broadcast_to(values, (1, 1, block))
    else:
        per = np.broadcast_to(values, (spec.groups * spec.co,)).reshape(spec.groups, spec.co)
        per = np.pad(per, [(0, 0), (0, whole(spec.co, block) - spec.co)])
        blocks = per.reshape(spec.groups, -1, block)
    pixel = (1,) * (4 if spec.kind == "deconv" else 2)
    shaped = blocks.reshape(*lead, -1, *pixel, 1, block)
    return np.ascontiguousarray(np.broadcast_to(shaped, (*shaped.shape[:-2], batch, block)), dtype=np.int32)


def image_of(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """A shape as N, C, H, W."""
    n, c, h, w = (*shape, 1, 1)[:4] if len(shape) == 2 else shape
    return n, c, h, w
