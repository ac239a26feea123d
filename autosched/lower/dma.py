"""Copies between DRAM and SRAM as loops of two-dimensional DMAs, with padding and clipping decided per DMA.

SRAM is always dense inside one DMA: x runs over consecutive elements of both memories, y over consecutive rows of SRAM that are a
fixed stride apart in DRAM. ``vta.dma`` chooses: ``merge`` (default: dimensions that are consecutive in both memories become one
first), ``rows`` (one DMA per run of consecutive elements), ``strided`` (dimensions as written, two per DMA).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.errors import LoweringError
from autosched.ir.expr import int_value
from autosched.ir.scopes import ACC
from autosched.lower.affine import Ints, Lin, Loop, Pick
from autosched.lower.elements import Elements
from autosched.lower.limits import check_instructions
from autosched.lower.nest import Dim, Grid, Steps, in_order, interval, make_grid, merge, sort_out
from autosched.lower.order import Key
from autosched.lower.tree import Site
from autosched.target import MEMORY_TYPES
from sim import isa
from sim.config import VTAConfig, loads_widen

FIELD_MAX = (1 << 16) - 1
PAD_MAX = 15
MODES = ("merge", "rows", "strided")
FIGURES = [isa.X_SIZE, isa.Y_SIZE, isa.X_STRIDE]


@dataclass(eq=False, slots=True)
class Rows:
    """Instructions of one site before they are put in order.

    Args:
        table: decoded rows.
        position: program-order keys.
        step: order within a position.
        zeros: rows that read the page of zeros: the ``dram`` column is still relative to it.
    """

    table: isa.Table
    position: Ints
    step: Ints
    zeros: Pick | None = None


@dataclass(eq=False, slots=True)
class _Boxes:
    """One rectangle of elements per DMA; all arrays have one entry per DMA.

    ``width`` x ``height`` elements at ``sram``, of which [x0, x1) x [y0, y1) come from ``dram`` and the rest is 0.
    """

    sram: Ints
    dram: Ints
    width: Ints
    height: Ints
    x0: Ints
    x1: Ints
    y0: Ints
    y1: Ints
    position: Ints
    step: Ints

    def take(self, keep: Pick) -> _Boxes:
        return _Boxes(*[getattr(self, f)[keep] for f in self.__slots__])

    def concat(self, *others: _Boxes) -> _Boxes:
        parts = (self, *others)
        return _Boxes(*[np.concatenate([getattr(p, f) for p in parts]) for f in self.__slots__])


def mode_of(site: Site) -> str:
    """The ``vta.dma`` choice of a copy.

    Raises:
        LoweringError: kind ``annotation``: an unknown choice.
    """
    note = site.notes.get("vta.dma", "merge")
    note = str(getattr(note, "value", note))
    if note not in MODES:
        raise LoweringError("annotation", f"vta.dma of block {site.name} is {note!r}; one of {', '.join(MODES)}")
    return note


def memory_type(site: Site) -> int:
    """The memory type of a copy's instructions (``sim.isa.MEM_*``): stores go from OUT, int8 widens on its way into ACC."""
    if site.kind == "store":
        return isa.MEM_OUT
    scope = site.write.buffer.scope
    return isa.MEM_ACC_8BIT if scope == ACC and site.reads and site.reads[0].buffer.dtype == "int8" else MEMORY_TYPES[scope]


def leads(site: Site) -> bool:
    """Whether a copy into the accumulator asks (``vta.first``) that the load engine's next transfer waits for it.

    ACC is loaded with the lowest priority at the memory: beside a long stream of weights a few addends can take as long as that.

    Raises:
        LoweringError: kind ``annotation``: any other block asks, which waits for nothing, or what it says is no integer.
    """
    if "vta.first" not in site.notes:
        return False
    note = int_value(site.notes["vta.first"])
    if note is None:
        raise LoweringError("annotation", f"vta.first of block {site.name} is {site.notes['vta.first']!r}; 1, or 0 for not so")
    if not note:
        return False
    if site.kind != "load" or site.write.buffer.scope != ACC:
        raise LoweringError("annotation", f"vta.first of block {site.name}: only a load into the accumulator can come first")
    return True


