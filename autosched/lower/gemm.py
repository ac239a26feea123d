"""Matrix products that a border cuts into pieces of unequal lengths, as the instructions that take fewest cycles.

Each tap of a window has a rectangle of results that read no padding, and these differ in their lengths. Taps of the same lengths
share an instruction, each with its place in the list of micro-ops: with the loops that are cut left to the hardware the lists are
shortest. A loop that is written out in the list instead needs no common length, so more taps share an instruction, and what that
costs is micro-ops: those of every list are loaded once. Where instructions run often, fewer of them are worth longer lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autosched.lower.affine import Ints, Loop
from autosched.lower.compute import Fold, Folder, Kernels, join, rows_of, whole_loops
from autosched.lower.elements import Place
from autosched.lower.limits import LIMITS, check_instructions, check_uops
from autosched.lower.nest import Dim, Grid, Steps, cases, make_grid, note_of, sort_out, within
from autosched.lower.order import Key
from autosched.lower.tree import Site
from sim import isa
from sim.config import VTAConfig
from sim.encoding import usable
from sim.timing import PIPELINE_CYCLES

# Lists that are longer for fewer instructions take no more than one part in so many of the micro-op memory, those of every kind
# of tile by themselves: other tiles and nests need theirs.
LISTED_SHARE = 8
WRITTEN_OUT = 4  # loops, the longest of those that are cut, that may be: ways are as many as sets of them


def warm() -> None:
    """Compiles the kernels, or loads them from numba's cache."""
    from autosched.lower import _border_kernel as compiled

    one = np.ones(1, dtype=np.int64)
    zero, table = np.zeros(1, dtype=np.int64), np.ones((1, 1), dtype=np.int64)
    compiled.shortened(table, one, zero, one, table, zero.copy(), table.copy(), table.copy(), zero.copy())
    compiled.kinds(table, zero, 0, zero.copy(), zero.copy(), zero.copy(), np.zeros(2, dtype=np.int64))
    compiled.listed_uops(table, 0, zero, zero, one)
    compiled.marks(zero, table, table, zero.copy())
    compiled.representing(zero, one, zero - 1, zero.copy())
    compiled.grouped(zero, zero, one, np.zeros(2, dtype=np.int64), zero.copy(), zero.copy())
    compiled.patterned(table, zero, zero, zero, zero - 1, zero.copy(), zero.copy())


@dataclass(eq=False, slots=True)
class _Pieces:
    """What borders leave of a nest: every instance of what is no loop of an instruction.

    Args:
        base: elements where each begins, int64[n, 3].
        position: program-order keys.
        run: number of the position; those of one position follow each other, since what is unrolled goes through innermost.
        lengths: of the loops that are cut, int64[n, loops].
    """

    base: Ints
    position: Ints
    run: Ints
    lengths: Ints

    def take(self, rows: Ints) -> _Pieces:
        """The pieces of these numbers; one may be there several times."""
        return _Pieces(
            self.base.take(rows, axis=0), self.position.take(rows), self.run.take(rows), self.lengths.take(rows, axis=0)
        )

    def stepped(self, counts: Ints, strides: Sequence[int]) -> tuple[_Pieces, Ints]:
        """Every iteration of a loop, of so many in each piece, as a piece of its own, and of which piece."""
        rows = np.repeat(np.arange(len(counts)), counts)
        step = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = self.take(rows)
        found.base += step[:, None] * np.array(strides, dtype=np.int64)
        return found, rows


@dataclass(eq=False, slots=True)
class _Way:
    """One choice of the loops that are written out in the lists.

    Args:
        listed: their numbers among those that are cut.
        kind: per piece, which lengths the others have.
        lengths: per kind, these and those of the loops that are written out in one of its pieces.
        count: instructions, where a list holds all pieces of a kind at a position.
        positions: that have any.
    """

    listed: tuple[int, ...]
    kind: Ints
    lengths: list[list[int]]
    count: int
    positions: int

    def folds(self, cut: Sequence[Dim], plain: Sequence[Dim], folder: Folder) -> list[Fold]:
        """Per kind, the loops of its instructions."""
        left = [(k, dim.strides, dim.note) for k, dim in enumerate(cut) if k not in self.listed]
        always = tuple([(dim.extent, dim.strides, dim.note) for dim in plain])
        return [
            folder.fold_plain((*always, *[(lengths[k], strides, note) for k, strides, note in left])) for lengths in self.lengths
        ]


