"""Regions of buffers: what an access touches when loops around it run, and what a block touches.

An index is relaxed over some variables: its lowest and highest value are taken over their ranges, and stay expressions
of all other variables. For an index that is affine in the relaxed variables the result is the exact bounding interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Select,
    Var,
    cast,
    logical_not,
)
from autosched.ir.functor import expr_children, stmt_children, stmt_exprs, substitute, walk_expr
from autosched.ir.linear import Lin, Terms, add_forms, build, factors_of
from autosched.ir.patterns import loaded
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBuffer,
    Range,
    Stmt,
    full_region,
)

Ends = tuple[Expr | None, Expr | None]


class Relaxer:
    """Relaxes indices over a set of variables.

    Args:
        dom: ranges of the variables to eliminate; a range may name variables that are not eliminated.
        analyzer: what is known about all other variables; gains ``dom`` and ``predicate``. Default: a new one.
        predicate: a condition under which the accesses happen; tightens constant bounds where it is understood.
    """

    def __init__(
        self, dom: Mapping[Var, Range], analyzer: Analyzer | None = None, predicate: Expr = TRUE
    ) -> None:
        self.dom = dict(dom)
        self.analyzer = ana = Analyzer() if analyzer is None else analyzer
        for var, r in dom.items():
            ana.bind(var, r)
        if predicate is not TRUE:
            ana.assume(predicate)

    def forms(self, expr: Expr) -> tuple[Lin | None, Lin | None]:
        """The lowest and highest value of an index as linear forms; None for an end that is not known."""
        return self._relax(*self.analyzer._lin(expr))

    def ends(self, expr: Expr) -> Ends:
        """The lowest and highest value of an index; None for an end that is not known."""
        lo, hi = self.forms(expr)
        if lo is not None and lo is hi:
            low = build(*lo, expr.dtype)
            return low, low
        return (
            None if lo is None else build(*lo, expr.dtype),
            None if hi is None else build(*hi, expr.dtype),
        )

    def interval(self, r: Range, whole: Range | None = None) -> Range:
        """The range that ``r`` sweeps; ``whole`` where it is not known.

        Raises:
            ValueError: an end is not known, and there is no ``whole``.
        """
        ana = self.analyzer
        size = ana._lin(r.extent)
        lo, hi = self._relax(*ana._lin(r.min))
        if lo is not None and hi is not None:
            if size[0] and any(self._mentions(t) for t in size[0]):
                top = self._relax(*ana._lin2(r.min, r.extent, 1))[1]
            else:
                top = add_forms(hi, size, 1)
            if top is not None:
                if lo is hi and not size[0]:
                    return Range(build(*lo, r.min.dtype), IntImm(size[1], r.min.dtype))
                span = ana._settle(*add_forms(top, lo, -1))
                return Range(build(*lo, r.min.dtype), build(*span, r.min.dtype))
        if whole is None:
            raise ValueError("an index has no bounds over the variables it is relaxed over")
        return whole

    def moves(self, r: Range) -> bool:
        """Whether a range depends on an eliminated variable."""
        return bool(self.dom) and (self._mentions(r.min) or self._mentions(r.extent))

    def _mentions(self, t: Expr) -> bool:
        if type(t) is Var:
            return t in self.dom
        return any(e in self.dom for e in walk_expr(t) if type(e) is Var)

    def _only(self, t: Expr) -> bool:
        """Whether an atom depends on eliminated variables of constant range alone."""
        ana = self.analyzer
        for e in walk_expr(t):
            if type(e) is Var and (e not in self.dom or e in ana._symbolic):
                return False
            if type(e) is BufferLoad:
                return False
        return True

    def _relax(self, terms: Terms, k: int, depth: int = 0) -> tuple[Lin | None, Lin | None]:
        dom = self.dom
        ana = self.analyzer
        kept: Terms = {}
        closed: Terms = {}
        mixed: list[tuple[Expr, int]] = []
        for t, c in terms.items():
            if type(t) is Var:
                if t not in dom:
                    kept[t] = c
                elif t in ana._symbolic:
                    mixed.append((t, c))
                else:
                    closed[t] = c
            elif not self._mentions(t):
                kept[t] = c
            elif self._only(t):
                closed[t] = c
            else:
                mixed.append((t, c))
        if not closed and not mixed:
            return (form := (terms, k)), form
        lo: Lin | None
        hi: Lin | None
        low, high = ana._interval(closed, k)
        lo = None if low == -inf else (kept, int(low))
        hi = None if high == inf else (dict(kept), int(high))
        again = False
        for t, c in mixed:
            a, b = self._atom(t, depth)
            if c < 0:
                a, b = b, a
            lo = None if lo is None or a is None else add_forms(lo, a, c)
            hi = None if hi is None or b is None else add_forms(hi, b, c)
            again = again or type(t) is Var
        if mixed:
            lo = lo and ana._settle(*lo)
            hi = hi and ana._settle(*hi)
            if again and depth < 2 * len(dom):
                # The range of a relaxed variable may name another relaxed variable.
                lo = lo and self._relax(*lo, depth + 1)[0]
                hi = hi and self._relax(*hi, depth + 1)[1]
        return lo, hi

    def _atom(self, t: Expr, depth: int) -> tuple[Lin | None, Lin | None]:
        ana = self.analyzer
        if type(t) is Var:
            return ana._symbolic[t]
        if isinstance(t, BinOp):
            if t.op in ("//", "%") and type(t.b) is IntImm and t.b.value > 0:
                lo, hi = self._relax(*ana._lin(t.a), depth)
                d = t.b.value
                if t.op == "//":
                    return self._quotient(lo, d, t.dtype), self._quotient(hi, d, t.dtype)
                if lo is not None and hi is not None:
                    q, p = self._quotient(lo, d, t.dtype), self._quotient(hi, d, t.dtype)
                    assert q is not None and p is not None
                    if q == p or ana._settle(*add_forms(q, p, -1)) == ({}, 0):
                        return add_forms(lo, q, -d), add_forms(hi, q, -d)
            elif t.op in ("min", "max"):
                x, y = self._relax(*ana._lin(t.a), depth), self._relax(*ana._lin(t.b), depth)
                return self._pick(t.op, x[0], y[0], t.dtype), self._pick(t.op, x[1], y[1], t.dtype)
            elif t.op == "*":
                factors = factors_of(t)
                inside = [f for f in factors if self._mentions(f)]
                if len(inside) == 1:
                    outside = [f for f in factors if f is not inside[0]]
                    sign = self._sign(outside)
                    lo, hi = self._relax(*ana._lin(inside[0]), depth)
                    if sign:
                        lo, hi = (hi, lo) if sign < 0 else (lo, hi)
                        return self._times(lo, outside, t.dtype), self._times(hi, outside, t.dtype)
        if isinstance(t, Select) or (isinstance(t, Call) and t.op == "if_then_else"):
            _, a, b = expr_children(t)
            x, y = self._relax(*ana._lin(a), depth), self._relax(*ana._lin(b), depth)
            return self._pick("min", x[0], y[0], t.dtype), self._pick("max", x[1], y[1], t.dtype)
        if isinstance(t, Cast):
            lo, hi = self._relax(*ana._lin(t.value), depth)
            inner = t.value.dtype
            return (
                lo and ana._lin(cast(t.dtype, build(*lo, inner))),
                hi and ana._lin(cast(t.dtype, build(*hi, inner))),
            )
        low, high = ana._interval({t: 1}, 0)
        return (None if low == -inf else ({}, int(low))), (None if high == inf else ({}, int(high)))

    def _quotient(self, form: Lin | None, d: int, dtype: str) -> Lin | None:
        if form is None:
            return None
        out: Terms = {}
        k = self.analyzer._div(*form, d, 1, out, dtype)
        return self.analyzer._settle(out, k)

    def _pick(self, op: str, a: Lin | None, b: Lin | None, dtype: str) -> Lin | None:
        if a is None or b is None:
            return None
        return self.analyzer._lin(BinOp(op, build(*a, dtype), build(*b, dtype), dtype))

    def _sign(self, factors: list[Expr]) -> int:
        sign = 1
        for f in factors:
            lo, hi = self.analyzer._interval({f: 1}, 0)
            if hi <= 0:
                sign = -sign
            elif lo < 0:
                return 0
        return sign

    def _times(self, form: Lin | None, factors: list[Expr], dtype: str) -> Lin | None:
        if form is None:
            return None
        product: Expr = build(*form, dtype)
        for f in factors:
            product = BinOp("*", product, f, dtype)
        return self.analyzer._lin(product)


def int_set_bounds(
    expr: Expr, dom: Mapping[Var, Range], analyzer: Analyzer | None = None, predicate: Expr = TRUE
) -> Ends:
    """The lowest and highest value of an index over the ranges of some variables.

    Args:
        expr: an integer expression.
        dom: the variables to eliminate.
        analyzer: what is known about the others (gains ``dom``).
        predicate: a condition that holds wherever the index is used.

    Returns:
        (lowest, highest) as expressions of the other variables; None for an end that is not known.
    """
    return Relaxer(dom, analyzer, predicate).ends(expr)


def region_bounds(
    region: BufferRegion | Sequence[Range],
    dom: Mapping[Var, Range],
    analyzer: Analyzer | None = None,
    predicate: Expr = TRUE,
    shape: Sequence[Expr] | None = None,
) -> tuple[Range, ...]:
    """The box that a region sweeps while some variables run over their ranges.

    Args:
        region: a buffer's region, or its ranges alone.
        dom: the variables to eliminate.
        analyzer: what is known about the others (gains ``dom``).
        predicate: a condition that holds wherever the access happens.
        shape: extents to fall back on; default those of the region's buffer.

    Returns:
        One range per dimension, simplified, an expression of the variables that are not in ``dom``; the extent is a
        constant wherever it does not depend on them. A dimension whose index has no bounds covers the whole dimension.

    Raises:
        ValueError: an index has no bounds, and neither buffer nor ``shape`` tell the dimension's extent.
    """
    ranges = region.region if isinstance(region, BufferRegion) else region
    if shape is None and isinstance(region, BufferRegion):
        shape = region.buffer.shape
    relaxer = Relaxer(dom, analyzer, predicate)
    return tuple([
        relaxer.interval(r, None if shape is None else Range(IntImm(0, shape[n].dtype), shape[n]))
        for n, r in enumerate(ranges)
    ])


def union_ranges(a: Range, b: Range, analyzer: Analyzer | None = None) -> Range:
    """The smallest range that holds both; its ends are ``min``/``max`` where neither is known to be the outer one."""
    if a is b or a == b:
        return a
    ana = analyzer or Analyzer()
    lo = ana.simplify(BinOp("min", a.min, b.min, a.min.dtype))
    hi = ana.simplify(BinOp("max", a.min + a.extent - 1, b.min + b.extent - 1, a.min.dtype))
    return Range(lo, ana.simplify(hi + 1 - lo))


def union_regions(regions: Sequence[BufferRegion], analyzer: Analyzer | None = None) -> BufferRegion:
    """The smallest box that holds all of several regions of one buffer.

    Args:
        regions: at least one.
        analyzer: what is known about their variables.

    Raises:
        ValueError: there are none, or they are of different buffers.
    """
    if not regions:
        raise ValueError("no regions to unite")
    first = regions[0]
    ranges = list(first.region)
    for other in regions[1:]:
        if other.buffer is not first.buffer:
            raise ValueError(f"regions of different buffers: {first.buffer.name}, {other.buffer.name}")
        ranges = [union_ranges(a, b, analyzer) for a, b in zip(ranges, other.region)]
    return BufferRegion(first.buffer, tuple(ranges))


def full_ranges(buffer: Buffer) -> tuple[Range, ...]:
    """The whole of a buffer."""
    return full_region(buffer).region


def convert_match(match: MatchBuffer, ranges: Sequence[Range]) -> tuple[Range, ...]:
    """A region of a view as a region of what it is a view of.

    Args:
        match: the view; it may drop leading dimensions of extent 1 of its source.
        ranges: one per dimension of the view.
    """
    source = match.source.region
    lead = len(source) - len(ranges)
    ana = Analyzer()
    inner = [Range(ana.simplify(s.min + r.min), r.extent) for s, r in zip(source[lead:], ranges)]
    return (*source[:lead], *inner)


def _computed(index: Expr) -> bool:
    """Whether an index comes out of floating-point arithmetic: it could be anywhere."""
    return any(type(e) is Cast and e.value.dtype.startswith("float") for e in walk_expr(index))


class _Accesses:
    """The regions that a block touches, by buffer, in order of appearance."""

    def __init__(self, block: Block, buffers: Iterable[Buffer] | None) -> None:
        self.only = None if buffers is None else set(buffers)
        self.local = set(block.alloc_buffers)
        self.matches = {m.buffer: m for m in block.match_buffers}
        self.reads: dict[Buffer, list[Range]] = {}
        self.writes: dict[Buffer, list[Range]] = {}
        self.opaque: dict[Buffer, list[Range]] = {}
        self.united: dict[tuple[int, Buffer], list[set[Range]]] = {}  # what a box holds that was no single range any more
        self.dom: dict[Var, Range] = {}
        self.analyzer = Analyzer()
        self.lets: dict[Var, Expr] = {}

    def add(self, table: dict[Buffer, list[Range]], buffer: Buffer, ranges: Sequence[Range]) -> None:
        if buffer in self.local:
            return
        shape = buffer.shape
        relaxer = Relaxer.__new__(Relaxer)
        relaxer.dom, relaxer.analyzer = self.dom, self.analyzer
        box: Sequence[Range] = [
            relaxer.interval(r, full) if relaxer.moves(r) else full if _computed(r.min) else r
            for r, s in zip(ranges, shape) for full in (Range(IntImm(0, s.dtype), s),)
        ]
        match = self.matches.get(buffer)
        if match is not None:
            buffer = match.source.buffer
            box = convert_match(match, box)
        if self.only is not None and buffer not in self.only:
            return
        old = table.get(buffer)
        if old is None:
            table[buffer] = list(box)
            return
        # A stencil names the same places many times, of which the ends may be long expressions.
        known = self.united.setdefault((id(table), buffer), [{r} for r in old])
        table[buffer] = [a if b in seen else union_ranges(a, b) for a, b, seen in zip(old, box, known)]
        for b, seen in zip(box, known):
            seen.add(b)

    def resolve(self, index: Expr) -> Expr:
        for _ in range(len(self.lets)):
            new = substitute(index, self.lets)
            if new is index:
                break
            index = new
        return index

    def expr(self, e: Expr) -> None:
        if isinstance(e, BufferLoad):
            one = [Range(self.resolve(i), IntImm(1, i.dtype)) for i in e.indices]
            self.add(self.reads, e.buffer, one)
        elif isinstance(e, BufferData):
            self.add(self.opaque, e.buffer, full_ranges(e.buffer))
        elif isinstance(e, Call) and e.op == "tvm_access_ptr" and len(e.args) == 5:
            data, mask = e.args[1], e.args[4]
            if isinstance(data, BufferData) and isinstance(mask, IntImm):
                table = {1: self.reads, 2: self.writes, 3: self.opaque}.get(mask.value & 3)
                if table is not None:
                    self.add(table, data.buffer, full_ranges(data.buffer))
                return
        elif isinstance(e, Call) and e.op == "if_then_else":
            cond, yes, no = e.args
            self.expr(cond)
            with self.analyzer.with_constraint(cond):
                self.expr(yes)
            with self.analyzer.with_constraint(logical_not(cond)):
                self.expr(no)
            return
        for child in expr_children(e):
            self.expr(child)

    def stmt(self, s: Stmt) -> None:
        if isinstance(s, BufferStore):
            one = [Range(self.resolve(i), IntImm(1, i.dtype)) for i in s.indices]
            self.add(self.writes, s.buffer, one)
            self.expr(s.value)
            for i in s.indices:
                self.expr(i)
        elif isinstance(s, For):
            self.expr(s.min)
            self.expr(s.extent)
            loop = Range(self.resolve(s.min), self.resolve(s.extent))
            self.dom[s.var] = loop
            self.analyzer.bind(s.var, loop)
            self.stmt(s.body)
            del self.dom[s.var]
        elif isinstance(s, IfThenElse):
            self.expr(s.condition)
            with self.analyzer.with_constraint(s.condition):
                self.stmt(s.then_case)
            if s.else_case is not None:
                with self.analyzer.with_constraint(logical_not(s.condition)):
                    self.stmt(s.else_case)
        elif isinstance(s, BlockRealize):
            # An inner block speaks for its own body.
            vmap = {iv.var: self.resolve(v) for iv, v in zip(s.block.iter_vars, s.iter_values)}
            for table, regions in ((self.reads, s.block.reads), (self.writes, s.block.writes)):
                for region in regions:
                    ranges = [Range(substitute(r.min, vmap), substitute(r.extent, vmap)) for r in region.region]
                    self.add(table, region.buffer, ranges)
        else:
            if isinstance(s, LetStmt):
                self.lets[s.var] = s.value
            for e in stmt_exprs(s):
                self.expr(e)
            for child in stmt_children(s):
                self.stmt(child)


def access_regions(
    block: Block, buffers: Iterable[Buffer] | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """What one instance of a block reads, writes and touches by address, from its init and body (not its signature).

    The rules are TVM's ``GetSBlockAccessRegion``: what a script block without ``T.reads``/``T.writes`` gets. One region
    per buffer in order of appearance, the union of its accesses, relaxed over the loops inside the block; inner blocks
    count by their signatures; a block with an ``init`` does not list what it writes among its reads. An index that no
    inner loop moves stays as it is written.

    Args:
        block: the block; its own allocations are left out, and its views count as what they view.
        buffers: if given, only these buffers count.

    Returns:
        (reads, writes, opaque), the last for buffers whose ``.data`` is taken (whole buffers).
    """
    found = _Accesses(block, buffers)
    if block.init is not None:
        found.stmt(block.init)
    found.stmt(block.body)
    hidden = found.writes if block.init is not None else {}
    return (
        tuple(BufferRegion(b, tuple(r)) for b, r in found.reads.items() if b not in hidden),
        tuple(BufferRegion(b, tuple(r)) for b, r in found.writes.items()),
        tuple(BufferRegion(b, tuple(r)) for b, r in found.opaque.items()),
    )


def block_access(
    block: Block, buffers: Iterable[Buffer] | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """What one instance of a block reads and writes; a buffer touched by address counts as wholly read and written.

    The rules are TVM's ``GetSBlockReadWriteRegion``; see ``access_regions``.
    """
    reads, writes, opaque = access_regions(block, buffers)
    hidden = {r.buffer for r in opaque}
    writes = tuple(r for r in writes if r.buffer not in hidden)
    return (*(r for r in reads if r.buffer not in hidden), *opaque), (*writes, *opaque)


def with_access(block: Block) -> Block:
    """The block with what it reads and writes worked out anew; tensors that it read before keep their order."""
    reads, writes = block_access(block)
    order = {r.buffer: k for k, r in enumerate(block.reads)}
    return replace(block, reads=tuple(sorted(reads, key=lambda r: order.get(r.buffer, len(order)))), writes=writes)


def without_init(block: Block, reads: Iterable[BufferRegion]) -> Block:
    """The block without its init; of some reads it keeps those of buffers that more than the init reads.

    Args:
        block: a block with an init.
        reads: what it is to read.
    """
    rest = replace(block, init=None, reads=tuple(reads))
    init = block.init
    if init is None or not loaded(init):
        return rest
    mentioned = {r.buffer for r in block_access(rest)[0]}
    return replace(rest, reads=tuple([r for r in rest.reads if r.buffer in mentioned]))
