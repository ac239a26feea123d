"""What a new layout that leaves some of its elements unused does about them: the values that padding must hold.

Who produces the buffer decides. Nobody inside: the caller promises the values, and the program says so (``T.assume``).
A nest that stores every element once, in order: it runs over the new shape and stores the padding too. Any other: a block
of its own stores the padding after the last store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from autosched.ir.expr import BufferLoad, Call, Expr, Not, Var, as_expr, eq, if_then_else
from autosched.ir.functor import Mutator, free_vars, rewrite_many, substitute
from autosched.ir.index_map import IndexMap
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IterVar,
    LetStmt,
    Range,
    Stmt,
    nested,
    point,
    seq,
)

PadValue = Callable[[Sequence[Expr]], Expr]


@dataclass(frozen=True)
class Padding:
    """The unused part of a layout.

    Args:
        old: the buffer before.
        new: the buffer in its new layout.
        inverse: from new indices to old ones.
        predicate: of the inverse's parameters; true where an element of the new buffer is not used.
        value: what such an element holds, by its indices.
    """

    old: Buffer
    new: Buffer
    inverse: IndexMap
    predicate: Expr
    value: PadValue


@dataclass(frozen=True)
class _Write:
    """One store to the old buffer.

    Args:
        store: the store.
        realize: the innermost block around it, or None.
        loops: the loops from the first to the last one that its indices depend on.
        in_order: the loops are perfectly nested and run over the dimensions of the buffer, one each, in order.
    """

    store: BufferStore
    realize: BlockRealize | None
    loops: tuple[For, ...]
    in_order: bool


def pad(owner: Block, padding: Padding) -> Block:
    """The block in which padding gets its values; accesses of the old buffer that remain are still to be mapped.

    Args:
        owner: the block around all accesses of the buffer.
        padding: what to fill, with what.
    """
    writes = _writes(owner, padding.old)
    if not writes:
        return replace(owner, body=seq(_assumption(padding), owner.body))
    table: dict[int, Stmt] = {}
    for write in writes:
        if write.in_order and id(write.loops[0]) not in table:
            replacer = _Enlarged(write, padding)
            body = replacer.visit_stmt(write.loops[-1].body)
            if replacer.complete:
                table[id(write.loops[0])] = nest(replacer.loops, body)
    if not table:
        last = writes[-1]
        after: Stmt = last.loops[0] if last.loops else last.realize if last.realize is not None else owner.body
        table[id(after)] = seq(after, _fill(padding))
    result = rewrite_many(owner, table)
    assert isinstance(result, Block)
    return result


def nest(loops: Sequence[tuple[Var, Expr]], body: Stmt) -> Stmt:
    """Serial loops from 0 around a statement."""
    return nested([(var, Range(as_expr(0, var.dtype), as_expr(extent, var.dtype))) for var, extent in loops], body)


def _fresh(padding: Padding, prefix: str) -> tuple[list[Var], Mapping[Var, Expr]]:
    variables = [Var(prefix + v.name, v.dtype) for v in padding.inverse.initial]
    return variables, dict(zip(padding.inverse.initial, variables))


def _over_new(padding: Padding) -> tuple[list[Var], list[IterVar], list[Var]]:
    """Loop variables over the new shape, block iterators, and the iterators' variables."""
    loops, _ = _fresh(padding, "")
    inner, _ = _fresh(padding, "v_")
    iters = [IterVar(v, Range(as_expr(0, v.dtype), s)) for v, s in zip(inner, padding.new.shape)]
    return loops, iters, inner


def _assumption(padding: Padding) -> Stmt:
    loops, iters, inner = _over_new(padding)
    here = dict(zip(padding.inverse.initial, inner))
    element = BufferLoad(padding.new, tuple(inner), padding.new.dtype)
    holds = Not(substitute(padding.predicate, here)) | eq(element, padding.value(inner))
    body = Evaluate(Call("assume", (holds,), "bool"))
    block = Block(f"buffer_{padding.new.name}_assumptions", tuple(iters), (point(padding.new, tuple(inner)),), (), body)
    return nest(list(zip(loops, padding.new.shape)), BlockRealize(tuple(loops), TRUE, block))


def _fill(padding: Padding) -> Stmt:
    loops, iters, inner = _over_new(padding)
    where = substitute(padding.predicate, dict(zip(padding.inverse.initial, loops)))
    body = BufferStore(padding.new, tuple(inner), padding.value(inner))
    block = Block(f"buffer_{padding.new.name}_padding", tuple(iters), (), (point(padding.new, tuple(inner)),), body)
    return nest(list(zip(loops, padding.new.shape)), BlockRealize(tuple(loops), where, block))


