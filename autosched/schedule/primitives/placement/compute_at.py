"""Moving a block, with new loops of its own, under a loop of its consumers or of its producers."""

from __future__ import annotations

from itertools import takewhile
from math import prod

from autosched.ir.cover import covers
from autosched.ir.expr import BinOp, BufferLoad, Expr, IntImm, Var, bits, eq, int_value, logical_and, minimum
from autosched.ir.functor import Substitute, free_vars, uses
from autosched.ir.simplify import Analyzer, conjuncts, linear_form
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    Ident,
    Range,
    SeqStmt,
    Stmt,
    point,
    seq,
    with_body,
)
from autosched.ir.swept import bounding_box, exact_box
from autosched.schedule.analysis.attach_domain import Domain, iterator_domains
from autosched.schedule.analysis.boxes import bind_all, bindings, is_unit, loop_ranges, runs_everywhere
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
from autosched.schedule.analysis.one_to_one import one_to_one
from autosched.schedule.analysis.outside import require_blocks, stmts_between
from autosched.schedule.analysis.pipeline import require_pipeline, uncovered
from autosched.schedule.analysis.ways import for_complete, named
from autosched.schedule.kit.base import AT_INLINE, AT_ROOT, BlockRV, LoopRV, ScheduleBase, Special
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


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
    position, visited = _insertion(
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
    loops, values, predicate = _new_loops(block, domains, analyzer, preserve_unit)
    common = {id(n) for n in own}
    entered = [n for n in enclosing if id(n) not in common]
    if not forward:
        predicate = _final_iteration(state, realize, target, values, predicate, enclosing, entered, others, last)
        shared = [n for n in enclosing if id(n) in common]
        _run_once(block, values, predicate, entered, [*entered, *loops], shared)
        left = [n for n in own if isinstance(n, For) and not any(n is e for e in enclosing)]
        _run_all(realize, values, predicate, left, [*entered, *loops], shared)
    predicate = _kept_guards(realize, values, predicate, state.loops_above(realize), [*enclosing, *loops])
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


# -- where below the loop --------------------------------------------------------------------------------------------


def _insertion(
    state: State, block: Block, target: For, subtrees: list[Stmt], producers: list[Block], consumers: list[Block],
    forward: bool, index: int, resident: bool,
) -> tuple[int, set[Ident]]:
    """The position for the new nest, and the blocks below the loop."""
    first_consumer, last_producer = len(subtrees), -1
    visited: set[Ident] = set()
    before = {b.ident for b in producers}
    after = {b.ident for b in consumers}
    for k, subtree in enumerate(subtrees):
        inside = [subtree.block] if isinstance(subtree, BlockRealize) else state.children_of(subtree)
        idents = {b.ident for b in inside}
        visited |= idents
        if idents & before:
            last_producer = k
        if idents & after:
            first_consumer = min(first_consumer, k)
    if forward:
        missing = [b for b in consumers if b.ident not in visited]
        if missing and not (resident and len(missing) < len(consumers)):
            raise _missing_consumers(state, block, target, consumers, missing, visited)
    else:
        missing = [b for b in producers if b.ident not in visited]
        if missing and not _only_initial(state, block, missing, producers, visited):
            raise _missing_producers(block, target, producers, missing)
    if not state.trusted:
        _in_order(state, block, target, producers, consumers, visited)
    if last_producer >= first_consumer:
        raise Refusal(
            f"no place under loop {target.var.name} is after the producers of {block.name} (statement {last_producer}) "
            f"and before its consumers (statement {first_consumer})", [target.var], code="order",
        )
    if index == -1:
        return first_consumer, visited
    if index == -2:
        return last_producer + 1, visited
    if not last_producer + 1 <= index <= first_consumer:
        raise Refusal(
            f"index {index} under loop {target.var.name} is not possible for {block.name}: give -1, -2 or "
            f"{last_producer + 1} to {first_consumer}", [target.var], code="argument",
        )
    return index, visited


def _in_order(
    state: State, block: Block, target: For, producers: list[Block], consumers: list[Block], visited: set[Ident]
) -> None:
    """Refuses a place before a producer, or after a consumer, that is not below the loop."""
    order = {b.ident: k for k, b in enumerate(state.children_of(scope_of(state, block)))}
    if not visited <= order.keys():  # in the init of the block around both, which runs for some of its instances only
        raise Refusal(f"loop {target.var.name} belongs to the initialisation of the block around {block.name}", [target.var],
                      "a loop of the block's own body", code="reduction")
    places = [order[i] for i in visited]
    late = [b for b in producers if b.ident not in visited and order[b.ident] > min(places)]
    early = [b for b in consumers if b.ident not in visited and order[b.ident] < max(places)]
    if late or early:
        word = "before its producer" if late else "after its consumer"
        others = late or early
        raise Refusal(
            f"under loop {target.var.name}, block {block.name} would run {word}{'s' if len(others) > 1 else ''} {names(others)}",
            [target.var, *(b.ident for b in others)], code="order",
        )


def _only_initial(
    state: State, block: Block, missing: list[Block], producers: list[Block], visited: set[Ident]
) -> bool:
    """Whether the producers left outside only prepare what those below the loop update, all of it, in place."""
    wanted = {r.buffer for r in block.reads}
    inside = [b for b in producers if b.ident in visited]
    order = [b.ident for b in producers]
    for outside in missing:
        for buffer in {w.buffer for w in outside.writes} & wanted:
            if not any(
                any(w.buffer is buffer for w in b.writes) and any(r.buffer is buffer for r in b.reads) for b in inside
            ):
                return False
        if any(order.index(outside.ident) > order.index(b.ident) for b in inside):
            return False
    scope = scope_of(state, block)
    return bool(inside) and uncovered(state, scope, block.ident, [b.ident for b in inside]) is None


def _missing_consumers(
    state: State, block: Block, target: For, consumers: list[Block], missing: list[Block], visited: set[Ident]
) -> Refusal:
    loop = target.var.name
    closed: set[Ident] = set()
    order: list[Block] = []
    scope = scope_of(state, block)

    def movable(b: Block) -> bool:
        """Whether ``b`` can move under the loop once its own consumers have."""
        if b.ident in visited or b.ident in closed:
            return True
        below = state.consumers(b)
        if not below or is_output(b, scope) or not all(movable(c) for c in below):
            return False
        closed.add(b.ident)
        order.append(b)
        return True

    if all(list(map(movable, missing))):
        calls = "; ".join(f'sch.compute_at("{b.name}", {loop})' for b in order)
        hint = f'{calls}; then sch.compute_at("{block.name}", {loop})'
    else:
        hint = f'sch.recompute_at_consumers("{block.name}") gives each consumer its own copy, to be attached by itself'
    return Refusal(
        f"compute_at requires all the consumers of {block.name} to be under loop {loop}; {names(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} outside it (consumers: {names(consumers)})",
        [target.var, *(b.ident for b in missing)], hint, code="order",
    )


def _missing_producers(block: Block, target: For, producers: list[Block], missing: list[Block]) -> Refusal:
    loop = target.var.name
    hint = f"move {names(missing)} under {loop} first, or choose a loop that contains {names(producers)}"
    if all(isinstance(b.body, BufferStore) and isinstance(b.body.value, BufferLoad) for b in missing):
        hint = f"attach {block.name} first, make the cache {names(missing)} afterwards, and compute_at it under {loop}"
    return Refusal(
        f"reverse_compute_at requires all the producers of {block.name} to be under loop {loop}; {names(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} outside it (producers: {names(producers)})",
        [target.var, *(b.ident for b in missing)], hint, code="order",
    )


# -- the new loops ---------------------------------------------------------------------------------------------------


def _new_loops(
    block: Block, domains: list[Domain], analyzer: Analyzer, preserve_unit: bool
) -> tuple[list[For], list[Expr], Expr]:
    """Loops (with a placeholder body), values of the iterators, and the predicate."""
    loops: list[For] = []
    values: list[Expr] = []
    conditions: list[Expr] = []
    hole = BlockRealize((), TRUE, block)
    asked = any(domain.count is None or domain.bound is not None for domain in domains)
    for domain in domains:
        assert domain.dom is not None
        lo, hi = domain.dom
        assert lo is not None
        if domain.count is not None:
            extent: Expr = IntImm(domain.count)
        else:
            assert hi is not None
            extent = analyzer.simplify(hi - lo + 1)
            longest = None if isinstance(extent, IntImm) else analyzer.largest(hi - lo + 1)
            if longest is not None:
                # An extent that varies from place to place becomes the largest one, under a condition.
                last = hi if domain.bound is None or domain.bound[1] is None else minimum(hi, domain.bound[1])
                domain.bound = (None if domain.bound is None else domain.bound[0], analyzer.simplify(last))
                extent = IntImm(longest, extent.dtype)
        if preserve_unit or not is_unit(extent):
            dtype = lo.dtype if lo.dtype == extent.dtype or bits(lo.dtype) >= bits(extent.dtype) else extent.dtype
            var = Var(f"ax{len(loops)}", dtype)
            zero = IntImm(0, dtype)
            if asked:
                analyzer.bind(var, Range(zero, extent))
            loops.append(For(var, zero, extent, "serial", hole))
            value = lo + var
        else:
            value = lo
        values.append(value)
        if domain.bound is not None:
            low, high = domain.bound
            sides = [*([] if low is None else [value >= low]), *([] if high is None else [value < high + 1])]
            conditions += [side for side in sides if domain.count is not None or not analyzer.can_prove(side)]
    predicate = analyzer.simplify_alike(logical_and(*conditions)) if conditions else TRUE
    return loops, values, predicate


def _kept_guards(
    realize: BlockRealize, values: list[Expr], predicate: Expr, old: list[For], new: list[For]
) -> Expr:
    """The predicate at the new place, with what the old one demands beyond the domains of the iterators.

    Raises:
        Refusal: such a condition cannot be told in terms of the iterators.
    """
    block = realize.block
    if realize.predicate == TRUE:
        return predicate
    if runs_everywhere(realize, old):
        return predicate
    within = bind_all(Analyzer(), old)
    for iv, value in zip(block.iter_vars, realize.iter_values):
        within.assume(logical_and(value >= iv.dom.min, value < iv.dom.min + iv.dom.extent))
    there = bind_all(Analyzer(), new)
    there.assume(predicate)
    own = {loop.var for loop in old}
    exact = {v: k for k, v in enumerate(realize.iter_values) if isinstance(v, Var)}
    kept: list[Expr] = []
    for cond in conjuncts(realize.predicate):
        if within.can_prove(cond):
            continue
        moved = Substitute({v: values[k] for v, k in exact.items()}).visit_expr(cond)
        if any(v in own and v not in exact for v in free_vars(cond)):
            moved = _rewritten(cond, realize, values, old)
        if not there.can_prove(moved):
            kept.append(there.simplify(moved))
    return logical_and(*conjuncts(predicate), *kept) if kept else predicate


def _rewritten(cond: Expr, realize: BlockRealize, values: list[Expr], loops: list[For]) -> Expr:
    """A comparison of what one iterator is bound to with something, for the iterator's new value."""
    if isinstance(cond, BinOp) and cond.op in ("<", "<=", ">", ">=", "==", "!="):
        names = [loop.var for loop in loops]
        difference = linear_form(cond.a - cond.b, names)
        for value, new in zip(realize.iter_values, values):
            form = linear_form(value, names)
            if difference is None or form is None or not form[0] or set(form[0]) != set(difference[0]):
                continue
            for sign in (1, -1):
                if all(int_value(form[0][v]) == sign * (int_value(c) or 0) for v, c in difference[0].items()):
                    rest = difference[1] - sign * form[1]
                    return BinOp(cond.op, new * sign + rest, IntImm(0, new.dtype), "bool")
    raise Refusal(
        f"block {realize.block.name} runs under a condition that cannot be told in terms of its iterators",
        [realize.block.ident], "split by factors that divide, or move the block before", code="domain",
    )


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


def _run_all(
    realize: BlockRealize, values: list[Expr], predicate: Expr, left: list[For], entered: list[For], common: list[For]
) -> None:
    """Refuses to lose iterations of the block: those whose operands no producer writes, as in a padded border."""
    block = realize.block
    shape = tuple(iv.dom.extent for iv in block.iter_vars)
    starts = [iv.dom.min for iv in block.iter_vars]
    if not shape:
        return
    domain = Buffer("domain", shape)
    analyzer = bind_all(Analyzer(), common)
    analyzer.assume(realize.predicate)
    have = exact_box(point(domain, tuple([v - s for v, s in zip(values, starts)])), loop_ranges(entered), conjuncts(predicate),
                     analyzer=analyzer)
    need = bounding_box(point(domain, tuple([v - s for v, s in zip(realize.iter_values, starts)])), loop_ranges(left))
    if have is None or not covers(have, need, shape, analyzer.never_negative):
        raise Refusal(
            f"block {block.name} would not run for all of its iterations there: its producers do not write all that it "
            "runs over", [block.ident], "attach the producers to this block instead (compute_at)", code="domain",
        )


def _run_once(
    block: Block, values: list[Expr], predicate: Expr, entered: list[For], loops: list[For], common: list[For]
) -> None:
    """Refuses to accumulate the same element of a reduction more than once.

    Outermost loops that drive nothing repeat the whole reduction, which starts again from its init each time.
    """
    idle = [*takewhile(lambda loop: not any(uses(e, {loop.var}) for e in (*values, predicate)), entered)]
    loops, entered, common = loops[len(idle):], entered[len(idle):], [*common, *idle]
    reduced = [(iv, v) for iv, v in zip(block.iter_vars, values) if iv.kind == "reduce"]
    moving = dict.fromkeys([loop.var for loop in entered if not is_unit(loop.extent)])  # in order: a refusal tells them
    if not any(uses(v, moving) for _, v in reduced):
        return
    for iv, value in reduced:
        form = linear_form(value, [n.var for n in loops])
        if form is not None and any((int_value(c) or 0) < 0 for c in form[0].values()):
            raise Refusal(
                f"the loops there run {iv.var.name}, an iterator of the reduction {block.name}, backwards: its init would "
                "come last", [block.ident], f"decompose_reduction {block.name} first", code="reduction",
            )
    require_init_first(BlockRealize(tuple(values), predicate, block), [*common, *loops])
    if not one_to_one(values, loops, predicate, common):
        raise Refusal(
            f"the parts that {block.name} would reduce in the iterations of {', '.join(v.name for v in moving)} "
            "overlap or repeat, so elements would be accumulated more than once", [block.ident],
            "attach it outside these loops", code="reduction",
        )