def lower_copy(site: Site, elems: Elements, key: Key, config: VTAConfig, semantics: str, dram_base: int) -> Rows:
    """The DMAs of a load or a store.

    Args:
        site: the copy.
        elems: its accesses in elements.
        key: its program order.
        config: the machine.
        semantics: ``chisel``, ``fsim`` or ``portable``.
        dram_base: DRAM address of the buffer, in elements of the memory type.

    Raises:
        LoweringError: the copy has no DMAs on this target.
    """
    is_load = site.kind == "load"
    sram = elems.write if is_load else elems.reads[id(site.reads[0])]
    dram = (elems.reads[id(site.reads[0])] if site.reads else None) if is_load else elems.write
    offsets = [sram.offset] + ([dram.offset] if dram is not None else [])
    dims, unrolled, limits, pads = sort_out(Steps.of(elems.loops, offsets), site.conds, site.pads)
    mode = mode_of(site)
    dims = [Dim(d.extent, d.strides if len(d.strides) == 2 else (*d.strides, *d.strides), None, d.limits, d.pads) for d in dims]
    dims = merge(dims, FIELD_MAX) if mode != "strided" else [d for d in dims if d.extent > 1 or not d.plain]
    x, y, rest = _choose(dims, mode)
    grid, shift = _instances(site, unrolled, limits, key, rest)
    storage = sram.storage
    assert storage is not None
    sram_at = sram.base(grid.values, grid.count) + shift[0]
    dram_at = np.full(grid.count, dram_base, dtype=np.int64) + shift[1]
    if dram is not None:
        dram_at += dram.base(grid.values, grid.count)
    padded = np.zeros(grid.count, dtype=bool)
    for cond in pads:
        padded |= grid.evaluate(cond) < 0
    for dim, which in rest:
        low, high = interval(dim.pads, dim.extent, grid)
        padded |= (which < low) | (which >= high) if dim.pads else False
    boxes = _boxes(site.name, grid, x, y, sram_at, dram_at, padded)
    if is_load:
        memory = memory_type(site)
        if memory == isa.MEM_ACC_8BIT and not loads_widen(semantics):
            raise LoweringError(
                "dtype", f"block {site.name} loads int8 {site.reads[0].buffer.name} into the accumulator; only the functional "
                "simulator widens while it loads (ACC_8BIT), so pass it as int32",
            )
        most = 0 if memory == isa.MEM_WGT and semantics == "portable" else PAD_MAX
        rows = _padded(site.name, boxes, x, y, memory, most)
    else:
        rows = _emit(boxes, y, isa.OP_STORE, isa.MEM_OUT)
    if mode != "merge":
        return rows
    return _joined(rows) if is_load else _as_runs(_joined(rows))


def _as_runs(rows: Rows) -> Rows:
    """Stored rows that follow each other in DRAM, too, as one: what is written in a burst goes no further than a row.

    Dimensions do not merge where some instance has only a part of one, as the last of several slices may have.
    """
    table = rows.table
    width = table[:, isa.X_SIZE] * table[:, isa.Y_SIZE]
    run = (table[:, isa.Y_SIZE] > 1) & (table[:, isa.X_STRIDE] == table[:, isa.X_SIZE]) & (width <= FIELD_MAX)
    if not run.any():
        return rows
    made = table.copy()
    made[run, isa.X_SIZE] = made[run, isa.X_STRIDE] = width[run]
    made[run, isa.Y_SIZE] = 1
    return Rows(made, rows.position, rows.step, rows.zeros)


