"""Operators beyond one dense or convolution: scheduled by primitives, lowered, free of races, bit-equal."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.target import get_target
from autosched.workloads import Workload, workload
from space import Space

INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
GEMM = "vta.gemm.1x16x16"


def check(task: Workload, trace: list, targets: tuple[str, ...] = ("vta-de10", "vta-de10-portable")) -> None:
    for target in targets:
        result = measure(Candidate(task, get_target(target), tuple(trace)), execute=True)
        assert result.status == "ok", (target, result)


@pytest.mark.parametrize("name", [
    "conv2d:h=6,w=6,ci=32,co=32,k=3,pad=1,groups=2", "conv2d:h=6,w=6,ci=24,co=48,k=3,stride=2,pad=1,groups=2",
    "conv2d:h=6,w=6,ci=40,co=40,k=3,pad=1,groups=40", "conv2d_transpose:h=4,w=4,ci=32,co=16,k=4,stride=2,pad=1",
    "conv2d_transpose:h=3,w=4,ci=16,co=16,k=3,stride=2,pad=1,opad=1,bias=1", "conv2d:h=20,w=20,ci=3,co=16,k=7,stride=2,pad=3",
    "conv2d:n=2,h=5,w=5,ci=16,co=16,k=3,pad=1",
])
def test_points_of_the_space(name: str) -> None:
    for target in ("vta-de10", "vta-de10-portable"):
        task = workload(name)
        space = Space(task.func, target)
        for point in space.sample(np.random.default_rng(1), 2):
            check(task, space.trace(point).as_json(), (target,))


def widened(sch: Schedule, **operands: str) -> None:
    """int8 operands, by block, through INP and one identity: all of it in one tile."""
    handles = {block: sch.get_block(block) for block in operands}
    for block, source in operands.items():
        sch.cast_by_gemm(handles[block], 5, source)
        sch.cache_read(handles[block], source, INP)
    first, *_ = handles.values()
    sch.cache_read(first, "eye", WGT, list(handles.values()))
    for handle in handles.values():
        sch.set_scope(handle, 0, ACC)
        loops = sch.get_loops(handle)
        sch.decompose_reduction(handle, loops[0])
        sch.tensorize(loops[4], GEMM)


@pytest.mark.parametrize("relu", [0, 1])
def test_residual(relu: int) -> None:
    task = workload(f"residual:h=5,w=4,c=40,relu={relu}")
    get_target("vta-de10")
    sch = Schedule(task.func)
    widened(sch, left="a", add="b")
    sch.set_scope("clip", 0, ACC)
    check(task, sch.trace.as_json())


@pytest.mark.parametrize("name", ["max_pool2d:h=8,w=6,c=32,k=2,stride=2", "avg_pool2d:h=8,w=6,c=20,k=2,stride=2",
                                  "avg_pool2d:h=8,w=8,c=32,k=8", "max_pool2d:h=9,w=9,c=16,k=3,stride=2"])
def test_pooling(name: str) -> None:
    task = workload(name)
    get_target("vta-de10")
    sch = Schedule(task.func)
    wide = sch.cache_cast("pool", "data")
    widened(sch, **{sch.get(wide).name: "data"})
    sch.set_scope("pool", 0, ACC)
    *rest, ky, kx = sch.get_loops("pool")
    sch.reorder(ky, kx, *rest)
    sch.decompose_reduction("pool", ky)
    if "avg" in name:
        sch.set_scope("mean", 0, ACC)
    check(task, sch.trace.as_json())


def test_padded_pooling_pads_what_is_loaded() -> None:
    task = workload("max_pool2d:h=8,w=8,c=16,k=3,stride=2,pad=1")
    get_target("vta-de10")
    sch = Schedule(task.func)
    wide = sch.cache_cast("pool", "pad")
    handle = sch.get_block(sch.get(wide).name)
    sch.cast_by_gemm(handle, 5, "pad")
    sch.set_scope("pad", 0, INP)
    sch.cache_read(handle, "eye", WGT)
    sch.set_scope(handle, 0, ACC)
    loops = sch.get_loops(handle)
    sch.decompose_reduction(handle, loops[0])
    sch.tensorize(loops[4], GEMM)
    sch.set_scope("pool", 0, ACC)
    *rest, ky, kx = sch.get_loops("pool")
    sch.reorder(ky, kx, *rest)
    sch.decompose_reduction("pool", ky)
    check(task, sch.trace.as_json())
