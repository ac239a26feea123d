"""The loops that a moved block needs: the domain of each of its iterators.

What the other blocks need (or give) below the target loop is a box of the shared buffer; solving the block's own
indices for its iterators turns that box into one interval per iterator, and a bound where the interval may leave the
iterator's domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from math import inf

from autosched.ir.cover import swept
from autosched.ir.expr import BinOp, Expr, IntImm, Var, maximum, minimum
from autosched.ir.forms import NO_TERMS, Form, Terms, index_forms, least
from autosched.ir.functor import Substitute, free_vars
from autosched.ir.itermap import detect_iter_map, inverse_affine_map
from autosched.ir.linear import build
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferRegion, For, Range
from autosched.ir.swept import bounding_box
from autosched.schedule.analysis.boxes import (
    bind_all,
    bindings,
    forms,
    is_unit,
    loop_ranges,
    placed,
    spans,
)
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State

Interval = tuple[Expr | None, Expr | None]
"""Inclusive bounds; None is unbounded."""

Bounds = list[tuple[Expr, Expr]]
"""An interval per dimension of a buffer."""

Point = tuple[list[Expr], list[For]]
"""Indices of one element of a buffer, and the loops over which they move."""


@dataclass
class Domain:
    """What one iterator has to run over: ``dom``, of which only ``bound`` counts; None is the empty set.

    ``count`` is the number of values in ``dom``, where it has been found already: the last one is left out of ``dom`` then, and
    of ``bound`` what holds for all values anyway.
    """

    dom: Interval | None = None
    bound: Interval | None = None
    count: int | None = None

    def join(self, dom: Interval | None, bound: Interval | None, analyzer: Analyzer) -> None:
        self.dom = _hull(self.dom, dom, analyzer)
        self.bound = _hull(self.bound, bound, analyzer)


def _hull(a: Interval | None, b: Interval | None, analyzer: Analyzer) -> Interval | None:
    if a is None or b is None:
        return b if a is None else a
    lo = None if a[0] is None or b[0] is None else _pick(a[0], b[0], False, analyzer)
    hi = None if a[1] is None or b[1] is None else _pick(a[1], b[1], True, analyzer)
    return lo, hi


def meet(a: Interval, b: Interval, analyzer: Analyzer) -> Interval:
    lo = b[0] if a[0] is None else a[0] if b[0] is None else _pick(a[0], b[0], True, analyzer)
    hi = b[1] if a[1] is None else a[1] if b[1] is None else _pick(a[1], b[1], False, analyzer)
    return lo, hi


def _pick(a: Expr, b: Expr, larger: bool, analyzer: Analyzer) -> Expr:
    if a == b:
        return a
    return analyzer.simplify(maximum(a, b) if larger else minimum(a, b))


def iterator_domains(
    state: State, block: Block, target: For, others: list[Block], forward: bool, analyzer: Analyzer
) -> list[Domain]:
    """The domain of each iterator, so that the block provides all that the others need (or consumes what they give)."""
    plain = _plain_domains(state, block, target, others, forward)
    if plain is not None:
        return plain
    provided: dict[Buffer, list[BufferRegion]] = {}
    for region in block.writes if forward else block.reads:
        provided.setdefault(region.buffer, []).append(region)
    required: dict[Buffer, list[Bounds]] = {}
    points: dict[Buffer, list[Point | None]] = {}
    for other in others:
        realize = state.realizes[other.ident]
        inner: list[For] = []
        outside: list[For] = []
        hit = False
        for node in state.ancestors(realize):
            if node is target:
                hit = True
            if isinstance(node, For):
                (outside if hit else inner).append(node)
        for region in other.reads if forward else other.writes:
            if region.buffer in provided:
                threads = [n for n in outside if forward and _shared_by_threads(region.buffer, n)]
                required.setdefault(region.buffer, []).append(_bounds(region, realize, [*inner, *threads]))
                points.setdefault(region.buffer, []).append(_point(region, realize, [*inner, *threads]))
    domains = {iv.var: Domain() for iv in block.iter_vars}
    for buffer, regions in provided.items():
        boxes = required.get(buffer)
        if not boxes:
            continue
        need = _union([[(analyzer.simplify(lo), analyzer.simplify(hi)) for lo, hi in box] for box in boxes], analyzer)
        give = _union([[(r.min, _end(r)) for r in region.region] for region in regions], analyzer)
        if not _solve_jointly(block, buffer, give, need, points[buffer], analyzer, domains):
            for k, size in enumerate(buffer.shape):
                _solve_dimension(block, buffer, give[k], need[k], maximum(size - 1, 0), analyzer, domains)
    result = []
    for iv in block.iter_vars:
        domain = domains[iv.var]
        whole: Interval = (iv.dom.min, analyzer.simplify(iv.dom.min + iv.dom.extent - 1))
        domain.bound = whole if domain.bound is None else meet(domain.bound, whole, analyzer)
        _settle(domain, analyzer)
        result.append(domain)
    return result


def _plain_domains(state: State, block: Block, target: For, others: list[Block], forward: bool) -> list[Domain] | None:
    """The domains where all is affine with constant ranges and iterators index dimensions by themselves; or None."""
    provided: dict[Buffer, tuple[Range, ...]] = {}
    for region in block.writes if forward else block.reads:
        if region.buffer in provided:
            return None
        provided[region.buffer] = region.region
    needed: dict[Var, tuple[Terms, int, int]] = {}
    limit: dict[Var, int] = {}
    own = {iv.var for iv in block.iter_vars}
    around = spans([*state.loops_above(target), target])
    if around is None or any(isinstance(n, For) and n.thread is not None for n in (target, *state.ancestors(target))):
        return None
    fixed: dict[Var, Form | None] = {v: (NO_TERMS, lo) for v, (lo, n) in around.items() if n == 1}
    for other in others:
        realize = state.realizes[other.ident]
        inner = spans(takewhile(lambda n: n is not target, (n for n in state.ancestors(realize) if isinstance(n, For))))
        if inner is None:
            return None
        values = forms(realize, fixed)
        for region in other.reads if forward else other.writes:
            give = provided.get(region.buffer)
            if give is None:
                continue
            indices = index_forms(region, values)
            if indices is None:
                return None
            box = swept(indices, inner)
            met: set[Var] = set()
            for r, ((still, lo), (_, hi), _), size in zip(give, box, region.buffer.shape):
                var = r.min
                if not (is_unit(r.extent) and type(var) is Var and type(size) is IntImm) or var not in own or var in met:
                    return None
                met.add(var)
                old = needed.get(var)
                if old is not None and old[0] != still:
                    return None
                needed[var] = (still, lo, hi) if old is None else (old[0], min(lo, old[1]), max(hi, old[2]))
                limit[var] = max(limit.get(var, 0), size.value)
    found: list[Domain] = []
    for iv in block.iter_vars:
        first, extent = iv.dom.min, iv.dom.extent
        if type(first) is not IntImm or type(extent) is not IntImm or not first.dtype == extent.dtype == iv.var.dtype == "int32":
            return None
        last = first.value + extent.value - 1
        if iv.var not in needed:
            found.append(Domain((first, None), None, extent.value))
            continue
        still, lo, hi = needed[iv.var]
        bottom, top = max(first.value, 0), min(last, limit[iv.var] - 1)
        if not still:
            lo, hi = max(lo, bottom), min(hi, top)
        if not still:
            if lo > hi:
                return None
            found.append(Domain((IntImm(lo), None), None, hi - lo + 1))
            continue
        least_lo, most_lo = lo + least(still, NO_TERMS, around), lo - least(NO_TERMS, still, around)
        if lo > hi or most_lo == inf or any(v.dtype != "int32" for v in still):
            return None
        below, above = least_lo < bottom, most_lo + hi - lo > top
        if (below or above) and most_lo <= bottom and least_lo + hi - lo >= top:
            found.append(Domain((IntImm(bottom), None), None, top - bottom + 1))
            continue
        domain = Domain((build(dict(still.items()), lo, "int32"), None), None, hi - lo + 1)
        if below or above:
            domain.bound = (IntImm(bottom) if below else None, IntImm(top) if above else None)
        found.append(domain)
    return found


def _bounds(region: BufferRegion, realize: BlockRealize, loops: list[For]) -> Bounds:
    """What a region of a block touches at most while loops run."""
    box = bounding_box(placed(region, realize), loop_ranges(loops))
    return [
        (build(dict(low), lo, r.min.dtype), build(dict(high), hi, r.min.dtype))
        for ((low, lo), (high, hi), _), r in zip(box, region.region)
    ]


def _end(r: Range) -> Expr:
    return r.min if is_unit(r.extent) else r.min + (r.extent - 1)


def _shared_by_threads(buffer: Buffer, loop: For) -> bool:
    """Whether a buffer's memory is shared over the iterations of a bound loop, so that the block serves all of them."""
    if loop.thread is None:
        return False
    if buffer.scope.startswith("warp"):
        return loop.thread == "threadIdx.x"
    return buffer.scope.startswith("shared") and loop.thread.startswith(("threadIdx", "vthread"))


