"""A first part of several tiles that are finer than the others': what it may be, what it computes, and what it is worth."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, drawn, error_of_lowest, no_twins, run, within_bounds

from autosched.errors import ProgramError
from autosched.workloads import workload
from space import Space
from space.rules import NUMERIC, STRUCTURAL

DENSE = "dense:m=12,k=64,n=64,tail=cast,bias=0"
CONV = "conv2d:h=8,w=6,ci=32,co=64,k=3,stride=2,pad=1,groups=2"
COLUMNS = ("head_tile",)


@pytest.mark.parametrize(("axis", "size", "tile", "fits"), [
    ("m", 4, ("m", 2), True), ("m", 4, ("m", 1), True), ("m", 4, ("n", 1), True),
    ("m", 4, ("m", 4), False),  # as the others'
    ("m", 4, ("m", 3), False),  # divides no four rows
    ("m", 4, ("n", 2), False),  # as the others'
    ("m", 4, None, False),  # a first part as large as a tile is one
    (None, 0, ("m", 2), False),  # nothing is first
])
def test_a_first_part_has_finer_tiles_that_divide_it(
    axis: str | None, size: int, tile: tuple[str, int] | None, fits: bool
) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    made = {"head": cut(space, axis, size) if axis else 0, "head_tile": cut(space, *tile) if tile else 0}
    made |= {"tile_m": 4, "tile_n": 2, "load_data": 1, "load_weight": 2}
    if not fits:
        with pytest.raises(ProgramError, match="has a simpler twin"):
            space.point(**made)
        return
    assert tile is not None
    point = space.point(**made)
    assert f"first in tiles of {tile[0]}={tile[1]}" in space.explain(point)
    _, plan = space.meaning(point[None])
    first, others = plan.parts[0], plan.body
    at = [a.name for a in space.sketches[0].models[0].nest.axes].index(tile[0])
    assert first.tiles[0, at] == tile[1] < others.tiles[0, at]
    # Along all other axes, that of the cut too, it is tiled as the others are.
    assert (np.delete(first.tiles[0], at) == np.delete(np.minimum(others.tiles[0], first.extents[0]), at)).all()
    assert run(space, DENSE, point, execute=True).ok


def test_tiles_that_do_not_divide_what_was_cut_leave_it_whole() -> None:
    """Three rows are no multiple of tiles of four or two: along the rows the first part is one tile, along the channels two."""
    space = Space(workload("dense:m=11,k=64,n=64,tail=cast,bias=0").func, "vta-de10")
    point = space.point(head=cut(space, "m", 3), head_tile=cut(space, "n", 1), tile_m=2, tile_n=2, load_data=1, load_weight=2)
    _, plan = space.meaning(point[None])
    axes = [a.name for a in space.sketches[0].models[0].nest.axes]
    assert plan.parts[0].tiles[0, [axes.index("m"), axes.index("n")]].tolist() == [3, 1]


@pytest.mark.parametrize(("name", "target"), [
    (CONV, "vta-de10"), (CONV, "vta-de10-portable"), ("residual:h=6,w=6,c=96", "vta-de10"),
    ("max_pool2d:h=8,w=8,c=16,k=2,stride=2", "vta-fsim"),
])
def test_it_computes_the_same_within_its_bounds(name: str, target: str) -> None:
    space, points = drawn(name, target, COLUMNS, 4, 1500)
    within_bounds(space, name, points, 4)


@pytest.mark.parametrize("name", [DENSE, CONV, "residual:h=6,w=6,c=96"])
def test_the_estimate_knows_it(name: str) -> None:
    space, points = drawn(name, "vta-de10", COLUMNS, 4, 1500)
    assert error_of_lowest(space, name, points) < 0.04


@pytest.mark.parametrize("name", [DENSE, "residual:h=6,w=6,c=96"])
def test_it_is_no_twin_of_a_point_without(name: str) -> None:
    space, points = drawn(name, "vta-de10", COLUMNS, 4, 1500)
    no_twins(space, name, points, COLUMNS, 16)


@pytest.mark.parametrize("decisions", [
    {"head": 4, "head_tile": 2, "tile_m": 4, "tile_n": 2}, {"head": 4, "head_tile": 7, "tile_m": 4, "tile_n": 4},
    {"head": 4, "head_tile": 7, "tile_m": 2, "tile_n": 2, "load_data": 1},
])
def test_its_trace_is_found_again(decisions: dict[str, int]) -> None:
    """The others' tiles come behind the first part's in a trace, and say along which axis those are its own."""
    space = Space(workload(DENSE).func, "vta-de10")
    point = space.point(**{"load_data": 1, **decisions})
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


@pytest.mark.parametrize(("h", "groups"), [(28, 8), (30, 8), (28, 7)])
def test_the_first_loads_are_waited_for_less(h: int, groups: int) -> None:
    """Channel after channel, loads take three quarters of what products do: the best first part is of a few small tiles."""
    name = f"conv2d:h={h},w={h},ci={16 * groups},co={16 * groups},k=3,stride=2,pad=1,groups={groups}"
    space, rows = Space(workload(name).func, "vta-de10"), h // 2
    given = {"drop_zeros": 1, "tile_y": rows, "tile_x": rows, "banks_data": 2, "banks_kernel": 2, "banks_acc": 2,
             "load_data": len(space.names), "load_kernel": 2}
    best: dict[bool, int] = {}
    for size in (0, 1, 2):
        for tile in (0, *(t for t in range(1, rows) if rows % t == 0)):
            row = np.zeros((1, space.width), dtype=np.int32)
            row[0, space.places(0)] = space.sketches[0].default
            for column, value in given.items():
                at = space.names.index(column)
                row[0, at] = min(value, int(space.choices[at][-1]))
            row[0, space.names.index("tile_g")] = 1
            row[0, space.names.index("head")] = cut(space, "g", size) if size else 0
            row[0, space.names.index("head_tile")] = cut(space, "y", tile) if tile else 0
            point = space.repair(row)[0][0]
            own = bool(point[space.names.index("head_tile")])
            cycles = run(space, name, point).cycles
            assert cycles is not None
            best[own] = min(best.get(own, cycles), cycles)
    assert best[True] < 0.99 * best[False]


def test_varying_gives_a_first_part_tiles_of_its_own() -> None:
    space = Space(workload(CONV).func, "vta-de10")
    model = space.sketches[0].models[0]
    (rule,) = (rule for rule in model.rules if rule.name == "lead")
    rows = np.repeat(np.array([[c.default for c in model.columns]], dtype=np.int32), 2000, axis=0)
    rule.vary(model, rows, np.random.default_rng(0))
    assert (rows[:, model.index["head"]] > 0).mean() > 0.4
    fixed = model.repair(rows)
    own = fixed[:, model.index["head_tile"]] > 0
    # A few are taken back: not every size divides.
    assert own.mean() > 0.1 and all(int(p.tiles.min()) > 0 for p in model.plan(fixed[own]).parts)


def test_without_the_rule_that_cuts_there_is_none() -> None:
    rules = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]
    assert "head_tile" not in Space(workload(DENSE).func, "vta-de10", rules).names
