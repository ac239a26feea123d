"""Kinds of loops, and what they demand of the blocks below."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import small_programs
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.schedule import Schedule
from autosched.script import T, parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


matmul = small_programs.matmul(16, 16, 16, "float32")


@T.prim_func
def prefix(A: T.Buffer((16,), "int32")):
    for i in range(15):
        with T.sblock("A"):
            vi = T.axis.spatial(15, i)
            A[vi + 1] = A[vi] + 1


def test_kinds(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.parallel(i0)
    sch.bind(i1, "vthread")
    sch.vectorize(j)
    sch.unroll(k)
    assert [sch.get(x).kind for x in sch.get_loops("C")] == ["parallel", "thread_binding", "vectorized", "unrolled"]
    assert sch.get(i1).thread == "vthread"
    verify_trace_roundtrip(sch, matmul)
    sch.unroll(i1)
    assert sch.get(i1).thread is None


@pytest.mark.parametrize("apply", [Schedule.parallel, Schedule.vectorize, lambda s, x: s.bind(x, "cthread")])
def test_reduction_loops_are_refused(apply: Callable[..., None]) -> None:
    sch = Schedule(matmul)
    with refused(ScheduleError, "loop"):
        apply(sch, sch.get_loops("C")[2])


def test_thread_index_may_run_a_reduction() -> None:
    sch = Schedule(matmul)
    sch.bind(sch.get_loops("C")[2], "threadIdx.x")
    assert sch.get(sch.get_loops("C")[2]).thread == "threadIdx.x"


BOTH = """
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8, 4), "int32")
    for i, j in T.grid(8, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for j, k in T.grid(4, 8):
        with T.sblock("down"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = -1000
            C[vj] = T.max(C[vj], B[vk, vj])
    for i, k in T.grid(8, 4):
        with T.sblock("across"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = 0
            D[vi] = D[vi] + B[vi, vk]
"""


@pytest.mark.parametrize(("apply", "allowed"), [
    (Schedule.parallel, False), (Schedule.vectorize, False), (lambda s, x: s.bind(x, "vthread"), False),
    (lambda s, x: s.bind(x, "threadIdx.x"), True), (Schedule.unroll, True), (lambda s, x: None, True),
])
def test_a_reduction_is_not_moved_where_its_loop_could_not_be(
    apply: Callable[..., None], allowed: bool, same: Callable[..., None], verify_trace_roundtrip: Verify,
) -> None:
    func = parse(BOTH)
    for first in (True, False):
        sch = Schedule(func)
        loop = sch.get_loops("B")[0]
        steps = [lambda s=sch, x=loop: apply(s, x), lambda s=sch, x=loop: s.reverse_compute_at("down", x)]
        steps[not first]()
        if not allowed:
            with refused(ScheduleError, "loop"):
                steps[first]()
            continue
        steps[first]()
        same(func, sch)
        verify_trace_roundtrip(sch, func)
    sch = Schedule(func)
    apply(sch, sch.get_loops("B")[0])
    sch.reverse_compute_at("across", sch.get_loops("B")[0])  # one sum in each iteration
    same(func, sch)


def test_a_predicate_leaves_iterations_independent() -> None:
    sch = Schedule(matmul)
    ko, _ = sch.split(sch.get_loops("C")[2], [None, 5])
    partial = sch.rfactor(ko, 0)
    inner = sch.get_loops(partial)
    assert "T.where" in sch.script()
    sch.parallel(inner[2])
    with refused(ScheduleError, "loop"):
        sch.parallel(inner[3])


def test_a_block_that_reads_what_it_writes_is_refused() -> None:
    sch = Schedule(prefix)
    with pytest.raises(ScheduleError, match=r"iterations of loop i are not independent.*reads A, which it writes"):
        sch.parallel(sch.get_loops("A")[0])
    sch.unroll(sch.get_loops("A")[0])


def test_unknown_thread_axis() -> None:
    sch = Schedule(matmul)
    with pytest.raises(ScheduleError, match="unknown thread axis 'vthreads'; did you mean 'vthread'"):
        sch.bind(sch.get_loops("C")[0], "vthreads")
