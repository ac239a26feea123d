"""Children: points made from others, generation after generation, and estimated at once.

A row costs little; what costs is that every rule looks at all rows. So it looks once: what rules have said while they repaired
the rows is what the estimate reads, and rows that settling has changed are looked at again together with the next generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING

import numpy as np

from space.distinct import are_new, fresh, keys
from space.draft import Floats
from space.rule import Points

if TYPE_CHECKING:
    from space.space import Space

NEVER = -1.0  # cycles that no estimate is below


class Brood:
    """The children of one population.

    Args:
        space: of the points.
        population: points, which are nothing new.
        barred: what ``same_loads`` says of no child, as keys.
    """

    def __init__(self, space: Space, population: Points, barred: Set[bytes] = frozenset()) -> None:
        self._space = space
        self._barred = barred
        self._known = set(keys(population))  # so are the rows that were looked at, and the points that came of them
        self._open: dict[int, Points] = {}  # by sketch, rows of its columns that were looked at once and are not settled

    def next(
        self, parents: Points, guests: Points, rng: np.random.Generator, enough: Callable[[Points], Floats]
    ) -> tuple[Points, Floats]:
        """New points made from others, in the order of their forms, and their estimates.

        Half of the children take decisions over from another, then one to three rules decide anew. What takes more than two
        looks to settle is no point.

        Args:
            parents: points, shape (n, width).
            guests: rows that are looked at as they are, shape (m, width).
            rng: source of randomness.
            enough: of points, estimates above which need not be worked out to their end, shape (n,).
        """
        children = np.concatenate([self._space.varied(parents, rng), guests])
        return self._together(self._of_form(k, own, enough) for k, _, own in self._space.groups(children))

    def rest(self, enough: Callable[[Points], Floats]) -> tuple[Points, Floats]:
        """What the last generations have left open, looked at again: new points, and their estimates."""
        return self._together(self._of_form(k, self._open[k][:0], enough) for k in sorted(self._open))

    def _together(self, found: Iterable[tuple[Points, Floats]]) -> tuple[Points, Floats]:
        """Points of several forms, one after the other, and their estimates."""
        every = list(found)
        points = [np.zeros((0, self._space.width), np.int32), *(rows for rows, _ in every)]
        return np.concatenate(points), np.concatenate([np.zeros(0), *(drafts for _, drafts in every)])

    def _of_form(self, sketch: int, children: Points, enough: Callable[[Points], Floats]) -> tuple[Points, Floats]:
        """The points that come of some rows of a sketch's columns, and of those that were left open."""
        space, met = self._space, set[bytes]()
        own = np.concatenate([self._open.pop(sketch), children]) if sketch in self._open else children
        left = len(own) - len(children)
        new = fresh(space.wide(sketch, own), self._known, met)
        own, left = own[new], int(np.searchsorted(new, left))
        if not len(own):
            return np.zeros((0, space.width), np.int32), np.zeros(0)
        fixed, stays, plans = space.repaired(sketch, own)
        rows = np.flatnonzero(stays)
        points = space.wide(sketch, fixed[rows])
        new = fresh(points, self._known, self._known)
        rows, points = rows[new], points[new]
        self._known |= met
        self._open[sketch] = fixed[left:][~stays[left:]]
        if space.fixed or self._barred:
            asked = space.as_fixed(points)
            if self._barred:
                asked &= are_new(space.same_loads(points), self._barred)
            rows, points = rows[asked], points[asked]
        plans = [plan.of(rows) for plan in plans]
        # A third of them does not fit, which is seen sooner than all the rest.
        fitting = np.flatnonzero(space.sketches[sketch].capacity(plans))
        points, plans = points[fitting], [plan.of(fitting) for plan in plans]
        inside = space.sketches[sketch].legal(fixed[rows[fitting]], plans)
        drafts = space.estimated(sketch, plans, np.where(inside, enough(points), NEVER))
        return points[inside], drafts[inside]
