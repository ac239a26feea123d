"""Rules as the house's promise has them: one from outside works, each of ours can be left out, and none is below the bound."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.ir.scopes import INP, WGT
from autosched.kernel import replay
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa
from space import Space
from space.around import around
from space.brood import Brood
from space.model import Model
from space.normalise import normalised
from space.plan import Plan
from space.rule import PROTOCOL, Column, NumericRule, Points
from space.rules import NUMERIC, STRUCTURAL
from space.rules.cuts import table, values
from space.rules.epilogue import Epilogue
from space.rules.rows import Rows

if TYPE_CHECKING:
    from space.build import Build
    from space.draft import Terms

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"
CONV = "conv2d:h=6,w=8,ci=32,co=32,k=3,pad=1"
EVERY = (*STRUCTURAL, *NUMERIC)


class Unrolled(NumericRule):
    """A rule of this file: one column, which marks the sum's loops over taps as instructions of their own."""

    name = "unrolled"

    def columns(self, model: Model) -> tuple[Column, ...]:
        return (Column("unrolled", (0, 1)),)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        plan.others["unrolled"] = model.column(points, "unrolled")

    def draft(self, model: Model, plan: Plan, terms: Terms) -> None:
        terms.extra = terms.extra + 1000.0 * plan.others["unrolled"]

    def explain(self, model: Model, point: np.ndarray, plan: Plan) -> str:
        return "unrolled" if plan.others["unrolled"][0] else ""

    def after(self, build: Build) -> None:
        if build.plan.others["unrolled"][0] and build.piece.anchor is not None:
            loops = build.loops(build.piece.anchor, len(build.piece.loops) + build.nest.anchor_iters - 3)
            build.record("annotate", (), block_or_loop=loops[-1], ann_key="vta.loop", ann_val="unroll")


def test_a_rule_from_outside_is_enumerated_drafted_explained_and_emitted() -> None:
    assert PROTOCOL == 2
    name = "dense:m=1,k=32,n=64,tail=cast,bias=0"
    rules = [r for r in EVERY if r.name not in ("cuts", "residency")]
    plain, space = Space(workload(name).func, "vta-de10", rules), Space(workload(name).func, "vta-de10", [*rules, Unrolled()])
    assert space.names == (*plain.names, "unrolled")
    assert space.count() == (2 * plain.count()[0], True)
    without, given = space.point(), space.point(unrolled=1)
    assert "unrolled" in space.explain(given) and "unrolled" not in space.explain(without)
    assert space.draft(given[None])[0] == space.draft(without[None])[0] + 1000
    ops = [inst["op"] for inst in space.trace(given).as_json()]
    assert ops[-1] == "annotate" and "annotate" not in [inst["op"] for inst in space.trace(without).as_json()]
    assert measure(Candidate(name, "vta-de10", tuple(space.trace(given).as_json())), execute=True).ok


def test_what_a_rule_from_outside_says_of_rows_goes_with_them() -> None:
    """To the estimates of children, which are some of the rows that it has seen, and of every nest by itself."""
    rules, rng = [*EVERY, Unrolled()], np.random.default_rng(0)
    space = Space(workload(CONV).func, "vta-de10", rules)
    points = space.sample(rng, 100)
    brood, every = Brood(space, points), np.repeat(points, 8, axis=0)
    found, drafts = brood.next(every, points[:0], rng, lambda rows: np.full(len(rows), np.inf))
    own = found[:, space.names.index("unrolled")]
    assert 20 < own.sum() < len(own) - 20
    np.testing.assert_array_equal(drafts, space.draft(found))
    plain = found.copy()
    plain[:, space.names.index("unrolled")] = 0
    parts = (drafts - space.draft(plain)) / 1000  # of each once
    np.testing.assert_array_equal(np.round(parts[own == 1]) >= 1, True)
    np.testing.assert_array_equal(parts[own == 0], 0)
    chain = Space(workload(f"{PROGRAMS}/dense_chain.py:main").func, "vta-de10", rules)
    columns = [n for n, name in enumerate(chain.names) if name.endswith(".unrolled")]
    assert len(columns) == 2
    base = chain.sample(rng, 8)
    base[:, columns] = 0
    more = []
    for way in ([0], [1], [0, 1]):
        rows = base.copy()
        rows[:, [columns[n] for n in way]] = 1
        more.append(chain.draft(rows) - chain.draft(base))
    assert more[0].min() >= 999 and more[1].min() >= 999
    np.testing.assert_allclose(more[0] + more[1], more[2])


