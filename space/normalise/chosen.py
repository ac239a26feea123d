"""Stages that compute one side of a row otherwise than the other one (rotary embeddings, ``-x`` of a half): no stage, but parts.

The ALU has no choice. Where such a stage is written into what reads it, each side is a part of the result, with a block of its
own, a tensor of its own, and nothing to choose. So is what is joined for a layer, and is a part of the result as well (DenseNet).
Elements that take turns (``j % 2``) are parts, too: the turns are an iterator of their own first.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.kit.base import BlockRV
from autosched.target import Target
from space.normalise import gathers, initial, parts
from space.normalise.blocks import device_blocks, extents, is_placed, readers_of, store_of

MOST = 8  # turns


def apart(begun: Schedule, target: Target) -> Schedule | None:
    """A schedule without stages that choose by place what they compute, where results read them; None where there are none.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.
    """
    if not any(rule(begun.func, block) for block in device_blocks(begun.func) for rule in (_chooses, _joins, _turns)):
        return None
    sch = begun.copy()
    with suppress(ScheduleError):  # a block in loops that are not its own is none yet that goes into another one
        initial.plainly(sch, target)
    before, sided = len(sch.trace.insts), False
    for block in device_blocks(sch.func):
        with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
            handle = sch.get_sblock(block.name)
            if _chooses(sch.func, block):
                sch.compute_inline(handle)
                sided = True
            elif _joins(sch.func, block):
                _apart_for_results(sch, block, handle)
    for block in reversed(device_blocks(sch.func)):  # what a result read joined may have been joined of another such tensor
        if _joins(sch.func, block):
            with suppress(ScheduleError), sch.all_or_none():
                _apart_for_results(sch, block, sch.get_sblock(block.name))
    for block in device_blocks(sch.func):
        with suppress(ScheduleError), sch.all_or_none():
            sided |= _in_turns(sch, block)
    if len(sch.trace.insts) == before:
        return None
    try:
        if sided:  # a tensor for each part before there are stages of it: these have its shape
            parts.apply(sch, target)
            gathers.results(sch, target)
    except ScheduleError:
        return None
    return sch


def _in_turns(sch: Schedule, block: Block) -> bool:
    """Gives each turn of a result that is computed otherwise a block of its own; whether there are any.

    Raises:
        ScheduleError: a primitive refuses.
    """
    found = _turns(sch.func, block)
    if found is None:
        return False
    at, turns = found
    handle = sch.get_sblock(block.name)
    sch.transform_block_layout(handle, lambda *i: (*i[:at], i[at] // turns, i[at] % turns, *i[at + 1 :]))
    for part in sch.partition_block(sch.get_loops(handle)[at + 1], [*[1] * (turns - 1), None]):
        sch.simplify_value(part)
        sch.renest(part)
    return True


def _turns(func: PrimFunc, block: Block) -> tuple[int, int] | None:
    """(iterator, how many) of the turns by which a block computes a result in several ways; None where it does not."""
    own, size = [iv.var for iv in block.iter_vars], extents(block)
    if block.init is not None or store_of(block).buffer not in func.buffers or readers_of(func, store_of(block).buffer):
        return None
    for choice in filter(None, (choice_of(e) for e in walk_expr(store_of(block).value))):
        for e in walk_expr(choice[0]) if has_loads(choice[1]) and has_loads(choice[2]) else ():
            turns = int_value(e.b) if isinstance(e, BinOp) and e.op == "%" else None
            if isinstance(e, BinOp) and isinstance(e.a, Var) and turns and 1 < turns <= MOST and size.get(e.a, 1) % turns == 0:
                return own.index(e.a), turns
    return None


def _apart_for_results(sch: Schedule, block: Block, handle: BlockRV) -> None:
    """Lets results read what a block joins where that comes from."""
    ends = [sch.get_sblock(b.name) for b in readers_of(sch.func, store_of(block).buffer) if _ends(sch.func, b)]
    sch.compute_inline(sch.recompute_at_consumers(handle, ends)[1])


def _chooses(func: PrimFunc, block: Block) -> bool:
    """Whether a stage between others computes what it stores in several ways, by place."""
    store = store_of(block)
    if block.init is not None or store.buffer in func.buffers or is_placed(store.value):
        return False
    return _sides(block) and all(b.init is None for b in readers_of(func, store.buffer))


def _joins(func: PrimFunc, block: Block) -> bool:
    """Whether a block puts one thing beside another that layers read, and that a result only has parts of."""
    store = store_of(block)
    if block.init is not None or store.buffer in func.buffers or not (is_placed(store.value) and _sides(block)):
        return False
    ends = [_ends(func, b) for b in readers_of(func, store.buffer)]
    return any(ends) and not all(ends)


def _sides(block: Block) -> bool:
    """Whether a block chooses by place between two things that it reads."""
    choices = (choice_of(e) for e in walk_expr(store_of(block).value))
    return any(c is not None and not has_loads(c[0]) and has_loads(c[1]) and has_loads(c[2]) for c in choices)


def _ends(func: PrimFunc, block: Block) -> bool:
    """Whether a block only moves elements into a result."""
    return block.init is None and store_of(block).buffer in func.buffers and is_placed(store_of(block).value)
