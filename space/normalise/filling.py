"""Copies of parameters that no load makes as they are wanted: padded with what is no zero, or with elements several times.

A load pads with zeros. What a zero point contributes there is then a sum for each place, as wide as the accumulator, and eight
times as long to load as an element; an element more around an image takes products instead: which is less depends on how many
of them a result has. And elements that stand side by side several times, as in an image that is made larger, take a load each. So
this is a form besides the plain one: the host makes the copies.
"""

from __future__ import annotations

from autosched.ir.expr import BufferLoad, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.offsets import offset_of
from autosched.target import Target
from space.normalise.blocks import device_blocks, given, product_of, readers_of, store_of
from space.sites import repeats_of


def applies(func: PrimFunc) -> bool:
    """Whether a block makes such a copy, for sums of products and nobody else.

    Args:
        func: a program of plain blocks.
    """
    return any(_fills(func, b) for b in device_blocks(func))


def apply(sch: Schedule, target: Target) -> bool:
    """Lets the host make every such copy; whether there are any.

    Args:
        sch: of the program.
        target: the machine.
    """
    found = [b.name for b in device_blocks(sch.func) if _fills(sch.func, b)]
    for name in found:
        sch.host_stage(sch.get_sblock(name))
    return bool(found)


def _fills(func: PrimFunc, block: Block) -> bool:
    store, params = store_of(block), given(func)
    read = {e.buffer for e in walk_expr(store.value) if isinstance(e, BufferLoad)}
    if block.init is not None or store.buffer in func.buffers or not read <= {*params}:
        return False
    choice = choice_of(store.value)
    arms, told = ([store.value], False) if choice is None else (choice[1:], has_loads(choice[0]))
    moves = not told and all(isinstance(a, BufferLoad) or int_value(a) is not None for a in arms)
    readers = readers_of(func, store.buffer)
    odd = any(int_value(a) for a in arms) or bool(repeats_of(block))
    return moves and odd and bool(readers) and all(product_of(b) or offset_of(b) for b in readers)
