"""choose_by_switches and choices of compared values: choices by data without a choice, exact for every int32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space.normalise import conditions, lacking, values

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

LOW, HIGH = -2**31, 2**31 - 1
ENDS = [LOW, LOW + 1, -2**30 - 1, -1000, -129, -128, -1, 0, 1, 5, 127, 128, 2**30, HIGH - 1, HIGH]
TEXT = '''
@T.prim_func
def f(x: T.Buffer((3375,), "{dtype}"), y: T.Buffer((3375,), "{dtype}"), z: T.Buffer((3375,), "{dtype}"),
      C: T.Buffer((3375,), "{of}")):
    for i in range(3375):
        with T.block("C"):
            vi = T.axis.spatial(3375, i)
            C[vi] = {value}
'''


def program(value: str, dtype: str = "int32", of: str = "int32") -> PrimFunc:
    return parse(TEXT.format(value=value, dtype=dtype, of=of))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    """Of all triples of values at and beside the ends, and of random ones."""
    dtype = func.buffers[0].dtype
    ends = np.array(ENDS).astype(dtype)
    grids = [g.ravel() for g in np.meshgrid(ends, ends, ends)]
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    drawn = [rng.integers(info.min, info.max, grids[0].size, dtype=dtype, endpoint=True) for _ in range(3)]
    outs = [np.zeros(grids[0].size, func.buffers[3].dtype) for _ in range(4)]
    for n, inputs in enumerate((grids, drawn)):
        run(func, *inputs, outs[2 * n])
        run(other, *inputs, outs[2 * n + 1])
    return np.array_equal(outs[0], outs[1]) and np.array_equal(outs[2], outs[3])


def without_choices(func: PrimFunc) -> Schedule:
    """As the space does it: plain, and then without what the ALU lacks."""
    sch, target = conditions.single(func), get_target("vta-de10")
    values.apply(sch, target)
    lacking.apply(sch, target)
    return sch


@pytest.mark.parametrize(("value", "after"), [
    ("T.Select(x[vi] < y[vi], x[vi], y[vi])", "T.min(x[vi], y[vi])"),
    ("T.Select(x[vi] <= y[vi], y[vi], x[vi])", "T.max(x[vi], y[vi])"),
    ("T.Select(x[vi] > y[vi], x[vi], y[vi])", "T.max(y[vi], x[vi])"),
    ("T.Select(not x[vi] >= y[vi], x[vi], y[vi])", "T.min(x[vi], y[vi])"),
    ("T.if_then_else(x[vi] > y[vi], x[vi] * 3 + z[vi], y[vi] * 3 + z[vi])", "T.max(y[vi], x[vi]) * 3 + z[vi]"),
    ("T.Select(x[vi] > y[vi], x[vi] - y[vi], y[vi] - x[vi])", "T.max(y[vi], x[vi]) - T.min(y[vi], x[vi])"),
    ("T.Select(T.Select(x[vi] > y[vi], x[vi], y[vi]) > z[vi], T.Select(x[vi] > y[vi], x[vi], y[vi]), z[vi])",
     "T.max(z[vi], T.max(y[vi], x[vi]))"),
    ('T.Cast("int32", x[vi] > y[vi])', None),
])
def test_a_choice_of_compared_values_is_an_extremum(value: str, after: str | None, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch = Schedule(func)
    sch.simplify_value("C")
    assert equal(func, sch.func)
    assert (f"C[vi] = {after}\n" if after else "T.if_then_else(x[vi] > y[vi], 1, 0)") in sch.script()
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("value", [
    "T.Select(x[vi] > y[vi], x[vi], z[vi])", "T.Select(x[vi] > y[vi], x[vi] - y[vi], x[vi] - y[vi] + 1)",
    "T.Select(x[vi] == y[vi], x[vi], y[vi])", "T.Select(x[vi] - y[vi] > 0, x[vi], y[vi])",
    "T.Select(x[vi] > y[vi], x[vi] - y[vi], 0)",
])
def test_other_choices_stay(value: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.simplify_value("C")
    assert sch.func == func


X, Y = 'T.Cast("int32", x[vi])', 'T.Cast("int32", y[vi])'


@pytest.mark.parametrize("value", [
    f"T.Select({X} - {Y} > 0, {X}, {Y})", f"T.Select({X} - {Y} < 1, {X}, {Y})", f"T.Select({X} - {Y} <= -1, {Y}, {X})",
    f"T.Select({X} - {Y} > -1, {Y}, {X})", f"T.Select(0 < {X} - {Y}, {X}, {Y})",
    f"T.Select(x[vi] > y[vi], {X} - {Y}, 0)", f"T.Select(y[vi] > x[vi], 0, {X} - {Y})",
    f"T.Select(not x[vi] > y[vi], 0, {X} - {Y})",
    f"T.Select(x[vi] < T.int8(0), 0 - {X}, {X})", f"T.Select({X} < 5, 5, {X})", f"T.Select({X} > {Y}, {X} * {X}, {Y} * {Y})",
    f"T.Select(T.int8(0) < x[vi], {X}, 0)", f"T.Select(not x[vi] < T.int8(7), {X}, 7)",
])
def test_of_int8_differences_and_other_types_count(value: str) -> None:
    func = program(value, "int8")
    sch = Schedule(func)
    sch.simplify_value("C")
    assert equal(func, sch.func) and "Select" not in sch.script()


@pytest.mark.parametrize("value", [
    f"T.Select({X} - {Y} > 1, {X}, {Y})", f"T.Select({X} - {Y} < -1, {X}, {Y})", f"T.Select({X} < 5, 6, {X})",
    'T.Select(x[vi] - y[vi] > T.int8(0), T.Cast("int32", x[vi]), T.Cast("int32", y[vi]))',
])
def test_of_int8_what_does_not_meet_stays(value: str) -> None:
    func = program(value, "int8")
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.simplify_value("C")
    assert sch.func == func


CONDITIONS = ["z[vi] < 5", "z[vi] >= -128", "x[vi] > 0", "z[vi] == 127", "z[vi] != y[vi]", "x[vi] < z[vi]", "x[vi] >= y[vi]",
              "z[vi] > y[vi]", "z[vi] <= y[vi]", "not z[vi] < y[vi]", "z[vi] > 3 and x[vi] < y[vi]", "z[vi] > 3 or z[vi] < -3",
              "not (z[vi] > 3 or z[vi] == y[vi])", "vi < 99 and z[vi] > 0", "z[vi] > vi * 7 - 99"]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("sides", [
    "x[vi], 0", "0, x[vi]", "x[vi], y[vi]", f"x[vi], {LOW}", f"{HIGH}, x[vi]", "x[vi], 3", "-5, x[vi]", "x[vi] >> 20, y[vi] >> 1",
    "T.max(x[vi], 0), 0", "T.min(x[vi], 9), 9", "7, -2",
])
def test_every_int32_is_chosen(condition: str, sides: str) -> None:
    func = program(f"T.Select({condition}, {sides})")
    sch = without_choices(func)
    assert equal(func, sch.func) and "Select" not in sch.script()


@pytest.mark.parametrize("condition", ["z[vi] < T.int8(5)", "x[vi] > y[vi]", "z[vi] == x[vi]", f"{X} - {Y} > 20"])
@pytest.mark.parametrize("sides", [
    "x[vi], y[vi]", "x[vi], T.int8(-128)", "T.int8(127), x[vi]", "x[vi] - T.int8(20), y[vi] + x[vi]", "x[vi] * y[vi], T.int8(3)",
])
def test_every_int8_is_chosen_also_of_what_wraps_around(condition: str, sides: str) -> None:
    func = program(f"T.Select({condition}, {sides})", "int8", "int8")
    sch = without_choices(func)
    assert equal(func, sch.func) and "Select" not in sch.script()


def test_a_product_with_a_choice_is_one_of_products() -> None:
    func = program(f"({Y} + 1) * T.Select(x[vi] > z[vi], 3, 0)", "int8")
    sch = Schedule(func)
    sch.choose_by_switches("C")
    assert equal(func, sch.func) and "T.Select(x[vi] > z[vi], (T.Cast(\"int32\", y[vi]) + 1) * 3, 0)" in sch.script()


@pytest.mark.parametrize("value", [
    "T.Select(z[vi] < 5, 1, 2)", "T.Select(vi < 5, x[vi], 0)", "T.max(x[vi], 0)", "x[vi] * y[vi]",
    "T.if_then_else(z[vi] < 5, x[vi + 1], 0)", "T.if_then_else(z[vi] < 5, x[vi - 1], y[vi])",
    "T.Select(z[vi] < -2147483648, x[vi], 0)",
])
def test_what_is_no_choice_by_data_between_values_stays(value: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.choose_by_switches("C")
    assert sch.func == func


def test_one_limit_is_enough_of_what_is_never_beyond_the_constant(verify_trace_roundtrip: Verify) -> None:
    func = program("T.Select(z[vi] < 5, T.max(x[vi], 3), 3)")
    sch = Schedule(func)
    sch.choose_by_switches("C")
    assert "T.min(T.max(x[vi], 3), T.Select(z[vi] < 5, 2147483647, 3))" in sch.script() and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


STEPS = '''
@T.prim_func
def f(x: T.Buffer((8, 24), "{dtype}"), y: T.Buffer((8, 24), "{dtype}"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 24):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 7
            C[vi] = {update}
'''


@pytest.mark.parametrize("update", [
    "C[vi] + T.max(x[vi, vk] - y[vi, vk], y[vi, vk] - x[vi, vk])", "T.max(C[vi], T.max(x[vi, vk], 0 - x[vi, vk]))",
    "C[vi] + T.Select(x[vi, vk] > y[vi, vk], x[vi, vk], 3)",
])
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_at_the_steps_of_a_sum(update: str, dtype: str) -> None:
    from space.normalise import negation

    if dtype == "int8":
        update = update.replace("x[vi, vk]", 'T.Cast("int32", x[vi, vk])').replace("y[vi, vk]", 'T.Cast("int32", y[vi, vk])')
    func = parse(STEPS.format(update=update, dtype=dtype))
    sch = without_choices(func)
    negation.apply(sch, get_target("vta-de10"))
    text = sch.script()
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-128, 127, (8, 24), dtype=dtype, endpoint=True) for _ in range(2))
    one, other = np.zeros(8, np.int32), np.zeros(8, np.int32)
    run(func, x, y, one)
    run(sch.func, x, y, other)
    assert np.array_equal(one, other) and "Select" not in text
