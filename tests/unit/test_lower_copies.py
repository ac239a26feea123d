"""Copies: padding of any width, clipped tiles, shapes of DMAs, DRAM intermediates, and what DMA cannot do."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from decided import settled
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.errors import LoweringError
from autosched.ir.stmt import PrimFunc
from autosched.lower import dma, lower_table
from autosched.script import parse
from autosched.workloads import workload
from sim import isa
from space import Space

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")


def padded(h: int, w: int, pads: tuple[int, int, int, int], tile: tuple[int, int], dma: str = "merge") -> PrimFunc:
    """A padded plane loaded tile by tile into the accumulator and stored."""
    top, bottom, left, right = pads
    ph, pw = h + top + bottom, w + left + right
    th, tw = tile
    rows, columns = -(-ph // th), -(-pw // tw)
    inside = f"{top} <= vi and vi < {h + top} and {left} <= vj and vj < {w + left}"
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, {h}, {w}, 1, 16), "int32"), out: T.Buffer((2, {ph}, {pw}, 1, 16), "int8")):
    x = T.alloc_buffer((2, {ph}, {pw}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((2, {ph}, {pw}, 1, 16), "int32", scope="local.acc_buffer")
    for i0, j0 in T.grid({rows}, {columns}):
        for c, i, j, l in T.grid(2, {th}, {tw}, 16):
            with T.block("pad"):
                vc = T.axis.spatial(2, c)
                vi = T.axis.spatial({ph}, i0 * {th} + i)
                vj = T.axis.spatial({pw}, j0 * {tw} + j)
                vl = T.axis.spatial(16, l)
                T.where(i0 * {th} + i < {ph} and j0 * {tw} + j < {pw})
                T.block_attr({{"vta.dma": "{dma}"}})
                x[vc, vi, vj, 0, vl] = T.if_then_else({inside}, a[vc, vi - {top}, vj - {left}, 0, vl], 0)
        for c, i, j, l in T.grid(2, {th}, {tw}, 16):
            with T.block("scale"):
                vc = T.axis.spatial(2, c)
                vi = T.axis.spatial({ph}, i0 * {th} + i)
                vj = T.axis.spatial({pw}, j0 * {tw} + j)
                vl = T.axis.spatial(16, l)
                T.where(i0 * {th} + i < {ph} and j0 * {tw} + j < {pw})
                z[vc, vi, vj, 0, vl] = T.shift_right(x[vc, vi, vj, 0, vl], 7)
        for c, i, j, l in T.grid(2, {th}, {tw}, 16):
            with T.block("store"):
                vc = T.axis.spatial(2, c)
                vi = T.axis.spatial({ph}, i0 * {th} + i)
                vj = T.axis.spatial({pw}, j0 * {tw} + j)
                vl = T.axis.spatial(16, l)
                T.where(i0 * {th} + i < {ph} and j0 * {tw} + j < {pw})
                out[vc, vi, vj, 0, vl] = T.cast(z[vc, vi, vj, 0, vl], "int8")
''')


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("h", "w", "pads", "tile"), [
    (3, 4, (1, 1, 1, 1), (5, 6)),
    (3, 4, (1, 1, 1, 1), (1, 6)),  # tiles of padding alone
    (3, 4, (2, 0, 0, 2), (2, 2)),
    (2, 3, (20, 18, 0, 0), (40, 3)),  # more rows than a field holds
    (2, 3, (0, 0, 20, 17), (2, 40)),  # more columns
    (2, 2, (17, 10, 10, 18), (29, 30)),
    (1, 1, (0, 30, 30, 0), (31, 31)),
    (5, 3, (1, 2, 2, 1), (3, 4)),  # tiles that do not divide
    (5, 7, (0, 0, 0, 0), (3, 4)),
])
def test_padding(
    h: int, w: int, pads: tuple[int, int, int, int], tile: tuple[int, int], target: str, vta_schedules: ModuleType,
) -> None:
    vta_schedules.verify(padded(h, w, pads, tile), target)


@settings(max_examples=25)
@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)), pads=st.tuples(*[st.integers(0, 18)] * 4),
    tile=st.tuples(st.integers(1, 20), st.integers(1, 20)), dma=st.sampled_from(["merge", "rows", "strided"]),
    target=st.sampled_from(TARGETS),
)
def test_any_padding(
    size: tuple[int, int], pads: tuple[int, int, int, int], tile: tuple[int, int], dma: str, target: str,
    vta_schedules: ModuleType,
) -> None:
    vta_schedules.verify(padded(*size, pads, tile, dma), target)


def left_out(first: int, end: int, zeros: int) -> PrimFunc:
    """Tiles of four rows, of which only rows from ``first`` to ``end`` are loaded and stored; tiles from ``zeros`` on are 0."""
    blocks = [
        ("load", f"x[vt * 4 + vi, vl] = T.if_then_else(vt < {zeros}, a[vt * 4 + vi, vl], 0)"),
        ("scale", "z[vt * 4 + vi, vl] = T.shift_right(x[vt * 4 + vi, vl], 7)"),
        ("store", 'out[vt * 4 + vi, vl] = T.cast(z[vt * 4 + vi, vl], "int8")'),
    ]
    return parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((20, 16), "int32"), out: T.Buffer((20, 16), "int8")):
    x = T.alloc_buffer((20, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((20, 16), "int32", scope="local.acc_buffer")
    for t in range(5):
''' + "".join(f'''
        for i, l in T.grid(4, 16):
            with T.block("{name}"):
                vt, vi, vl = T.axis.remap("SSS", [t, i, l])
                T.where(t * 4 + i >= {first} and t * 4 + i < {end})
                {body}
''' for name, body in blocks))


@pytest.mark.parametrize(("first", "end", "zeros"), [(0, 20, 5), (0, 20, 3), (6, 20, 3), (9, 17, 2), (4, 12, 1)])
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_are_left_out_beside_tiles_of_zeros(
    target: str, first: int, end: int, zeros: int, vta_schedules: ModuleType
) -> None:
    lowered = vta_schedules.verify(left_out(first, end, zeros), target)
    rows = lowered.table[(lowered.table[:, isa.OPCODE] == isa.OP_LOAD) & (lowered.table[:, isa.MEM] == isa.MEM_ACC)]
    loaded = (rows[:, isa.Y_SIZE] + rows[:, isa.Y_PAD_0] + rows[:, isa.Y_PAD_1]) * (
        rows[:, isa.X_SIZE] + rows[:, isa.X_PAD_0] + rows[:, isa.X_PAD_1])
    assert loaded.sum() == end - first


def loads(func: PrimFunc, memory: int) -> np.ndarray:
    """The LOADs of one memory."""
    table = lower_table(func, "vta-de10").table
    return table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == memory)]


def test_shapes_of_dmas() -> None:
    # Planes follow each other: rows, columns and planes are one run of elements.
    merged = loads(padded(4, 5, (0, 0, 0, 0), (4, 5)), isa.MEM_ACC)
    assert merged[:, isa.X_SIZE].tolist() == [40]
    # Two dimensions per DMA as written: one per plane.
    strided = loads(padded(4, 5, (0, 0, 0, 0), (4, 5), "strided"), isa.MEM_ACC)
    assert strided[:, [isa.Y_SIZE, isa.X_SIZE]].tolist() == [[4, 5], [4, 5]]
    # A tile narrower than the plane: rows a stride apart, or one DMA per row.
    tiled = loads(padded(4, 6, (0, 0, 0, 0), (4, 3)), isa.MEM_ACC)
    assert tiled[:, [isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE]].tolist() == [[4 * 2, 3, 6]] * 2
    rows = loads(padded(4, 6, (0, 0, 0, 0), (4, 3), "rows"), isa.MEM_ACC)
    assert len(rows) == 16
    assert (rows[:, isa.Y_SIZE] == 1).all()


def test_dmas_of_an_instance_join_where_it_has_all_of_a_dimension() -> None:
    """Two planes of six rows in tiles of two, of which the first and the last have one row of padding; the others are one DMA."""
    columns = [isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE, isa.Y_PAD_0, isa.Y_PAD_1]
    dmas = loads(padded(6, 5, (1, 1, 0, 0), (2, 5)), isa.MEM_ACC)[:, columns].tolist()
    assert dmas == [[1, 5, 5, 1, 0]] * 2 + [[2, 10, 30, 0, 0]] * 2 + [[1, 5, 5, 0, 1]] * 2
    # The last tile is smaller: its rows end before the next plane's begin.
    dmas = loads(padded(6, 5, (0, 0, 0, 0), (4, 5)), isa.MEM_ACC)[:, columns[:3]].tolist()
    assert dmas == [[2, 20, 30], [2, 5, 5], [2, 5, 5]]
    assert len(loads(padded(6, 5, (1, 1, 0, 0), (2, 5), "strided"), isa.MEM_ACC)) == 8


@pytest.mark.parametrize(("slices", "wanted"), [
    ({}, [[1, 125, 125]]), ({"tail": 3, "tail_size": 18}, [[1, 90, 90], [1, 35, 35]]),  # by rows, 18 and 7 of them
    ({"tile_x": 1}, [[25, 1, 5]] * 5),  # a column is none
])
def test_stored_rows_that_follow_each_other_are_one(slices: dict[str, int], wanted: list[list[int]]) -> None:
    space = Space(workload("conv2d:h=25,w=5,ci=16,co=16,k=1").func, "vta-de10")
    point = settled(space, **slices)
    table = lower_table(space.schedule(point).func, space.target).table
    stores = table[table[:, isa.OPCODE] == isa.OP_STORE]
    assert stores[:, [isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE]].tolist() == wanted, space.explain(point)


def planes(count: int, tile: int, height: int, width: int, part: int) -> PrimFunc:
    """Planes in tiles of several, the last of which is smaller; of each plane the first columns."""
    tiles = -(-count // tile)
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({count}, {height}, {width}, 16), "int32"), out: T.Buffer(({count}, {height}, {part}, 16), "int8")):
    x = T.alloc_buffer(({count}, {height}, {part}, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({count}, {height}, {part}, 16), "int32", scope="local.acc_buffer")
    for t in T.serial({tiles}):
        for c, i, j, l in T.grid({tile}, {height}, {part}, 16):
            with T.block("load"):
                vc = T.axis.spatial({count}, t * {tile} + c)
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                T.where(t * {tile} + c < {count})
                x[vc, vi, vj, vl] = a[vc, vi, vj, vl]
        for c, i, j, l in T.grid({tile}, {height}, {part}, 16):
            with T.block("scale"):
                vc = T.axis.spatial({count}, t * {tile} + c)
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                T.where(t * {tile} + c < {count})
                z[vc, vi, vj, vl] = T.shift_right(x[vc, vi, vj, vl], 7)
        for c, i, j, l in T.grid({tile}, {height}, {part}, 16):
            with T.block("store"):
                vc = T.axis.spatial({count}, t * {tile} + c)
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                T.where(t * {tile} + c < {count})
                out[vc, vi, vj, vl] = T.cast(z[vc, vi, vj, vl], "int8")
''')


@pytest.mark.parametrize(("width", "part", "wanted"), [
    (5, 3, [[12, 3, 5], [4, 3, 5]]),  # rows go on as far apart as in a plane
    (5, 5, [[3, 20, 20], [1, 20, 20]]),  # planes follow each other
])
def test_rows_of_several_planes_join_where_the_last_tile_has_fewer(
    width: int, part: int, wanted: list[list[int]], vta_schedules: ModuleType
) -> None:
    func = planes(4, 3, 4, width, part)
    assert loads(func, isa.MEM_ACC)[:, [isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE]].tolist() == wanted
    for target in TARGETS:
        vta_schedules.verify(func, target)


@settings(max_examples=25)
@given(
    count=st.integers(1, 7), tile=st.integers(1, 4), size=st.tuples(st.integers(1, 4), st.integers(1, 5)), part=st.integers(1, 5),
    target=st.sampled_from(TARGETS),
)
def test_any_planes(
    count: int, tile: int, size: tuple[int, int], part: int, target: str, vta_schedules: ModuleType
) -> None:
    vta_schedules.verify(planes(count, min(tile, count), *size, min(part, size[1])), target)


def in_sequence(rows: list[tuple[int, int, int, int, int, int]]) -> dma.Rows:
    """Rows of (position, sram, dram, rows, columns, stride)."""
    table = np.zeros((len(rows), isa.NCOLS), dtype=np.int64)
    given = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    table[:, [isa.SRAM, isa.DRAM, isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE]] = given[:, 1:]
    return dma.Rows(table, given[:, 0], np.arange(len(rows)))


def moved(rows: dma.Rows) -> set[tuple[int, int, int]]:
    """(position, place on chip, place in DRAM) of every element; -1 in DRAM for padding and zeros."""
    found = set()
    zeros = np.zeros(len(rows.table), dtype=bool) if rows.zeros is None else rows.zeros
    for row, position, zero in zip(rows.table, rows.position.tolist(), zeros):
        before, after = int(row[isa.X_PAD_0]), int(row[isa.X_PAD_1])
        width = before + int(row[isa.X_SIZE]) + after
        for y in range(int(row[isa.Y_SIZE])):
            for x in range(width):
                inside = before <= x < width - after and not zero
                at = int(row[isa.DRAM] + y * row[isa.X_STRIDE] + x - before) if inside else -1
                found.add((position, int(row[isa.SRAM]) + y * width + x, at))
    return found


@settings(max_examples=400)
@given(data=st.data())
def test_joined_dmas_move_the_same_elements(data: st.DataObject) -> None:
    """DMAs of which most begin where one could go on: with its rows, or as far from it as it is from the one before."""
    small = st.integers(1, 3)
    rows: list[tuple[int, int, int, int, int, int]] = []
    position = sram = at = 0
    for _ in range(data.draw(st.integers(1, 7))):
        height, width = (data.draw(small), data.draw(small)) if not rows or data.draw(st.integers(0, 3)) == 0 else rows[-1][3:5]
        stride = width + data.draw(st.integers(0, 2)) if not rows or (height > 1 and data.draw(st.booleans())) else rows[-1][5]
        stride = max(stride, width) if height > 1 else width
        if rows:
            _, _, dram, y, x, step = rows[-1]
            further = data.draw(st.sampled_from([y * step, y * x, 20, 21, -30]))
            position += data.draw(st.integers(0, 9)) == 0
            sram += y * x + (data.draw(st.integers(0, 7)) == 0)
            at = dram + further
        rows.append((position, sram, at, height, width, stride))
    given_rows = in_sequence(rows)
    if data.draw(st.booleans()):
        given_rows.zeros = np.array([data.draw(st.integers(0, 4)) == 0 for _ in rows])
    if data.draw(st.booleans()):
        given_rows.table[:, isa.X_PAD_1] = [data.draw(st.integers(0, 5)) == 0 for _ in rows]
    before = moved(given_rows)
    joined = dma._joined(given_rows)
    assert moved(joined) == before and len(joined.table) <= len(rows)


def test_dmas_join_no_further_than_a_field_holds() -> None:
    half = (dma.FIELD_MAX + 1) // 2
    fits = in_sequence([(0, 0, 0, half, 1, 3), (0, half, 3 * half, half - 1, 1, 3)])
    assert dma._joined(fits).table[:, isa.Y_SIZE].tolist() == [dma.FIELD_MAX]
    longer = in_sequence([(0, 0, 0, half, 1, 3), (0, half, 3 * half, half, 1, 3)])
    assert dma._joined(longer).table[:, isa.Y_SIZE].tolist() == [half, half]
    # What is too far apart keeps nobody else from joining.
    most = dma.FIELD_MAX
    far = in_sequence([(0, 0, 0, 1, 2, 2), (0, 2, most, 1, 2, 2), (1, 0, 0, 1, 2, 2), (1, 2, most + 1, 1, 2, 2)])
    assert dma._joined(far).table[:, isa.Y_SIZE].tolist() == [2, 1, 1]


def test_unknown_dma_note() -> None:
    with pytest.raises(LoweringError, match="'fast'; one of merge, rows, strided"):
        lower_table(padded(4, 4, (0, 0, 0, 0), (4, 4), "fast"), "vta-de10")


def copy(source: str, memory: str, value: str, dtype: str = "int32", out_dtype: str = "int8", width: int = 16) -> PrimFunc:
    """One copy through ``memory``."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((8, {width}), "{source}"), out: T.Buffer((8, {width}), "{out_dtype}")):
    x = T.alloc_buffer((8, {width}), "{dtype}", scope="{memory}")
    for i, l in T.grid(8, {width}):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = {value}
    for i, l in T.grid(8, {width}):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(x[vi, vl], "{out_dtype}")
