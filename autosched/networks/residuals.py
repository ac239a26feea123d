"""Residual adds and pools by maxima that stay in the accumulator: a convolution whose result only one of them reads, and that, as
one layer.

The convolution's result is clipped to int8 as it would be in memory, so that every byte behind it is the same; what is saved
is its store, its load and its pass through the GEMM. Whether that is faster is a matter of schedules: the compiler compares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from autosched.networks.graph import Graph, Layer, Pool, Residual, Step

MOST_IMMEDIATE = 1 << 15
MOST_WINDOW = 16  # elements of a pool's window


def candidates(graph: Graph) -> Mapping[str, tuple[Layer, Layer]]:
    """The sums and pools that may join a convolution, by name: the convolution and the sum or pool.

    Args:
        graph: a network as it runs.
    """
    readers: dict[str, int] = {}
    for step in graph.steps:
        for t in step.inputs:
            readers[t] = readers.get(t, 0) + 1
    place = {x.output: k for k, x in enumerate(graph.steps) if isinstance(x, Layer)}
    made = {x.output: x for x in graph.layers}
    found = {}
    for step in graph.layers:
        if not (_joins(step) or _pools(step)):
            continue
        # Of two convolutions the later one: the other's result is in memory by then.
        for t in sorted(step.inputs, key=lambda t: -place.get(t, -1)):
            conv = made.get(t)
            if conv is None or conv.kind != "conv" or conv.group != 1 or conv.residual is not None or conv.pool is not None:
                continue
            if step.kind == "max" and any(step.pads) and not _bordered(graph, made.get(conv.inputs[0]), conv, step, readers):
                continue
            if readers[t] == 1 and t not in graph.outputs:
                found[step.name] = conv, step
                break
    return found


def _joins(add: Layer) -> bool:
    """Whether a layer is a sum of two tensors that a convolution may go into."""
    return add.kind == "add" and len(add.inputs) == 2 and add.inputs[0] != add.inputs[1] and _immediate(add)


def _pools(pool: Layer) -> bool:
    """Whether a layer is a pool that a convolution may go into."""
    return pool.kind == "max" and 1 < prod(pool.kernel) <= MOST_WINDOW


def _bordered(graph: Graph, pack: Layer | None, conv: Layer, pool: Layer, readers: Mapping[str, int]) -> bool:
    """Whether the host may write a border for a pool that pads: a convolution makes the elements at the edge once more there.

    Every window that has padding has the edge as well, and what is never negative is no smaller than the zeros of the padding.
    """
    alone = pack is not None and pack.kind == "pack" and readers[pack.output] == 1 and pack.output not in graph.outputs
    within = all(max(pads) < k for pads, k in zip((pool.pads[::2], pool.pads[1::2]), pool.kernel))
    single = conv.kernel == conv.stride == (1, 1) and not any(conv.pads)
    return alone and within and single and conv.requant is not None and conv.requant.low >= 0


def _immediate(add: Layer) -> bool:
    done = add.requant
    return done is not None and len(done.bias) == 1 and len(done.shift) == 1 and abs(int(done.bias[0])) < MOST_IMMEDIATE


def fused(graph: Graph, names: Collection[str]) -> Graph:
    """The graph with some sums and pools joined to their convolutions, at the place of the sum or pool.

    Args:
        graph: a network as it runs.
        names: of the sums and pools, each of ``candidates``.
    """
    pairs = {name: pair for name, pair in candidates(graph).items() if name in names}
    gone = {conv.name for conv, _ in pairs.values()}
    tensors = dict(graph.tensors)
    edges = {conv.inputs[0]: _edge(graph, conv, pool) for conv, pool in pairs.values() if pool.kind == "max" and any(pool.pads)}
    for name, (top, left, bottom, right) in edges.items():
        n, c, h, w = tensors[name].shape
        tensors[name] = replace(tensors[name], shape=(n, c, h + top + bottom, w + left + right))
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Layer) and step.name in gone:
            continue
        if isinstance(step, Layer) and step.output in edges:
            step = replace(step, edge=edges[step.output])
        steps.append(joined(*pairs[step.name]) if step.name in pairs else step)
    return replace(graph, tensors=tensors, steps=tuple(steps))


def _edge(graph: Graph, conv: Layer, pool: Layer) -> tuple[int, int, int, int]:
    """By how much a pool's windows reach beyond what a convolution makes: top, left, bottom, right."""
    top, left = pool.pads[:2]
    sizes, made = graph.tensors[conv.output].shape[2:], graph.tensors[pool.output].shape[2:]
    bottom, right = (
        max(0, (m - 1) * step + k - before - size)
        for m, step, k, before, size in zip(made, pool.stride, pool.kernel, (top, left), sizes))
    return top, left, bottom, right


def joined(conv: Layer, behind: Layer) -> Layer:
    """A convolution and the sum or pool that alone reads it, as one layer; a sum's other operand is its second input.

    Args:
        conv: the convolution.
        behind: the sum or pool.
    """
    name, nodes = f"{conv.name} + {behind.name}", (*conv.nodes, *behind.nodes)
    if behind.kind == "max":
        return replace(conv, name=name, output=behind.output, pool=Pool(behind.kernel, behind.stride), nodes=nodes)
    own = behind.inputs.index(conv.output)
    done = behind.requant
    assert done is not None
    residual = Residual(
        behind.factors[own].bit_length() - 1, behind.factors[1 - own].bit_length() - 1, int(done.bias[0]), int(done.shift[0]),
        done.low, done.high,
    )
    return replace(
        conv, name=name, inputs=(*conv.inputs, behind.inputs[1 - own]), output=behind.output, residual=residual, nodes=nodes)