def _joined(rows: Rows) -> Rows:
    """One DMA for several of one instance that follow each other at equal distances.

    Dimensions do not merge where some instance has only a part of one. Where others have all of it, their DMAs do: rows that
    go on as far apart as before, and runs of consecutive elements whose distance is the same.
    """
    if len(rows.table) < 2 or (rows.position[1:] > rows.position[:-1]).all():
        return rows
    from autosched.lower._dma_kernel import evenly_apart, going_on

    table = rows.table
    order = in_order(rows.position, rows.step)
    figures = np.empty((len(FIGURES), len(order)), dtype=np.int64)
    for own, c in zip(figures, FIGURES):
        own[:] = table[:, c].take(order)
    zeros = np.zeros(len(order), dtype=np.bool_) if rows.zeros is None else rows.zeros
    left = len(order)
    for join in (going_on, evenly_apart):
        left = join(table, rows.position, zeros, FIELD_MAX, left, order, figures)
    if left == len(table):
        return rows
    first = order[:left]
    made = table[first]
    made[:, FIGURES] = figures[:, :left].T
    return Rows(made, rows.position[first], rows.step[first], None if rows.zeros is None else zeros[first])


def warm() -> None:
    """Compiles the kernels, or loads them from numba's cache."""
    from autosched.lower._dma_kernel import evenly_apart, going_on

    table, zeros, none = np.zeros((0, isa.NCOLS), dtype=np.int64), np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    for join in (going_on, evenly_apart):
        join(table, none, zeros, FIELD_MAX, 0, none, np.zeros((3, 0), dtype=np.int64))


def _choose(dims: list[Dim], mode: str) -> tuple[Dim, Dim, list[tuple[Dim, Ints]]]:
    """The dimensions of one DMA, and those over which DMAs are repeated (their indices are filled in later)."""
    one = Dim(1, (1, 1))
    x = next((d for d in dims if d.strides == (1, 1)), None)
    rest = [d for d in dims if d is not x]
    x = x or one
    y = None
    if mode != "rows":
        good = (d for d in rest if d.strides[0] == x.extent and 0 <= d.strides[1] <= FIELD_MAX)
        y = next(good, None)
    rest = [d for d in rest if d is not y]
    return x, y or Dim(1, (x.extent, x.extent)), [(d, np.zeros(0, dtype=np.int64)) for d in rest]


def _instances(
    site: Site, unrolled: list[Loop], limits: list[Lin], key: Key, rest: list[tuple[Dim, Ints]]
) -> tuple[Grid, tuple[Ints, Ints]]:
    """Instances over sequencing and unrolled loops times the repeated dimensions, with the element shifts of the latter."""
    grid = make_grid(site, unrolled, limits, key.strides, key.start)
    zero = np.zeros(grid.count, dtype=np.int64)
    shift = (zero, zero)
    for k, (dim, _) in enumerate(rest):
        check_instructions(grid.count * dim.extent, site.name)
        repeat = np.repeat(np.arange(grid.count), dim.extent)
        which = np.tile(np.arange(dim.extent, dtype=np.int64), grid.count)
        grid = grid.take(repeat)
        grid.step = grid.step * dim.extent + which
        shift = (shift[0][repeat] + which * dim.strides[0], shift[1][repeat] + which * dim.strides[1])
        for j in range(k):
            rest[j] = (rest[j][0], rest[j][1][repeat])
        rest[k] = (dim, which)
        if dim.limits:
            low, high = interval(dim.limits, dim.extent, grid)
            keep = (which >= low) & (which < high)
            grid = grid.take(keep)
            shift = (shift[0][keep], shift[1][keep])
            for j in range(k + 1):
                rest[j] = (rest[j][0], rest[j][1][keep])
    return grid, shift


