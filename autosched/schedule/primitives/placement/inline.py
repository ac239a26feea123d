"""Inlining a block into its consumers, or into its producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from autosched.ir.expr import BufferData, BufferLoad, Call, Expr, IntImm, Var, eq, int_value, logical_and
from autosched.ir.functor import Mutator, Substitute, found_in, free_vars, stmt_children, stmt_exprs, uses, walk_expr
from autosched.ir.itermap import detect_iter_map, inverse_affine_map
from autosched.ir.region import block_access, int_set_bounds
from autosched.ir.simplify import Analyzer, conjuncts, simplify
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    IfThenElse,
    Range,
    Stmt,
)
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.analysis.boxes import bindings, is_unit, loop_ranges, runs_everywhere
from autosched.schedule.analysis.dependence import incomplete, is_output, names, scope_of
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.analysis.outside import require_blocks, stmts_between
from autosched.schedule.analysis.pipeline import require_pipeline
from autosched.schedule.analysis.ways import before_nesting, for_complete
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.once import Again, afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.placement.compute_at import place_that_works


class Inlining(ScheduleBase):
    """Primitives that make a block disappear into another one."""

    @primitive
    def compute_inline(self, block: BlockRV) -> None:
        """Computes a block's value wherever it is read, and removes the block and its buffer.

        Args:
            block: a complete block ``B[f(i, j)] = value``, ``f`` one to one, that writes an intermediate buffer.

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

        After ``sch.compute_inline("B")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2 + 1

        Raises:
            ScheduleError: the block has an init, several or external outputs, a body of another form, or its buffer
                is used by address or matched.
        """
        state, realize = self.block_at(block)
        try:
            body = _inline(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: _at_consumer(state, realize)), state, code=r.code)
        self.commit(state, body)

    @primitive
    def reverse_compute_inline(self, block: BlockRV) -> None:
        """Makes a block's only producer store the block's result at once, and removes the block and the buffer
        between them.

        Args:
            block: a complete block that reads one intermediate buffer ``B[f(i, j)]``, ``f`` quasi-affine and one to
                one, whose only writer is a complete block that stores single elements.

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

        After ``sch.reverse_compute_inline("C")``::

            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2 + 1

        Raises:
            ScheduleError: several producers, a reduction as producer, indices that have no inverse, or a producer
                that does not cover the block.
        """
        state, realize = self.block_at(block)
        try:
            body = _reverse_inline(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: _at_producer(state, realize)), state, code=r.code)
        self.commit(state, body)


def can_inline(state: State, realize: BlockRealize) -> bool:
    """Whether ``compute_inline`` would accept."""
    try:
        _inline(state, realize)
    except Refusal:
        return False
    return True


def can_reverse_inline(state: State, realize: BlockRealize) -> bool:
    """Whether ``reverse_compute_inline`` would accept."""
    try:
        _reverse_inline(state, realize)
    except Refusal:
        return False
    return True


def _at_consumer(state: State, realize: BlockRealize) -> str:
    """Another way to bring a block and its consumer together."""
    for other in state.consumers(realize.block):
        if can_reverse_inline(state, state.realizes[other.ident]):
            return f'sch.reverse_compute_inline("{other.name}")'
    return place_that_works(state, realize, True) or for_complete(state, realize.block, "compute_inline")


def _at_producer(state: State, realize: BlockRealize) -> str:
    """Another way to bring a block and its producers together."""
    for other in state.producers(realize.block):
        if can_inline(state, state.realizes[other.ident]):
            return f'sch.compute_inline("{other.name}")'
    if can_inline(state, realize):
        return f'sch.compute_inline("{realize.block.name}")'
    return place_that_works(state, realize, False) or for_complete(state, realize.block, "reverse_compute_inline")


# -- into the consumers ----------------------------------------------------------------------------------------------


def _inline(state: State, realize: BlockRealize) -> Stmt:
    block = realize.block
    _no_init(block)
    if len(block.writes) != 1:
        raise Refusal(f"block {block.name} writes {len(block.writes)} regions; only one can be inlined", [block.ident],
                      code="form")
    buffer = block.writes[0].buffer
    scope = scope_of(state, block)
    require_pipeline(state, scope)
    if is_output(block, scope):
        raise Refusal(
            f"block {block.name} is an output block: {buffer.name} is no intermediate", [block.ident],
            "reverse_compute_inline merges an output into its producer", code="output",
        )
    reason = incomplete(state, block, scope)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a complete block: {reason}", [block.ident], code="form")
    require_bound(block, state.loops_above(realize))
    others = [b for b in state.writers(scope, buffer) if b is not block]
    if others:  # parts that nobody reads are complete each
        raise Refusal(f"{buffer.name} is also written by {names(others)}", [block.ident, *(b.ident for b in others)],
                      code="writer")
    store = block.body
    if not isinstance(store, BufferStore) or store.buffer is not buffer:
        raise Refusal(f"the body of {block.name} is not a single store to {buffer.name}", [block.ident],
                      hint=before_nesting(state, block, "compute_inline"), code="form")
    formal, value = _as_function(block, store)
    _no_opaque_use(scope, buffer)
    require_blocks(state, scope, (), (buffer,))
    for consumer in () if state.trusted else state.consumers(block)[-1:]:
        require_blocks(state, scope, state.touched(block)[0], (), stmts_between(state, realize, state.realizes[consumer.ident]))
    inliner = _Inliner(buffer, formal, value, realize, once if state.trusted else afresh)
    return _apply(state, scope, realize, buffer, inliner)


def _as_function(block: Block, store: BufferStore) -> tuple[list[Var], Expr]:
    """The stored value as a function of the indices: placeholders for the indices, and the value in terms of them."""
    own = [i for i in store.indices if isinstance(i, Var)]
    every = [iv.var for iv in block.iter_vars]
    units = [iv.var for iv in block.iter_vars if int_value(iv.dom.min) == 0 and is_unit(iv.dom.extent)]
    if len(own) == len(set(own)) and {*every} - {*units} <= {*own} <= {*every} and all(
        isinstance(i, Var) or (int_value(i) == 0 and is_unit(n)) for i, n in zip(store.indices, store.buffer.shape)
    ):
        # Of a dimension of one element an iterator of one step is the index, though 0 is written: what is read at it stays so in
        # the reader's terms, as what is read at any other one does.
        rest = iter([v for v in units if v not in own])
        formal = [i if isinstance(i, Var) else next(rest, Var(f"ph_{k}", i.dtype)) for k, i in enumerate(store.indices)]
        gone: dict[Var, Expr] = {v: IntImm(0, v.dtype) for v in rest}
        return formal, Substitute(gone).visit_expr(store.value) if gone else store.value
    domain = {iv.var: iv.dom for iv in block.iter_vars}
    result = detect_iter_map(list(store.indices), domain, TRUE, "bijective", simplify_trivial=False)
    if not result:
        raise Refusal(
            f"the indices of {store.buffer.name} in block {block.name} are not a one-to-one quasi-affine function of "
            "its iterators", [block.ident], code="index",
        )
    formal = [Var(f"ph_{k}", index.dtype) for k, index in enumerate(store.indices)]
    inverse: dict[Var, Expr] = dict(inverse_affine_map(result.indices, formal))
    for iv in block.iter_vars:
        if isinstance(iv.dom.min, IntImm) and is_unit(iv.dom.extent):
            inverse[iv.var] = iv.dom.min
    return formal, Substitute(inverse).visit_expr(store.value)


class _Rewriter(Mutator):
    """Rewrites a scope; blocks that named the buffer get their regions computed afresh, and one block is left out."""

    def __init__(self, buffer: Buffer, leave_out: BlockRealize) -> None:
        self.buffer = buffer
        self.leave_out = leave_out

    def touches(self, block: Block) -> bool:
        """Whether a block's signature names the buffer, or it declares nothing and uses the buffer inside."""
        if block.reads or block.writes:
            return any(r.buffer is self.buffer for r in (*block.reads, *block.writes))
        return self.buffer in facts(block).buffers

    def visit_block(self, block: Block) -> Block:
        if not self.touches(block):
            return block
        init = None if block.init is None else self.visit_stmt(block.init)
        new = replace(block, init=init, body=self.visit_stmt(block.body))
        if not (block.reads or block.writes):
            return new
        reads, writes = block_access(new)
        return replace(new, reads=reads, writes=writes)