@pytest.mark.parametrize("target", ["vta-de10", "vta-fsim"])
@pytest.mark.parametrize("name", [CONV, "resnet18.c4", "mobilenet.d4", "dcgan.ct3", "resnet18.max_pool", "resnet18.add4", "t2"])
def test_what_is_repaired_once_stays_as_it_is(name: str, target: str) -> None:
    """So a row is looked at again only where settling has changed it."""
    space, rng = Space(workload(name).func, target), np.random.default_rng(0)
    drawn, points = space.draws(rng, 400), space.sample(rng, 40)
    changed = stayed = 0
    for sketch in range(len(space.sketches)):
        near = np.repeat(points[points[:, 0] == sketch], 8, axis=0)
        near = np.where(rng.random(near.shape) < 0.2, rng.permutation(near), near)
        own = np.concatenate([drawn[drawn[:, 0] == sketch], near])[:, space.places(sketch)]
        for model, mine in space.sketches[sketch].split(own):
            fixed, stays, _ = model.repaired(mine)
            again = model.repair(fixed)
            np.testing.assert_array_equal(again[stays], fixed[stays])
            changed, stayed = changed + int((again != fixed).any(axis=1).sum()), stayed + int(stays.sum())
    assert stayed and (changed or name in ("t2", "resnet18.add4"))


@pytest.mark.parametrize("left_out", EVERY, ids=lambda rule: rule.name)
def test_every_rule_can_be_left_out(left_out: NumericRule) -> None:
    space = Space(workload(CONV).func, "vta-de10", [r for r in EVERY if r is not left_out])
    points = space.sample(np.random.default_rng(0), 6)
    assert len(points) == 6 and space.valid(points).all() and min(c.min() for c in space.choices) == 0
    bred = space.mutate(np.repeat(points, 8, axis=0), np.random.default_rng(0))
    assert len(bred) > 6 and space.valid(bred).all()
    for point in points[:3]:
        result = measure(Candidate(CONV, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and result.cycles is not None and result.cycles >= space.machine_bound(), (space.explain(point), result)


@cache
def drawn(name: str, target: str) -> tuple[Space, np.ndarray]:
    space = Space(workload(name).func, target)
    return space, space.sample(np.random.default_rng(1), 400)


COLUMNS = ("head", "cut", "cut_again", "last_ky", "keep_data", "keep_kernel", "addend_first", "sketch")


@pytest.mark.parametrize(("column", "target"), [
    pytest.param(column, target, marks=() if (n + k) % 2 == 0 else pytest.mark.slow)
    for n, column in enumerate(COLUMNS) for k, target in enumerate(("vta-de10", "vta-de10-portable"))
])
def test_every_freedom_gives_the_same_bytes(column: str, target: str) -> None:
    name = "conv2d:h=8,w=8,ci=32,co=48,k=1,stride=2" if column == "sketch" else "conv2d:h=7,w=6,ci=32,co=48,k=3,pad=1"
    space, points = drawn(name, target)
    some = points[points[:, space.names.index(column)] > 0][:3]
    assert len(some)
    for point in some:
        result = measure(Candidate(name, target, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and result.cycles is not None and result.cycles >= space.machine_bound(), (space.explain(point), result)


def test_the_programs_made_by_hand_are_above_the_machine_bound() -> None:
    """Cycles of recorded programs that were written by hand, and AutoTVM's published best for the last."""
    by_hand = {"resnet18.c2": 493_014, "resnet18.c4": 51_546, "resnet18.c5": 457_373, "resnet18.c7": 39_369,
               "resnet18.c8": 425_618, "resnet18.c10": 32_245, "resnet18.c11": 380_803, "t3": 131_639}
    for name, cycles in by_hand.items():
        bound = Space(workload(name).func, "vta-de10").machine
        assert cycles > bound.cycles > 0.95 * cycles, name
    portable = Space(workload("resnet18.c2").func, "vta-de10-portable").machine
    assert portable.vector == 5 and portable.cycles < 507_348


def test_the_machine_bound_is_products_and_the_least_epilogue() -> None:
    for target, each, addends in (("vta-de10", 4, 38), ("vta-de10-portable", 5, 0)):
        bound = Space(workload("resnet18.c2").func, target).machine
        assert bound.vector == each and bound.binds == "compute"
        rest = bound.cycles - bound.terms["products"] - each * 12_544
        # Start, drain, loads of micro-ops and addends, which might come in by a product; then an instruction leaves a value at
        # each of 2 048 places: products of 12 544 vectors, and three operations.
        assert rest == 24 + 6 + 6 + addends + 6 * (7 + 19)


TINY = "dense:m=2,k=32,n=32,tail=cast,bias=0"


def test_a_first_part_loads_in_pieces_smaller_than_a_tile_and_only_there() -> None:
    name = "dense:m=4,k=128,n=32,tail=cast,bias=0"
    space = Space(workload(name).func, "vta-de10")
    head = {"head": 1, "tile_m": 2, "cut": 1, "tile_k": 4, "load_data": 3, "load_weight": 3}
    for size, inside in ((1, True), (2, True), (4, False), (8, True)):
        if inside:
            point = space.point(**head, head_k=size)
            assert ("first by k=" in space.explain(point)) == (size < 4)
            assert measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())), execute=True).ok
        else:
            with pytest.raises(ProgramError, match="has a simpler twin"):
                space.point(**head, head_k=size)
    for less in ("head", "cut"):  # nothing is first; parts are not even
        with pytest.raises(ProgramError, match="not in the space"):
            space.point(**{**head, less: 0}, head_k=2)
    with pytest.raises(ProgramError, match="not in the space"):
        space.point(**{**head, "tile_k": 8, "load_data": 1, "load_weight": 0}, head_k=2)


def test_what_only_the_first_part_loads_splits_only_the_first_part() -> None:
    space = Space(workload(TINY).func, "vta-de10")
    kept = {"head": 1, "tile_m": 1, "load_weight": 3, "keep_weight": 1}
    point = space.point(**kept, tile_k=2, head_k=1)
    with pytest.raises(ProgramError, match="has a simpler twin"):
        space.point(**kept, tile_k=1)
    twin = point.copy()
    twin[[space.names.index("tile_k"), space.names.index("head_k")]] = 1, 2
    assert np.array_equal(space.repair(twin[None])[0][0], point)
    programs = [measure(Candidate(TINY, "vta-de10", tuple(space.trace(p).as_json()))).program for p in (point, twin)]
    assert programs[0] == programs[1]
    # As long as the others load something there, their loops stay.
    assert space.valid(space.point(**kept, tile_k=1, load_data=3)[None]).all()


def loads(space: Space, point: np.ndarray, memory: int) -> list[int]:
    """Elements of every DMA into a memory, in program order."""
    table = lower_table(replay(space.func, space.trace(point).as_json()).func, space.target).table
    mine = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == memory) & (table[:, isa.X_SIZE] > 0)]
    return [int(n) for n in mine[:, isa.Y_SIZE] * mine[:, isa.X_SIZE]]


