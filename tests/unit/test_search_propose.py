"""What a search remembers of points, and its own samplers."""

from __future__ import annotations

import subprocess
import sys
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autosched
from autosched.search.features import Seen
from autosched.search.proposer import Point, Proposer
from autosched.search.samplers import Sampler, make_sampler
from autosched.workloads import workload
from space import Space
from space.rule import Ints, Points

COUNT = 60


@pytest.fixture(scope="module")
def space() -> Space:
    return Space(workload("resnet18.c10").func, "vta-de10")


@pytest.fixture(scope="module")
def points(space: Space) -> Points:
    return space.sample(np.random.default_rng(0), COUNT)


@pytest.fixture(scope="module")
def drafts(space: Space, points: Points) -> Ints:
    return space.draft(points)


@pytest.fixture(scope="module")
def hasty(space: Space) -> Proposer:
    return Proposer(space, 0, hasty=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, COUNT - 1), max_size=40), min_size=1, max_size=6))
def test_features_that_were_worked_out_before_are_those_of_the_space(
    space: Space, points: Points, drafts: Ints, asks: list[list[int]]
) -> None:
    seen = Seen(space)
    for ask in asks:
        found = seen.of(points[ask], drafts[ask])
        np.testing.assert_array_equal(found, space.features(points[ask], drafts[ask]))


def test_features_are_worked_out_once(space: Space, points: Points, drafts: Ints, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    features = Space.features

    def counted(self: Space, points: np.ndarray, drafts: np.ndarray) -> np.ndarray:
        asked.append(len(points))
        return features(self, points, drafts)

    monkeypatch.setattr(Space, "features", counted)
    seen = Seen(space)
    for part in (slice(0, 20), slice(10, 30), slice(0, 30)):
        seen.of(points[part], drafts[part])
    assert asked == [20, 10]


def test_a_sampler_of_ours_loads_nothing_of_optunas(tmp_path: Path) -> None:
    code = f"""
import sys, autosched
report = autosched.tune("dense:m=1,k=64,n=64", trials=20, jobs=1, log={str(tmp_path)!r}, cold=True)
print(len(report.history), [m for m in sys.modules if m.startswith("optuna")])
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "20 []"


def test_later_batches_are_larger_and_the_first_trials_the_same_whatever_the_number(space: Space, tmp_path: Path) -> None:
    """Half of what is known at once: a run of more trials begins as one of fewer does."""
    lists = []
    for trials in (40, 120):
        report = autosched.tune("dense:m=2,k=256,n=128", trials=trials, jobs=1, log=tmp_path / str(trials), cold=True)
        lists.append(report.history)
    assert len(lists[1]) == 120 and lists[1][:40] == lists[0]
    asked: list[int] = []
    proposer = Proposer(space, 0, hasty=True)
    batch = Proposer.batch

    def counted(n: int) -> list[Point]:
        asked.append(n)
        return batch(proposer, n)

    proposer.batch = counted  # type: ignore[method-assign]
    sampler = Sampler(proposer, 16)
    for n in range(200):
        point = sampler.next()
        assert point is not None
        proposer.add(point, 10**7 + n)
    assert asked == [16, 16, 16, 16, 32, 48, 64] and sum(asked[:-1]) < 200 <= sum(asked)


def test_a_sampler_of_ours_ends_where_nothing_is_left() -> None:
    space = Space(workload("dense:n=16,k=16,m=1").func, "vta-de10")
    sampler = make_sampler("grid", Proposer(space, 0), 0, 64)
    assert isinstance(sampler, Sampler)
    drawn = []
    while (point := sampler.next()) is not None:
        drawn.append(point.tobytes())
    assert len(drawn) == len(set(drawn)) == sum(map(len, space.blocks()))
    assert sampler.next() is None


@settings(max_examples=90, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40), st.integers(1, 9),
       st.sampled_from([0, 2, 4, 7, np.inf]), st.sets(st.integers(0, 39)))
def test_points_that_may_beat_the_best_come_by_their_estimates(
    hasty: Proposer, pool: list[tuple[int, int]], n: int, best: float, known: set[int]
) -> None:
    """As if all bounds were known; and a bound is asked for once."""
    proposer, asked = copy(hasty), list[int]()
    estimates, bounds = (np.array([row[k] for row in pool], dtype=np.int64) for k in (0, 1))

    class Bounded:
        def bound(self, rows: np.ndarray) -> np.ndarray:
            asked.extend(rows[:, 0].tolist())
            return bounds[rows[:, 0]]

    proposer.space = Bounded()  # type: ignore[assignment]
    proposer._pool, proposer._drafts = np.arange(len(pool), dtype=np.int32)[:, None], estimates.astype(np.float64)
    proposer._bounds = np.array([bounds[k] if k in known else -1 for k in range(len(pool))], dtype=np.int64)
    able = [k for k in np.argsort(estimates, kind="stable").tolist() if bounds[k] < best]
    for _ in range(2):
        assert proposer._able(best, n).tolist() == able[:n]
    assert len(set(asked)) == len(asked) and not set(asked) & known and (best < np.inf or not asked)


def test_every_form_is_bred_before_it_matters_which_has_the_best() -> None:
    """Drafts of one seed in ten ended 2.4 % above those of the others: the form that has the best needs most decisions."""
    space = Space(workload("resnet18.c10").func, "vta-de10-portable")
    lowest = []
    for seed in (0, 5):
        proposer = Proposer(space, seed)
        proposer.learns = False
        lowest.append(float(space.draft(np.stack(proposer.batch(1)))[0]))
    assert max(lowest) < 1.005 * min(lowest)
