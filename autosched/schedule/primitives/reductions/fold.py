"""Adding before a shift instead of after it, in the initial value of the sum that is shifted: fold_epilogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, Var, as_expr, int_value, intrin
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.patterns import loads_from
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Stmt
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import names, reduce_iters, scope_of
from autosched.schedule.analysis.pipeline import uncovered
from autosched.schedule.analysis.ways import before_nesting, readers
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.zero_terms import Replaced, sum_term


class Folding(ScheduleBase):
    """The primitive that folds an addend of the epilogue into the reduction."""

    @primitive
    def fold_epilogue(self, block: BlockRV | str) -> None:
        """Moves what is added after a shift in front of it, into the initial value of the sum that is shifted.

        ``(sum >> s) + b`` equals ``(sum + (b << s)) >> s`` as long as nothing overflows, and adding ``b << s`` to the sum
        costs nothing when the sum starts with it. Also without a shift (``sum + b``), where wrapping around changes nothing.
        A sum that goes on from another one, as it is, hands the addend on to where that one starts; its init is inside.

        Args:
            block: handle or name of the block that shifts and adds; the reduction that it reads, with its init inside or
                in a block of its own, is found through the buffer.

        Raises:
            ScheduleError: no such sum, shift or addend; the sum is an output or has other readers; something is shifted, and
                the declared value ranges (``PrimFunc.value_ranges``; a type's range where nothing is declared) do not prove
                that no partial sum overflows; the addend is not available where the sum starts.

        Before::

            C = T.sblock_alloc_buffer((16,), "int32")
            R = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
            for i in range(16):
                with T.sblock("R"):
                    vi = T.axis.spatial(16, i)
                    R[vi] = T.min(T.max(T.shift_right(C[vi], 8) + b[vi], 0), 127)
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = T.Cast("int8", R[vi])

        After ``sch.fold_epilogue("R")``::

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
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _fold(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


@dataclass(frozen=True)
class _Epilogue:
    """``(load >> shift) + addend`` inside the value of a block.

    Args:
        whole: that expression.
        load: the sum.
        shift: positions, 0 where nothing is shifted.
        kept: what remains, ``load >> shift``.
        addend: what is added.
    """

    whole: Expr
    load: BufferLoad
    shift: int
    kept: Expr
    addend: Expr


def _fold(state: State, realize: BlockRealize) -> Stmt:
    block = realize.block
    scope = scope_of(state, block)
    store = block.body
    if block.init is not None:
        raise Refusal(f"block {block.name} is itself a reduction; the block that adds comes after it", [block.ident],
                      hint=readers(state, block), code="reduction")
    if not isinstance(store, BufferStore):
        raise Refusal(f"the body of block {block.name} is not one store", [block.ident],
                      hint=before_nesting(state, block, "fold_epilogue"), code="form")
    found = _pattern(state, scope, block, store.value)
    first, updates, addend = _beginning(state, scope, block, found)
    _no_overflow(state, scope, block, found, first, updates)
    start = opening_of(first)
    shifted = addend if found.shift == 0 else intrin("shift_left", addend, as_expr(found.shift, start.buffer.dtype))
    opening = BufferStore(start.buffer, start.indices, start.value + shifted)
    rest = Replaced(found.whole, found.kept).visit_expr(store.value)
    new_block = replace(block, body=BufferStore(store.buffer, store.indices, rest))
    table: dict[int, Stmt | None] = {id(first): with_opening(first, opening), id(block): with_access(new_block)}
    body = state.rewrite(table)
    _available(state.with_body(body), first, addend, block)
    return body


def _pattern(state: State, scope: Block, block: Block, value: Expr) -> _Epilogue:
    """The one sum in a block's value that is shifted and added to."""
    for node in walk_expr(value):
        if not isinstance(node, BinOp) or node.op != "+":
            continue
        for kept, addend in ((node.a, node.b), (node.b, node.a)):
            load, shift = kept, 0
            if isinstance(kept, Call) and kept.op == "shift_right":
                by = int_value(kept.args[1])
                if by is None or by < 0:
                    continue
                load, shift = kept.args[0], by
            if not isinstance(load, BufferLoad) or not load.dtype.startswith("int"):
                continue
            if loads_from(addend, load.buffer):
                continue
            if not is_sum(state, scope, load.buffer):
                continue
            rest = Replaced(node, kept).visit_expr(value)
            loads = [e for e in walk_expr(rest) if isinstance(e, BufferLoad) and e.buffer is load.buffer]
            if len(loads) > 1:
                raise Refusal(
                    f"block {block.name} uses {load.buffer.name} {len(loads)} times; the others would see the addend",
                    [block.ident], code="reader",
                )
            return _Epilogue(node, load, shift, kept, addend)
    raise Refusal(
        f"block {block.name} adds nothing to a sum of integers, shifted or not: (sum >> s) + addend", [block.ident],
        "inline the stages between the reduction and the addition first", code="form",
    )


def is_sum(state: State, scope: Block, buffer: Buffer) -> bool:
    """Whether a reduction makes what a buffer of a scope holds."""
    return any(reduce_iters(b) for b in state.writers(scope, buffer) if any(r.buffer is buffer for r in b.writes))


def _beginning(state: State, scope: Block, block: Block, found: _Epilogue) -> tuple[Block, list[Block], Expr]:
    """Where the sum starts, through sums that go on from one another.

    Returns:
        The block with the initial value of the first of them, the blocks that add, the last one first, and the addend in terms
        of the iterators of the former.
    """
    addend, reader, load = found.addend, block, found.load
    updates: list[Block] = []
    while True:
        first, update = _reduction(state, scope, reader, load.buffer)
        for adding in [update, *updates[-1:]]:
            if loads_from(sum_term(adding)[1], load.buffer):
                raise Refusal(f"what block {adding.name} adds up reads {load.buffer.name}, which would be another one",
                              [adding.ident], code="reader")
        addend = substitute(addend, _coordinates(reader, load, addend, first))
        updates.append(update)
        before = opening_of(first).value
        if first.init is None or not isinstance(before, BufferLoad) or not is_sum(state, scope, before.buffer):
            return first, updates, addend
        reader, load = first, before


def _reduction(state: State, scope: Block, reader: Block, total: Buffer) -> tuple[Block, Block]:
    """The block that holds the initial value, and the one that adds; they may be the same."""
    if all(b is not total for b in scope.alloc_buffers):
        raise Refusal(f"{total.name} is not allocated in {scope.name}: others may read it", [reader.ident], code="output")
    writers = state.writers(scope, total)
    others = [
        b for b in state.readers(scope, total) if b.ident is not reader.ident and all(b is not w for w in writers)
    ]
    if others:
        raise Refusal(f"{total.name} is also read by {names(others)}", [b.ident for b in others], code="reader")
    marks = [w.ident for w in writers]
    updates = [w for w in writers if reduce_iters(w)]
    starts = [w for w in writers if not reduce_iters(w)]
    if len(updates) != 1 or len(starts) > 1:
        raise Refusal(f"{total.name} is written by {names(writers)}: not one reduction", marks, code="writer")
    update = updates[0]
    sum_term(update)
    if update.init is not None and not starts:
        if isinstance(update.init, BufferStore):
            return update, update
        raise Refusal(f"the init of block {update.name} is not one store", marks, code="reduction")
    if update.init is None and starts and isinstance(starts[0].body, BufferStore) and not loads_from(starts[0].body.value, total):
        return starts[0], update
    raise Refusal(f"the initial value of {total.name} is not one store", marks, code="reduction")


def opening_of(first: Block) -> BufferStore:
    """The store of an initial value.

    Args:
        first: the block that holds it: of a sum, or one in front of it.
    """
    start = first.body if first.init is None else first.init
    assert isinstance(start, BufferStore)
    return start


def with_opening(first: Block, opening: BufferStore) -> Block:
    """The block with another initial value.

    Args:
        first: as for ``opening_of``.
        opening: the store of the other value.
    """
    return with_access(replace(first, body=opening) if first.init is None else replace(first, init=opening))


def _coordinates(block: Block, load: BufferLoad, addend: Expr, first: Block) -> Mapping[Var, Expr]:
    """The iterators of a block that reads a sum in terms of those of the block that holds the sum's initial value."""
    at: dict[Var, Expr] = {}
    for index, target in zip(load.indices, opening_of(first).indices):
        if isinstance(index, Var) and index not in at:
            at[index] = target
        elif not (int_value(index) is not None and index == target):
            raise Refusal(f"block {block.name} does not read {load.buffer.name} at its plain iterators", [block.ident],
                          code="index")
    domains, starting = ({iv.var: iv.dom for iv in b.iter_vars} for b in (block, first))
    for var in free_vars(addend):
        if var not in domains:
            continue
        place = at.get(var)
        if place is None:
            if int_value(domains[var].extent) != 1:
                raise Refusal(f"the addend depends on {var.name}, and {load.buffer.name} does not", [block.ident],
                              code="index")
            at[var] = domains[var].min
        elif int_value(place) is None:
            if not isinstance(place, Var) or starting.get(place) != domains[var]:
                raise Refusal(f"block {first.name} starts more of {load.buffer.name} than {block.name} reads, along {var.name}: "
                              "there need not be an addend for it", [block.ident, first.ident], code="index")
    return at


def _no_overflow(
    state: State, scope: Block, block: Block, found: _Epilogue, first: Block, updates: list[Block]
) -> None:
    """Refuses unless every partial sum, with and without the addend, fits the type, or nothing is shifted: sums wrap around."""
    bounds = ValueBounds(state.func)
    total = found.load.buffer
    ranges = [_terms(bounds, update) for update in updates]
    loads = [e.buffer for e in walk_expr(opening_of(first).value) if isinstance(e, BufferLoad)]
    from_sums = [b.name for b in loads if is_sum(state, scope, b)]
    if from_sums:
        raise Refusal(f"the initial value of {total.name} is computed from the sum {from_sums[0]}", [first.ident],
                      code="reduction")
    if not found.shift:
        return
    base = bounds.of(opening_of(first).value, {iv.var: iv.dom for iv in first.iter_vars})
    b_low, b_high = bounds.of(found.addend, {iv.var: iv.dom for iv in block.iter_vars})
    least, most = dtype_bounds(total.dtype)
    lows, highs = zip(*(_sums(*own) for own in ranges))
    sums = base[0] + sum(lows), base[1] + sum(highs)
    low, high, terms = min(low for low, _, _ in ranges), max(high for _, high, _ in ranges), sum(n for _, _, n in ranges)
    shifted = b_low << found.shift, b_high << found.shift
    for what, (bottom, top) in (
        (f"the addend shifted by {found.shift}", shifted), (f"a partial sum of {terms} terms", sums),
        ("a partial sum that starts with the addend",
         (sums[0] + min(shifted[0], 0), sums[1] + max(shifted[1], 0))),
    ):
        if bottom < least or top > most:
            raise Refusal(
                f"{what} may be between {bottom} and {top}, which {total.dtype} does not hold: each term is between {low} "
                f"and {high}, the addend between {b_low} and {b_high}", [*(u.ident for u in updates), block.ident],
                'declare narrower ranges: T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})', code="range",
            )


def _terms(bounds: ValueBounds, update: Block) -> tuple[int, int, int]:
    """The lowest and highest term that a reduction adds, and how many it adds."""
    low, high = bounds.of(sum_term(update)[1], {iv.var: iv.dom for iv in update.iter_vars})
    extents = [int_value(iv.dom.extent) for iv in reduce_iters(update)]
    if any(e is None for e in extents):
        raise Refusal(f"the number of terms of block {update.name} is symbolic", [update.ident], code="symbolic")
    return low, high, prod(e for e in extents if e is not None)


def partial_sums(bounds: ValueBounds, update: Block) -> tuple[int, int]:
    """Between what all partial sums of a reduction are, starting at 0.

    Args:
        bounds: of the program.
        update: the block that adds.

    Raises:
        Refusal: the number of terms is symbolic.
    """
    return _sums(*_terms(bounds, update))


def _sums(low: int, high: int, terms: int) -> tuple[int, int]:
    """Between what all sums of some of so many terms are."""
    return min(terms * low, 0), max(terms * high, 0)


def _available(state: State, first: Block, addend: Expr, block: Block) -> None:
    """Refuses where a buffer of the addend is not ready when the sum starts."""
    fresh = state.block(first.ident)
    scope = scope_of(state, fresh)
    # What a loop around the first sum alone fills anew for every iteration is another one where the block adds.
    above, behind = ({loop.var for loop in state.loops_above(state.realizes[b.ident])} for b in (first, block))
    for buffer in dict.fromkeys(e.buffer for e in walk_expr(addend) if isinstance(e, BufferLoad)):
        writers = [w.ident for w in state.writers(scope, buffer)]
        if not writers:
            continue
        again = [w for w in writers if any(loop.var in above - behind for loop in state.loops_above(state.realizes[w]))]
        if again:
            filled = f"{names([state.block(w) for w in again])} fills {buffer.name} anew"
            raise Refusal(f"{filled} between the sum and block {block.name}", [block.ident, *again], code="order")
        order = [b.ident for b in state.children_of(scope)]
        late = [w for w in writers if order.index(w) > order.index(first.ident)]
        reason = f"{names([state.block(w) for w in late])} runs later" if late else uncovered(
            state, scope, first.ident, writers
        )
        if reason is not None:
            raise Refusal(f"the addend's {buffer.name} is not ready where the sum starts: {reason}", [block.ident, *writers],
                          "fold_epilogue before the caches are placed", code="order")