def test_the_last_part_loads_in_pieces_of_its_own() -> None:
    """Where loads are all that counts: few large ones, and little to compute after the last."""
    name = "dense:m=1,k=512,n=512,bias=0"
    space = Space(workload(name).func, "vta-de10")
    many = {"cut": 1, "tile_n": 31, "tile_k": 8, "load_weight": 3, "banks_weight": 2}
    cycles = {}
    for size, found in ((0, [8] * 4), (32, [32]), (16, [16, 16]), (1, [1] * 32)):
        point = space.point(**many, last_k=size)
        assert loads(space, point, isa.MEM_WGT) == [31 * 8] * 4 + found and ("last by k=" in space.explain(point)) == (size > 0)
        result = measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and abs(space.draft(point[None])[0] / result.cycles - 1) < 0.005
        cycles[size] = result.cycles
    assert cycles[32] < cycles[16] < cycles[0] < cycles[1]
    for twin in ({"last_k": 8}, {"cut": 0, "tile_n": 32, "last_k": 16}, {"load_weight": 1, "tile_k": 32, "last_k": 16}):
        with pytest.raises(ProgramError, match="not in the space"):
            space.point(**{**many, **twin})


def test_neighbours_of_several_points_are_repaired_once(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(workload("dense:m=4,k=64,n=64").func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 3)
    alone = {row.tobytes() for point in points for row in space.neighbours(point)} - {row.tobytes() for row in points}
    asked: list[Points] = []
    repair = Space.repair
    monkeypatch.setattr(Space, "repair", lambda self, rows: asked.append(rows) or repair(self, rows))
    near = space.neighbours_of(points)
    assert {row.tobytes() for row in near} == alone and len(near) == len(alone)
    (rows,) = asked
    each = [around(space.sketches[0], point[space.places(0)][None]) for point in points]
    assert len(rows) == len(np.unique(rows, axis=0)) < sum(map(len, each))


def test_decisions_move_to_another_form() -> None:
    """What both forms decide stays; what the other has no such value of becomes its default; of the rest nothing is left."""
    space = Space(workload("resnet18.max_pool").func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 600)
    assert len(space.sketches) == 4 and set(points[:, 0]) == {0, 1, 2, 3}
    for form, sketch in enumerate(space.sketches):
        moved = space.moved(points, form)
        places = space.places(form)
        assert (moved[:, 0] == form).all()
        for at, column in zip(places, sketch.columns):
            kept = np.isin(points[:, at], column.choices)
            assert (moved[:, at] == np.where(kept, points[:, at], column.default)).all()
        others = [n for n in range(1, space.width) if n not in places]
        assert not moved[:, others].any()
        own = points[:, 0] == form
        assert (moved[own] == points[own]).all()


def test_the_last_part_is_split_only_around_a_load_of_its_own() -> None:
    name = "dense:m=4,k=64,n=64,tail=cast,bias=0"
    space = Space(workload(name).func, "vta-de10")
    model = space.sketches[0].model
    points = space.mutate(space.sample(np.random.default_rng(0), 3000), np.random.default_rng(1))
    split = points[points[:, space.names.index("last_k")] > 0]
    plan = model.plan(split[:, 1:])
    inside = [(attach > plan.position[:, 2]) & ~keep for attach, keep in zip(plan.attach, plan.keep)]
    assert len(split) > 100 and np.any(inside, axis=0).all() and any(keep.any() for keep in plan.keep)


def test_a_first_part_that_loads_for_all_may_be_larger_than_a_tile_and_no_other() -> None:
    name = "dense:m=6,k=128,n=32,tail=cast,bias=0"
    space = Space(workload(name).func, "vta-de10")
    kept = {"head": 2, "tile_m": 1, "tile_k": 4, "load_data": 3, "load_weight": 3, "keep_weight": 1}
    point = space.point(**kept)
    assert measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())), execute=True).ok
    assert loads(space, point, isa.MEM_INP) == [8] * 2 + [4] * 8, "two rows at once, then each alone"
    with pytest.raises(ProgramError, match="not in the space"):
        space.point(**{**kept, "keep_weight": 0})


