"""Whether a block stores all that a copy of its result would store in its place: no element in between, none left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.ir.cover import Box, covers, joined
from autosched.ir.expr import BufferData, Expr, Var
from autosched.ir.functor import stmt_exprs, walk_expr
from autosched.ir.simplify import Analyzer, conjuncts
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
from autosched.ir.swept import exact_box, ranges_box
from autosched.schedule.analysis.boxes import loop_ranges, placed
from autosched.schedule.analysis.outside import stored_outside
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
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
    return _covered(_boxes(realize, buffer, loops), region, buffer, around)


def _covered(boxes: list[Box], region: Sequence[Range], buffer: Buffer, dom: Mapping[Var, Range]) -> bool:
    known = Analyzer(dom).never_negative
    need = ranges_box(region)
    return any(covers(b, need, buffer.shape, known) for b in (joined(boxes, known) if len(boxes) > 1 else boxes))


def _boxes(stmt: Stmt, buffer: Buffer, loops: Sequence[For]) -> list[Box]:
    """Boxes of a buffer that a statement fills, in terms of what stands around ``loops``."""
    match stmt:
        case For():
            return _boxes(stmt.body, buffer, [*loops, stmt])
        case SeqStmt():
            return [b for s in stmt.stmts for b in _boxes(s, buffer, loops)]
        case AttrStmt() | LetStmt():
            return _boxes(stmt.body, buffer, loops)
        case BufferStore():
            box = exact_box(point(buffer, stmt.indices), loop_ranges(loops)) if stmt.buffer is buffer else None
            return [] if box is None else [box]
        case BlockRealize():
            region = region_of(stmt.block.writes, buffer)
            if region is None:
                bare = not stmt.block.iter_vars and stmt.predicate == TRUE
                return _boxes(stmt.block.body, buffer, loops) if bare else []
            if not fills(stmt.block, buffer):
                # It declares more than an instance stores, maybe what all of them do.
                return _instances(stmt, buffer, loops)
            box = exact_box(placed(region, stmt), loop_ranges(loops), conjuncts(stmt.predicate))
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
            store = placed(point(buffer, stmt.indices), realize)
            box = exact_box(store, loop_ranges(around), conjuncts(realize.predicate))
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
    return _covered(_boxes(block.body, buffer, []), region.region, buffer, {iv.var: iv.dom for iv in block.iter_vars})


def require_stored(state: State, scope: Block, block: Block, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
    """Refuses a block that may leave its element as it is, which a copy of the result would then overwrite.

    Where the buffer lives in the scope and nobody else writes it, it holds no more than the copy does.

    Args:
        state: the program.
        scope: the block around.
        block: any.
        buffer: one that it writes.
        indices: of the element, in terms of the block's iterators.

    Raises:
        Refusal: code ``domain``.
    """
    for stmt in (block.body, block.init):
        plain = isinstance(stmt, BufferStore) and stmt.buffer is buffer and stmt.indices == indices
        if plain or (stmt is not None and fills(replace(block, body=stmt, writes=(point(buffer, indices),)), buffer)):
            return
    if buffer not in scope.alloc_buffers or len(state.writers(scope, buffer)) > 1 or stored_outside(scope, buffer):
        raise Refusal(f"block {block.name} is not known to store its element of {buffer.name} in every run, and the copy would "
                      "store the others as well", [block.ident], code="domain")


def _by_address(stmt: Stmt, buffer: Buffer) -> bool:
    if isinstance(stmt, For | AttrStmt | LetStmt):
        return _by_address(stmt.body, buffer)
    if isinstance(stmt, SeqStmt):
        return any(_by_address(s, buffer) for s in stmt.stmts)
    if isinstance(stmt, BlockRealize | BufferStore):
        return False
    return any(isinstance(x, BufferData) and x.buffer is buffer for e in stmt_exprs(stmt) for x in walk_expr(e))
