"""Loops and micro-ops of GEMM and ALU instructions, and elementwise chains; matrix products are in ``gemm.py``.

An instruction has two loops with a stride per operand, and a list of micro-ops for all that they do not reach. By default the
loops are merged where all operands allow it, and the two longest become the hardware's: that makes the micro-op list shortest.
``vta.loop`` says otherwise: ``hw`` prefers a loop for the hardware, ``uop`` keeps it in the micro-op list, ``unroll`` makes one
instruction per iteration.

Two micro-ops of one instruction that are close together must not write one accumulator (the ALU's pipeline, and that of every
unit under ``portable``); orders are chosen accordingly, and where none exists, the repeating loop is unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations, product
from math import prod

import numpy as np

from autosched.errors import LoweringError
from autosched.lower.affine import Ints
from autosched.lower.elements import Elements, Place
from autosched.lower.limits import check_instructions
from autosched.lower.nest import Dim, Grid, Steps, interval, make_grid, merge, sort_out
from autosched.lower.order import Key
from autosched.lower.tree import Site
from sim import isa
from sim.config import VTAConfig
from sim.encoding import usable
from sim.timing import PIPELINE_CYCLES

HAZARD_DISTANCE = 2
PlainDim = tuple[int, tuple[int, ...], str | None]  # extent, strides and note of a loop that no condition shortens
# The columns of the outer and the inner loop: their iterations, and of every operand the strides.
TRIPS = (isa.ITER_OUT, isa.ITER_IN)
STRIDES = ((isa.DST_OUT, isa.DST_IN), (isa.SRC_OUT, isa.SRC_IN), (isa.WGT_OUT, isa.WGT_IN))


@dataclass(eq=False, slots=True)
class Kernels:
    """Instructions with their micro-ops, before both are put in order.

    Args:
        table: decoded rows; uop_bgn and uop_end are filled in later.
        position: program-order keys.
        step: order within a position.
        pattern: per row, which of ``patterns`` its micro-ops follow.
        base: per row, (acc, inp or src, wgt) added to every micro-op of the pattern.
        patterns: micro-op lists, int64[n, 3].
    """

    table: isa.Table
    position: Ints
    step: Ints
    pattern: Ints
    base: Ints
    patterns: list[Ints]


@dataclass(eq=False, slots=True)
class Fold:
    """Loops of one instruction: hardware's outer and inner, micro-ops' in order (outermost first), and instances."""

    out: Dim
    inner: Dim
    uops: list[Dim]
    apart: list[Dim] = field(default_factory=list)

    def offsets(self, operands: int) -> Ints:
        """The micro-op list from zero bases."""
        total: Ints | None = None
        for dim in self.uops:
            steps = np.arange(dim.extent, dtype=np.int64)[:, None] * np.array(dim.strides, dtype=np.int64)
            total = steps if total is None else (total[:, None, :] + steps).reshape(-1, operands)
        return np.zeros((1, operands), dtype=np.int64) if total is None else total


@dataclass(frozen=True, slots=True)
class Folder:
    """Chooses loops for one kind of instruction.

    Args:
        widths: per operand, strides must be below this.
        capacity: most micro-ops of one list.
        hazard: whether close micro-ops must not share an accumulator.
        name: block, for messages.
    """

    widths: tuple[int, ...]
    capacity: int
    hazard: bool
    name: str

    def eligible(self, dim: Dim) -> bool:
        """Whether the hardware's loop fields can hold a dimension."""
        return dim.extent <= isa.MAX_ITER and all(0 <= s < w for s, w in zip(dim.strides, self.widths))

    def fold(self, dims: Sequence[Dim]) -> Fold:
        """The loops of an instruction over ``dims``; ``apart`` of the result must become instances."""
        if all(d.plain for d in dims):
            return self.fold_plain(tuple([(d.extent, d.strides, d.note) for d in dims]))
        return self.find(dims)

    def fold_plain(self, dims: tuple[PlainDim, ...]) -> Fold:
        """``fold`` of loops that no condition shortens; for reading only."""
        # Candidates of one workload ask for the same nests again and again.
        return _plain_fold(self, dims)

    def find(self, dims: Sequence[Dim]) -> Fold:
        """``fold``, worked out."""
        dims = merge(dims, isa.MAX_ITER)
        one = Dim(1, (0,) * len(self.widths))
        forced = [d for d in dims if d.note == "hw"]
        if len(forced) > 2:
            reason = f"block {self.name}: {len(forced)} loops are marked vta.loop = hw; an instruction has two"
            raise LoweringError("annotation", reason)
        for d in forced:
            if not self.eligible(d):
                reason = f"block {self.name}: a loop marked hw has extent {d.extent} and strides {d.strides}, beyond the fields"
                raise LoweringError("field", reason)
        bound = [d for d in dims if not d.plain]
        apart = [d for d in bound if not self.eligible(d)]
        bound = [d for d in bound if self.eligible(d)]
        bound.sort(key=lambda d: (d.note != "hw", -d.extent))
        apart += bound[2:]
        dims = [d for d in dims if d not in apart]
        while True:
            found = self.choose(dims, one)
            if found is not None:
                found.apart = apart
                return found
            # No legal order: the loop that repeats an accumulator, or else the longest micro-op loop, becomes instances.
            plain = [d for d in dims if d.strides[0] == 0] if self.hazard else []
            worst = max(plain or dims, key=lambda d: d.extent)
            apart.append(worst)
            dims.remove(worst)

    def choose(self, dims: list[Dim], one: Dim) -> Fold | None:
        """The legal fold with the shortest micro-op list, or None."""
        must = [d for d in dims if not d.plain or d.note == "hw"]
        can = [d for d in dims if d in must or (d.note != "uop" and self.eligible(d))]
        best: tuple[tuple[int, int], Fold] | None = None
        count = prod(d.extent for d in dims)
        for rank, pair in enumerate(_pairs(can, must, one)):
            uops = [d for d in dims if d not in pair]
            length = count // prod(d.extent for d in pair)
            if length > self.capacity or (best is not None and (length, rank) >= best[0]):
                continue
            if self.hazard:
                uops.sort(key=lambda d: (d.strides[0] != 0, d.extent))
            fold = Fold(pair[0], pair[1], uops)
            if self.hazard and self.clashes(fold):
                continue
            best = ((length, rank), fold)
            if not self.hazard:
                break  # the longest come first, and nothing speaks against them
        return best[1] if best else None

    def clashes(self, fold: Fold) -> bool:
        """Whether two micro-ops at most HAZARD_DISTANCE apart can write one accumulator."""
        return self.repeats(fold, fold.offsets(len(self.widths))[:, 0])

    def repeats(self, fold: Fold, start: Ints) -> bool:
        """The same for any micro-op list under the loops of a fold, given by its accumulators."""
        # A loop that a condition may shorten is tested at every length up to where its iterations are far enough apart.
        lengths = [
            [dim.extent] if dim.plain else sorted({min(e, dim.extent) for e in (1, 2, 3, dim.extent)})
            for dim in (fold.inner, fold.out)
        ]
        for inner, out in product(*lengths):
            dst = start
            for dim, extent in ((fold.inner, inner), (fold.out, out)):
                steps = np.arange(min(extent, 4096), dtype=np.int64)[:, None] * dim.strides[0]
                dst = (steps + dst[None, :]).reshape(-1)[: 1 << 16]
            if any(bool((dst[d:] == dst[:-d]).any()) for d in range(1, HAZARD_DISTANCE + 1) if len(dst) > d):
                return True
        return False


