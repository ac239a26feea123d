"""Extrema in front of what never falls, and windows that compare sums where they are made."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from turns import in_turn

from autosched.errors import ScheduleError
from autosched.ir.printer import expr_text
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import FUSED, SLID, fused
from space.normalise.blocks import device_blocks, loads_of

Same = Callable[..., None]
Ranges = dict[str, tuple[int, int]]
FUNC = """from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((8, 3), "{dtype}"), b: T.Buffer((8,), "int32"), s: T.Buffer((8,), "int32"), C: T.Buffer((8,), "{made}")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {value}
"""


def program(value: str, dtype: str = "int32", made: str = "int32", ranges: Ranges | None = None) -> PrimFunc:
    """A program of one value; what its tensors hold where that is said."""
    func = parse(FUNC.format(value=value, dtype=dtype, made=made))
    return replace(func, value_ranges=tuple((ranges or {}).get(b.name) for b in func.buffers))


def hoisted(func: PrimFunc) -> str:
    sch = Schedule(func)
    sch.hoist_extremum("C")
    block = sch.get(sch.get_sblock("C"))
    assert isinstance(block, Block) and isinstance(block.body, BufferStore)
    return expr_text(block.body.value)


SMALL = {"A": (-(1 << 20), 1 << 20), "b": (-(1 << 20), 1 << 20), "s": (0, 31)}
# What may be done to each of several values, and how much room that needs below the top of int32.
STEPS = ("T.shift_right({}, 3)", "T.min({}, 500)", "T.max({}, -90)", "{} + 70", "{} - 7", "{} + b[vi]", "b[vi] + {}",
         "{} - b[vi]", "T.shift_left({}, 2)", "T.max(b[vi], {})", "T.shift_right({}, s[vi])",
         'T.Cast("int32", T.Cast("int64", {}))')


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), st.sampled_from(["T.max", "T.min"]), st.integers(2, 3))
def test_what_never_falls_is_done_once(same: Same, steps: list[str], op: str, count: int) -> None:
    # With the operation itself a value is one of the operands, and nothing that is done to them all.
    steps = [step for step in steps if not (step.startswith(op) and "b[" in step)]
    # Of a shift by a tensor ranges say nothing, so nothing that might overflow stands behind it.
    steps = sorted(steps, key=lambda step: "s[vi]" in step)
    values = []
    for k in range(count):
        value = f"A[vi, {k}]"
        for step in steps:
            value = step.format(value)
        values.append(value)
    whole = values[0]
    for value in values[1:]:
        whole = f"{op}({whole}, {value})"
    func = program(whole, ranges=SMALL)
    sch = Schedule(func)
    try:
        sch.hoist_extremum("C")
    except ScheduleError:
        assert all(step.startswith(op) for step in steps), "nothing else is done"
        return
    same(func, sch)
    if not any(step.startswith(op) for step in steps):
        assert hoisted(func).count("A[") == count and hoisted(func).count("b[") == sum("b[" in step for step in steps)


@pytest.mark.parametrize(("value", "made"), [
    ("T.max(T.max(T.shift_right(A[vi, 0], 8), 0), T.max(T.shift_right(A[vi, 1], 8), 0))",
     "T.max(T.shift_right(T.max(A[vi, 0], A[vi, 1]), 8), 0)"),
    # A constant that only one is compared with is one of the operands; it comes last.
    ("T.max(T.max(A[vi, 0] + 1, -5), A[vi, 1] + 1)", "T.max(T.max(A[vi, 0], A[vi, 1]) + 1, -5)"),
    ("T.max(T.max(A[vi, 0] + 1, T.max(A[vi, 1] + 1, A[vi, 2] + 1)), -128)",
     "T.max(T.max(T.max(A[vi, 0], A[vi, 1]), A[vi, 2]) + 1, -128)"),
    # One that several are compared with comes once.
    ("T.max(T.max(A[vi, 0], 0), T.max(A[vi, 1], 0))", "T.max(T.max(A[vi, 0], A[vi, 1]), 0)"),
    ("T.max(T.shift_right(T.max(A[vi, 0], 0), 3), T.shift_right(T.max(A[vi, 1], 0), 3))",
     "T.shift_right(T.max(T.max(A[vi, 0], A[vi, 1]), 0), 3)"),
    ("T.max(T.max(A[vi, 0], 0), T.max(A[vi, 1], 5))", "T.max(T.max(T.max(A[vi, 0], A[vi, 1]), 0), 5)"),
    # So does a tensor: between it and the operands others may be done to all of these.
    ("T.max(T.max(T.max(T.min(A[vi, 0], 9), -5), b[vi]), T.max(T.max(T.min(A[vi, 1], 9), -5), b[vi]))",
     "T.max(T.max(T.min(T.max(A[vi, 0], A[vi, 1]), 9), b[vi]), -5)"),
    ("T.max(T.max(A[vi, 0], b[vi]), T.max(A[vi, 1], b[vi]))", "T.max(T.max(A[vi, 0], A[vi, 1]), b[vi])"),
    # Inside of something else, and of operands that become the same.
    ("2 * T.min(A[vi, 0] + b[vi], b[vi] + A[vi, 1])", "T.min(A[vi, 0], A[vi, 1]) + b[vi]"),
])
def test_where_the_extremum_goes(same: Same, value: str, made: str) -> None:
    func = program(value, ranges=SMALL)
    assert made in hoisted(func)
    sch = Schedule(func)
    sch.hoist_extremum("C")
    same(func, sch)
    sch.trace.apply_to_schedule(again := Schedule(func), remove_postproc=False)
    assert again.func == sch.func


TOP = (1 << 31) - 1


@pytest.mark.parametrize(("step", "ranges", "beyond"), [
    ("{} + 10", {"A": (-5, TOP - 10)}, {"A": (-5, TOP - 9)}),
    ("{} + -10", {"A": (9 - TOP, 5)}, {"A": (8 - TOP, 5)}),
    ("{} + b[vi]", {"A": (0, TOP - 3), "b": (-1, 3)}, {"A": (0, TOP - 3), "b": (-1, 4)}),
    ("{} - b[vi]", {"A": (0, TOP - 3), "b": (-3, 1)}, {"A": (0, TOP - 3), "b": (-4, 1)}),
    ("{} - b[vi]", {"A": (-TOP, 0), "b": (0, 1)}, {"A": (-TOP, 0), "b": (0, 2)}),
    ("T.shift_left({}, 4)", {"A": (-(1 << 27), (1 << 27) - 1)}, {"A": (-(1 << 27), 1 << 27)}),
    ("T.shift_right({}, s[vi])", {"s": (0, 31)}, {"s": (0, 32)}),
    ("T.shift_right({}, s[vi])", {"s": (0, 31)}, {"s": (-1, 31)}),
    ('T.Cast("int32", T.Cast("int8", {}))', {"A": (-128, 127)}, {"A": (-128, 128)}),
    ('T.Cast("int32", T.Cast("int8", {}))', {"A": (-128, 127)}, {"A": (-129, 127)}),
    ('T.Cast("int32", T.Cast("uint8", {}))', {"A": (0, 255)}, {"A": (-1, 255)}),
])
def test_what_may_overflow_stays_where_it_is(step: str, ranges: Ranges, beyond: Ranges) -> None:
    value = f"T.max({step.format('A[vi, 0]')}, {step.format('A[vi, 1]')})"
    assert "T.max(A[vi, 0], A[vi, 1])" in hoisted(program(value, ranges=ranges))
    text = ""
    with suppress(ScheduleError):
        text = hoisted(program(value, ranges=beyond))
    # A widening conversion may still come later; what may lose bits does not.
    assert "T.max(A[vi, 0], A[vi, 1])" not in text


@pytest.mark.parametrize("value", [
    "A[vi, 0] + A[vi, 1]", "T.max(A[vi, 0], A[vi, 1])", "T.max(A[vi, 0] + 1, 7)", "T.max(A[vi, 0] + 1, A[vi, 1] + 2)",
    "T.max(A[vi, 0] * 2, A[vi, 1] * 2)", "T.max(b[vi] - A[vi, 0], b[vi] - A[vi, 1])", "T.max(A[vi, 0] + 1, A[vi, 1] - 1)",
    "T.max(T.shift_right(A[vi, 0], 1), T.shift_right(A[vi, 1], 2))",
    "T.max(T.shift_right(1, A[vi, 0]), T.shift_right(1, A[vi, 1]))",
    "T.max(T.min(A[vi, 0], 5), T.max(A[vi, 1], 5))", "T.max(3, T.max(A[vi, 0], 5))", "T.max(T.max(A[vi, 0], b[vi]), A[vi, 1])",
])
def test_other_values_stay(value: str) -> None:
    with refused(ScheduleError, "form"):
        hoisted(program(value, ranges=SMALL))


def test_a_reduction_is_written_out_first() -> None:
    func = parse("""from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((8, 3), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = -5
            C[vi] = T.max(C[vi], A[vi, vk] >> 2)
""")
    with refused(ScheduleError, "form"):
        Schedule(func).hoist_extremum("C")
    sch = Schedule(func)
    sch.expand_reduction("C")
    sch.hoist_extremum("C")


# -- a sum of products, stages, a window -------------------------------------------------------------------------------

POOLED = """from tvm.script import tirx as T

@T.prim_func
def main(X: T.Buffer((1, 1, {h}, {h}, 1, 16), "int8"), W: T.Buffer((2, 1, 3, 3, 16, 16), "int8"),
         b: T.Buffer((1, 2, 1, 1, 1, 16), "int32"), out: T.Buffer((1, 2, {o}, {o}, 1, 16), "int8")):
    P = T.alloc_buffer((1, 1, {h} + 2, {h} + 2, 1, 16), "int8")
    c = T.alloc_buffer((1, 2, {h}, {h}, 1, 16), "int32")
    g = T.alloc_buffer((1, 2, {h}, {h}, 1, 16), "int32")
    h = T.alloc_buffer((1, 2, {h}, {h}, 1, 16), "{kept}")
    m = T.alloc_buffer((1, 2, {o}, {o}, 1, 16), "int32")
    for n, o, y, x, p, i in T.grid(1, 1, {h} + 2, {h} + 2, 1, 16):
        with T.block("P"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [n, o, y, x, p, i])
            P[v0, v1, v2, v3, v4, v5] = T.if_then_else(
                1 <= v2 and v2 < {h} + 1 and 1 <= v3 and v3 < {h} + 1, X[v0, v1, v2 - 1, v3 - 1, v4, v5], T.int8(0))
    for n, o, y, x, p, k, r, s, i in T.grid(1, 2, {h}, {h}, 1, 16, 3, 3, 16):
        with T.block("c"):
            v0, v1, v2, v3, v4, v5, vr, vs, vi = T.axis.remap("SSSSSSRRR", [n, o, y, x, p, k, r, s, i])
            with T.init():
                c[v0, v1, v2, v3, v4, v5] = {start}
            c[v0, v1, v2, v3, v4, v5] += (
                T.Cast("int32", P[v0, 0, v2 + vr, v3 + vs, v4, vi]) * T.Cast("int32", W[v1, 0, vr, vs, v5, vi]))
    for n, o, y, x, p, k in T.grid(1, 2, {h}, {h}, 1, 16):
        with T.block("g"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [n, o, y, x, p, k])
            g[v0, v1, v2, v3, v4, v5] = {stage}
    for n, o, y, x, p, k in T.grid(1, 2, {h}, {h}, 1, 16):
        with T.block("h"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [n, o, y, x, p, k])
            h[v0, v1, v2, v3, v4, v5] = {narrowed}
    for n, o, y, x, p, k, r, s in T.grid(1, 2, {o}, {o}, 1, 16, {k}, {k}):
        with T.block("m"):
            v0, v1, v2, v3, v4, v5, vr, vs = T.axis.remap("SSSSSSRR", [n, o, y, x, p, k, r, s])
            with T.init():
                m[v0, v1, v2, v3, v4, v5] = {first}
            m[v0, v1, v2, v3, v4, v5] = T.{op}(
                m[v0, v1, v2, v3, v4, v5], T.Cast("int32", h[v0, v1, v2 * {s} + vr, v3 * {s} + vs, v4, v5]))
    for n, o, y, x, p, k in T.grid(1, 2, {o}, {o}, 1, 16):
        with T.block("out"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap("SSSSSS", [n, o, y, x, p, k])
            out[v0, v1, v2, v3, v4, v5] = T.Cast("int8", m[v0, v1, v2, v3, v4, v5])
"""
STAGE = "T.min(T.max(T.shift_right(c[v0, v1, v2, v3, v4, v5] + b[0, v1, 0, 0, v4, v5], 6), -90), 100)"


def pooled(
    side: int, size: int, step: int, stage: str = STAGE, kept: str = "int8", op: str = "max", bits: int = 12,
    narrowed: str = "", first: int | None = None, start: str = "0",
) -> PrimFunc:
    """A 3x3 convolution of 16 channels, a stage, and windows over what it stores."""
    narrowed = narrowed or ('T.Cast("int8", g[v0, v1, v2, v3, v4, v5])' if kept == "int8" else "g[v0, v1, v2, v3, v4, v5]")
    first = (-128 if op == "max" else 127) if first is None else first
    func = parse(POOLED.format(h=side, o=(side - size) // step + 1, k=size, s=step, stage=stage, kept=kept, op=op, first=first,
                               narrowed=narrowed, start=start))
    return replace(func, value_ranges=tuple((-(1 << bits), 1 << bits) if b.name == "b" else None for b in func.buffers))


def checked(space: Space, target: str, count: int) -> set[int]:
    """The cycles of points of the form that compares sums where they are made, each executed and compared."""
    rng, found = np.random.default_rng(0), set()
    form = [k for k, s in enumerate(space.sketches) if FUSED in s.done]
    points = space.sample(rng, 400)
    points = points[np.isin(points[:, 0], form)]
    assert len(points) >= count
    picked = [*points[np.argsort(space.draft(points))[: count // 2]], *points[: count - count // 2]]
    drafts, bounds = space.draft(np.stack(picked)), space.bound(np.stack(picked))
    for point, draft, least in zip(picked, drafts, bounds):
        result = measure(Candidate(space.func, target, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and result.cycles is not None, result
        assert max(least, space.machine_bound()) <= result.cycles and 0.8 < draft / result.cycles < 1.25
        found.add(result.cycles)
    # Of a trace with many small parts the search for its point may end beside it, after a while.
    assert any(np.array_equal(space.point_of(space.trace(point), anyhow=True), point) for point in picked[:2])
    return found


@pytest.mark.parametrize(("side", "size", "step", "op", "target"), in_turn([
    (8, 2, 2, "max"), (9, 3, 2, "max"), (8, 2, 3, "min"), (6, 2, 1, "max")]))
def test_windows_compare_sums_where_they_are_made(side: int, size: int, step: int, op: str, target: str) -> None:
    space = Space(pooled(side, size, step, op=op), target)
    assert checked(space, target, 6)


@pytest.mark.parametrize("kept", ["int8", "int32"])
def test_a_fused_window_beats_two_nests(kept: str) -> None:
    space = Space(pooled(16, 2, 2, kept=kept), "vta-de10")
    rng, best = np.random.default_rng(1), {}
    for made in (True, False):
        form = [k for k, s in enumerate(space.sketches) if (FUSED in s.done) == made]
        points = space.sample(rng, 800)
        points = points[np.isin(points[:, 0], form)]
        for _ in range(8):
            points = points[np.argsort(space.draft(points))[:64]]
            points = np.concatenate([points, space.mutate(np.repeat(points, 4, axis=0), rng)])
            points = points[np.isin(points[:, 0], form)]
        point = points[np.argmin(space.draft(points))]
        best[made] = measure(Candidate(space.func, "vta-de10", tuple(space.trace(point).as_json())), execute=True).cycles
    assert best[True] < 0.95 * best[False]


@pytest.mark.parametrize(("change", "there"), [
    ({}, True),
    ({"bits": 30}, True), ({"bits": 31}, True),  # it is part of the sum
    # Of a sum that may wrap behind a stage nothing is known.
    ({"stage": STAGE.replace("c[v0, v1, v2, v3, v4, v5] + b[0, v1, 0, 0, v4, v5]",
                             "T.min(c[v0, v1, v2, v3, v4, v5], 5) + b[0, v1, 0, 0, v4, v5]"), "bits": 31}, False),
    ({"stage": STAGE.replace("c[v0, v1, v2, v3, v4, v5] + b", "b[0, v1, 0, 0, v4, v5] - c[v0, v1, v2, v3, v4, v5] + b")}, False),
    ({"narrowed": 'T.Cast("int8", g[v0, v1, v2, v3, v4, v5] + 27)'}, True),
    ({"narrowed": 'T.Cast("int8", g[v0, v1, v2, v3, v4, v5] + 28)'}, False),  # 128 is -128 then
    ({"size": 4, "step": 4}, True), ({"side": 10, "size": 5, "step": 5}, True),  # 25 elements, which no other form takes
    ({"first": 3}, True),
])
def test_which_windows_are_fused(change: dict[str, object], there: bool) -> None:
    given_: dict[str, object] = {"side": 8, "size": 2, "step": 2, **change}
    space = Space(pooled(**given_), get_target("vta-de10"))  # type: ignore[arg-type]
    assert any(FUSED in s.done for s in space.sketches) == there
    if there:
        checked(space, "vta-de10", 2)


def test_windows_of_so_many_elements() -> None:
    assert fused.applies(pooled(8, 8, 8)) and not fused.applies(pooled(9, 9, 9)) and not fused.applies(pooled(8, 1, 1))


def read_by_each(size: tuple[int, int], step: tuple[int, int], stage: str, target: str) -> list[int]:
    """Of every block behind the sum, in order, how many elements it reads."""
    text = POOLED.format(h=16, o=3, k="K", s="S", stage=stage, kept="int32", op="max", first=-(1 << 31), start="0",
                         narrowed="g[v0, v1, v2, v3, v4, v5]")
    text = text.replace("K, K", f"{size[0]}, {size[1]}")
    text = text.replace("v2 * S", f"v2 * {step[0]}").replace("v3 * S", f"v3 * {step[1]}")
    sch = fused.apply(Schedule(parse(text)), get_target(target))
    assert sch is not None
    behind = [block for block in device_blocks(sch.func) if block.init is None][1:-1]
    return [len(loads_of(block)) for block in behind]


SHORT = "T.max(T.shift_right(c[v0, v1, v2, v3, v4, v5], 6), -90)"
B = "b[0, v1, 0, 0, v4, v5]"


@pytest.mark.parametrize(("size", "step", "stage", "reads"), [
    ((2, 2), (2, 2), SHORT, [4, 1]), ((3, 3), (3, 3), SHORT, [9, 1]),  # no two share any
    ((3, 3), (2, 2), SHORT, [3, 3, 1]), ((4, 4), (3, 3), SHORT, [4, 4, 1]),  # row by row, at one that no other reads
    ((2, 2), (1, 1), SHORT, [2, 2, 1]), ((3, 3), (1, 1), SHORT, [2, 2, 2, 2, 1]),  # they slide on
    ((2, 3), (2, 2), SHORT, [3, 2, 1]), ((3, 2), (2, 2), SHORT, [2, 3, 1]), ((3, 2), (1, 2), SHORT, [2, 2, 2, 1]),
    ((3, 3), (1, 2), SHORT, [3, 2, 2, 1]), ((3, 3), (2, 1), SHORT, [2, 2, 3, 1]),
    ((4, 4), (2, 2), SHORT, [16]), ((4, 2), (2, 2), SHORT, [8]), ((2, 4), (2, 2), SHORT, [8]),  # all of them are others', too
    # Nothing that begins with a constant is done to windows.
    ((2, 2), (2, 2), "c[v0, v1, v2, v3, v4, v5]", [4]), ((2, 2), (1, 1), "c[v0, v1, v2, v3, v4, v5]", [4]),
    ((2, 2), (2, 2), f"T.min(c[v0, v1, v2, v3, v4, v5], {B})", [5]),
    ((3, 3), (2, 2), f"T.min(c[v0, v1, v2, v3, v4, v5], {B})", [10]),
])
def test_where_windows_stand(size: tuple[int, int], step: tuple[int, int], stage: str, reads: list[int]) -> None:
    """A comparison in the place of a sum has stages of its own, elsewhere it is one with what is done behind it."""
    assert read_by_each(size, step, stage, "vta-de10") == reads
    for target in ("vta-de10-portable", "vta-fsim"):
        assert read_by_each(size, step, stage, target) == [size[0] * size[1] + (B in stage)]


CLIPPED = "T.min(T.shift_right(T.max(c[v0, v1, v2, v3, v4, v5], 0), 6), 100)"  # each element, by what a window compares


@pytest.mark.parametrize(("target", "size", "step"), [("vta-de10-portable", 2, 1), ("vta-fsim", 2, 2)])
def test_the_estimate_knows_what_is_moved_first(target: str, size: int, step: int) -> None:
    """The clip of each element has a place of its own, and the sum starts with what is moved there."""
    space = Space(pooled(12, size, step, CLIPPED, start="b[0, v1, 0, 0, v4, v5]"), target)
    points = space.sample(np.random.default_rng(0), 100)
    points = points[[space.sketches[k].done == (FUSED,) for k in points[:, 0]]][:8]
    cycles = np.array([lower_table(space.schedule(point).func, target).cycles() for point in points])
    ratios = space.draft(points) / cycles
    assert abs(np.median(ratios) - 1) < 0.03 and min(ratios) > 0.93


def test_what_windows_share_may_read_a_parameter() -> None:
    """The stages of a halo, here a bias and clips ahead of a comparison in place, load what they need."""
    space = Space(pooled(12, 3, 1), "vta-de10")
    form = next(k for k, s in enumerate(space.sketches)
                if SLID in s.done and "b" in {o.name for o in s.models[-1].nest.operands})
    points = space.sample(np.random.default_rng(0), 300)
    points = points[points[:, 0] == form]
    assert len(points)
    for point in points[:3]:
        assert measure(Candidate(space.func, "vta-de10", tuple(space.trace(point).as_json())), execute=True).ok


def test_what_others_read_is_stored_anyway() -> None:
    """A tensor between a sum and a window that is a result of the program, or that another block reads as well."""
    text = pooled(8, 2, 2).script()
    made = re.search(r'    h = T\.\w+\((\(.*\)), "int8"\)\n', text)
    assert made is not None
    result = text.replace(made[0], "").replace(', out: T.Buffer(', f', h: T.Buffer({made[1]}, "int8"), out: T.Buffer(')
    assert not fused.applies(parse(result))
    again = text.replace('out: T.Buffer(', f'more: T.Buffer({made[1]}, "int8"), out: T.Buffer(') + """
    for i, j, k, l in T.grid(2, 8, 8, 16):
        with T.block("more"):
            a, b1, c1, d = T.axis.remap("SSSS", [i, j, k, l])
            more[0, a, b1, c1, 0, d] = h[0, a, b1, c1, 0, d]
"""
    assert not fused.applies(parse(again)) and fused.applies(parse(text))
