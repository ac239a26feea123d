"""join_init_behind: reductions that start with nothing, and what they started with behind them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 4), "{dtype}"), b: T.Buffer((6,), "{dtype}"), D: T.Buffer((6,), "{dtype}")):
    C = T.alloc_buffer((6,), "{dtype}")
    for {loops}:
        with T.block("C"):
            {iters}
            {where}
            with T.init():
                C[{at}] = {init}
            C[{at}] = {value}
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = {read}
'''
PLAIN = {"loops": "i, k in T.grid(6, 4)", "iters": 'vi, vk = T.axis.remap("SR", [i, k])', "where": "", "init": "b[vi]",
         "value": "C[vi] + A[vi, vk]", "dtype": "int32", "read": "C[vi]", "at": "vi"}


def program(**changes: str) -> PrimFunc:
    return parse(TEXT.format(**{**PLAIN, **changes}))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    return all(np.array_equal(a, b) for seed in (0, 1, 2) for a, b in zip(run(func, *random_inputs(func, seed)),
                                                                       run(other, *random_inputs(func, seed)), strict=True))


@pytest.mark.parametrize(("value", "start"), [
    ("C[vi] + A[vi, vk]", "0"), ("T.max(C[vi], A[vi, vk])", {"int32": "-2147483648", "int8": "-128"}),
    ("T.min(A[vi, vk], C[vi])", {"int32": "2147483647", "int8": "127"}),
])
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_what_it_started_with_is_joined_once(value: str, start: str | dict[str, str], dtype: str,
                                             verify_trace_roundtrip: Verify) -> None:
    func = program(value=value, dtype=dtype, read="C[5 - vi]")
    sch = Schedule(func)
    made = sch.get(sch.join_init_behind("C"))
    first = sch.get(sch.get_sblock("C"))
    assert made.name == "C_start" and made.init is None and str(first.init.value.value) == (
        start if isinstance(start, str) else start[dtype])
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form"):
        sch.join_init_behind("C")  # it starts with nothing


def test_a_result_is_stored_behind() -> None:
    text = TEXT.format(**{**PLAIN, "read": "b[vi]"}).replace('    C = T.alloc_buffer((6,), "int32")\n', "").replace(
        "D: T.Buffer", 'C: T.Buffer((6,), "int32"), D: T.Buffer')
    func = parse(text)
    sch = Schedule(func)
    sch.join_init_behind("C")
    assert equal(func, sch.func) and "C_apart" in sch.script()


@pytest.mark.parametrize(("changes", "code"), [
    ({"init": "0"}, "form"),
    ({"init": "-2147483648", "value": "T.max(C[vi], A[vi, vk])"}, "form"),
    ({"value": "C[vi] * A[vi, vk]"}, "form"),
    ({"value": "C[vi] - A[vi, vk]"}, "form"),
    ({"dtype": "float32"}, "form"),
    ({"where": "T.where(k < 3)"}, "domain"),
    ({"loops": "i, k, r in T.grid(6, 4, 2)"}, "domain"),
    ({"loops": "k, i in T.grid(4, 6)", "at": "vi // 2", "value": "C[vi // 2] + A[vi, vk]"}, "index"),
    ({"iters": "vi = T.axis.spatial((1, 7), i + 1)\n            vk = T.axis.reduce(4, k)", "at": "vi - 1", "init": "b[vi - 1]",
      "value": "C[vi - 1] + A[vi - 1, vk]"}, "index"),
])
def test_what_cannot_start_with_nothing(changes: dict[str, str], code: str) -> None:
    func = program(**changes)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.join_init_behind("C")
    assert sch.func == func


@settings(max_examples=30)
@given(st.data())
def test_whatever_it_starts_with(data: st.DataObject) -> None:
    draw = data.draw
    init = draw(st.sampled_from(["b[vi]", "b[5 - vi] - 3", "7", "A[vi, 0]", "T.max(b[vi], b[0])"]))
    value = draw(st.sampled_from(["C[vi] + A[vi, vk]", "T.min(C[vi], A[vi, 3 - vk])", "T.max(A[vi, vk] + b[vi], C[vi])"]))
    dtype = draw(st.sampled_from(["int32", "int8"]))
    if dtype == "int8":
        init = init.replace("- 3", '- T.int8(3)').replace("7", "T.int8(7)")
    order = draw(st.sampled_from(["i, k in T.grid(6, 4)", "k, i in T.grid(4, 6)"]))
    func = program(init=init, value=value, dtype=dtype, loops=order)
    sch = Schedule(func, error_render_level="fast")
    sch.join_init_behind("C")
    assert equal(func, sch.func), func.script()
