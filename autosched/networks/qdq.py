"""Layers written as QDQ: a float operator whose inputs are dequantized and whose result is quantized again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.networks.graph import Array, Ints, Layer
from autosched.networks.matcher import Found, requant
from autosched.networks.onnx_nodes import Node
from autosched.networks.parameters import output_channels, per_output
from autosched.networks.ranges import LIMIT, clipped_again, most, whole
from autosched.networks.scales import STORE, WAY_OUT, Value, exponents, int8_weight, machine_zero, slope_of, zero_point
from autosched.networks.windows import Window, average_layer, max_layer, padding_fault, transposed_window, weight_sums, window

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout")


def dequantize(found: Found, node: Node) -> None:
    """Notes what a DequantizeLinear of an activation stands for; those of constants are looked up by their users."""
    x = node.inputs[0]
    if x in found.padded:
        found.values[node.outputs[0]] = found.padded[x]
        return
    if found.file.is_constant(x) or found.file.dtypes.get(x) not in ("int8", "uint8"):
        return
    scale = exponents(found.file, node, node.inputs[1], repr(x))
    if len(scale) != 1:
        raise node.refuse(f"{x!r} has a scale per channel", "activations take one scale: " + WAY_OUT.format(file=found.file.name))
    zero = machine_zero(found.file, node, x, node.inputs[2] if len(node.inputs) > 2 else "")
    known = found.tensor(x, int(scale[0]), zero)
    found.values[node.outputs[0]] = Value(known.name, int(scale[0]), zero)


def quantize(found: Found, node: Node) -> None:
    """A QuantizeLinear that follows no layer: another scale for a value is a layer of its own, a plain float is the host's."""
    value = found.values.get(node.inputs[0])
    if value is None:
        found.reasons[node.name] = "quantizes a float tensor"
        return
    scale = exponents(found.file, node, node.inputs[1], f"the result {node.outputs[0]!r}")
    if len(scale) != 1:
        found.reasons[node.name] = "its scale is per channel"
        return
    zero = machine_zero(found.file, node, node.outputs[0], node.inputs[2] if len(node.inputs) > 2 else "")
    if any(value.pads):
        if (int(scale[0]), zero) == (value.exponent, value.zero):
            # Zeros around an image whatever names it goes by: they join the convolution that reads it.
            found.padded[node.outputs[0]] = value
        else:
            found.reasons[node.name] = "zeros around an image that changes its scale are no part of a convolution"
        return
    out = found.tensor(node.outputs[0], int(scale[0]), zero)
    if (int(scale[0]), zero) == (value.exponent, value.zero) and found.tensors[value.tensor].dtype == out.dtype:
        found.add(Layer(node.name, "view", (value.tensor,), out.name, nodes=(node.name,)))
        return
    if (fault := found.rank_fault(value.tensor)) is not None:
        found.reasons[node.name] = fault
        return
    layer = sum_layer(node, [value], int(scale[0]), zero, found.rounding, -128, 127)
    if isinstance(layer, str):
        found.reasons[node.name] = layer
        return
    found.add(replace(layer, output=out.name, nodes=(node.name,)))


def match(found: Found, node: Node) -> None:
    """Makes a layer of a float operator where it can be one, or notes why it stays on the host."""
    if node.op in VIEWS:
        _view(found, node)
    elif node.op == "Pad":
        _pad(found, node)
    elif node.op in ("Conv", "Gemm", "MatMul", "ConvTranspose"):
        _weighted(found, node)
    elif node.op in ("Add", "Mul", "Relu", "Clip"):
        _elementwise(found, node)
    elif node.op in ("GlobalAveragePool", "AveragePool"):
        _average(found, node)
    elif node.op == "MaxPool":
        _largest(found, node)
    else:
        found.reasons[node.name] = "the machine has no such operator"


