"""Banded weights in drawn programs: the form says what the program says, and so does every point of it, within its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import accepted
from filters import filters
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.verify import verify
from autosched.target import get_target
from autosched.workloads import of_func
from space import Space
from space.normalise import BANDED, normal_forms
from space.normalise.blocks import is_packed

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim", "vta-ultra96")


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(*of: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(of)) for _ in range(rank))

    taps, steps, strides, pads = each(1, 2, 3, 3, 5, 7), each(1, 1, 2, 3), each(1, 1, 2, 3), each(0, 1, 2)
    longest = (60, 24, 9)[rank - 1]
    size = tuple((t - 1) * d + 1 + draw(st.integers(0, longest)) for t, d in zip(taps, strides))
    return {
        "size": size, "taps": taps, "steps": steps, "strides": strides, "pads": pads,
        "channels": draw(st.sampled_from([1, 1, 2, 3, 4, 8])), "co": draw(st.sampled_from([1, 1, 2, 3, 4, 8, 12])),
        "groups": draw(st.sampled_from([1, 1, 2, 5, 16])), "n": draw(st.sampled_from([1, 1, 2])), "bias": draw(st.booleans()),
        "end": draw(st.sampled_from(["clip", "shift", "residual", "row"])), "inside": draw(st.booleans()) and any(pads),
    }


@given(programs(), st.sampled_from(TARGETS))
@settings(max_examples=14, deadline=None)
def test_the_form_says_what_the_program_says(drawn: dict[str, Any], name: str) -> None:
    func, target = filters(**drawn), get_target(name)
    made = next((sch.func for done, sch in normal_forms(func, target) if BANDED in done), None)
    if made is None:
        return
    assert not verify(made) and is_packed(split_host(made).device, target)
    inputs = random_inputs(func, 1)
    for got, wanted in zip(run(made, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("seed", range(6))
def test_points_compute_what_the_program_says_within_their_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = [
        {"size": (9, 20), "groups": 5, "pads": (1, 1), "end": "residual"}, {"size": (13, 31), "steps": (2, 1), "bias": False},
        {"size": (10, 18), "channels": 4, "co": 4, "groups": 2, "end": "row"},
        {"size": (12, 17), "taps": (5, 4), "co": 3, "n": 2},
        {"size": (70,), "taps": (9,), "steps": (2,), "strides": (1,), "pads": (3,)},
        {"size": (7, 30), "strides": (1, 3), "channels": 3, "end": "shift"},
    ]
    func, name = filters(**drawn[seed]), TARGETS[seed % len(TARGETS)]
    space = Space(func, get_target(name))
    banded = [k for k, s in enumerate(space.sketches) if BANDED in s.done]
    assert banded
    points = [p for p in space.sample(rng, 128) if p[0] in banded][:8]
    assert points
    tally, _ = accepted(of_func(func), space, points, 0.5, rng)
    assert not tally.faults
