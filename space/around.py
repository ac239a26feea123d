"""The rows around points of a sketch: neighbours before they are repaired."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from space.distinct import distinct
from space.rule import Points
from space.sketch import Sketch

FEW = 8  # values of a column up to which all of them are near
FLAG = 16  # those of a column that says where or how often something is done, at most


def around(sketch: Sketch, points: Points) -> Points:
    """Points with one column changed, or a tile, an order or a cut and one that says where or how often something is done.

    What is cut along another axis is cut into pieces of several sizes: of the least of them there may be far too many. What else
    rules try around points changes several of their decisions together (``NumericRule.beside``).

    Args:
        sketch: of the points.
        points: in its own columns, shape (n, columns).

    Returns:
        Rows, not repaired, the points among them.
    """
    columns = sketch.columns
    flags = [n for n, c in enumerate(columns) if c.loosest is not None and len(c.choices) <= FLAG
             and not c.name.rpartition(".")[2].startswith(("tile_", "head_"))]
    nest_of = np.searchsorted(sketch.starts, np.arange(len(columns)), side="right")  # from 1 on
    rows, origin = list(points), list(range(len(points)))
    changed = [0] * len(points)  # the nest of each one's change, where that is no flag
    for n, column in enumerate(columns):
        values = np.array(column.choices)
        nest = 0 if n in flags else int(nest_of[n])
        for k, own in enumerate(points):
            for other in _near(values, own[n]):
                row = own.copy()
                row[n] = other
                rows.append(row)
                origin.append(k)
                changed.append(nest)
    for n, beside in _sized(sketch):
        sizes = np.array(columns[beside].choices)
        every = {int(size) for size in sizes if size & (size - 1) == 0}
        for k, own in enumerate(points):
            for axis in columns[n].choices:
                for size in sorted(every.union(_near(sizes, own[beside]))) if axis else ():
                    row = own.copy()
                    row[n], row[beside] = axis, size
                    rows.append(row)
                    origin.append(k)
                    changed.append(0)
    single, nests = np.stack(rows), np.array(changed)
    # What means the same has the same neighbours, but for very few: tiles that are rounded, columns that have no say there.
    meant = [model.repair(mine, settle=False) for model, mine in sketch.split(single)]
    first, _ = distinct(np.column_stack([*meant, np.array(origin, dtype=np.int32)]))
    single, nests = single[first], nests[first]
    # A tile that changes often needs its load or its bank to change with it: try those of each neighbour too.
    found = [single]
    for n in flags:
        beside = single[nests == nest_of[n]]
        for value in columns[n].choices:
            twins = beside[beside[:, n] != value]
            twins[:, n] = value
            found.append(twins)
    for start, model in zip(sketch.starts, sketch.models):
        own = slice(start, start + len(model.columns))
        for rule in model.rules:
            of, near = rule.beside(model, points[:, own])
            twins = points[of]
            twins[:, own] = near
            found.append(twins)
    return np.concatenate(found)


def _sized(sketch: Sketch) -> list[tuple[int, int]]:
    """Columns that say along which axis something is cut, each with the one that says into pieces of what size."""
    place = {c.name: n for n, c in enumerate(sketch.columns)}
    return [(n, place[f"{name}_size"]) for name, n in place.items() if f"{name}_size" in place]


def _near(values: npt.NDArray[np.int64], value: int) -> list[int]:
    """Other values of a column: all of a few, else those beside, the ends, the double and the half."""
    if len(values) <= FEW:
        return [int(v) for v in values if v != value]
    at = int(np.searchsorted(values, value))
    scaled = {int(np.searchsorted(values, v)) for v in (value * 2, value // 2)}
    near = sorted({at - 2, at - 1, at + 1, at + 2, 0, 1, len(values) - 1} | scaled)
    return [int(values[n]) for n in near if 0 <= n < len(values) and values[n] != value]
