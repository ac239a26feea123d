"""Slices of several indices, and parts as long as a tile that do something otherwise: what they store and compute, and twins."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, deciding, drawn, error_of_lowest, run, settled, within_bounds

from autosched.errors import ProgramError
from autosched.lower import lower_table
from autosched.workloads import workload
from sim import isa
from space import Space
from space.model import Model
from space.rules.cuts import decoded, table

CONV = "conv2d:h=7,w=6,ci=32,co=48,k=3,pad=1"
DENSE = "dense:m=12,k=256,n=64,bias=1"
THICK = ("tail_size", "tail_last_size")


def axis(space: Space, name: str) -> int:
    """The value of a column of slices."""
    return 1 + [a.name for a in space.sketches[0].models[0].nest.axes].index(name)


def stored(space: Space, point: np.ndarray) -> list[int]:
    """Vectors of every STORE."""
    rows = lower_table(space.schedule(point).func, space.target).table
    rows = rows[rows[:, isa.OPCODE] == isa.OP_STORE]
    return (rows[:, isa.Y_SIZE] * rows[:, isa.X_SIZE]).tolist()


def thick(space: Space, points: np.ndarray) -> np.ndarray:
    """Which points have slices of several indices."""
    return np.asarray((points[:, [space.names.index(n) for n in THICK]] > 1).any(axis=1))


@pytest.mark.parametrize(("given", "size", "slices"), [
    ({}, 1, [18] * 7), ({}, 2, [36, 36, 36, 18]), ({}, 3, [54, 54, 18]), ({}, 4, [72, 54]), ({}, 6, [108, 18]),  # a tile alone
    ({"tile_co": 1}, 1, [6] * 21), ({"tile_co": 1}, 3, None), ({"tile_co": 1}, 6, None),  # nothing but 1 divides 7
    ({"head": ("y", 1), "tile_y": 6, "tile_co": 1}, 4, None),
    ({"head": ("y", 1), "tile_y": 6, "tile_co": 1}, 3, [6] * 3 + [18] * 6),
])
def test_the_last_slice_of_a_lone_tile_takes_what_is_left(
    given: dict[str, int | tuple[str, int]], size: int, slices: list[int] | None
) -> None:
    """Of several tiles slices are as thick as divides them."""
    space = Space(workload(CONV).func, "vta-de10")
    own = {k: cut(space, *v) if isinstance(v, tuple) else v for k, v in given.items()}
    point = settled(space, **own, tail=axis(space, "y"), tail_size=size)
    if slices is None:
        assert point[space.names.index("tail_size")] < size
        with pytest.raises(ProgramError, match="simpler twin"):
            space.point(**{**dict(zip(space.names, point.tolist())), "tail_size": size})
        return
    assert point[space.names.index("tail_size")] == size
    assert sum(stored(space, point)) == 7 * 6 * 3
    found = stored(space, point)
    # A channel block's rows lie together, and are a DMA of their own.
    sums = np.add.reduceat(found, np.flatnonzero(np.arange(len(found)) % (len(found) // len(slices)) == 0))
    assert sums.tolist() == slices and run(space, CONV, point, execute=True).ok


def test_windows_and_padding_behind_a_stage_are_not_cut_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such stages go over a tile in slices that divide it; in others the schedule is none."""
    name, wrong = "max_pool2d:h=12,w=10,c=32,k=3,stride=2,pad=1", 0
    for held in (True, False):
        monkeypatch.setattr(Model, "slices_leave", property(lambda model, held=held: not held))
        space = Space(workload(name).func, "vta-de10")
        points = space.sample(np.random.default_rng(0), 800)
        columns = [n for n, c in enumerate(space.names) if c.endswith(("tail_size", "tail_last_size"))]
        some = points[(points[:, columns] > 1).any(axis=1)][:12]
        results = [run(space, name, p) for p in some]
        assert len(some) == 12 and (not held or all(r.ok for r in results))
        wrong += sum(r.status == "illegal" for r in results)
    assert wrong > 2
    monkeypatch.undo()
    assert [s.models[-1].slices_leave for s in Space(workload(name).func, "vta-de10").sketches[:1]] == [False]
    assert Space(workload(CONV).func, "vta-de10").sketches[0].model.slices_leave


def test_what_is_one_slice_is_none() -> None:
    space = Space(workload(CONV).func, "vta-de10")
    point = settled(space, tail=axis(space, "y"), tail_size=7 - 1)
    assert point[space.names.index("tail")] > 0 and "store by 6 y" in space.explain(point)
    for size in (1, 6):
        plain = settled(space, tile_y=1, tail=axis(space, "y"), tail_size=size)
        assert plain[space.names.index("tail")] == 0 and plain[space.names.index("tail_size")] == 1
    assert max(space.choices[space.names.index("tail_size")]) == 6, "the longest axis has seven"


