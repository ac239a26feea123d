"""Copies under a loop in one step: read_at, write_at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.ir.cover import covers
from autosched.ir.expr import BufferLoad, Expr, Var, as_expr
from autosched.ir.functor import Substitute, free_vars, walk
from autosched.ir.patterns import has_loads
from autosched.ir.region import region_bounds, union_ranges
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import (
    TRUE,
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
    nested,
    seq,
)
from autosched.ir.swept import exact_box, ranges_box
from autosched.schedule.analysis.bindings import in_sequence
from autosched.schedule.analysis.boxes import bindings, loop_ranges, placed
from autosched.schedule.analysis.outside import require_blocks, stored_outside
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import loops_around, users
from autosched.schedule.kit.base import BlockRV, LoopRV
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.cache_rewrite import Redirect
from autosched.schedule.primitives.buffers.scope import Scope, in_scope
from autosched.schedule.primitives.buffers.stored import fills

# How close to a thread a memory is: it is shared by all threads of an equal or higher rank (0: blocks, 1: threads).
# What is in global memory belongs to one iteration all the same: TensorIR copies into it what that iteration touches.
_RANKS = {"shared": 1, "warp": 2}


class CopyAt(Scope):
    """Primitives that copy what a loop's body reads or writes of a buffer, by one block at the loop."""

    @primitive
    def read_at(
        self, loop: LoopRV | str, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str
    ) -> BlockRV:
        """Copies what one iteration of a loop reads of a buffer into another memory first, and reads the copy.

        Args:
            loop: where to copy, in front of the first reader.
            block: handle or name of a block below the loop that reads the buffer.
            read_buffer_index: position or name among the buffers read.
            storage_scope: memory of the copy, e.g. ``local.inp_buffer``.

        Returns:
            the copying block, annotated ``auto_copy``; the loops of the copy are inside it.

        Raises:
            ScheduleError: a block not below the loop, writes to the buffer after it was read, a region without bounds, or
                one whose place comes from memory.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.read_at(sch.get_loops("C")[0], "C", 0, "shared")``::

            A_shared = T.sblock_alloc_buffer((16, 16), "int32", scope="shared")
            for i in range(16):
                with T.sblock("A_shared"):
                    v0 = T.axis.spatial(16, i)
                    T.sblock_attr({"auto_copy": True})
                    for ax0, ax1 in T.grid(1, 16):
                        A_shared[v0 + ax0, ax1] = A[v0 + ax0, ax1]
                for j in range(16):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = A_shared[vi, vj] * 2
        """
        assert isinstance(loop, LoopRV) and isinstance(block, BlockRV)
        return self._copy_at(loop, block, read_buffer_index, storage_scope, True)

    @primitive
    def write_at(
        self, loop: LoopRV | str, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str
    ) -> BlockRV:
        """Lets one iteration of a loop write into a copy in another memory, and stores the copy after the last writer.

        Args:
            loop: where to store.
            block: handle or name of a block below the loop that writes the buffer.
            write_buffer_index: position or name among the buffers written.
            storage_scope: memory of the copy, e.g. ``local.acc_buffer``.

        Returns:
            the storing block, annotated ``auto_copy``; the loops of the copy are inside it.

        Raises:
            ScheduleError: as for ``read_at``, or writes that leave holes in what is stored, or that continue what was
                written outside of the loop.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * 2

        After ``sch.write_at(sch.get_loops("C")[0], "C", 0, "local")``::

            C_local = T.sblock_alloc_buffer((16, 16), "int32", scope="local")
            for i in range(16):
                for j in range(16):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C_local[vi, vj] = A[vi, vj] * 2
                with T.sblock("C_local"):
                    v0 = T.axis.spatial(16, i)
                    T.sblock_attr({"auto_copy": True})
                    for ax0, ax1 in T.grid(1, 16):
                        C[v0 + ax0, ax1] = C_local[v0 + ax0, ax1]
        """
        assert isinstance(loop, LoopRV) and isinstance(block, BlockRV)
        return self._copy_at(loop, block, write_buffer_index, storage_scope, False)

    def _copy_at(self, loop: LoopRV, block: BlockRV, index: int | str | Buffer, storage_scope: str, reads: bool) -> BlockRV:
        self.check_scope(storage_scope)
        state, node = self.loop_at(loop)
        other, realize = self.block_at(block)
        kind = "read" if reads else "write"
        position = self.block_region_buffer(realize.block, index, kind)
        buffer = (realize.block.reads if reads else realize.block.writes)[position].buffer
        try:
            if other is not state or not any(n is node for n in state.ancestors(realize)):
                raise Refusal(f"block {realize.block.name} is not below loop {node.var.name}", [node.var, realize.block.ident],
                              hint=loops_around(state, realize), code="place")
            body, made = _insert(state, node, buffer, storage_scope, reads)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


