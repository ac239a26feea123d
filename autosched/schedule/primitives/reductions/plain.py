"""Blocks in the plain form that other primitives expect: one loop for each iterator, initial values inside their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, binary, int_value
from autosched.ir.functor import free_vars, substitute, walk, walk_expr
from autosched.ir.iter_terms import IterSum
from autosched.ir.itermap import detect_iter_map
from autosched.ir.region import block_access, with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, Range, Stmt
from autosched.ir.value_bounds import Interval
from autosched.schedule.analysis.boxes import loop_ranges
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.init_first import require_init_first
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.limits import bounds
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.outer_block import Simplifying


class PlainForms(ScheduleBase):
    """Undoing what a program has been written in, rather than scheduled to."""

    @primitive
    def renest(self, block: BlockRV | str) -> None:
        """Gives a block one loop for each of its iterators, in their order, in place of whatever loops it has.

        Iterators that begin elsewhere begin at 0 afterwards.

        Args:
            block: handle or name of a block alone in its loops, which run every combination of its iterators exactly once.

        Raises:
            ScheduleError: loops that are shared, marked, or not known to run every combination once.

        Before::

            for f in range(48):
                with T.sblock("C"):
                    vi = T.axis.spatial(6, f // 8)
                    vj = T.axis.spatial(8, f % 8)
                    C[vi, vj] = A[vi, vj] + 1

        After ``sch.renest("C")``::

            for i, j in T.grid(6, 8):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            table = _renested(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)

    @primitive
    def compose_reduction(self, init_block: BlockRV | str, update_block: BlockRV | str) -> None:
        """Makes one reduction of a block that sets what another one updates: the inverse of ``decompose_reduction``.

        Args:
            init_block: handle or name of a block that sets every element of a buffer, in loops of its own.
            update_block: handle or name of the block after it that updates each of these elements, in loops of its own.

        Raises:
            ScheduleError: the blocks set and update different elements, or somebody else comes between them.

        Before::

            for i in range(16):
                with T.sblock("begin"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = 1
            for i, k in T.grid(16, 4):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + A[vi, vk]

        After ``sch.compose_reduction("begin", "C")``::

            for i, k in T.grid(16, 4):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 1
                    C[vi] = C[vi] + A[vi, vk]
        """
        assert isinstance(init_block, BlockRV) and isinstance(update_block, BlockRV)
        state, init = self.block_at(init_block)
        other, update = self.block_at(update_block)
        try:
            if other is not state:
                raise Refusal("the blocks belong to different functions", code="handle")
            table = _composed(state, init, update)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)


def plain_store(block: Block, alone: bool = False) -> BufferStore:
    """The one store that a block is; refuses any other.

    Args:
        block: any.
        alone: whether it may have no init.
    """
    if not isinstance(block.body, BufferStore) or (alone and block.init is not None):
        raise Refusal(f"block {block.name} is not one plain store", [block.ident], code="form")
    return block.body


def plain_stores(block: Block) -> tuple[BufferStore, BufferStore | None]:
    """The one store that a block is, and the one that its init is, if it has one; refuses any other."""
    if not (block.init is None or isinstance(block.init, BufferStore)):
        raise Refusal(f"block {block.name} is not one plain store", [block.ident], code="form")
    return plain_store(block), block.init


def top_of(state: State, realize: BlockRealize) -> Stmt:
    """The outermost loop of a block that is alone in its loops."""
    top: Stmt = realize
    for loop in reversed(state.loops_above(realize)):
        if loop.body is not top:
            raise Refusal(f"loop {loop.var.name} holds more than block {realize.block.name}", [loop.var, realize.block.ident],
                          code="place")
        if loop.kind != "serial" or loop.annotations:
            raise Refusal(f"loop {loop.var.name} is {loop.kind} or marked", [loop.var], "do so afterwards", code="loop")
        top = loop
    return top


