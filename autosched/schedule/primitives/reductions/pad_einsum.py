"""Enlarging a sum of products to multiples of some factors, with zeros: pad_einsum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Var,
    as_expr,
    const,
    if_then_else,
    int_value,
    is_int,
)
from autosched.ir.functor import Mutator, free_vars, stmt_children, stmt_exprs, uses, walk, walk_expr
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IterVar,
    Range,
    SeqStmt,
    Stmt,
    While,
    point,
    seq,
)
from autosched.schedule.analysis.bindings import BufferReplacer, facts, in_sequence
from autosched.schedule.analysis.boxes import is_unit, loop_ranges
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.one_to_one import affine_binding
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.limits import Overflow, whole_tiles
from autosched.schedule.kit.nests import iterators_over, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.stored import require_stored

DIVISIONS = frozenset({"/", "//", "%", "truncdiv", "truncmod"})


class PadEinsum(ScheduleBase):
    """The primitive that pads a computation to whole tiles."""

    @primitive
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Enlarges the domain of a block to multiples of some factors; operands are copied with zeros around them.

        Args:
            block: handle or name of a block that reads and writes buffers at its plain iterators; where a reduction
                iterator is enlarged it has to sum products of operands that have that index. Loops that are such iterators
                run further; an iterator that several loops make up gets a larger domain, and the loops stay.
            padding: one positive factor per iterator; 1 leaves the iterator alone.

        Raises:
            ScheduleError: not one positive factor per iterator, indices other than plain iterators, loops to run further
                that hold other blocks, a result that is not stored as a whole, operands filled or results used in shared
                loops, a reduction that zeros would change.

        Before::

            for i, k in T.grid(16, 10):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

        After ``sch.pad_einsum("C", [1, 16])``::

            A_pad = T.sblock_alloc_buffer((16, 16), "int32")
            for i0, i1 in T.grid(16, 16):
                with T.sblock("A_pad"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    A_pad[v0, v1] = T.if_then_else(v1 < 10, A[v0, v1], 0)
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A_pad[vi, vk]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _pad(state, realize, [int(p) for p in padding])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


def _pad(state: State, realize: BlockRealize, padding: list[int]) -> Stmt:
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    if len(padding) != len(block.iter_vars) or any(p < 1 for p in padding):
        raise Refusal(
            f"padding is a list of {len(block.iter_vars)} positive factors for block {block.name}, not {padding}",
            [block.ident],
            hint=f"e.g. {[1] * (len(block.iter_vars) - 1) + [16]}: each iterator's extent is rounded up to a multiple",
            code="argument",
        )
    _plain_indices(block)
    analyzer = Analyzer()
    sizes = _new_sizes(realize, padding, analyzer)
    top = _top(state, realize, scope)
    longer, further = _longer_loops(state, realize, sizes, analyzer)
    _runs_over_padding(block, further, analyzer)
    before: list[Stmt] = []
    after: list[Stmt] = []
    fresh: dict[Buffer, Buffer] = {}
    others = _others(top, realize)
    for region, reads in [*((r, True) for r in block.reads), *((w, False) for w in block.writes)]:
        if not any(r.min in sizes for r in region.region if isinstance(r.min, Var)):
            continue
        whole = _whole(block, region, analyzer)
        if reads:
            _operand_stands(block, region.buffer, others, whole)
        else:
            _result_is_stored(state, realize, region, analyzer)
            require_stored(state, scope, block, region.buffer, tuple([r.min for r in region.region]))
            _others_follow(state, block, region.buffer, top, scope, others, whole)
        alone = region.buffer not in others[0] | others[1]
        padded = _padded(region, sizes, alone)
        fresh[region.buffer] = padded
        shape = padded.shape if reads else _stored(block, region)
        (before if reads else after).append(_copy(region.buffer, padded, shape, reads, analyzer))
    wider = BufferReplacer(fresh).visit_stmt(_Resized(realize, longer, sizes).visit_stmt(top))
    stmts: list[Stmt] = []
    for s in in_sequence(scope.body):
        stmts += [*before, wider, *after] if s is top else [s]
    new = replace(scope, body=seq(*stmts), alloc_buffers=(*scope.alloc_buffers, *fresh.values()))
    return state.rewrite({id(scope): new})


def _top(state: State, realize: BlockRealize, scope: Block) -> Stmt:
    """The statement of the scope's sequence that a block stands in."""
    top: Stmt = realize
    for node in state.ancestors(realize):
        if node is scope or (isinstance(node, SeqStmt) and state.parent(node) is scope):
            return top
        if not isinstance(node, For | SeqStmt):
            raise Refusal(f"block {realize.block.name} does not stand under loops alone", [realize.block.ident], code="place")
        top = node
    raise AssertionError(realize.block.name)


