"""The machine bound of programs whose layout is the space's choice: no packing can beat it."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, prod
from pathlib import Path

import numpy as np
import pytest

from autosched.ir.host import split_host
from autosched.lower import lower_table
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.lanes import Filling, fillings
from space.normalise import GATHERED, Wanted, normalise

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
TARGET = get_target("vta-de10")


def dense(m: int, n: int, k: int) -> Space:
    text = f"""from autosched.script import T

@T.prim_func
def main(x: T.Buffer(({m}, {k}), "int8"), w: T.Buffer(({n}, {k}), "int8"), out: T.Buffer(({m}, {n}), "int8")):
    acc = T.alloc_buffer(({m}, {n}), "int32")
    for i, j, l in T.grid({m}, {n}, {k}):
        with T.block("acc"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                acc[vi, vj] = 0
            acc[vi, vj] += T.Cast("int32", x[vi, vl]) * T.Cast("int32", w[vj, vl])
    for i, j in T.grid({m}, {n}):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(T.max(acc[vi, vj] >> 4, -128), 127))
"""
    return Space(parse(text), TARGET)  # type: ignore[arg-type]


@pytest.mark.parametrize(("m", "n", "k"), [(7, 16, 16), (7, 16, 17), (7, 17, 16), (30, 10, 9), (5, 100, 130), (40, 1, 33)])
def test_products_and_vectors_are_those_of_full_elements(m: int, n: int, k: int) -> None:
    terms = dense(m, n, k).machine.terms
    # Each result is visited once for every sixteen of its products, the last ones alone.
    assert terms["products"] == ceil(m * n * ceil(k / 16) / 16)
    assert ceil(Fraction(m * n * k, 256)) <= terms["products"] <= m * ceil(n / 16) * ceil(k / 16)
    # A reset, a shift, a minimum and a maximum, with what an instruction adds.
    vectors = ceil(Fraction(m * n, 16))
    assert terms["initial"] == vectors + 6 and terms["stages"] == 3 * vectors + 18


@pytest.mark.parametrize(("value", "tail"), [
    ("T.max(acc[vc, vy], x[vc, vy * 2 + vi])", "acc[vc, vy]"),
    ("acc[vc, vy] + T.cast(x[vc, vy * 2 + vi], 'int32')", "T.cast(acc[vc, vy] >> 2, 'int8')"),
])
@pytest.mark.parametrize("target", ["vta-de10", "vta-fsim"])
def test_windows_of_planes_that_leave_lanes_empty_count_their_share(value: str, tail: str, target: str) -> None:
    """Of 8 planes in 16 lanes half the work is a program's that packs two places of a plane side by side."""
    terms = []
    for planes in (8, 16):
        kind, init = ("int8", "T.min_value('int8')") if "max" in value else ("int32", "0")
        text = f"""from autosched.script import T

@T.prim_func
def main(x: T.Buffer(({planes}, 41), "int8"), out: T.Buffer(({planes}, 20), "int8")):
    acc = T.alloc_buffer(({planes}, 20), "{kind}")
    for c, y, i in T.grid({planes}, 20, 3):
        with T.block("acc"):
            vc, vy, vi = T.axis.remap("SSR", [c, y, i])
            with T.init():
                acc[vc, vy] = {init}
            acc[vc, vy] = {value}
    for c, y in T.grid({planes}, 20):
        with T.block("out"):
            vc, vy = T.axis.remap("SS", [c, y])
            out[vc, vy] = {tail}
"""
        terms.append(Space(parse(text), target).machine.terms)  # type: ignore[arg-type]
    half, whole = terms
    assert half["products"] == ceil(whole["products"] / 2)
    assert 0 < half["store chain"] < whole["store chain"] and half["compute chain"] < whole["compute chain"]


def test_other_layouts_of_one_program_do_not_change_what_a_workload_fixes() -> None:
    packed = Space(workload("dense:m=1,k=20,n=20").func, TARGET).machine.terms
    assert packed["products"] == 4  # whole elements, as they lie
    assert dense(1, 20, 20).machine.terms["products"] == 3


