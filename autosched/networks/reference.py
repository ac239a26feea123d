"""The network in integer form, built for onnxruntime: the reference that this package did not write.

Every layer becomes ConvInteger (or MatMulInteger, or an int32 sum), Add, Cast to double, Mul by 2^-s, Floor, Max, Min and Cast to
int8. int32 sums are exact in double, and so is their product with a power of two: what Floor gives is the machine's shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import Array, Graph, HostPart, Layer, Tensor, need_data
from autosched.networks.onnx_file import OPSET, require_onnx

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto


@dataclass(eq=False)
class _Writer:
    """Nodes and constants of a model as they are written; ``own`` begins the names of what only the model has."""

    graph: Graph
    own: str
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    count: int = 0
    opset: int = OPSET

    def constant(self, value: Array) -> str:
        """A constant's name."""
        from onnx import numpy_helper

        name = f"{self.own}:c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def emit(self, op: str, inputs: list[str], output: str = "", **attrs: Any) -> str:
        """A node; the name of its result."""
        from onnx import helper

        self.count += 1
        output = output or f"{self.own}:t{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{self.own}:{op}{self.count}", **attrs))
        return output

    def cast(self, name: str, dtype: str, output: str = "") -> str:
        """A tensor in another type."""
        from onnx import helper

        return self.emit("Cast", [name], output, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def build(graph: Graph) -> ModelProto:
    """The integer form of a graph, host parts included; its tensors have the graph's names.

    Args:
        graph: an imported network with all its data.

    Raises:
        ProgramError: data is missing, or onnx is not installed.
    """
    require_onnx()
    import onnx
    from onnx import helper

    need_data(graph.name, graph.blank)
    parts = {s.name: onnx.load_model_from_string(s.model) for s in graph.steps if isinstance(s, HostPart)}
    own = "reference"
    while any(name.startswith(f"{own}:") for part in parts.values() for name in _names(part)) or any(
            name.startswith(f"{own}:") for name in graph.tensors):
        own += "'"  # names that the file has itself
    w = _Writer(graph, own)
    machine: dict[str, str] = {}
    opsets = {"": OPSET}
    for part in parts.values():
        opsets.update({o.domain: o.version for o in part.opset_import})
    w.opset = opsets[""]
    ir = 8
    for step in graph.steps:
        if isinstance(step, HostPart):
            part = parts[step.name]
            w.nodes += part.graph.node
            w.constants.update({i.name: i for i in part.graph.initializer})
            ir = max(ir, part.ir_version)
            continue
        inputs = [_as_machine(w, graph.tensors[t], machine) for t in step.inputs]
        made = _layer(w, step, inputs)
        machine[step.output] = made
        _as_file(w, graph.tensors[step.output], made)

    def info(name: str) -> Any:
        t = graph.tensors[name]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)), t.shape)

    body = helper.make_graph(
        w.nodes, graph.name, [info(t) for t in graph.inputs], [info(t) for t in graph.outputs],
        initializer=list(w.constants.values()),
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()], ir_version=ir)


def _names(model: ModelProto) -> Iterator[str]:
    """All names of a model's nodes, results and constants."""
    for node in model.graph.node:
        yield from (node.name, *node.output)
    yield from (i.name for i in model.graph.initializer)


def session(model: ModelProto | bytes, plain: bool = True) -> Any:
    """An onnxruntime session on the CPU, one thread.

    Args:
        model: the model or its bytes.
        plain: without graph optimisations, which move ties of QDQ graphs.

    Raises:
        ProgramError: onnxruntime is not installed, or refuses the model.
    """
    try:
        import onnxruntime as ort
    except ImportError:
        raise ProgramError("parts of this network run on the host and need onnxruntime: pip install 'autosched[onnx]'") from None
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    with refusals():
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@contextmanager
def refusals() -> Iterator[None]:
    """Makes a ProgramError of what onnxruntime, to which a file is given as it is, says against it."""
    try:
        yield
    except Exception as error:
        # Its errors have no common base.
        if type(error).__module__.partition(".")[0] not in ("onnxruntime", "onnx"):
            raise
        raise ProgramError(f"onnxruntime refuses it: {' '.join(str(error).split())[:300]}") from error


