"""Rows of an element: programs in plain layouts on machines whose vectors have several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from decided import within_bounds

from autosched import te
from autosched.ir.expr import Expr
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.target import Target, get_target
from space import Space
from space.normalise import normal_forms
from space.normalise.blocks import is_packed
from space.normalise.estimate import estimate

K = te.reduce_axis


def narrow(value: Expr, shift: int, low: int = -128) -> Expr:
    return te.max(te.min(value >> shift, 127), low).astype("int8")


def machine(rows: int) -> Target:
    """A machine with so many rows in a vector; without an instruction that only its simulator has, no hardware has several."""
    base = get_target("vta-de10")
    return get_target(Target(f"rows{rows}", replace(base.config, LOG_BATCH=rows.bit_length() - 1), "fsim"))


def dense(m: int, n: int = 20, k: int = 24, across: bool = False, down: bool = False) -> PrimFunc:
    """A matrix product, with an int32 addend along its columns, or its rows."""
    a, w = te.placeholder((m, k), "int8", name="a"), te.placeholder((n, k), "int8", name="w")
    b, d, r = te.placeholder((n,), "int32", name="b"), te.placeholder((m,), "int32", name="d"), K((0, k), name="k")
    s = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="s")
    given, summed = [a, w], s
    if across:
        given.append(b)
        s = te.compute((m, n), lambda i, j: summed[i, j] + b[j], name="t")
    if down:
        given.append(d)
        below = s
        s = te.compute((m, n), lambda i, j: below[i, j] + d[i], name="u")
    return te.create_prim_func([*given, te.compute((m, n), lambda *i: narrow(s(*i), 7), name="o")])


def convolution(ci: int, co: int, size: tuple[int, int] = (6, 8), k: int = 1, pad: int = 0, n: int = 1) -> PrimFunc:
    """A convolution with a bias."""
    h, w = size
    x, b = te.placeholder((n, ci, h, w), "int8", name="x"), te.placeholder((co,), "int32", name="b")
    f, image = te.placeholder((co, ci, k, k), "int8", name="w"), x
    if pad:
        image = te.compute((n, ci, h + 2 * pad, w + 2 * pad), lambda m, c, i, j: te.if_then_else(
            te.all(i >= pad, i < h + pad, j >= pad, j < w + pad), x[m, c, i - pad, j - pad], te.const(0, "int8")), name="padded")
    c, u, v = (K((0, e), name=name) for e, name in ((ci, "c"), (k, "u"), (k, "v")))
    s = te.compute((n, co, h + 2 * pad - k + 1, w + 2 * pad - k + 1), lambda m, o, i, j: te.sum(
        image[m, c, i + u, j + v].astype("int32") * f[o, c, u, v].astype("int32"), axis=[c, u, v]), name="s")
    t = te.compute(s.shape, lambda m, o, i, j: s[m, o, i, j] + b[o], name="t")
    return te.create_prim_func([x, f, b, te.compute(s.shape, lambda *i: narrow(t(*i), 5), name="o")])


def vector(n: int = 40, k: int = 24, behind: bool = False) -> PrimFunc:
    """A vector times a matrix, or ``behind`` it, of which no index is left for rows."""
    a, w, r = te.placeholder((k,), "int8", name="a"), te.placeholder((n, k), "int8", name="w"), K((0, k), name="k")

    def term(j: Expr) -> Expr:
        one, other = a[r].astype("int32"), w[j, r].astype("int32")
        return other * one if behind else one * other

    s = te.compute((n,), lambda j: te.sum(term(j), axis=r), name="s")
    return te.create_prim_func([a, w, te.compute((n,), lambda j: te.max(s[j] >> 6, 0).astype("int8"), name="o")])


def stages(shape: tuple[int, ...], dtype: str = "int32", fewer: bool = False) -> PrimFunc:
    """Two tensors that are added, the second one perhaps along one dimension."""
    x = te.placeholder(shape, dtype, name="x")
    y = te.placeholder(shape[1:2] if fewer else shape, dtype, name="y")
    return te.create_prim_func([x, y, te.compute(shape, lambda *i: te.max(
        x(*i).astype("int32") + (y(i[1]) if fewer else y(*i)).astype("int32"), -100).astype(dtype), name="o")])


def filters(h: int = 6) -> PrimFunc:
    """A filter for each channel."""
    x, w = te.placeholder((2, 20, h, 7), "int8", name="x"), te.placeholder((20, 3, 3), "int8", name="w")
    u, v = K((0, 3), name="u"), K((0, 3), name="v")
    s = te.compute((2, 20, h - 2, 5), lambda n, c, i, j: te.sum(
        x[n, c, i + u, j + v].astype("int32") * w[c, u, v].astype("int32"), axis=[u, v]), name="s")
    return te.create_prim_func([x, w, te.compute(s.shape, lambda *i: narrow(s(*i), 7), name="o")])


def layers() -> PrimFunc:
    """A product of a product."""
    a, w = te.placeholder((5, 24), "int8", name="a"), te.placeholder((20, 24), "int8", name="w")
    z, r, q = te.placeholder((33, 20), "int8", name="z"), K((0, 24), name="r"), K((0, 20), name="q")
    s = te.compute((5, 20), lambda i, j: te.sum(a[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="s")
    t = te.compute((5, 20), lambda i, j: narrow(s[i, j], 7, 0), name="t")
    p = te.compute((5, 33), lambda i, j: te.sum(t[i, q].astype("int32") * z[j, q].astype("int32"), axis=q), name="p")
    return te.create_prim_func([a, w, z, te.compute((5, 33), lambda i, j: narrow(p[i, j], 8), name="o")])


def made_weight() -> PrimFunc:
    """A product with what the program makes by another one, as a weight."""
    a, b = te.placeholder((8, 16), "int8", name="a"), te.placeholder((20, 16), "int8", name="b")
    w, r, q = te.placeholder((16, 16), "int8", name="w"), K((0, 16), name="r"), K((0, 16), name="q")
    s = te.compute((20, 16), lambda i, j: te.sum(b[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="s")
    t = te.compute((20, 16), lambda i, j: narrow(s[i, j], 7), name="t")
    p = te.compute((8, 20), lambda i, j: te.sum(a[i, q].astype("int32") * t[j, q].astype("int32"), axis=q), name="p")
    return te.create_prim_func([a, b, w, te.compute((8, 20), lambda i, j: narrow(p[i, j], 8), name="o")])


def rotated(rows: int = 5) -> PrimFunc:
    """Halves of rows turned by angles of their own: what a row is multiplied by differs from row to row."""
    x, c, d = te.placeholder((rows, 32), "int8", name="x"), *(te.placeholder((rows, 16), "int8", name=n) for n in "cd")
    turned = te.compute((rows, 16), lambda i, j: ((
        x[i, j].astype("int32") * c[i, j].astype("int32") - x[i, j + 16].astype("int32") * d[i, j].astype("int32")) >> 7
    ).astype("int8"), name="o")
    return te.create_prim_func([x, c, d, turned])


PROGRAMS: list[tuple[Callable[[], PrimFunc], int]] = [
    (lambda: dense(8, across=True), 4), (lambda: dense(7, down=True), 2), (lambda: dense(3, across=True, down=True), 4),
    (lambda: dense(8, k=1, across=True), 2), (vector, 2), (lambda: vector(behind=True), 2), (lambda: stages((4, 20)), 2),
    (lambda: stages((16, 40)), 16), (lambda: stages((3, 17, 5), "int8"), 4),
    (lambda: stages((1, 20, 3, 5), fewer=True), 2), (filters, 2), (layers, 4), (made_weight, 2),
    (lambda: convolution(20, 40, k=3, pad=1, n=3), 2), (lambda: convolution(32, 24), 4),
    (lambda: convolution(16, 16, k=3), 2), (rotated, 2), (rotated, 4),
]


@pytest.mark.parametrize(("made", "rows"), PROGRAMS)
def test_a_program_is_laid_out_in_rows_and_means_the_same(made: Callable[[], PrimFunc], rows: int) -> None:
    func, target = made(), machine(rows)
    inputs = list(random_inputs(func, seed=3))
    inputs = [x if x.dtype == np.int8 else np.random.default_rng(4).integers(-900, 900, x.shape, dtype=np.int32) for x in inputs]
    for _, sch in normal_forms(func, target):
        assert not verify(sch.func) and is_packed(split_host(sch.func).device, target)
        for got, wanted in zip(run(sch.func, *inputs), run(func, *inputs), strict=True):
            assert np.array_equal(got, wanted)
    space = Space(func, target)
    within_bounds(space, func, space.sample(np.random.default_rng(1), 60), 3)


def stored(func: PrimFunc, rows: int) -> list[int]:
    """The shape of what is stored in the plain form, in elements."""
    _, sch = normal_forms(func, machine(rows))[0]
    (out,) = (b for b in split_host(sch.func).device.buffers if b.name == "o_global")
    shape = [int(e.value) for e in out.shape]
    assert shape[-2:] == [rows, 16]
    return shape[:-2]


@pytest.mark.parametrize(("func", "rows", "shape"), [
    (dense(8, 32), 4, [2, 2]), (dense(9, 64), 4, [3, 4]),  # rows of the matrix, the last ones with zeros
    (vector(), 4, [1, 3]),  # no index is left: three rows of four stay empty
    (convolution(16, 32, (6, 8), n=2), 2, [1, 2, 6, 8]), (convolution(16, 32, (6, 8), n=1), 2, [1, 2, 3, 8]),  # images, or pixels
    (convolution(16, 32, (5, 8), n=1), 2, [1, 2, 5, 4]),  # those of which none stay empty
    (convolution(16, 32, (6, 8), 3, n=1), 2, [1, 2, 4, 6]),  # windows go over pixels
])
def test_what_leaves_fewest_rows_empty_becomes_them(func: PrimFunc, rows: int, shape: list[int]) -> None:
    assert stored(func, rows) == shape


def test_addends_without_rows_are_in_each_once() -> None:
    _, sch = normal_forms(dense(64, 32, across=True), machine(2))[0]
    (bias,) = (b for b in split_host(sch.func).device.buffers if b.name.startswith("b_"))
    assert [int(e.value) for e in bias.shape] == [2, 2, 16]  # two blocks of columns, not 32 times these


def test_choices_are_compared_by_the_time_of_whole_elements() -> None:
    func = convolution(16, 32, k=3, pad=1, n=4)
    times = [estimate(normal_forms(func, machine(rows))[0][1].func, machine(rows)).longest for rows in (1, 2, 4)]
    # 4 images of 48 places in 2 blocks of channels: 9 products each, a place to begin at, the bias (2), a shift, two clips.
    assert times == [4 * 48 * 2 * (9 + 1 + 5) // rows for rows in (1, 2, 4)]
