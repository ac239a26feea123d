"""Buffers in physical banks: the matrix product of the discussion, its caches in ``[2][4096]`` through axis separators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.lower import flatten
from autosched.schedule import AXIS_SEPARATOR, Schedule
from autosched.script import T, parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
VTCM, BLOCK_2 = "local.vtcm", "local.vtcm_Block_2"
SIZE, TILE_M, TILE_N, TILE_K = 256, 64, 64, 128


@T.prim_func
def matmul(A: T.Buffer((256, 256), "float32"), B: T.Buffer((256, 256), "float32"), C: T.Buffer((256, 256), "float32")):
    for m, n, k in T.grid(256, 256, 256):
        with T.sblock("C"):
            vm, vn, vk = T.axis.remap("SSR", [m, n, k])
            with T.init():
                C[vm, vn] = T.float32(0)
            C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn]


@T.prim_func
def two_stages(A: T.Buffer((128, 32), "float32"), B: T.Buffer((128, 32), "float32")):
    C = T.sblock_alloc_buffer((128, 32))
    for i, j in T.grid(128, 32):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(128, 32):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] * 2.0


def defined() -> PrimFunc:
    """The product as the discussion defines it."""
    A = te.placeholder((SIZE, SIZE), name="A")
    B = te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), "k")
    C = te.compute((SIZE, SIZE), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    return te.create_prim_func([A, B, C])


def tiled(func: PrimFunc) -> Schedule:
    """The schedule of the discussion: caches of tiles under the loop over k."""
    sch = Schedule(func)
    block = sch.get_block("C")
    al, bl = sch.cache_read(block, 0, VTCM), sch.cache_read(block, 1, VTCM)
    out = sch.cache_write(block, 0, BLOCK_2)
    m, n, k = sch.get_loops(block)
    mo, mi = sch.split(m, [None, TILE_M])
    no, ni = sch.split(n, [None, TILE_N])
    ko, ki = sch.split(k, [None, TILE_K])
    sch.reorder(mo, no, ko, mi, ki, ni)
    ni0, ni1 = sch.split(ni, [None, 16])
    sch.vectorize(ni1)
    sch.compute_at(al, ko)
    sch.compute_at(bl, ko)
    sch.reverse_compute_at(out, no)
    sch.decompose_reduction(block, ko)
    assert sch.get(ni0).extent.value == 4
    return sch


def own_shapes(func: PrimFunc) -> dict[str, tuple[int, ...]]:
    return {b.name: tuple(s.value for s in b.shape) for b in func.body.block.alloc_buffers}


def product_of(func: PrimFunc) -> np.ndarray:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (SIZE, SIZE)).astype("float32") for _ in range(2))
    got = run(func, a, b, np.zeros((SIZE, SIZE), "float32"))["C"]
    assert np.array_equal(got, a @ b)
    return got


def banked(sch: Schedule) -> None:
    sch.transform_layout("A_local.vtcm", ("write", 0), lambda m, k: [m // 32, AXIS_SEPARATOR, m % 32, k])
    sch.transform_layout("B_local.vtcm", ("write", 0), lambda k, n: [k // 64, AXIS_SEPARATOR, k % 64, n])


@pytest.mark.parametrize("make", [lambda: matmul, defined], ids=["script", "te"])
def test_caches_in_two_banks(make: Callable[[], PrimFunc], verify_trace_roundtrip: Verify) -> None:
    func = make()
    sch = tiled(func)
    plain = flatten(sch.func, compact=True)
    assert own_shapes(plain)["A_local.vtcm"] == own_shapes(plain)["B_local.vtcm"] == (8192,)
    banked(sch)
    text = sch.script()
    assert text.count("axis_separators=[1]") == 2
    assert parse(text) == sch.func
    flat = flatten(sch.func, compact=True)
    shapes = own_shapes(flat)
    assert shapes["A_local.vtcm"] == shapes["B_local.vtcm"] == (2, 4096)
    assert shapes["C_local.vtcm_Block_2"] == (4096,)
    assert all(b.axis_separators == (1,) for b in flat.body.block.alloc_buffers if b.ndim == 2)
    product_of(sch.func)
    product_of(flat)
    verify_trace_roundtrip(sch, func)


def test_double_buffer_of_banked_buffers() -> None:
    sch = tiled(matmul)
    banked(sch)
    sch.double_buffer("A_local.vtcm")
    sch.double_buffer("B_local.vtcm", 0)
    assert sch.get(sch.get_block("A_local.vtcm")).annotations["double_buffer_scope"] == 0
    product_of(sch.func)
    flat = flatten(sch.func, compact=True)
    assert own_shapes(flat)["A_local.vtcm"] == own_shapes(flat)["B_local.vtcm"] == (2, 2, 4096)
    product_of(flat)


def test_load_one_bank_while_the_other_is_used() -> None:
    # Two banks of one tile each: no layout is needed for that.
    sch = tiled(matmul)
    sch.double_buffer("A_local.vtcm")
    assert own_shapes(flatten(sch.func, compact=True))["A_local.vtcm"] == (2, 8192)


def test_the_answer_of_the_discussion(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(two_stages)
    assert own_shapes(flatten(sch.func)) == {"C": (4096,)}
    sch.transform_layout("C", "C", lambda i, j: [i % 2, AXIS_SEPARATOR, i // 2, j])
    assert "C = T.sblock_alloc_buffer((2, 64, 32), axis_separators=[1])" in sch.script()
    assert "C[vi % 2, vi // 2, vj]" in sch.script()
    flat = flatten(sch.func)
    assert own_shapes(flat) == {"C": (2, 2048)}
    a = np.arange(128 * 32, dtype="float32").reshape(128, 32)
    for func in (sch.func, flat):
        assert np.array_equal(run(func, a, np.zeros_like(a))["B"], a * 4)
    verify_trace_roundtrip(sch, two_stages)


def test_a_map_that_folds_rows_onto_each_other_is_refused() -> None:
    sch = Schedule(two_stages)
    before = sch.script()
    with pytest.raises(ScheduleError, match="no inverse over this shape"):
        sch.transform_layout("C", "C", lambda i, j: [i % 2, AXIS_SEPARATOR, i // 4, j])
    assert sch.script() == before
