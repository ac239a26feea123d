"""How the host packs what it hands over: a convolution of few channels becomes one of more channels with a smaller window.

A block of 16 channel lanes that holds 3 colours wastes 13 of its products. What a convolution reads from the host may lie there
in another way, in each direction of the window by itself:

* **dealt**: the pixels of a stride's cell become channels. Only the order of bytes changes, and zeros that were padding. The
  window shrinks by the stride; weights that fall outside the old window are 0.
* **gathered**: the pixels of a window become channels, and pixels that several windows have are written several times. That is
  work of the host, which is shown; it may leave out more products.

The sums are the same, so every byte behind them is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from autosched.networks.graph import Array, Graph, Layer, Step, Tensor

KEPT, DEALT, GATHERED = "kept", "dealt", "gathered"
NAMES = {
    (GATHERED, GATHERED): "patches", (KEPT, GATHERED): "rows", (GATHERED, KEPT): "columns", (DEALT, GATHERED): "dealt rows",
    (GATHERED, DEALT): "dealt columns",
}


@dataclass(frozen=True)
class Way:
    """What becomes channels of a window's two directions, down and across, each ``KEPT``, ``DEALT`` or ``GATHERED``.

    Args:
        down: of the rows.
        across: of the columns.
    """

    down: str
    across: str

    @property
    def name(self) -> str:
        """What a layer's name gains where the host gathers."""
        return NAMES[self.down, self.across]


@dataclass(frozen=True, eq=False)
class Packing:
    """A convolution that the host packs for.

    Args:
        way: how.
        pack: the step of the host.
        conv: the new convolution.
        tensor: between the two.
        products: of the machine, for every vector of the result.
    """

    way: Way
    pack: Layer
    conv: Layer
    tensor: Tensor
    products: int

    @property
    def bytes(self) -> int:
        """What the host writes, lanes that stay empty left out."""
        return int(np.prod(self.tensor.shape))


def free(graph: Graph, block: int) -> Mapping[str, Packing]:
    """By convolution, how it is dealt best where that leaves out products: the host only orders bytes.

    Args:
        graph: an imported network.
        block: channel lanes.
    """
    ways = {name: [p for p in found if not repeats(p.pack)] for name, found in _packings(graph, block).items()}
    return {name: min(found, key=lambda p: (p.products, p.bytes)) for name, found in ways.items() if found}


def gathered(graph: Graph, block: int) -> Mapping[str, tuple[Packing, ...]]:
    """By convolution, the packings that leave out still more products for work of the host; each less work than the next.

    Args:
        graph: an imported network.
        block: channel lanes.
    """
    found = {}
    for name, ways in _packings(graph, block).items():
        least = min([p.products for p in ways if not repeats(p.pack)], default=None)
        kept: list[Packing] = []
        for p in sorted((p for p in ways if repeats(p.pack)), key=lambda p: (p.bytes, p.products)):
            if (least is None or p.products < least) and all(p.products < q.products for q in kept):
                kept.append(p)
        if kept:
            own = [replace(p, conv=replace(p.conv, name=f"{name} by {p.way.name}")) for p in kept]
            found[name] = tuple(own)
    return found


def with_packings(graph: Graph, chosen: Mapping[str, Packing]) -> Graph:
    """The graph with some convolutions packed for.

    Args:
        graph: an imported network.
        chosen: by convolution.
    """
    tensors = {**graph.tensors, **{p.tensor.name: p.tensor for p in chosen.values()}}
    steps: list[Step] = []
    for step in graph.steps:
        mine = chosen.get(step.name) if isinstance(step, Layer) else None
        steps += [step] if mine is None else [mine.pack, mine.conv]
    return replace(graph, tensors=tensors, steps=tuple(steps))


