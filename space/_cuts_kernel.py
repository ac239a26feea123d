"""The compiled cuts of an output into parts, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def boxes(table: Any, given: Any, extents: Any, lows: Any, on: Any) -> None:
    """The first part, the main one, that after the first cut and the last: each what the others leave of the whole.

    Args:
        table: what a cut's values mean: the axis, -1 without, and the iterations cut off, shape (values, 2).
        given: values of the first part's cut and of both others, shape (3, n).
        extents: iterations of every axis of the whole, which become those of every part, shape (4, axes, n).
        lows: its first index of every axis, likewise.
        on: whether there is such a part, shape (4, n); a result.
    """
    for r in range(given.shape[1]):
        on[1, r] = True
        axis, size = table[given[0, r], 0], table[given[0, r], 1]
        on[0, r] = axis >= 0
        if axis >= 0:
            extents[0, axis, r] = size
            for p in range(1, 4):
                extents[p, axis, r] -= size
                lows[p, axis, r] += size
        for n in range(1, 3):
            axis, size = table[given[n, r], 0], table[given[n, r], 1]
            on[n + 1, r] = axis >= 0
            if axis >= 0:
                extents[n, axis, r] -= size
                for p in range(n + 1, 4):
                    extents[p, axis, r] = size
                    lows[p, axis, r] += extents[n, axis, r]


@lean
def possible(table: Any, given: Any, whole: Any, extents: Any, found: Any) -> None:
    """Which cuts leave something of their axis, of which a second one must follow a first.

    Args:
        table: as for ``boxes``.
        given: as for ``boxes``.
        whole: iterations of every axis, shape (axes,).
        extents: room for what is left of them, shape (axes,).
        found: the result, shape (3, n).
    """
    for r in range(given.shape[1]):
        for a in range(len(whole)):
            extents[a] = whole[a]
        for n in range(3):
            axis, size = table[given[n, r], 0], table[given[n, r], 1]
            found[n, r] = axis >= 0 and extents[axis] > size and (n < 2 or found[1, r])
            if found[n, r]:
                extents[axis] = extents[axis] - size if n == 0 else size
