"""rfactor, padding, rolling buffers, copies at a loop, declared accesses: accepted, refused, replayed, and run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import small_programs
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import T, parse

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def rowsum(A: T.Buffer((8, 32), "int32"), B: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 32):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def biggest(A: T.Buffer((8, 32), "int32"), B: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 32):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.min_value("int32")
            B[vi] = T.max(A[vi, vk], B[vi])


@T.prim_func
def argmax(
    index: T.Buffer((8, 32), "int32"), value: T.Buffer((8, 32), "int32"), at: T.Buffer((8,), "int32"),
    best: T.Buffer((8,), "int32"),
):
    for i, k in T.grid(8, 32):
        with T.sblock("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                at[vi] = -1
                best[vi] = T.min_value("int32")
            new_at: T.let[T.int32] = T.Select(best[vi] >= value[vi, vk], at[vi], index[vi, vk])
            new_best: T.let[T.int32] = T.Select(best[vi] >= value[vi, vk], best[vi], value[vi, vk])
            at[vi] = new_at
            best[vi] = new_best


@T.prim_func
def differences(A: T.Buffer((8, 32), "int32"), B: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 32):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] - A[vi, vk]


@T.prim_func
def from_one(A: T.Buffer((8, 32), "int32"), B: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 32):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 1
            B[vi] = B[vi] + A[vi, vk]


matmul = small_programs.matmul(12, 7, 10)


@T.prim_func
def padded(x: T.Buffer((16, 16), "int32"), y: T.Buffer((20, 22), "int32")):
    for i, j in T.grid(20, 22):
        with T.sblock("pad"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.if_then_else(vi >= 2 and vi < 18 and vj >= 3 and vj < 19, x[vi - 2, vj - 3], 5)


@T.prim_func
def unguarded(x: T.Buffer((16,), "int32"), y: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.sblock("pad"):
            vi = T.axis.spatial(16, i)
            y[vi] = T.if_then_else(vi < 16, x[vi], 5)


@T.prim_func
def odd(x: T.Buffer((16,), "int32"), y: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.sblock("pad"):
            vi = T.axis.spatial(16, i)
            y[vi] = T.if_then_else(vi % 2 == 0, x[vi], 5)


@T.prim_func
def pooled(A: T.Buffer((4, 12), "int32"), C: T.Buffer((4, 8), "int32")):
    B = T.sblock_alloc_buffer((4, 10), "int32")
    for c, i, k in T.grid(4, 10, 3):
        with T.sblock("B"):
            vc, vi, vk = T.axis.remap("SSR", [c, i, k])
            with T.init():
                B[vc, vi] = 0
            B[vc, vi] = B[vc, vi] + A[vc, vi + vk]
    for c, i, k in T.grid(4, 8, 3):
        with T.sblock("C"):
            vc, vi, vk = T.axis.remap("SSR", [c, i, k])
            with T.init():
                C[vc, vi] = 0
            C[vc, vi] = C[vc, vi] + B[vc, vi + vk]


def outputs(func: PrimFunc, count: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-50, 50, [s.value for s in b.shape]).astype(b.dtype) for b in func.buffers]
    for out in arrays[len(arrays) - count:]:
        out[...] = 0
    run(func, *arrays)
    return arrays[len(arrays) - count:]


# -- rfactor ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("func", [rowsum, biggest])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_partial_results(func: PrimFunc, axis: int, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(func)
    block = sch.get_block("B")
    k = sch.get_loops(block)[1]
    _, ki = sch.split(k, [None, 8])
    made = sch.rfactor(ki, axis)
    assert sch.get(made).name == "B_rf"
    assert sch.get(block).name == "B"
    shape = [s.value for s in sch.get(made).writes[0].buffer.shape]
    assert shape == ([8, 8])
    assert [sch.get(x).extent.value for x in sch.get_loops(block)] == [8, 8]
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("domain, value", [("(2, 6)", "k"), ("4", "k - 2")])
@pytest.mark.parametrize("axis", [0, -1])
def test_partial_results_of_a_loop_that_begins_elsewhere(
    domain: str, value: str, axis: int, verify_trace_roundtrip: Verify, same: Same,
) -> None:
    func = chain(f"""A: T.Buffer((8, 6), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        for k in range(2, 6):
            with T.sblock("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce({domain}, {value})
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    sch.rfactor("k", axis)
    assert [b.shape[axis].value for b in sch.get(sch.get_block("root")).alloc_buffers] == [4]
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_all_of_a_reduction_in_parallel(same: Same) -> None:
    sch = Schedule(rowsum)
    made = sch.rfactor(sch.get_loops("B")[1], 1)
    assert sch.get(made).init is None
    same(rowsum, sch)


@pytest.mark.parametrize("which", [0, 1])
def test_partial_results_of_a_split_with_a_rest(which: int, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(rowsum)
    i, k = sch.get_loops("B")
    sch.split(i, [None, 3])
    parts = sch.split(k, [None, 5])
    sch.rfactor(parts[which], 1)
    assert sch.script().count("T.where(i_0 * 3 + i_1 < 8") == 2
    same(rowsum, sch)
    verify_trace_roundtrip(sch, rowsum)


def test_partial_argmax(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(argmax)
    _, ki = sch.split(sch.get_loops("argmax")[1], [None, 8])
    sch.rfactor(ki, 1)
    assert "at_rf = T.sblock_alloc_buffer((8, 8), \"int32\")" in sch.script()
    same(argmax, sch)
    verify_trace_roundtrip(sch, argmax)


@pytest.mark.parametrize("func", [differences, from_one])
def test_other_combinations_are_no_reductions(func: PrimFunc) -> None:
    sch = Schedule(func)
    before = sch.script()
    with refused(ScheduleError, "reduction"):
        sch.rfactor(sch.get_loops("B")[1], 0)
    assert sch.script() == before


def test_refused_factors() -> None:
    sch = Schedule(rowsum)
    i, k = sch.get_loops("B")
    with refused(ScheduleError, "reduction"):
        sch.rfactor(i, 0)
    with pytest.raises(ScheduleError, match="factor_axis 2 is not between -2 and 1"):
        sch.rfactor(k, 2)
    sch.unroll(k)
    with refused(ScheduleError, "loop"):
        sch.rfactor(k, 0)
    sch = Schedule(rowsum)
    k0, _ = sch.split(sch.get_loops("B")[1], [9, 5])
    with pytest.raises(ScheduleError, match="it is not known that every iteration of loop k_0 does something"):
        sch.rfactor(k0, 0)
    sch = Schedule(rowsum)
    fused = sch.fuse(*sch.get_loops("B"))
    with refused(ScheduleError, "reduction"):
        sch.rfactor(fused, 0)


# -- padding ---------------------------------------------------------------------------------------------------------------


def test_whole_tiles(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(matmul)
    sch.pad_einsum("C", [4, 4, 4])
    assert [sch.get(x).extent.value for x in sch.get_loops("C")] == [12, 8, 12]
    assert [sch.get(b).name for b in sch.get_child_blocks(sch.get_block("root"))] == ["A_pad", "B_pad", "C", "C_pad"]
    same(matmul, sch)
    verify_trace_roundtrip(sch, matmul)


@pytest.mark.parametrize("func, padding, code", [
    (matmul, [4, 4], "argument"),
    (matmul, [4, 0, 4], "argument"),
    (biggest, [1, 3], "form"),
])
def test_refused_tiles(func: PrimFunc, padding: list[int], code: str) -> None:
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.pad_einsum("C" if func is matmul else "B", padding)


def test_split_iterators_are_padded_in_name(same: Same) -> None:
    sch = Schedule(matmul)
    sch.split(sch.get_loops("C")[2], [None, 5])
    extents = [sch.get(x).extent for x in sch.get_loops("C")]
    sch.pad_einsum("C", [1, 1, 4])
    assert [sch.get(x).extent for x in sch.get_loops("C")] == extents
    assert [iv.dom.extent.value for iv in sch.get(sch.get_block("C")).iter_vars] == [12, 7, 12]
    same(matmul, sch)
    sch.pad_einsum("C", [8, 1, 1])
    same(matmul, sch)


def chain(text: str) -> PrimFunc:
    func = parse("@T.prim_func\ndef main(" + text)
    assert isinstance(func, PrimFunc)
    return func


SHARED = """A: T.Buffer((7, 5), "int32"), D: T.Buffer((7, 5), "int32")):
    C = T.sblock_alloc_buffer((7, 5), "int32")
    for i in range(7):
        for j in range(5):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * 2
        for j in range(5):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] + 1
"""


def test_padding_beside_other_blocks(same: Same) -> None:
    func = chain(SHARED)
    sch = Schedule(func)
    sch.pad_einsum("C", [1, 4])
    assert sch.get(sch.get_loops("C")[1]).extent.value == 8
    same(func, sch)
    for block, padding, reason in (
        ("C", [2, 1], "loop i, which has to run further, holds more than block C"),
        ("D", [1, 4], "C is filled in the loops that block D shares"),
    ):
        with pytest.raises(ScheduleError, match=reason):
            Schedule(func).pad_einsum(block, padding)
    stale = chain(SHARED.replace("    C = T.sblock_alloc_buffer((7, 5), \"int32\")\n", "")
                  .replace('"int32"), D', '"int32"), C: T.Buffer((7, 5), "int32"), D'))
    with refused(ScheduleError, "writer"):
        Schedule(stale).pad_einsum("C", [1, 4])


PART = """A: T.Buffer((8,), "int32"), B: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.sblock("whole"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] * 3
    for i in range(5):
        with T.sblock("part"):
            vi = T.axis.spatial(5, i)
            C[vi] = A[vi] + 1
"""


def test_a_part_is_copied_back(same: Same) -> None:
    func = chain(PART)
    sch = Schedule(func)
    sch.pad_einsum("part", [4])
    same(func, sch)
    less = chain(PART.replace("in range(5)", "in range(3)"))
    with refused(ScheduleError, "domain"):
        Schedule(less).pad_einsum("part", [4])
    less = chain(PART.replace("in range(5)", "in range(3)").replace("(5, i)", "(5, i + 1)"))
    with refused(ScheduleError, "domain"):
        Schedule(less).pad_einsum("part", [4])


SUMS = """A: T.Buffer((6, 7), "int32"), B: T.Buffer((7,), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 7):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + TERM
"""


@pytest.mark.parametrize("term, reason", [
    ("(A[vi, vk] + B[vk])", None),
    ("(A[vi, vk] * 2 - B[vk] * 3)", None),
    ("(A[vi, vk] + 1)", "adds terms that are not zero"),
    ("(A[vi, vk] * 2 + vk)", "adds terms that are not zero"),
    ("A[vi, vk] // B[vk]", "would divide by the zeros"),
])
def test_what_zeros_add(term: str, reason: str | None, same: Same) -> None:
    func = chain(SUMS.replace("TERM", term))
    sch = Schedule(func)
    if reason is None:
        sch.pad_einsum("C", [4, 4])
        return same(func, sch)
    with pytest.raises(ScheduleError, match=reason):
        sch.pad_einsum("C", [4, 4])
    return None


def test_domains_that_begin_elsewhere(same: Same) -> None:
    later = SUMS.replace("TERM", "A[vi, vk] * B[vk]").replace("7", "9").replace("T.grid(6, 9)", "T.grid(6, 7)")
    func = chain(later.replace('vi, vk = T.axis.remap("SR", [i, k])', """vi = T.axis.spatial(6, i)
            vk = T.axis.reduce((2, 9), k + 2)"""))
    with refused(ScheduleError, "domain"):
        Schedule(func).pad_einsum("C", [1, 4])
    sch = Schedule(func)
    sch.pad_einsum("C", [4, 7])  # 7 values are whole tiles as they are
    same(func, sch)


def test_operands_that_go_on_past_the_domain(same: Same) -> None:
    longer = SUMS.replace("TERM", "A[vi, vk] * B[vk]").replace('(6, 7), "int32"', '(6, 8), "int32"')
    func = chain(longer)
    sch = Schedule(func)
    sch.pad_einsum("C", [4, 4])  # B continues with zeros
    same(func, sch)
    with refused(ScheduleError, "form"):
        Schedule(chain(longer.replace("* B[vk]", "* 3"))).pad_einsum("C", [4, 4])


@pytest.mark.parametrize("level", [0, 1])
def test_constant_and_content_apart(level: int, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(padded)
    block = sch.get_block("pad")
    loop = sch.get_loops(block)[level]
    assert sch.can_decompose_padding(block, loop)
    made = sch.decompose_padding(block, loop)
    assert sch.get(made).name == "pad_pad_const"
    assert "T.if_then_else" not in sch.script()
    if level == 0:
        assert [sch.get(x).extent.value for x in sch.get_loops(block)] == [16, 16]
    same(padded, sch)
    verify_trace_roundtrip(sch, padded)


@pytest.mark.parametrize("func, code", [
    (unguarded, "form"), (odd, "domain"), (rowsum, "form"),
])
def test_refused_decompositions(func: PrimFunc, code: str) -> None:
    sch = Schedule(func)
    name = "B" if func is rowsum else "pad"
    loop = sch.get_loops(name)[0]
    assert not sch.can_decompose_padding(name, loop)
    with refused(ScheduleError, code):
        sch.decompose_padding(name, loop)


# -- rolling_buffer ----------------------------------------------------------------------------------------------------------


def rolled(kind: str = "serial") -> Schedule:
    sch = Schedule(pooled)
    i0, _ = sch.split(sch.get_loops("C")[1], [2, 4])
    sch.compute_at("B", i0)
    if kind == "unrolled":
        sch.unroll(i0)
    elif kind == "parallel":
        sch.parallel(i0)
    return sch


@pytest.mark.parametrize("kind", ["serial", "unrolled"])
def test_a_window_moves_with_the_tile(kind: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = rolled(kind)
    sch.rolling_buffer("B", 0)
    text = sch.script()
    assert "B = T.sblock_alloc_buffer((4, 6), \"int32\")" in text
    assert "T.where(i_0 < 1 or 2 <= ax0)" in text
    same(pooled, sch)
    verify_trace_roundtrip(sch, pooled)


def test_refused_windows() -> None:
    with pytest.raises(ScheduleError, match="does not run from 0 in order"):
        rolled("parallel").rolling_buffer("B", 0)
    with refused(ScheduleError, "place"):
        Schedule(pooled).rolling_buffer("B", 0)
    with refused(ScheduleError, "output"):
        rolled().rolling_buffer("C", 0)
    sch = Schedule(pooled)
    sch.compute_at("B", sch.get_loops("C")[0])
    with refused(ScheduleError, "form"):
        sch.rolling_buffer("B", 0)


def test_tiles_that_leave_elements_out_are_no_windows(verify_trace_roundtrip: Verify, same: Same) -> None:
    def split(factor: int) -> Schedule:
        sch = Schedule(pooled)
        _, i, _ = sch.get_loops("C")
        io, _ = sch.split(i, [None, 4])
        sch.compute_at("B", io)
        tile = sch.get_loops("B")[2]
        sch.split(tile, [None, factor])
        return sch

    assert "T.where" in split(4).script()
    with pytest.raises(ScheduleError, match=r"block B leaves elements of a tile out \(.* < 6\)"):
        split(4).rolling_buffer("B", 0)
    sch = split(3)
    sch.rolling_buffer("B", 0)
    same(pooled, sch)
    verify_trace_roundtrip(sch, pooled)


def test_a_loop_moves_a_window_along_one_dimension(same: Same) -> None:
    """What tiles on a diagonal share is a corner, and no slice of either."""
    text = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 3
    for i, k in T.grid(4, 3):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + B[{}, vi + vk]
"""
    for row, fits in (("vi", False), ("vi + vk", False), ("5", True)):
        func = parse(text.format(row))
        sch = Schedule(func)
        sch.compute_at("B", sch.get_loops("C")[0])
        if fits:
            sch.rolling_buffer("B", 0)
        else:
            with refused(ScheduleError, "index"):
                sch.rolling_buffer("B", 0)
        same(func, sch)


def test_a_copy_of_a_whole_window_does_not_roll(same: Same) -> None:
    def copied(at: int) -> Schedule:
        sch = Schedule(pooled)
        loops = sch.get_loops("C")
        if at < 0:
            sch.compute_at(sch.cache_read("C", "B", "local"), loops[1])
        else:
            sch.read_at(loops[at], "C", "B", "local")
        return sch

    with pytest.raises(ScheduleError, match="block B_local writes several elements of dimension 1 of B_local at once"):
        copied(1).rolling_buffer("B_local", 0)
    sch = copied(-1)
    sch.rolling_buffer("B_local", 0)
    same(pooled, sch)


# -- copies at a loop, declared accesses ---------------------------------------------------------------------------------------


def test_copies_at_a_loop(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(matmul)
    i, _, _ = sch.get_loops("C")
    copy = sch.read_at(i, "C", 0, "shared")
    store = sch.write_at(i, "C", 0, "local")
    assert sch.get(copy).annotations == {"auto_copy": True}
    assert [sch.get(b).name for b in sch.get_child_blocks(i)] == ["A_shared", "C", "C_local"]
    assert sch.get(store).writes[0].buffer.name == "C"
    same(matmul, sch)
    verify_trace_roundtrip(sch, matmul)


@pytest.mark.parametrize(("scope", "copied"), [("global", "1, 10"), ("shared", "12, 10"), ("local", "1, 10")])
def test_copies_under_threads(scope: str, copied: str, same: Same) -> None:
    """Threads share what is in shared memory: each of them copies what all of them need."""
    sch = Schedule(matmul)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "vthread")
    sch.read_at(j, "C", 0, scope)
    assert f"for ax0, ax1 in T.grid({copied})" in sch.script()
    same(matmul, sch)


def test_a_copy_stores_no_more_than_its_block_does() -> None:
    sch = Schedule(matmul)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    sch.loop_partition(sch.get_loops("C_init")[1], [3, None])
    name = next(r.block.name for r in sch.state.realizes.values() if r.block.name.endswith("init1"))
    declared = sch.get(sch.get_block(name)).writes[0].region[0].extent
    assert declared.value == 12  # all rows, of which an instance stores one
    with pytest.raises(ScheduleError, match=r"not known that loop .* writes all of the region of C"):
        sch.write_at(sch.get_loops(name)[0], name, 0, "local")


def test_refused_copies() -> None:
    sch = Schedule(matmul)
    block = sch.get_block("C")
    i, _, k = sch.get_loops(block)
    with refused(ScheduleError, "argument"):
        sch.read_at(i, block, 0, "moon")
    with pytest.raises(ScheduleError, match="has no read buffer 5"):
        sch.read_at(i, block, 5, "shared")
    sch.decompose_reduction(block, k)
    with pytest.raises(ScheduleError, match="is also written by C_init, outside of loop k"):
        sch.write_at(k, block, 0, "local")
    sch = Schedule(pooled)
    with refused(ScheduleError, "place"):
        sch.read_at(sch.get_loops("B")[0], "C", 0, "shared")


def test_declared_and_hidden_accesses(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(pooled)
    sch.annotate_buffer_access("C", 0, "read", lambda c, i, k: (c, (i, i + 3)))
    sch.annotate_buffer_access("C", 0, "read", lambda c, i, k: ((c, c + 1), (i - 1, i + 3)))
    node = sch.get(sch.get_block("C"))
    assert "T.reads(B[vc, vi - 1:vi - 1 + 4])" in sch.script()
    assert node.annotations["explicit_read_region"] == [0]
    sch.unsafe_hide_buffer_access("B", "read", [0])
    assert sch.get(sch.get_block("B")).reads == ()
    same(pooled, sch, sound=False)
    verify_trace_roundtrip(sch, pooled)


def test_refused_declarations() -> None:
    sch = Schedule(pooled)
    with pytest.raises(ScheduleError, match="has no read buffer 2"):
        sch.annotate_buffer_access("C", 2, "read", lambda c, i, k: (c, i))
    with pytest.raises(ScheduleError, match="gives 2 ends, 4 are needed"):
        sch.annotate_buffer_access("C", 0, "read", lambda c, i, k: (c,))
    with pytest.raises(ScheduleError, match="is 'read' or 'write', not 'both'"):
        sch.unsafe_hide_buffer_access("B", "both", [0])
    with pytest.raises(ScheduleError, match="has no write buffer 1"):
        sch.unsafe_hide_buffer_access("B", "write", [1])


REPEATED = """A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    for r, i in T.grid(1, 6):
        with T.sblock("B"):
            vr, vi = T.axis.remap("SS", [r, i])
            B[vi] = A[vi, 0] + OTHER
"""


def test_stores_that_are_repeated(same: Same) -> None:
    func = chain(REPEATED.replace("OTHER", "vi"))
    sch = Schedule(func)
    sch.pad_einsum("B", [4, 4])
    same(func, sch)
    assert "A_pad = T.sblock_alloc_buffer((8, 1)" in sch.script()  # the column that is used
    with refused(ScheduleError, "index"):
        Schedule(chain(REPEATED.replace("OTHER", "vr"))).pad_einsum("B", [4, 4])


FRAME = """A: T.Buffer((5, 6), "int32"), B: T.Buffer((8, 9), "int32")):
    for i, j in T.grid(8, 9):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vi >= 2 and vi < 7 and vj >= 1 and vj < 7, A[vi - 2, vj - 1], 3)
"""


@pytest.mark.parametrize("factors", [[72], [9, 8], [10, 8], [2, 5, 8]])
def test_insides_that_are_no_boxes_of_loops(factors: list[int], same: Same) -> None:
    func = chain(FRAME)
    sch = Schedule(func)
    fused = sch.fuse(*sch.get_loops("B"))
    loops = sch.split(fused, factors) if len(factors) > 1 else [fused]
    filling = sch.decompose_padding("B", loops[0])
    same(func, sch)
    assert "if_then_else" not in sch.script()
    with refused(ScheduleError, "form"):
        sch.decompose_padding(filling, sch.get_loops(filling)[0])
