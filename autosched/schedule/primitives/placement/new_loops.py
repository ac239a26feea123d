"""The loops that a block gets where it is moved to, their conditions, and what would run there too seldom or too often."""

from __future__ import annotations

from itertools import takewhile

from autosched.ir.cover import covers
from autosched.ir.expr import BinOp, Expr, IntImm, Var, bits, int_value, logical_and, minimum
from autosched.ir.functor import Substitute, free_vars, uses
from autosched.ir.simplify import Analyzer, conjuncts, linear_form
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, For, Range, point
from autosched.ir.swept import bounding_box, exact_box
from autosched.schedule.analysis.attach_domain import Domain
from autosched.schedule.analysis.boxes import bind_all, is_unit, loop_ranges, runs_everywhere
from autosched.schedule.analysis.init_first import require_init_first
from autosched.schedule.analysis.one_to_one import one_to_one
from autosched.schedule.kit.refusal import Refusal


def new_loops(
    block: Block, domains: list[Domain], analyzer: Analyzer, preserve_unit: bool
) -> tuple[list[For], list[Expr], Expr]:
    """Loops (with a placeholder body), values of the iterators, and the predicate."""
    loops: list[For] = []
    values: list[Expr] = []
    conditions: list[Expr] = []
    hole = BlockRealize((), TRUE, block)
    asked = any(domain.count is None or domain.bound is not None for domain in domains)
    for domain in domains:
        assert domain.dom is not None
        lo, hi = domain.dom
        assert lo is not None
        if domain.count is not None:
            extent: Expr = IntImm(domain.count)
        else:
            assert hi is not None
            extent = analyzer.simplify(hi - lo + 1)
            longest = None if isinstance(extent, IntImm) else analyzer.largest(hi - lo + 1)
            if longest is not None:
                # An extent that varies from place to place becomes the largest one, under a condition.
                last = hi if domain.bound is None or domain.bound[1] is None else minimum(hi, domain.bound[1])
                domain.bound = (None if domain.bound is None else domain.bound[0], analyzer.simplify(last))
                extent = IntImm(longest, extent.dtype)
        if preserve_unit or not is_unit(extent):
            dtype = lo.dtype if lo.dtype == extent.dtype or bits(lo.dtype) >= bits(extent.dtype) else extent.dtype
            var = Var(f"ax{len(loops)}", dtype)
            zero = IntImm(0, dtype)
            if asked:
                analyzer.bind(var, Range(zero, extent))
            loops.append(For(var, zero, extent, "serial", hole))
            value = lo + var
        else:
            value = lo
        values.append(value)
        if domain.bound is not None:
            low, high = domain.bound
            sides = [*([] if low is None else [value >= low]), *([] if high is None else [value < high + 1])]
            conditions += [side for side in sides if domain.count is not None or not analyzer.can_prove(side)]
    predicate = analyzer.simplify_alike(logical_and(*conditions)) if conditions else TRUE
    return loops, values, predicate


def kept_guards(
    realize: BlockRealize, values: list[Expr], predicate: Expr, old: list[For], new: list[For]
) -> Expr:
    """The predicate at the new place, with what the old one demands beyond the domains of the iterators.

    Raises:
        Refusal: such a condition cannot be told in terms of the iterators.
    """
    block = realize.block
    if realize.predicate == TRUE:
        return predicate
    if runs_everywhere(realize, old):
        return predicate
    within = bind_all(Analyzer(), old)
    for iv, value in zip(block.iter_vars, realize.iter_values):
        within.assume(logical_and(value >= iv.dom.min, value < iv.dom.min + iv.dom.extent))
    there = bind_all(Analyzer(), new)
    there.assume(predicate)
    own = {loop.var for loop in old}
    exact = {v: k for k, v in enumerate(realize.iter_values) if isinstance(v, Var)}
    kept: list[Expr] = []
    for cond in conjuncts(realize.predicate):
        if within.can_prove(cond):
            continue
        moved = Substitute({v: values[k] for v, k in exact.items()}).visit_expr(cond)
        if any(v in own and v not in exact for v in free_vars(cond)):
            moved = _rewritten(cond, realize, values, old)
        if not there.can_prove(moved):
            kept.append(there.simplify(moved))
    return logical_and(*conjuncts(predicate), *kept) if kept else predicate


