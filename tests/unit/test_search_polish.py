"""The neighbours of the lowest drafts, looked at before anything is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.search import proposer as module
from autosched.search.proposer import KNOWN, POLISHED, Proposer
from autosched.workloads import workload
from space import Space
from space.brood import Brood
from space.distinct import Numbers, are_new, keys, spread

NAMES = ("resnet18.c10", "mobilenet.d9", "dense:m=49,k=256,n=1000,bias=1")
QUICK = (("IDLE", 6), ("ENOUGH", 6), ("EAGER", 1024), ("FITTED", 256))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Populations that settle soon, and nothing remembered of other tests."""
    for name, value in (*QUICK, ("_FIRST", type(module._FIRST)())):
        monkeypatch.setattr(module, name, value)


def begun(name: str, seed: int) -> Proposer:
    proposer = Proposer(Space(workload(name).func, "vta-de10"), seed)
    proposer.batch(1)
    return proposer


def centres(proposer: Proposer) -> np.ndarray:
    """The lowest drafts of different tiles."""
    ranked = proposer._ranked()[:KNOWN]
    return ranked[spread(Numbers().of(proposer.space.same_tiles(ranked)), POLISHED, 1)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_next_to_the_lowest_drafts_is_lower(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many looks as it takes every neighbour of the lowest drafts is in the pool; without, some are not."""
    monkeypatch.setattr(module, "AFRESH", 0)
    monkeypatch.setattr(module, "LOOKS", 0)
    bare = begun(name, 0)
    monkeypatch.setattr(module, "LOOKS", 1000)
    monkeypatch.setattr(module, "_FIRST", type(module._FIRST)())
    polished = begun(name, 0)
    near = polished.space.neighbours_of(centres(polished))
    assert len(near) and not are_new(near, set(keys(polished._pool))).any()
    assert polished.space.draft(near).min() >= polished._drafts.min()
    # Boundary: a single look's worth is missing.
    assert are_new(bare.space.neighbours_of(centres(bare)), set(keys(bare._pool))).any()
    assert polished._drafts.min() <= bare._drafts.min()
    # The pool's points are distinct, are points, and their drafts are those of the space where they are near the best.
    assert len(set(keys(polished._pool))) == len(polished._pool)
    assert polished.space.valid(polished._pool).all()
    low = np.argsort(polished._drafts, kind="stable")[:64]
    np.testing.assert_allclose(polished._drafts[low], polished.space.draft(polished._pool[low]), rtol=1e-12)


@pytest.mark.slow
def test_what_is_found_so_is_bred_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five seeds, one or more end lower by it, and none higher."""
    lowest: dict[int, list[float]] = {}
    for generations in (0, module.AFRESH):
        monkeypatch.setattr(module, "AFRESH", generations)
        monkeypatch.setattr(module, "_FIRST", type(module._FIRST)())
        lowest[generations] = [begun("resnet18.c7", seed)._drafts.min() for seed in range(5)]
    once, again = lowest.values()
    assert all(two <= one for one, two in zip(once, again))
    assert any(two < one for one, two in zip(once, again))


def test_what_was_looked_around_is_remembered_with_the_population() -> None:
    """A task whose turn comes again does not look at the same neighbours."""
    first = begun("resnet18.c10", 0)
    again = Proposer(first.space, 0)
    again.batch(1)
    assert len(first._explored) >= POLISHED
    assert again._explored == first._explored and again._explored is not first._explored
    np.testing.assert_array_equal(again._pool, first._pool)


@pytest.mark.parametrize("name", NAMES[:2])
def test_estimates_that_the_pool_knows_are_the_exact_ones(name: str) -> None:
    proposer = begun(name, 0)
    known, exact = proposer._known(proposer._pool), proposer.space.draft(proposer._pool)
    rough, sure = proposer._drafts != exact, ~np.isnan(known)
    assert rough.any() and sure[proposer._drafts.argmin()] and not (rough & sure).any()
    np.testing.assert_array_equal(known[sure], exact[sure])
    # What the pool has not, nobody knows; a proposer that begins with what is remembered knows the same.
    strange = proposer.space.sample(np.random.default_rng(9), 64)
    assert np.isnan(proposer._known(strange[proposer._strange(strange)])).all()
    again = Proposer(proposer.space, 0)
    again.batch(1)
    np.testing.assert_array_equal(again._known(proposer._pool), known)


def bred(space: Space, monkeypatch: pytest.MonkeyPatch, near: float) -> tuple[Proposer, list[set[bytes]]]:
    """A proposer, and how the points of each population that it has bred from begin."""
    found: list[set[bytes]] = []
    breed = Proposer._breed

    def noted(self: Proposer, generations: int, population: np.ndarray, *more: Any, **others: Any) -> int:
        found.append(set(keys(self.space.same_beginnings(population))))
        return breed(self, generations, population, *more, **others)

    with monkeypatch.context() as patch:
        patch.setattr(Proposer, "_breed", noted)
        patch.setattr(module, "NEAR", near)
        patch.setattr(module, "_FIRST", type(module._FIRST)())
        proposer = Proposer(space, 0)
        proposer.batch(1)
    return proposer, found


def test_where_much_may_be_won_it_is_bred_from_every_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries: at its share of the bound the lowest draft is near enough, a cycle above it is not."""
    space = Space(workload("resnet18.c10").func, "vta-de10")
    plain, once = bred(space, monkeypatch, np.inf)
    least = plain._drafts.min() / space.floor()
    assert len(bred(space, monkeypatch, least)[1]) == len(once)
    found, more = bred(space, monkeypatch, least - 1 / space.floor())
    others = more[len(once) :]
    assert 1 <= len(others) <= module.OTHERS and all(len(one) == 1 for one in others)
    assert len(set().union(*others)) == len(others), "each from one of its own"
    best = plain._pool[[int(plain._drafts.argmin())]]
    assert keys(space.same_beginnings(best))[0] not in set().union(*others)
    # What is lowest of each has been looked around, and nothing is lost.
    ranked, kinds = found._beginnings()
    centres = ranked[spread(kinds, 1 + module.OTHERS, 1)]
    assert not are_new(centres, found._explored).any() and found._drafts.min() <= plain._drafts.min()
    assert not are_new(plain._pool, set(keys(found._pool))).any()


def generations(
    space: Space, monkeypatch: pytest.MonkeyPatch, finds: dict[int, float], near: float = np.inf, **how: Any
) -> int:
    """How many generations are bred of eight points where only some of them find something.

    Args:
        space: of the points.
        monkeypatch: of the test.
        finds: by generation, what it finds in cycles: counted from 1.
        near: what is set as NEAR, in parts of what makes the lowest of the eight just near enough.
        how: what ``_breed`` is told.
    """
    points = space.sample(np.random.default_rng(3), 8 + len(finds))
    left, bred = list(points[8:]), [0]

    def next_of(*_: Any) -> tuple[np.ndarray, np.ndarray]:
        bred[0] += 1
        if bred[0] not in finds:
            return points[:0], np.zeros(0)
        return left.pop()[None], np.array([finds[bred[0]]])

    with monkeypatch.context() as patch:
        patch.setattr(Brood, "next", next_of)
        patch.setattr(module, "IDLE", 14)
        patch.setattr(module, "NEAR", near * space.draft(points[:8]).min() / space.floor())
        Proposer(space, 0)._breed(40, points[:8], **how)
    return bred[0]


def test_breeding_ends_sooner_where_little_may_be_won(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries: at its share of the bound the lowest draft is near enough, above it is not."""
    space = Space(workload("resnet18.c10").func, "vta-de10")
    assert 1 < module.SETTLED < module.SOON < 14
    for near, how, expected in (
        (1 + 1e-9, {}, module.SOON), (1 - 1e-9, {}, 14), (1 + 1e-9, {"soon": module.SETTLED}, module.SETTLED),
        (1 - 1e-9, {"soon": module.SETTLED}, 14), (1 + 1e-9, {"soon": 20}, 14),
    ):
        assert generations(space, monkeypatch, {}, near, **how) == expected
    # What is found counts from then on: also whether much may be won.
    low = float(space.draft(space.sample(np.random.default_rng(3), 9)[:8]).min())
    assert generations(space, monkeypatch, {3: low - 1}, 1 + 1e-9) == 3 + module.SOON
    assert generations(space, monkeypatch, {3: low + 1}, 1 + 1e-9) == module.SOON
    assert generations(space, monkeypatch, {3: low * 0.9}, 0.95) == 3 + module.SOON
    assert generations(space, monkeypatch, {3: low * 0.96}, 0.95) == 3 + 14


def test_breeding_ends_where_its_lowest_draft_is_far_from_its_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once: what is there by then goes on as if there were no goal."""
    space = Space(workload("resnet18.c10").func, "vta-de10")
    low = float(space.draft(space.sample(np.random.default_rng(3), 11)[:8]).min())
    tried, late = module.TRIED, {8: low - 1, 12: low - 2, 16: low - 3}
    assert generations(space, monkeypatch, late, 0.5) == 16 + 14
    assert generations(space, monkeypatch, late, 0.5, goal=low - 3) == 16 + 14
    assert generations(space, monkeypatch, late, 0.5, goal=low - 4) == tried
    # What a generation finds behind that comes too late.
    assert generations(space, monkeypatch, {8: low - 1, tried + 1: low - 2}, 0.5, goal=low - 2) == tried


def test_what_begins_otherwise_has_the_lowest_draft_for_a_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, float]] = []
    soon: list[int | None] = []
    breed = Proposer._breed

    def noted(self: Proposer, *args: Any, **others: Any) -> int:
        soon.append(others.get("soon"))
        if "goal" in others:
            told.append((others["goal"], self._drafts.min()))
        return breed(self, *args, **others)

    monkeypatch.setattr(Proposer, "_breed", noted)
    monkeypatch.setattr(module, "NEAR", 1.0)
    begun("resnet18.c10", 0)
    assert told and all(goal == module.CLOSE * low for goal, low in told)
    # What was polished is bred from in front of these, and nothing else settles as soon.
    assert soon.index(module.SETTLED) == len(soon) - len(told) - 1 and soon.count(module.SETTLED) == 1


def test_points_begin_alike_that_are_cut_first_along_one_axis() -> None:
    space = Space(workload("resnet18.c10").func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 300)
    begins = space.same_beginnings(points)
    model = space.sketches[0].models[0]
    for point, (form, axis) in zip(points, begins.tolist()):
        assert form == point[0]
        said = space.explain(point)
        first = said.partition("cut first ")[2].split(" ")[0].partition("=")[0]
        assert (model.nest.axes[axis - 1].name if axis else "") == first
    assert len(np.unique(begins[:, 1])) > 2