def lower_gemm(site: Site, places: Sequence[Place], key: Key, config: VTAConfig, semantics: str) -> Kernels:
    """The GEMM instructions of a matrix product site.

    Args:
        site: the site.
        places: the elements that it writes and reads: accumulator, input, weight.
        key: its program order.
        config: the machine.
        semantics: ``chisel``, ``fsim`` or ``portable``.
    """
    held = usable(config, semantics)
    folder = Folder((held.acc, held.inp, held.wgt), held.uop, semantics == "portable", site.name)
    parts = []
    grids: dict[tuple[Loop, ...], tuple[Grid, Ints]] = {}  # all instances, and where they begin, by the loops that are unrolled
    steps = Steps.of(site.inner, [p.offset for p in places])
    for only, conds in cases(site):
        dims, unrolled, limits, _ = sort_out(steps, conds)
        if tuple(unrolled) not in grids:
            whole = make_grid(site, unrolled, (), key.strides, key.start)
            base = np.empty((whole.count, len(places)), dtype=np.int64)
            for k, place in enumerate(places):
                base[:, k] = place.base(whole.values, whole.count)
            grids[tuple(unrolled)] = whole, base
        whole, base = grids[tuple(unrolled)]
        here = within(whole, only, limits)
        alone = any(note_of(loop) == "unroll" for loop in unrolled)
        if not folder.hazard:
            parts.append(_cut(folder, dims, whole, here, base.take(here, axis=0), alone, config))
            continue
        # Lists of several taps may only be put together where the loops of all are the same.
        fold = folder.fold(dims)
        rows = rows_of(site.name, fold, places, whole.take(here), {isa.OPCODE: isa.OP_GEMM}, 0, 1, False)
        parts.append(rows if alone else _gathered(rows, folder, fold))
    return join(parts)


def _cut(
    folder: Folder, dims: Sequence[Dim], whole: Grid, here: Ints, base: Ints, alone: bool, config: VTAConfig
) -> Kernels:
    """The GEMM instructions of a nest in which borders may cut loops.

    Args:
        folder: chooses loops.
        dims: its loops inside an instruction.
        whole: its instances, and others.
        here: which are its own.
        base: elements where each of these begins, int64[n, 3]; they move on to where borders leave something.
        alone: whether each instance is to have instructions of its own.
        config: the machine.
    """
    cut = [d for d in dims if not d.plain]
    plain = [d for d in dims if d.plain]
    pieces = _pieces(cut, whole.take(here, {loop for d in cut for _, rest in d.limits for loop in rest.loops()}), base)
    way = _way(pieces)
    folds = way.folds(cut, plain, folder)
    if cut and not alone:
        way, folds = _cheapest(way, folds, pieces, cut, plain, folder, config)
    kind = way.kind
    for k in way.listed:
        pieces, rows = pieces.stepped(pieces.lengths[:, k], cut[k].strides)
        kind = kind[rows]
    for number, fold in enumerate(folds):
        for dim in fold.apart:
            counts = np.where(kind == number, dim.extent, 1)
            check_instructions(int(counts[kind == number].sum()), folder.name)
            pieces, rows = pieces.stepped(counts, dim.strides)
            kind = kind[rows]
    return _instructions(pieces, kind, folds, folder, alone)


