"""Differences: what is taken away is added as its negative, which the host makes of a parameter, or of a factor of a sum."""

from __future__ import annotations

from math import prod

from autosched.errors import ScheduleError
from autosched.ir.expr import int_value
from autosched.ir.stmt import Block, Buffer
from autosched.ir.value_bounds import ValueBounds
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.negation import subtrahends
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, product_of, store_of


def apply(sch: Schedule, target: Target) -> None:
    """Adds what stages take away of int32 parameters and of sums of products."""
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        if block.init is not None:
            continue
        for buffer in dict.fromkeys(e.buffer for e in subtrahends(store_of(block).value)):
            try:
                _added(sch, name, buffer)
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says


def _added(sch: Schedule, name: str, buffer: Buffer) -> None:
    made = next((b for b in device_blocks(sch.func) if store_of(b).buffer is buffer), None)
    if made is None:
        sch.host_stage(sch.add_negative(sch.get_sblock(name), buffer.name))
        return
    factor = _factor(sch, made)
    if factor is not None:
        sch.host_stage(sch.negate_sum(sch.get_sblock(made.name), factor.name))


def _factor(sch: Schedule, block: Block) -> Buffer | None:
    """The factor of a sum of products that the host makes negative: one without -128, or else the smaller one."""
    product = product_of(block)
    written = {store_of(b).buffer for b in device_blocks(sch.func)}
    if product is None or product.factors[0].buffer is product.factors[1].buffer:
        return None
    known = ValueBounds(sch.func)
    given = [f.buffer for f in product.factors if f.buffer in sch.func.buffers and f.buffer not in written]
    return min(given, key=lambda b: (known.of_buffer(b)[0] == -128, prod(int_value(e) or 1 for e in b.shape)), default=None)
