"""Leaving out what a reduction adds in vain: terms that are zero because an operand is padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, IntImm, Not, Select, Var, all_of, as_expr, int_value, intrin, is_int
from autosched.ir.functor import Mutator, expr_children, free_vars, substitute, walk_expr
from autosched.ir.host import kind_of
from autosched.ir.patterns import choice_of, loads_from
from autosched.ir.region import block_access
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferRegion, BufferStore, Range, Stmt
from autosched.schedule.analysis.boxes import bind_all, bindings
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.ways import sums
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.nests import runs_whole
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State

DEEPEST = 32  # blocks in a row that are followed to what is zero


class ZeroTerms(ScheduleBase):
    """The primitive that skips products with padding."""

    @primitive(local="writers")
    def drop_zero_terms(self, block: BlockRV | str) -> None:
        """Skips the terms of a sum that are zero because an operand is padding (or the gaps of a dilated operand).

        An operand is padding where it is ``if_then_else(cond, value, 0)``: in the block itself, after the padding stage
        was inlined, or in the stage that writes the buffer that the block reads (also through copies of it). Where the
        operand is zero the whole term has to be. The conditions become the predicate of the block; an operand that is
        guarded in the block itself is from then on read without its guard. What a host stage has filled with zeros stays.

        A predicate costs nothing on the machine: a condition on one loop gives that loop its bounds. In a condition on
        several loops, as ``1 <= y + ky``, lowering leaves the longest one in the instruction and gives it bounds for each
        combination of the others: each of the taps ``ky`` gets its own first and last ``y``. The other loops are thus
        unrolled into instructions, so keep the long dimensions of the output in one piece inside the tile. The operand
        needs no padding in memory once its stage is inlined: what a ``cache_read`` copies is clipped to what exists.

        Args:
            block: handle or name of a block that updates a sum of integers; its initial value is set by another block.

        Raises:
            ScheduleError: a block with an init (its first term may be one that is dropped), another body than a sum of
                integers, no operand that is known to be zero somewhere.

        Before::

            for i in range(16):
                with T.sblock("C_init"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = 0
                for k in range(3):
                    with T.sblock("C_update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + T.if_then_else(1 <= vi + vk and vi + vk < 17, A[vi + vk - 1], 0) * W[vk]

        After ``sch.drop_zero_terms("C_update")``::

            for i in range(16):
                with T.sblock("C_init"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = 0
                for k in range(3):
                    with T.sblock("C_update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        T.where(1 <= i + k and i + k < 17)
                        C[vi] = C[vi] + A[vi + vk - 1] * W[vk]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _without_zeros(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: sums(state, realize.block)), state, code=r.code)
        self.commit_nodes(state, {id(realize): new})


def _without_zeros(state: State, realize: BlockRealize) -> BlockRealize:
    block = realize.block
    scope = scope_of(state, block)
    if block.init is not None:
        raise Refusal(
            f"block {block.name} sets its initial value itself, in its first term, which may be one of those to drop",
            [block.ident], "decompose_reduction first", code="reduction",
        )
    again = once if state.trusted else afresh
    found, new = again(partial(_guarded, state, scope, block), "zero where", block, *_behind(state, scope, block))
    loops = bind_all(Analyzer(), state.loops.values())
    values = bindings(realize)
    extra = [loops.simplify_alike(substitute(c, values)) for c in found]
    kept = [c for c in extra if c != as_expr(True)]
    return BlockRealize(realize.iter_values, all_of([realize.predicate, *kept]), new)


def _behind(state: State, scope: Block, block: Block) -> list[Block]:
    """The blocks that make what a block reads, and what these read: all that ``support`` may look at."""
    found, asked = [block], set[Buffer]()
    for reader in found:
        for region in reader.reads:
            if region.buffer not in asked:
                asked.add(region.buffer)
                found += [b for b in state.writers(scope, region.buffer) if not any(b is known for known in found)]
    return found[1:]


def _guarded(state: State, scope: Block, block: Block) -> tuple[list[Expr], Block]:
    """Conditions outside of which a block's term is zero, in terms of its iterators, and the block without guards."""
    store, term = sum_term(block)
    guards: list[Expr] = []
    for node in walk_expr(term):
        guard = _guard(node)
        if guard is not None and is_zero(Replaced(node, as_expr(0, node.dtype)).visit_expr(term)):
            guards += conjuncts(guard[0])
            term = Replaced(node, guard[1]).visit_expr(term)
    for node in list(walk_expr(term)):
        if isinstance(node, BufferLoad) and is_zero(Replaced(node, as_expr(0, node.dtype)).visit_expr(term)):
            for condition in support(state, scope, block, node):
                guards += conjuncts(condition)
    analyzer = Analyzer({iv.var: iv.dom for iv in block.iter_vars})
    found: list[Expr] = []
    for guard_term in guards:
        simple = analyzer.simplify(guard_term)
        if simple != as_expr(True) and simple not in found and not analyzer.can_prove(simple):
            found.append(simple)
    if not found:
        raise Refusal(
            f"no term of block {block.name} is known to be zero", [block.ident],
            "an operand if_then_else(inside, value, 0): compute_inline the padding, or keep it as the stage that is read",
            code="form",
        )
    body = BufferStore(store.buffer, store.indices, Replaced(_added(store), term).visit_expr(store.value))
    new = replace(block, body=body)
    reads, writes = block_access(new)
    return found, replace(new, reads=_in_order(block, reads), writes=writes)


def _in_order(block: Block, reads: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
    order = {r.buffer: k for k, r in enumerate(block.reads)}
    return tuple(sorted(reads, key=lambda r: order.get(r.buffer, len(order))))


def sum_term(block: Block) -> tuple[BufferStore, Expr]:
    """The store of a block ``C[i] = C[i] + term`` over integers, and the term.

    Raises:
        Refusal: the body is something else.
    """
    store = block.body
    if not isinstance(store, BufferStore):
        raise Refusal(f"the body of block {block.name} is not one store", [block.ident], "before tensorize and blockize",
                      code="form")
    if not is_int(store.buffer.dtype):
        raise Refusal(f"block {block.name} sums {store.buffer.dtype}: zero times a value that is not finite is not zero",
                      [block.ident],
                      hint="only sums of integers can leave terms out", code="form")
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    value = store.value
    if isinstance(value, BinOp) and value.op == "+" and own in (value.a, value.b):
        return store, value.b if value.a == own else value.a
    raise Refusal(f"block {block.name} is no sum: its body is not {store.buffer.name}[..] = {store.buffer.name}[..] + term",
                  [block.ident], code="form")


def _added(store: BufferStore) -> Expr:
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    assert isinstance(store.value, BinOp)
    return store.value.b if store.value.a == own else store.value.a


def is_zero(expr: Expr) -> bool:
    """Whether an expression is the constant 0 once constants are folded."""
    return isinstance(expr, IntImm) and expr.value == 0


def _guard(expr: Expr) -> tuple[Expr, Expr] | None:
    """The condition and the value of an expression that is 0 where the condition fails."""
    if isinstance(expr, Call) and expr.op == "if_then_else" and is_zero(expr.args[2]):
        return expr.args[0], expr.args[1]
    if isinstance(expr, Select) and is_zero(expr.false_value):
        return expr.condition, expr.true_value
    return None


class Replaced(Mutator):
    """Replaces one expression (by structure) by another."""

    def __init__(self, old: Expr, new: Expr) -> None:
        self.old, self.new = old, new

    def visit_expr(self, expr: Expr) -> Expr:
        return self.new if expr == self.old else super().visit_expr(expr)


def support(state: State, scope: Block, reader: Block, load: BufferLoad) -> Iterator[Expr]:
    """Conditions outside of which the element that a block loads is zero, in terms of the block's iterators.

    Host stages are not looked into: what they fill with zeros is in memory, and elements are read as a whole.

    Args:
        state: the program.
        scope: the block that holds reader and writers.
        reader: the block that loads.
        load: one of its loads.
    """
    writers = state.writers(scope, load.buffer)
    if len(writers) != 1 or writers[0].ident is reader.ident:
        return
    producer = writers[0]
    if kind_of(producer) is not None:
        return
    at = _inverse(producer, load)
    if at is None:
        return
    assert isinstance(producer.body, BufferStore)
    value = producer.body.value
    for node in _factors(value):
        guard = _guard(node)
        if guard is not None:
            yield substitute(guard[0], at)
        elif isinstance(node, BufferLoad):
            moved = substitute(node, at)
            assert isinstance(moved, BufferLoad)
            yield from support(state, scope, producer, moved)


def vanishes(state: State, scope: Block, reader: Block, value: Expr, dom: Mapping[Var, Range], depth: int = DEEPEST) -> bool:
    """Whether a value is zero everywhere in a domain, as ``settled`` has it.

    Args:
        state: the program.
        scope: the block that holds reader and writers.
        reader: the block whose value it is.
        value: it.
        dom: ranges of the iterators in it.
        depth: blocks that are followed, one behind the other, at most.
    """
    return is_zero(settled(state, scope, reader, value, dom, depth))


def settled(state: State, scope: Block, reader: Block, value: Expr, dom: Mapping[Var, Range], depth: int = DEEPEST) -> Expr:
    """A value in a domain: with all that is known to be a constant put in, it folds to one, or does not.

    What is loaded is followed to what its block stores there, sums included: of these what they start with and every term are
    zero. The block stores all of a tensor that is allocated here: what is read before that is nothing anybody may rely on.

    Args:
        state: the program.
        scope: the block that holds reader and writers.
        reader: the block whose value it is.
        value: it.
        dom: ranges of the iterators in it.
        depth: blocks that are followed, one behind the other, at most.
    """
    analyzer = Analyzer(dom)

    class Known(Mutator):
        """Puts a constant for what is known to be one."""

        def visit_expr(self, expr: Expr) -> Expr:
            parts = choice_of(expr)
            if parts is not None and any(analyzer.can_prove(Not(c)) for c in conjuncts(parts[0])):
                return self.visit_expr(parts[2])
            stored = _stored(state, scope, reader, expr, dom, depth - 1) if isinstance(expr, BufferLoad) and depth else None
            if stored is not None:
                return as_expr(stored, expr.dtype)
            new = super().visit_expr(expr)
            constant = isinstance(new, Call) and all(isinstance(x, IntImm) for x in new.args)
            return intrin(new.op, *new.args, dtype=new.dtype) if isinstance(new, Call) and constant else new

    return analyzer.simplify(Known().visit_expr(value))


def _stored(state: State, scope: Block, reader: Block, load: BufferLoad, dom: Mapping[Var, Range], depth: int) -> int | None:
    """The constant that a load takes everywhere in a domain, as ``settled`` has it; None where it is not known to take one."""
    writers = state.writers(scope, load.buffer)
    if len(writers) != 1 or writers[0].ident is reader.ident:
        return None
    producer = writers[0]
    at = _inverse(producer, load, True)
    if at is None or load.buffer not in scope.alloc_buffers or not fills(state, producer):
        return None
    inside = {**dom, **{iv.var: iv.dom for iv in producer.iter_vars if iv.kind == "reduce"}}
    assert isinstance(producer.body, BufferStore)
    if producer.init is None:
        return int_value(settled(state, scope, producer, substitute(producer.body.value, at), inside, depth))
    try:
        term = sum_term(producer)[1]
    except Refusal:
        return None
    assert isinstance(producer.init, BufferStore)
    zero = all(vanishes(state, scope, producer, substitute(e, at), inside, depth) for e in (producer.init.value, term))
    return 0 if zero else None


def fills(state: State, producer: Block) -> bool:
    """Whether a block stores every element of its buffer, in loops over the whole domain of its iterators."""
    realize = state.realizes[producer.ident]
    store = producer.body
    assert isinstance(store, BufferStore)
    extents = {iv.var: int_value(iv.dom.extent) for iv in producer.iter_vars}
    ends = [extents.get(i) if isinstance(i, Var) else 1 if int_value(i) == 0 else None for i in store.indices]
    whole = runs_whole(realize, state.loops_above(realize))
    return whole and None not in ends and ends == [int_value(n) for n in store.buffer.shape]


def _factors(value: Expr) -> Iterator[Expr]:
    """The parts of an expression any of which makes it zero."""
    yield value
    for child in expr_children(value) if not isinstance(value, BufferLoad) else ():
        if is_int(child.dtype) and is_zero(Replaced(child, as_expr(0, child.dtype)).visit_expr(value)):
            yield from _factors(child)


def _inverse(producer: Block, load: BufferLoad, sums: bool = False) -> Mapping[Var, Expr] | None:
    """The iterators of a block that stores the element which is loaded, where it stores at its plain iterators.

    With ``sums`` the block may be one; its reduction iterators are none of them.
    """
    store = producer.body
    if not isinstance(store, BufferStore) or store.buffer is not load.buffer or not (sums or producer.init is None):
        return None
    found: dict[Var, Expr] = {}
    for index, wanted in zip(store.indices, load.indices):
        if isinstance(index, Var) and index not in found:
            found[index] = wanted
        elif not (isinstance(index, IntImm) and index == wanted):
            return None
    used = set(free_vars(store.value))
    own = {iv.var for iv in producer.iter_vars if iv.kind == "spatial" or producer.init is None}
    itself = producer.init is None and _reads_itself(producer, load.buffer)
    return found if used & own <= set(found) and not itself else None


def _reads_itself(block: Block, buffer: Buffer) -> bool:
    body: Stmt = block.body
    assert isinstance(body, BufferStore)
    return loads_from(body.value, buffer)
