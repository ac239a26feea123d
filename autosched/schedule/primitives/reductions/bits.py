"""Bits and steps of a value by shifts, sums and clips: mask_by_shifts, choose_by_clip. The ALU has no bitwise operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, Call, Expr, Not, Var, binary, cast, const, int_value, intrin, is_int, maximum, minimum
from autosched.ir.functor import free_vars
from autosched.ir.linear import MIRRORED
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.scopes import HELD, WORD
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BufferStore, PrimFunc, Range, seq
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.plain import plain_store
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.schedule.primitives.reductions.values import threshold
from autosched.schedule.primitives.reductions.zero_terms import Replaced

LEAST, MOST = dtype_bounds("int32")
NOTHING = PrimFunc((), seq())  # tells of no value more than types do


class Bits(ScheduleBase):
    """The primitives that take bits of values, and steps between constants."""

    @primitive
    def mask_by_shifts(self, block: BlockRV | str, path: Sequence[int] = ()) -> None:
        """Writes bits in a row (``x & 7``, ``x & 24``) and remainders by a power of two (``x % 8``) as shifts and sums.

        Half of what the bits can hold is added, so that the shifts that drop all above them, and extend what is then the sign,
        give the value less that half.

        Args:
            block: handle or name of a block that stores one value.
            path: the operand to take at each step from the stored value down to the bits.

        Raises:
            ScheduleError: no ``bitwise_and`` of an int32 value there with a constant whose ones are in one row, nor ``x % 2**k``.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.bitwise_and(A[vi], 7)

        After ``sch.mask_by_shifts("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(T.shift_left(A[vi] + 4, 29), 29) + 4
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _with_form(realize.block, [int(p) for p in path], masked,
                             "takes no bits in a row of an int32 value (x & 7, x % 8)")
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})

    @primitive
    def choose_by_clip(self, block: BlockRV | str, path: Sequence[int] = ()) -> None:
        """Writes a choice between two constants by a comparison with a third one as clips, shifts and sums.

        What is compared is clipped to the two values on both sides of the step, of which sums make -1 and 0; a shift and one
        more clip make any height of that. Where the choice falls instead of rising, the step is turned by a shift that wraps;
        so both sides of what is equal become one. Two values, or a value and its place, are compared by their difference; where
        types alone do not keep it from wrapping, by whether the one is the smaller, or the larger, of both.

        Args:
            block: handle or name of a block that stores one value.
            path: the operand to take at each step from the stored value down to the choice.

        Raises:
            ScheduleError: no choice there between two constants by ``<``, ``<=``, ``>``, ``>=``, ``==`` or ``!=`` and a constant,
                what depends on the block's iterators alone, or another value.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Select(A[vi] < 5, -1, 2)

        After ``sch.choose_by_clip("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(T.shift_left(T.min(T.max(A[vi], 4), 5) + -5, 2), -3) + 2
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            own = {iv.var: iv.dom for iv in realize.block.iter_vars}
            new = _with_form(realize.block, [int(p) for p in path], lambda value: chosen(value, own),
                             "chooses between no two constants by a comparison with a constant")
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


def _with_form(block: Block, path: list[int], form: Callable[[Expr], Expr | None], lacks: str) -> Block:
    store = plain_store(block)
    part = part_at(block, store.value, path)
    made = form(part)
    if made is None:
        raise Refusal(f"{expr_text(part)} in block {block.name} {lacks}", [block.ident], code="form")
    value = Replaced(part, made).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def masked(value: Expr) -> Expr | None:
    """Bits in a row of an int32 value, or its remainder by a power of two, without a bitwise operation; None for any other.

    Args:
        value: any expression.
    """
    found = _mask(value)
    if found is None:
        return None
    x, mask = found
    low = (mask & -mask).bit_length() - 1
    width = mask.bit_length() - low
    if mask == 0 or mask >> low != (1 << width) - 1:
        return None
    shifted = intrin("shift_right", x, low) if low else x
    if low + width < WORD:
        half, up = 1 << width - 1, WORD - width
        shifted = binary("+", intrin("shift_right", intrin("shift_left", binary("+", shifted, half), up), up), half)
    return intrin("shift_left", shifted, low) if low else shifted


def _mask(value: Expr) -> tuple[Expr, int] | None:
    """What bits are taken of, and which, as an unsigned constant."""
    if isinstance(value, Call) and value.op == "bitwise_and":
        a, b = value.args
    elif isinstance(value, BinOp) and value.op == "%":
        a, b = value.a, value.b
    else:
        return None
    if isinstance(value, Call) and int_value(b) is None:
        a, b = b, a
    by = int_value(b)
    if value.dtype != "int32" or by is None or not has_loads(a):
        return None
    if isinstance(value, BinOp):
        # The remainder has the sign of what it is taken by.
        return (a, by - 1) if by > 0 and by & (by - 1) == 0 else None
    return a, by % (1 << WORD)


def chosen(value: Expr, own: Mapping[Var, Range] | None = None) -> Expr | None:
    """A choice between two constants by a comparison with a third one, without a choice; None for any other value.

    Args:
        value: any expression.
        own: domains of the block's iterators, by which an element may be compared with its place; without, such as suffice.
    """
    parts = choice_of(value)
    if parts is None:
        return None
    condition = _with_zero(parts[0], own)
    same = _same(condition)
    found = threshold(condition) if same is None else same
    if found is None or value.dtype not in HELD:
        return None
    x, at, below = found
    ends = int_value(parts[1]), int_value(parts[2])
    if ends[0] is None or ends[1] is None or x.dtype not in HELD or not has_loads(x) or not LEAST < at <= MOST:
        return None
    x = cast("int32", x)
    under, over = ends if below else ends[::-1]
    assert under is not None and over is not None
    if same is not None:
        if at == MOST:
            return None
        # -1 beside the value and 0 at it: of 1 and -1 the lowest bit is the sign of the shifted value.
        near = binary("+", minimum(maximum(x, at - 1), at + 1), -at) if at else minimum(maximum(x, -1), 1)
        step = intrin("shift_right", intrin("shift_left", near, WORD - 1), WORD - 1)
    else:
        # -1 under the step and 0 over it.
        step = intrin("shift_right", x, WORD - 1) if at == 0 else binary("+", minimum(maximum(x, at - 1), at), -at)
    height = abs(over - under)
    by = (height - 1).bit_length() if height else 0
    if height == 0 or by >= WORD:
        return const(over, value.dtype) if height == 0 else None
    if under > over:
        # 0 under the step and 1 over it: its lowest bit is the sign of the shifted value.
        step = intrin("shift_left", binary("+", step, 1), WORD - 1)
        step = intrin("shift_right", step, WORD - 1 - by) if by < WORD - 1 else step
    else:
        step = intrin("shift_left", step, by) if by else step
    if height < 1 << by:
        step = maximum(step, -height)
    return cast(value.dtype, binary("+", step, max(under, over)))


def _same(condition: Expr) -> tuple[Expr, int, bool] | None:
    """(x, t, whether the condition is ``x != t`` and not its opposite) of a comparison with a constant, or None."""
    if isinstance(condition, Not):
        found = _same(condition.a)
        return None if found is None else (found[0], found[1], not found[2])
    if not (isinstance(condition, BinOp) and condition.op in ("==", "!=") and is_int(condition.a.dtype)):
        return None
    x, at = (condition.b, condition.a) if int_value(condition.a) is not None else (condition.a, condition.b)
    t = int_value(at)
    return None if t is None or int_value(x) is not None else (x, t, condition.op == "!=")


def _with_zero(condition: Expr, own: Mapping[Var, Range] | None) -> Expr:
    """The comparison of an int8 element with what depends on its place, or of two values, as one of their difference with 0."""
    if isinstance(condition, Not):
        return Not(_with_zero(condition.a, own))
    if not (isinstance(condition, BinOp) and condition.op in ("<", "<=", ">", ">=", "==", "!=")):
        return condition
    a, b, op = condition.a, condition.b, condition.op
    if not (is_int(a.dtype) and is_int(b.dtype)):
        return condition
    known, dom = ValueBounds(NOTHING), own or {}
    if has_loads(a) and has_loads(b):
        (least, most), (low, high) = known.of(a, dom), known.of(b, dom)
        return _apart(op, cast("int32", a), cast("int32", b), least - high >= LEAST and most - low <= MOST)
    if has_loads(b):
        a, b, op = b, a, MIRRORED.get(op, op)
    if not has_loads(a) or not free_vars(b):
        return condition
    least, most = known.of(a, dom)
    near = max(-least, most) <= MOST >> 1
    if own is not None:
        first, last = Analyzer(own).int_bounds(b)
        near = near and first is not None and last is not None and max(-first, last) <= MOST >> 1
    return _apart(op, cast("int32", a), b, near)


def _apart(op: str, a: Expr, b: Expr, near: bool) -> Expr:
    """A comparison of two values by their difference; of such as may be too far apart by the extremum that the one is.

    What wraps around is 0 only where both are equal.
    """
    if not near and op not in ("==", "!="):
        a, b, op = {
            "<": (minimum(a, b), b, "!="), "<=": (minimum(a, b), a, "=="), ">": (maximum(a, b), b, "!="),
            ">=": (maximum(a, b), a, "=="),
        }[op]
    less = binary("-", a, b) if has_loads(b) else binary("+", a, binary("-", const(0, "int32"), b))
    return BinOp(op, less, const(0, "int32"), "bool")


__all__ = ["Bits", "chosen", "masked"]
