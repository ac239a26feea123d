"""The compiled search for loops that something stands in front of, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def in_front(position: Any, outer: Any, count: Any, spatial: int, found: Any) -> None:
    """Loops around what stands in front of some loops of several tiles, counted from the innermost.

    Args:
        position: of every axis' loop, shape (axes, n).
        outer: tiles along every axis, shape (axes, n).
        count: how many loops it stands in front of, shape (n,).
        spatial: how many axes the output has; they come first.
        found: the result, shape (n,).
    """
    for r in range(len(found)):
        found[r] = depth_of(position, outer, count[r], spatial, r)


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
    on: Any, extents: Any, tiles: Any, outer: Any, position: Any, out: Any, spatial: int, given: Any, most: Any
) -> None:
    """In front of how many loops initial values stand: no more than there are, and than leave together what is stored at once.

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
        given: how many are asked for, shape (n,).
        most: the result, shape (n,).
    """
    parts, n = on.shape[0], on.shape[1]
    for r in range(n):
        most[r] = 0
        if given[r] <= 0:
            continue
        anyway = 0
        for p in range(parts):
            own = 0
            for a in range(spatial):
                own += outer[p, a, r] > 1 and position[a, r] >= out[p, r]
            anyway = max(anyway, own)
        for count in range(anyway + 1, given[r] + 1):
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
                most[r] = count
