"""How the host packs what it hands over: a strided convolution of few channels becomes one of more channels without stride.

A block of 16 channel lanes that holds 3 colours wastes 13 of its products. Where a convolution with stride (s, t) reads a tensor
of the host whose channels times s times t still fit one block, the host deals the pixels of every s x t cell to channels
instead of padding the block with zeros: only the order of bytes changes, and zeros that were padding. The window shrinks by the
stride; weights that fall outside the old window are 0. The sums are the same, so every byte behind them is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.networks.graph import Array, Graph, Layer, Step, Tensor


def repacked(graph: Graph, block: int) -> Graph:
    """The graph with its first convolutions repacked where that leaves out products.

    Args:
        graph: an imported network.
        block: channel lanes.
    """
    made = {x.output for x in graph.layers}
    tensors = dict(graph.tensors)
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Layer) and step.kind == "conv" and step.inputs[0] not in made and _pays(graph, step, block):
            pack, conv, tensor = _dealt(graph, step)
            tensors[tensor.name] = tensor
            steps += [pack, conv]
        else:
            steps.append(step)
    return replace(graph, tensors=tensors, steps=tuple(steps))


def _pays(graph: Graph, layer: Layer, block: int) -> bool:
    assert layer.weight is not None
    cells = layer.stride[0] * layer.stride[1]
    return layer.group == 1 and cells > 1 and layer.weight.shape[1] * cells <= block and layer.kernel != (1, 1)


def _dealt(graph: Graph, layer: Layer) -> tuple[Layer, Layer, Tensor]:
    """The step of the host, the new convolution, and the tensor between them."""
    assert layer.weight is not None
    source, out = graph.tensors[layer.inputs[0]], graph.tensors[layer.output].shape
    (s, t), (kh, kw) = layer.stride, layer.kernel
    co, ci = layer.weight.shape[:2]
    rows, columns = -(-kh // s), -(-kw // t)
    shape = (source.shape[0], ci * s * t, out[2] + rows - 1, out[3] + columns - 1)
    name = f"{source.name}:dealt:{layer.name}"
    wide = np.zeros((co, ci, rows * s, columns * t), dtype=np.int8)
    wide[:, :, :kh, :kw] = layer.weight
    # Channel (dy, dx, c) of the new weight is column (Y * s + dy, X * t + dx) of the old one.
    weight = wide.reshape(co, ci, rows, s, columns, t).transpose(0, 3, 5, 1, 2, 4).reshape(co, s * t * ci, rows, columns)
    pack = Layer(f"pack {source.name}", "pack", layer.inputs, name, stride=layer.stride, pads=layer.pads)
    conv = replace(
        layer, inputs=(name,), weight=np.ascontiguousarray(weight), kernel=(rows, columns), stride=(1, 1), pads=(0, 0, 0, 0),
    )
    return pack, conv, replace(source, name=name, shape=shape, dtype="int8")


def deal(array: Array, layer: Layer, shape: tuple[int, ...]) -> Array:
    """The tensor of a ``pack`` step, from the machine's int8 of its source.

    Args:
        array: [n, c, h, w].
        layer: the step.
        shape: of its result.
    """
    n, c = array.shape[:2]
    (s, t), (top, left, _, _) = layer.stride, layer.pads
    height, width = shape[2] * s, shape[3] * t
    whole = np.zeros((n, c, height, width), dtype=array.dtype)
    part = array[:, :, : height - top, : width - left]
    whole[:, :, top : top + part.shape[2], left : left + part.shape[3]] = part
    cells = whole.reshape(n, c, shape[2], s, shape[3], t).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(cells.reshape(shape))
