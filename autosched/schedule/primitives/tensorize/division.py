"""Dividing the iterators of a block at a loop: what the loops outside move, and what those inside do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.ir.expr import Expr, IntImm, Var, int_value, logical_and
from autosched.ir.functor import uses
from autosched.ir.numbered import Numbered, Numbers, numbered, unnumbered
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import TRUE, BlockRealize, For
from autosched.ir.subspace import Division as Digits
from autosched.ir.subspace import subspace_divide
from autosched.schedule.analysis.boxes import is_unit, loop_ranges


@dataclass(frozen=True)
class Part:
    """One half of an iterator.

    Args:
        value: binding.
        extent: number of values.
    """

    value: Expr
    extent: Expr


@dataclass(frozen=True)
class Division:
    """All iterators of a block divided, and its predicate.

    Args:
        parts: of each iterator, outside and inside.
        outer_predicate: what holds of the loops outside.
        inner_predicate: what holds inside.
    """

    parts: list[tuple[Part, Part]]
    outer_predicate: Expr
    inner_predicate: Expr


# Divisions in numbers, the loops' variables by their first place in what is divided.
_DIVISIONS: OrderedDict[Numbered, Numbered] = OrderedDict()
_DIVISIONS_LIMIT = 2048
_UNKNOWN = object()


def divide(realize: BlockRealize, inner: Sequence[For], outer: Sequence[For], preserve_unit: bool) -> Division | None:
    """Writes each iterator as ``outer * inner_extent + inner``, each part over loops of its side.

    It is worked out once for all blocks and loops that are written the same way.

    Args:
        realize: the block.
        inner: the loops inside, outermost first.
        outer: the loops outside.
        preserve_unit: whether a loop of one iteration stays in the parts.

    Returns:
        the division, or None where there is none.
    """
    loops, inside = {n.var: n for n in (*outer, *inner)}, {n.var for n in inner}
    # By their first place in what is divided: in which order the loops run decides nothing.
    numbers = Numbers()
    try:
        values = tuple([numbered(v, numbers) for v in realize.iter_values])
        predicate = numbered(realize.predicate, numbers)
        ends = {v: (numbered(n.min, {}), numbered(n.extent, {})) for v, n in loops.items()}
        asked = (
            preserve_unit, all(int_value(n.min) == 0 for n in loops.values()),
            tuple([(v.name, v.dtype, v in inside, ends[v]) for v in numbers]), values, predicate,
            tuple([(numbered(iv.dom.min, {}), numbered(iv.dom.extent, {})) for iv in realize.block.iter_vars]),
        )
    except KeyError:  # symbolic
        return _worked_out(realize, inner, outer, preserve_unit)
    found = _DIVISIONS.get(asked, _UNKNOWN)
    if found is _UNKNOWN:
        division = _worked_out(realize, inner, outer, preserve_unit)
        try:
            _DIVISIONS[asked] = _in_numbers(division, dict(numbers))
        except KeyError:  # beyond sums and comparisons
            return division
        while len(_DIVISIONS) > _DIVISIONS_LIMIT:
            _DIVISIONS.popitem(last=False)
        return division
    if found is None:
        return None
    codes, above, below = found
    variables = list(numbers)

    def told(code: Numbered, known: Numbered, expr: Expr) -> Expr:
        """The expression behind a code: mostly all of an iterator's value, or of the predicate, is on one side."""
        return expr if code == known else unnumbered(code, variables)

    parts = []
    for halves, known, value in zip(codes, values, realize.iter_values):
        high, low = [Part(told(v, known, value), unnumbered(e, variables)) for v, e in halves]
        parts.append((high, low))
    return Division(parts, told(above, predicate, realize.predicate), told(below, predicate, realize.predicate))


def _in_numbers(division: Division | None, numbers: Mapping[Var, int]) -> Numbered:
    if division is None:
        return None
    parts = [[(numbered(p.value, numbers), numbered(p.extent, numbers)) for p in part] for part in division.parts]
    return parts, numbered(division.outer_predicate, numbers), numbered(division.inner_predicate, numbers)