def test_points_with_first_parts_are_programs_of_their_own() -> None:
    space = Space(workload(TINY).func, "vta-de10")
    points = np.concatenate(list(space.enumerate()))
    columns = {name: points[:, n] for n, name in enumerate(space.names)}
    some = points[(columns["head_k"] < 2) | (columns["last_k"] > 0) | (columns["keep_data"] > 0) | (columns["keep_weight"] > 0)]
    assert len(some) == 1148
    results = [measure(Candidate(TINY, "vta-de10", tuple(space.trace(p).as_json()))) for p in some[::3]]
    assert all(r.ok for r in results) and len({r.program for r in results}) == len(results)


@pytest.mark.parametrize(("name", "axis", "uneven"), [
    ("dense:m=4,k=272,n=48", "k", {9, 13, 15, 16}), ("conv2d:h=4,w=5,ci=256,co=32,k=3,pad=1", "ci", {12, 14, 15}),
    ("dense:m=4,k=240,n=48", "k", set()),
])
def test_the_last_piece_of_a_reduction_may_be_smaller(name: str, axis: str, uneven: set[int]) -> None:
    """Points with a rest run, fit as the model says, and are not below their bound; where axes move together there is no rest."""
    for target in ("vta-de10", "vta-de10-portable"):
        space = Space(workload(name).func, target)
        model = space.sketches[0].model
        rests = {c.name: {v for v in c.choices if v and max(c.choices) % v} for c in model.columns if c.name.startswith("last_")}
        assert rests.pop(f"last_{axis}") == uneven and not any(rests.values())
        if not uneven:
            continue
        points = space.eager(np.random.default_rng(1), 1500)
        points = points[np.isin(points[:, space.names.index(f"last_{axis}")], list(uneven))][:2]
        assert len(points) == 2
        for point in points:
            result = measure(Candidate(name, target, tuple(space.trace(point).as_json())), execute=True)
            assert result.status == "ok" and result.cycles is not None, (space.explain(point), result)
            assert result.cycles >= space.bound(point[None])[0]
            sketch, plan = space.meaning(point[None])
            last = plan.parts[-1]
            a = next(n for n, own in enumerate(sketch.model.nest.axes) if own.name == axis)
            assert last.outer[0, a] == 2 and last.rest[0, a] == last.extents[0, a] - last.tiles[0, a] > 0
            held = {s.buffer: s.elements for s in lower_table(space.schedule(point).func, target).storages}
            for k, operand in enumerate(sketch.model.nest.operands):
                if operand.scope == WGT:
                    most = max(int(sketch.model.footprint(plan, part, k)[0]) for part in plan.parts if part.on[0])
                    assert all(n <= most for b, n in held.items() if b.startswith(f"{operand.name}_")), space.explain(point)


