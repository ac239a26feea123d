"""The compiled arithmetic of the draft that goes from part to part, or from axis to axis: what lies side by side, and stores."""

from __future__ import annotations

from typing import Any

from sim._kernels import ZERO, lean, refresh
from space import _length_kernel, _loads_kernel
from space._length_kernel import two_longest
from space._loads_kernel import merged

refresh(__file__, _length_kernel, _loads_kernel)


@lean
def side_by_side(
    on: Any, tile: Any, single: Any, copies: Any, halos: Any, footprint: Any, fills: Any, banks: Any, shared: Any, scope: Any,
    depths: Any, acc: int, room: Any, found: Any,
) -> None:
    """Per part, whether there is room beside what the part before used last: 2 for all copies of its buffers, 1 for the first.

    Of the accumulator -1 where there is none for a single tile.

    Args:
        on: whether a part exists, shape (parts, n).
        tile: accumulator elements of an output tile, or of several that get their initial values together, shape (parts, n).
        single: those of one tile, shape (parts, n).
        copies: of it, shape (parts, n).
        halos: elements that a tile makes with a border around it, shape (parts, n).
        footprint: elements of a bank of every operand, shape (operands, parts, n).
        fills: how often it is loaded, shape (operands, parts, n).
        banks: its further banks, shape (operands, n).
        shared: whether one load serves all parts, shape (operands, n).
        scope: the number of its memory, shape (operands,).
        depths: elements of every memory, shape (memories,).
        acc: the number of the accumulator.
        room: for figures of every memory, shape (4, memories).
        found: of what the load engine fills, and of the accumulator; the result, shape (2, parts, n).
    """
    parts, n = on.shape[0], on.shape[1]
    memories, operands = depths.shape[0], scope.shape[0]
    before, once, more, stays = room[0], room[1], room[2], room[3]  # ``more``: of the copies after the first
    for r in range(n):
        for s in range(memories):
            before[s] = 0
        for p in range(parts):
            for s in range(memories):
                once[s] = more[s] = stays[s] = 0
            once[acc] = tile[p, r] + halos[p, r]
            more[acc] = tile[p, r] * (copies[p, r] - 1)
            for k in range(operands):
                s, need = scope[k], footprint[k, p, r]
                if shared[k, r]:
                    stays[s] += need
                else:
                    once[s] += need
                    more[s] += need * (min(1 + banks[k, r], max(fills[k, p, r], 1)) - 1)
            least = 2
            for s in range(memories):
                left = depths[s] - before[s] - stays[s] - once[s]
                each = (1 if left >= 0 else 0) + (1 if left >= more[s] else 0)
                if s == acc:
                    found[1, p, r] = each if left + tile[p, r] >= single[p, r] else -1
                else:
                    least = min(least, each)
            found[0, p, r] = least
            if on[p, r]:
                for s in range(memories):
                    before[s] = once[s]


@lean
def stores(tiles: Any, extents: Any, slices: Any, thick: Any, sliced: bool, spatial: int, found: Any) -> None:
    """Of every part: elements of a tile that lie in a row of the output, and STOREs of a slice.

    Slices follow each other along one axis of a tile; a STORE covers two dimensions of what lies together on chip.

    Args:
        tiles: iterations inside a tile, shape (parts, axes, n).
        extents: of all axes, shape (axes,).
        slices: 0, or 1 + the axis that is sliced, shape (parts, n).
        thick: indices of it in a slice, shape (parts, n).
        sliced: whether rows end with the slice.
        spatial: how many axes the output has; they come first.
        found: the result, shape (2, parts, n).
    """
    parts, n = tiles.shape[0], tiles.shape[2]
    for p in range(parts):
        for r in range(n):
            axis = slices[p, r] - 1
            row = times = each = 1
            full = inner = True
            segments = 0
            for d in range(spatial - 1, -1, -1):
                held = min(thick[p, r], tiles[p, d, r]) if d == axis else tiles[p, d, r]
                size = held if sliced else tiles[p, d, r]
                if full:
                    row *= size
                full = full and size == extents[d]
                if d < axis:
                    times *= tiles[p, d, r]
                size = held if d >= axis else 1
                inner, segments, pieces = merged(size, size == extents[d], inner, segments)
                each *= pieces
            found[0, p, r], found[1, p, r] = row, times * each


