"""Whether a block stores all that a copy of its result would store in its place: no element in between, none left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.ir.expr import BufferData, Var
from autosched.ir.functor import stmt_exprs, walk_expr
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    TRUE,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    LetStmt,
    Range,
    SeqStmt,
    Stmt,
    point,
)
from autosched.schedule.analysis.boxes import Box, box_covers, exact_box, join_boxes
from autosched.schedule.primitives.buffers.cache_rewrite import region_of


def stores_all(
    realize: BlockRealize, buffer: Buffer, loops: Sequence[For], region: Sequence[Range], around: Mapping[Var, Range]
) -> bool:
    """Whether a block under some loops is known to store every element of a region that lies inside the buffer.

    Args:
        realize: the block at its place.
        buffer: what it writes.
        loops: the loops around it whose iterations are joined.
        region: the region, in terms of the variables around those loops.
        around: ranges of these variables.
    """
    need = [(r.min, r.min + r.extent - 1) for r in region]
    return _covered(_boxes(realize, realize.block, buffer, loops), need, buffer, around)


def _covered(boxes: list[Box], need: Box, buffer: Buffer, dom: Mapping[Var, Range]) -> bool:
    analyzer = Analyzer(dom)
    joined = join_boxes(boxes, analyzer) if len(boxes) > 1 else boxes
    return any(box_covers(b, need, buffer.shape, analyzer) for b in joined)


def _boxes(stmt: Stmt, owner: Block, buffer: Buffer, loops: Sequence[For]) -> list[Box]:
    """Boxes of a buffer that a statement fills, in terms of what stands around ``loops``."""
    here = BlockRealize(tuple(iv.var for iv in owner.iter_vars), TRUE, owner)
    match stmt:
        case For():
            return _boxes(stmt.body, owner, buffer, [*loops, stmt])
        case SeqStmt():
            return [b for s in stmt.stmts for b in _boxes(s, owner, buffer, loops)]
        case AttrStmt() | LetStmt():
            return _boxes(stmt.body, owner, buffer, loops)
        case BufferStore():
            box = exact_box(point(buffer, stmt.indices), here, loops) if stmt.buffer is buffer else None
            return [] if box is None else [box]
        case BlockRealize():
            region = region_of(stmt.block.writes, buffer)
            if region is None:
                bare = not stmt.block.iter_vars and stmt.predicate == TRUE
                return _boxes(stmt.block.body, owner, buffer, loops) if bare else []
            if not fills(stmt.block, buffer):
                # It declares more than an instance stores, maybe what all of them do.
                return _instances(stmt, buffer, loops)
            box = exact_box(region, stmt, loops)
            return [] if box is None else [box]
        case _:
            return []


def _instances(realize: BlockRealize, buffer: Buffer, loops: Sequence[For]) -> list[Box]:
    """Boxes that all instances of a block without blocks inside fill together, by its single stores."""
    found: list[Box] = []
    stack: list[tuple[Stmt, list[For]]] = [(realize.block.body, list(loops))]
    while stack:
        stmt, around = stack.pop()
        if isinstance(stmt, For):
            stack.append((stmt.body, [*around, stmt]))
        elif isinstance(stmt, SeqStmt):
            stack += [(s, around) for s in stmt.stmts]
        elif isinstance(stmt, BufferStore) and stmt.buffer is buffer:
            box = exact_box(point(buffer, stmt.indices), realize, around)
            found += [] if box is None else [box]
    return found


def fills(block: Block, buffer: Buffer) -> bool:
    """Whether a block stores all of the region that it declares to write.

    Args:
        block: a block.
        buffer: among those that it writes.
    """
    region = region_of(block.writes, buffer)
    assert region is not None
    if any(m.source.buffer is buffer for m in block.match_buffers) or _by_address(block.body, buffer):
        return True  # what an instruction stores only the declaration tells
    need = [(r.min, r.min + r.extent - 1) for r in region.region]
    return _covered(_boxes(block.body, block, buffer, []), need, buffer, {iv.var: iv.dom for iv in block.iter_vars})


def _by_address(stmt: Stmt, buffer: Buffer) -> bool:
    if isinstance(stmt, For | AttrStmt | LetStmt):
        return _by_address(stmt.body, buffer)
    if isinstance(stmt, SeqStmt):
        return any(_by_address(s, buffer) for s in stmt.stmts)
    if isinstance(stmt, BlockRealize | BufferStore):
        return False
    return any(isinstance(x, BufferData) and x.buffer is buffer for e in stmt_exprs(stmt) for x in walk_expr(e))
