"""Letting a block run over a larger domain, into a larger buffer of which nobody reads the rest: pad_block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from autosched.ir.expr import (
    BufferLoad,
    Expr,
    IntImm,
    Var,
    all_of,
    as_expr,
    binary,
    const,
    if_then_else,
    int_value,
)
from autosched.ir.functor import Mutator, free_vars, replace_buffers, walk
from autosched.ir.region import block_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, PrimFunc, Range, Stmt
from autosched.ir.value_bounds import ValueBounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.zero_terms import sum_term, vanishes


class PadBlocks(ScheduleBase):
    """The primitive that enlarges a block where it stands."""

    @primitive
    def pad_block(self, block: BlockRV | str, padding: Sequence[int], zeros: bool | None = None) -> None:
        """Enlarges the domain of a block to multiples of some factors, and the buffer that it fills with it.

        Nothing is copied, unlike ``pad_einsum``: the buffer grows, and whoever reads it reads what was there before. What the
        block itself reads beyond the end of a buffer counts as 0, so that a copy of a parameter becomes one that fills with
        zeros. Give producers before their consumers: then consumers find larger buffers.

        Args:
            block: handle or name of a block alone in loops that are its iterators, in order; it stores one element into a buffer
                allocated around it that no other block writes, at plain iterators as far as they are enlarged.
            padding: one positive factor per iterator; 1 leaves the iterator alone.
            zeros: whether the block, which is no sum, stores 0 in what is new, whatever it would make there.

        Raises:
            ScheduleError: not such a block; a parameter is written; a reduction iterator of which the added terms are not known
                to be zero; zeros of a sum.

        Before::

            B = T.sblock_alloc_buffer((10,), "int32")
            for i in range(10):
                with T.sblock("B"):
                    vi = T.axis.spatial(10, i)
                    B[vi] = A[vi] * 2
            for i in range(10):
                with T.sblock("C"):
                    vi = T.axis.spatial(10, i)
                    C[vi] = B[vi] + 1

        After ``sch.pad_block("B", [16])``::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.if_then_else(vi < 10, A[vi], 0) * 2
            for i in range(10):
                with T.sblock("C"):
                    vi = T.axis.spatial(10, i)
                    C[vi] = B[vi] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            func = _enlarged(state, realize, [int(p) for p in padding], bool(zeros))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)


