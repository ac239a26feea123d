"""Loops: every primitive with an accepted case and its refused twin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import small_programs
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import BlockRV, Schedule
from autosched.script import T, parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def elementwise(A: T.Buffer((128, 100)), B: T.Buffer((128, 100))):
    for i, j in T.grid(128, 100):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


matmul = small_programs.matmul(16, 16, 16, "float32")


@T.prim_func
def symbolic(A: T.Buffer(("n", 64)), B: T.Buffer(("n", 64)), n: T.int32):
    for i, j in T.grid(n, 64):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


@T.prim_func
def triangle(A: T.Buffer((8, 8), "int32")):
    for i in range(8):
        for j in range(i):
            with T.sblock("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1


@T.prim_func
def siblings(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
    B = T.sblock_alloc_buffer((16, 16))
    for i in range(16):
        for j in range(16):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for j in range(16):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def blur(A: T.Buffer((17,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((17,), "int32")
    for i in range(17):
        with T.sblock("B"):
            vi = T.axis.spatial(17, i)
            B[vi] = A[vi] * 2
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1]
    for i in range(16):
        with T.sblock("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] + 1


def loops_text(sch: Schedule, block: str) -> list[str]:
    found = [sch.get(x) for x in sch.get_loops(block)]
    return [f"{x.var.name}:{x.extent.value}" for x in found]


# -- split ------------------------------------------------------------------------------------------------------------


def test_split_infers_one_factor(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    i, j = sch.get_loops("B")
    sch.split(i, factors=[2, None, 8])
    sch.split(j, factors=[10, 10])
    assert loops_text(sch, "B") == ["i_0:2", "i_1:8", "i_2:8", "j_0:10", "j_1:10"]
    text = sch.script()
    assert "vi = T.axis.spatial(128, i_0 * 64 + i_1 * 8 + i_2)" in text
    assert "T.where" not in text
    verify_trace_roundtrip(sch, elementwise)


def test_split_that_does_not_divide_gets_a_predicate(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    sch.split(sch.get_loops("B")[1], factors=[None, 32])
    assert "T.where(j_0 * 32 + j_1 < 100)" in sch.script()
    verify_trace_roundtrip(sch, elementwise)
    sch = Schedule(elementwise)
    sch.split(sch.get_loops("B")[1], factors=[None, 32], disable_predication=True)
    assert "T.where" not in sch.script()


def test_split_names_and_einsum_style(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    sch.split("i", factors=[None, 2, 4, 8], names=["a", "b", "c", "d"])
    sch.split("j => j0, j1", factors=[None, 4])
    assert loops_text(sch, "B") == ["a:2", "b:2", "c:4", "d:8", "j0:25", "j1:4"]
    assert sch.get(sch.get_axis("j0")).extent.value == 25
    assert 'names=["a", "b", "c", "d"])' in str(sch.trace)
    verify_trace_roundtrip(sch, elementwise)
    with pytest.raises(ScheduleError, match="3 names for 2 factors"):
        sch.split("j1", [2, 2], names=["x", "y", "z"])
    with refused(ScheduleError, "argument"):
        sch.split("j1 => x, y", [2, 2], names=["x", "y"])


def test_split_of_a_symbolic_extent(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(symbolic)
    i, _ = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, 16])
    assert "i_0 * 16 + i_1 < n" in sch.script()
    verify_trace_roundtrip(sch, symbolic)
    a = np.arange(5 * 64, dtype="float32").reshape(5, 64)
    out = np.zeros_like(a)
    run(sch.func, a, out, 5)
    np.testing.assert_array_equal(out, a * 2)
    with pytest.raises(ScheduleError, match="not larger than or equal to its symbolic extent of loop i_0"):
        sch.split(i0, [4, 4])
    assert sch.get(i1).extent.value == 16


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ([None, None], "only one factor can be None"),
        ([4, 4], "the product of the factors, 16, is not larger than or equal to the extent 128 of loop i"),
        ([None, 0], "factors are positive, but the one at position 1 is 0"),
        ([-1, 4], "factors are positive, but the one at position 0 is -1"),
        ([], "no factors are given"),
    ],
)
def test_split_refuses_bad_factors(factors: list[int | None], reason: str) -> None:
    sch = Schedule(elementwise)
    with pytest.raises(ScheduleError, match=reason):
        sch.split(sch.get_loops("B")[0], factors)


def test_split_and_fuse_refuse_loops_that_carry_something() -> None:
    sch = Schedule(elementwise)
    i, j = sch.get_loops("B")
    sch.annotate(i, "vta.loop", "uop")
    sch.bind(j, "vthread")
    with pytest.raises(ScheduleError, match=r"split: loop i has annotations \(vta.loop\)"):
        sch.split(i, [None, 2])
    with refused(ScheduleError, "loop"):
        sch.split(j, [None, 2])
    with refused(ScheduleError, "loop"):
        sch.fuse(i, j)


def test_split_refuses_loops_not_from_zero() -> None:
    sch = Schedule(elementwise)
    _, last = sch.loop_partition(sch.get_loops("B")[0], [100, None])
    with pytest.raises(ScheduleError, match="split: loop i1 does not start at 0"):
        sch.split(last, [None, 2])


# -- fuse -------------------------------------------------------------------------------------------------------------


def test_fuse(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    fused = sch.fuse(*sch.get_loops("B"))
    assert sch.get(fused).var.name == "i_j_fused"
    assert "vi = T.axis.spatial(128, i_j_fused // 100)" in sch.script()
    assert "vj = T.axis.spatial(100, i_j_fused % 100)" in sch.script()
    sch.split(fused, [None, 100])
    assert "vi = T.axis.spatial(128, (i_j_fused_0 * 100 + i_j_fused_1) // 100)" in sch.script()
    verify_trace_roundtrip(sch, elementwise)


def test_fuse_of_symbolic_extents(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(symbolic)
    sch.fuse(*sch.get_loops("B"))
    assert "for i_j_fused in range(n * 64)" in sch.script()
    verify_trace_roundtrip(sch, symbolic)


def test_fuse_refused() -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    with refused(ScheduleError, "place"):
        sch.fuse(j, i)
    with refused(ScheduleError, "place"):
        sch.fuse(i, k)
    with pytest.raises(ValueError, match="at least one loop"):
        sch.fuse()
    sch = Schedule(siblings)
    i, j = sch.get_loops("C")
    with refused(ScheduleError, "place"):
        sch.fuse(i, j)
    sch = Schedule(triangle)
    with refused(ScheduleError, "loop"):
        sch.fuse(*sch.get_loops("A"))


# -- reorder ----------------------------------------------------------------------------------------------------------


def test_reorder_leaves_other_loops_in_place(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(k, i1)
    assert loops_text(sch, "C") == ["i_0:4", "k:16", "j:16", "i_1:4"]
    sch.reorder(i0)
    verify_trace_roundtrip(sch, matmul)
    with refused(ScheduleError, "argument"):
        sch.reorder(j, j)


@pytest.mark.parametrize(("extents", "fits"), [("0, 8", True), ("8, 0", False), ("1, 0", False), ("0, 0", False)])
def test_fuse_of_loops_that_never_run(extents: str, fits: bool) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid({extents}):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2
""")
    sch = Schedule(func)
    if not fits:
        with refused(ScheduleError, "loop"):
            sch.fuse(*sch.get_loops("C"))
        return
    sch.fuse(*sch.get_loops("C"))
    assert parse(sch.script()) == sch.func
    before = np.arange(64, dtype=np.int32).reshape(8, 8)
    assert np.array_equal(run(sch.func, before, -before)[0], -before)


