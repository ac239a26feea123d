"""The draft: estimated cycles of many points at once, from how the three engines take turns on a tile.

A tile of the output is initialised, gets its matrix products and its element-wise stages, and is stored; the next tile's loads
run meanwhile, as far ahead as their banks allow. The estimate is the longer of two chains: the compute engine's, tile after tile
and part after part with what it has to wait for, and the load engine's, with what remains to be done after the last load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.nest import ACC

if TYPE_CHECKING:
    from space.model import Model
    from space.plan import Part, Plan

Floats = npt.NDArray[np.float64]

ISSUE = 7  # cycles of a computing instruction beyond its micro-ops: pipeline and hand-over (vta.md 5)
LATENCY = 23  # cycles between two loads beyond their beats: request, delay, drain (vta.md 5.7, E = 22 + beats, occupancy E + 1)
FETCH = 2  # bus words of an instruction
START = 60  # launch, first instructions, FINISH


@dataclass
class Terms:
    """What the estimate of one part is made of; a rule's ``draft`` may correct it. Arrays of shape (n,), in cycles.

    Args:
        products: of the matrix products.
        pieces: GEMM instructions of one nest.
        init: of the initial values of one output element.
        stages: of the element-wise stages of one output element.
        operations: ALU instructions of one slice.
        load: per operand, of all its fills.
        store: of all stores.
        extra: whatever a rule knows better.
    """

    part: Part
    products: Floats
    pieces: Floats
    init: Floats
    stages: Floats
    operations: Floats
    load: list[Floats]
    store: Floats
    extra: Floats
    uops: Floats = field(default_factory=lambda: np.zeros(0))


def terms_of(model: Model, plan: Plan, part: Part) -> Terms:
    """The terms of a part as the geometry has them, before any rule has spoken."""
    n = len(plan)
    nothing: Floats = np.zeros(n)
    work = np.where(part.on, part.extents.prod(axis=1), 0).astype(np.float64) if model.nest.anchor else nothing.copy()
    operations = float(model.imm_ops + model.tensor_ops if model.nest.stages else 0)
    load = []
    for k in range(len(model.nest.operands)):
        beats, transfers = model.transfer(plan, part, k)
        load.append((model.fills(plan, part, k) * (beats + LATENCY * transfers)).astype(np.float64))
    return Terms(
        part, work, np.ones(n), np.full(n, float(model.nest.init_cycles if model.nest.anchor else 0)),
        np.full(n, float(model.imm_ops + 2 * model.tensor_ops)), np.full(n, operations),
        load, np.where(part.on, model.store_cycles(part), 0.0), nothing.copy(), uops(model, plan, part),
    )


def draft(model: Model, plan: Plan) -> Floats:
    """Estimated cycles of every point, shape (n,)."""
    n = len(plan)
    computing: Floats = np.zeros(n)
    loading: Floats = np.zeros(n)
    turns: Floats = np.zeros(n)
    begun = np.zeros(n, dtype=np.bool_)
    drain: Floats = np.zeros(n)
    last_work: Floats = np.zeros(n)
    extra: Floats = np.zeros(n)
    for part in plan.parts:
        if not part.on.any():
            continue
        terms = terms_of(model, plan, part)
        for rule in model.rules:
            rule.draft(model, plan, terms)
        step = _chain(model, plan, terms)
        # Before the first part the machine waits for data; a later part's first loads run while the part before computes.
        first = np.where(begun, step.own, step.first)
        computing += np.where(part.on, first + step.rest, 0.0)
        loading += np.where(part.on, step.load, 0.0)
        turns += np.where(part.on, step.turns, 0.0)
        drain = np.where(part.on, step.drain, drain)
        last_work = np.where(part.on, step.after, last_work)
        extra += np.where(part.on, terms.extra, 0.0)
        begun |= part.on
    return np.asarray(np.maximum(computing, loading + last_work) + turns + drain + extra + START, dtype=np.float64)


@dataclass
class _Chain:
    first: Floats
    own: Floats
    rest: Floats
    load: Floats
    turns: Floats
    drain: Floats
    after: Floats


def _chain(model: Model, plan: Plan, terms: Terms) -> _Chain:
    """How a part's tiles follow each other."""
    n = len(plan)
    part = terms.part
    tiles = np.maximum(model.tiles_run(plan, part), 1).astype(np.float64)
    depth = np.full(n, model.n_spatial, dtype=np.int64)
    for k, operand in enumerate(model.nest.operands):
        if operand.scope != ACC:
            depth = np.maximum(depth, plan.attach[k])
    visits = np.maximum(model.trips(plan, part, depth), 1).astype(np.float64)  # of the innermost matrix product

    nothing: Floats = np.zeros(n)
    load, first_fill, acc_once, acc_again, transfers = (nothing.copy() for _ in range(5))
    again, again_fill, ahead, alone = (nothing.copy() for _ in range(4))
    for k, operand in enumerate(model.nest.operands):
        total = terms.load[k]
        fills = np.maximum(model.fills(plan, part, k), 1)
        attach = plan.attach[k]
        transfers += np.where(total > 0, fills * model.transfer(plan, part, k)[1], 0)
        if operand.scope == ACC:
            once = attach == 0
            acc_once += np.where(once, total, 0.0)
            acc_again += np.where(once, 0.0, total)
            continue
        load += total
        first_fill += total / fills
        banks = plan.banks[k]
        alone += np.where((fills > 1) & (banks == 0), total * (fills - 1) / fills, 0.0)
        fill = np.where(fills > 1, total / fills, 0.0)
        again += np.where(fills > 1, total, 0.0)
        again_fill += fill
        # How much may be loaded before the next tile begins: as many fills as banks; of a load that stands still during the
        # reduction no more than a tile's.
        per_tile = (attach <= model.n_spatial) & (visits > tiles)
        ahead += np.where(per_tile, np.minimum(fill * (1 + banks), total / tiles), fill * (1 + banks))

    slices = model.slices(part) if model.nest.stages else np.ones(n, dtype=np.int64)
    elements = model.tile_elements(part)
    stages = elements * terms.stages + ISSUE * slices * terms.operations
    gemms = visits * terms.pieces if model.nest.anchor else nothing
    init = elements * terms.init + ISSUE if model.nest.anchor else nothing
    gemm = (terms.products + ISSUE * gemms) / tiles
    step = gemm * tiles / visits
    store = terms.store / tiles
    slice_store = store / slices
    # With one bank the next tile begins when the last slice is stored.
    held = (plan.acc_banks == 0) & (tiles > 1)
    rest = stages + init + acc_again / tiles + np.where(held, np.maximum(slice_store, store - stages), 0.0)

    # An initial value needs no data: it is there while the first tile loads.
    begin = np.maximum(first_fill, init + acc_once)
    own = np.maximum(gemm, again / tiles - again_fill + step) + rest
    # The load engine stands still once all banks are full, until the next tile has used one.
    stalled = np.maximum(rest + 2 * step - ahead, 0.0)
    following = np.maximum(np.maximum(rest + gemm, again / tiles + stalled), store)
    instructions = transfers + gemms + tiles * (1 + slices * (1 + terms.operations))
    # With one bank a load and the product that uses it take turns: the shorter of the two is no longer hidden.
    turns = np.minimum(alone, terms.products)
    drain = np.maximum(slice_store, store - stages)
    return _Chain(begin + own - init, own, (tiles - 1) * following + terms.uops / 2, load + FETCH * instructions, turns, drain,
                  step + stages)


def uops(model: Model, plan: Plan, part: Part) -> Floats:
    """Micro-ops of one GEMM kernel: all inner loops but the two that the instruction folds, per bank combination."""
    tiles = np.sort(part.tiles, axis=1)
    refilled = np.zeros(len(plan), dtype=np.int64)
    for k, operand in enumerate(model.nest.operands):
        if operand.scope != ACC:
            refilled = np.maximum(refilled, plan.banks[k])
    banks = (1 + refilled) * (1 + plan.acc_banks)
    return np.asarray(tiles[:, :-2].prod(axis=1) * banks, dtype=np.float64)
