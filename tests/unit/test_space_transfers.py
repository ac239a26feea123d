"""When loads come and what they wait for: the draft against the simulator where that is all that matters, and DMAs counted.

Every test of an estimate takes points of one kind, the lowest estimates first, as a search does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from decided import cut, error_of_lowest, off, settled

from autosched.lower import lower_table
from autosched.workloads import workload
from sim import isa
from space import Space
from space._draft_kernel import side_by_side
from space._loads_kernel import shares
from space._play_kernel import run_ahead
from space.model import Model

GROUPS = "conv2d:h=24,w=22,ci=32,co=32,k=3,pad=1,groups=2"
STRIDED = "conv2d:h=28,w=28,ci=64,co=64,k=3,stride=2,pad=1,groups=4"
SMALL = "conv2d:h=7,w=7,ci=128,co=128,k=3,pad=1,groups=8"
RESIDUAL = "residual:h=14,w=14,c=64"
SIMPLE = {"head": 0, "cut": 0}  # one part
LOADED = {"load_a": (1, 9), "load_b": (1, 9), "banks_a": (2, 3), "banks_b": (2, 3)}


def of_kind(space: Space, kind: dict[str, Any], draws: int = 9000) -> np.ndarray:
    """Drawn points whose decisions have these values, or lie in these ranges; of one part: draws without cuts."""
    points = space.sample(np.random.default_rng(5), draws)
    if SIMPLE.items() <= kind.items():
        points[:, [space.names.index(name) for name in SIMPLE]] = 0
        points, inside = space.repair(points)
        points = np.unique(points[inside], axis=0)
    chosen = np.ones(len(points), dtype=np.bool_)
    for name, value in kind.items():
        column = points[:, space.names.index(name)]
        low, high = value if isinstance(value, tuple) else (value, value)
        chosen &= (low <= column) & (column <= high)
    return points[chosen]


@pytest.mark.parametrize(("name", "kind", "near"), [
    # With three places the load engine is two tiles ahead, and an addend comes behind all that.
    (STRIDED, {"banks_data": 3, "load_bias": (1, 9), "load_data": (1, 9), "tile_g": 1}, 0.012),
    # Corners of an image have fewer rows, which are loaded one by one.
    (SMALL, {"drop_zeros": 1, "tile_x": (1, 6), "tile_y": (1, 6), "load_data": 3, "tile_g": 1, "tail": 0}, 0.035),
    # A tile one column wide, padding in it: rows of an element, which are a DMA for every group.
    (STRIDED, {"drop_zeros": 0, "tile_x": 1, "tile_g": (2, 4), "tile_kx": 1, "load_data": (5, 9)}, 0.04),
    # The second operand is loaded behind the first one, in front of its addition.
    (RESIDUAL, {**LOADED, "late": 0, "load_b": (1, 2)}, 0.02),
    # Its place is free as soon as it is added: clips come behind it.
    (RESIDUAL, {"banks_b": 1, "load_b": (1, 9), "banks_a": (2, 3), "tail": 0, "late": 0}, 0.03),
    # A reset does not wait for the store before: of one of several tiles, and of one tile that products wait for.
    (RESIDUAL, {**LOADED, "banks_acc": 1, "init": (1, 9), "tail": 0, "late": 0}, 0.03),
    (RESIDUAL, {**LOADED, "banks_acc": 1, "init": 0, "tail": 0, "late": 0}, 0.05),
])
def test_the_draft_knows_what_loads_and_products_wait_for(name: str, kind: dict[str, Any], near: float) -> None:
    space = Space(workload(name).func, "vta-de10")
    points = of_kind(space, {**SIMPLE, **kind})
    assert len(points) >= 8 and error_of_lowest(space, name, points, 8) < near


LED = {  # a first part that fills the accumulator, and then several tiles whose initial values stand in front of them
    "sketch": 1, "head": ("x", 7), "cut": ("x", 4), "tile_co": 8, "tile_y": 8, "tile_x": 5, "head_ci": 2, "head_ky": 1,
    "drop_zeros": 1, "order": 2, "load_data": 1, "load_kernel": 6, "load_bias": 2, "keep_kernel": 1, "head_late": 2, "init": 1,
    "banks_data": 2, "banks_bias": 2, "banks_acc": 2,
}
# A last part behind several tiles whose initial values fill the accumulator.
FULL = {"cut": ("g", 10), "cut_again": ("g", 3), "tile_g": 9, "tile_ky": 1, "drop_zeros": 1, "load_data": 1, "load_kernel": 7,
        "tail_last": 2, "init": 1, "banks_data": 2, "banks_kernel": 3, "addend_first": 1}
ADDED = {"cut": ("y", 4), "cut_again": ("y", 1), "tile_c": 2, "tile_y": 8, "order": 2, "load_a": 2, "load_b": 2, "init": 1,
         "banks_a": 2, "banks_b": 2}
STEPS = {"head": ("x", 3), "tile_co": 2, "tile_y": 1, "tile_x": 1, "tile_ci": 2, "tile_ky": 1, "order": 3, "load_data": 6,
         "late": 1, "banks_data": 2, "drop_zeros": 1, "head_ci": 1}

ROWS = {"tile_co": 2, "tile_y": 3, "tile_x": 1, "drop_zeros": 1, "load_data": 3, "load_kernel": 1, "load_bias": 1, "tail": 2,
        "late": 1, "banks_data": 3, "banks_bias": 2, "banks_acc": 2}


@pytest.mark.parametrize(("name", "decisions", "near"), [
    # The first products wait for the store of the part before, whose place they take: 3 % of the cycles.
    ("conv2d:h=16,w=16,ci=64,co=256,k=3,pad=1", LED, 0.01),
    # They do not where there is room beside its last: 2.5 %.
    ("resnet18.add2", ADDED, 0.005),
    # Nor where what is stored last is one of several tiles, and they stand where an earlier one was: 3.8 % of the cycles.
    ("conv2d:h=6,w=6,ci=1024,co=1024,k=3,pad=1,groups=64", FULL, 0.005),
    # Tiles of a pixel, the first 1 500 visits of which stand at the upper border: a fifth of their products are left out.
    ("conv2d:h=112,w=112,ci=32,co=32,k=7,stride=2,pad=3", STEPS, 0.03),
    # The last of 38 rows of tiles is a third as high: it is in no pace, which it made 9 % faster.
    ("resnet18.c1", ROWS, 0.04),
])
def test_the_draft_knows_how_parts_begin_and_go_on(name: str, decisions: dict[str, Any], near: float) -> None:
    space = Space(workload(name).func, "vta-de10")
    point = settled(space, **{k: cut(space, *v) if isinstance(v, tuple) else v for k, v in decisions.items()})
    assert abs(float(off(space, name, point[None])[0])) < near


@pytest.mark.parametrize(("stored", "tile", "single", "room"), [
    (60, 40, 40, 1), (60, 41, 41, -1), (60, 41, 40, 0), (60, 80, 40, 0), (60, 80, 41, -1), (60, 20, 10, 2), (60, 21, 10, 1),
    # Of what it has only the last is under way, as of three tiles that are stored one by one; all if it is stored at once.
    (20, 80, 80, 1), (20, 81, 81, -1), (20, 81, 80, 0), (20, 40, 40, 2), (20, 41, 41, 1), (90, 41, 40, 0),
])
def test_a_part_has_room_beside_what_is_stored_last(stored: int, tile: int, single: int, room: int) -> None:
    """A memory of a hundred elements of which the part before has sixty, and another one with nothing in it."""
    found = np.zeros((2, 2, 1), dtype=np.int64)
    nothing = np.zeros((0, 2, 1), dtype=np.int64)
    side_by_side(
        np.ones((2, 1), dtype=np.bool_), np.array([[60], [tile]]), np.array([[60], [single]]), np.array([[stored], [tile]]),
        np.array([[1], [2]]), np.zeros((2, 1), dtype=np.int64), nothing, nothing, np.zeros((0, 1), dtype=np.int64),
        np.zeros((0, 1), dtype=np.bool_), np.zeros(0, dtype=np.int64), np.array([100, 100]), 0, np.zeros((4, 2), dtype=np.int64),
        found,
    )
    assert found[:, :, 0].tolist() == [[2, 2], [2, room]]


def test_a_share_is_what_one_loop_reads_of_the_outermost_dimension() -> None:
    """An operand of eight planes of six rows, of which a fill brings all planes and a part of the rows: a DMA a plane."""

    def shared(
        region: tuple[int, int, int] = (8, 6, 3), movers: tuple[tuple[int, int], ...] = ((0, 1), (-1, -1)), least: int = 1,
        depth: int = 1, place: int = 1, source: tuple[int, int, int] = (8, 12, 5), padded: bool = False,
        often: int = 1,
    ) -> tuple[int, int]:
        """(loop, iterations) where axis 0 has eight planes in two tiles, and axis 1 three steps."""
        within, found = np.zeros((1, 1, 1)), np.zeros((1, 1, 1))
        moving = np.full((1, 3, 2, 2), -1, dtype=np.int64)
        moving[0, 0] = movers
        sizes = np.array([[[own, size, size, size, 1, often] for own, size in zip((least, 1, 1), source)]], dtype=np.int64)
        shares(
            np.array(region, dtype=np.int64).reshape(1, 1, 3, 1), np.array([[[8], [3]]]), np.array([[[2], [3]]]),
            np.array([[place], [1 - place]]), np.full((1, 1, 1), float(depth)), np.zeros(1, dtype=np.bool_),
            np.array([[3, int(padded)]]), moving, sizes, within, found,
        )
        return int(within[0, 0, 0]), int(found[0, 0, 0])

    assert shared() == (1, 2)
    assert shared(region=(8, 12, 5)) == (0, 1), "all that there is: one DMA"
    assert shared(region=(8, 6, 5)) == (0, 1), "whole rows: a run for each plane, and planes are the rows of one DMA"
    assert shared(region=(8, 6, 5), padded=True) == (1, 2), "where padding may be in it nothing joins across"
    assert shared(region=(8, 1, 1), source=(8, 12, 1), padded=True) == (0, 1)
    assert shared(region=(1, 6, 3)) == (0, 1), "one plane"
    assert shared(depth=2) == (0, 1), "the loop is around the load"
    assert shared(place=0) == (0, 1) and shared(place=0, depth=0) == (0, 2)
    assert shared(movers=((0, 1), (1, 1)), depth=0) == (0, 1), "two loops move it"
    assert shared(least=2) == (0, 1), "neighbours read one plane both"
    assert shared(often=2) == (0, 1) and shared(often=2, movers=((0, 2), (-1, -1))) == (1, 2), "or they read one element of two"
    assert shared(least=2, movers=((0, 2), (-1, -1))) == (1, 2)


def test_with_three_places_two_visits_are_loaded_ahead() -> None:
    """Loads of 100 words, 25 cycles beyond each; the next two places are free at 0 and at 500."""
    one = np.ones(1, dtype=np.int64)

    def ahead(banks: int, slot: int, once: int = 0) -> list[tuple[float, float]]:
        fills = np.zeros((3, 3))
        n = run_ahead(
            10.0, 0, 0 * one, 0 * one, one, np.array([100.0]), np.array([1.0]), banks * one, once * one, slot * one,
            np.array([[0.0, 500.0, 900.0]]), fills, 0, 23.0, 2.0,
        )
        return [(float(begun), float(ended)) for begun, ended, _ in fills[:n]]

    assert ahead(1, 0) == [] and ahead(2, 0) == [(10, 135)] and ahead(2, 1) == [(500, 625)]
    assert ahead(3, 0) == [(10, 135), (500, 625)] and ahead(3, 2) == [(900, 1025), (1025, 1150)]
    assert ahead(1, 0, once=1) == ahead(3, 0, once=1) == [(10, 135)]


@pytest.mark.parametrize(("rows", "columns"), [(6, 8), (12, 5), (6, 11)])
def test_shares_of_a_place_are_read_and_loaded_again_in_turn(rows: int, columns: int) -> None:
    """Two groups come in a DMA each, into one place: while the second is read the first is loaded anew."""
    space = Space(workload(GROUPS).func, "vta-de10")
    point = space.point(tile_g=1, tile_y=rows, tile_x=columns, order=3, load_data=2, drop_zeros=1, banks_data=1, banks_acc=2)
    assert abs(off(space, GROUPS, point[None])[0]) < 0.035


def test_the_first_share_is_not_waited_for_longer_than_it_takes() -> None:
    space = Space(workload(GROUPS).func, "vta-de10")
    points = of_kind(space, {**SIMPLE, "banks_data": 2, "load_data": 2, "tile_g": 1, "tile_x": (1, 21), "drop_zeros": 1})
    nest = space.sketches[0].model.nest
    inner = [[nest.axes[a].name for a in order if nest.axes[a].extent > 1][-1] == "g" for order in space.sketches[0].model.orders]
    points = points[np.array(inner)[points[:, space.names.index("order")]]]
    assert len(points) >= 8 and error_of_lowest(space, GROUPS, points, 8) < 0.008


@pytest.mark.parametrize(("name", "kind"), [
    # Nothing has two banks, and something stays on chip while addends are loaded.
    ("conv2d:h=5,w=9,ci=80,co=80,k=3,pad=1,groups=5", {"keep_kernel": 1, "load_bias": (1, 9)}), (GROUPS, {}), (RESIDUAL, {}),
])
def test_an_estimate_does_not_hang_on_the_points_beside_it(name: str, kind: dict[str, Any]) -> None:
    space = Space(workload(name).func, "vta-de10")
    banks = {own: 1 for own in space.names if own.startswith("banks_")}
    few, others = of_kind(space, {**banks, **kind}, 12000)[:100], space.sample(np.random.default_rng(0), 200)
    among = space.draft(np.concatenate([few, others]))[: len(few)]
    assert len(few) > 20 and [float(space.draft(p[None])[0]) for p in few] == among.tolist()


def test_what_only_stages_read_is_loaded_behind_the_loops_that_they_are_behind() -> None:
    space = Space(workload(RESIDUAL).func, "vta-de10")
    points = of_kind(space, {**SIMPLE, **LOADED, "late": (1, 9)})
    loads = [points[:, space.names.index(f"load_{own}")] for own in "ab"]
    points = points[loads[0] > loads[1]]
    assert len(points) >= 8 and error_of_lowest(space, RESIDUAL, points, 8) < 0.025


def test_loads_in_one_loop_come_in_the_order_of_the_operands() -> None:
    """The last part has one tile of rows: data stands where weights do there, and comes first; that weights wait is no matter."""
    space = Space(workload("mobilenet.d4").func, "vta-de10")
    point = space.point(cut=cut(space, "y", 8), tile_g=1, tile_y=10, tile_x=14, order=4, load_data=3, load_kernel=2, banks_data=2,
                        banks_acc=2, late=1, addend_first=1)
    assert abs(off(space, "mobilenet.d4", point[None])[0]) < 0.02


def loads(space: Space, point: np.ndarray, memory: int) -> np.ndarray:
    """The LOADs of one memory that a point's program has."""
    table = lower_table(space.schedule(point).func, "vta-de10").table
    return table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == memory)]


