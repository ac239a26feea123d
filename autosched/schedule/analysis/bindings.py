"""Rewriting what stands below a loop when its variable is replaced: bindings, predicates, opaque bodies.

Only block realizes that mention a replaced variable are simplified again; bodies of blocks that use their own iterators
alone are not visited at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BufferData, BufferLoad, Expr, IntImm, Let, Var, logical_and
from autosched.ir.forms import affine
from autosched.ir.functor import Substitute, stmt_children, stmt_exprs, walk_expr
from autosched.ir.itermap import iter_map_simplify
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Range,
    SeqStmt,
    Stmt,
    While,
)
from autosched.schedule.kit.walks import outside


@dataclass(frozen=True, slots=True)
class Facts:
    """What a block mentions.

    Args:
        outer_vars: variables it uses and does not define: symbolic sizes, and loops around an opaque block.
        buffers: buffers it names anywhere, its own included.
        fixed: those of them of which it has a view, or takes the address.
    """

    outer_vars: frozenset[Var]
    buffers: frozenset[Buffer]
    fixed: frozenset[Buffer]


_FACTS: dict[int, tuple[Block, Facts]] = {}
_FACTS_LIMIT = 8192


def facts(block: Block) -> Facts:
    """What a block mentions; remembered, since programs share their blocks from step to step."""
    hit = _FACTS.get(id(block))
    if hit is not None:
        return hit[1]
    exprs: list[Expr] = [x for iv in block.iter_vars for x in (iv.dom.min, iv.dom.extent)]
    bound: set[Var] = {iv.var for iv in block.iter_vars}
    used: set[Var] = set()
    buffers: set[Buffer] = {*block.alloc_buffers, *(m.buffer for m in block.match_buffers)}
    fixed: set[Buffer] = {m.source.buffer for m in block.match_buffers}
    for region in (*block.reads, *block.writes, *(m.source for m in block.match_buffers)):
        buffers.add(region.buffer)
        for r in region.region:
            exprs += (r.min, r.extent)
    stack: list[Stmt] = [block.body] if block.init is None else [block.init, block.body]
    while stack:
        node = stack.pop()
        exprs += stmt_exprs(node)
        if isinstance(node, For | LetStmt):
            bound.add(node.var)
        elif isinstance(node, BufferStore):
            buffers.add(node.buffer)
        elif isinstance(node, AttrStmt) and isinstance(node.node, Buffer):
            buffers.add(node.node)
        if isinstance(node, BlockRealize):
            inner = facts(node.block)
            used |= inner.outer_vars
            buffers |= inner.buffers
            fixed |= inner.fixed
        else:
            stack.extend(stmt_children(node))
    for expr in exprs:
        if type(expr) is IntImm:
            continue
        if type(expr) is Var:
            used.add(expr)
            continue
        for e in walk_expr(expr):
            if isinstance(e, Var):
                used.add(e)
            elif isinstance(e, BufferLoad | BufferData):
                buffers.add(e.buffer)
                if type(e) is BufferData:
                    fixed.add(e.buffer)
            elif isinstance(e, Let):
                bound.add(e.var)
    for buffer in buffers:
        for expr in (*buffer.shape, *buffer.strides, *(() if buffer.elem_offset is None else (buffer.elem_offset,))):
            if type(expr) is not IntImm:
                used.update(e for e in walk_expr(expr) if isinstance(e, Var))
    result = Facts(frozenset(used - bound), frozenset(buffers), frozenset(fixed))
    if len(_FACTS) >= _FACTS_LIMIT:
        _FACTS.clear()
    # The block is kept in the value, so its id cannot be taken by another one while the entry lives.
    _FACTS[id(block)] = (block, result)
    return result


def is_fixed(block: Block, buffer: Buffer) -> bool:
    """Whether a buffer is among ``facts(block).fixed``, without what else a large block mentions."""
    if any(m.source.buffer is buffer for m in block.match_buffers):
        return True
    stack: list[Stmt] = [block.body] if block.init is None else [block.init, block.body]
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            if buffer in facts(node.block).fixed:
                return True
        else:
            stack.extend(stmt_children(node))
        for expr in stmt_exprs(node):
            if type(expr) not in (IntImm, Var) and any(type(e) is BufferData and e.buffer is buffer for e in walk_expr(expr)):
                return True
    return False


class Rebinder(Substitute):
    """Replaces loop variables below a loop.

    Args:
        vmap: replaced variables.
        guard: a condition added to the predicate of the outermost blocks, and put around what stands outside of blocks, or None.
        dom: domains of the loops around, the new ones included.
        preserve_unit_iters: whether a loop of extent one stays in the bindings.
    """

    def __init__(
        self, vmap: Mapping[Var, Expr], guard: Expr | None, dom: Mapping[Var, Range], preserve_unit_iters: bool
    ) -> None:
        super().__init__(vmap)
        self.guard = guard
        self.dom = dict(dom)
        self.preserve_unit_iters = preserve_unit_iters
        self.depth = 0

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        if self.depth == 0 and self.guard is not None and self._needs_guard(stmt):
            return IfThenElse(self.guard, Rebinder(self.vmap, None, self.dom, self.preserve_unit_iters).visit_stmt(stmt))
        if isinstance(stmt, For):
            lo, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
            self.dom[stmt.var] = Range(lo, extent)
            body = self.visit_stmt(stmt.body)
            del self.dom[stmt.var]
            if lo is stmt.min and extent is stmt.extent and body is stmt.body:
                return stmt
            return replace(stmt, min=lo, extent=extent, body=body)
        if isinstance(stmt, BlockRealize):
            return self._realize(stmt)
        return super().visit_stmt(stmt)

    def _needs_guard(self, stmt: Stmt) -> bool:
        """Whether a statement touches buffers itself, or is none that a block's predicate could keep from what it does."""
        if isinstance(stmt, SeqStmt | Block):
            return False
        if isinstance(stmt, For | BlockRealize):
            return any(isinstance(e, BufferLoad) for expr in stmt_exprs(stmt) for e in walk_expr(expr))
        return isinstance(stmt, BufferStore | Evaluate | AssertStmt | While) or outside(stmt) is not None

    def _realize(self, realize: BlockRealize) -> BlockRealize:
        values, predicate = self.visit_exprs(realize.iter_values), self.visit_expr(realize.predicate)
        if self.depth == 0 and self.guard is not None:
            predicate = logical_and(predicate, self.guard)
        block = realize.block
        if any(v in self.vmap for v in facts(block).outer_vars):
            self.depth += 1
            block = self.visit_block(block)
            self.depth -= 1
        changed = values is not realize.iter_values or predicate is not realize.predicate
        if values and (changed or not self.preserve_unit_iters):
            values = tuple(simplify_values(values, self.dom, predicate, self.preserve_unit_iters))
        if block is realize.block and not changed and all(a is b for a, b in zip(values, realize.iter_values)):
            return realize
        return BlockRealize(values, predicate, block)


