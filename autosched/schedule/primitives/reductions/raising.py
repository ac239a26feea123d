"""A clip and its addend moved up by what narrowing drops, so that a MAX can start the sum: raise_epilogue."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, const, int_value, intrin
from autosched.ir.functor import all_exprs, free_vars, substitute, walk_expr
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Ident, IterVar, Range, SeqStmt, Stmt
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import is_output, names, reduce_iters, scope_of
from autosched.schedule.analysis.pipeline import uncovered
from autosched.schedule.analysis.ways import before_nesting, readers
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.fold import opening_of, partial_sums, with_opening
from autosched.schedule.primitives.reductions.zero_terms import Replaced

NARROW = "int8"
STEP = 1 << 8
MOST = (1 << 15) - 1
"""The largest immediate of an instruction: a clip's bounds stay below it."""


class Raising(ScheduleBase):
    """The primitive that raises an epilogue."""

    @primitive
    def raise_epilogue(self, block: BlockRV | str) -> BlockRV:
        """Raises a clip, and the addend that its sum starts with, by a multiple of 256 that the narrowing behind drops.

        The sum then starts above all that the clip left in its place before, so that a machine without moves may start it
        by a MAX. What it starts with becomes a stage of its own, computed once for each distinct element.

        Args:
            block: handle or name of the block that clips a sum, shifted or not, which ``fold_epilogue`` lets start with
                its addend; only conversions to int8 read the result.

        Returns:
            the block that makes what the sum starts with.

        Raises:
            ScheduleError: no such clip, sum or start; somebody reads more than the low 8 bits; the declared value ranges do
                not prove that every start exceeds every result, or that no partial sum overflows.

        Before::

            C = T.sblock_alloc_buffer((16,), "int32")
            R = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.shift_left(b[vi], 8)
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(C[vi], 8), 0), 127)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.Cast("int8", R[vi])

        After ``sch.raise_epilogue("R")``::

            C = T.sblock_alloc_buffer((16,), "int32")
            R = T.sblock_alloc_buffer((16,), "int32")
            b_raised = T.sblock_alloc_buffer((16,), "int32")
            for ax0 in range(16):
                with T.sblock("b_raised"):
                    vi = T.axis.spatial(16, ax0)
                    b_raised[vi] = T.shift_left(b[vi] + 32512, 8)
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = b_raised[vi]
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(C[vi], 8), 32512), 32639)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.Cast("int8", R[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _raise(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


@dataclass(frozen=True)
class _Clip:
    """``min(max(load >> shift, low), high)`` inside a block's value.

    Args:
        whole: that expression.
        inner: ``load >> shift``.
        load: the sum.
        shift: positions.
        low: lower bound.
        high: upper bound.
    """

    whole: Expr
    inner: Expr
    load: BufferLoad
    shift: int
    low: int
    high: int


def _raise(state: State, realize: BlockRealize) -> tuple[Stmt, Ident]:
    block = realize.block
    scope, store = scope_of(state, block), clipping_store(state, block, "raise_epilogue")
    clip = _clip(block, store.value)
    check_narrowed(state, scope, block, clip.whole, clip.load.buffer)
    first, update = start_and_sum(state, scope, block, clip.load.buffer)
    start = opening_of(first)
    addend = _addend(first, start, clip)
    by = (MOST - clip.high) // STEP * STEP
    if by <= 0 or clip.low + by < -MOST:
        raise Refusal(f"the clip from {clip.low} to {clip.high} leaves no room below {MOST}", [block.ident], code="range")
    _proven(state, block, first, update, clip, addend, by)
    stage, nest, place = _stage(first, start, addend, clip, by)
    dtype = clip.whole.dtype
    raised = BinOp("min", BinOp("max", clip.inner, const(clip.low + by, dtype), dtype), const(clip.high + by, dtype), dtype)
    new_block = replace(block, body=replace(store, value=Replaced(clip.whole, raised).visit_expr(store.value)))
    table: dict[int, Stmt | None] = {
        id(first): with_opening(first, replace(start, value=place)), id(block): with_access(new_block)}
    made = stage.writes[0].buffer
    outer = scope.body.stmts if isinstance(scope.body, SeqStmt) else (scope.body,)
    at = next(k for k, s in enumerate(outer) if s is _top(state, scope, first))
    body = state.rewrite(table, {id(scope): (*scope.alloc_buffers, made)}, {id(scope): (at, nest)})
    _available(state.with_body(body), stage, block)
    return body, stage.ident


def clipping_store(state: State, block: Block, primitive: str) -> BufferStore:
    """The one store of a block that clips.

    Args:
        state: the program.
        block: it.
        primitive: who asks, for what to do instead.

    Raises:
        Refusal: it is a reduction, or has another body.
    """
    store = block.body
    if block.init is not None or not isinstance(store, BufferStore):
        raise Refusal(f"the body of block {block.name} is not one store of a clip", [block.ident],
                      hint=readers(state, block) if block.init is not None else before_nesting(state, block, primitive),
                      code="form")
    return store


def _top(state: State, scope: Block, block: Block) -> Stmt:
    """The statement of a scope's body that a block is in."""
    node: Stmt = state.realizes[block.ident]
    for up in state.ancestors(node):
        if up is scope or (isinstance(up, SeqStmt) and up is scope.body):
            break
        node = up
    return node


