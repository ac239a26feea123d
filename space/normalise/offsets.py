"""Zero points: what a constant in an operand contributes to a sum of products is summed over the weights, by the host."""

from __future__ import annotations

from autosched.ir.expr import BufferLoad
from autosched.ir.functor import walk_expr
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.offsets import offset_of
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, given


def apply(sch: Schedule, target: Target) -> None:
    """Takes the constants out of the operands of every sum of products whose other operand is a parameter."""
    params = given(sch.func)
    for name in [b.name for b in device_blocks(sch.func)]:
        for _ in range(2):
            found = offset_of(device_block(sch, name))
            if found is not None and all(e.buffer in params for e in walk_expr(found[2]) if isinstance(e, BufferLoad)):
                sch.host_stage(sch.split_offset(sch.get_sblock(name)))
