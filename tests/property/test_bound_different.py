"""The bound counts all results that the text tells apart, however often the host lays out what they are made of."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from decided import within_bounds

from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.visits import different

TARGET = get_target("vta-de10")
TAIL = "T.cast(T.min(T.max(acc[vo, vy] >> 5, -128), 127), 'int8')"


def line(data: str = "x[vy + vp]", shape: str = "(40,)", weight: str = "w[vo, vp]", own: str = "(20, 5)", out: str = TAIL,
         result: str = "(20, 36)", block: str = "") -> PrimFunc:
    """20 filters of five taps along 36 places of a line; or what of it is changed, with another ``block`` behind."""
    mid = "" if not block else '    mid = T.alloc_buffer((20, 36), "int8")\n'
    func = parse(f"""from autosched.script import T

@T.prim_func
def main(x: T.Buffer({shape}, "int8"), w: T.Buffer({own}, "int8"), out: T.Buffer({result}, "int8")):
    acc = T.alloc_buffer((20, 36), "int32")
{mid}    for o, y, p in T.grid(20, 36, 5):
        with T.block("acc"):
            vo, vy, vp = T.axis.remap("SSR", [o, y, p])
            with T.init():
                acc[vo, vy] = 0
            acc[vo, vy] += T.cast({data}, "int32") * T.cast({weight}, "int32")
    for o, y in T.grid(20, 36):
        with T.block("out"):
            vo, vy = T.axis.remap("SS", [o, y])
            {"mid" if block else "out"}[vo, vy] = {out}
{block}""")
    assert isinstance(func, PrimFunc)
    return func


def moved(index: str, extent: int) -> dict[str, str]:
    """A block behind it that moves what it makes, and the result's shape."""
    return {"result": f"(20, {extent})", "block": f"""    for o, y in T.grid(20, {extent}):
        with T.block("moved"):
            vo, vy = T.axis.remap("SS", [o, y])
            out[vo, vy] = mid[vo, {index}]
"""}


CASES = {
    "line": ({}, 720), "strided": ({"data": "x[vy * 2 + vp]", "shape": "(75,)"}, 720),
    "mirrored": (moved("35 - vy", 36), 720), "part": (moved("vy + 9", 20), 400),
    "twice": (moved("vy // 2", 72), 720),  # each of them stands at two places
    # Places, taps or filters that are the same, or may be for all that is known: nothing is counted.
    "halves": ({"data": "x[vy // 2 + vp]"}, 0), "one filter": ({"weight": "w[0, vp]"}, 0),
    "one place": ({"data": "x[vp]"}, 0), "folded": ({"weight": "w[vo, 0]"}, 0),
    "pairs of filters": ({"weight": "w[vo // 2, vp]"}, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_results_that_the_text_tells_apart_differ_for_some_parameters(name: str) -> None:
    given, count = CASES[name]
    func = line(**given)
    assert different(func, TARGET) == count
    draws = np.stack([run(func, *random_inputs(func, seed))[0].ravel() for seed in range(12)])
    assert count <= len(np.unique(draws, axis=1).T) <= 720


def test_all_of_them_count_in_forms_that_lay_out_repeatedly() -> None:
    """The plain form's data has an element for each of five taps, so results might be alike for all that its layout says."""
    space = Space(line(), TARGET)
    vectors, terms = ceil(720 / 16), space.machine.terms
    assert terms["products"] == vectors  # five products of sixteen that a visit may add
    assert terms["initial"] == vectors + 6 and terms["stages"] == 3 * vectors + 18
    halves = Space(line(data="x[vy // 2 + vp]"), TARGET).machine.terms
    assert halves["initial"] <= ceil(vectors / 2) + 6  # every second one is the one before


@pytest.mark.parametrize("given", [{}, moved("35 - vy", 36), moved("vy + 9", 20), {"data": "x[vy // 2 + vp]"}], ids=str)
def test_no_schedule_beats_it(given: dict[str, str]) -> None:
    space = Space(func := line(**given), TARGET)
    within_bounds(space, func, space.sample(np.random.default_rng(0), 60), 4)
