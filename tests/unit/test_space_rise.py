"""A first part of two kinds of tiles whose initial values are written together: what it may be, computes and is worth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from decided import cut, deciding, no_twins, off, run, settled, within_bounds

from autosched.errors import ProgramError
from autosched.ir.scopes import ACC
from autosched.lower import lower_table
from autosched.records import BestRecord, find_best
from autosched.report.ablation import decided
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa
from space import VERSION, Space, arranged
from space.changes import two_kinds
from space.rules import NUMERIC, STRUCTURAL
from space.rules.cuts import NAMES as CUTS
from space.rules.cuts import table, values
from space.rules.rise import FROM_WHOLE, NAMES, OTHERS, SINCE, TILES, Rise

DENSE = "dense:m=12,k=64,n=64,bias=1"
CONV = "conv2d:h=6,w=5,ci=32,co=192,k=3,pad=1"
DEPTHWISE = "conv2d:h=14,w=14,ci=192,co=192,k=3,stride=2,pad=1,groups=12"
ROWS = {"head": ("m", 5), "head_tile": ("m", 1), "tile_m": 2, "tile_n": 2, "head_init": 2, "load_data": 1, "load_weight": 2}


@cache
def risen(name: str, target: str, count: int) -> tuple[Space, np.ndarray]:
    """Points of both kinds, made from drawn ones: a first part of several tiles, its initial values in front of them."""
    space, rng = Space(workload(name).func, target), np.random.default_rng(3)
    points = space.sample(rng, count)
    made = []
    at, nest = {n: k for k, n in enumerate(space.names)}, space.sketches[0].models[0].nest
    for row in points[points[:, 0] == 0]:
        axis = nest.axes[rng.choice([a for a in nest.spatial if nest.axes[a].extent > 3])]
        tile, most = int(rng.integers(1, 3)), axis.extent // 2
        several = rng.integers(2, max(3, most // tile + 1))
        row[[at["head"], at["head_tile"]]] = cut(space, axis.name, min(tile * several, most)), cut(space, axis.name, tile)
        row[at["head_rise"]], row[at["rise_kind"]] = rng.integers(1, 1 + TILES), rng.integers(3)
        row[at["head_init"]] = max(space.choices[at["head_init"]])
        row[[k for n, k in at.items() if n.startswith("keep_")]] = 0
        # Tiles that divide what is left.
        left = axis.extent - min(tile * several, most) - (cut_off := int(rng.integers(0, 2)))
        row[at["cut"]] = cut(space, axis.name, 1) if cut_off else 0
        row[at[f"tile_{axis.name}"]] = rng.choice([d for d in range(tile, left + 1) if left % d == 0] or [1])
        made.append(row)
    rows, inside = space.repair(np.stack(made))
    rows = np.unique(rows[inside], axis=0)
    return space, rows[deciding(space, rows, NAMES)]


def given(space: Space, **more: int | tuple[str, int]) -> dict[str, int]:
    """Decisions, those of cuts by axis and size."""
    return {k: cut(space, *v) if isinstance(v, tuple) else v for k, v in {**ROWS, **more}.items()}


@pytest.mark.parametrize(("more", "fits"), [
    ({"head_rise": 1}, True),  # a row of two tiles, then four whole rows
    ({"head_rise": 2}, True),
    ({"head_rise": 3}, True),
    ({"head_rise": 4}, False),  # a single row is left: it has no values of others to go with
    ({"head_rise": 1, "rise_kind": OTHERS}, False),  # two rows of two columns each do not lie together among those of four
    ({"head_rise": 2, "rise_kind": OTHERS}, False),  # of three rows no tiles of two
    ({"head_rise": 1, "rise_kind": OTHERS, "tile_n": 4}, False),  # a row is one tile then
    ({"head_rise": 2, "rise_kind": OTHERS, "tile_n": 4, "head": ("m", 6)}, True),
    ({"head_rise": 4, "rise_kind": OTHERS, "tile_n": 4, "head": ("m", 6)}, False),  # a single one of the others' is left
    ({"head_rise": 2, "rise_kind": FROM_WHOLE, "tile_n": 4, "head": ("m", 6)}, False),  # they are whole already
    ({"head_rise": 2, "tile_n": 4}, False),  # and what follows is no larger
    ({"head_rise": 2, "head_init": 1}, False),  # initial values row after row
    ({"head_rise": 2, "head_init": 0}, False),  # tile after tile
    ({"head_rise": 2, "head_tile": 0}, False),  # one tile
    ({"head_rise": 2, "head": 0}, False),  # nothing is first
    ({"head_rise": 0, "rise_kind": OTHERS}, False),  # of one kind
])
def test_both_kinds_are_several_and_what_follows_is_larger(more: dict[str, int | tuple[str, int]], fits: bool) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    decided = given(space, **more)
    decided["cut"] = cut(space, "m", 1) if decided["head"] == cut(space, "m", 5) else 0
    point = settled(space, **decided)
    asked = {name: decided.get(name, 0) for name in NAMES}
    assert ({name: int(point[space.names.index(name)]) for name in NAMES} == asked) == fits
    if not fits:
        with pytest.raises(ProgramError, match="has a simpler twin"):
            space.point(**{**dict(zip(space.names, point.tolist())), **asked})
        return
    _, plan = space.meaning(point[None])
    assert plan.main == 2 and "init together" in space.explain(point)
    begins, behind = plan.parts[:2]
    assert int((begins.extents + behind.extents)[0, 0]) in (5, 6)
    assert begins.tiles[0, 0] == 1 and begins.extents[0, 0] == asked["head_rise"] == behind.lows[0, 0]
    others = np.minimum(plan.body.tiles, behind.extents)
    assert (behind.tiles == (others if asked["rise_kind"] else np.where(np.arange(3) > 0, behind.extents, 1))).all()
    table = lower_table(space.schedule(point).func, space.target).table
    copies = (table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.IMM] < 0)
    products = (table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)
    assert int(copies[: int(products.argmax())].sum()) == 2, "those of both stand in front of all products"
    assert run(space, DENSE, point, execute=True).ok


@pytest.mark.parametrize(("tile", "fits"), [(1, False), (2, True)])
def test_what_is_stored_at_once_lies_together_among_the_values_of_both(tile: int, fits: bool) -> None:
    """Of all rows one column lies apart, of each row two lie together."""
    space = Space(workload("dense:m=12,k=64,n=256,bias=1").func, "vta-de10")
    decided = {"head": cut(space, "n", 6), "head_tile": cut(space, "n", 1), "tile_m": 1, "tile_n": tile, "order": 1,
               "head_init": 2, "load_data": 2, "load_weight": 1}
    point = settled(space, **decided, head_rise=2)
    assert point[space.names.index("head_init")] == 2
    # Where it is not of the kind that was asked for it is of another, if that one is there.
    assert [int(point[space.names.index(n)]) for n in NAMES] == ([2, OTHERS] if fits else [0, 0])


@pytest.mark.parametrize(("thick", "rise"), [(1, 2), (2, 0)])
def test_slices_leave_nothing_of_a_whole_tile(thick: int, rise: int) -> None:
    """Tiles of four, four and three columns of eleven are gone over two by two, the whole row of several is not."""
    space = Space(workload("dense:m=12,k=64,n=176,bias=1").func, "vta-de10")
    point = settled(space, **given(space, cut=("m", 1), tile_n=4, tail=2, tail_size=thick, head_rise=2))
    assert [int(point[space.names.index(n)]) for n in ("tile_n", "tail", "tail_size", "head_rise")] == [4, 2, thick, rise]


def test_what_is_kept_for_all_parts_the_first_loads_alone() -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    decided = given(space, cut=("m", 1), head_rise=2)
    assert space.point(**decided)[space.names.index("head_rise")] == 2
    kept = settled(space, **{**decided, "keep_weight": 1})
    assert kept[space.names.index("keep_weight")] and not kept[space.names.index("head_rise")]


@pytest.mark.parametrize(("name", "target"), [
    (CONV, "vta-de10"), (CONV, "vta-de10-portable"), (DEPTHWISE, "vta-de10"), ("residual:h=6,w=6,c=96", "vta-fsim"),
    (DENSE, "vta-pynq"), ("max_pool2d:h=8,w=8,c=192,k=2,stride=2", "vta-de10"),
])
def test_it_computes_the_same_within_its_bounds(name: str, target: str) -> None:
    space, points = risen(name, target, 4000)
    assert set(points[:, space.names.index(NAMES[0])].tolist()) <= set(range(1, 1 + TILES))
    within_bounds(space, name, points, min(5, len(points)))


@pytest.mark.parametrize("name", [DENSE, DEPTHWISE])
def test_the_estimate_knows_it(name: str) -> None:
    space, points = risen(name, "vta-de10", 4000)
    best = points[np.argsort(space.draft(points), kind="stable")[:12]]
    assert float(np.median(np.abs(off(space, name, best)))) < 0.04
    # Of each by itself as of all together: what one row has, others may not have.
    assert space.draft(best).tolist() == [float(space.draft(p[None])[0]) for p in best]


@pytest.mark.parametrize(("name", "target"), [
    (DEPTHWISE, "vta-de10-portable"), (CONV, "vta-de10-portable"), ("dense:m=12,k=64,n=64,bias=0", "vta-de10"),
    ("dense:m=30,k=64,n=480,bias=0", "vta-de10"),
])
def test_it_is_known_where_accumulators_come_to_stand(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    space, points = risen(name, target, 4000)
    found: list[tuple[int, ...]] = []
    placed = arranged.arranged

    def noted(needs: tuple[tuple[int, int, int, tuple[int, int]], ...], *more: Any) -> tuple[tuple[int, int, int], ...]:
        result = placed(needs, *more)
        found[:] = [(at, size, copies) for (at, _, _), (size, copies, *_) in zip(result, needs)]
        return result

    monkeypatch.setattr(arranged, "arranged", noted)
    for point in points[:: max(1, len(points) // 12)]:
        sketch, plan = space.meaning(point[None])
        rows, _ = arranged.clear(sketch.model, plan)
        storages = lower_table(space.schedule(point).func, space.target).storages
        assert rows.tolist() == [0]
        assert found == [(s.address, s.elements, s.copies) for s in storages if s.scope == ACC], space.explain(point)


@pytest.mark.parametrize(("init", "head_init", "clear"), [(2, 2, 0), (1, 2, 2)])
def test_values_of_what_follows_wait_where_none_is_left_beside_the_second_kind(init: int, head_init: int, clear: int) -> None:
    """Six channels' are held since the beginning, and six more have no place but theirs; two at a time have another."""
    name = "conv2d:h=28,w=28,ci=256,co=256,k=3,stride=2,pad=1,groups=16"
    space = Space(workload(name).func, "vta-de10-portable")
    row = np.zeros((1, space.width), dtype=np.int32)
    row[:, space.places(0)] = space.sketches[0].default
    decided = {
        "head": cut(space, "g", 8), "head_tile": cut(space, "g", 1), "cut": cut(space, "g", 2), "cut_again": cut(space, "y", 4),
        "tile_g": 2, "tile_y": 7, "drop_zeros": 1, "load_data": 2, "load_kernel": 1, "load_bias_digits": 1, "late": 1,
        "head_late": 1, "init": init, "head_init": head_init, "banks_data": 2, "banks_kernel": 2, "banks_bias_digits": 2,
        "tail_last": 4, "tail_last_size": 1, "head_rise": 2, "rise_kind": OTHERS,
    }
    for column, value in decided.items():
        row[:, space.names.index(column)] = value
    row, inside = space.repair(row)
    assert inside.all() and int(row[0, space.names.index("head_rise")]) == 2, space.explain(row[0])
    sketch, plan = space.meaning(row)
    assert arranged.clear(sketch.model, plan)[1][2].tolist() == [clear]
    assert abs(off(space, name, row)[0]) < 0.012