class _Inliner(_Rewriter):
    def __init__(self, buffer: Buffer, formal: list[Var], value: Expr, leave_out: BlockRealize, again: Again) -> None:
        super().__init__(buffer, leave_out)
        self.formal = formal
        self.value = value
        self.again = again

    def visit_block(self, block: Block) -> Block:
        # The block that goes says all of what is put in place of its results.
        return self.again(partial(super().visit_block, block), "inlined", block, self.leave_out.block)

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        if isinstance(new, BufferLoad) and new.buffer is self.buffer:
            return _Chosen(dict(zip(self.formal, new.indices))).visit_expr(self.value)
        return new


class _Chosen(Substitute):
    """Substitutes, and keeps of a choice that is none any more what is taken: the rest may be out of bounds."""

    def visit_expr(self, expr: Expr) -> Expr:
        new = super().visit_expr(expr)
        if new is expr or not isinstance(new, Call) or new.op != "if_then_else":
            return new
        condition, there, here = new.args
        said = conjuncts(condition)
        sure = None if said and all(map(free_vars, said)) else int_value(simplify(condition))
        return new if sure is None else there if sure else here


def _apply(state: State, scope: Block, gone: BlockRealize, buffer: Buffer, rewriter: _Rewriter) -> Stmt:
    """The function's body with one block removed and the blocks of the scope that name the buffer rewritten."""
    table: dict[int, Stmt | None] = {id(gone): None}
    for child in state.children_of(scope):
        site = state.realizes[child.ident]
        if site is not gone and (rewriter.touches(child) or buffer in state.touched(child)[0]):
            table[id(site)] = rewriter.visit_stmt(site)
    if sum(1 for v in table.values() if v is None) == len(state.children_of(scope)):
        raise Refusal(
            f"block {gone.block.name} is the only one in {scope.name}: nothing would be left", [gone.block.ident], code="place",
        )
    allocs = tuple(b for b in scope.alloc_buffers if b is not buffer)
    try:
        return state.rewrite(table, {id(scope): allocs})
    except ValueError as error:
        raise Refusal(str(error), [gone.block.ident], code="place") from None


