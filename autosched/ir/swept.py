"""Boxes of regions whose ends are symbols, whose indices are digits of loops, or that predicates cut.

``exact_box`` bounds from below, what surely is touched, and gives None where it cannot tell; ``bounding_box`` bounds from above.
Both give the boxes of ``cover``: what stands still in their ends are variables, and expressions that no loop moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from autosched.ir.cover import Box, Limits, Side, at_most, cut_off, cuts_of, gapless, left_out, limits_of, some_run, swept
from autosched.ir.expr import BinOp, Expr, IntImm, Var, as_expr, int_value, logical_not
from autosched.ir.forms import COMPARED, NO_TERMS, Form, Span, affine, compared, plus, tight
from autosched.ir.functor import free_vars, substitute, uses, walk_expr
from autosched.ir.iter_terms import IterSum
from autosched.ir.itermap import IterMapResult, detect_iter_map, pinned, without
from autosched.ir.linear import build
from autosched.ir.relaxer import Relaxer
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, BufferRegion, Range

Loops = Mapping[Var, Range]

NO_LOOPS: Loops = {}
NO_FORMS: Mapping[Var, Form | None] = {}

_ANY_LENGTH = 1 << 62


def form_of(expr: Expr, analyzer: Analyzer | None = None, fixed: Mapping[Var, Form | None] = NO_FORMS) -> Form:
    """An integer expression as a form; what is not affine in it are terms of their own.

    Args:
        expr: the expression.
        analyzer: what is known about its variables.
        fixed: those of them that have one value.
    """
    return affine(expr, fixed) or (analyzer or Analyzer())._lin(expr)


def ranges_box(ranges: Sequence[Range], analyzer: Analyzer | None = None) -> Box:
    """A region all of whose elements are meant."""
    box: Box = []
    for r in ranges:
        low = form_of(r.min, analyzer)
        high = plus(low, form_of(r.extent, analyzer), 1)
        box.append((low, (high[0], high[1] - 1), True))
    return box


def bounding_box(region: BufferRegion, loops: Loops, analyzer: Analyzer | None = None) -> Box:
    """A box around all that a region sweeps while loops run; an end that cannot be told is that of the buffer.

    Args:
        region: in terms of these loops and of what stands still.
        loops: those that run.
        analyzer: what is known about what stands still (gains the loops).
    """
    inner = _spans(loops)
    relaxer: Relaxer | None = None
    box: Box = []
    for r, size in zip(region.region, region.buffer.shape):
        width = int_value(r.extent)
        form = None if width is None else affine(r.min, {})
        if form is not None and width is not None and all(t in inner or t not in loops for t in form[0]):
            box += swept([(form, width)], inner)
            continue
        relaxer = relaxer or Relaxer(loops, analyzer)
        low, high = relaxer.forms(r.min)
        widest = relaxer.forms(r.extent)[1]
        last = None if high is None or widest is None else plus(high, widest, 1)
        end = form_of(size) if last is None else last
        box.append((low or (NO_TERMS, 0), (end[0], end[1] - 1), False))
    return box


def exact_box(
    region: BufferRegion, loops: Loops, conds: Sequence[Expr] = (), given: Sequence[Expr] = (), limits: Limits = (),
    analyzer: Analyzer | None = None, before: Loops = NO_LOOPS, missing: bool = False,
) -> Box | None:
    """The box that a region has swept without holes when loops have run, or None where that cannot be shown.

    Args:
        region: in terms of these loops and of what stands still.
        loops: those that run; all of them do at least once.
        conds: conditions under which the region is touched.
        given: conditions known to hold (those of the reader).
        limits: per dimension, constants that bound the elements of interest; what is left out beyond them does not count.
        analyzer: what is known about what stands still (gains the loops).
        before: loops that stand still, what was touched in earlier iterations of which counts as well.
        missing: let the box contain elements that no iteration of any loop touches: those that round a layout up to whole rows.
    """
    known = Analyzer() if analyzer is None else analyzer
    for var, r in loops.items():
        known.bind(var, r)
        if type(r.extent) is not IntImm:
            known.assume(known.simplify(r.extent >= 1))

    def found(loops: Loops) -> Box | None:
        return _still_box(region, loops, conds, given, limits, known, before, missing)

    box = found(loops)
    if box is not None:
        return box
    parts = [form_of(r.min, known) for r in region.region] + [f for c in conds for f in _forms(c, known) or ()]
    divided = {v for terms, _ in parts for t in terms if type(t) is not Var for v in walk_expr(t)}
    return _gliding(found, loops, [v for v in _spans(loops) if v in divided], known)


def _gliding(found: Callable[[Loops], Box | None], loops: Loops, steps: Sequence[Var], analyzer: Analyzer) -> Box | None:
    """The box of a region whose place is no sum of loops: that of all but one of them, which moves it on without a gap.

    From where one iteration begins to where the next one does, all is touched if that is no further than behind its end.

    Args:
        found: the box while some loops run.
        loops: all of them.
        steps: of these, those that may move the box of the others, each with constant ends.
        analyzer: what is known about all of them.
    """
    for n, var in enumerate(steps):
        rest = {v: r for v, r in loops.items() if v is not var}
        box = found(rest) or _gliding(found, rest, steps[n + 1:], analyzer)
        if box is None:
            continue
        moved = [d for d, (low, high, _) in enumerate(box) if any(uses(t, {var}) for t in (*low[0], *high[0]))]
        if len(moved) > 1:
            continue
        start, count = _spans(loops)[var]
        if moved and count > 1:
            low, high, whole = box[moved[0]]
            analyzer.bind(var, Range(IntImm(start), IntImm(count - 1)))
            behind = _at(low, var, var + 1, analyzer)
            gapless = at_most(behind, (high[0], high[1] + 1), analyzer.never_negative)
            analyzer.bind(var, loops[var])
            ends = _at(low, var, IntImm(start), analyzer), _at(high, var, IntImm(start + count - 1), analyzer)
            if not gapless or not at_most(*ends, analyzer.never_negative):
                continue
            box[moved[0]] = *ends, whole
        return box
    return None


def _at(form: Form, var: Var, value: Expr, analyzer: Analyzer) -> Form:
    """A form where a variable has another value."""
    return form_of(substitute(build(dict(form[0]), form[1], var.dtype), {var: value}), analyzer)


def _still_box(
    region: BufferRegion, loops: Loops, conds: Sequence[Expr], given: Sequence[Expr], limits: Limits, known: Analyzer,
    before: Loops, missing: bool,
) -> Box | None:
    """``exact_box`` of a region whose place is a sum of digits of the loops."""
    once: dict[Var, Form | None] = {
        v: (NO_TERMS, r.min.value) for v, r in loops.items() if type(r.min) is IntImm and int_value(r.extent) == 1
    }
    forms = [form_of(r.min, known, once) for r in region.region]
    pending: Sequence[Expr] = ()
    if conds:
        conds = [part for c in conds for part in ([c] if c in given else _each(c, known, once))]
        taken = [(c, _forms(c, known, once)) for c in conds]
        pending = _pending(taken, given, forms, region, loops, limits, known, before)
    said = [f for c in pending for f in _forms(c, known, once) or [(NO_TERMS, -1)]]
    widths = [int_value(r.extent) or 0 for r in region.region]
    cuts = cuts_of(said, list(zip(forms, widths)), lambda t: uses(t, loops))
    if cuts is not None:
        box = _plain_box(forms, region.region, loops, known)
        if box is None and pending:
            box = _digits_box(region.region, loops, (), once, known, missing)
        if box is not None:
            return cut_off(box, cuts, known.never_negative, _either)
    if any(not uses(c, loops) for c in pending):
        return None
    box = _digits_box(region.region, loops, pending, once, known, missing)
    whole = [c for c in conds if uses(c, loops)]
    if box is None and len(whole) > len(pending):
        # What leaves out nothing of interest may yet be what makes the digits whole.
        box = _digits_box(region.region, loops, whole, once, known, missing)
    return box


def relaxed(cond: Expr, loops: Loops) -> list[Expr]:
    """What a comparison says of all else, if it holds in some iteration of loops.

    Args:
        cond: the condition.
        loops: those that run.
    """
    if not uses(cond, loops):
        return [cond]
    relaxer = Relaxer(loops)
    found: list[Expr] = []
    for terms, const in _forms(cond, relaxer.analyzer) or ():
        high = relaxer.forms(build(dict(terms), const, "int32"))[1]
        if high is not None and high[0]:
            low, k = tight(high)
            found.append(build(dict(low), k, "int32") >= 0)
    return found


def matched(pattern: BufferRegion, names: Collection[Var], target: BufferRegion) -> dict[Var, Expr] | None:
    """What stands in one region where some variables stand in another one that is the same function of them, or None.

    So a layout with gaps is seen to be filled as far as it is read: by asking whether the variables have had those values.

    Args:
        pattern: a region.
        names: its variables that are asked about; all else has to be the same in both.
        target: another region of the same buffer.

    Returns:
        An expression for each of the variables that the region depends on, in order of appearance.
    """
    found: dict[Var, Expr] = {}
    for x, y in zip(pattern.region, target.region):
        if not (_match(x.min, y.min, names, found) and _match(x.extent, y.extent, names, found)):
            return None
    return found


def _match(a: Expr, b: Expr, names: Collection[Var], found: dict[Var, Expr]) -> bool:
    if isinstance(a, Var) and a in names:
        return found.setdefault(a, b) == b
    if isinstance(a, BinOp) and isinstance(b, BinOp):
        return a.op == b.op and _match(a.a, b.a, names, found) and _match(a.b, b.b, names, found)
    return a == b and not any(v in names for v in free_vars(a))


def limits_within(region: BufferRegion, conds: Iterable[Expr]) -> Limits:
    """Per dimension, the constants between which conditions keep the elements of a region; None where they say nothing."""
    analyzer = Analyzer()
    indices = [(form_of(r.min, analyzer), int_value(r.extent) or 0) for r in region.region]
    return limits_of(indices, [f for c in conds if (found := _forms(c, analyzer)) and len(found) == 1 for f in found])


# -- conditions --------------------------------------------------------------------------------------------------------


def _forms(cond: Expr, analyzer: Analyzer, fixed: Mapping[Var, Form | None] = NO_FORMS) -> list[Form] | None:
    """The forms none of which is negative where a comparison holds; None for another condition."""
    if not isinstance(cond, BinOp) or cond.op not in COMPARED:
        return None
    return compared(cond.op, form_of(cond.a, analyzer, fixed), form_of(cond.b, analyzer, fixed))


def _each(cond: Expr, analyzer: Analyzer, fixed: Mapping[Var, Form | None]) -> list[Expr]:
    """A comparison as those with each operand of a ``min`` (or ``max``) in it, where it holds if all of these do."""
    for terms, const in _forms(cond, analyzer, fixed) or ():
        for t, c in terms.items():
            if isinstance(t, BinOp) and (t.op, c > 0) in (("min", True), ("max", False)):
                rest = build({u: x for u, x in terms.items() if u is not t}, const, t.dtype)
                return [part for side in (t.a, t.b) for part in _each(rest + side * c >= 0, analyzer, fixed)]
    return [cond]


def _pending(
    conds: Sequence[tuple[Expr, list[Form] | None]], given: Sequence[Expr], indices: Sequence[Form], region: BufferRegion,
    loops: Loops, limits: Limits, analyzer: Analyzer, before: Loops,
) -> list[Expr]:
    """The conditions that may leave out an element of interest; each comes with its forms."""
    # What begins outside of the buffer may reach into it, nobody knows how far.
    widths = [int_value(r.extent) for r in region.region]
    accesses = [(form, _ANY_LENGTH if width is None else width) for form, width in zip(indices, widths)]
    driving = {v for form in indices for t in form[0] for v in walk_expr(t) if type(v) is Var}
    for c, forms in conds:
        terms = [c] if forms is None else [t for form in forms for t in form[0] if type(t) is not Var]
        driving.update(v for t in terms for v in walk_expr(t) if type(v) is Var)

    def left(asked: Sequence[tuple[Expr, list[Form] | None]], idle: Mapping[Var, Span]) -> list[Expr]:
        every = [f for _, forms in asked for f in forms or ()]
        found = left_out(every, accesses, region.buffer.shape, idle, limits, analyzer.never_negative)
        return [c for c, forms in asked if forms is None or any(f in found for f in forms)]

    idle: dict[Var, Span] = {}
    for var, r in loops.items():
        lo, n = int_value(r.min), int_value(r.extent)
        if var not in driving and lo is not None:
            idle[var] = lo, 1 if n is None else n
    pending = left([(c, forms) for c, forms in conds if c not in given], idle)
    pending = [c for c in pending if not analyzer.can_prove(c) and not _outside_without(c, region, analyzer)]
    if pending and before:
        # What the first iteration has touched, later ones find there. All conditions have to hold in that one.
        first = {v: (lo, 1) for v, r in before.items() if v not in driving and (lo := int_value(r.min)) is not None}
        if first and not left(conds, {**idle, **first}):
            return []
    return pending


def _either(smaller: bool, a: Form, b: Form) -> Form:
    """The smaller (or the larger) of two ends, as a term of its own."""
    op = "min" if smaller else "max"
    return {BinOp(op, build(dict(a[0]), a[1], "int32"), build(dict(b[0]), b[1], "int32"), "int32"): 1}, 0


def _outside_without(cond: Expr, region: BufferRegion, analyzer: Analyzer) -> bool:
    """Whether a region lies outside of its buffer wherever a condition does not hold."""
    with analyzer.with_constraint(logical_not(cond)):
        return any(
            analyzer.can_prove(r.min + r.extent <= 0) or analyzer.can_prove(r.min >= size)
            for r, size in zip(region.region, region.buffer.shape)
        )


# -- boxes -------------------------------------------------------------------------------------------------------------


def _spans(loops: Loops) -> dict[Var, Span]:
    """The ranges of the loops that have constant ones."""
    return {
        v: (r.min.value, r.extent.value) for v, r in loops.items()
        if type(r.min) is IntImm and type(r.extent) is IntImm and r.extent.value > 0
    }


def _runs(conds: Sequence[Expr], loops: Loops, fixed: Mapping[Var, Form | None], analyzer: Analyzer) -> bool:
    """Whether conditions hold together in one iteration of some loops; False where none is found."""
    forms = [_forms(c, analyzer, fixed) for c in conds]
    if None not in forms and some_run([f for found in forms for f in found or ()], _spans(loops), analyzer.never_negative):
        return True
    return all(analyzer.can_prove(c) for c in without({v: r.min for v, r in loops.items()}, conds))


def _plain_box(forms: Sequence[Form], ranges: Sequence[Range], loops: Loops, analyzer: Analyzer) -> Box | None:
    """The box of indices that are affine in the loops that move them; None where it has holes or there are none such."""
    inner = _spans(loops)
    indices: list[tuple[Form, int]] = []
    tails: list[Form] = []
    for (terms, const), r in zip(forms, ranges):
        width = int_value(r.extent)
        moving = [t for t in terms if uses(t, loops)]
        tail: Form = NO_TERMS, 0
        long = [t for t in moving if t not in inner]
        if width is None:
            if moving or uses(r.extent, loops):
                return None
            size = form_of(r.extent, analyzer)
            tail = size[0], size[1] - 1
        elif long:
            # A symbolic loop leaves no holes where it steps by one over everything below it.
            loop = loops.get(long[0])
            if len(moving) > 1 or loop is None or terms[long[0]] != 1 or width != 1 or int_value(loop.min) != 0:
                return None
            if int_value(loop.extent) is not None:
                return None
            size = form_of(loop.extent, analyzer)
            inner[long[0]] = 0, 1
            tail = size[0], size[1] - 1
        indices.append(((terms, const), 1 if width is None else width))
        tails.append(tail)
    box = swept(indices, inner)
    if not all(whole for _, _, whole in box):
        return None
    return [(low, plus(high, tail, 1), whole) for (low, high, whole), tail in zip(box, tails)]


def _digits_box(
    ranges: Sequence[Range], loops: Loops, conds: Sequence[Expr], fixed: Mapping[Var, Form | None], analyzer: Analyzer,
    missing: bool,
) -> Box | None:
    """The box of indices that are independent digits of the loops where conditions hold, if they do anywhere."""
    if conds and not _runs(conds, loops, fixed, analyzer):
        return None
    predicate: Expr = TRUE
    for c in conds:
        predicate = c if predicate == TRUE else BinOp("and", predicate, c, "bool")
    mins = [r.min for r in ranges]
    result = _digits(mins, loops, predicate, analyzer)
    if not result and missing and all(v in loops for e in (*mins, *conds) for v in free_vars(e)):
        # Whatever stands still, the same elements are touched: what is left out now never is.
        result = detect_iter_map(mins, loops, predicate, "none")
    if not result:
        return None
    box: Box = []
    for total, r in zip(result.indices, ranges):
        side = _digits_side(total, r, loops, analyzer)
        if side is None:
            return None
        box.append(side)
    return box


def _digits(mins: Sequence[Expr], loops: Loops, predicate: Expr, analyzer: Analyzer) -> IterMapResult:
    result = detect_iter_map(mins, loops, predicate, "surjective")
    if not result and predicate != TRUE and (fixed := pinned(loops, predicate)):
        result = detect_iter_map(without(fixed, mins), loops, without(fixed, [predicate])[0], "surjective")
    if not result:
        # What is known of what stands still may make divisions exact that are not so as they are written.
        result = detect_iter_map([analyzer.simplify(e) for e in mins], loops, predicate, "surjective", analyzer)
    return result


def _digits_side(total: IterSum, r: Range, loops: Loops, analyzer: Analyzer) -> Side | None:
    base = form_of(as_expr(total.base, r.min.dtype), analyzer)
    width = int_value(r.extent)
    if not total.args:
        size = form_of(r.extent, analyzer)
        return None if uses(r.extent, loops) else (base, plus((base[0], base[1] - 1), size, 1), True)
    if width is None:
        return None
    steps = [(s.scale, s.extent) for s in total.args]
    plain = [(c, n) for c, n in steps if isinstance(c, int) and isinstance(n, int)]
    if len(plain) == len(steps):
        if not gapless([(abs(c), n) for c, n in plain], width):
            return None
        low = base[1] + sum(min(0, c * (n - 1)) for c, n in plain)
        high = base[1] + sum(max(0, c * (n - 1)) for c, n in plain) + width - 1
        return (base[0], low), (base[0], high), True
    scale, count = steps[0]
    if len(steps) > 1 or not isinstance(scale, int) or abs(scale) > width:
        return None
    n = form_of(as_expr(count, r.min.dtype), analyzer)
    end = plus(base, (n[0], n[1] - 1), scale)
    low_end, high_end = (base, end) if scale >= 0 else (end, base)
    return low_end, (high_end[0], high_end[1] + width - 1), True

