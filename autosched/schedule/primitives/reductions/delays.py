"""Shifts of one term of a sum, behind the whole sum: delay_shift. What was apart as x >> s and x is one multiple of x there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, bits, const, int_value, wrap
from autosched.ir.functor import expr_children
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BufferStore
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.minus import known_values
from autosched.schedule.primitives.reductions.plain import plain_store
from autosched.schedule.primitives.reductions.zero_terms import Replaced

NUMBER = "int32"


class Delays(ScheduleBase):
    """The primitive that shifts later."""

    @primitive
    def delay_shift(self, block: BlockRV | str) -> None:
        """Moves a right shift of one term of a sum behind the sum, whose other terms become multiples of what it divides by.

        ``(x >> s) + y`` equals ``(x + (y << s)) >> s`` as long as nothing overflows: a shift rounds down, and a multiple changes
        nothing about that. Multiples of the same value become one there: ``(13 * x >> 7) - x`` is ``-115 * x >> 7``.

        Args:
            block: handle or name of a block that stores one value, without init; of several such sums it is the outermost that
                is looked at, and of several shifts the first that may move.

        Raises:
            ScheduleError: no int32 sum of a value that is shifted to the right by a constant, and something else; the ranges of
                values do not prove that nothing overflows.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(T.shift_right(T.Cast("int32", A[vi]) * 13, 7) - T.Cast("int32", A[vi]), 0)

        After ``sch.delay_shift("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(T.shift_right(T.Cast("int32", A[vi]) * -115, 7), 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = _delayed(state, realize.block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


@dataclass(frozen=True)
class _Sum:
    """A sum of multiples of values, each of which occurs once, and a constant; as exact numbers, which do not wrap around.

    Args:
        multiples: each value and how often it is added.
        constant: what is added besides.
    """

    multiples: dict[Expr, int]
    constant: int = 0

    def plus(self, other: _Sum, by: int = 1) -> _Sum:
        """This sum and a multiple of another one."""
        every = dict(self.multiples)
        for value, factor in other.multiples.items():
            every[value] = every.get(value, 0) + factor * by
        return _Sum({value: factor for value, factor in every.items() if factor}, self.constant + other.constant * by)

    def written(self) -> Expr:
        """The sum of some values as an expression; factors wrap around, which does nothing to a sum that stays in its type."""
        terms = [(value, wrap(factor, NUMBER)) for value, factor in self.multiples.items()]
        every = [value if factor == 1 else BinOp("*", value, const(factor, NUMBER), NUMBER) for value, factor in terms]
        constant = wrap(self.constant, NUMBER)
        return reduce(lambda a, b: BinOp("+", a, b, NUMBER), [*every, *([const(constant, NUMBER)] if constant else [])])


def _delayed(state: State, block: Block) -> Block:
    """A block that shifts a sum where it added something to what it shifts."""
    store = plain_store(block, alone=True)
    values, dom = known_values(state.func), {iv.var: iv.dom for iv in block.iter_vars}
    least, most = dtype_bounds(NUMBER)

    def holds(total: _Sum) -> bool:
        ends = [sorted(end * factor for end in values.of(value, dom)) for value, factor in total.multiples.items()]
        low, high = (sum(e[n] for e in ends) + total.constant for n in (0, 1))
        return least <= low and high <= most

    there = False
    for whole in _sums(store.value):
        terms = _terms(whole)
        for value, factor in terms.multiples.items():
            by = _divides(value)
            rest = terms.plus(_Sum({value: -1}))
            if by is None or factor != 1 or rest == _Sum({}):
                continue
            there = True
            assert isinstance(value, Call)
            inner = _terms(value.args[0])
            total = inner.plus(rest, 1 << by)
            # What is shifted now must not wrap around either: what is shifted then is larger by a multiple.
            if holds(inner) and holds(total):
                known = const(total.constant >> by, NUMBER)
                moved = Call("shift_right", (total.written(), value.args[1]), NUMBER) if total.multiples else known
                changed = BufferStore(store.buffer, store.indices, Replaced(whole, moved).visit_expr(store.value))
                return with_access(replace(block, body=changed))
    if there:
        raise Refusal(f"shifted at last, a sum of block {block.name} may be more than {NUMBER} holds", [block.ident],
                      "declare narrower ranges of the parameters", code="range")
    raise Refusal(f"block {block.name} adds nothing to an {NUMBER} value that it shifts to the right by a constant",
                  [block.ident], code="form")


def _sums(value: Expr, inside: bool = False) -> Iterator[Expr]:
    """Every sum or difference that a value is made of, as a whole, from the outside in; none of what one goes on with."""
    if isinstance(value, BufferLoad):
        return  # an index is no value
    joined = isinstance(value, BinOp) and value.op in ("+", "-") and value.dtype == NUMBER
    if joined and not inside:
        yield value
    for child in expr_children(value):
        yield from _sums(child, joined)


def _terms(value: Expr, by: int = 1) -> _Sum:
    """What a value is the sum of, multiples and differences taken apart."""
    constant = int_value(value)
    if constant is not None:
        return _Sum({}, constant * by)
    if isinstance(value, BinOp) and value.dtype == NUMBER:
        if value.op in ("+", "-"):
            return _terms(value.a, by).plus(_terms(value.b, by if value.op == "+" else -by))
        for own, other in ((value.a, value.b), (value.b, value.a)) if value.op == "*" else ():
            if (factor := int_value(other)) is not None:
                return _terms(own, by * factor) if factor else _Sum({})
    if isinstance(value, Call) and value.op == "shift_left" and value.dtype == NUMBER:
        shift = int_value(value.args[1])
        if shift is not None and 0 <= shift < bits(NUMBER):
            return _terms(value.args[0], by << shift)
    return _Sum({value: by} if by else {})


def _divides(value: Expr) -> int | None:
    """By how many positions a value is shifted to the right; None where it is not, or by no constant."""
    if not (isinstance(value, Call) and value.op == "shift_right" and value.dtype == NUMBER):
        return None
    by = int_value(value.args[1])
    return by if by is not None and 0 < by < bits(NUMBER) else None


__all__ = ["Delays"]
