"""Giving every consumer of a block its own copy of the block."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.functor import replace_buffers
from autosched.ir.stmt import BlockRealize, For, Ident, Stmt, seq
from autosched.schedule.analysis.dependence import (
    is_output,
    nodes_inside,
    not_complete_or_reduction,
    require_pipeline,
    scope_of,
)
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State, refresh


class Recomputing(ScheduleBase):
    """Duplicating a producer."""

    @primitive
    def recompute_at_consumers(self, block: BlockRV) -> list[BlockRV]:
        """Gives every consumer of a block a copy of its own, so that each copy can be attached or inlined by itself.

        Args:
            block: a complete or reduction block that writes one intermediate buffer.

        Returns:
            One block per consumer, in program order; the first is the block itself, the others write new buffers.

        Before: ``X; Y reads x; Z reads x``; after: ``X; X_Z; Y reads x; Z reads x_Z``.

        Raises:
            ScheduleError: the block is an output, or has fewer than two consumers.
        """
        state, realize = self.block_at(block)
        try:
            body, copies = _duplicate(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state)
        self.commit(state, body)
        return [self.block_rv(b) for b in copies]


def _duplicate(state: State, realize: BlockRealize) -> tuple[Stmt, list[Ident]]:
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    reason = not_complete_or_reduction(state, block, scope)
    if reason is not None:
        raise Refusal(reason, [block.ident], hint=for_complete(state, block, "recompute_at_consumers"))
    if is_output(block, scope):
        raise Refusal(f"block {block.name} is an output block: its result is needed once, by the caller", [block.ident],
                      hint="give a block whose result others read")
    consumers = state.consumers(block)
    if len(consumers) < 2:
        raise Refusal(f"block {block.name} has {len(consumers)} consumer: there is nothing to duplicate", [block.ident],
                      f'sch.compute_at("{block.name}", a loop of {consumers[0].name}) moves it there' if consumers else "")
    nest: Stmt = realize
    for node in nodes_inside(state, realize, scope):
        if not isinstance(node, For) or len(state.children_of(node)) > 1:
            break
        nest = node
    buffers = list(dict.fromkeys(w.buffer for w in block.writes))
    stmts: list[Stmt] = [nest]
    idents = [block.ident]
    allocs = list(scope.alloc_buffers)
    table: dict[int, Stmt | None] = {}
    for consumer in consumers[1:]:
        fresh = {b: replace(b, name=f"{b.name}_{consumer.name}", ident=Ident()) for b in buffers}
        copy = refresh(replace_buffers(nest, fresh))
        copy, ident = _renamed(copy, f"{block.name}_{consumer.name}")
        stmts.append(copy)
        idents.append(ident)
        for old, new in fresh.items():
            allocs.insert(allocs.index(old) + 1 if old in allocs else len(allocs), new)
        site = state.realizes[consumer.ident]
        table[id(site)] = replace_buffers(site, fresh)
    table[id(nest)] = seq(*stmts)
    return state.rewrite(table, {id(scope): tuple(allocs)}), idents


def _renamed(nest: Stmt, name: str) -> tuple[Stmt, Ident]:
    if isinstance(nest, For):
        body, ident = _renamed(nest.body, name)
        return replace(nest, body=body), ident
    assert isinstance(nest, BlockRealize)
    return replace(nest, block=replace(nest.block, name=name)), nest.block.ident
