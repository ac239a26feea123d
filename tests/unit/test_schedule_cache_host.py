"""cache_read of what host stages read as well: these stay in DRAM, where the host can reach them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import Block
from autosched.ir.verify import verify
from autosched.schedule import Schedule
from autosched.script import parse

PARTS = '''
@T.prim_func
def f(A: T.Buffer((4, 16), "int32"), C: T.Buffer((4, 16), "int32")):
    N = T.alloc_buffer((4, 16), "int32")
    for i, j in T.grid(4, 16):
        with T.block("N"):
            vi, vj = T.axis.remap("SS", [i, j])
            N[vi, vj] = 0 - A[vi, vj]
    for i, j in T.grid(4, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + (N[3 - vi, vj] << 1)
'''


@pytest.mark.parametrize(("scope", "reads"), [("local.acc_buffer", "A"), ("global", "A_global")])
def test_a_copy_in_the_accelerators_memory_is_not_for_the_host(scope: str, reads: str) -> None:
    func = parse(PARTS)
    sch = Schedule(func)
    sch.host_stage("N")
    sch.cache_read("C", "A", scope)
    block = sch.get(sch.get_sblock("N"))
    assert isinstance(block, Block) and [r.buffer.name for r in block.reads] == [reads]
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


ROW = '''
@T.prim_func
def f(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + 1
'''
STEPS: dict[str, Callable[[Schedule], object]] = {
    "compute_at": lambda s: s.compute_at("B", s.get_loops("C")[0]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    "merge": lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[0]),
    "read_at": lambda s: s.read_at(s.get_loops("B")[0], "B", 0, "global"),
    "write_at": lambda s: s.write_at(s.get_loops("B")[0], "B", 0, "global"),
    "blockize": lambda s: s.blockize(s.get_loops("B")[0]),
    "cache_read": lambda s: s.cache_read("B", 0, "local.acc_buffer"),
    "reindex_cache_read": lambda s: s.reindex_cache_read("B", 0, "local.acc_buffer", lambda i: (i,)),
    "decompose_value": lambda s: s.decompose_value("B", []),
    "annotate": lambda s: s.annotate("C", "host_stage", "pack"),
}


@pytest.mark.parametrize("step", STEPS)
def test_what_the_host_runs_stays_a_stage_of_its_own(step: str) -> None:
    func = parse(ROW)
    sch = Schedule(func)
    sch.host_stage("B")
    before = sch.func
    with pytest.raises(ScheduleError, match=r"host stage 'B'|pack stage '[BC]'"):
        STEPS[step](sch)
    assert sch.func is before and not verify(before)


@pytest.mark.parametrize("step", [s for s in STEPS if s != "annotate"])
def test_other_stages_are_free(step: str, same: Callable[..., None]) -> None:
    func = parse(ROW)
    sch = Schedule(func)
    STEPS[step](sch)
    same(func, sch)


@pytest.mark.parametrize("step", [
    lambda s: s.split(s.get_loops("B")[0], [4, 4]),
    lambda s: s.cache_read("C", 0, "local.acc_buffer"),
    lambda s: s.reverse_compute_at(s.cache_write("C", 0, "local.acc_buffer"), s.get_loops("C")[0]),
    lambda s: s.host_stage(s.cache_read("B", 0, "global")),
    lambda s: s.compute_inline("B"),
])
def test_stages_of_the_host_are_scheduled_as_far_as_they_stay_such(
    step: Callable[[Schedule], object], same: Callable[..., None]
) -> None:
    func = parse(ROW)
    sch = Schedule(func)
    sch.host_stage("B")
    step(sch)
    same(func, sch)