def _pieces(cut: Sequence[Dim], grid: Grid, base: Ints) -> _Pieces:
    n = grid.count
    from autosched.lower._border_kernel import shortened

    limits = [(k, number, rest) for number, dim in enumerate(cut) for k, rest in dim.limits]
    rests = np.empty((len(limits), n), dtype=np.int64)
    for own, (_, _, rest) in zip(rests, limits):
        own[:] = rest.evaluate(grid.values)
    factors, which = np.array([(k, number) for k, number, _ in limits], dtype=np.int64).reshape(-1, 2).T.copy()
    extents = np.array([dim.extent for dim in cut], dtype=np.int64)
    strides = np.array([dim.strides for dim in cut], dtype=np.int64).reshape(len(cut), base.shape[1])
    lengths, run = np.empty((n, len(cut)), dtype=np.int64), np.empty(n, dtype=np.int64)
    kept = shortened(rests, factors, which, extents, strides, grid.position, base, lengths, run)
    return _Pieces(base[:kept], grid.position[:kept], run[:kept], lengths[:kept])


def _way(pieces: _Pieces, listed: tuple[int, ...] = ()) -> _Way:
    """What the lengths of the other loops are."""
    from autosched.lower._border_kernel import kinds

    kind, first, last = np.empty((3, len(pieces.run)), dtype=np.int64)
    counted = np.empty(2, dtype=np.int64)
    count = kinds(pieces.lengths, pieces.run, sum([1 << k for k in listed]), kind, first, last, counted)
    return _Way(listed, kind, pieces.lengths.take(first[:count], axis=0).tolist(), *counted.tolist())


def _cheapest(
    first: _Way, folds: list[Fold], pieces: _Pieces, cut: Sequence[Dim], plain: Sequence[Dim], folder: Folder,
    config: VTAConfig,
) -> tuple[_Way, list[Fold]]:
    """The way with the fewest cycles of what instructions cost besides their products, and of the loads of their micro-ops.

    Positions whose pieces begin at the same places and are as long have the same lists; each list is taken to be loaded once.
    """
    from autosched.lower._border_kernel import listed_uops, marks, representing

    def uops(way: _Way, folds: Sequence[Fold]) -> int:
        each = np.array([prod([d.extent for d in fold.uops]) for fold in folds], dtype=np.int64)
        return int(listed_uops(pieces.lengths, sum([1 << k for k in way.listed]), some, way.kind, each))

    some: Ints = np.zeros(0, dtype=np.int64)
    run, many = pieces.run, first.count
    if many == first.positions:
        return first, folds
    best, least = (first, folds), 0.0
    every, none, one = np.arange(len(run)), np.zeros(len(run), dtype=np.int64), np.ones(1, dtype=np.int64)
    # What is marked for the list is written out anyway.
    able = [k for k, dim in enumerate(cut) if dim.note != "hw"]
    able = sorted(sorted(able, key=lambda k: -cut[k].extent)[:WRITTEN_OUT])
    for chosen in range(1, 1 << len(able)):
        listed = tuple([k for n, k in enumerate(able) if chosen >> n & 1])
        if int(listed_uops(pieces.lengths, sum(1 << k for k in listed), every, none, one)) > LIMITS.instructions:
            continue
        way = _way(pieces, listed)
        if way.count >= many:
            continue
        own = way.folds(cut, plain, folder)
        if any(fold.apart for fold in own):
            continue
        if not len(some):
            found = np.zeros(int(run[-1]) + 1, dtype=np.int64)
            marks(run, pieces.base, pieces.lengths, found)
            room = np.full(1 << len(found).bit_length() + 1, -1, dtype=np.int64)
            some = np.empty(len(run), dtype=np.int64)
            some = some[: representing(run, found, room, some)]
            known = uops(first, folds)
        longer = uops(way, own)
        saved = PIPELINE_CYCLES * (many - way.count) - (longer - known) * config.uop_elem_bytes / config.bus_bytes
        if longer <= folder.capacity // LISTED_SHARE and saved > least:
            best, least = (way, own), saved
    return best