class Tail:
    """What follows an operator up to its QuantizeLinear; ``clips``: the operator itself is a clip; ``leaks``: a LeakyRelu may."""

    def __init__(self, found: Found, node: Node, clips: bool = False, leaks: bool = False) -> None:
        self.nodes: list[str] = [] if clips else [node.name]
        self.quantized = ""
        self.missing = ""
        self.slope = 1, 0  # of what is below zero: a number, and how many bits it is shifted right
        low, high = -np.inf, np.inf
        file, at = found.file, node.outputs[0]
        while True:
            reader, clips = node if clips else file.only_reader(at), False
            if reader is None:
                count = len(file.read_by.get(at, ()))
                once = "a float output" if at in file.outputs else "read by nobody"
                self.missing = f"its result {at!r} is {'read as float by several nodes' if count > 1 else once}"
                return
            if reader.op == "QuantizeLinear" and reader.inputs[0] == at:
                break
            if reader.op == "Relu":
                low, high = clipped_again(low, high, (0.0, np.inf))
            elif reader.op == "Clip" and (reader is node or reader.inputs[0] == at) and all(
                    x in file.constants for x in reader.inputs[1:] if x):
                ends = [float(file.constants[x].reshape(-1)[0]) if x else d for x, d in zip(
                    (*reader.inputs[1:], "", "")[:2], (-np.inf, np.inf))]
                if np.isnan(ends).any():
                    raise reader.refuse("it clips at what is no number", "export the model again")
                low, high = clipped_again(low, high, (ends[0], ends[1]))
            elif reader.op == "LeakyRelu" and leaks and (low, high, self.slope) == (-np.inf, np.inf, (1, 0)):
                alpha = float(reader.attrs.get("alpha", 0.01))
                slope = slope_of(alpha)
                if slope is None:
                    self.missing = f"its slope below zero, {alpha:.6g}, is no number of few bits: autosched quantize makes it one"
                    return
                self.slope = slope
            elif reader.op not in ("Identity", "Dropout"):
                self.missing = f"its result goes into node {reader.name!r} ({reader.op}) as float"
                return
            self.nodes.append(reader.name)
            at = reader.outputs[0]
        self.nodes.append(reader.name)
        self.quantized = reader.outputs[0]
        scale = exponents(file, reader, reader.inputs[1], f"the result {self.quantized!r}")
        if len(scale) != 1:
            raise reader.refuse("its scale is per channel", "activations take one scale: " + WAY_OUT.format(file=file.name))
        self.exponent = int(scale[0])
        self.zero = machine_zero(file, reader, self.quantized, reader.inputs[2] if len(reader.inputs) > 2 else "")
        # Rounding never passes a bound that is on the grid, and np.rint of one that is not is what quantizing it would give.
        self.low, self.high = (int(np.clip(_grid(end, self.exponent, self.zero), -128, 127)) for end in (low, high))
        self._fewer_bits(found)

    def _fewer_bits(self, found: Found) -> None:
        """A Clip behind the QuantizeLinear joins the layer: so are fewer bits than 8 written."""
        file = found.file
        clip = file.only_reader(self.quantized)
        if clip is None or clip.op != "Clip" or len(clip.inputs) != 3 or clip.inputs[0] != self.quantized:
            return
        ends = [file.constants[t] for t in clip.inputs[1:] if t in file.constants]
        if len(ends) < 2:
            return
        offset = 128 if file.dtypes[self.quantized] == "uint8" else 0
        low, high = (int(e.reshape(-1)[0]) - offset for e in ends)
        self.low, self.high = (int(end) for end in clipped_again(self.low, self.high, (low, high)))
        self.nodes.append(clip.name)
        self.quantized = clip.outputs[0]

    def value(self, found: Found) -> Value:
        """The int8 result as a value."""
        known = found.tensor(self.quantized, self.exponent, self.zero)
        return Value(known.name, self.exponent, self.zero)


def _grid(bound: float, exponent: int, zero: int) -> float:
    return bound if np.isinf(bound) else float(np.rint(bound * 2.0**exponent)) + zero


def _value(found: Found, name: str) -> Value | None:
    return found.values.get(name)


def _view(found: Found, node: Node) -> None:
    value = _value(found, node.inputs[0])
    if value is None or any(value.pads):
        found.reasons[node.name] = "its input is float"
        return
    out = node.outputs[0]
    if node.op in ("Identity", "Dropout"):
        found.values[out] = value
    else:
        found.values[out] = found.view(value, found.file.shapes[out], out, node)
    found.covered.add(node.name)


def _pad(found: Found, node: Node) -> None:
    value = _value(found, node.inputs[0])
    pads = found.file.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    fill = found.file.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    axes = len(node.inputs) > 3 and node.inputs[3]
    plain = node.attrs.get("mode", "constant") == "constant" and fill is not None and not np.any(fill)
    if value is None or pads is None or len(pads) != 8 or not plain or axes or np.any(pads < 0) or pads[[0, 1, 4, 5]].any():
        found.reasons[node.name] = "only zeros around images are part of a convolution"
        return
    t, left, b, r = (int(p) for p in (pads[2], pads[3], pads[6], pads[7]))
    p = value.pads
    found.values[node.outputs[0]] = replace(value, pads=(p[0] + t, p[1] + left, p[2] + b, p[3] + r))
    found.covered.add(node.name)