def test_points_without_are_estimated_as_they_were_beside_points_with() -> None:
    space, points = risen(DENSE, "vta-de10", 4000)
    plain = np.where(np.isin(np.arange(space.width), [space.names.index(n) for n in NAMES]), 0, points)
    plain = plain[space.valid(plain)]
    assert len(plain) and space.draft(np.concatenate([points, plain]))[len(points) :].tolist() == space.draft(plain).tolist()


@pytest.mark.parametrize("name", [DENSE, DEPTHWISE])
def test_it_is_no_twin_of_a_point_without(name: str) -> None:
    space, points = risen(name, "vta-de10", 4000)
    no_twins(space, name, points, NAMES, 12)


@pytest.mark.parametrize("more", [
    {"head_rise": 2, "cut": ("m", 1)}, {"head_rise": 2, "rise_kind": OTHERS, "tile_n": 4, "head": ("m", 6), "load_weight": 0},
])
def test_its_trace_is_found_again(more: dict[str, int | tuple[str, int]]) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    point = settled(space, **given(space, **more))
    assert deciding(space, point[None], NAMES).all()
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


@pytest.mark.parametrize(("rows", "fits"), [(16, True), (17, False)])
def test_the_values_of_both_are_held_from_the_beginning(rows: int, fits: bool) -> None:
    """As many as the accumulator has place for, in two parts of which each has far more than enough."""
    space = Space(workload("dense:m=48,k=64,n=2048,bias=0").func, "vta-de10")
    assert space.target.capacity("local.acc_buffer") == 16 * 128
    decided = {"head": cut(space, "m", rows), "head_tile": cut(space, "m", 1), "tile_m": 1, "tile_n": 64, "head_init": 2,
               "load_data": 1, "load_weight": 2, "head_rise": 4, "cut": cut(space, "m", 1)}
    row = np.zeros((1, space.width), dtype=np.int32)
    row[:, space.places(0)] = space.sketches[0].default
    for column, value in decided.items():
        row[:, space.names.index(column)] = value
    row, inside = space.repair(row)
    _, plan = space.meaning(row)
    held = [h for h in space.sketches[0].model.held(plan) if h.scope == "local.acc_buffer"]
    assert plan.main == 2 and [(h.first, h.last) for h in held][:2] == [(0, 0), (0, 1)]
    assert bool(inside[0]) == fits
    assert run(space, "dense:m=48,k=64,n=2048,bias=0", row[0]).ok == fits


