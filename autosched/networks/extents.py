"""Values that extents alone decide, as a view has them: files hold operators for them, and here they become constants.

onnx's own inference follows such values through some operators of some operator sets. Extents of inputs are fixed by now, so they
are numbers, and onnxruntime says which, one small operator after another in the file's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import Array
from autosched.networks.inferred import downwards, twins

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TypeProto

MOST = 4096  # elements of a tensor that is computed here: what describes extents is small, and data are nobody's to compute yet
CHANCE = ("RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout")  # another result each time
_NUMBERS = ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT16", "FLOAT", "DOUBLE")
_STARTS = ("Shape", "Size")
# Inputs whose values say what extents a result has.
_SAYS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Resize": (2, 3), "Range": (0, 1, 2), "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,), "TopK": (1,), "OneHot": (1,),
    "CenterCropPad": (1,), "MaxUnpool": (2,), "Col2Im": (1, 2), "AffineGrid": (1,),
}


def settled(model: ModelProto, constants: Mapping[str, Array]) -> dict[str, Array]:
    """The values that extents of a model's inputs decide; constants stand for their operators in it then.

    Args:
        model: a checked model with fixed extents of its inputs; it is changed.
        constants: of the model.

    Returns:
        the values by tensor, with those on the way there that nothing reads any more.
    """
    graph = model.graph
    if not any(n.op_type in _STARTS or any(t not in constants for t in _says(n)) for n in graph.node):
        return {}
    found = _Values(model, {k: v for k, v in constants.items() if v.size <= MOST})
    for node in graph.node:
        found.follow(node)
    for node in graph.node:
        # Constants alone are the file's own, as long as no extent hangs on them.
        if node.output[0] not in found.recipes:
            found.evaluate(t for t in node.input if t in found.measured)
    outputs = {o.name for o in graph.output}
    done = [n for n in graph.node if found.done.issuperset(n.output) and not outputs & {*n.output}]
    values = {o: found.values[o] for n in done for o in n.output}
    if values:
        _put(model, values)
    return values


def _put(model: ModelProto, values: Mapping[str, Array]) -> None:
    """Writes values in place of the nodes that make them, as far as others read them."""
    from onnx import helper, numpy_helper

    left = [n for n in model.graph.node if n.output[0] not in values]
    read = dict.fromkeys(t for n in left for t in n.input if t in values)
    fixed = [helper.make_node("Constant", [], [t], value=numpy_helper.from_array(values[t], t)) for t in read]
    del model.graph.node[:]
    model.graph.node.extend([*fixed, *left])
    stated = [v for v in model.graph.value_info if v.name not in values]
    del model.graph.value_info[:]
    model.graph.value_info.extend(stated)


def _says(node: NodeProto) -> Iterator[str]:
    """The inputs of an operator whose values say what extents its result has."""
    places = (1,) if node.op_type.startswith("Reduce") else _SAYS.get(node.op_type, ())
    yield from (node.input[k] for k in places if k < len(node.input) and node.input[k])


@dataclass(eq=False)
class _Values:
    """What is known of a model's tensors, node by node.

    Args:
        model: the model.
        values: what is known, by tensor.
        types: of tensors, with what is known of their extents.
        recipes: the node that makes a tensor of known ones alone, or of extents.
        measured: tensors that depend on extents.
        done: tensors that were computed here.
        runs: what onnxruntime made of operators and values.
    """

    model: ModelProto
    values: dict[str, Array]
    types: dict[str, TypeProto] = field(default_factory=dict)
    recipes: dict[str, NodeProto] = field(default_factory=dict)
    measured: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    runs: dict[tuple[bytes, ...], list[Array] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from onnx import helper

        graph = self.model.graph
        self.stated = {v.name: v.type for v in graph.value_info}
        self.opset = next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))
        self.types.update((i.name, i.type) for i in graph.input)
        self.types.update((t.name, helper.make_tensor_type_proto(t.data_type, t.dims)) for t in graph.initializer)

    def extents(self, tensor: str) -> tuple[int, ...] | None:
        """A tensor's extents, None where one is not known."""
        kind = self.types.get(tensor)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None

    def follow(self, node: NodeProto) -> None:
        """Goes on behind a node: types of its results, and whether they are numbers already."""
        self.evaluate(_says(node))
        self._infer(node)
        for name in node.output:
            if name in self.stated and self.extents(name) is None:
                self.types[name] = self.stated[name]
        if self._computable(node):
            self.recipes.update(dict.fromkeys(node.output, node))
            if node.op_type in _STARTS or self.measured & {*node.input}:
                self.measured.update(node.output)

    def evaluate(self, tensors: Iterable[str]) -> None:
        """Computes tensors that are made of known ones alone, and all on the way to them."""
        for tensor in tensors:
            stack = [tensor]
            while stack:
                name = stack[-1]
                node = self.recipes.get(name)
                if name in self.values or node is None:
                    stack.pop()
                    continue
                missing = [t for t in node.input if t not in self.values and t in self.recipes and node.op_type not in _STARTS]
                if missing:
                    stack += missing
                else:
                    stack.pop()
                    self._compute(node)

    def _infer(self, node: NodeProto) -> None:
        """Types of a node's results; none where onnx infers nothing of it, and whoever asks for them names it."""
        import onnx
        from onnx import helper, numpy_helper

        if node.op_type == "Constant":
            value = self.values.get(node.output[0])
            kind = next((a.t for a in node.attribute if a.name == "value"), None)
            if value is not None:
                self.types[node.output[0]] = helper.make_tensor_type_proto(
                    helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            elif kind is not None:
                self.types[node.output[0]] = helper.make_tensor_type_proto(kind.data_type, kind.dims)
            return
        for twin in twins(node):
            own = {t: self.types[t] for t in twin.input if t in self.types}
            if twin.domain not in ("", "ai.onnx") or any(t and t not in own for t in twin.input):
                return
            if twin.input:
                twin = downwards(twin, (self.extents(twin.input[0]) or ())[2:], alike=False) or twin
            data = {t: numpy_helper.from_array(self.values[t], t) for t in _says(twin) if t in self.values}
            given = [onnx.ValueInfoProto(name=t, type=kind) for t, kind in own.items() if t not in data]
            # Not infer_node_outputs, which is strict with types that onnxruntime takes.
            graph = helper.make_graph([twin], "one", given, [], initializer=list(data.values()))
            sets = [helper.make_opsetid("", self.opset)]
            try:
                made = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=sets, ir_version=8))
            except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
                return
            self.types.update((v.name, v.type) for v in made.graph.value_info)

    def _computable(self, node: NodeProto) -> bool:
        from onnx import TensorProto as Proto

        if node.domain not in ("", "ai.onnx") or node.op_type in ("Constant", *CHANCE) or not node.input or not all(node.output):
            return False
        for name in node.output:
            extents = self.extents(name)
            if extents is None or prod(extents) > MOST:
                return False
            if self.types[name].tensor_type.elem_type not in map(Proto.DataType.Value, _NUMBERS):
                return False
        if node.op_type in _STARTS:
            extents = self.extents(node.input[0])
            return extents is not None and prod(extents) <= np.iinfo(np.int64).max
        return all(not t or t in self.values or t in self.recipes for t in node.input)

    def _compute(self, node: NodeProto) -> None:
        """Adds the values of a node's results; one that has none is no recipe any more, and whoever needs it is named."""
        made = None
        if node.op_type in _STARTS:
            extents = self.extents(node.input[0]) or ()
            ends = {a.name: a.i for a in node.attribute}
            part = extents[ends.get("start", 0) : ends.get("end", len(extents))]
            made = [np.array(part if node.op_type == "Shape" else prod(extents), np.int64)]
        elif all(not t or t in self.values for t in node.input):
            made = self._run(node)
        for k, name in enumerate(node.output):
            if made is None:
                del self.recipes[name]
            else:
                self.values[name] = made[k]
                self.done.add(name)

    def _run(self, node: NodeProto) -> list[Array] | None:
        """What onnxruntime makes of known values, None where it refuses them."""
        from onnx import NodeProto as Proto
        from onnx import ValueInfoProto, helper, numpy_helper

        from autosched.networks.reference import refusals, session

        if self._traps(node):
            return None
        # Layers are alike, and so are the operators between them: their names are taken away, and one session does for all.
        plain = Proto(op_type=node.op_type, attribute=node.attribute)
        places = {t: f"i{k}" for k, t in enumerate(dict.fromkeys(node.input)) if t}
        plain.input.extend(places.get(t, "") for t in node.input)
        plain.output.extend(f"o{k}" for k in range(len(node.output)))
        given = [numpy_helper.from_array(self.values[t], name) for t, name in places.items()]
        key = (plain.SerializeToString(deterministic=True), *(g.SerializeToString(deterministic=True) for g in given))
        if key not in self.runs:
            results = [ValueInfoProto(name=o, type=self.types[t]) for o, t in zip(plain.output, node.output)]
            graph = helper.make_graph([plain], "extents", [], results, initializer=given)
            model = helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=min(self.model.ir_version, 10))
            try:
                with refusals():
                    self.runs[key] = [np.asarray(v) for v in session(model).run(list(plain.output), {})]
            except ProgramError:
                self.runs[key] = None
        return self.runs[key]

    def _traps(self, node: NodeProto) -> bool:
        """Whether integers are divided by zero, or the least by -1: the processor ends the process for that."""
        if node.op_type not in ("Div", "Mod"):
            return False
        above, below = (self.values[t] for t in node.input)
        if below.dtype.kind not in "iu" or above.dtype != below.dtype:
            return False
        return not below.all() or bool((below == -1).any() and (above == np.iinfo(above.dtype).min).any())
