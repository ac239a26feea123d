"""A network as plain float operators: quantization taken out, batch normalization folded, what is left in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.networks.graph import Array
from autosched.networks.onnx_file import File, Node


@dataclass(frozen=True, eq=False)
class Op:
    """A float operator.

    Args:
        name: of the file's node.
        op: operator.
        inputs: tensors; "" where one is left out.
        outputs: tensors.
        attrs: attributes as Python values.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class FloatNet:
    """Float operators in order, with their constants."""

    ops: list[Op]
    constants: dict[str, Array]

    def readers(self, tensor: str) -> list[Op]:
        """The operators that read a tensor."""
        return [o for o in self.ops if tensor in o.inputs]


def float_net(file: File) -> FloatNet:
    """The float operators that a file stands for, float or quantized.

    Args:
        file: a checked file.

    Raises:
        ProgramError: a quantized operator whose float form is not known.
    """
    net = FloatNet([], dict(file.constants))
    for name, shape in file.blank.items():
        net.constants[name] = np.zeros(shape, dtype=np.float32)
    same: dict[str, str] = {}
    for node in file.nodes:
        inputs = tuple(same.get(t, t) for t in node.inputs)
        if node.op == "QuantizeLinear":
            same[node.outputs[0]] = inputs[0]
        elif node.op == "DequantizeLinear" and inputs[0] in net.constants and inputs[0] == node.inputs[0]:
            # A name of its own: the quantized network that is written next has a tensor of this one.
            same[node.outputs[0]] = f"{node.outputs[0]}:float"
            net.constants[same[node.outputs[0]]] = _dequantized(net, node, 0)
        elif node.op == "DequantizeLinear":
            same[node.outputs[0]] = inputs[0]
        elif node.op.startswith("QLinear"):
            _qlinear(net, node, inputs)
        elif node.op in ("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"):
            raise node.refuse("its float form is not written in the file", "quantize the float network it was made of")
        else:
            net.ops.append(Op(node.name, node.op, inputs, node.outputs, node.attrs))
    renamed = {k: same[k] for k in file.outputs if k in same}
    if renamed:
        # An output that was quantized is given as float, under its own name.
        net.ops += [Op(f"{k}:float", "Identity", (v,), (k,)) for k, v in renamed.items()]
    _fold_norms(net, file)
    return net


def _dequantized(net: FloatNet, node: Node, at: int) -> Array:
    """A stored constant as float32; its scale and zero point are the next inputs."""
    stored, scale = net.constants[node.inputs[at]], net.constants[node.inputs[at + 1]]
    zero = net.constants[node.inputs[at + 2]] if len(node.inputs) > at + 2 and node.inputs[at + 2] else np.zeros(1)
    axis = int(node.attrs.get("axis", 1)) if node.op == "DequantizeLinear" else 0
    spread = [1] * stored.ndim
    if scale.size > 1:
        spread[axis] = -1
    moved = stored.astype(np.float64) - zero.astype(np.float64).reshape(spread if zero.size > 1 else [1] * stored.ndim)
    return (moved * scale.astype(np.float64).reshape(spread)).astype(np.float32)


def _qlinear(net: FloatNet, node: Node, inputs: tuple[str, ...]) -> None:
    kept = {k: v for k, v in node.attrs.items() if k != "channels_last"}
    if node.op in ("QLinearConv", "QLinearMatMul"):
        weight = f"{node.name}:weight"
        net.constants[weight] = _dequantized(net, node, 3)
        operands = [inputs[0], weight]
        if node.op == "QLinearConv" and len(inputs) > 8 and inputs[8]:
            scale = net.constants[node.inputs[1]].astype(np.float64) * net.constants[node.inputs[4]].astype(np.float64)
            net.constants[f"{node.name}:bias"] = (net.constants[inputs[8]] * scale.reshape(-1)).astype(np.float32)
            operands.append(f"{node.name}:bias")
        op = "Conv" if node.op == "QLinearConv" else "MatMul"
        net.ops.append(Op(node.name, op, tuple(operands), node.outputs, kept))
    elif node.op == "QLinearAdd":
        net.ops.append(Op(node.name, "Add", (inputs[0], inputs[3]), node.outputs))
    elif node.op in ("QLinearGlobalAveragePool", "QLinearAveragePool"):
        net.ops.append(Op(node.name, node.op.removeprefix("QLinear"), inputs[:1], node.outputs, kept))
    else:
        raise node.refuse("its float form is not known", "quantize the float network it was made of")


def _fold_norms(net: FloatNet, file: File) -> None:
    """Folds a BatchNormalization into the convolution in front of it, and an Add of a constant into what it follows."""
    changed = True
    while changed:
        changed = False
        for k, op in enumerate(net.ops):
            before = next((o for o in net.ops if op.inputs and op.inputs[0] in o.outputs), None)
            if before is None or before.op not in ("Conv", "Gemm", "MatMul") or len(net.readers(op.inputs[0])) != 1:
                continue
            if op.inputs[0] in file.outputs or before.inputs[1] not in net.constants:
                continue
            made = _normalised(net, before, op) or _with_bias(net, before, op)
            if made is not None:
                net.ops[net.ops.index(before)] = made
                del net.ops[k]
                changed = True
                break


def _normalised(net: FloatNet, conv: Op, norm: Op) -> Op | None:
    if norm.op != "BatchNormalization" or conv.op != "Conv" or any(t not in net.constants for t in norm.inputs[1:5]):
        return None
    gamma, beta, mean, var = (net.constants[t].astype(np.float64) for t in norm.inputs[1:5])
    factor = gamma / np.sqrt(var + float(norm.attrs.get("epsilon", 1e-5)))
    weight = net.constants[conv.inputs[1]].astype(np.float64)
    bias = np.zeros(len(weight))
    if len(conv.inputs) > 2 and conv.inputs[2]:
        bias = net.constants[conv.inputs[2]].astype(np.float64)
    names = f"{conv.name}:weight", f"{conv.name}:bias"
    net.constants[names[0]] = (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(np.float32)
    net.constants[names[1]] = ((bias - mean) * factor + beta).astype(np.float32)
    return Op(conv.name, "Conv", (conv.inputs[0], *names), norm.outputs[:1], conv.attrs)


def _with_bias(net: FloatNet, linear: Op, add: Op) -> Op | None:
    """A MatMul (or an operator without bias) with the constant that is added to its result."""
    if add.op != "Add" or (len(linear.inputs) > 2 and linear.inputs[2]):
        return None
    fixed = [t for t in add.inputs if t in net.constants]
    if len(fixed) != 1 or add.inputs[0] in net.constants:
        return None
    weight, value = net.constants[linear.inputs[1]], net.constants[fixed[0]]
    if linear.op == "Conv":
        channels, fits = len(weight), value.ndim >= 3 and value.shape[-3] == value.size and value.shape[-2:] == (1, 1)
    else:
        channels = weight.shape[0] if linear.attrs.get("transB", 0) else weight.shape[-1]
        fits = weight.ndim == 2 and value.shape[-1:] == (value.size,)
    if not fits or value.size != channels:
        return None
    name = f"{linear.name}:bias"
    net.constants[name] = value.reshape(-1).astype(np.float32)
    kind = "Gemm" if linear.op == "MatMul" else linear.op
    return Op(linear.name, kind, (*linear.inputs[:2], name), add.outputs, linear.attrs)
