"""Sums whose terms count by more places than they are read by (prefix sums, integral images): each is multiplied by 1 or 0.

``T.if_then_else(p <= i, x[p], 0)`` is no padding of ``x``, which has no ``i``: a factor that the host lays out says what counts.
Of extrema (running maxima), which have no factors, they are windows that begin at the place, and padded beyond the tensor.
"""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import Cast, Expr, int_value
from autosched.ir.patterns import choice_of, summed, update_of
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.conditions import counted_element
from autosched.schedule.primitives.reductions.neutral_terms import leaves
from autosched.schedule.primitives.reductions.prefixes import slid
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, store_of
from space.normalise.copies import path_of


def applies(func: PrimFunc) -> bool:
    """Whether some sum has such terms.

    Args:
        func: the program, in form or not.
    """
    return any(isinstance(b.body, BufferStore) and (_first(b) is not None or _runs(b)) for b in device_blocks(func))


def apply(sch: Schedule, target: Target) -> None:
    """Writes every such term as a product."""
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        found = _first(block)
        if _runs(block):
            with suppress(ScheduleError):  # what is in the way of a schedule, analysis says
                sch.slide_reduction(sch.get_sblock(name))
        elif found is not None:
            sch.guard_factors(sch.get_sblock(name), path_of(store_of(block).value, found) or [])


def _runs(block: Block) -> bool:
    """Whether a minimum or maximum takes in elements up to a place, or from there on, elsewhere what changes nothing."""
    update = update_of(store_of(block)) if block.init is not None else None
    start = int_value(block.init.value) if isinstance(block.init, BufferStore) else None
    if update is None or update[0] == "+" or start is None or slid(block) is None:
        return False
    parts = choice_of(update[1].value if isinstance(update[1], Cast) else update[1])
    ends = [] if parts is None else [n for side in parts[1:] if (n := int_value(side)) is not None]
    return bool(ends) and all(leaves(update[0], start, n) for n in ends)


def _first(block: Block) -> Expr | None:
    """The term of a sum, where it is such a choice: only then a product of it is one of two factors."""
    term = summed(block)
    return term if term is not None and counted_element(block, term) is not None else None
