"""The data of a sum that windows compare, strip by strip: what a strip holds, how often one is loaded, and what it is worth."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import in_turn

from autosched.ir.scopes import INP
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space, borders
from space.normalise import FUSED
from space.rule import Points
from space.rules.length import instructions

POOLED = """from tvm.script import tirx as T

@T.prim_func
def main(X: T.Buffer((1, {ci}, {h}, {h}, 1, 16), "int8"), W: T.Buffer(({co}, {ci}, {k}, {k}, 16, 16), "int8"),
         out: T.Buffer((1, {co}, {o}, {o}, 1, 16), "int8")):
    c = T.alloc_buffer((1, {co}, {s}, {s}, 1, 16), "int32")
    g = T.alloc_buffer((1, {co}, {s}, {s}, 1, 16), "int8")
    m = T.alloc_buffer((1, {co}, {o}, {o}, 1, 16), "int32")
    for n, o, y, x, p, q, i, r, s, k in T.grid(1, {co}, {s}, {s}, 1, 16, {ci}, {k}, {k}, 16):
        with T.block("c"):
            v0, v1, v2, v3, v4, v5, vi, vr, vs, vk = T.axis.remap("SSSSSSRRRR", [n, o, y, x, p, q, i, r, s, k])
            with T.init():
                c[v0, v1, v2, v3, v4, v5] = 0
            c[v0, v1, v2, v3, v4, v5] += (T.Cast("int32", X[v0, vi, v2 * {d} + vr, v3 * {d} + vs, v4, vk])
                                          * T.Cast("int32", W[v1, vi, vr, vs, v5, vk]))
    for n, o, y, x, p, q in T.grid(1, {co}, {s}, {s}, 1, 16):
        with T.block("g"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [n, o, y, x, p, q])
            g[v0, v1, v2, v3, v4, v5] = T.Cast("int8", T.min(T.max(T.shift_right(c[v0, v1, v2, v3, v4, v5], 6), -90), 100))
    for n, o, y, x, p, q, r, s in T.grid(1, {co}, {o}, {o}, 1, 16, {w}, {w}):
        with T.block("m"):
            v0, v1, v2, v3, v4, v5, vr, vs = T.axis.remap("SSSSSSRR", [n, o, y, x, p, q, r, s])
            with T.init():
                m[v0, v1, v2, v3, v4, v5] = -128
            m[v0, v1, v2, v3, v4, v5] = T.max(
                m[v0, v1, v2, v3, v4, v5], T.Cast("int32", g[v0, v1, v2 * {t} + vr, v3 * {t} + vs, v4, v5]))
    for n, o, y, x, p, q in T.grid(1, {co}, {o}, {o}, 1, 16):
        with T.block("out"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [n, o, y, x, p, q])
            out[v0, v1, v2, v3, v4, v5] = T.Cast("int8", m[v0, v1, v2, v3, v4, v5])
