"""Writing padding and content apart: decompose_padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, Call, Expr, FloatImm, IntImm, Var, as_expr, cast, logical_and
from autosched.ir.functor import Substitute, rewrite_many, substitute
from autosched.ir.itermap import detect_iter_map
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import TRUE, Block, BlockRealize, BufferRegion, BufferStore, For, Ident, IterVar, Range, Stmt, seq
from autosched.schedule.analysis.boxes import bindings, loop_ranges
from autosched.schedule.analysis.dependence import incomplete, scope_of
from autosched.schedule.analysis.ways import loops_around, padded
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


class DecomposePadding(ScheduleBase):
    """The primitive that splits a padding stage."""

    @primitive
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV | str) -> BlockRV:
        """Splits a padding stage into one that fills everything with the padding's constant, and one that copies.

        Args:
            block: handle or name of a block ``B[..] = if_then_else(inside, value, constant)``, the only writer of B.
            loop: a loop around it; the filling goes before it.

        Returns:
            the filling block, ``<name>_pad_const``; the old handle is the block that copies, over the inside alone.

        Raises:
            ScheduleError: a block of another form, a condition that always holds or is no bound, a loop elsewhere.

        Before::

            for i in range(20):
                with T.sblock("C"):
                    vi = T.axis.spatial(20, i)
                    C[vi] = T.if_then_else(2 <= vi and vi < 18, A[vi - 2], 0)

        After ``sch.decompose_padding("C", sch.get_loops("C")[0])``::

            for i in range(20):
                with T.sblock("C_pad_const"):
                    vi = T.axis.spatial(20, i)
                    C[vi] = 0
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi + 2] = A[vi]
        """
        assert isinstance(block, BlockRV) and isinstance(loop, LoopRV)
        state, realize = self.block_at(block)
        other, node = self.loop_at(loop)
        try:
            if other is not state:
                raise Refusal("the loop and the block belong to different functions",
                              hint="give a block and a loop of one function", code="handle")
            table, ident = _decompose(state, realize, node)
        except Refusal as r:
            self.refuse(r.reason, r.marks, self.way_out(r.hint, lambda: padded(state, realize.block)), state, code=r.code)
        self.commit_nodes(state, table)
        return self.block_rv(ident)

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV | str) -> bool:
        """Whether ``decompose_padding`` would accept (not traced).

        Args:
            block: handle or name.
            loop: a loop around the block, by handle or name.
        """
        trial = self.copy()  # type: ignore[attr-defined]
        block_rv = trial.get_sblock(block) if isinstance(block, str) else block
        loop_rv = trial.get_axis(loop) if isinstance(loop, str) else loop
        state, realize = trial.block_at(block_rv)
        other, node = trial.loop_at(loop_rv)
        try:
            _decompose(state, realize, node)
        except Refusal:
            return False
        return other is state


@dataclass(frozen=True)
class _Guarded:
    """A padding stage taken apart.

    Args:
        store: the store.
        value: what is stored inside, in terms of the block's iterators.
        pad: the constant outside.
        inside: when the value is stored, in terms of the loops.
        region: per iterator, first value and number of values inside.
    """

    store: BufferStore
    value: Expr
    pad: Expr
    inside: Expr
    region: tuple[Range, ...]


def _decompose(state: State, realize: BlockRealize, target: For) -> tuple[dict[int, Stmt | None], Ident]:
    block = realize.block
    scope = scope_of(state, block)
    reason = incomplete(state, block, scope)
    if reason is not None:
        raise Refusal(f"block {block.name} is not a complete block: {reason}", [block.ident], code="form")
    loops = state.loops_above(realize)
    if not any(x is target for x in loops):
        raise Refusal(f"loop {target.var.name} is not around block {block.name}", [target.var, block.ident],
                      hint=loops_around(state, realize), code="place")
    analyzer = Analyzer(loop_ranges(loops))
    guarded = _guarded(realize, loops, analyzer)
    start = next(k for k, x in enumerate(loops) if x is target)
    filling, const_block = _fill(realize, guarded, loops[start:], analyzer)
    # The copy replaces the deepest loops that hold nothing else; a loop that is given keeps its handle.
    chain: list[For] = []
    below: Stmt = realize
    for x in reversed(loops[start:]):
        if x.body is not below:
            break
        chain.append(x)
        below = x
    old: Stmt = chain[-1] if chain else realize
    copying = _copy(realize, guarded, chain[::-1], analyzer)
    whole = copying if old is target else rewrite_many(target, {id(old): copying})
    return {id(target): seq(filling, whole)}, const_block.ident


def _guarded(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> _Guarded:
    block = realize.block
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None or len(block.writes) != 1:
        raise Refusal(f"the body of block {block.name} is not one store", [block.ident], code="form")
    value = store.value
    if not isinstance(value, Call) or value.op != "if_then_else":
        raise Refusal(f"block {block.name} stores no if_then_else(inside, value, constant)", [block.ident], code="form")
    condition, content, pad = value.args
    if not isinstance(pad, IntImm | FloatImm):
        raise Refusal(f"the padding of block {block.name} is not a constant", [block.ident], code="argument")
    inside: Expr = TRUE
    for part in (*conjuncts(substitute(condition, bindings(realize))), *conjuncts(realize.predicate)):
        inside = logical_and(inside, part.args[0] if isinstance(part, Call) and part.op == "likely" else part)
    inside = _each(inside, analyzer)
    if inside == TRUE:
        raise Refusal(f"block {block.name} has no padding: its condition always holds", [block.ident], code="form")
    found = detect_iter_map(realize.iter_values, loop_ranges(loops), inside, "surjective", Analyzer())
    if not found:
        return _Guarded(store, content, pad, inside, _around(realize, loops, inside, found.errors[0]))
    region = []
    for total, iv in zip(found.indices, block.iter_vars):
        dtype = iv.var.dtype
        if len(total.args) > 1 or (total.args and total.args[0].scale != 1):
            raise Refusal(f"iterator {iv.var.name} of block {block.name} moves in steps", [block.ident], code="loop")
        extent = as_expr(total.args[0].extent, dtype) if total.args else IntImm(1, dtype)
        region.append(Range(as_expr(total.base, dtype), extent))
    return _Guarded(store, content, pad, inside, tuple(region))


def _around(realize: BlockRealize, loops: Sequence[For], inside: Expr, why: str) -> tuple[Range, ...]:
    """Ranges that hold the inside, where it is no box: the condition on the content stays what decides."""
    region = []
    bounds = all(isinstance(c, BinOp) and c.op in ("<", "<=", ">", ">=") for c in conjuncts(inside))
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        low, high = int_set_bounds(value, loop_ranges(loops), Analyzer(), inside)
        if not bounds or not isinstance(low, IntImm) or not isinstance(high, IntImm):
            raise Refusal(f"the inside of block {realize.block.name} is no box: {why}", [realize.block.ident], code="domain")
        region.append(Range(cast(iv.var.dtype, low), as_expr(high.value - low.value + 1, iv.var.dtype)))
    return tuple(region)


def _each(condition: Expr, analyzer: Analyzer) -> Expr:
    """A conjunction with every term simplified by itself, as TVM leaves it."""
    return logical_and(*[analyzer.simplify(c) for c in conjuncts(condition)])


def _fill(
    realize: BlockRealize, guarded: _Guarded, loops: Sequence[For], analyzer: Analyzer
) -> tuple[Stmt, Block]:
    """The nest that stores the constant everywhere."""
    block = realize.block
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in block.iter_vars}
    inner = Substitute(fresh)
    store = BufferStore(
        guarded.store.buffer, tuple(analyzer.simplify(i) for i in inner.visit_exprs(guarded.store.indices)), guarded.pad
    )
    new = Block(
        f"{block.name}_pad_const", tuple(IterVar(fresh[iv.var], iv.dom) for iv in block.iter_vars), (),
        tuple(inner.visit_region(w) for w in block.writes), store,
    )
    renamed: dict[Var, Expr] = {x.var: Var(x.var.name, x.var.dtype) for x in loops}
    outer = Substitute(renamed)
    values = tuple(analyzer.simplify(v) for v in outer.visit_exprs(realize.iter_values))
    nest: Stmt = BlockRealize(values, analyzer.simplify(outer.visit_expr(realize.predicate)), new)
    for x in reversed(loops):
        var = renamed[x.var]
        assert isinstance(var, Var)
        nest = For(var, outer.visit_expr(x.min), outer.visit_expr(x.extent), "serial", nest)
    return nest, new


def _copy(realize: BlockRealize, guarded: _Guarded, loops: Sequence[For], outside: Analyzer) -> Stmt:
    """The nest that stores the content, over the inside; loops that are iterators shrink to it."""
    block = realize.block
    ranges = {x.var: Range(x.min, x.extent) for x in loops}
    analyzer = outside
    vmap: dict[Var, Expr] = {}
    moved: dict[Var, Expr] = {}
    iters: list[IterVar] = []
    values: list[Expr] = []
    for iv, value, part in zip(block.iter_vars, realize.iter_values, guarded.region):
        var = Var(iv.var.name, iv.var.dtype)
        small = Range(as_expr(0, var.dtype), part.extent)
        iters.append(IterVar(var, small))
        vmap[iv.var] = var + part.min
        if isinstance(value, Var) and value in ranges:
            ranges[value] = small
            moved[value] = value + part.min
            values.append(value)
            analyzer.bind(value, small)
        else:
            values.append(analyzer.simplify(value - part.min))
    inner = Substitute(vmap)

    def tidy(e: Expr) -> Expr:
        return analyzer.simplify(inner.visit_expr(e))

    def regions(given: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
        return tuple(
            BufferRegion(r.buffer, tuple(Range(tidy(x.min), tidy(x.extent)) for x in r.region)) for r in given
        )

    store = BufferStore(guarded.store.buffer, tuple(map(tidy, guarded.store.indices)), tidy(guarded.value))
    new = replace(
        block, iter_vars=tuple(iters), reads=regions(block.reads), writes=regions(block.writes), body=store
    )
    predicate = _each(substitute(guarded.inside, moved), analyzer)
    nest: Stmt = BlockRealize(tuple(values), predicate, new)
    for x in reversed(loops):
        nest = replace(x, min=ranges[x.var].min, extent=ranges[x.var].extent, body=nest)
    return nest
