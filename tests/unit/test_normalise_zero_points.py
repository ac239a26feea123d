"""Zero points that are tensors, of layers behind others: few steps of a sum are no reason to write it out."""

from __future__ import annotations

import numpy as np
import pytest
from spaces import computes

from autosched import te
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.kernel import of_schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, negation

DE10 = "vta-de10"


def narrow(e, shift: int):
    return te.max(te.min(e >> shift, 127), -128).astype("int8")


def layers(deep: int, of_first: bool, rows: int = 2, wide: int = 16) -> PrimFunc:
    """A layer with zero points by channel behind another one.

    Args:
        deep: channels between them, over which the second one sums up.
        of_first: whether the first one has zero points as well.
        rows: of both.
        wide: channels of the result.
    """
    shapes = (("x", (rows, 16)), ("w", (deep, 16)), ("v", (wide, deep)), ("zv", (wide,)))
    x, w, v, zv = (te.placeholder(shape, "int8", name=name) for name, shape in shapes)
    zw = te.placeholder((deep,), "int32", name="zw")  # the host sums up what these contribute
    k, r = te.reduce_axis((0, 16), name="k"), te.reduce_axis((0, deep), name="r")

    def less(e: te.Tensor, zero: te.Tensor, j, k):
        return e[j, k].astype("int32") - zero[j].astype("int32")

    p = te.compute((rows, deep), lambda i, j: te.sum(x[i, k].astype("int32") * (
        less(w, zw, j, k) if of_first else w[j, k].astype("int32")), axis=k), name="p")
    h = te.compute(p.shape, lambda i, j: narrow(p[i, j], 7), name="h")
    s = te.compute((rows, wide), lambda i, j: te.sum((h[i, r].astype("int32") - 1) * less(v, zv, j, r), axis=r), name="s")
    y = te.compute(s.shape, lambda i, j: narrow(s[i, j], 8), name="y")
    return te.create_prim_func([x, w, v, *([zw] if of_first else []), zv, y])


@pytest.mark.parametrize("deep", [negation.WRITTEN_OUT, negation.WRITTEN_OUT + 1])
def test_short_sums_of_products_are_the_gemms_as_long_ones_are(deep: int) -> None:
    """The ALU would multiply element by element what is written out, and has no product."""
    computes(layers(deep, of_first=False), DE10, 1, Wanted())


def test_the_bound_is_told_of_sums_of_the_host_behind_each_other() -> None:
    func = layers(16, of_first=True)
    space = Space(func, DE10)
    kernel = of_schedule(func, get_target(DE10), space.schedule(space.sample(np.random.default_rng(0), 1)[0]))
    assert 0 < space.machine_bound() <= kernel.cycles
    for seed, edge in ((0, False), (1, True)):
        inputs = random_inputs(func, seed)
        if edge:  # a negative zero point is no int8
            inputs = tuple(np.full_like(a, -128) for a in inputs)
        assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])
