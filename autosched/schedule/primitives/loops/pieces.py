"""One stage as several stages side by side, each with loops of its own: partition_block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from autosched.ir.expr import Expr, Var, const, int_value
from autosched.ir.functor import free_vars, substitute_stmt
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.region import int_set_bounds
from autosched.ir.stmt import Block, BlockRealize, For, IterVar, Range, seq
from autosched.schedule.analysis.bindings import loop_dom
from autosched.schedule.analysis.dependence import names, nodes_inside, not_complete_or_reduction, scope_of
from autosched.schedule.analysis.disjoint import disjoint_results
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ExprRV, LoopRV
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refresh import refresh
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.kit.walks import child_blocks
from autosched.schedule.primitives.loops.partition import Partition


class Pieces(Partition):
    """The primitive that makes several blocks of one."""

    @primitive(local="neighbours")
    def partition_block(self, loop: LoopRV | str, factors: Sequence[int | ExprRV | None]) -> list[BlockRV]:
        """Cuts a block into several blocks, one after the other, that each compute consecutive iterations of a loop.

        Unlike the parts of ``loop_partition`` they stand in the block's own scope, under loops from 0 of their own, so that
        each is tiled, ordered and attached to by itself. What they read is shared until ``recompute_at_consumers`` gives
        each a copy, of which ``compute_at`` leaves what its part needs.

        Args:
            loop: handle or name of a loop of constant extent from 0, around one block only, which drives spatial
                iterators of it; the block computes a result that no other block of its scope reads, but for host stages that
                unpack results.
            factors: iterations of the parts in order; one may be None and takes the rest; without None a last part
                takes it.

        Returns:
            The parts, named ``{block}_{loop}0`` and so on.

        Raises:
            ScheduleError: other blocks stand under the loops around the block, the loop drives a reduction or nothing at
                all, others read the result, or the factors leave nothing.

        Before::

            for i in range(128):
                with T.sblock("C"):
                    vi = T.axis.spatial(128, i)
                    C[vi] = A[vi] * 2

        After ``sch.partition_block("i", factors=[96, None])``::

            for i0 in range(96):
                with T.sblock("C_i0"):
                    vi = T.axis.spatial(96, i0)
                    C[vi] = A[vi] * 2
            for i1 in range(32):
                with T.sblock("C_i1"):
                    vi = T.axis.spatial((96, 128), i1 + 96)
                    C[vi] = A[vi] * 2
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        self._plain_loop(state, node)
        extent = int_value(node.extent)
        if extent is None:
            self.refuse(f"the range of loop {node.var.name} is symbolic", [node.var], hint="only constant extents",
                        code="symbolic")
        assert extent is not None
        ends = self._ends(node, extent, [None if f is None else self.int_of(f) for f in factors])
        realize, nest = self._lone_stage(state, node)
        parts, begin = [], 0
        for i, end in enumerate(ends):
            parts.append(_part(nest, node, realize.block, begin, end, f"{node.var.name}{i}"))
            begin = end
        blocks = [b for part in parts for b in _blocks(part)]
        clash = next((p for p in combinations(blocks, 2) if not disjoint_results(*p)), None)
        if clash is not None:
            self.refuse(
                f"iterations of loop {node.var.name} do not separate what block {realize.block.name} writes: its parts would "
                "write intervals that overlap", [node.var, realize.block.ident],
                hint="partition a loop that one iterator steps with, before it is fused with others", code="order",
            )
        self.commit_nodes(state, {id(nest): seq(*parts)})
        return [self.block_rv(b.ident) for b in blocks]

    def _lone_stage(self, state: State, loop: For) -> tuple[BlockRealize, For]:
        """The one block below a loop, and the outermost loop around nothing else."""
        inside = state.children_of(loop)
        if len(inside) != 1:
            self.refuse(
                f"{len(inside)} blocks stand under loop {loop.var.name}: {names(inside)}", [loop.var],
                hint="partition_block the last stage before others are attached to it", code="place",
            )
        block = inside[0]
        realize = state.realizes[block.ident]
        try:
            scope = scope_of(state, block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        reason = not_complete_or_reduction(state, block, scope, unpacked=True)
        if reason is not None:
            self.refuse(reason, [block.ident], hint=for_complete(state, block, "partition_block"), code="form")
        written = {w.buffer for w in block.writes}
        # The host unpacks what all parts have stored.
        readers = [b for b in state.children_of(scope) if kind_of(b) != UNPACK]
        others = [b for b in readers if b is not block and written & set(state.touched(b)[0])]
        if others:
            self.refuse(
                f"{names(others)} read{'s' if len(others) == 1 else ''} what block {block.name} writes", [block.ident],
                hint="partition_block the last stage, and recompute_at_consumers those before it", code="reader",
            )
        driven = [iv for iv, v in zip(block.iter_vars, realize.iter_values) if loop.var in free_vars(v)]
        if not driven:
            self.refuse(f"loop {loop.var.name} drives no iterator of block {block.name}", [loop.var, block.ident],
                        hint="partition_block a loop that the block's result moves with", code="loop")
        reducing = [iv for iv in driven if iv.kind != "spatial"]
        if reducing:
            self.refuse(
                f"loop {loop.var.name} drives iterator {reducing[0].var.name} of block {block.name}, which is a "
                f"{reducing[0].kind} iterator", [loop.var, block.ident], hint="rfactor makes partial results of a reduction",
                code="reduction",
            )
        nest: For | None = None
        for node in nodes_inside(state, realize, scope):
            if not isinstance(node, For) or len(state.children_of(node)) > 1:
                break
            nest = node
        if nest is None or not any(x is loop for x in (nest, *state.loops_below(nest, realize))):
            self.refuse(f"block {block.name} does not stand under loops alone", [block.ident],
                        hint="partition_block before conditions and bindings are put around it", code="place")
        assert nest is not None
        return realize, nest


def _part(nest: For, loop: For, block: Block, begin: int, end: int, name: str) -> For:
    """A copy of a nest in which one loop only runs from ``begin`` to ``end``, now from 0."""
    var = Var(name, loop.var.dtype)
    value: Expr = var + const(begin, var.dtype) if begin else var
    short = replace(
        loop, var=var, extent=const(end - begin, var.dtype), body=substitute_stmt(loop.body, {loop.var: value})
    )
    new = refresh(_replaced(nest, loop, short))
    assert isinstance(new, For)
    return _narrowed(new, [], f"{block.name}_{name}")


def _replaced(nest: For, loop: For, new: For) -> For:
    if nest is loop:
        return new
    assert isinstance(nest.body, For)
    return replace(nest, body=_replaced(nest.body, loop, new))


def _narrowed(stmt: For, loops: list[For], name: str) -> For:
    """The nest with its block named, and the block's iterators restricted to what the loops give them."""
    loops = [*loops, stmt]
    if isinstance(stmt.body, For):
        return replace(stmt, body=_narrowed(stmt.body, loops, name))
    realize = stmt.body
    assert isinstance(realize, BlockRealize)
    dom = loop_dom(loops)
    iters = []
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        low, high = (int_value(e) if e is not None else None for e in int_set_bounds(value, dom))
        first, count = int_value(iv.dom.min), int_value(iv.dom.extent)
        if None in (low, high, first, count):
            iters.append(iv)
            continue
        assert low is not None and high is not None and first is not None and count is not None
        low, high = max(low, first), min(high, first + count - 1)
        if low > high:  # nothing runs here
            iters.append(iv)
            continue
        dtype = iv.var.dtype
        iters.append(IterVar(iv.var, Range(const(low, dtype), const(high - low + 1, dtype)), iv.kind))
    block = replace(realize.block, name=name, iter_vars=tuple(iters))
    return replace(stmt, body=BlockRealize(realize.iter_values, realize.predicate, block))


def _blocks(nest: For) -> list[Block]:
    return list(child_blocks(nest))