def test_the_form_that_fills_its_lanes_is_above_the_bound_of_the_one_that_does_not() -> None:
    func = workload(f"{PROGRAMS / 'conv_odd.py'}:main").func
    space = Space(func, TARGET)
    points = space.sample(np.random.default_rng(0), 64)
    gathered = [k for k, s in enumerate(space.sketches) if GATHERED in s.done]
    least = Space(func, TARGET, fixed={"sketch": 0}).machine_bound()
    chosen = points[np.isin(points[:, 0], gathered)][:12]
    best = min(lower_table(space.schedule(p).func, TARGET).cycles() for p in chosen)
    # 807 were said to be a bound of all programs, in the layout of the form that is not gathered.
    assert space.machine_bound() <= least < best < 2 * 807


def test_fillings_count_what_packing_has_filled_up() -> None:
    func = workload(f"{PROGRAMS / 'conv_image.py'}:main").func
    made, _ = normalise(func, TARGET)
    found = fillings(split_host(made).pack)
    given = {b.name: prod(int(e.value) for e in b.shape) for b in func.buffers}  # type: ignore[attr-defined]
    weight = found["W_global"]
    assert weight == Filling(Fraction(3, 16), Fraction(1), given["W"])
    assert found["X_global"].lanes == Fraction(3, 16) and found["X_global"].most == given["X"]
    gathered, _ = normalise(func, TARGET, Wanted(gathered=True))
    again = fillings(split_host(gathered).pack)
    name = next(n for n in again if n.startswith("W") and n.endswith("reindex"))
    assert again[name] == Filling(Fraction(147, 160), Fraction(1), given["W"])
    # Elements that several windows have are there several times, and are no more different ones for that.
    image = next(f for n, f in again.items() if n.startswith("P") and n.endswith("reindex"))
    assert image.most == given["X"]


def test_what_is_large_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    func = workload(f"{PROGRAMS / 'conv_image.py'}:main").func
    stages = split_host(normalise(func, TARGET)[0]).pack
    elements = {b.name: prod(int(e.value) for e in b.shape) for s in stages for b in s.buffers}  # type: ignore[attr-defined]
    monkeypatch.setattr("space.lanes.LARGE", elements["W_global"] - 1)
    fillings.cache_clear()
    found = fillings(stages)
    given = {b.name: prod(int(e.value) for e in b.shape) for b in func.buffers}["W"]  # type: ignore[attr-defined]
    share = Fraction(given, elements["W_global"])  # counted as full, no program would seem to be as fast as some are
    assert share == Fraction(3, 16) and found["W_global"] == Filling(share, share, given)
    monkeypatch.setattr("space.lanes.LARGE", elements["W_global"])
    fillings.cache_clear()
    assert fillings(stages)["W_global"].lanes == Fraction(3, 16)


CHAIN = """from autosched.script import T

@T.prim_func
def main(x: T.Buffer((256, 16), "int8"), w: T.Buffer(({n}, 16), "int8"), v: T.Buffer((1, {n}), "int8"),
         y: T.Buffer((256, 1), "int8")):
    s = T.alloc_buffer((256, {n}), "int32")
    t = T.alloc_buffer((256, {n}), "int8")
    u = T.alloc_buffer((256, 1), "int32")
    for i, j, k in T.grid(256, {n}, 16):
        with T.block("s"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] += T.Cast("int32", x[vi, vk]) * T.Cast("int32", w[vj, vk])
    for i, j in T.grid(256, {n}):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = T.Cast("int8", s[vi, vj])
    for i, j, k in T.grid(256, 1, {n}):
        with T.block("u"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                u[vi, vj] = 0
            u[vi, vj] += T.Cast("int32", t[vi, vk]) * T.Cast("int32", v[vj, vk])
    for i, j in T.grid(256, 1):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", u[vi, vj])
"""


@pytest.mark.parametrize("channels", [1, 4, 16])
def test_what_is_stored_in_between_comes_back_as_full_as_it_may_be(channels: int) -> None:
    """Who has 16 places in the lanes of what is in between loads a sixteenth of what one channel in 16 lanes takes."""
    terms = Space(parse(CHAIN.format(n=channels)), TARGET).machine.terms  # type: ignore[arg-type]
    # Two words a vector: those of x, of the tensor in between, and of two weights of 16 a lane of their results.
    assert terms["load chain"] - 2 * 256 - 2 * 256 * channels // 16 <= 100
    assert terms["load chain"] >= 2 * 256 + 2 * 256 * channels // 16


