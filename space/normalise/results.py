"""Results that stages read element by element: they read what is stored where it is made, and not what comes back from memory."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.host import is_move
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, is_extremum, loads_of, product_of, readers_of, store_of, written


def apply(sch: Schedule, target: Target) -> None:
    """Lets every int8 result that stages read in the order in which they store be a copy of what they read.

    What a product reads is in memory in any case, what a stage adds to another chain comes from there, and what is only
    moved never leaves it.
    """
    params = set(sch.func.buffers)
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        store = store_of(block)
        if store.buffer not in params or store.buffer.dtype != "int8" or block.init is not None:
            continue
        readers = readers_of(sch.func, store.buffer)
        others = written(sch.func) - {store.buffer}
        near = [b.name for b in readers if b.init is None and all(
            x.indices == store_of(b).indices if x.buffer is store.buffer else x.buffer not in others or is_extremum(
                store_of(b).value) for x in loads_of(b))]
        if near and not is_move(store.value) and not any(product_of(b) for b in readers):
            try:
                sch.cache_write(sch.get_sblock(name), 0, "local", [sch.get_sblock(reader) for reader in near])
                sch.set_scope(sch.get_sblock(name), 0, "global")
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says
