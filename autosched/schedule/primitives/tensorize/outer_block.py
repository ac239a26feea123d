"""The block that stands for a loop and all below it: iterators in halves, an outer one and one of the block inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, is_int, logical_and
from autosched.ir.functor import Substitute, free_vars, uses
from autosched.ir.itermap import pinned, without
from autosched.ir.numbered import numbered
from autosched.ir.region import block_access, region_bounds, without_init
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, IterVar, Range, Stmt
from autosched.schedule.analysis.boxes import is_unit, loop_ranges
from autosched.schedule.analysis.dependence import not_accumulating
from autosched.schedule.analysis.init_first import require_init_first
from autosched.schedule.analysis.init_predicate import init_predicate
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.one_to_one import one_to_one
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.division import Division, divide


@dataclass
class Halves:
    """The iterators of the outer and of the inner block, and what the old ones become."""

    outer_iters: list[IterVar]
    outer_values: list[Expr]
    inner_iters: list[IterVar]
    inner_values: list[Expr]
    vmap: dict[Var, Expr]


def halve(
    iter_vars: Sequence[IterVar], division: Division, preserve_unit: bool, given: Halves | None = None
) -> Halves:
    """A block's iterators in two parts each, or after those of a block beside it that has been halved (``given``)."""
    halves = Halves([], [], [], [], {})
    for k, (iv, (outer, inner)) in enumerate(zip(iter_vars, division.parts)):
        dtype = iv.var.dtype
        zero = IntImm(0, dtype)
        if given is None or k >= len(given.outer_iters):
            new = IterVar(Var(f"{iv.var.name}_o", dtype), Range(zero, outer.extent), iv.kind)
            value = outer.value
        else:
            new, value = given.outer_iters[k], given.outer_values[k]
        halves.outer_iters.append(new)
        halves.outer_values.append(value)
        if is_unit(inner.extent):
            halves.vmap[iv.var] = zero if is_unit(outer.extent) and not preserve_unit else new.var
            continue
        small = IterVar(Var(f"{iv.var.name}_i", dtype), Range(zero, inner.extent), iv.kind)
        halves.inner_iters.append(small)
        halves.inner_values.append(inner.value)
        halves.vmap[iv.var] = small.var if is_unit(outer.extent) else new.var * inner.extent + small.var
    return halves


class Simplifying(Substitute):
    """Substitutes and simplifies every index that changes.

    Args:
        vmap: what variables become.
        analyzer: knows the ranges of those that are left.
    """

    def __init__(self, vmap: dict[Var, Expr], analyzer: Analyzer) -> None:
        super().__init__(vmap)
        self.analyzer = analyzer

    def index(self, expr: Expr) -> Expr:
        """One index, simplified if it changed."""
        new = self.visit_expr(expr)
        return new if new is expr or not is_int(new.dtype) else self.analyzer.simplify(new)

    def visit_load(self, load: BufferLoad) -> Expr:
        return BufferLoad(load.buffer, tuple([self.index(i) for i in load.indices]), load.dtype)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        ranges = tuple([Range(self.index(r.min), self.index(r.extent)) for r in region.region])
        return BufferRegion(region.buffer, ranges)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore):
            return BufferStore(stmt.buffer, tuple([self.index(i) for i in stmt.indices]), self.visit_expr(stmt.value))
        if isinstance(stmt, BlockRealize):
            predicate = self.visit_expr(stmt.predicate)
            if predicate is not stmt.predicate:
                predicate = self.analyzer.simplify(predicate)
            values = tuple([self.index(v) for v in stmt.iter_values])
            return BlockRealize(values, predicate, self.visit_block(stmt.block))
        return super().visit_stmt(stmt)


def relaxed(regions: Sequence[BufferRegion], dom: dict[Var, Range]) -> tuple[BufferRegion, ...]:
    """What regions cover while some variables run over their ranges."""
    return tuple(BufferRegion(r.buffer, region_bounds(r, dom)) for r in regions) if dom else tuple(regions)


# -- a loop ----------------------------------------------------------------------------------------------------------


