"""Loops that become several loops, and several that become one: loop_partition and merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from autosched.ir.cover import apart
from autosched.ir.expr import BufferLoad, Expr, IntImm, Var, const, int_value
from autosched.ir.functor import Mutator, Substitute, all_exprs, substitute_stmt, walk, walk_expr
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.region import region_bounds
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    Ident,
    IterVar,
    Range,
    Stmt,
    seq,
)
from autosched.ir.swept import ranges_box
from autosched.schedule.analysis.bindings import loop_dom
from autosched.schedule.analysis.disjoint import disjoint_results
from autosched.schedule.analysis.outside import require_blocks, stmts_between
from autosched.schedule.kit.base import ArgumentError, ExprRV, LoopRV
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refresh import refresh
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.kit.walks import outside, walked
from autosched.schedule.primitives.loops.nest import Loops


class Partition(Loops):
    """Primitives that change how many loops there are side by side."""

    @primitive
    def loop_partition(
        self, loop: LoopRV | str, factors: Sequence[int | ExprRV | None], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cuts the range of a loop into consecutive parts, each a loop with its own copy of the body.

        Args:
            loop: handle or name of a loop from 0 of constant extent, without annotations and thread binding.
            factors: lengths of the parts in order; one may be None and takes the rest; without None a last part takes
                it.
            preserve_unit_iters: accepted for compatibility; bindings stay as they are.

        Raises:
            ScheduleError: a symbolic range, two unknown lengths, a length below one, lengths that leave nothing, a loop
                that drives a reduction with its init.

        Before::

            for i in range(128):
                with T.sblock("C"):
                    vi = T.axis.spatial(128, i)
                    C[vi] = A[vi] * 2

        After ``sch.loop_partition("i", factors=[2, None])``::

            with T.sblock("root"):
                with T.sblock("C_i_common"):
                    with T.sblock("C_i0_partition"):
                        for i0 in range(2):
                            with T.sblock("C_i0"):
                                vi = T.axis.spatial(2, i0)
                                C[vi] = A[vi] * 2
                    with T.sblock("C_i1_partition"):
                        for i1 in range(2, 128):
                            with T.sblock("C_i1"):
                                vi = T.axis.spatial((2, 128), i1)
                                C[vi] = A[vi] * 2
        """
        assert isinstance(loop, LoopRV)
        state, node = self.loop_at(loop)
        self._plain_loop(state, node)
        extent = int_value(node.extent)
        if extent is None:
            self.refuse(f"the range of loop {node.var.name} is symbolic", [node.var], hint="only constant extents",
                        code="symbolic")
        assert extent is not None
        ends = self._ends(node, extent, [None if f is None else self.int_of(f) for f in factors])
        first = next((n for n in walk(node.body) if isinstance(n, BlockRealize)), None)
        if first is None:
            self.refuse(f"there is no block in loop {node.var.name}", [node.var], code="place")
        assert first is not None
        for inner in walk(node.body):
            if isinstance(inner, BlockRealize) and inner.block.init is not None:
                for iv, value in zip(inner.block.iter_vars, inner.iter_values):
                    if iv.kind == "reduce" and any(e is node.var for e in walk_expr(value)):
                        self.refuse(
                            f"loop {node.var.name} drives the reduction of block {inner.block.name}, whose init would "
                            "run once per part", [node.var, inner.block.ident], hint="decompose_reduction first",
                            code="reduction",
                        )
        prefix = f"{first.block.name}_{node.var.name}"
        dtype = node.var.dtype
        parts: list[Stmt] = []
        news: list[Var] = []
        begin = 0
        for i, end in enumerate(ends):
            var = Var(f"{node.var.name}{i}", dtype)
            news.append(var)
            body = refresh(substitute_stmt(node.body, {node.var: var}))
            body = _Narrow(var, const(begin, dtype), const(end, dtype)).visit_stmt(body)
            part = For(var, const(begin, dtype), const(end - begin, dtype), "serial", body)
            parts.append(BlockRealize((), TRUE, Block(f"{prefix}{i}_partition", (), (), (), part)))
            begin = end
        common = BlockRealize((), TRUE, Block(f"{prefix}_common", (), (), (), seq(*parts)))
        self.commit_nodes(state, {id(node): common})
        return [self.loop_rv(var) for var in news]

    def _ends(self, node: For, extent: int, lengths: list[int | None]) -> list[int]:
        name = node.var.name
        if lengths.count(None) > 1:
            self.refuse("only one factor can be None", [node.var], hint="give all lengths but one", code="argument")
        for i, n in enumerate(lengths):
            if n is not None and n < 1:
                self.refuse(f"factors are positive, but the one at position {i} is {n}", [node.var],
                            hint="factors=[4, None]: the lengths of the parts, one of them inferred", code="argument")
        total = sum(n for n in lengths if n is not None)
        if total >= extent:
            self.refuse(f"the sum of the factors, {total}, leaves nothing of the extent {extent} of loop {name}",
                        [node.var], hint="leave the last length out, or give None: the rest is inferred", code="argument")
        filled = [extent - total if n is None else n for n in lengths]
        ends = [sum(filled[: i + 1]) for i in range(len(filled))]
        return ends if None in lengths else [*ends, extent]

    @primitive
    def merge(self, *loops: LoopRV | str) -> LoopRV:
        """Merges loops of sibling nests into one loop that runs their bodies one after another.

        Args:
            loops: handles or names of at least two loops under one block, at the same depth below the statement that
                holds all nests; each nest perfect down to its loop, from 0, of equal extents.

        Raises:
            ScheduleError: the nests differ in shape, or a later body would read or overwrite what an earlier one has
                not yet, or has already, touched.

        What the host unpacks between the nests comes after all of them: it runs when the accelerator is done in any case. They
        are merged where the last one stands, or, of loops given in program order, where the first one does if something between
        them reads what that makes.

        Before::

            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for j in range(16):
                with T.sblock("C"):
                    vj = T.axis.spatial(16, j)
                    C[vj] = A[vj] + 1

        After ``sch.merge("i", "j")``::

            for i_m in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i_m)
                    B[vi] = A[vi] * 2
                with T.sblock("C"):
                    vj = T.axis.spatial(16, i_m)
                    C[vj] = A[vj] + 1
        """
        if len(loops) < 2:
            self.refuse("at least two loops are needed", error=ArgumentError, code="argument")
        state, nodes = self.loops_at([x for x in loops if isinstance(x, LoopRV)])
        if len({n.var for n in nodes}) < len(nodes):
            self.refuse("a loop is given twice", [n.var for n in nodes], hint="give loops of different nests", code="argument")
        scopes = [state.scope_of(n) for n in nodes]
        if any(s is not scopes[0] for s in scopes):
            self.refuse("the loops are not under the same block", [n.var for n in nodes],
                        hint="give loops of nests that stand beside each other", code="place")
        top = state.lca([*nodes])
        nests = [self._nest(state, n, top) for n in nodes]
        first = nests[0]
        for nest in nests[1:]:
            if len(nest) != len(first):
                self.refuse(f"loop {nest[-1].var.name} is {len(nest)} deep below the common parent and loop "
                            f"{first[-1].var.name} {len(first)}", [first[-1].var, nest[-1].var],
                            hint="merge loops of equal depth", code="place")
            for a, b in zip(first, nest):
                if not Analyzer().can_prove_equal(a.extent, b.extent):
                    self.refuse(f"loops {a.var.name} and {b.var.name} differ in extent", [a.var, b.var],
                                hint="split them first so that the outer loops have one extent, and merge those", code="loop")
        late = _host_between(state, top, nests)
        first_place = self._mergeable(state, top, nests, {block.ident for _, block in late})
        if not state.trusted:
            try:
                _in_blocks(state, scopes[0], nests)
            except Refusal as r:
                self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        news = [Var(f"{x.var.name.removesuffix('_m')}_m", x.var.dtype) for x in first]
        bodies = []
        for nest in nests:
            bodies.append(substitute_stmt(nest[-1].body, {x.var: v for x, v in zip(nest, news)}))
        new: Stmt = seq(*bodies)
        for var, old in reversed(list(zip(news, first))):
            new = For(var, const(0, var.dtype), old.extent, "serial", new)
        table: dict[int, Stmt | None] = {id(nest[0]): None for nest in nests}
        if first_place:
            table[id(nests[0][0])] = new
        else:
            table.update((id(stmt), None) for stmt, _ in late)
            table[id(nests[-1][0])] = seq(new, *[stmt for stmt, _ in late])
        self.commit_nodes(state, table)
        return self.loop_rv(news[-1])

    def _nest(self, state: State, loop: For, top: Stmt) -> list[For]:
        """The loops from just below ``top`` down to ``loop``, each the only child of the one before."""
        above = state.loops_above(loop)
        start = next((i + 1 for i, x in enumerate(above) if x is top), 0)
        nest = [*above[start:], loop]
        for node in nest:
            self._plain_loop(state, node)
        for outer, inner in pairwise(nest):
            if outer.body is not inner:
                self.refuse(f"loop {inner.var.name} is not the only child of loop {outer.var.name}",
                            [outer.var, inner.var],
                            hint=f"merge at loop {outer.var.name} instead, or move the other statements away", code="place")
        return nest

    def _mergeable(self, state: State, top: Stmt, nests: list[list[For]], late: set[Ident]) -> bool:
        """Refuses when a dependence between the nests, or with what stands and stays between them, would turn round.

        Returns:
            Whether they are merged where the first one stands, because what stands between them reads what it makes.
        """
        order = [b.ident for b in state.children_of(top)]
        home = {b.ident: k for k, nest in enumerate(nests) for b in state.children_of(nest[0])}
        places = {ident: i for i, ident in enumerate(order)}
        last = min(places[b.ident] for b in state.children_of(nests[-1][0]))
        early = False
        needs = [dep.src for dep in state.dependences(top) if home.get(dep.src) is None and home.get(dep.dst, 0) > 0]
        since = max(places[b.ident] for b in state.children_of(nests[0][0]))
        # In another order the first of the loops given stands behind what reads one of them.
        unordered = any(places[b.ident] < since for nest in nests[1:] for b in state.children_of(nest[0]))
        stays = unordered or any(places[src] > since for src in needs)
        for dep in state.dependences(top):
            src, dst = home.get(dep.src), home.get(dep.dst)
            if dep.kind == "WAW" and disjoint_results(state.block(dep.src), state.block(dep.dst)):
                continue  # parts of one stage
            names = f"block {state.block(dep.dst).name} depends on block {state.block(dep.src).name}"
            if src is not None and dst is None and places[dep.dst] < last and dep.dst not in late:
                early = True
                if stays:
                    self.refuse(f"{names}, and stands between the loops that are merged", [dep.src, dep.dst], code="place")
            if src is None and dst is not None and places[dep.src] > last:
                self.refuse(f"{names}, which stands after the last of the loops given", [dep.src, dep.dst],
                            hint="give the loops in program order", code="order")
            if src is None or dst is None or src == dst:
                continue
            if src > dst:
                self.refuse(f"{names}: the loops are given against the order of the program", [dep.src, dep.dst],
                            hint="give the loops in program order", code="order")
            if not self._same_iteration(state, dep.buffer, dep.src, dep.dst, nests[src], nests[dst]):
                self.refuse(f"{names} in a later iteration of the merged loop", [dep.src, dep.dst],
                            hint="use compute_at or reverse_compute_at, which move what is needed", code="order")
        return early

    def _same_iteration(
        self, state: State, buffer: Buffer, src: object, dst: object, first: list[For], second: list[For]
    ) -> bool:
        """Whether no instance of ``dst`` meets an instance of ``src`` of a later merged iteration."""
        early = _touched(state, src, buffer, first)
        late = _touched(state, dst, buffer, second)
        for level in range(len(first)):
            count = int_value(second[level].extent)
            if count is not None and count <= 1:
                continue
            later = Var("later")
            # The earlier nest's instance lies ``later`` iterations after the later nest's at this level, anywhere
            # inside.
            vmap: dict[Var, Expr] = {a.var: b.var for a, b in zip(first, second)}
            vmap[first[level].var] = second[level].var + later
            free_early = {x.var: Range(x.min, x.extent) for x in first[level + 1:]}
            free_late = {x.var: Range(x.min, x.extent) for x in second[level + 1:]}
            analyzer = Analyzer()
            for x in second[: level + 1]:
                analyzer.bind(x.var, Range(x.min, x.extent))
            analyzer.bind(later, Range(IntImm(1), IntImm(2**20 if count is None else count - 1)))
            for a in early:
                moved = Substitute(vmap).visit_region(BufferRegion(buffer, region_bounds(a, free_early)))
                for b in late:
                    here = region_bounds(b, free_late)
                    if not apart(ranges_box(moved.region), ranges_box(here), analyzer.never_negative):
                        return False
        return True