@pytest.mark.parametrize(("h", "groups"), [(28, 16), (28, 17), (27, 16)])
def test_fewer_instructions_wait_no_longer(h: int, groups: int) -> None:
    """Rows of two halves channel by channel, then whole channels: better than halves alone, at the same place."""
    name = f"conv2d:h={h},w={h},ci={16 * groups},co={16 * groups},k=3,stride=2,pad=1,groups={groups}"
    space, rows = Space(workload(name).func, "vta-de10"), (h + 1) // 2
    last = 1 + (groups - 8) % 2
    decided = {"head": cut(space, "g", 7), "head_tile": cut(space, "g", 1), "cut": cut(space, "g", last), "tile_g": 2,
               "tile_y": rows // 2, "drop_zeros": 1, "load_data": 2, "load_kernel": 1, "late": 1, "head_late": 1, "head_init": 2,
               "banks_data": 2, "banks_kernel": 2, "banks_acc": 2, "addend_first": 1}
    points = [settled(space, **decided, head_rise=n) for n in (0, 2, 3)]
    found = [run(space, name, point).cycles or 0 for point in points]
    assert min(found[1:]) < 0.9995 * found[0]
    # The values of all are written while the first loads come, and are no less for it.
    assert np.abs(space.draft(np.stack(points)) / found - 1).max() < 0.015


