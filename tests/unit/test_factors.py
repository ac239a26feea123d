"""narrow_value, split_factor: what is multiplied, in int8."""

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

TEXT = '''
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int8"), W: T.Buffer((16, 3), "int8"), C: T.Buffer((16,), "int32")):
    S = T.sblock_alloc_buffer((16,), "int32")
    for i, k in T.grid(16, 3):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + T.Cast("int32", W[vi, vk])
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = {value}
'''
B32 = 'T.Cast("int32", B[vi])'


def program(value: str) -> PrimFunc:
    return parse(TEXT.format(value=value))


def outputs(func: PrimFunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    w = np.arange(48, dtype=np.int8).reshape(16, 3) * 5
    return run(func, a, b, w, np.zeros(16, np.int32))[0]


@pytest.mark.parametrize(("value", "path", "fits"), [
    (f"{B32} * T.max(T.min(A[vi], 127), -128)", [1], True),
    (f"{B32} * T.max(T.min(A[vi], 128), -128)", [1], False),
    (f"{B32} * T.max(T.min(A[vi], 127), -129)", [1], False),
    (f"T.shift_right(S[vi], 2) * {B32}", [0], True),  # a sum of three elements is at most 381
    (f"T.shift_right(S[vi], 1) * {B32}", [0], False),
    (f"(64 - T.max(T.min({B32}, 64), 0)) * {B32}", [0], True),
    (f"{B32} * 3", [0], False),  # int8 already
    ("A[vi] * 3", [1], False),
    (f"(vi - 3) * {B32}", [0], False),  # nothing that is loaded
])
def test_what_fits_int8_is_converted(value: str, path: list[int], fits: bool, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch = Schedule(func)
    if not fits:
        with refused(ScheduleError, "form"):
            sch.narrow_value("C", path)
        return
    sch.narrow_value("C", path)
    a = np.resize(np.array([-(2**31), -129, -128, -1, 0, 127, 128, 2**31 - 1], np.int64), 16).astype(np.int32)
    b = np.resize(np.array([-128, -3, 0, 64, 127], np.int8), 16)
    assert np.array_equal(outputs(sch.func, a, b), outputs(func, a, b))
    assert sch.get(sch.decompose_value("C", [*path, 0])).body.buffer.dtype == "int8"
    verify_trace_roundtrip(sch, func)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=16, max_size=16),
       st.lists(st.integers(-128, 127), min_size=16, max_size=16))
def test_two_parts_of_a_factor_make_its_product(a: list[int], b: list[int]) -> None:
    func = program(f"{B32} * A[vi] + 1")
    sch = Schedule(func)
    sch.split_factor("C", [0, 1])
    arrays = np.array(a, np.int64).astype(np.int32), np.array(b, np.int8)
    assert np.array_equal(outputs(sch.func, *arrays), outputs(func, *arrays))


@pytest.mark.parametrize(("value", "path", "parts"), [
    (f"A[vi] * {B32}", [0], f"T.shift_left(T.shift_right(A[vi], 7) * {B32}, 7) + T.bitwise_and(A[vi], 127) * {B32}"),
    (f"{B32} * A[vi]", [1], f"T.shift_left(T.shift_right(A[vi], 7) * {B32}, 7) + T.bitwise_and(A[vi], 127) * {B32}"),
    (f"2 - {B32} * A[vi]", [1, 1],
     f"2 - (T.shift_left(T.shift_right(A[vi], 7) * {B32}, 7) + T.bitwise_and(A[vi], 127) * {B32})"),
])
def test_the_factor_that_is_named_is_split(value: str, path: list[int], parts: str, verify_trace_roundtrip: Verify) -> None:
    func = program(value)
    sch = Schedule(func)
    sch.split_factor("C", path)
    assert f"C[vi] = {parts}\n" in sch.script()
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("value", "path"), [
    (f"A[vi] + {B32}", [0]), (f"A[vi] * {B32}", []), ("A[vi]", []), (f"A[vi] * {B32}", [2]), (f"A[vi] * {B32}", [-1]),
    ('T.Cast("int32", B[vi] * B[vi])', [0, 0]),  # a product of int8
])
def test_what_is_no_factor_is_refused(value: str, path: list[int]) -> None:
    with refused(ScheduleError, "form"):
        Schedule(program(value)).split_factor("C", path)


