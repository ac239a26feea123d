"""Putting what a block computes where its producer stores, and the block away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, eq, logical_and
from autosched.ir.functor import Mutator, Substitute, uses, walk_expr
from autosched.ir.itermap import detect_iter_map, inverse_affine_map
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, For, IfThenElse, Range, Stmt
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.analysis.boxes import bindings, is_unit, loop_ranges, runs_everywhere
from autosched.schedule.analysis.dependence import incomplete, is_output, names, scope_of
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.outside import require_blocks, stmts_between
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import before_nesting
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.placement.into_consumers import (
    Chosen,
    Rewriter,
    require_no_init,
    require_no_opaque_use,
    without,
)


def reverse_inlined(state: State, realize: BlockRealize) -> Stmt:
    """The function's body with a block's value where its producer stores, and without the block; raises a ``Refusal``."""
    block = realize.block
    require_no_init(block)
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    written = {w for b in state.children_of(scope) for w in state.touched(b)[1]}
    between = list(dict.fromkeys(r.buffer for r in block.reads if r.buffer in written))
    if len(between) != 1:
        listed = ", ".join(b.name for b in between) or "none"
        raise Refusal(
            f"block {block.name} may read the result of one block only, but it reads {listed}", [block.ident],
            "compute_inline the other producers first" if between else "", code="reader",
        )
    buffer = between[0]
    reason = incomplete(state, block, scope)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a complete block: {reason}", [block.ident], code="form")
    require_bound(block, state.loops_above(realize))
    producer = _only_producer(state, scope, block, buffer)
    require_blocks(state, scope, (), (buffer,))
    if not state.trusted:
        require_blocks(state, scope, *state.touched(block), stmts_between(state, producer, realize))
    if realize.predicate != TRUE and not runs_everywhere(realize, state.loops_above(realize)):
        raise Refusal(f"block {block.name} runs under a predicate that leaves out a part of its domain", [block.ident],
                      code="domain")
    store = block.body
    if not isinstance(store, BufferStore):
        raise Refusal(f"the body of {block.name} is not a single store", [block.ident],
                      hint=before_nesting(state, block, "reverse_compute_inline"), code="form")
    loads = [
        e for x in (*store.indices, store.value) for e in walk_expr(x)
        if isinstance(e, BufferLoad) and e.buffer is buffer
    ]
    if not loads:
        raise Refusal(f"block {block.name} declares that it reads {buffer.name} but does not", [block.ident], code="reader")
    if any(load.indices != loads[0].indices for load in loads):
        raise Refusal(f"block {block.name} reads {buffer.name} at several places", [block.ident],
                      f'sch.compute_inline("{producer.block.name}") has no such limit', code="reader")
    if producer.block.init is not None and store.value != loads[0]:
        raise Refusal(
            f"the producer {producer.block.name} has an init statement, and {block.name} does more than copy its result",
            [producer.block.ident], code="reduction",
        )
    outer = {
        iv.var: iv.dom for n in state.ancestors(producer) if isinstance(n, Block) and n is not scope for iv in n.iter_vars
    }
    # A producer without iterators stores at its loops.
    itself = facts(producer.block).outer_vars
    outer |= loop_ranges(n for n in state.loops_above(producer) if n.var in itself)
    solution = _solve(block, producer, buffer, loads[0], outer)
    rewriter = _ReverseInliner(buffer, store, loads[0], solution, producer, realize, outer)
    return without(state, scope, realize, buffer, rewriter)


def _only_producer(state: State, scope: Block, block: Block, buffer: Buffer) -> BlockRealize:
    """The realize of the one leaf block that writes ``buffer``; it must be complete and its buffer no output."""
    children = [b for b in state.children_of(scope) if buffer in state.touched(b)[1]]
    if not any(w.buffer is buffer for b in children for w in b.writes):
        raise Refusal(f"no block of {scope.name} declares that it writes {buffer.name}", [block.ident],
                      "reverse_compute_inline before loop_partition, whose blocks declare nothing", code="writer")
    if len(children) != 1:
        raise Refusal(f"{buffer.name} has {len(children)} producers: {names(children)}", [b.ident for b in children],
                      code="writer")
    if is_output(children[0], scope):
        raise Refusal(f"{buffer.name}, which {children[0].name} writes, is an output", [children[0].ident], code="output")
    others = [b for b in state.children_of(scope) if b is not block and buffer in state.touched(b)[0]]
    others = [b for b in others if b is not children[0]]
    if others:
        raise Refusal(f"{buffer.name} is also read by {names(others)}", [b.ident for b in others], code="reader")
    leaf = children[0]
    while True:
        # A blockized producer hides the block that stores.
        inner = [b for b in state.children_of(leaf) if any(w.buffer is buffer for w in b.writes)]
        if not inner:
            break
        if len(inner) != 1:
            raise Refusal(f"{buffer.name} has {len(inner)} producers: {names(inner)}", [b.ident for b in inner], code="writer")
        leaf = inner[0]
    around = state.scope_of(leaf)
    assert around is not None
    reason = incomplete(state, leaf, around)
    if reason is not None:
        raise Refusal(f"the producer {leaf.name} is not a complete block: {reason}", [leaf.ident], code="form")
    require_no_opaque_use(scope, buffer)
    return state.realizes[leaf.ident]


def _producer_store(producer: BlockRealize, buffer: Buffer) -> tuple[BufferStore, Expr]:
    """The store of a producer and the condition around it."""
    body = producer.block.body
    condition: Expr = TRUE
    if isinstance(body, IfThenElse) and body.else_case is None:
        condition, body = body.condition, body.then_case
    while isinstance(body, For):
        body = body.body
    if not isinstance(body, BufferStore) or body.buffer is not buffer:
        raise Refusal(
            f"the body of {producer.block.name} is not a single store to {buffer.name}", [producer.block.ident], code="form",
        )
    return body, condition


def _own_loops(block: Block) -> dict[Var, Range]:
    """The loops inside a block around its store, as ``read_at`` makes them."""
    body = block.body.then_case if isinstance(block.body, IfThenElse) else block.body
    own: dict[Var, Range] = {}
    while isinstance(body, For):
        own[body.var] = Range(body.min, body.extent)
        body = body.body
    return own


def _solve(
    block: Block, producer: BlockRealize, buffer: Buffer, load: BufferLoad, outer: Mapping[Var, Range]
) -> dict[Var, Expr]:
    """The consumer's iterators in terms of the producer's, from where both touch the buffer."""
    store, _ = _producer_store(producer, buffer)
    found: dict[Var, Expr] = {
        iv.var: iv.dom.min for iv in block.iter_vars if is_unit(iv.dom.extent) and isinstance(iv.dom.min, IntImm)
    }
    domain = {iv.var: iv.dom for iv in block.iter_vars}
    if all(isinstance(i, Var) and i in domain for i in load.indices) and len(set(load.indices)) == len(load.indices):
        found.update({v: s for v, s in zip(load.indices, store.indices) if isinstance(v, Var)})
    else:
        result = detect_iter_map(list(load.indices), domain, TRUE, "none", simplify_trivial=False)
        if not result:
            raise Refusal(
                f"the indices at which {block.name} reads {buffer.name} are not a one-to-one quasi-affine function of "
                "its iterators", [block.ident], code="index",
            )
        try:
            back = inverse_affine_map(result.indices, list(store.indices))
            again = inverse_affine_map(result.indices, list(load.indices))
        except ValueError as error:
            raise Refusal(f"the indices at which {block.name} reads {buffer.name} have no inverse: {error}",
                          [block.ident], code="index") from None
        known = Analyzer(domain)
        lost = next((v for v, e in again.items() if v in domain and not known.can_prove_equal(e, v)), None)
        if lost is not None:
            raise Refusal(f"the indices at which {block.name} reads {buffer.name} do not tell what {lost.name} is: several "
                          "iterations read one element", [block.ident], code="index")
        found.update(back)
    ranges = {**outer, **{iv.var: iv.dom for iv in producer.block.iter_vars}, **_own_loops(producer.block)}
    analyzer = Analyzer()
    for iv in block.iter_vars:
        where = found.get(iv.var)
        if where is None:
            raise Refusal(
                f"iterator {iv.var.name} of {block.name} does not index {buffer.name}: the producer would have to "
                f"store once per value of {iv.var.name}", [block.ident], code="index",
            )
        lo, hi = int_set_bounds(where, ranges)
        last = iv.dom.min + iv.dom.extent - 1
        late = lo is not None and analyzer.can_prove(lo > iv.dom.min)
        if late or (hi is not None and analyzer.can_prove(hi < last)):
            raise Refusal(
                f"{producer.block.name} does not cover {block.name}: {iv.var.name} would miss a part of its domain",
                [block.ident], code="domain",
            )
    return found


class _ReverseInliner(Rewriter):
    def __init__(
        self, buffer: Buffer, consumer: BufferStore, load: BufferLoad, solution: dict[Var, Expr], producer: BlockRealize,
        leave_out: BlockRealize, outer: Mapping[Var, Range],
    ) -> None:
        super().__init__(buffer, leave_out)
        self.outer = outer
        self.consumer = consumer
        self.load = load
        self.solution = solution
        self.producer = producer
        self.iters = leave_out.block.iter_vars
        self.leaving = leave_out.block.name

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore) and stmt.buffer is self.buffer:
            own = Substitute(self.solution).visit_exprs(self.consumer.indices)
            value = _OwnResult(self.buffer, stmt.indices, BufferLoad(
                self.consumer.buffer, own, self.consumer.buffer.dtype
            )).visit_expr(stmt.value) if self.producer.block.init is not None else stmt.value
            sub = _WithValue(self.solution, self.buffer, value)
            return BufferStore(
                self.consumer.buffer, sub.visit_exprs(self.consumer.indices), sub.visit_expr(self.consumer.value)
            )
        new = super().visit_stmt(stmt)
        if stmt is self.producer:
            assert isinstance(new, BlockRealize)
            return self.guarded(new)
        return new

    def guarded(self, realize: BlockRealize) -> BlockRealize:
        """The producer under the condition that the consumer's iterators stay inside their domain, and read what it stores."""
        block = realize.block
        analyzer = Analyzer()
        own = _own_loops(block)
        for var, dom in (*self.outer.items(), *((iv.var, iv.dom) for iv in block.iter_vars), *own.items()):
            analyzer.bind(var, dom)
        inside: list[Expr] = []
        for iv in self.iters:
            where = self.solution[iv.var]
            inside += [where >= iv.dom.min, where < iv.dom.min + iv.dom.extent]
        store, _ = _producer_store(self.producer, self.buffer)
        for read, stored in zip(Substitute(self.solution).visit_exprs(self.load.indices), store.indices):
            if not analyzer.can_prove_equal(read, stored):
                inside.append(eq(read, stored))
        condition = analyzer.simplify(logical_and(*inside))
        if condition == TRUE:
            return realize
        if uses(condition, own):
            raise Refusal(
                f"the loops inside {block.name} store elements that {self.leaving} does not read, and a condition on them "
                f"has no place in front of {block.name}", [block.ident], code="domain",
            )
        body = block.body
        if isinstance(body, IfThenElse) and body.else_case is None:
            known = analyzer.simplify(body.condition)
            if known != condition:
                condition = analyzer.simplify(logical_and(condition, body.condition))
                block = replace(block, body=body.then_case)
        outer = Analyzer()
        predicate = outer.simplify(Substitute(bindings(realize)).visit_expr(condition))
        # What the producer's own predicate says beyond the new one stays.
        with outer.with_constraint(predicate):
            extra = [c for c in conjuncts(realize.predicate) if not outer.can_prove(c)]
        return BlockRealize(realize.iter_values, logical_and(*conjuncts(predicate), *extra), block)


class _OwnResult(Mutator):
    """Replaces what a producer reads of its own result, to accumulate, by the consumer's element."""

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...], element: BufferLoad) -> None:
        self.buffer = buffer
        self.indices = indices
        self.element = element

    def visit_load(self, load: BufferLoad) -> Expr:
        if load.buffer is not self.buffer:
            return super().visit_load(load)
        if load.indices != self.indices:
            raise Refusal(f"the producer of {self.buffer.name} reads another element of it than it writes", code="index")
        return self.element


class _WithValue(Chosen):
    """Replaces the consumer's iterators, and its loads of the buffer by the producer's value."""

    def __init__(self, solution: dict[Var, Expr], buffer: Buffer, value: Expr) -> None:
        super().__init__(solution)
        self.inlined = buffer
        self.value = value

    def visit_load(self, load: BufferLoad) -> Expr:
        return self.value if load.buffer is self.inlined else super().visit_load(load)
