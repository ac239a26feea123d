"""A diagonal of what the program computes: diagonal_by_gemm. The ALU chooses no lane of a vector; a product with 0 and 1 does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched.ir.expr import BinOp, BufferLoad, Expr, IntImm, Var, cast, const, int_value
from autosched.ir.functor import substitute
from autosched.ir.patterns import choice_of
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, IterVar, PrimFunc, Range, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import iterators_over, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.diagonal import with_constant
from autosched.schedule.primitives.reductions.plain import plain_store, top_of
from autosched.schedule.primitives.reductions.zero_terms import fills


class Spreading(ScheduleBase):
    """The primitive that puts the lanes of vectors into rows of their own."""

    @primitive
    def diagonal_by_gemm(self, block: BlockRV | str) -> list[BlockRV]:
        """Makes a diagonal by a matrix product: of each row the one lane that counts, which a constant picks.

        What the program computes lies in vectors, of which the ALU chooses no lane. A matrix that is 1 at one place of its
        diagonal picks it; the rows are narrowed and stored, and the block copies them.

        Args:
            block: handle or name of a block without init that stores ``if_then_else(i == k, x[.., i], 0)`` of an int8 tensor
                at ``[.., i, k]``.

        Returns:
            The blocks of the product and of its rows.

        Raises:
            ScheduleError: another value, or type.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("D"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    D[vi, vk] = T.if_then_else(vi == vk, A[vi], T.int8(0))

        After ``sch.diagonal_by_gemm("D")``::

            D_sum = T.sblock_alloc_buffer((16, 1, 16), "int32")
            D_row = T.sblock_alloc_buffer((16, 1, 16), "int8")
            for i0, i1, i2, i3 in T.grid(16, 1, 16, 16):
                with T.sblock("D_sum"):
                    v0, v1, v2, v3 = T.axis.remap("SSSR", [i0, i1, i2, i3])
                    with T.init():
                        D_sum[v0, 0, v2] = 0
                    D_sum[v0, 0, v2] = D_sum[v0, 0, v2] + T.Cast("int32", A[v3]) * T.Cast("int32", eye_rows[v0, v2, v3])
            for i0, i1, i2 in T.grid(16, 1, 16):
                with T.sblock("D_row"):
                    v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                    D_row[v0, 0, v2] = T.Cast("int8", D_sum[v0, 0, v2])
            for i, k in T.grid(16, 16):
                with T.sblock("D"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    D[vi, vk] = D_row[vi, 0, vk]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            func, made = _spread(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)
        return [self.block_rv(b) for b in made]


def _spread(state: State, realize: BlockRealize) -> tuple[PrimFunc, tuple[Block, Block]]:
    block = realize.block
    store = plain_store(block)
    _, lane, load = _diagonal_of(block, store)
    scope = scope_of(state, block)
    if not fills(state, block) or any(iv.kind != "spatial" for iv in block.iter_vars):
        raise Refusal(f"block {block.name} does not store every element of {store.buffer.name}, each at its plain iterators",
                      [block.ident], "renest before", code="domain")
    extent = int_value(store.buffer.shape[-1])
    if extent is None:
        raise Refusal(f"{store.buffer.name} has a symbolic extent", [block.ident], code="symbolic")
    eye = np.zeros((extent,) * 3, dtype="int8")
    eye[np.arange(extent), np.arange(extent), np.arange(extent)] = 1
    constants, tiles = with_constant(state, "eye_rows", eye)
    names, buffers = set(state.block_names()), set(state.buffer_names(scope))
    one = IntImm(1, store.buffer.shape[-1].dtype)
    shape = (*store.buffer.shape[:-1], one, store.buffer.shape[-1])
    total = Buffer(fresh_name(f"{store.buffer.name}_sum", buffers), shape, "int32")
    rows = Buffer(fresh_name(f"{store.buffer.name}_row", buffers), shape, "int8")
    summed = _picked(fresh_name(f"{block.name}_sum", names), total, store, load, tiles)
    iters = iterators_over(shape)
    at = _places(iters)
    narrowed = with_access(Block(fresh_name(f"{block.name}_row", names), iters, (), (), BufferStore(
        rows, at, cast("int8", BufferLoad(total, at, "int32")))))
    at = (*store.indices[:-1], IntImm(0, lane.dtype), lane)
    copied = with_access(replace(block, body=BufferStore(store.buffer, store.indices, BufferLoad(rows, at, "int8"))))
    nests = [own_nest(summed, "i"), own_nest(narrowed, "i"), own_nest(copied)]
    body = state.rewrite({id(top_of(state, realize)): seq(*nests)}, {id(scope): (*scope.alloc_buffers, total, rows)})
    return replace(state.func, body=body, constants=constants), (summed, narrowed)


def _picked(name: str, total: Buffer, store: BufferStore, load: BufferLoad, tiles: Buffer) -> Block:
    """The product that picks of every row its lane."""
    iters = iterators_over(total.shape)
    *front, row, _, lane = at = _places(iters)
    over = Var(f"v{len(iters)}", lane.dtype)
    moved = {old: new for old, new in zip(store.indices, (*front, row, lane)) if isinstance(old, Var)}
    data = BufferLoad(load.buffer, (*[substitute(i, moved) for i in load.indices[:-1]], over), "int8")
    own = BufferLoad(total, at, "int32")
    picked = cast("int32", data) * cast("int32", BufferLoad(tiles, (row, lane, over), "int8"))
    sums = IterVar(over, Range(IntImm(0, lane.dtype), total.shape[-1]), "reduce")
    return with_access(Block(name, (*iters, sums), (), (), BufferStore(total, at, own + picked),
                             init=BufferStore(total, at, const(0, "int32"))))


def _places(iters: Sequence[IterVar]) -> tuple[Expr, ...]:
    """An index for each iterator: it, or 0 where it has one value only."""
    return tuple([iv.var if int_value(iv.dom.extent) != 1 else IntImm(0, iv.var.dtype) for iv in iters])


def _diagonal_of(block: Block, store: BufferStore) -> tuple[Var, Var, BufferLoad]:
    """The iterators of rows and lanes, and what is on the diagonal."""
    refusal = Refusal(f"block {block.name} does not store the diagonal of an int8 tensor's last index", [block.ident],
                      "diagonalize makes it", code="form")
    parts = choice_of(store.value)
    indices: tuple[Expr, ...] = store.indices
    if parts is None or int_value(parts[2]) != 0 or len(indices) < 2 or not isinstance(parts[1], BufferLoad):
        raise refusal
    condition, load, _ = parts
    row, lane = indices[-2:]
    if not (isinstance(row, Var) and isinstance(lane, Var) and isinstance(load, BufferLoad) and load.dtype == "int8"):
        raise refusal
    same = isinstance(condition, BinOp) and condition.op == "==" and {condition.a, condition.b} == {row, lane}
    sizes = {int_value(e) for e in (*store.buffer.shape[-2:], load.buffer.shape[-1])}
    if not same or load.indices[-1] is not row or len(sizes) > 1 or load.buffer is store.buffer:
        raise refusal
    return row, lane, load
