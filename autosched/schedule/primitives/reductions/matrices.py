"""Sums as products with a matrix of what counts how often: sum_by_matrix."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as iter_product
from math import prod

import numpy as np

from autosched.ir.constant import Array
from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, IntImm, Var, binary, cast, int_value
from autosched.ir.functor import free_vars, substitute
from autosched.ir.patterns import is_widened, summed
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, Constant, IterVar, PrimFunc, Range
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.diagonal import iterator_of, with_constant
from autosched.schedule.primitives.reductions.plain import require_once, top_of

MOST = 1 << 16  # pairs of a result and a step that are counted


class Matrices(ScheduleBase):
    """The primitive that makes a sum a product with a matrix."""

    @primitive
    def sum_by_matrix(self, block: BlockRV | str, axis: int, dim: int) -> None:
        """Sums up all elements along a dimension, each times how often it counts, instead of those that count: exact.

        How often it counts for each value of an iterator is a matrix, which is a constant of the program. Of a mean of all
        channels it is all ones, of one of every group ones where the channel is one of the group. So the sum is a product of the
        GEMM, and what it makes lies where what is computed with it does.

        Args:
            block: handle or name of an int32 reduction with +, alone in its loops, whose terms are int8 elements, converted.
            axis: position of a spatial iterator from 0 among the block's iterators: the rows of the matrix.
            dim: dimension of the operand. Reduction iterators move its index, together with that iterator alone if anything,
                and the former no other index.

        Raises:
            ScheduleError: another body, iterator or dimension; an index that leaves the operand, one that counts more often than
                int8 holds, or more of them than can be counted here.

        Before::

            for i, k in T.grid(16, 4):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi // 4 * 4 + vk])

        After ``sch.sum_by_matrix("C", 0, 0)``::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", counts[vi, vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            func = _by_matrix(state, realize, int(axis), int(dim))
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)


    @primitive
    def multiply_by_ones(self, block: BlockRV | str) -> None:
        """Multiplies every int8 element that a sum takes in by a one, of a constant with an element for each step of the sum.

        So the sum is a product, whose weights may be laid out as those of a filter that slides. Where all elements are multiplied
        by a number already, the constant holds that.

        Args:
            block: handle or name of an int32 reduction with + whose terms are int8 elements, converted, or a number of int8 times
                such.

        Raises:
            ScheduleError: another body, or steps of no known extent from 0.

        Before::

            for i, k in T.grid(14, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi + vk])

        After ``sch.multiply_by_ones("C")``::

            for i, k in T.grid(14, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.Cast("int32", A[vi + vk]) * T.Cast("int32", ones[vk])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            func = _by_ones(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)


def weighed_of(block: Block) -> tuple[BufferLoad, int] | None:
    """The int8 element that a reduction with + takes in, and by which number of int8 it multiplies it; None of any other.

    Args:
        block: any.
    """
    term, times = summed(block), 1
    if isinstance(term, BinOp) and term.op == "*":
        sides = (term.a, term.b) if int_value(term.b) is not None else (term.b, term.a)
        term, times = sides[0], int_value(sides[1]) or 0
    (low, high), load = dtype_bounds("int8"), _widened(term)
    return (load, times) if load is not None and times and low <= times <= high else None


def element_of(block: Block) -> BufferLoad | None:
    """The int8 element that a reduction with + takes in, converted to int32, at each step; None where it takes in something else.

    Args:
        block: any.
    """
    return _widened(summed(block))


def _widened(term: Expr | None) -> BufferLoad | None:
    """The int8 element that is converted to int32."""
    load = term.value if isinstance(term, Cast) and is_widened(term) else None
    return load if isinstance(load, BufferLoad) else None


def _by_ones(state: State, realize: BlockRealize) -> PrimFunc:
    block, weighed = realize.block, weighed_of(realize.block)
    if weighed is None:
        raise Refusal(f"block {block.name} sums up no int8 elements, converted to int32", [block.ident], code="form")
    load, times = weighed
    steps = [iv for iv in block.iter_vars if iv.kind == "reduce"]
    sizes = [int_value(iv.dom.extent) if int_value(iv.dom.min) == 0 else None for iv in steps]
    shape = [n for n in sizes if n]
    if not steps or len(shape) < len(steps):
        raise Refusal(f"block {block.name} sums over what is of no known extent from 0", [block.ident], code="symbolic")
    constants, ones = with_constant(state, "ones", np.full(shape, times, "int8"))
    store = block.body
    assert isinstance(store, BufferStore)
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    one = cast("int32", BufferLoad(ones, tuple([iv.var for iv in steps]), "int8"))
    changed = with_access(replace(
        block, body=BufferStore(store.buffer, store.indices, binary("+", own, binary("*", cast("int32", load), one)))))
    return replace(state.func, body=state.rewrite({id(realize): replace(realize, block=changed)}), constants=constants)


def _by_matrix(state: State, realize: BlockRealize, axis: int, dim: int) -> PrimFunc:
    block, load = realize.block, element_of(realize.block)
    if load is None or realize.predicate != TRUE:
        raise Refusal(f"block {block.name} sums up no int8 elements, converted to int32", [block.ident], code="form")
    iv = iterator_of(block, axis)
    if not 0 <= dim < load.buffer.ndim:
        raise Refusal(f"{load.buffer.name} has {load.buffer.ndim} dimensions; there is none at {dim}", [block.ident],
                      code="argument")
    index = load.indices[dim]
    steps = [v for v in block.iter_vars if v.kind == "reduce" and v.var in free_vars(index)]
    others = {v for d, i in enumerate(load.indices) if d != dim for v in free_vars(i)}
    if not steps or not free_vars(index).keys() <= {iv.var, *[v.var for v in steps]} or others & {v.var for v in steps}:
        raise Refusal(f"dimension {dim} of {load.buffer.name} in block {block.name} is moved by no iterators of its sum, or by "
                      f"others than these and {iv.var.name}, or these move another one as well", [block.ident], code="index")
    require_once(state, realize)
    top = top_of(state, realize)
    constants, matrix = _matrix(state, block, load, dim, iv, steps)
    # What is summed over now is named after the first of what it was.
    k = IterVar(Var(steps[0].var.name, steps[0].var.dtype), Range(steps[0].dom.min, load.buffer.shape[dim]), "reduce")
    iters = tuple([k if v is steps[0] else v for v in block.iter_vars if v is steps[0] or v not in steps])
    store = block.body
    assert isinstance(store, BufferStore)
    element = BufferLoad(load.buffer, (*load.indices[:dim], k.var, *load.indices[dim + 1 :]), load.dtype)
    term = binary("*", cast("int32", element), cast("int32", BufferLoad(matrix, (iv.var, k.var), "int8")))
    value = binary("+", BufferLoad(store.buffer, store.indices, store.buffer.dtype), term)
    changed = with_access(replace(block, iter_vars=iters, body=BufferStore(store.buffer, store.indices, value)))
    return replace(state.func, body=state.rewrite({id(top): own_nest(changed)}), constants=constants)


def _matrix(
    state: State, block: Block, load: BufferLoad, dim: int, row: IterVar, steps: list[IterVar]
) -> tuple[tuple[Constant, ...], Buffer]:
    """The program's constants with how often elements along a dimension count for each value of an iterator; that tensor."""
    name, index = load.buffer.name, load.indices[dim]
    deep, rows = int_value(load.buffer.shape[dim]), int_value(row.dom.extent)
    sizes = [(int_value(v.dom.min), int_value(v.dom.extent)) for v in steps]
    if deep is None or rows is None or any(low != 0 or not size for low, size in sizes):
        raise Refusal(f"{name} or what block {block.name} sums over is of no known extent from 0", [block.ident], code="symbolic")
    moved = row.var in free_vars(index)
    if (rows if moved else 1) * prod(size or 0 for _, size in sizes) > MOST or rows * deep > MOST:
        raise Refusal(f"block {block.name} has more than {MOST} pairs of a result and what counts for it", [block.ident],
                      code="range")
    counts: Array = np.zeros((rows, deep), "int32")
    for r in range(rows if moved else 1):
        for at in iter_product(*[range(size or 0) for _, size in sizes]):
            values: dict[Var, Expr] = {v.var: IntImm(n, v.var.dtype) for v, n in zip((row, *steps), (r, *at))}
            place = int_value(substitute(index, values))
            if place is None or not 0 <= place < deep:
                raise Refusal(f"block {block.name} reads {name} at {place} of {deep} in dimension {dim}", [block.ident],
                              code="domain")
            counts[r, place] += 1
    if not moved:
        counts[:] = counts[0]
    if counts.max() > dtype_bounds("int8")[1]:
        raise Refusal(f"an element of {name} counts {counts.max()} times in block {block.name}, more often than int8 holds",
                      [block.ident], code="range")
    return with_constant(state, "counts", counts.astype("int8"))
