"""Tensors that are written again: separate_update gives what stands there before a tensor of its own."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BufferLoad, Var, int_value
from autosched.ir.functor import replace_buffers, walk_expr
from autosched.ir.patterns import loads_from
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Ident, Stmt
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import require_once, top_of
from autosched.schedule.primitives.reductions.zero_terms import Replaced


class Versions(ScheduleBase):
    """The primitive that gives every version of a tensor a tensor of its own."""

    @primitive
    def separate_update(self, block: BlockRV | str) -> None:
        """Lets a block that updates a tensor in place make one of another one, which the blocks before it then fill.

        What it adds up to what is there becomes a sum that starts with it.

        Args:
            block: handle or name of a block without init, alone in its loops, that writes every element of a tensor anew, and
                reads of it the element that it writes; other blocks have written it before, and nobody gave it to the program.

        Raises:
            ScheduleError: it reads other elements, does not write all of them, or nobody has written them before.

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
    before = [b for b in order[:at] if any(r.buffer is buffer for r in (*b.reads, *b.writes))]
    if not before or all(w.buffer is not buffer for w in before[0].writes) or _reads_before(before[0], buffer):
        raise Refusal(f"nobody writes {buffer.name} before block {block.name}", [block.ident], code="writer")
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
    assert isinstance(store, BufferStore)
    return block.init is None and loads_from(store.value, buffer)


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
