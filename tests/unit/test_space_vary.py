"""What a change of a point may be: the proposals of rules, and how often each of them is asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.search.proposer import ALIKE, GUESTS, KINDS, Proposer
from autosched.workloads import workload
from space import Space
from space.distinct import Numbers, distinct, fresh_of, in_order, keys, lowest_of, spread
from space.rule import NumericRule, evenly
from space.rules.cuts import NAMES, decoded, table, value_of, values
from space.rules.tiling import are_tiles, known_to, make_room, tile_columns

LAYER = "conv2d:h=8,w=12,ci=64,co=128,k=3,pad=1"


@pytest.fixture(scope="module")
def space() -> Space:
    return Space(workload(LAYER).func, "vta-de10")


def test_a_rule_is_asked_as_often_as_it_has_something_to_decide(space: Space) -> None:
    sketch = space.sketches[0]
    weights = {rule.name: w for (_, _, _, rule), w in zip(sketch.deciding, sketch.weights)}
    assert sum(weights.values()) == pytest.approx(1)
    free = [c for model, _, _, rule in sketch.deciding for c in model.owned(rule) if len(c.choices) > 1]
    tiles = [c for c in free if c.name.startswith("tile_")]
    assert weights["tile"] == pytest.approx(len(tiles) / len(free)) and weights["zeros"] == pytest.approx(1 / len(free))
    # By what is changed: rows that only the zeros' rule changes are as rare as it has decisions.
    rng, point = np.random.default_rng(0), space.sample(np.random.default_rng(0), 1)
    own = np.repeat(point[:, space.places(int(point[0, 0]))], 3000, axis=0)
    before = own.copy()
    space._vary(int(point[0, 0]), own, rng)
    at = [c.name for c in sketch.columns].index("drop_zeros")
    asked = 1 - (1 - weights["zeros"]) * (1 - 0.5 * weights["zeros"]) * (1 - 0.25 * weights["zeros"])
    # Asked, it draws another of two values every other time.
    assert (own[:, at] != before[:, at]).mean() == pytest.approx(asked / 2, abs=0.01)


def test_a_tile_that_grows_takes_its_room_from_another(space: Space) -> None:
    model = space.sketches[0].model
    tiles = [model.index[f"tile_{name}"] for name in ("co", "y", "x", "ci", "ky", "kx")]
    before = np.repeat(space.sketches[0].default[None], 400, axis=0)
    before[:, tiles] = [4, 4, 4, 2, 3, 3]
    grown, same = before.copy(), before.copy()
    grown[:, tiles[1]] = 8
    points = np.concatenate([grown, same])
    make_room(model, np.concatenate([before, before]), points, np.random.default_rng(0))
    assert (points[400:] == before).all(), "nothing grew"
    changed = (points[:400] != grown).any(axis=1)
    assert 120 < changed.sum() < 280, "half of them"
    assert ((points[:400] != grown).sum(axis=1) <= 1).all(), "one other axis"
    assert (points[:400, tiles[1]] == 8).all(), "not the one that has grown"
    room = points[:400][:, tiles].prod(axis=1)
    assert (room[changed] <= before[0, tiles].prod()).all() and (room[~changed] > before[0, tiles].prod()).all()
    assert {tuple(row) for row in points[:400][changed][:, tiles].tolist()} == {
        (2, 8, 4, 2, 3, 3), (4, 8, 2, 2, 3, 3), (4, 8, 4, 1, 3, 3), (4, 8, 4, 2, 1, 3), (4, 8, 4, 2, 3, 1)}


def test_a_cut_with_its_tile_comes_out_even_for_large_tiles_too(space: Space) -> None:
    """A tile over more than half of an axis needs a cut: no change of one decision alone leads there."""
    model = space.sketches[0].model
    rule = next(rule for rule in model.rules if rule.name == "cuts")
    points = np.repeat(space.sketches[0].default[None], 4000, axis=0)
    rule.vary(model, points, np.random.default_rng(0))
    co = next(a for a, axis in enumerate(model.nest.axes) if axis.name == "co")
    extent = model.nest.axes[co].extent
    (first_axis, first), (last_axis, last) = (decoded(model, points, name) for name in ("head", "cut"))
    left = extent - np.where(first_axis == co, first, 0) - np.where(last_axis == co, last, 0)
    tile = points[:, model.index["tile_co"]]
    large = (tile > extent // 2) & (tile < extent)
    assert large.sum() > 40 and (left[large] % tile[large] == 0).mean() > 0.9
    assert {6, 7} <= set(tile[large].tolist()) <= {5, 6, 7}, "all but a last part of one or two, or as long as tiles"


def test_cuts_and_tiles_are_looked_up_for_many_rows_at_once(space: Space) -> None:
    model = space.sketches[0].model
    axis, size = (grid.ravel() for grid in np.meshgrid(range(len(model.nest.axes)), range(-2, 200), indexing="ij"))
    known = values(model)
    assert value_of(model, axis, size).tolist() == [known.get(pair, 0) for pair in zip(axis.tolist(), size.tolist())]
    column = tile_columns(model, axis.tolist())
    assert [model.columns[c].name for c in column.tolist()] == [f"tile_{model.nest.axes[a].name}" for a in axis.tolist()]
    assert are_tiles(model, column, size).tolist() == [n in model.columns[c].choices for c, n in zip(column, size.tolist())]


@pytest.mark.parametrize("name", ["cuts", "slices", "ahead", "residency", "lead"])
def test_what_several_decisions_are_varied_together_are_choices(space: Space, name: str) -> None:
    """Rows that differ, each changed on its own: what of one row is drawn does not depend on what stands in the others."""
    model = space.sketches[0].model
    rule = next(rule for rule in model.rules if rule.name == name)
    own = np.repeat(space.sample(np.random.default_rng(1), 40)[:, space.places(0)], 50, axis=0)
    changed = own.copy()
    rule.vary(model, changed, np.random.default_rng(0))
    for column, drawn in zip(model.columns, changed.T):
        assert set(drawn.tolist()) <= set(column.choices), column.name
    moved = {model.columns[n].name for n in np.flatnonzero((changed != own).any(axis=0))}
    also = {"cuts": {*NAMES[:2], "tile_co", "tile_y", "tile_x", "tail_last", "last_ci"}, "ahead": {"head", "cut", "head_tile"},
            "slices": {"cut", "cut_again", "tail_last_size"}, "residency": {"head", "load_data", "keep_kernel"},
            "lead": {"head", "tile_y", "head_tile"}}
    assert also[name] <= moved, also[name] - moved


def test_a_first_part_written_ahead_leaves_whole_tiles(space: Space) -> None:
    """And its own, finer tiles divide it: both are said of what the last part leaves."""
    model = space.sketches[0].model
    rule = next(rule for rule in model.rules if rule.name == "ahead")
    points = np.repeat(space.sketches[0].default[None], 4000, axis=0)
    points[:, model.index["tile_co"]] = 2
    points[::2, model.index["cut"]] = values(model)[_axis(space, "co"), 3]
    rule.vary(model, points, np.random.default_rng(0))
    co, extent = _axis(space, "co"), 8
    (axis, first), (cut, last), (finer, long) = (decoded(model, points, n) for n in ("head", "cut", "head_tile"))
    mine = (axis == co) & (points[:, model.index["head_init"]] > 0)
    left = extent - first - np.where(cut == co, last, 0)
    tile = points[:, model.index["tile_co"]]
    assert mine.sum() > 300 and (left[mine] % tile[mine] == 0).all()
    assert (first[mine] >= left[mine]).mean() < 0.7 and (first[mine] <= left[mine] + tile[mine]).all()
    own = mine & (finer == co)
    assert own.sum() > 200 and (first[own] % long[own] == 0).all() and (long[own] <= tile[own]).all()
    assert {3} == set(last[mine & (np.arange(4000) % 2 == 0) & (last > 1)].tolist()), "a last part that is there stays"


def test_a_last_part_that_is_there_is_cut_once_more_for_slices_of_its_own(space: Space) -> None:
    model = space.sketches[0].model
    rule = next(rule for rule in model.rules if rule.name == "slices")
    points = np.repeat(space.sketches[0].default[None], 2000, axis=0)
    points[:, [model.index[f"tile_{name}"] for name in ("co", "y", "x")]] = 4, 4, 6
    y, sizes = _axis(space, "y"), table(model)
    points[::2, model.index["cut"]] = values(model)[y, 3]
    rule.vary(model, points, np.random.default_rng(0))
    there = np.arange(2000) % 2 == 0
    (cut, size), (again, rest) = (sizes[points[:, model.index[name]]].T for name in ("cut", "cut_again"))
    assert (cut[there] == y).mean() > 0.5 and {3, 4, 6} >= set(rest[there & (again >= 0)].tolist())
    # Of the last part's own axis no more is cut than it has; of another a tile is, or the last one.
    assert set(rest[there & (again == y)].tolist()) <= {*range(1, 5)} and (rest[there & (again == y)] == 3).mean() > 0.5
    assert set(zip(cut[~there & (size > 0)].tolist(), size[~there & (size > 0)].tolist())) > {(y, 4), (_axis(space, "x"), 6)}


def _axis(space: Space, name: str) -> int:
    return next(a for a, axis in enumerate(space.sketches[0].model.nest.axes) if axis.name == name)


def test_points_of_one_kind_have_the_same_loops(space: Space) -> None:
    points = space.sample(np.random.default_rng(3), 400)
    kinds = space.same_loops(points)
    sketch, plan = space.meaning(points[points[:, 0] == 0])
    loops = plan.body.outer[:, : sketch.model.n_spatial] > 1
    order = points[points[:, 0] == 0][:, space.places(0)[sketch.model.index["order"]]]
    said = np.concatenate([loops, order[:, None], np.stack(plan.keep, axis=1)], axis=1)
    own = kinds[points[:, 0] == 0]
    assert 20 < len(np.unique(own, axis=0)) < len(own)
    for kind in np.unique(own, axis=0):
        alike = (own == kind).all(axis=1)
        # A cut may leave a single tile where the tile is smaller than the axis.
        assert len(np.unique(said[alike][:, loops.shape[1] :], axis=0)) == 1
    assert (kinds[:, 0] == points[:, 0]).all()


def test_the_best_of_every_kind_is_a_parent(space: Space) -> None:
    proposer = Proposer(space, 0)
    points = space.sample(np.random.default_rng(3), 600)
    ranked = points[np.argsort(space.draft(points), kind="stable")]
    parents, _ = proposer._parents(ranked, Numbers().of(space.same_tiles(ranked)), Numbers().of(space.same_loops(ranked)))
    form = parents[0, 0]
    mine = ranked[ranked[:, 0] == form]
    _, first = np.unique(space.same_loops(mine), axis=0, return_index=True)
    best = mine[np.sort(first)]
    assert len(best) > KINDS, "more than are taken"
    found = {row.tobytes() for row in parents}
    assert {row.tobytes() for row in best[:KINDS]} <= found
    assert {row.tobytes() for row in best[KINDS:]} - found, "the worst kinds are left out"


def test_every_generation_knows_which_of_its_points_are_alike(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers travel with the points that they were given to, generation after generation."""
    monkeypatch.setattr("autosched.search.proposer.ENOUGH", 1)
    monkeypatch.setattr("autosched.search.proposer.GENERATIONS", 6)
    monkeypatch.setattr("autosched.search.proposer.EAGER", 512)
    monkeypatch.setattr("autosched.search.proposer.AFRESH", 2)
    monkeypatch.setattr("autosched.search.proposer.NEAR", np.inf)
    parents, generations = Proposer._parents, []

    def watched(
        self: Proposer, ranked: np.ndarray, tiles: np.ndarray, loops: np.ndarray, evenly: float
    ) -> tuple[np.ndarray, np.ndarray]:
        for numbers, rows in ((tiles, space.same_tiles(ranked)), (loops, space.same_loops(ranked))):
            fresh = Numbers().of(rows)
            assert len(np.unique(np.stack([numbers, fresh], axis=1), axis=0)) == len(np.unique(fresh)) == len(np.unique(numbers))
        chosen, guests = parents(self, ranked, tiles, loops, evenly)
        few = {row.tobytes() for row in ranked[spread(Numbers().of(space.same_tiles(ranked)), len(ranked), ALIKE)]}
        kinds = {row.tobytes() for row in ranked[spread(loops, len(ranked), 1)]}
        known = {row.tobytes() for row in ranked}
        own = [row.tobytes() for row in chosen]
        # Guests of other forms come last, moved to this one: most of them are no point that is known.
        form = int(chosen[0, 0])
        others = (space.nests[ranked[:, 0]] == space.nests[form]) & (ranked[:, 0] != form)
        home = len(own) - min(GUESTS, int(others.sum()))
        assert all(key in few | kinds for key in own[:home]) and len(set(chosen[:, 0].tolist())) == 1
        assert [row.tobytes() for row in guests] == own[home:], "they are looked at as they are, too"
        generations.append(sum(key not in known for key in own))
        return chosen, guests

    monkeypatch.setattr(Proposer, "_parents", watched)
    Proposer(space, 0).batch(4)
    assert len(generations) == 6 + 2 and max(generations) > 3, "guests"


