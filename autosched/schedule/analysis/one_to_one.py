"""How a block's iterators follow the loops around it: each onto an interval, and no two iterations of the loops alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.ir.expr import Expr, IntImm, Var, int_value
from autosched.ir.forms import affine
from autosched.ir.functor import uses
from autosched.ir.itermap import detect_iter_map, pinned, without
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, BlockRealize, For, Range
from autosched.schedule.analysis.boxes import bind_all, is_unit, loop_ranges


def affine_binding(realize: BlockRealize, loops: Sequence[For], pin: bool = True) -> bool:
    """Whether the iterators of a block are independent quasi-affine functions of the loops, each onto an interval.

    Args:
        realize: the block.
        loops: the loops.
        pin: loops that the predicate cuts down to one iteration count as constants.
    """
    if not loops or _plain_binding(realize, loops):
        return True
    if realize.predicate == TRUE and _digits(realize.iter_values, loop_ranges(loops), True):
        return True
    result = detect_iter_map(
        list(realize.iter_values), loop_ranges(loops), realize.predicate, "surjective", simplify_trivial=False
    )
    if not result and pin and realize.predicate != TRUE:
        # A loop that runs once counts as a constant: a predicate that names it binds it to nothing.
        result = detect_iter_map(list(realize.iter_values), loop_ranges(loops), realize.predicate, "surjective")
        fixed = {} if result else pinned(loop_ranges(loops), realize.predicate)
        if fixed:
            values, predicate = without(fixed, realize.iter_values), without(fixed, [realize.predicate])[0]
            result = detect_iter_map(values, loop_ranges(loops), predicate, "surjective", simplify_trivial=False)
    if not result:
        return False
    return all(not s.args or int_value(s.args[0].scale) == 1 for s in result.indices)


def drives_one_each(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether each of some loops alone is the value of an iterator of a block that none of the others drives."""
    inner = {loop.var for loop in loops}
    moving = [v for v in realize.iter_values if uses(v, inner)]
    whole = {loop.var for loop in loops if not is_unit(loop.extent)}
    return all(isinstance(v, Var) for v in moving) and len(set(moving)) == len(moving) and whole <= set(moving)


def one_to_one(values: Sequence[Expr], loops: Sequence[For], predicate: Expr, outer: Sequence[For] = ()) -> bool:
    """Whether no two iterations of some loops give the same values; the outer loops stand still."""
    ranges = loop_ranges(loops)
    values = [v for v in values if not isinstance(v, IntImm)]
    if _digits(values, ranges, False):
        return True
    analyzer = bind_all(Analyzer(), outer)
    # A restriction of a one-to-one map is one too, so a predicate that is not understood does no harm.
    tried = (predicate, TRUE) if predicate != TRUE else (TRUE,)
    if any(bool(detect_iter_map(values, ranges, p, "bijective", analyzer)) for p in tried):
        return True
    # What tells the iterations of all loops apart does so where some stand still.
    return bool(outer) and one_to_one(values, [*outer, *loops], predicate)


def injective(values: Sequence[Expr], dom: Mapping[Var, Range]) -> bool:
    """Whether no two points of a domain give the same values, with or without gaps between them."""
    values = [v for v in values if not isinstance(v, IntImm)]
    return _digits(values, dom, False) or bool(detect_iter_map(values, dom, TRUE, "bijective"))


def _digits(values: Sequence[Expr], dom: Mapping[Var, Range], onto: bool) -> bool:
    """Whether each value counts in variables of its own like a number in its digits; the common case, by coefficients.

    Args:
        values: what the variables give.
        dom: the variables' ranges; other variables stand still.
        onto: ask for values without gaps, where variables may be unused; otherwise for no value twice.
    """
    counts = {var: int_value(r.extent) for var, r in dom.items()}
    seen: set[Var] = set()
    for value in values:
        form = affine(value, {})
        if form is None:
            return False
        terms: list[tuple[int, int]] = []
        for var, c in form[0].items():
            if var not in counts:
                continue
            n = counts[var]
            if n is None or c <= 0 or var in seen:
                return False
            seen.add(var)
            if n > 1:
                terms.append((c, n))
        span = 1
        for c, n in sorted(terms):
            if c != span if onto else c < span:
                return False
            span += c * (n - 1)
    return onto or all(n == 1 or var in seen for var, n in counts.items())


def _plain_binding(realize: BlockRealize, loops: Sequence[For]) -> bool:
    # Distinct loop variables and constants: by far the commonest binding, decided without an iteration map.
    if realize.predicate != TRUE:
        return False
    seen: set[Var] = set()
    domain = {loop.var for loop in loops}
    for value in realize.iter_values:
        if isinstance(value, IntImm):
            continue
        if not isinstance(value, Var) or value not in domain or value in seen:
            return False
        seen.add(value)
    return True
