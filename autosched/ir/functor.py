"""Walking and rewriting programs: every rewrite shares what it does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import TypeVar

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Not,
    Ramp,
    Reduce,
    Select,
    Var,
    binary,
    cast,
)
from autosched.ir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBuffer,
    Range,
    SeqStmt,
    Stmt,
    While,
    seq,
    with_body,
)

E = TypeVar("E", bound=Expr)
_LEAVES = frozenset({Var, IntImm})
_WRAPPERS = (While, LetStmt, AttrStmt, AssertStmt)


def expr_children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression."""
    # By exact class, since walks are the most frequent thing that a schedule does.
    if type(expr) is BinOp:
        return (expr.a, expr.b)
    if type(expr) in _LEAVES:
        return ()
    if isinstance(expr, BufferLoad):
        return expr.indices
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Cast):
        return (expr.value,)
    if isinstance(expr, Select):
        return (expr.condition, expr.true_value, expr.false_value)
    if isinstance(expr, Not):
        return (expr.a,)
    if isinstance(expr, Ramp):
        return (expr.base, expr.stride)
    if isinstance(expr, Let):
        return (expr.value, expr.body)
    if isinstance(expr, Reduce):
        return (expr.source,) + ((expr.condition,) if expr.condition is not None else ())
    return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """All nodes of an expression, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if type(node) is BinOp:
            stack += (node.b, node.a)
        elif type(node) not in _LEAVES:
            stack.extend(reversed(expr_children(node)))


def found_in(exprs: Iterable[Expr], kind: type[E]) -> list[E]:
    """The nodes of a kind in some expressions, each before those in it.

    Args:
        exprs: the expressions.
        kind: a class of expressions; no arithmetic, variable or number.
    """
    found: list[E] = []
    stack = list(exprs)[::-1]
    while stack:
        node = stack.pop()
        own = type(node)
        if own is BinOp:
            stack += (node.b, node.a)  # type: ignore[attr-defined]
        elif own not in _LEAVES:
            if isinstance(node, kind):
                found.append(node)
            stack.extend(reversed(expr_children(node)))
    return found


def stmt_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement holds itself (not those of its children)."""
    if isinstance(stmt, BufferStore):
        return (*stmt.indices, stmt.value)
    if isinstance(stmt, Evaluate):
        return (stmt.value,)
    if isinstance(stmt, For):
        return (stmt.min, stmt.extent)
    if isinstance(stmt, IfThenElse | While):
        return (stmt.condition,)
    if isinstance(stmt, BlockRealize):
        return (*stmt.iter_values, stmt.predicate)
    if isinstance(stmt, LetStmt | AttrStmt):
        return (stmt.value,)
    if isinstance(stmt, AssertStmt):
        return (stmt.condition,)
    return ()


