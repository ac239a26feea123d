"""Optuna's samplers over valid points only.

A study sees one integer per decision: the index of its value among the choices. What a sampler asks for is repaired to the
nearest valid point that has not been seen, inside the sampler, so that a trial is told under the values that were measured.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from autosched.search.proposer import Point, Points, Proposer
from space import Space

STEPS = 8  # neighbourhoods that a repair looks at before it draws at random
POOL = 4096  # points of such a draw


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """One integer distribution per decision: an index into its choices."""
    return {name: IntDistribution(0, len(values) - 1) for name, values in zip(space.names, space.choices)}


def to_params(space: Space, point: Point) -> dict[str, int]:
    """The parameters of a trial for a point."""
    return {n: int(np.searchsorted(v, point[i])) for i, (n, v) in enumerate(zip(space.names, space.choices))}


def to_point(space: Space, params: dict[str, Any]) -> Point:
    """The raw point that parameters name (possibly not valid); what its form does not have of them is as it is by default."""
    point = np.array([v[int(params[n])] for n, v in zip(space.names, space.choices)], dtype=np.int32)
    return np.asarray(space.moved(point[None], int(point[0]))[0], dtype=np.int32)


class SpaceSampler(BaseSampler):
    """A sampler of Optuna restricted to unseen valid points.

    Args:
        proposer: knows what was seen.
        inner: the sampler.
    """

    def __init__(self, proposer: Proposer, inner: BaseSampler) -> None:
        self.proposer = proposer
        self.inner = inner
        self.space = proposer.space
        self._dists = distributions(self.space)
        self._pool: Points | None = None

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All decisions, always."""
        return self._dists

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The parameters of an unseen valid point."""
        known = self.inner.infer_relative_search_space(study, trial)
        params = dict(self.inner.sample_relative(study, trial, known))
        for name, dist in self._dists.items():
            if name not in params:
                params[name] = self.inner.sample_independent(study, trial, name, dist)
        point = self._repair(to_point(self.space, params))
        self.proposer.mark(point)
        return to_params(self.space, point)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Never needed: all decisions are sampled together."""
        raise RuntimeError(f"decision {param_name!r} is not one of the space")

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Passed on."""
        self.inner.before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Passed on."""
        self.inner.after_trial(study, trial, state, values)

    def _repair(self, point: Point) -> Point:
        """The ask made canonical, or the nearest valid unseen point: a walk over neighbours, nearest first."""
        space = self.space
        rows, inside = space.repair(point[None])
        if inside[0] and rows[0].tobytes() not in self.proposer.seen:
            return np.asarray(rows[0], dtype=np.int32)
        at = rows[0]
        for _ in range(STEPS):
            near = space.neighbours(at)
            fresh = self.proposer.unseen(near)
            if len(fresh):
                order = np.lexsort((space.draft(fresh), self._distance(fresh, point)))
                return np.asarray(fresh[order[0]], dtype=np.int32)
            if not len(near):
                break
            at = near[int(self._distance(near, point).argmin())]
        fresh = self.proposer.unseen(self._drawn())
        if not len(fresh):
            raise optuna.TrialPruned("the space is exhausted")
        return np.asarray(fresh[int(self._distance(fresh, point).argmin())], dtype=np.int32)

    def _drawn(self) -> Points:
        """All points, or where they are too many a draw of the run's own, for asks with nothing valid around them."""
        whole = self.proposer.points
        if whole is not None:
            return whole
        if self._pool is None:
            self._pool = self.space.sample(np.random.default_rng(self.proposer.seed), POOL)
        return self._pool

    def _distance(self, points: Points, point: Point) -> np.ndarray[Any, np.dtype[np.float64]]:
        total = np.zeros(len(points))
        for c, values in enumerate(self.space.choices):
            steps = np.abs(np.searchsorted(values, points[:, c]) - np.searchsorted(values, point[c]))
            total += np.where(steps > 0, 10.0, 0.0) + steps
        return total


def make_inner(name: str, seed: int) -> BaseSampler:
    """Optuna's sampler of a name: ``tpe``, ``nsgaii``, ``qmc`` or ``random``."""
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    if name == "nsgaii":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=16)  # 50 would be random search at 64 trials
    if name == "qmc":
        # It warns of conditional spaces at every ask; here what does not apply is repaired.
        logging.getLogger("optuna.samplers._qmc").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
    return optuna.samplers.RandomSampler(seed=seed)
