"""The pieces of a cache stage: the copy nest, its place, and the redirection of accesses to the new buffer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BufferData, BufferLoad, Call, Expr, IntImm, Var, cast, int_value, logical_and
from autosched.ir.functor import Mutator, Substitute, stmt_children
from autosched.ir.region import region_bounds
from autosched.ir.simplify import Analyzer, simplify
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
    MatchBuffer,
    Range,
    SeqStmt,
    Stmt,
    nested,
    point,
)
from autosched.schedule.analysis.bindings import facts, loop_dom
from autosched.schedule.kit.state import State


@dataclass(frozen=True)
class Place:
    """Where a statement goes: before position ``index`` of the body of ``parent``."""

    parent: For | Block
    index: int


def region_of(regions: Sequence[BufferRegion], buffer: Buffer) -> BufferRegion | None:
    """The region of a buffer in a block's reads or writes, or None."""
    return next((r for r in regions if r.buffer is buffer), None)


def swept_region(
    state: State, region: BufferRegion, realize: BlockRealize, top: Stmt, extra: Expr = TRUE
) -> tuple[Range, ...]:
    """What a block's region covers under the loops below ``top``, clipped to the buffer.

    Args:
        state: the program.
        region: a region of the block, in terms of its iterators.
        realize: the block.
        top: a loop or block around it.
        extra: a further condition on the block's instances, in terms of its iterators.
    """
    loops = state.loops_above(realize)
    below = state.loops_below(top, realize)
    values = Substitute({iv.var: v for iv, v in zip(realize.block.iter_vars, realize.iter_values)})
    # The loops above stay free: a unit loop among them is not folded away, as in TensorIR.
    predicate = realize.predicate if extra is TRUE else values.visit_expr(extra) & realize.predicate
    moved = values.visit_region(region)
    ranges = region_bounds(moved, loop_dom(below), Analyzer(), predicate, region.buffer.shape)
    return tuple(_inside(r, size, loop_dom(loops)) for r, size in zip(ranges, region.buffer.shape))


def clipped(region: Sequence[Range], shape: Sequence[Expr]) -> tuple[Range, ...]:
    """The part of a region that lies inside a shape, as far as the ends are constants."""
    found: list[Range] = []
    for r, size in zip(region, shape):
        lo, extent, end = int_value(r.min), int_value(r.extent), int_value(size)
        if lo is not None and extent is not None and end is not None and (first := max(lo, 0)) < (last := min(lo + extent, end)):
            if (first, last) != (lo, lo + extent):
                r = Range(IntImm(first, r.min.dtype), IntImm(last - first, r.extent.dtype))
        found.append(r)
    return tuple(found)


def _inside(r: Range, size: Expr, dom: Mapping[Var, Range]) -> Range:
    """A range cut where it is known to reach the end of a dimension or beyond: rounded-up symbolic extents do."""
    lo, extent, end = int_value(r.min), int_value(r.extent), int_value(size)
    if lo != 0 or (extent is not None and end is not None and extent <= end):
        return r
    analyzer = Analyzer(dom)
    return Range(r.min, size) if r.extent != size and analyzer.can_prove(r.extent >= size) else r


