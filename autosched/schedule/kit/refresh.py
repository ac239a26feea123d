"""Copies of statements in which every binder is new: two of them may stand in one program."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import Expr, Var
from autosched.ir.functor import Mutator
from autosched.ir.stmt import Block, Buffer, For, Ident, IterVar, LetStmt, MatchBuffer, Range, Stmt


class _Refresh(Mutator):
    """Renames every binder below a statement: loop variables, block iterators, blocks, local buffers."""

    def __init__(self) -> None:
        self.vmap: dict[Var, Expr] = {}
        self.bmap: dict[Buffer, Buffer] = {}

    def visit_var(self, var: Var) -> Expr:
        return self.vmap.get(var, var)

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self.bmap.get(buffer, buffer)

    def _fresh(self, var: Var) -> Var:
        new = Var(var.name, var.dtype)
        self.vmap[var] = new
        return new

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            lo, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
            var = self._fresh(stmt.var)
            return For(var, lo, extent, stmt.kind, self.visit_stmt(stmt.body), stmt.thread, stmt.annotations)
        if isinstance(stmt, LetStmt):
            value = self.visit_expr(stmt.value)
            return LetStmt(self._fresh(stmt.var), value, self.visit_stmt(stmt.body))
        return super().visit_stmt(stmt)

    def visit_block(self, block: Block) -> Block:
        iters = tuple([
            IterVar(self._fresh(iv.var), Range(self.visit_expr(iv.dom.min), self.visit_expr(iv.dom.extent)), iv.kind)
            for iv in block.iter_vars
        ])
        for buffer in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)):
            offset = None if buffer.elem_offset is None else self.visit_expr(buffer.elem_offset)
            self.bmap[buffer] = replace(buffer, elem_offset=offset, ident=Ident())
        matches = tuple([MatchBuffer(self.bmap[m.buffer], self.visit_region(m.source)) for m in block.match_buffers])
        return replace(
            block, iter_vars=iters, reads=tuple(map(self.visit_region, block.reads)),
            writes=tuple(map(self.visit_region, block.writes)),
            init=None if block.init is None else self.visit_stmt(block.init), body=self.visit_stmt(block.body),
            alloc_buffers=tuple(self.bmap[b] for b in block.alloc_buffers), match_buffers=matches, ident=Ident(),
        )


def refresh(stmt: Stmt) -> Stmt:
    """A copy of ``stmt`` in which every loop, block, block iterator and local buffer is a new one of the same name."""
    return _Refresh().visit_stmt(stmt)
