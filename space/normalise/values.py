"""Values in plain operations: choices as minima and maxima, padding in one form, products of what is int8 itself.

A stage that only converts for a product is written into the product; a type between int8 and int32, which no memory of the
machine holds, is left out where nothing is lost.
"""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Cast, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, has_loads, is_widened
from autosched.ir.scopes import HELD
from autosched.ir.stmt import Block
from autosched.schedule import Schedule
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.values import simplified
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, loads_of, readers_of, store_of, written


def apply(sch: Schedule, target: Target) -> None:
    """Writes what every block stores more plainly, where there is a plainer form."""
    for goes in (_joins, _goes_into):
        for name in [b.name for b in device_blocks(sch.func)]:
            if goes(sch, device_block(sch, name)):
                try:
                    sch.compute_inline(sch.get_sblock(name))
                except ScheduleError:
                    continue  # what is in the way of a schedule, analysis says
    for name in [b.name for b in device_blocks(sch.func)]:
        if _pads_wide(sch, device_block(sch, name)):
            sch.narrow_block(sch.get_sblock(name))
    for name in [b.name for b in device_blocks(sch.func)]:
        try:
            simplified(sch.func, device_block(sch, name))
        except Refusal:
            continue  # there is nothing to do
        sch.simplify_value(sch.get_sblock(name))


def _joins(sch: Schedule, block: Block) -> bool:
    """Whether a stage of int32 parameters alone feeds a stage that goes on from something else as well: one chain joins them."""
    store = store_of(block)
    made = written(sch.func)
    sources = list(loads_of(block))
    if block.init is not None or store.buffer in sch.func.buffers or store.buffer.dtype != "int32" or not sources:
        return False
    if any(x.buffer in made or x.dtype != "int32" for x in sources):
        return False
    readers = readers_of(sch.func, store.buffer)
    return len(readers) == 1 and readers[0].init is None and any(
        x.buffer in made and x.buffer is not store.buffer for x in loads_of(readers[0]))


def _pads_wide(sch: Schedule, block: Block) -> bool:
    """Whether a block only converts int8 elements, and pads them with zeros, for reductions: a load does that to int8."""
    store = store_of(block)
    parts = choice_of(store.value)
    if block.init is not None or parts is None or has_loads(parts[0]) or store.buffer in sch.func.buffers:
        return False
    readers = readers_of(sch.func, store.buffer)
    return is_widened(parts[1]) and int_value(parts[2]) == 0 and all(b.init is not None for b in readers)


def _goes_into(sch: Schedule, block: Block) -> bool:
    """Whether a stage is written into its readers: it only converts for products, or no memory holds its type."""
    made = store_of(block).buffer
    return made not in sch.func.buffers and (_converts(sch, block) or made.dtype not in HELD)


def _converts(sch: Schedule, block: Block) -> bool:
    """Whether a block only widens int8 elements that products read."""
    store = store_of(block)
    value = store.value
    narrow = value.value if isinstance(value, Cast) else None
    if block.init is not None or not isinstance(narrow, BufferLoad) or narrow.dtype != "int8":
        return False
    readers = readers_of(sch.func, store.buffer)
    products = [e for b in readers for e in walk_expr(store_of(b).value) if isinstance(e, BinOp) and e.op == "*"]
    factors = [f for e in products for f in (e.a, e.b) if isinstance(f, BufferLoad) and f.buffer is store.buffer]
    return bool(factors) and all(b.init is not None for b in readers)