''')


@pytest.mark.parametrize(("func", "word"), [
    (copy("int8", "local.acc_buffer", 'T.cast(a[vi, vl], "int32")'), "ACC_8BIT"),
    (copy("int8", "local.inp_buffer", "a[vi, vl]", "int8"), "STORE reads local.acc_buffer only"),
    (copy("int32", "local.acc_buffer", "a[vi, vl]", out_dtype="int32"), "STORE narrows to int8"),
    (copy("int32", "local.acc_buffer", "T.if_then_else(vi < 4, a[vi, vl], 5)"), "pads with 0"),
    (copy("int32", "local.acc_buffer", "a[vi, vl]", width=12), "whole|element"),
    (copy("int32", "local.acc_buffer", "a[vi, 15 - vl]"), "lanes"),
    (copy("int32", "shared", "a[vi, vl]"), "VTA has"),
    (copy("float32", "local.acc_buffer", "a[vi, vl]", "float32"), "float32"),
])
def test_refused(func: PrimFunc, word: str) -> None:
    with pytest.raises(LoweringError, match=word):
        lower_table(func, "vta-de10")


@pytest.mark.parametrize("width", [16, 48])
def test_widening_load_on_fsim(width: int, vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(copy("int8", "local.acc_buffer", 'T.cast(a[vi, vl], "int32")', width=width), "vta-fsim")
    assert isa.MEM_ACC_8BIT in low.table[:, isa.MEM]


def test_elements_along_a_long_axis(vta_schedules: ModuleType) -> None:
    vta_schedules.verify(copy("int32", "local.acc_buffer", "a[vi, vl]", width=64), "vta-de10")


def test_reversed_rows(vta_schedules: ModuleType) -> None:
    vta_schedules.verify(copy("int32", "local.acc_buffer", "a[7 - vi, vl]"), "vta-de10")


def test_capacity_names_its_buffers() -> None:
    func = parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((4096, 16), "int32"), out: T.Buffer((4096, 16), "int8")):
    big = T.alloc_buffer((4096, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid(4096, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            big[vi, vl] = a[vi, vl]
    for i, l in T.grid(4096, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(big[vi, vl], "int8")
''')
    with pytest.raises(LoweringError, match=r"local\.acc_buffer holds 2048 elements and the program needs 4096: big 4096"):
        lower_table(func, "vta-de10")


