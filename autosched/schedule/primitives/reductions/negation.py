"""Differences as sums: add_negative, negate_sum, negate_factor. What the ALU does grows with its operands: it takes none away."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import (
    BinOp,
    BufferLoad,
    Cast,
    Expr,
    IntImm,
    Var,
    binary,
    cast,
    const,
    eq,
    if_then_else,
    int_value,
    maximum,
    minimum,
)
from autosched.ir.functor import Mutator, rewrite, walk_expr
from autosched.ir.host import PACK, kind_of
from autosched.ir.patterns import is_widened, loads_from
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, IterVar, Range, Stmt, seq
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import is_output, scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.analysis.ways import readers
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling, loop_of, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store, plain_stores, top_of
from autosched.schedule.primitives.reductions.zero_terms import Replaced, sum_term


class Negation(ScheduleBase):
    """Primitives that add what was taken away."""

    @primitive
    def add_negative(self, block: BlockRV | str, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Adds the negative of a tensor, made by a stage of its own, where a block takes the tensor away.

        Elements of int8 are taken away as int32, and so are their negatives. What else the block does with the tensor stays.

        Args:
            block: handle or name of a block, alone in its loops, that stores a value of integers.
            read_buffer_index: the tensor, a parameter that nobody writes, or made by a host stage: position among what the block
                reads, name, or buffer.

        Returns:
            The block of the stage.

        Raises:
            ScheduleError: the block takes nothing of the tensor away (``x - T[..]``); somebody writes it.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2 - B[vi]

        After ``sch.add_negative("C", "B")``::

            B_negative = T.sblock_alloc_buffer((16,), "int32")
            for i0 in range(16):
                with T.sblock("B_negative"):
                    v0 = T.axis.spatial(16, i0)
                    B_negative[v0] = 0 - B[v0]
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2 + B_negative[vi]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        operand = realize.block.reads[self.block_region_buffer(realize.block, read_buffer_index, "read")].buffer
        try:
            body, made = _added(state, realize, operand)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)

    @primitive
    def negate_sum(self, block: BlockRV | str, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Makes a sum of products negative, by one of its int8 factors, where all that reads it takes it away.

        Of a sum that itself takes products away (``S[..] - a * b``, or ``S[..] + a * b * -1``) the products are made negative,
        and added: who reads it reads the same.

        The negative of -128 is no int8: unless the declared range excludes it, the factor becomes two that are summed over, the
        second of which is 1 there and 0 elsewhere.

        Args:
            block: handle or name of a block with init, alone in its loops, that adds up products of two int8 tensors, or takes
                them away.
            read_buffer_index: the factor, a parameter that nobody writes: position among what the block reads, name, or buffer.

        Returns:
            The block of the negative factor.

        Raises:
            ScheduleError: another body; a factor that somebody writes; a reader that does more than ``x - S[..]``.

        Before::

            S = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 4):
                with T.sblock("S"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        S[vi] = 0
                    S[vi] = S[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", W[vi, vk])
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] - S[vi]

        After ``sch.negate_sum("S", "W")``::

            S_negative = T.sblock_alloc_buffer((16,), "int32")
            W_negative = T.sblock_alloc_buffer((16, 4), "int8")
            for i0, i1 in T.grid(16, 4):
                with T.sblock("W_negative"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    W_negative[v0, v1] = T.Cast("int8", T.min(0 - T.Cast("int32", W[v0, v1]), 127))
            for i, k in T.grid(16, 4):
                with T.sblock("S"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        S_negative[vi] = 0
                    S_negative[vi] = S_negative[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", W_negative[vi, vk])
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + S_negative[vi]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        operand = realize.block.reads[self.block_region_buffer(realize.block, read_buffer_index, "read")].buffer
        try:
            body, made = _negated(state, realize, operand)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


    @primitive
    def negate_factor(self, block: BlockRV | str, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Adds the products of a parameter's negative, made by a stage of its own, where a block takes products with it away.

        The negative of -128 is no int8: unless the declared range excludes it, the stage makes the complement, -1 - W, and what
        W is multiplied by is added once more.

        Args:
            block: handle or name of a block, alone in its loops, that takes products of two int8 elements, cast to int32, away.
            read_buffer_index: the factor, a parameter that nobody writes: position among what the block reads, name, or buffer.

        Returns:
            The block of the stage.

        Raises:
            ScheduleError: no such product is taken away; a factor of another type, or one that somebody writes.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] - T.Cast("int32", A[vi]) * T.Cast("int32", W[vi])

        After ``sch.negate_factor("C", "W")``::

            W_complement = T.sblock_alloc_buffer((16,), "int8")
            for i0 in range(16):
                with T.sblock("W_complement"):
                    v0 = T.axis.spatial(16, i0)
                    W_complement[v0] = T.Cast("int8", -1 - T.Cast("int32", W[v0]))
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + T.Cast("int32", A[vi]) * T.Cast("int32", W_complement[vi]) + T.Cast("int32", A[vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        operand = realize.block.reads[self.block_region_buffer(realize.block, read_buffer_index, "read")].buffer
        try:
            body, made = _other_factor(state, realize, operand)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def products_away(value: Expr) -> list[tuple[BufferLoad, BufferLoad]]:
    """The factors of the products of two int8 elements that a value takes away.

    Args:
        value: any expression.
    """
    found = [factors_of(e.b) for e in walk_expr(value) if isinstance(e, BinOp) and e.op == "-"]
    return [f for f in found if f is not None]


def factors_of(value: Expr) -> tuple[BufferLoad, BufferLoad] | None:
    """The two int8 elements that a value is the product of, in int32; None for any other.

    Args:
        value: any expression.
    """
    if not (isinstance(value, BinOp) and value.op == "*" and is_widened(value.a) and is_widened(value.b)):
        return None
    loads = [f.value for f in (value.a, value.b) if isinstance(f, Cast)]
    a, b = (x for x in loads if isinstance(x, BufferLoad))
    return a, b


def subtrahends(value: Expr) -> list[BufferLoad]:
    """The elements of int32 tensors that a value takes away, as they are."""
    return [e.b for e in walk_expr(value) if isinstance(e, BinOp) and e.op == "-" and isinstance(e.b, BufferLoad)
            and e.dtype == e.b.dtype == "int32"]


class _Plus(Mutator):
    """Adds what is loaded from one buffer where what is loaded from another is taken away."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def visit_expr(self, expr: Expr) -> Expr:
        taken = expr.b if isinstance(expr, BinOp) and expr.op == "-" else None
        if isinstance(taken, Cast) and is_widened(taken) and self.new.dtype == taken.dtype:
            taken = taken.value
        if not (isinstance(expr, BinOp) and isinstance(taken, BufferLoad) and taken.buffer is self.old):
            return super().visit_expr(expr)
        return binary("+", self.visit_expr(expr.a), BufferLoad(self.new, self.visit_exprs(taken.indices), expr.dtype))


