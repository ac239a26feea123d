"""Programs modulo what TVM's structural equality sees and meaning does not: expression shape, allocation order, names."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from peer_declared import declared

from autosched.ir import PrimFunc
from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, IntImm, Not, Var, int_value, is_int, logical_and
from autosched.ir.functor import Mutator, free_vars, stmt_exprs, substitute, walk, walk_expr
from autosched.ir.region import block_access
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferRegion, BufferStore, For, Range, Stmt, point
from autosched.ir.structural import _Encoder, canonical


class _Simplified(Mutator):
    """Every expression in normal form under the ranges of the variables around it; conjunctions sorted, no ``not`` outside."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.names = _Encoder()  # numbers variables in the order in which loops bind them, whatever they are called

    def visit_expr(self, expr: Expr) -> Expr:
        floors = _Floors(self.analyzer, self.names)
        first = self._one_sided(self.analyzer.simplify(expr))
        e = floors.visit_expr(first)
        # What is compared may be a single quotient by now.
        return floors.visit_expr(self._one_sided(self.analyzer.simplify(e))) if e.dtype == "bool" and e != first else e

    def _one_sided(self, e: Expr) -> Expr:
        """``x == n`` as an inequality where n is the last (or first) value of x, inside conditions too."""
        if isinstance(e, BinOp):
            if e.op == "==":
                low, high = self.analyzer.int_bounds(e.a - e.b)
                if high == 0 or low == 0:
                    return self.analyzer.simplify(e.a >= e.b if high == 0 else e.a <= e.b)
            if e.op == "!=":
                low, high = self.analyzer.int_bounds(e.a - e.b)
                if high == 0 or low == 0:
                    return self.analyzer.simplify(e.a < e.b if high == 0 else e.a > e.b)
            if e.dtype == "bool" and e.op in ("and", "or"):
                return BinOp(e.op, self._one_sided(e.a), self._one_sided(e.b), "bool")
        if isinstance(e, Not):
            inner = self.analyzer.simplify(_negated(e.a))
            return inner if isinstance(inner, Not) else self._one_sided(inner)
        if isinstance(e, Call):
            return replace(e, args=tuple(self._one_sided(a) for a in e.args))
        return e

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        ranges = [Range(_monotone(r.min), _monotone(r.extent)) for r in region.region]
        floors = _Floors(self.analyzer, self.names)
        ranges = [self.analyzer.simplify_range(r) for r in ranges]
        return replace(region, region=tuple(Range(floors.visit_expr(r.min), floors.visit_expr(r.extent)) for r in ranges))

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.analyzer.bind(stmt.var, (stmt.min, stmt.extent))
            self.names.var(stmt.var)
            return super().visit_stmt(stmt)
        if isinstance(stmt, BlockRealize):
            with self.analyzer.with_constraint(self.analyzer.simplify(logical_and(*_parts(stmt.predicate)))):
                values = tuple(self.visit_expr(v) for v in stmt.iter_values)
            predicate: Expr = TRUE
            simple = [self.visit_expr(p) for p in _parts(stmt.predicate)]
            simple = [p if p is e else self.visit_expr(p) for e in simple for p in _parts(e)]
            parts = {str(self.names.expr(p)): p for p in simple if p != TRUE}
            for key in sorted(parts):  # what the other conditions say already
                with self.analyzer.with_constraint(logical_and(*(parts[k] for k in sorted(parts) if k != key))):
                    if self.analyzer.simplify(parts[key]) == TRUE:
                        del parts[key]
            for key in sorted(parts):
                predicate = parts[key] if predicate == TRUE else BinOp("and", predicate, parts[key], "bool")
            for iv in stmt.block.iter_vars:
                self.analyzer.bind(iv.var, iv.dom)
            return replace(stmt, iter_values=values, predicate=predicate, block=self.visit_block(stmt.block))
        return super().visit_stmt(stmt)


