"""Enlarging a sum of products to multiples of some factors, with zeros: pad_einsum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, FloatImm, IntImm, Var, as_expr, const, if_then_else, is_int
from autosched.ir.simplify import Analyzer
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
    point,
    seq,
)
from autosched.schedule.base import BlockRV, ScheduleBase
from autosched.schedule.bindings import BufferReplacer
from autosched.schedule.boxes import is_unit
from autosched.schedule.dependence import Refusal, require_pipeline, scope_of
from autosched.schedule.primitive import primitive
from autosched.schedule.reindex import outermost
from autosched.schedule.state import State


class PadEinsum(ScheduleBase):
    """The primitive that pads a computation to whole tiles."""

    @primitive
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Enlarges the domain of a block to multiples of some factors; operands are copied with zeros around them.

        Args:
            block: handle or name of a block alone in its loops, which reads and writes buffers at its plain iterators;
                where a reduction iterator is enlarged it has to sum products of operands that have that index.
            padding: one positive factor per iterator; 1 leaves the iterator alone.

        Raises:
            ScheduleError: not one positive factor per iterator, indices other than plain iterators, a predicate, loops
                that are not the iterators (or are shared), a reduction that zeros would change.

        Before: ``for i, j, k in grid(128, n, 128): C[i, j] += A[i, k] * B[j, k]``, after ``pad_einsum("C", [32, 32, 32])``:
        ``B_pad[j, k] = if_then_else(j < n, B[j, k], 0)``, the block over ``(n + 31) // 32 * 32`` columns of ``B_pad`` into
        ``C_pad``, and ``C[i, j] = C_pad[i, j]``.
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _pad(state, realize, [int(p) for p in padding])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state)
        self.commit(state, body)


def _pad(state: State, realize: BlockRealize, padding: list[int]) -> Stmt:
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    if len(padding) != len(block.iter_vars) or any(p < 1 for p in padding):
        raise Refusal(
            f"padding is a list of {len(block.iter_vars)} positive factors for block {block.name}, not {padding}",
            [block.ident],
        )
    _plain_indices(block)
    if realize.predicate != TRUE:
        raise Refusal(f"block {block.name} runs under a predicate", [block.ident], "pad_einsum before split")
    analyzer = Analyzer()
    sizes = _new_sizes(realize, padding, analyzer)
    around = {x.var: x for x in state.loops_above(realize)}
    values = dict(zip([iv.var for iv in block.iter_vars], realize.iter_values))
    for var in sizes:
        loop = around.get(values[var]) if isinstance(values[var], Var) else None  # type: ignore[call-overload]
        if loop is None:
            raise Refusal(f"iterator {var.name} of block {block.name} is not one of its loops", [block.ident],
                          "pad_einsum before split and fuse")
    top = outermost(state, realize, scope)
    _zeros_are_harmless(block, set(sizes))
    before: list[Stmt] = []
    after: list[Stmt] = []
    fresh: dict[Buffer, Buffer] = {}
    for region, reads in [*((r, True) for r in block.reads), *((w, False) for w in block.writes)]:
        if not any(r.min in sizes for r in region.region if isinstance(r.min, Var)):
            continue
        padded = _padded(block, region, sizes, analyzer)
        fresh[region.buffer] = padded
        (before if reads else after).append(_copy(region.buffer, padded, reads, analyzer))
    resized = {values[var]: size for var, size in sizes.items()}
    wider = BufferReplacer(fresh).visit_stmt(_resize(top, realize, resized, sizes))
    siblings = list(scope.body.stmts) if isinstance(scope.body, SeqStmt) else [scope.body]
    stmts: list[Stmt] = []
    for s in siblings:
        stmts += [*before, wider, *after] if s is top else [s]
    new = replace(scope, body=seq(*stmts), alloc_buffers=(*scope.alloc_buffers, *fresh.values()))
    return state.rewrite({id(scope): new})


def _plain_indices(block: Block) -> None:
    seen: set[Buffer] = set()
    for region in (*block.reads, *block.writes):
        if region.buffer in seen:
            raise Refusal(f"block {block.name} uses {region.buffer.name} more than once", [block.ident],
                          "pad_einsum before decompose_reduction")
        seen.add(region.buffer)
        if any(not is_unit(r.extent) or not isinstance(r.min, Var | IntImm) for r in region.region):
            raise Refusal(
                f"block {block.name} is no sum of products at plain indices: it does not use {region.buffer.name} at its "
                "iterators", [block.ident], "reindex gives it operands that are",
            )


def _new_sizes(realize: BlockRealize, padding: list[int], analyzer: Analyzer) -> dict[Var, Expr]:
    sizes: dict[Var, Expr] = {}
    for iv, factor in zip(realize.block.iter_vars, padding):
        extent = iv.dom.extent
        new = analyzer.simplify((extent + (factor - 1)) // factor * factor)
        if not analyzer.can_prove_equal(new, extent):
            sizes[iv.var] = new
    return sizes


def _zeros_are_harmless(block: Block, padded: set[Var]) -> None:
    """Refuses where a reduction runs over padding and a zero operand would change its result."""
    enlarged = [iv for iv in block.iter_vars if iv.kind != "spatial" and iv.var in padded]
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
                if not any(iv.var in f.indices for f in _factors(term)):
                    raise Refusal(
                        f"block {block.name} adds terms that are not zero where iterator {iv.var.name} runs over padding",
                        [block.ident],
                    )
            return
    raise Refusal(f"block {block.name} is no sum of products; zeros would change its result", [block.ident],
                  "leave the factors of its reduction at 1")


def _factors(term: Expr) -> Iterator[BufferLoad]:
    """The loads that are factors of a product."""
    if isinstance(term, BufferLoad):
        yield term
    elif isinstance(term, BinOp) and term.op == "*":
        yield from _factors(term.a)
        yield from _factors(term.b)
    elif isinstance(term, Cast):
        yield from _factors(term.value)


def _padded(block: Block, region: BufferRegion, sizes: dict[Var, Expr], analyzer: Analyzer) -> Buffer:
    """The enlarged copy of a buffer."""
    buffer = region.buffer
    domains = {iv.var: iv.dom for iv in block.iter_vars}
    shape = list(buffer.shape)
    for k, r in enumerate(region.region):
        if isinstance(r.min, Var) and r.min in sizes:
            if not analyzer.can_prove_equal(domains[r.min].extent, buffer.shape[k]):
                raise Refusal(f"dimension {k} of {buffer.name} is not the domain of {r.min.name}", [block.ident])
            shape[k] = sizes[r.min]
    return Buffer(f"{buffer.name}_pad", tuple(shape), buffer.dtype, buffer.scope)


def _copy(buffer: Buffer, padded: Buffer, reads: bool, analyzer: Analyzer) -> Stmt:
    """The nest that fills the enlarged copy, or that copies the result back."""
    shape = padded.shape if reads else buffer.shape
    loops = [Var(f"i{k}", s.dtype) for k, s in enumerate(shape)]
    inner = [Var(f"v{k}", s.dtype) for k, s in enumerate(shape)]
    iters = tuple(IterVar(v, Range(as_expr(0, v.dtype), s)) for v, s in zip(inner, shape))
    at = tuple(inner)
    source, target = (buffer, padded) if reads else (padded, buffer)
    value: Expr = BufferLoad(source, at, source.dtype)
    if reads:
        inside: Expr = TRUE
        for v, small, large in zip(inner, buffer.shape, padded.shape):
            if not analyzer.can_prove_equal(small, large):
                inside = inside & (v < small)
        zero = const(0, buffer.dtype) if is_int(buffer.dtype) else FloatImm(0.0, buffer.dtype)
        value = if_then_else(inside, value, zero)
    body = BufferStore(target, at, value)
    block = Block(padded.name, iters, (point(source, at),), (point(target, at),), body)
    nest: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for v, s in reversed(list(zip(loops, shape))):
        nest = For(v, as_expr(0, v.dtype), s, "serial", nest)
    return nest


def _resize(stmt: Stmt, realize: BlockRealize, loops: dict[Expr, Expr], iters: dict[Var, Expr]) -> Stmt:
    """The nest with larger loops and domains."""
    if stmt is realize:
        block = realize.block
        own = tuple(
            replace(iv, dom=Range(iv.dom.min, iters[iv.var])) if iv.var in iters else iv for iv in block.iter_vars
        )
        return BlockRealize(realize.iter_values, realize.predicate, replace(block, iter_vars=own))
    assert isinstance(stmt, For)
    return replace(stmt, extent=loops.get(stmt.var, stmt.extent), body=_resize(stmt.body, realize, loops, iters))