def _rewritten(cond: Expr, realize: BlockRealize, values: list[Expr], loops: list[For]) -> Expr:
    """A comparison of what one iterator is bound to with something, for the iterator's new value."""
    if isinstance(cond, BinOp) and cond.op in ("<", "<=", ">", ">=", "==", "!="):
        names = [loop.var for loop in loops]
        difference = linear_form(cond.a - cond.b, names)
        for value, new in zip(realize.iter_values, values):
            form = linear_form(value, names)
            if difference is None or form is None or not form[0] or set(form[0]) != set(difference[0]):
                continue
            for sign in (1, -1):
                if all(int_value(form[0][v]) == sign * (int_value(c) or 0) for v, c in difference[0].items()):
                    rest = difference[1] - sign * form[1]
                    return BinOp(cond.op, new * sign + rest, IntImm(0, new.dtype), "bool")
    raise Refusal(
        f"block {realize.block.name} runs under a condition that cannot be told in terms of its iterators",
        [realize.block.ident], "split by factors that divide, or move the block before", code="domain",
    )


def require_all(
    realize: BlockRealize, values: list[Expr], predicate: Expr, left: list[For], entered: list[For], common: list[For]
) -> None:
    """Refuses to lose iterations of the block: those whose operands no producer writes, as in a padded border."""
    block = realize.block
    shape = tuple(iv.dom.extent for iv in block.iter_vars)
    starts = [iv.dom.min for iv in block.iter_vars]
    if not shape:
        return
    domain = Buffer("domain", shape)
    analyzer = bind_all(Analyzer(), common)
    analyzer.assume(realize.predicate)
    have = exact_box(point(domain, tuple([v - s for v, s in zip(values, starts)])), loop_ranges(entered), conjuncts(predicate),
                     analyzer=analyzer)
    need = bounding_box(point(domain, tuple([v - s for v, s in zip(realize.iter_values, starts)])), loop_ranges(left))
    if have is None or not covers(have, need, shape, analyzer.never_negative):
        raise Refusal(
            f"block {block.name} would not run for all of its iterations there: its producers do not write all that it "
            "runs over", [block.ident], "attach the producers to this block instead (compute_at)", code="domain",
        )


def require_parts_once(
    block: Block, values: list[Expr], predicate: Expr, entered: list[For], loops: list[For], common: list[For]
) -> None:
    """Refuses to accumulate the same element of a reduction more than once.

    Outermost loops that drive nothing repeat the whole reduction, which starts again from its init each time.
    """
    idle = [*takewhile(lambda loop: not any(uses(e, {loop.var}) for e in (*values, predicate)), entered)]
    loops, entered, common = loops[len(idle):], entered[len(idle):], [*common, *idle]
    reduced = [(iv, v) for iv, v in zip(block.iter_vars, values) if iv.kind == "reduce"]
    moving = dict.fromkeys([loop.var for loop in entered if not is_unit(loop.extent)])  # in order: a refusal tells them
    if not any(uses(v, moving) for _, v in reduced):
        return
    for iv, value in reduced:
        form = linear_form(value, [n.var for n in loops])
        if form is not None and any((int_value(c) or 0) < 0 for c in form[0].values()):
            raise Refusal(
                f"the loops there run {iv.var.name}, an iterator of the reduction {block.name}, backwards: its init would "
                "come last", [block.ident], f"decompose_reduction {block.name} first", code="reduction",
            )
    require_init_first(BlockRealize(tuple(values), predicate, block), [*common, *loops])
    if not one_to_one(values, loops, predicate, common):
        raise Refusal(
            f"the parts that {block.name} would reduce in the iterations of {', '.join(v.name for v in moving)} "
            "overlap or repeat, so elements would be accumulated more than once", [block.ident],
            "attach it outside these loops", code="reduction",
        )
