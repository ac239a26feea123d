"""Addends that are the same in all lanes: the host repeats them in one vector, and no further; sums start with them, and more."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from decided import within_bounds

from autosched import te
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs
from autosched.ir.interp import run as interpret
from autosched.ir.stmt import PrimFunc
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise

TARGET = get_target("vta-de10")
SHAPE = (1, 32, 3, 5)


def added(axes: tuple[int, ...], shape: tuple[int, ...] = SHAPE, twice: bool = False) -> PrimFunc:
    """``((a << 4) + m) >> 4``, clipped, where ``m`` has some of the axes of ``a``; ``twice``: read at two places."""
    a = te.placeholder(shape, "int8", name="a")
    m = te.placeholder(tuple(shape[d] + twice for d in axes), "int32", name="m")

    def value(*i: te.Var) -> object:
        addend = m(*[i[d] for d in axes])
        if twice:
            addend = addend + m(*[i[d] + 1 for d in axes])
        return te.min(te.max(((a(*i).astype("int32") << 4) + addend) >> 4, -128), 127).astype("int8")

    return te.create_prim_func([a, m, te.compute(shape, value, name="out")])


def vectors(func: PrimFunc) -> int:
    """Vectors of int32 that the accelerator reads of what the host fills."""
    return sum(prod(int(n.value) for n in b.shape) for b in split_host(func).device.buffers if b.dtype == "int32") // 16


@pytest.mark.parametrize(("axes", "shape", "count"), [
    ((3,), SHAPE, 5), ((2, 3), SHAPE, 15), ((2,), SHAPE, 3), ((0,), SHAPE, 1),
    ((1,), SHAPE, 2),  # boundary: with the lanes' index it lies in whole vectors by itself
    ((3,), (1, 16, 1, 5), 5),  # boundary: nothing is repeated but in lanes
    ((3,), (1, 33, 3, 5), 5),
])
def test_a_tensor_without_lanes_repeats_nothing_but_these(axes: tuple[int, ...], shape: tuple[int, ...], count: int) -> None:
    func = added(axes, shape)
    packed, _ = normalise(func, TARGET)
    assert vectors(packed) == count
    a, m = random_inputs(func, seed=1)
    m = np.random.default_rng(2).integers(-900, 900, m.shape, dtype=np.int32)
    assert np.array_equal(interpret(packed, a, m)["out"], interpret(func, a, m)["out"])


def test_what_is_read_at_two_places_keeps_a_tensor_of_all_indices() -> None:
    packed, _ = normalise(added((3,), twice=True), TARGET)
    assert vectors(packed) > 5


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
def test_points_of_it_mean_the_same_and_are_above_their_bounds(target: str) -> None:
    func = added((3,))
    space = Space(func, target)
    within_bounds(space, func, space.sample(np.random.default_rng(0), 6), 6)


def test_a_sum_in_the_place_of_its_addend_is_above_the_bound_of_points() -> None:
    func = added((0, 1, 2, 3), (1, 64, 24, 24))  # an addend of its own for every sum: the load is what writes the accumulator
    space = Space(func, "vta-de10")
    (model,) = space.sketches[0].models
    assert any(o.leads and o.consumer == model.nest.anchor for o in model.nest.operands)
    points = space.sample(np.random.default_rng(0), 200)
    within_bounds(space, func, points[np.argsort(space.draft(points), kind="stable")[:4]], 4)


def requantized(*, given: bool, constant: int, channels: int = 16, shift: int = 8, ranges: bool = True) -> PrimFunc:
    """A 1x1 convolution of which ``(sum + b + constant) >> shift`` is stored; ``given``: the sum starts with ``b``."""
    text = f"""from autosched.script import T

@T.prim_func
def main(x: T.Buffer((1, 32, 3, 4), "int8"), w: T.Buffer(({channels}, 32), "int8"), b: T.Buffer(({channels},), "int32"),
         out: T.Buffer((1, {channels}, 3, 4), "int8")):
    {'T.func_attr({"autosched.value_ranges": {"b": [-4096, 4096]}})' if ranges else 'pass'}
    s = T.alloc_buffer((1, {channels}, 3, 4), "int32")
"""
    start = "b[vo]" if given else "0"
    addend = "" if given else " + b[vo]"
    text += f"""    for n, o, i, j, c in T.grid(1, {channels}, 3, 4, 32):
        with T.block("s"):
            vn, vo, vi, vj, vc = T.axis.remap("SSSSR", [n, o, i, j, c])
            with T.init():
                s[vn, vo, vi, vj] = {start}
            s[vn, vo, vi, vj] += T.Cast("int32", x[vn, vc, vi, vj]) * T.Cast("int32", w[vo, vc])
    for n, o, i, j in T.grid(1, {channels}, 3, 4):
        with T.block("out"):
            vn, vo, vi, vj = T.axis.remap("SSSS", [n, o, i, j])
            out[vn, vo, vi, vj] = T.Cast("int8", T.min(T.max((s[vn, vo, vi, vj]{addend} + {constant}) >> {shift}, -128), 127))
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def started(space: Space) -> list[tuple[tuple[str, ...], tuple[int, int]]]:
    """Of each form what was done, and the operations behind its sum."""
    nests = [(sketch.done, sketch.model.nest) for sketch in space.sketches]
    return [(done, (sum(s.imm_ops for s in nest.stages), sum(s.tensor_ops for s in nest.stages))) for done, nest in nests]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("channels", [16, 17])  # boundary: of one block of channels, tensors have two dimensions of one element
def test_the_copy_that_a_sum_starts_with_adds_a_constant(given: bool, channels: int) -> None:
    func = requantized(given=given, constant=128, channels=channels)
    space = Space(func, "vta-de10")
    forms = started(space)
    assert any("init by copy" in done and operations == (3, 0) for done, operations in forms), forms
    points = space.sample(np.random.default_rng(0), 12)
    within_bounds(space, func, points, 6)


def test_elsewhere_such_a_constant_stays_where_it_is() -> None:
    forms = started(Space(requantized(given=True, constant=128), "vta-de10-portable"))
    assert not any({"init by copy", "addend in front"} & {*done} for done, _ in forms)
