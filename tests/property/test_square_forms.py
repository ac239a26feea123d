"""Squares of places as lanes: whatever squares there are, the form says what the program says, and so does every point of it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from draws import accepted
from filters import filters
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.verify import verify
from autosched.target import Target, get_target
from autosched.workloads import of_func
from space import Space
from space.normalise import SQUARED, Wanted, normalised, squares
from space.normalise.bands import Sum, Tile
from space.normalise.blocks import is_packed

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim", "vta-ultra96")


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(*of: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(of)) for _ in range(rank))

    taps, steps, strides, pads = each(1, 2, 3, 3, 5, 7), each(1, 1, 1, 2, 3), each(1, 1, 1, 2, 3), each(0, 1, 2)
    size = tuple((t - 1) * d + 1 + draw(st.integers(0, (40, 14, 6)[rank - 1])) for t, d in zip(taps, strides))
    return {
        "size": size, "taps": taps, "steps": steps, "strides": strides, "pads": pads,
        "channels": draw(st.sampled_from([1, 1, 1, 2, 3, 8])), "co": draw(st.sampled_from([1, 1, 1, 2, 3, 8])),
        "groups": draw(st.sampled_from([2, 3, 5, 16, 20])), "n": draw(st.sampled_from([1, 1, 2])), "bias": draw(st.booleans()),
        "end": draw(st.sampled_from(["clip", "shift", "residual", "row"])), "inside": draw(st.booleans()) and any(pads),
    }


@given(programs(), st.sampled_from(TARGETS), st.integers(0, 1 << 20))
@settings(max_examples=14, deadline=None)
def test_any_squares_say_what_the_program_says(drawn: dict[str, Any], name: str, which: int) -> None:
    """Also those that are not chosen, because others are computed sooner."""
    chosen: list[Tile] = []

    def any_one(found: Sum, target: Target, work: int, places: Any = None, bands: Any = None) -> Tile | None:
        if not squares._groups(found):
            return None
        if places is None:
            there = list(squares._places(found, target))
            places = there[which % len(there)] if there else {}
        boxes = list(squares._boxes(found, places, target))
        if not boxes or not places:
            return None
        chosen.append(squares._tile(found, places, boxes[which // 7 % len(boxes)]))
        return chosen[-1]

    func, target = filters(**drawn), get_target(name)
    with patch.object(squares, "best", any_one):
        sch = normalised(func, target, Wanted(squared=True))
    if not sch.trace.insts:
        return
    assert chosen and not verify(sch.func) and is_packed(split_host(sch.func).device, target)
    inputs = random_inputs(func, 1)
    for got, wanted in zip(run(sch.func, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize(("drawn", "name"), [
    ({"size": (14, 14), "taps": (5, 5), "groups": 40, "pads": (2, 2)}, "vta-de10"),
    ({"size": (16, 15), "taps": (7, 7), "groups": 24, "end": "row"}, "vta-de10-portable"),
    ({"size": (12, 12), "taps": (5, 5), "channels": 4, "co": 4, "groups": 8, "pads": (2, 2), "end": "residual"}, "vta-fsim"),
    ({"size": (20, 20), "taps": (5, 5), "groups": 20, "strides": (2, 1), "n": 2, "bias": False}, "vta-de10-portable"),
    ({"size": (60,), "taps": (9,), "groups": 32, "strides": (1,), "steps": (1,), "pads": (4,), "end": "shift"}, "vta-de10"),
    ({"size": (14, 14), "taps": (5, 5), "groups": 32, "pads": (2, 2), "inside": True}, "vta-ultra96"),
    # Spans along one window, boxes of half a tile along the other one; windows with steps.
    ({"size": (28, 28), "groups": 24, "pads": (1, 1)}, "vta-de10"),
    ({"size": (12, 20), "taps": (5, 7), "groups": 20, "pads": (2, 3), "steps": (1, 2)}, "vta-ultra96"),
    ({"size": (7, 7), "groups": 40, "pads": (1, 1)}, "vta-fsim"),
])
def test_points_compute_what_the_program_says_within_their_bounds(drawn: dict[str, Any], name: str) -> None:
    rng = np.random.default_rng(5)
    func = filters(**drawn)
    space = Space(func, get_target(name))
    squared = [k for k, s in enumerate(space.sketches) if SQUARED in s.done]
    assert squared
    points = [p for p in space.sample(rng, 160) if p[0] in squared][:8]
    assert points
    tally, _ = accepted(of_func(func), space, points, 0.5, rng)
    assert not tally.faults
