"""Resize to whole multiples by the nearest pixel: every pixel of an image again and again, in QDQ form or of int8 tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from autosched.networks.graph import Array, Layer
from autosched.networks.matcher import Found
from autosched.networks.onnx_nodes import Node
from autosched.networks.qdq import Tail, brought, to_scale
from autosched.networks.scales import Value

_PLACES: Mapping[str, Callable[[Array, int], Array]] = {
    "asymmetric": lambda x, times: x / times,
    "half_pixel": lambda x, times: (x + 0.5) / times - 0.5,
    "pytorch_half_pixel": lambda x, times: (x + 0.5) / times - 0.5,
}
_NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


def match(found: Found, node: Node) -> None:
    """Makes a layer of a Resize of a dequantized image, or notes why it stays on the host."""
    value = found.values.get(node.inputs[0])
    if value is None or any(value.pads):
        found.reasons[node.name] = "its input is float"
        return
    times = _times(found, node, found.tensors[value.tensor].shape)
    if isinstance(times, str):
        found.reasons[node.name] = times
        return
    tail = Tail(found, node)
    if tail.missing:
        found.reasons[node.name] = tail.missing
        return
    whole = Value(tail.quantized, tail.exponent, tail.zero)
    made = to_scale(found, node, value, whole, (tail.low, tail.high))
    if isinstance(made, str):
        found.reasons[node.name] = made
        return
    # Fewer pixels are brought to another scale in front of it.
    source = value.tensor if made is None else brought(found, made, whole, "small")
    found.add(Layer(node.name, "resize", (source,), tail.value(found).tensor, stride=times, nodes=tuple(tail.nodes)))


def match_plain(found: Found, node: Node) -> None:
    """As ``match``, of an int8 or uint8 tensor of the file."""
    name = node.inputs[0]
    if found.file.is_constant(name):
        found.reasons[node.name] = "its input is a constant"
        return
    times = _times(found, node, found.file.shapes[name])
    if isinstance(times, str):
        found.reasons[node.name] = times
        return
    known = found.plain(name)
    out = found.tensor(node.outputs[0], known.exponent, known.zero)
    found.add(Layer(node.name, "resize", (known.name,), out.name, stride=times, nodes=(node.name,)))


def _times(found: Found, node: Node, shape: tuple[int, ...]) -> tuple[int, int] | str:
    """How often a Resize has every row and every column, or why the machine does not do that."""
    out = found.file.shapes[node.outputs[0]]
    if len(shape) != 4 or out[:2] != shape[:2]:
        return "only rows and columns of images are resized on the machine"
    if node.attrs.get("mode", "nearest") != "nearest":
        return "only the nearest pixel is taken on the machine"
    whole = [o // e for o, e in zip(out[2:], shape[2:])]
    scales = found.file.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    told = whole if scales is None or not scales.size else [float(s) for s in scales.reshape(-1)[-2:]]
    if [o * e for o, e in zip(whole, shape[2:])] != list(out[2:]) or told != whole:
        return "only whole multiples of an image are on the machine"
    place = _PLACES.get(node.attrs.get("coordinate_transformation_mode", "half_pixel"))
    nearest = _NEAREST.get(node.attrs.get("nearest_mode", "round_prefer_floor"))
    for size, times in zip(shape[2:], whole):
        at = np.arange(size * times)
        if place is None or nearest is None or (np.clip(nearest(place(at, times)), 0, size - 1) != at // times).any():
            return "the nearest pixel is not the one in front of it"
    return whole[0], whole[1]
