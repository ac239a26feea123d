"""Structural equality, hash and canonical JSON of programs.

The canonical form renames variables and buffers by first appearance and keeps block names (traces look blocks up by name);
equality of programs is equality of that form. Its SHA-256 is the workload key.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Not,
    Ramp,
    Reduce,
    Select,
    StringImm,
    Var,
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
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)


class _Encoder:
    """Turns a program into nested lists; one instance per program."""

    def __init__(self, block_names: bool = True) -> None:
        self.vars: dict[Var, int] = {}
        self.buffers: dict[Buffer, int] = {}
        self.block_names = block_names

    def var(self, v: Var) -> list[Any]:
        n = self.vars.get(v)
        if n is None:
            n = self.vars[v] = len(self.vars)
            return ["v", n, v.dtype]
        return ["v", n]

    def buffer(self, b: Buffer) -> list[Any]:
        n = self.buffers.get(b)
        if n is not None:
            return ["b", n]
        n = self.buffers[b] = len(self.buffers)
        extra: list[Any] = []
        if b.axis_separators:
            extra.append(["sep", list(b.axis_separators)])
        if b.strides:
            extra.append(["strides", [self.expr(s) for s in b.strides]])
        if b.elem_offset is not None:
            extra.append(["offset", self.expr(b.elem_offset)])
        return ["b", n, [self.expr(s) for s in b.shape], b.dtype, b.scope, *extra]

    def expr(self, e: Expr) -> Any:
        # The exact classes first: a program is mostly variables and numbers.
        if type(e) is IntImm:
            return e.value if e.dtype == "int32" else ["i", e.value, e.dtype]
        if type(e) is Var:
            n = self.vars.get(e)
            return ["v", n] if n is not None else self.var(e)
        if isinstance(e, Var):
            return self.var(e)
        if isinstance(e, BinOp):
            return [e.op, self.expr(e.a), self.expr(e.b)]
        if isinstance(e, BufferLoad):
            return ["load", self.buffer(e.buffer), *[self.expr(i) for i in e.indices]]
        if isinstance(e, Cast):
            return ["cast", e.dtype, self.expr(e.value)]
        if isinstance(e, Call):
            return ["call", e.op, e.dtype, *[self.expr(a) for a in e.args]]
        if isinstance(e, FloatImm):
            return ["f", repr(e.value), e.dtype]
        if isinstance(e, StringImm):
            return ["s", e.value]
        if isinstance(e, BufferData):
            return ["data", self.buffer(e.buffer)]
        if isinstance(e, Select):
            return ["select", self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)]
        if isinstance(e, Not):
            return ["not", self.expr(e.a)]
        if isinstance(e, Ramp):
            return ["ramp", self.expr(e.base), self.expr(e.stride), e.lanes]
        if isinstance(e, Let):
            return ["let", self.var(e.var), self.expr(e.value), self.expr(e.body)]
        assert isinstance(e, Reduce), type(e)
        return ["reduce", e.op, self.expr(e.source)]

    def region(self, r: BufferRegion) -> list[Any]:
        return [self.buffer(r.buffer), *[[self.expr(x.min), self.expr(x.extent)] for x in r.region]]

    def stmt(self, s: Stmt) -> Any:
        if isinstance(s, For):
            lo, extent = self.expr(s.min), self.expr(s.extent)
            notes = [["thread", s.thread]] if s.thread else []
            return ["for", self.var(s.var), lo, extent, s.kind, _notes(s.annotations), *notes, self.stmt(s.body)]
        if isinstance(s, SeqStmt):
            return ["seq", *[self.stmt(x) for x in s.stmts]]
        if isinstance(s, BlockRealize):
            values = [self.expr(v) for v in s.iter_values]
            return ["realize", values, self.expr(s.predicate), self.stmt(s.block)]
        if isinstance(s, Block):
            return self.block(s)
        if isinstance(s, BufferStore):
            return ["store", self.buffer(s.buffer), [self.expr(i) for i in s.indices], self.expr(s.value)]
        if isinstance(s, Evaluate):
            return ["eval", self.expr(s.value)]
        if isinstance(s, IfThenElse):
            other = None if s.else_case is None else self.stmt(s.else_case)
            return ["if", self.expr(s.condition), self.stmt(s.then_case), other]
        if isinstance(s, LetStmt):
            value = self.expr(s.value)
            return ["letstmt", self.var(s.var), value, self.stmt(s.body)]
        if isinstance(s, AttrStmt):
            node = self.buffer(s.node) if isinstance(s.node, Buffer) else self.var(s.node) if isinstance(s.node, Var) else s.node
            return ["attr", node, s.key, self.expr(s.value), self.stmt(s.body)]
        if isinstance(s, AssertStmt):
            return ["assert", self.expr(s.condition), s.message, self.stmt(s.body)]
        assert isinstance(s, While), type(s)
        return ["while", self.expr(s.condition), self.stmt(s.body)]

    def block(self, b: Block) -> list[Any]:
        iters = [[self.var(iv.var), self.expr(iv.dom.min), self.expr(iv.dom.extent), iv.kind] for iv in b.iter_vars]
        allocs = [self.buffer(x) for x in b.alloc_buffers]
        matches = [[self.buffer(m.buffer), self.region(m.source)] for m in b.match_buffers]
        return [
            "block", b.name if self.block_names else "", iters, allocs, matches,
            [self.region(r) for r in b.reads], [self.region(r) for r in b.writes], _notes(b.annotations),
            None if b.init is None else self.stmt(b.init), self.stmt(b.body),
        ]


def _notes(annotations: Any) -> Any:
    return [[k, plain(annotations[k])] for k in sorted(annotations)] if annotations else []


def plain(value: Any) -> Any:
    """An annotation's value as plain JSON data: constants become numbers, tuples lists, mappings sorted."""
    if isinstance(value, IntImm | FloatImm | StringImm):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "items"):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, Expr):
        return _Encoder().expr(value)
    return value


