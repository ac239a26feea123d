"""From a point to a trace: the primitives that make its schedule, written down without applying them.

The skeleton follows the plan: tile the output, move the stages and the sum into its loops, tile the sum, move the loads in,
tensorize. Rules add theirs before, between and after. A point of several parts does so for every part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.schedule.kit.base import RV, BlockRV, LoopRV
from autosched.schedule.kit.trace import Instruction, Trace
from autosched.target import Target
from space.model import Model
from space.nest import ACC
from space.plan import Part
from space.sketch import Sketch


class Recorder:
    """Writes instructions; it knows how many handles each gives because the rules know the loops."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def record(self, op: str, outputs: tuple[RV, ...], **args: Any) -> None:
        """One primitive."""
        self.trace.append(Instruction(op, args, outputs))

    def block(self, name: str) -> BlockRV:
        """A block by name."""
        rv = BlockRV()
        self.record("get_sblock", (rv,), name=name, func_name=None)
        return rv

    def loops(self, block: BlockRV, count: int) -> list[LoopRV]:
        """All loops around a block."""
        rvs = [LoopRV() for _ in range(count)]
        self.record("get_loops", tuple(rvs), block=block)
        return rvs

    def split(self, loop: LoopRV, inner: int) -> tuple[LoopRV, LoopRV]:
        """Outer and inner loop."""
        rvs = (LoopRV(), LoopRV())
        self.record("split", rvs, loop=loop, factors=[None, inner], preserve_unit_iters=True, disable_predication=False)
        return rvs

    def add_unit_loop(self, loop: LoopRV) -> LoopRV:
        """A loop of one iteration around a loop."""
        rv = LoopRV()
        self.record("add_unit_loop", (rv,), block_or_loop=loop)
        return rv

    def reorder(self, loops: list[LoopRV]) -> None:
        """Loops in this order."""
        self.record("reorder", (), ordered_loops=loops)

    def set_scope(self, block: BlockRV, scope: str) -> None:
        """The memory of a block's output."""
        self.record("set_scope", (), block=block, buffer_index=0, storage_scope=scope)

    def compute_inline(self, block: BlockRV) -> None:
        """A block's formula in its readers."""
        self.record("compute_inline", (), block=block)

    def cache_read(self, block: BlockRV, index: int | str, scope: str, consumers: list[BlockRV] | None = None) -> BlockRV:
        """A copy of what a block reads."""
        rv = BlockRV()
        self.record("cache_read", (rv,), block=block, read_buffer_index=index, storage_scope=scope, consumer_blocks=consumers)
        return rv

    def compute_at(self, block: BlockRV, loop: LoopRV) -> None:
        """A block inside a loop."""
        self.record("compute_at", (), block=block, loop=loop, preserve_unit_loops=True, index=-1)

    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """The initial value as a block of its own."""
        rv = BlockRV()
        self.record("decompose_reduction", (rv,), block=block, loop=loop)
        return rv

    def tensorize(self, loop: LoopRV, intrin: str) -> None:
        """An intrinsic in place of a nest."""
        self.record("tensorize", (), block_or_loop=loop, tensor_intrin=intrin, preserve_unit_iters=True)

    def double_buffer(self, block: BlockRV) -> None:
        """Two banks for a block's output."""
        self.record("double_buffer", (), block=block, buffer_index=0)


