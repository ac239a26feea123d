"""Results of int8 elements as they came, padded, cut out or put together: they go through the accumulator like any value.

The machine stores what the accumulator holds, so an element that is only moved is widened on its way in and narrowed on its way
out, both exact. Of several tensors each comes in with zeros where another one is chosen, and they add up.
"""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr
from autosched.ir.patterns import choice_of
from autosched.ir.stmt import Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import (
    device_block,
    device_blocks,
    has_digits,
    is_copy,
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
