"""Whether a reduction runs its init before all else: only then may an init be taken out, and its terms come in another order."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import Expr, int_value
from autosched.ir.functor import substitute
from autosched.ir.simplify import simplify
from autosched.ir.stmt import BlockRealize, For, IterVar
from autosched.schedule.kit.refusal import Refusal


def late(realize: BlockRealize, loops: Sequence[For], values: Sequence[Expr] | None = None) -> tuple[IterVar, int] | None:
    """A reduction iterator that its loops do not begin with its first value, where the init runs, and what they begin with.

    Args:
        realize: the block; without an init it has none.
        loops: all loops around it.
        values: bindings in place of its own.
    """
    if realize.block.init is None:
        return None
    begin = {loop.var: loop.min for loop in loops}
    for iv, value in zip(realize.block.iter_vars, realize.iter_values if values is None else values):
        if iv.kind != "reduce" or value in begin:
            continue
        first, start = int_value(simplify(substitute(value, begin))), int_value(iv.dom.min)
        if first is not None and start is not None and first != start:
            return iv, first
    return None


def require_init_first(realize: BlockRealize, loops: Sequence[For], values: Sequence[Expr] | None = None) -> None:
    """Refuses a reduction that sets its initial value after other iterations, whose results that then undoes.

    Args:
        realize: the block.
        loops: all loops around it.
        values: bindings in place of its own.

    Raises:
        Refusal: code ``reduction``.
    """
    found = late(realize, loops, values)
    if found is not None:
        iv, first = found
        raise Refusal(
            f"the loops around {realize.block.name} begin with {iv.var.name} = {first}, and its init runs where that is "
            f"{int_value(iv.dom.min)}, behind other iterations, whose results it undoes", [realize.block.ident],
            f"run {iv.var.name} from its first value on", code="reduction",
        )
