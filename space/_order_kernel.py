"""The compiled order of loops, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def ordered(
    points: Any, column: int, places: Any, whole: Any, outer: Any, weights: Any, keys: Any, by_key: Any, rank: Any
) -> None:
    """Axes of one tile go last, in axis order, those of a single index behind the others; in place.

    Args:
        points: the rows, shape (columns, n).
        column: which says the order, by its number.
        places: of every axis' loop in every order, shape (orders, axes).
        whole: iterations of every axis, shape (axes,).
        outer: tiles along every axis, shape (axes, n).
        weights: as ``Model.order_keys`` has them, like the next two; shape (spatial axes,).
        keys: shape (orders,), ascending.
        by_key: shape (orders,).
        rank: room for a number of every spatial axis.
    """
    spatial = len(weights)
    for r in range(points.shape[1]):
        order = points[column, r]
        for a in range(spatial):
            rank[a] = places[order, a] if outer[a, r] > 1 else spatial * (2 if whole[a] == 1 else 1) + a
        key = 0
        for a in range(spatial):
            for b in range(spatial):
                key += weights[a] * (rank[b] < rank[a])
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        points[column, r] = by_key[low]
