"""decompose_reduction under predicates, repeated loops and outer blocks: the initialisation undoes no result."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def decomposed(func: PrimFunc, block: str, at: int) -> Schedule:
    sch = Schedule(func)
    sch.decompose_reduction(sch.get_block(block), sch.get_loops(block)[at])
    inputs = random_inputs(func, 0)
    results = []
    for f in (func, sch.func):
        outputs = [np.full([int_value(e) or 0 for e in b.shape], 77, b.dtype) for b in func.buffers[len(inputs):]]
        run(f, *[a.copy() for a in inputs], *outputs)
        results.append(outputs)
    assert all(np.array_equal(x, y) for x, y in zip(*results))
    return sch


REPEATED = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for r, i, k in T.grid(4, 8, 8):
        with T.sblock("c"):
            v = T.axis.spatial(8, {})
            w = T.axis.reduce(8, k)
            T.where({})
            with T.init():
                C[v] = {}
            C[v] = {}
"""
SUM, LEAST = "C[v] + A[v, w]", "T.min(C[v], A[v, w])"


@pytest.mark.parametrize("where", ["r < 1", "r * 8 + i < 8", "r * 8 + i < 8 and r < 1"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_loop_that_runs_once_repeats_nothing(where: str, at: int) -> None:
    decomposed(program(REPEATED.format("i", where, 0, SUM)), "c", at)


@pytest.mark.parametrize("where", ["r < 2", "i < 8"])
def test_a_loop_that_runs_twice_repeats_the_sum(where: str) -> None:
    func = program(REPEATED.format("i", where, 0, SUM))
    with refused(ScheduleError, "reduction"):
        decomposed(func, "c", 0)
    decomposed(func, "c", 1)
    decomposed(program(REPEATED.format("i", where, 100, LEAST)), "c", 0)


def test_the_least_value_may_be_found_again_and_again() -> None:
    decomposed(program(REPEATED.format("i // 2", "r < 1", 100, LEAST)), "c", 1)
    with refused(ScheduleError, "reduction"):
        decomposed(program(REPEATED.format("i // 2", "r < 1", 0, SUM)), "c", 1)


def test_the_least_of_terms_that_differ_from_time_to_time() -> None:
    """Where i * 8 + k < 12 a later repetition has fewer terms, and starts afresh."""
    func = program(REPEATED.format("0 * i", "r < 1 and i * 8 + k < 12", 100, LEAST))
    with pytest.raises(ScheduleError, match=r"loop i repeats the whole of c|quasi-affine|overlap"):
        decomposed(func, "c", 1)
    decomposed(program(REPEATED.format("0 * i", "r < 1 and k < 4", 100, LEAST)), "c", 1)


def test_the_least_of_what_changes_in_between() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), D: T.Buffer((4,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    C = T.sblock_alloc_buffer((1,), "int32")
    for r in range(4):
        for k in range(8):
            with T.sblock("b"):
                v, w = T.axis.remap("SS", [r, k])
                B[w] = A[v, w]
        for k in range(8):
            with T.sblock("c"):
                w = T.axis.reduce(8, k)
                with T.init():
                    C[0] = 1000
                C[0] = T.min(C[0], B[w])
        with T.sblock("d"):
            v = T.axis.spatial(4, r)
            D[v] = C[0]
"""
    func = program(text)
    with refused(ScheduleError, "reduction"):
        decomposed(func, "c", 0)
    decomposed(func, "c", 1)


TAIL = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
    for r, k in T.grid(2, 8):
        with T.sblock("c"):
            v = T.axis.spatial(1, 0)
            w = T.axis.reduce(8, k)
            T.where({})
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[w]
"""


def test_the_initialisation_does_not_run_after_the_sum() -> None:
    sch = decomposed(program(TAIL.format("r * 8 + k < 8")), "c", 1)
    init, update = sch.script().split('"c_update"')
    assert "T.where(r < 1)" in init or "T.where(r * 8 < 8)" in init
    assert "T.where(r * 8 + k < 8)" in update
    decomposed(program(TAIL.format("k < 8")), "c", 1)
    with pytest.raises(ScheduleError, match=r"ties the reduction's loops to others|quasi-affine"):
        decomposed(program(TAIL.format("1 <= r + k")), "c", 1)


def test_partial_results_with_a_tail() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4, 9), "int32"), C: T.Buffer((2,), "int32")):
    for i, ko, ki in T.grid(4, 2, 8):
        with T.sblock("c"):
            v = T.axis.spatial(2, ko)
            w = T.axis.reduce(4, i)
            x = T.axis.reduce(8, ki)
            T.where({})
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[w, v * 8 + x]
"""
    func = program(text.format("ko * 8 + ki < 9"))
    decomposed(func, "c", 0)
    with refused(ScheduleError, "reduction"):
        decomposed(program(text.format("ko * 8 + ki < 8 and ko * 8 + ki + i >= 1")), "c", 0)


PARTS = """
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), C: T.Buffer((6,), "int32")):
    for {0}, {1} in T.grid(8, 1):
        with T.sblock("part"):
            T.reads(A[0:8, 0:6])
            T.writes(C[0:6])
            for i, k in T.grid(6, {2}):
                with T.sblock("c"):
                    v = T.axis.spatial(6, i)
                    w = T.axis.reduce(8, {3})
                    with T.init():
                        C[v] = 0
                    C[v] = C[v] + A[w, v]