def _boxes(name: str, grid: Grid, x: Dim, y: Dim, sram: Ints, dram: Ints, padded: Pick) -> _Boxes:
    """Clips to where instances run, then marks where the source counts."""
    width, height = np.full(grid.count, x.extent), np.full(grid.count, y.extent)
    if x.plain and y.plain and not padded.any():
        zero = np.zeros(grid.count, dtype=np.int64)
        return _Boxes(sram, dram, width, height, zero, width, zero, height, grid.position, grid.step)
    full = _Boxes(
        sram, dram, width, height,
        *interval(x.limits, x.extent, grid), *interval(y.limits, y.extent, grid), grid.position, grid.step,
    )
    # Rows that only run in part are not dense in SRAM: one DMA each. Whole rows that do not run are left out.
    ragged = (full.x1 - full.x0 < full.width) & (full.y1 - full.y0 > 1)
    if ragged.any():
        full, source = _split_rows(name, full, ragged)
        grid, padded = grid.take(source), padded[source]
    keep = (full.x1 > full.x0) & (full.y1 > full.y0)
    if not keep.all():
        full, grid, padded = full.take(keep), grid.take(keep), padded[keep]
    ran_x0, ran_y0 = full.x0, full.y0
    px0, px1 = interval(x.pads, x.extent, grid)
    py0, py1 = interval(y.pads, y.extent, grid)
    px0, px1 = np.maximum(px0, ran_x0), np.minimum(px1, full.x1)
    py0, py1 = np.maximum(py0, ran_y0), np.minimum(py1, full.y1)
    empty = padded | (px1 <= px0) | (py1 <= py0)
    px0, px1 = np.where(empty, ran_x0, px0), np.where(empty, ran_x0, px1)
    py0, py1 = np.where(empty, ran_y0, py0), np.where(empty, ran_y0, py1)
    return _Boxes(
        full.sram + ran_x0 * x.strides[0] + ran_y0 * y.strides[0],
        full.dram + px0 * x.strides[1] + py0 * y.strides[1],
        full.x1 - ran_x0, full.y1 - ran_y0,
        px0 - ran_x0, px1 - ran_x0, py0 - ran_y0, py1 - ran_y0, full.position, full.step,
    )


def _split_rows(name: str, boxes: _Boxes, ragged: Pick) -> tuple[_Boxes, Ints]:
    """Every row of the ``ragged`` boxes as a box of its own (y0..y1 one row); returns which box each came from."""
    count = np.where(ragged, boxes.y1 - boxes.y0, 1)
    check_instructions(int(count.sum()), name)
    source = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    row = np.arange(len(source)) - first[source]
    new = boxes.take(source)
    split = ragged[source]
    new.y0 = np.where(split, new.y0 + row, new.y0)
    new.y1 = np.where(split, new.y0 + 1, new.y1)
    return new, source


def _emit(boxes: _Boxes, y: Dim, opcode: int, memory: int) -> Rows:
    n = len(boxes.sram)
    table = np.zeros((n, isa.NCOLS), dtype=np.int64)
    table[:, isa.OPCODE] = opcode
    table[:, isa.MEM] = memory
    table[:, isa.SRAM] = boxes.sram
    table[:, isa.DRAM] = boxes.dram
    table[:, isa.X_SIZE] = boxes.x1 - boxes.x0
    table[:, isa.Y_SIZE] = boxes.y1 - boxes.y0
    table[:, isa.X_STRIDE] = np.where(boxes.y1 - boxes.y0 > 1, y.strides[1], boxes.x1 - boxes.x0)
    table[:, isa.X_PAD_0] = boxes.x0
    table[:, isa.X_PAD_1] = boxes.width - boxes.x1
    table[:, isa.Y_PAD_0] = boxes.y0
    table[:, isa.Y_PAD_1] = boxes.height - boxes.y1
    return Rows(table, boxes.position, boxes.step)


