"""Layers written in integers: ConvInteger or MatMulInteger, sums of int32, a product with 2^-s, Floor, Clip, Cast to int8.

This is the form in which the reference of a network is written (``reference.py``); the file itself says how it rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from autosched.networks.graph import Array, Ints, Layer, Requant
from autosched.networks.matcher import Found
from autosched.networks.onnx_nodes import FLOAT, Node
from autosched.networks.qdq import dense_fault
from autosched.networks.ranges import clipped_again, whole
from autosched.networks.scales import Value, exponent, int8_weight, zero_point
from autosched.networks.windows import Window, max_layer, padding_fault, window

FLOOR = "round towards minus infinity: write Add 2^(s-1), Mul 2^-s, Floor, or take the QDQ form"


@dataclass(eq=False)
class _Sums:
    """Exact sums on their way to int8: ``(core + bias) * 2**-shift``, between ``low`` and ``high`` in the same units."""

    layer: Layer
    channels: int
    bias: Ints
    shift: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    low: float = -np.inf
    high: float = np.inf
    floored: bool = False
    nodes: list[str] = field(default_factory=list)

    @property
    def clips(self) -> bool:
        """Whether they are clipped so far."""
        return bool(np.isfinite(self.low) or np.isfinite(self.high))


def match(found: Found, node: Node) -> None:
    """Makes a layer of a ConvInteger or MatMulInteger with what follows it, or notes why it stays on the host."""
    core = _core(found, node)
    if isinstance(core, str):
        found.reasons[node.name] = core
        return
    _finish(found, node, core, node.outputs[0])


def match_sum(found: Found, node: Node) -> None:
    """Makes a layer of an int32 Add of two widened int8 tensors, or notes why it stays on the host."""
    operands = [_widened(found, name) for name in node.inputs]
    if any(o is None for o in operands):
        found.reasons[node.name] = "not a sum of widened int8 tensors"
        return
    parts = [o for o in operands if o is not None]
    if len({found.file.shapes[name] for name, _, _ in parts}) > 1:
        found.reasons[node.name] = "its operands have different shapes"
        return
    if found.file.shapes[node.outputs[0]] != found.file.shapes[parts[0][0]]:
        # A factor of more dimensions gives its result more.
        found.reasons[node.name] = "its result has other extents than its operands"
        return
    factors = tuple(f for _, f, _ in parts)
    if any(not 1 <= f <= 64 or f & (f - 1) for f in factors):
        found.reasons[node.name] = f"factors {factors} are no powers of two up to 64"
        return
    names = [_plain(found, node, name) for name, _, _ in parts]
    layer = Layer(node.name, "add", tuple(names), "", factors=factors)
    if (fault := found.rank_fault(names[0])) is not None:
        found.reasons[node.name] = fault
        return
    nodes = [*(n for _, _, used in parts for n in used), node.name]
    core = _Sums(layer, found.file.shapes[names[0]][1], np.zeros(1, dtype=np.int64), nodes=nodes)
    _finish(found, node, core, node.outputs[0])


def match_pool(found: Found, node: Node) -> None:
    """Makes a layer of a pool by maxima of an int8 tensor, or notes why it stays on the host."""
    name = node.inputs[0]
    if found.file.is_constant(name):
        found.reasons[node.name] = "its input is a constant"
        return
    known = found.plain(name)
    layer = max_layer(found, node, Value(known.name, known.exponent or 0, known.zero))
    if isinstance(layer, str):
        found.reasons[node.name] = layer
        return
    out = found.tensor(node.outputs[0], known.exponent, known.zero)
    found.add(replace(layer, output=out.name, nodes=(node.name,)))


def _plain(found: Found, node: Node, name: str, zero: int = 0) -> str:
    """An int8 tensor of no known scale."""
    if found.file.dtypes[name] not in ("int8", "uint8"):
        raise node.refuse(f"{name!r} is {found.file.dtypes[name]}", "the machine takes int8")
    return found.plain(name, zero).name


def _widened(found: Found, name: str) -> tuple[str, int, list[str]] | None:
    """An int8 tensor behind a Cast to int32 and at most one Mul by a constant: its name, the factor, the nodes."""
    factor, nodes = 1, []
    at = found.file.producer(name)
    while at is not None and at.op in ("Cast", "Mul"):
        nodes.append(at.name)
        if at.op == "Cast":
            source = at.inputs[0]
            if found.file.dtypes.get(source) != "int8" or found.file.is_constant(source):
                return None
            return source, factor, nodes
        fixed = [x for x in at.inputs if x in found.file.constants]
        other = [x for x in at.inputs if x not in found.file.constants]
        if len(fixed) != 1 or len(other) != 1 or found.file.constants[fixed[0]].size != 1:
            return None
        factor *= int(found.file.constants[fixed[0]].reshape(-1)[0])
        at = found.file.producer(other[0])
    return None


def _core(found: Found, node: Node) -> _Sums | str:
    file = found.file
    x, name = node.inputs[:2]
    if not file.is_constant(name):
        return "its weight is no constant"
    if file.is_constant(x):
        return "its input is a constant"
    source = file.producer(x)
    if source is not None and source.op == "DynamicQuantizeLinear":
        why = "its scale is chosen while it runs (DynamicQuantizeLinear)"
        raise node.refuse(why, FLOAT)
    zeros = [*node.inputs[2:4], "", ""][:2]
    weight: Array = np.zeros(file.blank[name], np.int8) if name in file.blank else int8_weight(file, node, name, zeros[1])
    zero_in = zero_point(file, node, zeros[0], repr(x))
    zero = int(zero_in[0]) - (128 if file.dtypes[x] == "uint8" else 0)
    value = Value(_plain(found, node, x, zero), 0, zero)
    sizes, kernel, group = Window(), (1, 1), 1
    if node.op == "ConvInteger":
        if weight.ndim != 4:
            return "only convolutions of images are on the machine"
        kernel = (weight.shape[2], weight.shape[3])
        made = window(node, value, file.shapes[x], kernel)
        if isinstance(made, str):
            return made
        sizes = made
        padding_fault(value, sizes.pads, node)
        group = int(node.attrs.get("group", 1))
    else:
        reason = dense_fault(node, file.shapes[x], weight.shape)
        if reason:
            return reason
        weight = np.ascontiguousarray(weight.T)
    sums = weight.astype(np.int64).reshape(len(weight), -1).sum(axis=1)
    kind = "conv" if node.op == "ConvInteger" else "dense"
    layer = Layer(
        node.name, kind, (value.tensor,), "", None, weight, (), kernel, sizes.stride, sizes.pads, group, dilation=sizes.dilation,
    )
    return _Sums(layer, len(weight), -zero * sums, nodes=[node.name])


def _per_channel(found: Found, name: str, core: _Sums, rank: int) -> Array | None:
    """A constant that is one number or one per channel, flat; None where it is neither."""
    value = found.file.constants.get(name)
    if value is None or value.ndim > rank:
        return None
    if value.size == 1:
        return value.reshape(-1)
    axis = 1 if core.layer.kind != "dense" else rank - 1
    whole = value.reshape((1,) * (rank - value.ndim) + value.shape) if value.ndim <= rank else value
    if whole.ndim != rank or whole.size != core.channels or whole.shape[axis] != core.channels:
        return None
    return whole.reshape(-1)


def _finish(found: Found, node: Node, core: _Sums, at: str) -> None:
    """Follows the sums to the Cast that narrows them, and makes the layer."""
    file = found.file
    rank = len(file.shapes[at])
    while True:
        reader = file.only_reader(at)
        if reader is None:
            found.reasons[node.name] = f"its sums {at!r} are not only narrowed to int8"
            return
        reason = _step(found, reader, core, at, rank)
        if reason is not None:
            found.reasons[node.name] = reason
            return
        core.nodes.append(reader.name)
        at = reader.outputs[0]
        if reader.op == "Cast" and file.dtypes[at] in ("int8", "uint8"):
            break
    offset = 128 if file.dtypes[at] == "uint8" else 0
    if int(core.shift.max()) > 0 and not core.floored:
        raise node.refuse(f"its sums are narrowed to {at!r} without Floor", FLOOR)
    if max(core.low, -128 + offset) != core.low or min(core.high, 127 + offset) != core.high:
        raise node.refuse(f"its sums are narrowed to {at!r} without a Clip to the range of {file.dtypes[at]}", "add the Clip")
    if int(core.shift.min()) < 0 or int(core.shift.max()) > 31:
        raise node.refuse(f"its sums are multiplied by 2^{-int(core.shift.min())}", "the machine shifts right by 0 to 31")
    known = file.dtypes[at]
    out = found.tensor(at, None, 0) if known == "int8" else found.tensor(at, None, -128)
    bias = np.broadcast_to(core.bias, (core.channels,)).astype(np.int64)
    if offset:
        bias = bias - (np.int64(offset) << np.broadcast_to(core.shift, (core.channels,)))
    if core.layer.kind == "add" and bool((bias == bias[0]).all()):
        bias = bias[:1]
    if len(core.shift) > 1 and bool((core.shift == core.shift[0]).all()):
        core.shift = core.shift[:1]
    done = Requant(bias, core.shift, int(core.low) - offset, int(core.high) - offset)
    found.add(replace(core.layer, output=out.name, requant=done, nodes=tuple(dict.fromkeys(core.nodes))))


def _step(found: Found, reader: Node, core: _Sums, at: str, rank: int) -> str | None:
    """Takes one node behind the sums in; returns why it cannot be."""
    file = found.file
    other = [x for x in reader.inputs if x and x != at]
    if reader.op == "Cast":
        to = file.dtypes[reader.outputs[0]]
        if to in ("int32", "int64") and int(core.shift.max()) > 0 and not core.floored:
            raise reader.refuse("it cuts off what is behind the point, which rounds towards zero", FLOOR)
        if to in ("float32", "float64", "int32", "int64", "int8", "uint8"):
            return None
        return f"its sums become {to}"
    if reader.op == "Add" and len(other) == 1 and not core.floored:
        value = _per_channel(found, other[0], core, rank)
        if value is None:
            return f"what node {reader.name!r} adds is not one constant per channel"
        if core.clips and len(np.unique(value)) > 1:
            return f"what node {reader.name!r} adds behind a clip is not one constant"
        scaled = whole(value.astype(np.float64) * 2.0 ** core.shift.astype(np.float64))
        if scaled is None:
            raise reader.refuse("it adds a part of the last bit of the sums, or more than an int32 holds",
                                "add whole numbers to the int32 sums")
        core.bias = np.asarray(core.bias + scaled)
        core.low, core.high = (end + float(value.flat[0]) for end in (core.low, core.high))
        return None
    if reader.op in ("Mul", "Div") and len(other) == 1 and not core.floored and (reader.op == "Mul" or reader.inputs[0] == at):
        value = _per_channel(found, other[0], core, rank)
        if value is None:
            return f"what node {reader.name!r} scales by is not one constant per channel"
        if file.dtypes[at].startswith("int"):
            if reader.op == "Div":
                raise reader.refuse("it divides integers, which rounds towards zero", FLOOR)
            return f"node {reader.name!r} multiplies integers, which may wrap around"
        if core.clips and len(np.unique(value)) > 1:
            return f"what node {reader.name!r} scales by behind a clip is not one constant"
        powers = [exponent(float(v)) for v in value]
        if None in powers:
            raise reader.refuse(f"it scales by {float(value[powers.index(None)]):.6g}, no power of two", FLOOR)
        step = np.array(powers, dtype=np.int64)
        step = step if reader.op == "Mul" else -step
        core.shift = core.shift + step
        core.low, core.high = (end * 2.0 ** -float(step[0]) for end in (core.low, core.high))
        return None
    if reader.op == "Floor":
        core.floored = True
        core.low, core.high = float(np.floor(core.low)), float(np.floor(core.high))
        return None
    if reader.op == "Round":
        raise reader.refuse("it rounds half to even", FLOOR)
    if reader.op == "Relu":
        core.low, core.high = clipped_again(core.low, core.high, (0.0, np.inf))
        return None
    if reader.op in ("Max", "Min") and len(other) == 1 and other[0] in file.constants and file.constants[other[0]].size == 1 and (
            file.constants[other[0]].ndim <= rank):
        end = float(file.constants[other[0]].reshape(-1)[0])
        if not np.isfinite(end) or end != np.rint(end):
            return f"node {reader.name!r} clips between whole numbers"
        then = (end, np.inf) if reader.op == "Max" else (-np.inf, end)
        core.low, core.high = clipped_again(core.low, core.high, then)
        return None
    if reader.op == "Clip" and reader.inputs[0] == at and all(x in file.constants for x in other):
        ends = [float(file.constants[x].reshape(-1)[0]) if x else d for x, d in zip(
            (*reader.inputs[1:], "", "")[:2], (-np.inf, np.inf))]
        if any(np.isfinite(e) and e != np.rint(e) for e in ends):
            return f"node {reader.name!r} clips between whole numbers"
        core.low, core.high = clipped_again(core.low, core.high, (ends[0], ends[1]))
        return None
    return f"its sums go into node {reader.name!r} ({reader.op})"
