"""Layers written as QLinear operators: int8 in, int8 out, scales as inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.networks import channels
from autosched.networks.graph import Array, Layer
from autosched.networks.matcher import Found, requant
from autosched.networks.onnx_nodes import Node
from autosched.networks.parameters import per_output
from autosched.networks.qdq import dense_fault, sum_layer
from autosched.networks.scales import STORE, WAY_OUT, Value, exponents, int8_weight, machine_zero
from autosched.networks.windows import Window, average_layer, padding_fault, weight_sums, window

_BIAS = {"QLinearConv": 8, "QGemm": 6}  # the input that is a bias
NAMES = ("QLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd", "QLinearConcat", "QLinearGlobalAveragePool",
         "QLinearAveragePool")


def match(found: Found, node: Node) -> None:
    """Makes a layer of a QLinear operator, or notes why it stays on the host."""
    given = {"QLinearAdd": (0, 3), "QLinearConcat": range(2, len(node.inputs), 3)}.get(node.op, (0,))
    if any(found.file.is_constant(node.inputs[at]) for at in given):
        found.reasons[node.name] = "an operand is a constant"
        return
    if node.op in ("QLinearConv", "QLinearMatMul", "QGemm"):
        _weighted(found, node)
    elif node.op == "QLinearAdd":
        _add(found, node)
    elif node.op == "QLinearConcat":
        _concat(found, node)
    else:
        _average(found, node)


def _operand(found: Found, node: Node, at: int) -> Value:
    """The value of the tensor, scale and zero point that stand at inputs ``at``, ``at + 1``, ``at + 2``."""
    name, scale, zero = node.inputs[at : at + 3]
    powers = exponents(found.file, node, scale, repr(name))
    if len(powers) != 1:
        raise node.refuse(f"{name!r} has a scale per channel", "activations take one: " + WAY_OUT.format(file=found.file.name))
    value = machine_zero(found.file, node, name, zero)
    return Value(found.tensor(name, int(powers[0]), value).name, int(powers[0]), value)


def _result(found: Found, node: Node, at: int) -> Value:
    """The same for the output, whose scale and zero point stand at inputs ``at``, ``at + 1``."""
    name = node.outputs[0]
    powers = exponents(found.file, node, node.inputs[at], f"the result {name!r}")
    if len(powers) != 1:
        raise node.refuse(f"{name!r} has a scale per channel", "activations take one: " + WAY_OUT.format(file=found.file.name))
    value = machine_zero(found.file, node, name, node.inputs[at + 1] if len(node.inputs) > at + 1 else "")
    return Value(found.tensor(name, int(powers[0]), value).name, int(powers[0]), value)


def _weighted(found: Found, node: Node) -> None:
    file = found.file
    name, scale, zero = node.inputs[3:6]
    if not file.is_constant(name):
        found.reasons[node.name] = "its weight is no constant"
        return
    weight: Array = np.zeros(file.blank[name], np.int8) if name in file.blank else int8_weight(file, node, name, zero)
    value = _operand(found, node, 0)
    shape = file.shapes[value.tensor]
    sizes, kernel = Window(), (1, 1)
    if node.op == "QLinearConv":
        if weight.ndim != 4:
            found.reasons[node.name] = "only convolutions of images are on the machine"
            return
        kernel = (weight.shape[2], weight.shape[3])
        made = window(node, value, shape, kernel)
        if isinstance(made, str):
            found.reasons[node.name] = made
            return
        sizes = made
        sums = weight_sums(weight, value.zero, shape, sizes)
    else:
        reason = dense_fault(node, shape, weight.shape)
        if reason:
            found.reasons[node.name] = reason
            return
        if not node.attrs.get("transB", 0):
            weight = np.ascontiguousarray(weight.T)
        sums = weight.astype(np.int64).sum(axis=1)
    own = _BIAS.get(node.op, 0)
    if node.op == "QGemm" and len(node.inputs) > own and node.inputs[own] and not per_output(
            file.shapes[node.inputs[own]], len(weight)):
        found.reasons[node.name] = "its bias differs from row to row"
        return
    if node.op == "QGemm" and (len(node.inputs) < 8 or not node.inputs[7]):
        found.reasons[node.name] = "its result is float"
        return
    result = _result(found, node, 7 if node.op == "QGemm" else 6)
    powers = exponents(file, node, scale, f"weight {name!r}").reshape(-1)
    bias: Array = np.zeros(1, dtype=np.int64)
    if own and len(node.inputs) > own and node.inputs[own]:
        if node.inputs[own] in file.blank:
            raise node.refuse(f"its bias {node.inputs[own]!r} {file.lack(node.inputs[own])}", STORE)
        if node.inputs[own] not in file.constants:
            raise node.refuse(f"its bias {node.inputs[own]!r} is no constant", "the machine takes constant biases")
        bias = file.constants[node.inputs[own]].astype(np.int64).reshape(-1)
    shift = powers + value.exponent - result.exponent
    done = requant(node, len(weight), bias, sums, value.zero, result.zero, shift, found.rounding, -128, 127)
    kind = "conv" if node.op == "QLinearConv" else "dense"
    found.add(Layer(
        node.name, kind, (value.tensor,), result.tensor, done, weight, (), kernel, sizes.stride, sizes.pads,
        int(node.attrs.get("group", 1)), (node.name,), dilation=sizes.dilation,
    ))


def _add(found: Found, node: Node) -> None:
    a, b = _operand(found, node, 0), _operand(found, node, 3)
    if (fault := found.rank_fault(a.tensor)) is not None:
        found.reasons[node.name] = fault
        return
    if found.file.shapes[a.tensor] != found.file.shapes[b.tensor]:
        found.reasons[node.name] = "its operands have different shapes"
        return
    result = _result(found, node, 6)
    layer = sum_layer(node, [a, b], result.exponent, result.zero, found.rounding, -128, 127)
    _take(found, node, layer, result)


def _concat(found: Found, node: Node) -> None:
    parts = [_operand(found, node, at) for at in range(2, len(node.inputs), 3)]
    if (fault := channels.fault_of(found, node, [found.file.shapes[v.tensor] for v in parts])) is not None:
        found.reasons[node.name] = fault
        return
    channels.join(found, node, parts, _result(found, node, 0))


def _average(found: Found, node: Node) -> None:
    value = _operand(found, node, 0)
    shape = found.file.shapes[value.tensor]
    if len(shape) != 4 or node.attrs.get("channels_last", 0):
        found.reasons[node.name] = "only images (N, C, H, W) are pooled on the machine"
        return
    whole = node.op == "QLinearGlobalAveragePool"
    kernel = (shape[2], shape[3]) if whole else tuple(node.attrs["kernel_shape"])
    sizes = Window() if whole else window(node, value, shape, (kernel[0], kernel[1]))
    if isinstance(sizes, str):
        found.reasons[node.name] = sizes
        return
    stride, pads, _ = sizes
    if any(pads) and not node.attrs.get("count_include_pad", 0):
        found.reasons[node.name] = "its divisor differs at the edge (count_include_pad = 0)"
        return
    padding_fault(value, pads, node)
    result = _result(found, node, 3)
    layer = average_layer(
        node, value, (kernel[0], kernel[1]), result.exponent, result.zero, found.rounding, -128, 127
    )
    _take(found, node, layer if isinstance(layer, str) else replace(layer, stride=stride, pads=pads), result)


def _take(found: Found, node: Node, layer: Layer | str, result: Value) -> None:
    if isinstance(layer, str):
        found.reasons[node.name] = layer
    else:
        found.add(replace(layer, output=result.tensor, nodes=(node.name,)))
