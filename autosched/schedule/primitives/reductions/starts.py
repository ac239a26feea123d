"""Reductions that start with nothing: join_init_behind. What they started with is joined once, behind them."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, binary, int_value, is_int
from autosched.ir.functor import rewrite, substitute
from autosched.ir.patterns import loads_from, update_of
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, Stmt, seq
from autosched.ir.value_bounds import neutral
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.one_to_one import injective
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import require_once, top_of


class Starts(ScheduleBase):
    """The primitive that takes an initial value behind its reduction."""

    @primitive
    def join_init_behind(self, block: BlockRV | str) -> BlockRV:
        """Starts a reduction with what changes nothing, and joins what it started with behind it, in a stage of its own.

        A sum starts with 0 then, a minimum with the largest value of its type and a maximum with the lowest one: exact, integers
        of a type wrap around alike in any order.

        Args:
            block: handle or name of a reduction of integers with +, min or max, alone in its loops.

        Returns:
            The block of the stage, which stores what the reduction did.

        Raises:
            ScheduleError: another block, one that starts so already, or one that starts an element several times.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.Cast("int32", b[vi])
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])

        After ``sch.join_init_behind("C")``::

            C_apart = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C_apart[vi] = 0
                    C_apart[vi] = C_apart[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
            for i in range(16):
                with T.sblock("C_start"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = C_apart[vi] + T.Cast("int32", b[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _behind(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def _behind(state: State, realize: BlockRealize) -> tuple[Stmt, Block]:
    block = realize.block
    store, init = block.body, block.init
    update = update_of(store) if isinstance(store, BufferStore) else None
    plain = isinstance(store, BufferStore) and is_int(store.buffer.dtype)
    if not plain or not isinstance(store, BufferStore) or not isinstance(init, BufferStore) or update is None:
        raise Refusal(f"block {block.name} is no reduction of integers with +, min or max", [block.ident], code="form")
    op, term = update
    dtype = store.buffer.dtype
    start = neutral(op, dtype)
    if init.indices != store.indices or loads_from(init.value, store.buffer) or int_value(init.value) == start:
        raise Refusal(f"block {block.name} starts with {start} already, or with something else than a value of its own element",
                      [block.ident], code="form")
    spatial = [iv for iv in block.iter_vars if iv.kind == "spatial"]
    if any(int_value(iv.dom.min) != 0 or int_value(iv.dom.extent) is None for iv in spatial):
        raise Refusal(f"an iterator of block {block.name} does not begin at 0, or is of no known extent", [block.ident],
                      code="index")
    if not injective(store.indices, {iv.var: iv.dom for iv in spatial}):
        raise Refusal(f"several iterations of block {block.name} write one element of {store.buffer.name}: each starts it anew",
                      [block.ident], code="index")
    require_once(state, realize)
    top, scope = top_of(state, realize), scope_of(state, block)
    apart = Buffer(fresh_name(f"{store.buffer.name}_apart", state.buffer_names(scope)), store.buffer.shape, dtype)
    own = BufferLoad(apart, store.indices, dtype)
    new = with_access(replace(block, init=BufferStore(apart, store.indices, IntImm(start, dtype)),
                              body=BufferStore(apart, store.indices, binary(op, own, term))))
    fresh: dict[Var, Expr] = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in spatial}
    at = tuple([substitute(i, fresh) for i in store.indices])
    joined = binary(op, BufferLoad(apart, at, dtype), substitute(init.value, fresh))
    iters = tuple([IterVar(v, iv.dom, iv.kind) for iv, v in zip(spatial, fresh.values()) if isinstance(v, Var)])
    made = with_access(Block(fresh_name(f"{block.name}_start", set(state.block_names())), iters, (), (),
                             BufferStore(store.buffer, at, joined)))
    changed = rewrite(top, realize, replace(realize, block=new))
    return state.rewrite({id(top): seq(changed, own_nest(made))}, {id(scope): (*scope.alloc_buffers, apart)}), made
