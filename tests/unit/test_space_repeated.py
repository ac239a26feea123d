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
from space.machine_bound import machine_bound
from space.normalise import FILLED, REPEATED, Wanted, normalise
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
    new, steps = normalise(func, DE10, Wanted(repeated=True))
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
    assert normalise(func, DE10, Wanted(repeated=True)) == (func, ())


def windowed(
    by: tuple[int, int], k: int = 3, pad: int = 1, size: tuple[int, int] = (4, 5), ci: int = 32, co: int = 16, step: int = 1
) -> PrimFunc:
    """A convolution of an image that is made larger first, with zeros around it."""
    h, w = (n * times for n, times in zip(size, by))
    x, weights = te.placeholder((ci, *size), "int8", name="x"), te.placeholder((co, ci, k, k), "int8", name="w")
    c, i, j = te.reduce_axis((0, ci), name="c"), te.reduce_axis((0, k), name="i"), te.reduce_axis((0, k), name="j")

    def at(n, y, z):
        inside = te.all(y >= pad, y < h + pad, z >= pad, z < w + pad)
        found = x[n, (y - pad) // by[0], (z - pad) // by[1]]
        return te.if_then_else(inside, found, te.const(0, "int8")) if pad else found

    u = te.compute((ci, h + 2 * pad, w + 2 * pad), at, name="u")
    rows, columns = (h + 2 * pad - k) // step + 1, (w + 2 * pad - k) // step + 1
    s = te.compute((co, rows, columns), lambda o, y, z: te.sum(
        u[c, y * step + i, z * step + j].astype("int32") * weights[o, c, i, j].astype("int32"), axis=[c, i, j]), name="s")
    out = te.compute(s.shape, lambda *n: te.min(te.max(s(*n) >> 6, -128), 127).astype("int8"), name="out")
    return te.create_prim_func([x, weights, out])


@pytest.mark.parametrize(("by", "k", "pad", "shape"), [
    ((2, 2), 3, 1, [1, 4, 2, 5, 2]), ((1, 2), 3, 1, [1, 4, 5, 2]), ((2, 1), 3, 1, [1, 4, 2, 5]),
    ((3, 2), 3, 1, [1, 4, 3, 5, 2]), ((2, 2), 3, 0, [1, 3, 2, 4, 2]), ((2, 2), 1, 0, [1, 4, 2, 5, 2]),
    ((3, 2), 3, 0, [1, 10, 4, 2]),  # boundary: ten rows are no whole number of threes
    ((2, 2), 2, 0, [1, 7, 9]),  # boundary: neither are seven and nine of twos
    ((1, 1), 3, 1, []),
])
def test_windows_on_what_repeats_begin_at_each_of_its_places(by: tuple[int, int], k: int, pad: int, shape: list[int]) -> None:
    func = windowed(by, k, pad)
    new, steps = normalise(func, DE10, Wanted(repeated=True))
    assert bool(steps) == bool(shape)
    if not shape:
        return
    (stored,) = (b for b in split_host(new).device.buffers if b.name == "out_global")
    assert [int(e.value) for e in stored.shape] == [*shape, 1, 16]
    inputs = random_inputs(func, 2)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)


def test_windows_that_move_on_by_whole_elements_begin_at_one_place() -> None:
    assert normalise(windowed((2, 2), 3, 1, step=2), DE10, Wanted(repeated=True))[1] == ()


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_points_of_such_windows_need_fewer_cycles(target: str) -> None:
    func = windowed((2, 2), size=(6, 7), co=32)
    task, space = of_func(func), Space(func, target)
    bounds = {machine_bound(sketch.models).cycles for sketch in space.sketches if FILLED not in sketch.done}
    assert len(bounds) == 1, "the same sums in other places"
    points = space.sample(np.random.default_rng(0), 400)
    points = points[[FILLED not in space.meaning(p[None])[0].done for p in points]]
    cycles: dict[bool, list[int]] = {False: [], True: []}
    for form in (False, True):
        mine = points[[(REPEATED in space.meaning(p[None])[0].done) is form for p in points]]
        lowest = mine[np.argsort(space.draft(mine), kind="stable")[:4]]
        for point in lowest:
            result = measure(Candidate(task, space.target, tuple(space.trace(point).as_json())), execute=True)
            assert result.ok and result.cycles is not None and result.cycles >= space.machine_bound()
            cycles[form].append(result.cycles)
    assert min(cycles[True]) < 0.9 * min(cycles[False])
    (first,) = points[np.argsort(space.draft(points), kind="stable")[:1]]
    assert REPEATED in space.meaning(first[None])[0].done, "estimates know"