@lru_cache(maxsize=4096)
def _plain_fold(folder: Folder, dims: tuple[PlainDim, ...]) -> Fold:
    """``Folder.find`` of loops that no condition shortens, by their extents, strides and notes; for reading only."""
    return folder.find([Dim(*dim) for dim in dims])


def _pairs(can: list[Dim], must: list[Dim], one: Dim) -> Iterator[tuple[Dim, Dim]]:
    """(outer, inner) candidates, longest first; those that leave out a loop in ``must`` are no candidates."""
    ranked = sorted(can, key=lambda d: -d.extent)
    if len(ranked) >= 2:
        for a, b in permutations(ranked, 2):
            if all(m is a or m is b for m in must):
                yield a, b
    for a in ranked:
        if all(m is a for m in must):
            yield one, a
            yield a, one
    if not must:
        yield one, one


def whole_loops(fold: Fold) -> dict[int, int]:
    """By column, what an instruction says of those of the hardware's loops that no condition shortens."""
    found: dict[int, int] = {}
    for loop, dim in enumerate((fold.out, fold.inner)):
        if not dim.limits:
            found[TRIPS[loop]] = dim.extent
            found.update((columns[loop], stride) for columns, stride in zip(STRIDES, dim.strides))
    return found


def rows_of(
    name: str, fold: Fold, operands: Sequence[Place], grid: Grid, columns: Mapping[int, int], step: int, steps: int,
    sequential: bool, moved: Ints | None = None,
) -> Kernels:
    """One instruction per instance (and per iteration of what stays apart)."""
    shift = np.zeros((grid.count, len(operands)), dtype=np.int64) if moved is None else moved
    for dim in fold.apart:
        check_instructions(grid.count * dim.extent, name)
        low, high = interval(dim.limits, dim.extent, grid)
        repeat = np.repeat(np.arange(grid.count), dim.extent)
        which = np.tile(np.arange(dim.extent, dtype=np.int64), grid.count)
        keep = (which >= low[repeat]) & (which < high[repeat])
        repeat, which = repeat[keep], which[keep]
        grid = grid.take(repeat)
        shift = shift[repeat] + which[:, None] * np.array(dim.strides, dtype=np.int64)
    cut = [(loop, dim) for loop, dim in enumerate((fold.out, fold.inner)) if dim.limits]
    bounds = [interval(dim.limits, dim.extent, grid) for _, dim in cut]
    keep = np.logical_and.reduce([np.ones(grid.count, dtype=bool), *[high > low for low, high in bounds]])
    if not bool(keep.all()):
        grid, shift = grid.take(keep), shift[keep]
        bounds = [(low[keep], high[keep]) for low, high in bounds]
    n = grid.count
    table = np.zeros((n, isa.NCOLS), dtype=np.int64)
    for column, value in {**columns, **whole_loops(fold)}.items():
        table[:, column] = value
    base = np.zeros((n, 3), dtype=np.int64)
    for k, place in enumerate(operands):
        base[:, k] = place.base(grid.values, n) + shift[:, k]
    for (loop, dim), (low, high) in zip(cut, bounds):
        table[:, TRIPS[loop]] = high - low
        for k in range(len(operands)):
            base[:, k] += low * dim.strides[k]
            # A loop of one iteration has no stride worth telling apart: 0 lets kernels and instructions be equal.
            table[:, STRIDES[k][loop]] = np.where(high - low > 1, dim.strides[k], 0)
    pattern = np.zeros((prod(d.extent for d in fold.uops), 3), dtype=np.int64)
    pattern[:, : len(operands)] = fold.offsets(len(operands))
    order = grid.step * steps + step if sequential else np.full(n, step, dtype=np.int64)
    return Kernels(table, grid.position, order, np.zeros(n, dtype=np.int64), base, [pattern])


