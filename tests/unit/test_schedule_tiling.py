"""Tiling to an intrinsic: what is paired, what is padded, what is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import small_programs

from autosched.errors import UnknownNameError
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import For, PrimFunc
from autosched.schedule import Schedule, TensorIntrin, tile_with_tensor_intrin
from autosched.script import T


def matmul(m: int, n: int, k: int) -> PrimFunc:
    return small_programs.matmul(m, n, k, transposed=True)


@T.prim_func
def dot_desc(a: T.Buffer((8,), "int32"), b: T.Buffer((4, 8), "int32"), c: T.Buffer((4,), "int32")):
    for j, k in T.grid(4, 8):
        with T.sblock("dot"):
            vj, vk = T.axis.remap("SR", [j, k])
            c[vj] = c[vj] + a[vk] * b[vj, vk]


@T.prim_func
def dot_impl(a: T.Buffer((8,), "int32"), b: T.Buffer((4, 8), "int32"), c: T.Buffer((4,), "int32")):
    with T.sblock("root"):
        T.reads(c[0:4], a[0:8], b[0:4, 0:8])
        T.writes(c[0:4])
        T.call_extern("int32", "tiling.dot.4x8", a.data, b.data, c.data)


@pytest.fixture
def dot() -> str:
    TensorIntrin.register("tiling.dot.4x8", dot_desc, dot_impl)
    return "tiling.dot.4x8"


def extents(sch: Schedule) -> list[int]:
    found = [sch.get(loop) for loop in sch.get_loops("C")]
    return [loop.extent.value for loop in found if isinstance(loop, For)]  # type: ignore[attr-defined]


def test_the_tiles_are_innermost_and_tensorize_finds_them(dot: str) -> None:
    func = matmul(6, 8, 24)
    sch = Schedule(func)
    loop = tile_with_tensor_intrin(sch, "C", dot)
    assert loop is not None
    assert extents(sch) == [6, 2, 3, 4, 8]
    assert sch.get(loop) is sch.get(sch.get_loops("C")[3])
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    sch.tensorize(loop, dot)
    arrays = random_inputs(func, 3)
    want, got = run(func, *(a.copy() for a in arrays)), run(sch.func, *(a.copy() for a in arrays))
    np.testing.assert_array_equal(want[0], got[0])


def test_what_does_not_divide_is_refused_or_padded(dot: str) -> None:
    sch = Schedule(matmul(6, 7, 24))
    before = sch.func
    assert tile_with_tensor_intrin(sch, "C", dot) is None
    assert sch.func is before
    assert not [i for i in sch.trace.insts if i.op == "split"]
    func = matmul(6, 7, 20)
    sch = Schedule(func)
    assert tile_with_tensor_intrin(sch, "C", dot, allow_padding=True) is not None
    assert extents(sch) == [6, 2, 3, 4, 8]
    arrays = random_inputs(func, 4)
    want, got = run(func, *(a.copy() for a in arrays)), run(sch.func, *(a.copy() for a in arrays))
    np.testing.assert_array_equal(want[0], got[0])


def test_kinds_must_fit(dot: str) -> None:
    @T.prim_func
    def copy(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32")):
        for i, j in T.grid(16, 16):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    assert tile_with_tensor_intrin(Schedule(copy), "C", dot) is None
    with pytest.raises(UnknownNameError):
        tile_with_tensor_intrin(Schedule(copy), "C", "tiling.dot.4x9")
