"""The draft: estimated cycles of many points at once, from how the three engines take turns on a tile.

A tile of the output is initialised, gets its matrix products and its element-wise stages, and is stored; the next tile's loads
run meanwhile, as far ahead as their banks allow. The estimate is the longer of two chains: the compute engine's, tile after tile
and part after part with what it has to wait for, and the load engine's, with what remains to be done after the last load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.sites import ACC

if TYPE_CHECKING:
    from space.model import Model
    from space.plan import Part, Plan

Floats = npt.NDArray[np.float64]

ISSUE = 7  # cycles of a computing instruction beyond its micro-ops: pipeline and hand-over (vta.md 5)
LATENCY = 23  # cycles between two loads beyond their beats: request, delay, drain (vta.md 5.7, E = 22 + beats, occupancy E + 1)
FETCH = 2  # bus words of an instruction
PART = 64  # of a further part: micro-ops of its own for the sum, the initial values and the stages
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
        addends_first: of the addends that the first load waits for; what is not loaded first waits for the first loads.
        uops: of the micro-ops.
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
    uops: Floats
    addends_first: Floats | float = 0.0


def terms_of(model: Model, plan: Plan, part: Part) -> Terms:
    """The terms of a part as the geometry has them, before any rule has spoken."""
    n = len(plan)
    nothing: Floats = np.zeros(n)
    work = np.where(part.on, part.extents.prod(axis=1), 0).astype(np.float64) if model.nest.anchor else nothing.copy()
    if not model.nest.tensorized:
        # What is widened is reset first.
        work = work * model.nest.step + 2.0 * model.widened(part)
    operations = float(model.imm_ops + model.tensor_ops + model.added if model.nest.stages else 0)
    load = []
    for k in range(len(model.nest.operands)):
        beats, transfers = model.transfer(plan, part, k)
        load.append((model.fills(plan, part, k) * (beats + LATENCY * transfers)).astype(np.float64))
    return Terms(
        part, work, np.ones(n), np.full(n, float(model.nest.init_cycles if model.nest.anchor else 0)),
        np.full(n, float(model.imm_ops + 2 * model.tensor_ops + model.added)), np.full(n, operations),
        load, np.where(part.on, model.store_cycles(part), 0.0), nothing.copy(), uops(model, plan, part),
    )


def draft(model: Model, plan: Plan) -> Floats:
    """Estimated cycles of every point, shape (n,)."""
    n = len(plan)
    computing: Floats = np.zeros(n)
    loading: Floats = np.zeros(n)
    extra: Floats = np.zeros(n)
    last: _Chain | None = None
    for part, together in zip(plan.parts, _side_by_side(model, plan)):
        if not part.on.any():
            continue
        terms = terms_of(model, plan, part)
        for rule in model.rules:
            rule.draft(model, plan, terms)
        step = _chain(model, plan, terms)
        if last is None:
            begin = step.begin
        else:
            # A later part's first loads run during the last product and the stages of the part before, where they have memory
            # of their own; else they wait for it, and so do its initial values for the last store.
            apart = np.maximum(step.first_fill - last.after, 0.0)
            begin = np.where(last.on, PART + np.where(together, apart, step.first_fill + last.drain), step.begin)
        computing += np.where(part.on, begin + step.computing, 0.0)
        loading += np.where(part.on, step.load, 0.0)
        extra += np.where(part.on, terms.extra, 0.0)
        last = step if last is None else _Chain(*(np.where(part.on, new, old) for new, old in zip(step.all(), last.all())))
    assert last is not None
    return np.asarray(np.maximum(computing, loading + last.after) + last.drain + extra + START, dtype=np.float64)


def _side_by_side(model: Model, plan: Plan) -> list[npt.NDArray[np.bool_]]:
    """Per part, whether its first buffers have room beside those that the part before used last, shape (n,) each."""
    n = len(plan)
    found = []
    before = {scope: np.zeros(n, dtype=np.int64) for scope in model.depths}
    for part in plan.parts:
        used = {scope: np.zeros(n, dtype=np.int64) for scope in model.depths}
        used[ACC] += model.tile_elements(part)
        stays = {scope: np.zeros(n, dtype=np.int64) for scope in model.depths}
        for k, operand in enumerate(model.nest.operands):
            need = model.footprint(plan, part, k)
            shared = model.shared(plan, k)
            used[operand.scope] += np.where(shared, 0, need)
            stays[operand.scope] += np.where(shared, need, 0)
        fits = np.ones(n, dtype=np.bool_)
        for scope, depth in model.depths.items():
            fits &= before[scope] + used[scope] + stays[scope] <= depth
            before[scope] = np.where(part.on, used[scope], before[scope])
        found.append(fits)
    return found


@dataclass
class _Chain:
    """Cycles of one part, shape (n,) each.

    Args:
        begin: until the first product, when nothing runs before.
        first_fill: loads before the first product that are the part's own.
        computing: from the first product to the end of the last stages.
        load: of the load engine.
        drain: of the last store, after the stages.
        after: of the last product and the stages, during which the next part may load.
        on: where the part exists.
    """

    begin: Floats
    first_fill: Floats
    computing: Floats
    load: Floats
    drain: Floats
    after: Floats
    on: npt.NDArray[np.bool_]

    def all(self) -> tuple[npt.NDArray[np.generic], ...]:
        """Every field in order."""
        return self.begin, self.first_fill, self.computing, self.load, self.drain, self.after, self.on


def _chain(model: Model, plan: Plan, terms: Terms) -> _Chain:
    """How a part's tiles follow each other."""
    n = len(plan)
    part = terms.part
    tiles = np.maximum(model.tiles_run(plan, part), 1).astype(np.float64)
    links = {k for k, operand in enumerate(model.nest.operands) if operand.consumer in model.nest.links}
    loads = [k for k, operand in enumerate(model.nest.operands) if operand.scope != ACC and k not in links]
    fills = {k: np.maximum(model.fills(plan, part, k), 1).astype(np.float64) for k in range(len(model.nest.operands))}
    depth = np.full(n, model.n_spatial, dtype=np.int64)
    for k in loads:
        depth = np.maximum(depth, plan.attach[k])
    visits = np.maximum(model.trips(plan, part, depth), 1).astype(np.float64)  # of the innermost matrix product
    finest = visits.copy()
    if loads:
        finest = np.maximum.reduce([fills[k] for k in loads])

    slices = model.slices(part) if model.nest.stages else np.ones(n, dtype=np.int64)
    elements = model.tile_elements(part)
    stages = elements * terms.stages + ISSUE * slices * terms.operations
    gemms = visits * terms.pieces if model.nest.anchor else np.zeros(n)
    init = elements * terms.init + ISSUE if model.nest.anchor else np.zeros(n)
    gemm = (terms.products + ISSUE * gemms) / tiles
    step = gemm * tiles / finest  # products between two of the most frequent loads
    store = terms.store / tiles
    slice_store = store / slices

    acc_once, acc_again, transfers, load, first_fill, own_fill = (np.zeros(n) for _ in range(6))
    each = np.zeros(n)  # of all loads that come as often as the most frequent one
    waits = np.zeros(n)  # what stands still because a buffer has one bank, or a load comes too late
    ahead = np.full(n, np.inf)  # further banks of the most frequent loads
    for k, operand in enumerate(model.nest.operands):
        total = terms.load[k]
        transfers += np.where(total > 0, fills[k] * model.transfer(plan, part, k)[1], 0)
        if operand.scope == ACC:
            once = plan.attach[k] == 0
            acc_once += np.where(once, total, 0.0)
            acc_again += np.where(once, 0.0, total)
            continue
        load += total
        if k in links:
            continue  # comes while the product before it is at work
        first_fill += total / fills[k]
        own_fill += np.where(model.shared(plan, k), 0.0, total / fills[k])
        often = (fills[k] == finest) & (fills[k] > 1)
        each += np.where(often, total / fills[k], 0.0)
        # What stays has a place for every piece: nothing waits for a bank.
        ahead = np.where(often & ~plan.keep[k], np.minimum(ahead, plan.banks[k]), ahead)
        # With one bank a load and the products that use it take turns.
        alone = (fills[k] > 1) & (plan.banks[k] == 0) & ~plan.keep[k]
        waits += np.where(alone, np.minimum(total * (fills[k] - 1) / fills[k], terms.products), 0.0)
    ahead = np.where(np.isinf(ahead), 4.0, ahead)
    # With one bank the next tile begins when the last slice is stored.
    held = (plan.acc_banks == 0) & (tiles > 1)
    rest = stages + init + acc_again / tiles + np.where(held, np.maximum(slice_store, store - stages), 0.0)
    for k in loads:
        # Loads are in program order, and the most frequent ones keep pace with the products: a rarer one starts only as far
        # ahead of its use as those have banks.
        rare = (fills[k] < finest) & (fills[k] > 1) & (plan.banks[k] > 0)
        hidden = ahead * step + np.where(plan.attach[k] <= model.n_spatial, rest, 0.0)
        waits += np.where(rare, (fills[k] - 1) * np.maximum(terms.load[k] / fills[k] + each - hidden, 0.0), 0.0)
    per_tile = finest / tiles
    # While the stages run no more is loaded than there are banks.
    stalled = np.where(per_tile >= 1, np.maximum(rest + step - each * (1 + ahead), 0.0), 0.0)
    following = np.maximum(np.maximum(rest + gemm, each * per_tile + stalled), store)
    # An initial value needs no data: it is there while the first tile loads.
    # Addends have the lowest priority at the memory: they come before all else, or when the load engine has nothing to do.
    known = np.asarray(terms.addends_first)
    behind = np.where((known > 0) | (acc_once == 0), 0.0, first_fill + acc_once)
    begin = np.maximum(known + first_fill, np.maximum(known, behind) + init) - init
    first = np.maximum(gemm, each * np.maximum(per_tile - 1, 0) + np.minimum(step, gemm)) + rest
    instructions = transfers + gemms + tiles * (1 + slices * (1 + terms.operations))
    computing = first + (tiles - 1) * following + waits + terms.uops / 2
    drain = np.maximum(slice_store, store - stages)
    return _Chain(begin, own_fill, computing, load + FETCH * instructions, drain, step + stages, part.on)


def uops(model: Model, plan: Plan, part: Part) -> Floats:
    """Micro-ops of one GEMM kernel: all inner loops but the two that the instruction folds, per bank combination."""
    tiles = np.sort(part.tiles, axis=1)
    refilled = np.zeros(len(plan), dtype=np.int64)
    for k, operand in enumerate(model.nest.operands):
        if operand.scope != ACC:
            refilled = np.maximum(refilled, plan.banks[k])
    banks = (1 + refilled) * (1 + plan.acc_banks)
    return np.asarray(tiles[:, :-2].prod(axis=1) * banks, dtype=np.float64)
