"""Padding of one operand: how many products and how much of a load it leaves, for many parts at once.

Only where one operand is padded, each dimension by axes of its own, can products with zeros be left out; else nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from space.nest import Nest
from space.operands import Operand
from space.plan import Part, Plan, columns, indices, once, stacked
from space.rule import Ints


@dataclass(frozen=True)
class PaddedDim:
    """A dimension that is partly padding.

    Args:
        at: its place among the operand's.
        axes: that move it, in order.
        coeffs: by how many indices, for every axis of the nest.
        inside: of every index, whether it is no padding.
        often: at how many indices next to each other every element stands.
    """

    at: int
    axes: tuple[int, ...]
    coeffs: tuple[int, ...]
    inside: tuple[bool, ...]
    often: int = 1

    @cached_property
    def used(self) -> tuple[int, int, int]:
        """The first index that is no padding, the one behind the last, and how many there are."""
        return int(np.argmax(self.inside)), len(self.inside) - int(np.argmax(self.inside[::-1])), sum(self.inside)


class Padding:
    """What is known of a nest's padding.

    Args:
        nest: the program.
        extents: of its axes, shape (axes,).

    Attributes:
        operand: the one that is padded; -1 without.
        dims: its dimensions that are.
        taps: the axes that move each of them, where products with zeros can be left out.
        useful: products that no padding makes zero.
    """

    def __init__(self, nest: Nest, extents: Ints) -> None:
        self.extents = extents
        self.n_spatial = len(nest.spatial)
        self._shares: dict[int, npt.NDArray[np.float64]] = {}
        padded = [k for k, o in enumerate(nest.operands) if any(not all(row) for row in o.inside)]
        # What several blocks read is padded for all of them.
        summed = nest.tensorized and padded and nest.operands[padded[0]].readers == (nest.anchor,)
        self.dims = _dims_of(nest.operands[padded[0]]) if len(padded) == 1 and (summed or nest.guarded) else ()
        self.operand = padded[0] if self.dims else -1
        # Without matrix products what is padding is no term anyway, or counts as any other.
        self.taps = tuple([dim.axes for dim in self.dims]) if nest.tensorized else ()
        self.useful = int(extents.prod())
        for dim in self.dims:
            inside = self._inside(dim)
            self.useful = self.useful // inside.size * int(inside.sum())

    def _inside(self, dim: PaddedDim) -> npt.NDArray[np.bool_]:
        """Whether a step of the spatial axes, then of the reduction axes, that move a dimension reads no padding."""
        return np.asarray(dim.inside, dtype=np.bool_)[indices(self.extents, dim.coeffs, self._inward(dim))]

    def _inward(self, dim: PaddedDim) -> list[int]:
        """The spatial axes that move a dimension, then the reduction axes."""
        return sorted(dim.axes, key=lambda a: a >= self.n_spatial)

    def _by_result(self, dim: PaddedDim) -> npt.NDArray[np.bool_]:
        """As ``_inside``, shape (steps of the spatial axes, steps of the reduction axes)."""
        return self._inside(dim).reshape(int(self.extents[[a for a in dim.axes if a < self.n_spatial]].prod()), -1)

    def vectors(self, every: int) -> int:
        """Of so many output vectors, all of a nest, those with a product that no padding makes zero."""
        for dim in self.dims:
            inside = self._by_result(dim)
            every = every // len(inside) * int(np.count_nonzero(inside.any(axis=1)))
        return every

    @cached_property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The share of a result's products that no padding makes zero, at least, of the results that have any, and at most."""
        least = most = Fraction(1)
        for dim in self.dims:
            inside = self._by_result(dim)
            counts, every = np.count_nonzero(inside, axis=1), inside.shape[1]
            least *= Fraction(int(counts[counts > 0].min(initial=every)), every)
            most *= Fraction(int(counts.max()), every)
        return least, most

    def places(self) -> list[tuple[int, Ints]]:
        """By dimension the steps of its spatial axes, and for every step of its reductions those that read no padding."""
        every = [self._by_result(dim) for dim in self.dims]
        return [(len(inside), np.count_nonzero(inside, axis=0)) for inside in every]

    def read(self, operand: Operand, least: int) -> int:
        """Of so many elements of an operand, all that products read, those in a product that no padding makes zero.

        Of a tap that reads padding for every result nobody needs the weights.
        """
        tied = {a for dim in self.dims for a in dim.axes}
        dims = [coeffs for coeffs, _ in operand.dims if any(c and a in tied for a, c in enumerate(coeffs))]
        if not dims:
            return least
        axes = [a for a in range(len(self.extents)) if any(coeffs[a] for coeffs in dims)]
        places = np.stack([indices(self.extents, coeffs, axes) for coeffs in dims], axis=-1)
        useful = np.ones(places.shape[:-1], dtype=np.bool_)
        for dim in self.dims:
            inward = self._inward(dim)
            found = self._inside(dim).any(axis=tuple(n for n, a in enumerate(inward) if a not in axes))
            inward = [a for a in inward if a in axes]
            order: Ints = np.argsort(inward)
            useful &= found.transpose(order.tolist()).reshape([self.extents[a] if a in inward else 1 for a in axes])
        every, read = (len(np.unique(x.reshape(-1, len(dims)), axis=0)) for x in (places, places[useful]))
        return least * read // every

    def share(self, part: Part) -> npt.NDArray[np.float64]:
        """Share of a part's products that no padding makes zero, shape as its ``on``."""
        return np.asarray(self.shares(part).prod(axis=0))

    def shares(self, part: Part) -> npt.NDArray[np.float64]:
        """Along every dimension, the share of a part's products that its padding does not make zero, shape (dims, ..)."""
        found = np.ones((len(self.dims), *part.on.shape))
        for own, dim in zip(found, self.dims):
            # Every reduction axis is whole in every part; the spatial ones, rows and phases of them, may be cut.
            table = self._share_table(dim)
            space = self._inward(dim)[: table.ndim]
            ends = [(part.lows[..., a], part.lows[..., a] + part.extents[..., a]) for a in space]
            total, size = np.zeros(part.on.shape), np.ones(part.on.shape)
            for corner in product((0, 1), repeat=len(space)):
                sign = -1 if (len(space) - sum(corner)) % 2 else 1
                total += sign * table[tuple(end[at] for end, at in zip(ends, corner))]
            for low, high in ends:
                size *= np.maximum(high - low, 1)
            own[...] = total / size
        return found

    def shares_in(self, plan: Plan, part: Part) -> npt.NDArray[np.float64]:
        """Those of a part of a plan, or of its stack: worked out once, and not to be changed."""
        return once(plan, part, "shares", lambda: self.shares(part))

    def _share_table(self, dim: PaddedDim) -> npt.NDArray[np.float64]:
        """Running sums over the spatial axes, a dimension each, of the share of reduction steps that read inside."""
        if dim.at not in self._shares:
            values = self._inside(dim).astype(np.float64)
            many = sum(a < self.n_spatial for a in dim.axes)
            table = values.reshape(*values.shape[:many], -1).mean(axis=-1)
            for axis in range(many):
                nothing = np.zeros_like(table.take([0], axis=axis))
                table = np.concatenate([nothing, np.cumsum(table, axis=axis)], axis=axis)
            self._shares[dim.at] = np.asarray(table)
        return self._shares[dim.at]

    def most(self, plan: Plan, part: Part, n: int, extents: Ints) -> Ints:
        """The elements along a dimension that the operand's buffer holds: those that some fill brings; shape (n,).

        It is 0 where padding is loaded, and where the part is off.

        Args:
            plan: the points.
            part: the part whose fills are meant.
            n: which of ``dims``.
            extents: of the operand's region that a fill brings, with its padding, shape (n, dims).
        """
        from space._loads_kernel import most

        dim, many = self.dims[n], part.on.ndim > 1
        axes = list(dim.axes)
        lows, tiles, outer = (stacked(columns(x[..., axes])) for x in (part.lows, part.tiles, part.outer))
        # It matters only where padding is left out.
        used = part.on & plan.drops
        found = np.zeros((1, *used.shape)[-2:], dtype=np.int64)
        first, last, _ = dim.used
        most(
            lows, tiles, outer, np.array(used).reshape(found.shape), columns(plan.position[:, axes]),
            np.array(plan.attach[self.operand]), np.array(extents[..., dim.at]).reshape(found.shape),
            np.array([dim.coeffs[a] for a in axes], dtype=np.int64), first, last, len(dim.inside),
            np.zeros((2, len(axes)), dtype=np.int64), found,
        )
        if dim.often > 1:
            found = np.where(found > 0, -(-(found - 1) // dim.often) + 1, 0)
        return found if many else found[0]

    def movers(self, axes: Iterable[int]) -> list[int]:
        """Of the axes that move a dimension, the longest spatial and the longest reduction axis: one each is known.

        Args:
            axes: positions of the axes, e.g. rows and the phases of a transposed convolution's rows.
        """
        longest: dict[bool, int] = {}
        for a in axes:
            side = a < self.n_spatial
            if side not in longest or self.extents[a] > self.extents[longest[side]]:
                longest[side] = a
        return list(longest.values())

    @cached_property
    def useful_before(self) -> Ints:
        """Per dimension, how many pairs of indices before (i, j) of its spatial and its reduction axis are no padding.

        Shape (dims, longest spatial axis + 1, longest reduction axis + 1); an axis that there is not counts as one index.
        """
        sums = []
        for dim in self.dims:
            index = np.zeros((1, 1), dtype=np.int64)
            for a in self.movers(dim.axes):
                steps = dim.coeffs[a] * np.arange(self.extents[a])
                index = index + (steps[:, None] if a < self.n_spatial else steps[None, :])
            sums.append(np.asarray(dim.inside, dtype=np.int64)[index].cumsum(axis=0).cumsum(axis=1))
        longest = np.max([s.shape for s in sums], axis=0) + 1 if sums else (1, 1)
        table = np.zeros((len(sums), *longest), dtype=np.int64)
        for n, own in enumerate(sums):
            table[n, 1 : 1 + own.shape[0], 1 : 1 + own.shape[1]] = own
        return table

    def kinds(self, part: Part, ranges: Ints) -> npt.NDArray[np.float64]:
        """How many sizes of boxes of results the taps of one visit have along every dimension, on average over a part's visits.

        Taps whose boxes are of one size share an instruction: each has a place of its own in its list of micro-ops.

        Args:
            part: the part, or the stack of all.
            ranges: iterations of every axis in a visit, shape (n, axes), or (parts, n, axes).

        Returns:
            shape (dims, n), or (dims, parts, n).
        """
        from space import _padding_kernel

        found = np.ones((len(self.dims), *np.atleast_2d(part.on).shape))
        _padding_kernel.kinds(
            np.array(np.atleast_2d(part.on)), stacked(columns(part.lows)), stacked(columns(part.extents)),
            stacked(columns(ranges)), self.sides, self._before, found,
        )
        return found if part.on.ndim > 1 else found[:, 0]

    @cached_property
    def sides(self) -> Ints:
        """Per dimension, its spatial and its reduction axis of ``movers``; -1 where there is none; shape (dims, 2)."""
        sides = np.full((len(self.dims), 2), -1, dtype=np.int64)
        for own, dim in zip(sides, self.dims):
            for a in self.movers(dim.axes):
                own[int(a >= self.n_spatial)] = a
        return sides

    @cached_property
    def ends_meet(self) -> npt.NDArray[np.bool_]:
        """Per dimension, whether results at the first and at the last index of its spatial axis read padding; shape (dims, 2).

        A stride may end before it.
        """
        found = np.zeros((len(self.dims), 2), dtype=np.bool_)
        for own, dim, (a, _) in zip(found, self.dims, self.sides.tolist()):
            if a >= 0:
                inward = self._inward(dim)
                inside = self._inside(dim).reshape([int(self.extents[b]) for b in inward])
                own[:] = [not inside.take(at, axis=inward.index(a)).all() for at in (0, -1)]
        return found

    @cached_property
    def _before(self) -> Ints:
        """Per dimension, how many results before index i every tap has, shape (dims, longest spatial axis + 1, taps)."""
        return np.ascontiguousarray(np.diff(self.useful_before, axis=2))


def _dims_of(operand: Operand) -> tuple[PaddedDim, ...]:
    """The dimensions of an operand that are padded; none where an axis moves two of them."""
    found = [PaddedDim(d, tuple(a for a, c in enumerate(coeffs) if c), coeffs, row, operand.times[d] if operand.times else 1)
             for d, ((coeffs, _), row) in enumerate(zip(operand.dims, operand.inside)) if not all(row)]
    axes = [a for dim in found for a in dim.axes]
    return tuple(found) if len(axes) == len(set(axes)) else ()
