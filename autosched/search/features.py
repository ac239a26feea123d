"""What the cost model sees of points, each of them worked out once in a search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.search.cost_model import Floats
from space import Space
from space.distinct import keys
from space.rule import Points

Features = npt.NDArray[np.float32]


class Seen:
    """The features of all points that were ever asked for.

    Args:
        space: of the points.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._at: dict[bytes, int] = {}
        self._rows: Features | None = None
        self._held = 0  # rows that stand for something

    def of(self, points: Points, drafts: Floats) -> Features:
        """Those of points, shape (n, f).

        Args:
            points: shape (n, width).
            drafts: of these points, shape (n,); those of a point's first time count.
        """
        named = keys(points)
        new = [n for n, key in enumerate(named) if key not in self._at]
        if new or self._rows is None:
            self._take(points[new], drafts[new], [named[n] for n in new])
        assert self._rows is not None
        return self._rows[[self._at[key] for key in named]]

    def _take(self, points: Points, drafts: Floats, named: list[bytes]) -> None:
        found = self._space.features(points, drafts)
        held = self._held
        self._held += len(found)
        self._at.update(zip(named, range(held, self._held)))
        if self._rows is None or self._held > len(self._rows):
            # Twice as much as is needed: what is copied stays a fraction of what is worked out.
            rows = np.zeros((2 * self._held, found.shape[1]), np.float32)
            if self._rows is not None:
                rows[:held] = self._rows[:held]
            self._rows = rows
        self._rows[held : self._held] = found
