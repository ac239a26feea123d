"""Length: programs with more instructions than are worth a simulation are not in the space.

Counted as lowering makes them: a copy's DMAs cover two dimensions each (one where padding, a border or a smaller last tile cuts
rows); a matrix product is one instruction per visit of its nest, more where micro-ops would not fit, where padding is left out,
or where an implementation needs micro-ops on one accumulator to be apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.lower.limits import LIMITS
from space import borders
from space.model import Model
from space.plan import Part, Plan, columns, ends, times, turned
from space.rule import Column, Ints, NumericRule, Points

# What lowering takes is what VTA's runtime can hold; programs of half that length are a hundred times slower than a layer's best.
LIMIT = LIMITS.instructions // 2
MOST_PADS = 15  # indices of padding on a side that a DMA makes


class Length(NumericRule):
    """No column: a limit on what the others decide."""

    name = "length"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """None."""
        return ()

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Nothing."""

    def allows(self, model: Model, points: Points, plan: Plan) -> npt.NDArray[np.bool_]:
        """Whether each point's program has at most LIMIT instructions for sure, shape (n,)."""
        return np.asarray(instructions(model, plan) <= LIMIT // model.nests, dtype=np.bool_)


def instructions(model: Model, plan: Plan) -> Ints:
    """An upper bound of the number of instructions of each point's program, shape (n,)."""
    part = plan.stack
    operations, stores = elementwise(model, plan, part)
    # Every computing instruction may need its micro-ops loaded, and some carry tokens only.
    here = 2 * (products(model, plan, part) + operations) + stores + dmas(model, plan, part)
    return np.asarray(16 + np.where(part.on, here, 0).sum(axis=0), dtype=np.int64)


def dmas(model: Model, plan: Plan, part: Part) -> Ints:
    """LOAD instructions of a part, all fills of all operands, shape (n,)."""
    from space import _length_kernel

    operands = model.nest.operands
    every, found = (len(operands), len(plan)), np.zeros(np.atleast_2d(part.on).shape, dtype=np.int64)
    fills = model.every_fill(plan) if part.on.ndim > 1 else model.every_fill(plan)[:, plan.place_of(part)]
    pads = [max((size - source for (_, size), source in zip(o.dims, o.source)), default=0) for o in operands]
    dims, movers, sizes = model.dims
    _length_kernel.dmas(
        model.regions(plan, part), np.array(fills).reshape(every[0], *found.shape), ends(plan, part),
        columns(model.loops_outside(plan)), columns(plan.position), np.array(plan.attach, dtype=np.int64).reshape(every),
        np.array(plan.keep, dtype=np.bool_).reshape(every), np.array(plan.drops), np.array(pads, dtype=np.int64) > MOST_PADS,
        dims, movers, sizes, np.zeros(sizes.shape[1], dtype=np.int64), found,
    )
    return found if part.on.ndim > 1 else found[0]


def products(model: Model, plan: Plan, part: Part) -> Ints:
    """GEMM instructions, resets included."""
    if model.nest.anchor is None:
        return np.zeros(part.on.shape, dtype=np.int64)
    from space import _length_kernel

    nest, every = model.nest, len(model.extents)
    depth = model.around_products(plan)
    taps = np.full((len(model.padding.taps), every), -1, dtype=np.int64)
    for row, group in zip(taps, model.padding.taps):
        row[: len(group)] = group[::-1]
    reduce = np.zeros(every, dtype=np.bool_)
    reduce[list(nest.reduce)] = True
    config = model.config
    found = np.zeros((4, *np.atleast_2d(part.on).shape), dtype=np.int64)
    _length_kernel.products(
        np.array(np.atleast_2d(part.on)), *turned(plan, part), ends(plan, part), columns(plan.position), depth,
        np.array(plan.drops), taps, reduce, model.n_spatial,
        # Of the ALU no implementation takes one accumulator twice in a row.
        config.uop_capacity, model.target.semantics == "portable" or not nest.tensorized, config.uop_capacity >= config.acc_depth,
        np.zeros((3, every), dtype=np.int64), found,
    )
    visits, pieces, tiles, resets = found if part.on.ndim > 1 else found[:, 0]
    if nest.wides:
        # A reset and a product for every row of what is widened, at the worst.
        pieces = pieces + 2 * model.wide_elements(part)
    if not nest.tensorized:
        pieces = pieces * max(1, nest.step)
    return np.asarray(visits * pieces + tiles * resets, dtype=np.int64)


def elementwise(model: Model, plan: Plan, part: Part) -> tuple[Ints, Ints]:
    """ALU instructions of a part, and STOREs, shape (n,) each.

    Every operation is done once per slice of a tile; one more may refresh what is stored.
    """
    from space import _length_kernel

    on, slices, thick, out = (np.array(np.atleast_2d(own)) for own in (part.on, part.slices, part.thick, part.out))
    found = np.zeros((2, *on.shape), dtype=np.int64)
    _length_kernel.elementwise(
        on, *turned(plan, part), ends(plan, part), columns(plan.position), slices, thick, out, model.extents,
        model.n_spatial, model.config.uop_capacity, np.zeros((2, len(model.extents)), dtype=np.int64), found,
    )
    pieces, stores = found if part.on.ndim > 1 else found[:, 0]
    operations = pieces * (model.imm_ops + model.tensor_ops + model.added + sum(model.nest.init_ops) + len(model.nest.stages) + 2)
    if model.nest.halos:
        # A list of micro-ops for every instruction, or at the worst an instruction for every element.
        made = borders.elements(model, part)
        runs = np.where(made > model.config.uop_capacity, made, 1) * [halo.operations for halo in model.nest.halos]
        runs[..., 0] *= borders.strips(model, plan, part)
        operations = operations + times(part.outer[..., : model.n_spatial]) * runs.sum(axis=-1)
    return operations, model.nest.stores * stores