def copy_stage(
    name: str, source: Buffer, target: Buffer, region: Sequence[Range], compact: str | None,
    around: Mapping[Var, Range] | None = None,
) -> tuple[BlockRealize, Stmt]:
    """A nest that copies a region from one buffer to another.

    Args:
        name: of the block.
        source: read.
        target: written.
        region: the part that is copied, in coordinates of the larger buffer.
        compact: which side holds only the region: ``source``, ``target`` or None for neither.
        around: ranges of the variables around the nest; where they lead outside the larger buffer, a predicate keeps
            the nest inside, or zeros are copied from there (``target``), which nothing reads: the program did not either.

    Returns:
        the block's realize and the whole nest.
    """
    loops: list[Var] = []
    iters: list[IterVar] = []
    values: list[Expr] = []
    wide: list[Expr] = []
    narrow: list[Expr] = []
    for i, r in enumerate(region):
        dtype = r.extent.dtype
        loop, var = Var(f"ax{i}", dtype), Var(f"v{i}", dtype)
        loops.append(loop)
        zero = IntImm(0, dtype)
        if compact is None:
            values.append(r.min + loop)
            iters.append(IterVar(var, Range(zero, source.shape[i])))
            wide.append(var)
        else:
            values.append(loop)
            iters.append(IterVar(var, Range(zero, r.extent)))
            wide.append(r.min + var)
        narrow.append(var)
    read = tuple(narrow if compact == "source" else wide)
    write = tuple(narrow if compact == "target" else wide)
    load: Expr = BufferLoad(source, read, source.dtype)
    if compact == "target" and around is not None:
        load = guarded_load(source, read, {**around, **{iv.var: iv.dom for iv in iters}})
    block = Block(name, tuple(iters), (point(source, read),), (point(target, write),), BufferStore(target, write, load))
    predicate: Expr = TRUE
    if compact != "target" and around is not None:
        analyzer = Analyzer({**around, **{loop: Range(IntImm(0, loop.dtype), r.extent) for loop, r in zip(loops, region)}})
        at = values if compact is None else [r.min + loop for loop, r in zip(loops, region)]
        predicate = analyzer.simplify(logical_and(*_outside(at, target.shape if compact else source.shape, analyzer)))
    realize = BlockRealize(tuple(values), predicate, block)
    return realize, nested([(loop, Range(IntImm(0, loop.dtype), r.extent)) for loop, r in zip(loops, region)], realize)


def guarded_load(source: Buffer, indices: Sequence[Expr], dom: Mapping[Var, Range]) -> Expr:
    """A load, zero where it would be outside the buffer: nobody uses what a guard of its own kept from being read.

    Args:
        source: read.
        indices: where.
        dom: ranges of the variables in the indices.
    """
    load = BufferLoad(source, tuple(indices), source.dtype)
    analyzer = Analyzer(dom)
    conditions = _outside(indices, source.shape, analyzer)
    if not conditions:
        return load
    return Call("if_then_else", (logical_and(*conditions), load, cast(source.dtype, IntImm(0))), source.dtype)


