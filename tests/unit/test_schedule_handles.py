"""Printed, a handle is what it stands for now, and a statement or a program is its text."""

from __future__ import annotations

import pickle

from autosched.schedule import Schedule
from autosched.script import T


@T.prim_func
def double(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "int32")):
    for i in range(128):
        with T.sblock("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] * 2


def test_handles_show_what_they_stand_for() -> None:
    sch = Schedule(double, seed=0)
    block = sch.get_block("B")
    (i,) = sch.get_loops(block)
    assert (str(i), str(block)) == ("for i in range(128)", 'T.sblock("B")')
    a, b = sch.split(i, factors=[None, 32], names=["a", "b"])
    sch.vectorize(b)
    assert (str(a), str(b)) == ("for a in range(4)", "for b in T.vectorized(32)")
    assert str(sch.sample_categorical([7], [1.0])) == "7"


def test_a_handle_of_something_gone_says_so() -> None:
    sch = Schedule(double)
    (i,) = sch.get_loops("B")
    sch.split(i, factors=[None, 32])
    assert str(i) == "loop that is no longer in the program"
    assert "LoopRV" in str(pickle.loads(pickle.dumps(i)))


def test_handles_made_by_a_copy_show_the_copy() -> None:
    sch = Schedule(double)
    other = sch.copy()
    (mine,), (its,) = sch.get_loops("B"), other.get_loops("B")
    other.unroll(its)
    assert (str(mine), str(its)) == ("for i in range(128)", "for i in T.unroll(128)")
    assert pickle.loads(pickle.dumps(other)).script() == other.script()


def test_programs_and_statements_print_as_text() -> None:
    sch = Schedule(double)
    assert str(sch.func) == sch.func.script()
    assert str(sch.mod) == sch.mod.script()
    assert str(sch.get(sch.get_loops("B")[0])).startswith("for i in range(128):\n    with T.sblock")
