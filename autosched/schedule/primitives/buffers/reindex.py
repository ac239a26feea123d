"""Copies of a buffer in the order in which one block visits it: reindex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autosched.ir.expr import BufferData, BufferLoad, Expr, IntImm, Var, as_expr, int_value
from autosched.ir.functor import Substitute, free_vars, stmt_exprs, walk, walk_expr
from autosched.ir.itermap import detect_iter_map
from autosched.ir.patterns import has_loads
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    Ident,
    IterVar,
    SeqStmt,
    Stmt,
    point,
)
from autosched.schedule.analysis.boxes import loop_ranges
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.one_to_one import affine_binding
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import listed
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.cache_rewrite import Redirect, guarded_load, region_of
from autosched.schedule.primitives.buffers.layout_arguments import buffer_argument
from autosched.schedule.primitives.buffers.stored import require_stored


def _named_buffer(sch: Any, args: dict[str, Any]) -> None:
    buffer_argument(sch, args)


class Reindex(ScheduleBase):
    """The primitive that gives a block operands indexed by its own iterators."""

    @primitive(normalize=_named_buffer)
    def reindex(self, block: BlockRV | str, buffer: str | tuple[str, int] | Buffer) -> BlockRV:
        """Copies a buffer into one that is indexed by a block's iterators, and lets the block use the copy.

        Args:
            block: handle or name of a block without blocks inside, which uses the buffer at one index.
            buffer: name, the buffer, or ``("read" | "write", position)``.

        Returns:
            the copying block: before the block's loops for a buffer read, after them for one written.

        Raises:
            ScheduleError: the buffer is not used, used at several indices or by address, read and written both; a block
                that holds blocks, or shares its loops with one that writes the buffer (or reads it, if the block writes
                it); a written buffer of which the block stores a part only.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vj, vi] * 2

        After ``sch.reindex("C", ("read", 0))``::

            A_reindex = T.sblock_alloc_buffer((16, 16), "int32")
            for ax0, ax1 in T.grid(16, 16):
                with T.sblock("A_reindex_reindex"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    A_reindex[v0, v1] = A[v1, v0]
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A_reindex[vi, vj] * 2
        """
        assert isinstance(block, BlockRV) and isinstance(buffer, tuple)
        state, realize = self.block_at(block)
        kind, position = buffer
        node = realize.block
        target = (node.reads if kind == "read" else node.writes)[position].buffer
        try:
            stage, body = _reindex(state, realize, target, kind == "read")
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(stage)


def _reindex(state: State, realize: BlockRealize, buffer: Buffer, reads: bool) -> tuple[Block, Stmt]:
    node = realize.block
    scope = scope_of(state, node)
    require_pipeline(state, scope)
    analyzer = Analyzer({iv.var: iv.dom for iv in node.iter_vars})
    # As TVM has it: an index that can only be a constant is kept as it is written.
    plain = [(i, analyzer.simplify(i)) for i in unique_indices(node, buffer)]
    indices = [old if isinstance(new, IntImm) else new for old, new in plain]
    used = {v for i in indices for v in free_vars(i)}
    require_bound(node, state.loops_above(realize), used)
    kept = [iv for iv in node.iter_vars if iv.var in used]
    if reads:
        if region_of(node.writes, buffer) is not None:
            raise Refusal(f"block {node.name} both reads and writes {buffer.name}", [node.ident], code="writer")
    else:
        _stores_all(state, realize, buffer, kept)
        require_stored(state, scope, node, buffer, tuple(indices))
    top = _nest_of(state, realize, scope, buffer, reads)
    require_blocks(state, scope, (buffer,), () if reads else (buffer,), [top])
    shape = tuple(analyzer.simplify(iv.dom.min + iv.dom.extent) for iv in kept)
    # A second copy has a name of its own, and so has its block.
    name = fresh_name(f"{buffer.name}_reindex", state.buffer_names(scope))
    copy = replace(buffer, name=name, shape=shape, strides=(), axis_separators=(), ident=Ident())
    stage, nest = _copy(buffer, copy, indices, kept, reads)
    here = tuple(iv.var for iv in kept)
    changed = Redirect(buffer, copy, indices=here).visit_block(node)
    siblings = list(scope.body.stmts) if isinstance(scope.body, SeqStmt) else [scope.body]
    at = next(k for k, s in enumerate(siblings) if s is top)
    body = state.rewrite(
        {id(node): changed}, {id(scope): (*scope.alloc_buffers, copy)},
        {id(scope): (at if reads else at + 1, nest)},
    )
    return stage, body


def unique_indices(block: Block, buffer: Buffer) -> tuple[Expr, ...]:
    """The one index at which a block without inner blocks uses a buffer.

    Raises:
        Refusal: there is none, there are several, or its address is taken.
    """
    found: list[tuple[Expr, ...]] = []
    bodies = [block.body] if block.init is None else [block.init, block.body]
    for stmt in (s for b in bodies for s in walk(b)):
        if isinstance(stmt, Block):
            raise Refusal(f"block {block.name} is not a leaf: it holds block {stmt.name}", [block.ident, stmt.ident],
                          hint=f"reindex {stmt.name}, or reindex before blockize", code="place")
        if isinstance(stmt, BufferStore) and stmt.buffer is buffer:
            found.append(stmt.indices)
        for expr in stmt_exprs(stmt):
            for e in walk_expr(expr):
                if isinstance(e, BufferLoad) and e.buffer is buffer:
                    found.append(e.indices)
                if isinstance(e, BufferData) and e.buffer is buffer:
                    raise Refusal(f"block {block.name} takes the address of {buffer.name}", [block.ident], code="address")
    if not found:
        raise Refusal(f"block {block.name} does not use {buffer.name}", [block.ident],
                          hint=f"its buffers: {listed(r.buffer.name for r in (*block.reads, *block.writes))}", code="reader")
    if any(f != found[0] for f in found):
        raise Refusal(f"block {block.name} uses {buffer.name} at several indices", [block.ident],
                      "a buffer that is used at one index", code="reader")
    inner = {stmt.var for b in bodies for stmt in walk(b) if isinstance(stmt, For)}
    if any(v in inner for i in found[0] for v in free_vars(i)):
        raise Refusal(f"the index of {buffer.name} depends on a loop inside block {block.name}", [block.ident], code="place")
    if has_loads(*found[0]):
        raise Refusal(f"the index of {buffer.name} comes from memory", [block.ident], "reindex before cache_index", code="index")
    return found[0]


def _nest_of(state: State, realize: BlockRealize, scope: Block, buffer: Buffer, reads: bool) -> Stmt:
    """The statement of the scope that holds a block; the copy stands before it, or after it.

    Raises:
        Refusal: another block in it needs the buffer as it is in between.
    """
    top: Stmt = realize
    for node in state.ancestors(realize):
        if node is scope or (isinstance(node, SeqStmt) and state.parent(node) is scope):
            break
        if not isinstance(node, For | SeqStmt):
            raise Refusal(f"block {realize.block.name} stands under a condition", [realize.block.ident], code="domain")
        top = node
    for other in [] if top is realize else state.children_of(top):
        uses = state.touched(other)
        if other is not realize.block and (buffer in uses[1] or (not reads and buffer in uses[0])):
            verb = "writes" if buffer in uses[1] else "reads"
            raise Refusal(f"block {realize.block.name} shares its loops with block {other.name}, which {verb} {buffer.name}",
                          [realize.block.ident, other.ident],
                          hint="reindex before compute_at", code="place")
    return top


def _stores_all(state: State, realize: BlockRealize, buffer: Buffer, kept: Sequence[IterVar]) -> None:
    """Refuses a block that would leave elements of the copy without a value."""
    node = realize.block
    if region_of(node.reads, buffer) is not None and node.init is None:
        raise Refusal(f"block {node.name} updates {buffer.name}, which another block has initialised", [node.ident],
                      "reindex before decompose_reduction", code="writer")
    for other in kept:
        if other.kind != "spatial":
            raise Refusal(f"block {node.name} writes {buffer.name} at its reduction iterator {other.var.name}", [node.ident],
                          code="reduction")
    loops = state.loops_above(realize)
    if realize.predicate != TRUE and not affine_binding(realize, loops):
        raise Refusal(f"it is not known that block {node.name} runs over the whole domain of its iterators", [node.ident],
                      code="domain")
    analyzer = Analyzer()
    values = dict(zip([iv.var for iv in node.iter_vars], realize.iter_values))
    for iv in kept:
        ends = int_set_bounds(values[iv.var], loop_ranges(loops), Analyzer(), realize.predicate)
        last = iv.dom.min + iv.dom.extent - 1
        if not any(
            low is not None and high is not None and analyzer.can_prove_equal(low, iv.dom.min)
            and analyzer.can_prove_equal(high, last) for low, high in (ends, _mapped_ends(realize, loops, iv))
        ):
            raise Refusal(f"block {node.name} does not run over the whole domain of its iterator {iv.var.name}", [node.ident],
                          code="domain")


def _mapped_ends(realize: BlockRealize, loops: Sequence[For], iv: IterVar) -> tuple[Expr | None, Expr | None]:
    """The first and last value of an iterator as the iteration map has them, which sees through quotients of cut loops."""
    result = detect_iter_map(
        list(realize.iter_values), loop_ranges(loops), realize.predicate, "surjective", simplify_trivial=False
    )
    if not result:
        return None, None
    total = result.indices[next(i for i, other in enumerate(realize.block.iter_vars) if other is iv)]
    base = as_expr(total.base, iv.var.dtype)
    if not total.args:
        return base, base
    if len(total.args) > 1 or int_value(total.args[0].scale) != 1:
        return None, None
    return base, base + as_expr(total.args[0].extent, iv.var.dtype) - 1


def _copy(
    buffer: Buffer, copy: Buffer, indices: Sequence[Expr], kept: Sequence[IterVar], reads: bool
) -> tuple[Block, Stmt]:
    """The nest that copies between the buffer and its reindexed copy, over the kept iterators."""
    fresh: dict[Var, Expr] = {}
    iters = []
    for k, iv in enumerate(kept):
        var = Var(f"v{k}", iv.var.dtype)
        fresh[iv.var] = var
        iters.append(IterVar(var, iv.dom))
    far = Substitute(fresh).visit_exprs(tuple(indices))
    near: tuple[Expr, ...] = tuple(iv.var for iv in iters)
    (source, read), (target, write) = ((buffer, far), (copy, near)) if reads else ((copy, near), (buffer, far))
    load = guarded_load(source, read, {iv.var: iv.dom for iv in iters}) if reads else BufferLoad(source, read, source.dtype)
    body = BufferStore(target, write, load)
    block = Block(f"{target.name}_reindex", tuple(iters), (point(source, read),), (point(target, write),), body)
    return block, own_nest(block, "ax")
