"""Extrema that stages join with something else (an average and the largest element, added): they are stored in between.

A space joins sums of products in the accumulator, and what the ALU reduces is none. As int8 it comes back from memory by an
identity, as any element that the ALU takes in does (``widening.py``): a nest of its own, and a load.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Cast
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.factors import is_narrow
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, joins_by, loads_of, store_of, writer_of, written
from space.normalise.copies import path_of


def joins(func: PrimFunc) -> bool:
    """Whether a stage of a program reads an extremum beside something else that is made.

    Args:
        func: the program; what it computes in int8 the accumulator will hold as int32.
    """
    return any(True for block in device_blocks(func) for _ in _lone(func, block, ("int8", "int32")))


def apply(sch: Schedule, target: Target) -> None:
    """Stores every such extremum as int8, where that holds it.

    Args:
        sch: of the program.
        target: the machine.
    """
    for name in [b.name for b in device_blocks(sch.func)]:
        for load in list(_lone(sch.func, device_block(sch, name))):
            block = device_block(sch, name)
            value = store_of(block).value
            narrow = next((e for e in walk_expr(value) if isinstance(e, Cast) and e.dtype == "int8" and e.value is load), None)
            with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
                path = path_of(value, load if narrow is None else narrow) or []
                handle = sch.get_sblock(name)
                if narrow is None and is_narrow(sch.func, block, load):
                    sch.narrow_value(handle, path)
                    path = [*path, 0]
                elif narrow is None:
                    continue
                sch.decompose_value(handle, path)


def _lone(func: PrimFunc, block: Block, types: tuple[str, ...] = ("int32",)) -> Iterator[BufferLoad]:
    """Where a stage reads extrema, beside something else that is made; of extrema alone all but the first, to which they go.

    An int8 element of a parameter is made, too: the GEMM brings it into the accumulator.
    """
    if block.init is not None:
        return
    made = written(func)
    loads = [x for x in loads_of(block) if x.buffer in made and x.dtype in types]
    makers = {x.buffer: writer_of(func, x.buffer) for x in loads}
    extrema = [b for b, maker in makers.items() if maker is not None and joins_by(maker) in ("min", "max")]
    alone = len(extrema) == len(makers) and not any(x.dtype == "int8" and x.buffer in func.params for x in loads_of(block))
    for buffer in extrema[alone:]:
        yield next(x for x in loads if x.buffer is buffer)
