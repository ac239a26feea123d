"""Axes that a program leaves out: add_unit_iterator, spread_operand. One kernel is a row of one, or one for every plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, int_value
from autosched.ir.functor import Mutator, free_vars, rewrite
from autosched.ir.patterns import loaded
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, IterVar, Range, Stmt
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.behind import with_copy
from autosched.schedule.primitives.buffers.reindex import unique_indices
from autosched.schedule.primitives.reductions.negation import require_given
from autosched.schedule.primitives.reductions.plain import plain_stores, top_of


class UnitAxes(ScheduleBase):
    """The primitives that give blocks and operands an axis which the program leaves out."""

    @primitive
    def add_unit_iterator(self, block: BlockRV | str, buffers: Sequence[str]) -> None:
        """Gives a block a first iterator, of extent one, that indexes the first dimension of some of its tensors.

        Args:
            block: handle or name of a block alone in its loops that stores one value.
            buffers: names of tensors that it accesses, whose first dimension has one element: ``transform_layout`` adds such.

        Raises:
            ScheduleError: no such tensor, or one whose first dimension is longer.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[0, vi] = A[0, vi] * 2

        After ``sch.add_unit_iterator("C", ["C"])``::

            for u, i in T.grid(1, 16):
                with T.sblock("C"):
                    vu, vi = T.axis.remap("SS", [u, i])
                    C[vu, vi] = A[0, vi] * 2
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            top, new = _with_unit(state, realize, list(buffers))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(top): new})

    @primitive
    def spread_operand(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, iterator: int) -> BlockRV:
        """Reads an operand from a copy with one more index in front: an iterator of the block that it does not depend on.

        Args:
            block: handle or name of a block alone in its loops that reads the operand at one place.
            read_buffer_index: a parameter that nobody writes, or what the host makes of such: position among what the block
                reads, name, or buffer.
            iterator: position among the block's iterators.

        Returns:
            The block that fills the copy, directly behind what fills the operand; of a parameter, in front of all blocks.

        Raises:
            ScheduleError: no such iterator, or one that the operand depends on; an operand that somebody writes; loops that
                other blocks share.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + B[vj]

        After ``sch.spread_operand("C", "B", 0)``::

            B_spread = T.sblock_alloc_buffer((16, 16), "int32")
            for i0, i1 in T.grid(16, 16):
                with T.sblock("B_spread"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    B_spread[v0, v1] = B[v1]
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + B_spread[vi, vj]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        operand = realize.block.reads[self.block_region_buffer(realize.block, read_buffer_index, "read")].buffer
        try:
            body, made = _spread(state, realize, operand, iterator)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


class _Indexed(Mutator):
    """Puts other indices where some tensors are loaded from.

    Args:
        table: by tensor, the tensor to load from and its first index; what is behind it stays.
        skip: how many of the old indices the new one takes the place of.
    """

    def __init__(self, table: dict[Buffer, tuple[Buffer, Expr]], skip: int) -> None:
        self.table, self.skip = table, skip

    def visit_load(self, load: BufferLoad) -> Expr:
        indices = self.visit_exprs(load.indices)
        if load.buffer not in self.table:
            return BufferLoad(load.buffer, indices, load.dtype)
        buffer, first = self.table[load.buffer]
        return BufferLoad(buffer, (first, *indices[self.skip:]), load.dtype)

    def visit_store(self, store: BufferStore) -> BufferStore:
        """A store with its value and its place rewritten."""
        indices, value = self.visit_exprs(store.indices), self.visit_expr(store.value)
        if store.buffer not in self.table:
            return BufferStore(store.buffer, indices, value)
        buffer, first = self.table[store.buffer]
        return BufferStore(buffer, (first, *indices[self.skip:]), value)


def _rewritten(block: Block, table: dict[Buffer, tuple[Buffer, Expr]], skip: int) -> Block:
    indexed = _Indexed(table, skip)
    store, first = plain_stores(block)
    return replace(block, body=indexed.visit_store(store), init=None if first is None else indexed.visit_store(first))


def _with_unit(state: State, realize: BlockRealize, names: list[str]) -> tuple[Stmt, Stmt]:
    block = realize.block
    used = {r.buffer.name: r.buffer for r in (*block.reads, *block.writes)}
    var = Var(fresh_name("vu", {iv.var.name for iv in block.iter_vars}), "int32")
    table: dict[Buffer, tuple[Buffer, Expr]] = {}
    for name in names:
        buffer = used.get(name)
        if buffer is None or not buffer.shape or int_value(buffer.shape[0]) != 1:
            lacks = "accesses no tensor" if buffer is None else "accesses, at no first dimension of one element, the tensor"
            raise Refusal(f"block {block.name} {lacks} {name}", [block.ident], "transform_layout gives it one", code="argument")
        table[buffer] = buffer, var
    new = _rewritten(block, table, 1)
    new = with_access(replace(new, iter_vars=(IterVar(var, Range(IntImm(0), IntImm(1)), "spatial"), *block.iter_vars)))
    top = top_of(state, realize)
    loop = Var(fresh_name("u", {x.var.name for x in state.loops_above(realize)}), "int32")
    changed = rewrite(top, realize, BlockRealize((loop, *realize.iter_values), realize.predicate, new))
    return top, For(loop, IntImm(0), IntImm(1), "serial", changed)


def _spread(state: State, realize: BlockRealize, operand: Buffer, iterator: int) -> tuple[Stmt, Block]:
    block = realize.block
    if not 0 <= iterator < len(block.iter_vars):
        raise Refusal(f"block {block.name} has {len(block.iter_vars)} iterators; there is none at {iterator}", [block.ident],
                      code="argument")
    iv = block.iter_vars[iterator]
    if int_value(iv.dom.min) != 0:
        raise Refusal(f"iterator {iv.var.name} of block {block.name} does not begin at 0", [block.ident], code="form")
    require_given(state, block, operand, operand.dtype)
    indices = unique_indices(block, operand)
    if any(iv.var in free_vars(i) for i in indices):
        raise Refusal(f"{expr_text(BufferLoad(operand, indices, operand.dtype))} in block {block.name} depends on {iv.var.name} "
                      "already", [block.ident], code="index")
    if iv.kind == "reduce" and block.init is not None and operand in loaded(block.init):
        raise Refusal(f"block {block.name} begins with {operand.name}, and {iv.var.name} is a reduction iterator", [block.ident],
                      "decompose_reduction first", code="reduction")
    scope = scope_of(state, block)
    name = fresh_name(f"{operand.name}_spread", {*state.block_names(), *state.buffer_names(scope)})
    made = Buffer(name, (iv.dom.extent, *operand.shape), operand.dtype)
    stage = filling(name, made, lambda at: BufferLoad(operand, at[1:], operand.dtype))
    changed = with_access(_rewritten(block, {operand: (made, iv.var)}, 0))
    return with_copy(state, realize, operand, stage, changed), stage
