"""Moves, inlining and orders under predicates, layouts and quotients: what is accepted, and the refusal beside it."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import T, parse


def same_result(sch: Schedule, func: PrimFunc) -> None:
    inputs = random_inputs(func, 0)
    results = []
    for program in (func, sch.func):
        outputs = [np.full([int_value(e) or 1 for e in b.shape], 77, b.dtype) for b in func.buffers[len(inputs):]]
        run(program, *inputs, *outputs)
        results.append(outputs)
    for want, got in zip(*results):
        np.testing.assert_array_equal(want, got)


def extents(sch: Schedule, block: str) -> list[int | None]:
    return [int_value(sch.get(loop).extent) for loop in sch.get_loops(block)]


# -- what one iteration needs -----------------------------------------------------------------------------------------


@T.prim_func
def columns(A: T.Buffer((2, 10), "int32"), C: T.Buffer((10,), "int32")):
    B = T.sblock_alloc_buffer((20,), "int32")
    for i, j in T.grid(2, 10):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 10 + vj] = A[vi, vj] + 1
    for j, i in T.grid(10, 2):
        with T.sblock("C"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                C[vj] = 0
            C[vj] += B[vi * 10 + vj]


@T.prim_func
def windows(A: T.Buffer((2, 10), "int32"), C: T.Buffer((10,), "int32")):
    B = T.sblock_alloc_buffer((20,), "int32")
    for i, j in T.grid(2, 10):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 10 + vj] = A[vi, vj] + 1
    for j, i in T.grid(10, 11):
        with T.sblock("C"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                C[vj] = 0
            C[vj] += B[vj + vi]


def test_a_column_of_a_row_major_layout_is_one_column() -> None:
    sch = Schedule(columns)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert extents(sch, "B") == [10, 2]
    same_result(sch, columns)


def test_a_window_of_a_row_major_layout_meets_all_columns() -> None:
    # Its first and its last element stand in the same column: the ends of an interval do not tell its columns.
    sch = Schedule(windows)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert extents(sch, "B") == [10, 2, 10]
    same_result(sch, windows)


def test_reverse_compute_at_follows_elements_of_a_flat_layout() -> None:
    sch = Schedule(columns)
    outer = sch.split(sch.get_loops("B")[1], [5, 2])[0]
    sch.reorder(outer, sch.get_loops("B")[0])
    sch.reverse_compute_at("C", outer)
    assert extents(sch, "C") == [5, 2, 2]
    same_result(sch, columns)


@T.prim_func
def rows(A: T.Buffer((6, 5), "int32"), C: T.Buffer((30,), "int32")):
    B = T.sblock_alloc_buffer((6, 5), "int32")
    for i, j in T.grid(6, 5):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for i in range(30):
        with T.sblock("C"):
            v = T.axis.spatial(30, i)
            C[v] = B[v // 5, v % 5]


@pytest.mark.parametrize(("tile", "most"), [(8, 3), (6, 2), (5, 1), (2, 2)])
def test_a_tile_across_rows_needs_no_more_rows_than_it_can_meet(tile: int, most: int) -> None:
    sch = Schedule(rows)
    outer = sch.split(sch.get_loops("C")[0], [None, tile])[0]
    sch.compute_at("B", outer, preserve_unit_loops=True)
    assert extents(sch, "B")[1] == most
    same_result(sch, rows)


# -- blocks without producers -----------------------------------------------------------------------------------------


@T.prim_func
def two(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((6,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * 2
    for k in range(6):
        with T.sblock("D"):
            v = T.axis.spatial(6, k)
            D[v] = A[v] * 3


def test_a_block_without_producers_runs_whole_wherever_its_consumers_allow() -> None:
    sch = Schedule(two)
    sch.reverse_compute_at("D", sch.get_loops("C")[0])
    assert extents(sch, "D") == [8, 6]
    same_result(sch, two)
    sch = Schedule(two)
    with refused(ScheduleError, "order"):
        sch.reverse_compute_at("B", sch.get_loops("D")[0])


@T.prim_func
def repeated(A: T.Buffer((4, 6), "int32"), C: T.Buffer((1,), "int32")):
    B = T.sblock_alloc_buffer((4, 6), "int32")
    for r, i in T.grid(4, 6):
        with T.sblock("B"):
            vr, vi = T.axis.remap("SS", [r, i])
            B[vr, vi] = A[vr, vi] + 1
    for k in range(6):
        with T.sblock("C"):
            vk = T.axis.reduce(6, k)
            with T.init():
                C[0] = 0
            C[0] += B[0, vk]


def test_a_reduction_may_be_repeated_whole_and_not_in_parts() -> None:
    sch = Schedule(repeated)
    sch.reverse_compute_at("C", sch.get_loops("B")[1])
    assert extents(sch, "C") == [4, 6]
    same_result(sch, repeated)
    sch = Schedule(repeated)
    r, i = sch.get_loops("B")
    sch.reorder(i, r)
    with refused(ScheduleError, "reduction"):
        sch.reverse_compute_at("C", r)


# -- predicates -------------------------------------------------------------------------------------------------------


@T.prim_func
def copied(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i, j in T.grid(3, 3):
        with T.sblock("C"):
            v = T.axis.spatial(8, i * 3 + j)
            T.where(i * 3 + j < 8)
            C[v] = B[v] * 2


@T.prim_func
def partly(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i, j in T.grid(3, 3):
        with T.sblock("C"):
            v = T.axis.spatial(8, i * 3 + j)
            T.where(i * 3 + j < 7)
            C[v] = B[v] * 2


def test_reverse_inline_under_a_predicate_that_leaves_nothing_out() -> None:
    sch = Schedule(copied)
    sch.reverse_compute_inline("C")
    assert extents(sch, "B") == [8]
    same_result(sch, copied)
    with refused(ScheduleError, "domain"):
        Schedule(partly).reverse_compute_inline("C")


def test_reverse_inline_into_the_parts_of_a_loop_is_refused() -> None:
    sch = Schedule(copied)
    sch.loop_partition(sch.get_loops("B")[0], [3, None])
    with refused(ScheduleError, "writer"):
        sch.reverse_compute_inline("C")


@T.prim_func
def read_twice(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 3
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + 1
    for i in range(8):
        with T.sblock("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[v] + 2


@pytest.mark.parametrize("reader", ["C", "D"])
def test_reverse_inline_of_what_the_parts_of_a_loop_read_is_refused(reader: str) -> None:
    """The blocks that ``loop_partition`` makes declare nothing; what they read is lost nevertheless."""
    sch = Schedule(read_twice)
    sch.loop_partition(sch.get_loops("D" if reader == "C" else "C")[0], [3, None])
    with refused(ScheduleError, "reader"):
        sch.reverse_compute_inline(reader)


@T.prim_func
def bound_by(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    at = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("at"):
            v = T.axis.spatial(8, i)
            at[v] = 7 - v
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, at[i])
            T.where(at[i] < 6)
            C[v] = A[v] + 1


def test_what_an_iterator_is_bound_by_is_read() -> None:
    """Inlined it stands in the binding and in the condition; no block that makes it goes anywhere else."""
    sch = Schedule(bound_by)
    assert [d.buffer.name for d in sch.state.dependences(sch.func.body.block)] == ["at"]
    sch.compute_inline("at")
    assert "at[" not in sch.func.script() and "7 - i < 6" in sch.func.script()
    assert parse(sch.func.script()) == sch.func
    same_result(sch, bound_by)


@T.prim_func
def cornered(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 8 + j < 5)
            B[vi, vj] = A[vi, vj]


@T.prim_func
def overlapping(A: T.Buffer((15,), "int32"), B: T.Buffer((15,), "int32")):
    for i, j in T.grid(8, 8):
        with T.sblock("B"):
            v = T.axis.spatial(15, i + j)
            T.where(i * 8 + j < 11)
            B[v] = A[v]


def test_reorder_under_a_predicate_over_several_loops_is_refused() -> None:
    sch = Schedule(cornered)
    i, j = sch.get_loops("B")
    with pytest.raises(ScheduleError, match=r"an affine binding .*; its predicate ties several of them"):
        sch.reorder(j, i)
    sch = Schedule(overlapping)
    i, j = sch.get_loops("B")
    with pytest.raises(ScheduleError, match=r"an affine binding of its iterators to the loops\n"):
        sch.reorder(j, i)


# -- merge --------------------------------------------------------------------------------------------------------------


@T.prim_func
def batches(A: T.Buffer((1, 6), "int32"), C: T.Buffer((1, 6), "int32")):
    B = T.sblock_alloc_buffer((1, 6), "int32")
    for n, i in T.grid(1, 6):
        with T.sblock("B"):
            vn, vi = T.axis.remap("SS", [n, i])
            B[0, vi] = A[vn, vi] + 1
    for n, i in T.grid(1, 6):
        with T.sblock("C"):
            vn, vi = T.axis.remap("SS", [n, i])
            C[vn, vi] = B[0, 5 - vi]


def test_merge_of_loops_that_run_once_has_no_later_iteration() -> None:
    sch = Schedule(batches)
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    same_result(sch, batches)
    sch = Schedule(batches)
    with refused(ScheduleError, "order"):
        sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])


ONCE = """
@T.prim_func
def main(A: T.Buffer((5, 5), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((5,), "int32")
    for u, a, b in T.grid(1, 8, 5):
        with T.sblock("B"):
            v = T.axis.spatial(5, (a * 5 + b) % 5)
            r = T.axis.reduce(5, (a * 5 + b) // 5)
            T.where((u * 8 + a) * 5 + b < 25)
            with T.init():
                B[v] = 0
            B[v] = B[v] + A[v, r]
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + B[v + 1]
"""


def test_a_loop_that_runs_once_binds_nothing_in_a_predicate() -> None:
    func, less = parse(ONCE), parse(ONCE.replace("< 25", "< 23"))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    data = np.arange(25, dtype=np.int32).reshape(5, 5)
    sums = data.sum(1)
    assert np.array_equal(run(sch.func, data)["C"], sums[:4] + sums[1:])
    sch = Schedule(less)
    with refused(ScheduleError, "form"):
        sch.compute_at("B", sch.get_loops("C")[0])


GUARDED = '''
@T.prim_func
def main(A: T.Buffer((4,), "int32"), X: T.Buffer((8,), "int32"), C: T.Buffer(({n},), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range({m}):
        with T.sblock("B"):
            vi = T.axis.spatial({m}, i)
            B[vi] = {first}
    for i in range({n}):
        with T.sblock("C"):
            vi = T.axis.spatial({n}, i)
            C[vi] = {then}
'''
PADDED = "T.if_then_else(vi < 4, A[vi], 7)"


@pytest.mark.parametrize(("then", "left"), [
    ("B[5] + vi", "C[vi] = 7 + vi"), ("B[3] + vi", "C[vi] = A[3] + vi"), ("B[vi]", "T.if_then_else(vi < 4, A[vi], 7)"),
    ("B[5] * B[vi] + B[0]", "7 * T.if_then_else(vi < 4, A[vi], 7) + A[0]"),
])
def test_inlined_choices_that_are_none_any_more(then: str, left: str, same) -> None:
    """The branch that is not taken would be an index out of bounds."""
    func = parse(GUARDED.format(n=8, m=8, first=PADDED, then=then))
    sch = Schedule(func)
    sch.compute_inline("B")
    assert left in sch.script()
    same(func, sch)


@pytest.mark.parametrize("first", ["X[vi]", "T.if_then_else(vi < 2, X[vi], 7)"])
def test_choices_by_an_iterator_that_the_producer_has_not(first: str, same) -> None:
    func = parse(GUARDED.format(n=1, m=1, first=first, then="T.if_then_else(vi >= 1, A[vi - 1], 5) + B[0]"))
    sch = Schedule(func)
    sch.reverse_compute_inline("C")
    assert "A[" not in sch.script()
    same(func, sch)


def padded_later(parts: bool) -> tuple[PrimFunc, Schedule]:
    """A frame of zeros, of which a part is stored anew by rows, as a whole or in parts that declare nothing."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    for i, j in T.grid(6, 8):
        with T.sblock("zeros"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = 0
    for i, j in T.grid(4, 8):
        with T.sblock("inside"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi + 1, vj] = A[vi, vj]
""")
    sch = Schedule(func)
    if parts:
        sch.loop_partition(sch.get_loops("inside")[1], [4, None])
    return func, sch


@pytest.mark.parametrize("parts", [True, False])
def test_who_else_writes_may_declare_nothing(parts: bool) -> None:
    func, sch = padded_later(parts)
    row = sch.get_loops("inside_j_common" if parts else "inside")[0]
    with refused(ScheduleError, "form"):
        sch.reverse_compute_at("zeros", row)
    same_result(sch, func)


@pytest.mark.parametrize("read", [False, True])
def test_a_part_of_a_tensor_is_not_inlined(read: bool) -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(4):
        with T.sblock("first"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.sblock("second"):
            vi = T.axis.spatial(4, i)
            B[vi + 4] = A[vi] + 1
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {}[vi]
"""
    sch = Schedule(parse(text.format("B" if read else "A")))
    with refused(ScheduleError, "form" if read else "writer"):
        sch.compute_inline("second")


@pytest.mark.parametrize(("extent", "shape", "index", "fits"), [
    (8, (4, 1), "v // 2, 0", False), (9, (5, 1), "v // 2, 0", False), (8, (4, 1), "v % 4, 0", False),
    (8, (4, 2), "v // 2, v % 2", True), (9, (5, 3), "v // 2, v % 2", True), (8, (4, 4), "v % 4, v // 4", True),
    (4, (4, 6), "v, 2", True), (4, (6, 6), "v + 1, 2", True), (1, (3, 9), "v, v + 7", True), (4, (4, 4), "v, v", False),
])
def test_an_element_that_several_or_no_iterations_read(extent: int, shape: tuple[int, int], index: str, fits: bool) -> None:
    """What several read is stored by none of them alone; what nobody reads is not stored."""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer({shape}, "int32"), C: T.Buffer(({extent},), "int32")):
    B = T.sblock_alloc_buffer({shape}, "int32")
    for i, j in T.grid{shape}:
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 3
    for k in range({extent}):
        with T.sblock("C"):
            v = T.axis.spatial({extent}, k)
            C[v] = B[{index}] + 1
""")
    sch = Schedule(func)
    if fits:
        sch.reverse_compute_inline("C")
    else:
        with refused(ScheduleError, "index"):
            sch.reverse_compute_inline("C")
    same_result(sch, func)
