"""Reductions whose init does not come first: what would take it out of them, or reorder their terms, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError, SpaceError
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse
from space import Space

Step = Callable[[Schedule], Any]


def summed(value: str, extent: int = 8, domain: str = "8", where: str = "True") -> PrimFunc:
    """Row sums, whose iterator is bound to a value of loop k."""
    return parse(f"""
@T.prim_func
def rows(A: T.Buffer((4, 8), "int32"), out: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, {extent}):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce({domain}, {value})
            T.where({where})
            with T.init():
                out[vi] = 0
            out[vi] = out[vi] + A[vi, vk]
""")


LATE = ["7 - k", "(k + 3) % 8", "(15 - k) % 8"]
STEPS: dict[str, Step] = {
    "blockize": lambda s: s.blockize(s.get_loops("c")[1]),
    "rfactor": lambda s: s.rfactor(s.get_loops("c")[1], 0),
    "rfactor a part": lambda s: s.rfactor(s.split(s.get_loops("c")[1], [None, 4])[0], 0),
    "reorder parts": lambda s: s.reorder(*s.split(s.get_loops("c")[1], [None, 4])[::-1]),
    "renest": lambda s: s.renest("c"),
}


@pytest.mark.parametrize("value", LATE)
@pytest.mark.parametrize("step", STEPS)
def test_what_takes_an_init_that_is_late_elsewhere_is_refused(value: str, step: str) -> None:
    func = summed(value)
    sch = Schedule(func)
    with pytest.raises(ScheduleError) as refused:
        STEPS[step](sch)
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])
    assert refused.value.code in ("reduction", "index"), refused.value


@pytest.mark.parametrize(("value", "first"), [("7 - k", 7), ("(k + 3) % 8", 3)])
def test_the_reason_names_where_the_loops_begin(value: str, first: int) -> None:
    with pytest.raises(ScheduleError, match=f"around c begin with vk = {first}, and its init runs where that is 0, behind"):
        Schedule(summed(value)).renest("c")


@pytest.mark.parametrize(("value", "extent", "domain"), [
    ("k", 8, "8"), ("k + 2", 6, "(2, 8)"), ("(k + 8) % 8", 8, "8"), ("k // 1", 8, "8"),
])
@pytest.mark.parametrize("step", STEPS)
def test_one_that_comes_first_is_not(value: str, extent: int, domain: str, step: str) -> None:
    func = summed(value, extent, domain)
    sch = Schedule(func)
    try:
        STEPS[step](sch)
    except ScheduleError as error:
        assert "begin with" not in str(error)
        return
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


@pytest.mark.parametrize(("value", "where", "domain"), [
    ("k - 3", "3 <= k", "8"), ("k - 2", "k >= 2 and k < 10", "8"), ("k - 3", "2 < k", "(0, 8)"),
])
def test_the_first_iteration_is_the_first_that_runs(value: str, where: str, domain: str) -> None:
    func = summed(value, 11, domain, where)
    sch = Schedule(func)
    STEPS["renest"](sch)
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


def test_one_that_runs_later_is_late() -> None:
    with pytest.raises(ScheduleError, match="begin with vk = 1, and its init"):
        Schedule(summed("k - 2", 10, "8", "3 <= k")).renest("c")


@pytest.mark.parametrize("step", ["reorder parts", "rfactor a part"])
def test_where_a_row_begins_may_hang_on_the_row(step: str) -> None:
    """The first row begins with 0, and no other one does."""
    func = summed("(k + i) % 8")
    with pytest.raises(ScheduleError):
        STEPS[step](Schedule(func))


def test_one_whose_first_value_is_below_the_inits() -> None:
    func = summed("k", 8, "(2, 8)")
    with pytest.raises(ScheduleError, match="begin with vk = 0, and its init runs where that is 2"):
        Schedule(func).renest("c")


@pytest.mark.parametrize(("value", "fine"), [("n - 1 - k", False), ("(k + 1) % n", False), ("k", True)])
def test_symbolic_sums(value: str, fine: bool) -> None:
    func = parse(f"""
@T.prim_func
def rows(a: T.handle, n: T.int32, out: T.Buffer((4,), "int32")):
    A = T.match_buffer(a, (4, n), "int32")
    for i, k in T.grid(4, n):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(n, {value})
            with T.init():
                out[vi] = 0
            out[vi] = out[vi] + A[vi, vk]
""")
    if fine:
        STEPS["blockize"](Schedule(func))
        return
    for step in ("blockize", "rfactor"):
        with pytest.raises(ScheduleError):
            STEPS[step](Schedule(func))


def test_a_late_sum_is_not_moved_to_begin_elsewhere() -> None:
    """In new loops it would begin with its first value."""
    func = parse("""