def _clip(block: Block, value: Expr) -> _Clip:
    for node in walk_expr(value):
        if not (isinstance(node, BinOp) and node.op in ("min", "max") and isinstance(node.a, BinOp)):
            continue
        inner = node.a
        if {node.op, inner.op} != {"min", "max"}:
            continue
        bounds = {x.op: int_value(x.b) for x in (node, inner)}
        low, high = bounds["max"], bounds["min"]
        load, shift = inner.a, 0
        if isinstance(load, Call) and load.op == "shift_right":
            shift = int_value(load.args[1]) or 0
            load = load.args[0]
        if low is None or high is None or low > high or not isinstance(load, BufferLoad) or load.dtype != "int32":
            continue
        return _Clip(node, inner.a, load, shift, low, high)
    raise Refusal(
        f"block {block.name} clips no sum: min(max(sum >> s, low), high) with constant bounds", [block.ident],
        "fold_epilogue moves an addend away from between the shift and the clip", code="form",
    )


def check_narrowed(state: State, scope: Block, block: Block, clip: Expr, total: Buffer) -> None:
    """Refuses unless only the low bits of a clip count.

    Args:
        state: the program.
        scope: the block around.
        block: the one that stores the clip.
        clip: what it clips, all of it.
        total: the sum that is clipped, which nothing else of the block may read.
    """
    store = block.body
    assert isinstance(store, BufferStore)
    loads = [e for e in walk_expr(store.value) if isinstance(e, BufferLoad) and e.buffer is total]
    if len(loads) > 1:
        raise Refusal(f"block {block.name} uses {total.name} {len(loads)} times", [block.ident], code="reader")
    if store.value == Cast(NARROW, clip):
        return
    if store.value != clip:
        raise Refusal(f"block {block.name} computes with the clip; only a conversion to {NARROW} drops what is added",
                      [block.ident], "the clip has to be the last operation before the conversion", code="form")
    target = store.buffer
    if is_output(block, scope):
        raise Refusal(f"block {block.name} writes {target.name}, which is an output: its {target.dtype} values would change",
                      [block.ident], f"store {NARROW} results", code="output")
    for reader in state.readers(scope, target):
        plain = dropped = 0
        for e in all_exprs(reader.body):
            plain += isinstance(e, BufferLoad) and e.buffer is target
            dropped += isinstance(e, Cast) and e.dtype == NARROW and isinstance(e.value, BufferLoad) and e.value.buffer is target
        if plain != dropped:
            raise Refusal(f"{reader.name} reads more of {target.name} than its low 8 bits", [reader.ident],
                          f"every reader must convert to {NARROW} at once", code="reader")


def start_and_sum(state: State, scope: Block, reader: Block, total: Buffer) -> tuple[Block, Block]:
    """The block that starts a sum, and the one that adds to it; they may be the same.

    Args:
        state: the program.
        scope: the block around.
        reader: the only other block that may read the sum.
        total: the sum.
    """
    writers = state.writers(scope, total)
    marks = [w.ident for w in writers]
    others = [b for b in state.readers(scope, total) if b.ident is not reader.ident and all(b is not w for w in writers)]
    if others or all(b is not total for b in scope.alloc_buffers):
        raise Refusal(f"{total.name} is also read by {names(others)}" if others else f"{total.name} is read by the caller",
                      [b.ident for b in others] or [reader.ident], code="output")
    updates = [w for w in writers if reduce_iters(w)]
    starts = [w for w in writers if not reduce_iters(w)]
    if len(updates) == 1 and not starts and isinstance(updates[0].init, BufferStore):
        return updates[0], updates[0]
    if len(updates) == 1 and len(starts) == 1 and updates[0].init is None and isinstance(starts[0].body, BufferStore):
        return starts[0], updates[0]
    raise Refusal(f"{total.name} is written by {names(writers)}: not one sum and its start" if writers else
                  f"nothing writes {total.name}", marks or [reader.ident], code="writer")


