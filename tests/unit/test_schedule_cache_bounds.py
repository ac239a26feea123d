"""Copies and what they may touch: the edges of buffers, elements that nothing stores, loops shared with other blocks."""

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


def program(text: str) -> PrimFunc:
    func = parse("@T.prim_func\ndef main(" + text)
    assert isinstance(func, PrimFunc)
    return func


@T.prim_func
def padded(A: T.Buffer((8, 7), "int8"), B: T.Buffer((9, 7), "int32")):
    for i, j in T.grid(9, 7):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vi >= 1, T.Cast("int32", A[vi - 1, vj]), 0)


@pytest.mark.parametrize(
    ("loop", "shown"),
    [(0, "A_local = T.sblock_alloc_buffer((8, 7)"), (1, "T.if_then_else(vi_o - 1 + v0 >= 0, A[vi_o - 1 + v0, v1], T.int8(0))")],
)
def test_copies_into_a_scope_read_nothing_outside_the_buffer(
    loop: int, shown: str, verify_trace_roundtrip: Verify, same: Same
) -> None:
    sch = Schedule(padded)
    sch.blockize(sch.get_loops("B")[loop])
    sch.cache_read("B", 0, "local")
    assert shown in sch.script()
    same(padded, sch)
    verify_trace_roundtrip(sch, padded)


