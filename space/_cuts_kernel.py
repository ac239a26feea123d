"""The compiled cuts of an output into parts, point by point.

A part's figures of an axis stand side by side, shape (parts, axes, n); so do the points' columns, shape (columns, n).
"""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh
from space import _tiles_kernel
from space._tiles_kernel import behind, divides, even

refresh(__file__, _tiles_kernel)


@lean
def boxes(table: Any, points: Any, columns: Any, whole: Any, first: Any, extents: Any, lows: Any, on: Any) -> None:
    """The first part, the main one, that after the first cut and the last: each what the others leave of the whole.

    Args:
        table: what a cut's values mean: the axis, -1 without, and the iterations cut off, shape (values, 2).
        points: the rows.
        columns: the columns of the first part's cut and of both others, shape (3,).
        whole: iterations of every axis of the whole, shape (axes, n).
        first: its first index of every axis, likewise.
        extents: those of every part, shape (4, axes, n); a result.
        lows: likewise; a result.
        on: whether there is such a part, shape (4, n); a result.
    """
    for p in range(4):
        for a in range(whole.shape[0]):
            for r in range(whole.shape[1]):
                extents[p, a, r], lows[p, a, r] = whole[a, r], first[a, r]
    for r in range(whole.shape[1]):
        on[1, r] = True
        row = points[columns[0], r]
        axis, size = table[row, 0], table[row, 1]
        on[0, r] = axis >= 0
        if axis >= 0:
            extents[0, axis, r] = size
            for p in range(1, 4):
                extents[p, axis, r] -= size
                lows[p, axis, r] += size
        for n in range(1, 3):
            row = points[columns[n], r]
            axis, size = table[row, 0], table[row, 1]
            on[n + 1, r] = axis >= 0
            if axis >= 0:
                extents[n, axis, r] -= size
                for p in range(n + 1, 4):
                    extents[p, axis, r] = size
                    lows[p, axis, r] += extents[n, axis, r]


@lean
def possible(table: Any, points: Any, columns: Any, whole: Any, extents: Any) -> None:
    """Takes back cuts that leave nothing of their axis, and a second one that follows none; in place.

    Args:
        table: as for ``boxes``.
        points: as for ``boxes``.
        columns: as for ``boxes``.
        whole: iterations of every axis, shape (axes,).
        extents: room for what is left of them, shape (axes,).
    """
    for r in range(points.shape[1]):
        for a in range(len(whole)):
            extents[a] = whole[a]
        before = True
        for n in range(3):
            row = points[columns[n], r]
            axis, size = table[row, 0], table[row, 1]
            good = axis >= 0 and extents[axis] > size and (n < 2 or before)
            if good:
                extents[axis] = extents[axis] - size if n == 0 else size
            else:
                points[columns[n], r] = 0
            before = good


