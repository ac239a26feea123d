"""Results that are no int8: the machine stores their bytes, and the host puts them together."""

from __future__ import annotations

from autosched.ir.expr import BufferLoad, Cast
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.planes import WIDE, wide_value
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, named, readers_of, store_of
from space.normalise.handed import stored


def applies(func: PrimFunc) -> bool:
    """Whether some result is of a type that the machine does not store."""
    return any(b.dtype in WIDE and any(store_of(x).buffer is b for x in device_blocks(func)) for b in func.buffers)


def apply(sch: Schedule, target: Target) -> None:
    """Stores every such result in bytes.

    Raises:
        ScheduleError: what the primitives refuse.
    """
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        store = store_of(block)
        if store.buffer not in stored(sch.func) or store.buffer.dtype not in WIDE:
            continue
        value = None if block.init is not None else wide_value(store)
        readers = readers_of(sch.func, store.buffer)
        if not readers and value is not None and not isinstance(value, BufferLoad) and isinstance(store.value, Cast):
            sch.decompose_value(sch.get_sblock(name), [0])
        elif readers or value is None or not isinstance(value, BufferLoad):
            # What others read of it is in the accumulator.
            copy = sch.cache_write(sch.get_sblock(name), 0, "local", [sch.get_sblock(r.name) for r in readers])
            sch.set_scope(sch.get_sblock(name), 0, "global")
            name = named(sch, copy)
        handle = sch.get_sblock(name)
        sch.split_bytes(handle)
        sch.host_stage(handle)
