"""cache_read of what host stages read as well: these stay in DRAM, where the host can reach them."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import Block
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
