"""A copy of a block for every place that its consumer reads: recompute_at_reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, all_of, binary, const, if_then_else, int_value
from autosched.ir.functor import Mutator, expr_children, free_vars, substitute
from autosched.ir.linear import conjuncts
from autosched.ir.patterns import choice_of, has_loads, update_of
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, Ident, IterVar, Range, Stmt, seq
from autosched.ir.value_bounds import Interval
from autosched.schedule.analysis.dependence import is_output, not_complete_or_reduction, scope_of
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.limits import bounds
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_stores, run_once, top_of
from autosched.schedule.primitives.reductions.values import negated

MOST_PLACES = 64  # that one block reads


class Places(ScheduleBase):
    """Making what is read, place by place."""

    @primitive
    def recompute_at_reads(
        self, block: BlockRV | str, guarded: bool | None = None, along: Sequence[int] | None = None,
        last: int | None = None,
    ) -> list[BlockRV]:
        """Gives every place that the only consumer of a block reads a copy of the block that makes just that.

        Every copy has an element for each iteration of the consumer, which then reads all of them at its own iterators.

        Args:
            block: handle or name of a complete or reduction block that stores one intermediate buffer at its plain iterators, in
                loops of its own that run each combination once.
            guarded: whether a place may be read where a condition on the consumer's iterators holds alone, as what stands behind
                a border is; elsewhere its copy holds 0. So does that of one row that is read for one value of an iterator.
            along: positions of the iterators of the consumer for which the copies have elements; no place depends on another
                one. All of them when not given.
            last: elements for the last of these, on which no place depends either: the consumer reads at the remainder. As many
                as the iterator has values when not given.

        Returns:
            One block per place, in the order in which the consumer's value names them; they stand where the block stood.

        Raises:
            ScheduleError: another form; several consumers, one that sums up, or one that reads where the block may not write; no
                sum, or a place under several conditions, where it is guarded; a place that depends on an iterator that ``along``
                leaves out, or a position that there is not; ``last`` where a place depends on that iterator, or below 1.

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
            body, copies = _by_place(state, realize, bool(guarded), None if along is None else [int(n) for n in along],
                                     None if last is None else int(last))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in copies]


def _by_place(
    state: State, realize: BlockRealize, guarded: bool, along: Sequence[int] | None, last: int | None
) -> tuple[Stmt, list[Ident]]:
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
    places = _places(block, consumer, store, {d: runs[v] for d, v in at.items()}, guarded)
    taken, used = set(state.block_names()), state.buffer_names(scope)
    table: dict[tuple[Expr, ...], BufferLoad] = {}
    copies: list[Block] = []
    own = _along(block, consumer, along, [*places.values()])
    here: tuple[Expr, ...] = tuple([iv.var for iv in own])
    if last is not None:
        own = _shorter(block, consumer, own, last, [*places.values()])
        here = (*here[:-1], here[-1] % last)
    shape = tuple([iv.dom.extent for iv in own])
    for n, (read, (indices, condition)) in enumerate(places.items()):
        made = Buffer(fresh_name(f"{store.buffer.name}_{n}", used), shape, store.buffer.dtype)
        name = fresh_name(f"{block.name}_{n}", taken)
        copies.append(_copy(block, own, made, {v: indices[d] for d, v in at.items()}, name, condition))
        taken.add(name)
        used.add(made.name)
        table[read] = BufferLoad(made, here, made.dtype)
    assert isinstance(consumer.body, BufferStore)
    value = _Loads(store.buffer, lambda load: table[load.indices]).visit_expr(consumer.body.value)
    new = with_access(replace(consumer, body=BufferStore(consumer.body.buffer, consumer.body.indices, value)))
    allocs = [b for b in scope.alloc_buffers if b is not store.buffer]
    allocs += [load.buffer for load in table.values()]
    return state.rewrite({id(top): seq(*map(own_nest, copies)), id(consumer): new}, {id(scope): tuple(allocs)}), [
        copy.ident for copy in copies]


