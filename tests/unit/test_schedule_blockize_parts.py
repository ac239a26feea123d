"""Blocks made of several, and iterators that do not start at zero: what is computed stays, or the request is refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import Block
from autosched.schedule import Schedule
from autosched.script import parse


def computes_the_same(func: PrimFunc, sch: Schedule) -> bool:
    inputs = random_inputs(func, 0)
    results = []
    for f in (func, sch.func):
        outputs = [np.full([int_value(e) or 0 for e in b.shape], 77, b.dtype) for b in func.buffers[len(inputs):]]
        run(f, *[a.copy() for a in inputs], *outputs)
        results.append(outputs)
    return all(np.array_equal(x, y) for x, y in zip(*results))


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


OFFSET = """
@T.prim_func
def f(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 1):
        with T.sblock("b"):
            v = T.axis.spatial(4, i)
            w = T.axis.spatial(4, {})
            B[v, w] = A[v, w] + w
"""


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("value", ["1 + j", "3", "0", "j"])
def test_an_iterator_that_starts_late_keeps_its_start(value: str, at: int, preserve: bool) -> None:
    func = program(OFFSET.format(value))
    sch = Schedule(func)
    sch.blockize(sch.get_loops("b")[at], preserve_unit_iters=preserve)
    assert computes_the_same(func, sch)


def test_a_loop_that_starts_late_below_an_outer_block() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(2):
        with T.sblock("part"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for j in range({}, 4):
                with T.sblock("b"):
                    v = T.axis.spatial({}, i * 4 + j)
                    B[v] = A[v] * 2
"""
    func = program(text.format(2, 8))
    sch = Schedule(func)
    sch.blockize(sch.get_loops("b")[0])
    assert computes_the_same(func, sch)
    sch = Schedule(program(text.format(2, "(2, 8)")))
    with refused(ScheduleError, "index"):
        sch.blockize(sch.get_loops("b")[0])


PAIR = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            T.where({})
            B[v] = A[v] * 2
        with T.sblock("c"):
            v = T.axis.spatial(8, i)
            T.where({})
            C[v] = A[v] + 1
"""


@pytest.mark.parametrize("first, second, fits", [
    ("i < 5", "i < 5", True), ("i < 5", "5 > i", True), ("i < 5", "i < 4", False), ("2 <= i and i < 5", "i < 5", False),
    ("i < 8", "i < 5", False), ("i < 5", "i < 8", False), ("i % 2 == 1", "i % 2 == 1", True), ("i % 2 == 1", "i % 3 == 1", False),
    ("i % 2 == 1", "i < 8", False),
])
@pytest.mark.parametrize("swapped", [False, True])
def test_joined_blocks_share_their_condition(first: str, second: str, fits: bool, swapped: bool) -> None:
    func = program(PAIR.format(first, second))
    sch = Schedule(func)
    blocks = [sch.get_block("b"), sch.get_block("c")]
    if fits:
        sch.blockize(blocks[::-1] if swapped else blocks)
        assert computes_the_same(func, sch)
    else:
        with pytest.raises(ScheduleError, match=r"c does not run (over|under) the same outer"):
            sch.blockize(blocks[::-1] if swapped else blocks)


NESTED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(4):
        with T.sblock("o"):
            vo = T.axis.spatial(4, i)
            T.reads(A[vo * 2:vo * 2 + 2])
            T.writes(B[vo * 2:vo * 2 + 2])
            for j in range(2):
                with T.sblock("b"):
                    v = T.axis.spatial(2, j)
                    B[vo * 2 + v] = A[vo * 2 + v] * 2
    for i in range(8):
        with T.sblock("c"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + 1
"""


def test_a_block_inside_another_is_not_joined_with_blocks_outside() -> None:
    func = program(NESTED)
    sch = Schedule(func)
    with refused(ScheduleError, "place") as failed:
        sch.blockize([sch.get_block("b"), sch.get_block("c")])
    assert "join o" in str(failed.value)
    sch.blockize([sch.get_block("o"), sch.get_block("c")])
    assert computes_the_same(func, sch)


