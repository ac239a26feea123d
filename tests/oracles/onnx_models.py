"""Small quantized networks in the forms that exporters write, drawn at random or put together by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper


class Builder:
    """Writes a QDQ, QLinear or integer graph node by node; tensors are quantized with powers of two."""

    def __init__(self, form: str, rng: np.random.Generator, shape: tuple[int, ...], unsigned: bool = False) -> None:
        self.form, self.rng = form, rng
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.exponents: dict[str, int] = {}
        self.zeros: dict[str, int] = {}
        self.dtype = np.uint8 if unsigned else np.int8
        self.count = 0
        self.input = "x"
        self.shape = shape
        self.quantized("x", shape, 5, 128 if unsigned else 0)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def const(self, value: Any, stem: str = "c") -> str:
        name = self.name(stem)
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, inputs: list[str], output: str = "", **attrs: Any) -> str:
        output = output or self.name(op.lower())
        domain = "com.microsoft" if op in ("QLinearAdd", "QLinearConcat") else ""
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{output}", domain=domain, **attrs))
        return output

    def split(self, x: str, sizes: str, outputs: list[str], axis: int = 1) -> Any:
        """A node with several results."""
        return helper.make_node("Split", [x, sizes], outputs, name=f"Split_{outputs[0]}", axis=axis)

    def quantized(self, name: str, shape: tuple[int, ...], exponent: int, zero: int) -> str:
        self.shapes[name], self.exponents[name], self.zeros[name] = shape, exponent, zero
        return name

    def scale(self, exponent: int | np.ndarray) -> str:
        return self.const(np.asarray(2.0 ** -np.asarray(exponent, dtype=np.float64), dtype=np.float32), "scale")

    def zero(self, value: int) -> str:
        return self.const(self.dtype(value), "zero")

    def floats(self, x: str) -> str:
        """A quantized tensor as float."""
        return self.node("DequantizeLinear", [x, self.scale(self.exponents[x]), self.zero(self.zeros[x])])

    def quantize(self, x: str, shape: tuple[int, ...], exponent: int, zero: int = 0) -> str:
        out = self.node("QuantizeLinear", [x, self.scale(exponent), self.zero(zero)], self.name("q"))
        return self.quantized(out, shape, exponent, zero)

    def weight(self, shape: tuple[int, ...], spread: int = 40) -> np.ndarray:
        return self.rng.integers(-spread, spread + 1, shape).astype(np.int8)

    def narrow(self, sums: str, channels_axis: int, bias: np.ndarray, shift: Any, shape: tuple[int, ...], low: int = -128) -> str:
        """The integer form's tail, rounding half up."""
        rank = len(shape)
        spread = [-1 if d == channels_axis else 1 for d in range(rank)]
        shift = np.asarray(shift, dtype=np.int64)
        half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
        total = np.broadcast_to(bias + half, (shape[channels_axis],)).astype(np.int32).reshape(spread)
        sums = self.node("Cast", [self.node("Add", [sums, self.const(total)])], to=TensorProto.DOUBLE)
        factor = 2.0 ** -shift.astype(np.float64)
        sums = self.node("Mul", [sums, self.const(factor.reshape(spread) if factor.ndim else factor)])
        sums = self.node("Clip", [self.node("Floor", [sums]), self.const(np.float64(low)), self.const(np.float64(127))])
        out = self.node("Cast", [sums], self.name("q"), to=TensorProto.INT8)
        return self.quantized(out, shape, 0, 0)

    def conv(
        self, x: str, co: int, k: int, stride: int = 1, pad: int = 0, group: int = 1, relu: bool = True,
        per_channel: bool = False, bias: bool = True, exponent: int | None = None, zero: int = 0,
        apart: int = 1,
    ) -> str:
        n, ci, h, w = self.shapes[x]
        weight = self.weight((co, ci // group, k, k))
        span = (k - 1) * apart + 1
        oh, ow = (h + 2 * pad - span) // stride + 1, (w + 2 * pad - span) // stride + 1
        shape = (n, co, oh, ow)
        powers = self.rng.integers(5, 8, co) if per_channel else np.int64(6)
        b = self.rng.integers(-2000, 2000, co) if bias else np.zeros(co, np.int64)
        out_exponent = exponent if exponent is not None else max(0, self.exponents[x] + 6 - 9)
        attrs = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [pad] * 4, "group": group, "dilations": [apart] * 2}
        at = powers + self.exponents[x]
        if self.form == "integer":
            sums = self.node("ConvInteger", [x, self.const(weight)], **attrs)
            return self.narrow(sums, 1, b, np.broadcast_to(powers + 3, (co,)) if per_channel else 9, shape, 0 if relu else -128)
        if self.form == "qlinear":
            operands = [x, self.scale(self.exponents[x]), self.zero(self.zeros[x]), self.const(weight), self.scale(powers),
                        self.const(np.zeros(co, np.int8) if per_channel else np.int8(0)), self.scale(out_exponent),
                        self.zero(zero)]
            out = self.node("QLinearConv", [*operands, self.const(b.astype(np.int32))], self.name("q"), **attrs)
            return self.quantized(out, shape, out_exponent, zero)
        wf = self.node("DequantizeLinear", [self.const(weight), self.scale(powers)], **({"axis": 0} if per_channel else {}))
        operands = [self.floats(x), wf]
        if bias:
            operands.append(self.node("DequantizeLinear", [self.const(b.astype(np.int32)), self.scale(at)],
                                      **({"axis": 0} if per_channel else {})))
        y = self.node("Conv", operands, **attrs)
        if relu:
            y = self.node("Relu", [y])
        return self.quantize(y, shape, out_exponent, zero)

    def dense(self, x: str, n: int, matmul: bool = False) -> str:
        m, k = self.shapes[x]
        weight = self.weight((k, n))
        b = self.rng.integers(-2000, 2000, n)
        if self.form == "integer":
            return self.narrow(self.node("MatMulInteger", [x, self.const(weight)]), 1, b, 8, (m, n))
        out_exponent = max(0, self.exponents[x] + 6 - 8)
        if self.form == "qlinear":
            operands = [x, self.scale(self.exponents[x]), self.zero(self.zeros[x]), self.const(weight), self.scale(6),
                        self.const(np.int8(0)), self.scale(out_exponent), self.zero(0)]
            return self.quantized(self.node("QLinearMatMul", operands, self.name("q")), (m, n), out_exponent, 0)
        stored = weight if matmul else np.ascontiguousarray(weight.T)
        wf = self.node("DequantizeLinear", [self.const(stored), self.scale(6)])
        if matmul:
            y = self.node("MatMul", [self.floats(x), wf])
        else:
            bf = self.node("DequantizeLinear", [self.const(b.astype(np.int32)), self.scale(6 + self.exponents[x])])
            y = self.node("Gemm", [self.floats(x), wf, bf], transB=1)
        return self.quantize(y, (m, n), out_exponent)

    def add(self, a: str, b: str, relu: bool = True) -> str:
        shape = self.shapes[a]
        if self.form == "integer":
            wide = [self.node("Mul", [self.node("Cast", [v], to=TensorProto.INT32), self.const(np.int32(f))])
                    for v, f in ((a, 2), (b, 1))]
            return self.narrow(self.node("Add", wide), 1, np.zeros(1, np.int64), 2, shape, 0 if relu else -128)
        exponent = max(0, min(self.exponents[a], self.exponents[b]) - 1)
        if self.form == "qlinear":
            operands = [a, self.scale(self.exponents[a]), self.zero(self.zeros[a]), b, self.scale(self.exponents[b]),
                        self.zero(self.zeros[b]), self.scale(exponent), self.zero(0)]
            return self.quantized(self.node("QLinearAdd", operands, self.name("q")), shape, exponent, 0)
        y = self.node("Add", [self.floats(a), self.floats(b)])
        return self.quantize(self.node("Relu", [y]) if relu else y, shape, exponent)

    def mean(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        if self.form == "integer":
            weight = np.full((c, 1, h, w), 2, np.int8)
            sums = self.node("ConvInteger", [x, self.const(weight)], group=c, kernel_shape=[h, w])
            return self.narrow(sums, 1, np.zeros(1, np.int64), 5, (n, c, 1, 1))
        if self.form == "qlinear":
            raise NotImplementedError
        return self.quantize(self.node("GlobalAveragePool", [self.floats(x)]), (n, c, 1, 1), self.exponents[x])

    def flatten(self, x: str) -> str:
        shape = (self.shapes[x][0], int(np.prod(self.shapes[x][1:])))
        if self.form == "qdq":
            out = self.node("Flatten", [self.floats(x)])
            return self.quantize(out, shape, self.exponents[x], self.zeros[x])
        out = self.node("Reshape", [x, self.const(np.array(shape, np.int64))], self.name("q"))
        return self.quantized(out, shape, self.exponents[x], self.zeros[x])

    def maxpool(self, x: str, k: int = 2, stride: int = 2, pad: int = 0, over: int = 0, **more: Any) -> str:
        n, c, h, w = self.shapes[x]
        shape = (n, c, (h + 2 * pad + over - k) // stride + 1, (w + 2 * pad + over - k) // stride + 1)
        attrs = {"kernel_shape": [k, k], "strides": [stride, stride], "pads": [pad] * 4, **more}
        if self.form == "qdq":
            return self.quantize(self.node("MaxPool", [self.floats(x)], **attrs), shape, self.exponents[x], self.zeros[x])
        out = self.node("MaxPool", [x], self.name("q"), **attrs)
        return self.quantized(out, shape, self.exponents[x], self.zeros[x])

    def model(self, *outputs: str, opset: int = 17) -> ModelProto:
        kind = TensorProto.UINT8 if self.dtype is np.uint8 else TensorProto.INT8
        made = TensorProto.INT8 if self.form == "integer" else kind
        infos = [helper.make_tensor_value_info(o, made, self.shapes[o]) for o in outputs]
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("x", kind, self.shape)], infos, initializer=self.constants,
        )
        domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains, ir_version=8)
        assert checker is not None
        return model

    def image(self, count: int = 1) -> np.ndarray:
        info = np.iinfo(self.dtype)
        return self.rng.integers(info.min, info.max + 1, (self.shape[0] * count, *self.shape[1:])).astype(self.dtype)


