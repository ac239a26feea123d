"""Tensors that every iteration fills anew: expand_buffer gives each iteration a place of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import Mutator, free_vars, stmt_children, walk_expr
from autosched.ir.patterns import loads_from
from autosched.ir.simplify import simplify
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    Ident,
    IfThenElse,
    LetStmt,
    Range,
    SeqStmt,
    Stmt,
)
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal


class Expansion(ScheduleBase):
    """The primitive that gives a tensor more dimensions."""

    @primitive
    def expand_buffer(self, block: BlockRV | str, buffer_index: int) -> None:
        """Gives a tensor that every iteration of loops fills anew, as a variable is, a dimension for each of these loops.

        They are the loops around all that touches the tensor, and the iterators of the block, where that is not the root.
        Dimensions of one element go; a tensor of another block than the root becomes one of the root.

        Args:
            block: handle or name of the block that allocates it, in loops without blocks.
            buffer_index: its position among what the block allocates.

        Raises:
            ScheduleError: what an iteration finds there may be used, a block touches it, or no loop is around all of that.

        Before::

            t = T.sblock_alloc_buffer((1,), "int32")
            for i in range(16):
                t[0] = A[i] * 2
                C[i] = t[0] + 1

        After ``sch.expand_buffer("root", 0)``::

            t = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                t[i] = A[i] * 2
                C[i] = t[i] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        owner, at = realize.block, self.int_of(buffer_index)
        if not 0 <= at < len(owner.alloc_buffers):
            self.refuse(f"block {owner.name} allocates {len(owner.alloc_buffers)} tensors", [owner.ident], code="argument")
        try:
            old, new, body = _expanded(owner, at, owner is state.root)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        mine = tuple([new if b is old else b for b in owner.alloc_buffers])
        if owner is state.root:
            self.commit_rewrite(state, {id(owner.body): body}, {id(owner): mine}, {})
            return
        if new.name in state.buffer_names(state.root):
            self.refuse(f"the root has another tensor {new.name}", [owner.ident], code="name")
        made = replace(owner, body=body, alloc_buffers=tuple([b for b in mine if b is not new]))
        self.commit_rewrite(state, {id(owner): made}, {id(state.root): (*state.root.alloc_buffers, new)}, {})


@dataclass(frozen=True)
class _Touch:
    """A statement that touches the tensor.

    Args:
        loops: around it, outermost first.
        indices: of the elements that it touches.
    """

    loops: tuple[For, ...]
    indices: tuple[tuple[Expr, ...], ...]


def _expanded(owner: Block, at: int, root: bool) -> tuple[Buffer, Buffer, Stmt]:
    buffer = owner.alloc_buffers[at]
    touches = list(_touches(owner.body, buffer, ()))
    if not touches:
        raise Refusal(f"nothing in block {owner.name} touches {buffer.name}", [owner.ident], code="form")
    common = touches[0].loops
    for touch in touches:
        shared = [a is b for a, b in zip(common, touch.loops)]
        common = common[: shared.index(False) if False in shared else len(shared)]
    inner: Stmt = common[-1].body if common else owner.body
    first = next(s for s in (inner.stmts if isinstance(inner, SeqStmt) else (inner,)) if any(_touches(s, buffer, ())))
    one = {i for t in touches for i in t.indices}
    if isinstance(first, BufferStore) and first.buffer is buffer and not loads_from(first.value, buffer) and len(one) == 1:
        known = {v for i in first.indices for v in free_vars(i)}
    elif _fills(first, buffer):
        known = set()
    else:
        raise Refusal(f"an iteration may find in {buffer.name} what another one left there", [owner.ident],
                      "fill it first, without a condition", code="order")
    dims: dict[Var, Range] = {} if root else {iv.var: iv.dom for iv in owner.iter_vars}
    dims.update({loop.var: Range(loop.min, loop.extent) for loop in common})
    dims = {v: dom for v, dom in dims.items() if v not in known and int_value(dom.extent) != 1}
    if not dims:
        raise Refusal(f"no loop goes through {buffer.name} again and again", [owner.ident], code="form")
    for var, dom in dims.items():
        if int_value(dom.min) is None or int_value(dom.extent) is None:
            raise Refusal(f"loop {var.name} has no constant range", [var], code="symbolic")
    kept = [d for d, e in enumerate(buffer.shape) if int_value(e) != 1]
    shape = (*[dom.extent for dom in dims.values()], *[buffer.shape[d] for d in kept])
    new = replace(buffer, shape=shape, ident=Ident())
    places = tuple([simplify(v - dom.min) for v, dom in dims.items()])
    return buffer, new, _Placed(buffer, new, places, kept).visit_stmt(owner.body)


def _touches(stmt: Stmt, buffer: Buffer, loops: tuple[For, ...]) -> list[_Touch]:
    """What below a statement touches a tensor, in the order of the program."""
    if isinstance(stmt, BlockRealize):
        if any(r.buffer is buffer for r in (*stmt.block.reads, *stmt.block.writes)):
            raise Refusal(f"block {stmt.block.name} touches {buffer.name}", [stmt.block.ident], code="form")
        return []
    values: list[Expr] = []
    mine: list[tuple[Expr, ...]] = []
    if isinstance(stmt, BufferStore):
        values = [stmt.value, *stmt.indices]
        mine = [stmt.indices] if stmt.buffer is buffer else []
    elif isinstance(stmt, For):
        values = [stmt.min, stmt.extent]
    elif isinstance(stmt, IfThenElse):
        values = [stmt.condition]
    elif isinstance(stmt, LetStmt):
        values = [stmt.value]
    elif not isinstance(stmt, SeqStmt):
        raise Refusal(f"a statement of kind {type(stmt).__name__} stands in the loops", [], code="form")
    mine += [e.indices for v in values for e in walk_expr(v) if isinstance(e, BufferLoad) and e.buffer is buffer]
    found = [_Touch(loops, tuple(mine))] if mine else []
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    for child in stmt_children(stmt):
        found += _touches(child, buffer, inside)
    return found


def _fills(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement is loops that set every element of a tensor, and do nothing else."""
    whole: dict[Var, int | None] = {}
    while isinstance(stmt, For):
        whole[stmt.var] = int_value(stmt.extent)
        stmt = stmt.body
    if not isinstance(stmt, BufferStore) or stmt.buffer is not buffer or loads_from(stmt.value, buffer):
        return False
    used: Sequence[Var] = [i for i in stmt.indices if isinstance(i, Var)]
    return len(set(used)) == len(used) and all(
        whole.get(i) == int_value(e) is not None if isinstance(i, Var) else int_value(i) == 0 and int_value(e) == 1
        for i, e in zip(stmt.indices, buffer.shape)
    )


class _Placed(Mutator):
    """Moves a tensor to another one, at places further in front."""

    def __init__(self, old: Buffer, new: Buffer, places: tuple[Expr, ...], kept: Sequence[int]) -> None:
        self.old, self.new, self.places, self.kept = old, new, places, kept

    def _at(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*self.places, *[indices[d] for d in self.kept])

    def visit_load(self, load: BufferLoad) -> Expr:
        if load.buffer is not self.old:
            return super().visit_load(load)
        return BufferLoad(self.new, self._at(self.visit_exprs(load.indices)), self.new.dtype)

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BufferStore) and stmt.buffer is self.old:
            return BufferStore(self.new, self._at(self.visit_exprs(stmt.indices)), self.visit_expr(stmt.value))
        return super().visit_stmt(stmt)


__all__ = ["Expansion"]
