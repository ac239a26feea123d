"""Images that are made larger: an element that stands at several places is read once for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.measure import Candidate, measure
from autosched.target import get_target
from autosched.workloads import of_func
from space import Space
from space.normalise import REPEATED, normalise
from space.normalise.blocks import is_packed

DE10 = get_target("vta-de10")


def larger(c: int, h: int, w: int, by: tuple[int, int], value: str = "plain") -> PrimFunc:
    """An image of (c, h, w), each element at several places next to each other."""
    x = te.placeholder((c, h, w), "int8", name="x")
    up, right = by

    def at(c, i, j):
        if value == "remainder":
            return x[c, i // up, j % w]
        found = x[c, i // up, j // right]
        return te.max(found, te.const(0, "int8")) if value == "relu" else found

    return te.create_prim_func([x, te.compute((c, h * up, w * right), at, name="y")])


@pytest.mark.parametrize(("c", "h", "w", "by", "value"), [
    (16, 6, 6, (2, 2), "plain"), (24, 5, 3, (2, 3), "plain"), (32, 4, 7, (1, 2), "plain"), (16, 3, 5, (4, 1), "plain"),
    (24, 5, 3, (2, 3), "relu"),
])
def test_what_repeats_is_read_once(c: int, h: int, w: int, by: tuple[int, int], value: str) -> None:
    func = larger(c, h, w, by, value)
    new, steps = normalise(func, DE10, repeated=True)
    assert steps and is_packed(split_host(new).device, DE10)
    inputs = random_inputs(func, 2)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    shapes = {b.name: [int(e.value) for e in b.shape] for b in split_host(new).device.buffers}
    places = [n for size, times in ((h, by[0]), (w, by[1])) for n in ((size, times) if times > 1 else (size,))]
    assert shapes["y_global"] == [-(-c // 16), *places, 1, 16]


def test_the_form_stands_behind_the_other_and_loads_less() -> None:
    func = larger(16, 6, 6, (2, 2))
    task, space = of_func(func), Space(func, DE10)
    assert [s.done for s in space.sketches] == [(), (REPEATED,)]
    best: dict[bool, int] = {}
    points = space.sample(np.random.default_rng(0), 200)
    once = [bool(space.meaning(p[None])[0].done) for p in points]
    for kind in (False, True):
        mine = sorted((p for p, of in zip(points, once) if of is kind), key=lambda p: float(space.draft(p[None])[0]))[:4]
        results = [measure(Candidate(task, DE10, tuple(space.trace(p).as_json())), execute=True) for p in mine]
        assert all(r.ok and r.cycles is not None and r.cycles >= space.machine_bound() for r in results)
        best[kind] = min(r.cycles for r in results if r.cycles is not None)
    assert 3 * best[True] < 2 * best[False]


@pytest.mark.parametrize(("value", "by"), [("plain", (1, 1)), ("remainder", (1, 2))])
def test_where_nothing_repeats_side_by_side_there_is_no_such_form(value: str, by: tuple[int, int]) -> None:
    func = larger(16, 6, 6, by, value)
    assert normalise(func, DE10, repeated=True) == (func, ())