def only_taken_away(block: Block, buffer: Buffer) -> bool:
    """Whether a block that reads a tensor does no more with it than to take its elements away."""
    try:
        taken_away(block, buffer, Buffer(buffer.name, buffer.shape, buffer.dtype))
    except Refusal:
        return False
    return True


def taken_away(block: Block, old: Buffer, new: Buffer, alone: bool = True) -> Block:
    """A block that adds from one buffer what it took away from another.

    Args:
        block: one plain store.
        old: what it takes elements of away.
        new: where their negatives are.
        alone: whether it may do nothing else with these elements.

    Raises:
        Refusal: it uses that otherwise, or takes nothing of it away.
    """
    store, first = plain_stores(block)
    value = _Plus(old, new).visit_expr(store.value)
    begin = None if first is None else replace(first, value=_Plus(old, new).visit_expr(first.value))
    made = (value, *store.indices, *(() if begin is None else (begin.value,)))
    if any(loads_from(e, old) for e in made) if alone else not any(loads_from(e, new) for e in made):
        raise Refusal(f"block {block.name} does {'more' if alone else 'something else'} with {old.name} than to take it away "
                      f"(x - {old.name}[..])", [block.ident], code="reader")
    return with_access(replace(block, init=begin, body=BufferStore(store.buffer, store.indices, value)))


