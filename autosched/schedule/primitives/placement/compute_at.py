"""Moving a block, with new loops of its own, under a loop of its consumers or of its producers."""

from __future__ import annotations

from itertools import takewhile
from math import prod

from autosched.ir.expr import Expr, Var, eq, int_value, logical_and
from autosched.ir.functor import uses
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Block, BlockRealize, For, SeqStmt, Stmt, seq, with_body
from autosched.schedule.analysis.attach_domain import iterator_domains
from autosched.schedule.analysis.boxes import bind_all, bindings, is_unit
from autosched.schedule.analysis.dependence import (
    in_turn,
    is_output,
    names,
    nodes_inside,
    not_complete_or_reduction,
    reduce_iters,
    scope_of,
)
from autosched.schedule.analysis.init_first import require_init_first
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.outside import require_blocks, stmts_between
from autosched.schedule.analysis.pipeline import require_pipeline, uncovered
from autosched.schedule.analysis.ways import for_complete, named
from autosched.schedule.kit.base import AT_INLINE, AT_ROOT, BlockRV, LoopRV, ScheduleBase, Special
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.placement.insertion import insertion
from autosched.schedule.primitives.placement.new_loops import kept_guards, new_loops, require_all, require_parts_once


class ComputeAt(ScheduleBase):
    """Attaching blocks to loops."""

    # Who stays behind may keep its consumers elsewhere; whether they find what they read is not asked on trust.
    @primitive(local=lambda args: "handles" if args.get("resident") else "neighbours")
    def compute_at(
        self, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1, resident: bool | None = None
    ) -> None:
        """Moves a producer under a loop of its consumers; it then computes what one iteration of that loop needs.

        Args:
            block: a complete or reduction block that writes an intermediate buffer.
            loop: a loop of the same scope that contains all consumers of the block.
            preserve_unit_loops: keep loops of extent 1 among the new ones.
            index: place among the statements below the loop: -1 as late as possible, -2 as early as possible, or a
                position.
            resident: allow consumers behind the loop's nest, which then read what all its iterations together have made (a
                part of a program loads the weights as it needs them, and the parts behind it find all of them).

        Before::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i, j in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1

        After ``sch.compute_at("B", sch.get_loops("C")[0])``::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i in range(16):
                for ax0 in range(16):
                    with T.sblock("B"):
                        vi, vj = T.axis.remap("SS", [i, ax0])
                        B[vi, vj] = A[vi, vj] * 2
                for j in range(16):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] + 1

        Raises:
            ScheduleError: a consumer is outside the loop (it is named, with the order to use), the block is an
                output, or the move would change what the program computes.
        """
        place = self._symbols.get(loop)
        if isinstance(place, Special):
            if place is AT_INLINE:
                self.compute_inline(block)  # type: ignore[attr-defined]
            assert place in (AT_INLINE, AT_ROOT)
            return
        self._move(block, loop, True, preserve_unit_loops, index, False, bool(resident))

    @primitive
    def reverse_compute_at(
        self, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1,
        last_iteration: bool | None = None,
    ) -> None:
        """Moves a consumer under a loop of its producers; it then consumes what one iteration of that loop produces.

        Args:
            block: a complete or reduction block.
            loop: a loop of the same scope that contains all producers of the block.
            preserve_unit_loops: keep loops of extent 1 among the new ones.
            index: place among the statements below the loop: -1 as late as possible, -2 as early as possible, or a
                position.
            last_iteration: under a loop of the producer's reduction, run only in its last iteration, by a predicate.

        Before::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i, j in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1

        After ``sch.reverse_compute_at("C", sch.get_loops("B")[0])``::

            B = T.sblock_alloc_buffer((16, 16), "int32")
            for i in range(16):
                for j in range(16):
                    with T.sblock("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * 2
                for ax0 in range(16):
                    with T.sblock("C"):
                        vi, vj = T.axis.remap("SS", [i, ax0])
                        C[vi, vj] = B[vi, vj] + 1

        Raises:
            ScheduleError: a producer is outside the loop; the loop belongs to the producer's reduction and
                ``last_iteration`` is not given: the block would run in every iteration, on partial results; or the loop
                is parallel (or vectorized, or a thread's) and would run the block's reduction.
        """
        self._move(block, loop, False, preserve_unit_loops, index, bool(last_iteration))

    def _move(
        self, block: BlockRV, loop: LoopRV, forward: bool, unit: bool, index: int, last: bool, resident: bool = False
    ) -> None:
        state, realize = self.block_at(block)
        other, target = self.loop_at(loop)
        if other is not state:
            self.refuse("the block and the loop are not under the same block scope: they belong to different functions",
                        hint="give a block and a loop of one function", code="handle")
        try:
            table = plan_move(state, realize, target, forward, unit, index, last, resident)
            if resident and not state.trusted:
                _found_later(state, realize.block, state.replaced(table))
        except Refusal as r:
            turned = self.way_out("", lambda: other_direction(state, realize, target)) if forward else ""
            hint = self.way_out(turned or r.hint, lambda: place_that_works(state, realize, forward))
            if not hint and any(n is target for n in state.ancestors(realize)):
                hint = "nothing is left to do"
            self.refuse(r.reason, r.marks, hint, state, code=r.code)
        self.commit_nodes(state, table)


