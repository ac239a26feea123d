"""Larger domains in place, and stages split off a value."""

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
def dense(A: T.Buffer((3, 10), "int8"), W: T.Buffer((5, 10), "int8"), b: T.Buffer((5,), "int32"), D: T.Buffer((3, 5), "int8")):
    C = T.alloc_buffer((3, 5), "int32")
    for i, j, k in T.grid(3, 5, 10):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(3, 5):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.Cast("int8", T.max(T.shift_right(C[vi, vj], 4) + b[vj], 0))


def padded(sch: Schedule) -> None:
    for index, factors in ((0, [1, 16]), (1, [4, 16])):
        sch.pad_block(sch.cache_read("C", index, "global"), factors)


def test_copies_fill_with_zeros_and_sums_run_further(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(dense)
    padded(sch)
    sch.pad_block("C", [2, 4, 16])
    assert "W_global[v0, v1] = T.if_then_else(v0 < 5 and v1 < 10, W[v0, v1], T.int8(0))" in sch.script()
    assert 'C = T.sblock_alloc_buffer((4, 8), "int32")' in sch.script()
    assert "for i, j, k in T.grid(4, 8, 16)" in sch.script()
    same(dense, sch)
    verify_trace_roundtrip(sch, dense)
    before = sch.script()
    sch.pad_block("C", [2, 4, 16])  # a multiple already
    assert sch.script() == before


@pytest.mark.filterwarnings("ignore:.*is added 10 times")
def test_terms_must_be_zero(same: Same) -> None:
    sch = Schedule(dense)
    with refused(ScheduleError, "output"):
        sch.pad_block("D", [1, 16])
    # A guard on one operand is enough, and the other then is read inside as well.
    sch.pad_block("C", [1, 1, 16])
    assert "T.if_then_else(vk < 10, A[vi, vk], T.int8(0))" in sch.script()
    same(dense, sch)
    text = dense.script().replace('T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])', '(T.Cast("int32", A[vi, vk]) + 1)')
    other = Schedule(parse(text))
    with pytest.raises(ScheduleError, match="for vk from 10 on are not known to be zero"):
        other.pad_block("C", [1, 1, 16])
    other.pad_block("C", [1, 16, 1])
    same(parse(text), other)


def test_a_copy_that_is_not_filled_with_zeros(same: Same) -> None:
    # The operand's copy has room, and what is there is no zero.
    alloc = "C = T.sblock_alloc_buffer((3, 5)"
    text = dense.script().replace(alloc, f'P = T.sblock_alloc_buffer((3, 16), "int8")\n    {alloc}')
    text = text.replace("    for i, j, k in", '''    for i, k in T.grid(3, 16):
        with T.sblock("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = T.if_then_else(vk < 12, A[vi, vk % 10], T.int8(0))
    for i, j, k in''').replace("A[vi, vk])", "P[vi, vk])").replace("T.reads(A[vi, vk]", "T.reads(P[vi, vk]")
    func = parse(text)
    sch = Schedule(func)
    sch.pad_block(sch.cache_read("C", 1, "global"), [1, 1])
    with refused(ScheduleError, "form"):
        Schedule(parse(text.replace("W[vj, vk]", "W[vj, 0]"))).pad_block("C", [1, 1, 16])
    sch.pad_block("C", [1, 1, 16])
    same(func, sch)


CHAIN = """
@T.prim_func
def f(X: T.Buffer((3, 10), "int8"), W: T.Buffer((10, 8), "int8"), b: T.Buffer((10,), "int32"), D: T.Buffer((3, 8), "int32")):
    S = T.alloc_buffer((3, 10), "int32")
    Y = T.alloc_buffer((3, 10), "int8")
    Z = T.alloc_buffer((10, 8), "int8")
    for i, j, k in T.grid(3, 10, 10):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = %s
            S[vi, vj] = S[vi, vj] + T.Cast("int32", X[vi, vk]) * T.Cast("int32", W[vj, vk %% 8])
    for i, j in T.grid(3, 10):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.Cast("int8", T.max(T.min((S[vi, vj] + %s) >> 4, 127), %s))
    for i, j in T.grid(10, 8):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = T.max(W[vi, vj], T.int8(3))
    for i, j, k in T.grid(3, 8, 10):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = 0
            D[vi, vj] = D[vi, vj] + T.Cast("int32", Y[vi, vk]) * T.Cast("int32", Z[vk, vj])
"""


@pytest.mark.parametrize(("init", "addend", "least", "zero"), [
    ("0", "15", "-128", True), ("0", "16", "-128", False), ("0", "0", "0", True), ("0", "0", "1", False),
    ("0", "b[vj]", "-128", True), ("1", "0", "-128", False),  # what is read beyond b counts as 0; a sum of 1 is scaled, not zero
])
def test_zeros_are_followed_through_sums_and_stages(init: str, addend: str, least: str, zero: bool, same: Same) -> None:
    """Beyond the weight's rows sums are what they start with; what stages make of that is zero, or not."""
    func = parse(CHAIN % (init, addend, least))
    sch = Schedule(func)
    sch.pad_block(sch.cache_read("S", 1, "global"), [16, 1])
    for name in ("S", "Y", "Z"):
        sch.pad_block(name, [1, 16, 1] if name == "S" else [16, 1] if name == "Z" else [1, 16])
    if not zero:
        with refused(ScheduleError, "form"):
            sch.pad_block("D", [1, 1, 16])
        return
    sch.pad_block("D", [1, 1, 16])
    same(func, sch)


@pytest.mark.parametrize(("loops", "where", "zero"), [
    ("16, 8", "", True), ("12, 8", "", False), ("16, 8", "T.where(i < 12)", False),
])
def test_zeros_that_are_not_everywhere(loops: str, where: str, zero: bool) -> None:
    """What a block leaves out of its buffer is no zero."""
    text = f"""
@T.prim_func
def f(X: T.Buffer((3, 10), "int8"), D: T.Buffer((3, 8), "int32")):
    Z = T.alloc_buffer((16, 8), "int8")
    for i, j in T.grid({loops}):
        with T.block("Z"):
            vi = T.axis.spatial({loops.split(",")[0]}, i)
            vj = T.axis.spatial(8, j)
            {where or "T.reads()"}
            Z[vi, vj] = T.int8(0)
    for i, j, k in T.grid(3, 8, 10):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = 0
            D[vi, vj] = D[vi, vj] + (T.Cast("int32", X[vi, vk]) + 1) * T.Cast("int32", Z[vk, vj])
"""
    sch = Schedule(parse(text))
    if zero:
        sch.pad_block("D", [1, 1, 16])
        return
    with refused(ScheduleError, "form"):
        sch.pad_block("D", [1, 1, 16])


def test_what_is_new_may_be_zero(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(CHAIN % ("0", "b[vj]", "-128"))
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.pad_block("S", [1, 16, 1], True)
    sch.pad_block("S", [1, 16, 1])
    sch.pad_block("Y", [1, 16], True)
    assert "Y[vi, vj] = T.if_then_else(vj < 10, T.Cast(\"int8\", " in sch.script()
    sch.pad_block("Z", [16, 1])
    sch.pad_block("D", [1, 1, 16])
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_blocks_that_are_not_alone() -> None:
    sch = Schedule(dense)
    with pytest.raises(ScheduleError, match="list of 3 positive factors"):
        sch.pad_block("C", [1, 1])
    sch.split(sch.get_loops("C")[2], [None, 5])
    with refused(ScheduleError, "index"):
        sch.pad_block("C", [1, 4, 1])


def test_a_part_of_a_value_becomes_a_stage(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(dense)
    part = sch.decompose_value("D", [0])
    assert sch.get(part).name == "D_part"
    assert "D[vi, vj] = T.Cast(\"int8\", D_part[vi, vj])" in sch.script()
    inner = sch.decompose_value(part, [0])
    assert "D_part_part[vi, vj] = T.shift_right(C[vi, vj], 4) + b[vj]" in sch.script()
    same(dense, sch)
    verify_trace_roundtrip(sch, dense)
    sch.compute_inline(inner)
    sch.compute_inline("D_part")
    assert sch.func == dense


@pytest.mark.parametrize(("block", "path", "code"), [
    ("D", [1], "argument"), ("D", [0, 1], "form"),
    ("C", [0], "form"), ("D", [0, 0, 1, 0], "argument"),
])
def test_no_such_part(block: str, path: list[int], code: str) -> None:
    sch = Schedule(dense)
    with refused(ScheduleError, code):
        sch.decompose_value(block, path)
    assert sch.func == dense


BY_ROWS = '''
@T.prim_func
def f(A: T.Buffer((1, 8), "int32"), B: T.Buffer((6, 8), "int32"), C: T.Buffer((1, 6, 8), "int32")):
    for u, i, j in T.grid(1, 6, 8):
        with T.block("C"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            C[vu, vi, vj] = B[vi, vj] - %s
'''


BELOW_ZERO = '''
@T.prim_func
def f(B: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi = T.axis.spatial((-4, 2), i - 4)
            vj = T.axis.spatial((2, 10), j + 2)
            C[vi + 4, vj - 2] = B[vi + 4, vj - 2] - (vi * 3 - vj)
'''


@pytest.mark.parametrize(("value", "shape", "made"), [
    ("T.shift_right(A[vu, vj] * 3, 2)", [1, 8], "T.shift_right(A[v_i0, v_i1] * 3, 2)"),
    ("T.max(A[0, 7 - vj], 5)", [1, 8], "T.max(A[v_i0, v_i1], 5)"),
    ("T.max(B[vi, 3], 5)", [6, 1], "T.max(B[v_i0, v_i1 + 3], 5)"),
    ("T.if_then_else(vj < 4, vj, 9)", [8], "T.if_then_else(vj < 4, vj, 9)"),
])
def test_a_part_is_made_once_for_what_it_reads(
    value: str, shape: list[int], made: str, same: Same, verify_trace_roundtrip: Verify
) -> None:
    func = parse(BY_ROWS % value)
    sch = Schedule(func)
    stage = sch.get(sch.decompose_value("C", [1], True))
    assert [int(e.value) for e in stage.body.buffer.shape] == shape
    assert made in sch.func.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_what_is_read_or_chosen_at_a_place_stays_where_it_is(same: Same) -> None:
    func = parse(BY_ROWS % "(T.if_then_else(vj < 4, A[vu, vj], vj) + vj)")
    sch = Schedule(func)
    sch.decompose_value("C", [1, 1], True)
    assert "B[vi, vj] - (T.if_then_else(vj < 4, A[vu, vj], C_part[vj]) + C_part[vj])" in sch.func.script()
    same(func, sch)


@pytest.mark.parametrize(("value", "path"), [
    ("T.max(A[vu, vj], B[vi, vj])", [1]), ("T.max(A[vu, vj], vi)", [1]), ("T.max(A[vu, 0], 1)", [1, 1]),
])
def test_a_part_that_depends_on_more_than_it_reads_is_made_for_each(value: str, path: list[int]) -> None:
    func = parse(BY_ROWS % value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.decompose_value("C", path, True)
    assert sch.func == func


def test_places_below_zero_are_stored_from_zero_on(same: Same, verify_trace_roundtrip: Verify) -> None:
    func = parse(BELOW_ZERO)
    sch = Schedule(func)
    stage = sch.get(sch.decompose_value("C", [1], True))
    assert [int(e.value) for e in stage.body.buffer.shape] == [6, 10]  # of what starts above 0 the first ones are not used
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("value", "path", "fit"), [
    ("T.if_then_else(vi > 0, A[vu, vj] + 100 // vi, 7)", [1, 1, 1], False),
    ("T.if_then_else(vi > 0, A[vu, vj] + 100 % (vi - 6), 7)", [1, 1, 1], True),
    ("T.if_then_else(vi > 0, A[vu, vj] + T.shift_left(1, vi - 1), 7)", [1, 1, 1], False),
    ("T.if_then_else(vi > 0, A[vu, vj] + T.shift_left(1, vi), 7)", [1, 1, 1], True),
    ("(A[vu, vj] + T.if_then_else(vi > 0, 100 // vi, 7))", [1, 1], True),
    ("(A[vu, vj] + T.if_then_else(vi > 0, 7, 100 // vi))", [1, 1], False),
])
def test_what_has_no_value_at_some_places_is_made_at_none(value: str, path: list[int], fit: bool, same: Same) -> None:
    func = parse(BY_ROWS % value)
    sch = Schedule(func)
    if fit:
        sch.decompose_value("C", path, True)
        same(func, sch)
        return
    with refused(ScheduleError, "form") as caught:
        sch.decompose_value("C", path, True)
    assert "is not known to have a value for all of its iterators" in str(caught.value) and sch.func == func


MIRRORED = '''
@T.prim_func
def f(A: T.Buffer((6, 16), "int8"), B: T.Buffer((7, 16), "int8")):
    for i, j in T.grid(7, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = %s
'''


@pytest.mark.parametrize(("value", "path"), [
    ("T.if_then_else(vi < 1, A[1 - vi, vj], A[vi - 1, vj])", [1]),
    ("T.if_then_else(vi < 1, A[1 - vi, vj], A[vi - 1, vj])", [2]),
    ("T.Select(vi < 6, A[vi, vj], T.int8(0))", [1]),
    ("T.if_then_else(vi > 0, T.if_then_else(vj < 9, A[vi - 1, vj], T.int8(0)), T.int8(0))", [1]),
    ("T.if_then_else(vi < 1 or A[vi - 1, vj] > T.int8(0), T.int8(0), T.int8(1))", [0, 1]),
])
def test_what_a_condition_keeps_inside_stays_under_it(value: str, path: list[int]) -> None:
    func = parse(MIRRORED % value)
    sch = Schedule(func)
    with refused(ScheduleError, "domain"):
        sch.decompose_value("B", path)
    assert sch.func == func


@pytest.mark.parametrize(("value", "path"), [
    ("T.if_then_else(vi < 1, A[1 - vi, vj], A[vi - 1, vj])", []),
    ("T.if_then_else(vi < 3, A[vi // 2, vj], A[(vi + 3) % 6, vj])", [1]),
    ("T.if_then_else(vi < 3, A[vi // 2, vj], A[(vi + 3) % 6, vj])", [2]),
    ("T.if_then_else(vj < 9, T.if_then_else(vi > 0, A[vi - 1, vj], A[vi, vj]), T.int8(0))", [1]),
    ("T.if_then_else(A[vi // 2, vj] < T.int8(9), T.int8(0), T.int8(1))", [0]),
])
def test_what_stays_inside_needs_no_condition(value: str, path: list[int], same: Same, verify_trace_roundtrip: Verify) -> None:
    func = parse(MIRRORED % value)
    sch = Schedule(func)
    sch.decompose_value("B", path)
    same(func, sch)
    verify_trace_roundtrip(sch, func)


WINDOW = '''
@T.prim_func
def f(A: T.Buffer((2, 12), "int8"), W: T.Buffer((4,), "int8"), D: T.Buffer((5,), "int32")):
    for i, k in T.grid(5, 4):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = 1
            D[vi] = D[vi] + %s * T.Cast("int32", W[vk])
'''
INSIDE = "vi * 2 + vk >= 1 and vi * 2 + vk < 10"


@pytest.mark.parametrize(("read", "stage"), [
    (f"T.Cast('int32', T.if_then_else({INSIDE}, A[1, vi * 2 + vk - 1], T.int8(0)))",
     "T.if_then_else(1 <= v_i1 and v_i1 < 10, A[1, v_i1 - 1], T.int8(0))"),
    (f"T.if_then_else({INSIDE}, T.Cast('int32', A[1, vi * 2 + vk - 1]), -3)",
     "T.if_then_else(1 <= v_i1 and v_i1 < 10, A[1, v_i1 - 1], T.int8(-3))"),
    ("T.Cast('int32', A[1, vi * 2 + vk])", "A[1, v_i1]"),
])
def test_what_a_sum_reads_becomes_a_stage(read: str, stage: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(WINDOW % read)
    sch = Schedule(func)
    made = sch.decompose_value("D", [1, 0])
    assert sch.get(made).name == "D_A" and f"A_part[v_i0, v_i1] = {stage}\n" in sch.script()
    assert 'D[vi] + T.Cast("int32", A_part[0, vi * 2 + vk]) * T.Cast("int32", W[vk])' in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("read", "code"), [
    ("T.if_then_else(vk < 2, T.Cast('int32', A[1, vi * 2 + vk]), 0)", "form"),
    ("T.Cast('int32', A[1, vi * 2 + vk] + A[0, vi])", "form"),
    ("T.Cast('int32', A[1, vi * vk % 3])", "index"),
    ("T.if_then_else(vi * 2 + vk < 11, T.Cast('int32', A[1, vi * 2 + vk + 1]), 0)", "domain"),
])
def test_what_depends_on_more_than_what_it_reads_stays(read: str, code: str) -> None:
    func = parse(WINDOW % read)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.decompose_value("D", [1, 0] if code != "domain" else [1, 0, 1])
    assert sch.func == func


def test_what_is_read_before_the_start_counts_as_zero(same: Same) -> None:
    func = parse('''
@T.prim_func
def f(A: T.Buffer((10,), "int32"), D: T.Buffer((10,), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[9 - vi]
    for i in range(10):
        with T.block("D"):
            vi = T.axis.spatial(10, i)
            D[vi] = B[vi]
''')
    sch = Schedule(func)
    sch.pad_block("B", [16])
    assert "T.if_then_else(0 <= 9 - vi, A[9 - vi], 0)" in sch.script()
    same(func, sch)


@pytest.mark.parametrize(("value", "path", "alone", "left"), [
    ("A[vi] * A[vi]", [1], True, "A[vi] * C_part[vi]"), ("A[vi] * A[vi]", [0], True, "C_part[vi] * A[vi]"),
    ("A[vi] * A[vi]", [1], None, "C_part[vi] * C_part[vi]"), ("A[vi] * A[vi]", [1], False, "C_part[vi] * C_part[vi]"),
    ("T.max(A[vi] + 1, T.min(A[vi] + 1, 5))", [1, 0], True, "T.max(A[vi] + 1, T.min(C_part[vi], 5))"),
])
def test_only_the_part_at_the_path_is_read_from_its_stage(
    value: str, path: list[int], alone: bool | None, left: str, same: Same, verify_trace_roundtrip: Verify
) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = {value}
''')
    sch = Schedule(func)
    sch.decompose_value("C", path, alone=alone)
    assert f"C[vi] = {left}" in sch.func.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_a_factor_of_a_square_has_a_stage_of_its_own(same: Same, verify_trace_roundtrip: Verify) -> None:
    func = parse('''
@T.prim_func
def f(A: T.Buffer((5, 7), "int8"), C: T.Buffer((1,), "int32")):
    for n, i, j in T.grid(1, 5, 7):
        with T.block("C"):
            vn, vi, vj = T.axis.remap("SRR", [n, i, j])
            with T.init():
                C[vn] = 0
            C[vn] = C[vn] + T.Cast("int32", A[vi, vj]) * T.Cast("int32", A[vi, vj])
''')
    sch = Schedule(func)
    sch.decompose_value("C", [1, 1, 0], alone=True)
    assert 'T.Cast("int32", A[vi, vj]) * T.Cast("int32", A_part[vi, vj])' in sch.func.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)
