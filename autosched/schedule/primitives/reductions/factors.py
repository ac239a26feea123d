"""Values in the width that a machine stores and multiplies: narrow_value, narrow_block, split_factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, Call, Cast, Expr, IntImm, Select, binary, cast, const, intrin
from autosched.ir.patterns import has_loads, loads_from
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BufferStore, Ident, PrimFunc, Stmt
from autosched.ir.value_bounds import Interval, hull
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.minus import known_values
from autosched.schedule.primitives.reductions.plain import plain_store
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.schedule.primitives.reductions.widening import converted
from autosched.schedule.primitives.reductions.zero_terms import Replaced

LOW_BITS = 7  # of a factor in two: what is left of it is not negative, and fits int8


class Factors(ScheduleBase):
    """The primitives that bring factors into int8."""

    @primitive
    def narrow_value(self, block: BlockRV | str, path: Sequence[int] = ()) -> None:
        """Converts a part of a value to int8 and back, where value ranges prove that nothing is lost.

        Args:
            block: handle or name of a block that stores one value.
            path: the operand to take at each step from the stored value down to the part.

        Raises:
            ScheduleError: no int32 value there of which ranges prove that int8 holds it, or one that is converted from int8.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int32", B[vi]) * T.min(T.max(A[vi], 0), 96)

        After ``sch.narrow_value("C", [1])``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int32", B[vi]) * T.Cast("int32", T.Cast("int8", T.min(T.max(A[vi], 0), 96)))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _narrowed(state.func, realize.block, [int(p) for p in path])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})

    @primitive
    def narrow_block(self, block: BlockRV | str) -> None:
        """Stores as int8 what a block stores as int32, where value ranges prove that nothing is lost; its readers convert it.

        Args:
            block: handle or name of a block without init that alone writes a tensor that is no parameter.

        Raises:
            ScheduleError: another block, or a value that int8 is not known to hold.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.if_then_else(vi < 8, T.Cast("int32", A[vi]), 0)
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1

        After ``sch.narrow_block("B")``::

            B = T.sblock_alloc_buffer((16,), "int8")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.if_then_else(vi < 8, A[vi], T.int8(0))
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int32", B[vi]) + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _stored_narrow(state, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)

    @primitive
    def split_factor(self, block: BlockRV | str, path: Sequence[int]) -> None:
        """Multiplies by the high bits of a factor and by its lowest seven, and adds up: exact, modulo 2**32 as the product is.

        Args:
            block: handle or name of a block that stores one value.
            path: the operand to take at each step from the stored value down to a factor of an int32 product.

        Raises:
            ScheduleError: no factor of a product there.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * B[vi]

        After ``sch.split_factor("C", [0])``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_left(T.shift_right(A[vi], 7) * B[vi], 7) + T.bitwise_and(A[vi], 127) * B[vi]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _split(realize.block, [int(p) for p in path])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


def is_narrow(func: PrimFunc, block: Block, value: Expr, bits: int = 8) -> bool:
    """Whether few bits hold an int32 value that is not converted from another type, as ranges prove.

    Args:
        func: the function; its declared ranges and other blocks tell what values can be.
        block: of it, that computes the value.
        value: any expression.
        bits: how many.
    """
    if value.dtype != "int32" or isinstance(value, IntImm | Cast) or not has_loads(value):
        return False
    low, high = _range(func, block, value)
    return -(1 << bits - 1) <= low and high < 1 << bits - 1


def _stored_narrow(state: State, block: Block) -> Stmt:
    store = plain_store(block, True)
    scope, old = scope_of(state, block), store.buffer
    if old.dtype != "int32" or all(b is not old for b in scope.alloc_buffers) or len(state.writers(scope, old)) != 1:
        raise Refusal(f"block {block.name} does not alone write an int32 tensor that {scope.name} allocates", [block.ident],
                      code="output")
    low, high = _range(state.func, block, store.value)
    if not -128 <= low <= high <= 127:
        raise Refusal(f"{expr_text(store.value)} in block {block.name} is no value that is known to fit int8", [block.ident],
                      code="form")
    new = replace(old, dtype="int8", ident=Ident())
    table: dict[int, Stmt | None] = {
        id(block): with_access(replace(block, body=BufferStore(new, store.indices, _as_int8(store.value))))}
    table |= converted(state, scope, state.readers(scope, old), old, new, with_access)
    return state.rewrite(table, {id(scope): tuple([new if b is old else b for b in scope.alloc_buffers])})


def _as_int8(value: Expr) -> Expr:
    """A value that fits int8 in it: what is chosen between is converted, and what came from int8 is not."""
    if isinstance(value, Call) and value.op == "if_then_else":
        return Call(value.op, (value.args[0], _as_int8(value.args[1]), _as_int8(value.args[2])), "int8")
    if isinstance(value, Select):
        return Select(value.condition, _as_int8(value.true_value), _as_int8(value.false_value), "int8")
    if isinstance(value, Cast) and value.value.dtype == "int8":
        return value.value
    return cast("int8", value)


def _range(func: PrimFunc, block: Block, value: Expr) -> Interval:
    known, dom = known_values(func), {iv.var: iv.dom for iv in block.iter_vars}
    init = block.init
    if isinstance(init, BufferStore) and loads_from(value, init.buffer):
        # What is known of a reduction holds at its end; on the way it has its initial value as well.
        known.know(init.buffer, hull(known.of(init.value, dom), known.of_buffer(init.buffer)))
    return known.of(value, dom)


def _narrowed(func: PrimFunc, block: Block, path: list[int]) -> Block:
    store = plain_store(block)
    part = part_at(block, store.value, path)
    if not is_narrow(func, block, part):
        raise Refusal(f"{expr_text(part)} in block {block.name} is no int32 value that is known to fit int8", [block.ident],
                      code="form")
    value = Replaced(part, cast("int32", cast("int8", part))).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def _split(block: Block, path: list[int]) -> Block:
    store = plain_store(block)
    product = part_at(block, store.value, path[:-1]) if path else None
    if not (isinstance(product, BinOp) and product.op == "*" and product.dtype == "int32" and path[-1] in (0, 1)):
        raise Refusal(f"block {block.name} has no factor of an int32 product at {path}", [block.ident], code="form")
    factor, other = (product.a, product.b) if path[-1] == 0 else (product.b, product.a)
    high = binary("*", intrin("shift_right", factor, const(LOW_BITS)), other)
    low = binary("*", intrin("bitwise_and", factor, const((1 << LOW_BITS) - 1)), other)
    made = binary("+", intrin("shift_left", high, const(LOW_BITS)), low)
    value = Replaced(product, made).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))
