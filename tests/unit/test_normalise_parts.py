"""Results in parts: what one expression computes in several ways, by the value of an index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.errors import SpaceError
from autosched.ir import PrimFunc
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


MOVED = '''
@T.prim_func
def f(A: T.Buffer((16, 64), "int8"), B: T.Buffer((16, 64), "int8"), out: T.Buffer((16, {n}), "int8"){also}):
    {blocks}
'''
MADE = '''
    {name} = T.alloc_buffer((16, {n}), "int8")
    for i, j in T.grid(16, {n}):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {name}[vi, vj] = {value}
'''
RELU, SLICE = "T.max({}[vi, vj], T.int8(0))", "{}[vi, vj + 16]"
PAD, ENDS = "T.if_then_else(vj >= 5, {}[vi, vj - 5], T.int8(0))", "T.if_then_else(vj >= 8 and vj < 40, X[vi, vj - 8], T.int8(0))"


def put(first: int, second: str) -> str:
    return f"T.if_then_else(vj < {first}, X[vi, vj], {second}[vi, vj - {first}])"


def moved(n: int, out: str, also: str = "", **made: tuple[int, str]) -> PrimFunc:
    blocks = [MADE.format(name=name, n=extent, value=value) for name, (extent, value) in made.items()]
    blocks.append(MADE.format(name="out", n=n, value=out).replace(f'out = T.alloc_buffer((16, {n}), "int8")', ""))
    if also:
        blocks.append(MADE.format(name="too", n=32, value=also).replace('too = T.alloc_buffer((16, 32), "int8")', ""))
    func = parse(MOVED.format(n=n, blocks="".join(blocks), also=', too: T.Buffer((16, 32), "int8")' if also else ""))
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("func", [
    moved(64, put(32, "Y"), X=(32, RELU.format("A")), Y=(32, RELU.format("B"))),
    moved(32, put(20, "Y"), X=(20, RELU.format("A")), Y=(12, RELU.format("B"))),
    moved(48, put(32, "B"), X=(32, RELU.format("A"))),
    moved(48, ENDS, X=(32, SLICE.format("A"))),
    moved(48, ENDS, X=(32, PAD.format("A"))),
    moved(48, ENDS, X=(32, RELU.format("A"))),
    moved(48, put(32, "Y"), X=(32, SLICE.format("A")), Y=(16, PAD.format("B"))),
])
def test_results_that_only_put_together_or_move_what_int8_holds(func: PrimFunc) -> None:
    """What the program makes is stored in the part that it becomes, and moves of moves are one."""
    space, arrays = Space(func, "vta-de10"), random_inputs(func, 3)
    (point,) = space.sample(np.random.default_rng(3), 1)
    assert np.array_equal(build(func, "vta-de10", space.trace(point))(*arrays), run(func, *arrays)[0])


@pytest.mark.parametrize(("func", "said"), [
    (moved(32, "X[vi, 31 - vj]", "T.max(X[vi, vj], T.int8(3))", X=(32, PAD.format("A"))),
     "only moves that: write in one block what moves A and what computes with it$"),
])
def test_moves_of_what_is_made_say_what_to_write(func: PrimFunc, said: str) -> None:
    with pytest.raises(SpaceError, match=said):
        Space(func, "vta-de10")
