"""Windows written out, shared and taken by differences: primitives, refusals at the boundary, and the form of a pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.printer import expr_text
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.workloads import workload
from space import Space
from space.machine_bound import machine_bound

Same = Callable[..., None]


@T.prim_func
def window(A: T.Buffer((4, 19), "int8"), C: T.Buffer((4, 8), "int32")):
    for i, j, p, q in T.grid(4, 8, 2, 3):
        with T.block("C"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                C[vi, vj] = -128
            C[vi, vj] = T.max(C[vi, vj], T.Cast("int32", A[vi, vj * 2 + vp * 2 + vq]))


def value_of(sch: Schedule, name: str) -> str:
    block = sch.get(sch.get_sblock(name))
    assert isinstance(block, Block) and isinstance(block.body, BufferStore)
    return expr_text(block.body.value)


def test_a_window_is_written_out_shared_and_taken_by_differences(same: Same) -> None:
    sch = Schedule(window)
    sch.expand_reduction("C")
    assert value_of(sch, "C").count("T.max") == 5, "the initial value is no more than any term"
    same(window, sch)
    shared = sch.share_value("C", [[0], [1]], "int8")
    assert [loop.extent.value for loop in map(sch.get, sch.get_loops(shared))] == [4, 9]
    assert value_of(sch, "C").count("T.max") == 1 and sch.get(shared).writes[0].buffer.dtype == "int8"
    same(window, sch)
    sch.extrema_by_difference("C")
    sch.extrema_by_difference(sch.decompose_value(shared, [0]))
    same(window, sch)
    sch.trace.apply_to_schedule(again := Schedule(window), remove_postproc=False)
    assert again.func == sch.func


@pytest.mark.parametrize(("init", "maxima"), [(-128, 5), (-127, 6), (5, 6)])
def test_an_initial_value_that_counts_stays(same: Same, init: int, maxima: int) -> None:
    func = parse(window.script().replace("= -128", f"= {init}"))
    sch = Schedule(func)
    sch.expand_reduction("C")
    assert value_of(sch, "C").count("T.max") == maxima
    same(func, sch)
    sch.extrema_by_difference("C")
    same(func, sch)


def test_refused() -> None:
    def sized(rows: int, columns: int) -> Schedule:
        script = window.script().replace("(4, 8, 2, 3)", f"(4, 8, {rows}, {columns})")
        return Schedule(parse(script.replace("(4, 19)", f"(4, {14 + 2 * rows + columns})")))

    for rows, columns in ((2, 64), (16, 16), (4, 64)):
        sized(rows, columns).expand_reduction("C")
    with pytest.raises(ScheduleError, match="reduces 258 terms; 256 are the most"):
        sized(6, 43).expand_reduction("C")
    with pytest.raises(ScheduleError, match="reduces 65 terms along vq; 64 are the most"):
        sized(2, 65).expand_reduction("C")
    sch = Schedule(window)
    with pytest.raises(ScheduleError, match="no minimum or maximum of several int8"):
        sch.extrema_by_difference("C")
    sch.expand_reduction("C")
    with refused(ScheduleError, "form"):
        sch.expand_reduction("C")
    with refused(ScheduleError, "argument"):
        sch.share_value("C", [[0]])
    with pytest.raises(ScheduleError, match="there is none at 2"):
        sch.share_value("C", [[0], [2]])
    with refused(ScheduleError, "index"):
        sch.share_value("C", [[0], [0]])
    with refused(ScheduleError, "index"):
        sch.share_value("C", [[0, 0], [1]])  # of two elements and of three
    with pytest.raises(ScheduleError, match="from -128 to 127, more than uint8 holds"):
        sch.share_value("C", [[0], [1]], "uint8")
    odd = parse(window.script().replace("vj * 2 + vp * 2", "vj * 2 + vp"))
    sch = Schedule(odd)
    sch.expand_reduction("C")
    sch.share_value("C", [[0], [1]])  # half a step apart


@pytest.mark.parametrize(("value", "length"), [
    ("T.max(A[vi, vj * 2] - 3, A[vi, vj * 2 + 1] - 3)", 16),
    ("T.max(T.max(A[vi, vj * 2], A[vi, vj * 2 + 1]), A[vi, vj * 2 + 2])", 17),
    ("T.max(A[vi, vj * 2] + A[vi, vj * 4], A[vi, vj * 2 + 1] + A[vi, vj * 4 + 2])", 16),
    ("T.max(A[vi, vj * 3 + 1], T.max(A[vi, vj * 3 + 3], A[vi, vj * 3 + 2]))", 24),
    ("T.max(A[vi, vj * 2], A[vi, vj * 2 + 4])", 10),  # whole iterations apart: no more than what is read
])
def test_parts_less_than_an_iteration_apart_are_shared(value: str, length: int, same: Same) -> None:
    func = parse(plain_line(value))
    sch = Schedule(func)
    three = value.count("T.max(") > 1
    first = [[0, 0], [0, 1]] if value.startswith("T.max(T.max") else [[0], [1, 0]] if three else [[0]]
    shared = sch.share_value("C", [*first, [1, 1] if first[-1] == [1, 0] else [1]])
    assert [loop.extent.value for loop in map(sch.get, sch.get_loops(shared))] == [4, length]
    same(func, sch)
    sch.trace.apply_to_schedule(again := Schedule(func), remove_postproc=False)
    assert again.func == sch.func


@pytest.mark.parametrize("value", [
    "T.max(A[vi, vj * 3], A[vi, vj * 3 + 1])",  # nobody reads every third
    "T.max(A[vi, vj * 2] + vj, A[vi, vj * 2 + 1] + vj)", "T.max(A[vi, vj * 2] + B[vi, vj], A[vi, vj * 2 + 1] + B[vi, vj])",
    "T.max(A[vi, vj * 2] + A[vi, vj * 4], A[vi, vj * 2 + 1] + A[vi, vj * 4 + 1])",
    "T.max(A[vi, 14 - vj * 2], A[vi, 15 - vj * 2])",
    "T.max(A[vi, vj * 2] + vj, A[vi, vj * 2 + 1] + (vj + 1))",  # the iterator itself, a whole one further on
])
def test_parts_that_read_more_than_a_multiple_are_not(value: str) -> None:
    with refused(ScheduleError, "index"):
        Schedule(parse(plain_line(value))).share_value("C", [[0], [1]])


def plain_line(value: str) -> str:
    """A program of one value of two tensors."""
    return f"""from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((4, 44), "int32"), B: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {value}
