"""Boxes of buffers that block instances touch: bounds from above, and what is covered without holes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autosched.ir.cover import Form, Span, affine, gapless
from autosched.ir.expr import BinOp, Expr, IntImm, Var, as_expr, int_value
from autosched.ir.functor import Substitute, walk_expr
from autosched.ir.itermap import detect_iter_map
from autosched.ir.region import Relaxer
from autosched.ir.simplify import Analyzer, conjuncts, linear_form
from autosched.ir.stmt import TRUE, BlockRealize, Buffer, BufferRegion, For, Range

Box = list[tuple[Expr, Expr]]
"""Inclusive bounds per dimension."""

Limits = Sequence[tuple[int | None, int | None]]
"""Constant inclusive bounds per dimension, None where there is none."""


def bindings(realize: BlockRealize) -> dict[Var, Expr]:
    """A block's iterators with their values at this place."""
    return {iv.var: value for iv, value in zip(realize.block.iter_vars, realize.iter_values)}


def loop_ranges(loops: Iterable[For]) -> dict[Var, Range]:
    """The domain of each loop variable."""
    return {loop.var: Range(loop.min, loop.extent) for loop in loops}


def spans(loops: Iterable[For]) -> dict[Var, Span] | None:
    """The domains of loops where all are constant and not empty; None otherwise."""
    found: dict[Var, Span] = {}
    for loop in loops:
        lo, extent = loop.min, loop.extent
        if type(lo) is not IntImm or type(extent) is not IntImm or extent.value < 1:
            return None
        found[loop.var] = (lo.value, extent.value)
    return found


_FORMS: dict[tuple[int, int], tuple[object, object, dict[Var, Form | None]]] = {}
_FORMS_LIMIT = 4096


def forms(realize: BlockRealize, fixed: Mapping[Var, Form | None] | None = None) -> dict[Var, Form | None]:
    """A block's iterators as affine forms of the loops around it; None where the value is none.

    Args:
        realize: the block.
        fixed: loops that have one value.
    """
    values = realize.iter_values
    if fixed:
        return {iv.var: affine(value, fixed) for iv, value in zip(realize.block.iter_vars, values)}
    key = (id(values), id(realize.block.iter_vars))
    hit = _FORMS.get(key)
    if hit is None:
        if len(_FORMS) >= _FORMS_LIMIT:
            _FORMS.clear()
        # What the ids are of is kept in the value, so that no other object takes them.
        found = {iv.var: affine(value, {}) for iv, value in zip(realize.block.iter_vars, values)}
        hit = _FORMS[key] = (values, realize.block.iter_vars, found)
    return hit[2]


def is_unit(expr: Expr) -> bool:
    """Whether an extent is the constant one."""
    return isinstance(expr, IntImm) and expr.value == 1


def uses(expr: Expr, names: Mapping[Var, object] | set[Var]) -> bool:
    """Whether an expression mentions one of some variables."""
    kind = type(expr)
    if kind is Var:
        return expr in names
    if kind is IntImm:
        return False
    for e in walk_expr(expr):  # noqa: SIM110  (every check asks this of every binding)
        if isinstance(e, Var) and e in names:
            return True
    return False


def bind_all(analyzer: Analyzer, loops: Iterable[For]) -> Analyzer:
    """``analyzer`` with the domains of some loops bound."""
    for loop in loops:
        analyzer.bind(loop.var, Range(loop.min, loop.extent))
    return analyzer


def pinned(loops: Sequence[For], predicate: Expr) -> dict[Var, Expr]:
    """The loop variables that have a single value where a predicate holds, with that value: loops of one iteration,
    and loops that the predicate cuts down to one."""
    found: dict[Var, Expr] = {loop.var: loop.min for loop in loops if is_unit(loop.extent)}
    analyzer = bind_all(Analyzer(), loops)
    analyzer.assume(without(found, [predicate])[0])
    for loop in loops:
        if loop.var not in found:
            low, high = analyzer.int_bounds(loop.var)
            if low is not None and low == high:
                found[loop.var] = IntImm(low, loop.var.dtype)
    return found