def can_compute_at(state: State, realize: BlockRealize, target: For, forward: bool = True) -> bool:
    """Whether ``compute_at`` (or ``reverse_compute_at``) would accept."""
    try:
        plan_move(state, realize, target, forward, True, -1, False)
    except Refusal:
        return False
    return True


def other_direction(state: State, realize: BlockRealize, target: For) -> str:
    """The move to a loop around a producer, where that is the one that is legal and no consumer is there."""
    inside = {b.ident for b in state.children_of(target)}
    around_producer = any(b.ident in inside for b in state.producers(realize.block))
    if not around_producer or any(b.ident in inside for b in state.consumers(realize.block)):
        return ""
    if not can_compute_at(state, realize, target, False):
        return ""
    return f'sch.reverse_compute_at("{realize.block.name}", {named(state, target)}): it is the consumer of what is there'


def place_that_works(state: State, realize: BlockRealize, forward: bool) -> str:
    """Another loop for the block, the deepest that is legal around a consumer (or producer); or what stands in the way."""
    block, op = realize.block, "compute_at" if forward else "reverse_compute_at"
    for other in state.consumers(block) if forward else reversed(state.producers(block)):
        for loop in reversed(state.loops_of(other)[-8:]):
            if not any(x is loop for x in state.ancestors(realize)) and can_compute_at(state, realize, loop, forward):
                return f'sch.{op}("{block.name}", {named(state, loop)})'
    scope = state.scope_of(block)
    whole = scope is None or not_complete_or_reduction(state, block, scope) is None
    return "" if whole else for_complete(state, block, op)


def _found_later(before: State, block: Block, after: State) -> None:
    """Refuses unless consumers behind the nest find all that they read in what a block has left, wherever it runs now."""
    scope = scope_of(after, after.block(block.ident))
    if reduce_iters(block):
        raise Refusal(f"block {block.name} is a reduction: what it leaves is complete in its last iteration only", [block.ident],
                      code="reduction")
    for consumer in before.consumers(block):
        reason = uncovered(after, scope, consumer.ident, [block.ident])
        if reason is not None:
            raise Refusal(reason, [block.ident, consumer.ident],
                          "a loop of consumers that read, all together, what those behind them do", code="domain")


