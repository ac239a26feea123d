"""The compiled count of instructions: how many a program takes at the worst, point by point and part by part."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh
from space import _loads_kernel
from space._loads_kernel import in_order

refresh(__file__, _loads_kernel)


@lean
def products(
    on: Any, extents: Any, tiles: Any, outer: Any, short: Any, position: Any, depth: Any, drops: Any, taps: Any, reduce: Any,
    spatial: int, capacity: int, apart: bool, listed: bool, room: Any, found: Any,
) -> None:
    """Of every part: visits of the nest, instructions of a visit, tiles, and resets of a tile.

    Args:
        on: whether a part exists, shape (parts, n); of others nothing is counted.
        extents: iterations of every axis, shape (parts, axes, n), like the following three.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        short: by how many iterations the last one is smaller.
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
            if not on[p, r]:
                continue
            visits = run = tile = 1
            smaller = 0  # along how many axes the last tile is
            for a in range(axes):
                if position[a, r] < depth[r]:
                    visits *= outer[p, a, r]
                    smaller += short[p, a, r] > 0
                if a < spatial:
                    run *= outer[p, a, r]
                    tile *= tiles[p, a, r]
            # A smaller tile, along whichever of these axes, may take more instructions: its accumulators return earlier.
            most = 0
            for ends in range(1 << smaller):
                work, bit = 1, 0
                for a in range(axes):
                    inner[a] = extents[p, a, r] if position[a, r] >= depth[r] else tiles[p, a, r]
                    if position[a, r] < depth[r] and short[p, a, r] > 0:
                        inner[a] -= short[p, a, r] * (ends >> bit & 1)
                        bit += 1
                    work *= inner[a]
                    held[a] = 0
                forced = 0
                if drops[r]:
                    # Of the loops that a border ties together all but the longest unroll; that one must be a loop of the
                    # instruction. Of equal ones it is the first here, a reduction: it is the one that may have to unroll as well.
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
                    if fits:
                        break
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
                        if good:
                            fits = True
                            break
                pieces = unrolled
                if not fits:
                    first, second = two_longest(left, axes)
                    pieces = work if not listed or whole // (first * second) > capacity else worst
                most = max(most, pieces)
            for a in range(spatial):
                inner[a] = tiles[p, a, r]
            found[0, p, r], found[1, p, r], found[2, p, r] = visits, most, run
            first, second = two_longest(inner, spatial)
            found[3, p, r] = tile if tile >= (capacity + 1) * first * second else 1


