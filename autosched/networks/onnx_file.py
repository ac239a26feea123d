"""Reading an ONNX file: bounded, checked, shapes inferred; the only place that parses one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError, suggest
from autosched.networks.extents import settled
from autosched.networks.graph import Array
from autosched.networks.inferred import downwards, inferred, line
from autosched.networks.onnx_constants import MAX_ELEMENTS, constants_of, folded_away
from autosched.networks.onnx_nodes import File, Node
from sim.files import read_bytes

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import ModelProto, NodeProto

MAX_NODES = 20_000
MAX_CALLS = 50  # of a file's own functions, one inside the other
OLDEST_OPSET = 11
OPSET = 17  # of the files that are written, and what older ones are read as
AS_TODAY = 13  # from here on operators mean what they mean in a present set: before, axes were attributes and Softmax had another
# Inputs that operators of onnxruntime's own cannot do without; QLinearConcat has three to a tensor behind these.
_NEEDED = {
    "QuantizeLinear": (0, 1), "DequantizeLinear": (0, 1), "QLinearAdd": (0, 1, 3, 4, 6), "QLinearMul": (0, 1, 3, 4, 6),
    "QLinearGlobalAveragePool": (0, 1, 3), "QLinearAveragePool": (0, 1, 3), "QLinearSigmoid": (0, 1, 3),
    "QLinearLeakyRelu": (0, 1, 3), "QLinearSoftmax": (0, 1, 3), "QLinearConcat": (0, 1), "QGemm": (0, 1, 2, 3, 4, 5),
}
DOMAINS = ("", "ai.onnx", "com.microsoft")


def require_onnx() -> None:
    """Refuses in one line where onnx is not installed.

    Raises:
        ProgramError: it is not; says how to install it.
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ProgramError("ONNX files need onnx and onnxruntime: pip install 'autosched[onnx]'") from None


def read(path: str | Path, shapes: Mapping[str, tuple[int, ...]] | None = None, convert: bool = False) -> File:
    """A file as checked nodes, constants and shapes.

    Args:
        path: the file.
        shapes: extents of inputs that the file leaves open, by input.
        convert: bring older operator sets up to a present one, as far as onnx's converter can.

    Raises:
        ProgramError: unreadable, too large, damaged, of an unsupported operator set, or with open shapes; one line that says
            which and what to do.
    """
    require_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    path = Path(path)
    if not path.is_file():
        near = [str(p) for p in path.parent.glob("*.onnx")] if path.parent.is_dir() else []
        raise ProgramError(f"no file {path}{suggest(str(path), near)}")
    try:
        model = onnx.load_model_from_string(read_bytes(path))
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from error
    except (DecodeError, ValueError) as error:
        raise ProgramError(f"{path}: not an ONNX file, or damaged ({line(error)})") from error
    if not model.graph.node:
        raise ProgramError(f"{path}: not an ONNX file, or damaged (no nodes)")
    if (odd := _no_text(model)) is not None:
        raise ProgramError(f"{path}: not an ONNX file, or damaged ({odd!r} is no text)")
    model = _inlined(model, str(path))
    if convert:
        model = converted(model, str(path))
    return check(model, path.stem, str(path), shapes or {})


def converted(model: ModelProto, where: str) -> ModelProto:
    """A model of an older operator set in a present one.

    Args:
        model: as it was read.
        where: what the refusal calls it.

    Raises:
        ProgramError: onnx's converter cannot.
    """
    import onnx

    found = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if not 0 < found < AS_TODAY:
        return model
    try:
        return onnx.version_converter.convert_version(model, OPSET)
    except (RuntimeError, ValueError, TypeError, onnx.version_converter.ConvertError, onnx.shape_inference.InferenceError) as e:
        raise ProgramError(f"{where}: operator set {found} cannot be converted: {line(e)}") from e