@pytest.mark.parametrize(("around", "fits"), [(848, True), (849, False)])
def test_what_lives_longest_leaves_no_gaps_to_others(around: int, fits: bool, vta_schedules: ModuleType) -> None:
    """The fullest moment needs ``around`` + 700 + 500 of 2048 elements; by size, ``around`` would lie on ``first``."""
    sizes = {"around": around, "first": 900, "one": 700, "other": 500}
    params = ", ".join(f'{n}_in: T.Buffer(({k}, 16), "int32"), {n}_out: T.Buffer(({k}, 16), "int8")' for n, k in sizes.items())
    places = "\n    ".join(f'{n} = T.alloc_buffer(({k}, 16), "int32", scope="local.acc_buffer")' for n, k in sizes.items())
    moves = []
    for name, what in (("around", "load"), ("first", "load"), ("first", "store"), ("one", "load"), ("other", "load"),
                       ("one", "store"), ("other", "store"), ("around", "store")):
        to, value = (name, f"{name}_in[vi, vl]") if what == "load" else (f"{name}_out", f'T.cast({name}[vi, vl], "int8")')
        moves.append(f"""
    for i, l in T.grid({sizes[name]}, 16):
        with T.block("{name}_{what}"):
            vi, vl = T.axis.remap("SS", [i, l])
            {to}[vi, vl] = {value}""")
    func = parse(f"""
from tvm.script import tir as T
@T.prim_func
def main({params}):
    {places}{"".join(moves)}
""")
    if fits:
        vta_schedules.verify(func, "vta-de10")
        return
    with pytest.raises(LoweringError, match=r"holds 2048 elements and the program needs 2049: around 849, first 900, one 700"):
        lower_table(func, "vta-de10")