"""


@cache
def space_of(side: int, taps: int, window: int, step: int, target: str = "vta-de10", stride: int = 1, ci: int = 2) -> Space:
    """That of a convolution of ``side`` sums along an axis, and windows over them."""
    func = parse(POOLED.format(h=(side - 1) * stride + taps, ci=ci, co=2, k=taps, s=side, d=stride, w=window, t=step,
                               o=(side - window) // step + 1))
    return Space(func, get_target(target))


def form_of(space: Space) -> int:
    return next(k for k, sketch in enumerate(space.sketches) if FUSED in sketch.done)


def column(space: Space, name: str) -> int:
    """Where a row of the form has a column."""
    form = form_of(space)
    return int(space.places(form)[[c.name for c in space.sketches[form].columns].index(name)])


def stripped(space: Space, count: int, seed: int = 0) -> Points:
    """Points of the form whose data come in strips."""
    points = space.sample(np.random.default_rng(seed), 2000)
    points = points[points[:, 0] == form_of(space)]
    return points[points[:, column(space, "strip")] > 0][:count]


SIZES = [(17, 1, 3, 2, 1), (16, 3, 2, 2, 1), (15, 3, 3, 1, 1), (13, 3, 3, 2, 2)]


@pytest.mark.parametrize(("side", "taps", "window", "step", "stride", "target"), in_turn(SIZES))
def test_what_a_strip_takes(side: int, taps: int, window: int, step: int, stride: int, target: str) -> None:
    """Lowering gives it as many places, loads it as often, and takes no more instructions; executed, and estimated."""
    space = space_of(side, taps, window, step, target, stride)
    model = space.sketches[form_of(space)].model
    cut = model.cut
    assert cut is not None and model.nest.operands[cut.operand].scope == INP and cut.step == stride
    points = stripped(space, 8)
    assert len(points) == 8
    drafts, bounds = space.draft(points), space.bound(points)
    for n, (point, draft, least) in enumerate(zip(points, drafts, bounds)):
        plan = model.plan(np.ascontiguousarray(point[None, space.places(form_of(space))]))
        lowered = lower_table(space.schedule(point).func, space.target)
        held = [s for s in lowered.storages if s.scope == INP]
        parts = [part for part in plan.parts if part.on[0]]
        sizes = [int(model.footprint(plan, part, cut.operand)[0]) for part in parts]
        assert sorted(s.elements for s in held) == sorted(sizes)
        fills = [int(model.fills(plan, part, cut.operand)[0]) for part in parts]
        assert sorted(s.lives for s in held) == sorted(fills)
        assert int(instructions(model, plan)[0]) >= len(lowered.table)
        for part in parts:
            rows, thick = int(borders.rows(model, part)[0]), int(borders.thick(model, plan, part)[0])
            assert rows % thick == 0 and rows // thick == int(borders.strips(model, plan, part)[0])
        assert least <= lowered.cycles() and 0.85 < draft / lowered.cycles() < 1.15
        if n < 2:
            assert measure(Candidate(space.func, target, tuple(space.trace(point).as_json())), execute=True).ok


@pytest.mark.parametrize(("side", "taps", "window", "nth"), [(17, 1, 3, 5), (16, 3, 2, 3), (16, 3, 2, 4)])
def test_a_schedule_with_strips_is_found(side: int, taps: int, window: int, nth: int) -> None:
    """Strips and where their data are loaded show together, whatever the order of loops is."""
    space = space_of(side, taps, window, 2)
    point = stripped(space, 10)[nth]
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


@given(st.integers(1, 60), st.integers(1, 60))
def test_strips_divide_a_tile(rows: int, wanted: int) -> None:
    most = min(wanted, rows)
    assert borders.divisors(60)[rows, most] == max(d for d in range(1, most + 1) if rows % d == 0)


def test_only_what_a_tile_has_for_itself_comes_in_strips() -> None:
    """Inside all loops of several tiles; what several tiles use stays as it is, and so does what is loaded once."""
    space = space_of(17, 1, 3, 2)
    form = form_of(space)
    model = space.sketches[form].model
    names = [c.name for c in space.sketches[form].columns]

    def strip(wanted: int, **decisions: int) -> int:
        row = np.zeros(space.width, dtype=np.int32)
        own = space.sketches[form].default.copy()
        for name, value in {"tile_v2": 4, "tile_v3": 4, "tile_v1": 2, "load_X": 4, "strip": wanted, **decisions}.items():
            own[names.index(name)] = value
        row[0], row[space.places(form)] = form, own
        return int(space.repair(row[None])[0][0, space.places(form)[names.index("strip")]])

    orders = {order: k for k, order in enumerate(model.orders)}
    within = next(k for order, k in orders.items() if order.index(1) == len(order) - 2)  # channels inside of rows and columns
    assert strip(3) == 3 and strip(1) == 1
    assert strip(5) == strip(4) == strip(8) == 3, "of nine rows"
    assert strip(9) == strip(16) == 0, "all rows"
    assert strip(3, load_X=0) == 0 and strip(3, tile_v2=8, tile_v3=8) == 0, "loaded once"
    assert strip(3, tile_v1=1, order=within) == 0 and strip(3, tile_v1=2, order=within) == 3


def test_a_strip_lets_tiles_be_larger_than_the_memory_of_their_data() -> None:
    """A tile of which the data fill the memory more than once, at the boundary."""
    space = space_of(33, 1, 3, 2, ci=8)
    form = form_of(space)
    names = [c.name for c in space.sketches[form].columns]

    def fits(**decisions: int) -> bool:
        row = np.zeros(space.width, dtype=np.int32)
        own = space.sketches[form].default.copy()
        for name, value in {"tile_v2": 8, "tile_v3": 16, "tile_v1": 1, "load_X": 2, "load_W": 0, **decisions}.items():
            own[names.index(name)] = value
        row[0], row[space.places(form)] = form, own
        return bool(space.valid(row[None])[0])

    # 17 rows of 33 elements of 8 blocks each: 4488 vectors where there is room for 2048; a row is 264 of them.
    assert not fits() and fits(strip=1) and fits(strip=1, banks_X=3)
    assert space.target.capacity(INP) == 2048


def test_along_what_the_weights_do_not_move() -> None:
    """Groups of channels have data and weights of their own: the outermost of what moves the data alone are rows."""
    text = POOLED.format(h=12, ci=1, co=2, k=1, s=12, d=1, w=2, t=2, o=6)
    grouped = text.replace("X: T.Buffer((1, 1,", "X: T.Buffer((1, 2,").replace("X[v0, vi,", "X[v0, v1,")
    for func in (text, grouped):
        space = Space(parse(func), get_target("vta-de10"))
        cut = space.sketches[form_of(space)].model.cut
        assert cut is not None and (cut.dim, cut.along) == (2, 2)


def test_other_halos_have_no_strips() -> None:
    """What several halos read, or what a sum besides the halo's does, is there as a whole."""
    space = Space(workload("resnet18.max_pool").func, get_target("vta-de10"))
    models = [model for sketch in space.sketches for model in sketch.models]
    assert any(model.nest.halos for model in models)
    assert all(model.cut is None and "strip" not in model.index for model in models)


