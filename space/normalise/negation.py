"""Differences: what is taken away is added as its negative, which the host makes of a parameter, or of a factor of a sum."""

from __future__ import annotations

from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import Block, Buffer, BufferStore
from autosched.ir.value_bounds import ValueBounds
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.negation import subtrahends
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, given, loads_of, product_of, readers_of, store_of
from space.normalise.copies import path_of, twice

MOST = 16  # places of one block that take the same tensor away


def apply(sch: Schedule, target: Target) -> None:
    """Adds what stages, and what sums start with, take away of int32 parameters and of sums of products."""
    # Readers first: what a sum starts with is taken away once the sum is.
    for name in [b.name for b in reversed(device_blocks(sch.func))]:
        for buffer in dict.fromkeys(e.buffer for value in _values(device_block(sch, name)) for e in subtrahends(value)):
            try:
                for block in _apart(sch, name, buffer):
                    _added(sch, block, buffer)
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says


def _apart(sch: Schedule, name: str, buffer: Buffer) -> list[str]:
    """The blocks that take a tensor away and do no more with it, in place of one that may do more."""
    found: list[str] = []
    for _ in range(MOST):
        block = device_block(sch, name)
        if _only_taken_away(block, buffer):
            return [*found, name]
        value = store_of(block).value
        taken = next((e for e in walk_expr(value) if isinstance(e, BinOp) and any(
            x is e.b and x.buffer is buffer for x in subtrahends(e))), None)
        if block.init is not None or taken is None:
            break
        path = path_of(value, taken)
        made = sch.get(sch.decompose_value(sch.get_sblock(name), path or [0]))
        if path:
            assert isinstance(made, Block)
            found += _apart(sch, made.name, buffer)
    return found


def _added(sch: Schedule, name: str, buffer: Buffer) -> None:
    made = next((b for b in device_blocks(sch.func) if store_of(b).buffer is buffer), None)
    if made is None:
        sch.host_stage(sch.add_negative(sch.get_sblock(name), buffer.name))
        return
    twice(sch, made)
    factor = _factor(sch, device_block(sch, made.name))
    readers = readers_of(sch.func, buffer)
    away = [b.name for b in readers if _only_taken_away(b, buffer)]
    if factor is None or name not in away:
        return
    handle = sch.get_sblock(made.name)
    if len(away) < len(readers):
        # What others add is another sum than what these take away.
        handle = sch.recompute_at_consumers(handle, [sch.get_sblock(b) for b in away])[1]
    sch.host_stage(sch.negate_sum(handle, factor.name))


def _values(block: Block) -> list[Expr]:
    """What a block stores, and what it starts with."""
    return [store_of(block).value, *([block.init.value] if isinstance(block.init, BufferStore) else [])]


def _only_taken_away(block: Block, buffer: Buffer) -> bool:
    """Whether a block does no more with a tensor than to take its elements away."""
    taken = sum(e.buffer is buffer for value in _values(block) for e in subtrahends(value))
    return 0 < taken == sum(x.buffer is buffer for x in loads_of(block))


def _factor(sch: Schedule, block: Block) -> Buffer | None:
    """The factor of a sum of products that the host makes negative: one without -128, or else the smaller one."""
    product = product_of(block)
    if product is None or product.factors[0].buffer is product.factors[1].buffer:
        return None
    known = ValueBounds(sch.func)
    params = given(sch.func)
    factors = [f.buffer for f in product.factors if f.buffer in params]
    return min(factors, key=lambda b: (known.of_buffer(b)[0] == -128, prod(int_value(e) or 1 for e in b.shape)), default=None)