def residual(form: str, rng: np.random.Generator, channels: int = 24, size: int = 8) -> Builder:
    """A residual network with every kind of layer that the form has; its output is called ``out`` in ``last``."""
    b = Builder(form, rng, (1, 3, size, size))
    a = b.conv("x", channels, 3, pad=1)
    c = b.conv(b.conv(a, channels, 3, pad=1), channels, 3, pad=1, relu=False)
    s = b.add(c, a)
    d = b.conv(s, 2 * channels, 3, stride=2, pad=1, per_channel=True)
    e = b.conv(s, 2 * channels, 1, stride=2, relu=False)
    t = b.add(d, e)
    t = b.conv(t, 2 * channels, 3, pad=1, group=2 * channels)
    pooled = b.mean(t) if form != "qlinear" else b.conv(t, 16, size // 2)
    b.last = b.dense(b.flatten(pooled), 10)  # type: ignore[attr-defined]
    return b


def trained(bits: int, scale: float, signed: bool = True, seed: int = 0) -> Any:
    """A network as training with quantizers in it leaves it: weights in float in front of theirs, Clips where bits are few.

    Args:
        bits: 4 (with Clips) or 8.
        scale: of the image; the other ones are derived.
        signed: whether activations are int8, with zero point 0, or uint8, with zero point 0.
        seed: of the weights.
    """
    rng = np.random.default_rng(seed)
    constants: list[Any] = []
    nodes: list[Any] = []

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def quantized(x: str, step: Any, name: str, kind: type, low: int | None = None, high: int = 0) -> str:
        many = {"axis": 0} if np.ndim(step) else {}
        ends = constant(f"{name}:s", np.asarray(step, np.float32)), constant(f"{name}:z", np.zeros(np.shape(step), kind))
        nodes.append(helper.make_node("QuantizeLinear", [x, *ends], [f"{name}:q"], **many))
        out = f"{name}:q"
        if low is not None:
            clip = [out, constant(f"{name}:low", np.asarray(low, kind)), constant(f"{name}:high", np.asarray(high, kind))]
            nodes.append(helper.make_node("Clip", clip, [f"{name}:c"]))
            out = f"{name}:c"
        nodes.append(helper.make_node("DequantizeLinear", [out, *ends], [f"{name}:d"], **many))
        return f"{name}:d"

    few = bits == 4
    x = quantized("x", scale, "image", np.int8)
    for k, (ci, co) in enumerate([(3, 16), (16, 8)]):
        weight = constant(f"w{k}", rng.normal(0, 0.3, (co, ci, 3, 3)).astype(np.float32))
        steps = scale * 2.0 ** -rng.integers(0, 3, co)
        w = quantized(weight, steps, f"w{k}:", np.int8, -7 if few else None, 7)
        nodes.append(helper.make_node("Conv", [x, w], [f"y{k}"], name=f"conv{k}", pads=[1, 1, 1, 1]))
        if k == 0:
            nodes.append(helper.make_node("Relu", ["y0"], ["r0"]))
            x = quantized("r0", 4 * scale, "a0", np.int8 if signed else np.uint8, 0 if few else None, 15)
        else:
            x = quantized("y1", 4 * scale, "a1", np.int8, -8 if few else None, 7)
    shape = [1, 3, 9, 9]
    graph = helper.make_graph(
        nodes, "trained", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 8, 9, 9])], constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