def check(model: ModelProto, name: str, where: str, shapes: Mapping[str, tuple[int, ...]]) -> File:
    """A model as checked nodes, constants and shapes; arguments and refusals as for ``read``.

    Args:
        model: the model; it is not changed.
        name: how to call it.
        where: what refusals call it.
        shapes: extents of open inputs.
    """
    import onnx

    from autosched.networks.parameters import check_parameters

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    opset = _opset(copy, where)
    graph = copy.graph
    if len(graph.node) > MAX_NODES:
        raise ProgramError(f"{where}: {len(graph.node)} nodes; at most {MAX_NODES} are read")
    constants, blank = constants_of(copy, where)
    read_nodes = _nodes(copy, where, constants)
    _check(copy, where, read_nodes, blank)
    _fix_inputs(copy, where, shapes, {*constants, *blank})
    values = settled(copy, constants)
    constants.update(values)
    nodes = folded_away(tuple([n for n in read_nodes if n.outputs[0] not in values]), constants)
    shaped, dtypes = _types(inferred(copy, where), where, constants, blank)
    nodes = tuple([_downwards(n, shaped) for n in nodes])
    made: dict[str, int] = {}
    read_by: dict[str, list[int]] = {}
    for i, node in enumerate(nodes):
        for t in node.outputs:
            made[t] = i
        for t in dict.fromkeys(node.inputs):
            read_by.setdefault(t, []).append(i)
    for node in nodes:
        for t in (*node.inputs, *node.outputs):
            if t and t not in shaped and (t in node.outputs or t not in constants):
                # With given extents what the file states is of others.
                way = "export the model without it" + ("" if shapes else ", or with that shape in its value_info")
                raise node.refuse(f"the shape of {t!r} cannot be inferred", way)
    names = {*constants, *blank}
    file = File(
        name, copy, nodes, constants, blank, shaped, dtypes,
        tuple(i.name for i in graph.input if i.name not in names), tuple(o.name for o in graph.output), opset,
        made, {k: tuple(v) for k, v in read_by.items()},
    )
    check_parameters(file)
    return file


def _no_text(message: Message) -> bytes | None:
    """A name in a message, or in one inside of it, that is not UTF-8: the parser lets it pass, and it is no string then."""
    for kind, value in message.ListFields():
        if kind.type == kind.TYPE_STRING:
            found = next((v for v in ([value] if isinstance(value, str | bytes) else value) if isinstance(v, bytes)), None)
        elif kind.type == kind.TYPE_MESSAGE:
            inside = [value] if hasattr(value, "ListFields") else value
            found = next((v for v in map(_no_text, inside) if v is not None), None)
        else:
            continue
        if found is not None:
            return found
    return None


