"""Zero points: what a constant in an operand contributes to a sum of products is summed over the weights, by the host."""

from __future__ import annotations

from autosched.ir.expr import BufferLoad
from autosched.ir.functor import walk_expr
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.offsets import offset_of
from autosched.target import Target
from space.normalise.blocks import device_blocks, given


def apply(sch: Schedule, target: Target) -> None:
    """Takes the constant out of one operand of every sum of products whose other operand is a parameter."""
    params = given(sch.func)
    for block in device_blocks(sch.func):
        found = offset_of(block)
        if found is not None and all(e.buffer in params for e in walk_expr(found[2]) if isinstance(e, BufferLoad)):
            sch.host_stage(sch.split_offset(sch.get_sblock(block.name)))