def _padded(name: str, boxes: _Boxes, x: Dim, y: Dim, memory: int, most: int) -> Rows:
    """Loads whose pads fit the fields; what does not becomes loads of zeros."""
    if not (boxes.x0.any() or boxes.y0.any()) and (boxes.x1 == boxes.width).all() and (boxes.y1 == boxes.height).all():
        return _emit(boxes, y, isa.OP_LOAD, memory)
    blank = boxes.x1 <= boxes.x0
    zeros: list[_Boxes] = []
    if blank.any():
        zeros.append(boxes.take(blank))
        boxes = boxes.take(~blank)
    wide = ((boxes.x0 > most) | (boxes.width - boxes.x1 > most)) & (boxes.height > 1)
    if bool(wide.any()):
        boxes, fresh = _row_by_row(name, boxes, wide, x, y)
        zeros.append(fresh)
    # Pads that are too long: peel what exceeds them off as zeros of their own. Side pads first, on single rows only.
    for axis in ("x", "y"):
        lead = getattr(boxes, f"{axis}0")
        extent = boxes.width if axis == "x" else boxes.height
        trail = extent - getattr(boxes, f"{axis}1")
        for amount, front in ((np.maximum(lead - most, 0), True), (np.maximum(trail - most, 0), False)):
            cut = amount > 0
            if not bool(cut.any()):
                continue
            piece = boxes.take(cut)
            size = amount[cut]
            width, height = (size, piece.height) if axis == "x" else (piece.width, size)
            row = piece.width
            begin = 0 if front else (piece.width - size if axis == "x" else piece.height - size)
            none = np.zeros(len(size), dtype=np.int64)
            at = piece.sram + (begin if axis == "x" else begin * row)
            zeros.append(_Boxes(at, piece.dram, width, height, none, none, none, none, piece.position, piece.step))
            if axis == "x":
                boxes.width = boxes.width - amount
            else:
                boxes.height = boxes.height - amount
            if front:
                boxes.sram = boxes.sram + (amount if axis == "x" else amount * boxes.width)
                setattr(boxes, f"{axis}0", getattr(boxes, f"{axis}0") - amount)
                setattr(boxes, f"{axis}1", getattr(boxes, f"{axis}1") - amount)
    rows = _emit(boxes, y, isa.OP_LOAD, memory)
    if not sum(len(piece.sram) for piece in zeros):
        return rows
    fill = _zeros(zeros[0].concat(*zeros[1:]), memory, most)
    table = np.concatenate([rows.table, fill.table])
    marks = np.concatenate([np.zeros(len(rows.table), dtype=bool), np.ones(len(fill.table), dtype=bool)])
    return Rows(table, np.concatenate([rows.position, fill.position]), np.concatenate([rows.step, fill.step]), marks)


def _row_by_row(name: str, boxes: _Boxes, wide: Pick, x: Dim, y: Dim) -> tuple[_Boxes, _Boxes]:
    """Boxes whose side pads exceed the fields, one row each; rows of pad alone are returned apart."""
    whole, split = boxes.take(~wide), boxes.take(wide)
    check_instructions(int(split.height.sum()), name)
    source = np.repeat(np.arange(len(split.sram)), split.height)
    row: Ints = np.arange(len(source), dtype=np.int64) - (np.cumsum(split.height) - split.height)[source]
    new = split.take(source)
    inside = (row >= new.y0) & (row < new.y1)
    new.sram = new.sram + row * new.width
    new.dram = new.dram + (row - new.y0) * y.strides[1]
    one = np.ones(len(source), dtype=np.int64)
    new.height, new.y0, new.y1 = one, np.zeros_like(one), one
    blank = new.take(~inside)
    blank.x1 = blank.x0
    return whole.concat(new.take(inside)), blank


def _zeros(boxes: _Boxes, memory: int, most: int) -> Rows:
    """Loads that write only zeros: one element (or more, where pads do not reach) of the page of zeros, surrounded by pads."""
    n = len(boxes.sram)
    table = np.zeros((n, isa.NCOLS), dtype=np.int64)
    table[:, isa.OPCODE] = isa.OP_LOAD
    table[:, isa.MEM] = memory
    table[:, isa.SRAM] = boxes.sram
    for size, before, after, total in (
        (isa.X_SIZE, isa.X_PAD_0, isa.X_PAD_1, boxes.width), (isa.Y_SIZE, isa.Y_PAD_0, isa.Y_PAD_1, boxes.height),
    ):
        table[:, before] = np.minimum(most, total - 1)
        table[:, after] = np.minimum(most, total - 1 - table[:, before])
        table[:, size] = total - table[:, before] - table[:, after]
    return Rows(table, boxes.position, boxes.step)