def test_little_is_left_when_the_last_operand_has_come() -> None:
    """Two loads instead of two alike: what the second one brings is multiplied when nothing else runs."""
    for n in (48, 49):
        space = Space(workload(f"dense:m=1,k=1024,n={16 * n}").func, "vta-de10")
        cut = values(space.sketches[0].model)[1, 1]
        found = {}
        for last in (32, 60, 62):
            point = space.point(cut=cut, tile_n=n - 1, tile_k=8, last_k=last, load_weight=3, banks_weight=2)
            result = measure(Candidate(f"dense:m=1,k=1024,n={16 * n}", "vta-de10", tuple(space.trace(point).as_json())))
            assert result.cycles is not None
            found[last] = result.cycles, float(space.draft(point[None])[0])
        assert found[32][0] - 32 < found[62][0] < found[60][0] < found[32][0] - 20
        assert found[62][1] < found[60][1] < found[32][1]


def test_pieces_that_stay_are_loaded_with_as_many_dmas_as_the_model_says() -> None:
    name = "dense:m=4,k=128,n=48"
    space = Space(workload(name).func, "vta-de10")
    places = {own: n for n, own in enumerate(space.names)}
    points = space.eager(np.random.default_rng(0), 3000)
    points = points[(points[:, places["keep_weight"]] == 1) | (points[:, places["keep_data"]] == 1)][:10]
    assert len(points) == 10
    # Of one index each, a piece is one DMA: they lie one after another.
    ones = space.point(head=1, tile_m=1, tile_k=8, head_k=1, load_weight=3, load_data=1, keep_weight=1)
    for point in (*points, ones):
        sketch, plan = space.meaning(point[None])
        model = sketch.model
        lowered = lower_table(space.schedule(point).func, "vta-de10").table
        loads = lowered[lowered[:, isa.OPCODE] == isa.OP_LOAD]
        for k, operand in enumerate(model.nest.operands):
            if not plan.keep[k][0]:
                continue
            said = sum(model.fills(plan, p, k)[0] * model.transfer(plan, p, k)[1][0] for p in plan.parts if p.on[0])
            memory = {INP: isa.MEM_INP, WGT: isa.MEM_WGT}[operand.scope]
            assert (loads[:, isa.MEM] == memory).sum() == said, space.explain(point)
            if point is ones:
                assert said == 8


def test_eager_points_ask_for_memory_and_fall_alike() -> None:
    space = Space(workload(CONV).func, "vta-de10")
    points = space.eager(np.random.default_rng(3), 2000)
    assert np.array_equal(points, space.eager(np.random.default_rng(3), 2000))
    assert not np.array_equal(points, space.eager(np.random.default_rng(4), 2000))
    assert len(points) > 100 and space.valid(points).all()
    drawn = space.sample(np.random.default_rng(3), len(points))
    for name, eager in (("banks_data", 2), ("banks_kernel", 2), ("banks_acc", 2), ("drop_zeros", 1)):
        column = space.names.index(name)
        assert (points[:, column] == eager).mean() > (drawn[:, column] == eager).mean() + 0.03, name


