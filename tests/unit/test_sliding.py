"""Windows that slide along with what multiplies them: attention to neighbours, costs of disparities."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from turns import in_turn

from autosched import te
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.kernel import of_schedule
from autosched.target import get_target
from space import Space
from space.normalise import SLIDING, Wanted, normalised, sliding

DE10 = "vta-de10"


def wide(e):
    return e.astype("int32")


def narrow(s: te.Tensor, shift: int, name: str, low: int = -128) -> te.Tensor:
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def scores(q: te.Tensor, k: te.Tensor, window: int, step: int = 1) -> te.Tensor:
    """What rows and those of the window at each of them have in common."""
    d = te.reduce_axis((0, q.shape[1]), name="d")
    return te.compute((q.shape[0], window), lambda i, w: te.sum(wide(q[i, d]) * wide(k[i * step + w, d]), axis=d), name="s")


def attention(rows: int, window: int, step: int, deep: int) -> PrimFunc:
    """Of every row to those of a window."""
    q = te.placeholder((rows, deep), "int8", name="q")
    k, v = (te.placeholder(((rows - 1) * step + window, deep), "int8", name=name) for name in ("k", "v"))
    p, r = narrow(scores(q, k, window, step), 9, "p", 0), te.reduce_axis((0, window), name="r")
    o = te.compute((rows, deep), lambda i, e: te.sum(wide(p[i, r]) * wide(v[i * step + r, e]), axis=r), name="o")
    return te.create_prim_func([q, k, v, narrow(o, 9, "y")])


def neighbours(rows: int, window: int, step: int = 1, deep: int = 16) -> PrimFunc:
    q = te.placeholder((rows, deep), "int8", name="q")
    k = te.placeholder(((rows - 1) * step + window, deep), "int8", name="k")
    return te.create_prim_func([q, k, narrow(scores(q, k, window, step), 9, "y")])


def centred(rows: int, around: int, deep: int) -> PrimFunc:
    """Windows around every row, with zeros in front of the first one and behind the last."""
    q, k = (te.placeholder((rows, deep), "int8", name=name) for name in ("q", "k"))
    padded = te.compute((rows + 2 * around, deep), lambda i, d: te.if_then_else(
        te.all(i >= around, i < rows + around), k[i - around, d], te.const(0, "int8")), name="padded")
    return te.create_prim_func([q, k, narrow(scores(q, padded, 2 * around + 1), 9, "y")])


def disparities(made: bool) -> PrimFunc:
    """What two images have in common, the one pushed aside more and more; ``made`` where a layer makes that one."""
    left = te.placeholder((3, 12, 16), "int8", name="left")
    right = te.placeholder((3, 27, 16), "int8", name="right")
    given, other = [left, right], right
    if made:
        w, r = te.placeholder((16, 16), "int8", name="w"), te.reduce_axis((0, 16), name="r")
        total = te.compute(right.shape, lambda y, x, o: te.sum(wide(right[y, x, r]) * wide(w[o, r]), axis=r), name="total")
        other = narrow(total, 9, "other")
        given.append(w)
    c = te.reduce_axis((0, 16), name="c")
    cost = te.compute((3, 12, 16), lambda y, x, d: te.sum(wide(left[y, x, c]) * wide(other[y, x + d, c]), axis=c), name="cost")
    return te.create_prim_func([*given, narrow(cost, 9, "out")])


def convolution() -> PrimFunc:
    x, w = te.placeholder((20, 16), "int8", name="x"), te.placeholder((16, 5, 16), "int8", name="w")
    t, c = te.reduce_axis((0, 5), name="t"), te.reduce_axis((0, 16), name="c")
    total = te.compute((16, 16), lambda i, o: te.sum(wide(x[i + t, c]) * wide(w[o, t, c]), axis=[t, c]), name="total")
    return te.create_prim_func([x, w, narrow(total, 9, "y")])


def slides(space: Space) -> list[bool]:
    """Of every sketch, whether the host lays out its windows."""
    return [SLIDING in s.done for s in space.sketches]


CASES = {
    "whole": partial(attention, 16, 16, 1, 32), "ragged": partial(attention, 20, 13, 1, 16),
    "apart": partial(attention, 9, 18, 2, 24), "short": partial(attention, 7, 5, 3, 16),
    "images": partial(disparities, False), "far": partial(neighbours, 33, 16, 15), "centred": partial(centred, 18, 8, 16),
}


@pytest.mark.parametrize(("case", "target"), in_turn(CASES))
def test_points_give_what_the_interpreter_does(case: str, target: str) -> None:
    func = CASES[case]()
    space = Space(func, target)
    own = slides(space)
    assert own == [False] * (len(own) - 1) + [True], "it stands behind what had points before"
    points = space.sample(np.random.default_rng(0), 400)
    drafts, mine = space.draft(points), np.array(own)[points[:, 0]]
    assert drafts[mine].min() < drafts[~mine].min(), "and it is worth it"
    for point in (points[mine][np.argmin(drafts[mine])], points[mine][0]):
        kernel = of_schedule(func, get_target(target), space.schedule(point))
        for seed in range(2):
            inputs = random_inputs(func, seed)
            wanted = run(func, *inputs)[0]
            assert np.array_equal(kernel(*inputs), wanted) and len(np.unique(wanted)) > 20
        assert int(space.bound(point[None])[0]) <= kernel.cycles and space.machine_bound() <= kernel.cycles


@pytest.mark.parametrize(("rows", "step", "whether"), [(12, 7, True), (12, 8, False), (12, 9, False), (1, 7, False)])
def test_windows_that_do_not_overlap_are_no_such(rows: int, step: int, whether: bool) -> None:
    assert sliding.applies(neighbours(rows, 8, step)) == whether


def test_windows_of_the_same_weights_are_no_such() -> None:
    assert not sliding.applies(convolution())


@pytest.mark.parametrize("made", [False, True])
def test_only_what_the_host_has_filled_is_laid_out(made: bool) -> None:
    func = disparities(made)
    assert sliding.applies(func)
    assert bool(normalised(func, get_target(DE10), Wanted(sliding=True)).trace.insts) == (not made)


@pytest.mark.parametrize(("deep", "whether"), [(1, False), (16, True)])
def test_it_is_a_form_where_it_takes_less(deep: int, whether: bool) -> None:
    # Of one channel the plain form has windows laid out by the host already.
    assert slides(Space(neighbours(64, 2, deep=deep), DE10)) == [False] + [True] * whether