@pytest.mark.parametrize(("side", "taps", "window", "step"), [
    (17, 1, 3, 2), (16, 3, 2, 2), (15, 3, 3, 1), (16, 1, 2, 3), (14, 3, 2, 1), (17, 1, 3, 4),
])
def test_the_bound_counts_what_any_window_reads(side: int, taps: int, window: int, step: int) -> None:
    """Whichever of several blocks reads it, and what none does not: counted here, element by element."""
    space = space_of(side, taps, window, step)
    read = {step * i + k for i in range((side - window) // step + 1) for k in range(window)}
    assert space.machine.terms["products"] == 2 * 2 * taps * taps * len(read) ** 2
    assert all(space.machine_bound() <= measured for measured in _cycles(space))


def _cycles(space: Space) -> list[int]:
    """Of the points with the lowest estimates of some."""
    points = space.sample(np.random.default_rng(0), 300)
    best = points[np.argsort(space.draft(points))[:3]]
    return [lower_table(space.schedule(point).func, space.target).cycles() for point in best]


@pytest.mark.parametrize(("side", "window", "step", "placed"), [
    (17, 3, 2, True), (16, 2, 2, True), (15, 3, 1, True), (17, 5, 3, True), (19, 7, 4, True), (12, 2, 1, True),
    (16, 4, 2, False), (17, 5, 2, False),  # each element is some other window's, too, and they do not slide
])
def test_comparisons_stand_where_sums_did(side: int, window: int, step: int, placed: bool) -> None:
    """With the sums there is only what is stored in the accumulator; else windows have a place of their own."""
    space = space_of(side, 1, window, step)
    nest = space.sketches[form_of(space)].model.nest
    assert nest.within == int(placed) and [halo.live for halo in nest.halos] == [1, *[0] * (len(nest.halos) - 1)]
    assert sum(stage.imm_ops for stage in nest.stages) == 3 + (not placed)
    point = stripped(space, 1)[0]
    names = {s.buffer.split("_local")[0] for s in lower_table(space.schedule(point).func, space.target).storages
             if s.scope == "local.acc_buffer"}
    assert names == {"c", "m"}
    assert measure(Candidate(space.func, "vta-de10", tuple(space.trace(point).as_json())), execute=True).ok
