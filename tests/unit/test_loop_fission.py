"""loop_fission: a loop of several statements as one loop for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

PAIR = '''
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for z in range(64):
        with T.block("z"):
            vz = T.axis.spatial(64, z)
            B[vz] = A[vz] * 3
    for {outer}:
        for {mine}:
            with T.block("first"):
                vx = T.axis.opaque(64, {wrote})
                {first}
        for {theirs}:
            with T.block("second"):
                vy = T.axis.opaque(64, {read})
                {second}
'''
PLAIN = {"outer": "i in range(4)", "mine": "j in range(4)", "theirs": "j in range(4)", "wrote": "i * 4 + j",
         "read": "i * 4 + j", "first": "B[vx] = A[vx] + 1", "second": "C[vy] = B[vy] * 2"}


def outputs(func: PrimFunc) -> np.ndarray:
    arrays = [np.random.default_rng(3).integers(-99, 99, 64).astype("int32"), np.zeros(64, "int32"), np.zeros(64, "int32")]
    run(func, *arrays)
    return np.stack(arrays)


@pytest.mark.parametrize("changes", [
    {},
    {"read": "i * 4 + (3 - j)"},  # another order inside an iteration
    {"outer": "i in range(64)", "mine": "j in range(1)", "theirs": "j in range(1)", "wrote": "i // 8 * 8 + i % 8",
     "read": "i // 8 * 8 + i % 8"},
    {"mine": "j in range(3)", "theirs": "j in range(2)", "read": "i * 4 + j + 2"},  # windows of 4, the step
    {"second": "C[vy] = A[vy] - 1"},  # nothing in common
])
def test_statements_of_their_own(changes: dict[str, str], verify_trace_roundtrip: Verify) -> None:
    func = parse(PAIR.format(**{**PLAIN, **changes}))
    sch = Schedule(func)
    made = sch.loop_fission(sch.get_loops("first")[0])
    assert len(made) == 2
    assert sch.get(sch.get_loops("second")[0]) is sch.get(made[1])
    assert sch.get(sch.get_loops("first")[0]) is sch.get(made[0])
    assert np.array_equal(outputs(func), outputs(sch.func))
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("changes", "code"), [
    ({"read": "i * 4 + j + 1"}, "order"),  # its last element is the next iteration's first
    ({"outer": "i in range(1, 4)", "read": "i * 4 + j - 4"}, "order"),
    ({"first": "B[vx] = A[vx] + 1", "second": "B[vy] = A[vy] + 2", "read": "i + j"}, "order"),
    ({"first": "C[vx] = B[vx] + 1", "second": "B[vy] = A[vy]", "read": "i * 5 + j"}, "order"),
    ({"outer": "i in range(16)", "mine": "j in range(1)", "theirs": "j in range(1)", "wrote": "i // 8 * 8", "read": "i // 8 * 8"},
     "order"),  # several iterations, one element
    ({"second": "T.reads(B[vy:vy + 2])\n                T.writes(C[vy])\n                C[vy] = B[vy] * 2"}, "order"),
    ({"outer": "i in range(15)", "second": "T.reads(A[vy])\n                T.writes(C[vy])\n                C[vy] = B[vy + 4]"},
     "order"),  # what is declared is not all that is read
    ({"outer": "i in range(15)", "first": "T.reads(A[vx])\n                T.writes(C[vx])\n                B[vx + 4] = A[vx]"},
     "order"),  # nor all that is written
    ({"outer": "i in T.unroll(4)"}, "loop"),
])
def test_what_depends_on_other_iterations(changes: dict[str, str], code: str) -> None:
    func = parse(PAIR.format(**{**PLAIN, **changes}))
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.loop_fission(sch.get_loops("first")[0])
    assert sch.func == func
    with refused(ScheduleError, "form"):
        sch.loop_fission(sch.get_loops("z")[0])


def inner(first: str, second: str) -> PrimFunc:
    return parse(f'''
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for i in range(2):
        for j in range(4):
            with T.block("first"):
                vx = T.axis.opaque(64, {first})
                B[vx] = A[vx] + 1
            with T.block("second"):
                vy = T.axis.opaque(64, {second})
                C[vy] = B[vy] * 2
''')


def test_loops_around_stand_still() -> None:
    func = inner("j * 4 + i * 16", "j * 4 + i * 16 + 3")
    sch = Schedule(func)
    sch.loop_fission(sch.get_loops("first")[1])
    assert np.array_equal(outputs(func), outputs(sch.func))
    with refused(ScheduleError, "order"):
        sch = Schedule(inner("j * 4 + i * 4", "j * 4 + i * 8"))
        sch.loop_fission(sch.get_loops("first")[1])


@settings(max_examples=80)
@given(st.data())
def test_whatever_is_accepted_computes_the_same(data: st.DataObject) -> None:
    def index() -> str:
        step, inner, base = (data.draw(st.sampled_from(x)) for x in ((0, 1, 2, 4, 5), (0, 1, 2, 3), (0, 1, 2, 4)))
        moved = data.draw(st.sampled_from([f"i * {step} + j * {inner}", "i % 3 * 8 + j", "i // 2 * 4 + j"]))
        return f"{moved} + {base}"

    stores = ["B[{v}] = A[{v}] + 1", "B[{v}] = B[{v}] * 2 + 1", "C[{v}] = B[{v}] + C[{v}]", "C[{v}] = A[{v}]"]
    func = parse(PAIR.format(
        outer=f"i in range({data.draw(st.integers(2, 5))})", mine=f"j in range({data.draw(st.integers(1, 4))})",
        theirs=f"j in range({data.draw(st.integers(1, 4))})", wrote=index(), read=index(),
        first=data.draw(st.sampled_from(stores)).format(v="vx"), second=data.draw(st.sampled_from(stores)).format(v="vy")))
    sch = Schedule(func, error_render_level="fast")
    try:
        sch.loop_fission(sch.get_loops("first")[0])
    except ScheduleError:
        return
    assert np.array_equal(outputs(func), outputs(sch.func)), func.script()
