"""A copy of a block for every place that its consumer reads: recompute_at_reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import Mutator, free_vars, substitute, walk_expr
from autosched.ir.patterns import has_loads
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, Ident, IterVar, Stmt, seq
from autosched.ir.value_bounds import Interval
from autosched.schedule.analysis.dependence import is_output, not_complete_or_reduction, require_pipeline, scope_of
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.limits import bounds
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_stores, run_once, top_of

MOST_PLACES = 64  # that one block reads


class Places(ScheduleBase):
    """Making what is read, place by place."""

    @primitive
    def recompute_at_reads(self, block: BlockRV | str) -> list[BlockRV]:
        """Gives every place that the only consumer of a block reads a copy of the block that makes just that.

        Every copy has an element for each iteration of the consumer, which then reads all of them at its own iterators.

        Args:
            block: handle or name of a complete or reduction block that stores one intermediate buffer at its plain iterators, in
                loops of its own that run each combination once.

        Returns:
            One block per place, in the order in which the consumer's value names them; they stand where the block stood.

        Raises:
            ScheduleError: another form; several consumers, one that sums up, or one that reads where the block may not write.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(8):
                with T.sblock("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = T.max(B[vi * 2], B[vi * 2 + 1])

        After ``sch.recompute_at_reads("B")``::

            B_0 = T.sblock_alloc_buffer((8,), "int32")
            B_1 = T.sblock_alloc_buffer((8,), "int32")
            for i in range(8):
                with T.sblock("B_0"):
                    vi = T.axis.spatial(8, i)
                    B_0[vi] = A[vi * 2] * 2
            for i in range(8):
                with T.sblock("B_1"):
                    vi = T.axis.spatial(8, i)
                    B_1[vi] = A[vi * 2 + 1] * 2
            for i in range(8):
                with T.sblock("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = T.max(B_0[vi], B_1[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, copies = _by_place(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in copies]


def _by_place(state: State, realize: BlockRealize) -> tuple[Stmt, list[Ident]]:
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    reason = not_complete_or_reduction(state, block, scope)
    if reason is not None:
        raise Refusal(reason, [block.ident], hint=for_complete(state, block, "recompute_at_reads"), code="form")
    if is_output(block, scope):
        raise Refusal(f"block {block.name} is an output block: the caller reads all of it", [block.ident], code="output")
    store, first = plain_stores(block)
    stored = {iv.var for iv in block.iter_vars if iv.kind == "spatial"}
    # At a dimension of one index there may stand anything that is it.
    at = {d: i for d, i in enumerate(store.indices) if isinstance(i, Var) and i in stored}
    if len(set(at.values())) != len(at) or any(int_value(i) is None for d, i in enumerate(store.indices) if d not in at) or any(
            iv.var not in at.values() and int_value(iv.dom.extent) != 1 for iv in block.iter_vars if iv.kind == "spatial"):
        raise Refusal(f"block {block.name} does not store at its plain iterators, each once", [block.ident], code="index")
    init = store.value if first is None else first.value
    if not {*free_vars(store.value), *free_vars(init)} <= {iv.var for iv in block.iter_vars}:
        raise Refusal(f"block {block.name} depends on more than its iterators", [block.ident], code="place")
    top = top_of(state, realize)
    runs = run_once(state, realize)
    if realize.predicate != TRUE:
        raise Refusal(f"block {block.name} runs for a part of its iterations only", [block.ident], code="domain")
    consumers = state.consumers(block)
    if len(consumers) != 1:
        raise Refusal(f"block {block.name} has {len(consumers)} consumers, and the copies are for one", [block.ident],
                      f'sch.recompute_at_consumers("{block.name}") gives each a block of its own' if consumers else "",
                      code="reader")
    consumer = consumers[0]
    places = _places(block, consumer, store, {d: runs[v] for d, v in at.items()})
    taken, used = set(state.block_names()), state.buffer_names(scope)
    table: dict[tuple[Expr, ...], BufferLoad] = {}
    copies: list[Block] = []
    here = tuple([iv.var for iv in consumer.iter_vars])
    shape = tuple([iv.dom.extent for iv in consumer.iter_vars])
    for n, indices in enumerate(places):
        made = Buffer(fresh_name(f"{store.buffer.name}_{n}", used), shape, store.buffer.dtype)
        name = fresh_name(f"{block.name}_{n}", taken)
        copies.append(_copy(block, consumer, made, {v: indices[d] for d, v in at.items()}, name))
        taken.add(name)
        used.add(made.name)
        table[indices] = BufferLoad(made, here, made.dtype)
    assert isinstance(consumer.body, BufferStore)
    value = _Loads(store.buffer, lambda load: table[load.indices]).visit_expr(consumer.body.value)
    new = with_access(replace(consumer, body=BufferStore(consumer.body.buffer, consumer.body.indices, value)))
    allocs = [b for b in scope.alloc_buffers if b is not store.buffer]
    allocs += [load.buffer for load in table.values()]
    return state.rewrite({id(top): seq(*map(own_nest, copies)), id(consumer): new}, {id(scope): tuple(allocs)}), [
        copy.ident for copy in copies]


def _copy(block: Block, consumer: Block, made: Buffer, places: dict[Var, Expr], name: str) -> Block:
    """A block that makes, for every iteration of a consumer, the one element that this reads.

    Args:
        block: what it is a copy of.
        consumer: it has the iterators of this one, then its own of the reduction.
        made: where it stores.
        places: of each iterator that moves what ``block`` stores its value, in the consumer's iterators.
        name: its name.
    """
    store = block.body
    assert isinstance(store, BufferStore)
    fresh: dict[Var, Expr] = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in (*consumer.iter_vars, *block.iter_vars)}
    own: dict[Var, Expr] = {iv.var: fresh[iv.var] if iv.kind == "reduce" else iv.dom.min for iv in block.iter_vars}
    own |= {v: substitute(index, fresh) for v, index in places.items()}
    sums = [iv for iv in block.iter_vars if iv.kind == "reduce"]
    iters = [IterVar(v, iv.dom, iv.kind) for iv in (*consumer.iter_vars, *sums) if isinstance(v := fresh[iv.var], Var)]
    place = tuple([fresh[iv.var] for iv in consumer.iter_vars])
    running = _Loads(store.buffer, lambda _: BufferLoad(made, place, made.dtype))
    body = BufferStore(made, place, running.visit_expr(substitute(store.value, own)))
    init = BufferStore(made, place, substitute(block.init.value, own)) if isinstance(block.init, BufferStore) else None
    return with_access(Block(name, tuple(iters), (), (), body, init, annotations=block.annotations))


def _places(block: Block, consumer: Block, store: BufferStore, written: dict[int, Interval]) -> list[tuple[Expr, ...]]:
    """Where a block reads what another one has stored, each place once.

    Args:
        block: the other one.
        consumer: the one that reads.
        store: what ``block`` stores.
        written: the first and the last index of every dimension of more than one.
    """
    marks = [block.ident, consumer.ident]
    body = consumer.body
    whole = all(iv.kind == "spatial" and int_value(iv.dom.min) == 0 and int_value(iv.dom.extent) for iv in consumer.iter_vars)
    if consumer.init is not None or not isinstance(body, BufferStore) or not whole:
        out = f'sch.expand_reduction("{consumer.name}") writes a small reduction out' if consumer.init is not None else ""
        raise Refusal(f"block {consumer.name}, which reads it, is not one store of spatial iterators from 0", marks, out,
                      code="reduction")
    own = {iv.var: iv.dom for iv in consumer.iter_vars}
    found: list[tuple[Expr, ...]] = []
    for load in walk_expr(body.value):
        if not isinstance(load, BufferLoad) or load.buffer is not store.buffer or load.indices in found:
            continue
        if has_loads(*load.indices):
            raise Refusal(f"block {consumer.name} reads {store.buffer.name} at an index that is data", marks, code="index")
        for d, index in enumerate(load.indices):
            reached = bounds(index, own) if free_vars(index).keys() <= own.keys() else None
            only = int_value(store.indices[d]) or 0
            first, last = written.get(d, (only, only))
            if reached is None or not (first <= reached[0] and reached[1] <= last):
                raise Refusal(f"block {consumer.name} reads {store.buffer.name} at {expr_text(index)}, which may be outside of "
                              f"what block {block.name} writes", marks, code="domain")
        found.append(load.indices)
    if len(found) > MOST_PLACES:
        raise Refusal(f"block {consumer.name} reads {store.buffer.name} at {len(found)} places; {MOST_PLACES} are the most that "
                      "get copies", marks, code="range")
    return found


class _Loads(Mutator):
    """Reads another buffer in place of one.

    Args:
        buffer: the one.
        there: what is read in place of a load of it.
    """

    def __init__(self, buffer: Buffer, there: Callable[[BufferLoad], Expr]) -> None:
        self.buffer, self.there = buffer, there

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BufferLoad) and expr.buffer is self.buffer:
            return self.there(expr)
        return super().visit_expr(expr)