def plan_move(
    state: State, realize: BlockRealize, target: For, forward: bool, preserve_unit: bool, index: int, last: bool,
    resident: bool = False,
) -> dict[int, Stmt | None]:
    """The rewriting that moves a block under a loop.

    Args:
        state: the program.
        realize: the block.
        target: the loop.
        forward: towards consumers (``compute_at``) or towards producers.
        preserve_unit: keep unit loops.
        index: place below the loop.
        last: run only in the last iteration of the producer's reduction.
        resident: consumers may stand behind the loop; whether they find what they read is for the caller to ask.

    Returns:
        Table for ``State.rewrite``.

    Raises:
        Refusal: the move is not legal.
    """
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    reason = None if state.trusted else not_complete_or_reduction(state, block, scope)
    if reason is not None:
        raise Refusal(reason, [block.ident], code="form")
    if not state.trusted:
        # In its new loops it begins with its first value.
        require_init_first(realize, state.loops_above(realize))
    above = list(state.ancestors(target))
    if next((n for n in above if isinstance(n, Block)), None) is not scope:
        raise Refusal(
            f"block {block.name} and loop {target.var.name} are not under the same block scope",
            [block.ident, target.var], code="place",
        )
    own = nodes_inside(state, realize, scope)
    if any(n is target for n in own):
        raise Refusal(
            f"loop {target.var.name} is an ancestor of block {block.name}: the block is there already", [target.var],
            code="place",
        )
    for node in own:
        if not isinstance(node, For | SeqStmt):
            raise Refusal(f"block {block.name} stands under a condition or a binding, not only under loops", [node],
                          code="domain")
    outer = {id(n) for n in above}
    require_bound(block, [n for n in own if isinstance(n, For) and id(n) not in outer])
    if forward and is_output(block, scope):
        written = next(w.buffer for w in block.writes if w.buffer not in scope.alloc_buffers)
        raise Refusal(
            f"block {block.name} is an output block: it writes {written.name}, which is no intermediate", [block.ident],
            "reverse_compute_at moves an output under its producer", code="output",
        )
    producers, consumers = state.around(block)
    subtrees = list(target.body.stmts) if isinstance(target.body, SeqStmt) else [target.body]
    position, visited = insertion(
        state, block, target, subtrees, producers, consumers, forward, index, resident
    )
    if not state.trusted:
        reads, writes = state.touched(block)
        require_blocks(state, scope, reads, writes, stmts_between(state, realize, target))
        if forward:
            # It computes what its consumers read, of which only blocks are known.
            require_blocks(state, scope, (), writes)
        elif (both := next((n for n in state.loops_above(target) if any(n is o for o in own)), None)) is not None:
            # In a loop around both it may run for more than it did in an iteration.
            require_blocks(state, scope, (), writes, [both])

    enclosing = [*state.loops_above(target), target]
    analyzer = Analyzer()
    for buffer in state.func.buffers:
        for size in buffer.shape:
            if isinstance(size, Var):
                # Nothing runs where an extent is zero.
                analyzer.bind_bounds(size, 1, None)
    bind_all(analyzer, enclosing)
    others = [b for b in (consumers if forward else producers) if b.ident in visited]
    domains = iterator_domains(state, block, target, others, forward, analyzer)
    loops, values, predicate = new_loops(block, domains, analyzer, preserve_unit)
    common = {id(n) for n in own}
    entered = [n for n in enclosing if id(n) not in common]
    if not forward:
        predicate = _final_iteration(state, realize, target, values, predicate, enclosing, entered, others, last)
        shared = [n for n in enclosing if id(n) in common]
        require_parts_once(block, values, predicate, entered, [*entered, *loops], shared)
        left = [n for n in own if isinstance(n, For) and not any(n is e for e in enclosing)]
        require_all(realize, values, predicate, left, [*entered, *loops], shared)
    predicate = kept_guards(realize, values, predicate, state.loops_above(realize), [*enclosing, *loops])
    moved = BlockRealize(tuple(values), predicate, block)
    for loop in enclosing:
        fault = None if loop.kind in ("serial", "unrolled") else in_turn(moved, loop, loop.thread)
        if fault is not None:
            raise Refusal(fault, [loop.var, block.ident], code="loop")
    stmt: Stmt = moved
    for new in reversed(loops):
        stmt = with_body(new, stmt)
    body = seq(*subtrees[:position], stmt, *subtrees[position:])
    return {id(realize): None, id(target): with_body(target, body)}


def _final_iteration(
    state: State, realize: BlockRealize, target: For, values: list[Expr], predicate: Expr, enclosing: list[For],
    entered: list[For], others: list[Block], last: bool,
) -> Expr:
    """The predicate of a consumer under loops in which its producers are not final before the last iteration.

    Raises:
        Refusal: there are such loops, and the last iteration was not asked for or cannot be told.
    """
    block = realize.block
    partial: list[For] = []
    for loop in entered:
        if is_unit(loop.extent):
            continue
        for producer in others:
            site = state.realizes[producer.ident]
            bound = bindings(site)
            reducing = any(uses(bound[iv.var], {loop.var}) for iv in reduce_iters(producer))
            chosen = any(uses(c, {loop.var}) for c in conjuncts(site.predicate)) and not any(
                uses(v, {loop.var}) for v in site.iter_values
            )
            if reducing or chosen:
                partial.append(loop)
                break
    if not partial:
        return predicate
    listed = ", ".join(loop.var.name for loop in partial)
    if not last:
        counts = [int_value(loop.extent) for loop in partial]
        times = str(prod(c for c in counts if c is not None)) if None not in counts else "as many"
        outer = list(takewhile(lambda loop: loop is not partial[0], enclosing))
        better = (
            f'sch.reverse_compute_at("{block.name}", {named(state, outer[-1])}) attaches it outside the reduction'
            if outer and can_compute_at(state, realize, outer[-1], False) else f'leave "{block.name}" after the reduction'
        )
        writes = ", ".join(dict.fromkeys(w.buffer.name for w in block.writes))
        raise Refusal(
            f"loop {listed} belongs to the reduction of {names(others)}: under it {block.name} would store {writes} "
            f"{times} times, with partial results in all but the last iteration",
            [*(loop.var for loop in partial), block.ident],
            f"{better}; or last_iteration=True to keep it here under a predicate on the last iteration", code="reduction",
        )
    ends: list[Expr] = []
    for loop in partial:
        if any(uses(v, {loop.var}) for v in values):
            raise Refusal(
                f"loop {loop.var.name} runs over both the reduction of {names(others)} and what {block.name} covers: "
                "it has no last iteration", [loop.var], "split it so that the reduction has its own loop", code="reduction",
            )
        ends.append(eq(loop.var, Analyzer().simplify(loop.min + loop.extent - 1)))
    return logical_and(*ends, *conjuncts(predicate))
