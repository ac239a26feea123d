"""How far the network's integers are from the QDQ file's own rounding, layer by layer, each fed with the file's own tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autosched.networks.graph import SAME_VALUES, Array, Graph, Layer
from autosched.networks.lying import moved
from autosched.networks.onnx_nodes import File
from autosched.networks.reference import build, session

FLOAT32_EXACT = 1 << 24


@dataclass(frozen=True)
class Difference:
    """One layer against the file.

    Args:
        layer: its name.
        size: bytes compared.
        different: bytes that differ.
        ties: of these, where the exact value lies halfway between two results and half to even goes the other way.
        beyond: of the rest, where the sums pass 2^24 and float32 rounds them.
        mean: of the rest, in a mean over a number of elements that is no power of two, by 1.
    """

    layer: str
    size: int
    different: int
    ties: int
    beyond: int
    mean: int

    @property
    def unexplained(self) -> int:
        """Bytes that differ for no known reason."""
        return self.different - self.ties - self.beyond - self.mean


def differences(graph: Graph, file: File, inputs: Mapping[str, Array]) -> tuple[Difference, ...]:
    """Every layer with sums against the file's operators, run by onnxruntime without optimisations.

    Args:
        graph: the file's network, imported with rounding half up.
        file: the file.
        inputs: arrays by input.
    """
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    layers = [x for x in graph.layers if x.requant is not None]
    views = [x for x in graph.layers if x.kind in SAME_VALUES]
    touched = [t for x in (*layers, *views) for t in (*x.inputs, x.output)]
    wanted = dict.fromkeys(t for t in touched if t in file.shapes and t not in file.inputs)
    known = {o.name for o in model.graph.output}
    for name in wanted:
        if name not in known:
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(file.dtypes[name]))
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, file.shapes[name]))
    values: dict[str, Array] = {**inputs, **dict(zip(wanted, session(model).run(list(wanted), dict(inputs))))}
    for view in views:
        if view.output not in values:
            values[view.output] = moved(view, [values[t] for t in view.inputs], graph.tensors[view.output].shape)
        values = {**_parts(view, graph, values[view.output]), **values}
    found = []
    for layer in layers:
        part = build(graph.part((layer,)))
        sums_name = f"{layer.output}:sums"
        part.graph.output.append(
            onnx.helper.make_tensor_value_info(sums_name, onnx.TensorProto.INT32, graph.tensors[layer.output].shape)
        )
        feed = {n: values[n] for n in layer.inputs}
        ours, sums = session(part).run([layer.output, sums_name], feed)
        differ = ours != values[layer.output]
        done = layer.requant
        assert done is not None
        axis = 1 if layer.kind != "dense" else ours.ndim - 1
        shift = np.broadcast_to(done.shift.reshape([-1 if d == axis else 1 for d in range(ours.ndim)]), ours.shape)
        tie = differ & (shift > 0) & ((sums & ((np.int64(1) << shift) - 1)) == 0)
        if (leak := done.leak) is not None:
            below, down = leak.times * sums.astype(np.int64) + leak.offset, shift + leak.shift
            tie = np.where(below >> down > sums >> shift, differ & ((below & ((np.int64(1) << down) - 1)) == 0), tie)
        beyond = differ & ~tie & (np.abs(sums.astype(np.int64)) > FLOAT32_EXACT)
        n = layer.kernel[0] * layer.kernel[1]
        off = np.abs(ours.astype(np.int64) - values[layer.output].astype(np.int64))
        mean = differ & ~tie & ~beyond & (layer.kind == "average" and n & (n - 1) != 0) & (off <= 1)
        found.append(Difference(
            layer.name, ours.size, int(differ.sum()), int(tie.sum()), int(beyond.sum()), int(mean.sum()),
        ))
    return tuple(found)


def _parts(layer: Layer, graph: Graph, whole: Array) -> dict[str, Array]:
    """What a layer moves, as its result has it: the file has no other form of what is brought to the result's scale first."""
    if layer.kind == "resize":
        return {layer.inputs[0]: whole[:, :, :: layer.stride[0], :: layer.stride[1]]}
    if layer.kind != "concat":
        return {}
    ends = np.cumsum([graph.tensors[t].shape[1] for t in layer.inputs])
    return dict(zip(layer.inputs, np.split(whole, ends[:-1], axis=1)))
