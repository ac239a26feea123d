"""Zero points: what a constant in an operand contributes to a sum of products is summed over the weights, by the host.

So is what a parameter contributes that no step of the sum moves, a zero point for each channel or each row, or that a step reads
beside an element of int8. What is taken away from its zero point is a parameter whose complement the host makes, or its products
are taken away by the other factor's negative. Where an operand is padded with a constant other than 0, or has one added inside of
its padding, there is a sum for each place.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, is_widened, loads_in
from autosched.ir.stmt import Block, Buffer
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.negation import sum_away
from autosched.schedule.primitives.reductions.offsets import offset_of
from autosched.schedule.primitives.reductions.paddings import padded_of, padding_of
from autosched.schedule.primitives.reductions.terms import terms_of
from autosched.target import Target
from space.normalise import negation
from space.normalise.blocks import device_block, device_blocks, filled, given, product_of, readers_of, store_of

MOST = 8  # constants in one product


def apply(sch: Schedule, target: Target) -> None:
    """Takes the constants out of the operands of every sum of products, where all can be: other operands are parameters."""
    _padding_read(sch)
    params = given(sch.func)
    for name in [b.name for b in device_blocks(sch.func)]:
        found = padded_of(device_block(sch, name))
        if found is not None and _of(found.other, params):
            with suppress(ScheduleError), sch.all_or_none():  # what is in the way of a schedule, analysis says
                for made in sch.split_padding(sch.get_sblock(name)):
                    sch.host_stage(made)
    for name in [b.name for b in device_blocks(sch.func)]:
        # Half of it would leave a sum that is no plainer, and no longer the user's.
        trial = sch.copy()
        if _takes_out(device_block(sch, name), params) and taken_out(trial, name):
            sch.adopt(trial)


def _takes_out(block: Block, params: Collection[Buffer]) -> bool:
    """Whether the host can sum up what is added to a factor of a block; of int8 elements alone that is a product more."""
    found = offset_of(block)
    if found is None or not (_of(found.by, params) and _of(found.other, params)):
        return False
    return int_value(found.by) is not None or terms_of(block) is None


def _of(value: Expr, params: Collection[Buffer]) -> bool:
    """Whether a value depends on what is given to the program only."""
    return all(e.buffer in params for e in walk_expr(value) if isinstance(e, BufferLoad))


def _padding_read(sch: Schedule) -> None:
    """Writes stages that pad with another constant than 0 into the sums of products that read them, and nobody else does."""
    for block in device_blocks(sch.func):
        store = store_of(block)
        readers = readers_of(sch.func, store.buffer)
        pads = block.init is None and padding_of(store.value) is not None and _moves(store.value)
        if pads and readers and all(product_of(b) or offset_of(b) for b in readers):
            with suppress(ScheduleError), sch.all_or_none():  # a result, or one of several parts
                sch.compute_inline(sch.get_sblock(block.name))


def _moves(value: Expr) -> bool:
    """Whether a value is, by place, what is read, made wider and with constants added: no stage of its own."""
    if isinstance(value, Cast):
        return dtype_bounds(value.value.dtype)[1] <= dtype_bounds(value.dtype)[1] and _moves(value.value)
    if isinstance(value, BinOp):
        return value.op in ("+", "-") and int_value(value.b) is not None and _moves(value.a)
    choice = choice_of(value)
    return isinstance(value, BufferLoad) or int_value(value) is not None or (choice is not None and all(map(_moves, choice[1:])))


def taken_out(sch: Schedule, name: str) -> bool:
    """Takes out of a sum of products one constant after the other that the host can sum up; whether none is left.

    Args:
        sch: of the program.
        name: of the block.
    """
    for _ in range(MOST):
        params = {*given(sch.func), *filled(sch)}
        if not _takes_out(device_block(sch, name), params):
            break
        mine = _complemented(device_block(sch, name), params)
        if mine is not None:
            sch.host_stage(sch.complement_factor(sch.get_sblock(name), mine.name))
        else:
            sch.host_stage(sch.split_offset(sch.get_sblock(name)))
            negation.product(sch, name)
    block = device_block(sch, name)
    return offset_of(block) is None and sum_away(block) is None


def _complemented(block: Block, params: Collection[Buffer]) -> Buffer | None:
    """A parameter whose elements a factor takes away from its offset, and that the block reads once: the host complements it."""
    found = offset_of(block)
    cast = found.operand if found is not None and found.away and is_widened(found.operand) else None
    load = cast.value if isinstance(cast, Cast) else None
    read = [x.buffer for x in loads_in(store_of(block).value)]
    return load.buffer if isinstance(load, BufferLoad) and load.buffer in params and read.count(load.buffer) == 1 else None
