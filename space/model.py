"""Footprints, traffic, draft and lower bound of many points at once, in NumPy, without building a schedule.

A point fixes a tile per axis, an order of the outer loops, the loop at which every operand is loaded, and which buffers have
two banks. Outer loops stand in this sequence: spatial ones in the chosen order, then reduction ones in the program's order;
attaching an operand at depth ``d`` puts its load inside the first ``d`` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from autosched.lower.tokens import CAPACITY
from autosched.target import Target
from sim import timing
from space.draft import draft, store_cycles, uops
from space.nest import ACC, INP, Nest

Ints = npt.NDArray[np.int64]
Points = npt.NDArray[np.int32]

ISSUE = 23  # cycles between two loads beyond their beats: request, delay, drain (vta.md 5.7, E = 22 + beats, occupancy E + 1)


@dataclass(frozen=True)
class Columns:
    """Where each decision stands in a point.

    Args:
        axes: number of axes; columns 0.. hold the inner tile of each (iterations).
        operands: number of operands.
    """

    axes: int
    operands: int

    @property
    def zeros(self) -> int:
        """1 when products with padding are left out: tiles are loaded without it, and every tap has its own loop bounds."""
        return self.axes

    @property
    def order(self) -> int:
        """Index of the outer spatial loops' permutation."""
        return self.axes + 1

    def attach(self, operand: int) -> int:
        """Number of outer loops around the load of an operand."""
        return self.axes + 2 + operand

    @property
    def tail(self) -> int:
        """0, or 1 + the spatial axis along which the stages after the GEMM and the store go slice by slice."""
        return self.axes + 2 + self.operands

    def banks(self, operand: int) -> int:
        """1 when the operand's buffer has two banks."""
        return self.axes + 3 + self.operands + operand

    @property
    def acc_banks(self) -> int:
        """1 when the accumulator has two banks."""
        return self.axes + 3 + 2 * self.operands

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.axes + 4 + 2 * self.operands


def _product(rows: Ints) -> Ints:
    return np.asarray(rows.prod(axis=1), dtype=np.int64)


