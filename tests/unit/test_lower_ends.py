"""Tiles that do not divide an axis: what the last one holds lies densely on chip, as what the others hold does."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from decided import settled

from autosched.ir.stmt import Buffer, PrimFunc
from autosched.lower import lower_table
from autosched.lower.affine import Lin, Loop
from autosched.lower.ends import ends_of, passes
from autosched.lower.storage import Storage
from autosched.lower.tree import Access, Site
from autosched.workloads import workload
from sim import isa
from space import Space

TARGETS = ["vta-de10", "vta-de10-portable"]
SHAPE = [isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE]
PADS = [isa.X_PAD_0, isa.X_PAD_1, isa.Y_PAD_0, isa.Y_PAD_1]


def scheduled(name: str, target: str, **given: int) -> PrimFunc:
    space = Space(workload(name).func, target)
    point = settled(space, **given)
    found = dict(zip(space.names, point.tolist()))
    assert all(found[column] == value for column, value in given.items()), space.explain(point)
    return space.schedule(point).func


def loads(func: PrimFunc, target: str, memory: int) -> list[list[int]]:
    """Rows, elements of each, and what lies between two of them, of every LOAD."""
    table = lower_table(func, target).table
    rows = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == memory)]
    assert not rows[:, PADS].any()
    return [row for row in rows[:, SHAPE].tolist() if row[0]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "tile", "rest"), [(10, 4, 2), (31, 16, 15), (37, 19, 18), (11, 6, 5)])
def test_pieces_of_a_reduction_are_a_dma_each(k: int, tile: int, rest: int, target: str, vta_schedules: ModuleType) -> None:
    """Of five rows and two columns of blocks, also the last: it reads no more than there is, and is filled up with nothing."""
    func = scheduled(f"dense:m=5,k={16 * k},n=32", target, tile_k=tile, load_data=3, load_weight=3, banks_data=2, banks_weight=2)
    pieces = [tile] * (k // tile) + [rest]
    for memory, rows in ((isa.MEM_INP, 5), (isa.MEM_WGT, 2)):
        assert loads(func, target, memory) == [[rows, piece, k] for piece in pieces]
    vta_schedules.verify(func, target)


def test_of_pieces_that_are_alike_there_is_no_last(vta_schedules: ModuleType) -> None:
    func = scheduled("dense:m=5,k=160,n=32", "vta-de10", tile_k=5, load_data=3, load_weight=3)
    assert loads(func, "vta-de10", isa.MEM_INP) == [[5, 5, 10]] * 2
    vta_schedules.verify(func, "vta-de10")


@pytest.mark.parametrize("target", TARGETS)
def test_beside_what_is_loaded_whole(target: str, vta_schedules: ModuleType) -> None:
    """Products read one operand in pieces and go through the other, of which all stays on chip."""
    func = scheduled("dense:m=5,k=160,n=32", target, tile_k=4, load_data=0, load_weight=3)
    assert loads(func, target, isa.MEM_INP) == [[1, 50, 50]]
    assert loads(func, target, isa.MEM_WGT) == [[2, 4, 10], [2, 4, 10], [2, 2, 10]]
    vta_schedules.verify(func, target)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_an_image_and_pieces_of_its_channels(target: str, vta_schedules: ModuleType) -> None:
    """Seven rows in tiles of three and three blocks of channels in pieces of two: four sizes."""
    name = "conv2d:h=7,w=4,ci=48,co=16,k=1,bias=0,tail=cast"
    func = scheduled(name, target, tile_y=3, tile_ci=2, load_data=5, load_kernel=5, order=0)
    every = loads(func, target, isa.MEM_INP)
    assert every == [[2, 12, 28], [1, 12, 12]] * 2 + [[2, 4, 28], [1, 4, 4]]
    vta_schedules.verify(func, target)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_and_columns_of_an_image(target: str, vta_schedules: ModuleType) -> None:
    """Both end with less, one after the other and together."""
    name = "conv2d:h=7,w=7,ci=48,co=16,k=1,bias=0,tail=cast"
    func = scheduled(name, target, tile_y=3, tile_x=4, tile_ci=2, load_data=5, load_kernel=0, order=0)
    every = loads(func, target, isa.MEM_INP)
    assert sum(height * width for height, width, _ in every) == 3 * 7 * 7
    assert [[height, width] for height, width, _ in every[:6]] == [[3, 4]] * 3 + [[3, 3]] * 3
    vta_schedules.verify(func, target)


def test_windows_keep_the_rows_of_whole_tiles(vta_schedules: ModuleType) -> None:
    """What they read of the last tile is no smaller tile: others read some of the same rows."""
    func = scheduled("conv2d:h=9,w=4,ci=32,co=16,k=3,pad=1", "vta-de10", tile_y=5, load_data=1, order=0, drop_zeros=1)
    rows = loads(func, "vta-de10", isa.MEM_INP)
    assert [height * width for height, width, _ in rows] != [2 * 6 * 4, 2 * 5 * 4]
    vta_schedules.verify(func, "vta-de10")


def sites(change: dict[str, Any]) -> tuple[list[Site], Storage]:
    """A load of rows of columns, tile by tile of columns, and a product that reads them; ten columns in tiles of four."""
    around, outside = Loop("t", 3, thread=change.get("thread", False)), Loop("o", 3)
    storage_path = (outside,) if change.get("lives_on") else (outside, around)
    data = Buffer("x", (5, 10, 1, 16), "int8", scope=change.get("scope", "local.inp_buffer"))
    storage = Storage(
        data, storage_path, (Lin(), Lin({around: 4}), Lin(), Lin()), (5, change.get("held", 4), 1, 16), 16, 20, 1, (), (0, 1))
    found = []
    for kind, extra in (("load", {}), ("gemm", change.get("reader", {}))):
        row, column, lane = Loop("r", 5), Loop("c", extra.get("columns", 4)), Loop("l", 16)
        index = (Lin({row: 1}), Lin({around: 4, column: extra.get("step", 1)}, extra.get("shift", 0)), Lin(), Lin({lane: 1}))
        tiles = outside if extra.get("elsewhere") else around
        cond = Lin({tiles: -extra.get("every", 4), column: -1}, extra.get("last", change.get("last", 9)))
        conds = [cond] * extra.get("conds", 1) + [Lin({column: -1}, 2)] * extra.get("others", 0)
        access = Access(data, index, (1, extra.get("width", 1), 1, 1))
        pads = [Lin({column: 1}, -1)] if extra.get("pads") else []
        target = Access(Buffer("y", (5, 10, 1, 16), "int8"), index, (1, 1, 1, 1))
        write, reads = (access, [target]) if kind == "load" else (target, [access])
        found.append(Site(kind, kind, write, reads, conds=conds, pads=pads, path=(outside, around, row, column, lane), own=3))
    return found, storage


@pytest.mark.parametrize(("change", "cut"), [
    ({}, True), ({"last": 8}, True), ({"last": 10}, True),
    ({"last": 7}, False), ({"last": 11}, False),  # boundary: two tiles, the third empty; three whole ones
    ({"thread": True}, False), ({"lives_on": True}, False),
    ({"reader": {"last": 8}}, False),  # reads less than is loaded
    ({"reader": {"conds": 0}}, False), ({"reader": {"others": 1}}, False), ({"reader": {"pads": True}}, False),
    ({"reader": {"every": 5}}, False), ({"reader": {"step": 2}}, False), ({"reader": {"shift": 1}}, False),
    ({"reader": {"columns": 3}}, False), ({"reader": {"width": 2}}, False), ({"reader": {"elsewhere": True}}, False),
    ({"held": 6}, False), ({"scope": "local.wgt_buffer"}, True), ({"scope": "local.acc_buffer"}, False),
])
def test_all_that_use_a_buffer_cut_it_alike(change: dict[str, Any], cut: bool) -> None:
    some, storage = sites(change)
    places = {storage.buffer: storage}
    found = ends_of(some, places)
    assert dict(found) == ({storage.buffer: [1]} if cut else {})
    rest = change.get("last", 9) - 7
    for site in some:
        every = list(passes(site, places, found))
        assert [held[storage.buffer].extents[1] for _, held in every] == ([4, rest] if cut else [change.get("held", 4)])
        assert [one.inner[1].extent for one, _ in every] == ([4, rest] if cut else [site.inner[1].extent])
        around = site.outer[1]
        for v in range(3 if cut else 0):
            # Every pass is run by one of the two, and by all of its iterations.
            running = [n for n, (one, _) in enumerate(every)
                       if all(np.all(c.evaluate({around: np.array([v])}) >= 0) for c in one.conds)]
            assert running == [int(v == 2)]


def test_where_no_row_lies_outside_of_what_is_cut_nothing_is_apart() -> None:
    some, storage = sites({})
    storage.extents = (1, 4, 1, 16)
    assert not ends_of(some, {storage.buffer: storage})
