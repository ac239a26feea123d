"""recompute_at_reads: a block for every place that its consumer reads."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.functor import walk
from autosched.ir.interp import random_inputs, run
from autosched.ir.patterns import choice_of
from autosched.ir.stmt import Block, BlockRealize, BufferStore
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((9, 9), "int32"), W: T.Buffer((9, 9), "int32"), C: T.Buffer((9, 9), "int32"), D: T.Buffer((9, 9), "int32")):
    B = T.alloc_buffer((9, 9), "int32")
    for i, j, k in T.grid({domain}, 4):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            {where}
            with T.init():
                B[{stored}] = W[vi, vj]
            B[{stored}] = B[{stored}] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid({extents}):
        with T.block("C"):
            vi, vj = T.axis.remap("{kinds}", [i, j])
            {init}
            C[{out}] = {value}
    {more}
'''
PLAIN = {"domain": "9, 9", "where": "T.reads()", "stored": "vi, vj", "extents": "4, 3", "kinds": "SS", "init": "T.reads()",
         "more": "", "out": "vi, vj"}
OTHER = """for i, j in T.grid(4, 3):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj]"""


def program(value: str, **changes: str) -> PrimFunc:
    text = TEXT.format(**{**PLAIN, "value": value, **changes})
    return parse("\n".join(line for line in text.splitlines() if line.strip() not in ("T.reads()", "")))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    return all(np.array_equal(a, b) for seed in (0, 1) for a, b in zip(run(func, *random_inputs(func, seed)),
                                                                    run(other, *random_inputs(func, seed)), strict=True))


@pytest.mark.parametrize(("value", "copies"), [
    ("T.max(B[vi * 2, vj], B[vi * 2 + 1, vj])", 2), ("B[vi + 5, vj + 6] - B[8 - vi, 8 - vj]", 2),
    ("B[vi, vj] + B[vi, vj] * B[vi, vj]", 1), ("B[vj, vi] + B[0, 0]", 2), ("B[(vi + vj) % 3, vi // 2]", 1),
])
def test_every_place_has_a_block_of_its_own(value: str, copies: int, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch = Schedule(func)
    made = sch.recompute_at_reads("B")
    assert [sch.get(b).name for b in made] == [f"B_{n}" for n in range(copies)]  # type: ignore[union-attr]
    assert equal(func, sch.func)
    assert sch.get_loops(made[0]) and len(sch.get_loops(made[0])) == 3  # its reduction included
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("value", "changes", "reason", "code"), [
    ("B[vi + 5, vj] + B[vi + 6, vj]", {}, "which may be outside of what block B writes", "domain"),
    ("B[vi + 5, vj] + B[vi - 1, vj]", {}, "which may be outside of what block B writes", "domain"),
    ("T.if_then_else(vi > 0, B[vi - 1, vj], 0)", {}, "which may be outside", "domain"),
    ("B[vi, A[vi, vj] % 9]", {}, "at an index that is data", "index"),
    ("B[vi, vj]", {"extents": "4, 9", "domain": "9, 8"}, "reads more of B than B has written", "order"),
    ("B[vi, vj]", {"more": OTHER}, "2 consumers, and the copies are for one", "reader"),
    ("C[vi, 0] + B[vi, vj]", {"kinds": "SR", "out": "vi, 0", "init": "with T.init():\n                C[vi, 0] = 0"},
     "not one store of spatial iterators", "reduction"),
    ("B[vi, vj]", {"stored": "vi, vj // 2"}, "does not store at its plain iterators", "index"),
    ("B[vi, 0]", {"stored": "vi, 0"}, "does not store at its plain iterators", "index"),
    ("B[vi, vj]", {"where": "T.where(i + j < 5)"}, "reads more of B than B has written", "order"),
    ("B[vi, vj]", {"where": "T.where(i + j < 12)"}, "not a complete block", "form"),  # all that is read is written
    ("B[vi, vj]", {"where": "T.where(i < 9)"}, "a part of its iterations", "domain"),
    ("W[vi, vj]", {}, "0 consumers", "reader"),
])
def test_what_has_no_copies(value: str, changes: dict[str, str], reason: str, code: str) -> None:
    func = program(value, **changes)
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=reason) as caught:
        sch.recompute_at_reads("B")
    assert caught.value.code == code and sch.func == func


@pytest.mark.parametrize(("value", "along", "last", "shape"), [
    ("B[vi, 3] + W[vi, vj]", [0], None, [4]), ("B[vi * 2, vi] - W[vi, vj]", [0], None, [4]),
    ("B[2, vj] + B[vj + 6, 0]", [1], None, [3]), ("B[vi, 3] + W[vi, vj]", [1, 0], None, [3, 4]),
    ("B[vi, 3] + W[vi, vj]", [0, 1], 2, [4, 2]), ("B[0, 3] + W[vi, vj]", [1], 5, [5]),  # more than it has: all are made
    ("B[vi, vj]", [1, 0], None, [3, 4]),
])
def test_copies_have_elements_along_what_is_said(
    value: str, along: list[int], last: int | None, shape: list[int], verify_trace_roundtrip: Verify
) -> None:
    func = program(value)
    sch = Schedule(func)
    for copy in sch.recompute_at_reads("B", along=along, last=last):
        assert [int_value(e) for e in sch.get(copy).writes[0].buffer.shape] == shape  # type: ignore[union-attr]
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("value", "along", "last", "code"), [
    ("B[vi, 3] + W[vi, vj]", [1], None, "index"), ("B[vi, vj]", [0], None, "index"), ("B[vi, 3]", [], None, "argument"),
    ("B[vi, 3]", [0, 0], None, "argument"), ("B[vi, 3]", [2], None, "argument"), ("B[vi, 3]", [-2], None, "argument"),
    ("B[vi, vj]", [0, 1], 2, "argument"), ("B[vi, 3]", [0], 2, "argument"), ("B[vi, 3]", [0, 1], 0, "argument"),
])
def test_no_place_depends_on_what_copies_leave_out(value: str, along: list[int], last: int | None, code: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.recompute_at_reads("B", along=along, last=last)
    assert sch.func == func


@pytest.mark.parametrize(("value", "guarded"), [
    ("T.if_then_else(vi > 0, B[vi - 1, vj], 0)", True), ("T.if_then_else(vi < 1, 5, T.max(B[vi - 1, vj], 3))", True),
    ("T.if_then_else(vi < 1, B[vi, vj], B[vi + 2, vj])", False),
    ("T.if_then_else(vi >= 1 and vj < 2, B[vi - 1, vj + 7], W[vi, vj])", True),
    ("T.if_then_else(vi < 2, W[vi, vj], T.if_then_else(vi < 3, 7, B[vi - 3, vj]))", True),
    ("T.if_then_else(vi == 0, 5, B[vi - 1, vj])", True), ("T.if_then_else(vj == 2, 5, B[vi, vj + 7])", True),
    # One row at one place, at two of them, and beside what may be anywhere.
    ("T.if_then_else(vi < 3, W[vi, vj], B[0, vj])", True), ("T.if_then_else(vi < 1, B[5, vj], 7)", True),
    ("T.if_then_else(vi < 2, W[vi, vj], B[0, vj])", False), ("T.if_then_else(vi >= 3, B[0, 4], 7)", True),
    ("T.if_then_else(vi < 3, T.if_then_else(vi < 1, B[0, vj], 7), B[0, vj])", False),
    ("T.if_then_else(vi < 3, W[vi, vj], B[0, vj]) + B[0, vj]", False),
])
def test_a_place_may_be_read_under_a_condition(value: str, guarded: bool, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch = Schedule(func)
    made = sch.recompute_at_reads("B", guarded=True)
    first = sch.get(made[0])
    assert isinstance(first, Block) and isinstance(first.init, BufferStore)
    assert (choice_of(first.init.value) is not None) == guarded  # without need nothing is
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("guarded", [None, True])
@pytest.mark.parametrize("value", [
    "B[vi, vj] + T.if_then_else(vi < 2, B[vi, vj], 1)", "T.if_then_else(vi < 2, B[vi, vj], 1) - B[vi, vj]",
    "T.if_then_else(vi < 2, B[vi, vj], 1) * T.if_then_else(vj < 1, B[vi, vj], 2)",
])
def test_what_may_be_read_anywhere_may_be_so_under_any_conditions(value: str, guarded: bool | None) -> None:
    func = program(value)
    sch = Schedule(func)
    assert len(sch.recompute_at_reads("B", guarded)) == 1 and equal(func, sch.func)


@pytest.mark.parametrize(("value", "reason", "code"), [
    ("T.if_then_else(vi >= 0, B[vi - 1, vj], 0)", "which may be outside", "domain"),
    ("T.if_then_else(vi > 0, B[vi - 2, vj], 0)", "which may be outside", "domain"),
    ("T.if_then_else(vi == 1, 5, B[vi - 1, vj])", "which may be outside", "domain"),
    ("T.if_then_else(vj == 2, 5, B[vi, vj + 8])", "which may be outside", "domain"),
    ("T.if_then_else(A[vi, vj] > 0, B[vi - 1, vj], 0)", "which may be outside", "domain"),
    ("T.if_then_else(vi > 0, B[vi - 1, vj], 0) + T.if_then_else(vi > 1, B[vi - 1, vj], 0)", "under several conditions", "domain"),
])
def test_what_a_condition_does_not_keep_inside_has_no_copy(value: str, reason: str, code: str) -> None:
    func = program(value)
    with pytest.raises(ScheduleError, match=reason) as caught:
        Schedule(func).recompute_at_reads("B", guarded=True)
    assert caught.value.code == code


def test_of_what_is_no_sum_nothing_is_made_under_a_condition() -> None:
    func = program("T.if_then_else(vi > 0, B[vi - 1, vj], 0)")
    largest = parse(re.sub(r"(B\[vi, vj\]) = B\[vi, vj\] \+ (.*)", r"\1 = T.max(B[vi, vj], \2)", func.script()))
    with refused(ScheduleError, "reduction"):
        Schedule(largest).recompute_at_reads("B", guarded=True)


def test_loops_may_write_a_part() -> None:
    """What one of two consumers reads is computed apart, by loops that leave out what is in front of it."""
    func = program("B[vi + 5, vj] + B[vi + 3, vj]", more=OTHER)
    sch = Schedule(func, error_render_level="fast")
    sch.recompute_at_consumers("B", [sch.get_sblock("D")])
    assert int_value(sch.get(sch.get_loops("B")[0]).extent) == 6  # type: ignore[union-attr, arg-type]
    assert len(sch.recompute_at_reads("B")) == 2 and equal(func, sch.func)


def test_all_of_a_sum_has_to_be_there() -> None:
    axes = "vi = T.axis.spatial(9, i); vj = T.axis.spatial(9, j); vk = T.axis.reduce(4, k)"
    text = TEXT.format(**{**PLAIN, "domain": "9, 9", "value": "B[vi, vj]"}).replace("9, 9, 4)", "9, 9, 2)")
    text = text.replace('vi, vj, vk = T.axis.remap("SSR", [i, j, k])', axes.replace("; ", "\n            "))
    text = "\n".join(line for line in text.splitlines() if line.strip() not in ("T.reads()", ""))
    with refused(ScheduleError, "domain") as caught:
        Schedule(parse(text)).recompute_at_reads("B")
    assert caught.value.code == "domain"


def test_the_caller_reads_all_of_an_output() -> None:
    with refused(ScheduleError, "output"):
        Schedule(program("B[vi, vj]")).recompute_at_reads("C")


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_copied_computes_the_same(data: st.DataObject) -> None:
    index = st.sampled_from(["vi", "vj", "vi + vj", "vi * 2 + 1", "8 - vj", "vi // 2 * 2", "vi + 5", "vj * 4", "3"])
    reads = [f"B[{data.draw(index)}, {data.draw(index)}]" for _ in range(data.draw(st.integers(1, 4)))]
    func = program(" + ".join(f"{r} * {n + 1}" for n, r in enumerate(reads)))
    sch = Schedule(func, error_render_level="fast")
    copies = len(sch.recompute_at_reads("B"))
    assert copies == len(set(reads)) and equal(func, sch.func), func.script()


def test_a_copy_takes_no_name_that_another_block_has() -> None:
    func = parse('''
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    B_D = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
    for i in range(8):
        with T.block("B_D"):
            vi = T.axis.spatial(8, i)
            B_D[vi] = A[vi] + 1
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + B_D[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - B_D[vi]
''')
    sch = Schedule(func)
    copy = sch.get(sch.recompute_at_consumers("B")[1])
    names = [s.block.name for s in walk(sch.func.body) if isinstance(s, BlockRealize)]
    assert len(set(names)) == len(names) and isinstance(copy, Block) and copy.name == "B_D_1"
    assert "B_D_1 = T.sblock_alloc_buffer" in sch.script()