BARE = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    {}
        with T.sblock("b"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for j in range(8):
                B[j] = A[j] * 2
        for i in range({}):
            with T.sblock("c"):
                v = T.axis.spatial(8, {})
                C[v] = B[v] + 1
"""


@pytest.mark.parametrize("swapped", [False, True])
def test_a_block_without_iterators_joins_what_runs_once(swapped: bool) -> None:
    func = program(BARE.format("for o in range(1):", 8, "i"))
    sch = Schedule(func)
    blocks = [sch.get_block("b"), sch.get_block("c")]
    outer = sch.get(sch.blockize(blocks[::-1] if swapped else blocks))
    assert isinstance(outer, Block)
    assert [iv.var.name for iv in outer.iter_vars] == ["v_o"]
    assert computes_the_same(func, sch)
    sch = Schedule(program(BARE.format("for o in range(4):", 2, "o * 2 + i")))
    blocks = [sch.get_block("b"), sch.get_block("c")]
    with refused(ScheduleError, "domain"):
        sch.blockize(blocks[::-1] if swapped else blocks)


def test_a_reduction_over_the_outer_loop_is_not_joined_with_a_spatial_block() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        for j in range(8):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                w = T.axis.spatial(8, j)
                B[v] = A[v, w]
        for j in range(4):
            with T.sblock("c"):
                {}
                with T.init():
                    C[w] = 0
                C[w] = C[w] + A[v, w]
"""
    reduced = "v = T.axis.reduce(4, i)\n                w = T.axis.spatial(4, j)"
    sch = Schedule(program(text.format(reduced)))
    with refused(ScheduleError, "domain"):
        sch.blockize([sch.get_block("b"), sch.get_block("c")])
    spatial = "w = T.axis.spatial(4, i)\n                v = T.axis.reduce(4, j)"
    func = program(text.format(spatial))
    sch = Schedule(func)
    sch.blockize([sch.get_block("b"), sch.get_block("c")])
    assert computes_the_same(func, sch)


TWO_D = """
@T.prim_func
def f(A: T.Buffer((6, 7), "int32"), C: T.Buffer((6, 7), "int32")):
    B = T.sblock_alloc_buffer((6, 7), "int32")
    for i, j in T.grid(6, 7):
        with T.sblock("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] * 2
    for i, j in T.grid(6, 7):
        with T.sblock("c"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = B[v, w] + 1
"""


@pytest.mark.parametrize("order, by_itself", [([0, 1], False), ([1, 0], True)])
def test_padding_runs_where_the_iterators_can(order: list[int], by_itself: bool) -> None:
    """The nest of a block stores the padding as well if its iterators, in their order, are the store's indices."""
    func = program(TWO_D)
    sch = Schedule(func)
    sch.reorder_block_iter_var(sch.get_block("b"), order)
    sch.transform_layout(sch.get_block("b"), ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=3)
    assert ("buffer_B_padding" in sch.script()) == by_itself
    assert computes_the_same(func, sch)


@pytest.mark.parametrize("at, by_itself", [(0, False), (1, True)])
def test_padding_beside_a_block_around(at: int, by_itself: bool) -> None:
    text = TWO_D.replace("(6, 7)", "(7,)").replace("i, j in T.grid(7,)", "i, j in T.grid(7, 1)")
    text = text.replace('v, w = T.axis.remap("SS", [i, j])', "v = T.axis.spatial(7, i)").replace("v, w", "v")
    func = program(text)
    sch = Schedule(func)
    sch.blockize(sch.get_loops("b")[at])
    sch.transform_layout(sch.get_block("b"), ("write", 0), lambda i: (i // 4, i % 4), pad_value=3)
    assert ("buffer_B_padding" in sch.script()) == by_itself
    assert computes_the_same(func, sch)


MATMUL_AND_MORE = """
@T.prim_func
def f(A: T.Buffer((7, 6), "int32"), B: T.Buffer((6, 3), "int32"), D: T.Buffer((7, 3), "int32")):
    C = T.sblock_alloc_buffer((7, 3), "int32")
    for k, j, i in T.grid(6, 3, 7):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(7, 3):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + 1
"""


@pytest.mark.parametrize("preserve", [True, False])
def test_loops_beyond_the_block_around_are_outer_ones(preserve: bool) -> None:
    func = program(MATMUL_AND_MORE)
    sch = Schedule(func)
    sch.loop_partition(sch.get_loops("C")[2], [2, None])
    sch.blockize(sch.get_loops("C_i0")[0], preserve_unit_iters=preserve)
    assert computes_the_same(func, sch)


def test_blocks_that_use_a_loop_directly_stay_under_it() -> None:
    func = program(MATMUL_AND_MORE)
    sch = Schedule(func)
    sch.decompose_reduction(sch.get_block("C"), sch.get_loops("C")[0])
    sch.loop_partition(sch.get_loops("D")[1], [2, None])
    before = sch.script()
    with refused(ScheduleError, "place"):
        sch.reverse_compute_at(sch.get_block("D_j_common"), sch.get_loops("C_update")[1])
    assert sch.script() == before
    assert computes_the_same(func, sch)


@pytest.mark.parametrize("where, fits", [("u < 1", True), ("u * 8 + k < 8", True), ("u < 2", False), ("k < 4", False)])
def test_the_init_is_taken_out_of_what_runs_once(where: str, fits: bool) -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i, u, k in T.grid(4, 3, 8):
        with T.sblock("c"):
            v, w = T.axis.remap("SR", [i, k])
            T.where({})
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[v, w]
"""
    func = program(text.format(where))
    sch = Schedule(func)
    if fits:
        sch.blockize(sch.get_loops("c")[1])
        assert computes_the_same(func, sch)
    else:
        with refused(ScheduleError, "reduction"):
            sch.blockize(sch.get_loops("c")[1])


@pytest.mark.parametrize("where", [
    "r < 1 and i * 8 + k < 24", "r * 32 + i * 8 + k < 24", "r * 4 + i < 3", "i < 3 and r * 8 + k < 8",
])
def test_the_init_stays_inside_the_buffer(where: str) -> None:
    """Conditions that tie the reduction's loops to others hold for the init as they do where the reduction starts."""
    text = """
@T.prim_func
def f(A: T.Buffer((3, 8), "int32"), C: T.Buffer((3,), "int32")):
    for r, i, k in T.grid(2, 4, 8):
        with T.sblock("c"):
            v = T.axis.spatial(3, i)
            w = T.axis.reduce(8, k)
            T.where({})
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[v, w]
"""
    func = program(text.format(where))
    sch = Schedule(func)
    sch.blockize(sch.get_loops("c")[0])
    assert computes_the_same(func, sch)