def test_rows_are_told_apart_by_their_values() -> None:
    rows = np.array([[1, 2], [3, 4], [1, 2], [2, 1], [3, 4]], dtype=np.int32)
    each, which = distinct(rows)
    assert each.tolist() == [0, 1, 3] and which.tolist() == [0, 1, 0, 2, 1]
    assert keys(rows[::2]) == [row.tobytes() for row in rows[::2]], "also of rows that do not follow each other"
    met = {rows[3].tobytes()}
    assert fresh_of(rows, {rows[1].tobytes()}, met).tolist() == [[1, 2]] and met == set(keys(rows[[0, 3]]))
    nothing = rows[:, :0]
    assert [len(x) for x in distinct(nothing)] == [1, 5], "rows without columns are all the same"
    assert [len(x) for x in distinct(rows[:0])] == [0, 0] and len(fresh_of(rows[:0], set(), set())) == 0
    numbers = Numbers()
    assert numbers.of(rows).tolist() == [0, 1, 0, 2, 1]
    assert numbers.of(rows[3:] + np.array([[0], [2]], dtype=np.int32)).tolist() == [2, 3]


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 12), st.integers(1, 4))
def test_the_first_of_which_few_are_alike(numbers: list[int], n: int, alike: int) -> None:
    chosen = [at for at, number in enumerate(numbers) if numbers[:at].count(number) < alike][:n]
    assert spread(np.array(numbers, dtype=np.int64), n, alike).tolist() == chosen


