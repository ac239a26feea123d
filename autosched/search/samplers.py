"""Optuna's samplers over valid points only, ours among them.

A study sees one integer per decision: the index of its value among the choices. What a sampler asks for is repaired to the
nearest valid point that has not been seen, inside the sampler, so that a trial is told under the values that were measured.
"""

from __future__ import annotations

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

REPAIRS = 1 << 14  # valid points among which the nearest to an invalid ask is looked for
NAMES = ("cost-model", "tpe", "nsgaii", "qmc", "random", "grid")


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
            if self.exhausted():
                raise optuna.TrialPruned("the space is exhausted")
            point = self._queue.pop(0)
        else:
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
        """The nearest valid unseen point: fewest changed columns, then the smallest steps, then the lowest draft."""
        space = self.space
        if point.tobytes() not in self.proposer.seen and space.valid(point[None])[0]:
            return point
        if self._pool is None:
            # Drawn once: the same pool for the whole run keeps repairs a function of the ask alone.
            whole = self.proposer.points
            self._pool = whole if whole is not None and len(whole) <= REPAIRS else space.sample(np.random.default_rng(0), REPAIRS)
        pool = np.concatenate([self._pool, space.neighbours_of(self._pool[self._distance(self._pool, point).argsort()[:4]])])
        pool = self.proposer.unseen(pool)
        if not len(pool):
            raise optuna.TrialPruned("the space is exhausted")
        order = np.lexsort((space.draft(pool), self._distance(pool, point)))
        return np.asarray(pool[order[0]], dtype=np.int32)

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
    if name == "tpe":
        inner = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    elif name == "nsgaii":
        inner = optuna.samplers.NSGAIISampler(seed=seed)
    elif name == "qmc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            inner = optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
    elif name == "random":
        inner = optuna.samplers.RandomSampler(seed=seed)
    grid = (row for block in proposer.space.enumerate() for row in block) if name == "grid" else None
    return SpaceSampler(proposer, inner, batch, grid)