def _point(region: BufferRegion, realize: BlockRealize, loops: list[For]) -> Point | None:
    """The one element that a region is, at the place of its block."""
    if not all(is_unit(r.extent) for r in region.region):
        return None
    sub = Substitute(bindings(realize))
    return [sub.visit_expr(r.min) for r in region.region], loops


def _union(boxes: list[Bounds], analyzer: Analyzer) -> Bounds:
    joined = boxes[0]
    for box in boxes[1:]:
        joined = [
            (_pick(a[0], b[0], False, analyzer), _pick(a[1], b[1], True, analyzer)) for a, b in zip(joined, box)
        ]
    return joined


def _solve_jointly(
    block: Block, buffer: Buffer, give: Bounds, need: Bounds, points: list[Point | None], analyzer: Analyzer,
    domains: dict[Var, Domain],
) -> bool:
    """Inverts the map from iterators to one element, where it is a bijection.

    An interval of elements says less than the elements themselves: of a row-major layout with rows of 10, ``10 * i + j``
    for all i is an interval that meets all columns, and yet one column.
    """
    if any(lo is not hi for lo, hi in give):
        return False
    ranges = {iv.var: iv.dom for iv in block.iter_vars}
    if all(isinstance(lo, Var) or (isinstance(lo, IntImm) and lo.value == 0) for lo, _ in give):
        found = [lo for lo, _ in give if isinstance(lo, Var)]
        if len(set(found)) != len(found) or any(v not in ranges for v in found):
            return False
        for (var, _), wanted, size in zip(give, need, buffer.shape):
            if isinstance(var, Var):
                domains[var].join(wanted, (IntImm(0, size.dtype), maximum(size - 1, 0)), analyzer)
        return True
    result = detect_iter_map([lo for lo, _ in give], ranges, TRUE, "bijective", simplify_trivial=False)
    if not result:
        return False
    steps = [Var(f"d{k}", lo.dtype) for k, (lo, _) in enumerate(give)]
    try:
        inverse = inverse_affine_map(result.indices, steps)
    except ValueError:  # a stride: bijective onto what it reaches, which is not all of the dimension
        return False
    whole = {s: Range(IntImm(0, size.dtype), size) for s, size in zip(steps, buffer.shape)}
    for var, expr in inverse.items():
        used = set(free_vars(expr))
        moved: dict[Var, Expr] = {}
        ranges_used: dict[Var, Range] = {}
        for step, (lo, hi) in zip(steps, need):
            if step in used:
                extent = analyzer.simplify(hi - lo + 1)
                moved[step] = lo if is_unit(extent) else lo + step
                ranges_used[step] = Range(IntImm(0, lo.dtype), extent)
        if isinstance(expr, Var) and expr in used and len(used) == 1:
            dom: Interval = need[steps.index(expr)]
        else:
            for step, r in ranges_used.items():
                analyzer.bind(step, r)
            point = analyzer.simplify(Substitute(moved).visit_expr(expr))
            dom = _simplified(int_set_bounds(point, ranges_used), analyzer)
            dom = _narrower(dom, _through_points(expr, steps, points, analyzer), analyzer)
        ends = int_set_bounds(expr, {s: r for s, r in whole.items() if s in used})
        domains[var].join(dom, _simplified(ends, analyzer), analyzer)
    return True


