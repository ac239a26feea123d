"""The compiled arithmetic of the draft that goes from part to part, or from axis to axis: what lies side by side, and stores."""

from __future__ import annotations

from typing import Any

from autosched.lower.compute import HAZARD_DISTANCE
from sim._kernels import lean, refresh
from space import _length_kernel, _loads_kernel
from space._length_kernel import two_longest
from space._loads_kernel import merged

refresh(__file__, _length_kernel, _loads_kernel)


@lean
def side_by_side(
    on: Any, tile: Any, single: Any, stored: Any, copies: Any, halos: Any, footprint: Any, fills: Any, banks: Any, shared: Any,
    scope: Any, depths: Any, acc: int, room: Any, found: Any,
) -> None:
    """Per part, whether there is room beside what the part before used last: 2 for all copies of its buffers, 1 for the first.

    Of the accumulator -1 where there is none for a single tile.

    Args:
        on: whether a part exists, shape (parts, n).
        tile: accumulator elements of an output tile, or of several that get their initial values together, shape (parts, n).
        single: those of one tile, shape (parts, n).
        stored: those that are stored together, of which only the last are used last, shape (parts, n).
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
                before[acc] -= max(tile[p, r] - stored[p, r], 0)


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
    on: Any, extents: Any, tiles: Any, outer: Any, short: Any, lows: Any, position: Any, depth: Any, init: Any, attach: Any,
    keep: Any, banks: Any, acc_banks: Any, drops: Any, uses: Any, tied: Any, borders: Any, taps: Any, along: Any, met: Any,
    sizes: Any, useful: Any, whole: Any, spatial: int, apart: bool, joined: bool, even: Any, capacity: int, listed: int,
    worth: float, moved: Any, inner: Any, terms: Any, found: Any,
) -> None:
    """Micro-ops that every part loads, and the sets of taps that are an instruction each.

    A list for every combination of addresses that its operands take at the instruction. Two loops of an instruction are its own;
    rows that no border cuts are one loop with what is in them. Where micro-ops on one accumulator must be apart, a loop that a
    border cuts, or that is shorter in the last tile, is one of the two there, whatever the others are. Elsewhere one that is cut
    may be written out in the list of a tile at the border instead, with all taps, where that takes fewer cycles.

    Args:
        on: whether a part exists, shape (parts, n).
        extents: iterations of every axis, shape (parts, axes, n), like the following two.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        short: by how many iterations the last one is smaller and ends by a condition, shape (parts, axes, n).
        lows: its first index, shape (parts, axes, n).
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
        taps: of each, the reduction axis along it, shape (borders,).
        sizes: of how many lengths a border leaves its loop, on average over all visits, shape (borders, parts, n).
        useful: the share of products that the padding along it does not make zero, shape (borders, parts, n).
        whole: extents of all axes, shape (axes,).
        spatial: how many axes the output has; they come first.
        apart: whether micro-ops on one accumulator must be apart.
        joined: whether a row that no border cuts goes on in the next one.
        even: which axes an instruction's loop may go over where padding is left out, shape (axes,).
        capacity: micro-ops that the machine holds.
        listed: micro-ops that lists may have for fewer instructions.
        worth: micro-ops that load in the cycles of an instruction.
        moved: room for a flag of every axis, shape (axes,).
        inner: room for a figure of every axis, shape (2, axes).
        terms: room, per border: the share of tiles that it cuts, how many kinds of such tiles there are and of others, the share
            of taps that it cuts in such a tile, of how many lengths on average, and the share of products that such a tile has;
            shape (borders, 6).
        found: the result, shape (2, parts, n); where a part is not, as it is.
    """
    parts, axes, n = extents.shape[0], extents.shape[1], extents.shape[2]
    n_borders = borders.shape[0]
    for p in range(parts):
        for r in range(n):
            if not on[p, r]:
                continue
            tiles_run = visits = 1
            for a in range(axes):
                if a < spatial:
                    tiles_run *= outer[p, a, r]
                if position[a, r] < depth[r]:
                    visits *= outer[p, a, r]
                moved[a] = tied[a] and drops[r] and position[a, r] < depth[r]
                # An accumulator that has its initial value since before the loop is another in each of its iterations.
                moved[a] = moved[a] or (a < spatial and init[p, r] <= position[a, r] < depth[r])
            for k in range(attach.shape[0]):
                # What is filled outside a loop is read at another place in each of its iterations.
                since = 0 if keep[k, r] else attach[k, r]
                for a in range(axes):
                    moved[a] = moved[a] or (uses[k, a] and since <= position[a, r] < depth[r])
            # Banks that all move on with the tile take turns together, and so do those that move on within one. In the iterations
            # of a loop whose places count anyway a bank is the same if it is its turn again after as many.
            turns, within = 1 + acc_banks[r], 1
            for k in range(attach.shape[0]):
                fills = times = 1
                for a in range(axes):
                    if position[a, r] < attach[k, r]:
                        fills *= outer[p, a, r]
                        times *= outer[p, a, r] if moved[a] else 1
                own = 1 + banks[k, r]
                own //= common(own, times)
                if fills > tiles_run:
                    within *= own // common(within, own)
                else:
                    turns *= own // common(turns, own)
            combinations = turns * within
            smaller = 0  # a bit for every axis along which the last tile is
            for a in range(axes):
                if moved[a]:
                    combinations *= outer[p, a, r]
                if apart and a < spatial and short[p, a, r] > 0 and position[a, r] < depth[r]:
                    smaller |= 1 << a
            # Lowering has this much room for every kind of tile, and where loads stand between taps, for every tap.
            room = listed
            for b in range(n_borders):
                room *= outer[p, taps[b], r] if position[taps[b], r] < depth[r] else 1
            each = every = pieces = 0.0
            last = smaller  # of these, the axes along which it is the last tile's turn
            going = True
            while going:
                work, all_share, all_count = 1, 1.0, 1.0
                for a in range(axes):
                    size = extents[p, a, r] if position[a, r] >= depth[r] else tiles[p, a, r]
                    if smaller >> a & 1:
                        own_share = 1 / outer[p, a, r]
                        if last >> a & 1:
                            size -= short[p, a, r]
                        else:
                            own_share = 1 - own_share
                        all_share *= own_share
                        all_count *= own_share if moved[a] else 1.0
                    inner[0, a] = size if even[a] or not drops[r] else 1
                    work *= size
                for b in range(n_borders):
                    a = borders[b]
                    first_end = met[b, 0] and lows[p, a, r] == 0
                    last_end = met[b, 1] and lows[p, a, r] + extents[p, a, r] == whole[a]
                    ends = (1 if first_end else 0) + (1 if last_end else 0)
                    around = max(outer[p, a, r], 1) if position[a, r] < depth[r] else 1
                    tiles_cut = min(ends, around) if drops[r] else 0
                    share = tiles_cut / around
                    here, tiles_here = tiles_cut, around  # of the tiles along it that are meant
                    if smaller >> a & 1:
                        here, tiles_here = (int(last_end), 1) if last >> a & 1 else (int(first_end), around - 1)
                        here = here if drops[r] else 0
                    kinds = min(tiles_here, 1 + here) if drops[r] and not moved[a] else 1
                    several = here / tiles_here if moved[a] else min(here, kinds)
                    terms[b, 0], terms[b, 1], terms[b, 2] = here / tiles_here, several, kinds - several
                    # Of the taps along an axis all but one meet a border, half of them each of the two.
                    terms[b, 3] = ends / 2 * (1 - 1 / whole[taps[b]]) / max(tiles_cut, 1)
                    if apart:
                        # All taps of a visit, and all phases, have the same loops there: if any meets a border, all do.
                        for t in range(axes):
                            if along[b, t]:
                                terms[b, 3] *= extents[p, t, r] if position[t, r] >= depth[r] else tiles[p, t, r]
                        terms[b, 3] = min(terms[b, 3], 1.0)
                    terms[b, 4] = 1 + (sizes[b, p, r] - 1) / share if tiles_cut > 0 else 1.0
                    terms[b, 5] = max(1 - (1 - useful[b, p, r]) / share, 0.0) if tiles_cut > 0 else 1.0
                for tile in range(1 << n_borders):
                    share, count = all_share, all_count
                    for b in range(n_borders):
                        cut = tile >> b & 1
                        share *= terms[b, 0] if cut else 1 - terms[b, 0]
                        count *= terms[b, 1] if cut else terms[b, 2]
                    if share <= 0:
                        continue
                    least, chosen, own = 0.0, 0.0, 0.0
                    for way in range(1 << n_borders):
                        if way & ~tile or (apart and way > 0):
                            continue
                        long = lists(inner, axes, borders, taps, tile, way, last, terms, work, apart, joined, whole)
                        several = 1.0
                        for b in range(n_borders):
                            several *= terms[b, 4] if (tile & ~way) >> b & 1 else 1.0
                        all_lists = min(long * count * combinations, long * share * max(visits, 1))
                        cost = all_lists + worth * share * visits * several
                        if way == 0 or (cost < least and long * min(combinations, max(visits, 1)) <= room):
                            least, chosen, own = cost, long, several
                    if apart:
                        single = close(inner, axes, spatial, borders, taps, along, tile, last, terms)
                        more = beyond(inner, axes, borders, tile, last)
                        own, chosen = max(own, single) * more, max(chosen, single * more)
                    each += chosen * share
                    every += chosen * count
                    pieces += own * share
                going = last > 0
                last = (last - 1) & smaller
            distinct = min(every * combinations, each * max(visits, 1))
            # Initial values and stages have one at least in each of the places that tiles take turns in.
            found[0, p, r] = each * max(visits, 1) if distinct + 1 + acc_banks[r] > capacity else distinct
            found[1, p, r] = pieces


@lean
def lists(
    inner: Any, axes: int, borders: Any, taps: Any, tile: int, way: int, last: int, terms: Any, work: int, apart: bool,
    joined: bool, whole: Any,
) -> float:
    """Micro-ops of all instructions of a visit.

    Args:
        inner: iterations of every axis in the first row, shape (2, axes).
        axes: how many there are.
        borders: axes that borders cut.
        taps: of each, the reduction axis along it.
        tile: a bit for each of them that cuts this tile.
        way: a bit for each of them that is written out.
        last: a bit for every axis along which this is a last tile that is smaller.
        terms: as ``uops`` fills them.
        work: products of a visit.
        apart: whether micro-ops on one accumulator must be apart.
        joined: whether a row that no border cuts goes on in the next one.
        whole: extents of all axes, shape (axes,).
    """
    n_borders, found = borders.shape[0], 0.0
    first, second = two_longest(inner[0], axes)
    for met in range(1 << n_borders):
        # Which borders some taps meet: of those that cut the tile, and whose loop is not written out.
        if met & ~(tile & ~way):
            continue
        share = 1.0
        for b in range(n_borders):
            if (tile & ~way) >> b & 1:
                share *= terms[b, 3] if met >> b & 1 else 1 - terms[b, 3]
        loops = first * second
        if apart:
            loops = tied_loops(inner, axes, borders, met, last)
        elif way > 0:
            loops = other_loops(inner, axes, borders, taps, tile, way)
        elif joined and n_borders == 2 and met >> 1 & 1 == 0:
            y, x = borders[0], borders[1]
            rest = 0
            for a in range(axes):
                if a not in (y, x):
                    rest = max(rest, inner[0, a])
            if inner[0, x] == whole[x]:
                loops = max(loops, inner[0, y] * inner[0, x] * rest)
        found += work / loops * share
    return found


@lean
def close(
    inner: Any, axes: int, spatial: int, borders: Any, taps: Any, along: Any, tile: int, last: int, terms: Any
) -> float:
    """Instructions of a visit whose products are one each, since they follow each other on one accumulator; 0 if they need not.

    A loop that a border cuts, or the end of an axis, may be as short as a single iteration, so only the others keep accumulators
    apart. Of a loop that a border cuts and of its taps the longer one is the instruction's, and the other one unrolls, as all
    further axes do that move what the border pads.

    Args:
        inner: iterations of every axis in the first row, shape (2, axes).
        axes: how many there are.
        spatial: how many axes the output has; they come first.
        borders: axes that borders cut.
        taps: of each, the reduction axis along it.
        along: of each, all other axes that move what it pads, shape (borders, axes).
        tile: a bit for each of them that cuts this tile.
        last: a bit for every axis along which this is a last tile that is smaller.
        terms: as ``uops`` fills them.
    """
    placed = sums = 1
    for a in range(axes):
        if a < spatial:
            placed *= inner[0, a]
        else:
            sums *= inner[0, a]
    found = float(sums)
    for b in range(borders.shape[0]):
        if tile >> b & 1:
            own = inner[0, borders[b]]
            placed //= own
            # Of several results there is one at least in which a tap reads no padding.
            found *= terms[b, 5] * own if own < inner[0, taps[b]] else 1.0
            for a in range(spatial):
                if along[b, a]:
                    placed //= inner[0, a]
                    found *= inner[0, a]
    for a in range(spatial):
        if last >> a & 1:
            left = True
            for b in range(borders.shape[0]):
                left = left and not (tile >> b & 1 and (borders[b] == a or along[b, a]))
            placed //= inner[0, a] if left else 1
    return found if sums > 1 and placed <= HAZARD_DISTANCE else 0.0


@lean
def common(a: int, b: int) -> int:
    """The greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


