"""Rows as keys: which are the same, and which are new."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import numpy.typing as npt

from space.rule import Ints, Points

SOME = 128  # places that are looked at between two looks at how many are found
MANY = 2  # times what is wanted of figures: of so many others it pays not to bring them into an order


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


class _Counted(dict[bytes, int]):
    """Numbers by key; a key that is new gets the next."""

    def __missing__(self, key: bytes) -> int:
        number = self[key] = len(self)
        return number


class Numbers:
    """A number for every row that was ever asked for, counted from 0; equal rows have the same."""

    def __init__(self) -> None:
        self._known = _Counted()

    def of(self, rows: npt.NDArray[Any]) -> Ints:
        """Those of rows, shape (n,)."""
        return np.fromiter(map(self._known.__getitem__, keys(rows)), np.int64, len(rows))  # nearly all are known


def _sorted(rows: Points) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The places of rows in the order of their values, of which the first column counts most, and which differ from those before.

    Equal ones stay as they are.
    """
    # Numbers from 0 on, with their highest byte first, stand side by side as one: then a row is less if its bytes are.
    unsigned = (rows.astype(np.int64) - np.iinfo(np.int32).min).astype(">u4")
    width = unsigned.shape[1] * unsigned.itemsize
    order = np.argsort(unsigned.view(f"V{width}").ravel(), kind="stable") if width else np.arange(len(rows))
    ordered, differs = rows[order], np.ones(len(rows), dtype=np.bool_)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, differs


def in_order(rows: Points) -> Ints:
    """Where each of the distinct rows stands first, the least row first: its first column counts most.

    So ``numpy.unique`` has it, which compares column by column and takes ten times as long.
    """
    order, differs = _sorted(rows)
    return order[differs]


def distinct(rows: Points) -> tuple[Ints, Ints]:
    """Where each of the distinct rows stands first, ascending, and which of them every row is."""
    order, differs = _sorted(rows)
    first = order[differs]
    ascending = np.argsort(first)
    number, which = np.zeros(len(first), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    number[ascending] = np.arange(len(first))
    which[order] = number[differs.cumsum() - 1]
    return first[ascending], which


def spread(numbers: Ints, n: int, alike: int) -> Ints:
    """The first ``n`` places at which no number stands for more than the ``alike``-th time, ascending.

    Args:
        numbers: shape (rows,).
        n: how many places at most.
        alike: how often each number may occur among them.
    """
    found: list[int] = []
    times: dict[int, int] = {}
    # Few of many are wanted as a rule, and they are soon there.
    for since in range(0, len(numbers) if n > 0 else 0, SOME):
        for place, number in enumerate(numbers[since : since + SOME].tolist(), since):
            if (before := times.get(number, 0)) < alike:
                times[number] = before + 1
                found.append(place)
        if len(found) >= n:
            break
    return np.array(found[:n], dtype=np.int64)


def lowest_of(figures: npt.NDArray[np.float64], n: int | None = None) -> Ints:
    """The places of the ``n`` lowest figures, or of all, ascending; among equals the first come first.

    Args:
        figures: shape (rows,).
        n: how many.
    """
    if n is None or not 0 < n < len(figures) // MANY:
        return np.argsort(figures, kind="stable")[:n]
    # Those no higher than the last of them are in order soon.
    some = np.flatnonzero(figures <= np.partition(figures, n - 1)[n - 1])
    return np.asarray(some[np.argsort(figures[some], kind="stable")][:n], dtype=np.int64)


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
