"""split_bytes: integers wider than int8 in tensors of bytes; results that are no int8, put together by the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space.normalise import normalise

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int8"), C: T.Buffer((40,), "{dtype}")):
    for i in range(40):
        with T.sblock("C"):
            vi = T.axis.spatial(40, i)
            C[vi] = {value}
'''
ENDS = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**15 - 1, 2**15, -(2**15), -(2**15) - 1, 2**23 - 1, 2**23, -(2**23),
        -(2**23) - 1, 2**31 - 1, -(2**31), 0x01020304]


def program(value: str, dtype: str = "int32") -> PrimFunc:
    return parse(TEXT.format(value=value, dtype=dtype))


@pytest.mark.parametrize(("dtype", "value", "planes"), [
    ("int32", "A[vi]", 4), ("int32", "T.max(T.min(A[vi], 8388607), -8388608)", 3),
    ("int32", "T.max(T.min(A[vi], 8388608), 0)", 4),
    ("int32", "T.max(T.min(A[vi], 32767), -32768)", 2), ("int32", "T.max(T.min(A[vi], 127), -128)", 1),
    ("int32", "T.max(T.min(A[vi], 32767), -32769)", 3), ("int32", "T.max(T.min(A[vi], 127), -129)", 2),
    ("int32", 'T.Cast("int32", B[vi]) * T.Cast("int32", B[vi])', 2), ("int16", 'T.Cast("int16", A[vi])', 2),
    ("int16", 'T.Cast("int16", T.max(T.min(A[vi], 5), -5))', 1), ("uint8", 'T.Cast("uint8", A[vi])', 1),
    ("uint16", 'T.Cast("uint16", A[vi])', 2), ("uint32", 'T.Cast("uint32", A[vi])', 4),
])
def test_bytes_make_the_value(dtype: str, value: str, planes: int, verify_trace_roundtrip: Verify) -> None:
    func = program(value, dtype)
    sch = Schedule(func)
    assert len(sch.split_bytes("C")) == planes  # bytes that only repeat the sign are none
    a = np.resize(np.array(ENDS, np.int64), 40).astype(np.int32)
    b = np.resize(np.array([-128, -1, 0, 7, 127], np.int8), 40)
    c = np.zeros(40, dtype)
    assert np.array_equal(run(sch.func, a, b, c)[0], run(func, a, b, c)[0])
    assert sch.get(sch.get_sblock("C")).body.value.dtype == dtype
    verify_trace_roundtrip(sch, func)


def test_names_that_are_taken_are_left_alone(verify_trace_roundtrip: Verify) -> None:
    func = parse(TEXT.format(value="A[vi]", dtype="int32").replace("def f(A:", 'def f(C_1: T.Buffer((40,), "int8"), A:'))
    sch = Schedule(func)
    assert [sch.get(b).name for b in sch.split_bytes("C")] == ["C_0", "C_1", "C_2", "C_3"]
    tensors = [b.name for b in (*sch.func.buffers, *sch.func.body.block.alloc_buffers)]
    assert len(tensors) == len(set(tensors)) == 8
    verify_trace_roundtrip(sch, func)


def test_a_value_that_is_stored_more_than_once_is_refused() -> None:
    func = parse(TEXT.format(value="A[vi]", dtype="int32").replace("for i in range(40):", "for r, i in T.grid(2, 40):"))
    sch = Schedule(func)
    with refused(ScheduleError, "domain"):
        sch.split_bytes("C")
    assert sch.func == func


def test_what_is_converted_from_floating_point_is_the_value() -> None:
    text = TEXT.format(value='T.Cast("int32", F[vi])', dtype="int32")
    func = parse(text.replace("f(A:", 'f(F: T.Buffer((40,), "float32"), A:'))
    sch = Schedule(func)
    assert len(sch.split_bytes("C")) == 4
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


@pytest.mark.parametrize(("dtype", "value"), [
    ("int8", 'T.Cast("int8", A[vi])'), ("int16", 'T.Cast("int16", B[vi])'), ("float32", 'T.Cast("float32", A[vi])'),
    ("int32", 'C[vi] + A[vi]'), ("int64", 'T.Cast("int64", A[vi])'),
])
def test_other_values_are_refused(dtype: str, value: str) -> None:
    if value.startswith("C["):
        func = parse(TEXT.format(value=value, dtype=dtype).replace(
            'vi = T.axis.spatial(40, i)\n', 'vi = T.axis.reduce(40, i)\n            with T.init():\n                C[0] = 0\n'
        ).replace("C[vi]", "C[0]"))
    else:
        func = program(value, dtype)
    sch = Schedule(func)
    with refused(ScheduleError, "form"):
        sch.split_bytes("C")
    assert sch.func == func


@pytest.mark.parametrize("name", [
    "int32_result", "int16_result", "uint8_result", "sums_of_rows", "result_and_its_relu", "loops_int32",
])
def test_the_host_puts_results_together(user_programs, name: str) -> None:
    """What the accelerator stores is int8 alone; what others read of a result is in the accumulator still."""
    func = user_programs.program(name)
    new, steps = normalise(func, get_target("vta-de10"))
    assert any(step.op == "split_bytes" for step in steps)
    split = split_host(new)
    wide = {b.name for b in func.buffers if b.dtype != "int8"} & {s.params[-1].name for s in split.unpack}
    assert wide and {b.dtype for s in split.unpack for b in s.params} > {"int8"}
    made = {b.name for s in split.unpack for b in s.params} & {b.name for b in split.device.buffers}
    assert made and all(b.dtype == "int8" for b in split.device.buffers if b.name in made)
    for seed in (0, 1):
        inputs = random_inputs(func, seed)
        for got, expected in zip(run(new, *inputs), run(func, *inputs), strict=True):
            assert got.dtype == expected.dtype and np.array_equal(got, expected)
