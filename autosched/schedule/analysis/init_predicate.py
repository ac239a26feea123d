"""The predicate of an initialisation that is taken out of a reduction, which some of the reduction's loops do not surround."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import Expr, Var, logical_and
from autosched.ir.functor import uses
from autosched.ir.itermap import pinned, without
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, For, IterVar
from autosched.schedule.analysis.boxes import bind_all, is_unit, loop_ranges
from autosched.schedule.analysis.one_to_one import one_to_one
from autosched.schedule.kit.refusal import Refusal


def init_predicate(
    block: Block, condition: Expr, spatial: Sequence[tuple[IterVar, Expr]] | None, outside: Sequence[For],
    inside: Sequence[For], dropped: Sequence[For],
) -> Expr:
    """Where the initialisation runs.

    A condition on loops that it loses goes where the initialisation may as well run too often: every element belongs to
    one iteration of the other loops. Elsewhere it would undo results; there the condition must be plain to see without
    those loops: what it says where they start.

    Args:
        block: the reduction.
        condition: its predicate.
        spatial: the iterators that the initialisation keeps, with their bindings; None where it must not run too often,
            because their domains are larger than what the condition leaves.
        outside: loops around both blocks.
        inside: loops of the initialisation.
        dropped: loops of the reduction only.

    Raises:
        Refusal: what a condition on such a loop says about the others cannot be told.
    """
    gone = {n.var for n in dropped}
    single: dict[Var, Expr] = {n.var: n.min for n in dropped if is_unit(n.extent)}
    kept: list[Expr] = []
    mixed: list[Expr] = []
    for cond in conjuncts(condition):
        if not uses(cond, gone):
            kept.append(cond)
        elif not uses(cond, gone - set(single)):
            kept.append(without(single, [cond])[0])
        else:
            mixed.append(cond)
    predicate = logical_and(*kept)
    others = [*outside, *inside]
    tied = any(uses(c, {n.var for n in others}) for c in mixed)
    if not tied or (
        spatial is not None and _in_range(spatial, others, predicate)
        and one_to_one([v for _, v in spatial], others, predicate)
    ):
        return predicate
    begin: dict[Var, Expr] = {**{n.var: n.min for n in dropped}, **pinned(loop_ranges(dropped), condition)}
    ranges = bind_all(Analyzer(), [*others, *dropped])
    ranges.assume(condition)
    for cond in mixed:
        start = without(begin, [cond])[0]
        if not ranges.can_prove(start):
            raise Refusal(
                f"the predicate of {block.name} ties the reduction's loops to others: {cond}",
                [block.ident], "split by factors that divide, or decompose before fusing", code="reduction",
            )
        known = bind_all(Analyzer(), others)
        known.assume(logical_and(*kept))
        if not known.can_prove(start):
            kept.append(start)
    return logical_and(*kept)


def _in_range(spatial: Sequence[tuple[IterVar, Expr]], loops: Sequence[For], predicate: Expr) -> bool:
    """Whether iterators stay in their domains under a predicate."""
    analyzer = bind_all(Analyzer(), loops)
    analyzer.assume(predicate)
    return all(
        analyzer.can_prove(value >= iv.dom.min) and analyzer.can_prove(value < iv.dom.min + iv.dom.extent)
        for iv, value in spatial
    )
