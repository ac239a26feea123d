"""VTA's matrix multiply, scheduled step by step in the memories of a machine, becomes a program that computes it bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import te
from autosched.errors import LoweringError, ScheduleError
from autosched.ir.interp import run
from autosched.ir.stmt import PrimFunc
from autosched.kernel import Kernel, of_schedule
from autosched.lower import lower
from autosched.schedule import Schedule, TensorIntrin
from autosched.script import T
from autosched.target import Target, get_target
from sim import isa

INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
MACHINE = get_target("vta-de10")  # which registers its intrinsic
GEMM = "vta.gemm.1x16x16"


@T.prim_func
def row_desc(
    wgt: T.Buffer((16, 16), "int8", scope="local.wgt_buffer", offset_factor=256),
    inp: T.Buffer((16,), "int8", scope="local.inp_buffer", offset_factor=16),
    out: T.Buffer((16,), "int32", scope="local.acc_buffer", offset_factor=16),
) -> None:
    with T.block("root"):
        T.reads(out[0:16], inp[0:16], wgt[0:16, 0:16])
        T.writes(out[0:16])
        for j, k in T.grid(16, 16):
            with T.block("out"):
                vj, vk = T.axis.remap("SR", [j, k])
                out[vj] += T.Cast("int32", inp[vk]) * T.Cast("int32", wgt[vj, vk])


@T.prim_func
def row_impl(
    wgt: T.Buffer((16, 16), "int8", scope="local.wgt_buffer", offset_factor=256),
    inp: T.Buffer((16,), "int8", scope="local.inp_buffer", offset_factor=16),
    out: T.Buffer((16,), "int32", scope="local.acc_buffer", offset_factor=16),
) -> None:
    with T.block("root"):
        T.reads(out[0:16], inp[0:16], wgt[0:16, 0:16])
        T.writes(out[0:16])
        T.evaluate(T.call_extern("int32", "vta.gemm", out.data, inp.data, wgt.data))


TensorIntrin.register("test.vta.row", row_desc, row_impl)


def program(rows: int, depth: int, columns: int, batch: int = 1) -> PrimFunc:
    """The tutorial's definition: C sums over K and k, D narrows."""
    o, n, m = rows // batch, depth // 16, columns // 16
    big, small = te.reduce_axis((0, n), name="K"), te.reduce_axis((0, 16), name="k")
    a = te.placeholder((o, n, batch, 16), "int8", name="A")
    b = te.placeholder((m, n, 16, 16), "int8", name="B")
    c = te.compute(
        (o, m, batch, 16),
        lambda I, J, i, j: te.sum(  # noqa: E741
            a[I, big, i, small].astype("int32") * b[J, big, j, small].astype("int32"), axis=[big, small]
        ),
        name="C",
    )
    d = te.compute((o, m, batch, 16), lambda I, J, i, j: c(I, J, i, j).astype("int8"), name="D")  # noqa: E741
    return te.create_prim_func([a, b, d])


def loops_together(func: PrimFunc, site: str = "i", when: str = "last", intrin: str = GEMM) -> Schedule:
    """``reorder`` before the caches: K stands outside i, j and k."""
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.set_scope(block, 0, ACC)
    _, outer, i, j, big, k = sch.get_loops(block)
    sch.reorder(big, i, j, k)
    a_cache = sch.reindex_cache_read(block, 0, INP, lambda I, J, i, j, K, k: (I, K, i, k))  # noqa: E741
    b_cache = sch.reindex_cache_read(block, 1, WGT, lambda I, J, i, j, K, k: (J, K, j, k))  # noqa: E741
    target = {"i": i, "j": j, "block": block}[site]
    if when == "before compute_at":
        sch.tensorize(target, intrin)
    sch.compute_at(a_cache, big)
    sch.compute_at(b_cache, big)
    if when == "before the initialisation":
        sch.tensorize(target, intrin)
    sch.decompose_reduction(block, big)
    if when == "last":
        sch.tensorize(target, intrin)
    sch.reverse_compute_at("D", outer)
    return sch


def at_the_threads_end(func: PrimFunc, intrin: str, fused: bool, notes: bool = True) -> Schedule:
    """K outermost, whole caches of one K, the accumulator of all outputs, and the copies marked."""
    sch = Schedule(func)
    block = sch.get_block("C")
    big_i, big_j, i, j, big, k = sch.get_loops(block)
    sch.reorder(big, big_i, big_j, i, j, k)
    a_cache = sch.cache_read(block, 0, INP)
    b_cache = sch.cache_read(block, 1, WGT)
    sch.set_scope(block, 0, ACC)
    sch.decompose_reduction(block, big)
    site = sch.fuse(i, j) if fused else i
    sch.compute_at(a_cache, big)
    sch.compute_at(b_cache, big)
    if notes:
        sch.annotate(sch.get_loops(a_cache)[-1], "dma_copy", True)
        sch.annotate(sch.get_loops(b_cache)[1], "dma_copy", True)
        sch.annotate(sch.get_loops(sch.get_block("D"))[0], "dma_copy", True)
    sch.tensorize(site, intrin)
    return sch


