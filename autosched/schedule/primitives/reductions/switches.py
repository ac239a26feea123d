"""Choices by data between values, by limits that are choices between constants: choose_by_switches. The ALU has no choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, Call, Expr, Not, Select, binary, cast, const, int_value, maximum, minimum
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.scopes import HELD
from autosched.ir.stmt import Block, BufferStore, PrimFunc
from autosched.ir.value_bounds import Interval, ValueBounds, dtype_bounds
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.bits import chosen
from autosched.schedule.primitives.reductions.operand import reads_within
from autosched.schedule.primitives.reductions.plain import plain_store
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.schedule.primitives.reductions.values import negated
from autosched.schedule.primitives.reductions.zero_terms import Replaced

LEAST, MOST = dtype_bounds("int32")


class Switches(ScheduleBase):
    """The primitive that chooses between values by data."""

    @primitive
    def choose_by_switches(self, block: BlockRV | str, path: Sequence[int] = ()) -> None:
        """Writes a choice by data as minima and maxima with choices by the same data between constants.

        Where a value is not chosen it is limited to what the other one is not above, or not below; a constant is a limit
        itself. Two limits are one where declared ranges show that a value is never beyond the constant. A choice by two
        conditions is two choices, those by iterators around those by data; a product with a choice between constants is one
        between products.

        Args:
            block: handle or name of a block that stores one value.
            path: the operand to take at each step from the stored value down to the choice, or to its product.

        Raises:
            ScheduleError: no choice between int8 or int32 values there by data that ``choose_by_clip`` knows, or one that guards
                what it reads.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Select(B[vi] < 5, T.max(A[vi], 0), 0)

        After ``sch.choose_by_switches("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.min(T.max(A[vi], 0), T.Select(B[vi] < 5, 2147483647, 0))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _with_switches(state.func, realize.block, [int(p) for p in path])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


def switches(value: Expr) -> bool:
    """Whether a value is a choice by data between values that are not both constants, or by several conditions, or its product.

    Args:
        value: any expression.
    """
    parts = choice_of(value)
    if _factors(value) is not None:
        return True
    if parts is None or value.dtype not in HELD or not has_loads(parts[0]):
        return False
    if _joined(parts[0]) is not None:
        return True
    constants = [side for side in parts[1:] if int_value(side) is not None]
    return len(constants) < 2 and chosen(Select(parts[0], const(1), const(0), "int32")) is not None


def _factors(value: Expr) -> tuple[Expr, Expr] | None:
    """(a choice by data between two constants, what is multiplied by it) of a product, or None."""
    if not (isinstance(value, BinOp) and value.op == "*" and value.dtype in HELD):
        return None
    for choice, other in ((value.a, value.b), (value.b, value.a)):
        parts = choice_of(choice)
        if parts is not None and has_loads(parts[0]) and has_loads(other) and None not in map(int_value, parts[1:]):
            return choice, other
    return None


def _joined(condition: Expr) -> BinOp | None:
    """A condition that two others make one, ``not`` inside of them, or None."""
    if isinstance(condition, Not):
        inner = _joined(condition.a)
        found = None if inner is None else negated(inner)
        return found if isinstance(found, BinOp) else None
    return condition if isinstance(condition, BinOp) and condition.op in ("and", "or") else None


def _with_switches(func: PrimFunc, block: Block, path: list[int]) -> Block:
    store = plain_store(block)
    part = part_at(block, store.value, path)
    made = switched(func, block, part)
    if made is None:
        raise Refusal(f"{expr_text(part)} in block {block.name} is no choice by data between values that can be read wherever it "
                      "runs, by a comparison that clips can make", [block.ident], code="form")
    value = Replaced(part, made).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def switched(func: PrimFunc, block: Block, value: Expr) -> Expr | None:
    """A choice by data between values as limits that are choices between constants; None for any other value.

    Args:
        func: the function; its declared ranges tell what values can be.
        block: whose value it is part of.
        value: any part of what the block stores.
    """
    if not switches(value):
        return None
    product = _factors(value)
    parts = choice_of(value if product is None else product[0])
    assert parts is not None
    condition, yes, no = parts
    if product is not None:
        return _like(product[0], condition, binary("*", product[1], yes), binary("*", product[1], no))
    both = _joined(condition)
    if both is not None:
        # What an iterator says may guard what data is read.
        first, then = (both.a, both.b) if has_loads(both.b) or not has_loads(both.a) else (both.b, both.a)
        inner = _like(value, then, yes, no)
        return _like(value, first, inner, no) if both.op == "and" else _like(value, first, yes, inner)
    dom = {iv.var: iv.dom for iv in block.iter_vars}
    if not reads_within(block, yes, no):
        return None
    bounds = ValueBounds(func)
    one, other = cast("int32", yes), cast("int32", no)
    low, high = (pick(ends) for pick, ends in zip((min, max), zip(bounds.of(one, dom), bounds.of(other, dom))))
    ends = int_value(yes), int_value(no)
    if None not in ends:
        return None  # of which ``choose_by_clip`` makes a step
    if ends != (None, None):
        at = ends[0] if ends[1] is None else ends[1]
        assert at is not None
        made = _one(condition, other if ends[1] is None else one, at, (low, high), ends[1] is None)
    elif high - low <= MOST:
        top = _far(low, high, 1)
        made = maximum(minimum(one, _between(condition, top, low)), minimum(other, _between(condition, low, top)))
    else:
        made = binary("+", _one(condition, one, 0, (low, high), False), _one(condition, other, 0, (low, high), True))
    known = [e for e in walk_expr(made) if isinstance(e, Select) and e.condition == condition and e not in (yes, no)]
    return cast(value.dtype, made) if all(chosen(limit) is not None for limit in known) else None


def _one(condition: Expr, moving: Expr, at: int, span: Interval, flips: bool) -> Expr:
    """A choice between a value and a constant.

    Args:
        condition: what it is by.
        moving: the value.
        at: the constant.
        span: lowest and highest of both.
        flips: whether the constant is what is chosen where the condition holds.
    """
    if max(span[1] - at, at - span[0]) > -LEAST:  # no limit lets all through
        held = _between(condition, *((at, 0) if flips else (0, at)))
        return binary("+", _one(condition, moving, 0, (min(span[0], 0), max(span[1], 0)), flips), held)
    made = moving
    for joined, end, sign in ((minimum, span[1], 1), (maximum, span[0], -1)):
        if end != at:  # else no value is beyond the constant
            free = _far(at, end, sign)
            made = joined(made, _between(condition, *((at, free) if flips else (free, at))))
    return made


def _between(condition: Expr, yes: int, no: int) -> Expr:
    """A choice between two constants."""
    return Select(condition, const(yes, "int32"), const(no, "int32"), "int32")


def _far(at: int, end: int, sign: int) -> int:
    """A limit that lets through all between two ends: so far from the one that a shift makes the step, if that is an int32."""
    return min(max(at + sign * (1 << (abs(end - at) - 1).bit_length()), LEAST), MOST)


def _like(value: Expr, condition: Expr, yes: Expr, no: Expr) -> Expr:
    """A choice of the kind that another one is."""
    if isinstance(value, Select):
        return Select(condition, yes, no, value.dtype)
    return Call("if_then_else", (condition, yes, no), value.dtype)


__all__ = ["Switches", "switched", "switches"]
