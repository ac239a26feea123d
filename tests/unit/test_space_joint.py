"""One load for what several products of a nest read: forms of their own, in which it stands outside of all their sums."""

from __future__ import annotations

import numpy as np
import pytest
from decided import off, run, within_bounds

from autosched import te
from autosched.ir import PrimFunc
from autosched.lower import lower_table
from sim import isa
from space import Space
from space.draft import uops
from space.inverse import point_of
from space.machine_bound import machine_bound
from space.normalise import JOINT


def factor(rows: int, depth: int, name: str, lanes: int) -> te.Tensor:
    return te.placeholder((rows, depth, lanes, 16), "int8", name=name)


def product(data: te.Tensor, weight: te.Tensor, rows: int, depth: int, name: str, first: int = 0) -> te.Tensor:
    """The sums over so many elements of a row, from one on."""
    k, b = te.reduce_axis((0, depth), name=f"{name}_k"), te.reduce_axis((0, 16), name=f"{name}_b")
    return te.compute((rows, 2, 1, 16), lambda i, j, p, q: te.sum(
        data[i, first + k, p, b].astype("int32") * weight[j, k, q, b].astype("int32"), axis=[k, b]), name=name)


def joined(one: te.Tensor, other: te.Tensor, given: list[te.Tensor]) -> PrimFunc:
    """The larger of two sums, each with a shift of its own."""
    def narrow(*i):
        return te.max(te.min(te.max(one[i] >> 6, other[i] >> 7), 127), -128).astype("int8")

    made = te.compute(one.shape, narrow, name="z")
    return te.create_prim_func([*given, made])


def gated(rows: int = 24, depth: int = 6, first: int = 0, few: int | None = None) -> PrimFunc:
    """Two products of one tensor, of which the second reads a few elements of a row."""
    few = depth if few is None else few
    x = factor(rows, max(depth, first + few), "x", 1)
    w, v = factor(2, depth, "w", 16), factor(2, few, "v", 16)
    return joined(product(x, w, rows, depth, "y"), product(x, v, rows, few, "q", first), [x, w, v])


def siamese(same: bool = False) -> PrimFunc:
    """Two products with one weight; of the same data, too."""
    x, u, w = factor(24, 6, "x", 1), factor(24, 6, "u", 1), factor(2, 6, "w", 16)
    given = [x, w] if same else [x, u, w]
    return joined(product(x, w, 24, 6, "y"), product(x if same else u, w, 24, 6, "q"), given)


def form_of(space: Space, joint: bool = True) -> int:
    """The form that has nothing else done."""
    return next(k for k, sketch in enumerate(space.sketches) if sketch.done == ((JOINT,) if joint else ()))


def settled(space: Space, form: int, **given: int) -> np.ndarray:
    row = space.wide(form, space.sketches[form].default[None])
    for column, value in given.items():
        row[:, space.names.index(column)] = value
    (point,), inside = space.repair(row)
    assert inside.all(), space.explain(point)
    return np.asarray(point, dtype=np.int32)


def loaded(space: Space, point: np.ndarray) -> dict[int, list[int]]:
    """Elements of every load, by memory."""
    table = lower_table(space.schedule(point).func, space.target).table
    found = {}
    for memory in (isa.MEM_INP, isa.MEM_WGT):
        rows = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == memory)]
        found[memory] = [int(n) for n in rows[:, isa.Y_SIZE] * rows[:, isa.X_SIZE]]
    return found


