"""Tensors that are written again: what stands there before gets a tensor of its own, or what is set twice is stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.ir.expr import BufferLoad, Call, Expr, Var, binary, const, int_value
from autosched.ir.functor import replace_buffers, substitute, walk_expr
from autosched.ir.patterns import loads_from
from autosched.ir.region import block_access, with_access
from autosched.ir.simplify import linear_form, simplify
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Ident, Stmt
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.outside import require_blocks, upto
from autosched.schedule.analysis.pipeline import uncovered
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of
from autosched.schedule.primitives.reductions.zero_terms import Replaced


class Versions(ScheduleBase):
    """The primitives that make a tensor what is written once."""

    @primitive
    def separate_update(self, block: BlockRV | str) -> None:
        """Lets a block that updates a tensor in place make one of another one, which the blocks before it then fill.

        What it adds up to what is there becomes a sum that starts with it.

        Args:
            block: handle or name of a block without init, alone in its loops, that writes every element of a tensor anew, and
                reads of it the element that it writes; other blocks have written it before, and nobody gave it to the program.

        Raises:
            ScheduleError: it reads other elements, does not write all of them, or nobody has written some of them before.

        Before::

            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(C[vi], 0)

        After ``sch.separate_update("D")``::

            C_before = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    C_before[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(C_before[vi], 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _separated(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)

    @primitive
    def compose_overwrite(self, block: BlockRV | str, over_block: BlockRV | str) -> None:
        """Stores at once what one block sets and a later one sets anew in a part: which of them it is, is chosen by place.

        Args:
            block: handle or name of a block without init, alone in its loops, that sets every element of a tensor.
            over_block: handle or name of a later one that sets a box of it anew, without reading it.

        Raises:
            ScheduleError: not all is set, or no box is set anew; somebody touches the tensor between them, or changes what the
                first one reads.

        Before::

            for i in range(18):
                with T.sblock("P"):
                    vi = T.axis.spatial(18, i)
                    P[vi] = 0
            for i in range(16):
                with T.sblock("inside"):
                    vi = T.axis.spatial(16, i)
                    P[vi + 1] = A[vi]

        After ``sch.compose_overwrite("P", "inside")``::

            for i in range(18):
                with T.sblock("P"):
                    vi = T.axis.spatial(18, i)
                    P[vi] = T.if_then_else(vi >= 1 and vi < 17, A[vi - 1], 0)
        """
        assert isinstance(block, BlockRV) and isinstance(over_block, BlockRV)
        state, first = self.block_at(block)
        other, last = self.block_at(over_block)
        try:
            if other is not state:
                raise Refusal("the blocks belong to different functions", code="handle")
            table = _overwritten(state, first, last)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)


def _overwritten(state: State, first: BlockRealize, last: BlockRealize) -> dict[int, Stmt | None]:
    begin, over = plain_store(first.block, True), plain_store(last.block, True)
    buffer, marks = begin.buffer, [first.block.ident, last.block.ident]
    if over.buffer is not buffer or any(loads_from(s.value, buffer) for s in (begin, over)):
        raise Refusal(f"block {last.block.name} does not set anew what block {first.block.name} sets", marks, code="form")
    if scope_of(state, first.block) is not scope_of(state, last.block):
        raise Refusal("the blocks are in different scopes", marks, code="place")
    _require_all(state, first, begin)
    tops = top_of(state, first), top_of(state, last)
    require_once(state, last)
    order = [b.ident for b in state.children_of(scope_of(state, first.block))]
    at, until = order.index(first.block.ident), order.index(last.block.ident)
    read = {e.buffer for e in walk_expr(begin.value) if isinstance(e, BufferLoad)}
    for between in state.children_of(scope_of(state, first.block))[at + 1 : until]:
        reads, writes = block_access(between)
        if buffer in {r.buffer for r in (*reads, *writes)} or read & {w.buffer for w in writes}:
            raise Refusal(f"block {between.name} touches {buffer.name}, or changes what block {first.block.name} reads",
                          [between.ident], code="order")
    if at > until:
        raise Refusal(f"block {first.block.name} comes after block {last.block.name}", marks, code="order")
    condition, moved = _box(last.block, over, begin)
    value = Call("if_then_else", (condition, substitute(over.value, moved), begin.value), buffer.dtype)
    made = with_access(replace(first.block, body=BufferStore(buffer, begin.indices, value)))
    return {id(tops[0]): None, id(tops[1]): own_nest(made)}


def _box(block: Block, over: BufferStore, begin: BufferStore) -> tuple[Expr, dict[Var, Expr]]:
    """Where an element is in the box that a block sets, and the block's iterators there, in terms of the element's indices."""
    domains = {iv.var: (int_value(iv.dom.min), int_value(iv.dom.extent)) for iv in block.iter_vars}
    conditions: list[Expr] = []
    moved: dict[Var, Expr] = {}
    for index, place, size in zip(over.indices, begin.indices, over.buffer.shape):
        form = linear_form(index)
        at = None if form is None else int_value(form[1])
        if form is None or at is None or list(form[0].values()) not in ([], [1]) or set(form[0]) & set(moved):
            raise Refusal(f"block {block.name} does not set a box of {over.buffer.name}", [block.ident], code="index")
        low, extent = at, 1
        for var in form[0]:
            begins, count = domains.get(var, (None, None))
            if begins is None or count is None:
                raise Refusal(f"an index of block {block.name} is no iterator", [block.ident], code="index")
            low, extent = at + begins, count
            moved[var] = simplify(place - at)
        if int_value(size) == extent:
            continue
        if extent == 1:
            conditions.append(binary("==", place, low))
            continue
        conditions += [binary(">=", place, low)] if low > 0 else []
        conditions += [binary("<", place, low + extent)] if low + extent != int_value(size) else []
    if not conditions:
        raise Refusal(f"block {block.name} sets all of {over.buffer.name} anew", [block.ident], "drop the one before",
                      code="form")
    left = [v for v, (_, n) in domains.items() if v not in moved and n != 1]
    if left:
        raise Refusal(f"block {block.name} sets elements of {over.buffer.name} for every {left[0].name} again", [block.ident],
                      code="index")
    moved.update({v: const(n or 0, v.dtype) for v, (n, _) in domains.items() if v not in moved})
    return reduce(lambda a, b: binary("and", a, b), conditions), moved


def _separated(state: State, realize: BlockRealize) -> Stmt:
    block = realize.block
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None:
        raise Refusal(f"block {block.name} is not one plain store without init", [block.ident], code="form")
    buffer = store.buffer
    own = [e for e in walk_expr(store.value) if isinstance(e, BufferLoad) and e.buffer is buffer]
    if any(e.indices != store.indices for e in own) or any(loads_from(i, buffer) for i in store.indices):
        raise Refusal(f"block {block.name} reads other elements of {buffer.name} than the one that it writes", [block.ident],
                      code="index")
    _require_all(state, realize, store)
    scope = scope_of(state, block)
    top_of(state, realize)
    order = state.children_of(scope)
    at = next(n for n, b in enumerate(order) if b is block)
    before = [b for b in order[:at] if any(buffer in side for side in state.touched(b))]
    hidden = next((b for b in before if all(r.buffer is not buffer for r in (*b.reads, *b.writes))), None)
    if hidden is not None:
        raise Refusal(f"block {hidden.name} does not declare what it does to {buffer.name}", [hidden.ident],
                      "separate_update before loop_partition", code="writer")
    if not before or all(w.buffer is not buffer for w in before[0].writes) or _reads_before(before[0], buffer):
        raise Refusal(f"nobody writes {buffer.name} before block {block.name}", [block.ident], code="writer")
    if not state.trusted:
        # What stands before the update names the tensor as it was before.
        require_blocks(state, scope, (), (buffer,), upto(state, scope, 0, realize))
        if buffer not in scope.alloc_buffers:
            _all_made_here(state, scope, buffer, [*before, block])
    name = fresh_name(f"{buffer.name}_before", state.buffer_names(scope))
    other = replace(buffer, name=name, ident=Ident())
    table: dict[int, Stmt | None] = {}
    for b in before:
        table[id(state.realizes[b.ident])] = replace_buffers(state.realizes[b.ident], {buffer: other})
    start = BufferLoad(other, store.indices, other.dtype)
    if any(iv.kind == "reduce" for iv in block.iter_vars):
        changed = replace(block, init=replace(store, value=start))
    else:
        value = Replaced(own[0], start).visit_expr(store.value) if own else store.value
        changed = replace(block, body=replace(store, value=value))
    table[id(realize)] = replace(realize, block=with_access(changed))
    return state.rewrite(table, {id(scope): (*scope.alloc_buffers, other)})


def _reads_before(block: Block, buffer: Buffer) -> bool:
    """Whether a block reads what a tensor holds before the block runs."""
    store = block.body
    if not isinstance(store, BufferStore):
        return any(r.buffer is buffer for r in block.reads)
    return block.init is None and loads_from(store.value, buffer)


def _all_made_here(state: State, scope: Block, buffer: Buffer, blocks: Sequence[Block]) -> None:
    """Refuses blocks that read elements of a tensor which none of those before them writes: they were there all the time."""
    for n, block in enumerate(blocks):
        writers = [b.ident for b in blocks[:n] if buffer in state.touched(b)[1]]
        reason = uncovered(state, scope, block.ident, writers) if n else None
        if reason is not None:
            raise Refusal(reason, [block.ident], code="domain")


def _require_all(state: State, realize: BlockRealize, store: BufferStore) -> None:
    """Refuses a block that does not write every element of its tensor, each in one run of its spatial iterators."""
    block = realize.block
    require_once(state, realize)
    spatial = {iv.var: (int_value(iv.dom.min), int_value(iv.dom.extent)) for iv in block.iter_vars if iv.kind == "spatial"}
    used = [i for i in store.indices if isinstance(i, Var)]
    whole = all(
        spatial.get(i) == (0, int_value(size)) if isinstance(i, Var) else int_value(i) == 0 and int_value(size) == 1
        for i, size in zip(store.indices, store.buffer.shape)
    )
    alone = {v for v, (_, n) in spatial.items() if n != 1} <= set(used) and len(set(used)) == len(used)
    if not whole or not alone:
        raise Refusal(f"block {block.name} does not write every element of {store.buffer.name}, each once", [block.ident],
                      code="domain")
