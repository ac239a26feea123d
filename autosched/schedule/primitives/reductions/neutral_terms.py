"""Padding that is not zero: where it is read instead of where it is stored, and left out where it changes nothing."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, all_of, as_expr, cast, if_then_else, int_value
from autosched.ir.functor import Mutator, substitute
from autosched.ir.patterns import has_loads
from autosched.ir.region import block_access
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Stmt
from autosched.schedule.analysis.boxes import bind_all, bindings
from autosched.schedule.analysis.dependence import names, reduce_iters, scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


class NeutralTerms(ScheduleBase):
    """Primitives for padding by another constant than zero."""

    @primitive
    def zero_padding(self, block: BlockRV | str) -> None:
        """Pads with zeros, and lets readers take the constant that was there from the condition.

        Args:
            block: handle or name of a block ``P[i] = if_then_else(inside, value, constant)`` at its plain iterators, the only
                writer of P, which is no parameter.

        Raises:
            ScheduleError: a block of another form, a constant that is zero already.

        Before::

            P = T.sblock_alloc_buffer((18,), "int32")
            for i in range(18):
                with T.sblock("P"):
                    vi = T.axis.spatial(18, i)
                    P[vi] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1], -128)
            for i, k in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -128
                    C[vi] = T.max(C[vi], P[vi + vk])

        After ``sch.zero_padding("P")``::

            P = T.sblock_alloc_buffer((18,), "int32")
            for i in range(18):
                with T.sblock("P"):
                    vi = T.axis.spatial(18, i)
                    P[vi] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1], 0)
            for i, k in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -128
                    C[vi] = T.max(C[vi], T.if_then_else(1 <= vi + vk and vi + vk < 17, P[vi + vk], -128))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _zeroed(state, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)

    @primitive
    def drop_neutral_terms(self, block: BlockRV | str) -> None:
        """Skips the terms of a maximum or minimum that cannot change it, because they are a constant that it starts beyond.

        Args:
            block: handle or name of a block that updates a maximum or minimum; its initial value is a constant that another
                block sets, no less than the term's (for a minimum: no more).

        Raises:
            ScheduleError: a block with an init, another body, no term that is known to change nothing.

        Before::

            P = T.sblock_alloc_buffer((18,), "int32")
            for i in range(18):
                with T.sblock("P"):
                    vi = T.axis.spatial(18, i)
                    P[vi] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1], 0)
            for i in range(16):
                with T.sblock("C_init"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = -128
                for k in range(3):
                    with T.sblock("C_update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = T.max(C[vi], T.if_then_else(1 <= vi + vk and vi + vk < 17, P[vi + vk], -128))

        After ``sch.drop_neutral_terms("C_update")``::

            P = T.sblock_alloc_buffer((18,), "int32")
            for i in range(18):
                with T.sblock("P"):
                    vi = T.axis.spatial(18, i)
                    P[vi] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1], 0)
            for i in range(16):
                with T.sblock("C_init"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = -128
                for k in range(3):
                    with T.sblock("C_update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        T.where(1 <= i + k and i + k < 17)
                        C[vi] = T.max(C[vi], P[vi + vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _dropped(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize): new})


def _zeroed(state: State, block: Block) -> Stmt:
    store = block.body
    scope = scope_of(state, block)
    value = store.value if isinstance(store, BufferStore) else None
    padding = isinstance(value, Call) and value.op == "if_then_else" and int_value(value.args[2]) is not None
    if block.init is not None or not padding:
        raise Refusal(f"block {block.name} is no padding: if_then_else(inside, value, constant)", [block.ident], code="form")
    assert isinstance(store, BufferStore) and isinstance(value, Call)
    condition, inside, other = value.args
    if int_value(other) == 0:
        raise Refusal(f"block {block.name} pads with zeros already", [block.ident], code="form")
    variables = [i for i in store.indices if isinstance(i, Var)]
    if len(set(variables)) != len(variables) or any(not isinstance(i, Var) and int_value(i) is None for i in store.indices):
        raise Refusal(f"block {block.name} does not store at its plain iterators", [block.ident], code="index")
    require_alone(state, scope, block, store.buffer)
    zero = IntImm(0, other.dtype)
    table: dict[int, Stmt | None] = {
        id(block): replace(block, body=BufferStore(store.buffer, store.indices, if_then_else(condition, inside, zero)))
    }
    assert isinstance(other, IntImm)
    readers = _Guarded(store, condition, other)
    for reader in state.readers(scope, store.buffer):
        table[id(reader)] = readers.visit_block(reader)
    return state.rewrite(table)


def require_alone(state: State, scope: Block, block: Block, buffer: Buffer) -> None:
    """Refuses a tensor that others than a scope's blocks may read, or others than one block write.

    Args:
        state: the schedule's.
        scope: around the block.
        block: that writes it.
        buffer: the tensor.

    Raises:
        Refusal: as it says.
    """
    if all(b is not buffer for b in scope.alloc_buffers):
        raise Refusal(f"{buffer.name} is not allocated in {scope.name}: others may read it", [block.ident], code="output")
    writers = state.writers(scope, buffer)
    if len(writers) != 1:
        raise Refusal(f"{buffer.name} is written by {names(writers)}", [w.ident for w in writers], code="writer")


class _Guarded(Mutator):
    """Loads of a padded buffer, and their conversions, under its condition."""

    def __init__(self, store: BufferStore, condition: Expr, other: IntImm) -> None:
        self.store, self.condition, self.other = store, condition, other

    def visit_expr(self, expr: Expr) -> Expr:
        load = expr.value if isinstance(expr, Cast) else expr
        if not (isinstance(load, BufferLoad) and load.buffer is self.store.buffer):
            return super().visit_expr(expr)
        at = {v: i for v, i in zip(self.store.indices, load.indices) if isinstance(v, Var)}
        other = cast(expr.dtype, self.other) if isinstance(expr, Cast) else self.other
        return if_then_else(substitute(self.condition, at), expr, other)


def _dropped(state: State, realize: BlockRealize) -> BlockRealize:
    block = realize.block
    if block.init is not None:
        raise Refusal(f"block {block.name} sets its initial value itself, in its first term, which may be one of those to drop",
                      [block.ident], "decompose_reduction first", code="reduction")
    store = block.body
    value = store.value if isinstance(store, BufferStore) else None
    if not (isinstance(store, BufferStore) and isinstance(value, BinOp) and value.op in ("min", "max")):
        raise Refusal(f"block {block.name} is no minimum or maximum", [block.ident], code="form")
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    if own not in (value.a, value.b):
        raise Refusal(f"block {block.name} does not update {store.buffer.name}", [block.ident], code="form")
    term = value.b if value.a == own else value.a
    guarded = isinstance(term, Call) and term.op == "if_then_else"
    constant = int_value(term.args[2]) if isinstance(term, Call) and guarded else None
    start = _start(state, block, store.buffer)
    if not isinstance(term, Call) or constant is None or not leaves(value.op, start, constant):
        raise Refusal(f"no term of block {block.name} is known to leave the {value.op} as it is, which starts with {start}",
                      [block.ident], "an operand if_then_else(inside, value, constant): zero_padding makes one", code="form")
    analyzer = Analyzer({iv.var: iv.dom for iv in block.iter_vars})
    found = [simple for c in conjuncts(term.args[0]) if (simple := analyzer.simplify(c)) != as_expr(True)
             and not analyzer.can_prove(simple)]
    loops = bind_all(Analyzer(), state.loops.values())
    values = bindings(realize)
    extra = [loops.simplify(substitute(c, values)) for c in found]
    body = BufferStore(store.buffer, store.indices, BinOp(value.op, own, term.args[1], value.dtype))
    new = replace(block, body=body)
    reads, writes = block_access(new)
    order = {r.buffer: k for k, r in enumerate(block.reads)}
    new = replace(new, reads=tuple(sorted(reads, key=lambda r: order.get(r.buffer, len(order)))), writes=writes)
    return BlockRealize(realize.iter_values, all_of([realize.predicate, *[c for c in extra if c != as_expr(True)]]), new)


def leaves(op: str, start: int, constant: int) -> bool:
    """Whether a constant never changes an extremum.

    Args:
        op: min or max; a sum is none.
        start: what it starts with.
        constant: what it takes in.
    """
    return constant <= start if op == "max" else op == "min" and constant >= start


def _start(state: State, block: Block, buffer: Buffer) -> int:
    """The constant that a reduction starts with."""
    writers = [w for w in state.writers(scope_of(state, block), buffer) if w.ident is not block.ident]
    starts = [w.body for w in writers if isinstance(w.body, BufferStore) and not reduce_iters(w)]
    found = int_value(starts[0].value) if len(starts) == 1 and len(writers) == 1 else None
    if found is None or has_loads(*[s.value for s in starts]):
        raise Refusal(f"the initial value of {buffer.name} is not one store of a constant",
                      [block.ident, *[w.ident for w in writers]], "decompose_reduction first", code="reduction")
    return found
