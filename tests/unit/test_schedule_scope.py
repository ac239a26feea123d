"""Memories, types, alignment, banks and physical dimensions of buffers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import small_programs
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import T

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


chain = small_programs.chain(16, 8)


@T.prim_func
def viewed(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(B[vi])
            V = T.match_buffer(B[vi], (1,), "int32", offset_factor=1)
            V[0] = A[vi] * 2
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + 1


def test_set_scope(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain)
    sch.set_scope("B", 0, "local.acc_buffer")
    assert 'B_local_acc_buffer = T.sblock_alloc_buffer((16, 8), "int32", scope="local.acc_buffer")' in sch.script()
    assert "B_local_acc_buffer[vi, vj] + 1" in sch.script()
    verify_trace_roundtrip(sch, chain)
    before = sch.func
    sch.set_scope("B", 0, "local.acc_buffer")
    assert sch.func == before


def test_set_scope_takes_views_along(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(viewed)
    sch.set_scope("B", "B", "local")
    block = sch.get(sch.get_block("B"))
    assert [m.buffer.scope for m in block.match_buffers] == ["local"]
    verify_trace_roundtrip(sch, viewed)
    a = np.arange(16, dtype="int32")
    out = np.zeros(16, "int32")
    run(sch.func, a, out)
    np.testing.assert_array_equal(out, a * 2 + 1)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda s: s.set_scope("C", 0, "shared"), "output"),
        (lambda s: s.set_scope("B", 1, "shared"), "argument"),
        (lambda s: s.set_scope("B", 0, "shard"), "argument"),
        (lambda s: s.unsafe_set_dtype("C", 0, "int8"), "output"),
        (lambda s: s.unsafe_set_dtype("B", 0, "int9"), "argument"),
        (lambda s: s.storage_align("B", 0, 0, 0, 1), "argument"),
        (lambda s: s.storage_align("B", 0, 2, 4, 1), "argument"),
        (lambda s: s.storage_align("C", 0, 0, 4, 1), "output"),
        (lambda s: s.double_buffer("C"), "output"),
        (lambda s: s.set_axis_separator("B", "B", [2]), "layout"),
        (lambda s: s.set_axis_separator("B", "B", [1, 1]), "layout"),
        (lambda s: s.set_axis_separator("B", "B", [0]), "layout"),
        (lambda s: s.set_axis_separator("B", "Q", [1]), "name"),
    ],
)
def test_refusals(call: Callable[[Schedule], None], code: str) -> None:
    sch = Schedule(chain)
    with refused(ScheduleError, code):
        call(sch)
    assert sch.func is chain


def test_unsafe_set_dtype(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain)
    sch.unsafe_set_dtype("B", 0, "int8")
    assert 'B[vi, vj] = T.Cast("int8", A[vi, vj] * 2)' in sch.script()
    assert 'T.Cast("int32", B[vi, vj]) + 1' in sch.script()
    verify_trace_roundtrip(sch, chain)


def test_storage_align(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain)
    sch.storage_align("B", 0, axis=-2, factor=16, offset=8)
    sch.storage_align("B", 0, axis=0, factor=32, offset=4)
    sch.storage_align("B", 0, axis=1, factor=2, offset=0)
    assert sch.get(sch.get_block("B")).annotations == {"buffer_dim_align": [[0, 0, 32, 4], [0, 1, 2, 0]]}
    verify_trace_roundtrip(sch, chain)
    sch.annotate("B", "buffer_dim_align", [0])
    with refused(ScheduleError, "argument"):
        sch.storage_align("B", 0, axis=0, factor=32, offset=4)


def test_double_buffer_on_a_cache(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain)
    copy = sch.cache_read("B", 0, "local.inp_buffer")
    sch.double_buffer(copy)
    assert sch.get(copy).annotations == {"double_buffer_scope": 0}
    verify_trace_roundtrip(sch, chain)


def test_set_axis_separator(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain)
    sch.set_axis_separator("B", ("write", 0), [1])
    sch.set_axis_separator("C", "C", [1])
    assert sch.get(sch.get_block("B")).writes[0].buffer.axis_separators == (1,)
    assert sch.func.buffers[1].axis_separators == (1,)
    verify_trace_roundtrip(sch, chain)