"""


@T.prim_func
def line(A: T.Buffer((4, 44), "int32"), B: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(A[vi, vj], B[vi, vj])


def shifted(n: int, step: int, op: str, order: Sequence[int]) -> PrimFunc:
    """An extremum of ``n`` places of A, a ``step`` apart, in some order, and of B and a constant besides."""
    value = f"A[vi, vj + {order[0] * step}]"
    for k in order[1:]:
        value = f"T.{op}({value}, A[vi, vj + {k * step}])"
    text = line.script().replace("T.max(A[vi, vj], B[vi, vj])", f"T.{op}(T.{op}({value}, B[vi, vj]), 7)")
    return parse("\n".join(row for row in text.split("\n") if "T.reads" not in row and "T.writes" not in row))


def paths_of(n: int) -> list[list[int]]:
    """Of the places in a chain of them that two operands more follow."""
    return [[0, 0, *[0] * (n - 1 - k), *([1] if k else [])] for k in range(n)]


@pytest.mark.parametrize(("n", "step"), [(3, 1), (3, 2), (4, 1), (5, 1), (5, 3), (6, 2), (8, 1), (9, 2)])
def test_halves_of_an_extremum_overlap(n: int, step: int, same: Same) -> None:
    rng = np.random.default_rng(n)
    for op, order in (("max", range(n)), ("min", rng.permutation(n).tolist())):
        func = shifted(n, step, op, order)
        sch = Schedule(func)
        made = sch.overlap_extrema("C", paths_of(n))
        half = -(-n // 2)
        assert [loop.extent.value for loop in map(sch.get, sch.get_loops(made))] == [4, 8 + (n - half) * step]
        assert value_of(sch, "C").count(f"T.{op}") == 3 and value_of(sch, sch.get(made).name).count(f"T.{op}") == half - 1
        same(func, sch)
        stages = 1
        while half > 2:
            made = sch.overlap_extrema(made, [path[2:] for path in paths_of(half)])
            half, stages = -(-half // 2), stages + 1
        same(func, sch)
        assert stages == math.ceil(math.log2(n)) - 1
        sch.trace.apply_to_schedule(again := Schedule(func), remove_postproc=False)
        assert again.func == sch.func


def test_what_does_not_overlap_is_refused(same: Same) -> None:
    func = shifted(4, 2, "max", range(4))
    three, four = paths_of(4)[:3], paths_of(4)
    Schedule(func).overlap_extrema("C", three)
    for paths, code in ((four[:2], "argument"), ([four[0], four[1], four[3]], "argument"), ([*three, three[0]], "argument"),
                        ([*three, [0, 1]], "index"), ([[0, 0], [0, 1], [1]], "index"), ([], "argument")):
        with refused(ScheduleError, code):
            Schedule(func).overlap_extrema("C", paths)
    for old, new, code in (("C[vi, vj] = T.max(", "C[vi, vj] = 1 + T.max(", "form"), ("T.max(A", "T.min(A", "form")):
        changed = func.script().replace(old, new, 1)
        with refused(ScheduleError, code):
            Schedule(parse(changed)).overlap_extrema("C", [[1, *path] for path in four] if "1 +" in new else four)
    # Of eight elements: the second half of five places begins at the third; 4 apart that is where the first half ends. Further
    # apart there are more in a half, and 9 apart not even the second may begin it.
    for step, places in ((4, 3), (5, 4), (8, 4)):
        sch = Schedule(wide := shifted(5, step, "max", range(5)))
        made = sch.get(sch.overlap_extrema("C", paths_of(5)))
        assert value_of(sch, made.name).count("T.max") == places - 1
        same(wide, sch)
    with refused(ScheduleError, "index"):
        Schedule(shifted(5, 9, "max", range(5))).overlap_extrema("C", paths_of(5))


def groups(h: int, k: int, stride: int, pad: int) -> tuple[int, int]:
    """(elements that windows of a line use, groups of them that windows connect), by search."""
    found: list[set[int]] = []
    for y in range((h + 2 * pad - k) // stride + 1):
        mine = {i for i in range(y * stride - pad, y * stride - pad + k) if 0 <= i < h}
        touched = [g for g in found if g & mine]
        found = [g for g in found if not g & mine] + [mine.union(*touched)]
    found = [g for g in found if g]
    return sum(map(len, found)), len(found)


@pytest.mark.parametrize(("h", "w", "k", "stride", "pad"), [
    (8, 8, 2, 2, 0), (8, 8, 3, 2, 1), (7, 9, 3, 3, 0), (9, 5, 2, 1, 1), (8, 6, 2, 3, 0), (5, 5, 5, 1, 0),
])
def test_the_bound_counts_what_windows_connect(h: int, w: int, k: int, stride: int, pad: int) -> None:
    task = workload(f"max_pool2d:h={h},w={w},c=32,k={k},stride={stride},pad={pad}")
    space = Space(task.func, "vta-de10")
    plain = next(s for s in space.sketches if not s.done)
    used, apart = (2 * prod(pair) for pair in zip(groups(h, k, stride, pad), groups(w, k, stride, pad), strict=True))
    assert machine_bound(plain.models).terms["products"] == used + -(-3 * (used - apart) // 2)


@pytest.mark.parametrize(("h", "k", "pad", "least"), [
    (24, 2, 0, 0.8), pytest.param(56, 3, 1, 0.9, marks=pytest.mark.slow),
])
def test_differences_beat_the_loop_and_both_are_searched(h: int, k: int, pad: int, least: float) -> None:
    # 11 cycles a vector against 17, and 22 against 27; of the latter one nest waits for the other.
    task = workload(f"max_pool2d:h={h},w={h},c=32,k={k},stride=2,pad={pad}")
    space = Space(task.func, "vta-de10")
    rng = np.random.default_rng(0)
    points = space.sample(rng, 600)
    written_out = np.array(["extrema by differences" in s.done for s in space.sketches])
    best = {}
    for form in (True, False):
        mine = points[written_out[points[:, 0]] == form]
        for _ in range(12):
            mine = mine[np.argsort(space.draft(mine))[:64]]
            mine = np.concatenate([mine, space.mutate(np.repeat(mine, 4, axis=0), rng)])
            mine = mine[written_out[mine[:, 0]] == form]
        point = mine[np.argmin(space.draft(mine))]
        result = measure(Candidate(task, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and result.cycles is not None, result
        best[form] = result.cycles
    assert space.machine_bound() < best[True] < least * best[False]


def test_long_windows_and_other_paddings_stay_loops() -> None:
    def written_out(func: PrimFunc) -> bool:
        return any("extrema by differences" in s.done for s in Space(func, "vta-de10").sketches)

    assert written_out(workload("max_pool2d:h=8,w=8,c=16,k=4,stride=4").func)  # 16 terms
    assert not written_out(workload("max_pool2d:h=9,w=10,c=16,k=5,stride=5").func)
    padded = workload("max_pool2d:h=8,w=8,c=16,k=3,stride=2,pad=1").func
    assert written_out(padded)
    assert not written_out(parse(padded.script().replace("T.int8(0)", "T.int8(-128)")))


def test_addends_in_another_order(same: Same) -> None:
    @T.prim_func
    def total(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), out: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("out"):
                vi = T.axis.spatial(8, i)
                out[vi] = T.max(A[vi] + (B[vi] + (C[vi] + 3)), 0) - 1

    sch = Schedule(total)
    sch.reorder_addends("out", [2, 0, 3, 1], [0, 0])
    assert value_of(sch, "out") == "T.max(C[vi] + A[vi] + 3 + B[vi], 0) - 1"
    same(total, sch)
    for order, path, reason in (([0, 1, 2], [0, 0], "4 addends"), ([0, 1, 2, 2], [0, 0], "once each"), ([0, 1], [], "no sum of"),
                                ([0, 1, 2], [0], "2 operands"),
                                ([0, 1], [0, 2], "none at 2")):
        with pytest.raises(ScheduleError, match=reason):
            Schedule(total).reorder_addends("out", order, path)
    most = parse(total.script().replace("A[vi] + (B[vi] + (C[vi] + 3))", "T.max(A[vi], T.max(B[vi], T.max(C[vi], 3)))"))
    sch = Schedule(most)
    sch.reorder_addends("out", [2, 0, 1, 3, 4], [0])
    assert value_of(sch, "out") == "T.max(T.max(T.max(T.max(C[vi], A[vi]), B[vi]), 3), 0) - 1"
    same(most, sch)
    floats = parse(total.script().replace("int32", "float32").replace("T.max(", "(").replace(", 0)", ")"))
    with refused(ScheduleError, "form"):
        Schedule(floats).reorder_addends("out", [1, 0, 2, 3], [0])


def test_a_difference_that_may_overflow_is_not_made(same: Same) -> None:
    @T.prim_func
    def larger(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int8"), out: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("out"):
                vi = T.axis.spatial(8, i)
                out[vi] = T.max(A[vi] >> 1, T.Cast("int32", B[vi]))

    sch = Schedule(larger)
    sch.extrema_by_difference("out")
    same(larger, sch)
    with refused(ScheduleError, "form"):
        Schedule(parse(larger.script().replace("T.shift_right(A[vi], 1)", "A[vi]").replace("A[vi] >> 1", "A[vi]"))
                 ).extrema_by_difference("out")


@pytest.mark.parametrize(("other", "text"), [
    ("0 - {b}", "{b} * -2"), ("{b} * 3", "{b} * 2"), ("5 * {b}", "{b} * 4"), ("{b} * -127", "{b} * -128"),
    ("{b} * -128", "{b} * -128 - {b}"), ("{b} * 128", "{b} * 127"), ("{b} * 129", "{b} * 129 - {b}"),
    ("1 - {b}", "1 - {b} - {b}"), ("{b} + {b}", "{b} + {b} - {b}"),
])
def test_of_a_multiple_the_difference_is_another_one(same: Same, other: str, text: str) -> None:
    """As far as an identity holds it: one product with that, where the difference of two operands is two."""
    @T.prim_func
    def larger(B: T.Buffer((8,), "int8"), out: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("out"):
                vi = T.axis.spatial(8, i)
                out[vi] = T.max(0 - T.Cast("int32", B[vi]), T.Cast("int32", B[vi]))

    operand = 'T.Cast("int32", B[vi])'
    func = parse(larger.script().replace(f"0 - {operand}", other.format(b=operand)))
    sch = Schedule(func)
    sch.extrema_by_difference("out")
    assert value_of(sch, "out") == f"T.max({text.format(b=operand)}, 0) + {operand}"
    same(func, sch)


SUM = """from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8, 3), "int32")):
    for i in range(8):
        for k in T.serial(0, 3):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(3, k)
                with T.init():
                    C[vi] = 5
                C[vi] = C[vi] + A[vi + vk]
