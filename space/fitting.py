"""Rows that fit the memories: tiles of drawn rows shrink until everything they hold has room.

Where memories are small nearly nothing that is drawn fits, and evolution begins with a few points in a few places. Of what is
made to fit there is enough to begin everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from space.rule import Points

if TYPE_CHECKING:
    from space.space import Space

ROUNDS = 12  # in which one tile of every row shrinks; a row that is still too large is given up
SHRINKS = (0.4, 0.85)  # what is left of it, between


def fitted(space: Space, rng: np.random.Generator, n: int) -> Points:
    """Points of ``n`` rows of ``Space.hungry``, mutated, whose tiles have shrunk until they fit.

    Args:
        space: of the points.
        rng: source of randomness; the same state gives the same points.
        n: rows; those that are no points in the end are dropped.
    """
    rows = space.varied(space.hungry(rng, n), rng)
    for sketch, places, own in space.groups(rows):
        rows[places] = space.wide(sketch, _shrunk(space, sketch, own, rng))
    points, inside = space.repair(rows)
    return points[inside]


def _shrunk(space: Space, sketch: int, own: Points, rng: np.random.Generator) -> Points:
    """Rows of a sketch's columns, repaired; of what does not fit one tile after the other is made smaller."""
    own, large = own.copy(), np.arange(len(own))
    decided = set(space.fixed)
    columns = zip(space.sketches[sketch].columns, space.places(sketch).tolist())
    tiles = [(n, np.array(column.choices)) for n, (column, at) in enumerate(columns)
             if column.name.startswith("tile_") and len(column.choices) > 1 and space.names[at] not in decided]
    for _ in range(ROUNDS):
        own[large], _, plans = space.repaired(sketch, own[large])
        large = large[~space.sketches[sketch].capacity(plans)]
        if not len(large) or not tiles:
            break
        sizes = own[large][:, [n for n, _ in tiles]]
        which = np.where(sizes > 1, rng.random(sizes.shape), -1.0).argmax(axis=1)
        left = sizes[np.arange(len(large)), which] * rng.uniform(*SHRINKS, size=len(large))
        for k, (column, choices) in enumerate(tiles):
            mine = which == k
            own[large[mine], column] = choices[np.maximum(np.searchsorted(choices, left[mine], side="right") - 1, 0)]
    return own
