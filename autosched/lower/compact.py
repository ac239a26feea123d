"""How much of a buffer lives at once: what one pass through the loops around its uses touches.

A pass may reuse the storage of the one before it only if it reads nothing that an earlier one wrote. So the scope of a buffer is
the innermost loop around all its uses in which every read is preceded, in the same iteration, by a write that surely happens and
covers it; an accumulation counts as written where its first iteration is inside the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.cover import covers
from autosched.ir.expr import BinOp, BufferData, BufferLoad, Expr, IntImm, Var, int_value
from autosched.ir.functor import Substitute, free_vars, stmt_children, stmt_exprs, walk_expr
from autosched.ir.region import full_ranges, region_bounds, union_regions
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    point,
)
from autosched.ir.swept import bounding_box, exact_box, matched

Path = tuple[For, ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Use:
    """An access in terms of loops.

    ``conds``: what has to hold for it to happen; None where that is not known.
    ``first``: loops that are in their first iteration when it happens (the reduction loops around an initial value).
    ``form``: one element, as a function of its block's iterators, with their extents and values; None where it is more than that.
    """

    region: BufferRegion
    path: Path
    write: bool
    conds: tuple[Expr, ...] | None
    first: frozenset[Var]
    form: tuple[BufferRegion, dict[Var, tuple[Expr, Expr]]] | None = None


def shared(paths: Sequence[Path]) -> Path:
    """The loops around all of several places, outermost first."""
    common = []
    for level in zip(*paths):
        if any(loop is not level[0] for loop in level):
            break
        common.append(level[0])
    return tuple(common)


def windows(func: PrimFunc) -> dict[Buffer, tuple[Range, ...]]:
    """What one pass touches of every buffer that is not a parameter.

    Args:
        func: a program at any stage, with constant extents.

    Returns:
        Per buffer one range per dimension: a minimum in terms of the loops around its scope, and a constant extent. Buffers that
        are needed whole are left out.
    """
    collector = _Collector()
    collector.visit(func.body, ())
    own = set(func.given)
    found = {}
    for buffer, uses in collector.uses.items():
        if buffer not in own:
            window = _window(buffer, uses)
            if window is not None:
                found[buffer] = window
    return found


class _Collector:
    def __init__(self) -> None:
        self.uses: dict[Buffer, list[_Use]] = {}
        self.values: dict[Var, Expr] = {}
        self.views: dict[Buffer, BufferRegion] = {}
        self.conds: tuple[Expr, ...] | None = ()
        self.first: frozenset[Var] = frozenset()
        self.extents: dict[Var, Expr] = {}

    def access(self, buffer: Buffer, indices: tuple[Expr, ...], path: Path, write: bool) -> None:
        """One element that a statement loads or stores."""
        element = point(buffer, indices)
        self.add(buffer, element.region, path, write)
        names = list(dict.fromkeys(v for i in indices for v in free_vars(i)))
        if buffer not in self.views and all(v in self.extents for v in names):
            iters = {v: (self.extents[v], self.values[v]) for v in names}
            self.uses[buffer][-1] = replace(self.uses[buffer][-1], form=(element, iters))

    def add(self, buffer: Buffer, region: Sequence[Range], path: Path, write: bool) -> None:
        view = self.views.get(buffer)
        if view is not None:
            # A view is touched as a whole: its regions are small, and some of its uses are calls.
            self.add(view.buffer, view.region, path, write)
            return
        moved = Substitute(self.values).visit_region(BufferRegion(buffer, tuple(region)))
        self.uses.setdefault(buffer, []).append(_Use(moved, path, write, self.conds, self.first))

    def visit(self, stmt: Stmt, path: Path) -> None:
        if isinstance(stmt, BlockRealize):
            self.realize(stmt, path)
            return
        for expr in stmt_exprs(stmt):
            for e in walk_expr(expr):
                if isinstance(e, BufferLoad):
                    self.access(e.buffer, e.indices, path, False)
        conds = self.conds
        if isinstance(stmt, BufferStore):
            self.access(stmt.buffer, stmt.indices, path, True)
        if isinstance(stmt, IfThenElse):
            self.conds = None
        inner = (*path, stmt) if isinstance(stmt, For) else path
        for child in stmt_children(stmt):
            self.visit(child, inner)
        self.conds = conds

    def realize(self, realize: BlockRealize, path: Path) -> None:
        block = realize.block
        replaced = Substitute(self.values)
        values = [replaced.visit_expr(v) for v in realize.iter_values]
        for iter_var, value in zip(block.iter_vars, values):
            self.values[iter_var.var] = value
            if int_value(iter_var.dom.min) == 0:
                self.extents[iter_var.var] = iter_var.dom.extent
        for match in block.match_buffers:
            self.views[match.buffer] = Substitute(self.values).visit_region(match.source)
        conds = self.conds
        holds = tuple([replaced.visit_expr(c) for c in conjuncts(realize.predicate)])
        self.conds = None if conds is None else (*conds, *holds)
        self.calls(block, path)
        if block.init is not None:
            first, after = self.first, self.conds
            reduced = [(value, iv.dom.min) for iv, value in zip(block.iter_vars, values) if iv.kind == "reduce"]
            self.first = first | {v for value, _ in reduced for v in free_vars(value)}
            # The first iteration of a reduction is never cut off.
            self.conds = None if conds is None else (*conds, *[c for c in holds if not _bounds(c, reduced)])
            self.visit(block.init, path)
            self.first, self.conds = first, after
        self.visit(block.body, path)
        self.conds = conds

    def calls(self, block: Block, path: Path) -> None:
        """What a block hands to a call by address is read and written as the block declares, of it or of what it is a view of."""
        handed = {e.buffer: None for expr in stmt_exprs(block.body) for e in walk_expr(expr) if isinstance(e, BufferData)}
        for buffer in handed:
            names = {buffer, self.views[buffer].buffer if buffer in self.views else buffer}
            read = any(r.buffer in names for r in block.reads)
            write = any(r.buffer in names for r in block.writes)
            if read or not write:
                self.add(buffer, full_ranges(buffer), path, False)
            if write:
                self.add(buffer, full_ranges(buffer), path, True)


def _bounds(cond: Expr, values: Sequence[tuple[Expr, Expr]]) -> bool:
    """Whether a condition only says where one of some values ends, each given with its first one."""
    if not isinstance(cond, BinOp) or cond.op != "<":
        return False
    analyzer = Analyzer()
    return any(analyzer.can_prove_equal(cond.a, v) and not analyzer.can_prove(first >= cond.b) for v, first in values)


def _loops(path: Sequence[For]) -> dict[Var, Range]:
    return {loop.var: Range(loop.min, loop.extent) for loop in path}


def _fresh(uses: Sequence[_Use], depth: int, scope: Path) -> bool:
    """Whether nothing read inside the first ``depth`` loops comes from an earlier pass."""
    outer = {loop.var for loop in scope[:depth]}
    for n, use in enumerate(uses):
        if not use.write and not any(w.write and not w.first & outer and _covered(w, use) for w in uses[:n]):
            return False
    return True


def _covered(write: _Use, read: _Use) -> bool:
    """Whether a write surely happens and covers a read in each iteration of the loops that both have around them."""
    if write.conds is None:
        return False
    together = len(shared([write.path, read.path]))
    theirs, mine = (_loops(u.path[together:]) for u in (write, read))
    for have, need in ((write.region, read.region), _iterators(write, read)):
        analyzer = Analyzer(_loops(read.path[:together]))
        box = exact_box(have, theirs, write.conds, analyzer=analyzer)
        if box is not None and covers(box, bounding_box(need, mine, analyzer), have.buffer.shape, analyzer.never_negative):
            return True
    return False


def _iterators(write: _Use, read: _Use) -> tuple[BufferRegion, BufferRegion]:
    """The iterators of a write and of a read as points of a buffer, where the elements are the same function of them.

    One that covers the other does so with the elements, too: so a layout such as ``k // 64 % 2, m, k // 128, k % 64`` is seen
    through where a partial tile cuts off some ``k``. Where the functions differ it is the regions again.
    """
    if write.form is not None and read.form is not None:
        (pattern, theirs), (element, mine) = write.form, read.form
        pairs = matched(pattern, theirs, element) or {}
        both = [(*theirs[v], *mine[e]) for v, e in pairs.items() if isinstance(e, Var) and e in mine]
        if pairs and len(both) == len(pairs) and all(extent == other for extent, _, other, _ in both):
            domain = Buffer("iterators", tuple([extent for extent, *_ in both]))
            return point(domain, tuple([x[1] for x in both])), point(domain, tuple([x[3] for x in both]))
    return write.region, read.region


def _window(buffer: Buffer, uses: Sequence[_Use]) -> tuple[Range, ...] | None:
    scope = shared([u.path for u in uses])
    depth = next(d for d in range(len(scope), -1, -1) if d == 0 or _fresh(uses, d, scope))
    analyzer = Analyzer()
    for var, dom in _loops(scope[:depth]).items():
        analyzer.bind(var, dom)
    boxes = [BufferRegion(buffer, region_bounds(u.region, _loops(u.path[depth:]), analyzer)) for u in uses]
    union = union_regions(boxes, analyzer).region
    window = []
    for r, size in zip(union, buffer.shape):
        low, extent = analyzer.simplify(r.min), analyzer.simplify(r.extent)
        whole = int_value(size)
        # How far apart the ends are may vary with a loop, as that of quotients does: then the most holds all.
        held = analyzer.largest(extent)
        if held is None or (whole is not None and held >= whole):
            window.append(Range(IntImm(0, size.dtype), size))
        else:
            window.append(Range(low, IntImm(held, size.dtype)))
    return None if all(r.extent == s for r, s in zip(window, buffer.shape)) else tuple(window)
