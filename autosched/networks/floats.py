"""A network as plain float operators, and batch normalization and constants folded into the sums in front of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.networks.graph import Array
from autosched.networks.ranges import clipped_again

if TYPE_CHECKING:
    from onnx import AttributeProto

CLIPS = ("Relu", "Clip")
WEIGHTED = ("Conv", "Gemm", "MatMul", "ConvTranspose")
SAME_SCALE = ("MaxPool", "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "DepthToSpace",
              "SpaceToDepth", "Slice", "Split", "Pad", "Resize")


class Names:
    """Names for what a network gains: none that something has already.

    Args:
        taken: names of tensors and nodes.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def free(self, wanted: str) -> str:
        """A name that nothing has, as it is wanted wherever that can be; it is taken from then on."""
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted


@dataclass(frozen=True, eq=False)
class Op:
    """A float operator.

    Args:
        name: of the file's node.
        op: operator.
        inputs: tensors; "" where one is left out.
        outputs: tensors.
        attrs: attributes as Python values.
        given: attributes as the file has them, from which those in ``attrs`` are written: an empty list has no type in Python.
        domain: operator set; "" for ONNX's own.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[AttributeProto, ...] = ()
    domain: str = ""


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
        ops: the operators; all of them, before anybody asks who reads or makes a tensor.
        constants: values by tensor.
        outputs: of the network.
        shapes: extents by tensor.
        names: those that are taken.
        saturations: the quantizers that the Clips of these names stand for.
        floats: types of tensors that are integers in the file and are none here.
    """

    ops: list[Op]
    constants: dict[str, Array]
    outputs: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    names: Names
    saturations: dict[str, Saturation] = field(default_factory=dict)
    floats: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _readers(self) -> dict[str, list[Op]]:
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for t in dict.fromkeys(op.inputs):
                found.setdefault(t, []).append(op)
        return found

    @cached_property
    def _makers(self) -> dict[str, Op]:
        return {t: op for op in self.ops for t in op.outputs}

    def readers(self, tensor: str) -> Sequence[Op]:
        """The operators that read a tensor."""
        return self._readers.get(tensor, ())

    def maker(self, tensor: str) -> Op | None:
        """The operator that makes a tensor, or None where it is an input or a constant."""
        return self._makers.get(tensor)

    def settled(self, ranges: Mapping[str, tuple[float, float]]) -> FloatNet:
        """The network with those ends of its quantizers' ranges that the calibration data reach, as Relus and Clips.

        A quantizer that saturates is a clip, and often the only one: exporters drop a Relu where the range begins at 0. An end
        that no value passes says nothing.

        Args:
            ranges: (least, greatest) value by tensor, over the calibration set.
        """
        made = replace(self, ops=[], constants=dict(self.constants), saturations={})
        kept: list[Op | None] = []
        places: dict[str, int] = {}
        same: dict[str, str] = {}

        def keep(op: Op) -> None:
            places.update(dict.fromkeys(op.outputs, len(kept)))
            kept.append(op)

        for op in self.ops:
            inputs = tuple(same.get(t, t) for t in op.inputs)
            at = self.saturations.get(op.name)
            if at is None:
                keep(replace(op, inputs=inputs))
                continue
            (out,) = op.outputs
            least, most = ranges.get(op.inputs[0], (0.0, 0.0))
            # Less than half a step outside is rounding and no clip.
            low = at.low if least < at.low - at.step / 2 else -np.inf
            high = at.high if most > at.high + at.step / 2 else np.inf
            if low == -np.inf and high == np.inf:
                same[out] = inputs[0]
                if out in self.outputs:
                    keep(Op(op.name, "Identity", inputs[:1], (out,)))
                continue
            place = places.get(inputs[0])
            before = None if place is None else kept[place]
            ends = clip_ends(before, made.constants) if before is not None else None
            if place is not None and before is not None and ends is not None and (
                len(self.readers(op.inputs[0])) == 1 and inputs[0] not in self.outputs
            ):
                # Two clips in a row are one.
                low, high = clipped_again(*ends, (low, high))
                kept[place] = None
                inputs = before.inputs[:1]
            keep(clip_op(made, op.name, inputs[0], out, low, high))
        made.ops = [op for op in kept if op is not None]
        return folded(made)


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


def clip_op(net: FloatNet, name: str, tensor: str, out: str, low: float, high: float) -> Op:
    if (low, high) == (0.0, np.inf):
        return Op(name, "Relu", (tensor,), (out,))
    inputs = [tensor]
    for end, value in (("low", low), ("high", high)):
        inputs.append("" if np.isinf(value) else net.names.free(f"{name}:{end}"))
        if inputs[-1]:
            net.constants[inputs[-1]] = np.array(value, dtype=np.float32)
    return Op(name, "Clip", tuple(inputs) if inputs[2] else tuple(inputs[:2]), (out,))


