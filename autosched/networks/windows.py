"""Operators with windows: strides and padding as the file says them, and pools as layers; or why the machine has no such."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from autosched.networks.graph import Array, Ints, Layer, spanned
from autosched.networks.matcher import Found, requant
from autosched.networks.onnx_nodes import Node
from autosched.networks.ranges import least
from autosched.networks.scales import Value
from autosched.networks.transposed import directions


class Window(NamedTuple):
    """Where the windows of an operator lie, as ``Layer`` says it."""

    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)


def window(node: Node, value: Value, shape: tuple[int, ...], kernel: tuple[int, int]) -> Window | str:
    """The windows of an operator, or why the machine's form does not have them."""
    if len(shape) != 4:
        return "only images (N, C, H, W) have windows on the machine"
    stride = tuple(node.attrs.get("strides", [1, 1]))
    dilation = tuple(node.attrs.get("dilations", [1, 1]))
    if any(d != 1 for d in dilation) and "Conv" not in node.op:
        return "dilated windows of pools are not on the machine"
    span = spanned(kernel, dilation)
    auto = node.attrs.get("auto_pad", "NOTSET")
    pads = list(node.attrs.get("pads", [0, 0, 0, 0]))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        more = [
            max((-(-(e + value.pads[d] + value.pads[d + 2]) // s) - 1) * s + k - e - value.pads[d] - value.pads[d + 2], 0)
            for d, (e, s, k) in enumerate(zip(shape[2:], stride, span))
        ]
        small = [m // 2 for m in more]
        large = [m - m // 2 for m in more]
        pads = [*small, *large] if auto == "SAME_UPPER" else [*large, *small]
    elif auto == "VALID":
        pads = [0, 0, 0, 0]
    if node.attrs.get("ceil_mode", 0):
        over = [-(e + a + b - k) % s for e, k, s, a, b in zip(shape[2:], span, stride, pads[:2], pads[2:])]
        # What hangs over counts in a mean or does not, as the operator set says, and windows behind the image are none.
        behind = any(a + o >= k for o, k, a in zip(over, span, pads[2:]))
        if any(over) and (behind or node.op != "MaxPool" or auto != "NOTSET"):
            return "windows that hang over the edge (ceil_mode) are not on the machine"
        pads = [*pads[:2], *(a + o for a, o in zip(pads[2:], over))]
    all_pads = tuple(int(a + b) for a, b in zip(pads, value.pads))
    return Window(
        (int(stride[0]), int(stride[1])), (all_pads[0], all_pads[1], all_pads[2], all_pads[3]),
        (int(dilation[0]), int(dilation[1])),
    )


def weight_sums(weight: Array, zero: int, shape: tuple[int, ...], sizes: Window) -> Ints:
    """The sum of the weights that read elements of an image: what a zero point of the image takes away from a convolution.

    The machine pads with 0, and so does the file, whose 0 is the zero point: weights outside of the image count neither there nor
    here.

    Args:
        weight: [co, ci, kh, kw].
        zero: zero point of the image.
        shape: of the image.
        sizes: where the windows lie.

    Returns:
        one for each channel; where some windows hang over the edge and there is a zero point, [co, oh, ow].
    """
    taps, (stride, pads, dilation) = weight.astype(np.int64).sum(axis=1), sizes
    if not (zero and any(pads)):
        channels: Ints = taps.sum(axis=(1, 2))
        return channels
    inside = []
    spans = spanned(taps.shape[1:], dilation)
    for size, step, before, after, span, apart in zip(shape[2:], stride, pads[:2], pads[2:], spans, dilation):
        count = (size + before + after - span) // step + 1
        at = np.arange(count)[:, None] * step - before + np.arange(0, span, apart)
        inside.append(((at >= 0) & (at < size)).astype(np.int64))
    places: Ints = np.einsum("ors,yr,xs->oyx", taps, inside[0], inside[1])
    return places


def padding_fault(value: Value, pads: tuple[int, int, int, int], node: Node) -> None:
    """Refuses padding of a tensor whose zero is not the machine's zero.

    Raises:
        ProgramError: names the node and the zero point.
    """
    if value.zero and any(pads):
        raise node.refuse(
            f"its input is padded and has zero point {value.zero} (uint8: {value.zero + 128})",
            "the machine pads with 0: quantize symmetrically (autosched quantize)",
        )


def transposed_window(
    node: Node, value: Value, shape: tuple[int, ...], out: tuple[int, ...], weight: Array
) -> tuple[tuple[int, int], tuple[int, int, int, int]] | str:
    """Stride of a transposed convolution's result and what is cut off it, or why the machine's form does not have it.

    Args:
        node: a ConvTranspose.
        value: its input.
        shape: of the input.
        out: shape of the result.
        weight: [ci, co, kh, kw].
    """
    if len(shape) != 4 or weight.ndim != 4:
        return "only images (N, C, H, W) have windows on the machine"
    if node.attrs.get("group", 1) != 1 or any(d != 1 for d in node.attrs.get("dilations", [1, 1])):
        return "transposed convolutions in groups or dilated are not on the machine"
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or "output_shape" in node.attrs:
        return "only pads that are given as numbers are cut off on the machine"
    if value.zero or any(value.pads):
        return "its input has a zero point or is padded: at the edge fewer taps read it"
    top, left, bottom, right = map(int, node.attrs.get("pads", [0, 0, 0, 0]))
    down, across = map(int, node.attrs.get("strides", [1, 1]))
    made = directions((shape[2], shape[3]), (out[2], out[3]), (weight.shape[2], weight.shape[3]), (down, across), (top, left))
    return made if isinstance(made, str) else ((down, across), (top, left, bottom, right))


def average_layer(
    node: Node, value: Value, kernel: tuple[int, int], exponent: int, zero: int, rounding: str, low: int, high: int
) -> Layer | str:
    """A mean as ``sum(x * m) >> s`` with ``m = round(2**k / n)`` as large as int8 allows; or why the machine cannot.

    Args:
        node: it is named after it.
        value: the input.
        kernel: height and width of the window; n elements.
        exponent: of the result.
        zero: zero point of the result.
        rounding: ``floor`` or ``half-up``.
        low: least value of the result.
        high: greatest value of the result.
    """
    n = prod(kernel)
    k = n.bit_length() - 1
    if 1 << k != n:
        while round((1 << (k + 1)) / n) <= 127:
            k += 1
    m = max(round((1 << k) / n), 1)
    shift = k + value.exponent - exponent
    if shift < 0 and m << -shift <= 127:
        m, shift = m << -shift, 0
    if not 0 <= shift <= 31:
        return f"its result needs a right shift by {shift}"
    bias = np.array([-value.zero * m * n], dtype=np.int64)
    done = requant(
        node, 1, bias, np.zeros(1, dtype=np.int64), 0, zero, np.array([shift], dtype=np.int64), rounding, low, high
    )
    return Layer(node.name, "average", (value.tensor,), "", done, factors=(m,), kernel=kernel)


def max_layer(found: Found, node: Node, value: Value) -> Layer | str:
    """A pool by maxima, or why the machine does not have it.

    Args:
        found: what is known so far.
        node: a MaxPool.
        value: its input.
    """
    shape = found.tensors[value.tensor].shape
    if len(shape) != 4 or any(value.pads):
        return "only images (N, C, H, W) without zeros around them are pooled on the machine"
    if len([t for t in node.outputs if t]) > 1:
        return "indices of what was largest are not on the machine"
    kernel = tuple(node.attrs["kernel_shape"])
    sizes = window(node, value, shape, (kernel[0], kernel[1]))
    if isinstance(sizes, str):
        return sizes
    stride, pads, _ = sizes
    if any(pads) and least(found.layers, value.tensor) < 0:
        return "it is padded and its input may be below zero: the machine pads with zeros"
    return Layer(node.name, "max", (value.tensor,), "", kernel=(kernel[0], kernel[1]), stride=stride, pads=pads)
