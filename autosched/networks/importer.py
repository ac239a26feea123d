"""From a checked file to a graph: every node is found a layer, and what is left is cut into maximal host parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.errors import ProgramError, UnknownNameError
from autosched.networks import channels, integers, qdq, qlinear, resizes
from autosched.networks.graph import FEEDS, MOVES, ROUNDINGS, Graph, HostNode, HostPart, Layer, Step, Tensor
from autosched.networks.matcher import COUNTED, Found
from autosched.networks.onnx_file import check, converted, read
from autosched.networks.onnx_nodes import SINGLE, File, Node, of_numpy, other_float

if TYPE_CHECKING:
    from onnx import ValueInfoProto

NO_WORK = ("view", *MOVES)


def import_graph(
    path: str | Path, rounding: str = "half-up", shapes: Mapping[str, tuple[int, ...]] | None = None
) -> Graph:
    """The graph of an ONNX file.

    Args:
        path: a quantized network.
        rounding: how QDQ and QLinear forms round on the machine: ``floor`` (a bare shift) or ``half-up``; integer forms
            say it themselves.
        shapes: extents of inputs that the file leaves open, by input.

    Raises:
        ProgramError: the file is damaged, dynamic, float or unsupported; one line names the node and what to do.
        UnknownNameError: an unknown rounding.
    """
    _known(rounding)
    file = read(path, shapes)
    quantized = ("QuantizeLinear", "ConvInteger", "MatMulInteger", *qlinear.NAMES)
    if file.blank and not any(n.op in quantized for n in file.nodes):
        from autosched.networks.quantize import blank_network

        # Shapes alone: as good as a quantized network for tuning.
        file = read(path, shapes, convert=True)
        return replace(graph_of(blank_network(file), rounding), name=file.name, blank=next(iter(file.blank)))
    return graph_of(file, rounding)


def graph_of(file: File, rounding: str = "half-up") -> Graph:
    """The graph of a checked file; arguments and refusals as for ``import_graph``."""
    _known(rounding)
    found = _matched(file, rounding)
    if not any(x.kind not in NO_WORK for x in found.layers):
        raise _nothing(file, found)
    return _assemble(file, found)


def _matched(file: File, rounding: str) -> Found:
    """The layers of a file, whether or not anybody wants their results."""
    found = Found(file, rounding)
    for node in file.nodes:
        if node.name not in found.covered:
            _match(found, node)
    return found


def _known(rounding: str) -> None:
    if rounding not in ROUNDINGS:
        raise UnknownNameError("rounding", rounding, ROUNDINGS)


def _match(found: Found, node: Node) -> None:
    if node.op == "DequantizeLinear":
        qdq.dequantize(found, node)
    elif node.op == "QuantizeLinear":
        qdq.quantize(found, node)
    elif node.op in qlinear.NAMES:
        qlinear.match(found, node)
    elif node.op in ("ConvInteger", "MatMulInteger"):
        integers.match(found, node)
    elif node.op == "Add" and found.file.dtypes.get(node.outputs[0]) == "int32":
        integers.match_sum(found, node)
    elif node.op == "MaxPool" and found.file.dtypes.get(node.inputs[0]) in ("int8", "uint8"):
        integers.match_pool(found, node)
    elif node.op == "Resize" and found.file.dtypes.get(node.outputs[0]) in ("int8", "uint8"):
        resizes.match_plain(found, node)
    elif node.op == "Resize":
        resizes.match(found, node)
    elif node.op in channels.NAMES and found.file.dtypes.get(node.outputs[0]) in ("int8", "uint8"):
        channels.match_plain(found, node)
    elif node.op in channels.NAMES:
        channels.match(found, node)
    elif node.op in qdq.VIEWS and node.inputs[0] in found.tensors:
        known = found.tensors[node.inputs[0]]
        out = found.tensor(node.outputs[0], known.exponent, known.zero)
        found.add(Layer(node.name, "view", (known.name,), out.name, nodes=(node.name,)))
    else:
        qdq.match(found, node)


class NothingError(ProgramError):
    """Nothing of a file is for the machine."""


def _nothing(file: File, found: Found) -> ProgramError:
    """The refusal of a file in which nothing is for the machine: it names the first operator that should be."""
    left = "nothing is left for the machine: run it with onnxruntime"
    way = f"quantize it: autosched quantize {file.name}.onnx --calibrate data.npz -o q.onnx"
    some = any(n.op == "QuantizeLinear" for n in file.nodes)
    gains = some and _gains(file)
    if some and not gains:
        way = left  # it is quantized, and what is float stays so
    for node in file.nodes:
        if node.op in COUNTED and node.name not in found.covered:
            reason = found.reasons.get(node.name, "it is not quantized")
            unquantized = gains or "float" in reason or "quantized" in reason
            if unquantized and way != left and other_float(file, node):
                return node.refuse(f"its input is {file.dtypes[node.inputs[0]]}", SINGLE)
            return NothingError(str(node.refuse(reason, way if unquantized else left)))
    if dead := [repr(x.name) for x in found.layers if x.kind not in NO_WORK]:
        return NothingError(f"{file.name}: no output depends on what the machine computes ({', '.join(dead[:3])}); {way}")
    names = ", ".join(dict.fromkeys(n.op for n in file.nodes[:5]))
    return NothingError(f"{file.name}: no layer for the machine among its {len(file.nodes)} nodes ({names}, ...); {way}")


def _gains(file: File) -> bool:
    """Whether ``quantize`` finds layers in a file that has some quantizers already."""
    from autosched.networks.quantize import quantized_anew

    try:
        made = quantized_anew(check(converted(file.model, file.name), file.name, file.name, {}))
        return any(x.kind not in NO_WORK for x in _used(made, _matched(made, "half-up")))
    except ProgramError:
        return False


def _assemble(file: File, found: Found) -> Graph:
    """Steps in order: all layers that are ready, then all host nodes that are, until everything is done."""
    if (fixed := next((o for o in file.outputs if file.is_constant(o)), None)) is not None:
        raise ProgramError(f"{file.name}: output {fixed!r} is a constant; leave it out of the outputs")
    layers = _used(file, found)
    if not any(x.kind not in NO_WORK for x in layers):
        raise _nothing(file, found)
    by_output = {x.output: x for x in layers}
    wanted_raw = {o for o in file.outputs if o not in by_output}
    needed = {t for x in layers for t in x.inputs}
    wanted_raw |= {t for t in needed if t not in by_output and t not in file.inputs}
    host = _closure(file, wanted_raw, set(by_output))
    ready = {*file.inputs, *file.constants, *file.blank, ""}
    steps: list[Step] = []
    waiting = list(layers)
    left = sorted(host)
    while waiting or left:
        progress = False
        # Machine first: as many layers as can run make one stream.
        moved = True
        while moved:
            moved = False
            for layer in list(waiting):
                if all(t in ready for t in layer.inputs):
                    steps.append(layer)
                    ready.add(layer.output)
                    waiting.remove(layer)
                    moved = progress = True
        block: list[int] = []
        for i in left:
            if all(t in ready for t in file.nodes[i].inputs):
                block.append(i)
                ready |= set(file.nodes[i].outputs)
        if block:
            progress = True
            left = [i for i in left if i not in block]
            later = {t for x in waiting for t in x.inputs} | {t for i in left for t in file.nodes[i].inputs} | set(file.outputs)
            steps.append(_host_part(file, found, block, later, len([s for s in steps if isinstance(s, HostPart)])))
        if not progress:
            raise ProgramError(f"{file.name}: its nodes depend on each other in a circle")
    names = {t for s in steps for t in (*s.inputs, *((s.output,) if isinstance(s, Layer) else s.outputs))}
    names |= {*file.inputs, *file.outputs}
    tensors = {
        n: found.tensors[n] if n in found.tensors else Tensor(n, file.shapes[n], file.dtypes[n]) for n in sorted(names)
    }
    for name in file.inputs:
        first = [file.nodes[i] for i in file.read_by.get(name, ())]
        if len(first) == 1 and first[0].op == "QuantizeLinear" and (q := found.tensors.get(first[0].outputs[0])) is not None:
            # An image in float is quantized first: its range is that of the int8 tensor.
            tensors[name] = replace(tensors[name], exponent=q.exponent, zero=q.zero)
    blank = next(iter(file.blank), None)
    return Graph(file.name, tensors, file.inputs, file.outputs, tuple(steps), found.rounding, blank)


def _used(file: File, found: Found) -> list[Layer]:
    """The layers whose results reach an output or a host node that is wanted."""
    by_output = {x.output: x for x in found.layers}
    keep: dict[str, Layer] = {}

    def want(tensor: str) -> None:
        stack = [tensor]
        while stack:
            t = stack.pop()
            layer = by_output.get(t)
            if layer is not None and t not in keep:
                keep[t] = layer
                stack += layer.inputs
            elif layer is None and t in file.made_by:
                node = file.nodes[file.made_by[t]]
                if node.name not in seen:
                    seen.add(node.name)
                    stack += [x for x in node.inputs if x]

    seen: set[str] = set()
    for out in file.outputs:
        want(out)
    return [x for x in found.layers if x.output in keep]


def _closure(file: File, wanted: Iterable[str], made: set[str]) -> set[int]:
    """Indices of the nodes that must run on the host to give ``wanted``, from what layers make."""
    host: set[int] = set()
    stack = list(wanted)
    while stack:
        t = stack.pop()
        if t in made or t not in file.made_by or file.made_by[t] in host:
            continue
        host.add(file.made_by[t])
        stack += [x for x in file.nodes[file.made_by[t]].inputs if x]
    return host


def _host_part(file: File, found: Found, block: list[int], later: set[str], number: int) -> HostPart:
    """Some nodes as a model of their own."""
    import numpy as np
    from onnx import helper, numpy_helper

    nodes = [file.nodes[i] for i in block]
    made = {t for n in nodes for t in n.outputs if t}
    fixed = dict.fromkeys(t for n in nodes for t in n.inputs if t in file.constants)
    inputs = tuple(dict.fromkeys(t for n in nodes for t in n.inputs if t and t not in made and t not in fixed))
    outputs = tuple(t for n in nodes for t in n.outputs if t in later)
    for node in nodes:
        for t in node.outputs:
            if t in later and not of_numpy(file.dtypes[t]):
                # A part that goes on with it gets it as an array.
                raise node.refuse(f"its result {t!r} is {file.dtypes[t]}, which NumPy has not", "cast it to another type")
    initializers = {i.name: i for i in file.model.graph.initializer}

    def info(name: str) -> ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(file.dtypes[name]))
        return helper.make_tensor_value_info(name, kind, file.shapes[name])

    graph = helper.make_graph(
        [n.proto for n in nodes], f"host{number}", [info(t) for t in inputs], [info(t) for t in outputs],
        initializer=[initializers[t] if t in initializers else numpy_helper.from_array(file.constants[t], t) for t in fixed],
    )
    model = helper.make_model(graph, opset_imports=list(file.model.opset_import), ir_version=min(file.model.ir_version, 10))
    listed = tuple(HostNode(n.name, n.op, found.reasons.get(n.name, FEEDS), _macs(file, n)) for n in nodes)
    return HostPart(f"host{number}", inputs, outputs, listed, model.SerializeToString())


def _macs(file: File, node: Node) -> int:
    """Multiply-accumulates of a node of the file."""
    if node.op not in COUNTED:
        return 0
    at = 3 if node.op in qlinear.NAMES else 1
    weight, out = file.shapes[node.inputs[at]], file.shapes[node.outputs[0]]
    if node.op == "ConvTranspose":
        return prod(file.shapes[node.inputs[0]]) * prod(weight[1:])
    if "Conv" in node.op:
        return prod(out) * prod(weight[1:])
    # Of a vector it sums over all there is.
    inner = weight[1] if node.op in ("Gemm", "QGemm") and node.attrs.get("transB", 0) else weight[-2:][0]
    return prod(out) * inner