class _Chosen(Mutator):
    """Indices under the conditions of the ``if_then_else`` around them, which evaluates the operand that it chooses only.

    A region that a block declares as its accesses have it follows them; any other one stays.
    """

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.depth = 0
        # What the block around declares to read, and where its loads do, if the declaration says so under their conditions.
        self.loads: dict[Buffer, tuple[BufferRegion, list[BufferRegion | None]]] = {}

    def visit_expr(self, expr: Expr) -> Expr:
        if not isinstance(expr, Call) or expr.op != "if_then_else":
            return super().visit_expr(expr)
        condition = self.visit_expr(expr.args[0])
        self.depth += 1
        with self.analyzer.with_constraint(condition):
            there = self.visit_expr(expr.args[1])
        with self.analyzer.with_constraint(Not(condition)):
            here = self.visit_expr(expr.args[2])
        self.depth -= 1
        if isinstance(there, Call) and there.op == "if_then_else" and there.args[2] == here:  # one choice under both
            condition, there = BinOp("and", condition, there.args[0], "bool"), there.args[1]
        return replace(expr, args=(condition, there, here))

    def visit_load(self, load: BufferLoad) -> Expr:
        new = super().visit_load(load)
        if not isinstance(new, BufferLoad):
            return new
        here = point(new.buffer, new.indices)
        if self.depth:
            known = {v: self.analyzer.const_value(v) for i in new.indices for v in free_vars(i)}
            fixed = {v: IntImm(c, v.dtype) for v, c in known.items() if c is not None}
            new = replace(new, indices=tuple(self._only(self.analyzer.simplify(substitute(i, fixed))) for i in new.indices))
        if new.buffer in self.loads:
            declared, found = self.loads[new.buffer]
            found.append(point(new.buffer, new.indices) if self._same(declared, here) else None)
        return new

    def _only(self, e: Expr) -> Expr:
        """The value of an expression that has one only."""
        low, high = self.analyzer.int_bounds(e)
        return IntImm(low, e.dtype) if low is not None and low == high else e

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.analyzer.bind(stmt.var, (stmt.min, stmt.extent))
        return super().visit_stmt(stmt)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        return region

    def visit_block(self, block: Block) -> Block:
        for iv in block.iter_vars:
            self.analyzer.bind(iv.var, iv.dom)
        leaf = not any(isinstance(s, BlockRealize) for s in walk(block.body))
        outside, self.loads = self.loads, {r.buffer: (r, []) for r in block.reads} if leaf else {}
        new = super().visit_block(block)
        loads, self.loads = self.loads, outside
        was, now = ({r.buffer: r for r in block_access(b)[0]} for b in (block, new))
        reads = []
        for r in new.reads:
            points = loads[r.buffer][1] if leaf else []
            if self._same(r, was.get(r.buffer)):
                r = now.get(r.buffer, r)
            elif points and points[0] is not None and all(self._same(points[0], p) for p in points):
                r = points[0]
            reads.append(r)
        return replace(new, reads=tuple(reads))

    def _same(self, a: BufferRegion, b: BufferRegion | None) -> bool:
        return b is not None and all(
            self.analyzer.can_prove_equal(x.min, y.min) and self.analyzer.can_prove_equal(x.extent, y.extent)
            for x, y in zip(a.region, b.region)
        )