@lean
def settled(
    points: Any, columns: Any, table: Any, on: Any, extents: Any, lows: Any, tiles: Any, outer: Any, slices: Any, thick: Any,
    init: Any, keep: Any, whole: Any, uneven: Any, main: int, last: int, spatial: int,
) -> None:
    """Takes back cuts that leave no part of its own, or what tiles do not divide; in place.

    Args:
        points: the rows.
        columns: as for ``boxes``.
        table: as for ``boxes``.
        on: whether a part exists, shape (parts, n).
        extents: iterations of every axis of the parts, like the following three.
        lows: their first indices.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        slices: 0, or 1 + the axis along which stages and stores go slice by slice, shape (parts, n).
        thick: indices of it in a slice, shape (parts, n).
        init: loops around the initial values, shape (parts, n).
        keep: whether an operand stays for later parts, shape (operands, n).
        whole: iterations of every axis, shape (axes,).
        uneven: along which axes the last tile may be smaller, shape (axes,).
        main: which part is the main one.
        last: which is the one behind the first cut, of those behind it the first.
        spatial: how many axes the output has; they come first.
    """
    parts, axes, n = extents.shape[0], extents.shape[1], extents.shape[2]
    head, cut, again = columns[0], columns[1], columns[2]
    for r in range(n):
        if last + 1 < parts and on[last + 1, r]:
            own = larger(tiles, last, last + 1, r) or otherwise(extents, tiles, slices, thick, last + 1, last, r)
            own = own and divides(extents, tiles, whole, uneven, main, spatial, last + 1, r)
            if not (own and divides(extents, tiles, whole, uneven, main, spatial, last, r)):
                points[again, r] = 0
        if last < parts and on[last, r] and points[again, r] == 0:
            axis, size = table[points[cut, r], 0], table[points[cut, r], 1]
            own = size < (tiles[main, axis, r] if axis >= 0 else 1)
            if not own and otherwise(extents, tiles, slices, thick, last, main, r):
                # Where the main part is one tile behind a first part of such tiles they are the main part, cut off twice.
                own = not lone(on, extents, tiles, outer, main, spatial, r)
            if own and last + 1 < parts:
                # The part after the first cut with what the second one took from it.
                for a in range(spatial):
                    more = on[last + 1, r] and lows[last + 1, a, r] != lows[last, a, r]
                    left = extents[last, a, r]
                    if more:
                        left += extents[last + 1, a, r]
                    elif on[last + 1, r]:
                        left = max(left, 0)
                    uncut = uneven[a] and left == whole[a] and extents[main, a, r] == whole[a]
                    own = own and even(left, behind(tiles[main, a, r], left, whole[a]), uncut)
            elif own:
                own = divides(extents, tiles, whole, uneven, main, spatial, last, r)
            if not own:
                points[cut, r] = 0
        if points[cut, r] == 0:
            points[again, r] = 0
        if main > 0 and on[0, r]:
            axis, size = table[points[head, r], 0], table[points[head, r], 1]
            # A first part as large as a tile is a tile, unless it has finer tiles or sums, initial values in front of them (as
            # where stages stand behind them), or loads something for all the others: then it may be larger too, so that the
            # engine that computes is not done before these loads are.
            own = size < (tiles[main, axis, r] if axis >= 0 else 1) or init[0, r] < spatial
            for k in range(keep.shape[0]):
                own = own or keep[k, r]
            for a in range(axes):
                own = own or tiles[0, a, r] < min(tiles[main, a, r], extents[0, a, r])
            if not (own and divides(extents, tiles, whole, uneven, main, spatial, 0, r)):
                points[head, r] = 0


@lean
def larger(tiles: Any, p: int, q: int, r: int) -> bool:
    """Whether a part's tile is larger than another's."""
    one = other = 1
    for a in range(tiles.shape[1]):
        one *= tiles[p, a, r]
        other *= tiles[q, a, r]
    return one > other


@lean
def otherwise(extents: Any, tiles: Any, slices: Any, thick: Any, last: int, before: int, r: int) -> bool:
    """Whether the last part goes over its tiles in other slices, or its sums in finer pieces: it is no tile like the others.

    In coarser ones it is not: that is the program of a first part that is finer and as long as all the others, up to half of an
    axis; and what comes last is better fine.
    """
    if slices[last, r] != slices[before, r] or thick[last, r] != thick[before, r]:
        return True
    finer = False
    for a in range(tiles.shape[1]):
        tile, other = tiles[last, a, r], min(tiles[before, a, r], extents[last, a, r])
        if tile > other:
            return False
        finer = finer or tile < other
    return finer


@lean
def lone(on: Any, extents: Any, tiles: Any, outer: Any, main: int, spatial: int, r: int) -> bool:
    """Whether the main part is one tile behind a first part of such tiles."""
    if main == 0 or not on[0, r]:
        return False
    for a in range(tiles.shape[1]):
        if (a < spatial and outer[main, a, r] != 1) or tiles[0, a, r] != min(tiles[main, a, r], extents[0, a, r]):
            return False
    return True
