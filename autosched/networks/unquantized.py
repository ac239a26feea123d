"""The float operators that a file stands for: its quantizers taken out, its integers as the numbers that they stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.floats import SAME_SCALE, FloatNet, Names, Op, Saturation, clip_op, folded
from autosched.networks.graph import Array
from autosched.networks.onnx_nodes import FLOAT, SINGLE, File, Node, other_float
from autosched.networks.parameters import output_channels

WAY = "quantize the float network it was made of"
# Of integers at one scale these make what they make of the numbers that the integers stand for: they move, pick and compare.
PICKS = (*SAME_SCALE, "Concat", "Gather", "GatherElements", "GatherND", "Expand", "Tile", "Where", "Max", "Min", "Clip",
         "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "Shape", "Size")


def float_net(file: File) -> FloatNet:
    """The float operators that a file stands for, float or quantized.

    Args:
        file: a checked file.

    Raises:
        ProgramError: a quantized operator whose float form is not known.
    """
    taken = {t for n in file.nodes for t in (n.name, *n.inputs, *n.outputs)}
    names = Names({*taken, *file.shapes, *file.constants, *file.inputs, *file.outputs})
    net = FloatNet([], dict(file.constants), file.outputs, dict(file.shapes), names)
    for name, shape in file.blank.items():
        net.constants[name] = np.zeros(shape, dtype=np.float32)
    same: dict[str, str] = {}
    whole = _Integers(net, file, same)
    for node in file.nodes:
        out = node.outputs[0]
        if node.op == "QuantizeLinear":
            (source,) = whole.operands(node, node.inputs[:1])
            whole.note(out, _Scaled.of(node, 1), file.dtypes[node.inputs[0]])
            end = _saturation(net, file, node, node.inputs[1:3])
            same[out] = whole.saturated(node, source) if end is None else _clipped(net, node, end, source)
        elif node.op == "DequantizeLinear":
            # A name of its own: the quantized network that is written next has a tensor of this one.
            same[out] = whole.dequantized(node, 0, f"{out}:float")
        elif node.op in _QLINEAR:
            _qlinear(net, file, node, whole)
        elif node.op == "Clip" and (end := _fewer_bits(net, file, node)) is not None:
            whole.note(out, whole.scales[node.inputs[0]], net.floats[node.inputs[0]])
            same[out] = _clipped(net, node, end, same.get(node.inputs[0], node.inputs[0]))
        elif node.op in ("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"):
            raise node.refuse("its float form is not written in the file", FLOAT)
        else:
            domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
            inputs = whole.operands(node, node.inputs)
            net.ops.append(Op(node.name, node.op, inputs, node.outputs, node.attrs, tuple(node.proto.attribute), domain))
    renamed = {k: same[k] for k in file.outputs if k in same}
    if renamed:
        # An output that was quantized is given as float, under its own name.
        net.ops += [Op(names.free(f"{k}:float"), "Identity", (v,), (k,)) for k, v in renamed.items()]
    return folded(net)


def nothing_for_it(file: File, where: str, weighted: Sequence[str]) -> ProgramError:
    """The refusal of a file of which nothing but its inputs can be quantized.

    Args:
        file: a checked file.
        where: what the refusal calls it.
        weighted: the operators that make layers first of all.
    """
    for node in file.nodes:
        if node.op in weighted and other_float(file, node):
            return node.refuse(f"its input is {file.dtypes[node.inputs[0]]}", SINGLE)
    return ProgramError(f"{where}: none of its {len(file.nodes)} nodes can be quantized; run it with onnxruntime")


@dataclass(frozen=True)
class _Scaled:
    """What integers of the file stand for.

    Args:
        scale: tensor of one scale, or of one for each place along an axis.
        zero: tensor of the zero points; "" for 0.
        axis: that of several scales.
    """

    scale: str
    zero: str
    axis: int

    @staticmethod
    def of(node: Node, at: int) -> _Scaled:
        """As a node has it whose scale stands at an input, and its zero point, if there is one, behind it."""
        return _Scaled(node.inputs[at], (*node.inputs[at + 1 : at + 2], "")[0], int(node.attrs.get("axis", 1)))

    def along(self, rank: int, size: int) -> tuple[int, ...]:
        """The shape of ``size`` numbers that lie along the axis of a tensor of a rank."""
        return tuple([size if d == self.axis % rank else 1 for d in range(rank)])


@dataclass(eq=False)
class _Integers:
    """The integers of a file: those that are floats here, and the ways between both where neither can be left out.

    A quantizer is taken out where whatever reads its integers makes the same of the numbers that these stand for. Where that is
    not so, they are made again, by plain operators: a quantizer in a file that is written says what the machine is to do.

    Args:
        net: the operators so far; integers that are floats in it have their type in its ``floats``.
        file: the file.
        same: what tensors of the file are called in the net, where that is another name.
        scales: of the integers that are floats.
        made: integers that are made again, by the file's name.
    """

    net: FloatNet
    file: File
    same: dict[str, str]
    scales: dict[str, _Scaled] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)

    def note(self, tensor: str, scaled: _Scaled, kind: str) -> None:
        """Notes integers that are floats of a type here."""
        self.scales[tensor], self.net.floats[tensor] = scaled, kind

    def operands(self, node: Node, names: Sequence[str]) -> tuple[str, ...]:
        """What an operator reads that is no quantizer's: floats for integers where that is the same, else integers."""
        taken = next((t for t in names if t in self.scales), None)
        if taken is None or not self._picks(node, taken):
            return tuple([self.integers(node, t) if t in self.scales else self.same.get(t, t) for t in names])
        kind, read = self.file.dtypes[taken], []
        for t in names:
            read.append(self.same.get(t, t))
            if t in self.net.constants and self.file.dtypes[t] == kind:
                read[-1] = self.net.names.free(f"{t}:float")
                stored, (scale, zero) = self.net.constants[t], self._numbers(node, self.scales[taken])
                self.net.constants[read[-1]] = ((stored - zero) * scale).astype(self.net.floats[taken])
        for out in node.outputs:
            if self.file.dtypes.get(out) == kind:
                self.note(out, self.scales[taken], self.net.floats[taken])
        return tuple(read)

    def _picks(self, node: Node, taken: str) -> bool:
        """Whether an operator makes of floats what it makes of the integers that stand for them."""
        scaled, kind = self.scales[taken], self.file.dtypes[taken]
        if node.op not in PICKS or prod(self.file.shapes[scaled.scale]) != 1:
            return False
        if node.op == "Pad" and len([t for t in node.inputs[:3] if t]) < 3 and node.attrs.get("mode", "constant") == "constant":
            zero = self.net.constants.get(scaled.zero, np.ones(1)) if scaled.zero else np.zeros(1)
            if zero.any():
                return False  # it fills with the integer 0
        alike = [t for t in node.inputs if t and self.file.dtypes.get(t) == kind]
        return all(self._agree(self.scales[t], scaled) if t in self.scales else t in self.net.constants for t in alike)

    def _agree(self, one: _Scaled, other: _Scaled) -> bool:
        """Whether integers of two scales stand for the same numbers."""
        def equal(a: str, b: str) -> bool:
            x, y = (self.net.constants.get(t) if t else np.zeros(1) for t in (a, b))
            if a == b or x is None or y is None:
                return a == b
            return (x.size == y.size or 1 in (x.size, y.size)) and bool((x.reshape(-1) == y.reshape(-1)).all())

        several = prod(self.file.shapes[one.scale]) > 1
        return equal(one.scale, other.scale) and equal(one.zero, other.zero) and not (several and one.axis != other.axis)

    def dequantized(self, node: Node, at: int, name: str) -> str:
        """The float of an operand whose scale and zero point are the next inputs.

        Args:
            node: who reads it.
            at: where.
            name: of the float, if it is a constant.
        """
        net, tensor = self.net, node.inputs[at]
        scaled = _Scaled.of(node, at + 1)
        if tensor in self.scales and self._agree(self.scales[tensor], scaled):
            return self.same.get(tensor, tensor)
        if tensor in net.constants:
            made = net.names.free(name)
            net.constants[made] = _dequantized(net, node, at)
            return made
        kind = self.file.dtypes[node.outputs[0]] if node.op == "DequantizeLinear" else "float32"
        whole = self.integers(node, tensor) if tensor in self.scales else self.same.get(tensor, tensor)
        scale, zero = self._numbers(node, scaled, tensor)
        x = self._op(node, "Cast", tensor, kind, whole, to=kind)
        if zero.any():
            x = self._op(node, "Sub", tensor, kind, x, zero)
        return self._op(node, "Mul", tensor, kind, x, scale)

    def saturated(self, node: Node, source: str) -> str:
        """A float between the ends of a quantizer that has several scales, or computes them: no two numbers say where."""
        tensor, scaled = node.outputs[0], _Scaled.of(node, 1)
        ends, kind = _ends(self.file.dtypes[tensor]), self.file.dtypes[node.inputs[0]]
        if ends is None:
            return source
        net, x = self.net, source
        if scaled.scale in net.constants and (not scaled.zero or scaled.zero in net.constants):
            scale, zero = self._numbers(node, scaled, tensor)
            for op, end in zip(("Max", "Min"), ends):
                x = self._op(node, op, tensor, kind, x, (end - zero) * scale)
            return x
        many = prod(self.file.shapes[scaled.scale]) > 1
        known, less = np.zeros(()), ""  # the zero point, or what takes it away
        if scaled.zero in net.constants:
            known = net.constants[scaled.zero].astype(np.float64)
        elif scaled.zero:
            whole = self.integers(node, scaled.zero) if scaled.zero in self.scales else scaled.zero
            zeros = self._op(node, "Cast", scaled.zero, kind, self.same.get(whole, whole), to=kind)
            less = self._op(node, "Neg", scaled.zero, kind, zeros)
        for op, end in zip(("Max", "Min"), ends):
            far: Array | str = self._op(node, "Add", scaled.zero, kind, less, np.array(end)) if less else end - known
            edge = self._op(node, "Mul", scaled.scale, kind, self.same.get(scaled.scale, scaled.scale), far)
            if many:
                shape = net.names.free(f"{tensor}:shape")
                spread = scaled.along(len(self.file.shapes[tensor]), prod(self.file.shapes[scaled.scale]))
                net.constants[shape] = np.array(spread, np.int64)
                edge = self._op(node, "Reshape", scaled.scale, kind, edge, shape)
                net.shapes[edge] = spread
            x = self._op(node, op, tensor, kind, x, edge)
        return x

    def integers(self, node: Node, tensor: str) -> str:
        """The integers that a quantizer makes, for an operator that does not do with floats."""
        if tensor not in self.made:
            kind, dtype = self.net.floats[tensor], self.file.dtypes[tensor]
            if np.dtype(dtype).kind not in "iu":
                raise node.refuse(f"it reads {tensor!r}, which is {dtype}", FLOAT)
            scale, zero = self._numbers(node, self.scales[tensor], tensor)
            x = self._op(node, "Div", tensor, kind, self.same.get(tensor, tensor), scale)
            x = self._op(node, "Round", tensor, kind, x)
            if zero.any():
                x = self._op(node, "Add", tensor, kind, x, zero)
            ends = np.iinfo(np.dtype(dtype))
            x = self._op(node, "Clip", tensor, kind, x, np.array(ends.min), np.array(ends.max))
            self.made[tensor] = self._op(node, "Cast", tensor, dtype, x, to=dtype)
        return self.made[tensor]

    def _numbers(self, node: Node, scaled: _Scaled, tensor: str = "") -> tuple[Array, Array]:
        """Scale and zero point in float64, so that they fit a tensor."""
        found = []
        for name in (scaled.scale, scaled.zero):
            value = np.zeros(1) if not name else self.net.constants.get(name)
            if value is None:
                raise node.refuse(f"{name!r} is computed while it runs", WAY)
            rank = len(self.file.shapes[tensor]) if tensor and value.size > 1 else 0
            found.append(value.astype(np.float64).reshape(scaled.along(rank, value.size)))
        return found[0], found[1]

    def _op(self, node: Node, op: str, tensor: str, kind: str, x: str, *others: Array | str, to: str = "") -> str:
        """A plain operator beside a tensor of the file, whose result is of a type; constants are of it, too."""
        from onnx import helper

        net, names = self.net, [x]
        for value in others:
            if isinstance(value, str):
                names.append(value)
                continue
            names.append(net.names.free(f"{tensor}:{op.lower()}:by"))
            net.constants[names[-1]] = value.astype(kind)
        given = (helper.make_attribute("to", helper.np_dtype_to_tensor_dtype(np.dtype(to))),) if to else ()
        out = net.names.free(f"{tensor}:{op.lower()}")
        net.shapes[out], net.floats[out] = self.file.shapes[tensor], kind
        name = net.names.free(f"{node.name}:{op.lower()}")
        net.ops.append(Op(name, op, tuple(names), (out,), {a.name: a.i for a in given}, given))
        return out


