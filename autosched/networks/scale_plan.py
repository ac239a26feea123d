"""Which tensors of a float network are quantized, and at which powers of two; weights and biases as whole numbers.

A scale is 2^-e, e its tensor's exponent. It is the finest at which nothing of the tensor's range is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autosched.networks.calibration import endless
from autosched.networks.floats import CLIPS, SAME_SCALE, WEIGHTED, FloatNet, Op, clip_ends
from autosched.networks.graph import Array, Ints
from autosched.networks.onnx_nodes import File
from autosched.networks.parameters import output_channels
from autosched.networks.ranges import LIMIT
from autosched.networks.scales import nearest_slope, slope_of

FINEST = 60  # scales are 2^-60 to 2^60: that of a bias is the product of two, in float32
SHARED = 2  # bits that a part of a Concat gives up at most for the whole's scale: boxes and scores of a detector keep their own
NEW_SCALE = (*WEIGHTED, "Add", "AveragePool", "GlobalAveragePool", "Concat", "Relu", "Clip", "Mul", "Sub")


@dataclass(eq=False)
class ScalePlan:
    """Exponents of the tensors that are quantized, those of the weights by result, and the ends of tensors that are clipped."""

    exponents: dict[str, int] = field(default_factory=dict)
    powers: dict[str, Ints] = field(default_factory=dict)
    clips: dict[str, tuple[float, float]] = field(default_factory=dict)

    def ends(self, tensor: str) -> tuple[float, float]:
        """The least and the greatest int8 value that a tensor can have."""
        low, high = (x * 2.0 ** self.exponents[tensor] for x in self.clips.get(tensor, (-np.inf, np.inf)))
        return max(-128.0, float(np.rint(low))), min(127.0, float(np.rint(high)))


def _exponent(most: float) -> int:
    """The finest power-of-two scale at which ``most`` is no more than 127; what float32 has hardly numbers for is clipped."""
    return int(np.clip(np.floor(np.log2(127.0 / most)), -FINEST, FINEST)) if most > 0 else 7


def plan_scales(net: FloatNet, file: File, ranges: Mapping[str, tuple[float, float]], per_channel: bool) -> ScalePlan:
    """Exponents of every tensor that is quantized: inputs, results of layers, and what only moves them.

    Parts of a Concat take the whole's scale where theirs are hardly finer: then they lie in it as they are made, and nothing
    brings them to its scale.

    Args:
        net: the float operators.
        file: their file.
        ranges: (least, greatest) value by tensor.
        per_channel: as for ``quantize``.
    """
    joins = [op for op in net.ops if op.op == "Concat"]
    plan = _planned(net, file, ranges, per_channel, {})
    own, coarsest = plan.exponents, dict[str, int]()
    while True:
        before, kept = dict(coarsest), []
        for op in joins:
            parts = [t for t in (*op.inputs, *op.outputs) if t in plan.exponents]
            least = min((plan.exponents[t] for t in parts), default=0)
            # Against what each has by itself: wholes in a row would hand on bit after bit.
            if op.outputs[0] in plan.exponents and all(own[t] - least <= SHARED for t in parts):
                kept.append(op)
                coarsest.update({_made_at(net, plan, t): least for t in parts if plan.exponents[t] > least})
        if len(kept) < len(joins):
            joins, coarsest = kept, {}  # what the others gave up was for nothing
        elif coarsest == before:
            return plan
        plan = _planned(net, file, ranges, per_channel, coarsest)


def _made_at(net: FloatNet, plan: ScalePlan, tensor: str) -> str:
    """The tensor whose scale another one has, which only moves or clips it."""
    while (maker := net.maker(tensor)) is not None and maker.op != "Concat" and maker.inputs and (
            _moves(net, maker) or _clips(net, maker)) and maker.inputs[0] in plan.exponents:
        tensor = maker.inputs[0]
    return tensor


def _clips(net: FloatNet, op: Op) -> bool:
    """Whether an operator is the clip of the one in front of it."""
    before = net.maker(op.inputs[0]) if op.inputs else None
    return before is not None and fused_clip(net, before) is op


def _planned(
    net: FloatNet, file: File, ranges: Mapping[str, tuple[float, float]], per_channel: bool, coarsest: Mapping[str, int]
) -> ScalePlan:
    """As ``plan_scales``, with scales no finer than some are to be."""
    plan = ScalePlan()
    wanted = _wanted(net)

    def own(tensor: str) -> int:
        ends = ranges.get(tensor, (-1.0, 1.0))
        if not np.isfinite(ends).all():
            raise endless(tensor)
        return min(_exponent(max(map(abs, ends))), coarsest.get(tensor, FINEST))

    for name in file.inputs:
        if file.dtypes[name] == "float32" and net.readers(name):
            plan.exponents[name] = own(name)
    for op in net.ops:
        source = next((t for t in op.inputs if t in plan.exponents), None)
        out = op.outputs[0]
        if op.inputs and op.inputs[0] in plan.exponents and (_moves(net, op) or _clips(net, op)):
            plan.exponents.update({t: plan.exponents[op.inputs[0]] for t in op.outputs if t})
        elif op.op in NEW_SCALE and source is not None and _quantizable(net, op, plan):
            clip = fused_clip(net, op)
            exponent = min(own(out if clip is None else clip.outputs[0]), coarsest.get(out, FINEST))
            if op.op in WEIGHTED:
                # With a slope below zero all channels shift alike.
                apart = per_channel and not (clip is not None and clip.op == "LeakyRelu")
                plan.powers[out], exponent = weight_exponents(net, op, apart, plan.exponents[op.inputs[0]], exponent)
            plan.exponents[out] = exponent
        else:
            # What the machine cannot compute are float tensors of the host; a layer behind one takes its int8 form.
            plan.exponents.update({t: own(t) for t in op.outputs if t in wanted and t in ranges})
        if op.op in CLIPS and out in plan.exponents and (ends := clip_ends(op, net.constants)) is not None:
            plan.clips[out] = ends
    return plan


def _moves(net: FloatNet, op: Op) -> bool:
    """Whether an operator only moves the values of its first input: it makes none that has no place at their scale."""
    if op.op == "Resize":
        return bool(op.attrs.get("mode", "nearest") == "nearest")
    if op.op == "Pad" and op.attrs.get("mode", "constant") == "constant" and len(op.inputs) > 2 and op.inputs[2]:
        fill = net.constants.get(op.inputs[2])
        return fill is not None and not np.any(fill)
    return op.op in SAME_SCALE


def _wanted(net: FloatNet) -> set[str]:
    """Tensors that a weighted operator reads, as they are or moved."""
    found: set[str] = set()
    for op in reversed(net.ops):
        if op.op in SAME_SCALE:
            takes = not found.isdisjoint(op.outputs)
        else:
            takes = op.op in ("AveragePool", "GlobalAveragePool") or _weighs(net, op)
        if takes:
            found.add(op.inputs[0])
    return found


def _quantizable(net: FloatNet, op: Op, plan: ScalePlan) -> bool:
    if op.op in WEIGHTED:
        return op.inputs[0] in plan.exponents and _weighs(net, op)
    if op.op in ("Add", "Concat"):
        return all(t in plan.exponents for t in op.inputs)
    if op.op == "Mul":
        return sum(t in plan.exponents for t in op.inputs) == 1 and any(t in net.constants for t in op.inputs)
    return op.inputs[0] in plan.exponents


def _weighs(net: FloatNet, op: Op) -> bool:
    """Whether an operator is a weighted sum as the machine forms it: of constants, and of bias and products as they are."""
    plain = op.attrs.get("alpha", 1.0) == op.attrs.get("beta", 1.0) == 1.0
    return op.op in WEIGHTED and plain and op.inputs[1] in net.constants and bias_of(net, op) is not None


def fused_clip(net: FloatNet, op: Op) -> Op | None:
    """The Relu, Clip or LeakyRelu that alone reads an operator's result: it becomes part of its layer."""
    if op.op not in (*WEIGHTED, "Add", "AveragePool", "GlobalAveragePool", "Mul") or op.outputs[0] in net.outputs:
        return None
    readers = net.readers(op.outputs[0])
    joins = (*CLIPS, "LeakyRelu") if op.op in WEIGHTED else CLIPS
    alone = len(readers) == 1 and readers[0].op in joins and readers[0].inputs[0] == op.outputs[0]
    if alone and readers[0].op == "LeakyRelu" and slope_of(nearest_slope(float(readers[0].attrs.get("alpha", 0.01)))) is None:
        return None  # a slope that the machine has not is the host's alone, and the layer in front of it is not
    return readers[0] if alone else None