@pytest.mark.parametrize(("name", "target"), [
    (CONV, "vta-de10"), (CONV, "vta-de10-portable"), ("residual:h=6,w=6,c=96", "vta-fsim"), (DENSE, "vta-pynq"),
    ("max_pool2d:h=9,w=10,c=16,k=3,stride=1,pad=1", "vta-de10"), ("avg_pool2d:h=9,w=10,c=16,k=3,stride=1,pad=1", "vta-de10"),
])
def test_they_compute_the_same_within_their_bounds(name: str, target: str) -> None:
    space, points = drawn(name, target, THICK, 4, 900)
    within_bounds(space, name, points[thick(space, points)], 6)


@pytest.mark.parametrize("name", [CONV, DENSE])
def test_the_estimate_knows_them(name: str) -> None:
    space, points = drawn(name, "vta-de10", THICK, 4, 900)
    assert error_of_lowest(space, name, points[thick(space, points)]) < 0.06


@pytest.mark.parametrize("name", [CONV, DENSE, "residual:h=6,w=6,c=96"])
def test_other_thicknesses_are_other_programs(name: str) -> None:
    space, points = drawn(name, "vta-de10", THICK, 4, 900)
    some = points[thick(space, points)][:12]
    beside = [p for point in some for p in space.neighbours(point)[::157]]
    rows = np.unique(np.array([*some, *beside]), axis=0)
    programs = [run(space, name, p).program for p in rows]
    assert len(set(programs)) == len(rows) > 24 and None not in programs


@pytest.mark.parametrize(("given", "fits"), [
    ({}, False),  # a tile like the others
    ({"tail_last": "m"}, True), ({"tail_last": "m", "tail": "m"}, False),
    ({"tail_last": "m", "tail_last_size": 2, "tail": "m"}, True),
    ({"last_k": 8, "load_weight": 3}, True), ({"last_k": 8}, False),  # nothing is loaded for it alone
    ({"tile_k": 4, "last_k": 8, "load_weight": 3}, False),  # in coarser pieces it is what a first part leaves
    ({"cut": ("m", 6), "last_k": 8, "load_weight": 3}, True), ({"cut": ("m", 6)}, False),  # two such tiles
    ({"cut": 0, "head": ("m", 3), "head_k": 8, "load_weight": 3}, True), ({"cut": 0, "head": ("m", 3)}, False),
    ({"cut": 0, "head": ("m", 3), "head_k": 8}, False),
    ({"cut_again": ("n", 1), "tile_n": 1, "cut": ("m", 1), "tail_last": "m"}, False),  # a row has no slices
    ({"cut_again": ("n", 1), "tile_n": 1, "cut": ("m", 2), "tile_m": 2, "tail_last": "m"}, True),
    ({"cut_again": ("n", 1), "tile_n": 1, "cut": ("m", 2), "tile_m": 2}, False),
])
def test_a_part_as_long_as_a_tile_is_one_where_it_does_something_otherwise(
    given: dict[str, int | str | tuple[str, int]], fits: bool
) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    plain: dict[str, int | str | tuple[str, int]] = {"tile_m": 3, "tile_k": 16, "cut": ("m", 3)}
    own = {k: cut(space, *v) if isinstance(v, tuple) else axis(space, v) if isinstance(v, str) else v
           for k, v in {**plain, **given}.items()}
    if not fits:
        with pytest.raises(ProgramError, match="not in the space"):
            space.point(**own)
        return
    point = space.point(**own)
    parts = [name for name in ("head", "cut", "cut_again") if point[space.names.index(name)]]
    assert parts and run(space, DENSE, point, execute=True).ok
    assert space.point_of(space.trace(point)).tolist() == point.tolist()
    without = settled(space, **{**own, **dict.fromkeys(parts, 0)})
    assert run(space, DENSE, without).program != run(space, DENSE, point).program


def test_long_axes_may_be_cut_and_tiled_as_shorter_ones_are() -> None:
    """One index more than 64 takes nothing away."""
    def choices(n: int) -> tuple[set[tuple[int, int]], set[int]]:
        space = Space(workload(f"dense:m={n},k=32,n=32").func, "vta-de10")
        sizes = table(space.sketches[0].model)
        return {tuple(row) for row in sizes.tolist()}, set(space.choices[space.names.index("tile_m")].tolist())

    (cuts, tiles), (more_cuts, more_tiles) = choices(64), choices(65)
    assert cuts <= more_cuts and tiles <= more_tiles and 65 in more_tiles
    far, longest = choices(300)
    assert {size for a, size in far if a == 0} == {*range(1, 33), 64, 128} and set(range(1, 65)) | {75, 100, 150, 300} == longest
    space = Space(workload("dense:m=65,k=32,n=32").func, "vta-de10")
    point = space.point(head=cut(space, "m", 10), tile_m=11, load_data=1)
    assert run(space, "dense:m=65,k=32,n=32", point, execute=True).ok


