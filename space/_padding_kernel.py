"""The compiled count of how differently a border cuts the taps of a visit, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def kinds(on: Any, lows: Any, extents: Any, ranges: Any, axes: Any, before: Any, found: Any) -> None:
    """How many sizes of boxes of results the taps of one visit have along a dimension, on average over a part's visits.

    Args:
        on: in which rows the parts exist, shape (parts, n).
        lows: their first index of every axis, shape (parts, axes, n).
        extents: their iterations of every axis, shape (parts, axes, n).
        ranges: iterations of every axis in a visit, shape (parts, axes, n).
        axes: per padded dimension its spatial and its reduction axis, -1 without; shape (dims, 2).
        before: per padded dimension, how many results before index i every tap has, shape (dims, indices + 1, taps).
        found: the result, shape (dims, parts, n); where a part is not, and without both axes of a dimension, as it is.
    """
    for d in range(axes.shape[0]):
        a, b = axes[d, 0], axes[d, 1]
        if a < 0 or b < 0:
            continue
        for p in range(on.shape[0]):
            for r in range(on.shape[1]):
                if not on[p, r]:
                    continue
                low, extent, tile = lows[p, a, r], extents[p, a, r], ranges[p, a, r]
                high = low + extent
                count = -(-extent // tile)
                total = sizes(before, d, low, min(low + tile, high))
                if count > 1:
                    total += sizes(before, d, low + (count - 1) * tile, high)
                if count > 2:
                    # Between its ends one tile is as the other.
                    total += (count - 2) * sizes(before, d, low + tile, min(low + 2 * tile, high))
                found[d, p, r] = min(total / count, ranges[p, b, r])


@lean
def sizes(before: Any, d: int, low: int, high: int) -> int:
    """Of how many sizes a dimension's taps have results in a box of its spatial axis; one that has none does not count."""
    taps, several = before.shape[2], 0
    for t in range(taps):
        size = before[d, high, t] - before[d, low, t]
        new = size > 0
        for s in range(t):
            new = new and before[d, high, s] - before[d, low, s] != size
        several += new
    return max(several, 1)
