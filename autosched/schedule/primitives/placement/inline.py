"""Inlining a block into its consumers, or into its producer."""

from __future__ import annotations

from autosched.ir.stmt import BlockRealize
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.placement.compute_at import place_that_works
from autosched.schedule.primitives.placement.into_consumers import inlined
from autosched.schedule.primitives.placement.into_producer import reverse_inlined


class Inlining(ScheduleBase):
    """Primitives that make a block disappear into another one."""

    @primitive
    def compute_inline(self, block: BlockRV) -> None:
        """Computes a block's value wherever it is read, and removes the block and its buffer.

        Args:
            block: a complete block ``B[f(i, j)] = value``, ``f`` one to one, that writes an intermediate buffer.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1

        After ``sch.compute_inline("B")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2 + 1

        Raises:
            ScheduleError: the block has an init, several or external outputs, a body of another form, or its buffer
                is used by address or matched.
        """
        state, realize = self.block_at(block)
        try:
            body = inlined(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: _at_consumer(state, realize)), state, code=r.code)
        self.commit(state, body)

    @primitive
    def reverse_compute_inline(self, block: BlockRV) -> None:
        """Makes a block's only producer store the block's result at once, and removes the block and the buffer
        between them.

        Args:
            block: a complete block that reads one intermediate buffer ``B[f(i, j)]``, ``f`` quasi-affine and one to
                one, whose only writer is a complete block that stores single elements.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1

        After ``sch.reverse_compute_inline("C")``::

            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2 + 1

        Raises:
            ScheduleError: several producers, a reduction as producer, indices that have no inverse, or a producer
                that does not cover the block.
        """
        state, realize = self.block_at(block)
        try:
            body = reverse_inlined(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: _at_producer(state, realize)), state, code=r.code)
        self.commit(state, body)


def can_inline(state: State, realize: BlockRealize) -> bool:
    """Whether ``compute_inline`` would accept."""
    try:
        inlined(state, realize)
    except Refusal:
        return False
    return True


def can_reverse_inline(state: State, realize: BlockRealize) -> bool:
    """Whether ``reverse_compute_inline`` would accept."""
    try:
        reverse_inlined(state, realize)
    except Refusal:
        return False
    return True


def _at_consumer(state: State, realize: BlockRealize) -> str:
    """Another way to bring a block and its consumer together."""
    for other in state.consumers(realize.block):
        if can_reverse_inline(state, state.realizes[other.ident]):
            return f'sch.reverse_compute_inline("{other.name}")'
    return place_that_works(state, realize, True) or for_complete(state, realize.block, "compute_inline")


def _at_producer(state: State, realize: BlockRealize) -> str:
    """Another way to bring a block and its producers together."""
    for other in state.producers(realize.block):
        if can_inline(state, state.realizes[other.ident]):
            return f'sch.compute_inline("{other.name}")'
    if can_inline(state, realize):
        return f'sch.compute_inline("{realize.block.name}")'
    return place_that_works(state, realize, False) or for_complete(state, realize.block, "reverse_compute_inline")
