"""From a float network (or one with other scales) to one whose scales are powers of two.

Ranges come from onnxruntime's calibrators, or are the least and the most of what it computes. Weights and activations become
symmetric int8, scales are rounded to powers of two so that nothing in the calibrated range is clipped, biases become int32 at the
scale of the sums, and a Relu or Clip becomes the clip of the layer in front of it. The result is written as QDQ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autosched.arguments import writable_beside
from autosched.errors import ProgramError, UnknownNameError
from autosched.networks.calibration import METHODS, calibrate, endless, reached, watched
from autosched.networks.extents import CHANCE
from autosched.networks.floats import WEIGHTED, FloatNet, Op, folded
from autosched.networks.graph import Array
from autosched.networks.images import checked_labels, classes_of
from autosched.networks.importer import NothingError, graph_of
from autosched.networks.onnx_file import check, read
from autosched.networks.onnx_nodes import File, Node
from autosched.networks.qdq_writer import QdqWriter, Written, kind_of, opsets_of, value_info, write_model
from autosched.networks.ranks import ranked
from autosched.networks.reference import refusals, session
from autosched.networks.scale_plan import ScalePlan, plan_scales
from autosched.networks.unquantized import float_net, nothing_for_it
from sim.files import write_bytes

if TYPE_CHECKING:
    from onnx import ModelProto


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
        net = net.settled(reached(write_model(net, file, None).model, batches, _floats(net, file)))
    _finite(net.ops, net.constants)
    model = write_model(net, file, None).model
    ranges = calibrate(model, batches, method, _floats(net, file))
    plan = plan_scales(net, file, ranges, per_channel)
    if plan.exponents.keys() <= {*file.inputs}:
        raise nothing_for_it(file, str(path), WEIGHTED)
    made = write_model(net, file, plan)
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
    return check(write_model(net, file, plan).model, file.name, file.name, {})


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
    w = QdqWriter(net, None)
    for op in net.ops:
        if op in fixed:
            w.operator(op)
    outputs = [value_info(t, kind_of(net, file, t), net.shapes[t]) for t in read]
    graph = helper.make_graph(w.nodes, "constants", [], outputs, initializer=list(w.constants.values()))
    with refusals():
        made = session(helper.make_model(graph, opset_imports=opsets_of(file, fixed), ir_version=8)).run(list(read), {})
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
    return [t for t in (*file.inputs, *made) if kind_of(net, file, t) == "float32"]


def fidelity(
    before: ModelProto, after: Written, plan: ScalePlan, batches: Sequence[Mapping[str, Array]], labels: Array | None,
    most: int = 64,
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