def _along(
    block: Block, consumer: Block, along: Sequence[int] | None, places: Sequence[tuple[tuple[Expr, ...], Expr | None]]
) -> tuple[IterVar, ...]:
    """The iterators of a consumer for which copies of what it reads at some places, each under a condition, have elements."""
    if along is None:
        return consumer.iter_vars
    if not along or len(set(along)) != len(along) or not all(0 <= n < len(consumer.iter_vars) for n in along):
        raise Refusal(f"along {[*along]} does not name some of the {len(consumer.iter_vars)} iterators of block {consumer.name}, "
                      "once each", [consumer.ident], code="argument")
    own = tuple([consumer.iter_vars[n] for n in along])
    used = [v for indices, where in places for e in (*indices, where) if e is not None for v in free_vars(e)]
    other = next((v for v in used if v not in {iv.var for iv in own}), None)
    if other is not None:
        raise Refusal(f"what block {consumer.name} reads of block {block.name} depends on {other.name}, which along leaves out",
                      [block.ident, consumer.ident], code="index")
    return own


def _shorter(
    block: Block, consumer: Block, own: tuple[IterVar, ...], last: int,
    places: Sequence[tuple[tuple[Expr, ...], Expr | None]],
) -> tuple[IterVar, ...]:
    """Iterators of a consumer of which the last one has as many values as given, whatever is read of them at some places."""
    var = own[-1].var
    if last < 1 or any(var in free_vars(e) for indices, where in places for e in (*indices, where) if e is not None):
        raise Refusal(f"last is a number above 0, and nothing that block {consumer.name} reads of block {block.name} depends on "
                      f"{var.name}", [block.ident, consumer.ident], code="argument")
    return (*own[:-1], IterVar(var, Range(own[-1].dom.min, const(last, var.dtype)), own[-1].kind))


def _copy(
    block: Block, own_iters: Sequence[IterVar], made: Buffer, places: dict[Var, Expr], name: str, condition: Expr | None
) -> Block:
    """A block that makes, for every iteration of a consumer, the one element that this reads.

    Args:
        block: what it is a copy of.
        own_iters: those of the consumer, which it has; then come its own of the reduction.
        made: where it stores.
        places: of each iterator that moves what ``block`` stores its value, in the consumer's iterators.
        name: its name.
        condition: where that is read, in the consumer's iterators; None for everywhere.
    """
    store = block.body
    assert isinstance(store, BufferStore)
    fresh: dict[Var, Expr] = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in (*own_iters, *block.iter_vars)}
    own: dict[Var, Expr] = {iv.var: fresh[iv.var] if iv.kind == "reduce" else iv.dom.min for iv in block.iter_vars}
    own |= {v: substitute(index, fresh) for v, index in places.items()}
    sums = [iv for iv in block.iter_vars if iv.kind == "reduce"]
    iters = [IterVar(v, iv.dom, iv.kind) for iv in (*own_iters, *sums) if isinstance(v := fresh[iv.var], Var)]
    place = tuple([fresh[iv.var] for iv in own_iters])
    running = _Loads(store.buffer, lambda _: BufferLoad(made, place, made.dtype))
    value = substitute(store.value, own)
    first = substitute(block.init.value, own) if isinstance(block.init, BufferStore) else None
    if condition is not None:
        where = substitute(condition, fresh)
        update = update_of(replace(store, value=value, indices=tuple([substitute(i, own) for i in store.indices])))
        if first is None:
            value = _or_zero(where, value)
        elif update is None or update[0] != "+":
            raise Refusal(f"block {block.name} is no sum; its consumer reads it under a condition, and a sum of nothing is 0",
                          [block.ident], code="reduction")
        else:
            mine = BufferLoad(made, place, made.dtype)
            value, first = binary("+", mine, _or_zero(where, update[1])), _or_zero(where, first)
    body = BufferStore(made, place, running.visit_expr(value))
    init = None if first is None else BufferStore(made, place, first)
    return with_access(Block(name, tuple(iters), (), (), body, init, annotations=block.annotations))


def _or_zero(condition: Expr, value: Expr) -> Expr:
    return value if int_value(value) == 0 else if_then_else(condition, value, const(0, value.dtype))


