"""Samplers: what a run asks for its next point. Ours are here; Optuna's are behind a door that only they need."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from autosched.errors import UnknownNameError
from autosched.search.proposer import Point, Proposer

if TYPE_CHECKING:
    from autosched.search.space_sampler import SpaceSampler

FRONT = 64  # rows that a grid expands at once
NAMES = ("cost-model", "draft", "tpe", "nsgaii", "qmc", "random", "grid")
OWN = ("cost-model", "draft", "grid")


class Sampler:
    """A sampler of ours: the proposer's batches, or all points in order.

    Args:
        proposer: knows what was seen, and is the cost-model sampler itself.
        batch: points that are chosen at once.
        grid: all points in order, where they are to be walked (a grid of raw decisions would be mostly invalid).
    """

    def __init__(self, proposer: Proposer, batch: int, grid: Iterator[Point] | None = None) -> None:
        self.proposer = proposer
        self.grid = grid
        self.batch = batch
        self._queue: list[Point] = []

    def exhausted(self) -> bool:
        """Whether no unseen point is left that could win."""
        if not self._queue:
            self._fill()
        return not self._queue

    def next(self) -> Point | None:
        """The next point; None where no unseen one is left that could win."""
        if self.exhausted():
            return None
        point = self._queue.pop(0)
        self.proposer.mark(point)
        return point

    def _fill(self) -> None:
        if self.grid is None:
            # The more is known, the less a batch tells that is new: half of that at once.
            self._queue = self.proposer.batch(max(self.batch, self.proposer.known // 2 // self.batch * self.batch))
            return
        fresh = (p for p in self.grid if p.tobytes() not in self.proposer.seen)
        self._queue = list(islice(fresh, self.batch))


def make_sampler(name: str, proposer: Proposer, seed: int, batch: int) -> Sampler | SpaceSampler:
    """The sampler of a name: one of ours, or one of Optuna's, which a study asks.

    Args:
        name: one of NAMES.
        proposer: the state of the run.
        seed: seed of a sampler of Optuna.
        batch: size of a batch of ours.

    Raises:
        UnknownNameError: no such sampler.
    """
    if name not in NAMES:
        raise UnknownNameError("sampler", name, NAMES)
    proposer.learns = name != "draft"
    if name not in OWN:
        from autosched.search.space_sampler import SpaceSampler, make_inner

        return SpaceSampler(proposer, make_inner(name, seed))
    # A run takes points from the front.
    grid = (row for block in proposer.space.blocks(FRONT) for row in block) if name == "grid" else None
    return Sampler(proposer, batch, grid)
