"""Where a copy is made that one block reads in place of a buffer: right behind what fills the buffer."""

from __future__ import annotations

from autosched.ir.functor import walk
from autosched.ir.stmt import Block, BlockRealize, Buffer, For, SeqStmt, Stmt
from autosched.schedule.analysis.bindings import in_sequence
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.analysis.outside import require_blocks
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


def with_copy(state: State, realize: BlockRealize, buffer: Buffer, stage: Block, changed: Block) -> Stmt:
    """The body in which a block reads a copy: whoever goes on from what fills the buffer may read the copy, too.

    Args:
        state: of the program.
        realize: the block that reads the buffer.
        buffer: what is copied, as it is when the block runs; of what nobody in front of it writes, the copy comes first.
        stage: the block that makes the copy, in loops of its own.
        changed: the reader as it is then.

    Raises:
        Refusal: the reader shares its loops with others, or something is stored outside of blocks.
    """
    scope = scope_of(state, realize.block)
    top, siblings = _alone(state, realize, scope), in_sequence(scope.body)
    front = siblings[: next(k for k, s in enumerate(siblings) if s is top)]
    require_blocks(state, scope, (buffer,), (), [*front, top])
    writers = {w.ident for w in state.writers(scope, buffer)}
    fills = [k for k, s in enumerate(front) if any(isinstance(b, BlockRealize) and b.block.ident in writers for b in walk(s))]
    return state.rewrite(
        {id(realize.block): changed}, {id(scope): (*scope.alloc_buffers, stage.writes[0].buffer)},
        {id(scope): (fills[-1] + 1 if fills else 0, own_nest(stage, "i"))},
    )


def _alone(state: State, realize: BlockRealize, scope: Block) -> Stmt:
    """The statement of the scope that holds a block and nothing else.

    Raises:
        Refusal: the block shares its loops with others.
    """
    top: Stmt = realize
    for node in state.ancestors(realize):
        if node is scope or (isinstance(node, SeqStmt) and state.parent(node) is scope):
            break
        if not isinstance(node, For) or node.body is not top:
            raise Refusal(f"block {realize.block.name} shares its loops with other statements", [realize.block.ident],
                          hint="copy before compute_at", code="place")
        top = node
    return top