"""


def test_a_reduction_that_goes_on_outside_the_block_around() -> None:
    with refused(ScheduleError, "reduction") as failed:
        decomposed(program(PARTS.format("o", "u", 1, "o + k")), "c", 0)
    assert "decompose_reduction before making part" in str(failed.value)
    decomposed(program(PARTS.format("u", "o", 8, "k")), "c", 0)


def test_partial_results_with_a_tail_feed_what_follows() -> None:
    """Every partial result gets its first value, so the tail that the reduction leaves out hides nothing from readers."""
    text = """
@T.prim_func
def f(A: T.Buffer((3, 11), "int32"), D: T.Buffer((3,), "int32")):
    C = T.sblock_alloc_buffer((3,), "int32")
    for i, k in T.grid(3, 11):
        with T.sblock("c"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[v, w]
    for i in range(3):
        with T.sblock("d"):
            v = T.axis.spatial(3, i)
            D[v] = C[v] * 2
"""
    func = program(text)
    sch = Schedule(func)
    ko, _ = sch.split(sch.get_loops("c")[1], [None, 4])
    sch.rfactor(ko, 1)
    loops = sch.get_loops("c_rf")
    sch.split(loops[2], [None, 2])
    sch.decompose_reduction(sch.get_block("c_rf"), sch.get_loops("c_rf")[2])
    sch.compute_at(sch.get_block("c"), sch.get_loops("d")[0])
    inputs = random_inputs(func, 0)
    got, want = np.zeros(3, np.int32), np.zeros(3, np.int32)
    run(func, *inputs, want)
    run(sch.func, *inputs, got)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("where, fits", [
    ("r < 1", True), ("r * 8 + k < 8", True), ("r * 8 + k < 5", False), ("r * 2 + k // 4 < 2 and r < 1", True),
    ("i * 8 + k < 8", False), ("r < 1 and i * 8 + k < 8", False),
])
def test_rfactor_below_a_loop_that_runs_once(where: str, fits: bool) -> None:
    func = program(REPEATED.format("i", where, 0, SUM))
    sch = Schedule(func)
    if not fits:
        with pytest.raises(ScheduleError, match=r"it is not known that every iteration of loop k does something|quasi-affine"):
            sch.rfactor(sch.get_loops("c")[2], 0)
        return
    sch.rfactor(sch.get_loops("c")[2], 0)
    inputs = random_inputs(func, 0)
    got, want = np.full(8, 77, np.int32), np.full(8, 77, np.int32)
    run(func, *inputs, want)
    run(sch.func, *inputs, got)
    assert np.array_equal(got, want)


BIAS = """
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), x: T.Buffer((16,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    S = T.sblock_alloc_buffer((8,), "int32")
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = x[vi] * 2
    for i, k in T.grid(8, 4):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = S[vi] + B[vi]
"""


def starting_from_bias() -> PrimFunc:
    """A sum that starts with an element that is made in the same iteration."""
    sch = Schedule(program(BIAS))
    sch.fuse_reduction_epilogue("S", "C")
    sch.compute_at("B", sch.get_loops("S")[0])
    assert isinstance(sch.func, PrimFunc)
    return sch.func


def test_the_initialisation_stays_behind_what_makes_its_value() -> None:
    func = starting_from_bias()
    with refused(ScheduleError, "order") as caught:
        decomposed(func, "S", 0)
    assert "reads B, which block B writes under loop i" in caught.value.reason
    assert caught.value.hint == 'sch.decompose_reduction("S", "k")'
    decomposed(func, "S", 1)


def test_a_value_made_in_front_of_the_loop_is_there() -> None:
    sch = Schedule(program(BIAS))
    sch.fuse_reduction_epilogue("S", "C")
    assert isinstance(sch.func, PrimFunc)
    decomposed(sch.func, "S", 0)


@pytest.mark.parametrize(("begin", "apart"), [(8, True), (7, False)])
def test_other_elements_may_be_made_meanwhile(begin: int, apart: bool) -> None:
    func = program(f"""
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), x: T.Buffer((16,), "int32"), C: T.Buffer((8,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(8):
        with T.sblock("before"):
            vi = T.axis.spatial(8, i)
            B[vi] = x[vi] * 2
    for i in range(8):
        for k in range(4):
            with T.sblock("c"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = B[vi]
                C[vi] = C[vi] + A[vi, vk]
        with T.sblock("beside"):
            vi = T.axis.spatial(8, i)
            B[vi + {begin}] = x[vi + {begin}] * 3
""")
    if apart:
        decomposed(func, "c", 0)
        return
    with refused(ScheduleError, "order"):
        decomposed(func, "c", 0)


@pytest.mark.parametrize("steps", [0, 1])
def test_what_never_starts_is_not_started(steps: int) -> None:
    func = program(f"""
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, {steps}):
        with T.sblock("c"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    if steps:
        decomposed(func, "c", 0)
        return
    for at in (0, 1):
        with refused(ScheduleError, "domain"):
            decomposed(func, "c", at)
