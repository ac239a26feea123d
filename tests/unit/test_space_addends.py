"""Several addends of one sum: it starts with one that is loaded to where the sum stands, and the others are added behind it."""

from __future__ import annotations

import numpy as np
import pytest
from decided import off, within_bounds

from autosched import te
from autosched.ir import PrimFunc
from autosched.ir.expr import BufferLoad
from autosched.ir.stmt import BufferStore
from space import Space
from space.normalise.blocks import device_blocks

TARGETS = ("vta-de10", "vta-de10-portable", pytest.param("vta-fsim", marks=pytest.mark.slow))
PLACE = "init in place"


def dense(addends: str, seen: bool = False, m: int = 40, n: int = 48) -> PrimFunc:
    """A product of 40 x 32 and 32 x 48 with some addends: one for each column, row or result, of its transpose; a constant.

    Args:
        addends: in which order: ``b``, ``c``, ``r`` and ``q``, ``t``; ``8``; ``(`` for all that follow, added up first.
        seen: whether another result reads the sum as it is.
        m: rows.
        n: columns.
    """
    a, w = te.placeholder((m, 32), "int8", name="a"), te.placeholder((n, 32), "int8", name="w")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((m, n), lambda i, j: te.sum(a[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="s")
    shapes = {"b": (n,), "c": (m,), "r": (m, n), "q": (m, n), "t": (n, m)}
    given = {x: te.placeholder(shapes[x], "int32", name=x) for x in addends if x in shapes}
    reads = {"b": lambda i, j: given["b"][j], "c": lambda i, j: given["c"][i], "r": lambda i, j: given["r"][i, j],
             "q": lambda i, j: given["q"][i, j], "t": lambda i, j: given["t"][j, i], "8": lambda i, j: te.const(8, "int32")}
    first, _, inner = addends.partition("(")

    def value(i, j):  # type: ignore[no-untyped-def]
        total = s[i, j]
        for x in first:
            total = total + reads[x](i, j)
        nested = [reads[x](i, j) for x in inner]
        return total + sum(nested[1:], nested[0]) if inner else total

    t = te.compute((m, n), value, name="t_")
    out = te.compute((m, n), lambda i, j: te.min(te.max(t[i, j] >> 5, -128), 127).astype("int8"), name="out")
    also = [te.compute((m, n), lambda i, j: s[i, j].astype("int8"), name="low")] if seen else []
    return te.create_prim_func([a, w, *given.values(), out, *also])


def starts(space: Space, name: str = PLACE) -> list[str]:
    """What sums of the form of a name start with."""
    found = [b.init.value for sketch in space.sketches if name in sketch.done for b in device_blocks(sketch.model.nest.func)
             if isinstance(b.init, BufferStore)]
    return [value.buffer.name if isinstance(value, BufferLoad) else "" for value in found]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("addends", "first"), [
    ("br", "r_global"), ("cr", "r_global"), ("b8r", "r_global"), ("brq", "r_global"), ("bqr", "q_global"), ("bcr", "r_global"),
    ("(br", "r_global"), ("8(br", "r_global"),
    ("rb", None), ("rq", None),  # boundary: the first one is loaded to its place as it is
    ("b", None), ("r", None), ("8r", None), ("r8", None),  # a single tensor
    ("bc", None),  # none has an element for every result
])
def test_what_a_sum_of_several_addends_starts_with(addends: str, first: str | None, target: str) -> None:
    assert starts(Space(dense(addends), target)) == [first] * (first is not None)


def test_a_sum_that_something_else_reads_starts_with_zero() -> None:
    assert starts(Space(dense("br"), "vta-de10")) and not starts(Space(dense("br", seen=True), "vta-de10"))


@pytest.mark.parametrize("target", TARGETS)
def test_the_sum_that_starts_in_place_takes_a_cycle_less_for_each_result(target: str) -> None:
    space = Space(dense("br", m=64, n=128), target)
    points = space.sample(np.random.default_rng(0), 400)
    least = {sketch.done: int(space.bound(points[points[:, 0] == k]).min()) for k, sketch in enumerate(space.sketches)}
    others = min(cycles for done, cycles in least.items() if PLACE not in done)
    assert others - least[PLACE,] == 512


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("addends", ["br", "b8rq", "cr"])
def test_points_compute_what_the_program_says(addends: str, target: str) -> None:
    func = dense(addends)
    space = Space(func, target)
    points = space.sample(np.random.default_rng(7), 60)
    own = [k for k, sketch in enumerate(space.sketches) if PLACE in sketch.done]
    points = points[np.isin(points[:, 0], own)]
    within_bounds(space, func, points, 6)
    assert abs(float(np.median(off(space, func, points[:12])))) < 0.1


@pytest.mark.parametrize("target", TARGETS)
def test_an_estimate_knows_where_a_sum_stands(target: str) -> None:
    """A load of more than a tile, or one for all parts, is moved; one of just a tile is not."""
    func = dense("r", m=64, n=128)
    space = Space(func, target)
    points = space.sample(np.random.default_rng(1), 300)
    points = points[[bool(space.sketches[p[0]].done) for p in points]]
    rest = off(space, func, points[:40])
    assert np.abs(rest).max() < 0.25 and abs(float(np.median(rest))) < 0.05


def test_what_stages_add_takes_its_time_also_where_the_first_load_waits_for_what_sums_start_with() -> None:
    func = dense("br", m=64, n=128)
    space = Space(func, "vta-de10")
    points = space.sample(np.random.default_rng(2), 400)
    said = [space.explain(p) for p in points]
    points = points[["by copy" in text and "r_global@root" in text and "addends first" in text for text in said]]
    assert len(points) > 10 and np.abs(off(space, func, points[:12])).max() < 0.2
