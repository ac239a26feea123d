"""Every placement primitive but inlining: what an accepted call gives, and the refusal beside it."""

from __future__ import annotations

import numpy as np
import pytest
from placed import matmul, same, two
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.interp import run
from autosched.ir.printer import script
from autosched.schedule import AT_INLINE, AT_ROOT, Schedule
from autosched.schedule.analysis.dependence import incomplete, not_compact, not_reduction
from autosched.schedule.analysis.pipeline import broken_pipeline
from autosched.schedule.primitives.placement.compute_at import can_compute_at
from autosched.script import T

# -- compute_at -------------------------------------------------------------------------------------------------------


def test_compute_at_a_tile_that_does_not_divide() -> None:
    @T.prim_func
    def want(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
        B = T.sblock_alloc_buffer((16, 12))
        for i_0 in range(4):
            for ax0, ax1 in T.grid(5, 12):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i_0 * 5 + ax0)
                    vj = T.axis.spatial(12, ax1)
                    T.where(i_0 * 5 + ax0 < 16)
                    B[vi, vj] = A[vi, vj] * 2.0
            for i_1, j in T.grid(5, 12):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i_0 * 5 + i_1)
                    vj = T.axis.spatial(12, j)
                    T.where(i_0 * 5 + i_1 < 16)
                    C[vi, vj] = B[vi, vj] + 1.0

    sch = Schedule(two)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 5])
    sch.compute_at("B", outer)
    same(sch.func, want)


@pytest.mark.parametrize("preserve", [True, False])
def test_compute_at_unit_loops(preserve: bool) -> None:
    sch = Schedule(two)
    _, j = sch.get_loops("C")
    sch.compute_at("B", j, preserve_unit_loops=preserve)
    assert len(sch.get_loops("B")) == (4 if preserve else 2)


def test_compute_at_a_window_has_a_predicate_at_both_ends() -> None:
    @T.prim_func
    def pool(X: T.Buffer((24,), "float32"), Y: T.Buffer((24,), "float32")):
        cache = T.sblock_alloc_buffer((24,))
        for h in range(24):
            with T.sblock("cache"):
                v = T.axis.spatial(24, h)
                cache[v] = X[v]
        for h0, h1, k in T.grid(3, 8, 3):
            with T.sblock("Y"):
                v = T.axis.spatial(24, h0 * 8 + h1)
                vk = T.axis.reduce(3, k)
                with T.init():
                    Y[v] = 0.0
                Y[v] = T.max(Y[v], T.if_then_else(v + vk >= 1 and v + vk < 25, cache[v + vk - 1], 0.0))

    sch = Schedule(pool)
    sch.compute_at("cache", sch.get_loops("Y")[0])
    text = script(sch.func)
    assert "for ax0 in range(10)" in text
    assert "T.where(1 <= h0 * 8 + ax0 and h0 * 8 + ax0 < 25)" in text


def test_compute_at_root_and_inline_places() -> None:
    sch = Schedule(two)
    sch.compute_at("B", sch.loop_rv(AT_ROOT))
    same(sch.func, two)
    sch.compute_at("B", sch.loop_rv(AT_INLINE))
    assert sch.state.block_names() == ["root", "C"]


