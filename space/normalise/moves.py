"""Results of int8 elements as they came, padded, cut out or put together: they go through the accumulator like any value.

The machine stores what the accumulator holds, so an element that is only moved is widened on its way in and narrowed on its way
out, both exact. Of several tensors each comes in with zeros where another one is chosen, and they add up.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, int_value
from autosched.ir.functor import free_vars
from autosched.ir.patterns import choice_of
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import (
    device_block,
    device_blocks,
    has_digits,
    is_copy,
    is_placed,
    loads_of,
    moved,
    readers_of,
    store_of,
    written,
)


def apply(sch: Schedule, target: Target) -> None:
    """Writes every result that is a move of int8 elements from outside as a value that is computed."""
    params = set(sch.func.buffers)
    _straight(sch, params)
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        store = store_of(block)
        made = written(sch.func)
        loads = list(loads_of(block))
        if store.buffer not in params or store.buffer.dtype != "int8" or not loads or not is_copy(block, params - made):
            continue
        if len(loads) > 1:
            sch.expand_choice(sch.get_sblock(name))
        while (path := _copied(store_of(device_block(sch, name)).value)) is not None:
            sch.decompose_value(sch.get_sblock(name), path)
        sch.widen_block(sch.get_sblock(name))


def merged(sch: Schedule) -> None:
    """Lets blocks read what another one only moves where that comes from; of zeros around, and at quotients, those that can.

    A load takes what stands at quotients of places, or zeros around it, as a copy of its own, and a sum of products reads that.
    Where it sums over what is taken apart itself, it may sum over the digits: what it reads lies so already.

    Args:
        sch: of a program of plain blocks.
    """
    for name in reversed([b.name for b in device_blocks(sch.func)]):
        block = device_block(sch, name)
        store = store_of(block)
        if store.buffer in sch.func.buffers or block.init is not None or not is_placed(store.value):
            continue
        readers = readers_of(sch.func, store.buffer)
        own = [b for b in readers if _goes_into(block, b)]
        with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
            handle = sch.get_sblock(name)
            if own and len(own) < len(readers):
                handle = sch.recompute_at_consumers(handle, [sch.get_sblock(b.name) for b in own])[1]
            if own:
                sch.compute_inline(handle)
            for reader in own if not isinstance(store.value, BufferLoad) else ():
                sch.simplify_value(sch.get_sblock(reader.name))  # of one choice in another one is left


def _goes_into(block: Block, reader: Block) -> bool:
    """Whether a block may read what another one moves where that comes from."""
    store = store_of(block)
    moves = reader.init is None and is_placed(store_of(reader).value)
    around = choice_of(store.value)
    if around is not None:
        # Zeros around zeros are zeros around.
        return moves and choice_of(store_of(reader).value) is not None and int_value(around[2]) == 0
    apart = {v for x in loads_of(block) for i in x.indices if has_digits(i) for v in free_vars(i)}
    summed = {iv.var for iv in reader.iter_vars if iv.kind == "reduce"}
    return moves or not apart or all(
        i in summed for x in loads_of(reader) if x.buffer is store.buffer for v, i in zip(store.indices, x.indices) if v in apart)


def _straight(sch: Schedule, params: set[Buffer]) -> None:
    """Lets results that move what other blocks have moved read where that comes from."""
    outside = moved(sch.func)
    for name in reversed([b.name for b in device_blocks(sch.func)]):
        store = store_of(device_block(sch, name))
        readers = readers_of(sch.func, store.buffer)
        if store.buffer in params or store.buffer not in outside or store.buffer.dtype != "int8" or not readers:
            continue
        if all(store_of(b).buffer in params and is_copy(b, outside) for b in readers):
            try:
                sch.compute_inline(sch.get_sblock(name))
                for reader in readers:
                    sch.simplify_value(sch.get_sblock(reader.name))  # of two choices one may be left
            except ScheduleError:
                continue  # what is in the way of a schedule, or nothing to simplify, analysis says


def _copied(value: Expr) -> list[int] | None:
    """Where in a sum a term stands that a copy has to make first: what is chosen, or read at an index that is not affine."""
    if choice_of(value) is not None:
        return []
    if isinstance(value, BufferLoad):
        return [] if has_digits(*value.indices) else None
    if isinstance(value, BinOp):
        for k, side in enumerate((value.a, value.b)):
            path = _copied(side)
            if path is not None:
                return [k, *path]
    return None
