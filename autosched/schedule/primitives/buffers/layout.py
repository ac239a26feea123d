"""Layouts: the order and the number of a buffer's dimensions, and of a block's iterators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.expr import BufferData, BufferLoad, Expr, IntImm, Var, as_expr, cast
from autosched.ir.functor import Substitute, free_vars, stmt_exprs, substitute, walk, walk_expr
from autosched.ir.index_map import IndexMap
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, Buffer, For, IterVar, Range, separator_fault
from autosched.schedule.analysis.bindings import is_fixed
from autosched.schedule.analysis.ways import for_map
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.layout_arguments import (
    iterator_map,
    layout_arguments,
    legalized,
    map_fits,
    number_text,
)
from autosched.schedule.primitives.buffers.layout_padding import Padding, nest, pad
from autosched.schedule.primitives.buffers.relayout import Relayout, Simplified

MOST_TRIED = 1 << 16  # elements of a buffer of which each pair is told apart


class Layout(ScheduleBase):
    """Primitives that change how a buffer, or the domain of a block, is indexed."""

    @primitive(
        normalize=layout_arguments, keep_none=("pad_value",),
        local=lambda args: "each" if args.get("pad_value") is None and not isinstance(args.get("buffer"), str) else "",
    )
    def transform_layout(
        self, block: BlockRV | str, buffer: str | tuple[str, int] | Buffer, index_map: IndexMap | Callable[..., Any],
        pad_value: int | float | Expr | IndexMap | Callable[..., Any] | None = None,
        assume_injective_transform: bool = False,
    ) -> None:
        """Gives a buffer another layout, wherever it is used.

        Args:
            block: handle or name of a block that uses the buffer.
            buffer: name, the buffer, or ``("read" | "write", position)``.
            index_map: from old indices to new ones; ``AXIS_SEPARATOR`` between indices marks a physical dimension.
            pad_value: what elements hold that the map leaves unused: a number of the buffer's type, or a function of the
                new indices. None: the map may leave none unused.
            assume_injective_transform: do not ask for a proof that the map is one to one; of a buffer of up to 2^16
                elements all are tried, and a map that sends two to one place is refused in any case.

        Raises:
            ScheduleError: a view or a viewed buffer, a map that is not one to one, unused elements without a
                ``pad_value``, a ``pad_value`` of another type or that reads another buffer.

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

        After ``sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))``::

            B = T.sblock_alloc_buffer((4, 4), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi // 4, vi % 4] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi // 4, vi % 4] + 1
        """
        assert isinstance(block, BlockRV) and isinstance(index_map, IndexMap) and isinstance(buffer, tuple)
        state, realize = self.block_at(block)
        node = realize.block
        kind, position = buffer
        old = (node.reads if kind == "read" else node.writes)[position].buffer
        owner = self._defining(state, node, old)
        scope = state.root if owner is None else owner
        if any(c.buffer is old for c in state.func.constants):
            self.refuse(f"{old.name} is a constant, whose elements lie as they are", [node.ident],
                        hint="cache_read it, and transform the copy", code="layout")
        self._no_views(state, scope, old)
        mapping = legalized(index_map, old.shape[0].dtype if old.shape else "int32")
        map_fits(self, mapping, old.shape, node)
        value = self._pad_function(old, mapping, pad_value)
        analyzer = Analyzer()
        # A map that uses nothing from outside is known by its text.
        text = str(mapping.to_data()) if all(v in mapping.initial for e in mapping.final for v in free_vars(e)) else ""
        known = once if text else afresh
        inverse, predicate = mapping, as_expr(False)
        if not assume_injective_transform:
            try:
                inverted = partial(mapping.non_surjective_inverse, old.shape, analyzer)
                inverse, predicate = known(inverted, "inverse", text, old.shape)
            except ProgramError as error:
                self.refuse(f"{error} ({mapping} on {old.name})", [node.ident],
                            hint="assume_injective_transform=True, if you know that it is one to one", code="layout")
        else:
            self._surely_not_injective(node, old, mapping)
        try:
            shape = known(partial(mapping.map_shape, old.shape, analyzer), "mapped shape", text, old.shape)
        except ProgramError as error:
            self.refuse(f"{error} ({mapping} on {old.name})", [node.ident], hint=for_map(str(error)), code="layout")
        if predicate != as_expr(False) and value is None:
            from autosched.ir.printer import expr_text

            sizes = ", ".join(expr_text(s) for s in shape)
            self.refuse(
                f"the layout ({sizes}) of {old.name} has elements that are not used: where {expr_text(predicate)}",
                [node.ident], hint=f"pad_value={number_text(0, old.dtype)} (or what those elements should hold), or "
                "assume_injective_transform=True, which leaves them unset", code="layout",
            )
        separators = mapping.axis_separators
        if not separators and len(shape) == old.ndim:
            separators = old.axis_separators
        fault = separator_fault(separators, len(shape))
        if fault is not None:
            self.refuse(f"{fault} of the new {old.name}", [node.ident], code="layout")
        if scope is not state.root:
            self.looks_far()
        again = once if state.trusted and scope is state.root and scope.init is None and value is None and text else afresh
        made = partial(replace, old, shape=shape, strides=(), axis_separators=separators)
        new = again(made, "laid out", old, text)
        work = scope
        if value is not None and predicate != as_expr(False):
            work = pad(work, Padding(old, new, inverse, predicate, value))
        changed = Relayout(old, new, mapping, state, scope, again).visit_owner(work)
        body = state.rewrite({id(scope): changed})
        params = tuple(new if p is old else p for p in state.func.params)
        self.commit(state, func=replace(state.func, params=params, body=body))

    @primitive(normalize=iterator_map, local="handles")
    def transform_block_layout(self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]) -> None:
        """Gives a block other iterators, each a function of the old ones, in loops of their own.

        Args:
            block: handle or name of a block whose iterators are the loops around it, one each.
            index_map: from old iterators to new ones, one to one; each new one uses iterators of one kind.

        Raises:
            ScheduleError: other bindings than loops, loops shared with other blocks, a map that is not one to one and
                affine, or that mixes kinds of iterators.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.transform_block_layout("C", lambda i, j: (i * 16 + j,))``::

            for ax0 in range(256):
                with T.sblock("C"):
                    v0 = T.axis.spatial(256, ax0)
                    C[v0 // 16, v0 % 16] = A[v0 // 16, v0 % 16] * 2
        """
        assert isinstance(block, BlockRV) and isinstance(index_map, IndexMap)
        state, realize = self.block_at(block)
        node = realize.block
        loops = state.loops_above(realize)
        self._own_nest(state, realize, loops)
        sizes = [iv.dom.extent for iv in node.iter_vars]
        mapping = legalized(index_map, sizes[0].dtype if sizes else "int32")
        map_fits(self, mapping, sizes, node)
        kinds = {iv.var: iv.kind for iv in node.iter_vars}
        analyzer = Analyzer()
        images = mapping.map_indices([iv.var for iv in node.iter_vars], analyzer)
        try:
            inverse = mapping.inverse(sizes, analyzer)
            shape = mapping.map_shape(sizes, analyzer)
        except ProgramError as error:
            self.refuse(f"the map {mapping} is not bijective and affine: {error}", [node.ident], hint=for_map(str(error)),
                        code="layout")
        iters: list[IterVar] = []
        for k, (image, extent) in enumerate(zip(images, shape)):
            found = {kinds[v] for v in free_vars(image) if v in kinds}
            kind = "spatial" if extent == as_expr(1, extent.dtype) else found.pop() if len(found) == 1 else "opaque"
            if kind == "opaque":
                from autosched.ir.printer import expr_text

                self.refuse(f"the new iterator {expr_text(image)} is made of iterators of several kinds", [node.ident],
                            hint="keep spatial and reduction iterators apart", code="layout")
            var = Var(f"v{k}", image.dtype)
            iters.append(IterVar(var, Range(as_expr(0, var.dtype), cast(var.dtype, extent)), kind))
        back = dict(zip(kinds, inverse.map_indices([iv.var for iv in iters], analyzer)))
        # An iterator that is kept stays a variable, even one that can only be 0.
        back.update((image, iv.var) for image, iv in zip(images, iters) if isinstance(image, Var) and image in kinds)
        moved = Substitute(back).visit_block(replace(node, iter_vars=()))
        new = Simplified({}).visit_block(replace(moved, iter_vars=tuple(iters)))
        variables = [Var(f"ax{k}", iv.var.dtype) for k, iv in enumerate(iters)]
        old_loops = dict(zip([x.var for x in loops], inverse.map_indices(variables, analyzer)))
        predicate = substitute(realize.predicate, old_loops)
        whole = nest(
            [(v, iv.dom.extent) for v, iv in zip(variables, iters)], BlockRealize(tuple(variables), predicate, new)
        )
        self.commit_nodes(state, {id(loops[0] if loops else realize): whole})

    # -- checks ---------------------------------------------------------------------------------------

    def _defining(self, state: State, block: Block, buffer: Buffer) -> Block | None:
        """The block that allocates a buffer; None for a parameter. Views are refused."""
        around = [block, *(n for n in state.ancestors(state.realizes[block.ident]) if isinstance(n, Block))]
        for node in around:
            if any(b is buffer for b in node.alloc_buffers):
                return node
            if any(m.buffer is buffer for m in node.match_buffers):
                self.refuse(
                    f"buffer {buffer.name} is a view (match_buffer) in block {node.name}; a parameter or an allocated "
                    "buffer is needed", [block.ident], hint="use the buffer that it is a view of", code="address",
                )
        return None

    def _no_views(self, state: State, scope: Block, buffer: Buffer) -> None:
        """Refuses a buffer whose layout is fixed by a view of it, or because its address is taken."""
        if not is_fixed(scope, buffer):
            return
        for stmt in walk(scope):
            if isinstance(stmt, Block) and any(m.source.buffer is buffer for m in stmt.match_buffers):
                self.refuse(f"block {stmt.name} has a view of {buffer.name}, whose layout it relies on", [stmt.ident],
                            hint=f"{self._op} before tensorize", code="address")
            for expr in stmt_exprs(stmt):
                if any(isinstance(e, BufferData) and e.buffer is buffer for e in walk_expr(expr)):
                    self.refuse(f"the address of {buffer.name} is taken, so its layout is fixed", [stmt], state=state,
                                hint=f"{self._op} before tensorize", code="address")

    def _surely_not_injective(self, block: Block, buffer: Buffer, mapping: IndexMap) -> None:
        """Refuses a map of which two elements can be shown that share a place."""
        sizes = [s.value for s in buffer.shape if isinstance(s, IntImm)]
        if len(sizes) < buffer.ndim or len(sizes) != len(mapping.initial) or not 0 < prod(sizes) <= MOST_TRIED:
            return
        pair = mapping.collision(sizes)
        if pair is not None:
            one, two = (f"{buffer.name}[{', '.join(map(str, p))}]" for p in pair)
            self.refuse(f"the index map sends {one} and {two} to one place ({mapping} on {buffer.name})", [block.ident],
                        hint="assume_injective_transform is for maps that are one to one and cannot be shown to be",
                        code="layout")

    def _pad_function(
        self, buffer: Buffer, mapping: IndexMap, value: Any
    ) -> Callable[[Sequence[Expr]], Expr] | None:
        """What padding holds, by its indices."""
        if value is None:
            return None
        if not isinstance(value, IndexMap):
            return lambda indices: as_expr(value, buffer.dtype)
        if len(value.final) != 1:
            self.refuse(f"pad_value gives {len(value.final)} values, one is needed",
                        hint="a number, or a function of the new indices that returns one value", code="argument")
        result = value.final[0]
        for e in walk_expr(result):
            if isinstance(e, BufferLoad):
                self.refuse(f"pad_value reads {e.buffer.name}; it may only depend on the indices",
                            hint="a number or a function of the new indices", code="argument")
        if result.dtype != buffer.dtype:
            self.refuse(f"pad_value is of type {result.dtype}, the elements of {buffer.name} are {buffer.dtype}", code="argument")

        def at(indices: Sequence[Expr]) -> Expr:
            return cast(buffer.dtype, legalized(value, mapping.final[0].dtype).map_indices(indices)[0])

        return at

    def _own_nest(self, state: State, realize: BlockRealize, loops: Sequence[For]) -> None:
        """Refuses a block that shares its loops, or whose iterators are not those loops."""
        node = realize.block
        chain = [*loops, realize]
        for outer, inner in pairwise(chain):
            if isinstance(outer, For) and outer.body is not inner:
                self.refuse(f"loop {outer.var.name} holds more than block {node.name}", [outer.var, node.ident],
                            hint="compute_at and loop_partition come after", code="place")
        for loop in loops:
            if loop.min != as_expr(0, loop.min.dtype):
                self.refuse(f"loop {loop.var.name} does not start at 0", [loop.var], code="loop")
        if len(loops) != len(realize.iter_values) or any(v is not x.var for v, x in zip(realize.iter_values, loops)):
            self.refuse(f"the iterators of block {node.name} are not the loops around it, one each, in order", [node.ident],
                        hint=f"{self._op} before split, fuse and reorder", code="index")
        for iv in node.iter_vars:
            if iv.dom.min != as_expr(0, iv.dom.min.dtype):
                self.refuse(f"iterator {iv.var.name} of block {node.name} does not start at 0", [node.ident], code="loop")
