"""Kinds of loops: parallel, vectorized, unrolled, bound to a thread axis."""

from __future__ import annotations

from dataclasses import replace

from autosched.errors import suggest
from autosched.ir.functor import walk
from autosched.ir.stmt import BlockRealize
from autosched.schedule.analysis.dependence import in_turn, not_compact
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive

THREADS = (
    "vthread", "cthread", "vthread.x", "vthread.y", "vthread.z", "blockIdx.x", "blockIdx.y", "blockIdx.z",
    "threadIdx.x", "threadIdx.y", "threadIdx.z",
)


class Kinds(ScheduleBase):
    """Primitives that say how the iterations of a loop run."""

    @primitive
    def parallel(self, loop: LoopRV | str) -> None:
        """Runs the iterations of a loop in parallel.

        Args:
            loop: handle or name; every block below must be complete or a reduction within the loop, and use the loop
                for spatial iterators only.

        Raises:
            ScheduleError: a block below does not allow it.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.parallel("i")``::

            for i in T.parallel(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        self._concurrent(loop, "parallel", None)

    @primitive
    def vectorize(self, loop: LoopRV | str) -> None:
        """Runs the iterations of a loop as lanes of one instruction.

        Args:
            loop: handle or name; conditions as for ``parallel``.

        Raises:
            ScheduleError: a block below does not allow it.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.vectorize("i")``::

            for i in T.vectorized(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        self._concurrent(loop, "vectorized", None)

    @primitive
    def bind(self, loop: LoopRV | str, thread_axis: str) -> None:
        """Binds a loop to a thread axis; ``vthread`` and ``cthread`` are virtual threads, interleaved by lowering.

        Args:
            loop: handle or name; conditions as for ``parallel``, but ``threadIdx`` may run a reduction.
            thread_axis: ``vthread``, ``cthread``, ``blockIdx.x``, ``threadIdx.x``...

        Raises:
            ScheduleError: a block below does not allow it, or no such axis.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.bind("i", "vthread")``::

            for i in T.thread_binding(16, thread="vthread"):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        if thread_axis not in THREADS:
            self.refuse(f"unknown thread axis {thread_axis!r}{suggest(thread_axis, THREADS)}", code="argument")
        self._concurrent(loop, "thread_binding", thread_axis)

    @primitive
    def unroll(self, loop: LoopRV | str) -> None:
        """Unrolls a loop; always legal.

        Args:
            loop: handle or name.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.unroll("i")``::

            for i in T.unroll(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        self.commit_nodes(state, {id(node): replace(node, kind="unrolled", thread=None)})

    def _concurrent(self, loop: LoopRV | str, kind: str, thread: str | None) -> None:
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        name = node.var.name
        # Iterations that a predicate leaves out do not make the others depend on each other.
        bad = not_compact(state, node, partial=True)
        if bad is not None:
            block, reason = bad
            self.refuse(f"the iterations of loop {name} are not independent: {reason}", [node.var, block.ident],
                        hint=for_complete(state, block, self._op), code="order")
        for inner in walk(node.body):
            fault = in_turn(inner, node, thread) if isinstance(inner, BlockRealize) else None
            if isinstance(inner, BlockRealize) and fault is not None:
                self.refuse(fault, [node.var, inner.block.ident],
                            hint="choose a loop over spatial iterators, or split one off with rfactor", code="loop")
        self.commit_nodes(state, {id(node): replace(node, kind=kind, thread=thread)})