def _no_init(block: Block) -> None:
    if block.init is not None:
        raise Refusal(f"block {block.name} is a reduction: it has an init statement", [block.ident], code="reduction")


def _no_opaque_use(scope: Block, buffer: Buffer) -> None:
    stack: list[Stmt] = [scope]
    while stack:
        node = stack.pop()
        if isinstance(node, Block) and node is not scope and buffer not in facts(node).buffers:
            continue
        stack += stmt_children(node)[::-1]
        if isinstance(node, Block) and any(m.source.buffer is buffer for m in node.match_buffers):
            raise Refusal(f"a part of {buffer.name} is matched into block {node.name}", [node.ident], code="address")
        for data in found_in(stmt_exprs(node), BufferData):
            if data.buffer is buffer:
                raise Refusal(f"{buffer.name} is used by its address ({buffer.name}.data)", [node], code="address")


# -- into the producer -----------------------------------------------------------------------------------------------


def _reverse_inline(state: State, realize: BlockRealize) -> Stmt:
    block = realize.block
    _no_init(block)
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
    return _apply(state, scope, realize, buffer, rewriter)


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
    _no_opaque_use(scope, buffer)
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


class _ReverseInliner(_Rewriter):
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


class _WithValue(_Chosen):
    """Replaces the consumer's iterators, and its loads of the buffer by the producer's value."""

    def __init__(self, solution: dict[Var, Expr], buffer: Buffer, value: Expr) -> None:
        super().__init__(solution)
        self.inlined = buffer
        self.value = value

    def visit_load(self, load: BufferLoad) -> Expr:
        return self.value if load.buffer is self.inlined else super().visit_load(load)
