"""Results in parts: what one expression computes in several ways, by the value of an index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.expr import BinOp, IntImm, Var, int_value
from autosched.ir.functor import substitute
from autosched.ir.interp import random_inputs, run
from autosched.ir.simplify import simplify
from autosched.kernel import build
from autosched.script import parse
from space import Space
from space.normalise.blocks import turning_point


@given(st.sampled_from(["<", "<=", ">", ">="]), st.integers(-2, 2), st.integers(-2, 2), st.integers(-9, 9), st.integers(-9, 9))
def test_where_a_condition_turns(op: str, a: int, b: int, c: int, d: int) -> None:
    v = Var("v", "int32")
    condition = BinOp(op, v * a + c, v * b + d, "bool")
    held = [bool(int_value(simplify(substitute(condition, {v: IntImm(k, "int32")})))) for k in range(-50, 50)]
    found = turning_point(condition)
    if abs(a - b) != 1:
        assert found is None
        return
    assert found is not None and found[0] is v
    assert held in ([(k < found[1]) == side for k in range(-50, 50)] for side in (True, False))


TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 20), "int32"), B: T.Buffer((6, 20), "int32"), out: T.Buffer((6, 37), "int8")):
    for i, j in T.grid(6, 37):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.if_then_else({condition}, A[vi, {first}] >> 4, B[vi, {second}] >> 3))
'''


@settings(max_examples=12)
@given(st.integers(17, 20), st.sampled_from(["vj < {n}", "{n} > vj", "vj <= {n} - 1", "{n} - 1 >= vj"]), st.booleans())
def test_every_part_is_stored_where_it_belongs(n: int, condition: str, turned: bool) -> None:
    first, second = ("vj", f"vj - {n}")
    if turned:
        opposite = {"vj < {n}": "vj >= {n}", "{n} > vj": "{n} <= vj", "vj <= {n} - 1": "vj > {n} - 1",
                    "{n} - 1 >= vj": "{n} - 1 < vj"}
        condition, first, second = opposite[condition], second, first
    func = parse(TEXT.format(condition=condition.format(n=n), first=first, second=second))
    space = Space(func, "vta-de10")
    arrays = random_inputs(func, n)
    for point in space.sample(np.random.default_rng(n), 2):
        assert np.array_equal(build(func, "vta-de10", space.trace(point))(*arrays), run(func, *arrays)[0])


@pytest.mark.parametrize("condition", ["vi < vj", "vj % 2 < 1", "vj + vi < 9"])
def test_what_turns_nowhere_is_made_by_the_host(condition: str) -> None:
    func = parse(TEXT.format(condition=condition, first="T.min(vj, 19)", second="T.max(vj - 18, 0)"))
    space = Space(func, "vta-de10")
    arrays = random_inputs(func, 1)
    for point in space.sample(np.random.default_rng(1), 2):
        assert np.array_equal(build(func, "vta-de10", space.trace(point))(*arrays), run(func, *arrays)[0])
