"""From a float network (or one with other scales) to one whose scales are powers of two.

Ranges come from onnxruntime's calibrators. Weights and activations become symmetric int8, scales are rounded to powers of two so
that nothing in the calibrated range is clipped, biases become int32 at the scale of the sums, and a Relu or Clip becomes the
clip of the layer in front of it. The result is written as QDQ.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError, UnknownNameError
from autosched.networks.floats import CLIPS, FloatNet, Op, clip_ends, float_net
from autosched.networks.graph import Array
from autosched.networks.images import checked_labels
from autosched.networks.onnx_file import OPSET, File, check, read
from autosched.networks.parameters import output_channels
from autosched.networks.reference import refusals, session

if TYPE_CHECKING:
    from onnx import ModelProto

METHODS = ("minmax", "percentile", "entropy")
WEIGHTED = ("Conv", "Gemm", "MatMul", "ConvTranspose")
SAME_SCALE = ("MaxPool", "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "DepthToSpace",
              "SpaceToDepth", "Slice", "Pad", "Resize")
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
    """

    layers: tuple[Fidelity, ...]
    images: int
    float_accuracy: float | None = None
    accuracy: float | None = None


@dataclass(eq=False)
class _Plan:
    """Exponents of the tensors that are quantized, and the ends of those that are clipped."""

    exponents: dict[str, int] = field(default_factory=dict)
    clips: dict[str, tuple[float, float]] = field(default_factory=dict)

    def ends(self, tensor: str) -> tuple[float, float]:
        """The least and the greatest int8 value that a tensor can have."""
        low, high = (x * 2.0 ** self.exponents[tensor] for x in self.clips.get(tensor, (-np.inf, np.inf)))
        return max(-128.0, float(np.rint(low))), min(127.0, float(np.rint(high)))


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
        ProgramError: the file is damaged or has no data, or the calibration set is empty or does not fit.
        UnknownNameError: an unknown method.
    """
    if method not in METHODS:
        raise UnknownNameError("calibration method", method, METHODS)
    file = read(path, shapes, convert=True)
    if file.blank:
        raise ProgramError(f"{path}: {next(iter(file.blank))!r} has a shape and no data; only weights with data can be quantized")
    batches = list(_batches(file, data))
    if labels is not None:
        labels = checked_labels(labels, sum(len(next(iter(b.values()))) for b in batches))
    net = float_net(file)
    if net.saturations:
        net = net.settled(calibrate(write(net, file, None, False), batches, "minmax"), file.outputs)
    model = write(net, file, None, False)
    ranges = calibrate(model, batches, method)
    plan = plan_scales(net, file, ranges, per_channel)
    made = write(net, file, plan, per_channel)
    check(made, Path(output).stem, str(output), {})
    report = fidelity(model, made, net, plan, batches, labels)
    _write(Path(output), made.SerializeToString())
    return report


def blank_network(file: File) -> File:
    """A file without data as a quantized one of the same shapes: weights of zeros, all scales 1.

    Args:
        file: a checked float file, some of whose constants have no data.
    """
    net = float_net(file)
    ranges = dict.fromkeys(file.shapes, (-127.0, 127.0))
    plan = plan_scales(net, file, ranges, False)
    plan.exponents = dict.fromkeys(plan.exponents, 0)
    return check(write(net, file, plan, False, blank=True), file.name, file.name, {})


def _batches(file: File, data: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """The calibration set in pieces of the network's own batch."""
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
    if counts == {0} or not counts or len(counts) > 1:
        raise ProgramError("the calibration data holds no image" if counts <= {0} else "calibration inputs differ in length")
    for k in range(counts.pop()):
        yield {n: data[n][k * file.shapes[n][0] : (k + 1) * file.shapes[n][0]] for n in inputs}


