"""The rewrites behind layouts: accesses mapped to a buffer's new indices, and indices in normal form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, IntImm, Not, Var, as_expr, int_value
from autosched.ir.functor import Mutator, free_vars, walk_expr
from autosched.ir.index_map import IndexMap
from autosched.ir.itermap import iter_map_simplify
from autosched.ir.region import block_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, Buffer, BufferRegion, BufferStore, For, Range, Stmt, full_region, seq
from autosched.schedule.analysis.bindings import facts
from autosched.schedule.kit.once import Again, afresh
from autosched.schedule.kit.state import State, below
from autosched.schedule.kit.walks import Walk, walked


class _Scoped(Mutator):
    """A rewrite that knows the ranges of loops and iterators around it, and the conditions under which a value is used."""

    def __init__(self, dom: Mapping[Var, Range]) -> None:
        self.dom = dict(dom)
        self.given: tuple[Expr, ...] = ()

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.dom[stmt.var] = Range(stmt.min, stmt.extent)
        return super().visit_stmt(stmt)

    def visit_expr(self, expr: Expr) -> Expr:
        # Only the chosen operand of if_then_else is evaluated; a Select evaluates both.
        if not isinstance(expr, Call) or expr.op != "if_then_else":
            return super().visit_expr(expr)
        condition, there, here = expr.args
        sure = self._sure(condition)
        if sure is not None:
            return self.visit_expr(there if sure else here)
        outside = self.given
        new = self.visit_expr(condition)
        self.given = (*outside, condition)
        there = self.visit_expr(there)
        self.given = (*outside, Not(condition))
        here = self.visit_expr(here)
        self.given = outside
        same = new is condition and there is expr.args[1] and here is expr.args[2]
        return expr if same else Call(expr.op, (new, there, here), expr.dtype)

    def visit_block(self, block: Block) -> Block:
        for iv in block.iter_vars:
            self.dom[iv.var] = iv.dom
        return super().visit_block(block)

    def _sure(self, condition: Expr) -> int | None:
        """What iterators that have one value make of a condition: in indices they become that value, out of bounds maybe."""
        fixed = {v: self.dom[v] for v in free_vars(condition) if v in self.dom and int_value(self.dom[v].extent) == 1}
        return int_value(Analyzer(fixed).simplify(condition)) if fixed else None

    def digits(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Indices in the form that their digits give; a plain variable never becomes a constant."""
        names = {v for i in indices for v in free_vars(i)}
        dom = {v: r for v, r in self.dom.items() if v in names}
        new = iter_map_simplify(indices, dom, check="surjective", analyzer=Analyzer(dom))
        if self.given:
            names.update(v for condition in self.given for v in free_vars(condition))
            known = Analyzer({v: r for v, r in self.dom.items() if v in names})
            for condition in self.given:
                known.assume(condition)
            values = [None if isinstance(e, Var) else known.const_value(e) for e in new]
            new = tuple([e if c is None else as_expr(c, e.dtype) for e, c in zip(new, values)])
        return tuple(a if isinstance(b, IntImm) and isinstance(a, Var) else b for a, b in zip(indices, new))


class Relayout(_Scoped):
    """Maps every access of a buffer to its new layout; regions of it are worked out again from the bodies."""

    def __init__(self, old: Buffer, new: Buffer, mapping: IndexMap, state: State, owner: Block, again: Again) -> None:
        super().__init__(state.ranges_at(owner))
        self.old, self.new, self.mapping, self.again = old, new, mapping, again

    def visit_owner(self, block: Block) -> Block:
        """Rewrites the block around all accesses."""
        if self.again is afresh:
            return self._block(block)
        stmts = [
            self.again(partial(self.visit_stmt, stmt), "laid out", stmt, self.new) if self._concerns(walked(stmt)) else stmt
            for stmt in below(block)
        ]
        return self._renamed(replace(block, body=seq(*stmts)))

    def _concerns(self, walk: Walk) -> bool:
        return self.old in walk.touched or self.old in walk.binding

    def visit_block(self, block: Block) -> Block:
        return self._block(block) if self.old in facts(block).buffers else block

    def _block(self, block: Block) -> Block:
        return self._renamed(super().visit_block(block))

    def _renamed(self, new: Block) -> Block:
        """A block whose body has the new accesses, with the new buffer in what it declares."""
        allocs = tuple(self.new if b is self.old else b for b in new.alloc_buffers)
        sides = (new.reads, new.writes)
        if any(r.buffer is self.old for side in sides for r in side):
            access = block_access(new, [self.new])
            sides = (self._regions(new.reads, access[0]), self._regions(new.writes, access[1]))
        return replace(new, alloc_buffers=allocs, reads=sides[0], writes=sides[1])

    def _regions(
        self, declared: Sequence[BufferRegion], found: Sequence[BufferRegion]
    ) -> tuple[BufferRegion, ...]:
        region = found[0] if found else full_region(self.new)
        return tuple(region if r.buffer is self.old else r for r in declared)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        # Where another buffer is touched may be read from this one.
        return region if region.buffer is self.old else super().visit_region(region)

    def mapped(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The new indices of an access; digits of a sum are the sum of digits where nothing carries over."""
        new = self.digits(self.mapping.map_indices(indices))
        return tuple([Analyzer(self.dom).simplify(e) if _has_digits(e) else e for e in new])

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        if isinstance(new, BufferLoad) and new.buffer is self.old:
            return BufferLoad(self.new, self.mapped(new.indices), self.new.dtype)
        return new

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(new, BufferStore) and new.buffer is self.old:
            return BufferStore(self.new, self.mapped(new.indices), new.value)
        return new


def _has_digits(index: Expr) -> bool:
    """Whether an index takes digits of something."""
    return any(isinstance(e, BinOp) and e.op in ("//", "%") for e in walk_expr(index))


class Simplified(_Scoped):
    """Simplifies the indices of accesses and regions."""

    def indices(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Indices in normal form."""
        analyzer = Analyzer(self.dom)
        return self.digits([i if isinstance(i, Var) else analyzer.simplify(i) for i in indices])

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        analyzer = Analyzer(self.dom)
        mins = self.indices([r.min for r in region.region])
        return BufferRegion(
            region.buffer, tuple(Range(lo, analyzer.simplify(r.extent)) for lo, r in zip(mins, region.region))
        )

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        assert isinstance(new, BufferLoad)
        return BufferLoad(new.buffer, self.indices(new.indices), new.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if isinstance(new, BufferStore):
            return BufferStore(new.buffer, self.indices(new.indices), new.value)
        return new