def require_once(state: State, realize: BlockRealize) -> None:
    """Refuses a block of which a combination of iterators is not known to run exactly once, or whose init does not come first."""
    require_init_first(realize, state.loops_above(realize))
    known, errors = runs_once(realize, state.loops_above(realize))
    if not known:
        raise _not_once(realize.block, errors)


def runs_once(realize: BlockRealize, loops: Sequence[For]) -> tuple[bool, Sequence[str]]:
    """Whether every combination of a block's iterators is known to run exactly once in its loops, and why not."""
    found = detect_iter_map(list(realize.iter_values), loop_ranges(loops), realize.predicate)
    return bool(found) and all(
        _count(s) == int_value(iv.dom.extent) for s, iv in zip(found.indices, realize.block.iter_vars)
    ), found.errors


def run_once(state: State, realize: BlockRealize) -> dict[Var, Interval]:
    """The first and the last value of every iterator for which a block runs, each combination of them exactly once.

    Raises:
        Refusal: that is not known, the block sums up a part only, or its init does not come first.
    """
    require_init_first(realize, state.loops_above(realize))
    block, ranges = realize.block, loop_ranges(state.loops_above(realize))
    found = detect_iter_map(list(realize.iter_values), ranges, realize.predicate)
    taken: dict[Var, Interval] = {}
    for s, iv, value in zip(found.indices, block.iter_vars, realize.iter_values):
        count = _count(s)
        span = bounds(value, ranges)
        if span is not None and span[1] - span[0] + 1 == count and (iv.kind == "spatial" or count == int_value(iv.dom.extent)):
            taken[iv.var] = span
    if len(taken) < len(block.iter_vars):
        raise _not_once(block, found.errors)
    return taken


def _count(index: IterSum) -> int:
    """How many values an iterator takes; 0 where that is not known."""
    return prod(int_value(a.extent) or 0 if not isinstance(a.extent, int) else a.extent for a in index.args)


def _not_once(block: Block, errors: Sequence[str]) -> Refusal:
    reason = f": {errors[0]}" if errors else ""
    return Refusal(f"the loops around block {block.name} are not known to run every combination of its iterators once{reason}",
                   [block.ident], code="domain")


def _renested(state: State, realize: BlockRealize) -> dict[int, Stmt | None]:
    block = realize.block
    top = top_of(state, realize)
    require_once(state, realize)
    require_bound(block, state.loops_above(realize))
    return {id(top): own_nest(_from_zero(block))}


class Normalising(Simplifying):
    """Substitutes, and brings every index into normal form, also one that does not change."""

    def index(self, expr: Expr) -> Expr:
        return self.analyzer.simplify(self.visit_expr(expr))


def _from_zero(block: Block) -> Block:
    """A block of stores whose iterators all begin at 0; itself where they do, or where they begin at no constant."""
    begins = {iv.var: n for iv in block.iter_vars if (n := int_value(iv.dom.min))}
    if not begins or not isinstance(block.body, BufferStore):
        return block
    back: dict[Var, Expr] = {v: binary("+", v, IntImm(n, v.dtype)) for v, n in begins.items()}
    iters = tuple([replace(iv, dom=Range(IntImm(0, iv.var.dtype), iv.dom.extent)) if iv.var in begins else iv
                   for iv in block.iter_vars])
    moved = Normalising(back, Analyzer())
    plain = [None if s is None else moved.visit_stmt(s) for s in (block.init, block.body)]
    return with_access(replace(block, iter_vars=iters, init=plain[0], body=plain[1] or block.body))


