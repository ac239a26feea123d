"""What is computed in int8, and padding that is not zero: widen_block, zero_padding, drop_neutral_terms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.verify import verify
from autosched.schedule import Schedule
from autosched.script import T, parse

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def relu(X: T.Buffer((4, 16), "int8"), Y: T.Buffer((4, 16), "int8"), out: T.Buffer((4, 16), "int8")):
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]


@T.prim_func
def pool(X: T.Buffer((9, 16), "int8"), out: T.Buffer((5, 16), "int8")):
    P = T.alloc_buffer((11, 16), "int8")
    C = T.alloc_buffer((5, 16), "int8")
    for i, j in T.grid(11, 16):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(vi >= 1 and vi < 10, X[vi - 1, vj], T.int8(-100))
    for i, j, k in T.grid(5, 16, 3):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.int8(-128)
            C[vi, vj] = T.max(C[vi, vj], P[vi * 2 + vk, vj])
    for i, j in T.grid(5, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = C[vi, vj]


def test_a_value_is_computed_wide_and_narrowed(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(relu)
    sch.widen_block("out")
    wide = 'T.max(T.Cast("int32", X[vi, vj]), 0) + T.Cast("int32", Y[vi, vj])'
    assert f'out[vi, vj] = T.Cast("int8", {wide})' in sch.script()
    same(relu, sch)
    verify_trace_roundtrip(sch, relu)


@pytest.mark.parametrize("value", [
    "T.shift_right(X[vi, vj], T.int8(2))", "T.max(T.shift_right(X[vi, vj], T.int8(7)), Y[vi, vj])",
])
def test_a_shift_is_one_of_the_wide_value(value: str, same: Same) -> None:
    func = parse(relu.script().replace("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", value))
    sch = Schedule(func)
    sch.widen_block("out")
    assert 'T.shift_right(T.Cast("int32", X[vi, vj])' in sch.script()
    same(func, sch)


@pytest.mark.parametrize("value", [
    "T.shift_left(X[vi, vj], T.int8(2))", "T.shift_left(X[vi, vj], T.int8(7)) - Y[vi, vj]",
])
def test_what_a_shift_to_the_left_loses_is_lost_in_the_end(value: str, same: Same) -> None:
    func = parse(relu.script().replace("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", value))
    sch = Schedule(func)
    sch.widen_block("out")
    assert 'T.shift_left(T.Cast("int32", X[vi, vj])' in sch.script()
    same(func, sch)


@pytest.mark.parametrize("step", ["T.max(C[vi, vj], P[vi * 2 + vk, vj])", "T.min(C[vi, vj], P[vi * 2 + vk, vj])",
                                  "C[vi, vj] + P[vi * 2 + vk, vj] * P[vi * 2 + vk, vj]"])
def test_a_reduction_keeps_its_value_wide(step: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    func = parse(pool.script().replace("T.max(C[vi, vj], P[vi * 2 + vk, vj])", step))
    sch = Schedule(func)
    sch.widen_block("C")
    assert 'C = T.sblock_alloc_buffer((5, 16), "int32")' in sch.script() and 'T.Cast("int8", C[vi, vj])' in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("primitive", ["widen_block", "narrow_block"])
@pytest.mark.parametrize("step", ["blockize", "loop_partition", ""])
def test_readers_inside_a_block_convert_the_value(primitive: str, step: str, verify_trace_roundtrip: Verify, same: Same) -> None:
    text = pool.script() if primitive == "widen_block" else relu.script().replace(
        "    for i, j in T.grid(4, 16):", """    C = T.alloc_buffer((4, 16), "int32")
    for i, j in T.grid(4, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(T.Cast("int32", X[vi, vj]), 0)
    for i, j in T.grid(4, 16):""").replace("T.max(X[vi, vj], T.int8(0))", 'T.Cast("int8", C[vi, vj])').replace(
        "T.reads(X[vi, vj], Y[vi, vj])", "T.reads(C[vi, vj], Y[vi, vj])")
    if not step:
        text = text[: text.rindex("        with T.sblock(")] + '        out[i, j] = T.Cast("int8", C[i, j])\n'
        with refused(ScheduleError, "order"):
            getattr(Schedule(parse(text)), primitive)("C")
        return
    first = Schedule(parse(text))
    loop = first.get_loops("out")[0]
    first.blockize(loop) if step == "blockize" else first.loop_partition(loop, [2, None])
    sch = Schedule(first.func)
    getattr(sch, primitive)("C")
    assert not verify(sch.func)
    same(first.func, sch)
    verify_trace_roundtrip(sch, first.func)


@pytest.mark.parametrize(("old", "new", "block", "code"), [
    ("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", "T.max(X[vi, vj] + Y[vi, vj], T.int8(0))", "out", "range"),
    ("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", "T.max(T.shift_left(X[vi, vj], T.int8(1)), T.int8(0))", "out", "range"),
    ("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", 'T.Cast("int8", T.Cast("int32", X[vi, vj]))', "out", "form"),
    ("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", "X[vi, vj] // Y[vi, vj]", "out", "form"),
    ("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", "T.shift_right(X[vi, vj] + Y[vi, vj], T.int8(1))", "out", "range"),
    ("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", "T.shift_right(X[vi, vj], Y[vi, vj])", "out", "form"),
])
def test_what_cannot_be_widened(old: str, new: str, block: str, code: str) -> None:
    sch = Schedule(parse(relu.script().replace(old, new)))
    with refused(ScheduleError, code):
        sch.widen_block(block)


@pytest.mark.parametrize("value", ["X[vi, vj]", *(f"{x}(vj < 5, X[vi, vj], Y[vi, vj])" for x in ("T.if_then_else", "T.Select"))])
def test_moves_are_widened_and_narrowed(value: str, same: Same) -> None:
    func = parse(relu.script().replace("T.max(X[vi, vj], T.int8(0)) + Y[vi, vj]", value))
    sch = Schedule(func)
    sch.widen_block("out")
    assert 'T.Cast("int32", X[vi, vj])' in sch.script()
    same(func, sch)


def test_a_step_that_may_wrap_is_no_operand_of_a_maximum() -> None:
    text = pool.script().replace("(C[vi, vj], P[vi * 2 + vk, vj])", "(C[vi, vj], P[vi * 2 + vk, vj] + T.int8(1))")
    with pytest.raises(ScheduleError, match="takes the max of an int8 value that may have wrapped around"):
        Schedule(parse(text)).widen_block("C")
    with pytest.raises(ScheduleError, match="is not one store of an int8 value"):
        sch = Schedule(pool)
        sch.widen_block("C")
        sch.widen_block("C")


def dropped(func: PrimFunc) -> Schedule:
    sch = Schedule(func)
    sch.zero_padding("P")
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.drop_neutral_terms("C_update")
    return sch


def test_padding_that_changes_nothing_drops_out(verify_trace_roundtrip: Verify, same: Same) -> None:
    sch = Schedule(pool)
    sch.zero_padding("P")
    assert "T.max(C[vi, vj], T.if_then_else(1 <= vi * 2 + vk and vi * 2 + vk < 10, P[vi * 2 + vk, vj], T.int8(-100)))" in (
        sch.script().replace("vi * 2 + vk >= 1", "1 <= vi * 2 + vk"))
    same(pool, sch)
    # -100 is more than the -128 that the maximum starts with.
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="is known to leave the max as it is, which starts with -128"):
        sch.drop_neutral_terms("C_update")
    func = parse(pool.script().replace("-100", "-128"))
    done = dropped(func)
    assert "T.where(" in done.script() and "T.max(C[vi, vj], P[vi * 2 + vk, vj])" in done.script()
    same(func, done)
    verify_trace_roundtrip(done, func)


def test_a_minimum_drops_what_is_above(same: Same) -> None:
    text = pool.script().replace("T.max(C", "T.min(C").replace("T.int8(-128)", "T.int8(90)")
    func = parse(text.replace("-100", "90"))
    same(func, dropped(func))
    with pytest.raises(ScheduleError, match="known to leave the min as it is, which starts with 90"):
        dropped(parse(text.replace("-100", "89")))


def test_blocks_without_such_padding() -> None:
    sch = Schedule(pool)
    with refused(ScheduleError, "form"):
        sch.zero_padding("C")
    with refused(ScheduleError, "reduction"):
        sch.drop_neutral_terms("C")
    sch.zero_padding("P")
    with refused(ScheduleError, "form"):
        sch.zero_padding("P")


def test_a_part_that_is_matched_keeps_its_type() -> None:
    text = pool.script()
    text = text[: text.rindex("    for i, j in T.grid(5, 16):")] + """    for i in range(5):
        with T.sblock("out"):
            vi = T.axis.spatial(5, i)
            T.reads(C[vi, 0:16])
            T.writes(out[vi, 0:16])
            row = T.match_buffer(C[vi, 0:16], (16,), "int8")
            for j in range(16):
                out[vi, j] = row[j]
"""
    with refused(ScheduleError, "address"):
        Schedule(parse(text)).widen_block("C")
