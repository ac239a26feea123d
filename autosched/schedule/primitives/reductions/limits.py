"""Choices by the place of an element, by limits that differ from place to place: choose_by_limits. The ALU has no choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import Call, Expr, cast, const, int_value, maximum, minimum
from autosched.ir.functor import free_vars, rewrite, walk_expr
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.scopes import HELD
from autosched.ir.stmt import Block, BlockRealize, BufferStore, PrimFunc, Stmt, seq
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.operand import place_stage, reads_within
from autosched.schedule.primitives.reductions.plain import plain_store, top_of
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.schedule.primitives.reductions.zero_terms import Replaced

LEAST, MOST = dtype_bounds("int32")


class PlaceLimits(ScheduleBase):
    """The primitive that makes limits of a choice by place."""

    @primitive
    def choose_by_limits(self, block: BlockRV | str, path: Sequence[int] = ()) -> list[BlockRV]:
        """Writes a choice by iterators alone as minima and maxima with tensors, made by stages that load nothing.

        Where a value is not chosen it is limited to what the other one is not above, or not below; a constant is a limit
        itself. Two limits are one where declared ranges show that a value is never beyond the constant.

        Args:
            block: handle or name of a block without init, alone in its loops, that stores one value.
            path: the operand to take at each step from the stored value down to the choice.

        Returns:
            The stages that make the limits.

        Raises:
            ScheduleError: no choice between int8 or int32 values there, one by data, or one that guards what it reads.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.if_then_else(vj <= vi, T.max(A[vi, vj], -100), -100)

        After ``sch.choose_by_limits("C")``::

            C_limit = T.sblock_alloc_buffer((16, 16), "int32")
            for i, j in T.grid(16, 16):
                with T.sblock("C_limit"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C_limit[vi, vj] = T.if_then_else(vj <= vi, 2147483647, -100)
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.min(T.max(A[vi, vj], -100), C_limit[vi, vj])
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _limited(state, realize, [int(p) for p in path])
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in made]


def limits_of(func: PrimFunc, block: Block, value: Expr) -> Expr | None:
    """A choice by place as minima and maxima, the limits still choices between constants; None for any other value.

    Args:
        func: the function; its declared ranges tell what values can be.
        block: without init, whose value it is part of.
        value: any part of what the block stores.
    """
    parts = choice_of(value)
    if parts is None or block.init is not None or value.dtype not in HELD or has_loads(parts[0]):
        return None
    condition, yes, no = parts
    dom = {iv.var: iv.dom for iv in block.iter_vars}
    if not set(free_vars(condition)) & set(dom) or not reads_within(block, yes, no):
        return None
    bounds = ValueBounds(func)

    def limit(here: int | Expr, there: int | Expr) -> Expr:
        ends = [e if isinstance(e, Expr) else const(e, "int32") for e in (here, there)]
        return Call("if_then_else", (condition, *ends), "int32")

    ends = int_value(yes), int_value(no)
    if None not in ends:
        return cast(value.dtype, limit(cast("int32", yes), cast("int32", no)))
    one, other = cast("int32", yes), cast("int32", no)
    if ends != (None, None):
        at = ends[0] if ends[1] is None else ends[1]
        assert at is not None
        moving = one if ends[0] is None else other

        def chosen(free: int, held: int) -> Expr:
            return limit(free, held) if ends[0] is None else limit(held, free)

        low, high = bounds.of(moving, dom)
        if low >= at:
            return cast(value.dtype, minimum(moving, chosen(MOST, at)))
        if high <= at:
            return cast(value.dtype, maximum(moving, chosen(LEAST, at)))
        return cast(value.dtype, maximum(minimum(moving, chosen(MOST, at)), chosen(LEAST, at)))
    return cast(value.dtype, maximum(minimum(one, limit(MOST, LEAST)), minimum(other, limit(LEAST, MOST))))


def _limited(state: State, realize: BlockRealize, path: list[int]) -> tuple[Stmt, list[Block]]:
    block = realize.block
    store = plain_store(block)
    part = part_at(block, store.value, path)
    made = limits_of(state.func, block, part)
    if made is None:
        raise Refusal(f"{expr_text(part)} in block {block.name} is no choice by iterators between values that can be read "
                      "wherever it runs", [block.ident], code="form")
    top = top_of(state, realize)
    scope = scope_of(state, block)
    names, taken = set(state.block_names()), state.buffer_names(scope)
    stages: list[Block] = []
    value = store.value
    for choice in [e for e in walk_expr(made) if choice_of(e) is not None and not has_loads(e) and _by_place(e)]:
        name = fresh_name(f"{block.name}_limit", names)
        stage, load = place_stage(block, choice, name, fresh_name(f"{store.buffer.name}_limit", taken))
        names, taken = {*names, name}, {*taken, load.buffer.name}
        made = Replaced(choice, load).visit_expr(made)
        stages.append(stage)
    value = Replaced(part, made).visit_expr(value)
    changed = with_access(replace(block, body=BufferStore(store.buffer, store.indices, value)))
    nests = [*[own_nest(s) for s in stages], rewrite(top, realize, replace(realize, block=changed))]
    allocs = {id(scope): (*scope.alloc_buffers, *[s.writes[0].buffer for s in stages])}
    return state.rewrite({id(top): seq(*nests)}, allocs), stages


def _by_place(choice: Expr) -> bool:
    parts = choice_of(choice)
    return parts is not None and bool(set(free_vars(parts[0])))


__all__ = ["PlaceLimits", "limits_of"]
