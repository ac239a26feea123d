"""Loops in the order of the iterators: other rules then need not look at how a block is looped over."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.stmt import TRUE
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks


def apply(sch: Schedule, target: Target) -> None:
    """Gives a loop for each iterator to every block that has others: split by hand, fused, or too long and guarded."""
    for block in device_blocks(sch.func):
        realize = sch.state.realizes[block.ident]
        loops = sch.state.loops_above(realize)
        if sorted(map(id, realize.iter_values)) != sorted(id(loop.var) for loop in loops) or realize.predicate != TRUE:
            try:
                sch.renest(sch.get_sblock(block.name))
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says


def arranged(sch: Schedule, target: Target) -> None:
    """Reorders the loops of each block whose iterators are its loops in another order."""
    for block in device_blocks(sch.func):
        realize = sch.state.realizes[block.ident]
        loops = sch.state.loops_above(realize)
        order = {loop.var: k for k, loop in enumerate(loops)}
        wanted = [order.get(v) for v in realize.iter_values]  # type: ignore[call-overload]
        if None in wanted or len(wanted) != len(loops) or wanted == sorted(wanted):
            continue
        handles = sch.get_loops(sch.get_sblock(block.name))
        sch.reorder(*[handles[k] for k in wanted if k is not None])