def counted(space: Space, point: np.ndarray, operand: int) -> tuple[int, int]:
    """(fills of an operand, DMAs) that a point's program should have."""
    sketch, plan = space.meaning(point[None])
    model: Model = sketch.model
    fills = model.fills(plan, plan.stack, operand)
    return int(fills.sum()), int((fills * model.transfer(plan, plan.stack, operand)[1]).sum())


def test_whole_tiles_inside_a_border_come_in_one_dma() -> None:
    """Six rows in tiles of two, the first and the last with a row of the padding: both groups of the others are one DMA."""
    space = Space(workload("conv2d:h=6,w=5,ci=32,co=32,k=3,pad=1,groups=2").func, "vta-de10")
    point = space.point(tile_y=2, order=2, load_data=1, drop_zeros=1)
    rows = loads(space, point, isa.MEM_INP)[:, [isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE]]
    assert rows.tolist() == [[3, 5, 5], [3, 5, 5], [2, 20, 30], [3, 5, 5], [3, 5, 5]], rows


def test_a_first_part_in_tiles_loads_what_its_point_says() -> None:
    """Outside of its tiles where no loop of the others is around, and inside of them where it says so."""
    space = Space(workload("mobilenet.d8").func, "vta-de10")
    first = {"head": cut(space, "g", 3), "head_tile": cut(space, "x", 1), "cut": cut(space, "g", 2), "tile_g": 3,
             "load_kernel": 1, "banks_data": 3, "banks_kernel": 3, "banks_acc": 3, "drop_zeros": 1}
    whole, each = (space.point(**first, load_data=depth) for depth in (1, 3))
    assert counted(space, whole, 0) == (11, 11) == (len(loads(space, whole, isa.MEM_INP)),) * 2
    # At the border a tile has a column less, and its rows gaps on chip.
    assert counted(space, each, 0) == (7 + 10, 7 + 10) and len(loads(space, each, isa.MEM_INP)) == 3 * 14 + 6 + 10
    for point in (whole, each):
        assert abs(off(space, "mobilenet.d8", point[None])[0]) < 0.02
