"""What stands outside of blocks, stores of a loop say: no dependence is known of it, so nothing that it needs moves past it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autosched.ir.stmt import Block, Buffer, For, Stmt
from autosched.schedule.analysis.bindings import in_sequence
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.kit.walks import outside


def stmts_between(state: State, first: Stmt, last: Stmt) -> Sequence[Stmt]:
    """The statements of the innermost sequence around two, from that with the one to that with the other.

    Args:
        state: the program.
        first: a statement.
        last: another, neither inside the first nor around it.
    """
    top = state.lca([first, last])
    assert isinstance(top, For | Block)
    stmts = in_sequence(top.body)
    ends = [_position(state, stmts, stmt) for stmt in (first, last)]
    return stmts[min(ends): max(ends) + 1] if -1 not in ends else stmts


def _position(state: State, stmts: Sequence[Stmt], stmt: Stmt) -> int:
    around = {id(stmt), *map(id, state.ancestors(stmt))}
    return next((k for k, s in enumerate(stmts) if id(s) in around), -1)


def upto(state: State, parent: For | Block, index: int, last: Stmt) -> Sequence[Stmt]:
    """What runs from a place on until a statement has run.

    Args:
        state: the program.
        parent: a loop or block.
        index: the place, by a position in its body.
        last: the statement.
    """
    stmts = in_sequence(parent.body)
    end = _position(state, stmts, last)
    return stmts[index: end + 1] if end >= 0 else stmts_between(state, parent, last)


def before(state: State, parent: For | Block, index: int, first: Stmt) -> Sequence[Stmt]:
    """What runs from a statement on until a place is reached.

    Args:
        state: the program.
        parent: a loop or block around the statement.
        index: the place, by a position in its body.
        first: the statement.
    """
    stmts = in_sequence(parent.body)
    return stmts[max(_position(state, stmts, first), 0): index]


def stored_outside(scope: Block, buffer: Buffer) -> bool:
    """Whether a scope stores to a buffer outside of blocks."""
    return any(found is not None and buffer in found[1] for found in map(outside, in_sequence(scope.body)))


def require_blocks(
    state: State, scope: Block, reads: Collection[Buffer], writes: Collection[Buffer], within: Sequence[Stmt] | None = None,
) -> None:
    """Refuses what is stored, or read, outside of blocks where its order matters; where steps are trusted nobody looks.

    Args:
        state: the program.
        scope: a block.
        reads: buffers that nobody may store to.
        writes: buffers that nobody may touch.
        within: the statements that are asked about; default: all of the scope.

    Raises:
        Refusal: one of these buffers is touched.
    """
    if state.trusted:
        return
    for stmt in in_sequence(scope.body) if within is None else within:
        found = outside(stmt)
        if found is None:
            continue
        stored = next((b for b in (*writes, *reads) if b in found[1]), None)
        buffer = next((b for b in writes if b in found[0]), None) if stored is None else stored
        if buffer is not None:
            raise Refusal(f"{buffer.name} is {'read' if stored is None else 'stored'} outside of blocks", [stmt],
                          f'sch.blockize_stores("{scope.name}") first' if found[1] and scope is state.root else "", code="order")
