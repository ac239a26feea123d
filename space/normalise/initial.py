"""Tensors that a block of its own sets first: one reduction with an initial value, or one store of what is set in parts."""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.patterns import loads_from
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import loops
from space.normalise.blocks import device_block, device_blocks, store_of


def plainly(sch: Schedule, target: Target) -> None:
    """Gives each block loops of its own, in one order, and each tensor one block that sets it: where most forms begin.

    Raises:
        ScheduleError: a block's loops are not such that it can have its own.
    """
    loops.apart(sch, target)
    apply(sch, target)
    loops.apply(sch, target)
    overwritten(sch, target)


def apply(sch: Schedule, target: Target) -> None:
    """Composes every block that updates in place with the one that sets what it updates."""
    for block in device_blocks(sch.func):
        store = store_of(block)
        own = loads_from(store.value, store.buffer)
        if block.init is not None or not own:
            continue
        setting = [b.name for b in device_blocks(sch.func) if b.name != block.name and store_of(b).buffer is store.buffer]
        if len(setting) == 1:
            try:
                sch.compose_reduction(sch.get_sblock(setting[0]), sch.get_sblock(block.name))
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says


def overwritten(sch: Schedule, target: Target) -> None:
    """Stores once what one block sets and a later one sets anew in a part, as padding is."""
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        first = next(b for b in device_blocks(sch.func) if store_of(b).buffer is store_of(block).buffer)
        if first is not block:
            with suppress(ScheduleError), sch.all_or_none():  # most tensors of several blocks are concatenations
                sch.compose_overwrite(sch.get_sblock(first.name), sch.get_sblock(name))
