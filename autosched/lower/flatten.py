"""Buffers as memory sees them: one dimension each, or one per group of axes where axis separators keep physical dimensions apart.

This is the view for targets whose allocator takes several dimensions (banks of a scratchpad), and for looking at a program; the
way to VTA instructions does not need it. Blocks disappear, double-buffered buffers get a leading dimension of two banks; as
anywhere, such a buffer must be filled anew in each iteration of the loop around all its uses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from autosched.errors import LoweringError
from autosched.ir.expr import BufferData, BufferLoad, Call, Expr, IntImm, Var, eq, int_value, logical_and
from autosched.ir.functor import Mutator, stmt_children, stmt_exprs, walk_expr
from autosched.ir.print_expr import expr_text
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    make_root,
    seq,
)
from autosched.lower.allocate import no_refill
from autosched.lower.compact import shared, windows
from autosched.lower.run_ahead import run_ahead
from autosched.lower.tree import doubled


def groups(buffer: Buffer) -> list[range]:
    """The dimensions that flatten together, as ranges of axes."""
    cuts = [0, *buffer.axis_separators, buffer.ndim]
    return [range(a, b) for a, b in pairwise(cuts) if b > a]


def flatten(func: PrimFunc, compact: bool = False, pipeline: bool = False) -> PrimFunc:
    """A function without blocks, whose own buffers have one dimension per group of axes.

    Args:
        func: a program at any stage; what is kept of its own buffers must be constant.
        compact: first shrink every buffer to what one pass through the loops around its uses touches (a cache of a tile holds a
            tile), see ``autosched.lower.compact``.
        pipeline: also let the copies that fill double-buffered buffers run one iteration ahead: iteration ``i`` fills bank
            ``(i + 1) % 2`` with the tile of the next one, beside the computation on bank ``i % 2``. A copy that reads what its
            loop writes stays where it is.

    Warns:
        UserWarning: a double-buffered buffer is refilled by no loop of several iterations, and so keeps one bank.

    Returns:
        the program; parameters keep their shapes. ``C: (128, 32)`` becomes ``C: (4096,)``; with an axis separator before its
        second dimension, ``C: (2, 64, 32)`` becomes ``C: (2, 2048)``; written by a block with ``double_buffer_scope`` inside
        a loop, either gets two banks in front: ``(2, 4096)``, ``(2, 2, 2048)``, used in turn by successive iterations.

    Raises:
        LoweringError: kind ``symbolic``: an extent is not constant; or ``annotation``: a ``double_buffer_scope`` names no buffer.
    """
    return _Flattener(func, compact, pipeline).run()


class _Flattener(Mutator):
    def __init__(self, func: PrimFunc, compact: bool, pipeline: bool) -> None:
        self.func = func
        self.compact = compact
        self.held = windows(func) if compact else {}
        self.pipeline = pipeline
        self.ahead: dict[Var, list[Buffer]] = {}
        self.params = set(func.given)
        self.values: dict[Var, Expr] = {}
        self.views: dict[Buffer, BufferRegion] = {}
        self.made: dict[Buffer, Buffer] = {}
        self.turn: dict[Buffer, Expr] = {}
        self.analyzer = Analyzer()

    def run(self) -> PrimFunc:
        banked, paths = _scan(self.func)
        for buffer in banked:
            path = shared(paths.get(buffer, []))
            turn: Expr = IntImm(0)
            for loop in path:
                if loop.thread is None:
                    turn = turn * loop.extent + (loop.var - loop.min)
            if any(int_value(loop.extent) != 1 for loop in path if loop.thread is None):
                self.turn[buffer] = turn % 2
                if self.pipeline and path[-1].kind == "serial" and int_value(path[-1].extent) != 1:
                    self.ahead.setdefault(path[-1].var, []).append(buffer)
            else:
                warnings.warn(no_refill(buffer), stacklevel=3)
        body = self.visit_stmt(self.func.body)
        return replace(self.func, body=make_root(body, tuple(self.made.values())))

    def buffer(self, buffer: Buffer) -> Buffer:
        """The flat buffer that stands for one of the function's own."""
        if buffer not in self.made:
            sizes = [self.constant(size, buffer) for size in self.extents(buffer)]
            shape: list[Expr] = [IntImm(prod(sizes[k] for k in group)) for group in groups(buffer)]
            if buffer in self.turn:
                shape.insert(0, IntImm(2))
            separators = tuple(range(1, len(shape)))
            self.made[buffer] = replace(buffer, shape=tuple(shape), strides=(), axis_separators=separators)
        return self.made[buffer]

    def constant(self, size: Expr, buffer: Buffer) -> int:
        """An extent as a number."""
        if isinstance(size, IntImm):
            return size.value
        way_out = "compact=True keeps what one pass through the loops of a tile touches"
        if self.compact:
            way_out = (
                "all of it is needed at once, for a block uses it outside the loops of a tile; padding that transform_layout "
                "writes is left out by assume_injective_transform=True"
            )
        raise LoweringError("symbolic", f"{buffer.name} has an extent that is not constant, {expr_text(size)}: {way_out}")

    def extents(self, buffer: Buffer) -> Sequence[Expr]:
        """Elements per dimension that are kept of a buffer."""
        return [r.extent for r in self.held[buffer]] if buffer in self.held else buffer.shape

    def place(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Buffer, tuple[Expr, ...]]:
        """Where an element went; indices are already free of block iterators."""
        view = self.views.get(buffer)
        if view is not None:
            lead = len(view.region) - len(indices)
            moved = [r.min for r in view.region[:lead]]
            moved += [r.min + i for r, i in zip(view.region[lead:], indices)]
            return self.place(view.buffer, moved)
        if buffer in self.params:
            return buffer, tuple([self.analyzer.simplify(i) for i in indices])
        flat = self.buffer(buffer)
        extents = self.extents(buffer)
        if buffer in self.held:
            indices = [i - r.min for i, r in zip(indices, self.held[buffer])]
        new: list[Expr] = [self.turn[buffer]] if buffer in self.turn else []
        for group in groups(buffer):
            total: Expr = IntImm(0)
            for k in group:
                total = total * extents[k] + indices[k]
            new.append(total)
        return flat, tuple([self.analyzer.simplify(i) for i in new])

    def visit_var(self, var: Var) -> Expr:
        return self.values.get(var, var)

    def visit_load(self, load: BufferLoad) -> Expr:
        buffer, indices = self.place(load.buffer, self.visit_exprs(load.indices))
        return BufferLoad(buffer, indices, load.dtype)

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BufferData):
            zeros = [IntImm(0)] * expr.buffer.ndim
            buffer, indices = self.place(expr.buffer, zeros)
            if buffer is expr.buffer:
                return expr
            return Call("address_of", (BufferLoad(buffer, indices, buffer.dtype),), "handle")
        return super().visit_expr(expr)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore):
            value = self.visit_expr(stmt.value)
            buffer, indices = self.place(stmt.buffer, self.visit_exprs(stmt.indices))
            return BufferStore(buffer, indices, value)
        if isinstance(stmt, BlockRealize):
            return self.block(stmt)
        if isinstance(stmt, For):
            lo, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
            self.analyzer.bind(stmt.var, Range(lo, extent))
            loop = replace(stmt, min=lo, extent=extent, body=self.visit_stmt(stmt.body))
            banked = {self.buffer(b) for b in self.ahead.get(stmt.var, ())}
            return run_ahead(loop, banked) if banked else loop
        return super().visit_stmt(stmt)

    def block(self, realize: BlockRealize) -> Stmt:
        block = realize.block
        values = self.visit_exprs(realize.iter_values)
        predicate = self.visit_expr(realize.predicate)
        for iter_var, value in zip(block.iter_vars, values):
            self.values[iter_var.var] = value
        for match in block.match_buffers:
            region = tuple([Range(self.visit_expr(r.min), r.extent) for r in match.source.region])
            self.views[match.buffer] = BufferRegion(match.source.buffer, region)
        body = self.visit_stmt(block.body)
        if block.init is not None:
            first = logical_and(*[
                eq(value, iter_var.dom.min) for iter_var, value in zip(block.iter_vars, values) if iter_var.kind == "reduce"
            ])
            init = self.visit_stmt(block.init)
            body = seq(init if isinstance(first, IntImm) and first.value else IfThenElse(first, init), body)
        if isinstance(predicate, IntImm) and predicate.value:
            return body
        return IfThenElse(self.analyzer.simplify(predicate), body)


