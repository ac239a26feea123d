"""From a float network (or one with other scales) to one whose scales are powers of two.

Ranges come from onnxruntime's calibrators, or are the least and the most of what it computes. Weights and activations become
symmetric int8, scales are rounded to powers of two so that nothing in the calibrated range is clipped, biases become int32 at the
scale of the sums, and a Relu or Clip becomes the clip of the layer in front of it. The result is written as QDQ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.arguments import writable_beside
from autosched.errors import ProgramError, UnknownNameError
from autosched.networks.calibration import METHODS, calibrate, endless, reached, watched
from autosched.networks.extents import CHANCE
from autosched.networks.floats import (
    CLIPS,
    SAME_SCALE,
    WEIGHTED,
    FloatNet,
    Names,
    Op,
    clip_ends,
    float_net,
    folded,
    nothing_for_it,
)
from autosched.networks.graph import Array, Ints
from autosched.networks.images import checked_labels, classes_of
from autosched.networks.importer import NothingError, graph_of
from autosched.networks.onnx_file import OPSET, File, Node, check, read
from autosched.networks.parameters import output_channels
from autosched.networks.ranges import LIMIT
from autosched.networks.ranks import ranked
from autosched.networks.reference import refusals, session
from sim.files import write_bytes

if TYPE_CHECKING:
    from onnx import ModelProto

FINEST = 60  # scales are 2^-60 to 2^60: that of a bias is the product of two, in float32
NEW_SCALE = (*WEIGHTED, "Add", "AveragePool", "GlobalAveragePool", "Concat", "Relu", "Clip", "Mul", "Sub")


@dataclass(frozen=True)
class Fidelity:
    """How far one tensor moved.

    Args:
        tensor: its name in the float network.
        snr: signal to noise of the quantized tensor, in dB.
        inside: fraction of its int8 values strictly inside the clip.
        inside_float: that of its float values, which no scale can change: what a Relu makes 0 is 0 in int8, too.
    """

    tensor: str
    snr: float
    inside: float
    inside_float: float


@dataclass(frozen=True)
class Report:
    """What quantization changed.

    Args:
        layers: per quantized tensor, in order.
        images: images that were compared.
        float_accuracy: fraction of right labels before, or None without labels.
        accuracy: after.
        left_out: images at the end of the calibration set that do not fill the network's batch.
    """

    layers: tuple[Fidelity, ...]
    images: int
    float_accuracy: float | None = None
    accuracy: float | None = None
    left_out: int = 0


@dataclass(eq=False)
class _Plan:
    """Exponents of the tensors that are quantized, those of the weights by result, and the ends of tensors that are clipped."""

    exponents: dict[str, int] = field(default_factory=dict)
    powers: dict[str, Ints] = field(default_factory=dict)
    clips: dict[str, tuple[float, float]] = field(default_factory=dict)

    def ends(self, tensor: str) -> tuple[float, float]:
        """The least and the greatest int8 value that a tensor can have."""
        low, high = (x * 2.0 ** self.exponents[tensor] for x in self.clips.get(tensor, (-np.inf, np.inf)))
        return max(-128.0, float(np.rint(low))), min(127.0, float(np.rint(high)))


@dataclass(frozen=True, eq=False)
class Written:
    """A network as a model.

    Args:
        model: plain float, or QDQ.
        quantized: the int8 form of each tensor that has one.
    """

    model: ModelProto
    quantized: Mapping[str, str]


def quantize(
    path: str | Path, data: Mapping[str, Array], output: str | Path, method: str = "minmax", per_channel: bool = False,
    labels: Array | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Report:
    """Writes a network with power-of-two scales, and says what that changed.

    Args:
        path: an ONNX file, float or quantized in any other way.
        data: calibration images by input; the first extent counts images.
        output: file to write; it appears whole or not at all.
        method: the calibrator: ``minmax``, ``percentile`` or ``entropy``.
        per_channel: one scale per output channel of a weight; costs one more cycle a vector than one per tensor.
        labels: right classes of the images, int, to compare accuracies.
        shapes: extents of inputs that the file leaves open, by input.

    Raises:
        ProgramError: the file is damaged or has no data, the calibration set is empty or does not fit, or nothing can be written
            to ``output``, or it is the file that is read.
        UnknownNameError: an unknown method.
    """
    if method not in METHODS:
        raise UnknownNameError("calibration method", method, METHODS)
    writable_beside(output, path, "the network that is quantized")
    file = read(path, shapes, convert=True)
    if file.blank:
        name = next(iter(file.blank))
        raise ProgramError(f"{path}: {name!r} {file.lack(name)}; only weights with data can be quantized")
    batches, left_out = _batches(file, data)
    if labels is not None:
        count = sum(len(next(iter(b.values()))) for b in batches)
        labels = checked_labels(labels, count + left_out)[:count]
    _finite(file.nodes, file.constants)
    net = ranked(_computed(float_net(file), file), file.dtypes)
    if net.saturations:
        net = net.settled(reached(write(net, file, None).model, batches, _floats(net, file)))
    _finite(net.ops, net.constants)
    model = write(net, file, None).model
    ranges = calibrate(model, batches, method, _floats(net, file))
    plan = plan_scales(net, file, ranges, per_channel)
    if plan.exponents.keys() <= {*file.inputs}:
        raise nothing_for_it(file, str(path), WEIGHTED)
    made = write(net, file, plan)
    try:
        graph_of(check(made.model, Path(output).stem, str(output), {}))
    except NothingError as error:
        raise ProgramError(f"{path}: even quantized, it has no layer for the machine: {error}") from error
    report = replace(fidelity(model, made, plan, batches, labels), left_out=left_out)
    write_bytes(output, made.model.SerializeToString())
    return report


def blank_network(file: File) -> File:
    """A file without data as a quantized one of the same shapes: weights of zeros, all scales 1.

    Args:
        file: a checked float file, some of whose constants have no data.
    """
    return _unmeasured(file, 0)


def quantized_anew(file: File) -> File:
    """A file as if it had been quantized, to see which layers it would have: no data say anything of its ranges.

    Args:
        file: a checked file, float or with some quantizers.

    Raises:
        ProgramError: nothing like it can be written.
    """
    return _unmeasured(file, None)


def _unmeasured(file: File, exponent: int | None) -> File:
    net = ranked(float_net(file), file.dtypes)
    net = net.settled({}) if net.saturations else net
    plan = plan_scales(net, file, dict.fromkeys(net.shapes, (-127.0, 127.0)), False)
    if exponent is not None:
        plan.exponents = dict.fromkeys(plan.exponents, exponent)
    return check(write(net, file, plan).model, file.name, file.name, {})


def _computed(net: FloatNet, file: File) -> FloatNet:
    """The network with what operators make of constants alone as constants: many exporters leave such work to whoever reads."""
    from onnx import helper

    known, fixed = set(net.constants), set[Op]()
    for op in net.ops:
        given = [t for t in op.inputs if t]
        if given and known.issuperset(given) and op.op not in CHANCE and not {*op.outputs} & {*net.outputs}:
            fixed.add(op)
            known.update(op.outputs)
    left = [op for op in net.ops if op not in fixed]
    read = dict.fromkeys(t for op in left for t in op.inputs if t in known and t not in net.constants)
    if not read:
        return net
    w = _QdqWriter(net, None)
    for op in net.ops:
        if op in fixed:
            w.operator(op)
    outputs = [_info(t, _kind(net, file, t), net.shapes[t]) for t in read]
    graph = helper.make_graph(w.nodes, "constants", [], outputs, initializer=list(w.constants.values()))
    with refusals():
        made = session(helper.make_model(graph, opset_imports=_opsets(file, fixed), ir_version=8)).run(list(read), {})
    return folded(replace(net, ops=left, constants={**net.constants, **dict(zip(read, made))}))


def _finite(nodes: Iterable[Node | Op], constants: Mapping[str, Array]) -> None:
    """Refuses weights, biases and norms that hold what is no number; a Clip or a mask may well be infinite."""
    for node in nodes:
        if node.op not in (*WEIGHTED, "BatchNormalization", "QuantizeLinear", "DequantizeLinear"):
            continue
        for name in node.inputs:
            value = constants.get(name)
            if value is not None and value.dtype.kind == "f" and not np.isfinite(value).all():
                where = f"node {node.name!r} ({node.op})"
                raise ProgramError(f"{where}: {name!r} holds values that are not finite; export the model again")


def _batches(file: File, data: Mapping[str, Array]) -> tuple[list[dict[str, Array]], int]:
    """The calibration set in pieces of the network's own batch, and how many images of its end fill none."""
    inputs = list(file.inputs)
    missing = [n for n in inputs if n not in data]
    if len(inputs) == 1 and len(data) == 1:
        data = {inputs[0]: next(iter(data.values()))}
    elif missing:
        raise ProgramError(f"the calibration data holds {', '.join(data) or 'nothing'}; the network takes {', '.join(inputs)}")
    counts = set()
    for name in inputs:
        array, shape = data[name], file.shapes[name]
        if array.dtype != np.dtype(file.dtypes[name]):
            raise ProgramError(f"calibration data {name!r}: expected {file.dtypes[name]}, got {array.dtype}")
        if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
            raise ProgramError(f"calibration data {name!r}: expected images of shape {shape[1:]}, got {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ProgramError(f"calibration data {name!r} holds values that are not finite")
        counts.add(len(array) // shape[0])
    if len(counts) > 1:
        raise ProgramError("calibration inputs differ in length")
    count = max(counts, default=0)
    left = {n: len(data[n]) - count * file.shapes[n][0] for n in inputs}
    if not count:
        few = next((n for n in inputs if left[n]), None)
        if few is None:
            raise ProgramError("the calibration data holds no image")
        raise ProgramError(f"calibration data {few!r}: {left[few]} images, and the network takes {file.shapes[few][0]} at once")
    pieces = [{n: data[n][k * file.shapes[n][0] : (k + 1) * file.shapes[n][0]] for n in inputs} for k in range(count)]
    return pieces, max(left.values())


def _floats(net: FloatNet, file: File) -> list[str]:
    """The float32 tensors of a network, in order."""
    made = [t for op in net.ops for t in op.outputs if t]
    return [t for t in (*file.inputs, *made) if _kind(net, file, t) == "float32"]


def _exponent(most: float) -> int:
    """The finest power-of-two scale at which ``most`` is no more than 127; what float32 has hardly numbers for is clipped."""
    return int(np.clip(np.floor(np.log2(127.0 / most)), -FINEST, FINEST)) if most > 0 else 7


def plan_scales(net: FloatNet, file: File, ranges: Mapping[str, tuple[float, float]], per_channel: bool) -> _Plan:
    """Exponents of every tensor that is quantized: inputs, results of layers, and what only moves them.

    Args:
        net: the float operators.
        file: their file.
        ranges: (least, greatest) value by tensor.
        per_channel: as for ``quantize``.
    """
    plan = _Plan()
    wanted = _wanted(net)

    def own(tensor: str) -> int:
        ends = ranges.get(tensor, (-1.0, 1.0))
        if not np.isfinite(ends).all():
            raise endless(tensor)
        return _exponent(max(map(abs, ends)))

    for name in file.inputs:
        if file.dtypes[name] == "float32" and net.readers(name):
            plan.exponents[name] = own(name)
    for op in net.ops:
        source = next((t for t in op.inputs if t in plan.exponents), None)
        out = op.outputs[0]
        maker = net.maker(op.inputs[0]) if op.inputs else None
        clips = maker is not None and _fused(net, maker) is op
        if op.inputs and op.inputs[0] in plan.exponents and (_moves(net, op) or clips):
            plan.exponents[out] = plan.exponents[op.inputs[0]]
        elif op.op in NEW_SCALE and source is not None and _quantizable(net, op, plan):
            clip = _fused(net, op)
            exponent = own(out if clip is None else clip.outputs[0])
            if op.op in WEIGHTED:
                plan.powers[out], exponent = weight_exponents(net, op, per_channel, plan.exponents[op.inputs[0]], exponent)
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
            takes = op.outputs[0] in found
        else:
            takes = op.op in ("AveragePool", "GlobalAveragePool") or _weighs(net, op)
        if takes:
            found.add(op.inputs[0])
    return found


def _quantizable(net: FloatNet, op: Op, plan: _Plan) -> bool:
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
    return op.op in WEIGHTED and plain and op.inputs[1] in net.constants and _bias(net, op) is not None


def _fused(net: FloatNet, op: Op) -> Op | None:
    """The Relu or Clip that alone reads an operator's result: it becomes the operator's clip."""
    if op.op not in (*WEIGHTED, "Add", "AveragePool", "GlobalAveragePool", "Mul") or op.outputs[0] in net.outputs:
        return None
    readers = net.readers(op.outputs[0])
    alone = len(readers) == 1 and readers[0].op in CLIPS and readers[0].inputs[0] == op.outputs[0]
    return readers[0] if alone else None


def _bias(net: FloatNet, op: Op) -> Array | None:
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
    weight, bias = net.constants[op.inputs[1]].astype(np.float64), _bias(net, op)
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
        saturates = _saturates(_stored(weight, powers, axis), axis, bias, shift)
        added = np.minimum(np.rint(np.abs(bias) * 2.0 ** (powers + source)), saturates)
        reach = saturates - 128 * 2.0**shift + added + np.where(shift > 0, 2.0 ** (shift - 1), 0)
        over = (reach >= LIMIT) | (shift > 31)
        if not over.any():
            return powers, result
        powers = powers - (over if len(powers) > 1 else over.any(keepdims=True))


def _stored(weight: Array, powers: Ints, axis: int) -> Array:
    """A weight as int8."""
    spread = [-1 if d == axis else 1 for d in range(weight.ndim)] if len(powers) > 1 else [1] * weight.ndim
    made: Array = np.clip(np.rint(weight * 2.0 ** powers.reshape(spread)), -127, 127).astype(np.int8)
    return made


def _saturates(stored: Array, axis: int, bias: Array, shift: Ints) -> Array:
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


class _QdqWriter:
    """Writes float operators, with a Q and DQ pair behind every quantized tensor."""

    def __init__(self, net: FloatNet, plan: _Plan | None) -> None:
        self.net, self.plan = net, plan
        self.names = Names(net.names.taken)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.shared: dict[str, str] = {}
        self.quantized: dict[str, str] = {}
        self.read: dict[str, str] = {}

    def constant(self, name: str, value: Array | np.generic) -> str:
        """A constant of its own name."""
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value), name)
        return name

    def common(self, key: str, value: Array | np.generic) -> str:
        """The constant that has a key, made once."""
        if key not in self.shared:
            self.shared[key] = self.constant(self.names.free(key), value)
        return self.shared[key]

    def scale(self, exponents: Ints) -> str:
        """A power of two, or one per channel."""
        value = np.float32(2.0) ** -exponents.astype(np.float32)
        if len(value) == 1:
            return self.common(f"scale:{exponents[0]}", value[0])
        return self.common(f"scales:{len(self.constants)}", value)

    def linear(self, kind: str, tensor: str, scale: str, zero: str, out: str, axis: int | None = None) -> None:
        """A QuantizeLinear or DequantizeLinear."""
        from onnx import helper

        attrs: dict[str, Any] = {} if axis is None else {"axis": axis}
        name = self.names.free(f"{out.rpartition(':')[0]}:{kind.removesuffix('Linear').lower()}")
        self.nodes.append(helper.make_node(kind, [tensor, scale, zero], [out], name=name, **attrs))

    def operator(self, op: Op) -> None:
        """A float operator, its attributes as the file has them."""
        from onnx import helper

        made = helper.make_node(op.op, self.operands(op), list(op.outputs), name=op.name, domain=op.domain or None)
        given = {a.name: a for a in op.given if a.name in op.attrs}
        made.attribute.extend(given[k] for k in sorted(given))
        self.nodes.append(made)

    def dequantized(self, name: str, stored: Array, exponents: Ints, axis: int) -> str:
        """A constant as its int8 or int32 form behind a DequantizeLinear."""
        quantized, out = self.names.free(f"{name}:q"), self.names.free(f"{name}:dq")
        self.constant(quantized, stored)
        zero = np.zeros(len(exponents), stored.dtype)
        zero_name = self.common(f"zero:{stored.dtype}:{len(zero)}", zero if len(zero) > 1 else zero[0])
        self.linear("DequantizeLinear", quantized, self.scale(exponents), zero_name, out, axis if len(exponents) > 1 else None)
        return out

    def pair(self, tensor: str, exponent: int) -> None:
        """Q and DQ behind a tensor."""
        zero, scale = self.common("zero:int8:1", np.int8(0)), self.scale(np.array([exponent]))
        self.quantized[tensor], self.read[tensor] = self.names.free(f"{tensor}:q"), self.names.free(f"{tensor}:dq")
        self.linear("QuantizeLinear", tensor, scale, zero, self.quantized[tensor])
        self.linear("DequantizeLinear", self.quantized[tensor], scale, zero, self.read[tensor])

    def operands(self, op: Op) -> list[str]:
        """The inputs of an operator as they are read: quantized where they are."""
        plan, net = self.plan, self.net
        read = [self.read.get(t, t) for t in op.inputs]
        for t in op.inputs:
            if t in net.constants:
                self.constant(t, net.constants[t])
        powers = None if plan is None else plan.powers.get(op.outputs[0])
        if plan is None or powers is None:
            return read
        weight = net.constants[op.inputs[1]].astype(np.float64)
        axis = output_channels(op.op, op.attrs, weight.shape)[1]
        stored = _stored(weight, powers, axis)
        read[1] = self.dequantized(f"{op.name}:w", stored, powers, axis)
        if len(op.inputs) > 2 and op.inputs[2]:
            value, bias, at = net.constants[op.inputs[2]], _bias(net, op), powers + plan.exponents[op.inputs[0]]
            assert bias is not None
            limit = _saturates(stored, axis, bias, at - plan.exponents[op.outputs[0]])
            whole = np.clip(np.rint(bias * 2.0**at), -limit, limit).astype(np.int32)
            whole = whole.reshape(value.shape) if whole.size == value.size else whole
            read[2] = self.dequantized(f"{op.name}:b", whole, at, whole.ndim - 1)
        return read