def _weight_of(found: Found, node: Node, name: str) -> tuple[Array, Ints] | None:
    """A dequantized constant weight: int8 values and exponents (int64[1] or per output channel), or None."""
    file = found.file
    source = file.producer(name)
    if source is None or source.op != "DequantizeLinear":
        return None
    stored, scale = source.inputs[0], source.inputs[1]
    if stored in file.blank:
        return np.zeros(file.blank[stored], dtype=np.int8), exponents(file, node, scale, repr(stored))
    if stored not in file.constants:
        return None
    powers = exponents(file, node, scale, f"weight {stored!r}")
    return int8_weight(file, node, stored, source.inputs[2] if len(source.inputs) > 2 else ""), powers


def _bias_of(found: Found, node: Node, name: str, at: Ints) -> Array:
    """A constant bias at the scale of the sums.

    Raises:
        ProgramError: it is no constant, has no data, or is not a whole number at that scale.
    """
    file = found.file
    source = file.producer(name)
    own = source.inputs[0] if source is not None and source.op == "DequantizeLinear" else name
    if own in file.blank:
        raise node.refuse(f"its bias {own!r} {file.lack(own)}", STORE)
    if source is not None and source.op == "DequantizeLinear" and source.inputs[0] in file.constants:
        stored = file.constants[source.inputs[0]].astype(np.int64)
        stored = stored - zero_point(file, node, source.inputs[2] if len(source.inputs) > 2 else "", repr(name))
        value = stored * 2.0 ** -exponents(file, node, source.inputs[1], f"bias {source.inputs[0]!r}").astype(np.float64)
    elif name in file.constants:
        value = file.constants[name].astype(np.float64)
    else:
        raise node.refuse(f"its bias {name!r} is no constant", "the machine takes constant biases")
    scaled = whole(value.reshape(-1) * 2.0 ** at.astype(np.float64))
    if scaled is None:
        why = f"its bias {name!r} is no multiple of the scale of its sums, or more than an int32 holds"
        raise node.refuse(why, WAY_OUT.format(file=file.name))
    return scaled


def _weighted(found: Found, node: Node) -> None:
    """Conv, ConvTranspose, Gemm and MatMul with a constant weight."""
    value = _value(found, node.inputs[0])
    if value is None:
        found.reasons[node.name] = "its input is float"
        return
    shape = found.tensors[value.tensor].shape
    if node.op in ("Gemm", "MatMul") and (reason := dense_fault(node, shape, found.file.shapes[node.inputs[1]])):
        found.reasons[node.name] = reason
        return
    parts = _weight_of(found, node, node.inputs[1])
    if parts is None:
        found.reasons[node.name] = "its weight is no quantized constant"
        return
    tail = Tail(found, node, leaks=True)
    if tail.missing:
        found.reasons[node.name] = tail.missing
        return
    weight, powers = parts
    source = found.file.producer(node.inputs[1])
    if len(powers) > 1 and source is not None and weight.ndim > 1:
        axis = int(source.attrs.get("axis", 1)) % weight.ndim
        if axis != output_channels(node.op, node.attrs, weight.shape)[1] or len(powers) != len(weight.swapaxes(0, axis)):
            found.reasons[node.name] = "its weight has no scale per output channel"
            return
    group = int(node.attrs.get("group", 1))
    sizes = Window()
    if node.op == "Conv":
        if weight.ndim != 4:
            found.reasons[node.name] = "only convolutions of images are on the machine"
            return
        found_window = window(node, value, shape, (weight.shape[2], weight.shape[3]))
        if isinstance(found_window, str):
            found.reasons[node.name] = found_window
            return
        sizes = found_window
    elif node.op == "ConvTranspose":
        made = transposed_window(node, value, shape, found.file.shapes[node.outputs[0]], weight)
        if isinstance(made, str):
            found.reasons[node.name] = made
            return
        sizes = Window(*made)
        weight = np.ascontiguousarray(weight.transpose(1, 0, 2, 3))
    elif node.op == "MatMul" or not node.attrs.get("transB", 0):
        if len(powers) > 1 and node.op == "MatMul":
            powers = powers.reshape(-1)
        weight = np.ascontiguousarray(weight.T)
    channels = len(weight)
    at = powers + value.exponent
    bias: Array = np.zeros(1, dtype=np.int64)
    if len(node.inputs) > 2 and node.inputs[2]:
        if node.op == "Gemm" and not per_output(found.file.shapes[node.inputs[2]], channels):
            found.reasons[node.name] = "its bias differs from row to row"
            return
        bias = _bias_of(found, node, node.inputs[2], at)
    if node.op == "Conv":
        sums = weight_sums(weight, value.zero, shape, sizes)
    else:
        sums = weight.astype(np.int64).reshape(channels, -1).sum(axis=1)
    shift = at - tail.exponent
    if tail.slope != (1, 0) and (fault := _leak_fault(tail, shift)) is not None:
        found.reasons[node.name] = fault
        return
    done = requant(node, channels, bias, sums, value.zero, tail.zero, shift, found.rounding, tail.low, tail.high, tail.slope)
    kind = {"Conv": "conv", "ConvTranspose": "deconv"}.get(node.op, "dense")
    layer = Layer(
        node.name, kind, (value.tensor,), tail.quantized, done, weight, (),
        (weight.shape[2], weight.shape[3]) if kind != "dense" else (1, 1), sizes.stride, sizes.pads, group, tuple(tail.nodes),
        dilation=sizes.dilation,
    )
    if done.leak is not None and int(most(layer, done).max()) >= LIMIT:
        found.reasons[node.name] = "its sums times the slope below zero may leave int32"
        return
    found.add(replace(layer, output=tail.value(found).tensor))


