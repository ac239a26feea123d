"""Sums of products along rows: a product of rows with each other makes them, of which the largest is the one that is wanted.

A square or a product that is summed up along each row, as of a norm, has no index that one factor has alone, which could be the
lanes: those of the rows would be, and one factor a diagonal, that holds as many elements for each of it as there are lanes, and
that the program makes where it makes the factor. A product of all rows of a group with each other takes as little as another
product; of what it makes those of a row with itself are picked by a comparison (``cross_rows``), where the sums are made
(``fused.py``). What the factors are made of is made for these alone, with the lanes that a product has, and so are sums in it
(``everywhere.py``): others may want it with rows as lanes.
"""

from __future__ import annotations

from typing import NamedTuple

from autosched.ir.expr import BufferLoad, int_value
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.crossing import MOST_STEPS, row_of
from autosched.target import Target
from space.normalise import everywhere
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    loads_of,
    named,
    product_of,
    readers_of,
    steps_of,
    store_of,
    writer_of,
)
from space.normalise.copies import constant, copied

MOST = 16  # sums
MOST_ROWS = 64  # of a group: so many a window compares


class _Sum(NamedTuple):
    """A sum along rows.

    Args:
        block: it.
        axis: which of its iterators the rows are.
        size: rows of a group.
    """

    block: Block
    axis: int
    size: int


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether a block sums up products of int8 elements of which neither has an index that the other one has not.

    Args:
        func: a program of plain blocks.
        target: the machine.
    """
    return target.config.block_in == target.config.block_out and _first(func, target) is not None


def apart(sch: Schedule, target: Target) -> Schedule | None:
    """A schedule in which such sums are picked from products of rows with each other; None where none is, or one cannot be.

    Args:
        sch: of the program.
        target: the machine.
    """
    return everywhere.one_by_one(
        sch, lambda func: _first(func, target), lambda made, found: _crossed(made, found, target), MOST)


def _first(func: PrimFunc, target: Target) -> _Sum | None:
    """The first of such sums."""
    for block in device_blocks(func):
        product = product_of(block)
        zero = isinstance(block.init, BufferStore) and int_value(block.init.value) == 0
        if product is None or not zero or not 1 < steps_of(block) <= MOST_STEPS:
            continue
        size = extents(block)
        spatial = [iv.var for iv in block.iter_vars if iv.kind != "reduce" and size[iv.var] > 1]
        inside = [{v for i in f.indices for v in free_vars(i)} for f in product.factors]
        if not spatial or any(v not in one for v in spatial for one in inside):
            continue  # it is a product of matrices, whose lanes are those that one of both has alone
        # The last of what is stored lies side by side.
        order = [v for i in reversed(store_of(block).indices) for v in spatial if v is i]
        for var in order:
            rows = _group(size[var], target)
            if rows is not None and any(row_of(f, var) is not None for f in product.factors):
                return _Sum(block, next(n for n, iv in enumerate(block.iter_vars) if iv.var is var), rows)
    return None


def _group(rows: int, target: Target) -> int | None:
    """Rows of a group: as many as lanes where these divide them, or all of them."""
    lanes = target.config.block_out
    if rows > lanes and rows % lanes == 0:
        return lanes
    return rows if 1 < rows <= MOST_ROWS else None


def _crossed(sch: Schedule, found: _Sum, target: Target) -> None:
    """Lets a product of rows with rows make a sum."""
    product = product_of(found.block)
    assert product is not None
    for factor in dict.fromkeys(f.buffer for f in product.factors):
        maker = writer_of(sch.func, factor)
        if maker is not None and (len(readers_of(sch.func, factor)) > 1 or factor in sch.func.buffers):
            own = sch.recompute_at_consumers(sch.get_sblock(maker.name), [sch.get_sblock(found.block.name)])
            everywhere.made_for(sch, named(sch, own[1]), target)
    block = sch.cross_rows(sch.get_sblock(found.block.name), found.axis, found.size)
    constant(sch, block)
    name = named(sch, block)
    loads = [x for x in loads_of(device_block(sch, name)) if x.dtype == "int8"]
    if len({x.buffer for x in loads}) < 2 and writer_of(sch.func, loads[0].buffer) is None:
        # As data and as weight it lies otherwise.
        copied(sch, name, _last(device_block(sch, name)))


def _last(block: Block) -> BufferLoad:
    """The second factor of a product."""
    product = product_of(block)
    assert product is not None
    return product.factors[1]
