"""Loops that a block uses itself, not through an iterator: where they end, what the block does has no meaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autosched.ir.expr import Var
from autosched.ir.stmt import Block, For
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.kit.refusal import Refusal


def require_bound(block: Block, loops: Sequence[For], used: Collection[Var] | None = None) -> None:
    """Refuses a block that uses loops itself which it is to leave, or which something made of it is to stand without.

    Args:
        block: any.
        loops: the loops.
        used: the variables that matter; default: all that the block uses and does not define.

    Raises:
        Refusal: it uses one of them.
    """
    loop = next((n for n in loops if n.var in (facts(block).outer_vars if used is None else used)), None)
    if loop is not None:
        raise Refusal(f"block {block.name} uses loop {loop.var.name} itself, not through an iterator, and would leave it",
                      [loop.var, block.ident], code="place")
