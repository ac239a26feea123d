"""Tensors in between of which each reader reads one range: queries, keys and values that one product makes, in every layout."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from spaces import computes, formed
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, normalise, ranges
from space.normalise.blocks import device_blocks, store_of

DE10 = "vta-de10"
RANGED = Wanted(digits=True, ranged=True)
ROWS, HEADS, DEEP = 9, 2, 16
WIDE = HEADS * DEEP

At = Callable[..., object]  # an element, by (0 of queries, 1 of keys, 2 of values; row, head, channel)


def narrow(e, shift: int, low: int = -128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def product(x: te.Tensor, w: te.Tensor, name: str, turned: bool = False) -> te.Tensor:
    r = te.reduce_axis((0, WIDE), name=f"r_{name}")
    shape = w.shape[:-1] if turned else w.shape[1:]
    return te.compute((ROWS, *shape), lambda i, *c: te.sum(
        x[i, r].astype("int32") * w(*c, r).astype("int32") if turned else x[i, r].astype("int32") * w(r, *c).astype("int32"),
        axis=r), name=name)


LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[[te.Tensor], At]]] = {
    "side by side": ((3 * WIDE,), lambda t: lambda n, i, h, d: t[i, n * WIDE + h * DEEP + d]),
    "by turns": ((3 * WIDE,), lambda t: lambda n, i, h, d: t[i, (h * 3 + n) * DEEP + d]),
    "before heads": ((3, HEADS, DEEP), lambda t: lambda n, i, h, d: t[i, n, h, d]),
    "behind heads": ((HEADS, 3, DEEP), lambda t: lambda n, i, h, d: t[i, h, n, d]),
    "keys from inside": ((3 * WIDE,), lambda t: lambda n, i, h, d: t[i, (0, WIDE - 8, 2 * WIDE)[n] + h * DEEP + d]),
    "a part unread": ((3 * WIDE + 16,), lambda t: lambda n, i, h, d: t[i, (0, WIDE + 16, 2 * WIDE + 16)[n] + h * DEEP + d]),
}


def attention(layout: str, made: bool = True, whole: bool = True, bias: bool = False, turned: bool = False, also: bool = False
              ) -> PrimFunc:
    """Attention whose queries, keys and values are one tensor.

    Args:
        layout: how they lie in it.
        made: whether a product makes it; else it is given.
        whole: with a projection of the heads, and a residual.
        bias: whether it is made with one.
        turned: whether the weight's rows are what it makes.
        also: whether another result is made of all of it.
    """
    shape, at_of = LAYOUTS[layout]
    x = te.placeholder((ROWS, WIDE), "int8", name="x")
    given, results = [x], []
    if made:
        given += [te.placeholder((*shape, WIDE) if turned else (WIDE, *shape), "int8", name="w")]
        sums = product(x, given[-1], "sums", turned)
        if bias:
            given += [te.placeholder(shape, "int32", name="bias")]
        t = te.compute(sums.shape, lambda i, *c: narrow(sums(i, *c) + given[-1](*c) if bias else sums(i, *c), 9), name="qkv")
    else:
        t = te.placeholder((ROWS, *shape), "int8", name="qkv")
        given = [x, t] if whole else [t]
    at = at_of(t)
    if also:
        results.append(te.compute(t.shape, lambda *i: te.max(t(*i), te.const(0, "int8")), name="other"))
    d, j = te.reduce_axis((0, DEEP), name="d"), te.reduce_axis((0, ROWS), name="j")
    s = te.compute((HEADS, ROWS, ROWS), lambda h, i, k: te.sum(
        at(0, i, h, d).astype("int32") * at(1, k, h, d).astype("int32"), axis=d), name="s")
    p = te.compute(s.shape, lambda *i: narrow(s(*i), 8, 0), name="p")
    o = te.compute((HEADS, ROWS, DEEP), lambda h, i, e: te.sum(
        p[h, i, j].astype("int32") * at(2, j, h, e).astype("int32"), axis=j), name="o")
    a = te.compute((ROWS, WIDE), lambda i, c: narrow(o[c // DEEP, i, c % DEEP], 7), name="a")
    if not whole:
        return te.create_prim_func([*given, *results, a])
    given.append(te.placeholder((WIDE, WIDE), "int8", name="wo"))
    y = product(a, given[-1], "y")
    z = te.compute(y.shape, lambda i, c: te.max(te.min(
        (y[i, c] >> 9) + (x[i, c] >> 1).astype("int32"), 127), -128).astype("int8"), name="z")
    return te.create_prim_func([*given, *results, z])


MADE = {
    "side by side": lambda: attention("side by side"), "by turns": lambda: attention("by turns"),
    "before heads": lambda: attention("before heads"), "behind heads": lambda: attention("behind heads"),
    "biased": lambda: attention("side by side", bias=True), "biased by turns": lambda: attention("by turns", bias=True),
    "turned": lambda: attention("by turns", turned=True),
}


@pytest.mark.parametrize("name", MADE)
def test_each_range_is_made_and_read_by_itself(name: str) -> None:
    new = formed(MADE[name](), DE10, RANGED)
    made = {store_of(b).buffer.name for b in device_blocks(new)}
    for whole in ("qkv", "sums"):
        assert {n for n in made if re.fullmatch(rf"{whole}(_part\d)?", n)} == {f"{whole}_part{n}" for n in range(3)}


@pytest.mark.parametrize(("layout", "whole", "target"), in_turn((
    ("side by side", True), ("by turns", False), ("before heads", False), ("behind heads", False))))
def test_what_one_product_makes_has_schedules_on_every_machine(layout: str, whole: bool, target: str) -> None:
    computes(attention(layout, whole=whole), target, 2, RANGED)


@pytest.mark.parametrize(("layout", "target"), in_turn(("by turns", "behind heads", "side by side")))
def test_so_has_what_is_given_as_one(layout: str, target: str) -> None:
    """A sum of products of a parameter with itself reads it at two offsets: a copy for each factor, laid out by the host."""
    computes(attention(layout, made=False), target, 2, Wanted(digits=True))


@pytest.mark.parametrize(("layout", "also"), [
    ("keys from inside", False), ("side by side", True), ("a part unread", False)])
def test_ranges_that_do_not_lie_end_to_end_stay(layout: str, also: bool) -> None:
    """The twins: keys begin among the queries' elements, another block reads all of it, or nobody a part."""
    func, target = attention(layout, whole=False, also=also), get_target(DE10)
    assert normalise(func, target, RANGED) == (func, ())