class Far(NumericRule):
    """Two columns, one of which is no decision; nothing is a member where it says so."""

    name = "far"

    def __init__(self, members: bool = True) -> None:
        self.members = members
        self.asked: list[int] = []

    def columns(self, model: Model) -> tuple[Column, ...]:
        return (Column("settled", (0,)), Column("far", tuple(range(1 << 20))))

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Nothing."""

    def allows(self, model: Model, points: Points, plan: Plan) -> np.ndarray:
        self.asked.append(len(points))
        return np.full(len(points), self.members)


def test_what_has_one_choice_is_not_varied() -> None:
    rule = Far()
    space = Space(workload("dense:m=1,k=32,n=64,tail=cast,bias=0").func, "vta-de10", [*EVERY, rule])
    model = space.sketches[0].model
    points = np.zeros((200, len(model.columns)), dtype=np.int32)
    rule.vary(model, points, np.random.default_rng(0))
    assert (points[:, model.index["far"]] > 0).all(), "one of a million choices"


def test_a_tile_that_comes_out_even_may_be_longer_along_another_axis() -> None:
    """Half a tile along one axis and twice along another, with the parts that this needs, is one step; the others stay small."""
    space = Space(workload("conv2d:h=14,w=14,ci=32,co=64,k=1").func, "vta-de10")
    model = space.sketches[0].model
    rule = next(r for r in model.rules if r.name == "cuts")
    at = {name: model.index[name] for name in ("head", "cut", "cut_again", "tile_y", "tile_x", "tile_co")}
    before = space.sketches[0].default
    before[[at["tile_y"], at["tile_x"], at["tile_co"]]] = 7, 7, 2
    points = np.repeat(before[None], 12000, axis=0)
    rule.vary(model, points, np.random.default_rng(0))
    whole = points[:, at["tile_x"]] == 14
    cut = table(model)[points[:, at["cut"]]]
    together = whole & (points[:, at["tile_y"]] == 4) & (cut == [model.nest.spatial[2], 2]).all(axis=1)
    assert together.any()
    changed = points[:, at["tile_y"]] != 7
    assert 0.05 < (whole & changed).sum() / changed.sum() < 0.2
    # Up to half of the axis, or all but a last part of it.
    few = np.isin(points[:, at["tile_x"]], (*range(1, 8), 11, 12, 13, 14)).mean()
    assert few > 0.98, "but for where the last part is as long"
    own = {n for name, n in model.index.items() if name.startswith(("last_", "tail_last"))}
    others = [n for n in range(points.shape[1]) if n not in {*at.values(), *own, model.index["tile_ci"]}]
    assert (points[:, others] == before[others]).all()
    # A last part as long as tiles is one where it does something otherwise.
    apart = (points[:, sorted(own)] != before[sorted(own)]).any(axis=1)
    assert apart.any() and (cut[apart, 1] > 0).mean() > 0.5


def test_a_space_without_members_is_given_up_after_a_few_rounds() -> None:
    rule = Far(members=False)
    space = Space(workload("dense:m=1,k=32,n=64,tail=cast,bias=0").func, "vta-de10", [*EVERY, rule])
    rule.asked.clear()
    assert len(space.sample(np.random.default_rng(0), 5)) == 0
    # And the smallest tiles, once.
    assert len(rule.asked) == 5


def test_structural_rules_say_what_they_did() -> None:
    machine = get_target("vta-de10")
    for stride, wanted in ((1, []), (2, ["rows in use"])):
        sch = normalised(workload(f"conv2d:h=8,w=8,ci=32,co=48,k=1,stride={stride}").func, machine)
        assert [what for what, _ in Rows().apply(sch, machine)] == wanted
    # Names of semantics come from files as well.
    for semantics, first in (("chisel", "init by copy"), ("portable", "addend in front")):
        target = replace(machine, semantics="".join(list(semantics)))
        assert Epilogue().apply(sch, target)[0][0] == first


def test_what_a_cut_leaves_of_a_long_axis_is_tiled_by_choices_only() -> None:
    # 112 rows are cut at powers of two, and 110 or 108 of them have divisors that are no choices of the column.
    space = Space(workload("mobilenet.d1").func, "vta-de10")
    rng = np.random.default_rng(0)
    points = space.mutate(space.eager(rng, 600), rng)
    assert len(points) > 50 and space.valid(points).all()
    for column, choices in zip(points.T, space.choices):
        assert np.isin(column, choices).all()


@pytest.mark.parametrize(("name", "along"), [("dense:m=1,k=32,n=48", [0, 2]), ("dense:m=2,k=32,n=48", [0, 1, 2]),
                                             ("dense:m=2,k=32,n=16", [0, 1])])
def test_slices_are_cut_along_what_has_several_places(name: str, along: list[int]) -> None:
    space = Space(workload(name).func, "vta-de10")
    assert space.choices[space.names.index("tail")].tolist() == along
