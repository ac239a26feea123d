"""Choices by the place of an element between what is computed (a causal mask): minima and maxima with limits that the host lays
out, as it does what is computed of places alone. What only moves elements, or guards what it reads, is padding, and the business
of other rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr
from autosched.ir.functor import expr_children, free_vars, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.limits import limits_of
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of
from space.normalise.copies import path_of

MOST = 16  # choices in one block


def applies(func: PrimFunc) -> bool:
    """Whether a stage chooses by place, or computes with it.

    Args:
        func: the program, in form or not.
    """
    return any(isinstance(b.body, BufferStore) and (_first(func, b) is not None or _place(b) is not None)
               for b in device_blocks(func))


def apply(sch: Schedule, target: Target) -> None:
    """Writes every such choice as minima and maxima, and makes a tensor of every other value of places alone."""
    for name in [b.name for b in device_blocks(sch.func)]:
        for _ in range(MOST):
            block = device_block(sch, name)
            found = _first(sch.func, block)
            if found is None:
                break
            try:
                made = sch.choose_by_limits(sch.get_sblock(name), path_of(store_of(block).value, found) or [])
            except ScheduleError:
                break  # what is in the way of a schedule, analysis says
            for stage in made:
                sch.host_stage(stage)
            try:
                sch.simplify_value(sch.get_sblock(name))  # what was chosen in int8 is limited in int32
            except ScheduleError:
                continue  # it is plain
        for _ in range(MOST):
            path = _place(device_block(sch, name))
            if path is None:
                break
            try:
                placed = sch.decompose_value(sch.get_sblock(name), path, True)
            except ScheduleError:
                break  # what is in the way of a schedule, analysis says
            with suppress(ScheduleError):  # it has more bits
                sch.narrow_block(placed)
            sch.host_stage(placed)


def _place(block: Block) -> list[int] | None:
    """Where a block computes with what depends on its iterators alone, other than to choose by it or to read at it."""
    value = store_of(block).value
    return next(_places(value, []), None) if has_loads(value) else None


def _places(value: Expr, path: list[int]) -> Iterator[list[int]]:
    if not has_loads(value):
        if free_vars(value) and value.dtype == "int32":
            yield path
        return
    children = [] if isinstance(value, BufferLoad) else list(enumerate(expr_children(value)))
    for n, child in children[choice_of(value) is not None :]:
        yield from _places(child, [*path, n])


def _first(func: PrimFunc, block: Block) -> Expr | None:
    """The first choice by place in what a block computes."""
    value = store_of(block).value
    if block.init is not None or is_move(value):
        return None
    return next((e for e in walk_expr(value) if choice_of(e) is not None and limits_of(func, block, e) is not None), None)
