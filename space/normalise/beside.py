"""What stands beside something else, behind a border, as the tokens behind a class token do: it is made where it goes.

A block that reads ``e[i - 1, c]`` where ``i >= 1`` moves what the accelerator stores at another place. So it computes what stages
make of a sum, and the sum has an element for each of its places, which is 0 in front of the border: there what it sums over
counts as padding. Patches of an image, which tokens number, lie flat first. What stands on either side is chosen by place then
(``choices.py``), and added; the host lays out parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.schedule.kit.base import BlockRV
from autosched.target import Target
from space.normalise import copies, gathers, initial
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    given,
    has_digits,
    loads_of,
    product_of,
    readers_of,
    store_of,
    writer_of,
)

MOST = 16  # stages between what is moved and the sum that it is made of


def apart(begun: Schedule, target: Target) -> Schedule | None:
    """A schedule in which what is moved to where a choice by place has it is made there; None where there is nothing, or no way.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.
    """
    if not any(_moved(begun, block) for block in device_blocks(begun.func)):
        return None
    sch = begun.copy()
    with suppress(ScheduleError):  # a block in loops that are not its own is none yet of which there are copies
        initial.plainly(sch, target)
    before = len(sch.trace.insts)
    for name in [b.name for b in device_blocks(sch.func)]:
        with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
            if any(b.name == name for b in device_blocks(sch.func)):
                _made_there(sch, name)
    if len(sch.trace.insts) == before:
        return None
    return copies.guarded(sch) or sch


def _moved(sch: Schedule, block: Block) -> set[Buffer]:
    """What a block reads, elsewhere than it stores or in a part, of what the program makes, where a choice by place says so."""
    store, size = store_of(block), extents(block)
    if block.init is not None:
        return set()

    def steps(index: Expr) -> int:
        return size.get(index, 0) if isinstance(index, Var) else int(int_value(index) == 0)

    def whole(load: BufferLoad) -> bool:
        every = all(v in load.indices for v, n in size.items() if n > 1)  # else one row stands at one of several places
        return every and [steps(i) for i in load.indices] == [int_value(n) for n in load.buffer.shape]

    chosen = [side for e in walk_expr(store.value) if (c := choice_of(e)) is not None and not has_loads(c[0]) for side in c[1:]]
    return {x.buffer for side in chosen for x in walk_expr(side) if isinstance(x, BufferLoad) and not whole(x)
            and x.buffer not in sch.func.buffers and writer_of(sch.func, x.buffer) is not None}


def _made_there(sch: Schedule, name: str) -> None:
    """Lets a block make what it moves to one side of a border.

    Raises:
        ScheduleError: a primitive refuses.
    """
    before = sch.func
    for _ in range(MOST):
        block = device_block(sch, name)
        moved = _moved(sch, block)
        buffer = next((x.buffer for x in loads_of(block) if x.buffer in moved), None)
        maker = None if buffer is None else writer_of(sch.func, buffer)
        if buffer is None or maker is None:
            break
        handle = sch.get_sblock(maker.name)
        if len(readers_of(sch.func, buffer)) > 1:
            handle = sch.recompute_at_consumers(handle, [sch.get_sblock(name)])[1]
        if maker.init is None:
            sch.compute_inline(handle)
            continue
        with suppress(ScheduleError), sch.all_or_none():  # else it is made at the digits themselves
            _flat(sch, handle, name, buffer)
        for copy in sch.recompute_at_reads(handle, True):
            made = sch.get(copy)
            assert isinstance(made, Block)
            if product_of(made) is None:
                sch.guard_factors(copy, [1])
    if sch.func is before:
        return
    with suppress(ScheduleError), sch.all_or_none():  # it chooses in a part of its value
        sch.expand_choice(sch.get_sblock(name))
        sch.widen_block(sch.get_sblock(name))


def _flat(sch: Schedule, handle: BlockRV, reader: str, buffer: Buffer) -> None:
    """Lets a sum that a block reads at both digits of a place, as patches of an image are tokens, have an index of places.

    What the sum reads of a parameter the host lays out by that.

    Raises:
        ScheduleError: a primitive refuses.
    """
    block = sch.get(handle)
    assert isinstance(block, Block)
    made = store_of(block)
    load = next((x for x in loads_of(device_block(sch, reader)) if x.buffer in (buffer, made.buffer)), None)
    at = None if load is None else next((d for d in range(load.buffer.ndim - 1) if _digits(load, d)), None)
    own = [iv.var for iv in block.iter_vars]
    if load is None or at is None or not all(i in own for i in made.indices[at : at + 2]):
        return
    first, each = own.index(made.indices[at]), int_value(made.buffer.shape[at + 1]) or 1  # type: ignore[arg-type]
    if own.index(made.indices[at + 1]) != first + 1:  # type: ignore[arg-type]
        return

    def places(k: int) -> Callable[..., tuple[Expr, ...]]:
        return lambda *i: (*i[:k], i[k] * each + i[k + 1], *i[k + 2 :])

    sch.transform_layout(handle, ("write", 0), places(at))
    sch.transform_block_layout(handle, places(first))
    flat = sch.get(handle)
    assert isinstance(flat, Block)
    product, params = product_of(flat), given(sch.func)
    for factor in product.factors if product is not None else ():
        if factor.buffer in params and has_digits(*factor.indices):
            gathers.reindexed(sch, flat.name, factor.buffer.name)


def _digits(load: BufferLoad, dim: int) -> bool:
    """Whether two indices of a load, one behind the other, are the digits of one place."""
    high, low = load.indices[dim : dim + 2]
    each = int_value(load.buffer.shape[dim + 1])
    if not (isinstance(high, BinOp) and isinstance(low, BinOp) and (high.op, low.op) == ("//", "%")):
        return False
    apart = int_value(Analyzer({}).simplify(low.a - high.a))
    return each is not None and int_value(high.b) == int_value(low.b) == each and apart is not None and apart % each == 0
