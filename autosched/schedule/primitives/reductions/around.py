"""Zeros at the ends of a tensor, made by a stage behind what stores it: separate_padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, all_of, binary, const, if_then_else, int_value
from autosched.ir.functor import substitute
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.neutral_terms import require_alone
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of
from autosched.schedule.primitives.reductions.trimming import Kept, without
from autosched.schedule.primitives.reductions.zero_terms import fills, vanishes


class Surroundings(ScheduleBase):
    """The primitive that takes the zeros around a tensor out of what makes it."""

    @primitive
    def separate_padding(self, block: BlockRV | str) -> BlockRV:
        """Lets a block store only what is not zero at the ends of its tensor, and a stage behind it put the zeros around that.

        Zeros that a host stage lays out are in memory and are loaded; those of a stage of the accelerator are none of either.
        How far they go is what is known of conditions, also of those in the stages that the block reads.

        Args:
            block: handle or name of a block, of the host's or not, alone in its loops: it stores every element of an allocated
                tensor, once, at its plain iterators, and nobody else writes it.

        Returns:
            The stage that pads, which writes the tensor; the block writes the rest of it, and keeps its handle.

        Raises:
            ScheduleError: another block, or one that stores no zeros at an end of a dimension, or nothing else.

        Before::

            B_all = T.sblock_alloc_buffer((6, 4), "int32")
            for i, j in T.grid(6, 4):
                with T.sblock("B_all"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B_all[vi, vj] = T.if_then_else(5 <= vi * 4 + vj and vi * 4 + vj < 20, A[vi * 4 + vj - 5], 0)
            for i, j in T.grid(6, 4):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = B_all[vi, vj] + 1

        After ``sch.separate_padding("B_all")``::

            B_all = T.sblock_alloc_buffer((6, 4), "int32")
            B_all_inner = T.sblock_alloc_buffer((4, 4), "int32")
            for i, j in T.grid(4, 4):
                with T.sblock("B_all"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B_all_inner[vi, vj] = T.if_then_else(1 <= vi * 4 + vj, A[vi * 4 + vj - 1], 0)
            for ax0, ax1 in T.grid(6, 4):
                with T.sblock("B_all_padding"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    B_all[v0, v1] = T.if_then_else(1 <= v0 and v0 < 5, B_all_inner[v0 - 1, v1], 0)
            for i, j in T.grid(6, 4):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = B_all[vi, vj] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            require_once(state, realize)
            body, made = _separated(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def inner_of(state: State, realize: BlockRealize) -> Kept:
    """The ranges of a block's iterators behind, and in front of, which it stores zeros alone.

    Args:
        state: the program.
        realize: the block.

    Raises:
        Refusal: it is none that ``separate_padding`` takes, or stores no such zeros.
    """
    block = realize.block
    store, scope = plain_store(block, alone=True), scope_of(state, block)
    if not fills(state, block) or store.buffer not in scope.alloc_buffers:
        raise Refusal(f"block {block.name} does not fill an allocated tensor at its plain iterators", [block.ident], code="form")
    require_alone(state, scope, block, store.buffer)
    dom: Kept = {iv.var: iv.dom for iv in block.iter_vars}

    def nothing(part: Kept) -> bool:
        return vanishes(state, scope, block, store.value, part)

    whole = dict(dom)
    if nothing(whole):
        raise Refusal(f"block {block.name} stores nothing but zeros", [block.ident], code="form")
    for var in [i for i in store.indices if isinstance(i, Var)]:
        for last in (False, True):
            dom[var] = without(var, dom, last, nothing)
    if dom == whole:
        raise Refusal(f"block {block.name} is not known to store zeros alone at an end of a dimension", [block.ident],
                      code="form")
    return dom


def _separated(state: State, realize: BlockRealize) -> tuple[Stmt, Block]:
    block, top = realize.block, top_of(state, realize)
    inner, scope = inner_of(state, realize), scope_of(state, block)
    store = plain_store(block, alone=True)
    shape = tuple([inner[i].extent if isinstance(i, Var) else n for i, n in zip(store.indices, store.buffer.shape)])
    buffer = Buffer(fresh_name(f"{store.buffer.name}_inner", state.buffer_names(scope)), shape, store.buffer.dtype,
                    store.buffer.scope)
    begins = [int_value(inner[i].min) or 0 if isinstance(i, Var) else 0 for i in store.indices]

    def value(at: tuple[Var, ...]) -> Expr:
        conditions: list[Expr] = []
        for v, begin, size, all_ in zip(at, begins, shape, store.buffer.shape):
            end = begin + (int_value(size) or 0)
            conditions += [binary("<=", begin, v)] if begin else []
            conditions += [binary("<", v, end)] if end != int_value(all_) else []
        read = BufferLoad(buffer, tuple([v - begin if begin else v for v, begin in zip(at, begins)]), buffer.dtype)
        return if_then_else(all_of(conditions), read, const(0, buffer.dtype))

    name = fresh_name(f"{block.name}_padding", set(state.block_names()))
    stage = filling(name, store.buffer, value)
    small = _small(block, store, buffer, inner)
    body = state.rewrite({id(top): seq(own_nest(small), own_nest(stage, "ax"))}, {id(scope): (*scope.alloc_buffers, buffer)})
    return body, stage


def _small(block: Block, store: BufferStore, buffer: Buffer, inner: Mapping[Var, Range]) -> Block:
    """A block that stores the inner part of what it did, from 0."""
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars}
    iters = tuple([IterVar(fresh[iv.var], Range(IntImm(0, iv.var.dtype), inner[iv.var].extent)) for iv in block.iter_vars])
    known = Analyzer({iv.var: iv.dom for iv in iters if int_value(iv.dom.extent) != 1})
    moved = {v: new + inner[v].min if int_value(inner[v].min) else new for v, new in fresh.items()}
    indices = tuple([substitute(i, fresh) for i in store.indices])
    value = known.simplify(substitute(store.value, moved)) if moved != fresh else substitute(store.value, fresh)
    return with_access(replace(block, iter_vars=iters, reads=(), body=BufferStore(buffer, indices, value)))


__all__ = ["Surroundings", "inner_of"]
