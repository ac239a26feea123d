"""Float operators as a model: plain, or with a pair of QuantizeLinear and DequantizeLinear behind every quantized tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.networks.floats import FloatNet, Names, Op
from autosched.networks.graph import Array, Ints
from autosched.networks.onnx_file import OPSET
from autosched.networks.onnx_nodes import File
from autosched.networks.parameters import output_channels
from autosched.networks.scale_plan import ScalePlan, bias_of, fused_clip, leaks, saturating, stored_weight
from autosched.networks.scales import nearest_slope

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, eq=False)
class Written:
    """A network as a model.

    Args:
        model: plain float, or QDQ.
        quantized: the int8 form of each tensor that has one.
    """

    model: ModelProto
    quantized: Mapping[str, str]


class QdqWriter:
    """Writes float operators, with a Q and DQ pair behind every quantized tensor."""

    def __init__(self, net: FloatNet, plan: ScalePlan | None) -> None:
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
        if self.plan is not None and leaks(self.net, op):
            # As weights, a slope is what the machine has.
            given["alpha"] = helper.make_attribute("alpha", nearest_slope(float(op.attrs.get("alpha", 0.01))))
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
        stored = stored_weight(weight, powers, axis)
        read[1] = self.dequantized(f"{op.name}:w", stored, powers, axis)
        if len(op.inputs) > 2 and op.inputs[2]:
            value, bias, at = net.constants[op.inputs[2]], bias_of(net, op), powers + plan.exponents[op.inputs[0]]
            assert bias is not None
            limit = saturating(stored, axis, bias, at - plan.exponents[op.outputs[0]])
            whole = np.clip(np.rint(bias * 2.0**at), -limit, limit).astype(np.int32)
            whole = whole.reshape(value.shape) if whole.size == value.size else whole
            read[2] = self.dequantized(f"{op.name}:b", whole, at, whole.ndim - 1)
        return read


def _paired(net: FloatNet, tensor: str) -> bool:
    """Whether a quantized tensor has a Q and DQ of its own: not between an operator and its clip, nor behind a plain view."""
    maker = net.maker(tensor)
    return maker is None or (fused_clip(net, maker) is None and maker.op not in ("Flatten", "Reshape", "Identity", "Dropout",
                                                                             "Squeeze", "Unsqueeze"))


def write_model(net: FloatNet, file: File, plan: ScalePlan | None) -> Written:
    """The operators as a model: plain float without a plan, QDQ with one.

    Args:
        net: the operators.
        file: gives inputs, outputs and shapes.
        plan: exponents, or None.
    """
    from onnx import helper

    w = QdqWriter(net, plan)
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
    inputs = [value_info(n, file.dtypes[n], file.shapes[n]) for n in file.inputs]
    results = [value_info(n, net.floats.get(n, file.dtypes[n]), file.shapes[n]) for n in file.outputs]
    # Nobody infers what operators of other sets make, and what the file states may be known to nobody else.
    stated = {v.name for v in file.model.graph.value_info}
    said = [t for op in net.ops for t in op.outputs if t in file.shapes and (op.domain or t in stated)]
    known = [value_info(turned.get(t, t), net.floats.get(t, file.dtypes[t]), file.shapes[t]) for t in said]
    used = {t for n in w.nodes for t in n.input}
    graph = helper.make_graph(
        w.nodes, file.name, inputs, results, initializer=[c for n, c in w.constants.items() if n in used], value_info=known,
    )
    return Written(helper.make_model(graph, opset_imports=opsets_of(file, net.ops), ir_version=8), w.quantized)


def opsets_of(file: File, ops: Iterable[Op]) -> list[Any]:
    """The operator sets of operators as they are written."""
    from onnx import helper

    versions = {o.domain: o.version for o in file.model.opset_import}
    sets = [helper.make_opsetid(d, versions.get(d, 1)) for d in sorted({op.domain for op in ops if op.domain})]
    return [helper.make_opsetid("", max(OPSET, file.opset)), *sets]


def kind_of(net: FloatNet, file: File, tensor: str) -> str:
    """The type of a tensor."""
    return net.floats.get(tensor, file.dtypes.get(tensor, "float32"))


def value_info(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor as a model declares it."""
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
