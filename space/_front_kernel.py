"""The compiled search for loops that something stands in front of, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def in_front(points: Any, columns: Any, position: Any, outer: Any, spatial: int, most: Any, found: Any) -> None:
    """Loops around what stands in front of some loops of several tiles of a part, counted from the innermost.

    Args:
        points: rows that say in front of how many, shape (columns, n).
        columns: of every part the column that says it, -1 where it is none, -2 where nobody asks; shape (parts,).
        position: of every axis' loop, shape (axes, n).
        outer: tiles along every axis, shape (parts, axes, n).
        spatial: how many axes the output has; they come first.
        most: so many loops are around it at most, shape (parts, n).
        found: the result, shape (parts, n).
    """
    for p in range(len(columns)):
        if columns[p] > -2:
            for r in range(found.shape[1]):
                count = points[columns[p], r] if columns[p] >= 0 else 0
                found[p, r] = min(most[p, r], depth_of(position, outer[p], count, spatial, r))


@lean
def late(
    points: Any, column: int, part: int, there: bool, first: bool, on: Any, position: Any, outer: Any, spatial: int, attach: Any,
    keep: Any, outside: Any,
) -> None:
    """Behind how many loops stages stand: no more than there are, and none without a load inside: that is a tile. In place.

    Args:
        points: the rows, shape (columns, n).
        column: that says it.
        part: of which part.
        there: whether there is such a part.
        first: whether it is the one that loads what stays.
        on: whether a part exists, shape (parts, n).
        position: of every axis' loop, shape (axes, n).
        outer: tiles along every axis, shape (parts, axes, n).
        spatial: how many axes the output has; they come first.
        attach: loops around every load, shape (operands, n).
        keep: whether an operand stays for later parts, shape (operands, n).
        outside: whether a load stands no deeper than the initial values, and than the stages, shape (operands, 2).
    """
    for r in range(points.shape[1]):
        if points[column, r] == 0:
            continue
        most = 0
        if there and on[part, r]:
            for a in range(spatial):
                most += outer[part, a, r] > 1
            most = min(most, points[column, r])
        out = depth_of(position, outer[part], most, spatial, r)
        innermost, deepest = depth_of(position, outer[part], 1, spatial, r), 0
        for k in range(attach.shape[0]):
            if outside[k, 1]:
                # What stages find where the first part has left it is loaded outside.
                most = 0 if keep[k, r] and attach[k, r] > out else most
            elif not outside[k, 0] and (first or not keep[k, r]):
                deepest = max(deepest, attach[k, r])
        points[column, r] = most if deepest > innermost else 0


@lean
def leads(on: Any, position: Any, outer: Any, init: Any, spatial: int, found: Any) -> None:
    """Whether the first part that there is has several tiles, and writes all its initial values in front of these.

    Args:
        on: whether a part exists, shape (parts, n).
        position: of every axis' loop, shape (axes, n).
        outer: tiles along every axis, shape (parts, axes, n).
        init: loops around the initial values, shape (parts, n).
        spatial: how many axes the output has; they come first.
        found: the result, shape (n,).
    """
    for r in range(len(found)):
        found[r] = False
        for p in range(on.shape[0]):
            if on[p, r]:
                found[r] = leads_in(position, outer, init, spatial, p, r)
                break


@lean
def leads_in(position: Any, outer: Any, init: Any, spatial: int, p: int, r: int) -> bool:
    """Whether a part of a point ``r`` has several tiles, and writes all its initial values in front of these."""
    several = False
    for a in range(outer.shape[1]):
        several = several or (a < spatial and outer[p, a, r] > 1)
        if outer[p, a, r] != 1 and position[a, r] < init[p, r]:
            return False
    return several


@lean
def depth_of(position: Any, outer: Any, count: int, spatial: int, r: int) -> int:
    """The same of one point ``r``: the place of the ``count``-th loop of several tiles, or of the last that there is."""
    depth, left = spatial, count
    for place in range(spatial - 1, -1, -1):
        if left <= 0:
            break
        for a in range(spatial):
            if position[a, r] == place and outer[a, r] > 1:
                depth = place
                left -= 1
    return depth


@lean
def ahead(
    on: Any, extents: Any, tiles: Any, outer: Any, position: Any, out: Any, spatial: int, points: Any, column: int
) -> None:
    """In front of how many loops initial values stand, in place: no more than there are, and leave what is stored together.

    What lies together among more is whole rows of it, or a part of one. In front of loops that stages stand behind they stand in
    any case, which counts as none.

    Args:
        on: whether a part exists, shape (parts, n).
        extents: iterations of every axis, shape (parts, axes, n), like ``tiles`` and ``outer``.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        position: of every axis' loop, shape (axes, n).
        out: loops around the stages, shape (parts, n).
        spatial: how many axes the output has; they come first.
        points: rows that ask for so many, shape (columns, n).
        column: that says it.
    """
    parts, n = on.shape[0], on.shape[1]
    for r in range(n):
        given = points[column, r]
        points[column, r] = 0
        anyway = 0
        for p in range(parts):
            own = 0
            for a in range(spatial):
                own += outer[p, a, r] > 1 and position[a, r] >= out[p, r]
            anyway = max(anyway, own)
        for count in range(anyway + 1, given + 1):
            more, together = False, True
            for p in range(parts):
                if not on[p, r]:
                    continue
                several = 0
                for a in range(spatial):
                    several += outer[p, a, r] > 1
                more = more or several >= count
                depth = min(depth_of(position, outer[p], count, spatial, r), out[p, r])
                outside = True
                for a in range(spatial):
                    stored = extents[p, a, r] if position[a, r] >= out[p, r] else tiles[p, a, r]
                    held = extents[p, a, r] if position[a, r] >= depth else tiles[p, a, r]
                    # What is outside of an axis that is held in part must be a single index.
                    together = together and (outside or stored == held)
                    outside = outside and stored == 1
            if more and together:
                points[column, r] = count
