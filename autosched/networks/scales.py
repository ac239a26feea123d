"""Scales and zero points of a file as shifts: powers of two, or a refusal that says the way out."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np

from autosched.networks.graph import Array, Ints
from autosched.networks.onnx_nodes import File, Node
from autosched.networks.parameters import output_channels

STORE = "store its data in the file"
SLOPE_BITS, SLOPE_SHIFT = 5, 12  # of slopes below zero: what is added up to multiply by them, and how small they are
SLOPE_ERROR = 1 / 32  # a result below zero is off by less than half a unit down to -16
WAY_OUT = "make one that is: autosched quantize {file}.onnx --calibrate data.npz -o q.onnx"


def exponent(scale: float) -> int | None:
    """``e`` where ``scale == 2**-e``, else None."""
    if not (np.isfinite(scale) and scale > 0):
        return None
    mantissa, power = frexp(scale)
    return 1 - power if mantissa == 0.5 else None


def slope_of(alpha: float) -> tuple[int, int] | None:
    """A slope below zero as a number of at most ``SLOPE_BITS`` bits and how far it is shifted right; None where it is none.

    Args:
        alpha: of a LeakyRelu, as float32 has it.
    """
    for shift in range(1, SLOPE_SHIFT + 1):
        times = alpha * 2.0**shift
        if 0 < times < 1 << shift and times == np.rint(times):
            return (int(times), shift) if int(times) < 1 << SLOPE_BITS else None
    return None


def nearest_slope(alpha: float) -> float:
    """The slope of the fewest bits set that is near enough to one, or that slope itself where none is.

    Args:
        alpha: of a LeakyRelu.
    """
    made = [times * 2.0**-shift for shift in range(1, SLOPE_SHIFT + 1) for times in range(1, 1 << SLOPE_BITS, 2)]
    near = [x for x in made if abs(x - alpha) <= SLOPE_ERROR * abs(alpha) and slope_of(x) is not None]
    return min(near, key=lambda x: ((slope_of(x) or (0, 0))[0].bit_count(), abs(x - alpha)), default=alpha)


def exponents(file: File, node: Node, name: str, what: str) -> Ints:
    """The exponents of a constant scale, int64[1] or one per channel.

    Args:
        file: the file.
        node: who uses it, for refusals.
        name: the scale's tensor.
        what: what it scales, for refusals.

    Raises:
        ProgramError: the scale is no constant or has no data, or an entry is no power of two.
    """
    values = _fixed(file, node, name, f"the scale {name!r} of {what}")
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    found = [exponent(float(v)) for v in flat]
    if None in found:
        bad = float(flat[found.index(None)])
        raise node.refuse(f"the scale {bad:.6g} of {what} is no power of two", WAY_OUT.format(file=file.name))
    return np.array(found, dtype=np.int64)


def zero_point(file: File, node: Node, name: str, what: str) -> Array:
    """A constant zero point as int64, 0 where none is given; int64[1] or one per channel.

    Raises:
        ProgramError: it is no constant, or has no data.
    """
    if not name:
        return np.zeros(1, dtype=np.int64)
    values = _fixed(file, node, name, f"the zero point {name!r} of {what}")
    return np.asarray(values, dtype=np.int64).reshape(-1)


def _fixed(file: File, node: Node, name: str, what: str) -> Array:
    """A constant; refused as ``what`` where it is none, or has no data."""
    values = file.constants.get(name)
    if values is None and name in file.blank:
        raise node.refuse(f"{what} {file.lack(name)}", STORE)
    if values is None:
        raise node.refuse(f"{what} is computed while it runs", WAY_OUT.format(file=file.name))
    return values


@dataclass(frozen=True)
class Value:
    """A float tensor of the file as what the machine holds.

    Args:
        tensor: the int8 tensor it is the value of.
        exponent: its scale is ``2**-exponent``.
        zero: the machine's zero point.
        pads: zeros around it that a following convolution takes in: top, left, bottom, right.
    """

    tensor: str
    exponent: int
    zero: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


def machine_zero(file: File, node: Node, quantized: str, zero: str) -> int:
    """The zero point of an int8 or uint8 tensor in the machine's int8: 128 of a uint8 is 0.

    Raises:
        ProgramError: another type, or a zero point per channel.
    """
    dtype = file.dtypes.get(quantized, "")
    if dtype not in ("int8", "uint8"):
        raise node.refuse(f"{quantized!r} is {dtype or 'of no known type'}", "the machine takes int8 and uint8")
    value = zero_point(file, node, zero, repr(quantized))
    if len(value) != 1:
        raise node.refuse(f"{quantized!r} has a zero point per channel", "activations take one")
    return int(value[0]) - (128 if dtype == "uint8" else 0)


def int8_weight(file: File, node: Node, name: str, zero: str) -> Array:
    """A constant weight of an operator as int8 with zero point 0.

    Raises:
        ProgramError: no constant, not int8 or uint8, or out of int8 once its zero point is subtracted.
    """
    value = file.constants.get(name)
    if value is None:
        raise node.refuse(f"its weight {name!r} is no constant", "the machine takes constant weights")
    if value.dtype not in (np.int8, np.uint8):
        raise node.refuse(f"its weight {name!r} is {value.dtype}", WAY_OUT.format(file=file.name))
    shift = zero_point(file, node, zero, repr(name))
    axis = output_channels(node.op, node.attrs, value.shape)[1]
    spread = [-1 if d == axis else 1 for d in range(value.ndim)]
    moved = value.astype(np.int64) - (shift.reshape(spread) if len(shift) > 1 else shift[0])
    if moved.size and (moved.min() < -128 or moved.max() > 127):
        raise node.refuse(f"its weight {name!r} less its zero point leaves int8", "make it symmetric, as autosched quantize does")
    return moved.astype(np.int8)