@T.prim_func
def scaled(A: T.Buffer((7,), "int32"), B: T.Buffer((7,), "int32")):
    for i in range(7):
        with T.sblock("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] * 2


def test_copies_out_of_a_scope_store_nothing_outside_the_buffer(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(scaled)
    sch.split(sch.get_loops("B")[0], [None, 8])
    sch.loop_partition(sch.get_loops("B")[1], [4, None])
    sch.cache_write("B_i_11", 0, "local")
    assert "T.where(ax0 < 3)" in sch.script()
    same(scaled, sch, sound=False)
    verify_trace_roundtrip(sch, scaled)


HALVES = """A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    with T.sblock("first"):
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[{first}] = A[v]
    with T.sblock("second"):
        for i in range(8):
            with T.sblock("C"):
                v = T.axis.spatial(8, i)
                B[{second}] = A[v + 8]
"""


@pytest.mark.parametrize("whole", [True, False])
def test_a_copy_does_not_store_what_its_block_leaves_out(whole: bool, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = program(HALVES.format(first="v", second="v + 8") if whole else HALVES.format(first="v * 2", second="v * 2 + 1"))
    sch = Schedule(func)
    if whole:
        sch.cache_write("C", 0, "local")
        sch.cache_write("B", 0, "local")
        same(func, sch)
        verify_trace_roundtrip(sch, func)
        return
    with refused(ScheduleError, "domain"):
        sch.cache_write("C", 0, "local")
    assert sch.func is func
    # Copying single elements is no harm.
    sch.reindex_cache_write("C", 0, "local", lambda v: v)
    same(func, sch)


@pytest.mark.parametrize("step", [1, 2])
def test_a_block_may_declare_what_its_instances_store_together(step: int, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = program(f"""A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    with T.sblock("part"):
        T.reads()
        T.writes()
        for i in range(4, 8):
            with T.sblock("B"):
                v = T.axis.spatial((4, 8), i)
                T.reads(A[4:8])
                T.writes(B[4:{4 * step + 4}])
                B[v * {step}] = A[v]
""")
    sch = Schedule(func)
    if step == 1:
        sch.cache_write("B", 0, "local")
        same(func, sch)
        verify_trace_roundtrip(sch, func)
    else:
        with refused(ScheduleError, "domain"):
            sch.cache_write("B", 0, "local")


STRIDES = """A: T.Buffer((16,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v * 2] = A[v]
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v * 2]
"""


def test_holes_in_a_buffer_of_the_scope_are_holes_in_the_copy(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = program(STRIDES)
    sch = Schedule(func)
    sch.cache_write("B", 0, "local")
    same(func, sch)
    verify_trace_roundtrip(sch, func)


NESTED = """A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(4):
        with T.sblock("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            for j in range({count}):
                with T.sblock("inner"):
                    vj = T.axis.spatial({count}, j)
                    B[vi * 4 + vj * {step}] = A[vi * 4 + vj]
"""


@pytest.mark.parametrize(("count", "step"), [(4, 1), (2, 2), (2, 1)])
def test_what_a_block_declares_its_inner_blocks_must_store(count: int, step: int, same: Same) -> None:
    func = program(NESTED.format(count=count, step=step))
    sch = Schedule(func)
    if count == 4:
        sch.cache_write("outer", 0, "local")
        same(func, sch)
    else:
        with refused(ScheduleError, "domain"):
            sch.cache_write("outer", 0, "local")


def test_a_copy_in_place_brings_along_what_the_block_leaves_out() -> None:
    text = """D: T.Buffer((16,), "int32")):
    for i in range(4):
        with T.sblock("D"):
            v = T.axis.spatial(4, i)
            T.reads({reads})
            T.writes(D[v * 4:v * 4 + 4])
            D[v * 4] = D[v * 4] + 1
            D[v * 4 + 2] = D[v * 4] + 2
"""
    func = program(text.format(reads="D[v * 4:v * 4 + 4]"))
    sch = Schedule(func)
    sch.cache_inplace("D", 0, "local")
    want, got = np.arange(16, dtype="int32"), np.arange(16, dtype="int32")
    run(func, want)
    run(sch.func, got)
    np.testing.assert_array_equal(want, got)
    with refused(ScheduleError, "domain"):
        Schedule(program(text.format(reads="D[v * 4]"))).cache_inplace("D", 0, "local")


# -- maps and shared loops --------------------------------------------------------------------------------------------


@T.prim_func
def plain(A: T.Buffer((8, 2), "int32"), B: T.Buffer((8, 2), "int32")):
    for i, j in T.grid(8, 2):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1


def test_maps_of_copies_may_leave_gaps_but_not_overlap(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(plain)
    sch.reindex_cache_read("B", 0, "local", lambda i, j: i * 4 + j)
    sch.reindex_cache_write("B", 0, "shared", lambda i, j: j * 10 + i)
    assert "A_local = T.sblock_alloc_buffer((30,)" in sch.script()
    same(plain, sch)
    verify_trace_roundtrip(sch, plain)
    with refused(ScheduleError, "layout"):
        Schedule(plain).reindex_cache_read("B", 0, "local", lambda i, j: j * 7 + i)


@pytest.mark.parametrize("reads", [True, False])
def test_predicates_over_loops_of_one_iteration_go_along(reads: bool, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(plain)
    sch.split(sch.get_loops("B")[0], [1, None, 3])
    sch.split(sch.get_loops("B")[1], [2, None])
    sch.reorder(*sch.get_loops("B")[1:3])
    call = sch.reindex_cache_read if reads else sch.reindex_cache_write
    call("B", 0, "local", lambda i, j: (j, i))
    assert sch.script().count("T.where(") == 2
    same(plain, sch)
    verify_trace_roundtrip(sch, plain)


def test_predicates_that_tie_other_loops_are_refused() -> None:
    func = program("""A: T.Buffer((8,), "int32"), B: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i + j < 8)
            B[vi, vj] = A[vi]
""")
    with refused(ScheduleError, "domain"):
        Schedule(func).reindex_cache_read("B", 0, "local", lambda i, j: i)


@T.prim_func
def shared_loops(A: T.Buffer((6, 4), "int32"), C: T.Buffer((6, 4), "int32"), D: T.Buffer((6, 4), "int32")):
    B = T.sblock_alloc_buffer((6, 4), "int32")
    for i, j in T.grid(6, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + A[vi, vj]
    for i, j in T.grid(6, 4):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] - 1


@pytest.mark.parametrize(("block", "buffer"), [("B", "A"), ("C", "A"), ("C", "C")])
def test_reindex_beside_blocks_that_do_not_need_the_buffer(
    block: str, buffer: str, verify_trace_roundtrip: Verify, same: Same
) -> None:
    sch = Schedule(shared_loops)
    stage = sch.reindex(block, buffer)
    assert sch.get(stage).name.startswith(f"{buffer}_reindex")
    same(shared_loops, sch)
    verify_trace_roundtrip(sch, shared_loops)


@pytest.mark.parametrize(
    ("block", "reason"),
    [("B", "block B shares its loops with block C, which reads B"), ("C", "block C shares its loops with block B, which writes")],
)
def test_reindex_beside_blocks_that_need_the_buffer(block: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        Schedule(shared_loops).reindex(block, "B")


@T.prim_func
def cube(A: T.Buffer((8, 2, 4), "int32"), B: T.Buffer((8, 2, 4), "int32")):
    for j, i, k in T.grid(2, 8, 4):
        with T.sblock("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + 1


def test_reindex_of_results_under_fused_and_cut_loops(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(cube)
    sch.fuse(*sch.get_loops("B")[1:])
    sch.split(sch.get_loops("B")[1], [3, 4, None])
    sch.reindex("B", ("write", 0))
    same(cube, sch)
    verify_trace_roundtrip(sch, cube)


def test_copies_around_a_block_under_a_predicate_stay_inside(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = program("""A: T.Buffer((5, 4), "int32"), C: T.Buffer((5,), "int32")):
    for i, k in T.grid(5, 4):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    i, _ = sch.get_loops("C")
    sch.decompose_reduction("C", i)
    sch.split(sch.get_loops("C_update")[0], [2, None])
    first, last = sch.cache_inplace("C_update", "C", "local")
    for copy in (first, last):
        assert str(sch.state.realizes[sch.get(copy).ident].predicate) != "True"
    assert sch.script().count("T.where(i_0 * 3 + i_1") == 3
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_copies_of_iterators_that_start_late(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = program("""A: T.Buffer((4, 2), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v // 2, v % 2] + v
""")
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("C")[0], [2, None])
    with refused(ScheduleError, "index"):
        sch.reindex_cache_write("C_i1", 0, "local", lambda v: (v,))
    sch.reindex_cache_read("C_i1", 0, "local", lambda v: (v,))
    assert 'A_local = T.sblock_alloc_buffer((8,), "int32", scope="local")' in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_a_consumer_inside_another_block_is_named_by_that_block(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = program("""A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + 1
""")
    sch = Schedule(func)
    sch.blockize(sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match=r"consumer block C is inside C_o, which uses the copy as a whole"):
        sch.cache_read("C_o", 0, "local", consumer_blocks=["C"])
    sch.cache_read("C_o", 0, "local", consumer_blocks=["C_o"])
    assert "C[v_i] = A_local[v_i] + 1" in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def some_rows(iters: str, cond: str, element: str) -> PrimFunc:
    return program(f'''A: T.Buffer((8,), "int32"), B: T.Buffer((2, 4), "int32")):
    for i, j in T.grid(2, 4):
        with T.sblock("B"):
            {iters}
            T.where({cond})
            B[{element}] = A[0] + 1
''')


PLAIN = "vi, vj = T.axis.remap('SS', [i, j])"
ROWS = "v = T.axis.spatial(8, {first} + i * 4 + j)"


@pytest.mark.parametrize(
    ("iters", "cond", "element", "stores"),
    [
        (ROWS.format(first=0), "0 <= i", "v // 4, v % 4", True),
        (ROWS.format(first=1), "i < 1", "v // 4, v % 4", False),  # four elements in a row and a bit, of two rows
        (ROWS.format(first=0), "i * 4 + j < 6", "v // 4, v % 4", False),
        (PLAIN, "i < 2 and j < 4", "vi, vj", True),
        (PLAIN, "j < 1 and j >= 1", "vi, vj", False),
        ("vi, vj = T.axis.remap('SS', [i, j])\n            vk = T.axis.spatial(8, i * 4 + j)", "i * 4 + j < 8", "vi, vj", True),
    ],
)
def test_a_copy_is_stored_where_its_writer_stores_all(iters: str, cond: str, element: str, stores: bool, same: Same) -> None:
    func = some_rows(iters, cond, element)
    sch = Schedule(func)
    if stores:
        sch.cache_write("B", 0, "local")
        same(func, sch)
    else:
        with refused(ScheduleError, "domain"):
            sch.cache_write("B", 0, "local")


@pytest.mark.parametrize(("cond", "stores"), [("i < 2", True), ("i < 1", False), ("j < 4", True), ("j < 3", True)])
def test_a_tile_is_stored_where_its_writer_runs(cond: str, stores: bool, same: Same) -> None:
    """A condition on the loop at which the copy stands is one on all that it would store there."""
    func = some_rows(PLAIN, cond, "vi, vj")
    sch = Schedule(func)
    if stores:
        sch.write_at(sch.get_loops("B")[0], "B", 0, "local")
        same(func, sch)
    else:
        with refused(ScheduleError, "domain"):
            sch.write_at(sch.get_loops("B")[0], "B", 0, "local")


def test_a_tile_is_stored_again_where_an_earlier_iteration_has_stored_it(same: Same) -> None:
    func = program('''A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for r, i in T.grid(3, 4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            vr = T.axis.reduce(3, r)
            T.where(r < 2)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi] * vr
''')
    sch = Schedule(func)
    sch.write_at(sch.get_loops("B")[1], "B", 0, "local")
    same(func, sch)
    late = program('''A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for r, i in T.grid(3, 4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            vr = T.axis.spatial(3, r)
            T.where(r >= 1)
            B[vi] = A[vi] * vr
''')
    sch = Schedule(late)
    with refused(ScheduleError, "domain"):
        sch.write_at(sch.get_loops("B")[1], "B", 0, "local")


def test_a_copy_in_a_scope_whose_instances_use_as_much_each(same: Same) -> None:
    """What is read from both ends at once is more in some instances than in others."""
    text = '''A: T.Buffer((12,), "int32"), out: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.sblock("o"):
            vi = T.axis.spatial(6, i)
            out[vi] = A[vi] + A[{other}]
'''
    func = program(text.format(other="5 - vi"))
    for factor in (2, 1):
        sch = Schedule(func)
        sch.blockize(sch.split("i", [None, factor])[1])
        with pytest.raises(ScheduleError, match="dimension 0 of A block o_o uses is another in each of its instances"):
            sch.cache_read("o", 0, "local")
        same(func, sch)
    sch = Schedule(func)
    sch.cache_read("o", 0, "local")
    sch.blockize(sch.split(sch.get_loops("o")[0], [None, 2])[1])
    same(func, sch)
    alike = program(text.format(other="vi + 6"))
    sch = Schedule(alike)
    sch.blockize(sch.split("i", [None, 2])[1])
    sch.cache_read("o", 0, "local")
    same(alike, sch)


def test_a_consumer_of_a_written_copy_reads_what_the_copy_has(same: Same) -> None:
    """Another block writes the rest of what it reads, and stores that to the buffer."""
    text = '''A: T.Buffer((3, 4), "int32"), B: T.Buffer((3, 5), "int32"), out: T.Buffer((3, {extent}), "int32")):
    c = T.sblock_alloc_buffer((3, 9), "int32")
    for i, j in T.grid(3, 4):
        with T.sblock("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = A[vi, vj]
    for i, j in T.grid(3, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj + 4] = B[vi, vj]
    for i, j in T.grid(3, {extent}):
        with T.sblock("o"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = c[vi, vj + {begin}] + 1
'''
    for extent, fine in ((5, True), (6, False), (9, False)):
        func = program(text.format(extent=extent, begin=9 - extent))
        sch = Schedule(func)
        sch.blockize([sch.get_sblock("b"), sch.get_sblock("o")])
        if fine:
            sch.cache_write("b", 0, "global", consumer_blocks=["o"])
            assert "c_global[vi" in sch.script()
        else:
            with pytest.raises(ScheduleError, match="o reads more of c than b has written by then"):
                sch.cache_write("b", 0, "global", consumer_blocks=["o"])
            sch.cache_write("b", 0, "global")
        same(func, sch)


def test_parts_of_a_loop_declare_what_they_read(same: Same, verify_trace_roundtrip: Verify) -> None:
    """A buffer that is read at two places is read at both by every part."""
    func = program('''A: T.Buffer((4, 6), "int32"), out: T.Buffer((4, 6), "int32")):
    B = T.sblock_alloc_buffer((4, 6), "int32")
    for i, j in T.grid(4, 6):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 3
    for i, j in T.grid(4, 6):
        with T.sblock("o"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = B[vi, vj] * B[vi, 5 - vj]
''')
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("o")[1], [3, None])
    sch.cache_read("o_j0", 0, "global")
    same(func, sch)
    sch.compute_at("B_global", sch.get_loops("o_j0")[0])
    same(func, sch)
    verify_trace_roundtrip(sch, func)
    once = program(func.script().split("def main(")[1].replace("B[vi, 5 - vj]", "B[vi, vj]"))
    sch = Schedule(once)
    sch.loop_partition(sch.get_loops("o")[1], [3, None])
    assert "T.reads(B[0:4, 0:3])" in sch.script(), "of one place the whole part's"
    same(once, sch)


PLACES = '''A: T.Buffer((8,), "int32"), J: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    I = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("I"):
            vi = T.axis.spatial(8, i)
            I[vi] = T.min(T.max(J[vi], 0), 7)
    for i, j in T.grid({outer}, 8):
        with T.sblock("C"):
            vi = T.axis.spatial({outer}, i)
            vj = T.axis.spatial(8, {bound})
            {store}
'''
GATHERED = "C[vj] = A[T.min(T.max(I[vj], 0), 7)] * 2"
SCATTERED = "C[T.min(T.max(I[vj], 0), 7)] = A[vj] * 2"
ONES: dict[str, Callable[[Schedule, int], object]] = {
    "reindex_cache_read": lambda s, _: s.reindex_cache_read("C", "A", "shared", lambda i, j: (j,)),
    "reindex_cache_write": lambda s, _: s.reindex_cache_write("C", "C", "shared", lambda i, j: (j,)),
    "read_at": lambda s, loop: s.read_at(s.get_loops("C")[loop], "C", "A", "shared"),
    "write_at": lambda s, loop: s.write_at(s.get_loops("C")[loop], "C", "C", "shared"),
}


@pytest.mark.parametrize("step", ONES)
def test_single_elements_are_not_copied_where_memory_says_which(step: str) -> None:
    """The copy would read what says so, and stand before it is written."""
    text = PLACES.format(outer=1, bound="j", store=GATHERED if "read" in step else SCATTERED)
    sch = Schedule(program(text))
    before = sch.func
    with pytest.raises(ScheduleError, match="comes from memory"):
        ONES[step](sch, 1)
    assert sch.func is before


@pytest.mark.parametrize("step", ["read_at", "reindex_cache_read", "reindex_cache_write"])
def test_copies_beside_indices_from_memory(step: str, same: Same) -> None:
    """All that a loop may read of a gathered buffer, and what the block uses at its own iterators."""
    store = GATHERED if step != "reindex_cache_read" else SCATTERED
    func = program(PLACES.format(outer=1, bound="j", store=store))
    sch = Schedule(func)
    ONES[step](sch, 0)
    same(func, sch)


@pytest.mark.parametrize(("bound", "where"), [("I[j]", ""), ("j", "T.where(I[j] > 2)\n            ")])
def test_what_binds_a_block_is_written_before_its_elements_are_copied(bound: str, where: str, same: Same) -> None:
    store = f"{where}C[vj] = A[vj] * 2"
    func = program(PLACES.format(outer=1, bound=bound, store=store))
    with pytest.raises(ScheduleError, match="which block I writes after the place of the copy"):
        ONES["reindex_cache_read"](Schedule(func), 0)
    sch = Schedule(func)
    ONES["reindex_cache_write"](sch, 0)
    same(func, sch)
    # A parameter is there from the beginning.
    func = program(PLACES.format(outer=1, bound=bound, store=store).replace("I[j]", "J[j] % 8"))
    sch = Schedule(func)
    ONES["reindex_cache_read"](sch, 0)
    same(func, sch)


SUMS = """A: T.Buffer((6, 4), "int8"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 4):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.Cast("int32", A[vi, vk])
"""


@pytest.mark.parametrize("step", ["cache_read", "cache_cast"])
@pytest.mark.parametrize("nested", [True, False])
def test_copies_in_a_block_on_trust(step: str, nested: bool, same: Same) -> None:
    func = program(SUMS)
    made = []
    for check in (True, False):
        sch = Schedule(func, enable_check=check)
        if nested:
            sch.blockize(sch.get_loops("C")[1])
        # The second schedule of a kind finds what the first has made.
        for _ in range(2):
            one = sch.copy()
            if step == "cache_cast":
                one.cache_cast("C", "A")
            else:
                one.cache_read("C", "A", "local")
            same(func, one)
            made.append(one.script())
    assert len(set(made)) == 1