def _composed(state: State, init: BlockRealize, update: BlockRealize) -> dict[int, Stmt | None]:
    first, last = init.block, update.block
    marks = [first.ident, last.ident]
    if first is last:
        raise Refusal(f"block {first.name} is given twice, and does not set what it updates", [first.ident], code="argument")
    begin, store = first.body, last.body
    if not (isinstance(begin, BufferStore) and isinstance(store, BufferStore)) or first.init is not None or last.init is not None:
        raise Refusal("the blocks must each be a single store without init", marks, code="reduction")
    if begin.buffer is not store.buffer:
        raise Refusal(f"block {first.name} sets {begin.buffer.name}, block {last.name} updates {store.buffer.name}", marks,
                      code="form")
    own = [e for e in walk_expr(store.value) if isinstance(e, BufferLoad) and e.buffer is store.buffer]
    if not own or any(e.indices != store.indices for e in own):
        raise Refusal(f"block {last.name} does not update the elements of {store.buffer.name} in place", marks, code="form")
    if scope_of(state, first) is not scope_of(state, last):
        raise Refusal("the blocks are in different scopes", marks, code="place")
    tops = top_of(state, init), top_of(state, update)
    for realize in (init, update):
        require_once(state, realize)
    table = _same_elements(first, last, begin, store)
    _nobody_between(state, first, last, begin)
    body = replace(last, init=BufferStore(store.buffer, store.indices, substitute(begin.value, table)))
    reads, writes = block_access(body)
    order = {r.buffer: k for k, r in enumerate(last.reads)}
    reads = tuple(sorted((r for r in reads if r.buffer is not store.buffer), key=lambda r: order.get(r.buffer, len(order))))
    new = replace(body, reads=reads, writes=writes)
    return {id(tops[0]): None, id(update): replace(update, block=new)}


def _same_elements(first: Block, last: Block, begin: BufferStore, store: BufferStore) -> dict[Var, Var]:
    """The updating block's iterator for each of the setting one's."""
    marks = [first.ident, last.ident]
    ranges = {iv.var: (int_value(iv.dom.min), int_value(iv.dom.extent)) for iv in (*first.iter_vars, *last.iter_vars)}
    table: dict[Var, Var] = {}
    for a, b in zip(begin.indices, store.indices):
        if int_value(a) is not None and int_value(a) == int_value(b):
            continue
        if not (isinstance(a, Var) and isinstance(b, Var)) or a in table or b in table.values() or ranges.get(a) != ranges.get(b):
            raise Refusal(f"block {first.name} does not set, one for one, the elements that block {last.name} updates", marks,
                          code="form")
        table[a] = b
    for iv in last.iter_vars:
        if (iv.var in table.values()) == (iv.kind == "reduce") and int_value(iv.dom.extent) != 1:
            raise Refusal(f"iterator {iv.var.name} of block {last.name} is {iv.kind}, and {store.buffer.name} is "
                          f"{'' if iv.var in table.values() else 'not '}indexed by it", [last.ident], code="form")
    never = next((iv for iv in last.iter_vars if int_value(iv.dom.extent) == 0), None)
    if never is not None:
        raise Refusal(f"iterator {never.var.name} of block {last.name} takes no value: nothing would be set", [last.ident],
                      code="domain")
    left = [iv for iv in first.iter_vars if iv.var not in table and int_value(iv.dom.extent) != 1]
    if left or any(v not in table for v in free_vars(begin.value)):
        raise Refusal(f"block {first.name} depends on more than the element that it sets", [first.ident], code="index")
    return table


def _nobody_between(state: State, first: Block, last: Block, begin: BufferStore) -> None:
    """Refuses others that touch the buffer before the update, or that change what the initial value reads."""
    blocks = [s.block for s in walk(scope_of(state, first)) if isinstance(s, BlockRealize)]
    order = [b.ident for b in blocks]
    used: set[Buffer] = {e.buffer for e in walk_expr(begin.value) if isinstance(e, BufferLoad)}
    at, until = order.index(first.ident), order.index(last.ident)
    if at > until:
        raise Refusal(f"block {first.name} comes after block {last.name}", [first.ident, last.ident], code="order")
    for n, block in enumerate(blocks):
        if n in (at, until):
            continue
        touched = {r.buffer for r in (*block.reads, *block.writes)} if n < until else {r.buffer for r in block.writes}
        if begin.buffer in touched or (at < n < until and used & {r.buffer for r in block.writes}):
            raise Refusal(f"block {block.name} touches {begin.buffer.name}, or what it starts with, as well", [block.ident],
                          code="form")
