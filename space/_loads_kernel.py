"""The compiled arithmetic of loads: what every fill of an operand brings, point by point and part by part.

What the arrays mean is said by :class:`space.plan.Plan`; here an axis' figures of all points stand side by side, in the last
dimension.
"""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def fills(
    outer: Any, on: Any, position: Any, attach: Any, keep: Any, outside: Any, init: Any, out: Any, found: Any
) -> None:
    """How often operands are loaded in every part.

    Args:
        outer: tiles along every axis, shape (parts, axes, n).
        on: in which rows a part exists, shape (parts, n).
        position: of every axis' loop, shape (axes, n).
        attach: loops around the load, shape (operands, n); 0 loads it once for all parts.
        keep: whether an operand stays for later parts, shape (operands, n).
        outside: whether a load stands no deeper than the initial values, and than the stages, shape (operands, 2).
        init: loops around the initial values, shape (parts, n).
        out: loops around the stages, shape (parts, n).
        found: the result, shape (operands, parts, n).
    """
    for k in range(attach.shape[0]):
        for r in range(on.shape[1]):
            before = False  # whether there is a part before it, which then has what is loaded for all parts
            for p in range(on.shape[0]):
                found[k, p, r] = 0
                if on[p, r]:
                    if not (before and (keep[k, r] or attach[k, r] == 0)):
                        found[k, p, r] = turns(outer, position, p, r, loops_around(attach, outside, init, out, k, p, r))
                    before = True


@lean
def refilled(
    outer: Any, on: Any, position: Any, attach: Any, keep: Any, outside: Any, init: Any, out: Any, cut: int, strips: Any,
    points: Any, columns: Any,
) -> None:
    """As many banks as operands, and behind them the accumulators, are filled times in the part where that is most; in place.

    What stays has one.

    Args:
        outer: as for ``fills``, like all but the last.
        on: in which rows a part exists.
        position: of every axis' loop.
        attach: loops around the load.
        keep: whether an operand stays for later parts.
        outside: whether a load stands no deeper than the initial values, and than the stages.
        init: loops around the initial values.
        out: loops around the stages.
        cut: the operand that comes in strips, or -1.
        strips: in how many it comes in the part where that is most, shape (n,).
        points: rows that say how many banks, at most, shape (columns, n).
        columns: of every operand, and of the accumulators, the column that says it, shape (operands + 1,).
    """
    operands = attach.shape[0]
    for k in range(operands + 1):
        for r in range(on.shape[1]):
            banks, before, p = points[columns[k], r], False, 0
            many = 1
            while many < banks and p < on.shape[0]:
                if on[p, r]:
                    depth = init[p, r]
                    if k < operands:
                        stays = keep[k, r] or (before and attach[k, r] == 0)
                        depth = 0 if stays else loops_around(attach, outside, init, out, k, p, r)
                    before = True
                    many = max(many, turns(outer, position, p, r, depth))
                p += 1
            points[columns[k], r] = min(banks, many * strips[r] if k == cut else many)


@lean
def loops_around(attach: Any, outside: Any, init: Any, out: Any, k: int, p: int, r: int) -> int:
    """Loops around the load of an operand ``k`` in a part of a point ``r``."""
    depth: int = attach[k, r]
    if outside[k, 0]:
        depth = min(depth, init[p, r])
    if outside[k, 1]:
        depth = min(depth, out[p, r])
    return depth


@lean
def turns(outer: Any, position: Any, p: int, r: int, depth: int) -> int:
    """Iterations of the first ``depth`` loops of a part of a point ``r`` together."""
    times = 1
    for a in range(outer.shape[1]):
        if position[a, r] < depth:
            times *= outer[p, a, r]
    return times


