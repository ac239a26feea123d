"""Buffers in physical banks: the matrix product of the discussion, its caches in ``[2][4096]`` through axis separators."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import small_programs
from refusals import refused

from autosched import te
from autosched.errors import LoweringError, ScheduleError
from autosched.ir import IRModule, PrimFunc, Var
from autosched.ir.interp import run
from autosched.lower import flatten, lower
from autosched.schedule import AXIS_SEPARATOR, Schedule
from autosched.script import T, parse
from autosched.target import get_target
from autosched.workloads import workload
from sim.timing import Timing, simulate

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
MACHINE = get_target("vta-de10")
VTCM, BLOCK_2 = "local.vtcm", "local.vtcm_Block_2"
SIZE, TILE_M, TILE_N, TILE_K = 256, 64, 64, 128


matmul = small_programs.matmul(256, 256, 256, "float32", axes="mnk")


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


def tiled(func: PrimFunc, tile_k: int = TILE_K) -> Schedule:
    """The schedule of the discussion: caches of tiles under the loop over k."""
    sch = Schedule(func)
    block = sch.get_block("C")
    al, bl = sch.cache_read(block, 0, VTCM), sch.cache_read(block, 1, VTCM)
    out = sch.cache_write(block, 0, BLOCK_2)
    m, n, k = sch.get_loops(block)
    mo, mi = sch.split(m, [None, TILE_M])
    no, ni = sch.split(n, [None, TILE_N])
    ko, ki = sch.split(k, [None, tile_k])
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
    with refused(ScheduleError, "layout"):
        sch.transform_layout("C", "C", lambda i, j: [i % 2, AXIS_SEPARATOR, i // 4, j])
    assert sch.script() == before


def test_lowered_text_loads_one_bank_beside_computing_in_the_other() -> None:
    sch = tiled(matmul, 64)
    sch.double_buffer("A_local.vtcm")
    sch.double_buffer("B_local.vtcm")
    flat = flatten(sch.func, compact=True, pipeline=True)
    product_of(flat)
    loop = flat.script().partition("for k_0 in range(4):")[2]
    loads = [line for line in loop.splitlines() if re.search(r"_local_vtcm\[.*\] = [AB]\[", line)]
    assert len(loads) == 2 and all("[(k_0 + 1) % 2, " in line for line in loads)
    compute = next(line for line in loop.splitlines() if " * " in line and "Block_2[" in line.partition("=")[0])
    assert "A_local_vtcm[k_0 % 2, " in compute and "B_local_vtcm[k_0 % 2, " in compute
    banks = [re.findall(r"_local_vtcm\[(\d+), ", line) for line in flat.script().splitlines()]
    assert [b for b in banks if b] == [["0"], ["0"]]  # the first tiles, ahead of the loop
    # Without banks there is nothing to run ahead in.
    single = tiled(matmul, 64).func
    assert flatten(single, compact=True, pipeline=True) == flatten(single, compact=True)


def test_double_buffer_on_buffers_of_several_dimensions_runs_ahead() -> None:
    sch = tiled(matmul, 64)
    sch.transform_layout("A_local.vtcm", ("write", 0), lambda m, k: [m // 32, AXIS_SEPARATOR, m % 32, k])
    sch.double_buffer("A_local.vtcm")
    flat = flatten(sch.func, compact=True, pipeline=True)
    assert own_shapes(flat)["A_local.vtcm"] == (2, 2, 2048)
    assert "A_local_vtcm[(k_0 + 1) % 2, " in flat.script()
    product_of(flat)


def dense_on_vta(doubled: bool) -> tuple[list[str], Timing]:
    """A dense layer, its tiles loaded per step of the reduction: remarks of its listing, and its timing."""
    sch = Schedule(workload("dense:m=32,k=512,n=256,bias=0,tail=cast").func)
    data = sch.cache_read("dense", 0, "local.inp_buffer")
    weight = sch.cache_read("dense", 1, "local.wgt_buffer")
    sch.set_scope("dense", 0, "local.acc_buffer")
    m, n, mb, nb, k, kb = sch.get_loops("dense")
    sch.reorder(k, m, n, mb, nb, kb)
    ko, _ = sch.split(k, [None, 4])
    sch.compute_at(data, ko)
    sch.compute_at(weight, ko)
    sch.decompose_reduction("dense", ko)
    sch.tensorize(mb, "vta.gemm.1x16x16")
    if doubled:
        sch.double_buffer(data)
        sch.double_buffer(weight)
    program = lower(sch.func, MACHINE)
    remarks = [line.partition("  # ")[2] for line in program.disassemble(sram=True).splitlines()]
    return remarks, simulate(program.table, program.config, program.insn_address)


def overlapping(doubled: bool) -> list[tuple[str, str]]:
    """Pairs of (weights that a LOAD fills, weights that a GEMM reads) that run in the same cycles."""
    remarks, timing = dense_on_vta(doubled)
    bank = [re.search(r"wgt\[\S+\]", r) for r in remarks]
    loads = [(n, b[0]) for n, (b, r) in enumerate(zip(bank, remarks)) if b and r.startswith("fills")]
    products = [(n, b[0]) for n, (b, r) in enumerate(zip(bank, remarks)) if b and "+=" in r]
    assert len(loads) == len(products) == 8
    return [
        (x, y) for n, x in loads for k, y in products
        if timing.start[n] <= timing.done[k] and timing.start[k] <= timing.done[n]
    ]


def test_a_vta_loads_into_one_bank_while_it_computes_in_the_other() -> None:
    low, high = "wgt[0..63]", "wgt[64..127]"
    pairs = overlapping(True)
    # Seven of the eight loads run beside the product before.
    assert pairs.count((high, low)) == 4 and pairs.count((low, high)) == 3 and len(pairs) == 7
    assert overlapping(False) == []


def symbolic() -> PrimFunc:
    """The product with the symbolic sizes of the discussion."""
    m_, k_, n_ = te.var("M", "int32"), te.var("K", "int32"), te.var("N", "int32")
    A = te.placeholder((m_, k_), name="A")
    B = te.placeholder((k_, n_), name="B")
    k = te.reduce_axis((0, k_), "k")
    C = te.compute((m_, n_), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    return te.create_prim_func([A, B, C])


def symbolic_tiles() -> Schedule:
    sch = Schedule(symbolic())
    al, bl = sch.cache_read("C", 0, VTCM), sch.cache_read("C", 1, VTCM)
    m, n, k = sch.get_loops("C")
    mo, mi = sch.split(m, [None, TILE_M])
    no, ni = sch.split(n, [None, TILE_N])
    ko, ki = sch.split(k, [None, TILE_K])
    sch.reorder(mo, no, ko, mi, ki, ni)
    sch.compute_at(al, ko)
    sch.compute_at(bl, ko)
    return sch


@pytest.mark.parametrize("sizes", [(100, 130, 70), (64, 128, 64), (1, 1, 1), (65, 257, 63)])
def test_two_banks_of_symbolic_sizes(sizes: tuple[int, int, int]) -> None:
    sch = symbolic_tiles()
    sch.transform_layout("C", ("read", 0), lambda m, k: [k // 64 % 2, AXIS_SEPARATOR, m, k // 128, k % 64],
                         assume_injective_transform=True)
    sch.transform_layout("C", ("read", 1), lambda k, n: [k // 64 % 2, AXIS_SEPARATOR, k // 128, k % 64, n],
                         assume_injective_transform=True)
    flat = flatten(sch.func, compact=True)
    assert own_shapes(flat) == {"A_local.vtcm": (2, 4096), "B_local.vtcm": (2, 4096)}
    m, k, n = sizes
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (m, k)).astype("float32"), rng.integers(-4, 5, (k, n)).astype("float32")
    for func in (sch.func, flat):
        assert np.array_equal(run(func, a, b)["C"], a @ b)


def test_padding_of_symbolic_sizes_says_what_to_do() -> None:
    sch = symbolic_tiles()
    def layout(m: Var, k: Var) -> list[object]:
        return [k // 64 % 2, AXIS_SEPARATOR, m, k // 128, k % 64]

    with pytest.raises(ScheduleError, match=r"not used(.|\n)*try: pad_value=0\.0 \(or .*assume_injective_transform=True"):
        sch.transform_layout("C", ("read", 0), layout)
    with pytest.raises(ScheduleError, match=r"is 0, its elements are float32(.|\n)*try: pad_value=0\.0"):
        sch.transform_layout("C", ("read", 0), layout, pad_value=0)
    sch.transform_layout("C", ("read", 0), layout, pad_value=0.0)
    with pytest.raises(LoweringError, match=r"A_local\.vtcm has an extent .* M: .*assume_injective_transform=True"):
        flatten(sch.func, compact=True)


def test_two_banks_that_nothing_refills_are_a_warning() -> None:
    sch = Schedule(workload("dense:m=32,k=512,n=256,bias=0,tail=cast").func)
    data = sch.cache_read("dense", 0, "local.inp_buffer")
    sch.double_buffer(data)
    message = r"double_buffer of data_local\.inp_buffer has no effect: no loop of several iterations refills it"
    sch.cache_read("dense", 1, "local.wgt_buffer")
    sch.set_scope("dense", 0, "local.acc_buffer")
    m, n, mb, nb, k, kb = sch.get_loops("dense")
    sch.reorder(k, m, n, mb, nb, kb)
    sch.decompose_reduction("dense", k)
    sch.tensorize(mb, "vta.gemm.1x16x16")
    with pytest.warns(UserWarning, match=message):
        flatten(sch.func)
    with pytest.warns(UserWarning, match=message):
        lower(sch.func, MACHINE)