def points_of(space: Space, form: int, count: int) -> np.ndarray:
    drawn = space.sample(np.random.default_rng(5), 200)
    own = drawn[drawn[:, 0] == form]
    return own[np.argsort(space.draft(own), kind="stable")][:: max(1, len(own) // count)][:count]


@pytest.mark.parametrize(("func", "readers"), [
    (gated(), {"x": ("y", "q"), "w": ("y",), "v": ("q",)}), (siamese(), {"x": ("y",), "w": ("y", "q"), "u": ("q",)}),
    (siamese(True), {"x": ("y", "q"), "w": ("y", "q")}),
])
def test_forms_with_loads_for_several_come_behind_all_others(func: PrimFunc, readers: dict[str, tuple[str, ...]]) -> None:
    space = Space(func, "vta-de10")
    plain, joint = [s for s in space.sketches if JOINT not in s.done], [s for s in space.sketches if JOINT in s.done]
    assert space.sketches == (*plain, *joint)
    assert [(*s.done, JOINT) for s in plain] == [s.done for s in joint]
    assert [o.readers for s in plain for o in s.model.nest.operands] == [("y",), ("y",), ("q",), ("q",)] * len(plain)
    for sketch in joint:
        assert {o.name: o.readers for o in sketch.model.nest.operands} == readers
        within_bounds(space, func, points_of(space, space.sketches.index(sketch), 4), 4)


@pytest.mark.parametrize(("first", "few", "shared"), [
    (0, 4, True), (1, 4, True), (2, 4, True), (3, 4, False), (4, 4, False), (0, 1, True),
])
def test_most_of_what_is_loaded_is_read_by_one_of_them(first: int, few: int, shared: bool) -> None:
    space = Space(gated(24, 4, first, few), "vta-de10")
    assert any(JOINT in s.done for s in space.sketches) == shared
    if shared:
        operand = space.sketches[form_of(space)].model.nest.operands[0]
        assert operand.within == ((0,), tuple(range(max(4, first + few))))


def test_a_load_for_several_stands_outside_of_their_sums() -> None:
    func = gated()
    space = Space(func, "vta-de10")
    given = {"tile_i": 8, "tile_y_k": 2, "load_x": 3, "load_w": 3}
    point = settled(space, form_of(space), **given)
    assert "load x@i w@y_k" in space.explain(point)
    assert loaded(space, point)[isa.MEM_INP] == [48, 48, 48]
    assert run(space, func, point, execute=True).ok
    apart = settled(space, form_of(space, False), load_x_q=1, **given)
    assert "load x@y_k w@y_k x_q@i" in space.explain(apart)
    assert sorted(loaded(space, apart)[isa.MEM_INP]) == sorted([16] * 9 + [48] * 3)
    assert (point_of(space, space.trace(point)) == point).all()


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_the_estimate_knows_it(target: str) -> None:
    func = gated()
    space = Space(func, target)
    form = form_of(space)
    lowest = points_of(space, form, 200)[:8]
    assert np.median(np.abs(off(space, func, lowest))) < 0.05


def test_every_step_of_a_sum_reads_elsewhere_in_what_is_loaded_for_all() -> None:
    space = Space(gated(), "vta-de10")
    model = space.sketches[form_of(space)].model
    point = settled(space, form_of(space), tile_i=8, tile_y_k=1, load_x=1, load_w=3)
    plan = model.plan(np.ascontiguousarray(point[None, space.places(form_of(space))]))
    assert uops(model, plan, plan.stack)[0].tolist() == [[6.0]]


def test_what_any_program_takes_does_not_depend_on_who_loads_what() -> None:
    func = gated(64, 16)
    space = Space(func, "vta-de10")
    given = {b.name for b in func.buffers}
    plain, joint = (min(machine_bound(s.models, 0, given, 0, False).cycles for s in space.sketches if (JOINT in s.done) == own)
                    for own in (False, True))
    assert space.machine_bound() == plain > joint


def filtered() -> PrimFunc:
    """A filter of five rows, and a product of the row in its middle."""
    x, w, v = factor(12, 1, "x", 1), factor(2, 5, "w", 16), factor(2, 1, "v", 16)
    k, b, c = (te.reduce_axis((0, n), name=name) for n, name in ((5, "k"), (16, "b"), (16, "c")))
    one = te.compute((8, 2, 1, 16), lambda i, j, p, q: te.sum(
        x[i + k, 0, p, b].astype("int32") * w[j, k, q, b].astype("int32"), axis=[k, b]), name="y")
    other = te.compute((8, 2, 1, 16), lambda i, j, p, q: te.sum(
        x[i + 2, 0, p, c].astype("int32") * v[j, 0, q, c].astype("int32"), axis=[c]), name="q")
    return joined(one, other, [x, w, v])


def test_one_load_for_several_products_brings_no_more_than_these_have_steps() -> None:
    """Pieces that do not divide a window would have it bring what follows, and more than the memory was asked to hold."""
    space = Space(filtered(), "vta-de10")
    met = set()
    for size in range(1, 6):
        point = settled(space, form_of(space), tile_i=2, tile_k=size, load_x=1, load_w=3)
        met.add(int(point[space.names.index("tile_k")]))
        assert loaded(space, point)[isa.MEM_INP] == [6] * 4, space.explain(point)
    assert met == {1, 5}
