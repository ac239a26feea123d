"""A constant that a sum is multiplied by, in its terms: scale_terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, binary, const, int_value, wrap
from autosched.ir.functor import Mutator
from autosched.ir.patterns import is_shifted, loads_from
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Stmt
from autosched.schedule.analysis.dependence import is_output, scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.analysis.ways import readers
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_stores
from autosched.schedule.primitives.reductions.zero_terms import sum_term


class Scaling(ScheduleBase):
    """The primitive that multiplies ahead of a sum."""

    @primitive
    def scale_terms(self, block: BlockRV | str) -> None:
        """Multiplies every term of a sum by the constant that all its readers multiply the sum by: exact modulo 2**32.

        Of int8 elements the GEMM sums up the products with a constant for nothing, where the ALU multiplies by shifts and sums.
        Who takes the sum away (``x - S[..]``) multiplies it by -1, and adds it then.

        Args:
            block: handle or name of a block that sums up int32 terms from a constant, for readers that all multiply every element
                by one and the same constant, or take it away.

        Raises:
            ScheduleError: no sum, or a result; a start that is no constant; a reader that does anything else with the sum, or
                multiplies it by another constant.

        Before::

            S = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 9):
                with T.sblock("S"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        S[vi] = 0
                    S[vi] = S[vi] + T.Cast("int32", A[vi, vk])
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(S[vi] * 57, 9)

        After ``sch.scale_terms("S")``::

            S_scaled = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 9):
                with T.sblock("S"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        S_scaled[vi] = 0
                    S_scaled[vi] = S_scaled[vi] + T.Cast("int32", A[vi, vk]) * 57
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(S_scaled[vi], 9)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _scaled(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


def common_factor(state: State, block: Block, buffer: Buffer) -> int | None:
    """The one constant that all blocks that read what a block makes multiply every element of it by; None where there is none.

    Args:
        state: the program.
        block: makes the tensor.
        buffer: the tensor.
    """
    found, new = set[int](), Buffer(buffer.name, buffer.shape, buffer.dtype)
    for reader in state.consumers(block):
        try:
            found |= _taken(state, reader, buffer, new)[1]
        except Refusal:
            return None
    return found.pop() if len(found) == 1 else None


class _Taken(Mutator):
    """Loads from another buffer where a load is multiplied by a constant, or taken away; by which is noted."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new
        self.factors = set[int]()

    def visit_expr(self, expr: Expr) -> Expr:
        for load, factor in _products(expr):
            if isinstance(load, BufferLoad) and load.buffer is self.old:
                self.factors.add(factor)
                return BufferLoad(self.new, self.visit_exprs(load.indices), load.dtype)
        if isinstance(expr, BinOp) and expr.op == "-" and expr.dtype == "int32":
            away = expr.b
            if isinstance(away, BufferLoad) and away.buffer is self.old:
                self.factors.add(-1)
                return binary("+", self.visit_expr(expr.a), BufferLoad(self.new, self.visit_exprs(away.indices), away.dtype))
        return super().visit_expr(expr)


def _products(expr: Expr) -> Iterator[tuple[Expr, int]]:
    """What is multiplied by a constant, or shifted left by one, and by which factor."""
    if isinstance(expr, BinOp) and expr.op == "*" and expr.dtype == "int32":
        yield from ((x, by) for x, other in ((expr.a, expr.b), (expr.b, expr.a)) if (by := int_value(other)) is not None)
    if is_shifted(expr, "shift_left") and isinstance(expr, Call) and expr.dtype == "int32":
        amount = int_value(expr.args[1])
        assert amount is not None
        yield expr.args[0], wrap(1 << amount, "int32")


def _taken(state: State, reader: Block, old: Buffer, new: Buffer) -> tuple[Block, set[int]]:
    """A block that reads what is multiplied already, and by which constants it multiplied itself.

    Raises:
        Refusal: it uses the sum otherwise, be it to say where it runs.
    """
    store, first = plain_stores(reader)
    realize = state.realizes[reader.ident]
    taken = _Taken(old, new)
    value = taken.visit_expr(store.value)
    begin = None if first is None else replace(first, value=taken.visit_expr(first.value))
    around = (realize.predicate, *realize.iter_values, *store.indices)
    if any(loads_from(e, old) for e in (value, *around, *(() if begin is None else (begin.value,)))):
        raise Refusal(f"block {reader.name} does more with {old.name} than to multiply it by a constant, or to take it away",
                      [reader.ident], code="reader")
    return with_access(replace(reader, init=begin, body=replace(store, value=value))), taken.factors


def _scaled(state: State, realize: BlockRealize) -> Stmt:
    block = realize.block
    scope = scope_of(state, block)
    store, term = sum_term(block)
    old = store.buffer
    if old.dtype != "int32" or is_output(block, scope):
        raise Refusal(f"block {block.name} makes {old.name}, which is {old.dtype} and "
                      f"{'a result' if is_output(block, scope) else 'in between'}, and not int32 and in between", [block.ident],
                      code="output")
    start = int_value(block.init.value) if isinstance(block.init, BufferStore) else None
    if start is None:
        raise Refusal(f"block {block.name} starts with no constant of its own", [block.ident], readers(state, block),
                      code="reduction")
    require_blocks(state, scope, (), (old,))
    others = [w for w in state.writers(scope, old) if w is not block]
    if others or loads_from(term, old):
        raise Refusal(f"{old.name} is more than what block {block.name} sums up: "
                      f"{f'block {others[0].name} writes it' if others else 'a term reads it'}", [block.ident], code="writer")
    by = common_factor(state, block, old)
    if by is None:
        raise Refusal(f"what reads {old.name} does not multiply every element of it by one constant, nor takes all away",
                      [block.ident], code="reader")
    new = Buffer(fresh_name(f"{old.name}_scaled", {*state.block_names(), *state.buffer_names(scope)}), old.shape, "int32")
    table: dict[int, Block] = {}
    for reader in state.consumers(block):
        table[id(reader)] = _taken(state, reader, old, new)[0]
    own = BufferLoad(new, store.indices, "int32")
    table[id(block)] = with_access(replace(
        block, init=BufferStore(new, store.indices, const(wrap(start * by, "int32"))),
        body=BufferStore(new, store.indices, binary("+", own, binary("*", term, const(by))))))
    return state.rewrite(table, {id(scope): tuple([new if b is old else b for b in scope.alloc_buffers])})