def _instructions(pieces: _Pieces, kind: Ints, folds: Sequence[Fold], folder: Folder, alone: bool) -> Kernels:
    """One instruction for all pieces of a kind at a position, or as many as a list holds."""
    from autosched.lower._border_kernel import grouped, patterned

    n = len(kind)
    offsets = [fold.offsets(pieces.base.shape[1]) for fold in folds]
    most = np.array([1 if alone else max(1, folder.capacity // len(own)) for own in offsets], dtype=np.int64)
    order, begins = np.empty((2, n), dtype=np.int64)
    starts = begins[: grouped(pieces.run, kind, most, np.empty(len(folds) + 1, dtype=np.int64), order, begins)]
    first = order.take(starts)
    leader = kind.take(first)
    base = pieces.base.take(first, axis=0)
    which, leads = np.empty((2, len(starts)), dtype=np.int64)
    room = np.full(1 << len(starts).bit_length() + 1, -1, dtype=np.int64)
    patterns: list[Ints] = []
    total = 0
    for lead in leads[: patterned(pieces.base, kind, order, starts, room, which, leads)].tolist():
        end = starts[lead + 1] if lead + 1 < len(starts) else n
        steps = pieces.base.take(order[starts[lead] : end], axis=0) - base[lead]
        own = offsets[leader[lead]]
        patterns.append((steps[:, None, :] + own).reshape(-1, steps.shape[1]))
        total += len(patterns[-1])
        check_uops(total)
    rows = np.zeros((len(folds), isa.NCOLS), dtype=np.int64)
    rows[:, isa.OPCODE] = isa.OP_GEMM
    for own, fold in zip(rows, folds):
        for column, value in whole_loops(fold).items():
            own[column] = value
    return Kernels(
        rows.take(leader, axis=0), pieces.position.take(first), np.zeros(len(first), dtype=np.int64), which, base, patterns,
    )


def _gathered(rows: Kernels, folder: Folder, fold: Fold) -> Kernels:
    """Instructions of one instance that run the same iterations of the hardware's loops, as one with all their micro-ops.

    They stay as they are where micro-ops on one accumulator would be too close together.
    """
    order, starts = _groups(rows)
    sizes = np.diff(starts, append=len(order))
    if not len(sizes) or int(sizes.max()) == 1:
        return rows
    (pattern,) = rows.patterns
    patterns: list[Ints] = []
    known: dict[bytes, int] = {}
    kept, which = [], []
    total = 0
    for first, size in zip(starts.tolist(), sizes.tolist()):
        members = order[first : first + size]
        # As many at once as a list holds.
        for begin in range(0, size, most := max(1, folder.capacity // len(pattern))):
            some = members[begin : begin + most]
            apart = rows.base[some] - rows.base[some[0]]
            number = known.get(apart.tobytes())
            if number is None:
                uops = (apart[:, None, :] + pattern[None, :, :]).reshape(-1, 3)
                if len(some) > 1 and folder.repeats(fold, uops[:, 0]):
                    return rows
                number = known[apart.tobytes()] = len(patterns)
                patterns.append(uops)
                total += len(uops)
                check_uops(total)
            kept.append(int(some[0]))
            which.append(number)
    take = np.array(kept, dtype=np.int64)
    return Kernels(
        rows.table[take], rows.position[take], rows.step[take], np.array(which, dtype=np.int64), rows.base[take], patterns
    )


def _groups(rows: Kernels) -> tuple[Ints, Ints]:
    """The rows sorted by position and what their instructions say besides micro-ops, and where each set of equal ones starts."""
    table = rows.table
    n = len(table)
    if not n:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # Only what differs at all decides; mostly that is the position alone.
    differs = (table != table[0]).any(axis=0)
    differs[[isa.UOP_BGN, isa.UOP_END]] = False
    keys = [rows.position, *(table[:, c] for c in np.flatnonzero(differs))]
    sort = len(keys) > 1 or bool((rows.position[1:] < rows.position[:-1]).any())
    order = np.lexsort(keys[::-1]) if sort else np.arange(n)
    first = np.ones(n, dtype=bool)
    first[1:] = False
    for key in keys:
        ranked = key[order] if sort else key
        first[1:] |= ranked[1:] != ranked[:-1]
    return order, np.flatnonzero(first)
