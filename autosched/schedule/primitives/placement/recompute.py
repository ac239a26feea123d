"""Giving every consumer of a block its own copy of the block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from autosched.ir.expr import Var, const, int_value
from autosched.ir.functor import free_vars, replace_buffers
from autosched.ir.region import region_bounds
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, For, Ident, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.dependence import is_output, nodes_inside, not_complete_or_reduction, scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refresh import refresh
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State

LONGEST = 64  # characters of a name that says whose copy it is; no shipped trace looks up a longer one


class Recomputing(ScheduleBase):
    """Duplicating a producer."""

    @primitive
    def recompute_at_consumers(self, block: BlockRV, consumer_blocks: list[BlockRV] | None = None) -> list[BlockRV]:
        """Gives every consumer of a block a copy of its own, so that each copy can be attached or inlined by itself.

        A copy runs for what its consumer's domain lets it read, where that is plain: one loop for each iterator of the
        block, and results at iterators.

        Args:
            block: a complete or reduction block that writes one intermediate buffer.
            consumer_blocks: consumers that get one copy together, named after the first of them; the others stay with the
                block. Every consumer by itself when not given. Names of copies of copies grow: one of more than 64 characters
                has that of the last block to which its results go instead.

        Returns:
            One block per consumer (or group), in program order; the first is the block itself, the others write new buffers.

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
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = B[vi] + 2

        After ``sch.recompute_at_consumers("B")``::

            B = T.sblock_alloc_buffer((16,), "int32")
            B_D = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("B_D"):
                    vi = T.axis.spatial(16, i)
                    B_D[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1
            for i in range(16):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i)
                    D[vi] = B_D[vi] + 2

        Raises:
            ScheduleError: the block is an output, or has fewer than two consumers; a block among ``consumer_blocks`` that does
                not read it, or all that do.
        """
        state, realize = self.block_at(block)
        together = None if consumer_blocks is None else [self.block_at(b)[1].block for b in consumer_blocks]
        try:
            body, copies = _duplicate(state, realize, together)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in copies]


def _duplicate(state: State, realize: BlockRealize, together: list[Block] | None) -> tuple[Stmt, list[Ident]]:
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    reason = not_complete_or_reduction(state, block, scope)
    if reason is not None:
        raise Refusal(reason, [block.ident], hint=for_complete(state, block, "recompute_at_consumers"), code="form")
    if is_output(block, scope):
        raise Refusal(f"block {block.name} is an output block: its result is needed once, by the caller", [block.ident],
                      hint="give a block whose result others read", code="output")
    consumers = state.consumers(block)
    if len(consumers) < 2:
        raise Refusal(f"block {block.name} has {len(consumers)} consumer: there is nothing to duplicate", [block.ident],
                      f'sch.compute_at("{block.name}", a loop of {consumers[0].name}) moves it there' if consumers else "",
                      code="argument")
    groups = _groups(block, consumers, together)
    nest: Stmt = realize
    for node in nodes_inside(state, realize, scope):
        if not isinstance(node, For) or len(state.children_of(node)) > 1:
            break
        nest = node
    buffers = list(dict.fromkeys(w.buffer for w in block.writes))
    again = once if state.trusted and scope is state.root else afresh
    stmts: list[Stmt] = [again(partial(_restricted, nest, block, groups[0]), "restricted", nest, *groups[0])]
    if not state.trusted:
        require_blocks(state, scope, buffers, () if stmts[0] == nest else buffers)
    idents = [block.ident]
    allocs = list(scope.alloc_buffers)
    table: dict[int, Stmt | None] = {}
    taken = {*state.block_names(), *state.buffer_names(scope)}
    for group in groups[1:]:
        # The block and what it writes mostly have one name, and then their copies as well.
        names = {n: fresh_name(_copy_name(state, n, group[0]), taken) for n in (block.name, *(b.name for b in buffers))}
        taken.update(names.values())
        fresh, copy, ident = again(partial(_copy, nest, block, group, names), "copied for", nest, *group, *names.values())
        stmts.append(copy)
        idents.append(ident)
        for old, new in fresh.items():
            allocs.insert(allocs.index(old) + 1 if old in allocs else len(allocs), new)
        for consumer in group:
            site = state.realizes[consumer.ident]
            table[id(site)] = again(partial(replace_buffers, site, fresh), "reads", site, *fresh.values())
    table[id(nest)] = seq(*stmts)
    return state.rewrite(table, {id(scope): tuple(allocs)}, again=again), idents


def _copy(
    nest: Stmt, block: Block, consumers: list[Block], names: Mapping[str, str]
) -> tuple[dict[Buffer, Buffer], Stmt, Ident]:
    """A copy of a block's nest for some consumers: what it writes in place of what, the nest, the block in it."""
    fresh = {b: replace(b, name=names[b.name], ident=Ident()) for b in dict.fromkeys(w.buffer for w in block.writes)}
    copy = refresh(replace_buffers(_restricted(nest, block, consumers), fresh))
    return fresh, *_renamed(copy, names[block.name])