def _touched(state: State, ident: object, buffer: Buffer, nest: list[For]) -> list[BufferRegion]:
    """The regions of ``buffer`` that a block touches in one iteration of a nest's loops, as functions of those."""
    realize = next(r for i, r in state.realizes.items() if i is ident)
    block = realize.block
    values = Substitute({iv.var: v for iv, v in zip(block.iter_vars, realize.iter_values)})
    kept = {x.var for x in nest}
    inner = {v: r for v, r in loop_dom(state.loops_above(realize)).items() if v not in kept}
    outside = {x.var for x in state.loops_above(nest[0])}
    inner = {v: r for v, r in inner.items() if v not in outside}
    found = []
    for region in (*block.reads, *block.writes):
        if region.buffer is buffer:
            found.append(BufferRegion(buffer, region_bounds(values.visit_region(region), inner)))
    return found


class _Narrow(Mutator):
    """Names the blocks of one part after it, and restricts the iterator that its loop drives to the part."""

    def __init__(self, var: Var, begin: Expr, end: Expr) -> None:
        self.var = var
        self.begin = begin
        self.end = end

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, BlockRealize):
            return super().visit_stmt(stmt)
        block = self.visit_block(stmt.block)
        index = next((i for i, v in enumerate(stmt.iter_values) if v is self.var), None)
        block = replace(block, name=f"{block.name}_{self.var.name}")
        if index is not None:
            driven = block.iter_vars[index]
            dom = Range(self.begin, self.end - self.begin)
            iters = tuple(IterVar(iv.var, dom, iv.kind) if iv is driven else iv for iv in block.iter_vars)
            whole = {iv.var: iv.dom for iv in iters}
            plain = _plain_accesses(block, whole)
            block = replace(
                block, iter_vars=iters, reads=tuple(_widen(r, plain, whole) for r in block.reads),
                writes=tuple(_widen(r, plain, whole) for r in block.writes),
            )
        return BlockRealize(stmt.iter_values, stmt.predicate, block)


