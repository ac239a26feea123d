"""Tables of what a block computes from its iterators alone: cache_index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Not, Select, Var, int_value, is_int
from autosched.ir.functor import Mutator, Substitute, expr_children, stmt_children, walk_expr
from autosched.ir.patterns import has_loads
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    IterVar,
    Range,
    SeqStmt,
    Stmt,
    nested,
    point,
    seq,
)
from autosched.schedule.analysis.boxes import loop_ranges
from autosched.schedule.kit.base import BlockRV
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.buffers.cache import Cache

# Operations that have a result for all operands.
_TOTAL = frozenset({"+", "-", "*", "min", "max", "and", "or", "==", "!=", "<", "<=", ">", ">="})
_COMMUTATIVE = frozenset({"+", "*", "min", "max", "and", "or", "==", "!="})
# Intrinsics that give the same for the same operands and do nothing else.
_PURE = frozenset({
    "if_then_else", "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "popcount", "clz",
    "abs", "fabs", "floor", "ceil", "round", "trunc", "nearbyint", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh",
    "sigmoid", "sin", "cos", "pow", "power",
})


class CacheIndex(Cache):
    """The primitive that looks indices up instead of computing them."""

    @primitive
    def cache_index(self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Computes what a block computes from its iterators alone into tables first, and lets the block look it up.

        The tables go in front of the block's loops, one per expression, larger expressions first. They are indexed by the
        iterators that the expression uses, and named ``index_var_{k}``; the blocks that fill them ``index_{k}``.

        Args:
            block: handle or name of the block; blocks inside it are left alone.
            storage_scope: memory of the tables.
            cse_thresh: how often an expression must occur in a store to get a table; of one that occurs less often the
                parts are looked at. 0: every largest expression.

        Returns:
            the blocks that fill the tables; none, and an unchanged program, where there is nothing to compute.

        Raises:
            ScheduleError: a negative threshold, an iterator without constant bounds or below zero, no such memory.

        Before::

            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi // 4 + vj // 4, vj // 2]

        After ``sch.cache_index("C", "global")``::

            index_var_0 = T.sblock_alloc_buffer((16, 16), "int32")
            index_var_1 = T.sblock_alloc_buffer((16,), "int32")
            for ax0, ax1 in T.grid(16, 16):
                with T.sblock("index_0"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    index_var_0[v0, v1] = v0 // 4 + v1 // 4
            for ax0 in range(16):
                with T.sblock("index_1"):
                    v0 = T.axis.spatial(16, ax0)
                    index_var_1[v0] = v0 // 2
            for i, j in T.grid(16, 16):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]
        """
        assert isinstance(block, BlockRV)
        self.check_scope(storage_scope)
        if cse_thresh < 0:
            self.refuse(f"cse_thresh counts occurrences, it cannot be {cse_thresh}", code="argument")
        state, realize = self.block_at(block)
        node = realize.block
        scope = self._scope(state, node)
        iters = {iv.var for iv in node.iter_vars}
        found: list[_Term] = []
        for store in _own_stores(node):
            for term in _repeated(store, iters, cse_thresh):
                if all(term.key != other.key for other in found):
                    found.append(term)
        found.sort(key=lambda t: -_size(t.expr))
        if not found:
            return []
        tables = [self._table(state, realize, term, k, storage_scope) for k, term in enumerate(found)]
        lookup = _LookUp([(term.key, BufferLoad(t.buffer, t.indices, t.buffer.dtype)) for term, t in zip(found, tables)])
        changed = lookup.visit_block(node)
        used = [point(t.buffer, t.indices) for k, t in enumerate(tables) if k in lookup.used]
        changed = replace(changed, reads=(*changed.reads, *used))
        self.commit_rewrite(
            state, {id(node): changed}, {id(scope): (*scope.alloc_buffers, *(t.buffer for t in tables))},
            {id(scope): (_position(state, scope, realize), seq(*(t.nest for t in tables)))},
        )
        return [self.block_rv(t.block) for t in tables]

    def _table(self, state: State, realize: BlockRealize, term: _Term, k: int, storage_scope: str) -> _Table:
        """The buffer of an expression, and the nest that fills it for all iterations of the block."""
        node = realize.block
        values = dict(zip((iv.var for iv in node.iter_vars), realize.iter_values))
        variables = [v for v in _variables(term.expr) if v in values]
        loops = {x.var: x for x in state.loops_above(realize)}
        mine = list(dict.fromkeys(v for x in variables for v in _variables(values[x]) if v in loops))
        fresh = {v: Var(f"ax{i}", v.dtype) for i, v in enumerate(mine)}
        iters: list[IterVar] = []
        for i, var in enumerate(variables):
            low, high = int_set_bounds(values[var], loop_ranges(loops.values()))
            first, last = (None if e is None else int_value(e) for e in (low, high))
            if first is None or last is None or first < 0:
                known = "has no constant bounds" if first is None or last is None else f"starts at {first}"
                self.refuse(f"iterator {var.name} of block {node.name} {known}, and cannot index a table", [node.ident],
                            code="index")
            assert last is not None
            iters.append(IterVar(Var(f"v{i}", var.dtype), Range(IntImm(0, var.dtype), IntImm(last + 1, var.dtype))))
        own: dict[Var, Expr] = {old: iv.var for old, iv in zip(variables, iters)}
        expr = Substitute(own).visit_expr(term.expr)
        buffer = Buffer(f"index_var_{k}", tuple(iv.dom.extent for iv in iters), expr.dtype, scope=storage_scope)
        at = tuple(iv.var for iv in iters)
        block = Block(f"index_{k}", tuple(iters), (), (point(buffer, at),), BufferStore(buffer, at, expr))
        nest: Stmt = BlockRealize(tuple(Substitute(fresh).visit_expr(values[v]) for v in variables), TRUE, block)
        around = [(fresh[v], Range(loops[v].min, loops[v].extent)) for v in mine]
        return _Table(buffer, tuple(variables), block, nested(around, nest))


