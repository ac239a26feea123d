"""Loops in the order of the iterators: other rules then need not look at how a block is looped over."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.expr import int_value
from autosched.ir.functor import walk
from autosched.ir.stmt import TRUE, For, SeqStmt
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_blocks


def apart(sch: Schedule, target: Target) -> None:
    """Gives loops of their own to the statements of every loop that holds several, innermost loops first."""
    stuck: set[object] = set()
    while True:
        shared = [s for s in walk(sch.func.body) if isinstance(s, For) and isinstance(s.body, SeqStmt) and s.var not in stuck]
        if not shared:
            return
        loop = shared[-1]
        block = next(b for b in device_blocks(sch.func) if loop in sch.state.loops_of(b))
        at = sch.state.loops_of(block).index(loop)
        try:
            sch.loop_fission(sch.get_loops(sch.get_sblock(block.name))[at])
        except ScheduleError:
            stuck.add(loop.var)  # what is in the way of a schedule, analysis says


def apply(sch: Schedule, target: Target) -> None:
    """Gives a loop from 0 for each iterator to every block that has others: split by hand, fused, or too long and guarded."""
    for block in device_blocks(sch.func):
        realize = sch.state.realizes[block.ident]
        loops = sch.state.loops_above(realize)
        begins = any(int_value(iv.dom.min) for iv in block.iter_vars)
        if begins or sorted(map(id, realize.iter_values)) != sorted(id(x.var) for x in loops) or realize.predicate != TRUE:
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
