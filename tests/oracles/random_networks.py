"""Random small networks of what the importer takes, in every form that exporters write, host operators among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

MOST = 700  # elements of an image: a layer's program is drafted, scheduled and lowered for each shape


def random_network(builder: Any, rng: np.random.Generator, steps: int) -> Any:
    """A network on a builder of ``onnx_models``; its outputs are the ``outputs`` of what is returned.

    Args:
        builder: as it stands after its input is known.
        rng: what is drawn.
        steps: operators, a flattening and a dense layer not counted.
    """
    b, form = builder, builder.form
    images = ["x"]
    for _ in range(steps):
        x = images[-1 if rng.random() < 0.7 else int(rng.integers(len(images)))]
        made = _step(b, form, rng, x, images)
        if made is not None:
            images.append(made)
    # Whatever was drawn, the last layer is for the machine.
    last = b.conv(images[-1], 8, 1)
    outputs = [last]
    if rng.random() < 0.5 and np.prod(b.shapes[last][1:]) <= MOST:
        outputs = [b.dense(b.flatten(last), int(rng.integers(1, 20)))]
        if rng.random() < 0.3:
            outputs.append(last)
    b.outputs = outputs
    return b


def _step(b: Any, form: str, rng: np.random.Generator, x: str, images: list[str]) -> str | None:
    n, c, h, w = b.shapes[x]
    zero = 128 if b.dtype is np.uint8 else 0
    choices = ["conv", "conv", "conv", "depthwise", "add"]
    if form != "qlinear":
        choices += ["mean" if h * w <= 64 else "conv", "maxpool"]
    if form == "qdq":
        choices += ["average", "relu", "scale", "concat", "transpose", "sigmoid", "pad", "transposed"]
    kind = choices[int(rng.integers(len(choices)))]
    if kind == "conv":
        k = int(rng.choice([k for k in (1, 2, 3, 5) if k <= min(h, w)]))
        # A tensor whose zero point is not the machine's zero is not padded.
        pad = int(rng.integers(0, k)) if b.zeros[x] == zero else 0
        group = int(rng.choice([g for g in (1, 1, 2, 4, 16) if c % g == 0]))
        co = group * int(rng.integers(1, max(2, 40 // group)))
        stride = int(rng.integers(1, 3))
        return _small(b, b.conv(
            x, co, k, stride, pad, group, relu=bool(rng.integers(2)), per_channel=bool(rng.integers(2)),
            bias=bool(rng.integers(2)), zero=zero if rng.random() < 0.8 or form == "integer" else zero + 3,
        ))
    if kind == "depthwise":
        k = min(3, h, w)
        return str(b.conv(x, c, k, 1, int(rng.integers(0, 2)) if b.zeros[x] == zero else 0, c, zero=zero))
    if kind in ("add", "concat"):
        same = [t for t in images if b.shapes[t] == b.shapes[x] and abs(b.exponents[t] - b.exponents[x]) <= 5]
        y = same[int(rng.integers(len(same)))]
        if kind == "add":
            return str(b.add(x, y, relu=bool(rng.integers(2))))
        if 2 * c * h * w > MOST:
            return None
        return _float(b, "Concat", [x, y], (n, 2 * c, h, w), axis=1)
    if kind == "mean":
        return str(b.mean(x))
    if kind == "maxpool":
        k = int(rng.integers(1, min(h, w, 4) + 1))
        return str(b.maxpool(x, k, int(rng.integers(1, 4)), int(rng.integers(0, (k + 1) // 2))))
    if kind == "average":
        k = int(rng.integers(1, min(4, h, w) + 1))
        return _float(b, "AveragePool", [x], (n, c, h - k + 1, w - k + 1), kernel_shape=[k, k])
    if kind == "relu":
        return _float(b, "Relu", [x], (n, c, h, w))
    if kind == "scale":
        y = b.node("Mul", [b.floats(x), b.const(np.float32(2.0 ** int(rng.integers(-2, 3))))])
        return str(b.quantize(y, (n, c, h, w), max(0, b.exponents[x] - 2)))
    if kind == "transpose":
        return _float(b, "Transpose", [x], (n, c, w, h), perm=[0, 1, 3, 2])
    if kind == "transposed":
        return _transposed(b, rng, x, zero)
    if kind == "sigmoid":
        y = b.node("Sigmoid", [b.floats(x)])
        return str(b.quantize(y, (n, c, h, w), 6))
    k = min(3, h, w)
    if b.zeros[x] != zero:
        return None
    padded = b.node("Pad", [b.floats(x), b.const(np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64))])
    again = b.quantize(padded, (n, c, h + 1, w + 1), b.exponents[x]) if rng.random() < 0.5 else None
    if again is not None:
        return str(b.conv(again, int(rng.integers(1, 20)), k))
    weight = b.weight((5, c, k, k))
    wf = b.node("DequantizeLinear", [b.const(weight), b.scale(6)])
    y = b.node("Conv", [padded, wf], kernel_shape=[k, k])
    return str(b.quantize(y, (n, 5, h + 2 - k, w + 2 - k), max(0, b.exponents[x] - 3)))


def _transposed(b: Any, rng: np.random.Generator, x: str, zero: int) -> str | None:
    """A transposed convolution; some have no classes of even size, or an input with a zero point, and stay on the host."""
    n, c, h, w = b.shapes[x]
    k, s, co = [int(v) for v in rng.integers(1, 6, 2)], [int(v) for v in rng.integers(1, 4, 2)], int(rng.integers(1, 20))
    pads = [int(rng.integers(0, min(e, 3))) for e in (*k, *k)]
    more = [int(rng.integers(0, e)) for e in s]
    shape = [(e - 1) * t + f - p - q + m for e, t, f, p, q, m in zip((h, w), s, k, pads, pads[2:], more)]
    if min(shape) < 1 or co * np.prod(shape) > MOST:
        return None
    powers = rng.integers(5, 8, co) if rng.integers(2) else np.int64(6)
    wf = b.node("DequantizeLinear", [b.const(b.weight((c, co, *k))), b.scale(powers)], **({"axis": 1} if np.ndim(powers) else {}))
    y = b.node("ConvTranspose", [b.floats(x), wf], kernel_shape=k, strides=s, pads=pads, output_padding=more)
    return str(b.quantize(y, (n, co, *shape), max(0, b.exponents[x] - 3), zero))


def _float(b: Any, op: str, inputs: list[str], shape: tuple[int, ...], **attrs: Any) -> str:
    return str(b.quantize(b.node(op, [b.floats(t) for t in inputs], **attrs), shape, max(0, min(b.exponents[t] for t in inputs))))


def _small(b: Any, name: str) -> str | None:
    """A tensor, or None where it grew too large to go on with."""
    return name if np.prod(b.shapes[name][1:]) <= MOST else None


def open_batch(model: Any) -> None:
    """Leaves the batch of all inputs open, as exporters do."""
    for entry in model.graph.input:
        assert entry.type.tensor_type.elem_type in (TensorProto.INT8, TensorProto.UINT8)
        entry.type.tensor_type.shape.dim[0].dim_param = "N"
    assert helper is not None