@pytest.mark.parametrize("kinds, n, alike", [(9, 200, 30), (200, 64, 1), (3, 8, 3), (400, 0, 2)])
def test_few_of_many_that_are_alike_are_soon_there(kinds: int, n: int, alike: int) -> None:
    numbers = np.random.default_rng(kinds).integers(kinds, size=400)
    chosen = [at for at, number in enumerate(numbers.tolist()) if numbers[:at].tolist().count(number) < alike][:n]
    found = spread(numbers, n, alike)
    assert found.tolist() == chosen and found.dtype == np.int64


@pytest.mark.parametrize("length", [0, 1, 5, 40])
def test_of_equal_figures_the_first_is_the_lowest(length: int) -> None:
    figures = np.random.default_rng(length).choice([0.5, 1.0, 2.0, np.inf], size=length)
    ranked = sorted(range(length), key=figures.tolist().__getitem__)
    for n in (None, *range(length + 2)):
        assert lowest_of(figures, n).tolist() == ranked[:n]


def test_draws_are_those_of_numpy(space: Space) -> None:
    """What is proposed does not depend on who draws it."""
    ours, theirs, values = np.random.default_rng(3), np.random.default_rng(3), np.array([1, 2, 7, 56], dtype=np.int32)
    for n in (0, 1, 50):
        assert evenly(values, ours, n).tolist() == theirs.choice(values, size=n).tolist()
    sketch = space.sketches[0]
    drawn = ours.random(500)
    asked = (drawn[:, None] >= sketch.shares).sum(axis=1)
    assert asked.tolist() == theirs.choice(len(sketch.deciding), size=500, p=sketch.weights).tolist()
    assert ours.random() == theirs.random()