def _leak_fault(tail: Tail, shift: Ints) -> str | None:
    """Why a slope below zero is not on the machine, or None."""
    if tail.zero:
        return "its result has a slope below zero and a zero point"
    if len(np.unique(shift)) > 1 or int(shift.max()) + tail.slope[1] > 31:
        return "its result has a slope below zero, and channels shift by different numbers or by more than 31"
    return None


def dense_fault(node: Node, shape: tuple[int, ...], weight: tuple[int, ...]) -> str:
    """Why a product of matrices of these extents is not a dense layer, or nothing."""
    if len(shape) != 2 or len(weight) != 2:
        return "only products of a matrix with a constant matrix are on the machine"
    if node.op in ("Gemm", "QGemm"):
        if node.attrs.get("transA", 0):
            return "its data are transposed"
        if node.attrs.get("alpha", 1.0) != 1.0 or node.attrs.get("beta", 1.0) != 1.0:
            return "alpha and beta other than 1 are not on the machine"
    return ""


def _elementwise(found: Found, node: Node) -> None:
    """Sums of two tensors; a product with a power of two; a clip alone."""
    file = found.file
    values = [_value(found, x) for x in node.inputs]
    shift = 0
    if node.op == "Mul":
        known = [v for v in values if v is not None]
        factor = [file.constants.get(x) for x in node.inputs if x in file.constants]
        if len(known) != 1 or len(factor) != 1 or factor[0] is None or factor[0].size != 1:
            found.reasons[node.name] = "only products with a constant power of two are shifts"
            return
        from autosched.networks.scales import exponent

        power = exponent(float(factor[0].reshape(-1)[0]))
        if power is None:
            found.reasons[node.name] = f"{float(factor[0].reshape(-1)[0]):.6g} is no power of two"
            return
        operands, shift = known, power
    elif node.op == "Add":
        if any(v is None for v in values):
            found.reasons[node.name] = "an operand is float"
            return
        operands = [v for v in values if v is not None]
    else:
        if values[0] is None:
            found.reasons[node.name] = "its input is float"
            return
        operands = [values[0]]
    shapes = {found.tensors[v.tensor].shape for v in operands}
    if len(shapes) > 1 or any(any(v.pads) for v in operands):
        found.reasons[node.name] = "its operands have different shapes"
        return
    if file.shapes[node.outputs[0]] not in shapes:
        # A constant of more dimensions gives its result more.
        found.reasons[node.name] = "its result has other extents than its operand"
        return
    if (fault := found.rank_fault(operands[0].tensor)) is not None:
        found.reasons[node.name] = fault
        return
    tail = Tail(found, node, clips=node.op in ("Relu", "Clip"))
    if tail.missing:
        found.reasons[node.name] = tail.missing
        return
    layer = sum_layer(node, operands, tail.exponent - shift, tail.zero, found.rounding, tail.low, tail.high)
    if isinstance(layer, str):
        found.reasons[node.name] = layer
        return
    out = tail.value(found)
    found.add(replace(layer, output=out.tensor, nodes=tuple(tail.nodes)))


