"""Tiles that do not divide their axis: where they may, what they compute, what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from decided import cut, error_of_lowest, run, settled, within_bounds

from autosched.errors import ProgramError
from autosched.ir.scopes import INP
from autosched.lower import lower_table
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa
from space import Space
from space.least_elements import least_elements
from space.rules.length import instructions
from space.rules.tiling import balanced, divisors

DENSE = "dense:m=14,k=64,n=80,bias=1"
CONV = "conv2d:h=9,w=11,ci=32,co=80,k=3,pad=1"
STRIDED = "conv2d:h=12,w=10,ci=32,co=48,k=1,stride=2"
GROUPED = "conv2d:h=14,w=10,ci=80,co=80,k=3,stride=2,pad=1,groups=5"
LONG = "dense:m=14,k=176,n=80,bias=1"
DEEP = "conv2d:h=9,w=11,ci=80,co=32,k=3,pad=1"
POINTS = "conv2d:h=5,w=7,ci=112,co=48,k=1"


def uneven(space: Space, points: np.ndarray) -> np.ndarray:
    """Which points have a tile of the output that is smaller than the others."""
    found = []
    for point in points:
        sketch, plan = space.meaning(point[None])
        found.append(any(part.short[0, : sketch.model.n_spatial].any() for part in plan.parts if part.on[0]))
    return np.array(found, dtype=np.bool_)


def in_pieces(space: Space, points: np.ndarray) -> np.ndarray:
    """Which points have a last piece of a reduction that is smaller than the others."""
    found = []
    for point in points:
        sketch, plan = space.meaning(point[None])
        found.append(any(part.short[0, sketch.model.n_spatial :].any() for part in plan.parts if part.on[0]))
    return np.array(found, dtype=np.bool_)


def drawn_in_pieces(name: str, target: str, count: int) -> tuple[Space, np.ndarray]:
    space = Space(workload(name).func, target)
    points = space.sample(np.random.default_rng(6), count)
    return space, points[in_pieces(space, points)]


def drawn(name: str, target: str, count: int) -> tuple[Space, np.ndarray]:
    space = Space(workload(name).func, target)
    points = space.sample(np.random.default_rng(6), count)
    return space, points[uneven(space, points)]


def test_balanced_tiles_are_the_smallest_for_their_number() -> None:
    for n in range(1, 130):
        count = [-(-n // tile) for tile in range(1, n + 1)]
        assert balanced(n) == tuple(tile for tile in range(1, n + 1) if tile == 1 or count[tile - 1] < count[tile - 2])
        assert set(divisors(n)) <= set(balanced(n))
    assert balanced(14) == (1, 2, 3, 4, 5, 7, 14)


@pytest.mark.parametrize(("given", "tile"), [
    ({"tile_m": 4}, 4), ({"tile_m": 5}, 5), ({"tile_m": 6}, 5), ({"tile_m": 13}, 7),  # of all rows
    ({"tile_m": 5, "cut": ("m", 2)}, 4), ({"tile_m": 5, "head": ("m", 4)}, 5), ({"tile_m": 5, "head": ("m", 3)}, 1),
    # Of all rows, beside a cut of columns.
    ({"tile_m": 4, "cut": ("n", 1)}, 4), ({"tile_m": 5, "cut": ("n", 1)}, 5),
    ({"tile_m": 6, "head": ("n", 1)}, 5),
])
def test_what_is_cut_is_divided_and_what_is_whole_need_not_be(given: dict[str, int | tuple[str, int]], tile: int) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    values = {name: value if isinstance(value, int) else cut(space, *value) for name, value in given.items()}
    point = settled(space, **values, load_data=1)
    assert point[space.names.index("tile_m")] == tile and not point[space.names.index("cut_again")]
    assert run(space, DENSE, point, execute=True).ok


@pytest.mark.parametrize(("rest", "tiles"), [(1, 1), (2, 3), (3, 1), (4, 1)])
def test_what_the_tile_of_the_others_does_not_divide_is_one_tile(rest: int, tiles: int) -> None:
    """Of 14 rows of the last column, in tiles of four elsewhere, so many are a part of their own."""
    space = Space(workload(DENSE).func, "vta-de10")
    point = settled(space, tile_m=4, load_data=1, cut=cut(space, "n", 1), cut_again=cut(space, "m", rest))
    main, before, last = space.meaning(point[None])[1].parts
    rows = [int(part.tiles[0, 0]) for part in (main, before, last)]
    assert before.outer[0, 0] == tiles and rows[:2] == [4, (14 - rest) // tiles] and last.outer[0, 0] * rows[2] == rest
    assert run(space, DENSE, point, execute=True).ok
    assert space.point_of(space.trace(point)).tolist() == point.tolist()


def test_the_last_tile_is_smaller() -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    table = lower_table(space.schedule(space.point(tile_m=4, load_data=1, banks_data=2)).func, "vta-de10").table

    def sizes(opcode: int, memory: int) -> list[int]:
        mine = table[(table[:, isa.OPCODE] == opcode) & (table[:, isa.MEM] == memory)]
        return [int(n) for n in mine[:, isa.Y_SIZE] * mine[:, isa.X_SIZE] if n]

    assert sizes(isa.OP_LOAD, isa.MEM_INP) == [16, 16, 16, 8] and sizes(isa.OP_STORE, isa.MEM_OUT) == [20, 20, 20, 10]


def test_padding_is_left_out_where_tiles_differ_along_it() -> None:
    space = Space(workload(CONV).func, "vta-de10")
    sketch = space.sketches[0].model
    axes = {axis.name: n for n, axis in enumerate(sketch.nest.axes)}
    assert sketch.tied == [axes["y"], axes["x"]] and sketch.uneven[[axes["y"], axes["x"], axes["co"]]].all()
    assert not sketch.uneven[list(sketch.nest.reduce)].any()
    space.point(tile_y=5, order=2, load_data=1, drop_zeros=1)
    space.point(tile_y=3, order=2, load_data=1, drop_zeros=0)
    space.point(tile_co=2, load_kernel=1, drop_zeros=0)  # channels have no padding
    with pytest.raises(ProgramError, match="not in the space"):
        space.point(tile_y=5, order=2, load_data=1, drop_zeros=0)


def test_where_nothing_is_known_of_the_last_tile_they_divide() -> None:
    """What stages read at several places, and what is loaded of a stride: there is no padding that could be left out."""
    pool = Space(workload("max_pool2d:h=14,w=14,c=16,k=3,stride=2,pad=1").func, "vta-de10")
    for form, sketch in enumerate(pool.sketches):
        if len(sketch.models) > 1 or not sketch.model.nest.halos:
            continue
        assert not sketch.model.uneven.any()
        some = Space(pool.func, "vta-de10", fixed={"sketch": form})
        points = some.sample(np.random.default_rng(0), 200)
        assert len(points) > 100 and not uneven(some, points).any()
    strided = Space(workload(STRIDED).func, "vta-de10")
    forms = set()
    for sketch in strided.sketches:
        axes = {axis.name: n for n, axis in enumerate(sketch.model.nest.axes)}
        rows = "rows in use" in sketch.done
        forms.add(rows)
        # Rows in use are copied one by one, all their columns with them.
        assert sketch.model.uneven[[axes["co"], axes["y"]]].all() and sketch.model.uneven[axes["x"]] == (not rows)
    assert forms == {False, True}


@pytest.mark.parametrize(("text", "axis", "longest"), [
    ("dense:m=290,k=32,n=32", "m", [73, 97, 145, 290]), ("max_pool2d:h=580,w=4,c=16,k=3,stride=2,pad=1", "y", [145, 290]),
])
def test_of_a_long_axis_only_tiles_that_may_be_are_choices(text: str, axis: str, longest: list[int]) -> None:
    """Where windows are shared on chip, divisors."""
    space = Space(workload(text).func, "vta-de10")
    model = space.sketches[-1].model
    column = model.columns[model.index[f"tile_{axis}"]]
    assert [tile for tile in column.choices if tile > 64] == longest


def test_a_load_around_uneven_tiles_is_as_large_as_lowering_makes_it() -> None:
    """Of 10 rows a stride of 2 leaves the last one out; three tiles of 2 reach over it, but not beyond the image."""
    space = Space(workload("conv2d:h=10,w=10,ci=32,co=16,k=1,stride=2").func, "vta-de10")
    rng, met = np.random.default_rng(0), 0
    for point in space.sample(rng, 120):
        sketch, plan = space.meaning(point[None])
        model, parts = sketch.model, [part for part in plan.parts if part.on[0]]
        (data,) = (k for k, operand in enumerate(model.nest.operands) if operand.label == "data")
        if plan.keep[data][0] or not plan.attach[data][0]:
            continue
        lowered = lower_table(space.schedule(point).func, "vta-de10")
        made = sorted(storage.elements for storage in lowered.storages if storage.scope == INP)
        assert made == sorted(int(model.footprint(plan, part, data)[0]) for part in parts)
        met += bool(parts[0].short.any())
    assert met > 1


def test_least_loads_are_those_of_all_iterations() -> None:
    """What every tile reads adds up to what all of them do, whatever their sizes."""
    space = Space(workload(CONV).func, "vta-de10")
    sketch = space.sketches[0]
    for given in ({"tile_co": 2, "order": 0, "load_kernel": 1}, {"tile_y": 5, "order": 2, "load_data": 1, "drop_zeros": 1}):
        point = settled(space, **given)
        assert uneven(space, point[None]).all()
        _, plan = space.meaning(point[None])
        assert least_elements(sketch.model, plan, 0) == 2 * 9 * 11 and least_elements(sketch.model, plan, 1) == 2 * 5 * 9


@pytest.mark.parametrize(("name", "target"), [
    (DENSE, "vta-pynq"), (CONV, "vta-de10"), (CONV, "vta-de10-portable"), (STRIDED, "vta-fsim"), (GROUPED, "vta-de10"),
    ("residual:h=5,w=7,c=80", "vta-de10"), ("conv2d_transpose:h=5,w=3,ci=32,co=48,k=4,stride=2,pad=1", "vta-de10-portable"),
])
def test_they_compute_the_same_within_their_bounds(name: str, target: str) -> None:
    space, points = drawn(name, target, 60)
    within_bounds(space, name, points, 8)


@pytest.mark.parametrize("name", [DENSE, CONV, GROUPED, "residual:h=10,w=14,c=80"])
def test_the_estimate_knows_them(name: str) -> None:
    space, points = drawn(name, "vta-de10", 600)
    assert error_of_lowest(space, name, points) < 0.06


@pytest.mark.parametrize("name", [DENSE, CONV])
def test_they_are_programs_of_their_own(name: str) -> None:
    space, points = drawn(name, "vta-de10", 200)
    some = points[np.argsort(space.draft(points), kind="stable")[:30]]
    assert len({run(space, name, p).program for p in some}) == len(some) == 30


def test_the_last_tile_costs_what_it_has() -> None:
    """Of fewer rows: what is loaded, started, summed, finished and stored for it shrinks with it."""
    # Stages of a tile, of all tiles at once, and row by row; last, loads are what takes long.
    for k, n, given, near in (
        (64, 256, {"banks_acc": 2}, 4), (64, 256, {"init": 1}, 30), (64, 256, {"banks_acc": 2, "tail": 1}, 24),
        (2048, 16, {"banks_acc": 2}, 12),
    ):
        cycles, said = {}, {}
        for m in (16, 15, 13):
            name = f"dense:m={m},k={k},n={n},bias=1"
            space = Space(workload(name).func, "vta-de10")
            point = settled(space, tile_m=4, load_data=1, banks_data=2, **given)
            found = dict(zip(space.names, point.tolist()))
            assert found["tile_m"] == 4 and all(found[column] == value for column, value in given.items())
            cycles[m], said[m] = run(space, name, point).cycles, space.draft(point[None])[0]
        for fewer in (15, 13):
            off = (said[16] - said[fewer]) - (cycles[16] - cycles[fewer])
            assert abs(off) <= near, (given, fewer, off)


@pytest.mark.parametrize(("name", "target"), [
    ("conv2d:h=13,w=7,ci=32,co=112,k=1", "vta-de10"), ("conv2d:h=13,w=7,ci=32,co=112,k=1", "vta-fsim"), (CONV, "vta-pynq"),
    ("residual:h=5,w=7,c=80", "vta-de10"), ("conv2d:h=13,w=9,ci=32,co=48,k=5,stride=2,pad=2", "vta-de10-portable"),
])
def test_no_program_is_longer_than_its_bound(name: str, target: str) -> None:
    """The last tile lies in a place for a whole one, where nothing joins across the dimension in which it is smaller."""
    space, points = drawn(name, target, 200)
    said = []
    for point in points:
        sketch, plan = space.meaning(point[None])
        said.append(int(instructions(sketch.model, plan)[0]))
    shortest = np.argsort(said, kind="stable")[:20]
    assert len(shortest) == 20
    for n in shortest:
        assert len(lower_table(space.schedule(points[n]).func, target).table) <= said[n], space.explain(points[n])


def test_tiles_that_every_step_was_refused_for_are_points() -> None:
    """Nine rows in tiles of two, initial values in front of them, a load of addends behind: the last tile lacks a row of taps."""
    name = "conv2d:h=9,w=11,ci=48,co=64,k=3,pad=1,bias=1,tail=cast"
    space = Space(workload(name).func, "vta-de10")
    point = settled(space, head=cut(space, "x", 4), tile_co=1, tile_y=2, tile_x=1, tile_ky=1, drop_zeros=1, order=4, load_data=3,
                    load_kernel=6, load_bias=2, head_late=1, init=1, head_init=2, banks_data=3, banks_kernel=2)
    assert uneven(space, point[None]).all() and run(space, name, point, execute=True).ok


@pytest.mark.parametrize(("given", "tile"), [
    ({"tile_k": 4}, 4), ({"tile_k": 5}, 4), ({"tile_k": 6}, 6), ({"tile_k": 10}, 6),
    # Of the output something is cut off, and of the reduction nothing.
    ({"tile_k": 4, "cut": ("m", 2)}, 4), ({"tile_k": 4, "head": ("n", 1)}, 4),
    ({"tile_k": 7, "cut": ("n", 1)}, 6),
])
def test_pieces_of_a_reduction_need_not_divide_it(given: dict[str, int | tuple[str, int]], tile: int) -> None:
    space = Space(workload(LONG).func, "vta-de10")
    values = {name: value if isinstance(value, int) else cut(space, *value) for name, value in given.items()}
    point = settled(space, **values, load_data=3, load_weight=3)
    assert point[space.names.index("tile_k")] == tile and in_pieces(space, point[None]).all()
    assert run(space, LONG, point, execute=True).ok


def test_without_a_load_between_them_there_are_no_pieces() -> None:
    space = Space(workload(LONG).func, "vta-de10")
    for loads in ({"load_data": 0, "load_weight": 0}, {"load_data": 1, "load_weight": 2, "tile_m": 4}):
        point = settled(space, tile_k=4, **loads)
        assert point[space.names.index("tile_k")] == 11 and not in_pieces(space, point[None]).any()


@pytest.mark.parametrize(("name", "able"), [
    (LONG, {"k"}), (DEEP, {"ci"}), (POINTS, {"ci"}), (GROUPED, set()),
    ("conv2d:h=12,w=10,ci=144,co=48,k=1,stride=2", {"ci"}), ("conv2d:h=14,w=10,ci=240,co=160,k=3,groups=5", {"ci"}),
    # Boundary: divisors all the way, of few iterations and of more; and a step too far between two.
    ("dense:m=9,k=192,n=32", set()), ("dense:m=9,k=256,n=32", set()), ("dense:m=9,k=320,n=32", {"k"}),
    ("dense:m=9,k=512,n=32", {"k"}), ("dense:m=9,k=160,n=32", {"k"}), ("dense:m=9,k=32,n=32", set()),
    ("max_pool2d:h=9,w=9,c=16,k=3,stride=2,pad=1", set()),
])
def test_pieces_are_smaller_where_nothing_else_moves_what_they_read(name: str, able: set[str]) -> None:
    """Windows move with rows and columns. Of few steps, too, where divisors are far apart."""
    for sketch in Space(workload(name).func, "vta-de10").sketches:
        for model in sketch.models:
            assert {model.nest.axes[a].name for a in model.nest.reduce if model.uneven[a]} == able


def test_what_moves_otherwise_than_index_by_index_has_gaps() -> None:
    """Rows and columns of every second pixel, and those that windows share; addends are loaded by another engine."""
    for name, wanted in ((STRIDED, [True, False, False]), (CONV, [True, False, False]), (POINTS, [True, True, True])):
        model = next(s.model for s in Space(workload(name).func, "vta-de10").sketches if "rows in use" not in s.done)
        dense = dict(zip([operand.label for operand in model.nest.operands], model.dense.tolist()))
        assert dense["data"][1:4] == wanted and not any(dense["bias"])


@pytest.mark.parametrize(("name", "target"), [
    (LONG, "vta-de10"), (LONG, "vta-de10-portable"), (DEEP, "vta-de10"), (POINTS, "vta-pynq"),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in (
        (LONG, "vta-fsim"), (DEEP, "vta-de10-portable"), (POINTS, "vta-de10-portable"), ("dense:m=3,k=592,n=592", "vta-de10"))),
])
def test_pieces_compute_the_same_within_their_bounds(name: str, target: str) -> None:
    space, points = drawn_in_pieces(name, target, 60)
    within_bounds(space, name, points, 8)


@pytest.mark.parametrize("name", [LONG, DEEP, POINTS])
def test_the_estimate_knows_pieces(name: str) -> None:
    space, points = drawn_in_pieces(name, "vta-de10", 1200)
    assert len(points) > 60 and error_of_lowest(space, name, points) < 0.02


def test_the_last_piece_costs_what_it_has() -> None:
    """Of fewer blocks: fewer beats, and where every block is a DMA fewer DMAs."""
    for make, whole, fewer, given, near in (
        (lambda k: f"dense:m=16,k={16 * k},n=64", 12, (11, 10), {"tile_k": 4, "load_data": 3, "load_weight": 3}, 12),
        # Rows of a tile of an image: a DMA for every block.
        (lambda k: f"conv2d:h=9,w=9,ci={16 * k},co=32,k=1", 12, (11, 10),
         {"tile_ci": 4, "tile_y": 3, "tile_x": 5, "load_data": 5, "load_kernel": 0, "order": 3}, 60),
    ):
        cycles, said = {}, {}
        for k in (whole, *fewer):
            space = Space(workload(make(k)).func, "vta-de10")
            point = settled(space, **given)
            found = dict(zip(space.names, point.tolist()))
            assert all(found[column] == value for column, value in given.items())
            cycles[k], said[k] = run(space, make(k), point).cycles, space.draft(point[None])[0]
        for k in fewer:
            off = (said[whole] - said[k]) - (cycles[whole] - cycles[k])
            assert abs(off) <= near, (given, k, off, cycles, said)


def test_what_holds_pieces_is_as_large_as_lowering_makes_it() -> None:
    space, points = drawn_in_pieces(LONG, "vta-de10", 120)
    met = 0
    for point in points:
        sketch, plan = space.meaning(point[None])
        model, parts = sketch.model, [part for part in plan.parts if part.on[0]]
        if plan.keep[0][0] or not plan.attach[0][0]:
            continue
        lowered = lower_table(space.schedule(point).func, "vta-de10")
        made = sorted(storage.elements for storage in lowered.storages if storage.scope == INP)
        assert made == sorted(int(model.footprint(plan, part, 0)[0]) for part in parts)
        met += 1
    assert met > 10


@pytest.mark.parametrize("target", ["vta-de10", pytest.param("vta-de10-portable", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [LONG, DEEP, POINTS])
def test_no_program_in_pieces_is_longer_than_its_bound(name: str, target: str) -> None:
    space, points = drawn_in_pieces(name, target, 200)
    said = [int(instructions(sketch.model, plan)[0]) for sketch, plan in (space.meaning(p[None]) for p in points)]
    shortest = np.argsort(said, kind="stable")[:20]
    assert len(shortest) == 20
    for n in shortest:
        assert len(lower_table(space.schedule(points[n]).func, target).table) <= said[n], space.explain(points[n])


@pytest.mark.parametrize(("tile", "alone"), [(1, True), (2, False)])
def test_pieces_of_what_the_first_part_alone_loads_are_as_its_column_has_them(tile: int, alone: bool) -> None:
    """Of three blocks pieces of one are the first part's own; such of two and one the column has not, so all have them."""
    space = Space(workload("dense:m=6,k=48,n=32,bias=0").func, "vta-de10")
    point = settled(space, head=cut(space, "m", 2), tile_m=1, tile_k=tile, load_weight=3, keep_weight=1)
    columns = dict(zip(space.names, point.tolist()))
    assert columns["keep_weight"] == 1 and (columns["tile_k"], columns["head_k"]) == ((3, tile) if alone else (tile, 3))
    assert space.valid(point[None]).all()
    within_bounds(space, "dense:m=6,k=48,n=32,bias=0", point[None], 1)