def single_block(state: State, loop: For) -> tuple[BlockRealize, list[For]]:
    """The only block below a loop and the loops from that loop down to it.

    Raises:
        Refusal: several blocks, or something else than loops between.
    """
    children = state.children_of(loop)
    if len(children) != 1:
        listed = ", ".join(b.name for b in children)
        raise Refusal(
            f"loop {loop.var.name} is required to have only one child block, but has {len(children)}: {listed}",
            [loop.var, *(b.ident for b in children)],
            hint="take a loop around one block only, or move the others away (compute_at, reverse_compute_at)", code="place",
        )
    realize = state.realizes[children[0].ident]
    inner: list[For] = []
    for node in state.ancestors(realize):
        if not isinstance(node, For):
            raise Refusal(f"between loop {loop.var.name} and block {children[0].name} stands more than loops", [node],
                          hint="take a loop below it", code="place")
        inner.append(node)
        if node is loop:
            break
    return realize, inner[::-1]


def divide_below(
    state: State, realize: BlockRealize, inner: Sequence[For], outer: Sequence[For], preserve_unit: bool
) -> Division | None:
    """``divide`` where loops outside the block around may bind iterators, too: they are outer ones."""
    scope = next((n for n in state.ancestors(realize) if isinstance(n, Block)), None)
    around = [] if scope is None else [n for n in state.ancestors(scope) if isinstance(n, For)]
    used = {v for e in (*realize.iter_values, realize.predicate) for v in free_vars(e)} if around else ()
    beyond = [n for n in around if n.var in used][::-1]
    division = divide(realize, inner, [*beyond, *outer], preserve_unit)
    if division is not None or not beyond:
        return division
    outside = {n.var for n in beyond}
    if realize.block.init is not None and any(
        iv.kind == "reduce" and uses(v, outside) for iv, v in zip(realize.block.iter_vars, realize.iter_values)
    ):
        return None  # an init below would not know the first iteration
    return divide(realize, inner, outer, preserve_unit)


@dataclass(frozen=True)
class Below:
    """What is below a loop that becomes a block.

    Args:
        loop: the loop.
        realize: the only block in it.
        inner: the loops from that one down to the block.
        division: of the block's iterators.
        preserve_unit: whether iterators of one value stay.
    """

    loop: For
    realize: BlockRealize
    inner: list[For]
    division: Division
    preserve_unit: bool

    def site(self, large: Block) -> BlockRealize:
        """The outer block where the loop stands."""
        return BlockRealize(tuple([outer.value for outer, _ in self.division.parts]), self.division.outer_predicate, large)


def blockize_loop(state: State, loop: For, preserve_unit: bool) -> BlockRealize:
    """The outer block that stands for a loop and all below it; see ``blockize``.

    Raises:
        Refusal: the block's iterators cannot be divided there.
    """
    found = divided(state, loop, preserve_unit)
    return found.site(outer_block(state, found))


def divided(state: State, loop: For, preserve_unit: bool) -> Below:
    """What is below a loop, for a block that is to stand for it.

    Raises:
        Refusal: the block's iterators cannot be divided there.
    """
    realize, inner = single_block(state, loop)
    block = realize.block
    require_bound(block, inner)
    outer = state.loops_above(loop)
    division = divide_below(state, realize, inner, outer, preserve_unit)
    if division is None:
        raise Refusal(
            f"the iterators of {block.name} cannot be divided at loop {loop.var.name} into an outer and an inner part",
            [loop.var, block.ident],
            hint="split by factors that divide the extents, and reorder so that whole inner parts are below the loop",
            code="index",
        )
    below = {n.var for n in inner if not is_unit(n.extent)}
    if any(iv.kind == "reduce" and uses(v, below) for iv, v in zip(block.iter_vars, realize.iter_values)):
        require_init_first(realize, [*outer, *inner])
    return Below(loop, realize, inner, division, preserve_unit)


