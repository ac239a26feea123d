"""Float networks on tensors of other ranks as networks on images and matrices, which is what layers are made of.

Signals (N, C, L) are images of one row, and a product of many dimensions with a matrix is one of as many rows as those in front
of the last have elements. A tensor may so have a *twin*, the same elements under another shape. Operators go over to twins where
they compute the same there; whoever else reads the tensor reads a Reshape of its twin. The mean of all behind the channels, which
exporters write as a reduction, is a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from autosched.networks.floats import WEIGHTED, FloatNet, Op, folded
from autosched.networks.graph import Array

# Attributes with a number for each direction of a window, and what they are where there is but one row.
_WINDOWS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}
_OF_IMAGES = ("MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization")
_EACH = ("Relu", "Clip", "Identity")
_VIEWS = ("Reshape", "Squeeze", "Unsqueeze")
IMAGE, ROWS = "image", "rows"


def ranked(net: FloatNet, dtypes: Mapping[str, str]) -> FloatNet:
    """The network with images and matrices wherever a layer may then be made; the same where there is nothing to gain.

    Args:
        net: the network.
        dtypes: types of its file's tensors.
    """
    def floats(tensor: str) -> bool:
        return net.floats.get(tensor, dtypes.get(tensor, "float32")) == "float32"

    turned = _Turned(net, floats)
    for op in net.ops:
        for part in _pooled(net, op, turned) if op.inputs and floats(op.inputs[0]) else (op,):
            turned.take(part)
    for t in net.outputs:
        turned.plain(t)
    return net if turned.ops == net.ops else folded(replace(net, ops=turned.ops))


def _pooled(net: FloatNet, op: Op, turned: _Turned) -> Sequence[Op]:
    """A mean of all behind the channels as a pool, and what drops the dimensions; any other operator as it is."""
    shape = net.shapes.get(op.inputs[0], ())
    if (op.op, op.domain) != ("ReduceMean", "") or len(shape) not in (3, 4):
        return (op,)
    if len(shape) == 3 and (turned.same.get(op.inputs[0], op.inputs[0]), IMAGE) not in turned.twins:
        # It is no signal's, and stays on the host: int8 would only cost it what norms of tokens live from.
        return (op,)
    given = net.constants.get(op.inputs[1], ()) if len(op.inputs) > 1 and op.inputs[1] else op.attrs.get("axes", ())
    if sorted(int(a) % len(shape) for a in given) != list(range(2, len(shape))):
        return (op,)
    (out,) = op.outputs
    pool = Op(op.name, "GlobalAveragePool", op.inputs[:1], op.outputs)
    if op.attrs.get("keepdims", 1):
        return (pool,)
    whole, to = net.names.free(f"{out}:{IMAGE}"), net.names.free(f"{out}:shape")
    net.shapes[whole] = (*shape[:2], *[1] * (len(shape) - 2))
    net.constants[to] = np.array(shape[:2], np.int64)
    return replace(pool, outputs=(whole,)), Op(net.names.free(f"{out}:reshape"), "Reshape", (whole, to), (out,))


@dataclass(eq=False)
class _Turned:
    """The operators so far.

    Args:
        net: the network; it gains names, constants and shapes.
        floats: whether a tensor is of float32.
        ops: its operators, turned.
        twins: name of a tensor's twin, by tensor and form.
        hidden: what makes a tensor of its twin, where nobody has read it in its own shape yet.
        same: twins that the file itself makes of a tensor, and those that there are.
    """

    net: FloatNet
    floats: Callable[[str], bool]
    ops: list[Op] = field(default_factory=list)
    twins: dict[tuple[str, str], str] = field(default_factory=dict)
    hidden: dict[str, Op] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)

    def take(self, op: Op) -> None:
        """Adds an operator, on twins where it may be."""
        op = replace(op, inputs=tuple([self.same.get(t, t) for t in op.inputs])) if self.same.keys() & {*op.inputs} else op
        if op.domain == "" and (form := self._form(op)):
            self._turn(op, form)
            return
        if op.domain == "" and op.op in _VIEWS and self._views(op):
            return
        for t in op.inputs:
            self.plain(t)
        self.ops.append(op)

    def _views(self, op: Op) -> bool:
        """Whether the file itself makes a twin, or of one the tensor: then nothing is to do until somebody reads the tensor."""
        source, out = op.inputs[0], op.outputs[0]
        shapes = self.net.shapes
        if source in self.net.constants or source not in shapes or out not in shapes or not self.floats(out):
            return False
        for form in (IMAGE, ROWS):
            if _shape(shapes[out], form) == shapes[source]:
                self.plain(source)
                self.twins[out, form], self.hidden[out] = source, op
                return True
            twin = self.twins.get((source, form), "")
            if twin and shapes[twin] == shapes[out] and out not in self.net.outputs:
                self.same[out] = twin
                return True
        return False

    def plain(self, tensor: str) -> None:
        """Makes sure that a tensor is there in its own shape."""
        if tensor in self.hidden:
            self.ops.append(self.hidden.pop(tensor))

    def _form(self, op: Op) -> str:
        """The form whose twins an operator may go over to, or nothing."""
        net = self.net
        out = op.outputs[0]
        x = next((t for t in op.inputs if t and t not in net.constants), "")
        known = [net.shapes.get(t, ()) for t in (x, out)]
        if any(len(s) < 3 or min(s) < 1 for s in known) or any(op.outputs[1:]):
            return ""
        signal = all(len(s) == 3 for s in known)
        weight = net.constants.get(op.inputs[1]) if op.op in WEIGHTED else None
        if op.op in WEIGHTED and (weight is None or weight.dtype != np.float32 or x != op.inputs[0]):
            return ""
        if op.op == "MatMul":
            return ROWS if weight is not None and weight.ndim == 2 else ""
        if op.op in WEIGHTED:
            fixed = all(t in net.constants for t in op.inputs[2:] if t)
            return IMAGE if signal and fixed and "output_shape" not in op.attrs else ""
        if op.op == "Pad":
            pads = net.constants.get(op.inputs[1])
            fixed = pads is not None and pads.size == 6 and len(op.inputs) < 4 and x == op.inputs[0]
            fixed = fixed and all(t in net.constants for t in op.inputs[2:] if t)
            return IMAGE if signal and fixed and (x, IMAGE) in self.twins else ""
        for form in (IMAGE, ROWS):
            if not any((t, form) in self.twins for t in (op.inputs if op.op == "Add" else (x,))):
                continue
            if op.op in _EACH or (op.op in _OF_IMAGES and form == IMAGE):
                return form if all(t in net.constants for t in op.inputs[1:] if t) else ""
            if op.op == "Add" and all(self._addend(t, form, known[1]) for t in op.inputs):
                return form
        return ""

    def _addend(self, tensor: str, form: str, shape: tuple[int, ...]) -> bool:
        """Whether a tensor may be added to a twin: it has one, may have one, or is a constant for each output."""
        value = self.net.constants.get(tensor)
        if value is None:
            return self.net.shapes.get(tensor) == shape
        vector = value.shape[-1:] == (value.size,) if form == ROWS else value.ndim >= 2 and value.shape[-2] == value.size
        return vector and value.ndim <= len(shape)

    def _turn(self, op: Op, form: str) -> None:
        """Adds an operator on twins."""
        net, out = self.net, op.outputs[0]
        own = {t: self._twin(t, form) for t in op.inputs if t and t not in net.constants}
        inputs = [own.get(t, t) for t in op.inputs]
        attrs: dict[str, Any] = dict(op.attrs)
        if form == IMAGE:
            for name, one in _WINDOWS.items():
                if name in attrs:
                    attrs[name] = [one, *attrs[name]]
            if "pads" in attrs and op.op != "Pad":
                before, after = attrs["pads"]
                attrs["pads"] = [0, before, 0, after]
            if op.op in ("Conv", "ConvTranspose"):
                weight = net.constants[op.inputs[1]]
                inputs[1] = self._constant(f"{op.inputs[1]}:{form}", weight.reshape(*weight.shape[:2], 1, -1))
            elif op.op == "Pad":
                n, c, w, *after = net.constants[op.inputs[1]].reshape(-1)
                pads = np.array([n, c, 0, w, *after[:2], 0, after[2]], np.int64)
                inputs[1] = self._constant(f"{op.inputs[1]}:{form}", pads)
            elif op.op == "Add":
                inputs = [self._channels(t) if t in net.constants else t for t in inputs]
        elif op.op == "Add":
            inputs = [self._constant(f"{t}:{form}", net.constants[t].reshape(-1)) if t in net.constants else t for t in inputs]
        twin = self._named(out, form)
        self.ops.append(replace(op, inputs=tuple(inputs), outputs=(twin,), attrs=attrs, given=_written(op, attrs)))
        self.hidden[out] = self._reshape(twin, out, net.shapes[out])

    def _channels(self, name: str) -> str:
        value = self.net.constants[name]
        return self._constant(f"{name}:{IMAGE}", value.reshape(1, -1, 1, 1))

    def _twin(self, tensor: str, form: str) -> str:
        """The twin of a tensor."""
        if (tensor, form) not in self.twins:
            self.plain(tensor)
            twin = self._named(tensor, form)
            self.ops.append(self._reshape(tensor, twin, self.net.shapes[twin]))
        return self.twins[tensor, form]

    def _named(self, tensor: str, form: str) -> str:
        """The name of a twin that is about to be made."""
        shape = self.net.shapes[tensor]
        name = self.twins[tensor, form] = self.net.names.free(f"{tensor}:{form}")
        self.net.shapes[name] = _shape(shape, form)
        return name

    def _reshape(self, source: str, out: str, shape: Sequence[int]) -> Op:
        to = self._constant(f"{out}:shape", np.array(shape, np.int64))
        return Op(self.net.names.free(f"{out}:reshape"), "Reshape", (source, to), (out,))

    def _constant(self, wanted: str, value: Array) -> str:
        name = self.net.names.free(wanted)
        self.net.constants[name] = value
        return name


def _shape(shape: tuple[int, ...], form: str) -> tuple[int, ...]:
    """The shape of a twin of a tensor of this shape; none where it has none."""
    if form == IMAGE:
        return (*shape[:2], 1, shape[2]) if len(shape) == 3 else ()
    return (prod(shape[:-1]), shape[-1]) if len(shape) > 2 else ()


def _written(op: Op, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The attributes of an operator as a file has them, those anew that changed."""
    from onnx import helper

    changed = {k for k, v in attrs.items() if v != op.attrs[k]}
    return tuple(helper.make_attribute(a.name, attrs[a.name]) if a.name in changed else a for a in op.given)