@lean
def uops(
    extents: Any, tiles: Any, outer: Any, lows: Any, position: Any, depth: Any, init: Any, attach: Any, keep: Any,
    banks: Any, acc_banks: Any, drops: Any, uses: Any, tied: Any, borders: Any, halves: Any, whole: Any, spatial: int,
    apart: bool, capacity: int, moved: Any, inner: Any, terms: Any, found: Any,
) -> None:
    """Micro-ops that every part loads: a list for every combination of addresses that its operands take at the instruction.

    Two loops of an instruction are its own; rows that no border cuts are one loop with what is in them. Where micro-ops on one
    accumulator must be apart, a loop that a border cuts is one of the two, whatever the others are.

    Args:
        extents: iterations of every axis, shape (parts, axes, n), like the following three.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        lows: its first index.
        position: of every axis' loop, shape (axes, n).
        depth: loops around the instruction, shape (n,).
        init: loops around the initial values, shape (parts, n).
        attach: loops around the load of every operand that it reads, shape (operands, n).
        keep: whether the operand stays for later parts, shape (operands, n).
        banks: its further banks, shape (operands, n).
        acc_banks: of the accumulator, shape (n,).
        drops: whether padding is left out, shape (n,).
        uses: which axes move the operand, shape (operands, axes).
        tied: which reduction axes a border ties to others, shape (axes,).
        borders: up to two spatial axes that borders cut, shape (borders,).
        halves: of each, half of the share of the taps along it that meet a border, shape (borders,).
        whole: extents of all axes, shape (axes,).
        spatial: how many axes the output has; they come first.
        apart: whether micro-ops on one accumulator must be apart.
        capacity: micro-ops that the machine holds.
        moved: room for a flag of every axis, shape (axes,).
        inner: room for a figure of every axis, shape (2, axes).
        terms: room for shares and counts, with a cut and without, of every border; shape (borders, 4).
        found: the result, shape (parts, n).
    """
    parts, axes, n = extents.shape[0], extents.shape[1], extents.shape[2]
    n_borders = borders.shape[0]
    for p in range(parts):
        for r in range(n):
            tiles_run = visits = 1
            for a in range(axes):
                if a < spatial:
                    tiles_run *= outer[p, a, r]
                if position[a, r] < depth[r]:
                    visits *= outer[p, a, r]
                moved[a] = tied[a] and drops[r] and position[a, r] < depth[r]
                # An accumulator that has its initial value since before the loop is another in each of its iterations.
                moved[a] = moved[a] or (a < spatial and init[p, r] <= position[a, r] < depth[r])
            most, alone = 0, False
            for k in range(attach.shape[0]):
                most = max(most, banks[k, r])
                if banks[k, r] > 0 and not alone:
                    times = 1
                    for a in range(axes):
                        if position[a, r] < attach[k, r]:
                            times *= outer[p, a, r]
                    alone = times > tiles_run
                # What is filled outside a loop is read at another place in each of its iterations.
                since = 0 if keep[k, r] else attach[k, r]
                for a in range(axes):
                    moved[a] = moved[a] or (uses[k, a] and since <= position[a, r] < depth[r])
            # Banks that all move on with the tile take turns together.
            combinations = (1 + most) * (1 + acc_banks[r]) if alone else 1 + max(most, acc_banks[r])
            work = 1
            for a in range(axes):
                if moved[a]:
                    combinations *= outer[p, a, r]
                size = extents[p, a, r] if position[a, r] >= depth[r] else tiles[p, a, r]
                inner[0, a] = size
                work *= size
            first, second = two_longest(inner[0], axes)
            for b in range(n_borders):
                a = borders[b]
                ends = (lows[p, a, r] == 0) + (lows[p, a, r] + extents[p, a, r] == whole[a])
                # Of the taps along an axis all but one meet a border, half of them each of the two.
                cut = ends / 2 * halves[b] if drops[r] else 0.0
                around = max(outer[p, a, r], 1)
                terms[b, 0], terms[b, 1] = cut / around, 1 - cut / around
                kinds = min(around, 1 + ends) if drops[r] and not moved[a] else 1
                cut = cut / around if moved[a] else cut
                terms[b, 2], terms[b, 3] = cut, kinds - cut
            each = every = 0.0
            for chosen in range(1 << n_borders):
                share = count = 1.0
                cuts = ZERO
                for b in range(n_borders):
                    plain = chosen >> (n_borders - 1 - b) & 1
                    cuts += 1 - plain
                    share *= terms[b, plain]
                    count *= terms[b, 2 + plain]
                loops = first * second
                if apart:
                    loops = tied_loops(inner, axes, borders, chosen, n_borders, cuts)
                elif n_borders == 2 and chosen & 1 == 1:
                    y, x = borders[0], borders[1]
                    rest = 0
                    for a in range(axes):
                        if a not in (y, x):
                            rest = max(rest, inner[0, a])
                    if inner[0, x] == whole[x]:
                        loops = max(loops, inner[0, y] * inner[0, x] * rest)
                each += work / loops * share
                every += work / loops * count
            distinct = min(every * combinations, each * max(visits, 1))
            found[p, r] = each * max(visits, 1) if distinct > capacity else distinct


@lean
def tied_loops(inner: Any, axes: int, borders: Any, chosen: int, n_borders: int, cuts: int) -> int:
    """Iterations of the loops of an instruction, of which those that a border cuts are some.

    Args:
        inner: iterations of every axis in the first row, shape (2, axes).
        axes: how many there are.
        borders: axes that borders cut.
        chosen: which of them do so here, a 0 for each that does, the last in the last bit.
        n_borders: how many there are.
        cuts: how many do so here.
    """
    loops = 1
    for a in range(axes):
        inner[1, a] = inner[0, a]
    for b in range(n_borders):
        if chosen >> (n_borders - 1 - b) & 1 == 0:
            loops *= inner[0, borders[b]]
            inner[1, borders[b]] = 1
    first, second = two_longest(inner[1], axes)
    return loops * (first * second if cuts == 0 else first if cuts == 1 else 1)
