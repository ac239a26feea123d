"""What a search remembers of points, and its own sampler inside and outside a study of Optuna."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.search.features import Seen
from autosched.search.proposer import Proposer
from autosched.search.samplers import distributions, make_sampler, to_point
from autosched.workloads import workload
from space import Space

SPACE = Space(workload("resnet18.c10").func, "vta-de10")
POINTS = SPACE.sample(np.random.default_rng(0), 60)
DRAFTS = SPACE.draft(POINTS)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, len(POINTS) - 1), max_size=40), min_size=1, max_size=6))
def test_features_that_were_worked_out_before_are_those_of_the_space(asks: list[list[int]]) -> None:
    seen = Seen(SPACE)
    for ask in asks:
        found = seen.of(POINTS[ask], DRAFTS[ask])
        np.testing.assert_array_equal(found, SPACE.features(POINTS[ask], DRAFTS[ask]))


def test_features_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    features = Space.features

    def counted(self: Space, points: np.ndarray, drafts: np.ndarray) -> np.ndarray:
        asked.append(len(points))
        return features(self, points, drafts)

    monkeypatch.setattr(Space, "features", counted)
    seen = Seen(SPACE)
    for part in (slice(0, 20), slice(10, 30), slice(0, 30)):
        seen.of(POINTS[part], DRAFTS[part])
    assert asked == [20, 10]


@pytest.mark.parametrize("name", ["cost-model", "draft", "grid"])
def test_a_sampler_of_ours_asks_the_same_points_in_a_study(name: str) -> None:
    space = Space(workload("t2").func, "vta-de10")
    alone = make_sampler(name, Proposer(space, 3, hasty=True), 3, 4)
    study = optuna.create_study(sampler=make_sampler(name, Proposer(space, 3, hasty=True), 3, 4))
    for _ in range(6):
        point = alone.next()
        assert point is not None
        trial = study.ask(distributions(space))
        assert to_point(space, trial.params).tolist() == point.tolist()
        study.tell(trial, 1.0)


def test_a_sampler_of_ours_ends_where_nothing_is_left() -> None:
    space = Space(workload("dense:n=16,k=16,m=1").func, "vta-de10")
    sampler = make_sampler("grid", Proposer(space, 0), 0, 64)
    drawn = []
    while (point := sampler.next()) is not None:
        drawn.append(point.tobytes())
    assert len(drawn) == len(set(drawn)) == sum(map(len, space.blocks()))
    assert sampler.next() is None