def exact(kernel: Kernel, seed: int = 0) -> bool:
    """The machine's bytes against NumPy and against the interpreter on the unscheduled program."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, [int(s.value) for s in p.shape]).astype(np.int8) for p in kernel.inputs)
    got = kernel(a, b)
    sums = np.einsum("ikax,jkbx->ijab", a.astype(np.int32), b.astype(np.int32))
    assert np.array_equal(run(kernel.func, a, b)["D"], sums.astype(np.int8))
    return np.array_equal(got, sums.astype(np.int8))


def count(kernel: Kernel, opcode: int) -> int:
    return int((kernel.lowered.table[:, isa.OPCODE] == opcode).sum())


@pytest.mark.parametrize("site", ["i", "j", "block"])
@pytest.mark.parametrize("when", ["last", "before the initialisation", "before compute_at"])
def test_with_the_loops_together(site: str, when: str) -> None:
    func = program(1, 128, 64)
    kernel = of_schedule(func, MACHINE, loops_together(func, site, when))
    assert exact(kernel)
    assert {s.block: s.kind for s in kernel.lowered.sites}["D"] == "store"
    assert count(kernel, isa.OP_GEMM) > 0


@pytest.mark.parametrize(("intrin", "fused"), [(GEMM, False), ("test.vta.row", True)])
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
def test_the_schedule_at_the_threads_end(intrin: str, fused: bool, target: str) -> None:
    func = program(1, 256, 256)
    kernel = of_schedule(func, target, at_the_threads_end(func, intrin, fused))
    assert exact(kernel)


def test_the_marks_on_copies_change_nothing() -> None:
    func = program(1, 64, 64)
    marked, plain = (of_schedule(func, MACHINE, at_the_threads_end(func, GEMM, False, notes)) for notes in (True, False))
    assert "dma_copy" in marked.schedule.script()
    assert marked.hash == plain.hash


def test_both_orders_give_the_same_bytes_and_other_programs() -> None:
    func = program(2, 64, 48)
    first = of_schedule(func, MACHINE, loops_together(func))
    second = of_schedule(func, MACHINE, at_the_threads_end(func, GEMM, False))
    assert exact(first)
    assert exact(second)
    assert first.hash != second.hash
    assert lower(first.schedule.func, MACHINE).disassemble() == first.program.disassemble()


@pytest.mark.parametrize("n", [4, 2, 1])
def test_machines_with_more_rows(n: int) -> None:
    base = get_target("vta-fsim")
    machine = get_target(Target(f"rows{n}", replace(base.config, LOG_BATCH=n.bit_length() - 1), "fsim"))
    func = program(2 * n, 64, 32, batch=n)
    kernel = of_schedule(func, machine, loops_together(func, intrin=f"vta.gemm.{n}x16x16"))
    assert exact(kernel)


def test_two_banks_for_the_weights_are_faster_and_equal() -> None:
    func = program(1, 256, 128)
    sch = loops_together(func)
    single = of_schedule(func, MACHINE, sch)
    doubled = sch.copy()
    for name in (f"A_{INP}", f"B_{WGT}"):
        doubled.double_buffer(name)
    kernel = of_schedule(func, MACHINE, doubled)
    assert exact(kernel)
    assert kernel.cycles < single.cycles
    assert {s.buffer: s.copies for s in kernel.lowered.storages if s.scope != ACC} == {
        "A_local.inp_buffer": 2, "B_local.wgt_buffer": 2,
    }


@pytest.mark.parametrize("site", ["block", "i", "j", "k"])
def test_as_first_written_it_is_refused_also_in_the_machines_memories(site: str) -> None:
    func = program(1, 64, 48)
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.set_scope(block, 0, ACC)
    caches = [
        sch.reindex_cache_read(block, 0, INP, lambda I, J, i, j, K, k: (I, K, i, k)),  # noqa: E741
        sch.reindex_cache_read(block, 1, WGT, lambda I, J, i, j, K, k: (J, K, j, k)),  # noqa: E741
    ]
    _, _, i, j, big, k = sch.get_loops(block)
    for cache in caches:
        sch.compute_at(cache, big)
    sch.decompose_reduction(block, big)
    sch.reorder_block_iter_var(block, (4, 0, 1, 2, 3, 5))
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize({"block": block, "i": i, "j": j, "k": k}[site], GEMM)
    text = str(caught.value)
    assert all(name in text for name in ("C_init", "A_local.inp_buffer", "B_local.wgt_buffer"))
    assert len(text.splitlines()) <= 20
    with pytest.raises(LoweringError, match=r"tensorize the block with vta\.gemm"):
        lower(sch.func, MACHINE)


def test_a_result_outside_the_accumulator_has_no_gemm() -> None:
    func = program(1, 64, 48)
    sch = Schedule(func)
    block = sch.get_block("C")
    _, _, i, j, big, k = sch.get_loops(block)
    sch.reorder(big, i, j, k)
    with pytest.raises(ScheduleError, match=r"C is in global, the intrinsic wants it in local\.acc_buffer"):
        sch.tensorize(i, GEMM)