@T.prim_func
def rows(A: T.Buffer((4, 8), "int32"), out: T.Buffer((4,), "int32")):
    c = T.alloc_buffer((4,), "int32")
    for i, k in T.grid(4, 8):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, (k + 3) % 8)
            with T.init():
                c[vi] = 0
            c[vi] = c[vi] + A[vi, vk]
    for i in range(4):
        with T.block("o"):
            vi = T.axis.spatial(4, i)
            out[vi] = c[vi] + 1
""")
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="begin with vk = 3, and its init"):
        sch.compute_at("c", sch.get_loops("o")[0])


def test_only_what_takes_the_init_along_asks() -> None:
    """A block over rows alone leaves the sum's loop where it is, and its init in it."""
    func = parse("""
@T.prim_func
def columns(A: T.Buffer((8, 4), "int32"), out: T.Buffer((4,), "int32")):
    for k, i, j in T.grid(8, 2, 2):
        with T.block("c"):
            vi = T.axis.spatial(4, i * 2 + j)
            vk = T.axis.reduce(8, 7 - k)
            with T.init():
                out[vi] = 0
            out[vi] = out[vi] + A[vk, vi]
""")
    sch = Schedule(func)
    sch.blockize(sch.get_loops("c")[1])
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


@pytest.mark.parametrize(("order", "fine"), [
    ((1, 0, 2, 3), True), ((0, 2, 1, 3), True), ((3, 0, 1, 2), True), ((1, 2, 3, 0), False), ((2, 0, 1, 3), False),
])
def test_a_loop_that_repeats_a_sum_stays_outside_of_it(order: tuple[int, ...], fine: bool) -> None:
    """Inside it would add terms several times. A loop of one iteration may stand anywhere."""
    func = parse("""
@T.prim_func
def rows(A: T.Buffer((4, 8), "int32"), out: T.Buffer((4,), "int32")):
    for r, i, k, u in T.grid(3, 4, 8, 1):
        with T.block("c"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                out[vi] = 0
            out[vi] = out[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    loops = sch.get_loops("c")
    if not fine:
        with pytest.raises(ScheduleError):
            sch.reorder(*(loops[n] for n in order))
    else:
        sch.reorder(*(loops[n] for n in order))
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


def test_an_init_is_cached_with_its_sum() -> None:
    func = summed("k")
    sch = Schedule(func)
    sch.blockize(sch.get_loops("c")[1])
    with pytest.raises(ScheduleError, match="block c_init stands in the init of c_o"):
        sch.cache_write("c_init", 0, "global")


def test_loops_that_move_no_sum_may_change_places() -> None:
    """What runs before the init is the same whichever row comes first; two parts of the sum's loop are not."""
    func = summed("(k + 3) % 8")
    sch = Schedule(func)
    sch.reorder(*sch.get_loops("c")[::-1])
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


def test_a_consumer_is_not_moved_where_it_runs_backwards() -> None:
    """Fused, the loop's quotient and remainder drive it: no coefficient tells which way."""
    func = parse("""
@T.prim_func
def rows(A: T.Buffer((4, 8), "int32"), out: T.Buffer((4,), "int32")):
    loc = T.alloc_buffer((4, 8), "int32")
    for i, j in T.grid(4, 8):
        with T.block("inner"):
            vi, vj = T.axis.remap("SS", [i, j])
            loc[vi, vj] = A[vi, vj] * 3
    for i, j in T.grid(4, 8):
        with T.block("red"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = 0
            out[vi] = out[vi] + loc[vi, WHERE]
""".replace("WHERE", "7 - vj"))
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="begin with vj = 7"):
        sch.reverse_compute_at("red", sch.fuse(*sch.get_loops("inner")))
    forwards = parse(func.script().replace("7 - vj", "vj"))
    sch = Schedule(forwards)
    sch.reverse_compute_at("red", sch.fuse(*sch.get_loops("inner")))
    inputs = random_inputs(forwards, 0)
    assert np.array_equal(run(sch.func, *inputs)[0], run(forwards, *inputs)[0])


@pytest.mark.parametrize("value", ["19 - k", "(k + 3) % 20"])
def test_a_space_takes_no_such_sum(value: str) -> None:
    func = parse(f"""
@T.prim_func
def dense(A: T.Buffer((4, 20), "int8"), W: T.Buffer((20, 20), "int8"), out: T.Buffer((4, 20), "int32")):
    for i, j, k in T.grid(4, 20, 20):
        with T.block("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(20, {value})
            with T.init():
                out[vi, vj] = 0
            out[vi, vj] = out[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
""")
    with pytest.raises(SpaceError, match="block c"):
        Space(func, "vta-de10")
