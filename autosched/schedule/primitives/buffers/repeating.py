"""Copies of a buffer that have its elements as often as a block's tiles read them: repeat_read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.expr import Expr, IntImm, int_value
from autosched.ir.index_map import IndexMap
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Ident, Stmt
from autosched.ir.value_bounds import ValueBounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import iterators_over
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.behind import with_copy
from autosched.schedule.primitives.buffers.cache_reindex import map_over_iterators
from autosched.schedule.primitives.buffers.cache_rewrite import Redirect, guarded_load, region_of
from autosched.schedule.primitives.buffers.reindex import unique_indices


def _maps(sch: Any, args: dict[str, Any]) -> None:
    map_over_iterators(sch, args)
    try:
        args["origin"] = IndexMap.from_func(args["origin"], len(args["index_map"].final))
    except ProgramError as error:
        sch.refuse(f"origin: {error}; the copy has {len(args['index_map'].final)} dimensions", code="argument")


class Repeating(ScheduleBase):
    """The primitive that copies what tiles of a block read, tile by tile."""

    @primitive(normalize=_maps)
    def repeat_read(
        self, block: BlockRV | str, read_buffer_index: int | str | Buffer, index_map: IndexMap | Callable[..., Any],
        origin: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Lets a block read a copy of a buffer that may have elements several times: windows that overlap, a row for lanes.

        Args:
            block: handle or name of a block, alone in its loops, that reads the buffer at one index.
            read_buffer_index: position or name among the buffers read.
            index_map: from the block's iterators to the indices of the copy, none of which may be negative.
            origin: from the indices of the copy to those of the buffer, where the block reads now what ``index_map`` says.

        Returns:
            The copying block, behind what fills the buffer. Elements of the copy whose origin is outside of the buffer are 0: the
            block reads none of them.

        Raises:
            ScheduleError: several indices, an index that comes from memory; maps that are not known to lead to it; loops that
                other blocks share.

        Before::

            for i, j in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi + vj] * 2

        After ``sch.repeat_read("C", 0, lambda i, j: (i // 4, i % 4 + j), lambda a, b: (a * 4 + b,))``::

            A_repeat = T.sblock_alloc_buffer((4, 6), "int32")
            for i0, i1 in T.grid(4, 6):
                with T.sblock("A_repeat"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    A_repeat[v0, v1] = A[v0 * 4 + v1]
            for i, j in T.grid(16, 3):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A_repeat[vi // 4, vi % 4 + vj] * 2
        """
        assert isinstance(block, BlockRV) and isinstance(index_map, IndexMap) and isinstance(origin, IndexMap)
        state, realize = self.block_at(block)
        node = realize.block
        buffer = node.reads[self.block_region_buffer(node, read_buffer_index, "read")].buffer
        try:
            made, body = _repeated(state, realize, buffer, index_map, origin)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def _repeated(
    state: State, realize: BlockRealize, buffer: Buffer, index_map: IndexMap, origin: IndexMap
) -> tuple[Block, Stmt]:
    node = realize.block
    scope = scope_of(state, node)
    require_pipeline(state, scope)
    indices = unique_indices(node, buffer)
    if region_of(node.writes, buffer) is not None:
        raise Refusal(f"block {node.name} both reads and writes {buffer.name}", [node.ident], code="writer")
    dom = {iv.var: iv.dom for iv in node.iter_vars}
    analyzer = Analyzer(dom)
    there = tuple(index_map.map_indices([iv.var for iv in node.iter_vars], analyzer))
    back = origin.map_indices(there, analyzer)
    if len(back) != buffer.ndim or not all(analyzer.can_prove_equal(a, b) for a, b in zip(back, indices)):
        raise Refusal(f"{origin} of {index_map} is not known to be where block {node.name} reads {buffer.name}", [node.ident],
                      code="layout")
    name = fresh_name(f"{buffer.name}_repeat", {*state.block_names(), *state.buffer_names(scope)})
    copy = replace(buffer, name=name, shape=_shape(state, node, there), strides=(), axis_separators=(), ident=Ident())
    iters = iterators_over(copy.shape)
    near: tuple[Expr, ...] = tuple([iv.var for iv in iters])
    source = origin.map_indices(near, Analyzer({iv.var: iv.dom for iv in iters}))
    load = guarded_load(buffer, source, {iv.var: iv.dom for iv in iters})
    stage = with_access(Block(name, iters, (), (), BufferStore(copy, near, load)))
    return stage, with_copy(state, realize, buffer, stage, Redirect(buffer, copy, indices=there).visit_block(node))


def _shape(state: State, node: Block, there: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The shape of a copy, up to the last element that a block reads of it."""
    known, dom = ValueBounds(state.func), {iv.var: iv.dom for iv in node.iter_vars}
    shape: list[Expr] = []
    for index in there:
        low, high = known.of(index, dom) if all(int_value(r.extent) is not None for r in dom.values()) else (-1, 0)
        if low < 0:
            raise Refusal(f"block {node.name} would read the copy at indices that are not known to begin at 0", [node.ident],
                          code="domain")
        dtype = index.dtype if isinstance(index, Expr) else "int32"
        shape.append(IntImm(int(high) + 1, dtype))
    return tuple(shape)
