"""Turning a loop nest into one block, and the order of a block's iterators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from autosched.ir.stmt import BlockRealize
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.neighbours import blockize_neighbours
from autosched.schedule.primitives.tensorize.outer_block import blockize_loop


class Blockizing(ScheduleBase):
    """Primitives that change which iterations make one block instance."""

    @primitive
    def blockize(self, target: LoopRV | BlockRV | list[BlockRV], preserve_unit_iters: bool = True) -> BlockRV:
        """Makes one block of a loop and all below it, or of several neighbouring blocks with the loops around each.

        Args:
            target: a loop above a single block; or a list of blocks that are neighbours below one loop or block.
            preserve_unit_iters: keep iterators of extent 1 in the outer block.

        Returns:
            The new outer block, ``<name>_o`` (of several blocks: ``outer_<names>_``).

        Before::

            for i_0, i_1 in T.grid(8, 16):
                with T.sblock("C"):
                    vi = T.axis.spatial(128, i_0 * 16 + i_1)
                    C[vi] = A[vi] * 2

        After ``sch.blockize(i1)``::

            for i_0 in range(8):
                with T.sblock("C_o"):
                    vi_o = T.axis.spatial(8, i_0)
                    for i_1 in range(16):
                        with T.sblock("C"):
                            vi_i = T.axis.spatial(16, i_1)
                            C[vi_o * 16 + vi_i] = A[vi_o * 16 + vi_i] * 2

        Raises:
            ScheduleError: several blocks below the loop, or iterators that do not divide into an outer and an inner
                part.
        """
        if isinstance(target, list):
            return self._blockize_blocks(target, preserve_unit_iters)
        if isinstance(target, BlockRV):
            return self._blockize_blocks([target], preserve_unit_iters)
        state, node = self.loop_at(target)
        try:
            outer = blockize_loop(state, node, preserve_unit_iters)
        except Refusal as r:
            self._refused(r, state)
        self.commit_nodes(state, {id(node): outer})
        return self.block_rv(outer.block)

    @primitive
    def reorder_block_iter_var(self, block: BlockRV, new_order: Sequence[int]) -> None:
        """Changes the order of a block's iterators (not of any loop).

        Args:
            block: any block.
            new_order: a permutation of 0 .. n-1, the old position of each new one.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.reorder_block_iter_var("C", [1, 0])``::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vj, vi = T.axis.remap("SS", [j, i])
                    C[vi, vj] = A[vi, vj] * 2

        Raises:
            ScheduleError: not a permutation.
        """
        state, realize = self.block_at(block)
        node = realize.block
        order = [int(k) for k in new_order]
        if sorted(order) != list(range(len(node.iter_vars))):
            self.refuse(
                f"new_order {order} is not a permutation of 0 .. {len(node.iter_vars) - 1}, {node.name}'s iterators",
                [node.ident],
                hint=f"each position once, e.g. {list(range(len(node.iter_vars)))[::-1]}", code="argument",
            )
        new = replace(node, iter_vars=tuple([node.iter_vars[k] for k in order]))
        values = tuple([realize.iter_values[k] for k in order])
        self.commit_nodes(state, {id(realize): BlockRealize(values, realize.predicate, new)})

    def _blockize_blocks(self, rvs: Sequence[BlockRV], preserve: bool) -> BlockRV:
        found = [self.block_at(rv) for rv in rvs]
        if not found:
            self.refuse("no block is given", hint="a list of neighbouring blocks", code="argument")
        state = found[0][0]
        if any(s.parent(realize) is None for s, realize in found):
            self.refuse("the primitive does not operate on the root block", hint=inner_blocks(state), code="root")
        if any(s is not state for s, _ in found):
            self.refuse("the blocks belong to different functions", hint="give blocks of one function", code="handle")
        try:
            table, outer = blockize_neighbours(state, [realize for _, realize in found], preserve)
        except Refusal as r:
            self._refused(r, state)
        self.commit_nodes(state, table)
        return self.block_rv(outer)

    def _refused(self, r: Refusal, state: State) -> NoReturn:
        self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
