"""Element-wise work as matrix products: a diagonal operand, or an identity, makes it a sum that the GEMM computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from autosched.ir.constant import Array, constant, values
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, cast, const, eq, if_then_else, int_value
from autosched.ir.functor import Mutator, all_exprs, free_vars, rewrite, substitute, walk_expr
from autosched.ir.host import HOST_STAGE, PACK, host_faults, kind_of
from autosched.ir.patterns import loads_from
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Constant, For, IterVar, Stmt, seq
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import filling, loop_of, own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.zero_terms import Replaced, sum_term

LEAST_FACTOR, MOST_FACTOR = dtype_bounds("int8")  # what an element of the identity holds


class Diagonals(ScheduleBase):
    """Primitives that make sums of what was element-wise."""

    @primitive
    def diagonalize(self, block: BlockRV | str, axis: int, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Sums over a diagonal operand instead of multiplying element by element, so that a matrix product computes it.

        Args:
            block: handle or name of a block that stores, or sums up, products of two integer operands, or of a
                parameter's elements with others of it: then the accelerator reads a copy of it as well.
            axis: position of a spatial iterator among the block's iterators; it is a plain index of both operands.
            read_buffer_index: the operand that becomes diagonal: position among what the block reads, name, or the buffer.

        Returns:
            The block of the diagonal operand: a host stage where the operand is a parameter.

        Raises:
            ScheduleError: another body, an axis that is not a plain index of both operands, once each; elements by each other of
                what the program computes.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int32", A[vi]) * T.Cast("int32", W[vi])

        After ``sch.diagonalize("C", 0, 1)``::

            W_diagonal = T.sblock_alloc_buffer((16, 16), "int8")
            for i0, i1 in T.grid(16, 16):
                with T.sblock("W_diagonal"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    T.sblock_attr({"host_stage": "pack"})
                    W_diagonal[v0, v1] = T.if_then_else(v0 == v1, W[v0], T.int8(0))
            for i, i_k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vi_k = T.axis.remap("SR", [i, i_k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi_k]) * T.Cast("int32", W_diagonal[vi, vi_k])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _diagonal(state, realize, axis, self._read(realize.block, read_buffer_index))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        func = replace(state.func, body=body)
        if made.annotations and next(host_faults(func), None) is not None:
            # What it reads is made by the accelerator: then so is the diagonal.
            self.commit(state, body)
            new, site = self.block_at(self.block_rv(made))
            self.commit_nodes(new, {id(site.block): replace(site.block, annotations={})})
        else:
            self.commit(state, func=func)
        return self.block_rv(made)

    @primitive
    def cast_by_gemm(self, block: BlockRV | str, axis: int, read_buffer_index: int | str | Buffer) -> None:
        """Widens an int8 operand by a matrix product with an identity (times a constant), instead of on the ALU.

        What is added to the operand becomes the initial value of the sum: in place that is nothing to do, and the operand costs
        a cycle per vector and a quarter of the bytes of an int32 tensor. The identity is a constant of the program. A block that
        sums such operands over a window becomes a sum of products, without any widened copy.

        Args:
            block: handle or name of a block that stores ``cast(int32, x)``, shifted left or multiplied by a constant of -128 to
                127 if anything, alone or added to something; or that sums it up, over a window.
            axis: position of a spatial iterator among the block's iterators, a plain index of the operand.
            read_buffer_index: the operand: position among what the block reads, name, or the buffer itself.

        Raises:
            ScheduleError: another body or type, a factor that no int8 holds, an axis that is not a plain index of the operand,
                once.

        Before::

            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = C[vi] + T.Cast("int32", R[vi]) * 4

        After ``sch.cast_by_gemm("D", 0, 1)``::

            for i, i_k in T.grid(16, 16):
                with T.sblock("D"):
                    vi, vi_k = T.axis.remap("SR", [i, i_k])
                    with T.init():
                        D[vi] = C[vi]
                    D[vi] = D[vi] + T.Cast("int32", R[vi_k]) * T.Cast("int32", eye_4[vi, vi_k])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, constants = _identity(state, realize, axis, self._read(realize.block, read_buffer_index))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=replace(state.func, body=body, constants=constants))

    @primitive
    def cache_cast(self, block: BlockRV | str, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Reads an operand from a copy that is int32 already, made by a stage of its own.

        Other blocks that convert all that they load of the operand read the copy as well.

        Args:
            block: handle or name of a block that converts every element of the operand that it loads to int32.
            read_buffer_index: the operand: position among what the block reads, name, or the buffer itself.

        Returns:
            The block of the copy.

        Raises:
            ScheduleError: a use of the operand that is not converted; what ``cache_read`` refuses.

        Before::

            for i, k in T.grid(16, 4):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -128
                    C[vi] = T.max(C[vi], T.Cast("int32", A[vi, vk]))

        After ``sch.cache_cast("C", 0)``::

            A_int32 = T.sblock_alloc_buffer((16, 4), "int32")
            for ax0, ax1 in T.grid(16, 4):
                with T.sblock("A_global"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    A_int32[v0, v1] = T.Cast("int32", A[v0, v1])
            for i, k in T.grid(16, 4):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -128
                    C[vi] = T.max(C[vi], A_int32[vi, vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        buffer = self._read(realize.block, read_buffer_index)
        name = buffer.name
        # Another reader of it may want it as it is.
        readers = [] if (scope := state.scope_of(realize.block)) is None else state.readers(scope, buffer)
        plain = [b for b in readers if b is not realize.block and not converts(b, buffer)]
        of = [self.block_rv(b) for b in readers if b not in plain] if plain else None
        copy = self.cache_read(block, name, "global", of)  # type: ignore[attr-defined]
        state, made = self.block_at(copy)
        narrow = made.block.writes[0].buffer
        wide = replace(narrow, name=f"{name}_int32", dtype="int32")
        widened = _Widened(narrow, wide).visit_stmt(state.func.body)
        if any(isinstance(e, BufferLoad) and e.buffer is narrow for e in _all(widened)):
            self.refuse(f"block {realize.block.name} uses {name} as {narrow.dtype} as well", [realize.block.ident],
                        hint="widen where it is used, with T.Cast", code="reader")
        self.commit(state, widened)
        return self.block_rv(made.block.ident)

    def _read(self, block: Block, which: int | str | Buffer) -> Buffer:
        return block.reads[self.block_region_buffer(block, which, "read")].buffer


def converts(block: Block, buffer: Buffer) -> bool:
    """Whether a block converts to int32 whatever it loads of a buffer.

    Args:
        block: it.
        buffer: of int8.
    """
    narrow = replace(buffer, name=f"{buffer.name}_int32", dtype="int32")
    widened = _Widened(buffer, narrow)
    stmts = [s for s in (block.init, block.body) if s is not None]
    return not any(isinstance(e, BufferLoad) and e.buffer is buffer for s in stmts for e in _all(widened.visit_stmt(s)))


class _Widened(Mutator):
    """A buffer as int32: conversions of what is loaded fall away, and what is stored is converted."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self.new if buffer is self.old else buffer

    def visit_load(self, load: BufferLoad) -> Expr:
        if load.buffer is not self.old:
            return super().visit_load(load)
        return BufferLoad(self.old, self.visit_exprs(load.indices), self.old.dtype)

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Cast) and expr.dtype == "int32" and isinstance(expr.value, BufferLoad):
            if expr.value.buffer is self.old:
                return BufferLoad(self.new, self.visit_exprs(expr.value.indices), "int32")
        return super().visit_expr(expr)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore) and stmt.buffer is self.old:
            return BufferStore(self.new, self.visit_exprs(stmt.indices), cast("int32", self.visit_expr(stmt.value)))
        return super().visit_stmt(stmt)


def _all(stmt: Stmt) -> list[Expr]:
    return list(all_exprs(stmt))


def iterator_of(block: Block, axis: int) -> IterVar:
    if not 0 <= axis < len(block.iter_vars):
        raise Refusal(f"block {block.name} has {len(block.iter_vars)} iterators; there is none at {axis}", [block.ident],
                      code="argument")
    found = block.iter_vars[axis]
    if found.kind != "spatial":
        raise Refusal(f"iterator {found.var.name} of block {block.name} is {found.kind}, not spatial", [block.ident],
                      code="argument")
    if int_value(found.dom.extent) is None or int_value(found.dom.min) != 0:
        raise Refusal(f"iterator {found.var.name} of block {block.name} has no constant extent from 0", [block.ident],
                      code="symbolic")
    return found


def _place(block: Block, load: BufferLoad, var: Var) -> int:
    """The one dimension of which an iterator is the plain index."""
    at = [d for d, i in enumerate(load.indices) if var in free_vars(i)]
    if len(at) != 1 or load.indices[at[0]] is not var:
        raise Refusal(f"{var.name} is not the plain index of one dimension of {load.buffer.name} in block {block.name}",
                      [block.ident], "transform_layout and transform_block_layout make it one", code="index")
    return at[0]


def _load(factor: Expr) -> BufferLoad | None:
    inner = factor.value if isinstance(factor, Cast) else factor
    return inner if isinstance(inner, BufferLoad) else None


def _diagonal(state: State, realize: BlockRealize, axis: int, operand: Buffer) -> tuple[Stmt, Block]:
    block = realize.block
    iv = iterator_of(block, axis)
    store, term = _term(block)
    if not (isinstance(term, BinOp) and term.op == "*"):
        raise Refusal(f"block {block.name} is no product of two operands", [block.ident], code="form")
    factors = {side: _load(f) for side, f in (("a", term.a), ("b", term.b))}
    # Of a square the second factor.
    which = next((side for side in ("b", "a") if (f := factors[side]) is not None and f.buffer is operand), None)
    other = factors["b" if which == "a" else "a"]
    if which is None or other is None:
        raise Refusal(f"{operand.name} is not one of two factors of block {block.name}", [block.ident], code="form")
    mine = factors[which]
    assert mine is not None
    dim = _place(block, mine, iv.var)
    _place(block, other, iv.var)
    extent = int_value(iv.dom.extent)
    if int_value(operand.shape[dim]) != extent:
        raise Refusal(f"dimension {dim} of {operand.name} is longer than iterator {iv.var.name}", [block.ident], code="index")
    scope = scope_of(state, block)
    k = Var(fresh_name(f"{iv.var.name}_k", {v.var.name for v in block.iter_vars}), iv.var.dtype)
    taken = {*state.block_names(), *state.buffer_names(scope)}
    name = fresh_name(f"{operand.name}_diagonal", taken)
    buffer = Buffer(name, (*operand.shape, iv.dom.extent), operand.dtype)
    made, nest = _stage(name, operand, buffer, dim)
    before = [(nest, buffer)]
    if other.buffer is operand and all(kind_of(w) is not None for w in state.writers(scope, operand)):
        # The accelerator reads a copy: what it loads of a square is not what the host goes on with.
        plain = fresh_name(f"{operand.name}_factor", taken)
        copy = Buffer(plain, operand.shape, operand.dtype)
        before.append((host_stage(plain, copy, lambda at: BufferLoad(operand, at, operand.dtype))[1], copy))
        other = BufferLoad(copy, other.indices, operand.dtype)
    spread = {which: BufferLoad(buffer, (*mine.indices, k), operand.dtype),
              "b" if which == "a" else "a": substitute(other, {iv.var: k})}
    product = [Replaced(old, spread[side]).visit_expr(getattr(term, side)) for side, old in factors.items() if old is not None]
    return summed(state, realize, scope, store, BinOp("*", product[0], product[1], term.dtype), k, iv, before), made


def _term(block: Block) -> tuple[BufferStore, Expr]:
    """The store of a block and what it adds, or stores where it is no sum."""
    if block.init is not None or not isinstance(block.body, BufferStore):
        return sum_term(block)
    store = block.body
    if loads_from(store.value, store.buffer):
        return sum_term(block)
    return store, store.value


def _stage(name: str, source: Buffer, buffer: Buffer, dim: int) -> tuple[Block, Stmt]:
    """The stage that spreads an operand out on a diagonal."""
    return host_stage(
        name, buffer, lambda at: if_then_else(eq(at[dim], at[-1]), source[at[:-1]], const(0, source.dtype))
    )


def host_stage(name: str, buffer: Buffer, value: Callable[[tuple[Var, ...]], Expr]) -> tuple[Block, Stmt]:
    """A stage of the host that makes all elements of a buffer, and its nest."""
    block = replace(filling(name, buffer, value), annotations={HOST_STAGE: PACK})
    return block, own_nest(block, "i")


def summed(
    state: State, realize: BlockRealize, scope: Block, store: BufferStore, term: Expr, k: Var, iv: IterVar,
    before: Sequence[tuple[Stmt, Buffer]], init: Expr | None = None,
) -> Stmt:
    """The program with a block that sums a term over one more iterator, innermost."""
    block = realize.block
    dtype = store.buffer.dtype
    total = store.value if block.init is not None or init is None else None
    own = BufferLoad(store.buffer, store.indices, dtype)
    is_sum = total is not None and any(e == own for e in walk_expr(total))
    start = init if init is not None else None if is_sum else const(0, dtype)
    opening = block.init if start is None else BufferStore(store.buffer, store.indices, start)
    new = replace(
        block, iter_vars=(*block.iter_vars, IterVar(k, iv.dom, "reduce")), init=opening,
        body=BufferStore(store.buffer, store.indices, own + term),
    )
    new = with_access(new)
    loop = loop_of(k)
    inner = For(loop, IntImm(0, k.dtype), iv.dom.extent, "serial",
                BlockRealize((*realize.iter_values, loop), realize.predicate, new))
    top: Stmt = realize
    for node in state.ancestors(realize):
        if node is scope or not isinstance(node, For):
            break
        top = node
    changed = rewrite(top, realize, inner)
    allocs = {id(scope): (*scope.alloc_buffers, *[b for _, b in before])} if before else {}
    return state.rewrite({id(top): seq(*[s for s, _ in before], changed)}, allocs)


def _identity(state: State, realize: BlockRealize, axis: int, operand: Buffer) -> tuple[Stmt, tuple[Constant, ...]]:
    block = realize.block
    iv = iterator_of(block, axis)
    if block.init is not None:
        store, total = sum_term(block)
        parts: list[tuple[Expr, Expr | None]] = [(total, None)]
    else:
        if not isinstance(block.body, BufferStore):
            raise _no_store(block)
        store = block.body
        parts = addends_of(store.value)
    if store.buffer.dtype != "int32":
        raise _no_store(block)
    found = [(rest, s) for part, rest in parts if (s := _scaled(part, operand)) is not None]
    if len(found) != 1:
        raise Refusal(f"block {block.name} does not add cast(int32, {operand.name}[..]) once, times a constant if anything",
                      [block.ident], "decompose_value splits the sum off; cache_cast reads a window", code="form")
    (rest, (load, factor)) = found[0]
    if rest is not None and loads_from(rest, store.buffer):
        raise Refusal(f"block {block.name} updates {store.buffer.name}", [block.ident], code="form")
    if not LEAST_FACTOR <= factor <= MOST_FACTOR:
        raise Refusal(f"factor {factor} is more than an int8 holds, {LEAST_FACTOR} to {MOST_FACTOR}", [block.ident],
                      "shift the sum afterwards", code="argument")
    _place(block, load, iv.var)
    k = Var(fresh_name(f"{iv.var.name}_k", {v.var.name for v in block.iter_vars}), iv.var.dtype)
    constants, eye = _eye(state, int_value(iv.dom.extent) or 1, factor)
    term = cast("int32", substitute(load, {iv.var: k})) * cast("int32", BufferLoad(eye, (iv.var, k), "int8"))
    start = None if block.init is not None else rest if rest is not None else const(0, "int32")
    return summed(state, realize, scope_of(state, block), store, term, k, iv, [], start), constants


def _no_store(block: Block) -> Refusal:
    return Refusal(f"block {block.name} is not one plain store of an int32 value", [block.ident],
                   "decompose_value splits the part off that adds", code="form")


def addends_of(value: Expr) -> list[tuple[Expr, Expr | None]]:
    """The parts of a sum, each with the rest."""
    if isinstance(value, BinOp) and value.op == "-":
        return [
            *[(p, r - value.b if r is not None else 0 - value.b) for p, r in addends_of(value.a)],
            *[(p, value.a) for p in _negative(value.b)],
        ]
    if isinstance(value, BinOp) and value.op == "+":
        return [
            *[(p, value.b if r is None else r + value.b) for p, r in addends_of(value.a)],
            *[(p, value.a if r is None else value.a + r) for p, r in addends_of(value.b)],
        ]
    return [(value, None)]


def _negative(part: Expr) -> list[Expr]:
    """The negative of a conversion, times a constant if anything, as a product with a constant; nothing of any other value."""
    if isinstance(part, Call) and part.op == "shift_left" and (by := int_value(part.args[1])) is not None and 0 <= by < 31:
        return [part.args[0] * -(1 << by)] if isinstance(part.args[0], Cast) else []
    for one, other in ((part.a, part.b), (part.b, part.a)) if isinstance(part, BinOp) and part.op == "*" else ():
        if isinstance(one, Cast) and (factor := int_value(other)) is not None:
            return [one * -factor]
    return [part * -1] if isinstance(part, Cast) else []


def _scaled(part: Expr, operand: Buffer) -> tuple[BufferLoad, int] | None:
    """The load and the factor of ``cast(int32, operand[..])`` times a constant."""
    factor = 1
    if isinstance(part, BinOp) and part.op == "*":
        by, other = int_value(part.b), part.a
        if by is None:
            by, other = int_value(part.a), part.b
        if by is None:
            return None
        part, factor = other, by
    elif isinstance(part, Call) and part.op == "shift_left":
        by = int_value(part.args[1])
        if by is None or not 0 <= by < 31:
            return None
        part, factor = part.args[0], 1 << by
    load = part.value if isinstance(part, Cast) and part.dtype == "int32" else None
    fits = isinstance(load, BufferLoad) and load.buffer is operand and load.dtype == "int8"
    return (load, factor) if fits and isinstance(load, BufferLoad) else None


def _eye(state: State, extent: int, factor: int) -> tuple[tuple[Constant, ...], Buffer]:
    """The program's constants with a scaled identity, shared with whoever needs the same."""
    array = (np.eye(extent) * factor).astype("int8")
    name = "eye" if factor == 1 else f"eye_{factor}" if factor >= 0 else f"eye_minus_{-factor}"
    return with_constant(state, name, array)


def with_constant(state: State, name: str, array: Array) -> tuple[tuple[Constant, ...], Buffer]:
    """The program's constants with an array among them, and its buffer: that of whoever has the same already."""
    for known in state.func.constants:
        if known.buffer.dtype == str(array.dtype) and np.array_equal(values(known), array):
            return state.func.constants, known.buffer
    made = constant(fresh_name(name, state.buffer_names(state.root)), array)
    return (*state.func.constants, made), made.buffer