@pytest.mark.parametrize("name", [LAYER, "dense:m=4,k=64,n=64"])
def test_schedules_that_are_written_together_are_those_of_each(name: str) -> None:
    every = Space(workload(name).func, "vta-de10")
    points = every.sample(np.random.default_rng(2), 24)
    assert len(set(points[:, 0].tolist())) > 1 or name != LAYER, "several forms"
    together = every.traces(points)
    assert [trace.as_json() for trace in together] == [every.trace(point).as_json() for point in points]
    assert every.traces(points[:0]) == []


# Of the second one only the first row and column of results read padding: a part may have none.
@pytest.mark.parametrize("name", [LAYER, "conv2d:h=10,w=10,ci=16,co=64,k=3,stride=4,pad=1"])
def test_zeros_are_left_out_where_each_part_by_itself_says_so(name: str) -> None:
    """Of rows as they are drawn: where cuts leave nothing of an axis, a part is all padding, or has none."""
    model = next(s.model for s in Space(workload(name).func, "vta-de10").sketches if s.model.padding.taps)
    rule = next(rule for rule in model.rules if rule.name == "zeros")
    rng, n = np.random.default_rng(3), 2000
    rows = np.stack([evenly(values, rng, n) for values in model.values], axis=1)
    rows[:, model.index["drop_zeros"]] = np.arange(n) % 4 > 0
    with np.errstate(divide="ignore"):
        plan = model.plan(rows)
    shares = [model.padding.share(part) for part in plan.parts]
    fine = [~part.on | ((share > 0) & (share < 1)) for part, share in zip(plan.parts, shares)]
    found = rule.allows(model, rows, plan)
    assert found.tolist() == (~plan.drops | np.all(fine, axis=0)).tolist()
    assert 10 < found[plan.drops].sum() < plan.drops.sum() - 10


