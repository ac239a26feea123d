"""The narrowing apart: what an int8 result converts is computed in a stage of its own, and so is what is computed in int8."""

from __future__ import annotations

from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.patterns import is_shifted
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, is_extremum, is_placed, loads_of, readers_of, store_of, written
from space.normalise.widening import computed


def apply(sch: Schedule, target: Target, loaded: bool = False) -> None:
    """Splits a stage off every block that computes and narrows at once.

    Args:
        sch: of the program.
        target: the machine.
        loaded: as for ``widening.apply``.
    """
    for block in device_blocks(sch.func):
        # What is computed in int8 from tensors that come from outside; what a stage has narrowed stays in the accumulator.
        store = store_of(block)
        inside = computed(sch, loaded) - {store.buffer.name}
        outside = any(x.buffer.name not in inside for x in loads_of(block)) or block.init is not None
        outside |= not is_extremum(store.value)
        if store.buffer.dtype == "int8" and _computes(store.value) and outside:
            params = sch.func.buffers
            if block.init is not None and (store.buffer in params or _from_memory(sch, store.buffer)):
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
        # What a stage after it reads is a stage itself; what goes to memory is stored behind it.
        if _computes(value) and store.buffer.name not in computed(sch, loaded) and any(x.buffer in made for x in loads_of(block)):
            if not readers_of(sch.func, store.buffer):
                sch.decompose_value(sch.get_sblock(block.name), [])
                continue
            # A product reads it: what moves it there would be a copy of the stage, and no store of its own.
            sch.widen_block(sch.get_sblock(block.name))
            value = store_of(device_block(sch, block.name)).value
        if not isinstance(value, Cast) or value.value.dtype != "int32":
            continue
        # A sum that is only narrowed stays where it is; a parameter has to come into the accumulator first.
        if not (isinstance(value.value, BufferLoad) and value.value.buffer in made and value.value.indices == store.indices):
            sch.decompose_value(sch.get_sblock(block.name), [0])


def loaded(sch: Schedule, target: Target) -> None:
    """Brings into the accumulator what a result only narrows and the host makes: what it chooses of parameters by place, say.

    Stages that read it as the result does share what is brought in.

    Args:
        sch: of a program whose tensors are in whole elements.
        target: the machine.
    """
    made = written(sch.func)
    for block in device_blocks(sch.func):
        value, result = store_of(block).value, not readers_of(sch.func, store_of(block).buffer)
        narrowed = value.value if isinstance(value, Cast) and block.init is None and result else None
        if not isinstance(narrowed, BufferLoad) or narrowed.dtype != "int32" or narrowed.buffer in made:
            continue
        readers = [b for b in readers_of(sch.func, narrowed.buffer) if _reads_where_it_stores(b, narrowed.buffer)]
        if len(readers) > 1:
            # The bytes of an int32 result, say: all have what one load brings, where each had a nest with a load of its own.
            sch.cache_read(sch.get_sblock(block.name), narrowed.buffer.name, "global", [sch.get_sblock(b.name) for b in readers])
            made = written(sch.func)
        else:
            sch.decompose_value(sch.get_sblock(block.name), [0])


def _reads_where_it_stores(block: Block, buffer: Buffer) -> bool:
    """Whether a block reads a tensor at the place alone that it stores."""
    return all(x.indices == store_of(block).indices for x in loads_of(block) if x.buffer is buffer)


def _computes(value: Expr) -> bool:
    """Whether a value is more than what is moved or narrowed."""
    return isinstance(value, BinOp) or is_shifted(value) or is_shifted(value, "shift_left")


def _from_memory(sch: Schedule, buffer: Buffer) -> bool:
    """Whether what a reduction makes comes back from memory, as int8."""
    return _unpacked(sch, buffer) or _summed(sch, buffer) or _spread(sch, buffer)


def _unpacked(sch: Schedule, buffer: Buffer) -> bool:
    """Whether the host makes results of a tensor."""
    hosts = [r.block for r in sch.state.realizes.values() if kind_of(r.block) == UNPACK]
    return any(x.buffer is buffer for b in hosts for x in b.reads)


def _summed(sch: Schedule, buffer: Buffer) -> bool:
    """Whether another reduction takes in what a tensor holds, as it is or padded."""
    readers = readers_of(sch.func, buffer)
    moved = [store_of(b).buffer for b in readers if b.init is None and is_placed(store_of(b).value)]
    return any(b.init is not None for b in readers) or any(_summed(sch, other) for other in moved)


def _spread(sch: Schedule, buffer: Buffer) -> bool:
    """Whether a stage reads every element of a tensor several times."""
    return any(x.buffer is buffer and set(x.indices) < set(store_of(b).indices)
               for b in readers_of(sch.func, buffer) if b.init is None for x in loads_of(b))