class _Floors(Mutator):
    """Integer expressions as sums of quotients: ``x % c`` is ``x - x // c * c``, ``x // a // b`` is ``x // (a * b)``.

    What ``if_then_else`` chooses is simplified under its condition.

    Args:
        analyzer: ranges of the variables.
        names: what orders the terms, whatever variables are called.
    """

    def __init__(self, analyzer: Analyzer, names: _Encoder) -> None:
        self.analyzer = analyzer
        self.names = names

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BinOp) and expr.op in ("+", "-", "*", "//", "%") and expr.dtype in ("int32", "int64"):
            if not any(isinstance(e, BufferLoad) for e in walk_expr(expr)):
                return self._sum(*self._halves(self._terms(expr), expr.dtype), expr.dtype)
        if isinstance(expr, Call) and expr.op == "if_then_else":
            condition, chosen, other = expr.args
            condition = self.visit_expr(condition)
            with self.analyzer.with_constraint(condition):
                chosen = self.visit_expr(self.analyzer.simplify(chosen))
            return replace(expr, args=(condition, chosen, self.visit_expr(other)))
        if isinstance(expr, Var) and expr.dtype in ("int32", "int64"):
            return self._sum(*self._terms(expr), expr.dtype)
        return super().visit_expr(expr)

    def _terms(self, e: Expr) -> tuple[dict[Expr, int], int]:
        """Coefficients of what is no sum, and the constant."""
        value = int_value(e)
        if value is not None:
            return {}, value
        if isinstance(e, BinOp):
            by = int_value(e.b)
            if e.op in ("+", "-"):
                return _plus(self._terms(e.a), self._terms(e.b), 1 if e.op == "+" else -1)
            if e.op == "*" and by is not None:
                return _plus(({}, 0), self._terms(e.a), by)
            if e.op in ("//", "%") and by:
                inner = self._terms(e.a)
                upright = _plus(({}, 0), inner, 1 if by > 0 else -1)
                quotient = self._floor(upright, abs(by), e.dtype)
                return quotient if e.op == "//" else _plus(inner, quotient, -by)
        low, high = self.analyzer.int_bounds(e)
        if low is not None and low == high:
            return {}, low
        return {e if isinstance(e, Var) else super().visit_expr(e): 1}, 0

    def _halves(self, form: tuple[dict[Expr, int], int], dtype: str) -> tuple[dict[Expr, int], int]:
        """``x - x // 2`` is ``(x + 1) // 2``."""
        for half, count in form[0].items():
            if count == -1 and isinstance(half, BinOp) and half.op == "//" and int_value(half.b) == 2:
                x = self._terms(half.a)
                if all(form[0].get(t) == c for t, c in x[0].items()):
                    without = _plus(_plus(form, x, -1), ({half: 1}, 0), 1)
                    return _plus(without, self._floor((x[0], x[1] + 1), 2, dtype), 1)
        return form

    def _floor(self, form: tuple[dict[Expr, int], int], by: int, dtype: str) -> tuple[dict[Expr, int], int]:
        whole = {t: c // by for t, c in form[0].items() if c % by == 0}
        rest = {t: c for t, c in form[0].items() if c % by}
        const, left = divmod(form[1], by)
        if not rest:
            return whole, const
        common = gcd(by, *rest.values())
        rest, left, by = {t: c // common for t, c in rest.items()}, left // common, by // common
        if rest[min(rest, key=self._key)] < 0:  # -u // c is -((u + c - 1) // c)
            turned = {t: -c for t, c in rest.items()}, by - 1 - left
            return _plus((whole, const), self._floor(turned, by, dtype), -1)
        (term, count), *more = rest.items()
        if not more and count == 1 and isinstance(term, BinOp) and term.op == "//" and int_value(term.b) is not None:
            inside = int_value(term.b) or 1
            below, offset = self._terms(term.a)
            return _plus((whole, const), self._floor((below, offset + left * inside), by * inside, dtype), 1)
        quotient = BinOp("//", self._sum(rest, left, dtype), IntImm(by, dtype), dtype)
        low, high = self.analyzer.int_bounds(quotient)
        if low is not None and low == high:
            return whole, const + low
        return _plus((whole, const), ({quotient: 1}, 0), 1)

    def _key(self, term: Expr) -> str:
        return str(self.names.expr(term))

    def _sum(self, terms: dict[Expr, int], const: int, dtype: str) -> Expr:
        out: Expr | None = None
        for term in sorted(terms, key=self._key):
            part = term if terms[term] == 1 else BinOp("*", term, IntImm(terms[term], dtype), dtype)
            out = part if out is None else BinOp("+", out, part, dtype)
        last = IntImm(const, dtype)
        return last if out is None else out if const == 0 else BinOp("+", out, last, dtype)


def _plus(a: tuple[dict[Expr, int], int], b: tuple[dict[Expr, int], int], by: int) -> tuple[dict[Expr, int], int]:
    terms = dict(a[0])
    for t, c in b[0].items():
        terms[t] = terms.get(t, 0) + c * by
    return {t: c for t, c in terms.items() if c}, a[1] + b[1] * by


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "and": "or", "or": "and"}


def _negated(e: Expr) -> Expr:
    """``not e`` with the negation moved inwards as far as it goes; comparisons of integers only."""
    if isinstance(e, Not):
        return e.a
    if isinstance(e, BinOp) and e.op in ("and", "or"):
        return BinOp(_OPPOSITE[e.op], _negated(e.a), _negated(e.b), "bool")
    if isinstance(e, BinOp) and e.op in _OPPOSITE and is_int(e.a.dtype):
        return BinOp(_OPPOSITE[e.op], e.a, e.b, "bool")
    return Not(e)


class _Monotone(Mutator):
    """The least (greatest) of two quotients by the same positive constant is the quotient of the least (greatest)."""

    def visit_expr(self, expr: Expr) -> Expr:
        e = super().visit_expr(expr)
        if isinstance(e, BinOp) and e.op in ("min", "max"):
            a, b = e.a, e.b
            if isinstance(a, BinOp) and isinstance(b, BinOp) and a.op == b.op == "//" and a.b == b.b:
                if (int_value(a.b) or 0) > 0:
                    return BinOp("//", BinOp(e.op, a.a, b.a, e.dtype), a.b, e.dtype)
        return e


def _monotone(e: Expr) -> Expr:
    return _Monotone().visit_expr(e)


def _parts(e: Expr) -> list[Expr]:
    if isinstance(e, BinOp) and e.op == "and":
        return _parts(e.a) + _parts(e.b)
    if isinstance(e, BinOp) and e.op == "==" and is_int(e.a.dtype):
        return [e.a >= e.b, e.a < e.b + 1]
    return [e] if e != TRUE else []


class _Ordered(Mutator):
    """Allocations, and the regions that blocks declare, in the order in which the buffers are first accessed."""

    def __init__(self, func: PrimFunc) -> None:
        self.seen: dict[Buffer, int] = {}
        for node in walk(func.body):
            if isinstance(node, BufferStore):
                self.seen.setdefault(node.buffer, len(self.seen))
            for expr in stmt_exprs(node):
                for e in walk_expr(expr):
                    if isinstance(e, BufferLoad):
                        self.seen.setdefault(e.buffer, len(self.seen))

    def place(self, buffer: Buffer) -> int:
        return self.seen.get(buffer, len(self.seen))

    def visit_block(self, block: Block) -> Block:
        new = super().visit_block(block)
        return replace(
            new, alloc_buffers=tuple(sorted(new.alloc_buffers, key=self.place)),
            reads=tuple(sorted(new.reads, key=lambda r: self.place(r.buffer))),
            writes=tuple(sorted(new.writes, key=lambda r: self.place(r.buffer))),
        )


class _Used(Mutator):
    """Blocks without the spatial iterators that nothing in them mentions: they say nothing about what is computed."""

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        new = super().visit_stmt(stmt)
        if not isinstance(new, BlockRealize):
            return new
        block = new.block
        regions = [*block.reads, *block.writes, *(m.source for m in block.match_buffers)]
        inside = [block.body] if block.init is None else [block.body, block.init]
        used = {v for part in inside for v in free_vars(part)}
        used |= {v for region in regions for r in region.region for e in (r.min, r.extent) for v in free_vars(e)}
        kept = [k for k, iv in enumerate(block.iter_vars) if iv.kind != "spatial" or iv.var in used]
        return replace(
            new, iter_values=tuple(new.iter_values[k] for k in kept),
            block=replace(block, iter_vars=tuple(block.iter_vars[k] for k in kept)),
        )


def normal_form(func: PrimFunc) -> list[Any]:
    """The program as nested lists, equal for programs that differ in cosmetics only.

    Args:
        func: a program.
    """
    func = replace(func, body=declared(func.body))
    body = _Used().visit_stmt(_Simplified().visit_stmt(_Chosen().visit_stmt(func.body)))
    body = _Ordered(func).visit_stmt(body)
    return canonical(replace(func, body=body), block_names=False)


def first_difference(a: str, b: str) -> str:
    """The first line in which two texts differ, both versions, for people."""
    left, right = ([x.strip() for x in t.splitlines() if x.strip() and not x.startswith("#")] for t in (a, b))
    for x, y in zip(left, right):
        if x != y:
            return f"ours {x} | tvm {y}"
    return f"ours has {len(left)} lines, tvm {len(right)}"
