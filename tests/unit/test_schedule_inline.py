"""Blocks that go into their readers, or into what they read: what an accepted call gives, and the refusal beside it."""

from __future__ import annotations

import numpy as np
import pytest
from placed import matmul, same, two
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.interp import random_inputs, run
from autosched.ir.printer import script
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule, StaleRVError
from autosched.schedule.primitives.placement.inline import can_inline, can_reverse_inline
from autosched.script import T, parse


@T.prim_func
def fused(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    for i, j in T.grid(16, 12):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2.0 + 1.0


def test_inline_both_ways() -> None:
    for name, primitive in (("B", "compute_inline"), ("C", "reverse_compute_inline")):
        sch = Schedule(two)
        block = sch.get_block(name)
        getattr(sch, primitive)(block)
        same(sch.func, fused)
        with pytest.raises(StaleRVError, match="no longer in the program"):
            sch.get_loops(block)


def of_one(index: str, rows: int = 1) -> PrimFunc:
    """A tensor whose first dimension an iterator of one step goes over, and whose second one has one element."""
    func = parse(f"""from autosched.script import T

@T.prim_func
def main(A: T.Buffer((1, {rows}, 16), "int32"), C: T.Buffer((1, {rows}, 16), "int32")):
    B = T.sblock_alloc_buffer((1, {rows}, 16), "int32")
    for i, j in T.grid(1, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, {index}, vj] = A[vi, {index}, vj] * 2
    for i, j in T.grid(1, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, {index}, vj] = B[vi, {index}, vj] + 1
""")
    assert isinstance(func, PrimFunc)
    return func


def test_inlining_keeps_an_iterator_of_one_step_where_the_reader_has_it() -> None:
    sch = Schedule(of_one("0"))
    sch.compute_inline("B")
    assert "C[vi, 0, vj] = A[vi, 0, vj] * 2 + 1" in script(sch.func)


@pytest.mark.parametrize(("rows", "read"), [(1, "vu"), (2, "0")])
def test_of_a_dimension_of_one_element_an_iterator_of_one_step_is_the_index(rows: int, read: str) -> None:
    """Wherever the dimension is; of one that has more elements it is not: there only the first is stored."""
    func = parse(f"""from autosched.script import T

@T.prim_func
def main(A: T.Buffer((1, 16), "int32"), C: T.Buffer((16, 1), "int32")):
    B = T.sblock_alloc_buffer((16, {rows}), "int32")
    for i, j in T.grid(1, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj, 0] = A[vi, vj] * 2
    for j, u in T.grid(16, 1):
        with T.sblock("C"):
            vj, vu = T.axis.remap("SS", [j, u])
            C[vj, vu] = B[vj, vu] + 1
""")
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    sch.compute_inline("B")
    assert f"C[vj, vu] = A[{read}, vj] * 2 + 1" in script(sch.func)
    inputs = random_inputs(func, 0)
    assert all(np.array_equal(a, b) for a, b in zip(run(func, *inputs), run(sch.func, *inputs), strict=True))


def test_what_is_stored_along_a_diagonal_is_not_inlined() -> None:
    func = parse("""from autosched.script import T

@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16, 16), "int32")
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi, vi] = A[vi] * 2
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi, vi] + 1
""")
    with refused(ScheduleError, "index"):
        Schedule(func).compute_inline("B")


def test_inlining_does_not_know_that_of_a_longer_dimension() -> None:
    sch = Schedule(of_one("0", rows=2))
    sch.compute_inline("B")
    assert "C[vi, 0, vj] = A[0, 0, vj] * 2 + 1" in script(sch.func)


def test_reverse_inline_guards_what_the_producer_computes_too_much() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((15,), "int32")):
        B = T.sblock_alloc_buffer((4, 4), "int32")
        for i, j in T.grid(4, 4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi * 4 + vj] * 2
        for i in range(15):
            with T.sblock("C"):
                v = T.axis.spatial(15, i)
                C[v] = B[v // 4, v % 4] + 1

    sch = Schedule(before)
    sch.reverse_compute_inline("C")
    assert "T.where(i * 4 + j < 15)" in script(sch.func)
    assert [b.name for b in sch.state.children_of(sch.state.root)] == ["B"]
    data = np.arange(16, dtype=np.int32)
    assert np.array_equal(run(sch.func, data)["C"], data[:15] * 2 + 1)


def test_reverse_inline_into_a_copy_with_loops_of_its_own() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in range(4):
            for j in range(4):
                with T.sblock("C"):
                    v = T.axis.spatial(16, i * 4 + j)
                    C[v] = A[v] + v

    sch = Schedule(before)
    sch.read_at(sch.get_loops("C")[0], "C", 0, "shared")
    sch.reverse_compute_inline("C")
    text = script(sch.func)
    assert "T.where" not in text
    assert parse(text) == sch.func
    data = np.arange(16, dtype=np.int32) * 7
    assert np.array_equal(run(sch.func, data)["C"], data + np.arange(16))


def test_reverse_inline_needs_no_condition_inside_the_producer() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((14,), "int32")):
        B = T.sblock_alloc_buffer((16,), "int32")
        for i in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(4, i)
                for j in range(4):
                    B[v * 4 + j] = A[v * 4 + j] * 2
        for i in range(14):
            with T.sblock("C"):
                v = T.axis.spatial(14, i)
                C[v] = B[v] + 1

    sch = Schedule(before)
    with refused(ScheduleError, "domain"):
        sch.reverse_compute_inline("C")
    assert sch.func == before


@pytest.mark.parametrize(("block", "primitive", "code"), [
    ("C", "compute_inline", "reduction"),
    ("D", "compute_inline", "output"),
    ("D", "reverse_compute_inline", "form"),
    ("C", "reverse_compute_inline", "reduction"),
])
def test_inline_refusals(block: str, primitive: str, code: str) -> None:
    sch = Schedule(matmul)
    with refused(ScheduleError, code):
        getattr(sch, primitive)(block)
    same(sch.func, matmul)


def test_inline_refuses_other_uses_of_the_buffer() -> None:
    @T.prim_func
    def opaque(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        with T.sblock("C"):
            T.reads(B[0:8])
            T.writes(C[0:8])
            T.evaluate(T.call_extern("int32", "f", C.data, B.data))

    @T.prim_func
    def strided(A: T.Buffer((8,), "int32"), C: T.Buffer((4,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(4):
            with T.sblock("C"):
                v = T.axis.spatial(4, i)
                C[v] = B[v] + B[v + 4]

    with pytest.raises(ScheduleError, match=r"used by its address \(B.data\)"):
        Schedule(opaque).compute_inline("B")
    with refused(ScheduleError, "reader"):
        Schedule(strided).reverse_compute_inline("C")
    sch = Schedule(strided)
    state = sch.state
    assert can_inline(state, next(r for r in state.realizes.values() if r.block.name == "B"))
    assert not can_reverse_inline(state, next(r for r in state.realizes.values() if r.block.name == "C"))