def test_every_form_has_draws() -> None:
    """Also one with far fewer points than another of as many nests."""
    space = Space(workload("resnet18.max_pool").func, "vta-de10")
    sizes = [space._raw(k) for k in range(len(space.sketches))]
    drawn_of = np.bincount(space.draws(np.random.default_rng(0), 3000)[:, 0], minlength=len(sizes))
    alone = [k for k in range(len(sizes)) if space.nests[k] == 1]
    rare, most = sorted(alone, key=lambda k: sizes[k])[::2]
    assert len(alone) == 3 and sizes[rare] < 0.01 * sizes[most]
    assert drawn_of[rare] > 3000 / 2 / 2 / len(sizes) and drawn_of[most] > 3 * drawn_of[rare] / 2


@pytest.mark.parametrize("given", [{}, {"cut": ("m", 2)}, {"cut": ("m", 6)}])
def test_a_search_tries_the_last_tile_alone(given: dict[str, tuple[str, int]]) -> None:
    """One change takes it off, behind a last part that there is; half of the changes leave the parts as they are."""
    space = Space(workload(DENSE).func, "vta-de10")
    model = space.sketches[0].model
    rule = next(rule for rule in model.rules if rule.name == "slices")
    before = settled(space, tile_m=3, tile_n=2, load_data=1, load_weight=2)[space.places(0)]
    for name, value in given.items():
        before[model.index[name]] = cut(space, *value)
    points = np.repeat(before[None], 600, axis=0)
    rule.vary(model, points, np.random.default_rng(0))
    (first_axis, first), (again_axis, again) = (decoded(model, points, name) for name in ("cut", "cut_again"))
    taken = points[:, model.index["tail_last"]] > 0
    assert 200 < ((points == before) | np.isin(range(points.shape[1]), [n for name, n in model.index.items() if "tail" in name])
                  ).all(axis=1).sum() < 400
    axes = {a.name: n for n, a in enumerate(model.nest.axes)}
    if not given:
        assert set(zip(first_axis.tolist(), first.tolist())) == {(-1, 0), (axes["m"], 3), (axes["n"], 2)}
        assert taken[first_axis >= 0].all() and (again_axis < 0).all()
    else:
        size = given["cut"][1]
        assert (first_axis == axes["m"]).all() and (first == size).all() and taken[again_axis >= 0].all()
        assert set(zip(again_axis.tolist(), again.tolist())) == {(-1, 0), (axes["m"], min(3, size)), (axes["n"], 2)}
    rows = np.zeros((len(points), space.width), dtype=np.int32)
    rows[:, space.places(0)] = points
    repaired, inside = space.repair(rows)
    assert (deciding(space, repaired, ("cut_again" if given else "cut",)) & inside).sum() > 10


@pytest.mark.parametrize("name", [CONV, DENSE, "residual:h=6,w=6,c=96"])
def test_stores_of_slices_are_counted_as_lowering_makes_them(name: str) -> None:
    """A last slice of one index may merge with what lies beside it: a STORE of a tile more or less, here and there."""
    space, points = drawn(name, "vta-de10", THICK, 4, 1800)
    off = []
    for point in points[thick(space, points)]:
        sketch, plan = space.meaning(point[None])
        model, part = sketch.model, plan.stack
        if part.short.any() or len(off) == 40:
            continue
        said = model.outs_run(plan, part) * model.slices(plan, part) * model.store_transfers(plan, part)
        off.append(int(np.where(part.on, said, 0).sum()) - len(stored(space, point)))
        assert abs(off[-1]) <= min(4, int(model.outs_run(plan, part).sum())), space.explain(point)
    assert len(off) > 30 and np.mean(np.array(off) == 0) > 0.9


@pytest.mark.parametrize("name", ["tail", "tail_last"])
def test_slices_of_several_indices_are_beside_a_tile_that_goes_whole(name: str) -> None:
    """Of one index each there may be so many that nothing leads from these to thicker ones."""
    space = Space(workload("dense:m=48,k=1024,n=48").func, "vta-de10")
    parts = {"cut": cut(space, "m", 20), "tile_m": 28}
    point = settled(space, tile_k=4, load_data=3, load_weight=3, **(parts if name == "tail_last" else {}))
    near = space.neighbours(point)
    place = [space.names.index(column) for column in (name, f"{name}_size")]
    same = (np.delete(near, place, axis=1) == np.delete(point, place)).all(axis=1)
    sizes = {int(row[place[1]]) for row in near[same & (near[:, place[0]] == axis(space, "m"))]}
    assert point[place[0]] == 0 and {1, 2, 4, 8, 16} <= sizes
