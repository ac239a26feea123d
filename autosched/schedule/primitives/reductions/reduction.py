"""Splitting a reduction into its initialisation and its updates, and the primitive that fuses an epilogue into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import Substitute, free_vars, rewrite, uses, walk_expr
from autosched.ir.itermap import pinned, without
from autosched.ir.patterns import loaded
from autosched.ir.region import block_access, without_init
from autosched.ir.simplify import Analyzer, conjuncts, linear_form
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    BufferStore,
    For,
    Ident,
    IterVar,
    Stmt,
    seq,
)
from autosched.schedule.analysis.boxes import bind_all, loop_ranges
from autosched.schedule.analysis.dependence import not_reduction, scope_of
from autosched.schedule.analysis.disjoint import disjoint_results
from autosched.schedule.analysis.init_predicate import init_predicate
from autosched.schedule.analysis.one_to_one import affine_binding, one_to_one
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.analysis.ways import for_reduction, loops_around, named, works
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.fuse_epilogue import fuse_epilogue


class Reductions(ScheduleBase):
    """Primitives about reduction blocks."""

    @primitive(local="handles")
    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """Splits a reduction block into one that initialises and one that updates.

        Args:
            block: a reduction block.
            loop: a loop around it, no deeper than any loop that its reduction runs over; the initialisation goes
                before it.

        Returns:
            The initialising block, ``<name>_init``; the handle of the given block is the updating one,
            ``<name>_update``.

        Before::

            for i, k in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

        After ``sch.decompose_reduction("C", "k")``::

            for i in range(16):
                with T.sblock("C_init"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = 0
                for k in range(16):
                    with T.sblock("C_update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + A[vi, vk]

        Raises:
            ScheduleError: not a reduction block, a loop above ``loop`` belongs to the reduction, a loop from it on may have
                no iteration, or the initial value is read from what is made below it, or set before what is read there.
        """
        state, realize = self.block_at(block)
        other, node = self.loop_at(loop)
        try:
            if other is not state:
                raise Refusal("the loop and the block belong to different functions",
                              hint="give a block and a loop of one function", code="handle")
            table, ident = _decompose(state, realize, node)
        except Refusal as r:
            hint = self.way_out("" if other is state and "sch." in r.hint else r.hint, lambda: _loop_that_works(state, realize))
            self.refuse(r.reason, r.marks, hint or r.hint, state, code=r.code)
        self.commit_nodes(state, table)
        return self.block_rv(ident)


    @primitive
    def fuse_reduction_epilogue(self, reduction_block: BlockRV, epilogue_block: BlockRV) -> None:
        """Starts a reduction from what its only consumer would do at the end, and removes that consumer.

        Args:
            reduction_block: a reduction ``C = init; C = C op x``.
            epilogue_block: a complete block that reads one element of ``C`` once, the only reader of ``C``, over the same
                elements.

        The epilogue acts at the start and in every step of the reduction, so only what gives the same at the end is taken:
        a copy; an addend of a sum; a clip (min and max with what the reduction does not change) of a min or max
        reduction; a clip of an integer sum whose partial sums reach a bound from one side only and stay there, or reach
        none, by the declared value ranges (``PrimFunc.value_ranges``; a type's range where nothing is declared). The
        integer result is the same; a floating sum is rounded in another order. The buffer between stays allocated.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = 0
                    B[vi] = B[vi] + A[vi, vk]
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + bias[vi]

        After ``sch.fuse_reduction_epilogue("B", "C")``::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i, k in T.grid(16, 16):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = bias[vi]
                    C[vi] = C[vi] + A[vi, vk]

        Raises:
            ScheduleError: another reader, another form (an epilogue such as ``max`` would act on partial sums), or an
                addend that is computed only after the reduction.
        """
        state, reduction = self.block_at(reduction_block)
        other, epilogue = self.block_at(epilogue_block)
        try:
            if other is not state:
                raise Refusal("the blocks belong to different functions", code="handle")
            table = fuse_epilogue(state, reduction, epilogue)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)


def _starts_everywhere(realize: BlockRealize, loops: list[For]) -> bool:
    """Whether the bindings are affine but for a predicate that lets every reduction's first iteration run.

    Then the init runs once for each element before its updates, whatever the predicate says of the other iterations.
    """
    if realize.predicate == TRUE or not affine_binding(replace(realize, predicate=TRUE), loops):
        return False
    first: dict[Var, Expr] = {}
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        if iv.kind == "reduce":
            first.update({n.var: n.min for n in loops if uses(value, {n.var})})
    analyzer = bind_all(Analyzer(), loops)
    starts = [(v, iv.dom.min) for iv, v in zip(realize.block.iter_vars, realize.iter_values) if iv.kind == "reduce"]
    return all(analyzer.can_prove_equal(without(first, [v])[0], low) for v, low in starts) and all(
        analyzer.can_prove(c) for c in without(first, conjuncts(realize.predicate))
    )


def _moved_only(realize: BlockRealize, around: list[For], inside: list[For]) -> bool:
    """Whether the bindings are affine in the loops inside, which those around only move, wherever to.

    Init and updates of one iteration of the loops around then go over the same elements; what others leave between, or do again,
    is nothing to them.
    """
    if not around or realize.predicate != TRUE:
        return False
    least = {n.var: n.min for n in around}
    values = without(least, realize.iter_values)
    analyzer = bind_all(Analyzer(), [*around, *inside])
    inner = {n.var for n in inside}
    if any(uses(analyzer.simplify(v - low), inner) for v, low in zip(realize.iter_values, values)):
        return False
    return affine_binding(replace(realize, iter_values=tuple(values)), inside)


def _idempotent(state: State, realize: BlockRealize, target: For) -> bool:
    """Whether repeating a reduction on top of its result changes nothing: min or max of what stands still below a loop."""
    block = realize.block
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, BinOp) or store.value.op not in ("min", "max"):
        return False
    own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    if own not in (store.value.a, store.value.b):
        return False
    other = store.value.b if store.value.a == own else store.value.a
    read = {e.buffer for e in walk_expr(other) if isinstance(e, BufferLoad)}
    if store.buffer in read or any(w.buffer in read for b in state.children_of(target) for w in b.writes):
        return False
    # Every repetition must go through the same terms.
    counted: dict[str, set[Var]] = {"spatial": set(), "reduce": set()}
    for iv, value in zip(block.iter_vars, realize.iter_values):
        counted[iv.kind].update(free_vars(value))
    if counted["spatial"] & counted["reduce"]:
        return False
    return not any(
        uses(c, counted["reduce"]) and set(free_vars(c)) - counted["reduce"] for c in conjuncts(realize.predicate)
    )


def _loop_that_works(state: State, realize: BlockRealize) -> str:
    """The outermost loop that ``decompose_reduction`` takes below those of the output; else any."""
    loops = state.loops_of(realize.block)
    moved = {v for iv, e in zip(realize.block.iter_vars, realize.iter_values) if iv.kind == "reduce" for v in free_vars(e)}
    for loop in sorted(loops, key=lambda x: x.var not in moved):
        if works(partial(_decompose, state, realize, loop)):
            return f'sch.decompose_reduction("{realize.block.name}", {named(state, loop)})'
    return ""


def _starts_below(state: State, realize: BlockRealize, loops: list[For], position: int) -> None:
    """Refuses a block whose init may not run before its loops from a position on, for all of their iterations at once."""
    block, target = realize.block, loops[position]
    scope = scope_of(state, block)
    bound = _starts_everywhere(realize, loops) or _moved_only(realize, loops[:position], loops[position:])
    reason = not_reduction(state, block, scope, bound)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a reduction block: {reason}", [block.ident],
                      hint=for_reduction(state, block, "decompose_reduction"), code="reduction")
    never = next((n for n in loops[position:] if _may_never_run(n, loops)), None)
    if never is not None:
        when = "never runs" if int_value(never.extent) == 0 else "does not always run"
        raise Refusal(f"loop {never.var.name} {when}, and neither does the init of {block.name}", [never.var, block.ident],
                      code="domain")
    known = {n.var for n in loops}
    for iv, value in zip(block.iter_vars, realize.iter_values):
        if iv.kind != "reduce":
            continue
        if any(v not in known for v in free_vars(value)):
            raise Refusal(
                f"the reduction of {block.name} goes on outside block {scope.name}: the initialisation would run again each "
                "time that block does", [block.ident, scope.ident], f"decompose_reduction before making {scope.name}",
                code="reduction",
            )
        for higher in loops[:position]:
            if uses(value, {higher.var}):
                raise Refusal(
                    f"loop {higher.var.name}, above {target.var.name}, belongs to the reduction of {block.name}: the "
                    "initialisation would run again in each of its iterations", [higher.var, block.ident],
                    f'sch.decompose_reduction("{block.name}", {higher.var.name})', code="reduction",
                )
    if not _idempotent(state, realize, target):
        fixed = pinned(loop_ranges(loops), realize.predicate)
        for inner in loops[position:]:
            if inner.var not in fixed and not any(uses(v, {inner.var}) for v in realize.iter_values):
                raise Refusal(
                    f"loop {inner.var.name} repeats the whole of {block.name}, so the initialisation must stay inside it",
                    [inner.var, block.ident], code="reduction",
                )
        free = [n for n in loops[position:] if n.var not in fixed]
        around = [n for n in loops[:position] if n.var not in fixed]
        condition = without(fixed, [realize.predicate])[0]
        if not one_to_one(without(fixed, realize.iter_values), free, condition, around):
            raise Refusal(
                f"under loop {target.var.name} the parts that {block.name} reduces overlap, so the initialisation must stay "
                "with them", [target.var, block.ident], "decompose at a deeper loop", code="reduction",
            )

    _starts_from_what_stands(state, block, target)


def _may_never_run(loop: For, loops: Sequence[For]) -> bool:
    """Whether a loop is known to have no iteration, at least in some iteration of those around it."""
    ranges = {n.var: (int_value(n.min), int_value(n.extent)) for n in loops}
    form = linear_form(loop.extent, list(ranges))
    least = None if form is None else int_value(form[1])
    for var, coeff in form[0].items() if form is not None else ():
        begin, count = ranges[var]
        if least is None or not isinstance(coeff, int) or begin is None or not count:
            return False
        least += min(coeff * begin, coeff * (begin + count - 1))
    return least is not None and least <= 0


def _starts_from_what_stands(state: State, block: Block, target: For) -> None:
    """Refuses an init whose run in front of a loop others below that loop would notice, or that they would change."""
    assert block.init is not None
    read = loaded(block.init)
    start = replace(block, body=block.init, init=None)
    start = replace(start, writes=block_access(start)[0])  # what it reads, to be compared with what others write
    mine = {w.buffer for w in block.writes}
    require_blocks(state, scope_of(state, block), read, mine, [target])
    first = True  # what follows the reduction reads what it has made
    for other in state.children_of(target):
        if other is block:
            first = False
            continue
        touched = state.touched(other)
        made = next((w for w in touched[1] if w in read), None)
        own = any(w.buffer is made for w in other.writes)
        # Parts of one stage write other elements.
        if made is not None and not (own and disjoint_results(start, other)):
            raise Refusal(
                f"the initialisation of {block.name} reads {made.name}, which block {other.name} writes under loop "
                f"{target.var.name}", [target.var, block.ident, other.ident], code="order",
            )
        seen = next((b for side in touched for b in side if b in mine), None) if first else None
        reads = replace(other, writes=(*other.writes, *other.reads))
        if seen is not None and not (any(r.buffer is seen for r in reads.writes) and disjoint_results(block, reads)):
            raise Refusal(
                f"block {other.name}, before {block.name} under loop {target.var.name}, uses {seen.name} as it is before the "
                "initialisation", [target.var, block.ident, other.ident], code="order",
            )


def _decompose(state: State, realize: BlockRealize, target: For) -> tuple[dict[int, Stmt | None], Ident]:
    block = realize.block
    scope_of(state, block)  # refuses the root, and an init
    loops = state.loops_above(realize)
    if not any(n is target for n in loops):
        raise Refusal(f"loop {target.var.name} is not around block {block.name}", [target.var, block.ident],
                      hint=loops_around(state, realize), code="place")
    position = next(k for k, n in enumerate(loops) if n is target)
    if not state.trusted or block.init is None:
        _starts_below(state, realize, loops, position)
    init = block.init
    assert init is not None
    values = [v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.kind == "spatial"]
    inside = loops[position:]
    kept = [n for n in inside if any(uses(v, {n.var}) for v in values)]
    dropped = [n for n in inside if not any(n is k for k in kept)]
    iters = [iv for iv in block.iter_vars if iv.kind == "spatial"]
    predicate = init_predicate(block, realize.predicate, list(zip(iters, values)), loops[:position], kept, dropped)
    renamed = {n.var: Var(f"{n.var.name}_init", n.var.dtype) for n in kept}
    outer = Substitute(renamed)
    start, update = (once if state.trusted else afresh)(partial(_halves, block, init), "decomposed", block)
    nest: Stmt = BlockRealize(outer.visit_exprs(tuple(values)), outer.visit_expr(predicate), start)
    for loop in reversed(kept):
        low, extent = outer.visit_expr(loop.min), outer.visit_expr(loop.extent)
        nest = For(renamed[loop.var], low, extent, loop.kind, nest, loop.thread, loop.annotations)
    # The table may hold nodes of the old program only, and the block lies below the loop: rebuild the loop first.
    changed = rewrite(target, realize, BlockRealize(realize.iter_values, realize.predicate, update))
    return {id(target): seq(nest, changed)}, start.ident


def _halves(block: Block, init: Stmt) -> tuple[Block, Block]:
    """A reduction's init as a block, and the block without it."""
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars if iv.kind == "spatial"}
    sub = Substitute(fresh)
    start = Block(
        f"{block.name}_init",
        tuple(IterVar(fresh[iv.var], iv.dom, iv.kind) for iv in block.iter_vars if iv.kind == "spatial"),
        (), tuple(sub.visit_region(w) for w in block.writes), sub.visit_stmt(init), annotations=block.annotations,
    )
    mine = {r.buffer for r in block.reads}
    own = [w for w in block.writes if w.buffer not in mine]
    update = without_init(replace(block, name=f"{block.name}_update"), (*own, *block.reads))
    return replace(start, reads=block_access(start)[0]), update
