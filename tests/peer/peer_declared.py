"""Programs with what TVM's ``cache_index`` leaves out of them: the reads of its tables, and strides that mean something.

TVM gives each table the strides ``[1]``, whatever its rank, and the block that looks indices up does not declare that it
reads the tables; here it does, since what is moved later must not pass them.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BufferLoad, IntImm
from autosched.ir.functor import Mutator, Substitute, stmt_children, stmt_exprs, walk, walk_expr
from autosched.ir.stmt import Block, BlockRealize, Buffer, Ident, Stmt, point


class _Declared(Mutator):
    """Every block declares the single elements that its own statements load of buffers it declares nothing of."""

    def visit_block(self, block: Block) -> Block:
        done = super().visit_block(block)
        known = {r.buffer for r in (*done.reads, *done.writes)} | set(done.alloc_buffers)
        known |= {m.buffer for m in done.match_buffers}
        more = {}
        stack: list[Stmt] = [done.body] if done.init is None else [done.body, done.init]
        while stack:
            stmt = stack.pop()
            if isinstance(stmt, BlockRealize):
                continue
            stack.extend(stmt_children(stmt))
            for expr in stmt_exprs(stmt):
                for e in walk_expr(expr):
                    if isinstance(e, BufferLoad) and e.buffer not in known and e.buffer.name.startswith("index_var_"):
                        more[e.buffer, e.indices] = point(e.buffer, e.indices)
        return replace(done, reads=(*done.reads, *more.values())) if more else done


def declared(body: Stmt) -> Stmt:
    """A program's body with the reads of tables declared, and strides ``[1]`` left out."""
    bare = {
        b: replace(b, strides=(), elem_offset=None, ident=Ident())
        for s in walk(body) if isinstance(s, Block) for b in s.alloc_buffers if _says_nothing(b)
    }
    return _Declared().visit_stmt(Substitute(None, dict(bare)).visit_stmt(body) if bare else body)


def _says_nothing(buffer: Buffer) -> bool:
    return len(buffer.strides) == 1 and isinstance(buffer.strides[0], IntImm) and buffer.strides[0].value == 1
