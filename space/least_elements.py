"""How much of an operand points load at least, whatever their tiles hold: what no bound of a point may exceed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.scopes import ACC
from space.plan import Plan, times

if TYPE_CHECKING:
    from space.model import Model
    from space.rule import Ints


def least_elements(model: Model, plan: Plan, operand: int) -> Ints:
    """Elements of an operand that must cross the bus at least, all fills of all parts: padding and what is skipped do not.

    Args:
        model: of the nest.
        plan: of n points.
        operand: which of the nest's.
    """
    if (op := model.nest.operands[operand]).producer is not None and not op.inside:
        return np.zeros(len(plan), dtype=np.int64)  # nobody knows how much of it is padding
    cut = np.zeros(len(plan), dtype=np.bool_)
    for part in plan.parts:
        if part is not plan.body:
            cut |= part.on
    body = plan.body
    cut |= body.short.any(axis=1)
    every = np.broadcast_to(model.extents, body.extents.shape)
    whole = replace(body, extents=every, lows=np.zeros_like(body.lows))
    # Of a point whose tiles are not all alike only one sweep counts: every element that is used, once.
    ranges = np.where(cut[:, None], whole.extents, model.ranges(plan, whole, model.depth(plan, whole, operand)))
    moved = [tuple(a for a, c in enumerate(coeffs) if c) for coeffs, _ in op.dims]
    axes = [a for group in moved for a in group]
    # Every axis that moves no dimension repeats the loads. Where one moves two, sums over tiles do not multiply.
    apart = len(axes) == len(set(axes))
    still = [a for a in range(len(model.extents)) if not (apart and a in axes)]
    total = times(model.extents[None, still] // ranges[:, still])
    for d, group in enumerate(moved):
        table, divisors = _table(model, operand, d, apart)
        ranks = tuple(np.searchsorted(divisors[i], ranges[:, a]) for i, a in enumerate(group))
        total = total * table[ranks]
    return np.asarray(total, dtype=np.int64)


def _table(model: Model, operand: int, dim: int, together: bool) -> tuple[Ints, list[Ints]]:
    """Elements of one dimension that tiles use and that are no padding, by the ranks of the ranges of the axes that move it.

    Args:
        model: of the nest.
        operand: the operand.
        dim: its dimension.
        together: the sum over all tiles; else the least of any tile.
    """
    key = operand, dim, together
    if key not in model.least_tables:
        op = model.nest.operands[operand]
        coeffs, size = op.dims[dim]
        axes = [a for a, c in enumerate(coeffs) if c]
        divisors = [np.array([d for d in range(1, e + 1) if e % d == 0], dtype=np.int64) for e in model.extents[axes]]
        inside = np.array(op.inside[dim] if op.inside else [True] * size)
        within = np.array(op.within[dim] if op.within else [0])
        # Where a stage chooses by place, it may be said to read what is not there.
        before = max(0, -op.first[dim]) if op.first else 0
        inside = np.pad(inside, (before, int(np.dot(model.extents - 1, coeffs) + within.max()) + 1))
        often = op.times[dim] if op.times else 1
        table: Ints = np.zeros([len(d) for d in divisors], dtype=np.int64)
        for rank in np.ndindex(*table.shape):
            start, step = np.zeros(1, np.int64), within
            for i, (place, a) in enumerate(zip(rank, axes)):
                inner = int(divisors[i][place])
                start = np.add.outer(start, coeffs[a] * np.arange(0, model.extents[a], inner)).ravel()
                step = np.add.outer(step, coeffs[a] * np.arange(inner)).ravel()
            read = start[:, None] + np.unique(step)[None, :]  # nobody knows at which of its places it begins an element
            used = np.min([_different(np.where(inside[read], (read + at) // often, -1)) for at in range(often)], axis=0)
            table[rank] = used.sum() if together else used.min()
        model.least_tables[key] = table, divisors
    return model.least_tables[key]


def _different(rows: Ints) -> Ints:
    """How many different numbers that are not negative each of some rows has, shape (rows,)."""
    order = np.sort(rows, axis=1)
    first = np.concatenate([np.ones((len(order), 1), dtype=np.bool_), np.diff(order, axis=1) > 0], axis=1)
    return np.asarray((first & (order >= 0)).sum(axis=1), dtype=np.int64)


def least_of(model: Model, operand: int) -> int:
    """Elements of an operand that some product or stage uses: each must cross the bus once."""
    plan = model.neutral(1)
    plan.drops[:] = bool(model.padding.taps)
    least = int(np.asarray(least_elements(model, plan, operand))[0])
    own, padding = model.nest.operands[operand], model.padding
    factor = operand != padding.operand and own.scope != ACC and own.readers == (model.nest.anchor,)
    return padding.read(own, least) if padding.taps and factor else least