"""


@pytest.mark.parametrize(("changed", "code"), [
    ((), None),
    ((("T.serial(0, 3)", "T.serial(0, 2)"),), "domain"),
    ((("T.serial(0, 3)", "T.serial(1, 3)"),), "domain"),
    ((("T.serial(0, 3)", "T.serial(1, 4)"),), "domain"),
    ((("T.serial(0, 3)", "T.serial(0, 1)"), ("reduce(3", "reduce(1")), None),
    ((("T.serial(0, 3)", "T.serial(0, 0)"), ("reduce(3", "reduce(0")), "range"),
    ((("C[vi] = 5", "C[7 - vi] = 5"),), "form"),
    ((("C[vi] = 5", "D[vi, 0] = 5"),), "form"),
    ((("C[vi] = 5", "C[vi] = 5\n                    D[vi, 0] = 5"),), "form"),
    ((("C[vi] = 5", "C[vi] = vi"),), None),
    ((("C[vi] = 5", "C[vi] = vk"),), "reduction"),
    ((("C[vi] = 5", "C[vi] = C[vi] * 2"),), "writer"),
    ((("C[vi]", "D[vi, 0]"),), None),
    ((("C[vi]", "D[vi, vk]"),), "reduction"),
    ((("int32", "float32"), ("= 5", "= T.float32(5)")), "form"),
])
def test_only_what_is_the_same_is_written_out(same: Same, changed: tuple[tuple[str, str], ...], code: str | None) -> None:
    script = SUM
    for a, b in changed:
        script = script.replace(a, b)
    func = parse(script)
    sch = Schedule(func)
    if code is None:
        sch.expand_reduction("C")
        same(func, sch)
    else:
        with refused(ScheduleError, code):
            sch.expand_reduction("C")


SHARED = """from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((48,), "int32"), C: T.Buffer((48,), "int32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.max(T.min(T.max(A[vi], 0), 96) + vi, T.min(T.max(A[vi + 16], 0), 96) + (vi + 16))
"""


@pytest.mark.parametrize(("changed", "dtype", "code"), [
    ((), "int8", None),  # up to 96 + 31
    ((("96", "97"),), "int8", "range"),
    ((("96", "97"),), "uint8", None),
    ((), "float32", "argument"),
    ((), "int33", "argument"),
    ((("int32", "float32"), (" + vi,", ","), (" + (vi + 16)", ""), ("0)", "T.float32(0))"),
      ("96)", "T.float32(96))")), None, None),
    ((("int32", "float32"), (" + vi,", ","), (" + (vi + 16)", ""), ("0)", "T.float32(0))"), ("96)", "T.float32(96))")),
     "int32", "argument"),
    ((("vi + 16", "vi + 17"),), None, "index"),  # nobody reads element 16
    ((("A[", "C["),), None, "writer"),
    ((("range(16)", "range(15)"),), None, "domain"),
    ((("range(16)", "T.serial(1, 17)"), ("spatial(16", "spatial((1, 17)")), None, "symbolic"),
])
def test_a_stage_holds_what_is_shared_wherever_it_runs(
    same: Same, changed: tuple[tuple[str, str], ...], dtype: str | None, code: str | None
) -> None:
    script = SHARED
    for a, b in changed:
        script = script.replace(a, b)
    func = parse(script)
    sch = Schedule(func)
    if code is None:
        sch.share_value("C", [[0], [1]], dtype)
        same(func, sch)
    else:
        with refused(ScheduleError, code):
            sch.share_value("C", [[0], [1]], dtype)


@pytest.mark.parametrize(("changed", "values", "whole"), [
    ("", None, True),
    ("", (-128, 127), True),
    ("", (-127, 127), False),
    ("", (0, 1), False),  # the largest is min(sum, 1)
    ("= -129", None, True),
    ("= -127", None, False),
    ("T.min({}, 127)", None, True),  # no result reaches that
    ("T.min({}, 126)", None, False),
    ("T.min({}, 1)", None, False),
    ("T.shift_right({}, 7)", None, False),
])
def test_comparisons_count_where_operands_can_be_any_int8(changed: str, values: tuple[int, int] | None, whole: bool) -> None:
    func = workload("max_pool2d:h=8,w=8,c=16,k=2,stride=1,pad=0").func
    script = func.script()
    if changed.startswith("="):
        script = script.replace("= -128", changed)
    elif changed:
        at = "pool[v_n, v_c, v_y, v_x, v_nb, v_cb]"
        step = """    for n, c, y, x, nb, cb in T.grid(1, 1, 7, 7, 1, 16):
        with T.sblock("after"):
            v_n, v_c, v_y, v_x, v_nb, v_cb = T.axis.remap("SSSSSS", [n, c, y, x, nb, cb])
            after[v_n, v_c, v_y, v_x, v_nb, v_cb] = """ + changed.format(at)
        head, _, tail = script.rpartition("    for n, c, y, x")
        script = head + step + "\n    for n, c, y, x" + tail.replace(at, at.replace("pool", "after"))
        made = '    pool = T.sblock_alloc_buffer((1, 1, 7, 7, 1, 16), "int32")\n'
        assert made in script
        script = script.replace(made, made + made.replace("pool", "after"))
    func = replace(parse(script), value_ranges=(values, None))
    assert Space(func, "vta-de10").machine.terms["products"] == 64 + whole * -(-3 * 63 // 2)


def test_windows_written_out_by_the_user_need_no_more_than_their_loop() -> None:
    loop = """from tvm.script import tirx as T

@T.prim_func
def main(d: T.Buffer((1, 1, 9, 9, 1, 16), "int8"), out: T.Buffer((1, 1, 6, 6, 1, 16), "int8")):
    a = T.sblock_alloc_buffer((1, 1, 6, 6, 1, 16), "int32")
    for n, c, y, x, b, l, p, q in T.grid(1, 1, 6, 6, 1, 16, 4, 4):
        with T.block("a"):
            vn, vc, vy, vx, vb, vl, vp, vq = T.axis.remap("SSSSSSRR", [n, c, y, x, b, l, p, q])
            with T.init():
                a[vn, vc, vy, vx, vb, vl] = -128
            a[vn, vc, vy, vx, vb, vl] = T.max(a[vn, vc, vy, vx, vb, vl], T.Cast("int32", d[vn, vc, vy + vp, vx + vq, vb, vl]))
    for n, c, y, x, b, l in T.grid(1, 1, 6, 6, 1, 16):
        with T.block("out"):
            vn, vc, vy, vx, vb, vl = T.axis.remap("SSSSSS", [n, c, y, x, b, l])
            out[vn, vc, vy, vx, vb, vl] = T.Cast("int8", a[vn, vc, vy, vx, vb, vl])
"""
    sch = Schedule(parse(loop))
    sch.expand_reduction("a")
    written = Space(sch.func, "vta-de10").machine
    assert (written.terms["products"], written.terms["stages"]) == (81, 0)
    assert written.cycles <= Space(parse(loop), "vta-de10").machine.cycles
    # Of another tensor every vector is widened, once for all that it is added to.
    result, other = '"int8")):', '"int8"), e: T.Buffer((1, 1, 6, 6, 1, 16), "int8")):'
    more = parse(loop.replace('T.Cast("int8", a[', 'T.Cast("int8", s[').replace(result, other).replace(
        "    for n, c, y, x, b, l in T.grid", """    s = T.sblock_alloc_buffer((1, 1, 6, 6, 1, 16), "int32")
    for n, c, y, x, b, l in T.grid(1, 1, 6, 6, 1, 16):
        with T.block("s"):
            vn, vc, vy, vx, vb, vl = T.axis.remap("SSSSSS", [n, c, y, x, b, l])
            s[vn, vc, vy, vx, vb, vl] = a[vn, vc, vy, vx, vb, vl] + T.Cast("int32", e[vn, vc, vy, vx, vb, vl])
    for n, c, y, x, b, l in T.grid"""))
    terms = Space(more, "vta-de10").machine.terms
    assert (terms["products"], terms["stages"]) == (81, 36 + 6)
