"""Clips of what is clipped less somewhere else: reuse_clip. Two results of one sum often differ in nothing else."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Expr, int_value, is_int, maximum, minimum
from autosched.ir.functor import substitute
from autosched.ir.patterns import loads_from
from autosched.ir.region import with_access
from autosched.ir.stmt import BlockRealize, BufferStore, Stmt
from autosched.ir.value_bounds import Interval, dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of
from autosched.schedule.primitives.reductions.stages import require_kept, same_places


class Reclips(ScheduleBase):
    """The primitive that takes one clip from another one's result."""

    @primitive
    def reuse_clip(self, block: BlockRV | str, other: BlockRV | str) -> None:
        """Reads what another block clips where a block clips the same value further, and does only what is missing.

        Args:
            block: handle or name of a block without init, alone in its loops, that stores a clipped value: minima and maxima of
                it with constants.
            other: handle or name of one before it that stores the same value at the same places, clipped no further: neither
                its least nor its greatest value is within the block's own.

        Raises:
            ScheduleError: another value, or one that is clipped further; tensors of different types or shapes; somebody writes
                what the value reads, or the other block's tensor, in between.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.min(T.max(T.shift_right(A[vi], 8), -128), 127)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.min(T.max(T.shift_right(A[vi], 8), 0), 127)

        After ``sch.reuse_clip("D", "C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.min(T.max(T.shift_right(A[vi], 8), -128), 127)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.max(C[vi], 0)
        """
        assert isinstance(block, BlockRV) and isinstance(other, BlockRV)
        state, realize = self.block_at(block)
        also, first = self.block_at(other)
        try:
            if also is not state:
                raise Refusal("the blocks belong to different functions", code="handle")
            table = _reclipped(state, realize, first)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)


def clipped(value: Expr) -> tuple[Expr, Interval]:
    """What minima and maxima with constants clip, and the least and the greatest value that they leave.

    Args:
        value: of integers.
    """
    limits: list[tuple[str, int]] = []
    while isinstance(value, BinOp) and value.op in ("min", "max"):
        inner, limit = (value.a, int_value(value.b)) if int_value(value.a) is None else (value.b, int_value(value.a))
        if limit is None:
            break
        limits.append((value.op, limit))
        value = inner
    low, high = dtype_bounds(value.dtype)
    for op, limit in reversed(limits):
        low, high = (min(low, limit), min(high, limit)) if op == "min" else (max(low, limit), max(high, limit))
    return value, (low, high)


def _reclipped(state: State, realize: BlockRealize, first: BlockRealize) -> dict[int, Stmt]:
    block, other = realize.block, first.block
    marks = [other.ident, block.ident]
    scope, store, made = scope_of(state, block), plain_store(block, True), plain_store(other, True)
    order = list(state.realizes)
    if scope_of(state, other) is not scope or order.index(other.ident) >= order.index(block.ident):
        raise Refusal(f"block {other.name} does not come before block {block.name}, beside it", marks, code="order")
    for r in (first, realize):
        require_once(state, r)
        top_of(state, r)
    if store.buffer.dtype != made.buffer.dtype or not is_int(store.buffer.dtype) or made.buffer is store.buffer:
        raise Refusal(f"blocks {other.name} and {block.name} do not store two tensors of one integer type", marks, code="form")
    mine = same_places(block, store, other, made)
    (inner, (low, high)), (same, (least, most)) = clipped(store.value), clipped(made.value)
    if mine is None or substitute(inner, mine) != same:
        raise Refusal(f"block {block.name} does not clip what block {other.name} clips", marks, code="form")
    if low < least or high > most or (low, high) == dtype_bounds(store.buffer.dtype):
        raise Refusal(f"block {other.name} leaves {least} to {most}, block {block.name} {low} to {high}: not less of it", marks,
                      code="range")
    if len(state.writers(scope, made.buffer)) != 1:
        raise Refusal(f"{made.buffer.name} is written by others as well", marks, code="writer")
    if loads_from(made.value, made.buffer):
        raise Refusal(f"block {other.name} works in place: what it reads is gone behind it", marks, code="writer")
    require_kept(state, other, made.value)
    value: Expr = BufferLoad(made.buffer, store.indices, made.buffer.dtype)
    value = maximum(value, low) if low > least else value
    value = minimum(value, high) if high < most else value
    new = with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))
    return {id(block): new}


__all__ = ["Reclips", "clipped"]
