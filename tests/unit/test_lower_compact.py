"""Buffers shrink to what lives at once, and never to less."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import pytest

from autosched import te
from autosched.ir import interp
from autosched.ir.stmt import BlockRealize, PrimFunc
from autosched.lower import flatten
from autosched.schedule import AXIS_SEPARATOR, Schedule
from autosched.script import T, parse


def shapes(func: PrimFunc) -> dict[str, tuple[int, ...]]:
    """The function's own buffers."""
    assert isinstance(func.body, BlockRealize)
    return {b.name: tuple(int(s.value) for s in b.shape) for b in func.body.block.alloc_buffers}  # type: ignore[attr-defined]


def same_meaning(func: PrimFunc, flat: PrimFunc, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-100, 100, [s.value for s in b.shape]).astype(b.dtype) for b in func.buffers]  # type: ignore[attr-defined]
    for a, b in zip(interp.run(func, *[x.copy() for x in arrays]), interp.run(flat, *[x.copy() for x in arrays])):
        np.testing.assert_array_equal(a, b)


def banked(tile_k: int, banks: bool, doubled: bool) -> Schedule:
    """A matmul whose tiles of both operands are loaded per step of the reduction."""
    k = te.reduce_axis((0, 64), "k")
    a, b = te.placeholder((32, 64), "int32", name="A"), te.placeholder((64, 32), "int32", name="B")
    c = te.compute((32, 32), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    caches = [sch.cache_read("C", n, "local.vtcm") for n in (0, 1)]
    m, n, r = sch.get_loops("C")
    m_o, m_i = sch.split(m, [None, 16])
    n_o, n_i = sch.split(n, [None, 16])
    k_o, k_i = sch.split(r, [None, tile_k])
    sch.reorder(m_o, n_o, k_o, m_i, k_i, n_i)
    for cache in caches:
        sch.compute_at(cache, k_o)
    if banks:
        half = tile_k // 2
        sch.transform_layout("C", ("read", 0), lambda m, k: [k // half % 2, AXIS_SEPARATOR, m, k // tile_k, k % half])
        sch.transform_layout("C", ("read", 1), lambda k, n: [k // half % 2, AXIS_SEPARATOR, k // tile_k, k % half, n])
    if doubled:
        for cache in caches:
            sch.double_buffer(cache)
    return sch


@pytest.mark.parametrize(
    ("banks", "doubled", "shape"),
    [(False, False, (512,)), (True, False, (2, 256)), (False, True, (2, 512)), (True, True, (2, 2, 256))],
)
def test_caches_of_tiles(banks: bool, doubled: bool, shape: tuple[int, ...]) -> None:
    sch = banked(32, banks, doubled)
    flat = flatten(sch.func, compact=True)
    assert [s for n, s in shapes(flat).items() if "vtcm" in n] == [shape, shape]
    same_meaning(sch.func, flat)
    assert {s[-1] for s in shapes(flatten(sch.func)).values()} == {1024 if banks else 2048}


@T.prim_func
def carried(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
    """Every step reads what the one before it wrote."""
    h = T.alloc_buffer((9, 4), "int32")
    for j in range(4):
        with T.block("start"):
            vj = T.axis.spatial(4, j)
            h[0, vj] = 0
    for i, j in T.grid(8, 4):
        with T.block("step"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(h[vi, vj], A[vi, vj])
            T.writes(h[vi + 1, vj])
            h[vi + 1, vj] = h[vi, vj] + A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = h[vi + 1, vj]


@T.prim_func
def window(A: T.Buffer((12, 4), "int32"), B: T.Buffer((10, 4), "int32")):
    """Row i + 2 is filled in step i; rows i and i + 1 are left from before, except in the first step."""
    s = T.alloc_buffer((12, 4), "int32")
    for i in range(10):
        for r, j in T.grid(3, 4):
            with T.block("s"):
                vi = T.axis.spatial(12, i + r)
                vj = T.axis.spatial(4, j)
                T.where(i == 0 or r == 2)
                s[vi, vj] = A[vi, vj] * 2
        for r, j in T.grid(3, 4):
            with T.block("B"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    B[vi, vj] = 0
                B[vi, vj] = B[vi, vj] + s[vi + vr, vj]


@T.prim_func
def gaps(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    """Only every other element is written in a row's step; the others come from the row before."""
    s = T.alloc_buffer((8,), "int32")
    for j in range(8):
        with T.block("first"):
            vj = T.axis.spatial(8, j)
            s[vj] = A[0, vj]
    for i in range(4):
        for j in range(4):
            with T.block("some"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.writes(s[vj * 2])
                s[vj * 2] = A[vi, vj * 2]
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = s[vj]


@pytest.mark.parametrize(("func", "name", "size"), [(carried, "h", 36), (window, "s", 48), (gaps, "s", 8)])
def test_what_a_later_pass_reads_is_kept(func: PrimFunc, name: str, size: int) -> None:
    flat = flatten(func, compact=True)
    assert shapes(flat)[name] == (size,)
    same_meaning(Schedule(func).func, flat)


def test_the_same_window_filled_anew_shrinks() -> None:
    sch = Schedule(window)
    text = "".join(line for line in sch.script().splitlines(keepends=True) if "T.where" not in line)
    func = parse(text)
    flat = flatten(func, compact=True)
    assert shapes(flat)["s"] == (12,)
    same_meaning(func, flat)


def test_an_accumulator_used_in_the_last_step_is_kept_over_all_steps() -> None:
    sch = banked(32, False, False)
    store = sch.cache_write("C", 0, "local.acc")
    sch.reverse_compute_at(store, sch.get_loops("C")[2], last_iteration=True)
    flat = flatten(sch.func, compact=True)
    assert shapes(flat)["C_local.acc"] == (256,)
    same_meaning(sch.func, flat)


@pytest.mark.parametrize("seed", range(6))
def test_scheduled_convolutions(seed: int, vta_schedules: ModuleType) -> None:
    """Views, predicates, external calls and virtual threads."""
    func = vta_schedules.conv2d(random.Random(seed).choice, "conv2d:h=5,w=4,ci=32,co=32,k=3,pad=1").mod["main"]
    flat, whole = flatten(func, compact=True), flatten(func)
    assert all(a <= b for a, b in zip(shapes(flat).values(), shapes(whole).values()))
    same_meaning(func, flat, seed)


def test_symbolic_extents_and_partial_tiles() -> None:
    m_, n_, k_ = (te.var(name, "int32") for name in "MNK")
    k = te.reduce_axis((0, k_), "k")
    a, b = te.placeholder((m_, k_), "int32", name="A"), te.placeholder((k_, n_), "int32", name="B")
    c = te.compute((m_, n_), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    caches = [sch.cache_read("C", n, "local.vtcm") for n in (0, 1)]
    store = sch.cache_write("C", 0, "local.acc")
    for loop, factor, names in zip(sch.get_loops("C"), (8, 4, 16), (("m0", "m1"), ("n0", "n1"), ("k0", "k1"))):
        sch.split(loop, [None, factor], names=names)
    sch.reorder("m0", "n0", "k0", "m1", "k1", "n1")
    for cache in caches:
        sch.compute_at(cache, "k0")
    sch.reverse_compute_at(store, "n0")
    sch.double_buffer(caches[0])
    flat = flatten(sch.func, compact=True)
    assert shapes(flat) == {"A_local.vtcm": (2, 128), "B_local.vtcm": (64,), "C_local.acc": (32,)}
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, (13, 21)).astype(np.int32), rng.integers(-9, 9, (21, 7)).astype(np.int32)
    np.testing.assert_array_equal(interp.run(flat, x, y)["C"], x @ y)


@T.prim_func
def guarded(A: T.Buffer((5, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    """Even steps fill rows i and i + 1; odd ones, whose guard fails, read the row that the step before left."""
    s = T.alloc_buffer((5, 8), "int32")
    for i in range(4):
        for r, j in T.grid(2, 8):
            with T.block("s"):
                va = T.axis.spatial(5, i + r)
                vg = T.axis.spatial(1, i % 2)  # noqa: F841
                vj = T.axis.spatial(8, j)
                T.where(i % 2 < 1)
                s[va, vj] = A[va, vj]
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = s[vi, vj]


def test_a_guard_that_no_index_shows_is_no_sure_write() -> None:
    flat = flatten(guarded, compact=True)
    assert shapes(flat)["s"] == (40,)
    same_meaning(Schedule(guarded).func, flat)
    unguarded = parse("".join(x for x in Schedule(guarded).script().splitlines(keepends=True) if "T.where" not in x))
    assert shapes(flatten(unguarded, compact=True))["s"] == (16,)


@pytest.mark.parametrize("depth", [50, 64])
def test_banks_of_a_tile_that_is_cut_off_shrink(depth: int) -> None:
    """No box says what the last tile of 18 writes in two banks of 16: that it is read at the same places does."""
    k = te.reduce_axis((0, depth), "k")
    a, b = te.placeholder((8, depth), "int32", name="A"), te.placeholder((depth, 8), "int32", name="B")
    sch = Schedule(te.create_prim_func([a, b, te.compute((8, 8), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")]))
    cache = sch.cache_read("C", 0, "local.vtcm")
    m, n, r = sch.get_loops("C")
    outer, inner = sch.split(r, [None, 32])
    sch.reorder(outer, m, n, inner)
    sch.compute_at(cache, outer)
    sch.transform_layout("C", ("read", 0), lambda m, k: [k // 16 % 2, AXIS_SEPARATOR, m, k // 32, k % 16],
                         assume_injective_transform=True)
    flat = flatten(sch.func, compact=True)
    assert shapes(flat) == {"A_local.vtcm": (2, 8 * 16)}
    same_meaning(sch.func, flat)


@T.prim_func
def odd(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    """Odd steps read, at the same place, what the even ones before them wrote."""
    s = T.alloc_buffer((4, 8), "int32")
    for i in range(4):
        for j in range(8):
            with T.block("s"):
                va = T.axis.spatial(4, i // 2 * 2)
                vg = T.axis.spatial(2, i % 2)  # noqa: F841
                vj = T.axis.spatial(8, j)
                T.where(i % 2 < 1)
                s[va, vj] = A[va, vj]
        for j in range(8):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vb = T.axis.spatial(4, i // 2 * 2)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = s[vb, vj]


def test_a_write_that_may_not_happen_covers_no_read_of_its_place() -> None:
    flat = flatten(odd, compact=True)
    assert shapes(flat)["s"] == (24,)
    same_meaning(Schedule(odd).func, flat)
    always = parse("".join(x for x in Schedule(odd).script().splitlines(keepends=True) if "T.where" not in x))
    assert shapes(flatten(always, compact=True))["s"] == (8,)


def overlapping(step: int) -> PrimFunc:
    """Every row is filled by views of three that overlap in runs of five; the pass before wrote elements 5, 11 and 17 of it."""
    width = 3 * step + 5
    return parse(f'''
@T.prim_func
def main(A: T.Buffer((4, {width}), "int32"), B: T.Buffer((4, {width}), "int32")):
    s = T.alloc_buffer((5, {width}), "int32")
    for i in range(4):
        for r, c in T.grid(2, 3):
            with T.block("ahead"):
                vi = T.axis.spatial(5, i + r)
                vc = T.axis.spatial(3, c)
                T.where(i == 0 or r == 1)
                s[vi, vc * 6 + 5] = 7
        for o, j in T.grid(4, 3):
            with T.block("s"):
                vi, vo, vj = T.axis.remap("SSS", [i, o, j])
                T.reads(A[vi, vo * {step} + vj:vo * {step} + vj + 3])
                T.writes(s[vi, vo * {step} + vj:vo * {step} + vj + 3])
                view = T.match_buffer(s[vi, vo * {step} + vj:vo * {step} + vj + 3], (1, 3), "int32", offset_factor=1)
                for c in range(3):
                    view[0, c] = A[vi, vo * {step} + vj + c]
        for j in range({width}):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = s[vi, vj]
''')


@pytest.mark.parametrize(("step", "rows"), [(5, 2), (6, 5)])
def test_views_that_overlap_cover_a_row_if_their_runs_meet(step: int, rows: int) -> None:
    flat = flatten(overlapping(step), compact=True)
    assert shapes(flat)["s"] == (rows * (3 * step + 5),)
    same_meaning(overlapping(step), flat)


@pytest.mark.parametrize(("reads", "size"), [("c[vi, 0:16], a[vi, 0:16]", 64), ("a[vi, 0:16]", 16)])
def test_what_a_call_goes_on_from_is_kept_from_step_to_step(reads: str, size: int) -> None:
    """A call that declares to read what it writes reads what stood there; one that only writes may write anywhere."""
    func = parse(f'''
@T.prim_func
def main(a: T.Buffer((4, 16), "int8"), out: T.Buffer((2, 4, 16), "int32")):
    c = T.alloc_buffer((4, 16), "int32")
    for o in range(2):
        for i in range(4):
            with T.block("made"):
                vi = T.axis.spatial(4, i)
                T.reads({reads})
                T.writes(c[vi, 0:16])
                C = T.match_buffer(c[vi, 0:16], (1, 16), "int32", offset_factor=16)
                A = T.match_buffer(a[vi, 0:16], (1, 16), "int8", offset_factor=16)
                T.evaluate(T.call_extern("int32", "made", C.data, A.data))
            for l in range(16):
                with T.block("out"):
                    vo, vi, vl = T.axis.remap("SSS", [o, i, l])
                    out[vo, vi, vl] = c[vi, vl]
''')
    assert shapes(flatten(func, compact=True))["c"] == (size,)


@pytest.mark.parametrize(("step", "size"), [(2, 128), (3, 768)])
def test_what_is_made_two_rows_at_a_time_in_two_banks_has_no_gap(step: int, size: int) -> None:
    rows = 4 * 2 * step
    func = parse(f'''
@T.prim_func
def main(out: T.Buffer((4, 2, {2 * step}, 16), "int32")):
    c = T.alloc_buffer((2, {rows}, 16), "int32")
    for t in range(4):
        for i in range(4):
            with T.block("made"):
                vt, vi = T.axis.remap("SS", [t, i])
                T.reads()
                T.writes(c[vi % 2, vt * {2 * step} + vi // 2 * {step}:vt * {2 * step} + vi // 2 * {step} + 2, 0:16])
                C = T.match_buffer(c[vi % 2, vt * {2 * step} + vi // 2 * {step}:vt * {2 * step} + vi // 2 * {step} + 2, 0:16],
                                   (1, 2, 16), "int32", offset_factor=16)
                T.evaluate(T.call_extern("int32", "made", C.data))
        for b, r, l in T.grid(2, {2 * step}, 16):
            with T.block("out"):
                vt, vb, vr, vl = T.axis.remap("SSSS", [t, b, r, l])
                out[vt, vb, vr, vl] = c[vb, vt * {2 * step} + vr, vl]
''')
    assert shapes(flatten(func, compact=True))["c"] == (size,)