def without(fixed: Mapping[Var, Expr], exprs: Sequence[Expr]) -> list[Expr]:
    """Expressions with some variables at their only value."""
    sub, analyzer = Substitute(fixed), Analyzer()
    return [analyzer.simplify(sub.visit_expr(e)) for e in exprs]


def plain_affine(expr: Expr, counts: Mapping[Var, object]) -> tuple[dict[Var, int], Expr] | None:
    """Integer coefficients and the rest, where that is plain to see; quicker than a normal form."""
    if isinstance(expr, Var):
        return ({expr: 1}, IntImm(0, expr.dtype)) if expr in counts else ({}, expr)
    if isinstance(expr, IntImm):
        return {}, expr
    if not isinstance(expr, BinOp):
        return None if uses(expr, counts) else ({}, expr)
    if expr.op in ("+", "-"):
        a, b = plain_affine(expr.a, counts), plain_affine(expr.b, counts)
        if a is None or b is None:
            return None
        sign = 1 if expr.op == "+" else -1
        coeffs = dict(a[0])
        for var, c in b[0].items():
            coeffs[var] = coeffs.get(var, 0) + sign * c
        return coeffs, a[1] + b[1] if sign > 0 else a[1] - b[1]
    if expr.op == "*":
        by = int_value(expr.b)
        inner = None if by is None else plain_affine(expr.a, counts)
        if by is None or inner is None:
            return None if uses(expr, counts) else ({}, expr)
        return {v: c * by for v, c in inner[0].items()}, inner[1] * by
    return None if uses(expr, counts) else ({}, expr)


def relaxed_box(region: BufferRegion, realize: BlockRealize, loops: Sequence[For]) -> Box:
    """An upper bound of what the instances under ``loops`` touch, symbolic in all other loop variables.

    An end that cannot be told is that of the buffer.
    """
    sub = Substitute(bindings(realize))
    ranges = loop_ranges(loops)
    relaxer: Relaxer | None = None
    box: Box = []
    for r, size in zip(region.region, region.buffer.shape):
        start = sub.visit_expr(r.min)
        if is_unit(r.extent) and (isinstance(start, IntImm) or (isinstance(start, Var) and start not in ranges)):
            box.append((start, start))
            continue
        relaxer = relaxer or Relaxer(ranges)
        first, last = relaxer.ends(start)
        extent = sub.visit_expr(r.extent)
        if not is_unit(extent) and last is not None:
            widest = relaxer.ends(extent)[1]
            last = None if widest is None else last + (widest - 1)
        box.append((IntImm(0, start.dtype) if first is None else first, size - 1 if last is None else last))
    return box


def exact_box(
    region: BufferRegion, realize: BlockRealize, loops: Sequence[For], given: Sequence[Expr] = (), within: Limits = ()
) -> Box | None:
    """The box that the instances under ``loops`` cover without holes, or None where that cannot be shown.

    Args:
        region: a region of the block, in terms of its iterators.
        realize: the block at its place.
        loops: the loops whose iterations are joined.
        given: conditions known to hold (those of the reader).
        within: per dimension, constants that bound the elements of interest; what is left out beyond them does not count.
    """
    sub = Substitute(bindings(realize))
    mins = [sub.visit_expr(r.min) for r in region.region]
    extents = [sub.visit_expr(r.extent) for r in region.region]
    pending = [c for c in conjuncts(realize.predicate) if not _harmless(c, mins, region.buffer, loops, given, within)]
    if pending:
        pending = _first_runs(pending, mins, loops)
    if not pending:
        box = _dense_box(mins, extents, loops)
        if box is not None:
            return box
    predicate: Expr = TRUE
    for c in pending:
        predicate = c if predicate == TRUE else BinOp("and", predicate, c, "bool")
    result = detect_iter_map(mins, loop_ranges(loops), predicate, check="none")
    if not result and predicate != TRUE and (fixed := pinned(loops, predicate)):
        predicate = without(fixed, [predicate])[0]
        result = detect_iter_map(without(fixed, mins), loop_ranges(loops), predicate, check="none")
    if not result:
        return None
    box = []
    for total, start, extent in zip(result.indices, mins, extents):
        width = int_value(extent)
        lo = as_expr(total.base, start.dtype)
        if not total.args:
            box.append((lo, lo + (extent - 1)))
            continue
        if len(total.args) != 1 or width is None:
            return None
        scale, count = int_value(total.args[0].scale), as_expr(total.args[0].extent, lo.dtype)
        if scale is None or abs(scale) > width:
            return None
        last = (count - 1) * abs(scale)
        box.append((lo, lo + last + (width - 1)) if scale >= 0 else (lo - last, lo + (width - 1)))
    return box


