"""The compiled count of matrix products: how many instructions each visit of a nest takes at the worst, point by point."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def products(
    extents: Any, tiles: Any, outer: Any, position: Any, depth: Any, drops: Any, taps: Any, reduce: Any, spatial: int,
    capacity: int, apart: bool, listed: bool, room: Any, found: Any,
) -> None:
    """Of every part: visits of the nest, instructions of a visit, tiles, and resets of a tile.

    Args:
        extents: iterations of every axis, shape (parts, axes, n), like ``tiles`` and ``outer``.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        position: of every axis' loop, shape (axes, n).
        depth: loops around the nest, shape (n,).
        drops: whether padding is left out, shape (n,).
        taps: axes that a border ties together, a group in a row, reductions first, filled up with -1; shape (groups, axes).
        reduce: which axes are reductions, shape (axes,).
        spatial: how many are not; they come first.
        capacity: micro-ops that the machine holds.
        apart: whether micro-ops on one accumulator must be apart.
        listed: whether a list of micro-ops for all of an accumulator's elements always fits.
        room: for figures of every axis, shape (3, axes).
        found: the result, shape (4, parts, n).
    """
    parts, axes, n = extents.shape[0], extents.shape[1], extents.shape[2]
    inner, left, held = room[0], room[1], room[2]  # ``held``: 1 where an axis must be one of the two loops, 2 where it unrolls
    for p in range(parts):
        for r in range(n):
            visits = run = work = tile = 1
            for a in range(axes):
                if position[a, r] < depth[r]:
                    visits *= outer[p, a, r]
                if a < spatial:
                    run *= outer[p, a, r]
                    tile *= tiles[p, a, r]
                inner[a] = extents[p, a, r] if position[a, r] >= depth[r] else tiles[p, a, r]
                work *= inner[a]
                held[a] = 0
            forced = 0
            if drops[r]:
                # Of the loops that a border ties together all but the longest unroll; that one must be a loop of the instruction.
                # Of equal ones it is the first here, a reduction: it is the one that may have to unroll as well.
                for g in range(taps.shape[0]):
                    longest = taps[g, 0]
                    for i in range(axes):
                        if taps[g, i] >= 0:
                            held[taps[g, i]] = 2
                            if inner[taps[g, i]] > inner[longest]:
                                longest = taps[g, i]
                    held[longest] = 1
                    forced += 1
            unrolled = worst = whole = summed = placed = 1
            for a in range(axes):
                left[a] = 1 if held[a] == 2 else inner[a]
                whole *= left[a]
                if held[a] == 2:
                    unrolled *= inner[a]
                if held[a] > 0 or reduce[a]:
                    worst *= inner[a]
                if reduce[a]:
                    summed *= left[a]
                if a < spatial:
                    placed *= left[a]
            # Whether two loops and a list of micro-ops surely do it: they fit, and no accumulator returns too early.
            fits = False
            for first in range(axes):
                for second in range(first, axes):
                    single = first == second
                    taken = left[first] * (1 if single else left[second])
                    # Products instead of quotients, which are dear: w // t <= c where w < (c + 1) t.
                    good = whole < (capacity + 1) * taken
                    if forced > 0:
                        good = good and (held[first] == 1) + (not single and held[second] == 1) == forced
                    if good and apart and summed > 1:
                        # Micro-ops run through the accumulators first: three of them keep every return three apart.
                        own = left[first] if first < spatial else 1
                        if second < spatial and not single:
                            own *= left[second]
                        good = placed >= 3 * own
                    fits = fits or good
            pieces = unrolled
            if not fits:
                pieces = work if not listed or whole // longest_two(left, axes) > capacity else worst
            for a in range(spatial):
                inner[a] = tiles[p, a, r]
            found[0, p, r], found[1, p, r], found[2, p, r] = visits, pieces, run
            found[3, p, r] = tile if tile >= (capacity + 1) * longest_two(inner, spatial) else 1


@lean
def longest_two(figures: Any, n: int) -> int:
    """The product of the two greatest of the first ``n`` figures: what the two loops of an instruction can cover."""
    most = second = 0
    for a in range(n):
        if figures[a] > most:
            most, second = figures[a], most
        elif figures[a] > second:
            second = figures[a]
    return most * max(second, 1) if n > 0 else 1
