"""Sums of products along rows, picked from a product of rows with each other: cross_rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, binary, cast, const, int_value
from autosched.ir.functor import free_vars, substitute
from autosched.ir.patterns import summed
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, IterVar, PrimFunc, Range, seq
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.diagonal import iterator_of, with_constant
from autosched.schedule.primitives.reductions.negation import factors_of
from autosched.schedule.primitives.reductions.plain import require_once, top_of

# What keeps the products of a row with others below that with itself. Each of at most 2^15 steps adds 2^14 at most, so that sums
# differ by 2^30 at most; where they do, the largest is that of the row all the same, and what is left of them fits int32.
FAR = -(1 << 30)
MOST_STEPS = 1 << 15
MOST = 1 << 16  # elements of the constant


class Crossing(ScheduleBase):
    """The primitive that lets a product of rows with rows make what is summed up along rows."""

    @primitive
    def cross_rows(self, block: BlockRV | str, axis: int, size: int) -> BlockRV:
        """Sums up products along rows as products of all rows of a group with each other, of which it picks those wanted: exact.

        The largest of what is made for a row is that of the row with itself: from the others a number is taken away that no sum
        makes up for. So no factor need be a diagonal, which is as many times larger as an element has lanes.

        Args:
            block: handle or name of an int32 reduction with + that begins with 0, alone in its loops, whose terms are products of
                two int8 elements, converted.
            axis: position of a spatial iterator from 0 among the block's iterators: the rows. It is the plain index of one
                dimension of a factor, and moves none other: of the first that it is. Of that factor all rows of a group are read.
            size: rows of a group, which divides them.

        Returns:
            The block of the products.

        Raises:
            ScheduleError: another body or iterator, a size that does not divide it, more than 32 768 steps.

        Before::

            for i, k in T.grid(16, 8):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vi, vk])

        After ``sch.cross_rows("C", 0, 16)``::

            C_rows = T.sblock_alloc_buffer((16, 16), "int32")
            for i_row, i, k in T.grid(16, 16, 8):
                with T.sblock("C_rows"):
                    vi_row, vi, vk = T.axis.remap("SSR", [i_row, i, k])
                    with T.init():
                        C_rows[vi_row, vi] = far[vi_row, vi]
                    C_rows[vi_row, vi] = C_rows[vi_row, vi] + T.Cast("int32", A[vi_row, vk]) * T.Cast("int32", B[vi, vk])
            for i, i_row in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vi_row = T.axis.remap("SR", [i, i_row])
                    with T.init():
                        C[vi] = -2147483648
                    C[vi] = T.max(C[vi], C_rows[vi_row, vi])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            func, made = _crossed(state, realize, int(axis), int(size))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)
        return self.block_rv(made)


def _factors(block: Block) -> tuple[BufferLoad, BufferLoad]:
    """The two elements that a block multiplies at each step, to add that up."""
    term = summed(block)
    loads = None if term is None else factors_of(term)
    zero = isinstance(block.init, BufferStore) and int_value(block.init.value) == 0
    if loads is None or not zero:
        raise Refusal(f"block {block.name} sums up no products of two int8 elements, converted to int32, from 0", [block.ident],
                      code="form")
    return loads


def row_of(load: BufferLoad, var: Var) -> int | None:
    """The dimension of which an iterator is the plain index, if it moves that alone.

    Args:
        load: what is read.
        var: the iterator.
    """
    at = [d for d, i in enumerate(load.indices) if var in free_vars(i)]
    return at[0] if len(at) == 1 and load.indices[at[0]] is var else None


def _crossed(state: State, realize: BlockRealize, axis: int, size: int) -> tuple[PrimFunc, Block]:
    block = realize.block
    loads = _factors(block)
    store = block.body
    assert isinstance(store, BufferStore)
    if realize.predicate != TRUE:
        raise Refusal(f"block {block.name} is not run for all of its iterators", [block.ident], code="form")
    iv = iterator_of(block, axis)
    rows = int_value(iv.dom.extent)
    assert rows is not None
    which = next((n for n, x in enumerate(loads) if row_of(x, iv.var) is not None), None)
    if which is None:
        raise Refusal(f"{iv.var.name} is the plain index of one dimension of neither factor of block {block.name}", [block.ident],
                      code="index")
    if not 1 < size <= rows or rows % size or size * size > MOST:
        raise Refusal(f"{size} rows of a group do not divide the {rows} of iterator {iv.var.name}, or are one or too many",
                      [block.ident], code="argument")
    steps = [int_value(v.dom.extent) for v in block.iter_vars if v.kind == "reduce"]
    if any(n is None for n in steps) or prod(n or 0 for n in steps) > MOST_STEPS:
        raise Refusal(f"block {block.name} has more than {MOST_STEPS} steps: a sum may make up for what keeps others below it",
                      [block.ident], code="range")
    require_once(state, realize)
    top = top_of(state, realize)
    scope = scope_of(state, block)
    spatial = [v for v in block.iter_vars if v.kind != "reduce"]
    constants, far = with_constant(state, "far", np.where(np.eye(size, dtype=bool), 0, FAR).astype("int32"))
    name = fresh_name(f"{block.name}_rows", {*state.block_names(), *state.buffer_names(scope)})
    row = Var(fresh_name(f"{iv.var.name}_row", {v.var.name for v in block.iter_vars}), iv.var.dtype)
    total = Buffer(name, (IntImm(size, row.dtype), *store.buffer.shape), "int32")
    one = IterVar(row, Range(IntImm(0, row.dtype), IntImm(size, row.dtype)), "spatial")
    at = (row, *store.indices)
    begin = iv.var // size * size if rows > size else None
    moved: Expr = row if begin is None else begin + row
    sides = [cast("int32", substitute(x, {iv.var: moved}) if n == which else x) for n, x in enumerate(loads)]
    value = binary("+", BufferLoad(total, at, "int32"), binary("*", *sides))
    own = iv.var if begin is None else iv.var % size
    # Each block has iterators of its own.
    new = {v.var: Var(v.var.name, v.var.dtype) for v in block.iter_vars}
    stores = [BufferStore(total, at, x) for x in (BufferLoad(far, (row, own), "int32"), value)]
    init, body = [BufferStore(total, tuple([substitute(i, new) for i in x.indices]), substitute(x.value, new)) for x in stores]
    iters = (one, *[replace(v, var=new[v.var]) for v in block.iter_vars])
    product = with_access(Block(name, iters, (), (), body, init=init))
    low = const(dtype_bounds("int32")[0], "int32")
    again = Var(row.name, row.dtype)
    here = BufferLoad(total, (again, *store.indices), "int32")
    largest = binary("max", BufferLoad(store.buffer, store.indices, "int32"), here)
    picked = with_access(replace(
        block, iter_vars=(*spatial, IterVar(again, one.dom, "reduce")), init=BufferStore(store.buffer, store.indices, low),
        body=BufferStore(store.buffer, store.indices, largest),
    ))
    whole = state.rewrite({id(top): seq(own_nest(product), own_nest(picked))},
                          {id(scope): (*scope.alloc_buffers, total)})
    return replace(state.func, body=whole, constants=constants), product
