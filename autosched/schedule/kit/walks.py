"""What one walk over a statement finds, remembered: programs share most statements below their root from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from autosched.ir.expr import BufferData, BufferLoad, IntImm, Var
from autosched.ir.functor import stmt_children, stmt_exprs, walk_expr
from autosched.ir.remembered import remembered
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Evaluate, For, Ident, Stmt

LIMIT = 2048  # statements remembered


class Walk:
    """A statement's loops and blocks in program order, and what is around each statement in it.

    Args:
        top: the statement.

    Attributes:
        outermost: the blocks in it that are in no other block of it, in program order.
    """

    def __init__(self, top: Stmt) -> None:
        self.top = top
        self.parent: dict[int, Stmt] = {}
        self.loops: dict[Var, For] = {}
        self.realizes: dict[Ident, BlockRealize] = {}
        self.outermost: list[Block] = []
        parent, loops = self.parent, self.loops
        stack: list[Stmt] = [top]
        push = stack.append
        inside = -1  # in a block: as long as so many wait on the stack
        # By exact class: every step of a schedule walks what it made. Most statements have one inside.
        while stack:
            node = stack.pop()
            if len(stack) < inside:
                inside = -1
            while True:
                kind = type(node)
                if kind is For:
                    loops[node.var] = node  # type: ignore[attr-defined, assignment]
                    below = node.body  # type: ignore[attr-defined]
                elif kind is BlockRealize:
                    below = node.block  # type: ignore[attr-defined]
                    self.realizes[below.ident] = node  # type: ignore[assignment]
                    if inside < 0:
                        self.outermost.append(below)
                        inside = len(stack)
                    parent[id(below)] = node
                    node, below = below, below.body
                    if node.init is not None:
                        parent[id(below)] = node
                        push(below)
                        below = node.init
                elif kind is BufferStore:
                    break
                else:
                    found = stmt_children(node)
                    for child in found:
                        parent[id(child)] = node
                    stack += found[::-1]
                    break
                parent[id(below)] = node
                node = below

    def holds(self, thing: Var | Ident) -> bool:
        """Whether a loop, by its variable, or a block is in it."""
        return thing in (self.loops if type(thing) is Var else self.realizes)

    @cached_property
    def reads(self) -> frozenset[Buffer]:
        """The buffers that blocks in it declare to read, and that it reads outside of blocks."""
        return frozenset(r.buffer for realize in self.realizes.values() for r in realize.block.reads).union(*self._outside[:1])

    @cached_property
    def writes(self) -> frozenset[Buffer]:
        """The buffers that blocks in it declare to write, and that it writes outside of blocks."""
        return frozenset(r.buffer for realize in self.realizes.values() for r in realize.block.writes).union(*self._outside[1:])

    @cached_property
    def _outside(self) -> tuple[frozenset[Buffer], ...]:
        return outside(self.top) or ()

    @cached_property
    def binding(self) -> frozenset[Buffer]:
        """The buffers that say what iterators of blocks in it are, or which of its blocks run."""
        values = [e for realize in self.realizes.values() for e in (*realize.iter_values, realize.predicate)]
        return frozenset(e.buffer for v in values if type(v) is not Var for e in walk_expr(v) if isinstance(e, BufferLoad))

    @cached_property
    def touched(self) -> frozenset[Buffer]:
        """Both."""
        return self.reads | self.writes


_WALKS: dict[int, Walk] = {}  # by address; the statements are kept with their addresses


def walked(stmt: Stmt) -> Walk:
    """The walk over a statement."""
    known = _WALKS.get(id(stmt))
    if known is None or known.top is not stmt:
        if len(_WALKS) >= LIMIT:
            _WALKS.clear()
        known = _WALKS[id(stmt)] = Walk(stmt)
    return known


def child_blocks(stmt: Stmt) -> Iterator[Block]:
    """The outermost blocks strictly below ``stmt``, in program order; a block's init is not searched."""
    stack: list[Stmt] = [stmt.body] if isinstance(stmt, Block) else list(reversed(stmt_children(stmt)))
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is For:
            stack.append(node.body)  # type: ignore[attr-defined]
        elif kind is BlockRealize:
            yield node.block  # type: ignore[attr-defined]
        else:
            stack += stmt_children(node)[::-1]


_OUTSIDE: dict[int, tuple[Stmt, tuple[frozenset[Buffer], frozenset[Buffer]] | None]] = {}


def outside(stmt: Stmt) -> tuple[frozenset[Buffer], frozenset[Buffer]] | None:
    """The buffers that a statement reads, and those that it writes, outside of blocks; None where it has no such."""
    return remembered(_OUTSIDE, stmt, _outside)


def _outside(stmt: Stmt) -> tuple[frozenset[Buffer], frozenset[Buffer]] | None:
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    stack: list[Stmt] = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            continue
        if isinstance(node, BufferStore):
            writes.add(node.buffer)
        for expr in stmt_exprs(node):
            for e in () if isinstance(expr, IntImm) else walk_expr(expr):
                if isinstance(e, BufferLoad | BufferData):
                    reads.add(e.buffer)
                    # Whoever has the address may write as well, as far as is known here.
                    if isinstance(node, Evaluate) or isinstance(e, BufferData):
                        writes.add(e.buffer)
        stack += stmt_children(node)
    return (frozenset(reads), frozenset(writes)) if reads or writes else None
