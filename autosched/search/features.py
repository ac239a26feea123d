"""What the cost model sees of points, each of them worked out once in a search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.search.cost_model import Floats
from space import Space
from space.distinct import Numbers
from space.rule import Points

Features = npt.NDArray[np.float32]


class Seen:
    """The features of all points that were ever asked for.

    Args:
        space: of the points.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._numbers = Numbers()
        self._held = 0  # points
        self._rows: Features | None = None  # by number, with room for more

    def of(self, points: Points, drafts: Floats) -> Features:
        """Those of points, shape (n, f).

        Args:
            points: shape (n, width).
            drafts: of these points, shape (n,); those of a point's first time count.
        """
        numbers = self._numbers.of(points)
        new = np.flatnonzero(numbers >= self._held)
        if len(new) or self._rows is None:
            first = new[np.unique(numbers[new], return_index=True)[1]]
            self._keep(self._space.features(points[first], drafts[first]))
        assert self._rows is not None
        return self._rows[numbers]

    def _keep(self, found: Features) -> None:
        held, self._held = self._held, self._held + len(found)
        if self._rows is None or self._held > len(self._rows):
            # Twice as much as is needed: what is copied stays a fraction of what is worked out.
            rows = np.zeros((2 * self._held, found.shape[1]), np.float32)
            if self._rows is not None:
                rows[:held] = self._rows[:held]
            self._rows = rows
        self._rows[held : self._held] = found
