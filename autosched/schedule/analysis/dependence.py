"""What makes moving a block legal: who writes what, and complete and reduction blocks.

The conditions are those of TensorIR's schedule analysis, here and in ``pipeline``; every violation is a sentence that names the
block and what it breaks. Functions return the sentence, or None where the condition holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.errors import together
from autosched.ir.expr import BufferLoad, Expr
from autosched.ir.functor import stmt_exprs, uses, walk, walk_expr
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.print_expr import expr_text
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, For, Ident, IterVar, Stmt
from autosched.schedule.analysis.disjoint import disjoint_results
from autosched.schedule.analysis.one_to_one import affine_binding
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State


def reduce_iters(block: Block) -> list[IterVar]:
    """The reduction iterators of a block."""
    return [iv for iv in block.iter_vars if iv.kind == "reduce"]


# -- kinds of blocks -------------------------------------------------------------------------------------------------


def other_writers(state: State, block: Block, scope: Stmt, unpacked: bool = False) -> list[Block]:
    """The other blocks below ``scope`` that write what ``block`` writes (below a loop: those inside its blocks).

    Parts of one stage (``partition_block``) do not count: blocks that write disjoint intervals of what nobody there reads, or
    with ``unpacked`` nobody but the host, which does so behind all of them.
    """
    found: dict[Ident, Block] = {}
    mine = {w.buffer for w in block.writes}
    for child in state.children_of(scope):
        # Under a loop TensorIR asks only about writers inside the child blocks: siblings may fill disjoint parts.
        candidates = [child] if isinstance(scope, Block) else state.children_of(child)
        writers = [other for other in candidates if any(w in mine for w in state.touched(other)[1])]
        if isinstance(scope, Block) or len(writers) > 1:
            found.update({other.ident: other for other in writers if other is not block})
    others = list(found.values())
    said = all(w in {r.buffer for r in other.writes} for other in others for w in state.touched(other)[1])
    if others and said and isinstance(scope, Block) and all(disjoint_results(block, other) for other in others):
        readers = (b for b in state.children_of(scope) if not (unpacked and kind_of(b) == UNPACK))
        if not any(w in state.touched(b)[0] for b in readers for w in mine):
            return []
    return others


def incomplete(state: State, block: Block, scope: Stmt, unpacked: bool = False) -> str | None:
    """Why ``block`` is not a complete block below ``scope``; ``unpacked`` as for ``other_writers``.

    A complete block has spatial iterators only, is the sole writer of what it writes, and does not read that.
    """
    for iv in block.iter_vars:
        if iv.kind != "spatial":
            return f"its iterator {iv.var.name} is a {iv.kind} iterator"
    others = other_writers(state, block, scope, unpacked)
    if others:
        return f"{block.writes[0].buffer.name} is also written by {names(others)}"
    written = {w.buffer for w in block.writes}
    for read in block.reads:
        if read.buffer in written:
            return f"it reads {read.buffer.name}, which it writes"
    return None


def not_reduction(state: State, block: Block, scope: Stmt, bound: bool = False) -> str | None:
    """Why ``block`` is not a reduction block below ``scope``.

    A reduction block has an init and quasi-affine bindings, is the sole writer, and no reduction iterator indexes its
    output.

    Args:
        state: the program.
        block: what is asked about.
        scope: around all that may write the same buffer.
        bound: the bindings are known to do.
    """
    if block.init is None:
        return "it has no init"
    for iv in block.iter_vars:
        if iv.kind not in ("spatial", "reduce"):
            return f"its iterator {iv.var.name} is a {iv.kind} iterator"
    realize = state.realizes[block.ident]
    if not bound and not affine_binding(realize, state.loops_above(realize)):
        return "its iterators are not bound to quasi-affine expressions of the loops"
    others = other_writers(state, block, scope)
    if others:
        return f"{block.writes[0].buffer.name} is also written by {names(others)}"
    return not_accumulating(block)


def not_accumulating(block: Block) -> str | None:
    """Why the instances of a block with init do not each go on with an element of their own, whatever they reduce; or None."""
    reduced = {iv.var for iv in reduce_iters(block)}
    for write in block.writes:
        for r in write.region:
            if uses(r.min, reduced) or uses(r.extent, reduced):
                return f"a reduction iterator indexes its output {write.buffer.name}"
    return strays(block)


def strays(block: Block) -> str | None:
    """What a block with init reads of its own result beside the elements that it writes; None of one that holds blocks."""
    written = {w.buffer for w in block.writes}
    stored: set[tuple[Buffer, tuple[Expr, ...]]] = set()
    loaded: list[BufferLoad] = []
    for stmt in (s for part in (block.init, block.body) if part is not None for s in walk(part)):
        if isinstance(stmt, BlockRealize):
            return None
        if isinstance(stmt, BufferStore):
            stored.add((stmt.buffer, stmt.indices))
        for expr in stmt_exprs(stmt):
            loaded += [e for e in walk_expr(expr) if type(e) is BufferLoad and e.buffer in written]
    known = Analyzer()
    for load in loaded:
        if (load.buffer, load.indices) not in stored and not any(
            b is load.buffer and all(map(known.can_prove_equal, load.indices, indices)) for b, indices in stored
        ):
            return f"it reads {expr_text(load)}, which it does not write"
    return None


def not_complete_or_reduction(
    state: State, block: Block, scope: Stmt, partial: bool = False, unpacked: bool = False
) -> str | None:
    """Why ``block`` is neither a complete nor a reduction block below ``scope``, or None.

    Args:
        state: the program.
        block: what is asked about.
        scope: around all that may write the same buffers.
        partial: bindings that would be quasi-affine if the block ran in all iterations of its loops are enough.
        unpacked: as for ``other_writers``, of a complete block.
    """
    first = incomplete(state, block, scope, unpacked)
    if first is None:
        return None
    realize = state.realizes[block.ident]
    bound = partial and affine_binding(replace(realize, predicate=TRUE), state.loops_above(realize))
    second = not_reduction(state, block, scope, bound)
    if second is None:
        return None
    return f"block {block.name} is not a complete block ({first}) nor a reduction block ({second})"


def not_compact(state: State, subtree: Stmt, partial: bool = False) -> tuple[Block, str] | None:
    """The first block below ``subtree`` that is neither locally complete nor a local reduction, with the reason."""
    for block in state.children_of(subtree):
        reason = not_complete_or_reduction(state, block, subtree, partial)
        if reason is not None:
            return block, reason
    return None


def in_turn(realize: BlockRealize, loop: For, thread: str | None) -> str | None:
    """Why instances of a block cannot run at the same time in the iterations of a loop; None where its iterators allow it.

    Args:
        realize: the block below the loop.
        loop: any.
        thread: the thread axis that the loop is bound to, if any; ``threadIdx`` may run a reduction.
    """
    reduces = thread is not None and thread.startswith("threadIdx")
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        if iv.kind != "spatial" and not (iv.kind == "reduce" and reduces) and uses(value, {loop.var}):
            return (f"loop {loop.var.name} drives iterator {iv.var.name} of block {realize.block.name}, which is a {iv.kind} "
                    "iterator: its instances cannot run at the same time")
    return None


def is_output(block: Block, scope: Block) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    inside = set(scope.alloc_buffers)
    return any(w.buffer not in inside for w in block.writes)


def names(blocks: Sequence[Block]) -> str:
    """Names of blocks, as a sentence lists them; of many, the first."""
    listed = [b.name for b in blocks]
    if len(listed) > 8:
        listed = [*listed[:6], f"{len(listed) - 6} more"]
    return together(listed)


def scope_of(state: State, block: Block) -> Block:
    """The block around a block.

    Raises:
        Refusal: it is the root block, or part of an init.
    """
    scope = state.scope_of(block)
    if scope is None:
        raise Refusal("the primitive does not operate on the root block", hint=inner_blocks(state), code="root")
    if not any(child is block for child in state.children_of(scope)):
        raise Refusal(f"block {block.name} stands in the init of {scope.name}", [block.ident],
                      "decompose_reduction makes it a block of its own", code="reduction")
    return scope


def nodes_inside(state: State, stmt: Stmt, scope: Block) -> list[Stmt]:
    """The statements around ``stmt`` inside ``scope``, innermost first."""
    found = []
    for node in state.ancestors(stmt):
        if node is scope:
            break
        found.append(node)
    return found
