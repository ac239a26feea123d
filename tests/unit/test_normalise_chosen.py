"""What is computed in several ways by place, beside what it is joined for, or read at digits of channels and of finer images."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused
from spaces import computes

from autosched import te
from autosched.errors import SpaceError
from autosched.ir import PrimFunc
from autosched.ir.expr import Expr
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, chosen, normal_forms, normalise
from space.normalise.blocks import device_blocks

TARGETS = ["vta-de10", pytest.param("vta-de10-portable", marks=pytest.mark.slow)]
HALF = 16
CHOSEN, JOINED = Wanted(chosen=True), Wanted(handed=True, loaded=True, chosen=True)
FINER, GROUPED = Wanted(loaded=True, finer=True), Wanted(digits=True, shared=True, grouped=True)


def wide(load: Expr) -> Expr:
    return load.astype("int32")


def narrowed(s: te.Tensor, shift: int, name: str) -> te.Tensor:
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), -128).astype("int8"), name=name)


def product(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
    n, (k, m) = x.shape[0], w.shape
    r = te.reduce_axis((0, k), name="r" + name)
    return te.compute((n, m), lambda i, j: te.sum(wide(x[i, r]) * wide(w[r, j]), axis=r), name=name)


def turned(other: Callable[[te.Tensor, Expr, Expr], Expr], dtype: str = "int32", made: bool = False) -> PrimFunc:
    """A rotary embedding with a block for the other half of each pair."""
    shape = (5, 2 * HALF)
    x, w, c, s = te.placeholder(shape, "int8", name="x"), *(te.placeholder(e, "int8", name=n) for e, n in (
        ((2 * HALF, 2 * HALF), "w"), (shape, "c"), (shape, "s")))
    q = narrowed(product(x, w, "p"), 7, "q") if made else x
    rot = te.compute(shape, lambda i, j: other(q, i, j).astype(dtype), name="rot")
    y = te.compute(shape, lambda i, j: (
        (wide(q[i, j]) * wide(c[i, j]) + wide(rot[i, j]) * wide(s[i, j])) >> 8).astype("int8"), name="y")
    return te.create_prim_func([x, *([w] if made else []), c, s, y])


def halves(x: te.Tensor, i: Expr, j: Expr) -> Expr:
    return te.if_then_else(j < HALF, te.min(0 - wide(x[i, j + HALF]), 127), wide(x[i, j - HALF]))


def in_turns(turns: int) -> Callable[[te.Tensor, Expr, Expr], Expr]:
    """The negative of the next element, where the first one of so many stands, and the one before elsewhere."""
    def other(x: te.Tensor, i: Expr, j: Expr) -> Expr:
        return te.if_then_else(te.equal(j % turns, 0), 0 - wide(x[i, j + 1]), wide(x[i, j - 1]))

    return other


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "made"), [("int8", False), pytest.param("int32", True, marks=pytest.mark.slow)])
def test_halves_of_a_result_are_computed_each_by_itself(dtype: str, made: bool, target: str) -> None:
    computes(turned(halves, dtype, made), target, base=CHOSEN)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("turns", "made"), [(2, True), pytest.param(4, False, marks=pytest.mark.slow)])
def test_elements_of_a_result_that_take_turns_are_computed_each_by_itself(turns: int, made: bool, target: str) -> None:
    computes(turned(in_turns(turns), made=made), target, base=CHOSEN)


@pytest.mark.parametrize("target", TARGETS)
def test_turns_that_do_not_fill_a_row_are_no_parts(target: str) -> None:
    with refused(SpaceError, "choice") as caught:
        Space(turned(in_turns(3), made=True), target)
    assert "block 'rot' chooses by place whether it reads q[..], which is not there for all of its places" in str(caught.value)


@pytest.mark.parametrize(("turns", "parts"), [(8, 8), (16, 1)])  # boundary: a block for each
def test_of_many_turns_no_blocks_are_made(turns: int, parts: int) -> None:
    sch = chosen.apart(Schedule(turned(in_turns(turns)), seed=0), get_target("vta-de10"))
    assert sch is not None and len(device_blocks(sch.func)) == parts


# -- what is joined for a layer and is a part of the result -------------------------------------------------------------


def joined(x: te.Tensor, y: te.Tensor, at: int, shift: int, name: str) -> te.Tensor:
    """One behind the other, the second one shifted."""
    def value(i: Expr, j: Expr) -> Expr:
        return te.if_then_else(j < at, x[i, j], y[i, j - at] >> shift if shift else y[i, j - at])

    return te.compute((3, at + 16), value, name=name)


def grown(layers: int, shift: int = 0) -> PrimFunc:
    """Layers that read the data beside what those before them made, and all of these side by side."""
    x = te.placeholder((3, 16), "int8", name="x")
    weights = [te.placeholder((16 * n, 16), "int8", name=f"w{n}") for n in range(1, layers + 1)]
    every = x
    for n, w in enumerate(weights, 1):
        every = joined(every, narrowed(product(every, w, f"s{n}"), 7, f"y{n}"), 16 * n, shift, f"every{n}")
    return te.create_prim_func([x, *weights, every])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layers", [2, 3])
def test_what_is_joined_for_a_layer_is_a_part_of_the_result(layers: int, target: str) -> None:
    computes(grown(layers), target, base=JOINED)


def test_what_is_joined_and_changed_is_no_part() -> None:
    with refused(SpaceError, "index") as caught:
        Space(grown(3, 1), "vta-de10")
    assert "compute y1 where it is read" in str(caught.value)


# -- what the ALU takes in and a product multiplies ---------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [16, 24])  # 16 is an element by chance, before anything is laid out
def test_the_most_of_each_channel_gates_the_channel(width: int, target: str) -> None:
    x, p = te.placeholder((6, width), "int8", name="x"), te.reduce_axis((0, 6), name="p")
    m = te.compute((width,), lambda c: te.max(x[p, c], axis=p), name="m")
    g = te.compute((width,), lambda c: te.min((wide(m[c]) >> 1) + 63, 127).astype("int8"), name="g")
    y = te.compute(x.shape, lambda i, c: ((wide(x[i, c]) * wide(g[c])) >> 7).astype("int8"), name="y")
    computes(te.create_prim_func([x, y]), target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_layers_make_of_the_most_of_each_channel_gates_the_channels(target: str) -> None:
    x, v, w = (te.placeholder(e, "int8", name=n) for e, n in (((24, 5, 5), "x"), ((24, 8), "v"), ((8, 24), "w")))
    p, q = te.reduce_axis((0, 5), name="p"), te.reduce_axis((0, 5), name="q")
    m = te.compute((1, 24), lambda n, c: te.max(x[c, p, q], axis=[p, q]), name="m")
    g = narrowed(product(narrowed(product(m, v, "s"), 7, "h"), w, "t"), 7, "g")
    y = te.compute(x.shape, lambda c, i, j: ((wide(x[c, i, j]) * wide(g[0, c])) >> 7).astype("int8"), name="y")
    computes(te.create_prim_func([x, v, w, y]), target)


@pytest.mark.parametrize("half", [16, 32])  # boundary: a half that is one element
def test_a_part_of_a_result_may_be_one_element_wide(half: int) -> None:
    x, s = (te.placeholder((3, 2 * half), "int8", name=n) for n in ("x", "s"))
    computes(te.create_prim_func([x, s, te.compute(x.shape, lambda i, j: (te.if_then_else(
        j < half, 0 - wide(x[i, j + half]), wide(x[i, j - half])) * wide(s[i, j]) >> 8).astype("int8"), name="y")]), "vta-de10")


# -- what is read at digits ---------------------------------------------------------------------------------------------


def finer(each: int) -> PrimFunc:
    """An image, and what a layer makes of one that has every ``each``-th row of it, added."""
    x, z, w = (te.placeholder(s, "int8", name=n) for s, n in (((8, 16), "x"), ((8 // each, 16), "z"), ((16, 16), "w")))
    b = narrowed(product(z, w, "s"), 7, "b")
    y = te.compute((8, 16), lambda i, j: (wide(x[i, j]) + wide(b[te.indexdiv(i, each), j]) >> 1).astype("int8"), name="y")
    return te.create_prim_func([x, z, w, y])


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_made_of_a_coarser_image_is_added(target: str) -> None:
    computes(finer(2), target, base=FINER)


def test_what_is_made_of_an_image_as_fine_has_no_such_form() -> None:
    assert not any(sch.trace.insts for _, sch in normal_forms(finer(1), get_target("vta-de10"), FINER))


def grouped(channels: int) -> PrimFunc:
    """Elements less the mean of their group of 6 of 12 channels."""
    x = te.placeholder((12, 3), "int8", name="x")
    c, p = te.reduce_axis((0, 6), name="c"), te.reduce_axis((0, 3), name="p")
    s = te.compute((2,), lambda g: te.sum(wide(x[g * 6 + c, p]), axis=[c, p]), name="s")
    m = te.compute((2,), lambda g: te.max(te.min(s[g] >> 5, 127), -128).astype("int8"), name="m")
    return te.create_prim_func([x, te.compute((channels, 3), lambda k, i: te.max(te.min(
        wide(x[k, i]) - wide(m[k // 6]), 127), -128).astype("int8"), name="y")])


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_known_of_groups_of_channels_is_taken_away(target: str) -> None:
    computes(grouped(12), target, base=GROUPED)


@pytest.mark.parametrize("target", TARGETS)
def test_channels_that_fill_no_group_are_one_axis(target: str) -> None:
    """They are no two of them; what is known of their groups is made for every channel."""
    assert normalise(grouped(12), get_target(target), GROUPED)[1] and not normalise(grouped(11), get_target(target), GROUPED)[1]
    computes(grouped(11), target)
