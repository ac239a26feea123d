"""What a sum starts with, where the ALU has no such operation: written otherwise in a block of its own, then its start again.

Elements of int8 are none of the ALU's: a stage behind the sum takes them in, as others do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from autosched.errors import ScheduleError
from autosched.ir.patterns import loads_in
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import lacking, negation
from space.normalise.blocks import device_blocks, given


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether some sum of a program starts with a difference of what is computed, or with what else the ALU lacks.

    Args:
        func: the program, in form or not.
        target: the machine.
    """
    return any(_lacks(b, target) for b in device_blocks(func))


def apply(sch: Schedule, target: Target) -> None:
    """Writes what every such sum starts with in shifts, sums, minima and maxima; elements of int8 are none of the ALU's."""
    for name in [b.name for b in device_blocks(sch.func) if _narrow(b) and not _made_away(sch.func, b)]:
        with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
            sch.join_init_behind(sch.get_sblock(name))
    for name in [b.name for b in device_blocks(sch.func) if _lacks(b, target)]:
        with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
            changed(sch, name, partial(_rewritten, target=target))


def changed(sch: Schedule, name: str, change: Callable[[Schedule, str], None]) -> None:
    """Changes what a sum starts with, which is a stage for as long as that takes.

    Args:
        sch: stays as it is where that cannot be.
        name: of the block that sums up.
        change: gets a schedule and the name of the stage.

    Raises:
        ScheduleError: a primitive refuses.
    """
    with sch.all_or_none():
        first = sch.get(sch.decompose_reduction(sch.get_sblock(name), sch.get_loops(sch.get_sblock(name))[0]))
        assert isinstance(first, Block)
        made = first.writes[0].buffer
        update = next(b.name for b in device_blocks(sch.func) if b.name != first.name and b.writes[0].buffer is made)
        change(sch, first.name)
        sch.compose_reduction(sch.get_sblock(first.name), sch.get_sblock(update))


def _lacks(block: Block, target: Target) -> bool:
    start = block.init
    return isinstance(start, BufferStore) and (
        _narrow(block) or negation.takes_away_loads(start.value) or lacking.in_value(start.value, target))


def _narrow(block: Block) -> bool:
    """Whether a reduction starts with elements of int8, as they are or wider: a stage behind takes these in."""
    return isinstance(block.init, BufferStore) and any(x.dtype == "int8" for x in loads_in(block.init.value))


def _made_away(func: PrimFunc, block: Block) -> bool:
    """Whether a reduction starts with a difference, and with elements that the program makes: a sum with their negatives."""
    start, own = block.init, given(func)
    return isinstance(start, BufferStore) and negation.takes_away_loads(start.value) and any(
        x.dtype == "int8" and x.buffer not in own for x in loads_in(start.value))


def _rewritten(sch: Schedule, name: str, target: Target) -> None:
    lacking.rewritten(sch, name, target)
    negation.differences(sch, name)
    negation.narrow(sch, name)
