"""What parts load each their own although no loop is around it: what only stages read, behind the products of each."""

from __future__ import annotations

from math import prod

import numpy as np

from autosched.ir.scopes import ACC
from space.figures import Floats, Loads
from space.model import Model
from space.plan import Mask, Plan, columns, times, turned


def late(model: Model) -> tuple[int, ...]:
    """Operands that are read behind the sum only."""
    if model.nest.anchor is None:
        return ()
    early = (model.nest.anchor, *model.nest.sides, *(w.block for w in model.nest.wides))
    return tuple(k for k, o in enumerate(model.nest.operands) if o.consumer not in early)


def apart(model: Model, plan: Plan, operand: int) -> Mask:
    """Whether every part loads its own of what no loop is around, behind its products, shape (n,).

    One part does where it is a single tile. Several do where that is no more than one load for all would bring, and the first,
    which is a single tile, does not need all of it. Loaded for all of them in front of the first part, it would hold up what that
    one's products wait for. What goes to the accumulator's memory would not: it comes while these are waited for.
    """
    op, spatial, none = model.nest.operands[operand], model.n_spatial, np.zeros(len(plan), dtype=np.bool_)
    if operand not in late(model) or not op.dims or op.scope == ACC or op.producer is not None or op.within:
        return none
    found = (plan.attach[operand] == 0) & ~plan.keep[operand]
    parts, before, needed, total = none.astype(np.int64), none, none, none.astype(np.int64)
    for part in plan.parts:
        first, before = part.on & ~before, before | part.on
        found &= ~first | (model.out_tiles(plan, part) == part.extents[:, :spatial]).all(axis=1)
        needed = needed | (first & ((part.extents == model.extents) | ~model.uses[operand]).all(axis=1))
        spans = [1 + ((part.extents - 1) * np.array(coeffs, dtype=np.int64)).sum(axis=1) for coeffs, _ in op.dims]
        total += np.where(part.on, times(np.stack(spans, axis=-1)), 0)
        parts += part.on
    return np.asarray(found & ((parts == 1) | (~needed & (total <= prod(size for _, size in op.dims)))), dtype=np.bool_)


def own_load(model: Model, plan: Plan, operand: int) -> tuple[Floats, Floats]:
    """``transfer`` of what each part reads of an operand in all, shape (parts, n) each."""
    from space._loads_kernel import loads

    part, n, most = plan.stack, len(plan), model.dims[1].shape[1]
    extents, _, _ = turned(plan, part)
    region, counts = np.ones((2, 1, len(extents), most, n), dtype=np.int64), np.zeros((3, 1, len(extents), n), dtype=np.int64)
    attach, keep, outside, init, out = model.placed(plan, [part])
    loads(
        operand, extents, extents, np.zeros((0, 0), dtype=np.bool_), columns(plan.position), np.ones_like(attach),
        np.zeros_like(keep), outside, init, out, np.array(plan.drops), *model.dims, region[0], region[1], counts,
        np.zeros(most, dtype=np.int64),
    )
    op = model.nest.operands[operand]
    load = Loads(*region.swapaxes(3, 4), *counts).of(0, len(op.dims), None)
    beats = load.beats(model.shapes[operand], model.bytes_of[op.scope], model.config)
    return beats.astype(np.float64), load.transfers.astype(np.float64)
