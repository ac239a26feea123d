"""Which blocks surely write different elements, against all of their iterations."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.errors import ScheduleError
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import Block
from autosched.schedule import Schedule
from autosched.schedule.analysis.disjoint import disjoint_results
from autosched.script import parse

SIZE = 40


def blocks(one: tuple[int, int, int], other: tuple[int, int, int], extents: tuple[int, int]) -> list[Block]:
    """Two blocks that store at ``a * v + b * w + c``."""
    nests = "".join(f"""
    for i, j in T.grid({extents[0]}, {extents[1]}):
        with T.block("b{n}"):
            v, w = T.axis.remap("SS", [i, j])
            B[v * {a} + w * {b} + {c}] = A[v]""" for n, (a, b, c) in enumerate((one, other)))
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(({SIZE},), "int8"), B: T.Buffer(({SIZE},), "int8")):{nests}
""")
    sch = Schedule(func)
    found = [sch.get(sch.get_sblock(f"b{n}")) for n in range(2)]
    return [b for b in found if isinstance(b, Block)]


@settings(max_examples=80)
@given(st.data())
def test_blocks_that_are_said_to_write_different_elements_do(data: st.DataObject) -> None:
    small = st.integers(0, 6)
    extents = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    one, other = (tuple(data.draw(small) for _ in range(3)) for _ in range(2))
    touched = [{a * v + b * w + c for v, w in product(*map(range, extents))} for a, b, c in (one, other)]
    if disjoint_results(*blocks(one, other, extents)):  # type: ignore[arg-type]
        assert not touched[0] & touched[1]


@pytest.mark.parametrize(("one", "other", "apart"), [
    ((2, 0, 0), (2, 0, 1), True), ((2, 0, 0), (2, 0, 2), False), ((4, 2, 0), (6, 2, 3), True), ((4, 2, 0), (3, 2, 1), False),
    ((2, 0, 0), (2, 1, 1), False), ((6, 0, 1), (4, 0, 3), False), ((6, 0, 1), (4, 0, 2), True), ((0, 0, 3), (0, 0, 4), True),
])
def test_indices_that_take_turns_never_meet(one: tuple[int, int, int], other: tuple[int, int, int], apart: bool) -> None:
    assert disjoint_results(*blocks(one, other, (3, 2))) == apart


@pytest.mark.parametrize(("index", "taken"), [("v * 2 + w", True), ("v * 4 + w * 2", True), ("v + w", False)])
def test_a_block_is_cut_by_turns(index: str, taken: bool) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16, 2), "int8"), B: T.Buffer((64,), "int8")):
    for i, j in T.grid(16, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[{index}] = A[v, w]
""")
    sch = Schedule(func)
    if not taken:
        with pytest.raises(ScheduleError, match="do not separate") as caught:
            sch.partition_block(sch.get_loops("b")[1], [1, None])
        assert caught.value.code == "order" and sch.func == func
        return
    assert len(sch.partition_block(sch.get_loops("b")[1], [1, None])) == 2
    inputs = random_inputs(func, 1)
    assert all((a == b).all() for a, b in zip(run(func, *inputs), run(sch.func, *inputs), strict=True))