class BufferReplacer(Substitute):
    """Replaces buffers, not descending into blocks that do not name them; views of a replaced buffer follow it.

    Args:
        bmap: replaced buffers.
    """

    def __init__(self, bmap: Mapping[Buffer, Buffer]) -> None:
        super().__init__(None, dict(bmap))

    def visit_block(self, block: Block) -> Block:
        if not any(b in self.bmap for b in facts(block).buffers):
            return block
        return super().visit_block(block)

    def visit_owner(self, block: Block) -> Block:
        """Rewrites the block that allocates the buffers: it surely names them, so what it mentions is not collected."""
        return super().visit_block(block)


def simplify_values(
    values: Sequence[Expr], dom: Mapping[Var, Range], predicate: Expr, preserve_unit_iters: bool = True
) -> list[Expr]:
    """Block bindings in the normal form of quasi-affine maps."""
    if all(isinstance(v, Var) for v in values) and preserve_unit_iters:
        return list(values)
    if preserve_unit_iters and predicate == TRUE and (plain := plain_digits(values, dom)) is not None:
        return plain
    return list(iter_map_simplify(values, dom, predicate, simplify_trivial=not preserve_unit_iters))


def plain_digits(values: Sequence[Expr], dom: Mapping[Var, Range]) -> list[Expr] | None:
    """The normal form where each value counts in loops of its own, as numbers in digits without gaps; None where not."""
    seen: set[Var] = set()
    found: list[Expr] = []
    for value in values:
        form = affine(value, {})
        if form is None or value.dtype != "int32":
            return None
        terms, const = form
        digits: list[tuple[int, int, Var]] = []
        for v, c in terms.items():
            r = dom.get(v)
            if r is None or type(r.min) is not IntImm or r.min.value or type(r.extent) is not IntImm or v in seen:
                return None
            seen.add(v)
            digits.append((c, r.extent.value, v))
        if not digits or type(value) is Var:
            found.append(value if digits else IntImm(const))
            continue
        if const:
            return None
        digits.sort(key=lambda d: d[:2])
        span = 1
        for (c, n, _), before in zip(digits, [None, *digits]):
            if c != span or (before is not None and before[:2] == (c, n)):
                return None
            span *= n
        total: Expr | None = None
        for c, _, v in reversed(digits):
            total = v * c if total is None else total + v * c
        assert total is not None
        found.append(total)
    return found


def loop_dom(loops: Sequence[For]) -> dict[Var, Range]:
    """The domains of loops by variable."""
    return {loop.var: Range(loop.min, loop.extent) for loop in loops}


def in_sequence(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of a sequence, or the statement alone."""
    return stmt.stmts if isinstance(stmt, SeqStmt) else (stmt,)
