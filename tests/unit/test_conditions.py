"""Conditions as values: the same results, written as one store of a block, and as what a product reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad
from autosched.ir.functor import walk_expr
from autosched.ir.interp import random_inputs, run
from autosched.ir.patterns import choice_of
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse
from space.normalise.blocks import device_blocks, store_of

Verify = Callable[..., None]

SUM = '''
@T.prim_func
def f(A: T.Buffer((6, 9), "int32"), B: T.Buffer((9,), "int32"), C: T.Buffer((6,), "int32")):
    for {loops}:
        with T.block("C"):
            {iters}
            {body}
'''
PLAIN = {"loops": "i, k in T.grid(6, 9)", "iters": 'vi, vk = T.axis.remap("SR", [i, k])'}


def program(body: str, **how: str) -> PrimFunc:
    lines = ("\n" + " " * 12).join(body.split("\n"))
    return parse(SUM.format(**{**PLAIN, **how, "body": lines}))


def same(func: PrimFunc, other: PrimFunc) -> bool:
    """What both make of equal arrays, results included, for what is not stored is read."""
    inputs = random_inputs(func, 5)
    return all(np.array_equal(a, b) for a, b in zip(run(other, *inputs), run(func, *inputs), strict=True))


# With whether what the first step stores becomes the init.
STATEMENTS = {
    "if vk == 0:\n    C[vi] = 3\nC[vi] = C[vi] + A[vi, vk]": True,
    "if 0 == vk:\n    C[vi] = B[vi]\nif vk < vi:\n    C[vi] = C[vi] + A[vi, vk]": True,
    "if vk == 0:\n    C[vi] = A[vi, vk]\nelse:\n    C[vi] = C[vi] + A[vi, vk]": True,
    "if vk == 0:\n    C[vi] = A[vi, vk]\nelse:\n    C[vi] = T.max(C[vi], A[vi, vk])": True,
    "if vk == 0:\n    C[vi] = A[vi, vk] + 1\nelse:\n    C[vi] = C[vi] + A[vi, vk]": False,
    "if vk == 0:\n    C[vi] = A[vi, vk]\nC[vi] = C[vi] + A[vi, vk]": False,
    "if vk == 0:\n    C[vi] = C[vi] * 2\nC[vi] = C[vi] + A[vi, vk]": False,
    "if vk == 0 and vi == 0:\n    C[vi] = 3\nC[vi] = C[vi] + A[vi, vk]": False,
    "if vk == 1:\n    C[vi] = 0\nC[vi] = C[vi] + A[vi, vk]": False,
    "with T.init():\n    C[vi] = 0\nif A[vi, vk] > 0 and vk > 2:\n    C[vi] = C[vi] + 1": True,
    "with T.init():\n    C[vi] = 0\nif vk < 7:\n    C[vi] = T.min(C[vi], A[vi, vk])\nelse:\n    C[vi] = C[vi] + B[vk]": True,
    "with T.init():\n    C[vi] = -5\nif vk > 2:\n    if vk < 7:\n        C[vi] = T.max(C[vi], A[vi, vk])": True,
    "with T.init():\n    C[vi] = 0\nC[vi] = C[vi] + B[vk]\nC[vi] = C[vi] * 2 - A[vi, vk]": True,
    "if vk < 4:\n    C[vi] = A[vi, vk]\nelse:\n    C[vi] = B[vk]": False,
}


@pytest.mark.parametrize("body", STATEMENTS)
def test_statements_are_one_store(body: str, verify_trace_roundtrip: Verify) -> None:
    func = program(body)
    sch = Schedule(func)
    sch.single_store("C")
    text = sch.script()
    assert "if v" not in text and "else:" not in text and text.count("C[vi] =") == 1 + STATEMENTS[body]
    assert ("T.init()" in text) == STATEMENTS[body] and same(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("loops", "iters"), [
    ("k, i in T.grid(9, 6)", 'vi, vk = T.axis.remap("SR", [i, k])'),
    ("i, a, b in T.grid(6, 3, 3)", "vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, a * 3 + b)"),
])
def test_the_first_step_is_that_of_the_loops(loops: str, iters: str) -> None:
    func = program("if vk == 0:\n    C[vi] = 3\nC[vi] = C[vi] + A[vi, vk]", loops=loops, iters=iters)
    (sch := Schedule(func)).single_store("C")
    assert "T.init()" in sch.script() and same(func, sch.func)


@pytest.mark.parametrize(("loops", "iters"), [
    ("i, k in T.grid(6, 9)", "vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, 8 - k)"),
    ("f in range(54)", "vi = T.axis.spatial(6, f % 6)\n            vk = T.axis.reduce(9, f // 6)"),
    ("i, k in T.grid(6, 9)", 'vi, vk = T.axis.remap("SS", [i, k])'),
    ("i, k, l in T.grid(6, 9, 2)", 'vi, vk, vl = T.axis.remap("SRR", [i, k, l])'),
])
def test_what_is_not_known_to_come_first_is_no_init(loops: str, iters: str) -> None:
    func = program("if vk == 0:\n    C[vi] = 3\nC[vi] = C[vi] + A[vi, vk]", loops=loops, iters=iters)
    (sch := Schedule(func)).single_store("C")
    assert "T.init()" not in sch.script() and same(func, sch.func)


def test_the_condition_of_a_block_that_updates_is_one_of_its_term(verify_trace_roundtrip: Verify) -> None:
    func = program("T.where(i + k < 7 and 1 <= k)\nC[vi] = C[vi] + A[vi, vk]")
    sch = Schedule(func)
    sch.single_store("C")
    assert "T.where" not in sch.script() and "vi + vk < 7" in sch.script() and same(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_a_condition_that_keeps_an_iterator_in_its_domain_is_none_of_a_value() -> None:
    sch = Schedule(program("T.where(k < 9)\nC[vi] = C[vi] + A[vi, vk]", loops="i, k in T.grid(6, 12)",
                           iters="vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, k)"))
    with refused(ScheduleError, "domain"):
        sch.single_store("C")


@pytest.mark.parametrize(("body", "how"), [
    ("C[vi] = C[vi] + A[vi, vk]", {}),
    ("if vk < 5:\n    C[vi] = A[vi, vk]", {}),
    ("if vk == 0:\n    C[vi] = 0", {}),
    ("if vk == 0:\n    C[vi] = 0\nC[5 - vi] = C[5 - vi] + A[vi, vk]", {}),
    ("if C[vi] > 0:\n    C[vi] = C[vi] + A[vi, vk]", {}),
    ("if vk < 5:\n    C[vi] = C[5 - vi] + A[vi, vk]", {}),
    ("T.where(i + k < 7)\nwith T.init():\n    C[vi] = 0\nC[vi] = C[vi] + A[vi, vk]", {}),
    ("T.where(a * 2 + b < 9)\nC[vi] = C[vi] + A[vi, vk]",
     {"loops": "i, a, b in T.grid(6, 5, 2)", "iters": "vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, a * 2 + b)"}),
])
def test_what_is_no_single_store(body: str, how: dict[str, str]) -> None:
    sch = Schedule(program(body, **how))
    before = sch.func
    with refused(ScheduleError, "form"):
        sch.single_store("C")
    assert sch.func == before


# With the factors under a condition afterwards: what reads by all of it, or else what would read outside of its tensor.
PRODUCTS = {
    "T.if_then_else(vi + vk < 7, A[vi, vi + vk] * B[vk], 0)": "A", "T.if_then_else(vk < vi, B[vk] * A[vi, vk], 0)": "A",
    "T.if_then_else(vi + vk < 7, 0, B[vk] * A[vi, vk])": "A", "T.Select(vk < 5, A[vi, vk] * B[vk], 0)": "A",
    "T.if_then_else(vk >= 1, A[vi, vk - 1] * B[vk - 1], 0)": "AB", "T.if_then_else(vk >= 1, A[vi, vk] * B[vk - 1], 0)": "B",
    "T.if_then_else(vk < 8, A[vi, vk] * B[vk + 1], 0)": "B",
}


@pytest.mark.parametrize("term", PRODUCTS)
def test_a_product_under_a_condition_has_a_factor_under_it(term: str, verify_trace_roundtrip: Verify) -> None:
    func = program(f"with T.init():\n    C[vi] = 0\nC[vi] = C[vi] + {term}")
    sch = Schedule(func)
    sch.guard_factors("C", [1])
    total = store_of(device_blocks(sch.func)[0]).value
    assert isinstance(total, BinOp) and isinstance(total.b, BinOp) and total.b.op == "*"
    chosen = [f for f in (total.b.a, total.b.b) if choice_of(f) is not None]
    assert [x.buffer.name for f in chosen for x in walk_expr(f) if isinstance(x, BufferLoad)] == list(PRODUCTS[term])
    assert same(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("term", [
    "A[vi, vk] * B[vk]", "T.if_then_else(vk < 5, A[vi, vk], 0)", "T.if_then_else(vk < 5, A[vi, vk] * B[vk], 1)",
    "T.if_then_else(B[vk] > 5, A[vi, vk] * B[vk], 0)", "T.if_then_else(vk < 5, A[vi, vk] * 3, 0)",
])
def test_what_is_no_product_under_a_condition(term: str) -> None:
    sch = Schedule(program(f"with T.init():\n    C[vi] = 0\nC[vi] = C[vi] + {term}"))
    with refused(ScheduleError, "form"):
        sch.guard_factors("C", [1])


def elements(term: str) -> PrimFunc:
    """A sum over ``x``, of int8, for each row of the result."""
    return parse(f'''
@T.prim_func
def f(x: T.Buffer((9,), "int8"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + {term}
''')


@pytest.mark.parametrize("term", [
    'T.if_then_else(vk <= vi, T.Cast("int32", x[vk]), 0)', 'T.if_then_else(vk > vi, 0, T.Cast("int32", x[vk]))',
    'T.Cast("int32", T.if_then_else(vk <= vi, x[vk], T.int8(0)))', 'T.Select(vi < 3, T.Cast("int32", x[vk + 1]), 0)',
])
def test_an_element_that_counts_by_more_places_is_a_product(term: str, verify_trace_roundtrip: Verify) -> None:
    func = elements(term)
    sch = Schedule(func)
    sch.guard_factors("C", [1])
    total = store_of(device_blocks(sch.func)[0]).value
    assert isinstance(total, BinOp) and isinstance(total.b, BinOp) and total.b.op == "*" and choice_of(total.b.a) is None
    assert same(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("term", [
    'T.if_then_else(vk < 5, T.Cast("int32", x[vk]), 0)',  # by what it is read by: padding
    'T.if_then_else(vk >= 1 and vk <= vi, T.Cast("int32", x[vk - 1]), 0)',  # nothing is there elsewhere
    'T.if_then_else(vk <= vi, T.Cast("int32", x[vk]), 1)',
    'T.if_then_else(vk <= vi, T.shift_right(T.Cast("int32", x[vk]), 1), 0)',
    'T.if_then_else(T.Cast("int32", x[vk]) <= vi, T.Cast("int32", x[vk]), 0)',
])
def test_what_is_no_element_that_counts_by_more_places(term: str) -> None:
    sch = Schedule(elements(term))
    with refused(ScheduleError, "form"):
        sch.guard_factors("C", [1])
