"""Scales, zero points, weights, biases and ends of clips fit their nodes: looked at once, before anything is made of them.

onnx's checker and its inference of shapes say nothing of these sizes, and a damaged file has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from autosched.networks.onnx_nodes import NUMBER, File, Node, of_numpy

# Places of a node's inputs: scales and zero points of tensors, its weight, what counts outputs (scales and zero points of the
# weight), and its bias.
_PLACES: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], int]] = {
    "QLinearConv": ((1, 2, 6, 7), 3, (4, 5), 8), "QLinearMatMul": ((1, 2, 6, 7), 3, (4, 5), -1),
    "QGemm": ((1, 2, 7, 8), 3, (4, 5), 6), "ConvInteger": ((2,), 1, (3,), -1), "MatMulInteger": ((2,), 1, (3,), -1),
    "Conv": ((), 1, (), 2), "ConvTranspose": ((), 1, (), 2), "Gemm": ((), 1, (), 2), "MatMul": ((), 1, (), -1),
    "QLinearAdd": ((1, 2, 4, 5, 6, 7), -1, (), -1), "QLinearMul": ((1, 2, 4, 5, 6, 7), -1, (), -1),
    "QLinearGlobalAveragePool": ((1, 2, 3, 4), -1, (), -1), "QLinearAveragePool": ((1, 2, 3, 4), -1, (), -1),
    "QLinearSigmoid": ((1, 2, 3, 4), -1, (), -1), "QLinearLeakyRelu": ((1, 2, 3, 4), -1, (), -1),
}
AGAIN = "export the model again"


def check_parameters(file: File) -> None:
    """Refuses a file in which a scale, a zero point, a weight, a bias or the end of a clip cannot belong to its node.

    Args:
        file: otherwise checked.

    Raises:
        ProgramError: names the node, the tensor and the sizes, or a type of an output that nobody can take.
    """
    for node in file.nodes:
        if node.op in ("QuantizeLinear", "DequantizeLinear"):
            _linear(file, node)
        elif node.op in _PLACES:
            _placed(file, node)
        elif node.op == "Clip":
            for name in _given(node, (1, 2)):
                if file.shapes[name] not in NUMBER:
                    raise node.refuse(f"it clips at {name!r}, which has extents {list(file.shapes[name])}", "give it one number")
        for name in node.outputs:
            if name and not prod(file.shapes[name]):
                raise node.refuse(f"its result {name!r} has extents {list(file.shapes[name])}", "give it an image with elements")
            if name in file.outputs and not of_numpy(file.dtypes[name]):
                raise node.refuse(f"output {name!r} is {file.dtypes[name]}, which NumPy has not", "cast it to another type")


def output_channels(op: str, attrs: Mapping[str, Any], weight: tuple[int, ...]) -> tuple[int, int]:
    """How many outputs a weighted operator has, and the dimension of its weight that counts them.

    Args:
        op: the operator.
        attrs: its attributes.
        weight: shape of its weight.
    """
    if op == "ConvTranspose":
        return weight[1] * int(attrs.get("group", 1)), 1
    if "Conv" in op or (op in ("Gemm", "QGemm") and attrs.get("transB", 0)):
        return weight[0], 0
    return weight[-1], len(weight) - 1


def per_output(shape: tuple[int, ...], count: int) -> bool:
    """Whether a bias has one number, or one for each output: it may have one for each row of a matrix, or for each element.

    Args:
        shape: of the bias.
        count: outputs.
    """
    return prod(shape) == 1 or (prod(shape) == count and shape[-1] == count)


def _given(node: Node, places: tuple[int, ...]) -> Iterator[str]:
    yield from (node.inputs[at] for at in places if 0 <= at < len(node.inputs) and node.inputs[at])


def _linear(file: File, node: Node) -> None:
    shape, axis = file.shapes[node.inputs[0]], int(node.attrs.get("axis", 1))
    if node.attrs.get("block_size", 0):
        raise node.refuse("its scales are per block", "quantize per tensor or per channel")
    sizes = [prod(file.shapes[name]) for name in _given(node, (1, 2))]
    if all(size == 1 for size in sizes):
        return
    if not -len(shape) <= axis < len(shape) or set(sizes) - {1, shape[axis]}:
        what = f"{' and '.join(map(str, sizes))} scales and zero points along axis {axis} of a tensor {list(shape)}"
        raise node.refuse(f"it has {what}", AGAIN)


def _placed(file: File, node: Node) -> None:
    single, at, many, bias = _PLACES[node.op]
    for name in _given(node, single):
        if prod(file.shapes[name]) != 1:
            raise node.refuse(f"{name!r} has {prod(file.shapes[name])} numbers, not one", "tensors take one scale: " + AGAIN)
    if at < 0:
        return
    if at >= len(node.inputs):
        raise node.refuse("it has no weight", AGAIN)
    weight = file.shapes[node.inputs[at]]
    if len(weight) < 2 and node.op not in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        raise node.refuse(f"its weight has extents {list(weight)}", AGAIN)
    if len(weight) < 2:
        return  # a vector is no layer's weight, and whoever matches it says so
    count, _ = output_channels(node.op, node.attrs, weight)
    for name in _given(node, many):
        if prod(file.shapes[name]) not in (1, count):
            raise node.refuse(f"{name!r} has {prod(file.shapes[name])} numbers for {count} outputs", AGAIN)
    for name in _given(node, (bias,)):
        if "Gemm" in node.op:
            if len(file.shapes[name]) > 2 or file.shapes[name][-1:] not in ((), (1,), (count,)):
                raise node.refuse(f"its bias {name!r} has extents {list(file.shapes[name])} for {count} outputs", AGAIN)
        elif prod(file.shapes[name]) != count:
            why = f"its bias {name!r} has {prod(file.shapes[name])} numbers for {count} outputs"
            raise node.refuse(why, "the machine takes one per output")
