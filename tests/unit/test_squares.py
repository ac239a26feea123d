"""Squares of places as lanes, beside channels that are computed each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filters import filters
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import tune
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.schedule.primitives.reductions.toeplitz import Window
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.normalise import BANDED, SQUARED, banding, normal_forms, squares
from space.normalise.blocks import device_blocks, extents, is_packed, product_of
from space.normalise.estimate import estimate

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
TARGET = get_target("vta-de10")
FIVE: dict[str, Any] = {"size": (16, 16), "taps": (5, 5), "pads": (2, 2)}
SEVEN: dict[str, Any] = {"size": (16, 16), "taps": (7, 7), "pads": (3, 3)}


def forms(func: PrimFunc) -> dict[tuple[str, ...], PrimFunc]:
    return {done: sch.func for done, sch in normal_forms(func, TARGET)}


def products(func: PrimFunc) -> int:
    """Products of whole elements that a packed program forms."""
    blocks = [b for b in device_blocks(split_host(func).device) if product_of(b) is not None]
    return sum(int(np.prod(list(extents(b).values()))) // TARGET.config.block_in // TARGET.config.block_out for b in blocks)


@pytest.mark.parametrize(("given", "count"), [
    # Of as many lanes as an element has: what is left over of them are channels. 16 x 16 places of a channel are 8 x 4 boxes of
    # 2 x 4, whose windows reach 6 x 8 elements: six products for each of 10 pairs of channels and 32 boxes. Of two images weights
    # are loaded once: there 16 squares of a channel, of 4 x 4, take less, though they have four products each.
    ({**FIVE, "groups": 20}, 10 * 32 * 6), ({**SEVEN, "groups": 20}, None),
    # Two images; windows with holes.
    ({**FIVE, "groups": 20, "n": 2}, 2 * 20 * 16 * 4), ({**FIVE, "groups": 64, "strides": (2, 2), "pads": (4, 4)}, None),
    # Groups of several channels and filters, which are lanes too.
    ({**FIVE, "groups": 8, "channels": 4, "co": 4}, None),
    ({**FIVE, "groups": 20, "end": "residual"}, None), ({**FIVE, "groups": 20, "end": "row"}, None),
    ({**FIVE, "groups": 20, "inside": True}, 10 * 32 * 6),
    ({"size": (14, 14), "taps": (5, 5), "pads": (2, 2), "groups": 32}, 16 * 7 * 4 * 6),  # two channels, squares of 2 x 4
])
def test_the_form_means_the_same_with_fewer_products(given: dict[str, Any], count: int | None) -> None:
    func = filters(**given)
    made = forms(func)
    found, plain = made[(SQUARED,)], made[()]
    assert not verify(found) and is_packed(split_host(found).device, TARGET)
    inputs = random_inputs(func, 3)
    assert all(np.array_equal(a, b) for a, b in zip(run(found, *inputs), run(func, *inputs), strict=True))
    assert products(found) < products(plain)
    assert count is None or products(found) == count
    if (BANDED,) in made:  # which lays out what overlaps repeatedly
        assert estimate(found, TARGET) < estimate(made[(BANDED,)], TARGET)


@pytest.mark.parametrize(("given", "why"), [
    ({**FIVE, "channels": 16, "co": 16}, "no groups"),
    ({**FIVE, "groups": 2, "channels": 16, "co": 16}, "a group's channels are whole elements"),
    ({**FIVE, "groups": 20, "made": True, "pads": (0, 0)}, "the accelerator makes what is read"),
    ({"taps": (1, 1), "groups": 8}, "no window"),
    ({"size": (5, 5), "taps": (5, 5), "groups": 32}, "one result of a plane"),
    ({"size": (8, 8), "taps": (2, 2), "groups": 32}, "squares are as many as taps"),
    ({**FIVE, "groups": 8, "channels": 2, "co": 4}, "bands take less"),
    ({**FIVE, "groups": 64, "steps": (2, 2)}, "bands take less"),
])
def test_there_is_no_such_form(given: dict[str, Any], why: str) -> None:
    assert not any(SQUARED in done for done in forms(filters(**given))), why


def test_it_is_none_of_packed_programs() -> None:
    func = workload(f"{PROGRAMS / 'conv_depthwise_packed'}.py:main").func
    assert not any(SQUARED in done for done in forms(func))


def test_points_of_other_forms_stay_what_they_were() -> None:
    space = Space(filters(**FIVE, groups=20), TARGET)
    squared = [SQUARED in s.done for s in space.sketches]
    assert any(squared) and squared == sorted(squared) and not squared[0]  # behind all others


def test_one_home_tells_where_it_applies() -> None:
    assert banding.applies(filters(**FIVE, groups=20), TARGET, True)
    assert not banding.applies(filters(**FIVE, channels=16, co=16), TARGET, True)


def test_the_search_holds_it_against_the_others(tmp_path: Path) -> None:
    func = filters(**FIVE, groups=64)
    report = tune(func, trials=16, log=tmp_path / "all", jobs=1, cold=True)
    assert report.verified and SQUARED in report.explain
    other = tune(func, trials=16, log=tmp_path / "one", jobs=1, cold=True, fix={"sketch": 0})
    assert other.verified and SQUARED not in other.explain
    assert report.cycles is not None and other.cycles is not None
    assert report.machine_bound <= report.cycles < other.cycles * 7 // 10


def test_the_bound_counts_every_result_of_bands_whose_ends_leave_rows_out() -> None:
    """Of a band over several elements the first and the last reach a part of its results only: they are results all the same."""
    space = Space(filters(**FIVE, groups=20), TARGET)
    assert {(BANDED,), (SQUARED,)} <= {tuple(d for d in s.done if d in (BANDED, SQUARED)) for s in space.sketches}
    results = 20 * 16 * 16
    # A shift, a maximum and a minimum for each vector, and what each of their instructions takes besides.
    assert space.machine.terms["stages"] == 3 * (results // TARGET.config.block_out) + 3 * 6


@pytest.mark.parametrize(("given", "least"), [
    # Two channels, 7 x 4 tiles of 2 x 4 places. Rows go from box to box, three a tile, and the outermost boxes are padding; so is
    # the last one of four tiles that read two boxes each.
    ({"size": (14, 14), "taps": (5, 5), "pads": (2, 2), "groups": 32}, 16 * (7 * 3 - 2) * (4 * 2 - 1)),
    # Eight channels, 7 rows of four pairs of places: rows that are padding are none, of pairs the last one.
    ({"size": (7, 7), "pads": (1, 1), "groups": 40}, 5 * (7 * 3 - 2) * (4 * 2 - 1)),
    # Four channels, 2 x 2 places: four rows, each once, of all that two results read; no box along them.
    ({"size": (14, 14), "pads": (1, 1), "groups": 32}, 8 * 7 * (7 * 4 - 2)),
    # Two channels, 2 x 4 places, boxes of four rows and two columns: three a tile.
    ({"size": (28, 28), "pads": (1, 1), "groups": 32}, 16 * 14 * 7 * 3),
])
def test_boxes_of_padding_are_none_of_the_products(given: dict[str, Any], least: int) -> None:
    """What the host lays out has none of them, and a point leaves out what would multiply zeros."""
    space = Space(filters(**given), TARGET)
    model = next(s.model for s in space.sketches if SQUARED in s.done)
    assert model.padding.useful == least


@settings(max_examples=200)
@given(st.integers(1, 12), st.integers(2, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(1, 5),
       st.integers(0, 3), st.integers(0, 6))
def test_pairs_of_tiles_and_boxes_are_counted(
    results: int, places: int, step: int, stride: int, start: int, taps: int, low: int, less: int
) -> None:
    """As by hand: every box of each size, and of its elements those that are no padding."""
    window = Window(0, step, stride, start)
    high = low + max(results * step + taps * stride - less, 1)
    for box in [n for n in range(1, places * step + 1) if places * step % n == 0]:
        pairs, boxes, steps = 0, set(), set()
        for tile in range(-(-results // places)):
            first = start + tile * places * step
            reach = (places - 1) * step + (taps - 1) * stride
            for k in range(reach // box + 1):
                steps.add(k)
                if any(low <= first + k * box + e < high for e in range(box)):
                    pairs += 1
                    boxes.add(first + k * box)
        along = squares._Along(results, places, window, taps, box, (low, high))
        assert (along.products, along.steps, along.read) == (pairs, len(steps), len(boxes))
    span = squares._Along(results, places, window, taps, 0, (low, high))
    assert (span.products, span.steps, span.read) == (-(-results // places), 1, -(-results // places))
    alone = squares._Along(results, 1, window, taps, 1, (low, high))
    read = [start + r * step + t * stride for r in range(results) for t in range(taps)]
    used = [e for e in read if low <= e < high]
    assert (alone.products, alone.steps, alone.read) == (len(used), taps, len(set(used)))