@lean
def loads(
    first: int, outer: Any, tiles: Any, around: Any, position: Any, attach: Any, keep: Any, outside: Any, init: Any, out: Any,
    drops: Any, dims: Any, movers: Any, sizes: Any, cut: Any, less: Any, padded: Any, region: Any, counts: Any, order: Any,
) -> None:
    """Extents and counts of one fill of operands in every part.

    Args:
        first: the number of the first of the operands.
        outer: tiles along every axis of the parts, shape (parts, axes, n).
        tiles: iterations inside a tile, like ``outer``.
        around: which axes' loops, of several iterations, the first part has, shape (axes, n); only what stays on chip asks.
        position: of every axis' loop, shape (axes, n).
        attach: as for ``fills``, of all operands of the nest, like the four that follow.
        keep: whether an operand stays for later parts.
        outside: whether a load stands no deeper than the initial values, and than the stages.
        init: loops around the initial values.
        out: loops around the stages.
        drops: whether padding is left out, shape (n,).
        dims: of all operands of the nest, how many dimensions each has, and whether a block pads it; shape (all operands, 2).
        movers: the axes that move each dimension, and by how much, filled up with -1; shape (all operands, dims, most axes, 2).
        sizes: of every dimension: indices that one iteration of all axes reads, its size, that without padding, those from the
            first to the last that is used, elements from one index to the next, and how often a block that pads has each of
            its indices side by side; shape (all operands, dims, 6).
        cut: the dimension along which every operand comes strip by strip, or -1; shape (all operands,).
        less: by how much a strip is shorter there than what a tile reads, shape (parts, n).
        padded: the region that a fill brings, with its padding, shape (operands, parts, dims, n); a result.
        region: the same without the padding that is left out; a result.
        counts: elements of a fill, DMAs of a fill, elements of a bank; shape (3, operands, parts, n); a result.
        order: room for the dimensions in the order on chip, shape (dims,).
    """
    parts, n = outer.shape[0], outer.shape[2]
    for i in range(padded.shape[0]):
        k = first + i
        n_dims, made = dims[k, 0], dims[k, 1] != 0
        for p in range(parts):
            for r in range(n):
                depth = loops_around(attach, outside, init, out, k, p, r)
                stays, plain = keep[k, r], not made or drops[r]
                elements = whole = dmas = 1
                inner, segments = True, 0
                for d in range(n_dims - 1, -1, -1):
                    size, source, often = sizes[k, d, 1], sizes[k, d, 2], sizes[k, d, 5]
                    if attach[k, r] != 0:
                        size = sizes[k, d, 0]
                        for m in range(movers.shape[2]):
                            a = movers[k, d, m, 0]
                            if a < 0:
                                break
                            # Around tiles of which the last is smaller a load reaches as far as if it were none.
                            several = outer[p, a, r] if position[a, r] >= depth else 1
                            size += movers[k, d, m, 1] * (several * tiles[p, a, r] - 1)
                        size = min(size, sizes[k, d, 1])
                        if d == cut[k]:
                            size = max(size - less[p, r], 1)
                    padded[i, p, d, r] = size
                    size = min(distinct(size, often), source) if plain else size
                    region[i, p, d, r] = size
                    elements *= size
                    whole *= min(distinct(sizes[k, d, 3], often), source) if plain else sizes[k, d, 3]
                    inner, segments, each = brought(size, sizes[k, d], plain, inner, segments)
                    dmas *= each
                counts[0, i, p, r] = elements
                counts[2, i, p, r] = whole if stays else elements
                if stays:
                    # A piece of what stays lies among the others: a DMA fills consecutive elements, up to the first dimension
                    # of which the piece is a part. They come in the order on chip, which may be another than the tensor's:
                    # elements one after another there, then one more dimension.
                    in_order(k, n_dims, made, depth, around, position, movers, r, order)
                    runs = turned = run = 1
                    dense, rows = True, False
                    for place in range(n_dims - 1, -1, -1):
                        d = order[place]
                        size = region[i, p, d, r]
                        if not dense:
                            runs *= size
                        most_read = min(distinct(sizes[k, d, 3], sizes[k, d, 5]), sizes[k, d, 2]) if plain else sizes[k, d, 3]
                        dense = dense and size >= most_read
                        joins = not rows and sizes[k, d, 4] == run
                        if joins:
                            run *= size
                        if rows:
                            turned *= size
                        rows = rows or (not joins and size > 1)
                    dmas = max(turned if plain else dmas, runs)
                counts[1, i, p, r] = dmas


