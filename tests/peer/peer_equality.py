"""Equality as TVM's tests mean it, in two strengths.

``strict`` is TVM's structural equality: names of blocks, loops and buffers do not count; order of allocations, shape of
index expressions, alignment and function attributes do. ``modulo`` compares after every index expression of both sides
has been brought into the affine normal form under the domains around it, allocations have been sorted by first use, and
the reads of tables (``peer_declared.py``) have been declared.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from peer_declared import declared

from autosched.ir.expr import BinOp, BufferLoad, Expr, IntImm, Var, logical_and
from autosched.ir.functor import Mutator, expr_children, free_vars, stmt_children, stmt_exprs, substitute
from autosched.ir.linear import conjuncts
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferRegion, For, IRModule, PrimFunc, Range, Stmt
from autosched.ir.structural import _Encoder, plain


class StrictEncoder(_Encoder):
    """The canonical form with what TVM compares and keys of workloads leave out."""

    def buffer(self, b: Buffer) -> list[Any]:
        seen = b in self.buffers
        code = super().buffer(b)
        return code if seen else [*code, 64 if b.align < 1 else b.align, max(b.offset_factor, 1)]


class _Normal(Mutator):
    """Every integer expression in normal form, under the loops and block iterators around it."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def visit_expr(self, expr: Expr) -> Expr:
        if expr.dtype.startswith(("int", "bool")) and not _reads(expr):
            return self.analyzer.simplify(expr)
        return super().visit_expr(expr)

    def widened(self, predicate: Expr) -> Expr:
        """Upper limits of variables as wide as the other conditions allow: ``i < 15 and i % 4 < 3`` has ``i < 16``."""
        parts = list(conjuncts(predicate))
        for k, part in enumerate(parts):
            if not (isinstance(part, BinOp) and part.op == "<" and isinstance(part.a, Var) and isinstance(part.b, IntImm)):
                continue
            limit = part.b.value
            others = [o for o in (*parts[:k], *parts[k + 1:]) if part.a in free_vars(o)]
            for _ in range(1024):
                at = {part.a: IntImm(limit, part.a.dtype)}
                if not any(_is_false(self.analyzer.simplify(substitute(o, at))) for o in others):
                    break
                limit += 1
            parts[k] = BinOp("<", part.a, IntImm(limit, part.a.dtype), "bool")
        return logical_and(*parts)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        ranges = tuple(Range(self.visit_expr(r.min), self.visit_expr(r.extent)) for r in region.region)
        return BufferRegion(region.buffer, ranges)

    def visit_block(self, block: Block) -> Block:
        for iv in block.iter_vars:
            self.analyzer.bind(iv.var, iv.dom)
        return super().visit_block(block)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.analyzer.bind(stmt.var, Range(stmt.min, stmt.extent))
        if isinstance(stmt, BlockRealize):
            values = tuple(self.visit_expr(v) for v in stmt.iter_values)
            predicate = self.visit_expr(self.widened(stmt.predicate))
            return BlockRealize(values, _sorted_and(predicate), self.visit_block(stmt.block))
        return super().visit_stmt(stmt)


def _reads(expr: Expr) -> bool:
    return isinstance(expr, BufferLoad) or any(_reads(e) for e in expr_children(expr))


def _is_false(e: Expr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _strictly(e: Expr) -> Expr:
    """``a < b + 1`` for ``a <= b``."""
    if isinstance(e, BinOp) and e.op == "<=":
        return BinOp("<", e.a, simplify(e.b + 1), "bool")
    return e


def _sorted_and(predicate: Expr) -> Expr:
    return logical_and(*sorted(map(_strictly, conjuncts(predicate)), key=lambda e: str(_Encoder().expr(e))))


class _SortAllocs(Mutator):
    """Allocations of each block in the order of their first use in its body, regions by the order of their buffers."""

    def visit_block(self, block: Block) -> Block:
        done = super().visit_block(block)
        order = {b: i for i, b in enumerate(_uses(done))}
        last = len(order)
        allocs = tuple(sorted(done.alloc_buffers, key=lambda b: order.get(b, last)))
        return replace(done, alloc_buffers=allocs)


def _uses(block: Block) -> list[Buffer]:
    found: dict[Buffer, None] = {}

    def expr(e: Expr) -> None:
        buffer = getattr(e, "buffer", None)
        if isinstance(buffer, Buffer):
            found.setdefault(buffer)
        for child in expr_children(e):
            expr(child)

    def stmt(s: Stmt) -> None:
        if isinstance(s, Block):
            for m in s.match_buffers:
                found.setdefault(m.source.buffer)
        for e in stmt_exprs(s):
            expr(e)
        buffer = getattr(s, "buffer", None)
        if isinstance(buffer, Buffer):
            found.setdefault(buffer)
        for child in stmt_children(s):
            stmt(child)

    stmt(block)
    return list(found)


def attributes(func: PrimFunc) -> dict[str, Any]:
    """The function attributes that count, under today's prefix."""
    named = {"tirx." + k[4:] if k.startswith("tir.") else k: plain(v) for k, v in func.attrs.items()}
    named.pop("global_symbol", None)
    return named


def _code(enc: _Encoder, node: Any) -> Any:
    if isinstance(node, PrimFunc):
        params = [enc.buffer(p) if isinstance(p, Buffer) else enc.var(p) for p in node.params]
        return [attributes(node), params, enc.stmt(node.body)]
    return enc.expr(node) if isinstance(node, Expr) else enc.stmt(node)


def normal(node: Any) -> Any:
    """A program (or statement, or expression) in normal form."""
    def one(s: Any) -> Any:
        s = _Normal().visit_expr(s) if isinstance(s, Expr) else _Normal().visit_stmt(declared(s))
        return s if isinstance(s, Expr) else _SortAllocs().visit_stmt(s)
    return replace(node, body=one(node.body)) if isinstance(node, PrimFunc) else one(node)


def compare(a: Any, b: Any) -> str:
    """``strict``, ``modulo`` or ``different``."""
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        if set(a.functions) != set(b.functions):
            return "different"
        grades = [compare(a[n], b[n]) for n in a.functions]
        return next((g for g in ("different", "modulo") if g in grades), "strict")
    if not isinstance(a, PrimFunc | Stmt | Expr):
        return "strict" if plain(a) == plain(b) else "different"
    if type(a) is not type(b) and not (isinstance(a, PrimFunc) and isinstance(b, PrimFunc)):
        return "different"
    if _code(StrictEncoder(False), a) == _code(StrictEncoder(False), b):
        return "strict"
    return "modulo" if _code(_Encoder(False), normal(a)) == _code(_Encoder(False), normal(b)) else "different"


def difference(a: Any, b: Any) -> str:
    """A unified diff of the two programs in normal form, for a report."""

    def text(node: Any) -> list[str]:
        if isinstance(node, IRModule):
            return [line for f in node.functions.values() for line in text(f)]
        if isinstance(node, PrimFunc):
            done = normal(node)
            return str(done.script()).splitlines()
        return repr(node).splitlines()

    return "\n".join(difflib.unified_diff(text(a), text(b), "left", "right", lineterm="", n=2))
