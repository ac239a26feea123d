"""Results that differ in their clips alone: the one that is clipped further is made of the other one."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.ir.stmt import Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, loads_of, product_of, store_of
from space.sites import alu_ops


def apply(sch: Schedule, target: Target) -> None:
    """Lets every stage that clips what an earlier one has clipped less read that one's result, where that is less work.

    Where nothing moves by itself it stays as it is: what is stored would be in the way of what is made of it.

    Args:
        sch: of a program in form.
        target: the machine.
    """
    if target.semantics != "chisel":
        return
    names = [b.name for b in device_blocks(sch.func) if b.init is None and product_of(b) is None]
    for n, name in enumerate(names):
        for other in names[:n]:
            if _read(sch, name) != _read(sch, other):
                continue
            trial = sch.copy()
            try:
                trial.reuse_clip(trial.get_sblock(name), trial.get_sblock(other))
            except ScheduleError:
                continue  # another value, or one that is clipped further
            if alu_ops(store_of(device_block(trial, name)).value) < alu_ops(store_of(device_block(sch, name)).value):
                sch.adopt(trial)


def _read(sch: Schedule, name: str) -> set[Buffer]:
    """What a block loads from."""
    return {x.buffer for x in loads_of(device_block(sch, name))}