def outer_block(state: State, found: Below) -> Block:
    """The block that stands for a loop and all below it.

    Without an init it is decided by the block below, the loops inside and their part of the division alone.

    Raises:
        Refusal: an init that cannot be taken out of the loops inside.
    """
    block, inner, division = found.realize.block, found.inner, found.division
    halves = halve(block.iter_vars, division, found.preserve_unit)
    dom = {iv.var: iv.dom for iv in halves.inner_iters}
    analyzer = Analyzer(dom)
    new = Simplifying(halves.vmap, analyzer).visit_stmt(replace(block, iter_vars=()))
    assert isinstance(new, Block)
    fault = None if block.init is None or state.trusted else not_accumulating(block)
    if fault is not None:
        raise Refusal(f"block {block.name} has an init and is no reduction: {fault}", [block.ident], code="reduction")
    if new.init is not None and not _each_once(halves.inner_values, inner, division.inner_predicate):
        name = found.loop.var.name
        raise Refusal(
            f"the iterations below {name} repeat or overlap in {block.name}, so its init cannot be taken out of them",
            [found.loop.var, block.ident], "decompose_reduction first", code="reduction",
        )
    reduces = new.init is not None and any(iv.kind == "reduce" for iv in halves.outer_iters)
    reads = (*new.writes, *new.reads) if reduces else new.reads
    small = BlockRealize(
        tuple(halves.inner_values), division.inner_predicate,
        without_init(replace(new, iter_vars=tuple(halves.inner_iters)), reads),
    )
    nest: Stmt = small
    for n in reversed(inner):
        nest = replace(n, body=nest)
    init = None if new.init is None else _outer_init(new.init, small, inner, f"{block.name}_init")
    return Block(
        f"{block.name}_o", tuple(halves.outer_iters), relaxed(new.reads, dom), relaxed(new.writes, dom), nest, init=init
    )


def decided(found: Below) -> tuple[object, ...] | None:
    """What decides the outer block besides the block below it; None where that is no matter of plain numbers."""
    numbers = {n.var: k for k, n in enumerate(found.inner)}
    if found.realize.block.init is not None or any(n.annotations for n in found.inner):
        return None
    try:
        return (
            found.preserve_unit,
            tuple([(n.var.dtype, n.kind, n.thread, numbered(n.min, numbers), numbered(n.extent, numbers)) for n in found.inner]),
            tuple([(numbered(outer.extent, {}), numbered(inner.extent, {}), numbered(inner.value, numbers))
                   for outer, inner in found.division.parts]),
            numbered(found.division.inner_predicate, numbers),
        )
    except KeyError:  # symbolic
        return None


def _each_once(values: Sequence[Expr], loops: Sequence[For], predicate: Expr) -> bool:
    """Whether no two iterations that run have the same values."""
    fixed = pinned(loop_ranges(loops), predicate)
    free = [n for n in loops if n.var not in fixed]
    return one_to_one(without(fixed, values), free, without(fixed, [predicate])[0])


def _outer_init(init: Stmt, small: BlockRealize, loops: Sequence[For], name: str) -> Stmt:
    """The initialisation of one instance of the outer block: the spatial loops inside it around the old init."""
    used = set(free_vars(init))
    iters: list[IterVar] = []
    values: list[Expr] = []
    vmap: dict[Var, Expr] = {}
    for iv, value in zip(small.block.iter_vars, small.iter_values):
        if iv.kind == "spatial" and iv.var in used:
            fresh = Var(f"{iv.var.name}_init", iv.var.dtype)
            vmap[iv.var] = fresh
            iters.append(IterVar(fresh, iv.dom, iv.kind))
            values.append(value)
    sub = Substitute(vmap)
    block = Block(name, tuple(iters), (), tuple(sub.visit_region(w) for w in small.block.writes), sub.visit_stmt(init))
    block = replace(block, reads=block_access(block)[0])
    chosen = [n for n in loops if any(uses(v, {n.var}) for v in values)]
    renamed: dict[Var, Expr] = {n.var: Var(n.var.name, n.var.dtype) for n in chosen}
    outer = Substitute(renamed)
    dropped = [n for n in loops if n.var not in renamed]
    single: dict[Var, Expr] = {n.var: n.min for n in dropped if is_unit(n.extent)}
    tests = without(single, conjuncts(small.predicate)) if single else conjuncts(small.predicate)
    condition = init_predicate(small.block, logical_and(*tests), None, (), chosen, dropped)
    predicate = outer.visit_expr(condition)
    nest: Stmt = BlockRealize(outer.visit_exprs(tuple(values)), predicate, block)
    for n in reversed(chosen):
        var = renamed[n.var]
        assert isinstance(var, Var)
        nest = replace(n, var=var, body=nest)
    return nest