def run(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What onnxruntime makes of the integer form, by output.

    Args:
        graph: as for ``build``.
        inputs: arrays by input, of the file's shapes and types.
    """
    made = session(build(graph))
    with refusals():
        found: list[Array] = made.run(list(graph.outputs), dict(inputs))
    return dict(zip(graph.outputs, found))


def _as_machine(w: _Writer, tensor: Tensor, machine: dict[str, str]) -> str:
    """The machine's int8 form of a tensor."""
    if tensor.name not in machine:
        name = tensor.name
        if tensor.offset:
            wide = w.emit("Sub", [w.cast(name, "int32"), w.constant(np.array(tensor.offset, np.int32))])
            name = w.cast(wide, "int8")
        machine[tensor.name] = name
    return machine[tensor.name]


def _as_file(w: _Writer, tensor: Tensor, made: str) -> None:
    """The file's form of a result, under its own name."""
    if tensor.offset:
        w.cast(w.emit("Add", [w.cast(made, "int32"), w.constant(np.array(tensor.offset, np.int32))]), tensor.dtype, tensor.name)
    else:
        w.emit("Identity", [made], tensor.name)


def _layer(w: _Writer, layer: Layer, inputs: list[str]) -> str:
    graph = w.graph
    if layer.kind == "view":
        return w.emit("Reshape", [inputs[0], w.constant(np.array(graph.tensors[layer.output].shape, np.int64))])
    if layer.kind == "resize":
        scales = w.constant(np.array([1, 1, *layer.stride], np.float32))
        return w.emit("Resize", [inputs[0], "", scales], mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")
    if layer.kind == "concat":
        return w.emit("Concat", inputs, axis=1)
    if layer.kind == "slice":
        ends = [[layer.start], [layer.start + graph.tensors[layer.output].shape[1]], [1]]
        return w.emit("Slice", [inputs[0], *(w.constant(np.array(e, np.int64)) for e in ends)])
    pads = [layer.pads[0], layer.pads[1], layer.pads[2], layer.pads[3]]
    if layer.kind == "max":
        if w.opset >= 12:
            return w.emit("MaxPool", inputs, kernel_shape=list(layer.kernel), strides=list(layer.stride), pads=pads)
        # Operator set 11, which the host's parts may be of, has none of int8; float32 holds the same numbers.
        wide = [w.cast(inputs[0], "float32")]
        return w.cast(w.emit("MaxPool", wide, kernel_shape=list(layer.kernel), strides=list(layer.stride), pads=pads), "int8")
    rank = len(graph.tensors[layer.output].shape)
    if layer.kind == "conv":
        assert layer.weight is not None
        sums = w.emit("ConvInteger", [inputs[0], w.constant(layer.weight)], kernel_shape=list(layer.kernel),
                      strides=list(layer.stride), pads=pads, group=layer.group, dilations=list(layer.dilation))
    elif layer.kind == "deconv":
        sums = _transposed(w, layer, inputs[0])
    elif layer.kind == "dense":
        assert layer.weight is not None
        sums = w.emit("MatMulInteger", [inputs[0], w.constant(layer.weight.T)])
    elif layer.kind == "average":
        channels = graph.tensors[layer.inputs[0]].shape[1]
        weight = np.full((channels, 1, *layer.kernel), layer.factors[0], dtype=np.int8)
        sums = w.emit("ConvInteger", [inputs[0], w.constant(weight)], kernel_shape=list(layer.kernel),
                      strides=list(layer.stride), pads=pads, group=channels)
    else:
        parts = [w.emit("Mul", [w.cast(x, "int32"), w.constant(np.array(f, np.int32))]) for x, f in zip(inputs, layer.factors)]
        sums = parts[0]
        for part in parts[1:]:
            sums = w.emit("Add", [sums, part])
    done = layer.requant
    assert done is not None
    spread = [-1 if d == (1 if layer.kind != "dense" else rank - 1) else 1 for d in range(rank)]
    bias = done.bias.astype(np.int32)
    bias = bias.reshape(spread) if bias.ndim == 1 else bias[None]
    biased = w.emit("Add", [sums, w.constant(bias)], f"{layer.output}:sums")
    scale = 2.0 ** -done.shift.astype(np.float64)
    exact = w.cast(biased, "float64")
    made = w.emit("Floor", [w.emit("Mul", [exact, w.constant(scale.reshape(spread))])])
    if (leak := done.leak) is not None:
        times, offset = (w.constant(np.array(float(x))) for x in (leak.times, leak.offset))
        below = w.emit("Add", [w.emit("Mul", [exact, times]), offset])
        below = w.emit("Mul", [below, w.constant((scale * 2.0**-leak.shift).reshape(spread))])
        made = w.emit("Max", [made, w.emit("Floor", [below])])
    # No Clip: onnxruntime has none of doubles for operator set 11, which the host's parts may be of.
    above = w.emit("Max", [made, w.constant(np.array(float(done.low)))])
    return w.cast(w.emit("Min", [above, w.constant(np.array(float(done.high)))]), "int8")


def _transposed(w: _Writer, layer: Layer, data: str) -> str:
    """A transposed convolution by its definition: zeros between the pixels, then a convolution with the kernel turned around."""
    assert layer.weight is not None
    n, c, h, width = w.graph.tensors[layer.inputs[0]].shape
    out = w.graph.tensors[layer.output].shape
    (sy, sx), (kh, kw), (top, left, _, _) = layer.stride, layer.kernel, layer.pads
    spread = w.emit("Reshape", [data, w.constant(np.array([n, c, h, 1, width, 1], np.int64))])
    zeros = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, sy - 1, 0, sx - 1], np.int64)
    spread = w.emit("Pad", [spread, w.constant(zeros), w.constant(np.array(0, np.int8))])
    spread = w.emit("Reshape", [spread, w.constant(np.array([n, c, h * sy, width * sx], np.int64))])
    # As many rows as the result needs: negative where zeros behind the last pixel are too many.
    before = [kh - 1 - top, kw - 1 - left]
    after = [out[2] + kh - 1 - h * sy - before[0], out[3] + kw - 1 - width * sx - before[1]]
    ends = np.array([0, 0, *before, 0, 0, *after], np.int64)
    spread = w.emit("Pad", [spread, w.constant(ends), w.constant(np.array(0, np.int8))])
    turned = np.ascontiguousarray(layer.weight[:, :, ::-1, ::-1])
    return w.emit("ConvInteger", [spread, w.constant(turned)], kernel_shape=[kh, kw])
