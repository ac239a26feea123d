"""What is known of tensors element by element: which are one number, and which results are made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched import te
from autosched.ir.expr import Expr, Var
from autosched.ir.host import split_host
from autosched.ir.interp import run
from autosched.ir.stmt import PrimFunc
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.elements import value_at
from space.formed import asked, formings
from space.known import Known
from space.normalise import normalise

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
HEAD = "from autosched.script import T\n\n@T.prim_func\ndef main("
ROW, COL = np.meshgrid(np.arange(6), np.arange(5), indexing="ij")


def program(value: str, stages: str = "") -> PrimFunc:
    """A result of 6 x 5 elements, made of A and B."""
    params = "".join(f'{name}: T.Buffer((6, 5), "int32"), ' for name in "AB")
    func = parse(f"""{HEAD}{params}out: T.Buffer((6, 5), "int32")):
{stages}    for i, j in T.grid(6, 5):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = {value}
""")
    assert isinstance(func, PrimFunc)
    return func


LIMITS = """    L = T.alloc_buffer((6, 5), "int32")
    for i, j in T.grid(6, 5):
        with T.block("L"):
            vi, vj = T.axis.remap("SS", [i, j])
            L[vi, vj] = T.if_then_else(vj <= vi, 7, 0)
"""
CLIPPED = "T.min(T.max(A[vi, vj], 0), L[vi, vj])"


@pytest.mark.parametrize(("value", "stages", "needs"), [
    ("T.if_then_else(vj <= vi, A[vi, vj], B[vi, vj])", "", {"A": COL <= ROW, "B": COL > ROW}),
    ("T.Select(vj <= vi and vi < 4, A[vi, vj] + B[vi, vj], 3)", "",
     {"A": (COL <= ROW) & (ROW < 4), "B": (COL <= ROW) & (ROW < 4)}),
    ("A[vi, vj] * L[vi, vj] + B[vi, vj]", LIMITS, {"A": COL <= ROW, "B": COL >= 0}),
    (CLIPPED, LIMITS, {"A": COL <= ROW, "B": COL < 0}),
    ("T.max(T.min(A[vi, vj], 0), 0 - L[vi, vj])", LIMITS, {"A": COL <= ROW, "B": COL < 0}),
    (f"T.max({CLIPPED}, T.max(B[vi, vj], 7))", LIMITS, {"A": COL < 0, "B": COL >= 0}),
    (f"T.min({CLIPPED}, T.max(B[vi, vj], 7))", LIMITS, {"A": COL <= ROW, "B": COL < 0}),
    (f"T.min(T.min({CLIPPED}, 0) + A[5 - vi, 4 - vj], 2)", LIMITS, {"A": COL >= 0, "B": COL < 0}),
    ("T.shift_right(A[vi // 2, vj], 1) + B[vi, 0]", "", {"A": ROW < 3, "B": COL == 0}),
    ("T.if_then_else(vi < 5, A[vi + 1, vj], A[0, 4 - vj])", "", {"A": COL >= 0, "B": COL < 0}),
])
def test_needed_is_what_a_result_changes_with(value: str, stages: str, needs: dict[str, np.ndarray]) -> None:
    func = program(value, stages)
    known = Known(func, {}, {})
    of = {b.name: np.broadcast_to(known.needed.get(b, np.zeros((1, 1), np.bool_)), (6, 5)) for b in func.buffers}
    for name, wanted in needs.items():
        np.testing.assert_array_equal(of[name], wanted, name)
    # And so it is when the program runs: nothing else changes a result.
    rng = np.random.default_rng(0)
    given = [rng.integers(-20, 20, (6, 5), dtype=np.int32) for _ in "AB"]
    (before,) = run(func, *given)
    other = [np.where(of[name], x, rng.integers(-20, 20, (6, 5))).astype(np.int32) for name, x in zip("AB", given)]
    np.testing.assert_array_equal(run(func, *other)[0], before)
    # What is one number is that number.
    low, high = known.tables[func.buffers[-1]]
    assert np.all((low <= before) & (before <= high))


PARTS = """    P = T.alloc_buffer((6, 5), "int32")
    for i, j in T.grid(6, 5):
        with T.block("zero"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = 0
    for i, j in T.grid(3, 5):
        with T.block("part"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi * 2, vj] = A[vi, vj]
"""


def test_what_several_blocks_store_is_what_each_of_them_stores() -> None:
    func = program("P[vi, vj]", PARTS)
    known = Known(func, {}, {})
    np.testing.assert_array_equal(np.broadcast_to(known.some_of(func.buffers[-1]), (6, 5)), ROW % 2 == 0)


PARTLY = """    P = T.alloc_buffer((6, 5), "int32")
    for i, j in T.grid(4, 5):
        with T.block("P"):
            vi = T.axis.spatial(6, i + {first})
            vj = T.axis.spatial(5, j)
            P[vi, vj] = T.max(A[vi, vj], vi)
"""


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_block_may_run_over_a_part_of_its_domain(first: int) -> None:
    """As copies do that one reader alone has: rows 2 and 3 are read."""
    func = program("T.if_then_else(vi // 2 == 1, P[vi, vj], B[vi, vj])", PARTLY.format(first=first))
    known = Known(func, {}, {})
    assert not known.unseen
    needed = {b.name: np.broadcast_to(n, (6, 5)) for b, n in known.needed.items()}
    np.testing.assert_array_equal(needed["A"], ROW // 2 == 1)
    np.testing.assert_array_equal(needed["B"], ROW // 2 != 1)
    (buffer,) = [b for b in known.tables if b.name == "P"]
    rows = slice(first, first + 4)
    np.testing.assert_array_equal(np.broadcast_to(known.tables[buffer][0], (6, 5))[rows], ROW[rows])


@pytest.mark.parametrize("at", ["i * 2", "5 - i", "i // 2"])
def test_of_other_parts_nothing_is_known(at: str) -> None:
    func = program("P[vi // 2, vj]", PARTLY.format(first=0).replace("i + 0", at).replace("T.grid(4, 5)", "T.grid(3, 5)"))
    known = Known(func, {}, {})
    assert {b.name for b in known.unseen} >= {"P", "A", "out"}


def test_what_of_a_parameter_is_not_stored_stays_as_it_is() -> None:
    func = parse(f"""{HEAD}out: T.Buffer((6, 5), "int32")):
    for i, j in T.grid(2, 5):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi * 2, vj] = 0
