"""What a program copies, and what it widens, in form: copies that only move are read where they come from."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.ir.functor import walk
from autosched.ir.host import is_move, split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import BlockRealize, BufferStore, PrimFunc
from autosched.kernel import of_schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise


def moved(func: PrimFunc) -> list[str]:
    """The device's blocks that only move elements of int8."""
    device = split_host(normalise(func, get_target("vta-de10"))[0]).device
    return [s.block.name for s in walk(device.body) if isinstance(s, BlockRealize) and isinstance(s.block.body, BufferStore)
            and is_move(s.block.body.value)]


@pytest.mark.parametrize(("name", "left"), [("dense_own_copies", ["C"]), ("conv_own_copies", ["padded"])])
def test_own_copies_are_read_where_they_come_from(user_programs, name: str, left: list[str]) -> None:
    assert moved(user_programs.program(name)) == left


RESIDUAL = '''
@T.prim_func
def main(a: T.Buffer((5, 32), "int32"), r: T.Buffer((5, 32), "int8"), y: T.Buffer((5, 32), "int8")):
    for i, j in T.grid(5, 32):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = ((a[vi, vj] + %s) >> 9).astype("int8")
'''
R = 'r[vi, vj].astype("int32")'


@pytest.mark.parametrize(("value", "identity", "target"), [
    (f"({R} << 6)", 64, "vta-de10"), (f"({R} << 7)", 1, "vta-de10"), (f"{R} * 128", 1, "vta-de10"), (f"{R} * 300", 1, "vta-de10"),
    (f"({R} << 10)", 1, "vta-fsim"), (f"{R} * -128", -128, "vta-fsim"), (f"{R} * -129", 1, "vta-fsim"),
])
def test_an_identity_multiplies_by_what_int8_holds(value: str, identity: int, target: str) -> None:
    func = parse(RESIDUAL % value)
    new = normalise(func, get_target(target))[0]
    assert identity in {np.frombuffer(c.data, np.int8)[0] for c in new.constants}
    space = Space(func, target)
    kernel = of_schedule(func, target, space.schedule(space.sample(np.random.default_rng(0), 1)[0]))
    inputs = random_inputs(func)
    assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])