def test_it_is_tried_around_points_and_not_bred() -> None:
    space, points = risen(DENSE, "vta-de10", 4000)
    sketch = space.sketches[0]
    assert "rise" not in {rule.name for _, _, _, rule in sketch.deciding}
    at = [space.names.index(n) for n in NAMES]
    plain = points.copy()
    plain[:, at] = 0
    own = plain[space.valid(plain)][0]
    near = {tuple(row) for row in space.neighbours(own).tolist()}
    others = np.repeat(own[None], TILES * 3, axis=0)
    others[:, at] = [(number, kind) for number in range(1, 1 + TILES) for kind in range(3)]
    others = others[space.valid(others)]
    assert len(others) and {tuple(row) for row in others.tolist()} <= near


@pytest.mark.parametrize("name", [DENSE, DEPTHWISE, "conv2d:h=56,w=56,ci=64,co=64,k=3,pad=1"])
def test_draws_and_children_are_those_of_a_space_without(name: str) -> None:
    """It is tried around points only: what a search begins with, and how it breeds, does not depend on it."""
    func = workload(name).func
    space, plain = Space(func, "vta-de10"), Space(func, "vta-de10", [r for r in (*STRUCTURAL, *NUMERIC) if r.name != "rise"])
    shared = [n for n, column in enumerate(space.names) if column not in NAMES]
    for own, other in ((s, p) for s, p in zip(_made(space), _made(plain))):
        assert (own[:, shared] == other).all() and not deciding(space, own, NAMES).any()


