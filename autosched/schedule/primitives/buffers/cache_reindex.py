"""Copies in a layout of their own: reindex_cache_read and reindex_cache_write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.expr import BufferLoad, Expr, Var, int_value, logical_and
from autosched.ir.functor import Substitute, free_vars
from autosched.ir.index_map import IndexMap
from autosched.ir.patterns import has_loads, loads_in
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    Ident,
    IterVar,
    Range,
    Stmt,
    point,
    separator_fault,
)
from autosched.schedule.analysis.bindings import in_sequence
from autosched.schedule.analysis.one_to_one import injective
from autosched.schedule.analysis.outside import before, upto
from autosched.schedule.analysis.pipeline import broken_pipeline
from autosched.schedule.analysis.ways import for_map
from autosched.schedule.kit.base import BlockRV
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.cache import Cache
from autosched.schedule.primitives.buffers.cache_rewrite import Place, Redirect, guarded_load, place_between, region_of
from autosched.schedule.primitives.buffers.layout_arguments import legalized, map_fits
from autosched.schedule.primitives.buffers.scope import in_scope
from autosched.schedule.primitives.buffers.stored import require_stored


def map_over_iterators(sch: Any, args: dict[str, Any]) -> None:
    """Turns a Python function of a block's iterators into an ``IndexMap``."""
    if isinstance(args["block"], str):
        args["block"] = sch.get_sblock(args["block"])
    block = sch.block_at(args["block"])[1].block
    try:
        args["index_map"] = IndexMap.from_func(args["index_map"], len(block.iter_vars))
    except ProgramError as error:
        sch.refuse(f"{error}; block {block.name} has {len(block.iter_vars)} iterators", [block.ident],
                   hint=f"lambda {', '.join(iv.var.name for iv in block.iter_vars)}: ...", code="argument")
    map_fits(sch, args["index_map"], [iv.dom.extent for iv in block.iter_vars], block)