def calibrate(model: ModelProto, batches: Sequence[Mapping[str, Array]], method: str) -> dict[str, tuple[float, float]]:
    """Ranges of all float tensors, by onnxruntime's calibrators.

    Args:
        model: a float network.
        batches: images by input.
        method: one of ``METHODS``.
    """
    from onnxruntime.quantization import CalibrationMethod
    from onnxruntime.quantization.calibrate import CalibrationDataReader, create_calibrator

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(batches)

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self.left, None)

    kind = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile, "entropy": CalibrationMethod.Entropy}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "float.onnx"
        source.write_bytes(model.SerializeToString())
        # Histograms are announced on standard output, which is the command's own.
        with refusals(), redirect_stdout(StringIO()):
            calibrator = create_calibrator(
                source, None, augmented_model_path=str(Path(folder) / "more.onnx"), calibrate_method=kind[method],
            )
            calibrator.collect_data(Reader())
            found = calibrator.compute_data().data
    return {n: (float(np.min(r.range_value[0])), float(np.max(r.range_value[1]))) for n, r in found.items()}


def _exponent(most: float) -> int:
    """The finest power-of-two scale at which ``most`` is no more than 127."""
    return int(np.clip(np.floor(np.log2(127.0 / most)), -16, 24)) if most > 0 else 7


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
    for name in file.inputs:
        if file.dtypes[name] == "float32":
            plan.exponents[name] = _exponent(max(map(abs, ranges.get(name, (-1.0, 1.0)))))
    for op in net.ops:
        source = next((t for t in op.inputs if t in plan.exponents), None)
        out = op.outputs[0]
        moves = op.op in SAME_SCALE and not (op.op == "Resize" and op.attrs.get("mode", "nearest") != "nearest")
        if moves and op.inputs[0] in plan.exponents:
            plan.exponents[out] = plan.exponents[op.inputs[0]]
        elif op.op in NEW_SCALE and source is not None and _quantizable(net, op, plan):
            most = max(map(abs, ranges.get(_after_clips(net, op), (-1.0, 1.0))))
            exponent = _exponent(most)
            if op.op in WEIGHTED:
                exponent = min(exponent, plan.exponents[source] + int(weight_exponents(net, op, per_channel).min()))
            plan.exponents[out] = exponent
            if (ends := clip_ends(op, net.constants)) is not None:
                plan.clips[out] = ends
        elif out in wanted and out in ranges:
            # What the machine cannot compute is a float tensor of the host; a layer behind it takes its int8 form.
            plan.exponents[out] = _exponent(max(map(abs, ranges[out])))
    return plan


def _wanted(net: FloatNet) -> set[str]:
    """Tensors that a weighted operator reads, as they are or moved."""
    found: set[str] = set()
    for op in reversed(net.ops):
        if op.op in SAME_SCALE:
            takes = op.outputs[0] in found
        else:
            takes = op.op in ("AveragePool", "GlobalAveragePool") or (op.op in WEIGHTED and op.inputs[1] in net.constants)
        if takes:
            found.add(op.inputs[0])
    return found


def _quantizable(net: FloatNet, op: Op, plan: _Plan) -> bool:
    if op.op in WEIGHTED:
        return op.inputs[0] in plan.exponents and op.inputs[1] in net.constants
    if op.op in ("Add", "Concat"):
        return all(t in plan.exponents for t in op.inputs)
    if op.op == "Mul":
        return sum(t in plan.exponents for t in op.inputs) == 1 and any(t in net.constants for t in op.inputs)
    return op.inputs[0] in plan.exponents


def _fused(net: FloatNet, op: Op) -> Op | None:
    """The Relu or Clip that alone reads an operator's result: it becomes the operator's clip."""
    if op.op not in (*WEIGHTED, "Add", "AveragePool", "GlobalAveragePool", "Mul"):
        return None
    readers = net.readers(op.outputs[0])
    return readers[0] if len(readers) == 1 and readers[0].op in CLIPS else None


def _after_clips(net: FloatNet, op: Op) -> str:
    while (fused := _fused(net, op)) is not None:
        return fused.outputs[0]
    return op.outputs[0]