PADDED = '''
@T.prim_func
def f(A: T.Buffer((16,), "int8"), D: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = {value}
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.max(B[vi], B[15 - vi]) + D[vi]
'''


@pytest.mark.parametrize(("value", "made"), [
    ('T.if_then_else(vi < 3, T.Cast("int32", A[vi]), 0)', "T.if_then_else(vi < 3, A[vi], T.int8(0))"),
    ('T.Select(vi < 3, T.Cast("int32", A[vi]), -128)', "T.Select(vi < 3, A[vi], T.int8(-128))"),
    ("T.shift_right(D[vi], 24)", 'T.Cast("int8", T.shift_right(D[vi], 24))'),
    ("T.shift_right(D[vi], 23)", ""), ('T.if_then_else(vi < 3, T.Cast("int32", A[vi]), 128)', ""),
    ('T.if_then_else(vi < 3, T.Cast("int32", A[vi]), -129)', ""), ("7", "T.int8(7)"),
    ('T.Cast("int32", T.Cast("int16", T.shift_right(D[vi], 24)))',
     'T.Cast("int8", T.Cast("int32", T.Cast("int16", T.shift_right(D[vi], 24))))'),
])
def test_a_tensor_of_what_fits_int8_is_one_of_int8(value: str, made: str, verify_trace_roundtrip: Verify) -> None:
    func = parse(PADDED.format(value=value))
    sch = Schedule(func)
    if not made:
        with refused(ScheduleError, "form"):
            sch.narrow_block("B")
        return
    sch.narrow_block("B")
    assert f"B[vi] = {made}" in sch.script()
    assert 'T.max(T.Cast("int32", B[vi]), T.Cast("int32", B[15 - vi])) + D[vi]' in sch.script()
    a, d = np.arange(-128, 128, 16).astype(np.int8), (np.arange(16) * 2**27 - 2**30).astype(np.int32)
    got, wanted = (run(f, a, d, np.zeros(16, np.int32))[0] for f in (sch.func, func))
    assert np.array_equal(got, wanted)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "output"):
        sch.narrow_block("C")


def test_a_tensor_of_another_type_is_left_alone() -> None:
    text = PADDED.format(value='T.Cast("int16", A[vi])').replace('(16,), "int32")\n    for', '(16,), "int16")\n    for')
    text = text.replace("T.max(B[vi], B[15 - vi])", 'T.max(T.Cast("int32", B[vi]), T.Cast("int32", B[15 - vi]))')
    sch = Schedule(parse(text))
    with refused(ScheduleError, "output"):
        sch.narrow_block("B")


@pytest.mark.parametrize(("op", "start", "path", "fits"), [
    ("max", -128, [0], True), ("max", -129, [0], False), ("max", -(2**31), [0], False), ("max", -(2**31), [], True),
    ("min", 127, [0], True), ("min", 128, [0], False), ("min", 2**31 - 1, [0], False), ("min", 2**31 - 1, [], True),
])
def test_on_the_way_a_reduction_holds_its_initial_value(
    op: str, start: int, path: list[int], fits: bool, verify_trace_roundtrip: Verify,
) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((4, 3), "int8"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 3):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {start}
            C[vi] = T.{op}(C[vi], T.Cast("int32", A[vi, vk]))
''')
    sch = Schedule(func)
    if not fits:
        with refused(ScheduleError, "form"):
            sch.narrow_value("C", path)
        return
    sch.narrow_value("C", path)
    a = np.array([[-128, -128, -128], [127, 127, 127], [-1, 0, 1], [5, -128, 127]], np.int8)
    got, wanted = (run(f, a, np.zeros(4, np.int32))[0] for f in (sch.func, func))
    assert np.array_equal(got, wanted)
    verify_trace_roundtrip(sch, func)