def canonical(func: PrimFunc, block_names: bool = True) -> list[Any]:
    """The canonical form as nested lists.

    Args:
        func: the program.
        block_names: whether names of blocks count (they do for keys and equality; TVM's equality ignores them).
    """
    enc = _Encoder(block_names)
    params = [enc.buffer(p) if isinstance(p, Buffer) else enc.var(p) for p in func.params]
    ranges: list[Any] = [None if r is None else list(r) for r in func.value_ranges]
    while ranges and ranges[-1] is None:
        ranges.pop()
    if not func.constants:
        return ["func", params, ranges, enc.stmt(func.body)]
    constants = [[enc.buffer(c.buffer), hashlib.sha256(c.data).hexdigest()] for c in func.constants]
    return ["func", params, ranges, constants, enc.stmt(func.body)]


def canonical_json(func: PrimFunc) -> str:
    """The canonical JSON text of a program (compact, ASCII)."""
    cached = func.__dict__.get("_canonical")
    if cached is None:
        # A tree has no cycles; looking for them takes as long as the rest.
        cached = json.dumps(canonical(func), separators=(",", ":"), sort_keys=True, default=str, check_circular=False)
        object.__setattr__(func, "_canonical", cached)
    return str(cached)


def structural_hash(func: PrimFunc) -> str:
    """SHA-256 of the canonical JSON, in hex: the workload key."""
    cached = func.__dict__.get("_sha")
    if cached is None:
        cached = hashlib.sha256(canonical_json(func).encode()).hexdigest()
        object.__setattr__(func, "_sha", cached)
    return str(cached)


def structural_equal(a: PrimFunc, b: PrimFunc, block_names: bool = True) -> bool:
    """Whether two programs have the same canonical form."""
    if block_names:
        return canonical_json(a) == canonical_json(b)
    return canonical(a, False) == canonical(b, False)
