"""Which points to measure next: the draft first, then the model over the whole space or an evolving population."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from autosched.search.cost_model import CostModel, Floats
from space import Space

Point = npt.NDArray[np.int32]
Points = npt.NDArray[np.int32]

SCAN_LIMIT = 1_000_000  # raw combinations up to which every valid point is scored
POPULATION = 2048
GENERATIONS = 6
EPSILON = 0.1  # share of a batch drawn at random: the model's blind spots


class Proposer:
    """Proposes batches of unseen valid points.

    Args:
        space: the design space.
        seed: the same seed and the same measurements give the same proposals.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.rng = np.random.default_rng(seed)
        self.model = CostModel(seed)
        self.seen: set[bytes] = set()
        self._points: list[Point] = []
        self._cycles: list[float] = []
        raw = 1.0
        for values in space.choices:
            raw *= len(values)
        self.scans = raw <= SCAN_LIMIT
        self._all: Points | None = None
        if self.scans:
            blocks = list(space.enumerate())
            self._all = np.concatenate(blocks) if blocks else np.zeros((0, space.width), np.int32)

    @property
    def engine(self) -> str:
        """``scan`` (every point is scored) or ``evolution``."""
        return "scan" if self.scans else "evolution"

    @property
    def size(self) -> int | None:
        """Number of points where it is known."""
        return None if self._all is None else len(self._all)

    def add(self, point: Point, cycles: int | None) -> None:
        """Reports a measurement; None for a point that failed."""
        self.seen.add(point.tobytes())
        if cycles is not None:
            self._points.append(point)
            self._cycles.append(float(cycles))

    def mark(self, point: Point) -> None:
        """Excludes a point that is being measured."""
        self.seen.add(point.tobytes())

    def batch(self, n: int) -> list[Point]:
        """Up to ``n`` unseen points; fewer only where the space is exhausted."""
        if self._points:
            points = np.stack(self._points)
            self.model.fit(self.space.features(points), self.space.draft(points), np.array(self._cycles))
        best = min(self._cycles, default=np.inf)
        pool = self._pool()
        # What cannot beat the incumbent is not worth a simulation.
        pool = pool[self.space.bound(pool) < best] if len(pool) else pool
        pool = self._unseen(pool)
        if not len(pool):
            return []
        scores = self._score(pool)
        chosen: dict[bytes, Point] = {}
        random = round(EPSILON * n) if self._points else 0
        for point in self._spread(pool[np.argsort(scores, kind="stable")], n - random):
            chosen.setdefault(point.tobytes(), point)
        for index in self.rng.permutation(len(pool)):
            if len(chosen) >= n:
                break
            chosen.setdefault(pool[index].tobytes(), pool[index])
        return list(chosen.values())

    def _spread(self, ranked: Points, n: int) -> Iterable[Point]:
        """The best points, at most a few that share all tiles: neighbours tell the model little more than one of them."""
        axes = self.space.model.columns.axes
        limit = 4 if not self._points else n
        taken: dict[bytes, int] = {}
        chosen = 0
        for row in ranked:
            key = row[:axes].tobytes()
            if taken.get(key, 0) >= limit:
                continue
            taken[key] = taken.get(key, 0) + 1
            chosen += 1
            yield row
            if chosen >= n:
                return

    def _score(self, points: Points) -> Floats:
        drafts = self.space.draft(points)
        return self.model.predict(self.space.features(points), drafts) if self._points else drafts

    def _unseen(self, points: Points) -> Points:
        keep = np.array([row.tobytes() not in self.seen for row in points], dtype=bool)
        return points[keep] if len(points) else points

    def _pool(self) -> Points:
        if self._all is not None:
            return self._all
        return self._evolve(self._score)

    def _evolve(self, score: Callable[[Points], Floats]) -> Points:
        """A population bred for a low score: valid parents, one to three columns changed, invalid children dropped."""
        space = self.space
        population = space.sample(self.rng, POPULATION)
        if self._points:
            order = np.argsort(self._cycles, kind="stable")[:8]
            incumbents = np.stack([self._points[i] for i in order])
            population = np.concatenate([population, incumbents, space.neighbours_of(incumbents)])
        kept = population
        for _ in range(GENERATIONS):
            children = self._mutate(population)
            kept = np.unique(np.concatenate([population, children]), axis=0)
            ranks = np.argsort(score(kept), kind="stable")
            population = kept[ranks[:POPULATION]]
        elite = population[:16]
        return np.unique(np.concatenate([population, space.neighbours_of(elite)]), axis=0)

    def _mutate(self, parents: Points) -> Points:
        space = self.space
        children = np.repeat(parents, 3, axis=0)
        for step in range(3):
            column = self.rng.integers(space.width, size=len(children))
            change = self.rng.random(len(children)) < (1.0, 0.5, 0.25)[step]
            for c, values in enumerate(space.choices):
                rows = np.flatnonzero(change & (column == c))
                children[rows, c] = self.rng.choice(values, size=len(rows))
        return children[space.valid(children)]
