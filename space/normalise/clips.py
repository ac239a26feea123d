"""Clips that later ones make up for go, shifts join, and constants behind clips of a sum come in where the sum starts.

Both are in residual sums: what a layer's requantisation clips is rounded and clipped again. Where a sum starts a constant costs
nothing under ``chisel``.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, IntImm, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import BufferStore
from autosched.lower.normalise import IMM_MAX, IMM_MIN
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, named, store_of


def apply(sch: Schedule, target: Target) -> None:
    """Drops what clips it can, joins shifts, and advances constants that one operation brings in with what a sum starts with."""
    for name in [b.name for b in device_blocks(sch.func)]:
        with suppress(ScheduleError), sch.all_or_none():  # none that may go
            sch.drop_clip(sch.get_sblock(name))
    for name in [b.name for b in device_blocks(sch.func)]:
        with suppress(ScheduleError):  # nothing of the kind, or ranges that do not prove it
            tried = sch.copy()
            tried.advance_shift(tried.get_sblock(name))
            if _shifts(tried) < _shifts(sch):
                sch.adopt(tried)
    if target.semantics != "chisel":
        return  # what is added there is no copy that may add something on the way
    for name in [b.name for b in device_blocks(sch.func)]:
        with suppress(ScheduleError):  # nothing of the kind, or ranges that do not prove it
            tried = sch.copy()
            made = named(tried, tried.advance_constant(tried.get_sblock(name)))
            before = {b.name: b.init for b in device_blocks(tried.func)}
            folded = tried.copy()
            folded.fold_epilogue(folded.get_sblock(made))
            starts = [b.init for b in device_blocks(folded.func) if b.init is not before.get(b.name)]
            bounds = [e for e in walk_expr(store_of(device_block(folded, made)).value) if isinstance(e, IntImm)]
            fit = all(IMM_MIN <= e.value <= IMM_MAX for e in bounds)
            if fit and all(isinstance(s, BufferStore) and _is_copy(s.value) for s in starts):
                sch.adopt(tried)


def _shifts(sch: Schedule) -> int:
    """How many shifts to the right stages have."""
    stores = [s for b in device_blocks(sch.func) for s in (b.init, b.body) if isinstance(s, BufferStore)]
    return sum(isinstance(e, Call) and e.op == "shift_right" for s in stores for e in walk_expr(s.value))


def _is_copy(value: Expr) -> bool:
    """Whether one immediate operation makes a value: a constant, or what is read and a constant."""
    if isinstance(value, BinOp) and value.op == "+" and isinstance(value.a, BufferLoad):
        value = value.b
    by = int_value(value)
    return by is not None and IMM_MIN <= by <= IMM_MAX