def _scan(func: PrimFunc) -> tuple[list[Buffer], dict[Buffer, list[tuple[For, ...]]]]:
    """The buffers that ask for two banks, and for each buffer the loops around each of its uses."""
    banked: list[Buffer] = []
    paths: dict[Buffer, list[tuple[For, ...]]] = {}
    views: dict[Buffer, Buffer] = {}

    def visit(stmt: Stmt, path: tuple[For, ...]) -> None:
        if isinstance(stmt, Block):
            views.update({m.buffer: m.source.buffer for m in stmt.match_buffers})
            if "double_buffer_scope" in stmt.annotations:
                banked.append(doubled(stmt))
        used = [stmt.buffer] if isinstance(stmt, BufferStore) else []
        for expr in stmt_exprs(stmt):
            used += [e.buffer for e in walk_expr(expr) if isinstance(e, BufferLoad | BufferData)]
        for buffer in used:
            while buffer in views:
                buffer = views[buffer]
            paths.setdefault(buffer, []).append(path)
        inner = (*path, stmt) if isinstance(stmt, For) else path
        for child in stmt_children(stmt):
            visit(child, inner)

    visit(func.body, ())
    own = set(func.given)
    return [b for b in dict.fromkeys(banked) if b not in own], paths


__all__ = ["flatten", "groups"]
