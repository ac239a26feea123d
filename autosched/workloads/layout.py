"""Packed layouts of the accelerator and plain layouts of people, and the way between them on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import ProgramError


@dataclass(frozen=True)
class Layout:
    """How a tensor of plain dimensions is cut into blocks.

    ``plain`` names the dimensions by capitals (``NCHW``). In ``packed`` a capital is the index of the block along that
    dimension, a lower-case letter the lane in the block, and ``1`` a dimension of extent 1. A lane whose capital is not
    a plain dimension repeats the values (a bias is the same for every batch lane). Lanes past the plain extent hold
    zeros.

    Args:
        plain: names of the plain dimensions.
        packed: names of the packed dimensions.
        shape: plain extents.
        blocks: lanes per dimension, as pairs (capital, lanes).
        splits: plain dimensions that the packed ones see as two, as (capital, two capitals, extent of the second), filled up with
            zeros: ``("C", "GC", 16)`` for groups of 16 channels.
        flips: capitals, after splitting, that run backwards in the packed layout.
    """

    plain: str
    packed: str
    shape: tuple[int, ...]
    blocks: tuple[tuple[str, int], ...]
    splits: tuple[tuple[str, str, int], ...] = ()
    flips: str = ""

    @property
    def _inner(self) -> Layout:
        """The layout of the array once its dimensions are split."""
        names, shape = "", []
        parts = {d: (two, e) for d, two, e in self.splits}
        for d, extent in zip(self.plain, self.shape):
            two, inner = parts.get(d, (d, 1))
            names += two
            shape += [extent] if d not in parts else [-(-extent // inner), inner]
        return Layout(names, self.packed, tuple(shape), self.blocks)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed extents."""
        if self.splits:
            return self._inner.packed_shape
        lanes = dict(self.blocks)
        size = dict(zip(self.plain, self.shape))
        return tuple(
            1 if d == "1" else -(-size[d] // lanes.get(d, 1)) if d.isupper() else lanes[d.upper()] for d in self.packed
        )

    def pack(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A plain array in packed layout; a new contiguous array."""
        if self.splits:
            inner_layout = self._inner
            sizes = {d: n for d, _, n in self.splits}
            room = [whole(e, sizes.get(d, 1)) - e for d, e in zip(self.plain, self.shape)]
            array = np.pad(np.asarray(array).reshape(self.shape), [(0, r) for r in room])
            return inner_layout.pack(self._flipped(array.reshape(inner_layout.shape), inner_layout.plain))
        lanes: Mapping[str, int] = dict(self.blocks)
        array = np.asarray(array).reshape(self.shape)
        full = [whole(e, lanes.get(d, 1)) for d, e in zip(self.plain, self.shape)]
        if full != list(array.shape):
            # In the order in which the array lies: what has its lanes together already is packed several times as fast.
            wide = np.zeros_like(array, shape=full)
            wide[tuple(slice(e) for e in array.shape)] = array
            array = wide
        names: list[str] = []
        split: list[int] = []
        for d, e in zip(self.plain, full):
            names.append(d)
            split.append(e // lanes.get(d, 1))
            if d.lower() in self.packed:
                names.append(d.lower())
                split.append(lanes[d])
        array = array.reshape(split).transpose([names.index(d) for d in self.packed if d in names])
        present = [d in names for d in self.packed]
        inner = tuple(slice(None) if here else None for here in present)
        return np.ascontiguousarray(np.broadcast_to(array[inner], self.packed_shape))

    def unpack(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A packed array in plain layout; a new contiguous array."""
        if self.splits:
            split = self._inner
            sizes = {d: n for d, _, n in self.splits}
            full = [whole(e, sizes.get(d, 1)) for d, e in zip(self.plain, self.shape)]
            plain = self._flipped(split.unpack(array), split.plain).reshape(full)
            return np.ascontiguousarray(plain[tuple(slice(0, e) for e in self.shape)])
        keep = [d for d in self.packed if d != "1" and d.upper() in self.plain]
        index = tuple(slice(None) if d in keep else 0 for d in self.packed)
        array = np.asarray(array).reshape(self.packed_shape)[index]
        order = [keep.index(n) for d in self.plain for n in (d, d.lower()) if n in keep]
        array = array.transpose(order)
        lanes = dict(self.blocks)
        merged = [whole(e, lanes.get(d, 1)) for d, e in zip(self.plain, self.shape)]
        return np.ascontiguousarray(array.reshape(merged)[tuple(slice(0, e) for e in self.shape)])

    def _flipped(self, array: np.ndarray[Any, Any], names: str) -> np.ndarray[Any, Any]:
        return array[tuple(slice(None, None, -1) if d in self.flips else slice(None) for d in names)]

    def accept(self, name: str, array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], bool]:
        """An argument in packed layout, and whether it was packed; its rank tells.

        Raises:
            ProgramError: the shape is neither the packed nor the plain one.
        """
        if array.shape == self.packed_shape:
            return array, True
        squeezed = tuple(e for e in self.shape if e != 1)
        if array.shape == self.shape or (
            len(self.shape) < array.ndim < len(self.packed) and _squeeze(array.shape) == squeezed
        ):
            return self.pack(array), False
        want = self.packed_shape if array.ndim == len(self.packed) else self.shape
        other = f"{self.plain} {self.shape}" if want is self.packed_shape else f"{self.packed} {self.packed_shape}"
        raise ProgramError(f"{name}: expected shape {want} (or {other}), got {array.shape}")


def whole(extent: int, lanes: int) -> int:
    """``extent`` rounded up to whole blocks of ``lanes``."""
    return -(-extent // lanes) * lanes


def _squeeze(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(e for e in shape if e != 1)
