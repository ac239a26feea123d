"""The draft: estimated cycles of many points at once, from how the three engines take turns on a tile.

A tile of the output goes through reset, matrix products, element-wise stages and store; the next tile's loads run meanwhile, as
far ahead as their banks allow. The estimate is the longer of two chains: the compute engine's, tile after tile with what it has
to wait for, and the load engine's, with what remains to be done after the last load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim import timing
from space.nest import ACC

if TYPE_CHECKING:
    from space.model import Ints, Model, Points

Floats = npt.NDArray[np.float64]

ISSUE = 7  # cycles of a computing instruction beyond its micro-ops: pipeline and hand-over (vta.md 5)
FETCH = 2  # bus words of an instruction
START = 60  # launch, first instructions, FINISH


def draft(model: Model, points: Points) -> Floats:
    """Estimated cycles of every point, shape (n,)."""
    n = len(points)
    spatial = np.full(n, model.n_spatial, dtype=np.int64)
    tiles = model.trips(points, spatial).astype(np.float64)
    depth = spatial.copy()
    for k, operand in enumerate(model.nest.operands):
        if operand.scope != ACC:
            depth = np.maximum(depth, model.attach(points, k))
    visits = model.trips(points, depth).astype(np.float64)  # of the innermost matrix product

    nothing: Floats = np.zeros(n)
    load, first_fill, acc_once, acc_again, transfers = (nothing.copy() for _ in range(5))
    again, again_fill, ahead, alone = (nothing.copy() for _ in range(4))
    for k, operand in enumerate(model.nest.operands):
        total = model.load_cycles(points, k).astype(np.float64)
        fills = model.fills(points, k)
        attach = model.attach(points, k)
        transfers += fills * model.transfer(points, k)[1]
        if operand.scope == ACC:
            once = attach == 0
            acc_once += np.where(once, total, 0.0)
            acc_again += np.where(once, 0.0, total)
            continue
        load += total
        first_fill += total / fills
        banks = points[:, model.columns.banks(k)]
        alone += np.where((fills > 1) & (banks == 0), total * (fills - 1) / fills, 0.0)
        fill = np.where(fills > 1, total / fills, 0.0)
        again += np.where(fills > 1, total, 0.0)
        again_fill += fill
        # How much may be loaded before the next tile begins: as many fills as banks; of a load that stands still during the
        # reduction no more than a tile's.
        per_tile = (attach <= model.n_spatial) & (visits > tiles)
        ahead += np.where(per_tile, np.minimum(fill * (1 + banks), total / tiles), fill * (1 + banks))

    operations = model.imm_ops + model.tensor_ops if model.nest.stages else 0
    slices = model.slices(points) if model.nest.stages else np.ones(n, dtype=np.int64)
    elements = model.tile_elements(points)
    stages = elements * (model.imm_ops + 2 * model.tensor_ops) + ISSUE * slices * operations
    products, reset, gemms = nothing, nothing, nothing
    if model.nest.anchor:
        products = np.where(model.drops(points), model.useful, model.products).astype(np.float64)
        gemms = visits * pieces(model, points, depth)
        reset = (elements + ISSUE).astype(np.float64)
    gemm = (products + ISSUE * gemms) / tiles
    step = gemm * tiles / visits
    store = store_cycles(model, points) / tiles
    slice_store = store / slices
    # With one bank the next tile begins when the last slice is stored.
    held = (points[:, model.columns.acc_banks] == 0) & (tiles > 1)
    rest = stages + reset + acc_again / tiles + np.where(held, np.maximum(slice_store, store - stages), 0.0)

    # A reset needs no data: it runs while the first tile loads.
    begin = np.maximum(first_fill, reset + acc_once)
    first = begin + np.maximum(gemm, again / tiles - again_fill + step) + rest - reset
    # The load engine stands still once all banks are full, until the next tile has used one.
    stalled = np.maximum(rest + 2 * step - ahead, 0.0)
    following = np.maximum(np.maximum(rest + gemm, again / tiles + stalled), store)
    computing = first + (tiles - 1) * following + uops(model, points) / 2
    instructions = transfers + gemms + tiles * (1 + slices * (1 + operations))
    loading = load + FETCH * instructions + step + stages
    # With one bank a load and the product that uses it take turns: the shorter of the two is no longer hidden.
    turns = np.minimum(alone, products)
    drain = np.maximum(slice_store, store - stages)
    return np.asarray(np.maximum(computing, loading) + turns + drain + START, dtype=np.float64)


def pieces(model: Model, points: Points, depth: Ints) -> Ints:
    """Instructions of one GEMM nest: where padding is left out, all loops of a padded dimension but its longest unroll."""
    found = np.ones(len(points), dtype=np.int64)
    ranges = model.ranges(points, depth)
    for group in model.taps:
        inner = ranges[:, list(group)]
        found = found * (inner.prod(axis=1) // inner.max(axis=1))
    return np.where(model.drops(points), found, 1)


def store_cycles(model: Model, points: Points) -> Floats:
    """Store cycles of the whole output; rows shorter than a burst pay for more bursts, and slices cut rows."""
    tiles = model.tiles(points)[:, : model.n_spatial].copy()
    if model.nest.stages:
        tail = points[:, model.columns.tail].astype(np.int64)
        cut = np.flatnonzero(tail > 0)
        tiles[cut, tail[cut] - 1] = 1
    run = np.ones(len(points), dtype=np.int64)
    full = np.ones(len(points), dtype=bool)
    for d in range(model.n_spatial - 1, -1, -1):
        run = np.where(full, run * tiles[:, d], run)
        full &= tiles[:, d] == model.extents[d]
    runs, which = np.unique(run, return_inverse=True)
    cost = timing.store_cycles(0, 1, runs, runs, config=model.config)
    return np.asarray(cost[which] * (model.out_elements / run), dtype=np.float64)


def uops(model: Model, points: Points) -> Ints:
    """Micro-ops of one GEMM kernel: all inner loops but the two that the instruction folds, per bank combination."""
    tiles = np.sort(model.tiles(points), axis=1)
    refilled = np.zeros(len(points), dtype=np.int64)
    for k, operand in enumerate(model.nest.operands):
        if operand.scope != ACC:
            refilled = np.maximum(refilled, points[:, model.columns.banks(k)])
    banks = (1 + refilled) * (1 + points[:, model.columns.acc_banks])
    return np.asarray(tiles[:, :-2].prod(axis=1) * banks, dtype=np.int64)
