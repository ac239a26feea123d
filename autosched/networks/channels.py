"""Concat, Split and Slice of channels: layers that only say where channels lie, in QDQ form or of int8 tensors.

Parts of other scales than the whole's are brought to it, each by a layer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched.networks.graph import Layer
from autosched.networks.matcher import Found
from autosched.networks.onnx_nodes import Node
from autosched.networks.qdq import Tail, brought, to_scale
from autosched.networks.scales import Value

JOINS, CUTS = ("Concat",), ("Split", "Slice")
NAMES = (*JOINS, *CUTS)


def match(found: Found, node: Node) -> None:
    """Makes layers of a Concat, Split or Slice between dequantized tensors, or notes why it stays on the host."""
    given = node.inputs if node.op in JOINS else node.inputs[:1]
    values = [found.values.get(t) for t in given]
    if any(v is None or any(v.pads) for v in values):
        found.reasons[node.name] = "an operand is float" if node.op in JOINS else "its input is float"
        return
    known = [v for v in values if v is not None]
    if (fault := fault_of(found, node, [found.tensors[v.tensor].shape for v in known])) is not None:
        found.reasons[node.name] = fault
    elif node.op in JOINS:
        _join(found, node, known)
    else:
        _cut(found, node, known[0])


def match_plain(found: Found, node: Node) -> None:
    """As ``match``, of int8 or uint8 tensors of the file, whatever their scales are."""
    file = found.file
    given = node.inputs if node.op in JOINS else node.inputs[:1]
    if any(file.is_constant(t) for t in given):
        found.reasons[node.name] = "an operand is a constant"
        return
    if (fault := fault_of(found, node, [file.shapes[t] for t in given])) is not None:
        found.reasons[node.name] = fault
        return
    tensors = [found.plain(t) for t in given]
    first = tensors[0]
    same = all((t.exponent, t.zero) == (first.exponent, first.zero) for t in tensors)
    for k, out in enumerate(node.outputs):
        if not out:
            continue
        made = found.tensor(out, first.exponent if same else None, first.zero if same else 0)
        if node.op in JOINS:
            found.add(Layer(node.name, "concat", tuple(t.name for t in tensors), made.name, nodes=(node.name,)))
        else:
            found.add(_slice(found, node, k, first.name, made.name))


def fault_of(found: Found, node: Node, shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Why a node is no matter of channels, or None.

    Args:
        found: what is known so far.
        node: it joins or cuts.
        shapes: of what it takes.
    """
    rank = len(shapes[0])
    if rank not in (2, 4):
        return "only channels of images and matrices are joined and cut on the machine"
    if node.op == "Slice":
        said = {word: found.file.constants.get(t) for word, t in zip(("starts", "ends", "axes", "steps"), node.inputs[1:]) if t}
        known = {word: value.reshape(-1) for word, value in said.items() if value is not None}
        if len(known) < len(said):
            return "what it cuts off is computed while it runs"
        axes = known.get("axes", np.arange(len(known["starts"])))
        axis = int(axes[0]) if len(axes) == 1 else 0
        if (known.get("steps", np.ones(1)) != 1).any():
            return "it leaves out channels between others"
    else:
        axis = int(node.attrs.get("axis", 0))
    return None if axis % rank == 1 else "only channels are joined and cut on the machine"


def _slice(found: Found, node: Node, k: int, source: str, out: str) -> Layer:
    """The layer of a node's result."""
    file = found.file
    if node.op == "Split":
        start = sum(file.shapes[t][1] for t in node.outputs[:k])
    else:
        channels, first = file.shapes[node.inputs[0]][1], int(file.constants[node.inputs[1]].reshape(-1)[0])
        start = min(first, channels) if first >= 0 else max(first + channels, 0)
    name = node.name if len(node.outputs) == 1 else f"{node.name}.{k}"
    return Layer(name, "slice", (source,), out, nodes=(node.name,), start=start)


def _join(found: Found, node: Node, parts: Sequence[Value]) -> None:
    tail = Tail(found, node)
    if not tail.missing:
        join(found, node, parts, tail.value(found), (tail.low, tail.high), tuple(tail.nodes))
        return
    first = found.tensors[parts[0].tensor]
    if len({(v.exponent, v.zero, found.tensors[v.tensor].dtype) for v in parts}) > 1:
        found.reasons[node.name] = tail.missing
        return
    out = found.new(f"{node.outputs[0]}:concat", replace(first, shape=found.file.shapes[node.outputs[0]]))
    found.add(Layer(node.name, "concat", tuple(v.tensor for v in parts), out, nodes=(node.name,)))
    found.values[node.outputs[0]] = Value(out, parts[0].exponent, parts[0].zero)


def join(
    found: Found, node: Node, parts: Sequence[Value], whole: Value, ends: tuple[int, int] = (-128, 127),
    nodes: tuple[str, ...] = (),
) -> None:
    """Makes the layer of a Concat, and those that bring parts to the whole's scale; or notes why it stays on the host.

    Args:
        found: what is known so far.
        node: the Concat.
        parts: its inputs.
        whole: its result.
        ends: of a clip behind it.
        nodes: names of the file's nodes that it stands for; its own where none are given.
    """
    layers = [to_scale(found, node, v, whole, ends) for v in parts]
    if (fault := next((layer for layer in layers if isinstance(layer, str)), None)) is not None:
        found.reasons[node.name] = fault
        return
    inputs = [brought(found, layer, whole, str(k)) if isinstance(layer, Layer) else v.tensor
              for k, (v, layer) in enumerate(zip(parts, layers))]
    found.add(Layer(node.name, "concat", tuple(inputs), whole.tensor, nodes=nodes or (node.name,)))


def _cut(found: Found, node: Node, value: Value) -> None:
    source = found.tensors[value.tensor]
    for k, t in enumerate(node.outputs):
        if t:
            out = found.new(f"{t}:slice", replace(source, shape=found.file.shapes[t]))
            found.add(_slice(found, node, k, source.name, out))
            found.values[t] = Value(out, value.exponent, value.zero)