def _copy_name(state: State, name: str, consumer: Block) -> str:
    """What is copied and who reads it; of a copy for a copy, and so on, where the row of them ends."""
    made = f"{name}_{consumer.name}"
    if len(made) <= LONGEST:
        return made
    while readers := state.consumers(consumer):
        consumer = readers[-1]
    return f"{name}_{consumer.name}"


def _groups(block: Block, consumers: list[Block], together: list[Block] | None) -> list[list[Block]]:
    """The consumers that share a copy each; the first keep the block itself."""
    if together is None:
        return [[consumer] for consumer in consumers]
    named = {b.ident for b in together}
    strange = [b for b in together if all(b.ident is not c.ident for c in consumers)]
    if strange:
        raise Refusal(f"block {strange[0].name} does not read what block {block.name} writes", [block.ident, strange[0].ident],
                      code="argument")
    rest = [c for c in consumers if c.ident not in named]
    if not rest or not together:
        raise Refusal(f"consumer_blocks names {'all' if together else 'none'} of the {len(consumers)} consumers of block "
                      f"{block.name}: there is nothing to duplicate", [block.ident], code="argument")
    return [rest, [c for c in consumers if c.ident in named]]


def _restricted(nest: Stmt, block: Block, consumers: list[Block]) -> Stmt:
    """The nest of a block, run for what consumers read. Iterators count from 0 as before, and end where it does."""
    loops: list[For] = []
    inner = nest
    while isinstance(inner, For):
        loops.append(inner)
        inner = inner.body
    spans = _spans(block, consumers)
    if not spans or not isinstance(inner, BlockRealize) or inner.predicate != TRUE:
        return nest
    values, iters = list(inner.iter_values), list(inner.block.iter_vars)
    for k, iv in enumerate(iters):
        at = next((n for n, loop in enumerate(loops) if loop.var is values[k]), None)
        if iv.var not in spans or at is None or sum(loops[at].var in free_vars(v) for v in values) > 1:
            continue
        loop = loops[at]
        ends = tuple(int_value(e) for e in (loop.min, loop.extent, iv.dom.min, iv.dom.extent))
        low, high = spans[iv.var]
        if ends != (0, ends[1], 0, ends[1]) or ends[1] is None or not low < high <= ends[1] or high - low == ends[1]:
            continue
        loops[at] = replace(loop, extent=const(high - low, loop.var.dtype))
        values[k] = loop.var + const(low, loop.var.dtype) if low else loop.var
        iters[k] = IterVar(iv.var, Range(iv.dom.min, const(high, iv.var.dtype)), iv.kind)
    new: Stmt = BlockRealize(tuple(values), TRUE, replace(inner.block, iter_vars=tuple(iters)))
    for loop in reversed(loops):
        new = replace(loop, body=new)
    return new


def _spans(block: Block, consumers: list[Block]) -> dict[Var, tuple[int, int]]:
    """What consumers read of each dimension that an iterator of the block writes at, from and up to (exclusive)."""
    dom = {iv.var: iv.dom for consumer in consumers for iv in consumer.iter_vars}
    found: dict[Var, tuple[int, int]] = {}
    for write in block.writes:
        for read in (r for consumer in consumers for r in consumer.reads if r.buffer is write.buffer):
            for mine, theirs, size in zip(write.region, region_bounds(read, dom), write.buffer.shape):
                low, count, most = int_value(theirs.min), int_value(theirs.extent), int_value(size)
                if not isinstance(mine.min, Var) or int_value(mine.extent) != 1 or None in (low, count, most):
                    continue
                assert low is not None and count is not None and most is not None
                low, high = max(low, 0), min(low + count, most)
                old = found.get(mine.min, (low, high))
                found[mine.min] = min(low, old[0]), max(high, old[1])
    return found


def _renamed(nest: Stmt, name: str) -> tuple[Stmt, Ident]:
    if isinstance(nest, For):
        body, ident = _renamed(nest.body, name)
        return replace(nest, body=body), ident
    assert isinstance(nest, BlockRealize)
    return replace(nest, block=replace(nest.block, name=name)), nest.block.ident
