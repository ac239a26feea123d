"""Means and sums of windows as products with ones: the form says what the program says, and so do its points, within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import accepted
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.target import get_target
from autosched.workloads import of_func
from space import Space
from space.normalise import BANDED, ONES, normal_forms
from space.normalise.blocks import is_packed

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim", "vta-ultra96")


def means(size: tuple[int, ...] = (12, 12), taps: tuple[int, ...] = (3, 3), channels: int = 8, n: int = 1,
          steps: tuple[int, ...] = (1, 1), pads: tuple[int, ...] = (1, 1), last: bool = False, times: int = 1) -> PrimFunc:
    """Sums over windows of each channel, multiplied and shifted; channels first, or last."""

    def at(b: Any, c: Any, places: Any) -> tuple[Any, ...]:
        return (b, *places, c) if last else (b, c, *places)

    def shape(places: Any) -> tuple[Any, ...]:
        return at(n, channels, places)

    def apart(i: Any) -> tuple[Any, Any, Any]:
        return (i[0], i[-1], i[1:-1]) if last else (i[0], i[1], i[2:])

    x = te.placeholder(shape(size), "int8", name="x")

    def padded(*i: Any) -> Any:
        b, c, places = apart(i)
        inside = te.all(*[t for k, p, e in zip(places, pads, size) for t in (k >= p, k < p + e)])
        return te.if_then_else(inside, x[at(b, c, [k - p for k, p in zip(places, pads)])], te.const(0, "int8"))

    image = te.compute(shape([e + 2 * p for e, p in zip(size, pads)]), padded, name="p") if any(pads) else x
    over = [te.reduce_axis((0, t), name=f"r{k}") for k, t in enumerate(taps)]

    def summed(*i: Any) -> Any:
        b, c, places = apart(i)
        read = [k * s + r for k, s, r in zip(places, steps, over)]
        return te.sum(image[at(b, c, read)].astype("int32"), axis=over)

    ends = shape([(e + 2 * p - t) // s + 1 for e, p, t, s in zip(size, pads, taps, steps)])
    s = te.compute(ends, summed, name="s")

    def mean(*i: Any) -> Any:
        return te.min(te.max((s[i] * times if times > 1 else s[i]) >> (9 if times > 1 else 3), -128), 127).astype("int8")

    return te.create_prim_func([x, te.compute(ends, mean, name="out")])


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 2]))

    def each(*of: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(of)) for _ in range(rank))

    taps, pads = each(1, 2, 3, 3, 5), each(0, 1, 1, 2)
    return {
        "size": tuple(t + draw(st.integers(0, (40, 14)[rank - 1])) for t in taps), "taps": taps, "steps": each(1, 1, 1, 2),
        "pads": pads, "channels": draw(st.sampled_from([1, 3, 8, 16, 20])), "n": draw(st.sampled_from([1, 1, 2])),
        "last": draw(st.booleans()), "times": draw(st.sampled_from([1, 1, 57])),
    }


@given(programs(), st.sampled_from(TARGETS))
@settings(max_examples=14, deadline=None)
def test_the_form_says_what_the_program_says(drawn: dict[str, Any], name: str) -> None:
    func, target = means(**drawn), get_target(name)
    made = next((sch.func for done, sch in normal_forms(func, target) if ONES in done), None)
    if made is None:
        return
    assert not verify(made) and is_packed(split_host(made).device, target)
    inputs = random_inputs(func, 1)
    for got, wanted in zip(run(made, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize(("drawn", "name"), [
    ({}, "vta-de10"), ({"size": (20, 13), "channels": 20}, "vta-de10-portable"),
    ({"last": True, "channels": 16}, "vta-fsim"),
    ({"times": 57}, "vta-de10"),
    ({"size": (40,), "taps": (9,), "steps": (1,), "pads": (4,)}, "vta-de10"), ({"n": 2, "pads": (0, 0)}, "vta-ultra96"),
])
def test_points_compute_what_the_program_says_within_their_bounds(drawn: dict[str, Any], name: str) -> None:
    rng = np.random.default_rng(3)
    func = means(**drawn)
    space = Space(func, get_target(name))
    by_ones = [k for k, s in enumerate(space.sketches) if {BANDED, ONES} <= {*s.done}]
    assert by_ones == list(range(len(space.sketches) - len(by_ones), len(space.sketches))) and by_ones  # behind all others
    points = [p for p in space.sample(rng, 80) if p[0] in by_ones][:6]
    assert points
    tally, _ = accepted(of_func(func), space, points, 0.5, rng)
    assert not tally.faults


@pytest.mark.parametrize("drawn", [
    {"taps": (1, 1), "pads": (0, 0)}, {"size": (3, 3), "pads": (0, 0)},
    {"taps": (2, 2), "steps": (2, 2), "pads": (0, 0), "channels": 16},
])
def test_there_is_no_such_form(drawn: dict[str, Any]) -> None:
    """Nothing is shared: no window, one result of a plane, windows side by side."""
    assert not any(ONES in done for done, _ in normal_forms(means(**drawn), get_target("vta-de10")))
