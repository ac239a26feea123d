"""Optuna's samplers over valid points only, ours among them.

A study sees one integer per decision: the index of its value among the choices. What a sampler asks for is repaired to the
nearest valid point that has not been seen, inside the sampler, so that a trial is told under the values that were measured.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from autosched.errors import UnknownNameError
from autosched.search.proposer import Point, Points, Proposer
from space import Space

STEPS = 8  # neighbourhoods that a repair looks at before it draws at random
POOL = 4096  # points of such a draw
FRONT = 64  # rows that a grid expands at once
NAMES = ("cost-model", "draft", "tpe", "nsgaii", "qmc", "random", "grid")


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """One integer distribution per decision: an index into its choices."""
    return {name: IntDistribution(0, len(values) - 1) for name, values in zip(space.names, space.choices)}


def to_params(space: Space, point: Point) -> dict[str, int]:
    """The parameters of a trial for a point."""
    return {n: int(np.searchsorted(v, point[i])) for i, (n, v) in enumerate(zip(space.names, space.choices))}


def to_point(space: Space, params: dict[str, Any]) -> Point:
    """The raw point that parameters name (possibly not valid)."""
    return np.array([v[int(params[n])] for n, v in zip(space.names, space.choices)], dtype=np.int32)


class SpaceSampler(BaseSampler):
    """A sampler of Optuna, or ours, restricted to unseen valid points.

    Args:
        proposer: knows what was seen, and is the cost-model sampler itself.
        inner: a sampler of Optuna, or None for the cost model.
        batch: points that the cost model chooses at once.
        grid: all points in order, where they are to be walked (a grid of raw decisions would be mostly invalid).
    """

    def __init__(
        self, proposer: Proposer, inner: BaseSampler | None, batch: int, grid: Iterator[Point] | None = None
    ) -> None:
        self.proposer = proposer
        self.inner = inner
        self.grid = grid
        self.batch = batch
        self.space = proposer.space
        self._dists = distributions(self.space)
        self._queue: list[Point] = []
        self._pool: Points | None = None

    def exhausted(self) -> bool:
        """Whether no unseen point is left that could win."""
        if not self._queue:
            self._fill()
        return not self._queue

    def next(self) -> Point | None:
        """The next point of a sampler of ours, which needs no study; None where no unseen one is left that could win."""
        if self.exhausted():
            return None
        point = self._queue.pop(0)
        self.proposer.mark(point)
        return point

    def _fill(self) -> None:
        if self.grid is None:
            self._queue = self.proposer.batch(self.batch)
            return
        fresh = (p for p in self.grid if p.tobytes() not in self.proposer.seen)
        self._queue = list(islice(fresh, self.batch))

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All decisions, always."""
        return self._dists

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The parameters of an unseen valid point."""
        if self.inner is None:
            found = self.next()
            if found is None:
                raise optuna.TrialPruned("the space is exhausted")
            return to_params(self.space, found)
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
        if self.inner is not None:
            self.inner.before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Passed on."""
        if self.inner is not None:
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


def make_sampler(name: str, proposer: Proposer, seed: int, batch: int) -> SpaceSampler:
    """The sampler of a name.

    Args:
        name: one of NAMES.
        proposer: the state of the run.
        seed: seed of the sampler.
        batch: size of a batch.

    Raises:
        UnknownNameError: no such sampler.
    """
    if name not in NAMES:
        raise UnknownNameError("sampler", name, NAMES)
    inner: BaseSampler | None = None
    proposer.learns = name != "draft"
    if name == "tpe":
        inner = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    elif name == "nsgaii":
        inner = optuna.samplers.NSGAIISampler(seed=seed, population_size=16)  # 50 would be random search at 64 trials
    elif name == "qmc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            inner = optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
        # It warns of conditional spaces at every ask; here what does not apply is repaired.
        logging.getLogger("optuna.samplers._qmc").setLevel(logging.ERROR)
    elif name == "random":
        inner = optuna.samplers.RandomSampler(seed=seed)
    # A run takes points from the front.
    grid = (row for block in proposer.space.blocks(FRONT) for row in block) if name == "grid" else None
    return SpaceSampler(proposer, inner, batch, grid)
