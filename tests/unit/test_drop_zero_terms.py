"""Skipping products with padding: the predicate, the refusals, and what it is worth on the machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import T
from autosched.target import get_target
from autosched.workloads import workload

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


@T.prim_func
def conv(A: T.Buffer((7,), "int8"), W: T.Buffer((3,), "int8"), C: T.Buffer((7,), "int32")):
    P = T.sblock_alloc_buffer((9,), "int8")
    for i in range(9):
        with T.sblock("pad"):
            vi = T.axis.spatial(9, i)
            P[vi] = T.if_then_else(vi >= 1 and vi < 8, A[vi - 1], T.int8(0))
    for y, k in T.grid(7, 3):
        with T.sblock("conv"):
            vy, vk = T.axis.remap("SR", [y, k])
            with T.init():
                C[vy] = 0
            C[vy] = C[vy] + T.Cast("int32", P[vy + vk]) * T.Cast("int32", W[vk])


@T.prim_func
def dilated(A: T.Buffer((4,), "int32"), W: T.Buffer((3,), "int32"), C: T.Buffer((8,), "int32")):
    P = T.sblock_alloc_buffer((10,), "int32")
    Q = T.sblock_alloc_buffer((10,), "int32")
    for i in range(10):
        with T.sblock("dilate"):
            vi = T.axis.spatial(10, i)
            P[vi] = T.if_then_else(vi >= 1 and vi < 9 and vi % 2 == 1, A[(vi - 1) // 2], 0)
    for i in range(10):
        with T.sblock("copy"):
            vi = T.axis.spatial(10, i)
            Q[vi] = P[vi]
    for y, k in T.grid(8, 3):
        with T.sblock("conv"):
            vy, vk = T.axis.remap("SR", [y, k])
            with T.init():
                C[vy] = 0
            C[vy] = C[vy] + Q[vy + vk] * W[vk]


@T.prim_func
def floats(A: T.Buffer((7,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((7,), "float32")):
    for y, k in T.grid(7, 3):
        with T.sblock("conv"):
            vy, vk = T.axis.remap("SR", [y, k])
            with T.init():
                C[vy] = T.float32(0)
            C[vy] = C[vy] + T.if_then_else(vy + vk >= 1 and vy + vk < 8, A[vy + vk - 1], T.float32(0)) * W[vk]


@T.prim_func
def biased(A: T.Buffer((7,), "int32"), C: T.Buffer((7,), "int32")):
    for y, k in T.grid(7, 3):
        with T.sblock("conv"):
            vy, vk = T.axis.remap("SR", [y, k])
            with T.init():
                C[vy] = 0
            C[vy] = C[vy] + (T.if_then_else(vy + vk >= 1 and vy + vk < 8, A[vy + vk - 1], 0) + 1)


def test_an_inlined_padding_becomes_a_predicate(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(conv)
    block = sch.get_block("conv")
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    sch.compute_inline("pad")
    sch.drop_zero_terms(block)
    text = sch.script()
    assert "T.where(1 <= y + k and y + k < 8)" in text
    assert "if_then_else" not in text
    assert "A[v_y + v_k - 1]" in text or "A[vy + vk - 1]" in text
    same(conv, sch)
    verify_trace_roundtrip(sch, conv)
    # Nothing is left to drop.
    with pytest.raises(ScheduleError, match="no term of block conv_update is known to be zero"):
        sch.drop_zero_terms(block)


def test_the_padding_may_stay_a_stage(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(conv)
    block = sch.get_block("conv")
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.drop_zero_terms(block)
    assert "T.where(1 <= y + k and y + k < 8)" in sch.script()
    assert sch.get(block).reads[1].buffer.name == "P"
    same(conv, sch)
    verify_trace_roundtrip(sch, conv)


def test_a_dilated_operand_through_a_copy(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(dilated)
    block = sch.get_block("conv")
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    sch.drop_zero_terms(block)
    assert "% 2 == 1" in sch.script()
    same(dilated, sch)
    verify_trace_roundtrip(sch, dilated)


def test_a_tile_that_is_inside_needs_no_condition(same: Same) -> None:
    sch = Schedule(conv)
    block = sch.get_block("conv")
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    sch.drop_zero_terms(block)
    y, _ = sch.get_loops(block)
    sch.split(y, [None, 4])
    same(conv, sch)


@pytest.mark.parametrize("func, ready, code", [
    (conv, False, "reduction"),
    (floats, True, "form"),
    (biased, True, "form"),
])
def test_refusals(func: PrimFunc, ready: bool, code: str) -> None:
    sch = Schedule(func)
    block = sch.get_block("conv")
    if ready:
        sch.decompose_reduction(block, sch.get_loops(block)[1])
    before = sch.script()
    with refused(ScheduleError, code):
        sch.drop_zero_terms(block)
    assert sch.script() == before


def resnet_c11(drop: bool) -> Schedule:
    """A schedule of the last convolution of ResNet-18, 7x7x512 to 7x7x512 with a 3x3 kernel."""
    get_target("vta-de10")
    sch = Schedule(workload("resnet18.c11").func)
    block, out, requant, pad = (sch.get_block(n) for n in ("conv", "out", "requant", "pad"))
    bias = sch.cache_read(requant, 1, ACC)
    for b in (block, requant):
        sch.set_scope(b, 0, ACC)
    co0, _ = sch.split(sch.get_loops(out)[1], [None, 16])
    for b in (requant, block, bias):
        sch.compute_at(b, co0, preserve_unit_loops=True)
    co, y, x, nb, cb, ci, ky, kx, ib = sch.get_loops(block)[-9:]
    sch.reorder(ci, ky, kx, co, y, x, nb, cb, ib)
    sch.decompose_reduction(block, ci)
    if drop:
        sch.compute_inline(pad)
        sch.drop_zero_terms(block)
        inp = sch.cache_read(block, 1, INP)
    else:
        sch.set_scope(pad, 0, INP)
        inp = pad
    wgt = sch.cache_read(block, 2, WGT)
    sch.compute_at(inp, ci)
    sch.compute_at(wgt, kx)
    for b in (inp, wgt):
        sch.double_buffer(b)
    sch.tensorize(nb, "vta.gemm.1x16x16")
    return sch


def test_resnet18_c11_skips_a_fifth_of_its_products() -> None:
    results = {}
    for drop in (False, True):
        trace = tuple(resnet_c11(drop).trace.as_json())
        results[drop] = measure(Candidate("resnet18.c11", "vta-de10", trace), execute=True)
        assert results[drop].status == "ok", results[drop].reason
    # Seven rows and three taps: 19 of 21 products count, in both directions.
    assert results[False].stats["gemm_counter"] == 32 * 32 * 49 * 9
    assert results[True].stats["gemm_counter"] == 32 * 32 * 19 * 19
    assert results[True].cycles < 392_000 < results[False].cycles
