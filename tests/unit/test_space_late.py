"""Stages of several tiles at once: where they may stand, what they compute, how many instructions they are."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, deciding, drawn, error_of_lowest, no_twins, run, settled, within_bounds

from autosched.errors import ProgramError
from autosched.lower import lower_table
from autosched.workloads import workload
from sim import isa
from space import Space
from space.rules.cuts import values

DENSE = "dense:m=12,k=64,n=64,bias=1"
CONV = "conv2d:h=8,w=6,ci=32,co=64,k=3,stride=2,pad=1,groups=2"
COLUMNS = ("late", "head_late")
TURNED = "conv2d_transpose:h=4,w=4,ci=32,co=32,k=4,stride=2,pad=1"


@pytest.mark.parametrize(("given", "runs", "fits"), [
    ({"tile_m": 3, "tile_n": 4, "load_data": 1, "late": 1}, 1, True),
    ({"tile_m": 1, "tile_n": 2, "load_data": 1, "load_weight": 2, "late": 1}, 12, True),  # row by row
    ({"tile_m": 1, "tile_n": 2, "load_data": 1, "load_weight": 2, "late": 2}, 1, True),
    ({"tile_m": 1, "tile_n": 2, "load_data": 1, "load_weight": 0, "late": 1}, 12, False),  # nothing is loaded inside of columns
    ({"tile_m": 3, "tile_n": 4, "load_data": 1, "late": 2}, 1, False),  # there is one loop
    ({"tile_m": 12, "tile_n": 4, "late": 1}, 1, False),  # and here none
])
def test_they_stand_behind_loops_with_loads_inside(given: dict[str, int], runs: int, fits: bool) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    point = settled(space, **given)
    assert (point[space.names.index("late")] == given["late"]) == fits
    if not fits:
        with pytest.raises(ProgramError, match="has a simpler twin"):
            space.point(**{**dict(zip(space.names, point.tolist())), "late": given["late"]})
        return
    assert "stages behind" in space.explain(point)
    sketch, plan = space.meaning(point[None])
    assert int(sketch.model.outs_run(plan, plan.body)[0]) == runs < int(sketch.model.tiles_run(plan, plan.body)[0])
    table = lower_table(space.schedule(point).func, space.target).table
    assert int((table[:, isa.OPCODE] == isa.OP_STORE).sum()) == runs
    # Initial values, a shift, a maximum and a minimum for each.
    assert int((table[:, isa.OPCODE] == isa.OP_ALU).sum()) == 4 * runs
    assert run(space, DENSE, point, execute=True).ok


@pytest.mark.parametrize(("name", "target"), [
    (CONV, "vta-de10"), (CONV, "vta-de10-portable"), (TURNED, "vta-de10-portable"), ("residual:h=6,w=6,c=96", "vta-fsim"),
    ("residual:h=6,w=6,c=96", "vta-de10"), (DENSE, "vta-pynq"),
])
def test_they_compute_the_same_within_their_bounds(name: str, target: str) -> None:
    space, points = drawn(name, target, COLUMNS, 8, 1200)
    within_bounds(space, name, points, 5)


@pytest.mark.parametrize("name", [DENSE, CONV, "residual:h=6,w=6,c=96"])
def test_the_estimate_knows_them(name: str) -> None:
    space, points = drawn(name, "vta-de10", COLUMNS, 8, 1200)
    assert error_of_lowest(space, name, points) < 0.06


@pytest.mark.parametrize("name", [DENSE, CONV])
def test_they_are_no_twins_of_points_without(name: str) -> None:
    space, points = drawn(name, "vta-de10", COLUMNS, 8, 1200)
    no_twins(space, name, points, COLUMNS, 12)


@pytest.mark.parametrize("given", [
    pytest.param({"tile_m": 3, "late": 1, "load_data": 1}, marks=pytest.mark.slow),
    {"tile_m": 1, "tile_n": 2, "late": 1, "load_data": 1, "load_weight": 2},
    {"head": ("m", 4), "head_tile": ("m", 1), "tile_m": 2, "tile_n": 4, "head_late": 1, "load_data": 1},
])
def test_their_traces_are_found_again(given: dict[str, int | tuple[str, int]]) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    point = settled(space, **{k: cut(space, *v) if isinstance(v, tuple) else v for k, v in given.items()})
    assert deciding(space, point[None], COLUMNS).all()
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


def test_what_stages_find_where_the_first_part_left_it_is_loaded_outside() -> None:
    """Under ``portable`` a stage adds the bias from its digits, by products: kept for later parts, they come before the loops."""
    space = Space(workload(DENSE).func, "vta-de10-portable")
    k = next(n for n, sketch in enumerate(space.sketches) if "addend by product" in sketch.done)
    row = np.zeros((1, space.width), dtype=np.int32)
    row[0, 0] = k
    row[:, space.places(k)] = space.sketches[k].default
    nest = space.sketches[k].models[0].nest
    first = values(space.sketches[k].models[0])[[a.name for a in nest.axes].index("m"), 2]
    given = {"head": first, "tile_m": 5, "tile_n": 1, "load_data": 1, "load_weight": 2, "load_bias_digits": 2, "head_late": 1}
    for column, value in given.items():
        row[:, space.names.index(column)] = value
    fixed = []
    for keep in (0, 1):
        row[:, space.names.index("keep_bias_digits")] = keep
        (point,), inside = space.repair(row)
        fixed.append((bool(point[space.names.index("keep_bias_digits")]), bool(deciding(space, point[None], COLUMNS)[0])))
        assert inside.all() and run(space, DENSE, point, execute=True).ok
    assert fixed == [(False, True), (True, False)]


@pytest.mark.parametrize(("h", "groups"), [(28, 4), (30, 4), (28, 3)])
def test_stages_of_two_loads_are_half_as_many_instructions(h: int, groups: int) -> None:
    name = f"conv2d:h={h},w={h},ci={16 * groups},co={16 * groups},k=3,stride=2,pad=1,groups={groups}"
    space, rows = Space(workload(name).func, "vta-de10"), h // 2
    half = next(t for t in range(rows // 2, 0, -1) if rows % t == 0)
    given = {"drop_zeros": 1, "tile_g": 1, "tile_y": half, "tile_x": rows, "load_kernel": 2, "load_data": 4, "banks_data": 2,
             "banks_kernel": 2, "banks_acc": 2}
    points = np.stack([settled(space, **given, late=loops) for loops in (0, 1)])
    assert deciding(space, points, COLUMNS).tolist() == [False, True]
    tables = [lower_table(space.schedule(p).func, space.target).table for p in points]
    counts = [int((table[:, isa.OPCODE] == isa.OP_ALU).sum()) for table in tables]
    assert counts == [4 * groups * (rows // half), 4 * groups]


@pytest.mark.parametrize("given", [
    {"tile_m": 1, "tile_n": 8, "load_data": 1, "load_bias": 2, "init": 1},
    {"tile_m": 1, "tile_n": 8, "load_data": 1, "load_bias": 2},
    {"tile_m": 4, "tile_n": 16, "load_data": 1, "load_bias": 1, "late": 1},
])
def test_loads_that_stand_outside_count_where_they_stand(given: dict[str, int]) -> None:
    """Addends in front of initial values are loaded once for all their tiles: so says the bound, and so does their column."""
    name = "dense:m=32,k=16,n=256,bias=1"
    space = Space(workload(name).func, "vta-de10")
    point = settled(space, **given)
    found = run(space, name, point, execute=True)
    assert found.ok and found.cycles is not None and space.bound(point[None])[0] <= found.cycles
    table = lower_table(space.schedule(point).func, space.target).table
    loads = int(((table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_ACC)).sum())
    sketch, plan = space.meaning(point[None])
    (bias,) = sketch.model.starting
    assert loads == int(sketch.model.fills(plan, plan.body, bias)[0])


def test_columns_say_where_loads_stand_and_no_more() -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    given = {"tile_m": 3, "tile_n": 2, "load_data": 1, "load_weight": 2, "late": 2}
    points = [settled(space, **given, load_bias=depth) for depth in range(3)]
    assert all((p == points[0]).all() for p in points) and points[0][space.names.index("load_bias")] == 0


@pytest.mark.parametrize("keep", [0, 1])
def test_a_loop_whose_loads_the_first_part_has_done_is_a_tile(keep: int) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    given = {"tile_m": 5, "tile_n": 2, "load_data": 1, "load_weight": 2, "late": 1, "keep_weight": keep}
    point = settled(space, head=cut(space, "m", 2), **given)
    assert point[space.names.index("keep_weight")] == keep and bool(deciding(space, point[None], COLUMNS)[0]) != bool(keep)