def _writes(owner: Block, buffer: Buffer) -> list[_Write]:
    """All stores to a buffer, in program order."""
    found: list[_Write] = []

    def visit(stmt: Stmt, loops: tuple[For, ...], env: Mapping[Var, Expr], realize: BlockRealize | None) -> None:
        from autosched.ir.functor import stmt_children

        if isinstance(stmt, BufferStore):
            if stmt.buffer is buffer:
                found.append(_describe(stmt, loops, env, realize))
            return
        if isinstance(stmt, For):
            loops = (*loops, stmt)
        elif isinstance(stmt, LetStmt):
            env = {**env, stmt.var: substitute(stmt.value, env)}
        elif isinstance(stmt, BlockRealize):
            values = [substitute(v, env) for v in stmt.iter_values]
            env = {**env, **dict(zip([iv.var for iv in stmt.block.iter_vars], values))}
            realize = stmt
        for child in stmt_children(stmt):
            visit(child, loops, env, realize)

    visit(owner, (), {}, None)
    return found


def _describe(
    store: BufferStore, loops: tuple[For, ...], env: Mapping[Var, Expr], realize: BlockRealize | None
) -> _Write:
    indices = [substitute(i, env) for i in store.indices]
    used = {v for i in indices for v in free_vars(i)}
    depths = [k for k, loop in enumerate(loops) if loop.var in used]
    mine = loops[depths[0]: depths[-1] + 1] if depths else ()
    in_order = len(mine) == len(indices) and len(mine) > 0 and all(
        index is loop.var and loop.min == as_expr(0, loop.min.dtype) and loop.extent == extent and loop.kind == "serial"
        for index, loop, extent in zip(indices, mine, store.buffer.shape)
    ) and all(a.body is b for a, b in pairwise(mine))
    return _Write(store, realize, mine, in_order)


class _Enlarged(Mutator):
    """A nest that stores all of the old buffer, made to run over the new one and to store its padding.

    Attributes:
        loops: the new loops, with their extents.
        complete: every store inside could be treated.
    """

    def __init__(self, write: _Write, padding: Padding) -> None:
        self.write = write
        self.padding = padding
        self.complete = True
        variables, here = _fresh(padding, "")
        self.loops: list[tuple[Var, Expr]] = list(zip(variables, padding.new.shape))
        self.vmap = {
            loop.var: substitute(e, here) for loop, e in zip(write.loops, padding.inverse.final)
        }
        self.indices: list[Var] = variables
        self.start = self._own_iterators()
        if self.start is not None:
            assert write.realize is not None
            self.indices, inner = _fresh(padding, "v_")
            first = self.start
            for iv, e in zip(write.realize.block.iter_vars[first:], padding.inverse.final):
                self.vmap[iv.var] = substitute(e, inner)

    def _own_iterators(self) -> int | None:
        """Where the indices of the store stand among the block's iterators, if they are consecutive spatial ones."""
        realize, indices = self.write.realize, self.write.store.indices
        iters = () if realize is None else realize.block.iter_vars
        for k in range(len(iters) - len(indices) + 1):
            part = iters[k: k + len(indices)]
            if all(i is iv.var and iv.kind == "spatial" for i, iv in zip(indices, part)):
                return k
        return None

    def visit_var(self, var: Var) -> Expr:
        return self.vmap.get(var, var)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        # Regions of the buffer itself are worked out again from the body, later.
        return region if region.buffer is self.padding.old else super().visit_region(region)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore):
            return self._store(stmt)
        if self.start is not None and stmt is self.write.realize:
            return self._realize(stmt)
        if isinstance(stmt, BlockRealize):
            self._bounded(stmt.iter_values)
        return super().visit_stmt(stmt)

    def _bounded(self, values: Sequence[Expr]) -> None:
        """Loops cannot run further than the iterators that they move do."""
        mine = {loop.var for loop in self.write.loops}
        self.complete = self.complete and not any(v in mine for value in values for v in free_vars(value))

    def _store(self, stmt: BufferStore) -> Stmt:
        if stmt.buffer is not self.padding.old or stmt.indices != self.write.store.indices:
            self.complete = False
            return stmt
        at = dict(zip(self.padding.inverse.initial, self.indices))
        outside = substitute(self.padding.predicate, at)
        value = if_then_else(outside, self.padding.value(self.indices), self.visit_expr(stmt.value))
        return BufferStore(self.padding.new, tuple(self.indices), value)

    def _realize(self, realize: BlockRealize) -> Stmt:
        new = super().visit_stmt(realize)
        assert isinstance(new, BlockRealize) and self.start is not None
        first, last = self.start, self.start + len(self.write.store.indices)
        self._bounded((*realize.iter_values[:first], *realize.iter_values[last:]))
        iters = [
            IterVar(v, Range(as_expr(0, v.dtype), s)) for v, s in zip(self.indices, self.padding.new.shape)
        ]
        own = tuple(var for var, _ in self.loops)
        block = replace(
            new.block, iter_vars=(*new.block.iter_vars[:first], *iters, *new.block.iter_vars[last:]),
        )
        return BlockRealize((*new.iter_values[:first], *own, *new.iter_values[last:]), new.predicate, block)
