"""A loop of several statements as one loop for each: loop_fission."""

from __future__ import annotations

from autosched.ir.expr import Var
from autosched.ir.functor import stmt_children, substitute_stmt
from autosched.ir.stmt import BlockRealize, BufferStore, For, SeqStmt, Stmt, seq
from autosched.schedule.analysis.iterations import apart_along, conflicts, require_bounds, touched
from autosched.schedule.kit.base import LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal


class Fission(ScheduleBase):
    """The primitive that takes loops apart by statements."""

    @primitive
    def loop_fission(self, loop: LoopRV | str) -> list[LoopRV]:
        """Gives each statement of a loop a loop of its own, one after the other; the inverse of moving blocks into one loop.

        Args:
            loop: handle or name of a serial loop that holds several loops or blocks.

        Returns:
            the loops, in the order of the statements.

        Raises:
            ScheduleError: one statement only, a marked loop, or statements of which a later iteration may touch what an
                earlier one does: then their order would change.

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] + 1
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] * 2

        After ``sch.loop_fission("i")``::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] + 1
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] * 2
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        try:
            loops = _apart(node)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, {id(node): seq(*loops)})
        return [self.loop_rv(made.var) for made in loops]


def _apart(node: For) -> list[For]:
    name = node.var.name
    if node.kind != "serial" or node.annotations or node.thread is not None:
        raise Refusal(f"loop {name} is not serial, or marked", [node.var], "loop_fission before that", code="loop")
    if not isinstance(node.body, SeqStmt):
        raise Refusal(f"loop {name} holds one statement only", [node.var], code="form")
    parts = node.body.stmts
    _only_blocks_and_stores(node)
    found = [touched(part) for part in parts]
    for n, theirs in enumerate(found):
        require_bounds([node], theirs[1])
        for before in found[:n]:
            for buffer, one, other in conflicts(theirs, before):
                if not apart_along(node, one, other):
                    raise Refusal(f"iterations of loop {node.var.name} are not known to touch different elements of "
                                  f"{buffer.name}", [node.var], code="order")
    loops = [For(node.var, node.min, node.extent, "serial", parts[0])]
    for part in parts[1:]:
        var = Var(name, node.var.dtype)
        loops.append(For(var, node.min, node.extent, "serial", substitute_stmt(part, {node.var: var})))
    return loops


def _only_blocks_and_stores(node: For) -> None:
    stack: list[Stmt] = [node]
    while stack:
        stmt = stack.pop()
        if not isinstance(stmt, For | SeqStmt | BlockRealize | BufferStore):
            raise Refusal(f"loop {node.var.name} holds more than loops, blocks and stores", [node.var], code="form")
        if not isinstance(stmt, BlockRealize):
            stack += stmt_children(stmt)
