"""How much of a buffer lives at once: what one pass through the loops around its uses touches.

A pass may reuse the storage of the one before it only if it reads nothing that an earlier one wrote. So the scope of a buffer is
the innermost loop around all its uses in which every read is preceded, in the same iteration, by a write that surely happens and
covers it; an accumulation counts as written where its first iteration is inside the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.cover import gapless
from autosched.ir.expr import BinOp, BufferData, BufferLoad, Expr, IntImm, Var, int_value
from autosched.ir.functor import Substitute, free_vars, stmt_children, stmt_exprs, walk_expr
from autosched.ir.itermap import detect_iter_map
from autosched.ir.region import full_ranges, region_bounds, region_covers, union_regions
from autosched.ir.simplify import Analyzer, conjuncts, linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferRegion, BufferStore, For, IfThenElse, PrimFunc, Range, Stmt

Path = tuple[For, ...]

# Stand for iterators, in order of appearance, so that forms of different blocks compare.
_SLOTS = tuple([Var(f"iter{k}") for k in range(8)])


@dataclass(frozen=True, eq=False, slots=True)
class _Use:
    """An access in terms of loops.

    ``first``: loops that are in their first iteration when it happens (the reduction loops around an initial value).
    ``form``: its indices as functions of the block's iterators, and the iterators' extents; None where they are more than that.
    ``point``: the values of these iterators, as an access of a buffer with these extents.
    ``whole``: it happens for every point inside the extents.
    """

    region: BufferRegion
    path: Path
    write: bool
    sure: bool
    first: frozenset[Var]
    form: tuple[tuple[Expr, ...], tuple[Expr, ...]] | None = None
    point: BufferRegion | None = None
    whole: bool = False


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
        self.sure = True
        self.first: frozenset[Var] = frozenset()
        self.clipped: dict[Var, Expr] = {}
        self.initial: frozenset[Var] = frozenset()
        self.extents: dict[Var, Expr] = {}

    def access(self, buffer: Buffer, indices: Sequence[Expr], path: Path, write: bool, whole: bool = False) -> None:
        """One element that a statement loads or stores; ``whole``: no condition but those on the block's iterators."""
        self.add(buffer, [Range(i, IntImm(1)) for i in indices], path, write)
        names = list(dict.fromkeys(v for i in indices for v in free_vars(i)))
        if buffer in self.views or len(names) > len(_SLOTS) or any(v not in self.extents for v in names):
            return
        slots = Substitute(dict(zip(names, _SLOTS)))
        extents = tuple([self.extents[v] for v in names])
        values = BufferRegion(Buffer("iterators", extents), tuple([Range(self.values[v], IntImm(1)) for v in names]))
        last = self.uses[buffer][-1]
        form = (tuple([slots.visit_expr(i) for i in indices]), extents)
        everywhere = whole and self.clipped.keys() - self.initial <= set(names)
        self.uses[buffer][-1] = replace(last, form=form, point=values, whole=everywhere)

    def add(self, buffer: Buffer, region: Sequence[Range], path: Path, write: bool) -> None:
        view = self.views.get(buffer)
        if view is not None:
            # A view is touched as a whole: its regions are small, and some of its uses are calls.
            self.add(view.buffer, view.region, path, write)
            return
        moved = Substitute(self.values).visit_region(BufferRegion(buffer, tuple(region)))
        self.uses.setdefault(buffer, []).append(_Use(moved, path, write, self.sure, self.first))

    def visit(self, stmt: Stmt, path: Path) -> None:
        if isinstance(stmt, BlockRealize):
            self.realize(stmt, path)
            return
        for expr in stmt_exprs(stmt):
            for e in walk_expr(expr):
                if isinstance(e, BufferLoad):
                    self.access(e.buffer, e.indices, path, False)
        sure = self.sure
        if isinstance(stmt, BufferStore):
            self.sure = sure and self.only_clipped(stmt)
            self.access(stmt.buffer, stmt.indices, path, True, sure)
            self.sure = sure
        if isinstance(stmt, IfThenElse):
            self.sure = False
        inner = (*path, stmt) if isinstance(stmt, For) else path
        for child in stmt_children(stmt):
            self.visit(child, inner)
        self.sure = sure

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
        sure, clipped = self.sure, self.clipped
        guarded = _guarded(realize)
        self.sure = sure and guarded is not None
        self.clipped = {**clipped, **(guarded or {})}
        self.calls(block, path)
        if block.init is not None:
            kept = self.first
            self.first = kept | {
                v for iv, value in zip(block.iter_vars, values) if iv.kind == "reduce" for v in free_vars(value)
            }
            self.initial = frozenset(iv.var for iv in block.iter_vars if iv.kind == "reduce")
            self.visit(block.init, path)
            self.first, self.initial = kept, frozenset()
        self.visit(block.body, path)
        self.sure, self.clipped = sure, clipped

    def only_clipped(self, store: BufferStore) -> bool:
        """Whether the conditions around a store only keep it inside the buffer, where everything that is read lies too."""
        inside = {i for i, size in zip(store.indices, store.buffer.shape) if isinstance(i, Var) and self.clipped.get(i) == size}
        # The first iteration of a reduction is never cut off.
        return self.clipped.keys() - self.initial <= inside and all(
            i in inside or not self.clipped.keys() & free_vars(i).keys() for i in store.indices
        )

    def calls(self, block: Block, path: Path) -> None:
        """What a block hands to a call by address is read and written as the block declares, of it or of what it is a view of."""
        sure = self.sure
        self.sure = sure and not self.clipped
        handed = {e.buffer: None for expr in stmt_exprs(block.body) for e in walk_expr(expr) if isinstance(e, BufferData)}
        for buffer in handed:
            names = {buffer, self.views[buffer].buffer if buffer in self.views else buffer}
            read = any(r.buffer in names for r in block.reads)
            write = any(r.buffer in names for r in block.writes)
            if read or not write:
                self.add(buffer, full_ranges(buffer), path, False)
            if write:
                self.add(buffer, full_ranges(buffer), path, True)
        self.sure = sure


