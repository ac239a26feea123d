"""Weights that the program makes: which factors, their layout, tensors that lie in two, and what no weight is made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autosched import te
from autosched.errors import AutoschedError
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.target import get_target
from autosched.workloads import of_func
from space import Space
from space.machine_bound import machine_bound
from space.normalise import normalise, turned
from space.normalise.blocks import device_blocks, is_packed, store_of

DE10 = get_target("vta-de10")


def narrowed(s, shift: int, name: str):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), -128).astype("int8"), name=name)


def product(a, b, n: int, m: int, k: int, name: str, across: bool = False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def relu(t):
    return lambda i, j: te.max(t[i, j], te.const(0, "int8"))


def pair(n: int, m: int, k: int, across: bool = True, addend: int = 0) -> PrimFunc:
    """The product of what two stages make, (n, k) by (m, k) or (k, m)."""
    x = te.placeholder((n, k), "int8", name="x")
    z = te.placeholder((m, k) if across else (k, m), "int8", name="z")

    def made(t):
        if addend:
            return lambda i, j: te.max((t[i, j].astype("int32") + addend) >> 1, -100).astype("int8")
        return relu(t)

    a, b = te.compute(x.shape, made(x), name="a"), te.compute(z.shape, made(z), name="b")
    return te.create_prim_func([x, z, narrowed(product(a, b, n, m, k, "s", across), 8, "y")])


def shapes(func: PrimFunc) -> dict[str, list[int]]:
    made = {store_of(b).buffer for b in device_blocks(func)}
    return {b.name: [int(e.value) for e in b.shape] for b in made}


@pytest.mark.parametrize(("n", "m", "k"), [(16, 16, 16), (16, 32, 48), (5, 17, 16), (20, 7, 40), (1, 33, 31)])
@pytest.mark.parametrize("across", [True, False])
def test_what_a_stage_makes_is_a_weight(n: int, m: int, k: int, across: bool) -> None:
    func = pair(n, m, k, across)
    new, steps = normalise(func, DE10)
    assert steps and is_packed(split_host(new).device, DE10)
    inputs = random_inputs(func, 3)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    # The weight's rows are vectors one behind the other: of as many as make an element, whole elements only.
    sizes = shapes(split_host(new).device)
    rows, deep = -(-m // 16) * 16, -(-k // 16)
    assert sizes["b"][-3:] == [rows, 1, 16] and sizes["b_part_1"][-2:] == [16, 16]
    assert np.prod(sizes["b"]) == np.prod(sizes["b_part_1"]) == rows * deep * 16


@pytest.mark.parametrize(("k", "addend", "limits"), [(32, 9, 0), (31, 9, 2), (31, 1, 0)])
def test_zeros_are_made_where_none_are_known(k: int, addend: int, limits: int) -> None:
    """What fills up the sum's axis: (0 + 1) >> 1 is zero, (0 + 9) >> 1 is none in either factor, and limits make it one."""
    func = pair(16, 16, k, addend=addend)
    new, steps = normalise(func, DE10)
    made = [b.name for stage in split_host(new).pack for b in stage.params if "limit" in b.name]
    assert steps and len(made) == limits
    inputs = random_inputs(func, 1)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)


