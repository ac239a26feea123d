"""Results that stages read element by element: they read what is stored where it is made, and not what comes back from memory."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, loads_of, store_of


def apply(sch: Schedule, target: Target) -> None:
    """Lets every int8 result that stages read in the order in which they store be a copy of what they read."""
    params = set(sch.func.buffers)
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        store = store_of(block)
        if store.buffer not in params or store.buffer.dtype != "int8" or block.init is not None:
            continue
        readers = [b for b in device_blocks(sch.func) if any(x.buffer is store.buffer for x in loads_of(b))]
        near = [b.name for b in readers if b.init is None and all(
            x.indices == store_of(b).indices for x in loads_of(b) if x.buffer is store.buffer)]
        if near:
            try:
                sch.cache_write(sch.get_sblock(name), 0, "local", [sch.get_sblock(reader) for reader in near])
                sch.set_scope(sch.get_sblock(name), 0, "global")
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says