@pytest.mark.slow
@pytest.mark.parametrize("layout", [
    "keys from inside", "a part unread", "side by side", "by turns", "before heads", "behind heads"])
def test_what_its_form_has_or_lacks_its_space_has_or_lacks(layout: str) -> None:
    func = attention(layout, whole=False)
    if layout in ("keys from inside", "a part unread"):
        with pytest.raises(SpaceError):
            Space(func, DE10)
    else:
        computes(func, DE10, 2)


@pytest.mark.parametrize(("reads", "ends"), [
    ((0, 8, 16), [8, 16]), ((16, 0, 8, 8), [8, 16]), ((0, 8), None), ((8, 16), None), ((0, 7, 16), None), ((0, 16), None)])
def test_where_ranges_end(reads: tuple[int, ...], ends: list[int] | None) -> None:
    x, w = te.placeholder((4, 16), "int8", name="x"), te.placeholder((16, 24), "int8", name="w")
    r = te.reduce_axis((0, 16), name="r")
    t = te.compute((4, 24), lambda i, c: te.sum(x[i, r].astype("int32") * w[r, c].astype("int32"), axis=r), name="t")
    results = [_reads(t, begin, n) for n, begin in enumerate(reads)]
    func = te.create_prim_func([x, w, *results])
    sch = Schedule(func, seed=0)
    assert ranges.apply(sch) == (ends is not None)
    if ends is not None:
        sizes = [int_value(store_of(b).buffer.shape[1]) for b in device_blocks(sch.func) if b.name.startswith("t_part")]
        assert sizes == [b - a for a, b in pairwise([0, *ends, 24])]
        inputs = random_inputs(func, 0)
        assert all(map(np.array_equal, run(sch.func, *inputs), run(func, *inputs)))


def _reads(t: te.Tensor, begin: int, n: int, step: int = 1) -> te.Tensor:
    return te.compute((4, 8), lambda i, c: narrow(t[i, c * step + begin], 7), name=f"y{n}")


@pytest.mark.parametrize(("reads", "steps", "turns"), [
    ((0, 1, 2), (3, 3, 3), [3]), ((0, 2), (3, 3), [3]), ((1, 1), (3, 3), []), ((0, 1), (3, 2), []), ((0, 1), (1, 1), []),
    ((0, 1), (2, 2), [2]), ((0, 4), (2, 2), [])])
def test_what_is_read_by_turns(reads: tuple[int, ...], steps: tuple[int, ...], turns: list[int]) -> None:
    w, r = te.placeholder((16, 24), "int8", name="w"), te.reduce_axis((0, 16), name="r")
    x = te.placeholder((4, 16), "int8", name="x")
    t = te.compute((4, 24), lambda i, c: te.sum(x[i, r].astype("int32") * w[r, c].astype("int32"), axis=r), name="t")
    results = [_reads(t, begin, n, step) for n, (begin, step) in enumerate(zip(reads, steps))]
    found = list(ranges.by_turns(te.create_prim_func([x, w, *results])))
    assert [(place[0].name, place[1], size) for place, size in found] == [("t", 1, size) for size in turns]