class ReindexCache(Cache):
    """Caches whose indices are a function of the iterators of the block that uses them."""

    @primitive(normalize=map_over_iterators)
    def reindex_cache_read(
        self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Copies what a block reads of a buffer into another memory, in a layout given by the block's iterators.

        Args:
            block: handle or name of a block that reads one element of the buffer per instance.
            read_buffer_index: position or name among the buffers read.
            storage_scope: memory of the copy.
            index_map: from the block's iterators to the indices of the copy; uses the iterators that index the buffer,
                each combination of them once.

        Returns:
            the copying block.

        Raises:
            ScheduleError: not one element per instance, an index that comes from memory, other iterators than those that
                index the buffer, two instances that would share an element of the copy, a scope that is no pipeline of stages.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.reindex_cache_read("C", 0, "shared", lambda i, j: (j, i))``::

            A_shared = T.sblock_alloc_buffer((16, 16), "int32", scope="shared")
            for i, j in T.grid(16, 16):
                with T.sblock("A_shared"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A_shared[vj, vi] = A[vi, vj]
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A_shared[vj, vi] * 2
        """
        assert isinstance(block, BlockRV)
        assert isinstance(index_map, IndexMap)
        self.check_scope(storage_scope)
        state, realize = self.block_at(block)
        node = realize.block
        region = node.reads[self.block_region_buffer(node, read_buffer_index, "read")]
        buffer = region.buffer
        scope = self._pipeline(state, node)
        writer = self._only_writer(state, scope, buffer)
        if writer is None:
            place = Place(scope, 0)
        else:
            place = place_between(state, scope, writer.ident, {node.ident})
        return self._reindex(state, realize, region, storage_scope, index_map, place, True)

    @primitive(normalize=map_over_iterators)
    def reindex_cache_write(
        self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Lets a block write into a copy in another memory, in a layout given by the block's iterators.

        Args:
            block: handle or name of the only block that writes the buffer, one element per instance.
            write_buffer_index: position or name among the buffers written.
            storage_scope: memory of the copy.
            index_map: from the block's iterators to the indices of the copy; uses the iterators that index the buffer,
                each combination of them once.

        Returns:
            the block that stores the copy to the buffer.

        Raises:
            ScheduleError: as for ``reindex_cache_read``, several writers, or an element that is stored under a condition only.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.reindex_cache_write("C", 0, "shared", lambda i, j: (j, i))``::

            C_shared = T.sblock_alloc_buffer((16, 16), "int32", scope="shared")
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C_shared[vj, vi] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C_shared"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = C_shared[vj, vi]
        """
        assert isinstance(block, BlockRV)
        assert isinstance(index_map, IndexMap)
        self.check_scope(storage_scope)
        state, realize = self.block_at(block)
        node = realize.block
        region = node.writes[self.block_region_buffer(node, write_buffer_index, "write")]
        scope = self._pipeline(state, node)
        self._only_writer(state, scope, region.buffer)
        self._starts_anew(node, region.buffer)
        related = {d.dst for d in state.dependences(scope) if d.src is node.ident and d.kind == "RAW"}
        place = place_between(state, scope, node.ident, related)
        return self._reindex(state, realize, region, storage_scope, index_map, place, False)

    def _pipeline(self, state: State, block: Block) -> Block:
        scope = self._scope(state, block)
        broken = broken_pipeline(state, scope)
        if broken is not None:
            self.refuse(f"the scope {scope.name} is not a pipeline of stages: {broken[0]}", broken[1], state=state, code="order")
        return scope

    def _reindex(
        self, state: State, realize: BlockRealize, region: BufferRegion, storage_scope: str, index_map: IndexMap,
        place: Place, reads: bool,
    ) -> BlockRV:
        node, buffer = realize.block, region.buffer
        if any(int_value(r.extent) != 1 for r in region.region):
            self.refuse(f"an instance of block {node.name} touches more than one element of {buffer.name}", [node.ident],
                        hint="cache_read and cache_write copy regions", code="index")
        old = [r.min for r in region.region]
        if has_loads(*old):
            self.refuse(f"the index of {buffer.name} comes from memory", [node.ident],
                        hint="cache_read copies the buffer as a whole" if reads else "", code="index")
        if reads:
            self._known_at(state, realize, place)
        elif not state.trusted:
            try:
                require_stored(state, self._scope(state, node), node, buffer, tuple(old))
            except Refusal as r:
                self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        if not state.trusted:
            meanwhile = (upto if reads else before)(state, place.parent, place.index, realize)
            self._in_blocks(state, self._scope(state, node), buffer, meanwhile, reads)
        index_map = legalized(index_map, node.iter_vars[0].var.dtype if node.iter_vars else "int32")
        new = index_map.map_indices([iv.var for iv in node.iter_vars])
        kept = self._used_iterators(node, old, new)
        self._one_each(node, [node.iter_vars[i] for i in kept], old, new)
        try:
            # Iterators may start late, in a part of a loop: the copy has room from 0.
            analyzer = Analyzer()
            shape = index_map.map_shape([analyzer.simplify(iv.dom.min + iv.dom.extent) for iv in node.iter_vars], analyzer)
        except ProgramError as error:
            self.refuse(f"{error} ({index_map} on {buffer.name})", [node.ident], hint=for_map(str(error)), code="layout")
        fault = separator_fault(index_map.axis_separators, len(shape))
        if fault is not None:
            self.refuse(f"{fault} of the copy of {buffer.name}", [node.ident], code="layout")
        cached = replace(
            in_scope(buffer, storage_scope), shape=shape, strides=(), axis_separators=index_map.axis_separators,
            ident=Ident(),
        )
        stage, nest = self._stage(state, realize, kept, (buffer, old), (cached, new), place, reads)
        redirect = Redirect(buffer, cached, indices=new)
        self._only_there(node, buffer, reads)
        scope = self._scope(state, node)
        self.commit_rewrite(
            state, {id(node): redirect.visit_block(node)}, {id(scope): (*scope.alloc_buffers, cached)},
            {id(place.parent): (place.index, nest)},
        )
        return self.block_rv(stage.block)

    def _known_at(self, state: State, realize: BlockRealize, place: Place) -> None:
        """Refuses a copy before what binds the block, or says where it runs, is written."""
        binding = {load.buffer for e in (*realize.iter_values, realize.predicate) for load in loads_in(e)}
        if not binding:
            return
        first = in_sequence(place.parent.body)[place.index]
        late = False
        for other in state.children_of(self._scope(state, realize.block)):
            site = state.realizes[other.ident]
            late = late or any(n is first for n in (site, *state.ancestors(site)))
            found = next((b for b in state.touched(other)[1] if b in binding), None) if late else None
            if found is not None:
                self.refuse(f"where block {realize.block.name} runs is read from {found.name}, which block {other.name} writes "
                            "after the place of the copy", [realize.block.ident, other.ident], state=state,
                            hint="cache_read copies the buffer as a whole", code="order")

    def _used_iterators(self, node: Block, old: Sequence[Expr], new: Sequence[Expr]) -> list[int]:
        """Positions of the iterators that index the buffer; the map must use the same ones."""
        in_old = {v for e in old for v in free_vars(e)}
        in_new = {v for e in new for v in free_vars(e)}
        for iv in node.iter_vars:
            if (iv.var in in_old) != (iv.var in in_new):
                where, missing = ("the buffer", "the map") if iv.var in in_old else ("the map", "the buffer")
                self.refuse(f"iterator {iv.var.name} of block {node.name} indexes {where} and not {missing}", [node.ident],
                            hint="the map uses exactly the iterators that index the buffer", code="index")
        return [i for i, iv in enumerate(node.iter_vars) if iv.var in in_new]

    def _one_each(self, node: Block, iters: Sequence[IterVar], old: Sequence[Expr], new: Sequence[Expr]) -> None:
        """Refuses maps that give one element of the copy to two elements of the buffer."""
        dom = {iv.var: iv.dom for iv in iters}
        if all(any(o == n for n in new) for o in old) or injective(new, dom):
            return
        variables = tuple(iv.var for iv in iters)
        try:
            back, _ = IndexMap(variables, tuple(new)).non_surjective_inverse([iv.dom.extent for iv in iters])
            analyzer = Analyzer(dom)
            if all(analyzer.can_prove_equal(a, v) for a, v in zip(back.map_indices(new, analyzer), variables)):
                return
            reason = "its inverse does not give the iterators back"
        except ProgramError as error:
            reason = str(error)
        self.refuse(f"the map may give one element of the copy to two instances of block {node.name}: {reason}",
                    [node.ident], hint="a map that has an inverse", code="layout")

    def _only_there(self, node: Block, buffer: Buffer, reads: bool) -> None:
        """Refuses a block that uses the buffer the other way too, at other indices than the map knows."""
        this, other = (node.reads, node.writes) if reads else (node.writes, node.reads)
        mine, theirs = region_of(this, buffer), region_of(other, buffer)
        if theirs is not None and (reads or mine != theirs):
            self.refuse(f"block {node.name} both reads and writes {buffer.name}", [node.ident], code="writer")

    def _stage(
        self, state: State, realize: BlockRealize, kept: Sequence[int], plain: tuple[Buffer, Sequence[Expr]],
        cached: tuple[Buffer, Sequence[Expr]], place: Place, reads: bool,
    ) -> tuple[BlockRealize, Stmt]:
        """The nest that copies between the buffer and the cache, over the loops that drive the kept iterators."""
        node = realize.block
        loops = state.loops_above(realize)
        if isinstance(place.parent, For):
            loops = loops[next(i for i, x in enumerate(loops) if x is place.parent) + 1:]
        values = [realize.iter_values[i] for i in kept]
        used = {v for e in values for v in free_vars(e)}
        mine = [x for x in loops if x.var in used]
        fresh: dict[Var, Expr] = {x.var: Var(x.var.name, x.var.dtype) for x in mine}
        terms: list[Expr] = []
        dropped = {x.var for x in loops} - used
        # A loop of one iteration that is left out has its only value in what is said of the others.
        single: dict[Var, Expr] = {x.var: x.min for x in loops if x.var in dropped and int_value(x.extent) == 1}
        analyzer = Analyzer({x.var: Range(x.min, x.extent) for x in loops})
        for term in conjuncts(realize.predicate):
            if any(v in single for v in free_vars(term)):
                term = analyzer.simplify(Substitute(single).visit_expr(term))
            names = set(free_vars(term))
            if names & used and names & dropped:
                self.refuse(f"the predicate of block {node.name} ties loops that index the buffer to others", [node.ident],
                            hint="split by factors that divide", code="domain")
            if not names & dropped:
                terms.append(term)
        iters: list[IterVar] = []
        for i in kept:
            iv = node.iter_vars[i]
            new_var = Var(iv.var.name, iv.var.dtype)
            fresh[iv.var] = new_var
            iters.append(IterVar(new_var, iv.dom))
        rename = Substitute(fresh)
        sides = [(b, tuple(rename.visit_expr(e) for e in at)) for b, at in (plain, cached)]
        (source, read), (target, write) = sides if reads else sides[::-1]
        load = guarded_load(source, read, {iv.var: iv.dom for iv in iters}) if reads else BufferLoad(source, read, source.dtype)
        body = BufferStore(target, write, load)
        name = cached[0].name
        block = Block(name, tuple(iters), (point(source, read),), (point(target, write),), body)
        stage = BlockRealize(
            tuple(rename.visit_expr(v) for v in values), rename.visit_expr(logical_and(*terms)), block
        )
        nest: Stmt = stage
        for loop in reversed(mine):
            var = fresh[loop.var]
            assert isinstance(var, Var)
            nest = For(var, rename.visit_expr(loop.min), rename.visit_expr(loop.extent), "serial", nest)
        return stage, nest
