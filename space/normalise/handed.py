"""Results that the program only moves of what it computes: the accelerator stores that, and the host moves it as it unpacks.

The machine stores vectors where they are made, so what ends with zeros around an image, with a larger image, or with one tensor
beside another, may have nothing to store its result from. The host copies what is stored to where the user reads it in any case.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad
from autosched.ir.functor import walk
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.stmt import Block, BlockRealize, Buffer, PrimFunc
from autosched.schedule import Schedule
from space.normalise.blocks import device_blocks, is_placed, loads_of, moved, readers_of, store_of, written


def apart(sch: Schedule) -> Schedule | None:
    """A schedule whose host runs what only moves computed elements into results, the last block first; None if there is none.

    Args:
        sch: of a program of plain blocks; stays as it is.
    """
    made, outside = sch.copy(), moved(sch.func)
    for block in reversed(device_blocks(sch.func)):
        store = store_of(block)
        if block.init is not None or not is_placed(store.value):
            continue
        with suppress(ScheduleError), made.all_or_none():  # the accelerator reads it, or writes some of it later
            if any(x.buffer not in outside for x in loads_of(block)):
                made.host_stage(made.get_sblock(block.name))
            elif store.buffer not in sch.func.buffers and not readers_of(made.func, store.buffer):
                made.compute_inline(made.get_sblock(block.name))  # what the host reads is given to it
    return made if len(made.trace.insts) > len(sch.trace.insts) else None


def between(sch: Schedule) -> Schedule | None:
    """A schedule in which every result that is read as well only copies a tensor in between; None if there is none.

    A result is the user's, and lies as it is; what is in between may be several tensors, or have axes more.

    Args:
        sch: of a program of plain blocks; stays as it is.
    """
    made, there = sch.copy(), False
    for block in device_blocks(sch.func):
        buffer = store_of(block).buffer
        readers = readers_of(made.func, buffer)
        if buffer not in sch.func.buffers:
            there |= any(copies_result(sch.func, b) for b in readers) and len(readers) > 1
        elif readers:
            with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
                made.cache_write(made.get_sblock(block.name), 0, "global", [made.get_sblock(b.name) for b in readers])
    return made if there or len(made.trace.insts) > len(sch.trace.insts) else None


def copies_result(func: PrimFunc, block: Block) -> bool:
    """Whether a block only copies a tensor in between into a result.

    Args:
        func: the program.
        block: of it.
    """
    value = store_of(block).value
    return (block.init is None and store_of(block).buffer in func.buffers and isinstance(value, BufferLoad)
            and value.indices == store_of(block).indices and value.buffer in written(func))


def stored(func: PrimFunc) -> set[Buffer]:
    """The tensors that leave the accelerator: results, and what the host makes results of.

    Args:
        func: a program, in form or not.
    """
    stages = (s.block for s in walk(func.body) if isinstance(s, BlockRealize) and kind_of(s.block) == UNPACK)
    return written(func) & {*func.buffers, *[r.buffer for stage in stages for r in stage.reads]}
