"""Groups of few channels become fewer groups of more, with weights that are zero between them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from autosched import compile, te, tune
from autosched.ir.expr import int_value
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.target import get_target
from space import Space
from space.normalise import GATHERED, normal_forms
from space.normalise.blocks import device_blocks, extents, is_packed, product_of

TARGET = get_target("vta-de10")
Layer = tuple[int, int, int, int]  # groups, channels of a group's data and of its results, and taps in each direction


def extents_of(tensor: te.Tensor) -> list[int]:
    return [int_value(e) or 0 for e in tensor.shape]


def convolution(data: te.Tensor, layer: Layer, n: int, pad: int) -> tuple[te.Tensor, te.Tensor]:
    """The sums of one layer, and its weights."""
    groups, ci, co, k = layer
    channels, h, _ = extents_of(data)
    if pad:
        whole = data
        data = te.compute((channels, h + 2 * pad, h + 2 * pad), lambda c, y, v: te.if_then_else(
            te.all(y >= pad, y < h + pad, v >= pad, v < h + pad), whole[c, y - pad, v - pad], te.const(0, "int8")), name=f"p{n}")
    w = te.placeholder((groups * co, ci, k, k), "int8", name=f"w{n}")
    c, i, j = (te.reduce_axis((0, e), name=v) for e, v in ((ci, "c"), (k, "i"), (k, "j")))
    size = h + 2 * pad - k + 1
    return te.compute((groups * co, size, size), lambda o, y, v: te.sum(
        data[c if groups == 1 else te.indexdiv(o, co) * ci + c, y + i, v + j].astype("int32") * w[o, c, i, j].astype("int32"),
        axis=[c, i, j]), name=f"s{n}"), w


def chain(*layers: Layer, size: int = 4, bias: bool = False, added: bool = False, pad: int = 0) -> PrimFunc:
    """Convolutions one behind the other; ``added``: the data to the result; of one group it is a plain one."""
    h = size + sum(k - 1 - 2 * pad for *_, k in layers)
    x = te.placeholder((layers[0][0] * layers[0][1], h, h), "int8", name="x")
    params, data = [x], x
    for n, layer in enumerate(layers):
        total, w = convolution(data, layer, n, pad)
        params.append(w)
        if bias:
            b = te.placeholder(extents_of(total)[:1], "int32", name=f"b{n}")
            params.append(b)
            total = te.compute(total.shape, lambda o, y, v, *, s=total, b=b: s[o, y, v] + b[o], name=f"t{n}")
        value = (lambda *i, s=total: (s(*i) >> 5) + x(*i).astype("int32")) if added and n == len(layers) - 1 else (
            lambda *i, s=total: s(*i) >> 5)
        data = te.compute(total.shape, lambda *i, value=value: te.max(te.min(value(*i), 127), -128).astype("int8"), name=f"y{n}")
    return te.create_prim_func([*params, data])


def batched(groups: int, rows: int, depth: int, columns: int, bias: Sequence[str] = (), made: bool = False) -> PrimFunc:
    """Products with an axis of the groups; ``bias``: the axes of one; ``made``: a stage makes the weights."""
    a = te.placeholder((groups, rows, depth), "int8", name="a")
    w = te.placeholder((groups, depth, columns), "int8", name="w")
    weight = te.compute(w.shape, lambda *i: te.max(w(*i), te.const(1, "int8")), name="m") if made else w
    r = te.reduce_axis((0, depth), name="r")
    total = te.compute((groups, rows, columns), lambda g, i, j: te.sum(
        a[g, i, r].astype("int32") * weight[g, r, j].astype("int32"), axis=r), name="s")
    params = [a, w]
    if bias:
        at = ["gij".index(v) for v in bias]
        b = te.placeholder(tuple([(groups, rows, columns)[d] for d in at]), "int32", name="b")
        params.append(b)
        total = te.compute(total.shape, lambda *i, s=total: s(*i) + b(*[i[d] for d in at]), name="t")
    out = te.compute(total.shape, lambda *i, s=total: te.max(te.min(s(*i) >> 4, 127), -128).astype("int8"), name="out")
    return te.create_prim_func([*params, out])


def products(func: PrimFunc) -> list[int]:
    """Products of elements that each of a packed program's blocks forms."""
    config = TARGET.config
    sums = [b for b in device_blocks(split_host(func).device) if product_of(b) is not None]
    return [prod(extents(b).values()) // (config.block_in * config.block_out) for b in sums]


def means_the_same(func: PrimFunc) -> list[int]:
    """The products of a program's plain form, after it has been held against the program."""
    (_, plain), *_ = normal_forms(func, TARGET)
    assert not verify(plain.func) and is_packed(split_host(plain.func).device, TARGET)
    inputs = random_inputs(func, 3)
    for got, wanted in zip(run(plain.func, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    return products(plain.func)


@pytest.mark.parametrize(("groups", "ci", "co", "needed"), [
    (8, 4, 4, 2),  # by four
    (5, 4, 4, 2),  # by three, and one that is no group
    (4, 8, 8, 2),
    (6, 6, 6, 3),  # by two: 12 of 16 lanes
    (3, 5, 5, 1),  # 15 of them
    (7, 3, 5, 3),  # by three, of the last of which two are none
    (2, 4, 4, 1),
    (8, 2, 2, 1),  # by element, these were four
    (4, 4, 8, 2),  # results fill their lanes with half as many groups as data
    (4, 8, 4, 2),
    (8, 4, 24, 12),  # 96 lanes of results instead of 4 times 32
    (4, 16, 4, 4),  # no fewer products, and a quarter of the results
    (4, 17, 3, 5),  # 68 are five elements, 17 are two
    (4, 4, 16, 4),  # no fewer, and a quarter of the data
])
def test_so_many_groups_become_one_as_take_the_fewest_products(groups: int, ci: int, co: int, needed: int) -> None:
    func = chain((groups, ci, co, 1), size=3)
    assert means_the_same(func) == [9 * needed]


@pytest.mark.parametrize(("groups", "ci", "co", "needed"), [
    (4, 16, 16, 4),  # whole elements already
    (4, 12, 12, 4),  # two are 24: four products instead of two
    (4, 9, 9, 4),
    (4, 12, 24, 8),
    (3, 24, 24, 12),
    (4, 17, 9, 8),  # two are 34 and 18: six products instead of four
])
def test_elsewhere_groups_stay_as_they_are(groups: int, ci: int, co: int, needed: int) -> None:
    func = chain((groups, ci, co, 1), size=3)
    assert means_the_same(func) == [9 * needed]
    (_, plain), *_ = normal_forms(func, TARGET)
    assert "diagonalize" not in [i.op for i in plain.trace.insts]


@pytest.mark.parametrize(("size", "merged"), [(5, True), (6, False)])
def test_as_many_products_of_fewer_loads_do_where_loads_are_more_than_stores(size: int, merged: bool) -> None:
    """Of 4 groups are loaded 4 size**2 vectors of data, by twos half of them, and 2048 weights; and stored 8 size**2 vectors."""
    func = chain((4, 8, 32, 1), size=size)
    assert means_the_same(func) == [8 * size**2]
    (_, plain), *_ = normal_forms(func, TARGET)
    assert ("diagonalize" in [i.op for i in plain.trace.insts]) == merged


@pytest.mark.parametrize(("layer", "size", "needed", "cycles"), [((3, 12, 4, 1), 6, 108, 800), ((8, 3, 2, 1), 10, 200, 1300)])
def test_more_products_do_where_fewer_would_load_for_longer(layer: Layer, size: int, needed: int, cycles: int) -> None:
    """With the image for a weight, 16 of whose lanes are one of it, there are a third fewer, and 930 and 2400 cycles."""
    func = chain(layer, size=size, bias=layer[0] == 8)
    assert means_the_same(func) == [needed]
    space = Space(func, TARGET)
    points = space.sample(np.random.default_rng(0), 100)
    assert space.draft(points).min() < cycles


@pytest.mark.parametrize(("pad", "bias"), [(0, True), (1, False), (1, True)])
def test_windows_of_groups(pad: int, bias: bool) -> None:
    assert means_the_same(chain((6, 4, 4, 3), bias=bias, pad=pad)) == [16 * 9 * 2]


@pytest.mark.parametrize(("layers", "added", "needed"), [
    (((1, 8, 32, 1), (8, 4, 4, 3), (1, 32, 8, 1)), False, [2 * 36, 2 * 9 * 16, 2 * 16]),  # what ResNeXt is made of
    (((1, 8, 20, 1), (5, 4, 4, 3), (1, 20, 8, 1)), False, [2 * 36, 2 * 9 * 16, 2 * 16]),  # the last group is not whole
    (((8, 4, 4, 3), (8, 4, 4, 3)), False, [2 * 9 * 36, 2 * 9 * 16]),
    (((8, 4, 8, 1), (8, 8, 4, 1)), False, [4 * 16, 4 * 16]),
    (((8, 4, 4, 1), (1, 32, 32, 1)), True, [2 * 16, 4 * 16, 2 * 16]),  # data and results of one layer have the same channels
    (((8, 4, 4, 1), (1, 32, 20, 1), (5, 4, 4, 1)), False, [2 * 16, 4 * 16, 2 * 16]),  # groups of two axes
    (((8, 4, 4, 1), (4, 8, 8, 1)), False, [2 * 16, 2 * 16]),  # two groups in one of the next layer
    (((2, 32, 16, 1), (8, 4, 4, 1)), False, [4 * 16, 2 * 16]),
    (((2, 8, 32, 1), (16, 4, 4, 3), (4, 16, 8, 1)), False, [4 * 36, 4 * 9 * 16, 4 * 16]),
    (((1, 32, 32, 1), (8, 4, 4, 1)), True, [4 * 16, 2 * 16, 2 * 16]),
])
def test_chains_are_laid_out_by_the_new_groups(layers: tuple[Layer, ...], added: bool, needed: list[int]) -> None:
    assert means_the_same(chain(*layers, added=added)) == needed


def test_a_chain_that_has_a_layout_when_all_groups_are_merged() -> None:
    block = (1, 32, 32, 1), (8, 4, 4, 1), (1, 32, 32, 1)
    assert sorted(means_the_same(chain(*block * 3, size=2))) == [2 * 4] * 3 + [4 * 4] * 6


def test_groups_across_each_other_have_no_layout() -> None:
    """Of six groups of four channels none is in one of four groups of six: only all of them are whole ones of both."""
    (_, plain), *_ = normal_forms(chain((6, 4, 4, 1), (4, 6, 6, 1)), TARGET)
    assert not is_packed(split_host(plain.func).device, TARGET)


@pytest.mark.parametrize(("bias", "needed"), [
    *[(axes, 2 * 5) for axes in ("", "gj", "gij", "g", "j", "ij")],
    ("i", 3 * 4),  # has lanes as it is where the rows of three groups are lanes
])
def test_groups_with_an_axis_of_their_own(bias: str, needed: int) -> None:
    assert means_the_same(batched(8, 5, 4, 4, bias)) == [needed]


def test_weights_that_the_program_makes_are_not_merged() -> None:
    (_, plain), *_ = normal_forms(batched(8, 5, 4, 4, made=True), TARGET)
    (_, given), *_ = normal_forms(batched(8, 5, 4, 4), TARGET)
    assert sum(products(given.func)) == 2 * 5 < sum(products(plain.func))


def test_groups_whose_channels_are_summed_up_are_merged_by_their_rows() -> None:
    """A stage has the groups' axis, and not that of their channels: no layout has both as one index."""
    a, w = te.placeholder((8, 6, 4), "int8", name="a"), te.placeholder((8, 4, 4), "int8", name="w")
    r, j = te.reduce_axis((0, 4), name="r"), te.reduce_axis((0, 4), name="j")
    s = te.compute((8, 6, 4), lambda g, i, j: te.sum(a[g, i, r].astype("int32") * w[g, r, j].astype("int32"), axis=r), name="s")
    y = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 3, 127), -128).astype("int8"), name="y")
    t = te.compute((8, 6), lambda g, i: te.sum(y[g, i, j].astype("int32"), axis=j), name="t")
    out = te.compute((8, 6), lambda *i: te.max(te.min(t(*i), 127), -128).astype("int8"), name="out")
    # 24 rows of four groups are two elements, for each of 4 columns. By channels these were 2 times 6 products.
    assert means_the_same(te.create_prim_func([a, w, out])) == [2 * 2 * 4, 2 * 2 * 4]