def _host_between(state: State, top: Stmt, nests: list[list[For]]) -> list[tuple[Stmt, Block]]:
    """What the host unpacks between the first and the last of some nests: statements below ``top``, each with its block."""
    order = state.children_of(top)
    at = [order.index(b) for nest in (nests[0], nests[-1]) for b in state.children_of(nest[0])]
    found: list[tuple[Stmt, Block]] = []
    for block in order[min(at) : max(at)]:
        if kind_of(block) == UNPACK:
            around: list[Stmt] = [*state.loops_of(block), state.realizes[block.ident]]
            found.append((around[0], block))
    return found


def _in_blocks(state: State, scope: Block | None, nests: list[list[For]]) -> None:
    """Refuses what is stored or read outside of blocks in nests and between them, where any of those touch the same."""
    assert scope is not None
    order = {var: k for k, var in enumerate(state.loops)}
    merged = sorted([nest[0] for nest in nests], key=lambda loop: order[loop.var])
    stmts = stmts_between(state, merged[0], merged[-1])
    loose = [stmt for stmt in stmts if outside(stmt) is not None]
    if not loose:
        return
    for stmt in stmts:
        whole, others = walked(stmt), [s for s in loose if s is not stmt]
        if not any(stmt is x for x in merged):
            others = [s for s in others if any(s is x for x in merged)]
        require_blocks(state, scope, whole.reads, whole.writes, others)


def _plain_accesses(block: Block, iters: dict[Var, Range]) -> dict[Buffer, tuple[Expr, ...]]:
    """Per buffer that a block accesses at one place only, whose indices are all iterators, these."""
    found: dict[Buffer, set[tuple[Expr, ...]]] = {}
    accesses = [(n.buffer, n.indices) for n in walk(block.body) if isinstance(n, BufferStore)]
    accesses += [(e.buffer, e.indices) for e in all_exprs(block.body) if isinstance(e, BufferLoad)]
    for buffer, indices in accesses:
        found.setdefault(buffer, set()).add(indices)
    return {buffer: first for buffer, (first, *others) in found.items()
            if not others and all(isinstance(i, Var) and i in iters for i in first)}


def _widen(region: BufferRegion, plain: dict[Buffer, tuple[Expr, ...]], iters: dict[Var, Range]) -> BufferRegion:
    # TensorIR states the regions of a part's blocks over the part's whole domain; programs compare equal only if we do. What is
    # read at several places is more than the one's: each instance says itself what that is.
    indices = plain.get(region.buffer)
    if indices is None:
        return region
    return BufferRegion(region.buffer, tuple(iters[i] for i in indices if isinstance(i, Var)))
