"""The same value in other operations: simplify_value, expand_choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from autosched.ir.expr import (
    BinOp,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Not,
    Select,
    Var,
    bits,
    cast,
    const,
    int_value,
    intrin,
    is_int,
    maximum,
    minimum,
)
from autosched.ir.functor import Mutator, walk_expr
from autosched.ir.host import is_move
from autosched.ir.linear import MIRRORED
from autosched.ir.patterns import choice_of, has_loads, is_shifted
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BufferStore, PrimFunc, Range
from autosched.ir.value_bounds import Interval, ValueBounds, dtype_bounds
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.cancelling import without_cancelled
from autosched.schedule.primitives.reductions.comparisons import by_difference, exchanged, in_other_types
from autosched.schedule.primitives.reductions.plain import plain_store

OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_Step = Callable[[int], int]  # an operation with a constant
EXACT = ("+", "-", "*", "min", "max")  # of which wide operands give the wide result, where nothing wraps


class Values(ScheduleBase):
    """The primitives that write values in other words."""

    @primitive
    def simplify_value(self, block: BlockRV | str) -> None:
        """Writes what a block stores more plainly: choices between values as minima and maxima, conversions that do nothing out.

        A minimum or maximum with a constant that the other operand never passes is that operand.
        An absolute value is the larger of a value and its negative, and a division by a power of two that rounds to zero the
        larger of two shifts.
        A choice by a comparison with a constant becomes ``min`` or ``max`` where both sides rise (or stay) with what is
        compared and meet at the constant. One by a comparison of two values, whose sides are each other with these exchanged,
        is the one side of their minimum and maximum; a comparison that is a number is a choice between 1 and 0. A choice by
        indices has its constant last, and indices under its condition only.
        Conversions to a type and on to a narrower one are one, and arithmetic that fits a narrow type is done in the wide one
        that it is converted to. What is added and taken away as well is no part of a value; of one of which
        nothing is left, an element is limited to the constant that is. An element that is only shifted by 0 is
        that element. Declared value ranges count.

        Args:
            block: handle or name of a block that stores one value; it may have an init.

        Raises:
            ScheduleError: no such store, or nothing that could be written more plainly.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int8", T.Select(A[vi] < 0, 0, T.shift_right(A[vi], 4)))

        After ``sch.simplify_value("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.Cast("int8", T.max(T.shift_right(A[vi], 4), 0))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = simplified(state.func, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})

    @primitive
    def expand_choice(self, block: BlockRV | str) -> None:
        """Writes a choice between integers as the sum of all of them, each with zeros where it is not the one that is chosen.

        Args:
            block: handle or name of a block without init whose value is ``if_then_else`` or ``Select`` by iterators alone, with
                two operands, further choices or constants.

        Raises:
            ScheduleError: another value, or a choice with a single term that is not zero.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.if_then_else(vi < 8, A[vi], B[vi - 8])

        After ``sch.expand_choice("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.if_then_else(vi < 8, A[vi], 0) + T.if_then_else(vi >= 8, B[vi - 8], 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _expanded(realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


def _expanded(block: Block) -> Block:
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None or not is_int(store.value.dtype):
        raise Refusal(f"block {block.name} is not one plain store of an integer, without init", [block.ident], code="form")
    terms = [(condition, value) for condition, value in _terms(store.value, None) if int_value(value) != 0]
    if len(terms) < 2 or has_loads(*[c for c, _ in terms if c is not None]):
        raise Refusal(f"block {block.name} does not choose between two operands by its iterators", [block.ident], code="form")
    total: Expr | None = None
    for condition, value in terms:
        assert condition is not None
        term = Call("if_then_else", (condition, value, const(0, value.dtype)), value.dtype)
        total = term if total is None else BinOp("+", total, term, value.dtype)
    assert total is not None
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, total)))


def _terms(value: Expr, condition: Expr | None) -> list[tuple[Expr | None, Expr]]:
    """What a value is, each with when; None for always."""
    parts = choice_of(value)
    if parts is None:
        return [(condition, value)]
    holds, yes, no = parts
    both = [holds if condition is None else BinOp("and", condition, holds, "bool"),
            negated(holds) if condition is None else BinOp("and", condition, negated(holds), "bool")]
    return [*_terms(yes, both[0]), *_terms(no, both[1])]


def simplified(func: PrimFunc, block: Block) -> Block:
    """A block that stores its value in plainer operations.

    Args:
        func: the function; its declared ranges and other blocks tell what values can be.
        block: of it.

    Raises:
        Refusal: there is nothing to do.
    """
    store = plain_store(block)
    plainer = _Plainer(ValueBounds(func), {iv.var: iv.dom for iv in block.iter_vars})
    value = _unshifted(plainer.visit_expr(without_cancelled(store.value, None if block.init is None else store.buffer)))
    if value == store.value:
        raise Refusal(f"block {block.name} stores nothing that could be written more plainly", [block.ident], code="form")
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def _unshifted(value: Expr) -> Expr:
    """What a value only moves, shifted by 0: no operation of the machine does that, and it stores only what one has made."""
    if isinstance(value, Cast):
        inner = _unshifted(value.value)
        return value if inner is value.value else cast(value.dtype, inner)
    shifts = isinstance(value, Call) and value.op in ("shift_right", "shift_left") and int_value(value.args[1]) == 0
    inner = _unshifted(value.args[0]) if shifts and isinstance(value, Call) else value
    return inner if is_move(inner) else value


class _Plainer(Mutator):
    """Rewrites expressions from the inside out, each as the same value under the conditions around it.

    Args:
        values: what buffers can hold.
        dom: of the block's iterators.
    """

    def __init__(self, values: ValueBounds, dom: Mapping[Var, Range]) -> None:
        self.values = values
        self.dom = dom
        self.known = Analyzer(dom)

    def visit_load(self, load: BufferLoad) -> Expr:
        indices = tuple([self._shorter(index) for index in load.indices])
        return load if indices == load.indices else BufferLoad(load.buffer, indices, load.dtype)

    def _shorter(self, index: Expr) -> Expr:
        """An expression of iterators in its normal form, where that is shorter."""
        short = self.known.simplify(index)
        return short if sum(1 for _ in walk_expr(short)) < sum(1 for _ in walk_expr(index)) else index

    def visit_expr(self, expr: Expr) -> Expr:
        parts = choice_of(expr)
        if parts is not None:
            return self._choice(*parts, expr)
        made = super().visit_expr(expr)
        if isinstance(made, Call) and made.op in ("abs", "fabs") and is_int(made.dtype):
            x = made.args[0]
            return BinOp("max", x, BinOp("-", const(0, x.dtype), x, x.dtype), x.dtype)
        if isinstance(made, Call) and made.op == "bitwise_not" and is_int(made.dtype):
            return BinOp("-", const(-1, made.dtype), made.args[0], made.dtype)
        if isinstance(made, BinOp) and made.op == "truncdiv" and made.dtype == "int32" and has_loads(made.a):
            return self._towards_zero(made)
        if isinstance(made, BinOp) and made.op in ("min", "max") and is_int(made.dtype):
            return self._reached(made)
        if isinstance(made, Cast) and made.value.dtype == "bool" and is_int(made.dtype) and has_loads(made.value):
            return self._choice(made.value, const(1, made.dtype), const(0, made.dtype), made)
        return self._converted(made) if isinstance(made, Cast) else made

    def _reached(self, made: BinOp) -> Expr:
        """A clip, or what it clips where that never reaches the constant."""
        for x, other in ((made.a, made.b), (made.b, made.a)):
            limit = int_value(other)
            if limit is not None and has_loads(x):
                low, high = self.values.of(x, self.dom)
                if high <= limit if made.op == "min" else low >= limit:
                    return x
        return made

    def _towards_zero(self, made: BinOp) -> Expr:
        """A division by a power of two that rounds to zero, by shifts, which round down: of what is negative the next one up."""
        x, by = made.a, int_value(made.b) or 0
        if by < 2 or by & (by - 1):
            return made
        shift = const(by.bit_length() - 1)
        down = intrin("shift_right", x, shift)
        if self.values.of(x, self.dom)[0] >= 0:
            return down
        return maximum(down, intrin("shift_right", minimum(x, const(0)) + (by - 1), shift))

    # -- choices --------------------------------------------------------------------------------------------------------

    def _choice(self, condition: Expr, yes: Expr, no: Expr, whole: Expr) -> Expr:
        if not has_loads(condition):
            return self._by_index(condition, yes, no, whole)
        condition, yes, no = (self.visit_expr(e) for e in (condition, yes, no))
        found = self._extremum(condition, yes, no)
        if found is None and whole.dtype == "int8":
            sides = [_before_narrowing(e) for e in (yes, no)]
            wide = None if None in sides else self._extremum(condition, *sides)  # type: ignore[arg-type]
            found = None if wide is None else cast("int8", wide)
        if found is None:
            found = self._compared(condition, yes, no)
        if found is not None:
            return found
        if isinstance(whole, Select):
            return Select(condition, yes, no, whole.dtype)
        return Call("if_then_else", (condition, yes, no), whole.dtype)

    def _compared(self, condition: Expr, yes: Expr, no: Expr) -> Expr | None:
        """A choice between what depends on two compared values, or on one in another type, or None."""
        def bounds(e: Expr) -> Interval:
            return self.values.of(e, self.dom)

        found = exchanged(condition, yes, no, bounds)
        if found is not None:
            return self.visit_expr(found)  # with extrema where choices were
        apart = by_difference(condition, yes, no, bounds=bounds)
        others = in_other_types(condition, yes, no) if apart is None else [apart, *in_other_types(apart, yes, no)]
        return next((made for other in others if (made := self._extremum(other, yes, no)) is not None), None)

    def _by_index(self, condition: Expr, yes: Expr, no: Expr, whole: Expr) -> Expr:
        """A choice by iterators alone: its constant last, whatever it reads under its condition."""
        holds = self.known.simplify(condition)
        if isinstance(holds, IntImm):
            return self.visit_expr(yes if holds.value else no)
        if int_value(yes) is not None and int_value(no) is None:
            condition, yes, no = negated(condition), no, yes
        with self.known.with_constraint(condition):
            yes = self.visit_expr(yes)
        with self.known.with_constraint(negated(condition)):
            no = self.visit_expr(no)
        inner = yes if isinstance(yes, Call) and yes.op == "if_then_else" else None
        # Of data nothing is known that keeps a sum from wrapping around: what is said of it stays as it is.
        if inner is not None and not has_loads(inner.args[0]) and int_value(no) is not None and inner.args[2] == no:
            condition, yes = BinOp("and", condition, inner.args[0], "bool"), inner.args[1]
        condition = self._shorter(condition)
        if isinstance(whole, Select) and not has_loads(yes, no):
            return Select(condition, yes, no, whole.dtype)
        return Call("if_then_else", (condition, yes, no), whole.dtype)

    def _extremum(self, condition: Expr, yes: Expr, no: Expr) -> Expr | None:
        """A choice by ``x < t`` as a minimum or maximum, or None."""
        found = threshold(condition)
        if found is None or not is_int(yes.dtype):
            return None
        x, at, below = found
        low, high = self.values.of(x, self.dom)
        under, over = (yes, no) if below else (no, yes)
        if high < at:
            return under
        if low >= at:
            return over
        return self._joined(x, at, under, over, (low, high))

    def _joined(self, x: Expr, at: int, under: Expr, over: Expr, span: Interval) -> Expr | None:
        """The value that is ``under`` where ``x < at`` and ``over`` elsewhere, without a choice, or None."""
        constants = int_value(under), int_value(over)
        if constants == (None, None):
            found = self._scaled(x, at, under, over, span)
            return found if found is not None else self._clipped(x, at, under, over, span)
        if None not in constants:
            return None
        moving, limit = (over, constants[0]) if constants[0] is not None else (under, constants[1])
        assert limit is not None
        rising = _rising(moving, x, span)
        if rising is None:
            return None
        before, after = rising(at - 1), rising(at)
        if before <= limit <= after:
            # Where the constant stands below, smaller values of the other side never reach it; else larger ones pass it.
            return BinOp("max" if constants[0] is not None else "min", moving, const(limit, moving.dtype), moving.dtype)
        return None

    def _scaled(self, x: Expr, at: int, under: Expr, over: Expr, span: Interval) -> Expr | None:
        """A choice at zero between two multiples of what is compared, by powers of two: slopes that meet there."""
        powers = _power(under, x, span), _power(over, x, span)
        if at not in (0, 1) or powers[1] is None:
            return None
        if powers[0] is not None:
            return BinOp("max" if powers[0] <= powers[1] else "min", under, over, under.dtype)
        if _is_negative(under, x) and (span[0] > dtype_bounds(x.dtype)[0] or powers[1] == 0):
            return BinOp("max", over, under, under.dtype)
        return None

    def _clipped(self, x: Expr, at: int, under: Expr, over: Expr, span: Interval) -> Expr | None:
        """A choice of which one side is clipped by a constant that the other side never passes: the clip goes around it."""
        for side, other, ends in ((over, under, (span[0], at - 1)), (under, over, (at, span[1]))):
            limit = int_value(side.b) if isinstance(side, BinOp) and side.op in ("min", "max") else None
            rising = _rising(other, x, span)
            if limit is None or rising is None or not isinstance(side, BinOp):
                continue
            if rising(ends[1]) <= limit if side.op == "min" else rising(ends[0]) >= limit:
                inner = (under, side.a) if side is over else (side.a, over)
                made = self._joined(x, at, *inner, span)
                return None if made is None else BinOp(side.op, made, side.b, side.dtype)
        return None

    # -- conversions ----------------------------------------------------------------------------------------------------

    def _converted(self, made: Cast) -> Expr:
        inner = made.value
        if not is_int(made.dtype) or not is_int(inner.dtype):
            return made
        if isinstance(inner, Cast) and is_int(inner.value.dtype):
            whole, held = dtype_bounds(inner.dtype), self.values.of(inner.value, self.dom)
            if bits(inner.dtype) >= bits(made.dtype) or (whole[0] <= held[0] and held[1] <= whole[1]):
                shorter = cast(made.dtype, inner.value)
                return self._converted(shorter) if isinstance(shorter, Cast) else shorter
        if isinstance(inner, BinOp) and inner.op in EXACT and bits(inner.dtype) < bits(made.dtype):
            # Worked out in a type that holds the operands' products, the value says whether the narrow one wraps.
            wide = BinOp(inner.op, Cast("int64", inner.a), Cast("int64", inner.b), "int64")
            whole, held = dtype_bounds(inner.dtype), self.values.of(wide, self.dom)
            if whole[0] <= held[0] and held[1] <= whole[1]:
                a, b = self._converted_to(made.dtype, inner.a), self._converted_to(made.dtype, inner.b)
                return BinOp(inner.op, a, b, made.dtype)
        if is_shifted(inner) and isinstance(inner, Call) and bits(inner.dtype) < bits(made.dtype):
            return Call(inner.op, (self._converted_to(made.dtype, inner.args[0]), cast(made.dtype, inner.args[1])), made.dtype)
        if isinstance(inner, BinOp | Call) and bits(made.dtype) < bits(inner.dtype) == 16:
            # No memory of the machine holds what lies between.
            whole_value = self._converted_to("int32", inner)
            if not any(e.dtype == inner.dtype for e in walk_expr(whole_value)):
                return cast(made.dtype, whole_value)
        return made

    def _converted_to(self, dtype: str, value: Expr) -> Expr:
        made = cast(dtype, value)
        return self._converted(made) if isinstance(made, Cast) else made


def _before_narrowing(value: Expr) -> Expr | None:
    """The int32 value of which a value is the int8 one, or None."""
    at = int_value(value)
    if at is not None:
        return const(at, "int32")
    return value.value if isinstance(value, Cast) and value.value.dtype == "int32" else None


def negated(condition: Expr) -> Expr:
    """A condition that holds where another does not, without ``not`` around comparisons.

    Args:
        condition: a boolean expression.
    """
    if isinstance(condition, Not):
        return condition.a
    if isinstance(condition, BinOp) and condition.op in ("and", "or"):
        op = "or" if condition.op == "and" else "and"
        return BinOp(op, negated(condition.a), negated(condition.b), "bool")
    if isinstance(condition, BinOp) and condition.op in OPPOSITE and is_int(condition.a.dtype):
        return BinOp(OPPOSITE[condition.op], condition.a, condition.b, "bool")
    return Not(condition)


def threshold(condition: Expr) -> tuple[Expr, int, bool] | None:
    """(x, t, whether the condition is ``x < t`` and not its opposite) of a comparison with a constant, or None.

    Args:
        condition: a boolean expression.
    """
    if isinstance(condition, Not):
        found = threshold(condition.a)
        return None if found is None else (found[0], found[1], not found[2])
    if not (isinstance(condition, BinOp) and condition.op in ("<", "<=", ">", ">=") and is_int(condition.a.dtype)):
        return None
    op, a, b = condition.op, condition.a, condition.b
    if int_value(a) is not None:
        op, a, b = MIRRORED[op], b, a
    at = int_value(b)
    if at is None or int_value(a) is not None:
        return None
    return a, at + (op in ("<=", ">")), op in ("<", "<=")


def _rising(value: Expr, x: Expr, span: Interval) -> Callable[[int], int] | None:
    """A value as a function of ``x`` that never falls while ``x`` rises, nor wraps within a span; None if that is not known."""
    steps: list[_Step] = []
    low, high = span
    path: list[Expr] = []
    while value != x:
        path.append(value)
        inner = _moved(value)
        if inner is None:
            return None
        value = inner
    for node in reversed(path):
        step = _step(node)
        if step is None:
            return None
        steps.append(step)
        low, high = step(low), step(high)
        whole = dtype_bounds(node.dtype)
        if low < whole[0] or high > whole[1]:
            return None

    def rising(at: int) -> int:
        for step in steps:
            at = step(at)
        return at

    return rising


def _moved(value: Expr) -> Expr | None:
    """The operand of an operation with a constant that is not the constant."""
    if isinstance(value, Cast):
        return value.value
    if isinstance(value, BinOp):
        if int_value(value.b) is not None:
            return value.a
        return value.b if int_value(value.a) is not None and value.op in ("+", "*", "min", "max") else None
    if isinstance(value, Call) and value.op in ("shift_left", "shift_right") and int_value(value.args[1]) is not None:
        return value.args[0]
    return None


def _step(value: Expr) -> _Step | None:
    """An operation with a constant that never falls, or None."""
    if isinstance(value, Cast):
        return (lambda at: at) if is_int(value.dtype) and is_int(value.value.dtype) else None
    if isinstance(value, Call):
        by = int_value(value.args[1])
        if by is None or not 0 <= by < bits(value.dtype):
            return None
        return (lambda at: at << by) if value.op == "shift_left" else (lambda at: at >> by)
    assert isinstance(value, BinOp)
    right = int_value(value.b)
    c = right if right is not None else int_value(value.a)
    if c is None:
        return None
    if value.op == "+":
        return lambda at: at + c
    if value.op == "-":
        return lambda at: at - c
    if value.op == "*" and c >= 0:
        return lambda at: at * c
    if value.op == "//" and c > 0:
        return lambda at: at // c
    if value.op == "min":
        return lambda at: min(at, c)
    if value.op == "max":
        return lambda at: max(at, c)
    return None


def _power(value: Expr, x: Expr, span: Interval) -> int | None:
    """The k of ``x * 2**k``, rounded down where k is negative; None for any other value, and where it might wrap."""
    k = 0
    if value != x:
        inner = _moved(value)
        if inner != x:
            return None
        by = int_value(value.args[1]) if isinstance(value, Call) else None
        if isinstance(value, Call) and by is not None and 0 <= by < bits(value.dtype):
            k = by if value.op == "shift_left" else -by
        elif isinstance(value, BinOp) and value.op in ("*", "//"):
            factor = int_value(value.b) if int_value(value.b) is not None else int_value(value.a)
            if factor is None or factor <= 0 or factor & (factor - 1):
                return None
            k = (factor.bit_length() - 1) * (1 if value.op == "*" else -1)
        else:
            return None
    whole = dtype_bounds(value.dtype)
    if k > 0 and (span[0] << k < whole[0] or span[1] << k > whole[1]):
        return None
    return k


def _is_negative(value: Expr, x: Expr) -> bool:
    """Whether a value is ``-x``."""
    if not isinstance(value, BinOp):
        return False
    if value.op == "-":
        return int_value(value.a) == 0 and value.b == x
    return value.op == "*" and {-1} & {int_value(value.a), int_value(value.b)} != set() and x in (value.a, value.b)


__all__ = ["Values", "negated", "simplified", "threshold"]
