"""Residual adds that stay in the accumulator: a convolution whose result only one sum reads, and that sum, as one layer.

The convolution's result is clipped to int8 as it would be in memory, so that every byte behind the sum is the same; what is saved
is its store, its load and its pass through the GEMM. Whether that is faster is a matter of schedules: the compiler compares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from autosched.networks.graph import Graph, Layer, Residual, Step

MOST_IMMEDIATE = 1 << 15


def candidates(graph: Graph) -> Mapping[str, tuple[Layer, Layer]]:
    """The sums that may join a convolution, by name: the convolution and the sum.

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
    for add in graph.layers:
        if add.kind != "add" or len(add.inputs) != 2 or add.inputs[0] == add.inputs[1] or not _immediate(add):
            continue
        # Of two convolutions the later one: the other's result is in memory by then.
        for t in sorted(add.inputs, key=lambda t: -place.get(t, -1)):
            conv = made.get(t)
            if conv is None or conv.kind != "conv" or conv.group != 1 or conv.residual is not None:
                continue
            if readers[t] == 1 and t not in graph.outputs:
                found[add.name] = conv, add
                break
    return found


def _immediate(add: Layer) -> bool:
    done = add.requant
    return done is not None and len(done.bias) == 1 and len(done.shift) == 1 and abs(int(done.bias[0])) < MOST_IMMEDIATE


def fused(graph: Graph, names: Collection[str]) -> Graph:
    """The graph with some sums joined to their convolutions, at the place of the sum.

    Args:
        graph: a network as it runs.
        names: of the sums, each of ``candidates``.
    """
    pairs = {name: pair for name, pair in candidates(graph).items() if name in names}
    gone = {conv.name for conv, _ in pairs.values()}
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Layer) and step.name in gone:
            continue
        steps.append(joined(*pairs[step.name]) if step.name in pairs else step)
    return replace(graph, steps=tuple(steps))


def joined(conv: Layer, add: Layer) -> Layer:
    """A convolution and the sum that alone reads it, as one layer whose second input is the other operand.

    Args:
        conv: the convolution.
        add: the sum.
    """
    own = add.inputs.index(conv.output)
    done = add.requant
    assert done is not None
    residual = Residual(
        add.factors[own].bit_length() - 1, add.factors[1 - own].bit_length() - 1, int(done.bias[0]), int(done.shift[0]), done.low,
        done.high,
    )
    return replace(
        conv, name=f"{conv.name} + {add.name}", inputs=(*conv.inputs, add.inputs[1 - own]), output=add.output, residual=residual,
        nodes=(*conv.nodes, *add.nodes),
    )
