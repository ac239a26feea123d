"""A network as plain float operators: quantization taken out, batch normalization folded, what is left in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.networks.graph import Array
from autosched.networks.onnx_file import FLOAT, File, Node
from autosched.networks.parameters import output_channels

CLIPS = ("Relu", "Clip")


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


@dataclass(frozen=True)
class Saturation:
    """Where a quantizer of the file saturates: what it cannot say is clipped.

    Args:
        low: its least value.
        high: its greatest value.
        step: its scale.
    """

    low: float
    high: float
    step: float


@dataclass(eq=False)
class FloatNet:
    """Float operators in order, with their constants.

    Args:
        ops: the operators.
        constants: values by tensor.
        saturations: the quantizers that the Clips of these names stand for.
    """

    ops: list[Op]
    constants: dict[str, Array]
    saturations: dict[str, Saturation] = field(default_factory=dict)

    def readers(self, tensor: str) -> list[Op]:
        """The operators that read a tensor."""
        return [o for o in self.ops if tensor in o.inputs]

    def settled(self, ranges: Mapping[str, tuple[float, float]], outputs: Sequence[str]) -> FloatNet:
        """The network with those ends of its quantizers' ranges that the calibration data reach, as Relus and Clips.

        A quantizer that saturates is a clip, and often the only one: exporters drop a Relu where the range begins at 0. An end
        that no value passes says nothing.

        Args:
            ranges: (least, greatest) value by tensor, over the calibration set.
            outputs: of the network: these keep their names.
        """
        made = FloatNet([], dict(self.constants))
        same: dict[str, str] = {}
        for op in self.ops:
            inputs = tuple(same.get(t, t) for t in op.inputs)
            at = self.saturations.get(op.name)
            if at is None:
                made.ops.append(replace(op, inputs=inputs))
                continue
            (out,) = op.outputs
            least, most = ranges.get(op.inputs[0], (0.0, 0.0))
            # Less than half a step outside is rounding and no clip.
            low = at.low if least < at.low - at.step / 2 else -np.inf
            high = at.high if most > at.high + at.step / 2 else np.inf
            if low == -np.inf and high == np.inf:
                same[out] = inputs[0]
                if out in outputs:
                    made.ops.append(Op(op.name, "Identity", inputs[:1], (out,)))
                continue
            before = next((o for o in made.ops if inputs[0] in o.outputs), None)
            ends = clip_ends(before, made.constants) if before is not None else None
            if before is not None and ends is not None and len(self.readers(op.inputs[0])) == 1 and inputs[0] not in outputs:
                # Two clips in a row are one.
                low, high = min(max(ends[0], low), high), min(max(ends[1], low), high)
                made.ops.remove(before)
                inputs = before.inputs[:1]
            made.ops.append(_clip(made, op.name, inputs[0], out, low, high))
        _fold_norms(made, outputs)
        return made


def clip_ends(op: Op, constants: Mapping[str, Array]) -> tuple[float, float] | None:
    """Where an operator clips, infinite where one end is open; None where it does not, or its ends are computed.

    Args:
        op: the operator.
        constants: of its network.
    """
    if op.op == "Relu":
        return 0.0, np.inf
    given = (*op.inputs[1:], "", "")[:2]
    if op.op != "Clip" or any(t and t not in constants for t in given):
        return None
    low, high = (float(constants[t].reshape(-1)[0]) if t else d for t, d in zip(given, (-np.inf, np.inf)))
    return low, high


def _clip(net: FloatNet, name: str, tensor: str, out: str, low: float, high: float) -> Op:
    if (low, high) == (0.0, np.inf):
        return Op(name, "Relu", (tensor,), (out,))
    inputs = [tensor]
    for end, value in (("low", low), ("high", high)):
        inputs.append("" if np.isinf(value) else f"{name}:{end}")
        if inputs[-1]:
            net.constants[inputs[-1]] = np.array(value, dtype=np.float32)
    return Op(name, "Clip", tuple(inputs) if inputs[2] else tuple(inputs[:2]), (out,))


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
            end = _saturation(net, file, node, node.inputs[1:3])
            same[node.outputs[0]] = inputs[0] if end is None else _clipped(
                net, node, end, inputs[0], f"{node.outputs[0]}:clipped")
        elif node.op == "DequantizeLinear" and inputs[0] in net.constants and inputs[0] == node.inputs[0]:
            # A name of its own: the quantized network that is written next has a tensor of this one.
            same[node.outputs[0]] = f"{node.outputs[0]}:float"
            net.constants[same[node.outputs[0]]] = _dequantized(net, node, 0)
        elif node.op == "DequantizeLinear":
            same[node.outputs[0]] = inputs[0]
        elif node.op in _QLINEAR:
            _qlinear(net, file, node, inputs)
        elif node.op == "Clip" and (end := _fewer_bits(net, file, node)) is not None:
            same[node.outputs[0]] = _clipped(net, node, end, inputs[0], f"{node.outputs[0]}:clipped")
        elif node.op in ("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"):
            raise node.refuse("its float form is not written in the file", FLOAT)
        else:
            net.ops.append(Op(node.name, node.op, inputs, node.outputs, node.attrs))
    renamed = {k: same[k] for k in file.outputs if k in same}
    if renamed:
        # An output that was quantized is given as float, under its own name.
        net.ops += [Op(f"{k}:float", "Identity", (v,), (k,)) for k, v in renamed.items()]
    _fold_norms(net, file.outputs)
    return net


def _constant(net: FloatNet, node: Node, at: int) -> Array:
    """A scale, a zero point or a bias of the file."""
    if node.inputs[at] not in net.constants:
        raise node.refuse(f"{node.inputs[at]!r} is computed while it runs", "quantize the float network it was made of")
    return net.constants[node.inputs[at]]


def _dequantized(net: FloatNet, node: Node, at: int) -> Array:
    """A stored constant as float32; its scale and zero point are the next inputs."""
    stored, scale = net.constants[node.inputs[at]], _constant(net, node, at + 1)
    zero = _constant(net, node, at + 2) if len(node.inputs) > at + 2 and node.inputs[at + 2] else np.zeros(1)
    axis = int(node.attrs.get("axis", 1)) % max(stored.ndim, 1)
    if node.op != "DequantizeLinear" and max(scale.size, zero.size) > 1:
        axis = output_channels(node.op, node.attrs, stored.shape)[1]
    along = [-1 if d == axis else 1 for d in range(stored.ndim)]
    scale, zero = (x.astype(np.float64).reshape(along if x.size > 1 else [1] * stored.ndim) for x in (scale, zero))
    return ((stored.astype(np.float64) - zero) * scale).astype(np.float32)


# Operators of onnxruntime's own on int8: what they are in float, where their operands stand, and where their result's scale does.
_QLINEAR = {
    "QLinearConv": ("Conv", (0, 3), 6), "QLinearMatMul": ("MatMul", (0, 3), 6), "QGemm": ("Gemm", (0, 3), 7),
    "QLinearAdd": ("Add", (0, 3), 6), "QLinearMul": ("Mul", (0, 3), 6),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), 3), "QLinearAveragePool": ("AveragePool", (0,), 3),
    "QLinearSigmoid": ("Sigmoid", (0,), 3), "QLinearLeakyRelu": ("LeakyRelu", (0,), 3), "QLinearSoftmax": ("Softmax", (0,), 3),
    "QLinearConcat": ("Concat", (), 0),
}
_BIAS = {"QLinearConv": 8, "QGemm": 6}


def _qlinear(net: FloatNet, file: File, node: Node, inputs: tuple[str, ...]) -> None:
    op, operands, result = _QLINEAR[node.op]
    if node.op == "QLinearConcat":
        operands = tuple(range(2, len(inputs), 3))
    read = []
    for at in operands:
        read.append(inputs[at])
        if inputs[at] in net.constants:
            read[-1] = f"{node.name}:{at}"
            net.constants[read[-1]] = _dequantized(net, node, at)
    at = _BIAS.get(node.op, len(inputs))
    if len(inputs) > at and inputs[at]:
        scale = _constant(net, node, 1).astype(np.float64) * _constant(net, node, 4).astype(np.float64)
        read.append(f"{node.name}:bias")
        net.constants[read[-1]] = (_constant(net, node, at) * scale.reshape(-1)).astype(np.float32)
    dropped = ("channels_last", "opset")
    attrs = {k: v for k, v in node.attrs.items() if k not in dropped}
    end = _saturation(net, file, node, node.inputs[result : result + 2])
    net.ops.append(Op(node.name, op, tuple(read), node.outputs if end is None else (f"{node.outputs[0]}:sum",), attrs))
    if end is not None:
        _clipped(net, node, end, f"{node.outputs[0]}:sum", node.outputs[0])


def _saturation(net: FloatNet, file: File, node: Node, scaled: Sequence[str]) -> Saturation | None:
    """Where a result saturates whose scale and zero point are given, if it is an integer with one constant scale."""
    dtype = np.dtype(file.dtypes[node.outputs[0]])
    scale = net.constants.get(scaled[0]) if scaled else None
    zero = net.constants.get(scaled[1]) if len(scaled) > 1 and scaled[1] else np.zeros(1)
    if dtype.kind not in "iu" or scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    step, origin, limits = float(scale.reshape(-1)[0]), float(zero.reshape(-1)[0]), np.iinfo(dtype)
    return Saturation((limits.min - origin) * step, (limits.max - origin) * step, step)


def _fewer_bits(net: FloatNet, file: File, node: Node) -> Saturation | None:
    """Where a Clip of a quantized tensor clips in float."""
    source = file.producer(node.inputs[0])
    if source is None or source.op != "QuantizeLinear" or len(node.inputs) != 3:
        return None
    whole = _saturation(net, file, source, source.inputs[1:3])
    ends = [net.constants.get(t) for t in node.inputs[1:]]
    if whole is None or ends[0] is None or ends[1] is None:
        return None
    least = np.iinfo(np.dtype(file.dtypes[node.inputs[0]])).min
    low, high = (whole.low + (float(e.reshape(-1)[0]) - least) * whole.step for e in ends if e is not None)
    return Saturation(low, high, whole.step)


def _clipped(net: FloatNet, node: Node, end: Saturation, tensor: str, out: str) -> str:
    name = f"{node.name}:saturates"
    net.ops.append(_clip(net, name, tensor, out, end.low, end.high))
    net.saturations[name] = end
    return out


def _fold_norms(net: FloatNet, outputs: Sequence[str]) -> None:
    """Folds a BatchNormalization into the convolution in front of it, and an Add of a constant into what it follows."""
    changed = True
    while changed:
        changed = False
        for k, op in enumerate(net.ops):
            before = next((o for o in net.ops if op.inputs and op.inputs[0] in o.outputs), None)
            if before is None or before.op not in ("Conv", "Gemm", "MatMul") or len(net.readers(op.inputs[0])) != 1:
                continue
            if op.inputs[0] in outputs or before.inputs[1] not in net.constants:
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