class Model:
    """Vectorised arithmetic on the points of one nest on one target.

    Args:
        nest: the program.
        target: the machine.
    """

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest = nest
        self.target = target
        self.config = target.config
        self.columns = Columns(len(nest.axes), len(nest.operands))
        self.extents = np.array([a.extent for a in nest.axes], dtype=np.int64)
        spatial = nest.spatial
        self.n_spatial = len(spatial)
        movable = [i for i in spatial if nest.axes[i].extent > 1]
        fixed = [i for i in spatial if nest.axes[i].extent == 1]
        self.orders = [(*p, *fixed) for p in permutations(movable)]
        # position of every axis' outer loop for every order
        self.position = np.zeros((len(self.orders), len(nest.axes)), dtype=np.int64)
        for n, order in enumerate(self.orders):
            for place, axis in enumerate(order):
                self.position[n, axis] = place
            for place, axis in enumerate(nest.reduce):
                self.position[n, axis] = self.n_spatial + place
        held = target.usable
        self.depths = {"inp": held.inp, "wgt": held.wgt, "acc": held.acc}
        self.divisors = [np.array([d for d in range(1, a.extent + 1) if a.extent % d == 0], dtype=np.int64) for a in nest.axes]
        self._tables: dict[tuple[int, int, bool], Ints] = {}
        self.out_elements = int(np.prod([nest.axes[i].extent for i in spatial]))
        self.products = int(self.extents.prod())
        self.taps, self.useful = self._useful_products()
        self.imm_ops = sum(s.imm_ops for s in nest.stages)
        self.tensor_ops = sum(s.tensor_ops for s in nest.stages)

    def _useful_products(self) -> tuple[tuple[tuple[int, ...], ...], int]:
        """(axes that move each padded dimension, products that no padding makes zero); ((), all) where none can be left out."""
        padded = [o for o in self.nest.operands if any(not all(row) for row in o.inside)]
        if len(padded) != 1:
            return (), self.products
        groups: list[tuple[int, ...]] = []
        useful = self.products
        for (coeffs, _), row in zip(padded[0].dims, padded[0].inside):
            if all(row):
                continue
            axes = tuple(a for a, c in enumerate(coeffs) if c)
            if any(a in group for group in groups for a in axes):
                return (), self.products
            index = np.zeros((), dtype=np.int64)
            for a in axes:
                index = np.add.outer(index, coeffs[a] * np.arange(self.extents[a]))
            groups.append(axes)
            useful = useful // index.size * int(np.asarray(row)[index].sum())
        return tuple(groups), useful

    def drops(self, points: Points) -> npt.NDArray[np.bool_]:
        """Whether products with padding are left out, shape (n,)."""
        dropped: npt.NDArray[np.bool_] = points[:, self.columns.zeros] == 1
        return dropped

    # -- geometry -----------------------------------------------------------------------------------------------------

    def tiles(self, points: Points) -> Ints:
        """Inner tile of every axis, shape (n, axes)."""
        return points[:, : self.columns.axes].astype(np.int64)

    def positions(self, points: Points) -> Ints:
        """Place of every axis' outer loop in the sequence, shape (n, axes)."""
        return self.position[points[:, self.columns.order]]

    def ranges(self, points: Points, depth: Ints) -> Ints:
        """Iterations of every axis inside the first ``depth`` outer loops, shape (n, axes)."""
        inside = self.positions(points) >= depth[:, None]
        return np.where(inside, self.extents[None, :], self.tiles(points))

    def trips(self, points: Points, depth: Ints) -> Ints:
        """Iterations of the first ``depth`` outer loops together, shape (n,)."""
        outside = self.positions(points) < depth[:, None]
        return _product(np.where(outside, self.extents[None, :] // self.tiles(points), 1))

    def extent_of(self, points: Points, operand: int) -> Ints:
        """Extent of the region of every dimension of an operand that one load brings, shape (n, dims).

        A load outside all loops copies the whole tensor, also what a stride never reaches.
        """
        depth = self.attach(points, operand)
        ranges = self.ranges(points, depth)
        op = self.nest.operands[operand]
        plain = np.full(len(points), op.producer is None) | self.drops(points)
        columns = []
        for (coeffs, size), source in zip(op.dims, op.source):
            c = np.array(coeffs, dtype=np.int64)
            extent = ((ranges - 1) * c[None, :]).sum(axis=1) + 1
            extent = np.where(depth == 0, size, extent)
            columns.append(np.where(plain, np.minimum(extent, source), extent))
        return np.stack(columns, axis=1) if columns else np.ones((len(ranges), 1), dtype=np.int64)

    def attach(self, points: Points, operand: int) -> Ints:
        """Depth at which an operand is loaded, shape (n,)."""
        return points[:, self.columns.attach(operand)].astype(np.int64)

    def footprint(self, points: Points, operand: int) -> Ints:
        """Elements of one bank of an operand, shape (n,)."""
        return _product(self.extent_of(points, operand))

    def fills(self, points: Points, operand: int) -> Ints:
        """How often an operand is loaded, shape (n,)."""
        return self.trips(points, self.attach(points, operand))

    def tile_elements(self, points: Points) -> Ints:
        """Accumulator elements of one output tile, shape (n,)."""
        return _product(self.tiles(points)[:, : self.n_spatial])

    # -- legality -----------------------------------------------------------------------------------------------------

    def capacity(self, points: Points) -> npt.NDArray[np.bool_]:
        """Whether all buffers fit their memories, banks included, and all waiting tokens their counter."""
        used = {"inp": np.zeros(len(points), np.int64), "wgt": np.zeros(len(points), np.int64)}
        acc = self.tile_elements(points) * (1 + points[:, self.columns.acc_banks].astype(np.int64))
        if self.nest.anchor is None:
            acc = acc * max(1, len(self.nest.stages))
        for n, operand in enumerate(self.nest.operands):
            banks = points[:, self.columns.banks(n)].astype(np.int64)
            if self.nest.anchor is None:
                # A result may take the place of an operand, and then its banks are the operand's too.
                banks = np.maximum(banks, points[:, self.columns.acc_banks])
            need = self.footprint(points, n) * (1 + banks)
            if operand.scope == ACC:
                acc = acc + need
            else:
                used["inp" if operand.scope == INP else "wgt"] += need
        fits: npt.NDArray[np.bool_] = (
            (used["inp"] <= self.depths["inp"]) & (used["wgt"] <= self.depths["wgt"]) & (acc <= self.depths["acc"])
        )
        # A slice that is done leaves a token for its store, and the stages may run ahead by as many tiles as there are banks.
        fits &= self.slices(points) * (1 + points[:, self.columns.acc_banks].astype(np.int64)) <= CAPACITY
        return fits

    def canonical(self, points: Points, placed: bool = True) -> npt.NDArray[np.bool_]:
        """Whether a point is the one representative of its twins.

        Unit outer loops come last and in axis order; a load stands directly inside a loop that moves its region; a reduction is
        split only around a load (without one inside, the outer loop folds back into the instruction); a buffer that is filled
        once has one bank; a slice axis has more than one slice, and where there is nothing but the store to slice, an axis with
        more than one iteration before it.

        Args:
            points: the points.
            placed: whether all loads are placed (else what depends on the later ones is not asked).
        """
        n = len(points)
        tiles = self.tiles(points)
        outer = self.extents[None, :] // tiles
        ok = np.ones(n, dtype=np.bool_)
        position = self.positions(points)
        key = np.where(outer[:, : self.n_spatial] > 1, 0, 1)
        for a in range(self.n_spatial):
            for b in range(self.n_spatial):
                if a != b:
                    before = position[:, a] < position[:, b]
                    ok &= ~(before & (key[:, a] > key[:, b]))
                    if a > b and self.extents[a] > 1 and self.extents[b] > 1:
                        ok &= ~(before & (key[:, a] == 1) & (key[:, b] == 1))
        rows = np.arange(n)
        axis_at = np.argsort(position, axis=1, kind="stable")
        for k, operand in enumerate(self.nest.operands):
            depth = self.attach(points, k)
            last = axis_at[rows, np.maximum(depth - 1, 0)]
            uses = np.array([operand.uses(a) for a in range(len(self.nest.axes))])
            ok &= (depth == 0) | ((outer[rows, last] > 1) & uses[last])
            if operand.scope == ACC:
                ok &= depth <= self.n_spatial
            ok &= (points[:, self.columns.banks(k)] == 0) | (self.fills(points, k) > 1)
        deepest = np.zeros(n, dtype=np.int64)
        for k in range(len(self.nest.operands)):
            deepest = np.maximum(deepest, self.attach(points, k))
        for a in self.nest.reduce if placed else ():
            ok &= (outer[:, a] == 1) | (deepest > position[:, a])
        whole = np.full(n, self.n_spatial, dtype=np.int64)
        ok &= (points[:, self.columns.acc_banks] == 0) | (self.trips(points, whole) > 1)
        tail = points[:, self.columns.tail]
        ok &= (tail == 0) | (tiles[rows, np.maximum(tail - 1, 0)] > 1)
        if not self.nest.stages:
            # Only the store goes by slices then; along the axis that comes first anyway it is the same loop.
            ahead: Ints = np.asarray(np.cumprod(tiles[:, : self.n_spatial], axis=1), dtype=np.int64)
            ok &= (tail == 0) | ((tail > 1) & (ahead[rows, np.maximum(tail - 2, 0)] > 1))
        return ok

    # -- cost ---------------------------------------------------------------------------------------------------------

    def compute_floor(self, points: Points) -> Ints:
        """Cycles that the GEMM and ALU pipelines need at least, shape (n,): one a uop, two a tensor-tensor uop."""
        gemm = np.where(self.drops(points), self.useful, self.products) + self.out_elements if self.nest.anchor else 0
        alu = self.out_elements * (self.imm_ops + 2 * self.tensor_ops)
        return np.asarray(gemm + np.full(len(points), alu), dtype=np.int64)

    def load_cycles(self, points: Points, operand: int) -> Ints:
        """Beats and issue cycles of all fills of an operand, shape (n,)."""
        beats, transfers = self.transfer(points, operand)
        return self.fills(points, operand) * (beats + ISSUE * transfers)

    def transfer(self, points: Points, operand: int) -> tuple[Ints, Ints]:
        """(beats, DMA instructions) of one fill, shape (n,) each."""
        op = self.nest.operands[operand]
        c = self.config
        size = {INP: c.inp_elem_bytes, ACC: c.acc_elem_bytes}.get(op.scope, c.wgt_elem_bytes)
        extents = self.extent_of(points, operand)
        plain = np.full(len(points), op.producer is None) | self.drops(points)
        transfers = np.ones(len(points), dtype=np.int64)
        sizes = [s for _, s in op.dims]
        inner, merged, rows = np.ones(len(points), bool), np.ones(len(points), np.int64), 0
        # The innermost dimensions merge while they span their whole size; one more makes the rows of a 2-D transfer.
        segments = np.zeros(len(points), dtype=np.int64)
        for d in range(len(sizes) - 1, -1, -1):
            grows = (extents[:, d] > 1) & ~inner
            segments = segments + grows
            transfers = np.where(grows & (segments > 1), transfers * extents[:, d], transfers)
            inner &= np.where(plain, extents[:, d] == op.source[d], extents[:, d] == 1)
            merged, rows = merged * extents[:, d], rows + 1
        return merged * -(-size // c.bus_bytes), transfers

    def draft(self, points: Points) -> npt.NDArray[np.float64]:
        """Estimated cycles of every point, shape (n,)."""
        return draft(self, points)

    def slices(self, points: Points) -> Ints:
        """In how many slices the stages after the GEMM and the store go over a tile, shape (n,)."""
        tail = points[:, self.columns.tail].astype(np.int64)
        tiles = self.tiles(points)
        return np.where(tail > 0, tiles[np.arange(len(points)), np.maximum(tail - 1, 0)], 1)

    def bound(self, points: Points) -> Ints:
        """Cycles that no execution of a point can beat, shape (n,): the busiest engine, with what compute itself has to load.

        Only beats are counted, never latencies that a machine might hide; of a strided or padded region only what is used.
        """
        c = self.config
        load = np.zeros(len(points), dtype=np.int64)
        acc = np.zeros(len(points), dtype=np.int64)
        for k, operand in enumerate(self.nest.operands):
            size = {INP: c.inp_elem_bytes, ACC: c.acc_elem_bytes}.get(operand.scope, c.wgt_elem_bytes)
            beats = self._least_elements(points, k) * size // c.bus_bytes
            if operand.scope == ACC:
                acc += beats
            else:
                load += beats
        # A burst carries at most burst_beats beats, and every burst pays its handshake (vta.md 5.9): full bursts are the least.
        per_burst = max(1, c.burst_beats * c.bus_bytes // c.out_elem_bytes)
        store = self.out_elements * int(timing.store_cycles(0, 1, per_burst, per_burst, config=c)) // per_burst
        return np.asarray(np.maximum(np.maximum(self.compute_floor(points) + acc, load + acc), store), dtype=np.int64)

    def floor(self) -> int:
        """A lower bound over the whole space, in cycles: every operand crosses the bus at least once, whatever the tiles."""
        whole = np.zeros((1, self.columns.width), dtype=np.int32)
        whole[0, : self.columns.axes] = self.extents
        whole[0, self.columns.zeros] = bool(self.taps)
        return int(self.bound(whole)[0])

    def _least_elements(self, points: Points, operand: int) -> Ints:
        """Elements of an operand that must cross the bus at least, all fills together: padding and what is skipped do not."""
        op = self.nest.operands[operand]
        if op.producer is not None and not op.inside:
            return np.zeros(len(points), dtype=np.int64)  # nobody knows how much of it is padding
        ranges = self.ranges(points, self.attach(points, operand))
        moved = [tuple(a for a, c in enumerate(coeffs) if c) for coeffs, _ in op.dims]
        axes = [a for group in moved for a in group]
        # Every axis that moves no dimension repeats the loads. Where one moves two, sums over tiles do not multiply.
        apart = len(axes) == len(set(axes))
        still = [a for a in range(len(self.extents)) if not (apart and a in axes)]
        total = _product(self.extents[None, still] // ranges[:, still])
        for d, group in enumerate(moved):
            total = total * self._least_table(operand, d, apart)[tuple(self._rank(a, ranges[:, a]) for a in group)]
        return total

    def _rank(self, axis: int, ranges: Ints) -> Ints:
        """Where each value stands among the divisors of an axis' extent, shape (n,)."""
        return np.asarray(np.searchsorted(self.divisors[axis], ranges), dtype=np.int64)

    def _least_table(self, operand: int, dim: int, together: bool) -> Ints:
        """Indices of one dimension that tiles use and that are no padding, by the ranks of the ranges of the axes that move it.

        Args:
            operand: the operand.
            dim: its dimension.
            together: the sum over all tiles; else the least of any tile.
        """
        key = operand, dim, together
        if key not in self._tables:
            op = self.nest.operands[operand]
            coeffs, size = op.dims[dim]
            axes = [a for a, c in enumerate(coeffs) if c]
            inside = np.array(op.inside[dim] if op.inside else [True] * size)
            table: Ints = np.zeros([len(self.divisors[a]) for a in axes], dtype=np.int64)
            for rank in np.ndindex(*table.shape):
                start, step = np.zeros(1, np.int64), np.zeros(1, np.int64)
                for place, a in zip(rank, axes):
                    inner = int(self.divisors[a][place])
                    start = np.add.outer(start, coeffs[a] * np.arange(0, self.extents[a], inner)).ravel()
                    step = np.add.outer(step, coeffs[a] * np.arange(inner)).ravel()
                used = inside[start[:, None] + np.unique(step)[None, :]].sum(axis=1)
                table[rank] = used.sum() if together else used.min()
            self._tables[key] = table
        return self._tables[key]

    # -- what the cost model sees ---------------------------------------------------------------------------------------

    def features(self, points: Points) -> npt.NDArray[np.float32]:
        """One row per point: log2 of sizes, the decisions, and the parts of the draft; shape (n, f)."""
        n = len(points)
        tiles = self.tiles(points)
        whole = np.full(n, self.n_spatial, dtype=np.int64)
        parts = [np.log2(tiles), np.log2(self.extents[None, :] / tiles), self.positions(points)]
        for k in range(len(self.nest.operands)):
            beats, transfers = self.transfer(points, k)
            fills = self.fills(points, k)
            parts += [np.log2(np.stack([beats, transfers, fills, fills * beats, self.footprint(points, k)], axis=1))]
        parts.append(np.log2(np.stack([self.tile_elements(points), self.trips(points, whole), self.slices(points),
                                       np.maximum(uops(self, points), 1)], axis=1)))
        parts.append(points[:, self.columns.axes :])
        parts.append(np.log2(np.stack([self.draft(points), store_cycles(self, points)], axis=1)))
        return np.concatenate([np.asarray(p, dtype=np.float32) for p in parts], axis=1)
