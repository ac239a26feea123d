"""slide_reduction: scans of extrema as windows that begin at a place, and what that is for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused
from spaces import computes

from autosched import te
from autosched.errors import ScheduleError, SpaceError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import parse
from space import Space

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((12,), "int32"), C: T.Buffer(({rows},), "int32")):
    for i, k in T.grid({rows}, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {start}
            C[vi] = {value}
'''


def program(value: str, rows: int = 12, start: int = -90) -> PrimFunc:
    return parse(TEXT.format(value=value, rows=rows, start=start))


def values(func: PrimFunc) -> np.ndarray:
    out = np.zeros(func.buffers[1].shape[0].value, np.int32)
    run(func, np.random.default_rng(0).permutation(np.arange(-60, 60, 10, dtype=np.int32)), out)
    return out


@pytest.mark.parametrize(("condition", "rows"), [
    ("vk <= vi", 12), ("vk < vi", 12), ("vk < vi", 13), ("vi >= vk", 12), ("vk <= vi + 3", 9), ("vk + 2 <= vi", 14),
    ("vk >= vi", 12),
    ("vk > vi", 12), ("vk + 1 > vi", 12), ("vi <= vk - 1", 12), ("vk >= vi + 5", 12), ("vk - vi <= -4", 12),
])
@pytest.mark.parametrize("form", [
    "T.max(C[vi], T.if_then_else({c}, A[vk], -90))", "T.min(C[vi], T.if_then_else({c}, A[vk] * 2 + vk, 70))",
    "C[vi] + T.if_then_else({c}, A[vk], 0)", "C[vi] + T.if_then_else({c}, A[vk], 7)",
    "T.max(T.Select({c}, A[11 - vk], 3), C[vi])",
])
def test_it_counts_from_the_place(condition: str, rows: int, form: str, verify_trace_roundtrip: Verify) -> None:
    func = program(form.format(c=condition), rows)
    sch = Schedule(func)
    sch.slide_reduction("C")
    assert np.array_equal(values(func), values(sch.func)) and sch.script() != Schedule(func).script()
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form"):  # it does already
        sch.slide_reduction("C")


def test_what_does_not_count_may_be_what_a_condition_is_about() -> None:
    func = program("T.min(C[vi], T.if_then_else(vk > vi, 33, A[vk]))")
    sch = Schedule(func)
    sch.slide_reduction("C")
    assert np.array_equal(values(func), values(sch.func))


@pytest.mark.parametrize(("condition", "rows"), [
    ("vk <= vi", 13), ("vk < vi", 14), ("vk <= vi + 1", 12), ("vk >= vi - 1", 12), ("vk + 2 > vi", 12), ("vk * 2 <= vi", 12),
    ("vk <= vi * 2", 6), ("vk <= 5", 12), ("vi <= 5", 12), ("vk == vi", 12), ("vk <= vi and vk > 2", 12), ("vk + vi <= 11", 12),
    ("A[vk] <= vi", 12),
])
def test_a_window_that_would_begin_outside_and_other_conditions_stay(condition: str, rows: int) -> None:
    func = program(f"T.max(C[vi], T.if_then_else({condition}, A[vk], -90))", rows)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.slide_reduction("C")
    assert sch.func == func


@pytest.mark.parametrize("value", [
    "T.max(C[vi], A[vk])", "T.max(C[vi], T.if_then_else(vk <= vi, A[vk], A[0]))",
    "T.max(C[vi], T.if_then_else(vk <= vi, A[vi], -90))",
])
def test_other_terms_stay(value: str) -> None:
    func = program(value)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.slide_reduction("C")
    assert sch.func == func


def test_only_a_reduction_of_all_steps_counts_otherwise() -> None:
    func = parse(TEXT.format(value="T.max(C[vi], T.if_then_else(vk <= vi, A[vk], -90))", rows=12, start=0).replace(
        'vi, vk = T.axis.remap("SR", [i, k])', 'vi = T.axis.spatial(12, i)\n            vk = T.axis.reduce(12, k)\n            '
        "T.where(k < 11)"))
    sch = Schedule(func)
    with refused(ScheduleError, "domain"):
        sch.slide_reduction("C")


def scan(least: bool, more: int = 0, dtype: str = "int8") -> PrimFunc:
    x, k = te.placeholder((14, 20), dtype, name="x"), te.reduce_axis((0, 14), name="k")
    op, end = (te.min, 127) if least else (te.max, -128)
    return te.create_prim_func([x, te.compute((14, 20), lambda i, j: op(
        te.if_then_else(k >= i if least else k <= i + more, x[k, j], te.const(end, dtype)), axis=k), name="y")])


@pytest.mark.parametrize("least", [False, True])
def test_a_running_extremum_is_computed(least: bool) -> None:
    computes(scan(least), "vta-de10")


def test_one_that_begins_outside_is_refused() -> None:
    with pytest.raises(SpaceError, match="depends on v_i in another way than x is read"):
        Space(scan(False, 1), "vta-de10")
