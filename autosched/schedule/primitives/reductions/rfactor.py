"""Splitting a reduction over one of its loops into partial results and their combination: rfactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, binary, int_value, logical_and
from autosched.ir.functor import Substitute, free_vars, substitute, uses
from autosched.ir.itermap import pinned
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
    LetStmt,
    Range,
    SeqStmt,
    Stmt,
    point,
    seq,
)
from autosched.schedule.analysis.boxes import loop_ranges
from autosched.schedule.analysis.dependence import not_reduction, scope_of
from autosched.schedule.analysis.init_first import require_init_first
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.reducers import Reduction, recognise
from autosched.schedule.analysis.ways import for_reduction, named, works
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


class Factoring(ScheduleBase):
    """The primitive that makes partial reductions."""

    @primitive
    def rfactor(self, loop: LoopRV | str, factor_axis: int) -> BlockRV:
        """Reduces into one partial result per iteration of a loop first, and combines the partial results afterwards.

        Args:
            loop: a serial loop of a reduction (sum, product, min, max, argmax, argmin), around its block alone.
            factor_axis: position of the loop's dimension in the buffer of partial results; negative counts from the end.

        Returns:
            the block of the partial results, ``<name>_rf``; the old handle is the block that combines them.

        Raises:
            ScheduleError: a block that is no reduction of that kind, a loop that also moves its output, that shares its
                body, or is not serial; a condition on the reduction's loops; no such axis.

        Before::

            for i, k_0, k_1 in T.grid(16, 4, 4):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    vk = T.axis.reduce(16, k_0 * 4 + k_1)
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

        After ``sch.rfactor(ki, 1)``::

            C_rf = T.sblock_alloc_buffer((16, 4), "int32")
            for i, k_0, k_1 in T.grid(16, 4, 4):
                with T.sblock("C_rf"):
                    vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                    with T.init():
                        C_rf[vi, vk_1] = 0
                    C_rf[vi, vk_1] = C_rf[vi, vk_1] + A[vi, vk_0 * 4 + vk_1]
            for i, k_1 in T.grid(16, 4):
                with T.sblock("C"):
                    vk_1, vi = T.axis.remap("RS", [k_1, i])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + C_rf[vi, vk_1]
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        try:
            body, made = _rfactor(state, node, int(factor_axis))
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: _loop_that_works(state, node)), state, code=r.code)
        self.commit(state, body)
        return self.block_rv(made)


def _loop_that_works(state: State, given: For) -> str:
    """A loop that ``rfactor`` takes: around the same block, or else around another."""
    inside = state.children_of(given)
    near = [x for b in inside for x in state.loops_of(b)]
    far = [x for r in state.realizes.values() if r.block.init is not None for x in state.loops_of(r.block)]
    told = for_reduction(state, inside[0], "rfactor") if len(inside) == 1 else ""
    for loops in (near, far):
        for loop in list({x.var: x for x in loops}.values())[:16]:
            if int_value(loop.extent) != 1 and works(partial(_rfactor, state, loop, 0)):
                return f"sch.rfactor({named(state, loop)}, 0)"
        if told.startswith("rfactor before"):
            return told
    if len(inside) > 1 and any(b.init is not None for b in inside):
        return "rfactor before other blocks are moved into the loop of the reduction"
    return told


@dataclass(frozen=True)
class _Plan:
    """What the two blocks are made from.

    Args:
        realize: the reduction block.
        loop: the factored loop.
        reduction: what the block does.
        partial: the buffers of partial results.
        axis: position of the new dimension.
    """

    realize: BlockRealize
    loop: For
    reduction: Reduction
    partial: tuple[Buffer, ...]
    axis: int

    def place(self, var: Expr) -> Expr:
        """Where iteration ``var`` has its partial results: they begin at 0, wherever the loop does."""
        return var if int_value(self.loop.min) == 0 else binary("-", var, self.loop.min)

    def at(self, var: Expr) -> tuple[Expr, ...]:
        """Where a partial result of iteration ``var`` stands."""
        indices = self.reduction.stores[0].indices
        return (*indices[: self.axis], self.place(var), *indices[self.axis:])


