"""Length: programs with more instructions than are worth a simulation are not in the space.

Counted as lowering makes them: a copy's DMAs cover two dimensions each (one where padding or a border cuts rows); a matrix
product is one instruction per visit of its nest, more where micro-ops would not fit, where padding is left out, or where an
implementation needs micro-ops on one accumulator to be apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.ir.scopes import ACC
from autosched.lower.limits import LIMITS
from space.model import Model
from space.plan import Part, Plan, columns, times, turned, two_longest
from space.rule import Column, Ints, NumericRule, Points

# What lowering takes is what VTA's runtime can hold; programs of half that length are a hundred times slower than a layer's best.
LIMIT = LIMITS.instructions // 2


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
    # Every computing instruction may need its micro-ops loaded, and some carry tokens only.
    here = 2 * (_products(model, plan, part) + _elementwise(model, plan, part)) + stores(model, plan, part)
    for k in range(len(model.nest.operands)):
        here = here + model.fills(plan, part, k) * _dmas(model, plan, part, k)
    return np.asarray(16 + np.where(part.on, here, 0).sum(axis=0), dtype=np.int64)


def _dmas(model: Model, plan: Plan, part: Part, operand: int) -> Ints:
    """DMA instructions of one fill."""
    op = model.nest.operands[operand]
    extents = model.extent_of(plan, part, operand)
    total = times(extents)
    x, y = _two_innermost(extents, op.source)
    cut = np.full(len(plan), False)
    pieces = 1
    if op.producer is not None:
        # Where padding is left out, a border cuts rows off; where it is loaded, pads beyond 15 become DMAs of their own.
        cut = plan.drops
        pads = [size - source for (_, size), source in zip(op.dims, op.source)]
        if max(pads, default=0) > 15:
            cut, pieces = np.full(len(plan), True), 5
    covered = np.where(cut, x, x * y)
    if plan.keep[operand].any():
        # A piece of what stays lies among the others: only the innermost dimension there is surely one run, here or there.
        order, sizes, every = model.kept_order(plan, operand), model.shapes[operand].sizes, np.arange(len(plan))
        dim = order[:, -1].copy()
        for place in range(len(sizes) - 2, -1, -1):
            dim = np.where(sizes[dim] > 1, dim, order[:, place])
        covered = np.where(plan.keep[operand], extents[..., every, dim], covered)
    return np.asarray(np.where(cut, pieces, 1) * total // covered, dtype=np.int64)


def _two_innermost(extents: Ints, sizes: tuple[int, ...]) -> tuple[Ints, Ints]:
    """What the two dimensions of a DMA cover: a run along the innermost dimension, and the next one of more than one index.

    Args:
        extents: indices moved, shape (.., dims).
        sizes: of the tensor's dimensions; where the innermost ones have size 1, the next one is as good.
    """
    y = np.ones(extents.shape[:-1], dtype=np.int64)
    if not sizes:
        return y, y  # a single vector
    last = max((d for d, size in enumerate(sizes) if size > 1), default=0)
    x = extents[..., last]
    for d in range(last - 1, -1, -1):
        y = np.where(y == 1, extents[..., d], y)
    return x, y


def _products(model: Model, plan: Plan, part: Part) -> Ints:
    """GEMM instructions, resets included."""
    if model.nest.anchor is None:
        return np.zeros(part.on.shape, dtype=np.int64)
    from space._length_kernel import products

    nest, every = model.nest, len(model.extents)
    depth = np.full(len(plan), model.n_spatial, dtype=np.int64)
    for k, operand in enumerate(nest.operands):
        if operand.scope != ACC:
            depth = np.maximum(depth, plan.attach[k])
    taps = np.full((len(model.padding.taps), every), -1, dtype=np.int64)
    for row, group in zip(taps, model.padding.taps):
        row[: len(group)] = group[::-1]
    reduce = np.zeros(every, dtype=np.bool_)
    reduce[list(nest.reduce)] = True
    config = model.config
    found = np.zeros((4, *np.atleast_2d(part.on).shape), dtype=np.int64)
    products(
        *turned(plan, part), columns(plan.position), depth, np.array(plan.drops), taps, reduce, model.n_spatial,
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


def _elementwise(model: Model, plan: Plan, part: Part) -> Ints:
    """ALU instructions: every operation once per slice of a tile; one more may refresh what is stored."""
    whole = np.full(len(plan), model.n_spatial, dtype=np.int64)
    tile = model.tile_elements(part)
    slices = model.slices(plan, part)
    large = tile >= (model.config.uop_capacity + 1) * two_longest(part.tiles[..., : model.n_spatial])
    # What is done for several tiles at once takes no more than for each of them, but where it does not fit.
    large |= times(model.out_tiles(plan, part)) >= (model.config.uop_capacity + 1) * two_longest(model.out_tiles(plan, part))
    pieces = np.where(large, tile, slices)
    operations = model.imm_ops + model.tensor_ops + model.added + sum(model.nest.init_ops) + len(model.nest.stages) + 2
    total = model.trips(plan, part, whole) * pieces * operations
    if model.nest.halos:
        # A list of micro-ops for every instruction, or at the worst an instruction for every element.
        made = model.halo_elements(part)
        runs = np.where(made > model.config.uop_capacity, made, 1) * [halo.operations for halo in model.nest.halos]
        total = total + model.trips(plan, part, whole) * runs.sum(axis=-1)
    return np.asarray(total, dtype=np.int64)


def stores(model: Model, plan: Plan, part: Part) -> Ints:
    """STORE instructions: two dimensions of a slice each; a slice across the innermost one stores element by element."""
    tiles = model.out_tiles(plan, part)
    x, y = _two_innermost(tiles, tuple(model.nest.axes[a].extent for a in model.nest.spatial))
    per_tile = np.where(part.slices > 0, times(tiles), times(tiles) // (x * y))
    return np.asarray(model.nest.stores * model.trips(plan, part, part.out) * per_tile, dtype=np.int64)
