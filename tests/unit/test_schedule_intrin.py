"""Tensor intrinsics: registry, hash, meaning of their calls, and their stamp in traces."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ProgramError, ScheduleError, UnknownNameError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule, TensorIntrin, Trace
from autosched.script import T

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def add_desc(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32"), Z: T.Buffer((16,), "int32")):
    with T.sblock("root"):
        T.reads(X[0:16], Y[0:16])
        T.writes(Z[0:16])
        for i in range(16):
            with T.sblock("Z"):
                vi = T.axis.spatial(16, i)
                Z[vi] = X[vi] + Y[vi]


@T.prim_func
def add_impl(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32"), Z: T.Buffer((16,), "int32")):
    with T.sblock("root"):
        T.reads(X[0:16], Y[0:16])
        T.writes(Z[0:16])
        T.call_extern("int32", "test.add16", Z.data, X.data, Y.data)


@T.prim_func
def mul_desc(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32"), Z: T.Buffer((16,), "int32")):
    with T.sblock("root"):
        T.reads(X[0:16], Y[0:16])
        T.writes(Z[0:16])
        for i in range(16):
            with T.sblock("Z"):
                vi = T.axis.spatial(16, i)
                Z[vi] = X[vi] * Y[vi]


@T.prim_func
def narrow(X: T.Buffer((16,), "int8"), Z: T.Buffer((16,), "int32")):
    with T.sblock("root"):
        T.reads(X[0:16])
        T.writes(Z[0:16])
        T.call_extern("int32", "test.narrow", Z.data, X.data)


@T.prim_func
def program(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4, 16), "int32"), C: T.Buffer((4, 16), "int32")):
    for i, j in T.grid(4, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[vi, vj]


@pytest.fixture
def add16() -> TensorIntrin:
    return TensorIntrin.register("test.add16", add_desc, add_impl, override=True)


def test_registry(add16: TensorIntrin) -> None:
    assert TensorIntrin.get("test.add16") is add16
    assert "test.add16" in TensorIntrin.names()
    TensorIntrin.register("test.add16", add_desc, add_impl)
    with pytest.raises(ProgramError, match=r"another tensor intrinsic is registered as 'test\.add16'"):
        TensorIntrin.register("test.add16", mul_desc, add_impl)
    with pytest.raises(UnknownNameError, match=r"unknown tensor intrinsic 'test\.add61'; did you mean 'test\.add16'"):
        TensorIntrin.get("test.add61")


def test_parameters_must_fit() -> None:
    with pytest.raises(ProgramError, match="the description has 3 parameters and the implementation 2"):
        TensorIntrin(add_desc, narrow)
    with pytest.raises(ProgramError, match="parameter X of the description and X of the implementation differ"):
        TensorIntrin(narrow, _wide())


def _wide() -> PrimFunc:
    @T.prim_func
    def wide(X: T.Buffer((16,), "int32"), Z: T.Buffer((16,), "int32")):
        T.call_extern("int32", "test.wide", Z.data, X.data)

    return wide


def test_hash_tells_descriptions_apart(add16: TensorIntrin) -> None:
    assert add16.hash == TensorIntrin(add_desc, add_impl).hash
    assert add16.hash != TensorIntrin(mul_desc, add_impl).hash


def test_tensorized_program_runs_and_its_trace_is_stamped(add16: TensorIntrin, verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(program)
    sch.tensorize(sch.get_loops("C")[1], "test.add16")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-99, 99, (4, 16)).astype("int32") for _ in range(2))
    out = np.zeros((4, 16), "int32")
    run(sch.func, a, b, out)
    np.testing.assert_array_equal(out, a + b)
    verify_trace_roundtrip(sch, program)
    data = sch.trace.as_json()
    assert data[-1]["stamp"] == add16.hash[:16]
    data[-1]["stamp"] = "0" * 16
    with pytest.raises(ValueError, match=f"tensorize used {add16.hash[:16]} here and 0000000000000000 where the trace"):
        Trace.apply_json_to_schedule(json.dumps(data), Schedule(program))


def test_an_intrinsic_replaced_is_not_the_one_that_replays_share(add16: TensorIntrin) -> None:
    sch = Schedule(program)
    sch.tensorize(sch.get_loops("C")[1], "test.add16")
    free = Trace([type(x)(x.op, x.args, x.outputs) for x in sch.trace.insts])  # without the stamp
    for _ in range(2):
        free.apply_to_schedule(Schedule(program))
    TensorIntrin.register("test.add16", mul_desc, add_impl, override=True)
    with refused(ScheduleError, "intrinsic"):
        free.apply_to_schedule(Schedule(program))
