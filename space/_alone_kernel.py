"""The compiled sums of what each engine has to do for a point, if the others never made it wait (:mod:`space.play`)."""

from __future__ import annotations

from typing import Any

from sim._kernels import kernel, refresh
from space import play as columns
from space.play import AROUND, BEATS, DEPTH, ENGINE, INIT, OUT, PIECES, PRODUCTS, RELOAD, SLICES, STAGE, TRANSFERS

refresh(__file__, columns)


@kernel(nogil=True)
def alone(
    r: int, on: Any, extents: Any, tiles: Any, outers: Any, lows: Any, position: Any, fill: Any, work: Any, dims: Any,
    counts: Any, padded: int, drops: Any, issue: float, latency: float, fetch: float,
) -> float:
    """The cycles of point ``r`` on the engine that takes longest, without any wait: no more than it takes in turns with others.

    Of what a border makes smaller no more counts than is left there, and of instructions that a border leaves out none. The other
    arguments are those of :func:`space._play_kernel.play`.
    """
    parts, axes = extents.shape[0], extents.shape[1]
    operands, ndims = fill.shape[1], dims.shape[1]
    comp = load = 0.0
    for p in range(parts):
        if not on[p, r]:
            continue
        visits, written, ended = 1.0, 1.0, 1.0  # visits of the innermost loops; how often values are written, and stages run
        whole = 1.0  # of the tiles that there are, the share that there would be if the last ones were no smaller
        for a in range(axes):
            times, place = outers[p, a, r], position[a, r]
            visits *= times
            if place < work[AROUND, p, r]:
                written *= times
            if place < work[OUT, p, r]:
                ended *= times
            if times * tiles[p, a, r] != extents[p, a, r]:
                whole *= extents[p, a, r] / (times * tiles[p, a, r])
        products = work[PRODUCTS, p, r] * visits * whole
        if drops[r]:
            for d in range(ndims):
                first, end, steps = 0, 1, 1
                for a in range(axes):
                    if position[a, r] == dims[r, d, 0]:
                        first = lows[p, a, r]
                        end = first + extents[p, a, r]
                    elif position[a, r] == dims[r, d, 1]:
                        steps = extents[p, a, r]
                products *= (counts[d, end, steps] - counts[d, first, steps]) / ((end - first) * steps)
        else:
            products += visits * (issue * work[PIECES, p, r] + work[RELOAD, p, r])
        stages = ended * work[SLICES, p, r] * work[STAGE, p, r] * whole
        comp += products + stages + written * max(work[INIT, p, r] - issue, 0.0) * whole
        for k in range(operands):
            if fill[ENGINE, k, p, r] == 1 or fill[BEATS, k, p, r] == 0 or (drops[r] and k == padded):
                continue
            fills = whole
            for a in range(axes):
                if position[a, r] < fill[DEPTH, k, p, r]:
                    fills *= outers[p, a, r]
            load += fills * (fill[BEATS, k, p, r] + (latency + fetch) * fill[TRANSFERS, k, p, r])
    return max(comp, load)