def through_dram(n: int, again: bool) -> PrimFunc:
    """Two stages with an intermediate in DRAM, and the second load of the first tile after it was overwritten."""
    extra = f'''
    for i, l in T.grid({n}, 16):
        with T.block("load3"):
            vi, vl = T.axis.remap("SS", [i, l])
            w[vi, vl] = T.cast(m[vi, vl], "int32")
''' if again else ""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({n}, 16), "int32"), out: T.Buffer(({n}, 16), "int8")):
    m = T.alloc_buffer(({n}, 16), "int8")
    x = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    w = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    for r in range(3):
        for i, l in T.grid({n}, 16):
            with T.block("load"):
                vi, vl = T.axis.remap("SS", [i, l])
                x[vi, vl] = a[vi, vl]
        for i, l in T.grid({n}, 16):
            with T.block("store"):
                vi, vl = T.axis.remap("SS", [i, l])
                m[vi, vl] = T.cast(x[vi, vl], "int8")
        for i, l in T.grid({n}, 16):
            with T.block("load2"):
                vi, vl = T.axis.remap("SS", [i, l])
                w[vi, vl] = T.cast(m[vi, vl], "int32")
        for i, l in T.grid({n}, 16):
            with T.block("store2"):
                vi, vl = T.axis.remap("SS", [i, l])
                out[vi, vl] = T.cast(w[vi, vl], "int8")
{extra}''')


def test_store_then_load_of_dram(vta_schedules: ModuleType) -> None:
    vta_schedules.verify(through_dram(5, False), "vta-fsim")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tiles", [1, 4])
def test_two_products_through_dram(tiles: int, target: str, vta_schedules: ModuleType) -> None:
    """out = (a x w) x w, the middle stored to DRAM and loaded into INP by another engine."""
    rows = 8 // tiles
    product = '''
        for i, l in T.grid({rows}, 16):
            with T.block("load_{n}"):
                vi = T.axis.spatial(8, t * {rows} + i)
                vl = T.axis.spatial(16, l)
                i{n}[vi, vl] = {src}[vi, vl]
        for i, l in T.grid({rows}, 16):
            with T.block("init_{n}"):
                vi = T.axis.spatial(8, t * {rows} + i)
                vl = T.axis.spatial(16, l)
                c{n}[vi, vl] = 0
        for i in range({rows}):
            with T.block("gemm_{n}"):
                vi = T.axis.spatial(8, t * {rows} + i)
                T.reads(c{n}[vi, 0:16], i{n}[vi, 0:16], wgt[0:16, 0:16])
                T.writes(c{n}[vi, 0:16])
                A = T.match_buffer(c{n}[vi, 0:16], (1, 16), "int32", scope="local.acc_buffer", offset_factor=16)
                I = T.match_buffer(i{n}[vi, 0:16], (1, 16), "int8", scope="local.inp_buffer", offset_factor=16)
                W = T.match_buffer(wgt[0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer", offset_factor=256)
                T.evaluate(T.call_extern("int32", "vta.gemm", A.data, I.data, W.data))
        for i, l in T.grid({rows}, 16):
            with T.block("store_{n}"):
                vi = T.axis.spatial(8, t * {rows} + i)
                vl = T.axis.spatial(16, l)
                {dst}[vi, vl] = T.cast(c{n}[vi, vl], "int8")
'''
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((8, 16), "int8"), w: T.Buffer((16, 16), "int8"), out: T.Buffer((8, 16), "int8")):
    m = T.alloc_buffer((8, 16), "int8")
    wgt = T.alloc_buffer((16, 16), "int8", scope="local.wgt_buffer")
    i1 = T.alloc_buffer((8, 16), "int8", scope="local.inp_buffer")
    i2 = T.alloc_buffer((8, 16), "int8", scope="local.inp_buffer")
    c1 = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    c2 = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")
    for o, l in T.grid(16, 16):
        with T.block("load_w"):
            vo, vl = T.axis.remap("SS", [o, l])
            wgt[vo, vl] = w[vo, vl]
    for t in range({tiles}):{product.format(n=1, src="a", dst="m", rows=rows)}
    for t in range({tiles}):{product.format(n=2, src="m", dst="out", rows=rows)}
''')
    vta_schedules.verify(func, target)