""")
    assert isinstance(func, PrimFunc)
    some = Known(func, {}, {}).some_of(func.buffers[0])
    np.testing.assert_array_equal(np.broadcast_to(some, (6, 5)), (ROW != 0) & (ROW != 2))


def test_what_the_host_takes_is_what_is_needed_of_results() -> None:
    host = split_host(normalise(workload(f"{PROGRAMS / 'window_of_seven_columns.py'}:main").func, get_target("vta-de10"))[0])
    (taken,) = asked(host.unpack, {}, True, {}).values()
    # Eight rows are lanes, of sixteen.
    np.testing.assert_array_equal(taken.ravel(), np.arange(16) < 8)
    sketch = Space(workload(f"{PROGRAMS / 'window_of_seven_columns.py'}:main").func, "vta-de10").sketches[0]
    assert formings(sketch.models).made("o1_global", 7, 16) == 4  # 56 of 112 elements


def test_of_parts_that_the_host_packs_all_that_any_needs_comes_once() -> None:
    """Ten rows are read, at three places each, of which each tensor has eight: 70 elements in five vectors."""
    space = Space(workload(f"{PROGRAMS / 'window_of_seven_columns.py'}:main").func, "vta-de10")
    assert space.machine.words == {"local.acc_buffer of A": 40}


def test_products_with_zeros_of_a_constant_are_none() -> None:
    """An identity has one number in each row that is not 0."""
    space = Space(workload(f"{PROGRAMS / 'move_upsampled.py'}:main").func, "vta-de10")
    sketch = space.sketches[0]
    formed = formings(sketch.models).of(sketch.models[0].nest.anchor)
    assert formed is not None and formed.every == 16 and formed.reach == (1,) and formed.terms == formed.results[0]


@pytest.mark.parametrize("at", [
    lambda i, j: i >> 2, lambda i, j: i << 3, lambda i, j: i & j, lambda i, j: i | 5, lambda i, j: i ^ j,
    lambda i, j: te.truncdiv(i - 9, j + 1), lambda i, j: te.truncmod(i - 9, j + 1), lambda i, j: (i * 40).astype("int8"),
    lambda i, j: (i * 40).astype("int8") + (j * 40).astype("int8"), lambda i, j: (i * 40).astype("uint8"),
    lambda i, j: (i * 9000).astype("int16") // (j + 1).astype("int16"),
])
def test_values_of_iterators_are_those_that_a_program_stores(at: Callable[[Expr, Expr], Expr]) -> None:
    n, m = 19, 7
    (stored,) = run(te.create_prim_func([te.compute((n, m), lambda i, j: at(i, j).astype("int32"), name="out")]))
    i, j = Var("i"), Var("j")
    found = value_at(at(i, j), {i: np.arange(n)[:, None], j: np.arange(m)[None, :]})
    np.testing.assert_array_equal(np.broadcast_to(found, (n, m)), stored)
