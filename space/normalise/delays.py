"""Shifts behind what is added to what they shift, where that leaves fewer operands of int8 to be widened.

A leaky ReLU, ``max(x, 13 * x >> 7)``, is ``max((13 * x >> 7) - x, 0) + x`` by differences: two products with an identity in front
of the comparison. Of ``-115 * x >> 7`` there is one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, Call, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.lower.normalise import IMM_MAX, IMM_MIN
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of
from space.normalise.copies import part_of
from space.normalise.widening import narrow_paths


class _Work(NamedTuple):
    """What a value takes.

    Args:
        widened: operands of int8, each with the factor that an identity holds.
        beyond: multiples by anything else, and constants that no instruction holds.
    """

    widened: int
    beyond: int


def apply(sch: Schedule, target: Target) -> None:
    """Delays shifts as long as that spares operands, in every block.

    Args:
        sch: of a program in whole elements, before its operands are widened.
        target: the machine; where a product has other lanes than an element nothing is widened.
    """
    if target.config.block_in != target.config.block_out:
        return
    for name in [b.name for b in device_blocks(sch.func)]:
        with suppress(ScheduleError):  # nothing of the kind, or ranges that do not prove it
            while any(isinstance(e, Call) and e.op == "shift_right" for e in walk_expr(_value(sch, name))):
                tried = sch.copy()
                tried.delay_shift(tried.get_sblock(name))
                before, after = _work(_value(sch, name)), _work(_value(tried, name))
                if after.widened >= before.widened or after.beyond > before.beyond:
                    break
                sch.adopt(tried)


def _value(sch: Schedule, name: str) -> Expr:
    return store_of(device_block(sch, name)).value


def _work(value: Expr) -> _Work:
    paths = list(narrow_paths(value))
    scaled = {e for path in paths for e in walk_expr(part_of(value, path))}
    others = [e for e in walk_expr(value) if e not in scaled]
    beyond = sum((isinstance(e, BinOp) and e.op == "*") or (isinstance(e, Call) and e.op == "shift_left") for e in others)
    constants = [c for e in others if (c := int_value(e)) is not None]
    return _Work(len(paths), beyond + sum(not IMM_MIN <= c <= IMM_MAX for c in constants))


__all__ = ["apply"]
