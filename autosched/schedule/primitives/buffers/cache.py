"""Copies of buffers in other memories: cache_read, cache_write, cache_inplace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count, pairwise

from autosched.ir.cover import covers
from autosched.ir.expr import int_value
from autosched.ir.functor import uses
from autosched.ir.host import kind_of
from autosched.ir.scopes import SRAM_SCOPES
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, For, Ident, Range, Stmt, full_region
from autosched.ir.swept import ranges_box
from autosched.schedule.analysis.dependence import scope_of, strays
from autosched.schedule.analysis.outside import before, require_blocks, stored_outside, upto
from autosched.schedule.analysis.pipeline import uncovered
from autosched.schedule.analysis.ways import users
from autosched.schedule.kit.base import BlockRV
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.kit.walks import child_blocks
from autosched.schedule.primitives.buffers.cache_rewrite import (
    Place,
    Redirect,
    clipped,
    copy_stage,
    nested_condition,
    place_at,
    place_between,
    redirected,
    region_of,
    swept_region,
)
from autosched.schedule.primitives.buffers.scope import Scope, in_scope
from autosched.schedule.primitives.buffers.stored import stores_all


class Cache(Scope):
    """Primitives that put a copy between a buffer and the blocks that use it."""

    @primitive(local=lambda args: "writers" if args.get("consumer_blocks") else "each")
    def cache_read(
        self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Copies a buffer that a block reads into another memory first, and lets the block read the copy.

        The copy goes right after the block that writes the buffer (as deep in common loops as that allows), or to the
        front of the scope for an input. It is named ``{buffer}_{scope}``, as is its buffer.

        Args:
            block: handle or name of a block that reads the buffer.
            read_buffer_index: position, name, or the buffer itself.
            storage_scope: memory of the copy, e.g. ``local.inp_buffer``.
            consumer_blocks: the blocks that read the copy; default: all readers in the scope, of a copy in the accelerator's
                memory all but host stages.

        Returns:
            the copying block.

        Raises:
            ScheduleError: no such buffer, several writers, readers that need what is not written yet, no such memory.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.cache_read("C", 0, "local.inp_buffer")``::

            A_local_inp_buffer = T.sblock_alloc_buffer((16,), "int32", scope="local.inp_buffer")
            for ax0 in range(16):
                with T.sblock("A_local.inp_buffer"):
                    v0 = T.axis.spatial(16, ax0)
                    A_local_inp_buffer[v0] = A[v0]
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A_local_inp_buffer[vi] * 2
        """
        assert isinstance(block, BlockRV)
        self.check_scope(storage_scope)
        state, realize = self.block_at(block)
        reader = realize.block
        buffer = reader.reads[self.block_region_buffer(reader, self._buffer_key(read_buffer_index), "read")].buffer
        scope = self._scope(state, reader)
        writer = self._only_writer(state, scope, buffer)
        self._covered(state, scope, buffer, writer)
        consumers = self._consumers(state, scope, buffer, consumer_blocks)
        if consumer_blocks is None and storage_scope in SRAM_SCOPES and kind_of(reader) is None:
            consumers = self._but_the_host(state, scope, buffer)
        if consumer_blocks is None and (writer is not None or consumers or scope is not state.root):
            self.looks_far()
        if writer is not None:
            region = region_of(writer.writes, buffer)
            assert region is not None
            related = consumers or [
                d.dst for d in state.dependences(scope) if d.src is writer.ident and d.kind == "RAW"
            ]
            place = place_between(state, scope, writer.ident, set(related))
            if self._read_first(state, scope, writer, set(related), place):
                place = Place(scope, 0)
            swept = swept_region(state, region, state.realizes[writer.ident], place.parent)
        else:
            place = Place(scope, 0)
            swept = self._input_region(state, scope, reader, buffer)
        compact = place.parent is scope
        if compact:
            swept = clipped(swept, buffer.shape)
            self._fixed_size(state, scope, buffer, swept)
        targets = [b for b in state.children_of(scope) if buffer not in state.touched(b)[1]]
        if consumers:
            targets = [b for b in targets if b.ident in consumers]
        readers = [b.ident for b in targets if buffer in state.touched(b)[0]]
        for last in () if state.trusted else readers[-1:]:
            self._in_blocks(state, scope, buffer, upto(state, place.parent, place.index, state.realizes[last]), stored=True)
        again = once if state.trusted and compact and scope is state.root else afresh
        made = partial(self._cached, buffer, storage_scope, swept if compact else None)
        if consumers:
            cached = again(made, "cached for", buffer, storage_scope, swept, *readers)
        else:
            # The first that this program does not have yet.
            several = (again(made, "cached", buffer, storage_scope, swept, n) for n in count())
            cached = next(b for b in several if b not in scope.alloc_buffers)
        stage, nest = again(lambda: copy_stage(
            f"{buffer.name}_{storage_scope}", buffer, cached, swept, "target" if compact else None, state.ranges_at(place.parent),
        ), "copied", cached)
        offset = [r.min for r in swept] if compact else None
        table: dict[int, Stmt | None] = {}
        for target in targets:
            new, redirect = again(partial(redirected, target, buffer, cached, offset), "redirected", target, cached)
            self._opaque(redirect, buffer)
            if new is not target:
                table[id(target)] = new
        self.commit(state, state.rewrite(
            table, {id(scope): (*scope.alloc_buffers, cached)}, {id(place.parent): (place.index, nest)}, again,
        ))
        return self.block_rv(stage.block)

    @primitive
    def cache_write(
        self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Lets a block write into a copy in another memory, which a new block stores to the buffer afterwards.

        The store goes right before the first reader of the buffer (as deep in common loops as that allows), or to the
        end of the scope. It is named ``{buffer}_{scope}``, as is the copy.

        Args:
            block: handle or name of the only block that writes the buffer.
            write_buffer_index: position, name, or the buffer itself.
            storage_scope: memory of the copy, e.g. ``local.acc_buffer``.
            consumer_blocks: readers that use the copy as well; default: none.

        Returns:
            the storing block.

        Raises:
            ScheduleError: no such buffer, several writers, no such memory.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.cache_write("C", 0, "local.acc_buffer")``::

            C_local_acc_buffer = T.sblock_alloc_buffer((16,), "int32", scope="local.acc_buffer")
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C_local_acc_buffer[vi] = A[vi] * 2
            for ax0 in range(16):
                with T.sblock("C_local.acc_buffer"):
                    v0 = T.axis.spatial(16, ax0)
                    C[v0] = C_local_acc_buffer[v0]
        """
        assert isinstance(block, BlockRV)
        self.check_scope(storage_scope)
        state, realize = self.block_at(block)
        writer = realize.block
        buffer = writer.writes[self.block_region_buffer(writer, self._buffer_key(write_buffer_index), "write")].buffer
        scope = self._scope(state, writer)
        self._only_writer(state, scope, buffer)
        self._starts_anew(writer, buffer)
        consumers = self._consumers(state, scope, buffer, consumer_blocks)
        self._covered(state, scope, buffer, writer, consumers)
        region = region_of(writer.writes, buffer)
        assert region is not None
        related = {
            d.dst for d in state.dependences(scope)
            if d.src is writer.ident and d.kind == "RAW" and d.dst not in consumers
        }
        place = place_between(state, scope, writer.ident, related)
        if not state.trusted:
            self._in_blocks(state, scope, buffer, before(state, place.parent, place.index, realize))
        swept = swept_region(state, region, realize, place.parent, nested_condition(writer, buffer, "write"))
        self._no_holes(state, scope, buffer, realize, place.parent, swept)
        compact = place.parent is scope
        if compact:
            swept = clipped(swept, buffer.shape)
            self._fixed_size(state, scope, buffer, swept)
        cached = self._cached(buffer, storage_scope, swept if compact else None)
        stage, nest = copy_stage(
            f"{buffer.name}_{storage_scope}", cached, buffer, swept, "source" if compact else None, state.ranges_at(place.parent),
        )
        redirect = Redirect(buffer, cached, [r.min for r in swept] if compact else None)
        table: dict[int, Stmt | None] = {}
        for target in state.children_of(scope):
            if target.ident is writer.ident or target.ident in consumers:
                table[id(target)] = redirect.visit_block(target)
        self._opaque(redirect, buffer)
        self.commit_rewrite(
            state, table, {id(scope): (*scope.alloc_buffers, cached)}, {id(place.parent): (place.index, nest)}
        )
        return self.block_rv(stage.block)

    @primitive
    def cache_inplace(
        self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Copies a buffer that a block updates in place into another memory before it, and back after it.

        Args:
            block: handle or name of a block that reads and writes the buffer.
            read_buffer_index: position, name, or the buffer itself.
            storage_scope: memory of the copy.

        Returns:
            the block that copies in, and the block that copies out.

        Raises:
            ScheduleError: the block does not both read and write the buffer, no such memory.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = C[vi] * 2

        After ``sch.cache_inplace("C", 0, "local")``::

            C_local = T.sblock_alloc_buffer((16,), "int32", scope="local")
            for i in range(16):
                for ax0 in range(1):
                    with T.sblock("C_local"):
                        v0 = T.axis.spatial(16, i + ax0)
                        C_local[v0] = C[v0]
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C_local[vi] = C_local[vi] * 2
                for ax0 in range(1):
                    with T.sblock("C_local"):
                        v0 = T.axis.spatial(16, i + ax0)
                        C[v0] = C_local[v0]
        """
        assert isinstance(block, BlockRV)
        self.check_scope(storage_scope)
        state, realize = self.block_at(block)
        node = realize.block
        buffer = node.reads[self.block_region_buffer(node, self._buffer_key(read_buffer_index), "read")].buffer
        scope = self._scope(state, node)
        read, write = region_of(node.reads, buffer), region_of(node.writes, buffer)
        if read is None or write is None:
            self.refuse(f"block {node.name} does not both read and write {buffer.name}", [node.ident],
                        hint="cache_read or cache_write", code="form")
        assert read is not None and write is not None
        cached = replace(in_scope(buffer, storage_scope), strides=(), ident=Ident())
        name = f"{buffer.name}_{storage_scope}"
        place = place_at(state, scope, node.ident)
        inner = place.parent
        loaded, stored = swept_region(state, read, realize, inner), swept_region(state, write, realize, inner)
        if not covers(ranges_box(loaded), ranges_box(stored), buffer.shape):
            self._no_holes(state, scope, buffer, realize, inner, stored)
        around = state.ranges_at(place.parent)
        first, before = copy_stage(name, buffer, cached, loaded, None, around)
        last, after = copy_stage(name, cached, buffer, stored, None, around)
        redirect = Redirect(buffer, cached)
        table: dict[int, Stmt | None] = {id(node): redirect.visit_block(node)}
        allocs = {id(scope): (*scope.alloc_buffers, cached)}
        state = self.commit_rewrite(state, table, allocs, {id(inner): (place.index, before)})
        place = place_at(state, scope, node.ident)
        self.commit_rewrite(state, {}, {}, {id(place.parent): (place.index + 1, after)})
        return [self.block_rv(first.block), self.block_rv(last.block)]

    # -- shared ---------------------------------------------------------------------------------------

    def _buffer_key(self, key: int | str | Buffer) -> int | str | Buffer:
        return key

    def _scope(self, state: State, block: Block) -> Block:
        try:
            return scope_of(state, block)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)

    def _only_writer(self, state: State, scope: Block, buffer: Buffer) -> Block | None:
        """The block of a scope that writes a buffer, or None for an input; several are refused."""
        writers = state.writers(scope, buffer)
        if len(writers) > 1:
            listed = ", ".join(w.name for w in writers)
            self.refuse(
                f"buffer {buffer.name} is expected to be written by a single block, but {listed} write it",
                [w.ident for w in writers], state=state, hint=f"{self._op} before decompose_reduction", code="writer",
            )
        if writers and region_of(writers[0].writes, buffer) is None:
            self.refuse(f"{buffer.name} is written inside block {writers[0].name}, which does not declare it",
                        [writers[0].ident], state=state, hint=f"{self._op} before loop_partition", code="writer")
        return writers[0] if writers else None

    def _in_blocks(self, state: State, scope: Block, buffer: Buffer, within: Sequence[Stmt], stored: bool = False) -> None:
        """Refuses statements that touch a buffer outside of blocks, or only those that store to it."""
        try:
            require_blocks(state, scope, (buffer,), () if stored else (buffer,), within)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)

    def _starts_anew(self, writer: Block, buffer: Buffer) -> None:
        """Refuses a block that updates what is in the buffer already: a copy of it would start without a value."""
        if _needs_old(writer, buffer):
            self.refuse(
                f"block {writer.name} updates {buffer.name} in place, and the copy would start without its values",
                [writer.ident], hint="cache the block that initialises it too, or use cache_inplace", code="writer",
            )
        stray = None if writer.init is None else strays(writer)
        if stray is not None:
            self.refuse(f"block {writer.name} has an init and is no reduction: {stray}", [writer.ident], code="reduction")

    def _no_holes(
        self, state: State, scope: Block, buffer: Buffer, realize: BlockRealize, top: For | Block, swept: Sequence[Range]
    ) -> None:
        """Refuses a copy that would store what its writer has left out over what the buffer holds already.

        Where the buffer lives in the scope like the copy, both hold the same, the elements without a value included.
        """
        if buffer in scope.alloc_buffers and (state.trusted or not stored_outside(scope, buffer)):
            return
        if not stores_all(realize, buffer, state.loops_below(top, realize), swept, state.ranges_at(top)):
            self.refuse(
                f"block {realize.block.name} is not known to store all elements of {buffer.name} between the first and the "
                "last, and the copy would store the others as well", [realize.block.ident], state=state,
                hint="reindex_cache_write copies single elements", code="domain",
            )

    def _read_first(self, state: State, scope: Block, writer: Block, related: set[Ident], place: Place) -> bool:
        """Whether a buffer is read only before it is written, once: then it can be copied at the front of the scope."""
        order = [b.ident for b in state.children_of(scope)]
        first = next((i for i in order if i in related), writer.ident)
        if order.index(first) >= order.index(writer.ident):
            return False
        around = [place.parent, *state.loops_above(place.parent)] if place.parent is not scope else []
        return all(isinstance(x, For) and int_value(x.extent) == 1 for x in around)

    def _covered(
        self, state: State, scope: Block, buffer: Buffer, writer: Block | None, only: set[Ident] | None = None
    ) -> None:
        """Refuses readers of a buffer, or only some of them, that need more of it than one block has written when they run."""
        if writer is None or state.trusted:
            return
        for reader in state.readers(scope, buffer):
            if reader.ident is writer.ident or (only is not None and reader.ident not in only):
                continue
            reason = uncovered(state, scope, reader.ident, [writer.ident])
            if reason is not None:
                self.refuse(reason, [reader.ident, writer.ident], state=state, code="domain")

    @staticmethod
    def _but_the_host(state: State, scope: Block, buffer: Buffer) -> set[Ident]:
        """The readers that are no host stages, with the blocks inside them, where some readers are; else nothing."""
        readers = state.readers(scope, buffer)
        own = [b for b in readers if kind_of(b) is None]
        return {b.ident for block in own for b in (block, *state.children_of(block))} if len(own) < len(readers) else set()

    def _consumers(
        self, state: State, scope: Block, buffer: Buffer, blocks: Sequence[BlockRV | str] | None
    ) -> set[Ident]:
        """The blocks of a scope that use the copy, with the blocks inside them."""
        found: set[Ident] = set()
        for rv in blocks or ():
            assert isinstance(rv, BlockRV)
            other, realize = self.block_at(rv)
            if other is not state:
                self.refuse("a consumer block belongs to another function", hint="give blocks of the same function",
                            code="handle")
            if buffer not in state.touched(realize.block)[0]:
                self.refuse(f"consumer block {realize.block.name} does not read {buffer.name}", [realize.block.ident],
                            hint=f"the blocks that read {buffer.name}: {users(state, buffer, True) or 'none'}", code="argument")
            around = [n for n in (realize.block, *state.ancestors(realize)) if isinstance(n, Block)]
            direct = next((b for b, above in pairwise(around) if above is scope), None)
            if direct is not None and direct is not realize.block:
                self.refuse(f"consumer block {realize.block.name} is inside {direct.name}, which uses the copy as a whole",
                            [realize.block.ident], hint=f'consumer_blocks=["{direct.name}"]', code="reader")
            found.add(realize.block.ident)
            found.update(b.ident for b in state.children_of(realize.block))
        return found

    def _input_region(self, state: State, scope: Block, reader: Block, buffer: Buffer) -> tuple[Range, ...]:
        """What to copy of a buffer that comes into the scope from outside."""
        region = region_of(reader.reads, buffer)
        condition = nested_condition(reader, buffer, "read")
        if region is not None and condition != TRUE:
            self.looks_far()
        if region is not None and condition != TRUE and len(state.readers(scope, buffer)) == 1:
            return swept_region(state, region, state.realizes[reader.ident], scope, condition)
        outer = region_of(scope.reads, buffer)
        return (outer or full_region(buffer)).region

    def _fixed_size(self, state: State, scope: Block, buffer: Buffer, swept: Sequence[Range]) -> None:
        """Refuses a copy as large as what an instance of the scope uses where that depends on which instance it is."""
        moving = {iv.var for iv in scope.iter_vars}
        for d, r in enumerate(swept):
            if int_value(r.extent) is None and uses(r.extent, moving):
                self.refuse(
                    f"how much of dimension {d} of {buffer.name} block {scope.name} uses is another in each of its instances, "
                    "and a copy has one size", [scope.ident], state=state, hint=f"{self._op} before blockize", code="domain",
                )

    def _cached(self, buffer: Buffer, storage_scope: str, region: Sequence[Range] | None) -> Buffer:
        """A buffer for the copy: of the same shape, or of the shape of a region."""
        new = replace(in_scope(buffer, storage_scope), ident=Ident())
        if region is None:
            return new
        shape = tuple(r.extent for r in region)
        whole = all(a == b and int_value(r.min) == 0 for a, b, r in zip(shape, buffer.shape, region))
        return new if whole else replace(new, shape=shape, strides=())

    def _opaque(self, redirect: Redirect, buffer: Buffer) -> None:
        """Refuses to shift the origin of a buffer that is passed by address."""
        if redirect.opaque and redirect.offset is not None:
            self.refuse(
                f"{buffer.name} is passed by address, and the copy would start elsewhere than the buffer",
                hint=f"{self._op} before tensorize", code="address",
            )


def _needs_old(block: Block, buffer: Buffer) -> bool:
    """Whether a block reads of a buffer what it has not written itself."""
    reads, writes = region_of(block.reads, buffer), region_of(block.writes, buffer)
    if block.init is not None or reads is None:
        return False
    for child in child_blocks(block):
        if _needs_old(child, buffer):
            break
        if region_of(child.writes, buffer) is not None:
            # What stands behind the first writer reads the fresh values, as far as they reach.
            return writes is None or not covers(ranges_box(writes.region), ranges_box(reads.region), buffer.shape)
    return True