def _made(space: Space) -> list[np.ndarray]:
    """A sample, eager points and children, of one stream of numbers."""
    rng = np.random.default_rng(11)
    points = space.sample(rng, 500)
    return [points, space.eager(rng, 300), space.mutate(points, rng)]


@pytest.mark.parametrize(("name", "exact"), [
    ("dense:m=3,k=16,n=48,bias=0,tail=cast", True), ("dense:m=2,k=32,n=32,bias=0,tail=cast", False),
])
def test_a_space_is_listed_and_estimated_as_one_without(name: str, exact: bool) -> None:
    """Where it makes sense nowhere, as in these: what it might say would else be too much to list, and hide what there is."""
    func = workload(name).func
    space, plain = Space(func, "vta-de10"), Space(func, "vta-de10", [r for r in (*STRUCTURAL, *NUMERIC) if r.name != "rise"])
    assert space.raw() == plain.raw() and max(map(len, (space.choices[space.names.index(n)] for n in NAMES))) > 1
    assert space.count() == plain.count() and space.count()[1] == exact
    # One of its decisions made leaves those with that one.
    assert Space(func, "vta-de10", fixed={NAMES[0]: 0}).count() == plain.count()


def test_points_with_it_count_as_well() -> None:
    space, _ = risen(DENSE, "vta-de10", 4000)
    given = {name: int(value) for name, value in zip(space.names, settled(space, **given_rows()).tolist())}
    free = {"tile_m", "tile_n", "head", "head_tile", "head_init", *NAMES}
    fixed = Space(space.func, "vta-de10", fixed={n: v for n, v in given.items() if n not in free})
    every = np.concatenate(list(fixed.enumerate()))
    assert deciding(fixed, every, NAMES).any() and fixed.count() == (len(every), True)
    about, exact = fixed.count(limit=1)
    assert not exact and abs(about - len(every)) <= 0.25 * len(every)


def given_rows() -> dict[str, int]:
    """Two kinds of tiles in the first part."""
    return given(risen(DENSE, "vta-de10", 4000)[0], cut=("m", 1), head_rise=2)


def test_without_the_rule_there_is_none() -> None:
    rules = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name != "rise"]
    assert not set(NAMES) & set(Space(workload(DENSE).func, "vta-de10", rules).names)
    uncut = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]
    assert not set(NAMES) & set(Space(workload(DENSE).func, "vta-de10", uncut).names)
    plain = Space(workload("add:m=3,n=320").func, "vta-de10")
    assert all(len(plain.choices[plain.names.index(n)]) == 1 for n in NAMES), "it has no initial values to write"