def _constant(net: FloatNet, node: Node, at: int) -> Array:
    """A scale, a zero point or a bias of the file."""
    if node.inputs[at] not in net.constants:
        raise node.refuse(f"{node.inputs[at]!r} is computed while it runs", WAY)
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


def _qlinear(net: FloatNet, file: File, node: Node, whole: _Integers) -> None:
    inputs = node.inputs
    op, operands, result = _QLINEAR[node.op]
    if node.op == "QLinearConcat":
        operands = tuple(range(2, len(inputs), 3))
    read = [whole.dequantized(node, at, f"{node.name}:{at}") for at in operands]
    at = _BIAS.get(node.op, len(inputs))
    if len(inputs) > at and inputs[at]:
        scale = _constant(net, node, 1).astype(np.float64) * _constant(net, node, 4).astype(np.float64)
        read.append(net.names.free(f"{node.name}:bias"))
        net.constants[read[-1]] = (_constant(net, node, at) * scale.reshape(-1)).astype(np.float32)
    dropped = ("channels_last", "opset")
    attrs = {k: v for k, v in node.attrs.items() if k not in dropped}
    end = _saturation(net, file, node, node.inputs[result : result + 2])
    given, out = tuple(node.proto.attribute), node.outputs[0]
    if np.dtype(file.dtypes[out]).kind in "iu":
        whole.note(out, _Scaled.of(node, result), "float32")
    if end is None:
        net.ops.append(Op(node.name, op, tuple(read), (out,), attrs, given))
        return
    sums = _beside(net, out, "sum")
    net.ops.append(Op(node.name, op, tuple(read), (sums,), attrs, given))
    _clipped(net, node, end, sums, out)