def _places(
    block: Block, consumer: Block, store: BufferStore, written: dict[int, Interval], guarded: bool
) -> dict[tuple[Expr, ...], tuple[tuple[Expr, ...], Expr | None]]:
    """Where a block reads what another one has stored: what its copy makes, and under which condition if it does so only there.

    Args:
        block: the other one.
        consumer: the one that reads.
        store: what ``block`` stores.
        written: the first and the last index of every dimension of more than one.
        guarded: whether it may be a part of the iterations that do.
    """
    marks = [block.ident, consumer.ident]
    body = consumer.body
    whole = all(iv.kind == "spatial" and int_value(iv.dom.min) == 0 and int_value(iv.dom.extent) for iv in consumer.iter_vars)
    if consumer.init is not None or not isinstance(body, BufferStore) or not whole:
        out = f'sch.expand_reduction("{consumer.name}") writes a small reduction out' if consumer.init is not None else ""
        raise Refusal(f"block {consumer.name}, which reads it, is not one store of spatial iterators from 0", marks, out,
                      code="reduction")
    own = {iv.var: iv.dom for iv in consumer.iter_vars}
    found: dict[tuple[Expr, ...], tuple[tuple[Expr, ...], Expr | None]] = {}
    moving: dict[tuple[Expr, ...], set[tuple[Expr, ...]]] = {}
    read = []
    for load, condition in _reads(body.value, store.buffer, None):
        analyzer = Analyzer(own)
        if condition is not None:
            analyzer.assume(_ordered(condition, own))
        read.append((load, condition, analyzer))
        moving.setdefault(load.indices, set()).add(_moving(load.indices, analyzer, own) if guarded else load.indices)
    for load, condition, analyzer in read:
        indices = next(iter(moving[load.indices])) if len(moving[load.indices]) == 1 else load.indices
        where = None if indices == load.indices else condition
        if has_loads(*load.indices):
            raise Refusal(f"block {consumer.name} reads {store.buffer.name} at an index that is data", marks, code="index")
        for d, index in enumerate(indices):
            reached = bounds(index, own) if free_vars(index).keys() <= own.keys() else None
            only = int_value(store.indices[d]) or 0
            first, last = written.get(d, (only, only))
            if reached is not None and first <= reached[0] and reached[1] <= last:
                continue
            low, high = analyzer.int_bounds(index) if guarded and condition is not None else (None, None)
            where = condition
            if low is None or high is None or not (first <= low and high <= last):
                raise Refusal(f"block {consumer.name} reads {store.buffer.name} at {expr_text(index)}, which may be outside of "
                              f"what block {block.name} writes", marks, code="domain")
        if found.setdefault(load.indices, (indices, where)) != (indices, where):
            raise Refusal(f"block {consumer.name} reads {store.buffer.name} at one place under several conditions", marks,
                          code="domain")
    if len(found) > MOST_PLACES:
        raise Refusal(f"block {consumer.name} reads {store.buffer.name} at {len(found)} places; {MOST_PLACES} are the most that "
                      "get copies", marks, code="range")
    return found


def _moving(indices: tuple[Expr, ...], analyzer: Analyzer, own: Mapping[Var, Range]) -> tuple[Expr, ...]:
    """The indices of a row that is read for one value of an iterator alone, as ones that this moves: it is made there only."""
    used = {v for index in indices for v in free_vars(index)}
    for v, dom in own.items():
        at = analyzer.int_bounds(v) if v not in used and int_value(dom.extent) != 1 else (None, None)
        d = next((d for d, index in enumerate(indices) if int_value(index) is not None), None)
        if at[0] is not None and at[0] == at[1] and d is not None:
            return (*indices[:d], binary("-", v, const(at[0] - (int_value(indices[d]) or 0), v.dtype)), *indices[d + 1 :])
    return indices


def _ordered(condition: Expr, own: Mapping[Var, Range]) -> Expr:
    """A condition in which whatever is not the first or the last value of an iterator is behind it, or in front."""
    parts = []
    for part in conjuncts(condition):
        dom = own.get(part.a) if isinstance(part, BinOp) and part.op == "!=" and isinstance(part.a, Var) else None
        if isinstance(part, BinOp) and dom is not None:
            first, extent, value = int_value(dom.min), int_value(dom.extent), int_value(part.b)
            if first is not None and extent is not None and value in (first, first + extent - 1):
                part = binary(">" if value == first else "<", part.a, part.b)
        parts.append(part)
    return all_of(parts)


def _reads(value: Expr, buffer: Buffer, condition: Expr | None) -> Iterator[tuple[BufferLoad, Expr | None]]:
    """The loads of a tensor in a value, each with the choices by iterators that it stands in; None in none."""
    choice = choice_of(value)
    if choice is not None and not has_loads(choice[0]):
        for at, side in ((choice[0], choice[1]), (negated(choice[0]), choice[2])):
            yield from _reads(side, buffer, at if condition is None else all_of([condition, at]))
        return
    if isinstance(value, BufferLoad) and value.buffer is buffer:
        yield value, condition
    for child in expr_children(value):
        yield from _reads(child, buffer, condition)


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