class _Times(Mutator):
    """Adds products with another factor, and what is multiplied by it once more if asked to, where products are taken away."""

    def __init__(self, old: Buffer, new: Buffer, once_more: bool) -> None:
        self.old, self.new, self.once_more = old, new, once_more

    def visit_expr(self, expr: Expr) -> Expr:
        factors = factors_of(expr.b) if isinstance(expr, BinOp) and expr.op == "-" else None
        if factors is None or not isinstance(expr, BinOp) or all(f.buffer is not self.old for f in factors):
            return super().visit_expr(expr)
        other, own = factors if factors[1].buffer is self.old else factors[::-1]
        widened = cast("int32", other)
        made = binary("+", self.visit_expr(expr.a), widened * cast("int32", BufferLoad(self.new, own.indices, "int8")))
        return binary("+", made, widened) if self.once_more else made


def _other_factor(state: State, realize: BlockRealize, operand: Buffer) -> tuple[Stmt, Block]:
    block = realize.block
    scope = scope_of(state, block)
    require_given(state, block, operand, "int8")
    store = plain_store(block, alone=True)
    top = top_of(state, realize)
    complement = ValueBounds(state.func).of_buffer(operand)[0] == dtype_bounds("int8")[0]
    name = fresh_name(f"{operand.name}_{'complement' if complement else 'negative'}",
                      {*state.block_names(), *state.buffer_names(scope)})
    made = Buffer(name, operand.shape, "int8")
    value = _Times(operand, made, complement).visit_expr(store.value)
    if value == store.value:
        raise Refusal(f"block {block.name} takes no product of {operand.name} away "
                      f"(x - cast(int32, {operand.name}[..]) * cast(int32, y[..]))", [block.ident], code="form")
    stage = filling(name, made, lambda at: cast("int8", binary(
        "-", const(-1 if complement else 0), cast("int32", BufferLoad(operand, at, "int8")))))
    new = with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))
    changed = rewrite(top, realize, replace(realize, block=new))
    body = state.rewrite({id(top): seq(own_nest(stage, "i"), changed)}, {id(scope): (*scope.alloc_buffers, made)})
    return body, stage


def require_given(state: State, block: Block, operand: Buffer, dtype: str) -> None:
    """Refuses what is not of a type, or no parameter that the program only reads, nor what the host makes of such.

    Args:
        state: the program.
        block: reads it.
        operand: what it reads.
        dtype: of its elements.

    Raises:
        Refusal: of another type, or somebody else writes it.
    """
    writers = state.writers(scope_of(state, block), operand)
    given = bool(writers) if operand not in state.func.buffers else not writers
    if not given or any(kind_of(w) != PACK for w in writers):
        raise Refusal(f"{operand.name} is not a parameter that the program only reads, nor what the host makes of one",
                      [block.ident, *(w.ident for w in writers)], code="writer")
    if operand.dtype != dtype:
        raise Refusal(f"{operand.name} is {operand.dtype}, and not {dtype}", [block.ident], code="form")


def _added(state: State, realize: BlockRealize, operand: Buffer) -> tuple[Stmt, Block]:
    block = realize.block
    scope = scope_of(state, block)
    require_given(state, block, operand, "int8" if operand.dtype == "int8" else "int32")
    top = top_of(state, realize)
    name = fresh_name(f"{operand.name}_negative", {*state.block_names(), *state.buffer_names(scope)})
    buffer = Buffer(name, operand.shape, "int32")
    new = taken_away(block, operand, buffer, False)
    made = filling(name, buffer, lambda at: binary("-", const(0), cast("int32", BufferLoad(operand, at, operand.dtype))))
    changed = rewrite(top, realize, replace(realize, block=new))
    return state.rewrite({id(top): seq(own_nest(made, "i"), changed)}, {id(scope): (*scope.alloc_buffers, buffer)}), made


