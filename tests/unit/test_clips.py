"""Clips that go, and constants that go in front of clips: equal results, or a refusal; and what that saves a residual sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from sim import isa
from space import Space

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

STAGES = '''
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "int32"), E: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")):
    T.func_attr({"autosched.value_ranges": {"A": [-5000, 5000]}})
    R = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("R"):
            vi = T.axis.spatial(16, i)
            R[vi] = T.min(T.max(T.shift_right(A[vi], 4), -20), 100)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.shift_right(R[vi] + T.Cast("int32", E[vi]) + 3, 2)
'''
ONE = '''
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "int32"), E: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")):
    T.func_attr({"autosched.value_ranges": {"A": [-5000, 5000]}})
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.min(T.max(T.shift_right(A[vi], 4), -20), 100) + T.Cast("int32", E[vi]) + 3
'''
RESIDUAL = '''
from tvm.script import tir as T

@T.prim_func
def main(data: T.Buffer((1, 2, 6, 6, 1, 16), "int8"), weight: T.Buffer((2, 2, 16, 16), "int8"),
         bias: T.Buffer((2, 16), "int32"), res: T.Buffer((1, 2, 6, 6, 1, 16), "int8"),
         out: T.Buffer((1, 2, 6, 6, 1, 16), "int8")):
    T.func_attr({"autosched.value_ranges": {"bias": [-65536, 65536]}})
    sums = T.alloc_buffer((1, 2, 6, 6, 1, 16), "int32")
    requant = T.alloc_buffer((1, 2, 6, 6, 1, 16), "int32")
    total = T.alloc_buffer((1, 2, 6, 6, 1, 16), "int32")
    for n, co, y, x, nb, cb, ci, ib in T.grid(1, 2, 6, 6, 1, 16, 2, 16):
        with T.block("sums"):
            vn, vco, vy, vx, vnb, vcb, vci, vib = T.axis.remap("SSSSSSRR", [n, co, y, x, nb, cb, ci, ib])
            with T.init():
                sums[vn, vco, vy, vx, vnb, vcb] = 0
            sums[vn, vco, vy, vx, vnb, vcb] = sums[vn, vco, vy, vx, vnb, vcb] + T.Cast(
                "int32", data[vn, vci, vy, vx, vnb, vib]) * T.Cast("int32", weight[vco, vci, vcb, vib])
    for n, co, y, x, nb, cb in T.grid(1, 2, 6, 6, 1, 16):
        with T.block("requant"):
            vn, vco, vy, vx, vnb, vcb = T.axis.remap("SSSSSS", [n, co, y, x, nb, cb])
            requant[vn, vco, vy, vx, vnb, vcb] = T.min(T.max(T.shift_right(
                sums[vn, vco, vy, vx, vnb, vcb] + bias[vco, vcb], 8), 0), 127)
    for n, co, y, x, nb, cb in T.grid(1, 2, 6, 6, 1, 16):
        with T.block("total"):
            vn, vco, vy, vx, vnb, vcb = T.axis.remap("SSSSSS", [n, co, y, x, nb, cb])
            total[vn, vco, vy, vx, vnb, vcb] = T.min(T.max(T.shift_right(
                requant[vn, vco, vy, vx, vnb, vcb] + T.Cast("int32", res[vn, vco, vy, vx, vnb, vcb]) + 1, 1), 0), 127)
    for n, co, y, x, nb, cb in T.grid(1, 2, 6, 6, 1, 16):
        with T.block("out"):
            vn, vco, vy, vx, vnb, vcb = T.axis.remap("SSSSSS", [n, co, y, x, nb, cb])
            out[vn, vco, vy, vx, vnb, vcb] = T.Cast("int8", total[vn, vco, vy, vx, vnb, vcb])
'''


def changed(text: str, *pairs: tuple[str, str]) -> PrimFunc:
    """A program in other words, each of which is there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    found = parse(text)
    assert isinstance(found, PrimFunc)
    return found


def require_equal(func: PrimFunc, sch: Schedule, seed: int) -> None:
    """Both compute the same of values in the ranges that the programs declare."""
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-5000, 5001, 16).astype("int32"), rng.integers(-128, 128, 16).astype("int8"), np.zeros(16, "int32")]
    wanted = run(func, *[a.copy() for a in arrays])["C"]
    assert np.array_equal(run(sch.func, *arrays)["C"], wanted)


