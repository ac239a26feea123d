"""Places as lanes: rows and columns as one index, where channels would leave lanes empty."""

from __future__ import annotations

import numpy as np
import pytest
from decided import within_bounds
from turns import in_turn

from autosched import te
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.normalise import PLACES, normal_forms
from space.normalise.blocks import is_packed

TARGET = get_target("vta-de10")


def convolution(
    ci: int = 32, co: int = 24, size: tuple[int, int] = (6, 8), k: int = 1, stride: int = 1, pad: int = 0, n: int = 1,
    bias: bool = True, apart: bool = False, added: str = "o", groups: int = 1,
) -> PrimFunc:
    """A convolution in plain layout; ``apart``: its image is two, one behind the other's channels.

    A bias is ``added`` for every channel, or for what of place, rows and columns is named. Of several ``groups`` a channel
    reads those of its own.
    """
    h, w = size
    x = te.placeholder((n, ci, h, w), "int8", name="x")
    weights = te.placeholder((co, (ci + apart * 8) // groups, k, k), "int8", name="w")
    given, image = [x, weights], x
    if apart:
        z = te.placeholder((n, 8, h, w), "int8", name="z")
        given, image = [x, z, weights], te.compute((n, ci + 8, h, w), lambda m, c, i, j: te.if_then_else(
            c < ci, x[m, c, i, j], z[m, c - ci, i, j]), name="both")
    if pad:
        image = te.compute((n, ci, h + 2 * pad, w + 2 * pad), lambda m, c, i, j: te.if_then_else(
            te.all(i >= pad, i < h + pad, j >= pad, j < w + pad), x[m, c, i - pad, j - pad], te.const(0, "int8")), name="padded")
    rows, columns = ((s + 2 * pad - k) // stride + 1 for s in size)
    c, u, v = (te.reduce_axis((0, e), name=name) for e, name in (((ci + apart * 8) // groups, "c"), (k, "u"), (k, "v")))
    s = te.compute((n, co, rows, columns), lambda m, o, i, j: te.sum(
        image[m, c if groups == 1 else o // (co // groups) * (ci // groups) + c, i * stride + u, j * stride + v].astype("int32")
        * weights[o, c, u, v].astype("int32"), axis=[c, u, v]), name="s")
    if bias:
        read, extents = ["moij".index(name) for name in added], (n, co, rows, columns)
        b, summed = te.placeholder(tuple(extents[d] for d in read), "int32", name="b"), s
        given.append(b)
        s = te.compute(s.shape, lambda *at: summed(*at) + b(*(at[d] for d in read)), name="t")
    return te.create_prim_func([*given, te.compute(
        s.shape, lambda *i: te.min(te.max(s(*i) >> 5, -128), 127).astype("int8"), name="out")])


def form(func: PrimFunc, target: str = "vta-de10") -> PrimFunc | None:
    """The program whose lanes are places, or None."""
    return next((sch.func for done, sch in normal_forms(func, get_target(target)) if PLACES in done), None)


def stored(func: PrimFunc) -> list[int]:
    """The shape of what is stored, in elements."""
    (out,) = (b for b in split_host(func).device.buffers if b.name == "out_global")
    return [int(e.value) for e in out.shape][:-2]


@pytest.mark.parametrize(("given", "shape"), [
    ({}, [1, 24, 3]), ({"co": 17}, [1, 17, 3]), ({"co": 8}, [1, 8, 3]), ({"co": 1}, [1, 1, 3]),
    ({"size": (5, 8)}, [1, 24, 3]),  # 40 places in 48 lanes
    ({"n": 2}, [24, 6]), ({"bias": False}, [1, 24, 3]), ({"apart": True}, [1, 24, 3]),
    ({"ci": 8, "k": 3, "size": (6, 10)}, [1, 24, 2]), ({"k": 3, "pad": 1, "size": (12, 12)}, [1, 24, 9]),
    ({"ci": 8, "k": 2, "stride": 2, "size": (8, 8)}, [1, 24, 1]),
    ({"ci": 3, "k": 3, "pad": 1}, [1, 24, 3]), ({"ci": 5, "co": 20, "size": (9, 9)}, [1, 20, 6]),
    # Groups of 20 channels, of 12, and of 33 whose data is no whole element, with windows, of an element, and a batch.
    ({"ci": 48, "co": 60, "groups": 3}, [1, 3, 20, 3]), ({"ci": 32, "co": 24, "groups": 2}, [1, 2, 12, 3]),
    ({"ci": 40, "co": 66, "groups": 2}, [1, 2, 33, 3]), ({"n": 2, "ci": 48, "co": 60, "groups": 3}, [3, 20, 6]),
    # What is added is the same for all channels: only places can be its lanes.
    ({"co": 32, "added": "ij"}, [1, 32, 3]), ({"co": 16, "added": "ji"}, [1, 16, 3]),
    ({"n": 2, "co": 16, "added": "mij"}, [16, 6]),
])
def test_places_are_lanes_and_the_program_means_the_same(given: dict[str, int], shape: list[int]) -> None:
    func = convolution(**given)  # type: ignore[arg-type]
    made = form(func)
    assert made is not None and not verify(made) and is_packed(split_host(made).device, TARGET)
    assert stored(made) == shape
    inputs = list(random_inputs(func, seed=3))
    if inputs[-1].dtype == np.int32:
        inputs[-1] = np.random.default_rng(4).integers(-900, 900, inputs[-1].shape, dtype=np.int32)
    for got, wanted in zip(run(made, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("given", [
    {"co": 16}, {"co": 32}, {"co": 48, "k": 3, "pad": 1},  # boundary: no lane of channels is empty
    {"co": 24, "size": (2, 5)},  # boundary: ten places leave more lanes empty than 24 channels
    {"co": 24, "size": (6, 8), "k": 3},  # boundary: as many of 24 places as of 24 channels
    {"co": 24, "size": (1, 16)},  # rows alone are an index already
    {"co": 32, "added": "ij", "size": (6, 16)},  # boundary: columns fill lanes
    {"co": 16, "k": 3, "pad": 1, "added": "ij"},  # windows: the lanes are channels, and what is added repeats in them
    {"co": 32, "added": "i"}, {"co": 32, "added": "oij"},  # boundary: nothing for each place, or something for each result
    {"ci": 48, "co": 96, "groups": 3}, {"ci": 64, "co": 64, "groups": 4},  # boundary: groups of whole elements
    {"ci": 64, "co": 48, "groups": 2, "size": (2, 5)},  # boundary: ten places leave more lanes empty than 24 channels
    {"ci": 32, "co": 32, "groups": 32, "k": 3},  # a filter for each channel
    {"k": 3, "pad": 1, "size": (6, 8)},  # boundary: what windows share is loaded for each, longer than products take
])
def test_where_it_takes_no_less_there_is_no_such_form(given: dict[str, int]) -> None:
    assert form(convolution(**given)) is None  # type: ignore[arg-type]


def test_lanes_that_are_full_already_are_no_form_twice(user_programs) -> None:
    assert form(user_programs.program("dense_packed_loops")) is None


@pytest.mark.parametrize("name", [
    "dense:m=20,k=32,n=20", "conv2d:h=6,w=6,ci=32,co=24,k=1,groups=1", "conv2d:h=6,w=6,ci=24,co=24,k=3,pad=1,groups=24",
])
def test_of_tensors_in_elements_and_filters_of_one_channel_there_is_none(name: str) -> None:
    assert form(workload(name).func) is None


@pytest.mark.parametrize(("given", "target"), in_turn([
    {}, {"ci": 8, "k": 3, "pad": 1, "co": 20}, {"ci": 48, "co": 60, "groups": 3}]))
def test_points_of_it_mean_the_same_in_no_fewer_cycles_than_their_bounds(given: dict[str, int], target: str) -> None:
    func = convolution(**given)  # type: ignore[arg-type]
    space = Space(func, target)
    points = space.sample(np.random.default_rng(0), 200)
    own = points[[PLACES in space.meaning(p[None])[0].done for p in points]]
    within_bounds(space, func, own, 6)


def test_estimates_prefer_it_where_it_is_better() -> None:
    func = convolution(ci=32, co=24, size=(28, 28))
    space = Space(func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 400)
    (first,) = points[np.argsort(space.draft(points), kind="stable")[:1]]
    assert PLACES in space.meaning(first[None])[0].done
