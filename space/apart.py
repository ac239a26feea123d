"""What parts load each their own although no loop is around it: what only stages read, behind the products of each."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from autosched.ir.scopes import ACC
from space.figures import Floats
from space.model import Model
from space.plan import Mask, Plan, times
from space.rule import Ints


def late(model: Model) -> tuple[int, ...]:
    """Operands that are read behind the sum only."""
    if model.nest.anchor is None:
        return ()
    early = (model.nest.anchor, *model.nest.sides, *(w.block for w in model.nest.wides))
    return tuple(k for k, o in enumerate(model.nest.operands) if o.consumer not in early)


def needs_all(model: Model, plan: Plan, operand: int) -> Mask:
    """Whether the first part that there is reads all that any part does of an operand, shape (n,)."""
    first = plan.parts[0]
    extents = np.where(first.on[:, None], first.extents, plan.body.extents)
    return np.asarray(((extents == model.extents) | ~model.uses[operand]).all(axis=1), dtype=np.bool_)


def apart(model: Model, plan: Plan, operand: int) -> Mask:
    """Whether every part loads its own of what no loop is around, behind its products, shape (n,).

    One part does where it is a single tile. Several do where that is no more than one load for all would bring, and the first,
    which is a single tile, does not need all of it. Loaded for all of them in front of the first part, it would hold up what that
    one's products wait for. What goes to the accumulator's memory would not: it comes while these are waited for.
    """
    op, spatial = model.nest.operands[operand], model.n_spatial
    if operand not in late(model) or not op.dims or op.scope == ACC or op.producer is not None or op.within:
        return np.zeros(len(plan), dtype=np.bool_)
    found = (plan.attach[operand] == 0) & ~plan.keep[operand]
    total = np.zeros(len(plan), dtype=np.int64)
    for part, first in zip(plan.parts, plan.firsts):
        found &= ~first | (model.out_tiles(plan, part) == part.extents[:, :spatial]).all(axis=1)
        spans = [1 + ((part.extents - 1) * np.array(coeffs, dtype=np.int64)).sum(axis=1) for coeffs, _ in op.dims]
        total += np.where(part.on, times(np.stack(spans, axis=-1)), 0)
    alone = plan.stack.on.sum(axis=0) == 1
    fewer = ~needs_all(model, plan, operand) & (total <= prod(size for _, size in op.dims))
    return np.asarray(found & (alone | fewer), dtype=np.bool_)


def own_load(model: Model, plan: Plan, operand: int) -> tuple[Ints | Floats, Ints]:
    """``transfer`` of what each part reads of an operand in all, shape (parts, n) each."""
    loops, stays = np.ones(len(plan), dtype=np.int64), np.zeros(len(plan), dtype=np.bool_)
    operands = len(model.nest.operands)
    # As if a loop were around every load, and a part a tile.
    parts = [replace(part, tiles=part.extents) for part in plan.parts]
    whole = replace(plan, parts=parts, attach=[loops] * operands, keep=[stays] * operands, memo=None, _stack=None)
    return model.transfer(whole, whole.stack, operand)
