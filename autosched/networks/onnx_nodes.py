"""A checked ONNX file as data: its nodes, constants, shapes and types, and who makes and reads a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import Array

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

FLOAT = "quantize the float network it was made of: autosched quantize FLOAT.onnx --calibrate data.npz -o q.onnx"
SINGLE = "float32 is what can be quantized: export the model in float32"
NUMBER: tuple[tuple[int, ...], ...] = ((), (1,))  # extents of the ends of a Clip: onnxruntime takes no others


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the file.

    Args:
        name: unique; made from the operator and its place where the file gives none.
        op: operator.
        inputs: tensor names; "" where an optional one is left out.
        outputs: tensor names.
        attrs: attributes as Python values.
        proto: the node itself.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    proto: NodeProto = field(repr=False)

    def refuse(self, why: str, do: str) -> ProgramError:
        """A refusal that names the node and what to do."""
        op = self.op if self.op.isprintable() else repr(self.op)
        return ProgramError(f"node {self.name!r} ({op}): {why}; {do}")


@dataclass(frozen=True, eq=False)
class File:
    """A checked file.

    Args:
        name: its name without ending.
        model: the model.
        nodes: in order of execution; constants are no nodes.
        constants: values of initializers and constant nodes.
        blank: shapes of the initializers whose data the file lacks.
        shapes: of all tensors.
        dtypes: of all tensors, as NumPy names.
        inputs: names of the graph's inputs that are no constants.
        outputs: names of the graph's outputs.
        opset: version of the default operator set.
        made_by: index of the node that writes a tensor.
        read_by: indices of the nodes that read a tensor.
    """

    name: str
    model: ModelProto = field(repr=False)
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(repr=False)
    blank: Mapping[str, tuple[int, ...]]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int
    made_by: Mapping[str, int]
    read_by: Mapping[str, tuple[int, ...]]

    def producer(self, tensor: str) -> Node | None:
        """The node that writes a tensor."""
        at = self.made_by.get(tensor)
        return None if at is None else self.nodes[at]

    def is_constant(self, tensor: str) -> bool:
        """Whether a tensor is the file's own, with or without data."""
        return tensor in self.constants or tensor in self.blank

    def lack(self, tensor: str) -> str:
        """Why a tensor of ``blank`` is of no use, as refusals go on behind its name."""
        place = next((place_of(t) for t in self.model.graph.initializer if t.name == tensor), "")
        return f"has its data in {place!r}, which is missing" if place else "has a shape and no data"

    def only_reader(self, tensor: str) -> Node | None:
        """The one node that reads a tensor, or None where there are others or it leaves the graph."""
        found = self.read_by.get(tensor, ())
        return self.nodes[found[0]] if len(found) == 1 and tensor not in self.outputs else None


def of_numpy(dtype: str | np.dtype[Any]) -> bool:
    """Whether onnxruntime takes and gives arrays of a type: one of NumPy's own, and none that other packages add to it.

    Args:
        dtype: the type, or its name.
    """
    return np.dtype(dtype).isbuiltin == 1


def other_float(file: File, node: Node) -> bool:
    """Whether a node computes in a floating type that is not quantized.

    Args:
        file: the node's.
        node: it takes something.
    """
    dtype = file.dtypes.get(node.inputs[0], "")
    return "float" in dtype and dtype != "float32"


def place_of(tensor: TensorProto) -> str:
    """Which other file a tensor's data is in; "" where none is named.

    Args:
        tensor: as the file has it.
    """
    return next((e.value for e in tensor.external_data if e.key == "location"), "")
