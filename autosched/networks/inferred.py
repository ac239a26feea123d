"""Extents of a file's tensors as onnxruntime has them, also where onnx infers none, or others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.errors import ProgramError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_SHAPED_LIKE = {
    "QLinearAdd": ("Max", (0, 3)),
    "QLinearGlobalAveragePool": ("GlobalMaxPool", (0,)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearMul": ("Max", (0, 3)),
    "QLinearSigmoid": ("Identity", (0,)),
    "QLinearLeakyRelu": ("Identity", (0,)),
    "QLinearSoftmax": ("Identity", (0,)),
    "QLinearConcat": ("Concat", None),  # behind its scale, every third input is a tensor
    "QGemm": ("Gemm", (0, 3)),
    "GroupNormalization": ("Identity", (0,)),
    "MeanVarianceNormalization": ("Identity", (0,)),
    "QuantizeLinear": ("QuantizeLinear", (0, 1, 2)),
    "DequantizeLinear": ("DequantizeLinear", (0, 1, 2)),
}


def inferred(model: ModelProto, where: str) -> ModelProto:
    """A model with the types and extents of its tensors.

    Args:
        model: a checked model.
        where: what a refusal calls it.

    Raises:
        ProgramError: its extents contradict each other.
    """
    import onnx

    probe = model
    if any(map(_lacking, model.graph.node)):
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        del probe.graph.node[:]
        probe.graph.node.extend([twin for node in model.graph.node for twin in twins(node)])
    try:
        if any(_upwards(n) for n in probe.graph.node):
            probe = _counted(probe)
        return onnx.shape_inference.infer_shapes(probe, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        if "instead is null" in str(error):
            # A node behind the one that nothing is inferred of, which is named where shapes are looked up.
            return onnx.shape_inference.infer_shapes(probe, data_prop=True)
        raise ProgramError(f"{where}: shapes do not fit: {line(error)}") from error


def _lacking(node: NodeProto) -> bool:
    """Whether onnx infers nothing of an operator for which there is a plain one."""
    plain = _SHAPED_LIKE.get(node.op_type, ("",))[0]
    return bool(plain) and (plain != node.op_type or node.domain == "com.microsoft")


def twins(node: NodeProto) -> tuple[NodeProto, ...]:
    """What stands for a node of which onnx infers nothing, be it one of its own: plain nodes of the same extents.

    Args:
        node: an operator.

    Returns:
        these, or the node itself.
    """
    import onnx

    if not _lacking(node):
        return (node,)
    twin, behind = onnx.NodeProto(), []
    twin.CopyFrom(node)
    if node.op_type == "QGemm" and not (len(node.input) > 7 and node.input[7]):
        # Without a scale of its result that is float.
        wide = node.output[0]
        twin.output[0] = f"{wide}:sums"
        behind = [onnx.helper.make_node("Cast", [twin.output[0]], [wide], to=onnx.TensorProto.FLOAT)]
    twin.op_type, places = _SHAPED_LIKE[node.op_type]
    del twin.input[:]
    twin.input.extend(node.input[2::3] if places is None else [node.input[i] for i in places if i < len(node.input)])
    twin.domain = ""
    kept = [a for a in node.attribute if twin.op_type != "Identity" and a.name not in ("channels_last", "opset")]
    del twin.attribute[:]
    twin.attribute.extend(kept)
    return (twin, *behind)


def _upwards(node: NodeProto) -> bool:
    """Whether an operator is a pool that counts its windows upwards (ceil_mode), with padding that is written as numbers."""
    at = {a.name: a for a in node.attribute}
    plain = "auto_pad" not in at or at["auto_pad"].s == b"NOTSET"
    return node.op_type in ("MaxPool", "AveragePool") and "ceil_mode" in at and at["ceil_mode"].i != 0 and plain


def downwards(node: NodeProto, extents: Sequence[int], alike: bool = True) -> NodeProto | None:
    """A pool that counts windows downwards for one that counts them upwards (ceil_mode), of which one begins behind the image.

    onnxruntime leaves such windows out in every operator set, onnx from 22 on: where there is one, as many are left as windows
    counted downwards. onnxruntime itself may take the extents that onnx has for those of a result.

    Args:
        node: an operator.
        extents: of its image, without those of images and channels.
        alike: whether its numbers count, and not the extents of its result alone: a mean is not over what hangs over the edge.

    Returns:
        the pool, None of any other operator.
    """
    import onnx

    if not _upwards(node):
        return None
    given = {a.name: list(a.ints) for a in node.attribute}
    kernel, rank = given["kernel_shape"], len(given["kernel_shape"])
    pads, steps, apart = given.get("pads", [0] * 2 * rank), given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    if len(extents) != rank or min(steps) < 1:
        return None
    ends, behind, over = [], False, False
    for e, k, s, d, before, after in zip(extents, kernel, steps, apart, pads[:rank], pads[rank:]):
        rest = e + before + after - (k - 1) * d - 1
        late = -(-rest // s) * s >= e + before
        ends.append(after if late else after + -rest % s)
        behind |= late
        over |= ends[-1] != after
    # onnxruntime takes no padding as wide as a kernel, be it dilated.
    if not behind or (alike and over and (node.op_type != "MaxPool" or any(a >= k for a, k in zip(ends, kernel)))):
        return None
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend([a for a in node.attribute if a.name not in ("ceil_mode", "pads")])
    made.attribute.append(onnx.helper.make_attribute("pads", [*pads[:rank], *ends]))
    return made


def _counted(model: ModelProto) -> ModelProto:
    """A model whose pools do not count windows that begin behind the image."""
    import onnx

    made, wrong = onnx.ModelProto(), set[str]()
    made.CopyFrom(model)
    for node in made.graph.node:
        if not _upwards(node):
            continue
        rough = onnx.ModelProto()
        rough.CopyFrom(made)
        del rough.graph.value_info[:]  # what the file states may be right where onnx is not
        for output in rough.graph.output:
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
        graph = onnx.shape_inference.infer_shapes(rough, data_prop=True).graph
        tensors = (*graph.input, *graph.value_info, *graph.output)
        known = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in tensors}
        plain = downwards(node, known.get(node.input[0], [])[2:], alike=False)
        if plain is not None:
            node.CopyFrom(plain)
            wrong.update(node.output)
    for node in made.graph.node:
        if wrong & {*node.input}:
            wrong.update(node.output)
    # What a file states of these may come from onnx.
    stated = [v for v in made.graph.value_info if v.name not in wrong]
    del made.graph.value_info[:]
    made.graph.value_info.extend(stated)
    for output in made.graph.output:
        if output.name in wrong and output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return made


def line(error: BaseException) -> str:
    """An error's text in one line."""
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:197] + "..."
