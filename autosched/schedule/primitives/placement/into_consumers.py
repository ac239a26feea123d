"""Putting what a block computes where it is read, and the block away; what both ways of inlining rewrite alike."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from autosched.ir.expr import BufferData, BufferLoad, Call, Expr, IntImm, Var, int_value
from autosched.ir.functor import Mutator, Substitute, found_in, free_vars, stmt_children, stmt_exprs
from autosched.ir.itermap import detect_iter_map, inverse_affine_map
from autosched.ir.region import block_access
from autosched.ir.simplify import conjuncts, simplify
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, Stmt
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.analysis.boxes import is_unit
from autosched.schedule.analysis.dependence import incomplete, is_output, names, scope_of
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.outside import require_blocks, stmts_between
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import before_nesting
from autosched.schedule.kit.once import Again, afresh, once
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


def inlined(state: State, realize: BlockRealize) -> Stmt:
    """The function's body with a block's value wherever it is read, and without the block; raises a ``Refusal``."""
    block = realize.block
    require_no_init(block)
    if len(block.writes) != 1:
        raise Refusal(f"block {block.name} writes {len(block.writes)} regions; only one can be inlined", [block.ident],
                      code="form")
    buffer = block.writes[0].buffer
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    if is_output(block, scope):
        raise Refusal(
            f"block {block.name} is an output block: {buffer.name} is no intermediate", [block.ident],
            "reverse_compute_inline merges an output into its producer", code="output",
        )
    reason = incomplete(state, block, scope)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a complete block: {reason}", [block.ident], code="form")
    require_bound(block, state.loops_above(realize))
    others = [b for b in state.writers(scope, buffer) if b is not block]
    if others:  # parts that nobody reads are complete each
        raise Refusal(f"{buffer.name} is also written by {names(others)}", [block.ident, *(b.ident for b in others)],
                      code="writer")
    store = block.body
    if not isinstance(store, BufferStore) or store.buffer is not buffer:
        raise Refusal(f"the body of {block.name} is not a single store to {buffer.name}", [block.ident],
                      hint=before_nesting(state, block, "compute_inline"), code="form")
    formal, value = _as_function(block, store)
    require_no_opaque_use(scope, buffer)
    require_blocks(state, scope, (), (buffer,))
    for consumer in () if state.trusted else state.consumers(block)[-1:]:
        require_blocks(state, scope, state.touched(block)[0], (), stmts_between(state, realize, state.realizes[consumer.ident]))
    inliner = _Inliner(buffer, formal, value, realize, once if state.trusted else afresh)
    return without(state, scope, realize, buffer, inliner)


def _as_function(block: Block, store: BufferStore) -> tuple[list[Var], Expr]:
    """The stored value as a function of the indices: placeholders for the indices, and the value in terms of them."""
    own = [i for i in store.indices if isinstance(i, Var)]
    every = [iv.var for iv in block.iter_vars]
    units = [iv.var for iv in block.iter_vars if int_value(iv.dom.min) == 0 and is_unit(iv.dom.extent)]
    if len(own) == len(set(own)) and {*every} - {*units} <= {*own} <= {*every} and all(
        isinstance(i, Var) or (int_value(i) == 0 and is_unit(n)) for i, n in zip(store.indices, store.buffer.shape)
    ):
        # Of a dimension of one element an iterator of one step is the index, though 0 is written: what is read at it stays so in
        # the reader's terms, as what is read at any other one does.
        rest = iter([v for v in units if v not in own])
        formal = [i if isinstance(i, Var) else next(rest, Var(f"ph_{k}", i.dtype)) for k, i in enumerate(store.indices)]
        gone: dict[Var, Expr] = {v: IntImm(0, v.dtype) for v in rest}
        return formal, Substitute(gone).visit_expr(store.value) if gone else store.value
    domain = {iv.var: iv.dom for iv in block.iter_vars}
    result = detect_iter_map(list(store.indices), domain, TRUE, "bijective", simplify_trivial=False)
    if not result:
        raise Refusal(
            f"the indices of {store.buffer.name} in block {block.name} are not a one-to-one quasi-affine function of "
            "its iterators", [block.ident], code="index",
        )
    formal = [Var(f"ph_{k}", index.dtype) for k, index in enumerate(store.indices)]
    inverse: dict[Var, Expr] = dict(inverse_affine_map(result.indices, formal))
    for iv in block.iter_vars:
        if isinstance(iv.dom.min, IntImm) and is_unit(iv.dom.extent):
            inverse[iv.var] = iv.dom.min
    return formal, Substitute(inverse).visit_expr(store.value)


class Rewriter(Mutator):
    """Rewrites a scope; blocks that named the buffer get their regions computed afresh, and one block is left out."""

    def __init__(self, buffer: Buffer, leave_out: BlockRealize) -> None:
        self.buffer = buffer
        self.leave_out = leave_out

    def touches(self, block: Block) -> bool:
        """Whether a block's signature names the buffer, or it declares nothing and uses the buffer inside."""
        if block.reads or block.writes:
            return any(r.buffer is self.buffer for r in (*block.reads, *block.writes))
        return self.buffer in facts(block).buffers

    def visit_block(self, block: Block) -> Block:
        if not self.touches(block):
            return block
        init = None if block.init is None else self.visit_stmt(block.init)
        new = replace(block, init=init, body=self.visit_stmt(block.body))
        if not (block.reads or block.writes):
            return new
        reads, writes = block_access(new)
        return replace(new, reads=reads, writes=writes)


