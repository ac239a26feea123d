"""The compiled slices of tiles: how thick they may be, point by point and part by part."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def slices(
    on: Any, extents: Any, tiles: Any, main: int, spatial: int, leave: bool, points: Any, columns: Any, axes: Any, thick: Any
) -> None:
    """The slices of every part: 0, or 1 + the axis along which a tile has several, and their thickness.

    Args:
        on: whether a part exists, shape (parts, n).
        extents: iterations of every axis, shape (parts, axes, n).
        tiles: iterations inside a tile, shape (parts, axes, n).
        main: which part is the main one.
        spatial: how many axes the output has; they come first.
        leave: whether slices of a part that is a single tile need not divide it.
        points: rows that ask for them, shape (columns, n).
        columns: of axis and thickness, of all parts and of the last of several, -1 where there is none; shape (4,).
        axes: the result, shape (parts, n).
        thick: the result, shape (parts, n).
    """
    parts, n = on.shape[0], on.shape[1]
    for r in range(n):
        end = last_of_several(on, main, r)
        for p in range(parts):
            asked = 2 if p == end else 0
            axis, most = wanted(points, columns, asked, r)
            least = thickest(extents, tiles, p, r, spatial, leave, axis, most)
            several = axis > 0 and tiles[p, axis - 1, r] > least
            axes[p, r], thick[p, r] = axis if several else 0, least if several else 1


@lean
def wanted(points: Any, columns: Any, asked: int, r: int) -> tuple[int, int]:
    """The axis and the thickness that a point ``r`` asks for."""
    axis = points[columns[asked], r] if columns[asked] >= 0 else 0
    return axis, points[columns[asked + 1], r] if columns[asked + 1] >= 0 else 1


@lean
def sliced(on: Any, extents: Any, tiles: Any, main: int, spatial: int, leave: bool, points: Any, columns: Any) -> None:
    """What is asked for as far as it is done, in place: of all parts in the main one; arguments as for ``slices``."""
    for r in range(on.shape[1]):
        end = last_of_several(on, main, r)
        for asked in (0, 2):
            p = end if asked else main
            (axis, most), thick, several = wanted(points, columns, asked, r), 1, False
            if p >= 0:
                thick = thickest(extents, tiles, p, r, spatial, leave, axis, most)
                several = axis > 0 and tiles[p, axis - 1, r] > thick
            if columns[asked] >= 0:
                points[columns[asked], r] = axis if several else 0
            if columns[asked + 1] >= 0:
                points[columns[asked + 1], r] = thick if several else 1


@lean
def last_of_several(on: Any, main: int, r: int) -> int:
    """Which part of a point ``r`` is the last, where it is behind the main one; else -1."""
    for p in range(on.shape[0] - 1, main, -1):
        if on[p, r]:
            return p
    return -1


@lean
def thickest(
    extents: Any, tiles: Any, p: int, r: int, spatial: int, leave: bool, axis: int, most: int
) -> int:
    """The thickest slices of a part's tile along an axis (1 + its number) that are no thicker than ``most``."""
    if most <= 1:
        return most
    alone = leave
    for a in range(spatial):
        alone = alone and extents[p, a, r] == tiles[p, a, r]
    if alone:
        return most
    tile, thick = tiles[p, axis - 1, r] if axis > 0 else 1, most
    while tile % thick != 0:
        thick -= 1
    return thick