def folded(net: FloatNet) -> FloatNet:
    """The network with a BatchNormalization in the convolution in front of it, and an Add of a constant in what it follows.

    A normalization that follows no convolution becomes one.

    Args:
        net: the network.
    """
    kept: list[Op] = []
    places: dict[str, int] = {}
    for op in net.ops:
        # Of a sum it is the operand that is computed, whichever stands first.
        first = next((t for t in op.inputs if op.op != "Add" or t not in net.constants), "")
        place = places.get(first) if first and len(net.readers(first)) == 1 and first not in net.outputs else None
        made = None if place is None else _normalised(net, kept[place], op) or _with_bias(net, kept[place], op)
        if place is None or made is None:
            place, made = len(kept), op
            kept.append(op)
        kept[place] = made
        places.update(dict.fromkeys(made.outputs, place))
    return replace(net, ops=[_of_channels(net, op) or op for op in kept])


def _scaling(net: FloatNet, norm: Op) -> tuple[Array, Array, Array] | None:
    """What a normalization multiplies each channel by, takes away before and adds behind; None where that is no constant."""
    if norm.op != "BatchNormalization" or norm.attrs.get("training_mode", 0) or any(norm.outputs[1:]):
        return None  # it normalises by what it sees, or says what that was
    if any(t not in net.constants for t in norm.inputs[1:5]):
        return None
    gamma, beta, mean, var = (net.constants[t].astype(np.float64) for t in norm.inputs[1:5])
    with np.errstate(all="ignore"):
        # What is no number any more is refused by its name.
        return gamma / np.sqrt(var + float(norm.attrs.get("epsilon", 1e-5))), mean, beta


def _of_channels(net: FloatNet, norm: Op) -> Op | None:
    """A normalization that follows no convolution as one of its own, of one pixel and each channel by itself."""
    scaling = _scaling(net, norm)
    if scaling is None or len(net.shapes.get(norm.inputs[0], ())) != 4:
        return None
    from onnx import helper

    factor, mean, beta = scaling
    dtype = net.constants[norm.inputs[1]].dtype
    names = net.names.free(f"{norm.name}:weight"), net.names.free(f"{norm.name}:bias")
    with np.errstate(all="ignore"):
        net.constants[names[0]] = factor.reshape(-1, 1, 1, 1).astype(dtype)
        net.constants[names[1]] = (beta - mean * factor).astype(dtype)
    attrs: dict[str, Any] = {"group": len(factor), "kernel_shape": [1, 1]}
    given = tuple([helper.make_attribute(k, v) for k, v in attrs.items()])
    return Op(norm.name, "Conv", (norm.inputs[0], *names), norm.outputs[:1], attrs, given)


def _normalised(net: FloatNet, conv: Op, norm: Op) -> Op | None:
    scaling = _scaling(net, norm) if conv.op == "Conv" and conv.inputs[1] in net.constants else None
    if scaling is None:
        return None
    factor, mean, beta = scaling
    stored = net.constants[conv.inputs[1]]
    weight, bias = stored.astype(np.float64), np.zeros(len(stored))
    if len(conv.inputs) > 2 and conv.inputs[2]:
        if conv.inputs[2] not in net.constants:
            return None
        bias = net.constants[conv.inputs[2]].astype(np.float64)
    names = net.names.free(f"{conv.name}:weight"), net.names.free(f"{conv.name}:bias")
    with np.errstate(all="ignore"):
        net.constants[names[0]] = (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(stored.dtype)
        net.constants[names[1]] = ((bias - mean) * factor + beta).astype(stored.dtype)
    return replace(conv, inputs=(conv.inputs[0], *names), outputs=norm.outputs[:1])


def _with_bias(net: FloatNet, linear: Op, add: Op) -> Op | None:
    """A MatMul (or an operator without bias) with the constant that is added to its result."""
    if add.op != "Add" or linear.op not in ("Conv", "Gemm", "MatMul") or (len(linear.inputs) > 2 and linear.inputs[2]):
        return None
    fixed = [t for t in add.inputs if t in net.constants]
    if len(fixed) != 1 or linear.inputs[1] not in net.constants:
        return None
    shape = net.shapes.get(linear.outputs[0], ())
    weight, value = net.constants[linear.inputs[1]], net.constants[fixed[0]]
    if linear.op == "Conv":
        # Of an image alone: what is one number per channel there is one per depth of a volume.
        channels, rank = len(weight), 4
        fits = value.ndim >= 3 and value.shape[-3] == value.size and value.shape[-2:] == (1, 1)
    else:
        channels, rank = weight.shape[0] if linear.attrs.get("transB", 0) else weight.shape[-1], 2
        fits = value.shape[-1:] == (value.size,)
    # A constant of more dimensions gives its result more, and a Gemm takes matrices alone.
    if not fits or value.size != channels or len(shape) != rank or net.shapes.get(add.outputs[0]) != shape or weight.ndim != rank:
        return None
    name = net.names.free(f"{linear.name}:bias")
    net.constants[name] = value.reshape(-1).astype(weight.dtype)
    # Without a bias of its own a Gemm's beta meant nothing.
    attrs = {k: v for k, v in linear.attrs.items() if k != "beta"}
    kind = "Gemm" if linear.op == "MatMul" else linear.op
    return replace(linear, op=kind, inputs=(*linear.inputs[:2], name), outputs=add.outputs, attrs=attrs)
