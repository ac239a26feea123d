"""Conditions written as statements, or around products, as conditions of what is read; initial values as those of sums."""

from __future__ import annotations

from autosched.errors import ScheduleError, SpaceError
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import loads_from
from autosched.ir.stmt import TRUE, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.conditions import guarded_factors
from autosched.schedule.primitives.reductions.stores import bare_stores
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of
from space.normalise.copies import path_of

MOST = 16  # products under a condition in one block


def single(func: PrimFunc) -> Schedule:
    """A schedule of a program in which every store has a block, and every block is one store, as far as it can be.

    Args:
        func: any program.
    """
    sch = Schedule(func, seed=0, error_render_level="fast")
    for name in _looped(sch):
        _variables(sch, name)
        try:
            sch.blockize_stores(sch.get_sblock(name))
        except ScheduleError:
            continue  # as ``require_blocks`` says
    for block in device_blocks(sch.func):
        body = block.body
        guarded = sch.state.realizes[block.ident].predicate != TRUE and block.init is None
        if not isinstance(body, BufferStore) or (guarded and loads_from(body.value, body.buffer)):
            try:
                sch.single_store(sch.get_sblock(block.name))
            except ScheduleError:
                continue  # what is in the way of a schedule, analysis says
    return sch


def require_blocks(sch: Schedule) -> None:
    """Refuses stores in loops without blocks of which no blocks can be made.

    Args:
        sch: as ``single`` gives it.

    Raises:
        SpaceError: what is in the way.
    """
    for name in _looped(sch):
        try:
            sch.copy().blockize_stores(name)
        except ScheduleError as error:
            raise SpaceError(f"{error.reason}: {error.hint}" if error.hint else error.reason, "form") from error


def _looped(sch: Schedule) -> list[str]:
    """Names of the blocks, the root among them, that hold stores in loops without blocks."""
    root = sch.state.root
    return [b.name for b in (root, *device_blocks(sch.func)) if bare_stores(b, b is root)]


def _variables(sch: Schedule, name: str) -> None:
    """Gives what every iteration of loops without blocks fills anew a place for each of them."""
    at = 0
    while True:
        block = next(r.block for r in sch.state.realizes.values() if r.block.name == name)
        if at == len(block.alloc_buffers):
            return
        try:
            with sch.all_or_none():
                sch.expand_buffer(sch.get_sblock(name), at)
        except ScheduleError:
            at += 1  # most tensors have a place for each iteration
        else:
            at += name == sch.state.root.name  # those of other blocks are the root's now


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
