"""Regions of buffers: what an access touches when loops around it run (``relaxer``), and what a block touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autosched.ir.expr import BinOp, BufferData, BufferLoad, Call, Cast, Expr, IntImm, Var, logical_not
from autosched.ir.functor import expr_children, stmt_children, stmt_exprs, substitute, walk_expr
from autosched.ir.patterns import loaded
from autosched.ir.relaxer import Ends, Relaxer
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