def _addend(first: Block, start: BufferStore, clip: _Clip) -> Expr:
    """What the sum starts with, before it is shifted."""
    value = start.value
    if clip.shift and isinstance(value, Call) and value.op == "shift_left" and int_value(value.args[1]) == clip.shift:
        return value.args[0]
    if clip.shift == 0 and not isinstance(value, IntImm):
        return value
    raise Refusal(
        f"{start.buffer.name} does not start with an addend shifted left by {clip.shift}", [first.ident],
        "fold_epilogue puts it there", code="form",
    )


def _proven(
    state: State, block: Block, first: Block, update: Block, clip: _Clip, addend: Expr, by: int
) -> None:
    bounds = ValueBounds(state.func)
    low, high = bounds.of(addend, {iv.var: iv.dom for iv in first.iter_vars})
    least, most = dtype_bounds(clip.load.dtype)
    starts = (low + by) << clip.shift, (high + by) << clip.shift
    hint = 'declare narrower ranges: T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})'
    if starts[0] <= clip.high + by:
        raise Refusal(
            f"the sum may start with {starts[0]}, which does not exceed {clip.high + by}, the largest result: the addend is "
            f"between {low} and {high}", [first.ident, block.ident], hint, code="range",
        )
    sums = partial_sums(bounds, update)
    # As it was, too: what wraps around there would not from higher up.
    whole = (low << clip.shift) + sums[0], starts[1] + sums[1]
    if whole[0] < least or whole[1] > most:
        raise Refusal(
            f"a partial sum may be between {whole[0]} and {whole[1]}, which {clip.load.dtype} does not hold",
            [update.ident, block.ident], hint, code="range",
        )


def _stage(first: Block, start: BufferStore, addend: Expr, clip: _Clip, by: int) -> tuple[Block, Stmt, BufferLoad]:
    """The block that makes what the sum starts with, its nest, and how the sum's start reads it."""
    used = [iv for iv in first.iter_vars if iv.var in free_vars(addend)]
    own = [Var(iv.var.name, iv.var.dtype) for iv in used]
    table: dict[Var, Expr] = {iv.var: v for iv, v in zip(used, own)}
    dtype = clip.load.dtype
    ends = [iv.dom.min + iv.dom.extent for iv in used]
    source = next((e.buffer.name for e in walk_expr(addend) if isinstance(e, BufferLoad)), start.buffer.name)
    made = Buffer(f"{source}_raised", tuple(ends) or (const(1, "int32"),), dtype)
    value: Expr = substitute(addend, table) + const(by, dtype)
    if clip.shift:
        value = intrin("shift_left", value, const(clip.shift, dtype))
    place: tuple[Expr, ...] = tuple(own) or (const(0, "int32"),)
    body = BufferStore(made, place, value)
    iters = tuple([IterVar(v, Range(const(0, v.dtype), end), "spatial") for v, end in zip(own, ends)])
    stage = with_access(Block(made.name, iters, (), (), body))
    read: tuple[Expr, ...] = tuple([iv.var for iv in used]) or (const(0, "int32"),)
    return stage, own_nest(stage, "ax"), BufferLoad(made, read, dtype)


def _available(state: State, stage: Block, block: Block) -> None:
    """Refuses where what the stage reads is not ready there."""
    scope = scope_of(state, state.block(stage.ident))
    order = [b.ident for b in state.children_of(scope)]
    for buffer in {r.buffer for r in stage.reads}:
        writers = [w.ident for w in state.writers(scope, buffer)]
        late = [w for w in writers if order.index(w) > order.index(stage.ident)]
        reason = f"{names([state.block(w) for w in late])} runs later" if late else (
            uncovered(state, scope, stage.ident, writers) if writers else None
        )
        if reason is not None:
            raise Refusal(f"{buffer.name} is not ready before the sum: {reason}", [block.ident, *writers],
                          "raise_epilogue before the caches are placed", code="order")
