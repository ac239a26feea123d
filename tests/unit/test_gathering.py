"""Windows that the host gathers, so that what a product sums over fills the lanes of elements."""

from __future__ import annotations

from itertools import product
from math import ceil

import numpy as np
import pytest

from autosched import te, tune
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.lower import lower_table
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import DIFFERENCES, FUSED, GATHERED, normal_forms
from space.normalise.blocks import device_blocks, extents, is_packed, product_of

TARGET = get_target("vta-de10")


def convolution(
    ci: int, k: int, *, stride: int = 1, pad: int = 0, size: int = 6, co: int = 5, made: bool = False, twice: bool = False
) -> PrimFunc:
    """A user's convolution; ``made``: of what a stage makes; ``twice``: the image with its zeros is a result as well."""
    h = size + 2 * pad
    o = (h - k) // stride + 1
    text = f"def main(x: T.Buffer(({ci}, {size}, {size}), 'int8'), w: T.Buffer(({co}, {ci}, {k}, {k}), 'int8'), "
    text += f"out: T.Buffer(({co}, {o}, {o}), 'int8')"
    text += f", also: T.Buffer(({ci}, {h}, {h}), 'int8')):\n" if twice else "):\n"
    text += f"    acc = T.alloc_buffer(({co}, {o}, {o}), 'int32')\n"
    if not twice:
        text += f"    also = T.alloc_buffer(({ci}, {h}, {h}), 'int8')\n"
    inside = " and ".join(f"{v} >= {pad} and {v} < {pad + size}" for v in ("vy", "vx"))
    value = f"T.if_then_else({inside}, x[vc, vy - {pad}, vx - {pad}], T.int8(0))" if pad else "x[vc, vy, vx]"
    if made:
        value = "T.max(x[vc, vy, vx], T.int8(1))"
    tap = f'T.Cast("int32", also[vc, vy * {stride} + vi, vx * {stride} + vj])'
    text += f"""    for c, y, xx in T.grid({ci}, {h}, {h}):
        with T.block("pad"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, xx])
            also[vc, vy, vx] = {value}
    for f, y, xx, c, i, j in T.grid({co}, {o}, {o}, {ci}, {k}, {k}):
        with T.block("conv"):
            vf, vy, vx, vc, vi, vj = T.axis.remap("SSSRRR", [f, y, xx, c, i, j])
            with T.init():
                acc[vf, vy, vx] = 0
            acc[vf, vy, vx] += {tap} * T.Cast("int32", w[vf, vc, vi, vj])
    for f, y, xx in T.grid({co}, {o}, {o}):
        with T.block("out"):
            vf, vy, vx = T.axis.remap("SSS", [f, y, xx])
            out[vf, vy, vx] = T.Cast("int8", T.min(T.max(acc[vf, vy, vx] >> 4, -128), 127))
"""
    func = parse("from autosched.script import T\n\n@T.prim_func\n" + text)
    assert isinstance(func, PrimFunc)
    return func


def gathered(func: PrimFunc) -> PrimFunc | None:
    """The program in the form in which the host gathers, or None."""
    return next((sch.func for done, sch in normal_forms(func, TARGET) if GATHERED in done), None)


def products(func: PrimFunc) -> int:
    """Products of elements that a packed program forms for every element of its result."""
    (block,) = [b for b in device_blocks(split_host(func).device) if product_of(b) is not None]
    size = extents(block)
    return int(np.prod([size[iv.var] for iv in block.iter_vars if iv.kind == "reduce"])) // TARGET.config.block_in