def _saturation(net: FloatNet, file: File, node: Node, scaled: Sequence[str]) -> Saturation | None:
    """Where a result saturates whose scale and zero point are given, if it is an integer with one constant scale."""
    limits = _ends(file.dtypes[node.outputs[0]])
    scale = net.constants.get(scaled[0]) if scaled else None
    zero = net.constants.get(scaled[1]) if len(scaled) > 1 and scaled[1] else np.zeros(1)
    if limits is None or scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    step, origin = float(scale.reshape(-1)[0]), float(zero.reshape(-1)[0])
    return Saturation((limits[0] - origin) * step, (limits[1] - origin) * step, step)


def _ends(dtype: str) -> tuple[int, int] | None:
    """The least and the greatest of an integer type, which numpy need not have (``int4``); None of any other type."""
    found = re.fullmatch(r"(u?)int(\d+)", dtype)
    if found is None:
        return None
    signed, bits = not found[1], int(found[2])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


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


def _beside(net: FloatNet, tensor: str, word: str) -> str:
    """A tensor that the file does not have, of another one's extents."""
    name = net.names.free(f"{tensor}:{word}")
    net.shapes[name] = net.shapes[tensor]
    return name


def _clipped(net: FloatNet, node: Node, end: Saturation, tensor: str, out: str = "") -> str:
    """Clips a tensor where a quantizer saturates; the result is ``out``, or a tensor beside the node's."""
    out = out or _beside(net, node.outputs[0], "clipped")
    name = net.names.free(f"{node.name}:saturates")
    net.ops.append(clip_op(net, name, tensor, out, end.low, end.high))
    net.saturations[name] = end
    return out
