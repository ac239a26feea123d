"""Initial values of several tiles at once: where they may stand, what is loaded for them, what they compute and are worth."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, deciding, drawn, error_of_lowest, no_twins, run, settled, within_bounds

from autosched.errors import ProgramError
from autosched.lower import lower_table
from autosched.workloads import workload
from sim import isa
from space import Space
from space.rules import NUMERIC, STRUCTURAL

DENSE = "dense:m=12,k=64,n=64,bias=1"
CONV = "conv2d:h=8,w=6,ci=32,co=64,k=3,stride=2,pad=1,groups=2"
COLUMNS = ("init", "head_init")
TURNED = "conv2d_transpose:h=4,w=4,ci=32,co=32,k=4,stride=2,pad=1"  # conditions on its products


@pytest.mark.parametrize(("given", "around", "fits"), [
    ({"tile_m": 3, "tile_n": 4, "init": 1}, 0, True),  # all rows' at once, n whole
    ({"tile_m": 1, "tile_n": 2, "init": 1}, 1, True),  # those of one row
    ({"tile_m": 1, "tile_n": 2, "init": 2}, 0, True),  # those of all rows: a tile is a part of one
    ({"tile_m": 3, "tile_n": 2, "init": 1}, 1, False),  # two columns of three rows lie apart among four
    ({"tile_m": 3, "tile_n": 2, "order": 1, "init": 1}, 1, True),  # rows inside of columns: whole rows of a tile's columns
    ({"tile_m": 3, "tile_n": 4, "init": 2}, 0, False),  # there is one loop
    ({"tile_m": 12, "tile_n": 4, "init": 1}, 0, False),  # and here none
])
def test_they_stand_in_front_of_loops_whose_tiles_lie_together(given: dict[str, int], around: int, fits: bool) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    point = settled(space, load_data=1, load_weight=2, **given)
    assert (point[space.names.index("init")] == given["init"]) == fits
    if not fits:
        with pytest.raises(ProgramError, match="has a simpler twin"):
            space.point(**{**dict(zip(space.names, point.tolist())), "init": given["init"]})
        return
    sketch, plan = space.meaning(point[None])
    assert plan.body.init[0] == around and "init before" in space.explain(point)
    elements = int(sketch.model.init_elements(plan, plan.body)[0])
    assert elements > int(sketch.model.tile_elements(plan.body)[0])
    table = lower_table(space.schedule(point).func, space.target)
    # As many accumulators as get their initial values at once, and as many instructions as there are such groups.
    assert sum(s.elements * s.copies for s in table.storages if s.scope == "local.acc_buffer") == elements + 4, "and the addends"
    copies = (table.table[:, isa.OPCODE] == isa.OP_ALU) & (table.table[:, isa.IMM] < 0)
    assert int(copies.sum()) == int(sketch.model.inits_run(plan, plan.body)[0])
    assert run(space, DENSE, point, execute=True).ok


@pytest.mark.parametrize(("name", "target"), [
    (CONV, "vta-de10"), (CONV, "vta-de10-portable"), (TURNED, "vta-de10"), ("residual:h=6,w=6,c=96", "vta-fsim"),
    ("max_pool2d:h=8,w=8,c=32,k=2,stride=2", "vta-de10"), (DENSE, "vta-pynq"),
])
def test_they_compute_the_same_within_their_bounds(name: str, target: str) -> None:
    space, points = drawn(name, target, COLUMNS, 7, 1200)
    within_bounds(space, name, points, 5)


@pytest.mark.parametrize("name", [DENSE, CONV, "residual:h=6,w=6,c=96"])
def test_the_estimate_knows_them(name: str) -> None:
    space, points = drawn(name, "vta-de10", COLUMNS, 7, 1200)
    assert error_of_lowest(space, name, points) < 0.05


@pytest.mark.parametrize("name", [DENSE, CONV])
def test_they_are_no_twins_of_points_without(name: str) -> None:
    space, points = drawn(name, "vta-de10", COLUMNS, 7, 1200)
    no_twins(space, name, points, COLUMNS, 12)


@pytest.mark.parametrize("given", [
    {"tile_m": 1, "tile_n": 2, "init": 1}, {"tile_m": 1, "tile_n": 2, "init": 2, "load_bias": 0, "addend_first": 1},
    {"head": ("m", 4), "head_tile": ("m", 2), "tile_m": 2, "tile_n": 4, "head_init": 1},
    {"head": ("m", 4), "head_tile": ("m", 1), "tile_m": 2, "tile_n": 4, "head_init": 1},
])
def test_their_traces_are_found_again(given: dict[str, int | tuple[str, int]]) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    decided = {k: cut(space, *v) if isinstance(v, tuple) else v for k, v in given.items()}
    point = settled(space, **{"load_data": 1, "load_weight": 2, **decided})
    assert deciding(space, point[None], COLUMNS).all()
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


@pytest.mark.parametrize("first", [0, 1])
def test_what_they_are_made_of_is_loaded_in_front_of_them(first: int) -> None:
    """The first part loads the addends of its own columns at once, and before all else if asked; later parts do as they did."""
    space = Space(workload(DENSE).func, "vta-de10")
    given = {"head": cut(space, "n", 2), "head_tile": cut(space, "n", 1), "tile_m": 1, "tile_n": 1, "order": 1, "load_data": 2,
             "load_weight": 1, "load_bias": 1}
    point = settled(space, **given, head_init=2, addend_first=first)
    table = lower_table(space.schedule(point).func, space.target).table
    loads = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_ACC)]
    assert loads[:, isa.X_SIZE].tolist() == [2, 1, 1], "two columns of the first part, then a column at a time"
    sketch, plan = space.meaning(point[None])
    (bias,) = sketch.model.starting
    assert [int(sketch.model.transfer(plan, part, bias)[0][0]) for part in plan.parts] == [2 * 8, 8], "words of a load"
    pushes = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_ACC), isa.PUSH_PREV].tolist()
    assert pushes == [first, 0, 0]
    assert run(space, DENSE, point, execute=True).ok
    inside = settled(space, **given, head_init=1, addend_first=1)
    assert not inside[space.names.index("addend_first")], "there they stand inside of a loop over columns"


def test_the_estimate_counts_what_comes_first_once() -> None:
    """Addends of the first part alone, ahead of all loads or behind the first of them."""
    name = "mobilenet.d9"
    space = Space(workload(name).func, "vta-de10")
    given = {"head": cut(space, "g", 20), "head_tile": cut(space, "g", 5), "tile_g": 11, "tile_ky": 1, "tile_kx": 1,
             "load_data": 1, "load_kernel": 8, "load_bias": 1, "banks_data": 2, "banks_kernel": 2, "banks_acc": 2,
             "drop_zeros": 1, "head_init": 1}
    points = [settled(space, **given, addend_first=first) for first in (0, 1)]
    assert [int(p[space.names.index("addend_first")]) for p in points] == [0, 1]
    cycles = [run(space, name, p).cycles or 0 for p in points]
    drafts = space.draft(np.stack(points)).tolist()
    assert cycles[1] < cycles[0] and abs((drafts[1] - drafts[0]) - (cycles[1] - cycles[0])) < 100


@pytest.mark.parametrize(("h", "groups"), [(28, 8), (30, 8), (28, 7)])
def test_the_first_loads_are_waited_for_less(h: int, groups: int) -> None:
    """Channel after channel with a first part of finer tiles: what they begin with is written while their data comes."""
    name = f"conv2d:h={h},w={h},ci={16 * groups},co={16 * groups},k=3,stride=2,pad=1,groups={groups}"
    space, rows = Space(workload(name).func, "vta-de10"), h // 2
    half = next(t for t in range(rows // 2, 0, -1) if rows % t == 0)
    given = {"drop_zeros": 1, "tile_g": 1, "tile_y": rows, "tile_x": rows, "load_kernel": 2, "load_data": 4, "banks_data": 2,
             "banks_kernel": 2, "banks_acc": 2, "head": cut(space, "g", 2), "head_tile": cut(space, "y", half)}
    points = np.stack([settled(space, **given, head_init=loops) for loops in (0, 2)])
    assert deciding(space, points, COLUMNS).tolist() == [False, True]
    without, with_them = (run(space, name, p).cycles for p in points)
    assert without is not None and with_them is not None and with_them < without - 100


def test_varying_finds_first_parts_that_come_out_even() -> None:
    space = Space(workload("mobilenet.d9").func, "vta-de10")
    model = space.sketches[0].models[0]
    (rule,) = (rule for rule in model.rules if rule.name == "ahead")
    rows = np.repeat(np.array([[c.default for c in model.columns]], dtype=np.int32), 300, axis=0)
    rows[:, model.index["tile_g"]] = 8
    rule.vary(model, rows, np.random.default_rng(0))
    fixed = model.repair(rows)
    own = (fixed[:, model.index["head"]] > 0) & (fixed[:, model.index["head_init"]] > 0)
    plan = model.plan(fixed[own])
    assert own.mean() > 0.2 and (model.leads(plan, plan.parts[0])).all()
    assert len(np.unique(plan.parts[0].extents[:, 0:2], axis=0)) > 5


def test_without_the_rule_that_cuts_there_is_one_for_all() -> None:
    rules = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]
    names = Space(workload(DENSE).func, "vta-de10", rules).names
    assert "init" in names and "head_init" not in names
    # Without a sum there are no initial values.
    space = Space(workload("add:m=3,n=320").func, "vta-de10")
    assert space.choices[space.names.index("init")].tolist() == [0]
