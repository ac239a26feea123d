"""Sums that stages read for more lanes than they are made for: they are made for each of them, by a matrix of ones and zeros.

A mean over channels has none, and what is taken away from every channel lies in their lanes: with the images or rows as lanes, of
which there may be few, weights by channel are a diagonal for each vector. The GEMM makes a sum for all lanes at no more than for
one, where the matrix of a product says what counts for which: all ones for a mean of all channels, and for one of each group
ones where a channel is one of the group. The stages behind the sum are computed for each lane as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.factors import is_narrow
from autosched.schedule.primitives.reductions.matrices import element_of
from autosched.target import Target
from space.normalise.blocks import device_blocks, extents, loads_of, readers_of, store_of, writer_of
from space.normalise.copies import constant

MOST = 16  # sums, and stages behind them
Found = TypeVar("Found")


class _Read(NamedTuple):
    """What a stage reads for other lanes than it is made for.

    Args:
        reader: the stage.
        load: what it reads: a sum, or what stages make of one.
        lane: the stage's iterator along which it is to be made.
    """

    reader: Block
    load: BufferLoad
    lane: Var


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether a stage reads sums of int8 elements, or what is made of them, for more lanes than they are made for.

    Args:
        func: a program of plain blocks.
        target: the machine.
    """
    return target.config.block_in == target.config.block_out and _first(func, target) is not None


def apart(sch: Schedule, target: Target) -> Schedule | None:
    """A schedule in which such sums are made for all of the lanes; None where there are none, or a primitive refuses.

    Args:
        sch: of the program.
        target: the machine.
    """
    return one_by_one(sch, lambda func: _first(func, target), lambda made, found: _made(made, found, target), MOST)


def one_by_one(
    sch: Schedule, first: Callable[[PrimFunc], Found | None], change: Callable[[Schedule, Found], None], most: int
) -> Schedule | None:
    """A schedule in which everything is changed that is found, the first of it again and again; None where there is none.

    Args:
        sch: of the program; stays as it is.
        first: what is found first in a program.
        change: changes it; what a primitive refuses makes it None.
        most: how often.
    """
    made = sch.copy()
    try:
        for _ in range(most):
            found = first(made.func)
            if found is None:
                break
            change(made, found)
    except ScheduleError:
        return None  # what is in the way of a schedule, analysis says
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def made_for(sch: Schedule, name: str, target: Target) -> None:
    """Makes what one stage reads so for all of its lanes.

    Args:
        sch: of the program.
        name: of the stage.
        target: the machine.

    Raises:
        ScheduleError: a primitive refuses.
    """
    for _ in range(MOST):
        found = _first(sch.func, target, name)
        if found is None:
            break
        _made(sch, found, target)


def _first(func: PrimFunc, target: Target, name: str | None = None) -> _Read | None:
    """The first of what is read so, by any stage or by one of them."""
    for block in device_blocks(func):
        if name not in (None, block.name):
            continue
        for load in loads_of(block) if block.init is None else ():
            total = _sum_behind(func, load)
            lane = _lane(block, load, target) if total is not None and load.buffer not in func.buffers else None
            if total is not None and lane is not None and _depth(total, target) is not None:
                return _Read(block, load, lane)
    return None


def _sum_behind(func: PrimFunc, load: BufferLoad) -> Block | None:
    """The sum of int8 elements that is read, or that stages make what is read of, each where it stands."""
    maker = writer_of(func, load.buffer)
    while maker is not None and maker.init is None:
        read = [*dict.fromkeys(x for x in loads_of(maker))]
        if len(read) != 1 or read[0].indices != store_of(maker).indices:
            return None
        maker = writer_of(func, read[0].buffer)
    return maker if maker is not None and element_of(maker) is not None else None


def _lane(block: Block, load: BufferLoad, target: Target) -> Var | None:
    """The iterator that is to be the lanes of what a stage reads: that which it reads digits of, or the fullest of the rest."""
    size = extents(block)
    apart = [(i, int_value(n) or 0) for i, n in zip(load.indices, load.buffer.shape) if free_vars(i) and not isinstance(i, Var)]
    if apart:
        moved = [v for index, _ in apart for v in free_vars(index)]
        return moved[0] if len(moved) == 1 and size.get(moved[0], 0) > apart[0][1] else None
    rest = [v for i in store_of(block).indices for v in free_vars(i) if size.get(v, 1) > 1 and v not in load.indices]
    return min(reversed(rest), key=lambda v: _waste(size[v], target), default=None)


def _depth(total: Block, target: Target) -> int | None:
    """The dimension of what a sum takes in that the matrix has: that of groups, or the fullest of those that it goes over."""
    load = element_of(total)
    assert load is not None
    sums = {iv.var for iv in total.iter_vars if iv.kind == "reduce"}
    over = [d for d, i in enumerate(load.indices) if sums & set(free_vars(i))]

    def least(d: int) -> tuple[bool, float, int]:
        return not set(free_vars(load.indices[d])) - sums, _waste(int_value(load.buffer.shape[d]) or 1, target), -d

    return min(over, key=least, default=None)


def _waste(extent: int, target: Target) -> float:
    lanes = target.config.block_out
    return -(-extent // lanes) * lanes / extent


def _made(sch: Schedule, found: _Read, target: Target) -> None:
    """Makes what is read for each of the lanes; a sum is a product with a matrix then."""
    reader, lane = found.reader, found.lane
    total = _sum_behind(sch.func, found.load)
    maker = writer_of(sch.func, found.load.buffer)
    assert total is not None and maker is not None
    depth = _depth(total, target)
    assert depth is not None
    handle = sch.get_sblock(maker.name)
    if len(readers_of(sch.func, found.load.buffer)) > 1:
        handle = sch.recompute_at_consumers(handle, [sch.get_sblock(reader.name)])[1]
    moved = {v for i in found.load.indices for v in free_vars(i)}
    of = next(n for n, iv in enumerate(reader.iter_vars) if iv.var is lane)
    along = [n for n, iv in enumerate(reader.iter_vars) if iv.var in moved and n != of] + [of]
    # What has no such index at all is the same in every element: where it is stored as int8, it is made for one of them.
    lanes = target.config.block_out
    store = store_of(maker)
    stored = maker.init is None and (store.buffer.dtype == "int8" or is_narrow(sch.func, maker, store.value))
    last = lanes if stored and lane not in moved and extents(reader)[lane] > lanes else None
    for copy in sch.recompute_at_reads(handle, along=along, last=last):
        if last is not None and store.buffer.dtype == "int32":
            sch.narrow_block(copy)
        if maker.init is not None:
            sch.sum_by_matrix(copy, len(along) - 1, depth)
            constant(sch, copy)
