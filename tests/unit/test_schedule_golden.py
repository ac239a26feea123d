"""Whole schedules as text: program and trace, compared with files."""

from __future__ import annotations

from collections.abc import Callable

from autosched.ir import IRModule, PrimFunc
from autosched.schedule import Schedule
from autosched.script import T

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
Golden = Callable[[str], None]


@T.prim_func
def gemm(A: T.Buffer((1, 16, 1, 16), "int8"), B: T.Buffer((16, 16, 16, 16), "int8"), D: T.Buffer((1, 16, 1, 16), "int8")):
    C = T.sblock_alloc_buffer((1, 16, 1, 16), "int32")
    for b, m, i, j, n, k in T.grid(1, 16, 1, 16, 16, 16):
        with T.sblock("C"):
            vb, vm, vi, vj, vn, vk = T.axis.remap("SSSSRR", [b, m, i, j, n, k])
            with T.init():
                C[vb, vm, vi, vj] = 0
            C[vb, vm, vi, vj] = C[vb, vm, vi, vj] + T.Cast("int32", A[vb, vn, vi, vk]) * T.Cast("int32", B[vm, vn, vj, vk])
    for b, m, i, j in T.grid(1, 16, 1, 16):
        with T.sblock("D"):
            vb, vm, vi, vj = T.axis.remap("SSSS", [b, m, i, j])
            D[vb, vm, vi, vj] = T.Cast("int8", C[vb, vm, vi, vj])


@T.prim_func
def stencil(A: T.Buffer((100,), "int32"), B: T.Buffer((98,), "int32")):
    for i, k in T.grid(98, 3):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi + vk]


def test_gemm_with_caches(golden: Golden, verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(gemm)
    _, m, i, j, _, _ = sch.get_loops("C")
    m0, m1 = sch.split(m, [None, 4])
    sch.split("n => n0, n1", [None, 2])
    sch.reorder(m0, "n0", m1, i, j, "n1")
    a = sch.cache_read("C", 0, "local.inp_buffer")
    w = sch.cache_read("C", 1, "local.wgt_buffer")
    sch.set_scope("C", 0, "local.acc_buffer")
    sch.double_buffer(a)
    sch.double_buffer(w)
    sch.bind(m0, "vthread")
    sch.annotate("C", "vta.loop", "uop")
    golden(f"{sch.script()}\n{sch.trace}\n")
    verify_trace_roundtrip(sch, gemm)


def test_stencil_that_does_not_divide(golden: Golden, verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(stencil)
    i, k = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, 16])
    sch.reorder(i0, k, i1)
    sch.vectorize(i1)
    sch.cache_read("B", 0, "local")
    sch.cache_write("B", 0, "local")
    golden(f"{sch.script()}\n{sch.trace}\n")
    verify_trace_roundtrip(sch, stencil)
