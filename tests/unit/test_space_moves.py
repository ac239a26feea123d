"""What a sum of two tensors costs where neither can make room for it: the draft counts a move where lowering makes one."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.lower import lower_table
from autosched.workloads import workload
from sim import isa
from sim.stats import uops_of
from space import Space
from space.draft import terms_of

SHAPE = (17, 9, 1, 16)


def stages(space: Space, point: np.ndarray) -> float:
    """Cycles of the stages of one element."""
    sketch, plan = space.meaning(point[None])
    return float(terms_of(sketch.model, plan, plan.body).stages[0])


@pytest.mark.parametrize(("target", "move"), [("vta-de10", 1), ("vta-de10-portable", 3)])
@pytest.mark.parametrize("name", ["add:m=17,n=512", "add:m=1,n=1040", "add:m=6,n=64"])
def test_a_move_is_counted_where_it_is_made(name: str, target: str, move: int) -> None:
    """Under ``chisel`` a move is an operation with a constant, elsewhere a reset and a sum of two accumulators."""
    space = Space(workload(name).func, target)
    points = space.sample(np.random.default_rng(0), 60)
    elements = space.sketches[0].model.out_elements
    pairs = []
    for point in points:
        table = lower_table(space.schedule(point).func, space.target).table
        cycles = uops_of(table) * np.where((table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.USE_IMM] == 0), 2, 1)
        pairs.append((stages(space, point), int(cycles.sum()) / elements))
    # Of several parts some may find room.
    exact = [said == made for said, made in pairs]
    assert {said for said, _ in pairs} == {2, 2 + move} and np.mean(exact) >= 0.9
    assert max(made for _, made in pairs) == 2 + move


def test_what_begins_with_one_tensor_is_never_moved() -> None:
    """An operation with a constant reads at one place and writes at another."""
    a, b = te.placeholder(SHAPE, "int32", name="a"), te.placeholder(SHAPE, "int32", name="b")
    first = te.compute(SHAPE, lambda *i: a[i] >> 1, name="first")
    out = te.compute(SHAPE, lambda *i: (first[i] + b[i]).astype("int8"), name="o")
    space = Space(te.create_prim_func([a, b, out]), "vta-de10")
    assert {stages(space, point) for point in space.sample(np.random.default_rng(0), 40)} == {3}
