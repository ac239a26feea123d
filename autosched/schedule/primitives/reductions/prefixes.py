"""What is taken in up to a place, as a window that ends there: slide_reduction."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BinOp, Call, Cast, Expr, IntImm, Var, binary, int_value, is_int
from autosched.ir.functor import free_vars, substitute
from autosched.ir.patterns import choice_of, has_loads, update_of
from autosched.ir.region import with_access
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import Block, BufferStore
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.plain import plain_store, require_once
from autosched.schedule.primitives.reductions.values import negated
from autosched.schedule.primitives.reductions.zero_terms import Replaced


class Prefixes(ScheduleBase):
    """The primitive for scans."""

    @primitive
    def slide_reduction(self, block: BlockRV | str) -> None:
        """Counts what a sum or extremum takes in up to a place, or from there on, from that place.

        Of as many terms as there are steps those count at which a window that begins at the place is inside the tensor.

        Args:
            block: handle or name of a block that adds up integers, or finds their minimum or maximum, of which a comparison of
                an index that it reduces with another one says whether an element counts, or a constant.

        Raises:
            ScheduleError: another block, or elements that are read by the place already; loops that are not known to run every
                combination of its iterators once; places from which the window would begin outside of what is reduced.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -128
                    C[vi] = T.max(C[vi], T.if_then_else(vk <= vi, A[vk], -128))

        After ``sch.slide_reduction("C")``::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = -128
                    C[vi] = T.max(C[vi], T.if_then_else(vk <= vi, A[vi - vk], -128))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            new = slid(realize.block)
            if new is None:
                raise Refusal(f"block {realize.block.name} takes in no elements up to a place, or from there on",
                              [realize.block.ident], code="form")
            require_once(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(realize.block): new})


def slid(block: Block) -> Block | None:
    """A reduction of elements up to a place, or from there on, that counts from the place; None for any other block.

    Args:
        block: any.
    """
    if block.init is None or not isinstance(block.body, BufferStore):
        return None
    store = plain_store(block)
    update = update_of(store)
    if update is None or not is_int(store.buffer.dtype):
        return None
    term = update[1]
    choice = term.value if isinstance(term, Cast) else term
    parts = choice_of(choice)
    if parts is None or has_loads(parts[0]):
        return None
    condition, yes, no = parts if int_value(parts[2]) is not None else (negated(parts[0]), parts[2], parts[1])
    found = _end(block, condition) if int_value(no) is not None else None
    if found is None:
        return None
    step, place, at, guard = found
    if place in free_vars(yes):
        return None  # it counts from there already
    inner = Call("if_then_else", (guard, substitute(yes, {step: at}), no), choice.dtype)
    value = Replaced(choice, inner).visit_expr(store.value)
    return with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))


def _end(block: Block, condition: Expr) -> tuple[Var, Var, Expr, Expr] | None:
    """(the step, the place, which element the step then takes in, at which steps it does), or None."""
    if not (isinstance(condition, BinOp) and condition.op in ("<", "<=", ">", ">=")):
        return None
    form = linear_form(binary("-", condition.a, condition.b), [iv.var for iv in block.iter_vars])
    if form is None:
        return None
    # The condition is that a sum of iterators and a constant is at most 0.
    sign = 1 if condition.op in ("<", "<=") else -1
    factors = {v: sign * c for v, c in form[0].items() if isinstance(c, int)}
    known = int_value(form[1])
    if known is None or len(factors) < len(form[0]):
        return None
    rest = sign * known + (condition.op in ("<", ">"))
    own = {iv.var: iv for iv in block.iter_vars}
    steps = [v for v in factors if own[v].kind == "reduce"]
    places = [v for v in factors if own[v].kind == "spatial"]
    if len(steps) != 1 or len(places) != 1 or {*factors.values()} != {1, -1}:
        return None
    (step,), (place,) = steps, places
    ends = [(int_value(own[v].dom.min), int_value(own[v].dom.extent)) for v in (step, place)]
    (first, count), (low, extent) = ends
    if first != 0 or count is None or low is None or extent is None:
        return None
    if factors[step] > 0:  # step <= place - rest
        if low + extent - 1 - rest > count - 1:
            return None
        last = binary("-", place, IntImm(rest, place.dtype))
        return step, place, binary("-", last, step), BinOp("<=", step, last, "bool")
    begin = binary("+", place, IntImm(rest, place.dtype))  # step >= place + rest
    if low + rest < 0:
        return None
    return step, place, binary("+", begin, step), BinOp("<", binary("+", begin, step), IntImm(count, place.dtype), "bool")


__all__ = ["Prefixes", "slid"]