@lean
def other_loops(inner: Any, axes: int, borders: Any, taps: Any, tile: int, way: int) -> int:
    """Iterations of the loops of an instruction that are left where some that a border cuts are written out.

    The taps along what is cut are in the list.

    Args:
        inner: iterations of every axis in the first row, shape (2, axes).
        axes: how many there are.
        borders: axes that borders cut.
        taps: of each, the reduction axis along it.
        tile: a bit for each of them that cuts this tile.
        way: a bit for each of them that is written out.
    """
    for a in range(axes):
        inner[1, a] = inner[0, a]
    for b in range(borders.shape[0]):
        if tile >> b & 1:
            inner[1, taps[b]] = 1
        if way >> b & 1:
            inner[1, borders[b]] = 1
    first, second = two_longest(inner[1], axes)
    return int(first * second)


@lean
def tied_loops(inner: Any, axes: int, borders: Any, met: int, last: int) -> int:
    """Iterations of the loops of an instruction, of which those that a border cuts or the end of an axis are some.

    Args:
        inner: iterations of every axis in the first row, shape (2, axes).
        axes: how many there are.
        borders: axes that borders cut.
        met: a bit for each of them that these taps meet.
        last: a bit for every axis along which this is a last tile that is smaller.
    """
    cuts = own_loops(inner, axes, borders, met, last)
    longest, second = two_longest(inner[1], axes)
    loops = longest * second
    if cuts < 2:
        for a in range(axes):
            inner[1, a] = inner[0, a] // inner[1, a]  # the others
        first, second = two_longest(inner[1], axes)
        loops *= first * second if cuts == 0 else first
    return int(loops)


@lean
def own_loops(inner: Any, axes: int, borders: Any, met: int, last: int) -> int:
    """How many loops have to be an instruction's own; the second row of ``inner`` gets their iterations, and 1 for the others.

    The arguments are those of ``tied_loops``.
    """
    count = 0
    for a in range(axes):
        own = last >> a & 1 == 1
        for b in range(borders.shape[0]):
            own = own or (met >> b & 1 == 1 and borders[b] == a)
        inner[1, a] = inner[0, a] if own else 1
        count += own
    return count


@lean
def beyond(inner: Any, axes: int, borders: Any, tile: int, last: int) -> int:
    """Instructions that those loops become which should be an instruction's own, and of which it has two longer ones.

    The arguments are those of ``tied_loops``; ``tile`` has a bit for each border that cuts this tile.
    """
    own_loops(inner, axes, borders, tile, last)
    longest, second = two_longest(inner[1], axes)
    every = 1
    for a in range(axes):
        every *= inner[1, a]
    return int(every // (longest * second))