@pytest.mark.parametrize(("among", "needed"), [("products", [10, 10]), ("stages", [12, 12])])
def test_weights_that_several_read(among: str, needed: list[int]) -> None:
    """Each product has zeros of its own between them; beside a stage, which reads them as they are, the other factor has them."""
    a, b = (te.placeholder((8, 5, 4), "int8", name=n) for n in "ab")
    w = te.placeholder((8, 4, 4), "int8", name="w")
    outs = []
    for data in (a, b) if among == "products" else (a,):
        r = te.reduce_axis((0, 4), name="r")
        s = te.compute((8, 5, 4), lambda g, i, j, *, x=data, r=r: te.sum(
            x[g, i, r].astype("int32") * w[g, j, r].astype("int32"), axis=r), name=f"s{data.name}")
        outs.append(te.compute(
            s.shape, lambda *i, s=s: te.max(te.min(s(*i) >> 3, 127), -128).astype("int8"), name=f"o{data.name}"))
    if among == "stages":
        outs.append(te.compute(w.shape, lambda *i: te.max(w(*i), te.const(0, "int8")), name="other"))
    params = [a, b, w] if among == "products" else [a, w]
    assert means_the_same(te.create_prim_func([*params, *outs])) == needed


def test_windows_that_the_host_gathers_are_merged_by_what_it_gathers() -> None:
    x = te.placeholder((8, 2, 5, 5), "int8", name="x")
    w = te.placeholder((8, 8, 2, 2, 2), "int8", name="w")
    c, i, j = (te.reduce_axis((0, 2), name=v) for v in "cij")
    s = te.compute((8, 8, 4, 4), lambda g, o, y, v: te.sum(
        x[g, c, y + i, v + j].astype("int32") * w[g, o, c, i, j].astype("int32"), axis=[c, i, j]), name="s")
    func = te.create_prim_func([x, w, te.compute(s.shape, lambda *q: te.max(te.min(s(*q) >> 4, 127), -128).astype("int8"),
                                                 name="out")])
    forms = {done: sch.func for done, sch in normal_forms(func, TARGET)}
    assert products(forms[()]) == [16 * 4 * 4]  # two groups have 16 results, and 4 of 16 lanes for each tap
    assert products(forms[(GATHERED,)]) == [16 * 4]  # and 16 of all taps
    inputs = random_inputs(func, 3)
    assert np.array_equal(run(forms[(GATHERED,)], *inputs)[0], run(func, *inputs)[0])


@pytest.mark.usefixtures("brief")
def test_a_tuned_kernel_computes_the_same(tmp_path) -> None:
    func = chain((1, 8, 20, 1), (5, 4, 4, 3), bias=True)
    report = tune(func, trials=8, log=tmp_path, jobs=1, cold=True)
    assert report.verified
    inputs = random_inputs(func, 5)
    assert np.array_equal(compile(func, log=tmp_path)(*inputs), run(func, *inputs)[0])


def test_every_point_of_a_sample_computes_the_same() -> None:
    from autosched.kernel import of_schedule

    func = chain((7, 3, 5, 2), size=3, bias=True)
    space = Space(func, TARGET)
    inputs = random_inputs(func, 5)
    for point in space.sample(np.random.default_rng(0), 4):
        kernel = of_schedule(func, TARGET, space.schedule(point))
        assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])