def sum_layer(
    node: Node, operands: list[Value], exponent: int, zero: int, rounding: str, low: int, high: int
) -> Layer | str:
    """The sum of tensors at the finest of their scales, shifted once; or why the machine cannot.

    Args:
        node: it is named after it.
        operands: one or two values of one shape.
        exponent: of the result.
        zero: zero point of the result.
        rounding: ``floor`` or ``half-up``.
        low: least value of the result.
        high: greatest value of the result.
    """
    finest = max(exponent, *(v.exponent for v in operands))
    factors = tuple(1 << (finest - v.exponent) if finest - v.exponent <= 6 else 0 for v in operands)
    if 0 in factors:
        apart = max(finest - v.exponent for v in operands)
        return f"its scales are 2^{apart} apart; the machine's identity tile reaches 2^6"
    bias = np.array([-sum(f * v.zero for f, v in zip(factors, operands))], dtype=np.int64)
    done = requant(
        node, 1, bias, np.zeros(1, dtype=np.int64), 0, zero, np.array([finest - exponent], dtype=np.int64), rounding, low, high
    )
    return Layer(node.name, "add", tuple(v.tensor for v in operands), "", done, factors=factors)


def to_scale(found: Found, node: Node, value: Value, whole: Value, ends: tuple[int, int] = (-128, 127)) -> Layer | str | None:
    """The layer that brings a value to another one's scale; None where it has that and nothing clips it; or why there is none.

    Args:
        found: what is known so far.
        node: whose input it is; the layer is named after it.
        value: the value.
        whole: a tensor of the file that holds it then.
        ends: of a clip.
    """
    own = value.exponent, value.zero, found.tensors[value.tensor].dtype
    if own == (whole.exponent, whole.zero, found.file.dtypes[whole.tensor]) and ends == (-128, 127):
        return None
    return sum_layer(node, [value], whole.exponent, whole.zero, found.rounding, *ends)


def brought(found: Found, layer: Layer, whole: Value, word: str) -> str:
    """Notes a layer of ``to_scale``; the tensor that it makes.

    Args:
        found: gets the layer.
        layer: the layer.
        whole: as ``to_scale`` took it.
        word: what sets its name, and that of its result, apart.
    """
    own = replace(found.tensors[layer.inputs[0]], dtype=found.file.dtypes[whole.tensor], exponent=whole.exponent, zero=whole.zero)
    name = found.new(f"{whole.tensor}:{word}", own)
    found.add(replace(layer, name=f"{layer.name}.{word}", output=name))
    return name


def _average(found: Found, node: Node) -> None:
    value = _value(found, node.inputs[0])
    if value is None:
        found.reasons[node.name] = "its input is float"
        return
    shape = found.tensors[value.tensor].shape
    if len(shape) != 4 or any(value.pads):
        found.reasons[node.name] = "only images (N, C, H, W) are pooled on the machine"
        return
    tail = Tail(found, node)
    if tail.missing:
        found.reasons[node.name] = tail.missing
        return
    kernel = (shape[2], shape[3]) if node.op == "GlobalAveragePool" else tuple(node.attrs["kernel_shape"])
    sizes = Window() if node.op == "GlobalAveragePool" else window(node, value, shape, (kernel[0], kernel[1]))
    if isinstance(sizes, str):
        found.reasons[node.name] = sizes
        return
    stride, pads, _ = sizes
    if any(pads) and not node.attrs.get("count_include_pad", 0):
        found.reasons[node.name] = "its divisor differs at the edge (count_include_pad = 0)"
        return
    padding_fault(value, pads, node)
    made = average_layer(node, value, (kernel[0], kernel[1]), tail.exponent, tail.zero, found.rounding, tail.low, tail.high)
    if isinstance(made, str):
        found.reasons[node.name] = made
        return
    out = tail.value(found)
    found.add(replace(made, output=out.tensor, stride=stride, pads=pads, nodes=tuple(tail.nodes)))


def _largest(found: Found, node: Node) -> None:
    """A pool by maxima between a dequantized tensor and its quantization at the same scale."""
    value = _value(found, node.inputs[0])
    if value is None:
        found.reasons[node.name] = "its input is float"
        return
    tail = Tail(found, node)
    if tail.missing:
        found.reasons[node.name] = tail.missing
        return
    if (tail.exponent, tail.zero) != (value.exponent, value.zero) or (tail.low, tail.high) != (-128, 127):
        found.reasons[node.name] = "its result has another scale than its input, or a clip behind it"
        return
    out = found.file.dtypes[tail.quantized]
    if out != found.tensors[value.tensor].dtype:
        found.reasons[node.name] = f"its result is {out} and its input is not"
        return
    layer = max_layer(found, node, value)
    if isinstance(layer, str):
        found.reasons[node.name] = layer
        return
    found.add(replace(layer, output=tail.value(found).tensor, nodes=tuple(tail.nodes)))

