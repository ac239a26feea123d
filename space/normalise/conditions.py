"""Conditions written as statements, or around products, as conditions of what is read; initial values as those of sums."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import loads_from
from autosched.ir.stmt import TRUE, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.conditions import guarded_factors
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of
from space.normalise.copies import path_of

MOST = 16  # products under a condition in one block


def single(func: PrimFunc) -> Schedule:
    """A schedule of a program in which every block is one store, as far as it can be.

    Args:
        func: any program.
    """
    sch = Schedule(func, seed=0, error_render_level="fast")
    for block in device_blocks(func):
        body = block.body
        guarded = sch.state.realizes[block.ident].predicate != TRUE and block.init is None
        if not isinstance(body, BufferStore) or (guarded and loads_from(body.value, body.buffer)):
            try:
                sch.single_store(sch.get_sblock(block.name))
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says
    return sch


def apply(sch: Schedule, target: Target) -> None:
    """Guards factors in place of products."""
    for name in [b.name for b in device_blocks(sch.func)]:
        for _ in range(MOST):
            block = device_block(sch, name)
            value = store_of(block).value
            found = next((e for e in walk_expr(value) if guarded_factors(block, e) is not None), None)
            if found is None:
                break
            sch.guard_factors(sch.get_sblock(name), path_of(value, found) or [])