def _rfactor(state: State, loop: For, factor_axis: int) -> tuple[Stmt, Block]:
    blocks = state.children_of(loop)
    if len(blocks) != 1:
        raise Refusal(f"loop {loop.var.name} holds {len(blocks)} blocks, not the reduction alone", [loop.var], code="reduction")
    realize = state.realizes[blocks[0].ident]
    block = realize.block
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    reason = not_reduction(state, block, scope)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a reduction block: {reason}", [block.ident], code="reduction")
    if loop.kind != "serial":
        raise Refusal(f"loop {loop.var.name} is {loop.kind}, not serial", [loop.var], "rfactor before changing its kind",
                      code="loop")
    loops = state.loops_above(realize)
    decides = next((n for n in loops if n is not loop and any(uses(e, {n.var}) for e in (loop.min, loop.extent))), None)
    if decides is not None:
        raise Refusal(f"where loop {loop.var.name} begins or ends depends on loop {decides.var.name}; the partial results are "
                      "one tensor", [loop.var, decides.var], code="domain")
    require_init_first(realize, loops)
    spatial, reduce = _touched(realize)
    _check_loops(state, realize, loops, loop, spatial, reduce)
    _check_predicate(realize, loops, loop, spatial, reduce)
    reduction = recognise(block)
    ndim = reduction.stores[0].buffer.ndim
    if not -ndim - 1 <= factor_axis <= ndim:
        raise Refusal(f"factor_axis {factor_axis} is not between {-ndim - 1} and {ndim}", [block.ident],
                      hint=f"0 puts the new dimension first, {ndim} or -1 last", code="argument")
    axis = factor_axis + ndim + 1 if factor_axis < 0 else factor_axis
    partial = tuple(
        replace(
            s.buffer, name=f"{s.buffer.name}.rf", strides=(), axis_separators=(), ident=Ident(),
            shape=(*s.buffer.shape[:axis], loop.extent, *s.buffer.shape[axis:]),
        )
        for s in reduction.stores
    )
    plan = _Plan(realize, loop, reduction, partial, axis)
    first = _partial(plan, loops)
    last = _combined(plan, reduce)
    nest = _own_loops(first, loops)
    rest = _kept(loops[0], realize, last, {x.var for x in loops}, reduce - {loop.var})
    allocs = {id(scope): (*scope.alloc_buffers, *partial)}
    return state.rewrite({id(loops[0]): seq(nest, rest)}, allocs), first.block


def _touched(realize: BlockRealize) -> tuple[set[Var], set[Var]]:
    """The variables in the bindings of spatial and of reduction iterators."""
    found: tuple[set[Var], set[Var]] = (set(), set())
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        found[iv.kind == "reduce"].update(free_vars(value))
    return found


def _check_loops(
    state: State, realize: BlockRealize, loops: Sequence[For], factored: For, spatial: set[Var], reduce: set[Var]
) -> None:
    block = realize.block
    first = state.children_of(loops[0])[0]
    if first.ident is not block.ident:
        raise Refusal(f"block {first.name} stands before {block.name} under loop {loops[0].var.name}",
                      [first.ident, block.ident], code="order")
    inside = False
    for loop in loops:
        var = loop.var
        if var in spatial and var in reduce:
            raise Refusal(f"loop {var.name} moves both the reduction and the output of {block.name}", [var, block.ident],
                          "split it", code="reduction")
        if var in spatial:
            if loop is factored:
                raise Refusal(f"loop {var.name} moves the output of {block.name}; it is not part of the reduction",
                              [var, block.ident], code="reduction")
        elif var in reduce:
            if not inside and len(state.children_of(loop)) != 1:
                raise Refusal(f"loop {var.name} of the reduction holds other blocks than {block.name}", [var], code="reduction")
            inside = True
        elif (inside or loop is factored) and int_value(loop.extent) != 1:
            raise Refusal(f"loop {var.name} repeats block {block.name}: no iterator uses it", [var, block.ident], code="loop")


def _check_predicate(
    realize: BlockRealize, loops: Sequence[For], factored: For, spatial: set[Var], reduce: set[Var]
) -> None:
    """Refuses conditions on the reduction under which a partial result might never get its initial value."""
    analyzer = Analyzer(loop_ranges(loops))
    first: dict[Var, Expr] = {x.var: x.min for x in loops if x.var in reduce}
    # Loops that only repeat the block, and that run once: the partial results are combined anew under the others.
    first.update({v: e for v, e in pinned(loop_ranges(loops), realize.predicate).items() if v not in spatial})
    first.pop(factored.var, None)
    for cond in conjuncts(realize.predicate):
        if uses(cond, {*reduce, factored.var}) and not analyzer.can_prove(substitute(cond, first)):
            block = realize.block
            raise Refusal(
                f"block {block.name} runs under a predicate on its reduction, and it is not known that every iteration of "
                f"loop {factored.var.name} does something", [block.ident], "split by a factor that divides", code="reduction",
            )


def _partial(plan: _Plan, loops: Sequence[For]) -> BlockRealize:
    """The block that reduces into partial results, under the old loops."""
    block, loop = plan.realize.block, plan.loop
    extra = _iterator(loop, "spatial")
    iters, values = [extra], [loop.var]
    by_loop: dict[Var, Expr] = {loop.var: extra.var}
    vmap: dict[Var, Expr] = {}
    around = {x.var: x for x in loops}
    new_values: list[Expr] = list(values)
    for iv, value in zip(block.iter_vars, plan.realize.iter_values):
        if iv.kind != "reduce" or not uses(value, {loop.var}):
            iters.append(iv)
            new_values.append(value)
            continue
        for var in dict.fromkeys(free_vars(value)):
            if var in around and var not in by_loop:
                digit = _iterator(around[var], "reduce")
                by_loop[var] = digit.var
                iters.append(digit)
                new_values.append(var)
        vmap[iv.var] = Substitute(by_loop).visit_expr(value)
    body, init = _body(plan, plan.partial, plan.at(extra.var), plan.reduction.terms, iters)
    sub = Substitute(vmap)
    one = IntImm(1, extra.var.dtype)
    writes = []
    for region in block.writes:
        k = next(k for k, s in enumerate(plan.reduction.stores) if s.buffer is region.buffer)
        ranges = (*region.region[: plan.axis], Range(plan.place(extra.var), one), *region.region[plan.axis:])
        writes.append(sub.visit_region(BufferRegion(plan.partial[k], ranges)))
    new = Block(
        f"{block.name}_rf", tuple(iters), tuple(sub.visit_region(r) for r in block.reads), tuple(writes),
        sub.visit_stmt(body), None if init is None else sub.visit_stmt(init), annotations=block.annotations,
    )
    return BlockRealize(tuple(new_values), plan.realize.predicate, new)