def test_reorder_refused() -> None:
    sch = Schedule(siblings)
    i, j = sch.get_loops("C")
    with pytest.raises(ScheduleError, match=r"j is not the only statement in loop i \(also B\)"):
        sch.reorder(j, i)
    with refused(ScheduleError, "place"):
        sch.reorder(j, sch.get_loops("B")[1])
    sch = Schedule(triangle)
    i, j = sch.get_loops("A")
    with refused(ScheduleError, "loop"):
        sch.reorder(j, i)


def test_reorder_keeps_the_first_instance_of_a_reduction_first() -> None:
    sch = Schedule(matmul)
    _, j, k = sch.get_loops("C")
    outer, inner = sch.split(sch.fuse(j, k), [None, 24])
    with refused(ScheduleError, "reduction"):
        sch.reorder(inner, outer)


# -- unit loops, partition, merge ---------------------------------------------------------------------------------------


def test_add_unit_loop(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    sch.add_unit_loop("B")
    sch.add_unit_loop(sch.get_loops("B")[0])
    assert loops_text(sch, "B") == ["u_1:1", "i:128", "j:100", "u:1"]
    verify_trace_roundtrip(sch, elementwise)
    with refused(ScheduleError, "root"):
        sch.add_unit_loop("root")


def test_loop_partition(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    loops = sch.loop_partition(sch.get_loops("B")[0], [2, None, 26])
    assert [(sch.get(x).min.value, sch.get(x).extent.value) for x in loops] == [(0, 2), (2, 100), (102, 26)]
    assert sch.state.block_names() == [
        "root", "B_i_common", "B_i0_partition", "B_i0", "B_i1_partition", "B_i1", "B_i2_partition", "B_i2",
    ]
    verify_trace_roundtrip(sch, elementwise)
    with pytest.raises(ScheduleError, match="the sum of the factors, 100, leaves nothing of the extent 100"):
        sch.loop_partition(sch.get_loops("B_i0")[1], [50, 50])


def test_loop_partition_refused() -> None:
    sch = Schedule(symbolic)
    with refused(ScheduleError, "symbolic"):
        sch.loop_partition(sch.get_loops("B")[0], [2, None])
    sch = Schedule(matmul)
    with refused(ScheduleError, "reduction"):
        sch.loop_partition(sch.get_loops("C")[2], [2, None])


@T.prim_func
def two_stages(A: T.Buffer((12, 10), "int32"), C: T.Buffer((12, 10), "int32")):
    B = T.sblock_alloc_buffer((12, 10), "int32")
    for i, j in T.grid(12, 10):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(12, 10):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1


def domains(sch: Schedule, block: BlockRV) -> list[tuple[int, int]]:
    return [(iv.dom.min.value, iv.dom.extent.value) for iv in sch.get(block).iter_vars]


def test_partition_block_makes_stages_of_their_own(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(two_stages)
    parts = sch.partition_block(sch.get_loops("C")[0], [5, None, 3])
    assert [sch.get(b).name for b in parts] == ["C_i0", "C_i1", "C_i2"]
    assert [domains(sch, b) for b in parts] == [[(0, 5), (0, 10)], [(5, 4), (0, 10)], [(9, 3), (0, 10)]]
    assert [loops_text(sch, b) for b in ("C_i0", "C_i1", "C_i2")] == [["i0:5", "j:10"], ["i1:4", "j:10"], ["i2:3", "j:10"]]
    # Each is a stage: it can be tiled, and a producer of its own computes what it needs and no more.
    copies = sch.recompute_at_consumers(sch.get_block("B"))
    assert [sch.get(b).name for b in copies] == ["B", "B_C_i1", "B_C_i2"]
    assert [loops_text(sch, b.name) for b in map(sch.get, copies)] == [["i:5", "j:10"], ["i:4", "j:10"], ["i:3", "j:10"]]
    for part, copy in zip(parts, copies):
        outer, _ = sch.split(sch.get_loops(part)[0], [None, 2])
        sch.reorder(sch.get_loops(part)[2], outer)
        sch.compute_at(copy, sch.get_loops(part)[0])
    assert [loops_text(sch, b.name) for b in map(sch.get, copies)] == [["j:10", "ax0:5"], ["j:10", "ax0:4"], ["j:10", "ax0:3"]]
    # The last tile of a part is cut: its producer stops where the part does.
    assert "T.where(ax0 < 5)" in sch.script() or "ax0:5" in loops_text(sch, "B")
    verify_trace_roundtrip(sch, two_stages)
    data = np.arange(120, dtype="int32").reshape(12, 10)
    want, got = np.zeros((12, 10), "int32"), np.full((12, 10), 77, "int32")
    run(two_stages, data, want)
    run(sch.func, data, got)
    assert np.array_equal(got, want)


def test_a_producer_stays_for_the_parts_behind(verify_trace_roundtrip: Verify) -> None:
    # Both parts read all of a table; the first computes it, row by row as it needs them, and the second finds it.
    func = parse("""
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((6, 5), "int32"), C: T.Buffer((8, 6, 5), "int32")):
    B = T.alloc_buffer((6, 5), "int32")
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for n, i, j in T.grid(8, 6, 5):
        with T.block("C"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = B[vi, vj] + vn
""")
    sch = Schedule(func)
    sch.partition_block(sch.get_loops("C")[0], [3])
    loops = sch.get_loops("C_n0")
    with pytest.raises(ScheduleError, match="C_n1"):
        sch.compute_at("B", loops[1])
    sch.copy().compute_at("B", loops[0], resident=True)
    sch.compute_at("B", loops[1], resident=True)
    assert loops_text(sch, "B") == ["n0:3", "i:6", "ax0:5"]
    verify_trace_roundtrip(sch, func)
    data = np.arange(30, dtype="int32").reshape(6, 5)
    want, got = np.zeros((8, 6, 5), "int32"), np.full((8, 6, 5), 77, "int32")
    run(func, data, want)
    run(sch.func, data, got)
    assert np.array_equal(got, want)
    # A part that does not read all, or that runs behind, leaves too little.
    sch = Schedule(func)
    sch.partition_block(sch.get_loops("C")[1], [3])
    with pytest.raises(ScheduleError, match="C_i1 reads more of B than B has written by then"):
        sch.compute_at("B", sch.get_loops("C_i0")[1], resident=True)
    sch = Schedule(func)
    sch.partition_block(sch.get_loops("C")[0], [3])
    with pytest.raises(ScheduleError, match="would run after its consumer C_n0"):
        sch.compute_at("B", sch.get_loops("C_n1")[1], resident=True)
    assert loops_text(sch, "B") == ["i:6", "j:5"]


def test_partition_block_of_an_inner_loop_and_of_a_part(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(two_stages)
    outer, _ = sch.split(sch.get_loops("C")[1], [2, 5])
    assert [domains(sch, b)[1] for b in sch.partition_block(outer, [1])] == [(0, 5), (5, 5)]
    assert [domains(sch, b) for b in sch.partition_block(sch.get_loops("C_j_01")[0], [4])] == [[(0, 4), (5, 5)], [(4, 8), (5, 5)]]
    verify_trace_roundtrip(sch, two_stages)


def test_partition_block_refused() -> None:
    sch = Schedule(two_stages)
    for factors, reason in (([12], "leaves nothing"), ([0, None], "is 0"), ([None, None], "only one factor")):
        with pytest.raises(ScheduleError, match=reason):
            sch.partition_block(sch.get_loops("C")[0], factors)
    with refused(ScheduleError, "reader") as caught:
        sch.partition_block(sch.get_loops("B")[0], [5])
    assert "recompute_at_consumers" in caught.value.hint
    sch.compute_at("B", sch.get_loops("C")[1])
    with pytest.raises(ScheduleError, match="2 blocks stand under loop i: B and C"):
        sch.partition_block(sch.get_loops("C")[0], [5])
    sch = Schedule(two_stages)
    fused = sch.fuse(*sch.get_loops("C"))
    with refused(ScheduleError, "order"):
        sch.partition_block(fused, [55])
    with refused(ScheduleError, "order"):
        sch.partition_block(fused, [15])
    sch.add_unit_loop("C")
    with pytest.raises(ScheduleError, match="leaves nothing of the extent 1"):
        sch.partition_block("u", [1])
    sch = Schedule(matmul)
    with refused(ScheduleError, "reduction"):
        sch.partition_block(sch.get_loops("C")[2], [2])
    assert len(sch.partition_block(sch.get_loops("C")[1], [2])) == 2
    sch = Schedule(symbolic)
    with refused(ScheduleError, "symbolic"):
        sch.partition_block(sch.get_loops("B")[0], [2])


def test_blocks_that_write_the_same_interval_are_no_parts() -> None:
    # Disjoint parts are stages; one element in common, and they are two writers of one buffer again.
    for start, complete in ((6, True), (5, False)):
        text = f"""
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((12,), "int32")):
    for i in range(6):
        with T.block("low"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]
    for i in range({12 - start}):
        with T.block("high"):
            vi = T.axis.spatial(({start}, 12), i + {start})
            C[vi] = A[vi]
"""
        sch = Schedule(parse(text))
        if complete:
            assert len(sch.partition_block(sch.get_loops("high")[0], [3])) == 2
        else:
            with refused(ScheduleError, "form"):
                sch.partition_block(sch.get_loops("high")[0], [3])


def test_consumers_of_a_partitioned_block_are_still_known() -> None:
    sch = Schedule(siblings)
    sch.loop_partition(sch.get_loops("B")[1], [4, None])
    assert [sch.get(b).name for b in sch.get_producers("C")] == ["B_j_common"]


def test_merge(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(blur)
    merged = sch.merge(sch.get_loops("C")[0], sch.get_loops("D")[0])
    assert sch.get(merged).var.name == "i_m"
    assert [b.name for b in map(sch.get, sch.get_child_blocks(merged))] == ["C", "D"]
    verify_trace_roundtrip(sch, blur)
    a = np.arange(17, dtype="int32")
    c, d = np.zeros(16, "int32"), np.zeros(16, "int32")
    run(sch.func, a, c, d)
    np.testing.assert_array_equal(d, a[:-1] * 2 + a[1:] * 2 + 1)


def test_what_the_host_unpacks_comes_after_the_merged_loop(verify_trace_roundtrip: Verify) -> None:
    """In the order that it had: the second writes over what the first has written."""
    text = """
@T.prim_func
def f(a: T.Buffer((16,), "int32"), out: T.Buffer((24,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    C = T.alloc_buffer((16,), "int32")
    D = T.alloc_buffer((16,), "int32")
"""
    for name, value, target in (("B", "a[vi] + 1", "B[vi]"), ("u", "B[vi]", "out[vi + 8]"), ("C", "a[vi] * 3", "C[vi]"),
                                ("w", "C[vi]", "out[vi]"), ("D", "B[vi] + C[vi]", "D[vi]"), ("x", "D[vi]", "out[vi + 4]")):
        text += (f"    for i in range(16):\n        with T.block('{name}'):\n            vi = T.axis.spatial(16, i)\n"
                 f"            {target} = {value}\n")
    func = parse(text)
    sch = Schedule(func)
    plain = sch.copy()
    with refused(ScheduleError, "place"):
        plain.merge(*[plain.get_loops(name)[0] for name in "BD"])
    for name in "xwu":
        sch.host_stage(name)
    merged = sch.merge(*[sch.get_loops(name)[0] for name in "BCD"])
    assert [b.name for b in map(sch.get, sch.get_child_blocks(merged))] == ["B", "C", "D"]
    assert [b.name for b in map(sch.get, sch.get_child_blocks("root"))] == ["B", "C", "D", "u", "w", "x"]
    verify_trace_roundtrip(sch, func)
    a = np.arange(50, 66, dtype="int32")
    got, wanted = np.zeros(24, "int32"), np.zeros(24, "int32")
    run(sch.func, a, got)
    run(func, a, wanted)
    np.testing.assert_array_equal(got, wanted)


def test_merge_refused() -> None:
    sch = Schedule(blur)
    b, c, d = (sch.get_loops(x)[0] for x in "BCD")
    with refused(ScheduleError, "loop"):
        sch.merge(b, c)
    with refused(ScheduleError, "order"):
        sch.merge(d, c)
    with refused(ScheduleError, "argument"):
        sch.merge(c, c)
    head, _ = sch.loop_partition(b, [16, None])
    with refused(ScheduleError, "place"):
        sch.merge(head, c)


def test_merge_refuses_what_a_later_iteration_would_need() -> None:
    # In iteration m the first nest has filled B up to 5m + 4, and the second reads up to 4m + 4.
    sch = Schedule(blur)
    sch.split(sch.get_loops("B")[0], [4, 5])
    sch.split(sch.get_loops("C")[0], [4, 4])
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    # Here it has filled B up to 4m + 3 only.
    sch = Schedule(blur)
    sch.split(sch.get_loops("B")[0], [5, 4])
    sch.split(sch.get_loops("C")[0], [5, 4])
    with refused(ScheduleError, "order"):
        sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