def _with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes with those of the graphs that they hold."""
    for node in nodes:
        yield node
        for a in node.attribute:
            for graph in ([a.g] if a.HasField("g") else a.graphs):
                yield from _with_inner(graph.node)


def _inlined(model: ModelProto, where: str) -> ModelProto:
    """A model with the nodes of its own functions in place of those that call them."""
    import onnx
    from onnx.inliner import inline_local_functions

    if not model.functions:
        return model
    bodies = {(f.domain, f.name): f.node for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(name: tuple[str, str], outer: tuple[tuple[str, str], ...]) -> int:
        if name in outer or len(outer) == MAX_CALLS:
            what = "calls itself" if name in outer else f"is called by {MAX_CALLS} others, one inside the other"
            raise ProgramError(f"{where}: function {name[1]!r} {what}; export the model without functions")
        if name not in sizes:
            sizes[name] = total(bodies[name], (*outer, name))
        return sizes[name]

    def total(nodes: Iterable[NodeProto], outer: tuple[tuple[str, str], ...]) -> int:
        calls = [(n.domain, n.op_type) for n in _with_inner(nodes)]
        return sum(size(call, outer) if call in bodies else 1 for call in calls)

    count = total(model.graph.node, ())
    if count > MAX_NODES:
        raise ProgramError(f"{where}: {count} nodes, with those of its functions; at most {MAX_NODES} are read")
    try:
        # Functions of another operator set are converted, for which all types are known.
        return inline_local_functions(onnx.shape_inference.infer_shapes(model), convert_version=True)
    except (RuntimeError, ValueError, TypeError, onnx.checker.ValidationError, onnx.version_converter.ConvertError,
            onnx.shape_inference.InferenceError) as error:
        raise ProgramError(f"{where}: its functions cannot be written out: {line(error)}") from error


def _opset(model: ModelProto, where: str) -> int:
    import onnx

    newest = onnx.defs.onnx_opset_version()
    found = 0
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            found = entry.version
    if not OLDEST_OPSET <= found <= newest:
        raise ProgramError(
            f"{where}: operator set {found or 'missing'}; {OLDEST_OPSET} to {newest} are read: convert it with "
            f"onnx.version_converter.convert_version(model, {min(17, newest)})"
        )
    return found


def _nodes(model: ModelProto, where: str, constants: Mapping[str, Array]) -> tuple[Node, ...]:
    from onnx import AttributeProto, helper

    nodes = []
    taken: set[str] = set()
    for i, proto in enumerate(model.graph.node):
        if proto.op_type == "Constant" and proto.output and proto.output[0] in constants:
            continue
        name = proto.name or f"{proto.op_type}_{i}"
        while name in taken:
            name += "_"
        taken.add(name)
        if proto.domain not in DOMAINS:
            trained = any(word in proto.domain for word in ("qonnx", "brevitas", "finn"))
            way = "as QDQ (qonnx: qonnx.transformation.qonnx_to_qcdq)" if trained else "in operators of these"
            why = f"is of operator set {proto.domain!r}; known: ai.onnx, com.microsoft"
            raise ProgramError(f"{where}: node {name!r} {why}: export the model {way}")
        attrs: dict[str, Any] = {}
        for a in proto.attribute:
            if a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                raise ProgramError(f"{where}: node {name!r} ({proto.op_type}) holds a graph; control flow is not read: unroll it")
            attrs[a.name] = helper.get_attribute_value(a)
        attrs = {k: v.decode("utf-8", "replace") if isinstance(v, bytes) else v for k, v in attrs.items()}
        nodes.append(Node(name, proto.op_type, tuple(proto.input), tuple(proto.output), attrs, proto))
    return tuple(nodes)


def _downwards(node: Node, shapes: Mapping[str, tuple[int, ...]]) -> Node:
    """A node, or what counts windows downwards where that is the same, and the file's extents are then everybody's."""
    proto = downwards(node.proto, shapes.get(node.inputs[0], ())[2:]) if node.inputs else None
    if proto is None:
        return node
    kept = {k: v for k, v in node.attrs.items() if k != "ceil_mode"}
    return replace(node, attrs={**kept, "pads": list(proto.attribute[-1].ints)}, proto=proto)


def _fix_inputs(model: ModelProto, where: str, shapes: Mapping[str, tuple[int, ...]], constants: set[str]) -> None:
    """Writes given extents over open ones; refuses what stays open."""
    known = [i.name for i in model.graph.input if i.name not in constants]
    for name in shapes:
        if name not in known:
            raise ProgramError(f"{where}: no input {name!r}{suggest(name, known)}")
    for entry in model.graph.input:
        if entry.name in constants:
            continue
        if not entry.type.HasField("tensor_type"):
            other = (entry.type.WhichOneof("value") or "value without a type").removesuffix("_type")
            raise ProgramError(f"{where}: input {entry.name!r} is a {other}, not a tensor; export the model with tensors alone")
        kind = entry.type.tensor_type
        dims, stated = kind.shape.dim, kind.HasField("shape")
        given = shapes.get(entry.name)
        text = ",".join(str(d.dim_value) if d.HasField("dim_value") else (d.dim_param or "?") for d in dims) if stated else "..."
        if stated and not dims:
            raise ProgramError(f"{where}: input {entry.name!r} is one number, of no image; export it as a constant")
        if given is not None:
            if stated and (len(given) != len(dims) or any(
                d.HasField("dim_value") and d.dim_value > 0 and d.dim_value != g for d, g in zip(dims, given)
            )):
                raise ProgramError(f"{where}: input {entry.name!r} is [{text}], not {','.join(map(str, given))}")
            del dims[:]
            dims.extend([type(kind.shape).Dimension(dim_value=g) for g in given])
        if not dims or not all(d.HasField("dim_value") and d.dim_value > 0 for d in dims):
            sizes = [str(d.dim_value) if d.HasField("dim_value") and d.dim_value > 0 else "" for d in dims]
            example = ",".join(e or ("32" if k else "1") for k, e in enumerate(sizes))
            raise ProgramError(
                f"{where}: input {entry.name!r} has an open shape [{text}]; say which: "
                f"--shape {entry.name}={example or '1,3,32,32'}"
            )
    for entry in (o for o in model.graph.output if o.name not in known):
        # What inputs leave open, outputs repeat; inference fills it in again.
        entry.type.tensor_type.ClearField("shape")
    if shapes:
        del model.graph.value_info[:]


def _check(model: ModelProto, where: str, nodes: tuple[Node, ...], blank: Mapping[str, tuple[int, ...]]) -> None:
    import onnx

    for read_node in nodes:
        if read_node.proto.domain == "com.microsoft":
            _needs(read_node)
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    for node in [n for n in probe.graph.node if n.domain == "com.microsoft"]:
        # The checker knows no operator of onnxruntime's own.
        node.domain = ""
        node.op_type = "Identity"
        del node.input[1:]
        del node.attribute[:]
        del node.output[1:]
    # Extents of inputs may be given, and outputs are inferred: the checker wants them in the file.
    for entry in (*probe.graph.input, *probe.graph.output):
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.shape.SetInParent()
    for entry in probe.graph.output:
        if not entry.HasField("type"):
            entry.type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
    # The checker refuses tensors without data; inputs have none.
    given = {i.name for i in probe.graph.input}
    empty = [t for t in probe.graph.initializer if t.name in blank]
    for tensor in empty:
        if tensor.name not in given:
            probe.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        probe.graph.initializer.remove(tensor)
    try:
        onnx.checker.check_model(probe)
    except (onnx.checker.ValidationError, ValueError, TypeError) as error:
        raise ProgramError(f"{where}: damaged: {line(error)}") from error


def _needs(node: Node) -> None:
    """Refuses an operator of onnxruntime's own that lacks inputs."""
    at = next((k for k in _NEEDED.get(node.op, ()) if k >= len(node.inputs) or not node.inputs[k]), None)
    if at is None and node.op == "QLinearConcat" and (len(node.inputs) < 5 or len(node.inputs) % 3 != 2):
        at = len(node.inputs)
    if at is not None:
        raise node.refuse(f"its input {at + 1} is missing", "export the model again")


def _types(
    model: ModelProto, where: str, constants: Mapping[str, Array], blank: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    from onnx import helper

    shapes: dict[str, tuple[int, ...]] = {**{k: v.shape for k, v in constants.items()}, **blank}
    dtypes = {k: str(v.dtype) for k, v in constants.items()}
    graph = model.graph
    for tensor in graph.initializer:
        dtypes.setdefault(tensor.name, str(helper.tensor_dtype_to_np_dtype(tensor.data_type)))
    for entry in (*graph.input, *graph.value_info, *graph.output):
        kind = entry.type.tensor_type
        if not entry.type.HasField("tensor_type") or not kind.HasField("shape"):
            continue
        dims = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
        if any(d < 0 for d in dims):
            continue
        if prod(dims) > MAX_ELEMENTS:
            raise ProgramError(f"{where}: tensor {entry.name!r} would have {prod(dims)} elements, more than {MAX_ELEMENTS}")
        if kind.elem_type not in helper.get_all_tensor_dtypes():
            raise ProgramError(f"{where}: tensor {entry.name!r} has no type; export the model again")
        shapes.setdefault(entry.name, dims)
        dtypes.setdefault(entry.name, str(np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))))
    return shapes, dtypes