def test_the_constant_goes_to_the_stage_before(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = changed(STAGES)
    sch = Schedule(func)
    made = sch.advance_constant("C")
    text = sch.script()
    assert sch.get(made).name == "R"
    assert "R[vi] = T.min(T.max(T.shift_right(A[vi] + 48, 4), -17), 103)" in text
    assert 'C[vi] = T.shift_right(R[vi] + T.Cast("int32", E[vi]), 2)' in text
    for seed in range(3):
        same(func, sch, seed)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form"):
        sch.advance_constant("C")


def test_a_value_of_its_own_takes_it_as_well(same: Same) -> None:
    func = changed(ONE)
    sch = Schedule(func)
    assert sch.get(sch.advance_constant("C")).name == "C"
    assert 'C[vi] = T.min(T.max(T.shift_right(A[vi] + 48, 4), -17), 103) + T.Cast("int32", E[vi])' in sch.script()
    same(func, sch, 0)
    # Of two values that are equal one takes it.
    clip = "T.min(T.max(T.shift_right(A[vi], 4), -20), 100)"
    func = changed(ONE, (f'{clip} + T.Cast("int32", E[vi])', f"{clip} + {clip}"))
    sch = Schedule(func)
    sch.advance_constant("C")
    same(func, sch, 0)


@given(st.integers(0, 12), st.integers(-300, 300), st.integers(-300, 300), st.integers(-600, 600), st.integers(0, 3),
       st.integers(0, 2**32 - 1))
def test_any_shift_clip_and_multiple(shift: int, low: int, high: int, constant: int, scale: int, seed: int) -> None:
    """Equal values, or nothing at all: a constant that is no multiple of the value's factor has to stay."""
    func = changed(STAGES, ("A[vi], 4), -20), 100)", f"A[vi], {shift}), {low}), {high})"),
                   ("R[vi] + T.Cast", f"T.shift_left(R[vi], {scale}) + T.Cast"), ("+ 3, 2)", f"+ {constant}, 2)"))
    sch = Schedule(func)
    if constant == 0 or constant % (1 << scale):
        with refused(ScheduleError, "form"):
            sch.advance_constant("C")
        return
    sch.advance_constant("C")
    require_equal(func, sch, seed)


@pytest.mark.parametrize(("pairs", "code"), [
    ((), None),
    ((("+ 3, 2", ", 2"),), "form"),  # nothing to move
    ((("T.min(T.max(T.shift_right(A[vi], 4), -20), 100)", "A[vi] * 2"),), "form"),  # nothing to move it in front of
    ((("R[vi] + T.Cast", "R[vi] + R[vi] + T.Cast"),), "reader"),
    ((("R[vi] + T.Cast", "A[vi] - R[vi] + T.Cast"),), "form"),
    ((("C[vi] = ", "C[15 - vi] = "),), None),
    ((("R[vi] + T.Cast", "R[15 - vi] + T.Cast"),), None),
    # Of 16 elements 15 are there when they are read.
    ((("            R[vi] = ", "            T.where(i < 15)\n            R[vi] = "),), "order"),
    ((('E: T.Buffer((16,), "int8"), C', 'E: T.Buffer((16,), "int8"), R: T.Buffer((16,), "int32"), C'),
      ('    R = T.alloc_buffer((16,), "int32")\n', "")), "output"),
    ((("5000]}", "2147483599]}"),), None),  # 48 less than the largest
    ((("5000]}", "2147483600]}"),), "range"),
    (((", 100)", ", 2147483644)"),), None),
    (((", 100)", ", 2147483645)"),), "range"),
])
def test_what_is_moved_and_what_is_not(pairs: tuple[tuple[str, str], ...], code: str | None, same: Same) -> None:
    func = changed(STAGES, *pairs)
    sch = Schedule(func)
    before = sch.script()
    if code is None:
        sch.advance_constant("C")
        same(func, sch, 1)
    else:
        with refused(ScheduleError, code):
            sch.advance_constant("C")
        assert sch.script() == before


JOINED = (("R[vi] + T.Cast(\"int32\", E[vi]) + 3, 2)", "R[vi] + T.Cast(\"int32\", E[vi]) * 4 + 3, 2)"),)


WIDE = (("5000]}", "2147483647]}"), ("A[vi], 4)", "A[vi], 0)"), ("+ 3, 2", ", 2"))


def test_two_shifts_are_one(verify_trace_roundtrip: Verify, same: Same) -> None:
    func = changed(STAGES, *JOINED)
    sch = Schedule(func)
    assert sch.get(sch.advance_shift("C")).name == "R"
    text = sch.script()
    assert "R[vi] = T.min(T.max(T.shift_right(A[vi] + 48, 6), -5), 25)" in text
    assert 'C[vi] = R[vi] + T.Cast("int32", E[vi])' in text
    for seed in range(3):
        same(func, sch, seed)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form"):
        sch.advance_shift("C")


@given(st.integers(0, 12), st.integers(-300, 300), st.integers(-300, 300), st.integers(-600, 600), st.integers(1, 5),
       st.integers(0, 5), st.sampled_from([-3, -1, 1, 5]), st.integers(0, 2**32 - 1))
def test_any_two_shifts(shift: int, low: int, high: int, constant: int, then: int, scale: int, factor: int, seed: int) -> None:
    func = changed(STAGES, ("A[vi], 4), -20), 100)", f"A[vi], {shift}), {low}), {high})"),
                   ('T.Cast("int32", E[vi]) + 3, 2)', f'T.Cast("int32", E[vi]) * {factor << scale} + {constant}, {then})'))
    sch = Schedule(func)
    if scale < then:
        with refused(ScheduleError, "form"):
            sch.advance_shift("C")
        return
    sch.advance_shift("C")
    require_equal(func, sch, seed)


@pytest.mark.parametrize(("pairs", "code"), [
    ((), None),
    ((("* 4 +", "* 2 +"),), "form"),  # two terms are no multiples
    ((("R[vi] + T.Cast", "R[vi] * 4 + T.Cast"),), "form"),  # none is left
    ((("R[vi] + T.Cast", "R[15 - vi] + T.Cast"),), None),
    ((("A[vi], 4)", "A[vi], 29)"), ("+ 3, 2", ", 2")), None),
    ((("A[vi], 4)", "A[vi], 30)"), ("+ 3, 2", ", 2")), "range"),  # 32 positions
    # The sum itself may not wrap around: 127 * 4 comes on top.
    (((", 100)", f", {2**31 - 1 - 127 * 4})"), *WIDE), None),
    (((", 100)", f", {2**31 - 127 * 4})"), *WIDE), "form"),
])
def test_what_joins_and_what_does_not(pairs: tuple[tuple[str, str], ...], code: str | None, same: Same) -> None:
    func = changed(STAGES, *JOINED, *pairs)
    sch = Schedule(func)
    if code is None:
        sch.advance_shift("C")
        same(func, sch, 1)
    else:
        with refused(ScheduleError, code):
            sch.advance_shift("C")


def test_others_that_read_the_stage_keep_it() -> None:
    more = STAGES.replace('C: T.Buffer((16,), "int32")', 'C: T.Buffer((16,), "int32"), F: T.Buffer((16,), "int32")') + '''
    for i in range(16):
        with T.block("F"):
            vi = T.axis.spatial(16, i)
            F[vi] = R[vi] * 2
'''
    with refused(ScheduleError, "reader"):
        Schedule(changed(more)).advance_constant("C")


def test_a_sum_keeps_its_place_in_front_of_what_is_added(same: Same) -> None:
    """The constant joins the bias: ``fold_epilogue`` takes both at once."""
    func = changed(RESIDUAL)
    sch = Schedule(func)
    sch.fold_epilogue(sch.advance_constant("total"))
    text = sch.script()
    assert "sums[vn, vco, vy, vx, vnb, vcb] = bias[vco, vcb] + 256" in text
    assert "T.min(T.max(T.shift_right(sums[vn, vco, vy, vx, vnb, vcb], 8), 1), 128)" in text
    same(func, sch, 0)


@pytest.mark.parametrize(("target", "expected"), [
    # SHR, MAX, MIN, SHR, MAX; the initial value brings the rounding in.
    ("vta-de10", {isa.ALU_SHR: 2, isa.ALU_MAX: 2, isa.ALU_MIN: 1, isa.ALU_ADD: 1}),
])
def test_a_residual_sum_has_no_operation_for_its_rounding(target: str, expected: dict[int, int]) -> None:
    func = changed(RESIDUAL)
    space = Space(func, target)
    trace = space.trace(space.point())
    sch = space.schedule(space.point())
    table = lower_table(sch.func, get_target(target)).table
    rows = table[table[:, isa.OPCODE] == isa.OP_ALU]
    assert {op: int((rows[:, isa.ALU_OP] == op).sum()) for op in np.unique(rows[:, isa.ALU_OP]).tolist()} == expected
    found = measure(Candidate(func, target, tuple(trace.as_json())), execute=True, wide=True)
    assert found.ok, found.reason


def test_a_constant_that_no_instruction_takes_stays_behind_the_clip() -> None:
    """Shifted by 8 it is 32 768 there, one more than an immediate operand holds."""
    for constant, there in ((127, True), (128, False)):
        func = changed(RESIDUAL, (") + 1, 1)", f") + {constant}, 1)"))
        space = Space(func, "vta-de10")
        steps = [step.op for step in space.trace(space.point()).insts]
        assert ("advance_constant" in steps) == there


@pytest.mark.parametrize(("shifted", "target", "shifts", "constant"), [
    (True, "vta-de10", True, False),  # the constant went with the shift
    (False, "vta-de10", False, True),  # one shift stays one
    (False, "vta-de10-portable", False, False),  # no copy brings it in
])
def test_what_saves_an_operation_is_done(shifted: bool, target: str, shifts: bool, constant: bool) -> None:
    own = "sums[vn, vco, vy, vx, vnb, vcb] + bias[vco, vcb]"
    func = changed(RESIDUAL, ("vx, vnb, vcb]) + 1, 1)", "vx, vnb, vcb]) * 2 + 1, 1)"), (
        f"T.shift_right(\n                {own}, 8)", f"T.shift_right({own}, 8)" if shifted else own))
    space = Space(func, target)
    steps = {step.op for step in space.trace(space.point()).insts}
    assert ("advance_shift" in steps, "advance_constant" in steps) == (shifts, constant)


def test_a_clip_that_no_instruction_takes_stays_as_it_is() -> None:
    """127 and 32 641 are one more than an immediate operand holds."""
    for constant, there in ((32640, True), (32641, False)):
        func = changed(RESIDUAL, (") + 1, 1)", f") + {constant}, 9)"), ("bias[vco, vcb], 8)", "bias[vco, vcb], 0)"))
        steps = [step.op for step in Space(func, "vta-de10").trace(Space(func, "vta-de10").point()).insts]
        assert ("advance_constant" in steps) == there


# -- clips that later ones make up for -----------------------------------------------------------------------------------

TWICE = '''
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "int32"), E: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")):
    T.func_attr({"autosched.value_ranges": {"A": [-5000, 5000], "E": [0, 100]}})
    R = T.alloc_buffer((16,), "int32")
    S = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("R"):
            vi = T.axis.spatial(16, i)
            R[vi] = T.min(T.max(A[vi], -100), 127)
    for i in range(16):
        with T.block("S"):
            vi = T.axis.spatial(16, i)
            S[vi] = R[vi] + T.Cast("int32", E[vi])
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.min(T.max(S[vi], 0), 127)
'''


@pytest.mark.parametrize(("pairs", "value"), [
    ((), "A[vi]"),
    # What is added may take the sum back from the bound.
    ((("[0, 100]", "[-1, 100]"),), "T.min(A[vi], 127)"),
    ((("[0, 100]", "[0, 101]"),), "T.max(A[vi], -100)"),
    ((("[0, 100]", "[-1, 101]"),), None),
    # Another last word.
    ((("T.max(S[vi], 0), 127)", "T.max(S[vi], 0), 128)"),), "T.min(A[vi], 127)"),
    ((("T.max(S[vi], 0), 127)", "T.max(S[vi], -1), 127)"),), "T.max(A[vi], -100)"),
    ((("T.min(T.max(S[vi], 0), 127)", "T.shift_right(T.min(T.max(S[vi], 0), 127), 1)"),), "A[vi]"),
    ((("T.min(T.max(S[vi], 0), 127)", "T.min(T.max(S[vi], 0), 127) + T.Cast(\"int32\", E[vi])"),), None),
    # The clip's inside, with another bound.
    ((("T.min(T.max(A[vi], -100), 127)", "T.max(T.min(A[vi], 127), -100)"),), "A[vi]"),
    ((("T.min(T.max(A[vi], -100), 127)", "T.max(T.min(A[vi], 126), -100)"),), "T.min(A[vi], 126)"),
    # Somebody else reads it, or it is read twice, or made twice.
    ((("S[vi] = R[vi] +", "S[vi] = R[vi] + R[vi] +"),), None),
    ((("C[vi] = T.min(T.max(S[vi], 0), 127)", "C[vi] = T.min(T.max(S[vi], 0), 127) + R[vi]"),), None),
])
def test_a_clip_goes_where_a_later_one_has_the_last_word(pairs: tuple[tuple[str, str], ...], value: str | None,
                                                         same: Same, verify_trace_roundtrip: Verify) -> None:
    func = changed(TWICE, *pairs)
    sch = Schedule(func)
    before = sch.script()
    if value is None:
        with refused(ScheduleError, "form"):
            sch.drop_clip("R")
        assert sch.script() == before
        return
    sch.drop_clip("R")
    assert f"R[vi] = {value}\n" in sch.script()
    rng = np.random.default_rng(0)
    low, high = func.value_ranges[1]
    for _ in range(4):
        arrays = [np.clip(rng.integers(-400, 401, 16), -5000, 5000).astype("int32"),
                  rng.integers(low, high + 1, 16).astype("int8"), np.zeros(16, "int32")]
        arrays[1][:2] = low, high
        assert np.array_equal(run(sch.func, *[a.copy() for a in arrays])["C"], run(func, *arrays)["C"])
    verify_trace_roundtrip(sch, func)


def test_sums_that_may_wrap_around_keep_their_clips() -> None:
    """Without the clip the sum of both may leave int32."""
    for most, goes in ((2**31 - 1 - 100, True), (2**31 - 100, False)):
        func = changed(TWICE, ("-5000, 5000", f"-5000, {most}"), ("-100), 127)", "-101), 127)"), ("[0, 100]", "[1, 100]"))
        sch = Schedule(func)
        sch.drop_clip("R")  # the other one
        assert ("R[vi] = A[vi]\n" in sch.script()) == goes


def test_a_clip_inside_another_value_of_the_block() -> None:
    func = changed(ONE, ("T.min(T.max(T.shift_right(A[vi], 4), -20), 100) + T.Cast(\"int32\", E[vi]) + 3",
                         "T.min(T.min(T.max(A[vi], -20), 100) * 2, 150)"))
    sch = Schedule(func)
    sch.drop_clip("C")
    assert "C[vi] = T.min(T.max(A[vi], -20) * 2, 150)" in sch.script()
    with refused(ScheduleError, "form"):
        sch.drop_clip("C")


def test_a_clip_that_also_says_what_is_read_stays() -> None:
    """Its value has no say where the last word is 250, but without it elements would be read that are not there."""
    func = changed(ONE, ("-5000, 5000", "0, 20"), ('T.min(T.max(T.shift_right(A[vi], 4), -20), 100) + T.Cast("int32", E[vi]) + 3',
                         'T.min(T.min(A[vi], 3) * 200 + T.Cast("int32", E[T.min(A[vi], 3)]), 250)'))
    with refused(ScheduleError, "form"):
        Schedule(func).drop_clip("C")


def test_a_residual_that_is_never_negative_is_clipped_once() -> None:
    """SHR, and MAX and MIN behind the sum: the requantisation's own clips are gone."""
    func = changed(RESIDUAL, ("[-65536, 65536]", '[-65536, 65536], "res": [0, 127]'), (" + 1, 1), 0), 127)", ", 0), 0), 127)"))
    space = Space(func, "vta-de10")
    table = lower_table(space.schedule(space.point()).func, get_target("vta-de10")).table
    rows = table[table[:, isa.OPCODE] == isa.OP_ALU]
    done = {op: int((rows[:, isa.ALU_OP] == op).sum()) for op in (isa.ALU_MAX, isa.ALU_MIN)}
    assert done == {isa.ALU_MAX: 1, isa.ALU_MIN: 1}
    found = measure(Candidate(func, "vta-de10", tuple(space.trace(space.point()).as_json())), execute=True, wide=True)
    assert found.ok, found.reason


# -- what the primitives must not overlook -------------------------------------------------------------------------------

READ = '''
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
    T.func_attr({"autosched.value_ranges": {"A": [-300, 300]}})
    R = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("R"):
            vi = T.axis.spatial(16, i)
            R[vi] = T.min(A[vi], 127)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.min(R[vi] + 3, 130)
'''
BLOCK = '''        with T.block("C"):
            vi = T.axis.spatial(16, i)
'''
INDEX = '''
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((8,), "int8"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    T.func_attr({"autosched.value_ranges": {"B": [-300, 300]}})
    R = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("R"):
            vi = T.axis.spatial(16, i)
            R[vi] = T.min(T.max(B[vi], 0), 7)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.max(T.Cast("int32", A[R[vi]]), 127)
'''


@pytest.mark.parametrize(("code", "pairs"), [
    ("order", (("    for i in range(16):\n" + BLOCK, "    for i in range(16):\n        for j in range(R[i]):\n"
                + BLOCK.replace("        ", "            ", 1).replace("\n            vi", "\n                vi") + "    "),)),
    ("reader", ((BLOCK, BLOCK + "            T.where(R[i] > 127)\n"),)),
    ("order", (("    for i in range(16):\n" + BLOCK, "    for i in range(16):\n        if R[i] > 127:\n            D[i] = 9\n"
                "    for i in range(16):\n" + BLOCK),)),
])
def test_who_reads_a_stage_outside_of_blocks_sees_what_it_stores(code: str, pairs: tuple[tuple[str, str], ...]) -> None:
    """By the bound of a loop, a block's condition, or one around a store that is no block's."""
    plain = changed(READ)
    Schedule(plain).drop_clip("R")
    Schedule(plain).advance_constant("C")
    func = changed(READ, *pairs)
    with refused(ScheduleError, "form"):
        Schedule(func).drop_clip("R")
    with refused(ScheduleError, code):
        Schedule(func).advance_constant("C")


@pytest.mark.parametrize(("block", "pairs"), [
    ("R", ()),
    ("C", (("A[R[vi]]", "A[T.min(R[vi], 7)]"),)),
    ("C", (("A[R[vi]]", "A[T.min(vi, 7)]"),)),
    ("C", (('T.Cast("int32", A[R[vi]])', 'T.if_then_else(T.max(B[vi], 1) < 2, 3, R[vi])'),)),
    ("C", (('T.max(T.Cast("int32", A[R[vi]]), 127)', "T.min(T.max(R[vi] // T.max(B[vi], 1), 5), 5)"),)),
])
def test_a_clip_that_says_what_is_read_stays(block: str, pairs: tuple[tuple[str, str], ...]) -> None:
    """Its value may matter no more, but without it there is no such element, or nothing to divide by."""
    with refused(ScheduleError, "form"):
        Schedule(changed(INDEX, *pairs)).drop_clip(block)


def test_an_equal_value_at_another_time_is_another() -> None:
    """``Q`` holds what ``A`` was before it was written anew."""
    func = parse("""
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((1,), "int32"), D: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32"), C: T.Buffer((1,), "int32")):
    T.func_attr({"autosched.value_ranges": {"A": [-999, 999], "D": [-999, 999], "B": [254, 254]}})
    Q = T.alloc_buffer((1,), "int32")
    with T.block("Q"):
        Q[0] = T.min(A[0], 127)
    with T.block("A"):
        A[0] = D[0]
    with T.block("C"):
        C[0] = T.min(T.min(A[0], 127) + Q[0], B[0])
""")
    assert isinstance(func, PrimFunc)
    with refused(ScheduleError, "form"):
        Schedule(func).drop_clip("C")


SUMS = '''
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")):
    R = T.alloc_buffer((16,), "int32")
    for i, k in T.grid(16, 4):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                R[vi] = 0
            R[vi] = R[vi] + T.Cast("int32", A[vi, vk])
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.min(R[vi], 508)
'''


@pytest.mark.parametrize(("pairs", "goes"), [
    ((), True),
    ((("508", "507"),), False),
    # Each term three times.
    ((("for i, k in T.grid(16, 4)", "for i, k, r in T.grid(16, 4, 3)"),), False),
    # A part of a parameter, the rest of which holds what came in.
    ((("T.grid(16, 4)", "T.grid(8, 4)"), ('C: T.Buffer', 'R: T.Buffer((16,), "int32"), C: T.Buffer'),
      ('    R = T.alloc_buffer((16,), "int32")\n', "")), False),
])
def test_what_a_sum_can_reach(pairs: tuple[tuple[str, str], ...], goes: bool) -> None:
    sch = Schedule(changed(SUMS, *pairs))
    if goes:
        sch.drop_clip("C")
        assert "C[vi] = R[vi]\n" in sch.script()
        return
    with refused(ScheduleError, "form"):
        sch.drop_clip("C")