@lean
def dmas(
    region: Any, fills: Any, short: Any, around: Any, position: Any, attach: Any, keep: Any, drops: Any, wide: Any, dims: Any,
    movers: Any, sizes: Any, order: Any, found: Any,
) -> None:
    """DMAs of every part, all fills of all operands.

    Args:
        region: what a fill brings, without padding that is left out, shape (operands, parts, dims, n).
        fills: how often it is loaded, shape (operands, parts, n).
        short: iterations by which the last tile along an axis is smaller, shape (parts, axes, n).
        around: which axes' loops, of several iterations, the first part has, shape (axes, n); only what stays on chip asks.
        position: of every axis' loop, shape (axes, n).
        attach: loops around the load that stays, shape (operands, n).
        keep: whether the operand stays for later parts, shape (operands, n).
        drops: whether padding is left out, shape (n,).
        wide: whether the operand has more padding along some dimension than a DMA makes, shape (operands,).
        dims: of all operands, how many dimensions each has, and whether a block pads it; shape (operands, 2).
        movers: as ``_loads_kernel.loads`` takes them, like the next two.
        sizes: of every dimension.
        order: room for the dimensions in the order on chip, shape (dims,).
        found: the result, shape (parts, n).
    """
    operands, parts, n = fills.shape[0], fills.shape[1], fills.shape[2]
    for p in range(parts):
        for r in range(n):
            found[p, r] = 0
            for k in range(operands):
                if fills[k, p, r] == 0:
                    continue
                n_dims, made = dims[k, 0], dims[k, 1] != 0
                # Where padding is left out, a border cuts rows off; where it is loaded, more than a DMA makes is made apart.
                cut = made and (drops[r] or wide[k])
                total = 1
                for d in range(n_dims):
                    total *= region[k, p, d, r]
                last = innermost(sizes[k, :, 2], n_dims)
                covered = region[k, p, last, r]
                if keep[k, r]:
                    # A piece of what stays lies among the others: only the innermost dimension there is surely one run, here or
                    # there.
                    in_order(k, n_dims, made, attach[k, r], around, position, movers, r, order)
                    place = n_dims - 1
                    while place > 0 and sizes[k, order[place], 1] <= 1:
                        place -= 1
                    covered = region[k, p, order[max(place, 0)], r]
                elif not cut:
                    # What the last tile brings lies in a place for a whole one: nothing joins across a dimension that is shorter.
                    gap = -1
                    for d in range(n_dims):
                        for m in range(movers.shape[2]):
                            a = movers[k, d, m, 0]
                            if a >= 0 and short[p, a, r] > 0 and position[a, r] < attach[k, r]:
                                gap = d
                    covered *= rows(region[k, p, :, r], last, gap)
                found[p, r] += fills[k, p, r] * ((5 if cut and wide[k] else 1) * total // covered)


@lean
def elementwise(
    on: Any, extents: Any, tiles: Any, outer: Any, short: Any, position: Any, slices: Any, thick: Any, out: Any, whole: Any,
    spatial: int, capacity: int, room: Any, found: Any,
) -> None:
    """Of every part: instructions of every element-wise operation, and STOREs of what is stored; the result, shape (2, parts, n).

    Args:
        on: whether a part exists, shape (parts, n); of others nothing is counted.
        extents: iterations of every axis, shape (parts, axes, n), like the following three.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        short: by how many iterations the last one is smaller.
        position: of every axis' loop, shape (axes, n).
        slices: 0, or 1 + the axis along which stages and stores go slice by slice, shape (parts, n).
        thick: indices of it in a slice, shape (parts, n).
        out: loops around the stages, shape (parts, n).
        whole: extents of all axes, shape (axes,).
        spatial: how many axes the output has; they come first.
        capacity: micro-ops that the machine holds.
        room: for figures of every axis, shape (2, axes).
        found: the result.
    """
    parts, n = out.shape[0], out.shape[1]
    inner, stored = room[0], room[1]
    for p in range(parts):
        for r in range(n):
            if not on[p, r]:
                continue
            tile = elements = run = outs = 1
            for a in range(spatial):
                inner[a] = tiles[p, a, r]
                stored[a] = extents[p, a, r] if position[a, r] >= out[p, r] else tiles[p, a, r]
                tile *= inner[a]
                elements *= stored[a]
                run *= outer[p, a, r]
                if position[a, r] < out[p, r]:
                    outs *= outer[p, a, r]
            axis = slices[p, r] - 1
            first, second = two_longest(inner, spatial)
            large = tile >= (capacity + 1) * first * second
            # What is done for several tiles at once takes no more than for each of them, but where it does not fit.
            first, second = two_longest(stored, spatial)
            large = large or elements >= (capacity + 1) * first * second
            found[0, p, r] = run * (tile if large else -(-stored[axis] // thick[p, r]) if axis >= 0 else 1)
            if axis < 0 and spatial > 0:
                # Two dimensions of a slice each; a slice across the innermost one is stored element by element.
                last, gap = innermost(whole, spatial), -1
                for a in range(spatial):
                    if position[a, r] < out[p, r] and short[p, a, r] > 0:
                        gap = a
                elements //= stored[last] * rows(stored, last, gap)
            found[1, p, r] = outs * elements


@lean
def innermost(sizes: Any, n: int) -> int:
    """The innermost of ``n`` dimensions that has more than one index; where none has, the first."""
    last = max(n - 1, 0)
    while last > 0 and sizes[last] <= 1:
        last -= 1
    return last


@lean
def rows(extents: Any, last: int, gap: int) -> int:
    """Indices of a box along the next dimension outside of ``last`` that has several, none outside of ``gap``: rows of a DMA."""
    for d in range(last - 1, max(gap, 0) - 1, -1):
        if extents[d] != 1:
            found: int = extents[d]
            return found
    return 1


@lean
def two_longest(figures: Any, n: int) -> tuple[int, int]:
    """The two greatest of the first ``n`` figures, or 1: what the two loops of an instruction can cover."""
    first = second = 1
    for a in range(n):
        if figures[a] > first:
            first, second = figures[a], first
        elif figures[a] > second:
            second = figures[a]
    return first, second
