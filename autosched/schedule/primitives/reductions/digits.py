"""Adding an int32 operand by a matrix product of its digits: add_by_gemm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, binary, cast, const, eq, if_then_else, int_value
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.host import host_faults
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Constant, Stmt
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.diagonal import addends_of, host_stage, iterator_of, summed, with_constant

WEIGHT = 64  # of all digits but the lowest, which is the rest
LEAST_DIGIT, MOST_DIGIT = dtype_bounds("int8")


class Digits(ScheduleBase):
    """The primitive that brings an int32 operand in by the GEMM."""

    @primitive
    def add_by_gemm(self, block: BlockRV | str, axis: int, read_buffer_index: int | str | Buffer) -> BlockRV:
        """Adds an int32 operand by a matrix product of its digits with their weights, instead of on the ALU.

        The host takes every element apart: the rest of a division by 64, and the quotient in parts that an int8 holds. What the
        operand is added to becomes the initial value of a sum over the digits; the weights, 1 and 64, are a constant of the
        program. So the operand costs a cycle per vector in the accumulator, where an ALU operation on two tensors costs two.
        A constant that the block adds besides costs nothing: where digits hold it, the host adds it to the operand.

        Args:
            block: handle or name of a block that stores an int32 value, to which it adds the operand once; the operand is a
                parameter of a declared range.
            axis: position of a spatial iterator among the block's iterators; the sum has as many digits as it has iterations.
            read_buffer_index: the operand: position among what the block reads, name, or the buffer itself.

        Returns:
            The host stage that takes the operand apart.

        Raises:
            ScheduleError: another body or type, more digits than ``axis`` has iterations, an operand that the accelerator makes.

        Before::

            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = C[vi] + b[vi]

        After ``sch.add_by_gemm("D", 0, "b")``::

            b_digits = T.sblock_alloc_buffer((16, 16), "int8")
            for i0, i1 in T.grid(16, 16):
                with T.sblock("b_digits"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    T.sblock_attr({"host_stage": "pack"})
                    b_digits[v0, v1] = T.Cast("int8", T.if_then_else(v1 == 0, b[v0] % 64, (b[v0] // 64 + (v1 - 1)) // 3))
            for i, i_k in T.grid(16, 16):
                with T.sblock("D"):
                    vi, vi_k = T.axis.remap("SR", [i, i_k])
                    with T.init():
                        D[vi] = C[vi]
                    D[vi] = D[vi] + T.Cast("int32", b_weights[vi_k]) * T.Cast("int32", b_digits[vi, vi_k])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        operand = realize.block.reads[self.block_region_buffer(realize.block, read_buffer_index, "read")].buffer
        try:
            body, constants, made = _digits(state, realize, axis, operand)
            func = replace(state.func, body=body, constants=constants)
            for message, _ in host_faults(func):
                raise Refusal(f"{operand.name} cannot be taken apart on the host: {message}", [realize.block.ident],
                              "an operand that is a parameter", code="form")
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, func=func)
        return self.block_rv(made)


def _digits(state: State, realize: BlockRealize, axis: int, operand: Buffer) -> tuple[Stmt, tuple[Constant, ...], Block]:
    block = realize.block
    iv = iterator_of(block, axis)
    store = block.body
    plain = block.init is None and isinstance(store, BufferStore) and all(v.kind == "spatial" for v in block.iter_vars)
    if not plain or not isinstance(store, BufferStore) or store.buffer.dtype != "int32" or operand.dtype != "int32":
        raise Refusal(f"block {block.name} is not one plain store of an int32 value that adds an int32 operand", [block.ident],
                      "decompose_value splits the part off that adds", code="form")
    found = [(p, rest) for p, rest in addends_of(store.value) if isinstance(p, BufferLoad) and p.buffer is operand]
    if len(found) != 1 or found[0][1] is None or any(
        isinstance(e, BufferLoad) and e.buffer in (operand, store.buffer) for e in walk_expr(found[0][1])
    ):
        raise Refusal(f"block {block.name} does not add {operand.name} once, to something else", [block.ident],
                      "decompose_value splits the sum off", code="form")
    load, rest = found[0]
    assert isinstance(load, BufferLoad) and rest is not None
    lanes = int_value(iv.dom.extent) or 1
    rest, constant, shares = _shares(state, block, operand, lanes, rest)
    moving = {v.var for v in block.iter_vars if int_value(v.dom.extent) != 1}
    kept = [d for d, i in enumerate(load.indices) if moving.intersection(free_vars(i))]
    scope = scope_of(state, block)
    k = Var(fresh_name(f"{iv.var.name}_k", {v.var.name for v in block.iter_vars}), iv.var.dtype)
    name = fresh_name(f"{operand.name}_digits", {*state.block_names(), *state.buffer_names(scope)})
    digits = Buffer(name, (*[operand.shape[d] for d in kept], iv.dom.extent), "int8")
    only = {v.var: v.dom.min for v in block.iter_vars if v.var not in moving}
    made, nest = _stage(name, load, [substitute(i, only) for i in load.indices], kept, digits, shares, constant)
    extents = {v.var: int_value(v.dom.min + v.dom.extent) for v in block.iter_vars}
    # As many rows as a tile has, of the same weights; one where no iterator counts them.
    rows = tuple([r if isinstance(r, Var) and extents.get(r) else IntImm(0, r.dtype) for r in store.indices[-2:-1]])
    shape = tuple((extents.get(r) if isinstance(r, Var) else None) or 1 for r in rows)
    constants, weights = _weights(state, f"{operand.name}_weights", shape, lanes, shares)
    term = cast("int32", BufferLoad(weights, (*rows, k), "int8")) * cast(
        "int32", BufferLoad(digits, (*[load.indices[d] for d in kept], k), "int8"))
    return summed(state, realize, scope, store, term, k, iv, [(nest, digits)], rest), constants, made


def _shares(state: State, block: Block, operand: Buffer, lanes: int, rest: Expr) -> tuple[Expr, int, int]:
    """What the host's sum is added to, the constant that the host adds, and among how many digits the quotient is shared out."""
    low, high = ValueBounds(state.func).of_buffer(operand)
    least, most = dtype_bounds("int32")
    constants = [(c, others) for part, others in addends_of(rest) if others is not None and (c := int_value(part))]
    for constant, others in [*constants[:1], (0, rest)]:
        ends = low + constant, high + constant
        # Every share is the quotient divided by their number, rounded down or up; there are as few as hold it.
        shares = max(1, -(-(ends[0] // WEIGHT) // LEAST_DIGIT) if ends[0] < 0 else 1, -(-(ends[1] // WEIGHT) // MOST_DIGIT))
        if shares + 1 <= lanes and least <= ends[0] and ends[1] <= most:
            return others, constant, shares
    raise Refusal(f"{operand.name} is between {low} and {high}: {shares + 1} digits, and there are {lanes}", [block.ident],
                  'declare narrower ranges: T.func_attr({"autosched.value_ranges": {"bias": [-16384, 16384]}})', code="range")


def _stage(
    name: str, load: BufferLoad, index: list[Expr], kept: list[int], buffer: Buffer, shares: int, constant: int
) -> tuple[Block, Stmt]:
    """The stage that takes an operand apart, at an index that the kept dimensions move."""

    def value(at: tuple[Var, ...]) -> Expr:
        moved = dict(zip(kept, at))
        element: Expr = BufferLoad(load.buffer, tuple([moved.get(d, i) for d, i in enumerate(index)]), "int32")
        element, digit = element + constant if constant else element, at[-1]
        # What has no weight may be anything: it is multiplied by zero.
        share = binary("//", binary("//", element, const(WEIGHT, "int32")) + (digit - 1), const(shares, "int32"))
        rest = binary("%", element, const(WEIGHT, "int32"))
        return cast("int8", if_then_else(eq(digit, IntImm(0, digit.dtype)), rest, share))

    return host_stage(name, buffer, value)


def _weights(state: State, name: str, rows: tuple[int, ...], lanes: int, shares: int) -> tuple[tuple[Constant, ...], Buffer]:
    """The program's constants with the digits' weights, shared with whoever needs the same."""
    row = np.array([1, *[WEIGHT] * shares, *[0] * (lanes - shares - 1)], dtype="int8")
    array = np.broadcast_to(row, (*rows, lanes)).copy()
    return with_constant(state, name, array)