def _combined(plan: _Plan, reduce: set[Var]) -> BlockRealize:
    """The block that combines the partial results; it is the old block to its handles."""
    block = plan.realize.block
    extra = _iterator(plan.loop, "reduce")
    iters: list[IterVar] = [extra]
    values: list[Expr] = [plan.loop.var]
    vmap: dict[Var, Expr] = {}
    for iv, value in zip(block.iter_vars, plan.realize.iter_values):
        if iv.kind == "spatial":
            var = Var(iv.var.name, iv.var.dtype)
            vmap[iv.var] = var
            iters.append(IterVar(var, iv.dom, iv.kind))
            values.append(value)
    sub = Substitute(vmap)
    indices = plan.reduction.stores[0].indices
    buffers = tuple(s.buffer for s in plan.reduction.stores)
    at = plan.at(extra.var)
    terms = tuple(BufferLoad(b, at, b.dtype) for b in plan.partial)
    body, init = _body(plan, buffers, indices, terms, iters)
    new = replace(
        block, iter_vars=tuple(iters), reads=tuple(sub.visit_region(point(b, at)) for b in plan.partial),
        writes=tuple(sub.visit_region(point(b, indices)) for b in buffers), body=sub.visit_stmt(body),
        init=None if init is None else sub.visit_stmt(init), alloc_buffers=(), match_buffers=(),
    )
    kept = [c for c in conjuncts(plan.realize.predicate) if not uses(c, reduce)]
    return BlockRealize(tuple(values), logical_and(*kept), new)


def _iterator(loop: For, kind: str) -> IterVar:
    return IterVar(Var(f"v{loop.var.name}", loop.var.dtype), Range(loop.min, loop.extent), kind)


def _body(
    plan: _Plan, buffers: Sequence[Buffer], indices: tuple[Expr, ...], terms: Sequence[Expr], iters: Sequence[IterVar]
) -> tuple[Stmt, Stmt | None]:
    """Body and init of a block that combines ``terms`` into ``buffers``; a plain store where nothing is reduced."""
    if all(iv.kind != "reduce" for iv in iters):
        return seq(*[BufferStore(b, indices, t) for b, t in zip(buffers, terms)]), None
    reducer = plan.reduction.reducer
    starts = reducer.identity([b.dtype for b in buffers])
    init = seq(*[BufferStore(b, indices, v) for b, v in zip(buffers, starts)])
    values = reducer.combine([BufferLoad(b, indices, b.dtype) for b in buffers], list(terms))
    if len(buffers) == 1:
        return BufferStore(buffers[0], indices, values[0]), init
    bound = [Var(f"v_{b.name}", v.dtype) for b, v in zip(buffers, values)]
    body: Stmt = SeqStmt(tuple([BufferStore(b, indices, v) for b, v in zip(buffers, bound)]))
    for var, value in reversed(list(zip(bound, values))):
        body = LetStmt(var, value, body)
    return body, init


def _own_loops(realize: BlockRealize, loops: Sequence[For]) -> Stmt:
    """A block under copies of some loops."""
    fresh: Mapping[Var, Expr] = {x.var: Var(x.var.name, x.var.dtype) for x in loops}
    sub = Substitute(fresh)
    nest: Stmt = BlockRealize(sub.visit_exprs(realize.iter_values), sub.visit_expr(realize.predicate), realize.block)
    for x in reversed(loops):
        var = fresh[x.var]
        assert isinstance(var, Var)
        nest = replace(x, var=var, min=sub.visit_expr(x.min), extent=sub.visit_expr(x.extent), body=nest)
    return nest


def _kept(stmt: Stmt, old: BlockRealize, new: BlockRealize, around: set[Var], dropped: set[Var]) -> Stmt:
    """The old nest around the new block, without the loops of the reduction."""
    if stmt is old:
        return new
    if isinstance(stmt, For) and stmt.var in around:
        body = _kept(stmt.body, old, new, around, dropped)
        return body if stmt.var in dropped else replace(stmt, body=body)
    if isinstance(stmt, SeqStmt):
        return seq(*[_kept(s, old, new, around, dropped) for s in stmt.stmts])
    return stmt