def _longer_loops(
    state: State, realize: BlockRealize, sizes: dict[Var, Expr], analyzer: Analyzer
) -> tuple[dict[Var, Expr], list[IterVar]]:
    """The new extents of loops that are padded iterators, and those iterators. Others are padded in name only."""
    block = realize.block
    loops = {x.var: x for x in state.loops_above(realize)}
    longer: dict[Var, Expr] = {}
    further: list[IterVar] = []
    for k, (iv, value) in enumerate(zip(block.iter_vars, realize.iter_values)):
        loop = loops.get(value) if isinstance(value, Var) and iv.var in sizes else None
        if loop is None:
            continue
        body: Stmt = loop.body
        while isinstance(body, For):
            body = body.body
        if body is not realize:
            raise Refusal(f"loop {loop.var.name}, which has to run further, holds more than block {block.name}",
                          [loop.var, block.ident], "pad_einsum before compute_at", code="place")
        elsewhere = [v for j, v in enumerate(realize.iter_values) if j != k]
        if any(uses(v, {loop.var}) for v in elsewhere) or loop.var in facts(block).outer_vars:
            raise Refusal(f"loop {loop.var.name}, which has to run further, gives more than iterator {iv.var.name} of block "
                          f"{block.name}", [loop.var, block.ident], code="place")
        if not (analyzer.can_prove_equal(loop.min, 0) and analyzer.can_prove_equal(loop.extent, iv.dom.extent)):
            raise Refusal(f"loop {loop.var.name} runs over a part of iterator {iv.var.name} of block {block.name}",
                          [loop.var, block.ident], "pad_einsum before loop_partition", code="domain")
        longer[loop.var] = sizes[iv.var]
        further.append(iv)
    return longer, further


def _runs_over_padding(block: Block, further: Sequence[IterVar], analyzer: Analyzer) -> None:
    """Refuses a block that must not run for more values of some iterators."""
    if not further:
        return
    for iv in further:
        used = [any(r.min is iv.var for r in w.region) for w in block.writes]
        if iv.kind == "spatial" and block.init is None and iv.var not in free_vars(block.body):
            continue  # the same stores again
        if iv.kind == "spatial" and not all(used):
            raise Refusal(f"iterator {iv.var.name} of block {block.name} does not index what the block writes", [block.ident],
                          code="index")
        if iv.kind not in ("spatial", "reduce") or (iv.kind == "reduce" and any(used)):
            raise Refusal(f"iterator {iv.var.name} of block {block.name} is a {iv.kind} iterator that cannot run further",
                          [block.ident], code="loop")
    for stmt in walk(block):
        if isinstance(stmt, Evaluate | AssertStmt | While):
            raise Refusal(f"block {block.name} does more than store values", [block.ident], code="form")
        for e in (e for expr in stmt_exprs(stmt) for e in walk_expr(expr)):
            if isinstance(e, BinOp) and e.op in DIVISIONS and not isinstance(e.b, IntImm | FloatImm):
                raise Refusal(f"block {block.name} would divide by the zeros around its operands", [block.ident], code="form")
    _zeros_are_harmless(block, further, analyzer)