def _enlarged(state: State, realize: BlockRealize, padding: list[int], zeros: bool) -> PrimFunc:
    block = realize.block
    if len(padding) != len(block.iter_vars) or any(p < 1 for p in padding):
        raise Refusal(f"padding is a list of {len(block.iter_vars)} positive factors for block {block.name}, not {padding}",
                      [block.ident], code="argument")
    loops = _nest(state, realize)
    store = block.body
    if not isinstance(store, BufferStore):
        raise Refusal(f"the body of block {block.name} is not one store", [block.ident], code="form")
    old: dict[Var, int] = {}
    new: dict[Var, int] = {}
    for iv, factor in zip(block.iter_vars, padding):
        extent = int_value(iv.dom.extent)
        if extent is None:
            raise Refusal(f"iterator {iv.var.name} of block {block.name} has a symbolic extent", [block.ident], code="symbolic")
        if extent % factor:
            old[iv.var], new[iv.var] = extent, -(-extent // factor) * factor
    if not new:
        return state.func
    scope = scope_of(state, block)
    larger = _grown(state, scope, block, store, old, new)
    iter_vars = tuple([replace(iv, dom=_range(iv.dom, new.get(iv.var))) for iv in block.iter_vars])
    dom = {iv.var: iv.dom for iv in iter_vars}
    guard = _Guarded(state.func, store.buffer, dom, set(new))
    value = guard.visit_expr(store.value)
    if zeros and block.init is not None:
        raise Refusal(f"block {block.name} is a sum, of which no term is left out: nothing of what it makes is set to 0",
                      [block.ident], code="form")
    if zeros:
        value = if_then_else(all_of([binary("<", v, n) for v, n in old.items()]), store.value, const(0, value.dtype))
    body = BufferStore(store.buffer, store.indices, value)
    init = block.init
    if isinstance(init, BufferStore):
        init = BufferStore(init.buffer, init.indices, guard.visit_expr(init.value))
    wider = replace(block, iter_vars=iter_vars, body=body, init=init)
    reads, writes = block_access(wider)
    order = {r.buffer: k for k, r in enumerate(block.reads)}
    reads = tuple(sorted(reads, key=lambda r: order.get(r.buffer, len(order))))
    wider = replace(wider, reads=reads, writes=writes)
    for iv in wider.iter_vars:
        if iv.kind == "reduce" and iv.var in old:
            _adds_zeros(state, scope, wider, iv.var, old[iv.var], dom)
    nest: Stmt = BlockRealize(realize.iter_values, realize.predicate, wider)
    for loop, iv in reversed(list(zip(loops, block.iter_vars))):
        nest = replace(loop, extent=_range(Range(loop.min, loop.extent), new.get(iv.var)).extent, body=nest)
    table: dict[int, Stmt | None] = {id(loops[0]): nest}
    return replace(state.func, body=replace_buffers(state.rewrite(table), {store.buffer: larger}))


def _nest(state: State, realize: BlockRealize) -> list[For]:
    block = realize.block
    loops = state.loops_above(realize)
    for outer, inner in pairwise([*loops, realize]):
        if isinstance(outer, For) and outer.body is not inner:
            raise Refusal(f"loop {outer.var.name} holds more than block {block.name}", [outer.var, block.ident], code="place")
    values = realize.iter_values
    if not loops or len(loops) != len(values) or any(v is not x.var for v, x in zip(values, loops)):
        raise Refusal(f"the iterators of block {block.name} are not the loops around it, one each, in order", [block.ident],
                      "pad_block before split, fuse and reorder", code="index")
    if int_value(realize.predicate) != 1 or any(int_value(x.min) != 0 for x in loops):
        raise Refusal(f"block {block.name} does not run over whole loops from 0", [block.ident], code="domain")
    return loops


def _range(dom: Range, extent: int | None) -> Range:
    return dom if extent is None else Range(dom.min, IntImm(extent, dom.extent.dtype))


def _grown(
    state: State, scope: Block, block: Block, store: BufferStore, old: Mapping[Var, int], new: Mapping[Var, int]
) -> Buffer:
    """The written buffer with room for what the larger domain stores."""
    target = store.buffer
    spatial = {iv.var for iv in block.iter_vars if iv.kind == "spatial" and iv.var in new}
    if not spatial:
        return target
    if target not in scope.alloc_buffers:
        raise Refusal(f"block {block.name} writes {target.name}, which the block around it does not allocate: its shape is given",
                      [block.ident], "cache_write it first", code="output")
    if len(state.writers(scope, target)) > 1:
        raise Refusal(f"{target.name} is written by more than block {block.name}", [block.ident], code="writer")
    for node in walk(scope):
        if isinstance(node, Block) and any(m.source.buffer is target for m in node.match_buffers):
            raise Refusal(f"{target.name} is viewed by block {node.name}", [node.ident], code="address")
    shape = list(target.shape)
    placed: set[Var] = set()
    for d, index in enumerate(store.indices):
        used = spatial & set(free_vars(index))
        if not used:
            continue
        if not isinstance(index, Var) or index in placed or int_value(shape[d]) != old[index]:
            raise Refusal(
                f"dimension {d} of {target.name} is not filled by one plain iterator of block {block.name}", [block.ident],
                "transform_layout comes after", code="index",
            )
        placed.add(index)
        shape[d] = IntImm(new[index], target.shape[d].dtype)
    if placed != spatial:
        missing = ", ".join(v.name for v in spatial - placed)
        raise Refusal(f"block {block.name} stores what iterator {missing} makes again and again", [block.ident], code="domain")
    return replace(target, shape=tuple(shape))


class _Guarded(Mutator):
    """Puts 0 where a load leaves its buffer because of the larger domain."""

    def __init__(self, func: PrimFunc, own: Buffer, dom: Mapping[Var, Range], grown: set[Var]) -> None:
        self.own, self.dom, self.grown = own, dom, grown
        self.bounds = ValueBounds(func)

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        assert isinstance(new, BufferLoad)
        if new.buffer is self.own:
            return new
        conditions: list[Expr] = []
        for index, size in zip(new.indices, new.buffer.shape):
            if not self.grown & set(free_vars(index)):
                continue
            extent = int_value(size)
            low, high = self.bounds.of(index, self.dom)
            if low < 0:
                conditions.append(binary("<=", as_expr(0, index.dtype), index))
            if extent is None or high >= extent:
                conditions.append(binary("<", index, size))
        return new if not conditions else if_then_else(all_of(conditions), new, const(0, new.dtype))


def _adds_zeros(state: State, scope: Block, block: Block, var: Var, old: int, dom: Mapping[Var, Range]) -> None:
    """Refuses a reduction iterator of which the terms from ``old`` on may be other than zero."""
    _, term = sum_term(block)
    beyond = {v: r for v, r in dom.items() if v is not var}
    last = int_value(dom[var].extent)
    assert last is not None
    beyond[var] = Range(IntImm(old, var.dtype), IntImm(last - old, var.dtype))
    if vanishes(state, scope, block, term, beyond):
        return
    raise Refusal(
        f"the terms that block {block.name} would add for {var.name} from {old} on are not known to be zero", [block.ident],
        "pad_block the copies of its operands first", code="form",
    )