def _worked_out(realize: BlockRealize, inner: Sequence[For], outer: Sequence[For], preserve_unit: bool) -> Division | None:
    inside = {n.var: n for n in inner}
    result = subspace_divide(
        list(realize.iter_values), {**loop_ranges(outer), **loop_ranges(inner)}, list(inside), realize.predicate,
        simplify_trivial=not preserve_unit,
    )
    if realize.predicate != TRUE and (result is None or _shifted(realize, result.parts, outer, inner)):
        # A condition that ties iterators together (a window at the border) is no bound of theirs, and one that starts them
        # late would leave an offset: such only go along.
        result = subspace_divide(
            list(realize.iter_values), {**loop_ranges(outer), **loop_ranges(inner)}, list(inside),
            simplify_trivial=not preserve_unit,
        )
    if result is not None:
        parts = [(Part(d.outer, d.outer_extent), Part(d.inner, d.inner_extent)) for d in result.parts]
        if _from_zero(realize, parts, outer, inner):
            return _keep_guards(realize, parts, result.outer_predicate, result.inner_predicate, outer, inner)
    # Iterators that use either outer or inner loops only need no arithmetic, and may be anything: also start late, as those of
    # the part of a stage do.
    around = {n.var: n for n in outer}
    parts = []
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        if int_value(iv.dom.min) != 0:
            return None
        unit = Part(IntImm(0, value.dtype), IntImm(1, value.dtype))
        part = Part(value, iv.dom.extent)
        if uses(value, around):
            if uses(value, inside):
                return None
            parts.append((part, unit))
        else:
            parts.append((unit, unit if int_value(value) == 0 else part))
    return _keep_guards(realize, parts, TRUE, TRUE, outer, inner)


def _shifted(realize: BlockRealize, parts: Sequence[Digits], outer: Sequence[For], inner: Sequence[For]) -> bool:
    """Whether a part counts from above zero: a bound below (``1 <= k``) leaves its offset with a part that has no room for it."""
    analyzer = Analyzer(loop_ranges([*outer, *inner]))
    analyzer.assume(realize.predicate)
    for d in parts:
        for value, extent in ((d.outer, d.outer_extent), (d.inner, d.inner_extent)):
            low, _ = analyzer.int_bounds(value)
            if low is not None and low > 0:
                return True
            if is_unit(extent) and int_value(value) not in (None, 0):
                return True
    return False


def _from_zero(
    realize: BlockRealize, parts: Sequence[tuple[Part, Part]], outer: Sequence[For], inner: Sequence[For]
) -> bool:
    """Whether the parts together are the iterators, and count from zero: values that start later need not give such."""
    loops = [*outer, *inner]
    analyzer = Analyzer(loop_ranges(loops))
    if all(int_value(loop.min) == 0 for loop in loops) and all(
        int_value(v) == 0 or (uses(v, {n.var for n in loops}) and analyzer.int_bounds(v)[0] == 0) for v in realize.iter_values
    ):
        return True
    analyzer.assume(realize.predicate)
    for value, (high, low) in zip(realize.iter_values, parts):
        if not analyzer.can_prove_equal(value, high.value * low.extent + low.value):
            return False
        for part in (high, low):
            if not (analyzer.can_prove(part.value < part.extent) and analyzer.can_prove(part.value >= 0)):
                return False
    return True


def _keep_guards(
    realize: BlockRealize, parts: list[tuple[Part, Part]], outside: Expr, inside: Expr, outer: Sequence[For],
    inner: Sequence[For],
) -> Division | None:
    """The division with every condition of the old predicate on one side or the other, or None if one is on neither."""
    if realize.predicate == TRUE:
        return Division(parts, outside, inside)
    # A condition may be known to the division as a narrower domain only; but a domain guards nothing.
    analyzer = Analyzer(loop_ranges([*outer, *inner]))
    for value, (high, low) in zip(realize.iter_values, parts):
        if not analyzer.can_prove_equal(value, high.value * low.extent + low.value):
            return None
    analyzer.assume(outside)
    analyzer.assume(inside)
    above, below = {n.var for n in outer}, {n.var for n in inner}
    for cond in conjuncts(realize.predicate):
        if analyzer.can_prove(cond):
            continue
        if not uses(cond, above):
            inside = logical_and(inside, cond)
        elif not uses(cond, below):
            outside = logical_and(outside, cond)
        else:
            return None
    return Division(parts, outside, inside)
