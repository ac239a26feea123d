"""The constants of an ONNX file: what initializers and Constant nodes hold, and what nodes only bring into another form."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import Array
from autosched.networks.inferred import line
from autosched.networks.onnx_nodes import NUMBER, Node, place_of

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

MAX_ELEMENTS = 1 << 28


def constants_of(model: ModelProto, where: str) -> tuple[dict[str, Array], dict[str, tuple[int, ...]]]:
    """Values of initializers and Constant nodes, and shapes of those without data.

    Args:
        model: the file.
        where: what refusals call it.

    Raises:
        ProgramError: they are no numbers, too many, damaged or in another file.
    """
    found: dict[str, Array] = {}
    blank: dict[str, tuple[int, ...]] = {}
    if model.graph.sparse_initializer:
        raise ProgramError(f"{where}: sparse initializers are not read; store them dense")
    for tensor in model.graph.initializer:
        value = _value(tensor, where)
        if value is None:
            blank[tensor.name] = tuple(tensor.dims)
        else:
            found[tensor.name] = value
    for node in model.graph.node:
        if node.op_type == "Constant" and len(node.attribute) == 1 and len(node.output) == 1:
            attr = node.attribute[0]
            if attr.name == "value":
                value = _value(attr.t, where)
                if value is None:
                    raise ProgramError(f"{where}: constant {node.output[0]!r} has no data")
            elif attr.name in ("value_float", "value_floats"):
                value = np.array(attr.f if attr.name == "value_float" else list(attr.floats), dtype=np.float32)
            elif attr.name in ("value_int", "value_ints"):
                value = np.array(attr.i if attr.name == "value_int" else list(attr.ints), dtype=np.int64)
            else:
                raise ProgramError(f"{where}: constant {node.output[0]!r} holds {attr.name}; only numbers are read")
            found[node.output[0]] = value
    return found, blank


def _value(tensor: TensorProto, where: str) -> Array | None:
    """A tensor's data, or None where the file holds none."""
    from onnx import TensorProto as Proto
    from onnx import helper, numpy_helper

    if tensor.data_type not in helper.get_all_tensor_dtypes():
        raise ProgramError(f"{where}: tensor {tensor.name!r} has no type; export the model again")
    count = prod(tensor.dims)
    if any(d < 0 for d in tensor.dims) or count > MAX_ELEMENTS:
        raise ProgramError(f"{where}: tensor {tensor.name!r} has extents {list(tensor.dims)}")
    if tensor.data_location == Proto.EXTERNAL:
        place = place_of(tensor)
        if Path(place).is_absolute() or ".." in Path(place).parts:
            why = f"the data of {tensor.name!r} is in another file, {place!r}, which is outside of its folder"
            raise ProgramError(f"{where}: {why}; export the model with its data in it")
        try:
            there = bool(place) and (Path(where).parent / place).is_file()
        except OSError:
            there = False  # no name that a file can have
        if not there:
            return None
        raise ProgramError(
            f"{where}: the data of {tensor.name!r} is in another file; save it in one: onnx.save(onnx.load(FILE), FILE)"
        )
    fields = (tensor.raw_data, tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data,
              tensor.string_data)
    if count and not any(len(f) for f in fields):
        return None
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise ProgramError(f"{where}: tensor {tensor.name!r} is damaged ({line(error)})") from error
    return np.asarray(array)


def folded_away(nodes: tuple[Node, ...], constants: dict[str, Array]) -> tuple[Node, ...]:
    """The nodes without those that only bring constants into another shape or quantize them; these join the constants.

    Args:
        nodes: of the file, in order.
        constants: its constants, by name; they gain what these nodes make.
    """
    kept = []
    for node in nodes:
        operands = [constants.get(t) for t in node.inputs if t]
        value = None
        if operands and all(o is not None for o in operands) and len(node.outputs) == 1:
            known = [o for o in operands if o is not None]
            value = _reshaped(node, known) if node.op != "QuantizeLinear" else _quantized(node, known)
        if value is None:
            kept.append(node)
        else:
            constants[node.outputs[0]] = value
    return tuple(kept)


def _quantized(node: Node, operands: list[Array]) -> Array | None:
    """A constant as trained networks have it, float in front of its quantizer, in int8 or uint8."""
    data, scale = operands[0], operands[1]
    zero = operands[2] if len(operands) > 2 else np.zeros(1, _stated(node))
    if zero.size not in (1, scale.size):
        return None
    axis = int(node.attrs.get("axis", 1)) % max(data.ndim, 1)
    per_axis = scale.size > 1
    if data.dtype != np.float32 or zero.dtype not in (np.int8, np.uint8) or node.attrs.get("block_size", 0):
        return None
    if per_axis and (not data.ndim or scale.shape != (data.shape[axis],)):
        return None
    spread = [-1 if d == axis else 1 for d in range(data.ndim)] if per_axis else [1] * data.ndim
    with np.errstate(all="ignore"):
        steps = np.rint(data / scale.reshape(spread).astype(np.float32))
    limits = np.iinfo(zero.dtype)
    moved = steps + (zero.reshape(spread) if zero.size > 1 else zero.reshape([1] * data.ndim)).astype(np.float32)
    if not np.isfinite(moved).all():
        return None
    made: Array = np.clip(moved, limits.min, limits.max).astype(zero.dtype)
    return made


def _stated(node: Node) -> Any:
    """The type that a quantizer without a zero point gives: uint8 where it says nothing."""
    from onnx import helper

    said = int(node.attrs.get("output_dtype", 0))
    return helper.tensor_dtype_to_np_dtype(said) if said in helper.get_all_tensor_dtypes() and said else np.uint8


def _reshaped(node: Node, operands: list[Array]) -> Array | None:
    data = operands[0]
    try:
        if node.op == "Identity":
            return data
        ends = operands[1:]
        if node.op == "Clip" and data.dtype in (np.int8, np.uint8) and len(operands) == len(node.inputs) == 3 and all(
                end.shape in NUMBER for end in ends):
            return np.clip(data, *ends)  # fewer bits
        if node.op == "Transpose":
            return np.transpose(data, node.attrs.get("perm"))
        if node.op == "Flatten":
            axis = int(node.attrs.get("axis", 1))
            return data.reshape(prod(data.shape[:axis]), -1)
        if node.op == "Reshape" and len(operands) == 2:
            wanted = [int(e) for e in operands[1].reshape(-1)]
            keep = not node.attrs.get("allowzero", 0)
            return data.reshape([data.shape[k] if e == 0 and keep else e for k, e in enumerate(wanted)])
    except (ValueError, IndexError, TypeError):
        return None  # inference names what does not fit
    return None