@dataclass(frozen=True)
class _Term:
    """An expression to be looked up.

    Args:
        expr: as it is written.
        key: what has the same is the same.
        count: how often it occurs.
    """

    expr: Expr
    key: object
    count: int


@dataclass(frozen=True)
class _Table:
    """What is looked up, at which iterators, and what fills it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    block: Block
    nest: Stmt


class _LookUp(Mutator):
    """Replaces expressions by loads in the stores of a block, not in the blocks inside it.

    Args:
        table: keys of expressions, with what stands for them.
    """

    def __init__(self, table: Sequence[tuple[object, BufferLoad]]) -> None:
        self.table = table
        self.used: set[int] = set()
        self.analyzer = Analyzer()

    def visit_block(self, block: Block) -> Block:
        init = None if block.init is None else self.visit_stmt(block.init)
        return replace(block, init=init, body=self.visit_stmt(block.body))

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BlockRealize):
            return stmt
        if isinstance(stmt, BufferStore):
            for k, (key, load) in enumerate(self.table):
                one = _Replace(k, key, load, self)
                stmt = replace(stmt, indices=one.visit_exprs(stmt.indices), value=one.visit_expr(stmt.value))
            return stmt
        return super().visit_stmt(stmt)

    def visit_expr(self, expr: Expr) -> Expr:
        return expr


class _Replace(Mutator):
    """Replaces one expression, wherever something equal to it stands; what has been looked up already stays."""

    def __init__(self, k: int, key: object, load: BufferLoad, owner: _LookUp) -> None:
        self.k, self.key, self.load, self.owner = k, key, load, owner
        self.loads = {load.buffer for _, load in owner.table}

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BufferLoad) and expr.buffer in self.loads:
            return expr
        if expr.dtype == self.load.dtype and not has_loads(expr) and _key(expr, self.owner.analyzer) == self.key:
            self.owner.used.add(self.k)
            return self.load
        return super().visit_expr(expr)


def _own_stores(block: Block) -> Iterator[BufferStore]:
    """The stores of a block, those of blocks inside it left out."""
    stack: list[Stmt] = [block.body] if block.init is None else [block.body, block.init]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, BufferStore):
            yield stmt
        elif not isinstance(stmt, BlockRealize):
            stack.extend(reversed(stmt_children(stmt)))


def _repeated(store: BufferStore, iters: set[Var], threshold: int) -> list[_Term]:
    """The expressions in the value of a store that occur often enough in it, in the order in which they are evaluated."""
    analyzer = Analyzer()
    terms: list[_Term] = []

    def add(expr: Expr, count: int, place: bool) -> None:
        key = _key(expr, analyzer)
        for i, t in enumerate(terms):
            if t.key == key:
                terms[i] = replace(t, count=t.count + count)
                return
        # As in TVM: by bisection, as if larger terms stood first, though they stand as they were found. What is pushed back
        # over the place that is looked at is looked at again, and counts its parts again; traces must mean the same there.
        at = bisect_right(terms, -_size(expr), key=lambda t: -_size(t.expr)) if place else len(terms)
        terms.insert(at, _Term(expr, key, count))

    for expr in (store.value, *store.indices):
        for part in _largest(expr, iters):
            add(part, 1, False)
    k = 0
    while k < len(terms):
        count = terms[k].count
        if count < threshold:
            for part in [p for child in expr_children(terms[k].expr) for p in _largest(child, iters)]:
                add(part, count, True)
        k += 1
    found: dict[int, _Term] = {}
    for e in _evaluated(store.value):
        key = _key(e, analyzer)
        for i, t in enumerate(terms):
            if t.count >= threshold and t.key == key:
                found.setdefault(i, t)
    # What is a constant or an iterator after all needs no table.
    return [t for t in found.values() if not isinstance(simplify(t.expr), Var | IntImm)]


def _largest(expr: Expr, iters: set[Var]) -> Iterator[Expr]:
    """The largest parts of an expression that depend on iterators alone, from left to right."""
    if _table_worthy(expr, iters):
        yield expr
        return
    for child in expr_children(expr):
        yield from _largest(child, iters)


def _table_worthy(expr: Expr, iters: set[Var]) -> bool:
    """Whether an expression computes something from iterators, always the same, and for all values that they may take."""
    some = False
    for e in walk_expr(expr):
        match e:
            case Var():
                if e not in iters:
                    return False
                some = True
            case BinOp(op=op, b=b) if op not in _TOTAL and not e.dtype.startswith("float"):
                if not isinstance(b, IntImm) or b.value == 0:
                    return False  # a guard may stand around the division that does not stand around the table
            case Call(op=op):
                if op not in _PURE:
                    return False
            case BinOp() | Cast() | Select() | Not():
                pass
            case _:
                if expr_children(e):
                    return False
    return some and bool(expr_children(expr))


def _key(expr: Expr, analyzer: Analyzer) -> object:
    """The same for expressions that are the same up to simplification and the order of operands."""
    if is_int(expr.dtype):
        terms, constant = analyzer._lin(expr)
        summed = sorted(((_operation(t, analyzer), c) for t, c in terms.items()), key=str)
        return (expr.dtype, constant, tuple(summed))
    return _operation(analyzer.simplify(expr), analyzer)


def _operation(expr: Expr, analyzer: Analyzer) -> object:
    if isinstance(expr, Var):
        return ("var", id(expr))
    parts = [_key(e, analyzer) for e in expr_children(expr)]
    if isinstance(expr, BinOp) and expr.op in _COMMUTATIVE:
        parts.sort(key=str)
    return (type(expr).__name__, getattr(expr, "op", None), expr.dtype, None if parts else getattr(expr, "value", None), *parts)


def _size(expr: Expr) -> int:
    """How many operations, variables and constants an expression has."""
    return sum(1 for _ in walk_expr(expr))


def _evaluated(expr: Expr) -> Iterator[Expr]:
    """An expression's parts, operands before what uses them."""
    for child in expr_children(expr):
        yield from _evaluated(child)
    yield expr


def _variables(expr: Expr) -> list[Var]:
    return list(dict.fromkeys(e for e in _evaluated(expr) if isinstance(e, Var)))


def _position(state: State, scope: Block, realize: BlockRealize) -> int:
    """The position of the statement of a scope that holds a block."""
    if not isinstance(scope.body, SeqStmt):
        return 0
    around = {id(realize), *(id(n) for n in state.ancestors(realize))}
    return next(i for i, s in enumerate(scope.body.stmts) if id(s) in around)