@lean
def distinct(size: int, often: int) -> int:
    """Elements behind so many indices next to each other, at most, where each element stands at ``often`` of them."""
    return size if often == 1 else -(-(size - 1) // often) + 1  # quotients are dear, and nearly all are by 1


@lean
def tails(
    region: Any, short: Any, dims: Any, movers: Any, sizes: Any, padded: Any, dense: Any, drops: Any, keep: Any, found: Any
) -> None:
    """Of the last tile along an axis, how much of a fill it brings, and in how many transfers.

    Args:
        region: what a fill of every operand brings, shape (operands, parts, dims, n).
        short: iterations by which the last tile is smaller, shape (parts, axes, n).
        dims: as for ``loads``, like the next two.
        movers: the axes that move each dimension, and by how much.
        sizes: of every dimension.
        padded: of which dimensions padding may be left out, shape (operands, dims).
        dense: along which of them what the last tile brings lies densely, shape (operands, dims).
        drops: whether padding is left out, shape (n,).
        keep: whether an operand stays for later parts, shape (operands, n): pieces of it lie among others all the same.
        found: all 1, which stays where tiles are alike; the result, shape (3, operands, axes, parts, n): the share of the beats,
            the least transfers, and the share of the transfers.
    """
    for k in range(region.shape[0]):
        for p in range(short.shape[0]):
            for r in range(short.shape[2]):
                outside = 1
                for d in range(dims[k, 0]):
                    size = max(region[k, p, d, r], 1)
                    for m in range(movers.shape[2]):
                        a = movers[k, d, m, 0]
                        if a < 0:
                            break
                        # What a border of the padding cuts off is seen at the border.
                        if short[p, a, r] > 0 and not (padded[k, d] and drops[r]):
                            less = movers[k, d, m, 1] * short[p, a, r]
                            share = max(1 - less / size, 0.0)
                            found[0, k, a, p, r] *= share
                            if dense[k, d] and not keep[k, r]:
                                plain = dims[k, 1] == 0 or drops[r]
                                whole = pieces(region, sizes, k, p, r, dims[k, 0], plain, d, 0)
                                left = pieces(region, sizes, k, p, r, dims[k, 0], plain, d, less)
                                found[2, k, a, p, r] = max(left / whole, share)
                            else:
                                # It lies in a place for a whole tile, where its rows follow each other with gaps.
                                found[1, k, a, p, r] = outside
                    outside *= size


@lean
def pieces(region: Any, sizes: Any, k: int, p: int, r: int, n_dims: int, plain: bool, along: int, less: int) -> int:
    """Transfers of a fill of an operand that brings ``less`` indices along a dimension than the others."""
    inner, segments, made = True, 0, 1
    for d in range(n_dims - 1, -1, -1):
        size = max(region[k, p, d, r] - (less if d == along else 0), 1)
        inner, segments, each = brought(size, sizes[k, d], plain, inner, segments)
        made *= each
    return made


@lean
def shares(
    region: Any, extents: Any, outer: Any, position: Any, depth: Any, drops: Any, dims: Any, movers: Any, sizes: Any, within: Any,
    found: Any,
) -> None:
    """Of fills in several transfers, the loop inside whose iterations read some of these each, one after the other.

    Args:
        region: what a fill of every operand brings, shape (operands, parts, dims, n).
        extents: of the parts, shape (parts, axes, n).
        outer: tiles along every axis, like ``extents``.
        position: of every axis' loop, shape (axes, n).
        depth: loops around the load of every operand, shape (operands, parts, n).
        drops: whether padding is left out, shape (n,).
        dims: as for ``loads``, like the next two.
        movers: the axes that move each dimension, and by how much.
        sizes: of every dimension.
        within: the place of that loop; a result, shape (operands, parts, n).
        found: how many iterations it has; a result, 1 where there is no such loop.
    """
    for k in range(region.shape[0]):
        for p in range(region.shape[1]):
            for r in range(region.shape[3]):
                found[k, p, r] = 1
                # Transfers follow each other along the outermost dimension, if every index of it is one.
                inner, segments, each, outermost = True, 0, 1, 0
                for d in range(dims[k, 0] - 1, -1, -1):
                    size = region[k, p, d, r]
                    plain = dims[k, 1] == 0 or drops[r]
                    inner, segments, made = brought(size, sizes[k, d], plain, inner, segments)
                    if size > 1:
                        outermost, each = d, made
                if each == 1:
                    continue
                moving, axis, step = 0, 0, 0
                for m in range(movers.shape[2]):
                    a = movers[k, outermost, m, 0]
                    if a < 0:
                        break
                    if extents[p, a, r] > 1:
                        moving, axis, step = moving + 1, a, movers[k, outermost, m, 1]
                # Where neighbours read one index both, or of one element, it is not read by one iteration alone.
                often = sizes[k, outermost, 5] if plain else 1
                if moving == 1 and sizes[k, outermost, 0] <= step and step % often == 0 and position[axis, r] >= depth[k, p, r]:
                    within[k, p, r], found[k, p, r] = position[axis, r], outer[p, axis, r]


@lean
def brought(size: int, sizes: Any, plain: bool, inner: bool, segments: int) -> tuple[bool, int, int]:
    """As ``merged``, of one dimension of what a fill brings.

    Padding is written apart, so that only a single index is all of a dimension in one piece. And a transfer brings an element to
    one place: those side by side take one each.

    Args:
        size: of the region along the dimension.
        sizes: of the dimension, as for ``loads``.
        plain: whether no padding is written.
        inner: as for ``merged``, like the next.
        segments: how many there are without those that merged.
    """
    source, often = sizes[2], sizes[5]
    if often > 1 and not plain:
        return False, max(segments, 2), min(size, source * often)
    return merged(size, size == source and (plain or size == 1), inner, segments)


@lean
def merged(size: int, whole: bool, inner: bool, segments: int) -> tuple[bool, int, int]:
    """One more dimension, from the innermost outwards, of a box that is moved between the memories.

    Dimensions merge with those inside while these span their whole size; the innermost are a run, the next the rows of a 2-D
    transfer.

    Args:
        size: of the box along it.
        whole: whether that is all that there is.
        inner: whether those inside have merged into one, and this may join it.
        segments: how many there are without those that merged.

    Returns:
        ``inner`` and ``segments`` for the next dimension, and how many transfers this one makes of one.
    """
    grows = size > 1 and not inner
    segments += grows
    return whole and (inner or grows), segments, size if size > 1 and segments > 1 else 1


@lean
def in_order(
    k: int, n_dims: int, made: bool, depth: int, around: Any, position: Any, movers: Any, r: int, order: Any
) -> None:
    """The dimensions of an operand that stays in their order on chip, outermost first: those that loops around its load move.

    Args:
        k: the operand.
        n_dims: its dimensions.
        made: whether a block pads it: then they lie as the program has them.
        depth: loops around its load.
        around: as for ``loads``, like the next two.
        position: of every axis' loop.
        movers: the axes that move each dimension, and by how much.
        r: the point.
        order: the result, shape (dims,).
    """
    place = 0
    for wanted in (True, False):
        for d in range(n_dims):
            moved = False
            if not made:
                for m in range(movers.shape[2]):
                    a = movers[k, d, m, 0]
                    moved = moved or (a >= 0 and around[a, r] and position[a, r] < depth)
            if moved == wanted:
                order[place] = d
                place += 1


@lean
def most(
    lows: Any, tiles: Any, outer: Any, used: Any, position: Any, depth: Any, extents: Any, coeffs: Any, first: int, last: int,
    size: int, steps: Any, found: Any,
) -> None:
    """The indices along a dimension that an operand's buffer holds: those that some fill brings.

    What the fills of all steps bring lies in one buffer, each at its own place from the tile's first index on.

    Args:
        lows: where the axes that move the dimension begin in every part, shape (parts, axes, n), like ``tiles`` and ``outer``.
        tiles: iterations inside a tile.
        outer: tiles along every axis.
        used: whether it is asked for, shape (parts, n); elsewhere the result stays as it is.
        position: of every axis' loop, shape (axes, n).
        depth: loops around the load, shape (n,).
        extents: of what a fill brings, with its padding, shape (parts, n).
        coeffs: by how many indices every axis moves the dimension, shape (axes,).
        first: the first index that is no padding.
        last: the one behind the last of these.
        size: of the dimension.
        steps: room to count the steps of every axis, shape (2, axes).
        found: the result, shape (parts, n).
    """
    parts, axes, n = lows.shape[0], lows.shape[1], lows.shape[2]
    for p in range(parts):
        for r in range(n):
            if not used[p, r]:
                continue
            for a in range(axes):
                steps[0, a] = 0
                steps[1, a] = outer[p, a, r] if position[a, r] < depth[r] else 1
            low, high = size, 0
            open_ = True
            while open_:
                start = 0
                for a in range(axes):
                    start += coeffs[a] * (lows[p, a, r] + tiles[p, a, r] * steps[0, a])
                begin, end = max(first - start, 0), min(last - start, extents[p, r])
                if end > begin:
                    low, high = min(low, begin), max(high, end)
                open_ = False
                for a in range(axes):
                    steps[0, a] += 1
                    if steps[0, a] < steps[1, a]:
                        open_ = True
                        break
                    steps[0, a] = 0
            found[p, r] = max(high - low, 0)
