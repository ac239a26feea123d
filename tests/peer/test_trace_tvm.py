"""Our traces in TVM: loops by name, names of split loops, and maps are printed so that they run there."""

from __future__ import annotations

import pytest

from autosched.schedule import Schedule
from autosched.script import T

pytestmark = pytest.mark.oracle


@T.prim_func
def mm(A: T.Buffer((32, 32), "int32"), C: T.Buffer((32, 32), "int32")):
    B = T.sblock_alloc_buffer((32, 32), "int32")
    for i, j in T.grid(32, 32):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j, k in T.grid(32, 32, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + B[vi, vk] * B[vj, vk]


def test_names_positions_and_maps_replay() -> None:
    tvm = pytest.importorskip("tvm")
    ffi = pytest.importorskip("tvm_ffi")
    from tvm.s_tir import Schedule as Theirs

    sch = Schedule(mm)
    sch.split("k", [None, 4], names=["k0", "k1"])
    sch.reorder("k0", "k1")
    sch.split("k1", [2, 2])
    sch.parallel(sch.get_axis("i", block="C"))
    sch.transform_layout("B", ("write", 0), lambda i, j: (0, i, j))
    sch.annotate_buffer_access("B", 0, "read", lambda i, j: ((i, i + 1), (j, j + 1)))
    there = Theirs(tvm.script.from_source(mm.script(), check_well_formed=False))
    exec("\n".join(sch.trace.as_python(dialect="tvm")), {"sch": there})
    assert ffi.structural_equal(there.mod["main"], tvm.script.from_source(sch.func.script(), check_well_formed=False))