@pytest.mark.parametrize(("kind", "tile_m"), [(0, 1), (OTHERS, 2), (FROM_WHOLE, 2)])
def test_what_a_longer_first_part_begins_with_leads_to_it(kind: int, tile_m: int) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    short = settled(space, head=cut(space, "m", 2), tile_m=5, tile_n=2, load_data=1, load_weight=2)
    wanted = {"head": cut(space, "m", 6), "head_tile": cut(space, "m", 1), "head_rise": 2, "rise_kind": kind, "head_init": 2}
    wanted |= {"tile_m": tile_m} if kind else {}
    changes = list(two_kinds(space, 0, short))
    # Also with the tiles along the other axis that make them larger.
    for more in ({}, {"tile_n": 1}):
        assert {space.names.index(n): v for n, v in {**wanted, **more}.items()} in changes
    assert not list(two_kinds(space, 0, settled(space, tile_m=2))), "nothing is first"


def test_points_of_the_version_before_are_known_without_a_search_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns that have come since get their defaults; whether that is the very schedule the trace says."""
    space = Space(workload(CONV).func, "vta-de10")
    points = space.sample(np.random.default_rng(1), 40)
    monkeypatch.setattr(Space, "point_of", lambda *_, **__: pytest.fail("searched for"))
    later = [n for n, name in enumerate(space.names) if name in (*NAMES, "fall")]
    shipped = find_best(workload("resnet18.c10").func, get_target("vta-de10"))
    assert len(later) == 3 and isinstance(shipped, BestRecord)
    for k, point in enumerate(points):
        assert not point[later].any()
        old = tuple(np.delete(point, later).tolist())
        assert space.grown(old, SINCE - 1) == tuple(point.tolist()) and space.grown(old, VERSION)[: len(old)] == old
        # A form that the program has got since stands behind, and one number too many is of no version.
        assert space.grown(old[:-1], SINCE - 1) == (*point.tolist()[:-1], 0)
        assert space.grown((*old, 0), SINCE - 1) == () == space.grown((len(space.sketches), *old[1:]), SINCE - 1)
        trace = tuple(space.trace(point).as_json())
        record = replace(shipped, point=old, trace=trace, of=replace(shipped.of, space=SINCE - 1))
        assert decided(space, record) == (tuple(point.tolist()), "")
        other = tuple(space.trace(points[k - 1]).as_json())
        if other != trace:
            with pytest.raises(pytest.fail.Exception, match="searched for"):
                decided(space, replace(record, trace=other))


@pytest.mark.parametrize(("last", "wanted"), [
    (("m", 1), [(3, 3), (4, 2), (6, 0)]),  # no part takes more than there is
    (("m", 2), [(3, 4), (4, 3), (6, 1), (7, 0)]),
    (("n", 1), []),  # along another axis nothing goes over
])
def test_what_one_cut_takes_less_another_takes_more(last: tuple[str, int], wanted: list[tuple[int, int]]) -> None:
    space = Space(workload("dense:m=24,k=64,n=64,bias=1").func, "vta-de10")
    sketch = space.sketches[0]
    model, axes = sketch.models[0], [axis.name for axis in sketch.models[0].nest.axes]
    known, at = values(model), [model.index[name] for name in CUTS]
    own = sketch.default[None].copy()
    own[0, at[:2]] = known[axes.index("m"), 5], known[axes.index(last[0]), last[1]]
    of, rows = Rise().beside(model, own)
    assert of.tolist() == [0] * len(rows)
    sizes = {tuple(table(model)[row[at[:2]], 1].tolist()) for row in rows}
    assert sorted(sizes) == wanted
    risen = [model.index[name] for name in NAMES]
    for pair in sizes:
        begins = [tuple(row[risen].tolist()) for row in rows if tuple(table(model)[row[at[:2]], 1].tolist()) == pair]
        assert len(begins) == len(set(begins)) == 1 + 3 * TILES, "alike, or of two kinds"
    changed = {n for row in rows for n in np.flatnonzero(row != own[0]).tolist()}
    assert changed <= {*at[:2], *risen}