def weight_exponents(net: FloatNet, op: Op, per_channel: bool) -> Array:
    """Exponents of an operator's weight, int64[1] or one per output channel."""
    weight = np.abs(net.constants[op.inputs[1]].astype(np.float64))
    axis = output_channels(op.op, op.attrs, weight.shape)[1]
    if not per_channel or op.op == "ConvTranspose":
        return np.array([_exponent(float(weight.max(initial=0)))], dtype=np.int64)
    most = weight.max(axis=tuple(d for d in range(weight.ndim) if d != axis))
    return np.array([_exponent(float(m)) for m in most], dtype=np.int64)


class _QdqWriter:
    """Writes float operators, with a Q and DQ pair behind every quantized tensor."""

    def __init__(self, net: FloatNet, plan: _Plan | None, per_channel: bool, blank: bool) -> None:
        self.net, self.plan, self.per_channel, self.blank = net, plan, per_channel, blank
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Array | np.generic) -> str:
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value), name)
        return name

    def scale(self, exponents: Array) -> str:
        text = "_".join(map(str, exponents)) if len(exponents) == 1 else f"{len(self.constants)}"
        value = np.float32(2.0) ** -exponents.astype(np.float32)
        return self.constant(f"scale:{text}" if len(exponents) == 1 else f"scales:{text}", value[0] if len(value) == 1 else value)

    def node(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], name: str, attrs: Mapping[str, Any] | None = None
    ) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), name=name, **(attrs or {})))

    def dequantized(self, name: str, stored: Array, exponents: Array, axis: int) -> str:
        """A constant as its int8 or int32 form behind a DequantizeLinear."""
        quantized = f"{name}:q"
        if f"{name}:dq" not in {n.output[0] for n in self.nodes}:
            self.constant(quantized, stored)
            attrs = {"axis": axis} if len(exponents) > 1 else None
            zero = np.zeros(len(exponents), stored.dtype)
            zero_name = self.constant(f"zero:{stored.dtype}:{len(zero)}", zero if len(zero) > 1 else zero[0])
            self.node(
                "DequantizeLinear", [quantized, self.scale(exponents), zero_name], [f"{name}:dq"], f"{name}:dequantize", attrs,
            )
        return f"{name}:dq"

    def pair(self, tensor: str, exponent: int) -> None:
        """Q and DQ behind a tensor."""
        zero, scale = self.constant("zero:int8:1", np.int8(0)), self.scale(np.array([exponent]))
        self.node("QuantizeLinear", [tensor, scale, zero], [f"{tensor}:q"], f"{tensor}:quantize")
        self.node("DequantizeLinear", [f"{tensor}:q", scale, zero], [f"{tensor}:dq"], f"{tensor}:dequantize")

    def operands(self, op: Op) -> list[str]:
        """The inputs of an operator as they are read: quantized where they are."""
        plan, net = self.plan, self.net
        read = []
        for t in op.inputs:
            quantized = plan is not None and t in plan.exponents and _paired(net, t)
            read.append(f"{t}:dq" if quantized else t)
            if t in net.constants:
                self.constant(t, net.constants[t])
        if plan is None or op.op not in WEIGHTED or not _quantizable(net, op, plan):
            return read
        powers = weight_exponents(net, op, self.per_channel)
        weight = net.constants[op.inputs[1]].astype(np.float64)
        axis = output_channels(op.op, op.attrs, weight.shape)[1]
        spread = [-1 if d == axis else 1 for d in range(weight.ndim)] if len(powers) > 1 else [1] * weight.ndim
        stored = np.clip(np.rint(weight * 2.0 ** powers.reshape(spread)), -127, 127).astype(np.int8)
        read[1] = self.dequantized(f"{op.name}:w", stored, powers, axis)
        if len(op.inputs) > 2 and op.inputs[2]:
            at = powers + plan.exponents[op.inputs[0]]
            bias = np.rint(net.constants[op.inputs[2]].astype(np.float64) * 2.0 ** at.astype(np.float64))
            stored = np.clip(bias, -(2**31) + 1, 2**31 - 1).astype(np.int32)
            read[2] = self.dequantized(f"{op.name}:b", stored, at, 0)
        return read


