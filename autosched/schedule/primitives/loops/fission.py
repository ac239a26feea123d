"""A loop of several statements as one loop for each: loop_fission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.functor import stmt_children, substitute, substitute_stmt
from autosched.ir.region import block_access
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import BlockRealize, Buffer, BufferRegion, For, Range, SeqStmt, Stmt, seq
from autosched.schedule.analysis.dependence import injective
from autosched.schedule.kit.base import LoopRV, ScheduleBase
from autosched.schedule.kit.limits import Overflow, bounds
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal


@dataclass(frozen=True)
class _Access:
    """What a block below the loop touches of a buffer.

    Args:
        region: as the block declares it, or as its body has it, in terms of loops.
        inner: ranges of the loops between the loop at hand and the block.
    """

    region: BufferRegion
    inner: Mapping[Var, Range]


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
    touched = [_touched(part, node) for part in parts]
    for n, (reads, writes) in enumerate(touched):
        for before_reads, before_writes in touched[:n]:
            for mine, theirs in ((writes, before_reads), (writes, before_writes), (reads, before_writes)):
                _require_apart(node, mine, theirs)
    loops = [For(node.var, node.min, node.extent, "serial", parts[0])]
    for part in parts[1:]:
        var = Var(name, node.var.dtype)
        loops.append(For(var, node.min, node.extent, "serial", substitute_stmt(part, {node.var: var})))
    return loops


def _touched(part: Stmt, node: For) -> tuple[dict[Buffer, list[_Access]], dict[Buffer, list[_Access]]]:
    """What the blocks of a statement read and write, by buffer."""
    reads: dict[Buffer, list[_Access]] = {}
    writes: dict[Buffer, list[_Access]] = {}

    def visit(stmt: Stmt, inner: dict[Var, Range]) -> None:
        if isinstance(stmt, BlockRealize):
            at = {iv.var: value for iv, value in zip(stmt.block.iter_vars, stmt.iter_values)}
            actual = block_access(stmt.block)  # what is declared may be less
            for regions, found in (((*stmt.block.reads, *actual[0]), reads), ((*stmt.block.writes, *actual[1]), writes)):
                for region in dict.fromkeys(regions):
                    moved = tuple([Range(substitute(r.min, at), r.extent) for r in region.region])
                    found.setdefault(region.buffer, []).append(_Access(BufferRegion(region.buffer, moved), inner))
            return
        if isinstance(stmt, For):
            inner = {**inner, stmt.var: Range(stmt.min, stmt.extent)}
        elif not isinstance(stmt, SeqStmt):
            raise Refusal(f"loop {node.var.name} holds more than loops and blocks", [node.var], code="form")
        for child in stmt_children(stmt):
            visit(child, inner)

    visit(part, {})
    return reads, writes


def _require_apart(node: For, mine: Mapping[Buffer, Sequence[_Access]], theirs: Mapping[Buffer, Sequence[_Access]]) -> None:
    """Refuses accesses of which those of different iterations are not known to touch different elements."""
    for buffer in mine:
        for one in mine[buffer]:
            for other in theirs.get(buffer, ()):
                if not _apart_by_strides(node, one, other) and not _apart_by_digits(node, one, other):
                    raise Refusal(f"iterations of loop {node.var.name} are not known to touch different elements of "
                                  f"{buffer.name}", [node.var], code="order")


def _apart_by_strides(node: For, one: _Access, other: _Access) -> bool:
    """Whether there is a dimension along which the loop takes steps at least as long as what all of an iteration touches."""
    for a, b in zip(one.region.region, other.region.region):
        forms = [_steps(node, r, access) for r, access in ((a, one), (b, other))]
        if forms[0] is None or forms[1] is None:
            continue
        (step, around, low, high), (step2, around2, low2, high2) = forms[0], forms[1]
        if step == step2 != 0 and around == around2 and max(high, high2) - min(low, low2) < abs(step):
            return True
    return False


def _steps(node: For, r: Range, access: _Access) -> tuple[int, dict[Var, int], int, int] | None:
    """(step of the loop, steps of loops around it, lowest, highest index of what one iteration touches), or None."""
    extent, form = int_value(r.extent), linear_form(r.min)
    if extent is None or form is None or any(not isinstance(c, int) for c in form[0].values()):
        return None
    steps = {v: c for v, c in form[0].items() if isinstance(c, int)}
    inside: Expr | None = None
    for var in access.inner:
        if var in steps:
            term = var * steps.pop(var)
            inside = term if inside is None else inside + term
    rest, step = int_value(form[1]), steps.pop(node.var, 0)
    try:
        known = (0, 0) if inside is None else bounds(inside, access.inner)
    except Overflow:
        return None
    if rest is None or known is None:
        return None
    return step, steps, rest + known[0], rest + known[1] + extent - 1


def _apart_by_digits(node: For, one: _Access, other: _Access) -> bool:
    """Whether indices that only the loop moves are the same in both, and no two iterations have all of them in common."""
    same: list[Expr] = []
    for a, b in zip(one.region.region, other.region.region):
        if int_value(a.extent) == int_value(b.extent) == 1 and a.min == b.min:
            same.append(a.min)  # two statements have no loop but those around both
    return bool(same) and injective(same, {node.var: Range(node.min, node.extent)})
