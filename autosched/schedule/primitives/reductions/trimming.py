"""Leaving out the ends of a reduction that add nothing: trim_reduction. A kernel beyond a small image reads padding only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autosched.ir.expr import IntImm, Var, as_int, int_value, is_int
from autosched.ir.patterns import update_of
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Range, Stmt
from autosched.ir.value_bounds import dtype_bounds
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.nests import runs_whole
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.parts import shorter
from autosched.schedule.primitives.reductions.plain import plain_stores, top_of
from autosched.schedule.primitives.reductions.zero_terms import is_zero, settled

Kept = dict[Var, Range]


class Trimming(ScheduleBase):
    """The primitive that shortens reductions."""

    @primitive(local="writers")
    def trim_reduction(self, block: BlockRV | str, iterators: Sequence[int] | None = None) -> None:
        """Cuts off the first and the last iterations of reduction iterators that change no result, whatever the others are.

        These are terms of a sum that are zero, or of a maximum or minimum that are a constant which it starts beyond, because all
        that they read is padding: in the block itself, or in the stage that writes the buffer that the block reads (also through
        copies of it). What stays begins at 0, and operands are read that much further in. A reduction of which nothing stays
        is what it starts with.

        Args:
            block: handle or name of a block that updates a sum of integers, a maximum or a minimum, alone in its loops, which
                are one for each iterator.
            iterators: positions of those to shorten, among the block's; default: all reduction iterators.

        Raises:
            ScheduleError: a block of another form, no such iterators, or no iterations at an end of one that change nothing.

        Before::

            for i, k in T.grid(1, 3):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.if_then_else(1 <= vi + vk and vi + vk < 2, A[vi + vk - 1], 0) * W[vk]

        After ``sch.trim_reduction("C")``::

            for i, k in T.grid(1, 1):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + T.if_then_else(1 <= vi + (vk + 1) and vi + (vk + 1) < 2, A[vi + vk], 0) * W[vk + 1]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            kept = kept_of(state, realize, None if iterators is None else [int(i) for i in iterators])
            top = top_of(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(top): _shortened(state, realize, kept)})


def kept_of(state: State, realize: BlockRealize, iterators: Sequence[int] | None = None) -> Kept:
    """The ranges of a block's reduction iterators that may change a result; some of none where nothing does.

    Args:
        state: the program.
        realize: the block.
        iterators: as for ``trim_reduction``.

    Raises:
        Refusal: a block that is no such reduction, or of which nothing can be cut off.
    """
    block = realize.block
    nothing = _neutral(state, block)
    reduced = [n for n, iv in enumerate(block.iter_vars) if iv.kind == "reduce"]
    wanted = reduced if iterators is None else iterators
    if not wanted or not set(wanted) <= set(reduced):
        other = "no reduction iterator" if iterators is None else f"none at one of {list(iterators)}: they are at {reduced}"
        raise Refusal(f"block {block.name} has {other}", [block.ident], code="reduction")
    loops = state.loops_above(realize)
    if len(loops) != len(block.iter_vars) or not runs_whole(realize, loops):  # a loop of no iterator runs all of it again
        raise Refusal(f"block {block.name} has other loops than one for each iterator, from 0, or runs under a condition",
                      [block.ident], "renest, or single_store", code="domain")
    never = next((iv for iv in block.iter_vars if int_value(iv.dom.extent) == 0), None)
    if never is not None:
        raise Refusal(f"iterator {never.var.name} of block {block.name} takes no value: nothing is set", [block.ident],
                      code="domain")
    dom: Kept = {iv.var: iv.dom for iv in block.iter_vars}
    while True:
        before = dict(dom)
        for var in [block.iter_vars[n].var for n in wanted]:
            for last in (False, True):
                dom[var] = without(var, dom, last, nothing)
                if not int_value(dom[var].extent):
                    return _of(block, dom, before, block.init is None)
        if dom == before:
            return _of(block, dom, {iv.var: iv.dom for iv in block.iter_vars}, False)


