"""Blocks next to each other, each with the loops around it, as one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import Expr
from autosched.ir.region import union_regions
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferRegion, For, SeqStmt, Stmt, seq
from autosched.schedule.analysis.boxes import is_unit
from autosched.schedule.analysis.loop_uses import require_bound
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.division import Division
from autosched.schedule.primitives.tensorize.outer_block import Halves, Simplifying, divide_below, halve, relaxed


def blockize_neighbours(
    state: State, realizes: Sequence[BlockRealize], preserve_unit: bool
) -> tuple[dict[int, Stmt | None], Block]:
    """The table for ``State.rewrite`` that makes one block of several, and that block; raises a ``Refusal``."""
    parent = state.lca(list(realizes))
    body = parent.body if isinstance(parent, For | Block) else None
    assert body is not None
    stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
    positions = []
    for realize in realizes:
        chain = [realize, *state.ancestors(realize)]
        k = next((k for k, s in enumerate(stmts) if any(n is s for n in chain)), None)
        if k is None or (k in positions):
            raise Refusal("the blocks to be joined must not be nested in each other", [realize.block.ident],
                          hint="give the outer one of them alone", code="place")
        below = chain[: next(i for i, n in enumerate(chain) if n is stmts[k]) + 1]
        around = next((n for n in below[1:] if isinstance(n, Block)), None)
        if around is not None:
            raise Refusal(
                f"block {realize.block.name} stands inside block {around.name}, and the others do not",
                [realize.block.ident, around.ident], f"join {around.name}", code="place",
            )
        if any(isinstance(n, SeqStmt) for n in below):
            raise Refusal(f"block {realize.block.name} shares its loops with other blocks", [realize.block.ident],
                          hint="list all blocks of those loops, or take the loop itself", code="place")
        positions.append(k)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    if [positions[i] for i in order] != list(range(min(positions), min(positions) + len(positions))):
        raise Refusal("the blocks to be joined must be neighbours", [r.block.ident for r in realizes],
                      hint="list the blocks between them, too, or move those away", code="place")
    outer_loops = state.loops_above(stmts[positions[0]])
    given: Halves | None = None
    predicate: Expr = TRUE
    nests: list[Stmt] = []
    reads: list[BufferRegion] = []
    writes: list[BufferRegion] = []
    for i in order:
        realize = realizes[i]
        block = realize.block
        inner = [n for n in state.loops_of(block) if not any(n is o for o in outer_loops)]
        require_bound(block, inner)
        division = divide_below(state, realize, inner, outer_loops, preserve_unit)
        if division is None:
            raise Refusal(
                f"the iterators of {block.name} cannot be divided into an outer and an inner part", [block.ident],
                hint="split by factors that divide the extents, and reorder so that whole inner parts are below", code="index",
            )
        if given is not None:
            _same_outer(block, division, given, predicate)
        halves = halve(block.iter_vars, division, preserve_unit, given)
        if given is None:
            predicate = division.outer_predicate
        if given is None or len(halves.outer_iters) > len(given.outer_iters):
            given = halves  # begins with the iterators of the one before
        if block.init is not None and any(iv.kind == "reduce" for iv in halves.outer_iters):
            raise Refusal(f"block {block.name} is a reduction whose loops reach outside", [block.ident],
                          "decompose_reduction first", code="reduction")
        dom = {iv.var: iv.dom for iv in halves.inner_iters}
        new = Simplifying(halves.vmap, Analyzer(dom)).visit_stmt(replace(block, iter_vars=()))
        assert isinstance(new, Block)
        reads += relaxed(new.reads, dom)
        writes += relaxed(new.writes, dom)
        nest: Stmt = BlockRealize(
            tuple(halves.inner_values), division.inner_predicate, replace(new, iter_vars=tuple(halves.inner_iters))
        )
        for n in reversed(inner):
            nest = replace(n, body=nest)
        nests.append(nest)
    assert given is not None
    name = "outer_" + "".join(f"{realizes[i].block.name}_" for i in order)
    large = Block(name, tuple(given.outer_iters), _united(reads), _united(writes), seq(*nests))
    site = BlockRealize(tuple(given.outer_values), predicate, large)
    table: dict[int, Stmt | None] = {id(stmts[k]): None for k in positions}
    table[id(stmts[min(positions)])] = site
    return table, large


def _same_outer(block: Block, division: Division, given: Halves, predicate: Expr) -> None:
    """Refuses a block whose outer iterators, or conditions on them, are not those of the blocks before it.

    Iterators are compared by position; a block with fewer of them fits where the others have a single value.
    """
    analyzer = Analyzer()
    parts = [outer for outer, _ in division.parts]
    fits = all(is_unit(outer.extent) for outer in parts[len(given.outer_iters):]) and all(
        is_unit(iv.dom.extent) for iv in given.outer_iters[len(parts):]
    )
    for old, outer, iv, value in zip(block.iter_vars, parts, given.outer_iters, given.outer_values):
        fits = fits and analyzer.can_prove_equal(outer.extent, iv.dom.extent) and analyzer.can_prove_equal(outer.value, value)
        fits = fits and (old.kind == iv.kind or is_unit(outer.extent))
    if not fits:
        raise Refusal(
            f"block {block.name} does not run over the same outer iterators as the blocks before it", [block.ident],
            hint="blockize them one by one", code="domain",
        )
    if not _same_conditions(division.outer_predicate, predicate):
        raise Refusal(
            f"block {block.name} does not run under the same outer conditions as the blocks before it", [block.ident],
            "split by factors that divide", code="domain",
        )


def _same_conditions(a: Expr, b: Expr) -> bool:
    for given, asked in ((a, b), (b, a)):
        analyzer = Analyzer()
        analyzer.assume(given)
        if not all(c in conjuncts(given) or analyzer.can_prove(c) for c in conjuncts(asked)):
            return False
    return True


def _united(regions: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
    by_buffer: dict[Buffer, list[BufferRegion]] = {}
    for r in regions:
        by_buffer.setdefault(r.buffer, []).append(r)
    return tuple(rs[0] if len(rs) == 1 else union_regions(rs) for rs in by_buffer.values())