def runs_everywhere(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether a block runs for all values of its iterators: its predicate only keeps it from running twice or outside.

    Args:
        realize: the block.
        loops: all loops that drive it.
    """
    block = realize.block
    if not block.iter_vars:
        return realize.predicate == TRUE
    shape = tuple(iv.dom.extent for iv in block.iter_vars)
    from_zero = tuple([v - iv.dom.min for v, iv in zip(realize.iter_values, block.iter_vars)])
    point = BufferRegion(Buffer("domain", shape), tuple(Range(iv.var, IntImm(1, iv.var.dtype)) for iv in block.iter_vars))
    box = exact_box(point, BlockRealize(from_zero, realize.predicate, block), loops)
    return box is not None and box_covers(box, [(IntImm(0), n - 1) for n in shape], shape, Analyzer())


def _first_runs(pending: list[Expr], mins: Sequence[Expr], loops: Sequence[For]) -> list[Expr]:
    """The conditions left, without those that hold in the first iteration of all loops that index nothing.

    What that iteration touches, the others touch again: enough that it runs.
    """
    first: dict[Var, Expr] = {loop.var: loop.min for loop in loops if not any(uses(m, {loop.var}) for m in mins)}
    tied = [c for c in pending if uses(c, first)]
    analyzer = bind_all(Analyzer(), loops)
    if not tied or not all(analyzer.can_prove(c) for c in without(first, tied)):
        return pending
    return [c for c in pending if not uses(c, first)]


def _dense_box(mins: Sequence[Expr], extents: Sequence[Expr], loops: Sequence[For]) -> Box | None:
    counts = {loop.var: int_value(loop.extent) for loop in loops}
    starts = {loop.var: int_value(loop.min) for loop in loops}
    seen: set[Var] = set()
    box: Box = []
    for lo, extent in zip(mins, extents):
        form: tuple[Mapping[Var, int | Expr], Expr] | None = plain_affine(lo, counts) or linear_form(lo, list(counts))
        width = int_value(extent)
        if form is None:
            return None
        coeffs, const = form
        terms = []
        for var, coeff in coeffs.items():
            c, n, start = int_value(coeff), counts[var], starts[var]
            if c is None or start is None or var in seen:
                return None
            seen.add(var)
            if n is None:
                # A symbolic loop is dense when it steps by one over everything below it.
                if c != 1 or len(coeffs) != 1 or width != 1 or start != 0:
                    return None
                extent_expr = next(loop.extent for loop in loops if loop.var is var)
                box.append((const, const + (extent_expr - 1)))
                break
            terms.append((abs(c), c, n, start))
        else:
            if not terms:
                box.append((const, const + (extent - 1)))
                continue
            if width is None:
                return None
            if not gapless([(size, n) for size, _, n, _ in terms], width):
                return None
            span, first = width, const
            for size, c, n, start in sorted(terms):
                span += size * (n - 1)
                first = first + (c * start if c > 0 else c * (start + n - 1))
            box.append((first, first + (span - 1)))
    return box


def index_limits(region: BufferRegion, realize: BlockRealize) -> Limits:
    """Per dimension, the constants between which a block's predicate keeps the index of a region; None where it says nothing."""
    sub = Substitute(bindings(realize))
    found: list[tuple[int | None, int | None]] = []
    gaps = [g for c in conjuncts(realize.predicate) if isinstance(c, BinOp) and (g := _slack(c)) is not None]
    for r in region.region:
        low: int | None = None
        high: int | None = None
        index = sub.visit_expr(r.min)
        for gap in gaps if is_unit(r.extent) and not isinstance(index, IntImm) else ():
            over, under = (linear_form(e, []) for e in (gap + index, gap - index))
            top = None if over is None else int_value(over[1])
            bottom = None if under is None else int_value(under[1])
            if top is not None:
                high = top if high is None else min(high, top)
            if bottom is not None:
                low = -bottom if low is None else max(low, -bottom)
        found.append((low, high))
    return found


def _harmless(
    cond: Expr, mins: Sequence[Expr], buffer: Buffer, loops: Sequence[For], given: Sequence[Expr], within: Limits = ()
) -> bool:
    """Whether a predicate removes no element of the buffer that ``given`` leaves of interest."""
    if cond in given:
        return True
    if not isinstance(cond, BinOp):
        return False
    if cond.op == "==" and isinstance(cond.a, Var) and isinstance(cond.b, IntImm):
        # The one chosen iteration of a loop that indexes nothing: some iteration runs.
        return any(loop.var is cond.a for loop in loops) and not any(uses(m, {cond.a}) for m in mins)
    gap = _slack(cond)
    if gap is None:
        return False
    for d, (index, size) in enumerate(zip(mins, buffer.shape)):
        # In range means index >= 0 and size - 1 - index >= 0; the condition follows if it exceeds one of these by a
        # constant.
        low, high = within[d] if d < len(within) else (None, None)
        for inside in (index if low is None else index - max(low, 0), size - 1 - index if high is None else high - index):
            form = linear_form(gap - inside, [])
            if form is not None and (int_value(form[1]) or 0) >= 0 and int_value(form[1]) is not None:
                return True
    return False


def _slack(cond: BinOp) -> Expr | None:
    """An expression that is not negative exactly where an inequality holds."""
    match cond.op:
        case "<":
            return cond.b - cond.a - 1
        case "<=":
            return cond.b - cond.a
        case ">":
            return cond.a - cond.b - 1
        case ">=":
            return cond.a - cond.b
    return None


def box_covers(outer: Box, inner: Box, shape: Sequence[Expr], analyzer: Analyzer) -> bool:
    """Whether ``outer`` contains all of ``inner`` that lies inside a buffer of this shape."""
    for (alo, ahi), (blo, bhi), size in zip(outer, inner, shape):
        if not (_at_most(alo, blo, analyzer) or _at_most(alo, IntImm(0, alo.dtype), analyzer)):
            return False
        if not (_at_most(bhi, ahi, analyzer) or _at_most(size - 1, ahi, analyzer)):
            return False
    return True


def _at_most(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return x <= y
    return a == b or analyzer.can_prove(a <= b)


def join_boxes(boxes: list[Box], analyzer: Analyzer) -> list[Box]:
    """Boxes merged where two of them differ in one dimension and touch there."""
    merged = list(boxes)
    changed = True
    while changed and len(merged) > 1:
        changed = False
        for i in range(len(merged)):
            for j in range(len(merged)):
                joined = None if i == j else _join(merged[i], merged[j], analyzer)
                if joined is not None:
                    merged = [b for k, b in enumerate(merged) if k not in (i, j)] + [joined]
                    changed = True
                    break
            if changed:
                break
    return merged


def _join(a: Box, b: Box, analyzer: Analyzer) -> Box | None:
    different = [
        d for d, (x, y) in enumerate(zip(a, b))
        if not (analyzer.can_prove_equal(x[0], y[0]) and analyzer.can_prove_equal(x[1], y[1]))
    ]
    if not different:
        return a
    if len(different) > 1:
        return None
    d = different[0]
    if _at_most(a[d][0], b[d][0], analyzer) and _at_most(b[d][0], a[d][1] + 1, analyzer):
        hi = b[d][1] if _at_most(a[d][1], b[d][1], analyzer) else a[d][1]
        return [*a[:d], (a[d][0], hi), *a[d + 1:]]
    return None