def _packings(graph: Graph, block: int) -> Mapping[str, tuple[Packing, ...]]:
    """By convolution that reads what the host hands over, every packing with fewer products than it has."""
    made = {x.output for x in graph.layers}
    found = {}
    for layer in graph.layers:
        if layer.kind != "conv" or layer.inputs[0] in made or layer.group != 1 or layer.residual is not None:
            continue
        if layer.dilation != (1, 1):
            continue  # its windows' pixels lie apart
        assert layer.weight is not None
        plain = layer.kernel[0] * layer.kernel[1] * -(-layer.weight.shape[1] // block)
        ways = (Way(*pair) for pair in product(_choices(layer, 0), _choices(layer, 1)) if pair != (KEPT, KEPT))
        better = tuple([p for p in (_packing(graph, layer, way, block) for way in ways) if p.products < plain])
        if better:
            found[layer.name] = better
    return found


def _choices(layer: Layer, side: int) -> tuple[str, ...]:
    """What may be done with a direction of the window."""
    window, step = layer.kernel[side], layer.stride[side]
    dealt = (DEALT,) if step > 1 else ()
    # Windows that do not overlap have no pixel twice: they are cells.
    return (KEPT, *dealt, GATHERED) if window > step else (KEPT, *dealt)


def _packing(graph: Graph, layer: Layer, way: Way, block: int) -> Packing:
    """The step of the host, the new convolution, and the tensor between them."""
    assert layer.weight is not None
    source, out = graph.tensors[layer.inputs[0]], graph.tensors[layer.output].shape
    co, ci = layer.weight.shape[:2]
    cells, steps, kernel, stride, sizes = [], [], [], [], []
    pads, own = list(layer.pads), [0, 0, 0, 0]
    for side, how in enumerate((way.down, way.across)):
        window, step = layer.kernel[side], layer.stride[side]
        if how == KEPT:
            cell, step, rest, moves = 1, 1, window, layer.stride[side]
            # What the machine pads as it loads, the host need not.
            own[side], own[side + 2] = pads[side], pads[side + 2]
            pads[side] = pads[side + 2] = 0
            size = source.shape[2 + side]
        else:
            cell = window if how == GATHERED else step
            rest, moves = -(-window // cell), 1
            size = out[2 + side] + rest - 1
        cells.append(cell)
        steps.append(step)
        kernel.append(rest)
        stride.append(moves)
        sizes.append(size)
    (s, t), (rows, columns) = cells, kernel
    wide = np.zeros((co, ci, rows * s, columns * t), dtype=np.int8)
    wide[:, :, : layer.kernel[0], : layer.kernel[1]] = layer.weight
    # Channel (dy, dx, c) of the new weight is column (Y * s + dy, X * t + dx) of the old one.
    weight = wide.reshape(co, ci, rows, s, columns, t).transpose(0, 3, 5, 1, 2, 4).reshape(co, s * t * ci, rows, columns)
    name = f"{source.name}:{'gathered' if GATHERED in (way.down, way.across) else 'dealt'}:{layer.name}"
    pack = Layer(
        f"pack {source.name}", "pack", layer.inputs, name, kernel=(s, t), stride=(steps[0], steps[1]),
        pads=(pads[0], pads[1], pads[2], pads[3]),
    )
    conv = replace(
        layer, inputs=(name,), weight=np.ascontiguousarray(weight), kernel=(rows, columns), stride=(stride[0], stride[1]),
        pads=(own[0], own[1], own[2], own[3]),
    )
    tensor = replace(source, name=name, shape=(source.shape[0], ci * s * t, *sizes), dtype="int8")
    return Packing(way, pack, conv, tensor, rows * columns * -(-ci * s * t // block))


def repeats(layer: Layer) -> bool:
    """Whether a ``pack`` step writes pixels several times."""
    return any(cell > step for cell, step in zip(layer.kernel, layer.stride))


def pack(array: Array, layer: Layer, shape: tuple[int, ...]) -> Array:
    """The tensor of a ``pack`` step, from the machine's int8 of its source.

    Args:
        array: [n, c, h, w].
        layer: the step: its kernel's pixels become channels, from every stride on; what lies at an edge may be there again.
        shape: of its result.
    """
    n, c = array.shape[:2]
    (rows, columns), (s, t), (top, left, _, _) = layer.kernel, layer.stride, layer.pads
    down, across = shape[2] - layer.edge[0] - layer.edge[2], shape[3] - layer.edge[1] - layer.edge[3]
    height, width = (down - 1) * s + rows, (across - 1) * t + columns
    whole = np.zeros((n, c, height, width), dtype=array.dtype)
    part = array[:, :, : height - top, : width - left]
    whole[:, :, top : top + part.shape[2], left : left + part.shape[3]] = part
    # Channels lie together, as they will in the machine's lanes.
    pixels = np.ascontiguousarray(whole.transpose(0, 2, 3, 1))
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (rows, columns), axis=(1, 2))[:, ::s, ::t]
    made = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n, down, across, shape[1]).transpose(0, 3, 1, 2)
    return np.pad(made, ((0, 0), (0, 0), layer.edge[::2], layer.edge[1::2]), "edge") if any(layer.edge) else made
