"""The compiled search for the loops that loads stand in, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh
from space import _loads_kernel
from space._loads_kernel import loops_around

refresh(__file__, _loads_kernel)


@lean
def inward(outer: Any, on: Any, position: Any, uses: Any, main: int, most: Any, points: Any, columns: Any) -> None:
    """Loads at the nearest depth, outwards, directly inside a loop of several iterations that moves what they bring; in place.

    Args:
        outer: tiles along every axis, shape (parts, axes, n).
        on: whether a part exists, shape (parts, n); the main one counts in any case.
        position: of every axis' loop, shape (axes, n).
        uses: which axes move the region of which operand, shape (operands, axes).
        main: which part is the main one.
        most: loops around every load at most, shape (operands,).
        points: rows that say how many loops are around it, shape (columns, n); 0 outside of all.
        columns: of every operand the column that says it, shape (operands,).
    """
    for k in range(len(columns)):
        for r in range(points.shape[1]):
            depth, given = 0, min(points[columns[k], r], most[k])
            for a in range(outer.shape[1]):
                if uses[k, a] and depth <= position[a, r] < given:
                    # The first and the last part may load in finer pieces, inside loops that the others do not have.
                    several = outer[main, a, r] > 1
                    for p in range(outer.shape[0]):
                        several = several or (on[p, r] and outer[p, a, r] > 1)
                    if several:
                        depth = position[a, r] + 1
            points[columns[k], r] = depth


@lean
def outward(
    outer: Any, on: Any, position: Any, attach: Any, outside: Any, init: Any, out: Any, uses: Any, which: Any,
    points: Any, columns: Any,
) -> None:
    """Loads of what initial values or stages read, outside of the loops that these stand in front of, or behind; in place.

    Args:
        outer: as ``_loads_kernel.fills`` takes it, like the six that follow.
        on: in which rows a part exists.
        position: of every axis' loop.
        attach: loops around every load.
        outside: whether a load stands no deeper than the initial values, and than the stages.
        init: loops around the initial values.
        out: loops around the stages.
        uses: which axes move the region of which operand, shape (operands, axes).
        which: the operands that are asked about.
        points: rows that say how many loops are around these operands' loads, shape (columns, n).
        columns: of each of them the column that says it, shape (asked about,).
    """
    parts, axes = outer.shape[0], outer.shape[1]
    for r in range(points.shape[1]):
        for n in range(len(which)):
            given = points[columns[n], r]
            if given <= 0:
                points[columns[n], r] = 0
                continue
            k = which[n]
            deepest = there = 0
            for p in range(parts):
                if on[p, r]:
                    there += 1
                    deepest = max(deepest, loops_around(attach, outside, init, out, k, p, r))
            deepest = min(deepest, given)
            depth, first = 0, axes + 1
            for a in range(axes):
                several = False
                for p in range(parts):
                    several = several or (on[p, r] and outer[p, a, r] > 1)
                if several and uses[k, a]:
                    first = min(first, position[a, r] + 1)
                    if position[a, r] < deepest:
                        depth = max(depth, position[a, r] + 1)
            # Several parts load it for themselves, if at all in front of all their loops.
            points[columns[n], r] = min(first, given) if depth == 0 and there > 1 else depth


@lean
def stays(
    points: Any, column: int, k: int, on: Any, extents: Any, tiles: Any, position: Any, attach: Any, uses: Any, whole: Any,
    gaps: Any, main: int,
) -> None:
    """Takes back that the first of several parts loads an operand for all, where it does not need all of it; in place.

    Args:
        points: rows that ask for it, shape (columns, n).
        column: that asks for it.
        k: the operand.
        on: whether a part exists, shape (parts, n).
        extents: iterations of every axis, shape (parts, axes, n).
        tiles: iterations inside a tile, likewise.
        position: of every axis' loop, shape (axes, n).
        attach: loops around the load, shape (n,).
        uses: which axes move the region of which operand, shape (operands, axes).
        whole: iterations of every axis of all parts together, shape (axes,).
        gaps: by how much axes move each dimension that pieces may leave holes in, shape (dims, axes).
        main: which part is the main one.
    """
    axes = len(whole)
    for r in range(points.shape[1]):
        if points[column, r] == 0:
            continue
        several = False
        for p in range(on.shape[0]):
            several = several or (p != main and on[p, r])
        # Only where it loads inside of loops, and leaves no holes between what it loads: a stride over more than a piece would.
        good, first = several and attach[r] > 0, 0 if on[0, r] else main
        for a in range(axes):
            good = good and (not uses[k, a] or extents[first, a, r] == whole[a])
        for d in range(gaps.shape[0]):
            span = 1
            for a in range(axes):
                piece = whole[a] if position[a, r] >= attach[r] else tiles[first, a, r]
                span += (piece - 1) * gaps[d, a]
            for a in range(axes):
                piece = whole[a] if position[a, r] >= attach[r] else tiles[first, a, r]
                good = good and not (piece < whole[a] and gaps[d, a] > 0 and piece * gaps[d, a] > span)
        if not good:
            points[column, r] = 0
