"""The narrowing apart: what an int8 result converts is computed in a stage of its own, and so is what is computed in int8."""

from __future__ import annotations

from autosched.ir.expr import BinOp, BufferLoad, Cast
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks, is_extremum, loads_of, readers_of, store_of, written
from space.normalise.widening import computed


def apply(sch: Schedule, target: Target) -> None:
    """Splits a stage off every block that computes and narrows at once."""
    for block in device_blocks(sch.func):
        # What is computed in int8 from tensors that come from outside; what a stage has narrowed stays in the accumulator.
        store = store_of(block)
        inside = computed(sch) - {store.buffer.name}
        outside = any(x.buffer.name not in inside for x in loads_of(block)) or block.init is not None
        outside |= not is_extremum(store.value)
        if store.buffer.dtype == "int8" and isinstance(store.value, BinOp) and outside:
            if block.init is not None and store.buffer in sch.func.buffers:
                # Its running value is int32 from here on, so it cannot be the result itself. Copies are named after their scopes.
                sch.cache_write(sch.get_sblock(block.name), 0, "local")
                sch.set_scope(sch.get_sblock(block.name), 0, "global")
            sch.widen_block(sch.get_sblock(block.name))
    made = written(sch.func)
    for block in device_blocks(sch.func):
        store = store_of(block)
        value = store.value
        if block.init is not None or store.buffer.dtype != "int8":
            continue
        # What a stage after it reads is a stage itself.
        last = not readers_of(sch.func, store.buffer)
        if isinstance(value, BinOp) and last and any(x.buffer in made for x in loads_of(block)):
            sch.decompose_value(sch.get_sblock(block.name), [])
            continue
        if not isinstance(value, Cast) or value.value.dtype != "int32":
            continue
        # A sum that is only narrowed stays where it is; a parameter has to come into the accumulator first.
        if not (isinstance(value.value, BufferLoad) and value.value.buffer in made and value.value.indices == store.indices):
            sch.decompose_value(sch.get_sblock(block.name), [0])
