"""Splitting a reduction into its initialisation and its updates, and folding an epilogue into a reduction."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import Var, logical_and
from autosched.ir.functor import Substitute, rewrite
from autosched.ir.region import block_access
from autosched.ir.simplify import conjuncts
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    For,
    Ident,
    IterVar,
    Stmt,
    seq,
)
from autosched.schedule.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.dependence import (
    Refusal,
    is_unit,
    not_reduction,
    one_to_one,
    scope_of,
    uses,
)
from autosched.schedule.primitive import primitive
from autosched.schedule.state import State


class Reductions(ScheduleBase):
    """Primitives about reduction blocks."""

    @primitive
    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """Splits a reduction block into one that initialises and one that updates.

        Args:
            block: a reduction block.
            loop: a loop around it, no deeper than any loop that its reduction runs over; the initialisation goes
                before it.

        Returns:
            The initialising block, ``<name>_init``; the handle of the given block is the updating one,
            ``<name>_update``.

        Before: ``for i, k: with init: C[i] = 0; C[i] += A[i, k]``; after ``decompose_reduction("C", k)``:
        ``for i: (C_init: C[i] = 0; for k: C_update: C[i] += A[i, k])``.

        Raises:
            ScheduleError: not a reduction block, or a loop above ``loop`` belongs to the reduction.
        """
        state, realize = self.block_at(block)
        other, node = self.loop_at(loop)
        try:
            if other is not state:
                raise Refusal("the loop and the block belong to different functions")
            table, ident = _decompose(state, realize, node)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state)
        self.commit_nodes(state, table)
        return self.block_rv(ident)


def _decompose(state: State, realize: BlockRealize, target: For) -> tuple[dict[int, Stmt | None], Ident]:
    block = realize.block
    scope = scope_of(state, block)
    loops = state.loops_above(realize)
    if not any(n is target for n in loops):
        raise Refusal(f"loop {target.var.name} is not around block {block.name}", [target.var, block.ident])
    reason = not_reduction(state, block, scope)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a reduction block: {reason}", [block.ident])
    position = next(k for k, n in enumerate(loops) if n is target)
    for iv, value in zip(block.iter_vars, realize.iter_values):
        if iv.kind != "reduce":
            continue
        for higher in loops[:position]:
            if uses(value, {higher.var}):
                raise Refusal(
                    f"loop {higher.var.name}, above {target.var.name}, belongs to the reduction of {block.name}: the "
                    "initialisation would run again in each of its iterations", [higher.var, block.ident],
                    f'sch.decompose_reduction("{block.name}", {higher.var.name})',
                )
    for inner in loops[position:]:
        if not is_unit(inner.extent) and not any(uses(v, {inner.var}) for v in realize.iter_values):
            raise Refusal(
                f"loop {inner.var.name} repeats the whole of {block.name}, so the initialisation must stay inside it",
                [inner.var, block.ident],
            )
    if not one_to_one(realize.iter_values, loops[position:], realize.predicate, loops[:position]):
        raise Refusal(
            f"under loop {target.var.name} the parts that {block.name} reduces overlap, so the initialisation must stay "
            "with them", [target.var, block.ident], "decompose at a deeper loop",
        )
    init = block.init
    assert init is not None
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars if iv.kind == "spatial"}
    values = [v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.kind == "spatial"]
    sub = Substitute(fresh)
    inside = loops[position:]
    kept = [n for n in inside if any(uses(v, {n.var}) for v in values)]
    dropped = {n.var for n in inside if not any(n is k for k in kept)}
    predicate = logical_and(*[c for c in conjuncts(realize.predicate) if not uses(c, dropped)])
    renamed = {n.var: Var(f"{n.var.name}_init", n.var.dtype) for n in kept}
    outer = Substitute(renamed)
    start = Block(
        f"{block.name}_init",
        tuple(IterVar(fresh[iv.var], iv.dom, iv.kind) for iv in block.iter_vars if iv.kind == "spatial"),
        (), tuple(sub.visit_region(w) for w in block.writes), sub.visit_stmt(init), annotations=block.annotations,
    )
    first_reads = block_access(start)[0]
    start = replace(start, reads=first_reads)
    nest: Stmt = BlockRealize(outer.visit_exprs(tuple(values)), outer.visit_expr(predicate), start)
    for loop in reversed(kept):
        nest = replace(
            loop, var=renamed[loop.var], min=outer.visit_expr(loop.min), extent=outer.visit_expr(loop.extent), body=nest
        )
    mine = {r.buffer for r in block.reads}
    update = replace(
        block, name=f"{block.name}_update", init=None,
        reads=(*(w for w in block.writes if w.buffer not in mine), *block.reads),
    )
    if first_reads:
        # What only the init reads is no longer the update's.
        mentioned = {r.buffer for r in block_access(update)[0]}
        update = replace(update, reads=tuple(r for r in update.reads if r.buffer in mentioned))
    # The table may hold nodes of the old program only, and the block lies below the loop: rebuild the loop first.
    changed = rewrite(target, realize, BlockRealize(realize.iter_values, realize.predicate, update))
    return {id(target): seq(nest, changed)}, start.ident
