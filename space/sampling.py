"""Points of a design space at random, and such that are made from others: for searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from space.around import around
from space.distinct import are_new, fresh_of, in_order, keys
from space.listing import Listed
from space.plan import Mask
from space.rule import Ints, Points, evenly

CROSSED = 0.5  # share of children with decisions of two parents
VARIED = (1.0, 0.5, 0.25)  # chances that a first, a second, a third rule decides anew
ROUNDS, IDLE = 60, 4  # of draws for a sample at most, and of such that bring nothing new
DRAWN = 256  # rows of a round, at least
LISTED = 1e8  # combinations of decisions up to which points are listed until there are some, where no draw is one
LEAST = 4096  # draws of a form that stand for its size where none of very many is a point


class Sampled(Listed):
    """Draws, what they become by repair, and the neighbours and children of points."""

    def draws(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` rows with every column evenly from its choices, half of those of as many nests from sketches by their size.

        How many nests is drawn evenly, and so is the sketch of the other half: the largest would leave no draws for the others.
        What is only tried around points (``Rule.bred``) is as by default.
        """
        sizes = np.array([self._raw(k) if k in self._open else 0.0 for k in range(len(self.sketches))])
        for count in np.unique(self.nests):
            alike = (self.nests == count) & (sizes > 0)
            sizes[alike] = sizes[alike] / sizes[alike].sum() + 1 / max(int(alike.sum()), 1)
        which = rng.choice(len(self.sketches), size=n, p=sizes / sizes.sum())
        out = np.zeros((n, self.width), dtype=np.int32)
        for k in range(len(self.sketches)):
            rows = np.flatnonzero(which == k)
            out[rows] = self.wide(k, self._drawn(k, rng, len(rows), bred=True))
        return self._pinned(out)

    def _drawn(self, sketch: int, rng: np.random.Generator, n: int, bred: bool = False) -> Points:
        """Rows of a sketch's own columns, each drawn evenly from its choices; if asked only those of rules that breed."""
        tried = self.sketches[sketch].tried if bred else frozenset[int]()
        values = [values for model in self.sketches[sketch].models for values in model.values]
        own = self.sketches[sketch].default
        return np.stack([np.full(n, own[c]) if c in tried else evenly(v, rng, n) for c, v in enumerate(values)], axis=1)

    @cached_property
    def _bred(self) -> Ints:
        """Where the columns stand that are drawn."""
        tried = {int(places[n]) for sketch, places in zip(self.sketches, self._places) for n in sketch.tried}
        return np.array([n for n in range(self.width) if n not in tried], dtype=np.int64)

    def _chances(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        """A number between 0 and 1 for every column of so many rows that is drawn, 1 for the others."""
        found = np.ones((n, self.width))
        found[:, self._bred] = rng.random((n, len(self._bred)))
        return found

    def sample(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` distinct points (fewer where the space is smaller), drawn at random and repaired.

        Args:
            rng: source of randomness; the same state gives the same points.
            n: how many.
        """
        found: dict[bytes, npt.NDArray[np.int32]] = {}
        rounds = idle = 0
        while rounds < ROUNDS and idle < IDLE:
            before = len(found)
            drawn = self.draws(rng, max(2 * n, DRAWN))
            if rounds % 2:
                # Every other round starts from whole tiles, with some columns drawn: small spaces have few points elsewhere.
                drawn = self._near(drawn, [sketch.default for sketch in self.sketches], self._chances(rng, len(drawn)) < 0.5)
            rows, inside = self.repair(drawn)
            for row in rows[inside]:
                found.setdefault(row.tobytes(), row)
                if len(found) >= n:
                    return np.stack(list(found.values()))
            rounds, idle = rounds + 1, idle + 1 if len(found) == before else 0
        if found:
            return np.stack(list(found.values()))
        # Hardly any tile fits: the smallest do, or nothing does.
        drawn = self.draws(rng, max(2 * n, DRAWN))
        kept = self._chances(rng, len(drawn)) >= rng.choice((1.0, 0.9, 0.75, 0.5), len(drawn))[:, None]
        near = self._repairs(self._near(drawn, [sketch.loosest for sketch in self.sketches], kept))
        if len(near):
            return near[:n]
        first = next(self.enumerate(), None) if self.raw() < LISTED else None
        return first[:n] if first is not None else np.zeros((0, self.width), dtype=np.int32)

    def count(self, limit: int = 200_000) -> tuple[int, bool]:
        """(number of points, whether it is exact): above a number of raw combinations it is an estimate from a sample; 0 where no
        point is known.

        Args:
            limit: of points to list; a larger space is estimated, which costs less than tuning.
        """
        if self.raw() <= 160 * limit:
            total = 0
            for block in self.enumerate():
                total += len(block)
                if total >= limit:
                    break
            else:
                return total, True
        # Every form in its own right: what one form's draws say holds for its own combinations only.
        rng, each = np.random.default_rng(0), max(1 << 12, (1 << 15) // len(self._open))
        about = 0.0
        for k in self._open:
            drawn = self._pinned(self.wide(k, self._drawn(k, rng, each, bred=True)))
            share = float(self.valid(drawn).mean())
            # Where a hit is too rare for a guess those that draws become by repair are some that there are.
            about += self._raw(k) * share if share else len(self._repairs(drawn[:LEAST]))
            if (several := self._raw(k, tried=True)) > 1:
                # Few of what is only tried around points make sense: by themselves, they do not make the others rare.
                drawn = self._pinned(self.wide(k, self._drawn(k, rng, each)))
                tried = [n for n in self.sketches[k].tried if int(self._places[k][n]) not in self._fixed]
                away = (drawn[:, self._places[k][tried]] != self.sketches[k].default[tried]).any(axis=1)
                about += self._raw(k) * (several - 1) * float(self.valid(drawn[away]).mean()) if away.any() else 0.0
        return round(about) or len(self.sample(rng, 1)), False

    def _repairs(self, drawn: Points) -> Points:
        """The distinct points that rows become by repair."""
        rows, inside = self.repair(drawn)
        return fresh_of(rows[inside], set(), set())

    def eager(self, rng: np.random.Generator, n: int) -> Points:
        """Points from ``n`` rows of ``hungry``; those that do not fit the memories are dropped."""
        return self.mutate(self.hungry(rng, n), rng)

    def hungry(self, rng: np.random.Generator, n: int) -> Points:
        """``n`` draws in which most decisions let the engines run as far ahead of each other as they can."""
        drawn = self.draws(rng, n)
        for k, (sketch, places) in enumerate(zip(self.sketches, self._places)):
            rows = np.flatnonzero(drawn[:, 0] == k)
            for column, at in zip(sketch.columns, places):
                if column.eager is not None:
                    drawn[rows[rng.random(len(rows)) < 0.75], at] = column.eager
        return drawn

    def _near(self, drawn: Points, centres: Sequence[npt.NDArray[np.int32]], kept: Mask) -> Points:
        """Rows that keep some of what was drawn, the rest as in a row of their form; of each form its own columns are given."""
        base = np.concatenate([self.wide(k, own[None]) for k, own in enumerate(centres)])[drawn[:, 0]]
        return self._pinned(np.where(kept, drawn, base))

    # -- from other points ----------------------------------------------------------------------------------------------

    def mutate(self, parents: Points, rng: np.random.Generator) -> Points:
        """Points made from others: half of them take decisions over from another, then one to three rules decide anew.

        Args:
            parents: points, shape (n, width).
            rng: source of randomness.

        Returns:
            The points; rows that are none, also after repair, are dropped.
        """
        repaired, inside = self.repair(self.varied(parents, rng))
        return repaired[inside]

    def varied(self, parents: Points, rng: np.random.Generator) -> Points:
        """Rows made from points as ``mutate`` says, not repaired."""
        children = parents.copy()
        for k, rows, own in self.groups(parents):
            self._cross(k, own, rng)
            self._vary(k, own, rng)
            children[rows] = self.wide(k, own)
        return self._pinned(children)

    def _cross(self, sketch: int, own: Points, rng: np.random.Generator) -> None:
        """Half of the rows take every other rule's columns from another row."""
        mates = own[rng.permutation(len(own))]
        crossed = rng.random(len(own)) < CROSSED
        deciding = self.sketches[sketch].deciding
        taken = np.zeros((len(deciding) + 1, len(own)), dtype=np.bool_)  # the last: columns of no such rule
        taken[:-1] = crossed & (rng.random((len(deciding), len(own))) < 0.5)
        np.copyto(own, mates, where=taken[self.sketches[sketch].deciders].T)

    def _vary(self, sketch: int, own: Points, rng: np.random.Generator) -> None:
        """One to three rules of every row decide anew."""
        deciding = self.sketches[sketch].deciding
        if not deciding:
            return
        # As ``rng.choice`` has it, which looks for the place of each number by itself: there are few to count.
        drawn = rng.random((len(own), len(VARIED)))
        which = np.zeros(drawn.shape, dtype=np.int64)
        for share in self.sketches[sketch].shares:
            which += share <= drawn
        which[rng.random(which.shape) >= VARIED] = -1
        decides = np.zeros((len(deciding) + 1, len(own)), dtype=np.bool_)  # the last: no rule
        decides[which.T, np.arange(len(own))] = True
        alone = len(self.sketches[sketch].models) == 1
        for n, (model, nest, _, rule) in enumerate(deciding):
            rows = np.flatnonzero(decides[n])
            if len(rows):
                # A rule may change what others decide, so that its own makes sense.
                part = own.take(rows, axis=0) if alone else np.ascontiguousarray(own[rows, nest])
                rule.vary(model, part, rng)
                if alone:
                    own[rows] = part
                else:
                    own[rows, nest] = part

    def moved(self, points: Points, sketch: int) -> Points:
        """Rows of another sketch with the decisions of points; a value that it does not have becomes its default."""
        own = np.ascontiguousarray(points[:, self._places[sketch]])
        for n, column in enumerate(self.sketches[sketch].columns):
            # A few rows: asking one by one costs less than asking NumPy.
            known = self.sketches[sketch].known[n]
            for row in own:
                if int(row[n]) not in known:
                    row[n] = column.default
        return self.wide(sketch, own)

    def neighbours(self, point: npt.NDArray[np.int32]) -> Points:
        """The points that differ from ``point`` in one column, or in a tile, an order or a cut and in where something is done."""
        return self.neighbours_of(point[None])

    def neighbours_of(self, points: Points) -> Points:
        """The distinct neighbours of several points, these left out."""
        rows = np.concatenate([self.wide(k, around(self.sketches[k], own)) for k, _, own in self.groups(points)])
        near, inside = self.repair(rows[np.sort(in_order(rows))])
        near = near[inside]
        near = near[in_order(near)]
        return near[are_new(near, set(keys(points)))]
