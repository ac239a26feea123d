"""Whether different iterations of loops touch different elements: what tells if their order matters.

What a statement touches is what its blocks declare and do, and what stands outside of blocks: stores, conditions, bounds of
loops, and values and predicates of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.ir.expr import BufferData, BufferLoad, Expr, Let, Var, int_value
from autosched.ir.functor import free_vars, stmt_children, stmt_exprs, substitute, uses, walk_expr
from autosched.ir.region import block_access, full_ranges
from autosched.ir.simplify import linear_form
from autosched.ir.stmt import BlockRealize, Buffer, BufferRegion, BufferStore, Evaluate, For, LetStmt, Range, Stmt, point
from autosched.schedule.analysis.one_to_one import injective
from autosched.schedule.kit.limits import Overflow, bounds
from autosched.schedule.kit.refusal import Refusal


@dataclass(frozen=True)
class Access:
    """What a statement touches of a buffer.

    Args:
        region: as a block declares it, or as its body has it, or the element outside of blocks; in terms of loops.
        inner: ranges of the loops between the statement asked about and the access.
        loose: it stands outside of blocks.
    """

    region: BufferRegion
    inner: Mapping[Var, Range]
    loose: bool


Accesses = dict[Buffer, list[Access]]


def touched(part: Stmt) -> tuple[Accesses, Accesses]:
    """What a statement reads and writes, by buffer."""
    reads: Accesses = {}
    writes: Accesses = {}
    _visit(part, {}, frozenset(), reads, writes)
    return reads, writes


def _visit(stmt: Stmt, inner: Mapping[Var, Range], named: frozenset[Var], reads: Accesses, writes: Accesses) -> None:
    def add(found: Accesses, region: BufferRegion, loose: bool) -> None:
        if any(uses(e, set(named)) for r in region.region for e in (r.min, r.extent)):
            region = BufferRegion(region.buffer, full_ranges(region.buffer))  # a name for who knows which value
        found.setdefault(region.buffer, []).append(Access(region, inner, loose))

    said = [e for expr in stmt_exprs(stmt) for e in walk_expr(expr)]
    named |= {e.var for e in said if isinstance(e, Let)}
    for e in said:
        if isinstance(e, BufferLoad):
            add(reads, point(e.buffer, e.indices), True)
        if isinstance(e, BufferData) or (isinstance(e, BufferLoad) and isinstance(stmt, Evaluate)):
            for found in (reads, writes):  # whoever has the address may write as well
                add(found, BufferRegion(e.buffer, full_ranges(e.buffer)), True)
    if isinstance(stmt, BufferStore):
        add(writes, point(stmt.buffer, stmt.indices), True)
    if isinstance(stmt, BlockRealize):
        at = {iv.var: value for iv, value in zip(stmt.block.iter_vars, stmt.iter_values)}
        actual = block_access(stmt.block)  # what is declared may be less
        for regions, found in (((*stmt.block.reads, *actual[0]), reads), ((*stmt.block.writes, *actual[1]), writes)):
            for region in dict.fromkeys(regions):
                moved = tuple([Range(substitute(r.min, at), r.extent) for r in region.region])
                add(found, BufferRegion(region.buffer, moved), False)
        return
    if isinstance(stmt, For):
        inner = {**inner, stmt.var: Range(stmt.min, stmt.extent)}
    elif isinstance(stmt, LetStmt):
        named |= {stmt.var}
    for child in stmt_children(stmt):
        _visit(child, inner, named, reads, writes)


def conflicts(
    mine: tuple[Accesses, Accesses], theirs: tuple[Accesses, Accesses],
) -> Iterator[tuple[Buffer, Access, Access]]:
    """The pairs of accesses of a buffer, one by each of two statements, of which one at least writes."""
    for ours, others in ((mine[1], theirs[0]), (mine[1], theirs[1]), (mine[0], theirs[1])):
        for buffer in ours:
            for one in ours[buffer]:
                for other in others.get(buffer, ()):
                    yield buffer, one, other


def apart_along(node: For, one: Access, other: Access) -> bool:
    """Whether accesses by two statements of a loop, in different iterations of it, are known to touch different elements.

    The loops around it stand still, those inside run as they like.
    """
    return _apart_by_strides(node, one, other, {}) or bool(_told_by_digits([node], one, other))


def told(chain: Sequence[For], one: Access, other: Access) -> set[Var]:
    """The loops of a chain of which two iterations that touch one element are known to be the same.

    Args:
        chain: loops, each the only statement in the one before.
        one: an access below the last of them.
        other: another one, or the same.
    """
    found = {loop.var for loop in chain if int_value(loop.extent) == 1}
    while True:
        before = len(found)
        for loop in chain:
            free = {x.var: Range(x.min, x.extent) for x in chain if x.var not in found and x is not loop}
            if loop.var not in found and _apart_by_strides(loop, one, other, free):
                found.add(loop.var)
        found |= _told_by_digits([x for x in chain if x.var not in found], one, other)
        if len(found) == before:
            return found


def _apart_by_strides(node: For, one: Access, other: Access, free: Mapping[Var, Range]) -> bool:
    """Whether there is a dimension along which the loop takes steps at least as long as what all of an iteration touches.

    Args:
        node: the loop.
        one: an access.
        other: another one.
        free: loops around the accesses that need not stand still.
    """
    for a, b in zip(one.region.region, other.region.region):
        forms = [_steps(node, r, {**free, **access.inner}) for r, access in ((a, one), (b, other))]
        if forms[0] is None or forms[1] is None:
            continue
        (step, around, low, high), (step2, around2, low2, high2) = forms[0], forms[1]
        if step == step2 != 0 and around == around2 and max(high, high2) - min(low, low2) < abs(step):
            return True
    return False


def _steps(node: For, r: Range, inner: Mapping[Var, Range]) -> tuple[int, dict[Var, int], int, int] | None:
    """(step of the loop, steps of loops around it, lowest, highest index of what one iteration touches), or None."""
    extent, form = int_value(r.extent), linear_form(r.min)
    if extent is None or form is None or any(not isinstance(c, int) for c in form[0].values()):
        return None
    steps = {v: c for v, c in form[0].items() if isinstance(c, int)}
    inside: Expr | None = None
    for var in inner:
        if var in steps:
            term = var * steps.pop(var)
            inside = term if inside is None else inside + term
    rest, step = int_value(form[1]), steps.pop(node.var, 0)
    try:
        known = (0, 0) if inside is None else bounds(inside, inner)
    except Overflow:
        return None
    if rest is None or known is None:
        return None
    return step, steps, rest + known[0], rest + known[1] + extent - 1


def _told_by_digits(loops: Sequence[For], one: Access, other: Access) -> set[Var]:
    """Which of some loops move indices that are the same in both, where no two of their iterations have all of them in common."""
    same: list[Expr] = []
    for a, b in zip(one.region.region, other.region.region):
        if int_value(a.extent) == int_value(b.extent) == 1 and a.min == b.min:
            if not any(uses(a.min, set(access.inner)) for access in (one, other)):
                same.append(a.min)
    moving = {v for e in same for v in free_vars(e)}
    dom = {x.var: Range(x.min, x.extent) for x in loops if x.var in moving}
    return set(dom) if dom and injective(same, dom) else set()


def require_bounds(loops: Sequence[For], writes: Accesses) -> None:
    """Refuses loops of which what is inside writes what their bounds are read from: these hold from before the first iteration.

    Raises:
        Refusal: one of the buffers is written.
    """
    for loop in loops:
        for e in (e for bound in (loop.min, loop.extent) for e in walk_expr(bound)):
            if isinstance(e, BufferLoad) and e.buffer in writes:
                raise Refusal(f"the range of loop {loop.var.name} is read from {e.buffer.name}, which is written inside",
                              [loop.var], code="loop")