def _of(block: Block, dom: Kept, before: Kept, vanishes: bool) -> Kept:
    if vanishes:
        raise Refusal(f"no iteration of block {block.name} changes what it updates, and it sets nothing itself", [block.ident],
                      "compose_reduction first", code="reduction")
    if dom == before:
        raise Refusal(f"no iterations of block {block.name}, at an end of a reduction iterator, are known to change nothing",
                      [block.ident], code="form")
    return {iv.var: dom[iv.var] for iv in block.iter_vars if iv.kind == "reduce"}


def _neutral(state: State, block: Block) -> Callable[[Kept], bool]:
    """Whether the terms of a block, for iterators in some ranges, change no result."""
    store, start = plain_stores(block)
    found = update_of(store)
    if found is None or not is_int(store.buffer.dtype):
        raise Refusal(f"block {block.name} updates no sum of integers, maximum or minimum", [block.ident], code="form")
    op, term = found
    scope = scope_of(state, block)
    low, high = dtype_bounds(store.buffer.dtype)
    begin = None if start is None else int_value(start.value)
    least = (low if op == "max" else high) if begin is None else begin

    def nothing(dom: Kept) -> bool:
        value = settled(state, scope, block, term, dom)
        known = int_value(value)
        return is_zero(value) if op == "+" else known is not None and (known <= least if op == "max" else known >= least)

    return nothing


def without(var: Var, dom: Kept, last: bool, nothing: Callable[[Kept], bool]) -> Range:
    """The range of an iterator without the iterations at its beginning, or at its end, that change nothing.

    Args:
        var: the iterator.
        dom: ranges of all, its own among them.
        last: whether the end is meant.
        nothing: whether iterations in some ranges change nothing; what holds in a range holds in each part of it.
    """
    first, extent = int_value(dom[var].min), int_value(dom[var].extent)
    assert first is not None and extent is not None

    def part(begin: int, count: int) -> Range:
        return Range(IntImm(begin, var.dtype), IntImm(count, var.dtype))

    def cut(count: int) -> bool:
        return nothing({**dom, var: part(first + extent - count if last else first, count)})

    # What is known of many iterations is known of fewer: of most reductions the first one already changes something.
    known, fails = 0, extent + 1
    while fails - known > 1:
        probe = min(2 * known or 1, (known + fails) // 2)
        known, fails = (probe, fails) if cut(probe) else (known, probe)
    return dom[var] if not known else part(first if last else first + known, extent - known)


def _shortened(state: State, realize: BlockRealize, kept: Kept) -> Stmt:
    """A block in its loops, with its reduction iterators in other ranges; without them where nothing of it stays."""
    block = realize.block
    ranges = dict(zip(realize.iter_values, [kept.get(iv.var, iv.dom) for iv in block.iter_vars]))
    if all(int_value(r.extent) for r in kept.values()):
        stmt: Stmt = replace(realize, block=_moved(block, kept))
    else:
        values = [v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.kind != "reduce"]
        stmt, ranges = BlockRealize(tuple(values), TRUE, _started(block)), {v: ranges[v] for v in values}
    for loop in reversed(state.loops_above(realize)):
        if loop.var in ranges:
            stmt = replace(loop, extent=ranges[loop.var].extent, body=stmt)
    return stmt


def _started(block: Block) -> Block:
    """A block that only sets what a reduction starts with."""
    assert block.init is not None
    iters = tuple([iv for iv in block.iter_vars if iv.kind != "reduce"])
    return with_access(replace(block, iter_vars=iters, body=block.init, init=None))


def _moved(block: Block, kept: Kept) -> Block:
    """A block whose reduction iterators run over their ranges, from 0."""
    new = block
    for n, iv in enumerate(block.iter_vars):
        r = kept.get(iv.var, iv.dom)
        if r != iv.dom:
            begin, extent = as_int(r.min), as_int(r.extent)
            new = shorter(new, new.iter_vars[n], begin, begin + extent)
    return with_access(replace(new, reads=block.reads, ident=block.ident))
