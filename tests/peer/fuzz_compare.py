"""Programs modulo what TVM's structural equality sees and meaning does not: expression shape, allocation order, names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autosched.ir import PrimFunc
from autosched.ir.expr import BinOp, Expr
from autosched.ir.functor import Mutator, walk
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferRegion, BufferStore, For, Stmt
from autosched.ir.structural import _Encoder, canonical


class _Simplified(Mutator):
    """Every expression in normal form under the ranges of the variables around it; conjunctions sorted."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.names = _Encoder()  # numbers variables in the order in which loops bind them, whatever they are called

    def visit_expr(self, expr: Expr) -> Expr:
        return self.analyzer.simplify(expr)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        return replace(region, region=tuple(self.analyzer.simplify_range(r) for r in region.region))

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.analyzer.bind(stmt.var, (stmt.min, stmt.extent))
            self.names.var(stmt.var)
            return super().visit_stmt(stmt)
        if isinstance(stmt, BlockRealize):
            values = tuple(self.visit_expr(v) for v in stmt.iter_values)
            predicate = TRUE
            parts = {str(self.names.expr(p)): p for p in _parts(self.visit_expr(stmt.predicate))}
            for key in sorted(parts):
                predicate = parts[key] if predicate == TRUE else BinOp("and", predicate, parts[key], "bool")
            for iv in stmt.block.iter_vars:
                self.analyzer.bind(iv.var, iv.dom)
            return replace(stmt, iter_values=values, predicate=predicate, block=self.visit_block(stmt.block))
        return super().visit_stmt(stmt)


def _parts(e: Expr) -> list[Expr]:
    if isinstance(e, BinOp) and e.op == "and":
        return _parts(e.a) + _parts(e.b)
    return [e] if e != TRUE else []


class _Ordered(Mutator):
    """Allocations in the order in which they are first accessed."""

    def visit_block(self, block: Block) -> Block:
        new = super().visit_block(block)
        if len(new.alloc_buffers) < 2:
            return new
        seen: dict[Buffer, None] = {}
        for node in walk(new):
            if isinstance(node, Block):
                seen.update((r.buffer, None) for r in (*node.writes, *node.reads) if node is not new)
            elif isinstance(node, BufferStore):
                seen.setdefault(node.buffer)
        order = list(seen)
        allocs = sorted(new.alloc_buffers, key=lambda b: order.index(b) if b in seen else len(order))
        return replace(new, alloc_buffers=tuple(allocs))


def normal_form(func: PrimFunc) -> list[Any]:
    """The program as nested lists, equal for programs that differ in cosmetics only.

    Args:
        func: a program.
    """
    body = _Ordered().visit_stmt(_Simplified().visit_stmt(func.body))
    return canonical(replace(func, body=body), block_names=False)


def first_difference(a: str, b: str) -> str:
    """The first line in which two texts differ, both versions, for people."""
    left, right = ([x.strip() for x in t.splitlines() if x.strip() and not x.startswith("#")] for t in (a, b))
    for x, y in zip(left, right):
        if x != y:
            return f"ours {x} | tvm {y}"
    return f"ours has {len(left)} lines, tvm {len(right)}"
