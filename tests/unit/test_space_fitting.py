"""Rows that are made to fit small memories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_machine import SMALL

from autosched.ir import PrimFunc
from autosched.script import parse
from autosched.search import TuneReport, tune
from autosched.search import proposer as module
from autosched.search.proposer import Proposer
from autosched.target import Target
from autosched.workloads import workload
from space import Space, fitting
from space.distinct import keys
from space.fitting import fitted
from space.shortage import shortage

CONV = Space(workload("resnet18.c8").func, SMALL)


@pytest.mark.parametrize("name", ["resnet18.c8", "dense:m=49,k=256,n=1000", "max_pool2d:h=6,w=6,c=16,k=2,stride=1,pad=0"])
def test_what_was_made_to_fit_is_in_the_space(name: str) -> None:
    space = Space(workload(name).func, SMALL)
    points = fitted(space, np.random.default_rng(0), 512)
    assert len(points) and space.valid(points).all()
    assert set(points[:, 0].tolist()) == set(range(len(space.sketches)))


def test_more_of_what_is_drawn_fits_in_more_places() -> None:
    """Of as many draws, several times as many are points, and they load in more ways."""
    drawn, made = CONV.eager(np.random.default_rng(0), 2048), fitted(CONV, np.random.default_rng(0), 2048)
    assert len(made) > 8 * len(drawn)
    ways = [len(set(keys(CONV.same_loads(points)))) for points in (drawn, made)]
    assert ways[1] > 1.5 * ways[0]


def test_the_same_state_gives_the_same() -> None:
    one, two = (fitted(CONV, np.random.default_rng(7), 256) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, fitted(CONV, np.random.default_rng(8), 256))


def test_rows_that_fit_are_left_alone_and_others_only_shrink() -> None:
    rng, space = np.random.default_rng(3), Space(workload("resnet18.c8").func, "vta-de10")
    rows = space.varied(space.hungry(rng, 600), rng)
    (sketch, _, own), *_ = space.groups(rows)
    once, _, plans = space.repaired(sketch, own)
    fits = space.sketches[sketch].capacity(plans)
    found = fitting._shrunk(space, sketch, own, rng)
    assert fits.any() and not fits.all()
    np.testing.assert_array_equal(found[fits], once[fits])
    columns = space.sketches[sketch].columns
    spatial = [n for n, c in enumerate(columns) if c.name in ("tile_co", "tile_y", "tile_x")]
    assert (found[~fits][:, spatial] <= once[~fits][:, spatial]).all()
    assert (found[~fits][:, spatial] < once[~fits][:, spatial]).any()
    for n, column in enumerate(columns):
        assert set(found[:, n].tolist()) <= set(column.choices)


def test_tiles_that_are_decided_stay() -> None:
    space = Space(workload("resnet18.c8").func, SMALL, fixed={"tile_x": 14})
    points = fitted(space, np.random.default_rng(0), 512)
    assert len(points) > 10 and (points[:, space.names.index("tile_x")] == 14).all()


@pytest.mark.parametrize(("above", "asked"), [(0, 0), (1, 1)])
def test_they_are_asked_for_where_few_draws_are_points(above: int, asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins: as many as the share says, and one too few."""
    count = len(CONV.eager(np.random.default_rng(0), 256))
    eager, calls = Space.eager, []
    monkeypatch.setattr(Space, "eager", lambda self, rng, n: eager(self, np.random.default_rng(0), n))
    monkeypatch.setattr(module, "fitted", lambda space, rng, n: calls.append(n) or fitted(space, rng, n))
    for name, value in (("GENERATIONS", 2), ("ENOUGH", 1), ("EAGER", 256), ("FEW", (count + above) / 256), ("ELSEWHERE", 0),
                        ("FITTED", 64), ("_FIRST", type(module._FIRST)())):
        monkeypatch.setattr(module, name, value)
    Proposer(CONV, 0).batch(8)
    assert calls == [64] * asked


FOUR = """
@T.prim_func
def four({params}, O: T.Buffer((8, 16), "int8")):
    for i, j in T.grid(8, 16):
        with T.block("O"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = T.cast({value}, "int8")
"""


@pytest.mark.parametrize(("names", "elements", "need"), [("AB", 4, 0), ("ABCD", 4, 5), ("ABCD", 8, 0)])
def test_a_machine_that_is_too_small_is_told_for_what(names: str, elements: int, need: int, tmp_path: Path) -> None:
    params = ", ".join(f'{n}: T.Buffer((8, 16), "int32")' for n in names)
    func = parse(FOUR.format(params=params, value=" + ".join(f"{n}[vi, vj]" for n in names)))
    assert isinstance(func, PrimFunc)
    target = Target("tiny", replace(SMALL.config, LOG_ACC_BUFF_SIZE=6 + elements.bit_length() - 1), "chisel")
    space = Space(func, target)
    whose = ", ".join(f"1 for {n}" for n in names)
    said = f"the accumulator holds {elements} elements, and the smallest tiles need {need}: {whose} and 1 for O" if need else ""
    assert shortage(space) == said and bool(space.count()[0]) == (not need)
    if need:
        report = tune(func, target=target, trials=2, jobs=1, log=tmp_path)
        assert isinstance(report, TuneReport) and (report.lack, report.cycles, report.stop) == (said, None, "exhausted")


def test_decisions_that_take_too_much_are_told_for_what() -> None:
    """What is fixed counts; what nobody fixed is as small as it can be."""
    func = workload("dense:m=64,k=64,n=64,bias=0").func
    assert shortage(Space(func, SMALL)) == ""
    whole = dict.fromkeys(("load_data", "load_weight"), 0)
    tiny = replace(SMALL, config=replace(SMALL.config, LOG_INP_BUFF_SIZE=7))
    assert shortage(Space(func, tiny)) == ""
    said = "the input memory holds 8 elements, and the smallest tiles need 256: 256 for data"
    assert shortage(Space(func, tiny, fixed=whole)) == said
