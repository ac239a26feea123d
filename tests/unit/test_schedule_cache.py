"""Caches: place, region, redirection; every accepted case runs, every refusal says why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import T, parse

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def chain(A: T.Buffer((16, 16), "int32"), C: T.Buffer((16, 16), "int32"), D: T.Buffer((16, 16), "int32")):
    B = T.sblock_alloc_buffer((16, 16), "int32")
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(16, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
    for i, j in T.grid(16, 16):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + A[vi, vj]


@T.prim_func
def gemm(A: T.Buffer((1, 4, 1, 16), "int8"), B: T.Buffer((4, 4, 16, 16), "int8"), D: T.Buffer((1, 4, 1, 16), "int8")):
    C = T.sblock_alloc_buffer((1, 4, 1, 16), "int32")
    for I_, J, i, j, K, k in T.grid(1, 4, 1, 16, 4, 16):
        with T.sblock("C"):
            vI, vJ, vi, vj, vK, vk = T.axis.remap("SSSSRR", [I_, J, i, j, K, k])
            with T.init():
                C[vI, vJ, vi, vj] = 0
            C[vI, vJ, vi, vj] = C[vI, vJ, vi, vj] + T.Cast("int32", A[vI, vK, vi, vk]) * T.Cast("int32", B[vJ, vK, vj, vk])
    for I_, J, i, j in T.grid(1, 4, 1, 16):
        with T.sblock("D"):
            vI, vJ, vi, vj = T.axis.remap("SSSS", [I_, J, i, j])
            D[vI, vJ, vi, vj] = T.Cast("int8", C[vI, vJ, vi, vj])


@T.prim_func
def two_writers(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(8):
        with T.sblock("B0"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.sblock("B1"):
            vi = T.axis.spatial(8, i)
            B[vi + 8] = A[vi + 8] * 2
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi]


@T.prim_func
def windowed(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((32,), "int32")
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi + 4] = A[vi]
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi + 4]


@T.prim_func
def update(D: T.Buffer((64,), "int32")):
    for i in range(64):
        with T.sblock("A"):
            vi = T.axis.spatial(64, i)
            T.reads(D[vi])
            T.writes(D[vi])
            D[vi] = D[vi] + 1


@T.prim_func
def by_address(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((32,), "int32")
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi + 4] = A[vi]
    with T.sblock("C"):
        T.reads(B[4:12])
        T.writes(C[0:8])
        T.call_extern("int32", "copy", C.data, B.data)


def order(sch: Schedule) -> list[str]:
    return sch.state.block_names()[1:]


def test_cache_read_of_an_input_goes_first(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(chain)
    copy = sch.cache_read("B", "A", "local.inp_buffer")
    assert sch.get(copy).name == "A_local.inp_buffer"
    assert order(sch) == ["A_local.inp_buffer", "B", "C", "D"]
    assert "B[vi, vj] = A_local_inp_buffer[vi, vj] * 2" in sch.script()
    assert "B[vi, vj] + A_local_inp_buffer[vi, vj]" in sch.script()
    verify_trace_roundtrip(sch, chain)
    same(chain, sch)


def test_cache_read_of_an_intermediate_for_some_consumers(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(chain)
    sch.cache_read("D", 0, "shared", consumer_blocks=["D"])
    assert order(sch) == ["B", "C", "B_shared", "D"]
    assert "C[vi, vj] = B[vi, vj] + 1" in sch.script()
    assert "B_shared[vi, vj] + A[vi, vj]" in sch.script()
    verify_trace_roundtrip(sch, chain)
    same(chain, sch)


def test_cache_read_inside_common_loops(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(chain)
    sch.merge(*(sch.get_loops(b)[0] for b in "BC"))
    copy = sch.cache_read("C", 0, "shared", [sch.get_block("C")])
    assert [sch.get(x).var.name for x in sch.get_loops(copy)] == ["i_m", "ax0", "ax1"]
    assert "v0 = T.axis.spatial(16, i_m + ax0)" in sch.script()
    verify_trace_roundtrip(sch, chain)
    same(chain, sch)


def test_cache_copies_only_what_is_written(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(windowed)
    sch.cache_read("C", 0, "shared")
    assert "B_shared = T.sblock_alloc_buffer((8,)" in sch.script()
    assert "C[vi] = B_shared[vi]" in sch.script()
    sch.cache_write("B", 0, "local")
    assert "B_local = T.sblock_alloc_buffer((8,)" in sch.script()
    verify_trace_roundtrip(sch, windowed)
    same(windowed, sch)


def test_cache_write(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(chain)
    store = sch.cache_write("B", 0, "local.acc_buffer")
    assert order(sch) == ["B", "B_local.acc_buffer", "C", "D"]
    assert sch.get(store).writes[0].buffer.name == "B"
    sch.cache_write("D", 0, "local")
    assert order(sch)[-1] == "D_local"
    verify_trace_roundtrip(sch, chain)
    same(chain, sch)


def test_cache_write_with_consumers_of_the_copy(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(chain)
    sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    assert order(sch) == ["B", "C", "B_local", "D"]
    assert "C[vi, vj] = B_local[vi, vj] + 1" in sch.script()
    verify_trace_roundtrip(sch, chain)
    same(chain, sch)


def test_caches_of_a_reduction(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(gemm)
    sch.cache_read("C", 0, "local.inp_buffer")
    sch.cache_read("C", 1, "local.wgt_buffer")
    sch.cache_write("C", 0, "local.acc_buffer")
    assert order(sch) == ["B_local.wgt_buffer", "A_local.inp_buffer", "C", "C_local.acc_buffer", "D"]
    verify_trace_roundtrip(sch, gemm)
    same(gemm, sch)


def test_reindex_caches_of_a_reduction(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(gemm)
    a = sch.reindex_cache_read("C", 0, "global", lambda I_, J, i, j, K, k: (I_, K, i, k))
    b = sch.reindex_cache_read("C", 1, "shared", lambda I_, J, i, j, K, k: (K, J, j * 16 + k))
    c = sch.reindex_cache_write("C", 0, "local", lambda I_, J, i, j, K, k: (J, I_, i, j))
    assert [sch.get(x).name for x in (a, b, c)] == ["A_global", "B_shared", "C_local"]
    assert "B_shared = T.sblock_alloc_buffer((4, 4, 256)" in sch.script()
    assert "index_map=lambda I_, J, i, j, K, k: (K, J, j * 16 + k))" in str(sch.trace)
    verify_trace_roundtrip(sch, gemm)
    same(gemm, sch)


def test_reindex_cache_keeps_predicates(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(chain)
    sch.split(sch.get_loops("C")[0], [None, 5])
    sch.reindex_cache_read("C", 0, "shared", lambda i, j: (j, i))
    assert sch.script().count("T.where(i_0 * 5 + i_1 < 16)") == 2
    verify_trace_roundtrip(sch, chain)
    same(chain, sch)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda s: s.reindex_cache_read("C", 0, "shared", lambda i, j: i), "index"),
        (lambda s: s.reindex_cache_read("C", 0, "shared", lambda i, j: i + j), "layout"),
        (lambda s: s.reindex_cache_read("C", 0, "shared", lambda i: i), "argument"),
        (lambda s: s.reindex_cache_write("B", 0, "shared", lambda i, j: (i // 2, j)), "layout"),
        (lambda s: s.cache_read("C", 1, "shared"), "argument"),
        (lambda s: s.cache_read("C", "A", "shared"), "name"),
        (lambda s: s.cache_read("D", "A", "shared", ["C"]), "argument"),
        (lambda s: s.cache_read("C", 0, "moon"), "argument"),
        (lambda s: s.cache_read("root", 0, "shared"), "argument"),
        (lambda s: s.cache_inplace("C", 0, "local"), "form"),
    ],
)
def test_refusals(call: Callable[[Schedule], None], code: str) -> None:
    sch = Schedule(chain)
    with refused(ScheduleError, code):
        call(sch)
    assert sch.func is chain


def test_several_writers_are_refused() -> None:
    sch = Schedule(two_writers)
    for call in (lambda: sch.cache_read("C", 0, "shared"), lambda: sch.cache_write("B0", 0, "shared")):
        with pytest.raises(ScheduleError, match="expected to be written by a single block, but B0, B1 write it"):
            call()


def test_a_buffer_passed_by_address_keeps_its_origin() -> None:
    sch = Schedule(by_address)
    with refused(ScheduleError, "address"):
        sch.cache_read("C", 0, "shared")


def test_cache_inplace(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(update)
    first, last = sch.cache_inplace("A", 0, "local")
    assert [sch.get(first).writes[0].buffer.name, sch.get(last).writes[0].buffer.name] == ["D_local", "D"]
    assert "D_local[vi] = D_local[vi] + 1" in sch.script()
    verify_trace_roundtrip(sch, update)
    same(update, sch)


@T.prim_func
def symbolic(A: T.Buffer(("n", 8), "int32"), B: T.Buffer(("n", 8), "int32"), n: T.int32):
    for i, j in T.grid(n, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2


def test_caches_of_symbolic_extents_stay_inside_the_buffer(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(symbolic)
    sch.split(sch.get_loops("B")[0], [None, 16])
    sch.cache_read("B", 0, "local")
    sch.cache_write("B", 0, "shared")
    sch.reindex_cache_read("B", 0, "shared", lambda i, j: (j, i))
    assert sch.script().count("for ax0, ax1 in T.grid(n, 8)") == 2
    verify_trace_roundtrip(sch, symbolic)
    a = np.arange(5 * 8, dtype="int32").reshape(5, 8)
    out = np.zeros_like(a)
    run(sch.func, a, out, 5)
    np.testing.assert_array_equal(out, a * 2)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_block_that_reads_its_own_result_may_be_copied_and_one_that_updates_may_not(fresh: bool) -> None:
    inner = "X[vi * 4 + x] = 1" if fresh else "X[vi * 4 + x] = X[vi * 4 + x] + 1"
    func = parse(f"""
@T.prim_func
def main(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32")):
    for i in range(4):
        with T.sblock("outer"):
            vi = T.axis.spatial(4, i)
            for x in range(4):
                with T.sblock("X"):
                    vx = T.axis.spatial(16, vi * 4 + x)
                    {inner.replace("vi * 4 + x", "vx")}
            for x in range(4):
                with T.sblock("Y"):
                    vy = T.axis.spatial(16, vi * 4 + x)
                    Y[vy] = X[vy] * 2
""")
    sch = Schedule(func)
    if fresh:
        sch.cache_write("outer", "X", "local")
        assert len(sch.get_child_blocks(sch.get_sblock("root"))) == 2
    else:
        with refused(ScheduleError, "writer"):
            sch.cache_write("outer", "X", "local")