@given(st.sets(st.integers(0, 40), min_size=1), st.lists(st.integers(-2, 43)))
def test_sizes_are_looked_up_among_values(values: set[int], sizes: list[int]) -> None:
    found = known_to(np.array(sorted(values), dtype=np.int32), np.array(sizes, dtype=np.int64))
    assert found.tolist() == [size in values for size in sizes]


@pytest.mark.parametrize("n", [0, 1, 7, 400])
def test_rows_come_in_the_order_of_their_values(n: int) -> None:
    """What NumPy says of the distinct ones, also of numbers below 0 and of such that differ in any byte."""
    rng = np.random.default_rng(n)
    large = np.array([-(2**31), -257, -256, -1, 0, 1, 255, 256, 2**16, 2**31 - 1], dtype=np.int32)
    for rows in (rng.integers(-2, 3, size=(n, 3)).astype(np.int32), rng.choice(large, size=(n, 2))):
        every, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        assert in_order(rows).tolist() == first.tolist() and (rows[in_order(rows)] == every).all()
        # Those that stand first are counted in the order in which they do.
        own, mine = distinct(rows)
        assert own.tolist() == sorted(first.tolist()) and (first[which.ravel()] == own[mine]).all()


def test_what_is_drawn_at_once_is_what_was_drawn_one_by_one(space: Space) -> None:
    """The same seed has always given the same trials."""
    model, n = space.sketches[0].model, 300
    start = np.repeat(space.sketches[0].default[None], n, axis=0)
    for rule in (rule for rule in model.rules if any(len(c.choices) > 1 for c in model.owned(rule))):
        ours, theirs = np.random.default_rng(7), np.random.default_rng(7)
        points, wanted = start.copy(), start.copy()
        NumericRule.vary(rule, model, points, ours)
        columns = [model.index[c.name] for c in model.owned(rule) if len(c.choices) > 1]
        which = theirs.integers(len(columns), size=n)
        for k, column in enumerate(columns):
            rows = np.flatnonzero(which == k)
            wanted[rows, column] = evenly(model.values[column], theirs, len(rows))
        assert (points == wanted).all() and ours.random() == theirs.random(), rule.name
        assert (points != start).any() and (points[:, columns] != start[:, columns]).any(axis=0).all()
    own, sketch = space.sample(np.random.default_rng(1), n)[:, space.places(0)], space.sketches[0]
    crossed, wanted = own.copy(), own.copy()
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    space._cross(0, crossed, ours)
    mates, some = wanted[theirs.permutation(len(wanted))], theirs.random(len(wanted)) < 0.5
    for _, _, at, _ in sketch.deciding:
        taken = some & (theirs.random(len(wanted)) < 0.5)
        wanted[taken, at] = mates[taken, at]
    assert (crossed == wanted).all() and ours.random() == theirs.random() and (crossed != own).any()
