"""Rows as keys: which are the same, and which are new."""

from __future__ import annotations

import numpy as np

from space.rule import Ints, Points


def keys(rows: Points) -> list[bytes]:
    """Every row as bytes."""
    data, width = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [data[width * n : width * (n + 1)] for n in range(len(rows))]


def distinct(rows: Points) -> tuple[Points, Ints]:
    """The distinct rows in order, and which of them every row is."""
    first: dict[bytes, tuple[int, int]] = {}
    which = [first.setdefault(key, (len(first), n))[0] for n, key in enumerate(keys(rows))]
    return rows[[n for _, n in first.values()]], np.array(which, dtype=np.int64)


def fresh_of(rows: Points, known: set[bytes], met: set[bytes]) -> Points:
    """The distinct rows that are neither known nor met before, in order; now they are met."""
    fresh = []
    for n, key in enumerate(keys(rows)):
        if key not in known and key not in met:
            met.add(key)
            fresh.append(n)
    return rows[fresh]
