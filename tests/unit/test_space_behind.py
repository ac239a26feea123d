"""What only stages read, of a convolution with the sum that its result goes into: parts load their own, behind their products."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, off, run, settled

from autosched.ir import PrimFunc
from autosched.lower import lower_table
from autosched.networks.graph import Residual
from autosched.networks.programs import Spec, program
from sim import isa
from space import Space


def summed(ci: int, rows: int) -> PrimFunc:
    """A 1x1 convolution and its sum with another tensor."""
    return program(Spec("conv", 1, ci, rows, 14, 48, rows, 14, shift=7, residual=Residual(0, 0, 0, 0, -128, 127)), 1, 16)


def inputs(space: Space, point: np.ndarray) -> list[int]:
    """Elements of every load of inputs, in order."""
    table = lower_table(space.schedule(point).func, space.target).table
    rows = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_INP)]
    return [int(n) for n in rows[:, isa.Y_SIZE] * rows[:, isa.X_SIZE]]


@pytest.mark.parametrize(("axis", "size", "loads"), [
    # Four steps of the first part's sum, then what is added to it; the same of the last part.
    ("y", 1, [182, 182, 182, 182, 546, 14, 14, 14, 14, 42]), ("x", 3, [154, 154, 154, 154, 462, 42, 42, 42, 42, 126]),
    ("co", 1, [196, 196, 196, 196, 392, 196, 196, 196, 196, 196]), ("y", 0, [196, 196, 196, 196, 588]),
])
def test_every_part_loads_its_own_behind_its_products(axis: str, size: int, loads: list[int]) -> None:
    func = summed(64, 14)
    space = Space(func, "vta-de10")
    last = cut(space, axis, size) if size else 0
    point = settled(space, cut=last, tile_ci=1, load_data=9, load_weight=9, banks_data=2, banks_weight=2)
    assert (f"cut last {axis}={size}" in space.explain(point)) == bool(size) and "res@root" in space.explain(point)
    assert inputs(space, point) == loads
    assert run(space, func, point, execute=True).ok


def test_the_estimate_knows_it() -> None:
    func = summed(240, 14)
    space = Space(func, "vta-de10")
    point = settled(space, cut=cut(space, "y", 1), tile_ci=1, load_data=9, load_weight=9, banks_data=3, banks_weight=3)
    assert abs(off(space, func, point[None])[0]) < 0.02