@pytest.mark.parametrize(("ci", "k", "stride", "pad"), [
    (3, 3, 1, 1), (3, 3, 2, 1), (2, 3, 1, 0), (17, 2, 1, 0), (5, 2, 2, 0),
    (1, 3, 1, 0), (1, 5, 1, 2), (1, 2, 2, 0),  # of one channel there is no index that would be lanes
])
def test_the_gathered_form_means_the_same_with_fewer_products(ci: int, k: int, stride: int, pad: int) -> None:
    func = convolution(ci, k, stride=stride, pad=pad)
    (_, plain), *_ = normal_forms(func, TARGET)
    made = gathered(func)
    assert made is not None and not verify(made) and is_packed(split_host(made).device, TARGET)
    assert products(made) == ceil(ci * k * k / 16) < products(plain.func) == k * k * ceil(ci / 16)
    inputs = random_inputs(func, 3)
    for got, wanted in zip(run(made, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    # What is around the image is the host's, too.
    assert "pad" not in {b.name for b in device_blocks(split_host(made).device)}


def test_every_group_of_channels_has_windows_of_its_own() -> None:
    func = parse("""
from autosched.script import T

@T.prim_func
def main(x: T.Buffer((2, 3, 6, 6), "int8"), w: T.Buffer((2, 16, 3, 3, 3), "int8"), out: T.Buffer((2, 16, 4, 4), "int8")):
    acc = T.alloc_buffer((2, 16, 4, 4), "int32")
    for g, f, y, xx, c, i, j in T.grid(2, 16, 4, 4, 3, 3, 3):
        with T.block("conv"):
            vg, vf, vy, vx, vc, vi, vj = T.axis.remap("SSSSRRR", [g, f, y, xx, c, i, j])
            with T.init():
                acc[vg, vf, vy, vx] = 0
            acc[vg, vf, vy, vx] += T.cast(x[vg, vc, vy + vi, vx + vj], "int32") * T.cast(w[vg, vf, vc, vi, vj], "int32")
    for g, f, y, xx in T.grid(2, 16, 4, 4):
        with T.block("out"):
            vg, vf, vy, vx = T.axis.remap("SSSS", [g, f, y, xx])
            out[vg, vf, vy, vx] = T.cast(T.max(T.min(acc[vg, vf, vy, vx] >> 5, 127), -128), "int8")
""")
    assert isinstance(func, PrimFunc)
    made = gathered(func)
    assert made is not None and products(made) == 2
    inputs = random_inputs(func, 3)
    assert np.array_equal(run(made, *inputs)[0], run(func, *inputs)[0])


@pytest.mark.parametrize(("change", "why"), [
    ({"ci": 16, "k": 3}, "whole elements already"),
    ({"ci": 15, "k": 1}, "one tap"),
    ({"ci": 31, "k": 2}, "8 products in both"),
    ({"ci": 3, "k": 3, "made": True}, "the accelerator makes what it reads"),
    ({"ci": 3, "k": 3, "pad": 1, "twice": True}, "what the taps read is a result as well"),
])
def test_there_is_no_such_form(change: dict[str, int], why: str) -> None:
    func = convolution(**change)  # type: ignore[arg-type]
    assert gathered(func) is None, why


def test_every_extent_has_it_exactly_where_it_is_fewer() -> None:
    for ci, k in product((1, 4, 15, 16, 17, 30, 31), (1, 2, 3)):
        made = gathered(convolution(ci, k, size=4, co=2))
        fewer = -(-ci * k * k // 16) < k * k * -(-ci // 16)
        assert (made is not None) == fewer, (ci, k)


def filters(taps: tuple[int, ...], co: int = 20, pad: int = 0, step: int = 1, unit: bool = False) -> PrimFunc:
    """Filters of one plane, or line, that nothing copies, or zeros stand around; ``unit``: with an index of its one channel."""
    one, given = (1,) * unit, [step * 5 + k - 2 * pad for k in taps]
    sums = [te.reduce_axis((0, k), name=f"k{d}") for d, k in enumerate(taps)]
    channel = [te.reduce_axis((0, 1), name="c") for _ in one]
    x, w = te.placeholder((*one, *given), "int8", name="x"), te.placeholder((co, *one, *taps), "int8", name="w")
    image = x
    if pad:
        image = te.compute((*one, *(n + 2 * pad for n in given)), lambda *i: te.if_then_else(
            te.all(*(v >= pad for v in i[unit:]), *(v < n + pad for v, n in zip(i[unit:], given))),
            x[(*i[:unit], *(v - pad for v in i[unit:]))], te.const(0, "int8")), name="padded")
    acc = te.compute((co, *(6 for _ in taps)), lambda o, *i: te.sum(
        image[(*channel, *(v * step + k for v, k in zip(i, sums)))].astype("int32")
        * w[(o, *channel, *sums)].astype("int32"), axis=[*channel, *sums]), name="acc")
    out = te.compute(acc.shape, lambda *i: te.min(te.max(acc[i] >> 4, -128), 127).astype("int8"), name="out")
    return te.create_prim_func([x, w, out])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("taps", "pad", "step", "count"), [
    ((3, 3), 0, 1, 1), ((5, 5), 2, 1, 2), ((4, 5), 0, 2, 2), ((9,), 4, 1, 1), ((17,), 3, 4, 2),
    ((2, 16), 0, 1, None), ((16,), 0, 4, None),  # boundary: one index fills the lanes as well, of what the host lays out anyway
    ((2, 8), 0, 1, 1), ((16,), 1, 4, 1),
])
def test_windows_of_one_channel(taps: tuple[int, ...], pad: int, step: int, count: int | None, unit: bool) -> None:
    func = filters(taps, pad=pad, step=step, unit=unit)
    made = gathered(func)
    assert (made is not None) == (count is not None)
    if made is not None:
        assert products(made) == count
        inputs = random_inputs(func, 3)
        assert np.array_equal(run(made, *inputs)[0], run(func, *inputs)[0])


def test_the_search_holds_it_against_the_others(tmp_path) -> None:
    func = convolution(3, 3, pad=1, size=10, co=16)
    space = Space(func, "vta-de10")
    (sketch,) = [k for k, s in enumerate(space.sketches) if GATHERED in s.done]
    report = tune(func, trials=16, log=tmp_path / "all", jobs=1, cold=True)
    assert report.verified and GATHERED in report.explain
    other = tune(func, trials=16, log=tmp_path / "one", jobs=1, cold=True, fix={"sketch": 0})
    assert other.verified and GATHERED not in other.explain and sketch != 0
    assert report.cycles is not None and other.cycles is not None and report.cycles < other.cycles


def pooled(size: int, *, channels: int = 3, also: bool = False) -> PrimFunc:
    """A convolution of so many channels, and the largest of its windows of two; ``also``: what it makes is a result as well."""
    o = size // 2
    func = parse(f"""from autosched.script import T

@T.prim_func
def main(x: T.Buffer(({channels}, {size + 2}, {size + 2}), "int8"), w: T.Buffer((32, {channels}, 3, 3), "int8"),
         {f'made: T.Buffer((32, {size}, {size}), "int8"), ' if also else ''}out: T.Buffer((32, {o}, {o}), "int8")):
    acc = T.alloc_buffer((32, {size}, {size}), "int32")
    {'' if also else f'made = T.alloc_buffer((32, {size}, {size}), "int8")'}
    for f, y, xx, c, i, j in T.grid(32, {size}, {size}, {channels}, 3, 3):
        with T.block("conv"):
            vf, vy, vx, vc, vi, vj = T.axis.remap("SSSRRR", [f, y, xx, c, i, j])
            with T.init():
                acc[vf, vy, vx] = 0
            acc[vf, vy, vx] += T.Cast("int32", x[vc, vy + vi, vx + vj]) * T.Cast("int32", w[vf, vc, vi, vj])
    for f, y, xx in T.grid(32, {size}, {size}):
        with T.block("made"):
            vf, vy, vx = T.axis.remap("SSS", [f, y, xx])
            made[vf, vy, vx] = T.Cast("int8", T.min(T.max(acc[vf, vy, vx] >> 6, 0), 127))
    for f, y, xx, i, j in T.grid(32, {o}, {o}, 2, 2):
        with T.block("pool"):
            vf, vy, vx, vi, vj = T.axis.remap("SSSRR", [f, y, xx, i, j])
            with T.init():
                out[vf, vy, vx] = T.int8(-128)
            out[vf, vy, vx] = T.max(out[vf, vy, vx], made[vf, vy * 2 + vi, vx * 2 + vj])
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("also", "behind"), [pytest.param(False, FUSED, marks=pytest.mark.slow), (True, DIFFERENCES)])
def test_a_pool_behind_gathered_windows_does_what_it_need_not(also: bool, behind: str, tmp_path) -> None:
    """Each alone leaves the other's work: nine products of three channels, or what the pool widens."""
    func = pooled(8, also=also)
    forms = dict(normal_forms(func, TARGET))
    both = [done for done in forms if {GATHERED, behind} <= {*done}]
    assert both == [(behind, GATHERED)] and (GATHERED,) in forms and (behind,) in forms
    made = forms[both[0]].func
    inputs = random_inputs(func, 0)
    assert verify(made) == [] and all(np.array_equal(a, b) for a, b in zip(run(made, *inputs), run(func, *inputs)))
    space = Space(func, "vta-de10")
    best = {}
    for k, sketch in enumerate(space.sketches):
        report = tune(func, trials=4, log=tmp_path / str(k), jobs=1, cold=True, fix={"sketch": k})
        assert report.verified and report.cycles is not None
        together = GATHERED in sketch.done
        best[together] = min(best.get(together, report.cycles), report.cycles)
    assert best[True] < 0.85 * best[False]


@pytest.mark.parametrize("channels", [3, pytest.param(16, marks=pytest.mark.slow)])
def test_windows_with_zeros_around_have_forms_that_lower(channels: int, tmp_path) -> None:
    """What stays in the accumulator has no zeros around it: the form of one nest was offered, looked best, and never lowered."""
    x, w = (te.placeholder(shape, "int8", name) for shape, name in (((channels, 8, 8), "x"), ((16, channels, 3, 3), "w")))
    c, i, j = (te.reduce_axis((0, n), name=name) for n, name in ((channels, "c"), (3, "i"), (3, "j")))
    y = te.compute((16, 6, 6), lambda f, u, v: te.sum(
        x[c, u + i, v + j].astype("int32") * w[f, c, i, j].astype("int32"), axis=[c, i, j]), name="y")
    made = te.compute((16, 6, 6), lambda f, u, v: te.max(te.min(y[f, u, v] >> 6, 127), 0).astype("int8"), name="made")
    around = te.compute((16, 8, 8), lambda f, u, v: te.if_then_else(
        te.all(u >= 1, u < 7, v >= 1, v < 7), made[f, u - 1, v - 1], te.const(0, "int8")), name="around")
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    out = te.compute((16, 6, 6), lambda f, u, v: te.max(around[f, u + p, v + q], axis=[p, q]), name="out")
    func = te.create_prim_func([x, w, out])
    space = Space(func, TARGET)
    points = space.sample(np.random.default_rng(0), 60)
    for k in range(len(space.sketches)):
        lower_table(space.schedule(points[points[:, 0] == k][0]).func, TARGET)
    report = tune(func, trials=4, log=tmp_path / "log", jobs=1, cold=True)
    assert report.verified and not report.failed


def test_one_of_both_alone_is_no_such_form() -> None:
    """Of windows of which the channels fill the lanes there is nothing to gather, and behind a convolution alone nothing else."""
    assert [done for done, _ in normal_forms(convolution(3, 3, pad=1), TARGET) if len(done) > 1] == []
    assert [done for done, _ in normal_forms(pooled(8, channels=16), TARGET) if GATHERED in done] == []
