"""The compiled tiles of parts, point by point: what the first, the main and the last ones are tiled in.

A part's figures of an axis stand side by side, shape (parts, axes, n); so do the points' columns, shape (columns, n). A column
that there is not has the number -1.
"""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def counted(extent: int, tile: int) -> int:
    """Tiles of so many iterations, the last of which may be smaller."""
    if tile >= extent:
        return 1 if tile == extent and extent != 0 else -(-extent // tile) if tile != 0 else 0
    return -(-extent // tile) if tile != 0 else 0


@lean
def behind(tile: int, extent: int, whole: int) -> int:
    """The tile of a part behind the main one: the others', or all of what cuts leave of an axis where that does not divide it."""
    less = min(tile, extent)
    found: int = extent if extent < whole and extent % max(less, 1) > 0 else less
    return found


@lean
def like_others(extents: Any, tiles: Any, whole: Any, uneven: Any, main: int, p: int, a: int, r: int) -> int:
    """A part's tile if it is tiled as the main part is; as it is where those tiles do not divide it."""
    extent, other = extents[p, a, r], extents[main, a, r]
    tile: int = min(tiles[main, a, r], extent)
    if extent % max(tile, 1) == 0 or (uneven[a] and extent == whole[a] and other == whole[a]):
        return tile
    own: int = tiles[p, a, r]
    return own


@lean
def divides(extents: Any, tiles: Any, whole: Any, uneven: Any, main: int, spatial: int, p: int, r: int) -> bool:
    """Whether a part's tiles divide it along all spatial axes along which they have to."""
    for a in range(spatial):
        uncut = uneven[a] and extents[p, a, r] == whole[a] and extents[main, a, r] == whole[a]
        if not even(extents[p, a, r], tiles[p, a, r], uncut):
            return False
    return True


@lean
def even(extent: int, tile: int, uncut: bool) -> bool:
    """Whether a tile divides so many iterations, or need not, since nothing is cut off the axis."""
    return uncut or tile == 0 or extent % tile == 0


@lean
def allowed(
    on: Any, extents: Any, tiles: Any, whole: Any, uneven: Any, main: int, spatial: int, tied: Any, drops: Any, found: Any
) -> None:
    """Whether tiles divide every part that there is, and where padding is loaded the main one along the axes that it lies along.

    Args:
        on: whether a part exists, shape (parts, n).
        extents: of the parts.
        tiles: of the parts.
        whole: iterations of every axis, shape (axes,).
        uneven: along which axes the last tile may be smaller, shape (axes,).
        main: which part is the main one.
        spatial: how many axes the output has; they come first.
        tied: the axes that padding lies along.
        drops: whether it is left out, shape (n,).
        found: the result, shape (n,).
    """
    for r in range(len(found)):
        good = True
        for p in range(on.shape[0]):
            good = good and (not on[p, r] or divides(extents, tiles, whole, uneven, main, spatial, p, r))
        for n in range(len(tied)):
            good = good and (drops[r] or even(extents[main, tied[n], r], tiles[main, tied[n], r], False))
        found[r] = good


@lean
def rounded(points: Any, columns: Any, tables: Any, starts: Any, widths: Any, extents: Any) -> None:
    """The nearest sizes of tiles, in place.

    Args:
        points: the rows.
        columns: the column of every axis' tile, -1 where nothing is asked, shape (axes,).
        tables: of every axis a row for every extent, by tile, one behind the other.
        starts: where each of them begins, shape (axes,).
        widths: how long its rows are, shape (axes,).
        extents: iterations of every axis, shape (axes, n).
    """
    for a in range(len(columns)):
        if columns[a] >= 0:
            for r in range(points.shape[1]):
                points[columns[a], r] = tables[starts[a] + extents[a, r] * widths[a] + points[columns[a], r]]


@lean
def tiled(points: Any, columns: Any, whole: Any, extents: Any, main: int, falls: bool, tiles: Any, outer: Any) -> None:
    """Every part has the tile, or less where it is smaller; what is cut off in front of the main one is one tile along its axis.

    Args:
        points: the rows.
        columns: the column of every axis' tile, shape (axes,).
        whole: iterations of every axis, shape (axes,).
        extents: of the parts.
        main: which part is the main one.
        falls: whether the part behind that has tiles of its own, where these are smaller than it is.
        tiles: those of the parts; a result, like the next.
        outer: tiles along every axis.
    """
    for p in range(extents.shape[0]):
        for a in range(extents.shape[1]):
            for r in range(extents.shape[2]):
                extent, tile = extents[p, a, r], points[columns[a], r]
                if p <= main:
                    tile = extent if p < main and extent < whole[a] else min(tile, extent)
                elif not (falls and p == main + 1 and tiles[p, a, r] < extent):
                    tile = behind(tile, extent, whole[a])
                else:
                    tile = tiles[p, a, r]
                tiles[p, a, r], outer[p, a, r] = tile, counted(extent, tile)


@lean
def alike(
    points: Any, table: Any, head: int, axis: int, size: int, on: Any, extents: Any, tiles: Any, whole: Any, uneven: Any,
    main: int, r: int,
) -> bool:
    """Whether the first part is of several tiles such as the others', which is said by that along the axis it was cut from."""
    if axis < 0 or not on[0, r] or head < 0 or table[points[head, r], 0] != axis:
        return False
    same: bool = size == like_others(extents, tiles, whole, uneven, main, 0, axis, r) and size < extents[0, axis, r]
    return same


@lean
def leading(
    points: Any, table: Any, head: int, column: int, on: Any, extents: Any, tiles: Any, whole: Any, uneven: Any, main: int
) -> None:
    """Tiles of a first part of its own, in place: they divide it, and are finer than the others', or as they are and several.

    Args:
        points: the rows; ``column`` of them is the result.
        table: what the values of a cut column mean: the axis, -1 without, and iterations, shape (values, 2).
        head: the column of the first part's cut.
        column: that of its tiles.
        on: whether a part exists, shape (parts, n).
        extents: of the parts.
        tiles: of the parts.
        whole: iterations of every axis, shape (axes,).
        uneven: along which axes the last tile may be smaller, shape (axes,).
        main: which part is the main one.
    """
    for r in range(points.shape[1]):
        axis, size = table[points[column, r], 0], table[points[column, r], 1]
        good = axis >= 0 and on[0, r] and extents[0, axis, r] % max(size, 1) == 0
        if good and size >= like_others(extents, tiles, whole, uneven, main, 0, axis, r):
            good = alike(points, table, head, axis, size, on, extents, tiles, whole, uneven, main, r)
        if not good:
            points[column, r] = 0


@lean
def led(points: Any, table: Any, column: int, extents: Any, whole: Any, uneven: Any, main: int, tiles: Any, outer: Any) -> None:
    """The first part's tiles where it has its own: as the others' along the other axes; as for ``leading`` and ``tiled``."""
    for r in range(points.shape[1]):
        axis, size = table[points[column, r], 0], table[points[column, r], 1]
        if axis >= 0:
            for a in range(extents.shape[1]):
                tile = like_others(extents, tiles, whole, uneven, main, 0, a, r)
                tile = min(tile, size) if a == axis else tile
                tiles[0, a, r], outer[0, a, r] = tile, counted(extents[0, a, r], tile)


@lean
def follows(
    points: Any, table: Any, head: int, column: int, on: Any, extents: Any, tiles: Any, whole: Any, uneven: Any, main: int,
    init: Any, spatial: int,
) -> None:
    """Takes back tiles of a first part that are as the others', where nothing stands in front of several, in place.

    Args are those of ``leading``, ``init`` the loops around the initial values, shape (parts, n), of so many spatial axes.
    """
    for r in range(points.shape[1]):
        axis, size = table[points[column, r], 0], table[points[column, r], 1]
        if init[0, r] == spatial and alike(points, table, head, axis, size, on, extents, tiles, whole, uneven, main, r):
            points[column, r] = 0


@lean
def ramped(points: Any, axes: Any, columns: Any, extents: Any, tiles: Any, outer: Any) -> None:
    """The first part's pieces of a sum, no larger than the others'; axes and their columns, shape (columns,)."""
    for n in range(len(axes)):
        a = axes[n]
        for r in range(points.shape[1]):
            if points[columns[n], r] < tiles[0, a, r]:
                tiles[0, a, r] = points[columns[n], r]
                outer[0, a, r] = counted(extents[0, a, r], tiles[0, a, r])


@lean
def settled(
    points: Any, axes: Any, columns: Any, others: Any, on: Any, cut: bool, position: Any, attach: Any, keep: Any, whole: Any,
    known: Any,
) -> None:
    """A first part's pieces of a sum stand where something is loaded for them; else there are none. In place.

    Args:
        points: the rows.
        axes: the reductions, shape (columns,).
        columns: the columns of the first part's pieces, shape (columns,).
        others: those of the others'.
        on: whether a part exists, shape (parts, n).
        cut: whether there are first parts.
        position: of every axis' loop, shape (axes, n).
        attach: loops around every load, shape (operands, n).
        keep: whether an operand stays for later parts, shape (operands, n).
        whole: iterations of every axis, shape (axes,).
        known: which pieces of every axis the first part may have, shape (columns, most + 1).
    """
    for r in range(points.shape[1]):
        deepest = apart = 0
        for k in range(attach.shape[0]):
            deepest = max(deepest, attach[k, r])
            if not (cut and on[0, r] and keep[k, r]):
                apart = max(apart, attach[k, r])
        for n in range(len(axes)):
            a, place = axes[n], position[axes[n], r]
            if deepest <= place:
                points[columns[n], r] = whole[a]
            elif apart <= place and others[n] >= 0:
                # Of pieces that leave a smaller one there is no telling but as the others': the column has none.
                pieces = min(points[columns[n], r], points[others[n], r])
                if known[n, pieces]:
                    points[columns[n], r], points[others[n], r] = pieces, whole[a]


@lean
def tapered(points: Any, axes: Any, columns: Any, on: Any, main: int, extents: Any, tiles: Any, outer: Any) -> None:
    """The pieces of a sum of the last of several parts, where it has its own: not 0; as for ``ramped``."""
    for r in range(points.shape[1]):
        last = on.shape[0] - 1
        while last > main and not on[last, r]:
            last -= 1
        if last > main:
            for n in range(len(axes)):
                a, tile = axes[n], points[columns[n], r]
                if tile > 0:
                    tiles[last, a, r], outer[last, a, r] = tile, counted(extents[last, a, r], tile)
