"""From a point to a trace: the primitives that make its schedule, written down without applying them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.schedule.kit.base import RV, BlockRV, LoopRV
from autosched.schedule.kit.trace import Instruction, Trace
from autosched.target import Target
from space.model import Model
from space.nest import ACC, Nest


class _Recorder:
    """Writes instructions; it knows how many handles each gives because the rules know the loops."""

    def __init__(self) -> None:
        self.trace = Trace()

    def _record(self, op: str, outputs: tuple[RV, ...], **args: Any) -> None:
        self.trace.append(Instruction(op, args, outputs))

    def block(self, name: str) -> BlockRV:
        rv = BlockRV()
        self._record("get_sblock", (rv,), name=name, func_name=None)
        return rv

    def loops(self, block: BlockRV, count: int) -> list[LoopRV]:
        rvs = [LoopRV() for _ in range(count)]
        self._record("get_loops", tuple(rvs), block=block)
        return rvs

    def split(self, loop: LoopRV, inner: int) -> tuple[LoopRV, LoopRV]:
        rvs = (LoopRV(), LoopRV())
        self._record("split", rvs, loop=loop, factors=[None, inner], preserve_unit_iters=True, disable_predication=False)
        return rvs

    def add_unit_loop(self, loop: LoopRV) -> LoopRV:
        rv = LoopRV()
        self._record("add_unit_loop", (rv,), block_or_loop=loop)
        return rv

    def reorder(self, loops: list[LoopRV]) -> None:
        self._record("reorder", (), ordered_loops=loops)

    def set_scope(self, block: BlockRV, scope: str) -> None:
        self._record("set_scope", (), block=block, buffer_index=0, storage_scope=scope)

    def compute_inline(self, block: BlockRV) -> None:
        self._record("compute_inline", (), block=block)

    def drop_zero_terms(self, block: BlockRV) -> None:
        self._record("drop_zero_terms", (), block=block)

    def cache_read(self, block: BlockRV, index: int | str, scope: str) -> BlockRV:
        rv = BlockRV()
        self._record("cache_read", (rv,), block=block, read_buffer_index=index, storage_scope=scope, consumer_blocks=None)
        return rv

    def compute_at(self, block: BlockRV, loop: LoopRV) -> None:
        self._record("compute_at", (), block=block, loop=loop, preserve_unit_loops=True, index=-1)

    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        rv = BlockRV()
        self._record("decompose_reduction", (rv,), block=block, loop=loop)
        return rv

    def tensorize(self, loop: LoopRV, intrin: str) -> None:
        self._record("tensorize", (), block_or_loop=loop, tensor_intrin=intrin, preserve_unit_iters=True)

    def double_buffer(self, block: BlockRV) -> None:
        self._record("double_buffer", (), block=block, buffer_index=0)


def emit(nest: Nest, model: Model, target: Target, point: npt.NDArray[np.int32]) -> Trace:
    """The trace of a point.

    Args:
        nest: the program.
        model: its columns and orders.
        target: names the intrinsic.
        point: one row of the space.
    """
    columns = model.columns
    tile = [int(x) for x in point[: columns.axes]]
    order = model.orders[int(point[columns.order])]
    r = _Recorder()
    out = r.block(nest.out)
    stages = [r.block(s.block) for s in nest.stages]
    anchor = r.block(nest.anchor) if nest.anchor else None
    for block in ([anchor] if anchor else []) + stages:
        r.set_scope(block, ACC)
    drop = bool(point[columns.zeros])
    copies = _copies(r, nest, {nest.anchor: anchor, **{s.block: b for s, b in zip(nest.stages, stages)}}, drop)
    outer, first, tail_loop = _tile_output(r, nest, tile, order, int(point[columns.tail]), out)
    nest_loops = [outer[a] for a in order if a in outer]
    late = [k for k, operand in enumerate(nest.operands) if operand.scope == ACC] if anchor is not None else []
    if late and not nest_loops:
        # A place behind the GEMM for what only the later stages read: loaded first, it would hold up the compute engine and
        # share the bus with the data that everything waits for.
        nest_loops = [r.add_unit_loop(first)]
    else:
        late = []
    at = nest_loops[-1] if nest_loops else None
    for block in reversed(stages):
        loop = tail_loop or at
        if loop is not None:
            r.compute_at(block, loop)
    init = None
    lane = None
    if anchor is not None:
        if at is not None:
            r.compute_at(anchor, at)
        init, lane = _tile_anchor(r, nest, tile, anchor, len(nest_loops), outer)
        if drop:
            _drop_zeros(r, nest, anchor, copies)
    places = [*order, *nest.reduce]
    for k, copy in enumerate(copies):
        depth = int(point[columns.attach(k)])
        if depth:
            r.compute_at(copy, outer[places[depth - 1]])
        elif k in late:
            r.compute_at(copy, nest_loops[0])
    if lane is not None:
        c = target.config
        r.tensorize(lane, f"vta.gemm.{c.batch}x{c.block_in}x{c.block_out}")
    for k, copy in enumerate(copies):
        if point[columns.banks(k)]:
            r.double_buffer(copy)
    if point[columns.acc_banks]:
        for block in ([init] if init is not None else []) + stages:
            r.double_buffer(block)
    return r.trace


def _copies(
    r: _Recorder, nest: Nest, consumers: dict[str | None, BlockRV | None], drop: bool
) -> list[BlockRV]:
    """The block that loads each operand; a padding stage that will be inlined stands for its load until then."""
    copies = []
    for operand in nest.operands:
        if operand.producer is not None and drop:
            copy = r.block(operand.producer)
        elif operand.producer is not None:
            copy = r.block(operand.producer)
            r.set_scope(copy, operand.scope)
        else:
            consumer = consumers[operand.consumer]
            assert consumer is not None
            copy = r.cache_read(consumer, operand.read_index, operand.scope)
        copies.append(copy)
    return copies


def _drop_zeros(r: _Recorder, nest: Nest, anchor: BlockRV, copies: list[BlockRV]) -> None:
    """Inlines the padding, leaves out what it makes zero, and loads the tensor itself; replaces the load in ``copies``."""
    padded = [k for k, operand in enumerate(nest.operands) if operand.producer is not None]
    for k in padded:
        r.compute_inline(copies[k])
    r.drop_zero_terms(anchor)
    for k in padded:
        copies[k] = r.cache_read(anchor, nest.operands[k].name, nest.operands[k].scope)


def _tile_output(
    r: _Recorder, nest: Nest, tile: list[int], order: tuple[int, ...], tail: int, out: BlockRV
) -> tuple[dict[int, LoopRV], LoopRV, LoopRV | None]:
    """Splits and orders the output's loops; returns the outer loop of every tiled axis, the first of all, and the slice loop."""
    loops = r.loops(out, nest.out_loops)
    outer: dict[int, LoopRV] = {}
    inner: dict[int, LoopRV] = {}
    for a in nest.spatial:
        axis = nest.axes[a]
        loop = loops[axis.out_index]
        if tile[a] == axis.extent:
            inner[a] = loop
        elif tile[a] == 1:
            outer[a] = loop
        else:
            outer[a], inner[a] = r.split(loop, tile[a])
    lanes = [loop for n, loop in enumerate(loops) if n not in {nest.axes[a].out_index for a in nest.spatial}]
    slices = [inner[tail - 1]] if tail else []
    rest = [inner[a] for a in nest.spatial if a in inner and a != tail - 1]
    sequence = [*(outer[a] for a in order if a in outer), *slices, *rest, *lanes]
    r.reorder(sequence)
    return outer, sequence[0], slices[0] if slices else None


def _tile_anchor(
    r: _Recorder, nest: Nest, tile: list[int], anchor: BlockRV, depth: int, outer: dict[int, LoopRV]
) -> tuple[BlockRV, LoopRV]:
    """Splits the reduction, moves its outer loops out, separates the initial value.

    Adds the reduction's outer loops to ``outer``; returns the block of the initial value and the intrinsic's first lane loop.
    """
    own = r.loops(anchor, depth + nest.anchor_iters)[depth:]
    inner = []
    for a in nest.reduce:
        axis = nest.axes[a]
        loop = own[axis.anchor_index]
        if tile[a] == axis.extent:
            inner.append(loop)
        elif tile[a] == 1:
            outer[a] = loop
        else:
            outer[a], piece = r.split(loop, tile[a])
            inner.append(piece)
    taken = {axis.anchor_index for axis in nest.axes}
    lanes = [loop for n, loop in enumerate(own) if n not in taken]
    spatial = [own[nest.axes[a].anchor_index] for a in nest.spatial]
    sequence = [*(outer[a] for a in nest.reduce if a in outer), *inner, *spatial]
    r.reorder([*sequence, *lanes])
    return r.decompose_reduction(anchor, sequence[0] if nest.reduce else lanes[-1]), lanes[0]