def _others(top: Stmt, realize: BlockRealize) -> tuple[set[Buffer], set[Buffer]]:
    """What the other statements in the same loops read, and what they write."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    stack = [top]
    while stack:
        node = stack.pop()
        if node is realize:
            continue
        if isinstance(node, BufferStore):
            writes.add(node.buffer)
        elif isinstance(node, Block):
            writes |= {w.buffer for w in node.writes} | {m.source.buffer for m in node.match_buffers}
            reads |= {r.buffer for r in node.reads}
        for e in (e for expr in stmt_exprs(node) for e in walk_expr(expr)):
            if isinstance(e, BufferData):
                writes.add(e.buffer)
            elif isinstance(e, BufferLoad):
                reads.add(e.buffer)
        stack.extend(stmt_children(node))
    return reads, writes


def _whole(block: Block, region: BufferRegion, analyzer: Analyzer) -> bool:
    """Whether the iterators that index a buffer run over all of it."""
    domains = {iv.var: iv.dom for iv in block.iter_vars}
    return all(
        analyzer.can_prove_equal(size, domains[r.min].extent if isinstance(r.min, Var) and r.min in domains else 1)
        for r, size in zip(region.region, region.buffer.shape)
    )


def _operand_stands(block: Block, buffer: Buffer, others: tuple[set[Buffer], set[Buffer]], whole: bool) -> None:
    """Refuses an operand whose copy, made before the loops, would not hold what the block reads."""
    if buffer in others[1]:
        raise Refusal(f"{buffer.name} is filled in the loops that block {block.name} shares, after it would be copied",
                      [block.ident], "pad_einsum before compute_at", code="order")
    if buffer in others[0] and not whole:
        raise Refusal(f"block {block.name} reads a part of {buffer.name}, and other blocks in its loops read it, too",
                      [block.ident], "pad_einsum before compute_at", code="reader")


def _result_is_stored(state: State, realize: BlockRealize, region: BufferRegion, analyzer: Analyzer) -> None:
    """Refuses a block that leaves elements of its enlarged result, which is copied back, without a value."""
    block, name = realize.block, region.buffer.name
    loops = state.loops_above(realize)
    values = dict(zip([iv.var for iv in block.iter_vars], realize.iter_values))
    kept = {iv.var: iv for iv in block.iter_vars if any(r.min is iv.var for r in region.region)}
    for k, r in enumerate(region.region):
        if r.min not in kept and not is_unit(region.buffer.shape[k]):
            raise Refusal(f"dimension {k} of {name} is not the domain of an iterator of block {block.name}", [block.ident],
                          code="index")
    if not affine_binding(realize, loops):
        raise Refusal(f"it is not known that block {block.name} runs over the whole domain of its iterators", [block.ident],
                      code="domain")
    for iv in kept.values():
        value = values[iv.var]
        low, high = int_set_bounds(value, loop_ranges(loops), Analyzer(), realize.predicate)
        last = iv.dom.min + iv.dom.extent - 1
        if low is None or high is None or not (
            analyzer.can_prove_equal(iv.dom.min, 0) and analyzer.can_prove_equal(low, 0) and analyzer.can_prove_equal(high, last)
        ):
            raise Refusal(f"block {block.name} does not run over the whole domain of its iterator {iv.var.name}, and {name} "
                          "is copied back", [block.ident], code="domain")


def _others_follow(
    state: State, block: Block, buffer: Buffer, top: Stmt, scope: Block, others: tuple[set[Buffer], set[Buffer]], whole: bool
) -> None:
    """Refuses a result that other blocks in the same loops use, unless all there ever is of it comes from these loops."""
    if buffer not in others[0] and buffer not in others[1]:
        return
    outside = any(
        w.buffer is buffer for s in in_sequence(scope.body) if s is not top for b in state.children_of(s) for w in b.writes
    )
    if not whole or outside or all(b is not buffer for b in scope.alloc_buffers):
        raise Refusal(f"other blocks in the loops of block {block.name} use {buffer.name}, which has values from elsewhere",
                      [block.ident], "pad_einsum before compute_at", code="writer")


def _plain_indices(block: Block) -> None:
    seen: set[Buffer] = set()
    for region in (*block.reads, *block.writes):
        if region.buffer in seen:
            raise Refusal(f"block {block.name} uses {region.buffer.name} more than once", [block.ident],
                          "pad_einsum before decompose_reduction", code="reader")
        seen.add(region.buffer)
        if any(not is_unit(r.extent) or not isinstance(r.min, Var | IntImm) for r in region.region):
            raise Refusal(
                f"block {block.name} is no sum of products at plain indices: it does not use {region.buffer.name} at its "
                "iterators", [block.ident], "reindex gives it operands that are", code="index",
            )


def _new_sizes(realize: BlockRealize, padding: list[int], analyzer: Analyzer) -> dict[Var, Expr]:
    sizes: dict[Var, Expr] = {}
    for iv, factor in zip(realize.block.iter_vars, padding):
        extent = iv.dom.extent
        known = int_value(extent)
        try:
            new: Expr = analyzer.simplify((extent + (factor - 1)) // factor * factor) if known is None else IntImm(
                whole_tiles(known, factor, extent.dtype, f"the padded iterator {iv.var.name}"), extent.dtype)
        except Overflow as error:
            raise Refusal(str(error), [realize.block.ident], "a smaller factor", code="range") from None
        if not analyzer.can_prove_equal(new, extent):
            if not analyzer.can_prove_equal(iv.dom.min, 0):
                # Copies begin at 0: its last values would lie outside of them.
                raise Refusal(f"the domain of iterator {iv.var.name} of block {realize.block.name} does not begin at 0",
                              [realize.block.ident], code="domain")
            sizes[iv.var] = new
    return sizes


def _zeros_are_harmless(block: Block, further: Sequence[IterVar], analyzer: Analyzer) -> None:
    """Refuses where a reduction runs over padding and a zero operand would change its result."""
    enlarged = [iv for iv in further if iv.kind != "spatial"]
    if not enlarged:
        return
    store = block.body
    own = None
    if isinstance(store, BufferStore):
        own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
        value = store.value
        if isinstance(value, BinOp) and value.op == "+" and own in (value.a, value.b):
            term = value.b if value.a == own else value.a
            for iv in enlarged:
                if not _vanishes(term, _Zeroed(iv, analyzer)):
                    raise Refusal(
                        f"block {block.name} adds terms that are not zero where iterator {iv.var.name} runs over padding",
                        [block.ident], code="form",
                    )
            return
    raise Refusal(f"block {block.name} is no sum of products; zeros would change its result", [block.ident],
                  "leave the factors of its reduction at 1", code="form")


class _Zeroed(Mutator):
    """An integer expression where an iterator runs over padding: operands that it reaches to their end are zero there."""

    def __init__(self, iv: IterVar, analyzer: Analyzer) -> None:
        self.iv, self.analyzer = iv, analyzer

    def zero(self, load: BufferLoad) -> bool:
        """Whether the copy of an operand continues with zeros."""
        return any(
            i is self.iv.var and self.analyzer.can_prove_equal(self.iv.dom.extent, size)
            for i, size in zip(load.indices, load.buffer.shape)
        )

    def visit_load(self, load: BufferLoad) -> Expr:
        return const(0, load.dtype) if is_int(load.dtype) and self.zero(load) else load


def _vanishes(term: Expr, zeroed: _Zeroed) -> bool:
    """Whether a term is zero where operands are."""
    if any(zeroed.zero(f) for f in _factors(term)):
        return True
    return is_int(term.dtype) and Analyzer().simplify(zeroed.visit_expr(term)) == const(0, term.dtype)


def _factors(term: Expr) -> Iterator[BufferLoad]:
    """The loads that are factors of a product."""
    if isinstance(term, BufferLoad):
        yield term
    elif isinstance(term, BinOp) and term.op == "*":
        yield from _factors(term.a)
        yield from _factors(term.b)
    elif isinstance(term, Cast):
        yield from _factors(term.value)


def _padded(region: BufferRegion, sizes: dict[Var, Expr], alone: bool) -> Buffer:
    """The enlarged copy of a buffer; of a dimension of which only the block itself uses the first element, that element."""
    buffer = region.buffer
    shape = list(buffer.shape)
    for k, r in enumerate(region.region):
        if isinstance(r.min, Var) and r.min in sizes:
            shape[k] = sizes[r.min]
        elif alone and int_value(r.min) == 0:
            shape[k] = as_expr(1, shape[k].dtype)
    return Buffer(f"{buffer.name}_pad", tuple(shape), buffer.dtype, buffer.scope)


def _stored(block: Block, region: BufferRegion) -> tuple[Expr, ...]:
    """How far a block stores its result in every dimension."""
    domains = {iv.var: iv.dom for iv in block.iter_vars}
    return tuple([
        domains[r.min].extent if isinstance(r.min, Var) and r.min in domains else size
        for r, size in zip(region.region, region.buffer.shape)
    ])


def _copy(buffer: Buffer, padded: Buffer, shape: Sequence[Expr], reads: bool, analyzer: Analyzer) -> Stmt:
    """The nest over ``shape`` that fills the enlarged copy, or that copies the result back."""
    iters = iterators_over(shape)
    at = tuple([iv.var for iv in iters])
    source, target = (buffer, padded) if reads else (padded, buffer)
    value: Expr = BufferLoad(source, at, source.dtype)
    if reads:
        inside: Expr = TRUE
        for v, small, large in zip(at, buffer.shape, padded.shape):
            if not analyzer.can_prove_equal(small, large):
                inside = inside & (v < small)
        zero = const(0, buffer.dtype) if is_int(buffer.dtype) else FloatImm(0.0, buffer.dtype)
        value = if_then_else(inside, value, zero)
    body = BufferStore(target, at, value)
    return own_nest(Block(padded.name, iters, (point(source, at),), (point(target, at),), body), "i")


class _Resized(Mutator):
    """A nest with longer loops, and larger domains of one block."""

    def __init__(self, realize: BlockRealize, loops: dict[Var, Expr], iters: dict[Var, Expr]) -> None:
        self.realize, self.loops, self.iters = realize, loops, iters

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if stmt is self.realize:
            block = self.realize.block
            own = tuple([
                replace(iv, dom=Range(iv.dom.min, self.iters[iv.var])) if iv.var in self.iters else iv
                for iv in block.iter_vars
            ])
            return replace(self.realize, block=replace(block, iter_vars=own))
        if isinstance(stmt, BlockRealize):
            return stmt
        new = super().visit_stmt(stmt)
        if isinstance(new, For) and new.var in self.loops:
            return replace(new, extent=self.loops[new.var])
        return new