def _outside(indices: Sequence[Expr], shape: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
    """The conditions under which indices are inside a shape, those that may fail; symbolic extents are trusted."""
    return [
        c for index, size in zip(indices, shape) if isinstance(size, IntImm) for c in (index >= 0, index < size)
        if not analyzer.can_prove(c)
    ]


def place_between(state: State, scope: Block, writer: Ident, related: Collection[Ident]) -> Place:
    """The place after a block and before the first of some later blocks, as deep inside common loops as possible.

    Args:
        state: the program.
        scope: the block that contains all of them.
        writer: the earlier block.
        related: the later blocks; none: the end of the scope.
    """
    order = [b.ident for b in state.children_of(scope)]
    first = next((i for i in order if i in related), None)
    if first is not None:
        found = _in_sequence(state, scope, writer, first)
        if found is not None:
            return found
    return Place(scope, len(scope.body.stmts) if isinstance(scope.body, SeqStmt) else 1)


def _in_sequence(state: State, scope: Block, writer: Ident, later: Ident) -> Place | None:
    """The innermost sequence that holds both blocks, and the position of the later one in it."""
    above = {id(n) for n in state.ancestors(state.realizes[writer])}
    child: Stmt = state.realizes[later]
    for node in state.ancestors(child):
        if isinstance(node, SeqStmt) and id(node) in above:
            index = next(i for i, s in enumerate(node.stmts) if s is child)
            parent = state.parent(node)
            while parent is not None and not isinstance(parent, For | Block):
                parent = state.parent(parent)
            assert isinstance(parent, For | Block)
            return Place(parent, index)
        if node is scope:
            break
        child = node
    return None


def place_at(state: State, scope: Block, block: Ident) -> Place:
    """The place of a block: its position in the innermost sequence around it, or the top of its innermost loop."""
    child: Stmt = state.realizes[block]
    for node in state.ancestors(child):
        if isinstance(node, For | Block):
            return Place(node, 0)
        if isinstance(node, SeqStmt):
            index = next(i for i, s in enumerate(node.stmts) if s is child)
            parent = state.parent(node)
            if isinstance(parent, For | Block):
                return Place(parent, index)
        child = node
    return Place(scope, 0)


class Redirect(Mutator):
    """Turns accesses of one buffer into accesses of another, below a block.

    Args:
        old: buffer accessed now.
        new: buffer to access.
        offset: subtracted from every index, or None for none.
        indices: used instead of the old indices (single-point accesses), or None.
    """

    def __init__(
        self, old: Buffer, new: Buffer, offset: Sequence[Expr] | None = None, indices: Sequence[Expr] | None = None
    ) -> None:
        self.old = old
        self.new = new
        self.offset = None if offset is None or all(int_value(o) == 0 for o in offset) else tuple(offset)
        self.indices = None if indices is None else tuple(indices)
        self.opaque = False

    def visit_block(self, block: Block) -> Block:
        if self.old not in facts(block).buffers:
            return block
        new = super().visit_block(block)
        matches = tuple(
            MatchBuffer(m.buffer, self.visit_region(m.source)) if m.source.buffer is self.old else m
            for m in new.match_buffers
        )
        return replace(new, match_buffers=matches)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        region = super().visit_region(region)
        if region.buffer is not self.old:
            return region
        if self.indices is not None:
            return point(self.new, self.indices)
        if self.offset is None:
            return BufferRegion(self.new, region.region)
        ranges = tuple(Range(simplify(r.min - o), r.extent) for r, o in zip(region.region, self.offset))
        return BufferRegion(self.new, ranges)

    def visit_load(self, load: BufferLoad) -> Expr:
        indices = self.visit_exprs(load.indices)
        if load.buffer is self.old:
            return BufferLoad(self.new, self._moved(indices), self.new.dtype)
        return load if indices is load.indices else BufferLoad(load.buffer, indices, load.dtype)

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BufferData) and expr.buffer is self.old:
            self.opaque = True
            return BufferData(self.new)
        return super().visit_expr(expr)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore) and stmt.buffer is self.old:
            indices, value = self.visit_exprs(stmt.indices), self.visit_expr(stmt.value)
            return BufferStore(self.new, self._moved(indices), value)
        return super().visit_stmt(stmt)

    def _moved(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if self.indices is not None:
            return self.indices
        if self.offset is None:
            return indices
        return tuple(simplify(i - o) for i, o in zip(indices, self.offset))


def redirected(block: Block, old: Buffer, new: Buffer, offset: Sequence[Expr] | None) -> tuple[Block, Redirect]:
    """A block with accesses of one buffer turned into accesses of another, and what did that."""
    redirect = Redirect(old, new, offset)
    return redirect.visit_block(block), redirect


def nested_condition(block: Block, buffer: Buffer, kind: str) -> Expr:
    """The disjunction of the predicates of blocks inside ``block`` that access a buffer; true where there are none."""
    found: list[Expr] = []

    def collect(stmt: Stmt, values: Mapping[Var, Expr]) -> None:
        if isinstance(stmt, BlockRealize):
            inner = stmt.block
            regions = inner.reads if kind == "read" else inner.writes
            if any(r.buffer is buffer for r in regions):
                found.append(Substitute(values).visit_expr(stmt.predicate))
            bound = {iv.var: Substitute(values).visit_expr(v) for iv, v in zip(inner.iter_vars, stmt.iter_values)}
            collect(inner.body, {**values, **bound})
            return
        for child in stmt_children(stmt):
            collect(child, values)

    collect(block.body, {})
    if not found or any(f == TRUE for f in found):
        return TRUE
    result = found[0]
    for f in found[1:]:
        result = result | f
    return result