@dataclass(frozen=True)
class _Uses:
    """Where a loop's body uses a buffer.

    Args:
        regions: what the blocks touch in one iteration, relaxed.
        readers: positions of statements that read.
        writers: positions of statements that write.
        blocks: the blocks of the direction that is copied, in order.
    """

    regions: list[tuple[Range, ...]]
    readers: list[int]
    writers: list[int]
    blocks: list[BlockRealize]


def _insert(state: State, loop: For, buffer: Buffer, storage_scope: str, reads: bool) -> tuple[Stmt, Block]:
    scope = state.scope_of(loop)
    assert scope is not None
    require_pipeline(state, scope)
    stmts = list(in_sequence(loop.body))
    uses = _survey(state, loop, stmts, buffer, storage_scope, reads)
    if reads:
        if uses.writers and uses.writers[-1] >= uses.readers[0]:
            raise Refusal(f"{buffer.name} is written under loop {loop.var.name} after it is read there", [loop.var], code="order")
        at, first, last = uses.readers[0], uses.readers[0], len(stmts)
    else:
        if uses.readers and uses.readers[-1] > uses.writers[-1]:
            raise Refusal(f"{buffer.name} is read under loop {loop.var.name} after it is written there", [loop.var], code="order")
        at = last = uses.writers[-1] + 1
        first = 0
        _self_contained(state, scope, loop, uses, buffer)
    require_blocks(state, scope, (), (buffer,), stmts[first:last])
    analyzer = Analyzer(loop_ranges(state.loops_above(loop)))
    analyzer.bind(loop.var, Range(loop.min, loop.extent))
    domain = uses.regions[0]
    for more in uses.regions[1:]:
        domain = tuple(union_ranges(a, b, analyzer) for a, b in zip(domain, more))
    if has_loads(*[e for r in domain for e in (r.min, r.extent)]):
        raise Refusal(f"which part of {buffer.name} loop {loop.var.name} touches comes from memory", [loop.var],
                      "cache_read copies the buffer as a whole" if reads else "", code="index")
    for k, (r, size) in enumerate(zip(domain, buffer.shape)):
        if not (analyzer.can_prove(as_expr(0) <= r.min) and analyzer.can_prove(r.min + r.extent <= size)):
            raise Refusal(f"what loop {loop.var.name} touches of {buffer.name} may leave dimension {k}", [loop.var],
                          "split by factors that divide", code="domain")
    if not reads:
        _without_holes(state, scope, loop, uses, buffer, domain, analyzer, storage_scope)
    copy = replace(in_scope(buffer, storage_scope), ident=Ident())
    redirect = Redirect(buffer, copy)
    moved = [redirect.visit_stmt(s) if first <= k < last else s for k, s in enumerate(stmts)]
    if redirect.opaque:
        raise Refusal(f"the address of {buffer.name} is taken under loop {loop.var.name}", [loop.var],
                      "before tensorize", code="address")
    around = [*state.loops_above(loop), loop]
    pair = (buffer, copy) if reads else (copy, buffer)
    realize = _copy_block(pair[0], pair[1], copy.name, around, domain)
    moved.insert(at, realize)
    body = state.rewrite({id(loop): replace(loop, body=seq(*moved))}, {id(scope): (*scope.alloc_buffers, copy)})
    return body, realize.block


def _survey(
    state: State, loop: For, stmts: list[Stmt], buffer: Buffer, storage_scope: str, reads: bool
) -> _Uses:
    uses = _Uses([], [], [], [])
    above = [x for x in [*state.loops_above(loop), loop] if _shared_by(x, storage_scope)]
    for k, stmt in enumerate(stmts):
        for realize in _outermost_blocks(stmt):
            block = realize.block
            mine = [r for r in block.reads if r.buffer is buffer]
            theirs = [r for r in block.writes if r.buffer is buffer]
            if mine:
                uses.readers.append(k)
            if theirs:
                uses.writers.append(k)
            below = state.loops_below(loop, realize)
            for region in mine if reads else theirs:
                moved = Substitute(bindings(realize)).visit_region(region)
                uses.regions.append(region_bounds(moved, loop_ranges([*above, *below]), Analyzer(), realize.predicate))
                uses.blocks.append(realize)
    if not uses.regions:
        raise Refusal(f"nothing under loop {loop.var.name} {'reads' if reads else 'writes'} {buffer.name}", [loop.var],
                      hint=f"the blocks that {'read' if reads else 'write'} it: {users(state, buffer, reads) or 'none'}",
                      code="reader")
    return uses


