"""Smaller tiles in front of the last parts: what they may be, compute and are worth, and how they are tried."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from decided import cut, deciding, no_twins, off, run, settled, within_bounds

from autosched.errors import ProgramError
from autosched.records import BestRecord, find_best
from autosched.report.ablation import decided
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.changes import two_cuts
from space.rules import NUMERIC, STRUCTURAL
from space.rules.fall import AROUND, KINDS, LONG, LONGER, SINCE, TILES

DENSE = "dense:m=12,k=64,n=256,bias=1"
CONV = "conv2d:h=6,w=5,ci=32,co=192,k=3,pad=1"
DEPTHWISE = "conv2d:h=14,w=14,ci=192,co=192,k=3,stride=2,pad=1,groups=12"


def kind(number: int, size: int) -> int:
    """The value of the column for so many tiles of so many iterations."""
    return KINDS.tolist().index([number, size])


@cache
def falling(name: str, target: str, count: int) -> tuple[Space, np.ndarray]:
    """Points with such tiles, made from drawn ones."""
    space, rng = Space(workload(name).func, target), np.random.default_rng(3)
    points, at = space.sample(rng, count), {n: k for k, n in enumerate(space.names)}
    nest, made = space.sketches[0].models[0].nest, []
    for row in points[points[:, 0] == 0]:
        axis = nest.axes[rng.choice([a for a in nest.spatial if nest.axes[a].extent > 5])]
        row[at["fall"]], last = rng.integers(1, len(KINDS)), int(rng.integers(1, 4))
        row[[at["head"], at["head_rise"], at["rise_kind"]]] = 0
        row[at["cut"]] = cut(space, axis.name, last)
        if rng.random() < 0.5 and last > 1:
            row[at["cut_again"]] = cut(space, axis.name, 1)
        left = axis.extent - last - int(KINDS[row[at["fall"]]].prod())
        row[at[f"tile_{axis.name}"]] = rng.choice([d for d in range(2, left + 1) if left % d == 0] or [1])
        made.append(row)
    rows, inside = space.repair(np.stack(made))
    rows = np.unique(rows[inside], axis=0)
    return space, rows[deciding(space, rows, ["fall"])]


@pytest.mark.parametrize(("given", "fits"), [
    ({"fall": (2, 2), "cut": ("n", 2), "tile_n": 5}, True),
    ({"fall": (1, 4), "cut": ("n", 3), "cut_again": ("n", 1), "tile_n": 9}, True),
    ({"fall": (1, 4), "cut": ("n", 2), "tile_n": 5}, False),  # one that nothing follows twice is the first of two cuts
    ({"fall": (1, 4), "cut": ("n", 2), "cut_again": ("m", 1), "tile_n": 5}, True),
    ({"fall": (2, 2), "tile_n": 4}, False),  # nothing is cut off
    ({"fall": (2, 2), "cut": ("n", 1), "tile_n": 11}, True),
    ({"fall": (2, 2), "cut": ("n", 2), "tile_n": 2}, False),  # they are as long as the others
    ({"fall": (2, 3), "cut": ("n", 1), "tile_n": 3}, False),
    ({"fall": (2, 2), "cut": ("n", 3), "tile_n": 9}, False),  # what follows is longer
    ({"fall": (2, 3), "cut": ("n", 3), "tile_n": 7}, True),
    ({"fall": (2, 3), "cut": ("n", 5), "cut_again": ("n", 2), "tile_n": 5}, True),  # the main part may be less than they are
    ({"fall": (1, 2), "cut": ("n", 3), "cut_again": ("n", 1), "tile_n": 11}, True),
    ({"fall": (1, 1), "cut": ("n", 3), "cut_again": ("n", 1), "tile_n": 4}, False),
])
def test_parts_fall_in_size(given: dict[str, object], fits: bool) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    row = np.zeros((1, space.width), dtype=np.int32)
    row[:, space.places(0)] = space.sketches[0].default
    for name, value in given.items():
        worth = kind(*value) if name == "fall" else cut(space, *value) if isinstance(value, tuple) else value  # type: ignore[misc]
        row[:, space.names.index(name)] = worth
    row[:, space.names.index("load_data")], row[:, space.names.index("load_weight")] = 0, 1
    (point,), _ = space.repair(row)
    at = space.names.index("fall")
    assert bool(point[at]) == fits, space.explain(point)
    if not fits:
        with pytest.raises(ProgramError):
            space.point(**dict(zip(space.names, row[0].tolist())))
        return
    number, size = given["fall"]  # type: ignore[misc]
    plan = space.meaning(point[None])[1]
    taken, last = plan.parts[plan.main + 1], plan.last
    axis = [a.name for a in space.sketches[0].models[0].nest.axes].index("n")
    assert plan.falls and taken.extents[0, axis] == number * size and taken.tiles[0, axis] == size
    assert taken.lows[0, axis] == plan.body.lows[0, axis] + plan.body.extents[0, axis] and len(last) == 1 + ("cut_again" in given)
    # Along the other axes they are as the others are, and what follows begins where they end.
    others = np.arange(3) != axis
    assert (taken.tiles[0, others] == plan.body.tiles[0, others]).all()
    assert last[0].lows[0, axis] == taken.lows[0, axis] + number * size
    assert "before these" in space.explain(point)
    assert sum(int(p.extents[0, :2].prod()) for p in plan.parts) == 12 * 16
    assert run(space, DENSE, point, execute=True).ok


@pytest.mark.parametrize(("columns", "fits"), [(8, False), (9, True)])
def test_the_main_part_keeps_something(columns: int, fits: bool) -> None:
    """Of eight columns a cut of one and seven before it leave none."""
    space = Space(workload(f"dense:m=12,k=64,n={16 * columns},bias=1").func, "vta-de10")
    row = np.zeros((1, space.width), dtype=np.int32)
    row[:, space.places(0)] = space.sketches[0].default
    at = space.names.index
    row[:, [at("cut"), at("cut_again"), at("fall")]] = cut(space, "n", 1), cut(space, "m", 1), kind(1, LONG)
    row[:, at("load_weight")] = 1
    model = space.sketches[0].models[0]
    tidy = model.repair(np.ascontiguousarray(row[:, space.places(0)]), settle=False)
    assert bool(tidy[0, model.index["fall"]]) == fits


def test_kinds_are_few_and_short() -> None:
    every = {(n, m) for n in range(1, 2 * TILES) for m in range(1, 2 * LONG) if n <= TILES and n * m <= LONG}
    assert {tuple(k) for k in KINDS[1:].tolist()} == every and len(KINDS) == len(every) + 1 and not KINDS[0].any()


@pytest.mark.parametrize(("name", "target"), [
    (CONV, "vta-de10"), (CONV, "vta-de10-portable"), (DEPTHWISE, "vta-de10"), ("residual:h=6,w=6,c=96", "vta-fsim"),
    (DENSE, "vta-pynq"), ("max_pool2d:h=16,w=16,c=192,k=2,stride=2", "vta-de10"), ("add:m=9,n=320", "vta-de10"),
])
def test_it_computes_the_same_within_its_bounds(name: str, target: str) -> None:
    space, points = falling(name, target, 1500)
    assert {1, 2} <= set(KINDS[points[:, space.names.index("fall")], 0].tolist())
    within_bounds(space, name, points, 5)


@pytest.mark.parametrize("name", [DENSE, CONV, DEPTHWISE])
def test_the_estimate_knows_it(name: str) -> None:
    space, points = falling(name, "vta-de10", 1500)
    best = points[np.argsort(space.draft(points), kind="stable")[:12]]
    assert float(np.median(np.abs(off(space, name, best)))) < 0.04
    # Of each by itself as of all together: what one row has, others may not have.
    assert space.draft(best).tolist() == [float(space.draft(p[None])[0]) for p in best]


def test_points_without_are_estimated_as_they_were_beside_points_with() -> None:
    space, points = falling(DENSE, "vta-de10", 1500)
    plain = np.where(np.arange(space.width) == space.names.index("fall"), 0, points)
    plain = plain[space.valid(plain)]
    assert len(plain) and space.draft(np.concatenate([points, plain]))[len(points) :].tolist() == space.draft(plain).tolist()


def test_of_some_rows_the_parts_are_theirs() -> None:
    space, points = falling(DENSE, "vta-de10", 1500)
    model, plain = space.sketches[0].models[0], np.where(np.arange(space.width) == space.names.index("fall"), 0, points)
    plain = plain[space.valid(plain)]
    rows = np.ascontiguousarray(np.concatenate([points[:5], plain[:5]])[:, space.places(0)])
    plan = model.plan(rows)
    for some, falls in ((np.arange(len(rows)), True), (np.arange(5), True), (np.arange(5, len(rows)), False)):
        own, alone = plan.of(some), model.plan(rows[some])
        assert own.falls == alone.falls == falls and len(own.last) == len(alone.last)
        assert [p.extents[p.on].tolist() for p in own.last] == [p.extents[p.on].tolist() for p in alone.last]


@pytest.mark.parametrize("name", [DENSE, DEPTHWISE])
def test_it_is_no_twin_of_a_point_without(name: str) -> None:
    space, points = falling(name, "vta-de10", 1500)
    no_twins(space, name, points, ["fall"], 12)


ALONE = {"fall": kind(1, 3), "cut": 3, "cut_again": 1, "tile_m": 1, "tile_n": 6, "load_weight": 1}  # behind a single tile


def narrow(**given: int) -> tuple[Space, np.ndarray]:
    """A point with what ``ALONE`` says and some decisions else; sizes of cuts are along the twelve columns."""
    space = Space(workload("dense:m=3,k=64,n=192,bias=1").func, "vta-de10")
    cuts = {name: cut(space, "n", v) for name, v in {**ALONE, **given}.items() if name in ("head", "cut", "cut_again")}
    return space, settled(space, **{**ALONE, **given, **cuts})


@pytest.mark.parametrize(("given", "falls"), [
    ({"init": 1}, False),  # written in front of three tiles along m: a first part, and a main one of smaller tiles
    ({}, True),  # of one tile a first part is none if it is longer than the others' tiles
    ({"init": 1, "tile_m": 3}, True),  # a single one has nothing to stand in front of
    ({"init": 1, "fall": kind(2, 2), "cut": 2, "tile_n": 3}, True),  # behind several there is a main part
    ({"init": 1, "fall": kind(1, 2), "tile_n": 7}, True),  # longer than a cut can say
    ({"init": 1, "head": 1, "tile_n": 5}, True),  # there is a first part
])
def test_behind_a_single_tile_it_is_no_twin_of_a_first_part(given: dict[str, int], falls: bool) -> None:
    space, point = narrow(**given)
    assert deciding(space, point[None], ["fall"]).all() == falls, space.explain(point)


def test_the_first_part_that_it_would_be_is_a_point() -> None:
    space, point = narrow(fall=0, head=6, head_init=1, init=1, tile_n=3)
    assert not deciding(space, point[None], ["fall"]).any()
    assert [int(part.extents[0, 1]) for part in space.meaning(point[None])[1].parts] == [6, 3, 2, 1]


def test_a_trace_of_it_is_not_taken_for_one_with_a_first_part() -> None:
    """That has the same steps, but is no point."""
    space, point = narrow()
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


@pytest.mark.parametrize("more", [
    {"fall": kind(1, 4), "cut": ("n", 3), "cut_again": ("n", 1), "tile_n": 9},
    {"fall": kind(2, 2), "cut": ("n", 2), "tile_n": 5},
    {"fall": kind(3, 1), "cut": ("n", 1), "cut_again": ("m", 2), "tile_n": 4},
])
def test_its_trace_is_found_again(more: dict[str, int | tuple[str, int]]) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    given = {k: cut(space, *v) if isinstance(v, tuple) else v for k, v in more.items()}
    for loads in ({"load_weight": 1}, {"load_data": 1, "load_weight": 1, "tile_m": 4}):
        point = settled(space, **given, **loads)
        assert deciding(space, point[None], ["fall"]).all()
        assert space.point_of(space.trace(point)).tolist() == point.tolist()


def test_two_cuts_along_an_axis_lead_to_it() -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    at = space.names.index
    twice = settled(space, cut=cut(space, "n", 5), cut_again=cut(space, "n", 1), tile_n=11, load_weight=1)
    changes = list(two_cuts(space, 0, twice))
    for number, size in ((1, 4), (2, 2), (4, 1)):
        for more in (0, cut(space, "m", 2)):
            assert {at("fall"): kind(number, size), at("cut"): cut(space, "n", 1), at("cut_again"): more} in changes
    assert len(changes) == 3 * len(space.choices[at("cut_again")])
    other = settled(space, cut=cut(space, "n", 5), cut_again=cut(space, "m", 1), tile_n=11, load_weight=1)
    assert not list(two_cuts(space, 0, other)), "along another axis"


@pytest.mark.parametrize(("head", "tile"), [(0, 4), (2, 5), (3, 9)])
def test_it_is_tried_around_points_and_not_bred(head: int, tile: int) -> None:
    """With the others' tiles, and the cut, such that tiles divide what is left; else it would be another decision than said."""
    space = Space(workload(DENSE).func, "vta-de10")
    sketch, at = space.sketches[0], space.names.index
    assert "fall" not in {rule.name for _, _, _, rule in sketch.deciding}
    own = settled(space, cut=cut(space, "n", 4), cut_again=cut(space, "n", 1), tile_n=tile, load_weight=1,
                  head=cut(space, "n", head) if head else 0)
    assert bool(own[at("head")]) == bool(head)
    near = space.neighbours(own)
    changed = [at("fall"), at("cut"), at("tile_n")]
    beside = {tuple(row[changed].tolist()) for row in near}
    for value, (number, size) in enumerate(KINDS.tolist()):
        for last in range(4 - AROUND, 4 + AROUND + 1):
            for others in range(max(2, tile - AROUND), tile + LONGER + 1):
                row = own.copy()
                row[changed] = value, cut(space, "n", last), others
                left = 16 - head - last - number * size
                falls = last > 1 and last - 1 <= size < others <= left and left % others == 0
                if value and falls and space.valid(row[None])[0]:
                    assert tuple(row[changed].tolist()) in beside
    assert sum(1 for value, _, _ in beside if value) > 2


