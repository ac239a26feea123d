"""Figures of operands as arrays: their dimensions, and what their fills bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim import timing
from space.rule import Ints

if TYPE_CHECKING:
    from sim.config import VTAConfig
    from space.model import Model

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """An operand's dimensions as arrays.

    Args:
        coeffs: by how much every axis moves each, shape (axes, dims).
        least: indices that one iteration of all axes reads, shape (dims,).
        sizes: of the dimensions, shape (dims,).
        source: their sizes without padding, shape (dims,).
        spans: indices from the first to the last that is used, shape (dims,).
        strides: elements of the tensor from one index to the next, without padding; shape (dims,).
        often: how often a block that pads has each of the indices side by side, shape (dims,).
    """

    coeffs: Ints
    least: Ints
    sizes: Ints
    source: Ints
    spans: Ints
    strides: Ints
    often: Ints

    @cached_property
    def gaps(self) -> Ints:
        """By how much axes move each dimension that pieces may leave holes in, shape (dims, axes).

        An axis that moves a dimension alone, step by step, leaves none.
        """
        return np.ascontiguousarray(self.coeffs.T[(self.coeffs.sum(axis=0) > 1) | (self.coeffs < 0).any(axis=0)])

    @staticmethod
    def of(model: Model, operand: int) -> Shape:
        """That of an operand, by its number."""
        op = model.nest.operands[operand]
        coeffs = np.array([c for c, _ in op.dims], dtype=np.int64).reshape(len(op.dims), len(model.extents))
        every = range(len(op.dims))
        return Shape(
            np.ascontiguousarray(coeffs.T), *(
                np.array(values, dtype=np.int64) for values in (
                    [1 + op.reach(d) for d in every], [size for _, size in op.dims], op.source,
                    [model.span(operand, d) for d in every], [int(np.prod(op.source[d + 1 :])) for d in every],
                    op.times or [1 for _ in every],
                )
            ),
        )


@dataclass(frozen=True, slots=True)
class Loads:
    """What fills bring: of one operand in one part, or with more dimensions in front, of several in all.

    Args:
        padded: extents of the region with its padding, shape (.., n, dims).
        region: the same without the padding that is left out.
        elements: that one fill brings, shape (.., n).
        transfers: DMAs of one fill.
        footprint: elements of one bank.
    """

    padded: Ints
    region: Ints
    elements: Ints
    transfers: Ints
    footprint: Ints

    def beats(self, shape: Shape, size: int, config: VTAConfig) -> Ints | Floats:
        """Cycles that one fill keeps the memory from others: its bus words, and what passes between its bursts.

        Args:
            shape: of the operand.
            size: bytes of an element.
            config: the machine.
        """
        words = self.words(shape.source, size, config.bus_bytes)
        if config.outstanding_reads > 2:
            return words
        dmas = np.maximum(self.transfers, 1)
        return words + dmas * timing.read_waits(self.bursts(shape, size, config) / dmas, words / dmas, config)

    def bursts(self, shape: Shape, size: int, config: VTAConfig) -> Floats:
        """Bursts of one fill, on average over where it may lie: rows of the tensor are cut at their boundaries."""
        row, step = np.ones_like(self.elements), np.ones_like(self.elements)
        dense = np.ones(row.shape, dtype=np.bool_)
        for d in reversed(range(len(shape.source))):
            row = np.where(dense, row * np.minimum(self.region[..., d], shape.source[d]), row)
            step = np.where(dense, shape.strides[d], step)  # from one place of a row to the next
            dense &= self.region[..., d] == shape.source[d]
            step = np.where(dense, shape.strides[d] * shape.source[d], step)
        grain = np.maximum(np.gcd(step * size, config.burst_bytes), config.bus_bytes)
        each = 1 + (-(-row * size // grain) - 1) * grain / config.burst_bytes
        return np.asarray(self.elements / np.maximum(row, 1) * each, dtype=np.float64)

    def words(self, source: Sequence[int] | Ints, size: int, bus: int) -> Ints:
        """Bus words of one fill: each element has some of its own, or those that follow each other in the tensor share them.

        Args:
            source: extents of the tensor's dimensions, without padding.
            size: bytes of an element.
            bus: bytes of a word.
        """
        if size >= bus:
            return self.elements * -(-size // bus)
        row: Ints = np.ones_like(self.elements)
        dense = np.ones(row.shape, dtype=np.bool_)
        for d in reversed(range(len(source))):
            row = np.where(dense, row * self.region[..., d], row)
            dense &= self.region[..., d] >= source[d]
        return np.asarray(self.elements // np.maximum(row, 1) * -(-row * size // bus), dtype=np.int64)

    def of_rows(self, parts: Sequence[bool], rows: Ints) -> Loads:
        """Those of all operands in some of the parts, and of that in some rows.

        Args:
            parts: which of them.
            rows: their numbers, shape (m,).
        """
        extents = [self.padded.swapaxes(2, 3), self.region.swapaxes(2, 3)]
        found = [x if all(parts) else x[:, list(parts)] for x in (*extents, self.elements, self.transfers, self.footprint)]
        padded, region, *counts = (x.take(rows, axis=-1) for x in found)
        for own in (padded, region, *counts):
            own.flags.writeable = False
        return Loads(padded.swapaxes(2, 3), region.swapaxes(2, 3), *counts)

    def of(self, operand: int, dims: int, part: int | None) -> Loads:
        """Those of one of all operands, by its number and its dimensions, in one of the parts or in all.

        One that is a single element has a dimension all the same.
        """
        own = slice(None) if part is None else part
        extents = [x[operand, own][..., : max(dims, 1)] for x in (self.padded, self.region)]
        return Loads(*extents, *(x[operand, own] for x in (self.elements, self.transfers, self.footprint)))
