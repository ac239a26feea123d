"""Whether a reduction runs its init before all else: only then may an init be taken out, and its terms come in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, product

from autosched.ir.expr import Expr, IntImm, Var, binary, int_value
from autosched.ir.functor import free_vars, substitute, uses
from autosched.ir.print_expr import expr_text
from autosched.ir.simplify import simplify
from autosched.ir.stmt import BlockRealize, For, IterVar
from autosched.schedule.kit.refusal import Refusal

MOST = 4096  # iterations that are looked at for the first that runs


def late(realize: BlockRealize, loops: Sequence[For]) -> tuple[IterVar, Expr] | None:
    """A reduction iterator that its loops do not begin with its first value, where the init runs, and what they begin with.

    Args:
        realize: the block; without an init it has none.
        loops: all loops around it.
    """
    if realize.block.init is None:
        return None
    bound = list(zip(realize.block.iter_vars, realize.iter_values))
    reduced = [(iv, value) for iv, value in bound if iv.kind == "reduce"]
    plain = {value for iv, value in bound if iv.kind == "spatial"}
    used = {v for _, value in reduced for v in free_vars(value)}
    begin = {loop.var: loop.min for loop in loops}
    # For each index that the results have by themselves the sum begins anew: it is asked about the first and the last one.
    ends = [loop for loop in loops if loop.var in used and loop.var in plain and int_value(loop.extent) is not None]
    begin |= _first(realize, [loop for loop in loops if loop.var in used and loop not in ends], begin)
    for far in (False, True) if ends else (False,):
        at = {**begin, **{loop.var: simplify(loop.min + loop.extent - 1) for loop in ends if far}}
        for iv, value in reduced:
            start = simplify(substitute(value, at))
            if _is_another(start, iv):
                return iv, start
    return None


def _first(realize: BlockRealize, driving: Sequence[For], begin: Mapping[Var, Expr]) -> dict[Var, Expr]:
    """The values of some loops in the first of their iterations that runs, as far as that is found; else none."""
    extents, starts = [int_value(loop.extent) for loop in driving], [int_value(loop.min) for loop in driving]
    if not uses(realize.predicate, {loop.var for loop in driving}) or None in extents or None in starts:
        return {}
    spans = [range(low, low + n) for low, n in zip(starts, extents) if low is not None and n is not None]
    for found in islice(product(*spans), MOST):
        at: dict[Var, Expr] = {loop.var: IntImm(n, loop.var.dtype) for loop, n in zip(driving, found)}
        if int_value(simplify(substitute(realize.predicate, {**begin, **at}))) != 0:
            return at
    return {}


def _is_another(start: Expr, iv: IterVar) -> bool:
    """Whether an iterator begins elsewhere than its domain: of extents that are symbols, where it is not known to begin there."""
    less = simplify(binary("-", start, iv.dom.min))
    left = set(free_vars(less))
    known = int_value(less)
    return known != 0 if known is not None else bool(left) and left <= set(free_vars(iv.dom.extent))


def require_init_first(realize: BlockRealize, loops: Sequence[For]) -> None:
    """Refuses a reduction that sets its initial value after other iterations, whose results that then undoes.

    Args:
        realize: the block.
        loops: all loops around it.

    Raises:
        Refusal: code ``reduction``.
    """
    found = late(realize, loops)
    if found is not None:
        iv, first = found
        name = realize.block.name
        raise Refusal(
            f"the loops around {name} begin with {iv.var.name} = {expr_text(first)}, and its init runs where that is "
            f"{expr_text(iv.dom.min)}, behind other iterations, whose results it undoes", [realize.block.ident],
            f"run {iv.var.name} from its first value on", code="reduction",
        )
