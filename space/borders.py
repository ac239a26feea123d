"""What halos take of a tile: elements and cycles; and in how many strips the first one's sum gets its data.

A tile makes a halo as a whole, and stages go through it at once. What its sum reads need not be there as a whole: it is loaded
strip by strip, for some rows of the halo each, while the sums of the strip before are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.expr import Var
from autosched.ir.scopes import INP
from space.plan import Mask, Part, Plan, indices, times
from space.rule import Ints
from space.sites import sites_of

if TYPE_CHECKING:
    from space.model import Model
    from space.nest import Nest

ROWS = "strip"  # of a plan's ``others``: rows of the first halo in a strip at most, 0 where they come at once; shape (n,)


def elements(model: Model, part: Part) -> Ints:
    """Elements of each halo that one output tile of a part makes, shape (n, halos)."""
    found = [times(np.stack([_span(part, dim, reach) for dim, reach in zip(halo.dims, halo.reach)], axis=-1))
             for halo in model.nest.halos]
    return np.stack(found, axis=-1)


def _span(part: Part, dim: tuple[Sequence[int], int], reach: int) -> Ints:
    """Indices of a dimension of a halo that one output tile of a part makes, shape (n,)."""
    coeffs, size = dim
    span = ((part.tiles - 1) * np.array(coeffs, dtype=np.int64)).sum(axis=-1) + 1 + reach
    return np.asarray(np.minimum(span, size), dtype=np.int64)


def cycles(model: Model, part: Part) -> Ints:
    """Cycles that the halos of one output tile of a part take, shape (n,)."""
    return np.asarray((elements(model, part) * [halo.taken for halo in model.nest.halos]).sum(axis=-1), dtype=np.int64)


def tails(nest: Nest) -> tuple[int, ...]:
    """Of every halo, what an element costs behind the last product of all halos: no load waits for that."""
    stages = [(k, stage) for k, halo in enumerate(nest.halos) for stage in halo.stages]
    last = max((n for n, (_, stage) in enumerate(stages) if stage.products), default=-1)
    return tuple(sum(stage.taken for m, stage in stages[last + 1 :] if m == k) for k in range(len(nest.halos)))


def tail(model: Model, part: Part) -> Ints:
    """Cycles of these for one output tile of a part, shape (n,)."""
    return np.asarray((elements(model, part) * tails(model.nest)).sum(axis=-1), dtype=np.int64)


def floor(model: Model) -> int:
    """Cycles that every halo takes at least: of each element that some stage reads, once."""
    total = 0
    for halo in model.nest.halos:
        used = 1
        for (coeffs, _), reach in zip(halo.dims, halo.reach):
            axes = [a for a, c in enumerate(coeffs) if c]
            ends = {int(at) + step for at in indices(model.extents, coeffs, axes).ravel() for step in (0, reach)}
            used *= len(ends)
        total += used * halo.cycles
    return total


# -- strips ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Along what the sum of a nest's first halo may get its data strip by strip.

    Args:
        block: that sums.
        iterator: of the block, by its number, whose loop is cut.
        dim: of the halo, which the iterator runs over.
        operand: the data, by its number.
        along: the dimension of that which the iterator moves.
        step: by how much.
    """

    block: str
    iterator: int
    dim: int
    operand: int
    along: int
    step: int


def cut_of(nest: Nest) -> Cut | None:
    """The first dimension of the first halo that moves its data alone, the outermost one; None where there is none."""
    first = nest.halos[0].stages[0] if nest.halos and nest.anchor is None else None
    if first is None or not first.fresh:
        return None
    data = [k for k, o in enumerate(nest.operands) if first.block in o.readers and o.scope == INP]
    if len(data) != 1 or nest.operands[data[0]].readers != (first.block,):
        return None
    site = next(s for s in sites_of(nest.func) if s.block.name == first.block)
    iterators = [iv.var for iv in site.block.iter_vars]
    op = nest.operands[data[0]]
    for d, (coeffs, _) in enumerate(nest.halos[0].dims):
        moved = [a for a, c in enumerate(coeffs) if c and nest.axes[a].extent > 1]
        at = [n for n, (own, _) in enumerate(op.dims) if any(own[a] for a in moved)]
        index = site.store.indices[d]
        if len(moved) != 1 or len(at) != 1 or not isinstance(index, Var):
            continue
        others = [o for k, o in enumerate(nest.operands) if k != data[0] and o.scope != op.scope and first.block in o.readers]
        step, rest = divmod(op.dims[at[0]][0][moved[0]], coeffs[moved[0]])
        if step > 0 and not rest and not any(o.uses(moved[0]) for o in others):
            return Cut(first.block, iterators.index(index), d, data[0], at[0], step)
    return None


def rows(model: Model, part: Part) -> Ints:
    """Indices of the dimension that may be cut of what one output tile of a part makes, shape (n,)."""
    assert model.cut is not None
    halo = model.nest.halos[0]
    return _span(part, halo.dims[model.cut.dim], halo.reach[model.cut.dim])


def thick(model: Model, plan: Plan, part: Part) -> Ints:
    """How many of these a strip has, shape (n,)."""
    every = rows(model, part)
    wanted = plan.others.get(ROWS)
    return every if wanted is None or not wanted.any() else alike(model, every, wanted)


def alike(model: Model, every: Ints, wanted: Ints | int) -> Ints:
    """Rows of strips that all have as many: the most that divide a tile's and are no more than wanted; all where that is 0.

    Args:
        model: of the sketch.
        every: rows of a tile, shape (n,).
        wanted: at most, shape (n,) or one for all.
    """
    most = np.where(np.asarray(wanted) > 0, np.minimum(wanted, every), every)
    return np.asarray(model.parts_of[every, most], dtype=np.int64)


def divisors(most: int) -> Ints:
    """The largest divisor of every number up to ``most`` that is no larger than another number, shape (most + 1, most + 1)."""
    found = np.zeros((most + 1, most + 1), dtype=np.int64)
    for d in range(1, most + 1):
        found[d::d, d:] = d
    return found


def strips(model: Model, plan: Plan, part: Part) -> Ints:
    """In how many strips a tile's data are loaded, shape (n,)."""
    if model.cut is None:
        return np.ones(part.on.shape, dtype=np.int64)
    return np.asarray(rows(model, part) // thick(model, plan, part), dtype=np.int64)


def shorter(model: Model, plan: Plan, part: Part) -> Ints:
    """By how much the region of a load is shorter than a tile's, along the dimension that is cut, shape (n,)."""
    if model.cut is None:
        return np.zeros(part.on.shape, dtype=np.int64)
    return np.asarray((rows(model, part) - thick(model, plan, part)) * model.cut.step, dtype=np.int64)


def divisible(model: Model, plan: Plan) -> Mask:
    """In which rows data may come in strips: they are loaded inside all of the output's loops of several tiles, shape (n,)."""
    assert model.cut is not None
    k = model.cut.operand
    found = (plan.attach[k] > 0) & ~plan.keep[k]
    for part in plan.parts:
        inside = (plan.position >= plan.attach[k][:, None]) & (part.outer > 1)
        found &= ~(part.on & inside.any(axis=1))
    return np.asarray(found, dtype=np.bool_)