def squared() -> PrimFunc:
    x, w = te.placeholder((32, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    a = narrowed(product(x, w, 32, 32, 32, "s"), 7, "a")
    return te.create_prim_func([x, w, narrowed(product(a, a, 32, 32, 32, "aa"), 7, "y")])


def swished() -> PrimFunc:
    x, w = te.placeholder((3, 40), "int8", name="x"), te.placeholder((40, 24), "int8", name="w")
    a = narrowed(product(x, w, 3, 24, 40, "s"), 6, "a")
    g = te.compute((3, 24), lambda i, j: te.min(te.max(a[i, j].astype("int32") + 48, 0), 96).astype("int8"), name="g")
    y = te.compute((3, 24), lambda i, j: ((a[i, j].astype("int32") * g[i, j].astype("int32")) >> 7).astype("int8"), name="y")
    return te.create_prim_func([x, w, y])


def test_a_tensor_that_lies_in_two_ways_is_computed_twice_and_bounded_once() -> None:
    space = Space(squared(), "vta-de10")
    (sketch,) = (s for s in space.sketches if not s.done)
    assert [m.nest.out for m in sketch.models] == ["a", "a_aa_a", "y"]
    assert [m.original for m in sketch.models] == ["", "a", ""]
    # Two products of 32 x 32 x 32, 256 to a step: one of them need not be computed again in another program.
    assert machine_bound(sketch.models).terms["products"] == 2 * 32**3 // 256
    # Either of the two may be the one that is left out.
    alone = [machine_bound([m for m in sketch.models if m.nest.out != out]).cycles for out in ("a", "a_aa_a")]
    assert machine_bound(sketch.models).cycles <= min(alone)


def test_rows_of_a_diagonal_are_none_of_the_bound() -> None:
    x, w = te.placeholder((16, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    a = narrowed(product(x, w, 16, 32, 32, "s"), 7, "a")
    y = te.compute((16, 32), lambda i, j: ((a[i, j].astype("int32") * a[i, j].astype("int32")) >> 7).astype("int8"), name="y")
    space = Space(te.create_prim_func([x, w, y]), "vta-de10")
    (sketch,) = (s for s in space.sketches if not s.done)
    assert [m.nest.out for m in sketch.models] == ["a", "a_diagonal_row", "y"]
    kept = [sketch.models[0], sketch.models[2]]
    assert machine_bound(sketch.models).terms["store chain"] == machine_bound(kept).terms["store chain"]


def limited(first: bool, n: int, m: int, k: int) -> PrimFunc:
    """A product of two stages that are not zero where nothing is, in either order."""
    x, z = te.placeholder((n, k), "int8", name="x"), te.placeholder((m, k), "int8", name="z")
    a, b = (te.compute(t.shape, up(t), name=name) for t, name in ((x, "a"), (z, "b")))
    r = te.reduce_axis((0, k), name="r")
    s = te.compute((n, m), lambda i, j: te.sum(
        (a[i, r].astype("int32") * b[j, r].astype("int32")) if first else (b[j, r].astype("int32") * a[i, r].astype("int32")),
        axis=r), name="s")
    return te.create_prim_func([x, z, narrowed(s, 8, "y")])


def up(t):
    return lambda i, j: te.max((t[i, j].astype("int32") + 9) >> 1, -100).astype("int8")


def test_limits_and_diagonals_are_none_of_the_bound() -> None:
    """Whichever factor becomes the weight, and however often a diagonal is laid out: the same function has the other form."""
    bounds = [Space(limited(first, 150, 16, 31), "vta-de10").machine_bound() for first in (True, False)]
    assert max(bounds) < 1.2 * min(bounds)
    g, x = te.placeholder((24,), "int8", name="g"), te.placeholder((40, 24), "int8", name="x")
    wide = te.placeholder((40, 24), "int8", name="g")
    found = []
    for given in (g, wide):
        row = given is g
        gate = te.compute(given.shape, (lambda i: te.max(g[i], te.const(0, "int8"))) if row else relu(wide), name="gate")
        a = te.compute((40, 24), relu(x), name="a")
        y = te.compute((40, 24), multiplied(a, gate, row), name="y")
        found.append(Space(te.create_prim_func([given, x, y]), "vta-de10").machine)
    assert found[1].terms["load chain"] < 3 * found[0].terms["load chain"]


def multiplied(a, gate, row: bool):
    return lambda i, j: ((a[i, j].astype("int32") * (gate[j] if row else gate[i, j]).astype("int32")) >> 7).astype("int8")


def test_attention_has_a_form_whatever_its_sizes() -> None:
    for rows, size in ((23, 17), (16, 33)):
        x = te.placeholder((rows, 32), "int8", name="x")
        ws = [te.placeholder((32, size), "int8", name="w" + t) for t in "qkv"]
        q, k, v = (narrowed(product(x, w, rows, size, 32, t + "s"), 6, t) for t, w in zip("qkv", ws))
        p = narrowed(product(q, k, rows, rows, size, "s", True), 7, "p")
        func = te.create_prim_func([x, *ws, narrowed(product(p, v, rows, size, rows, "o"), 7, "y")])
        assert normalise(func, DE10)[1], (rows, size)


def test_of_which_factors_weights_are_tried() -> None:
    """The second one first; where one is given, none first; by element, none."""
    def first(func: PrimFunc) -> list[set[str]]:
        return [set(copies) for _, copies in turned.ways(Schedule(func), False, lambda *_: True)]

    assert first(pair(16, 16, 16)) == [{"s_b"}, {"s_a"}, set()]
    x, w = te.placeholder((16, 16), "int8", name="x"), te.placeholder((16, 16), "int8", name="w")
    a = te.compute((16, 16), lambda i, j: te.max(x[i, j], te.const(0, "int8")), name="a")
    assert first(te.create_prim_func([x, w, narrowed(product(a, w, 16, 16, 16, "s"), 7, "y")])) == [set(), {"s_a"}]
    r = te.reduce_axis((0, 16), name="r")
    e = te.compute((16,), lambda i: te.sum(a[i, r].astype("int32") * a[i, r].astype("int32"), axis=r), name="e")
    assert first(te.create_prim_func([x, te.compute((16,), lambda i: (e[i] >> 12).astype("int8"), name="y")])) == [set()]


def test_what_no_weight_is_made_of_is_refused_by_name() -> None:
    """A filter of one plane, on a plane: neither has an index that is only its own and the result's."""
    img, h = te.placeholder((18, 18), "int8", name="img"), te.placeholder((3, 3), "int8", name="h")
    plane, k = (te.compute(t.shape, relu(t), name=name) for t, name in ((img, "plane"), (h, "k")))
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    b = te.compute((16, 16), lambda y, x: te.sum(
        plane[y + p, x + q].astype("int32") * k[p, q].astype("int32"), axis=[p, q]), name="b")
    func = te.create_prim_func([img, h, narrowed(b, 7, "out")])
    with pytest.raises(AutoschedError, match="block b multiplies plane by k, and the program makes both; what makes them stores"):
        Space(func, "vta-de10")


@pytest.mark.parametrize("lanes", [3, 5])
def test_machines_with_other_blocks(lanes: int, tmp_path: Path) -> None:
    sizes = {"LOG_INP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 16, "LOG_ACC_BUFF_SIZE": 16} if lanes == 3 else {}
    (tmp_path / "m.json").write_text(json.dumps({"LOG_BLOCK": lanes, **sizes, "semantics": "portable" if sizes else "chisel"}))
    target = get_target(tmp_path / "m.json")
    for func in (pair(5, 17, 40), squared(), swished()):
        task = of_func(func)
        space = Space(func, target)
        for point in space.sample(np.random.default_rng(lanes), 3):
            result = measure(Candidate(task, target, tuple(space.trace(point).as_json())), execute=True)
            assert result.ok and result.cycles is not None, (space.explain(point), result)
            assert result.cycles >= max(space.machine_bound(), space.bound(point[None])[0])