def leaks(net: FloatNet, op: Op) -> bool:
    """Whether an operator is a LeakyRelu that is part of the layer in front of it."""
    return op.op == "LeakyRelu" and _clips(net, op)


def bias_of(net: FloatNet, op: Op) -> Array | None:
    """A weighted operator's bias, flat, one number per output or one for all; None where it is computed or of another form."""
    if len(op.inputs) < 3 or not op.inputs[2]:
        return np.zeros(1)
    value = net.constants.get(op.inputs[2])
    if value is None or value.shape[-1:] not in ((), (value.size,)):
        return None
    flat: Array = value.reshape(-1).astype(np.float64)
    return flat


def weight_exponents(net: FloatNet, op: Op, per_channel: bool, source: int, result: int) -> tuple[Ints, int]:
    """Exponents of an operator's weight, int64[1] or one per output channel, and that of its result.

    Both are as fine as they may be: sums, bias and rounding stay inside int32, and sums are shifted right by 0 to 31.

    Args:
        net: its network.
        op: an operator with constant weight and bias.
        per_channel: as for ``quantize``.
        source: exponent of its input.
        result: that of its result, as far as its range goes.
    """
    weight, bias = net.constants[op.inputs[1]].astype(np.float64), bias_of(net, op)
    assert bias is not None
    axis = output_channels(op.op, op.attrs, weight.shape)[1]
    most = np.abs(weight).max(axis=tuple(d for d in range(weight.ndim) if d != axis), initial=0)
    if not per_channel or op.op == "ConvTranspose":
        most = most.max(keepdims=True)
    powers: Ints = np.array([_exponent(float(m)) for m in most], dtype=np.int64)
    while True:
        # Each of the two may make the other coarser: a result is no finer than its sums.
        result = min(result, source + int(powers.min()))
        shift = powers + source - result
        saturates = saturating(stored_weight(weight, powers, axis), axis, bias, shift)
        added = np.minimum(np.rint(np.abs(bias) * 2.0 ** (powers + source)), saturates)
        reach = saturates - 128 * 2.0**shift + added + np.where(shift > 0, 2.0 ** (shift - 1), 0)
        over = (reach >= LIMIT) | (shift > 31)
        if not over.any():
            return powers, result
        powers = powers - (over if len(powers) > 1 else over.any(keepdims=True))


def stored_weight(weight: Array, powers: Ints, axis: int) -> Array:
    """A weight as int8."""
    spread = [-1 if d == axis else 1 for d in range(weight.ndim)] if len(powers) > 1 else [1] * weight.ndim
    made: Array = np.clip(np.rint(weight * 2.0 ** powers.reshape(spread)), -127, 127).astype(np.int8)
    return made


def saturating(stored: Array, axis: int, bias: Array, shift: Ints) -> Array:
    """By output, what a bias saturates the result with, whatever the image is; more of it changes nothing.

    Args:
        stored: the weight as int8.
        axis: its dimension of outputs.
        bias: tells how many outputs there are.
        shift: of the sums, to the right.
    """
    sums = np.abs(stored.astype(np.float64)).sum(axis=tuple(d for d in range(stored.ndim) if d != axis))
    if len(bias) not in (1, len(sums)):
        sums = sums.max(keepdims=True)  # of groups, whose weights share a dimension
    found: Array = 128 * (sums + 2.0**shift)
    return found
