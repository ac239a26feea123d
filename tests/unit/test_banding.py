"""Lanes along rows: neighbouring results as lanes of products with banded weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filters import filters

from autosched import te, tune
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.normalise import BANDED, banding, normal_forms
from space.normalise.blocks import device_blocks, extents, is_packed, product_of
from space.normalise.estimate import estimate

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
TARGET = get_target("vta-de10")
ROW = {"steps": (1,), "strides": (1,), "pads": (0,)}


def form(func: PrimFunc) -> PrimFunc | None:
    """The program with lanes along rows, or None."""
    return next((sch.func for done, sch in normal_forms(func, TARGET) if BANDED in done), None)


def products(func: PrimFunc) -> int:
    """Products of whole elements that a packed program forms."""
    blocks = [b for b in device_blocks(split_host(func).device) if product_of(b) is not None]
    return sum(int(np.prod(list(extents(b).values()))) // TARGET.config.block_in // TARGET.config.block_out for b in blocks)


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    inputs = random_inputs(func, 3)
    return all(np.array_equal(a, b) for a, b in zip(run(other, *inputs), run(func, *inputs), strict=True))


@pytest.mark.parametrize(("given", "count"), [
    ({}, None), ({"bias": False, "end": "shift"}, None),
    ({**ROW, "size": (16,), "taps": (3,)}, 1), ({**ROW, "size": (17,), "taps": (3,)}, 2),  # fourteen results are a tile
    ({**ROW, "size": (40,), "taps": (5,)}, 3), ({**ROW, "size": (40,), "taps": (5,), "steps": (3,), "strides": (2,)}, 4),
    ({"groups": 8, "pads": (1, 1)}, None), ({"groups": 3, "steps": (2, 2), "size": (15, 40)}, None),
    ({"groups": 3, "strides": (2, 3), "size": (15, 40)}, None),
    ({"groups": 3, "taps": (5, 7), "size": (12, 20)}, None), ({"taps": (7, 1), "size": (20, 9)}, None),
    ({"groups": 4, "channels": 4, "co": 4, "pads": (1, 1)}, None), ({"groups": 4, "co": 3}, None),
    ({"channels": 3, "co": 2}, None),
    ({"groups": 2, "channels": 8, "co": 8, "pads": (1, 1)}, None), ({"n": 2, "groups": 3}, None),
    ({"groups": 5, "end": "residual", "pads": (1, 1)}, None), ({"groups": 5, "end": "row"}, None),
    ({"groups": 5, "pads": (1, 1), "inside": True}, None), ({"size": (5, 6, 9), "taps": (3, 2, 3), "steps": (1,) * 3,
                                                             "strides": (1,) * 3, "pads": (0,) * 3}, None),
])
def test_the_form_means_the_same_with_fewer_cycles(given: dict[str, Any], count: int | None) -> None:
    func = filters(**given)
    (_, plain), *_ = normal_forms(func, TARGET)
    made = form(func)
    assert made is not None and not verify(made) and is_packed(split_host(made).device, TARGET) and equal(func, made)
    assert estimate(split_host(made).device, TARGET) < estimate(split_host(plain.func).device, TARGET)
    assert count is None or products(made) == count
    # What is around a plane is the host's, too.
    assert "padded" not in {b.name for b in device_blocks(split_host(made).device)}


@pytest.mark.parametrize(("given", "why"), [
    ({"channels": 16, "co": 16}, "whole elements already"),
    ({"taps": (1, 1), "groups": 8}, "no window"),
    ({"groups": 5, "made": True}, "the accelerator makes what is read"),
    ({"groups": 2, "channels": 16, "co": 16}, "a group's channels are whole elements"),
    ({"size": (3, 3), "groups": 16}, "one result of a plane"),
    ({"groups": 8, "steps": (2, 2)}, "not fewer by an eighth"),
])
def test_there_is_no_such_form(given: dict[str, Any], why: str) -> None:
    func = filters(**given)
    assert form(func) is None and not banding.applies(func, TARGET), why


@pytest.mark.parametrize("name", ["conv_depthwise_packed", "conv_separable"])
def test_what_is_packed_or_read_by_another_sum_has_no_such_form(name: str) -> None:
    func = workload(f"{PROGRAMS / name}.py:main").func
    assert form(func) is None and (name == "conv_depthwise_packed" or not banding.applies(func, TARGET))


def test_as_many_tiles_as_lanes_are_no_lanes() -> None:
    """Sixteen tiles of fourteen results fill lanes better than fourteen in sixteen: the weight would be the data then."""
    made = form(filters(size=(226,), taps=(3,), **ROW))
    assert made is not None and products(made) == 16


def test_a_stage_may_read_a_sum_twice_and_its_neighbours() -> None:
    x, w = te.placeholder((4, 40), "int8", name="x"), te.placeholder((3,), "int8", name="w")
    k = te.reduce_axis((0, 3), name="k")
    s = te.compute((4, 38), lambda i, j: te.sum(x[i, j + k].astype("int32") * w[k].astype("int32"), axis=k), name="s")
    places = [lambda i, j: ((s[i, j] >> 2) - s[i, j]).astype("int8"), lambda i, j: (s[i, j] - s[i, j + 1]).astype("int8")]
    near, far = [te.create_prim_func([x, w, te.compute((4, e), f, name="out")]) for e, f in zip((38, 37), places)]
    for func in (near, far):  # what is read elsewhere is computed again there
        made = form(func)
        assert made is not None and equal(func, made)


@pytest.mark.parametrize("name", ["one_filter", "filter_edges", "filter_channels", "two_filters_of_one_plane", "conv_one_kernel"])
def test_programs_of_users_have_it(name: str) -> None:
    func = workload(f"{PROGRAMS / name}.py:main").func
    made = form(func)
    assert made is not None and equal(func, made)


def test_it_is_there_where_channels_leave_lanes_empty() -> None:
    for channels, co in ((1, 8), (16, 8), (8, 1), (1, 12), (4, 12), (8, 12), (16, 12), (1, 15), (1, 16), (16, 16)):
        func = filters(size=(6, 18), channels=channels, co=co, groups=2)
        made = form(func)
        assert made is None or equal(func, made)
        # Of twelve filters a tile has one place; lanes of the data are what is left then.
        assert (made is not None) == (co <= 8 or (co == 12 and channels <= 4)), (channels, co)


@pytest.mark.parametrize("name", ["conv_odd", "two_filters_of_one_plane", "filter_channels"])
def test_points_of_other_forms_stay_what_they_were(name: str) -> None:
    space = Space(workload(f"{PROGRAMS / name}.py:main").func, TARGET)
    banded = [BANDED in s.done for s in space.sketches]
    assert any(banded) and banded == sorted(banded) and not banded[0]  # behind all others


def test_the_search_holds_it_against_the_others(tmp_path: Path) -> None:
    func = filters(size=(20, 30), groups=16, pads=(1, 1))
    space = Space(func, TARGET)
    banded = [k for k, s in enumerate(space.sketches) if BANDED in s.done]
    assert banded and min(banded) > 0
    report = tune(func, trials=16, log=tmp_path / "all", jobs=1, cold=True)
    assert report.verified and BANDED in report.explain
    other = tune(func, trials=16, log=tmp_path / "one", jobs=1, cold=True, fix={"sketch": 0})
    assert other.verified and BANDED not in other.explain
    assert report.cycles is not None and other.cycles is not None
    assert space.machine_bound() <= report.cycles < other.cycles * 9 // 10
