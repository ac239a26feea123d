"""Zero points: what a constant in an operand contributes to a sum of products is summed over the weights, by the host."""

from __future__ import annotations

from collections.abc import Collection

from autosched.ir.expr import BufferLoad
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.offsets import offset_of
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, given

MOST = 8  # constants in one product


def apply(sch: Schedule, target: Target) -> None:
    """Takes the constants out of the operands of every sum of products, where all can be: other operands are parameters."""
    params = given(sch.func)
    for name in [b.name for b in device_blocks(sch.func)]:
        # Half of it would leave a sum that is no plainer, and no longer the user's.
        if _takes_out(device_block(sch, name), params) and _taken_out(sch.copy(), name, params):
            _taken_out(sch, name, params)


def _takes_out(block: Block, params: Collection[Buffer]) -> bool:
    found = offset_of(block)
    return found is not None and all(e.buffer in params for e in walk_expr(found[2]) if isinstance(e, BufferLoad))


def _taken_out(sch: Schedule, name: str, params: Collection[Buffer]) -> bool:
    """Takes out one constant after the other; whether none is left."""
    for _ in range(MOST):
        if not _takes_out(device_block(sch, name), params):
            break
        sch.host_stage(sch.split_offset(sch.get_sblock(name)))
    return offset_of(device_block(sch, name)) is None