def _paired(net: FloatNet, tensor: str) -> bool:
    """Whether a quantized tensor has a Q and DQ of its own: not between an operator and its clip, nor behind a plain view."""
    maker = net.maker(tensor)
    return maker is None or (_fused(net, maker) is None and maker.op not in ("Flatten", "Reshape", "Identity", "Dropout",
                                                                             "Squeeze", "Unsqueeze"))


def write(net: FloatNet, file: File, plan: _Plan | None) -> Written:
    """The operators as a model: plain float without a plan, QDQ with one.

    Args:
        net: the operators.
        file: gives inputs, outputs and shapes.
        plan: exponents, or None.
    """
    from onnx import helper

    w = _QdqWriter(net, plan)
    exponents = {} if plan is None else plan.exponents
    for name in file.inputs:
        if name in exponents:
            w.pair(name, exponents[name])
    for op in net.ops:
        w.operator(op)
        for out in op.outputs:
            if out in exponents and _paired(net, out) and (net.readers(out) or out in file.outputs):
                w.pair(out, exponents[out])
    # The float output is the dequantized one, under the name that it had.
    given = [t for t in dict.fromkeys(file.outputs) if t in w.read and t not in file.inputs]
    turned = {w.read[t]: t for t in given} | {t: w.names.free(f"{t}:float") for t in given}
    for node in w.nodes:
        node.input[:] = [turned.get(t, t) for t in node.input]
        node.output[:] = [turned.get(t, t) for t in node.output]
    inputs = [_info(n, file.dtypes[n], file.shapes[n]) for n in file.inputs]
    results = [_info(n, net.floats.get(n, file.dtypes[n]), file.shapes[n]) for n in file.outputs]
    # Nobody infers what operators of other sets make, and what the file states may be known to nobody else.
    stated = {v.name for v in file.model.graph.value_info}
    said = [t for op in net.ops for t in op.outputs if t in file.shapes and (op.domain or t in stated)]
    known = [_info(turned.get(t, t), net.floats.get(t, file.dtypes[t]), file.shapes[t]) for t in said]
    used = {t for n in w.nodes for t in n.input}
    graph = helper.make_graph(
        w.nodes, file.name, inputs, results, initializer=[c for n, c in w.constants.items() if n in used], value_info=known,
    )
    return Written(helper.make_model(graph, opset_imports=_opsets(file, net.ops), ir_version=8), w.quantized)


