"""Turning a loop nest into one block, and the order of a block's iterators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, is_int, logical_and
from autosched.ir.functor import Substitute, free_vars, uses
from autosched.ir.itermap import pinned, without
from autosched.ir.numbered import numbered
from autosched.ir.region import block_access, region_bounds, union_regions, without_init
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IterVar,
    Range,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.schedule.analysis.boxes import is_unit, loop_ranges
from autosched.schedule.analysis.dependence import not_accumulating
from autosched.schedule.analysis.init_first import require_init_first
from autosched.schedule.analysis.init_predicate import init_predicate
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.one_to_one import one_to_one
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.division import Division, divide


class Blockizing(ScheduleBase):
    """Primitives that change which iterations make one block instance."""

    @primitive
    def blockize(self, target: LoopRV | BlockRV | list[BlockRV], preserve_unit_iters: bool = True) -> BlockRV:
        """Makes one block of a loop and all below it, or of several neighbouring blocks with the loops around each.

        Args:
            target: a loop above a single block; or a list of blocks that are neighbours below one loop or block.
            preserve_unit_iters: keep iterators of extent 1 in the outer block.

        Returns:
            The new outer block, ``<name>_o`` (of several blocks: ``outer_<names>_``).

        Before::

            for i_0, i_1 in T.grid(8, 16):
                with T.sblock("C"):
                    vi = T.axis.spatial(128, i_0 * 16 + i_1)
                    C[vi] = A[vi] * 2

        After ``sch.blockize(i1)``::

            for i_0 in range(8):
                with T.sblock("C_o"):
                    vi_o = T.axis.spatial(8, i_0)
                    for i_1 in range(16):
                        with T.sblock("C"):
                            vi_i = T.axis.spatial(16, i_1)
                            C[vi_o * 16 + vi_i] = A[vi_o * 16 + vi_i] * 2

        Raises:
            ScheduleError: several blocks below the loop, or iterators that do not divide into an outer and an inner
                part.
        """
        if isinstance(target, list):
            return self._blockize_blocks(target, preserve_unit_iters)
        if isinstance(target, BlockRV):
            return self._blockize_blocks([target], preserve_unit_iters)
        state, node = self.loop_at(target)
        try:
            outer = blockize_loop(state, node, preserve_unit_iters)
        except Refusal as r:
            self._refused(r, state)
        self.commit_nodes(state, {id(node): outer})
        return self.block_rv(outer.block)

    @primitive
    def reorder_block_iter_var(self, block: BlockRV, new_order: Sequence[int]) -> None:
        """Changes the order of a block's iterators (not of any loop).

        Args:
            block: any block.
            new_order: a permutation of 0 .. n-1, the old position of each new one.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.reorder_block_iter_var("C", [1, 0])``::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vj, vi = T.axis.remap("SS", [j, i])
                    C[vi, vj] = A[vi, vj] * 2

        Raises:
            ScheduleError: not a permutation.
        """
        state, realize = self.block_at(block)
        node = realize.block
        order = [int(k) for k in new_order]
        if sorted(order) != list(range(len(node.iter_vars))):
            self.refuse(
                f"new_order {order} is not a permutation of 0 .. {len(node.iter_vars) - 1}, {node.name}'s iterators",
                [node.ident],
                hint=f"each position once, e.g. {list(range(len(node.iter_vars)))[::-1]}", code="argument",
            )
        new = replace(node, iter_vars=tuple([node.iter_vars[k] for k in order]))
        values = tuple([realize.iter_values[k] for k in order])
        self.commit_nodes(state, {id(realize): BlockRealize(values, realize.predicate, new)})

    def _blockize_blocks(self, rvs: Sequence[BlockRV], preserve: bool) -> BlockRV:
        found = [self.block_at(rv) for rv in rvs]
        if not found:
            self.refuse("no block is given", hint="a list of neighbouring blocks", code="argument")
        state = found[0][0]
        if any(s.parent(realize) is None for s, realize in found):
            self.refuse("the primitive does not operate on the root block", hint=inner_blocks(state), code="root")
        if any(s is not state for s, _ in found):
            self.refuse("the blocks belong to different functions", hint="give blocks of one function", code="handle")
        try:
            table, outer = _blockize_neighbours(state, [realize for _, realize in found], preserve)
        except Refusal as r:
            self._refused(r, state)
        self.commit_nodes(state, table)
        return self.block_rv(outer)

    def _refused(self, r: Refusal, state: State) -> NoReturn:
        self.refuse(r.reason, r.marks, r.hint, state, code=r.code)


# -- dividing iterators ----------------------------------------------------------------------------------------------


@dataclass
class _Halves:
    """The iterators of the outer and of the inner block, and what the old ones become."""

    outer_iters: list[IterVar]
    outer_values: list[Expr]
    inner_iters: list[IterVar]
    inner_values: list[Expr]
    vmap: dict[Var, Expr]


def _halve(
    iter_vars: Sequence[IterVar], division: Division, preserve_unit: bool, given: _Halves | None = None
) -> _Halves:
    halves = _Halves([], [], [], [], {})
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


def _relax(regions: Sequence[BufferRegion], dom: dict[Var, Range]) -> tuple[BufferRegion, ...]:
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


def _divide_below(
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
    division = _divide_below(state, realize, inner, outer, preserve_unit)
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
    halves = _halve(block.iter_vars, division, found.preserve_unit)
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
        f"{block.name}_o", tuple(halves.outer_iters), _relax(new.reads, dom), _relax(new.writes, dom), nest, init=init
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


# -- several blocks --------------------------------------------------------------------------------------------------


def _blockize_neighbours(
    state: State, realizes: Sequence[BlockRealize], preserve_unit: bool
) -> tuple[dict[int, Stmt | None], Block]:
    parent = state.lca(list(realizes))
    body = parent.body if isinstance(parent, For | Block) else None
    assert body is not None
    stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
    positions = []
    for realize in realizes:
        chain = [realize, *state.ancestors(realize)]
        k = next((k for k, s in enumerate(stmts) if any(n is s for n in chain)), None)
        if k is None or (k in positions):
            raise Refusal("the blocks to be joined must not be nested in each other", [realize.block.ident],
                          hint="give the outer one of them alone", code="place")
        below = chain[: next(i for i, n in enumerate(chain) if n is stmts[k]) + 1]
        around = next((n for n in below[1:] if isinstance(n, Block)), None)
        if around is not None:
            raise Refusal(
                f"block {realize.block.name} stands inside block {around.name}, and the others do not",
                [realize.block.ident, around.ident], f"join {around.name}", code="place",
            )
        if any(isinstance(n, SeqStmt) for n in below):
            raise Refusal(f"block {realize.block.name} shares its loops with other blocks", [realize.block.ident],
                          hint="list all blocks of those loops, or take the loop itself", code="place")
        positions.append(k)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    if [positions[i] for i in order] != list(range(min(positions), min(positions) + len(positions))):
        raise Refusal("the blocks to be joined must be neighbours", [r.block.ident for r in realizes],
                      hint="list the blocks between them, too, or move those away", code="place")
    outer_loops = state.loops_above(stmts[positions[0]])
    given: _Halves | None = None
    predicate: Expr = TRUE
    nests: list[Stmt] = []
    reads: list[BufferRegion] = []
    writes: list[BufferRegion] = []
    for i in order:
        realize = realizes[i]
        block = realize.block
        inner = [n for n in state.loops_of(block) if not any(n is o for o in outer_loops)]
        require_bound(block, inner)
        division = _divide_below(state, realize, inner, outer_loops, preserve_unit)
        if division is None:
            raise Refusal(
                f"the iterators of {block.name} cannot be divided into an outer and an inner part", [block.ident],
                hint="split by factors that divide the extents, and reorder so that whole inner parts are below", code="index",
            )
        if given is not None:
            _same_outer(block, division, given, predicate)
        halves = _halve(block.iter_vars, division, preserve_unit, given)
        if given is None:
            predicate = division.outer_predicate
        if given is None or len(halves.outer_iters) > len(given.outer_iters):
            given = halves  # begins with the iterators of the one before
        if block.init is not None and any(iv.kind == "reduce" for iv in halves.outer_iters):
            raise Refusal(f"block {block.name} is a reduction whose loops reach outside", [block.ident],
                          "decompose_reduction first", code="reduction")
        dom = {iv.var: iv.dom for iv in halves.inner_iters}
        new = Simplifying(halves.vmap, Analyzer(dom)).visit_stmt(replace(block, iter_vars=()))
        assert isinstance(new, Block)
        reads += _relax(new.reads, dom)
        writes += _relax(new.writes, dom)
        nest: Stmt = BlockRealize(
            tuple(halves.inner_values), division.inner_predicate, replace(new, iter_vars=tuple(halves.inner_iters))
        )
        for n in reversed(inner):
            nest = replace(n, body=nest)
        nests.append(nest)
    assert given is not None
    name = "outer_" + "".join(f"{realizes[i].block.name}_" for i in order)
    large = Block(name, tuple(given.outer_iters), _united(reads), _united(writes), seq(*nests))
    site = BlockRealize(tuple(given.outer_values), predicate, large)
    table: dict[int, Stmt | None] = {id(stmts[k]): None for k in positions}
    table[id(stmts[min(positions)])] = site
    return table, large


def _same_outer(block: Block, division: Division, given: _Halves, predicate: Expr) -> None:
    """Refuses a block whose outer iterators, or conditions on them, are not those of the blocks before it.

    Iterators are compared by position; a block with fewer of them fits where the others have a single value.
    """
    analyzer = Analyzer()
    parts = [outer for outer, _ in division.parts]
    fits = all(is_unit(outer.extent) for outer in parts[len(given.outer_iters):]) and all(
        is_unit(iv.dom.extent) for iv in given.outer_iters[len(parts):]
    )
    for old, outer, iv, value in zip(block.iter_vars, parts, given.outer_iters, given.outer_values):
        fits = fits and analyzer.can_prove_equal(outer.extent, iv.dom.extent) and analyzer.can_prove_equal(outer.value, value)
        fits = fits and (old.kind == iv.kind or is_unit(outer.extent))
    if not fits:
        raise Refusal(
            f"block {block.name} does not run over the same outer iterators as the blocks before it", [block.ident],
            hint="blockize them one by one", code="domain",
        )
    if not _same_conditions(division.outer_predicate, predicate):
        raise Refusal(
            f"block {block.name} does not run under the same outer conditions as the blocks before it", [block.ident],
            "split by factors that divide", code="domain",
        )


def _same_conditions(a: Expr, b: Expr) -> bool:
    for given, asked in ((a, b), (b, a)):
        analyzer = Analyzer()
        analyzer.assume(given)
        if not all(c in conjuncts(given) or analyzer.can_prove(c) for c in conjuncts(asked)):
            return False
    return True


def _united(regions: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
    by_buffer: dict[Buffer, list[BufferRegion]] = {}
    for r in regions:
        by_buffer.setdefault(r.buffer, []).append(r)
    return tuple(rs[0] if len(rs) == 1 else union_regions(rs) for rs in by_buffer.values())
