"""The compiled arithmetic of the draft that goes from part to part, or from axis to axis: what lies side by side, and stores."""

from __future__ import annotations

from typing import Any

from sim._kernels import lean, refresh

refresh(__file__)


@lean
def side_by_side(
    on: Any, tile: Any, copies: Any, halos: Any, footprint: Any, fills: Any, banks: Any, shared: Any, scope: Any, depths: Any,
    acc: int, room: Any, found: Any,
) -> None:
    """Per part, whether there is room beside what the part before used last: 2 for all copies of its buffers, 1 for the first.

    Args:
        on: whether a part exists, shape (parts, n).
        tile: accumulator elements of an output tile, shape (parts, n).
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
                    found[1, p, r] = each
                else:
                    least = min(least, each)
            found[0, p, r] = least
            if on[p, r]:
                for s in range(memories):
                    before[s] = once[s]


@lean
def stores(tiles: Any, extents: Any, slices: Any, sliced: bool, spatial: int, found: Any) -> None:
    """Of every part: elements of a tile that lie in a row of the output, and STOREs of a slice.

    A slice goes along one axis of a tile, index by index; a STORE covers two dimensions of what lies together on chip.

    Args:
        tiles: iterations inside a tile, shape (parts, axes, n).
        extents: of all axes, shape (axes,).
        slices: 0, or 1 + the axis that is sliced, shape (parts, n).
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
                size = 1 if sliced and d == axis else tiles[p, d, r]
                if full:
                    row *= size
                full = full and size == extents[d]
                if d < axis:
                    times *= tiles[p, d, r]
                size = tiles[p, d, r] if d > axis else 1
                grows = size > 1 and not inner
                segments += grows
                if size > 1 and segments > 1:
                    each *= size
                inner = size == extents[d] and (inner or grows)
            found[0, p, r], found[1, p, r] = row, times * each