@pytest.mark.parametrize("index", ["vj, vk", "63 - vj, vk", "vj, 63 - vk"])
def test_one_weight_in_two_layouts_comes_once(index: str) -> None:
    """Results may be stored the other way around, and data packed so: then both products read one weight."""
    text = f"""from autosched.script import T

@T.prim_func
def main(x: T.Buffer((1, 64), "int8"), z: T.Buffer((1, 64), "int8"), w: T.Buffer((64, 64), "int8"),
         y: T.Buffer((1, 64), "int8"), q: T.Buffer((1, 64), "int8")):
    s = T.alloc_buffer((1, 64), "int32")
    t = T.alloc_buffer((1, 64), "int32")
    for i, j, k in T.grid(1, 64, 64):
        with T.block("s"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] += T.Cast("int32", x[vi, vk]) * T.Cast("int32", w[vj, vk])
    for i, j, k in T.grid(1, 64, 64):
        with T.block("t"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                t[vi, vj] = 0
            t[vi, vj] += T.Cast("int32", z[vi, vk]) * T.Cast("int32", w[{index}])
    for i, j in T.grid(1, 64):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", s[vi, vj] >> 4)
    for i, j in T.grid(1, 64):
        with T.block("q"):
            vi, vj = T.axis.remap("SS", [i, j])
            q[vi, vj] = T.Cast("int8", t[vi, vj] >> 4)
"""
    bound = Space(parse(text), TARGET).machine  # type: ignore[arg-type]
    assert 64 * 64 // 8 <= bound.terms["load chain"] < 64 * 64 // 8 + 100
    assert bound.cycles < 64 * 64 // 8 + 150


HALVES = """from autosched.script import T

@T.prim_func
def main(x: T.Buffer((400, 2, 8), "int8"), w: T.Buffer((2, 8, 8), "int8"), out: T.Buffer((400, 2, 8), "int8")):
    acc = T.alloc_buffer((400, 2, 8), "int32")
    for m, g, n, k in T.grid(400, 2, 8, 8):
        with T.block("acc"):
            vm, vg, vn, vk = T.axis.remap("SSSR", [m, g, n, k])
            with T.init():
                acc[vm, vg, vn] = 0
            acc[vm, vg, vn] += x[vm, 1 - vg, vk].astype("int32") * w[vg, vn, vk].astype("int32")
    for m, g, n in T.grid(400, 2, 8):
        with T.block("out"):
            vm, vg, vn = T.axis.remap("SSS", [m, g, n])
            out[vm, vg, vn] = ((acc[vm, vg, vn] + x[vm, vg, vn].astype("int32")) >> 4).astype("int8")
"""
PACKED = """from autosched.script import T

@T.prim_func
def main(x: T.Buffer((400, 1, 16), "int8"), w: T.Buffer((1, 1, 16, 16), "int8"), out: T.Buffer((400, 1, 16), "int8")):
    acc = T.alloc_buffer((400, 1, 16), "int32")
    for m, i, n, k in T.grid(400, 1, 16, 16):
        with T.block("acc"):
            vm, vi, vn, vk = T.axis.remap("SSSR", [m, i, n, k])
            with T.init():
                acc[vm, vi, vn] = 0
            acc[vm, vi, vn] += x[vm, vi, vk].astype("int32") * w[0, 0, vn, vk].astype("int32")
    for m, i, n in T.grid(400, 1, 16):
        with T.block("out"):
            vm, vi, vn = T.axis.remap("SSS", [m, i, n])
            out[vm, vi, vn] = (acc[vm, vi, vn] >> 4).astype("int8")
"""


def test_what_is_added_to_a_sum_may_come_in_by_its_products() -> None:
    """Each half of a row times a matrix is added to the other half: one product, with ones in the diagonal of its weight."""
    packed = Space(parse(PACKED), TARGET)  # type: ignore[arg-type]
    points = packed.sample(np.random.default_rng(0), 200)
    best = min(lower_table(packed.schedule(p).func, TARGET).cycles() for p in points[np.argsort(packed.draft(points))[:8]])
    bound = Space(parse(HALVES), TARGET).machine  # type: ignore[arg-type]
    assert bound.terms["products"] == 400 and bound.terms["stages"] == 400 + 6
    assert bound.terms["load chain"] < 2 * 800  # what is a weight in one form need not be data, too
    assert bound.cycles <= best < bound.cycles + 800