def test_windows_on_a_padded_copy_begin_at_each_place_as_well() -> None:
    """An image made larger, and zeros around it, are two stages as users write them; one that moves on by two has no places."""
    def apart(shift: int) -> PrimFunc:
        x, w = te.placeholder((1, 16, 4, 5), "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
        u = te.compute((1, 16, 8, 10), lambda b, c, i, j: x[b, c, i // 2, j // 2], name="u")
        p = te.compute((1, 16, 10, 12), lambda b, c, i, j: te.if_then_else(
            te.all(i >= 1, i < 9, j >= 1, j < 11), u[b, c, (i - 1) * shift % 8, j - 1], te.const(0, "int8")), name="p")
        c, i, j = te.reduce_axis((0, 16), name="c"), te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="j")
        s = te.compute((1, 16, 8, 10), lambda b, o, y, z: te.sum(
            p[b, c, y + i, z + j].astype("int32") * w[o, c, i, j].astype("int32"), axis=[c, i, j]), name="s")
        out = te.compute(s.shape, lambda *n: te.min(te.max(s(*n) >> 6, -128), 127).astype("int8"), name="out")
        return te.create_prim_func([x, w, out])

    func = apart(1)
    new, _ = normalise(func, DE10, Wanted(repeated=True))
    (stored,) = (b for b in split_host(new).device.buffers if b.name == "out_global")
    assert [int(e.value) for e in stored.shape] == [1, 1, 4, 2, 5, 2, 1, 16]
    inputs = random_inputs(func, 2)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    other, _ = normalise(apart(3), DE10, Wanted(repeated=True))
    shapes = [[int(e.value) for e in b.shape] for b in split_host(other).device.buffers if b.name == "out_global"]
    assert all(shape[2:4] != [4, 2] for shape in shapes), "along rows that lie elsewhere there are no places"


@pytest.mark.filterwarnings("ignore:double_buffer")
def test_points_of_large_images_fit_and_are_estimated_well() -> None:
    """What a tile loads are elements, of which each stands at several indices; half of these points did not fit the memory."""
    func = windowed((3, 3), size=(20, 20), ci=96)
    space = Space(func, DE10)
    points = space.sample(np.random.default_rng(2), 120)
    once = np.array([REPEATED in space.meaning(q[None])[0].done for q in points])
    points = points[once & (points[:, space.names.index("drop_zeros")] == 1)][:14]
    results = [measure(Candidate(func, DE10, tuple(space.trace(q).as_json())), check=False) for q in points]
    assert all(r.ok for r in results), [r.reason for r in results if not r.ok]
    ratio = space.draft(points) / [r.cycles or 0 for r in results]
    assert len(points) == 14 and ratio.min() > 0.7 and ratio.max() < 1.2 and abs(np.median(ratio) - 1) < 0.03, ratio


@pytest.mark.filterwarnings("ignore:double_buffer")
def test_the_bound_counts_elements_and_no_places() -> None:
    func = windowed((3, 3), size=(4, 4), ci=32)
    space = Space(func, DE10)
    points = space.sample(np.random.default_rng(3), 400)
    points = points[[REPEATED in space.meaning(q[None])[0].done and "cut" not in space.explain(q) for q in points]][:40]
    cycles = [measure(Candidate(func, DE10, tuple(space.trace(q).as_json())), check=False).cycles or 0 for q in points]
    assert len(points) == 40 and (space.bound(points) <= cycles).all()


@pytest.mark.filterwarnings("ignore:double_buffer")
@pytest.mark.parametrize(("by", "k", "pad", "size"), [((2, 2), 3, 1, (9, 9)), ((3, 3), 3, 1, (7, 7))])
def test_every_point_is_seen_to_write_what_it_reads(by: tuple[int, int], k: int, pad: int, size: tuple[int, int]) -> None:
    """Where parts begin anywhere and zeros are left out, ends of what is loaded are quotients; a fifth of these was refused."""
    func = windowed(by, k, pad, size, ci=32, co=32)
    space = Space(func, DE10)
    points = space.sample(np.random.default_rng(1), 200)
    once = np.array([REPEATED in space.meaning(q[None])[0].done for q in points])
    points = points[once & (points[:, space.names.index("drop_zeros")] == 1)]
    odd = [q for q in points if "cut" in space.explain(q)][:10]
    assert len(odd) == 10
    for n, point in enumerate(odd):
        result = measure(Candidate(func, DE10, tuple(space.trace(point).as_json())), execute=n < 2, wide=True)
        assert result.ok, (space.explain(point), result.reason)


def test_places_of_an_element_are_transfers_of_their_own() -> None:
    """A load that brings padding as well brings an enlarged image element by element; the estimate was a fifth of the cycles."""
    x, w = te.placeholder((7, 7, 24), "int8", name="x"), te.placeholder((8, 24, 3, 3), "int8", name="w")
    y = te.compute((14, 14, 24), lambda i, j, c: x[i // 2, j // 2, c], name="y")
    p = te.compute((16, 16, 24), lambda i, j, c: te.if_then_else(
        te.all(i >= 1, i < 15, j >= 1, j < 15), y[i - 1, j - 1, c], te.const(0, "int8")), name="p")
    c, u, v = (te.reduce_axis((0, n), name=name) for n, name in ((24, "c"), (3, "u"), (3, "v")))
    s = te.compute((7, 7, 8), lambda i, j, q: te.sum(
        p[i * 2 + u, j * 2 + v, c].astype("int32") * w[q, c, u, v].astype("int32"), axis=[c, u, v]), name="s")
    z = te.compute((7, 7, 8), lambda *i: te.min(te.max(s(*i) >> 6, 0), 127).astype("int8"), name="z")
    func = te.create_prim_func([x, w, z])
    space = Space(func, DE10)
    points = space.sample(np.random.default_rng(0), 160)
    kind = np.array([REPEATED in space.meaning(q[None])[0].done for q in points])
    points = points[kind & (points[:, space.names.index("drop_zeros")] == 0)][:24]
    cycles = [measure(Candidate(func, space.target, tuple(space.trace(q).as_json()))).cycles or 0 for q in points]
    ratio = np.array(cycles) / space.draft(points)
    assert len(points) == 24 and ratio.max() < 1.2 and 0.7 < np.median(ratio) < 1.05, ratio