def test_compute_at_index() -> None:
    @T.prim_func
    def three(A: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        C = T.sblock_alloc_buffer((8,), "int32")
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + 1
        for i in range(8):
            with T.sblock("C"):
                v = T.axis.spatial(8, i)
                C[v] = A[v] + 2
            with T.sblock("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v] * C[v]

    def order(index: int) -> list[str]:
        sch = Schedule(three)
        (i,) = sch.get_loops("D")
        sch.compute_at("B", i, index=index)
        return [b.name for b in sch.state.children_of(sch.state.root)]

    assert order(-1) == order(1) == ["C", "B", "D"]
    assert order(-2) == order(0) == ["B", "C", "D"]
    with pytest.raises(ScheduleError, match="index 2 under loop i is not possible for B: give -1, -2 or 0 to 1"):
        order(2)


@pytest.mark.parametrize(("block", "loop_of", "at", "code"), [
    ("B", "B", 0, "place"),
    ("C", "B", 0, "output"),
    ("root", "B", 0, "root"),
])
def test_compute_at_refusals(block: str, loop_of: str, at: int, code: str) -> None:
    sch = Schedule(two)
    with refused(ScheduleError, code):
        sch.compute_at(block, sch.get_loops(loop_of)[at])
    same(sch.func, two)


def test_compute_at_two_writers_are_not_complete() -> None:
    @T.prim_func
    def halves(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        for i in range(4):
            with T.sblock("B0"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]
        for i in range(4):
            with T.sblock("B1"):
                v = T.axis.spatial(4, i)
                B[v + 4] = A[v + 4] * 2
        for i in range(8):
            with T.sblock("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    sch = Schedule(halves)
    assert broken_pipeline(sch.state, sch.state.root) is None
    with pytest.raises(ScheduleError, match=r"B0 is not a complete block \(B is also written by B1\) nor a reduction"):
        sch.compute_at("B0", sch.get_loops("C")[0])


def test_compute_at_another_scope() -> None:
    sch = Schedule(two)
    _, j = sch.get_loops("C")
    sch.blockize(j)
    with refused(ScheduleError, "place"):
        sch.compute_at("B", sch.get_loops("C")[0])


def test_a_reader_of_what_is_not_written_breaks_the_pipeline() -> None:
    @T.prim_func
    def hole(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        for i in range(6):
            with T.sblock("B"):
                v = T.axis.spatial(6, i)
                B[v] = A[v]
        for i in range(8):
            with T.sblock("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    sch = Schedule(hole)
    with refused(ScheduleError, "order"):
        sch.compute_at("B", sch.get_loops("C")[0])


# -- reverse_compute_at ---------------------------------------------------------------------------------------------------


def test_reverse_compute_at_through_a_layout() -> None:
    @T.prim_func
    def before(A: T.Buffer((3, 16), "int32"), C: T.Buffer((6, 8), "int32")):
        B = T.sblock_alloc_buffer((3, 16), "int32")
        for i, j in T.grid(3, 16):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1
        for p, q in T.grid(6, 8):
            with T.sblock("C"):
                vp, vq = T.axis.remap("SS", [p, q])
                C[vp, vq] = B[(vp * 8 + vq) // 16, (vp * 8 + vq) % 16]

    @T.prim_func
    def want(A: T.Buffer((3, 16), "int32"), C: T.Buffer((6, 8), "int32")):
        B = T.sblock_alloc_buffer((3, 16), "int32")
        for i in range(3):
            for j in range(16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + 1
            for ax0, ax1 in T.grid(2, 8):
                with T.sblock("C"):
                    vp = T.axis.spatial(6, i * 2 + ax0)
                    vq = T.axis.spatial(8, ax1)
                    C[vp, vq] = B[(vp * 8 + vq) // 16, (vp * 8 + vq) % 16]

    sch = Schedule(before)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    same(sch.func, want)


def test_reverse_compute_at_keeps_a_padded_border() -> None:
    # The producer writes no border; attached to it, the border would never be computed.
    @T.prim_func
    def padded(A: T.Buffer((8,), "int32"), C: T.Buffer((10,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * 2
        for i in range(10):
            with T.sblock("C"):
                v = T.axis.spatial(10, i)
                T.reads(B[v - 1])
                C[v] = T.if_then_else(v >= 1 and v < 9, B[v - 1], 0)

    sch = Schedule(padded)
    with refused(ScheduleError, "domain"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])
    sch.compute_at("B", sch.get_loops("C")[0])


def test_reverse_compute_at_does_not_run_a_reduction_backwards() -> None:
    @T.prim_func
    def mirrored(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
        B = T.sblock_alloc_buffer((8,), "int32")
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * 2
        for k in range(8):
            with T.sblock("C"):
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[0] = 0
                C[0] += B[7 - vk]

    sch = Schedule(mirrored)
    with refused(ScheduleError, "reduction"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


def test_reverse_compute_at_needs_all_producers() -> None:
    sch = Schedule(matmul)
    other = sch.cache_read("C", 0, "local")
    with pytest.raises(ScheduleError, match=r"requires all the producers of D to be under loop ax0; C is outside it"):
        sch.reverse_compute_at("D", sch.get_loops(other)[0])
    with pytest.raises(ScheduleError, match="under loop i, block A_local would run after its consumer C"):
        sch.reverse_compute_at(other, sch.get_loops("D")[0])


def test_can_compute_at() -> None:
    sch = Schedule(two)
    state = sch.state
    realize = {r.block.name: r for r in state.realizes.values()}
    loops = {name: state.loops_of(realize[name].block) for name in ("B", "C")}
    assert can_compute_at(state, realize["B"], loops["C"][0])
    assert not can_compute_at(state, realize["C"], loops["B"][0])
    assert can_compute_at(state, realize["C"], loops["B"][0], forward=False)


def test_loops_that_repeat_a_reduction_are_told_outermost_first() -> None:
    @T.prim_func
    def summed(A: T.Buffer((8, 2, 2, 2, 2, 4), "int32"), C: T.Buffer((8, 2, 2, 2, 2, 6), "int32")):
        B = T.sblock_alloc_buffer((8, 2, 2, 2, 2, 4), "int32")
        for i0, i1, i2, i3, i4, i5 in T.grid(8, 2, 2, 2, 2, 4):
            with T.sblock("B"):
                v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [i0, i1, i2, i3, i4, i5])
                B[v0, v1, v2, v3, v4, v5] = A[v0, v1, v2, v3, v4, v5] + 1
        for i0, i1, i2, i3, i4, i6, i5 in T.grid(8, 2, 2, 2, 2, 6, 4):
            with T.sblock("C"):
                v0, v1, v2, v3, v4, v6, v5 = T.axis.remap("SSSSSSR", [i0, i1, i2, i3, i4, i6, i5])
                with T.init():
                    C[v0, v1, v2, v3, v4, v6] = 0
                C[v0, v1, v2, v3, v4, v6] += B[v0, v1, v2, v3, v4, v5]

    # Where each element of B has one place, its reader follows the loops; where v0 is told in two parts it does not.
    sch = Schedule(summed)
    sch.reverse_compute_at("C", sch.get_loops("B")[5])
    given = np.arange(8 * 16 * 4, dtype=np.int32).reshape(8, 2, 2, 2, 2, 4)
    assert np.array_equal(run(sch.func, given)["C"], run(summed, given)["C"])
    sch = Schedule(summed)
    sch.transform_layout("B", ("write", 0), lambda *a: (a[0] // 4, *a[1:], a[0] % 4), assume_injective_transform=True)
    with pytest.raises(ScheduleError, match="in the iterations of i0, i1, i2, i3, i4, i5 overlap or repeat"):
        sch.reverse_compute_at("C", sch.get_loops("B")[5])


# -- reductions -------------------------------------------------------------------------------------------------------


def test_decompose_reduction_takes_the_spatial_loops_along() -> None:
    @T.prim_func
    def want(A: T.Buffer((8, 12), "int32"), B: T.Buffer((10, 12), "int32"), D: T.Buffer((8, 10), "int32")):
        C = T.sblock_alloc_buffer((8, 10), "int32")
        for i in range(8):
            for j_0_init, j_1_init in T.grid(3, 4):
                with T.sblock("C_init"):
                    vi = T.axis.spatial(8, i)
                    vj = T.axis.spatial(10, j_0_init * 4 + j_1_init)
                    T.where(j_0_init * 4 + j_1_init < 10)
                    C[vi, vj] = 0
            for k_0, j_0, j_1, k_1 in T.grid(3, 3, 4, 5):
                with T.sblock("C_update"):
                    vi = T.axis.spatial(8, i)
                    vj = T.axis.spatial(10, j_0 * 4 + j_1)
                    vk = T.axis.reduce(12, k_0 * 5 + k_1)
                    T.where(j_0 * 4 + j_1 < 10 and k_0 * 5 + k_1 < 12)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
        for i, j in T.grid(8, 10):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] + 3

    sch = Schedule(matmul)
    _, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 5])
    sch.reorder(k0, j0, j1, k1)
    block = sch.get_block("C")
    init = sch.decompose_reduction(block, k0)
    assert (sch.get(init).name, sch.get(block).name) == ("C_init", "C_update")
    same(sch.func, want)


@pytest.mark.parametrize(("block", "loop_of", "at", "code"), [
    ("C", "D", 0, "place"),
    ("D", "D", 0, "reduction"),
    ("C", "C", 1, "reduction"),
])
def test_decompose_reduction_refusals(block: str, loop_of: str, at: int, code: str) -> None:
    sch = Schedule(matmul)
    _, j, k = sch.get_loops("C")
    loop = sch.get_loops(loop_of)[at]
    sch.reorder(k, j)
    with refused(ScheduleError, code):
        sch.decompose_reduction(block, loop)


def test_decompose_reduction_not_outside_a_loop_that_repeats_it() -> None:
    @T.prim_func
    def repeated(A: T.Buffer((4,), "int32"), C: T.Buffer((1,), "int32")):
        for _r, k in T.grid(3, 4):
            with T.sblock("C"):
                vk = T.axis.reduce(4, k)
                with T.init():
                    C[0] = 0
                C[0] += A[vk]

    sch = Schedule(repeated)
    r, k = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="loop _r repeats the whole of C"):
        sch.decompose_reduction("C", r)
    sch.decompose_reduction("C", k)


@T.prim_func
def biased(
    A: T.Buffer((6, 8), "int32"), B: T.Buffer((5, 8), "int32"), bias: T.Buffer((5,), "int32"),
    D: T.Buffer((6, 5), "int32"),
):
    C = T.sblock_alloc_buffer((6, 5), "int32")
    for i, j, k in T.grid(6, 5, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 2
            C[vi, vj] += A[vi, vk] * B[vj, vk]
    for i, j in T.grid(6, 5):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = bias[vj] * 3 + C[vi, vj]


@T.prim_func
def clipped(A: T.Buffer((6, 8), "int32"), D: T.Buffer((6,), "int32")):
    C = T.sblock_alloc_buffer((6,), "int32")
    for i, k in T.grid(6, 8):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] += A[vi, vk]
    for i in range(6):
        with T.sblock("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = T.max(C[vi], 0)


def test_fuse_reduction_epilogue_starts_from_the_addend() -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-99, 99, s).astype(np.int32) for s in ((6, 8), (5, 8), (5,))]
    sch = Schedule(biased)
    sch.fuse_reduction_epilogue("C", "D")
    assert [b.name for b in sch.state.children_of(sch.state.root)] == ["C"]
    want = run(biased, *arrays)["D"]
    assert np.array_equal(run(sch.func, *arrays)["D"], want)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert np.array_equal(run(sch.func, *arrays)["D"], want)


def test_fuse_reduction_epilogue_refuses_what_would_act_in_every_step() -> None:
    with refused(ScheduleError, "reduction"):
        Schedule(clipped).fuse_reduction_epilogue("C", "D")
    sch = Schedule(biased)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="C_update is not a reduction block: it has no init"):
        sch.fuse_reduction_epilogue("C_update", "D")
    with refused(ScheduleError, "form"):
        Schedule(biased).fuse_reduction_epilogue("D", "C")


# -- blocks -----------------------------------------------------------------------------------------------------------


def test_blockize_takes_the_init_out() -> None:
    @T.prim_func
    def rowsum(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6,), "int32")):
        for k, i in T.grid(8, 6):
            with T.sblock("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vk]

    @T.prim_func
    def want(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6,), "int32")):
        with T.sblock("B_o"):
            _vko = T.axis.reduce(1, 0)
            _vio = T.axis.spatial(1, 0)
            T.reads(A[0:6, 0:8])
            T.writes(B[0:6])
            with T.init():
                for i1 in range(6):
                    with T.sblock("B_init"):
                        vi_init = T.axis.spatial(6, i1)
                        B[vi_init] = 0
            for k, i in T.grid(8, 6):
                with T.sblock("B"):
                    vk, vi = T.axis.remap("RS", [k, i])
                    B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(rowsum)
    outer = sch.blockize(sch.get_loops("B")[0])
    assert sch.get(outer).name == "B_o"
    same(sch.func, want)


def test_blockize_neighbours() -> None:
    sch = Schedule(two)
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    outer = sch.blockize([sch.get_block("B"), sch.get_block("C")], preserve_unit_iters=False)
    assert sch.get(outer).name == "outer_B_C_"
    assert [b.name for b in sch.state.children_of(sch.get(outer))] == ["B", "C"]


def test_blockize_refusals() -> None:
    sch = Schedule(two)
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    with pytest.raises(ScheduleError, match="required to have only one child block, but has 2: B, C"):
        sch.blockize(i)

    @T.prim_func
    def diagonal(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, (i + j) % 8)
                B[vi, vj] = A[vi, vj]

    sch = Schedule(diagonal)
    with refused(ScheduleError, "index"):
        sch.blockize(sch.get_loops("B")[1])


def test_reorder_block_iter_var() -> None:
    sch = Schedule(matmul)
    sch.reorder_block_iter_var("C", (2, 0, 1))
    assert [iv.kind for iv in sch.get(sch.get_block("C")).iter_vars] == ["reduce", "spatial", "spatial"]
    for order in ((0, 1), (0, 0, 1), (1, 2, 3)):
        with pytest.raises(ScheduleError, match=r"is not a permutation of 0 \.\. 2"):
            sch.reorder_block_iter_var("C", order)


# -- analysis -----------------------------------------------------------------------------------------------------------


def test_kinds_of_blocks() -> None:
    sch = Schedule(matmul)
    state = sch.state
    c, d = state.children_of(state.root)
    assert incomplete(state, c, state.root) == "its iterator vk is a reduce iterator"
    assert not_reduction(state, c, state.root) is None
    assert incomplete(state, d, state.root) is None
    assert not_reduction(state, d, state.root) == "it has no init"
    assert not_compact(state, state.root) is None
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    found = not_compact(sch.state, sch.state.root)
    assert found is not None
    assert found[0].name == "C_init"
    assert "C is also written by C_update" in found[1]
