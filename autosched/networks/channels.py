"""Concat, Split and Slice of channels: layers that only say where channels lie, in QDQ form or of int8 tensors.

Parts of other scales than the whole's are brought to it, each by a layer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.networks.graph import Layer, Tensor
from autosched.networks.matcher import Found
from autosched.networks.onnx_nodes import Node
from autosched.networks.qdq import Tail, sum_layer
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
    tensors = [found.tensors.get(t) or found.tensor(t, None, 0) for t in given]
    first = tensors[0]
    same = all((t.exponent, t.zero) == (first.exponent, first.zero) for t in tensors)
    start = 0
    for k, out in enumerate(node.outputs):
        if not out:
            continue
        made = found.tensor(out, first.exponent if same else None, first.zero if same else 0)
        if node.op in JOINS:
            found.add(Layer(node.name, "concat", tuple(t.name for t in tensors), made.name, nodes=(node.name,)))
        else:
            start = _start(found, node, k)
            found.add(Layer(_named(node, k), "slice", (first.name,), made.name, nodes=(node.name,), start=start))


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
        fixed = [found.file.constants.get(t) for t in node.inputs[1:] if t]
        if any(c is None for c in fixed):
            return "what it cuts off is computed while it runs"
        axes, steps = ([int(c) for c in found.file.constants[t].reshape(-1)] if t else d for t, d in zip(
            (*node.inputs[3:], "", "")[:2], (list(range(len(found.file.constants[node.inputs[1]].reshape(-1)))), [])))
        axis = axes[0] if len(axes) == 1 else 0
        if any(s != 1 for s in steps):
            return "it leaves out channels between others"
    else:
        axis = int(node.attrs.get("axis", 0))
    return None if axis % rank == 1 else "only channels are joined and cut on the machine"


def _start(found: Found, node: Node, k: int) -> int:
    """The first channel of a node's result."""
    file = found.file
    if node.op == "Split":
        return sum(file.shapes[t][1] for t in node.outputs[:k])
    channels, start = file.shapes[node.inputs[0]][1], int(file.constants[node.inputs[1]].reshape(-1)[0])
    return min(start, channels) if start >= 0 else max(start + channels, 0)


def _named(node: Node, k: int) -> str:
    return node.name if len(node.outputs) == 1 else f"{node.name}.{k}"


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
    dtype = found.tensors[whole.tensor].dtype
    layers: list[Layer | None] = []
    for k, v in enumerate(parts):
        same = (v.exponent, v.zero, found.tensors[v.tensor].dtype) == (whole.exponent, whole.zero, dtype)
        if same and ends == (-128, 127):
            layers.append(None)
            continue
        made = sum_layer(node, [v], whole.exponent, whole.zero, found.rounding, *ends)
        if isinstance(made, str):
            found.reasons[node.name] = made
            return
        layers.append(replace(made, name=f"{node.name}.{k}"))
    inputs = []
    for k, (v, layer) in enumerate(zip(parts, layers)):
        name = v.tensor
        if layer is not None:
            shape = found.tensors[name].shape
            name = found.new(f"{whole.tensor}:{k}", Tensor("", shape, dtype, whole.exponent, whole.zero))
            found.add(replace(layer, output=name))
        inputs.append(name)
    found.add(Layer(node.name, "concat", tuple(inputs), whole.tensor, nodes=nodes or (node.name,)))


def _cut(found: Found, node: Node, value: Value) -> None:
    source = found.tensors[value.tensor]
    for k, t in enumerate(node.outputs):
        if t:
            out = found.new(f"{t}:slice", replace(source, shape=found.file.shapes[t]))
            found.add(Layer(_named(node, k), "slice", (source.name,), out, nodes=(node.name,), start=_start(found, node, k)))
            found.values[t] = Value(out, value.exponent, value.zero)
