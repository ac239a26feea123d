"""Padding that is not zero as something that is added: a load pads with zeros only, and a sum of products takes in the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import BufferLoad, Cast, Expr, Var, binary, cast, const, if_then_else, int_value
from autosched.ir.functor import Mutator, free_vars, rewrite, substitute
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Stmt, seq
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.neutral_terms import require_alone
from autosched.schedule.primitives.reductions.plain import require_once, top_of


class Borders(ScheduleBase):
    """The primitive that adds what is around a tensor."""

    @primitive
    def add_padding(self, block: BlockRV | str, dims: Sequence[int] = ()) -> BlockRV:
        """Pads with zeros, and lets readers add the constant that was there, of a tensor that holds zeros everywhere else.

        Who converts what is read to another type adds it there.

        Args:
            block: handle or name of a block ``P[i] = if_then_else(inside, value, constant)`` of integers at its plain iterators,
                once for each of their values, alone in its loops and the only writer of P, which is no parameter.
            dims: dimensions of P that the new tensor has besides those that ``inside`` depends on.

        Returns:
            The block of the new tensor, which loads nothing.

        Raises:
            ScheduleError: a block of another form, a constant that is zero already, no such dimension.

        Before::

            P = T.sblock_alloc_buffer((18, 16), "int8")
            for i, j in T.grid(18, 16):
                with T.sblock("P"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    P[vi, vj] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1, vj], T.int8(-128))
            for i, j in T.grid(18, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.Cast("int32", P[vi, vj])

        After ``sch.add_padding("P")``::

            P = T.sblock_alloc_buffer((18, 16), "int8")
            P_padding = T.sblock_alloc_buffer((18,), "int8")
            for i in range(18):
                with T.sblock("P_padding"):
                    vi = T.axis.spatial(18, i)
                    P_padding[vi] = T.if_then_else(1 <= vi and vi < 17, T.int8(0), T.int8(-128))
            for i, j in T.grid(18, 16):
                with T.sblock("P"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    P[vi, vj] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1, vj], T.int8(0))
            for i, j in T.grid(18, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.Cast("int32", P[vi, vj]) + T.Cast("int32", P_padding[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            require_once(state, realize)
            body, made = _added(state, realize, [int(d) for d in dims])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def _added(state: State, realize: BlockRealize, dims: Sequence[int]) -> tuple[Stmt, Block]:
    block, top = realize.block, top_of(state, realize)
    store, scope = block.body, scope_of(state, block)
    choice = choice_of(store.value) if isinstance(store, BufferStore) else None
    if block.init is not None or choice is None or not isinstance(store, BufferStore) or has_loads(choice[0]) or (
            int_value(choice[2]) is None):
        raise Refusal(f"block {block.name} is no padding of integers: if_then_else(inside, value, constant)", [block.ident],
                      code="form")
    condition, inside, other = choice
    if int_value(other) == 0:
        raise Refusal(f"block {block.name} pads with zeros already", [block.ident], code="form")
    if any(not 0 <= d < len(store.indices) for d in dims):
        raise Refusal(f"{store.buffer.name} has no dimension {next(d for d in dims if not 0 <= d < len(store.indices))}",
                      [block.ident], code="argument")
    plain = [i for i in store.indices if isinstance(i, Var)]
    if len(set(plain)) != len(plain) or any(not isinstance(i, Var) and int_value(i) is None for i in store.indices) or (
            not set(free_vars(condition)) <= set(plain)):
        raise Refusal(f"block {block.name} does not store at its plain iterators", [block.ident], code="index")
    require_alone(state, scope, block, store.buffer)
    kept = [d for d, i in enumerate(store.indices) if d in dims or (isinstance(i, Var) and i in set(free_vars(condition)))]
    buffer = Buffer(fresh_name(f"{store.buffer.name}_padding", state.buffer_names(scope)),
                    tuple([store.buffer.shape[d] for d in kept]), other.dtype)
    zero = const(0, other.dtype)
    stage = _stage(block, fresh_name(f"{block.name}_padding", set(state.block_names())), buffer,
                   [store.indices[d] for d in kept], if_then_else(condition, zero, other))
    changed = with_access(replace(block, body=BufferStore(store.buffer, store.indices, if_then_else(condition, inside, zero))))
    table: dict[int, Stmt | None] = {id(top): seq(own_nest(stage), rewrite(top, realize, replace(realize, block=changed)))}
    readers = _Added(store.buffer, buffer, kept)
    for reader in state.readers(scope, store.buffer):
        table[id(reader)] = readers.visit_block(reader)
    return state.rewrite(table, {id(scope): (*scope.alloc_buffers, buffer)}), stage


def _stage(block: Block, name: str, buffer: Buffer, at: Sequence[Expr], value: Expr) -> Block:
    """A block that makes some value at iterators of another one."""
    used = [iv for iv in block.iter_vars if iv.var in at]
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in used}
    iters = tuple([IterVar(fresh[iv.var], iv.dom, "spatial") for iv in used])
    body = BufferStore(buffer, tuple([substitute(i, fresh) for i in at]), substitute(value, fresh))
    return with_access(Block(name, iters, (), (), body))


class _Added(Mutator):
    """Loads of a padded tensor, with what it was padded with; one of both is zero everywhere."""

    def __init__(self, padded: Buffer, padding: Buffer, kept: Sequence[int]) -> None:
        self.padded, self.padding, self.kept = padded, padding, kept

    def visit_expr(self, expr: Expr) -> Expr:
        load = expr.value if isinstance(expr, Cast) else expr
        if not (isinstance(load, BufferLoad) and load.buffer is self.padded):
            return super().visit_expr(expr)
        more = BufferLoad(self.padding, tuple([load.indices[d] for d in self.kept]), self.padding.dtype)
        return binary("+", expr, cast(expr.dtype, more))

    def visit_block(self, block: Block) -> Block:
        if self.padded not in facts(block).buffers:
            return block
        changed = super().visit_block(block)
        # Blocks inside read it as well. What declares nothing goes on doing so.
        return with_access(changed) if block.reads or block.writes else changed