def _opsets(file: File, ops: Iterable[Op]) -> list[Any]:
    """The operator sets of operators as they are written."""
    from onnx import helper

    versions = {o.domain: o.version for o in file.model.opset_import}
    sets = [helper.make_opsetid(d, versions.get(d, 1)) for d in sorted({op.domain for op in ops if op.domain})]
    return [helper.make_opsetid("", max(OPSET, file.opset)), *sets]


def _kind(net: FloatNet, file: File, tensor: str) -> str:
    """The type of a tensor."""
    return net.floats.get(tensor, file.dtypes.get(tensor, "float32"))


def _info(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def fidelity(
    before: ModelProto, after: Written, plan: _Plan, batches: Sequence[Mapping[str, Array]], labels: Array | None, most: int = 64,
) -> Report:
    """Both networks on the calibration images: noise per tensor, values inside the clip, accuracies.

    Args:
        before: the float network.
        after: the QDQ network.
        plan: what is quantized.
        batches: images by input.
        labels: classes, or None.
        most: images that tensors are compared on; labels are compared on all.
    """
    outputs = [o.name for o in before.graph.output]
    names = [t for t in plan.exponents if t in after.quantized]
    quantized = [after.quantized[t] for t in names]
    sides = watched(before, names, "float32"), watched(after.model, quantized, "int8")
    signal, noise = np.zeros(len(names)), np.zeros(len(names))
    inside, inside_float, total = np.zeros((3, len(names)))
    right = [0, 0]
    images = 0
    given = {i.name for i in before.graph.input}
    for k, batch in enumerate(batches):
        full, size = k < most, len(next(iter(batch.values())))
        if not full and labels is None:
            break
        with refusals():
            a = sides[0].run([*outputs, *((t for t in names if t not in given) if full else ())], dict(batch))
            b = sides[1].run([*outputs, *(quantized if full else ())], dict(batch))
        if labels is not None:
            want = labels[images : images + size]
            for side, result in enumerate((a[0], b[0])):
                right[side] += int((classes_of(result, size) == want).sum())
        images += size
        if full:
            floats = iter(a[len(outputs):])
            for j, t in enumerate(names):
                x = np.asarray(batch[t] if t in given else next(floats), dtype=np.float64)
                q = b[len(outputs) + j]
                low, high = plan.ends(t)
                signal[j] += (x**2).sum()
                noise[j] += ((x - q * 2.0 ** -plan.exponents[t]) ** 2).sum()
                inside[j] += ((q > low) & (q < high)).sum()
                low, high = plan.clips.get(t, (-np.inf, np.inf))
                inside_float[j] += ((x > low) & (x < high)).sum()
                total[j] += q.size
    for t, s, n in zip(names, signal, noise):
        if not np.isfinite([s, n]).all():
            raise endless(t)
    layers = tuple(
        Fidelity(t, float(10 * np.log10(s / n)) if n > 0 and s > 0 else float("inf"), float(i / max(c, 1)), float(f / max(c, 1)))
        for t, s, n, i, f, c in zip(names, signal, noise, inside, inside_float, total)
    )
    if labels is None:
        return Report(layers, images)
    return Report(layers, images, right[0] / images, right[1] / images)
