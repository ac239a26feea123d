"""Transposed convolutions by classes of rows and columns, so that nothing is multiplied with an inserted zero.

A stride ``s`` cuts the rows of the result into ``s`` classes: row ``q * s + r`` reads the kernel's rows ``b + t * s`` alone, with
``b = (r + pad) % s``, each with input row ``q + (r + pad) // s - t``. Classes are dimensions of the result, next to the rows that
they cut, so that its bytes are those of the plain packed layout; kernels that are no multiple of the stride are filled up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.networks.graph import Array


@dataclass(frozen=True)
class Direction:
    """One direction of a transposed convolution.

    Args:
        stride: classes.
        taps: kernel elements of a class, zeros that fill up included.
        first: row of the padded input that tap 0 of class 0 reads for the first result.
        step: what a class adds to that row: 1 where odd padding puts the second class a row further.
        before: zeros in front of the input.
        after: zeros behind it.
        pad: rows of the full result that are cut off in front.
    """

    stride: int
    taps: int
    first: int
    step: int
    before: int
    after: int
    pad: int

    def element(self, tap: int, part: int) -> int:
        """Index in the kernel of a tap of a class; past its end for a filled-up one. Taps run backwards while rows go on."""
        return (part + self.pad) % self.stride + (self.taps - 1 - tap) * self.stride


def direction(size: int, out: int, kernel: int, stride: int, pad: int) -> Direction | str:
    """One direction, or why the machine's form does not have it.

    Args:
        size: input elements.
        out: output elements.
        kernel: kernel elements.
        stride: of the result.
        pad: elements that are cut off in front of the full result.
    """
    if out % stride:
        return f"its result of {out} is not cut evenly by its stride of {stride}"
    if stride > 2 and pad % stride:
        return f"padding {pad} is no multiple of its stride {stride}"
    taps = -(-kernel // stride)
    step = 1 if stride == 2 and pad % 2 else 0
    lowest = pad // stride - (taps - 1)
    last = out // stride - 1 + (stride - 1 + pad) // stride
    before = max(0, -lowest)
    return Direction(stride, taps, lowest + before, step, before, max(0, last - (size - 1)), pad)


def directions(
    size: tuple[int, int], out: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], pads: tuple[int, int]
) -> tuple[Direction, Direction] | str:
    """Both directions, down and across, or why the machine's form does not have one; arguments as for ``direction``."""
    made = [direction(*words) for words in zip(size, out, kernel, stride, pads)]
    for one in made:
        if isinstance(one, str):
            return one
    down, across = made
    assert isinstance(down, Direction) and isinstance(across, Direction)
    return down, across


def by_class(weight: Array, down: Direction, across: Direction) -> npt.NDArray[np.int8]:
    """A kernel by taps and classes.

    Args:
        weight: int8[co, ci, kh, kw].
        down: rows.
        across: columns.

    Returns:
        int8[co, ci, taps down, classes down, taps across, classes across].
    """
    co, ci, kh, kw = weight.shape
    full = np.zeros((co, ci, down.taps * down.stride, across.taps * across.stride), dtype=np.int8)
    full[:, :, :kh, :kw] = weight
    rows, columns = (
        np.array([[d.element(t, p) for p in range(d.stride)] for t in range(d.taps)]) for d in (down, across)
    )
    return np.ascontiguousarray(full[:, :, rows[:, :, None, None], columns[None, None, :, :]])


def sums(data: Array, weight: Array, down: Direction, across: Direction, rows: int, columns: int) -> Array:
    """The sums on NumPy, in float64, where they are exact.

    Args:
        data: [n, ci, h, w, batch lanes, lanes], padded.
        weight: [co, ci, taps, classes, taps, classes, lanes, lanes].
        down: rows.
        across: columns.
        rows: of one class.
        columns: of one class.

    Returns:
        [n, co, rows, classes, columns, classes, batch lanes, lanes].
    """
    n, nb, co, block = data.shape[0], data.shape[4], weight.shape[0], weight.shape[6]
    made = np.zeros((n, co, rows, down.stride, columns, across.stride, nb, block))
    windows = np.lib.stride_tricks.sliding_window_view(data, (down.taps, across.taps), axis=(2, 3))
    for r, s in np.ndindex(down.stride, across.stride):
        top, left = down.first + r * down.step, across.first + s * across.step
        part = windows[:, :, top : top + rows, left : left + columns]
        found = np.tensordot(part, weight[:, :, :, r, :, s], axes=([1, 5, 6, 7], [1, 5, 2, 3]))
        made[:, :, :, r, :, s] = found.transpose(0, 4, 1, 2, 3, 5)
    return made
