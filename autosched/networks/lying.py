"""Which tensors are parts of one another in memory: views of the same bytes, channels of a whole that lie behind each other.

A tensor lies by blocks of channels, each of them an image of vectors. So what joins channels is done by whoever makes the parts,
each writing its own into the whole, and what cuts channels off is done by whoever reads them: neither costs the machine anything,
as long as every part but a whole's last is of whole blocks. What must lie in two places is copied once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from autosched.networks.graph import MOVES, Array, Graph, Layer, Requant, Step, Tensor


def aliases(graph: Graph) -> Mapping[str, str]:
    """By tensor that is another one's bytes under another shape, that other one.

    Such a view costs nothing: an image of one pixel as a matrix, or an image that dense layers alone read, whose weights are
    reordered instead.

    Args:
        graph: a network.
    """
    found: dict[str, str] = {}
    for view in graph.layers:
        if view.kind == "view" and _is_free(graph, view):
            found[view.output] = found.get(view.inputs[0], view.inputs[0])
    return found


def _is_free(graph: Graph, view: Layer) -> bool:
    source, out = graph.tensors[view.inputs[0]].shape, graph.tensors[view.output].shape
    if source == out:
        return True
    if sorted((len(source), len(out))) != [2, 4]:
        return False
    image, matrix = (source, out) if len(source) == 4 else (out, source)
    if image[:2] == matrix and image[2:] == (1, 1):
        return True
    if len(source) != 4 or out[0] != source[0]:
        return False
    names = [view.output]  # under which it is read: views of one shape give it others
    for name in names:
        if name in graph.outputs:
            return False
        for reader in (x for x in graph.steps if name in x.inputs):
            if not isinstance(reader, Layer) or reader.kind not in ("dense", "view"):
                return False
            if reader.kind == "view":
                if graph.tensors[reader.output].shape != out:
                    return False
                names.append(reader.output)
    return True


def is_free(tensors: Mapping[str, Tensor], layer: Layer, block: int) -> bool:
    """Whether a layer of ``MOVES`` is a matter of where its tensors lie: no block has lanes of two parts.

    Args:
        tensors: of its network.
        layer: of such a kind.
        block: channel lanes.
    """
    if layer.kind == "slice":
        end = layer.start + tensors[layer.output].shape[1]
        return layer.start % block == 0 and (end % block == 0 or end == tensors[layer.inputs[0]].shape[1])
    return all(tensors[t].shape[1] % block == 0 for t in layer.inputs[:-1])


def has_channels(layer: Layer, given: Sequence[tuple[int, ...]], out: tuple[int, ...]) -> bool:
    """Whether tensors have the channels that a layer of ``MOVES`` joins or cuts off, and else the same extents.

    Args:
        layer: the layer.
        given: extents of its inputs.
        out: those of its result.
    """
    if not all(len(shape) == len(out) > 1 and (shape[0], *shape[2:]) == (out[0], *out[2:]) for shape in given):
        return False
    channels = sum(shape[1] for shape in given)
    if layer.kind == "slice":
        return len(given) == 1 and layer.start + out[1] <= channels
    return layer.start == 0 and channels == out[1]


def moved(layer: Layer, given: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """What a view or a layer of ``MOVES`` makes of plain arrays.

    Args:
        layer: the layer.
        given: its inputs.
        shape: of its result.
    """
    if layer.kind == "concat":
        return np.concatenate(given, axis=1)
    if layer.kind == "slice":
        return given[0][:, layer.start : layer.start + shape[1]]
    return given[0].reshape(shape)


class Lying:
    """Where tensors lie relative to each other.

    Args:
        tensors: of a network.
        block: channel lanes.
    """

    def __init__(self, tensors: Mapping[str, Tensor], block: int) -> None:
        self.tensors, self.block = dict(tensors), block
        self.above: dict[str, tuple[str, int]] = {}
        self.held: dict[str, tuple[str, ...]] = {}  # by root, what is written there: all but names of parts and of wholes

    def copy(self) -> Lying:
        """The same, to go on with in another way."""
        made = Lying(self.tensors, self.block)
        made.above, made.held = dict(self.above), dict(self.held)
        return made

    def vectors(self, tensor: str, channels: int | None = None) -> int:
        """Vectors of a tensor in a row of the batch, or of its first channels alone."""
        shape = self.tensors[tensor].shape
        return -(-(shape[1] if channels is None else channels) // self.block) * prod(shape[2:])

    def place(self, tensor: str) -> tuple[str, int]:
        """One tensor of the group that a tensor is in, and how many vectors it lies behind that one."""
        behind = 0
        while tensor in self.above:
            tensor, more = self.above[tensor]
            behind += more
        return tensor, behind

    def write(self, tensor: str) -> None:
        """Notes that a layer or the host writes a tensor."""
        root = self.place(tensor)[0]
        self.held[root] = (*self.held.get(root, ()), tensor)

    def join(self, whole: str, part: str, offset: int) -> bool:
        """Puts a part into a whole, ``offset`` vectors behind its begin; whether both can lie so."""
        (root, at), (other, behind) = self.place(whole), self.place(part)
        moved = at + offset - behind
        if root == other:
            return moved == 0
        mine, more = self.held.get(root, ()), self.held.get(other, ())
        spans = [(self.place(t)[1], self.vectors(t)) for t in mine]
        for t in more:
            low, size = self.place(t)[1] + moved, self.vectors(t)
            if any(low < begin + length and begin < low + size for begin, length in spans):
                return False
        self.above[other] = root, moved
        self.held[root] = (*mine, *more)
        return True

    def add(self, layer: Layer, parts: Sequence[str]) -> bool:
        """Puts together what a layer says lies together, if it is free; whether all can lie so.

        Args:
            layer: one of ``MOVES``.
            parts: its inputs, or what lies where they do.
        """
        if layer.kind == "slice":
            return self.join(parts[0], layer.output, self.vectors(parts[0], layer.start))
        at = 0
        for part in parts:
            if not self.join(layer.output, part, at):
                return False
            at += self.vectors(part)
        return True

    def among(
        self, tensors: Iterable[str], layers: Iterable[Layer], root: Mapping[str, str]
    ) -> dict[str, tuple[str, int]]:
        """By tensor, as ``place``, of some tensors alone: only what some layers join lies together.

        Args:
            tensors: all that the layers have, and others.
            layers: of ``MOVES``, all of them known here.
            root: ``aliases`` of their network.
        """
        group = {t: t for t in tensors}
        for layer in layers:
            names = {group[root.get(t, t)] for t in (*layer.inputs, layer.output)}
            first = group[layer.output]
            group.update({t: first for t, g in group.items() if g in names})
        return {t: (g, self.place(t)[1] - self.place(g)[1]) for t, g in group.items()}


def lying(graph: Graph, root: Mapping[str, str], block: int) -> Lying:
    """Where all tensors of a network lie, as far as its layers of ``MOVES`` say.

    Args:
        graph: a network that ``placed`` gave.
        root: ``aliases`` of it.
        block: channel lanes.
    """
    moves = _moves(graph, block)
    made = _written(graph, root, moves, block)
    for layer in moves.values():
        fits = made.add(layer, [root.get(t, t) for t in layer.inputs])
        assert fits, layer.name
    return made


def _moves(graph: Graph, block: int) -> dict[str, Layer]:
    """The free layers of ``MOVES``, by what they make, which nobody writes."""
    return {x.output: x for x in graph.layers if x.kind in MOVES and is_free(graph.tensors, x, block)}


def _written(graph: Graph, root: Mapping[str, str], moves: Collection[str], block: int) -> Lying:
    """What layers and the host write, each by itself; ``moves``: tensors that nobody writes."""
    at = Lying(graph.tensors, block)
    made = [t for s in graph.steps for t in ((s.output,) if isinstance(s, Layer) else s.outputs)]
    for tensor in (*graph.inputs, *made):
        if tensor not in moves and tensor not in root and len(graph.tensors[tensor].shape) in (2, 4):
            at.write(tensor)
    return at


def placed(graph: Graph, block: int) -> Graph:
    """The network with copies of tensors that are to lie in two places at once.

    Args:
        graph: an imported network.
        block: channel lanes.
    """
    root = aliases(graph)
    moves = _moves(graph, block)
    if not moves:
        return graph
    at = _written(graph, root, moves, block)
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Layer) and step.output in moves:
            at, copies, step = _fitted(at, step, root)
            steps += copies
        steps.append(step)
    return replace(graph, tensors=at.tensors, steps=tuple(steps))


def _fitted(at: Lying, step: Layer, root: Mapping[str, str]) -> tuple[Lying, list[Layer], Layer]:
    """Where tensors lie with a layer of ``MOVES``, and the copies in front of it without which that cannot be: few and small."""
    every = range(len(step.inputs))
    ones = sorted(every, key=lambda k: at.vectors(root.get(step.inputs[k], step.inputs[k])))
    for which in ((), *((k,) for k in ones), tuple(every)):
        tried, copies, inputs = at.copy(), [], list(step.inputs)
        for k in which:
            layer = _copy(tried, step, k)
            inputs[k] = layer.output
            copies.append(layer)
        if tried.add(step, [root.get(t, t) for t in inputs]):
            return tried, copies, replace(step, inputs=tuple(inputs))
    raise AssertionError(f"{step.name}: copies of all parts do not lie behind each other")


def _copy(at: Lying, step: Layer, k: int) -> Layer:
    """A layer that writes one of a layer's inputs once more."""
    source = at.tensors[step.inputs[k]]
    name = f"{source.name}:copy"
    while name in at.tensors:
        name += "'"
    at.tensors[name] = replace(source, name=name)
    at.write(name)
    zero = np.zeros(1, dtype=np.int64)
    return Layer(f"copy of {source.name} for {step.name}", "add", (source.name,), name, Requant(zero, zero), factors=(1,))
