"""Rows as keys: which are the same, and which are new."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import numpy.typing as npt

from space.rule import Ints, Points


def keys(rows: npt.NDArray[Any]) -> list[bytes]:
    """Every row as bytes."""
    width = rows.shape[1] * rows.itemsize
    if not width:
        return [b""] * len(rows)
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{width}").ravel().tolist()
    return found


def are_new(rows: npt.NDArray[Any], known: Container[bytes]) -> npt.NDArray[np.bool_]:
    """Which rows are not known, shape (n,)."""
    return np.array([key not in known for key in keys(rows)], dtype=np.bool_)


class Numbers:
    """A number for every row that was ever asked for, counted from 0; equal rows have the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def of(self, rows: npt.NDArray[Any]) -> Ints:
        """Those of rows, shape (n,)."""
        known = self._known
        return np.array([known.setdefault(key, len(known)) for key in keys(rows)], dtype=np.int64)


def distinct(rows: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Where each of the distinct rows stands first, ascending, and which of them every row is."""
    which = Numbers().of(rows)
    return np.unique(which, return_index=True)[1], which


def spread(numbers: Ints, n: int, alike: int) -> Ints:
    """The first ``n`` places at which no number stands for more than the ``alike``-th time, ascending.

    Args:
        numbers: shape (rows,).
        n: how many places at most.
        alike: how often each number may occur among them.
    """
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    begins = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])) if len(ranked) else ranked
    times = np.arange(len(ranked)) - np.repeat(begins, np.diff(np.append(begins, len(ranked))))
    return np.sort(order[times < alike])[:n]


def fresh(rows: Points, known: set[bytes], met: set[bytes]) -> Ints:
    """The places of the distinct rows that are neither known nor met before, ascending; now they are met."""
    found = []
    for n, key in enumerate(keys(rows)):
        if key not in known and key not in met:
            met.add(key)
            found.append(n)
    return np.array(found, dtype=np.int64)


def fresh_of(rows: Points, known: set[bytes], met: set[bytes]) -> Points:
    """The rows that ``fresh`` finds."""
    return rows[fresh(rows, known, met)]