@pytest.mark.parametrize(("keys", "depth", "pieces"), [
    ({}, 256, [1, 2, 4, 8, 12, 14, 15, 16]), ({}, 240, [1, 3, 5, 15]),  # boundary: 16 iterations
    ({"bus_bytes": 16}, 240, [1, 3, 5, 15]), ({"bus_bytes": 16}, 256, [1, 2, 4, 8, 12, 14, 15, 16]),
    ({"LOG_BLOCK": 5}, 128, [1, 2, 3, 4]), ({"LOG_BLOCK": 5}, 96, [1, 3]),  # boundary: 512 words of weights
    ({"LOG_BLOCK": 5, "bus_bytes": 16}, 256, [1, 2, 4, 6, 7, 8]), ({"LOG_BLOCK": 5, "bus_bytes": 16}, 224, [1, 7]),
])
def test_a_last_piece_may_be_smaller_where_weights_are_many_words(
    keys: dict[str, int], depth: int, pieces: list[int], tmp_path: Path,
) -> None:
    (tmp_path / "machine.json").write_text(json.dumps(keys))
    machine = get_target(tmp_path / "machine.json")
    space = Space(workload(f"dense:m=16,k={depth},n=256", 1, machine.config.block_in).func, machine)
    assert dict(zip(space.names, space.choices))["last_k"].tolist() == [0, *pieces]


def test_of_large_weights_a_smaller_last_piece_takes_fewer_cycles(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text(json.dumps({"LOG_BLOCK": 5}))
    machine, name = get_target(tmp_path / "machine.json"), "dense:m=16,k=256,n=256"
    func = workload(name, 1, 32).func
    space = Space(func, machine)
    many = {"head": cut(space, "n", 3), "cut": cut(space, "n", 1), "tile_n": 1, "tile_k": 8, "head_k": 4, "load_weight": 3}
    cycles = {}
    for size in (0, 4, 7):
        point = settled(space, **many, last_k=size, banks_weight=2, banks_acc=2, tail_last=1, tail_last_size=8)
        assert point[space.names.index("last_k")] == size
        within_bounds(space, func, point[None], 1)
        cycles[size] = lower_table(space.schedule(point).func, machine).cycles()
        assert abs(space.draft(point[None])[0] / cycles[size] - 1) < 0.02
    assert cycles[7] < cycles[4] < cycles[0]
