"""Stores that stand in loops alone: blockize_stores gives each a block, with the iterators that TensorIR wants of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from autosched.ir.expr import BinOp, Expr, Var, binary, const, int_value
from autosched.ir.functor import free_vars, stmt_children, substitute, substitute_stmt, walk
from autosched.ir.patterns import has_loads, loads_from
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import conjuncts, simplify
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    Range,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.schedule.analysis.one_to_one import injective
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.limits import bounds
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.values import negated


class StoreBlocks(ScheduleBase):
    """The primitive that makes blocks of stores."""

    @primitive
    def blockize_stores(self, block: BlockRV | str) -> list[BlockRV]:
        """Gives every store that stands in loops alone a block of its own.

        Every loop around a store becomes an iterator: spatial where it indexes what is stored, of a reduction where it does not
        and the store updates its element. Conditions that hold loops, and ends of loops that others move, become the
        condition of the blocks inside (``T.where``); what a loop ends its last iteration with comes behind it. What stores the
        same element, one after the other, is one block. A block of loops and stores is dissolved: its iterators are the first
        of those inside.

        Args:
            block: handle or name of the root, or of a block of loops and stores.

        Returns:
            The blocks, in the order of the program.

        Raises:
            ScheduleError: an element that several iterations set, or that several iterations of loops in its index
                store; loops and conditions by data; statements of other kinds; no such store.

        Before::

            for i in range(16):
                C[i] = 0
                for k in range(16):
                    C[i] = C[i] + A[i, k]

        After ``sch.blockize_stores("root")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = 0
                for k in range(16):
                    with T.sblock("C_1"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + A[vi, vk]
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        maker = _Maker(realize.block, realize.block is state.root, {r.block.name for r in state.realizes.values()})
        try:
            table, allocs = _made(state, realize, maker)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_rewrite(state, table, allocs, {})
        return [self.block_rv(b) for b in maker.made]


@dataclass(frozen=True)
class _Around:
    """What stands around a statement.

    Args:
        moved: what statements call the loops, or the iterators of a block that is dissolved: values in terms of loops, ranges.
        condition: under which the statement runs, in the same names.
    """

    moved: Mapping[Var, tuple[Expr, Range]]
    condition: Expr = TRUE

    def under(self, condition: Expr) -> _Around:
        """With one more condition."""
        return replace(self, condition=condition if self.condition == TRUE else binary("and", self.condition, condition))

    @property
    def ranges(self) -> dict[Var, Range]:
        """What values each may have."""
        return {v: dom for v, (_, dom) in self.moved.items()}


@dataclass
class _Maker:
    """Makes the blocks below one.

    Args:
        inside: the block that is dissolved, or the root.
        root: whether it is the root.
        taken: names of blocks.
        made: the blocks so far.
    """

    inside: Block
    root: bool
    taken: set[str]
    made: list[Block] = field(default_factory=list)

    def visit(self, stmt: Stmt, around: _Around) -> Stmt:
        """A statement with its stores in blocks."""
        if isinstance(stmt, BlockRealize):
            if not self.root:
                raise Refusal(f"block {self.inside.name} holds block {stmt.block.name}", [stmt.block.ident], code="form")
            return stmt
        if isinstance(stmt, For):
            return self._loop(stmt, around)
        if isinstance(stmt, SeqStmt):
            return seq(*[self._group(part, around) for part in _grouped(stmt.stmts)])
        if isinstance(stmt, LetStmt):
            written = {s.buffer for s in walk(stmt.body) if isinstance(s, BufferStore)}
            if any(loads_from(stmt.value, b) for b in written):
                raise Refusal(f"{stmt.var.name} is read of what is stored before it is used", [stmt.var],
                              "write what it stands for in its place", code="order")
            return self.visit(substitute_stmt(stmt.body, {stmt.var: stmt.value}), around)
        return self._group([stmt], around)

    def _loop(self, loop: For, around: _Around) -> Stmt:
        """A loop with its stores in blocks; one whose ends other loops move runs as far as it ever does, under conditions."""
        if loop.thread is not None or loop.annotations or loop.kind not in ("serial", "unrolled"):
            raise Refusal(f"loop {loop.var.name} is {loop.kind} or marked", [loop.var], "write a plain loop", code="loop")
        low, high = int_value(loop.min), int_value(simplify(loop.min + loop.extent))
        inner = around
        if low is None or high is None:
            ends = simplify(loop.min + loop.extent)
            spans = [None if has_loads(e) else bounds(e, around.ranges) for e in (loop.min, ends)]
            if spans[0] is None or spans[1] is None:
                raise Refusal(f"loop {loop.var.name} runs to {expr_text(ends)}, which is data or a symbolic size", [loop.var],
                              "write a constant number of iterations", code="loop")
            if low is None:
                inner = inner.under(binary(">=", loop.var, loop.min))
            if high is None:
                inner = inner.under(binary("<", loop.var, ends))
            low, high = spans[0][0], spans[1][1]
        extent = const(max(high - low, 0), loop.var.dtype)
        dom = Range(const(low, loop.var.dtype), extent)
        inner = replace(inner, moved={**around.moved, loop.var: (loop.var, dom)})
        return replace(loop, min=dom.min, extent=extent, kind="serial", body=self.visit(loop.body, inner))

    def _group(self, group: Sequence[Stmt], around: _Around) -> Stmt:
        """Statements that are one block, or one that is none yet."""
        if len(group) == 1 and not isinstance(group[0], BufferStore):
            one = group[0]
            if not isinstance(one, IfThenElse):
                if isinstance(one, For | SeqStmt | LetStmt | BlockRealize):
                    return self.visit(one, around)
                raise Refusal(f"a statement of kind {type(one).__name__} stands in the loops",
                              [], "write loops, conditions and stores", code="form")
            if _element(one) is None or (one.else_case is None and not has_loads(one.condition)):
                return self._condition(one, around)
        body = seq(*group)
        element = _element(body)
        assert element is not None
        return self._block(body, element, around)

    def _condition(self, stmt: IfThenElse, around: _Around) -> Stmt:
        """What stands under a condition, each under it."""
        if has_loads(stmt.condition):
            raise Refusal("a condition by data stands around several statements", [],
                          "write T.if_then_else in what is stored", code="form")
        sides = [self.visit(stmt.then_case, around.under(stmt.condition))]
        if stmt.else_case is not None:
            sides.append(self.visit(stmt.else_case, around.under(negated(stmt.condition))))
        return seq(*sides)

    def _block(self, body: Stmt, element: BufferStore, around: _Around) -> BlockRealize:
        """A block of statements that store one element."""
        buffer = element.buffer
        indexed = {v for i in element.indices for v in free_vars(i)}
        if not any(loads_from(e, buffer) for s in walk(body) for e in _values(s)):
            again = [v for v, dom in around.ranges.items() if v not in indexed and int_value(dom.extent) != 1]
            if again:
                raise Refusal(
                    f"every iteration of {again[0].name} stores the same elements of {buffer.name} again", [again[0]],
                    f"store what the last one does, or update {buffer.name}", code="order")
        spatial = {v: dom for v, dom in around.ranges.items() if v in indexed}
        if not injective(element.indices, spatial):
            names = " and ".join(v.name for v in spatial)
            raise Refusal(f"iterations of {names} are not known to store different elements of {buffer.name}", list(spatial),
                          f"write loops over the elements of {buffer.name}, each of which reads what it takes in", code="order")
        mine = {iv.var for iv in self.inside.iter_vars}
        fresh = {v: Var(v.name if v in mine else f"v{v.name}", v.dtype) for v in around.moved}
        iters = tuple([IterVar(fresh[v], dom, "spatial" if v in spatial else "reduce") for v, dom in around.ranges.items()])
        name = fresh_name(buffer.name if self.root else self.inside.name, self.taken)
        self.taken.add(name)
        made = with_access(Block(name, iters, (), (), substitute_stmt(body, fresh)))
        self.made.append(made)
        values = {v: value for v, (value, _) in around.moved.items()}
        return BlockRealize(tuple(values.values()), substitute(around.condition, values), made)


def _last_behind(stmt: Stmt) -> Stmt:
    """A statement in which what a loop does at the end of its last iteration only comes behind the loop."""
    if isinstance(stmt, SeqStmt):
        return seq(*map(_last_behind, stmt.stmts))
    if isinstance(stmt, IfThenElse):
        other = None if stmt.else_case is None else _last_behind(stmt.else_case)
        return replace(stmt, then_case=_last_behind(stmt.then_case), else_case=other)
    if not isinstance(stmt, For):
        return stmt
    body = _last_behind(stmt.body)
    parts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
    low, extent = int_value(stmt.min), int_value(stmt.extent)
    behind: list[Stmt] = []
    while parts and low is not None and extent:
        moved = _at(parts[-1], stmt.var, low + extent - 1)
        if moved is None:
            break
        behind.insert(0, moved)
        parts.pop()
    return seq(*([replace(stmt, body=seq(*parts))] if parts else []), *behind)


def _at(stmt: Stmt, var: Var, value: int) -> Stmt | None:
    """What runs where a loop has a value only, as it is there; None for any other statement."""
    if not isinstance(stmt, IfThenElse) or stmt.else_case is not None:
        return None
    tests = conjuncts(stmt.condition)
    found = [c for c in tests if isinstance(c, BinOp) and c.op == "==" and c.a is var and int_value(c.b) == value]
    if not found:
        return None
    there: Expr = const(value, var.dtype)
    rest = [substitute(c, {var: there}) for c in tests if c is not found[0]]
    then = substitute_stmt(stmt.then_case, {var: there})
    return IfThenElse(reduce(lambda a, b: binary("and", a, b), rest), then) if rest else then


def _grouped(stmts: Sequence[Stmt]) -> list[list[Stmt]]:
    """Statements, with those that store the same element one after the other together."""
    groups: list[list[Stmt]] = []
    for stmt in stmts:
        mine = _element(stmt)
        before = _element(groups[-1][-1]) if groups else None
        if mine is not None and before is not None and (mine.buffer is before.buffer and mine.indices == before.indices):
            groups[-1].append(stmt)
        else:
            groups.append([stmt])
    return groups


def _element(stmt: Stmt) -> BufferStore | None:
    """The first store of statements that all store the same element, in no loop; None of any others."""
    found = list(walk(stmt))
    if not all(isinstance(s, BufferStore | SeqStmt | IfThenElse) for s in found):
        return None
    stores = [s for s in found if isinstance(s, BufferStore)]
    same = all(s.buffer is stores[0].buffer and s.indices == stores[0].indices for s in stores)
    return stores[0] if stores and same else None


def _values(stmt: Stmt) -> list[Expr]:
    """What a statement itself computes."""
    if isinstance(stmt, BufferStore):
        return [stmt.value]
    return [stmt.condition] if isinstance(stmt, IfThenElse) else []


def bare_stores(block: Block, root: bool) -> bool:
    """Whether a block has stores in loops alone: below the root any that stand in no other block, else those in loops.

    Args:
        block: any.
        root: whether it is the root.
    """
    def visit(stmt: Stmt, looped: bool) -> bool:
        if isinstance(stmt, BlockRealize):
            return False
        if isinstance(stmt, BufferStore):
            return looped
        return any(visit(s, looped or isinstance(stmt, For)) for s in stmt_children(stmt))

    return visit(block.body, root)


def _made(state: State, realize: BlockRealize, maker: _Maker) -> tuple[dict[int, Stmt | None], dict[int, tuple[Buffer, ...]]]:
    block = realize.block
    if not bare_stores(block, maker.root):
        raise Refusal(f"no store below block {block.name} stands in loops alone", [block.ident], code="form")
    if maker.root:
        return {id(block.body): maker.visit(_last_behind(block.body), _Around({}))}, {}
    if block.init is not None or block.match_buffers or block.annotations:
        raise Refusal(f"block {block.name} has an init, views, or is marked", [block.ident], code="form")
    moved = {iv.var: (value, iv.dom) for iv, value in zip(block.iter_vars, realize.iter_values)}
    body = maker.visit(_last_behind(block.body), _Around(moved, realize.predicate))
    local = {id(state.root): (*state.root.alloc_buffers, *block.alloc_buffers)} if block.alloc_buffers else {}
    return {id(realize): body}, local


__all__ = ["StoreBlocks", "bare_stores"]
