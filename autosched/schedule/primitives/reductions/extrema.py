"""Extrema of what one stage makes of several values: the stage is done once, to the extremum. hoist_extremum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from autosched.ir.expr import BinOp, Call, Cast, Expr, Var, binary, bits, int_value, is_int
from autosched.ir.functor import Mutator
from autosched.ir.patterns import operands
from autosched.ir.region import with_access
from autosched.ir.stmt import BufferStore, Range
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.primitives.reductions.minus import known_values
from autosched.schedule.primitives.reductions.windows import EXTREMA

SHIFTS = ("shift_right", "shift_left")
_Step = tuple[list[Expr], Callable[[Expr], Expr]]  # what something is done to, and doing it


class Extrema(ScheduleBase):
    """The primitive that takes extrema before what is done to each of their operands."""

    @primitive
    def hoist_extremum(self, block: BlockRV | str) -> None:
        """Takes the largest (smallest) of several values first, and does to it alone what was done to each of them.

        What never falls may come later: a shift by what all have in common, a minimum or maximum with that, a sum with it and a
        conversion, where value ranges prove that nothing overflows.

        Args:
            block: handle or name of a block that stores one value, without init (``expand_reduction`` writes a reduction out).

        Raises:
            ScheduleError: another block, or no minimum or maximum of values to all of which the same is done at last.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(T.max(T.shift_right(A[vi, 0], 8), 0), T.max(T.shift_right(A[vi, 1], 8), 0))

        After ``sch.hoist_extremum("C")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.max(T.shift_right(T.max(A[vi, 0], A[vi, 1]), 8), 0)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        own, store = realize.block, realize.block.body
        plain = isinstance(store, BufferStore) and own.init is None
        first = _First(known_values(state.func), {iv.var: iv.dom for iv in own.iter_vars})
        value = first.visit_expr(store.value) if plain and isinstance(store, BufferStore) else None
        if value is None or not isinstance(store, BufferStore) or value == store.value:
            self.refuse(f"block {own.name} stores no minimum or maximum of values to all of which the same is done at last, and "
                        "which ranges prove not to overflow", [own.ident], "expand_reduction writes a small reduction out", state,
                        code="form")
        new = with_access(replace(own, body=BufferStore(store.buffer, store.indices, value)))
        self.commit_nodes(state, {id(own): new})


class _First(Mutator):
    """Extrema in front of what is done to all their operands; constants that they are compared with besides come last.

    Args:
        values: what values can be.
        dom: of the block's iterators.
    """

    def __init__(self, values: ValueBounds, dom: Mapping[Var, Range]) -> None:
        self.values, self.dom = values, dom

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BinOp) and expr.op in EXTREMA and is_int(expr.dtype):
            found = self._hoisted(expr.op, expr)
            if found is not None:
                return found
        return super().visit_expr(expr)

    def _hoisted(self, op: str, value: Expr) -> Expr | None:
        """An extremum with what is done to all its operands at last behind it; None where that is nothing.

        It is a chain from the left, which takes no place besides its own; constants come last.
        """
        every = operands(value, op)
        leaves = list(dict.fromkeys(every))
        own, behind = [e for e in leaves if int_value(e) is None], [e for e in leaves if int_value(e) is not None]
        step = self._last(own) if len(own) > 1 else None
        if step is None:
            # What several are compared with comes last, too.
            common = [e for e in own if every.count(e) > 1]
            own, behind = [e for e in own if e not in common], [*common, *behind]
            if len(own) < 2 or sum(map(every.count, behind)) < 2:
                return None
            step = self._last(own) if common else None
        if step is None:
            found = reduce(lambda a, b: binary(op, a, b), own)
        else:
            inner = reduce(lambda a, b: binary(op, a, b), dict.fromkeys(step[0]))
            further = self._hoisted(op, inner)
            found = step[1](inner if further is None else further)
        return reduce(lambda a, b: binary(op, a, b), behind, found)

    def _last(self, values: Sequence[Expr]) -> _Step | None:
        """What is done to all of some values at last, and never falls; None where there is no such step."""
        first, dtype = values[0], values[0].dtype
        if isinstance(first, Cast):
            inner = [e.value for e in values if isinstance(e, Cast) and e.dtype == dtype and is_int(e.value.dtype)]
            if len({e.dtype for e in inner}) == 1 and all(self._holds(dtype, *self._ends(e)) for e in inner):
                return self._all(values, inner, lambda e: Cast(dtype, e))
        if isinstance(first, Call) and first.op in SHIFTS:
            how, (least, most) = first.op, self._ends(first.args[1])
            inner = [e.args[0] for e in values if isinstance(e, Call) and e.op == how and e.args[1] == first.args[1]]
            if least >= 0 and most < bits(dtype) and (
                how == "shift_right" or all(self._holds(dtype, *(end << most for end in self._ends(e))) for e in inner)
            ):
                return self._all(values, inner, lambda e: Call(how, (e, first.args[1]), dtype))
        if isinstance(first, BinOp) and first.op in (*EXTREMA, "+", "-"):
            found = self._joined(values, first.op, first.b)
            return self._joined(values, first.op, first.a) if found is None and first.op != "-" else found
        return None

    def _joined(self, values: Sequence[Expr], op: str, other: Expr) -> _Step | None:
        """The operation of all of some values with another one that they have in common."""
        inner = []
        for e in values:
            if isinstance(e, BinOp) and e.op == op and (e.b == other or (op != "-" and e.a == other)):
                inner.append(e.a if e.b == other else e.b)
        least, most = self._ends(other)
        for low, high in map(self._ends, inner if op in ("+", "-") else ()):
            if not self._holds(other.dtype, *((low + least, high + most) if op == "+" else (low - most, high - least))):
                return None
        return self._all(values, inner, lambda e: BinOp(op, e, other, other.dtype))

    @staticmethod
    def _all(values: Sequence[Expr], inner: list[Expr], done: Callable[[Expr], Expr]) -> _Step | None:
        return (inner, done) if len(inner) == len(values) else None

    def _ends(self, value: Expr) -> tuple[int, int]:
        return self.values.of(value, self.dom)

    @staticmethod
    def _holds(dtype: str, low: int, high: int) -> bool:
        least, most = dtype_bounds(dtype)
        return least <= low and high <= most
