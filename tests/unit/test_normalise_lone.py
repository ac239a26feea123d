"""Extrema that a stage joins with something else: int8 ones are stored in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused
from spaces import computes
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.expr import Expr
from autosched.ir.stmt import PrimFunc
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, lone, normalise

N, C = 20, 16


def reduced(x: te.Tensor, kind: Callable[..., te.Tensor], name: str) -> te.Tensor:
    """Of all elements of each column."""
    k = te.reduce_axis((0, N), name=f"k{name}")
    return te.compute((C,), lambda c: kind(x[k, c].astype("int32"), axis=k), name=name)


def joined(*kinds: Callable[..., te.Tensor], dtype: str = "int8") -> PrimFunc:
    """What is made of the elements of each column, added up where there are two."""
    x = te.placeholder((N, C), dtype, name="x")
    made = [reduced(x, kind, f"m{n}") for n, kind in enumerate(kinds)]
    return te.create_prim_func([x, te.compute((C,), lambda c: te.max(te.min(
        (made[0][c] + (made[1][c] if len(made) > 1 else 3)) >> 1, 127), -128).astype("int8"), name="y")])


@pytest.mark.parametrize(("one", "other", "target"), in_turn((("max", "min"), ("min", "max"), ("max", "max"))))
def test_two_extrema_are_joined(one: str, other: str, target: str) -> None:
    func = joined(getattr(te, one), getattr(te, other))
    assert lone.joins(func)
    computes(func, target, 1)


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_a_sum_and_an_extremum_are_joined(target: str) -> None:
    x, k, n = te.placeholder((C, N), "int8", name="x"), te.reduce_axis((0, N), name="k"), te.reduce_axis((0, N), name="n")
    s = te.compute((C,), lambda c: te.sum(x[c, k].astype("int32"), axis=k), name="s")
    m = te.compute((C,), lambda c: te.max(x[c, n], axis=n), name="m")
    computes(te.create_prim_func([x, te.compute((C,), lambda c: (
        (s[c] >> 5) + m[c].astype("int32") >> 1).astype("int8"), name="y")]), target, 1)


BESIDE: dict[str, Callable[..., Expr]] = {
    "their difference": lambda x, m: x - m, "where they are equal": lambda x, m: te.Select(te.equal(x, m), 1, 0),
}


@pytest.mark.parametrize(("what", "target"), in_turn(BESIDE))
def test_an_extremum_stands_beside_an_element_that_is_given(what: str, target: str) -> None:
    """As where all but the largest of neighbours are left out: an element of int8 comes into the accumulator by a product."""
    x, k = te.placeholder((C, N + 2), "int8", name="x"), te.reduce_axis((0, 3), name="k")
    m = te.compute((C, N), lambda i, j: te.max(x[i, j + k], axis=k), name="m")
    func = te.create_prim_func([x, te.compute((C, N), lambda i, j: (BESIDE[what](
        x[i, j + 1].astype("int32"), m[i, j].astype("int32")) >> 1 << 1).astype("int8"), name="y")])
    assert lone.joins(func)
    computes(func, target, 1, Wanted(lone=True))


def test_an_extremum_beside_an_int32_that_is_given_stays() -> None:
    """The twin: a load brings that into the accumulator."""
    x, b, k = te.placeholder((N, C), "int8", name="x"), te.placeholder((C,), "int32", name="b"), te.reduce_axis((0, N), name="k")
    m = te.compute((C,), lambda c: te.max(x[k, c].astype("int32"), axis=k), name="m")
    func = te.create_prim_func([x, b, te.compute((C,), lambda c: ((m[c] + b[c]) >> 1).astype("int8"), name="y")])
    assert not lone.joins(func)
    computes(func, "vta-de10", 1)


def test_what_int8_may_not_hold_is_stored_nowhere() -> None:
    func = joined(te.max, te.min, dtype="int32")
    with refused(SpaceError, "join") as caught:
        Space(func, "vta-de10")
    assert "let what it makes be a result of the program, as int8" in str(caught.value)


def test_an_extremum_alone_stays() -> None:
    func = joined(te.max)
    assert not lone.joins(func)
    assert normalise(func, get_target("vta-de10"), Wanted(lone=True)) == (func, ())
