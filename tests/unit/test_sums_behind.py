"""A sum behind another one: both start with what is added to them, where one starts with what is made of the other."""

from __future__ import annotations

import numpy as np
import pytest
from decided import within_bounds

from autosched import te
from autosched.ir.expr import Expr
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import normalised
from space.rules.epilogue import Epilogue, _one_sum_behind_another

DE10 = get_target("vta-de10")


def clip(e: Expr) -> Expr:
    return te.min(te.max(e, -128), 127)


def joined(value: str, rows: int = 12, behind: bool = False) -> PrimFunc:
    """16 of 32 inputs summed up to s, of 16 others to t, by ``rows``; an int8 residual r, a bias b and one more, d.

    If ``behind``, what is stored is the value shifted by 4, in a block of its own.
    """
    x, w = te.placeholder((rows, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="w")
    y, v = te.placeholder((rows, 16), "int8", name="y"), te.placeholder((16, 16), "int8", name="v")
    r = te.placeholder((rows, 16), "int8", name="r")
    b, d = (te.placeholder((16,), "int32", name=name) for name in "bd")
    k, h = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 16), name="h")
    s = te.compute((rows, 16), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="s")
    t = te.compute((rows, 16), lambda i, j: te.sum(y[i, h].astype("int32") * v[j, h].astype("int32"), axis=h), name="t")

    def made(i: Expr, j: Expr) -> Expr:
        names = {"s": s[i, j], "t": t[i, j], "r": r[i, j].astype("int32"), "b": b[j], "d": d[j], "clip": clip}
        return eval(value, names)  # type: ignore[no-any-return]

    out = te.compute((rows, 16), made, name="m") if behind else None
    stored = te.compute((rows, 16), lambda i, j: (made(i, j) if out is None else out[i, j] >> 4).astype("int8"), name="out")
    given = [p for name, p in {"x": x, "w": w, "y": y, "v": v, "r": r, "b": b, "d": d}.items()
             if name in "xw" or name in value.replace("clip", "") or (name in "yv" and "t" in value)]
    return te.create_prim_func([*given, stored])


RESCALED = "clip(((s + b + 128) >> 8) + ((r * 3 + 2) >> 2))"
TAKEN = {
    RESCALED: (6, 0),  # shifts by 8, back by 2 and by 2, a constant, a minimum and a maximum
    "clip(((r * 3 + 2) >> 2) + ((s + b) >> 8))": (6, 0),
    "clip(clip((s + b + 128) >> 8) + ((r * 5 + 1) >> 1))": (8, 0),
    "clip(((s + b) >> 8) + (t >> 6))": (5, 0),
}
LEFT = {
    "clip(((s + 128) >> 8) + ((r * 3 + 2) >> 2))": "only a constant is added to the first",
    "clip((s >> 8) + ((r * 3 + 2) >> 2))": "nothing is",
    "clip((s + b + d) >> 8)": "one sum",
    "clip(((s + b) >> 8) + (s >> 4))": "the same one twice",
}


def operations(func: PrimFunc, target: str = "vta-de10") -> set[tuple[int, int]]:
    """Of every form whose sums start with what is added the operations behind them, on one accumulator and on two."""
    nests = [sketch.model.nest for sketch in Space(func, target).sketches if {"init by copy", "addend in front"} & {*sketch.done}]
    return {(sum(s.imm_ops for s in nest.stages), sum(s.tensor_ops for s in nest.stages)) for nest in nests}


@pytest.mark.parametrize("value", TAKEN)
def test_both_sums_start_with_what_is_added_to_them(value: str) -> None:
    func = joined(value)
    assert operations(func) == {TAKEN[value]}
    made = dict(Epilogue().apply(normalised(func, DE10), DE10))["init by copy"].func
    rng = np.random.default_rng(1)
    inputs = [a if a.dtype == np.int8 else rng.integers(-3000, 3000, a.shape, np.int32) for a in random_inputs(func, 3)]
    for got, wanted in zip(run(made, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted) and len(np.unique(got)) > 40


@pytest.mark.parametrize("value", LEFT)
def test_where_that_takes_nothing_away_sums_start_as_they_did(value: str) -> None:
    sch = normalised(joined(value), DE10)
    assert _one_sum_behind_another(sch, DE10) is None, LEFT[value]


def test_points_of_it_mean_the_same() -> None:
    space = Space(func := joined(RESCALED), DE10)
    points = space.sample(np.random.default_rng(0), 60)
    within_bounds(space, func, points[["init by copy" in space.sketches[p[0]].done for p in points]], 6)


def test_the_program_that_is_folded_is_left_as_it_was() -> None:
    sch = normalised(joined(RESCALED), DE10)
    before = split_host(sch.func).device
    assert isinstance(_one_sum_behind_another(sch, DE10), Schedule)
    assert split_host(sch.func).device == before


@pytest.mark.parametrize(("scales", "shifts"), [((4, 4), 0), ((5, 4), 0), ((4, 3), 1), ((3, 4), 1)])  # boundary: a bit is left
def test_a_shift_behind_both_that_only_undoes_their_scales_is_not_in_the_bound(scales: tuple[int, int], shifts: int) -> None:
    """Of (s << 4) + (t << 4), in a block, and a shift back by 4 behind it, a program makes s + t."""
    one, other = scales
    scaled = Space(joined(f"(s << {one}) + (t << {other})", 64, behind=True), DE10).machine.terms["stages"]
    assert scaled == Space(joined("s + t", 64), DE10).machine.terms["stages"] + shifts * (64 + 6)  # one for each row
