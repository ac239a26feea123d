"""A body with some of its statements replaced, removed or joined by others; nothing else is visited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autosched.ir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
    with_body,
)


def _around(body: Stmt, parent: Mapping[int, Stmt], key: int, new: Stmt) -> Stmt | None:
    """``rebuild`` where one node alone is replaced; None where more than loops, sequences and blocks' bodies are around it."""
    top = id(body)
    while key != top:
        up = parent.get(key)
        # By exact class: every step of a schedule goes this way up.
        kind = type(up)
        if kind is For:
            assert isinstance(up, For)
            new = with_body(up, new)
        elif kind is Block:
            assert isinstance(up, Block)
            if id(up.body) != key:
                return None
            new = Block(
                up.name, up.iter_vars, up.reads, up.writes, new, up.init, up.alloc_buffers, up.match_buffers, up.annotations,
                up.ident,
            )
        elif kind is BlockRealize:
            assert isinstance(up, BlockRealize) and isinstance(new, Block)
            new = BlockRealize(up.iter_values, up.predicate, new)
        elif kind is SeqStmt:
            assert isinstance(up, SeqStmt)
            new = seq(*[new if id(s) == key else s for s in up.stmts])
        else:
            return None
        key = id(up)
    return new


def rebuild(
    body: Stmt, parent: Mapping[int, Stmt], table: Mapping[int, Stmt | None], allocs: Mapping[int, tuple[Buffer, ...]],
    inserts: Mapping[int, tuple[int, Stmt]],
) -> Stmt:
    """``body`` with the nodes of ``table`` replaced, following ``parent`` links so that nothing else is visited."""
    if len(table) == 1 and not allocs and not inserts:
        ((key, replacement),) = table.items()
        alone = None if replacement is None else _around(body, parent, key, replacement)
        if alone is not None:
            return alone
    marked: set[int] = set()
    for key in (*table, *allocs, *inserts):
        while key not in marked:
            marked.add(key)
            up = parent.get(key)
            if up is None:
                break
            key = id(up)

    def visit(stmt: Stmt) -> Stmt | None:
        key = id(stmt)
        if key in table:
            return table[key]
        if key not in marked:
            return stmt
        if isinstance(stmt, For):
            new = visit(stmt.body)
            return None if new is None else with_body(stmt, with_insert(stmt, new))
        if isinstance(stmt, SeqStmt):
            kept = [visit(s) if id(s) in marked else s for s in stmt.stmts]
            left = [s for s in kept if s is not None]
            return seq(*left) if left else None
        if isinstance(stmt, BlockRealize):
            block = visit(stmt.block)
            assert isinstance(block, Block)
            return BlockRealize(stmt.iter_values, stmt.predicate, block)
        if isinstance(stmt, Block):
            new, init = visit(stmt.body), None if stmt.init is None else visit(stmt.init)
            if new is None:
                raise ValueError(f"block {stmt.name} would be left empty")
            new = with_insert(stmt, new)
            return Block(
                stmt.name, stmt.iter_vars, stmt.reads, stmt.writes, new, init, allocs.get(key, stmt.alloc_buffers),
                stmt.match_buffers, stmt.annotations, stmt.ident,
            )
        if isinstance(stmt, IfThenElse):
            then = visit(stmt.then_case)
            if then is None:
                raise ValueError("a branch would be left empty")
            return IfThenElse(stmt.condition, then, None if stmt.else_case is None else visit(stmt.else_case))
        assert isinstance(stmt, LetStmt | AttrStmt | AssertStmt | While), type(stmt)
        new = visit(stmt.body)
        return None if new is None else replace(stmt, body=with_insert(stmt, new))

    def with_insert(stmt: Stmt, new: Stmt) -> Stmt:
        if not inserts or id(stmt) not in inserts:
            return new
        position, added = inserts[id(stmt)]
        old = stmt.body if isinstance(stmt, For | Block) else new
        # Positions count the old statements; removals in the same sequence would shift them.
        stmts = list(new.stmts) if isinstance(new, SeqStmt) else [new]
        assert len(stmts) == (len(old.stmts) if isinstance(old, SeqStmt) else 1), "insertion beside a removal"
        return seq(*stmts[:position], added, *stmts[position:])

    result = visit(body)
    assert result is not None
    return result
