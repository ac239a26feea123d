"""What the program computes and reads elsewhere: what it moves, as views and slices are written, is made where it goes.

A block that only moves elements reads them at other places than it stores, and the accelerator stores vectors as they are made.
So the stage that makes them takes the place of the move, and the sum in front of it is computed in the order that the stage
wants: a layout of what the sum reads, which the host gives for free where that is a parameter. What stages read elsewhere, and
int8 holds, is stored as int8: it comes back from memory then, at whatever place. So is what they make of a sum alone, a mean say.
"""

from __future__ import annotations

from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad
from autosched.ir.functor import free_vars
from autosched.ir.patterns import loads_in
from autosched.ir.stmt import Block, Buffer, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.factors import is_narrow
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.target import Target
from space.normalise import places
from space.normalise.blocks import (
    device_block,
    device_blocks,
    elements_of,
    extents,
    given,
    loads_of,
    named,
    product_of,
    readers_of,
    store_of,
    writer_of,
    written,
)
from space.normalise.copies import paths_to
from space.normalise.gathers import reindexed

MOST = 16  # moves behind each other


def applies(func: PrimFunc) -> bool:
    """Whether a block moves elements that the program makes to where other blocks read them, or reads elsewhere what fits int8.

    Args:
        func: a program of plain blocks.
    """
    return any(_moves(func, block) or _stored(func, block) or _of_a_sum(func, block) for block in device_blocks(func))


def apart(sch: Schedule, target: Target) -> Schedule | None:
    """A schedule without such moves, what else is read elsewhere stored; None where there is nothing, or a primitive refuses.

    Args:
        sch: of the program.
        target: the machine.
    """
    made = sch.copy()
    try:
        for block in device_blocks(sch.func):
            if _stored(made.func, device_block(made, block.name)):
                made.narrow_block(made.get_sblock(block.name))
            for _ in range(MOST):
                path = _of_a_sum(made.func, device_block(made, block.name))
                if path is None:
                    break
                made.narrow_block(made.decompose_value(made.get_sblock(block.name), path, True))
        for name in reversed([b.name for b in device_blocks(sch.func)]):
            for _ in range(MOST):
                if not _stands(made, name) or not _moves(made.func, device_block(made, name)):
                    break
                _made_there(made, name)
        made = places.apart(made, target)
        laid_out(made)
    except ScheduleError:
        return None  # what is in the way of a schedule, analysis says
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def _moves(func: PrimFunc, block: Block) -> bool:
    store = store_of(block)
    value = store.value
    if block.init is not None or not isinstance(value, BufferLoad) or store.buffer in func.buffers:
        return False
    return value.buffer not in func.buffers and value.indices != store.indices and writer_of(func, value.buffer) is not None


def _stored(func: PrimFunc, block: Block) -> bool:
    """Whether stages read elsewhere what a block makes in int32 and int8 holds."""
    made = store_of(block).buffer
    if block.init is not None or made in func.buffers or not is_narrow(func, block, store_of(block).value):
        return False
    readers = [b for b in readers_of(func, made) if b.init is None]
    return any(x.buffer is made and x.indices != store_of(b).indices for b in readers for x in loads_of(b))


def _of_a_sum(func: PrimFunc, block: Block) -> list[int] | None:
    """Where a stage computes what int8 holds of one element of a sum that it reads elsewhere: the path of the most of it.

    A stage that reads nothing else is what is made of the sum: it only has fewer elements.
    """
    store, made = store_of(block), written(func)
    if block.init is not None or len(loads_in(store.value)) < 2:
        return None
    summed = {store_of(b).buffer for b in device_blocks(func) if b.init is not None and store_of(b).buffer not in func.buffers}
    for path in paths_to(store.value, summed & made):
        load = part_at(block, store.value, path)
        assert isinstance(load, BufferLoad)
        if load.indices == store.indices:
            continue
        for n in range(1, len(path)):
            part = part_at(block, store.value, path[:n])
            if loads_in(part) == [load] and set(free_vars(part)) == set(free_vars(load)) and is_narrow(func, block, part):
                return path[:n]
    return None


def _stands(sch: Schedule, name: str) -> bool:
    return any(b.name == name for b in device_blocks(sch.func))


def _by_given(func: PrimFunc, buffer: Buffer) -> bool:
    """Whether all that reads a tensor multiplies it by parameters: the order of a sum is for the parameter to follow."""
    products = [product_of(b) for b in readers_of(func, buffer)]
    return bool(products) and all(
        p is not None and any(f.buffer in given(func) for f in p.factors) for p in products)


def _made_there(sch: Schedule, name: str) -> None:
    """Lets a block make what it moves, or its readers read what it moves."""
    store = store_of(device_block(sch, name))
    value = store.value
    assert isinstance(value, BufferLoad)
    if _by_given(sch.func, store.buffer):
        sch.compute_inline(sch.get_sblock(name))
        return
    maker = writer_of(sch.func, value.buffer)
    assert maker is not None
    handle = sch.get_sblock(maker.name)
    if len(readers_of(sch.func, value.buffer)) > 1:
        handle = sch.recompute_at_consumers(handle, [sch.get_sblock(name)])[1]
    if device_block(sch, named(sch, handle)).init is None:
        sch.compute_inline(handle)
        return
    sch.recompute_at_reads(handle)
    sch.compute_inline(sch.get_sblock(name))  # it only copies now


def laid_out(sch: Schedule) -> None:
    """Lets the host lay out the parameters that products read at sums of their iterators, each element once."""
    for name in [b.name for b in device_blocks(sch.func)]:
        product = product_of(device_block(sch, name))
        for factor in product.factors if product is not None else ():
            block = device_block(sch, name)
            size = extents(block)
            mixed = any(len(free_vars(index)) > 1 for index in factor.indices)
            reached = prod(size[v] for v in size if v in {v for index in factor.indices for v in free_vars(index)})
            if mixed and factor.buffer in given(sch.func) and reached <= elements_of(factor.buffer):
                reindexed(sch, block.name, factor.buffer.name)