def stmt_children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The direct sub-statements; a block's init comes before its body."""
    if isinstance(stmt, For):
        return (stmt.body,)
    if isinstance(stmt, SeqStmt):
        return stmt.stmts
    if isinstance(stmt, BlockRealize):
        return (stmt.block,)
    if isinstance(stmt, Block):
        return (stmt.init, stmt.body) if stmt.init is not None else (stmt.body,)
    if isinstance(stmt, BufferStore):
        return ()
    if isinstance(stmt, _WRAPPERS):
        return (stmt.body,)
    if isinstance(stmt, IfThenElse):
        return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
    return ()


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """All statements below ``stmt`` and itself, parents first, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        below = stmt_children(node)
        if len(below) == 1:
            stack.append(below[0])
        else:
            stack.extend(reversed(below))


def all_exprs(stmt: Stmt) -> Iterator[Expr]:
    """Every expression node anywhere in a statement (block regions not included)."""
    for node in walk(stmt):
        for expr in stmt_exprs(node):
            yield from walk_expr(expr)


def uses(expr: Expr, names: Mapping[Var, object] | set[Var]) -> bool:
    """Whether an expression mentions one of some variables."""
    kind = type(expr)
    if kind is Var:
        return expr in names
    if kind is IntImm:
        return False
    for e in walk_expr(expr):  # noqa: SIM110  (every check asks this of every binding)
        if isinstance(e, Var) and e in names:
            return True
    return False


def free_vars(node: Expr | Stmt) -> dict[Var, None]:
    """The variables that occur in ``node``, in order of first appearance (binders included for statements)."""
    if type(node) is IntImm:
        return {}
    exprs = walk_expr(node) if isinstance(node, Expr) else all_exprs(node)
    return {e: None for e in exprs if isinstance(e, Var)}


class Mutator:
    """A rewriter: override ``expr``/``stmt`` hooks; untouched nodes are returned as they are.

    Subclasses override ``visit_var``, ``visit_load``, ``visit_buffer`` for the common cases, or ``visit_expr`` and
    ``visit_stmt`` for all.
    """

    def visit_var(self, var: Var) -> Expr:
        """What a use of a variable becomes."""
        return var

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        """What a buffer becomes wherever it is named."""
        return buffer

    def visit_load(self, load: BufferLoad) -> Expr:
        """What a load becomes; its operands have been rewritten by the default."""
        indices = self.visit_exprs(load.indices)
        buffer = self.visit_buffer(load.buffer)
        if indices is load.indices and buffer is load.buffer:
            return load
        return BufferLoad(buffer, indices, buffer.dtype)

    def visit_exprs(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Rewrites a tuple, returning the same tuple when nothing changes."""
        new = tuple([self.visit_expr(e) for e in exprs])
        return exprs if all(map(is_, new, exprs)) else new

    def visit_expr(self, expr: Expr) -> Expr:
        """Rewrites one expression bottom-up; constants fold again."""
        kind = type(expr)
        if kind is IntImm:
            return expr
        if isinstance(expr, Var):
            return self.visit_var(expr)
        if kind is BinOp:
            assert isinstance(expr, BinOp)
            a, b = self.visit_expr(expr.a), self.visit_expr(expr.b)
            return expr if a is expr.a and b is expr.b else binary(expr.op, a, b)
        if isinstance(expr, BufferLoad):
            return self.visit_load(expr)
        if isinstance(expr, Cast):
            value = self.visit_expr(expr.value)
            return expr if value is expr.value else cast(expr.dtype, value)
        if isinstance(expr, Call):
            args = self.visit_exprs(expr.args)
            return expr if args is expr.args else Call(expr.op, args, expr.dtype)
        if isinstance(expr, BufferData):
            buffer = self.visit_buffer(expr.buffer)
            return expr if buffer is expr.buffer else BufferData(buffer)
        if isinstance(expr, Select):
            c, t, f = self.visit_exprs((expr.condition, expr.true_value, expr.false_value))
            return Select(c, t, f, expr.dtype)
        if isinstance(expr, Not):
            return Not(self.visit_expr(expr.a))
        if isinstance(expr, Ramp):
            return Ramp(self.visit_expr(expr.base), self.visit_expr(expr.stride), expr.lanes, expr.dtype)
        if isinstance(expr, Let):
            return Let(expr.var, self.visit_expr(expr.value), self.visit_expr(expr.body), expr.dtype)
        if isinstance(expr, Reduce):
            condition = None if expr.condition is None else self.visit_expr(expr.condition)
            return replace(expr, source=self.visit_expr(expr.source), condition=condition)
        return expr

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        """Rewrites a region."""
        ranges = tuple([self._range(r) for r in region.region])
        buffer = self.visit_buffer(region.buffer)
        if buffer is region.buffer and all(map(is_, ranges, region.region)):
            return region
        return BufferRegion(buffer, ranges)

    def visit_block(self, block: Block) -> Block:
        """Rewrites a block's parts; ``ident`` stays."""
        iter_vars = tuple([
            iv if (d := self._range(iv.dom)) is iv.dom else replace(iv, dom=d) for iv in block.iter_vars
        ])
        reads = tuple([self.visit_region(r) for r in block.reads])
        writes = tuple([self.visit_region(r) for r in block.writes])
        init = None if block.init is None else self.visit_stmt(block.init)
        body = self.visit_stmt(block.body)
        allocs = tuple([self.visit_buffer(b) for b in block.alloc_buffers])
        matches = tuple([
            MatchBuffer(self.visit_buffer(m.buffer), self.visit_region(m.source)) for m in block.match_buffers
        ])
        same = (
            body is block.body and init is block.init
            and all(map(is_, iter_vars, block.iter_vars)) and all(map(is_, reads, block.reads))
            and all(map(is_, writes, block.writes)) and all(map(is_, allocs, block.alloc_buffers))
            and all(
                m.buffer is n.buffer and m.source is n.source for m, n in zip(matches, block.match_buffers)
            )
        )
        if same:
            return block
        return Block(block.name, iter_vars, reads, writes, body, init, allocs, matches, block.annotations, block.ident)

    def _range(self, r: Range) -> Range:
        lo = r.min if type(r.min) is IntImm else self.visit_expr(r.min)
        extent = r.extent if type(r.extent) is IntImm else self.visit_expr(r.extent)
        return r if lo is r.min and extent is r.extent else Range(lo, extent)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        """Rewrites one statement and everything below it."""
        if isinstance(stmt, For):
            # Constant bounds stay as they are: most of what a rewrite passes are loops.
            lo = stmt.min if type(stmt.min) is IntImm else self.visit_expr(stmt.min)
            extent = stmt.extent if type(stmt.extent) is IntImm else self.visit_expr(stmt.extent)
            body = self.visit_stmt(stmt.body)
            if lo is stmt.min and extent is stmt.extent and body is stmt.body:
                return stmt
            return For(stmt.var, lo, extent, stmt.kind, body, stmt.thread, stmt.annotations)
        if isinstance(stmt, BlockRealize):
            values, predicate = self.visit_exprs(stmt.iter_values), self.visit_expr(stmt.predicate)
            block = self.visit_block(stmt.block)
            if values is stmt.iter_values and predicate is stmt.predicate and block is stmt.block:
                return stmt
            return BlockRealize(values, predicate, block)
        if isinstance(stmt, SeqStmt):
            stmts = tuple([self.visit_stmt(s) for s in stmt.stmts])
            return stmt if all(map(is_, stmts, stmt.stmts)) else seq(*stmts)
        if isinstance(stmt, BufferStore):
            indices, value = self.visit_exprs(stmt.indices), self.visit_expr(stmt.value)
            buffer = self.visit_buffer(stmt.buffer)
            if indices is stmt.indices and value is stmt.value and buffer is stmt.buffer:
                return stmt
            return BufferStore(buffer, indices, value)
        if isinstance(stmt, Block):
            return self.visit_block(stmt)
        if isinstance(stmt, Evaluate):
            value = self.visit_expr(stmt.value)
            return stmt if value is stmt.value else Evaluate(value)
        if isinstance(stmt, IfThenElse):
            other = None if stmt.else_case is None else self.visit_stmt(stmt.else_case)
            condition, then = self.visit_expr(stmt.condition), self.visit_stmt(stmt.then_case)
            if condition is stmt.condition and then is stmt.then_case and other is stmt.else_case:
                return stmt
            return IfThenElse(condition, then, other)
        if isinstance(stmt, LetStmt):
            return LetStmt(stmt.var, self.visit_expr(stmt.value), self.visit_stmt(stmt.body))
        if isinstance(stmt, AttrStmt):
            return AttrStmt(stmt.node, stmt.key, self.visit_expr(stmt.value), self.visit_stmt(stmt.body))
        if isinstance(stmt, AssertStmt):
            return AssertStmt(self.visit_expr(stmt.condition), stmt.message, self.visit_stmt(stmt.body))
        if isinstance(stmt, While):
            return While(self.visit_expr(stmt.condition), self.visit_stmt(stmt.body))
        return stmt