def _outermost_blocks(stmt: Stmt) -> list[BlockRealize]:
    found: list[BlockRealize] = []
    inside: set[int] = set()
    for node in walk(stmt):
        if isinstance(node, BlockRealize) and id(node) not in inside:
            found.append(node)
            inside.update(id(n) for n in walk(node.block))
    return found


def _shared_by(loop: For, storage_scope: str) -> bool:
    """Whether all iterations of a bound loop see one copy in that memory."""
    if loop.kind != "thread_binding":
        return False
    rank = 0 if (loop.thread or "").startswith("blockIdx") else 1
    return _RANKS.get(storage_scope.split(".")[0], 3) <= rank


def _self_contained(state: State, scope: Block, loop: For, uses: _Uses, buffer: Buffer) -> None:
    """Refuses writes that continue what stands in the buffer already: the copy does not hold it."""
    inside = {id(r) for r in uses.blocks}
    outside = [w for w in state.writers(scope, buffer) if id(state.realizes[w.ident]) not in inside]
    if outside:
        raise Refusal(f"{buffer.name} is also written by {outside[0].name}, outside of loop {loop.var.name}",
                      [outside[0].ident, loop.var], code="writer")
    first = uses.blocks[0].block
    if uses.readers and (uses.readers[0] < uses.writers[0] or (
        first.init is None and any(r.buffer is buffer for r in first.reads)
    )):
        raise Refusal(f"{buffer.name} is read under loop {loop.var.name} before it is written there", [loop.var], code="order")


def _without_holes(
    state: State, scope: Block, loop: For, uses: _Uses, buffer: Buffer, domain: tuple[Range, ...], analyzer: Analyzer,
    storage_scope: str,
) -> None:
    """Refuses to store elements that no writer has written."""
    wanted = ranges_box(domain)
    around = loop_ranges([*state.loops_above(loop), loop])
    shared = [x for x in [*state.loops_above(loop), loop] if _shared_by(x, storage_scope)]
    for realize in uses.blocks:
        if not fills(realize.block, buffer):
            continue
        below = state.loops_below(loop, realize)
        for region in realize.block.writes:
            if region.buffer is not buffer:
                continue
            ranges, conds = loop_ranges([*shared, *below]), conjuncts(realize.predicate)
            # Of a buffer of the program's own, what nobody ever writes is the same with and without a value.
            own = buffer not in state.func.given and (state.trusted or not stored_outside(scope, buffer))
            box = exact_box(placed(region, realize), ranges, conds, analyzer=analyzer, before=around, missing=own)
            if box is not None and covers(box, wanted, buffer.shape, analyzer.never_negative):
                return
    raise Refusal(f"it is not known that loop {loop.var.name} writes all of the region of {buffer.name} that it would store",
                  [loop.var], code="domain")


def _copy_block(source: Buffer, target: Buffer, name: str, around: list[For], domain: tuple[Range, ...]) -> BlockRealize:
    """A block at the loop that copies a region, its loops inside."""
    fresh: dict[Var, Expr] = {}
    iters: list[IterVar] = []
    values: list[Expr] = []
    ranges = {x.var: Range(x.min, x.extent) for x in around}
    for r in domain:
        for var in (*free_vars(r.min), *free_vars(r.extent)):
            if var in ranges and var not in fresh:
                new = Var(f"v{len(iters)}", var.dtype)
                fresh[var] = new
                iters.append(IterVar(new, ranges[var]))
                values.append(var)
    sub = Substitute(fresh)
    region = tuple(Range(sub.visit_expr(r.min), sub.visit_expr(r.extent)) for r in domain)
    loops = [Var(f"ax{k}", r.extent.dtype) for k, r in enumerate(region)]
    at = tuple(r.min + v for r, v in zip(region, loops))
    body = nested([(var, Range(as_expr(0, var.dtype), r.extent)) for var, r in zip(loops, region)],
                  BufferStore(target, at, BufferLoad(source, at, source.dtype)))
    block = Block(
        name, tuple(iters), (BufferRegion(source, region),), (BufferRegion(target, region),), body,
        annotations={"auto_copy": True},
    )
    return BlockRealize(tuple(values), TRUE, block)
