"""Tables of indices: what is looked up, where the tables go, what may follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.schedule import Schedule
from autosched.script import T, parse

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def resize(A: T.Buffer((3, 10, 10), "int32"), B: T.Buffer((3, 20, 20), "int32")):
    for c, i, j in T.grid(3, 20, 20):
        with T.sblock("B"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            B[vc, vi, vj] = A[vc, vi // 4 + vj // 4, vj // 2] * 3


@T.prim_func
def blend(A: T.Buffer((12, 12), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi // 2 + 1, vj // 2] + A[vi // 2 + 1, T.min(vj // 2 + 3, 9)] + A[vi // 2, vi]


@T.prim_func
def padded(A: T.Buffer((7,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(9):
        with T.sblock("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = T.if_then_else(vi >= 1 and vi < 8, A[vi - 1], 0)


def test_largest_expressions_first(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(resize)
    blocks = sch.cache_index("B", "global")
    assert [sch.get(b).name for b in blocks] == ["index_0", "index_1"]
    text = sch.script()
    for line in (
        'index_var_0 = T.sblock_alloc_buffer((20, 20), "int32")', "index_var_0[v0, v1] = v0 // 4 + v1 // 4",
        'index_var_1 = T.sblock_alloc_buffer((20,), "int32")', "index_var_1[v0] = v0 // 2",
        "B[vc, vi, vj] = A[vc, index_var_0[vi, vj], index_var_1[vj]] * 3", "index_var_0[vi, vj], index_var_1[vj])",
    ):
        assert line in text
    assert "b1, b2 = sch.cache_index(block=b0, storage_scope=\"global\", cse_thresh=0)" in str(sch.trace)
    same(resize, sch)
    verify_trace_roundtrip(sch, resize)


@pytest.mark.parametrize(
    ("threshold", "tables"),
    [
        (0, ["T.min(v0 // 2 + 3, 9)", "v0 // 2 + 1", "v0 // 2"]),
        (2, ["v0 // 2 + 1", "v0 // 2"]),
        (4, []),
    ],
)
def test_expressions_that_occur_often_enough(
    threshold: int, tables: list[str], verify_trace_roundtrip: Verify, same: Same
) -> None:
    sch = Schedule(blend)
    blocks = sch.cache_index("B", "shared", threshold)
    lines = [line.strip() for line in sch.script().splitlines()]
    values = [line.split(" = ")[1] for line in lines if line.startswith("index_var_") and "[v0] =" in line]
    if tables:
        assert values[: len(tables)] == tables
    else:
        assert blocks == []
        assert sch.func is blend
    same(blend, sch)
    verify_trace_roundtrip(sch, blend)


def test_conditions_have_tables_too(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(padded)
    sch.cache_index("B", "local")
    assert "T.if_then_else(index_var_0[vi], A[index_var_1[vi]], 0)" in sch.script()
    same(padded, sch)
    verify_trace_roundtrip(sch, padded)


@pytest.mark.parametrize("factors", [[None, 4], [None, 6]])
def test_tables_reach_as_far_as_cut_loops_run(factors: list[int | None], verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(resize)
    loops = sch.get_loops("B")
    sch.split(loops[2], factors)
    sch.fuse(*sch.get_loops("B")[:2])
    sch.cache_index("B", "global")
    same(resize, sch)
    verify_trace_roundtrip(sch, resize)


def test_tables_stand_in_front_of_the_loops_and_stay_there(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[7 - vi] * (vi // 2)
""")
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    index, _ = sch.cache_index("C", "global")
    assert [sch.get(b).name for b in sch.get_child_blocks("root")] == ["B", "index_0", "index_1", "C"]
    # The block that looks up is a consumer of the tables, so a copy of one goes between the two.
    assert [sch.get(b).name for b in sch.get_consumers(index)] == ["C"]
    sch.cache_write(index, 0, "shared")
    same(func, sch)
    verify_trace_roundtrip(sch, func)
    sch.compute_inline(sch.get_block("index_1"))
    same(func, sch)


@pytest.mark.parametrize(
    "value", ["A[vi]", "A[vi] + A[A[vi] % 8]", "A[vi] * n", "T.if_then_else(vi > 0, A[8 // vi - 1], 3)"],
)
def test_what_is_no_function_of_iterators_stays(value: str) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = {value}
""")
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    blocks = sch.cache_index("B", "local")
    # A division is not taken out of its guard: the condition alone has a table.
    guarded = "vi > 0" in value
    assert len(blocks) == guarded
    assert ("index_var_0[v0] = v0 > 0" in sch.script()) == guarded


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda s: s.cache_index("B", "global", -1), "argument"),
        (lambda s: s.cache_index("B", "moon"), "argument"),
        (lambda s: s.cache_index("root", "global"), "root"),
    ],
)
def test_refusals(call: Callable[[Schedule], object], code: str) -> None:
    sch = Schedule(resize)
    with refused(ScheduleError, code):
        call(sch)
    assert sch.func is resize


def test_iterators_that_cannot_index_a_table() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((20,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial((-4, 4), i - 4)
            B[vi + 4] = A[vi + 4]
""")
    assert isinstance(func, PrimFunc)
    with pytest.raises(ScheduleError, match="iterator vi of block B starts at -4, and cannot index a table"):
        Schedule(func).cache_index("B", "global")


def test_operands_are_reindexed_before_indices_come_from_memory(same: Same) -> None:
    sch = Schedule(resize)
    sch.cache_index("B", "global")
    with refused(ScheduleError, "index"):
        sch.reindex("B", "A")
    sch = Schedule(resize)
    sch.reindex("B", "A")
    assert sch.cache_index("B", "global") == []
    same(resize, sch)