def _negated(state: State, realize: BlockRealize, operand: Buffer) -> tuple[Stmt, Block]:
    block = realize.block
    scope = scope_of(state, block)
    away = sum_away(block)
    store, term = sum_term(block) if away is None else (plain_store(block), away)
    require_given(state, block, operand, "int8")
    if store.buffer.dtype != "int32" or (away is None and is_output(block, scope)):
        raise Refusal(f"block {block.name} makes {store.buffer.name}, which is {store.buffer.dtype} and "
                      f"{'a result' if is_output(block, scope) else 'in between'}, and not int32 and in between", [block.ident],
                      code="output")
    factor = _factor(block, term, operand)
    if not isinstance(block.init, BufferStore):
        raise Refusal(f"block {block.name} starts with no value of its own", [block.ident], readers(state, block),
                      code="reduction")
    top = top_of(state, realize)
    taken = {*state.block_names(), *state.buffer_names(scope)}
    twice = ValueBounds(state.func).of_buffer(operand)[0] == dtype_bounds("int8")[0]
    name = fresh_name(f"{operand.name}_negative", taken)
    made = Buffer(name, (*([IntImm(2)] if twice else []), *operand.shape), "int8")
    part = Var(fresh_name("vs", {iv.var.name for iv in block.iter_vars}), "int32")
    table: dict[int, Stmt | None] = {}
    total = store.buffer if away is not None else Buffer(fresh_name(f"{store.buffer.name}_negative", taken), store.buffer.shape,
                                                         "int32")
    if away is None:
        require_blocks(state, scope, (), (store.buffer,))
    for reader in state.consumers(block) if away is None else ():
        table[id(reader)] = taken_away(reader, store.buffer, total)

    def value(at: tuple[Var, ...]) -> Expr:
        load = cast("int32", BufferLoad(operand, at[twice:], "int8"))
        most = minimum(binary("-", const(0), load), 127)
        return cast("int8", if_then_else(eq(at[0], 0), most, maximum(binary("-", const(-127), load), 0)) if twice else most)

    spread = BufferLoad(made, (*([part] if twice else []), *factor.indices), "int8")
    own = BufferLoad(total, store.indices, "int32")
    new = with_access(replace(
        block, iter_vars=(*block.iter_vars, *([IterVar(part, Range(IntImm(0), IntImm(2)), "reduce")] if twice else [])),
        init=BufferStore(total, store.indices, _negative(block.init.value)) if away is None else block.init,
        body=BufferStore(total, store.indices, binary("+", own, Replaced(factor, spread).visit_expr(term))),
    ))
    loop = loop_of(part)
    inner: Stmt = BlockRealize((*realize.iter_values, *([loop] if twice else [])), realize.predicate, new)
    if twice:
        inner = For(loop, IntImm(0), IntImm(2), "serial", inner)
    stage = filling(name, made, value)
    allocs = tuple([total if b is store.buffer else b for b in scope.alloc_buffers])
    table[id(top)] = seq(own_nest(stage, "i"), rewrite(top, realize, inner))
    return state.rewrite(table, {id(scope): (*allocs, made)}), stage


def sum_away(block: Block) -> Expr | None:
    """What a sum takes away in each step, as a difference or multiplied by -1; None of any other block.

    Args:
        block: any.
    """
    store = block.body
    value = store.value if isinstance(store, BufferStore) and block.init is not None else None
    if not isinstance(store, BufferStore) or not isinstance(value, BinOp) or value.op not in ("+", "-"):
        return None
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    if value.op == "-":
        return value.b if value.a == own else None
    term = value.b if value.a == own else value.a
    if own not in (value.a, value.b) or not (isinstance(term, BinOp) and term.op == "*"):
        return None
    return next((x for x, by in ((term.a, term.b), (term.b, term.a)) if int_value(by) == -1), None)


def _negative(value: Expr) -> Expr:
    """The negative of a value, in which no difference is taken away: it is one the other way round."""
    if isinstance(value, BinOp) and value.op == "-":
        return value.b if int_value(value.a) == 0 else binary("-", value.b, value.a)
    if isinstance(value, BinOp) and value.op == "+":
        return binary("-", _negative(value.a), value.b)
    return binary("-", const(0), value)


def _factor(block: Block, term: Expr, operand: Buffer) -> BufferLoad:
    """The one load of an operand that is a factor of a product.

    Raises:
        Refusal: there is none, or the other factor reads it as well.
    """
    sides = (term.a, term.b) if isinstance(term, BinOp) and term.op == "*" else ()
    loads = [s.value if isinstance(s, Cast) and s.dtype == "int32" else s for s in sides]
    found = [x for x in loads if isinstance(x, BufferLoad) and x.buffer is operand]
    if len(found) != 1 or sum(e.buffer is operand for e in walk_expr(term) if isinstance(e, BufferLoad)) != 1:
        raise Refusal(f"{operand.name} is not one of two int8 factors, cast to int32, of what block {block.name} adds up",
                      [block.ident], code="form")
    return found[0]
