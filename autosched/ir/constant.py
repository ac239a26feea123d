"""Constants: tensors whose elements are part of a program, as NumPy arrays and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from autosched.errors import ProgramError
from autosched.ir.expr import IntImm, bits, is_float
from autosched.ir.stmt import Buffer, Constant

Array = np.ndarray[Any, Any]


def constant(name: str, array: Array) -> Constant:
    """A constant of an array.

    Args:
        name: of its buffer.
        array: its elements; integers or floats.
    """
    buffer = Buffer(name, tuple([IntImm(int(e)) for e in array.shape]), str(array.dtype))
    return of_buffer(buffer, array)


def of_buffer(buffer: Buffer, array: Array) -> Constant:
    """The constant that gives a buffer its elements.

    Raises:
        ProgramError: the array is not of the buffer's shape and type.
    """
    wanted = buffer_shape(buffer)
    if array.shape != wanted or str(array.dtype) != buffer.dtype:
        raise ProgramError(
            f"constant {buffer.name} is {buffer.dtype}{list(wanted)}, its elements {array.dtype}{list(array.shape)}"
        )
    return Constant(buffer, np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


def values(constant: Constant) -> Array:
    """The elements of a constant, read only."""
    found = np.frombuffer(constant.data, np.dtype(constant.buffer.dtype).newbyteorder("<"))
    return found.astype(constant.buffer.dtype, copy=False).reshape(buffer_shape(constant.buffer))


def buffer_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer of constant extents.

    Raises:
        ProgramError: an extent is symbolic.
    """
    shape: list[int] = []
    for extent in buffer.shape:
        if not isinstance(extent, IntImm):
            raise ProgramError(f"{buffer.name} has a symbolic shape; a constant has none")
        shape.append(extent.value)
    return tuple(shape)


def fault(constant: Constant) -> str | None:
    """What is wrong with a constant, or None."""
    buffer = constant.buffer
    if not all(isinstance(e, IntImm) for e in buffer.shape):
        return f"constant {buffer.name!r} has a symbolic shape"
    if buffer.scope != "global":
        return f"constant {buffer.name!r} is in {buffer.scope}; constants live in global memory"
    size = prod(buffer_shape(buffer)) * max(bits(buffer.dtype), 8) // 8
    if len(constant.data) != size:
        return f"constant {buffer.name!r} has {len(constant.data)} bytes, its shape asks for {size}"
    return None


def of_numbers(buffer: Buffer, numbers: Sequence[Any]) -> Constant:
    """A constant of its elements, row-major.

    Raises:
        ProgramError: another number of elements than the shape asks for, or one that its type does not hold.
    """
    shape = buffer_shape(buffer)
    if len(numbers) != prod(shape):
        raise ProgramError(f"constant {buffer.name} of shape {shape} has {prod(shape)} elements, {len(numbers)} given")
    wanted = float if is_float(buffer.dtype) else int
    for k, n in enumerate(numbers):
        if isinstance(n, bool) or not isinstance(n, int | wanted):
            raise ProgramError(f"element {k} of constant {buffer.name} is {n!r}; {buffer.dtype} takes numbers")
    try:
        array = np.array(numbers, dtype=buffer.dtype).reshape(shape)
    except OverflowError as error:
        raise ProgramError(f"constant {buffer.name}: {error}") from None
    return of_buffer(buffer, array)