class Substitute(Mutator):
    """Replaces variables by expressions and buffers by buffers, everywhere."""

    def __init__(
        self, vmap: Mapping[Var, Expr] | None = None, bmap: Mapping[Buffer, Buffer] | None = None
    ) -> None:
        self.vmap = vmap or {}
        self.bmap = bmap or {}

    def visit_var(self, var: Var) -> Expr:
        return self.vmap.get(var, var)

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self.bmap.get(buffer, buffer)


def substitute(expr: Expr, vmap: Mapping[Var, Expr]) -> Expr:
    """``expr`` with variables replaced."""
    return Substitute(vmap).visit_expr(expr) if vmap else expr


def substitute_stmt(stmt: Stmt, vmap: Mapping[Var, Expr]) -> Stmt:
    """``stmt`` with variables replaced (binders are not renamed)."""
    return Substitute(vmap).visit_stmt(stmt) if vmap else stmt


def replace_buffers(stmt: Stmt, bmap: Mapping[Buffer, Buffer]) -> Stmt:
    """``stmt`` with buffers replaced in loads, stores, regions, allocations and matches."""
    return Substitute(None, bmap).visit_stmt(stmt) if bmap else stmt


def rewrite(stmt: Stmt, target: Stmt, new: Stmt) -> Stmt:
    """``stmt`` with the node ``target`` (by identity) replaced by ``new``; all else is shared."""
    return rewrite_many(stmt, {id(target): new})


def rewrite_many(stmt: Stmt, table: Mapping[int, Stmt]) -> Stmt:
    """``stmt`` with nodes replaced by ``id``; replaced nodes are not descended into."""
    hit = table.get(id(stmt))
    if hit is not None:
        return hit
    if isinstance(stmt, For):
        body = rewrite_many(stmt.body, table)
        return stmt if body is stmt.body else with_body(stmt, body)
    if isinstance(stmt, SeqStmt):
        stmts = [rewrite_many(s, table) for s in stmt.stmts]
        return stmt if all(map(is_, stmts, stmt.stmts)) else seq(*stmts)
    if isinstance(stmt, BlockRealize):
        block = rewrite_many(stmt.block, table)
        if block is stmt.block:
            return stmt
        assert isinstance(block, Block)
        return BlockRealize(stmt.iter_values, stmt.predicate, block)
    if isinstance(stmt, Block):
        body = rewrite_many(stmt.body, table)
        init = None if stmt.init is None else rewrite_many(stmt.init, table)
        return stmt if body is stmt.body and init is stmt.init else replace(stmt, body=body, init=init)
    if isinstance(stmt, IfThenElse):
        then = rewrite_many(stmt.then_case, table)
        other = None if stmt.else_case is None else rewrite_many(stmt.else_case, table)
        same = then is stmt.then_case and other is stmt.else_case
        return stmt if same else IfThenElse(stmt.condition, then, other)
    if isinstance(stmt, LetStmt | AttrStmt | AssertStmt | While):
        body = rewrite_many(stmt.body, table)
        return stmt if body is stmt.body else replace(stmt, body=body)
    return stmt


def find(stmt: Stmt, test: Callable[[Stmt], bool]) -> Stmt | None:
    """The first statement for which ``test`` holds, in program order, or None."""
    return next((n for n in walk(stmt) if test(n)), None)