def _guarded(realize: BlockRealize) -> dict[Var, Expr] | None:
    """The iterators that a predicate keeps below their extents, with those; None where it says more than that."""
    found: dict[Var, Expr] = {}
    if isinstance(realize.predicate, IntImm):
        return found if realize.predicate.value else None
    analyzer = Analyzer()
    bounds = {(analyzer.simplify(v), iv.dom.extent): iv.var for iv, v in zip(realize.block.iter_vars, realize.iter_values)}
    for part in conjuncts(realize.predicate):
        if not (isinstance(part, BinOp) and part.op == "<"):
            return None
        var = bounds.get((analyzer.simplify(part.a), part.b))
        if var is None:
            return None
        found[var] = part.b
    return found


def _loops(path: Sequence[For]) -> dict[Var, Range]:
    return {loop.var: Range(loop.min, loop.extent) for loop in path}


def _fresh(uses: Sequence[_Use], depth: int, scope: Path) -> bool:
    """Whether nothing read inside the first ``depth`` loops comes from an earlier pass."""
    outer = {loop.var for loop in scope[:depth]}
    for n, use in enumerate(uses):
        if not use.write and not any(
            w.write and not w.first & outer and ((w.sure and _covers(w, use)) or _covers_points(w, use)) for w in uses[:n]
        ):
            return False
    return True


def _covers_points(write: _Use, read: _Use) -> bool:
    """Whether the write is the same function of its iterators as the read, and happens for all of those that the read has.

    So a layout such as ``k // 64 % 2, m, k // 128, k % 64`` is seen through where a partial tile cuts off some ``k``.
    """
    if not write.whole or write.form is None or write.form != read.form:
        return False
    assert write.point is not None and read.point is not None
    return _covers(replace(write, region=write.point), replace(read, region=read.point))


def _covers(write: _Use, read: _Use) -> bool:
    together = len(shared([write.path, read.path]))
    analyzer = Analyzer()
    for var, dom in _loops(read.path[:together]).items():
        analyzer.bind(var, dom)
    inner = [_loops(u.path[together:]) for u in (write, read)]
    # The box around a write is what it writes only if it leaves no holes.
    if not _dense(write.region, inner[0], analyzer):
        return False
    boxes = [region_bounds(u.region, loops, analyzer) for u, loops in zip((write, read), inner)]
    return region_covers(boxes[0], boxes[1], analyzer)


def _dense(region: BufferRegion, inner: dict[Var, Range], analyzer: Analyzer) -> bool:
    """Whether the loops fill the box that their access spans; False only where that is not plain."""
    return _linear(region, inner) or _digits(region, inner, analyzer)


def _linear(region: BufferRegion, inner: dict[Var, Range]) -> bool:
    """Every dimension has loops of its own, in steps that leave no gap."""
    seen: set[Var] = set()
    for r in region.region:
        form = linear_form(r.min, list(inner))
        reach = int_value(r.extent)
        if form is None or reach is None or seen & form[0].keys():
            return False
        seen |= form[0].keys()
        steps = [(c, int_value(inner[v].extent)) for v, c in form[0].items()]
        plain = [(c, n) for c, n in steps if isinstance(c, int) and c >= 0 and n is not None]
        if len(plain) < len(steps) or not gapless(plain, reach):
            return False
    return True


def _digits(region: BufferRegion, inner: dict[Var, Range], analyzer: Analyzer) -> bool:
    """The dimensions are independent digits of the loops (a layout such as ``k // 64 % 2, m, k % 64``)."""
    dom = dict(inner)
    for var, loop in inner.items():
        analyzer.bind(var, loop)
    indices = []
    for r, low in zip(region.region, region_bounds(region, inner, analyzer)):
        if int_value(r.extent) != 1:
            # Independent loops over the parts of the region.
            part = Var("part")
            dom[part] = Range(IntImm(0), r.extent)
            indices.append(analyzer.simplify(r.min - low.min) + part)
        else:
            indices.append(analyzer.simplify(r.min - low.min))
    found = detect_iter_map(indices, dom, check="surjective", analyzer=analyzer)
    if not found:
        return False
    for digits in found.indices:
        steps = [(d.scale, d.extent) for d in digits.args]
        plain = [(c, n) for c, n in steps if isinstance(c, int) and c >= 0 and isinstance(n, int)]
        if len(plain) < len(steps) or not gapless(plain, 1):
            return False
    return True


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
        held = int_value(extent)
        if held is None or (whole is not None and held >= whole):
            low, extent = IntImm(0, size.dtype), size
        window.append(Range(low, extent))
    return None if all(r.extent == s for r, s in zip(window, buffer.shape)) else tuple(window)