class Build(Recorder):
    """The trace of one point in the making; rules see it in ``before``, ``nested`` and ``after``.

    Args:
        sketch: the form of the program.
        target: names the intrinsic.
        point: one row of the sketch.
    """

    def __init__(self, sketch: Sketch, target: Target, point: npt.NDArray[np.int32]) -> None:
        super().__init__(sketch.prefix.copy())
        self.sketch, self.target = sketch, target
        self.model: Model = sketch.model
        self.nest = sketch.model.nest
        self.point = point
        self.plan = self.model.plan(point[None])
        self.part: Part = self.plan.body
        self.padded: set[int] = set()
        self.out: BlockRV = BlockRV()
        self.stages: list[BlockRV] = []
        self.anchor: BlockRV | None = None
        self.init: BlockRV | None = None
        self.copies: list[BlockRV | None] = []

    def emit(self) -> Trace:
        """All primitives of the point."""
        for rule in self.model.rules:
            rule.before(self)
        self.out = self.block(self.nest.out)
        self.stages = [self.block(s.block) for s in self.nest.stages]
        self.anchor = self.block(self.nest.anchor) if self.nest.anchor else None
        for block in ([self.anchor] if self.anchor else []) + self.stages:
            self.set_scope(block, ACC)
        self.copies = self._copies()
        self._emit_part()
        return self.trace

    # -- one part -----------------------------------------------------------------------------------------------------

    def _emit_part(self) -> None:
        nest, plan = self.nest, self.plan
        order = [int(a) for a in np.argsort(plan.position[0], kind="stable") if a < self.model.n_spatial]
        tile = [int(x) for x in self.part.tiles[0]]
        extent = [int(x) for x in self.part.extents[0]]
        outer, first, slices = self._tile_output(tile, extent, order)
        loops = [outer[a] for a in order if a in outer]
        late = [k for k, o in enumerate(nest.operands) if o.scope == ACC and o.consumer != nest.anchor] if self.anchor else []
        if late and not loops:
            # A place behind the GEMM for what only the later stages read: loaded first, it would hold up the compute engine
            # and share the bus with the data that everything waits for.
            loops = [self.add_unit_loop(first)]
        else:
            late = []
        at = loops[-1] if loops else None
        for block in reversed(self.stages):
            loop = slices or at
            if loop is not None:
                self.compute_at(block, loop)
        self.init = lane = None
        if self.anchor is not None:
            if at is not None:
                self.compute_at(self.anchor, at)
            self.init, lane = self._tile_anchor(self.anchor, tile, extent, len(loops), outer)
        for rule in self.model.rules:
            rule.nested(self)
        places = [*order, *nest.reduce]
        for k, copy in enumerate(self.copies):
            depth = int(plan.attach[k][0])
            if copy is None:
                continue
            if depth:
                self.compute_at(copy, outer[places[depth - 1]])
            elif k in late:
                self.compute_at(copy, loops[0])
        if lane is not None:
            c = self.target.config
            self.tensorize(lane, f"vta.gemm.{c.batch}x{c.block_in}x{c.block_out}")
        for rule in self.model.rules:
            rule.after(self)

    def _copies(self) -> list[BlockRV | None]:
        """The block that loads each operand; a padding stage that will be inlined stands for its load until then."""
        consumers: dict[str | None, BlockRV | None] = {s.block: b for s, b in zip(self.nest.stages, self.stages)}
        consumers[self.nest.anchor] = self.anchor
        copies: list[BlockRV | None] = []
        for k, operand in enumerate(self.nest.operands):
            if operand.producer is not None:
                copy = self.block(operand.producer)
                if k not in self.padded:
                    self.set_scope(copy, operand.scope)
            else:
                consumer = consumers[operand.consumer]
                assert consumer is not None
                copy = self.cache_read(consumer, operand.read_index, operand.scope)
            copies.append(copy)
        return copies

    def drop_zeros(self) -> None:
        """Inlines padding stages, leaves out what they make zero, and loads the tensors themselves."""
        assert self.anchor is not None
        for k in sorted(self.padded):
            copy = self.copies[k]
            assert copy is not None
            self.compute_inline(copy)
        self.record("drop_zero_terms", (), block=self.anchor)
        for k in sorted(self.padded):
            self.copies[k] = self.cache_read(self.anchor, self.nest.operands[k].name, self.nest.operands[k].scope)

    def _tile_output(
        self, tile: list[int], extent: list[int], order: list[int]
    ) -> tuple[dict[int, LoopRV], LoopRV, LoopRV | None]:
        """Splits and orders the output's loops; returns the outer loop of every tiled axis, the first of all, the slice loop."""
        nest = self.nest
        loops = self.loops(self.out, nest.out_loops)
        outer: dict[int, LoopRV] = {}
        inner: dict[int, LoopRV] = {}
        for a in nest.spatial:
            loop = loops[nest.axes[a].out_index]
            if tile[a] == extent[a]:
                inner[a] = loop
            elif tile[a] == 1:
                outer[a] = loop
            else:
                outer[a], inner[a] = self.split(loop, tile[a])
        lanes = [loop for n, loop in enumerate(loops) if n not in {nest.axes[a].out_index for a in nest.spatial}]
        tail = int(self.part.slices[0])
        slices = [inner[tail - 1]] if tail else []
        rest = [inner[a] for a in nest.spatial if a in inner and a != tail - 1]
        sequence = [*(outer[a] for a in order if a in outer), *slices, *rest, *lanes]
        self.reorder(sequence)
        return outer, sequence[0], slices[0] if slices else None

    def _tile_anchor(
        self, anchor: BlockRV, tile: list[int], extent: list[int], depth: int, outer: dict[int, LoopRV]
    ) -> tuple[BlockRV, LoopRV]:
        """Splits the reduction, moves its outer loops out, separates the initial value.

        Adds the reduction's outer loops to ``outer``; returns the block of the initial value and the intrinsic's first lane loop.
        """
        nest = self.nest
        own = self.loops(anchor, depth + nest.anchor_iters)[depth:]
        inner = []
        for a in nest.reduce:
            loop = own[nest.axes[a].anchor_index]
            if tile[a] == extent[a]:
                inner.append(loop)
            elif tile[a] == 1:
                outer[a] = loop
            else:
                outer[a], piece = self.split(loop, tile[a])
                inner.append(piece)
        taken = {axis.anchor_index for axis in nest.axes}
        lanes = [loop for n, loop in enumerate(own) if n not in taken]
        spatial = [own[nest.axes[a].anchor_index] for a in nest.spatial]
        sequence = [*(outer[a] for a in nest.reduce if a in outer), *inner, *spatial]
        self.reorder([*sequence, *lanes])
        return self.decompose_reduction(anchor, sequence[0] if nest.reduce else lanes[0]), lanes[0]
