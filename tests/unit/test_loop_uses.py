"""Blocks that use loops themselves, not through iterators: they stay where these loops are, or what is made of them does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]

TEXT = """
@T.prim_func
def f(A: T.Buffer(({n},), "int32"), D: T.Buffer((10,), "int32")):
    B = T.sblock_alloc_buffer(({n},), "int32")
    C = T.sblock_alloc_buffer(({n},), "int32")
    for i in range({n}):
        with T.sblock("B"):
            B[i] = A[i] * 2
    for j in range({n}):
        with T.sblock("C"):
            vj = T.axis.spatial({n}, j)
            C[vj] = B[vj] + 1
    for k in range(10):
        with T.sblock("D"):
            vk = T.axis.spatial(10, k)
            D[vk] = {value}
"""
WHOLE = "C[vk]"
PADDED = "T.if_then_else(1 <= vk and vk < 9, C[vk - 1], 7)"


def program(n: int = 10, value: str = WHOLE) -> PrimFunc:
    return parse(TEXT.format(n=n, value=value))


@pytest.mark.parametrize("step", [
    'sch.compute_inline("{}")', 'sch.blockize(sch.get_loops("{}")[0])', 'sch.reindex("{}", ("read", 0))',
    'sch.reindex("{}", ("write", 0))', 'sch.blockize([sch.get_sblock("{}"), sch.get_sblock("C")])',
])
def test_a_loop_is_not_taken_from_a_block_that_uses_it(step: str, same: Same) -> None:
    func = program()
    sch = Schedule(func)
    with refused(ScheduleError, "place") as caught:
        exec(step.format("B"), {"sch": sch})
    assert "uses loop i itself, not through an iterator" in str(caught.value) and sch.func is func
    if "[sch" not in step:
        exec(step.format("C"), {"sch": sch})
        same(sch.func, func)


def test_a_loop_that_runs_once_is_not_taken_either() -> None:
    text = program(1, "C[0]").script()
    sch = Schedule(parse(text))
    with refused(ScheduleError, "place"):
        sch.renest("B")
    sch.renest("C")


def test_an_output_that_uses_a_loop_is_not_inlined_into_its_producer() -> None:
    text = program().script().replace("vk = T.axis.spatial(10, k)", "").replace("vk", "k").replace("T.reads(C[k])", "").replace(
        "T.writes(D[k])", "")
    with refused(ScheduleError, "place"):
        Schedule(parse(text)).reverse_compute_inline("D")


def test_a_producer_that_uses_a_loop_covers_what_its_loop_does(same: Same) -> None:
    func = program()
    sch = Schedule(func)
    sch.reverse_compute_inline("C")
    assert "D[i] = " not in sch.script() and "C[i] = A[i] * 2 + 1" in sch.script()
    same(sch.func, func)


def test_padding_is_not_inlined_into_a_producer_that_has_none() -> None:
    func = parse(TEXT.format(n=8, value=PADDED).replace("            vj = T.axis.spatial(8, j)\n", "").replace("vj", "j"))
    with refused(ScheduleError, "domain"):
        Schedule(func).reverse_compute_inline("D")