def _paired(net: FloatNet, tensor: str) -> bool:
    """Whether a quantized tensor has a Q and DQ of its own: not between an operator and its clip, nor behind a plain view."""
    maker = next((o for o in net.ops if tensor in o.outputs), None)
    return maker is None or (_fused(net, maker) is None and maker.op not in ("Flatten", "Reshape", "Identity", "Dropout",
                                                                             "Squeeze", "Unsqueeze"))


def write(net: FloatNet, file: File, plan: _Plan | None, per_channel: bool, blank: bool = False) -> ModelProto:
    """The operators as a model: plain float without a plan, QDQ with one.

    Args:
        net: the operators.
        file: gives inputs, outputs and shapes.
        plan: exponents, or None.
        per_channel: as for ``quantize``.
        blank: whether the weights are without meaning.
    """
    from onnx import helper

    w = _QdqWriter(net, plan, per_channel, blank)
    if plan is not None:
        for name in file.inputs:
            if name in plan.exponents:
                w.pair(name, plan.exponents[name])
    for op in net.ops:
        operands = w.operands(op)
        outputs = list(op.outputs)
        w.node(op.op, operands, outputs, op.name, op.attrs)
        out = op.outputs[0]
        if plan is not None and out in plan.exponents and _paired(net, out) and (net.readers(out) or out in file.outputs):
            w.pair(out, plan.exponents[out])
    results = []
    for name in file.outputs:
        if plan is not None and name in plan.exponents and _paired(net, name):
            # The float output is the dequantized one, under the name that it had.
            _rename(w.nodes, name)
        results.append(_info(name, "float32", file.shapes[name]))
    inputs = [_info(n, file.dtypes[n], file.shapes[n]) for n in file.inputs]
    used = {t for n in w.nodes for t in n.input}
    graph = helper.make_graph(w.nodes, file.name, inputs, results, initializer=[c for n, c in w.constants.items() if n in used])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", max(OPSET, file.opset))], ir_version=8)


def _info(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def _rename(nodes: Sequence[Any], name: str) -> None:
    for node in nodes:
        for k, t in enumerate(node.output):
            node.output[k] = f"{name}:float" if t == name else name if t == f"{name}:dq" else t
        for k, t in enumerate(node.input):
            node.input[k] = f"{name}:float" if t == name else name if t == f"{name}:dq" else t


def fidelity(
    before: ModelProto, after: ModelProto, net: FloatNet, plan: _Plan, batches: Sequence[Mapping[str, Array]],
    labels: Array | None, most: int = 64,
) -> Report:
    """Both networks on the calibration images: noise per tensor, values inside the clip, accuracies.

    Args:
        before: the float network.
        after: the QDQ network.
        net: the float operators.
        plan: what is quantized.
        batches: images by input.
        labels: classes, or None.
        most: images that tensors are compared on; labels are compared on all.
    """
    import onnx

    outputs = [o.name for o in before.graph.output]
    names = [t for t in plan.exponents if _paired(net, t) and any(n.output[0] == f"{t}:q" for n in after.graph.node)]
    sides = []
    quantized = [f"{t}:q" for t in names]
    for model, wanted, kind in ((before, names, onnx.TensorProto.FLOAT), (after, quantized, onnx.TensorProto.INT8)):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        known = {o.name for o in copy.graph.output} | {i.name for i in copy.graph.input}
        copy.graph.output.extend([onnx.helper.make_tensor_value_info(t, kind, None) for t in wanted if t not in known])
        sides.append(session(copy))
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
            b = sides[1].run([*outputs, *((f"{t}:q" for t in names) if full else ())], dict(batch))
        if labels is not None:
            want = labels[images : images + size]
            for side, result in enumerate((a[0], b[0])):
                right[side] += int((result.reshape(size, -1).argmax(axis=1) == want).sum())
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
    layers = tuple(
        Fidelity(t, float(10 * np.log10(s / n)) if n > 0 and s > 0 else float("inf"), float(i / max(c, 1)), float(f / max(c, 1)))
        for t, s, n, i, f, c in zip(names, signal, noise, inside, inside_float, total)
    )
    if labels is None:
        return Report(layers, images)
    return Report(layers, images, right[0] / images, right[1] / images)


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