class _Inliner(Rewriter):
    def __init__(self, buffer: Buffer, formal: list[Var], value: Expr, leave_out: BlockRealize, again: Again) -> None:
        super().__init__(buffer, leave_out)
        self.formal = formal
        self.value = value
        self.again = again

    def visit_block(self, block: Block) -> Block:
        # The block that goes says all of what is put in place of its results.
        return self.again(partial(super().visit_block, block), "inlined", block, self.leave_out.block)

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        if isinstance(new, BufferLoad) and new.buffer is self.buffer:
            return Chosen(dict(zip(self.formal, new.indices))).visit_expr(self.value)
        return new


class Chosen(Substitute):
    """Substitutes, and keeps of a choice that is none any more what is taken: the rest may be out of bounds."""

    def visit_expr(self, expr: Expr) -> Expr:
        new = super().visit_expr(expr)
        if new is expr or not isinstance(new, Call) or new.op != "if_then_else":
            return new
        condition, there, here = new.args
        said = conjuncts(condition)
        sure = None if said and all(map(free_vars, said)) else int_value(simplify(condition))
        return new if sure is None else there if sure else here


def without(state: State, scope: Block, gone: BlockRealize, buffer: Buffer, rewriter: Rewriter) -> Stmt:
    """The function's body with one block removed and the blocks of the scope that name the buffer rewritten."""
    table: dict[int, Stmt | None] = {id(gone): None}
    for child in state.children_of(scope):
        site = state.realizes[child.ident]
        if site is not gone and (rewriter.touches(child) or buffer in state.touched(child)[0]):
            table[id(site)] = rewriter.visit_stmt(site)
    if sum(1 for v in table.values() if v is None) == len(state.children_of(scope)):
        raise Refusal(
            f"block {gone.block.name} is the only one in {scope.name}: nothing would be left", [gone.block.ident], code="place",
        )
    allocs = tuple(b for b in scope.alloc_buffers if b is not buffer)
    try:
        return state.rewrite(table, {id(scope): allocs})
    except ValueError as error:
        raise Refusal(str(error), [gone.block.ident], code="place") from None


def require_no_init(block: Block) -> None:
    """Refuses a reduction."""
    if block.init is not None:
        raise Refusal(f"block {block.name} is a reduction: it has an init statement", [block.ident], code="reduction")


def require_no_opaque_use(scope: Block, buffer: Buffer) -> None:
    """Refuses a buffer that a scope uses by its address, or a part of which is matched: not every access of it is known."""
    stack: list[Stmt] = [scope]
    while stack:
        node = stack.pop()
        if isinstance(node, Block) and node is not scope and buffer not in facts(node).buffers:
            continue
        stack += stmt_children(node)[::-1]
        if isinstance(node, Block) and any(m.source.buffer is buffer for m in node.match_buffers):
            raise Refusal(f"a part of {buffer.name} is matched into block {node.name}", [node.ident], code="address")
        for data in found_in(stmt_exprs(node), BufferData):
            if data.buffer is buffer:
                raise Refusal(f"{buffer.name} is used by its address ({buffer.name}.data)", [node], code="address")