def _through_points(expr: Expr, steps: list[Var], points: list[Point | None], analyzer: Analyzer) -> Interval | None:
    """The values of an iterator for which a block provides some elements, each followed through the inverse map."""
    joined: Interval | None = None
    for point in points:
        if point is None:
            return None
        indices, loops = point
        bind_all(analyzer, loops)
        where = analyzer.simplify(Substitute(dict(zip(steps, indices))).visit_expr(expr))
        joined = _hull(joined, _simplified(int_set_bounds(where, loop_ranges(loops)), analyzer), analyzer)
    return joined


def _narrower(a: Interval, b: Interval | None, analyzer: Analyzer) -> Interval:
    """The second of two intervals that both contain what is wanted, where it is the shorter one."""
    if b is None or b[0] is None or b[1] is None:
        return a
    if a[0] is None or a[1] is None:
        return b
    return b if analyzer.can_prove(b[1] - b[0] < a[1] - a[0]) else a


def _simplified(ends: Interval, analyzer: Analyzer) -> Interval:
    lo, hi = ends
    return None if lo is None else analyzer.simplify(lo), None if hi is None else analyzer.simplify(hi)


def _solve_dimension(
    block: Block, buffer: Buffer, give: tuple[Expr, Expr], need: tuple[Expr, Expr], top: Expr, analyzer: Analyzer,
    domains: dict[Var, Domain],
) -> None:
    """The domain of the one iterator that a dimension of the provided region moves with."""
    lo, hi = analyzer.simplify(give[0]), analyzer.simplify(give[1])
    want: Interval = (analyzer.simplify(need[0]), analyzer.simplify(need[1]))
    zero = IntImm(0, lo.dtype)
    single = analyzer.can_prove_equal(lo, hi)
    if not any(v in domains for v in free_vars(lo)):
        if not any(v in domains for v in free_vars(hi)):
            return
        raise _unsolved(block, buffer, lo)
    limit: Interval = (zero, top)
    width = analyzer.simplify(hi - lo + 1)
    while True:
        if isinstance(lo, Var) and single:
            domains[lo].join(want, limit, analyzer)
            return
        form = linear_form(lo, list(domains))
        if form is not None and len(form[0]) == 1:
            (var, coeff), = form[0].items()
            offset = form[1]
            step = coeff if isinstance(coeff, Expr) else IntImm(coeff, lo.dtype)
            # Windows that overlap, or leave holes, have no one iterator value for each element.
            if analyzer.can_prove(step >= 1) and (single or analyzer.can_prove_equal(step, width)):
                dom = _divide(want, offset, step, analyzer)
                bound = _divide(limit, offset, step, analyzer)
                domains[var].join(dom, bound, analyzer)
                return
        if single and isinstance(lo, BinOp) and lo.op == "//" and analyzer.can_prove(lo.b >= 1):
            by = lo.b
            want = (_times(want[0], by, analyzer), _last_of(want[1], by, analyzer))
            limit = (_times(limit[0], by, analyzer), _last_of(limit[1], by, analyzer))
            lo = lo.a
            continue
        if single and isinstance(lo, BinOp) and lo.op == "%":
            if isinstance(lo.a, Var):
                return
            if want[0] is not None and analyzer.can_prove(want[0] >= 0):
                # The remainder says little about the dividend: at least as large, if it is not negative.
                want, lo = (want[0], None), lo.a
                continue
        raise _unsolved(block, buffer, lo)


