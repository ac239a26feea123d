"""Blocks at their places: their iterators, regions and loops in the terms in which boxes are asked for (``ir.cover``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autosched.ir.cover import covers
from autosched.ir.expr import Expr, IntImm, Var
from autosched.ir.forms import Form, Span, affine
from autosched.ir.functor import Substitute
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import TRUE, BlockRealize, Buffer, BufferRegion, For, Range, full_region, point
from autosched.ir.swept import exact_box, ranges_box


def bindings(realize: BlockRealize) -> dict[Var, Expr]:
    """A block's iterators with their values at this place."""
    return {iv.var: value for iv, value in zip(realize.block.iter_vars, realize.iter_values)}


def loop_ranges(loops: Iterable[For]) -> dict[Var, Range]:
    """The domain of each loop variable."""
    return {loop.var: Range(loop.min, loop.extent) for loop in loops}


def spans(loops: Iterable[For]) -> dict[Var, Span] | None:
    """The domains of loops where all are constant and not empty; None otherwise."""
    found: dict[Var, Span] = {}
    for loop in loops:
        lo, extent = loop.min, loop.extent
        if type(lo) is not IntImm or type(extent) is not IntImm or extent.value < 1:
            return None
        found[loop.var] = (lo.value, extent.value)
    return found


_FORMS: dict[tuple[int, int], tuple[object, object, dict[Var, Form | None]]] = {}
_FORMS_LIMIT = 4096


def forms(realize: BlockRealize, fixed: Mapping[Var, Form | None] | None = None) -> dict[Var, Form | None]:
    """A block's iterators as affine forms of the loops around it; None where the value is none.

    Args:
        realize: the block.
        fixed: loops that have one value.
    """
    values = realize.iter_values
    if fixed:
        return {iv.var: affine(value, fixed) for iv, value in zip(realize.block.iter_vars, values)}
    key = (id(values), id(realize.block.iter_vars))
    hit = _FORMS.get(key)
    if hit is None:
        if len(_FORMS) >= _FORMS_LIMIT:
            _FORMS.clear()
        # What the ids are of is kept in the value, so that no other object takes them.
        found = {iv.var: affine(value, {}) for iv, value in zip(realize.block.iter_vars, values)}
        hit = _FORMS[key] = (values, realize.block.iter_vars, found)
    return hit[2]


def placed(region: BufferRegion, realize: BlockRealize) -> BufferRegion:
    """A region of a block, in terms of its iterators, where the block stands: in terms of the loops around it."""
    return Substitute(bindings(realize)).visit_region(region)


def is_unit(expr: Expr) -> bool:
    """Whether an extent is the constant one."""
    return isinstance(expr, IntImm) and expr.value == 1


def bind_all(analyzer: Analyzer, loops: Iterable[For]) -> Analyzer:
    """``analyzer`` with the domains of some loops bound."""
    for loop in loops:
        analyzer.bind(loop.var, Range(loop.min, loop.extent))
    return analyzer


def runs_everywhere(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether a block runs for all values of its iterators: its predicate only keeps it from running twice or outside.

    Args:
        realize: the block.
        loops: all loops that drive it.
    """
    block = realize.block
    if not block.iter_vars:
        return realize.predicate == TRUE
    shape = tuple(iv.dom.extent for iv in block.iter_vars)
    from_zero = tuple([v - iv.dom.min for v, iv in zip(realize.iter_values, block.iter_vars)])
    domain = Buffer("domain", shape)
    box = exact_box(point(domain, from_zero), loop_ranges(loops), conjuncts(realize.predicate))
    return box is not None and covers(box, ranges_box(full_region(domain).region), shape, Analyzer().never_negative)
