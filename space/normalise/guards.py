"""Padding written into a sum: what the sum reads under a condition is a padded tensor of its own."""

from __future__ import annotations

from autosched.ir.expr import BufferLoad, Expr
from autosched.ir.functor import expr_children
from autosched.ir.patterns import choice_of, loads_in
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of


def apply(sch: Schedule, target: Target) -> None:
    """Gives every guarded read of a sum a stage in front of it."""
    for name in [b.name for b in device_blocks(sch.func) if b.init is not None]:
        while True:
            path = _guarded(store_of(device_block(sch, name)).value)
            if path is None:
                break
            sch.decompose_value(sch.get_sblock(name), path)


def _guarded(value: Expr) -> list[int] | None:
    """Where in a value one element is read under a condition."""
    if isinstance(value, BufferLoad):
        return None
    if choice_of(value) is not None:
        loads = loads_in(value)
        return [] if len(loads) == 1 else None
    for k, child in enumerate(expr_children(value)):
        path = _guarded(child)
        if path is not None:
            return [k, *path]
    return None
