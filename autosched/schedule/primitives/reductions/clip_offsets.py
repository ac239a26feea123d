"""A clip and the constant that its sum starts with, moved by what narrowing drops: offset_epilogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, bits, const, int_value
from autosched.ir.functor import all_exprs
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, BufferStore, Stmt
from autosched.ir.value_bounds import Interval, ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import reduce_iters, scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.fold import opening_of, partial_sums, with_opening
from autosched.schedule.primitives.reductions.raising import NARROW, STEP, check_narrowed, clipping_store, start_and_sum

NUMBER = "int32"
IMMEDIATE = dtype_bounds("int16")
"""What one instruction holds as its constant."""


class ClipOffsets(ScheduleBase):
    """The primitive that moves an epilogue whose sum starts with a constant."""

    @primitive
    def offset_epilogue(self, block: BlockRV | str) -> None:
        """Adds a multiple of 256, which the narrowing behind drops, to a clip and to the constant that its sum starts with.

        The sum then starts above all that the clip left in its place before, or below it, so that a machine without moves may
        start it by one MAX, or one MIN, of a constant, instead of a reset and an addition. ``raise_epilogue`` does that for
        tensors.

        Args:
            block: handle or name of the block that clips a sum, shifted or not, which ``fold_epilogue`` lets start with a
                constant, maybe through stages and sums that go on from one another; only conversions to int8 read the result.

        Raises:
            ScheduleError: no such clip, sum or constant; somebody reads more than the low 8 bits; the constant is beyond the
                clip as it is; no multiple moves it there that the constants of instructions hold; the declared value ranges do
                not prove that no partial sum overflows.

        Before::

            C = T.sblock_alloc_buffer((16,), "int32")
            R = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 64
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(C[vi], 7), -128), 127)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.Cast("int8", R[vi])

        After ``sch.offset_epilogue("R")``::

            C = T.sblock_alloc_buffer((16,), "int32")
            R = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -32704
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(C[vi], 7), -384), -129)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.Cast("int8", R[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _offset(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


@dataclass(frozen=True)
class _Sum:
    """A sum on the way from the constant to the clip, or a stage that goes on from one.

    Args:
        first: the block that holds its initial value.
        update: the block that adds; maybe the same. None of a stage.
        value: what is made of it: by the next sum, which starts with that, or the clip.
        load: the sum in there.
        shift: by how many positions that, and all behind it, shifts the sum.
        ahead: the same of all behind it alone.
    """

    first: Block
    update: Block | None
    value: Expr
    load: BufferLoad
    shift: int
    ahead: int


def _offset(state: State, realize: BlockRealize) -> Stmt:
    block, store = realize.block, clipping_store(state, realize.block, "offset_epilogue")
    clip = store.value.value if isinstance(store.value, Cast) and store.value.dtype == NARROW else store.value
    sums = _sums(state, block, clip)
    check_narrowed(state, scope_of(state, block), block, clip, sums[0].load.buffer)
    start = int_value(opening_of(sums[-1].first).value)
    assert start is not None
    by = _chosen(block, sums, start)
    bounds = ValueBounds(state.func)
    for step in (0, by):
        _check_sums(bounds, sums, start, step)
    ahead = _moved(clip, by)
    value = Cast(NARROW, ahead) if isinstance(store.value, Cast) else ahead
    table: dict[int, Stmt | None] = {id(block): with_access(replace(block, body=replace(store, value=value)))}
    for total in sums:
        opening = opening_of(total.first)
        constant, step = int_value(opening.value), by << total.shift
        moved = replace(opening, value=_moved(opening.value, step) if constant is None else const(constant + step, NUMBER))
        table[id(total.first)] = with_opening(total.first, moved)
    return state.rewrite(table)


def _sums(state: State, block: Block, clip: Expr) -> list[_Sum]:
    """The sums that a clip goes on from, back to the one that starts with a constant."""
    found: list[_Sum] = []
    reader, value, shift = block, clip, 0
    while True:
        load = _element(value)
        if load is None:
            raise Refusal(
                f"{reader.name} starts with neither a constant nor another sum" if found else
                f"block {block.name} clips no sum: min(max(sum >> s, low), high) with constant bounds", [reader.ident],
                "fold_epilogue moves an addend away from there", code="form",
            )
        first, update = _maker(state, reader, load)
        if found and sum(isinstance(e, BufferLoad) and e.buffer is load.buffer for e in all_exprs(reader)) > 1:
            raise Refusal(f"block {reader.name} uses {load.buffer.name} several times", [reader.ident], code="reader")
        ahead, shift = shift, shift + _shifted(value)
        found.append(_Sum(first, update, value, load, shift, ahead))
        reader, value = first, opening_of(first).value
        if int_value(value) is not None:
            return found


def _maker(state: State, reader: Block, load: BufferLoad) -> tuple[Block, Block | None]:
    """The block that starts what another one reads, and the one that adds to it; None of a stage that goes on from a sum."""
    scope, made = scope_of(state, reader), load.buffer
    writers = state.writers(scope, made)
    stage = writers[0] if len(writers) == 1 and not reduce_iters(writers[0]) else None
    alone = all(b.ident is reader.ident for b in state.readers(scope, made)) and any(b is made for b in scope.alloc_buffers)
    if stage is not None and alone and isinstance(stage.body, BufferStore) and _element(stage.body.value) is not None:
        return stage, None
    return start_and_sum(state, scope, reader, made)


def _element(value: Expr) -> BufferLoad | None:
    """The element that a value is made of by shifts to the right and clips alone; None where it is made otherwise."""
    if isinstance(value, BinOp) and value.op in ("min", "max") and int_value(value.b) is not None:
        return _element(value.a)
    if isinstance(value, Call) and value.op == "shift_right":
        by = int_value(value.args[1])
        return _element(value.args[0]) if by is not None and 0 <= by < bits(NUMBER) else None
    return value if isinstance(value, BufferLoad) and value.dtype == NUMBER else None


def _shifted(value: Expr) -> int:
    """By how many positions such a value shifts its element."""
    if isinstance(value, BinOp):
        return _shifted(value.a)
    return _shifted(value.args[0]) + (int_value(value.args[1]) or 0) if isinstance(value, Call) else 0


def _moved(value: Expr, by: int) -> Expr:
    """The same value with so much added to it: what clips it moves by as much, and what it shifts by more."""
    if isinstance(value, BinOp):
        return replace(value, a=_moved(value.a, by), b=const((int_value(value.b) or 0) + by, NUMBER))
    if isinstance(value, Call):
        return replace(value, args=(_moved(value.args[0], by << (int_value(value.args[1]) or 0)), value.args[1]))
    return value


def _bounds(value: Expr) -> Iterator[int]:
    """The constants that such a value is clipped by."""
    if isinstance(value, BinOp):
        yield int_value(value.b) or 0
    if isinstance(value, BinOp | Call):
        yield from _bounds(value.a if isinstance(value, BinOp) else value.args[0])


def _ends(value: Expr, own: Interval) -> Interval:
    """Between what such a value lies, from that of its element."""
    if isinstance(value, BinOp):
        bound, pick = int_value(value.b) or 0, max if value.op == "max" else min
        low, high = _ends(value.a, own)
        return pick(low, bound), pick(high, bound)
    if isinstance(value, Call):
        low, high = _ends(value.args[0], own)
        return low >> (int_value(value.args[1]) or 0), high >> (int_value(value.args[1]) or 0)
    return own


def _chosen(block: Block, sums: list[_Sum], start: int) -> int:
    """The multiple of 256 that brings a start beyond all that a clip leaves: the least that does, up or down."""
    low, high = _ends(sums[0].value, dtype_bounds(NUMBER))
    first, shift = sums[-1].first, sums[-1].shift
    what = f"{opening_of(first).buffer.name} starts with {start}"
    if start == 0:
        raise Refusal(f"{what}, which a reset alone does", [first.ident], code="form")
    if start >= high or start <= low:
        raise Refusal(f"{what}, which is beyond all from {low} to {high} as it is", [first.ident, block.ident], code="form")
    faster = STEP * ((1 << shift) - 1)  # of a multiple the start moves by more than the clip
    ways = (-((start - high) // faster), (low - start) // faster) if faster else ()
    for n in sorted(ways, key=abs):
        by = n * STEP
        clips = (x for total in sums for x in _bounds(_moved(total.value, by << total.ahead)))
        if all(IMMEDIATE[0] <= x <= IMMEDIATE[1] for x in (start + (by << shift), *clips)):
            return by
    raise Refusal(f"{what}, and no multiple of {STEP << shift} brings it beyond a clip from {low} to {high} with constants from "
                  f"{IMMEDIATE[0]} to {IMMEDIATE[1]}", [first.ident, block.ident], code="range")


def _check_sums(bounds: ValueBounds, sums: list[_Sum], start: int, by: int) -> None:
    """Refuses unless no partial sum overflows, where start and clips are moved by so much."""
    least, most = dtype_bounds(NUMBER)
    first = start + (by << sums[-1].shift)
    now = first, first
    for total in reversed(sums):
        low, high = (0, 0) if total.update is None else partial_sums(bounds, total.update)
        now = now[0] + low, now[1] + high
        if total.update is not None and (now[0] < least or now[1] > most):
            raise Refusal(
                f"a partial sum may be between {now[0]} and {now[1]}, which {NUMBER} does not hold", [total.update.ident],
                'declare narrower ranges: T.func_attr({"autosched.value_ranges": {"A": [-64, 64]}})', code="range",
            )
        now = _ends(_moved(total.value, by << total.ahead), now)


__all__ = ["ClipOffsets"]
