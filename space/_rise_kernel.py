"""The compiled first parts of two kinds of tiles, point by point.

A part's figures of an axis stand side by side, shape (parts, axes, n); so do the points' columns, shape (columns, n).
"""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh
from space import _front_kernel, _tiles_kernel
from space._front_kernel import leads_in
from space._tiles_kernel import counted

refresh(__file__, _front_kernel, _tiles_kernel)


@lean
def two(
    axis: int, number: int, kind: int, extents: Any, tiles: Any, position: Any, slices: Any, thick: Any, out: Any, spatial: int,
    main: int, r: int, room: Any,
) -> bool:
    """Whether a first part is of two kinds of tiles; if so, extents and tiles of both are in ``room``.

    Args:
        axis: that the first part is cut from.
        number: of tiles of the first kind along it.
        kind: 0 where whole tiles follow, 1 where the others' do, 2 where these stand behind whole ones.
        extents: of the parts.
        tiles: of the parts.
        position: of every axis' loop, shape (axes, n).
        slices: 0, or 1 + the axis along which stages and stores go slice by slice, shape (parts, n).
        thick: indices of it in a slice, shape (parts, n).
        out: loops around the stages, shape (parts, n).
        spatial: how many axes the output has; they come first.
        main: which part is the main one.
        r: the point.
        room: extents and tiles of the first kind, then of the second, shape (4, axes); a result.
    """
    axes = extents.shape[1]
    kept = number * tiles[0, axis, r]
    if extents[0, axis, r] <= kept:
        return False
    larger, other = False, kind != 2
    for a in range(axes):
        begins = kept if a == axis else extents[0, a, r]
        left = extents[0, a, r] - kept if a == axis else extents[0, a, r]
        fine, tile = tiles[0, a, r], tiles[main, a, r]
        if a < spatial:
            if kind == 2 and a != axis:
                fine = begins
            tile = min(tile, left) if kind != 0 else fine if a == axis else left
            if kind != 0 and tile != 0 and left % tile != 0:
                return False
        larger, other = larger or fine < tile, other or fine != tiles[0, a, r]
        room[0, a], room[1, a], room[2, a], room[3, a] = begins, fine, left, tile
    # Those behind are larger along some axis, or their sums load in larger pieces; what is whole already is that.
    if not (larger and other):
        return False
    for n in range(2):
        # Both are several, around their stages as well: values in front of a single one are that one's.
        depth = out[0, r] if n == 0 else out[main, r] if kind != 0 else spatial
        several, outside = False, True
        for a in range(spatial):
            box, tile = room[2 * n, a], room[2 * n + 1, a]
            several = several or (box > tile and position[a, r] < depth)
            # What is stored at once lies together among the values of all: whole rows of them, or a part of one.
            stored = box if position[a, r] >= depth else tile
            if not outside and stored != box:
                return False
            outside = outside and stored == 1
            # Slices are as thick as the others', and leave nothing.
            if slices[0, r] == 1 + a and stored % thick[0, r] != 0:
                return False
        if not several:
            return False
    return True


@lean
def risen(
    points: Any, columns: Any, table: Any, on: Any, extents: Any, tiles: Any, outer: Any, position: Any, slices: Any, thick: Any,
    init: Any, out: Any, keep: Any, spatial: int, main: int, tried: int, room: Any, found: Any,
) -> None:
    """Of which kind a first part of two kinds of tiles is: the one that is asked for, or one behind it.

    Args:
        points: rows that ask for it.
        columns: of the first part's cut, of the number of tiles and of the kind, shape (3,).
        table: what the values of a cut column mean: the axis, -1 without, and iterations, shape (values, 2).
        on: whether a part exists, shape (parts, n).
        extents: of the parts, as for ``two``, like what is not said here.
        tiles: of the parts.
        outer: tiles along every axis of the parts.
        position: of every axis' loop.
        slices: of the parts.
        thick: of the parts.
        init: loops around the initial values, shape (parts, n).
        out: loops around the stages.
        keep: whether an operand stays for later parts, shape (operands, n).
        spatial: how many axes the output has.
        main: which part is the main one.
        tried: how many kinds are tried.
        room: as for ``two``.
        found: the kind, -1 where there are no two, shape (n,); the result.
    """
    for r in range(len(found)):
        found[r] = -1
        axis = table[points[columns[0], r], 0]
        asked = points[columns[1], r] > 0 and on[0, r] and axis >= 0
        for k in range(keep.shape[0]):
            asked = asked and not keep[k, r]
        if asked and leads_in(position, outer, init, spatial, 0, r):
            number = points[columns[1], r]
            for more in range(tried):
                kind = (points[columns[2], r] + more) % 3
                if two(axis, number, kind, extents, tiles, position, slices, thick, out, spatial, main, r, room):
                    found[r] = kind
                    break


@lean
def split(
    points: Any, columns: Any, table: Any, kinds: Any, on: Any, extents: Any, tiles: Any, outer: Any, lows: Any, position: Any,
    slices: Any, thick: Any, init: Any, out: Any, spatial: int, main: int, room: Any,
) -> None:
    """Makes two of a first part that stands twice already, in place; as for ``risen``, ``lows`` the first indices of parts."""
    for r in range(len(kinds)):
        on[1, r] = kinds[r] >= 0
        if kinds[r] >= 0:
            axis, number = table[points[columns[0], r], 0], points[columns[1], r]
            two(axis, number, kinds[r], extents, tiles, position, slices, thick, out, spatial, main, r, room)
            lows[1, axis, r] += room[0, axis]
            init[1, r], out[1, r] = 0, spatial if kinds[r] == 0 else out[main, r]
            for n in range(2):
                for a in range(extents.shape[1]):
                    extents[n, a, r], tiles[n, a, r] = room[2 * n, a], room[2 * n + 1, a]
                    outer[n, a, r] = counted(room[2 * n, a], room[2 * n + 1, a])
