"""Layouts of buffers and of block domains, and reindexed operands: accepted, refused, replayed, and run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import small_programs
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IntImm, IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import AXIS_SEPARATOR, IndexMap, Schedule, Trace
from autosched.script import T, parse

Same = Callable[..., None]

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def elementwise(A: T.Buffer((32, 48), "int32"), C: T.Buffer((32, 48), "int32")):
    B = T.sblock_alloc_buffer((32, 48), "int32")
    for i, j in T.grid(32, 48):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(32, 48):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1


@T.prim_func
def fourteen(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.sblock_alloc_buffer((14,), "int32")
    for i in range(14):
        with T.sblock("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi] * 2
    for i in range(14):
        with T.sblock("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi] + 1


@T.prim_func
def two_effects(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.sblock_alloc_buffer((14,), "int32")
    D = T.sblock_alloc_buffer((14,), "int32")
    for i in range(14):
        with T.sblock("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi] * 2
            D[vi] = A[vi] + 1
    for i in range(14):
        with T.sblock("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi] + D[vi]


matmul = small_programs.matmul(16, 32, 24)


@T.prim_func
def viewed(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            V = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), "int32", offset_factor=1)
            for k in range(4):
                V[k] = A[vi * 4 + k]
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi]


@T.prim_func
def handed_over(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    with T.sblock("C"):
        T.reads(B[0:16])
        T.writes(C[0:16])
        T.call_extern("int32", "copy", C.data, B.data)


@T.prim_func
def transposed(A: T.Buffer((16, 24), "int32"), B: T.Buffer((24, 16), "int32")):
    for i, j in T.grid(24, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 2


@T.prim_func
def two_reads(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32")):
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vj, vi]


def outputs(func: PrimFunc, arrays: list[np.ndarray]) -> np.ndarray:
    copies = [a.copy() for a in arrays]
    run(func, *copies)
    return copies[-1]


def arrays_of(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = [rng.integers(-50, 50, [s.value for s in b.shape]).astype(b.dtype) for b in func.buffers]
    found[-1][...] = 0
    return found


# -- transform_layout ----------------------------------------------------------------------------------------------------


def test_an_intermediate_buffer_in_tiles(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(elementwise)
    sch.transform_layout("B", "B", lambda m, n: (m // 16, n // 16, m % 16, n % 16))
    text = sch.script()
    assert "B = T.sblock_alloc_buffer((2, 3, 16, 16), \"int32\")" in text
    assert "T.writes(B[vi // 16, vj // 16, vi % 16, vj % 16])" in text
    assert "C[vi, vj] = B[vi // 16, vj // 16, vi % 16, vj % 16] + 1" in text
    same(elementwise, sch)
    verify_trace_roundtrip(sch, elementwise)


@pytest.mark.parametrize("block, buffer", [("B", ("read", 0)), ("B", "A"), ("C", ("write", 0))])
def test_a_parameter_changes_its_shape(block: str, buffer: object, verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(elementwise)
    sch.transform_layout(block, buffer, lambda m, n: (n // 16, m, n % 16))
    new = sch.func.buffers[0 if block == "B" else 1]
    assert [s.value for s in new.shape] == [3, 32, 16]
    arrays = arrays_of(elementwise)
    wanted = outputs(elementwise, arrays)
    layout = IndexMap.from_func(lambda m, n: (n // 16, m, n % 16), 2)
    if block == "B":
        assert np.array_equal(outputs(sch.func, [layout.map_ndarray(arrays[0]), arrays[1]]), wanted)
    else:
        got = outputs(sch.func, [arrays[0], np.zeros((3, 32, 16), "int32")])
        assert np.array_equal(got, layout.map_ndarray(wanted))
    verify_trace_roundtrip(sch, elementwise)


def test_indices_simplify_under_tiles(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(elementwise)
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 16])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, i1, j1)
    outer = sch.blockize(i1)
    sch.transform_layout(sch.get_block("B"), ("write", 0), lambda m, n: (m // 16, n // 16, m % 16, n % 16))
    assert "B[vi_o, vj_o, vi_i, vj_i]" in sch.script()
    assert str(sch.get(outer).reads[0].region[2].extent.value) == "16"
    same(elementwise, sch)
    verify_trace_roundtrip(sch, elementwise)


def test_padding_by_the_nest_that_fills_the_buffer(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(fourteen)
    sch.transform_layout("B", "B", lambda i: [i // 4, i % 4], pad_value=0)
    text = sch.script()
    assert "B = T.sblock_alloc_buffer((4, 4), \"int32\")" in text
    assert "T.grid(4, 4)" in text and "T.if_then_else" in text
    same(fourteen, sch)
    verify_trace_roundtrip(sch, fourteen)


def test_padding_that_depends_on_the_index(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(fourteen)
    sch.transform_layout("B", "B", lambda i: [i // 4, i % 4], pad_value=lambda i, j: i + j)
    assert "v_axis0 + v_axis1, A[v_axis0 * 4 + v_axis1] * 2" in sch.script()
    same(fourteen, sch)
    verify_trace_roundtrip(sch, fourteen)


def test_padding_by_a_block_of_its_own(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(two_effects)
    sch.transform_layout("B", "B", lambda i: [i // 4, i % 4], pad_value=7)
    assert sch.get(sch.get_block("buffer_B_padding")).writes[0].buffer.name == "B"
    assert "T.where(axis0 == 3 and 2 <= axis1)" in sch.script()
    same(two_effects, sch)
    verify_trace_roundtrip(sch, two_effects)


def test_padding_of_an_input_is_assumed(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(fourteen)
    sch.transform_layout("B", "A", lambda i: [i // 4, i % 4], pad_value=42)
    assert "T.assume(not (" in sch.script()
    data = np.arange(14, dtype="int32")
    padded = np.append(data, [42, 42]).astype("int32").reshape(4, 4)
    assert np.array_equal(outputs(sch.func, [padded, np.zeros(14, "int32")]), data * 2 + 1)
    verify_trace_roundtrip(sch, fourteen)


def test_unchecked_maps(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(fourteen)
    sch.transform_layout("B", "B", lambda i: [i // 4, i % 4], assume_injective_transform=True)
    assert "T.grid" not in sch.script()
    same(fourteen, sch)
    verify_trace_roundtrip(sch, fourteen)


def test_axis_separators_are_kept_or_replaced(same: Same) -> None:
    sch = Schedule(elementwise)
    sch.transform_layout("B", "B", lambda i, j: [i % 2, AXIS_SEPARATOR, i // 2, j])
    assert sch.get(sch.get_block("B")).writes[0].buffer.axis_separators == (1,)
    sch.transform_layout("B", "B", lambda b, i, j: [b, j, i])
    assert sch.get(sch.get_block("B")).writes[0].buffer.axis_separators == (1,)
    sch.transform_layout("B", "B", lambda b, j, i: [b * 48 + j, i])
    assert sch.get(sch.get_block("B")).writes[0].buffer.axis_separators == ()
    same(elementwise, sch)


@pytest.mark.parametrize("index_map", [
    lambda i, j: [AXIS_SEPARATOR, i, j], lambda i, j: [i, j, AXIS_SEPARATOR], lambda i, j: [i, AXIS_SEPARATOR, AXIS_SEPARATOR, j],
])
def test_axis_separators_stand_between_dimensions(index_map: Callable[..., object]) -> None:
    sch = Schedule(elementwise)
    with pytest.raises(ScheduleError, match=r"axis separator \d (is not inside|does not come after)"):
        sch.transform_layout("B", "B", index_map)


@pytest.mark.parametrize("arguments, code", [
    ({"index_map": lambda i: [i // 4, i % 4]}, "layout"),
    ({"index_map": lambda i: [i // 4, i % 4], "pad_value": IntImm(0, "int8")}, "argument"),
    ({"index_map": lambda i: [i // 4, i % 4], "pad_value": 0.5}, "argument"),
    ({"index_map": lambda i: [i // 4, i % 4], "pad_value": lambda i, j: (i, j)}, "argument"),
    ({"index_map": lambda i: [i // 2]}, "layout"),
    ({"index_map": lambda i: [i % 2, i // 4]}, "layout"),
    ({"index_map": lambda i, j: [i, j]}, "argument"),
    ({"index_map": lambda i: [i], "buffer": "Z"}, "name"),
    ({"index_map": lambda i: [i], "buffer": ("read", 3)}, "argument"),
])
def test_refused_layouts(arguments: dict, code: str) -> None:
    sch = Schedule(fourteen)
    before = sch.script()
    with refused(ScheduleError, code):
        sch.transform_layout("B", **{"buffer": "B", **arguments})
    assert sch.script() == before
    assert not [i for i in sch.trace.insts if i.op == "transform_layout"]


def test_a_padding_value_may_not_read_another_buffer() -> None:
    sch = Schedule(fourteen)
    other = sch.get(sch.get_block("C")).writes[0].buffer
    with pytest.raises(ScheduleError, match="pad_value reads C"):
        sch.transform_layout("B", "B", lambda i: [i // 4, i % 4], pad_value=lambda i, j: other[0])


@pytest.mark.parametrize("func", [viewed, handed_over])
def test_views_and_addresses_fix_a_layout(func: PrimFunc) -> None:
    with refused(ScheduleError, "address"):
        Schedule(func).transform_layout("B", "B", lambda i: [i // 8, i % 8])
    Schedule(func).transform_layout("B", "A", lambda i: [i // 8, i % 8])


# -- transform_block_layout ----------------------------------------------------------------------------------------------


def test_block_domains(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(matmul)
    sch.transform_block_layout("C", lambda i, j, k: (i * 32 + j, k))
    assert [sch.get(x).extent.value for x in sch.get_loops("C")] == [512, 24]
    assert "C[v0 // 32, v0 % 32] = C[v0 // 32, v0 % 32] + A[v0 // 32, v1] * B[v1, v0 % 32]" in sch.script()
    same(matmul, sch)
    verify_trace_roundtrip(sch, matmul)


@pytest.mark.parametrize("index_map, code", [
    (lambda i, j, k: (i + j, k), "layout"),
    (lambda i, j, k: (i, j * 24 + k), "layout"),
    (lambda i, j: (i, j), "argument"),
])
def test_refused_domains(index_map: Callable, code: str) -> None:
    with refused(ScheduleError, code):
        Schedule(matmul).transform_block_layout("C", index_map)


def test_domains_of_split_blocks_are_refused() -> None:
    sch = Schedule(matmul)
    sch.split(sch.get_loops("C")[0], [None, 4])
    with refused(ScheduleError, "index"):
        sch.transform_block_layout("C", lambda i, j, k: (i * 32 + j, k))


# -- reindex -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["A", ("read", 0)])
def test_reindexed_operands(buffer: object, verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(transposed)
    stage = sch.reindex("B", buffer)
    assert "A_reindex[v0, v1] = A[v1, v0]" in sch.script()
    assert "B[vi, vj] = A_reindex[vi, vj] * 2" in sch.script()
    assert [b.name for b in (sch.get(x) for x in sch.get_consumers(stage))] == ["B"]
    same(transposed, sch)
    verify_trace_roundtrip(sch, transposed)


def test_reindexed_results(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(matmul)
    sch.reindex("C", ("write", 0))
    sch.reindex("C", ("read", 1))
    assert "C[v0, v1] = C_reindex[v0, v1]" in sch.script()
    assert "B_reindex[v0, v1] = B[v1, v0]" in sch.script()
    same(matmul, sch)
    verify_trace_roundtrip(sch, matmul)


def test_refused_reindexing() -> None:
    with refused(ScheduleError, "reader"):
        Schedule(two_reads).reindex("B", "A")
    sch = Schedule(matmul)
    block = sch.get_block("C")
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    with refused(ScheduleError, "writer"):
        sch.reindex(block, ("write", 0))
    sch = Schedule(matmul)
    outer = sch.blockize(sch.get_loops("C")[1])
    with refused(ScheduleError, "place"):
        sch.reindex(outer, ("read", 0))


def test_padding_values_of_other_types_are_stored() -> None:
    @T.prim_func
    def floats(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
        B = T.sblock_alloc_buffer((5,), "float32")
        for i in range(5):
            with T.sblock("B"):
                vi = T.axis.spatial(5, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(5):
            with T.sblock("C"):
                vi = T.axis.spatial(5, i)
                C[vi] = B[vi] + T.float32(1)

    for value in (0.5, lambda i, j: i.astype("float32") * 0.5):
        sch = Schedule(floats)
        sch.transform_layout("B", "B", lambda i: (i // 4, i % 4), pad_value=value)
        again = Schedule(floats)
        Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), again)
        assert again.func == sch.func
        a = np.arange(5, dtype="float32")
        assert np.array_equal(run(sch.func, a, np.zeros(5, "float32"))["C"], a * 2 + 1)


@T.prim_func
def margins(A: T.Buffer((1, 8), "int32"), C: T.Buffer((4, 8), "int32"), D: T.Buffer((4, 8), "int32")):
    B = T.sblock_alloc_buffer((1, 8), "int32")
    for i, j in T.grid(1, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(4, 8):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vi >= 1 and vi < 2, B[vi - 1, vj], 0)
    for i, j in T.grid(4, 8):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.if_then_else(vi < 1, B[vi, vj], 0)


def test_conditions_tell_indices() -> None:
    sch = Schedule(margins)
    sch.transform_layout("B", "B", lambda i, j: (j // 4, i, j % 4))
    text = sch.script()
    assert "B[vj // 4, 0, vj % 4]" in text  # a sum that the condition leaves one value
    assert "B[vj // 4, vi, vj % 4]" in text  # a variable stays one


@T.prim_func
def tiled_by(A: T.Buffer((16,), "int32"), n: T.int32, C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + 1


@pytest.mark.parametrize("by", [lambda i, n: (i // n, i % n), lambda i, n: (i // (n * 2), i % (n * 2))])
def test_padding_by_a_symbolic_factor(by: Callable[..., tuple[Any, ...]]) -> None:
    n = tiled_by.params[1]
    sch = Schedule(tiled_by)
    sch.transform_layout("B", "B", lambda i: by(i, n), pad_value=7)
    A = np.arange(16, dtype="int32")
    for size in range(1, 20):
        C = np.zeros(16, "int32")
        run(sch.func, A, size, C)
        assert np.array_equal(C, 2 * A + 1), size
    with refused(ScheduleError, "layout"):
        Schedule(tiled_by).transform_layout("B", "B", lambda i: by(i, n))


@pytest.mark.parametrize("by", [
    lambda i, n: (i % n,), lambda i, n: (i // n,), lambda i, n: (i // n, i % (n + 1)), lambda i, n: (i // n, (i + 1) % n),
    lambda i, n: (i // n, i % (n * 2)),
])
def test_symbolic_maps_that_lose_elements(by: Callable[..., tuple[Any, ...]]) -> None:
    n = tiled_by.params[1]
    with refused(ScheduleError, "layout"):
        Schedule(tiled_by).transform_layout("B", "B", lambda i: by(i, n), pad_value=7)


WINDOWS = """
@T.prim_func
def f(A: T.Buffer((6, 12), "int32"), C: T.Buffer((4, 10), "int32")):
    B = T.alloc_buffer((72,), "int32")
    for i, j in T.grid(6, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 12 + vj] = A[vi, vj]
    for i, j, p, q in T.grid(4, 10, 3, 3):
        with T.block("C"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + B[(vi + vp) * 12 + vj + vq]
"""


@pytest.mark.parametrize(("width", "found"), [
    (12, "B[vi + vp, vj + vq]"), (6, "B[vi * 2 + vp * 2 + (vj + vq) // 6, (vj + vq) % 6]"),
])
def test_digits_of_overlapping_windows(same, width: int, found: str) -> None:
    func = parse(WINDOWS)
    sch = Schedule(func)
    sch.transform_layout("B", ("write", 0), lambda i: (i // width, i % width))
    assert found in sch.script()
    same(func, sch)


PLACES = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), J: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    I = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("I"):
            vi = T.axis.spatial(8, i)
            I[vi] = T.min(T.max(J[vi], 0), 7)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, {0})
            {1}
"""


@pytest.mark.parametrize("use", [
    ("i", "C[vi] = A[T.min(T.max(I[vi], 0), 7)] * 2"), ("i", "C[T.min(T.max(I[vi], 0), 7)] = A[vi] * 2"),
    ("I[i]", "C[vi] = A[vi] * 2"), ("i", "T.where(I[i] > 2)\n            C[vi] = A[vi] * 2"),
])
@pytest.mark.parametrize("pad", [None, 0])
@pytest.mark.parametrize("check", [True, False])
def test_layouts_of_what_says_where_others_are_read(use: tuple[str, str], pad: int | None, check: bool, same: Same) -> None:
    func = parse(PLACES.format(*use))
    sch = Schedule(func, enable_check=check)
    sch.transform_layout("I", ("write", 0), lambda i: (i // 4, i % 4), pad_value=pad)
    assert "I_1 = T.sblock_alloc_buffer((2, 4)" in sch.script()
    same(func, sch)


UNIT = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), C: T.Buffer(({0},), "int32")):
    B = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] * 2
    for i in range({0}):
        with T.block("C"):
            vi = T.axis.spatial({0}, i)
            C[vi] = T.if_then_else(vi >= 1, B[vi - 1], 5) + T.if_then_else(vi < 3, B[vi + 1], 6)
"""


@pytest.mark.parametrize("step", [
    lambda s: s.transform_block_layout("C", lambda a: (a,)),
    lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 2, i % 2)),
])
@pytest.mark.parametrize("extent", [1, 2])
def test_choices_by_iterators_of_one_value(step: Callable[[Schedule], object], extent: int, same: Same) -> None:
    """Their value stands in the indices, and what is never taken would be out of bounds."""
    func = parse(UNIT.format(extent))
    sch = Schedule(func)
    step(sch)
    assert ("vi >= 1" in sch.script() or "v0 >= 1" in sch.script()) == (extent > 1)
    same(func, sch)
