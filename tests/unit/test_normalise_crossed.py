"""Sums of products along rows, as of norms: a product of rows with each other makes them, and a comparison picks those wanted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import formed
from turns import MACHINES, in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.kernel import of_schedule
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.nest import analyse
from space.normalise import CROSSED, EVERYWHERE, FUSED, Wanted, crossed, normal_forms, normalised
from space.normalise.blocks import device_blocks

DE10 = "vta-de10"
ALL = Wanted(crossed=True, fused=True)


def narrow(e, low=-128):
    return te.max(te.min(e, 127), low).astype("int8")


def energy(rows: int, size: int, other: str = "itself", images: int = 0, result: str = "alone") -> PrimFunc:
    """Sums of products along rows.

    Args:
        rows: of them.
        size: elements of a row.
        other: what each is multiplied by: ``itself``, what is given, or what a product makes (``made``: both, ``half``: one).
        images: of so many rows each; 0 for no such axis.
        result: whether the sum is the result alone, or scales each row (``scaled``).
    """
    front = (images,) if images else ()
    x = te.placeholder((*front, rows, size), "int8", name="x")
    given, a, b = [x], x, x
    k, r = te.reduce_axis((0, size), name="k"), te.reduce_axis((0, size), name="r")
    if other in ("made", "half"):
        w = te.placeholder((size, size), "int8", name="w")
        p = te.compute(x.shape, lambda *i: te.sum(
            x[(*i[:-1], r)].astype("int32") * w[i[-1], r].astype("int32"), axis=r), name="p")
        a = te.compute(x.shape, lambda *i: narrow(p[i] >> 6), name="a")
        b, given = (a if other == "made" else x), [x, w]
    if other == "given":
        b = te.placeholder(x.shape, "int8", name="y")
        given = [x, b]
    e = te.compute((*front, rows), lambda *i: te.sum(a[(*i, k)].astype("int32") * b[(*i, k)].astype("int32"), axis=k), name="e")
    s = te.compute(e.shape, lambda *i: narrow(e[i] >> 10), name="s")
    if result == "alone":
        return te.create_prim_func([*given, s])
    return te.create_prim_func([*given, te.compute(x.shape, lambda *i: (
        (a[i].astype("int32") * s[i[:-1]].astype("int32")) >> 7).astype("int8"), name="n")])


CASES = (
    {"rows": 16, "size": 32}, {"rows": 32, "size": 16, "other": "given"}, {"rows": 20, "size": 24, "other": "made"},
    {"rows": 48, "size": 32, "other": "half"}, {"rows": 5, "size": 40}, {"rows": 16, "size": 32, "images": 3, "other": "given"},
)


@pytest.mark.parametrize(("case", "target"), in_turn([(case,) for case in CASES]))
def test_sums_along_rows_are_picked_from_a_product(case: dict[str, object], target: str) -> None:
    func = energy(**case)  # type: ignore[arg-type]
    formed(func, target, ALL)
    right(func, target, CROSSED)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 40), st.integers(2, 40), st.sampled_from(["itself", "given", "made", "half"]), st.integers(0, 2),
       st.sampled_from(MACHINES))
def test_any_sums_along_rows_are_picked(rows: int, size: int, other: str, images: int, target: str) -> None:
    func = energy(rows, size, other, images)
    made = crossed.apart(Schedule(func, seed=0), get_target(target))
    assert made is not None
    for seed in (0, 1):
        assert all(map(np.array_equal, run(made.func, *random_inputs(func, seed)), run(func, *random_inputs(func, seed))))


def test_no_factor_is_a_diagonal_then() -> None:
    forms = dict(normal_forms(energy(16, 32, "made"), get_target(DE10)))
    assert (CROSSED,) in forms
    assert any(i.op == "diagonal_by_gemm" for i in forms[()].trace.insts)
    assert not any(i.op in ("diagonalize", "diagonal_by_gemm") for i in forms[(CROSSED,)].trace.insts)


def test_what_others_want_with_rows_as_lanes_is_made_besides(user_programs) -> None:
    func = user_programs.program("row_statistics")
    forms = dict(normal_forms(func, get_target(DE10)))
    assert (CROSSED, EVERYWHERE) in forms
    formed(func, DE10, ALL._replace(everywhere=True))
    right(func, DE10, EVERYWHERE, 1)


def right(func: PrimFunc, target: str, done: str, points: int = 2) -> None:
    """Points of a form of a program give the interpreter's bytes.

    Args:
        func: the program.
        target: the machine's name.
        done: what the form has.
        points: of it.
    """
    space = Space(func, target)
    drawn = space.sample(np.random.default_rng(0), 200)
    mine = [p for p in drawn if done in space.sketches[int(p[0])].done][:points]
    assert mine
    for point in mine:
        kernel = of_schedule(func, get_target(target), space.schedule(point))
        for seed in range(2):
            inputs = random_inputs(func, seed)
            assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])


def matrix(n: int) -> PrimFunc:
    """The product of a matrix with another one."""
    a, b = te.placeholder((n, n), "int8", name="a"), te.placeholder((n, n), "int8", name="b")
    k = te.reduce_axis((0, n), name="k")
    s = te.compute((n, n), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name="s")
    return te.create_prim_func([a, b, te.compute(s.shape, lambda i, j: narrow(s[i, j] >> 8), name="y")])


@pytest.mark.parametrize("func", [matrix(16), energy(67, 16), energy(16, 1)], ids=["matrix", "rows", "elements"])
def test_what_is_no_sum_along_rows_stays(func: PrimFunc) -> None:
    assert not crossed.applies(func, get_target(DE10))
    assert crossed.apart(Schedule(func, seed=0), get_target(DE10)) is None


def pooled(by: str) -> PrimFunc:
    """A product to which a number is added for each ``channel``, ``place``, or place of a ``window``, and a pool."""
    x, w = te.placeholder((4, 4, 16), "int8", name="x"), te.placeholder((16, 16), "int8", name="w")
    b = te.placeholder({"channel": (16,), "place": (4, 4, 16), "window": (4, 16)}[by], "int32", name="b")
    k, q = te.reduce_axis((0, 16), name="k"), te.reduce_axis((0, 4), name="q")
    s = te.compute((4, 4, 16), lambda i, j, c: te.sum(x[i, j, k].astype("int32") * w[c, k].astype("int32"), axis=k), name="s")
    at = {"channel": lambda i, j, c: b[c], "place": lambda i, j, c: b[i, j, c], "window": lambda i, j, c: b[j, c]}[by]
    t = te.compute(s.shape, lambda i, j, c: s[i, j, c] + at(i, j, c), name="t")
    if by == "place":
        m = te.compute((2, 4, 16), lambda i, j, c: te.max(t[2 * i + q // 2, j, c], axis=q), name="m")
    else:
        m = te.compute((4, 16), lambda i, c: te.max(t[i, q, c], axis=q), name="m")
    return te.create_prim_func([x, w, b, te.compute(m.shape, lambda *i: narrow(m[i] >> 4), name="y")])


@pytest.mark.parametrize("by", ["channel", "window"])
def test_what_is_added_may_differ_along_a_window_that_no_tile_moves(by: str) -> None:
    func = pooled(by)
    form = normalised(func, get_target(DE10), Wanted(fused=True)).func
    nests = analyse(split_host(form).device, get_target(DE10), True)
    (added,) = [o for nest in nests for o in nest.operands if o.scope == "local.acc_buffer"]
    assert [max(reach) for reach in added.within] == ([] if by == "channel" else [3, 0])
    right(func, DE10, FUSED)


def test_what_is_added_does_not_differ_where_tiles_move_it() -> None:
    form = normalised(pooled("place"), get_target(DE10), Wanted(fused=True)).func
    assert len(device_blocks(form)) > 1
    with pytest.raises(SpaceError, match="no int32 parameter that is the same"):
        analyse(split_host(form).device, get_target(DE10), True)