def _unsolved(block: Block, buffer: Buffer, index: Expr) -> Refusal:
    from autosched.ir.printer import expr_text

    return Refusal(
        f"the index {expr_text(index)} of {buffer.name} in block {block.name} cannot be solved for one iterator",
        [block.ident], code="index",
    )


def _divide(interval: Interval, offset: Expr, step: Expr, analyzer: Analyzer) -> Interval:
    lo, hi = interval
    return (
        None if lo is None else analyzer.simplify((lo - offset) // step),
        None if hi is None else analyzer.simplify((hi - offset) // step),
    )


def _times(value: Expr | None, by: Expr, analyzer: Analyzer) -> Expr | None:
    return None if value is None else analyzer.simplify(value * by)


def _last_of(value: Expr | None, by: Expr, analyzer: Analyzer) -> Expr | None:
    return None if value is None else analyzer.simplify(value * by + by - 1)


def _settle(domain: Domain, analyzer: Analyzer) -> None:
    """Keeps a bound only where it says more than the domain and the loops could not simply be shorter."""
    bound = domain.bound
    assert bound is not None
    if domain.dom is None:
        domain.dom, domain.bound = bound, None
        return
    lo, hi = domain.dom
    # A limit reached through a division or remainder may be open at one side: the bound closes it.
    lo, hi = bound[0] if lo is None else lo, bound[1] if hi is None else hi
    assert lo is not None and hi is not None
    domain.dom = (lo, hi)
    both = meet(domain.dom, bound, analyzer)
    if _same(domain.dom, both, analyzer):
        domain.bound = None
    elif _same(bound, both, analyzer):
        domain.dom, domain.bound = bound, None
    elif isinstance(both[0], IntImm) and isinstance(both[1], IntImm):
        domain.dom, domain.bound = both, None


def _same(a: Interval, b: Interval, analyzer: Analyzer) -> bool:
    return all(
        x is y or (x is not None and y is not None and analyzer.can_prove_equal(x, y)) for x, y in zip(a, b)
    )