@pytest.mark.parametrize("name", [DENSE, DEPTHWISE, "conv2d:h=56,w=56,ci=64,co=64,k=3,pad=1"])
def test_draws_and_children_are_those_of_a_space_without(name: str) -> None:
    """It is tried around points only: what a search begins with, and how it breeds, does not depend on it."""
    func = workload(name).func
    space, plain = Space(func, "vta-de10"), Space(func, "vta-de10", [r for r in (*STRUCTURAL, *NUMERIC) if r.name != "fall"])
    shared = [n for n, column in enumerate(space.names) if column != "fall"]
    for own, other in ((s, p) for s, p in zip(_made(space), _made(plain))):
        assert (own[:, shared] == other).all() and not deciding(space, own, ["fall"]).any()


def _made(space: Space) -> list[np.ndarray]:
    """A sample, eager points and children, of one stream of numbers."""
    rng = np.random.default_rng(11)
    points = space.sample(rng, 500)
    return [points, space.eager(rng, 300), space.mutate(points, rng)]


def test_less_is_left_behind_the_last_load() -> None:
    """Columns in tiles of eight, then four, two and one: better than any that has only the last two of these."""
    name = "conv2d:h=6,w=6,ci=512,co=512,k=3,pad=1"
    space = Space(workload(name).func, "vta-de10")
    given = {"cut": cut(space, "co", 3), "cut_again": cut(space, "co", 1), "tail_last": 3, "tail_last_size": 3, "drop_zeros": 1,
             "tile_ky": 1, "tile_kx": 1, "load_kernel": 7, "banks_kernel": 3, "order": 2}
    plain = settled(space, **given, head=cut(space, "co", 1), tile_co=4)
    own = settled(space, **given, head=cut(space, "co", 1), fall=kind(1, 4), tile_co=8)
    found = [run(space, name, point).cycles or 0 for point in (plain, own)]
    assert found[1] < 0.999 * found[0]
    assert np.abs(space.draft(np.stack([plain, own])) / found - 1).max() < 0.01


def test_points_of_the_version_before_are_known_without_a_search_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(workload(CONV).func, "vta-de10")
    monkeypatch.setattr(Space, "point_of", lambda *_, **__: pytest.fail("searched for"))
    point = space.sample(np.random.default_rng(1), 40)[-1]
    numbers = tuple(int(v) for n, v in enumerate(point) if space.names[n] != "fall")
    assert space.grown(numbers, SINCE - 1) == tuple(point.tolist())
    assert space.grown((*numbers, 0), SINCE - 1) == ()
    shipped = find_best(workload("resnet18.c10").func, get_target("vta-de10"))
    assert isinstance(shipped, BestRecord)
    trace = tuple(space.trace(point).as_json())
    record = replace(shipped, point=numbers, trace=trace, of=replace(shipped.of, space=SINCE - 1))
    assert decided(space, record) == (tuple(point.tolist()), "")


def test_without_the_rule_there_is_none() -> None:
    rules = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name != "fall"]
    assert "fall" not in Space(workload(DENSE).func, "vta-de10", rules).names
    uncut = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]
    assert "fall" not in Space(workload(DENSE).func, "vta-de10", uncut).names
