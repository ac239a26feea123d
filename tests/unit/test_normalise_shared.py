"""Heads of queries that share keys and values (grouped-query attention), made by the program itself, in every layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spaces import computes, formed
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, digits, normalise
from space.normalise.blocks import device_blocks, store_of

DE10 = "vta-de10"
SHARED = Wanted(digits=True, shared=True)
ROWS, DEEP = 9, 16

At = Callable[..., object]  # an element of keys or values, by (head of queries, row, channel)


def narrow(e, shift: int, low: int = -128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def product(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
    """By rows of the weight, which may have an axis of heads in front."""
    r = te.reduce_axis((0, x.shape[1]), name=f"r_{name}")
    shape = (*w.shape[:-2], ROWS, w.shape[-2])
    return te.compute(shape, lambda *i: te.sum(
        x[i[-2], r].astype("int32") * w(*i[:-2], i[-1], r).astype("int32"), axis=r), name=name)


def attention(layout: str = "side by side", heads: int = 4, group: int = 2, deep: int = DEEP, by: str = "//",
              whole: bool = False) -> PrimFunc:
    """Attention of heads, of which every ``group`` share what they read.

    Args:
        layout: how keys and values lie, and who repeats them.
        heads: of queries.
        group: how many share keys.
        deep: channels of a head.
        by: whether those do that stand side by side, or (``%``) by turns.
        whole: with a projection of the heads, and a residual.
    """
    few, wide = heads // group, heads * deep
    x = te.placeholder((ROWS, wide), "int8", name="x")
    given = [x]

    def of(h):
        return h // group if by == "//" else h % few

    def made(name: str, *shape: int) -> te.Tensor:
        given.append(te.placeholder((*shape, wide), "int8", name=f"w{name}"))
        s = product(x, given[-1], f"{name}s")
        return te.compute(s.shape, lambda *i: narrow(s(*i), 8), name=name)

    def shared(name: str) -> At:
        if layout == "an axis":
            t = made(name, few, deep)
            return lambda h, j, e: t[of(h), j, e]
        t = made(name, few * deep)
        if layout == "side by side":
            return lambda h, j, e: t[j, of(h) * deep + e]
        if layout == "repeated by heads":
            again = te.compute((heads, ROWS, deep), lambda h, j, e: t[j, of(h) * deep + e], name=f"{name}_again")
            return lambda h, j, e: again[h, j, e]
        flat = te.compute((ROWS, wide), lambda j, c: t[j, c // (group * deep) * deep + c % deep], name=f"{name}_again")
        return lambda h, j, e: flat[j, h * deep + e]

    if layout == "one tensor":
        t = made("qkv", wide + 2 * few * deep)
        q, k, v = (lambda h, i, e: t[i, h * deep + e], lambda h, j, e: t[j, wide + of(h) * deep + e],
                   lambda h, j, e: t[j, wide + (few + of(h)) * deep + e])
    else:
        own = made("q", heads, deep) if layout == "an axis" else made("q", wide)
        q = (lambda h, i, e: own[h, i, e]) if layout == "an axis" else (lambda h, i, e: own[i, h * deep + e])
        k, v = shared("k"), shared("v")
    d, u = te.reduce_axis((0, deep), name="d"), te.reduce_axis((0, ROWS), name="u")
    s = te.compute((heads, ROWS, ROWS), lambda h, i, j: te.sum(
        q(h, i, d).astype("int32") * k(h, j, d).astype("int32"), axis=d), name="s")
    p = te.compute(s.shape, lambda *i: narrow(s(*i), 7, 0), name="p")
    o = te.compute((heads, ROWS, deep), lambda h, i, e: te.sum(
        p[h, i, u].astype("int32") * v(h, u, e).astype("int32"), axis=u), name="o")
    a = te.compute((ROWS, wide), lambda i, c: narrow(o[c // deep, i, c % deep], 7), name="a")
    if not whole:
        return te.create_prim_func([*given, a])
    given.append(te.placeholder((wide, wide), "int8", name="wo"))
    y = product(a, given[-1], "y")
    z = te.compute(y.shape, lambda i, j: te.max(te.min((y[i, j] >> 9) + x[i, j].astype("int32"), 127), -128).astype("int8"),
                   name="z")
    return te.create_prim_func([*given, z])


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "side by side": attention, "an axis": lambda: attention("an axis"), "one tensor": lambda: attention("one tensor"),
    "repeated by heads": lambda: attention("repeated by heads"), "repeated flat": lambda: attention("repeated flat"),
    "by turns": lambda: attention(by="%"), "of eight": lambda: attention(heads=6, group=3, deep=8),
    "one key": lambda: attention(heads=4, group=4),
    "whole": lambda: attention(whole=True),
}
EACH = ("side by side", "one tensor", "repeated by heads", "repeated flat", "by turns", "one key")


@pytest.mark.parametrize("name", EACH)
def test_heads_that_share_keys_are_two_axes(name: str) -> None:
    func = PROGRAMS[name]()
    made = {store_of(b).buffer.name for b in device_blocks(formed(func, DE10, SHARED))}
    assert not {n for n in made if "again" in n}  # what only repeats is no tensor


@pytest.mark.parametrize(("name", "target"), in_turn(("whole", "an axis", "of eight")))
def test_they_have_schedules_on_every_machine(name: str, target: str) -> None:
    computes(PROGRAMS[name](), target, 1, SHARED)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_their_spaces_find_that_form(name: str) -> None:
    computes(PROGRAMS[name](), DE10, 2)


def scores(heads: int, group: int) -> PrimFunc:
    """Of heads of which the last ones may be fewer than share keys."""
    few = -(-heads // group)
    x = te.placeholder((ROWS, 32), "int8", name="x")
    wq, wk = te.placeholder((heads * DEEP, 32), "int8", name="wq"), te.placeholder((few * DEEP, 32), "int8", name="wk")
    q, k = (te.compute(t.shape, lambda *i, t=t: narrow(t(*i), 8), name=n)
            for n, t in (("q", product(x, wq, "qs")), ("k", product(x, wk, "ks"))))
    d = te.reduce_axis((0, DEEP), name="d")
    s = te.compute((heads, ROWS, ROWS), lambda h, i, j: te.sum(
        q[i, h * DEEP + d].astype("int32") * k[j, h // group * DEEP + d].astype("int32"), axis=d), name="s")
    return te.create_prim_func([x, wq, wk, te.compute(s.shape, lambda *i: narrow(s(*i), 7), name="z")])


@pytest.mark.parametrize(("heads", "group", "fit"), [(4, 2, True), (6, 3, True), (6, 2, True), (3, 2, False), (6, 4, False)])
def test_all_keys_have_as_many_heads(heads: int, group: int, fit: bool) -> None:
    """The twin: three heads of which two share keys are no two axes."""
    found = digits.apart(Schedule(scores(heads, group), seed=0), get_target(DE10), shared=True)
    assert (found is not None) == fit


@pytest.mark.slow
def test_fewer_heads_at_the_end_are_refused() -> None:
    with pytest.raises(SpaceError, match="multiplies q by k, and the program makes both"):
        Space(scores(3, 2), DE10)


def test_heads_that_share_nothing_have_no_such_form() -> None:
    func, target = attention(group=1), get_target(DE10)
    assert normalise(func, target, SHARED) == (func, ())
    assert digits.apart(Schedule(func, seed=0), target) is not None