def join(parts: Sequence[Kernels], tables: bool = True) -> Kernels:
    """Several groups of instructions as one.

    Args:
        parts: the groups.
        tables: False where the rows of the table are not asked for: there are none then.
    """
    if len(parts) == 1:
        return parts[0]
    patterns: list[Ints] = []
    ids = []
    for p in parts:
        ids.append(p.pattern + len(patterns))
        patterns += p.patterns
    return Kernels(
        np.concatenate([p.table for p in parts]) if tables else parts[0].table[:0],
        np.concatenate([p.position for p in parts]), np.concatenate([p.step for p in parts]), np.concatenate(ids),
        np.concatenate([p.base for p in parts]), patterns,
    )


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One instruction of a chain: ``reset``, an operation with a constant, or with a tensor.

    Args:
        op: ALU operation, or -1 for a reset of the destination to 0.
        imm: the constant, if there is no tensor.
        place: the tensor; with ``moves``, where the operand of the constant is read. None: the destination.
        moves: whether the destination becomes ``place op imm``, as only the RTL does it.
        last: whether it is done to the last element of the destination alone; with ``moves``, whether that is the operand.
    """

    op: int
    imm: int = 0
    place: Place | None = None
    moves: bool = False
    last: bool = False


def lower_alu(
    site: Site, elems: Elements, steps: Sequence[Step], key: Key, config: VTAConfig, semantics: str
) -> Kernels:
    """The instructions of an elementwise chain, each over the whole nest.

    Args:
        site: the site.
        elems: its accesses in elements.
        steps: the chain.
        key: its program order.
        config: the machine.
        semantics: ``chisel``, ``fsim`` or ``portable``.
    """
    target = elems.write
    tensors = [s.place for s in steps if s.place is not None]
    offsets = [target.offset, *[p.offset for p in tensors]]
    dims, unrolled, limits, _ = sort_out(Steps.of(elems.loops, offsets), site.conds)
    # Several operations per accumulator that is visited repeatedly: all of them must run before the next visit.
    repeats = len(steps) > 1 and any(target.offset.coef(loop) == 0 for loop in unrolled)
    alone = [d for d in dims if d.strides[0] == 0] if len(steps) > 1 else []
    dims = [d for d in dims if d not in alone]
    if semantics == "chisel" and not alone:
        steps = _from_last(steps, prod(d.extent for d in dims))
    grid = make_grid(site, unrolled, limits, key.strides, key.start)
    held = usable(config, semantics)
    parts = []
    column = 0
    spread, moved = _spread(site.name, grid, alone)
    for k, step in enumerate(steps):
        if step.place is None:
            chosen, operands = (0, 0), (target, target)
        else:
            column += 1
            chosen, operands = (0, column), (target, step.place)
        mine = [Dim(d.extent, tuple([d.strides[c] for c in chosen]), d.note, d.limits, d.pads) for d in dims]
        shift, where = None if moved is None else moved[:, list(chosen)], spread
        if step.last:
            shift, mine, where = _at_last(mine, spread, step.moves)
        width = held.inp if step.op < 0 else held.acc
        hazard = step.op >= 0 or semantics == "portable"
        fold = Folder((held.acc, min(width, held.acc)), held.uop, hazard, site.name).fold(mine)
        if step.op < 0:
            columns = {isa.OPCODE: isa.OP_GEMM, isa.RESET: 1}
        else:
            immediate = int(step.place is None or step.moves)
            columns = {isa.OPCODE: isa.OP_ALU, isa.ALU_OP: step.op, isa.USE_IMM: immediate, isa.IMM: step.imm}
        rows = rows_of(site.name, fold, operands, where, columns, k, len(steps), bool(alone) or repeats, shift)
        if step.op < 0:
            # Micro-ops of a reset need no source; the same list as the ALU's serves when its index fits INP.
            if held.inp < held.acc:
                rows.base[:, 1] = 0
                rows.patterns = [p * np.array([1, 0, 0]) for p in rows.patterns]
            rows.table[:, isa.SRC_OUT] = rows.table[:, isa.SRC_IN] = 0
        parts.append(rows)
    return join(parts)


def _from_last(steps: Sequence[Step], elements: int) -> Sequence[Step]:
    """The same chain; a constant that takes several operations is made in one element, and the others are moved from there.

    It is the last one: no micro-op reads what one just before it writes.

    Args:
        steps: the chain.
        elements: that an instruction writes.
    """
    # A reset, and operations with a constant behind it.
    made = int(bool(steps) and steps[0].op < 0)
    while 0 < made < len(steps) and steps[made].place is None:
        made += 1
    each = PIPELINE_CYCLES + 1
    if made < 2 or made * (1 + each) + elements + each >= made * (elements + each):
        return steps
    return [*[replace(s, last=True) for s in steps[:made]], Step(isa.ALU_SHR, moves=True, last=True), *steps[made:]]


def _at_last(dims: Sequence[Dim], grid: Grid, moves: bool) -> tuple[Ints, list[Dim], Grid]:
    """Where the last element of every instance stands, the loops of what is done with it, and the instances that have one.

    Args:
        dims: the destination's loops.
        grid: instances.
        moves: whether the others are moved from there, or it is written.
    """
    bounds = [interval(d.limits, d.extent, grid) for d in dims]
    end = sum(((high - 1) * d.strides[0] for d, (_, high) in zip(dims, bounds)), np.zeros(grid.count, dtype=np.int64))
    if moves:
        return end[:, None] * np.array([0, 1]), [replace(d, strides=(d.strides[0], 0)) for d in dims], grid
    keep = np.all([high > low for low, high in bounds], axis=0)
    return np.stack([end[keep]] * 2, axis=1), [], grid.take(keep)


def _spread(name: str, grid: Grid, dims: Sequence[Dim]) -> tuple[Grid, Ints | None]:
    """Instances times the iterations of ``dims``, and per instance and operand the element shift."""
    if not dims:
        return grid, None
    moved = np.zeros((grid.count, len(dims[0].strides)), dtype=np.int64)
    for dim in dims:
        check_instructions(grid.count * dim.extent, name)
        low, high = interval(dim.limits, dim.extent, grid)
        repeat = np.repeat(np.arange(grid.count), dim.extent)
        which = np.tile(np.arange(dim.extent, dtype=np.int64), grid.count)
        keep = (which >= low[repeat]) & (which < high[repeat])
        repeat, which = repeat[keep], which[keep]
        step = grid.step[repeat] * dim.extent + which
        grid = grid.take(repeat)
        grid.step = step
        moved = moved[repeat] + which[:, None] * np.array(dim.strides, dtype=np.int64)
    return grid, moved
