"""Tensors that later blocks update in place: each version is a tensor, and what is added to one is a sum that starts with it."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import ScheduleError
from autosched.ir.patterns import loads_from
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import initial
from space.normalise.blocks import device_block, device_blocks, store_of


def applies(func: PrimFunc) -> bool:
    """Whether a block updates what others have made, and more than set.

    Args:
        func: the program.
    """
    blocks = device_blocks(func)
    return any(_again(b, blocks[:n]) for n, b in enumerate(blocks))


def apply(sch: Schedule, target: Target) -> None:
    """Gives what every such block finds a tensor of its own, the last update first: what is left is set and updated once."""
    for name in [b.name for b in reversed(device_blocks(sch.func))]:
        blocks = device_blocks(sch.func)
        block = device_block(sch, name)
        if not _again(block, blocks[: blocks.index(block)]):
            continue
        try:
            sch.separate_update(sch.get_sblock(name))
        except ScheduleError:
            continue  # what is in the way of a schedule, analysis says
    initial.apply(sch, target)


def _again(block: Block, before: Sequence[Block]) -> bool:
    """Whether a block updates what more than one block, or a sum, has made: what is only set it starts with itself."""
    store = store_of(block)
    if block.init is not None or not loads_from(store.value, store.buffer):
        return False
    made = [b for b in before if store_of(b).buffer is store.buffer]
    return len(made) > 1 or any(b.init is not None for b in made)
