"""Which index becomes the lanes of a program without products: none of a single one, where the host can lay out another."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from autosched import te
from autosched.ir.host import split_host
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.measure import Candidate, measure
from autosched.target import get_target
from space import Space
from space.normalise import normalised
from space.normalise.blocks import device_blocks, extents

Same = Callable[..., None]
DE10 = get_target("vta-de10")


def depth_to_space(lead: tuple[int, ...]) -> PrimFunc:
    """Four planes woven into one, behind some indices that stay."""
    x = te.placeholder((*lead, 8, 4, 8), "int8", name="x")
    out = te.compute((*lead, 2, 8, 16), lambda *i: x[(*i[:-3], i[-3] * 4 + i[-2] % 2 * 2 + i[-1] % 2, i[-2] // 2, i[-1] // 2)],
                     name="o")
    return te.create_prim_func([x, out])


def largest(lead: tuple[int, ...]) -> PrimFunc:
    """The largest of three neighbours, which the ALU takes: nothing of that does the host."""
    x = te.placeholder((*lead, 34), "int32", name="x")
    k = te.reduce_axis((0, 3), "k")
    out = te.compute((*lead, 32), lambda *i: te.max(x[(*i[:-1], i[-1] + k)], axis=k), name="o")
    return te.create_prim_func([x, out])


def elements(func: PrimFunc) -> int:
    """Of what is stored, on the accelerator."""
    return prod(extents(device_blocks(split_host(func).device)[-1]).values())


@pytest.mark.parametrize("lead", [(), (1,), (1, 1)])
def test_an_index_of_a_single_one_is_no_lanes(lead: tuple[int, ...], same: Same) -> None:
    func = depth_to_space(lead)
    sch = normalised(func, DE10)
    same(func, sch)
    assert elements(sch.func) == 2 * 8 * 16, "no lane is empty"
    space = Space(func, DE10)
    point = space.sample(np.random.default_rng(0), 1)[0]
    assert measure(Candidate(resolve(func, DE10), DE10, tuple(space.trace(point).as_json())), execute=True).ok


def test_it_is_where_there_is_no_other(same: Same) -> None:
    func = largest((1,))
    sch = normalised(func, DE10)
    same(func, sch)
    assert elements(sch.func) == 32 * 16, "one lane of sixteen"
